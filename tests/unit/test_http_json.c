/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading bodies and queries against tables of fields; the encodings; finding routes. What the
 * values then mean is told end to end.
 */
#include "seeded.h"

#include <once/once.h>

#include "server/http_inner.h"

static const char *const colours[] = {"red", "green", NULL};

enum { F_TEXT, F_BYTES, F_NUMBER, F_BOOL, F_WORD, F_CURSOR, F_DEEDS, F_COUNT };
static const struct once__http_field fields_all[F_COUNT] = {
    [F_TEXT] = {.name = "text", .kind = ONCE__FIELD_TEXT, .max = 4},
    [F_BYTES] = {.name = "bytes", .kind = ONCE__FIELD_BYTES, .max = 4},
    [F_NUMBER] = {.name = "number", .kind = ONCE__FIELD_NUMBER, .min = 0, .max = 9},
    [F_BOOL] = {.name = "bool", .kind = ONCE__FIELD_BOOL},
    [F_WORD] = {.name = "word", .kind = ONCE__FIELD_WORD, .words = colours},
    [F_CURSOR] = {.name = "cursor", .kind = ONCE__FIELD_CURSOR},
    [F_DEEDS] = {.name = "do", .kind = ONCE__FIELD_DEEDS},
};
static const struct once__http_fields all = {"All", fields_all, F_COUNT};

static const struct once__http_field fields_needed[] = {
    {.name = "a", .kind = ONCE__FIELD_NUMBER, .required = true, .max = 1},
    {.name = "b_base64", .kind = ONCE__FIELD_BASE64, .required = true, .max = 2},
};
static const struct once__http_fields needed = {"Needed", fields_needed, 2};

static struct once__http_said said;
static struct once__http_defect defect;

static int read_body(const struct once__http_fields *fields, const char *text)
{
    defect = (struct once__http_defect){.field = ""};
    return once__http_body_read(fields, once_bytes_of(text), &said, &defect);
}

static void assert_bytes(struct once_bytes bytes, const void *want, size_t size)
{
    assert_int_equal(bytes.size, size);
    if (size > 0)
        assert_memory_equal(bytes.data, want, size);
}

static void body__every_kind__is_read(void **state)
{
    (void)state;
    assert_int_equal(read_body(&all, "{\"text\":\"\\u00fc\",\"bytes_base64\":\"AP8=\",\"number\":9,"
                                     "\"bool\":true,\"word\":\"green\",\"cursor\":"
                                     "\"18446744073709551615\"}"),
                     ONCE_OK);
    assert_bytes(said.values[F_TEXT].bytes, "\xc3\xbc", 2);
    assert_bytes(said.values[F_BYTES].bytes, "\0\xff", 2);
    assert_int_equal(said.values[F_NUMBER].number, 9);
    assert_int_equal(said.values[F_BOOL].number, 1);
    assert_int_equal(said.values[F_WORD].number, 1);
    assert_true(said.values[F_CURSOR].cursor == UINT64_MAX);
    assert_false(said.values[F_DEEDS].given);
    once__http_said_release(&said);
}

static void body__nothing__is_an_empty_object(void **state)
{
    (void)state;
    assert_int_equal(read_body(&all, ""), ONCE_OK);
    for (size_t i = 0; i < F_COUNT; i++)
        assert_false(said.values[i].given);
    once__http_said_release(&said);
    assert_int_equal(read_body(&needed, ""), ONCE_ERR_INVALID);
    assert_string_equal(defect.field, "a");
    assert_string_equal(defect.text, "a: is missing");
    once__http_said_release(&said);
}

static void body__a_text_with_a_zero__keeps_it(void **state)
{
    (void)state;
    assert_int_equal(read_body(&all, "{\"bytes\":\"a\\u0000b\"}"), ONCE_OK);
    assert_bytes(said.values[F_BYTES].bytes, "a\0b", 3);
    once__http_said_release(&said);
}

