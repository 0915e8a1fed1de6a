/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives and how they end. A life opens the store (which may itself be cut), looks at every key,
 * does random things, and ends by a power cut, a kill, a fault, a full disk or a close.
 */
#include "power/run.h"

#include "engine/mutant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPEN_TRIES_MAX = 40, /* until the store opens: faults are lifted long before */
    WALL_START_MS_LOW = 1000000000,
    DISK_SIZE_MAX = 1 << 26,
    SMALL_STEPS = 110,
    SMALL_STEPS_EXTENDED = 320
};

struct run {
    struct chance chance;
    struct disk *disk;
    struct history history;
    struct model model;
    struct workload workload;
    struct drive drive;
    struct once_options options;
    struct tally *tally;
    bool exists; /* something was told: the store is there for good */
};

struct run *run_new(struct extension *extension)
{
    struct run *run = calloc(1, sizeof(*run));

    if (!run)
        abort();
    run->model.extension = extension;
    return run;
}

void run_free(struct run *run)
{
    if (!run)
        return;
    history_release(&run->history);
    free(run);
}

void run_verbose(struct run *run, bool verbose)
{
    run->history.verbose = verbose;
}

const char *run_what(const struct run *run)
{
    return run->model.broken_text;
}

void run_report(const struct run *run, FILE *out)
{
    const struct model *model = &run->model;

    fprintf(out, "%s\n", model->broken_text);
    if (model->broken_key != HISTORY_NO_KEY) {
        struct once_name name = model->names[model->broken_key];

        fprintf(out, "key %d is %.*s/%.*s; its history:\n", model->broken_key, (int)name.ns.size,
                (const char *)name.ns.data, (int)name.key.size, (const char *)name.key.data);
    } else {
        fprintf(out, "the whole history:\n");
    }
    history_print(&run->history, model->broken_key, out);
}

static void note(struct run *run, const char *text, int64_t number)
{
    struct event event = {.kind = EVENT_NOTE,
                          .key = HISTORY_NO_KEY,
                          .life = run->model.life,
                          .disk_operation = disk_operations(run->disk),
                          .note = text,
                          .number = number};

    history_add(&run->history, &event);
}

/* ---- Setting up ------------------------------------------------------------------------------ */

static void start(struct run *run, uint64_t seed, int key_count, bool short_run,
                  struct tally *tally)
{
    static const uint32_t segment_sizes[] = {ONCE_SEGMENT_SIZE_MIN, ONCE_SEGMENT_SIZE_MIN, 1 << 16};

    run->chance = (struct chance){.state = seed * 0x2545f4914f6cdd1dULL + 1};
    run->tally = tally;
    run->exists = false;
    run->options = (struct once_options){
        .segment_size = segment_sizes[chance_below(&run->chance, 3)],
    };
    history_clear(&run->history);
    model_init(&run->model, &run->history);
    run->disk = disk_new(chance_next(&run->chance), DISK_SIZE_MAX);
    drive_init(&run->drive, run->disk, &run->model, &run->workload, &run->chance);
    run->drive.clock.wall_ms = WALL_START_MS_LOW + chance_between(&run->chance, 0, 1000000);
    run->drive.clock.boot_ms = chance_between(&run->chance, 0, 100000);
    run->workload = (struct workload){
        .large_percent = (unsigned)chance_between(&run->chance, 0, 12),
        .sense_percent = (unsigned)chance_between(&run->chance, 60, 95),
        .segment_size = run->options.segment_size,
    };
    workload_init(&run->workload, &run->chance, &run->model, key_count, run->drive.clock.wall_ms);
    if (run->model.extension)
        run->model.extension->start(run->model.extension->self, &run->model, &run->chance,
                                    short_run);
    tally->runs++;
}

static bool finish(struct run *run)
{
    struct tally *tally = run->tally;

    tally->calls += run->drive.counts.calls;
    tally->lists += run->drive.counts.lists;
    tally->refused_space += run->drive.counts.refused_space;
    tally->refused_large += run->drive.counts.refused_large;
    tally->finished_when_full += run->drive.counts.finished_when_full;
    tally->segments_retired += run->drive.counts.segments_retired;
    tally->records_carried += run->drive.counts.records_carried;
    tally->cold_reads += run->drive.counts.cold_reads;
    if (run->drive.counts.refused_damaged > 0)
        tally->flips_refused++;
    disk_free(run->disk);
    run->disk = NULL;
    return !run->model.broken;
}

