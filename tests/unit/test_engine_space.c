/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine at its bounds (INV-9), and that what was admitted can finish there (INV-7).
 */
#include "engine_help.h"

enum { STARTED_MAX = 4096 };

/* Begins operations until there is no space for more. */
static unsigned begin_until_full(struct life *life, uint64_t *fences)
{
    for (unsigned i = 0; i < STARTED_MAX; i++) {
        struct once_op op = {.call = ONCE_CALL_BEGIN};
        int err = life_call(life, &op, life_key(i).text);

        if (err != ONCE_OK) {
            assert_int_equal(err, ONCE_ERR_SPACE);
            return i;
        }
        assert_int_equal(op.reply.word, ONCE_EXECUTE);
        fences[i] = op.reply.fence;
        once_reply_release(&op.reply);
        (void)once__engine_work(life->store);
    }
    fail_msg("the store never filled up");
    return 0;
}

static void complete_all(struct life *life, const uint64_t *fences, unsigned count)
{
    static uint8_t result[ONCE_RESULT_RESERVED];

    memset(result, 'r', sizeof(result));
    for (unsigned i = 0; i < count; i++) {
        struct once_op op = {
            .call = ONCE_CALL_COMPLETE, .fence = fences[i], .result = {result, sizeof(result)}};

        assert_int_equal(life_word(life, op, life_key(i).text, NULL), ONCE_DONE);
    }
}

static void inv7_full_store__everything_admitted__completes(void **state)
{
    static uint64_t fences[STARTED_MAX];
    struct life life;
    unsigned count;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    life.options.disk_size_max = 16 * LIFE_SEGMENT_SIZE;
    life_open(&life);
    count = begin_until_full(&life, fences);
    assert_true(count > 10);
    complete_all(&life, fences, count);
    life_end(&life);
}

/* The disk itself fills up, and has space again. */
static void inv7_full_disk__admitted_ones_end__and_later_there_is_space_again(void **state)
{
    static uint64_t fences[STARTED_MAX];
    struct disk_faults faults = {0};
    struct once_op op = {.call = ONCE_CALL_BEGIN};
    struct life life;
    unsigned count;

    (void)state;
    life_begin(&life);
    life_work(&life);
    faults.full_at = disk_operations(life.disk) + 1;
    disk_set_faults(life.disk, &faults);
    count = begin_until_full(&life, fences);
    assert_true(count > 1);
    assert_int_equal(life_call(&life, &op, "more"), ONCE_ERR_SPACE);
    assert_int_equal(life_get(&life, "more"), ONCE_NOTFOUND);
    assert_false(life_stats(&life).stopped);
    complete_all(&life, fences, count);
    disk_set_faults(life.disk, &(struct disk_faults){0});
    (void)life_start(&life, "more");
    life_again(&life, LIFE_CUT);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(life_state(&life, life_key(i).text), ONCE_STATE_COMPLETED);
    life_end(&life);
}

/* As above, failing instead of completing, after a restart by a power cut. */
static void inv7_full_disk__restarted__admitted_ones_can_still_fail(void **state)
{
    static uint64_t fences[STARTED_MAX];
    struct disk_faults faults = {0};
    struct life life;
    unsigned count;

    (void)state;
    life_begin(&life);
    life_work(&life);
    faults.full_at = disk_operations(life.disk) + 1;
    disk_set_faults(life.disk, &faults);
    count = begin_until_full(&life, fences);
    life_again(&life, LIFE_CUT);
    for (unsigned i = 0; i < count; i++) {
        struct once_op op = {
            .call = ONCE_CALL_FAIL, .fence = fences[i], .result = once_bytes_of("no")};

        assert_int_equal(life_word(&life, op, life_key(i).text, NULL), ONCE_DONE);
    }
    life_end(&life);
}

static void inv7_full_store__closed_again_and_again__still_completes(void **state)
{
    static uint64_t fences[STARTED_MAX];
    struct life life;
    unsigned count;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    life.options.disk_size_max = 16 * LIFE_SEGMENT_SIZE;
    life_open(&life);
    count = begin_until_full(&life, fences);
    for (int i = 0; i < 40; i++)
        life_again(&life, LIFE_CLOSED);
    complete_all(&life, fences, count);
    life_end(&life);
}

