/* SPDX-License-Identifier: Apache-2.0
 *
 * Rates and quantiles of `once watch`: of buckets whose values are known, and of samples that are
 * not of one server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/watch_rates.c" /* commands are no library */

#define ASSERT_NEAR(found, expected)                                                               \
    do {                                                                                           \
        double found_ = (found);                                                                   \
        if (found_ < (double)(expected)-1e-6 || found_ > (double)(expected) + 1e-6)                \
            fail_msg("%s is %g and not %g", #found, found_, (double)(expected));                   \
    } while (0)

/* The bucket that a value belongs to, by the rule in store.h. */
static size_t bucket_of(uint64_t value)
{
    size_t i = 0;

    while (i < WATCH_BUCKETS - 1 && value > 1ULL << i)
        i++;
    return i;
}

static void quantile__nothing__is_negative(void **state)
{
    const uint64_t none[WATCH_BUCKETS] = {0};

    (void)state;
    assert_true(watch_quantile(none, 0.5) < 0);
    assert_true(highest(none) < 0);
}

static void quantile__one_bucket__in_proportion(void **state)
{
    uint64_t buckets[WATCH_BUCKETS] = {0};

    (void)state;
    buckets[4] = 8; /* 8 to 16 */
    ASSERT_NEAR(watch_quantile(buckets, 0.5), 12);
    ASSERT_NEAR(watch_quantile(buckets, 1), 16);
    ASSERT_NEAR(watch_quantile(buckets, 0.25), 10);
    buckets[0] = 8; /* up to 1 */
    ASSERT_NEAR(watch_quantile(buckets, 0.25), 0.5);
    ASSERT_NEAR(watch_quantile(buckets, 0.5), 1);
    ASSERT_NEAR(watch_quantile(buckets, 0.75), 12);
    ASSERT_NEAR(highest(buckets), 16);
}

static void quantile__last_bucket__its_lower_bound(void **state)
{
    uint64_t buckets[WATCH_BUCKETS] = {0};

    (void)state;
    buckets[WATCH_BUCKETS - 1] = 3;
    ASSERT_NEAR(watch_quantile(buckets, 0.5), 1ULL << 26);
    ASSERT_NEAR(highest(buckets), 1ULL << 26);
}

/* Whatever the values are, the true quantile lies in the same bucket. */
static void quantile__many_values__in_the_bucket_of_the_true_one(void **state)
{
    enum { COUNT = 1000 };
    uint64_t values[COUNT], seed = 12345;

    (void)state;
    for (int round = 0; round < 50; round++) {
        uint64_t buckets[WATCH_BUCKETS] = {0};
        const double parts[] = {0.01, 0.5, 0.9, 0.99};

        for (size_t i = 0; i < COUNT; i++) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            values[i] = 1 + (seed >> 33) % (1ULL << (1 + (seed >> 59) % 20));
            buckets[bucket_of(values[i])]++;
        }
        for (size_t i = 1; i < COUNT; i++) { /* sorted by insertion */
            for (size_t j = i; j > 0 && values[j - 1] > values[j]; j--) {
                uint64_t swapped = values[j];

                values[j] = values[j - 1];
                values[j - 1] = swapped;
            }
        }
        for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
            uint64_t truth = values[(size_t)(parts[p] * COUNT) - 1];
            double found = watch_quantile(buckets, parts[p]);
            size_t at = bucket_of(truth);

            assert_true(found <= (double)(1ULL << at));
            assert_true(found >= (at == 0 ? 0 : (double)(1ULL << (at - 1))));
        }
    }
}

static struct watch_sample sample_at(uint64_t uptime_ms)
{
    return (struct watch_sample){.server = true, .started_ms = 1000, .uptime_ms = uptime_ms};
}

static void rates__two_samples__differences_over_the_time_between(void **state)
{
    struct watch_sample before = sample_at(1000), after = sample_at(3000);
    struct watch_rates rates;

    (void)state;
    before.words[ONCE_EXECUTE] = 100;
    after.words[ONCE_EXECUTE] = 300;
    after.words[ONCE_REPLAY] = 50;
    after.errors = 10;
    before.batches = 5;
    after.batches = 25;
    after.records = 40;
    before.latency_us.buckets[20] = 1000; /* of before: does not count */
    after.latency_us.buckets[20] = 1000;
    after.latency_us.buckets[3] = 4;
    watch_rates_of(&before, &after, &rates);
    assert_true(rates.known);
    assert_int_equal(rates.length_ms, 2000);
    ASSERT_NEAR(rates.words[ONCE_EXECUTE], 100);
    ASSERT_NEAR(rates.words[ONCE_REPLAY], 25);
    ASSERT_NEAR(rates.errors, 5);
    ASSERT_NEAR(rates.calls, 130);
    ASSERT_NEAR(rates.writes, 10);
    ASSERT_NEAR(rates.records, 20);
    ASSERT_NEAR(rates.latency.p50, 6);
    ASSERT_NEAR(rates.latency.max, 8);
    assert_true(rates.write.p50 < 0);
}

static void rates__not_of_one_server__unknown(void **state)
{
    struct watch_sample before = sample_at(1000), after = sample_at(2000);
    struct watch_rates rates;

    (void)state;
    watch_rates_of(NULL, &after, &rates);
    assert_false(rates.known);
    assert_true(rates.latency.p50 < 0);
    watch_rates_of(&before, &before, &rates); /* the same document */
    assert_false(rates.known);
    after.started_ms++; /* it was started again */
    watch_rates_of(&before, &after, &rates);
    assert_false(rates.known);
    after = sample_at(2000);
    after.server = false;
    watch_rates_of(&before, &after, &rates);
    assert_false(rates.known);
    after = sample_at(2000);
    before.words[ONCE_BUSY] = 1; /* backwards */
    watch_rates_of(&before, &after, &rates);
    assert_false(rates.known);
    assert_true(rates.calls < 1e-9);
}

static void past__ring__the_newest_first(void **state)
{
    static struct watch_view view;

    (void)state;
    assert_null(watch_past(&view, 0));
    for (int i = 0; i < WATCH_PAST_MAX + 3; i++) {
        view.past[view.past_next].calls = i;
        view.past_next = (view.past_next + 1) % WATCH_PAST_MAX;
        view.past_count += view.past_count < WATCH_PAST_MAX ? 1 : 0;
    }
    ASSERT_NEAR(watch_past(&view, 0)->calls, WATCH_PAST_MAX + 2);
    ASSERT_NEAR(watch_past(&view, WATCH_PAST_MAX - 1)->calls, 3);
    assert_null(watch_past(&view, WATCH_PAST_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantile__nothing__is_negative),
        cmocka_unit_test(quantile__one_bucket__in_proportion),
        cmocka_unit_test(quantile__last_bucket__its_lower_bound),
        cmocka_unit_test(quantile__many_values__in_the_bucket_of_the_true_one),
        cmocka_unit_test(rates__two_samples__differences_over_the_time_between),
        cmocka_unit_test(rates__not_of_one_server__unknown),
        cmocka_unit_test(past__ring__the_newest_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
