/* SPDX-License-Identifier: Apache-2.0
 *
 * When the engine tells: after what it tells is durable (INV-2), in log order, and never again
 * after a write that failed (INV-8). Writes are taken, written and ended by hand.
 */
#include "engine_help.h"

static struct life_op op_of(struct once_op op, unsigned *clock)
{
    return (struct life_op){.op = op, .clock = clock};
}

static void end_write(struct life *life, struct once__write *write)
{
    assert_non_null(write);
    once__engine_written(life->store, write, once__engine_write(life->store, write));
}

static void release(struct life_op *op)
{
    once_reply_release(&op->op.reply);
}

static void inv2_begin__not_durable__is_not_told(void **state)
{
    struct life life;
    unsigned clock = 0;
    struct life_op begin = op_of((struct once_op){.call = ONCE_CALL_BEGIN}, &clock);
    struct once__write *write;

    (void)state;
    life_begin(&life);
    life_submit(&life, &begin, "k");
    write = once__engine_take(life.store);
    assert_int_equal(begin.told, 0);
    assert_int_equal(once__engine_write(life.store, write), ONCE_OK);
    assert_int_equal(begin.told, 0); /* written, but nobody said so yet */
    once__engine_written(life.store, write, ONCE_OK);
    assert_int_equal(begin.told, 1);
    assert_int_equal(begin.op.reply.word, ONCE_EXECUTE);
    life_end(&life);
}

/* What others are told of a record that is not durable waits for it too. */
static void inv2_busy_replay_get_and_notfound__of_what_is_not_durable__wait_for_it(void **state)
{
    struct life life;
    unsigned clock = 0;
    struct life_op first, others[3];
    static const struct once_op asks[] = {{.call = ONCE_CALL_BEGIN},
                                          {.call = ONCE_CALL_GET},
                                          {.call = ONCE_CALL_COMPLETE, .fence = 99}};
    enum { BUSY, REPLAY, NOTFOUND, COUNT };
    static const enum once_word words[COUNT][3] = {
        {ONCE_BUSY, ONCE_DONE, ONCE_STALE},
        {ONCE_REPLAY, ONCE_DONE, ONCE_STALE},
        {ONCE_EXECUTE, ONCE_NOTFOUND, ONCE_NOTFOUND},
    };

    (void)state;
    life_begin(&life);
    for (int round = 0; round < COUNT; round++) {
        struct life_key key = life_key((unsigned)round);
        struct once__write *write;

        first = op_of((struct once_op){.call = ONCE_CALL_BEGIN}, &clock);
        if (round != BUSY) {
            uint64_t fence = life_start(&life, key.text);

            first.op = (struct once_op){
                .call = round == REPLAY ? ONCE_CALL_COMPLETE : ONCE_CALL_FORGET, .fence = fence};
        }
        life_submit(&life, &first, key.text);
        write = once__engine_take(life.store); /* what comes now is not in it */
        for (int i = round == NOTFOUND ? 1 : 0; i < 3; i++) {
            others[i] = op_of(asks[i], &clock);
            life_submit(&life, &others[i], key.text);
            assert_int_equal(others[i].told, 0);
        }
        assert_null(once__engine_take(life.store)); /* they write nothing themselves */
        end_write(&life, write);
        assert_int_equal(first.told, 1);
        for (int i = round == NOTFOUND ? 1 : 0; i < 3; i++) {
            assert_int_equal(others[i].told, 1);
            assert_int_equal(others[i].op.reply.err, ONCE_OK);
            assert_int_equal(others[i].op.reply.word, words[round][i]);
            assert_true(others[i].told_at > first.told_at);
            release(&others[i]);
        }
    }
    life_end(&life);
}

