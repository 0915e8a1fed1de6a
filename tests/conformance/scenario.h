/* SPDX-License-Identifier: Apache-2.0
 *
 * The little language in which scenarios are written: a scenario is a name and a table of steps.
 *
 * Fences are numbers that each store chooses, so steps name them: `.keep = A` remembers the fence
 * of an answer under a letter, `.with = A` sends it, `.same = A` and `.above = A` compare an
 * answer's with it.
 */
#ifndef ONCE_TESTS_SCENARIO_H
#define ONCE_TESTS_SCENARIO_H

#include "conformance/conformance.h"

enum step_kind {
    STEP_END,
    STEP_BEGIN,
    STEP_COMPLETE,
    STEP_FAIL,
    STEP_CHECKPOINT,
    STEP_RENEW,
    STEP_RESOLVE,
    STEP_FORGET,
    STEP_GET,
    STEP_ADVANCE
};

enum fence_name { FENCE_NONE, A, B, C, NEVER_GIVEN, FENCE_NAME_COUNT };

struct step {
    enum step_kind kind;
    const char *ns;  /* "pay" unless said */
    const char *key; /* "k" unless said */
    const char *fp;
    const char *owner;
    once_ms ttl_ms;
    once_ms lease_ms;
    bool retry_doubt;
    bool done;
    enum fence_name with;
    int32_t code;
    const char *result;
    size_t result_size; /* when result is not text */
    const char *point;
    const char *data;
    const char *after;
    once_ms by_ms; /* ADVANCE */

    /* What must come back. */
    int err;
    enum once_word word;
    enum once_state state;
    uint32_t attempt;
    enum fence_name keep;
    enum fence_name same;
    enum fence_name above;
    once_ms retry_ms_most;
    const char *is_result; /* checked when given, with is_code */
    size_t is_result_size; /* when is_result is not text */
    int32_t is_code;
    const char *is_point;
    const char *is_data;
};

struct scenario {
    const char *name;
    const struct step *steps;
};

#define BEGIN(...)                                                                                 \
    {                                                                                              \
        .kind = STEP_BEGIN, __VA_ARGS__                                                            \
    }
#define COMPLETE(...)                                                                              \
    {                                                                                              \
        .kind = STEP_COMPLETE, __VA_ARGS__                                                         \
    }
#define FAIL(...)                                                                                  \
    {                                                                                              \
        .kind = STEP_FAIL, __VA_ARGS__                                                             \
    }
#define CHECKPOINT(...)                                                                            \
    {                                                                                              \
        .kind = STEP_CHECKPOINT, __VA_ARGS__                                                       \
    }
#define RENEW(...)                                                                                 \
    {                                                                                              \
        .kind = STEP_RENEW, __VA_ARGS__                                                            \
    }
#define RESOLVE(...)                                                                               \
    {                                                                                              \
        .kind = STEP_RESOLVE, __VA_ARGS__                                                          \
    }
#define FORGET(...)                                                                                \
    {                                                                                              \
        .kind = STEP_FORGET, __VA_ARGS__                                                           \
    }
#define GET(...)                                                                                   \
    {                                                                                              \
        .kind = STEP_GET, __VA_ARGS__                                                              \
    }
#define ADVANCE(ms)                                                                                \
    {                                                                                              \
        .kind = STEP_ADVANCE, .by_ms = (ms)                                                        \
    }
#define END                                                                                        \
    {                                                                                              \
        .kind = STEP_END                                                                           \
    }

/* What a step expects first: one of the verdicts, or a refusal. */
#define EXECUTES .word = ONCE_EXECUTE
#define REPLAYS(a_code, a_result) .word = ONCE_REPLAY, .is_code = (a_code), .is_result = (a_result)
#define IS_BUSY .word = ONCE_BUSY
#define MISMATCHES .word = ONCE_MISMATCH
#define DOUBTS .word = ONCE_DOUBT
#define IS_TOO_OLD .word = ONCE_TOO_OLD
#define IS_OK .word = ONCE_DONE
#define IS_STALE .word = ONCE_STALE
#define IS_NOTFOUND .word = ONCE_NOTFOUND
#define REFUSED(why) .err = (why)

extern const struct scenario scenarios[];

#endif
