/* SPDX-License-Identifier: Apache-2.0
 *
 * MAP: mergeables under keys, maps inside maps, different types under one key, and the bound on
 * depth.
 */
#include "lattice_help.h"

static struct once_bytes put(const char *key, struct once_bytes inner)
{
    return MAKE(once_map_put(b(key), inner, &out));
}

static struct once_bytes max(int64_t value)
{
    return MAKE(once_max_set(value, &out));
}

static struct once_bytes gset(const char *member)
{
    return MAKE(once_gset_add(b(member), &out));
}

static struct once_bytes get(struct once_bytes map, const char *key)
{
    struct once_bytes inner = {0};
    bool present = false;

    assert_ok(once_map_get(map, b(key), &present, &inner));
    assert_true(present);
    return inner;
}

/* A map inside maps, depth of them all told. */
static struct once_bytes nested(unsigned depth)
{
    struct once_bytes state = max(1);

    for (unsigned i = 0; i < depth; i++)
        state = put("k", state);
    return state;
}

/* The same by hand, for depths that put refuses. */
static struct once_bytes wrapped(struct once_bytes inner)
{
    uint8_t header[] = {ONCE_LATTICE_MAP, 1, 1, 0, 0, 0, 1, 0, 0, 0, 'k', 0, 0, 0, 0};
    struct once_buf out = fresh();

    header[11] = (uint8_t)inner.size;
    assert_true(inner.size < 256);
    assert_ok(once_buf_append(&out, header, sizeof header));
    assert_ok(once_buf_append(&out, inner.data, inner.size));
    return taken(ONCE_OK, &out);
}

static void map__same_key__merges_inside(void **state)
{
    struct once_bytes left = merge(put("a", max(3)), put("s", gset("x")));
    struct once_bytes right = merge(put("s", gset("y")), put("a", max(5)));

    (void)state;
    assert_text(merge(left, right), "map{a:max{5},s:gset{x,y}}");
    assert_state(merge(left, right), merge(right, left));
    assert_state(get(merge(left, right), "a"), max(5));
    assert_int_equal(order(left, right), ONCE_ORDER_CONCURRENT);
    assert_int_equal(order(left, merge(left, right)), ONCE_ORDER_BEFORE);
}

static void map__key_absent__is_told_and_is_not_a_bottom(void **state)
{
    struct once_bytes map = put("a", bottom(ONCE_LATTICE_MAX)), inner = map;
    bool present = true;

    (void)state;
    assert_ok(once_map_get(map, b("b"), &present, &inner));
    assert_false(present);
    assert_int_equal(inner.size, 0);
    assert_state(get(map, "a"), bottom(ONCE_LATTICE_MAX));
    assert_int_equal(order(bottom(ONCE_LATTICE_MAP), map), ONCE_ORDER_BEFORE);
    assert_int_equal(order(map, put("a", max(1))), ONCE_ORDER_BEFORE);
}

static void map__different_types_under_a_key__larger_tag_wins_whole(void **state)
{
    struct once_bytes number = put("k", max(100)), set = put("k", bottom(ONCE_LATTICE_GSET));

    (void)state;
    assert_state(merge(number, set), set);
    assert_state(merge(set, number), set);
    assert_int_equal(order(number, set), ONCE_ORDER_BEFORE);
    assert_int_equal(order(set, number), ONCE_ORDER_AFTER);
    /* Associative through the change of type. */
    assert_state(merge(merge(number, set), put("k", gset("x"))),
                 merge(number, merge(set, put("k", gset("x")))));
}

static void map__inside_maps__merges_all_the_way_down(void **state)
{
    struct once_bytes left = put("a", put("b", put("c", gset("x"))));
    struct once_bytes right = put("a", merge(put("b", put("c", gset("y"))), put("d", max(1))));

    (void)state;
    assert_text(merge(left, right), "map{a:map{b:map{c:gset{x,y}},d:max{1}}}");
    assert_int_equal(order(left, right), ONCE_ORDER_CONCURRENT);
}

static void map__deltas_of_inner_types__merge_as_the_states_would(void **state)
{
    struct once_bytes map = bottom(ONCE_LATTICE_MAP), inner = bottom(ONCE_LATTICE_AWSET);
    struct once_bytes delta;

    (void)state;
    for (int i = 0; i < 5; i++) {
        const char *members[] = {"x", "y", "x", "z", "y"};

        delta = MAKE(once_awset_add(inner, WRITE("n", members[i]), &out));
        inner = merge(inner, delta);
        map = merge(map, put("set", delta));
    }
    delta = MAKE(once_awset_remove(inner, b("y"), &out));
    inner = merge(inner, delta);
    map = merge(map, put("set", delta));
    assert_state(map, put("set", inner));
    assert_text(map, "map{set:awset{x n:3,z n:4 | n:5}}");
}

