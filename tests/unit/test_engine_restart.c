/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine across restarts: what was told is there again, whichever way the last life ended, and
 * whether it is read from sidecars or from the log (INV-1, INV-3).
 */
#include "engine_help.h"

#include "base/bytes.h"

/* A sidecar leaves out what was replaced. If the record that replaced it is lost, and it was left
 * out, both are gone. */
static void inv3_sidecar__record_replaced_by_one_that_is_lost__is_still_there(void **state)
{
    (void)state;
    for (int under_way = 0; under_way < 2; under_way++) {
        struct life life;
        unsigned number = 0, clock = 0;
        struct life_op complete = {.clock = &clock};

        life_begin(&life);
        complete.op = (struct once_op){.call = ONCE_CALL_COMPLETE};
        complete.op.fence = life_start(&life, "k");
        life_roll(&life, 0, &number);
        life_submit(&life, &complete, "k"); /* decided, not written */
        if (under_way)
            assert_non_null(once__engine_take(life.store));
        (void)once__engine_work(life.store); /* a sidecar of the segment that has the begin */
        life_again(&life, LIFE_KILLED);
        assert_int_equal(life_state(&life, "k"),
                         complete.told ? ONCE_STATE_COMPLETED : ONCE_STATE_STARTED);
        life_end(&life);
    }
}

/* The slot of a segment that was retired a moment ago is used again at once. Its new batch lands,
 * its new header does not: the old header over foreign batches is not damage. */
static void recovery__retired_slot_used_again_and_header_lost__opens(void **state)
{
    struct life life;
    unsigned number = 0, clock = 0;
    static struct life_op ops[64];
    struct once__write *writes[8];
    size_t write_count = 0;

    (void)state;
    life_begin(&life);
    life_work(&life);
    life_roll(&life, 1000, &number);
    life_pass(&life, 10000);
    life_work(&life);
    assert_true(life_stats(&life).segments_retired > 0);
    assert_int_equal(life_stats(&life).segments, 1);
    memset(ops, 0, sizeof(ops));
    for (unsigned i = 0; i < 64 && life_stats(&life).segments == 1; i++) {
        ops[i].clock = &clock;
        ops[i].op = (struct once_op){.call = ONCE_CALL_BEGIN};
        life_submit(&life, &ops[i], life_key(i).text);
        if (life_stats(&life).segments == 1)
            life_write(&life);
    }
    assert_int_equal(life_stats(&life).segments, 2);
    while (write_count < 8 && (writes[write_count] = once__engine_take(life.store)))
        write_count++;
    assert_true(write_count >= 2);
    for (size_t i = 1; i < write_count; i++)
        assert_int_equal(once__engine_write(life.store, writes[i]), ONCE_OK);
    life_again(&life, LIFE_CUT);
    life_end(&life);
}

/* A segment is full to its last block. Two more are begun while the header of the first of them is
 * still on its way. */
static void recovery__header_lost_and_the_next_ones_there__opens(void **state)
{
    enum { LARGE = 28000, COUNT = 3 };
    static uint8_t result[LARGE];
    struct life_op ops[COUNT];
    struct once__write *writes[8];
    size_t write_count = 0;
    struct life life;
    unsigned clock = 0;

    (void)state;
    life_begin(&life);
    life_work(&life);
    for (unsigned i = 0; i < COUNT; i++)
        ops[i] = (struct life_op){.clock = &clock,
                                  .op = {.call = ONCE_CALL_COMPLETE,
                                         .fence = life_start(&life, life_key(i).text),
                                         .result = {result, sizeof(result)}}};
    for (unsigned i = COUNT; life_stats(&life).log_size < LIFE_SEGMENT_SIZE; i++)
        (void)life_start(&life, life_key(i).text);
    assert_int_equal(life_stats(&life).segments, 1);
    for (unsigned i = 0; i < COUNT; i++)
        life_submit(&life, &ops[i], life_key(i).text);
    while (write_count < 8 && (writes[write_count] = once__engine_take(life.store)))
        write_count++;
    assert_true(write_count >= 2);
    for (size_t i = 1; i < write_count; i++)
        assert_int_equal(once__engine_write(life.store, writes[i]), ONCE_OK);
    life_again(&life, LIFE_CUT);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(life_state(&life, life_key(i).text), ONCE_STATE_STARTED);
    life_end(&life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inv3_sidecar__record_replaced_by_one_that_is_lost__is_still_there),
        cmocka_unit_test(recovery__retired_slot_used_again_and_header_lost__opens),
        cmocka_unit_test(recovery__header_lost_and_the_next_ones_there__opens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
