/* SPDX-License-Identifier: Apache-2.0
 *
 * What every store and every host of Once must answer, as tables. scenario.h explains the language.
 *
 * Each scenario starts with an empty store at 2026-01-01T00:00:00Z, namespace "pay", key "k".
 */
#include "conformance/scenario.h"

#include <stddef.h>

#define SECOND 1000LL
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)
#define YEAR (365 * DAY)

/* UUIDv7 keys by their birth. */
#define BORN_NOW "019b76da-a800-7000-8000-000000000001"
#define BORN_24H_AGO "019b71b4-4c00-7000-8000-000000000001"
#define BORN_24H_AGO_LESS_1MS "019b71b4-4c01-7000-8000-000000000001"
#define BORN_IN_1H "019b7711-9680-7000-8000-000000000001"
#define BORN_IN_24H "019b7c01-0400-7000-8000-000000000001"
#define BORN_IN_24H_AND_1MS "019b7c01-0401-7000-8000-000000000001"

/* D1: the plain life of an operation, and the answer to every retry. */
static const struct step runs_once_and_replays[] = {
    GET(.state = ONCE_STATE_ABSENT),
    BEGIN(.fp = "charge 100", .owner = "a", EXECUTES, .attempt = 1, .keep = A, .is_point = ""),
    GET(.state = ONCE_STATE_STARTED, .same = A, .attempt = 1),
    COMPLETE(.with = A, .code = 201, .result = "ch_1", IS_OK),
    GET(.state = ONCE_STATE_COMPLETED, .is_code = 201, .is_result = "ch_1"),
    BEGIN(.fp = "charge 100", .owner = "b", REPLAYS(201, "ch_1")),
    BEGIN(.fp = "charge 100", .owner = "a", REPLAYS(201, "ch_1")),
    BEGIN(.fp = "charge 100", REPLAYS(201, "ch_1")),
    END,
};

/* D5, owner ids: a claim whose reply was lost does not block its own caller. */
static const struct step lost_reply_to_begin_is_the_same_execute[] = {
    BEGIN(.owner = "a", EXECUTES, .attempt = 1, .keep = A),
    BEGIN(.owner = "a", EXECUTES, .attempt = 1, .same = A),
    BEGIN(.owner = "b", IS_BUSY),
    BEGIN(.owner = "a", EXECUTES, .attempt = 1, .same = A),
    COMPLETE(.with = A, .result = "x", IS_OK),
    BEGIN(.owner = "a", REPLAYS(0, "x")),
    END,
};

static const struct step repeated_begin_is_no_renewal[] = {
    BEGIN(.owner = "a", .lease_ms = 10 * SECOND, EXECUTES, .keep = A),
    ADVANCE(9 * SECOND),
    BEGIN(.owner = "a", .lease_ms = 10 * SECOND, EXECUTES, .same = A),
    ADVANCE(1 * SECOND),
    BEGIN(.owner = "b", DOUBTS, .same = A),
    END,
};

static const struct step anonymous_callers_are_never_the_same[] = {
    BEGIN(EXECUTES, .keep = A),
    BEGIN(IS_BUSY),
    BEGIN(.owner = "a", IS_BUSY),
    END,
};

/* D4: told when to come back, never later than the lease ends. */
static const struct step busy_says_when_to_come_back[] = {
    BEGIN(.owner = "a", .lease_ms = 10 * SECOND, EXECUTES),
    BEGIN(.owner = "b", IS_BUSY, .retry_ms_most = 1 * SECOND),
    ADVANCE(9997),
    BEGIN(.owner = "b", IS_BUSY, .retry_ms_most = 3),
    END,
};

