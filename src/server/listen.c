/* SPDX-License-Identifier: Apache-2.0
 *
 * Who listens, and who is let in.
 *
 * When the process has no descriptor left libuv takes and closes whoever waits, with one that it
 * keeps for that, so that the loop does not spin. The unix socket is bound here and not by libuv,
 * which would remove its file whoever's it is by then.
 */
#include "server/conn_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"

enum {
    BACKLOG = 16384, /* the system has a bound of its own (somaxconn) */
    KEEPALIVE_S = 60 /* a peer that vanished is noticed */
};

/* ---- Letting in ------------------------------------------------------------------------------ */

static void describe_peer(struct once__conn *conn)
{
    struct sockaddr_storage peer;
    int size = sizeof peer;
    char address[64] = "?";
    char *from = conn->session.from;
    size_t from_size = sizeof conn->session.from;

    if (uv_tcp_getpeername(&conn->uv.tcp, (struct sockaddr *)&peer, &size) != 0) {
        snprintf(from, from_size, "?:0");
    } else if (peer.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&peer;

        (void)uv_ip6_name(in6, address, sizeof address);
        snprintf(from, from_size, "[%s]:%u", address, (unsigned)ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&peer;

        (void)uv_ip4_name(in, address, sizeof address);
        snprintf(from, from_size, "%s:%u", address, (unsigned)ntohs(in->sin_port));
    }
}

/* Is the other end of a unix socket who started us, or root? */
static bool is_owner(const struct once__conn *conn)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    uv_os_fd_t fd;

    if (uv_fileno(&conn->uv.handle, &fd) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return false;
    return peer.uid == 0 || peer.uid == geteuid();
}

static void introduce(struct once__conn *conn, const struct once__listener *listener)
{
    struct once__conns *conns = conn->conns;
    struct once__session *session = &conn->session;

    session->server = conns->setup.server;
    session->config = once__config_ref(conns->config);
    session->id = ++conns->last_id;
    session->protocol = 2;
    session->since_ns = session->last_ns = conn->heard_ns = once__conns_now(conns);
    session->last_command = "";
    if (listener->path) {
        snprintf(session->from, sizeof session->from, "unix");
        conn->owner = is_owner(conn);
    } else {
        describe_peer(conn);
        (void)uv_tcp_nodelay(&conn->uv.tcp, 1);
        (void)uv_tcp_keepalive(&conn->uv.tcp, 1, KEEPALIVE_S);
    }
    session->identity = conn->owner ? once__identity_owner(conns->config)
                                    : once__identity_anonymous(conns->config);
    conn->hungry = true;
    conn->answer_guess = ONCE__ANSWER_GUESS;
    once_buf_init(&conn->queued, (size_t)ONCE_ANSWER_SIZE_MAX * 2);
}

static void refuse(struct once__conn *conn, const struct once__listener *listener)
{
    static char text[] = "-ERR max number of clients reached; connections_max bounds them\r\n";
    uv_buf_t piece = {.base = text, .len = sizeof text - 1};

    once__metrics_add(conn->conns->setup.metrics, ONCE__CONNECTIONS_REFUSED, 1);
    if (!listener->tls)
        (void)uv_try_write(&conn->uv.stream, &piece, 1);
    once__conn_drop(conn, NULL);
}

static void add(struct once__conn *conn, const struct once__listener *listener)
{
    struct once__conns *conns = conn->conns;

    conn->next = conns->all;
    conn->link = &conns->all;
    if (conns->all)
        conns->all->link = &conn->next;
    conns->all = conn;
    conns->count++;
    once__metrics_add(conns->setup.metrics, ONCE__CONNECTIONS_RESP, 1);
    once__metrics_add(conns->setup.metrics, ONCE__CONNECTIONS_TOTAL, 1);
    introduce(conn, listener);
    if (conns->count > conns->config->connections_max)
        refuse(conn, listener);
    else if (listener->tls && once__tls_session_new(conns->setup.tls, &conn->tls) != ONCE_OK)
        once__conn_drop(conn, "out of memory");
    else
        once__conn_read_on(conn, true);
}

static void free_unused(uv_handle_t *handle)
{
    free(handle->data);
}

static void let_in(struct once__listener *listener)
{
    struct once__conns *conns = listener->conns;
    struct once__conn *conn = calloc(1, sizeof *conn);

    /* The one who waits stays with libuv, which accepts nobody else until then. */
    listener->stuck = !conn;
    if (!conn)
        return;
    conn->conns = conns;
    if (listener->path)
        (void)uv_pipe_init(conns->setup.loop, &conn->uv.pipe, 0);
    else
        (void)uv_tcp_init(conns->setup.loop, &conn->uv.tcp);
    conn->uv.handle.data = conn;
    if (uv_accept(&listener->uv.stream, &conn->uv.stream) != 0) {
        uv_close(&conn->uv.handle, free_unused);
        return;
    }
    add(conn, listener);
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct once__listener *listener = stream->data;

    if (status == 0) {
        let_in(listener);
        return;
    }
    once__metrics_add(listener->conns->setup.metrics, ONCE__CONNECTIONS_REFUSED, 1);
    once__log_event(listener->conns->setup.log, ONCE__LOG_WARN, "accept_failed",
                    (struct once__field[]){{"why", .text = uv_strerror(status)}, {.name = NULL}});
}

void once__listener_retry(struct once__listener *listener)
{
    if (listener->stuck)
        let_in(listener);
}

/* ---- Listening ------------------------------------------------------------------------------- */

static int fail(struct once_message *ret_message, const char *where, const char *why)
{
    snprintf(ret_message->text, sizeof ret_message->text, "cannot listen on %s: %s", where, why);
    return ONCE_ERR_IO;
}

static struct once__listener *listener_new(struct once__conns *conns)
{
    struct once__listener *listener = calloc(1, sizeof *listener);

    if (listener) {
        listener->conns = conns;
        listener->next = conns->listeners;
        conns->listeners = listener;
    }
    return listener;
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct once__listener *listener = handle->data;
    struct once__listener **link = &listener->conns->listeners;

    while (*link != listener)
        link = &(*link)->next;
    *link = listener->next;
    free(listener->path);
    free(listener);
}

/* The file of the socket, if it is still ours. */
static void remove_socket(const struct once__listener *listener)
{
    struct stat now;

    if (listener->path && lstat(listener->path, &now) == 0 && now.st_dev == listener->device &&
        now.st_ino == listener->inode)
        (void)unlink(listener->path);
}

static void listener_close(struct once__listener *listener)
{
    if (uv_is_closing(&listener->uv.handle))
        return;
    remove_socket(listener);
    uv_close(&listener->uv.handle, on_listener_closed);
}

void once__listeners_close(struct once__conns *conns)
{
    for (struct once__listener *listener = conns->listeners; listener; listener = listener->next)
        listener_close(listener);
}

static uint16_t port_of(const uv_tcp_t *tcp)
{
    struct sockaddr_storage own;
    int size = sizeof own;

    if (uv_tcp_getsockname(tcp, (struct sockaddr *)&own, &size) != 0)
        return 0;
    if (own.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&own)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&own)->sin_port);
}

