/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a call over HTTP: when to try again, what is kept and read again, secrets, and the
 * steps in the journal, which is played from a script. Real receivers are in
 * tests/e2e/test_call.py.
 */
#include "seeded.h"

#include "client/call_inner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static char text[ONCE_MESSAGE_SIZE];

/* ---- When to try again ----------------------------------------------------------------------- */

static void backoff__any_random__is_within_the_doubled_bound(void **state)
{
    uint64_t seeded = seeded_start("call");
    once_ms most[8] = {0};

    (void)state;
    for (int i = 0; i < 20000; i++) {
        unsigned number = (unsigned)seeded_below(&seeded, 8);
        once_ms bound = 100LL << number < 3000 ? 100LL << number : 3000;
        once_ms wait = once__call_backoff_ms(100, 3000, number, seeded_next(&seeded));

        assert_true(wait >= 0 && wait <= bound);
        if (wait > most[number])
            most[number] = wait;
    }
    for (unsigned number = 0; number < 8; number++) /* full jitter: the whole range is used */
        assert_true(most[number] > (100LL << number < 3000 ? 100LL << number : 3000) * 9 / 10);
    assert_int_equal(once__call_backoff_ms(100, 3000, 1000000, UINT64_MAX) <= 3000, 1);
    assert_int_equal(once__call_backoff_ms(100, 3000, 3, 0), 0);
}

static void retry_after__seconds_and_dates__are_read(void **state)
{
    (void)state;
    assert_int_equal(once__call_retry_after_ms("0", 0), 0);
    assert_int_equal(once__call_retry_after_ms("120", 0), 120000);
    assert_int_equal(once__call_retry_after_ms("99999999999999999999", 0), ONCE_SEND_TIME_MS_MAX);
    assert_int_equal(once__call_retry_after_ms("Fri, 31 Dec 1999 23:59:59 GMT", 946684789), 10000);
    assert_int_equal(once__call_retry_after_ms("Fri, 31 Dec 1999 23:59:59 GMT", 946684799), 0);
    assert_int_equal(once__call_retry_after_ms("Fri, 31 Dec 1999 23:59:59 GMT", 2000000000), 0);
    assert_int_equal(once__call_retry_after_ms("Fri, 31 Dec 9999 23:59:59 GMT", 0),
                     ONCE_SEND_TIME_MS_MAX);
    assert_int_equal(once__call_retry_after_ms("", 0), -1);
    assert_int_equal(once__call_retry_after_ms("-1", 0), -1);
    assert_int_equal(once__call_retry_after_ms("1.5", 0), -1);
    assert_int_equal(once__call_retry_after_ms("12 apples", 0), -1);
    assert_int_equal(once__call_retry_after_ms("soon", 0), -1);
}

static enum once__call_fate fate(int status, const char *header,
                                 const struct once_http_options *options)
{
    struct once__call_reply reply = {.whole = true, .status = status};
    enum once__call_fate found;

    once_buf_init(&reply.headers.text, 1024);
    if (header)
        assert_int_equal(once__call_lines_add(&reply.headers, header, strlen(header)), ONCE_OK);
    found = once__call_fate(&reply, options);
    once__call_reply_release(&reply);
    return found;
}

static void fate__each_status__is_as_documented(void **state)
{
    const int finals[] = {409, 501};
    struct once_http_options none = {0};
    struct once_http_options some = {.final_statuses = finals, .final_count = 2};

    (void)state;
    for (int status = 200; status < 600; status++) {
        bool passing = status == 408 || status == 409 || status == 425 || status == 429 ||
                       status >= 500;

        assert_int_equal(fate(status, NULL, &none), passing ? ONCE__CALL_AGAIN : ONCE__CALL_FINAL);
        assert_int_equal(fate(status, "stripe-should-retry: false", &none),
                         passing ? ONCE__CALL_DOUBT : ONCE__CALL_FINAL);
        assert_int_equal(fate(status, "X-Should-Retry: FALSE", &none),
                         passing ? ONCE__CALL_DOUBT : ONCE__CALL_FINAL);
        assert_int_equal(fate(status, "x-should-retry: true", &none),
                         status >= 400 ? ONCE__CALL_AGAIN : ONCE__CALL_FINAL);
        if (status == 409 || status == 501)
            assert_int_equal(fate(status, NULL, &some), ONCE__CALL_FINAL);
    }
    assert_int_equal(fate(503, "X-Should-Retry-Not: false", &none), ONCE__CALL_AGAIN);
}

