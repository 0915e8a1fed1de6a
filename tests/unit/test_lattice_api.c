/* SPDX-License-Identifier: Apache-2.0
 *
 * What holds for every public function of the mergeable types and the buffers, whatever the type:
 * NULL where there should be something is an error and not a crash, inputs that lie in the output
 * are refused, and sets of many members are made at one go.
 */
#include "lattice_mutate.h"

#define REFUSED(call) assert_int_equal((call), ONCE_ERR_INVALID)

static const struct once_bytes hole = {.data = NULL, .size = 3};

/* A state of the type that has entries, so that every argument gets compared with something. */
static struct once_bytes filled(enum once_lattice_type type)
{
    static const char *members[] = {"x", "y"};
    struct once_bytes state = bottom(type);

    for (unsigned choice = 0; choice < 2 && choice < mutation_count(type); choice++)
        state = merge(state, mutate(type, state, choice == 0 ? "n1" : "n2", choice, members));
    return state;
}

static void outputs__null__are_refused_by_every_function(void **state)
{
    struct once_bytes set = filled(ONCE_LATTICE_AWSET), map = filled(ONCE_LATTICE_MAP);
    struct once_bytes x = b("x"), max = filled(ONCE_LATTICE_MAX), lww = filled(ONCE_LATTICE_LWW);
    struct once_lww write = {.time = 1, .node = b("n1"), .value = x};
    struct once_lattice_iter iter;
    struct once_bytes inner;
    int64_t value;
    bool flag;

    (void)state;
    ALL_TYPES(type)
    {
        REFUSED(once_lattice_bottom(type, NULL));
        REFUSED(once_lattice_merge(filled(type), filled(type), NULL));
        REFUSED(once_lattice_compare(filled(type), filled(type), NULL));
        REFUSED(once_lattice_describe(filled(type), NULL));
    }
    REFUSED(once_max_set(1, NULL));
    REFUSED(once_min_set(1, NULL));
    REFUSED(once_max_value(max, NULL, &value));
    REFUSED(once_max_value(max, &flag, NULL));
    REFUSED(once_min_value(filled(ONCE_LATTICE_MIN), NULL, &value));
    REFUSED(once_min_value(filled(ONCE_LATTICE_MIN), &flag, NULL));
    REFUSED(once_flag_raise(NULL));
    REFUSED(once_flag_value(filled(ONCE_LATTICE_FLAG), NULL));
    REFUSED(once_lww_write(&write, NULL));
    REFUSED(once_lww_value(lww, NULL, &write));
    REFUSED(once_lww_value(lww, &flag, NULL));
    REFUSED(once_gset_add(x, NULL));
    REFUSED(once_gset_add_all(&x, 1, NULL));
    REFUSED(once_gset_contains(filled(ONCE_LATTICE_GSET), x, NULL));
    REFUSED(once_vv_increment(filled(ONCE_LATTICE_VV), x, NULL));
    REFUSED(once_vv_set(x, 1, NULL));
    REFUSED(once_vv_value(filled(ONCE_LATTICE_VV), x, NULL));
    REFUSED(once_gcounter_add(filled(ONCE_LATTICE_GCOUNTER), x, 1, NULL));
    REFUSED(once_gcounter_value(filled(ONCE_LATTICE_GCOUNTER), NULL));
    REFUSED(once_pncounter_add(filled(ONCE_LATTICE_PNCOUNTER), x, 1, NULL));
    REFUSED(once_pncounter_value(filled(ONCE_LATTICE_PNCOUNTER), NULL));
    REFUSED(once_awset_add(set, WRITE("n1", "x"), NULL));
    REFUSED(once_awset_remove(set, x, NULL));
    REFUSED(once_awset_contains(set, x, NULL));
    REFUSED(once_mvreg_write(filled(ONCE_LATTICE_MVREG), WRITE("n1", "x"), NULL));
    REFUSED(once_map_put(x, max, NULL));
    REFUSED(once_map_get(map, x, NULL, &inner));
    REFUSED(once_map_get(map, x, &flag, NULL));
    REFUSED(once_lattice_count(set, NULL));
    REFUSED(once_lattice_iter_init(NULL, set));
    assert_ok(once_lattice_iter_init(&iter, set));
    REFUSED(once_lattice_iter_next(&iter, NULL));
    REFUSED(once_lattice_iter_next(NULL, &(struct once_lattice_entry){0}));
    assert_ok(once_lattice_check(set, NULL, NULL));
}

