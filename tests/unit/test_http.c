/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP host in one process with the test, for what no client does from outside: a store that is
 * not open yet, requests in odd pieces, callers that vanish at every moment. What the routes mean
 * is told end to end.
 */
#include "seeded.h"

#include <once/once.h>

#include <arpa/inet.h>
#include <ftw.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "server/http_inner.h"
#include "server/server.h"

enum { WAIT_S = 30, ANSWER_SIZE = 1 << 16, CALLERS = 64 };

struct host {
    char folder[64];
    struct once__server *server;
    pthread_t thread;
    int err;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool may_open;
};

/* ---- A server -------------------------------------------------------------------------------- */

static int open_when_allowed(void *user, const struct once__config *config,
                             struct once_store **ret_store, struct once_message *ret_message)
{
    struct host *host = user;

    pthread_mutex_lock(&host->lock);
    while (!host->may_open)
        pthread_cond_wait(&host->changed, &host->lock);
    pthread_mutex_unlock(&host->lock);
    return once_open(config->folder, &(struct once_options){.segment_size = 1U << 20}, ret_store,
                     ret_message);
}

static void *run(void *user)
{
    struct host *host = user;
    struct once_message message = {{0}};

    host->err = once__server_run(host->server, &message);
    return NULL;
}

static void allow(struct host *host)
{
    pthread_mutex_lock(&host->lock);
    host->may_open = true;
    pthread_cond_signal(&host->changed);
    pthread_mutex_unlock(&host->lock);
    while (once__server_status(host->server).phase == ONCE__LOADING)
        usleep(500);
    assert_int_equal(once__server_status(host->server).phase, ONCE__READY);
}

static int set_up(void **state)
{
    struct host *host = calloc(1, sizeof(*host));
    struct once__server_setup setup = {.open = open_when_allowed, .user = host};
    struct once__config_error error = {{0}};
    struct once_message message = {{0}};
    char text[512];

    assert_non_null(host);
    (void)signal(SIGPIPE, SIG_IGN);
    snprintf(host->folder, sizeof(host->folder), "/tmp/once-http-XXXXXX");
    assert_non_null(mkdtemp(host->folder));
    snprintf(text, sizeof(text),
             "dir = %s/store\nlisten = 127.0.0.1:0\nhttp = 127.0.0.1:0\nlog_file = %s/log\n",
             host->folder, host->folder);
    assert_int_equal(once__config_parse("test", once_bytes_of(text), &setup.config, &error),
                     ONCE_OK);
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->changed, NULL);
    assert_int_equal(once__server_new(&setup, &host->server, &message), ONCE_OK);
    once__config_unref(setup.config);
    assert_int_equal(pthread_create(&host->thread, NULL, run, host), 0);
    *state = host;
    return 0;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