static void budget__empty__gives_no_retry_until_calls_bring_some(void **state)
{
    struct once_http_budget *budget;

    (void)state;
    assert_int_equal(once_http_budget_new(0, 10, &budget), ONCE_ERR_INVALID);
    assert_int_equal(once_http_budget_new(1, 101, &budget), ONCE_ERR_INVALID);
    assert_int_equal(once_http_budget_new(2, 50, &budget), ONCE_OK);
    once__call_budget_begin(budget); /* never more than at first */
    assert_true(once__call_budget_take(budget));
    assert_true(once__call_budget_take(budget));
    assert_false(once__call_budget_take(budget));
    once__call_budget_begin(budget);
    assert_false(once__call_budget_take(budget));
    once__call_budget_begin(budget);
    assert_true(once__call_budget_take(budget));
    assert_false(once__call_budget_take(budget));
    once_http_budget_free(budget);
    once_http_budget_free(NULL);
    assert_true(once__call_budget_take(NULL));
}

static void options__out_of_range__are_refused(void **state)
{
    struct once_http_options filled;
    struct once_http_options wrong[] = {
        {.deadline_ms = -1},
        {.timeout_ms = ONCE_SEND_TIME_MS_MAX + 1},
        {.lease_ms = -1},
        {.wait_ms = -1},
        {.attempts_max = ONCE_SEND_ATTEMPTS_MAX + 1},
        {.kept_size_max = ONCE_SEND_KEPT_SIZE_MAX + 1},
        {.answer_size_max = (size_t)ONCE_SEND_ANSWER_SIZE_MAX + 1},
        {.final_count = ONCE_SEND_FINAL_MAX + 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        text[0] = '\0';
        assert_int_equal(once__call_options_fill(&wrong[i], &filled, text), ONCE_ERR_INVALID);
        assert_true(text[0] != '\0');
    }
    assert_int_equal(once__call_options_fill(NULL, &filled, text), ONCE_OK);
    assert_int_equal(filled.attempts_max, ONCE_SEND_ATTEMPTS_DEFAULT);
    assert_int_equal(filled.ns.size, 4);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static int make(const struct once_http_request *given, struct once__call_request *request)
{
    int err;

    text[0] = '\0';
    err = once__call_request_make(given, request, text);
    if (err != ONCE_OK)
        assert_true(text[0] != '\0');
    return err;
}

static void assert_refused(const struct once_http_request *given, const char *word)
{
    struct once__call_request request;

    assert_int_not_equal(make(given, &request), ONCE_OK);
    if (!strstr(text, word))
        fail_msg("'%s' is not in: %s", word, text);
    once__call_request_release(&request);
}

static void request__wrong__is_refused_with_its_reason(void **state)
{
    struct {
        const char *method, *url, *word;
    } lines[] = {
        {NULL, "http://h/", "method"},      {"", "http://h/", "method"},
        {"post", "http://h/", "method"},    {"PO ST", "http://h/", "method"},
        {"TRACE", "http://h/", "TRACE"},    {"POST", NULL, "http://"},
        {"POST", "ftp://h/", "http://"},    {"POST", "file:///etc/passwd", "http://"},
        {"POST", "http://h/a b", "blank"},  {"POST", "http://h/\n", "blank"},
        {"POST", "http://h:99999/", "URL"}, {"POST", "http:///x", "URL"},
        {"POST", "http://u@h/", "user"},    {"POST", "https://u:word@h/", "user"},
    };
    const char *wrong[][2] = {
        {"NoColon", "Name: value"},     {": value", "Name: value"},
        {"Na me: value", "Name"},       {"Host: h", "Host"},
        {"content-length: 3", "body"},  {"Transfer-Encoding: chunked", "body"},
        {"X: a\r\nY: b", "printable"},  {"Idempotency-Key: k", "key"},
        {"Authorization: x", "secret"}, {"cookie: x", "secret"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_refused(&(struct once_http_request){.method = lines[i].method, .url = lines[i].url},
                       lines[i].word);
        assert_null(strstr(text, "word@")); /* what is refused for its secret is not told */
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_refused(
            &(struct once_http_request){
                .method = "POST", .url = "http://h/", .headers = &wrong[i][0], .header_count = 1},
            wrong[i][1]);
}

static void secrets__are_filled_from_the_environment__and_never_told(void **state)
{
    const struct {
        const char *secret, *filled;
    } good[] = {
        {"A: Bearer $ONCE_TEST_A", "A: Bearer sesame"},
        {"A: ${ONCE_TEST_A}x$ONCE_TEST_A", "A: sesamexsesame"},
        {"A: $$5 $ONCE_TEST_A", "A: $5 sesame"},
        {"X$Y: $ONCE_TEST_A", "X$Y: sesame"},
    };
    const char *const bad[] = {"A: $ONCE_TEST_NONE",  "A: $",
                               "A: ${ONCE_TEST_A",    "A: $1",
                               "A: $ONCE_TEST_LINES", "A: $ONCE_TEST_EMPTY"};
    const char *const no_variable[] = {"Authorization: Bearer sesame"};

    (void)state;
    assert_int_equal(setenv("ONCE_TEST_A", "sesame", 1), 0);
    assert_int_equal(setenv("ONCE_TEST_LINES", "open\r\nsesame", 1), 0);
    assert_int_equal(setenv("ONCE_TEST_EMPTY", "", 1), 0);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct once_buf out;

        once_buf_init(&out, 1024);
        assert_int_equal(once__call_secret_fill(good[i].secret, &out, text), ONCE_OK);
        assert_int_equal(out.size, strlen(good[i].filled));
        assert_memory_equal(out.data, good[i].filled, out.size);
        once_buf_release(&out);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_refused(&(struct once_http_request){.method = "POST",
                                                   .url = "http://h/",
                                                   .secret_headers = &bad[i],
                                                   .secret_header_count = 1},
                       "$");
        assert_null(strstr(text, "sesame"));
    }
    assert_refused(&(struct once_http_request){.method = "POST",
                                               .url = "http://h/",
                                               .secret_headers = no_variable,
                                               .secret_header_count = 1},
                   "names no variable");
    assert_null(strstr(text, "sesame"));
}

static const char *const some_headers[] = {"X-One:  1 ", "X-Empty:"};
static const char *const some_secrets[] = {"Authorization: Bearer $ONCE_TEST_A"};

static struct once_http_request some_request(struct once_bytes body)
{
    return (struct once_http_request){.method = "POST",
                                      .url = "https://pay.example:8443/charges?a=b#part",
                                      .headers = some_headers,
                                      .header_count = 2,
                                      .secret_headers = some_secrets,
                                      .secret_header_count = 1,
                                      .body = body,
                                      .bare_key = true};
}

static void assert_same(const struct once__call_request *a, const struct once__call_request *b)
{
    assert_string_equal(a->method, b->method);
    assert_string_equal(a->url, b->url);
    assert_string_equal(a->key_header, b->key_header);
    assert_int_equal(a->bare_key, b->bare_key);
    assert_int_equal(a->has_body, b->has_body);
    assert_int_equal(a->body.size, b->body.size);
    if (a->body.size > 0)
        assert_memory_equal(a->body.data, b->body.data, a->body.size);
    assert_int_equal(a->headers.text.size, b->headers.text.size);
    assert_memory_equal(a->headers.text.data, b->headers.text.data, a->headers.text.size);
    assert_int_equal(a->secrets.text.size, b->secrets.text.size);
    assert_memory_equal(a->secrets.text.data, b->secrets.text.data, a->secrets.text.size);
}

static void request__written_and_read__is_the_same_and_holds_no_secret(void **state)
{
    static const uint8_t zeros[] = {0, '\n', 0xff, '"', '\n'};
    const struct once_bytes bodies[] = {
        {NULL, 0}, {zeros, 0}, {zeros, sizeof(zeros)}, once_bytes_of("{\"amount\":1}")};

    (void)state;
    assert_int_equal(setenv("ONCE_TEST_A", "sesame", 1), 0);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct once_http_request given = some_request(bodies[i]);
        struct once__call_request request, again;
        struct once_fingerprint a, b;
        struct once_buf data;

        once_buf_init(&data, ONCE_DATA_SIZE_MAX);
        assert_int_equal(make(&given, &request), ONCE_OK);
        assert_string_equal(request.url, "https://pay.example:8443/charges?a=b");
        assert_string_equal(once__call_header(&request.headers, "x-one"), "1");
        assert_int_equal(once__call_request_write(&request, &data), ONCE_OK);
        assert_null(memmem(data.data, data.size, "sesame", 6));
        assert_int_equal(once__call_request_read(once_buf_bytes(&data), &again, text), ONCE_OK);
        assert_same(&request, &again);
        assert_int_equal(once__call_request_fingerprint(&request, &a), ONCE_OK);
        assert_int_equal(once__call_request_fingerprint(&again, &b), ONCE_OK);
        assert_memory_equal(&a, &b, sizeof(a));
        once__call_request_release(&again);
        /* Any cut of it is refused, or is no body's end. */
        for (size_t size = 0; size < data.size; size++) {
            assert_int_equal(
                once__call_request_read((struct once_bytes){data.data, size}, &again, text),
                ONCE_ERR_INVALID);
            once__call_request_release(&again);
        }
        once__call_request_release(&request);
        once_buf_release(&data);
    }
}

static void fingerprint__anything_changed__is_another(void **state)
{
    static const char *const other_headers[] = {"X-One: 2", "X-Empty:"};
    static const char *const other_secrets[] = {"Authorization: Basic $ONCE_TEST_A"};
    struct once_http_request all[9];
    struct once_fingerprint found[9];

    (void)state;
    assert_int_equal(setenv("ONCE_TEST_A", "sesame", 1), 0);
    for (size_t i = 0; i < 9; i++)
        all[i] = some_request(once_bytes_of("body"));
    all[1].method = "PUT";
    all[2].url = "https://pay.example:8443/charges?a=c";
    all[3].headers = other_headers;
    all[4].secret_headers = other_secrets;
    all[5].body = once_bytes_of("bodY");
    all[6].body = (struct once_bytes){0};
    all[7].key_header = "X-Key";
    all[8].bare_key = false;
    for (size_t i = 0; i < 9; i++) {
        struct once__call_request request;

        assert_int_equal(make(&all[i], &request), ONCE_OK);
        assert_int_equal(once__call_request_fingerprint(&request, &found[i]), ONCE_OK);
        once__call_request_release(&request);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(&found[i], &found[j], sizeof(found[i]));
    }
}

static void body_file__large_and_changed__is_refused_when_read_again(void **state)
{
    char path[] = "/tmp/once-call-XXXXXX";
    int fd = mkstemp(path);
    struct once_http_request given = {.method = "PUT", .url = "http://h/", .body_file = path};
    struct once__call_request request, again;
    struct once_buf data;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "small", 5, 0), 5);
    assert_int_equal(make(&given, &request), ONCE_OK);
    assert_null(request.body_file); /* kept by the store */
    assert_int_equal(request.body.size, 5);
    once__call_request_release(&request);

    assert_int_equal(ftruncate(fd, ONCE_SEND_BODY_KEPT_MAX + 1), 0);
    assert_int_equal(make(&given, &request), ONCE_OK);
    assert_non_null(request.body_file);
    once_buf_init(&data, ONCE_DATA_SIZE_MAX);
    assert_int_equal(once__call_request_write(&request, &data), ONCE_OK);
    assert_true(data.size < 1024);
    assert_int_equal(once__call_request_read(once_buf_bytes(&data), &again, text), ONCE_OK);
    assert_same(&request, &again);
    once__call_request_release(&again);
    assert_int_equal(pwrite(fd, "S", 1, 0), 1);
    assert_int_equal(once__call_request_read(once_buf_bytes(&data), &again, text),
                     ONCE_ERR_INVALID);
    assert_non_null(strstr(text, "changed"));
    once__call_request_release(&again);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(once__call_request_read(once_buf_bytes(&data), &again, text),
                     ONCE_ERR_INVALID);
    once__call_request_release(&again);
    once__call_request_release(&request);
    once_buf_release(&data);
    close(fd);
}