static void body__something_wrong__is_named(void **state)
{
    static const struct {
        const char *body, *field, *text;
    } cases[] = {
        {"{\"texd\":1}", "texd", "texd: is not a field that is known here"},
        {"{\"text\":1}", "text", "text: is a string, not a number"},
        {"{\"text\":\"12345\"}", "text", "text: has 5 bytes, and at most 4 are allowed"},
        {"{\"text_base64\":\"\"}", "text_base64", "text_base64: is not a field that is known here"},
        {"{\"bytes\":\"\",\"bytes_base64\":\"\"}", "bytes",
         "bytes: is there twice, as text and in base64"},
        {"{\"bytes_base64\":7}", "bytes_base64", "bytes_base64: is a string, not a number"},
        {"{\"bytes_base64\":\"A\"}", "bytes_base64",
         "bytes_base64: is not base64 (RFC 4648, with padding)"},
        {"{\"bytes_base64\":\"AAAAAAA=\"}", "bytes_base64",
         "bytes_base64: has 5 bytes, and at most 4 are allowed"},
        {"{\"number\":10}", "number", "number: is a whole number from 0 to 9, not 10"},
        {"{\"number\":1e0}", "number",
         "number: is a whole number, not a number with a fraction or an exponent"},
        {"{\"bool\":0}", "bool", "bool: is true or false, not a number"},
        {"{\"word\":\"blue\"}", "word", "word: is one of \"red\", \"green\""},
        {"{\"cursor\":\"-1\"}", "cursor", "cursor: is the cursor of a page before, or 0"},
        {"{\"cursor\":\"18446744073709551616\"}", "cursor",
         "cursor: is the cursor of a page before, or 0"},
        {"{\"\":1}", "", "a field without a name"},
        {"[]", "", "the body is a JSON object, not an array"},
        {"null", "", "the body is a JSON object, not null"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_body(&all, cases[i].body), ONCE_ERR_INVALID);
        assert_string_equal(defect.field, cases[i].field);
        assert_string_equal(defect.text, cases[i].text);
        once__http_said_release(&said);
    }
}

static void body__no_json__says_where(void **state)
{
    static const char *const cases[] = {"{",
                                        "{}x",
                                        "{\"text\":\"\xff\"}",
                                        "{'text':1}",
                                        "{\"text\":\"a\",\"text\":\"b\"}",
                                        "\"\\ud800\"",
                                        "{1:2}"};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_body(&all, cases[i]), ONCE_ERR_INVALID);
        assert_string_equal(defect.field, "");
        assert_non_null(strstr(defect.text, "the body is not JSON: line 1, column "));
        once__http_said_release(&said);
    }
}

static void body__a_long_unknown_name__is_cut_between_characters(void **state)
{
    char body[300] = "{\"a";

    (void)state;
    for (size_t i = 0; i < 100; i++)
        memcpy(body + 3 + 2 * i, "\xc3\xbc", 2);
    memcpy(body + 203, "\":1}", 5);
    assert_int_equal(read_body(&all, body), ONCE_ERR_INVALID);
    assert_true(once__utf8_check(once_bytes_of(defect.field)));
    assert_true(once__utf8_check(once_bytes_of(defect.text)));
    assert_int_equal(strlen(defect.field), 63);
    once__http_said_release(&said);
}

static void body__more_values_than_allowed__is_not_parsed(void **state)
{
    size_t count = 300000;
    char *body = malloc(2 * count + 16);

    (void)state;
    assert_non_null(body);
    memcpy(body, "{\"do\":[", 7);
    for (size_t i = 0; i < count; i++)
        memcpy(body + 7 + 2 * i, "0,", 2);
    memcpy(body + 7 + 2 * count, "0]}", 4);
    assert_int_equal(read_body(&all, body), ONCE_ERR_INVALID);
    assert_non_null(strstr(defect.text, "more than"));
    once__http_said_release(&said);
    /* Commas inside of a string are text. */
    memcpy(body, "{\"text\":\"", 9);
    for (size_t i = 0; i < count; i++)
        memcpy(body + 9 + 2 * i, "[,", 2);
    memcpy(body + 9 + 2 * count, "\"}", 3);
    assert_int_equal(read_body(&all, body), ONCE_ERR_INVALID);
    assert_string_equal(defect.field, "text");
    once__http_said_release(&said);
    free(body);
}

static void effects__words__are_text_numbers_or_base64(void **state)
{
    (void)state;
    assert_int_equal(read_body(&all, "{\"do\":[[\"ADD\",\"x\",-9223372036854775808],"
                                     "[{\"base64\":\"/w==\"}]]}"),
                     ONCE_OK);
    assert_int_equal(said.do_count, 2);
    assert_int_equal(said.dos[0].count, 3);
    assert_bytes(said.dos[0].words[2], "-9223372036854775808", 20);
    assert_int_equal(said.dos[1].count, 1);
    assert_bytes(said.dos[1].words[0], "\xff", 1);
    once__http_said_release(&said);
}

