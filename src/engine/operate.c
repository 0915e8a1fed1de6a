/* SPDX-License-Identifier: Apache-2.0
 *
 * The flow of the design, for one call: find the record, let the core decide, put the next record
 * into the log, answer. The answer waits for its position (INV-2): that of the record just written,
 * or of the one that was found.
 *
 * A hit of the index is confirmed against the log. A record of the two newest segments is in
 * memory; an older one is read without the lock, and then looked up again, because anything may
 * have happened meanwhile.
 */
#include "engine/inner.h"

#include "store/call.h"

#include <stdlib.h>

/* Places whose record turned out to have another name. Their hash agrees in 44 bits: there is
 * hardly ever one. */
enum { SKIPS_MAX = 64 };
struct skips {
    uint32_t count;
    struct {
        uint64_t place;
        uint64_t sequence;
    } at[SKIPS_MAX];
};

struct found {
    bool present;
    uint64_t place;
    uint64_t sequence;
    uint32_t size;
    struct once__log_record rec;
    void *memory; /* behind rec, unless it is in an image */
};

enum look { LOOK_DONE, LOOK_COLD };

once_ms once__engine_now(struct once__engine *engine)
{
    once_ms now_ms;

    if (engine->now_uses > 0) {
        engine->now_uses--;
        return engine->now_ms;
    }
    now_ms = once__clock_now(&engine->clock);
    if (now_ms > engine->now_ms)
        engine->now_ms = now_ms;
    return engine->now_ms;
}

static bool same_name(const struct once__log_record *rec, const struct once_op *op)
{
    return once__bytes_equal(rec->key, op->key) && once__bytes_equal(rec->ns, op->ns);
}

static bool skipped(const struct skips *skips, uint64_t place, uint64_t sequence)
{
    for (uint32_t i = 0; i < skips->count; i++) {
        if (skips->at[i].place == place && skips->at[i].sequence == sequence)
            return true;
    }
    return false;
}

/* COLD: place and sequence say which record must be read first. */
static enum look look_up(const struct once__engine *engine, const struct once_op *op,
                         const struct skips *skips, struct found *ret_found)
{
    struct once__index_iter iter = {0};
    struct once__index_value value;

    ret_found->present = false;
    while (once__index_next(engine->index, op->inner.hash, &iter, &value)) {
        const struct once__segment *segment = engine->segments[once__place_slot(value.place)];

        ret_found->place = value.place;
        ret_found->sequence = segment->sequence;
        if (segment->image) {
            once__record_view(segment->image + once__place_offset(value.place), &ret_found->rec,
                              &ret_found->size);
            if (!same_name(&ret_found->rec, op))
                continue;
            ret_found->present = true;
            return LOOK_DONE;
        }
        if (!skipped(skips, value.place, segment->sequence))
            return LOOK_COLD;
    }
    return LOOK_DONE;
}

/* Reads the record at found->place without the lock. present says whether it is the one, and still
 * current; if not, look again. */
static int read_cold(struct once__engine *engine, struct once_op *op, struct skips *skips,
                     struct found *found)
{
    bool current;
    int err;

    engine->counts.cold_reads++;
    engine->now_uses = 0;
    pthread_mutex_unlock(&engine->lock);
    err = once__segment_read_record(engine, found->place, &found->rec, &found->size,
                                    &found->memory);
    pthread_mutex_lock(&engine->lock);
    current = engine->segments[once__place_slot(found->place)]->sequence == found->sequence &&
              once__index_has(engine->index, op->inner.hash, found->place);
    if (err != ONCE_OK)
        return current ? err : ONCE_OK; /* recycled while it was read */
    if (current && same_name(&found->rec, op)) {
        found->present = true;
        return ONCE_OK;
    }
    free(found->memory);
    found->memory = NULL;
    if (!current)
        return ONCE_OK;
    if (skips->count == SKIPS_MAX)
        return ONCE_ERR_FULL;
    skips->at[skips->count].place = found->place;
    skips->at[skips->count].sequence = found->sequence;
    skips->count++;
    return ONCE_OK;
}

