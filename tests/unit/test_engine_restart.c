/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine across restarts: what was told is there again, whichever way the last life ended, and
 * whether it is read from sidecars or from the log (INV-1, INV-3).
 */
#include "engine_help.h"

#include "base/bytes.h"

/* ---- What was told is there ------------------------------------------------------------------ */

/* Operations in every state, with every field; spread over segments when number is given. */
enum { STATES = 8 };
static const char *const state_keys[STATES] = {"started", "renewed", "checkpointed", "completed",
                                               "failed",  "retried", "doubted",      "resolved"};

static void make_states(struct life *life, unsigned *number)
{
    uint64_t fences[STATES];
    struct once_op op;

    for (int i = 0; i < STATES; i++) {
        op = (struct once_op){.call = ONCE_CALL_BEGIN,
                              .fingerprint = once_bytes_of(state_keys[i]),
                              .owner = once_bytes_of("owner"),
                              .ttl_ms = 50 * LIFE_HOUR_MS + i,
                              .lease_ms = LIFE_HOUR_MS + i};
        assert_int_equal(life_word(life, op, state_keys[i], &fences[i]), ONCE_EXECUTE);
    }
    if (number)
        life_roll(life, 0, number);
    for (int i = 0; i < STATES; i++) {
        static const enum once_call_kind calls[STATES] = {
            ONCE_CALL_GET,  ONCE_CALL_RENEW, ONCE_CALL_CHECKPOINT, ONCE_CALL_COMPLETE,
            ONCE_CALL_FAIL, ONCE_CALL_FAIL,  ONCE_CALL_RENEW,      ONCE_CALL_RENEW};

        op = (struct once_op){.call = calls[i],
                              .fence = fences[i],
                              .lease_ms = i == 1 ? 2 * LIFE_HOUR_MS : 0,
                              .point = once_bytes_of("point"),
                              .data = once_bytes_of("data"),
                              .code = -7,
                              .result = once_bytes_of("result")};
        assert_int_equal(life_word(life, op, state_keys[i], NULL), ONCE_DONE);
    }
    op = (struct once_op){.call = ONCE_CALL_BEGIN, .fingerprint = once_bytes_of("retried")};
    assert_int_equal(life_word(life, op, "retried", NULL), ONCE_EXECUTE);
    op = (struct once_op){
        .call = ONCE_CALL_RESOLVE, .done = true, .code = 9, .result = once_bytes_of("found")};
    assert_int_equal(life_word(life, op, "resolved", NULL), ONCE_DONE);
}

static void get_all(struct life *life, struct once_reply *ret_replies)
{
    for (int i = 0; i < STATES; i++)
        assert_int_equal(
            once_get(life->store, once_name_of("test", state_keys[i]), &ret_replies[i]), ONCE_OK);
}

static void assert_same_replies(const struct once_reply *a, const struct once_reply *b)
{
    for (int i = 0; i < STATES; i++, a++, b++) {
        assert_int_equal(a->word, ONCE_DONE);
        assert_int_equal(b->word, ONCE_DONE);
        assert_int_equal(a->state, b->state);
        assert_int_equal(a->fence, b->fence);
        assert_int_equal(a->attempt, b->attempt);
        assert_int_equal(a->code, b->code);
        assert_int_equal(a->created_ms, b->created_ms);
        assert_int_equal(a->lease_end_ms, b->lease_end_ms);
        assert_int_equal(a->retention_ms, b->retention_ms);
        assert_int_equal(a->expires_ms, b->expires_ms);
        assert_memory_equal(&a->fingerprint, &b->fingerprint, sizeof(a->fingerprint));
        assert_true(once__bytes_equal(a->owner, b->owner));
        assert_true(once__bytes_equal(a->point, b->point));
        assert_true(once__bytes_equal(a->data, b->data));
        assert_true(once__bytes_equal(a->result, b->result));
    }
}

static void release_all(struct once_reply *replies)
{
    for (int i = 0; i < STATES; i++)
        once_reply_release(&replies[i]);
}

