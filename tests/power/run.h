/* SPDX-License-Identifier: Apache-2.0
 *
 * A run: a disk, and the lives of a store on it, one after the other, each ended by something. All
 * of it follows from the seed.
 */
#ifndef ONCE_TESTS_POWER_RUN_H
#define ONCE_TESTS_POWER_RUN_H

#include "power/drive.h"

/* What happened, over all runs. */
struct tally {
    uint64_t runs;
    uint64_t lives;
    uint64_t cuts;
    uint64_t cuts_in_recovery;
    uint64_t kills;
    uint64_t closes;
    uint64_t failures; /* of writes and syncs */
    uint64_t fills;
    uint64_t flips;
    uint64_t flips_refused; /* the store did not open, or a record was refused */
    uint64_t calls;
    uint64_t lists;
    uint64_t refused_space;
    uint64_t refused_large;
    uint64_t finished_when_full;
    uint64_t segments_retired;
    uint64_t records_carried;
    uint64_t cold_reads;
};

/* A fault of a small workload, at one disk operation. */
enum fault {
    FAULT_NONE,
    FAULT_CUT,
    FAULT_KILL, /* after the operation */
    FAULT_FAIL_WRITE,
    FAULT_FAIL_SYNC,
    FAULT_COUNT
};
struct spot {
    enum fault fault;
    uint64_t at;      /* disk operation, from 1 on; 0 is never */
    uint64_t then_at; /* and the power fails this many operations after the next opening; 0: not */
};

struct run;
/* extension may be NULL; borrowed. */
struct run *run_new(struct extension *extension);
void run_free(struct run *run);
void run_verbose(struct run *run, bool verbose);

/* A run of random lives. False when something was wrong: run_report says what. */
bool run_random(struct run *run, uint64_t seed, struct tally *tally);
/* A small workload with one fault; *ret_operations is how many disk operations the first life
 * took. */
bool run_small(struct run *run, uint64_t seed, const struct spot *spot, struct tally *tally,
               uint64_t *ret_operations, uint64_t *ret_recovery_operations);
/* What was wrong, in a line; and with the history of the key. */
const char *run_what(const struct run *run);
void run_report(const struct run *run, FILE *out);

#endif
