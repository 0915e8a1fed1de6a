/* SPDX-License-Identifier: Apache-2.0
 *
 * Durable apply of three effects beside a begin, and beside the transaction that people write by
 * hand in SQLite and PostgreSQL, in one run on one disk.
 *
 * A cell is a number of concurrent callers and a batch size. Every engine is opened once, filled
 * with the same keys, and stays open. For each cell and round every engine gets the same new keys
 * in the same order for the same time; which comes first changes from round to round. At the end
 * each must have as many debits and messages as it was given keys, and must refuse known ones.
 *
 * Prints "apply.ENGINE.CELL ops=…" (operations a second, the median of the rounds), then what is
 * judged: ratios between engines of the same round, their median, and the floor that it must reach.
 * Exits 1 when one does not, unless --report-only is given, which also makes all of it short.
 */
#include "store/apply_peer.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 64, BATCH_MAX = 1024, ROUNDS_MAX = 99, SEED = 7 };

enum engine { BEGIN, APPLY, APPLY_HASH, SQLITE, POSTGRES, POSTGRES_STEPS, ENGINES };

static const struct bench_apply_peer *const peers[ENGINES] = {
    [BEGIN] = &bench_apply_begin,          [APPLY] = &bench_apply_once,
    [APPLY_HASH] = &bench_apply_once_hash, [SQLITE] = &bench_apply_sqlite,
    [POSTGRES] = &bench_apply_postgres,    [POSTGRES_STEPS] = &bench_apply_postgres_steps,
};

struct cell {
    const char *name;
    size_t batch;
    int threads;
};

enum { B1_T1, B1_T64, B1024_T1, CELLS };
static const struct cell cells[CELLS] = {
    [B1_T1] = {"b1_t1", 1, 1},
    [B1_T64] = {"b1_t64", 1, 64},
    [B1024_T1] = {"b1024_t1", BATCH_MAX, 1},
};

/* A ratio that is reported: apply over another engine in a cell. */
struct bound {
    const char *name;
    enum engine other;
    int cell;
    double floor; /* 0: told, not judged */
};

static const struct bound bounds[] = {
    {"over_begin", BEGIN, B1_T1, 0.6},
    {"over_begin", BEGIN, B1_T64, 0.6},
    {"over_begin", BEGIN, B1024_T1, 0.6},
    {"over_sqlite", SQLITE, B1_T1, 1.5},
    {"over_sqlite", SQLITE, B1_T64, 10},
    {"over_postgres", POSTGRES, B1_T1, 1.5},
    {"over_postgres", POSTGRES, B1_T64, 10},
    {"over_postgres_steps", POSTGRES_STEPS, B1_T1, 0},
    {"over_postgres_steps", POSTGRES_STEPS, B1_T64, 0},
};

struct settings {
    double seconds;
    int rounds;
    bool report_only;
    const char *folder;
    const char *engine; /* NULL: all */
    const char *cell;   /* NULL: all */
    size_t held;        /* keys in a store before it is measured */
    size_t fresh;       /* new keys that a cell may use up */
};

struct bench {
    struct settings settings;
    struct bench_key *held;
    struct bench_key *fresh; /* of this cell and round */
    struct bench_keys source;
    void *selves[ENGINES]; /* NULL: not asked for */
    char *folders[ENGINES];
    uint64_t applied[ENGINES];
    double rates[ENGINES][CELLS][ROUNDS_MAX]; /* operations a second; 0: did not run */
};

struct run {
    const struct bench_apply_peer *peer;
    void *self;
    const struct bench_key *keys;
    size_t key_count;
    const struct cell *cell;
    uint64_t length_ns;
    pthread_barrier_t start;
};

struct worker {
    struct run *run;
    int number;
    uint64_t applied;
    uint64_t begun_ns;
    uint64_t ended_ns;
    pthread_t thread;
};

const char bench_payload[BENCH_PAYLOAD_SIZE] = {"{\"amount\":100,\"currency\":\"EUR\"} "};

