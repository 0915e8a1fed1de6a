/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments: which slot holds which, their files, and how much of each is still needed.
 *
 * Slots are used again; sequence numbers are not. The segments in use are those from log.oldest to
 * log.sequence, without a gap.
 */
#include "engine/inner.h"

#include <stdlib.h>
#include <string.h>

/* ---- Slots and sequences --------------------------------------------------------------------- */

uint32_t once__segment_slot(const struct once__engine *engine, uint64_t sequence)
{
    uint32_t slot = engine->sequence_slots[sequence & (engine->sequence_capacity - 1)];

    ONCE_ASSERT(sequence >= engine->log.oldest && sequence <= engine->log.sequence);
    ONCE_ASSERT(engine->segments[slot]->sequence == sequence);
    return slot;
}

static int grow_sequences(struct once__engine *engine, uint64_t sequence)
{
    uint32_t capacity = engine->sequence_capacity > 0 ? engine->sequence_capacity : 16;
    uint32_t *slots;

    while (sequence - engine->log.oldest >= capacity)
        capacity *= 2;
    if (capacity == engine->sequence_capacity)
        return ONCE_OK;
    slots = calloc(capacity, sizeof(*slots));
    if (!slots)
        return ONCE_ERR_MEMORY;
    for (uint64_t i = engine->log.oldest; engine->sequence_slots && i < sequence; i++)
        slots[i & (capacity - 1)] = engine->sequence_slots[i & (engine->sequence_capacity - 1)];
    free(engine->sequence_slots);
    engine->sequence_slots = slots;
    engine->sequence_capacity = capacity;
    return ONCE_OK;
}

int once__segment_bind(struct once__engine *engine, uint64_t sequence, uint32_t slot)
{
    int err = grow_sequences(engine, sequence);

    if (err == ONCE_OK)
        engine->sequence_slots[sequence & (engine->sequence_capacity - 1)] = slot;
    return err;
}

int once__segment_take_slot(struct once__engine *engine, uint32_t slot)
{
    ONCE_ASSERT(slot < ONCE_SEGMENTS_MAX);
    if (slot >= engine->segment_capacity) {
        uint32_t capacity = engine->segment_capacity > 0 ? engine->segment_capacity : 16;
        struct once__segment **segments;

        while (capacity <= slot)
            capacity *= 2;
        segments = realloc(engine->segments, capacity * sizeof(struct once__segment *));
        if (!segments)
            return ONCE_ERR_MEMORY;
        memset(segments + engine->segment_capacity, 0,
               (capacity - engine->segment_capacity) * sizeof(struct once__segment *));
        engine->segments = segments;
        engine->segment_capacity = capacity;
    }
    for (uint32_t i = engine->segment_count; i <= slot; i++) {
        engine->segments[i] = calloc(1, sizeof(struct once__segment));
        if (!engine->segments[i])
            return ONCE_ERR_MEMORY;
        engine->segment_count = i + 1;
    }
    return ONCE_OK;
}

int once__segment_new_slot(struct once__engine *engine, uint32_t *ret_slot)
{
    uint32_t slot = 0;
    int err;

    while (slot < engine->segment_count && engine->segments[slot]->state != ONCE__SEGMENT_NONE)
        slot++;
    if (slot >= ONCE_SEGMENTS_MAX)
        return ONCE_ERR_FULL;
    err = once__segment_take_slot(engine, slot);
    if (err != ONCE_OK)
        return err;
    engine->segments[slot]->state = ONCE__SEGMENT_BUSY;
    engine->file_count++;
    *ret_slot = slot;
    return ONCE_OK;
}

bool once__segment_find_spare(const struct once__engine *engine, bool filled_only,
                              uint32_t *ret_slot)
{
    bool have = false;

    for (uint32_t slot = 0; slot < engine->segment_count; slot++) {
        const struct once__segment *segment = engine->segments[slot];

        if (segment->state != ONCE__SEGMENT_SPARE || (filled_only && !segment->filled))
            continue;
        if (!have || segment->filled)
            *ret_slot = slot;
        have = true;
        if (segment->filled)
            break;
    }
    return have;
}

/* ---- Files ----------------------------------------------------------------------------------- */

enum { FILL_SIZE = 1 << 20 };

