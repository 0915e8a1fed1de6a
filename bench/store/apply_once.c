/* SPDX-License-Identifier: Apache-2.0
 *
 * Once: three effects under a key (a debit with a bound, a sum over all accounts, a message), and a
 * begin of the same key for comparison. A single key goes through the blocking calls, as
 * applications make them; a batch is one once_call. Durability "always", options as they come, a
 * fingerprint of 32 bytes given; once_apply_hash gives none, so that Once makes it of the effects.
 */
#include "apply_peer.h"

#include <once/apply.h>

#include <stdio.h>
#include <stdlib.h>

#include "once_load.h"

enum { EFFECTS = 3, DEBIT_WORDS = 5, TOTAL_WORDS = 3, EMIT_WORDS = 3, ACCOUNT_SIZE = 10 };

static const struct once_bytes namespace_name = {(const uint8_t *)"bench", 5};
static const struct once_bytes fingerprint = {bench_value, BENCH_FINGERPRINT_SIZE};
static const struct once_bytes none = {NULL, 0};

/* The words of one operation; only the account differs. */
struct order {
    struct once_bytes debit[DEBIT_WORDS];
    struct once_bytes total[TOTAL_WORDS];
    struct once_bytes emit[EMIT_WORDS];
    struct once_do dos[EFFECTS];
};

struct thread {
    struct once_op *ops;
    struct order *orders;
};

struct once_peer {
    struct once_store *store;
    struct thread *threads;
    struct bench_apply_load load;
    char accounts[BENCH_ACCOUNTS][ACCOUNT_SIZE];
    bool begins;
    bool hashes;
};

static void order_init(struct order *order)
{
    const char *debit[DEBIT_WORDS] = {"ADD", "", "-1", "MIN", "-1000000000"};
    const char *total[TOTAL_WORDS] = {"ADD", "total", "1"};
    const char *emit[EMIT_WORDS] = {"EMIT", "charges", ""};

    for (int i = 0; i < DEBIT_WORDS; i++)
        order->debit[i] = once_bytes_of(debit[i]);
    for (int i = 0; i < TOTAL_WORDS; i++)
        order->total[i] = once_bytes_of(total[i]);
    for (int i = 0; i < EMIT_WORDS; i++)
        order->emit[i] = once_bytes_of(emit[i]);
    order->emit[2] = (struct once_bytes){(const uint8_t *)bench_payload, BENCH_PAYLOAD_SIZE};
    order->dos[0] = (struct once_do){order->debit, DEBIT_WORDS};
    order->dos[1] = (struct once_do){order->total, TOTAL_WORDS};
    order->dos[2] = (struct once_do){order->emit, EMIT_WORDS};
}

static struct once_peer *open_peer(const struct bench_apply_load *load)
{
    struct once_peer *peer = bench_alloc(1, sizeof *peer);

    peer->store = bench_once_open(load->folder);
    peer->load = *load;
    peer->threads = bench_alloc((size_t)load->threads_max, sizeof *peer->threads);
    for (int i = 0; i < load->threads_max; i++) {
        size_t count = i == 0 ? load->batch_max : 1; /* batches come from the first only */

        peer->threads[i].ops = bench_alloc(count, sizeof *peer->threads[i].ops);
        peer->threads[i].orders = bench_alloc(count, sizeof *peer->threads[i].orders);
        for (size_t j = 0; j < count; j++)
            order_init(&peer->threads[i].orders[j]);
    }
    for (unsigned i = 0; i < BENCH_ACCOUNTS; i++)
        snprintf(peer->accounts[i], ACCOUNT_SIZE, "acct:%03u", i);
    return peer;
}

static void *open_begin(const struct bench_apply_load *load)
{
    struct once_peer *peer = open_peer(load);

    peer->begins = true;
    return peer;
}

static void *open_apply(const struct bench_apply_load *load)
{
    return open_peer(load);
}

static void *open_hash(const struct bench_apply_load *load)
{
    struct once_peer *peer = open_peer(load);

    peer->hashes = true;
    return peer;
}

static size_t is_new(struct once_peer *peer, struct once_reply *reply)
{
    enum once_word fresh = peer->begins ? ONCE_EXECUTE : ONCE_APPLIED;
    enum once_word word = reply->word;

    if (reply->err != ONCE_OK)
        bench_die("once: %s", reply->what ? reply->what : once_err_text(reply->err));
    if (word != fresh && word != ONCE_REPLAY && !(peer->begins && word == ONCE_BUSY))
        bench_die("once: answered %s", once_word_name(word));
    once_reply_release(reply);
    return word == fresh ? 1 : 0;
}

static void order_set(struct once_peer *peer, struct order *order, const struct bench_key *key)
{
    order->debit[1] = once_bytes_of(peer->accounts[bench_account(key)]);
}

static struct once_bytes key_bytes(const struct bench_key *key)
{
    return (struct once_bytes){(const uint8_t *)key->text, BENCH_KEY_SIZE};
}