static void names_and_members__null_with_a_size__are_refused_by_every_function(void **state)
{
    struct once_bytes set = filled(ONCE_LATTICE_AWSET), reg = filled(ONCE_LATTICE_MVREG);
    struct once_bytes some[] = {b("x"), hole};
    struct once_write nobody = {.node = hole, .value = b("x")};
    struct once_write nothing = {.node = b("n1"), .value = hole};
    struct once_buf out = fresh();
    struct once_bytes inner;
    uint64_t number;
    bool flag;

    (void)state;
    REFUSED(once_lww_write(NULL, &out));
    REFUSED(once_lww_write(&(struct once_lww){.node = hole, .value = b("x")}, &out));
    REFUSED(once_lww_write(&(struct once_lww){.node = b("n1"), .value = hole}, &out));
    REFUSED(once_gset_add(hole, &out));
    REFUSED(once_gset_add_all(NULL, 1, &out));
    REFUSED(once_gset_add_all(some, 2, &out));
    REFUSED(once_gset_contains(filled(ONCE_LATTICE_GSET), hole, &flag));
    REFUSED(once_vv_increment(filled(ONCE_LATTICE_VV), hole, &out));
    REFUSED(once_vv_set(hole, 1, &out));
    REFUSED(once_vv_set(hole, 0, &out));
    REFUSED(once_vv_value(filled(ONCE_LATTICE_VV), hole, &number));
    REFUSED(once_gcounter_add(filled(ONCE_LATTICE_GCOUNTER), hole, 1, &out));
    REFUSED(once_pncounter_add(filled(ONCE_LATTICE_PNCOUNTER), hole, -1, &out));
    REFUSED(once_awset_add(set, NULL, &out));
    REFUSED(once_awset_add(set, &nobody, &out));
    REFUSED(once_awset_add(set, &nothing, &out));
    REFUSED(once_awset_remove(set, hole, &out));
    REFUSED(once_awset_contains(set, hole, &flag));
    REFUSED(once_mvreg_write(reg, NULL, &out));
    REFUSED(once_mvreg_write(reg, &nobody, &out));
    REFUSED(once_mvreg_write(reg, &nothing, &out));
    REFUSED(once_map_put(hole, set, &out));
    REFUSED(once_map_put(b("k"), hole, &out));
    REFUSED(once_map_get(filled(ONCE_LATTICE_MAP), hole, &flag, &inner));
    assert_int_equal(out.size, 0);
    once_buf_release(&out);
}

static void states__null_with_a_size__are_refused_by_every_function(void **state)
{
    struct once_buf out = fresh();
    struct once_lattice_iter iter;
    enum once_order relation;
    struct once_bytes inner;
    struct once_lww write;
    uint64_t number;
    size_t count;
    int64_t value;
    bool flag;

    (void)state;
    ALL_TYPES(type)
    {
        REFUSED(once_lattice_merge(filled(type), hole, &out));
        REFUSED(once_lattice_merge(hole, filled(type), &out));
        REFUSED(once_lattice_compare(filled(type), hole, &relation));
        REFUSED(once_lattice_compare(hole, filled(type), &relation));
    }
    REFUSED(once_lattice_check(hole, NULL, NULL));
    REFUSED(once_lattice_describe(hole, &out));
    REFUSED(once_max_value(hole, &flag, &value));
    REFUSED(once_min_value(hole, &flag, &value));
    REFUSED(once_flag_value(hole, &flag));
    REFUSED(once_lww_value(hole, &flag, &write));
    REFUSED(once_gset_contains(hole, b("x"), &flag));
    REFUSED(once_vv_increment(hole, b("n1"), &out));
    REFUSED(once_vv_value(hole, b("n1"), &number));
    REFUSED(once_gcounter_add(hole, b("n1"), 1, &out));
    REFUSED(once_gcounter_value(hole, &number));
    REFUSED(once_pncounter_add(hole, b("n1"), 1, &out));
    REFUSED(once_pncounter_value(hole, &value));
    REFUSED(once_awset_add(hole, WRITE("n1", "x"), &out));
    REFUSED(once_awset_remove(hole, b("x"), &out));
    REFUSED(once_awset_contains(hole, b("x"), &flag));
    REFUSED(once_mvreg_write(hole, WRITE("n1", "x"), &out));
    REFUSED(once_map_get(hole, b("k"), &flag, &inner));
    REFUSED(once_lattice_count(hole, &count));
    REFUSED(once_lattice_iter_init(&iter, hole));
    assert_int_equal(out.size, 0);
    once_buf_release(&out);
}

