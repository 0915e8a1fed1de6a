/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines split into words. Text and scratch are blocks of exactly their size, so that a step beyond
 * them is seen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <once/apply.h>

enum { WORDS_MAX = 16 };

/* A line that was split. */
struct line {
    uint8_t *text;
    uint8_t *scratch;
    struct once_bytes words[WORDS_MAX];
    size_t count;
    struct once_defect defect;
    int err;
};

static uint8_t *block_of(const void *data, size_t size)
{
    uint8_t *block = malloc(size > 0 ? size : 1);

    assert_non_null(block);
    if (size > 0)
        memcpy(block, data, size);
    return block;
}

static struct line *line_new(const char *text)
{
    struct line *line = calloc(1, sizeof(*line));
    size_t size = strlen(text);

    assert_non_null(line);
    line->text = block_of(text, size);
    line->scratch = malloc(size > 0 ? size : 1);
    assert_non_null(line->scratch);
    line->count = SIZE_MAX;
    line->err = once_do_split((struct once_bytes){line->text, size}, line->scratch, line->words,
                              WORDS_MAX, &line->count, &line->defect);
    return line;
}

static void line_free(struct line *line)
{
    free(line->text);
    free(line->scratch);
    free(line);
}

static void assert_bytes(struct once_bytes bytes, const char *text)
{
    assert_int_equal(bytes.size, strlen(text));
    if (bytes.size > 0)
        assert_memory_equal(bytes.data, text, bytes.size);
}