/* A blocking caller that changes nothing has nobody before it in a line: it waits by itself. */
static void inv2_blocking_look__at_what_is_not_durable__makes_it_durable_first(void **state)
{
    static const struct {
        enum once_call_kind first, look;
        enum once_word word;
        enum once_state state;
    } cases[] = {
        {ONCE_CALL_BEGIN, ONCE_CALL_GET, ONCE_DONE, ONCE_STATE_STARTED},
        {ONCE_CALL_BEGIN, ONCE_CALL_BEGIN, ONCE_BUSY, ONCE_STATE_STARTED},
        {ONCE_CALL_COMPLETE, ONCE_CALL_BEGIN, ONCE_REPLAY, ONCE_STATE_COMPLETED},
        {ONCE_CALL_FORGET, ONCE_CALL_GET, ONCE_NOTFOUND, ONCE_STATE_ABSENT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct life life;
        unsigned clock = 0;
        struct life_op first = op_of((struct once_op){.call = cases[i].first}, &clock);

        life_begin(&life);
        if (cases[i].first != ONCE_CALL_BEGIN)
            first.op.fence = life_start(&life, "k");
        life_submit(&life, &first, "k");
        assert_int_equal(life_word(&life, (struct once_op){.call = cases[i].look}, "k", NULL),
                         cases[i].word);
        life_again(&life, LIFE_CUT);
        assert_int_equal(life_state(&life, "k"), cases[i].state);
        life_end(&life);
    }
}

static void inv2_writes__end_in_any_order__are_told_in_log_order(void **state)
{
    enum { COUNT = ONCE_BATCHES_IN_FLIGHT_MAX };
    static const int orders[][COUNT] = {{3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}};

    (void)state;
    for (size_t round = 0; round < sizeof(orders) / sizeof(orders[0]); round++) {
        struct once__write *writes[COUNT];
        struct life_op ops[COUNT];
        bool ended[COUNT] = {false};
        struct life life;
        unsigned clock = 0;

        life_begin(&life);
        for (unsigned i = 0; i < COUNT; i++) {
            ops[i] = op_of((struct once_op){.call = ONCE_CALL_BEGIN}, &clock);
            life_submit(&life, &ops[i], life_key(i).text);
            writes[i] = once__engine_take(life.store);
            assert_non_null(writes[i]);
        }
        assert_null(once__engine_take(life.store));
        for (unsigned i = 0; i < COUNT; i++) {
            unsigned prefix = 0;

            end_write(&life, writes[orders[round][i]]);
            ended[orders[round][i]] = true;
            while (prefix < COUNT && ended[prefix])
                prefix++;
            for (unsigned j = 0; j < COUNT; j++)
                assert_int_equal(ops[j].told, j < prefix ? 1 : 0);
        }
        for (unsigned i = 0; i < COUNT; i++)
            assert_int_equal(ops[i].told_at, i + 1);
        life_end(&life);
    }
}

static void show_nothing(void *user, const struct once_item *item)
{
    (void)user;
    (void)item;
    fail_msg("a store that has stopped shows something");
}

static void inv8_failed_write__stops_the_store__nothing_is_told_ok(void **state)
{
    enum { COUNT = 3 };
    struct once__write *writes[COUNT];
    struct life_op ops[COUNT], late, again;
    struct once_op blocking = {.call = ONCE_CALL_BEGIN};
    struct once_message message;
    struct life life;
    unsigned clock = 0;
    uint64_t cursor = 0;

    (void)state;
    life_begin(&life);
    life_do(&life, "before", 0);
    for (unsigned i = 0; i < COUNT; i++) {
        ops[i] = op_of((struct once_op){.call = ONCE_CALL_BEGIN}, &clock);
        life_submit(&life, &ops[i], life_key(i).text);
        writes[i] = once__engine_take(life.store);
    }
    late = op_of((struct once_op){.call = ONCE_CALL_BEGIN}, &clock);
    life_submit(&life, &late, "late");
    end_write(&life, writes[0]);
    assert_int_equal(ops[0].op.reply.err, ONCE_OK);
    once__engine_written(life.store, writes[1], ONCE_ERR_IO);
    end_write(&life, writes[2]); /* it went well, but it stands on the one that did not */
    for (unsigned i = 1; i < COUNT; i++) {
        assert_int_equal(ops[i].told, 1);
        assert_int_equal(ops[i].op.reply.err, ONCE_ERR_IO);
    }
    assert_int_equal(late.told, 1);
    assert_int_equal(late.op.reply.err, ONCE_ERR_IO);
    assert_null(once__engine_take(life.store));

    assert_int_equal(life_call(&life, &blocking, "before"), ONCE_ERR_STOPPED);
    again = op_of((struct once_op){.call = ONCE_CALL_GET}, &clock);
    life_submit(&life, &again, "before");
    (void)once__engine_work(life.store);
    assert_int_equal(again.op.reply.err, ONCE_ERR_STOPPED);
    assert_int_equal(once_list(life.store, NULL, 0, 10, show_nothing, NULL, &cursor),
                     ONCE_ERR_STOPPED);
    assert_true(life_stats(&life).stopped);
    assert_int_equal(once_close(life.store), ONCE_ERR_STOPPED);
    life.store = NULL;
    assert_int_equal(life_try_open(&life, &message), ONCE_OK); /* recovery decides */
    assert_int_equal(life_get(&life, "before"), ONCE_DONE);
    assert_int_equal(life_state(&life, life_key(0).text), ONCE_STATE_STARTED);
    life_end(&life);
}

/* The same from the disk's side, with blocking calls: whatever was told OK is there afterwards. */
static void inv8_disk_fails_a_write__blocking_calls__get_an_error_and_later_ones_too(void **state)
{
    (void)state;
    for (int blocks = 1; blocks <= 6; blocks++) {
        struct disk_faults faults = {.fail_for_ever = blocks % 2 == 0};
        struct life life;
        unsigned done = 0;

        life_begin(&life);
        life_work(&life);
        faults.fail_write_at = disk_operations(life.disk) + (uint64_t)blocks;
        disk_set_faults(life.disk, &faults);
        for (;;) {
            struct once_op op = {.call = ONCE_CALL_BEGIN};
            int err = life_call(&life, &op, life_key(done).text);

            if (err != ONCE_OK) {
                assert_int_equal(err, ONCE_ERR_IO);
                break;
            }
            done++;
        }
        for (unsigned i = 0; i < 3; i++) {
            struct once_op op = {.call = ONCE_CALL_BEGIN};

            assert_int_equal(life_call(&life, &op, "more"), ONCE_ERR_STOPPED);
        }
        assert_int_equal(once_close(life.store), ONCE_ERR_STOPPED);
        disk_set_faults(life.disk, &(struct disk_faults){0});
        life_open(&life);
        for (unsigned i = 0; i < done; i++)
            assert_int_equal(life_state(&life, life_key(i).text), ONCE_STATE_STARTED);
        life_end(&life);
    }
}

static void submit__after_close_began__told_is_called_once_for_each(void **state)
{
    enum { COUNT = 300 };
    static struct life_op ops[COUNT];
    struct life life;
    unsigned clock = 0;

    (void)state;
    life_begin(&life);
    for (unsigned i = 0; i < COUNT; i++) {
        ops[i] = op_of((struct once_op){.call = ONCE_CALL_BEGIN}, &clock);
        life_submit(&life, &ops[i], life_key(i).text);
    }
    life_close(&life); /* answers all of them */
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(ops[i].told, 1);
        assert_int_equal(ops[i].op.reply.err, ONCE_OK);
    }
    life_open(&life);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(life_state(&life, life_key(i).text), ONCE_STATE_STARTED);
    life_end(&life);
}

