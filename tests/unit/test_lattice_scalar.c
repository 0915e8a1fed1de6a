/* SPDX-License-Identifier: Apache-2.0
 *
 * The types that hold one thing (MAX, MIN, FLAG, LWW), and what holds for the entry points of every
 * type: bounds, errors, and that out is untouched by a failure.
 */
#include "lattice_help.h"

#include "lattice/scalar.h"

static struct once_bytes lww(int64_t at, const char *node, const char *value)
{
    struct once_lww write = {.time = at, .node = b(node), .value = b(value)};

    return MAKE(once_lww_write(&write, &out));
}

static void max__nothing_set__is_not_zero_and_loses_to_everything(void **state)
{
    struct once_bytes lowest = MAKE(once_max_set(INT64_MIN, &out));
    bool known = true;
    int64_t value = 1;

    (void)state;
    assert_ok(once_max_value(bottom(ONCE_LATTICE_MAX), &known, &value));
    assert_false(known);
    assert_int_equal(value, 0);
    assert_int_equal(order(bottom(ONCE_LATTICE_MAX), lowest), ONCE_ORDER_BEFORE);
    assert_state(merge(lowest, bottom(ONCE_LATTICE_MAX)), lowest);
}

static void max__merged__keeps_the_larger(void **state)
{
    struct once_bytes low = MAKE(once_max_set(-5, &out)), high = MAKE(once_max_set(3, &out));
    bool known = false;
    int64_t value = 0;

    (void)state;
    assert_state(merge(low, high), high);
    assert_state(merge(high, low), high);
    assert_int_equal(order(low, high), ONCE_ORDER_BEFORE);
    assert_ok(once_max_value(merge(low, high), &known, &value));
    assert_true(known);
    assert_int_equal(value, 3);
    assert_text(high, "max{3}");
    assert_text(bottom(ONCE_LATTICE_MAX), "max{}");
}

static void min__merged__keeps_the_smaller(void **state)
{
    struct once_bytes low = MAKE(once_min_set(INT64_MIN, &out));
    struct once_bytes high = MAKE(once_min_set(INT64_MAX, &out));
    bool known = false;
    int64_t value = 0;

    (void)state;
    assert_state(merge(low, high), low);
    assert_int_equal(order(low, high), ONCE_ORDER_AFTER);
    assert_int_equal(order(bottom(ONCE_LATTICE_MIN), high), ONCE_ORDER_BEFORE);
    assert_ok(once_min_value(merge(high, low), &known, &value));
    assert_int_equal(value, INT64_MIN);
    assert_text(low, "min{-9223372036854775808}");
}

static void flag__raised_by_one__is_raised_for_all(void **state)
{
    struct once_bytes raised = MAKE(once_flag_raise(&out));
    bool value = false;

    (void)state;
    assert_state(merge(bottom(ONCE_LATTICE_FLAG), raised), raised);
    assert_int_equal(order(raised, bottom(ONCE_LATTICE_FLAG)), ONCE_ORDER_AFTER);
    assert_ok(once_flag_value(raised, &value));
    assert_true(value);
    assert_ok(once_flag_value(bottom(ONCE_LATTICE_FLAG), &value));
    assert_false(value);
    assert_text(raised, "flag{true}");
}

static void lww__later_time__wins(void **state)
{
    struct once_bytes old = lww(-1, "z", "zzz"), new = lww(0, "a", "");
    struct once_lww write;
    bool written = false;

    (void)state;
    assert_state(merge(old, new), new);
    assert_int_equal(order(old, new), ONCE_ORDER_BEFORE);
    assert_ok(once_lww_value(merge(new, old), &written, &write));
    assert_true(written);
    assert_int_equal(write.time, 0);
    assert_true(same(write.node, b("a")));
    assert_int_equal(write.value.size, 0);
}

