/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of Once: in what state an operation is, and what a caller is told.
 */
#ifndef ONCE_VERDICT_H
#define ONCE_VERDICT_H

#include <stdint.h>

#include <once/err.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Milliseconds: a length, or a point of store time since 1970-01-01T00:00:00Z. */
typedef int64_t once_ms;

/* Numbers are written to disk: append, never renumber. */
enum once_state {
    ONCE_STATE_ABSENT = 0,    /* never seen, forgotten, or expired after it ended */
    ONCE_STATE_STARTED = 1,   /* someone holds it under a lease */
    ONCE_STATE_COMPLETED = 2, /* done; its answer is kept until it expires */
    ONCE_STATE_FAILED = 3,    /* known not to have happened; free to retry */
    ONCE_STATE_DOUBT = 4 /* started, and its owner vanished: nobody knows whether it happened */
};

/* What a caller is told. The first six answer begin; the next three the calls of an owner;
 * the last two apply. */
enum once_word {
    ONCE_EXECUTE = 0,  /* it is yours: do it now */
    ONCE_REPLAY = 1,   /* it was done: here is the first answer */
    ONCE_BUSY = 2,     /* someone holds a live lease: come back later */
    ONCE_MISMATCH = 3, /* this key belongs to another request, or it ended with another answer */
    ONCE_DOUBT = 4,    /* someone started it and vanished: resolve it, or take over on purpose */
    ONCE_TOO_OLD = 5,  /* the key was born longer ago than answers are kept */
    ONCE_DONE = 6,     /* an owner's call took effect, now or when it was first sent ("OK") */
    ONCE_STALE = 7,    /* the fence is not the current one, or the attempt has ended */
    ONCE_NOTFOUND = 8, /* there is no such operation */
    ONCE_APPLIED = 9,  /* every effect happened, now */
    ONCE_REJECTED = 10 /* none happened: an effect was rejected, now */
};

/* What a begin does when it meets a doubt. RETRY takes over with a larger fence. It is right
 * only where the effect is keyed or transactional, or where the resource can be asked whether
 * the old owner had been there while a fence keeps it out: a fence alone stops a late writer,
 * not an early one. */
enum once_on_doubt {
    ONCE_ON_DOUBT_REJECT = 0, /* tell the caller; the default */
    ONCE_ON_DOUBT_RETRY = 1
};

/* "EXECUTE", "OK", …: the words of the protocols. Never NULL; the text is static. */
ONCE_API const char *once_word_name(enum once_word word);

/* "absent", "started", … Never NULL; the text is static. */
ONCE_API const char *once_state_name(enum once_state state);

#ifdef __cplusplus
}
#endif
#endif
