/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a server's answers: every kind, split anywhere, and everything that a server which is
 * broken or hostile might send instead.
 */
#include "seeded.h"

#include "client/client_answer.h"

#include <stdio.h>
#include <stdlib.h>

/* Every kind, lists in lists, empty ones, and a string that looks like a line end. */
static const char EVERYTHING[] =
    "*9\r\n+EXECUTE\r\n:-42\r\n$-1\r\n*-1\r\n$0\r\n\r\n$4\r\na\r\nb\r\n"
    "*2\r\n*0\r\n*1\r\n:9223372036854775807\r\n-ERR no\r\n"
    ":-9223372036854775808\r\n";

static void text_is(const struct once__answer_item *item, enum once__answer_kind kind,
                    const char *text)
{
    assert_int_equal(item->kind, kind);
    assert_int_equal(item->bytes.size, strlen(text));
    assert_memory_equal(item->bytes.data, text, strlen(text));
}

static void check_everything(const struct once__answer_item *answer)
{
    const struct once__answer_item *items = answer->items;

    assert_int_equal(answer->kind, ONCE__ANSWER_LIST);
    assert_int_equal(answer->count, 9);
    text_is(&items[0], ONCE__ANSWER_WORD, "EXECUTE");
    assert_int_equal(items[1].kind, ONCE__ANSWER_NUMBER);
    assert_int_equal(items[1].number, -42);
    assert_int_equal(items[2].kind, ONCE__ANSWER_NULL);
    assert_int_equal(items[3].kind, ONCE__ANSWER_NULL);
    text_is(&items[4], ONCE__ANSWER_BYTES, "");
    text_is(&items[5], ONCE__ANSWER_BYTES, "a\r\nb");
    assert_int_equal(items[6].kind, ONCE__ANSWER_LIST);
    assert_int_equal(items[6].count, 2);
    assert_int_equal(items[6].items[0].kind, ONCE__ANSWER_LIST);
    assert_int_equal(items[6].items[0].count, 0);
    assert_int_equal(items[6].items[1].count, 1);
    assert_int_equal(items[6].items[1].items[0].number, INT64_MAX);
    text_is(&items[7], ONCE__ANSWER_ERROR, "ERR no");
    assert_int_equal(items[8].number, INT64_MIN);
}

static void feed(struct once__answer *answer, const char *bytes, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1); /* a block of its own: reading past it is seen */

    assert_non_null(copy);
    memcpy(copy, bytes, size);
    assert_int_equal(once__answer_feed(answer, copy, size), ONCE_OK);
    free(copy);
}

static void answer__split_anywhere__is_the_same(void **state)
{
    const size_t size = sizeof(EVERYTHING) - 1;

    (void)state;
    for (size_t split = 0; split <= size; split++) {
        const struct once__answer_item *item = NULL;
        struct once__answer answer;

        once__answer_init(&answer);
        feed(&answer, EVERYTHING, split);
        assert_int_equal(once__answer_next(&answer, &item), split == size ? 1 : 0);
        feed(&answer, EVERYTHING + split, size - split);
        assert_int_equal(once__answer_next(&answer, &item), 1);
        check_everything(item);
        assert_false(once__answer_has_more(&answer));
        once__answer_release(&answer);
    }
}

static void answer__byte_by_byte__is_whole_with_the_last(void **state)
{
    const size_t size = sizeof(EVERYTHING) - 1;
    const struct once__answer_item *item = NULL;
    struct once__answer answer;

    (void)state;
    once__answer_init(&answer);
    for (size_t i = 0; i < size; i++) {
        feed(&answer, EVERYTHING + i, 1);
        assert_int_equal(once__answer_next(&answer, &item), i + 1 == size ? 1 : 0);
    }
    check_everything(item);
    once__answer_release(&answer);
}

/* As many as came at once: what is behind one is the next. */
static void answer__several_in_one_piece__come_one_by_one(void **state)
{
    static const char bytes[] = "+OK\r\n:7\r\n$3\r\nabc\r\n*1\r\n+x\r\n+la";
    const struct once__answer_item *item = NULL;
    struct once__answer answer;

    (void)state;
    once__answer_init(&answer);
    feed(&answer, bytes, sizeof(bytes) - 1);
    assert_int_equal(once__answer_next(&answer, &item), 1);
    text_is(item, ONCE__ANSWER_WORD, "OK");
    assert_true(once__answer_has_more(&answer));
    once__answer_clear(&answer);
    assert_int_equal(once__answer_next(&answer, &item), 1);
    assert_int_equal(item->number, 7);
    once__answer_clear(&answer);
    assert_int_equal(once__answer_next(&answer, &item), 1);
    text_is(item, ONCE__ANSWER_BYTES, "abc");
    once__answer_clear(&answer);
    assert_int_equal(once__answer_next(&answer, &item), 1);
    text_is(&item->items[0], ONCE__ANSWER_WORD, "x");
    once__answer_clear(&answer);
    assert_int_equal(once__answer_next(&answer, &item), 0);
    feed(&answer, "st\r\n", 4);
    assert_int_equal(once__answer_next(&answer, &item), 1);
    text_is(item, ONCE__ANSWER_WORD, "last");
    once__answer_release(&answer);
}

/* Bytes that come while an answer is being looked at may move it: it is made again. */
static void answer__fed_while_whole__is_still_right(void **state)
{
    const struct once__answer_item *item = NULL;
    struct once__answer answer;
    char *more = calloc(1, 1 << 20);

    (void)state;
    assert_non_null(more);
    once__answer_init(&answer);
    feed(&answer, EVERYTHING, sizeof(EVERYTHING) - 1);
    assert_int_equal(once__answer_next(&answer, &item), 1);
    feed(&answer, more, 1 << 20);
    assert_int_equal(once__answer_next(&answer, &item), 1);
    check_everything(item);
    once__answer_release(&answer);
    free(more);
}

