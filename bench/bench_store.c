/* SPDX-License-Identifier: Apache-2.0
 *
 * Durable insert-if-absent: Once beside a raw log and general engines, in one run on one disk.
 *
 * A cell is a kind of key, a batch size and a number of threads. For each cell every engine gets a
 * copy of a store that it filled before, the same new keys in the same order, and the same time;
 * which engine comes first changes from round to round. Prints "store.ENGINE.bBATCH_tTHREADS ops=…"
 * (keys a second, the median of the rounds), then what is judged: ratios between engines of the
 * same round, their median, and the floor that it must reach. Exits 1 when one does not, unless
 * --report-only is given, which also makes all of it short.
 */
#include "store/peer.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 64, ROUNDS_MAX = 99, FILL_BATCH = 8192, SEED = 1 };

enum engine { RAW_FDATASYNC, RAW_DIRECT, ROCKSDB, LMDB, SQLITE, ONCE, ONCE_PAIR, ENGINES };

static const struct bench_peer *const peers[ENGINES] = {
    [RAW_FDATASYNC] = &bench_raw_fdatasync,
    [RAW_DIRECT] = &bench_raw_direct,
    [ROCKSDB] = &bench_rocksdb,
    [LMDB] = &bench_lmdb,
    [SQLITE] = &bench_sqlite,
    [ONCE] = &bench_once,
    [ONCE_PAIR] = &bench_once_pair,
};

struct cell {
    const char *name;
    enum bench_key_kind kind;
    size_t batch;
    int threads;
};

enum { B1_T1, B1_T8, B1024_T1 = 6, B1024_T1_UUID7 = 9, CELLS = 10 };
static const struct cell cells[CELLS] = {
    {"b1_t1", BENCH_UUID4, 1, 1},         {"b1_t8", BENCH_UUID4, 1, 8},
    {"b1_t64", BENCH_UUID4, 1, 64},       {"b64_t1", BENCH_UUID4, 64, 1},
    {"b64_t8", BENCH_UUID4, 64, 8},       {"b64_t64", BENCH_UUID4, 64, 64},
    {"b1024_t1", BENCH_UUID4, 1024, 1},   {"b1024_t8", BENCH_UUID4, 1024, 8},
    {"b1024_t64", BENCH_UUID4, 1024, 64}, {"b1024_t1_uuid7", BENCH_UUID7, 1024, 1},
};

enum { KINDS = 2 };

struct settings {
    double seconds;
    int rounds;
    bool report_only;
    const char *folder;
    const char *engine; /* NULL: all */
    const char *cell;   /* NULL: all */
    size_t held;        /* keys in a store before it is measured */
    size_t fresh;       /* new keys that a cell may use up */
    size_t log_size;
};

struct bench {
    struct settings settings;
    struct bench_key *keys[KINDS];            /* held ones, then fresh ones */
    char *filled[ENGINES][KINDS];             /* folders of filled stores; NULL: not yet */
    double rates[ENGINES][CELLS][ROUNDS_MAX]; /* keys a second; 0: did not run */
};

struct run {
    const struct bench_peer *peer;
    void *self;
    const struct bench_key *keys;
    size_t key_count;
    struct bench_load load;
    uint64_t length_ns;
    pthread_barrier_t start;
};

struct worker {
    struct run *run;
    int number;
    uint64_t inserted;
    uint64_t begun_ns;
    uint64_t ended_ns;
    pthread_t thread;
};

/* Worker w of n takes batches w, w + n, w + 2n, …: together they insert keys in their order. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    struct run *run = worker->run;
    size_t batch = run->load.batch, stride = batch * (size_t)run->load.threads;
    size_t at = batch * (size_t)worker->number;

    pthread_barrier_wait(&run->start);
    worker->begun_ns = bench_now_ns();
    do {
        size_t inserted = run->peer->insert(run->self, worker->number, run->keys + at, batch);

        if (inserted != batch)
            bench_die("%s: %zu of %zu new keys were new", run->peer->name, inserted, batch);
        worker->inserted += inserted;
        worker->ended_ns = bench_now_ns();
        at += stride;
    } while (worker->ended_ns - worker->begun_ns < run->length_ns && at + batch <= run->key_count);
    return NULL;
}

/* Runs the workers and returns keys a second, from the first start to the last end. */
static double run_workers(struct run *run)
{
    static struct worker workers[THREADS_MAX];
    uint64_t begun_ns = UINT64_MAX, ended_ns = 0, inserted = 0;
    int threads = run->load.threads;

    if (pthread_barrier_init(&run->start, NULL, (unsigned)threads) != 0)
        bench_die("no barrier");
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){.run = run, .number = i};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            bench_die("no thread");
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        inserted += workers[i].inserted;
        begun_ns = workers[i].begun_ns < begun_ns ? workers[i].begun_ns : begun_ns;
        ended_ns = workers[i].ended_ns > ended_ns ? workers[i].ended_ns : ended_ns;
    }
    pthread_barrier_destroy(&run->start);
    return (double)inserted * 1e9 / (double)(ended_ns - begun_ns);
}