static int fill(struct once__file *file, uint32_t segment_size)
{
    uint32_t chunk = segment_size < FILL_SIZE ? segment_size : FILL_SIZE;
    void *zeros = aligned_alloc(ONCE_BLOCK_SIZE, chunk);
    int err = ONCE_OK;

    if (!zeros)
        return ONCE_ERR_MEMORY;
    memset(zeros, 0, chunk);
    for (uint32_t at = 0; err == ONCE_OK && at < segment_size; at += chunk) {
        uint32_t size = segment_size - at < chunk ? segment_size - at : chunk;

        err = once__file_write(file, at, zeros, size);
    }
    free(zeros);
    return err;
}

int once__segment_make_file(struct once__engine *engine, uint32_t slot, bool filled,
                            struct once__file **ret_file)
{
    struct once__vfs *vfs = engine->vfs;
    struct once__file *file = NULL;
    char name[ONCE__NAME_SIZE];
    int err;

    once__segment_name(slot, name);
    err = vfs->ops->open(vfs, name, ONCE__OPEN_CREATE | ONCE__OPEN_WRITE | ONCE__OPEN_DIRECT,
                         &file);
    if (err != ONCE_OK)
        return err;
    err = once__file_allocate(file, engine->segment_size);
    if (err == ONCE_OK && filled)
        err = fill(file, engine->segment_size);
    if (err != ONCE_OK) {
        once__file_close(file);
        (void)vfs->ops->remove(vfs, name);
        return err;
    }
    *ret_file = file;
    return ONCE_OK;
}

int once__segment_sync_file(struct once__engine *engine, uint32_t slot, struct once__file *file)
{
    struct once__vfs *vfs = engine->vfs;
    char name[ONCE__NAME_SIZE];
    int err = once__file_sync(file) == ONCE_OK ? ONCE_OK : ONCE_ERR_STOPPED;

    once__file_close(file);
    if (err != ONCE_OK) {
        once__segment_name(slot, name);
        (void)vfs->ops->remove(vfs, name);
    }
    return err;
}

int once__segment_sync_names(struct once__engine *engine)
{
    return engine->vfs->ops->sync_folder(engine->vfs) == ONCE_OK ? ONCE_OK : ONCE_ERR_STOPPED;
}

void once__segment_made(struct once__engine *engine, uint32_t slot, int err, bool filled)
{
    struct once__segment *segment = engine->segments[slot];

    ONCE_ASSERT(segment->state == ONCE__SEGMENT_BUSY);
    if (err == ONCE_ERR_STOPPED && engine->log.failed == ONCE_OK) {
        engine->log.failed = ONCE_ERR_IO;
        once__commit_after_write(engine);
    }
    if (err != ONCE_OK) {
        segment->state = ONCE__SEGMENT_NONE;
        engine->file_count--;
        return;
    }
    *segment = (struct once__segment){.state = ONCE__SEGMENT_SPARE, .filled = filled};
    engine->spare_count++;
    engine->filled_count += filled ? 1 : 0;
}

/* ---- What is needed -------------------------------------------------------------------------- */

struct once__weight once__weight_of(const struct once_record *record, uint32_t size)
{
    return (struct once__weight){
        .size = size,
        .expires_s = once__expires_s(record->expires_ms),
        .open = record->state == ONCE_STATE_STARTED || record->state == ONCE_STATE_DOUBT,
        .absent = record->state == ONCE_STATE_ABSENT,
    };
}

static struct once__class *class_of(struct once__segment *segment, struct once__weight weight)
{
    uint32_t after_s = weight.expires_s > segment->begun_s ? weight.expires_s - segment->begun_s
                                                           : 0;
    uint32_t class = 1;

    if (weight.open)
        return &segment->classes[0];
    while (class < ONCE__CLASS_COUNT - 1 && (after_s >> class) > 0)
        class ++;
    return &segment->classes[class];
}

void once__segment_gain(struct once__segment *segment, struct once__weight weight)
{
    struct once__class *class = class_of(segment, weight);

    if (weight.absent)
        return;
    class->size += weight.size;
    if (weight.expires_s > class->expires_s)
        class->expires_s = weight.expires_s;
}

void once__segment_lose(struct once__segment *segment, struct once__weight weight)
{
    struct once__class *class = class_of(segment, weight);

    if (weight.absent)
        return;
    ONCE_ASSERT(class->size >= weight.size);
    class->size -= weight.size;
}

uint64_t once__segment_live(const struct once__segment *segment, once_ms now_ms)
{
    uint64_t size = segment->classes[0].size;

    for (int i = 1; i < ONCE__CLASS_COUNT; i++) {
        if (!once__expired(segment->classes[i].expires_s, now_ms))
            size += segment->classes[i].size;
    }
    return size;
}
