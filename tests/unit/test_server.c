/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole server inside of this process: what it says while its store is being opened, and how it
 * ends. The store is opened when the test says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/server.h"

struct fixture {
    char folder[64];
    char log[96];
    struct once__config *config;
    struct once__server *server;
    pthread_t thread;
    int err;
    struct once_message message;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool may_open;
    int open_err;            /* instead of opening */
    const char *reload_text; /* what a reload reads; NULL: it fails */
};

static int open_when_told(void *user, const struct once__config *config,
                          struct once_store **ret_store, struct once_message *ret_message)
{
    struct fixture *fixture = user;

    pthread_mutex_lock(&fixture->lock);
    while (!fixture->may_open)
        pthread_cond_wait(&fixture->changed, &fixture->lock);
    pthread_mutex_unlock(&fixture->lock);
    if (fixture->open_err != ONCE_OK) {
        snprintf(ret_message->text, sizeof(ret_message->text), "the test says no");
        return fixture->open_err;
    }
    return once_open(config->folder, &(struct once_options){.segment_size = 1U << 20}, ret_store,
                     ret_message);
}

static int read_again(void *user, struct once__config **ret_config,
                      struct once__config_error *ret_error)
{
    struct fixture *fixture = user;

    return once__config_parse("again", once_bytes_of(fixture->reload_text), ret_config, ret_error);
}

static void *run(void *user)
{
    struct fixture *fixture = user;

    fixture->err = once__server_run(fixture->server, &fixture->message);
    return NULL;
}

