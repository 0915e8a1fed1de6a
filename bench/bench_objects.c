/* SPDX-License-Identifier: Apache-2.0
 *
 * Many small objects: what one takes in memory, what a snapshot of all of them costs those who
 * apply meanwhile, and how long a restart takes.
 *
 * A store is filled with counters of 16-byte names. Then, several times: large values of one
 * register fill the log until a snapshot begins; one caller makes single applies of three effects
 * while it is written; the same for as long when it is done. Restarts are with a cold page cache:
 * after a clean close, and after the process went away while a snapshot was written that counters
 * alone had made due, which is when there is most to read: the old snapshot and all of the log
 * behind it. After the clean one counters must be what they were.
 *
 * Prints "objects.…"; what is judged has limit=. Exits 1 when a limit is missed, unless
 * --report-only is given, which also makes all of it small.
 */
#include "store/once_load.h"

#include <once/apply.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EFFECTS_MAX = ONCE_EFFECTS_MAX, OPS = 64, WORDS = 3, NAME_SIZE = 16, SINGLE_EFFECTS = 3 };
enum { SNAPSHOTS = 3, LATENCIES_MAX = 1 << 20, SPOT_CHECKS = 1000 };
enum { SNAPSHOT_MS_MAX = 120000, BALLAST_SIZE = 1 << 16, BALLAST_OPS = 8 };
enum { PAUSE_MS_MAX = 50, RESTART_MS_MAX = 5000 };

struct settings {
    uint64_t count; /* objects */
    uint32_t segment_size;
    double quiet_seconds; /* at least */
    const char *folder;
    bool report_only;
};

/* One apply, with its memory. */
struct order {
    struct bench_key key;
    char names[EFFECTS_MAX][NAME_SIZE + 1];
    struct once_bytes words[EFFECTS_MAX][WORDS];
    struct once_do dos[EFFECTS_MAX];
};

struct bench {
    struct settings settings;
    char *folder;       /* of the store */
    char *snapshotting; /* the file that is there while a snapshot is written */
    struct once_store *store;
    struct bench_keys source;
    uint64_t random;
    uint32_t *values; /* what each counter should be */
    struct order orders[OPS];
    struct once_op ops[OPS];
};

/* How long single applies took, in microseconds. */
struct latencies {
    double *us;
    size_t count;
};

/* ---- Applies --------------------------------------------------------------------------------- */

static void open_store(struct bench *bench)
{
    struct once_options options = {.segment_size = bench->settings.segment_size};
    struct once_message message;

    if (once_open(bench->folder, &options, &bench->store, &message) != ONCE_OK)
        bench_die("once: open: %s", message.text);
}

static uint64_t next_random(struct bench *bench)
{
    bench->random ^= bench->random << 13;
    bench->random ^= bench->random >> 7;
    bench->random ^= bench->random << 17;
    return bench->random;
}

static void object_name(uint64_t number, char ret_name[NAME_SIZE + 1])
{
    for (int i = NAME_SIZE - 1; i > 0; i--) {
        ret_name[i] = (char)('0' + number % 10);
        number /= 10;
    }
    ret_name[0] = 'o';
    ret_name[NAME_SIZE] = '\0';
}

/* Adds 1 to each of count counters: those from first on, or any of them where first is UINT64_MAX.
 */
static void order_make(struct bench *bench, struct order *order, uint64_t first, size_t count)
{
    bench_keys_next(&bench->source, &order->key, 1);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = first != UINT64_MAX ? first + i
                                              : next_random(bench) % bench->settings.count;

        bench->values[number]++;
        object_name(number, order->names[i]);
        order->words[i][0] = once_bytes_of("ADD");
        order->words[i][1] = (struct once_bytes){(const uint8_t *)order->names[i], NAME_SIZE};
        order->words[i][2] = once_bytes_of("1");
        order->dos[i] = (struct once_do){order->words[i], WORDS};
    }
}

