/* SPDX-License-Identifier: Apache-2.0
 *
 * Real kills: a process at full load is killed with SIGKILL at a random moment, started again, and
 * compares what the store says with what it had written down before. At the end all rounds
 * together: no effect ran twice, no fence was given twice, and none ever went back.
 *
 *     kill_test LOAD [ROUNDS [DURABILITY]]    ONCE_SEED=n chooses the same moments again
 *     kill_test --ledger FOLDER               only the look at what was written down
 *
 * One kill in eight comes before the process has finished its comparison: recovery is killed, too.
 * DURABILITY is the number of enum once_durability; only 0 promises anything.
 */
#include "kill/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    ROUNDS_DEFAULT = 20,
    THREADS = 8,
    READY_MS_MAX = 60000, /* a start that takes longer hangs */
    LOAD_US_MAX = 50000,  /* how long a round runs at most */
    START_US_MAX = 20000, /* the same of one that is killed while it starts */
    NUMBER_SIZE = 16,
    LEDGER_ROUNDS = 10000 /* as many journals are looked for */
};

struct test {
    const char *load;
    const char *durability;
    char folder[256];
    uint64_t seed;
    unsigned started;
};

/* SplitMix64. */
static uint64_t below(struct test *test, uint64_t count)
{
    uint64_t z = (test->seed += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return (z ^ (z >> 31)) % count;
}

static void pause_us(uint64_t us)
{
    struct timespec length = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

    nanosleep(&length, NULL);
}

/* A load process; its standard output is ret_ready. */
static pid_t spawn(struct test *test, uint32_t round, uint32_t since, unsigned threads,
                   int *ret_ready)
{
    char round_text[NUMBER_SIZE], since_text[NUMBER_SIZE], threads_text[NUMBER_SIZE];
    int ends[2];
    pid_t pid;

    snprintf(round_text, NUMBER_SIZE, "%" PRIu32, round);
    snprintf(since_text, NUMBER_SIZE, "%" PRIu32, since);
    snprintf(threads_text, NUMBER_SIZE, "%u", threads);
    if (pipe2(ends, O_CLOEXEC) != 0)
        die("pipe: %s", strerror(errno));
    pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl(test->load, test->load, test->folder, round_text, since_text, test->durability,
              threads_text, (char *)NULL);
        die("%s: %s", test->load, strerror(errno));
    }
    close(ends[1]);
    *ret_ready = ends[0];
    return pid;
}

/* False when it ended instead. */
static bool wait_ready(int ready)
{
    struct pollfd poll_of = {.fd = ready, .events = POLLIN};
    char byte;

    if (poll(&poll_of, 1, READY_MS_MAX) != 1)
        die("the store does not open within %d s", READY_MS_MAX / 1000);
    return read(ready, &byte, 1) == 1;
}

/* One life of the load. True when it had finished its comparison. */
static bool play_round(struct test *test, uint32_t round, uint32_t since)
{
    bool early = below(test, 8) == 0, was_ready = false;
    int ready, status;
    pid_t pid = spawn(test, round, since, THREADS, &ready);

    if (early) {
        pause_us(below(test, START_US_MAX));
    } else {
        was_ready = wait_ready(ready);
        if (was_ready)
            pause_us(below(test, LOAD_US_MAX));
    }
    kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid)
        die("waitpid: %s", strerror(errno));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        die("round %" PRIu32 " ended by itself, with status 0x%x", round, (unsigned)status);
    if (early) /* it may have come that far all the same */
        was_ready = wait_ready(ready);
    close(ready);
    test->started += was_ready;
    return was_ready;
}

/* The last life compares everything and ends by itself. */
static void compare_all(struct test *test, uint32_t round)
{
    int ready, status;
    pid_t pid = spawn(test, round, 0, 0, &ready);

    if (waitpid(pid, &status, 0) != pid)
        die("waitpid: %s", strerror(errno));
    close(ready);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        die("the last comparison ended with status 0x%x", (unsigned)status);
}

