/* SPDX-License-Identifier: Apache-2.0
 *
 * A store over time: full load with answers that live for seconds, so that the index grows,
 * segments expire and their space is used again while it runs. Every 100 ms one line of --csv:
 * operations a second (begin and complete), latency of a call (one batch), and what the store did
 * meanwhile. plot.py draws it. Prints a summary, "longrun.all …"; nothing is judged.
 */
#include "store/once_load.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_MS = 100, THREADS_MAX = 256, SUB_BITS = 4, BUCKETS = 64 << SUB_BITS };

struct settings {
    double seconds;
    once_ms ttl_ms;
    int threads;
    size_t batch;
    const char *folder;
    const char *csv;
};

/* Latencies in buckets that are at most a sixteenth wide. Threads count, one reader takes. */
struct latency {
    _Atomic uint64_t buckets[BUCKETS];
    _Atomic uint64_t longest_ns;
};

struct load {
    struct settings settings;
    struct once_store *store;
    struct latency latency;
    _Atomic uint64_t done; /* operations */
    _Atomic bool stop;
};

struct worker {
    struct load *load;
    uint64_t seed;
    pthread_t thread;
};

/* Counts of one window, or of the whole run. */
struct counts {
    uint64_t buckets[BUCKETS];
    uint64_t calls;
    uint64_t longest_ns;
};

static size_t bucket_of(uint64_t ns)
{
    unsigned top;

    if (ns < 1U << SUB_BITS)
        return (size_t)ns;
    top = 63U - (unsigned)__builtin_clzll(ns);
    return (size_t)(top - SUB_BITS + 1) << SUB_BITS |
           (size_t)(ns >> (top - SUB_BITS) & ((1U << SUB_BITS) - 1));
}

/* The largest value of a bucket. */
static uint64_t bucket_end(size_t bucket)
{
    unsigned shift;

    if (bucket < 1U << SUB_BITS)
        return bucket;
    shift = (unsigned)(bucket >> SUB_BITS) - 1;
    return (((uint64_t)(bucket & ((1U << SUB_BITS) - 1)) | 1U << SUB_BITS) + 1) << shift;
}

static void latency_add(struct latency *latency, uint64_t ns)
{
    uint64_t longest = atomic_load_explicit(&latency->longest_ns, memory_order_relaxed);

    atomic_fetch_add_explicit(&latency->buckets[bucket_of(ns)], 1, memory_order_relaxed);
    while (ns > longest && !atomic_compare_exchange_weak(&latency->longest_ns, &longest, ns))
        continue;
}

static void latency_take(struct latency *latency, struct counts *ret_counts)
{
    *ret_counts = (struct counts){.longest_ns = atomic_exchange(&latency->longest_ns, 0)};
    for (size_t i = 0; i < BUCKETS; i++) {
        ret_counts->buckets[i] = atomic_exchange(&latency->buckets[i], 0);
        ret_counts->calls += ret_counts->buckets[i];
    }
}

static void counts_add(struct counts *sum, const struct counts *more)
{
    for (size_t i = 0; i < BUCKETS; i++)
        sum->buckets[i] += more->buckets[i];
    sum->calls += more->calls;
    sum->longest_ns = more->longest_ns > sum->longest_ns ? more->longest_ns : sum->longest_ns;
}

static double percentile_us(const struct counts *counts, double percent)
{
    uint64_t wanted = (uint64_t)((double)counts->calls * percent / 100), seen = 0;

    for (size_t i = 0; i < BUCKETS; i++) {
        seen += counts->buckets[i];
        if (seen > wanted) {
            uint64_t end = bucket_end(i);

            return (double)(end < counts->longest_ns ? end : counts->longest_ns) / 1e3;
        }
    }
    return (double)counts->longest_ns / 1e3;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct load *load = worker->load;
    size_t batch = load->settings.batch;
    struct bench_keys source;
    struct bench_ops ops;

    bench_keys_init(&source, BENCH_UUID4, worker->seed, 0);
    bench_ops_init(&ops, batch);
    while (!atomic_load_explicit(&load->stop, memory_order_relaxed)) {
        uint64_t begun_ns, ended_ns;

        bench_keys_next(&source, ops.keys, batch);
        begun_ns = bench_now_ns();
        if (bench_ops_begin(&ops, load->store, ops.keys, batch, load->settings.ttl_ms) != batch)
            bench_die("once: new keys were known");
        ended_ns = bench_now_ns();
        latency_add(&load->latency, ended_ns - begun_ns);
        bench_ops_complete(&ops, load->store, batch);
        latency_add(&load->latency, bench_now_ns() - ended_ns);
        atomic_fetch_add(&load->done, batch);
    }
    bench_ops_release(&ops);
    return NULL;
}

