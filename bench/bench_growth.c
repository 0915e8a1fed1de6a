/* SPDX-License-Identifier: Apache-2.0
 *
 * What a store costs as it grows, and whether anybody notices when keys expire.
 *
 * Growth: one store is filled to 1 M, 10 M and, with --full and where the disk has room, 100 M
 * operations (begin and complete, batches of 1,024, one thread). At each size: memory and disk of a
 * key, time of an operation over the last million, a clean restart, a restart after SIGKILL at full
 * load, both with a cold page cache. Every step is a process of its own, so that memory is that of
 * the store and a kill is a kill.
 *
 * Expiry: a store is filled with keys that live for a while; load with keys that live longer goes
 * on, and the throughput before the first of them expires is compared with the throughput while all
 * of them do.
 *
 * Prints "growth.SIZE …", "growth.expiry …" and what is judged with limit=. Exits 1 when a limit is
 * missed, unless --report-only is given, which also makes all of it small.
 */
#include "store/expiry.h"
#include "store/once_load.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 1024, SIZES_MAX = 3, STATS_BATCHES = 64, NAME_SIZE = 32 };
enum { DISK_BYTES_OP = 450, KILL_AFTER_MS = 1000 };
enum { MEMORY_BYTES_MAX = 24, RESTART_MS_MAX = 2000, DIP_PERCENT_MAX = 10, PAUSE_MS_MAX = 50 };

static const double GROWTH_RATIO_MAX = 1.5;

struct settings {
    uint64_t sizes[SIZES_MAX];
    size_t size_count;
    uint64_t expiring; /* keys */
    double steady_seconds;
    const char *folder;
    bool report_only;
};

/* What a step tells the process that started it. */
struct tidings {
    uint64_t keys;
    double index_bytes_key;
    double index_bytes_key_worst; /* seen while filling, from a million keys on */
    double rss_bytes_key;
    double log_bytes_op;
    double disk_bytes_op;
    double ns_op;
    double open_ms;
    uint64_t recovered;
};

/* One step: runs in a process of its own. */
struct step {
    const struct settings *settings;
    const char *folder;
    uint64_t from, to; /* operations */
    int ready;         /* the load step says here that it is under way */
};

/* ---- Processes ------------------------------------------------------------------------------- */

static void write_all(int fd, const void *data, size_t size)
{
    if (write(fd, data, size) != (ssize_t)size)
        bench_die("pipe: %s", strerror(errno));
}

static pid_t start(void (*run)(const struct step *, struct tidings *), struct step step,
                   int *ret_from)
{
    int ends[2];
    pid_t pid;

    if (pipe(ends) != 0)
        bench_die("pipe: %s", strerror(errno));
    fflush(NULL);
    pid = fork();
    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0) {
        struct tidings tidings = {0};

        close(ends[0]);
        step.ready = ends[1];
        run(&step, &tidings);
        write_all(ends[1], &tidings, sizeof tidings);
        _exit(0);
    }
    close(ends[1]);
    *ret_from = ends[0];
    return pid;
}

static struct tidings run_step(void (*run)(const struct step *, struct tidings *), struct step step)
{
    struct tidings tidings;
    int from, status;
    pid_t pid = start(run, step, &from);
    ssize_t size = read(from, &tidings, sizeof tidings);

    close(from);
    if (waitpid(pid, &status, 0) != pid || status != 0 || size != (ssize_t)sizeof tidings)
        bench_die("a step failed");
    return tidings;
}

/* ---- Growth ---------------------------------------------------------------------------------- */

