/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <once/fingerprint.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { HEADERS_MAX = 4 };

struct example {
    const char *method;
    const char *path;
    const char *query;
    const char *headers[HEADERS_MAX][2];
    enum once_body_form form;
    const char *body;
};

static struct once_fingerprinter *start(const struct example *example)
{
    struct once_fingerprint_spec spec = {.method = once_bytes_of(example->method),
                                         .path = once_bytes_of(example->path),
                                         .query = once_bytes_of(example->query),
                                         .body_form = example->form};
    struct once_fingerprinter *fingerprinter = NULL;

    assert_int_equal(once_fingerprinter_new(&spec, &fingerprinter), ONCE_OK);
    assert_non_null(fingerprinter);
    for (size_t i = 0; i < HEADERS_MAX && example->headers[i][0]; i++)
        assert_int_equal(once_fingerprinter_header(fingerprinter,
                                                   once_bytes_of(example->headers[i][0]),
                                                   once_bytes_of(example->headers[i][1])),
                         ONCE_OK);
    return fingerprinter;
}

static struct once_fingerprint end(struct once_fingerprinter *fingerprinter)
{
    struct once_fingerprint fingerprint;

    assert_int_equal(once_fingerprinter_finish(fingerprinter, &fingerprint, NULL), ONCE_OK);
    once_fingerprinter_free(fingerprinter);
    return fingerprint;
}

static struct once_fingerprint fingerprint_of(const struct example *example)
{
    struct once_fingerprinter *fingerprinter = start(example);

    if (example->body)
        assert_int_equal(once_fingerprinter_body(fingerprinter, once_bytes_of(example->body)),
                         ONCE_OK);
    return end(fingerprinter);
}

static bool same(struct once_fingerprint a, struct once_fingerprint b)
{
    return memcmp(a.bytes, b.bytes, sizeof(a.bytes)) == 0;
}