/* K3, lesson "busy before mismatch". */
static const struct step mismatch_comes_before_everything[] = {
    BEGIN(.fp = "charge 100", .owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    BEGIN(.fp = "charge 999", .owner = "b", MISMATCHES),
    BEGIN(.fp = "charge 999", .owner = "a", MISMATCHES),
    ADVANCE(SECOND),
    BEGIN(.fp = "charge 999", .owner = "b", .retry_doubt = true, MISMATCHES),
    BEGIN(.fp = "charge 100", .owner = "b", DOUBTS),
    BEGIN(.fp = "charge 999", .owner = "b", .retry_doubt = true, MISMATCHES),
    FAIL(.with = A, IS_OK),
    BEGIN(.fp = "charge 999", MISMATCHES),
    BEGIN(.fp = "charge 100", .owner = "c", EXECUTES, .keep = B, .above = A),
    COMPLETE(.with = B, .result = "done", IS_OK),
    BEGIN(.fp = "charge 999", MISMATCHES),
    BEGIN(.fp = "charge 100", REPLAYS(0, "done")),
    END,
};

static const struct step no_fingerprint_is_a_fingerprint[] = {
    BEGIN(.owner = "a", EXECUTES, .keep = A),
    BEGIN(.fp = "x", .owner = "a", MISMATCHES),
    BEGIN(.fp = "", .owner = "a", EXECUTES, .same = A),
    BEGIN(.key = "k2", .fp = "x", .owner = "a", EXECUTES),
    BEGIN(.key = "k2", .owner = "a", MISMATCHES),
    END,
};

/* 32 bytes are taken as they are, so every one of them counts. */
static const struct step fingerprints_differ_in_their_last_byte[] = {
    BEGIN(.fp = "0123456789abcdef0123456789abcdef", .owner = "a", EXECUTES, .keep = A),
    BEGIN(.fp = "0123456789abcdef0123456789abcdeg", .owner = "a", MISMATCHES),
    BEGIN(.fp = "1123456789abcdef0123456789abcdef", .owner = "a", MISMATCHES),
    BEGIN(.fp = "0123456789abcdef0123456789abcdef", .owner = "a", EXECUTES, .same = A),
    BEGIN(.fp = "0123456789abcdef0123456789abcdef ", .owner = "a", MISMATCHES),
    END,
};

/* INV-4, lesson "an expired claim runs again". */
static const struct step lease_over_is_doubt_and_never_reruns[] = {
    BEGIN(.owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    ADVANCE(SECOND - 1),
    BEGIN(.owner = "b", IS_BUSY, .retry_ms_most = 1),
    ADVANCE(1),
    GET(.state = ONCE_STATE_DOUBT, .same = A),
    BEGIN(.owner = "b", DOUBTS, .same = A),
    BEGIN(.owner = "a", DOUBTS, .same = A),
    BEGIN(DOUBTS, .same = A),
    GET(.state = ONCE_STATE_DOUBT, .same = A),
    END,
};

static const struct step doubt_never_expires[] = {
    BEGIN(.owner = "a", .ttl_ms = SECOND, .lease_ms = SECOND, EXECUTES, .keep = A),
    BEGIN(.key = "seen", .owner = "a", .ttl_ms = SECOND, .lease_ms = SECOND, EXECUTES),
    ADVANCE(SECOND),
    BEGIN(.key = "seen", .ttl_ms = SECOND, DOUBTS),
    ADVANCE(20 * YEAR),
    BEGIN(.owner = "b", .ttl_ms = SECOND, DOUBTS, .same = A),
    BEGIN(.key = "seen", .ttl_ms = SECOND, DOUBTS),
    GET(.state = ONCE_STATE_DOUBT),
    END,
};

static const struct step owner_that_comes_back_ends_its_own_doubt[] = {
    BEGIN(.owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    ADVANCE(HOUR),
    BEGIN(.owner = "b", DOUBTS),
    COMPLETE(.with = A, .code = 7, .result = "late but true", IS_OK),
    BEGIN(.owner = "b", REPLAYS(7, "late but true")),
    END,
};

/* D2: tokens grow, and whoever was overtaken changes nothing. */
static const struct step taken_over_owner_is_stale_in_every_call[] = {
    BEGIN(.owner = "a", .lease_ms = SECOND, EXECUTES, .attempt = 1, .keep = A),
    ADVANCE(SECOND),
    BEGIN(.owner = "b", .retry_doubt = true, EXECUTES, .attempt = 2, .above = A, .keep = B),
    COMPLETE(.with = A, .result = "stale", IS_STALE),
    FAIL(.with = A, IS_STALE),
    CHECKPOINT(.with = A, .point = "stale", IS_STALE),
    RENEW(.with = A, .lease_ms = HOUR, IS_STALE),
    FORGET(.with = A, IS_STALE),
    BEGIN(.owner = "a", IS_BUSY),
    GET(.state = ONCE_STATE_STARTED, .same = B, .is_point = ""),
    COMPLETE(.with = B, .result = "fresh", IS_OK),
    COMPLETE(.with = A, .result = "stale", IS_STALE),
    BEGIN(REPLAYS(0, "fresh")),
    END,
};

static const struct step retry_policy_leaves_a_live_lease_alone[] = {
    BEGIN(.owner = "a", EXECUTES, .keep = A),
    BEGIN(.owner = "b", .retry_doubt = true, IS_BUSY),
    COMPLETE(.with = A, .result = "x", IS_OK),
    BEGIN(.owner = "b", .retry_doubt = true, REPLAYS(0, "x")),
    END,
};

static const struct step fence_never_given_is_refused[] = {
    BEGIN(.owner = "a", EXECUTES, .keep = A),
    COMPLETE(.with = NEVER_GIVEN, .result = "x", IS_STALE),
    COMPLETE(.with = FENCE_NONE, .result = "x", IS_STALE),
    FAIL(.with = NEVER_GIVEN, IS_STALE),
    RENEW(.with = NEVER_GIVEN, .lease_ms = HOUR, IS_STALE),
    GET(.state = ONCE_STATE_STARTED, .same = A),
    END,
};

static const struct step fences_grow_over_all_keys[] = {
    BEGIN(.key = "1", EXECUTES, .keep = A),
    BEGIN(.key = "2", EXECUTES, .above = A, .keep = B),
    BEGIN(.ns = "mail", .key = "1", EXECUTES, .above = B, .keep = C),
    FAIL(.key = "1", .with = A, IS_OK),
    BEGIN(.key = "1", EXECUTES, .above = C, .attempt = 2),
    END,
};

static const struct step renew_keeps_the_lease_alive[] = {
    BEGIN(.owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    ADVANCE(900),
    RENEW(.with = A, .lease_ms = SECOND, IS_OK),
    ADVANCE(900),
    BEGIN(.owner = "b", IS_BUSY, .retry_ms_most = 100),
    RENEW(.with = A, .lease_ms = SECOND, IS_OK),
    RENEW(.with = A, .lease_ms = SECOND, IS_OK),
    ADVANCE(SECOND),
    BEGIN(.owner = "b", DOUBTS, .same = A),
    END,
};

/* A late copy of an older renewal takes nothing back. */
static const struct step renew_never_shortens[] = {
    BEGIN(.owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    RENEW(.with = A, .lease_ms = HOUR, IS_OK),
    RENEW(.with = A, .lease_ms = SECOND, IS_OK),
    ADVANCE(HOUR - 1),
    BEGIN(.owner = "b", .retry_doubt = true, IS_BUSY, .retry_ms_most = 1),
    ADVANCE(1),
    BEGIN(.owner = "b", DOUBTS),
    END,
};

/* Once the lease is over somebody may be looking into it: it cannot be renewed, only ended. */
static const struct step lease_that_is_over_cannot_be_renewed[] = {
    BEGIN(.owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    ADVANCE(SECOND),
    RENEW(.with = A, .lease_ms = HOUR, DOUBTS, .same = A),
    GET(.state = ONCE_STATE_DOUBT, .same = A),
    RENEW(.with = A, .lease_ms = HOUR, DOUBTS, .same = A),
    BEGIN(.owner = "b", DOUBTS, .same = A),
    COMPLETE(.with = A, .result = "done in time", IS_OK),
    BEGIN(.owner = "b", REPLAYS(0, "done in time")),
    END,
};

/* D6: an owner that does not know how it ended says so at once. */
static const struct step renew_of_zero_is_doubt_at_once[] = {
    BEGIN(.owner = "a", .lease_ms = HOUR, EXECUTES, .keep = A),
    RENEW(.with = A, .lease_ms = 0, IS_OK),
    GET(.state = ONCE_STATE_DOUBT),
    BEGIN(.owner = "b", DOUBTS, .same = A),
    RENEW(.with = A, .lease_ms = 0, IS_OK),
    RENEW(.with = A, .lease_ms = HOUR, DOUBTS),
    COMPLETE(.with = A, .result = "found out", IS_OK),
    BEGIN(REPLAYS(0, "found out")),
    END,
};

/* D1, D5: failed is known not to have happened: free to retry, under the next fence. */
static const struct step failed_is_free_to_retry[] = {
    BEGIN(.owner = "a", EXECUTES, .attempt = 1, .keep = A),
    FAIL(.with = A, .result = "card network down", IS_OK),
    FAIL(.with = A, .result = "card network down", IS_OK),
    GET(.state = ONCE_STATE_FAILED, .same = A, .is_result = "card network down"),
    COMPLETE(.with = A, .result = "x", IS_STALE),
    RENEW(.with = A, .lease_ms = HOUR, IS_STALE),
    CHECKPOINT(.with = A, .point = "p", IS_STALE),
    BEGIN(.owner = "a", EXECUTES, .attempt = 2, .above = A, .keep = B),
    FAIL(.with = A, IS_STALE),
    COMPLETE(.with = B, .result = "paid", IS_OK),
    FAIL(.with = B, IS_STALE),
    BEGIN(REPLAYS(0, "paid")),
    END,
};

/* D3: the last finished step and its data survive a failure and a takeover. */
static const struct step retry_resumes_at_the_recovery_point[] = {
    BEGIN(.owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A, .is_point = "", .is_data = ""),
    CHECKPOINT(.with = A, .point = "reserved", .data = "hold_9", IS_OK),
    CHECKPOINT(.with = A, .point = "reserved", .data = "hold_9", IS_OK),
    BEGIN(.owner = "a", EXECUTES, .same = A, .is_point = "reserved", .is_data = "hold_9"),
    FAIL(.with = A, IS_OK),
    BEGIN(.owner = "b", .lease_ms = SECOND, EXECUTES, .keep = B, .is_point = "reserved",
          .is_data = "hold_9"),
    CHECKPOINT(.with = B, .point = "captured", .data = "", IS_OK),
    ADVANCE(SECOND),
    BEGIN(.owner = "c", DOUBTS, .same = B, .is_point = "captured"),
    BEGIN(.owner = "c", .retry_doubt = true, EXECUTES, .attempt = 3, .above = B, .keep = C,
          .is_point = "captured", .is_data = ""),
    COMPLETE(.with = C, .result = "done", IS_OK),
    CHECKPOINT(.with = C, .point = "after the end", IS_STALE),
    GET(.state = ONCE_STATE_COMPLETED, .is_point = "captured", .is_result = "done"),
    END,
};

/* D5: a late copy of an older checkpoint must not make a finished step run again. */
static const struct step checkpoint_that_follows_never_goes_back[] = {
    BEGIN(.owner = "a", EXECUTES, .keep = A),
    CHECKPOINT(.with = A, .point = "reserved", .data = "h", .after = "", IS_OK),
    CHECKPOINT(.with = A, .point = "reserved", .data = "h", .after = "", IS_OK),
    CHECKPOINT(.with = A, .point = "captured", .data = "c", .after = "reserved", IS_OK),
    CHECKPOINT(.with = A, .point = "reserved", .data = "h", .after = "", IS_STALE),
    CHECKPOINT(.with = A, .point = "mailed", .after = "reserved", IS_STALE),
    CHECKPOINT(.with = A, .point = "captured", .data = "c", .after = "reserved", IS_OK),
    GET(.state = ONCE_STATE_STARTED, .is_point = "captured", .is_data = "c"),
    CHECKPOINT(.with = A, .point = "reserved", IS_OK),
    GET(.state = ONCE_STATE_STARTED, .is_point = "reserved", .is_data = ""),
    END,
};

static const struct step checkpoint_is_no_renewal[] = {
    BEGIN(.owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    ADVANCE(900),
    CHECKPOINT(.with = A, .point = "p", IS_OK),
    ADVANCE(100),
    BEGIN(.owner = "b", DOUBTS, .is_point = "p"),
    CHECKPOINT(.with = A, .point = "q", IS_OK),
    BEGIN(.owner = "b", DOUBTS, .is_point = "q"),
    END,
};

/* D5: the lost reply to complete; the first answer stays. */
static const struct step complete_again_is_ok_and_another_answer_is_not[] = {
    BEGIN(.owner = "a", EXECUTES, .keep = A),
    COMPLETE(.with = A, .code = 200, .result = "one", IS_OK),
    COMPLETE(.with = A, .code = 200, .result = "one", IS_OK),
    COMPLETE(.with = A, .code = 200, .result = "two", MISMATCHES),
    COMPLETE(.with = A, .code = 500, .result = "one", MISMATCHES),
    BEGIN(REPLAYS(200, "one")),
    END,
};

static const struct step calls_on_nothing_are_notfound[] = {
    COMPLETE(.with = NEVER_GIVEN, .result = "x", IS_NOTFOUND),
    FAIL(.with = NEVER_GIVEN, IS_NOTFOUND),
    CHECKPOINT(.with = NEVER_GIVEN, .point = "p", IS_NOTFOUND),
    RENEW(.with = NEVER_GIVEN, .lease_ms = SECOND, IS_NOTFOUND),
    RESOLVE(.done = true, .result = "x", IS_NOTFOUND),
    FORGET(IS_NOTFOUND),
    FORGET(.with = NEVER_GIVEN, IS_NOTFOUND),
    GET(.state = ONCE_STATE_ABSENT),
    END,
};

/* D1: a person or a reconciler ends a doubt; the vanished owner is stale from then on. */
static const struct step resolve_done_replays[] = {
    BEGIN(.fp = "f", .owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    ADVANCE(SECOND),
    RESOLVE(.done = true, .code = 201, .result = "found in the ledger", IS_OK),
    RESOLVE(.done = true, .code = 201, .result = "found in the ledger", IS_OK),
    RESOLVE(.done = true, .code = 201, .result = "something else", MISMATCHES),
    RESOLVE(.done = false, MISMATCHES),
    COMPLETE(.with = A, .code = 201, .result = "late", IS_STALE),
    FAIL(.with = A, IS_STALE),
    GET(.state = ONCE_STATE_COMPLETED, .above = A),
    BEGIN(.fp = "f", REPLAYS(201, "found in the ledger")),
    BEGIN(.fp = "g", MISMATCHES),
    END,
};

static const struct step resolved_answer_is_kept_as_long_as_any[] = {
    BEGIN(.key = BORN_NOW, .owner = "a", .lease_ms = SECOND, EXECUTES),
    ADVANCE(YEAR),
    RESOLVE(.key = BORN_NOW, .done = true, .result = "found", IS_OK),
    BEGIN(.key = BORN_NOW, REPLAYS(0, "found")),
    ADVANCE(DAY - 1),
    BEGIN(.key = BORN_NOW, REPLAYS(0, "found")),
    ADVANCE(1),
    BEGIN(.key = BORN_NOW, IS_TOO_OLD),
    END,
};

static const struct step resolve_not_done_frees_the_key[] = {
    BEGIN(.owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    CHECKPOINT(.with = A, .point = "half", IS_OK),
    ADVANCE(SECOND),
    BEGIN(.owner = "b", DOUBTS),
    RESOLVE(.done = false, IS_OK),
    RESOLVE(.done = false, IS_OK),
    RESOLVE(.done = true, .result = "x", MISMATCHES),
    COMPLETE(.with = A, .result = "late", IS_STALE),
    BEGIN(.owner = "b", EXECUTES, .attempt = 2, .above = A, .is_point = "half"),
    END,
};

/* A repeated resolve must not end a newer doubt than the one that was looked at. */
static const struct step resolve_of_an_older_doubt_is_stale[] = {
    BEGIN(.owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    ADVANCE(SECOND),
    RESOLVE(.with = A, .done = false, IS_OK),
    BEGIN(.owner = "b", .lease_ms = SECOND, EXECUTES, .keep = B),
    RESOLVE(.with = A, .done = false, IS_BUSY),
    ADVANCE(SECOND),
    RESOLVE(.with = A, .done = false, IS_STALE),
    RESOLVE(.with = B, .done = true, .result = "it was paid", IS_OK),
    BEGIN(REPLAYS(0, "it was paid")),
    END,
};

static const struct step resolve_does_not_disturb_a_live_owner[] = {
    BEGIN(.owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    RESOLVE(.done = false, IS_BUSY),
    RESOLVE(.done = true, .result = "x", IS_BUSY),
    COMPLETE(.with = A, .result = "mine", IS_OK),
    RESOLVE(.done = true, .result = "x", MISMATCHES),
    BEGIN(REPLAYS(0, "mine")),
    END,
};

/* Lesson "a waiter that gave up deleted the running owner's record". */
static const struct step forget_needs_an_end_or_the_current_fence[] = {
    BEGIN(.owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    FORGET(IS_BUSY),
    FORGET(.with = NEVER_GIVEN, IS_STALE),
    FORGET(.with = A, IS_OK),
    GET(.state = ONCE_STATE_ABSENT),
    BEGIN(.owner = "b", EXECUTES, .attempt = 1, .above = A, .keep = B),
    FORGET(.with = A, IS_STALE),
    COMPLETE(.with = B, .result = "x", IS_OK),
    FORGET(.with = A, IS_STALE),
    FORGET(.with = B, IS_OK),
    FORGET(.with = B, IS_NOTFOUND),
    BEGIN(.fp = "new", .owner = "a", EXECUTES, .attempt = 1, .above = B, .keep = C),
    FAIL(.with = C, IS_OK),
    FORGET(IS_OK),
    GET(.state = ONCE_STATE_ABSENT),
    END,
};

/* Whoever is told DOUBT is told its fence; that is not enough to erase it. */
static const struct step doubt_cannot_be_forgotten[] = {
    BEGIN(.fp = "f", .owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    ADVANCE(SECOND),
    FORGET(DOUBTS, .same = A),
    FORGET(.with = A, DOUBTS, .same = A),
    BEGIN(.fp = "f", .owner = "b", DOUBTS, .same = A),
    FORGET(.with = A, DOUBTS, .same = A),
    BEGIN(.fp = "g", .owner = "b", MISMATCHES),
    RESOLVE(.with = A, .done = false, IS_OK),
    FORGET(IS_OK),
    END,
};

/* K4: retention counts from the end, apart from the lease. */
static const struct step retention_counts_from_completion[] = {
    BEGIN(.owner = "a", .ttl_ms = 10 * SECOND, .lease_ms = HOUR, EXECUTES, .keep = A),
    ADVANCE(HOUR - 1),
    COMPLETE(.with = A, .result = "x", IS_OK),
    ADVANCE(10 * SECOND - 1),
    BEGIN(.ttl_ms = 10 * SECOND, REPLAYS(0, "x")),
    ADVANCE(1),
    GET(.state = ONCE_STATE_ABSENT),
    COMPLETE(.with = A, .result = "x", IS_NOTFOUND),
    RESOLVE(.done = true, .result = "x", IS_NOTFOUND),
    BEGIN(.fp = "a new question", .owner = "b", EXECUTES, .attempt = 1, .above = A, .is_point = ""),
    END,
};

static const struct step default_retention_is_a_day[] = {
    BEGIN(.owner = "a", EXECUTES, .keep = A),
    COMPLETE(.with = A, .result = "x", IS_OK),
    ADVANCE(DAY - 1),
    BEGIN(REPLAYS(0, "x")),
    ADVANCE(1),
    GET(.state = ONCE_STATE_ABSENT),
    END,
};

static const struct step default_lease_is_half_a_minute[] = {
    BEGIN(.owner = "a", EXECUTES, .keep = A),
    ADVANCE(30 * SECOND - 1),
    BEGIN(IS_BUSY),
    ADVANCE(1),
    BEGIN(DOUBTS),
    END,
};

static const struct step retention_never_shrinks[] = {
    BEGIN(.owner = "a", .ttl_ms = HOUR, EXECUTES, .keep = A),
    FAIL(.with = A, IS_OK),
    BEGIN(.owner = "b", .ttl_ms = SECOND, EXECUTES, .keep = B),
    COMPLETE(.with = B, .result = "x", IS_OK),
    ADVANCE(HOUR - 1),
    BEGIN(.ttl_ms = SECOND, REPLAYS(0, "x")),
    ADVANCE(1),
    GET(.state = ONCE_STATE_ABSENT),
    END,
};

static const struct step failure_is_remembered_as_long_as_a_result[] = {
    BEGIN(.fp = "f", .ttl_ms = HOUR, EXECUTES, .keep = A),
    FAIL(.with = A, .result = "no", IS_OK),
    ADVANCE(HOUR - 1),
    BEGIN(.fp = "g", .ttl_ms = HOUR, MISMATCHES),
    ADVANCE(1),
    BEGIN(.fp = "g", .ttl_ms = HOUR, EXECUTES, .attempt = 1, .above = A),
    END,
};

/* K5: the hole that every TTL leaves open, closed for keys that carry their birth time. */
static const struct step expired_uuid7_is_too_old_not_new[] = {
    BEGIN(.key = BORN_NOW, .owner = "a", EXECUTES, .keep = A),
    COMPLETE(.key = BORN_NOW, .with = A, .result = "x", IS_OK),
    ADVANCE(DAY - 1),
    BEGIN(.key = BORN_NOW, REPLAYS(0, "x")),
    ADVANCE(1),
    BEGIN(.key = BORN_NOW, IS_TOO_OLD),
    BEGIN(.key = BORN_NOW, .retry_doubt = true, IS_TOO_OLD),
    ADVANCE(YEAR),
    BEGIN(.key = BORN_NOW, IS_TOO_OLD),
    GET(.key = BORN_NOW, .state = ONCE_STATE_ABSENT),
    END,
};

static const struct step old_uuid7_never_seen_is_too_old[] = {
    BEGIN(.key = BORN_24H_AGO, IS_TOO_OLD),
    BEGIN(.key = BORN_24H_AGO, .ttl_ms = DAY + 1, EXECUTES),
    BEGIN(.key = BORN_24H_AGO_LESS_1MS, EXECUTES, .keep = A),
    COMPLETE(.key = BORN_24H_AGO_LESS_1MS, .with = A, .result = "x", IS_OK),
    ADVANCE(HOUR),
    BEGIN(.key = BORN_24H_AGO_LESS_1MS, REPLAYS(0, "x")),
    END,
};

/* K6: a client whose clock runs ahead leaves no gap between expired and too old. */
static const struct step uuid7_from_a_fast_clock_is_kept_until_too_old[] = {
    BEGIN(.key = BORN_IN_1H, .owner = "a", EXECUTES, .keep = A),
    COMPLETE(.key = BORN_IN_1H, .with = A, .result = "x", IS_OK),
    ADVANCE(DAY),
    BEGIN(.key = BORN_IN_1H, REPLAYS(0, "x")),
    ADVANCE(HOUR - 1),
    BEGIN(.key = BORN_IN_1H, REPLAYS(0, "x")),
    ADVANCE(1),
    BEGIN(.key = BORN_IN_1H, IS_TOO_OLD),
    END,
};

static const struct step uuid7_from_the_far_future_is_refused[] = {
    BEGIN(.key = BORN_IN_24H_AND_1MS, REFUSED(ONCE_ERR_KEY_FUTURE)),
    GET(.key = BORN_IN_24H_AND_1MS, .state = ONCE_STATE_ABSENT),
    BEGIN(.key = BORN_IN_24H, EXECUTES),
    ADVANCE(1),
    BEGIN(.key = BORN_IN_24H_AND_1MS, EXECUTES),
    END,
};

static const struct step doubt_of_an_old_uuid7_stays_a_doubt[] = {
    BEGIN(.key = BORN_NOW, .owner = "a", .lease_ms = SECOND, EXECUTES, .keep = A),
    ADVANCE(2 * DAY),
    BEGIN(.key = BORN_NOW, DOUBTS, .same = A),
    RESOLVE(.key = BORN_NOW, .done = false, IS_OK),
    BEGIN(.key = BORN_NOW, .owner = "b", EXECUTES, .attempt = 2, .above = A),
    END,
};

/* K2: one namespace never sees or blocks another's keys. */
static const struct step namespaces_are_apart[] = {
    BEGIN(.ns = "pay", .fp = "f", .owner = "a", EXECUTES, .keep = A),
    BEGIN(.ns = "mail", .fp = "g", .owner = "b", EXECUTES, .keep = B),
    COMPLETE(.ns = "mail", .with = A, .result = "x", IS_STALE),
    COMPLETE(.ns = "pay", .with = A, .result = "pay", IS_OK),
    BEGIN(.ns = "mail", .fp = "g", IS_BUSY),
    COMPLETE(.ns = "mail", .with = B, .result = "mail", IS_OK),
    BEGIN(.ns = "pay", .fp = "f", REPLAYS(0, "pay")),
    BEGIN(.ns = "mail", .fp = "g", REPLAYS(0, "mail")),
    END,
};

/* Bad input is refused before anything is decided, and nothing changes. */
static const struct step bad_calls_change_nothing[] = {
    BEGIN(.lease_ms = -1, REFUSED(ONCE_ERR_INVALID)),
    BEGIN(.lease_ms = ONCE_LEASE_MS_MAX + 1, REFUSED(ONCE_ERR_INVALID)),
    BEGIN(.ttl_ms = -1, REFUSED(ONCE_ERR_INVALID)),
    BEGIN(.ttl_ms = ONCE_RETENTION_MS_MAX + 1, REFUSED(ONCE_ERR_INVALID)),
    BEGIN(.owner = "12345678901234567890123456789012345678901234567890123456789012345",
          REFUSED(ONCE_ERR_INVALID)),
    BEGIN(.key = "", REFUSED(ONCE_ERR_KEY_EMPTY)),
    BEGIN(.key = "line\nbreak", REFUSED(ONCE_ERR_KEY_CHARACTER)),
    BEGIN(.ns = "", REFUSED(ONCE_ERR_INVALID)),
    BEGIN(.ns = "two words", REFUSED(ONCE_ERR_INVALID)),
    BEGIN(.ns = "12345678901234567890123456789012345678901234567890123456789012345",
          REFUSED(ONCE_ERR_INVALID)),
    GET(.state = ONCE_STATE_ABSENT),
    BEGIN(.owner = "a", EXECUTES, .keep = A),
    CHECKPOINT(.with = A, .point = "", REFUSED(ONCE_ERR_INVALID)),
    RENEW(.with = A, .lease_ms = -1, REFUSED(ONCE_ERR_INVALID)),
    RENEW(.with = A, .lease_ms = ONCE_LEASE_MS_MAX + 1, REFUSED(ONCE_ERR_INVALID)),
    GET(.state = ONCE_STATE_STARTED, .same = A, .attempt = 1, .is_point = ""),
    COMPLETE(.with = A, .result = "fine", IS_OK),
    END,
};

static const struct step results_are_bytes[] = {
    BEGIN(.key = "empty", EXECUTES, .keep = A),
    COMPLETE(.key = "empty", .with = A, .code = -1, .result = "", IS_OK),
    BEGIN(.key = "empty", REPLAYS(-1, "")),
    BEGIN(.key = "binary", EXECUTES, .keep = B),
    COMPLETE(.key = "binary", .with = B, .result = "a\0b", .result_size = 3, IS_OK),
    COMPLETE(.key = "binary", .with = B, .result = "a\0c", .result_size = 3, MISMATCHES),
    COMPLETE(.key = "binary", .with = B, .result = "a\0b", .result_size = 3, IS_OK),
    BEGIN(.key = "binary", .word = ONCE_REPLAY, .is_result = "a\0b", .is_result_size = 3),
    END,
};

#define SCENARIO(name)                                                                             \
    {                                                                                              \
#name, name                                                                                \
    }

const struct scenario scenarios[] = {
    SCENARIO(runs_once_and_replays),
    SCENARIO(lost_reply_to_begin_is_the_same_execute),
    SCENARIO(repeated_begin_is_no_renewal),
    SCENARIO(anonymous_callers_are_never_the_same),
    SCENARIO(busy_says_when_to_come_back),
    SCENARIO(mismatch_comes_before_everything),
    SCENARIO(no_fingerprint_is_a_fingerprint),
    SCENARIO(fingerprints_differ_in_their_last_byte),
    SCENARIO(lease_over_is_doubt_and_never_reruns),
    SCENARIO(doubt_never_expires),
    SCENARIO(owner_that_comes_back_ends_its_own_doubt),
    SCENARIO(taken_over_owner_is_stale_in_every_call),
    SCENARIO(retry_policy_leaves_a_live_lease_alone),
    SCENARIO(fence_never_given_is_refused),
    SCENARIO(fences_grow_over_all_keys),
    SCENARIO(renew_keeps_the_lease_alive),
    SCENARIO(renew_never_shortens),
    SCENARIO(lease_that_is_over_cannot_be_renewed),
    SCENARIO(renew_of_zero_is_doubt_at_once),
    SCENARIO(failed_is_free_to_retry),
    SCENARIO(retry_resumes_at_the_recovery_point),
    SCENARIO(checkpoint_that_follows_never_goes_back),
    SCENARIO(checkpoint_is_no_renewal),
    SCENARIO(complete_again_is_ok_and_another_answer_is_not),
    SCENARIO(calls_on_nothing_are_notfound),
    SCENARIO(resolve_done_replays),
    SCENARIO(resolved_answer_is_kept_as_long_as_any),
    SCENARIO(resolve_not_done_frees_the_key),
    SCENARIO(resolve_of_an_older_doubt_is_stale),
    SCENARIO(resolve_does_not_disturb_a_live_owner),
    SCENARIO(forget_needs_an_end_or_the_current_fence),
    SCENARIO(doubt_cannot_be_forgotten),
    SCENARIO(retention_counts_from_completion),
    SCENARIO(default_retention_is_a_day),
    SCENARIO(default_lease_is_half_a_minute),
    SCENARIO(retention_never_shrinks),
    SCENARIO(failure_is_remembered_as_long_as_a_result),
    SCENARIO(expired_uuid7_is_too_old_not_new),
    SCENARIO(old_uuid7_never_seen_is_too_old),
    SCENARIO(uuid7_from_a_fast_clock_is_kept_until_too_old),
    SCENARIO(uuid7_from_the_far_future_is_refused),
    SCENARIO(doubt_of_an_old_uuid7_stays_a_doubt),
    SCENARIO(namespaces_are_apart),
    SCENARIO(bad_calls_change_nothing),
    SCENARIO(results_are_bytes),
    {NULL, NULL},
};
