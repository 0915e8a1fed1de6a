/* SPDX-License-Identifier: Apache-2.0
 *
 * See spread.h. Values below twice STEPS have a bucket each. From there on a value is shifted right
 * until it lies between STEPS and twice STEPS; the shift and what is left name its bucket.
 */
#include "spread.h"

#include <math.h>
#include <stddef.h>

static unsigned shift_of(uint64_t value)
{
    return value < 2 * BENCH_SPREAD_STEPS ? 0 : 57U - (unsigned)__builtin_clzll(value);
}

static size_t bucket_of(uint64_t value)
{
    unsigned shift = shift_of(value);

    return (size_t)shift * BENCH_SPREAD_STEPS + (size_t)(value >> shift);
}

/* The largest value that falls into this bucket. */
static uint64_t bucket_end(size_t bucket)
{
    unsigned shift;

    if (bucket < 2 * (size_t)BENCH_SPREAD_STEPS)
        return bucket;
    shift = (unsigned)(bucket / BENCH_SPREAD_STEPS) - 1;
    return (((uint64_t)(bucket - (size_t)shift * BENCH_SPREAD_STEPS) + 1) << shift) - 1;
}

void bench_spread_add(struct bench_spread *spread, uint64_t value)
{
    spread->buckets[bucket_of(value)]++;
    spread->count++;
    if (value > spread->max)
        spread->max = value;
}

uint64_t bench_spread_at(const struct bench_spread *spread, double part)
{
    uint64_t rank = (uint64_t)ceil(part * (double)spread->count), seen = 0;

    for (size_t i = 0; i < BENCH_SPREAD_BUCKETS; i++) {
        seen += spread->buckets[i];
        if (seen > 0 && seen >= rank)
            return bucket_end(i) < spread->max ? bucket_end(i) : spread->max;
    }
    return spread->max;
}