static void key_value__is_quoted_or_bare(void **state)
{
    struct once_buf out;

    (void)state;
    once_buf_init(&out, 1024);
    assert_int_equal(once__call_key_value(once_bytes_of("a\"b\\c d"), false, &out), ONCE_OK);
    assert_int_equal(out.size, strlen("\"a\\\"b\\\\c d\""));
    assert_memory_equal(out.data, "\"a\\\"b\\\\c d\"", out.size);
    once_buf_clear(&out);
    assert_int_equal(once__call_key_value(once_bytes_of("8e03"), true, &out), ONCE_OK);
    assert_memory_equal(out.data, "8e03", 4);
    for (const char *wrong = " \",;\\"; *wrong; wrong++)
        assert_int_equal(
            once__call_key_value((struct once_bytes){(const uint8_t *)wrong, 1}, true, &out),
            ONCE_ERR_KEY_CHARACTER);
    once_buf_release(&out);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static struct once__call_reply some_reply(void)
{
    static const char *const lines[] = {"Content-Type: text/plain", "X-Latin: caf\xe9",
                                        "Set-Cookie: id=sesame", "X-Utf: \xc3\xa9"};
    struct once__call_reply reply = {.whole = true, .status = 201, .body_lost = 7};

    once_buf_init(&reply.headers.text, 1024);
    once_buf_init(&reply.body, 1024);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(once__call_lines_add(&reply.headers, lines[i], strlen(lines[i])), ONCE_OK);
    assert_int_equal(once_buf_append(&reply.body, "one\ntwo\0three", 13), ONCE_OK);
    return reply;
}

static void result__written_and_read__is_the_answer(void **state)
{
    const size_t kept[] = {1024, 13, 5, 0};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct once__call_reply reply = some_reply();
        struct once_http_answer answer = {0};
        struct once_buf result;
        size_t size = kept[i] < 13 ? kept[i] : 13;

        once_buf_init(&result, 4096);
        assert_int_equal(once__call_result_write(&reply, kept[i], kept[i] > 0, &result), ONCE_OK);
        assert_null(memmem(result.data, result.size, "sesame", 6));
        assert_int_equal(once__call_result_read(201, once_buf_bytes(&result), &answer), ONCE_OK);
        assert_int_equal(answer.status, 201);
        assert_int_equal(answer.body.size, size);
        if (size > 0)
            assert_memory_equal(answer.body.data, "one\ntwo\0three", size);
        assert_int_equal(answer.body_lost, 7 + 13 - size);
        assert_int_equal(answer.header_count, kept[i] > 0 ? 3 : 0);
        if (kept[i] > 0)
            assert_string_equal(answer.headers[1], "X-Latin: caf\xc3\xa9");
        once_http_answer_release(&answer);
        once__call_reply_release(&reply);
        once_buf_release(&result);
    }
}

