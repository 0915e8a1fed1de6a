/* SPDX-License-Identifier: Apache-2.0
 *
 * VV, GCOUNTER and PNCOUNTER: sorted entries (entries.h) whose keys are nodes.
 *
 * Each node writes its own entry and only raises it, so the larger of two numbers is the newer, and
 * merging takes the larger, entry by entry. A version vector and a G-counter differ in what they
 * are read for; a PN-counter has two numbers a node, one for what it added and one for what it took
 * away, because a number that also fell would not say which of two is newer.
 */
#include "base/bytes.h"
#include "lattice/entries.h"
#include "lattice/ops.h"

__extension__ typedef __int128 wide; /* 2^24 entries of 64 bits need 88 */

static void count_check(struct once__reader *reader, unsigned depth)
{
    (void)depth;
    once__entries_check(reader, ONCE__WIDTH_COUNT);
}

static void count_merge(struct once__reader *a, struct once__reader *b, struct once__writer *out,
                        unsigned depth)
{
    (void)depth;
    once__entries_merge(a, b, out, ONCE__WIDTH_COUNT);
}

static enum once_order count_compare(struct once__reader *a, struct once__reader *b, unsigned depth)
{
    (void)depth;
    return once__entries_compare(a, b, ONCE__WIDTH_COUNT);
}

static void pair_check(struct once__reader *reader, unsigned depth)
{
    (void)depth;
    once__entries_check(reader, ONCE__WIDTH_PAIR);
}

static void pair_merge(struct once__reader *a, struct once__reader *b, struct once__writer *out,
                       unsigned depth)
{
    (void)depth;
    once__entries_merge(a, b, out, ONCE__WIDTH_PAIR);
}

static enum once_order pair_compare(struct once__reader *a, struct once__reader *b, unsigned depth)
{
    (void)depth;
    return once__entries_compare(a, b, ONCE__WIDTH_PAIR);
}

const struct once__lattice_ops once__vv_ops = {
    .name = "vv",
    .bottom_size = 4,
    .check = count_check,
    .merge = count_merge,
    .compare = count_compare,
};

const struct once__lattice_ops once__gcounter_ops = {
    .name = "gcounter",
    .bottom_size = 4,
    .check = count_check,
    .merge = count_merge,
    .compare = count_compare,
};

const struct once__lattice_ops once__pncounter_ops = {
    .name = "pncounter",
    .bottom_size = 4,
    .check = pair_check,
    .merge = pair_merge,
    .compare = pair_compare,
};

/* from is the state that the delta was made of; none is needed. */
static int put_delta(enum once_lattice_type type, const struct once__entry *entry,
                     struct once_bytes from, struct once_buf *out)
{
    struct once__writer writer;

    if (!out || !once__bytes_readable(entry->key))
        return ONCE_ERR_INVALID;
    once__writer_init(&writer, out);
    once__writer_apart(&writer, from);
    once__writer_apart(&writer, entry->key);
    once__put_single(&writer, type, once__width_of(type), entry);
    return once__writer_finish(&writer);
}

/* The node's numbers in state; zeros if it has none. */
static int find_node(struct once_bytes state, enum once_lattice_type type, struct once_bytes node,
                     struct once__entry *ret_entry)
{
    struct once__reader reader;
    struct once__entry entry;

    if (!once__bytes_readable(node))
        return ONCE_ERR_INVALID;
    once__open(&reader, state, type);
    (void)once__entries_find(&reader, once__width_of(type), node, &entry);
    if (!once__reader_ok(&reader))
        return reader.err;
    *ret_entry = entry;
    return ONCE_OK;
}

/* The delta that raises the node's numbers by those of `by`. It says what the numbers become and
 * not by how much they grow: that is what makes receiving it twice the same as once. */
static int raise_node(struct once_bytes state, enum once_lattice_type type,
                      const struct once__entry *by, struct once_buf *out)
{
    struct once__entry now, delta = {.key = by->key};
    int err = find_node(state, type, by->key, &now);

    if (err != ONCE_OK)
        return err;
    for (int i = 0; i < 2; i++) {
        if (by->numbers[i] > 0 &&
            __builtin_add_overflow(now.numbers[i], by->numbers[i], &delta.numbers[i]))
            return ONCE_ERR_OVERFLOW;
    }
    return put_delta(type, &delta, state, out);
}

/* The sum of all numbers, those taken away counting below zero. */
static int sum(struct once_bytes state, enum once_lattice_type type, wide *ret_sum)
{
    struct once__reader reader;
    uint32_t count;
    wide total = 0;

    once__open(&reader, state, type);
    count = once__read_count(&reader);
    for (uint32_t i = 0; i < count && once__reader_ok(&reader); i++) {
        struct once__entry entry = once__read_entry(&reader, once__width_of(type));

        total += (wide)entry.numbers[0] - (wide)entry.numbers[1];
    }
    if (!once__reader_ok(&reader))
        return reader.err;
    *ret_sum = total;
    return ONCE_OK;
}

int once_vv_increment(struct once_bytes state, struct once_bytes node, struct once_buf *out)
{
    struct once__entry by = {.key = node, .numbers = {1, 0}};

    return raise_node(state, ONCE_LATTICE_VV, &by, out);
}

int once_vv_set(struct once_bytes node, uint64_t number, struct once_buf *out)
{
    struct once__entry entry = {.key = node, .numbers = {number, 0}};

    return put_delta(ONCE_LATTICE_VV, &entry, (struct once_bytes){0}, out);
}

int once_vv_value(struct once_bytes state, struct once_bytes node, uint64_t *ret_number)
{
    struct once__entry entry;
    int err = ret_number ? find_node(state, ONCE_LATTICE_VV, node, &entry) : ONCE_ERR_INVALID;

    if (err != ONCE_OK)
        return err;
    *ret_number = entry.numbers[0];
    return ONCE_OK;
}

int once_gcounter_add(struct once_bytes state, struct once_bytes node, uint64_t amount,
                      struct once_buf *out)
{
    struct once__entry by = {.key = node, .numbers = {amount, 0}};

    return raise_node(state, ONCE_LATTICE_GCOUNTER, &by, out);
}

int once_pncounter_add(struct once_bytes state, struct once_bytes node, int64_t amount,
                       struct once_buf *out)
{
    struct once__entry by = {.key = node};

    if (amount >= 0)
        by.numbers[0] = (uint64_t)amount;
    else
        by.numbers[1] = 0 - (uint64_t)amount; /* right for INT64_MIN too */
    return raise_node(state, ONCE_LATTICE_PNCOUNTER, &by, out);
}

int once_gcounter_value(struct once_bytes state, uint64_t *ret_value)
{
    wide total;
    int err = ret_value ? sum(state, ONCE_LATTICE_GCOUNTER, &total) : ONCE_ERR_INVALID;

    if (err != ONCE_OK)
        return err;
    if (total > (wide)UINT64_MAX)
        return ONCE_ERR_OVERFLOW;
    *ret_value = (uint64_t)total;
    return ONCE_OK;
}

int once_pncounter_value(struct once_bytes state, int64_t *ret_value)
{
    wide total;
    int err = ret_value ? sum(state, ONCE_LATTICE_PNCOUNTER, &total) : ONCE_ERR_INVALID;

    if (err != ONCE_OK)
        return err;
    if (total > (wide)INT64_MAX || total < (wide)INT64_MIN)
        return ONCE_ERR_OVERFLOW;
    *ret_value = (int64_t)total;
    return ONCE_OK;
}