static void lww__same_time__larger_node_then_larger_value_wins(void **state)
{
    (void)state;
    assert_state(merge(lww(5, "b", "1"), lww(5, "a", "2")), lww(5, "b", "1"));
    assert_state(merge(lww(5, "a", "1"), lww(5, "a", "2")), lww(5, "a", "2"));
    assert_state(merge(lww(5, "aa", "1"), lww(5, "a", "2")), lww(5, "aa", "1"));
    assert_state(merge(lww(5, "a", "\xff"), lww(5, "a", "\x7f")), lww(5, "a", "\xff"));
    assert_text(lww(5, "a", "x"), "lww{x @5 by a}");
}

static void lww__never_written__is_before_every_write(void **state)
{
    struct once_lww write = {.time = 1};
    bool written = true;

    (void)state;
    assert_int_equal(order(bottom(ONCE_LATTICE_LWW), lww(INT64_MIN, "a", "")), ONCE_ORDER_BEFORE);
    assert_ok(once_lww_value(bottom(ONCE_LATTICE_LWW), &written, &write));
    assert_false(written);
    assert_int_equal(write.time, 0);
}

static void lww__node_missing_or_too_long__is_refused(void **state)
{
    uint8_t bytes[ONCE_MEMBER_SIZE_MAX + 1] = {0};
    struct once_lww write = {.value = b("v")};
    struct once_buf out = fresh();

    (void)state;
    assert_int_equal(once_lww_write(&write, &out), ONCE_ERR_INVALID);
    write.node = (struct once_bytes){.data = bytes, .size = ONCE_NODE_SIZE_MAX + 1};
    assert_int_equal(once_lww_write(&write, &out), ONCE_ERR_FULL);
    write.node.size = ONCE_NODE_SIZE_MAX;
    write.value = (struct once_bytes){.data = bytes, .size = sizeof bytes};
    assert_int_equal(once_lww_write(&write, &out), ONCE_ERR_FULL);
    write.value.size = ONCE_MEMBER_SIZE_MAX;
    assert_ok(once_lww_write(&write, &out));
    assert_ok(once_lattice_check(once_buf_bytes(&out), NULL, NULL));
    once_buf_release(&out);
}

static void order_join__all_pairs__is_the_union_of_what_they_say(void **state)
{
    (void)state;
    for (int x = 0; x <= ONCE_ORDER_CONCURRENT; x++) {
        for (int y = 0; y <= ONCE_ORDER_CONCURRENT; y++)
            assert_int_equal(once__order_join((enum once_order)x, (enum once_order)y), x | y);
    }
}

static void dot_merge__alive_and_gone__is_gone(void **state)
{
    struct once__dot unknown = {false, false}, alive = {true, true}, gone = {true, false};

    (void)state;
    assert_true(once__dot_merge(alive, unknown).alive);
    assert_true(once__dot_merge(alive, alive).alive);
    assert_false(once__dot_merge(alive, gone).alive);
    assert_false(once__dot_merge(gone, unknown).alive);
    assert_int_equal(once__dot_order(alive, gone), ONCE_ORDER_BEFORE);
    assert_int_equal(once__dot_order(alive, unknown), ONCE_ORDER_AFTER);
}

static void merge__of_different_types__is_a_type_error(void **state)
{
    struct once_buf out = fresh();
    enum once_order result = ONCE_ORDER_CONCURRENT;

    (void)state;
    assert_int_equal(once_lattice_merge(bottom(ONCE_LATTICE_MAX), bottom(ONCE_LATTICE_MIN), &out),
                     ONCE_ERR_TYPE);
    assert_int_equal(
        once_lattice_compare(bottom(ONCE_LATTICE_VV), bottom(ONCE_LATTICE_GCOUNTER), &result),
        ONCE_ERR_TYPE);
    assert_int_equal(result, ONCE_ORDER_CONCURRENT);
    assert_int_equal(out.size, 0);
    once_buf_release(&out);
}

