/* SPDX-License-Identifier: Apache-2.0
 *
 * States of the mergeable types by number.
 *
 * A number is read as a list of mutations, its digits in bijective base K for a type with K
 * mutations (0 is the empty list, 1 to K are the lists of one, and so on), and the list is played
 * on the bottom: each mutator makes a delta from the state so far, and the delta is merged in. So
 * every state here was reached the way users reach it. Numbers and registers need no history: their
 * number is their value.
 *
 * Two lists may use the same node for different things, as two writers that wrongly share a name
 * would. The laws must hold even then.
 */
#include "laws/lattice_states.h"

#include "base/assert.h"
#include "laws/model.h"

/* One mutation of a state: appends the delta to out. */
typedef int mutation_fn(unsigned which, struct once_bytes state, struct once_buf *out);

static struct once_bytes letter(unsigned i)
{
    static const uint8_t letters[] = "abcdefgh";

    ONCE_ASSERT(i < sizeof(letters) - 1);
    return (struct once_bytes){&letters[i], 1};
}

static struct once_bytes node(unsigned i)
{
    static const uint8_t nodes[] = "ABC";

    ONCE_ASSERT(i < sizeof(nodes) - 1);
    return (struct once_bytes){&nodes[i], 1};
}

enum {
    GSET_MUTATIONS = 4,
    VV_MUTATIONS = 5,
    GCOUNTER_MUTATIONS = 4,
    PNCOUNTER_MUTATIONS = 4,
    AWSET_MUTATIONS = 6,
    MVREG_MUTATIONS = 4,
    MAP_MUTATIONS = 6
};

static int mutate_gset(unsigned which, struct once_bytes state, struct once_buf *out)
{
    (void)state;
    return once_gset_add(letter(which), out);
}

static int mutate_vv(unsigned which, struct once_bytes state, struct once_buf *out)
{
    if (which < 3)
        return once_vv_increment(state, node(which), out);
    return once_vv_set(node(which - 3), 3, out);
}

static int mutate_gcounter(unsigned which, struct once_bytes state, struct once_buf *out)
{
    return once_gcounter_add(state, node(which % 2), which < 2 ? 1 : 5, out);
}

static int mutate_pncounter(unsigned which, struct once_bytes state, struct once_buf *out)
{
    return once_pncounter_add(state, node(which % 2), which < 2 ? 1 : -1, out);
}

static int mutate_awset(unsigned which, struct once_bytes state, struct once_buf *out)
{
    struct once_write write = {.node = node(which % 2), .value = letter(which / 2)};

    if (which < 4)
        return once_awset_add(state, &write, out);
    return once_awset_remove(state, letter(which - 4), out);
}

static int mutate_mvreg(unsigned which, struct once_bytes state, struct once_buf *out)
{
    struct once_write write = {.node = node(which % 2), .value = letter(which / 2)};

    return once_mvreg_write(state, &write, out);
}

/* A map of everything: a counter and a set under one key (types that meet), an add-wins set, a
 * map. */
static int mutate_map(unsigned which, struct once_bytes state, struct once_buf *out)
{
    static const unsigned keys[MAP_MUTATIONS] = {0, 0, 1, 1, 2, 2};
    struct once_write write = {.node = node(0), .value = letter(0)};
    struct once_buf bottom, inner, outer;
    struct once_bytes present = {0};
    bool there;
    int err;

    once_buf_init(&bottom, ONCE__MODEL_LATTICE_SIZE);
    once_buf_init(&inner, ONCE__MODEL_LATTICE_SIZE);
    once_buf_init(&outer, ONCE__MODEL_LATTICE_SIZE);
    err = once_lattice_bottom(ONCE_LATTICE_AWSET, &bottom);
    if (err == ONCE_OK)
        err = once_map_get(state, letter(1), &there, &present);
    if (err != ONCE_OK)
        goto out;
    if (!there)
        present = once_buf_bytes(&bottom);
    switch (which) {
    case 0:
        err = once_gset_add(letter(0), &inner);
        break;
    case 1:
        err = once_max_set(1, &inner);
        break;
    case 2:
        err = once_awset_add(present, &write, &inner);
        break;
    case 3:
        err = once_awset_remove(present, letter(0), &inner);
        break;
    default:
        err = once_max_set((int64_t)which, &outer);
        if (err == ONCE_OK)
            err = once_map_put(letter(which), once_buf_bytes(&outer), &inner);
        break;
    }
    if (err == ONCE_OK)
        err = once_map_put(letter(keys[which]), once_buf_bytes(&inner), out);
out:
    once_buf_release(&bottom);
    once_buf_release(&inner);
    once_buf_release(&outer);
    return err;
}