unsigned bench_account(const struct bench_key *key)
{
    unsigned hash = 0;

    for (size_t i = BENCH_KEY_SIZE - 8; i < BENCH_KEY_SIZE; i++)
        hash = hash * 31 + (unsigned char)key->text[i];
    return hash % BENCH_ACCOUNTS;
}

/* Worker w of n takes batches w, w + n, w + 2n, …: together they take keys in their order. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    struct run *run = worker->run;
    size_t batch = run->cell->batch, stride = batch * (size_t)run->cell->threads;
    size_t at = batch * (size_t)worker->number;

    pthread_barrier_wait(&run->start);
    worker->begun_ns = bench_now_ns();
    do {
        size_t applied = run->peer->apply(run->self, worker->number, run->keys + at, batch);

        if (applied != batch)
            bench_die("%s: %zu of %zu new keys were new", run->peer->name, applied, batch);
        worker->applied += applied;
        worker->ended_ns = bench_now_ns();
        at += stride;
    } while (worker->ended_ns - worker->begun_ns < run->length_ns && at + batch <= run->key_count);
    return NULL;
}

/* Runs the workers. Returns operations a second, from the first start to the last end. */
static double run_workers(struct run *run, uint64_t *ret_applied)
{
    static struct worker workers[THREADS_MAX];
    uint64_t begun_ns = UINT64_MAX, ended_ns = 0, applied = 0;
    int threads = run->cell->threads;

    if (pthread_barrier_init(&run->start, NULL, (unsigned)threads) != 0)
        bench_die("no barrier");
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){.run = run, .number = i};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            bench_die("no thread");
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        applied += workers[i].applied;
        begun_ns = workers[i].begun_ns < begun_ns ? workers[i].begun_ns : begun_ns;
        ended_ns = workers[i].ended_ns > ended_ns ? workers[i].ended_ns : ended_ns;
    }
    pthread_barrier_destroy(&run->start);
    *ret_applied = applied;
    return (double)applied * 1e9 / (double)(ended_ns - begun_ns);
}

static double run_cell(struct bench *bench, enum engine engine, const struct cell *cell)
{
    const struct bench_apply_peer *peer = peers[engine];
    struct run run = {
        .peer = peer,
        .self = bench->selves[engine],
        .keys = bench->fresh,
        .key_count = bench->settings.fresh,
        .cell = cell,
        .length_ns = (uint64_t)(bench->settings.seconds * 1e9),
    };
    uint64_t applied;
    double rate;

    if (peer->settle)
        peer->settle(run.self);
    rate = run_workers(&run, &applied);
    bench->applied[engine] += applied;
    /* Who calls known keys new does not look. */
    if (peer->apply(run.self, 0, run.keys, cell->batch) != 0 ||
        peer->apply(run.self, 0, bench->held, cell->batch) != 0)
        bench_die("%s: known keys were new", peer->name);
    return rate;
}

static bool wanted(const char *name, const char *only)
{
    return !only || strcmp(name, only) == 0;
}

static void run_round(struct bench *bench, int round)
{
    for (int c = 0; c < CELLS; c++) {
        if (!wanted(cells[c].name, bench->settings.cell))
            continue;
        bench_keys_next(&bench->source, bench->fresh, bench->settings.fresh);
        for (int i = 0; i < ENGINES; i++) {
            enum engine engine = (enum engine)((i + round) % ENGINES);

            if (bench->selves[engine] && (cells[c].batch == 1 || peers[engine]->batches))
                bench->rates[engine][c][round] = run_cell(bench, engine, &cells[c]);
        }
    }
}

