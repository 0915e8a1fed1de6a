/* SPDX-License-Identifier: Apache-2.0
 *
 * Expiry. The oldest segment goes as a whole when little of it is needed any more, or when the log
 * has become much larger than what is needed of it. First what outlives it (open operations, longer
 * retentions) is carried to the tail, then a batch that says "the oldest is the next one" becomes
 * durable, and only then the file is used again (INV-3, INV-4).
 *
 *     IDLE ──due──▶ CARRY ──all entries──▶ SETTLE ──durable──▶ IDLE
 *
 * Segments go in order, so a record is never outlived by one that it replaced. Entries are dead by
 * the store time that is durable, not by the present: what was told as expired must not come back
 * with a clock that starts earlier after a crash (INV-6).
 */
#include "engine/inner.h"

#include "engine/scan.h"

#include <stdlib.h>
#include <string.h>

/* Carrying costs at most a third of what is written, or as much again when long-lived records are
 * in the way. */
enum { LIVE_PART = 4, SLACK_SEGMENTS = 4, PIECE = 64, AHEAD = 8 };

static struct once__segment *oldest_sealed(const struct once__engine *engine)
{
    const struct once__log *log = &engine->log;
    struct once__segment *segment;

    if (log->oldest >= log->sequence)
        return NULL;
    segment = engine->segments[once__segment_slot(engine, log->oldest)];
    ONCE_ASSERT(segment->state == ONCE__SEGMENT_SEALED);
    if (!segment->summarised)
        return NULL;
    return segment;
}

/* Most of the log is garbage that long-lived records at its head keep from going. */
static bool log_is_garbage(const struct once__engine *engine, once_ms now_ms)
{
    const struct once__log *log = &engine->log;
    uint64_t size = 0, live = 0;

    if (log->sequence - log->oldest <= SLACK_SEGMENTS)
        return false;
    for (uint64_t sequence = log->oldest; sequence < log->sequence; sequence++) {
        const struct once__segment *segment =
            engine->segments[once__segment_slot(engine, sequence)];

        size += segment->end;
        live += once__segment_live(segment, now_ms);
    }
    return size > 2 * live + (uint64_t)SLACK_SEGMENTS * engine->segment_size;
}

static bool due(const struct once__engine *engine, const struct once__segment *segment,
                once_ms now_ms)
{
    return once__segment_live(segment, now_ms) * LIVE_PART <= segment->end ||
           log_is_garbage(engine, now_ms);
}

static int load_summary(struct once__engine *engine, uint32_t slot,
                        const struct once__segment *segment, struct once__summary **ret_summary)
{
    uint64_t sequence = segment->sequence, chain = segment->chain;
    uint32_t end = segment->end;
    struct once__file *file;
    struct once__scan scan;
    char name[ONCE__NAME_SIZE];
    int err;

    pthread_mutex_unlock(&engine->lock);
    err = once__summary_load(engine, slot, sequence, chain, end, ret_summary);
    if (err != ONCE_OK && err != ONCE_ERR_MEMORY) {
        once__segment_name(slot, name);
        err = engine->vfs->ops->open(engine->vfs, name, 0, &file);
        if (err == ONCE_OK) {
            err = once__summary_scan(engine, file, end, 0, ret_summary, &scan);
            if (err == ONCE_OK && scan.ended != ONCE__SCAN_WHOLE) {
                once__summary_free(*ret_summary);
                *ret_summary = NULL;
                err = ONCE_ERR_DAMAGED;
            }
            once__file_close(file);
        }
    }
    pthread_mutex_lock(&engine->lock);
    return err;
}

/* IDLE: begins with the oldest segment if it is due by durable time; lets time become durable if
 * it is due by the present. */
