/* SPDX-License-Identifier: Apache-2.0
 *
 * Events and messages by number: chunks of 64 neighbouring numbers, in an array sorted by number.
 *
 * Always: a chunk has at least one item; chunks are strictly increasing by base; a chunk's items
 * are dense, in the order of their numbers, and its bits say which those are. Items come at the end
 * and go at the beginning nearly always, so both are cheap there; in the middle the array is
 * shifted.
 */
#include "object/body.h"

#include <string.h>

#include "base/assert.h"

enum { CHUNK_NUMBERS = 64, CHUNKS_MIN = 1 };

static size_t chunk_size(uint64_t capacity)
{
    return sizeof(struct once__item_chunk) + (size_t)capacity * sizeof(struct once__item *);
}

static size_t item_size(struct once__item_bytes bytes)
{
    return offsetof(struct once__item, bytes) + bytes.word.size + bytes.payload.size;
}

static uint64_t bit_of(uint64_t number)
{
    return UINT64_C(1) << number % CHUNK_NUMBERS;
}

/* How many items of the chunk have a smaller number. */
static size_t rank_of(const struct once__item_chunk *chunk, uint64_t number)
{
    return (size_t)__builtin_popcountll(chunk->there & (bit_of(number) - 1));
}

static uint64_t chunk_count(const struct once__item_chunk *chunk)
{
    return (uint64_t)__builtin_popcountll(chunk->there);
}