static int tear_down(void **state)
{
    struct host *host = *state;

    once__server_stop(host->server);
    assert_int_equal(pthread_join(host->thread, NULL), 0);
    assert_int_equal(host->err, ONCE_OK);
    once__server_free(host->server);
    pthread_mutex_destroy(&host->lock);
    pthread_cond_destroy(&host->changed);
    assert_int_equal(nftw(host->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(host);
    return 0;
}

/* ---- A client -------------------------------------------------------------------------------- */

static int dial_port(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    struct timeval wait = {.tv_sec = WAIT_S};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static int dial(const struct host *host)
{
    return dial_port(once__server_http_port(host->server, 0));
}

static void say(int fd, const char *text)
{
    size_t size = strlen(text);

    for (size_t sent = 0; sent < size;) {
        ssize_t piece = send(fd, text + sent, size - sent, MSG_NOSIGNAL);

        assert_true(piece > 0);
        sent += (size_t)piece;
    }
}

static void post(int fd, const char *path, const char *body)
{
    char text[1024];

    snprintf(text, sizeof(text),
             "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             path, strlen(body), body);
    say(fd, text);
}

/* Reads until all of these were there, in this order. */
static void hear(int fd, const char *const *texts)
{
    char got[ANSWER_SIZE] = "";
    size_t size = 0;

    for (;;) {
        const char *at = got;
        size_t found = 0;
        ssize_t piece;

        while (texts[found] && (at = strstr(at, texts[found])) != NULL)
            at += strlen(texts[found++]);
        if (!texts[found])
            return;
        assert_true(size < sizeof(got) - 1);
        piece = recv(fd, got + size, sizeof(got) - 1 - size, 0);
        if (piece <= 0)
            fail_msg("there is no \"%s\" in: %s", texts[found], got);
        size += (size_t)piece;
        got[size] = '\0';
    }
}

#define HEAR(fd, ...) hear(fd, (const char *const[]){__VA_ARGS__, NULL})

static void wait_parked(const struct host *host, size_t count)
{
    for (int i = 0; once__service_parked(once__server_service(host->server)) != count; i++) {
        assert_true(i < WAIT_S * 1000);
        usleep(1000);
    }
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void loading__requests__are_told_so_and_served_when_ready(void **state)
{
    struct host *host = *state;
    int fd = dial(host);

    say(fd, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    HEAR(fd, "503", "Retry-After: 1", "{\"status\":\"loading\",\"loaded\":", ",\"to_load\":");
    say(fd, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    HEAR(fd, "200 OK", "alive");
    post(fd, "/v1/ops/pay/k/begin", "{}");
    HEAR(fd, "503", "Retry-After: 1", "urn:once:problem:loading", "ERR_LOADING");
    say(fd, "GET /v1/ops/pay HTTP/1.1\r\nHost: localhost\r\n\r\n");
    HEAR(fd, "503", "urn:once:problem:loading");
    say(fd, "GET /v1/objects/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    HEAR(fd, "503", "urn:once:problem:loading");
    close(fd);
    fd = dial(host);
    say(fd, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    HEAR(fd, "200 OK", "once_store_open 0");
    close(fd);
    allow(host);
    fd = dial(host);
    post(fd, "/v1/ops/pay/k/begin", "{}");
    HEAR(fd, "200 OK", "EXECUTE");
    close(fd);
}

static void bytes__in_odd_pieces__make_the_same_requests(void **state)
{
    struct host *host = *state;
    int fd = dial(host);
    const char *request = "POST /v1/ops/pay/k/begin HTTP/1.1\r\nHost: localhost\r\n"
                          "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "1\r\n{\r\n1\r\n}\r\n0\r\n\r\n";

    allow(host);
    for (const char *at = request; *at != '\0'; at++)
        say(fd, (char[]){*at, '\0'});
    HEAR(fd, "200 OK", "EXECUTE");
    /* Three at once are answered in order. */
    say(fd, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            "GET /v1/ops/pay/k HTTP/1.1\r\nHost: localhost\r\n\r\n"
            "GET /nix HTTP/1.1\r\nHost: localhost\r\n\r\n");
    HEAR(fd, "200 OK", "alive", "200 OK", "\"state\":\"started\"", "404", "no-route");
    /* A body that is asked about first. */
    say(fd, "POST /v1/ops/pay/k/fail HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            "Content-Type: application/json\r\nContent-Length: 11\r\n\r\n");
    HEAR(fd, "100 Continue");
    say(fd, "{\"fence\":1}");
    HEAR(fd, "200 OK", "\"OK\"");
    close(fd);
}

static void junk__from_anyone__disturbs_nobody(void **state)
{
    static const char *const junk[] = {
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01",
        "POST /v1/ops/a/b/begin HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST /v1/ops/a/b/begin HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
        "99999999999999999999999\r\n\r\n",
        "POST /v1/ops/a/b/begin HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "zz\r\n",
        "GET /v1/ops/a HTTP/1.1\r\nHost: localhost\r\nCookie: a=b; c\r\n: \r\n\r\n",
        "*1\r\n$4\r\nPING\r\n"};
    struct host *host = *state;
    int fd;

    allow(host);
    for (size_t i = 0; i < sizeof(junk) / sizeof(junk[0]); i++) {
        fd = dial(host);
        say(fd, junk[i]);
        close(fd);
    }
    fd = dial(host);
    post(fd, "/v1/ops/pay/k/begin", "{}");
    HEAR(fd, "200 OK", "EXECUTE");
    close(fd);
}

/* Some go while they are parked, some while the end of what they wait for is told. */
static void parked__callers_that_vanish__cost_the_others_nothing(void **state)
{
    uint64_t seed = seeded_start("vanishing callers");
    struct host *host = *state;
    int owner = dial(host);
    int fds[CALLERS];

    allow(host);
    post(owner, "/v1/ops/pay/k/begin", "{}");
    HEAR(owner, "EXECUTE");
    for (size_t i = 0; i < CALLERS; i++) {
        fds[i] = dial(host);
        post(fds[i], "/v1/ops/pay/k/begin", "{\"wait_ms\":60000}");
    }
    wait_parked(host, CALLERS);
    for (size_t i = 0; i < CALLERS / 2; i++)
        close(fds[i]);
    if (seeded_below(&seed, 2) == 0)
        wait_parked(host, CALLERS / 2);
    post(owner, "/v1/ops/pay/k/complete", "{\"fence\":1,\"code\":7,\"result\":\"x\"}");
    for (size_t i = CALLERS / 2; i < CALLERS * 3 / 4; i++)
        close(fds[i]);
    for (size_t i = CALLERS * 3 / 4; i < CALLERS; i++) {
        HEAR(fds[i], "200 OK", "REPLAY", "\"code\":7");
        close(fds[i]);
    }
    wait_parked(host, 0);
    close(owner);
}

static void stopping__with_callers_parked__answers_them(void **state)
{
    struct host *host = *state;
    int fds[CALLERS];

    allow(host);
    for (size_t i = 0; i < CALLERS; i++) {
        fds[i] = dial(host);
        post(fds[i], "/v1/ops/pay/k/begin", "{\"wait_ms\":60000}");
        if (i == 0)
            HEAR(fds[0], "EXECUTE");
    }
    wait_parked(host, CALLERS - 1);
    once__server_stop(host->server);
    for (size_t i = 1; i < CALLERS; i++)
        HEAR(fds[i], "409", "Connection: close", "BUSY");
    for (size_t i = 0; i < CALLERS; i++)
        close(fds[i]);
}

static void *free_http(void *http)
{
    once__http_free(http);
    return NULL;
}

static bool is_closing(struct once__http *http)
{
    bool closing;

    pthread_mutex_lock(&http->lock);
    closing = http->closing;
    pthread_mutex_unlock(&http->lock);
    return closing;
}

/* Stopping the library while it has a suspended connection would end the process. */
static void freeing__a_body_ends_meanwhile__is_not_begun(void **state)
{
    struct host *host = *state;
    struct once__http_setup setup = {.server = host->server,
                                     .service = once__server_service(host->server),
                                     .access = once__server_access(host->server),
                                     .metrics = once__server_metrics(host->server),
                                     .log = once__server_log(host->server)};
    struct once__listen where = {.host = "127.0.0.1"};
    struct once__config_error error = {{0}};
    struct once_message message = {{0}};
    struct once__config *config = NULL;
    struct once__http *http = NULL;
    int owner, waiter, late;
    pthread_t thread;
    uint16_t port = 0;
    char byte;

    allow(host);
    assert_int_equal(once__config_parse("test", once_bytes_of("dir = x\n"), &config, &error),
                     ONCE_OK);
    assert_int_equal(once__http_new(&setup, config, &http), ONCE_OK);
    once__config_unref(config);
    assert_int_equal(once__http_listen(http, &where, &port, &message), ONCE_OK);
    owner = dial(host);
    post(owner, "/v1/ops/pay/k/begin", "{}");
    HEAR(owner, "EXECUTE");
    waiter = dial_port(port);
    post(waiter, "/v1/ops/pay/k/begin", "{\"wait_ms\":60000}");
    wait_parked(host, 1);
    late = dial_port(port);
    say(late,
        "POST /v1/ops/pay/late/begin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{");
    for (int i = 0; once__http_pending(http) != 2; i++) {
        assert_true(i < WAIT_S * 1000);
        usleep(1000);
    }

    assert_int_equal(pthread_create(&thread, NULL, free_http, http), 0);
    while (!is_closing(http)) /* it waits for the waiter, and is there as long */
        usleep(500);
    say(late, "}");
    assert_int_equal(recv(late, &byte, 1, 0), 0);
    post(owner, "/v1/ops/pay/k/fail", "{\"fence\":1}");
    HEAR(owner, "OK");
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(owner);
    close(waiter);
    close(late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loading__requests__are_told_so_and_served_when_ready,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes__in_odd_pieces__make_the_same_requests, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(junk__from_anyone__disturbs_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parked__callers_that_vanish__cost_the_others_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(stopping__with_callers_parked__answers_them, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(freeing__a_body_ends_meanwhile__is_not_begun, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
