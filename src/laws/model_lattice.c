/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of the effects on mergeable objects: UNION, CLOCK, LWW, GADD, PNADD, INSERT, REMOVE. Each
 * makes a delta with the shipping mutator and merges it into the object.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "laws/lattice_states.h"
#include "laws/model.h"

enum { MEMBERS = 3, NODES = 2, NUMBERS = 4 };

static const uint8_t members[MEMBERS] = {'a', 'b', 'c'};
static const uint8_t nodes[NODES] = {'A', 'B'};

static const char grouping_deltas[] = "the two deltas are merged first";

static struct once_bytes value_bytes(const union once__value *value)
{
    return (struct once_bytes){value->lattice.bytes, value->lattice.size};
}

static void value_from(union once__value *ret_value, const struct once_buf *buf)
{
    ONCE_ASSERT(buf->size <= sizeof(ret_value->lattice.bytes));
    ret_value->lattice.size = buf->size;
    memcpy(ret_value->lattice.bytes, buf->data, buf->size);
}

static int state_of(enum once_lattice_type type, uint64_t index, union once__value *ret_value)
{
    struct once_buf buf;
    int err;

    once_buf_init(&buf, ONCE__MODEL_LATTICE_SIZE);
    err = once__lattice_state(type, index, &buf);
    if (err == ONCE_OK)
        value_from(ret_value, &buf);
    once_buf_release(&buf);
    return err;
}

/* A UNION of several members is one delta: their sets merged. Bit i of the argument is member i. */
static int union_delta(int64_t chosen, struct once_buf *out)
{
    struct once_buf member, sum;
    int err;

    once_buf_init(&member, ONCE__MODEL_LATTICE_SIZE);
    once_buf_init(&sum, ONCE__MODEL_LATTICE_SIZE);
    err = once_lattice_bottom(ONCE_LATTICE_GSET, out);
    for (size_t i = 0; err == ONCE_OK && i < MEMBERS; i++) {
        if (((chosen >> i) & 1) == 0)
            continue;
        once_buf_clear(&member);
        once_buf_clear(&sum);
        err = once_gset_add((struct once_bytes){&members[i], 1}, &member);
        if (err == ONCE_OK)
            err = once_lattice_merge(once_buf_bytes(out), once_buf_bytes(&member), &sum);
        once_buf_clear(out);
        if (err == ONCE_OK)
            err = once_buf_append(out, sum.data, sum.size);
    }
    once_buf_release(&member);
    once_buf_release(&sum);
    return err;
}

/* The delta of an operation on this value. */
static int delta_of(const union once__value *value, const struct once__operation *operation,
                    struct once_buf *out)
{
    struct once_bytes node = {&nodes[operation->arg[0] % NODES], 1};
    struct once_lww write = {.time = operation->arg[1],
                             .node = node,
                             .value = {&members[operation->arg[2] % MEMBERS], 1}};

    if (operation->id == ONCE__UNION)
        return union_delta(operation->arg[0], out);
    if (operation->id == ONCE__CLOCK)
        return once_vv_set(node, (uint64_t)operation->arg[1], out);
    if (operation->id == ONCE__LWW)
        return once_lww_write(&write, out);
    if (operation->id == ONCE__PNADD)
        return once_pncounter_add(value_bytes(value), node, operation->arg[1], out);
    ONCE_ASSERT(operation->id == ONCE__GADD);
    return once_gcounter_add(value_bytes(value), node, (uint64_t)operation->arg[1], out);
}

static int merge_into(union once__value *value, struct once_bytes delta)
{
    struct once_buf merged;
    int err;

    once_buf_init(&merged, ONCE__MODEL_LATTICE_SIZE);
    err = once_lattice_merge(value_bytes(value), delta, &merged);
    if (err == ONCE_OK) {
        bool changed = merged.size != value->lattice.size ||
                       memcmp(merged.data, value->lattice.bytes, merged.size) != 0;

        value_from(value, &merged);
        err = (int)(changed ? ONCE__EFFECT_CHANGED : ONCE__EFFECT_UNCHANGED);
    }
    once_buf_release(&merged);
    return err;
}

static int lattice_apply(union once__value *value, const struct once__operation *operation)
{
    struct once_buf delta;
    int word;

    once_buf_init(&delta, ONCE__MODEL_LATTICE_SIZE);
    word = delta_of(value, operation, &delta);
    if (word == ONCE_OK)
        word = merge_into(value, once_buf_bytes(&delta));
    once_buf_release(&delta);
    return word;
}

