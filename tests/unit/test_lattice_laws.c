/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws, for every type: exhaustively on small domains, and on random histories. Merging is
 * idempotent, commutative, associative and has its bottom; the order agrees with merging; replicas
 * that lose, repeat and reorder each other's deltas end with equal bytes.
 */
#include "lattice_mutate.h"

/* Different states, each once; places in states are their names. */
struct universe {
    struct once_bytes *states;
    size_t count;
    size_t capacity;
    uint32_t *slots; /* hash table of place + 1 */
    size_t slot_count;
};

static void universe_init(struct universe *universe)
{
    *universe = (struct universe){.capacity = 1 << 16, .slot_count = 1 << 18};
    universe->states = calloc(universe->capacity, sizeof *universe->states);
    universe->slots = calloc(universe->slot_count, sizeof *universe->slots);
    assert_non_null(universe->states);
    assert_non_null(universe->slots);
}

static void universe_release(struct universe *universe)
{
    free(universe->states);
    free(universe->slots);
    help_release(NULL);
}

static uint32_t place_of(struct universe *universe, struct once_bytes state)
{
    uint64_t hash = 14695981039346656037U;

    for (size_t i = 0; i < state.size; i++)
        hash = (hash ^ state.data[i]) * 1099511628211U;
    for (size_t i = hash % universe->slot_count;; i = (i + 1) % universe->slot_count) {
        uint32_t place = universe->slots[i];

        if (place == 0) {
            assert_true(universe->count < universe->capacity);
            universe->states[universe->count] = keep(state.data, state.size);
            universe->slots[i] = (uint32_t)++universe->count;
            return (uint32_t)universe->count - 1;
        }
        if (same(universe->states[place - 1], state))
            return place - 1;
    }
}

static uint32_t place_of_merge(struct universe *universe, uint32_t x, uint32_t y,
                               struct once_buf *scratch)
{
    once_buf_clear(scratch);
    assert_ok(once_lattice_merge(universe->states[x], universe->states[y], scratch));
    return place_of(universe, once_buf_bytes(scratch));
}

/* Everything that at most `steps` mutations make, and their deltas. */
static void explore(struct universe *universe, enum once_lattice_type type, unsigned steps,
                    const char *members[2])
{
    static const char *nodes[] = {"a", "b"};
    size_t start = 0;

    place_of(universe, bottom(type));
    for (unsigned step = 0; step < steps; step++) {
        size_t end = universe->count;

        for (size_t i = start; i < end; i++) {
            for (unsigned choice = 0; choice < 2 * mutation_count(type); choice++) {
                struct once_bytes delta = mutate(type, universe->states[i], nodes[choice % 2],
                                                 choice / 2, members);

                place_of(universe, delta);
                place_of(universe, merge(universe->states[i], delta));
            }
        }
        start = end;
    }
}

static void assert_law(bool holds, const char *law, const struct universe *universe, size_t x,
                       size_t y, size_t z)
{
    if (!holds)
        fail_msg("%s fails: %s, %s, %s", law, text_of(universe->states[x]),
                 text_of(universe->states[y]), text_of(universe->states[z]));
}

static void assert_order_agrees(const struct universe *universe, uint32_t x, uint32_t y,
                                uint32_t merged)
{
    enum once_order expected = merged == x   ? (x == y ? ONCE_ORDER_EQUAL : ONCE_ORDER_AFTER)
                               : merged == y ? ONCE_ORDER_BEFORE
                                             : ONCE_ORDER_CONCURRENT;

    assert_law(order(universe->states[x], universe->states[y]) == expected, "order", universe, x, y,
               merged);
}

/* Pairs: commutative, idempotent, bottom, order. Gives the table of merges. */
static uint32_t *check_pairs(struct universe *universe, uint32_t count, struct once_buf *scratch)
{
    uint32_t *merges = calloc((size_t)count * count, sizeof *merges);

    assert_non_null(merges);
    for (uint32_t x = 0; x < count; x++) {
        for (uint32_t y = 0; y < count; y++)
            merges[x * count + y] = place_of_merge(universe, x, y, scratch);
        assert_law(merges[x * count + x] == x, "idempotent", universe, x, x, x);
        assert_law(merges[x * count] == x, "bottom", universe, x, 0, x);
        assert_ok(once_lattice_check(universe->states[x], NULL, NULL));
    }
    for (uint32_t x = 0; x < count; x++) {
        for (uint32_t y = 0; y < count; y++) {
            uint32_t merged = merges[x * count + y];

            assert_law(merged == merges[y * count + x], "commutative", universe, x, y, merged);
            assert_order_agrees(universe, x, y, merged);
        }
    }
    return merges;
}