int once__conns_listen(struct once__conns *conns, const struct once__listen *where,
                       uint16_t *ret_port, struct once_message *ret_message)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    struct once__listener *listener;
    char name[sizeof where->host + 16], port[8];
    int rc;

    snprintf(name, sizeof name, strchr(where->host, ':') ? "[%s]:%u" : "%s:%u", where->host,
             (unsigned)where->port);
    snprintf(port, sizeof port, "%u", (unsigned)where->port);
    if (where->tls && !conns->setup.tls)
        return fail(ret_message, name, "there is no certificate for TLS");
    rc = getaddrinfo(where->host[0] != '\0' ? where->host : NULL, port, &hints, &found);
    if (rc != 0)
        return fail(ret_message, name, gai_strerror(rc));
    listener = listener_new(conns);
    if (!listener) {
        freeaddrinfo(found);
        return ONCE_ERR_MEMORY;
    }
    listener->tls = where->tls;
    (void)uv_tcp_init(conns->setup.loop, &listener->uv.tcp);
    listener->uv.handle.data = listener;
    rc = uv_tcp_bind(&listener->uv.tcp, found->ai_addr, 0);
    freeaddrinfo(found);
    if (rc == 0)
        rc = uv_listen(&listener->uv.stream, BACKLOG, on_connection);
    if (rc != 0) {
        listener_close(listener);
        return fail(ret_message, name,
                    rc == UV_EADDRINUSE ? "address already in use: is a server running there? "
                                          "Stop it, or choose another with --listen HOST:PORT"
                                        : uv_strerror(rc));
    }
    *ret_port = port_of(&listener->uv.tcp);
    return ONCE_OK;
}

