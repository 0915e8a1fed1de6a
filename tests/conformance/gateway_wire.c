/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP as far as the gateway's adapter needs it. Each request has a listener of its own, so it is
 * known whose arrival it is; whatever takes longer than PATIENCE_MS is a failure of the test.
 */
#include "conformance/gateway_wire.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"

enum { PATIENCE_MS = 30000 };

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int listen_somewhere(uint16_t *ret_port)
{
    struct sockaddr_in where = loopback(0);
    socklen_t size = sizeof(where);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ONCE_ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&where, sizeof(where)) == 0);
    ONCE_ASSERT(listen(fd, 1) == 0 && getsockname(fd, (struct sockaddr *)&where, &size) == 0);
    *ret_port = ntohs(where.sin_port);
    return fd;
}

static int dial(uint16_t port)
{
    struct sockaddr_in where = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ONCE_ASSERT(fd >= 0 && connect(fd, (struct sockaddr *)&where, sizeof(where)) == 0);
    return fd;
}

static void write_all(int fd, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t sent = send(fd, (const char *)bytes + at, size - at, MSG_NOSIGNAL);

        ONCE_ASSERT(sent > 0);
        at += (size_t)sent;
    }
}

/* More bytes behind those that are there; false: there are no more. */
static bool read_more(int fd, char *text, size_t *size)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};
    ssize_t got;

    ONCE_ASSERT(poll(&look, 1, PATIENCE_MS) == 1 && *size < GATEWAY_TEXT_MAX - 1);
    got = recv(fd, text + *size, GATEWAY_TEXT_MAX - 1 - *size, 0);
    if (got <= 0)
        return false;
    *size += (size_t)got;
    text[*size] = '\0';
    return true;
}

/* The header's value, up to the end of its line; NULL: there is none. */
static const char *header(const char *text, const char *name)
{
    size_t size = strlen(name);

    for (const char *line = strstr(text, "\r\n"); line && strncmp(line, "\r\n\r\n", 4) != 0;
         line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, size) == 0 && strncmp(line + 2 + size, ": ", 2) == 0)
            return line + 2 + size + 2;
    }
    return NULL;
}

static uint64_t header_number(const char *text, const char *name)
{
    const char *value = header(text, name);

    return value ? strtoull(value, NULL, 10) : 0;
}

/* All of the request, so that closing does not reset the connection under its bytes. */
static void take_request(int fd, char *text)
{
    const char *body = NULL;
    size_t size = 0;

    while (!body || (size_t)(text + size - body) < header_number(text, "Content-Length")) {
        ONCE_ASSERT(read_more(fd, text, &size));
        body = strstr(text, "\r\n\r\n");
        if (body)
            body += 4;
    }
}

bool gateway_ask(const struct gateway_request *request, struct gateway_pair *ret_pair,
                 uint64_t *ret_fence, uint32_t *ret_attempt)
{
    char text[GATEWAY_TEXT_MAX];
    uint16_t port;
    int listener = listen_somewhere(&port);
    struct pollfd looks[2] = {{.fd = dial(request->port), .events = POLLIN},
                              {.fd = listener, .events = POLLIN}};

    *ret_pair = (struct gateway_pair){.client = looks[0].fd, .service = -1};
    snprintf(text, sizeof(text),
             "POST " GATEWAY_PATH " HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n"
             "Idempotency-Key: \"%s\"\r\nX-Namespace: %s\r\nX-Upstream: 127.0.0.1:%u\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             request->host, request->key, request->ns, port, strlen(request->body), request->body);
    write_all(looks[0].fd, text, strlen(text));
    ONCE_ASSERT(poll(looks, 2, PATIENCE_MS) > 0);
    if (looks[1].revents == 0) {
        (void)close(listener);
        return false;
    }
    ret_pair->service = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ONCE_ASSERT(ret_pair->service >= 0);
    (void)close(listener);
    take_request(ret_pair->service, text);
    *ret_fence = header_number(text, "Once-Fence");
    *ret_attempt = (uint32_t)header_number(text, "Once-Attempt");
    return true;
}

void gateway_say(struct gateway_pair *pair, int status, struct once_bytes body)
{
    char head[128];

    if (status != 0) {
        snprintf(head, sizeof(head),
                 "HTTP/1.1 %d Said\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", status,
                 body.size);
        write_all(pair->service, head, strlen(head));
        write_all(pair->service, body.data, body.size);
    }
    (void)close(pair->service);
    pair->service = -1;
}

/* The string that follows in the problem details, up to its quote. */
static void read_string(const char *body, const char *before, char *ret_text)
{
    const char *from = strstr(body, before);
    size_t size = from ? strcspn(from + strlen(before), "\"") : 0;

    ONCE_ASSERT(size < GATEWAY_WORD_MAX);
    if (size > 0)
        memcpy(ret_text, from + strlen(before), size);
    ret_text[size] = '\0';
}

void gateway_read(const struct gateway_pair *pair, struct gateway_answer *ret_answer)
{
    struct gateway_answer *answer = ret_answer;
    const char *type, *replayed, *retry;
    size_t size = 0;

    *answer = (struct gateway_answer){.status = 0};
    while (read_more(pair->client, answer->text, &size))
        ;
    ONCE_ASSERT(size > 12 && strncmp(answer->text, "HTTP/1.1 ", 9) == 0);
    answer->status = (int)strtol(answer->text + 9, NULL, 10);
    answer->body = strstr(answer->text, "\r\n\r\n");
    ONCE_ASSERT(answer->body != NULL);
    answer->body += 4;
    answer->body_size = (size_t)(answer->text + size - answer->body);
    ONCE_ASSERT(answer->body_size == header_number(answer->text, "Content-Length"));
    replayed = header(answer->text, "Idempotency-Replayed");
    answer->replayed = replayed && strncmp(replayed, "true\r", 5) == 0;
    type = header(answer->text, "Content-Type");
    if (!type || strncmp(type, "application/problem+json\r", 25) != 0)
        return;
    read_string(answer->body, "\"verdict\":\"", answer->verdict);
    read_string(answer->body, "urn:once:problem:", answer->problem);
    retry = strstr(answer->body, "\"retry_ms\":");
    answer->retry_ms = retry ? strtoll(retry + 11, NULL, 10) : 0;
}

void gateway_close(struct gateway_pair *pair)
{
    if (pair->service >= 0)
        (void)close(pair->service);
    (void)close(pair->client);
}