/* Triples. The merges of merged states are looked up, so that every pair is merged once. */
static size_t check_triples(struct universe *universe, uint32_t count, const uint32_t *merges,
                            struct once_buf *scratch)
{
    uint32_t closure = (uint32_t)universe->count;
    uint32_t *left = calloc((size_t)closure * count, sizeof *left);
    uint32_t *right = calloc((size_t)closure * count, sizeof *right);

    assert_non_null(left);
    assert_non_null(right);
    for (uint32_t x = 0; x < closure; x++) {
        assert_ok(once_lattice_check(universe->states[x], NULL, NULL));
        for (uint32_t y = 0; y < count; y++) {
            left[x * count + y] = place_of_merge(universe, x, y, scratch);
            right[x * count + y] = place_of_merge(universe, y, x, scratch);
        }
    }
    for (uint32_t x = 0; x < count; x++) {
        for (uint32_t y = 0; y < count; y++) {
            for (uint32_t z = 0; z < count; z++) {
                uint32_t xy_z = left[merges[x * count + y] * count + z];
                uint32_t x_yz = right[merges[y * count + z] * count + x];

                assert_law(xy_z == x_yz, "associative", universe, x, y, z);
            }
        }
    }
    free(left);
    free(right);
    return (size_t)count * count * count;
}

static void laws__all_states_of_three_mutations__hold_for_all_triples(void **state)
{
    static const char *members[] = {"x", "y"};

    (void)state;
    ALL_TYPES(type)
    {
        struct once_buf scratch = fresh();
        struct universe universe;
        uint32_t count, *merges;
        size_t triples;

        universe_init(&universe);
        explore(&universe, type, 3, members);
        count = (uint32_t)universe.count;
        merges = check_pairs(&universe, count, &scratch);
        triples = check_triples(&universe, count, merges, &scratch);
        print_message("# %s: %u states, %zu triples\n", once_lattice_type_name(type), count,
                      triples);
        free(merges);
        once_buf_release(&scratch);
        universe_release(&universe);
    }
}