static void check_reply(struct once_reply *reply)
{
    if (reply->err != ONCE_OK)
        bench_die("once: apply: %s", reply->what ? reply->what : once_err_text(reply->err));
    if (reply->word != ONCE_APPLIED)
        bench_die("once: apply answered %s", once_word_name(reply->word));
    once_reply_release(reply);
}

static struct once_bytes key_of(const struct order *order)
{
    return (struct once_bytes){(const uint8_t *)order->key.text, BENCH_KEY_SIZE};
}

/* A batch of applies with as many effects as one may have. first: see order_make; returns how many
 * effects there were. */
static uint64_t apply_batch(struct bench *bench, uint64_t first)
{
    uint64_t done = 0;
    size_t ops = 0;

    for (; ops < OPS; ops++) {
        struct order *order = &bench->orders[ops];
        uint64_t left = first != UINT64_MAX ? bench->settings.count - first - done : EFFECTS_MAX;
        size_t count = left < EFFECTS_MAX ? (size_t)left : EFFECTS_MAX;

        if (count == 0)
            break;
        order_make(bench, order, first != UINT64_MAX ? first + done : UINT64_MAX, count);
        bench->ops[ops] = (struct once_op){
            .call = ONCE_CALL_APPLY,
            .ns = once_bytes_of("bench"),
            .key = key_of(order),
            .fingerprint = {bench_value, BENCH_FINGERPRINT_SIZE},
            .dos = order->dos,
            .do_count = count,
        };
        done += count;
    }
    (void)once_call(bench->store, bench->ops, ops);
    for (size_t i = 0; i < ops; i++)
        check_reply(&bench->ops[i].reply);
    return done;
}

/* Makes the log longer, and objects hardly. */
static void apply_ballast(struct bench *bench)
{
    static const uint8_t value[BALLAST_SIZE];
    static const struct once_bytes words[] = {
        {(const uint8_t *)"SET", 3}, {(const uint8_t *)"ballast", 7}, {value, sizeof value}};
    static const struct once_do set = {words, WORDS};

    for (size_t i = 0; i < BALLAST_OPS; i++) {
        bench_keys_next(&bench->source, &bench->orders[i].key, 1);
        bench->ops[i] = (struct once_op){
            .call = ONCE_CALL_APPLY,
            .ns = once_bytes_of("bench"),
            .key = key_of(&bench->orders[i]),
            .fingerprint = {bench_value, BENCH_FINGERPRINT_SIZE},
            .dos = &set,
            .do_count = 1,
        };
    }
    (void)once_call(bench->store, bench->ops, BALLAST_OPS);
    for (size_t i = 0; i < BALLAST_OPS; i++)
        check_reply(&bench->ops[i].reply);
}

/* One apply, as an application makes it. */
static void apply_single(struct bench *bench, struct latencies *latencies)
{
    struct order *order = &bench->orders[0];
    struct once_apply_options options = {.fingerprint = {bench_value, BENCH_FINGERPRINT_SIZE}};
    struct once_reply reply;
    uint64_t begun_ns;

    order_make(bench, order, UINT64_MAX, SINGLE_EFFECTS);
    begun_ns = bench_now_ns();
    (void)once_apply(bench->store, (struct once_name){once_bytes_of("bench"), key_of(order)},
                     &options, order->dos, SINGLE_EFFECTS, &reply);
    if (latencies->count < LATENCIES_MAX)
        latencies->us[latencies->count++] = (double)(bench_now_ns() - begun_ns) / 1e3;
    check_reply(&reply);
}

/* ---- Filling and memory ---------------------------------------------------------------------- */

