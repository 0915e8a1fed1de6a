/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP and JSON, with libmicrohttpd on a thread of its own. Routes are declared as data; the
 * OpenAPI document comes from the same table. A request that calls the store is suspended and goes
 * on when its call is done; errors are problem details (RFC 9457).
 */
#ifndef ONCE_SERVER_HTTP_H
#define ONCE_SERVER_HTTP_H

#include "server/service.h"
#include "server/tls.h"

struct once__http;
struct once__server;

struct once__http_setup {
    struct once__server *server;
    struct once__service *service;
    struct once__access *access;
    struct once__lane *looks;
    struct once__metrics *metrics;
    struct once__log *log;
    struct once__tls *tls;
};

ONCE_MUST_CHECK int once__http_new(const struct once__http_setup *setup,
                                   struct once__config *config, struct once__http **ret_http);
/* One listener. ONCE_ERR_IO with the reason in the message. */
ONCE_MUST_CHECK int once__http_listen(struct once__http *http, const struct once__listen *where,
                                      uint16_t *ret_port, struct once_message *ret_message);
void once__http_configure(struct once__http *http, struct once__config *config);
/* Accepts nobody any more; what is under way is answered (with "Connection: close"). */
void once__http_drain(struct once__http *http);
size_t once__http_pending(const struct once__http *http); /* requests under way */
/* Stops the thread and frees it; calls of this host were told before. Accepts NULL. */
void once__http_free(struct once__http *http);

/* The OpenAPI document. */
ONCE_MUST_CHECK int once__http_openapi(struct once_buf *out);

#endif
