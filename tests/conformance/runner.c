/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays scenarios on an adapter and compares what comes back with what each step expects.
 */
#include "conformance/scenario.h"

#include "base/assert.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* 2026-01-01T00:00:00Z: the scenarios' UUIDv7 keys are made for this clock. */
static const once_ms START_MS = 1767225600000LL;

/* A scenario on one store. */
struct stage {
    const struct conformance_adapter *adapter;
    const struct scenario *scenario;
    bool restarts;
    void *store;               /* changed by the first player alone, while the others wait */
    pthread_barrier_t barrier; /* of all players */
};

/* Who plays it: one thread. */
struct play {
    struct stage *stage;
    unsigned player;
    uint64_t fences[FENCE_NAME_COUNT];
    int step_index;
    int failures;
};

enum { NAMESPACE_SIZE = 96 }; /* some scenarios ask for a namespace that is too long */

static const char *kind_name(enum step_kind kind)
{
    static const char *const names[] = {"end",   "begin",   "complete", "fail", "checkpoint",
                                        "renew", "resolve", "forget",   "get",  "advance"};

    return names[kind];
}

__attribute__((format(printf, 3, 4))) static void
complain(struct play *play, const struct step *step, const char *format, ...)
{
    va_list args;

    play->failures++;
    flockfile(stdout);
    printf("# %s, step %d (%s): ", play->stage->scenario->name, play->step_index,
           kind_name(step->kind));
    if (play->stage->adapter->threads > 1)
        printf("thread %u: ", play->player);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    funlockfile(stdout);
}

/* Players of one store stay out of each other's way. No namespace stays none. */
static const char *namespace_of(const struct play *play, const struct step *step, char *space)
{
    const char *ns = step->ns ? step->ns : "pay";

    if (play->stage->adapter->threads <= 1 || ns[0] == '\0')
        return ns;
    snprintf(space, NAMESPACE_SIZE, "%u.%s", play->player, ns);
    return space;
}

static struct conformance_call call_of(const struct play *play, const struct step *step,
                                       char *space)
{
    struct conformance_call call = {
        .ns = namespace_of(play, step, space),
        .key = step->key ? step->key : "k",
        .fingerprint = step->fp,
        .owner = step->owner,
        .ttl_ms = step->ttl_ms,
        .lease_ms = step->lease_ms,
        .on_doubt = step->retry_doubt ? ONCE_ON_DOUBT_RETRY : ONCE_ON_DOUBT_REJECT,
        .fence = play->fences[step->with],
        .done = step->done,
        .code = step->code,
        .result = once_bytes_of(step->result),
        .point = step->point,
        .data = step->data,
        .after = step->after,
    };

    if (step->result_size > 0)
        call.result.size = step->result_size;
    return call;
}

static void perform(struct play *play, const struct step *step, struct conformance_answer *answer)
{
    const struct conformance_adapter *adapter = play->stage->adapter;
    void *store = play->stage->store;
    char space[NAMESPACE_SIZE];
    struct conformance_call call = call_of(play, step, space);

    switch (step->kind) {
    case STEP_BEGIN:
        adapter->begin(store, &call, answer);
        break;
    case STEP_COMPLETE:
        adapter->complete(store, &call, answer);
        break;
    case STEP_FAIL:
        adapter->fail(store, &call, answer);
        break;
    case STEP_CHECKPOINT:
        adapter->checkpoint(store, &call, answer);
        break;
    case STEP_RENEW:
        adapter->renew(store, &call, answer);
        break;
    case STEP_RESOLVE:
        adapter->resolve(store, &call, answer);
        break;
    case STEP_FORGET:
        adapter->forget(store, &call, answer);
        break;
    case STEP_GET:
        adapter->get(store, &call, answer);
        break;
    case STEP_ADVANCE:
        if (play->player == 0)
            adapter->advance(store, step->by_ms);
        break;
    case STEP_END:
        break;
    }
}

static void compare_text(struct play *play, const struct step *step, const char *what,
                         const char *want, const char *got)
{
    if (want && strcmp(want, got) != 0)
        complain(play, step, "%s is '%s', not '%s'", what, got, want);
}

static void compare_result(struct play *play, const struct step *step,
                           const struct conformance_answer *answer)
{
    size_t size = step->is_result_size > 0 ? step->is_result_size : strlen(step->is_result);

    if (answer->code != step->is_code)
        complain(play, step, "code is %" PRId32 ", not %" PRId32, answer->code, step->is_code);
    if (answer->result_size != size)
        complain(play, step, "the result has %zu bytes, not %zu", answer->result_size, size);
    else if (memcmp(answer->result, step->is_result,
                    size < CONFORMANCE_BYTES_MAX ? size : CONFORMANCE_BYTES_MAX - 1) != 0)
        complain(play, step, "the result is '%s', not '%s'", answer->result, step->is_result);
}

/* What does not belong to the verdict is not told. */
static void compare_silence(struct play *play, const struct step *step,
                            const struct conformance_answer *answer)
{
    bool running = answer->word == ONCE_EXECUTE || answer->word == ONCE_DOUBT;

    if (step->kind == STEP_GET)
        return;
    if (!running && (answer->fence != 0 || answer->attempt != 0 || answer->point[0] != '\0' ||
                     answer->data[0] != '\0'))
        complain(play, step, "%s tells the fence, attempt or point of an attempt",
                 once_word_name(answer->word));
    if (answer->word != ONCE_REPLAY && (answer->code != 0 || answer->result_size != 0))
        complain(play, step, "%s tells a result", once_word_name(answer->word));
    if (answer->word != ONCE_BUSY && answer->retry_ms != 0)
        complain(play, step, "%s tells when to come back", once_word_name(answer->word));
}

