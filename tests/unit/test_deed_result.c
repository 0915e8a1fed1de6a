/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <once/apply.h>

#include "core/deed_result.h"

static uint8_t *block_of(const void *data, size_t size)
{
    uint8_t *block = malloc(size > 0 ? size : 1);

    assert_non_null(block);
    if (size > 0)
        memcpy(block, data, size);
    return block;
}

static void assert_bytes(struct once_bytes bytes, const char *text)
{
    assert_int_equal(bytes.size, strlen(text));
    if (bytes.size > 0)
        assert_memory_equal(bytes.data, text, bytes.size);
}

static struct once_bytes of(const char *text)
{
    return once_bytes_of(text);
}

static void results__written__are_read_the_same(void **state)
{
    static const int64_t numbers[] = {0, -1, 900, INT64_MIN, INT64_MAX};
    struct once_result result;
    struct once_buf out;
    size_t offset = 0;

    (void)state;
    once_buf_init(&out, 1000);
    assert_int_equal(once__results_begin(&out), ONCE_OK);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(once__results_number(&out, numbers[i]), ONCE_OK);
        assert_int_equal(once__results_word(&out, of("A_z-9.:")), ONCE_OK);
    }
    assert_int_equal(once__results_end(&out), ONCE_OK);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(once_results_next(once_buf_bytes(&out), &offset, &result), 1);
        assert_true(result.is_number && result.number == numbers[i] && result.word.size == 0);
        assert_int_equal(once_results_next(once_buf_bytes(&out), &offset, &result), 1);
        assert_true(!result.is_number && result.number == 0);
        assert_bytes(result.word, "A_z-9.:");
    }
    assert_int_equal(once_results_next(once_buf_bytes(&out), &offset, &result), 0);
    assert_int_equal(once_results_next(once_buf_bytes(&out), &offset, &result), 0);
    once_buf_release(&out);
}

static void results__as_text__are_json(void **state)
{
    struct once_buf out;

    (void)state;
    once_buf_init(&out, 1000);
    assert_int_equal(once__results_begin(&out), ONCE_OK);
    assert_int_equal(once__results_word(&out, of("new")), ONCE_OK);
    assert_int_equal(once__results_number(&out, -5), ONCE_OK);
    assert_int_equal(once__results_end(&out), ONCE_OK);
    assert_bytes(once_buf_bytes(&out), "[\"new\",-5]");
    once_buf_release(&out);
}

static int walk(const char *text)
{
    uint8_t *block = block_of(text, strlen(text));
    struct once_result result;
    size_t offset = 0;
    int more;

    do {
        more = once_results_next((struct once_bytes){block, strlen(text)}, &offset, &result);
    } while (more == 1);
    free(block);
    return more;
}

static void results__other_bytes__are_damaged(void **state)
{
    static const char *const texts[] = {
        "",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1]]",
        "[1] ",
        " [1]",
        "[ 1]",
        "[1 ]",
        "[1, 2]",
        "[01]",
        "[-0]",
        "[-]",
        "[--1]",
        "[1-1]",
        "[+1]",
        "[1.0]",
        "[\"\"]",
        "[\"a]",
        "[\"a\"",
        "[\"a b\"]",
        "[\"a\\n\"]",
        "[\"a\"\"b\"]",
        "[1\"b\"]",
        "[null]",
        "[a]",
        "[[1]]",
        "{}",
        "1",
        "[1][2]",
        "[1,,2]",
        "[\"",
        "[9223372036854775808]",
        "[-9223372036854775809]",
    };
    struct once_result result;
    size_t offset = 4;

    (void)state;
    assert_int_equal(walk("[]"), 0);
    assert_int_equal(walk("[1,\"a\"]"), 0);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (walk(texts[i]) != ONCE_ERR_DAMAGED)
            fail_msg("%s", texts[i]);
    }
    assert_int_equal(once_results_next(of("[1]"), &offset, &result), ONCE_ERR_DAMAGED);
    assert_int_equal(offset, 4);
    offset = 0;
    assert_int_equal(once_results_next((struct once_bytes){NULL, 3}, &offset, &result),
                     ONCE_ERR_INVALID);
    assert_int_equal(once_results_next(of("[1]"), NULL, &result), ONCE_ERR_INVALID);
    assert_int_equal(once_results_next(of("[1]"), &offset, NULL), ONCE_ERR_INVALID);
}

