/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts a server together and takes it apart. What happens in between is in server_run.c.
 */
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/assert.h"
#include "base/random.h"
#include "server/server_inner.h"

enum {
    AUTH_THREADS = 1,
    LOOK_THREADS = 2,
    FILES_BESIDE = 256 /* of the store, the log, the loop and the listeners */
};

static int tell(struct once_message *message, int err, const char *what)
{
    if (message->text[0] == '\0')
        snprintf(message->text, sizeof(message->text), "%s: %s", what, once_err_text(err));
    return err;
}

uint64_t once__server_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int make_run_id(struct once__server *server)
{
    uint8_t random[20];
    int err = once__random_bytes(random, sizeof(random));

    if (err != ONCE_OK)
        return err;
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(server->run_id + 2 * i, 3, "%02x", random[i]);
    return ONCE_OK;
}

/* Every connection is a file. What the system refuses is told, and fewer can connect. */
void once__server_raise_files(struct once__server *server)
{
    struct rlimit limit;
    rlim_t needed = (rlim_t)server->config->connections_max + ONCE_OPEN_FILES_MAX + FILES_BESIDE;
    rlim_t wanted;

    if (server->config->http_count > 0)
        needed += ONCE_HTTP_CONNECTIONS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return;
    wanted = limit.rlim_max;
    if (limit.rlim_max < needed) {
        struct rlimit more = {.rlim_cur = needed, .rlim_max = needed};

        if (setrlimit(RLIMIT_NOFILE, &more) == 0)
            return;
    } else {
        wanted = needed;
    }
    limit.rlim_cur = wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || wanted < needed)
        once__log_event(
            server->log, ONCE__LOG_WARN, "few_files",
            (struct once__field[]){{"allowed", .number = (int64_t)limit.rlim_cur},
                                   {"needed", .number = (int64_t)needed},
                                   {"advice", .text = "raise the limit of open files (LimitNOFILE, "
                                                      "ulimit -n), or lower connections_max"},
                                   {.name = NULL}});
}

/* The parts that need no loop. */
static int make_parts(struct once__server *server, struct once_message *message)
{
    struct once__config *config = server->config;
    int error = 0, err = once__log_new(config, &server->log, &error);

    if (err == ONCE_ERR_IO) {
        snprintf(message->text, sizeof(message->text), "log_file '%.500s' cannot be opened: %s",
                 config->log_file, strerror(error));
        return ONCE_ERR_INVALID;
    }
    if (err == ONCE_OK)
        err = make_run_id(server);
    if (err == ONCE_OK)
        err = once__metrics_new(&server->metrics);
    if (err == ONCE_OK)
        err = once__stats_new(&server->stats);
    if (err == ONCE_OK)
        err = once__lane_new(AUTH_THREADS, ONCE_AUTH_JOBS_MAX, &server->auth);
    if (err == ONCE_OK)
        err = once__lane_new(LOOK_THREADS, ONCE_LOOK_JOBS_MAX, &server->looks);
    if (err == ONCE_OK)
        err = once__access_new(server->auth, &server->access);
    if (err == ONCE_OK)
        err = once__service_new(&(struct once__service_setup){.metrics = server->metrics,
                                                              .access = server->access,
                                                              .log = server->log},
                                &server->service);
    if (err == ONCE_OK && config->tls_cert)
        err = once__tls_new(config->tls_cert, config->tls_key, &server->tls, message);
    return err;
}

static int make_hosts(struct once__server *server)
{
    const struct once__conns_setup conns = {.loop = &server->loop,
                                            .server = server,
                                            .service = server->service,
                                            .access = server->access,
                                            .looks = server->looks,
                                            .metrics = server->metrics,
                                            .log = server->log,
                                            .tls = server->tls};
    const struct once__http_setup http = {.server = server,
                                          .service = server->service,
                                          .access = server->access,
                                          .looks = server->looks,
                                          .metrics = server->metrics,
                                          .log = server->log,
                                          .tls = server->tls};
    int err;

    if (uv_loop_init(&server->loop) != 0)
        return ONCE_ERR_MEMORY;
    server->has_loop = true;
    err = once__server_start_handles(server);
    if (err == ONCE_OK)
        err = once__conns_new(&conns, server->config, &server->conns);
    if (err == ONCE_OK)
        err = once__http_new(&http, server->config, &server->http);
    return err;
}

static void log_listening(struct once__server *server, const char *protocol,
                          const struct once__listen *where, uint16_t port)
{
    once__log_event(server->log, ONCE__LOG_INFO, "listening",
                    (struct once__field[]){{"protocol", .text = protocol},
                                           {"host", .text = where->host},
                                           {"port", .number = port},
                                           {"tls", .text = where->tls ? "yes" : "no"},
                                           {.name = NULL}});
}

