/* SPDX-License-Identifier: Apache-2.0
 *
 * A server from its start to its end: opens the store on a thread beside, looks every second
 * whether a write has failed (INV-8), drains when it is told to stop, and closes the store last.
 *
 *     LOADING ──store_opened──▶ READY ──once__server_drain──▶ DRAINING ──settle──▶ the end
 *        └────────────────────────┴──once__server_fail──▶ FAILED ──settle──▶ the end
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "server/notify.h"
#include "server/room.h"
#include "server/server_inner.h"
#include "store/postgres/pg.h"

enum {
    SECOND_MS = 1000,
    SETTLE_MS = 5,
    FAILED_DRAIN_MS = 1000,
    LOCKED_MS = 3000, /* a folder in use is waited for so long, */
    LOCKED_STEP_MS = 5,
    SHARED_MS = 5000, /* and a database that does not answer */
    SHARED_STEP_MS = 250
};

/* ---- Opening --------------------------------------------------------------------------------- */

static void note_progress(void *user, uint64_t done, uint64_t all)
{
    struct once__server *server = user;

    atomic_store(&server->loaded, done);
    atomic_store(&server->to_load, all);
}

/* Commands that have no server hold a folder for a moment each, many of them one after the
 * other. */
static int open_folder(struct once__server *server, const char *folder,
                       const struct once_options *options)
{
    int err;

    for (int waited_ms = 0;; waited_ms += LOCKED_STEP_MS) {
        err = once_open(folder, options, &server->store, &server->open_message);
        if (err != ONCE_ERR_LOCKED || waited_ms >= LOCKED_MS)
            return err;
        uv_sleep(LOCKED_STEP_MS);
    }
}

static void note_said(void *user, enum once__pg_level level, const char *event, const char *text)
{
    static const enum once__log_level levels[] = {[ONCE__PG_ERROR] = ONCE__LOG_ERROR,
                                                  [ONCE__PG_WARN] = ONCE__LOG_WARN,
                                                  [ONCE__PG_INFO] = ONCE__LOG_INFO};
    struct once__server *server = user;

    once__log_event(server->log, levels[level], event,
                    (struct once__field[]){{"what", .text = text}, {.name = NULL}});
}

/* A database that is being started, or gives its place to another, is waited for; one that refuses
 * us is not. */
static int open_shared(struct once__server *server, const struct once__config *config)
{
    const struct once__pg_setup setup = {.url = config->store_url,
                                         .accept_loss = config->accept_loss,
                                         .say = note_said,
                                         .user = server};
    uint64_t end_ns = once__now_ns() + (uint64_t)SHARED_MS * 1000000;
    bool said = false;

    for (;;) {
        int err = once__pg_open(&setup, &server->store, &server->open_message);

        if (err != ONCE_ERR_IO || once__now_ns() >= end_ns ||
            atomic_load(&server->phase) != ONCE__LOADING)
            return err;
        if (!said)
            note_said(server, ONCE__PG_WARN, "store_awaited", server->open_message.text);
        said = true;
        uv_sleep(SHARED_STEP_MS);
    }
}

/* On its own thread. */
static void open_store(void *user)
{
    struct once__server *server = user;
    const struct once__config *config = server->setup.config; /* a reload may come meanwhile */
    struct once_options options = config->store;

    options.progress = note_progress;
    options.progress_user = server;
    if (server->setup.open)
        server->open_err = server->setup.open(server->setup.user, config, &server->store,
                                              &server->open_message);
    else if (config->store_url)
        server->open_err = open_shared(server, config);
    else
        server->open_err = open_folder(server, config->folder, &options);
    atomic_store(&server->opened, true);
    (void)uv_async_send(&server->wake);
}

static void log_ready(struct once__server *server)
{
    const struct once__config *config = server->config;
    struct once__field fields[8] = {{.name = NULL}};
    char url[ONCE_STORE_URL_SIZE_MAX + 64];
    struct once_stats stats;
    size_t n = 0;

    once_stats_get(server->store, &stats);
    if (config->store_url) {
        once__pg_url_shown(config->store_url, url, sizeof(url));
        fields[n++] = (struct once__field){"store", .text = url};
    } else {
        fields[n++] = (struct once__field){"folder", .text = config->folder};
    }
    if (config->resp_count > 0)
        fields[n++] = (struct once__field){"resp_port", .number = server->resp_ports[0]};
    if (config->http_count > 0)
        fields[n++] = (struct once__field){"http_port", .number = server->http_ports[0]};
    if (config->socket)
        fields[n++] = (struct once__field){"socket", .text = config->socket};
    if (!config->store_url) { /* a shared store has not been counted yet */
        fields[n++] = (struct once__field){"keys", .number = (int64_t)stats.keys};
        fields[n++] = (struct once__field){"in_doubt_or_running",
                                           .number = (int64_t)stats.keys_open};
        fields[n++] = (struct once__field){"opened_ms", .number = stats.recovery_ms};
    }
    ONCE_ASSERT(n < sizeof(fields) / sizeof(fields[0]));
    once__log_event(server->log, ONCE__LOG_INFO, "ready", fields);
}

