/* SPDX-License-Identifier: Apache-2.0
 *
 * Time and expiry in the engine: whole segments go, what outlives them stays (INV-4), what was told
 * as gone stays gone (INV-6), and the disk and the index stay bounded.
 */
#include "engine_help.h"

#include "seeded.h"

/* Lets everything that is due go. */
static void expire(struct life *life, once_ms ms)
{
    life_pass(life, ms);
    life_work(life);
}

static void expiry__all_of_a_segment_is_dead__is_retired_and_recycled(void **state)
{
    struct life life;
    struct once_stats stats;
    unsigned number = 0;

    (void)state;
    life_begin(&life);
    for (int i = 0; i < 3; i++)
        life_roll(&life, LIFE_HOUR_MS, &number);
    life_do(&life, "last", LIFE_HOUR_MS);
    expire(&life, 2 * LIFE_HOUR_MS);
    stats = life_stats(&life);
    assert_int_equal(stats.segments, 1);
    assert_true(stats.segments_retired >= 3);
    assert_true(stats.segments_spare >= 2);
    for (unsigned i = 0; i < number; i++) {
        char key[LIFE_KEY_SIZE];

        snprintf(key, sizeof(key), "filler-%u", i);
        assert_int_equal(life_get(&life, key), ONCE_NOTFOUND);
    }
    life_end(&life);
}

/* Open operations and longer retentions move to the tail, and are the same there. */
static void inv4_expiry__doubts_and_longer_retentions__are_carried(void **state)
{
    (void)state;
    for (int end = 0; end < LIFE_END_COUNT; end++) {
        struct life life;
        unsigned number = 0;
        uint64_t started, fence = 0;

        life_begin(&life);
        started = life_start(&life, "doubt");
        (void)life_start(&life, "resolved");
        life_do(&life, "long", 100 * LIFE_HOUR_MS);
        life_do(&life, "short", LIFE_HOUR_MS);
        for (int i = 0; i < 4; i++) {
            life_roll(&life, LIFE_HOUR_MS, &number);
            life_work(&life);
        }
        for (int i = 0; i < 4; i++) {
            expire(&life, 2 * LIFE_HOUR_MS);
            life_roll(&life, LIFE_HOUR_MS, &number);
        }
        assert_true(life_stats(&life).records_carried >= 3);
        assert_true(life_stats(&life).segments_retired >= 4);
        life_again(&life, (enum life_end)end);
        assert_int_equal(life_state(&life, "doubt"), ONCE_STATE_DOUBT);
        assert_int_equal(life_begin_op(&life, "doubt", &fence), ONCE_DOUBT);
        assert_int_equal(fence, started);
        assert_int_equal(life_complete(&life, "doubt", started, "late"), ONCE_DONE);
        assert_int_equal(life_state(&life, "resolved"), ONCE_STATE_DOUBT);
        assert_int_equal(life_state(&life, "long"), ONCE_STATE_COMPLETED);
        assert_int_equal(life_state(&life, "short"), ONCE_STATE_ABSENT);
        expire(&life, 100 * LIFE_HOUR_MS);
        assert_int_equal(life_state(&life, "long"), ONCE_STATE_ABSENT);
        assert_int_equal(life_state(&life, "resolved"), ONCE_STATE_DOUBT);
        life_end(&life);
    }
}

/* A forgotten operation does not come back from an older segment, whatever is retired first. */
static void forget__older_record_still_on_disk__does_not_come_back(void **state)
{
    (void)state;
    for (int end = 0; end < LIFE_END_COUNT; end++) {
        for (int retired = 0; retired < 2; retired++) {
            struct life life;
            unsigned number = 0;

            life_begin(&life);
            life_do(&life, "k", 1000 * LIFE_HOUR_MS);
            for (int i = 0; i < 2; i++)
                life_roll(&life, retired ? LIFE_HOUR_MS : 1000 * LIFE_HOUR_MS, &number);
            assert_int_equal(
                life_word(&life, (struct once_op){.call = ONCE_CALL_FORGET}, "k", NULL), ONCE_DONE);
            for (int i = 0; i < 2; i++)
                life_roll(&life, 1000 * LIFE_HOUR_MS, &number);
            if (retired)
                expire(&life, 2 * LIFE_HOUR_MS);
            life_again(&life, (enum life_end)end);
            assert_int_equal(life_get(&life, "k"), ONCE_NOTFOUND);
            expire(&life, 2000 * LIFE_HOUR_MS);
            life_again(&life, (enum life_end)end);
            assert_int_equal(life_get(&life, "k"), ONCE_NOTFOUND);
            life_end(&life);
        }
    }
}

/* Expiry takes a dead record out of the index before it is durable that its segment is retired.
 * What is begun under its name meanwhile does not know it: after a crash only one of them may be
 * there. */
