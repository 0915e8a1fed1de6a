/* SPDX-License-Identifier: Apache-2.0
 *
 * Deliberate mistakes, for the tests that must catch them. Only a build with ONCE_MUTANTS, which is
 * never shipped, has them; everywhere else each is the constant 0.
 */
#ifndef ONCE_ENGINE_MUTANT_H
#define ONCE_ENGINE_MUTANT_H

enum once__mutant {
    ONCE__MUTANT_NONE,
    ONCE__MUTANT_ACK_BEFORE_SYNC,  /* answers are told before they are durable */
    ONCE__MUTANT_NO_CHECKSUM,      /* a torn batch is taken for a good one */
    ONCE__MUTANT_INDEX_BEFORE_LOG, /* others are told of a record that is not durable yet */
    ONCE__MUTANT_EXPIRY_DROPS_DOUBTS,
    ONCE__MUTANT_SYNC_RETRIED,        /* after a failed durable write the store tries again */
    ONCE__MUTANT_GAP_SKIPPED,         /* recovery goes on behind a missing batch */
    ONCE__MUTANT_FENCE_FORGOTTEN,     /* the last fence is not taken from the log */
    ONCE__MUTANT_TIME_FORGOTTEN,      /* neither is store time */
    ONCE__MUTANT_RETIRE_BEFORE_CARRY, /* a segment is given up before what it carries is durable */
    ONCE__MUTANT_SNAPSHOT_BEFORE_DURABLE, /* it counts before the log has all that is in it */
    ONCE__MUTANT_SNAPSHOT_SKIPS_OBJECT,
    ONCE__MUTANT_EDITS_FORGOTTEN,  /* a segment goes whose edits are in no snapshot */
    ONCE__MUTANT_EDITS_BEFORE_LOG, /* objects are shown before their edits are durable */
    ONCE__MUTANT_COUNT
};

#ifdef ONCE_MUTANTS
extern enum once__mutant once__mutant;
#define ONCE__MUTANT(name) (once__mutant == ONCE__MUTANT_##name)
#else
#define ONCE__MUTANT(name) 0
#endif

#endif