/* A folder is ours from here on: whatever lies at the socket's path in it belongs to the dead. */
static int listen_unix(struct once__server *server, struct once_message *message)
{
    if (!server->config->socket)
        return ONCE_OK;
    return once__conns_listen_unix(server->conns, server->config->socket, message);
}

static void store_opened(struct once__server *server)
{
    int err;

    (void)uv_thread_join(&server->opener);
    server->opening = false;
    if (server->open_err != ONCE_OK) {
        once__server_fail(server, server->open_err, server->open_message.text);
        return;
    }
    if (atomic_load(&server->phase) != ONCE__LOADING)
        return; /* told to stop meanwhile */
    err = listen_unix(server, &server->open_message);
    if (err != ONCE_OK) {
        once__server_fail(server, err, server->open_message.text);
        return;
    }
    once__service_open(server->service, server->store);
    atomic_store(&server->ready_ms, once__server_now_ms());
    atomic_store(&server->phase, ONCE__READY);
    log_ready(server);
    once__notify("READY=1\nSTATUS=Ready");
}

static void log_progress(struct once__server *server)
{
    uint64_t done = atomic_load(&server->loaded), all = atomic_load(&server->to_load);
    char status[64];

    once__log_event(server->log, ONCE__LOG_INFO, "loading",
                    (struct once__field[]){{"bytes", .number = (int64_t)done},
                                           {"of", .number = (int64_t)all},
                                           {.name = NULL}});
    snprintf(status, sizeof(status), "STATUS=Loading, %u %%",
             all > 0 ? (unsigned)((double)done * 100 / (double)all) : 0U);
    once__notify(status);
}

static void on_second(uv_timer_t *timer)
{
    struct once__server *server = timer->data;
    struct once_stats stats;

    if (server->opening && !atomic_load(&server->opened)) {
        if (!server->config->store_url) /* there nothing is read: no progress, only an answer */
            log_progress(server);
        return;
    }
    if (!server->store || server->end_err != ONCE_OK)
        return;
    once_stats_get(server->store, &stats);
    if (stats.stopped)
        once__server_fail(server, ONCE_ERR_STOPPED,
                          "a write to the store's disk failed: nothing more is acknowledged; see "
                          "to the disk, then start again");
}

/* ---- Stopping -------------------------------------------------------------------------------- */

static void settle(struct once__server *server)
{
    bool http_done = once__http_pending(server->http) == 0 || server->cut;

    if (server->emptied && http_done && once__service_pending(server->service) == 0 &&
        !server->opening)
        uv_stop(&server->loop);
}

static void on_settle(uv_timer_t *timer)
{
    settle(timer->data);
}

static void on_emptied(void *user)
{
    struct once__server *server = user;

    server->emptied = true;
    settle(server);
}

static void cut(struct once__server *server)
{
    if (server->cut)
        return;
    server->cut = true;
    once__log_event(
        server->log, ONCE__LOG_WARN, "cut",
        (struct once__field[]){{"connections", .number = (int64_t)once__conns_count(server->conns)},
                               {.name = NULL}});
    once__access_end(server->access);
    once__conns_cut(server->conns);
}

static void on_deadline(uv_timer_t *timer)
{
    cut(timer->data);
}

void once__server_drain(struct once__server *server, once_ms drain_ms)
{
    int phase = atomic_load(&server->phase);

    if (phase == ONCE__DRAINING || uv_is_active((const uv_handle_t *)&server->settle))
        return;
    if (phase != ONCE__FAILED)
        atomic_store(&server->phase, ONCE__DRAINING);
    once__notify("STOPPING=1\nSTATUS=Draining");
    once__log_event(
        server->log, ONCE__LOG_INFO, "draining",
        (struct once__field[]){{"connections", .number = (int64_t)once__conns_count(server->conns)},
                               {"calls", .number = (int64_t)once__service_pending(server->service)},
                               {"at_most_ms", .number = drain_ms},
                               {.name = NULL}});
    (void)uv_timer_start(&server->settle, on_settle, SETTLE_MS, SETTLE_MS);
    (void)uv_timer_start(&server->deadline, on_deadline, (uint64_t)drain_ms, 0);
    once__http_drain(server->http);
    once__service_drain(server->service);
    once__conns_drain(server->conns, on_emptied, server);
}

