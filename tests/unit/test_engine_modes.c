/* SPDX-License-Identifier: Apache-2.0
 *
 * Durability by what it loses: "interval" loses at most the interval, "none" what the system had
 * not written by itself, and a close loses nothing. The store opens again whatever was lost.
 */
#include "engine_help.h"

#include <once/apply.h>

static void none__power_cut_after_many_segments__opens_with_a_beginning_of_the_log(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct life life;
        struct once_message message = {""};
        unsigned number = 0;
        bool lost = false;
        int err;

        life_prepare(&life, LIFE_DISK_SIZE);
        disk_free(life.disk);
        life.disk = disk_new(seed, LIFE_DISK_SIZE);
        life.options.durability = ONCE_LOSES_UNSYNCED;
        life_open(&life);
        life_do(&life, "first", 0);
        life_again(&life, LIFE_CLOSED); /* what a close was told of is durable */
        for (int i = 0; i < 6; i++) {
            life_roll(&life, 0, &number);
            life_write(&life);
            life_work(&life);
        }
        disk_cut(life.disk);
        once__engine_crash(life.store);
        life.boot_ms = 0;
        err = life_try_open(&life, &message);
        if (err != ONCE_OK)
            fail_msg("seed %" PRIu64 ": %s: %s", seed, once_err_name(err), message.text);
        assert_int_equal(life_get(&life, "first"), ONCE_DONE);
        for (unsigned i = 0; i < number; i++) {
            char key[LIFE_KEY_SIZE];
            enum once_word word;

            snprintf(key, sizeof(key), "filler-%u", i);
            word = life_get(&life, key);
            assert_true(word == ONCE_NOTFOUND || !lost); /* nothing behind the first loss */
            lost = lost || word == ONCE_NOTFOUND;
        }
        life_end(&life);
    }
}

/* What was told before the last flush survives; at most one interval is lost. */
static void interval__power_cut_or_kill__loses_at_most_the_interval(void **state)
{
    (void)state;
    for (int end = LIFE_KILLED; end <= LIFE_CUT; end++) {
        struct life life;

        life_prepare(&life, LIFE_DISK_SIZE);
        life.options.durability = ONCE_LOSES_INTERVAL;
        life.options.interval_ms = 500;
        life_open(&life);
        life_do(&life, "early", 0); /* told at once */
        assert_int_equal(life_stats(&life).batches, 0);
        life_pass(&life, 499);
        (void)once__engine_work(life.store);
        assert_int_equal(life_stats(&life).batches, 0);
        life_pass(&life, 1);
        (void)once__engine_work(life.store);
        assert_true(life_stats(&life).batches > 0);
        life_do(&life, "late", 0);
        life_again(&life, (enum life_end)end);
        assert_int_equal(life_get(&life, "early"), ONCE_DONE);
        assert_int_equal(life_get(&life, "late"), ONCE_NOTFOUND);
        life_end(&life);
    }
}

/* More than the memory holds is written before the interval is over, and nothing is in doubt. */
static void interval__more_than_fits_into_memory__is_written_meanwhile(void **state)
{
    struct life life;
    unsigned number = 0;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    life.options.durability = ONCE_LOSES_INTERVAL;
    life_open(&life);
    for (int i = 0; i < 6; i++)
        life_roll(&life, 0, &number);
    life_again(&life, LIFE_CUT);
    assert_int_equal(life_get(&life, "filler-0"), ONCE_DONE);
    life_end(&life);
}

static void every_durability__closed_and_then_power_fails__loses_nothing(void **state)
{
    (void)state;
    for (int durability = ONCE_LOSES_NOTHING; durability <= ONCE_LOSES_UNSYNCED; durability++) {
        struct life life;
        unsigned number = 0;

        life_prepare(&life, LIFE_DISK_SIZE);
        life.options.durability = (enum once_durability)durability;
        life_open(&life);
        life_roll(&life, 0, &number);
        life_do(&life, "last", 0);
        life_close(&life);
        disk_cut(life.disk);
        life.boot_ms = 0;
        life_open(&life);
        assert_int_equal(life_get(&life, "last"), ONCE_DONE);
        for (unsigned i = 0; i < number; i++) {
            char key[LIFE_KEY_SIZE];

            snprintf(key, sizeof(key), "filler-%u", i);
            assert_int_equal(life_get(&life, key), ONCE_DONE);
        }
        life_end(&life);
    }
}

static void unite(struct life *life, const char *member)
{
    struct once_bytes words[] = {once_bytes_of("UNION"), once_bytes_of("s"), once_bytes_of(member)};
    struct once_do effect = {words, 3};
    struct once_reply reply;

    assert_int_equal(once_apply(life->store, once_name_of("", ""), NULL, &effect, 1, &reply),
                     ONCE_OK);
    once_reply_release(&reply);
}

static void give_changes(struct life *from, struct life *to, struct once_changes_cursor *cursor)
{
    struct once_buf out;
    bool more = true;

    once_buf_init(&out, 1 << 20);
    while (more) {
        assert_int_equal(once_changes(from->store, cursor, 1 << 16, &out, &more), ONCE_OK);
        if (out.size > 0)
            assert_int_equal(once_changes_merge(to->store, once_buf_bytes(&out), NULL), ONCE_OK);
        once_buf_clear(&out);
    }
    once_buf_release(&out);
}

static bool same_object(struct life *a, struct life *b)
{
    struct once_object x, y;
    bool same;

    assert_int_equal(once_object_get(a->store, once_bytes_of("s"), &x), ONCE_OK);
    assert_int_equal(once_object_get(b->store, once_bytes_of("s"), &y), ONCE_OK);
    same = x.state.size > 0 && x.state.size == y.state.size &&
           memcmp(x.state.data, y.state.data, x.state.size) == 0;
    once_object_release(&x);
    once_object_release(&y);
    return same;
}

/* What is lost comes again under the same numbers of changes: a replica that knew of it would miss
 * the new ones. And one that loses what it was given is not given it again. */
static void every_durability__power_cut_of_either_replica__both_come_to_the_same(void **state)
{
    (void)state;
    for (int durability = ONCE_LOSES_NOTHING; durability <= ONCE_LOSES_UNSYNCED; durability++) {
        struct life from, to;
        struct once_changes_cursor cursor = {.since = 0};

        for (int i = 0; i < 2; i++) {
            struct life *life = i == 0 ? &from : &to;

            life_prepare(life, LIFE_DISK_SIZE);
            life->options.durability = (enum once_durability)durability;
            life_open(life);
            unite(life, "first");
            life_again(life, LIFE_CLOSED);
        }
        unite(&from, "a");
        unite(&from, "b");
        give_changes(&from, &to, &cursor);
        life_again(&from, LIFE_CUT);
        life_again(&to, LIFE_CUT);
        unite(&from, "c");
        unite(&from, "d");
        unite(&from, "e");
        give_changes(&from, &to, &cursor);
        assert_true(same_object(&from, &to));
        life_end(&from);
        life_end(&to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interval__power_cut_or_kill__loses_at_most_the_interval),
        cmocka_unit_test(interval__more_than_fits_into_memory__is_written_meanwhile),
        cmocka_unit_test(every_durability__closed_and_then_power_fails__loses_nothing),
        cmocka_unit_test(every_durability__power_cut_of_either_replica__both_come_to_the_same),
        cmocka_unit_test(none__power_cut_after_many_segments__opens_with_a_beginning_of_the_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