/* Makes way for a new socket: a file that nobody listens behind is removed. */
static const char *make_way(const struct sockaddr_un *address)
{
    struct stat there;
    int fd = -1, rc;

    if (lstat(address->sun_path, &there) != 0)
        return errno == ENOENT ? NULL : strerror(errno);
    if (!S_ISSOCK(there.st_mode))
        return "something that is not a socket is there";
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return strerror(errno);
    rc = connect(fd, (const struct sockaddr *)address, sizeof *address);
    rc = rc == 0 ? 0 : errno;
    close(fd);
    if (rc == ECONNREFUSED)
        return unlink(address->sun_path) == 0 || errno == ENOENT ? NULL : strerror(errno);
    return rc == ENOENT ? NULL : "another process listens there";
}

/* A socket that is bound, listens, and is nobody else's to use. Two processes that start at the
 * same moment take turns: the folder is locked meanwhile. */
static const char *bind_unix(const struct sockaddr_un *address, int *ret_fd)
{
    char folder[sizeof address->sun_path];
    const char *wrong = NULL;
    int lock, fd = -1;

    memcpy(folder, address->sun_path, sizeof folder);
    lock = open(dirname(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) != 0) {
        wrong = strerror(errno);
        goto out;
    }
    wrong = make_way(address);
    if (wrong)
        goto out;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Until it listens nobody can connect, so the mode is there in time. */
    if (fd < 0 || bind(fd, (const struct sockaddr *)address, sizeof *address) != 0 ||
        chmod(address->sun_path, 0600) != 0 || listen(fd, BACKLOG) != 0) {
        wrong = strerror(errno);
        goto out;
    }
    *ret_fd = fd;
    fd = -1;
out:
    if (fd >= 0)
        close(fd);
    if (lock >= 0)
        close(lock);
    return wrong;
}

int once__conns_listen_unix(struct once__conns *conns, const char *path,
                            struct once_message *ret_message)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct once__listener *listener;
    const char *wrong;
    struct stat ours;
    int fd = -1, rc;

    if (strlen(path) >= sizeof address.sun_path)
        return fail(ret_message, path, "the path of a unix socket has at most 107 bytes");
    memcpy(address.sun_path, path, strlen(path) + 1);
    wrong = bind_unix(&address, &fd);
    if (wrong)
        return fail(ret_message, path, wrong);
    listener = listener_new(conns);
    if (!listener) {
        close(fd);
        return ONCE_ERR_MEMORY;
    }
    (void)uv_pipe_init(conns->setup.loop, &listener->uv.pipe, 0);
    listener->uv.handle.data = listener;
    listener->path = strdup(path);
    if (listener->path && lstat(path, &ours) == 0) {
        listener->device = ours.st_dev;
        listener->inode = ours.st_ino;
    }
    rc = uv_pipe_open(&listener->uv.pipe, fd);
    if (rc == 0)
        rc = uv_listen(&listener->uv.stream, BACKLOG, on_connection);
    else
        close(fd);
    if (rc == 0 && !listener->path)
        rc = UV_ENOMEM;
    if (rc != 0) {
        listener_close(listener);
        return fail(ret_message, path, uv_strerror(rc));
    }
    return ONCE_OK;
}
