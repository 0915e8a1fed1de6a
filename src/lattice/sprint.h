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
 * that are not 8 to 71 bytes long, and where different members begin with the same 8 bytes. */
uint64_t once__sprint(struct once__run *a, struct once__run *b, uint8_t **out,
                      const uint8_t *out_end);

#endif
