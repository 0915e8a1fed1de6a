/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at the engine: lists and numbers.
 */
#include "engine_help.h"

enum { KEYS = 50 };

struct seen {
    struct life *life;
    const uint64_t *fences;
    unsigned count[KEYS];
    unsigned calls;
};

static unsigned number_of(const struct once_item *item)
{
    char text[LIFE_KEY_SIZE] = "";

    assert_true(item->key.size < sizeof(text));
    memcpy(text, item->key.data, item->key.size);
    return (unsigned)strtoul(text + strlen("key-"), NULL, 10);
}

static void see_and_renew(void *user, const struct once_item *item)
{
    struct seen *seen = user;

    seen->count[number_of(item)]++;
    if (seen->calls++ > 0)
        return;
    for (unsigned i = 0; i < KEYS; i++) {
        struct once_op op = {
            .call = ONCE_CALL_RENEW, .fence = seen->fences[i], .lease_ms = LIFE_HOUR_MS};

        assert_int_equal(life_word(seen->life, op, life_key(i).text, NULL), ONCE_DONE);
    }
}

static void list__everything_changes_while_a_page_is_shown__each_is_given_once(void **state)
{
    uint64_t fences[KEYS], cursor = 0;
    struct life life;
    struct seen seen = {.life = &life, .fences = fences};

    (void)state;
    life_begin(&life);
    for (unsigned i = 0; i < KEYS; i++)
        fences[i] = life_start(&life, life_key(i).text);
    do {
        assert_int_equal(once_list(life.store, NULL, cursor, KEYS, see_and_renew, &seen, &cursor),
                         ONCE_OK);
    } while (cursor != 0);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(seen.count[i], 1);
    life_end(&life);
}

/* ---- Filters --------------------------------------------------------------------------------- */

struct tally {
    unsigned by_state[ONCE_STATE_DOUBT + 1];
    unsigned in_ns[2];
    unsigned all;
};

static void count_item(void *user, const struct once_item *item)
{
    struct tally *tally = user;

    tally->by_state[item->state]++;
    tally->in_ns[item->ns.size == strlen("test") ? 0 : 1]++;
    tally->all++;
}

static struct tally list_all(struct life *life, struct once_filter filter, size_t count)
{
    struct tally tally = {.all = 0};
    uint64_t cursor = 0;
    int pages = 0;

    do {
        assert_int_equal(
            once_list(life->store, &filter, cursor, count, count_item, &tally, &cursor), ONCE_OK);
        assert_true(pages++ < LIFE_WORK_MAX);
    } while (cursor != 0);
    return tally;
}

static void list__by_state_and_namespace__gives_those(void **state)
{
    enum { EACH = 40 };
    struct life life;

    (void)state;
    life_begin(&life);
    for (unsigned i = 0; i < 4 * EACH; i++) {
        struct once_op op = {.call = ONCE_CALL_BEGIN,
                             .ns = once_bytes_of(i % 2 ? "test" : "other"),
                             .lease_ms = i / EACH == 1 ? 1000 : LIFE_HOUR_MS};
        struct life_key key = life_key(i);

        assert_int_equal(life_word(&life, op, key.text, &op.fence), ONCE_EXECUTE);
        op.call = i / EACH == 2 ? ONCE_CALL_COMPLETE : ONCE_CALL_FAIL;
        if (i / EACH >= 2)
            assert_int_equal(life_word(&life, op, key.text, NULL), ONCE_DONE);
    }
    life_pass(&life, 1000);
    for (int again = 0; again < 2; again++) {
        static const enum once_state states[] = {ONCE_STATE_STARTED, ONCE_STATE_DOUBT,
                                                 ONCE_STATE_COMPLETED, ONCE_STATE_FAILED};

        for (size_t count = 1; count <= ONCE_LIST_COUNT_MAX; count = count * 7 + 1) {
            assert_int_equal(list_all(&life, (struct once_filter){0}, count).all, 4 * EACH);
            for (int i = 0; i < 4; i++) {
                struct once_filter filter = {.by_state = true, .state = states[i]};
                struct tally tally = list_all(&life, filter, count);

                assert_int_equal(tally.all, EACH);
                assert_int_equal(tally.by_state[states[i]], EACH);
                filter.ns = once_bytes_of("test");
                tally = list_all(&life, filter, count);
                assert_int_equal(tally.all, EACH / 2);
                assert_int_equal(tally.in_ns[0], EACH / 2);
            }
        }
        life_again(&life, LIFE_CUT);
    }
    life_end(&life);
}

