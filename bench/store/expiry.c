/* SPDX-License-Identifier: Apache-2.0
 *
 * See expiry.h.
 */
#include "expiry.h"

#include <stdlib.h>

#include "once_load.h"

enum { BATCH = 1024, WINDOW_MS = 100, WINDOWS_MAX = 1 << 14, WINDOWS_MIN = 5, TRIAL_KEYS = 500000 };

struct window {
    uint64_t ops;
    uint64_t pause_ns; /* the longest call */
    uint64_t retired;  /* segments, at its end */
};

/* Load in windows of 100 ms, until the windows are full or so many segments are retired that every
 * key of the filling is gone. Returns how many windows there are. */
static size_t watch(struct once_store *store, struct bench_ops *ops, struct bench_keys *source,
                    uint64_t retired_end, uint64_t length_ns, struct window *ret_windows)
{
    uint64_t begun_ns = bench_now_ns();
    struct once_stats stats;
    size_t at = 0;

    for (;;) {
        struct window *window = &ret_windows[at];
        uint64_t end_ns = begun_ns + (at + 1) * WINDOW_MS * 1000000ULL;

        *window = (struct window){0};
        while (bench_now_ns() < end_ns) {
            uint64_t ns = bench_ops_pair(ops, store, source, ONCE_RETENTION_MS_DEFAULT);

            window->ops += BATCH;
            window->pause_ns = ns > window->pause_ns ? ns : window->pause_ns;
        }
        once_stats_get(store, &stats);
        window->retired = stats.segments_retired;
        at++;
        if (at == WINDOWS_MAX || window->retired >= retired_end ||
            bench_now_ns() - begun_ns > length_ns)
            return at;
    }
}

static double mean_rate(const struct window *windows, size_t count)
{
    uint64_t ops = 0;

    for (size_t i = 0; i < count; i++)
        ops += windows[i].ops;
    return count == 0 ? 0 : (double)ops * 1000 / ((double)count * WINDOW_MS);
}

static double longest_pause_ms(const struct window *windows, size_t count)
{
    uint64_t longest = 0;

    for (size_t i = 0; i < count; i++)
        longest = windows[i].pause_ns > longest ? windows[i].pause_ns : longest;
    return (double)longest / 1e6;
}

/* Slowest stretch of a second. */
static double worst_second(const struct window *windows, size_t count)
{
    size_t length = 1000 / WINDOW_MS;
    double worst = mean_rate(windows, count);

    for (size_t i = 0; i + length <= count; i++) {
        double rate = mean_rate(windows + i, length);

        worst = rate < worst ? rate : worst;
    }
    return worst;
}

/* How long the filling will take, from a small store on the same disk. */
static double fill_seconds(const char *folder, uint64_t keys)
{
    char *path = bench_path(folder, "trial");
    struct once_store *store = bench_once_open(path);
    uint64_t ns = 0, done = 0, enough = keys < TRIAL_KEYS ? keys : TRIAL_KEYS;
    struct bench_keys source;
    struct bench_ops ops;

    bench_keys_init(&source, BENCH_UUID4, 7, 0);
    bench_ops_init(&ops, BATCH);
    for (; done < enough; done += BATCH)
        ns += bench_ops_pair(&ops, store, &source, 0);
    bench_ops_release(&ops);
    bench_once_close(store);
    free(path);
    return (double)ns / 1e9 * (double)keys / (double)done;
}

static struct bench_stretch stretch_of(const struct window *windows, size_t count)
{
    return (struct bench_stretch){
        .ops = mean_rate(windows, count),
        .ops_worst_second = worst_second(windows, count),
        .pause_ms = longest_pause_ms(windows, count),
    };
}

struct bench_expiry bench_expire(const struct bench_expiry_load *load)
{
    static struct window windows[WINDOWS_MAX];
    char *folder = bench_scratch_make(load->folder), *path = bench_path(folder, "expiring");
    double fill_s = fill_seconds(folder, load->keys);
    once_ms ttl_ms = (once_ms)((fill_s * 1.5 + load->steady_seconds) * 1000);
    uint64_t length_ns = (uint64_t)(ttl_ms + (once_ms)(fill_s * 2000) + 10000) * 1000000U;
    struct once_store *store = bench_once_open(path);
    struct bench_expiry told = {0};
    size_t count, first = 0;
    struct once_stats stats;
    struct bench_keys source;
    struct bench_ops ops;

    bench_keys_init(&source, BENCH_UUID4, 11, 0);
    bench_ops_init(&ops, BATCH);
    for (uint64_t done = 0; done < load->keys; done += BATCH)
        bench_ops_pair(&ops, store, &source, ttl_ms);
    once_stats_get(store, &stats);
    /* The segment at the tail stays: keys that live longer share it. */
    told.segments = stats.segments - 1;
    if (stats.segments_retired != 0)
        bench_die(
            "keys expired before all were there: the disk is slower than it was in the trial");
    count = watch(store, &ops, &source, told.segments, length_ns, windows);
    while (first < count && windows[first].retired == 0)
        first++;
    if (first < WINDOWS_MIN)
        bench_die("keys expired too soon to tell: the disk is slower than it was in the trial");
    if (count == 0 || windows[count - 1].retired < told.segments)
        bench_die("%llu of %llu segments expired in time",
                  (unsigned long long)(count == 0 ? 0 : windows[count - 1].retired),
                  (unsigned long long)told.segments);
    told.steady = stretch_of(windows, first);
    told.expiring = stretch_of(windows + first, count - first);
    bench_ops_release(&ops);
    bench_once_close(store);
    bench_scratch_remove(folder);
    free(path);
    free(folder);
    return told;
}
