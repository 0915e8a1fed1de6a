/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of what comes from outside, made once where it enters the core: requests from hosts,
 * records from stores. Each refusal names the field, the bound and the unit. After them the
 * decisions may rely on what record.h calls record_ok and request_ok.
 */
#include "core/record.h"

#include "base/defect.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

static bool time_ok(once_ms time_ms)
{
    return time_ms >= 0 && time_ms <= ONCE_TIME_MS_MAX;
}

static bool bytes_ok(struct once_bytes bytes, size_t size_max)
{
    return bytes.size <= size_max && (bytes.size == 0 || bytes.data);
}

int once__request_check(const struct once_request *req, once_ms now_ms,
                        struct once_defect *ret_defect)
{
    if (now_ms < 0 || now_ms > ONCE_NOW_MS_MAX)
        return once__defect(ONCE_ERR_CLOCK, 0, once_err_text(ONCE_ERR_CLOCK), ret_defect);
    if (!bytes_ok(req->owner, ONCE_OWNER_SIZE_MAX))
        return once__defect(ONCE_ERR_INVALID, 0,
                            "the owner is longer than " TEXT(ONCE_OWNER_SIZE_MAX) " bytes",
                            ret_defect);
    if (req->retention_ms < 1 || req->retention_ms > ONCE_RETENTION_MS_MAX)
        return once__defect(ONCE_ERR_INVALID, 0,
                            "the retention (TTL) is not between 1 ms and 10 years", ret_defect);
    if (req->lease_ms < 1 || req->lease_ms > ONCE_LEASE_MS_MAX)
        return once__defect(ONCE_ERR_INVALID, 0, "the lease is not between 1 ms and 7 days",
                            ret_defect);
    if (req->on_doubt != ONCE_ON_DOUBT_REJECT && req->on_doubt != ONCE_ON_DOUBT_RETRY)
        return once__defect(ONCE_ERR_INVALID, 0, "the doubt policy is not REJECT or RETRY",
                            ret_defect);
    if (req->birth_ms < ONCE_BIRTH_NONE)
        return once__defect(ONCE_ERR_INVALID, 0, "the key's birth time is before 1970", ret_defect);
    if (req->birth_ms > now_ms + ONCE_KEY_SKEW_MS_MAX)
        return once__defect(
            ONCE_ERR_KEY_FUTURE, 0,
            "the key (UUIDv7) says that it was born more than 24 h in the future: check "
            "the clock of the machine that made it",
            ret_defect);
    return ONCE_OK;
}

int once__moment_check(struct once_moment at, struct once_defect *ret_defect)
{
    if (at.now_ms < 0 || at.now_ms > ONCE_NOW_MS_MAX)
        return once__defect(ONCE_ERR_CLOCK, 0, once_err_text(ONCE_ERR_CLOCK), ret_defect);
    if (at.next_fence < 1 || at.next_fence > ONCE_FENCE_MAX)
        return once__defect(ONCE_ERR_FULL, 0, "the store has given out its last fence", ret_defect);
    return ONCE_OK;
}

int once__reason_check(struct once_bytes reason, struct once_defect *ret_defect)
{
    if (!bytes_ok(reason, ONCE_REASON_SIZE_MAX))
        return once__defect(ONCE_ERR_FULL, 0, "the reason is larger than 4 KiB", ret_defect);
    return ONCE_OK;
}

int once__answer_check(const struct once_answer *answer, struct once_defect *ret_defect)
{
    if (!bytes_ok(answer->result, ONCE_RESULT_SIZE_MAX))
        return once__defect(ONCE_ERR_FULL, 0, "the result is larger than 16 MiB", ret_defect);
    return ONCE_OK;
}

