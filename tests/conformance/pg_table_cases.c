/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases of the decision table. A case is a digit for each dimension; a dimension is a handful
 * of values around each boundary that a decision looks at. Dimensions that no branch looks at
 * (what is only carried along or counted) are not multiplied out: they take turns.
 */
#include "conformance/pg_table.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

enum dimension {
    STATE,
    LEASE,
    EXPIRES,
    PRINT,
    OWNER,
    STEP,
    ANSWER,
    ATTEMPT,
    RETENTION,
    TIME,
    FENCE,
    ASK_PRINT,
    ASK_OWNER,
    ASK_RETRY,
    ASK_BIRTH,
    ASK_TTL,
    ASK_LEASE,
    ASK_FENCE,
    ASK_DONE,
    ASK_CODE,
    ASK_RESULT,
    ASK_POINT,
    ASK_DATA,
    ASK_AFTER,
    DIMENSION_COUNT
};

static const unsigned sizes[DIMENSION_COUNT] = {
    [STATE] = 5,      [LEASE] = 4,     [EXPIRES] = 4,   [PRINT] = 2,     [OWNER] = 2,
    [STEP] = 3,       [ANSWER] = 3,    [ATTEMPT] = 4,   [RETENTION] = 3, [TIME] = 3,
    [FENCE] = 2,      [ASK_PRINT] = 3, [ASK_OWNER] = 3, [ASK_RETRY] = 2, [ASK_BIRTH] = 7,
    [ASK_TTL] = 3,    [ASK_LEASE] = 5, [ASK_FENCE] = 5, [ASK_DONE] = 2,  [ASK_CODE] = 2,
    [ASK_RESULT] = 4, [ASK_POINT] = 2, [ASK_DATA] = 2,  [ASK_AFTER] = 4,
};

#define BIT(dimension) (1U << (dimension))
#define OF_RECORD (BIT(STATE) | BIT(LEASE) | BIT(EXPIRES))

/* What each call looks at; the rest takes turns. */
static const unsigned looked_at[] = {
    [ONCE_CALL_BEGIN] = OF_RECORD | BIT(PRINT) | BIT(OWNER) | BIT(ASK_PRINT) | BIT(ASK_OWNER) |
                        BIT(ASK_RETRY) | BIT(ASK_BIRTH),
    [ONCE_CALL_COMPLETE] = OF_RECORD | BIT(ANSWER) | BIT(ASK_FENCE) | BIT(ASK_CODE) |
                           BIT(ASK_RESULT),
    [ONCE_CALL_FAIL] = OF_RECORD | BIT(ANSWER) | BIT(ASK_FENCE) | BIT(ASK_RESULT),
    [ONCE_CALL_CHECKPOINT] = OF_RECORD | BIT(STEP) | BIT(ASK_FENCE) | BIT(ASK_POINT) |
                             BIT(ASK_DATA) | BIT(ASK_AFTER),
    [ONCE_CALL_RENEW] = OF_RECORD | BIT(ASK_FENCE) | BIT(ASK_LEASE),
    [ONCE_CALL_RESOLVE] = OF_RECORD | BIT(ANSWER) | BIT(ASK_FENCE) | BIT(ASK_DONE) | BIT(ASK_CODE) |
                          BIT(ASK_RESULT),
    [ONCE_CALL_FORGET] = OF_RECORD | BIT(ASK_FENCE),
};

enum { CALL_COUNT = sizeof(looked_at) / sizeof(looked_at[0]) };