static void inv1_begun_while_its_segment_is_retired__killed__is_there_once(void **state)
{
    enum { SHORT = 10, LONG = 120 };
    static struct once_op ops[LONG];
    static char names[LONG][LIFE_KEY_SIZE];
    unsigned number = 0;
    struct life life;
    uint64_t keys;

    (void)state;
    life_prepare(&life, 1ULL << 30);
    life.options.segment_size = 1 << 17;
    life_open(&life);
    for (unsigned i = 0; i < SHORT; i++)
        life_do(&life, life_key(i).text, LIFE_HOUR_MS);
    for (int i = 0; i < LONG; i++) { /* so many that expiry takes several pieces */
        snprintf(names[i], sizeof(names[i]), "long-%d", i);
        ops[i] = (struct once_op){
            .call = ONCE_CALL_BEGIN, .ns = once_bytes_of("n"), .key = once_bytes_of(names[i])};
    }
    assert_int_equal(once_call(life.store, ops, LONG), ONCE_OK);
    life_roll(&life, LIFE_HOUR_MS, &number);
    life_pass(&life, 2 * LIFE_HOUR_MS);
    life_do(&life, "later", LIFE_HOUR_MS); /* makes the time durable */
    keys = life_stats(&life).keys;
    for (int i = 0; i < 100 && life_stats(&life).keys == keys; i++)
        (void)once__engine_work(life.store);
    assert_true(life_stats(&life).keys < keys); /* some are out, and the segment is still there */
    assert_int_equal(life_stats(&life).segments_retired, 0);
    for (unsigned i = 0; i < SHORT; i++)
        (void)life_start(&life, life_key(i).text);
    keys = life_stats(&life).keys_open;
    life_kill(&life);
    life_open(&life);
    assert_int_equal(life_stats(&life).keys_open, keys);
    assert_true(life_stats(&life).keys <= keys + 1); /* and "later": nothing that is dead */
    for (unsigned i = 0; i < SHORT; i++)
        assert_int_equal(life_begin_op(&life, life_key(i).text, NULL), ONCE_BUSY);
    life_end(&life);
}

static void expiry__many_cycles__disk_and_index_stay_bounded(void **state)
{
    enum { CYCLES = 30, KEYS = 300 };
    uint64_t disk_size = 0, index_size = 0;
    struct life life;
    unsigned number = 0;

    (void)state;
    life_begin(&life);
    (void)life_start(&life, "doubt");
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        struct once_stats stats;

        for (unsigned i = 0; i < KEYS; i++) {
            life_do(&life, life_key(number++).text, LIFE_HOUR_MS);
            (void)once__engine_work(life.store);
        }
        expire(&life, 2 * LIFE_HOUR_MS);
        stats = life_stats(&life);
        if (cycle == 2) {
            disk_size = stats.disk_size;
            index_size = stats.index_size;
        }
        if (cycle > 2) {
            /* A cycle writes some 80 segments; the keeper leaves about a dozen spare ones alone. */
            assert_true(stats.disk_size <= disk_size + 14 * LIFE_SEGMENT_SIZE);
            assert_true(stats.index_size <= index_size * 2);
            assert_true(stats.keys < KEYS);
        }
        assert_int_equal(stats.keys_open, 1);
        if (cycle % 7 == 6)
            life_again(&life, (enum life_end)(cycle % LIFE_END_COUNT));
    }
    assert_int_equal(life_state(&life, "doubt"), ONCE_STATE_DOUBT);
    life_end(&life);
}

