/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance suite: what every store and every host of Once must answer.
 *
 * Scenarios are written once, as tables of steps (scenarios.c). A store or host adds an adapter, a
 * handful of calls that translate; it adds no scenario. `conformance_run` plays all scenarios on an
 * adapter and prints TAP.
 */
#ifndef ONCE_TESTS_CONFORMANCE_H
#define ONCE_TESTS_CONFORMANCE_H

#include <once/once.h>

enum { CONFORMANCE_BYTES_MAX = 128, CONFORMANCE_THREADS_MAX = 64 };

/* A call, in the words of the protocols. Text fields are NUL-terminated; NULL is "not given". */
struct conformance_call {
    const char *ns;
    const char *key;
    const char *fingerprint;
    const char *owner;
    once_ms ttl_ms;   /* 0: not given, the default of limits.h */
    once_ms lease_ms; /* 0: not given, the default; for renew it is the new lease, 0 and all */
    enum once_on_doubt on_doubt;
    uint64_t fence; /* resolve, forget: 0 is not given */
    bool done;      /* resolve */
    int32_t code;
    struct once_bytes result; /* complete, resolve; fail: the reason */
    const char *point;
    const char *data;
    const char *after; /* checkpoint: the point that it follows */
};

/* What came back. err is ONCE_OK, or why the call was refused before anything was decided. */
struct conformance_answer {
    int err;
    enum once_word word;
    uint64_t fence;
    uint32_t attempt;
    once_ms retry_ms;
    int32_t code;
    size_t result_size; /* of the whole result; result holds its beginning */
    char result[CONFORMANCE_BYTES_MAX];
    char point[CONFORMANCE_BYTES_MAX];
    char data[CONFORMANCE_BYTES_MAX];
    enum once_state state; /* get */
};

/* An adapter writes the whole answer (the runner fills it with rubbish first): err, and when
 * that is OK the word and only what belongs to it: fence, attempt, point and data with EXECUTE
 * and DOUBT, code and result with REPLAY, retry_ms with BUSY. The rest is zero: a MISMATCH
 * reveals nothing of the other request. get fills state and all that the record holds, or says
 * NOTFOUND. */
struct conformance_adapter {
    const char *name;
    /* So many threads play each scenario at the same time on one store, each in namespaces of its
     * own, step by step together: the clock is one. 0 is 1. At most CONFORMANCE_THREADS_MAX. */
    unsigned threads;
    /* A new, empty store whose clock reads start_ms. NULL on failure. */
    void *(*open)(once_ms start_ms);
    void (*close)(void *store);
    /* Moves store time forward. */
    void (*advance)(void *store, once_ms by_ms);
    /* A crash and a restart: what was acknowledged is still there. NULL where nothing is
     * durable. */
    void *(*restart)(void *store);
    void (*begin)(void *store, const struct conformance_call *call, struct conformance_answer *ret);
    void (*complete)(void *store, const struct conformance_call *call,
                     struct conformance_answer *ret);
    void (*fail)(void *store, const struct conformance_call *call, struct conformance_answer *ret);
    void (*checkpoint)(void *store, const struct conformance_call *call,
                       struct conformance_answer *ret);
    void (*renew)(void *store, const struct conformance_call *call, struct conformance_answer *ret);
    void (*resolve)(void *store, const struct conformance_call *call,
                    struct conformance_answer *ret);
    void (*forget)(void *store, const struct conformance_call *call,
                   struct conformance_answer *ret);
    void (*get)(void *store, const struct conformance_call *call, struct conformance_answer *ret);
};

/* Plays every scenario, or those whose name contains filter (may be NULL). Where the adapter
 * can restart, plays each one twice: straight through, and with a restart after every step.
 * Returns the failures. */
int conformance_run(const struct conformance_adapter *adapter, const char *filter);

#endif
