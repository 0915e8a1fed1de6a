/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP host: its listeners, each a daemon of libmicrohttpd with a thread of its own, and its
 * life. What happens to one request is http_handle.c's.
 *
 * Sockets are bound here, before the library sees them, so that a port in use has a reason, and a
 * port 0 a number. At the bound on connections new ones are closed.
 */
#include "server/http_inner.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "server/scopes.h"

enum { BACKLOG = 1024, CONNECTION_MEMORY = 1 << 15, OPTIONS_MAX = 16 };

/* TLS 1.2 and later, as for RESP. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

int once__http_new(const struct once__http_setup *setup, struct once__config *config,
                   struct once__http **ret_http)
{
    struct once__http *http = calloc(1, sizeof *http);
    int err;

    if (!http)
        return ONCE_ERR_MEMORY;
    http->setup = *setup;
    err = once__http_watch_new(setup->service, &http->watch);
    if (err == ONCE_OK)
        err = once__scopes_new(&http->scopes);
    if (err != ONCE_OK) {
        once__http_watch_free(http->watch);
        free(http);
        return err;
    }
    pthread_mutex_init(&http->lock, NULL);
    pthread_cond_init(&http->rested, NULL);
    http->config = once__config_ref(config);
    *ret_http = http;
    return ONCE_OK;
}

void once__http_configure(struct once__http *http, struct once__config *config)
{
    struct once__config *old;

    pthread_mutex_lock(&http->lock);
    old = http->config;
    http->config = once__config_ref(config);
    pthread_mutex_unlock(&http->lock);
    once__config_unref(old);
    once__http_watch_renew(http->watch, config);
}

/* ---- libmicrohttpd's callbacks --------------------------------------------------------------- */

static enum MHD_Result accept_one(void *user, const struct sockaddr *address, socklen_t size)
{
    struct once__http *http = user;
    size_t most = ONCE_HTTP_CONNECTIONS_MAX;

    (void)address;
    (void)size;
    pthread_mutex_lock(&http->lock);
    if (http->config->connections_max > 0 && http->config->connections_max < most)
        most = http->config->connections_max;
    pthread_mutex_unlock(&http->lock);
    if (atomic_load(&http->connections) < most)
        return MHD_YES;
    once__metrics_add(http->setup.metrics, ONCE__CONNECTIONS_REFUSED, 1);
    once__log_event(http->setup.log, ONCE__LOG_WARN, "connection_refused",
                    (struct once__field[]){{.name = "protocol", .text = "http"},
                                           {.name = "most", .number = (int64_t)most},
                                           {.name = NULL}});
    return MHD_NO;
}

static void connection_changed(void *user, struct MHD_Connection *connection, void **slot,
                               enum MHD_ConnectionNotificationCode what)
{
    struct once__http *http = user;
    bool opened = what == MHD_CONNECTION_NOTIFY_STARTED;

    (void)connection;
    (void)slot;
    if (opened)
        atomic_fetch_add(&http->connections, 1);
    else
        atomic_fetch_sub(&http->connections, 1);
    once__metrics_add(http->setup.metrics, ONCE__CONNECTIONS_HTTP, opened ? 1 : -1);
    if (opened)
        once__metrics_add(http->setup.metrics, ONCE__CONNECTIONS_TOTAL, 1);
}

/* Paths are taken apart before they are decoded, or a key could have a slash that is none. */
static size_t leave_escapes(void *user, struct MHD_Connection *connection, char *text)
{
    (void)user;
    (void)connection;
    return strlen(text);
}

__attribute__((format(printf, 2, 0))) static void log_library(void *user, const char *format,
                                                              va_list args)
{
    struct once__http *http = user;
    char text[ONCE_LOG_FIELD_SIZE_MAX];

    (void)vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\r\n")] = '\0';
    once__log_event(http->setup.log, ONCE__LOG_DEBUG, "http_library",
                    (struct once__field[]){{.name = "message", .text = text}, {.name = NULL}});
}

/* ---- Listening ------------------------------------------------------------------------------- */

static void say(struct once_message *message, const struct once__listen *where, const char *what,
                const char *why)
{
    bool ipv6 = strchr(where->host, ':') != NULL;

    if (message)
        (void)snprintf(message->text, sizeof message->text, "HTTP cannot %s %s%s%s:%u: %s", what,
                       ipv6 ? "[" : "", where->host, ipv6 ? "]" : "", (unsigned)where->port, why);
}

