/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast stretch of merging two large sets of short members; entries.c does everything else.
 */
#ifndef ONCE_LATTICE_SPRINT_H
#define ONCE_LATTICE_SPRINT_H

#include "lattice/codec.h"

/* Entries of width 0 that are still to be merged: `left` of them, from `at` on, before `end`. */
struct once__run {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t left;
};

/* Merges from both runs to *out for as long as it is sure, and moves all three. Gives the number of
 * entries written, 0 if it could not even start: near the end of a run or of the output, at members
 * that are empty or of more than about 70 bytes, and where different members are the same in the 8
 * bytes behind what all members around them begin with. */
uint64_t once__sprint(struct once__run *a, struct once__run *b, uint8_t **out,
                      const uint8_t *out_end);

#endif
