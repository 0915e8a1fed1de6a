/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery, the index: the summaries of all segments, newest first, so that a record is known to be
 * replaced before it is met.
 */
#include "engine/recovery.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is in it --------------------------------------------------------------------------- */

static int note_killed(struct once__recovery *recovery, uint64_t own_sequence,
                       const struct once__summary *summary)
{
    uint64_t oldest = recovery->engine->log.oldest;

    for (size_t i = 0; i < summary->kill_count; i++) {
        struct once__sidecar_kill kill = once__sidecar_kill_unpack(own_sequence, summary->kills[i]);
        struct once__killed *killed;

        if (kill.sequence < oldest || kill.sequence >= own_sequence)
            continue; /* retired since */
        killed = &recovery->killed[kill.sequence - oldest];
        if (killed->count == killed->capacity) {
            size_t capacity = killed->capacity > 0 ? 2 * killed->capacity : 16;
            uint32_t *offsets = realloc(killed->offsets, capacity * sizeof(*offsets));

            if (!offsets)
                return ONCE_ERR_MEMORY;
            killed->offsets = offsets;
            killed->capacity = capacity;
        }
        killed->offsets[killed->count++] = kill.offset;
    }
    return ONCE_OK;
}

static void set_killed(struct once__recovery *recovery, uint64_t sequence, bool set)
{
    const struct once__killed *killed = &recovery->killed[sequence - recovery->engine->log.oldest];

    for (size_t i = 0; i < killed->count; i++) {
        uint32_t bit = killed->offsets[i] / ONCE__RECORD_ALIGN;

        if (killed->offsets[i] >= recovery->engine->segment_size)
            continue;
        if (set)
            recovery->bits[bit / 64] |= 1ULL << bit % 64;
        else
            recovery->bits[bit / 64] = 0;
    }
}

/* Dead by the time that is durable. Expiry may have dropped such a record from the index, and the
 * next one of its name, which then does not know it, may be durable while the word that its segment
 * is retired is not: so none of them comes back, or a name would be there twice (INV-1). */
static bool is_dead(const struct once__recovery *recovery, const struct once__sidecar_entry *entry)
{
    return !entry->open &&
           (entry->absent || once__expired(entry->expires_s, recovery->last.now_ms));
}

static int insert_all(struct once__recovery *recovery, uint32_t slot,
                      const struct once__summary *summary)
{
    struct once__engine *engine = recovery->engine;
    struct once__segment *segment = engine->segments[slot];
    enum { AHEAD = 12 }; /* most of them are not in the processor's cache */
    int err = ONCE_OK;

    set_killed(recovery, segment->sequence, true);
    for (size_t i = 0; err == ONCE_OK && i < summary->entry_count; i++) {
        struct once__sidecar_entry entry;
        struct once__change change = {.had = false};
        uint32_t bit;

        if (i + AHEAD < summary->entry_count) {
            once__sidecar_entry_unpack(summary->entries + 2 * (i + AHEAD), &entry);
            once__index_prefetch(engine->index, entry.hash);
        }
        once__sidecar_entry_unpack(summary->entries + 2 * i, &entry);
        bit = entry.offset / ONCE__RECORD_ALIGN;
        if (recovery->bits[bit / 64] >> bit % 64 & 1 || is_dead(recovery, &entry))
            continue;
        if (entry.open && !once__space_fits(engine, entry.size)) {
            err = once__message(ONCE_ERR_DAMAGED, recovery->message,
                                "segment %" PRIu64 " has an open operation at offset %" PRIu32
                                " that is too large to have been admitted",
                                segment->sequence, entry.offset);
            break;
        }
        change.after = (struct once__weight){.size = entry.size,
                                             .expires_s = entry.expires_s,
                                             .open = entry.open,
                                             .absent = entry.absent};
        err = once__index_insert(engine->index, entry.hash,
                                 (struct once__index_value){
                                     .place = once__place(slot, entry.offset), .open = entry.open});
        if (err != ONCE_OK)
            break;
        once__segment_gain(segment, change.after);
        once__space_changed(engine, &change);
    }
    set_killed(recovery, segment->sequence, false);
    return err;
}

/* Gives the segment its place among the others. */
static int bind(struct once__recovery *recovery, const struct once__seen *seen)
{
    struct once__engine *engine = recovery->engine;

    *engine->segments[seen->slot] = (struct once__segment){
        .state = ONCE__SEGMENT_SEALED,
        .sequence = seen->header.sequence,
        .begun_s = (uint32_t)(seen->header.created_ms / 1000),
    };
    engine->file_count++;
    return once__segment_bind(engine, seen->header.sequence, seen->slot);
}

/* A sealed segment's summary: from its sidecar, else from its log. */
static int summarise(struct once__recovery *recovery, const struct once__seen *seen,
                     bool is_previous, struct once__summary **ret_summary)
{
    struct once__engine *engine = recovery->engine;
    struct once__segment *segment = engine->segments[seen->slot];
    struct once__scan scan;
    int err = once__summary_load(engine, seen->slot, segment->sequence, segment->chain,
                                 segment->end, ret_summary);

    segment->summarised = err == ONCE_OK;
    if (err == ONCE_OK || err == ONCE_ERR_MEMORY)
        return err;
    engine->unsummarised++;
    if (is_previous && recovery->has_previous) {
        *ret_summary = recovery->previous;
        recovery->previous = NULL;
        return ONCE_OK;
    }
    err = once__recovery_scan(recovery, seen, segment->end, 0, ret_summary, &scan);
    if (err == ONCE_OK && (scan.ended != ONCE__SCAN_WHOLE || scan.chain != segment->chain)) {
        once__summary_free(*ret_summary);
        *ret_summary = NULL;
        return once__recovery_damaged(recovery, seen, scan.bad_offset, scan.defect.what);
    }
    return err;
}

