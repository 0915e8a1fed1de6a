/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives one store by hand through one life: what is submitted, which writes are taken, written and
 * reported, in which order, and every answer into the model.
 *
 * The engine writes the reply of a submitted operation when it decides it and tells it later. The
 * driver looks at the reply in between, to know *that* it was decided, in which order, and whether
 * it was refused; nothing else in here depends on the inside of the engine.
 */
#ifndef ONCE_TESTS_POWER_DRIVE_H
#define ONCE_TESTS_POWER_DRIVE_H

#include "disk/disk.h"
#include "engine/engine.h"
#include "power/workload.h"

enum { DRIVE_CALLS_MAX = 600, DRIVE_GROUP_MAX = 12 };

struct drive;

/* A submitted operation. */
struct call {
    struct once_op op;
    struct drive *drive;
    int key;
    bool decided;
    bool in_time; /* decided before any write failed */
    bool told;
    struct promise promise;
};

struct fake_clock {
    once_ms wall_ms; /* jumps */
    once_ms boot_ms; /* only advances within a life */
};

/* A write on its way. */
struct flight {
    struct once__write *write;
    bool done; /* tried; err is how it went */
    int err;
    int64_t number; /* in this life */
};

struct drive {
    struct disk *disk;
    struct model *model;
    struct workload *workload;
    struct chance *chance;
    struct fake_clock clock;
    struct once__time_source source;

    struct once_store *store;
    once_ms start_ms; /* store time at start_boot_ms */
    once_ms start_boot_ms;

    struct call calls[DRIVE_CALLS_MAX];
    size_t call_count;
    size_t told_count;
    size_t decided_count;
    size_t undecided;  /* the first that is not decided */
    size_t told_order; /* entries up to the last change that was told by a callback */
    bool quiet;        /* callbacks submit nothing */

    struct flight flights[ONCE_BATCHES_IN_FLIGHT_MAX];
    size_t flight_count;
    int64_t taken;

    /* What may happen in this life. */
    bool may_fail;   /* writes may fail */
    bool may_fill;   /* space may run out */
    bool may_crowd;  /* memory for objects may run out */
    bool may_damage; /* a bit was flipped */
    bool failed;     /* a durable write did: nothing may be told any more (INV-8) */

    struct {
        uint64_t calls;
        uint64_t refused_space;
        uint64_t refused_large;
        uint64_t refused_full;
        uint64_t refused_damaged;
        uint64_t finished_when_full;
        uint64_t lists;
        uint64_t segments_retired;
        uint64_t records_carried;
        uint64_t cold_reads;
    } counts;
};

void drive_init(struct drive *drive, struct disk *disk, struct model *model,
                struct workload *workload, struct chance *chance);

/* Opens the store on the disk as it is. */
int drive_open(struct drive *drive, const struct once_options *options,
               struct once_message *ret_message);
once_ms drive_now(const struct drive *drive);
/* The life cannot go on: the power is off, or something was wrong. */
bool drive_over(const struct drive *drive);

/* Into the history. */
void drive_note(struct drive *drive, const char *text, int64_t number);
/* After every call of the engine: what it has decided meanwhile, in the order of submission. */
void drive_look_for_decisions(struct drive *drive);
void drive_submit(struct drive *drive, int key, const struct once_op *op);
/* Blocking calls, decided in order and told together. True when all have ONCE_OK. */
bool drive_call_group(struct drive *drive, struct once_op *ops, const int *keys, size_t count);

/* After opening: looks at every key until the model is exact. False: the life was over first. */
bool drive_look(struct drive *drive);
/* One random thing. */
void drive_step(struct drive *drive);
/* Writes and works until everything is told. */
void drive_drain(struct drive *drive);
/* Nothing is in the driver's hands that a blocking call would wait for. */
bool drive_may_block(const struct drive *drive);
/* A list by a random filter; only when it may block. */
void drive_list(struct drive *drive);
/* Numbers that the model knows as well; settled: nothing is under way. */
void drive_numbers(struct drive *drive, bool settled);
/* Compares list and numbers with the model; nothing may be under way. */
void drive_compare(struct drive *drive);
/* Every operation that is running now can end, however full the disk is (INV-7). */
void drive_finish_all(struct drive *drive);

/* Ends the life: as a crash would, or by closing. True when all is durable. */
void drive_crash(struct drive *drive);
bool drive_close(struct drive *drive);

#endif