uint64_t table_shuffle(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* ---- From digits to a case ------------------------------------------------------------------ */

#define DAY_MS 86400000LL

static struct once_fingerprint print_of(char letter)
{
    struct once_fingerprint print;

    memset(print.bytes, letter == '0' ? 0 : letter, sizeof(print.bytes));
    return print;
}

static void make_record(const unsigned *digit, struct table_case *ret)
{
    static const once_ms edges[] = {0, -1, 1};
    static const char *const steps[][2] = {{"", ""}, {"charged", "card 7"}, {"charged", ""}};
    static const char *const results[] = {"", "42 EUR", "42 EUR, paid"};
    static const uint32_t attempts[] = {1, 2, ONCE_ATTEMPT_MAX - 1, ONCE_ATTEMPT_MAX};
    static const once_ms retentions[] = {DAY_MS, 1, ONCE_RETENTION_MS_MAX};
    once_ms now_ms = ret->at.now_ms;
    struct once_record *record = &ret->record;

    *record = (struct once_record){.state = (enum once_state)digit[STATE]};
    if (record->state == ONCE_STATE_ABSENT)
        return;
    record->attempt = attempts[digit[ATTEMPT]];
    record->fence = digit[FENCE] == 0 ? 100 : ONCE_FENCE_MAX - 2;
    record->created_ms = now_ms - 5000;
    record->lease_end_ms = now_ms + (digit[LEASE] < 3 ? edges[digit[LEASE]] : 30000);
    record->retention_ms = retentions[digit[RETENTION]];
    record->expires_ms = now_ms + (digit[EXPIRES] < 3 ? edges[digit[EXPIRES]] : 20 * DAY_MS);
    record->code = digit[ANSWER] == 0 ? 0 : digit[ANSWER] == 1 ? 7 : -7;
    record->fingerprint = print_of(digit[PRINT] == 0 ? 'a' : '0');
    record->owner = once_bytes_of(digit[OWNER] == 0 ? "alice" : "");
    record->point = once_bytes_of(steps[digit[STEP]][0]);
    record->data = once_bytes_of(steps[digit[STEP]][1]);
    record->result = once_bytes_of(results[digit[ANSWER]]);
    ret->id = record->fence - 50;
}

static once_ms birth_of(unsigned digit, once_ms now_ms, once_ms ttl_ms)
{
    const once_ms births[] = {ONCE_BIRTH_NONE, now_ms - ttl_ms,     now_ms - ttl_ms - 1,
                              now_ms,          now_ms - ttl_ms + 1, now_ms + ONCE_KEY_SKEW_MS_MAX,
                              now_ms + 1};
    once_ms birth_ms = births[digit];

    return birth_ms < 0 && digit > 0 ? 0 : birth_ms;
}

static void make_begin(const unsigned *digit, struct table_case *ret)
{
    static const once_ms ttls[] = {DAY_MS, 1, ONCE_RETENTION_MS_MAX};
    static const once_ms leases[] = {1, 1, 30000, 30001, ONCE_LEASE_MS_MAX};
    static const char *const owners[] = {"alice", "alicf", ""};
    once_ms ttl_ms = ttls[digit[ASK_TTL]];

    ret->begin = (struct once_request){
        .fingerprint = print_of("ab0"[digit[ASK_PRINT]]),
        .owner = once_bytes_of(owners[digit[ASK_OWNER]]),
        .birth_ms = birth_of(digit[ASK_BIRTH], ret->at.now_ms, ttl_ms),
        .retention_ms = ttl_ms,
        .lease_ms = leases[digit[ASK_LEASE]],
        .on_doubt = digit[ASK_RETRY] == 0 ? ONCE_ON_DOUBT_REJECT : ONCE_ON_DOUBT_RETRY,
    };
}

static void make_asked(const unsigned *digit, struct table_case *ret)
{
    const struct once_record *record = &ret->record;
    const uint64_t fences[] = {record->fence, record->fence > 0 ? record->fence - 1 : 1,
                               record->fence + 1, 0, ONCE_FENCE_MAX};
    static const once_ms leases[] = {0, 1, 30000, 30001, ONCE_LEASE_MS_MAX};
    static const char *const results[] = {NULL, "42 EUS", "", "42 EUR and more"};
    static const char *const afters[] = {NULL, "", "charged", "shipped"};

    ret->fence = fences[digit[ASK_FENCE]];
    ret->lease_ms = leases[digit[ASK_LEASE]];
    ret->done = digit[ASK_DONE] == 0;
    ret->answer.code = digit[ASK_CODE] == 0 ? record->code : record->code + 1;
    ret->answer.result = digit[ASK_RESULT] == 0 ? record->result
                                                : once_bytes_of(results[digit[ASK_RESULT]]);
    ret->step.point = digit[ASK_POINT] == 0 && record->point.size > 0 ? record->point
                                                                      : once_bytes_of("packed");
    ret->step.data = digit[ASK_DATA] == 0 ? record->data : once_bytes_of("box 9");
    ret->step.follows = afters[digit[ASK_AFTER]] != NULL;
    ret->step.after = once_bytes_of(afters[digit[ASK_AFTER]]);
}

static void make(enum once_call_kind call, const unsigned *digit, struct table_case *ret)
{
    static const once_ms times[] = {1767225600000LL, ONCE_NOW_MS_MAX, 1000000000LL};

    *ret = (struct table_case){.call = call};
    ret->at.now_ms = times[digit[TIME]];
    make_record(digit, ret);
    ret->at.next_fence = ret->record.fence + 1 + digit[ATTEMPT] % 2;
    ret->begin.birth_ms = ONCE_BIRTH_NONE;
    if (call == ONCE_CALL_BEGIN)
        make_begin(digit, ret);
    else
        make_asked(digit, ret);
    if (call != ONCE_CALL_COMPLETE && call != ONCE_CALL_RESOLVE)
        ret->answer.code = 0;
    if (call != ONCE_CALL_COMPLETE && call != ONCE_CALL_RESOLVE && call != ONCE_CALL_FAIL)
        ret->answer.result = (struct once_bytes){NULL, 0};
}

/* ---- Visiting ------------------------------------------------------------------------------- */

/* Counts the dimensions in the mask up by one. False after the last. */
static bool next(unsigned mask, unsigned *digit)
{
    for (int i = 0; i < DIMENSION_COUNT; i++) {
        if (!(mask & BIT(i)))
            continue;
        if (++digit[i] < sizes[i])
            return true;
        digit[i] = 0;
    }
    return false;
}

/* A name without a record has no lease, print, owner, …: once is enough. */
static bool again(unsigned mask, const unsigned *digit)
{
    const unsigned of_record = OF_RECORD | BIT(PRINT) | BIT(OWNER) | BIT(STEP) | BIT(ANSWER);

    if (digit[STATE] != ONCE_STATE_ABSENT)
        return false;
    for (int i = STATE + 1; i < DIMENSION_COUNT; i++) {
        if ((mask & of_record & BIT(i)) && digit[i] != 0)
            return true;
    }
    return false;
}

void table_each(uint64_t seed, unsigned stride, bool one_time, table_visit *visit, void *user)
{
    uint64_t random = seed;

    ONCE_ASSERT(stride > 0);
    for (int call = 0; call < CALL_COUNT; call++) {
        unsigned digit[DIMENSION_COUNT] = {0};

        do {
            struct table_case one;

            if (again(looked_at[call], digit))
                continue;
            for (int i = 0; i < DIMENSION_COUNT; i++) {
                if (!(looked_at[call] & BIT(i)))
                    digit[i] = (unsigned)(table_shuffle(&random) % sizes[i]);
            }
            if (one_time)
                digit[TIME] = digit[FENCE] = 0;
            make((enum once_call_kind)call, digit, &one);
            if (table_shuffle(&random) % stride == 0)
                visit(user, &one);
        } while (next(looked_at[call], digit));
    }
}

void table_random(uint64_t seed, size_t count, table_visit *visit, void *user)
{
    uint64_t random = seed;

    for (size_t n = 0; n < count; n++) {
        enum once_call_kind call = (enum once_call_kind)(table_shuffle(&random) % CALL_COUNT);
        unsigned digit[DIMENSION_COUNT];
        struct table_case one;

        for (int i = 0; i < DIMENSION_COUNT; i++)
            digit[i] = (unsigned)(table_shuffle(&random) % sizes[i]);
        make(call, digit, &one);
        visit(user, &one);
    }
}

/* ---- What the core says --------------------------------------------------------------------- */

struct once_decision table_decide(const struct table_case *one)
{
    const struct once_record *record = &one->record;
    struct once_resolution resolution = {
        .done = one->done, .fence = one->fence, .answer = one->answer};
    struct once_renewal renewal = {.fence = one->fence, .lease_ms = one->lease_ms};

    switch (one->call) {
    case ONCE_CALL_BEGIN:
        return once__decide_begin(record, &one->begin, one->at);
    case ONCE_CALL_COMPLETE:
        return once__decide_complete(record, one->fence, &one->answer, one->at.now_ms);
    case ONCE_CALL_FAIL:
        return once__decide_fail(record, one->fence, one->answer.result, one->at.now_ms);
    case ONCE_CALL_CHECKPOINT:
        return once__decide_checkpoint(record, one->fence, &one->step, one->at.now_ms);
    case ONCE_CALL_RENEW:
        return once__decide_renew(record, renewal, one->at.now_ms);
    case ONCE_CALL_RESOLVE:
        return once__decide_resolve(record, &resolution, one->at);
    case ONCE_CALL_FORGET:
    case ONCE_CALL_GET:
    case ONCE_CALL_APPLY:
    case ONCE_CALL_MERGE:
    case ONCE_CALL_SET:
    case ONCE_CALL_EXPIRE:
        break;
    }
    ONCE_ASSERT(one->call == ONCE_CALL_FORGET);
    return once__decide_forget(record, one->fence, one->at.now_ms);
}

void table_describe(const struct table_case *one, char *ret_text, size_t size)
{
    static const char *const calls[] = {"begin", "complete", "fail",   "checkpoint",
                                        "renew", "resolve",  "forget", "get"};
    const struct once_record *record = &one->record;
    long long now_ms = one->at.now_ms;

    snprintf(ret_text, size,
             "%s of %s (fence %llu, attempt %u, lease %+lld, expires %+lld, kept %lld, print %02x,"
             " owner '%.*s', point '%.*s', code %d, %zu bytes) with print %02x, owner '%.*s',"
             " birth %lld, ttl %lld, lease %lld, retry %d, fence %llu, done %d, code %d, %zu bytes,"
             " point '%.*s', after %s'%.*s' at %lld, next fence %llu",
             calls[one->call], once_state_name(record->state), (unsigned long long)record->fence,
             (unsigned)record->attempt, record->lease_end_ms - now_ms, record->expires_ms - now_ms,
             (long long)record->retention_ms, record->fingerprint.bytes[0], (int)record->owner.size,
             (const char *)record->owner.data, (int)record->point.size,
             (const char *)record->point.data, record->code, record->result.size,
             one->begin.fingerprint.bytes[0], (int)one->begin.owner.size,
             (const char *)one->begin.owner.data, (long long)one->begin.birth_ms,
             (long long)one->begin.retention_ms,
             (long long)(one->call == ONCE_CALL_BEGIN ? one->begin.lease_ms : one->lease_ms),
             one->begin.on_doubt == ONCE_ON_DOUBT_RETRY, (unsigned long long)one->fence, one->done,
             one->answer.code, one->answer.result.size, (int)one->step.point.size,
             (const char *)one->step.point.data, one->step.follows ? "" : "not ",
             (int)one->step.after.size, (const char *)one->step.after.data, now_ms,
             (unsigned long long)one->at.next_fence);
}