static void fill(struct bench *bench)
{
    uint64_t resident = bench_resident(), begun_ns = bench_now_ns(), done = 0;
    struct once_stats stats;

    open_store(bench);
    apply_ballast(bench);
    while (done < bench->settings.count)
        done += apply_batch(bench, done);
    once_stats_get(bench->store, &stats);
    if (stats.objects != done + 1)
        bench_die("%llu objects were made, %llu are there", (unsigned long long)done,
                  (unsigned long long)stats.objects);
    printf("objects.filled objects=%llu ns_object=%.0f bytes_object=%.1f "
           "resident_bytes_object=%.1f\n",
           (unsigned long long)done, (double)(bench_now_ns() - begun_ns) / (double)done,
           (double)stats.objects_size / (double)done,
           (double)(bench_resident() - resident) / (double)done);
    fflush(stdout);
}

/* ---- Snapshots ------------------------------------------------------------------------------- */

static bool snapshot_runs(const struct bench *bench)
{
    return access(bench->snapshotting, F_OK) == 0;
}

static void wait_for_snapshot(const struct bench *bench)
{
    while (snapshot_runs(bench)) /* one that was due before */
        bench_sleep_ms(1);
}

static double milliseconds_since(uint64_t begun_ns)
{
    return (double)(bench_now_ns() - begun_ns) / 1e6;
}

/* One snapshot, and as long without one. Returns how long it took, in milliseconds. */
static double watch_snapshot(struct bench *bench, struct latencies *during, struct latencies *quiet)
{
    double length_ms, quiet_ms;
    uint64_t begun_ns;

    wait_for_snapshot(bench);
    while (!snapshot_runs(bench))
        apply_ballast(bench);
    begun_ns = bench_now_ns();
    do {
        apply_single(bench, during);
        length_ms = milliseconds_since(begun_ns);
        if (length_ms > SNAPSHOT_MS_MAX)
            bench_die("the snapshot does not end");
    } while (snapshot_runs(bench));
    bench_once_settle(bench->store);
    quiet_ms = bench->settings.quiet_seconds * 1e3;
    if (quiet_ms < length_ms)
        quiet_ms = length_ms;
    begun_ns = bench_now_ns();
    while (milliseconds_since(begun_ns) < quiet_ms)
        apply_single(bench, quiet);
    return length_ms;
}

static bool judge(const char *name, double value, double limit)
{
    printf("objects.%s value=%.2f limit=%g\n", name, value, limit);
    return value <= limit;
}

static void print_latencies(const char *name, struct latencies *all)
{
    double p50 = bench_percentile(all->us, all->count, 50);
    double p99 = bench_percentile(all->us, all->count, 99);

    printf("objects.apply_%s applies=%zu p50_us=%.0f p99_us=%.0f max_us=%.0f\n", name, all->count,
           p50, p99, bench_percentile(all->us, all->count, 100));
}

static bool measure_snapshots(struct bench *bench)
{
    struct latencies during = {bench_alloc(LATENCIES_MAX, sizeof(double)), 0};
    struct latencies quiet = {bench_alloc(LATENCIES_MAX, sizeof(double)), 0};
    double lengths_ms[SNAPSHOTS], worst_ms[SNAPSHOTS];
    struct once_stats stats;
    bool kept;

    for (int i = 0; i < SNAPSHOTS; i++) {
        size_t from = during.count;
        double worst_us = 0;

        lengths_ms[i] = watch_snapshot(bench, &during, &quiet);
        for (size_t j = from; j < during.count; j++)
            worst_us = during.us[j] > worst_us ? during.us[j] : worst_us;
        worst_ms[i] = worst_us / 1e3;
    }
    once_stats_get(bench->store, &stats);
    if (stats.snapshots < SNAPSHOTS)
        bench_die("%llu snapshots were written", (unsigned long long)stats.snapshots);
    printf("objects.snapshot ms=%.0f bytes_object=%.1f\n", bench_median(lengths_ms, SNAPSHOTS),
           (double)stats.snapshot_size / (double)stats.objects);
    print_latencies("quiet", &quiet);
    print_latencies("while_snapshot", &during);
    kept = judge("snapshot_pause_ms", bench_median(worst_ms, SNAPSHOTS), PAUSE_MS_MAX);
    fflush(stdout);
    free(during.us);
    free(quiet.us);
    return kept;
}

