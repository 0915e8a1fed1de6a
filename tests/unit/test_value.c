/* SPDX-License-Identifier: Apache-2.0
 *
 * Values: what is set is there, for as long as it was said, and never instead of an operation that
 * is under way. And the order in which the operations of one key are decided.
 */
#include "engine_help.h"

#include <semaphore.h>

#include "core/value.h"
#include "engine/inner.h"

static struct once_op set_op(const char *value)
{
    return (struct once_op){.call = ONCE_CALL_SET, .result = once_bytes_of(value)};
}

/* The value that is there, or NULL; the text is overwritten by the next. */
static const char *value_of(struct life *life, const char *key)
{
    static char text[64];
    struct once_op op = {.call = ONCE_CALL_GET};
    bool there;

    assert_int_equal(life_call(life, &op, key), ONCE_OK);
    there = op.reply.word == ONCE_DONE;
    if (there) {
        assert_int_equal(op.reply.state, ONCE_STATE_COMPLETED);
        assert_true(op.reply.result.size < sizeof(text));
        memcpy(text, op.reply.result.size > 0 ? op.reply.result.data : (const uint8_t *)"",
               op.reply.result.size);
        text[op.reply.result.size] = '\0';
    }
    once_reply_release(&op.reply);
    return there ? text : NULL;
}

static once_ms left_ms(struct life *life, const char *key)
{
    struct once_op op = {.call = ONCE_CALL_GET};
    once_ms left;

    assert_int_equal(life_call(life, &op, key), ONCE_OK);
    assert_int_equal(op.reply.word, ONCE_DONE);
    left = op.reply.expires_ms - op.reply.now_ms;
    once_reply_release(&op.reply);
    return left;
}

/* ---- Set ------------------------------------------------------------------------------------- */

static void set__absent__is_there_after_every_end(void **state)
{
    (void)state;
    for (int end = 0; end < LIFE_END_COUNT; end++) {
        struct life life;

        life_begin(&life);
        assert_int_equal(life_word(&life, set_op("one"), "k", NULL), ONCE_DONE);
        life_again(&life, (enum life_end)end);
        assert_string_equal(value_of(&life, "k"), "one");
        assert_int_equal(life_word(&life, set_op("two"), "k", NULL), ONCE_DONE);
        life_again(&life, (enum life_end)end);
        assert_string_equal(value_of(&life, "k"), "two");
        life_end(&life);
    }
}

static void set__conditions__hold_or_change_nothing(void **state)
{
    struct once_op absent = set_op("new"), present = set_op("newer");
    struct life life;

    (void)state;
    absent.when = ONCE_WHEN_ABSENT;
    present.when = ONCE_WHEN_PRESENT;
    life_begin(&life);
    assert_int_equal(life_word(&life, present, "k", NULL), ONCE_NOTFOUND);
    assert_null(value_of(&life, "k"));
    assert_int_equal(life_word(&life, absent, "k", NULL), ONCE_DONE);
    absent.result = once_bytes_of("other");
    assert_int_equal(life_word(&life, absent, "k", NULL), ONCE_NOTFOUND);
    assert_string_equal(value_of(&life, "k"), "new");
    assert_int_equal(life_word(&life, present, "k", NULL), ONCE_DONE);
    assert_string_equal(value_of(&life, "k"), "newer");
    life_end(&life);
}

static void set__over_a_value__tells_the_one_before(void **state)
{
    struct once_op op = set_op("one"), again = set_op("two"), not_now = set_op("three");
    struct life life;

    (void)state;
    life_begin(&life);
    assert_int_equal(life_call(&life, &op, "k"), ONCE_OK);
    assert_int_equal(op.reply.state, ONCE_STATE_ABSENT);
    assert_int_equal(op.reply.result.size, 0);
    assert_int_equal(life_call(&life, &again, "k"), ONCE_OK);
    assert_int_equal(again.reply.state, ONCE_STATE_COMPLETED);
    assert_int_equal(again.reply.result.size, 3);
    assert_memory_equal(again.reply.result.data, "one", 3);
    once_reply_release(&again.reply);
    not_now.when = ONCE_WHEN_ABSENT;
    assert_int_equal(life_call(&life, &not_now, "k"), ONCE_OK);
    assert_int_equal(not_now.reply.word, ONCE_NOTFOUND);
    assert_memory_equal(not_now.reply.result.data, "two", 3);
    once_reply_release(&not_now.reply);
    life_end(&life);
}

