/* SPDX-License-Identifier: Apache-2.0
 *
 * What metrics.c counts and metrics_text.c writes.
 */
#ifndef ONCE_SERVER_METRICS_INNER_H
#define ONCE_SERVER_METRICS_INNER_H

#include <pthread.h>

#include "server/metrics.h"

enum { ONCE__COUNT_SLOTS = 512, ONCE__CACHE_LINE = 64 };

#define ONCE__OTHERS "every other"

/* On a line of its own: different threads count different things. */
struct once__gauge_line {
    _Alignas(ONCE__CACHE_LINE) _Atomic uint64_t value;
};

struct once__metrics {
    struct once__gauge_line gauges[ONCE__GAUGE_COUNT];
    struct once__histogram took[ONCE__CALL_COUNT];
    struct once__histogram waited;
    uint64_t seed; /* of the table: nobody may choose names that meet */
    struct once__counts *_Atomic slots[ONCE__COUNT_SLOTS];
    struct once__counts nameless; /* calls without a namespace */
    struct once__counts others;
    _Atomic uint64_t uncounted; /* operations begun in namespaces without counters of their own */
    pthread_mutex_t adding;
    size_t count; /* under adding */
};

/* The counters of one namespace after the other; *at is 0 at the beginning. NULL: no more. */
const struct once__counts *once__metrics_each(const struct once__metrics *metrics, size_t *at);
/* How many operations were begun in namespaces that have no counters of their own: scopes
 * ("pay~acme"), and those past the bound. */
uint64_t once__metrics_uncounted(const struct once__metrics *metrics);

#endif
