/* SPDX-License-Identifier: Apache-2.0
 *
 * How long things took: counts in buckets whose width grows with the value, so that any number of
 * measurements take the same memory and every percentile is right to within 1 in 64.
 */
#ifndef BENCH_SERVER_SPREAD_H
#define BENCH_SERVER_SPREAD_H

#include <stdint.h>

enum {
    BENCH_SPREAD_STEPS = 64, /* buckets between a power of two and the next */
    BENCH_SPREAD_BUCKETS = (64 - 5) * BENCH_SPREAD_STEPS
};

struct bench_spread {
    uint64_t count;
    uint64_t max;
    uint64_t buckets[BENCH_SPREAD_BUCKETS];
};

void bench_spread_add(struct bench_spread *spread, uint64_t value);
/* The value that this part of all (0 to 1) does not exceed; 0 when there is none. Never more than
 * the largest one. */
uint64_t bench_spread_at(const struct bench_spread *spread, double part);

#endif