static void set__time_is_over__is_absent(void **state)
{
    struct once_op op = set_op("short"), absent = set_op("next");
    struct life life;

    (void)state;
    op.ttl_ms = 1000;
    absent.when = ONCE_WHEN_ABSENT;
    life_begin(&life);
    assert_int_equal(life_word(&life, op, "k", NULL), ONCE_DONE);
    life_pass(&life, 999);
    assert_int_equal(left_ms(&life, "k"), 1);
    assert_int_equal(life_word(&life, absent, "k", NULL), ONCE_NOTFOUND);
    life_pass(&life, 1);
    assert_null(value_of(&life, "k"));
    assert_int_equal(life_word(&life, absent, "k", NULL), ONCE_DONE);
    assert_int_equal(left_ms(&life, "k"), ONCE_RETENTION_MS_MAX);
    life_end(&life);
}

static void set__until_a_time__is_kept_until_then(void **state)
{
    struct once_op op = set_op("v");
    struct life life;

    (void)state;
    life_begin(&life);
    op.until_ms = LIFE_START_MS + 500;
    assert_int_equal(life_word(&life, op, "k", NULL), ONCE_DONE);
    assert_int_equal(left_ms(&life, "k"), 500);
    life_pass(&life, 500);
    assert_int_equal(life_call(&life, &op, "k"), ONCE_ERR_INVALID);
    assert_non_null(op.reply.what);
    assert_null(value_of(&life, "k"));
    life_end(&life);
}

static void set__keeping_the_time__keeps_it(void **state)
{
    struct once_op op = set_op("v"), keep = set_op("w");
    struct life life;

    (void)state;
    op.ttl_ms = 1000;
    keep.keep_ttl = true;
    life_begin(&life);
    assert_int_equal(life_word(&life, op, "k", NULL), ONCE_DONE);
    life_pass(&life, 400);
    assert_int_equal(life_word(&life, keep, "k", NULL), ONCE_DONE);
    assert_string_equal(value_of(&life, "k"), "w");
    assert_int_equal(left_ms(&life, "k"), 600);
    assert_int_equal(life_word(&life, keep, "none", NULL), ONCE_DONE);
    assert_int_equal(left_ms(&life, "none"), ONCE_RETENTION_MS_MAX);
    life_end(&life);
}

static void set__operation_is_under_way__stays(void **state)
{
    struct life life;
    uint64_t fence;

    (void)state;
    life_begin(&life);
    fence = life_start(&life, "k");
    assert_int_equal(life_word(&life, set_op("v"), "k", NULL), ONCE_BUSY);
    life_pass(&life, ONCE_LEASE_MS_DEFAULT);
    assert_int_equal(life_word(&life, set_op("v"), "k", NULL), ONCE_DOUBT);
    assert_int_equal(
        life_word(&life, (struct once_op){.call = ONCE_CALL_EXPIRE, .ttl_ms = 1}, "k", NULL),
        ONCE_DOUBT);
    assert_int_equal(life_complete(&life, "k", fence, "done"), ONCE_DONE);
    life_end(&life);
}

static void set__bad_arguments__are_named(void **state)
{
    struct once_op op = set_op("v");
    struct life life;

    (void)state;
    life_begin(&life);
    op.ttl_ms = -1;
    assert_int_equal(life_call(&life, &op, "k"), ONCE_ERR_INVALID);
    assert_non_null(op.reply.what);
    op.ttl_ms = ONCE_RETENTION_MS_MAX + 1;
    assert_int_equal(life_call(&life, &op, "k"), ONCE_ERR_INVALID);
    op.ttl_ms = 0;
    op.until_ms = -5;
    assert_int_equal(life_call(&life, &op, "k"), ONCE_ERR_INVALID);
    op.until_ms = 0;
    op.when = (enum once_when)7;
    assert_int_equal(life_call(&life, &op, "k"), ONCE_ERR_INVALID);
    assert_null(value_of(&life, "k"));
    life_end(&life);
}

