/* SPDX-License-Identifier: Apache-2.0
 *
 * Driving a store: drive.h says how. Time stands still within a call of the engine, so the model
 * knows the moment of every decision.
 */
#include "power/drive.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static once_ms fake_wall(void *self)
{
    return ((const struct fake_clock *)self)->wall_ms;
}

static once_ms fake_boot(void *self)
{
    return ((const struct fake_clock *)self)->boot_ms;
}

void drive_init(struct drive *drive, struct disk *disk, struct model *model,
                struct workload *workload, struct chance *chance)
{
    memset(drive, 0, sizeof(*drive));
    drive->disk = disk;
    drive->model = model;
    drive->workload = workload;
    drive->chance = chance;
    drive->source = (struct once__time_source){
        .wall_ms = fake_wall, .boot_ms = fake_boot, .self = &drive->clock};
}

once_ms drive_now(const struct drive *drive)
{
    return drive->start_ms + (drive->clock.boot_ms - drive->start_boot_ms);
}

bool drive_over(const struct drive *drive)
{
    return drive->model->broken || disk_is_cut(drive->disk);
}

void drive_note(struct drive *drive, const char *text, int64_t number)
{
    struct event event = {.kind = EVENT_NOTE,
                          .key = HISTORY_NO_KEY,
                          .life = drive->model->life,
                          .disk_operation = disk_operations(drive->disk),
                          .note = text,
                          .number = number};

    drive->model->disk_operation = event.disk_operation;
    history_add(drive->model->history, &event);
}

int drive_open(struct drive *drive, const struct once_options *options,
               struct once_message *ret_message)
{
    struct once__engine_setup setup = {.vfs = disk_mount(drive->disk),
                                       .time = &drive->source,
                                       .options = *options,
                                       .manual = true};
    struct once_stats stats;
    int err;

    drive_note(drive, "opening; wall clock", drive->clock.wall_ms);
    drive->store = NULL;
    err = once__engine_open(&setup, &drive->store, ret_message);
    if (err != ONCE_OK) {
        drive_note(drive, "not opened:", err);
        return err;
    }
    drive->failed = false;
    drive->flight_count = 0;
    drive->taken = 0;
    drive->call_count = drive->told_count = drive->decided_count = 0;
    drive->undecided = drive->told_order = 0;
    once_stats_get(drive->store, &stats);
    drive->start_ms = stats.now_ms;
    drive->start_boot_ms = drive->clock.boot_ms;
    drive_note(drive, "open; store time", stats.now_ms);
    drive_note(drive, "open; last fence", (int64_t)stats.last_fence);
    model_opened(drive->model, &stats, drive->clock.wall_ms);
    return ONCE_OK;
}

/* ---- Deciding and telling -------------------------------------------------------------------- */

static bool is_unknown(int err)
{
    return err == ONCE_ERR_IO || err == ONCE_ERR_STOPPED;
}

/* A reply that says anything: EXECUTE is the word 0, but it has a fence. */
static bool is_decided(const struct once_reply *reply)
{
    return reply->err != ONCE_OK || reply->word != ONCE_EXECUTE || reply->fence != 0;
}

/* What an operation was refused with. One that has a position was decided; if nobody knows more, it
 * could not be made durable after that. */
static int refusal_of(const struct once_op *op)
{
    return is_unknown(op->reply.err) && op->inner.position != 0 ? ONCE_OK : op->reply.err;
}

/* Small enough for what a begin reserves. */
static bool is_finish(const struct once_op *op)
{
    return (op->call == ONCE_CALL_COMPLETE || op->call == ONCE_CALL_FAIL ||
            op->call == ONCE_CALL_RESOLVE) &&
           op->result.size <= ONCE_RESULT_RESERVED;
}

