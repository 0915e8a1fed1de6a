/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: records are gathered in the open batch, a closed batch becomes one durable write, and a
 * few writes are under way at once. Batches form one chain; what is durable grows in log order only
 * (INV-2), and after a write that failed it does not grow any more (INV-8).
 *
 *     room, add ─▶ open batch ─close─▶ QUEUED ─take─▶ RUNNING ─written─▶ DONE ─▶ durable
 *
 * A segment is begun when a record does not fit into the active one any more. Its header is written
 * through the same queue, and not before the active one's header is durable, and with it everything
 * before that: so recovery finds all headers, and a gap in the last two segments only.
 *
 * It does not decide who writes or who waits: commit.c.
 */
#include "engine/inner.h"

#include <string.h>

enum { WRITE_MASK = ONCE__WRITES_MAX - 1 };

_Static_assert((ONCE__WRITES_MAX & WRITE_MASK) == 0, "a power of two");

static struct once__segment *active_of(const struct once__engine *engine)
{
    struct once__segment *segment = engine->segments[engine->log.active];

    ONCE_ASSERT(segment->state == ONCE__SEGMENT_ACTIVE);
    return segment;
}

uint32_t once__log_record_max(const struct once__engine *engine)
{
    return engine->segment_size - ONCE__SEGMENT_HEADER_SIZE - ONCE__BATCH_HEADER_SIZE;
}

static bool open_batch(const struct once__log *log)
{
    return log->batch_count > 0 || log->mark;
}

uint32_t once__log_left(const struct once__engine *engine)
{
    const struct once__log *log = &engine->log;
    uint32_t used = log->batch_offset;

    if (open_batch(log))
        used += once__batch_disk_size(log->append_offset - log->batch_offset);
    ONCE_ASSERT(used <= engine->segment_size);
    return engine->segment_size - used;
}

static struct once__write *push_write(struct once__engine *engine, uint32_t offset, uint32_t size)
{
    struct once__log *log = &engine->log;
    struct once__segment *segment = active_of(engine);
    struct once__write *write = &log->writes[log->last++ & WRITE_MASK];

    ONCE_ASSERT(write->state == ONCE__WRITE_FREE);
    ONCE_ASSERT(offset % ONCE_BLOCK_SIZE == 0 && size % ONCE_BLOCK_SIZE == 0);
    *write = (struct once__write){
        .file = segment->file,
        .bytes = segment->image + offset,
        .slot = log->active,
        .offset = offset,
        .size = size,
        .number = log->next_number - 1,
        .end = once__position(engine, log->sequence, offset + size),
        .state = ONCE__WRITE_QUEUED,
    };
    segment->writes++;
    return write;
}

static bool queue_full(const struct once__log *log, uint32_t more)
{
    return log->last - log->first + more > ONCE__WRITES_MAX;
}

static void start_batch(struct once__log *log, uint32_t offset)
{
    log->batch_offset = offset;
    log->append_offset = offset + ONCE__BATCH_HEADER_SIZE;
    log->batch_count = 0;
    log->batch_fold = 0;
    log->mark = false;
}

static int close_batch(struct once__engine *engine)
{
    struct once__log *log = &engine->log;
    uint8_t *image = active_of(engine)->image;
    uint32_t size = log->append_offset - log->batch_offset;
    uint32_t disk_size = once__batch_disk_size(size);
    struct once__batch_header header = {
        .size = size,
        .count = log->batch_count,
        .sequence = log->sequence,
        .number = log->next_number,
        .durable = log->proved_number,
        .chain = log->chain,
        .last_fence = log->last_fence,
        .oldest = log->oldest,
        .now_ms = once__engine_now(engine),
        .flags = (log->closing ? ONCE__BATCH_CLOSED : 0U) |
                 (engine->objects.has_snapshot ? ONCE__BATCH_OBJECTS : 0U),
        .records = log->batch_fold,
        .life = log->life,
    };
    struct once__write *write;

    ONCE_ASSERT(open_batch(log));
    ONCE_ASSERT(log->batch_offset + disk_size <= engine->segment_size);
    if (queue_full(log, 1))
        return ONCE_ERR_FULL;
    log->chain = once__batch_header_encode(&header, log->salt, image + log->batch_offset);
    memset(image + log->append_offset, 0, disk_size - size);
    log->next_number++;
    write = push_write(engine, log->batch_offset, disk_size);
    write->now_ms = header.now_ms;
    write->count = header.count;
    engine->counts.batches++;
    if (disk_size > engine->counts.batch_size_max)
        engine->counts.batch_size_max = disk_size;
    start_batch(log, log->batch_offset + disk_size);
    return ONCE_OK;
}

static unsigned write_flags(const struct once__engine *engine)
{
    return ONCE__OPEN_WRITE |
           (engine->options.durability == ONCE_LOSES_UNSYNCED ? (unsigned)ONCE__OPEN_DIRECT
                                                              : (unsigned)ONCE__OPEN_DURABLE);
}