/* ---- Restarts -------------------------------------------------------------------------------- */

static void check_values(struct bench *bench)
{
    char name[NAME_SIZE + 1];

    for (int i = 0; i < SPOT_CHECKS; i++) {
        uint64_t number = next_random(bench) % bench->settings.count;
        int64_t value;

        object_name(number, name);
        value = bench_once_counter(bench->store, name);
        if (value != bench->values[number])
            bench_die("%s was %u and is now %lld", name, bench->values[number], (long long)value);
    }
}

/* Opens the store with a cold cache; returns milliseconds. */
static double reopen(struct bench *bench, const char *name)
{
    struct once_stats stats;
    uint64_t begun_ns;
    double open_ms;

    bench_chill(bench->folder);
    begun_ns = bench_now_ns();
    open_store(bench);
    open_ms = milliseconds_since(begun_ns);
    once_stats_get(bench->store, &stats);
    if (stats.objects != bench->settings.count + 1)
        bench_die("%llu objects came back", (unsigned long long)stats.objects);
    printf("objects.restart_%s ms=%.0f records_reread=%llu\n", name, open_ms,
           (unsigned long long)stats.recovered);
    fflush(stdout);
    return open_ms;
}

/* Counts until a snapshot begins, and goes away in the middle of it: a process of its own. */
static void vanish(struct bench *bench)
{
    pid_t pid;
    int status;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0) {
        open_store(bench);
        wait_for_snapshot(bench);
        while (!snapshot_runs(bench))
            (void)apply_batch(bench, UINT64_MAX);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        bench_die("the load ended with %d", status);
}

static bool measure_restarts(struct bench *bench)
{
    double clean_ms, worst_ms;
    bool kept;

    bench_once_close(bench->store);
    clean_ms = reopen(bench, "clean");
    check_values(bench);
    bench_once_close(bench->store);
    vanish(bench);
    worst_ms = reopen(bench, "in_snapshot");
    bench_once_close(bench->store);
    kept = judge("restart_clean_ms", clean_ms, RESTART_MS_MAX);
    kept &= judge("restart_worst_ms", worst_ms, RESTART_MS_MAX);
    return kept;
}

static const struct settings full_size = {
    .count = 10000000,
    .quiet_seconds = 1,
};
static const struct settings quick_size = {
    .report_only = true,
    .count = 20000,
    .segment_size = 1 << 20,
    .quiet_seconds = 0.05,
};

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"report-only", no_argument, NULL, 'q'},
        {"folder", required_argument, NULL, 'f'},
        {"count", required_argument, NULL, 'c'},
        {0},
    };
    static struct bench bench;
    char *scratch;
    bool kept;
    int option;

    bench.settings = full_size;
    if (argc > 1 && strcmp(argv[1], "--report-only") == 0)
        bench.settings = quick_size;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'f') {
            bench.settings.folder = optarg;
        } else if (option == 'c') {
            bench.settings.count = (uint64_t)bench_number("--count", optarg, 1000, 1e8);
        } else if (option != 'q' || !bench.settings.report_only) {
            fputs("usage: bench_objects [--report-only] [--folder F] [--count N]\n", stderr);
            return 64;
        }
    }
    scratch = bench_scratch_make(bench.settings.folder);
    bench.folder = bench_path(scratch, "store");
    bench.snapshotting = bench_path(bench.folder, "objects.new");
    bench.values = bench_alloc(bench.settings.count, sizeof *bench.values);
    bench.random = bench.settings.count;
    bench_keys_init(&bench.source, BENCH_UUID4, bench_wall_ms(), 0);
    fill(&bench);
    kept = measure_snapshots(&bench);
    kept &= measure_restarts(&bench);
    bench_scratch_remove(scratch);
    free(bench.values);
    free(bench.snapshotting);
    free(bench.folder);
    free(scratch);
    return kept || bench.settings.report_only ? 0 : 1;
}
