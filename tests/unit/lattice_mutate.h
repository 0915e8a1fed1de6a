/* SPDX-License-Identifier: Apache-2.0
 *
 * Every mutator of every type behind one function, so that tests can make states of any type.
 */
#ifndef ONCE_TESTS_LATTICE_MUTATE_H
#define ONCE_TESTS_LATTICE_MUTATE_H

#include "lattice_help.h"

#define ALL_TYPES(type)                                                                            \
    for (enum once_lattice_type type = ONCE_LATTICE_MAX; type <= ONCE_LATTICE_MAP; type++)

/* How many different mutations there are of a type. */
static inline unsigned mutation_count(enum once_lattice_type type)
{
    static const unsigned counts[] = {
        [ONCE_LATTICE_MAX] = 3,      [ONCE_LATTICE_MIN] = 3,       [ONCE_LATTICE_FLAG] = 1,
        [ONCE_LATTICE_GSET] = 3,     [ONCE_LATTICE_VV] = 2,        [ONCE_LATTICE_LWW] = 4,
        [ONCE_LATTICE_GCOUNTER] = 2, [ONCE_LATTICE_PNCOUNTER] = 2, [ONCE_LATTICE_AWSET] = 4,
        [ONCE_LATTICE_MVREG] = 2,    [ONCE_LATTICE_MAP] = 5,
    };

    return counts[type];
}

static inline struct once_bytes mutate(enum once_lattice_type type, struct once_bytes state,
                                       const char *node, unsigned choice, const char *members[2]);

/* A map's mutation goes to the state under a key, which may not be there yet. Under "k" different
 * types meet; under "m" there is a map. */
static inline struct once_bytes mutate_map(struct once_bytes state, const char *node,
                                           unsigned choice, const char *members[2])
{
    static const struct {
        const char *key;
        enum once_lattice_type type;
        unsigned choice;
    } inside[] = {
        {"k", ONCE_LATTICE_MAX, 1},   {"k", ONCE_LATTICE_AWSET, 0}, {"k", ONCE_LATTICE_AWSET, 2},
        {"l", ONCE_LATTICE_MVREG, 1}, {"m", ONCE_LATTICE_MAP, 0},
    };
    struct once_bytes inner = {0}, delta;
    bool present = false;

    assert_ok(once_map_get(state, b(inside[choice].key), &present, &inner));
    if (!present || inner.data[0] != inside[choice].type)
        inner = bottom(inside[choice].type);
    delta = mutate(inside[choice].type, inner, node, inside[choice].choice, members);
    return MAKE(once_map_put(b(inside[choice].key), delta, &out));
}

/* The delta of one mutation of state by the node. */
static inline struct once_bytes mutate(enum once_lattice_type type, struct once_bytes state,
                                       const char *node, unsigned choice, const char *members[2])
{
    static const int64_t numbers[] = {-1, 0, 5};
    struct once_bytes member = b(members[choice % 2]);
    struct once_lww write = {.time = choice / 2, .node = b(node), .value = member};
    struct once_write causal = {.node = b(node), .value = member};

    switch (type) {
    case ONCE_LATTICE_MAX:
        return MAKE(once_max_set(numbers[choice], &out));
    case ONCE_LATTICE_MIN:
        return MAKE(once_min_set(numbers[choice], &out));
    case ONCE_LATTICE_FLAG:
        return MAKE(once_flag_raise(&out));
    case ONCE_LATTICE_GSET:
        return MAKE(once_gset_add(choice == 2 ? b(node) : member, &out));
    case ONCE_LATTICE_VV:
        return choice == 0 ? MAKE(once_vv_increment(state, b(node), &out))
                           : MAKE(once_vv_set(b(node), 3, &out));
    case ONCE_LATTICE_LWW:
        return MAKE(once_lww_write(&write, &out));
    case ONCE_LATTICE_GCOUNTER:
        return MAKE(once_gcounter_add(state, b(node), choice + 1, &out));
    case ONCE_LATTICE_PNCOUNTER:
        return MAKE(once_pncounter_add(state, b(node), choice == 0 ? 1 : -2, &out));
    case ONCE_LATTICE_AWSET:
        return choice < 2 ? MAKE(once_awset_add(state, &causal, &out))
                          : MAKE(once_awset_remove(state, member, &out));
    case ONCE_LATTICE_MVREG:
        return MAKE(once_mvreg_write(state, &causal, &out));
    case ONCE_LATTICE_MAP:
        return mutate_map(state, node, choice, members);
    }
    fail_msg("no such type");
    return bottom(type);
}

/* A random mutation, with few nodes and members, so that they meet again. */
static inline struct once_bytes mutate_randomly(enum once_lattice_type type,
                                                struct once_bytes state, const char *node,
                                                uint64_t *seed)
{
    static const char *pool[] = {"", "x", "y", "xy", "a longer member, past any block of a copy"};
    const char *members[2] = {pool[help_below(seed, 5)], pool[help_below(seed, 5)]};
    unsigned choice = (unsigned)help_below(seed, mutation_count(type));

    return mutate(type, state, node, choice, members);
}

#endif
