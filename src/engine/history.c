/* SPDX-License-Identifier: Apache-2.0
 *
 * What happened to one operation: its records, each of which says where the one is that it
 * replaced, back to the first that is still in the log. When it happened is what the batch of each
 * record says. Shows only what is durable (INV-2), and nothing of a life that is over.
 */
#include "engine/inner.h"

#include <stdlib.h>

#include "core/event.h"

/* A record of the chain, in memory of its own. */
struct link {
    struct once__log_record rec;
    void *memory; /* NULL: there is none */
    uint64_t sequence;
    uint32_t offset;
};

/* Which batch a record of one segment lies in: offsets and times, in the segment's order. */
struct times {
    uint64_t sequence; /* 0: none was read */
    struct {
        uint32_t offset;
        once_ms at_ms;
    } * batches;
    size_t count, capacity;
};

/* ---- Records --------------------------------------------------------------------------------- */

/* From memory, checked: what was given up by a repair may lie there too. */
static int copy_link(struct once__engine *engine, const struct once__segment *segment,
                     struct link *link)
{
    struct once_bytes bytes = {segment->image + link->offset, engine->segment_size - link->offset};
    uint64_t position = once__position(engine, link->sequence, link->offset) + 1;
    struct once_defect defect;
    uint32_t size;
    int err = once__record_decode(bytes, &link->rec, &size, NULL, &defect);

    if (err != ONCE_OK)
        return err;
    link->memory = malloc(size);
    if (!link->memory)
        return ONCE_ERR_MEMORY;
    memcpy(link->memory, bytes.data, size);
    once__record_view(link->memory, &link->rec, &size);
    return once__commit_wait(engine, position);
}

/* The record at a place of the log, durable. memory stays NULL when the log does not have it any
 * more: its segment was given back, or damage was given up there. */
static int read_link(struct once__engine *engine, uint64_t sequence, uint32_t offset,
                     struct once_name name, struct link *ret_link)
{
    const struct once__segment *segment;
    uint32_t slot;
    int err;

    *ret_link = (struct link){.sequence = sequence, .offset = offset};
    if (sequence < engine->log.oldest)
        return ONCE_OK;
    slot = once__segment_slot(engine, sequence);
    segment = engine->segments[slot];
    if (segment->image)
        err = copy_link(engine, segment, ret_link);
    else
        err = once__fetch_record(engine, once__place(slot, offset), &ret_link->rec,
                                 &ret_link->memory);
    if (err == ONCE_OK && ret_link->memory && once__bytes_equal(ret_link->rec.key, name.key) &&
        once__bytes_equal(ret_link->rec.ns, name.ns))
        return ONCE_OK;
    free(ret_link->memory);
    ret_link->memory = NULL;
    return err;
}

/* The newest record of the name. memory stays NULL when there is none. */
static int find_newest(struct once__engine *engine, struct once_name name, struct link *ret_link)
{
    uint64_t hash = once__name_hash(engine->file.secret, name.ns, name.key);
    uint64_t others[16]; /* places whose record has another name: there is hardly ever one */
    size_t other_count = 0;

    *ret_link = (struct link){.memory = NULL};
    for (;;) {
        struct once__index_iter iter = {0};
        struct once__index_value value;
        uint64_t sequence;
        bool more = false;
        int err;

        while (!more && once__index_next(engine->index, hash, &iter, &value)) {
            more = true;
            for (size_t i = 0; i < other_count; i++)
                more = more && others[i] != value.place;
        }
        if (!more)
            return ONCE_OK;
        sequence = engine->segments[once__place_slot(value.place)]->sequence;
        err = read_link(engine, sequence, once__place_offset(value.place), name, ret_link);
        if (err != ONCE_OK || ret_link->memory)
            return err; /* it may have been replaced meanwhile; it was true */
        if (!once__index_has(engine->index, hash, value.place))
            continue; /* it was moved */
        if (other_count == sizeof(others) / sizeof(others[0]))
            return ONCE_ERR_FULL;
        others[other_count++] = value.place;
    }
}

/* ---- Times ----------------------------------------------------------------------------------- */