static int lattice_folded(union once__value *value, const struct once__operation *first,
                          const struct once__operation *second)
{
    struct once_buf a, b, both;
    int word;

    once_buf_init(&a, ONCE__MODEL_LATTICE_SIZE);
    once_buf_init(&b, ONCE__MODEL_LATTICE_SIZE);
    once_buf_init(&both, ONCE__MODEL_LATTICE_SIZE);
    word = delta_of(value, first, &a);
    if (word == ONCE_OK)
        word = delta_of(value, second, &b);
    if (word == ONCE_OK)
        word = once_lattice_merge(once_buf_bytes(&a), once_buf_bytes(&b), &both);
    if (word == ONCE_OK)
        word = merge_into(value, once_buf_bytes(&both));
    once_buf_release(&a);
    once_buf_release(&b);
    once_buf_release(&both);
    return word;
}

static bool lattice_equal(const union once__value *a, const union once__value *b)
{
    return a->lattice.size == b->lattice.size &&
           memcmp(a->lattice.bytes, b->lattice.bytes, a->lattice.size) == 0;
}

static void lattice_describe(struct once__text *text, const union once__value *value)
{
    struct once_buf line;

    once_buf_init(&line, ONCE__MODEL_LATTICE_SIZE);
    if (once_lattice_describe(value_bytes(value), &line) == ONCE_OK)
        once__text_add_bytes(text, once_buf_bytes(&line));
    else
        once__text_add(text, "(not described)");
    once_buf_release(&line);
}

/* --- UNION member… --- */

static int union_state(uint64_t index, union once__value *ret_value)
{
    return state_of(ONCE_LATTICE_GSET, index, ret_value);
}

static void union_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__UNION, .arg = {(int64_t)index + 1}};
}

static void union_describe_operation(struct once__text *text,
                                     const struct once__operation *operation)
{
    once__text_add(text, "UNION");
    for (size_t i = 0; i < MEMBERS; i++) {
        if ((operation->arg[0] >> i) & 1)
            once__text_add(text, " %c", members[i]);
    }
}

const struct once__model once__model_union = {
    .states = {8, 256},
    .operations = {(1 << MEMBERS) - 1, (1 << MEMBERS) - 1},
    .grouping = grouping_deltas,
    .state = union_state,
    .operation = union_operation,
    .apply = lattice_apply,
    .apply_folded = lattice_folded,
    .equal = lattice_equal,
    .describe = lattice_describe,
    .describe_operation = union_describe_operation,
};

/* --- CLOCK node n, GADD node n --- */

static int clock_state(uint64_t index, union once__value *ret_value)
{
    return state_of(ONCE_LATTICE_VV, index, ret_value);
}

static int gadd_state(uint64_t index, union once__value *ret_value)
{
    return state_of(ONCE_LATTICE_GCOUNTER, index, ret_value);
}

static void clock_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){
        .id = ONCE__CLOCK, .arg = {(int64_t)(index % NODES), (int64_t)(index / NODES) + 1}};
}

static void gadd_operation(uint64_t index, struct once__operation *ret_operation)
{
    clock_operation(index, ret_operation);
    ret_operation->id = ONCE__GADD;
}

static void node_describe_operation(struct once__text *text,
                                    const struct once__operation *operation)
{
    once__text_add(text, "%s %c %" PRId64, once__effects[operation->id].name,
                   nodes[operation->arg[0]], operation->arg[1]);
}

const struct once__model once__model_clock = {
    .states = {8, 256},
    .operations = {NODES * NUMBERS, 256},
    .grouping = grouping_deltas,
    .state = clock_state,
    .operation = clock_operation,
    .apply = lattice_apply,
    .apply_folded = lattice_folded,
    .equal = lattice_equal,
    .describe = lattice_describe,
    .describe_operation = node_describe_operation,
};

const struct once__model once__model_gadd = {
    .states = {8, 256},
    .operations = {NODES * NUMBERS, 256},
    .grouping = once__grouping_batch,
    .state = gadd_state,
    .operation = gadd_operation,
    .apply = lattice_apply,
    .equal = lattice_equal,
    .describe = lattice_describe,
    .describe_operation = node_describe_operation,
};

/* --- PNADD node n --- */

static int pnadd_state(uint64_t index, union once__value *ret_value)
{
    return state_of(ONCE_LATTICE_PNCOUNTER, index, ret_value);
}

static void pnadd_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){
        .id = ONCE__PNADD, .arg = {(int64_t)(index % NODES), once__signed_at(index / NODES + 1)}};
}

const struct once__model once__model_pnadd = {
    .states = {8, 256},
    .operations = {NODES * NUMBERS, 256},
    .grouping = once__grouping_batch,
    .state = pnadd_state,
    .operation = pnadd_operation,
    .apply = lattice_apply,
    .equal = lattice_equal,
    .describe = lattice_describe,
    .describe_operation = node_describe_operation,
};