static void result__of_another_program__is_given_as_it_is(void **state)
{
    static const char *const others[] = {
        "",
        "paid",
        "{\"once\":\"run\",\"version\":1}\nx",
        "{\"once\":\"call\",\"version\":9}\nx",
        "{\"once\":\"call\",\"version\":1,\"status\":201,\"headers\":[],\"kept\":2,\"lost\":0}\nx",
        "{\"once\":\"call\",\"version\":1,\"status\":201,\"headers\":[1],\"kept\":1,\"lost\":0}\nx",
        "[\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct once_http_answer answer = {0};

        assert_int_equal(once__call_result_read(202, once_bytes_of(others[i]), &answer), ONCE_OK);
        assert_int_equal(answer.status, 202);
        assert_int_equal(answer.body.size, strlen(others[i]));
        assert_int_equal(answer.header_count, 0);
        once_http_answer_release(&answer);
    }
}

/* ---- The journal ----------------------------------------------------------------------------- */

/* Plays a store: the answers in order; what was asked is written down: "begin checkpoint:request".
 */
struct played {
    struct {
        int err;
        enum once_word word;
        const char *point;
        enum once_state state; /* get */
        const char *result;
    } lines[8];
    size_t count, next;
    char asked[256];
};

static int play(void *user, struct once_op *op, once_ms wait_ms)
{
    static const char *const names[] = {"begin", "complete", "fail",   "checkpoint",
                                        "renew", "resolve",  "forget", "get"};
    struct played *played = user;
    size_t used = strlen(played->asked);

    (void)wait_ms;
    snprintf(played->asked + used, sizeof(played->asked) - used, "%s%s%s%.*s", used ? " " : "",
             names[op->call], op->point.size ? ":" : "", (int)op->point.size,
             op->point.size ? (const char *)op->point.data : "");
    assert_true(played->next < played->count);
    op->reply = (struct once_reply){.err = played->lines[played->next].err,
                                    .word = played->lines[played->next].word,
                                    .fence = 7,
                                    .code = 201,
                                    .state = played->lines[played->next].state,
                                    .result = once_bytes_of(played->lines[played->next].result),
                                    .point = once_bytes_of(played->lines[played->next].point)};
    played->next++;
    return op->reply.err;
}

