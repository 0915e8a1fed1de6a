/* SPDX-License-Identifier: Apache-2.0
 *
 * The index over all its shards: which shard a hash belongs to, the bound on keys, when a shard is
 * resized, and walks. index_shard.c looks after one shard. Nothing here reads the log: whoever asks
 * confirms a hit.
 *
 * Shards grow only in insert and expect and shrink only in remove, one shard at a time. The
 * thresholds lie so far apart that a resize is paid for by the changes that led to it.
 */
#include "engine/index.h"

#include <stdlib.h>
#include <unistd.h>

#include <once/limits.h>

#include "base/assert.h"
#include "engine/index_shard.h"

enum { SHARD_SHIFT = 64 - ONCE__SHARD_BITS, TAG_SHIFT = SHARD_SHIFT - ONCE__TAG_BITS };

static const struct once__shard *shard_of(const struct once__index *index, uint64_t hash)
{
    return &index->shards[hash >> SHARD_SHIFT];
}

static struct once__shard *shard_of_mutable(struct once__index *index, uint64_t hash)
{
    return &index->shards[hash >> SHARD_SHIFT];
}

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> TAG_SHIFT);
}

int once__index_new(uint64_t keys_max, struct once__index **ret_index)
{
    long page_size = sysconf(_SC_PAGESIZE);
    struct once__index *index;

    ONCE_ASSERT(keys_max <= ONCE_KEYS_MAX);
    ONCE_ASSERT(page_size > ONCE__NURSERY_BUCKETS * ONCE__BUCKET_SIZE);

    if (once__index_deny != NULL && once__index_deny(sizeof(*index)))
        return ONCE_ERR_MEMORY;
    index = calloc(1, sizeof(*index));
    if (index == NULL)
        return ONCE_ERR_MEMORY;
    index->page_buckets = (uint32_t)(page_size / ONCE__BUCKET_SIZE);
    index->keys_max = keys_max;
    index->memory_size = sizeof(*index);
    *ret_index = index;
    return ONCE_OK;
}

void once__index_free(struct once__index *index)
{
    if (index == NULL)
        return;
    for (size_t i = 0; i < ONCE__SHARD_COUNT; i++)
        once__shard_release(index, &index->shards[i]);
    ONCE_ASSERT(index->nursery == NULL);
    ONCE_ASSERT(index->memory_size == sizeof(*index));
    free(index);
}

int once__index_expect(struct once__index *index, uint64_t count)
{
    uint64_t mean, margin;

    if (count > index->keys_max)
        count = index->keys_max;
    /* Shards differ by chance, most by less than this; one that differs more grows later. */
    mean = (count + ONCE__SHARD_COUNT - 1) / ONCE__SHARD_COUNT;
    margin = mean == 0 ? 0 : mean / 16 + 16;
    index->expected = count;
    index->buckets_min = once__shard_size_for(index, mean + margin);
    for (size_t i = 0; i < ONCE__SHARD_COUNT; i++) {
        struct once__shard *shard = &index->shards[i];
        int err;

        if (shard->bucket_count >= index->buckets_min)
            continue;
        err = once__shard_resize(index, shard, index->buckets_min);
        if (err != ONCE_OK) {
            index->buckets_min = 0;
            return err;
        }
    }
    return ONCE_OK;
}

bool once__index_next(const struct once__index *index, uint64_t hash, struct once__index_iter *iter,
                      struct once__index_value *ret_value)
{
    const struct once__shard *shard = shard_of(index, hash);
    uint32_t tag = tag_of(hash), home = once__shard_home(shard, tag);

    if (shard->bucket_count == 0)
        return false;
    if (!iter->begun)
        *iter = (struct once__index_iter){.bucket = home, .begun = true};
    ONCE_ASSERT(iter->bucket < shard->bucket_count);
    ONCE_ASSERT(iter->slot <= ONCE__BUCKET_SLOTS);

    for (;;) {
        const struct once__bucket *bucket = &shard->buckets[iter->bucket];
        uint32_t found = once__bucket_match(bucket, tag) >> iter->slot << iter->slot, after;

        if (found != 0) {
            uint32_t slot = (uint32_t)__builtin_ctz(found);

            iter->slot = slot + 1;
            *ret_value = once__bucket_value(bucket, slot);
            return true;
        }
        after = once__shard_after(shard, iter->bucket);
        /* Going all around takes buckets that lost count. The iterator stays at the end. */
        if (bucket->passed == 0 || after == home) {
            iter->slot = ONCE__BUCKET_SLOTS;
            return false;
        }
        iter->bucket = after;
        iter->slot = 0;
    }
}

void once__index_prefetch_shard(const struct once__index *index, uint64_t hash)
{
    __builtin_prefetch(shard_of(index, hash));
}

void once__index_prefetch(const struct once__index *index, uint64_t hash)
{
    const struct once__shard *shard = shard_of(index, hash);

    if (shard->bucket_count > 0)
        __builtin_prefetch(&shard->buckets[once__shard_home(shard, tag_of(hash))]);
}

int once__index_insert(struct once__index *index, uint64_t hash, struct once__index_value value)
{
    struct once__shard *shard = shard_of_mutable(index, hash);
    uint32_t size;

    ONCE_ASSERT(value.place >> ONCE__PLACE_BITS == 0);

    if (index->count >= index->keys_max || shard->count == UINT32_MAX)
        return ONCE_ERR_KEYS;
    size = once__shard_size_up(index, shard);
    if (size != shard->bucket_count) {
        int err = once__shard_resize(index, shard, size);

        if (err != ONCE_OK)
            return err;
    }
    once__shard_put(shard, tag_of(hash), value);
    index->count++;
    index->open_count += value.open;
    /* What was expected has come: from now on shards may shrink. */
    if (index->count >= index->expected)
        index->buckets_min = 0;
    return ONCE_OK;
}