static void rejection__written__is_read_the_same(void **state)
{
    struct once_rejection rejection;
    struct once_buf out;

    (void)state;
    once_buf_init(&out, 1000);
    assert_int_equal(once__rejection_write(&out, 2, "BELOW_MIN", "would fall to -1"), ONCE_OK);
    assert_bytes(once_buf_bytes(&out),
                 "{\"rejected\":2,\"word\":\"BELOW_MIN\",\"reason\":\"would fall to -1\"}");
    assert_int_equal(once_rejection_read(once_buf_bytes(&out), &rejection), ONCE_OK);
    assert_int_equal(rejection.effect, 2);
    assert_bytes(rejection.word, "BELOW_MIN");
    assert_bytes(rejection.reason, "would fall to -1");

    once_buf_clear(&out);
    assert_int_equal(once__rejection_write(&out, UINT32_MAX, "X", "\"a\\b\"\n\x7f\xc3\xa4~ "),
                     ONCE_OK);
    assert_int_equal(once_rejection_read(once_buf_bytes(&out), &rejection), ONCE_OK);
    assert_int_equal(rejection.effect, UINT32_MAX);
    assert_bytes(rejection.reason, "?a?b?????~ ");

    once_buf_clear(&out);
    assert_int_equal(once__rejection_write(&out, 1, "X", ""), ONCE_OK);
    assert_int_equal(once_rejection_read(once_buf_bytes(&out), &rejection), ONCE_OK);
    assert_bytes(rejection.reason, "");
    once_buf_release(&out);
}

#define REJECTION "{\"rejected\":2,\"word\":\"GAP\",\"reason\":\"r\"}"

static void rejection__other_bytes__are_damaged(void **state)
{
    static const char *const texts[] = {
        "",
        "[1]",
        "{}",
        (REJECTION " "),
        (" " REJECTION),
        "{\"rejected\":0,\"word\":\"GAP\",\"reason\":\"r\"}",
        "{\"rejected\":-1,\"word\":\"GAP\",\"reason\":\"r\"}",
        "{\"rejected\":02,\"word\":\"GAP\",\"reason\":\"r\"}",
        "{\"rejected\":4294967296,\"word\":\"GAP\",\"reason\":\"r\"}",
        "{\"rejected\":,\"word\":\"GAP\",\"reason\":\"r\"}",
        "{\"rejected\":2,\"word\":\"\",\"reason\":\"r\"}",
        "{\"rejected\":2,\"word\":\"G P\",\"reason\":\"r\"}",
        "{\"rejected\":2,\"word\":\"GAP\"}",
        "{\"rejected\":2,\"word\":\"GAP\",\"reason\":\"\\n\"}",
        "{\"rejected\":2,\"word\":\"GAP\",\"reason\":\"\x01\"}",
        "{\"rejected\":2,\"word\":\"GAP\",\"reason\":\"\xc3\xa4\"}",
        "{\"rejected\":2,\"word\":\"GAP\",\"reason\":\"r\",\"more\":1}",
    };
    struct once_rejection rejection = {.effect = 77};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (once_rejection_read(of(texts[i]), &rejection) != ONCE_ERR_DAMAGED)
            fail_msg("%s", texts[i]);
    }
    for (size_t size = 0; size < sizeof(REJECTION) - 1; size++) {
        uint8_t *block = block_of(REJECTION, size);

        assert_int_equal(once_rejection_read((struct once_bytes){block, size}, &rejection),
                         ONCE_ERR_DAMAGED);
        free(block);
    }
    assert_int_equal(rejection.effect, 77);
    assert_int_equal(once_rejection_read(of(REJECTION), &rejection), ONCE_OK);
    assert_int_equal(once_rejection_read(of(REJECTION), NULL), ONCE_ERR_INVALID);
    assert_int_equal(once_rejection_read((struct once_bytes){NULL, 1}, &rejection),
                     ONCE_ERR_INVALID);
}

static void results__a_full_buffer__stays_as_it_was(void **state)
{
    struct once_buf out;

    (void)state;
    once_buf_init(&out, 4);
    assert_int_equal(once__results_begin(&out), ONCE_OK);
    assert_int_equal(once__results_number(&out, 1), ONCE_OK);
    assert_int_equal(once__results_number(&out, 22), ONCE_ERR_FULL);
    assert_int_equal(once__results_word(&out, of("w")), ONCE_ERR_FULL);
    assert_int_equal(once__rejection_write(&out, 1, "X", ""), ONCE_ERR_FULL);
    assert_bytes(once_buf_bytes(&out), "[1");
    once_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results__written__are_read_the_same),
        cmocka_unit_test(results__as_text__are_json),
        cmocka_unit_test(results__other_bytes__are_damaged),
        cmocka_unit_test(rejection__written__is_read_the_same),
        cmocka_unit_test(rejection__other_bytes__are_damaged),
        cmocka_unit_test(results__a_full_buffer__stays_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
