/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection to a server: finding it, connecting, moving bytes. The socket never blocks; waiting
 * is poll with a deadline. Only looking a host's name up takes as long as the system takes.
 */
#include "client/client_link.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"

int once__link_fail(struct once_message *ret_message, int err, const char *format, ...)
{
    va_list args;

    if (!ret_message)
        return err;
    va_start(args, format);
    vsnprintf(ret_message->text, sizeof(ret_message->text), format, args);
    va_end(args);
    return err;
}

once_ms once__link_now_ms(void)
{
    struct timespec now;

    ONCE_ASSERT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static bool is_port(const char *text)
{
    size_t size = strspn(text, "0123456789");
    unsigned number = 0;

    if (size == 0 || size > 5 || text[size] != '\0')
        return false;
    for (; *text; text++)
        number = number * 10 + (unsigned)(*text - '0');
    return number >= 1 && number <= 65535;
}

/* "host:port", "[::1]:port". */
static int read_host(const char *text, struct once__address *address,
                     struct once_message *ret_message)
{
    const char *colon = strrchr(text, ':');
    const char *host = text, *end = colon;

    if (!colon || !is_port(colon + 1))
        return once__link_fail(ret_message, ONCE_ERR_INVALID,
                               "a server's address is HOST:PORT, tls://HOST:PORT, or the path of a "
                               "socket; a port is a number from 1 to 65535");
    if (text[0] == '[') {
        if (end[-1] != ']' || end - text < 3)
            return once__link_fail(ret_message, ONCE_ERR_INVALID,
                                   "an IPv6 address is written [ADDRESS]:PORT");
        host++;
        end--;
    } else if (memchr(text, ':', (size_t)(colon - text))) {
        return once__link_fail(ret_message, ONCE_ERR_INVALID,
                               "an IPv6 address is written [ADDRESS]:PORT");
    }
    if (end == host || (size_t)(end - host) >= sizeof(address->host))
        return once__link_fail(ret_message, ONCE_ERR_INVALID, "the host's name is %s",
                               end == host ? "empty" : "too long");
    memcpy(address->host, host, (size_t)(end - host));
    memcpy(address->port, colon + 1, strlen(colon + 1) + 1);
    return ONCE_OK;
}

int once__address_read(const char *text, struct once__address *ret_address,
                       struct once_message *ret_message)
{
    static const char tls[] = "tls://", tcp[] = "tcp://";
    struct once__address address = {0};
    int err;

    if (strncmp(text, tls, sizeof(tls) - 1) == 0) {
        address.tls = true;
        text += sizeof(tls) - 1;
    } else if (strncmp(text, tcp, sizeof(tcp) - 1) == 0) {
        text += sizeof(tcp) - 1;
    } else if (strchr(text, '/') && !strstr(text, "://")) {
        if (strlen(text) >= sizeof(address.path))
            return once__link_fail(ret_message, ONCE_ERR_INVALID,
                                   "the path of a socket has at most %zu bytes",
                                   sizeof(address.path) - 1);
        memcpy(address.path, text, strlen(text) + 1);
        address.local = true;
        *ret_address = address;
        return ONCE_OK;
    }
    err = read_host(text, &address, ret_message);
    if (err == ONCE_OK)
        *ret_address = address;
    return err;
}

/* ---- Connecting ------------------------------------------------------------------------------ */

static int wait_for(int fd, short events, once_ms deadline_ms)
{
    struct pollfd waiting = {.fd = fd, .events = events};

    for (;;) {
        once_ms left = deadline_ms - once__link_now_ms();
        int got = poll(&waiting, 1, left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left);

        if (got > 0)
            return ONCE_OK;
        if (got < 0 && errno != EINTR)
            return ONCE_ERR_IO;
        if (got == 0 && left <= 0) {
            errno = ETIMEDOUT;
            return ONCE_ERR_IO;
        }
    }
}

/* On failure errno says why. */
static int connect_to(int family, const struct sockaddr *where, socklen_t size, once_ms deadline_ms,
                      int *ret_fd)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1, error = 0;
    socklen_t error_size = sizeof(error);

    if (fd < 0)
        return ONCE_ERR_IO;
    if (family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(fd, where, size) != 0) {
        error = errno;
        if (error == EINPROGRESS || error == EINTR) {
            error = 0;
            if (wait_for(fd, POLLOUT, deadline_ms) != ONCE_OK ||
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size) != 0)
                error = errno;
        }
    }
    if (error != 0) {
        (void)close(fd);
        errno = error;
        return ONCE_ERR_IO;
    }
    *ret_fd = fd;
    return ONCE_OK;
}

