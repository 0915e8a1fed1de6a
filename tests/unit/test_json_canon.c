/* SPDX-License-Identifier: Apache-2.0
 *
 * Canonical JSON. The property tests print their seed; ONCE_SEED=n replays one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/json_string.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <once/fingerprint.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* From a block of exactly the text's size, so that a read beyond it is seen. */
static int canonical_of(struct once_bytes json, enum once_json_numbers numbers,
                        struct once_buf *out, struct once_defect *ret_defect)
{
    uint8_t *block = malloc(json.size > 0 ? json.size : 1);
    int err;

    assert_non_null(block);
    if (json.size > 0)
        memcpy(block, json.data, json.size);
    err = once_json_canonical((struct once_bytes){block, json.size}, numbers, out, ret_defect);
    free(block);
    return err;
}

static void assert_canonical(const char *json, const char *expected, enum once_json_numbers numbers)
{
    struct once_defect defect = {.offset = 42, .what = NULL};
    struct once_buf out;

    once_buf_init(&out, 1 << 20);
    assert_int_equal(canonical_of(once_bytes_of(json), numbers, &out, &defect), ONCE_OK);
    assert_int_equal(out.size, strlen(expected));
    assert_memory_equal(out.data, expected, out.size);
    assert_int_equal(defect.offset, 42);
    assert_null(defect.what);
    once_buf_release(&out);
}

static void assert_refused(struct once_bytes json, int expected, size_t offset)
{
    struct once_defect defect = {.offset = SIZE_MAX, .what = NULL};
    struct once_buf out;

    once_buf_init(&out, 1 << 20);
    assert_int_equal(once_buf_append(&out, "kept", 4), ONCE_OK);
    assert_int_equal(canonical_of(json, ONCE_JSON_EXACT, &out, &defect), expected);
    assert_int_equal(defect.offset, offset);
    assert_non_null(defect.what);
    assert_int_equal(out.size, 4);
    assert_int_equal(canonical_of(json, ONCE_JSON_EXACT, &out, NULL), expected);
    once_buf_release(&out);
}

/* RFC 8785, 3.2.2 to 3.2.4. */
static void canon__structure_example_of_the_rfc__is_as_printed_there(void **state)
{
    static const char json[] =
        "{\n"
        "  \"numbers\": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],\n"
        "  \"string\": \"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\",\n"
        "  \"literals\": [null, true, false]\n"
        "}";
    static const char expected[] = "{\"literals\":[null,true,false],"
                                   "\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],"
                                   "\"string\":\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";

    (void)state;
    assert_canonical(json, expected, ONCE_JSON_RFC8785);
    assert_refused(once_bytes_of(json), ONCE_ERR_JSON_NUMBER, 16);
}

/* RFC 8785, 3.2.3. */
static void canon__sorting_example_of_the_rfc__is_by_utf16_units(void **state)
{
    static const char json[] = "{\"\\u20ac\":\"Euro Sign\","
                               "\"\\r\":\"Carriage Return\","
                               "\"\\ufb33\":\"Hebrew Letter Dalet With Dagesh\","
                               "\"1\":\"One\","
                               "\"\\ud83d\\ude00\":\"Emoji: Grinning Face\","
                               "\"\\u0080\":\"Control\","
                               "\"\\u00f6\":\"Latin Small Letter O With Diaeresis\"}";
    static const char expected[] = "{\"\\r\":\"Carriage Return\","
                                   "\"1\":\"One\","
                                   "\"\xc2\x80\":\"Control\","
                                   "\"\xc3\xb6\":\"Latin Small Letter O With Diaeresis\","
                                   "\"\xe2\x82\xac\":\"Euro Sign\","
                                   "\"\xf0\x9f\x98\x80\":\"Emoji: Grinning Face\","
                                   "\"\xef\xac\xb3\":\"Hebrew Letter Dalet With Dagesh\"}";

    (void)state;
    assert_canonical(json, expected, ONCE_JSON_EXACT);
}

