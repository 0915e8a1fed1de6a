/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is counted: malloc, and how much of it is out. Counts what common allocators use: a
 * word for themselves, and multiples of 16 bytes.
 */
#include "object/body.h"

#include <stdlib.h>

#include "base/assert.h"

enum { HEAP_WORD = 8, HEAP_STEP = 16, HEAP_ROOM_MIN = 24 };

bool (*once__heap_deny)(size_t size);

size_t once__heap_room(size_t size)
{
    ONCE_ASSERT(size < SIZE_MAX - HEAP_WORD - HEAP_STEP);

    if (size <= HEAP_ROOM_MIN)
        return HEAP_ROOM_MIN;
    return (size + HEAP_WORD + HEAP_STEP - 1) / HEAP_STEP * HEAP_STEP - HEAP_WORD;
}

void *once__heap_take(struct once__heap *heap, size_t size)
{
    return once__heap_resize(heap, NULL, 0, size);
}

void *once__heap_resize(struct once__heap *heap, void *memory, size_t size, size_t new_size)
{
    void *resized;

    if (once__heap_deny && once__heap_deny(new_size))
        return NULL;
    resized = realloc(memory, once__heap_room(new_size));
    if (!resized)
        return NULL;
    if (memory)
        heap->memory -= once__heap_room(size) + HEAP_WORD;
    heap->memory += once__heap_room(new_size) + HEAP_WORD;
    return resized;
}

void once__heap_give(struct once__heap *heap, void *memory, size_t size)
{
    if (!memory)
        return;
    ONCE_ASSERT(heap->memory >= once__heap_room(size) + HEAP_WORD);
    heap->memory -= once__heap_room(size) + HEAP_WORD;
    free(memory);
}
