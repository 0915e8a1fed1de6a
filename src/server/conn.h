/* SPDX-License-Identifier: Apache-2.0
 *
 * RESP connections: bytes in, commands, answers in order, bytes out.
 *
 * The loop's thread reads what has come from every connection into one shared buffer, starts the
 * commands, and hands the calls of all connections to the service in one piece before it sleeps
 * again. Answers come back from the store's threads through a list without locks and one wake-up.
 *
 * Every connection is bounded: commands under way, bytes of one command, bytes not yet sent. At a
 * bound it is not read from any more until it has caught up, so that a slow or greedy one holds up
 * nobody but itself; one whose bytes stay unsent for ONCE_SLOW_READER_MS is closed. Before someone
 * is known all bounds are small.
 */
#ifndef ONCE_SERVER_CONN_H
#define ONCE_SERVER_CONN_H

#include <uv.h>

#include "server/command.h"

struct once__conns; /* all of them, on one loop. The process ignores SIGPIPE */

struct once__conns_setup {
    uv_loop_t *loop;
    struct once__server *server;
    struct once__service *service;
    struct once__access *access;
    struct once__lane *looks; /* for ONCE__JOB */
    struct once__metrics *metrics;
    struct once__log *log;
    struct once__tls *tls; /* NULL: no TLS */
};

ONCE_MUST_CHECK int once__conns_new(const struct once__conns_setup *setup,
                                    struct once__config *config, struct once__conns **ret_conns);
/* Binds and listens. ONCE_ERR_IO with the reason in the message. ret_port: what 0 became. */
ONCE_MUST_CHECK int once__conns_listen(struct once__conns *conns, const struct once__listen *where,
                                       uint16_t *ret_port, struct once_message *ret_message);
/* The unix socket, mode 0600; one that a dead process left behind is replaced. */
ONCE_MUST_CHECK int once__conns_listen_unix(struct once__conns *conns, const char *path,
                                            struct once_message *ret_message);
/* From now on this configuration; sessions that it does not know any more are closed. */
void once__conns_configure(struct once__conns *conns, struct once__config *config);
/* Accepts nobody any more, reads no further commands, answers what is under way, and closes each
 * connection when its answers are sent; emptied is called when none is left. cut: at once. */
void once__conns_drain(struct once__conns *conns, void (*emptied)(void *user), void *user);
void once__conns_cut(struct once__conns *conns);
/* Calls each for every connection, for CLIENT LIST. */
void once__conns_each(struct once__conns *conns,
                      void (*each)(void *user, const struct once__session *session), void *user);
size_t once__conns_count(const struct once__conns *conns);
/* After emptied, and before the loop is closed; before emptied it cuts, and runs the loop until
 * everything is back. Accepts NULL. */
void once__conns_free(struct once__conns *conns);

#endif
