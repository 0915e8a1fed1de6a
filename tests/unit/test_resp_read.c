/* SPDX-License-Identifier: Apache-2.0
 *
 * Every input is read whole and cut at every place, each piece against a page that may not be
 * touched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <once/limits.h>

#include "server/resp_read.h"

enum { ARGS_MAX = 16, TEXT_SIZE = 4096, GUARDED_SIZE = 1 << 18 };

static const struct once__resp_bounds bounds_small = {
    .arg_count_max = ARGS_MAX, .arg_size_max = 64, .size_max = 256};

/* Memory whose end is followed by a page that may not be read. */
static uint8_t *guarded;

static int make_guarded(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = mmap(NULL, GUARDED_SIZE + page, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    if (memory == MAP_FAILED || mprotect(memory + GUARDED_SIZE, page, PROT_NONE) != 0)
        return -1;
    guarded = memory;
    return 0;
}

static uint8_t *at_the_guard(const char *input, size_t size)
{
    assert_true(size <= GUARDED_SIZE);
    return memcpy(guarded + GUARDED_SIZE - size, input, size);
}

/* Writes what was read: "[SET|key|value]", "-" for nothing, "!what" when it is wrong, "…" when the
 * rest is incomplete. cut: only so many bytes are there at first; the reader goes on from there. */
static void describe(const char *input, size_t size, size_t cut,
                     const struct once__resp_bounds *bounds, char text[TEXT_SIZE])
{
    struct once__resp_arg args[ARGS_MAX];
    struct once__resp_reader reader = {.args = args};
    size_t begin = 0, there = cut, length = 0;
    char bytes[TEXT_SIZE]; /* what was unquoted in place stays so */

    assert_true(size <= sizeof bytes);
    memcpy(bytes, input, size);
    for (;;) {
        uint8_t *data = at_the_guard(bytes + begin, there - begin);
        const char *what = NULL;
        enum once__resp_result result = once__resp_read(&reader, data, there - begin, bounds,
                                                        &what);

        memcpy(bytes + begin, data, there - begin);
        assert_true(length < TEXT_SIZE - 512);
        assert_true(reader.offset <= there - begin);
        if (result == ONCE__RESP_INCOMPLETE && there < size) {
            there = size;
            continue;
        }
        if (result == ONCE__RESP_WRONG) {
            snprintf(text + length, TEXT_SIZE - length, "!%s", what);
            return;
        }
        if (result == ONCE__RESP_INCOMPLETE) {
            snprintf(text + length, TEXT_SIZE - length, "%s", begin < there ? "…" : "");
            return;
        }
        length += (size_t)snprintf(text + length, TEXT_SIZE - length, "%s",
                                   result == ONCE__RESP_NOTHING ? "-" : "[");
        for (uint32_t i = 0; result == ONCE__RESP_COMMAND && i < reader.count; i++) {
            assert_true(args[i].offset <= there - begin);
            assert_true(args[i].size <= there - begin - args[i].offset);
            if (i > 0)
                text[length++] = '|';
            memcpy(text + length, bytes + begin + args[i].offset, args[i].size);
            length += args[i].size;
        }
        if (result == ONCE__RESP_COMMAND)
            text[length++] = ']';
        text[length] = '\0';
        begin += reader.offset;
        reader = (struct once__resp_reader){.args = args};
    }
}

#define CASE(input, text)                                                                          \
    {                                                                                              \
        input, sizeof(input) - 1, text                                                             \
    }
static const struct {
    const char *input;
    size_t size;
    const char *text;
} cases[] = {
    /* Arrays. */
    CASE("*1\r\n$4\r\nPING\r\n", "[PING]"),
    CASE("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "[ECHO|]"),
    CASE("*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\r\n\r\n", "[ECHO|\r\n\r\n]"),
    CASE("*1\r\n$0\r\n\r\n", "[]"),
    CASE("*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n", "[a][b]"),
    CASE("*3\r\n$10\r\nONCE.BEGIN\r\n$3\r\npay\r\n$4\r\nk:17\r\n", "[ONCE.BEGIN|pay|k:17]"),
    CASE("*0\r\n*1\r\n$1\r\na\r\n", "-[a]"),
    CASE("*-1\r\n", "-"),
    CASE("*-17\r\n*0\r\n", "--"),
    CASE("", ""),
    CASE("*", "…"),
    CASE("*1", "…"),
    CASE("*1\r", "…"),
    CASE("*1\r\n", "…"),
    CASE("*1\r\n$", "…"),
    CASE("*1\r\n$4\r\nPIN", "…"),
    CASE("*1\r\n$4\r\nPING\r", "…"),
    CASE("*16\r\n", "…"),
    CASE("*1\r\n$64\r\n", "…"),
    /* Not arrays. */
    CASE("*\r\n", "!invalid multibulk length"),
    CASE("*-\r\n", "!invalid multibulk length"),
    CASE("*1\n", "!invalid multibulk length"),
    CASE("*1\rx", "!invalid multibulk length"),
    CASE("*01\r\n", "!invalid multibulk length"),
    CASE("*+1\r\n", "!invalid multibulk length"),
    CASE("* 1\r\n", "!invalid multibulk length"),
    CASE("*1 \r\n", "!invalid multibulk length"),
    CASE("*1x\r\n", "!invalid multibulk length"),
    CASE("*12345678901\r\n", "!invalid multibulk length"),
    CASE("*99999999999999999999999999999\r\n", "!invalid multibulk length"),
    CASE("*17\r\n", "!too many arguments"),
    CASE("*9999999999\r\n", "!too many arguments"),
    CASE("*1\r\n:4\r\nPING\r\n", "!expected '$' before an argument"),
    CASE("*1\r\n\r\n", "!expected '$' before an argument"),
    CASE("*1\r\n$\r\n", "!invalid bulk length"),
    CASE("*1\r\n$-1\r\n", "!invalid bulk length"),
    CASE("*1\r\n$04\r\nPING\r\n", "!invalid bulk length"),
    CASE("*1\r\n$4x\r\n", "!invalid bulk length"),
    CASE("*1\r\n$65\r\n", "!an argument is too large"),
    CASE("*1\r\n$9999999999\r\n", "!an argument is too large"),
    CASE("*1\r\n$4\r\nPINGS\r\n", "!an argument is longer than it says"),
    CASE("*1\r\n$4\r\nPING\n", "!an argument is longer than it says"),
    CASE("*1\r\n$4\r\nPING\rx", "!an argument is longer than it says"),
    CASE("*1\r\n$1\r\na\r\n*x", "[a]!invalid multibulk length"),
    /* Lines. */
    CASE("PING\r\n", "[PING]"),
    CASE("PING\n", "[PING]"),
    CASE("  echo \t hi  \r\n", "[echo|hi]"),
    CASE("\r\n\n  \r\nPING\r\n", "---[PING]"),
    CASE("ECHO \"a b\"\r\n", "[ECHO|a b]"),
    CASE("ECHO \"\"\r\n", "[ECHO|]"),
    CASE("ECHO ''\r\n", "[ECHO|]"),
    CASE("ECHO \"\\x41\\x6a\\n\\r\\t\\b\\a\\\"\\\\\\q\"\r\n", "[ECHO|Aj\n\r\t\b\a\"\\q]"),
    CASE("ECHO \"\\x4\"\r\n", "[ECHO|x4]"),
    CASE("ECHO \"\\xzz\"\r\n", "[ECHO|xzz]"),
    CASE("ECHO '\\x41 \"\\''\r\n", "[ECHO|\\x41 \"']"),
    CASE("ECHO a\"b c\"\r\n", "[ECHO|ab c]"),
    CASE("ECHO \\n\r\n", "[ECHO|\\n]"),
    CASE("PING", "…"),
    CASE("PING\r", "…"),
    CASE("PING\r\n*1\r\n$1\r\na\r\nECHO b\n", "[PING][a][ECHO|b]"),
    CASE("ECHO \"a\r\n", "!unbalanced quotes in request"),
    CASE("ECHO 'a\r\n", "!unbalanced quotes in request"),
    CASE("ECHO \"a\"b\r\n", "!unbalanced quotes in request"),
    CASE("ECHO 'a'b\r\n", "!unbalanced quotes in request"),
    CASE("ECHO \"a\\\r\n", "!unbalanced quotes in request"),
    CASE("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", "[1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16]"),
    CASE("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n", "!too many arguments"),
    CASE("POST / HTTP/1.1\r\n", "!this is not a place for HTTP"),
    CASE("host: x\r\n", "!this is not a place for HTTP"),
    CASE("POSTS /\r\n", "[POSTS|/]"),
    CASE("$4\r\nPING\r\n", "[$4][PING]"),
};

static void resp_read__inputs_cut_anywhere__give_what_is_listed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t cut = 0; cut <= cases[i].size; cut++) {
            char text[TEXT_SIZE];

            describe(cases[i].input, cases[i].size, cut, &bounds_small, text);
            if (strcmp(text, cases[i].text) != 0)
                fail_msg("case %zu cut at %zu: %s instead of %s", i, cut, text, cases[i].text);
        }
    }
}