void once__server_fail(struct once__server *server, int err, const char *what)
{
    if (server->end_err != ONCE_OK)
        return;
    server->end_err = err;
    snprintf(server->end_message.text, sizeof(server->end_message.text), "%s",
             what[0] ? what : once_err_text(err));
    atomic_store(&server->phase, ONCE__FAILED);
    once__log_event(server->log, ONCE__LOG_ERROR, "failed",
                    (struct once__field[]){{"error", .text = once_err_name(err)},
                                           {"what", .text = server->end_message.text},
                                           {.name = NULL}});
    once__server_drain(server, FAILED_DRAIN_MS);
}

void once__server_stop(struct once__server *server)
{
    atomic_store(&server->stop_asked, true);
    (void)uv_async_send(&server->wake);
}

void once__server_reload(struct once__server *server)
{
    atomic_store(&server->reload_asked, true);
    (void)uv_async_send(&server->wake);
}

static void on_wake(uv_async_t *wake)
{
    struct once__server *server = wake->data;

    if (server->opening && atomic_load(&server->opened))
        store_opened(server);
    if (atomic_exchange(&server->stop_asked, false))
        once__server_drain(server, server->config->drain_ms_max);
    if (atomic_exchange(&server->reload_asked, false))
        once__server_reload_now(server);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct once__server *server = handle->data;

    if (number == SIGHUP) {
        once__server_reload_now(server);
        return;
    }
    once__log_event(server->log, ONCE__LOG_INFO, "signal",
                    (struct once__field[]){{"name", .text = number == SIGTERM ? "TERM" : "INT"},
                                           {.name = NULL}});
    server->stop_signals++;
    if (server->stop_signals == 1)
        once__server_drain(server, server->config->drain_ms_max);
    else if (server->stop_signals == 2 && !server->opening)
        cut(server);
    else
        _exit(EXIT_FAILURE); /* a store survives this at any moment */
}

/* ---- Running --------------------------------------------------------------------------------- */

int once__server_start_handles(struct once__server *server)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    uv_loop_t *loop = &server->loop;

    if (uv_async_init(loop, &server->wake, on_wake) != 0 ||
        uv_timer_init(loop, &server->second) != 0 || uv_timer_init(loop, &server->deadline) != 0 ||
        uv_timer_init(loop, &server->settle) != 0)
        return ONCE_ERR_MEMORY;
    server->wake.data = server->second.data = server->deadline.data = server->settle.data = server;
    if (uv_timer_start(&server->second, on_second, SECOND_MS, SECOND_MS) != 0)
        return ONCE_ERR_MEMORY;
    for (size_t i = 0; server->setup.signals && i < 3; i++) {
        if (uv_signal_init(loop, &server->signals[i]) != 0 ||
            uv_signal_start(&server->signals[i], on_signal, numbers[i]) != 0)
            return ONCE_ERR_MEMORY;
        server->signals[i].data = server;
    }
    return ONCE_OK;
}

/* Hosts first, then who works for them, then the store. */
static int end(struct once__server *server)
{
    int err;

    once__http_free(server->http);
    server->http = NULL;
    once__lane_free(server->looks);
    server->looks = NULL;
    err = once_close(server->store);
    server->store = NULL;
    if (err != ONCE_OK && server->end_err == ONCE_OK) {
        server->end_err = err;
        snprintf(server->end_message.text, sizeof(server->end_message.text),
                 "the store could not be sealed: %s", once_err_text(err));
    }
    once__log_event(
        server->log, server->end_err == ONCE_OK ? ONCE__LOG_INFO : ONCE__LOG_ERROR, "stopped",
        (struct once__field[]){{"error", .text = once_err_name(server->end_err)}, {.name = NULL}});
    return server->end_err;
}

int once__server_run(struct once__server *server, struct once_message *ret_message)
{
    int err;

    server->opening = true;
    if (uv_thread_create(&server->opener, open_store, server) != 0) {
        server->opening = false;
        snprintf(ret_message->text, sizeof(ret_message->text), "no thread can be started");
        return ONCE_ERR_MEMORY;
    }
    (void)uv_run(&server->loop, UV_RUN_DEFAULT);
    ONCE_ASSERT(server->emptied && !server->opening);
    err = end(server);
    if (err != ONCE_OK)
        *ret_message = server->end_message;
    return err;
}