static void effects__something_wrong__says_which_word(void **state)
{
    static const char *const cases[][2] = {
        {"{\"do\":{}}", "do"},
        {"{\"do\":[]}", "do"},
        {"{\"do\":[\"ADD\"]}", "do[0]"},
        {"{\"do\":[[\"a\"],[]]}", "do[1]"},
        {"{\"do\":[[\"a\"],[\"b\",null]]}", "do[1][1]"},
        {"{\"do\":[[\"a\",1.0]]}", "do[0][1]"},
        {"{\"do\":[[{\"base64\":\"=\"}]]}", "do[0][0]"},
        {"{\"do\":[[{\"base64\":\"\",\"more\":1}]]}", "do[0][0]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_body(&all, cases[i][0]), ONCE_ERR_INVALID);
        assert_string_equal(defect.field, cases[i][1]);
        once__http_said_release(&said);
    }
}

static int add(const char *name, const char *value)
{
    return once__http_query_add(&all, once_bytes_of(name), once_bytes_of(value), &said, &defect);
}

static void query__values__are_read_and_kept(void **state)
{
    (void)state;
    said = (struct once__http_said){.do_count = 0};
    assert_int_equal(add("number", "7"), ONCE_OK);
    assert_int_equal(add("word", "red"), ONCE_OK);
    assert_int_equal(add("cursor", "12"), ONCE_OK);
    assert_int_equal(add("text", "abc"), ONCE_OK);
    assert_int_equal(said.values[F_NUMBER].number, 7);
    assert_true(said.values[F_WORD].given);
    assert_true(said.values[F_CURSOR].cursor == 12);
    assert_bytes(said.values[F_TEXT].bytes, "abc", 3);
    assert_int_equal(add("number", "7"), ONCE_ERR_INVALID);
    assert_string_equal(defect.text, "number: is there twice");
    assert_int_equal(add("bytes_base64", "AA=="), ONCE_ERR_INVALID);
    assert_int_equal(add("nobody", ""), ONCE_ERR_INVALID);
    assert_string_equal(defect.field, "nobody");
    assert_int_equal(
        once__http_query_add(NULL, once_bytes_of("x"), once_bytes_of(""), &said, &defect),
        ONCE_ERR_INVALID);
    once__http_said_release(&said);
}

static void query__no_number__is_refused(void **state)
{
    static const char *const bad[] = {"", "-1", "+1", " 1", "1x", "10", "99999999999999999999999"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        said = (struct once__http_said){.do_count = 0};
        assert_int_equal(add("number", bad[i]), ONCE_ERR_INVALID);
        assert_string_equal(defect.field, "number");
        once__http_said_release(&said);
    }
}

static void base64__any_bytes__come_back(void **state)
{
    uint64_t seed = seeded_start("base64");
    struct once_buf text;

    (void)state;
    once_buf_init(&text, 4096);
    for (size_t size = 0; size < 300; size++) {
        struct once__view view = {.out = &text};
        uint8_t bytes[300], back[300];
        size_t back_size = SIZE_MAX;

        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)seeded_next(&seed);
        once_buf_clear(&text);
        once__view_base64(&view, (struct once_bytes){bytes, size});
        assert_true(once__base64_decode((struct once_bytes){text.data + 1, text.size - 2}, back,
                                        &back_size));
        assert_bytes((struct once_bytes){back, back_size}, bytes, size);
    }
    once_buf_release(&text);
}

static void base64__not_canonical__is_refused(void **state)
{
    static const char *const bad[] = {"A",    "AA",   "AAA",  "A===",     "====",     "AA=A",
                                      "AB==", "AAB=", "A-_A", "AA==AAAA", "AAAA\nAAA"};
    uint8_t out[16];
    size_t size;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(once__base64_decode(once_bytes_of(bad[i]), out, &size));
}

static void percent__escapes__are_decoded(void **state)
{
    static const char *const bad[] = {"%", "%4", "%zz", "%4g", "a%", "%%41"};
    uint8_t out[16];
    size_t size;

    (void)state;
    assert_true(once__percent_decode(once_bytes_of("a%41%2fb%C3%bc%00+"), out, &size));
    assert_bytes((struct once_bytes){out, size}, "aA/b\xc3\xbc\0+", 8);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(once__percent_decode(once_bytes_of(bad[i]), out, &size));
}