static void answer__that_is_not_resp2__is_refused_for_good(void **state)
{
    static const char *const bad[] = {
        "HTTP/1.1 400 Bad Request\r\n",
        "%1\r\n+a\r\n+b\r\n", /* RESP3 */
        "_\r\n",
        "\r\n",
        ":\r\n",
        ":-\r\n",
        ":+1\r\n",
        ":1x\r\n",
        ": 1\r\n",
        ":9223372036854775808\r\n",
        ":-9223372036854775809\r\n",
        "$-2\r\n",
        "$x\r\n",
        "$3\r\nabcd\r\n",
        "$3\r\nabc\n\r",
        "$99999999999999999999\r\n",
        "$16908289\r\n", /* one more than ONCE_ANSWER_BYTES_MAX */
        "*-2\r\n",
        "*1000000\r\n", /* with the list itself one more than ONCE_ANSWER_ITEMS_MAX */
        "*999999\r\n*1\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
        "+OK\n",
        "+\n",
    };

    (void)state;
    assert_int_equal(ONCE_ANSWER_BYTES_MAX, 16908288);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct once__answer_item *item = NULL;
        struct once__answer answer;

        once__answer_init(&answer);
        feed(&answer, bad[i], strlen(bad[i]));
        if (once__answer_next(&answer, &item) != ONCE_ERR_DAMAGED)
            fail_msg("accepted: %s", bad[i]);
        assert_non_null(answer.what);
        feed(&answer, "+OK\r\n", 5);
        assert_int_equal(once__answer_next(&answer, &item), ONCE_ERR_DAMAGED);
        once__answer_reset(&answer);
        feed(&answer, "+OK\r\n", 5);
        assert_int_equal(once__answer_next(&answer, &item), 1);
        once__answer_release(&answer);
    }
}

static void answer__at_its_bounds__is_read(void **state)
{
    static const char deep[] = "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n";
    const struct once__answer_item *item = NULL;
    struct once__answer answer;

    (void)state;
    once__answer_init(&answer);
    feed(&answer, deep, sizeof(deep) - 1);
    assert_int_equal(once__answer_next(&answer, &item), 1);
    for (int i = 0; i < ONCE_ANSWER_DEPTH_MAX; i++)
        item = &item->items[0];
    assert_int_equal(item->number, 1);
    once__answer_reset(&answer);
    feed(&answer, "*999999\r\n", 9);
    for (int i = 0; i < 999999; i++)
        assert_int_equal(once__answer_feed(&answer, (const uint8_t *)":1\r\n", 4), ONCE_OK);
    assert_int_equal(once__answer_next(&answer, &item), 1);
    assert_int_equal(item->count, 999999);
    assert_int_equal(item->items[999998].number, 1);
    once__answer_release(&answer);
}

static void answer__line_without_end__is_refused(void **state)
{
    const struct once__answer_item *item = NULL;
    struct once__answer answer;
    char line[1000];
    int got = 0;

    (void)state;
    memset(line, 'x', sizeof(line));
    once__answer_init(&answer);
    feed(&answer, "+", 1);
    for (int i = 0; i < 70 && got == 0; i++) {
        feed(&answer, line, sizeof(line));
        got = once__answer_next(&answer, &item);
    }
    assert_int_equal(got, ONCE_ERR_DAMAGED);
    once__answer_release(&answer);
}

static void find__name__gives_its_value(void **state)
{
    static const char map[] = "*6\r\n$5\r\nstate\r\n$7\r\nstarted\r\n+fence\r\n:9\r\n:1\r\n:2\r\n";
    const struct once__answer_item *item = NULL;
    struct once__answer answer;

    (void)state;
    once__answer_init(&answer);
    feed(&answer, map, sizeof(map) - 1);
    assert_int_equal(once__answer_next(&answer, &item), 1);
    text_is(once__answer_find(item, "state"), ONCE__ANSWER_BYTES, "started");
    assert_int_equal(once__answer_find(item, "fence")->number, 9);
    assert_null(once__answer_find(item, "started")); /* a value is no name */
    assert_null(once__answer_find(item, "stat"));
    assert_null(once__answer_find(&item->items[0], "state"));
    once__answer_release(&answer);
}

static void is_error__code__is_a_whole_word(void **state)
{
    struct once__answer_item item = {.kind = ONCE__ANSWER_ERROR,
                                     .bytes = once_bytes_of("STALE a larger fence")};

    (void)state;
    assert_true(once__answer_is_error(&item, "STALE"));
    assert_false(once__answer_is_error(&item, "STAL"));
    assert_false(once__answer_is_error(&item, "STALE a larger fence exists"));
    item.bytes = once_bytes_of("STALE");
    assert_true(once__answer_is_error(&item, "STALE"));
    item.kind = ONCE__ANSWER_WORD;
    assert_false(once__answer_is_error(&item, "STALE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer__split_anywhere__is_the_same),
        cmocka_unit_test(answer__byte_by_byte__is_whole_with_the_last),
        cmocka_unit_test(answer__several_in_one_piece__come_one_by_one),
        cmocka_unit_test(answer__fed_while_whole__is_still_right),
        cmocka_unit_test(answer__that_is_not_resp2__is_refused_for_good),
        cmocka_unit_test(answer__at_its_bounds__is_read),
        cmocka_unit_test(answer__line_without_end__is_refused),
        cmocka_unit_test(find__name__gives_its_value),
        cmocka_unit_test(is_error__code__is_a_whole_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
