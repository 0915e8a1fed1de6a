/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects as JSON: every type, whatever bytes are in it.
 */
#include "unit/stage_help.h"

#include "object/view_text.h"

static void check_view(const struct bench *b, const char *name, const char *expected)
{
    const struct once__object *object = once__objects_find(b->objects, once_bytes_of(name));
    struct once_buf out;

    assert_non_null(object);
    once_buf_init(&out, 1 << 20);
    assert_int_equal(once__object_view(object, &out), ONCE_OK);
    assert_int_equal(once_buf_append(&out, "", 1), ONCE_OK);
    assert_string_equal((const char *)out.data, expected);
    once_buf_release(&out);
}

static void merge(struct bench *b, const char *name, struct once_bytes value)
{
    bench_start(b);
    b->deeds[0] = (struct once__deed){
        .kind = ONCE__DEED_MERGE, .name = once_bytes_of(name), .value = value};
    b->deed_count = 1;
    assert_int_equal(bench_stage(b), ONCE_OK);
    assert_string_equal(b->result, "[1]");
    assert_int_equal(bench_put(b), 1);
}

static void view__of_small_objects__says_everything(void **state)
{
    struct bench *b = *state;

    bench_apply(b, "[-900]", "ADD acct:42 -900", NULL);
    check_view(b, "acct:42", "{\"name\":\"acct:42\",\"type\":\"counter\",\"value\":-900}");
    bench_apply(b, "[1]", "SET r v", NULL);
    check_view(
        b, "r",
        "{\"name\":\"r\",\"type\":\"register\",\"version\":1,\"present\":true,\"value\":\"v\"}");
    bench_apply(b, "[2]", "DELETE r", NULL);
    check_view(b, "r", "{\"name\":\"r\",\"type\":\"register\",\"version\":2,\"present\":false}");
    bench_apply(b, "[1,\"b\"]", "MACHINE m a>b b>c a>c", "MOVE m a b", NULL);
    check_view(
        b, "m",
        "{\"name\":\"m\",\"type\":\"machine\",\"state\":\"b\",\"states\":[\"a\",\"b\",\"c\"],"
        "\"moves\":[\"a>b\",\"b>c\",\"a>c\"]}");
    bench_apply(b, "[1]", "APPEND l e p", NULL);
    check_view(b, "l", "{\"name\":\"l\",\"type\":\"log\",\"version\":1}");
    bench_apply(b, "[1,7]", "GRANT f", "GUARD f 7", NULL);
    check_view(b, "f", "{\"name\":\"f\",\"type\":\"fence\",\"granted\":1,\"seen\":7}");
    bench_apply(b, "[1]", "LEASE e ann 500", NULL);
    check_view(
        b, "e",
        "{\"name\":\"e\",\"type\":\"lease\",\"token\":1,\"owner\":\"ann\",\"until_ms\":1000500}");
    bench_apply(b, "[1]", "RELEASE e 1", NULL);
    check_view(b, "e",
               "{\"name\":\"e\",\"type\":\"lease\",\"token\":1,\"owner\":null,\"until_ms\":0}");
    bench_apply(b, "[\"new\"]", "SEQ q 3 0", NULL);
    check_view(b, "q", "{\"name\":\"q\",\"type\":\"sequence\",\"epoch\":3,\"next\":1}");
    bench_apply(b, "[1,1]", "BUCKET k x 1", "BUCKET k y 1", NULL);
    check_view(b, "k", "{\"name\":\"k\",\"type\":\"buckets\",\"count\":2}");
    bench_apply(b, "[1,2,1]", "EMIT t a", "EMIT t b", "SENT t 1", NULL);
    check_view(b, "t", "{\"name\":\"t\",\"type\":\"outbox\",\"total\":2,\"waiting\":1}");
}

