/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of a power-cut test (power.c says what it offers), the random bytes of its
 * stores, and its runs one after the other.
 */
#include "power/command.h"

#include "base/random.h"
#include "engine/mutant.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum once__mutant once__mutant;

enum {
    MUTANT_CUTS_MAX = 60000, /* by then a mutant is caught, or the test is too weak */
    EXHAUSTIVE_SEEDS = 10,
    RUN_SECONDS_MAX = 120 /* a run takes milliseconds; one that takes this long hangs */
};

static const char *const mutant_names[ONCE__MUTANT_COUNT] = {
    [ONCE__MUTANT_NONE] = "none",
    [ONCE__MUTANT_ACK_BEFORE_SYNC] = "ack-before-sync",
    [ONCE__MUTANT_NO_CHECKSUM] = "no-checksum",
    [ONCE__MUTANT_INDEX_BEFORE_LOG] = "index-before-log",
    [ONCE__MUTANT_EXPIRY_DROPS_DOUBTS] = "expiry-drops-doubts",
    [ONCE__MUTANT_SYNC_RETRIED] = "sync-retried",
    [ONCE__MUTANT_GAP_SKIPPED] = "gap-skipped",
    [ONCE__MUTANT_FENCE_FORGOTTEN] = "fence-forgotten",
    [ONCE__MUTANT_TIME_FORGOTTEN] = "time-forgotten",
    [ONCE__MUTANT_RETIRE_BEFORE_CARRY] = "retire-before-carry",
    [ONCE__MUTANT_SNAPSHOT_BEFORE_DURABLE] = "snapshot-before-durable",
    [ONCE__MUTANT_SNAPSHOT_SKIPS_OBJECT] = "snapshot-skips-object",
    [ONCE__MUTANT_EDITS_FORGOTTEN] = "edits-forgotten",
    [ONCE__MUTANT_EDITS_BEFORE_LOG] = "edits-before-log",
};

struct options {
    uint64_t seed;
    uint64_t seeds; /* 0: as many as cuts need */
    uint64_t cuts;
    uint64_t seconds; /* 0: no bound */
    bool exhaustive;
    bool verbose;
};

/* Stands in for base/random.c: what a store makes of it follows from the seed. */
static struct chance random_chance;

int once__random_bytes(void *ret_bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)ret_bytes)[i] = (uint8_t)chance_next(&random_chance);
    return ONCE_OK;
}

static const struct command *command;

/* How to see this run again, also when an assertion ends it. */
static char replay[256];

static void on_stop(int number)
{
    static const char text[] = "\nan assertion failed or the run hangs; again: ";
    ssize_t ignored;

    ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
    ignored = write(STDERR_FILENO, replay, strlen(replay));
    ignored = write(STDERR_FILENO, "\n", 1);
    (void)ignored;
    signal(number, SIG_DFL);
    raise(number);
}

static void about_to_run(const struct options *options, uint64_t seed)
{
    alarm(RUN_SECONDS_MAX);
    random_chance = (struct chance){.state = seed};
    snprintf(replay, sizeof(replay), "%s --seed %" PRIu64 " --seeds 1%s%s%s", command->name, seed,
             options->exhaustive ? " --exhaustive" : "",
             once__mutant != ONCE__MUTANT_NONE ? " --mutant " : "",
             once__mutant != ONCE__MUTANT_NONE ? mutant_names[once__mutant] : "");
}

static bool time_is_up(const struct options *options, time_t began)
{
    return options->seconds != 0 && (uint64_t)(time(NULL) - began) >= options->seconds;
}

static bool random_runs(struct run *run, const struct options *options, struct tally *tally)
{
    time_t began = time(NULL);
    uint64_t cuts = once__mutant != ONCE__MUTANT_NONE ? MUTANT_CUTS_MAX : options->cuts;

    for (uint64_t seed = options->seed; !time_is_up(options, began); seed++) {
        if (options->seeds != 0 ? seed >= options->seed + options->seeds : tally->cuts >= cuts)
            break;
        about_to_run(options, seed);
        if (!run_random(run, seed, tally))
            return false;
    }
    return true;
}

static bool small_runs_at(struct run *run, const struct options *options, uint64_t seed,
                          struct spot spot, struct tally *tally)
{
    uint64_t operations = 0, recovery = 0, ignored;

    about_to_run(options, seed);
    if (!run_small(run, seed, &spot, tally, &operations, &recovery)) {
        printf("fault %d at disk operation %" PRIu64 "\n", (int)spot.fault, spot.at);
        return false;
    }
    for (spot.then_at = 1; spot.then_at <= recovery; spot.then_at++) {
        about_to_run(options, seed);
        if (!run_small(run, seed, &spot, tally, &operations, &ignored)) {
            printf("fault %d at disk operation %" PRIu64 ", then a cut %" PRIu64
                   " operations into the recovery\n",
                   (int)spot.fault, spot.at, spot.then_at);
            return false;
        }
    }
    return true;
}

/* Every fault at every disk operation of a small workload, and for each of them a cut at every disk
 * operation of the recovery that follows. */