int once__step_check(const struct once_step *step, struct once_defect *ret_defect)
{
    if (step->point.size == 0)
        return once__defect(ONCE_ERR_INVALID, 0, "the recovery point has no name", ret_defect);
    if (!bytes_ok(step->point, ONCE_POINT_SIZE_MAX))
        return once__defect(
            ONCE_ERR_INVALID, 0,
            "the recovery point's name is longer than " TEXT(ONCE_POINT_SIZE_MAX) " bytes",
            ret_defect);
    if (!bytes_ok(step->after, ONCE_POINT_SIZE_MAX))
        return once__defect(
            ONCE_ERR_INVALID, 0,
            "the name of the point before is longer than " TEXT(ONCE_POINT_SIZE_MAX) " bytes",
            ret_defect);
    if (!bytes_ok(step->data, ONCE_DATA_SIZE_MAX))
        return once__defect(ONCE_ERR_FULL, 0, "the recovery point's data is larger than 1 MiB",
                            ret_defect);
    return ONCE_OK;
}

int once__lease_check(once_ms lease_ms, struct once_defect *ret_defect)
{
    if (lease_ms < 0 || lease_ms > ONCE_LEASE_MS_MAX)
        return once__defect(ONCE_ERR_INVALID, 0, "the lease is not between 0 ms and 7 days",
                            ret_defect);
    return ONCE_OK;
}

static bool record_sizes_ok(const struct once_record *rec)
{
    return bytes_ok(rec->owner, ONCE_OWNER_SIZE_MAX) && bytes_ok(rec->point, ONCE_POINT_SIZE_MAX) &&
           bytes_ok(rec->data, ONCE_DATA_SIZE_MAX) && bytes_ok(rec->result, ONCE_RESULT_SIZE_MAX);
}

/* ABSENT is all zero: nothing of what was is left behind. */
static bool is_blank(const struct once_record *rec)
{
    uint8_t bits = 0;

    for (int i = 0; i < ONCE_FINGERPRINT_SIZE; i++)
        bits |= rec->fingerprint.bytes[i];
    return bits == 0 && rec->fence == 0 && rec->attempt == 0 && rec->created_ms == 0 &&
           rec->lease_end_ms == 0 && rec->retention_ms == 0 && rec->expires_ms == 0 &&
           rec->code == 0 && rec->owner.size == 0 && rec->point.size == 0 && rec->data.size == 0 &&
           rec->result.size == 0;
}

int once__record_check(const struct once_record *rec, struct once_defect *ret_defect)
{
    bool absent = rec->state == ONCE_STATE_ABSENT;

    /* The cast: a compiler may assume that an enum holds one of its names; a disk need not. */
    if ((unsigned)rec->state > (unsigned)ONCE_STATE_DOUBT)
        return once__defect(ONCE_ERR_DAMAGED, 0, "the record's state is unknown", ret_defect);
    if (!time_ok(rec->created_ms) || !time_ok(rec->lease_end_ms) || !time_ok(rec->expires_ms))
        return once__defect(ONCE_ERR_DAMAGED, 0, "a time of the record is out of range",
                            ret_defect);
    if (rec->fence > ONCE_FENCE_MAX || (rec->fence == 0) != absent)
        return once__defect(ONCE_ERR_DAMAGED, 0, "the record's fence is out of range", ret_defect);
    if (rec->attempt > ONCE_ATTEMPT_MAX || (!absent && rec->attempt == 0))
        return once__defect(ONCE_ERR_DAMAGED, 0, "the record's attempt is out of range",
                            ret_defect);
    if (rec->retention_ms < 0 || rec->retention_ms > ONCE_RETENTION_MS_MAX ||
        (!absent && rec->retention_ms == 0))
        return once__defect(ONCE_ERR_DAMAGED, 0, "the record's retention is out of range",
                            ret_defect);
    if (absent && !is_blank(rec))
        return once__defect(ONCE_ERR_DAMAGED, 0, "an absent record is not empty", ret_defect);
    /* Kept from its creation on, or an answer would expire before it was given. */
    if (!absent && rec->expires_ms <= rec->created_ms)
        return once__defect(ONCE_ERR_DAMAGED, 0, "the record expires before it was made",
                            ret_defect);
    if (!record_sizes_ok(rec))
        return once__defect(ONCE_ERR_DAMAGED, 0, "a field of the record is too long", ret_defect);
    return ONCE_OK;
}