static void canon__good_texts__have_one_form(void **state)
{
    static const char *const cases[][2] = {
        {"null", "null"},
        {" \t\r\n true \t\r\n ", "true"},
        {"false", "false"},
        {"-0", "0"},
        {"\"\"", "\"\""},
        {"[]", "[]"},
        {"[ ]", "[]"},
        {"{}", "{}"},
        {"{ \n }", "{}"},
        {"[ 1 , 2 , 3 ]", "[1,2,3]"},
        {"{\"a\" : 1}", "{\"a\":1}"},
        {"{\"b\":1,\"a\":2}", "{\"a\":2,\"b\":1}"},
        {"{\"b\":{},\"a\":{}}", "{\"a\":{},\"b\":{}}"},
        {"{\"a\":{\"d\":1,\"c\":2},\"b\":3}", "{\"a\":{\"c\":2,\"d\":1},\"b\":3}"},
        {"{\"b\":{\"d\":1,\"c\":2},\"a\":3}", "{\"a\":3,\"b\":{\"c\":2,\"d\":1}}"},
        {"{\"b\":[{\"d\":1,\"c\":{\"z\":0,\"y\":[]}},7,{\"f\":1,\"e\":2}],\"a\":3}",
         "{\"a\":3,\"b\":[{\"c\":{\"y\":[],\"z\":0},\"d\":1},7,{\"e\":2,\"f\":1}]}"},
        {"[{\"b\":1,\"a\":2},{\"a\":1},{\"b\":1,\"a\":2}]",
         "[{\"a\":2,\"b\":1},{\"a\":1},{\"a\":2,\"b\":1}]"},
        {"{\"aa\":1,\"a\":2,\"\":3}", "{\"\":3,\"a\":2,\"aa\":1}"},
        {"{\"A\":1,\"a\":2,\"B\":3}", "{\"A\":1,\"B\":3,\"a\":2}"},
        {"{\"10\":1,\"9\":2}", "{\"10\":1,\"9\":2}"},
        /* An escaped name sorts by what it means: \n is before every letter, \\ after Z. */
        {"{\"a\":1,\"\\n\":2,\"Z\":3,\"\\\\\":4}", "{\"\\n\":2,\"Z\":3,\"\\\\\":4,\"a\":1}"},
        {"{\"\\u0062\":1,\"\\u0061\":2}", "{\"a\":2,\"b\":1}"},
        /* Behind a long common prefix too. */
        {"{\"abcdefg\\n\":1,\"abcdefg\\u0001\":2}", "{\"abcdefg\\u0001\":2,\"abcdefg\\n\":1}"},
        {"\"\\b\\t\\n\\f\\r\\\"\\\\\\/\"", "\"\\b\\t\\n\\f\\r\\\"\\\\/\""},
        {"\"\\u0008\\u0009\\u000A\\u000c\\u000D\"", "\"\\b\\t\\n\\f\\r\""},
        {"\"\\u0000\\u001F\\u007f\"", "\"\\u0000\\u001f\x7f\""},
        {"\"\\uD83D\\uDE00 \\uDBFF\\uDFFF \\uFFFF\"",
         "\"\xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf \xef\xbf\xbf\""},
        {"\"\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xf0\x90\x80\x80\"",
         "\"\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xf0\x90\x80\x80\""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_canonical(cases[i][0], cases[i][1], ONCE_JSON_EXACT);
        assert_canonical(cases[i][0], cases[i][1], ONCE_JSON_RFC8785);
        assert_canonical(cases[i][1], cases[i][1], ONCE_JSON_EXACT);
    }
}

static const struct {
    const char *json;
    size_t offset;
} malformed[] = {
    {"", 0},
    {" \n", 2},
    {"nul", 0},
    {"nulL", 0},
    {"True", 0},
    {"truefalse", 4},
    {"1 2", 2},
    {"1,", 1},
    {"{} x", 3},
    {"\xef\xbb\xbf{}", 0},
    {"+1", 0},
    {".5", 0},
    {"0x1", 1},
    {"01", 0},
    {"1.", 2},
    {"-", 1},
    {"NaN", 0},
    {"Infinity", 0},
    {"-Infinity", 1},
    {"'a'", 0},
    {"[", 1},
    {"[1", 2},
    {"[1,", 3},
    {"[1,]", 3},
    {"[,1]", 1},
    {"[1 2]", 3},
    {"[1}", 2},
    {"]", 0},
    {"{", 1},
    {"{\"a\"", 4},
    {"{\"a\":", 5},
    {"{\"a\":1", 6},
    {"{\"a\":1,", 7},
    {"{\"a\":1,}", 7},
    {"{\"a\" 1}", 5},
    {"{\"a\":}", 5},
    {"{a:1}", 1},
    {"{1:1}", 1},
    {"{\"a\":1 \"b\":2}", 7},
    {"{\"a\":1]", 6},
    {"/* */ 1", 0},
    {"\"", 1},
    {"\"abc", 4},
    {"\"abc\\", 5},
    {"\"abc\\\"", 6},
    {"\"\\x41\"", 1},
    {"\"\\'\"", 1},
    {"\"\\u12\"", 1},
    {"\"\\u12g4\"", 1},
    {"\"a\\u", 2},
    {"\"\t\"", 1},
    {"\"a\nb\"", 2},
    {"\"\\ud800\"", 1},
    {"\"x\\udc00\"", 2},
    {"\"\\udc00\\udc00\"", 1},
    {"\"\\ud800\\u0041\"", 1},
    {"\"\\ud800\\ud800\"", 1},
    {"\"\\ud800x\"", 1},
    {"\"\\ud83d\\ude0\"", 1},
    {"\"a\x80\"", 2},
    {"\"\xc0\xaf\"", 1},         /* overlong */
    {"\"\xc1\xbf\"", 1},         /* overlong */
    {"\"\xe0\x80\xaf\"", 1},     /* overlong */
    {"\"\xe0\x9f\xbf\"", 1},     /* overlong */
    {"\"\xf0\x80\x80\xaf\"", 1}, /* overlong */
    {"\"\xf0\x8f\xbf\xbf\"", 1}, /* overlong */
    {"\"\xed\xa0\x80\"", 1},     /* surrogate */
    {"\"\xed\xbf\xbf\"", 1},     /* surrogate */
    {"\"\xf4\x90\x80\x80\"", 1}, /* beyond U+10FFFF */
    {"\"\xf5\x80\x80\x80\"", 1}, /* no such lead */
    {"\"\xff\"", 1},             /* no such lead */
    {"\"\xe2\x82\"", 1},         /* cut short */
    {"\"\xe2\x82", 1},           /* cut short by the end */
    {"\"\xf0\x9f\x98x\"", 1},    /* cut short */
    {"{\"\xc3\x28\":1}", 2},
    {"[\xc3\xa9]", 1},
};

static void canon__malformed_texts__are_refused_where_they_break(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(malformed); i++)
        assert_refused(once_bytes_of(malformed[i].json), ONCE_ERR_JSON, malformed[i].offset);
    assert_refused((struct once_bytes){(const uint8_t *)"\"\0\"", 3}, ONCE_ERR_JSON, 1);
    assert_refused((struct once_bytes){(const uint8_t *)"1\0", 2}, ONCE_ERR_JSON, 1);
}