static void inv3_every_state__ended_in_every_way__is_the_same_afterwards(void **state)
{
    (void)state;
    for (int end = 0; end < LIFE_END_COUNT; end++) {
        for (int spread = 0; spread < 2; spread++) {
            struct once_reply before[STATES], after[STATES];
            struct life life;
            unsigned number = 0;

            life_begin(&life);
            make_states(&life, spread ? &number : NULL);
            get_all(&life, before);
            for (int again = 0; again < 3; again++) {
                life_again(&life, (enum life_end)end);
                get_all(&life, after);
                assert_same_replies(before, after);
                release_all(after);
            }
            release_all(before);
            life_end(&life);
        }
    }
}

/* From sidecars, without them, and with damaged ones: the same. */
static void restart__sidecars_missing_or_damaged__gives_the_same(void **state)
{
    enum { WHOLE, MISSING, DAMAGED, SHORT, KINDS };
    uint64_t recovered[KINDS];

    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct once_reply before[STATES], after[STATES];
        struct life life;
        unsigned number = 0;
        uint64_t keys;

        life_begin(&life);
        make_states(&life, &number);
        for (int i = 0; i < 2; i++)
            life_roll(&life, 0, &number);
        for (int i = 0; i < 3; i++)
            (void)once__engine_work(life.store); /* sidecars come first */
        get_all(&life, before);
        keys = life_stats(&life).keys;
        life_close(&life);
        for (uint32_t slot = 0; slot < 8; slot++) {
            char name[ONCE__NAME_SIZE];
            uint64_t size;

            once__sidecar_name(slot, name);
            size = disk_file_size(life.disk, name);
            if (size == 0 || kind == WHOLE)
                continue;
            if (kind == MISSING)
                assert_true(disk_remove(life.disk, name));
            else
                assert_true(disk_flip(life.disk, name, kind == DAMAGED ? size / 2 : size - 1, 1));
        }
        life_open(&life);
        recovered[kind] = life_stats(&life).recovered;
        assert_int_equal(life_stats(&life).keys, keys);
        get_all(&life, after);
        assert_same_replies(before, after);
        release_all(before);
        release_all(after);
        life_end(&life);
    }
    for (int kind = MISSING; kind < KINDS; kind++)
        assert_true(recovered[kind] > recovered[WHOLE]); /* sidecars were read at all */
}

static void inv1_fences__across_restarts_and_forgets__only_grow(void **state)
{
    struct life life;
    uint64_t last = 0;

    (void)state;
    life_begin(&life);
    for (unsigned i = 0; i < 30; i++) {
        uint64_t fence = life_start(&life, "k");

        assert_true(fence > last);
        last = fence;
        assert_int_equal(
            life_word(&life, (struct once_op){.call = ONCE_CALL_FORGET, .fence = fence}, "k", NULL),
            ONCE_DONE);
        if (i % 5 == 4) { /* nothing but the batch headers knows of it any more */
            life_pass(&life, 100 * LIFE_HOUR_MS);
            life_work(&life);
        }
        life_again(&life, (enum life_end)(i % LIFE_END_COUNT));
        assert_int_equal(life_get(&life, "k"), ONCE_NOTFOUND);
        assert_int_equal(life_stats(&life).last_fence, last);
    }
    life_end(&life);
}

/* ---- Tails ----------------------------------------------------------------------------------- */

/* Batches under way when power failed: whichever of them landed, the log ends before the first that
 * did not, and goes on from there, again and again. */
static void torn_tail__any_of_the_writes_under_way_landed__is_cut_at_the_first_gap(void **state)
{
    enum { COUNT = ONCE_BATCHES_IN_FLIGHT_MAX };
    struct life life;
    unsigned number = 0;

    (void)state;
    life_begin(&life);
    for (unsigned landed = 0; landed < 1U << COUNT; landed++) {
        struct life_op ops[COUNT];
        struct once__write *writes[COUNT];
        unsigned clock = 0, gap = 0;
        uint64_t segments = life_stats(&life).segments;
        bool rolled;

        for (unsigned i = 0; i < COUNT; i++) {
            ops[i] = (struct life_op){.clock = &clock, .op = {.call = ONCE_CALL_BEGIN}};
            life_submit(&life, &ops[i], life_key(number + i).text);
            writes[i] = once__engine_take(life.store);
            assert_non_null(writes[i]);
        }
        rolled = life_stats(&life).segments != segments; /* a header is one of the writes */
        for (unsigned i = 0; i < COUNT; i++) {
            if (landed >> i & 1)
                assert_int_equal(once__engine_write(life.store, writes[i]), ONCE_OK);
        }
        while (gap < COUNT && (landed >> gap & 1))
            gap++;
        life_again(&life, LIFE_CUT);
        for (unsigned i = 0; i < COUNT; i++) {
            enum once_state found = life_state(&life, life_key(number + i).text);

            if (i >= gap)
                assert_int_equal(found, ONCE_STATE_ABSENT);
            else if (!rolled)
                assert_int_equal(found, ONCE_STATE_STARTED);
        }
        number += COUNT;
    }
    life_end(&life);
}