static bool begin(struct once__engine *engine)
{
    struct once__retiring *retiring = &engine->retiring;
    struct once__segment *segment = oldest_sealed(engine);
    uint64_t mark;

    if (!segment || engine->log.failed != ONCE_OK ||
        !due(engine, segment, once__engine_now(engine)))
        return false;
    if (once__snapshot_needs(engine, segment) && !ONCE__MUTANT(EDITS_FORGOTTEN)) {
        if (segment->sequence < engine->objects.from)
            engine->objects.wanted = true; /* the one that is there may be gone after a power cut */
        return false;                      /* until there is a snapshot */
    }
    if (!due(engine, segment, engine->log.durable_ms)) {
        if (once__log_mark(engine, &mark) != ONCE_OK || !once__commit_settled(engine, mark))
            return false;
        return true;
    }
    retiring->judged_ms = engine->log.durable_ms;
    retiring->sequence = segment->sequence;
    retiring->slot = once__segment_slot(engine, segment->sequence);
    retiring->next = 0;
    if (load_summary(engine, retiring->slot, segment, &retiring->summary) != ONCE_OK)
        return false; /* damaged: it stays, and `once check` says more */
    retiring->phase = ONCE__RETIRE_CARRY;
    return true;
}

static bool is_dead(const struct once__retiring *retiring, const struct once__sidecar_entry *entry)
{
    if (entry->open)
        return ONCE__MUTANT(EXPIRY_DROPS_DOUBTS);
    return entry->absent || once__expired(entry->expires_s, retiring->judged_ms);
}

static void drop(struct once__engine *engine, struct once__segment *segment, uint64_t place,
                 const struct once__sidecar_entry *entry)
{
    struct once__weight weight = {.size = entry->size,
                                  .expires_s = entry->expires_s,
                                  .open = entry->open,
                                  .absent = entry->absent};
    bool removed = once__index_remove(engine->index, entry->hash, place);

    ONCE_ASSERT(removed);
    once__segment_lose(segment, weight);
    if (entry->open) { /* only a mutant comes here */
        struct once__change change = {.had = true, .before = weight};

        once__space_changed(engine, &change);
    }
}

/* A copy of the record, because its image may go while it is carried. */
static int copy_record(struct once__engine *engine, const struct once__segment *segment,
                       uint64_t place, uint32_t size, struct once__log_record *ret_rec,
                       void **ret_memory)
{
    uint32_t read_size;
    void *memory;
    int err;

    if (!segment->image) {
        pthread_mutex_unlock(&engine->lock);
        err = once__segment_read_record(engine, place, ret_rec, &read_size, ret_memory);
        pthread_mutex_lock(&engine->lock);
        if (err == ONCE_OK && read_size != size) {
            free(*ret_memory);
            err = ONCE_ERR_DAMAGED;
        }
        return err;
    }
    memory = malloc(size);
    if (!memory)
        return ONCE_ERR_MEMORY;
    memcpy(memory, segment->image + once__place_offset(place), size);
    once__record_view(memory, ret_rec, &read_size);
    ONCE_ASSERT(read_size == size);
    *ret_memory = memory;
    return ONCE_OK;
}

/* False: not now, try the same entry again. */
static bool carry(struct once__engine *engine, const struct once__segment *segment, uint64_t place,
                  const struct once__sidecar_entry *entry)
{
    struct once__log_record rec;
    void *memory;
    bool again = false;
    int err = copy_record(engine, segment, place, entry->size, &rec, &memory);

    if (err != ONCE_OK)
        return false;
    if (once__index_has(engine->index, entry->hash, place)) {
        err = once__carry(engine, entry->hash, place, &rec, entry->size);
        if (err == ONCE_ERR_FULL)
            again = engine->manual ? once__commit_write_one(engine)
                                   : once__commit_some(engine) == ONCE_OK;
        if (err == ONCE_ERR_FULL && again && once__index_has(engine->index, entry->hash, place))
            err = once__carry(engine, entry->hash, place, &rec, entry->size);
    }
    free(memory);
    return err == ONCE_OK;
}