static void compare_fences(struct play *play, const struct step *step, uint64_t fence)
{
    if (step->same != FENCE_NONE && fence != play->fences[step->same])
        complain(play, step, "fence is %" PRIu64 ", not %" PRIu64 " again", fence,
                 play->fences[step->same]);
    if (step->above != FENCE_NONE && fence <= play->fences[step->above])
        complain(play, step, "fence is %" PRIu64 ", not above %" PRIu64, fence,
                 play->fences[step->above]);
    if (step->keep != FENCE_NONE)
        play->fences[step->keep] = fence;
}

static void compare(struct play *play, const struct step *step,
                    const struct conformance_answer *answer)
{
    if (answer->err != step->err) {
        complain(play, step, "error is %s, not %s", once_err_name(answer->err),
                 once_err_name(step->err));
        return;
    }
    if (answer->err != ONCE_OK)
        return;
    if (step->kind == STEP_GET) {
        if (answer->state != step->state)
            complain(play, step, "state is %s, not %s", once_state_name(answer->state),
                     once_state_name(step->state));
    } else if (answer->word != step->word) {
        complain(play, step, "verdict is %s, not %s", once_word_name(answer->word),
                 once_word_name(step->word));
        return;
    }
    if (step->attempt != 0 && answer->attempt != step->attempt)
        complain(play, step, "attempt is %" PRIu32 ", not %" PRIu32, answer->attempt,
                 step->attempt);
    if (answer->word == ONCE_BUSY && (answer->retry_ms < 1 || answer->retry_ms > ONCE_RETRY_MS_MAX))
        complain(play, step, "come back in %" PRId64 " ms is out of range", answer->retry_ms);
    if (step->retry_ms_most > 0 && answer->retry_ms > step->retry_ms_most)
        complain(play, step, "come back in %" PRId64 " ms is after the lease ends",
                 answer->retry_ms);
    if (step->is_result)
        compare_result(play, step, answer);
    compare_silence(play, step, answer);
    compare_text(play, step, "point", step->is_point, answer->point);
    compare_text(play, step, "data", step->is_data, answer->data);
    compare_fences(play, step, answer->fence);
}

/* Waits for the other players; then the first one restarts the store, if this play does. */
static void end_step(struct play *play)
{
    struct stage *stage = play->stage;

    pthread_barrier_wait(&stage->barrier);
    if (!stage->restarts)
        return;
    if (play->player == 0)
        stage->store = stage->adapter->restart(stage->store);
    pthread_barrier_wait(&stage->barrier);
    if (!stage->store) {
        printf("# %s: the store does not restart\n", stage->scenario->name);
        play->failures++;
    }
}

static void *play_steps(void *self)
{
    struct play *play = self;

    play->fences[NEVER_GIVEN] = ONCE_FENCE_MAX;
    for (const struct step *step = play->stage->scenario->steps; step->kind != STEP_END; step++) {
        struct conformance_answer answer;

        memset(&answer, 0xa5, sizeof(answer)); /* an adapter that forgets to answer is seen */
        perform(play, step, &answer);
        if (step->kind != STEP_ADVANCE)
            compare(play, step, &answer);
        play->step_index++;
        end_step(play);
        if (!play->stage->store)
            break;
    }
    return NULL;
}

static int play_scenario(const struct conformance_adapter *adapter, const struct scenario *scenario,
                         bool restarts)
{
    struct stage stage = {.adapter = adapter, .scenario = scenario, .restarts = restarts};
    struct play plays[CONFORMANCE_THREADS_MAX] = {{.stage = NULL}};
    pthread_t threads[CONFORMANCE_THREADS_MAX];
    unsigned count = adapter->threads > 0 ? adapter->threads : 1;
    int failures = 0;

    ONCE_ASSERT(count <= CONFORMANCE_THREADS_MAX);
    stage.store = adapter->open(START_MS);
    if (!stage.store) {
        printf("# %s: the store does not open\n", scenario->name);
        return 1;
    }
    ONCE_ASSERT(pthread_barrier_init(&stage.barrier, NULL, count) == 0);
    for (unsigned i = 0; i < count; i++) {
        plays[i].stage = &stage;
        plays[i].player = i;
        if (i > 0)
            ONCE_ASSERT(pthread_create(&threads[i], NULL, play_steps, &plays[i]) == 0);
    }
    play_steps(&plays[0]);
    for (unsigned i = 0; i < count; i++) {
        if (i > 0)
            ONCE_ASSERT(pthread_join(threads[i], NULL) == 0);
        failures += plays[i].failures;
    }
    pthread_barrier_destroy(&stage.barrier);
    if (stage.store)
        adapter->close(stage.store);
    return failures;
}

int conformance_run(const struct conformance_adapter *adapter, const char *filter)
{
    int number = 0, failures = 0;

    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not swallow what was found before it */
    for (const struct scenario *scenario = scenarios; scenario->name; scenario++) {
        if (filter && !strstr(scenario->name, filter))
            continue;
        for (int restarts = 0; restarts <= (adapter->restart ? 1 : 0); restarts++) {
            bool failed = play_scenario(adapter, scenario, restarts != 0) > 0;

            printf("%s %d - %s: %s%s\n", failed ? "not ok" : "ok", ++number, adapter->name,
                   scenario->name, restarts ? ", restarted after every step" : "");
            failures += failed;
        }
    }
    printf("1..%d\n", number);
    if (number == 0) {
        fprintf(stderr, "conformance: no scenario is named like '%s'\n", filter ? filter : "");
        return 1;
    }
    return failures;
}