bool once__index_replace(struct once__index *index, uint64_t hash, uint64_t place,
                         struct once__index_value value)
{
    struct once__shard *shard = shard_of_mutable(index, hash);
    struct once__slot at;

    if (!once__shard_find(shard, tag_of(hash), place, &at))
        return false;
    index->open_count -= shard->open_count;
    once__shard_set(shard, at, value);
    index->open_count += shard->open_count;
    return true;
}

bool once__index_remove(struct once__index *index, uint64_t hash, uint64_t place)
{
    struct once__shard *shard = shard_of_mutable(index, hash);
    struct once__slot at;
    uint32_t size;

    if (!once__shard_find(shard, tag_of(hash), place, &at))
        return false;
    index->open_count -= shard->open_count;
    once__shard_take(shard, at);
    index->open_count += shard->open_count;
    index->count--;
    size = once__shard_size_down(index, shard);
    if (size != shard->bucket_count && size >= index->buckets_min) {
        /* Without memory for the smaller array the larger one serves as well. */
        int err = once__shard_resize(index, shard, size);

        ONCE_ASSERT(err == ONCE_OK || err == ONCE_ERR_MEMORY);
    }
    return true;
}

bool once__index_has(const struct once__index *index, uint64_t hash, uint64_t place)
{
    struct once__slot at;

    return once__shard_find(shard_of(index, hash), tag_of(hash), place, &at);
}

/* ---- Walks ----------------------------------------------------------------------------------- */

struct walk {
    const struct once__index_page *page;
    void (*each)(void *user, uint64_t hash_top, struct once__index_value value);
    void *user;
    size_t given;
};

/* The smallest tag from `from` on of an entry at home in this bucket. Entries of one home lie
 * together but in no order, and there are few of them. */
static bool least_tag(const struct once__shard *shard, uint32_t home, uint32_t from, bool open_only,
                      uint32_t *ret_tag)
{
    uint32_t at = home;
    bool any = false;

    ONCE_ASSERT(home < shard->bucket_count);

    do {
        const struct once__bucket *bucket = &shard->buckets[at];

        for (uint32_t used = bucket->used; used != 0; used &= used - 1) {
            uint32_t slot = (uint32_t)__builtin_ctz(used), tag = bucket->tag[slot];

            if (tag < from || (any && tag >= *ret_tag) || once__shard_home(shard, tag) != home)
                continue;
            if (open_only && !once__bucket_value(bucket, slot).open)
                continue;
            *ret_tag = tag;
            any = true;
        }
        if (bucket->passed == 0)
            break;
        at = once__shard_after(shard, at);
    } while (at != home);
    return any;
}

/* Gives all entries of the tag. */
static void give_tag(struct walk *walk, const struct once__index *index, uint64_t hash)
{
    struct once__index_iter iter = {0};
    struct once__index_value value;

    while (once__index_next(index, hash, &iter, &value)) {
        if (walk->page->open_only && !value.open)
            continue;
        walk->each(walk->user, hash, value);
        walk->given++;
    }
}

/* Gives a shard's entries from *tag on. False when the page is full: *tag is where to go on. */
static bool give_shard(struct walk *walk, const struct once__index *index, uint64_t number,
                       uint32_t *tag)
{
    const struct once__shard *shard = &index->shards[number];
    uint32_t from = *tag;

    ONCE_ASSERT(shard->bucket_count > 0);

    for (uint32_t home = once__shard_home(shard, from); home < shard->bucket_count; home++) {
        while (least_tag(shard, home, from, walk->page->open_only, tag)) {
            if (walk->given >= walk->page->count)
                return false;
            give_tag(walk, index, number << SHARD_SHIFT | (uint64_t)*tag << TAG_SHIFT);
            if (*tag == UINT32_MAX)
                return true;
            from = *tag + 1;
        }
    }
    return true;
}

int once__index_walk(const struct once__index *index, const struct once__index_page *page,
                     void (*each)(void *user, uint64_t hash_top, struct once__index_value value),
                     void *user, uint64_t *ret_cursor)
{
    struct walk walk = {.page = page, .each = each, .user = user};
    uint64_t number = page->cursor >> ONCE__TAG_BITS;
    uint32_t tag = (uint32_t)page->cursor, looked = 0;

    ONCE_ASSERT(page->count > 0);
    ONCE_ASSERT(page->shards_max > 0);

    if (number >= ONCE__SHARD_COUNT)
        return ONCE_ERR_INVALID;
    for (; number < ONCE__SHARD_COUNT; number++, tag = 0) {
        const struct once__shard *shard = &index->shards[number];

        if ((page->open_only ? shard->open_count : shard->count) == 0)
            continue;
        if (looked == page->shards_max || walk.given >= page->count ||
            !give_shard(&walk, index, number, &tag)) {
            /* Not 0: something was given, or a shard before this one was looked at. */
            *ret_cursor = number << ONCE__TAG_BITS | tag;
            return ONCE_OK;
        }
        looked++;
    }
    *ret_cursor = 0;
    return ONCE_OK;
}

uint64_t once__index_count(const struct once__index *index)
{
    return index->count;
}

uint64_t once__index_open_count(const struct once__index *index)
{
    return index->open_count;
}

uint64_t once__index_memory(const struct once__index *index)
{
    return index->memory_size;
}