static void merge__out_holds_the_input__is_refused(void **state)
{
    struct once_bytes seven = MAKE(once_max_set(7, &out));
    struct once_buf out = fresh();

    (void)state;
    assert_ok(once_max_set(7, &out));
    assert_int_equal(once_lattice_merge(once_buf_bytes(&out), once_buf_bytes(&out), &out),
                     ONCE_ERR_INVALID);
    assert_int_equal(once_gset_add(once_buf_bytes(&out), &out), ONCE_ERR_INVALID);
    assert_state(once_buf_bytes(&out), seven);
    once_buf_release(&out);
}

static void merge__into_a_buffer_that_holds_something__appends(void **state)
{
    struct once_bytes seven = MAKE(once_max_set(7, &out));
    struct once_buf out = fresh();

    (void)state;
    assert_ok(once_buf_append(&out, "before", 6));
    assert_ok(once_lattice_merge(seven, bottom(ONCE_LATTICE_MAX), &out));
    assert_memory_equal(out.data, "before", 6);
    assert_int_equal(out.size, 6 + seven.size);
    assert_memory_equal(out.data + 6, seven.data, seven.size);
    once_buf_release(&out);
}

static void merge__out_too_small__is_full_and_leaves_out_as_it_was(void **state)
{
    struct once_bytes big = merge(MAKE(once_gset_add(b("abc"), &out)),
                                  MAKE(once_gset_add(b("abd"), &out)));

    (void)state;
    for (size_t room = 0; room <= big.size; room++) {
        struct once_buf out;
        int err;

        once_buf_init(&out, 3 + room);
        assert_ok(once_buf_append(&out, "out", 3));
        err = once_lattice_merge(big, big, &out);
        assert_int_equal(err, room < big.size ? ONCE_ERR_FULL : ONCE_OK);
        assert_int_equal(out.size, room < big.size ? 3 : 3 + big.size);
        assert_memory_equal(out.data, "out", 3);
        once_buf_release(&out);
    }
}

static void check__header__says_which_byte_is_wrong(void **state)
{
    (void)state;
    assert_refused((struct once_bytes){0}, ONCE_ERR_DAMAGED, 0);
    assert_refused(hex("00 01 00"), ONCE_ERR_DAMAGED, 0);
    assert_refused(hex("0c 01 00"), ONCE_ERR_DAMAGED, 0);
    assert_refused(hex("01"), ONCE_ERR_DAMAGED, 1);
    assert_refused(hex("01 02 00"), ONCE_ERR_DAMAGED, 1);
    assert_refused(hex("01 01"), ONCE_ERR_DAMAGED, 2);
    assert_refused(hex("01 01 02"), ONCE_ERR_DAMAGED, 2);
    assert_refused(hex("01 01 00 00"), ONCE_ERR_DAMAGED, 3);
    assert_refused(hex("03 01 01 01"), ONCE_ERR_DAMAGED, 3);
    assert_refused(hex("06 01 01 0500000000000000 00000000 00000000"), ONCE_ERR_DAMAGED, 11);
    assert_refused(hex("06 01 01 0500000000000000 41000000"), ONCE_ERR_FULL, 11);
}

static void check__good_state__gives_its_type(void **state)
{
    (void)state;
    for (int type = ONCE_LATTICE_MAX; type <= ONCE_LATTICE_MAP; type++) {
        enum once_lattice_type found = (enum once_lattice_type)0;

        assert_ok(once_lattice_check(bottom((enum once_lattice_type)type), &found, NULL));
        assert_int_equal(found, type);
        assert_string_not_equal(once_lattice_type_name(found), "unknown");
    }
    assert_string_equal(once_lattice_type_name((enum once_lattice_type)99), "unknown");
}

static void bottom__not_a_type__is_invalid(void **state)
{
    struct once_buf out = fresh();

    (void)state;
    assert_int_equal(once_lattice_bottom((enum once_lattice_type)0, &out), ONCE_ERR_INVALID);
    assert_int_equal(once_lattice_bottom((enum once_lattice_type)12, &out), ONCE_ERR_INVALID);
}