static void close_when_written(struct once__segment *segment)
{
    if (segment->state != ONCE__SEGMENT_SEALED || segment->writes > 0)
        return;
    once__file_close(segment->file);
    segment->file = NULL;
}

/* The open batch is closed; what was active is sealed. */
static void activate(struct once__engine *engine, uint32_t slot, struct once__file *file,
                     struct once__summary *summary)
{
    struct once__log *log = &engine->log;
    struct once__segment *sealed = active_of(engine);
    struct once__segment *next = engine->segments[slot];
    struct once__segment_header header = {
        .segment_size = engine->segment_size,
        .sequence = log->sequence + 1,
        .first_batch = log->next_number,
        .chain = log->chain,
        .previous_end = log->batch_offset,
        .created_ms = once__engine_now(engine),
        .salt = once__segment_salt(engine->file.secret, log->sequence + 1),
        .life = log->life,
    };

    sealed->state = ONCE__SEGMENT_SEALED;
    sealed->end = log->batch_offset;
    sealed->chain = log->chain;
    engine->unsummarised++;
    close_when_written(sealed);
    if (log->sequence > log->oldest) /* its image goes to the new one */
        engine->segments[once__segment_slot(engine, log->sequence - 1)]->image = NULL;

    engine->spare_count--;
    engine->filled_count -= next->filled ? 1 : 0;
    *next = (struct once__segment){
        .state = ONCE__SEGMENT_ACTIVE,
        .sequence = header.sequence,
        .begun_s = (uint32_t)(header.created_ms / 1000),
        .image = log->images[header.sequence & 1],
        .file = file,
        .summary = summary,
    };
    ONCE_ASSERT(next->image != sealed->image);
    log->active = slot;
    log->sequence = header.sequence;
    log->salt = header.salt;
    memcpy(header.store_id, engine->file.id, sizeof(header.store_id));
    once__segment_header_encode(&header, next->image);
    push_write(engine, 0, ONCE__SEGMENT_HEADER_SIZE);
    start_batch(log, ONCE__SEGMENT_HEADER_SIZE);
}

int once__log_sync(struct once__engine *engine)
{
    struct once__log *log = &engine->log;

    if (once__file_sync(active_of(engine)->file) != ONCE_OK) {
        log->failed = ONCE_ERR_IO;
        return ONCE_ERR_STOPPED;
    }
    log->proved_number = log->durable_number;
    return ONCE_OK;
}

/* Seals the active segment and begins the next one. */
static int roll(struct once__engine *engine)
{
    struct once__log *log = &engine->log;
    struct once__summary *summary;
    struct once__file *file;
    char name[ONCE__NAME_SIZE];
    uint32_t slot;
    int err;

    if (queue_full(log, 1) ||
        log->durable < once__position(engine, log->sequence, ONCE__SEGMENT_HEADER_SIZE))
        return ONCE_ERR_FULL;
    if (engine->spare_count == 0) {
        err = once__space_grow(engine);
        if (err != ONCE_OK)
            return err;
    }
    if (!once__segment_find_spare(engine, false, &slot))
        return ONCE_ERR_SPACE;
    if (engine->options.durability == ONCE_LOSES_UNSYNCED) {
        if (log->first != log->last)
            return ONCE_ERR_FULL;
        err = once__log_sync(engine);
        if (err != ONCE_OK)
            return err;
    }
    err = once__summary_new(engine, &summary);
    if (err != ONCE_OK)
        return err;
    once__segment_forget_reader(engine, slot);
    once__segment_name(slot, name);
    err = engine->vfs->ops->open(engine->vfs, name, write_flags(engine), &file);
    if (err == ONCE_OK) {
        err = once__segment_bind(engine, log->sequence + 1, slot);
        if (err != ONCE_OK)
            once__file_close(file);
    }
    if (err != ONCE_OK) {
        once__summary_free(summary);
        return err;
    }
    activate(engine, slot, file, summary);
    once__keeper_wake(engine);
    return ONCE_OK;
}

int once__log_room(struct once__engine *engine, uint32_t size, struct once__spot *ret_spot)
{
    struct once__log *log = &engine->log;

    ONCE_ASSERT(size > 0 && size <= once__log_record_max(engine));
    ONCE_ASSERT(size % ONCE__RECORD_ALIGN == 0);
    for (;;) {
        uint32_t used = log->append_offset - log->batch_offset;
        bool fits = log->batch_offset < engine->segment_size &&
                    once__batch_disk_size(used + size) <= engine->segment_size - log->batch_offset;
        bool large = log->batch_count > 0 && used + size > ONCE_BATCH_SIZE_MAX;
        int err;

        if (log->failed != ONCE_OK)
            return ONCE_ERR_STOPPED;
        if (fits && !large) {
            *ret_spot = (struct once__spot){
                .bytes = active_of(engine)->image + log->append_offset,
                .slot = log->active,
                .offset = log->append_offset,
                .position = once__position(engine, log->sequence, log->append_offset) + 1,
            };
            return ONCE_OK;
        }
        err = open_batch(log) ? close_batch(engine) : roll(engine);
        if (err != ONCE_OK)
            return err;
    }
}