static int note_time(struct times *times, uint32_t offset, once_ms at_ms)
{
    if (times->count == times->capacity) {
        size_t capacity = times->capacity > 0 ? 2 * times->capacity : 64;
        void *batches = realloc(times->batches, capacity * sizeof(*times->batches));

        if (!batches)
            return ONCE_ERR_MEMORY;
        times->batches = batches;
        times->capacity = capacity;
    }
    times->batches[times->count].offset = offset;
    times->batches[times->count++].at_ms = at_ms;
    return ONCE_OK;
}

/* Bytes of a segment, from memory or without the lock from disk. */
static int read_some(struct once__engine *engine, uint32_t slot, uint32_t offset, uint8_t *data,
                     size_t size)
{
    const struct once__segment *segment = engine->segments[slot];
    size_t have = size;
    int err;

    if (segment->image) {
        memcpy(data, segment->image + offset, size);
        return ONCE_OK;
    }
    pthread_mutex_unlock(&engine->lock);
    err = once__segment_read(engine, slot, offset, data, size, &have);
    pthread_mutex_lock(&engine->lock);
    return err == ONCE_OK && have < size ? ONCE_ERR_DAMAGED : err;
}

/* From header to header, up to the batch that holds the record at this offset. ONCE_ERR_DAMAGED is
 * also what a segment gives that was recycled while it was read. */
static int walk_batches(struct once__engine *engine, uint32_t slot, uint32_t until,
                        struct times *times)
{
    uint8_t block[ONCE__SEGMENT_HEADER_SIZE];
    uint32_t at = ONCE__SEGMENT_HEADER_SIZE;
    struct once__segment_header segment;
    struct once_defect defect;
    int err = read_some(engine, slot, 0, block, sizeof(block));

    if (err == ONCE_OK)
        err = once__segment_header_decode((struct once_bytes){block, sizeof(block)}, &segment,
                                          &defect);
    while (err == ONCE_OK && at < until) {
        uint8_t bytes[ONCE__BATCH_HEADER_SIZE];
        struct once__batch_header header;
        uint64_t check;

        err = read_some(engine, slot, at, bytes, sizeof(bytes));
        if (err == ONCE_OK)
            err = once__batch_header_decode((struct once_bytes){bytes, sizeof(bytes)}, segment.salt,
                                            &header, &check, &defect);
        if (err == ONCE_OK)
            err = note_time(times, at, header.now_ms);
        if (err == ONCE_OK)
            at += once__batch_disk_size(header.size);
    }
    return err;
}

/* When the record was written; when it was created, if its segment was given back meanwhile. Where
 * batches before it are damaged, the later of that and of the time that the last good one tells:
 * damage hides no record but its own. Records of one segment come newest first, so that one walk
 * gives the times of all of them. */
static int find_time(struct once__engine *engine, const struct link *link, struct times *times,
                     once_ms *ret_at_ms)
{
    size_t low = 0, high;

    if (times->sequence != link->sequence) {
        int err = ONCE_OK;

        times->sequence = 0;
        times->count = 0;
        if (link->sequence >= engine->log.oldest)
            err = walk_batches(engine, once__segment_slot(engine, link->sequence), link->offset,
                               times);
        if (link->sequence < engine->log.oldest) { /* then what was read means nothing */
            *ret_at_ms = link->rec.record.created_ms;
            return ONCE_OK;
        }
        if (err != ONCE_OK && err != ONCE_ERR_DAMAGED)
            return err;
        times->sequence = link->sequence;
    }
    *ret_at_ms = link->rec.record.created_ms;
    if (times->count == 0)
        return ONCE_OK;
    high = times->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (times->batches[middle].offset <= link->offset)
            low = middle;
        else
            high = middle;
    }
    if (times->batches[low].at_ms > *ret_at_ms)
        *ret_at_ms = times->batches[low].at_ms;
    return ONCE_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void show(struct once__engine *engine, const struct link *link, enum once_event event,
                 once_ms at_ms, void (*each)(void *user, const struct once_past *past), void *user)
{
    const struct once_record *record = &link->rec.record;
    struct once_past past = {.event = event,
                             .at_ms = at_ms,
                             .state = record->state,
                             .fence = record->fence,
                             .attempt = record->attempt,
                             .code = record->code,
                             .created_ms = record->created_ms,
                             .lease_end_ms = record->lease_end_ms,
                             .expires_ms = record->expires_ms,
                             .owner = record->owner,
                             .point = record->point,
                             .data = record->data,
                             .result = record->result};

    pthread_mutex_unlock(&engine->lock);
    each(user, &past);
    pthread_mutex_lock(&engine->lock);
}

