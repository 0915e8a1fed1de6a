/* SPDX-License-Identifier: Apache-2.0
 *
 * D4: thousands of duplicates of one key in flight at the same time, each with WAIT. One is told to
 * do it; when it has, everyone else gets its answer, and nobody is told to do it again.
 */
#include "conformance/served.h"
#include "unit/seeded.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client_answer.h"

/* 2026-01-01T00:00:00Z, and it stays there: no lease ends. */
static const once_ms START_MS = 1767225600000LL;

enum { FILES = 8192, READ_SIZE = 1 << 16, POLL_MS = 20000, HTTP_COUNT = 300 };

static const char BEGIN_COMMAND[] =
    "*5\r\n$10\r\nONCE.BEGIN\r\n$3\r\npay\r\n$1\r\nk\r\n$4\r\nWAIT\r\n$5\r\n60000\r\n";

static struct served *served;

static int start(void **state)
{
    struct rlimit limit;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < FILES)
        limit.rlim_cur = limit.rlim_max < FILES ? limit.rlim_max : FILES;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    served = served_open(START_MS, false, NULL);
    return served ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    served_close(served);
    return 0;
}

/* ---- RESP ------------------------------------------------------------------------------------ */

struct wire {
    int fd;
    struct once__answer answer;
    size_t missing; /* answers that are still to come */
};

struct crowd {
    size_t wire_count;
    struct wire *wires;
    struct pollfd *polls;
    size_t executes, replays, others;
    uint64_t fence;
    const char *result; /* what a replay must hold */
};

static int dial(void)
{
    struct sockaddr_in where = {.sin_family = AF_INET,
                                .sin_port = htons(served_resp_port(served)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&where, sizeof(where)), 0);
    return fd;
}

static void write_all(int fd, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t sent = send(fd, (const char *)bytes + at, size - at, MSG_NOSIGNAL);

        assert_true(sent > 0);
        at += (size_t)sent;
    }
}

/* So many connections, each with so many begins on the way. */
static void gather(struct crowd *crowd, size_t wire_count, size_t each)
{
    struct once_buf commands;

    once_buf_init(&commands, SIZE_MAX);
    for (size_t i = 0; i < each; i++)
        assert_int_equal(once_buf_append(&commands, BEGIN_COMMAND, sizeof(BEGIN_COMMAND) - 1),
                         ONCE_OK);
    *crowd = (struct crowd){.wire_count = wire_count};
    crowd->wires = calloc(wire_count, sizeof(crowd->wires[0]));
    crowd->polls = calloc(wire_count, sizeof(crowd->polls[0]));
    assert_non_null(crowd->wires);
    assert_non_null(crowd->polls);
    for (size_t i = 0; i < wire_count; i++) {
        struct wire *wire = &crowd->wires[i];

        wire->fd = dial();
        wire->missing = each;
        once__answer_init(&wire->answer);
        crowd->polls[i] = (struct pollfd){.fd = wire->fd, .events = POLLIN};
        write_all(wire->fd, commands.data, commands.size);
    }
    once_buf_release(&commands);
}

static void disperse(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->wire_count; i++) {
        assert_int_equal(crowd->wires[i].missing, 0);
        (void)close(crowd->wires[i].fd);
        once__answer_release(&crowd->wires[i].answer);
    }
    free(crowd->wires);
    free(crowd->polls);
}

static bool says(const struct once__answer_item *item, const char *text)
{
    return item->bytes.size == strlen(text) &&
           memcmp(item->bytes.data, text, item->bytes.size) == 0;
}

static void count(struct crowd *crowd, const struct once__answer_item *item)
{
    if (item->kind == ONCE__ANSWER_LIST && item->count == 5 && says(&item->items[0], "EXECUTE")) {
        crowd->executes++;
        crowd->fence = (uint64_t)item->items[1].number;
    } else if (crowd->result && item->kind == ONCE__ANSWER_LIST && item->count == 3 &&
               says(&item->items[0], "REPLAY") && item->items[1].number == 201 &&
               says(&item->items[2], crowd->result)) {
        crowd->replays++;
    } else {
        crowd->others++;
        if (item->kind == ONCE__ANSWER_ERROR)
            print_message("# %.*s\n", (int)item->bytes.size, (const char *)item->bytes.data);
    }
}

static void read_wire(struct crowd *crowd, struct wire *wire)
{
    static uint8_t bytes[READ_SIZE];
    const struct once__answer_item *item = NULL;
    ssize_t size = recv(wire->fd, bytes, sizeof(bytes), 0);

    assert_true(size > 0);
    assert_int_equal(once__answer_feed(&wire->answer, bytes, (size_t)size), ONCE_OK);
    while (once__answer_next(&wire->answer, &item) == 1) {
        assert_true(wire->missing > 0);
        wire->missing--;
        count(crowd, item);
        once__answer_clear(&wire->answer);
    }
}

