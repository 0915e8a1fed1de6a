/* SPDX-License-Identifier: Apache-2.0
 *
 * "Debit an account, tell it to an outbox, once for each key", as bench_apply drives it: Once's
 * apply and begin, and the transaction that people write by hand in SQLite and PostgreSQL. All have
 * made it durable when apply returns.
 */
#ifndef BENCH_STORE_APPLY_PEER_H
#define BENCH_STORE_APPLY_PEER_H

#include "common.h"

enum { BENCH_ACCOUNTS = 1000, BENCH_PAYLOAD_SIZE = 32 };

/* What goes into the outbox each time. */
extern const char bench_payload[BENCH_PAYLOAD_SIZE];

/* The account that the operation of this key debits. */
unsigned bench_account(const struct bench_key *key);

/* The load that a peer is opened for. */
struct bench_apply_load {
    const char *folder; /* empty, on the disk under test */
    int threads_max;
    size_t batch_max;
};

struct bench_apply_peer {
    const char *name;
    bool batches; /* apply takes more than one key */
    bool effects; /* has accounts and an outbox */
    /* Dies on failure, as all of them. */
    void *(*open)(const struct bench_apply_load *load);
    /* Fills an empty store with keys, debits and messages, in the fastest way. */
    void (*fill)(void *self, const struct bench_key *keys, size_t count);
    /* For the thread of this number (0 to threads_max - 1; each calls for itself). Returns how many
     * of the keys were new; those have been applied, the others have changed nothing. */
    size_t (*apply)(void *self, int thread, const struct bench_key *keys, size_t count);
    /* What was debited from all accounts, and how many messages there are; effects only. */
    void (*sums)(void *self, uint64_t *ret_debits, uint64_t *ret_messages);
    /* Before a run: whatever is under way behind the scenes ends. NULL: nothing. */
    void (*settle)(void *self);
    void (*close)(void *self);
};

extern const struct bench_apply_peer bench_apply_begin;     /* once_begin, for comparison */
extern const struct bench_apply_peer bench_apply_once;      /* once_apply, three effects */
extern const struct bench_apply_peer bench_apply_once_hash; /* it makes the fingerprint itself */
extern const struct bench_apply_peer bench_apply_sqlite;
extern const struct bench_apply_peer bench_apply_postgres;       /* one round trip */
extern const struct bench_apply_peer bench_apply_postgres_steps; /* five, as most do it */

#endif