static int bind_socket(const struct addrinfo *address)
{
    int one = 1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (address->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        int saved = errno;

        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

static int open_socket(const struct once__listen *where, int *ret_fd,
                       struct once_message *ret_message)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *addresses = NULL;
    char port[8];
    int fd = -1;
    int result;

    (void)snprintf(port, sizeof port, "%u", (unsigned)where->port);
    result = getaddrinfo(where->host[0] != '\0' ? where->host : NULL, port, &hints, &addresses);
    if (result != 0) {
        say(ret_message, where, "find", gai_strerror(result));
        return ONCE_ERR_IO;
    }
    for (const struct addrinfo *at = addresses; at && fd < 0; at = at->ai_next)
        fd = bind_socket(at);
    if (fd < 0)
        say(ret_message, where, "listen on",
            errno == EADDRINUSE ? "address already in use: is a server running there? Stop it, or "
                                  "choose another with --http HOST:PORT"
                                : strerror(errno));
    freeaddrinfo(addresses);
    if (fd < 0)
        return ONCE_ERR_IO;
    *ret_fd = fd;
    return ONCE_OK;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    char port[8] = "0";

    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
        getnameinfo((struct sockaddr *)&address, size, NULL, 0, port, sizeof port,
                    NI_NUMERICSERV) != 0)
        return 0;
    return (uint16_t)strtoul(port, NULL, 10);
}

static struct MHD_Daemon *start_daemon(struct once__http *http, bool tls, int fd)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                     MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls_options[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, NULL},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

    if (tls) {
        int (*retrieve)(gnutls_session_t, const struct gnutls_cert_retr_st *, gnutls_pcert_st **,
                        unsigned int *, gnutls_ocsp_data_st **, unsigned int *, gnutls_privkey_t *,
                        unsigned int *) = once__tls_retrieve;

        /* A function in a place for data: the library's interface wants it so. */
        memcpy(&tls_options[0].ptr_value, &retrieve, sizeof retrieve);
        flags |= MHD_USE_TLS;
    }
    return MHD_start_daemon(
        flags, 0, accept_one, http, once__http_handle, http, MHD_OPTION_EXTERNAL_LOGGER,
        log_library, http, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)ONCE_HTTP_CONNECTIONS_MAX + BACKLOG, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(ONCE_HTTP_TIMEOUT_MS / 1000), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED,
        once__http_completed, http, MHD_OPTION_NOTIFY_CONNECTION, connection_changed, http,
        MHD_OPTION_UNESCAPE_CALLBACK, leave_escapes, http, MHD_OPTION_ARRAY,
        tls ? tls_options : none, MHD_OPTION_END);
}

int once__http_listen(struct once__http *http, const struct once__listen *where, uint16_t *ret_port,
                      struct once_message *ret_message)
{
    struct MHD_Daemon *daemon;
    sigset_t all, before;
    int fd = -1;
    int err;

    if (http->daemon_count == ONCE_LISTENERS_MAX) {
        say(ret_message, where, "listen on", "there are too many listeners already");
        return ONCE_ERR_FULL;
    }
    if (where->tls && !http->setup.tls) {
        say(ret_message, where, "listen on", "it is for TLS, and there is no certificate");
        return ONCE_ERR_INVALID;
    }
    err = open_socket(where, &fd, ret_message);
    if (err != ONCE_OK)
        return err;
    /* Signals are the business of the thread that runs the server. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    daemon = start_daemon(http, where->tls, fd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!daemon) {
        say(ret_message, where, "serve",
            "libmicrohttpd did not start (no memory, threads or files left?)");
        close(fd);
        return ONCE_ERR_IO;
    }
    http->daemons[http->daemon_count++] = daemon;
    *ret_port = port_of(fd);
    return ONCE_OK;
}

/* ---- The end --------------------------------------------------------------------------------- */

void once__http_drain(struct once__http *http)
{
    /* Who connects now is told so, and health checks see it. The library could stop to listen, but
     * then it races with its own thread and may end the process. */
    atomic_store(&http->draining, true);
}

size_t once__http_pending(const struct once__http *http)
{
    return atomic_load(&http->pending);
}

void once__http_free(struct once__http *http)
{
    if (!http)
        return;
    once__http_drain(http);
    /* What comes back is not suspended a second time: the library ends the process when it is
     * stopped with a connection that is. */
    pthread_mutex_lock(&http->lock);
    http->closing = true;
    while (http->suspended > 0)
        pthread_cond_wait(&http->rested, &http->lock);
    pthread_mutex_unlock(&http->lock);
    for (size_t i = 0; i < http->daemon_count; i++)
        MHD_stop_daemon(http->daemons[i]); /* closes the socket, too */
    ONCE_ASSERT(atomic_load(&http->pending) == 0);
    once__http_watch_free(http->watch);
    once__scopes_free(http->scopes);
    once__config_unref(http->config);
    pthread_mutex_destroy(&http->lock);
    pthread_cond_destroy(&http->rested);
    free(http);
}