static bool exhaustive_runs(struct run *run, const struct options *options, struct tally *tally)
{
    time_t began = time(NULL);
    uint64_t seeds = options->seeds != 0 ? options->seeds : EXHAUSTIVE_SEEDS;

    for (uint64_t seed = options->seed; seed < options->seed + seeds; seed++) {
        struct spot spot = {.fault = FAULT_NONE};
        uint64_t operations = 0, recovery;

        about_to_run(options, seed);
        if (!run_small(run, seed, &spot, tally, &operations, &recovery))
            return false;
        for (int fault = FAULT_CUT; fault < FAULT_COUNT; fault++) {
            for (uint64_t at = 1; at <= operations && !time_is_up(options, began); at++) {
                spot = (struct spot){.fault = (enum fault)fault, .at = at};
                if (!small_runs_at(run, options, seed, spot, tally))
                    return false;
            }
        }
    }
    return true;
}

static void print_tally(const struct tally *tally, double seconds)
{
    printf("%" PRIu64 " cuts (%" PRIu64 " during recovery), %" PRIu64 " kills, %" PRIu64
           " closes, %" PRIu64 " lives with failing writes, %" PRIu64 " with a full disk, %" PRIu64
           " flipped bits (%" PRIu64 " refused)\n",
           tally->cuts, tally->cuts_in_recovery, tally->kills, tally->closes, tally->failures,
           tally->fills, tally->flips, tally->flips_refused);
    printf("%" PRIu64 " runs, %" PRIu64 " lives, %" PRIu64 " calls, %" PRIu64 " lists, %" PRIu64
           " refused for space, %" PRIu64 " too large, %" PRIu64 " ended when full\n",
           tally->runs, tally->lives, tally->calls, tally->lists, tally->refused_space,
           tally->refused_large, tally->finished_when_full);
    printf("%" PRIu64 " segments retired, %" PRIu64 " records carried, %" PRIu64 " cold reads\n",
           tally->segments_retired, tally->records_carried, tally->cold_reads);
    if (seconds > 0)
        printf("%.0f cuts a second\n", (double)tally->cuts / seconds);
}

static int judge(const struct run *run, const struct tally *tally, bool good)
{
    if (once__mutant != ONCE__MUTANT_NONE) {
        if (good) {
            printf("mutant %s was NOT caught in %" PRIu64 " cuts\n", mutant_names[once__mutant],
                   tally->cuts);
            return 1;
        }
        printf("mutant %s: caught after %" PRIu64 " cuts:\n", mutant_names[once__mutant],
               tally->cuts);
        run_report(run, stdout);
        return 0;
    }
    if (!good) {
        printf("VIOLATION: ");
        run_report(run, stdout);
        printf("VIOLATION: %s\nagain: %s\n", run_what(run), replay);
        return 1;
    }
    printf("no violation\n");
    return 0;
}

static bool parse_number(const char *text, uint64_t *ret_number)
{
    char *end;

    *ret_number = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0';
}

static bool parse_mutant(const char *text)
{
    for (int i = 0; i < ONCE__MUTANT_COUNT; i++) {
        if (mutant_names[i] && strcmp(text, mutant_names[i]) == 0) {
            once__mutant = (enum once__mutant)i;
            return true;
        }
    }
    return false;
}

static bool parse(int argc, char **argv, struct options *ret_options)
{
    static const struct option names[] = {
        {"seed", required_argument, NULL, 's'}, {"seeds", required_argument, NULL, 'n'},
        {"cuts", required_argument, NULL, 'c'}, {"mutant", required_argument, NULL, 'm'},
        {"exhaustive", no_argument, NULL, 'e'}, {"seconds", required_argument, NULL, 't'},
        {"verbose", no_argument, NULL, 'v'},    {NULL, 0, NULL, 0},
    };
    const char *cuts = getenv(command->cuts_variable);
    bool good = true;
    int name;

    *ret_options = (struct options){.seed = 1, .cuts = 1000};
    while (good && (name = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (name) {
        case 's':
            good = parse_number(optarg, &ret_options->seed);
            break;
        case 'n':
            good = parse_number(optarg, &ret_options->seeds);
            break;
        case 'c':
            good = parse_number(optarg, &ret_options->cuts);
            break;
        case 't':
            good = parse_number(optarg, &ret_options->seconds);
            break;
        case 'm':
            good = parse_mutant(optarg);
            break;
        case 'e':
            ret_options->exhaustive = true;
            break;
        case 'v':
            ret_options->verbose = true;
            break;
        default:
            good = false;
        }
    }
    if (good && cuts)
        good = parse_number(cuts, &ret_options->cuts);
    return good && optind == argc;
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int command_main(const struct command *which, int argc, char **argv)
{
    struct options options;
    struct tally tally = {0};
    struct run *run;
    double began = seconds_now();
    bool good;
    int status;

    command = which;
    if (!parse(argc, argv, &options)) {
        fprintf(stderr,
                "usage: %s [--seed N] [--seeds COUNT] [--cuts MIN] [--mutant NAME] "
                "[--exhaustive] [--seconds S] [--verbose]\nmutants:",
                command->name);
        for (int i = 1; i < ONCE__MUTANT_COUNT; i++)
            fprintf(stderr, " %s", mutant_names[i] ? mutant_names[i] : "?");
        fprintf(stderr, "\n");
        return 64;
    }
    signal(SIGABRT, on_stop);
    signal(SIGALRM, on_stop);
    run = run_new(command->extension);
    run_verbose(run, options.verbose);
    good = options.exhaustive ? exhaustive_runs(run, &options, &tally)
                              : random_runs(run, &options, &tally);
    status = judge(run, &tally, good);
    print_tally(&tally, seconds_now() - began);
    if (command->finish)
        command->finish();
    run_free(run);
    return status;
}