void once__log_add(struct once__engine *engine, uint32_t size, uint64_t check)
{
    struct once__log *log = &engine->log;

    log->append_offset += size;
    log->batch_count++;
    log->batch_fold = once__fold(log->batch_fold, check);
    engine->counts.records++;
    ONCE_ASSERT(log->append_offset <= engine->segment_size);
}

int once__log_mark(struct once__engine *engine, uint64_t *ret_position)
{
    struct once__log *log = &engine->log;
    int err;

    if (log->failed != ONCE_OK)
        return ONCE_ERR_STOPPED;
    if (!open_batch(log) && engine->segment_size - log->batch_offset < ONCE_BLOCK_SIZE) {
        err = roll(engine);
        if (err != ONCE_OK)
            return err;
    }
    log->mark = true;
    *ret_position = once__position(engine, log->sequence, log->batch_offset) + 1;
    return ONCE_OK;
}

static struct once__write *first_queued(struct once__log *log)
{
    for (uint32_t i = log->first; i != log->last; i++) {
        struct once__write *write = &log->writes[i & WRITE_MASK];

        if (write->state == ONCE__WRITE_QUEUED)
            return write;
    }
    return NULL;
}

/* Shall the open batch be written now? While another one is under way, only when it is large: a
 * small one gathers more meanwhile, and one write for many costs less than many. By hand always:
 * tests want several under way. */
static bool may_close(const struct once__engine *engine)
{
    const struct once__log *log = &engine->log;

    if (!open_batch(log))
        return false;
    return log->running == 0 || engine->manual ||
           log->append_offset - log->batch_offset >= ONCE_BATCH_FURTHER_SIZE;
}

bool once__log_ready(const struct once__engine *engine)
{
    const struct once__log *log = &engine->log;

    if (log->failed != ONCE_OK || log->running >= ONCE_BATCHES_IN_FLIGHT_MAX)
        return false;
    if (may_close(engine) && !queue_full(log, 1))
        return true;
    for (uint32_t i = log->first; i != log->last; i++) {
        if (log->writes[i & WRITE_MASK].state == ONCE__WRITE_QUEUED)
            return true;
    }
    return false;
}

struct once__write *once__log_take(struct once__engine *engine)
{
    struct once__log *log = &engine->log;
    struct once__write *write;

    if (log->failed != ONCE_OK || log->running >= ONCE_BATCHES_IN_FLIGHT_MAX)
        return NULL;
    write = first_queued(log);
    if (!write && may_close(engine) && close_batch(engine) == ONCE_OK)
        write = first_queued(log);
    if (!write)
        return NULL;
    write->state = ONCE__WRITE_RUNNING;
    log->running++;
    return write;
}

int once__log_write(struct once__engine *engine, const struct once__write *write)
{
    (void)engine;
    ONCE_ASSERT(write->state == ONCE__WRITE_RUNNING);
    return once__file_write(write->file, write->offset, write->bytes, write->size);
}

void once__log_written(struct once__engine *engine, struct once__write *write, int err)
{
    struct once__log *log = &engine->log;
    struct once__segment *segment = engine->segments[write->slot];

    ONCE_ASSERT(write->state == ONCE__WRITE_RUNNING);
    ONCE_ASSERT(log->running > 0 && segment->writes > 0);
    log->running--;
    if (err != ONCE_OK && ONCE__MUTANT(SYNC_RETRIED) && log->retries++ < 5) {
        write->state = ONCE__WRITE_QUEUED;
        return;
    }
    segment->writes--;
    write->state = ONCE__WRITE_DONE;
    if (err != ONCE_OK && log->failed == ONCE_OK)
        log->failed = err;
    if (log->failed != ONCE_OK)
        return; /* what is durable does not grow any more: recovery decides */
    close_when_written(segment);
    while (log->first != log->last) {
        struct once__write *head = &log->writes[log->first & WRITE_MASK];

        if (head->state != ONCE__WRITE_DONE)
            break;
        ONCE_ASSERT(head->end > log->durable);
        log->durable = head->end;
        log->durable_number = head->number;
        if (head->now_ms > 0)
            log->durable_ms = head->now_ms;
        if (engine->options.durability != ONCE_LOSES_UNSYNCED)
            log->proved_number = head->number;
        head->state = ONCE__WRITE_FREE;
        log->first++;
    }
}

bool once__log_is_open(const struct once__engine *engine)
{
    return open_batch(&engine->log);
}

bool once__log_settled(const struct once__engine *engine)
{
    return !open_batch(&engine->log) && engine->log.first == engine->log.last;
}
