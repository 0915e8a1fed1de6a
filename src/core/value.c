/* SPDX-License-Identifier: Apache-2.0
 *
 * Deciding on values. A set is a begin and a complete in one, decided by the same functions as
 * these, on a record that is absent or has ended.
 */
#include "core/value.h"

#include "base/assert.h"
#include "base/defect.h"

int once__value_check(const struct once_value *value, struct once_defect *ret_defect)
{
    if ((unsigned)value->when > ONCE_WHEN_PRESENT)
        return once__defect(ONCE_ERR_INVALID, 0, "there is no such condition", ret_defect);
    if (value->ttl_ms < 0 || value->ttl_ms > ONCE_RETENTION_MS_MAX)
        return once__defect(ONCE_ERR_INVALID, 0, "a value is kept for 1 ms to 10 years",
                            ret_defect);
    if (value->until_ms < 0)
        return once__defect(ONCE_ERR_INVALID, 0, "a value is kept until a time after 1970",
                            ret_defect);
    if (value->bytes.size > ONCE_RESULT_SIZE_MAX)
        return once__defect(ONCE_ERR_FULL, 0, "a value has at most 16 MiB", ret_defect);
    return ONCE_OK;
}

_Static_assert(ONCE_RETENTION_MS_MAX == 315576000000LL && ONCE_RESULT_SIZE_MAX == 1 << 24,
               "the texts above say so");

int once__value_ttl(const struct once_value *value, once_ms now_ms, once_ms *ret_ttl_ms,
                    struct once_defect *ret_defect)
{
    if (value->ttl_ms > 0) {
        *ret_ttl_ms = value->ttl_ms;
    } else if (value->until_ms == 0) {
        *ret_ttl_ms = ONCE_RETENTION_MS_MAX;
    } else if (value->until_ms <= now_ms) {
        return once__defect(ONCE_ERR_INVALID, 0, "the time until which it is kept has passed",
                            ret_defect);
    } else {
        once_ms left_ms = value->until_ms - now_ms;

        *ret_ttl_ms = left_ms < ONCE_RETENTION_MS_MAX ? left_ms : ONCE_RETENTION_MS_MAX;
    }
    return ONCE_OK;
}

static struct once_decision unchanged(enum once_word word, const struct once_record *rec)
{
    return (struct once_decision){.word = word, .next = *rec};
}

/* Someone is at it, or nobody knows: it stays as it is. */
static bool under_way(const struct once_record *rec, once_ms now_ms,
                      struct once_decision *ret_decision)
{
    enum once_state state = once__state_at(rec, now_ms);

    if (state == ONCE_STATE_STARTED) {
        *ret_decision = unchanged(ONCE_BUSY, rec);
        ret_decision->retry_ms = ONCE_RETRY_MS_MAX;
        return true;
    }
    if (state == ONCE_STATE_DOUBT) {
        *ret_decision = unchanged(ONCE_DOUBT, rec);
        return true;
    }
    return false;
}

struct once_decision once__decide_set(const struct once_record *rec, const struct once_value *value,
                                      once_ms ttl_ms, struct once_moment at)
{
    static const struct once_record absent = {.state = ONCE_STATE_ABSENT};
    bool present = once__state_at(rec, at.now_ms) == ONCE_STATE_COMPLETED;
    struct once_request request = {
        .birth_ms = ONCE_BIRTH_NONE, .retention_ms = ttl_ms, .lease_ms = ONCE_LEASE_MS_DEFAULT};
    struct once_answer answer = {.result = value->bytes};
    struct once_decision decision;
    struct once_record started;

    if (under_way(rec, at.now_ms, &decision))
        return decision;
    if ((value->when == ONCE_WHEN_ABSENT && present) ||
        (value->when == ONCE_WHEN_PRESENT && !present))
        return unchanged(ONCE_NOTFOUND, rec);
    if (value->keep_ttl && present)
        request.retention_ms = rec->expires_ms - at.now_ms;
    decision = once__decide_begin(&absent, &request, at);
    ONCE_ASSERT(decision.word == ONCE_EXECUTE);
    started = decision.next;
    decision = once__decide_complete(&started, started.fence, &answer, at.now_ms);
    ONCE_ASSERT(decision.word == ONCE_DONE && decision.changed);
    if (value->keep_ttl && present)
        decision.next.retention_ms = rec->retention_ms; /* what it is told as stays */
    return decision;
}

struct once_decision once__decide_expire(const struct once_record *rec, once_ms ttl_ms,
                                         once_ms now_ms)
{
    struct once_decision decision;

    if (under_way(rec, now_ms, &decision))
        return decision;
    if (once__state_at(rec, now_ms) != ONCE_STATE_COMPLETED)
        return unchanged(ONCE_NOTFOUND, rec);
    decision = unchanged(ONCE_DONE, rec);
    decision.changed = true;
    decision.next.retention_ms = ttl_ms;
    decision.next.expires_ms = now_ms + ttl_ms;
    return decision;
}
