/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/uuid.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <once/limits.h>

/* The example of RFC 9562, A.6: born 2022-02-22 19:22:22 UTC. */
static const char rfc_v7[] = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
static const int64_t rfc_v7_birth_ms = 1645557742000;

static const uint8_t no_random[ONCE__UUID7_RANDOM_SIZE];

static struct once__uuid parsed(const char *text)
{
    struct once__uuid uuid;

    assert_int_equal(once__uuid_parse(once_bytes_of(text), &uuid), ONCE_OK);
    return uuid;
}

static struct once__uuid next7(struct once__uuid7_clock *clock, int64_t now_ms)
{
    struct once__uuid uuid;

    assert_int_equal(once__uuid7_next(clock, now_ms, no_random, &uuid), ONCE_OK);
    return uuid;
}

static void assert_larger(const struct once__uuid *a, const struct once__uuid *b)
{
    assert_true(memcmp(a->bytes, b->bytes, ONCE__UUID_SIZE) > 0);
}

static void uuid_parse__either_case__gives_the_bytes(void **state)
{
    static const uint8_t bytes[ONCE__UUID_SIZE] = {0x01, 0x7f, 0x22, 0xe2, 0x79, 0xb0, 0x7c, 0xc3,
                                                   0x98, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f};
    struct once__uuid uuid = parsed(rfc_v7);

    (void)state;
    assert_memory_equal(uuid.bytes, bytes, sizeof(bytes));
    uuid = parsed("017F22E2-79B0-7CC3-98C4-DC0C0C07398F");
    assert_memory_equal(uuid.bytes, bytes, sizeof(bytes));
}

static void uuid_format__any_bytes__is_lower_case_and_reads_back(void **state)
{
    struct once__uuid uuid, again;
    char text[ONCE__UUID_TEXT_SIZE + 1] = {0};

    (void)state;
    uuid = parsed("017F22E2-79B0-7CC3-98C4-DC0C0C07398F");
    once__uuid_format(&uuid, text);
    assert_string_equal(text, rfc_v7);
    for (unsigned byte = 0; byte < 256; byte++) {
        memset(uuid.bytes, (int)byte, sizeof(uuid.bytes));
        uuid.bytes[byte % ONCE__UUID_SIZE] ^= 0x5a;
        once__uuid_format(&uuid, text);
        again = parsed(text);
        assert_memory_equal(again.bytes, uuid.bytes, sizeof(uuid.bytes));
    }
}

static void uuid_parse__wrong_character_anywhere__is_refused(void **state)
{
    static const char wrong[] = "g/:@G`-0 {\x7f";

    (void)state;
    for (size_t i = 0; i < ONCE__UUID_TEXT_SIZE; i++) {
        bool hyphen = rfc_v7[i] == '-';

        for (const char *c = wrong; *c != '\0'; c++) {
            char text[sizeof(rfc_v7)];
            struct once__uuid uuid;
            bool fine = hyphen ? *c == '-' : *c == '0';

            memcpy(text, rfc_v7, sizeof(rfc_v7));
            text[i] = *c;
            assert_int_equal(once__uuid_parse(once_bytes_of(text), &uuid),
                             fine ? ONCE_OK : ONCE_ERR_INVALID);
        }
    }
}

static void uuid_parse__wrong_size__is_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f0",
        "017f22e279b07cc398c4dc0c0c07398f",
        "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}",
        " 017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    };
    struct once__uuid uuid = {.bytes = {42}};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(once__uuid_parse(once_bytes_of(wrong[i]), &uuid), ONCE_ERR_INVALID);
    assert_int_equal(uuid.bytes[0], 42);
}

static void uuid_birth__version_7_of_the_rfc__is_its_time(void **state)
{
    struct once__uuid uuid = parsed(rfc_v7);

    (void)state;
    assert_true(once__uuid_is_rfc(&uuid));
    assert_int_equal(once__uuid_version(&uuid), 7);
    assert_int_equal(once__uuid_birth_ms(&uuid), rfc_v7_birth_ms);
    uuid = parsed("ffffffff-ffff-7fff-bfff-ffffffffffff");
    assert_int_equal(once__uuid_birth_ms(&uuid), (1LL << 48) - 1);
    uuid = parsed("00000000-0000-7000-8000-000000000000");
    assert_int_equal(once__uuid_birth_ms(&uuid), 0);
}

