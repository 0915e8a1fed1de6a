/* SPDX-License-Identifier: Apache-2.0
 *
 * A durable insert-if-absent, as bench_store drives it, and the engines behind it. All keep the
 * same keys with the same value; all have made a batch durable when insert returns.
 */
#ifndef BENCH_STORE_PEER_H
#define BENCH_STORE_PEER_H

#include "common.h"

/* The load that a peer is opened for. */
struct bench_load {
    const char *folder; /* on the disk under test: empty, or a copy of a filled store */
    int threads;
    size_t batch;    /* keys of one insert */
    size_t log_size; /* bytes of a file that a raw log fills ahead */
};

struct bench_peer {
    const char *name;
    /* insert tells new keys from known ones, so what the store holds makes a difference to it. A
     * raw log does not look. */
    bool looks;
    /* NULL: this file system cannot do it. Dies on every other failure. */
    void *(*open)(const struct bench_load *load);
    /* Inserts a batch for the thread of this number (0 to threads - 1; each calls for itself).
     * Returns how many of the keys were new. Dies on failure. */
    size_t (*insert)(void *self, int thread, const struct bench_key *keys, size_t count);
    /* After a new store was filled: leaves it as tidy as time would. NULL: nothing to do. */
    void (*tidy)(void *self);
    /* The insert that fills a store with what it holds before it is measured; NULL: insert. */
    size_t (*fill)(void *self, int thread, const struct bench_key *keys, size_t count);
    void (*close)(void *self);
};

extern const struct bench_peer bench_raw_fdatasync;
extern const struct bench_peer bench_raw_direct;
extern const struct bench_peer bench_rocksdb;
extern const struct bench_peer bench_lmdb;
extern const struct bench_peer bench_sqlite;
extern const struct bench_peer bench_once;
extern const struct bench_peer bench_once_pair; /* begin, then complete: two durable calls */

#endif
