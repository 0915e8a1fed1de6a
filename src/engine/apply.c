/* SPDX-License-Identifier: Apache-2.0
 *
 * Apply: effects on objects, and the record of the key under which they happen, as one record of
 * the log. The stage says what the effects come to without changing anything; what it says goes to
 * the log; then it is made true in memory. So all of it is durable, or nothing; and nobody is told
 * of it before (INV-2, INV-3): answers wait for the record's position, and whoever looks at objects
 * waits for the last change of any of them.
 *
 * Between the log and memory nothing may fail but memory itself. Then the store stops: what others
 * would read would not be what the log says (INV-8).
 */
#include "engine/inner.h"

#include "store/call.h"

int once__apply_stage(struct once__engine *engine, struct once_op *op, bool has_key, once_ms now_ms,
                      struct once__staged *ret_staged)
{
    struct once__stage_input input = {
        .objects = engine->objects.table,
        .deeds = op->inner.deeds,
        .deed_count = op->inner.deed_count,
        .has_key = has_key,
        .now_ms = now_ms,
        .version = engine->objects.change + 1,
        .memory_max = engine->options.objects_size_max,
    };
    const char *what = NULL;
    uint32_t effect = 0;
    int err;

    ONCE_ASSERT(op->inner.deeds && op->inner.deed_count > 0);
    err = once__stage_run(engine->objects.stage, &input, ret_staged, &effect, &what);
    if (err != ONCE_OK) {
        once__call_refuse(op, err, what ? what : once_err_text(err));
        op->reply.effect = effect;
        op->inner.position = engine->objects.position; /* it tells what objects are, too */
    }
    return err;
}

/* begin, effects and complete in one. */
int once__apply_decide(struct once__engine *engine, struct once_op *op, struct once_moment at,
                       struct once_decision *decision, struct once__staged *ret_staged)
{
    struct once_record started = decision->next;
    struct once_answer answer;
    int err;

    ONCE_ASSERT(decision->word == ONCE_EXECUTE && started.state == ONCE_STATE_STARTED);
    err = once__apply_stage(engine, op, true, at.now_ms, ret_staged);
    if (err != ONCE_OK)
        return err;
    answer.code = ret_staged->rejected ? ONCE_CODE_REJECTED : ONCE_CODE_APPLIED;
    answer.result = ret_staged->result;
    *decision = once__decide_complete(&started, started.fence, &answer, at.now_ms);
    ONCE_ASSERT(decision->word == ONCE_DONE && decision->changed);
    decision->word = ret_staged->rejected ? ONCE_REJECTED : ONCE_APPLIED;
    return ONCE_OK;
}

int once__apply_put(struct once__engine *engine, const struct once__log_record *rec,
                    const struct once__spot *spot)
{
    struct once__segment *segment = engine->segments[spot->slot];
    int err;

    ONCE_ASSERT(rec->change == engine->objects.change + 1);
    segment->changes++;
    segment->summary->changes++;
    engine->objects.change = rec->change;
    engine->objects.position = spot->position;
    err = once__stage_put(engine->objects.stage, engine->objects.table, engine->objects.recent);
    if (err != ONCE_OK && engine->log.failed == ONCE_OK) {
        engine->log.failed = err;
        once__commit_after_write(engine);
    }
    return err;
}

static int write_nameless(struct once__engine *engine, struct once_op *op,
                          const struct once__staged *staged)
{
    struct once__log_record rec = {.change = engine->objects.change + 1, .edits = staged->edits};
    struct once__change change = {.after = {.size = once__record_size(&rec)}};
    struct once__spot spot;
    int err;

    if (change.after.size > once__log_record_max(engine))
        return ONCE_ERR_TOO_LARGE;
    err = once__space_admit(engine, &change);
    if (err == ONCE_OK)
        err = once__log_room(engine, change.after.size, &spot);
    if (err != ONCE_OK)
        return err;
    once__log_add(engine, change.after.size, once__record_encode(&rec, spot.bytes));
    err = once__apply_put(engine, &rec, &spot);
    if (err == ONCE_OK)
        op->inner.position = spot.position;
    return err;
}

static int decide_nameless(struct once__engine *engine, struct once_op *op)
{
    struct once_decision decision = {.word = ONCE_APPLIED};
    once_ms now_ms = once__engine_now(engine);
    struct once__staged staged;
    int err = once__apply_stage(engine, op, false, now_ms, &staged);

    if (err != ONCE_OK)
        return err;
    if (staged.rejected) {
        decision.word = ONCE_REJECTED;
        decision.next.code = ONCE_CODE_REJECTED;
    }
    decision.next.result = staged.result;
    err = once__call_tell(op, &decision, now_ms);
    if (err != ONCE_OK)
        return err;
    if (staged.changed)
        err = write_nameless(engine, op, &staged);
    else if (!ONCE__MUTANT(EDITS_BEFORE_LOG))
        op->inner.position = engine->objects.position;
    if (err != ONCE_OK)
        once__call_refuse(op, err, NULL);
    return err;
}

bool once__apply_nameless(struct once__engine *engine, struct once_op *op, enum once__cold cold)
{
    ONCE_ASSERT(op->inner.position == 0);
    for (;;) {
        int err;

        if (engine->log.failed != ONCE_OK) {
            once__call_refuse(op, ONCE_ERR_STOPPED, NULL);
            return true;
        }
        err = decide_nameless(engine, op);
        if (err != ONCE_ERR_FULL || op->reply.what)
            return true;
        op->reply.err = ONCE_OK;
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