static void view__of_mergeables__says_everything(void **state)
{
    struct bench *b = *state;

    bench_apply(b, "[5,-5,1]", "MAX max 5", "MIN min -5", "FLAG up", NULL);
    check_view(b, "max", "{\"name\":\"max\",\"type\":\"max\",\"value\":5}");
    check_view(b, "min", "{\"name\":\"min\",\"type\":\"min\",\"value\":-5}");
    check_view(b, "up", "{\"name\":\"up\",\"type\":\"flag\",\"value\":true}");
    bench_apply(b, "[2]", "UNION g b a", NULL);
    check_view(b, "g", "{\"name\":\"g\",\"type\":\"gset\",\"count\":2,\"members\":[\"a\",\"b\"]}");
    bench_apply(b, "[2,2]", "INSERT w n b a", "REMOVE w a b", NULL);
    check_view(b, "w", "{\"name\":\"w\",\"type\":\"awset\",\"count\":0,\"members\":[]}");
    bench_apply(b, "[5,6]", "CLOCK v a 5", "CLOCK v b 6", NULL);
    check_view(
        b, "v",
        "{\"name\":\"v\",\"type\":\"vv\",\"count\":2,\"nodes\":[{\"node\":\"a\",\"number\":5},"
        "{\"node\":\"b\",\"number\":6}]}");
    bench_apply(b, "[5,-2]", "GADD c a 5", "PNADD p a -2", NULL);
    check_view(b, "c",
               "{\"name\":\"c\",\"type\":\"gcounter\",\"value\":5,\"count\":1,\"nodes\":[{\"node\":"
               "\"a\",\"number\":5}]}");
    check_view(
        b, "p",
        "{\"name\":\"p\",\"type\":\"pncounter\",\"value\":-2,\"count\":1,\"nodes\":[{\"node\":"
        "\"a\",\"plus\":0,\"minus\":2}]}");
    bench_apply(b, "[1]", "LWW lww 10 n v", NULL);
    check_view(b, "lww",
               "{\"name\":\"lww\",\"type\":\"lww\",\"time\":10,\"node\":\"n\",\"value\":\"v\"}");
}

static void view__of_what_has_no_form__is_described(void **state)
{
    struct bench *b = *state;
    struct once_buf inner, map;

    once_buf_init(&inner, 1 << 10);
    once_buf_init(&map, 1 << 10);
    assert_int_equal(once_max_set(5, &inner), ONCE_OK);
    assert_int_equal(once_map_put(once_bytes_of("k"), once_buf_bytes(&inner), &map), ONCE_OK);
    merge(b, "map", once_buf_bytes(&map));
    once_buf_clear(&inner);
    assert_int_equal(once_lattice_describe(once_buf_bytes(&map), &inner), ONCE_OK);
    assert_int_equal(once_buf_append(&inner, "", 1), ONCE_OK);
    {
        char expected[256];

        (void)snprintf(expected, sizeof expected,
                       "{\"name\":\"map\",\"type\":\"map\",\"text\":\"%s\"}",
                       (const char *)inner.data);
        check_view(b, "map", expected);
    }
    once_buf_release(&inner);
    once_buf_release(&map);
}

static void view__of_sums_past_64_bits__has_null(void **state)
{
    struct bench *b = *state;
    struct once_buf bottom, a, c;

    once_buf_init(&bottom, 1 << 10);
    once_buf_init(&a, 1 << 10);
    once_buf_init(&c, 1 << 10);
    assert_int_equal(once_lattice_bottom(ONCE_LATTICE_GCOUNTER, &bottom), ONCE_OK);
    assert_int_equal(once_gcounter_add(once_buf_bytes(&bottom), once_bytes_of("a"), UINT64_MAX, &a),
                     ONCE_OK);
    assert_int_equal(once_gcounter_add(once_buf_bytes(&bottom), once_bytes_of("b"), 1, &c),
                     ONCE_OK);
    merge(b, "g", once_buf_bytes(&a));
    check_view(b, "g",
               "{\"name\":\"g\",\"type\":\"gcounter\",\"value\":18446744073709551615,\"count\":1,"
               "\"nodes\":[{\"node\":\"a\",\"number\":18446744073709551615}]}");
    merge(b, "g", once_buf_bytes(&c));
    check_view(
        b, "g",
        "{\"name\":\"g\",\"type\":\"gcounter\",\"value\":null,\"count\":2,\"nodes\":[{\"node\":"
        "\"a\",\"number\":18446744073709551615},{\"node\":\"b\",\"number\":1}]}");
    once_buf_release(&bottom);
    once_buf_release(&a);
    once_buf_release(&c);
}

static void view__of_strange_bytes__is_escaped_or_base64(void **state)
{
    struct bench *b = *state;

    bench_apply(b, "[1]", "SET 'a \"quoted\\name' \"x\\\"\\\\\n\x01\x7f\xc3\xa9\"", NULL);
    check_view(b, "a \"quoted\\name",
               "{\"name\":\"a \\\"quoted\\\\name\",\"type\":\"register\",\"version\":1,\"present\":"
               "true,\"value\":\"x\\\"\\\\\\n\\u0001\\u007f\xc3\xa9\"}");
    bench_apply(b, "[1,1,1]", "SET one \xff", "SET two \xff\xfe", "SET three \xff\xfe\xfd", NULL);
    check_view(b, "one",
               "{\"name\":\"one\",\"type\":\"register\",\"version\":1,\"present\":true,"
               "\"value_base64\":\"/w==\"}");
    check_view(b, "two",
               "{\"name\":\"two\",\"type\":\"register\",\"version\":1,\"present\":true,"
               "\"value_base64\":\"//4=\"}");
    check_view(b, "three",
               "{\"name\":\"three\",\"type\":\"register\",\"version\":1,\"present\":true,"
               "\"value_base64\":\"//79\"}");
    bench_apply(b, "[3]", "UNION s \xff a \xfe", NULL);
    check_view(
        b, "s",
        "{\"name\":\"s\",\"type\":\"gset\",\"count\":3,\"members\":[\"a\"],\"members_base64\":["
        "\"/g==\",\"/w==\"]}");
    bench_apply(b, "[1]", "LWW w 1 n \xff", NULL);
    check_view(
        b, "w",
        "{\"name\":\"w\",\"type\":\"lww\",\"time\":1,\"node\":\"n\",\"value_base64\":\"/w==\"}");
    bench_apply(b, "[1]", "SET empty ''", NULL);
    check_view(b, "empty",
               "{\"name\":\"empty\",\"type\":\"register\",\"version\":1,\"present\":true,\"value\":"
               "\"\"}");
}

