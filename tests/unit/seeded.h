/* SPDX-License-Identifier: Apache-2.0
 *
 * For property tests: cmocka, and random numbers that one seed brings back. ONCE_SEED=n replays.
 */
#ifndef ONCE_TESTS_SEEDED_H
#define ONCE_TESTS_SEEDED_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* The seed of this run: ONCE_SEED, else the clock. Printed, so that a failure can be replayed. */
static inline uint64_t seeded_start(const char *what)
{
    const char *given = getenv("ONCE_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);

    printf("# %s: ONCE_SEED=%" PRIu64 " replays this run\n", what, seed);
    return seed;
}

/* SplitMix64. */
static inline uint64_t seeded_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* 0 to count - 1. */
static inline uint64_t seeded_below(uint64_t *state, uint64_t count)
{
    return seeded_next(state) % count;
}

#endif
