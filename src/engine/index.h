/* SPDX-License-Identifier: Apache-2.0
 *
 * The index: from a key's hash to the place of its newest record in the log. In memory, at most 24
 * bytes a key all told, no key is in it: a hit is confirmed against the log by who asks.
 *
 * A hash is 64 bits. Its top 12 bits choose one of 4,096 shards, the 32 below are kept in the entry
 * as its tag, and the entry's home within the shard follows from the tag alone, so a shard can be
 * resized without reading the log. Shards grow one at a time, by a half: no pause is longer than
 * moving one shard, and old and new memory never stand side by side for more than one shard.
 *
 * A shard is an array of 64-byte buckets (a cache line) of 6 entries. An entry that does not fit
 * into its home bucket goes to the next one that has room, and every bucket that it passed counts
 * it, so a lookup stops at the first bucket that nothing passed, and removing leaves no tombstone.
 *
 * Several entries may have the same tag: different keys. An entry is identified by hash and place.
 *
 * Not thread-safe: the engine's lock guards it.
 */
#ifndef ONCE_ENGINE_INDEX_H
#define ONCE_ENGINE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <once/err.h>

enum {
    ONCE__SHARD_BITS = 12,
    ONCE__SHARD_COUNT = 1 << ONCE__SHARD_BITS,
    ONCE__TAG_BITS = 32,
    ONCE__PLACE_BITS = 47 /* what an entry can hold; see format.h for what a place is */
};

/* A place in the log, less than 2^47, and whether the record there is open (STARTED or DOUBT). */
struct once__index_value {
    uint64_t place;
    bool open;
};

struct once__index; /* opaque */

/* keys_max bounds the entries: beyond it insert refuses with ONCE_ERR_KEYS. At most ONCE_KEYS_MAX.
 * ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__index_new(uint64_t keys_max, struct once__index **ret_index);
void once__index_free(struct once__index *index); /* accepts NULL */

/* Makes room for count keys in all, evenly spread, ahead of many inserts: for a restart. Not
 * needed for correctness. Shards do not shrink below it until there are so many keys, or until the
 * next call: 0 when the inserts are over. ONCE_ERR_MEMORY: the room made so far serves, and may
 * shrink. */
ONCE_MUST_CHECK int once__index_expect(struct once__index *index, uint64_t count);

/* Walks the entries whose tag fits hash: set iter to {0} and call until it returns false. The
 * index must not change in between. */
struct once__index_iter {
    uint32_t bucket;
    uint32_t slot;
    bool begun;
};
bool once__index_next(const struct once__index *index, uint64_t hash, struct once__index_iter *iter,
                      struct once__index_value *ret_value);

/* Brings the lines that a lookup of hash will touch into the cache. */
void once__index_prefetch(const struct once__index *index, uint64_t hash);
/* The first half of that, to be called earlier: which shard. */
void once__index_prefetch_shard(const struct once__index *index, uint64_t hash);

/* Adds an entry; the caller knows that (hash, place) is not there. ONCE_ERR_KEYS, ONCE_ERR_MEMORY:
 * nothing has changed. */
ONCE_MUST_CHECK int once__index_insert(struct once__index *index, uint64_t hash,
                                       struct once__index_value value);

/* Gives the entry (hash, place) a new value. False if there is none. */
bool once__index_replace(struct once__index *index, uint64_t hash, uint64_t place,
                         struct once__index_value value);

/* Removes the entry (hash, place). False if there is none. May shrink the shard. */
bool once__index_remove(struct once__index *index, uint64_t hash, uint64_t place);

/* Is there an entry (hash, place)? */
bool once__index_has(const struct once__index *index, uint64_t hash, uint64_t place);

/* One page of a walk over all entries, or the open ones, in the order of (shard, tag). cursor is 0
 * at first, then what the page before gave; *ret_cursor is 0 at the end. Entries with the same
 * (shard, tag) are given together, so a page may exceed count by those, and an entry that is there
 * all the time (and open all the time, where that is asked) is given exactly once, however the
 * index changes between pages. each must not change it. hash_top is the 44 bits of the hash that
 * are kept, in the top of 64. At most shards_max shards are read, not counting those that have
 * nothing to give, so that a page takes bounded time: a page may be empty before the end. count and
 * shards_max are 1 or more. ONCE_ERR_INVALID: no page gave this cursor. Allocates nothing. */
struct once__index_page {
    uint64_t cursor;
    size_t count;
    bool open_only;
    uint32_t shards_max;
};
ONCE_MUST_CHECK int
once__index_walk(const struct once__index *index, const struct once__index_page *page,
                 void (*each)(void *user, uint64_t hash_top, struct once__index_value value),
                 void *user, uint64_t *ret_cursor);

uint64_t once__index_count(const struct once__index *index);
uint64_t once__index_open_count(const struct once__index *index);
uint64_t once__index_memory(const struct once__index *index); /* bytes, all told */

#endif
