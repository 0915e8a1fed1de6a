/* SPDX-License-Identifier: Apache-2.0
 *
 * RESP connections to a whole server, over real sockets. test_conn_limits.c has the bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/serve_help.h"

#define LISTEN "listen = 127.0.0.1:0\n"

static struct serving serving;

static int begin(void **state)
{
    (void)state;
    serve(&serving, LISTEN);
    return 0;
}

static int end(void **state)
{
    (void)state;
    stop(&serving);
    return 0;
}

/* ---- Order ----------------------------------------------------------------------------------- */

enum { MIXED_COUNT = 6000 };

static void *say_mixed(void *user)
{
    int fd = *(int *)user;
    char text[256];

    for (int i = 0; i < MIXED_COUNT; i++) {
        switch (i % 5) {
        case 0:
            snprintf(text, sizeof text, "*2\r\n$4\r\nECHO\r\n$5\r\n%05d\r\n", i);
            break;
        case 1:
            snprintf(text, sizeof text, "SET key%d %05d\r\n", i % 50, i);
            break;
        case 2:
            snprintf(text, sizeof text, "GET key%d\r\n", (i - 1) % 50);
            break;
        case 3:
            snprintf(text, sizeof text, "ONCE.LIST redis COUNT 1\r\n");
            break;
        default:
            snprintf(text, sizeof text, "NOSUCH %d\r\n", i);
        }
        say(fd, text);
    }
    return NULL;
}

static void pipeline__commands_of_all_kinds__are_answered_in_order(void **state)
{
    int fd = dial(&serving);
    char answer[8192], wanted[64];
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, say_mixed, &fd), 0);
    for (int i = 0; i < MIXED_COUNT; i++) {
        hear_answer(fd, answer, sizeof answer);
        switch (i % 5) {
        case 0:
            snprintf(wanted, sizeof wanted, "%05d", i);
            assert_string_equal(answer, wanted);
            break;
        case 1:
            assert_string_equal(answer, "+OK");
            break;
        case 2:
            snprintf(wanted, sizeof wanted, "%05d", i - 1);
            assert_string_equal(answer, wanted);
            break;
        case 3:
            assert_int_equal(answer[0], '*');
            break;
        default:
            assert_memory_equal(answer, "-ERR unknown command", 20);
        }
    }
    pthread_join(thread, NULL);
    close(fd);
}

/* A look must see what was said before it, and nothing said after it may be there too early. */
static void pipeline__a_list_among_writes__sees_those_before_it(void **state)
{
    int fd = dial(&serving);
    char answer[8192];

    (void)state;
    say(fd, "ONCE.BEGIN pay a\r\nONCE.LIST pay\r\nONCE.BEGIN pay b\r\nONCE.LIST pay\r\n");
    hear_answer(fd, answer, sizeof answer);
    assert_non_null(strstr(answer, "+EXECUTE"));
    hear_answer(fd, answer, sizeof answer);
    assert_memory_equal(answer, "*2 0 *1 ", 8);
    hear_answer(fd, answer, sizeof answer);
    assert_non_null(strstr(answer, "+EXECUTE"));
    hear_answer(fd, answer, sizeof answer);
    assert_memory_equal(answer, "*2 0 *2 ", 8);
    close(fd);
}

static void pipeline__hello_in_the_middle__changes_only_what_follows(void **state)
{
    int fd = dial(&serving);
    char answer[8192];

    (void)state;
    say(fd, "GET none\r\nHELLO 3\r\nGET none\r\nHELLO 2\r\nGET none\r\n");
    hear(fd, "$-1\r\n");
    hear_answer(fd, answer, sizeof answer);
    assert_int_equal(answer[0], '%');
    hear(fd, "_\r\n");
    hear_answer(fd, answer, sizeof answer);
    assert_int_equal(answer[0], '*');
    hear(fd, "$-1\r\n");
    close(fd);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static void input__one_byte_at_a_time__is_understood(void **state)
{
    static const char text[] =
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nv\r\nv2\r\nGET k\r\nECHO \"a b\"\r\n"
        "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n";
    int fd = dial(&serving), on = 1;

    (void)state;
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on), 0);
    for (size_t i = 0; i < sizeof text - 1; i++)
        say_bytes(fd, text + i, 1);
    hear(fd, "+OK\r\n$5\r\nv\r\nv2\r\n$3\r\na b\r\n$0\r\n\r\n");
    close(fd);
}