/* Members that look like nothing, or like what stands around them. */
static void describe__all_states_of_three_mutations__are_all_different(void **state)
{
    static const char *members[][2] = {
        {"x", "y"},     {"", "\"\""}, {",", "\\x2c"}, {"x", "x a:1"}, {"x @0 by a", "x | a:1"},
        {" ", "\\x20"}, {"}", "{"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        ALL_TYPES(type)
        {
            struct universe universe, texts;

            universe_init(&universe);
            universe_init(&texts);
            explore(&universe, type, 3, members[i]);
            for (size_t j = 0; j < universe.count; j++) {
                const char *text = text_of(universe.states[j]);

                if (place_of(&texts, b(text)) != j)
                    fail_msg("two states are described as %s", text);
            }
            free(texts.states);
            free(texts.slots);
            universe_release(&universe);
        }
    }
}

/* Replicas, and a network that loses, repeats and reorders. */
enum { REPLICAS = 3, STEPS = 40, BAG_MAX = 4 * STEPS };

static const char *const names[REPLICAS] = {"n1", "n2", "n3"};

struct world {
    enum once_lattice_type type;
    struct once_bytes replicas[REPLICAS];
    struct once_bytes deltas[STEPS]; /* every delta that was ever made, in order of making */
    size_t delta_count;
    struct once_bytes bag[BAG_MAX]; /* messages under way, to anyone */
    size_t bag_count;
};

static void world_send(struct world *world, struct once_bytes message, uint64_t *seed)
{
    unsigned copies = (unsigned)help_below(seed, 4); /* 0: lost */

    for (; copies > 0 && world->bag_count < BAG_MAX; copies--)
        world->bag[world->bag_count++] = message;
}

static void world_deliver(struct world *world, uint64_t *seed)
{
    size_t to = help_below(seed, REPLICAS), i;

    if (world->bag_count == 0)
        return;
    i = help_below(seed, world->bag_count);
    world->replicas[to] = merge(world->replicas[to], world->bag[i]);
    world->bag[i] = world->bag[--world->bag_count];
}

static void world_run(struct world *world, enum once_lattice_type type, uint64_t *seed)
{
    *world = (struct world){.type = type};
    for (size_t i = 0; i < REPLICAS; i++)
        world->replicas[i] = bottom(type);
    while (world->delta_count < STEPS) {
        size_t at = help_below(seed, REPLICAS);
        struct once_bytes delta;

        delta = mutate_randomly(type, world->replicas[at], names[at], seed);
        world->replicas[at] = merge(world->replicas[at], delta);
        world->deltas[world->delta_count++] = delta;
        world_send(world, help_below(seed, 4) == 0 ? world->replicas[at] : delta, seed);
        world_deliver(world, seed);
    }
}

static void replicas__losing_repeating_reordering__end_with_equal_bytes(void **state)
{
    uint64_t seed = help_seed();

    (void)state;
    ALL_TYPES(type)
    {
        for (int round = 0; round < 20; round++) {
            struct world world;
            struct once_bytes all = bottom(type);

            world_run(&world, type, &seed);
            /* What was lost is made up for by one exchange of whole states. */
            for (size_t hop = 0; hop < 2 * REPLICAS; hop++) {
                size_t from = hop % REPLICAS, to = (hop + 1) % REPLICAS;

                world.replicas[to] = merge(world.replicas[to], world.replicas[from]);
            }
            for (size_t i = 1; i < REPLICAS; i++)
                assert_state(world.replicas[i], world.replicas[0]);

            /* And the deltas alone, shuffled and with repeats, say the same. */
            for (size_t i = world.delta_count; i > 0; i--) {
                size_t j = help_below(&seed, i);
                struct once_bytes delta = world.deltas[j];

                all = merge(all, delta);
                all = merge(delta, all);
                world.deltas[j] = world.deltas[i - 1];
                world.deltas[i - 1] = delta;
            }
            assert_state(all, world.replicas[0]);
            assert_ok(once_lattice_check(all, NULL, NULL));
            help_release(NULL);
        }
    }
}

static void deltas__merged_in_place_of_states__give_the_same(void **state)
{
    uint64_t seed = help_seed();

    (void)state;
    ALL_TYPES(type)
    {
        struct once_bytes mine = bottom(type), theirs;

        for (int i = 0; i < 60; i++) {
            struct once_bytes delta = mutate_randomly(type, mine, names[i % 3], &seed);
            struct once_bytes next = merge(mine, delta);

            assert_ok(once_lattice_check(delta, NULL, NULL));
            theirs = merge(mine, mutate_randomly(type, mine, "n4", &seed));
            assert_state(merge(theirs, delta), merge(theirs, next));
            assert_true(order(delta, next) == ONCE_ORDER_BEFORE || same(delta, next));
            mine = next;
        }
        help_release(NULL);
    }
}

static void laws__random_histories__hold(void **state)
{
    uint64_t seed = help_seed();

    (void)state;
    ALL_TYPES(type)
    {
        for (int round = 0; round < 30; round++) {
            struct world world;
            struct once_bytes x, y, z;

            world_run(&world, type, &seed);
            x = world.replicas[0];
            y = world.deltas[help_below(&seed, STEPS)];
            z = merge(world.replicas[2], world.deltas[help_below(&seed, STEPS)]);
            assert_state(merge(x, x), x);
            assert_state(merge(x, bottom(type)), x);
            assert_state(merge(x, z), merge(z, x));
            assert_state(merge(merge(x, y), z), merge(x, merge(y, z)));
            assert_true((order(x, z) == ONCE_ORDER_BEFORE || order(x, z) == ONCE_ORDER_EQUAL) ==
                        same(merge(x, z), z));
            assert_true((order(z, x) == ONCE_ORDER_BEFORE || order(z, x) == ONCE_ORDER_EQUAL) ==
                        same(merge(x, z), x));
            assert_int_not_equal(order(x, merge(x, z)), ONCE_ORDER_AFTER);
            assert_int_not_equal(order(x, merge(x, z)), ONCE_ORDER_CONCURRENT);
            help_release(NULL);
        }
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, help_release)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(laws__all_states_of_three_mutations__hold_for_all_triples),
        TEST(describe__all_states_of_three_mutations__are_all_different),
        TEST(laws__random_histories__hold),
        TEST(deltas__merged_in_place_of_states__give_the_same),
        TEST(replicas__losing_repeating_reordering__end_with_equal_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
