/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection to a server: TCP, a unix socket, or TLS over TCP. Nothing here waits longer than
 * until a deadline.
 */
#ifndef ONCE_CLIENT_LINK_H
#define ONCE_CLIENT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gnutls/gnutls.h>

#include <once/store.h>

/* Where a server is. */
struct once__address {
    bool local; /* path is a unix socket; else host and port */
    bool tls;
    char path[108];
    char host[256];
    char port[6];
};
/* ONCE_ERR_INVALID: the message says what is wrong with it. */
ONCE_MUST_CHECK int once__address_read(const char *text, struct once__address *ret_address,
                                       struct once_message *ret_message);

struct once__link {
    int fd;     /* -1: not connected */
    bool heard; /* something came over it */
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
};
#define ONCE__LINK_CLOSED                                                                          \
    (struct once__link)                                                                            \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* A point of CLOCK_MONOTONIC. */
once_ms once__link_now_ms(void);

/* Connects, and shakes hands over TLS: the certificate must be signed by someone in tls_ca (NULL:
 * whom the system trusts) and be made for the host of the address. ONCE_ERR_IO. */
ONCE_MUST_CHECK int once__link_open(const struct once__address *address, const char *tls_ca,
                                    once_ms deadline_ms, struct once__link *ret_link,
                                    struct once_message *ret_message);
/* Is closed then. Accepts one that is closed. */
void once__link_close(struct once__link *link);

/* So many bytes were sent, or read; 0: not now. ONCE_ERR_IO: it is over. */
ONCE_MUST_CHECK long once__link_send(struct once__link *link, const uint8_t *bytes, size_t size,
                                     struct once_message *ret_message);
ONCE_MUST_CHECK long once__link_read(struct once__link *link, uint8_t *bytes, size_t size,
                                     struct once_message *ret_message);
/* Waits until something can be read, or sent if sending. ONCE_ERR_IO: the deadline passed. */
ONCE_MUST_CHECK int once__link_wait(struct once__link *link, bool sending, once_ms deadline_ms,
                                    struct once_message *ret_message);

/* client_tls.c. link->fd is connected. */
ONCE_MUST_CHECK int once__link_secure(struct once__link *link, const char *host, const char *tls_ca,
                                      once_ms deadline_ms, struct once_message *ret_message);
ONCE_MUST_CHECK long once__link_secure_send(struct once__link *link, const uint8_t *bytes,
                                            size_t size, struct once_message *ret_message);
ONCE_MUST_CHECK long once__link_secure_read(struct once__link *link, uint8_t *bytes, size_t size,
                                            struct once_message *ret_message);
void once__link_secure_end(struct once__link *link); /* accepts one without TLS */

/* Writes the message; accepts NULL. Returns err. */
int once__link_fail(struct once_message *ret_message, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
