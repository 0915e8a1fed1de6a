/* SPDX-License-Identifier: Apache-2.0
 *
 * Damaged and foreign bytes: the check names the first bad byte, and nothing reads or writes
 * outside its buffers, whatever it is given. Run under the address sanitizer; every input is a
 * block of its own.
 */
#include "lattice_mutate.h"

static const char *const names[] = {"n1", "n2", "n3"};

/* A state of some history by three nodes that each saw a part of it. */
static struct once_bytes random_state(enum once_lattice_type type, unsigned steps, uint64_t *seed)
{
    struct once_bytes replicas[3] = {bottom(type), bottom(type), bottom(type)};

    for (unsigned i = 0; i < steps; i++) {
        size_t at = help_below(seed, 3), to = help_below(seed, 3);
        struct once_bytes delta = mutate_randomly(type, replicas[at], names[at], seed);

        replicas[at] = merge(replicas[at], delta);
        replicas[to] = merge(replicas[to], delta);
    }
    return merge(replicas[0], replicas[1]);
}

/* A call that makes a state from bytes that may be anything either succeeds or leaves out alone. */
static void assert_sober(int err, const struct once_buf *out)
{
    assert_true(err <= 0);
    if (err != ONCE_OK)
        assert_int_equal(out->size, 3);
}

#define SOBER(call)                                                                                \
    do {                                                                                           \
        out.size = 3;                                                                              \
        assert_sober((call), &out);                                                                \
    } while (0)

/* Calls everything there is on bytes that may be anything. */
static void use_anyway(struct once_bytes wild, struct once_bytes good)
{
    struct once_lattice_iter iter;
    struct once_lattice_entry entry;
    struct once_buf out = fresh();
    struct once_lww write;
    struct once_bytes inner;
    enum once_order relation;
    uint64_t count;
    int64_t number;
    bool flag;

    assert_ok(once_buf_append(&out, "out", 3));
    SOBER(once_lattice_merge(wild, good, &out));
    SOBER(once_lattice_merge(good, wild, &out));
    SOBER(once_lattice_merge(wild, wild, &out));
    SOBER(once_lattice_compare(wild, good, &relation));
    SOBER(once_lattice_compare(good, wild, &relation));
    SOBER(once_lattice_describe(wild, &out));
    SOBER(once_vv_increment(wild, b("n1"), &out));
    SOBER(once_gcounter_add(wild, b("n1"), 1, &out));
    SOBER(once_pncounter_add(wild, b("n1"), -1, &out));
    SOBER(once_awset_add(wild, WRITE("n1", "x"), &out));
    SOBER(once_awset_remove(wild, b("x"), &out));
    SOBER(once_mvreg_write(wild, WRITE("n1", "x"), &out));
    SOBER(once_map_put(b("k"), wild, &out));
    SOBER(once_max_value(wild, &flag, &number));
    SOBER(once_min_value(wild, &flag, &number));
    SOBER(once_flag_value(wild, &flag));
    SOBER(once_lww_value(wild, &flag, &write));
    SOBER(once_vv_value(wild, b("n2"), &count));
    SOBER(once_gcounter_value(wild, &count));
    SOBER(once_pncounter_value(wild, &number));
    SOBER(once_gset_contains(wild, b("xy"), &flag));
    SOBER(once_awset_contains(wild, b("y"), &flag));
    SOBER(once_map_get(wild, b("l"), &flag, &inner));
    if (once_lattice_iter_init(&iter, wild) == ONCE_OK) {
        while (once_lattice_iter_next(&iter, &entry) == 1)
            assert_true(entry.key.size <= wild.size && entry.value.size <= wild.size);
    }
    once_buf_release(&out);
}

