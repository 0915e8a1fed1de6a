/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens in a life, step by step: writes are taken, written and reported in any order,
 * between calls, work behind the scenes and the passing of time; and how a life ends.
 */
#include "power/drive.h"

enum { DRAIN_ROUNDS_MAX = 20000 };

/* ---- Writing --------------------------------------------------------------------------------- */

static bool take(struct drive *drive)
{
    struct once__write *write;

    if (drive->flight_count == ONCE_BATCHES_IN_FLIGHT_MAX)
        return false;
    write = once__engine_take(drive->store);
    drive_look_for_decisions(drive);
    if (!write)
        return false;
    drive->flights[drive->flight_count] = (struct flight){.write = write, .number = ++drive->taken};
    drive_note(drive, "took write", drive->flights[drive->flight_count++].number);
    return true;
}

static void write_one(struct drive *drive, size_t i)
{
    struct flight *flight = &drive->flights[i];

    if (flight->done)
        return;
    flight->err = once__engine_write(drive->store, flight->write);
    flight->done = true;
    drive_note(drive, "wrote", flight->number);
    if (flight->err != ONCE_OK) {
        drive_note(drive, "a durable write failed:", flight->err);
        if (!drive->may_fail && !disk_is_cut(drive->disk))
            model_break(drive->model, HISTORY_NO_KEY, "a write failed without a fault: %s",
                        once_err_name(flight->err));
    }
}

static void report_one(struct drive *drive, size_t i)
{
    struct flight flight = drive->flights[i];

    if (!flight.done)
        return;
    drive->flights[i] = drive->flights[--drive->flight_count];
    drive_note(drive, "reported", flight.number);
    if (flight.err != ONCE_OK)
        drive->failed = true;
    once__engine_written(drive->store, flight.write, flight.err);
    drive_look_for_decisions(drive);
}

static void work(struct drive *drive, size_t count)
{
    while (count-- > 0 && !drive_over(drive) && once__engine_work(drive->store))
        drive_look_for_decisions(drive);
    drive_look_for_decisions(drive);
}

/* Writes what there is. False when there was nothing. */
static bool write_all(struct drive *drive)
{
    bool moved = false;

    while (take(drive))
        moved = true;
    while (drive->flight_count > 0 && !drive_over(drive)) {
        write_one(drive, 0);
        report_one(drive, 0);
        moved = true;
    }
    return moved;
}

static bool drained(const struct drive *drive)
{
    return drive->flight_count == 0 && drive->told_count == drive->call_count;
}