/* More than the images of two segments hold, without a write in between. */
static void submit__more_than_fits_into_memory__waits_and_is_told(void **state)
{
    enum { COUNT = 3000 };
    static struct life_op ops[COUNT];
    struct life life;
    unsigned clock = 0;

    (void)state;
    life_begin(&life);
    for (unsigned i = 0; i < COUNT; i++) {
        ops[i] = op_of((struct once_op){.call = ONCE_CALL_BEGIN}, &clock);
        life_submit(&life, &ops[i], life_key(i).text);
    }
    for (int i = 0; clock < COUNT; i++) {
        life_write(&life);
        (void)once__engine_work(life.store);
        assert_true(i < LIFE_WORK_MAX);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(ops[i].told, 1);
        assert_int_equal(ops[i].op.reply.err, ONCE_OK);
        assert_int_equal(ops[i].op.reply.word, ONCE_EXECUTE);
    }
    life_end(&life);
}

static void call__more_operations_than_fit_into_memory__decides_all(void **state)
{
    enum { COUNT = 3000 };
    static struct once_op ops[COUNT];
    static struct life_key keys[COUNT];
    struct life life;

    (void)state;
    life_begin(&life);
    memset(ops, 0, sizeof(ops));
    for (unsigned i = 0; i < COUNT; i++) {
        keys[i] = life_key(i / 2); /* each twice: EXECUTE, BUSY */
        ops[i].ns = once_bytes_of("test");
        ops[i].key = once_bytes_of(keys[i].text);
    }
    assert_int_equal(once_call(life.store, ops, COUNT), ONCE_OK);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(ops[i].reply.word, i % 2 == 0 ? ONCE_EXECUTE : ONCE_BUSY);
    life_again(&life, LIFE_CUT);
    for (unsigned i = 0; i < COUNT; i += 2)
        assert_int_equal(life_state(&life, keys[i].text), ONCE_STATE_STARTED);
    life_end(&life);
}

