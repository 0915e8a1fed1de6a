/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/seeded.h"

#include "base/bytes.h"

static void append__at_the_bound__is_refused_and_changes_nothing(void **state)
{
    struct once_buf buf;

    (void)state;
    once_buf_init(&buf, 10);
    assert_int_equal(once_buf_append(&buf, "0123456789", 10), ONCE_OK);
    assert_int_equal(once_buf_append(&buf, "x", 1), ONCE_ERR_FULL);
    assert_int_equal(once_buf_append(&buf, "", 0), ONCE_OK);
    assert_int_equal(buf.size, 10);
    assert_true(buf.capacity <= 10);
    assert_memory_equal(buf.data, "0123456789", 10);
    assert_int_equal(once_buf_reserve(&buf, SIZE_MAX), ONCE_ERR_FULL);
    once_buf_clear(&buf);
    assert_int_equal(buf.size, 0);
    assert_int_equal(once_buf_append(&buf, "x", 1), ONCE_OK);
    once_buf_release(&buf);
    once_buf_release(&buf);
    once_buf_release(NULL);
    assert_null(buf.data);
}

static void append__many_pieces__keeps_every_byte(void **state)
{
    struct once_buf buf;

    (void)state;
    once_buf_init(&buf, 100000);
    for (int i = 0; i < 100000; i++) {
        uint8_t byte = (uint8_t)(i * 7);

        assert_int_equal(once_buf_append(&buf, &byte, 1), ONCE_OK);
    }
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buf.data[i], (uint8_t)(i * 7));
    once_buf_release(&buf);
}

static void compare__order__is_bytewise_and_prefix_first(void **state)
{
    static const char *const sorted[] = {"", "a", "aa", "ab", "b", "\x80", "\xff"};
    enum { COUNT = sizeof(sorted) / sizeof(sorted[0]) };

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < COUNT; j++) {
            struct once_bytes a = once_bytes_of(sorted[i]), b = once_bytes_of(sorted[j]);
            int order = once__bytes_compare(a, b);

            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
            assert_int_equal(once__bytes_equal(a, b), i == j);
        }
    }
}

static void err__every_number__has_a_name_and_a_text(void **state)
{
    (void)state;
    assert_string_equal(once_err_name(ONCE_ERR_KEY_EMPTY), "ERR_KEY_EMPTY");
    assert_string_equal(once_err_text(ONCE_OK), "ok");
    assert_string_equal(once_err_name(-9999), "ERR_UNKNOWN");
    assert_string_equal(once_err_name(1), "ERR_UNKNOWN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(append__at_the_bound__is_refused_and_changes_nothing),
        cmocka_unit_test(append__many_pieces__keeps_every_byte),
        cmocka_unit_test(compare__order__is_bytewise_and_prefix_first),
        cmocka_unit_test(err__every_number__has_a_name_and_a_text),
    };

    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
