/* SPDX-License-Identifier: Apache-2.0
 *
 * A server: one store, RESP and HTTP in front of it, from start to drain.
 *
 *     new (listens, says "loading")  →  run: opens the store on a thread beside, with progress  →
 *     ready  →  stop: drains  →  the store is closed  →  run returns  →  free
 */
#ifndef ONCE_SERVER_SERVER_H
#define ONCE_SERVER_SERVER_H

#include "server/config.h"
#include "server/conn.h"
#include "server/http.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/stats.h"

struct once__server;

struct once__server_setup {
    struct once__config *config; /* a reference is taken */
    /* How to open the store; NULL: once_open with the configuration's folder and options. Tests
     * put a clock of their own behind it. Called on a thread beside. */
    int (*open)(void *user, const struct once__config *config, struct once_store **ret_store,
                struct once_message *ret_message);
    void *user;
    /* Handle SIGTERM and SIGINT (drain; a second one cuts) and SIGHUP (reload). */
    bool signals;
    /* Reads the configuration again, for a reload; NULL: a reload changes nothing but
     * certificates and the log file. */
    int (*reload)(void *user, struct once__config **ret_config,
                  struct once__config_error *ret_error);
};

/* Binds every port, so that one in use is known before anything else. The unix socket is bound when
 * the store is open: then the folder is ours, and what lies there belongs to the dead. The message
 * says what failed. */
ONCE_MUST_CHECK int once__server_new(const struct once__server_setup *setup,
                                     struct once__server **ret_server,
                                     struct once_message *ret_message);
/* Until it was stopped. ONCE_OK: drained and sealed. Otherwise why it ended: the store could not be
 * opened, or a write failed (INV-8); the message says more. */
ONCE_MUST_CHECK int once__server_run(struct once__server *server, struct once_message *ret_message);
/* Any thread. */
void once__server_stop(struct once__server *server);
void once__server_reload(struct once__server *server);
void once__server_free(struct once__server *server); /* accepts NULL */

enum once__phase {
    ONCE__LOADING, /* the store is being opened */
    ONCE__READY,
    ONCE__DRAINING,
    ONCE__FAILED /* a write failed, or the store could not be opened: nothing is acknowledged */
};
struct once__status {
    enum once__phase phase;
    uint64_t loaded, to_load; /* LOADING: bytes; 0 of 0 when nothing is known yet */
    uint64_t started_ms;      /* since 1970 */
    uint64_t ready_ms;        /* 0: not yet */
    bool unreachable;         /* READY, but the shared store does not answer now */
    char run_id[41];          /* of this process, for INFO */
};
/* Any thread. */
struct once__status once__server_status(const struct once__server *server);
uint16_t once__server_resp_port(const struct once__server *server, size_t index);
uint16_t once__server_http_port(const struct once__server *server, size_t index);

/* For INFO, CLIENT LIST, /metrics, … */
struct once__conns *once__server_conns(const struct once__server *server);
struct once__service *once__server_service(const struct once__server *server);
struct once__metrics *once__server_metrics(const struct once__server *server);
struct once__stats *once__server_stats(const struct once__server *server);
struct once__log *once__server_log(const struct once__server *server);
struct once__access *once__server_access(const struct once__server *server);

#endif
