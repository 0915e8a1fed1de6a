/* SPDX-License-Identifier: Apache-2.0
 *
 * Once: a begin of each key of a batch in one once_call, durability "always", options as they come.
 * A begin of a new key is the insert; a begin of a known one says so. once_pair completes each
 * batch with a second durable call: what an operation costs from start to end.
 */
#include "peer.h"

#include <stdlib.h>

#include "once_load.h"

struct once_peer {
    struct once_store *store;
    struct bench_ops *ops; /* one a thread */
    int threads;
};

static void *open_once(const struct bench_load *load)
{
    struct once_peer *peer = bench_alloc(1, sizeof *peer);

    peer->store = bench_once_open(load->folder);
    bench_once_settle(peer->store);
    peer->threads = load->threads;
    peer->ops = bench_alloc((size_t)load->threads, sizeof *peer->ops);
    for (int i = 0; i < load->threads; i++)
        bench_ops_init(&peer->ops[i], load->batch);
    return peer;
}

static size_t insert(void *self, int thread, const struct bench_key *keys, size_t count)
{
    struct once_peer *peer = self;

    return bench_ops_begin(&peer->ops[thread], peer->store, keys, count, 0);
}

static size_t insert_pair(void *self, int thread, const struct bench_key *keys, size_t count)
{
    struct once_peer *peer = self;
    size_t executed = bench_ops_begin(&peer->ops[thread], peer->store, keys, count, 0);

    if (executed == count)
        bench_ops_complete(&peer->ops[thread], peer->store, count);
    return executed;
}

static void close_once(void *self)
{
    struct once_peer *peer = self;

    bench_once_close(peer->store);
    for (int i = 0; i < peer->threads; i++)
        bench_ops_release(&peer->ops[i]);
    free(peer->ops);
    free(peer);
}

const struct bench_peer bench_once = {
    .name = "once",
    .looks = true,
    .open = open_once,
    .insert = insert,
    .fill = insert_pair, /* what a store holds has ended, nearly all of it */
    .close = close_once,
};

const struct bench_peer bench_once_pair = {
    .name = "once_pair",
    .looks = true,
    .open = open_once,
    .insert = insert_pair,
    .close = close_once,
};