/* Until so many answers have come in all. */
static void hear(struct crowd *crowd, size_t answers)
{
    while (crowd->executes + crowd->replays + crowd->others < answers) {
        assert_true(poll(crowd->polls, crowd->wire_count, POLL_MS) > 0);
        for (size_t i = 0; i < crowd->wire_count; i++) {
            if (crowd->polls[i].revents != 0)
                read_wire(crowd, &crowd->wires[i]);
        }
    }
}

static void wait_until_parked(size_t count_parked)
{
    static const struct timespec step = {.tv_nsec = 1000000};

    for (int i = 0; served_parked(served) != count_parked; i++) {
        if (i >= POLL_MS)
            fail_msg("%zu are parked, not %zu", served_parked(served), count_parked);
        (void)nanosleep(&step, NULL);
    }
}

/* ONCE.COMPLETE, ONCE.FAIL: on a connection of its own. */
static void owner_says(const char *command, uint64_t fence, const char *rest)
{
    struct once__client *client = NULL;
    const struct once__answer_item *answer = NULL;
    struct once_bytes words[6] = {once_bytes_of(command), once_bytes_of("pay"), once_bytes_of("k")};
    char address[32], number[24];
    size_t word_count = 4;

    snprintf(address, sizeof(address), "127.0.0.1:%u", served_resp_port(served));
    snprintf(number, sizeof(number), "%" PRIu64, fence);
    words[3] = once_bytes_of(number);
    if (rest) {
        words[4] = once_bytes_of("201");
        words[5] = once_bytes_of(rest);
        word_count = 6;
    }
    assert_int_equal(once__client_open(address, NULL, &client, NULL), ONCE_OK);
    assert_int_equal(once__client_call(client, words, word_count, &answer, NULL), ONCE_OK);
    assert_true(says(answer, "OK"));
    once__client_close(client);
}

static void one_executes_and_the_others_replay(size_t wires, size_t each)
{
    const size_t all = wires * each;
    struct crowd crowd;

    gather(&crowd, wires, each);
    hear(&crowd, 1);
    assert_int_equal(crowd.executes, 1);
    wait_until_parked(all - 1);
    crowd.result = "ch_1";
    owner_says("ONCE.COMPLETE", crowd.fence, "ch_1");
    hear(&crowd, all);
    assert_int_equal(crowd.executes, 1);
    assert_int_equal(crowd.replays, all - 1);
    assert_int_equal(crowd.others, 0);
    assert_int_equal(served_parked(served), 0);
    disperse(&crowd);
}

static void wait__100_connections_of_100__one_executes(void **state)
{
    (void)state;
    one_executes_and_the_others_replay(100, 100);
}

static void wait__1000_connections_of_10__one_executes(void **state)
{
    (void)state;
    one_executes_and_the_others_replay(1000, 10);
}

/* When the first one fails, one of those who waited is next, with a larger fence; the others go on
 * waiting. */
static void wait__first_fails__one_of_the_others_executes(void **state)
{
    struct crowd crowd;
    uint64_t first;

    (void)state;
    gather(&crowd, 100, 1);
    hear(&crowd, 1);
    first = crowd.fence;
    wait_until_parked(99);
    owner_says("ONCE.FAIL", first, NULL);
    hear(&crowd, 2);
    assert_int_equal(crowd.executes, 2);
    assert_true(crowd.fence > first);
    wait_until_parked(98);
    crowd.result = "ch_2";
    owner_says("ONCE.COMPLETE", crowd.fence, "ch_2");
    hear(&crowd, 100);
    assert_int_equal(crowd.executes, 2);
    assert_int_equal(crowd.replays, 98);
    disperse(&crowd);
}