static void watch(struct load *load, FILE *csv)
{
    static struct counts sum, window;
    uint64_t begun_ns = bench_now_ns(), then_ns = begun_ns, then_done = 0;
    uint64_t end_ns = begun_ns + (uint64_t)(load->settings.seconds * 1e9), index_grown = 0;
    struct once_stats stats, before;

    once_stats_get(load->store, &before);
    fputs("seconds,ops,p50_us,p99_us,max_us,keys,index_bytes,disk_bytes,retired\n", csv);
    while (then_ns < end_ns) {
        uint64_t now_ns, done;

        bench_sleep_ms(WINDOW_MS);
        now_ns = bench_now_ns();
        done = atomic_load(&load->done);
        latency_take(&load->latency, &window);
        once_stats_get(load->store, &stats);
        fprintf(csv, "%.2f,%.0f,%.1f,%.1f,%.1f,%llu,%llu,%llu,%llu\n",
                (double)(now_ns - begun_ns) / 1e9,
                (double)(done - then_done) * 1e9 / (double)(now_ns - then_ns),
                percentile_us(&window, 50), percentile_us(&window, 99),
                (double)window.longest_ns / 1e3, (unsigned long long)stats.keys,
                (unsigned long long)stats.index_size, (unsigned long long)stats.disk_size,
                (unsigned long long)stats.segments_retired);
        counts_add(&sum, &window);
        index_grown += stats.index_size > before.index_size;
        before = stats;
        then_ns = now_ns;
        then_done = done;
    }
    printf("longrun.all seconds=%.0f threads=%d batch=%zu ttl_s=%.0f ops=%.0f p50_us=%.0f "
           "p99_us=%.0f max_us=%.0f keys=%llu segments_expired=%llu windows_index_grew=%llu\n",
           (double)(then_ns - begun_ns) / 1e9, load->settings.threads, load->settings.batch,
           (double)load->settings.ttl_ms / 1e3,
           (double)then_done * 1e9 / (double)(then_ns - begun_ns), percentile_us(&sum, 50),
           percentile_us(&sum, 99), (double)sum.longest_ns / 1e3, (unsigned long long)stats.keys,
           (unsigned long long)stats.segments_retired, (unsigned long long)index_grown);
}

static void run(struct load *load)
{
    static struct worker workers[THREADS_MAX];
    char *folder = bench_scratch_make(load->settings.folder), *path = bench_path(folder, "store");
    FILE *csv = fopen(load->settings.csv, "we");

    if (!csv)
        bench_die("%s: %s", load->settings.csv, strerror(errno));
    load->store = bench_once_open(path);
    for (int i = 0; i < load->settings.threads; i++) {
        workers[i] = (struct worker){.load = load, .seed = (uint64_t)i << 48};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            bench_die("no thread");
    }
    watch(load, csv);
    atomic_store(&load->stop, true);
    for (int i = 0; i < load->settings.threads; i++)
        pthread_join(workers[i].thread, NULL);
    bench_once_close(load->store);
    if (fclose(csv) != 0)
        bench_die("%s: %s", load->settings.csv, strerror(errno));
    bench_scratch_remove(folder);
    free(path);
    free(folder);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"report-only", no_argument, NULL, 'q'}, {"seconds", required_argument, NULL, 's'},
        {"ttl", required_argument, NULL, 'l'},   {"threads", required_argument, NULL, 't'},
        {"batch", required_argument, NULL, 'b'}, {"folder", required_argument, NULL, 'f'},
        {"csv", required_argument, NULL, 'c'},   {0},
    };
    static struct load load;
    int option;

    load.settings = (struct settings){
        .seconds = 60, .ttl_ms = 10000, .threads = 8, .batch = 64, .csv = "/dev/null"};
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'q') {
            load.settings.seconds = 2;
            load.settings.ttl_ms = 500;
        } else if (option == 's') {
            load.settings.seconds = bench_number("--seconds", optarg, 0.1, 1e6);
        } else if (option == 'l') {
            load.settings.ttl_ms = (once_ms)(bench_number("--ttl", optarg, 0.1, 1e6) * 1000);
        } else if (option == 't') {
            load.settings.threads = (int)bench_number("--threads", optarg, 1, THREADS_MAX);
        } else if (option == 'b') {
            load.settings.batch = (size_t)bench_number("--batch", optarg, 1, 65536);
        } else if (option == 'f') {
            load.settings.folder = optarg;
        } else if (option == 'c') {
            load.settings.csv = optarg;
        } else {
            fputs("usage: bench_longrun [--report-only] [--seconds S] [--ttl S] [--threads N] "
                  "[--batch N] [--folder F] [--csv FILE]\n",
                  stderr);
            return 64;
        }
    }
    run(&load);
    return 0;
}