/* Power fails within a write of several blocks: all of it is there, or none. */
static void torn_tail__power_fails_within_a_batch__is_whole_or_cut(void **state)
{
    static uint8_t result[12000];
    unsigned torn = 0;

    (void)state;
    memset(result, 'r', sizeof(result));
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct disk_faults faults = {0};
        struct once_op op = {.call = ONCE_CALL_COMPLETE, .result = {result, sizeof(result)}};
        struct once_reply reply;
        struct life life;

        life_prepare(&life, LIFE_DISK_SIZE);
        disk_free(life.disk);
        life.disk = disk_new(seed, LIFE_DISK_SIZE);
        life_open(&life);
        life_work(&life);
        op.fence = life_start(&life, "k");
        faults.cut_at = disk_operations(life.disk) + 1;
        disk_set_faults(life.disk, &faults);
        assert_int_equal(life_call(&life, &op, "k"), ONCE_ERR_IO);
        once__engine_crash(life.store);
        disk_set_faults(life.disk, &(struct disk_faults){0});
        life_open(&life);
        assert_int_equal(once_get(life.store, once_name_of("test", "k"), &reply), ONCE_OK);
        if (reply.state == ONCE_STATE_COMPLETED) {
            assert_int_equal(reply.result.size, sizeof(result));
            assert_memory_equal(reply.result.data, result, sizeof(result));
        } else {
            assert_int_equal(reply.state, ONCE_STATE_STARTED);
            torn++;
        }
        once_reply_release(&reply);
        life_end(&life);
    }
    assert_true(torn > 0);
}

static void creation__power_fails_at_any_operation__the_next_open_succeeds(void **state)
{
    uint64_t count;
    struct life life;

    (void)state;
    life_begin(&life);
    count = disk_operations(life.disk);
    life_end(&life);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        for (uint64_t at = 1; at <= count; at++) {
            struct disk_faults faults = {.cut_at = at};

            life_prepare(&life, LIFE_DISK_SIZE);
            disk_free(life.disk);
            life.disk = disk_new(seed, LIFE_DISK_SIZE);
            disk_set_faults(life.disk, &faults);
            if (life_try_open(&life, NULL) == ONCE_OK)
                once__engine_crash(life.store);
            disk_set_faults(life.disk, &(struct disk_faults){0});
            life_open(&life);
            life_do(&life, "k", 0);
            life_again(&life, LIFE_CUT);
            assert_int_equal(life_get(&life, "k"), ONCE_DONE);
            life_end(&life);
        }
    }
}

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
        cmocka_unit_test(inv3_every_state__ended_in_every_way__is_the_same_afterwards),
        cmocka_unit_test(restart__sidecars_missing_or_damaged__gives_the_same),
        cmocka_unit_test(inv1_fences__across_restarts_and_forgets__only_grow),
        cmocka_unit_test(torn_tail__any_of_the_writes_under_way_landed__is_cut_at_the_first_gap),
        cmocka_unit_test(torn_tail__power_fails_within_a_batch__is_whole_or_cut),
        cmocka_unit_test(creation__power_fails_at_any_operation__the_next_open_succeeds),
        cmocka_unit_test(inv3_sidecar__record_replaced_by_one_that_is_lost__is_still_there),
        cmocka_unit_test(recovery__retired_slot_used_again_and_header_lost__opens),
        cmocka_unit_test(recovery__header_lost_and_the_next_ones_there__opens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