static void canon__repeated_name__is_told_at_its_first_repetition(void **state)
{
    static const struct {
        const char *json;
        size_t offset;
    } cases[] = {
        {"{\"a\":1,\"a\":1}", 7},
        {"{\"a\":1,\"\\u0061\":2}", 7},
        {"{\"a\":1,\"b\":2,\"a\":3}", 13},
        {"{\"b\":1,\"a\":2,\"b\":3,\"a\":4}", 13},
        {"{\"a\":1,\"b\":2,\"a\":3,\"b\":4}", 13},
        {"{\"\":1,\"\":2}", 6},
        {"{\"\\/\":1,\"/\":2}", 8},
        {"{\"\xf0\x9f\x98\x80\":1,\"\\ud83d\\ude00\":2}", 10},
        {"[{\"x\":{\"a\":1,\"a\":1}}]", 13},
        {"{\"z\":{\"b\":1,\"a\":2},\"z\":1}", 19},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_refused(once_bytes_of(cases[i].json), ONCE_ERR_JSON_DUPLICATE, cases[i].offset);
    assert_canonical("[{\"a\":1},{\"a\":1},{\"a\":{\"a\":1}}]",
                     "[{\"a\":1},{\"a\":1},{\"a\":{\"a\":1}}]", ONCE_JSON_EXACT);
}

static void canon__bad_number__is_told_at_its_first_character(void **state)
{
    (void)state;
    assert_refused(once_bytes_of("{\"amount\": 9007199254740993}"), ONCE_ERR_JSON_NUMBER, 11);
    assert_refused(once_bytes_of("[1e400]"), ONCE_ERR_JSON_NUMBER, 1);
    assert_refused(once_bytes_of("[1, 1e-400]"), ONCE_ERR_JSON_NUMBER, 4);
    assert_canonical("[1, 1e-400]", "[1,0]", ONCE_JSON_RFC8785);
}

/* "[[[…]]]" or {"":{"":…}} of some depth. */
static struct once_bytes nested(char *text, size_t depth, const char *open, const char *middle,
                                char close)
{
    char *end = text;

    for (size_t i = 0; i < depth; i++) {
        memcpy(end, open, strlen(open));
        end += strlen(open);
    }
    memcpy(end, middle, strlen(middle));
    end += strlen(middle);
    memset(end, close, depth);
    end += depth;
    return (struct once_bytes){(const uint8_t *)text, (size_t)(end - text)};
}

static void canon__depth__is_bounded_for_arrays_and_objects(void **state)
{
    char text[8 * ONCE_JSON_DEPTH_MAX];
    struct once_bytes json;
    struct once_buf out;

    (void)state;
    once_buf_init(&out, 1 << 20);
    json = nested(text, ONCE_JSON_DEPTH_MAX, "[", "1", ']');
    assert_int_equal(canonical_of(json, ONCE_JSON_EXACT, &out, NULL), ONCE_OK);
    json = nested(text, ONCE_JSON_DEPTH_MAX, "{\"\":", "1", '}');
    assert_int_equal(canonical_of(json, ONCE_JSON_EXACT, &out, NULL), ONCE_OK);
    json = nested(text, ONCE_JSON_DEPTH_MAX + 1, "[", "1", ']');
    assert_refused(json, ONCE_ERR_FULL, ONCE_JSON_DEPTH_MAX);
    json = nested(text, ONCE_JSON_DEPTH_MAX + 1, "{\"\":", "1", '}');
    assert_refused(json, ONCE_ERR_FULL, (size_t)4 * ONCE_JSON_DEPTH_MAX);
    json = nested(text, ONCE_JSON_DEPTH_MAX - 1, "[", "{\"b\":0,\"a\":0}", ']');
    once_buf_clear(&out);
    assert_int_equal(canonical_of(json, ONCE_JSON_EXACT, &out, NULL), ONCE_OK);
    assert_memory_equal(out.data + ONCE_JSON_DEPTH_MAX - 1, "{\"a\":0,\"b\":0}", 13);
    once_buf_release(&out);
}

static void canon__size__is_bounded(void **state)
{
    size_t size = (size_t)ONCE_JSON_SIZE_MAX + 1;
    uint8_t *text = malloc(size);
    struct once_defect defect;
    struct once_buf out;

    (void)state;
    assert_non_null(text);
    memset(text, ' ', size);
    text[0] = '1';
    once_buf_init(&out, 8);
    assert_int_equal(
        once_json_canonical((struct once_bytes){text, size}, ONCE_JSON_EXACT, &out, &defect),
        ONCE_ERR_FULL);
    assert_int_equal(defect.offset, ONCE_JSON_SIZE_MAX);
    assert_int_equal(
        once_json_canonical((struct once_bytes){text, size - 1}, ONCE_JSON_EXACT, &out, &defect),
        ONCE_OK);
    assert_int_equal(out.size, 1);
    once_buf_release(&out);
    free(text);
}

/* The dearest body there is: numbers that the C library needs many digits for. Half a second on a
 * usual machine; the bound leaves room for sanitizers and slow ones. */
static void canon__largest_body_of_subnormal_numbers__takes_bounded_time(void **state)
{
    static const char piece[] = "1e-310,";
    size_t piece_size = sizeof(piece) - 1;
    size_t size = (size_t)ONCE_JSON_SIZE_MAX / piece_size * piece_size;
    uint8_t *text = malloc(size);
    clock_t start = clock();
    struct once_buf out;

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < size; i++)
        text[i] = (uint8_t)piece[i % piece_size];
    text[0] = '[';
    text[size - 1] = ']';
    text[1] = '0'; /* "[0-310" would be malformed: the first number is 0 */
    text[2] = text[3] = text[4] = text[5] = ' ';
    once_buf_init(&out, (size_t)2 * ONCE_JSON_SIZE_MAX);
    assert_int_equal(
        once_json_canonical((struct once_bytes){text, size}, ONCE_JSON_EXACT, &out, NULL), ONCE_OK);
    assert_true(clock() - start < (clock_t)10 * CLOCKS_PER_SEC);
    once_buf_release(&out);
    free(text);
}