static int send_to_nobody(struct played *played, struct once_http_answer *answer)
{
    /* A port that is taken and that nobody listens on. */
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char url[64];
    struct once_http_journal journal = {.perform = play, .user = played};
    struct once_http_request request = {.method = "POST", .url = url};
    struct once_http_options options = {.attempts_max = 2, .backoff_ms = 1};
    int err;

    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", ntohs(address.sin_port));
    err = once_http_send(&journal, once_bytes_of("k"), &request, &options, answer);
    close(fd);
    assert_int_equal(played->next, played->count);
    return err;
}

static void send__never_connected__fails_and_says_so_first(void **state)
{
    struct played played = {.lines = {{ONCE_OK, ONCE_EXECUTE, ""},
                                      {ONCE_OK, ONCE_DONE, ""},
                                      {ONCE_OK, ONCE_DONE, ""},
                                      {ONCE_OK, ONCE_DONE, ""}},
                            .count = 4};
    struct once_http_answer answer;

    (void)state;
    assert_int_equal(send_to_nobody(&played, &answer), ONCE_OK);
    assert_int_equal(answer.outcome, ONCE_HTTP_UNREACHED);
    assert_int_equal(answer.attempts, 2);
    assert_int_equal(answer.sent, 0);
    assert_string_equal(played.asked, "begin checkpoint:request checkpoint:unreached fail");
    once_http_answer_release(&answer);
}

