/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of commands: a session without a connection, in front of a real service and store on
 * the test disk. ask() does with a command what a connection would, and keeps the bytes that it was
 * answered with.
 */
#ifndef ONCE_TESTS_COMMAND_HELP_H
#define ONCE_TESTS_COMMAND_HELP_H

#include "service_help.h"

#include "server/command.h"
#include "server/server.h"

enum { DESK_WORDS_MAX = 64 };

/* The server as commands see it, instead of server.c. */
struct once__server {
    struct once__service *service;
    struct once__metrics *metrics;
    struct once__stats *stats;
    struct once__status status;
    const struct once__session *other; /* a second connection, for CLIENT LIST */
};

struct desk {
    struct house house;
    struct once__server server;
    struct once__session session;
    struct once__out out;
    struct once__request request;
    char text[4096]; /* the words of the last command */
    struct once_bytes words[DESK_WORDS_MAX];
    /* What a login comes to. */
    bool granted;
    bool delayed;
    struct once__login asked; /* with what the last one was asked */
};

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

struct once__status once__server_status(const struct once__server *server)
{
    return server->status;
}

struct once__conns *once__server_conns(const struct once__server *server)
{
    /* Nobody looks inside: the functions below are the test's too. */
    return (struct once__conns *)(uintptr_t)server;
}

uint16_t once__server_resp_port(const struct once__server *server, size_t index)
{
    (void)server;
    return (uint16_t)(7411 + index);
}

void once__conns_each(struct once__conns *conns,
                      void (*each)(void *user, const struct once__session *session), void *user)
{
    const struct once__server *server = (const struct once__server *)(const void *)conns;

    if (server->other)
        each(user, server->other);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static inline void desk_open(struct desk *desk, int protocol)
{
    memset(desk, 0, sizeof(*desk));
    house_open(&desk->house, true);
    desk->server = (struct once__server){.service = desk->house.service,
                                         .metrics = desk->house.metrics,
                                         .status = {.phase = ONCE__READY, .run_id = "abc"}};
    assert_int_equal(once__stats_new(&desk->server.stats), ONCE_OK);
    desk->session = (struct once__session){.server = &desk->server,
                                           .config = desk->house.config,
                                           .identity = desk->house.admin,
                                           .id = 7,
                                           .protocol = protocol,
                                           .from = "127.0.0.1:5000"};
    once__out_init(&desk->out, 1 << 26);
    desk->out.protocol = protocol;
}

/* The configuration from now on; who is calling is unknown where it has users. */
static inline void desk_configure(struct desk *desk, const char *text)
{
    struct once__config *config = house_config(text);

    once__config_unref(desk->house.config);
    desk->house.config = config;
    desk->session.config = desk->house.config;
}

static inline void desk_close(struct desk *desk)
{
    once__out_release(&desk->out);
    once__stats_free(desk->server.stats);
    house_close(&desk->house);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static inline void desk_told(struct once__call *call)
{
    _Atomic unsigned *told = call->user;

    (*told)++;
}

static inline void desk_calls(struct desk *desk)
{
    struct once__request *request = &desk->request;
    struct once__call **calls = calloc(request->call_count, sizeof(struct once__call *));
    _Atomic unsigned told = 0;

    for (size_t i = 0; i < request->call_count; i++) {
        calls[i] = &request->calls[i];
        calls[i]->done = desk_told;
        calls[i]->user = &told;
    }
    once__service_submit(desk->house.service, calls, request->call_count);
    HOUSE_AWAIT(&desk->house, told == request->call_count);
    free(calls);
}

static inline void desk_login(struct desk *desk)
{
    struct once__login *login = desk->request.login;

    assert_non_null(login);
    desk->asked = *login;
    login->granted = desk->granted;
    login->delayed = desk->delayed;
    login->identity = (struct once__identity){.known = true, .role = ONCE__ROLE_WRITE};
    snprintf(login->identity.name, sizeof(login->identity.name), "%s", login->name);
}

/* What a connection does with a command, from its words to its answer. */
static inline struct once_bytes desk_ask(struct desk *desk, const struct once_bytes *words,
                                         size_t count)
{
    struct once__request *request = &desk->request;
    int protocol = desk->session.protocol;
    enum once__next next;

    once_buf_clear(&desk->out.buf);
    desk->out.protocol = protocol;
    request->session = &desk->session;
    request->args = words;
    request->arg_count = count;
    next = once__command_start(request, &desk->out);
    if (next != ONCE__ANSWERED) {
        assert_int_equal(desk->out.buf.size, 0);
        assert_non_null(request->command->finish);
        if (next == ONCE__CALLS)
            desk_calls(desk);
        else if (next == ONCE__JOB)
            request->job.run(&request->job);
        else
            desk_login(desk);
        desk->out.protocol = protocol;
        request->command->finish(request, &desk->out);
    }
    once__request_release(request);
    assert_false(desk->out.failed);
    assert_true(desk->out.buf.size > 0);
    return once_buf_bytes(&desk->out.buf);
}

/* Words are separated by single blanks; a word of two apostrophes is an empty one, and '_' in a
 * word stands for a blank where the test says so by a leading '~'. */
static inline struct once_bytes ask(struct desk *desk, const char *line)
{
    size_t count = 0;
    char *at = desk->text;

    assert_true(strlen(line) < sizeof(desk->text));
    memcpy(desk->text, line, strlen(line) + 1);
    while (at) {
        char *end = strchr(at, ' ');

        if (end)
            *end++ = '\0';
        assert_true(count < DESK_WORDS_MAX);
        desk->words[count] = once_bytes_of(strcmp(at, "''") == 0 ? "" : at);
        if (at[0] == '~') {
            for (char *c = at; *c; c++)
                *c = *c == '_' ? ' ' : *c;
            desk->words[count] = once_bytes_of(at + 1);
        }
        count++;
        at = end;
    }
    return desk_ask(desk, desk->words, count);
}

/* The answer as text with \r\n as '|', so that tests can be read. */
static inline const char *shown(struct once_bytes bytes)
{
    static char text[1 << 16];
    size_t size = 0;

    for (size_t i = 0; i < bytes.size && size + 2 < sizeof(text); i++) {
        if (bytes.data[i] == '\r')
            continue;
        text[size++] = bytes.data[i] == '\n' ? '|' : (char)bytes.data[i];
    }
    text[size] = '\0';
    return text;
}

#define EXPECT(desk, line, answer) expect(desk, line, answer, __FILE__, __LINE__)
static inline void expect(struct desk *desk, const char *line, const char *answer, const char *file,
                          int at)
{
    const char *text = shown(ask(desk, line));

    if (strcmp(text, answer) != 0) {
        print_error("%s\n  expected %s\n  was      %s\n", line, answer, text);
        _fail(file, at);
    }
}

#define EXPECT_START(desk, line, answer) expect_start(desk, line, answer, __FILE__, __LINE__)
static inline void expect_start(struct desk *desk, const char *line, const char *answer,
                                const char *file, int at)
{
    const char *text = shown(ask(desk, line));

    if (strncmp(text, answer, strlen(answer)) != 0) {
        print_error("%s\n  expected %s…\n  was      %s\n", line, answer, text);
        _fail(file, at);
    }
}

#endif
