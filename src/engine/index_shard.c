/* SPDX-License-Identifier: Apache-2.0
 *
 * One shard of the index: finding, adding and taking entries, and moving to a larger or smaller
 * array. index_shard.h has the layout and what always holds. Which shard, how many keys in all and
 * when to resize is index.c's business.
 */
#include "engine/index_shard.h"

#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"

enum {
    GROW_PERCENT = 88,    /* a shard fuller than this grows */
    SHRINK_PERCENT = 46,  /* one emptier than this shrinks: 64 / 6 / 0.46 is 23.2 bytes a key */
    SHRUNK_PERCENT = 80,  /* unless the smaller array were fuller than this, and about to grow */
    NURSERY_PERCENT = 50, /* the same for the nursery, whose next size is 8 times larger */
    PASSED_MAX = UINT8_MAX,
    SLOTS_ALL = (1 << ONCE__BUCKET_SLOTS) - 1
};
_Static_assert(SHRUNK_PERCENT < GROW_PERCENT, "a shard that shrank does not grow at once");
_Static_assert(GROW_PERCENT < 100, "an entry that is put finds room");

bool (*once__index_deny)(size_t size);

/* ---- Entries --------------------------------------------------------------------------------- */

static void bucket_write(struct once__bucket *bucket, uint32_t slot, struct once__index_value value)
{
    ONCE_ASSERT(slot < ONCE__BUCKET_SLOTS);
    ONCE_ASSERT(value.place >> ONCE__PLACE_BITS == 0);

    bucket->place_low[slot] = (uint32_t)value.place;
    bucket->place_high[slot] = (uint16_t)(value.place >> 32 | (value.open ? 0x8000U : 0));
}

bool once__shard_find(const struct once__shard *shard, uint32_t tag, uint64_t place,
                      struct once__slot *ret_at)
{
    uint32_t at = once__shard_home(shard, tag);

    for (uint32_t step = 0; step < shard->bucket_count; step++) {
        const struct once__bucket *bucket = &shard->buckets[at];

        for (uint32_t found = once__bucket_match(bucket, tag); found != 0; found &= found - 1) {
            uint32_t slot = (uint32_t)__builtin_ctz(found);

            if (once__bucket_value(bucket, slot).place == place) {
                *ret_at = (struct once__slot){.bucket = at, .slot = slot};
                return true;
            }
        }
        if (bucket->passed == 0)
            return false;
        at = once__shard_after(shard, at);
    }
    return false;
}

void once__shard_put(struct once__shard *shard, uint32_t tag, struct once__index_value value)
{
    uint32_t at = once__shard_home(shard, tag), slot;
    struct once__bucket *bucket;

    ONCE_ASSERT(shard->count < (uint64_t)shard->bucket_count * ONCE__BUCKET_SLOTS);

    for (bucket = &shard->buckets[at]; bucket->used == SLOTS_ALL; bucket = &shard->buckets[at]) {
        if (bucket->passed < PASSED_MAX)
            bucket->passed++;
        at = once__shard_after(shard, at);
    }
    slot = (uint32_t)__builtin_ctz(~(uint32_t)bucket->used);
    bucket->tag[slot] = tag;
    bucket_write(bucket, slot, value);
    bucket->used = (uint8_t)(bucket->used | 1U << slot);
    shard->count++;
    shard->open_count += value.open;
}

void once__shard_set(struct once__shard *shard, struct once__slot at,
                     struct once__index_value value)
{
    struct once__bucket *bucket = &shard->buckets[at.bucket];

    ONCE_ASSERT(at.bucket < shard->bucket_count);
    ONCE_ASSERT(bucket->used >> at.slot & 1);

    shard->open_count -= once__bucket_value(bucket, at.slot).open;
    shard->open_count += value.open;
    bucket_write(bucket, at.slot, value);
}