static void map__iter__gives_keys_in_order_with_their_states(void **state)
{
    struct once_bytes map = merge(put("b", max(2)), put("a", gset("x")));
    struct once_lattice_iter iter;
    struct once_lattice_entry entry;

    (void)state;
    assert_ok(once_lattice_iter_init(&iter, map));
    assert_int_equal(once_lattice_iter_next(&iter, &entry), 1);
    assert_true(same(entry.key, b("a")));
    assert_state(entry.value, gset("x"));
    assert_int_equal(once_lattice_iter_next(&iter, &entry), 1);
    assert_true(same(entry.key, b("b")));
    assert_state(entry.value, max(2));
    assert_int_equal(once_lattice_iter_next(&iter, &entry), 0);
}

static void map__put_of_damaged_bytes__is_refused(void **state)
{
    struct once_bytes good = max(1);
    struct once_buf out = fresh();

    (void)state;
    good.size--;
    assert_int_equal(once_map_put(b("k"), good, &out), ONCE_ERR_DAMAGED);
    assert_int_equal(once_map_put(b("k"), (struct once_bytes){0}, &out), ONCE_ERR_DAMAGED);
    assert_int_equal(out.size, 0);
    once_buf_release(&out);
}

static void map__nested_to_the_bound__works_and_no_further(void **state)
{
    struct once_bytes deepest = nested(ONCE_LATTICE_DEPTH_MAX), deeper = wrapped(deepest);
    struct once_buf out = fresh();
    enum once_order result;

    (void)state;
    assert_ok(once_lattice_check(deepest, NULL, NULL));
    assert_state(merge(deepest, deepest), deepest);
    assert_int_equal(order(deepest, deepest), ONCE_ORDER_EQUAL);
    assert_ok(once_lattice_describe(deepest, &out));
    assert_state(wrapped(nested(ONCE_LATTICE_DEPTH_MAX - 1)), deepest);

    once_buf_clear(&out);
    assert_int_equal(once_map_put(b("k"), deepest, &out), ONCE_ERR_FULL);
    assert_refused(deeper, ONCE_ERR_FULL, (size_t)ONCE_LATTICE_DEPTH_MAX * 15 + 2);
    assert_int_equal(once_lattice_merge(deeper, deeper, &out), ONCE_ERR_FULL);
    assert_int_equal(once_lattice_compare(deeper, deeper, &result), ONCE_ERR_FULL);
    assert_int_equal(once_lattice_describe(wrapped(deeper), &out), ONCE_ERR_FULL);
    assert_int_equal(out.size, 0);
    once_buf_release(&out);
}

static void map__check__refuses_what_is_not_canonical(void **state)
{
    (void)state;
    /* Unsorted keys; an inner state that is cut, has something behind it, or is no state. */
    assert_refused(hex("0b 01 02000000 01000000 62 03000000 030100 01000000 61 03000000 030100"),
                   ONCE_ERR_DAMAGED, 22);
    assert_refused(hex("0b 01 01000000 01000000 62 02000000 0301"), ONCE_ERR_DAMAGED, 17);
    assert_refused(hex("0b 01 01000000 01000000 62 04000000 03010000"), ONCE_ERR_DAMAGED, 18);
    assert_refused(hex("0b 01 01000000 01000000 62 00000000"), ONCE_ERR_DAMAGED, 15);
    assert_refused(hex("0b 01 01000000 01000000 62 03000000 0c0100"), ONCE_ERR_DAMAGED, 15);
    assert_refused(hex("0b 01 01000000 01000000 62 03000000 030200"), ONCE_ERR_DAMAGED, 16);
    assert_refused(hex("0b 01 01000000 01000000 62 05000000 030100"), ONCE_ERR_DAMAGED, 18);
    assert_refused(hex("0b 01 01000000 01000100"), ONCE_ERR_FULL, 6);
}

#define TEST(name) cmocka_unit_test_teardown(name, help_release)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(map__same_key__merges_inside),
        TEST(map__key_absent__is_told_and_is_not_a_bottom),
        TEST(map__different_types_under_a_key__larger_tag_wins_whole),
        TEST(map__inside_maps__merges_all_the_way_down),
        TEST(map__deltas_of_inner_types__merge_as_the_states_would),
        TEST(map__iter__gives_keys_in_order_with_their_states),
        TEST(map__put_of_damaged_bytes__is_refused),
        TEST(map__nested_to_the_bound__works_and_no_further),
        TEST(map__check__refuses_what_is_not_canonical),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
