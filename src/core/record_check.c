/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of what comes from outside, made once where it enters the core: requests from hosts, records
 * from stores. Each refusal names the field, the bound and the unit. After them the decisions may rely
 * on what record.h calls record_ok and request_ok.
 */
#include "core/record.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

static int refuse(struct once_defect *ret_defect, int err, const char *what)
{
    if (ret_defect)
        *ret_defect = (struct once_defect){.offset = 0, .what = what};
    return err;
}

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
        return refuse(ret_defect, ONCE_ERR_CLOCK, once_err_text(ONCE_ERR_CLOCK));
    if (!bytes_ok(req->owner, ONCE_OWNER_SIZE_MAX))
        return refuse(ret_defect, ONCE_ERR_INVALID,
                      "the owner is longer than " TEXT(ONCE_OWNER_SIZE_MAX) " bytes");
    if (req->retention_ms < 1 || req->retention_ms > ONCE_RETENTION_MS_MAX)
        return refuse(ret_defect, ONCE_ERR_INVALID,
                      "the retention (TTL) is not between 1 ms and 10 years");
    if (req->lease_ms < 1 || req->lease_ms > ONCE_LEASE_MS_MAX)
        return refuse(ret_defect, ONCE_ERR_INVALID, "the lease is not between 1 ms and 7 days");
    if (req->on_doubt != ONCE_ON_DOUBT_REJECT && req->on_doubt != ONCE_ON_DOUBT_RETRY)
        return refuse(ret_defect, ONCE_ERR_INVALID, "the doubt policy is not REJECT or RETRY");
    if (req->birth_ms < ONCE_BIRTH_NONE)
        return refuse(ret_defect, ONCE_ERR_INVALID, "the key's birth time is before 1970");
    if (req->birth_ms > now_ms + ONCE_KEY_SKEW_MS_MAX)
        return refuse(ret_defect, ONCE_ERR_KEY_FUTURE,
                      "the key (UUIDv7) says that it was born more than 24 h in the future: check "
                      "the clock of the machine that made it");
    return ONCE_OK;
}

int once__answer_check(const struct once_answer *answer, struct once_defect *ret_defect)
{
    if (!bytes_ok(answer->result, ONCE_RESULT_SIZE_MAX))
        return refuse(ret_defect, ONCE_ERR_FULL, "the result is larger than 16 MiB");
    return ONCE_OK;
}

int once__step_check(const struct once_step *step, struct once_defect *ret_defect)
{
    if (step->point.size == 0)
        return refuse(ret_defect, ONCE_ERR_INVALID, "the recovery point has no name");
    if (!bytes_ok(step->point, ONCE_POINT_SIZE_MAX))
        return refuse(
            ret_defect, ONCE_ERR_INVALID,
            "the recovery point's name is longer than " TEXT(ONCE_POINT_SIZE_MAX) " bytes");
    if (!bytes_ok(step->data, ONCE_DATA_SIZE_MAX))
        return refuse(ret_defect, ONCE_ERR_FULL, "the recovery point's data is larger than 1 MiB");
    return ONCE_OK;
}

int once__lease_check(once_ms lease_ms, struct once_defect *ret_defect)
{
    if (lease_ms < 0 || lease_ms > ONCE_LEASE_MS_MAX)
        return refuse(ret_defect, ONCE_ERR_INVALID, "the lease is not between 0 ms and 7 days");
    return ONCE_OK;
}

static bool record_sizes_ok(const struct once_record *rec)
{
    return bytes_ok(rec->owner, ONCE_OWNER_SIZE_MAX) && bytes_ok(rec->point, ONCE_POINT_SIZE_MAX) &&
           bytes_ok(rec->data, ONCE_DATA_SIZE_MAX) && bytes_ok(rec->result, ONCE_RESULT_SIZE_MAX);
}

int once__record_check(const struct once_record *rec, struct once_defect *ret_defect)
{
    bool absent = rec->state == ONCE_STATE_ABSENT;

    /* The cast: a compiler may assume that an enum holds one of its names; a disk need not. */
    if ((unsigned)rec->state > (unsigned)ONCE_STATE_DOUBT)
        return refuse(ret_defect, ONCE_ERR_DAMAGED, "the record's state is unknown");
    if (!time_ok(rec->created_ms) || !time_ok(rec->lease_end_ms) || !time_ok(rec->expires_ms))
        return refuse(ret_defect, ONCE_ERR_DAMAGED, "a time of the record is out of range");
    if (rec->fence > ONCE_FENCE_MAX || (rec->fence == 0) != absent)
        return refuse(ret_defect, ONCE_ERR_DAMAGED, "the record's fence is out of range");
    if (rec->attempt > ONCE_ATTEMPT_MAX || (!absent && rec->attempt == 0))
        return refuse(ret_defect, ONCE_ERR_DAMAGED, "the record's attempt is out of range");
    if (rec->retention_ms < 0 || rec->retention_ms > ONCE_RETENTION_MS_MAX ||
        (!absent && rec->retention_ms == 0))
        return refuse(ret_defect, ONCE_ERR_DAMAGED, "the record's retention is out of range");
    if (!record_sizes_ok(rec))
        return refuse(ret_defect, ONCE_ERR_DAMAGED, "a field of the record is too long");
    return ONCE_OK;
}
