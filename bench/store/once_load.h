/* SPDX-License-Identifier: Apache-2.0
 *
 * Once as the benchmarks use it: batches of begins and completes through the public calls.
 */
#ifndef BENCH_STORE_ONCE_LOAD_H
#define BENCH_STORE_ONCE_LOAD_H

#include <once/store.h>

#include "common.h"

/* The operations of one thread, used again for every batch. */
struct bench_ops {
    struct once_op *ops;
    struct bench_key *keys; /* of bench_ops_pair */
    size_t batch_max;
};

void bench_ops_init(struct bench_ops *ops, size_t batch_max);
void bench_ops_release(struct bench_ops *ops);

/* Begins a batch. Returns how many got EXECUTE; the others must be known (BUSY or REPLAY), anything
 * else dies. The keys stay the caller's and must stay until the next batch. ttl_ms 0 is the
 * default. */
size_t bench_ops_begin(struct bench_ops *ops, struct once_store *store,
                       const struct bench_key *keys, size_t count, once_ms ttl_ms);
/* Completes what the last begin of as many keys was given; dies unless all were EXECUTE. */
void bench_ops_complete(struct bench_ops *ops, struct once_store *store, size_t count);

/* Makes new keys, as many as a batch may have, begins and completes them. Returns the nanoseconds
 * that this took, without those for making the keys. */
uint64_t bench_ops_pair(struct bench_ops *ops, struct once_store *store, struct bench_keys *source,
                        once_ms ttl_ms);

/* Opens or dies. */
struct once_store *bench_once_open(const char *folder);
void bench_once_close(struct once_store *store);
/* Waits until the space that is filled ahead is there: a store is opened once and used for long. */
void bench_once_settle(struct once_store *store);
/* The value of a counter, 0 where there is none yet. */
int64_t bench_once_counter(struct once_store *store, const char *name);

#endif
