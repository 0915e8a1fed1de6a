/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the server share. Everything without a word on it belongs to the loop's thread.
 */
#ifndef ONCE_SERVER_SERVER_INNER_H
#define ONCE_SERVER_SERVER_INNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "server/server.h"
#include "server/tls.h"

struct once__server {
    struct once__server_setup setup;
    struct once__config *config;

    struct once__log *log;
    struct once__metrics *metrics;
    struct once__stats *stats;
    struct once__lane *auth;  /* compares passwords */
    struct once__lane *looks; /* reads what takes time */
    struct once__access *access;
    struct once__service *service;
    struct once__tls *tls; /* NULL: none */
    struct once__conns *conns;
    struct once__http *http;
    uint16_t resp_ports[ONCE_LISTENERS_MAX];
    uint16_t http_ports[ONCE_LISTENERS_MAX];

    uv_loop_t loop;
    bool has_loop;
    uv_async_t wake;     /* someone asked for something, or the store is open */
    uv_timer_t second;   /* progress while loading; afterwards: has a write failed? */
    uv_timer_t deadline; /* of draining */
    uv_timer_t settle;   /* while draining: is everything answered? */
    uv_signal_t signals[3];

    /* The thread that opens the store, from its start until it was joined. */
    uv_thread_t opener;
    bool opening;
    _Atomic bool opened; /* it is done: what it found is in the next three */
    struct once_store *store;
    int open_err;
    struct once_message open_message;

    /* Any thread. */
    _Atomic int phase;
    _Atomic uint64_t loaded;
    _Atomic uint64_t to_load;
    _Atomic uint64_t ready_ms;
    uint64_t started_ms;
    char run_id[41];
    _Atomic bool stop_asked;
    _Atomic bool reload_asked;

    bool emptied; /* no RESP connection is left */
    bool cut;
    int stop_signals;
    int end_err; /* why run ends */
    struct once_message end_message;
};

/* Timers, signals and the wake-up. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__server_start_handles(struct once__server *server);
/* The store could not be opened, or a write failed: says so, and ends the server. */
void once__server_fail(struct once__server *server, int err, const char *what);
/* Begins to drain; the first one counts. */
void once__server_drain(struct once__server *server, once_ms drain_ms);
/* Reads configuration, certificates and log file again. */
void once__server_reload_now(struct once__server *server);
/* As many open files as the configuration's connections need, as far as the system allows. */
void once__server_raise_files(struct once__server *server);
/* Since 1970. */
uint64_t once__server_now_ms(void);

#endif