static void expire__shorter_and_longer__holds_after_a_power_cut(void **state)
{
    struct once_op expire = {.call = ONCE_CALL_EXPIRE, .ttl_ms = 100};
    struct once_op op = set_op("v");
    struct life life;

    (void)state;
    op.ttl_ms = LIFE_HOUR_MS;
    life_begin(&life);
    assert_int_equal(life_word(&life, expire, "k", NULL), ONCE_NOTFOUND);
    assert_int_equal(life_word(&life, op, "k", NULL), ONCE_DONE);
    assert_int_equal(life_word(&life, expire, "k", NULL), ONCE_DONE);
    assert_int_equal(left_ms(&life, "k"), 100);
    life_again(&life, LIFE_CUT);
    assert_string_equal(value_of(&life, "k"), "v");
    life_pass(&life, 100);
    assert_null(value_of(&life, "k"));
    assert_int_equal(life_word(&life, expire, "k", NULL), ONCE_NOTFOUND);
    life_again(&life, LIFE_CUT);
    assert_null(value_of(&life, "k"));
    life_end(&life);
}

static void forget__of_a_value__deletes_it(void **state)
{
    struct once_op forget = {.call = ONCE_CALL_FORGET};
    struct life life;

    (void)state;
    life_begin(&life);
    assert_int_equal(life_word(&life, set_op("v"), "k", NULL), ONCE_DONE);
    assert_int_equal(life_word(&life, forget, "k", NULL), ONCE_DONE);
    assert_int_equal(life_word(&life, forget, "k", NULL), ONCE_NOTFOUND);
    life_again(&life, LIFE_CUT);
    assert_null(value_of(&life, "k"));
    life_end(&life);
}

/* ---- In order -------------------------------------------------------------------------------- */

enum { ROUNDS = 40, KEYS = 16, STEPS = 6 };

struct chain {
    struct once_op ops[STEPS];
    char values[STEPS][16];
    struct life_key key;
};

static sem_t all_told;

static void count_told(struct once_op *op)
{
    (void)op;
    sem_post(&all_told);
}

/* For keys whose records are on disk: each sees what the one before it has left. */
static void chain_fill(struct chain *chain, unsigned key, unsigned round)
{
    static const enum once_call_kind calls[STEPS] = {ONCE_CALL_GET, ONCE_CALL_SET,
                                                     ONCE_CALL_GET, ONCE_CALL_FORGET,
                                                     ONCE_CALL_SET, ONCE_CALL_GET};

    *chain = (struct chain){.key = life_key(key)};
    for (unsigned i = 0; i < STEPS; i++) {
        snprintf(chain->values[i], sizeof(chain->values[i]), "%u-%u", round, i);
        chain->ops[i] = (struct once_op){.call = calls[i],
                                         .ns = once_bytes_of("test"),
                                         .key = once_bytes_of(chain->key.text),
                                         .told = count_told};
        if (calls[i] == ONCE_CALL_SET)
            chain->ops[i].result = once_bytes_of(chain->values[i]);
    }
    chain->ops[4].when = ONCE_WHEN_ABSENT;
}

static void assert_value(const struct once_reply *reply, const char *value)
{
    assert_int_equal(reply->err, ONCE_OK);
    assert_int_equal(reply->word, ONCE_DONE);
    assert_int_equal(reply->result.size, strlen(value));
    assert_memory_equal(reply->result.data, value, reply->result.size);
}