/* Operations come, change and go between pages; those that stay are given exactly once. */
static void list__changes_between_pages__what_stays_is_given_once(void **state)
{
    uint64_t fences[KEYS], cursor = 0;
    struct life life;
    struct seen seen = {.life = &life, .fences = fences, .calls = 1};
    unsigned page = 0, number = 0;

    (void)state;
    life_begin(&life);
    for (unsigned i = 0; i < KEYS; i++)
        fences[i] = life_start(&life, life_key(i).text);
    do {
        assert_int_equal(once_list(life.store,
                                   &(struct once_filter){.ns = once_bytes_of("test"),
                                                         .by_state = true,
                                                         .state = ONCE_STATE_STARTED},
                                   cursor, 3, see_and_renew, &seen, &cursor),
                         ONCE_OK);
        for (unsigned i = 0; i < KEYS; i++) {
            struct once_op op = {
                .call = ONCE_CALL_RENEW, .fence = fences[i], .lease_ms = LIFE_HOUR_MS};

            assert_int_equal(life_word(&life, op, life_key(i).text, NULL), ONCE_DONE);
        }
        if (page++ % 4 == 0)
            life_roll(&life, 0, &number); /* completed: not of this list */
        life_work(&life);
    } while (cursor != 0);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(seen.count[i], 1);
    life_end(&life);
}

static void inv2_list__of_what_is_not_durable__writes_it_first(void **state)
{
    struct life life;
    unsigned clock = 0;
    struct life_op begin = {.clock = &clock, .op = {.call = ONCE_CALL_BEGIN}};

    (void)state;
    life_begin(&life);
    life_submit(&life, &begin, "k");
    assert_int_equal(list_all(&life, (struct once_filter){0}, 10).all, 1);
    life_again(&life, LIFE_CUT);
    assert_int_equal(life_state(&life, "k"), ONCE_STATE_STARTED);
    life_end(&life);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void stats__a_few_operations__add_up(void **state)
{
    struct once_stats stats;
    struct life life;

    (void)state;
    life_begin(&life);
    for (unsigned i = 0; i < 10; i++)
        life_do(&life, life_key(i).text, 0);
    (void)life_start(&life, "open");
    (void)life_get(&life, "nothing");
    stats = life_stats(&life);
    assert_int_equal(stats.keys, 11);
    assert_int_equal(stats.keys_open, 1);
    assert_int_equal(stats.calls, 22);
    assert_int_equal(stats.records, 21);
    assert_int_equal(stats.batches, 21);
    assert_int_equal(stats.batch_size_max, ONCE_BLOCK_SIZE);
    assert_int_equal(stats.last_fence, 11);
    assert_int_equal(stats.now_ms, LIFE_START_MS);
    assert_true(stats.reserved_size >= ONCE_RESULT_RESERVED);
    assert_true(stats.live_size > 0 && stats.live_size < stats.log_size);
    assert_true(stats.log_size <= stats.disk_size);
    assert_int_equal(stats.disk_size % LIFE_SEGMENT_SIZE, 0);
    assert_int_equal(stats.disk_size / LIFE_SEGMENT_SIZE, stats.segments + stats.segments_spare);
    assert_int_equal(stats.cold_reads, 0);
    assert_false(stats.stopped);
    life_again(&life, LIFE_CUT);
    stats = life_stats(&life);
    assert_int_equal(stats.keys, 11);
    assert_int_equal(stats.keys_open, 1);
    assert_int_equal(stats.recovered, 21);
    assert_int_equal(stats.calls, 0);
    assert_int_equal(stats.last_fence, 11);
    life_end(&life);
}

static void stats__submitted_read_of_a_cold_record__is_one_call(void **state)
{
    struct life life;
    unsigned number = 0, clock = 0;
    struct life_op get = {.clock = &clock, .op = {.call = ONCE_CALL_GET}};
    uint64_t calls;

    (void)state;
    life_begin(&life);
    (void)life_start(&life, "k");
    life_roll(&life, 0, &number);
    life_roll(&life, 0, &number);
    calls = life_stats(&life).calls;
    life_submit(&life, &get, "k");
    (void)once__engine_work(life.store);
    assert_int_equal(get.told, 1);
    assert_int_equal(get.op.reply.word, ONCE_DONE);
    once_reply_release(&get.op.reply);
    assert_int_equal(life_stats(&life).calls, calls + 1);
    life_end(&life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list__everything_changes_while_a_page_is_shown__each_is_given_once),
        cmocka_unit_test(list__by_state_and_namespace__gives_those),
        cmocka_unit_test(list__changes_between_pages__what_stays_is_given_once),
        cmocka_unit_test(inv2_list__of_what_is_not_durable__writes_it_first),
        cmocka_unit_test(stats__a_few_operations__add_up),
        cmocka_unit_test(stats__submitted_read_of_a_cold_record__is_one_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