/* Takes the state at *state one mutation further; next is scratch. */
static int step(mutation_fn *mutate, unsigned which, struct once_buf *state, struct once_buf *next)
{
    struct once_buf delta;
    int err;

    once_buf_init(&delta, ONCE__MODEL_LATTICE_SIZE);
    once_buf_clear(next);
    err = mutate(which, once_buf_bytes(state), &delta);
    if (err == ONCE_OK)
        err = once_lattice_merge(once_buf_bytes(state), once_buf_bytes(&delta), next);
    if (err == ONCE_OK) {
        struct once_buf swap = *state;

        *state = *next;
        *next = swap;
    }
    once_buf_release(&delta);
    return err;
}

static int play(enum once_lattice_type type, mutation_fn *mutate, unsigned mutation_count,
                uint64_t index, struct once_buf *out)
{
    struct once_buf state, next;
    int err;

    once_buf_init(&state, ONCE__MODEL_LATTICE_SIZE);
    once_buf_init(&next, ONCE__MODEL_LATTICE_SIZE);
    err = once_lattice_bottom(type, &state);
    for (; err == ONCE_OK && index > 0; index = (index - 1) / mutation_count)
        err = step(mutate, (unsigned)((index - 1) % mutation_count), &state, &next);
    if (err == ONCE_OK)
        err = once_buf_append(out, state.data, state.size);
    once_buf_release(&state);
    once_buf_release(&next);
    return err;
}

/* Value before node before time: states that differ in one thing only come first. */
static int lww_state(uint64_t index, struct once_buf *out)
{
    struct once_lww write = {.time = once__signed_at(index / 4),
                             .node = node((unsigned)(index / 2 % 2)),
                             .value = letter((unsigned)(index % 2))};

    return once_lww_write(&write, out);
}

uint64_t once__lattice_state_count(enum once_lattice_type type)
{
    return type == ONCE_LATTICE_FLAG ? 2 : 4096;
}

int once__lattice_state(enum once_lattice_type type, uint64_t index, struct once_buf *out)
{
    ONCE_ASSERT(index < once__lattice_state_count(type));
    if (index == 0)
        return once_lattice_bottom(type, out);
    switch (type) {
    case ONCE_LATTICE_MAX:
        return once_max_set(once__signed_at(index - 1), out);
    case ONCE_LATTICE_MIN:
        return once_min_set(once__signed_at(index - 1), out);
    case ONCE_LATTICE_FLAG:
        return once_flag_raise(out);
    case ONCE_LATTICE_LWW:
        return lww_state(index - 1, out);
    case ONCE_LATTICE_GSET:
        return play(type, mutate_gset, GSET_MUTATIONS, index, out);
    case ONCE_LATTICE_VV:
        return play(type, mutate_vv, VV_MUTATIONS, index, out);
    case ONCE_LATTICE_GCOUNTER:
        return play(type, mutate_gcounter, GCOUNTER_MUTATIONS, index, out);
    case ONCE_LATTICE_PNCOUNTER:
        return play(type, mutate_pncounter, PNCOUNTER_MUTATIONS, index, out);
    case ONCE_LATTICE_AWSET:
        return play(type, mutate_awset, AWSET_MUTATIONS, index, out);
    case ONCE_LATTICE_MVREG:
        return play(type, mutate_mvreg, MVREG_MUTATIONS, index, out);
    case ONCE_LATTICE_MAP:
        return play(type, mutate_map, MAP_MUTATIONS, index, out);
    }
    return ONCE_ERR_INVALID;
}
