/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of a lane's waiting calls come into the next batch. Runs on the lane's thread.
 *
 * Calls of one name are asked in the order of their submission: a name is never in two batches at
 * once, and who is left out keeps back all that follow with the same name. A name whose row some
 * transaction holds is asked for alone and not too often, so that nobody else waits for it.
 */
#include "store/postgres/pg_inner.h"

/* ---- Names that someone holds ---------------------------------------------------------------- */

enum { HELD_PAUSE_MS = 50, HELD_MS = 2000 };

static struct once__pg_held *find_held(struct once__pg_lane *lane, uint64_t hash, once_ms now_ms)
{
    for (size_t i = 0; i < ONCE__PG_HELD_COUNT; i++) {
        if (lane->held[i].hash == hash && lane->held[i].until_ms > now_ms)
            return &lane->held[i];
    }
    return NULL;
}

void once__pg_hold(struct once__pg_lane *lane, uint64_t hash)
{
    once_ms now_ms = once__pg_clock_ms();
    struct once__pg_held *held = find_held(lane, hash, now_ms);

    for (size_t i = 0; !held && i < ONCE__PG_HELD_COUNT; i++) {
        if (lane->held[i].until_ms <= now_ms)
            held = &lane->held[i];
    }
    if (!held)
        held = &lane->held[hash % ONCE__PG_HELD_COUNT];
    *held = (struct once__pg_held){
        .hash = hash, .next_ms = now_ms + HELD_PAUSE_MS, .until_ms = now_ms + HELD_MS};
}

/* ---- Taking ---------------------------------------------------------------------------------- */

enum { BLOCKED_BITS = 4096, SEEN_MAX = 8192 };

/* Names that a batch must not take, because an earlier call of the same name was left out, or is
 * under way: a bit for each hash. One too many only means: later. */
struct blocked {
    uint64_t words[BLOCKED_BITS / 64];
};

static void block(struct blocked *blocked, const struct once_op *op)
{
    blocked->words[op->inner.hash % BLOCKED_BITS / 64] |= UINT64_C(1) << (op->inner.hash % 64);
}

static bool is_blocked(const struct blocked *blocked, const struct once_op *op)
{
    return (blocked->words[op->inner.hash % BLOCKED_BITS / 64] >> (op->inner.hash % 64) & 1) != 0;
}

static bool is_apply(const struct once_op *op)
{
    return op->call >= ONCE_CALL_APPLY;
}

/* Does the call belong to an owner or an operator? It is alone with its name in a batch: should it
 * have to be asked again, the record still says that it was decided. Begins and gets may stand
 * beside each other: only the first that finds the key free changes it. */
static bool is_owners(const struct once_op *op)
{
    return op->call != ONCE_CALL_BEGIN && op->call != ONCE_CALL_GET;
}

enum taken { TAKE, LEAVE, ENOUGH };

/* May this one come into the batch? */
static enum taken judge(struct once__pg_lane *lane, const struct once__pg_batch *batch,
                        const struct once_op *op, size_t size, once_ms now_ms)
{
    const struct once__pg_held *held = find_held(lane, op->inner.hash, now_ms);

    if (batch->count > 0 && (batch->applies != is_apply(op) || held))
        return LEAVE;
    if (held && held->next_ms > now_ms)
        return LEAVE;
    if (batch->count > 0 && size + once__pg_op_size(op) > ONCE_PG_BATCH_SIZE_MAX)
        return ENOUGH;
    /* Applies have the session for themselves: what is under way ends first, and nothing more is
     * begun, or they would wait for ever. */
    if (is_apply(op) && lane->flight_count > 0)
        return ENOUGH;
    return TAKE;
}

static size_t count_max_of(const struct once__pg_lane *lane, const struct once__pg_batch *batch)
{
    size_t most = lane->count_max;

    if (batch->held)
        return 1;
    if (batch->applies && most > ONCE_PG_APPLY_OPS_MAX)
        most = ONCE_PG_APPLY_OPS_MAX;
    if (lane->answer_size > 0 && most > ONCE_PG_ANSWERS_SIZE_MAX / lane->answer_size)
        most = ONCE_PG_ANSWERS_SIZE_MAX / lane->answer_size;
    return most > 0 ? most : 1;
}

static void take_op(struct once__pg_lane *lane, struct once__pg_batch *batch, struct once_op *op)
{
    once_ms now_ms = once__pg_clock_ms();

    if (batch->count == 0) {
        batch->applies = is_apply(op);
        batch->held = find_held(lane, op->inner.hash, now_ms) != NULL;
        batch->deadline_ms = op->inner.deadline_ms;
        batch->failed = false;
        batch->sent_us = once__pg_clock_us();
        batch->sent_size = 0;
    }
    if (op->inner.deadline_ms < batch->deadline_ms)
        batch->deadline_ms = op->inner.deadline_ms;
    batch->ops[batch->count++] = op;
}

void once__pg_take(struct once__pg_lane *lane, struct once__pg_batch *batch)
{
    struct once_op **at = &lane->waiting.first;
    struct blocked blocked = {{0}}, seen_names = {{0}};
    once_ms now_ms = once__pg_clock_ms();
    size_t size = 0;

    batch->count = 0;
    for (size_t i = 0; i < lane->flight_count; i++) {
        for (size_t j = 0; j < lane->flight[i]->count; j++)
            block(&blocked, lane->flight[i]->ops[j]);
    }
    for (size_t seen = 0; *at && seen < SEEN_MAX; seen++) {
        struct once_op *op = *at;
        bool alone = is_owners(op) && !is_apply(op);
        enum taken taken = LEAVE;

        if (!is_blocked(&blocked, op) && !(alone && is_blocked(&seen_names, op)))
            taken = judge(lane, batch, op, size, now_ms);
        if (taken == ENOUGH)
            break;
        if (taken == LEAVE) {
            block(&blocked, op);
            at = &op->inner.next;
            continue;
        }
        *at = op->inner.next;
        if (!*at)
            lane->waiting.last = at;
        size += once__pg_op_size(op);
        take_op(lane, batch, op);
        block(alone ? &blocked : &seen_names, op);
        if (batch->count >= count_max_of(lane, batch))
            break;
    }
}
