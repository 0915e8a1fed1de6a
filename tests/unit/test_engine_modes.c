/* SPDX-License-Identifier: Apache-2.0
 *
 * Durability by what it loses: "interval" loses at most the interval, "none" what the system had
 * not written by itself, and a close loses nothing. The store opens again whatever was lost.
 */
#include "engine_help.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            none__power_cut_after_many_segments__opens_with_a_beginning_of_the_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