/* Large values, cut wherever the network likes, with commands before and behind. */
static void input__large_arguments__come_back_the_same(void **state)
{
    static const size_t sizes[] = {100, 511, 5000, 16384, 16385, 65536, 70000, 200000, 3000000};
    int fd = dial(&serving);

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i];
        char *value = malloc(size), *back = malloc(size), head[128];

        assert_non_null(value);
        assert_non_null(back);
        for (size_t j = 0; j < size; j++)
            value[j] = (char)(j * 7 + j / 1000 + i);
        snprintf(head, sizeof head, "ECHO a\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%zu\r\n", size);
        say(fd, head);
        say_bytes(fd, value, size);
        say(fd, "\r\nECHO b\r\nGET k\r\nECHO c\r\n");
        hear(fd, "$1\r\na\r\n+OK\r\n$1\r\nb\r\n");
        snprintf(head, sizeof head, "$%zu\r\n", size);
        hear(fd, head);
        hear_bytes(fd, back, size);
        assert_memory_equal(value, back, size);
        hear(fd, "\r\n$1\r\nc\r\n");
        free(value);
        free(back);
    }
    close(fd);
}

/* The first of them is large and needs no store: its memory is gone before the rest is read. */
static void input__large_and_answered_at_once__leaves_what_follows(void **state)
{
    enum { SIZE = 200000, ROUNDS = 20 };
    char *text = malloc(SIZE + 4096), *back = malloc(SIZE);
    int fd = dial(&serving);
    size_t size;

    (void)state;
    assert_non_null(text);
    assert_non_null(back);
    for (int round = 0; round < ROUNDS; round++) {
        size = (size_t)snprintf(text, 64, "*2\r\n$4\r\nECHO\r\n$%d\r\n", SIZE);
        memset(text + size, 'a' + round, SIZE);
        size += SIZE;
        size += (size_t)snprintf(text + size, 4096, "\r\nECHO b\r\nSET k %d\r\nGET k\r\n", round);
        say_bytes(fd, text, size);
        hear(fd, "$200000\r\n");
        hear_bytes(fd, back, SIZE);
        assert_true(back[0] == 'a' + round && memcmp(back, back + 1, SIZE - 1) == 0);
        snprintf(text, 64, "\r\n$1\r\nb\r\n+OK\r\n$%d\r\n%d\r\n", round < 10 ? 1 : 2, round);
        hear(fd, text);
    }
    close(fd);
    free(text);
    free(back);
}

static void *say_many_words(void *user)
{
    int fd = *(int *)user;

    for (int turn = 0; turn < 20; turn++) {
        say(fd, "*4001\r\n$6\r\nEXISTS\r\n");
        for (int i = 0; i < 4000; i++)
            say(fd, i % 2 ? "$5\r\nthere\r\n" : "$6\r\nabsent\r\n");
    }
    return NULL;
}

static void input__many_words_in_small_pieces__are_all_there(void **state)
{
    int fd = dial(&serving);
    pthread_t thread;

    (void)state;
    say(fd, "SET there 1\r\n");
    hear(fd, "+OK\r\n");
    assert_int_equal(pthread_create(&thread, NULL, say_many_words, &fd), 0);
    for (int turn = 0; turn < 20; turn++)
        hear(fd, ":2000\r\n");
    pthread_join(thread, NULL);
    close(fd);
}