/* A store with the held keys of this kind, filled when it is first asked for. */
static const char *filled_store(struct bench *bench, enum engine engine, enum bench_key_kind kind)
{
    const struct bench_peer *peer = peers[engine];
    const struct bench_key *keys = bench->keys[kind];
    char *folder = bench->filled[engine][kind];
    struct bench_load load = {.threads = 1, .batch = FILL_BATCH};
    size_t (*fill)(void *, int, const struct bench_key *, size_t) = peer->fill ? peer->fill
                                                                               : peer->insert;
    void *self;

    if (folder)
        return folder;
    folder = bench_scratch_make(bench->settings.folder);
    load.folder = folder;
    self = peer->open(&load);
    for (size_t at = 0; at < bench->settings.held; at += FILL_BATCH) {
        if (fill(self, 0, keys + at, FILL_BATCH) != FILL_BATCH)
            bench_die("%s: could not be filled", peer->name);
    }
    if (peer->tidy)
        peer->tidy(self);
    peer->close(self);
    bench->filled[engine][kind] = folder;
    return folder;
}

static double run_cell(struct bench *bench, enum engine engine, const struct cell *cell)
{
    const struct bench_peer *peer = peers[engine];
    const char *filled = peer->looks ? filled_store(bench, engine, cell->kind) : NULL;
    char *folder = bench_scratch_make(bench->settings.folder);
    struct run run = {
        .peer = peer,
        .keys = bench->keys[cell->kind] + bench->settings.held,
        .key_count = bench->settings.fresh,
        .load = {.folder = folder,
                 .threads = cell->threads,
                 .batch = cell->batch,
                 .log_size = bench->settings.log_size},
        .length_ns = (uint64_t)(bench->settings.seconds * 1e9),
    };
    double rate = 0;

    if (filled)
        bench_copy(filled, folder);
    run.self = peer->open(&run.load);
    if (run.self) {
        rate = run_workers(&run);
        /* Who calls known keys new does not look. */
        if (peer->looks && (peer->insert(run.self, 0, run.keys, cell->batch) != 0 ||
                            peer->insert(run.self, 0, bench->keys[cell->kind], cell->batch) != 0))
            bench_die("%s: known keys were new", peer->name);
        peer->close(run.self);
    }
    bench_scratch_remove(folder);
    free(folder);
    return rate;
}

static bool wanted(const char *name, const char *only)
{
    return !only || strcmp(name, only) == 0;
}

static void run_round(struct bench *bench, int round)
{
    const struct settings *settings = &bench->settings;

    for (int c = 0; c < CELLS; c++) {
        for (int i = 0; i < ENGINES; i++) {
            enum engine engine = (enum engine)((i + round) % ENGINES);

            if (wanted(peers[engine]->name, settings->engine) &&
                wanted(cells[c].name, settings->cell))
                bench->rates[engine][c][round] = run_cell(bench, engine, &cells[c]);
        }
    }
}

static void print_rates(const struct bench *bench)
{
    for (int engine = 0; engine < ENGINES; engine++) {
        for (int c = 0; c < CELLS; c++) {
            double rates[ROUNDS_MAX], rate;

            memcpy(rates, bench->rates[engine][c], sizeof rates);
            rate = bench_median(rates, (size_t)bench->settings.rounds);
            if (rate > 0)
                printf("store.%s.%s ops=%.0f\n", peers[engine]->name, cells[c].name, rate);
        }
    }
}

/* A ratio that is reported: Once over the fastest of some engines in a cell. */
struct bound {
    const char *name;
    unsigned others; /* 1 << engine for each of them */
    int cell;
    double floor; /* 0: told, not judged */
};

