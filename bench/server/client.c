/* SPDX-License-Identifier: Apache-2.0
 *
 * See client.h. What is not sent yet fits into a buffer made for the most claims that may be
 * pending, so nothing grows.
 */
#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "answer.h"

enum { CLAIM_SIZE_MAX = 128, IN_SIZE = 1 << 16 };

/* A claim is these words around a key. Both keep it for 24 hours: of a begin that is the
 * default. */
struct form {
    const char *before;
    const char *after;
};

static const struct form forms[] = {
    [BENCH_PEER_ONCE] = {"*3\r\n$10\r\nONCE.BEGIN\r\n$5\r\nbench\r\n$36\r\n", "\r\n"},
    [BENCH_PEER_REDIS] = {"*6\r\n$3\r\nSET\r\n$36\r\n",
                          "\r\n$1\r\n1\r\n$2\r\nNX\r\n$2\r\nEX\r\n$5\r\n86400\r\n"},
};

struct bench_client {
    int fd;
    int epoll;
    bool watches_out; /* epoll also tells when there is room to send */
    const struct form *form;

    uint64_t *due_ns; /* of pending claims, a ring */
    uint64_t claimed;
    uint64_t answered;

    char *out; /* from out_at to out_end: not sent yet */
    size_t out_at;
    size_t out_end;
    char *in; /* the beginning of an answer */
    size_t in_size;
};

static void watch(struct bench_client *client, int operation, bool out)
{
    struct epoll_event event = {.events = EPOLLIN | (out ? EPOLLOUT : 0U), .data.ptr = client};

    if (epoll_ctl(client->epoll, operation, client->fd, &event) != 0)
        bench_die("epoll: %s", strerror(errno));
    client->watches_out = out;
}

struct bench_client *bench_client_open(int epoll, uint16_t port, enum bench_peer peer)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct bench_client *client = bench_alloc(1, sizeof *client);
    const int on = 1;

    client->epoll = epoll;
    client->form = &forms[peer];
    client->due_ns = bench_alloc(BENCH_CLIENT_CLAIMS_MAX, sizeof *client->due_ns);
    client->out = bench_alloc(BENCH_CLIENT_CLAIMS_MAX, CLAIM_SIZE_MAX);
    client->in = bench_alloc(IN_SIZE, 1);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0 || connect(client->fd, (struct sockaddr *)&address, sizeof address) != 0)
        bench_die("port %u: %s", (unsigned)port, strerror(errno));
    if (setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        bench_die("port %u: %s", (unsigned)port, strerror(errno));
    watch(client, EPOLL_CTL_ADD, false);
    return client;
}

void bench_client_close(struct bench_client *client)
{
    close(client->fd);
    free(client->due_ns);
    free(client->out);
    free(client->in);
    free(client);
}

size_t bench_client_pending(const struct bench_client *client)
{
    return (size_t)(client->claimed - client->answered);
}

static void put(struct bench_client *client, const char *bytes, size_t size)
{
    memcpy(client->out + client->out_end, bytes, size);
    client->out_end += size;
}

void bench_client_claim(struct bench_client *client, const struct bench_key *key, uint64_t due_ns)
{
    if (bench_client_pending(client) >= BENCH_CLIENT_CLAIMS_MAX)
        bench_die("too many claims of one connection");
    client->due_ns[client->claimed++ % BENCH_CLIENT_CLAIMS_MAX] = due_ns;
    /* What was not sent belongs to pending claims, so it and a claim more fit when moved. */
    if (client->out_end + CLAIM_SIZE_MAX > BENCH_CLIENT_CLAIMS_MAX * (size_t)CLAIM_SIZE_MAX) {
        memmove(client->out, client->out + client->out_at, client->out_end - client->out_at);
        client->out_end -= client->out_at;
        client->out_at = 0;
    }
    put(client, client->form->before, strlen(client->form->before));
    put(client, key->text, sizeof key->text);
    put(client, client->form->after, strlen(client->form->after));
}

void bench_client_send(struct bench_client *client)
{
    while (client->out_at < client->out_end) {
        ssize_t sent = send(client->fd, client->out + client->out_at,
                            client->out_end - client->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN)
            bench_die("send: %s", strerror(errno));
        if (sent < 0)
            break;
        client->out_at += (size_t)sent;
    }
    if (client->out_at == client->out_end)
        client->out_at = client->out_end = 0;
    if (client->watches_out != (client->out_end > 0))
        watch(client, EPOLL_CTL_MOD, client->out_end > 0);
}

/* Tells the answers that are there in full, and keeps the beginning of the next one. */
static void tell(struct bench_client *client, bench_client_told *told, void *user)
{
    size_t at = 0, size = 0;

    while (at < client->in_size) {
        const char *bytes = client->in + at;
        enum bench_answer answer = bench_answer_read(bytes, client->in_size - at, &size);

        if (answer == BENCH_ANSWER_PART)
            break;
        if (answer == BENCH_ANSWER_ERROR)
            bench_die("the server answered %.*s", (int)size, bytes);
        if (answer == BENCH_ANSWER_JUNK || bench_client_pending(client) == 0)
            bench_die("no answer to a claim: %.*s", (int)(client->in_size - at), bytes);
        told(user, client->due_ns[client->answered++ % BENCH_CLIENT_CLAIMS_MAX],
             answer == BENCH_ANSWER_KNOWN);
        at += size;
    }
    memmove(client->in, client->in + at, client->in_size - at);
    client->in_size -= at;
}

void bench_client_serve(struct bench_client *client, uint32_t events, bench_client_told *told,
                        void *user)
{
    ssize_t got;

    if (events & EPOLLOUT)
        bench_client_send(client);
    if (!(events & ~(uint32_t)EPOLLOUT))
        return;
    got = recv(client->fd, client->in + client->in_size, IN_SIZE - client->in_size, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        bench_die("the server hung up: %s", got < 0 ? strerror(errno) : "end of stream");
    client->in_size += (size_t)got;
    tell(client, told, user);
}