static void assert_hex(struct once_fingerprint fingerprint, const char *expected)
{
    char text[2 * ONCE_FINGERPRINT_SIZE + 1];

    for (size_t i = 0; i < ONCE_FINGERPRINT_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", fingerprint.bytes[i]);
    assert_string_equal(text, expected);
}

/* The expected hashes come from another implementation of the layout in fingerprint.c, in Python.
 * */
static void fingerprint__known_request__gives_the_known_hash(void **state)
{
    static const struct example raw = {
        .method = "POST",
        .path = "/charges",
        .query = "a=1",
        .headers = {{"X-Tenant", "t1"}, {"Content-Type", "application/json"}},
        .body = "{\"amount\": 5}"};
    static const struct example json = {.method = "POST",
                                        .path = "/charges",
                                        .form = ONCE_BODY_JSON,
                                        .body = " {\"to\" : \"b\\u006fb\", \"amount\": 5.0} "};
    static const struct example repeated = {
        .method = "PUT", .path = "/", .headers = {{"Via", "1"}, {"Accept", "x"}, {"via", "2"}}};

    (void)state;
    assert_hex(fingerprint_of(&raw),
               "d8c1b7d069626de84546eb2ddf2d724c131a5bfb295e94236ee29e21a4f8d104");
    assert_hex(fingerprint_of(&json),
               "8114dfe0acb3a013346e52e529a7875b798d38314f5bd742626897f72c99c07a");
    assert_hex(fingerprint_of(&repeated),
               "7ef9d416278233732cd4cdd17c158c5c164c871ada7a9a7a6372cad573969ab1");
}

/* Pairs that a hash of the plain concatenation would confuse, and other near misses. */
static void fingerprint__different_requests__all_differ(void **state)
{
    static const struct example examples[] = {
        {.method = "POST", .path = "/a", .query = "b"},
        {.method = "POST", .path = "/ab", .query = ""},
        {.method = "POST", .path = "/", .query = "ab"},
        {.method = "POST/", .path = "a", .query = "b"},
        {.method = "PUT", .path = "/a", .query = "b"},
        {.method = "post", .path = "/a", .query = "b"},
        {.method = "", .path = "", .query = ""},
        {.method = "POST", .path = "/a", .query = "b", .body = "x"},
        {.method = "POST", .path = "/a", .query = "b", .body = "1"},
        {.method = "POST", .path = "/a", .query = "b", .body = "1 "},
        {.method = "POST", .path = "/a", .query = "b", .form = ONCE_BODY_JSON, .body = "1"},
        {.method = "POST", .path = "/a", .query = "b", .form = ONCE_BODY_JSON, .body = "\"1\""},
        {.method = "POST", .path = "/a", .query = "b", .headers = {{"h", ""}}},
        {.method = "POST", .path = "/a", .query = "b", .headers = {{"h", "v"}}},
        {.method = "POST", .path = "/a", .query = "b", .headers = {{"hv", ""}}},
        {.method = "POST", .path = "/a", .query = "b", .headers = {{"h", "V"}}},
        {.method = "POST", .path = "/a", .query = "b", .headers = {{"h", "v "}}},
        {.method = "POST", .path = "/a", .query = "b", .headers = {{"h", "v"}, {"h", "v"}}},
        {.method = "POST", .path = "/a", .query = "b", .headers = {{"h", "v"}, {"h", "w"}}},
        {.method = "POST", .path = "/a", .query = "b", .headers = {{"h", "w"}, {"h", "v"}}},
        {.method = "POST", .path = "/a", .query = "b", .headers = {{"h", "v"}, {"i", "w"}}},
        {.method = "POST", .path = "/a", .query = "b", .headers = {{"h", "v, v"}}},
    };
    struct once_fingerprint prints[COUNT(examples)];

    (void)state;
    for (size_t i = 0; i < COUNT(examples); i++) {
        prints[i] = fingerprint_of(&examples[i]);
        assert_true(same(prints[i], fingerprint_of(&examples[i])));
        for (size_t j = 0; j < i; j++)
            assert_false(same(prints[i], prints[j]));
    }
}

static void fingerprint__headers_in_any_order_and_case__make_no_difference(void **state)
{
    static const struct example examples[] = {
        {.headers = {{"a", "1"}, {"b", "2"}, {"ab", "3"}, {"b", "4"}}},
        {.headers = {{"b", "2"}, {"b", "4"}, {"ab", "3"}, {"a", "1"}}},
        {.headers = {{"AB", "3"}, {"B", "2"}, {"A", "1"}, {"b", "4"}}},
        {.headers = {{"b", "2"}, {"aB", "3"}, {"B", "4"}, {"a", "1"}}},
    };
    static const struct example other = {
        .headers = {{"a", "1"}, {"b", "4"}, {"ab", "3"}, {"b", "2"}}};

    (void)state;
    for (size_t i = 1; i < COUNT(examples); i++)
        assert_true(same(fingerprint_of(&examples[i]), fingerprint_of(&examples[0])));
    assert_false(same(fingerprint_of(&other), fingerprint_of(&examples[0])));
}

static void fingerprint__header_names_fold__only_ascii_letters(void **state)
{
    static const struct example upper = {.headers = {{"AZ@[\xc3\x89", "v"}}};
    static const struct example lower = {.headers = {{"az@[\xc3\x89", "v"}}};
    static const struct example other = {.headers = {{"az`{\xc3\xa9", "v"}}};

    (void)state;
    assert_true(same(fingerprint_of(&upper), fingerprint_of(&lower)));
    assert_false(same(fingerprint_of(&upper), fingerprint_of(&other)));
}

static void fingerprint__body_cut_anywhere__makes_no_difference(void **state)
{
    static const struct example examples[] = {
        {.method = "POST", .path = "/", .body = "{\"b\": [1, 2], \"a\": \"\\u20ac\"}"},
        {.method = "POST",
         .path = "/",
         .form = ONCE_BODY_JSON,
         .body = "{\"b\": [1, 2], \"a\": \"\\u20ac\"}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(examples); i++) {
        struct once_bytes body = once_bytes_of(examples[i].body);
        struct once_fingerprint whole = fingerprint_of(&examples[i]);
        struct once_fingerprinter *bytewise;

        for (size_t cut = 0; cut <= body.size; cut++) {
            struct once_fingerprinter *fingerprinter = start(&examples[i]);
            struct once_bytes head = {body.data, cut}, tail = {body.data + cut, body.size - cut};

            assert_int_equal(once_fingerprinter_body(fingerprinter, head), ONCE_OK);
            assert_int_equal(once_fingerprinter_body(fingerprinter, tail), ONCE_OK);
            assert_true(same(end(fingerprinter), whole));
        }
        bytewise = start(&examples[i]);
        for (size_t j = 0; j < body.size; j++)
            assert_int_equal(
                once_fingerprinter_body(bytewise, (struct once_bytes){body.data + j, 1}), ONCE_OK);
        assert_true(same(end(bytewise), whole));
    }
}

static void fingerprint__raw_body_empty_or_absent__is_the_same(void **state)
{
    static const struct example absent = {.method = "POST", .path = "/"};
    static const struct example empty = {.method = "POST", .path = "/", .body = ""};

    (void)state;
    assert_true(same(fingerprint_of(&absent), fingerprint_of(&empty)));
}

static void fingerprint__json_that_differs_only_in_spelling__is_the_same_request(void **state)
{
    static const char *const bodies[] = {
        "{\"amount\":10.5,\"to\":\"bob\"}",
        "{ \"to\" : \"bob\",\r\n \"amount\" : 1.05e1 }",
        "{\"amount\":10.50,\"t\\u006f\":\"b\\u006Fb\"}",
    };
    static const char *const others[] = {
        "{\"amount\":10.51,\"to\":\"bob\"}",
        "{\"amount\":10.5,\"to\":\"bob\",\"x\":null}",
        "{\"amount\":\"10.5\",\"to\":\"bob\"}",
        "[{\"amount\":10.5,\"to\":\"bob\"}]",
    };
    struct example example = {.method = "POST", .path = "/", .form = ONCE_BODY_JSON};
    struct once_fingerprint first;

    (void)state;
    example.body = bodies[0];
    first = fingerprint_of(&example);
    for (size_t i = 1; i < COUNT(bodies); i++) {
        example.body = bodies[i];
        assert_true(same(fingerprint_of(&example), first));
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        example.body = others[i];
        assert_false(same(fingerprint_of(&example), first));
    }
}

static void fingerprint__bad_json_body__gives_its_error_and_defect(void **state)
{
    static const struct {
        const char *body;
        int err;
        size_t offset;
    } cases[] = {
        {"", ONCE_ERR_JSON, 0},
        {"{\"a\":1", ONCE_ERR_JSON, 6},
        {"{\"a\":1,\"a\":2}", ONCE_ERR_JSON_DUPLICATE, 7},
        {"[9007199254740993]", ONCE_ERR_JSON_NUMBER, 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct example example = {.method = "POST", .path = "/", .form = ONCE_BODY_JSON};
        struct once_fingerprinter *fingerprinter = start(&example);
        struct once_fingerprint fingerprint = {{42}};
        struct once_defect defect = {0};

        assert_int_equal(once_fingerprinter_body(fingerprinter, once_bytes_of(cases[i].body)),
                         ONCE_OK);
        assert_int_equal(once_fingerprinter_finish(fingerprinter, &fingerprint, &defect),
                         cases[i].err);
        assert_int_equal(defect.offset, cases[i].offset);
        assert_non_null(defect.what);
        assert_int_equal(fingerprint.bytes[0], 42);
        /* The error stays. */
        assert_int_equal(once_fingerprinter_finish(fingerprinter, &fingerprint, NULL),
                         cases[i].err);
        once_fingerprinter_free(fingerprinter);
    }
}

/* A fingerprint of a part of the body would let another request replay this one's answer (INV-5).
 * */
static void fingerprint__json_body_beyond_its_bound__is_full_and_stays_so(void **state)
{
    struct example example = {.method = "POST", .path = "/", .form = ONCE_BODY_JSON};
    struct once_fingerprinter *fingerprinter = start(&example);
    struct once_fingerprint fingerprint;
    struct once_defect defect = {0};
    size_t size = ONCE_JSON_SIZE_MAX;
    uint8_t *blanks = malloc(size);

    (void)state;
    assert_non_null(blanks);
    memset(blanks, ' ', size);
    blanks[0] = '1';
    assert_int_equal(once_fingerprinter_body(fingerprinter, (struct once_bytes){blanks, size}),
                     ONCE_OK);
    assert_int_equal(once_fingerprinter_body(fingerprinter, once_bytes_of("2")), ONCE_ERR_FULL);
    assert_int_equal(once_fingerprinter_body(fingerprinter, once_bytes_of("")), ONCE_ERR_FULL);
    assert_int_equal(once_fingerprinter_finish(fingerprinter, &fingerprint, &defect),
                     ONCE_ERR_FULL);
    assert_non_null(defect.what);
    once_fingerprinter_free(fingerprinter);

    fingerprinter = start(&example);
    assert_int_equal(once_fingerprinter_body(fingerprinter, (struct once_bytes){blanks, size}),
                     ONCE_OK);
    (void)end(fingerprinter);
    free(blanks);
}

static void fingerprint__headers_beyond_their_bound__are_full_and_stay_so(void **state)
{
    struct example example = {.method = "POST", .path = "/"};
    struct once_fingerprinter *fingerprinter = start(&example);
    struct once_fingerprint fingerprint;
    size_t size = ONCE_FINGERPRINT_HEADERS_SIZE_MAX;
    uint8_t *value = malloc(size);

    (void)state;
    assert_non_null(value);
    memset(value, 'v', size);
    assert_int_equal(once_fingerprinter_header(fingerprinter, once_bytes_of("h"),
                                               (struct once_bytes){value, size - 1}),
                     ONCE_OK);
    assert_int_equal(
        once_fingerprinter_header(fingerprinter, once_bytes_of("i"), once_bytes_of("")),
        ONCE_ERR_FULL);
    assert_int_equal(once_fingerprinter_finish(fingerprinter, &fingerprint, NULL), ONCE_ERR_FULL);
    once_fingerprinter_free(fingerprinter);
    free(value);
}

static void fingerprint__as_many_headers_as_fit__are_sorted_in_good_time(void **state)
{
    struct example example = {.method = "POST", .path = "/"};
    struct once_fingerprinter *fingerprinter = start(&example);

    (void)state;
    for (int i = 0; i < ONCE_FINGERPRINT_HEADERS_SIZE_MAX; i++) {
        uint8_t name = (uint8_t)('z' - i % 26);

        assert_int_equal(once_fingerprinter_header(fingerprinter, (struct once_bytes){&name, 1},
                                                   (struct once_bytes){NULL, 0}),
                         ONCE_OK);
    }
    (void)end(fingerprinter);
}

static void fingerprint__calls_out_of_order__are_invalid_and_stay_so(void **state)
{
    static const struct example example = {.method = "POST", .path = "/"};
    struct once_fingerprinter *fingerprinter = start(&example);
    struct once_fingerprint fingerprint;

    (void)state;
    assert_int_equal(once_fingerprinter_body(fingerprinter, once_bytes_of("x")), ONCE_OK);
    assert_int_equal(
        once_fingerprinter_header(fingerprinter, once_bytes_of("h"), once_bytes_of("v")),
        ONCE_ERR_INVALID);
    assert_int_equal(once_fingerprinter_finish(fingerprinter, &fingerprint, NULL),
                     ONCE_ERR_INVALID);
    once_fingerprinter_free(fingerprinter);

    fingerprinter = start(&example);
    assert_int_equal(once_fingerprinter_finish(fingerprinter, &fingerprint, NULL), ONCE_OK);
    assert_int_equal(once_fingerprinter_finish(fingerprinter, &fingerprint, NULL),
                     ONCE_ERR_INVALID);
    assert_int_equal(once_fingerprinter_body(fingerprinter, once_bytes_of("x")), ONCE_ERR_INVALID);
    once_fingerprinter_free(fingerprinter);
}

static void fingerprint__bad_arguments__are_invalid(void **state)
{
    static const struct example example = {.method = "POST", .path = "/"};
    struct once_fingerprint_spec spec = {.body_form = ONCE_BODY_RAW};
    struct once_fingerprinter *fingerprinter = NULL;
    struct once_fingerprint fingerprint;
    struct once_bytes broken = {NULL, 1};

    (void)state;
    assert_int_equal(once_fingerprinter_new(NULL, &fingerprinter), ONCE_ERR_INVALID);
    assert_int_equal(once_fingerprinter_new(&spec, NULL), ONCE_ERR_INVALID);
    spec.path = broken;
    assert_int_equal(once_fingerprinter_new(&spec, &fingerprinter), ONCE_ERR_INVALID);
    spec = (struct once_fingerprint_spec){.body_form = (enum once_body_form)7};
    assert_int_equal(once_fingerprinter_new(&spec, &fingerprinter), ONCE_ERR_INVALID);
    assert_null(fingerprinter);
    assert_int_equal(once_fingerprinter_header(NULL, once_bytes_of("h"), once_bytes_of("v")),
                     ONCE_ERR_INVALID);
    assert_int_equal(once_fingerprinter_body(NULL, once_bytes_of("h")), ONCE_ERR_INVALID);
    assert_int_equal(once_fingerprinter_finish(NULL, &fingerprint, NULL), ONCE_ERR_INVALID);
    once_fingerprinter_free(NULL);

    fingerprinter = start(&example);
    assert_int_equal(once_fingerprinter_header(fingerprinter, once_bytes_of(""), broken),
                     ONCE_ERR_INVALID);
    once_fingerprinter_free(fingerprinter);
    fingerprinter = start(&example);
    assert_int_equal(once_fingerprinter_body(fingerprinter, broken), ONCE_ERR_INVALID);
    once_fingerprinter_free(fingerprinter);
}

static void fingerprint_from_bytes__by_size__is_none_itself_or_hashed(void **state)
{
    static const struct once_fingerprint none = {{0}};
    uint8_t bytes[ONCE_FINGERPRINT_SIZE];
    struct once_fingerprint fingerprint = {{42}};

    (void)state;
    assert_int_equal(once_fingerprint_from_bytes((struct once_bytes){NULL, 0}, &fingerprint),
                     ONCE_OK);
    assert_true(same(fingerprint, none));

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(
        once_fingerprint_from_bytes((struct once_bytes){bytes, sizeof(bytes)}, &fingerprint),
        ONCE_OK);
    assert_memory_equal(fingerprint.bytes, bytes, sizeof(bytes));

    /* SHA-256 of "a", a published value. */
    assert_int_equal(once_fingerprint_from_bytes(once_bytes_of("a"), &fingerprint), ONCE_OK);
    assert_hex(fingerprint, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb");
    assert_int_equal(
        once_fingerprint_from_bytes((struct once_bytes){bytes, sizeof(bytes) - 1}, &fingerprint),
        ONCE_OK);
    assert_memory_not_equal(fingerprint.bytes, bytes, sizeof(bytes) - 1);
}

/* A caller that sends 32 zeros sends a fingerprint; it must not become "none". */
static void fingerprint_from_bytes__zeros__are_hashed(void **state)
{
    static const struct once_fingerprint none = {{0}};
    static const uint8_t zeros[ONCE_FINGERPRINT_SIZE];
    struct once_fingerprint fingerprint, shorter;

    (void)state;
    assert_int_equal(
        once_fingerprint_from_bytes((struct once_bytes){zeros, sizeof(zeros)}, &fingerprint),
        ONCE_OK);
    assert_int_equal(once_fingerprint_from_bytes((struct once_bytes){zeros, 1}, &shorter), ONCE_OK);
    assert_false(same(fingerprint, none));
    assert_false(same(shorter, none));
    assert_false(same(fingerprint, shorter));
    assert_int_equal(once_fingerprint_from_bytes((struct once_bytes){NULL, 1}, &fingerprint),
                     ONCE_ERR_INVALID);
    assert_int_equal(once_fingerprint_from_bytes(once_bytes_of("a"), NULL), ONCE_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fingerprint__known_request__gives_the_known_hash),
        cmocka_unit_test(fingerprint__different_requests__all_differ),
        cmocka_unit_test(fingerprint__headers_in_any_order_and_case__make_no_difference),
        cmocka_unit_test(fingerprint__header_names_fold__only_ascii_letters),
        cmocka_unit_test(fingerprint__body_cut_anywhere__makes_no_difference),
        cmocka_unit_test(fingerprint__raw_body_empty_or_absent__is_the_same),
        cmocka_unit_test(fingerprint__json_that_differs_only_in_spelling__is_the_same_request),
        cmocka_unit_test(fingerprint__bad_json_body__gives_its_error_and_defect),
        cmocka_unit_test(fingerprint__json_body_beyond_its_bound__is_full_and_stays_so),
        cmocka_unit_test(fingerprint__headers_beyond_their_bound__are_full_and_stay_so),
        cmocka_unit_test(fingerprint__as_many_headers_as_fit__are_sorted_in_good_time),
        cmocka_unit_test(fingerprint__calls_out_of_order__are_invalid_and_stay_so),
        cmocka_unit_test(fingerprint__bad_arguments__are_invalid),
        cmocka_unit_test(fingerprint_from_bytes__by_size__is_none_itself_or_hashed),
        cmocka_unit_test(fingerprint_from_bytes__zeros__are_hashed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
