/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers that one seed brings back: SplitMix64.
 */
#ifndef ONCE_TESTS_POWER_CHANCE_H
#define ONCE_TESTS_POWER_CHANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chance {
    uint64_t state;
};

static inline uint64_t chance_next(struct chance *chance)
{
    uint64_t z = (chance->state += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* 0 to count - 1. */
static inline uint64_t chance_below(struct chance *chance, uint64_t count)
{
    return chance_next(chance) % count;
}

/* first to last, both included. */
static inline int64_t chance_between(struct chance *chance, int64_t first, int64_t last)
{
    return first + (int64_t)chance_below(chance, (uint64_t)(last - first) + 1);
}

static inline bool chance_percent(struct chance *chance, unsigned percent)
{
    return chance_below(chance, 100) < percent;
}

/* An index of weights, each as likely as its weight says. */
static inline size_t chance_pick(struct chance *chance, const unsigned *weights, size_t count)
{
    uint64_t sum = 0, at;

    for (size_t i = 0; i < count; i++)
        sum += weights[i];
    at = chance_below(chance, sum);
    for (size_t i = 0; i < count; i++) {
        if (at < weights[i])
            return i;
        at -= weights[i];
    }
    return count - 1;
}

#endif