/* Words of a command that is not whole are not those of another connection's. */
static void input__halves_of_two_connections__do_not_mix(void **state)
{
    int one = dial(&serving), two = dial(&serving);

    (void)state;
    say(one, "SET aa 1\r\nSET c 3\r\nPING\r\n");
    hear(one, "+OK\r\n+OK\r\n+PONG\r\n");
    say(one, "PING\r\n*4\r\n$4\r\nMGET\r\n$2\r\naa\r\n$2\r\nbb");
    say(two, "PING\r\n*5\r\n$4\r\nMGET\r\n$4\r\nnone\r\n$4\r\nnone\r\n");
    hear(one, "+PONG\r\n");
    hear(two, "+PONG\r\n");
    say(one, "\r\n$1\r\nc\r\n");
    hear(one, "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n");
    say(two, "$1\r\nc\r\n$2\r\naa\r\n");
    hear(two, "*4\r\n$-1\r\n$-1\r\n$1\r\n3\r\n$1\r\n1\r\n");
    close(one);
    close(two);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void end__wrong_bytes__are_told_after_what_came_before(void **state)
{
    int fd = dial(&serving);

    (void)state;
    say(fd, "SET k v\r\nGET k\r\nECHO x\r\n*1\r\nPING\r\nGET k\r\n");
    hear(fd, "+OK\r\n$1\r\nv\r\n$1\r\nx\r\n"
             "-ERR Protocol error: expected '$' before an argument\r\n");
    hear_end(fd);
}

/* The answer arrives, and nothing is reset, even if the other side goes on talking. */
static void end__wrong_bytes_and_many_more__the_error_is_heard(void **state)
{
    enum { SIZE = 1 << 24 };
    int fd = dial(&serving);
    char *rubbish = malloc(SIZE);

    (void)state;
    assert_non_null(rubbish);
    memset(rubbish, 'x', SIZE);
    say_bytes(fd, rubbish, SIZE);
    hear(fd, "-ERR Protocol error: too big inline request\r\n");
    hear_end(fd);
    free(rubbish);
}

static void end__quit__is_answered_last(void **state)
{
    int fd = dial(&serving);

    (void)state;
    say(fd, "SET k v\r\nQUIT\r\nGET k\r\n");
    hear(fd, "+OK\r\n+OK\r\n");
    hear_end(fd);
}

static void end__half_closed__everything_said_is_answered(void **state)
{
    int fd = dial(&serving);

    (void)state;
    for (int i = 0; i < 3000; i++)
        say(fd, "SET k v\r\n");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    for (int i = 0; i < 3000; i++)
        hear(fd, "+OK\r\n");
    hear_end(fd);
}

static size_t parked(void)
{
    return once__service_parked(once__server_service(serving.server));
}

static void end__vanished_while_parked__is_given_nothing(void **state)
{
    int holder = dial(&serving), gone = dial(&serving), next = dial(&serving);
    char answer[1024], text[256];
    unsigned long fence;

    (void)state;
    say(holder, "ONCE.BEGIN pay k OWNER a\r\n");
    hear_answer(holder, answer, sizeof answer);
    assert_int_equal(sscanf(answer, "*5 +EXECUTE :%lu", &fence), 1);
    say(gone, "ONCE.BEGIN pay k OWNER b WAIT 60000\r\n");
    while (parked() != 1)
        usleep(500);
    close(gone);
    while (parked() != 0)
        usleep(500);
    say(next, "ONCE.BEGIN pay k OWNER c WAIT 60000\r\n");
    while (parked() != 1)
        usleep(500);
    snprintf(text, sizeof text, "ONCE.FAIL pay k %lu\r\n", fence);
    say(holder, text);
    hear(holder, "+OK\r\n");
    hear_answer(next, answer, sizeof answer);
    assert_non_null(strstr(answer, "+EXECUTE"));
    close(holder);
    close(next);
}

static void end__vanished_with_commands_in_the_store__nothing_is_left(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        int fd = dial(&serving);

        for (int j = 0; j < 50; j++)
            say(fd, "SET k v\r\nGET k\r\nONCE.LIST redis\r\n");
        if (i % 2) {
            struct linger linger = {.l_onoff = 1};

            assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
        }
        close(fd);
    }
    while (once__metrics_read(once__server_metrics(serving.server), ONCE__CONNECTIONS_RESP) > 0)
        usleep(500);
}

static void drain__what_is_under_way__is_answered(void **state)
{
    int holder = dial(&serving), waits = dial(&serving), idle = dial(&serving);
    char answer[1024];

    (void)state;
    say(holder, "ONCE.BEGIN pay k OWNER a\r\n");
    hear_answer(holder, answer, sizeof answer);
    say(waits, "ONCE.BEGIN pay k OWNER b WAIT 60000\r\n");
    while (parked() != 1)
        usleep(500);
    once__server_stop(serving.server);
    hear_answer(waits, answer, sizeof answer);
    assert_non_null(strstr(answer, "+BUSY"));
    hear_end(waits);
    hear_end(holder);
    hear_end(idle);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(pipeline__commands_of_all_kinds__are_answered_in_order),
        TEST(pipeline__a_list_among_writes__sees_those_before_it),
        TEST(pipeline__hello_in_the_middle__changes_only_what_follows),
        TEST(input__one_byte_at_a_time__is_understood),
        TEST(input__large_arguments__come_back_the_same),
        TEST(input__large_and_answered_at_once__leaves_what_follows),
        TEST(input__many_words_in_small_pieces__are_all_there),
        TEST(input__halves_of_two_connections__do_not_mix),
        TEST(end__wrong_bytes__are_told_after_what_came_before),
        TEST(end__wrong_bytes_and_many_more__the_error_is_heard),
        TEST(end__quit__is_answered_last),
        TEST(end__half_closed__everything_said_is_answered),
        TEST(end__vanished_while_parked__is_given_nothing),
        TEST(end__vanished_with_commands_in_the_store__nothing_is_left),
        TEST(drain__what_is_under_way__is_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