/* Between two lives: some time without power or process, a clock that somebody set. */
static void outage(struct run *run, bool new_boot)
{
    struct fake_clock *clock = &run->drive.clock;
    once_ms away_ms = workload_pause(&run->chance);

    clock->wall_ms += away_ms;
    clock->boot_ms += away_ms;
    if (new_boot)
        clock->boot_ms = chance_between(&run->chance, 0, 100000);
    if (chance_percent(&run->chance, 25))
        clock->wall_ms += chance_between(&run->chance, -3600000, 60000);
    if (clock->wall_ms < 1)
        clock->wall_ms = 1;
}

/* ---- A life ---------------------------------------------------------------------------------- */

/* The life did not reach its end by itself: the power failed, or nothing can be told any more. */
static void power_cut(struct run *run)
{
    if (!disk_is_cut(run->disk))
        disk_cut(run->disk);
    run->tally->cuts++;
    note(run, "POWER CUT", (int64_t)run->tally->cuts);
    if (run->drive.store)
        drive_crash(&run->drive);
    model_crash(&run->model, false);
    outage(run, true);
}

static void process_kill(struct run *run)
{
    disk_kill(run->disk);
    run->tally->kills++;
    note(run, "KILL", (int64_t)run->tally->kills);
    if (run->drive.store)
        drive_crash(&run->drive);
    model_crash(&run->model, false);
    outage(run, false);
}

static void process_close(struct run *run)
{
    bool everything = drive_close(&run->drive);

    run->tally->closes++;
    if (disk_is_cut(run->disk)) {
        power_cut(run);
        return;
    }
    model_crash(&run->model, everything);
    outage(run, chance_percent(&run->chance, 30));
}

static void lift_faults(struct run *run)
{
    struct disk_faults none = {0};

    disk_set_faults(run->disk, &none);
    run->drive.may_fail = false;
    run->drive.may_fill = run->options.disk_size_max != 0;
}

/* One try to open and look. True when the model is exact and the life can go on; else the life is
 * over, and everything about its end is done. */
static bool try_open(struct run *run)
{
    struct once_message message = {{0}};
    struct once_options options = run->options;
    int err;

    run->model.life++;
    run->tally->lives++;
    options.must_exist = run->exists && chance_percent(&run->chance, 50);
    err = drive_open(&run->drive, &options, &message);
    if (err == ONCE_OK && !run->model.broken && !disk_is_cut(run->disk) &&
        drive_look(&run->drive)) {
        run->exists = true;
        return true;
    }
    if (run->model.broken) {
        if (run->drive.store)
            drive_crash(&run->drive);
        return false;
    }
    if (disk_is_cut(run->disk)) {
        run->tally->cuts_in_recovery++;
        power_cut(run);
        return false;
    }
    if (err != ONCE_OK && !(err == ONCE_ERR_IO && run->drive.may_fail) &&
        !(err == ONCE_ERR_SPACE && run->drive.may_fill) && !run->drive.may_damage) {
        model_break(&run->model, HISTORY_NO_KEY, "the store does not open: %s: %s",
                    once_err_name(err), message.text);
        return false;
    }
    note(run, "opening was in vain", err);
    process_kill(run);
    return false;
}

/* Opens, however often the power fails meanwhile. False when something was wrong. */
static bool open_at_last(struct run *run)
{
    for (int tries = 0; tries < OPEN_TRIES_MAX && !run->model.broken; tries++) {
        if (try_open(run))
            return true;
        if (run->model.broken)
            return false;
        /* A cut in a recovery, often another one in the next. */
        lift_faults(run);
        if (tries < OPEN_TRIES_MAX / 2 && chance_percent(&run->chance, 40)) {
            struct disk_faults faults = {.cut_at = disk_operations(run->disk) + 1 +
                                                   chance_below(&run->chance, 8)};

            disk_set_faults(run->disk, &faults);
        }
    }
    if (!run->model.broken)
        model_break(&run->model, HISTORY_NO_KEY, "the store never opened");
    return false;
}