/* May the engine refuse this operation so? */
static void judge_refusal(struct drive *drive, const struct once_op *op,
                          const struct promise *promise, int err)
{
    const struct once_record *next = &promise->decision.next;

    switch (err) {
    case ONCE_OK:
    case ONCE_ERR_KEY_FUTURE: /* these are compared with the model's */
    case ONCE_ERR_INVALID:
    case ONCE_ERR_OBJECT_TYPE:
    case ONCE_ERR_KEY_NEEDED:
        return;
    case ONCE_ERR_IO:
    case ONCE_ERR_STOPPED:
        if (!drive->may_fail && !disk_is_cut(drive->disk))
            model_break(drive->model, promise->key, "%s on a disk that does not fail",
                        once_err_name(err));
        return;
    case ONCE_ERR_SPACE:
        drive->counts.refused_space++;
        if (!drive->may_fill)
            model_break(drive->model, promise->key, "INV-9: refused for space, and there is space");
        else if (is_finish(op))
            model_break(drive->model, promise->key,
                        "INV-7: it was admitted and cannot end: refused for space");
        /* After a crash a get does not tell a doubt that was written from one that time has made:
         * the store may have to write what the model takes for written. */
        else if (!promise->decision.changed && promise->holds_since_ms == 0 &&
                 promise->decision.word != ONCE_DOUBT &&
                 promise->decision.next.state != ONCE_STATE_DOUBT)
            model_break(drive->model, promise->key, "refused for space without need of any");
        return;
    case ONCE_ERR_TOO_LARGE:
        drive->counts.refused_large++;
        if (next->result.size + next->data.size + promise->weight + 2 * ONCE_BLOCK_SIZE <
            drive->workload->segment_size / 2)
            model_break(drive->model, promise->key, "a small record is refused as too large");
        return;
    case ONCE_ERR_FULL:
        drive->counts.refused_full++;
        if (drive->may_crowd && promise->grows)
            return;
        break;
    case ONCE_ERR_DAMAGED:
        drive->counts.refused_damaged++;
        if (drive->may_damage)
            return;
        break;
    default:
        break;
    }
    model_break(drive->model, promise->key, "refused with %s", once_err_name(err));
}

void drive_look_for_decisions(struct drive *drive)
{
    drive->model->disk_operation = disk_operations(drive->disk);
    for (size_t i = drive->undecided; i < drive->call_count; i++) {
        struct call *call = &drive->calls[i];

        if (!call->decided && is_decided(&call->op.reply)) {
            call->decided = true;
            drive->decided_count++;
            call->in_time = !drive->failed;
            call->promise = model_decide(drive->model, call->key, &call->op, drive_now(drive),
                                         refusal_of(&call->op));
            judge_refusal(drive, &call->op, &call->promise, call->op.reply.err);
        }
        if (call->decided && i == drive->undecided)
            drive->undecided++;
    }
}

/* in_time: it was decided before any write failed. */
static void tell(struct drive *drive, const struct promise *promise, const struct once_reply *reply,
                 bool in_time)
{
    /* What was durable by then may still be on its way out; whether it was shows after the next
     * cut. Nothing that came later may be told. */
    if (reply->err == ONCE_OK && drive->failed && !in_time)
        model_break(drive->model, promise->key, "INV-8: told OK after a durable write had failed");
    if (is_unknown(reply->err) && !drive->may_fail && !disk_is_cut(drive->disk))
        model_break(drive->model, promise->key, "told %s on a disk that does not fail",
                    once_err_name(reply->err));
    model_told(drive->model, promise, reply);
}

static void submit_random(struct drive *drive, int key);

static void on_told(struct once_op *op)
{
    struct call *call = op->user;
    struct drive *drive = call->drive;
    int key = call->key;

    drive_look_for_decisions(drive);
    if (call->told)
        model_break(drive->model, key, "told twice");
    if (!call->decided)
        model_break(drive->model, key, "told what was never decided");
    call->told = true;
    drive->told_count++;
    if (call->decided) {
        if (op->reply.err == ONCE_OK && call->promise.decision.changed) {
            if (call->promise.depends < drive->told_order)
                model_break(drive->model, key, "told out of the order of the log");
            drive->told_order = call->promise.depends;
        }
        tell(drive, &call->promise, &op->reply, call->in_time);
    }
    once_reply_release(&op->reply);
    if (!drive->quiet && !drive_over(drive) && chance_percent(drive->chance, 15))
        submit_random(drive, key);
}