/* What made the record, and where it is at its end. before is the one that it replaced, if the log
 * has it. */
static enum once_event event_of(const struct link *link, const struct link *before, bool *ret_last)
{
    static const struct once_record absent = {.state = ONCE_STATE_ABSENT};
    bool first = link->rec.previous_sequence == 0;
    const struct once_record *past = before->memory ? &before->rec.record : &absent;

    *ret_last = true;
    if (!first && !before->memory)
        return link->rec.record.state == ONCE_STATE_ABSENT ? ONCE_EVENT_FORGOTTEN : ONCE_EVENT_KEPT;
    *ret_last = first || link->rec.record.state == ONCE_STATE_ABSENT ||
                once__event_is_birth(past, &link->rec.record);
    return once__event_between(past, &link->rec.record);
}

/* The one before, if the log has it: damage hides what came before, not what is. */
static int read_before(struct once__engine *engine, struct once_name name, const struct link *link,
                       struct link *ret_before)
{
    int err;

    *ret_before = (struct link){.memory = NULL};
    if (link->rec.previous_sequence == 0)
        return ONCE_OK;
    err = read_link(engine, link->rec.previous_sequence, link->rec.previous_offset, name,
                    ret_before);
    return err == ONCE_ERR_DAMAGED ? ONCE_OK : err;
}

/* Shows one after the other, and frees them. */
static int walk(struct once__engine *engine, struct once_name name, struct link *link, size_t count,
                void (*each)(void *user, const struct once_past *past), void *user, bool *ret_more)
{
    struct times times = {0};
    bool last = false;
    int err = ONCE_OK;

    *ret_more = false;
    while (err == ONCE_OK && !last) {
        struct link before;
        enum once_event event;
        once_ms at_ms;

        err = read_before(engine, name, link, &before);
        if (err != ONCE_OK)
            break;
        event = event_of(link, &before, &last);
        if (event != 0 && count == 0) {
            *ret_more = true;
            last = true;
        } else if (event != 0) { /* else it was carried: the same, further on */
            err = find_time(engine, link, &times, &at_ms);
            if (err == ONCE_OK)
                show(engine, link, event, at_ms, each, user);
            count--;
        }
        free(link->memory);
        *link = before;
    }
    free(times.batches);
    return err;
}

int once__engine_history(struct once_store *store, struct once_name name, size_t count,
                         void (*each)(void *user, const struct once_past *past), void *user,
                         bool *ret_found, bool *ret_more)
{
    struct once__engine *engine = once__engine_of(store);
    struct link link = {.memory = NULL};
    bool found = false, more = false;
    int err;

    pthread_mutex_lock(&engine->lock);
    err = engine->log.failed != ONCE_OK ? ONCE_ERR_STOPPED : ONCE_OK;
    if (err == ONCE_OK)
        err = find_newest(engine, name, &link);
    if (err == ONCE_OK && link.memory) {
        const struct once_record *record = &link.rec.record;
        once_ms now_ms = once__engine_now(engine);

        found = record->state == ONCE_STATE_ABSENT ||
                once__state_at(record, now_ms) != ONCE_STATE_ABSENT;
        if (!found) /* it expired: that is told when it is durable, as everything is */
            err = once__settle_time(engine, record, &now_ms);
    }
    if (err == ONCE_OK && found)
        err = walk(engine, name, &link, count, each, user, &more);
    pthread_mutex_unlock(&engine->lock);
    free(link.memory);
    if (err != ONCE_OK)
        return err;
    *ret_found = found;
    *ret_more = more;
    return ONCE_OK;
}