/* How a life shall go. */
static void set_random_faults(struct run *run)
{
    static const unsigned weights[] = {70, 6, 6, 10, 8};
    struct chance *chance = &run->chance;
    uint64_t now = disk_operations(run->disk);
    struct disk_faults faults = {0};

    run->options.disk_size_max = 0;
    lift_faults(run);
    /* From the next operation on (the opening) to far behind the end of the life. */
    faults.cut_at = now + 1 + chance_below(chance, chance_percent(chance, 30) ? 12 : 90);
    if (run->model.extension && chance_percent(chance, 25)) /* what is large takes longer */
        faults.cut_at += chance_below(chance, 300);
    switch (chance_pick(chance, weights, 5)) {
    case 1:
        faults.fail_write_at = now + 1 + chance_below(chance, 50);
        break;
    case 2:
        faults.fail_sync_at = now + 1 + chance_below(chance, 50);
        break;
    case 3:
        faults.full_at = now + 1 + chance_below(chance, 40);
        run->drive.may_fill = true;
        faults.cut_at += 60;
        break;
    case 4:
        faults.cut_at = 0;
        break;
    default:
        break;
    }
    if (faults.fail_write_at != 0 || faults.fail_sync_at != 0) {
        /* A store that tries again would try for ever. */
        faults.fail_for_ever = chance_percent(chance, 30) &&
                               once__mutant != ONCE__MUTANT_SYNC_RETRIED;
        faults.cut_at = chance_percent(chance, 50) ? faults.cut_at : 0;
        run->drive.may_fail = true;
        run->tally->failures++;
    }
    if (run->drive.may_fill)
        run->tally->fills++;
    run->options.objects_size_max = 0;
    run->drive.may_crowd = run->model.extension && chance_percent(chance, 5);
    if (run->drive.may_crowd)
        run->options.objects_size_max = (uint64_t)chance_between(chance, 1000, 60000);
    if (chance_percent(chance, 6)) {
        run->options.disk_size_max = (uint64_t)run->options.segment_size *
                                     (uint64_t)chance_between(chance, 6, 14);
        run->drive.may_fill = true;
    }
    disk_set_faults(run->disk, &faults);
}

static void end_life(struct run *run)
{
    if (run->model.broken) {
        drive_crash(&run->drive);
        return;
    }
    if (disk_is_cut(run->disk) || chance_percent(&run->chance, 55))
        power_cut(run);
    else if (chance_percent(&run->chance, 40))
        process_kill(run);
    else
        process_close(run);
}

static void live(struct run *run, size_t steps)
{
    for (size_t i = 0; i < steps && !drive_over(&run->drive); i++)
        drive_step(&run->drive);
    if (run->drive.may_fill && !drive_over(&run->drive) && !run->drive.failed)
        drive_finish_all(&run->drive);
    if (!drive_over(&run->drive) && chance_percent(&run->chance, 30)) {
        drive_drain(&run->drive);
        if (chance_percent(&run->chance, 50))
            drive_compare(&run->drive);
    }
}

/* ---- A flipped bit --------------------------------------------------------------------------- */

/* Flips one bit of one file. False when the choice fell on nothing. */
static bool flip(struct run *run)
{
    char name[32];
    uint64_t size, offset;
    unsigned bit = (unsigned)chance_below(&run->chance, 8);

    for (int tries = 0; tries < 50; tries++) {
        uint64_t slot = chance_below(&run->chance, 12);
        uint64_t kind = chance_below(&run->chance, 10);

        if (run->model.extension && run->model.extension->file && tries == 0 && slot < 4)
            snprintf(name, sizeof(name), "%s", run->model.extension->file);
        else if (kind == 0)
            snprintf(name, sizeof(name), "store");
        else
            snprintf(name, sizeof(name), "%06" PRIx64 ".%s", slot, kind < 3 ? "idx" : "seg");
        size = disk_file_size(run->disk, name);
        if (size == 0)
            continue;
        offset = chance_below(&run->chance, size);
        if (!disk_flip(run->disk, name, offset, (uint8_t)(1U << bit)))
            return false;
        if (name[0] == '0')
            note(run, kind < 3 ? "FLIP in the sidecar of slot" : "FLIP in slot", (int64_t)slot);
        note(run,
             name[0] == '0'   ? "FLIP at"
             : name[0] == 's' ? "FLIP in store, at"
                              : "FLIP in the extension's file, at",
             (int64_t)offset);
        return true;
    }
    return false;
}