void drive_submit(struct drive *drive, int key, const struct once_op *op)
{
    struct call *call = &drive->calls[drive->call_count];
    int err;

    if (drive->call_count == DRIVE_CALLS_MAX)
        return;
    *call = (struct call){.op = *op, .drive = drive, .key = key};
    call->op.told = on_told;
    call->op.user = call;
    drive->call_count++;
    drive->counts.calls++;
    err = once_submit(drive->store, &call->op);
    if (err != ONCE_OK) {
        drive->call_count--;
        model_break(drive->model, key, "once_submit: %s", once_err_name(err));
        return;
    }
    if (call->told)
        model_break(drive->model, key, "told inside of once_submit");
    drive_look_for_decisions(drive);
}

static void submit_random(struct drive *drive, int key)
{
    struct once_op op;

    if (key != HISTORY_NO_KEY)
        workload_call(drive->workload, drive->chance, drive->model, key, drive_now(drive), &op);
    else
        key = workload_next(drive->workload, drive->chance, drive->model, drive_now(drive), &op);
    drive_submit(drive, key, &op);
}

bool drive_may_block(const struct drive *drive)
{
    return drive->flight_count == 0 && drive->undecided == drive->call_count;
}

/* After a crash, before the model is exact: what a get says of a key. */
static void saw(struct drive *drive, int key, const struct once_reply *reply, once_ms now_ms)
{
    bool allowed = (is_unknown(reply->err) && (drive->may_fail || disk_is_cut(drive->disk))) ||
                   (reply->err == ONCE_ERR_DAMAGED && drive->may_damage) ||
                   (reply->err == ONCE_ERR_SPACE && drive->may_fill);

    if (reply->err == ONCE_OK)
        model_saw(drive->model, key, reply, now_ms);
    else if (!allowed)
        model_break(drive->model, key, "get: %s", once_err_name(reply->err));
}

bool drive_call_group(struct drive *drive, struct once_op *ops, const int *keys, size_t count)
{
    struct once_stats stats;
    once_ms now_ms = drive_now(drive);
    bool all = true;

    drive->quiet = true; /* the order of decisions inside of the call is the group's alone */
    drive->counts.calls += count;
    (void)once_call(drive->store, ops, count); /* each op has its own error */
    drive->quiet = false;
    drive_look_for_decisions(drive);
    for (size_t i = 0; i < count; i++) {
        struct once_reply *reply = &ops[i].reply;
        struct promise promise;

        all = all && reply->err == ONCE_OK;
        if (drive->model->guessing) {
            saw(drive, keys[i], reply, now_ms);
        } else {
            promise = model_decide(drive->model, keys[i], &ops[i], now_ms, refusal_of(&ops[i]));
            judge_refusal(drive, &ops[i], &promise, reply->err);
            tell(drive, &promise, reply, !drive->failed);
        }
        once_reply_release(reply);
    }
    once_stats_get(drive->store, &stats);
    drive->failed = drive->failed || stats.stopped;
    return all;
}

bool drive_look(struct drive *drive)
{
    struct once_stats stats;
    bool all = true;

    for (int first = 0; first < drive->model->key_count && !drive_over(drive);) {
        struct once_op ops[DRIVE_GROUP_MAX];
        int keys[DRIVE_GROUP_MAX];
        size_t count = 0;

        while (count < DRIVE_GROUP_MAX && first < drive->model->key_count) {
            ops[count] = (struct once_op){.call = ONCE_CALL_GET,
                                          .ns = drive->model->names[first].ns,
                                          .key = drive->model->names[first].key};
            keys[count++] = first++;
        }
        all = drive_call_group(drive, ops, keys, count) && all;
    }
    if (drive_over(drive) || !all)
        return false;
    if (drive->model->extension &&
        !drive->model->extension->look(drive->model->extension->self, drive))
        return false;
    once_stats_get(drive->store, &stats);
    model_settle(drive->model, &stats);
    return true;
}