static void uuid_birth__any_other_version_or_variant__is_none(void **state)
{
    static const char hex[] = "0123456789abcdef";

    (void)state;
    for (unsigned version = 0; version < 16; version++) {
        for (unsigned variant = 0; variant < 16; variant++) {
            char text[sizeof(rfc_v7)];
            struct once__uuid uuid;
            bool is_v7 = version == 7 && variant >= 8 && variant <= 11;

            memcpy(text, rfc_v7, sizeof(rfc_v7));
            text[14] = hex[version];
            text[19] = hex[variant];
            uuid = parsed(text);
            assert_int_equal(once__uuid_version(&uuid), version);
            assert_int_equal(once__uuid_birth_ms(&uuid), is_v7 ? rfc_v7_birth_ms : -1);
        }
    }
}

static void uuid4__extreme_random_bytes__has_version_and_variant(void **state)
{
    uint8_t random[ONCE__UUID_SIZE];
    char text[ONCE__UUID_TEXT_SIZE + 1] = {0};
    struct once__uuid uuid;

    (void)state;
    memset(random, 0xff, sizeof(random));
    uuid = once__uuid4_of(random);
    once__uuid_format(&uuid, text);
    assert_string_equal(text, "ffffffff-ffff-4fff-bfff-ffffffffffff");
    memset(random, 0, sizeof(random));
    uuid = once__uuid4_of(random);
    once__uuid_format(&uuid, text);
    assert_string_equal(text, "00000000-0000-4000-8000-000000000000");
}

static void uuid7__first_of_a_millisecond__lays_out_time_counter_and_random(void **state)
{
    static const uint8_t random[ONCE__UUID7_RANDOM_SIZE] = {0xff, 0xfe, 0xff, 0x11, 0x22,
                                                            0x33, 0x44, 0x55, 0x66, 0x77};
    struct once__uuid7_clock clock = {0};
    char text[ONCE__UUID_TEXT_SIZE + 1] = {0};
    struct once__uuid uuid;

    (void)state;
    /* The counter is 0x7ffe: the top bit stays free for the rest of the millisecond. */
    assert_int_equal(once__uuid7_next(&clock, rfc_v7_birth_ms, random, &uuid), ONCE_OK);
    once__uuid_format(&uuid, text);
    assert_string_equal(text, "017f22e2-79b0-77ff-bb11-223344556677");
    assert_int_equal(once__uuid7_next(&clock, rfc_v7_birth_ms, no_random, &uuid), ONCE_OK);
    once__uuid_format(&uuid, text);
    assert_string_equal(text, "017f22e2-79b0-77ff-bc00-000000000000");
}

static void uuid7__clock_stands_still__increases_and_drifts_little(void **state)
{
    struct once__uuid7_clock clock = {0};
    struct once__uuid last = next7(&clock, 1000);

    (void)state;
    for (int i = 0; i < 200000; i++) {
        struct once__uuid uuid = next7(&clock, 1000);

        assert_larger(&uuid, &last);
        last = uuid;
    }
    /* 200,000 in one millisecond fill three and reach into the fourth. */
    assert_int_equal(once__uuid_birth_ms(&last), 1003);
    last = next7(&clock, 1004);
    assert_int_equal(once__uuid_birth_ms(&last), 1004);
}

static void uuid7__clock_jumps_back__increases_at_the_last_time(void **state)
{
    struct once__uuid7_clock clock = {0};
    struct once__uuid first = next7(&clock, 1000000);
    struct once__uuid second = next7(&clock, 5);
    struct once__uuid third = next7(&clock, 999999);

    (void)state;
    assert_larger(&second, &first);
    assert_larger(&third, &second);
    assert_int_equal(once__uuid_birth_ms(&third), 1000000);
}

static void uuid7__clock_jumps_ahead__follows(void **state)
{
    struct once__uuid7_clock clock = {0};
    struct once__uuid first = next7(&clock, 0);
    struct once__uuid second = next7(&clock, ONCE_NOW_MS_MAX);

    (void)state;
    assert_int_equal(once__uuid_birth_ms(&first), 0);
    assert_int_equal(once__uuid_birth_ms(&second), ONCE_NOW_MS_MAX);
    assert_larger(&second, &first);
}