/* ---- Routes ---------------------------------------------------------------------------------- */

static const struct once__http_route *found;
static struct once__http_params params;
static char allow[64];

static enum once__http_match find(const char *method, const char *path)
{
    found = NULL;
    return once__http_route_find(method, path, &found, &params, allow);
}

static void route__every_one__is_found_by_its_path(void **state)
{
    (void)state;
    for (size_t i = 0; i < once__http_route_count; i++) {
        const struct once__http_route *route = &once__http_routes[i];

        assert_int_equal(find(route->method, route->path), ONCE__HTTP_MATCHED);
        assert_ptr_equal(found, route);
        if (strcmp(route->method, "GET") == 0) {
            assert_int_equal(find("HEAD", route->path), ONCE__HTTP_MATCHED);
            assert_ptr_equal(found, route);
        }
        assert_int_equal(find("PATCH", route->path), ONCE__HTTP_NO_METHOD);
        assert_non_null(strstr(allow, route->method));
        assert_true(route->start && (route->look || route->finish || !route->body));
    }
}

static void route__parts__are_decoded(void **state)
{
    (void)state;
    assert_int_equal(find("POST", "/v1/ops/pay/a%2Fb/begin"), ONCE__HTTP_MATCHED);
    assert_int_equal(params.count, 2);
    assert_bytes(params.values[0], "pay", 3);
    assert_bytes(params.values[1], "a/b", 3);
    assert_int_equal(find("GET", "/v1/ops/pay/%"), ONCE__HTTP_BAD_PATH);
    assert_int_equal(find("POST", "/v1/ops/pay//begin"), ONCE__HTTP_MATCHED);
    assert_int_equal(params.values[1].size, 0);
}

static void route__another_path__is_none(void **state)
{
    static const char *const none[] = {"",           "x",
                                       "//",         "/v1/ops/",
                                       "/v1/ops/a/", "/v1/ops/a/b/begin/",
                                       "/V1/ops/a",  "/v1/ops/a/b/c",
                                       "/healthz/",  "/healthz?x"};
    char longest[2048] = "/v1/ops/pay/";

    (void)state;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_int_equal(find("GET", none[i]), ONCE__HTTP_NO_PATH);
    memset(longest + 12, 'k', 1500);
    assert_int_equal(find("GET", longest), ONCE__HTTP_BAD_PATH);
}

static void document__of_the_routes__is_json_with_each_of_them(void **state)
{
    struct once_buf out;
    json_t *root;
    json_error_t error;
    size_t count = 0;
    const char *path;
    json_t *item;

    (void)state;
    once_buf_init(&out, 1 << 24);
    assert_int_equal(once__http_openapi(&out), ONCE_OK);
    root = json_loadb((const char *)out.data, out.size, JSON_REJECT_DUPLICATES, &error);
    assert_non_null(root);
    json_object_foreach(json_object_get(root, "paths"), path, item) count += json_object_size(item);
    assert_int_equal(count, once__http_route_count);
    json_decref(root);
    once_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(body__every_kind__is_read),
        cmocka_unit_test(body__nothing__is_an_empty_object),
        cmocka_unit_test(body__a_text_with_a_zero__keeps_it),
        cmocka_unit_test(body__something_wrong__is_named),
        cmocka_unit_test(body__no_json__says_where),
        cmocka_unit_test(body__a_long_unknown_name__is_cut_between_characters),
        cmocka_unit_test(body__more_values_than_allowed__is_not_parsed),
        cmocka_unit_test(effects__words__are_text_numbers_or_base64),
        cmocka_unit_test(effects__something_wrong__says_which_word),
        cmocka_unit_test(query__values__are_read_and_kept),
        cmocka_unit_test(query__no_number__is_refused),
        cmocka_unit_test(base64__any_bytes__come_back),
        cmocka_unit_test(base64__not_canonical__is_refused),
        cmocka_unit_test(percent__escapes__are_decoded),
        cmocka_unit_test(route__every_one__is_found_by_its_path),
        cmocka_unit_test(route__parts__are_decoded),
        cmocka_unit_test(route__another_path__is_none),
        cmocka_unit_test(document__of_the_routes__is_json_with_each_of_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