static void chain_check(struct chain *chain, const char *before)
{
    assert_value(&chain->ops[0].reply, before);
    assert_value(&chain->ops[1].reply, before);
    assert_value(&chain->ops[2].reply, chain->values[1]);
    assert_int_equal(chain->ops[3].reply.word, ONCE_DONE);
    assert_int_equal(chain->ops[4].reply.word, ONCE_DONE);
    assert_int_equal(chain->ops[4].reply.state, ONCE_STATE_ABSENT);
    assert_value(&chain->ops[5].reply, chain->values[4]);
    for (unsigned i = 0; i < STEPS; i++)
        once_reply_release(&chain->ops[i].reply);
}

static void submit_many__cold_keys__each_key_in_order(void **state)
{
    static struct chain chains[KEYS];
    struct once_op *ops[KEYS * STEPS];
    char before[KEYS][16];
    unsigned filler = 0;
    struct life life;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    life.with_threads = true;
    life_open(&life);
    sem_init(&all_told, 0, 0);
    for (unsigned key = 0; key < KEYS; key++) {
        snprintf(before[key], sizeof(before[key]), "first");
        assert_int_equal(life_word(&life, set_op("first"), life_key(key).text, NULL), ONCE_DONE);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t taken = 0, count = 0;

        if (round % 4 <= 1) { /* push them out of memory */
            for (unsigned i = 0; i < 3; i++)
                life_roll(&life, 0, &filler);
        }
        for (unsigned step = 0; step < STEPS; step++) {
            for (unsigned key = 0; key < KEYS; key++) {
                if (step == 0)
                    chain_fill(&chains[key], key, round);
                ops[count++] = &chains[key].ops[step];
            }
        }
        /* In one piece, or one by one, while the first are being read. */
        for (size_t i = 0; i < count; i += taken) {
            assert_int_equal(
                once_submit_many(life.store, ops + i, round % 2 == 0 ? count : 1, &taken), ONCE_OK);
            assert_int_equal(taken, round % 2 == 0 ? count : 1);
        }
        for (size_t i = 0; i < count; i++)
            sem_wait(&all_told);
        for (unsigned key = 0; key < KEYS; key++) {
            chain_check(&chains[key], before[key]);
            snprintf(before[key], sizeof(before[key]), "%s", chains[key].values[4]);
        }
    }
    assert_true(life_stats(&life).cold_reads > 0);
    sem_destroy(&all_told);
    life_end(&life);
}

/* Few of them, by a thread that lends itself: told before it returns, and durable by then. */
static void submit_here__few__are_told_in_here_and_durable(void **state)
{
    struct chain chain;
    struct once_op *ops[STEPS];
    struct life life;
    size_t taken = 0;
    int told = 0;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    life.with_threads = true;
    life_open(&life);
    sem_init(&all_told, 0, 0);
    assert_int_equal(life_word(&life, set_op("first"), life_key(1).text, NULL), ONCE_DONE);
    chain_fill(&chain, 1, 0);
    for (unsigned i = 0; i < STEPS; i++)
        ops[i] = &chain.ops[i];
    assert_int_equal(once_submit_here(life.store, ops, STEPS, &taken), ONCE_OK);
    assert_int_equal(taken, STEPS);
    sem_getvalue(&all_told, &told);
    assert_int_equal(told, STEPS);
    chain_check(&chain, "first");
    life_again(&life, LIFE_CUT);
    assert_string_equal(value_of(&life, life_key(1).text), chain.values[4]);
    sem_destroy(&all_told);
    life_end(&life);
}

static uint64_t results_size(struct once__engine *engine)
{
    uint64_t size;

    pthread_mutex_lock(&engine->lock);
    size = engine->submitted_size;
    pthread_mutex_unlock(&engine->lock);
    return size;
}