static int compare_fences(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;

    return a->fence < b->fence ? -1 : a->fence > b->fence;
}

/* Within a life fences are told in any order, and each once; between lives they grow. */
static void check_fences(const char *folder, uint32_t rounds)
{
    uint64_t last_fence = 0;

    for (uint32_t round = 0; round < rounds; round++) {
        size_t count, begun = 0;
        struct entry *entries = journal_read(folder, round, round + 1, &count);

        for (size_t i = 0; i < count; i++) {
            if (entries[i].kind == ENTRY_BEGUN)
                entries[begun++] = entries[i];
        }
        if (begun > 0)
            qsort(entries, begun, sizeof(*entries), compare_fences);
        for (size_t i = 0; i < begun; i++) {
            if (entries[i].fence <= last_fence)
                die("round %" PRIu32 " was given fence %" PRIu64 " after %" PRIu64, round,
                    entries[i].fence, last_fence);
            last_fence = entries[i].fence;
        }
        free(entries);
    }
}

/* Returns how many effects ran, each once. */
static size_t check_effects(const char *folder, uint32_t rounds)
{
    size_t count, effects = 0;
    struct entry *entries = journal_read(folder, 0, rounds, &count);
    const struct entry *last = NULL;
    char key[KEY_SIZE];

    journal_sort(entries, count);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].kind != ENTRY_EFFECT)
            continue;
        if (last && same_operation(last, &entries[i])) {
            key_text(&last->operation, key);
            die("the effect of %s ran twice, under %" PRIu64 " and %" PRIu64, key, last->fence,
                entries[i].fence);
        }
        last = &entries[i];
        effects++;
    }
    free(entries);
    return effects;
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about;
    (void)type;
    (void)where;
    return remove(path);
}

/* All lives together, by what was written down alone. Returns how many effects ran. */
static size_t check_ledger(const char *folder, uint32_t rounds)
{
    size_t effects;

    check_fences(folder, rounds);
    effects = check_effects(folder, rounds);
    if (effects == 0)
        die("nothing was ever done");
    return effects;
}

static void play(struct test *test, uint32_t rounds)
{
    once_ms started_ms = boot_now_ms();
    uint32_t since = 0;
    size_t effects;

    printf("kill: %" PRIu32 " rounds in %s, ONCE_SEED=%" PRIu64 "\n", rounds, test->folder,
           test->seed);
    fflush(stdout);
    for (uint32_t round = 0; round < rounds; round++) {
        if (play_round(test, round, since))
            since = round;
    }
    compare_all(test, rounds);
    effects = check_ledger(test->folder, rounds + 1);
    printf("kill: %" PRIu32 " kills, %u of them during start; %zu effects, each once; %lld ms a "
           "round\n",
           rounds, rounds - test->started, effects,
           (long long)(boot_now_ms() - started_ms) / (rounds > 0 ? rounds : 1));
}

int main(int argc, char **argv)
{
    const char *seed = getenv("ONCE_SEED"), *temporary = getenv("TMPDIR");
    struct test test = {.load = argc > 1 ? argv[1] : NULL,
                        .durability = argc > 3 ? argv[3] : "0",
                        .seed = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL)};

    if (!test.load)
        die("usage: kill_test LOAD [ROUNDS [DURABILITY]]");
    if (argc == 3 && strcmp(argv[1], "--ledger") == 0) {
        printf("kill: %zu effects, each once\n", check_ledger(argv[2], LEDGER_ROUNDS));
        return 0;
    }
    snprintf(test.folder, sizeof(test.folder), "%s/once-kill-XXXXXX",
             temporary ? temporary : "/tmp");
    if (!mkdtemp(test.folder))
        die("%s: %s", test.folder, strerror(errno));
    play(&test, argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : ROUNDS_DEFAULT);
    nftw(test.folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS); /* kept when something is wrong */
    return 0;
}
