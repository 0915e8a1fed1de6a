/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole server on a thread of the test, and a client that says and expects bytes.
 */
#ifndef ONCE_TESTS_SERVE_HELP_H
#define ONCE_TESTS_SERVE_HELP_H

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/server.h"

enum { ANSWER_WAIT_S = 30 };

struct serving {
    char folder[64];
    struct once__server *server;
    struct once__config *next; /* what a reload reads */
    pthread_t thread;
    int err;
};

static inline struct once__config *config_of(const struct serving *serving, const char *settings)
{
    struct once__config_error error = {{0}};
    struct once__config *config = NULL;
    char text[4096];

    snprintf(text, sizeof text,
             "dir = %s\nhttp = off\ndurability = none\nlog_level = error\n"
             "socket = %s/once.sock\n%s",
             serving->folder, serving->folder, settings);
    if (once__config_parse("test", once_bytes_of(text), &config, &error) != ONCE_OK)
        fail_msg("%s", error.text);
    return config;
}

static inline int reload(void *user, struct once__config **ret_config,
                         struct once__config_error *ret_error)
{
    struct serving *serving = user;

    (void)ret_error;
    *ret_config = once__config_ref(serving->next);
    return ONCE_OK;
}

static inline void *run_server(void *user)
{
    struct serving *serving = user;
    struct once_message message = {{0}};

    serving->err = once__server_run(serving->server, &message);
    return NULL;
}

/* The settings say where to listen. */
static inline void serve(struct serving *serving, const char *settings)
{
    struct once__server_setup setup = {.reload = reload, .user = serving};
    struct once_message message = {{0}};

    (void)signal(SIGPIPE, SIG_IGN);
    *serving = (struct serving){.folder = "/tmp/once_conn_XXXXXX"};
    assert_non_null(mkdtemp(serving->folder));
    setup.config = config_of(serving, settings);
    if (once__server_new(&setup, &serving->server, &message) != ONCE_OK)
        fail_msg("%s", message.text);
    once__config_unref(setup.config);
    assert_int_equal(pthread_create(&serving->thread, NULL, run_server, serving), 0);
    while (once__server_status(serving->server).phase == ONCE__LOADING)
        usleep(500);
    assert_int_equal(once__server_status(serving->server).phase, ONCE__READY);
}

static inline int remove_one(const char *path, const struct stat *about, int kind, struct FTW *ftw)
{
    (void)about;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static inline void stop(struct serving *serving)
{
    once__server_stop(serving->server);
    assert_int_equal(pthread_join(serving->thread, NULL), 0);
    assert_int_equal(serving->err, ONCE_OK);
    once__server_free(serving->server);
    once__config_unref(serving->next);
    assert_int_equal(nftw(serving->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void be_patient(int fd)
{
    struct timeval wait = {.tv_sec = ANSWER_WAIT_S};

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait), 0);
}

static inline int dial(const struct serving *serving)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons(once__server_resp_port(serving->server, 0))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    be_patient(fd);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static inline int dial_unix(const struct serving *serving)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s/once.sock", serving->folder);
    assert_true(fd >= 0);
    be_patient(fd);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static inline void say_bytes(int fd, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);

        assert_true(sent > 0);
        at += sent;
        size -= (size_t)sent;
    }
}

static inline void say(int fd, const char *text)
{
    say_bytes(fd, text, strlen(text));
}

static inline void hear_bytes(int fd, void *bytes, size_t size)
{
    uint8_t *at = bytes;

    while (size > 0) {
        ssize_t got = recv(fd, at, size, 0);

        if (got <= 0)
            fail_msg("%zu bytes did not come: %s", size, got < 0 ? strerror(errno) : "the end");
        at += got;
        size -= (size_t)got;
    }
}

/* Exactly these bytes come. */
static inline void hear(int fd, const char *text)
{
    char got[4096];
    size_t size = strlen(text);

    assert_true(size < sizeof got);
    hear_bytes(fd, got, size);
    got[size] = '\0';
    assert_string_equal(got, text);
}

/* One line, without its end. */
static inline void hear_line(int fd, char *line, size_t line_size)
{
    size_t size = 0;

    do {
        assert_true(size + 1 < line_size);
        hear_bytes(fd, line + size, 1);
    } while (line[size++] != '\n');
    line[size >= 2 ? size - 2 : 0] = '\0';
}

/* One whole answer, as its lines with blanks between. */
static inline void hear_answer(int fd, char *text, size_t text_size)
{
    char line[1024];
    size_t size;
    long count;

    hear_line(fd, line, sizeof line);
    size = strlen(line) < text_size ? strlen(line) : text_size - 1;
    memcpy(text, line, size);
    text[size] = '\0';
    count = strtol(line + 1, NULL, 10);
    if (line[0] == '$' && count >= 0)
        hear_line(fd, text, text_size);
    for (long i = 0; (line[0] == '*' || line[0] == '%') && i < count * (line[0] == '%' ? 2 : 1);
         i++) {
        size = strlen(text);
        assert_true(size + 2 < text_size);
        text[size] = ' ';
        hear_answer(fd, text + size + 1, text_size - size - 1);
    }
}

/* Nothing more comes. */
static inline void hear_end(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, 0);

    if (got > 0 || (got < 0 && errno != ECONNRESET))
        fail_msg("the connection is still open");
    close(fd);
}

#endif