/* CARRY: some entries at a time, so that nobody waits long for the lock. */
static bool carry_on(struct once__engine *engine)
{
    struct once__retiring *retiring = &engine->retiring;
    uint32_t slot = retiring->slot;
    struct once__segment *segment = engine->segments[slot];
    int err;

    retiring->judged_ms = engine->log.durable_ms; /* it may have taken long to come here */
    for (int i = 0; i < PIECE && retiring->next < retiring->summary->entry_count; i++) {
        struct once__sidecar_entry entry;
        uint64_t place;

        if (retiring->next + AHEAD < retiring->summary->entry_count) {
            once__sidecar_entry_unpack(retiring->summary->entries + 2 * (retiring->next + AHEAD),
                                       &entry);
            once__index_prefetch(engine->index, entry.hash);
        }
        once__sidecar_entry_unpack(retiring->summary->entries + 2 * retiring->next, &entry);
        place = once__place(slot, entry.offset);
        if (once__index_has(engine->index, entry.hash, place)) {
            if (is_dead(retiring, &entry))
                drop(engine, segment, place, &entry);
            else if (!carry(engine, segment, place, &entry))
                return false;
        }
        retiring->next++;
    }
    if (retiring->next < retiring->summary->entry_count)
        return true;

    /* The batch that says so comes after all that was carried, in the same chain. */
    err = once__log_mark(engine, &retiring->position);
    if (err == ONCE_ERR_FULL)
        return engine->manual ? once__commit_write_one(engine)
                              : once__commit_some(engine) == ONCE_OK;
    if (err != ONCE_OK)
        return false;
    engine->log.oldest = retiring->sequence + 1;
    retiring->phase = ONCE__RETIRE_SETTLE;
    return true;
}

static void recycle(struct once__engine *engine, uint32_t slot)
{
    struct once__segment *segment = engine->segments[slot];

    for (int i = 0; i < ONCE__CLASS_COUNT; i++)
        ONCE_ASSERT(segment->classes[i].size == 0);
    ONCE_ASSERT(!segment->file && !segment->summary);
    *segment = (struct once__segment){.state = ONCE__SEGMENT_SPARE, .filled = true};
    engine->spare_count++;
    engine->filled_count++;
    engine->counts.segments_retired++;
}

/* Without the lock: removing a file may take long. */
static void remove_sidecar(struct once__engine *engine, uint32_t slot)
{
    char name[ONCE__NAME_SIZE];

    once__sidecar_name(slot, name);
    pthread_mutex_unlock(&engine->lock);
    (void)engine->vfs->ops->remove(engine->vfs, name); /* else it is known by its sequence */
    pthread_mutex_lock(&engine->lock);
}

/* SETTLE. */
static bool finish(struct once__engine *engine)
{
    struct once__retiring *retiring = &engine->retiring;

    if (!ONCE__MUTANT(RETIRE_BEFORE_CARRY) && !once__commit_settled(engine, retiring->position))
        return false;
    if (engine->options.durability == ONCE_LOSES_UNSYNCED && once__log_sync(engine) != ONCE_OK)
        return false;
    ONCE_ASSERT(engine->segments[retiring->slot]->sequence == retiring->sequence);
    remove_sidecar(engine, retiring->slot);
    recycle(engine, retiring->slot);
    once__summary_free(retiring->summary);
    retiring->summary = NULL;
    retiring->phase = ONCE__RETIRE_IDLE;
    return true;
}

bool once__retire_work(struct once__engine *engine)
{
    bool more = false;

    pthread_mutex_lock(&engine->lock);
    switch (engine->retiring.phase) {
    case ONCE__RETIRE_IDLE:
        more = begin(engine);
        break;
    case ONCE__RETIRE_CARRY:
        more = carry_on(engine);
        break;
    case ONCE__RETIRE_SETTLE:
        more = finish(engine);
        break;
    }
    pthread_mutex_unlock(&engine->lock);
    return more;
}
