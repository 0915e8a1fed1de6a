/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading everything again while running (SIGHUP). Either all of the new configuration is taken, or
 * the old one stays as it is and the log says why. What cannot change while running stays, and is
 * named.
 */
#include <errno.h>
#include <string.h>

#include "server/notify.h"
#include "server/server_inner.h"

enum { NAMES_SIZE_MAX = 1024 };

static void refuse(struct once__server *server, const char *why)
{
    once__log_event(server->log, ONCE__LOG_ERROR, "reload_refused",
                    (struct once__field[]){{"why", .text = why},
                                           {"now", .text = "the configuration is as it was before"},
                                           {.name = NULL}});
}

/* A configuration that may take the place of the running one; NULL: refused. */
static struct once__config *read_again(struct once__server *server)
{
    struct once__config_error error = {{0}};
    struct once__config *config = NULL;
    struct once_buf names;
    int err;

    if (!server->setup.reload)
        return once__config_ref(server->config);
    if (server->setup.reload(server->setup.user, &config, &error) != ONCE_OK) {
        refuse(server, error.text);
        return NULL;
    }
    once_buf_init(&names, NAMES_SIZE_MAX);
    err = once__config_keep_fixed(config, server->config, &names, &error);
    if (names.size > 0)
        once__log_event(
            server->log, ONCE__LOG_WARN, "reload_needs_restart",
            (struct once__field[]){{"settings", .bytes = once_buf_bytes(&names)}, {.name = NULL}});
    once_buf_release(&names);
    if (err != ONCE_OK) {
        refuse(server, error.text[0] ? error.text : once_err_text(err));
        once__config_unref(config);
        return NULL;
    }
    return config;
}

static bool reload_tls(struct once__server *server, const struct once__config *config)
{
    struct once_message message = {{0}};

    if (!server->tls ||
        once__tls_reload(server->tls, config->tls_cert, config->tls_key, &message) == ONCE_OK)
        return true;
    refuse(server, message.text);
    return false;
}

static void take(struct once__server *server, struct once__config *config)
{
    if (once__log_reopen(server->log, config) != ONCE_OK)
        once__log_event(server->log, ONCE__LOG_ERROR, "log_file",
                        (struct once__field[]){{"file", .text = config->log_file},
                                               {"error", .text = strerror(errno)},
                                               {"now", .text = "the log goes where it went before"},
                                               {.name = NULL}});
    for (size_t i = 0; i < config->warning_count; i++)
        once__log_event(
            server->log, ONCE__LOG_WARN, "configuration",
            (struct once__field[]){{"what", .text = config->warnings[i]}, {.name = NULL}});
    once__conns_configure(server->conns, config);
    once__http_configure(server->http, config);
    once__config_unref(server->config);
    server->config = config;
    once__server_raise_files(server);
    once__metrics_add(server->metrics, ONCE__RELOADS, 1);
    once__log_audit(server->log, "", "signal", "reload",
                    (struct once__field[]){{"file", .text = config->file ? config->file : ""},
                                           {"users", .number = (int64_t)config->user_count},
                                           {"namespaces", .number = (int64_t)config->policy_count},
                                           {.name = NULL}});
}

void once__server_reload_now(struct once__server *server)
{
    struct once__config *config;

    if (uv_is_active((const uv_handle_t *)&server->settle))
        return; /* on its way out */
    once__notify_reloading();
    config = read_again(server);
    if (config && reload_tls(server, config)) {
        take(server, config);
        config = NULL;
    }
    once__config_unref(config);
    once__notify(atomic_load(&server->phase) == ONCE__READY ? "READY=1\nSTATUS=Ready"
                                                            : "STATUS=Loading");
}
