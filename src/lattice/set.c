/* SPDX-License-Identifier: Apache-2.0
 *
 * GSET: a set that grows. Sorted entries (entries.h) whose keys are the members and that hold
 * nothing else; merging is union.
 */
#include "lattice/entries.h"
#include "lattice/ops.h"

static void gset_check(struct once__reader *reader, unsigned depth)
{
    (void)depth;
    once__entries_check(reader, ONCE__WIDTH_NONE);
}

static void gset_merge(struct once__reader *a, struct once__reader *b, struct once__writer *out,
                       unsigned depth)
{
    (void)depth;
    once__entries_merge(a, b, out, ONCE__WIDTH_NONE);
}

static enum once_order gset_compare(struct once__reader *a, struct once__reader *b, unsigned depth)
{
    (void)depth;
    return once__entries_compare(a, b, ONCE__WIDTH_NONE);
}

const struct once__lattice_ops once__gset_ops = {
    .name = "gset",
    .bottom_size = 4,
    .check = gset_check,
    .merge = gset_merge,
    .compare = gset_compare,
};

int once_gset_add(struct once_bytes member, struct once_buf *out)
{
    struct once__entry entry = {.key = member};
    struct once__writer writer;

    once__writer_init(&writer, out);
    once__writer_apart(&writer, member);
    once__put_single(&writer, ONCE_LATTICE_GSET, ONCE__WIDTH_NONE, &entry);
    return once__writer_finish(&writer);
}

int once_gset_contains(struct once_bytes state, struct once_bytes member, bool *ret_contains)
{
    struct once__reader reader;
    struct once__entry entry;
    bool contains;

    once__open(&reader, state, ONCE_LATTICE_GSET);
    contains = once__entries_find(&reader, ONCE__WIDTH_NONE, member, &entry);
    if (!once__reader_ok(&reader))
        return reader.err;
    *ret_contains = contains;
    return ONCE_OK;
}