/* The record of the op's name, if there is one. False with DEFER when the disk would be needed. */
static bool find(struct once__engine *engine, struct once_op *op, enum once__cold cold,
                 struct found *ret_found)
{
    struct skips skips;

    skips.count = 0;
    ret_found->memory = NULL;
    while (look_up(engine, op, &skips, ret_found) == LOOK_COLD) {
        int err;

        if (cold == ONCE__COLD_DEFER)
            return false;
        err = read_cold(engine, op, &skips, ret_found);
        if (err != ONCE_OK) {
            once__call_refuse(op, err, "the operation's record cannot be read from the log");
            return true;
        }
        if (ret_found->present)
            return true;
    }
    return true;
}

/* An answer that changes nothing waits for what it reveals: the record, and the passing of time. */
static int settle_unchanged(struct once__engine *engine, struct once_op *op,
                            const struct found *found, once_ms since_ms)
{
    uint64_t mark;
    int err;

    if (found->present && !ONCE__MUTANT(INDEX_BEFORE_LOG))
        op->inner.position =
            once__position(engine, found->sequence, once__place_offset(found->place)) + 1;
    if (since_ms <= engine->log.durable_ms)
        return ONCE_OK;
    err = once__space_admit_mark(engine);
    if (err == ONCE_OK)
        err = once__log_mark(engine, &mark);
    if (err == ONCE_OK)
        op->inner.position = mark;
    return err;
}

/* Puts the record into the log and the index. There must be room, and the change be admitted. */
static int put(struct once__engine *engine, uint64_t hash, const struct once__spot *spot,
               const struct once__log_record *rec, const struct once__change *change)
{
    uint32_t size = change->after.size;
    struct once__index_value value = {.place = once__place(spot->slot, spot->offset),
                                      .open = change->after.open};
    int err = once__summary_reserve(engine->segments[spot->slot]->summary);

    if (err == ONCE_OK && !change->had)
        err = once__index_insert(engine->index, hash, value);
    if (err != ONCE_OK)
        return err;
    if (change->had) {
        uint32_t slot = once__segment_slot(engine, rec->previous_sequence);
        bool replaced = once__index_replace(engine->index, hash,
                                            once__place(slot, rec->previous_offset), value);

        ONCE_ASSERT(replaced);
        once__segment_lose(engine->segments[slot], change->before);
    }
    once__log_add(engine, size, once__record_encode(rec, spot->bytes));
    once__segment_gain(engine->segments[spot->slot], change->after);
    once__space_changed(engine, change);
    once__summary_note(engine->segments[spot->slot]->summary, engine->log.sequence, spot->offset,
                       change->after, hash, rec);
    if (rec->record.fence > engine->log.last_fence)
        engine->log.last_fence = rec->record.fence;
    return rec->change > 0 ? once__apply_put(engine, rec, spot) : ONCE_OK;
}

/* ONCE_ERR_FULL: a write must end first, then all must be decided anew. */
static int write_next(struct once__engine *engine, struct once_op *op, const struct found *found,
                      const struct once_record *next, const struct once__staged *staged)
{
    struct once__log_record rec = {.ns = op->ns, .key = op->key, .record = *next};
    struct once__change change = {.had = found->present};
    uint64_t sequence = engine->log.sequence;
    struct once__spot spot;
    uint32_t size;
    int err;

    if (found->present) {
        rec.previous_sequence = found->sequence;
        rec.previous_offset = once__place_offset(found->place);
        change.before = once__weight_of(&found->rec.record, found->size);
    }
    if (staged->changed) {
        rec.change = engine->objects.change + 1;
        rec.edits = staged->edits;
    }
    size = once__record_size(&rec);
    if (size > once__log_record_max(engine))
        return ONCE_ERR_TOO_LARGE;
    change.after = once__weight_of(next, size);
    err = once__space_admit(engine, &change);
    if (err == ONCE_OK)
        err = once__log_room(engine, size, &spot);
    if (err == ONCE_OK && engine->log.sequence != sequence)
        return ONCE_ERR_FULL; /* what was found may have lain in the image that is used again */
    if (err == ONCE_OK)
        err = put(engine, op->inner.hash, &spot, &rec, &change);
    if (err == ONCE_OK)
        op->inner.position = spot.position;
    return err;
}

