/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts by bucket: an array sorted by the buckets' bytes. There are at most ONCE_BUCKETS_MAX and
 * none goes, so shifting pointers for a new one is the whole cost.
 */
#include "object/body.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum { BUCKETS_MIN = 4 };

static size_t counted_size(size_t size)
{
    return offsetof(struct once__counted, bytes) + size;
}

/* Where it is, or would be. */
static uint32_t place_of(const struct once__buckets *buckets, struct once_bytes bucket,
                         bool *ret_there)
{
    uint32_t low = 0, high = buckets->count;

    *ret_there = false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct once__counted *there = buckets->sorted[middle];
        int order = once__bytes_compare(
            (struct once_bytes){.data = there->bytes, .size = there->size}, bucket);

        if (order == 0) {
            *ret_there = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct once__counted *once__buckets_find(const struct once__buckets *buckets,
                                               struct once_bytes bucket)
{
    bool there;
    uint32_t at = place_of(buckets, bucket, &there);

    return there ? buckets->sorted[at] : NULL;
}

static int reserve(struct once__buckets *buckets, struct once__heap *heap)
{
    uint32_t more = buckets->capacity > 0 ? 2 * buckets->capacity : BUCKETS_MIN;
    struct once__counted **sorted;

    if (buckets->count < buckets->capacity)
        return ONCE_OK;
    ONCE_ASSERT(more > buckets->capacity);
    sorted = once__heap_resize(heap, buckets->sorted, buckets->capacity * sizeof(*sorted),
                               more * sizeof(*sorted));
    if (!sorted)
        return ONCE_ERR_MEMORY;
    buckets->sorted = sorted;
    buckets->capacity = more;
    return ONCE_OK;
}

int once__buckets_set(struct once__buckets *buckets, struct once__heap *heap,
                      struct once_bytes bucket, uint64_t count)
{
    struct once__counted *counted;
    bool there;
    uint32_t at = place_of(buckets, bucket, &there);
    int err;

    ONCE_ASSERT(bucket.size <= UINT8_MAX);

    if (there) {
        buckets->sorted[at]->count = count;
        return ONCE_OK;
    }
    err = reserve(buckets, heap);
    if (err != ONCE_OK)
        return err;
    counted = once__heap_take(heap, counted_size(bucket.size));
    if (!counted)
        return ONCE_ERR_MEMORY;
    counted->count = count;
    counted->size = (uint8_t)bucket.size;
    if (bucket.size > 0)
        memcpy(counted->bytes, bucket.data, bucket.size);
    memmove(buckets->sorted + at + 1, buckets->sorted + at,
            (buckets->count - at) * sizeof(struct once__counted *));
    buckets->sorted[at] = counted;
    buckets->count++;
    buckets->bytes_size += bucket.size;
    return ONCE_OK;
}

void once__buckets_release(struct once__buckets *buckets, struct once__heap *heap)
{
    for (uint32_t i = 0; i < buckets->count; i++)
        once__heap_give(heap, buckets->sorted[i], counted_size(buckets->sorted[i]->size));
    once__heap_give(heap, buckets->sorted, buckets->capacity * sizeof(*buckets->sorted));
    *buckets = (struct once__buckets){0};
}