/* Bytes that pass the check are canonical: merging them with nothing new gives the same bytes. */
static void assert_canonical(struct once_bytes state)
{
    assert_state(merge(state, bottom((enum once_lattice_type)state.data[0])), state);
    assert_state(merge(bottom((enum once_lattice_type)state.data[0]), state), state);
    assert_state(merge(state, state), state);
    assert_int_equal(order(state, state), ONCE_ORDER_EQUAL);
}

static void check__every_truncation__is_damage_where_the_bytes_end(void **state)
{
    uint64_t seed = help_seed();

    (void)state;
    ALL_TYPES(type)
    {
        for (unsigned steps = 0; steps < 12; steps++) {
            struct once_bytes good = random_state(type, steps, &seed);

            for (size_t size = 0; size < good.size; size++) {
                struct once_bytes cut = keep(good.data, size);

                assert_refused(cut, ONCE_ERR_DAMAGED, size);
                use_anyway(cut, good);
            }
            help_release(NULL);
        }
    }
}

static void check__a_byte_too_many__is_damage_at_that_byte(void **state)
{
    uint64_t seed = help_seed();

    (void)state;
    ALL_TYPES(type)
    {
        for (unsigned steps = 0; steps < 12; steps++) {
            struct once_bytes good = random_state(type, steps, &seed), longer;
            struct once_buf out = fresh();

            assert_ok(once_buf_append(&out, good.data, good.size));
            assert_ok(once_buf_append(&out, "", 1));
            longer = taken(ONCE_OK, &out);
            assert_refused(longer, ONCE_ERR_DAMAGED, good.size);
            use_anyway(longer, good);
        }
        help_release(NULL);
    }
}

static void check__every_bit_flipped__is_refused_or_canonical(void **state)
{
    uint64_t seed = help_seed();
    size_t flips = 0, passed = 0;

    (void)state;
    ALL_TYPES(type)
    {
        for (unsigned steps = 0; steps < 8; steps++) {
            struct once_bytes good = random_state(type, steps, &seed);

            for (size_t bit = 0; bit < 8 * good.size; bit++) {
                struct once_bytes bad = keep(good.data, good.size);
                struct once_defect defect = {0};

                help_blocks->data[bit / 8] ^= (uint8_t)(1U << bit % 8);
                if (once_lattice_check(bad, NULL, &defect) == ONCE_OK) {
                    assert_canonical(bad);
                    passed++;
                } else {
                    assert_true(defect.offset <= bad.size);
                    use_anyway(bad, good);
                }
                flips++;
            }
            help_release(NULL);
        }
    }
    print_message("# %zu flips, %zu made another canonical state\n", flips, passed);
    assert_true(passed > 0 && passed < flips);
}

static void any__random_bytes__stay_inside(void **state)
{
    uint64_t seed = help_seed();

    (void)state;
    ALL_TYPES(type)
    {
        for (int round = 0; round < 300; round++) {
            struct once_bytes good = random_state(type, 5, &seed);
            struct once_bytes wild = keep(good.data, good.size);

            /* Mostly small numbers: large counts and sizes fail at once. */
            for (size_t i = 2; i < wild.size; i++) {
                if (help_below(&seed, 4) == 0)
                    help_blocks->data[i] = (uint8_t)help_below(&seed, i % 3 == 0 ? 256 : 4);
            }
            use_anyway(wild, good);
            help_release(NULL);
        }
    }
}