static void open_all(struct bench *bench)
{
    for (int engine = 0; engine < ENGINES; engine++) {
        const struct bench_apply_peer *peer = peers[engine];
        struct bench_apply_load load = {.threads_max = THREADS_MAX, .batch_max = BATCH_MAX};

        if (!wanted(peer->name, bench->settings.engine))
            continue;
        bench->folders[engine] = bench_scratch_make(bench->settings.folder);
        load.folder = bench->folders[engine];
        bench->selves[engine] = peer->open(&load);
        peer->fill(bench->selves[engine], bench->held, bench->settings.held);
    }
}

/* Everything that was told is there, once. */
static void check_sums(const struct bench *bench, enum engine engine)
{
    uint64_t expected = bench->settings.held + bench->applied[engine], debits, messages;

    peers[engine]->sums(bench->selves[engine], &debits, &messages);
    if (debits != expected || messages != expected)
        bench_die("%s: %llu operations, but %llu debits and %llu messages", peers[engine]->name,
                  (unsigned long long)expected, (unsigned long long)debits,
                  (unsigned long long)messages);
}

static void close_all(struct bench *bench)
{
    for (int engine = 0; engine < ENGINES; engine++) {
        if (!bench->selves[engine])
            continue;
        if (peers[engine]->effects)
            check_sums(bench, (enum engine)engine);
        peers[engine]->close(bench->selves[engine]);
    }
    for (int engine = 0; engine < ENGINES; engine++) { /* some share what is in there */
        if (bench->folders[engine])
            bench_scratch_remove(bench->folders[engine]);
        free(bench->folders[engine]);
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
                printf("apply.%s.%s ops=%.0f\n", peers[engine]->name, cells[c].name, rate);
        }
    }
}

static bool judge(const struct bench *bench, const struct bound *bound)
{
    size_t rounds = (size_t)bench->settings.rounds;
    double ratios[ROUNDS_MAX], median;

    for (size_t round = 0; round < rounds; round++) {
        double other = bench->rates[bound->other][bound->cell][round];
        double apply = bench->rates[APPLY][bound->cell][round];

        if (apply <= 0 || other <= 0)
            return true; /* one of them was not asked for */
        ratios[round] = apply / other;
    }
    median = bench_median(ratios, rounds);
    printf("apply.%s.%s ratio=%.3f low=%.3f high=%.3f", bound->name, cells[bound->cell].name,
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
    .fresh = 1 << 19,
};
static const struct settings quick_size = {
    .report_only = true,
    .seconds = 0.02,
    .rounds = 1,
    .held = 1 << 13,
    .fresh = 1 << 15,
};

static struct settings parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"report-only", no_argument, NULL, 'q'},  {"seconds", required_argument, NULL, 's'},
        {"rounds", required_argument, NULL, 'r'}, {"folder", required_argument, NULL, 'f'},
        {"engine", required_argument, NULL, 'e'}, {"cell", required_argument, NULL, 'c'},
        {"held", required_argument, NULL, 'h'},   {0},
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
        } else if (option == 'h') {
            settings.held = (size_t)bench_number("--held", optarg, BATCH_MAX, 1e8);
        } else if (option != 'q' || !settings.report_only) {
            fputs("usage: bench_apply [--report-only] [--seconds S] [--rounds N] [--folder F] "
                  "[--engine NAME] [--cell NAME] [--held N]\n",
                  stderr);
            exit(64);
        }
    }
    return settings;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    bool kept = true;

    bench.settings = parse(argc, argv);
    bench.held = bench_alloc(bench.settings.held, sizeof(struct bench_key));
    bench.fresh = bench_alloc(bench.settings.fresh, sizeof(struct bench_key));
    bench_keys_init(&bench.source, BENCH_UUID4, SEED, 0);
    bench_keys_next(&bench.source, bench.held, bench.settings.held);
    open_all(&bench);
    for (int round = 0; round < bench.settings.rounds; round++)
        run_round(&bench, round);
    close_all(&bench);
    print_rates(&bench);
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        kept &= judge(&bench, &bounds[i]);
    free(bench.held);
    free(bench.fresh);
    return kept || bench.settings.report_only ? 0 : 1;
}