enum {
    RAW = 1 << RAW_FDATASYNC | 1 << RAW_DIRECT,
    GENERAL = 1 << ROCKSDB | 1 << LMDB | 1 << SQLITE,
};

static const struct bound bounds[] = {
    {"once_over_general", GENERAL, B1024_T1, 10},
    {"once_over_general", GENERAL, B1024_T1_UUID7, 0},
    {"once_over_raw", RAW, B1024_T1, 0.4},
    {"once_over_raw", RAW, B1_T1, 0.9},
    {"once_over_rocksdb", 1 << ROCKSDB, B1_T8, 2},
};

static double best_rate(const struct bench *bench, unsigned engines, int cell, int round)
{
    double best = 0;

    for (int engine = 0; engine < ENGINES; engine++) {
        double rate = bench->rates[engine][cell][round];

        if (engines & 1U << engine && rate > best)
            best = rate;
    }
    return best;
}

static bool judge(const struct bench *bench, const struct bound *bound)
{
    size_t rounds = (size_t)bench->settings.rounds;
    double ratios[ROUNDS_MAX], median;

    for (int round = 0; round < bench->settings.rounds; round++) {
        double other = best_rate(bench, bound->others, bound->cell, round);
        double once = bench->rates[ONCE][bound->cell][round];

        if (once <= 0 || other <= 0)
            return true; /* one of them was not asked for */
        ratios[round] = once / other;
    }
    median = bench_median(ratios, rounds);
    printf("store.%s.%s ratio=%.3f low=%.3f high=%.3f", bound->name, cells[bound->cell].name,
           median, ratios[0], ratios[rounds - 1]);
    if (bound->floor > 0)
        printf(" floor=%.1f", bound->floor);
    printf("\n");
    return median >= bound->floor;
}

static const struct settings full_size = {
    .seconds = 1.0,
    .rounds = 5,
    .held = 1 << 20,
    .fresh = 4 << 20,
    .log_size = 128 << 20,
};
static const struct settings quick_size = {
    .report_only = true,
    .seconds = 0.02,
    .rounds = 1,
    .held = FILL_BATCH,
    .fresh = 1 << 18,
    .log_size = 16 << 20,
};

static struct settings parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"report-only", no_argument, NULL, 'q'},
        {"seconds", required_argument, NULL, 's'},
        {"rounds", required_argument, NULL, 'r'},
        {"folder", required_argument, NULL, 'f'},
        {"engine", required_argument, NULL, 'e'},
        {"cell", required_argument, NULL, 'c'},
        {0},
    };
    struct settings settings = full_size;
    int option;

    if (argc > 1 && strcmp(argv[1], "--report-only") == 0)
        settings = quick_size;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 's') {
            settings.seconds = bench_number("--seconds", optarg, 0.001, 60);
        } else if (option == 'r') {
            settings.rounds = (int)bench_number("--rounds", optarg, 1, ROUNDS_MAX);
        } else if (option == 'f') {
            settings.folder = optarg;
        } else if (option == 'e') {
            settings.engine = optarg;
        } else if (option == 'c') {
            settings.cell = optarg;
        } else if (option != 'q' || !settings.report_only) {
            fputs("usage: bench_store [--report-only] [--seconds S] [--rounds N] [--folder F] "
                  "[--engine NAME] [--cell NAME]\n",
                  stderr);
            exit(64);
        }
    }
    return settings;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    size_t count;
    bool kept = true;

    bench.settings = parse(argc, argv);
    count = bench.settings.held + bench.settings.fresh;
    for (int kind = 0; kind < KINDS; kind++) {
        struct bench_keys source;

        bench.keys[kind] = bench_alloc(count, sizeof(struct bench_key));
        bench_keys_init(&source, (enum bench_key_kind)kind, SEED, bench_wall_ms());
        bench_keys_next(&source, bench.keys[kind], count);
    }
    for (int round = 0; round < bench.settings.rounds; round++)
        run_round(&bench, round);
    print_rates(&bench);
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        kept &= judge(&bench, &bounds[i]);
    for (int kind = 0; kind < KINDS; kind++) {
        free(bench.keys[kind]);
        for (int engine = 0; engine < ENGINES; engine++)
            free(bench.filled[engine][kind]);
    }
    return kept || bench.settings.report_only ? 0 : 1;
}