/* Every byte on its own. */
static void resp_read__byte_by_byte__is_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct once__resp_arg args[ARGS_MAX];
        struct once__resp_reader reader = {.args = args};
        char bytes[TEXT_SIZE], first[TEXT_SIZE];
        enum once__resp_result result = ONCE__RESP_INCOMPLETE;
        const char *what = NULL;

        describe(cases[i].input, cases[i].size, cases[i].size, &bounds_small, first);
        memcpy(bytes, cases[i].input, cases[i].size);
        for (size_t there = 0; there <= cases[i].size && result == ONCE__RESP_INCOMPLETE; there++) {
            uint8_t *data = at_the_guard(bytes, there);
            size_t before = reader.offset;

            result = once__resp_read(&reader, data, there, &bounds_small, &what);
            assert_true(reader.offset >= before);
        }
        if (result == ONCE__RESP_WRONG && first[0] == '!')
            assert_string_equal(what, first + 1);
        else if (result == ONCE__RESP_INCOMPLETE)
            assert_true(first[0] == '\0' || strcmp(first, "…") == 0);
        else
            assert_int_equal(first[0], result == ONCE__RESP_NOTHING ? '-' : '[');
    }
}

static void resp_read__size_of_the_whole__is_bounded(void **state)
{
    struct once__resp_bounds bounds = {.arg_count_max = 4, .arg_size_max = 64, .size_max = 17};
    char text[TEXT_SIZE];

    (void)state;
    /* 4 + 4 + 6 is 14; 4 + 4 + 9 is 17. */
    describe("*1\r\n$4\r\nPING\r\n", 14, 14, &bounds, text);
    assert_string_equal(text, "[PING]");
    describe("*1\r\n$7\r\nPINGING\r\n", 17, 17, &bounds, text);
    assert_string_equal(text, "[PINGING]");
    describe("*1\r\n$8\r\nPINGINGS\r\n", 18, 18, &bounds, text);
    assert_string_equal(text, "!the command is too large");
    describe("*2\r\n$4\r\nPING\r\n$0\r\n\r\n", 20, 20, &bounds, text);
    assert_string_equal(text, "!the command is too large");
    describe("0123456789abcdef\n", 17, 3, &bounds, text);
    assert_string_equal(text, "[0123456789abcdef]");
    describe("0123456789abcdefg\n", 18, 3, &bounds, text);
    assert_string_equal(text, "!too big inline request");
    describe("0123456789abcdefg", 17, 17, &bounds, text);
    assert_string_equal(text, "!too big inline request");
    bounds.arg_size_max = 3;
    describe("PING abc abcd\n", 14, 14, &bounds, text);
    assert_string_equal(text, "!an argument is too large");
}

