/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "server/resp_write.h"

static struct once__out out;

static int begin(void **state)
{
    (void)state;
    once__out_init(&out, 1 << 20);
    return 0;
}

static int end(void **state)
{
    (void)state;
    once__out_release(&out);
    return 0;
}

static void assert_out(const char *text)
{
    assert_false(out.failed);
    assert_int_equal(out.buf.size, strlen(text));
    assert_memory_equal(out.buf.data, text, strlen(text));
    once_buf_clear(&out.buf);
}

static void write_all_kinds(void)
{
    once__out_simple(&out, "OK");
    once__out_integer(&out, -17);
    once__out_bulk(&out, (struct once_bytes){(const uint8_t *)"a\0b", 3});
    once__out_text(&out, "text");
    once__out_text(&out, "");
    once__out_verbatim(&out, once_bytes_of("two words"));
    once__out_null(&out);
    once__out_boolean(&out, true);
    once__out_boolean(&out, false);
    once__out_array(&out, 3);
    once__out_map(&out, 2);
    once__out_set(&out, 1);
}

static void out__all_kinds_in_resp2__are_as_listed(void **state)
{
    static const char text[] = "+OK\r\n:-17\r\n$3\r\na\0b\r\n$4\r\ntext\r\n$0\r\n\r\n"
                               "$9\r\ntwo words\r\n$-1\r\n:1\r\n:0\r\n*3\r\n*4\r\n*1\r\n";

    (void)state;
    write_all_kinds();
    assert_int_equal(out.buf.size, sizeof text - 1);
    assert_memory_equal(out.buf.data, text, sizeof text - 1);
}

static void out__all_kinds_in_resp3__are_as_listed(void **state)
{
    static const char text[] = "+OK\r\n:-17\r\n$3\r\na\0b\r\n$4\r\ntext\r\n$0\r\n\r\n"
                               "=13\r\ntxt:two words\r\n_\r\n#t\r\n#f\r\n*3\r\n%2\r\n~1\r\n";

    (void)state;
    out.protocol = 3;
    write_all_kinds();
    assert_int_equal(out.buf.size, sizeof text - 1);
    assert_memory_equal(out.buf.data, text, sizeof text - 1);
}

static void out_integer__every_width__is_exact(void **state)
{
    (void)state;
    once__out_integer(&out, 0);
    assert_out(":0\r\n");
    once__out_integer(&out, 9);
    assert_out(":9\r\n");
    once__out_integer(&out, 10);
    assert_out(":10\r\n");
    once__out_integer(&out, INT64_MAX);
    assert_out(":9223372036854775807\r\n");
    once__out_integer(&out, INT64_MIN);
    assert_out(":-9223372036854775808\r\n");
}

static void out_error__line_ends_and_controls__become_blanks(void **state)
{
    (void)state;
    once__out_error(&out, "ERR", "unknown command '%s'", "a\r\n+OK\r\n\x01\x7f");
    assert_out("-ERR unknown command 'a  +OK    '\r\n");
    once__out_error(&out, "STALE", "a larger fence exists");
    assert_out("-STALE a larger fence exists\r\n");
}

static void out_error__long_text__is_cut(void **state)
{
    char text[2000];

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    once__out_error(&out, "ERR", "%s", text);
    assert_int_equal(out.buf.size, 512 + 2);
    assert_memory_equal(out.buf.data, "-ERR xxx", 8);
    assert_memory_equal(out.buf.data + 512, "\r\n", 2);
    for (size_t i = 5; i < 512; i++)
        assert_int_equal(out.buf.data[i], 'x');
}

static void out__bound_reached__fails_for_good_and_writes_no_half(void **state)
{
    uint8_t large[64] = {0};
    size_t size;

    (void)state;
    once__out_release(&out);
    once__out_init(&out, 80);
    once__out_simple(&out, "OK");
    size = out.buf.size;
    once__out_bulk(&out, (struct once_bytes){large, sizeof large});
    assert_true(out.failed);
    assert_int_equal(out.buf.size, size);
    once__out_simple(&out, "OK");
    assert_int_equal(out.buf.size, size);
    once__out_error(&out, "ERR", "no");
    assert_int_equal(out.buf.size, size);
    once__out_release(&out);
    assert_false(out.failed);
    once__out_bulk(&out, (struct once_bytes){large, 10});
    assert_false(out.failed);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(out__all_kinds_in_resp2__are_as_listed),
        TEST(out__all_kinds_in_resp3__are_as_listed),
        TEST(out_integer__every_width__is_exact),
        TEST(out_error__line_ends_and_controls__become_blanks),
        TEST(out_error__long_text__is_cut),
        TEST(out__bound_reached__fails_for_good_and_writes_no_half),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