static void canon__output_that_does_not_fit__is_full_and_leaves_the_buffer(void **state)
{
    struct once_defect defect;
    struct once_buf out;

    (void)state;
    once_buf_init(&out, 14);
    assert_int_equal(once_buf_append(&out, "ab", 2), ONCE_OK);
    assert_int_equal(
        once_json_canonical(once_bytes_of("{\"b\":1,\"a\":2}"), ONCE_JSON_EXACT, &out, &defect),
        ONCE_ERR_FULL);
    assert_int_equal(out.size, 2);
    assert_int_equal(
        once_json_canonical(once_bytes_of("{\"b\":1,\"\":2}"), ONCE_JSON_EXACT, &out, &defect),
        ONCE_OK);
    assert_memory_equal(out.data, "ab{\"\":2,\"b\":1}", 14);
    once_buf_release(&out);
}

static void canon__bad_arguments__are_invalid(void **state)
{
    struct once_defect defect = {0};
    struct once_buf out;

    (void)state;
    once_buf_init(&out, 100);
    assert_int_equal(
        once_json_canonical((struct once_bytes){NULL, 1}, ONCE_JSON_EXACT, &out, &defect),
        ONCE_ERR_INVALID);
    assert_non_null(defect.what);
    assert_int_equal(once_json_canonical(once_bytes_of("1"), ONCE_JSON_EXACT, NULL, NULL),
                     ONCE_ERR_INVALID);
    assert_int_equal(once_json_canonical(once_bytes_of("1"), (enum once_json_numbers)2, &out, NULL),
                     ONCE_ERR_INVALID);
    assert_int_equal(once_json_canonical((struct once_bytes){NULL, 0}, ONCE_JSON_EXACT, &out, NULL),
                     ONCE_ERR_JSON);
}