/* As write_next. On any other error the op was refused. */
static int decide(struct once__engine *engine, struct once_op *op, const struct found *found)
{
    struct once_moment at = {.now_ms = once__engine_now(engine),
                             .next_fence = engine->log.last_fence + 1};
    static const struct once_record absent = {.state = ONCE_STATE_ABSENT};
    const struct once_record *record = found->present ? &found->rec.record : &absent;
    struct once__staged staged = {.changed = false};
    struct once_decision decision;
    int err;

    err = once__call_decide(op, record, at, &decision);
    if (err == ONCE_OK && op->call == ONCE_CALL_APPLY && decision.word == ONCE_EXECUTE)
        err = once__apply_decide(engine, op, at, &decision, &staged);
    if (err == ONCE_OK)
        err = once__call_tell(op, &decision, at.now_ms);
    if (err != ONCE_OK)
        return err;
    if (decision.changed)
        err = write_next(engine, op, found, &decision.next, &staged);
    else
        err = settle_unchanged(engine, op, found,
                               once__call_holds_since(op, record, &decision, at.now_ms));
    if (err != ONCE_OK)
        once__call_refuse(op, err, NULL);
    return err;
}

static bool operate(struct once__engine *engine, struct once_op *op, enum once__cold cold)
{
    ONCE_ASSERT(op->inner.position == 0);
    for (;;) {
        struct found found;
        uint64_t sequence = engine->log.sequence;
        int err;

        if (engine->log.failed != ONCE_OK) {
            once__call_refuse(op, ONCE_ERR_STOPPED, NULL);
            return true;
        }
        if (!find(engine, op, cold, &found))
            return false;
        if (op->reply.err != ONCE_OK)
            return true;
        err = decide(engine, op, &found);
        free(found.memory);
        if (err != ONCE_ERR_FULL || op->reply.err != ONCE_ERR_FULL || op->reply.what)
            return true; /* a full fence counter says what it is */
        op->reply.err = ONCE_OK;
        op->inner.position = 0;
        if (engine->log.sequence != sequence)
            continue;
        if (cold == ONCE__COLD_DEFER) {
            engine->cold_full = true;
            return false;
        }
        err = once__commit_some(engine);
        if (err != ONCE_OK) {
            once__call_refuse(op, err, NULL);
            return true;
        }
    }
}

bool once__operate(struct once__engine *engine, struct once_op *op, enum once__cold cold)
{
    bool decided = once__call_named(op) ? operate(engine, op, cold)
                                        : once__apply_nameless(engine, op, cold);

    engine->counts.calls += decided ? 1 : 0;
    if (decided)
        once__call_decided(op);
    return decided;
}

int once__carry(struct once__engine *engine, uint64_t hash, uint64_t place,
                const struct once__log_record *rec, uint32_t size)
{
    struct once__log_record copy = *rec;
    struct once__change change = {.had = true, .carried = true};
    struct once__spot spot;
    int err;

    ONCE_ASSERT(once__index_has(engine->index, hash, place));
    copy.previous_sequence = engine->segments[once__place_slot(place)]->sequence;
    copy.previous_offset = once__place_offset(place);
    copy.change = 0; /* a snapshot has its edits */
    copy.edits = (struct once_bytes){NULL, 0};
    change.before = once__weight_of(&rec->record, size);
    ONCE_ASSERT(once__record_size(&copy) <= size);
    size = once__record_size(&copy);
    change.after = once__weight_of(&rec->record, size);
    err = once__space_admit(engine, &change);
    if (err == ONCE_OK)
        err = once__log_room(engine, size, &spot);
    if (err == ONCE_OK)
        err = put(engine, hash, &spot, &copy, &change);
    if (err == ONCE_OK)
        engine->counts.records_carried++;
    return err;
}