static void buf__null__is_refused_or_nothing(void **state)
{
    struct once_buf out = fresh();

    (void)state;
    REFUSED(once_buf_append(&out, NULL, 3));
    REFUSED(once_buf_append(NULL, "x", 1));
    REFUSED(once_buf_reserve(NULL, 1));
    assert_ok(once_buf_append(&out, NULL, 0));
    assert_int_equal(out.size, 0);
    once_buf_init(NULL, 1);
    once_buf_clear(NULL);
    once_buf_release(NULL);
    assert_null(once_buf_bytes(NULL).data);
    assert_int_equal(once_buf_bytes(NULL).size, 0);
    once_buf_release(&out);
}

/* A buffer that holds the bytes and has room for more. */
static struct once_bytes inside(struct once_buf *out, struct once_bytes bytes)
{
    once_buf_clear(out);
    assert_ok(once_buf_append(out, bytes.data, bytes.size));
    return once_buf_bytes(out);
}

static void output__that_holds_an_input__is_refused_and_unchanged(void **state)
{
    struct once_buf out = fresh();

    (void)state;
    ALL_TYPES(type)
    {
        struct once_bytes good = filled(type);

        REFUSED(once_lattice_merge(inside(&out, good), good, &out));
        REFUSED(once_lattice_merge(good, inside(&out, good), &out));
        REFUSED(once_lattice_describe(inside(&out, good), &out));
        REFUSED(once_map_put(b("k"), inside(&out, good), &out));
        assert_state(once_buf_bytes(&out), good);
    }
    REFUSED(once_vv_increment(inside(&out, filled(ONCE_LATTICE_VV)), b("n1"), &out));
    REFUSED(once_gcounter_add(inside(&out, filled(ONCE_LATTICE_GCOUNTER)), b("n1"), 1, &out));
    REFUSED(once_pncounter_add(inside(&out, filled(ONCE_LATTICE_PNCOUNTER)), b("n1"), 1, &out));
    REFUSED(once_awset_add(inside(&out, filled(ONCE_LATTICE_AWSET)), WRITE("n1", "x"), &out));
    REFUSED(once_awset_remove(inside(&out, filled(ONCE_LATTICE_AWSET)), b("x"), &out));
    REFUSED(once_mvreg_write(inside(&out, filled(ONCE_LATTICE_MVREG)), WRITE("n1", "x"), &out));
    once_buf_release(&out);
}

