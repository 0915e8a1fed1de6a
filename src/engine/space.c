/* SPDX-License-Identifier: Apache-2.0
 *
 * Space: what was admitted can finish (INV-7). An open operation (STARTED or DOUBT) keeps a
 * reserve: the blocks that its last record takes if it is written alone, with a result of
 * ONCE_RESULT_RESERVED bytes. The invariant is
 *
 *     free >= reserved
 *
 * where free counts only space that files already have, so that no other user of the disk can take
 * it, and counts what may be lost at the end of a segment as lost. What would break it is refused
 * with ONCE_ERR_SPACE; ending an operation never does, as long as its result is not larger than
 * what was reserved. One more segment is kept for expiry, which must write before it frees.
 *
 * Segments leave room for a snapshot of the objects too: without one no segment with edits can go,
 * and a store that was full once would be full for ever.
 */
#include "engine/inner.h"

/* Spares that the keeper makes beyond what is reserved: some in all, and more for each 8. */
enum { AHEAD_LEAST = 6 };

uint32_t once__reserve_of(const struct once__engine *engine, uint32_t record_size)
{
    (void)engine;
    return once__batch_disk_size(ONCE__BATCH_HEADER_SIZE + record_size + ONCE_RESULT_RESERVED);
}

static uint64_t payload(const struct once__engine *engine)
{
    return engine->segment_size - ONCE__SEGMENT_HEADER_SIZE;
}

/* What is sure to fit into a whole segment, in pieces up to the largest. */
static uint64_t usable(const struct once__engine *engine, uint32_t largest)
{
    ONCE_ASSERT(largest <= payload(engine));
    return payload(engine) - largest; /* a block less than that: as of the active one */
}

static uint64_t free_now(const struct once__engine *engine, uint32_t largest, bool with_active)
{
    uint64_t left = with_active ? once__log_left(engine) : 0;

    return engine->spare_count * usable(engine, largest) + (left > largest ? left - largest : 0);
}

uint32_t once__space_spares_needed(const struct once__engine *engine)
{
    uint64_t each = usable(engine, engine->reserve_largest);
    uint64_t spares = (engine->reserved + payload(engine) + each - 1) / each + 1;

    return spares < ONCE_SEGMENTS_MAX ? (uint32_t)spares : ONCE_SEGMENTS_MAX;
}

uint32_t once__space_spares_ahead(const struct once__engine *engine)
{
    return AHEAD_LEAST + once__space_spares_needed(engine) / 8;
}

bool once__space_short(const struct once__engine *engine)
{
    uint32_t needed = once__space_spares_needed(engine);

    return needed > AHEAD_LEAST && engine->spare_count < needed + once__space_spares_ahead(engine);
}

/* Perhaps segments cannot go because objects still need their edits. */
static void want_snapshot(struct once__engine *engine)
{
    if (engine->objects.wanted)
        return;
    engine->objects.wanted = true;
    once__keeper_wake(engine);
}

/* What the next snapshot takes, beside the one that is there until it counts. */
static uint64_t next_snapshot(const struct once__engine *engine)
{
    uint64_t size = once__objects_encoded_size(engine->objects.table);

    return size > 0 ? size + size / 4 + 2 * (uint64_t)ONCE_BLOCK_SIZE : 0;
}

bool once__space_allows(const struct once__engine *engine, uint64_t more)
{
    uint64_t size_max = engine->options.disk_size_max, free_size;
    uint64_t snapshot = next_snapshot(engine);

    if (size_max > 0 && (uint64_t)engine->file_count * engine->segment_size +
                                engine->objects.snapshot_size + snapshot + more >
                            size_max)
        return false;
    return snapshot == 0 || engine->vfs->ops->free_size(engine->vfs, &free_size) != ONCE_OK ||
           free_size >= snapshot + more;
}

int once__space_grow(struct once__engine *engine)
{
    struct once__file *file;
    uint32_t slot;
    int err;

    if (!once__space_allows(engine, engine->segment_size)) {
        want_snapshot(engine);
        return ONCE_ERR_SPACE;
    }
    err = once__segment_new_slot(engine, &slot);
    if (err != ONCE_OK)
        return err == ONCE_ERR_FULL ? ONCE_ERR_SPACE : err;
    err = once__segment_make_file(engine, slot, false, &file);
    if (err == ONCE_OK)
        err = once__segment_sync_file(engine, slot, file);
    if (err == ONCE_OK)
        err = once__segment_sync_names(engine);
    once__segment_made(engine, slot, err, false);
    if (err == ONCE_ERR_SPACE)
        want_snapshot(engine);
    return err;
}

bool once__space_fits(const struct once__engine *engine, uint32_t record_size)
{
    return once__reserve_of(engine, record_size) <= payload(engine) / 2;
}

int once__space_admit(struct once__engine *engine, const struct once__change *change)
{
    uint32_t need = once__batch_disk_size(ONCE__BATCH_HEADER_SIZE + change->after.size);
    uint32_t before = change->had && change->before.open
                          ? once__reserve_of(engine, change->before.size)
                          : 0;
    uint32_t after = change->after.open ? once__reserve_of(engine, change->after.size) : 0;
    uint32_t largest = after > engine->reserve_largest ? after : engine->reserve_largest;
    uint64_t wanted = engine->reserved - before + after + need;

    if (change->after.open && !once__space_fits(engine, change->after.size))
        return ONCE_ERR_TOO_LARGE;
    if (need + after <= before)
        return ONCE_OK; /* it uses what it has; marks of expiry may have made free a little less */
    if (!change->carried)
        wanted += payload(engine); /* is expiry's */
    while (free_now(engine, largest, need <= largest) < wanted) {
        int err = once__space_grow(engine);

        if (err != ONCE_OK)
            return err;
    }
    return ONCE_OK;
}

int once__space_admit_mark(struct once__engine *engine)
{
    if (once__log_is_open(engine))
        return ONCE_OK;
    while (free_now(engine, engine->reserve_largest, true) < engine->reserved + ONCE_BLOCK_SIZE) {
        int err = once__space_grow(engine);

        if (err != ONCE_OK)
            return err;
    }
    return ONCE_OK;
}

void once__space_changed(struct once__engine *engine, const struct once__change *change)
{
    if (change->had && change->before.open) {
        uint32_t before = once__reserve_of(engine, change->before.size);

        ONCE_ASSERT(engine->reserved >= before);
        engine->reserved -= before;
    }
    if (change->after.open) {
        uint32_t after = once__reserve_of(engine, change->after.size);

        engine->reserved += after;
        if (after > engine->reserve_largest)
            engine->reserve_largest = after;
        /* Before a caller has to make a file itself. */
        if (!engine->chore && !engine->no_spare && once__space_short(engine))
            once__keeper_wake(engine);
    }
}