/* A summary is kept where a sidecar shall be made of it. */
static int load_sealed(struct once__recovery *recovery, const struct once__seen *seen,
                       const struct once__seen *after, bool is_previous)
{
    struct once__segment *segment = recovery->engine->segments[seen->slot];
    struct once__summary *summary = NULL;
    int err;

    segment->end = after->header.previous_end;
    segment->chain = after->header.chain;
    err = summarise(recovery, seen, is_previous, &summary);
    if (err == ONCE_OK) {
        segment->changes = summary->changes;
        err = note_killed(recovery, segment->sequence, summary);
    }
    if (err == ONCE_OK)
        err = insert_all(recovery, seen->slot, summary);
    if (err == ONCE_OK && !segment->summarised) {
        segment->summary = summary;
        return ONCE_OK;
    }
    once__summary_free(summary);
    return err;
}

static int load_active(struct once__recovery *recovery, const struct once__seen *seen)
{
    struct once__engine *engine = recovery->engine;
    struct once__segment *segment = engine->segments[seen->slot];
    char name[ONCE__NAME_SIZE];
    int err;

    segment->state = ONCE__SEGMENT_ACTIVE;
    segment->image = engine->log.images[segment->sequence & 1];
    segment->summary = recovery->tail;
    segment->changes = recovery->tail->changes;
    recovery->tail = NULL;
    once__segment_name(seen->slot, name);
    err = engine->vfs->ops->open(engine->vfs, name,
                                 ONCE__OPEN_WRITE |
                                     (engine->options.durability == ONCE_LOSES_UNSYNCED
                                          ? (unsigned)ONCE__OPEN_DIRECT
                                          : (unsigned)ONCE__OPEN_DURABLE),
                                 &segment->file);
    if (err == ONCE_OK)
        err = note_killed(recovery, segment->sequence, segment->summary);
    if (err == ONCE_OK)
        err = insert_all(recovery, seen->slot, segment->summary);
    return err;
}

/* Room in the index for what the sidecars list, so that it need not grow meanwhile. */
static int expect_keys(struct once__recovery *recovery, const struct once__seen *oldest,
                       size_t count)
{
    struct once__engine *engine = recovery->engine;
    uint64_t keys = 0;

    for (size_t i = 0; i + 1 < count; i++) {
        char name[ONCE__NAME_SIZE];
        struct once__file *file;
        uint64_t size = 0;

        once__sidecar_name(oldest[i].slot, name);
        if (engine->vfs->ops->open(engine->vfs, name, 0, &file) != ONCE_OK)
            continue;
        if (once__file_size(file, &size) == ONCE_OK && size <= engine->segment_size)
            keys += size / ONCE__SIDECAR_ENTRY_SIZE;
        once__file_close(file);
    }
    return once__index_expect(engine->index,
                              keys < engine->options.keys_max ? keys : engine->options.keys_max);
}

static void tell_progress(const struct once__engine *engine, size_t done, size_t all)
{
    const struct once_options *options = &engine->options;

    if (options->progress)
        options->progress(options->progress_user, (uint64_t)done * engine->segment_size,
                          (uint64_t)all * engine->segment_size);
}

int once__recovery_load(struct once__recovery *recovery)
{
    struct once__engine *engine = recovery->engine;
    struct once__seen *newest = &recovery->seen[recovery->seen_count - 1];
    struct once__seen *oldest = recovery->seen;
    size_t count;
    int err = ONCE_OK;

    engine->log.oldest = recovery->last.oldest > 0 ? recovery->last.oldest : 1;
    while (oldest < newest && oldest->header.sequence < engine->log.oldest) {
        once__recovery_spare(engine, oldest->slot, true);
        oldest++;
    }
    count = (size_t)(newest - oldest) + 1;
    if (oldest->header.sequence != engine->log.oldest ||
        newest->header.sequence - oldest->header.sequence + 1 != count) {
        for (size_t i = 0; i < count; i++) {
            if (oldest[i].header.sequence != engine->log.oldest + i)
                return once__message(ONCE_ERR_DAMAGED, recovery->message,
                                     "segment %" PRIu64 " is missing; `once check` says more",
                                     engine->log.oldest + i);
        }
    }
    recovery->killed = calloc(count, sizeof(*recovery->killed));
    recovery->killed_count = count;
    recovery->bits = calloc(engine->segment_size / ONCE__RECORD_ALIGN / 64, sizeof(uint64_t));
    if (!recovery->killed || !recovery->bits)
        return ONCE_ERR_MEMORY;
    engine->log.sequence = newest->header.sequence;
    for (size_t i = 0; err == ONCE_OK && i < count; i++)
        err = bind(recovery, &oldest[i]);
    if (err == ONCE_OK)
        err = expect_keys(recovery, oldest, count);
    if (err == ONCE_OK)
        err = load_active(recovery, newest);
    tell_progress(engine, 1, count);
    for (size_t i = count - 1; err == ONCE_OK && i-- > 0;) {
        err = load_sealed(recovery, &oldest[i], &oldest[i + 1], i + 2 == count);
        tell_progress(engine, count - i, count);
    }
    return err == ONCE_OK ? once__index_expect(engine->index, 0) : err;
}
