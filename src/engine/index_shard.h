/* SPDX-License-Identifier: Apache-2.0
 *
 * One shard of the index, and where shards get their memory. Only index*.c and the tests of the
 * index look in here.
 *
 * A bucket, 64 bytes:
 *
 *   0   24  tag[6]         32 bits of the hash
 *   24  24  place_low[6]   bits 0 to 31 of the place
 *   48  12  place_high[6]  bits 32 to 46 of the place, and in bit 15 whether it is open
 *   60   1  used           bit i: slot i holds an entry
 *   61   1  passed         entries that found no room here and lie further on
 *   62   2  zero
 *
 * The home of a tag is tag * bucket_count / 2^32, which works for any number of buckets and keeps
 * the order of the tags: who goes through the homes goes through the tags in order.
 *
 * What holds between calls:
 *   - an entry lies in its home or, going on from there and around the end, behind buckets each of
 *     which counts it in passed. A passed of 255 has lost count and stays until the shard is
 *     rebuilt: lookups read further than they must, and find the same.
 *   - count and open_count are those of the entries; at most 88 % of the slots are used.
 *
 * Memory. Arrays of 4,096 shards that grow all the time would leave a heap full of holes, so large
 * ones are whole pages straight from the system, and go back to it. A small one, of 8 buckets,
 * lies in the nursery, one area with a place for each shard, given back when the last has outgrown
 * it.
 */
#ifndef ONCE_ENGINE_INDEX_SHARD_H
#define ONCE_ENGINE_INDEX_SHARD_H

#include "engine/index.h"

enum { ONCE__BUCKET_SIZE = 64, ONCE__BUCKET_SLOTS = 6, ONCE__NURSERY_BUCKETS = 8 };

struct once__bucket {
    uint32_t tag[ONCE__BUCKET_SLOTS];
    uint32_t place_low[ONCE__BUCKET_SLOTS];
    uint16_t place_high[ONCE__BUCKET_SLOTS];
    uint8_t used;
    uint8_t passed;
    uint8_t zero[2];
};
_Static_assert(sizeof(struct once__bucket) == ONCE__BUCKET_SIZE, "a bucket is a cache line");

struct once__shard {
    struct once__bucket *buckets; /* NULL while bucket_count is 0 */
    uint32_t bucket_count;        /* 0, ONCE__NURSERY_BUCKETS, or whole pages */
    uint32_t count;
    uint32_t open_count;
};

struct once__index {
    struct once__shard shards[ONCE__SHARD_COUNT];
    struct once__bucket *nursery; /* NULL while nursery_users is 0 */
    uint32_t nursery_users;       /* shards that lie in it */
    uint32_t page_buckets;        /* buckets in a page of the system */
    uint32_t buckets_min;         /* shards do not shrink below: once__index_expect */
    uint64_t expected;            /* until there are so many keys */
    uint64_t keys_max;
    uint64_t count;
    uint64_t open_count;
    uint64_t memory_size;
};

/* Where an entry lies in its shard. */
struct once__slot {
    uint32_t bucket;
    uint32_t slot;
};

static inline uint32_t once__shard_home(const struct once__shard *shard, uint32_t tag)
{
    return (uint32_t)((uint64_t)tag * shard->bucket_count >> 32);
}

static inline uint32_t once__shard_after(const struct once__shard *shard, uint32_t bucket)
{
    return bucket + 1 == shard->bucket_count ? 0 : bucket + 1;
}

/* Bit i: slot i holds an entry with this tag. */
static inline uint32_t once__bucket_match(const struct once__bucket *bucket, uint32_t tag)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < ONCE__BUCKET_SLOTS; i++)
        found |= (uint32_t)(bucket->tag[i] == tag) << i;
    return found & bucket->used;
}

static inline struct once__index_value once__bucket_value(const struct once__bucket *bucket,
                                                          uint32_t slot)
{
    return (struct once__index_value){
        .place = (uint64_t)(bucket->place_high[slot] & 0x7fffU) << 32 | bucket->place_low[slot],
        .open = bucket->place_high[slot] >> 15 != 0,
    };
}

/* False if (tag, place) is not there. */
bool once__shard_find(const struct once__shard *shard, uint32_t tag, uint64_t place,
                      struct once__slot *ret_at);
/* Adds an entry; there is room. */
void once__shard_put(struct once__shard *shard, uint32_t tag, struct once__index_value value);
/* Gives the entry that is there another value. */
void once__shard_set(struct once__shard *shard, struct once__slot at,
                     struct once__index_value value);
/* Takes the entry that is there out. */
void once__shard_take(struct once__shard *shard, struct once__slot at);

/* The size that one more entry asks for: the present one, or the next larger. */
uint32_t once__shard_size_up(const struct once__index *index, const struct once__shard *shard);
/* The size that the entries ask for after one was taken: the present one, or the next smaller. */
uint32_t once__shard_size_down(const struct once__index *index, const struct once__shard *shard);
/* The smallest size that so many entries do not outgrow. */
uint32_t once__shard_size_for(const struct once__index *index, uint64_t count);

/* Moves the shard into an array of another of those sizes. ONCE_ERR_MEMORY: nothing has changed. */
ONCE_MUST_CHECK int once__shard_resize(struct once__index *index, struct once__shard *shard,
                                       uint32_t bucket_count);
/* Gives the shard's memory back, and its entries up. */
void once__shard_release(struct once__index *index, struct once__shard *shard);

/* For tests that make memory scarce: asked before each allocation if it is set; true denies it. */
extern bool (*once__index_deny)(size_t size);

#endif