void drive_drain(struct drive *drive)
{
    size_t rounds = 0;

    while (!drive_over(drive) && !drained(drive)) {
        size_t before = drive->told_count + drive->decided_count;
        bool moved = write_all(drive);

        if (!moved && !drive_over(drive) && !drained(drive)) {
            moved = once__engine_work(drive->store);
            drive_look_for_decisions(drive);
        }
        if (!moved && !drive_over(drive) && !drained(drive) &&
            drive->told_count + drive->decided_count == before)
            model_break(drive->model, HISTORY_NO_KEY,
                        "%zu operations are never told: nothing to write, nothing to do",
                        drive->call_count - drive->told_count);
        if (++rounds > DRAIN_ROUNDS_MAX)
            model_break(drive->model, HISTORY_NO_KEY, "the store never comes to rest");
    }
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void pass_time(struct drive *drive)
{
    once_ms pause_ms = workload_pause(drive->chance);

    drive->clock.boot_ms += pause_ms;
    drive->clock.wall_ms += pause_ms;
    if (chance_percent(drive->chance, 10)) /* somebody sets the clock: store time must not care */
        drive->clock.wall_ms += chance_between(drive->chance, -3600000, 3600000);
}

static void call_random(struct drive *drive)
{
    struct once_op ops[DRIVE_GROUP_MAX];
    int keys[DRIVE_GROUP_MAX];
    size_t count = chance_percent(drive->chance, 60)
                       ? 1
                       : 1 + chance_below(drive->chance, DRIVE_GROUP_MAX);

    for (size_t i = 0; i < count; i++)
        keys[i] = workload_next(drive->workload, drive->chance, drive->model, drive_now(drive),
                                &ops[i]);
    drive_call_group(drive, ops, keys, count);
}

enum step {
    STEP_SUBMIT,
    STEP_TAKE,
    STEP_WRITE,
    STEP_REPORT,
    STEP_WORK,
    STEP_TIME,
    STEP_CALL,
    STEP_LIST,
    STEP_NUMBERS,
    STEP_DRAIN,
    STEP_COUNT
};

void drive_step(struct drive *drive)
{
    static const unsigned weights[STEP_COUNT] = {40, 16, 16, 14, 12, 8, 4, 1, 2, 2};
    struct extension *extension = drive->model->extension;
    enum step step = (enum step)chance_pick(drive->chance, weights, STEP_COUNT);
    struct once_op op;
    int key;

    if (extension && drive_may_block(drive) && chance_percent(drive->chance, 4)) {
        extension->step(extension->self, drive);
        return;
    }
    switch (step) {
    case STEP_SUBMIT:
        key = workload_next(drive->workload, drive->chance, drive->model, drive_now(drive), &op);
        drive_submit(drive, key, &op);
        break;
    case STEP_TAKE:
        (void)take(drive);
        break;
    case STEP_WRITE:
        if (drive->flight_count > 0)
            write_one(drive, chance_below(drive->chance, drive->flight_count));
        break;
    case STEP_REPORT:
        if (drive->flight_count > 0)
            report_one(drive, chance_below(drive->chance, drive->flight_count));
        break;
    case STEP_WORK:
        work(drive, 1 + chance_below(drive->chance, 6));
        break;
    case STEP_TIME:
        pass_time(drive);
        break;
    case STEP_CALL:
        if (drive_may_block(drive))
            call_random(drive);
        break;
    case STEP_LIST:
        if (drive_may_block(drive))
            drive_list(drive);
        break;
    case STEP_NUMBERS:
        if (!drive->failed)
            drive_numbers(drive, false);
        break;
    case STEP_DRAIN:
        drive_drain(drive);
        break;
    case STEP_COUNT:
        break;
    }
}

void drive_finish_all(struct drive *drive)
{
    drive_drain(drive);
    for (int key = 0; key < drive->model->key_count; key++) {
        const struct once_record *record = &drive->model->now[key];
        struct once_op op = {.call = key % 2 == 0 ? ONCE_CALL_COMPLETE : ONCE_CALL_FAIL,
                             .ns = drive->model->names[key].ns,
                             .key = drive->model->names[key].key,
                             .fence = record->fence,
                             .result = once_bytes_of("a small answer")};

        if (record->state != ONCE_STATE_STARTED && record->state != ONCE_STATE_DOUBT)
            continue;
        if (drive_over(drive) || drive->failed || !drive_may_block(drive))
            return;
        drive_call_group(drive, &op, &key, 1);
        drive->counts.finished_when_full++;
    }
}

/* ---- The end --------------------------------------------------------------------------------- */

static void gather(struct drive *drive)
{
    struct once_stats stats;

    if (drive_now(drive) > drive->model->time_top_ms)
        drive->model->time_top_ms = drive_now(drive);
    once_stats_get(drive->store, &stats);
    drive->counts.segments_retired += stats.segments_retired;
    drive->counts.records_carried += stats.records_carried;
    drive->counts.cold_reads += stats.cold_reads;
    if (drive->model->extension)
        drive->model->extension->over(drive->model->extension->self, &stats);
}

static void release_calls(struct drive *drive)
{
    for (size_t i = 0; i < drive->call_count; i++)
        once_reply_release(&drive->calls[i].op.reply);
    drive->call_count = drive->told_count = drive->undecided = 0;
    drive->flight_count = 0;
}

void drive_crash(struct drive *drive)
{
    gather(drive);
    once__engine_crash(drive->store);
    drive->store = NULL;
    release_calls(drive);
}

bool drive_close(struct drive *drive)
{
    bool was_over = drive_over(drive);
    int err;

    /* Writes in our hands would never end. */
    while (drive->flight_count > 0) {
        write_one(drive, 0);
        report_one(drive, 0);
    }
    gather(drive);
    drive->quiet = true;
    err = once_close(drive->store);
    drive->quiet = false;
    drive->store = NULL;
    drive_note(drive, "closed:", err);
    if (err != ONCE_OK && err != ONCE_ERR_STOPPED)
        model_break(drive->model, HISTORY_NO_KEY, "once_close: %s", once_err_name(err));
    if (err != ONCE_OK && !drive->may_fail && !was_over && !disk_is_cut(drive->disk))
        model_break(drive->model, HISTORY_NO_KEY, "once_close failed on a good disk: %s",
                    once_err_name(err));
    if (err == ONCE_OK && drive->failed)
        model_break(drive->model, HISTORY_NO_KEY, "INV-8: closed well after a write had failed");
    if (!drive_over(drive) && drive->told_count < drive->call_count)
        model_break(drive->model, HISTORY_NO_KEY, "closed, and %zu operations were never told",
                    drive->call_count - drive->told_count);
    release_calls(drive);
    return err == ONCE_OK;
}