static void merge__with_cut_bytes_on_either_side__is_damage(void **state)
{
    struct once_lww write = {.time = 1, .node = b("n1"), .value = b("x")};
    struct once_bytes states[] = {
        MAKE(once_max_set(1, &out)),
        MAKE(once_flag_raise(&out)),
        MAKE(once_lww_write(&write, &out)),
        MAKE(once_gset_add(b("x"), &out)),
        MAKE(once_vv_set(b("n1"), 1, &out)),
        MAKE(once_awset_add(bottom(ONCE_LATTICE_AWSET), WRITE("n1", "x"), &out)),
        MAKE(once_mvreg_write(bottom(ONCE_LATTICE_MVREG), WRITE("n1", "x"), &out)),
        MAKE(once_map_put(b("k"), bottom(ONCE_LATTICE_MAX), &out)),
    };

    (void)state;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        struct once_bytes cut = keep(states[i].data, states[i].size - 1);
        struct once_buf out = fresh();
        enum once_order relation;

        assert_int_equal(once_lattice_merge(states[i], cut, &out), ONCE_ERR_DAMAGED);
        assert_int_equal(once_lattice_merge(cut, states[i], &out), ONCE_ERR_DAMAGED);
        assert_int_equal(once_lattice_compare(states[i], cut, &relation), ONCE_ERR_DAMAGED);
        assert_int_equal(once_lattice_compare(cut, states[i], &relation), ONCE_ERR_DAMAGED);
        once_buf_release(&out);
    }
}

static void iter__dots_of_nodes_that_are_not_there_or_out_of_order__is_damage(void **state)
{
    struct once_bytes none = bottom(ONCE_LATTICE_MVREG);
    struct once_bytes two = merge(MAKE(once_mvreg_write(none, WRITE("n1", "x"), &out)),
                                  MAKE(once_mvreg_write(none, WRITE("n2", "y"), &out)));
    size_t second = two.size - 17; /* the place of the second dot's node: 4 + 8 + 4 + 1 bytes */
    struct once_lattice_iter iter;
    struct once_lattice_entry entry;
    struct once_bytes wild;

    (void)state;
    wild = keep(two.data, two.size);
    help_blocks->data[second] = 2;
    assert_ok(once_lattice_iter_init(&iter, wild));
    assert_int_equal(once_lattice_iter_next(&iter, &entry), 1);
    assert_int_equal(once_lattice_iter_next(&iter, &entry), ONCE_ERR_DAMAGED);

    wild = keep(two.data, two.size);
    help_blocks->data[second - 17] = 1;
    help_blocks->data[second] = 0;
    assert_ok(once_lattice_iter_init(&iter, wild));
    assert_int_equal(once_lattice_iter_next(&iter, &entry), 1);
    assert_true(same(entry.key, b("n2")));
    assert_int_equal(once_lattice_iter_next(&iter, &entry), ONCE_ERR_DAMAGED);
}

/* Wild bytes long enough for the fast merge of members. */
static void any__random_bytes_in_a_large_set__stay_inside(void **state)
{
    uint64_t seed = help_seed();

    (void)state;
    for (int round = 0; round < 200; round++) {
        enum { COUNT = 400 };
        struct once_buf out = fresh();
        struct once_bytes good, wild;

        assert_ok(once_lattice_bottom(ONCE_LATTICE_GSET, &out));
        out.data[2] = COUNT & 0xff;
        out.data[3] = COUNT >> 8;
        for (int i = 0; i < COUNT; i++) {
            uint8_t entry[24] = {20, 0, 0, 0, (uint8_t)(i >> 8), (uint8_t)i};

            assert_ok(once_buf_append(&out, entry, sizeof entry));
        }
        good = taken(ONCE_OK, &out);
        assert_ok(once_lattice_check(good, NULL, NULL));
        wild = keep(good.data, good.size);
        for (int i = 0; i < 1 + round / 20; i++)
            help_blocks->data[6 + help_below(&seed, good.size - 6)] = (uint8_t)help_random(&seed);
        use_anyway(wild, good);
        help_release(NULL);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, help_release)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check__every_truncation__is_damage_where_the_bytes_end),
        TEST(check__a_byte_too_many__is_damage_at_that_byte),
        TEST(check__every_bit_flipped__is_refused_or_canonical),
        TEST(merge__with_cut_bytes_on_either_side__is_damage),
        TEST(iter__dots_of_nodes_that_are_not_there_or_out_of_order__is_damage),
        TEST(any__random_bytes__stay_inside),
        TEST(any__random_bytes_in_a_large_set__stay_inside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
