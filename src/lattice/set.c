/* SPDX-License-Identifier: Apache-2.0
 *
 * GSET: a set that grows. Sorted entries (entries.h) whose keys are the members and that hold
 * nothing else; merging is union.
 */
#include "base/bytes.h"
#include "lattice/entries.h"
#include "lattice/ops.h"

#include <stdlib.h>

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

/* Puts a state of members in increasing order, each once however often it is there. */
static int put_sorted(const struct once_bytes *members, size_t member_count, struct once_buf *out)
{
    struct once__writer writer;
    size_t count_mark;
    uint64_t count = 0;

    once__writer_init(&writer, out);
    for (size_t i = 0; i < member_count; i++)
        once__writer_apart(&writer, members[i]);
    once__put_header(&writer, ONCE_LATTICE_GSET);
    count_mark = once__put_gap_u32(&writer);
    for (size_t i = 0; i < member_count; i++) {
        if (i > 0 && once__bytes_equal(members[i - 1], members[i]))
            continue;
        once__put_member(&writer, members[i]);
        count++;
    }
    once__patch_count(&writer, count_mark, count);
    return once__writer_finish(&writer);
}

static int compare_members(const void *a, const void *b)
{
    return once__bytes_compare(*(const struct once_bytes *)a, *(const struct once_bytes *)b);
}

int once_gset_add(struct once_bytes member, struct once_buf *out)
{
    if (!out || !once__bytes_readable(member))
        return ONCE_ERR_INVALID;
    return put_sorted(&member, 1, out);
}

int once_gset_add_all(const struct once_bytes *members, size_t member_count, struct once_buf *out)
{
    struct once_bytes *sorted;
    int err;

    if (!out || (!members && member_count > 0))
        return ONCE_ERR_INVALID;
    if (member_count > ONCE_LATTICE_ENTRIES_MAX)
        return ONCE_ERR_FULL;
    for (size_t i = 0; i < member_count; i++) {
        if (!once__bytes_readable(members[i]))
            return ONCE_ERR_INVALID;
    }
    if (member_count < 2)
        return put_sorted(members, member_count, out);
    sorted = malloc(member_count * sizeof *sorted);
    if (!sorted)
        return ONCE_ERR_MEMORY;
    memcpy(sorted, members, member_count * sizeof *sorted);
    qsort(sorted, member_count, sizeof *sorted, compare_members);
    err = put_sorted(sorted, member_count, out);
    free(sorted);
    return err;
}

int once_gset_contains(struct once_bytes state, struct once_bytes member, bool *ret_contains)
{
    struct once__reader reader;
    struct once__entry entry;
    bool contains;

    if (!ret_contains || !once__bytes_readable(member))
        return ONCE_ERR_INVALID;
    once__open(&reader, state, ONCE_LATTICE_GSET);
    contains = once__entries_find(&reader, ONCE__WIDTH_NONE, member, &entry);
    if (!once__reader_ok(&reader))
        return reader.err;
    *ret_contains = contains;
    return ONCE_OK;
}
