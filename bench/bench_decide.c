/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a decision takes: nanoseconds a call for each verdict, the median of many batches.
 * Prints one line a verdict, "decide.begin_replay ns=…", and exits 1 when one is above 100 ns.
 */
#include "core/decide.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH_CALLS = 2000, BATCHES_MAX = 2001 };

static const once_ms NOW_MS = 1767225600000LL;
static const double LIMIT_NS = 100.0;

struct scene {
    const char *name;
    enum once_word word;
    struct once_record record;
    struct once_request request;
};

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Calls through a pointer that the compiler cannot see through, so that nothing is folded away. */
static struct once_decision (*volatile decide)(const struct once_record *,
                                               const struct once_request *,
                                               struct once_moment) = once__decide_begin;

static double median_ns(const struct scene *scene, int batches)
{
    static double ns[BATCHES_MAX];
    struct once_moment at = {.now_ms = NOW_MS, .next_fence = 1000};

    for (int batch = 0; batch < batches; batch++) {
        double start = seconds_now();

        for (int call = 0; call < BATCH_CALLS; call++) {
            struct once_decision decision = decide(&scene->record, &scene->request, at);

            if (decision.word != scene->word)
                abort();
        }
        ns[batch] = (seconds_now() - start) * 1e9 / BATCH_CALLS;
    }
    qsort(ns, (size_t)batches, sizeof(ns[0]), compare_doubles);
    return ns[batches / 2];
}

static struct once_record record_of(enum once_state state, const char *owner)
{
    struct once_record record = {
        .state = state,
        .attempt = 1,
        .fence = 7,
        .created_ms = NOW_MS - 1000,
        .lease_end_ms = NOW_MS + 1000,
        .retention_ms = ONCE_RETENTION_MS_DEFAULT,
        .expires_ms = NOW_MS + ONCE_RETENTION_MS_DEFAULT,
        .owner = once_bytes_of(owner),
    };

    memset(record.fingerprint.bytes, 1, sizeof(record.fingerprint.bytes));
    return record;
}

int main(int argc, char **argv)
{
    bool report_only = argc > 1 && strcmp(argv[1], "--report-only") == 0;
    int batches = report_only ? 101 : BATCHES_MAX;
    const char *me = "worker-7f3a9c41-2b5d-4e1a", *other = "worker-7f3a9c41-2b5d-4e1b";
    struct scene scenes[] = {
        {.name = "begin_execute", .word = ONCE_EXECUTE},
        {.name = "begin_replay",
         .word = ONCE_REPLAY,
         .record = record_of(ONCE_STATE_COMPLETED, me)},
        {.name = "begin_busy", .word = ONCE_BUSY, .record = record_of(ONCE_STATE_STARTED, other)},
        {.name = "begin_again", .word = ONCE_EXECUTE, .record = record_of(ONCE_STATE_STARTED, me)},
        {.name = "begin_doubt", .word = ONCE_DOUBT, .record = record_of(ONCE_STATE_DOUBT, other)},
        {.name = "begin_retry",
         .word = ONCE_EXECUTE,
         .record = record_of(ONCE_STATE_FAILED, other)},
        {.name = "begin_mismatch",
         .word = ONCE_MISMATCH,
         .record = record_of(ONCE_STATE_COMPLETED, me)},
    };
    double worst = 0;

    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        struct scene *scene = &scenes[i];
        double ns;

        scene->request = (struct once_request){
            .owner = once_bytes_of(me),
            .birth_ms = ONCE_BIRTH_NONE,
            .retention_ms = ONCE_RETENTION_MS_DEFAULT,
            .lease_ms = ONCE_LEASE_MS_DEFAULT,
        };
        memset(scene->request.fingerprint.bytes, 1, ONCE_FINGERPRINT_SIZE);
        /* The worst mismatch is in the last byte. */
        if (scene->word == ONCE_MISMATCH)
            scene->request.fingerprint.bytes[ONCE_FINGERPRINT_SIZE - 1] = 2;
        ns = median_ns(scene, batches);
        worst = ns > worst ? ns : worst;
        printf("decide.%s ns=%.1f\n", scene->name, ns);
    }
    printf("decide.worst ns=%.1f limit=%.0f\n", worst, LIMIT_NS);
    return !report_only && worst > LIMIT_NS ? 1 : 0;
}