/* Every answer is a copy: how many of them wait to be told must not depend on who asks. */
static void submit_many__large_results_wait_to_be_told__no_more_are_made(void **state)
{
    struct once__engine *engine;
    struct once_op *ops[STEPS];
    struct chain chain;
    struct life life;
    size_t taken = 0;
    int told = 0;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    life.with_threads = true;
    life_open(&life);
    sem_init(&all_told, 0, 0);
    engine = once__engine_of(life.store);
    assert_int_equal(life_word(&life, set_op("first"), life_key(1).text, NULL), ONCE_DONE);
    pthread_mutex_lock(&engine->lock);
    engine->submitted_size += ONCE_SUBMITTED_SIZE_MAX + 1; /* as if others were large */
    pthread_mutex_unlock(&engine->lock);
    chain_fill(&chain, 1, 0);
    for (unsigned i = 0; i < STEPS; i++)
        ops[i] = &chain.ops[i];
    assert_int_equal(once_submit_many(life.store, ops, STEPS, &taken), ONCE_OK);
    assert_int_equal(taken, STEPS);
    assert_int_equal(results_size(engine), ONCE_SUBMITTED_SIZE_MAX + 1);
    sem_getvalue(&all_told, &told);
    assert_int_equal(told, 0);
    pthread_mutex_lock(&engine->lock);
    engine->submitted_size -= ONCE_SUBMITTED_SIZE_MAX + 1;
    pthread_mutex_unlock(&engine->lock);
    once__commit_nudge(engine);
    for (unsigned i = 0; i < STEPS; i++)
        sem_wait(&all_told);
    chain_check(&chain, "first");
    sem_destroy(&all_told);
    life_end(&life);
}

static void submit_many__after_closing_or_with_nothing__takes_none(void **state)
{
    struct once_op op = set_op("v"), *ops[] = {&op, NULL};
    struct life life;
    size_t taken = 7;

    (void)state;
    life_begin(&life);
    assert_int_equal(once_submit_many(life.store, NULL, 0, &taken), ONCE_OK);
    assert_int_equal(taken, 0);
    assert_int_equal(once_submit_many(life.store, NULL, 1, &taken), ONCE_ERR_INVALID);
    op.told = count_told;
    assert_int_equal(once_submit_many(life.store, ops, 2, &taken), ONCE_ERR_INVALID);
    assert_int_equal(taken, 0);
    assert_null(value_of(&life, "k"));
    life_end(&life);
}

static void stats__writes__are_spread(void **state)
{
    struct once_stats stats;
    uint64_t writes = 0, sizes = 0, counts = 0;
    struct life life;

    (void)state;
    life_begin(&life);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(life_word(&life, set_op("v"), life_key(i).text, NULL), ONCE_DONE);
    stats = life_stats(&life);
    for (size_t i = 0; i < sizeof(stats.write_us.buckets) / sizeof(stats.write_us.buckets[0]);
         i++) {
        writes += stats.write_us.buckets[i];
        sizes += stats.write_size.buckets[i];
        counts += stats.write_ops.buckets[i];
    }
    assert_int_equal(writes, 11); /* and the first segment's header */
    assert_int_equal(sizes, writes);
    assert_int_equal(counts, writes);
    assert_int_equal(stats.write_ops.sum, 10);
    assert_int_equal(stats.write_size.buckets[12], 11);
    life_end(&life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set__absent__is_there_after_every_end),
        cmocka_unit_test(set__conditions__hold_or_change_nothing),
        cmocka_unit_test(set__over_a_value__tells_the_one_before),
        cmocka_unit_test(set__time_is_over__is_absent),
        cmocka_unit_test(set__until_a_time__is_kept_until_then),
        cmocka_unit_test(set__keeping_the_time__keeps_it),
        cmocka_unit_test(set__operation_is_under_way__stays),
        cmocka_unit_test(set__bad_arguments__are_named),
        cmocka_unit_test(expire__shorter_and_longer__holds_after_a_power_cut),
        cmocka_unit_test(forget__of_a_value__deletes_it),
        cmocka_unit_test(submit_many__cold_keys__each_key_in_order),
        cmocka_unit_test(submit_here__few__are_told_in_here_and_durable),
        cmocka_unit_test(submit_many__large_results_wait_to_be_told__no_more_are_made),
        cmocka_unit_test(submit_many__after_closing_or_with_nothing__takes_none),
        cmocka_unit_test(stats__writes__are_spread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
