/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorted entries of fixed width: what GSET, VV, GCOUNTER and PNCOUNTER are made of.
 *
 *     u32 count, then count times: u32 key size, key bytes, width bytes of numbers
 *
 * Keys strictly increase. Width 0 has no numbers (GSET), 8 has one u64 (VV, GCOUNTER), 16 has two
 * (PNCOUNTER); an entry whose numbers are all 0 means the same as none, and is never written.
 */
#ifndef ONCE_LATTICE_ENTRIES_H
#define ONCE_LATTICE_ENTRIES_H

#include "lattice/codec.h"

enum once__width { ONCE__WIDTH_NONE = 0, ONCE__WIDTH_COUNT = 8, ONCE__WIDTH_PAIR = 16 };

/* Of the four types that are made of such entries. */
static inline enum once__width once__width_of(enum once_lattice_type type)
{
    if (type == ONCE_LATTICE_GSET)
        return ONCE__WIDTH_NONE;
    return type == ONCE_LATTICE_PNCOUNTER ? ONCE__WIDTH_PAIR : ONCE__WIDTH_COUNT;
}

struct once__entry {
    struct once_bytes key;
    uint64_t numbers[2]; /* 0 past the width */
};

/* The next entry; keys of width 0 are members, others are nodes. */
struct once__entry once__read_entry(struct once__reader *reader, enum once__width width);

/* One entry of a node with its numbers, or none if all are 0. With header. */
void once__put_single(struct once__writer *writer, enum once_lattice_type type,
                      enum once__width width, const struct once__entry *entry);

/* Finds the key by walking; false, and no numbers, if it is not there. */
bool once__entries_find(struct once__reader *reader, enum once__width width, struct once_bytes key,
                        struct once__entry *ret_entry);

void once__entries_check(struct once__reader *reader, enum once__width width);
void once__entries_merge(struct once__reader *a, struct once__reader *b, struct once__writer *out,
                         enum once__width width);
enum once_order once__entries_compare(struct once__reader *a, struct once__reader *b,
                                      enum once__width width);

#endif