/* Closes a store, flips a bit and opens it again: it refuses, or answers rightly, or refuses the
 * record; it never answers wrongly and never says that a key is absent that is not. */
static void flipped_life(struct run *run)
{
    if (!flip(run))
        return;
    run->tally->flips++;
    run->drive.may_damage = true;
    if (!try_open(run)) {
        run->tally->flips_refused++;
        return;
    }
    for (size_t i = 0; i < 60 && !drive_over(&run->drive); i++)
        drive_step(&run->drive);
    drive_crash(&run->drive);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

bool run_random(struct run *run, uint64_t seed, struct tally *tally)
{
    struct chance *chance = &run->chance;
    size_t lives;

    start(run, seed, 2 + (int)(seed % (MODEL_KEYS_MAX - 2)), false, tally);
    lives = 4 + chance_below(chance, 12);
    for (size_t i = 0; i < lives && !run->model.broken; i++) {
        set_random_faults(run);
        if (!open_at_last(run))
            break;
        live(run, 20 + chance_below(chance, run->model.extension ? 240 : 120));
        end_life(run);
    }
    if (!run->model.broken) {
        lift_faults(run);
        if (open_at_last(run)) {
            drive_compare(&run->drive);
            lift_faults(run); /* nothing may stop the close */
            live(run, 20);
            if (!drive_over(&run->drive))
                process_close(run);
            else
                end_life(run);
        }
    }
    if (!run->model.broken && chance_percent(chance, 50))
        flipped_life(run);
    return finish(run);
}

bool run_small(struct run *run, uint64_t seed, const struct spot *spot, struct tally *tally,
               uint64_t *ret_operations, uint64_t *ret_recovery_operations)
{
    size_t steps = run->model.extension ? SMALL_STEPS_EXTENDED : SMALL_STEPS;
    struct disk_faults faults = {0};
    uint64_t before;

    start(run, seed, run->model.extension ? 12 : 4, true, tally);
    if (run->model.extension && seed % 2 == 0) { /* little space: what is old must go */
        run->options.disk_size_max = (uint64_t)run->options.segment_size * (6 + seed % 3);
        run->drive.may_fill = true;
    }
    if (spot->fault == FAULT_CUT)
        faults.cut_at = spot->at;
    if (spot->fault == FAULT_FAIL_WRITE)
        faults.fail_write_at = spot->at;
    if (spot->fault == FAULT_FAIL_SYNC)
        faults.fail_sync_at = spot->at;
    run->drive.may_fail = faults.fail_write_at != 0 || faults.fail_sync_at != 0;
    disk_set_faults(run->disk, &faults);

    if (try_open(run)) {
        for (size_t i = 0; i < steps && !drive_over(&run->drive) &&
                           !(spot->fault == FAULT_KILL && disk_operations(run->disk) >= spot->at);
             i++)
            drive_step(&run->drive);
        *ret_operations = disk_operations(run->disk);
        if (run->model.broken)
            drive_crash(&run->drive);
        else if (disk_is_cut(run->disk))
            power_cut(run);
        else if (spot->fault == FAULT_KILL)
            process_kill(run);
        else
            process_close(run);
    }
    *ret_operations = disk_operations(run->disk);

    before = disk_operations(run->disk);
    lift_faults(run);
    if (spot->then_at != 0) {
        faults = (struct disk_faults){.cut_at = before + spot->then_at};
        disk_set_faults(run->disk, &faults);
    }
    if (!run->model.broken && try_open(run)) {
        drive_crash(&run->drive);
        disk_cut(run->disk);
        tally->cuts++;
        model_crash(&run->model, false);
    }
    *ret_recovery_operations = disk_operations(run->disk) - before;
    lift_faults(run);
    if (!run->model.broken && try_open(run)) {
        drive_compare(&run->drive);
        live(run, 12);
        if (run->model.broken)
            drive_crash(&run->drive);
        else
            process_close(run);
    }
    if (!run->model.broken && try_open(run))
        drive_crash(&run->drive);
    return finish(run);
}