static void resp_read__large_argument__says_what_is_missing(void **state)
{
    struct once__resp_arg args[2];
    struct once__resp_reader reader = {.args = args};
    struct once__resp_bounds bounds = {
        .arg_count_max = 2, .arg_size_max = 1 << 24, .size_max = (1 << 24) + 100};
    uint8_t input[] = "*1\r\n$1000000\r\nabc";
    const char *what = NULL;

    (void)state;
    assert_int_equal(once__resp_missing(&reader, 0), 0);
    assert_int_equal(once__resp_read(&reader, input, sizeof input - 1, &bounds, &what),
                     ONCE__RESP_INCOMPLETE);
    assert_int_equal(once__resp_missing(&reader, sizeof input - 1), 1000000 + 2 - 3);
}

/* The time of a command that comes in pieces must not grow with their square. */
static void resp_read__many_pieces__are_not_read_again(void **state)
{
    static struct once__resp_arg args[8192];
    struct once__resp_reader reader = {.args = args};
    struct once__resp_bounds bounds = {
        .arg_count_max = 8192, .arg_size_max = 1 << 20, .size_max = 1 << 20};
    size_t size = 0;
    const char *what = NULL;
    uint8_t *input = guarded;

    (void)state;
    size += (size_t)snprintf((char *)input, 64, "*8192\r\n");
    for (int i = 0; i < 8192; i++) {
        assert_int_equal(once__resp_read(&reader, input, size, &bounds, &what),
                         ONCE__RESP_INCOMPLETE);
        assert_int_equal(reader.count, i);
        assert_int_equal(reader.offset, size);
        size += (size_t)snprintf((char *)input + size, 64, "$1\r\nx\r\n");
    }
    assert_int_equal(once__resp_read(&reader, input, size, &bounds, &what), ONCE__RESP_COMMAND);
    assert_int_equal(reader.count, 8192);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resp_read__inputs_cut_anywhere__give_what_is_listed),
        cmocka_unit_test(resp_read__byte_by_byte__is_the_same),
        cmocka_unit_test(resp_read__size_of_the_whole__is_bounded),
        cmocka_unit_test(resp_read__large_argument__says_what_is_missing),
        cmocka_unit_test(resp_read__many_pieces__are_not_read_again),
    };

    return cmocka_run_group_tests(tests, make_guarded, NULL);
}