static void view__of_a_large_set__shows_the_first(void **state)
{
    struct bench *b = *state;
    static char line[16384];
    struct once_buf out;
    size_t size = (size_t)snprintf(line, sizeof line, "UNION s");

    for (int i = 0; i < 1000; i++)
        size += (size_t)snprintf(line + size, sizeof line - size, " m%04d", i);
    bench_apply(b, "[1000]", line, NULL);
    once_buf_init(&out, 1 << 20);
    assert_int_equal(once__object_view(once__objects_at(b->objects, 0), &out), ONCE_OK);
    assert_int_equal(once_buf_append(&out, "", 1), ONCE_OK);
    assert_non_null(strstr((const char *)out.data, "\"m0999\"]}"));
    bench_apply(b, "[1]", "UNION s m1000", NULL);
    once_buf_clear(&out);
    assert_int_equal(once__object_view(once__objects_at(b->objects, 0), &out), ONCE_OK);
    assert_int_equal(once_buf_append(&out, "", 1), ONCE_OK);
    assert_non_null(strstr((const char *)out.data, "\"count\":1001,"));
    assert_non_null(strstr((const char *)out.data, "\"m0999\"],\"more\":true}"));
    once_buf_release(&out);
}

static void view__without_room__appends_nothing(void **state)
{
    struct bench *b = *state;
    struct once_buf out;

    bench_apply(b, "[1]", "SET r value", NULL);
    for (size_t room = 0; room < 80; room++) {
        once_buf_init(&out, room);
        if (once__object_view(once__objects_at(b->objects, 0), &out) == ONCE_OK)
            assert_int_equal(out.size, strlen("{\"name\":\"r\",\"type\":\"register\",\"version\":1,"
                                              "\"present\":true,\"value\":\"value\"}"));
        else
            assert_int_equal(out.size, 0);
        once_buf_release(&out);
    }
}

static void utf8__well_formed__is_told_from_the_rest(void **state)
{
    static const char *const good[] = {"",
                                       "abc",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2\x41",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xed\xbf\xbf",
                                      "\xe1\x80",
                                      "\xe1\x80\xc0",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "a\xf0\x90\x80"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(once__utf8_check(once_bytes_of(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(once__utf8_check(once_bytes_of(bad[i])));
}

static void type_name__of_each__is_its_own(void **state)
{
    (void)state;
    assert_string_equal(once_object_type_name(ONCE_OBJECT_NONE), "none");
    assert_string_equal(once_object_type_name(ONCE_OBJECT_AWSET), "awset");
    assert_string_equal(once_object_type_name(ONCE_OBJECT_OUTBOX), "outbox");
    assert_string_equal(once_object_type_name((enum once_object_type)99), "unknown");
    for (int i = ONCE_OBJECT_MAX; i <= ONCE_OBJECT_OUTBOX; i++)
        for (int j = i + 1; j <= ONCE_OBJECT_OUTBOX; j++)
            if ((i <= ONCE_OBJECT_MAP || i >= ONCE_OBJECT_COUNTER) &&
                (j <= ONCE_OBJECT_MAP || j >= ONCE_OBJECT_COUNTER))
                assert_string_not_equal(once_object_type_name((enum once_object_type)i),
                                        once_object_type_name((enum once_object_type)j));
}

int main(void)
{
#define BENCH_TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)
    const struct CMUnitTest tests[] = {
        BENCH_TEST(view__of_small_objects__says_everything),
        BENCH_TEST(view__of_mergeables__says_everything),
        BENCH_TEST(view__of_what_has_no_form__is_described),
        BENCH_TEST(view__of_sums_past_64_bits__has_null),
        BENCH_TEST(view__of_strange_bytes__is_escaped_or_base64),
        BENCH_TEST(view__of_a_large_set__shows_the_first),
        BENCH_TEST(view__without_room__appends_nothing),
        cmocka_unit_test(utf8__well_formed__is_told_from_the_rest),
        cmocka_unit_test(type_name__of_each__is_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