static void send__taken_over_after_a_request__is_in_doubt_and_never_fails(void **state)
{
    struct played played = {.lines = {{ONCE_OK, ONCE_EXECUTE, "request"}, {ONCE_OK, ONCE_DONE, ""}},
                            .count = 2};
    struct once_http_answer answer;

    (void)state;
    assert_int_equal(send_to_nobody(&played, &answer), ONCE_OK);
    assert_int_equal(answer.outcome, ONCE_HTTP_DOUBT);
    assert_string_equal(played.asked, "begin renew");
    once_http_answer_release(&answer);
}

static void send__doubt_about_nothing_sent__is_taken_over(void **state)
{
    static const char *const points[] = {"", "unreached"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct played played = {.lines = {{ONCE_OK, ONCE_DOUBT, points[i]},
                                          {ONCE_OK, ONCE_EXECUTE, points[i]},
                                          {ONCE_OK, ONCE_DONE, ""},
                                          {ONCE_OK, ONCE_DONE, ""},
                                          {ONCE_OK, ONCE_DONE, ""}},
                                .count = 5};
        struct once_http_answer answer;

        assert_int_equal(send_to_nobody(&played, &answer), ONCE_OK);
        assert_int_equal(answer.outcome, ONCE_HTTP_UNREACHED);
        once_http_answer_release(&answer);
    }
}

static void send__doubt_about_a_request__is_told(void **state)
{
    struct played played = {.lines = {{ONCE_OK, ONCE_DOUBT, "request"}}, .count = 1};
    struct once_http_answer answer;

    (void)state;
    assert_int_equal(send_to_nobody(&played, &answer), ONCE_OK);
    assert_int_equal(answer.outcome, ONCE_HTTP_DOUBT);
    assert_int_equal(answer.attempts, 0);
    once_http_answer_release(&answer);
}

static void send__request_cannot_be_kept__sends_nothing(void **state)
{
    struct played played = {.lines = {{ONCE_OK, ONCE_EXECUTE, ""},
                                      {ONCE_ERR_SPACE, ONCE_EXECUTE, ""},
                                      {ONCE_OK, ONCE_DONE, ""}},
                            .count = 3};
    struct once_http_answer answer;

    (void)state;
    assert_int_equal(send_to_nobody(&played, &answer), ONCE_ERR_SPACE);
    assert_int_equal(answer.attempts, 0);
    assert_string_equal(played.asked, "begin checkpoint:request fail");
    assert_non_null(strstr(answer.text, "kept"));
    once_http_answer_release(&answer);
}

