/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <once/key.h>

#define UUID "8e03978e-40d5-43e8-bc93-6894a57f9324"

/* Parses from a block of exactly the header's size, so that a read beyond it is seen. */
static int parse(const char *header, size_t size, struct once_key *ret_key,
                 struct once_defect *ret_defect)
{
    uint8_t *block = malloc(size > 0 ? size : 1);
    int err;

    assert_non_null(block);
    memcpy(block, header, size);
    err = once_key_parse_header((struct once_bytes){block, size}, ret_key, ret_defect);
    free(block);
    return err;
}

static void key_header__good_values__give_the_key(void **state)
{
    static const struct {
        const char *header;
        const char *key;
    } cases[] = {
        {"\"" UUID "\"", UUID},
        {UUID, UUID},
        {" \t\"" UUID "\"\t ", UUID},
        {"\t " UUID " \t", UUID},
        {"\"a\"", "a"},
        {"a", "a"},
        {"\"with space\"", "with space"},
        {"\" leading and trailing \"", " leading and trailing "},
        {"\" \"", " "},
        {"\"a\\\"b\"", "a\"b"},
        {"\"a\\\\b\"", "a\\b"},
        {"\"\\\\\"", "\\"},
        {"\"\\\"\"", "\""},
        {"\"\\\\\\\"\"", "\\\""},
        {"\"a,b;c=1\"", "a,b;c=1"},
        {"order:1/2=x", "order:1/2=x"},
        {"'quoted'", "'quoted'"},
        {":aGVsbG8=:", ":aGVsbG8=:"},
        {"?1", "?1"},
        {"-42", "-42"},
        {"(a)", "(a)"},
        {"~!@#$%^&*()_+`-={}[]|:<>?./'", "~!@#$%^&*()_+`-={}[]|:<>?./'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct once_defect defect = {.offset = 42, .what = NULL};
        struct once_key key;

        assert_int_equal(parse(cases[i].header, strlen(cases[i].header), &key, &defect), ONCE_OK);
        assert_string_equal(key.text, cases[i].key);
        assert_int_equal(key.size, strlen(cases[i].key));
        assert_int_equal(defect.offset, 42);
        assert_null(defect.what);
    }
}

#define EMPTY ONCE_ERR_KEY_EMPTY
#define CHARACTER ONCE_ERR_KEY_CHARACTER
#define ESCAPE ONCE_ERR_KEY_ESCAPE
#define UNTERMINATED ONCE_ERR_KEY_UNTERMINATED
#define TRAILING ONCE_ERR_KEY_TRAILING

static void key_header__each_defect__has_its_error_offset_and_text(void **state)
{
    static const struct {
        const char *header;
        int err;
        size_t offset;
        const char *what; /* a part of the text */
    } cases[] = {
        {"", EMPTY, 0, "header is empty"},
        {" \t ", EMPTY, 3, "header is empty"},
        {"\"\"", EMPTY, 1, "nothing in the quotes"},
        {"  \"\"", EMPTY, 3, "nothing in the quotes"},
        {",abc", EMPTY, 0, "no key before"},
        {";a=1", EMPTY, 0, "no key before"},
        {"\"", UNTERMINATED, 1, "closing quote"},
        {"\"abc", UNTERMINATED, 4, "closing quote"},
        {"\"abc  ", UNTERMINATED, 6, "closing quote"},
        {"\"abc\\", UNTERMINATED, 5, "closing quote"},
        {"\"abc\\\"", UNTERMINATED, 6, "closing quote"},
        {"\"a\\bc\"", ESCAPE, 2, "backslash"},
        {"\"a\\u0041\"", ESCAPE, 2, "backslash"},
        {"\"abc\\ ", ESCAPE, 4, "backslash"},
        {"\"abc\"def", TRAILING, 5, "follows the closing quote"},
        {"\"abc\" \"def\"", TRAILING, 6, "follows the closing quote"},
        {"\"abc\"\"def\"", TRAILING, 5, "follows the closing quote"},
        {"\"abc\"\n", TRAILING, 5, "follows the closing quote"},
        {"\"abc\";foo=1", TRAILING, 5, "parameters"},
        {"\"abc\" ; foo", TRAILING, 6, "parameters"},
        {"abc;foo=1", TRAILING, 3, "parameters"},
        {"\"abc\",\"def\"", TRAILING, 5, "second key"},
        {"\"abc\" , \"abc\"", TRAILING, 6, "second key"},
        {"abc,def", TRAILING, 3, "second key"},
        {"abc, def", TRAILING, 3, "second key"},
        {"abc ,def", TRAILING, 4, "second key"},
        {"abc,", TRAILING, 3, "second key"},
        {"abc def", CHARACTER, 3, "white space"},
        {"abc \tdef", CHARACTER, 3, "white space"},
        {"abc \"def\"", CHARACTER, 3, "white space"},
        {"ab\"c", CHARACTER, 2, "in quotes"},
        {"abc\"", CHARACTER, 3, "in quotes"},
        {"ab\\c", CHARACTER, 2, "in quotes"},
        {"\"ab\tc\"", CHARACTER, 3, "control"},
        {"\"ab\x7f\"", CHARACTER, 3, "control"},
        {"ab\r\nc", CHARACTER, 2, "control"},
        {"caf\xc3\xa9", CHARACTER, 3, "ASCII"},
        {"\"caf\xc3\xa9\"", CHARACTER, 4, "ASCII"},
        {"\xe2\x80\x9c" UUID "\xe2\x80\x9d", CHARACTER, 0, "ASCII"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct once_defect defect = {0};
        struct once_key key = {.size = 42};

        assert_int_equal(parse(cases[i].header, strlen(cases[i].header), &key, &defect),
                         cases[i].err);
        assert_int_equal(defect.offset, cases[i].offset);
        assert_non_null(strstr(defect.what, cases[i].what));
        assert_int_equal(key.size, 42);
        assert_int_equal(parse(cases[i].header, strlen(cases[i].header), &key, NULL), cases[i].err);
    }
}

static void key_header__nul_in_either_form__is_a_control_character(void **state)
{
    struct once_defect defect;
    struct once_key key;

    (void)state;
    assert_int_equal(parse("a\0b", 3, &key, &defect), ONCE_ERR_KEY_CHARACTER);
    assert_int_equal(defect.offset, 1);
    assert_int_equal(parse("\"a\0b\"", 5, &key, &defect), ONCE_ERR_KEY_CHARACTER);
    assert_int_equal(defect.offset, 2);
}

static void key_header__longest_key__fits_and_one_more_does_not(void **state)
{
    char header[2 * ONCE_KEY_SIZE_MAX + 4];
    struct once_defect defect;
    struct once_key key;

    (void)state;
    memset(header, 'k', sizeof(header));
    assert_int_equal(parse(header, ONCE_KEY_SIZE_MAX, &key, NULL), ONCE_OK);
    assert_int_equal(key.size, ONCE_KEY_SIZE_MAX);
    assert_int_equal(key.text[ONCE_KEY_SIZE_MAX], '\0');
    assert_int_equal(parse(header, ONCE_KEY_SIZE_MAX + 1, &key, &defect), ONCE_ERR_KEY_TOO_LONG);
    assert_int_equal(defect.offset, ONCE_KEY_SIZE_MAX);

    header[0] = '"';
    header[ONCE_KEY_SIZE_MAX + 1] = '"';
    assert_int_equal(parse(header, ONCE_KEY_SIZE_MAX + 2, &key, NULL), ONCE_OK);
    assert_int_equal(key.size, ONCE_KEY_SIZE_MAX);
    header[ONCE_KEY_SIZE_MAX + 1] = 'k';
    header[ONCE_KEY_SIZE_MAX + 2] = '"';
    assert_int_equal(parse(header, ONCE_KEY_SIZE_MAX + 3, &key, &defect), ONCE_ERR_KEY_TOO_LONG);
    assert_int_equal(defect.offset, ONCE_KEY_SIZE_MAX + 1);
}

/* What counts is the key, not how it is written: 255 escaped quotes are 510 characters of header.
 * */
static void key_header__longest_key_all_escapes__is_measured_decoded(void **state)
{
    char header[2 * ONCE_KEY_SIZE_MAX + 4];
    struct once_defect defect;
    struct once_key key;

    (void)state;
    header[0] = '"';
    for (size_t i = 1; i < sizeof(header) - 1; i += 2)
        memcpy(header + i, "\\\"", 2);
    header[2 * ONCE_KEY_SIZE_MAX + 1] = '"';
    assert_int_equal(parse(header, 2 * ONCE_KEY_SIZE_MAX + 2, &key, NULL), ONCE_OK);
    assert_int_equal(key.size, ONCE_KEY_SIZE_MAX);
    header[2 * ONCE_KEY_SIZE_MAX + 1] = '\\';
    header[2 * ONCE_KEY_SIZE_MAX + 2] = '\\';
    header[2 * ONCE_KEY_SIZE_MAX + 3] = '"';
    assert_int_equal(parse(header, 2 * ONCE_KEY_SIZE_MAX + 4, &key, &defect),
                     ONCE_ERR_KEY_TOO_LONG);
    assert_int_equal(defect.offset, 2 * ONCE_KEY_SIZE_MAX + 1);
}

static void key_header__each_byte_in_each_form__is_allowed_as_documented(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        char bare[] = {'a', (char)byte, 'b'};
        char quoted[] = {'"', 'a', (char)byte, 'b', '"'};
        bool printable = byte >= 0x20 && byte <= 0x7e;
        bool in_quotes = printable && byte != '"' && byte != '\\';
        bool in_bare = in_quotes && byte != ' ' && byte != ',' && byte != ';';
        struct once_key bare_key, quoted_key;

        assert_int_equal(parse(bare, sizeof(bare), &bare_key, NULL) == ONCE_OK, in_bare);
        assert_int_equal(parse(quoted, sizeof(quoted), &quoted_key, NULL) == ONCE_OK, in_quotes);
        if (in_bare)
            assert_string_equal(bare_key.text, quoted_key.text);
    }
}

static void key_header__null_pointers__are_invalid(void **state)
{
    struct once_defect defect;
    struct once_key key;

    (void)state;
    assert_int_equal(once_key_parse_header((struct once_bytes){NULL, 3}, &key, &defect),
                     ONCE_ERR_INVALID);
    assert_int_equal(once_key_parse_header(once_bytes_of("a"), NULL, &defect), ONCE_ERR_INVALID);
    assert_int_equal(once_key_parse_header((struct once_bytes){NULL, 0}, &key, &defect),
                     ONCE_ERR_KEY_EMPTY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_header__good_values__give_the_key),
        cmocka_unit_test(key_header__each_defect__has_its_error_offset_and_text),
        cmocka_unit_test(key_header__nul_in_either_form__is_a_control_character),
        cmocka_unit_test(key_header__longest_key__fits_and_one_more_does_not),
        cmocka_unit_test(key_header__longest_key_all_escapes__is_measured_decoded),
        cmocka_unit_test(key_header__each_byte_in_each_form__is_allowed_as_documented),
        cmocka_unit_test(key_header__null_pointers__are_invalid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