/* The largest result and the largest data that there may be, in segments of the usual size. */
static void complete__largest_result__is_kept(void **state)
{
    static uint8_t bytes[ONCE_RESULT_SIZE_MAX];
    struct life life;

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 31 >> 3);
    life_prepare(&life, 1ULL << 30);
    life.options.segment_size = 0;
    life_open(&life);
    for (unsigned i = 0; i < 4; i++) {
        struct life_key key = life_key(i);
        uint64_t fence = life_start(&life, key.text);
        struct once_op step = {.call = ONCE_CALL_CHECKPOINT,
                               .fence = fence,
                               .point = once_bytes_of("p"),
                               .data = {bytes, ONCE_DATA_SIZE_MAX}};
        struct once_op end = {
            .call = ONCE_CALL_COMPLETE, .fence = fence, .result = {bytes, sizeof(bytes)}};

        assert_int_equal(life_word(&life, step, key.text, NULL), ONCE_DONE);
        assert_int_equal(life_word(&life, end, key.text, NULL), ONCE_DONE);
    }
    life_again(&life, LIFE_CUT);
    for (unsigned i = 0; i < 4; i++) {
        struct once_reply reply;

        assert_int_equal(
            once_begin(life.store, once_name_of("test", life_key(i).text), NULL, &reply), ONCE_OK);
        assert_int_equal(reply.word, ONCE_REPLAY);
        assert_int_equal(reply.result.size, sizeof(bytes));
        assert_memory_equal(reply.result.data, bytes, sizeof(bytes));
        once_reply_release(&reply);
    }
    life_end(&life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inv2_begin__not_durable__is_not_told),
        cmocka_unit_test(inv2_busy_replay_get_and_notfound__of_what_is_not_durable__wait_for_it),
        cmocka_unit_test(inv2_blocking_look__at_what_is_not_durable__makes_it_durable_first),
        cmocka_unit_test(inv2_writes__end_in_any_order__are_told_in_log_order),
        cmocka_unit_test(inv8_failed_write__stops_the_store__nothing_is_told_ok),
        cmocka_unit_test(inv8_disk_fails_a_write__blocking_calls__get_an_error_and_later_ones_too),
        cmocka_unit_test(submit__after_close_began__told_is_called_once_for_each),
        cmocka_unit_test(submit__more_than_fits_into_memory__waits_and_is_told),
        cmocka_unit_test(call__more_operations_than_fit_into_memory__decides_all),
        cmocka_unit_test(complete__largest_result__is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