static void grow(const struct step *step, struct tidings *ret)
{
    uint64_t resident = bench_resident(), measured_ns = 0, measured = 0;
    uint64_t last = step->to - step->from < 1000000 ? step->to - step->from : 1000000;
    struct once_store *store = bench_once_open(step->folder);
    struct once_stats stats;
    struct bench_keys source;
    struct bench_ops ops;

    bench_keys_init(&source, BENCH_UUID4, step->to, 0);
    bench_ops_init(&ops, BATCH);
    for (uint64_t done = step->from, batch = 0; done < step->to; done += BATCH, batch++) {
        uint64_t ns = bench_ops_pair(&ops, store, &source, 0);

        if (done >= step->to - last) {
            measured_ns += ns;
            measured += BATCH;
        }
        if (batch % STATS_BATCHES == 0) {
            double each;

            once_stats_get(store, &stats);
            each = (double)stats.index_size / (double)stats.keys;
            if (stats.keys >= 1000000 && each > ret->index_bytes_key_worst)
                ret->index_bytes_key_worst = each;
        }
    }
    once_stats_get(store, &stats);
    ret->keys = stats.keys;
    ret->ns_op = (double)measured_ns / (double)measured;
    ret->index_bytes_key = (double)stats.index_size / (double)stats.keys;
    if (ret->index_bytes_key > ret->index_bytes_key_worst)
        ret->index_bytes_key_worst = ret->index_bytes_key;
    ret->rss_bytes_key = (double)(bench_resident() - resident) / (double)stats.keys;
    ret->log_bytes_op = (double)stats.log_size / (double)stats.keys;
    ret->disk_bytes_op = (double)stats.disk_size / (double)stats.keys;
    bench_ops_release(&ops);
    bench_once_close(store);
}

static void reopen(const struct step *step, struct tidings *ret)
{
    struct once_store *store;
    struct once_stats stats;
    uint64_t begun_ns;

    bench_chill(step->folder);
    begun_ns = bench_now_ns();
    store = bench_once_open(step->folder);
    ret->open_ms = (double)(bench_now_ns() - begun_ns) / 1e6;
    once_stats_get(store, &stats);
    ret->keys = stats.keys;
    ret->recovered = stats.recovered;
    bench_once_close(store);
}

/* Full load until somebody kills it. */
static void load_for_ever(const struct step *step, struct tidings *ret)
{
    struct once_store *store = bench_once_open(step->folder);
    struct bench_keys source;
    struct bench_ops ops;

    (void)ret;
    bench_keys_init(&source, BENCH_UUID4, ~step->to, 0);
    bench_ops_init(&ops, BATCH);
    bench_ops_pair(&ops, store, &source, 0);
    write_all(step->ready, "!", 1);
    for (;;)
        bench_ops_pair(&ops, store, &source, 0);
}

static void kill_under_load(struct step step, unsigned after_ms)
{
    int from, status;
    pid_t pid = start(load_for_ever, step, &from);
    char word;

    if (read(from, &word, 1) != 1)
        bench_die("the load did not start");
    bench_sleep_ms(after_ms);
    kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
        bench_die("the load ended before it was killed");
    close(from);
}

static bool judge(const char *name, double value, double limit)
{
    printf("growth.%s value=%.2f limit=%g\n", name, value, limit);
    return value <= limit;
}

static void size_name(uint64_t size, char ret_name[NAME_SIZE])
{
    bool millions = size % 1000000 == 0;

    snprintf(ret_name, NAME_SIZE, "%llu%s",
             (unsigned long long)(millions ? size / 1000000 : size / 1000), millions ? "M" : "k");
}

/* Memory and restart of one size. */
static bool judge_size(const char *size, const struct tidings *filled, double clean_ms)
{
    char name[64];
    bool kept;

    snprintf(name, sizeof name, "memory_bytes_key_worst_%s", size);
    kept = judge(name, filled->index_bytes_key_worst, MEMORY_BYTES_MAX);
    if (filled->keys >= 10000000) { /* below, what does not grow with the keys counts too much */
        snprintf(name, sizeof name, "resident_bytes_key_%s", size);
        kept &= judge(name, filled->rss_bytes_key, MEMORY_BYTES_MAX);
    }
    if (filled->keys / 10000000 == 1) {
        snprintf(name, sizeof name, "clean_restart_ms_%s", size);
        kept &= judge(name, clean_ms, RESTART_MS_MAX);
    }
    return kept;
}

