/* SPDX-License-Identifier: Apache-2.0
 *
 * The deltas of the ring (recent.c), by object: what feed.c makes messages of. Everything is
 * borrowed from the ring and the table, and valid as long as neither changes.
 */
#ifndef ONCE_OBJECT_GATHER_H
#define ONCE_OBJECT_GATHER_H

#include "object/object.h"

/* One delta. */
struct once__part {
    struct once_bytes delta;
    uint32_t group;
    uint32_t next; /* part of the same group */
};

/* One object and what came to it. */
struct once__group {
    const struct once__object *object;
    size_t deltas_size;
    uint32_t part_count; /* 0: nothing of it is kept */
    uint32_t first;
};

/* How much is wanted. */
struct once__gather_bounds {
    size_t size_max;   /* of all entries together */
    size_t entry_size; /* what an entry takes beside name and state */
};

struct once__gathering {
    /* What came of it, once__gathering_take. */
    struct once__group *groups; /* in the order of first appearance */
    size_t group_count;
    uint64_t version; /* all changes up to this one are in it, */
    bool all;         /* and there are none behind it */
    bool split;       /* the first change alone is too large, and has more than one object */

    /* Private. */
    const struct once__objects *objects;
    const struct once__object *only; /* NULL: every object */
    struct once__gather_bounds bounds;
    size_t group_capacity;
    struct once__part *parts;
    size_t part_count, part_capacity;
    size_t kept_count; /* parts of whole changes that are in */
    uint32_t
        *slots; /* hash table of groups, by address of the object; 0 is empty, else group + 1 */
    size_t slot_count;
    uint64_t part_version; /* of the last part */
    size_t size;           /* of the entries, at most, with all parts so far */
    struct once_bytes *row;
    struct once_buf scratch[2];
};

void once__gathering_init(struct once__gathering *gathering);
void once__gathering_release(struct once__gathering *gathering);

/* Takes whole changes above since, oldest first, as long as they fit; the first one always. since
 * must not be below once__recent_since. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__gathering_take(struct once__gathering *gathering,
                                         const struct once__objects *objects,
                                         const struct once__recent *recent, uint64_t since,
                                         struct once__gather_bounds bounds);
/* The same for one object, without bounds. */
ONCE_MUST_CHECK int once__gathering_take_one(struct once__gathering *gathering,
                                             const struct once__object *object,
                                             const struct once__recent *recent, uint64_t since);

/* What came to the object of a group that has parts, as one state: its deltas merged, or the whole
 * state where that is not larger. Borrowed until the next call. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__gathering_merge(struct once__gathering *gathering,
                                          const struct once__group *group,
                                          struct once_bytes *ret_state);

#endif