/* Telling that something has expired writes down the time. That may not eat what was reserved. */
static void inv7_full_store__told_of_many_expiries__still_completes(void **state)
{
    static uint64_t fences[STARTED_MAX];
    struct life life;
    unsigned count;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    life.options.disk_size_max = 32 * LIFE_SEGMENT_SIZE;
    life_open(&life);
    for (unsigned i = 0; i < 60; i++) {
        char key[LIFE_KEY_SIZE];

        snprintf(key, sizeof(key), "expires-%u", i);
        life_do(&life, key, LIFE_HOUR_MS + i * 1000);
    }
    count = begin_until_full(&life, fences);
    life_pass(&life, LIFE_HOUR_MS);
    for (unsigned i = 0; i < 60; i++) {
        struct once_op op = {.call = ONCE_CALL_GET};
        char key[LIFE_KEY_SIZE];
        int err;

        snprintf(key, sizeof(key), "expires-%u", i);
        err = life_call(&life, &op, key);
        assert_true(err == ONCE_OK || err == ONCE_ERR_SPACE);
        once_reply_release(&op.reply);
        life_pass(&life, 1000);
    }
    complete_all(&life, fences, count);
    life_end(&life);
}

static void
options__segment_size_is_of_a_new_store__bound_is_checked_with_the_real_one(void **state)
{
    struct life life;

    (void)state;
    life_begin(&life);
    life_close(&life);
    life.options = (struct once_options){.disk_size_max = 16 * LIFE_SEGMENT_SIZE};
    life_open(&life); /* its segments are small: the default does not matter */
    life_close(&life);
    life.options = (struct once_options){.disk_size_max = 2 * LIFE_SEGMENT_SIZE};
    assert_int_equal(life_try_open(&life, NULL), ONCE_ERR_INVALID);
    life_end(&life);
}

/* Segments are what counts; the store file, the lock and the sidecars are small beside them. */
static void inv9_disk_size_max__many_small_operations__is_kept(void **state)
{
    enum { BATCH = 64 };
    struct life life;
    unsigned number = 0;
    int err = ONCE_OK;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    life.options.disk_size_max = 16 * LIFE_SEGMENT_SIZE;
    life_open(&life);
    while (err == ONCE_OK) {
        struct once_op ops[BATCH];
        struct life_key keys[BATCH];

        memset(ops, 0, sizeof(ops));
        for (int i = 0; i < BATCH; i++) {
            keys[i] = life_key(number++);
            ops[i].ns = once_bytes_of("n");
            ops[i].key = once_bytes_of(keys[i].text);
        }
        err = once_call(life.store, ops, BATCH);
        for (int i = 0; i < BATCH && err == ONCE_OK; i++) {
            ops[i].call = ONCE_CALL_COMPLETE;
            ops[i].fence = ops[i].reply.fence;
        }
        if (err == ONCE_OK)
            assert_int_equal(once_call(life.store, ops, BATCH), ONCE_OK);
        life_work(&life);
        assert_true(life_stats(&life).disk_size <= life.options.disk_size_max);
    }
    assert_int_equal(err, ONCE_ERR_SPACE);
    assert_true(disk_used(life.disk) <= life.options.disk_size_max * 5 / 4);
    life_end(&life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inv7_full_store__everything_admitted__completes),
        cmocka_unit_test(inv7_full_disk__admitted_ones_end__and_later_there_is_space_again),
        cmocka_unit_test(inv7_full_disk__restarted__admitted_ones_can_still_fail),
        cmocka_unit_test(inv7_full_store__closed_again_and_again__still_completes),
        cmocka_unit_test(inv7_full_store__told_of_many_expiries__still_completes),
        cmocka_unit_test(
            options__segment_size_is_of_a_new_store__bound_is_checked_with_the_real_one),
        cmocka_unit_test(inv9_disk_size_max__many_small_operations__is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