static void allow_open(struct fixture *fixture)
{
    pthread_mutex_lock(&fixture->lock);
    fixture->may_open = true;
    pthread_cond_signal(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct once__server_setup setup = {.open = open_when_told, .reload = read_again};
    struct once__config_error error = {{0}};
    struct once_message message = {{0}};
    char text[512];

    assert_non_null(fixture);
    snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/once-server-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    snprintf(fixture->log, sizeof(fixture->log), "%s/log", fixture->folder);
    snprintf(text, sizeof(text),
             "dir = %s/store\nlisten = 127.0.0.1:0\nhttp = 127.0.0.1:0\nlog_file = %s\n"
             "connections_max = 10\n",
             fixture->folder, fixture->log);
    assert_int_equal(once__config_parse("test", once_bytes_of(text), &fixture->config, &error),
                     ONCE_OK);
    pthread_mutex_init(&fixture->lock, NULL);
    pthread_cond_init(&fixture->changed, NULL);
    setup.config = fixture->config;
    setup.user = fixture;
    assert_int_equal(once__server_new(&setup, &fixture->server, &message), ONCE_OK);
    assert_int_equal(pthread_create(&fixture->thread, NULL, run, fixture), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[128];

    once__server_free(fixture->server);
    once__config_unref(fixture->config);
    snprintf(command, sizeof(command), "rm -rf '%s'", fixture->folder);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

static int join(struct fixture *fixture)
{
    assert_int_equal(pthread_join(fixture->thread, NULL), 0);
    return fixture->err;
}

static void wait_for_phase(const struct fixture *fixture, enum once__phase phase)
{
    for (int i = 0; once__server_status(fixture->server).phase != phase; i++) {
        assert_true(i < 30000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* What comes back for these bytes, until it ends with the tail or the other side closes. */
static void talk(uint16_t port, const char *bytes, const char *tail, char *ret_answer, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    size_t got = 0;
    ssize_t n;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(fd, bytes, strlen(bytes), MSG_NOSIGNAL), (ssize_t)strlen(bytes));
    ret_answer[0] = '\0';
    while (!strstr(ret_answer, tail) && (n = recv(fd, ret_answer + got, size - 1 - got, 0)) > 0) {
        got += (size_t)n;
        ret_answer[got] = '\0';
    }
    close(fd);
}

static void resp(const struct fixture *fixture, const char *line, const char *expected)
{
    char answer[512];

    talk(once__server_resp_port(fixture->server, 0), line, "\n", answer, sizeof(answer));
    if (strncmp(answer, expected, strlen(expected)) != 0)
        print_error("%s gave %s", line, answer);
    assert_memory_equal(answer, expected, strlen(expected));
}

static void http_status(const struct fixture *fixture, const char *path, const char *expected)
{
    char request[256], answer[8192];

    snprintf(request, sizeof(request),
             "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    talk(once__server_http_port(fixture->server, 0), request, "\r\n\r\n", answer, sizeof(answer));
    if (!strstr(answer, expected))
        print_error("%s gave %s", path, answer);
    assert_memory_equal(answer, "HTTP/1.1 ", 9);
    assert_memory_equal(answer + 9, expected, strlen(expected));
}

static char *log_text(const struct fixture *fixture)
{
    FILE *in = fopen(fixture->log, "r");
    char *text = calloc(1, 1U << 16);

    assert_non_null(in);
    assert_non_null(text);
    (void)!fread(text, 1, (1U << 16) - 1, in);
    fclose(in);
    return text;
}

static void wait_for_log(const struct fixture *fixture, const char *words)
{
    for (int i = 0;; i++) {
        char *text = log_text(fixture);
        bool found = strstr(text, words) != NULL;

        free(text);
        if (found)
            return;
        assert_true(i < 10000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void loading__calls__are_told_so_and_answered_when_ready(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(once__server_status(fixture->server).phase, ONCE__LOADING);
    assert_int_equal(strlen(once__server_status(fixture->server).run_id), 40);
    resp(fixture, "PING\r\n", "+PONG");
    resp(fixture, "ONCE.BEGIN demo k\r\n", "-LOADING");
    http_status(fixture, "/healthz", "200");
    http_status(fixture, "/readyz", "503");
    wait_for_log(fixture, " info loading ");
    allow_open(fixture);
    wait_for_phase(fixture, ONCE__READY);
    assert_true(once__server_status(fixture->server).ready_ms >=
                once__server_status(fixture->server).started_ms);
    resp(fixture, "ONCE.BEGIN demo k\r\n", "*5");
    http_status(fixture, "/readyz", "200");
    once__server_stop(fixture->server);
    assert_int_equal(join(fixture), ONCE_OK);
}

static void loading__told_to_stop__ends_when_the_store_is_open(void **state)
{
    struct fixture *fixture = *state;

    once__server_stop(fixture->server);
    wait_for_phase(fixture, ONCE__DRAINING);
    allow_open(fixture);
    assert_int_equal(join(fixture), ONCE_OK);
}

static void opening__fails__is_the_end_with_its_reason(void **state)
{
    struct fixture *fixture = *state;

    fixture->open_err = ONCE_ERR_DAMAGED;
    allow_open(fixture);
    assert_int_equal(join(fixture), ONCE_ERR_DAMAGED);
    assert_string_equal(fixture->message.text, "the test says no");
    assert_int_equal(once__server_status(fixture->server).phase, ONCE__FAILED);
}

static void reload__while_loading_and_after__changes_what_it_may(void **state)
{
    struct fixture *fixture = *state;
    char text[512];

    snprintf(text, sizeof(text), "dir = /other\nlog_file = %s\n[namespace pay]\nlease = 1s\n",
             fixture->log);
    fixture->reload_text = text;
    once__server_reload(fixture->server);
    wait_for_log(fixture, "what=\"reload\"");
    wait_for_log(fixture, "reload_needs_restart settings=\"dir listen http socket\"");
    allow_open(fixture);
    wait_for_phase(fixture, ONCE__READY);
    resp(fixture, "ONCE.NAMESPACE pay\r\n", "*26\r\n");
    fixture->reload_text = "nonsense";
    once__server_reload(fixture->server);
    wait_for_log(fixture, "reload_refused why=\"again:1: write name = value, or [section]\"");
    assert_int_equal(once__metrics_read(once__server_metrics(fixture->server), ONCE__RELOADS), 1);
    once__server_stop(fixture->server);
    assert_int_equal(join(fixture), ONCE_OK);
}

static void stop__twice_and_reload_after__is_one_stop(void **state)
{
    struct fixture *fixture = *state;

    fixture->reload_text = "";
    allow_open(fixture);
    wait_for_phase(fixture, ONCE__READY);
    once__server_stop(fixture->server);
    once__server_reload(fixture->server);
    once__server_stop(fixture->server);
    assert_int_equal(join(fixture), ONCE_OK);
}

static void new__port_in_use__says_so(void **state)
{
    struct fixture *fixture = *state;
    struct once__config_error error = {{0}};
    struct once__server_setup setup = {.user = fixture};
    struct once__server *second = NULL;
    struct once_message message = {{0}};
    char text[256];

    snprintf(text, sizeof(text),
             "dir = %s/other\nlisten = 127.0.0.1:%u\nhttp = off\nlog_file = %s\n", fixture->folder,
             once__server_resp_port(fixture->server, 0), fixture->log);
    assert_int_equal(once__config_parse("test", once_bytes_of(text), &setup.config, &error),
                     ONCE_OK);
    assert_int_equal(once__server_new(&setup, &second, &message), ONCE_ERR_IO);
    assert_non_null(strstr(message.text, "address already in use"));
    assert_null(second);
    once__config_unref(setup.config);
    allow_open(fixture);
    wait_for_phase(fixture, ONCE__READY);
    once__server_stop(fixture->server);
    assert_int_equal(join(fixture), ONCE_OK);
}

int main(void)
{
#define FIXED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        FIXED(loading__calls__are_told_so_and_answered_when_ready),
        FIXED(loading__told_to_stop__ends_when_the_store_is_open),
        FIXED(opening__fails__is_the_end_with_its_reason),
        FIXED(reload__while_loading_and_after__changes_what_it_may),
        FIXED(stop__twice_and_reload_after__is_one_stop),
        FIXED(new__port_in_use__says_so),
    };

    return cmocka_run_group_tests_name("server", tests, NULL, NULL);
}
