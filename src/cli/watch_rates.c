/* SPDX-License-Identifier: Apache-2.0
 *
 * Rates and quantiles of two samples. Pure: no clock, no I/O.
 *
 * A server's counters are all of one moment, uptime_ms; so the difference of two documents over the
 * difference of their moments is the rate, however late either arrived.
 */
#include "cli/watch.h"

#include <string.h>

/* ---- Quantiles ------------------------------------------------------------------------------- */

double watch_quantile(const uint64_t buckets[WATCH_BUCKETS], double part)
{
    uint64_t all = 0, below = 0;
    double rank;

    for (size_t i = 0; i < WATCH_BUCKETS; i++)
        all += buckets[i];
    if (all == 0)
        return -1;
    rank = part * (double)all;
    for (size_t i = 0; i < WATCH_BUCKETS; i++) {
        double low = i == 0 ? 0 : (double)(1ULL << (i - 1));
        double inside = rank - (double)below;

        below += buckets[i];
        if (buckets[i] == 0 || (double)below < rank)
            continue;
        if (i == WATCH_BUCKETS - 1)
            return low;
        return low + ((double)(1ULL << i) - low) * inside / (double)buckets[i];
    }
    return -1; /* part is more than 1 */
}

/* The upper bound of the highest one; of the last bucket its lower one. */
static double highest(const uint64_t buckets[WATCH_BUCKETS])
{
    for (size_t i = WATCH_BUCKETS; i > 0; i--) {
        if (buckets[i - 1] > 0)
            return (double)(1ULL << (i - 1 < WATCH_BUCKETS - 1 ? i - 1 : WATCH_BUCKETS - 2));
    }
    return -1;
}

/* False: it runs backwards. */
static bool times_of(const struct once_spread *before, const struct once_spread *after,
                     struct watch_times *ret_times)
{
    uint64_t buckets[WATCH_BUCKETS];

    for (size_t i = 0; i < WATCH_BUCKETS; i++) {
        if (after->buckets[i] < before->buckets[i])
            return false;
        buckets[i] = after->buckets[i] - before->buckets[i];
    }
    ret_times->p50 = watch_quantile(buckets, 0.5);
    ret_times->p99 = watch_quantile(buckets, 0.99);
    ret_times->max = highest(buckets);
    return true;
}

/* ---- Rates ----------------------------------------------------------------------------------- */

static bool rate(uint64_t before, uint64_t after, double seconds, double *ret_rate)
{
    if (after < before)
        return false;
    *ret_rate = (double)(after - before) / seconds;
    return true;
}

void watch_rates_of(const struct watch_sample *before, const struct watch_sample *after,
                    struct watch_rates *ret_rates)
{
    struct watch_rates rates = {.known = true};
    double seconds;

    memset(ret_rates, 0, sizeof(*ret_rates));
    ret_rates->latency = ret_rates->write = (struct watch_times){-1, -1, -1};
    if (!before || !before->server || !after->server || before->started_ms != after->started_ms ||
        after->uptime_ms <= before->uptime_ms)
        return;
    rates.length_ms = (once_ms)(after->uptime_ms - before->uptime_ms);
    seconds = (double)rates.length_ms / 1000;
    for (size_t word = 0; word < WATCH_WORDS; word++) {
        rates.known = rates.known &&
                      rate(before->words[word], after->words[word], seconds, &rates.words[word]);
        rates.calls += rates.words[word];
    }
    rates.known = rates.known && rate(before->errors, after->errors, seconds, &rates.errors) &&
                  rate(before->batches, after->batches, seconds, &rates.writes) &&
                  rate(before->records, after->records, seconds, &rates.records) &&
                  times_of(&before->latency_us, &after->latency_us, &rates.latency) &&
                  times_of(&before->write_us, &after->write_us, &rates.write);
    rates.calls += rates.errors;
    if (rates.known)
        *ret_rates = rates;
}

const struct watch_rates *watch_past(const struct watch_view *view, size_t i)
{
    if (i >= view->past_count)
        return NULL;
    return &view->past[(view->past_next + WATCH_PAST_MAX - 1 - i) % WATCH_PAST_MAX];
}