static void index__keys_expire__are_taken_out(void **state)
{
    enum { BATCH = 100, KEYS = 40000 };
    struct life life;
    uint64_t full;

    (void)state;
    life_prepare(&life, 1ULL << 30);
    life.options.segment_size = 1 << 20;
    life_open(&life);
    for (unsigned number = 0; number < KEYS; number += BATCH) {
        struct once_op ops[BATCH];
        struct life_key keys[BATCH];

        memset(ops, 0, sizeof(ops));
        for (unsigned i = 0; i < BATCH; i++) {
            keys[i] = life_key(number + i);
            ops[i].ns = once_bytes_of("test");
            ops[i].key = once_bytes_of(keys[i].text);
            ops[i].ttl_ms = LIFE_HOUR_MS;
        }
        assert_int_equal(once_call(life.store, ops, BATCH), ONCE_OK);
        for (unsigned i = 0; i < BATCH; i++) {
            ops[i].call = ONCE_CALL_COMPLETE;
            ops[i].fence = ops[i].reply.fence;
        }
        assert_int_equal(once_call(life.store, ops, BATCH), ONCE_OK);
        life_work(&life);
    }
    full = life_stats(&life).index_size;
    assert_int_equal(life_stats(&life).keys, KEYS);
    expire(&life, 2 * LIFE_HOUR_MS);
    assert_true(life_stats(&life).keys < KEYS / 4);
    assert_true(life_stats(&life).index_size <= full); /* smaller only from 200,000 keys on */
    life_end(&life);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void inv6_told_as_expired__wall_clock_set_back_after_a_crash__stays_expired(void **state)
{
    (void)state;
    for (int end = 0; end < LIFE_END_COUNT; end++) {
        struct life life;

        life_begin(&life);
        life_do(&life, "k", LIFE_HOUR_MS);
        (void)life_start(&life, "d");
        life_pass(&life, LIFE_HOUR_MS);
        assert_int_equal(life_get(&life, "k"), ONCE_NOTFOUND);
        assert_int_equal(life_state(&life, "d"), ONCE_STATE_DOUBT);
        life.wall_ms -= LIFE_HOUR_MS;
        life_again(&life, (enum life_end)end);
        assert_int_equal(life_get(&life, "k"), ONCE_NOTFOUND);
        assert_int_equal(life_state(&life, "d"), ONCE_STATE_DOUBT);
        life_end(&life);
    }
}

/* A submitted get that time has made NOTFOUND waits until that time is durable. */
static void inv6_expired_by_time_alone__get__waits_for_a_durable_time(void **state)
{
    struct life life;
    unsigned clock = 0;
    struct life_op get = {.clock = &clock, .op = {.call = ONCE_CALL_GET}};

    (void)state;
    life_begin(&life);
    life_do(&life, "k", LIFE_HOUR_MS);
    life_pass(&life, LIFE_HOUR_MS);
    life_submit(&life, &get, "k");
    assert_int_equal(get.told, 0);
    life_write(&life);
    assert_int_equal(get.told, 1);
    assert_int_equal(get.op.reply.word, ONCE_NOTFOUND);
    life_end(&life);
}

static void inv6_wall_clock_jumps__while_running__store_time_does_not(void **state)
{
    static const once_ms jumps[] = {-LIFE_START_MS / 2, 1000 * LIFE_HOUR_MS, -1, 1};
    struct life life;

    (void)state;
    life_begin(&life);
    for (size_t i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++) {
        once_ms before = life_stats(&life).now_ms;

        life.wall_ms += jumps[i];
        assert_int_equal(life_stats(&life).now_ms, before);
        life.boot_ms += 1234;
        assert_int_equal(life_stats(&life).now_ms, before + 1234);
    }
    life_end(&life);
}

static void inv6_wall_clock_jumps__across_restarts__store_time_never_runs_back(void **state)
{
    uint64_t random = seeded_start("inv6_wall_clock_jumps");
    once_ms durable = 0;
    struct life life;

    (void)state;
    life_begin(&life);
    for (unsigned i = 0; i < 60; i++) {
        once_ms now;

        life_pass(&life, (once_ms)seeded_below(&random, 10 * LIFE_HOUR_MS));
        (void)life_start(&life, life_key(i).text); /* its time is durable now */
        durable = life_stats(&life).now_ms;
        life.wall_ms = LIFE_START_MS + (once_ms)seeded_below(&random, 1000 * LIFE_HOUR_MS);
        life_again(&life, (enum life_end)seeded_below(&random, LIFE_END_COUNT));
        now = life_stats(&life).now_ms;
        assert_true(now >= durable);
        assert_int_equal(now, life.wall_ms > durable ? life.wall_ms : durable);
    }
    life_end(&life);
}

static void clock__outside_of_its_years__refuses_to_open(void **state)
{
    struct once_message message = {""};
    struct life life;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    life.wall_ms = -1;
    assert_int_equal(life_try_open(&life, &message), ONCE_ERR_CLOCK);
    assert_non_null(strstr(message.text, "clock"));
    life.wall_ms = LIFE_START_MS;
    life_open(&life);
    life_end(&life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expiry__all_of_a_segment_is_dead__is_retired_and_recycled),
        cmocka_unit_test(inv4_expiry__doubts_and_longer_retentions__are_carried),
        cmocka_unit_test(forget__older_record_still_on_disk__does_not_come_back),
        cmocka_unit_test(inv1_begun_while_its_segment_is_retired__killed__is_there_once),
        cmocka_unit_test(expiry__many_cycles__disk_and_index_stay_bounded),
        cmocka_unit_test(index__keys_expire__are_taken_out),
        cmocka_unit_test(inv6_told_as_expired__wall_clock_set_back_after_a_crash__stays_expired),
        cmocka_unit_test(inv6_expired_by_time_alone__get__waits_for_a_durable_time),
        cmocka_unit_test(inv6_wall_clock_jumps__while_running__store_time_does_not),
        cmocka_unit_test(inv6_wall_clock_jumps__across_restarts__store_time_never_runs_back),
        cmocka_unit_test(clock__outside_of_its_years__refuses_to_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