static void split__good_lines__give_the_words(void **state)
{
    static const struct {
        const char *line;
        const char *words[5];
    } cases[] = {
        {"", {NULL}},
        {" \t\r\n ", {NULL}},
        {"ADD acct:42 -100 MIN 0", {"ADD", "acct:42", "-100", "MIN", "0"}},
        {"  a\tb\nc\rd  ", {"a", "b", "c", "d"}},
        {"SET x \"two words\"", {"SET", "x", "two words"}},
        {"SET x 'two words'", {"SET", "x", "two words"}},
        {"'' \"\" x", {"", "", "x"}},
        {"a\"b c\"d'e f'g", {"ab cde fg"}},
        {"\"a\\\"b\" \"a\\\\b\" \"a\\nb\" \"\\ \"", {"a\"b", "a\\b", "anb", " "}},
        {"'a\\' 'say \"x\"' \"it's\"", {"a\\", "say \"x\"", "it's"}},
        {"a\\ b \\", {"a\\", "b", "\\"}},
        {"SET x {\"a\": 1}", {"SET", "x", "{\"a\": 1}"}},
        {"[1, 2] {} []", {"[1, 2]", "{}", "[]"}},
        {"{\"a\": [1, {\"b\": [ ]}], \"c\": {}} end",
         {"{\"a\": [1, {\"b\": [ ]}], \"c\": {}}", "end"}},
        {"{\"a\": \"} ]\\\" }\"} end", {"{\"a\": \"} ]\\\" }\"}", "end"}},
        {"{\"\\\\\": \"it's\"} end", {"{\"\\\\\": \"it's\"}", "end"}},
        {"[\n1\n]", {"[\n1\n]"}},
        {"x{1 }y a[1]", {"x{1", "}y", "a[1]"}},
        {"'{' \"[ a\" }", {"{", "[ a", "}"}},
        {"a'{ b'", {"a{ b"}},
        {"\xc3\xa4 \"\x01\"", {"\xc3\xa4", "\x01"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct line *line = line_new(cases[i].line);
        size_t count = 0;

        assert_int_equal(line->err, ONCE_OK);
        while (count < 5 && cases[i].words[count])
            count++;
        assert_int_equal(line->count, count);
        for (size_t j = 0; j < count; j++)
            assert_bytes(line->words[j], cases[i].words[j]);
        line_free(line);
    }
}

static void split__bad_lines__say_where_and_what(void **state)
{
    static const struct {
        const char *line;
        size_t offset;
        const char *what;
    } cases[] = {
        {"\"", 0, "quote"},
        {"a 'b", 2, "quote"},
        {"a b\"c", 3, "quote"},
        {"\"a\\", 0, "quote"},
        {"\"a\\\"", 0, "quote"},
        {"'a\" b", 0, "quote"},
        {"SET x {\"a\":1", 6, "not closed"},
        {"x [", 2, "not closed"},
        {"x [[]", 2, "not closed"},
        {"x {\"a", 3, "JSON string"},
        {"x {\"a\\\"}", 3, "JSON string"},
        {"x {\"a\\", 3, "JSON string"},
        {"x {]", 3, "{ goes with }"},
        {"x [{]}", 4, "{ goes with }"},
        {"x [{}}", 5, "{ goes with }"},
        {"x {user}:cart", 8, "in quotes"},
        {"x []]", 4, "in quotes"},
        {"x []\"\"", 4, "in quotes"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct line *line = line_new(cases[i].line);

        assert_int_equal(line->err, ONCE_ERR_INVALID);
        assert_int_equal(line->count, SIZE_MAX);
        assert_int_equal(line->defect.offset, cases[i].offset);
        assert_non_null(strstr(line->defect.what, cases[i].what));
        line_free(line);
    }
}

static void split__deep_json__needs_no_more_scratch_than_text(void **state)
{
    enum { DEPTH = 5000 };
    char *text = malloc(2 * DEPTH + 3);
    struct line *line;

    (void)state;
    assert_non_null(text);
    memcpy(text, "a ", 2);
    for (size_t i = 0; i < DEPTH; i++) {
        text[2 + i] = i % 2 == 0 ? '[' : '{';
        text[2 + 2 * DEPTH - 1 - i] = i % 2 == 0 ? ']' : '}';
    }
    text[2 + 2 * DEPTH] = '\0';
    line = line_new(text);
    assert_int_equal(line->err, ONCE_OK);
    assert_int_equal(line->count, 2);
    assert_int_equal(line->words[1].size, 2 * DEPTH);
    line_free(line);
    free(text);
}

static void split__more_words_than_room__is_full(void **state)
{
    struct once_bytes text = once_bytes_of("a b  c");
    struct once_bytes words[3];
    struct once_defect defect = {0};
    uint8_t scratch[6];
    size_t count = 77;

    (void)state;
    assert_int_equal(once_do_split(text, scratch, words, 2, &count, &defect), ONCE_ERR_FULL);
    assert_int_equal(count, 77);
    assert_int_equal(defect.offset, 5);
    assert_int_equal(once_do_split(text, scratch, words, 3, &count, NULL), ONCE_OK);
    assert_int_equal(count, 3);
    assert_int_equal(once_do_split(text, scratch, NULL, 0, &count, NULL), ONCE_ERR_FULL);
}

static void split__null_pointers__are_refused(void **state)
{
    struct once_bytes text = once_bytes_of("a");
    struct once_bytes words[1];
    uint8_t scratch[1];
    size_t count = 77;

    (void)state;
    assert_int_equal(once_do_split(text, NULL, words, 1, &count, NULL), ONCE_ERR_INVALID);
    assert_int_equal(once_do_split(text, scratch, NULL, 1, &count, NULL), ONCE_ERR_INVALID);
    assert_int_equal(once_do_split(text, scratch, words, 1, NULL, NULL), ONCE_ERR_INVALID);
    text = (struct once_bytes){NULL, 1};
    assert_int_equal(once_do_split(text, scratch, words, 1, &count, NULL), ONCE_ERR_INVALID);
    assert_int_equal(count, 77);
    assert_int_equal(once_do_split((struct once_bytes){NULL, 0}, NULL, NULL, 0, &count, NULL),
                     ONCE_OK);
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split__good_lines__give_the_words),
        cmocka_unit_test(split__bad_lines__say_where_and_what),
        cmocka_unit_test(split__deep_json__needs_no_more_scratch_than_text),
        cmocka_unit_test(split__more_words_than_room__is_full),
        cmocka_unit_test(split__null_pointers__are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