static void output__that_holds_a_name_or_member__is_refused(void **state)
{
    struct once_bytes set = filled(ONCE_LATTICE_AWSET), reg = filled(ONCE_LATTICE_MVREG);
    struct once_buf out = fresh();
    struct once_bytes in = inside(&out, b("n1")), some[] = {b("a"), in};
    struct once_write node = {.node = in, .value = b("x")}, value = {.node = b("n1"), .value = in};

    (void)state;
    REFUSED(once_lww_write(&(struct once_lww){.node = in, .value = b("x")}, &out));
    REFUSED(once_lww_write(&(struct once_lww){.node = b("n1"), .value = in}, &out));
    REFUSED(once_gset_add(in, &out));
    REFUSED(once_gset_add_all(some, 2, &out));
    REFUSED(once_vv_increment(filled(ONCE_LATTICE_VV), in, &out));
    REFUSED(once_vv_set(in, 1, &out));
    REFUSED(once_gcounter_add(filled(ONCE_LATTICE_GCOUNTER), in, 1, &out));
    REFUSED(once_pncounter_add(filled(ONCE_LATTICE_PNCOUNTER), in, 1, &out));
    REFUSED(once_awset_add(set, &node, &out));
    REFUSED(once_awset_add(set, &value, &out));
    REFUSED(once_awset_remove(set, in, &out));
    REFUSED(once_mvreg_write(reg, &node, &out));
    REFUSED(once_mvreg_write(reg, &value, &out));
    REFUSED(once_map_put(in, set, &out));
    assert_state(once_buf_bytes(&out), b("n1"));
    once_buf_release(&out);
}

static void gset_add_all__any_order_and_repeats__is_the_merge_of_the_single_adds(void **state)
{
    uint64_t seed = help_seed();

    (void)state;
    assert_state(MAKE(once_gset_add_all(NULL, 0, &out)), bottom(ONCE_LATTICE_GSET));
    for (int round = 0; round < 200; round++) {
        struct once_bytes one_by_one = bottom(ONCE_LATTICE_GSET), members[20], all;
        size_t count = help_below(&seed, 20);

        for (size_t i = 0; i < count; i++) {
            uint64_t letters = help_random(&seed) & 0x8101010101010101U;

            members[i] = keep(&letters, help_below(&seed, 4));
            one_by_one = merge(one_by_one, MAKE(once_gset_add(members[i], &out)));
        }
        all = MAKE(once_gset_add_all(members, count, &out));
        assert_state(all, one_by_one);
        assert_ok(once_lattice_check(all, NULL, NULL));
    }
}

static void gset_add_all__too_much__is_full_and_changes_nothing(void **state)
{
    struct once_bytes members[] = {b("b"), b("a")};
    struct once_buf out;

    (void)state;
    once_buf_init(&out, 2 + 4 + 2 * 5 - 1);
    assert_int_equal(once_gset_add_all(members, 2, &out), ONCE_ERR_FULL);
    assert_int_equal(once_gset_add_all(members, ONCE_LATTICE_ENTRIES_MAX + 1, &out), ONCE_ERR_FULL);
    assert_int_equal(out.size, 0);
    members[1] = members[0];
    assert_ok(once_gset_add_all(members, 2, &out));
    assert_int_equal(out.size, 2 + 4 + 5);
    once_buf_release(&out);
}

/* Merges the deltas as a tournament. */
static struct once_bytes merge_all(struct once_bytes *deltas, size_t count)
{
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t i = 0; i + width < count; i += 2 * width)
            deltas[i] = merge(deltas[i], deltas[i + width]);
    }
    return deltas[0];
}

/* What lattice.h says about adding many members at one go. */
static void awset_add__each_from_the_delta_before__merges_to_the_same_set(void **state)
{
    enum { COUNT = 100 };
    struct once_bytes start = filled(ONCE_LATTICE_AWSET), slow = start, deltas[COUNT];

    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        char member[8];

        snprintf(member, sizeof member, "m%zu", i * 37 % COUNT);
        deltas[i] = MAKE(once_awset_add(i == 0 ? start : deltas[i - 1], WRITE("n1", member), &out));
        slow = merge(slow, MAKE(once_awset_add(slow, WRITE("n1", member), &out)));
    }
    assert_state(merge(start, merge_all(deltas, COUNT)), slow);
}

static bool covers(struct once_bytes later, struct once_bytes earlier)
{
    enum once_order relation = order(earlier, later);

    return relation == ONCE_ORDER_BEFORE || relation == ONCE_ORDER_EQUAL;
}