/* --- LWW time node value --- */

static int lww_state(uint64_t index, union once__value *ret_value)
{
    return state_of(ONCE_LATTICE_LWW, index, ret_value);
}

static void lww_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__LWW,
                                              .arg = {(int64_t)(index / 2 % NODES),
                                                      once__signed_at(index / 2 / NODES),
                                                      (int64_t)(index % 2)}};
}

static void lww_describe_operation(struct once__text *text, const struct once__operation *operation)
{
    once__text_add(text, "LWW %" PRId64 " %c %c", operation->arg[1], nodes[operation->arg[0]],
                   members[operation->arg[2]]);
}

const struct once__model once__model_lww = {
    .states = {8, 256},
    .operations = {8, 256},
    .grouping = grouping_deltas,
    .state = lww_state,
    .operation = lww_operation,
    .apply = lattice_apply,
    .apply_folded = lattice_folded,
    .equal = lattice_equal,
    .describe = lattice_describe,
    .describe_operation = lww_describe_operation,
};

/* --- INSERT node member…, REMOVE member… --- */

/* Bit i of the argument is member i. */
enum { ARG_NODE = 0, ARG_MEMBERS = 1, CHOICES = (1 << MEMBERS) - 1, AWSET_OTHERS = 2 * CHOICES };

static int awset_state(uint64_t index, union once__value *ret_value)
{
    return state_of(ONCE_LATTICE_AWSET, index, ret_value);
}

static void insert_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){
        .id = ONCE__INSERT, .arg = {(int64_t)(index % NODES), (int64_t)(index / NODES) + 1}};
}

static void remove_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__REMOVE, .arg = {0, (int64_t)index + 1}};
}

/* What may happen to a set: both, by turns. */
static void awset_other(uint64_t index, struct once__operation *ret_operation)
{
    if (index % 2 == 0)
        insert_operation(index / 2, ret_operation);
    else
        remove_operation(index / 2, ret_operation);
}

/* Member by member: each delta is made of the state that has the one before. */
static int awset_apply(union once__value *value, const struct once__operation *operation)
{
    struct once_write write = {.node = {&nodes[operation->arg[ARG_NODE]], 1}};
    int all = (int)ONCE__EFFECT_UNCHANGED;
    struct once_buf delta;
    int word = ONCE_OK;

    once_buf_init(&delta, ONCE__MODEL_LATTICE_SIZE);
    for (size_t i = 0; word >= 0 && i < MEMBERS; i++) {
        if (((operation->arg[ARG_MEMBERS] >> i) & 1) == 0)
            continue;
        write.value = (struct once_bytes){&members[i], 1};
        once_buf_clear(&delta);
        word = operation->id == ONCE__INSERT
                   ? once_awset_add(value_bytes(value), &write, &delta)
                   : once_awset_remove(value_bytes(value), write.value, &delta);
        if (word == ONCE_OK)
            word = merge_into(value, once_buf_bytes(&delta));
        if (word == (int)ONCE__EFFECT_CHANGED)
            all = word;
    }
    once_buf_release(&delta);
    return word < 0 ? word : all;
}

static void awset_describe_operation(struct once__text *text,
                                     const struct once__operation *operation)
{
    once__text_add(text, "%s", once__effects[operation->id].name);
    if (operation->id == ONCE__INSERT)
        once__text_add(text, " %c", nodes[operation->arg[ARG_NODE]]);
    for (size_t i = 0; i < MEMBERS; i++) {
        if ((operation->arg[ARG_MEMBERS] >> i) & 1)
            once__text_add(text, " %c", members[i]);
    }
}

const struct once__model once__model_insert = {
    .states = {8, 256},
    .operations = {NODES * CHOICES, NODES *CHOICES},
    .others = {AWSET_OTHERS, AWSET_OTHERS},
    .grouping = once__grouping_batch,
    .state = awset_state,
    .operation = insert_operation,
    .other = awset_other,
    .apply = awset_apply,
    .equal = lattice_equal,
    .describe = lattice_describe,
    .describe_operation = awset_describe_operation,
};

const struct once__model once__model_remove = {
    .states = {8, 256},
    .operations = {CHOICES, CHOICES},
    .others = {AWSET_OTHERS, AWSET_OTHERS},
    .grouping = once__grouping_batch,
    .state = awset_state,
    .operation = remove_operation,
    .other = awset_other,
    .apply = awset_apply,
    .equal = lattice_equal,
    .describe = lattice_describe,
    .describe_operation = awset_describe_operation,
};