static void any__null_with_a_size__is_invalid(void **state)
{
    struct once_bytes nowhere = {.data = NULL, .size = 1};
    struct once_buf out = fresh();

    (void)state;
    assert_int_equal(once_lattice_check(nowhere, NULL, NULL), ONCE_ERR_INVALID);
    assert_int_equal(once_lattice_merge(nowhere, bottom(ONCE_LATTICE_MAX), &out), ONCE_ERR_INVALID);
    assert_int_equal(once_gset_add(nowhere, &out), ONCE_ERR_INVALID);
    assert_int_equal(out.size, 0);
    once_buf_release(&out);
}

static void reader__state_of_another_type__is_a_type_error(void **state)
{
    struct once_bytes max = MAKE(once_max_set(1, &out));
    bool flag = true;
    size_t count = 5;

    (void)state;
    assert_int_equal(once_flag_value(max, &flag), ONCE_ERR_TYPE);
    assert_true(flag);
    assert_int_equal(once_gset_contains(max, b("x"), &flag), ONCE_ERR_TYPE);
    assert_int_equal(once_lattice_count(max, &count), ONCE_ERR_TYPE);
    assert_int_equal(count, 5);
}

static void describe__value_or_name_like_the_words_around_it__is_told_apart(void **state)
{
    struct once_lww value = {.time = 1, .node = b("b"), .value = b("x @0 by a")};
    struct once_lww node = {.time = 0, .node = b("a @1 by b"), .value = b("x")};

    (void)state;
    assert_text(MAKE(once_lww_write(&value, &out)), "lww{x\\x20@0\\x20by\\x20a @1 by b}");
    assert_text(MAKE(once_lww_write(&node, &out)), "lww{x @0 by a\\x20@1\\x20by\\x20b}");
    assert_text(MAKE(once_gset_add(b(""), &out)), "gset{\"\"}");
    assert_text(MAKE(once_gset_add(b("\"\""), &out)), "gset{\\\"\\\"}");
    assert_text(MAKE(once_gset_add(b("a+b"), &out)), "gset{a\\+b}");
    assert_text(bottom(ONCE_LATTICE_GSET), "gset{}");
}

static void describe__long_or_binary__is_escaped_and_cut(void **state)
{
    uint8_t long_member[ONCE_LATTICE_TEXT_MAX];
    struct once_bytes member = {.data = long_member, .size = sizeof long_member};
    const char *text;

    (void)state;
    memset(long_member, 'x', sizeof long_member);
    text = text_of(MAKE(once_gset_add(member, &out)));
    assert_true(strlen(text) <= ONCE_LATTICE_TEXT_MAX);
    assert_string_equal(text + strlen(text) - 4, "x...");
    assert_text(MAKE(once_gset_add(b("a,b\n\xc3\\"), &out)), "gset{a\\,b\\x0a\\xc3\\\\}");
}

#define TEST(name) cmocka_unit_test_teardown(name, help_release)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(max__nothing_set__is_not_zero_and_loses_to_everything),
        TEST(max__merged__keeps_the_larger),
        TEST(min__merged__keeps_the_smaller),
        TEST(flag__raised_by_one__is_raised_for_all),
        TEST(lww__later_time__wins),
        TEST(lww__same_time__larger_node_then_larger_value_wins),
        TEST(lww__never_written__is_before_every_write),
        TEST(lww__node_missing_or_too_long__is_refused),
        TEST(order_join__all_pairs__is_the_union_of_what_they_say),
        TEST(dot_merge__alive_and_gone__is_gone),
        TEST(merge__of_different_types__is_a_type_error),
        TEST(merge__out_holds_the_input__is_refused),
        TEST(merge__into_a_buffer_that_holds_something__appends),
        TEST(merge__out_too_small__is_full_and_leaves_out_as_it_was),
        TEST(check__header__says_which_byte_is_wrong),
        TEST(check__good_state__gives_its_type),
        TEST(bottom__not_a_type__is_invalid),
        TEST(any__null_with_a_size__is_invalid),
        TEST(reader__state_of_another_type__is_a_type_error),
        TEST(describe__value_or_name_like_the_words_around_it__is_told_apart),
        TEST(describe__long_or_binary__is_escaped_and_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