/* The table of lattice.h: which later deltas of one node make up for the loss of an earlier one. */
static void delta__later_of_the_same_node__covers_the_earlier_as_the_table_says(void **state)
{
    struct once_bytes count = bottom(ONCE_LATTICE_GCOUNTER), vv = bottom(ONCE_LATTICE_VV);
    struct once_bytes sum = bottom(ONCE_LATTICE_PNCOUNTER), deltas[3];
    struct once_lww first = {.time = 1, .node = b("n1"), .value = b("y")};
    struct once_lww second = {.time = 2, .node = b("n1"), .value = b("x")};

    (void)state;
    for (int i = 0; i < 2; i++) {
        deltas[0] = MAKE(once_gcounter_add(count, b("n1"), 1, &out));
        count = merge(count, deltas[0]);
        deltas[1] = MAKE(once_vv_increment(vv, b("n1"), &out));
        vv = merge(vv, deltas[1]);
    }
    assert_true(covers(deltas[0], count));
    assert_true(covers(deltas[1], vv));

    for (int i = 0; i < 3; i++) {
        deltas[i] = MAKE(once_pncounter_add(sum, b("n1"), i == 1 ? -1 : 1, &out));
        sum = merge(sum, deltas[i]);
    }
    assert_true(covers(deltas[2], deltas[0]));
    assert_false(covers(deltas[2], deltas[1]));

    assert_true(covers(MAKE(once_flag_raise(&out)), MAKE(once_flag_raise(&out))));
    assert_true(covers(MAKE(once_max_set(2, &out)), MAKE(once_max_set(1, &out))));
    assert_false(covers(MAKE(once_max_set(1, &out)), MAKE(once_max_set(2, &out))));
    assert_true(covers(MAKE(once_min_set(1, &out)), MAKE(once_min_set(2, &out))));
    assert_false(covers(MAKE(once_min_set(2, &out)), MAKE(once_min_set(1, &out))));
    assert_true(covers(MAKE(once_lww_write(&second, &out)), MAKE(once_lww_write(&first, &out))));
    assert_false(covers(MAKE(once_lww_write(&first, &out)), MAKE(once_lww_write(&second, &out))));
    assert_false(covers(MAKE(once_gset_add(b("y"), &out)), MAKE(once_gset_add(b("x"), &out))));
}

static void state_and_name__changed_places__is_noticed(void **state)
{
    struct once_bytes sum = filled(ONCE_LATTICE_GCOUNTER), set = filled(ONCE_LATTICE_AWSET);
    struct once_buf out = fresh();
    struct once_bytes inner;
    bool flag;

    (void)state;
    assert_int_equal(once_gcounter_add(b("n1"), sum, 1, &out), ONCE_ERR_DAMAGED);
    assert_int_equal(once_awset_remove(b("x"), set, &out), ONCE_ERR_DAMAGED);
    assert_int_equal(once_awset_contains(b("x"), set, &flag), ONCE_ERR_DAMAGED);
    assert_int_equal(once_map_put(set, b("k"), &out), ONCE_ERR_DAMAGED);
    assert_int_equal(once_map_get(b("k"), filled(ONCE_LATTICE_MAP), &flag, &inner),
                     ONCE_ERR_DAMAGED);
    once_buf_release(&out);
}

#define TEST(name) cmocka_unit_test_teardown(name, help_release)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(outputs__null__are_refused_by_every_function),
        TEST(names_and_members__null_with_a_size__are_refused_by_every_function),
        TEST(states__null_with_a_size__are_refused_by_every_function),
        TEST(buf__null__is_refused_or_nothing),
        TEST(output__that_holds_an_input__is_refused_and_unchanged),
        TEST(output__that_holds_a_name_or_member__is_refused),
        TEST(gset_add_all__any_order_and_repeats__is_the_merge_of_the_single_adds),
        TEST(gset_add_all__too_much__is_full_and_changes_nothing),
        TEST(delta__later_of_the_same_node__covers_the_earlier_as_the_table_says),
        TEST(state_and_name__changed_places__is_noticed),
        TEST(awset_add__each_from_the_delta_before__merges_to_the_same_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