/* ---- Endings --------------------------------------------------------------------------------- */

/* Answers every connection with 200 and "hello". */
static void *say_hello(void *user)
{
    static const char hello[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
                                "Connection: close\r\n\r\nhello";
    int listener = *(int *)user;
    char request[4096];
    int fd = accept(listener, NULL, NULL);

    if (fd < 0)
        return NULL;
    if (recv(fd, request, sizeof(request), 0) > 0)
        (void)!write(fd, hello, sizeof(hello) - 1);
    (void)shutdown(fd, SHUT_WR);
    while (recv(fd, request, sizeof(request), 0) > 0)
        ;
    close(fd);
    return NULL;
}

static int send_to_hello(struct played *played, struct once_http_answer *answer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0), err;
    char url[64];
    struct once_http_journal journal = {.perform = play, .user = played};
    struct once_http_request request = {.method = "POST", .url = url};
    pthread_t thread;

    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, say_hello, &listener), 0);
    err = once_http_send(&journal, once_bytes_of("k"), &request, NULL, answer);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(listener);
    assert_int_equal(played->next, played->count);
    return err;
}

static void assert_hello(const struct once_http_answer *answer)
{
    assert_int_equal(answer->status, 200);
    assert_int_equal(answer->body.size, 5);
    assert_memory_equal(answer->body.data, "hello", 5);
    assert_int_equal(answer->sent, 1);
}

static void answer__full_disk__keeps_what_always_goes_in(void **state)
{
    struct played played = {.lines = {{ONCE_OK, ONCE_EXECUTE, ""},
                                      {ONCE_OK, ONCE_DONE, ""},
                                      {ONCE_ERR_SPACE, 0, ""},
                                      {ONCE_OK, ONCE_DONE, ""}},
                            .count = 4};
    struct once_http_answer answer;

    (void)state;
    assert_int_equal(send_to_hello(&played, &answer), ONCE_OK);
    assert_int_equal(answer.outcome, ONCE_HTTP_ANSWERED);
    assert_string_equal(played.asked, "begin checkpoint:request complete complete");
    assert_hello(&answer);
    once_http_answer_release(&answer);
}

static void answer__journal_lost__is_given_with_the_error(void **state)
{
    struct played played = {
        .lines = {{ONCE_OK, ONCE_EXECUTE, ""}, {ONCE_OK, ONCE_DONE, ""}, {ONCE_ERR_STOPPED, 0, ""}},
        .count = 3};
    struct once_http_answer answer;

    (void)state;
    assert_int_equal(send_to_hello(&played, &answer), ONCE_ERR_STOPPED);
    assert_hello(&answer);
    assert_non_null(strstr(answer.text, "could not be kept"));
    once_http_answer_release(&answer);
}

static void answer__someone_else_ended_it__is_theirs(void **state)
{
    struct played played = {.lines = {{ONCE_OK, ONCE_EXECUTE, ""},
                                      {ONCE_OK, ONCE_DONE, ""},
                                      {ONCE_OK, ONCE_STALE, ""},
                                      {ONCE_OK, ONCE_DONE, "", ONCE_STATE_COMPLETED, "theirs"}},
                            .count = 4};
    struct once_http_answer answer;

    (void)state;
    assert_int_equal(send_to_hello(&played, &answer), ONCE_OK);
    assert_int_equal(answer.outcome, ONCE_HTTP_REPLAYED);
    assert_int_equal(answer.status, 201);
    assert_int_equal(answer.body.size, 6);
    assert_string_equal(played.asked, "begin checkpoint:request complete get");
    once_http_answer_release(&answer);
}

static void answer__someone_else_forgot_it__is_stale(void **state)
{
    struct played played = {.lines = {{ONCE_OK, ONCE_EXECUTE, ""},
                                      {ONCE_OK, ONCE_DONE, ""},
                                      {ONCE_OK, ONCE_NOTFOUND, ""},
                                      {ONCE_OK, ONCE_NOTFOUND, ""}},
                            .count = 4};
    struct once_http_answer answer;

    (void)state;
    assert_int_equal(send_to_hello(&played, &answer), ONCE_OK);
    assert_int_equal(answer.outcome, ONCE_HTTP_STALE);
    once_http_answer_release(&answer);
}