static size_t apply_one(struct once_peer *peer, struct thread *thread, const struct bench_key *key)
{
    struct once_name name = {.ns = namespace_name, .key = key_bytes(key)};
    struct once_reply reply;

    if (peer->begins) {
        struct once_begin_options options = {.fingerprint = fingerprint};

        (void)once_begin(peer->store, name, &options, &reply);
    } else {
        struct once_apply_options options = {.fingerprint = peer->hashes ? none : fingerprint};

        order_set(peer, thread->orders, key);
        (void)once_apply(peer->store, name, &options, thread->orders->dos, EFFECTS, &reply);
    }
    return is_new(peer, &reply);
}

static size_t apply(void *self, int number, const struct bench_key *keys, size_t count)
{
    struct once_peer *peer = self;
    struct thread *thread = &peer->threads[number];
    size_t fresh = 0;

    if (count == 1)
        return apply_one(peer, thread, keys);
    if (number > 0 || count > peer->load.batch_max)
        bench_die("once: a batch of %zu from thread %d", count, number);
    for (size_t i = 0; i < count; i++) {
        thread->ops[i] = (struct once_op){
            .call = peer->begins ? ONCE_CALL_BEGIN : ONCE_CALL_APPLY,
            .ns = namespace_name,
            .key = key_bytes(&keys[i]),
            .fingerprint = peer->hashes ? none : fingerprint,
        };
        if (!peer->begins) {
            order_set(peer, &thread->orders[i], &keys[i]);
            thread->ops[i].dos = thread->orders[i].dos;
            thread->ops[i].do_count = EFFECTS;
        }
    }
    (void)once_call(peer->store, thread->ops, count);
    for (size_t i = 0; i < count; i++)
        fresh += is_new(peer, &thread->ops[i].reply);
    return fresh;
}

/* What a store of begins holds has ended, nearly all of it. */
static void fill_pairs(void *self, const struct bench_key *keys, size_t count)
{
    struct once_peer *peer = self;
    struct bench_ops ops;

    bench_ops_init(&ops, peer->load.batch_max);
    for (size_t at = 0; at < count; at += ops.batch_max) {
        size_t batch = count - at < ops.batch_max ? count - at : ops.batch_max;

        if (bench_ops_begin(&ops, peer->store, keys + at, batch, 0) != batch)
            bench_die("once: could not be filled");
        bench_ops_complete(&ops, peer->store, batch);
    }
    bench_ops_release(&ops);
}

static void fill(void *self, const struct bench_key *keys, size_t count)
{
    struct once_peer *peer = self;

    for (size_t at = 0; at < count; at += peer->load.batch_max) {
        size_t batch = count - at < peer->load.batch_max ? count - at : peer->load.batch_max;

        if (apply(self, 0, keys + at, batch) != batch)
            bench_die("once: could not be filled");
    }
}

static void sums(void *self, uint64_t *ret_debits, uint64_t *ret_messages)
{
    struct once_peer *peer = self;
    struct once_object outbox;
    uint64_t debits = 0;
    int err;

    for (unsigned i = 0; i < BENCH_ACCOUNTS; i++)
        debits += (uint64_t)-bench_once_counter(peer->store, peer->accounts[i]);
    if (debits != (uint64_t)bench_once_counter(peer->store, "total"))
        bench_die("once: the sum over all accounts is not the total");
    err = once_object_get(peer->store, once_bytes_of("charges"), &outbox);
    if (err != ONCE_OK)
        bench_die("once: charges: %s", once_err_text(err));
    *ret_messages = outbox.version;
    *ret_debits = debits;
    once_object_release(&outbox);
}

static void settle(void *self)
{
    bench_once_settle(((struct once_peer *)self)->store);
}

static void close_peer(void *self)
{
    struct once_peer *peer = self;

    bench_once_close(peer->store);
    for (int i = 0; i < peer->load.threads_max; i++) {
        free(peer->threads[i].ops);
        free(peer->threads[i].orders);
    }
    free(peer->threads);
    free(peer);
}

const struct bench_apply_peer bench_apply_begin = {
    .name = "once_begin",
    .batches = true,
    .open = open_begin,
    .fill = fill_pairs,
    .apply = apply,
    .settle = settle,
    .close = close_peer,
};

const struct bench_apply_peer bench_apply_once = {
    .name = "once_apply",
    .batches = true,
    .effects = true,
    .open = open_apply,
    .fill = fill,
    .apply = apply,
    .sums = sums,
    .settle = settle,
    .close = close_peer,
};

const struct bench_apply_peer bench_apply_once_hash = {
    .name = "once_apply_hash",
    .batches = true,
    .effects = true,
    .open = open_hash,
    .fill = fill,
    .apply = apply,
    .sums = sums,
    .settle = settle,
    .close = close_peer,
};
