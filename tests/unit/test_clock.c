/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/seeded.h"

#include <once/limits.h>

#include "engine/clock.h"

struct hand {
    once_ms wall_ms;
    once_ms boot_ms;
};

static once_ms hand_wall_ms(void *self)
{
    return ((struct hand *)self)->wall_ms;
}

static once_ms hand_boot_ms(void *self)
{
    return ((struct hand *)self)->boot_ms;
}

static struct once__time_source source_of(struct hand *hand)
{
    return (struct once__time_source){hand_wall_ms, hand_boot_ms, hand};
}

static void start__wall_is_later__starts_at_wall(void **state)
{
    struct hand hand = {.wall_ms = 5000, .boot_ms = 70};
    struct once__time_source source = source_of(&hand);
    struct once__clock clock;

    (void)state;
    assert_int_equal(once__clock_start(&clock, &source, 4999), ONCE_OK);
    assert_int_equal(once__clock_now(&clock), 5000);
}

static void start__durable_time_is_later__starts_there(void **state)
{
    struct hand hand = {.wall_ms = 5000, .boot_ms = 70};
    struct once__time_source source = source_of(&hand);
    struct once__clock clock;

    (void)state;
    assert_int_equal(once__clock_start(&clock, &source, 9000), ONCE_OK);
    assert_int_equal(once__clock_now(&clock), 9000);
}

static void now__wall_is_set__follows_the_boot_clock_only(void **state)
{
    struct hand hand = {.wall_ms = 5000, .boot_ms = 70};
    struct once__time_source source = source_of(&hand);
    struct once__clock clock;

    (void)state;
    assert_int_equal(once__clock_start(&clock, &source, 0), ONCE_OK);
    hand.boot_ms += 30;
    hand.wall_ms = 1;
    assert_int_equal(once__clock_now(&clock), 5030);
    hand.wall_ms = ONCE_NOW_MS_MAX;
    assert_int_equal(once__clock_now(&clock), 5030);
    hand.boot_ms = 60; /* against its promise */
    assert_int_equal(once__clock_now(&clock), 5000);
}

static void start__wall_outside_the_years__is_refused(void **state)
{
    struct hand hand = {.wall_ms = -1};
    struct once__time_source source = source_of(&hand);
    struct once__clock clock = {.start_ms = 77};

    (void)state;
    assert_int_equal(once__clock_start(&clock, &source, 1000), ONCE_ERR_CLOCK);
    hand.wall_ms = ONCE_NOW_MS_MAX + 1;
    assert_int_equal(once__clock_start(&clock, &source, 1000), ONCE_ERR_CLOCK);
    assert_int_equal(clock.start_ms, 77);
    hand.wall_ms = 0;
    assert_int_equal(once__clock_start(&clock, &source, 0), ONCE_OK);
    assert_int_equal(once__clock_now(&clock), 0);
}

static void now__at_the_end_of_time__stays_there(void **state)
{
    struct hand hand = {.wall_ms = ONCE_NOW_MS_MAX - 5};
    struct once__time_source source = source_of(&hand);
    struct once__clock clock;

    (void)state;
    assert_int_equal(once__clock_start(&clock, &source, 0), ONCE_OK);
    hand.boot_ms = 4;
    assert_int_equal(once__clock_now(&clock), ONCE_NOW_MS_MAX - 1);
    hand.boot_ms = INT64_MAX;
    assert_int_equal(once__clock_now(&clock), ONCE_NOW_MS_MAX);
    hand.boot_ms = 0;
    assert_int_equal(once__clock_start(&clock, &source, INT64_MAX), ONCE_OK);
    assert_int_equal(once__clock_now(&clock), ONCE_NOW_MS_MAX);
}

static void system_time__read_twice__is_sane(void **state)
{
    const struct once__time_source *system = &once__system_time;
    once_ms wall_ms = system->wall_ms(system->self), boot_ms = system->boot_ms(system->self);
    struct timespec now;

    (void)state;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    assert_in_range(wall_ms, ((once_ms)now.tv_sec - 60) * 1000, ((once_ms)now.tv_sec + 60) * 1000);
    assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &now), 0);
    assert_in_range(boot_ms, 0, (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    assert_true(system->boot_ms(system->self) >= boot_ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start__wall_is_later__starts_at_wall),
        cmocka_unit_test(start__durable_time_is_later__starts_there),
        cmocka_unit_test(now__wall_is_set__follows_the_boot_clock_only),
        cmocka_unit_test(start__wall_outside_the_years__is_refused),
        cmocka_unit_test(now__at_the_end_of_time__stays_there),
        cmocka_unit_test(system_time__read_twice__is_sane),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
