/* SPDX-License-Identifier: Apache-2.0
 *
 * See once_load.h.
 */
#include "once_load.h"

#include <once/apply.h>

#include <stdlib.h>
#include <string.h>

enum { SETTLE_MS_MAX = 3000, SETTLE_STEP_MS = 10, SETTLE_STEPS = 5 };

static const char namespace_name[] = "bench";
static const uint8_t answer[16] = "{\"status\":\"ok\"}";

void bench_ops_init(struct bench_ops *ops, size_t batch_max)
{
    ops->ops = bench_alloc(batch_max, sizeof *ops->ops);
    ops->keys = bench_alloc(batch_max, sizeof *ops->keys);
    ops->batch_max = batch_max;
}

void bench_ops_release(struct bench_ops *ops)
{
    free(ops->ops);
    free(ops->keys);
    *ops = (struct bench_ops){0};
}

size_t bench_ops_begin(struct bench_ops *ops, struct once_store *store,
                       const struct bench_key *keys, size_t count, once_ms ttl_ms)
{
    size_t executed = 0;
    int err;

    if (count > ops->batch_max)
        bench_die("a batch of %zu, made for %zu", count, ops->batch_max);
    for (size_t i = 0; i < count; i++) {
        ops->ops[i] = (struct once_op){
            .call = ONCE_CALL_BEGIN,
            .ns = {.data = (const uint8_t *)namespace_name, .size = sizeof namespace_name - 1},
            .key = {.data = (const uint8_t *)keys[i].text, .size = BENCH_KEY_SIZE},
            .fingerprint = {.data = bench_value, .size = BENCH_FINGERPRINT_SIZE},
            .ttl_ms = ttl_ms,
        };
    }
    err = once_call(store, ops->ops, count);
    if (err != ONCE_OK)
        bench_die("once: begin: %s", once_err_text(err));
    for (size_t i = 0; i < count; i++) {
        struct once_reply *reply = &ops->ops[i].reply;

        if (reply->word == ONCE_EXECUTE)
            executed++;
        else if (reply->word != ONCE_BUSY && reply->word != ONCE_REPLAY)
            bench_die("once: begin answered %s", once_word_name(reply->word));
        ops->ops[i].fence = reply->fence;
        once_reply_release(reply);
    }
    return executed;
}

void bench_ops_complete(struct bench_ops *ops, struct once_store *store, size_t count)
{
    int err;

    for (size_t i = 0; i < count; i++) {
        struct once_op *op = &ops->ops[i];

        *op = (struct once_op){
            .call = ONCE_CALL_COMPLETE,
            .ns = op->ns,
            .key = op->key,
            .fence = op->fence,
            .result = {.data = answer, .size = sizeof answer},
        };
    }
    err = once_call(store, ops->ops, count);
    if (err != ONCE_OK)
        bench_die("once: complete: %s", once_err_text(err));
    for (size_t i = 0; i < count; i++) {
        if (ops->ops[i].reply.word != ONCE_DONE)
            bench_die("once: complete answered %s", once_word_name(ops->ops[i].reply.word));
        once_reply_release(&ops->ops[i].reply);
    }
}

uint64_t bench_ops_pair(struct bench_ops *ops, struct once_store *store, struct bench_keys *source,
                        once_ms ttl_ms)
{
    uint64_t begun_ns;

    bench_keys_next(source, ops->keys, ops->batch_max);
    begun_ns = bench_now_ns();
    if (bench_ops_begin(ops, store, ops->keys, ops->batch_max, ttl_ms) != ops->batch_max)
        bench_die("once: new keys were known");
    bench_ops_complete(ops, store, ops->batch_max);
    return bench_now_ns() - begun_ns;
}

struct once_store *bench_once_open(const char *folder)
{
    struct once_store *store = NULL;
    struct once_message message;
    int err = once_open(folder, NULL, &store, &message);

    if (err != ONCE_OK)
        bench_die("once: open: %s", message.text);
    return store;
}

void bench_once_close(struct once_store *store)
{
    int err = once_close(store);

    if (err != ONCE_OK)
        bench_die("once: close: %s", once_err_text(err));
}

void bench_once_settle(struct once_store *store)
{
    struct once_stats stats;
    uint64_t disk_size = 0;
    int still = 0;

    for (int ms = 0; ms < SETTLE_MS_MAX && still < SETTLE_STEPS; ms += SETTLE_STEP_MS) {
        once_stats_get(store, &stats);
        still = stats.disk_size == disk_size ? still + 1 : 0;
        disk_size = stats.disk_size;
        bench_sleep_ms(SETTLE_STEP_MS);
    }
}

int64_t bench_once_counter(struct once_store *store, const char *name)
{
    static const char before[] = "\"value\":";
    struct once_object object;
    int err = once_object_get(store, once_bytes_of(name), &object);
    int64_t value = 0;

    if (err != ONCE_OK)
        bench_die("once: %s: %s", name, once_err_text(err));
    if (object.type != ONCE_OBJECT_NONE) {
        const char *at = memmem(object.json.data, object.json.size, before, sizeof before - 1);

        if (object.type != ONCE_OBJECT_COUNTER || !at)
            bench_die("once: %s is not a counter", name);
        value = strtoll(at + sizeof before - 1, NULL, 10);
    }
    once_object_release(&object);
    return value;
}