static int listen_all(struct once__server *server, struct once_message *message)
{
    const struct once__config *config = server->config;
    int err = ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < config->resp_count; i++) {
        err = once__conns_listen(server->conns, &config->resp[i], &server->resp_ports[i], message);
        if (err == ONCE_OK)
            log_listening(server, "resp", &config->resp[i], server->resp_ports[i]);
    }
    for (size_t i = 0; err == ONCE_OK && i < config->http_count; i++) {
        err = once__http_listen(server->http, &config->http[i], &server->http_ports[i], message);
        if (err == ONCE_OK)
            log_listening(server, "http", &config->http[i], server->http_ports[i]);
    }
    return err;
}

int once__server_new(const struct once__server_setup *setup, struct once__server **ret_server,
                     struct once_message *ret_message)
{
    struct once__server *server = calloc(1, sizeof(*server));
    struct once_message message = {{0}};
    int err;

    if (!server) {
        snprintf(ret_message->text, sizeof(ret_message->text), "%s",
                 once_err_text(ONCE_ERR_MEMORY));
        return ONCE_ERR_MEMORY;
    }
    server->setup = *setup;
    server->setup.config = once__config_ref(setup->config);
    server->config = once__config_ref(setup->config);
    server->started_ms = once__server_now_ms();
    err = make_parts(server, &message);
    if (err == ONCE_OK) {
        once__server_raise_files(server);
        for (size_t i = 0; i < server->config->warning_count; i++)
            once__log_event(server->log, ONCE__LOG_WARN, "configuration",
                            (struct once__field[]){{"what", .text = server->config->warnings[i]},
                                                   {.name = NULL}});
        err = make_hosts(server);
    }
    if (err == ONCE_OK)
        err = listen_all(server, &message);
    if (err != ONCE_OK) {
        *ret_message = message;
        (void)tell(ret_message, err, "the server cannot start");
        once__server_free(server);
        return err;
    }
    *ret_server = server;
    return ONCE_OK;
}

/* ---- Taking it apart ------------------------------------------------------------------------- */

static void close_handle(uv_handle_t *handle, void *user)
{
    (void)user;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void note_emptied(void *user)
{
    bool *emptied = user;

    *emptied = true;
}

/* Accepts a server of which only a part was made. */
void once__server_free(struct once__server *server)
{
    if (!server)
        return;
    once__http_free(server->http);
    if (server->conns && !server->emptied) { /* it never ran */
        once__conns_drain(server->conns, note_emptied, &server->emptied);
        once__conns_cut(server->conns);
        while (!server->emptied)
            (void)uv_run(&server->loop, UV_RUN_ONCE);
    }
    once__conns_free(server->conns);
    if (server->has_loop) {
        uv_walk(&server->loop, close_handle, NULL);
        (void)uv_run(&server->loop, UV_RUN_DEFAULT);
        ONCE_ASSERT(uv_loop_close(&server->loop) == 0);
    }
    once__lane_free(server->looks);
    once__lane_free(server->auth);
    once__service_free(server->service);
    once__access_free(server->access);
    once__tls_free(server->tls);
    once__stats_free(server->stats);
    once__metrics_free(server->metrics);
    once__log_free(server->log);
    once__config_unref(server->config);
    once__config_unref(server->setup.config);
    free(server);
}

/* ---- Looking --------------------------------------------------------------------------------- */

struct once__status once__server_status(const struct once__server *server)
{
    struct once__status status = {.phase = (enum once__phase)atomic_load(&server->phase),
                                  .loaded = atomic_load(&server->loaded),
                                  .to_load = atomic_load(&server->to_load),
                                  .started_ms = server->started_ms,
                                  .ready_ms = atomic_load(&server->ready_ms)};

    status.unreachable = status.phase == ONCE__READY && !once__service_reachable(server->service);
    memcpy(status.run_id, server->run_id, sizeof(status.run_id));
    return status;
}

uint16_t once__server_resp_port(const struct once__server *server, size_t index)
{
    ONCE_ASSERT(index < ONCE_LISTENERS_MAX);
    return server->resp_ports[index];
}

uint16_t once__server_http_port(const struct once__server *server, size_t index)
{
    ONCE_ASSERT(index < ONCE_LISTENERS_MAX);
    return server->http_ports[index];
}

struct once__conns *once__server_conns(const struct once__server *server)
{
    return server->conns;
}

struct once__service *once__server_service(const struct once__server *server)
{
    return server->service;
}

struct once__metrics *once__server_metrics(const struct once__server *server)
{
    return server->metrics;
}

struct once__stats *once__server_stats(const struct once__server *server)
{
    return server->stats;
}

struct once__log *once__server_log(const struct once__server *server)
{
    return server->log;
}

struct once__access *once__server_access(const struct once__server *server)
{
    return server->access;
}