static int connect_local(const struct once__address *address, once_ms deadline_ms, int *ret_fd,
                         struct once_message *ret_message)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};

    _Static_assert(sizeof(where.sun_path) >= sizeof(address->path), "a path fits");
    memcpy(where.sun_path, address->path, sizeof(address->path));
    if (connect_to(AF_UNIX, (const struct sockaddr *)&where, sizeof(where), deadline_ms, ret_fd) !=
        ONCE_OK)
        return once__link_fail(ret_message, ONCE_ERR_IO, "nobody answers at %s: %s", address->path,
                               strerror(errno));
    return ONCE_OK;
}

static int connect_host(const struct once__address *address, once_ms deadline_ms, int *ret_fd,
                        struct once_message *ret_message)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int got = getaddrinfo(address->host, address->port, &hints, &found);
    int err = ONCE_ERR_IO, error = ENOENT;

    if (got != 0)
        return once__link_fail(ret_message, ONCE_ERR_IO, "the host %s cannot be found: %s",
                               address->host, gai_strerror(got));
    for (const struct addrinfo *one = found; one && err != ONCE_OK; one = one->ai_next) {
        err = connect_to(one->ai_family, one->ai_addr, one->ai_addrlen, deadline_ms, ret_fd);
        error = errno;
    }
    freeaddrinfo(found);
    if (err != ONCE_OK)
        return once__link_fail(ret_message, err, "nobody answers at %s:%s: %s", address->host,
                               address->port, strerror(error));
    return ONCE_OK;
}

int once__link_open(const struct once__address *address, const char *tls_ca, once_ms deadline_ms,
                    struct once__link *ret_link, struct once_message *ret_message)
{
    struct once__link link = ONCE__LINK_CLOSED;
    int err = address->local ? connect_local(address, deadline_ms, &link.fd, ret_message)
                             : connect_host(address, deadline_ms, &link.fd, ret_message);

    if (err == ONCE_OK && address->tls)
        err = once__link_secure(&link, address->host, tls_ca, deadline_ms, ret_message);
    if (err != ONCE_OK) {
        once__link_close(&link);
        return err;
    }
    *ret_link = link;
    return ONCE_OK;
}

void once__link_close(struct once__link *link)
{
    once__link_secure_end(link);
    if (link->fd >= 0)
        (void)close(link->fd);
    *link = ONCE__LINK_CLOSED;
}

/* ---- Moving bytes ---------------------------------------------------------------------------- */

long once__link_send(struct once__link *link, const uint8_t *bytes, size_t size,
                     struct once_message *ret_message)
{
    ssize_t sent;

    if (link->session)
        return once__link_secure_send(link, bytes, size, ret_message);
    sent = send(link->fd, bytes, size, MSG_NOSIGNAL);
    if (sent >= 0)
        return (long)sent;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    return once__link_fail(ret_message, ONCE_ERR_IO, "the connection broke: %s", strerror(errno));
}

/* What speaks HTTP closes the connection of who does not. */
static bool is_perhaps_http(const struct once__link *link)
{
    int family = AF_UNIX;
    socklen_t size = sizeof(family);

    return !link->heard && getsockopt(link->fd, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 &&
           family != AF_UNIX;
}

long once__link_read(struct once__link *link, uint8_t *bytes, size_t size,
                     struct once_message *ret_message)
{
    ssize_t got;

    if (link->session)
        return once__link_secure_read(link, bytes, size, ret_message);
    got = recv(link->fd, bytes, size, 0);
    if (got > 0) {
        link->heard = true;
        return (long)got;
    }
    if (got == 0)
        return once__link_fail(ret_message, ONCE_ERR_IO, "the server closed the connection%s",
                               is_perhaps_http(link) ? " without a word: is this its port for "
                                                       "the Redis protocol (7411), and not the "
                                                       "one for HTTP (7412)?"
                                                     : "");
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    return once__link_fail(ret_message, ONCE_ERR_IO, "the connection broke: %s", strerror(errno));
}

int once__link_wait(struct once__link *link, bool sending, once_ms deadline_ms,
                    struct once_message *ret_message)
{
    bool out = sending || (link->session && gnutls_record_get_direction(link->session) == 1);

    if (wait_for(link->fd, out ? POLLIN | POLLOUT : POLLIN, deadline_ms) == ONCE_OK)
        return ONCE_OK;
    if (errno == ETIMEDOUT)
        return once__link_fail(ret_message, ONCE_ERR_IO, "the server did not answer in time");
    return once__link_fail(ret_message, ONCE_ERR_IO, "the connection broke: %s", strerror(errno));
}