/* Random documents. */

static uint64_t seed_of_run(void)
{
    const char *text = getenv("ONCE_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);

    print_message("# ONCE_SEED=%" PRIu64 "\n", seed);
    return seed;
}

/* splitmix64 */
static uint64_t next_random(uint64_t *random)
{
    uint64_t z = *random += 0x9e3779b97f4a7c15ULL;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

static size_t below(uint64_t *random, size_t bound)
{
    return (size_t)(next_random(random) % bound);
}

/* One character as a JSON source may spell it: both mean the same. */
static const char *const spellings[][2] = {
    {"a", "\\u0061"},
    {"b", "\\u0062"},
    {"\\\"", "\\u0022"},
    {"\\\\", "\\u005C"},
    {"/", "\\/"},
    {"\\n", "\\u000a"},
    {"\\u0000", "\\u0000"},
    {"\\u001f", "\\u001F"},
    {"\xc3\xa9", "\\u00e9"},
    {"\xe2\x82\xac", "\\u20AC"},
    {"\xef\xbf\xbf", "\\uffff"},
    {"\xee\x80\x80", "\\ue000"},
    {"\xf0\x9f\x98\x80", "\\ud83d\\uDE00"},
    {"\xf4\x8f\xbf\xbf", "\\udbff\\udfff"},
    {"abcdefgh", "abcdefg\\u0068"},
};

static const char *const number_spellings[][2] = {
    {"0", "-0.0"},    {"1", "1.0"},      {"100", "1e2"},        {"-5", "-50E-1"},
    {"0.1", "1e-1"},  {"1e21", "10e20"}, {"1e-7", "0.0000001"}, {"123.456", "1234560e-4"},
    {"true", "true"}, {"null", "null"},
};

/* What a document means comes from tree, how it is spelt from style: same tree, same canonical
 * form. */
struct writer {
    uint64_t tree;
    uint64_t style;
    bool plain; /* one spelling, no shuffling */
};

static void put(struct once_buf *out, const char *text)
{
    assert_int_equal(once_buf_append(out, text, strlen(text)), ONCE_OK);
}

static void put_blank(struct writer *writer, struct once_buf *out)
{
    static const char *const blanks[] = {"", "", "", " ", "\t", "\r\n", "  "};

    if (!writer->plain)
        put(out, blanks[below(&writer->style, COUNT(blanks))]);
}

static void put_spelt(struct writer *writer, struct once_buf *out, const char *const pair[2])
{
    put(out, pair[writer->plain ? 0 : below(&writer->style, 2)]);
}

/* The number makes names of one object differ. */
static void put_name(struct writer *writer, struct once_buf *out, size_t number)
{
    char digits[24];
    size_t count = below(&writer->tree, 4);

    put(out, "\"");
    for (size_t i = 0; i < count; i++)
        put_spelt(writer, out, spellings[below(&writer->tree, COUNT(spellings))]);
    snprintf(digits, sizeof(digits), "#%zu\"", number);
    put(out, digits);
}

static void put_value(struct writer *writer, struct once_buf *out, unsigned depth);

static void put_object(struct writer *writer, struct once_buf *out, unsigned depth)
{
    struct once_buf members[6];
    size_t order[6];
    size_t count = below(&writer->tree, COUNT(members) + 1);

    for (size_t i = 0; i < count; i++) {
        once_buf_init(&members[i], out->size_max);
        put_blank(writer, &members[i]);
        put_name(writer, &members[i], i);
        put_blank(writer, &members[i]);
        put(&members[i], ":");
        put_value(writer, &members[i], depth + 1);
        order[i] = i;
    }
    for (size_t i = count; i > 1 && !writer->plain; i--) {
        size_t j = below(&writer->style, i), swap = order[j];

        order[j] = order[i - 1];
        order[i - 1] = swap;
    }
    put(out, "{");
    for (size_t i = 0; i < count; i++) {
        struct once_buf *member = &members[order[i]];

        put(out, i > 0 ? "," : "");
        assert_int_equal(once_buf_append(out, member->data, member->size), ONCE_OK);
        once_buf_release(member);
    }
    put_blank(writer, out);
    put(out, "}");
}

static void put_value(struct writer *writer, struct once_buf *out, unsigned depth)
{
    size_t kind = below(&writer->tree, depth > 5 ? 2 : 5);
    size_t count;

    put_blank(writer, out);
    switch (kind) {
    case 0:
        put_spelt(writer, out, number_spellings[below(&writer->tree, COUNT(number_spellings))]);
        break;
    case 1:
        put_name(writer, out, below(&writer->tree, 10));
        break;
    case 2:
        count = below(&writer->tree, 4);
        put(out, "[");
        for (size_t i = 0; i < count; i++) {
            put(out, i > 0 ? "," : "");
            put_value(writer, out, depth + 1);
        }
        put_blank(writer, out);
        put(out, "]");
        break;
    default:
        put_object(writer, out, depth);
        break;
    }
    put_blank(writer, out);
}

static void canon__same_document_spelt_differently__has_one_form(void **state)
{
    uint64_t random = seed_of_run();
    struct once_buf source, plain, spelt, again;

    (void)state;
    once_buf_init(&source, 1 << 24);
    once_buf_init(&plain, 1 << 24);
    once_buf_init(&spelt, 1 << 24);
    once_buf_init(&again, 1 << 24);
    for (int i = 0; i < 2000; i++) {
        struct writer writer = {.tree = next_random(&random), .plain = true};
        uint64_t tree = writer.tree;

        once_buf_clear(&source);
        once_buf_clear(&plain);
        put_object(&writer, &source, 0);
        assert_int_equal(canonical_of(once_buf_bytes(&source), ONCE_JSON_EXACT, &plain, NULL),
                         ONCE_OK);

        writer = (struct writer){.tree = tree, .style = next_random(&random)};
        once_buf_clear(&source);
        once_buf_clear(&spelt);
        put_object(&writer, &source, 0);
        assert_int_equal(canonical_of(once_buf_bytes(&source), ONCE_JSON_EXACT, &spelt, NULL),
                         ONCE_OK);
        assert_int_equal(spelt.size, plain.size);
        assert_memory_equal(spelt.data, plain.data, plain.size);

        once_buf_clear(&again);
        assert_int_equal(canonical_of(once_buf_bytes(&plain), ONCE_JSON_RFC8785, &again, NULL),
                         ONCE_OK);
        assert_int_equal(again.size, plain.size);
        assert_memory_equal(again.data, plain.data, plain.size);
    }
    once_buf_release(&source);
    once_buf_release(&plain);
    once_buf_release(&spelt);
    once_buf_release(&again);
}

enum { UNITS_MAX = 24 };

/* A random name as UTF-16 code units, and its canonical form. The smaller the variety, the longer
 * the prefix that two names share. */
static size_t random_name(uint64_t *random, size_t base, size_t variety, uint16_t units[UNITS_MAX],
                          struct once_buf *out)
{
    static const uint32_t starts[] = {0x00,   0x20,   0x58,    0x7f,    0xd7f0,
                                      0xe000, 0xfff0, 0x10000, 0x10fff0};
    size_t count = 0, characters = below(random, 11);
    struct once_buf escaped;
    size_t offset = 0;

    once_buf_init(&escaped, 1024);
    put(&escaped, "\"");
    for (size_t i = 0; i < characters; i++) {
        uint32_t start = starts[(base + below(random, variety)) % COUNT(starts)];
        uint32_t character = start + (uint32_t)below(random, variety < 3 ? variety : 3);
        char text[16];

        if (character >= 0x10000) {
            units[count++] = (uint16_t)(0xd800 + ((character - 0x10000) >> 10));
            units[count++] = (uint16_t)(0xdc00 + (character & 0x3ff));
            snprintf(text, sizeof(text), "\\u%04x\\u%04x", units[count - 2], units[count - 1]);
        } else {
            units[count++] = (uint16_t)character;
            snprintf(text, sizeof(text), "\\u%04x", character);
        }
        put(&escaped, text);
    }
    put(&escaped, "\"");
    once_buf_clear(out);
    assert_int_equal(once__json_string(once_buf_bytes(&escaped), &offset, out, NULL), ONCE_OK);
    assert_int_equal(offset, escaped.size);
    once_buf_release(&escaped);
    return count;
}

static int sign(int number)
{
    return (number > 0) - (number < 0);
}

static void name_compare__random_names__is_the_order_of_their_utf16_units(void **state)
{
    uint64_t random = seed_of_run();
    struct once_buf a, b;

    (void)state;
    once_buf_init(&a, 1024);
    once_buf_init(&b, 1024);
    for (int i = 0; i < 20000; i++) {
        uint16_t a_units[UNITS_MAX], b_units[UNITS_MAX];
        size_t base = below(&random, 9), variety = 1 + below(&random, 9);
        size_t a_count = random_name(&random, base, variety, a_units, &a);
        size_t b_count = random_name(&random, base, variety, b_units, &b);
        size_t common = 0;
        int expected;

        while (common < a_count && common < b_count && a_units[common] == b_units[common])
            common++;
        if (common < a_count && common < b_count)
            expected = a_units[common] < b_units[common] ? -1 : 1;
        else
            expected = (a_count > b_count) - (a_count < b_count);
        assert_int_equal(sign(once__json_name_compare((struct once_bytes){a.data + 1, a.size - 2},
                                                      (struct once_bytes){b.data + 1, b.size - 2})),
                         expected);
    }
    once_buf_release(&a);
    once_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canon__structure_example_of_the_rfc__is_as_printed_there),
        cmocka_unit_test(canon__sorting_example_of_the_rfc__is_by_utf16_units),
        cmocka_unit_test(canon__good_texts__have_one_form),
        cmocka_unit_test(canon__malformed_texts__are_refused_where_they_break),
        cmocka_unit_test(canon__repeated_name__is_told_at_its_first_repetition),
        cmocka_unit_test(canon__bad_number__is_told_at_its_first_character),
        cmocka_unit_test(canon__depth__is_bounded_for_arrays_and_objects),
        cmocka_unit_test(canon__size__is_bounded),
        cmocka_unit_test(canon__largest_body_of_subnormal_numbers__takes_bounded_time),
        cmocka_unit_test(canon__output_that_does_not_fit__is_full_and_leaves_the_buffer),
        cmocka_unit_test(canon__bad_arguments__are_invalid),
        cmocka_unit_test(canon__same_document_spelt_differently__has_one_form),
        cmocka_unit_test(name_compare__random_names__is_the_order_of_their_utf16_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