static void uuid7__clock_outside_of_its_years__is_an_error_that_leaves_the_clock(void **state)
{
    struct once__uuid7_clock clock = {0};
    struct once__uuid uuid = {.bytes = {42}};
    uint64_t before;

    (void)state;
    (void)next7(&clock, 77);
    before = clock.last;
    assert_int_equal(once__uuid7_next(&clock, -1, no_random, &uuid), ONCE_ERR_CLOCK);
    assert_int_equal(once__uuid7_next(&clock, INT64_MIN, no_random, &uuid), ONCE_ERR_CLOCK);
    assert_int_equal(once__uuid7_next(&clock, ONCE_NOW_MS_MAX + 1, no_random, &uuid),
                     ONCE_ERR_CLOCK);
    assert_int_equal(once__uuid7_next(&clock, INT64_MAX, no_random, &uuid), ONCE_ERR_CLOCK);
    assert_true(clock.last == before);
    assert_int_equal(uuid.bytes[0], 42);
}

static void uuid7__last_counter_of_the_last_millisecond__is_an_error_and_never_wraps(void **state)
{
    struct once__uuid7_clock clock = {0};
    struct once__uuid uuid;

    (void)state;
    clock.last = ((uint64_t)ONCE_NOW_MS_MAX << ONCE__UUID7_COUNTER_BITS) + 0xfffe;
    (void)next7(&clock, ONCE_NOW_MS_MAX);
    assert_int_equal(once__uuid7_next(&clock, ONCE_NOW_MS_MAX, no_random, &uuid), ONCE_ERR_CLOCK);
    assert_int_equal(once__uuid7_next(&clock, 0, no_random, &uuid), ONCE_ERR_CLOCK);
}

enum { THREAD_COUNT = 4, PER_THREAD = 20000 };

struct maker {
    struct once__uuid7_clock *clock;
    struct once__uuid *made;
    unsigned id;
    bool failed;
};

/* The clock of each thread wanders on its own. */
static void *make_many(void *argument)
{
    struct maker *maker = argument;

    for (int i = 0; i < PER_THREAD; i++) {
        int64_t now_ms = 5000 + (i * 7 + (int64_t)maker->id * 13) % 11;

        if (once__uuid7_next(maker->clock, now_ms, no_random, &maker->made[i]) != ONCE_OK)
            maker->failed = true;
    }
    return NULL;
}

static int compare_uuids(const void *a, const void *b)
{
    return memcmp(a, b, ONCE__UUID_SIZE);
}

static void uuid7__many_threads__increases_in_each_and_repeats_in_none(void **state)
{
    struct once__uuid7_clock clock = {0};
    struct once__uuid *made = calloc((size_t)THREAD_COUNT * PER_THREAD, sizeof(*made));
    struct maker makers[THREAD_COUNT];
    pthread_t threads[THREAD_COUNT];

    (void)state;
    assert_non_null(made);
    for (unsigned i = 0; i < THREAD_COUNT; i++) {
        makers[i] = (struct maker){.clock = &clock, .made = made + (size_t)i * PER_THREAD, .id = i};
        assert_int_equal(pthread_create(&threads[i], NULL, make_many, &makers[i]), 0);
    }
    for (unsigned i = 0; i < THREAD_COUNT; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(makers[i].failed);
        for (int j = 1; j < PER_THREAD; j++)
            assert_larger(&makers[i].made[j], &makers[i].made[j - 1]);
    }
    qsort(made, (size_t)THREAD_COUNT * PER_THREAD, sizeof(*made), compare_uuids);
    for (size_t i = 1; i < (size_t)THREAD_COUNT * PER_THREAD; i++)
        assert_larger(&made[i], &made[i - 1]);
    free(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uuid_parse__either_case__gives_the_bytes),
        cmocka_unit_test(uuid_format__any_bytes__is_lower_case_and_reads_back),
        cmocka_unit_test(uuid_parse__wrong_character_anywhere__is_refused),
        cmocka_unit_test(uuid_parse__wrong_size__is_refused),
        cmocka_unit_test(uuid_birth__version_7_of_the_rfc__is_its_time),
        cmocka_unit_test(uuid_birth__any_other_version_or_variant__is_none),
        cmocka_unit_test(uuid4__extreme_random_bytes__has_version_and_variant),
        cmocka_unit_test(uuid7__first_of_a_millisecond__lays_out_time_counter_and_random),
        cmocka_unit_test(uuid7__clock_stands_still__increases_and_drifts_little),
        cmocka_unit_test(uuid7__clock_jumps_back__increases_at_the_last_time),
        cmocka_unit_test(uuid7__clock_jumps_ahead__follows),
        cmocka_unit_test(uuid7__clock_outside_of_its_years__is_an_error_that_leaves_the_clock),
        cmocka_unit_test(uuid7__last_counter_of_the_last_millisecond__is_an_error_and_never_wraps),
        cmocka_unit_test(uuid7__many_threads__increases_in_each_and_repeats_in_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