static void journal__passing_error__is_repeated_within_patience(void **state)
{
    struct played played = {
        .lines = {{ONCE_ERR_IO, 0, ""}, {ONCE_ERR_LOCKED, 0, ""}, {ONCE_OK, ONCE_MISMATCH, ""}},
        .count = 3};
    struct once_http_journal journal = {.perform = play, .user = &played, .patience_ms = 60000};
    struct once_http_request request = {.method = "POST", .url = "http://127.0.0.1:1/"};
    struct once_http_answer answer;

    (void)state;
    assert_int_equal(once_http_send(&journal, once_bytes_of("k"), &request, NULL, &answer),
                     ONCE_OK);
    assert_int_equal(answer.outcome, ONCE_HTTP_MISMATCH);
    assert_string_equal(played.asked, "begin begin begin");
    once_http_answer_release(&answer);
}

static void send__bad_arguments__are_errors(void **state)
{
    struct once_http_journal journal = {.perform = play};
    struct once_http_request request = {.method = "POST", .url = "http://127.0.0.1:1/"};
    struct once_http_answer answer;

    (void)state;
    assert_int_equal(once_http_send(NULL, once_bytes_of("k"), &request, NULL, &answer),
                     ONCE_ERR_INVALID);
    assert_int_equal(once_http_send(&journal, once_bytes_of(""), &request, NULL, &answer),
                     ONCE_ERR_KEY_EMPTY);
    assert_int_equal(once_http_send(&journal, once_bytes_of("k"), NULL, NULL, &answer),
                     ONCE_ERR_INVALID);
    assert_int_equal(once_http_send(&journal, once_bytes_of("k"), &request, NULL, NULL),
                     ONCE_ERR_INVALID);
    request.bare_key = true;
    assert_int_equal(once_http_send(&journal, once_bytes_of("k k"), &request, NULL, &answer),
                     ONCE_ERR_KEY_CHARACTER);
    assert_int_equal(once_http_resume(NULL, once_bytes_of("k"), NULL, &answer), ONCE_ERR_INVALID);
    once_http_answer_release(NULL);
    assert_string_equal(once_http_outcome_name(ONCE_HTTP_DOUBT), "in doubt");
    assert_string_equal(once_http_outcome_name((enum once_http_outcome)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backoff__any_random__is_within_the_doubled_bound),
        cmocka_unit_test(retry_after__seconds_and_dates__are_read),
        cmocka_unit_test(fate__each_status__is_as_documented),
        cmocka_unit_test(budget__empty__gives_no_retry_until_calls_bring_some),
        cmocka_unit_test(options__out_of_range__are_refused),
        cmocka_unit_test(request__wrong__is_refused_with_its_reason),
        cmocka_unit_test(secrets__are_filled_from_the_environment__and_never_told),
        cmocka_unit_test(request__written_and_read__is_the_same_and_holds_no_secret),
        cmocka_unit_test(fingerprint__anything_changed__is_another),
        cmocka_unit_test(body_file__large_and_changed__is_refused_when_read_again),
        cmocka_unit_test(key_value__is_quoted_or_bare),
        cmocka_unit_test(result__written_and_read__is_the_answer),
        cmocka_unit_test(result__of_another_program__is_given_as_it_is),
        cmocka_unit_test(send__never_connected__fails_and_says_so_first),
        cmocka_unit_test(send__taken_over_after_a_request__is_in_doubt_and_never_fails),
        cmocka_unit_test(send__doubt_about_nothing_sent__is_taken_over),
        cmocka_unit_test(send__doubt_about_a_request__is_told),
        cmocka_unit_test(send__request_cannot_be_kept__sends_nothing),
        cmocka_unit_test(answer__full_disk__keeps_what_always_goes_in),
        cmocka_unit_test(answer__journal_lost__is_given_with_the_error),
        cmocka_unit_test(answer__someone_else_ended_it__is_theirs),
        cmocka_unit_test(answer__someone_else_forgot_it__is_stale),
        cmocka_unit_test(journal__passing_error__is_repeated_within_patience),
        cmocka_unit_test(send__bad_arguments__are_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