/* The first chunk at or behind the base, counted from first; chunk_count: there is none. */
static uint32_t chunk_at(const struct once__items *items, uint64_t base)
{
    uint32_t low = 0, high = items->chunk_count;

    if (high > 0 && items->chunks[items->first + high - 1]->base < base)
        return high; /* behind all: where new ones go */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (items->chunks[items->first + middle]->base < base)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct once__item_chunk *chunk_of(const struct once__items *items, uint64_t number,
                                         uint32_t *ret_at)
{
    uint32_t at = chunk_at(items, number / CHUNK_NUMBERS);

    *ret_at = at;
    if (at == items->chunk_count ||
        items->chunks[items->first + at]->base != number / CHUNK_NUMBERS)
        return NULL;
    return items->chunks[items->first + at];
}

const struct once__item *once__items_find(const struct once__items *items, uint64_t number)
{
    uint32_t at;
    const struct once__item_chunk *chunk = chunk_of(items, number, &at);

    if (!chunk || (chunk->there & bit_of(number)) == 0)
        return NULL;
    return chunk->items[rank_of(chunk, number)];
}

const struct once__item *once__items_after(const struct once__items *items, uint64_t number,
                                           uint64_t *ret_number)
{
    const struct once__item_chunk *chunk;
    uint64_t from = number + 1, behind;
    uint32_t at;

    if (from == 0)
        return NULL;
    at = chunk_at(items, from / CHUNK_NUMBERS);
    if (at == items->chunk_count)
        return NULL;
    chunk = items->chunks[items->first + at];
    behind = chunk->there;
    if (chunk->base == from / CHUNK_NUMBERS)
        behind &= ~(bit_of(from) - 1);
    if (behind == 0) {
        if (++at == items->chunk_count)
            return NULL;
        chunk = items->chunks[items->first + at];
        behind = chunk->there;
    }
    ONCE_ASSERT(behind != 0);
    *ret_number = chunk->base * CHUNK_NUMBERS + (uint64_t)__builtin_ctzll(behind);
    return chunk->items[rank_of(chunk, *ret_number)];
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* Room for one more chunk behind the last. */
static int chunks_reserve(struct once__items *items, struct once__heap *heap)
{
    uint32_t more = items->capacity > 0 ? 2 * items->capacity : CHUNKS_MIN;
    struct once__item_chunk **chunks;

    if (items->first + items->chunk_count < items->capacity)
        return ONCE_OK;
    if (items->first > items->capacity / 2) { /* so shifting is paid by what went */
        memmove(items->chunks, items->chunks + items->first,
                items->chunk_count * sizeof(*items->chunks));
        items->first = 0;
        return ONCE_OK;
    }
    ONCE_ASSERT(more > items->capacity);
    chunks = once__heap_resize(heap, items->chunks, items->capacity * sizeof(*chunks),
                               more * sizeof(*chunks));
    if (!chunks)
        return ONCE_ERR_MEMORY;
    items->chunks = chunks;
    items->capacity = more;
    return ONCE_OK;
}

static int add_chunk(struct once__items *items, struct once__heap *heap, uint32_t at,
                     uint64_t number, struct once__item *item)
{
    struct once__item_chunk *chunk;
    struct once__item_chunk **place;
    int err = chunks_reserve(items, heap);

    if (err != ONCE_OK)
        return err;
    chunk = once__heap_take(heap, chunk_size(1));
    if (!chunk)
        return ONCE_ERR_MEMORY;
    *chunk = (struct once__item_chunk){
        .base = number / CHUNK_NUMBERS, .there = bit_of(number), .capacity = 1};
    chunk->items[0] = item;
    place = items->chunks + items->first + at;
    memmove(place + 1, place, (items->chunk_count - at) * sizeof(struct once__item_chunk *));
    *place = chunk;
    items->chunk_count++;
    return ONCE_OK;
}

static int add_to_chunk(struct once__items *items, struct once__heap *heap, uint32_t at,
                        uint64_t number, struct once__item *item)
{
    struct once__item_chunk *chunk = items->chunks[items->first + at];
    uint64_t count = chunk_count(chunk);
    size_t rank = rank_of(chunk, number);

    ONCE_ASSERT((chunk->there & bit_of(number)) == 0);
    if (count == chunk->capacity) {
        uint64_t more = 2 * count < CHUNK_NUMBERS ? 2 * count : CHUNK_NUMBERS;

        chunk = once__heap_resize(heap, chunk, chunk_size(count), chunk_size(more));
        if (!chunk)
            return ONCE_ERR_MEMORY;
        chunk->capacity = more;
        items->chunks[items->first + at] = chunk;
    }
    memmove(chunk->items + rank + 1, chunk->items + rank,
            (size_t)(count - rank) * sizeof(struct once__item *));
    chunk->items[rank] = item;
    chunk->there |= bit_of(number);
    return ONCE_OK;
}

static struct once__item *item_new(struct once__heap *heap, struct once__item_bytes bytes)
{
    struct once__item *item = once__heap_take(heap, item_size(bytes));

    if (!item)
        return NULL;
    item->payload_size = (uint32_t)bytes.payload.size;
    item->word_size = (uint8_t)bytes.word.size;
    if (bytes.word.size > 0)
        memcpy(item->bytes, bytes.word.data, bytes.word.size);
    if (bytes.payload.size > 0)
        memcpy(item->bytes + bytes.word.size, bytes.payload.data, bytes.payload.size);
    return item;
}

int once__items_add(struct once__items *items, struct once__heap *heap, uint64_t number,
                    struct once__item_bytes bytes)
{
    struct once__item *item;
    uint32_t at;
    int err;

    ONCE_ASSERT(bytes.word.size <= UINT8_MAX);
    ONCE_ASSERT(bytes.payload.size <= UINT32_MAX);

    item = item_new(heap, bytes);
    if (!item)
        return ONCE_ERR_MEMORY;
    if (chunk_of(items, number, &at))
        err = add_to_chunk(items, heap, at, number, item);
    else
        err = add_chunk(items, heap, at, number, item);
    if (err != ONCE_OK) {
        once__heap_give(heap, item, item_size(bytes));
        return err;
    }
    items->count++;
    items->bytes_size += bytes.word.size + bytes.payload.size;
    if (items->total < number)
        items->total = number;
    return ONCE_OK;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

static void item_free(struct once__heap *heap, struct once__item *item)
{
    once__heap_give(heap, item, item_size(once__item_read(item)));
}

static void chunk_free(struct once__heap *heap, struct once__item_chunk *chunk)
{
    once__heap_give(heap, chunk, chunk_size(chunk->capacity));
}

/* The chunk is empty. */
static void take_chunk(struct once__items *items, struct once__heap *heap, uint32_t at)
{
    struct once__item_chunk **place = items->chunks + items->first + at;

    chunk_free(heap, *place);
    items->chunk_count--;
    if (at == 0)
        items->first++;
    else
        memmove(place, place + 1, (items->chunk_count - at) * sizeof(struct once__item_chunk *));
    if (items->chunk_count == 0) {
        once__heap_give(heap, items->chunks, items->capacity * sizeof(*items->chunks));
        items->chunks = NULL;
        items->first = 0;
        items->capacity = 0;
    }
}

void once__items_take(struct once__items *items, struct once__heap *heap, uint64_t number)
{
    uint32_t at;
    struct once__item_chunk *chunk = chunk_of(items, number, &at);
    struct once__item *item;
    size_t rank, count;

    ONCE_ASSERT(chunk && (chunk->there & bit_of(number)) != 0);
    ONCE_ASSERT(items->count > 0);

    rank = rank_of(chunk, number);
    count = (size_t)chunk_count(chunk);
    item = chunk->items[rank];
    items->bytes_size -= (uint64_t)item->word_size + item->payload_size;
    item_free(heap, item);
    memmove(chunk->items + rank, chunk->items + rank + 1,
            (count - rank - 1) * sizeof(struct once__item *));
    chunk->there &= ~bit_of(number);
    items->count--;
    if (chunk->there == 0)
        take_chunk(items, heap, at);
}

void once__items_release(struct once__items *items, struct once__heap *heap)
{
    for (uint32_t at = 0; at < items->chunk_count; at++) {
        struct once__item_chunk *chunk = items->chunks[items->first + at];
        uint64_t count = chunk_count(chunk);

        for (uint64_t i = 0; i < count; i++)
            item_free(heap, chunk->items[i]);
        chunk_free(heap, chunk);
    }
    once__heap_give(heap, items->chunks, items->capacity * sizeof(*items->chunks));
    *items = (struct once__items){0};
}