/* Who hangs up while waiting is not given the operation: nobody would do it. */
static void wait__hung_up__is_passed_over(void **state)
{
    struct crowd crowd, gone;

    (void)state;
    gather(&crowd, 1, 1);
    hear(&crowd, 1);
    gather(&gone, 50, 1);
    wait_until_parked(50);
    for (size_t i = 0; i < gone.wire_count; i++)
        gone.wires[i].missing = 0;
    disperse(&gone);
    wait_until_parked(0);
    owner_says("ONCE.FAIL", crowd.fence, NULL);
    disperse(&crowd);
    gather(&crowd, 1, 1); /* would have to wait if one of them had got it */
    hear(&crowd, 1);
    assert_int_equal(crowd.executes, 1);
    disperse(&crowd);
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

struct request {
    CURL *curl;
    struct once_buf body;
};

struct web {
    CURLM *multi;
    struct curl_slist *headers;
    char url[128];
    struct request requests[HTTP_COUNT];
    size_t done, executes, replays;
    uint64_t fence;
};

static size_t take_body(char *bytes, size_t size, size_t count_bytes, void *user)
{
    struct request *request = user;

    return once_buf_append(&request->body, bytes, size * count_bytes) == ONCE_OK
               ? size * count_bytes
               : 0;
}

static void post(struct web *web, struct request *request)
{
    once_buf_init(&request->body, 1 << 16);
    request->curl = curl_easy_init();
    assert_non_null(request->curl);
    curl_easy_setopt(request->curl, CURLOPT_URL, web->url);
    curl_easy_setopt(request->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(request->curl, CURLOPT_HTTPHEADER, web->headers);
    curl_easy_setopt(request->curl, CURLOPT_POSTFIELDS, "{\"wait_ms\":60000}");
    curl_easy_setopt(request->curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(request->curl, CURLOPT_WRITEDATA, request);
    curl_easy_setopt(request->curl, CURLOPT_PRIVATE, request);
    assert_int_equal(curl_multi_add_handle(web->multi, request->curl), CURLM_OK);
}

static void finish(struct web *web, CURLMsg *message)
{
    struct request *request = NULL;
    const char *verdict;
    long status = 0;
    json_t *json;

    assert_int_equal(message->data.result, CURLE_OK);
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&request);
    curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
    assert_int_equal(status, 200);
    json = json_loadb((const char *)request->body.data, request->body.size, 0, NULL);
    verdict = json_string_value(json_object_get(json, "verdict"));
    assert_non_null(verdict);
    if (strcmp(verdict, "EXECUTE") == 0) {
        web->executes++;
        web->fence = (uint64_t)json_integer_value(json_object_get(json, "fence"));
    } else {
        assert_string_equal(verdict, "REPLAY");
        assert_string_equal(json_string_value(json_object_get(json, "result")), "ch_3");
        assert_int_equal(json_integer_value(json_object_get(json, "code")), 201);
        web->replays++;
    }
    json_decref(json);
    web->done++;
}

/* Moves everything on, until so many have been answered and so many wait. */
static void turn(struct web *web, size_t done, size_t parked)
{
    for (int i = 0; web->done < done || served_parked(served) != parked; i++) {
        CURLMsg *message;
        int running = 0, left = 0;

        assert_true(i < POLL_MS);
        assert_int_equal(curl_multi_perform(web->multi, &running), CURLM_OK);
        while ((message = curl_multi_info_read(web->multi, &left)) != NULL) {
            if (message->msg == CURLMSG_DONE)
                finish(web, message);
        }
        assert_int_equal(curl_multi_poll(web->multi, NULL, 0, 1, NULL), CURLM_OK);
    }
}

static void wait__300_http_requests__one_executes(void **state)
{
    static struct web web;

    (void)state;
    web.multi = curl_multi_init();
    web.headers = curl_slist_append(NULL, "Content-Type: application/json");
    snprintf(web.url, sizeof(web.url), "http://127.0.0.1:%u/v1/ops/pay/k/begin",
             served_http_port(served));
    for (size_t i = 0; i < HTTP_COUNT; i++)
        post(&web, &web.requests[i]);
    turn(&web, 1, HTTP_COUNT - 1);
    assert_int_equal(web.executes, 1);
    owner_says("ONCE.COMPLETE", web.fence, "ch_3"); /* over RESP: all hosts share one room */
    turn(&web, HTTP_COUNT, 0);
    assert_int_equal(web.executes, 1);
    assert_int_equal(web.replays, HTTP_COUNT - 1);
    for (size_t i = 0; i < HTTP_COUNT; i++) {
        curl_multi_remove_handle(web.multi, web.requests[i].curl);
        curl_easy_cleanup(web.requests[i].curl);
        once_buf_release(&web.requests[i].body);
    }
    curl_multi_cleanup(web.multi);
    curl_slist_free_all(web.headers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wait__100_connections_of_100__one_executes, start, stop),
        cmocka_unit_test_setup_teardown(wait__1000_connections_of_10__one_executes, start, stop),
        cmocka_unit_test_setup_teardown(wait__first_fails__one_of_the_others_executes, start, stop),
        cmocka_unit_test_setup_teardown(wait__hung_up__is_passed_over, start, stop),
        cmocka_unit_test_setup_teardown(wait__300_http_requests__one_executes, start, stop),
    };
    int failed;

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return failed;
}