static bool measure_growth(const struct settings *settings)
{
    char *folder = bench_scratch_make(settings->folder), *store = bench_path(folder, "store");
    struct step step = {.settings = settings, .folder = store};
    double first_ns = 0, last_ns = 0;
    bool kept = true;
    char name[NAME_SIZE];

    for (size_t i = 0; i < settings->size_count; i++) {
        uint64_t size = settings->sizes[i];
        unsigned kill_after_ms = settings->report_only ? 50 : KILL_AFTER_MS;
        struct tidings filled, clean, killed;

        size_name(size, name);
        if (bench_disk_free(folder) < (size - step.from) * DISK_BYTES_OP) {
            fprintf(stderr, "bench_growth: %s is left out: it needs %.0f GB of disk below %s\n",
                    name, (double)((size - step.from) * DISK_BYTES_OP) / 1e9, folder);
            break;
        }
        step.to = size;
        filled = run_step(grow, step);
        clean = run_step(reopen, step);
        kill_under_load(step, kill_after_ms);
        killed = run_step(reopen, step);
        if (clean.keys != filled.keys || killed.keys < filled.keys)
            bench_die("%llu keys were filled in, %llu and %llu came back",
                      (unsigned long long)filled.keys, (unsigned long long)clean.keys,
                      (unsigned long long)killed.keys);
        printf("growth.%s keys=%llu index_bytes_key=%.2f resident_bytes_key=%.2f "
               "log_bytes_op=%.1f disk_bytes_op=%.1f ns_op=%.0f clean_restart_ms=%.0f "
               "killed_restart_ms=%.0f records_reread=%llu\n",
               name, (unsigned long long)filled.keys, filled.index_bytes_key, filled.rss_bytes_key,
               filled.log_bytes_op, filled.disk_bytes_op, filled.ns_op, clean.open_ms,
               killed.open_ms, (unsigned long long)killed.recovered);
        fflush(stdout);
        kept &= judge_size(name, &filled, clean.open_ms);
        first_ns = i == 0 ? filled.ns_op : first_ns;
        last_ns = filled.ns_op;
        step.from = killed.keys; /* what was under way when it was killed is there too */
    }
    if (first_ns > 0)
        kept &= judge("time_largest_over_smallest", last_ns / first_ns, GROWTH_RATIO_MAX);
    bench_scratch_remove(folder);
    free(store);
    free(folder);
    return kept;
}

static bool measure_expiry(const struct settings *settings)
{
    struct bench_expiry told = bench_expire(&(struct bench_expiry_load){
        .folder = settings->folder,
        .keys = settings->expiring,
        .steady_seconds = settings->steady_seconds,
    });
    bool kept = true;

    printf("growth.expiry keys=%llu segments=%llu steady_ops=%.0f expiring_ops=%.0f "
           "worst_second_ops=%.0f steady_pause_ms=%.1f expiring_pause_ms=%.1f\n",
           (unsigned long long)settings->expiring, (unsigned long long)told.segments,
           told.steady.ops, told.expiring.ops, told.expiring.ops_worst_second, told.steady.pause_ms,
           told.expiring.pause_ms);
    kept &= judge("expiry_dip_percent", (1 - told.expiring.ops / told.steady.ops) * 100,
                  DIP_PERCENT_MAX);
    kept &= judge("expiry_pause_ms", told.expiring.pause_ms, PAUSE_MS_MAX);
    return kept;
}

static const struct settings full_size = {
    .sizes = {1000000, 10000000, 100000000},
    .size_count = 2, /* 3 with --full */
    .expiring = 10000000,
    .steady_seconds = 5,
};
static const struct settings quick_size = {
    .sizes = {50000, 100000},
    .size_count = 2,
    .expiring = 150000,
    .steady_seconds = 0.5,
    .report_only = true,
};

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"report-only", no_argument, NULL, 'q'},    {"full", no_argument, NULL, 'a'},
        {"folder", required_argument, NULL, 'f'},   {"keys", required_argument, NULL, 'k'},
        {"expiring", required_argument, NULL, 'e'}, {0},
    };
    struct settings settings = full_size;
    bool kept = true;
    int option;

    if (argc > 1 && strcmp(argv[1], "--report-only") == 0)
        settings = quick_size;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'a') {
            settings.size_count = SIZES_MAX;
        } else if (option == 'f') {
            settings.folder = optarg;
        } else if (option == 'k') {
            settings.sizes[0] = (uint64_t)bench_number("--keys", optarg, 1000, 1e9);
            settings.size_count = 1;
        } else if (option == 'e') {
            settings.expiring = (uint64_t)bench_number("--expiring", optarg, 0, 1e9);
        } else if (option != 'q' || !settings.report_only) {
            fputs("usage: bench_growth [--report-only | --full] [--folder F] [--keys N] "
                  "[--expiring N]\n",
                  stderr);
            return 64;
        }
    }
    kept &= measure_growth(&settings);
    if (settings.expiring > 0)
        kept &= measure_expiry(&settings);
    return kept || settings.report_only ? 0 : 1;
}
