/* SPDX-License-Identifier: Apache-2.0
 *
 * Does anybody notice when keys expire? A store is filled with keys that live for a while; load
 * with keys that live longer goes on (begin and complete, batches of 1,024, one thread). The
 * stretch before the first segment is retired is compared with the stretch in which all segments of
 * the filling are.
 */
#ifndef BENCH_STORE_EXPIRY_H
#define BENCH_STORE_EXPIRY_H

#include "common.h"

struct bench_expiry_load {
    const char *folder; /* as of bench_scratch_make */
    uint64_t keys;
    double steady_seconds; /* at least, before the first key expires */
};

/* What was seen in windows of 100 ms. */
struct bench_stretch {
    double ops;              /* begin and complete, a second */
    double ops_worst_second; /* of the slowest second */
    double pause_ms;         /* of the longest begin and complete of a batch */
};

struct bench_expiry {
    uint64_t segments; /* that expired */
    struct bench_stretch steady;
    struct bench_stretch expiring;
};

/* Dies when the disk is too uneven to tell the two stretches apart. */
struct bench_expiry bench_expire(const struct bench_expiry_load *load);

#endif