void once__shard_take(struct once__shard *shard, struct once__slot at)
{
    struct once__bucket *bucket = &shard->buckets[at.bucket];
    uint32_t home = once__shard_home(shard, bucket->tag[at.slot]);

    ONCE_ASSERT(at.bucket < shard->bucket_count);
    ONCE_ASSERT(bucket->used >> at.slot & 1);

    for (; home != at.bucket; home = once__shard_after(shard, home)) {
        ONCE_ASSERT(shard->buckets[home].passed > 0);
        if (shard->buckets[home].passed < PASSED_MAX)
            shard->buckets[home].passed--;
    }
    bucket->used = (uint8_t)(bucket->used & ~(1U << at.slot));
    shard->count--;
    shard->open_count -= once__bucket_value(bucket, at.slot).open;
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

static uint64_t slots_percent(uint64_t bucket_count, uint64_t percent)
{
    return bucket_count * ONCE__BUCKET_SLOTS * percent / 100;
}

uint32_t once__shard_size_up(const struct once__index *index, const struct once__shard *shard)
{
    uint32_t page_count = shard->bucket_count / index->page_buckets;

    if ((uint64_t)shard->count + 1 <= slots_percent(shard->bucket_count, GROW_PERCENT))
        return shard->bucket_count;
    if (shard->bucket_count == 0)
        return ONCE__NURSERY_BUCKETS;
    if (shard->bucket_count == ONCE__NURSERY_BUCKETS)
        return index->page_buckets;
    return (page_count + (page_count > 1 ? page_count / 2 : 1)) * index->page_buckets;
}

uint32_t once__shard_size_down(const struct once__index *index, const struct once__shard *shard)
{
    uint32_t page_count = shard->bucket_count / index->page_buckets, fewer, full_percent;

    if (shard->bucket_count <= ONCE__NURSERY_BUCKETS ||
        shard->count >= slots_percent(shard->bucket_count, SHRINK_PERCENT))
        return shard->bucket_count;
    if (page_count == 1) {
        fewer = ONCE__NURSERY_BUCKETS;
        full_percent = NURSERY_PERCENT;
    } else {
        fewer = (page_count - (page_count > 3 ? page_count / 3 : 1)) * index->page_buckets;
        full_percent = SHRUNK_PERCENT;
    }
    return shard->count <= slots_percent(fewer, full_percent) ? fewer : shard->bucket_count;
}

uint32_t once__shard_size_for(const struct once__index *index, uint64_t count)
{
    uint64_t page_slots = slots_percent(index->page_buckets, GROW_PERCENT);

    if (count == 0)
        return 0;
    if (count <= slots_percent(ONCE__NURSERY_BUCKETS, GROW_PERCENT))
        return ONCE__NURSERY_BUCKETS;
    return (uint32_t)((count + page_slots - 1) / page_slots * index->page_buckets);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

#ifdef MAP_POPULATE
static const int POPULATE =
    MAP_POPULATE; /* one call instead of a fault for each page: 1.5x faster */
#else
static const int POPULATE = 0;
#endif

/* Zeros. NULL when there is no memory. */
static struct once__bucket *pages_new(struct once__index *index, uint64_t bucket_count, int flags)
{
    size_t size = (size_t)bucket_count * ONCE__BUCKET_SIZE;
    void *pages;

    if (once__index_deny != NULL && once__index_deny(size))
        return NULL;
    flags |= MAP_PRIVATE | MAP_ANONYMOUS;
    pages = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    index->memory_size += size;
    return pages;
}

static void pages_free(struct once__index *index, struct once__bucket *pages, uint64_t bucket_count)
{
    size_t size = (size_t)bucket_count * ONCE__BUCKET_SIZE;
    int err = munmap(pages, size);

    ONCE_ASSERT(err == 0);
    ONCE_ASSERT(index->memory_size >= size);
    index->memory_size -= size;
}

static const uint64_t NURSERY_BUCKETS_ALL = (uint64_t)ONCE__NURSERY_BUCKETS * ONCE__SHARD_COUNT;

static struct once__bucket *buckets_new(struct once__index *index, const struct once__shard *shard,
                                        uint32_t bucket_count)
{
    struct once__bucket *buckets;

    if (bucket_count != ONCE__NURSERY_BUCKETS)
        return pages_new(index, bucket_count, POPULATE);
    if (index->nursery == NULL) {
        index->nursery = pages_new(index, NURSERY_BUCKETS_ALL, 0);
        if (index->nursery == NULL)
            return NULL;
    }
    index->nursery_users++;
    buckets = index->nursery + (shard - index->shards) * ONCE__NURSERY_BUCKETS;
    memset(buckets, 0, (size_t)ONCE__NURSERY_BUCKETS * ONCE__BUCKET_SIZE);
    return buckets;
}

void once__shard_release(struct once__index *index, struct once__shard *shard)
{
    if (shard->bucket_count == ONCE__NURSERY_BUCKETS) {
        ONCE_ASSERT(index->nursery_users > 0);
        if (--index->nursery_users == 0) {
            pages_free(index, index->nursery, NURSERY_BUCKETS_ALL);
            index->nursery = NULL;
        }
    } else if (shard->bucket_count > 0) {
        pages_free(index, shard->buckets, shard->bucket_count);
    }
    *shard = (struct once__shard){0};
}

int once__shard_resize(struct once__index *index, struct once__shard *shard, uint32_t bucket_count)
{
    struct once__shard moved = {.bucket_count = bucket_count};

    ONCE_ASSERT(bucket_count != shard->bucket_count);
    ONCE_ASSERT(shard->count <= slots_percent(bucket_count, GROW_PERCENT));

    moved.buckets = buckets_new(index, shard, bucket_count);
    if (moved.buckets == NULL)
        return ONCE_ERR_MEMORY;
    for (uint32_t at = 0; at < shard->bucket_count; at++) {
        const struct once__bucket *bucket = &shard->buckets[at];

        for (uint32_t used = bucket->used; used != 0; used &= used - 1) {
            uint32_t slot = (uint32_t)__builtin_ctz(used);

            once__shard_put(&moved, bucket->tag[slot], once__bucket_value(bucket, slot));
        }
    }
    ONCE_ASSERT(moved.count == shard->count);
    ONCE_ASSERT(moved.open_count == shard->open_count);
    once__shard_release(index, shard);
    *shard = moved;
    return ONCE_OK;
}
