/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of an operation and the requests that meet it.
 *
 * A record is named by (namespace, key). The name belongs to the store; nothing is decided by it,
 * so it is not here. Bytes in records and requests are borrowed: whoever holds the record owns
 * them.
 */
#ifndef ONCE_CORE_RECORD_H
#define ONCE_CORE_RECORD_H

#include <stdbool.h>

#include <once/fingerprint.h>
#include <once/key.h>
#include <once/limits.h>
#include <once/verdict.h>

#include "base/bytes.h"

/* ABSENT is all zero. Any other state has a fence, an attempt, a retention and a fingerprint. */
struct once_record {
    enum once_state state;
    uint32_t attempt;     /* 1 for the first EXECUTE, one more for each that followed */
    uint64_t fence;       /* of the newest attempt, or of the resolution that ended it */
    once_ms created_ms;   /* first EXECUTE */
    once_ms lease_end_ms; /* from here on a started operation is in doubt */
    once_ms retention_ms; /* how long the answer is kept, counted from the end of the operation */
    once_ms expires_ms;   /* while running: the earliest possible expiry; once ended: the expiry */
    int32_t code;         /* COMPLETED: the result's code */
    struct once_fingerprint fingerprint;
    struct once_bytes owner;  /* of the newest attempt; empty is anonymous */
    struct once_bytes point;  /* last finished step (D3); empty before the first */
    struct once_bytes data;   /* what that step left for the next */
    struct once_bytes result; /* COMPLETED: the answer; FAILED: the reason */
};

/* A begin. */
struct once_request {
    struct once_fingerprint fingerprint;
    struct once_bytes
        owner;        /* names one attempt of one caller, not a machine; empty is anonymous */
    once_ms birth_ms; /* of a key that carries it, else ONCE_BIRTH_NONE: once_key_birth_ms */
    once_ms retention_ms;
    once_ms lease_ms;
    enum once_on_doubt on_doubt;
};

/* How an operation ended. */
struct once_answer {
    int32_t code;
    struct once_bytes result;
};

/* A recovery point. One that names the point it follows cannot move the operation back: a late
 * copy of an older one is refused. Without that the last to arrive counts. */
struct once_step {
    struct once_bytes point;
    struct once_bytes data;
    bool follows;            /* after is given */
    struct once_bytes after; /* the point that this one follows; empty is the beginning */
};

/* A longer lease, or with 0 none at all: the owner does not know how its attempt went. */
struct once_renewal {
    uint64_t fence;
    once_ms lease_ms;
};

/* What a person or a reconciler found out about a doubt. */
struct once_resolution {
    bool done;                 /* it happened, with this answer; else it did not */
    uint64_t fence;            /* the doubt that was looked at; 0 is whichever it is now */
    struct once_answer answer; /* when done */
};

/* When a decision is made: store time (INV-6), and a fence larger than any the store gave
 * before. */
struct once_moment {
    once_ms now_ms;
    uint64_t next_fence;
};

/*@ predicate time_ok(integer t) = 0 <= t <= ONCE_TIME_MS_MAX;
  @ predicate now_ok(integer t) = 0 <= t <= ONCE_NOW_MS_MAX;
  @ predicate moment_ok(struct once_moment at, struct once_record *rec) =
  @   now_ok(at.now_ms) && rec->fence < at.next_fence <= ONCE_FENCE_MAX;
  @
  @ predicate same_fingerprint{L}(struct once_fingerprint *a, struct once_fingerprint *b) =
  @   \forall integer i; 0 <= i < ONCE_FINGERPRINT_SIZE ==> a->bytes[i] == b->bytes[i];
  @
  @ predicate state_known(integer s) = ONCE_STATE_ABSENT <= s <= ONCE_STATE_DOUBT;
  @
  @ predicate record_values(struct once_record r) =
  @   state_known(r.state)
  @   && time_ok(r.created_ms) && time_ok(r.lease_end_ms) && time_ok(r.expires_ms)
  @   && r.attempt <= ONCE_ATTEMPT_MAX && r.fence <= ONCE_FENCE_MAX
  @   && 0 <= r.retention_ms <= ONCE_RETENTION_MS_MAX
  @   && (r.state == ONCE_STATE_ABSENT ==> r.fence == 0)
  @   && (r.state != ONCE_STATE_ABSENT ==>
  @         r.fence >= 1 && r.attempt >= 1 && r.retention_ms >= 1);
  @ predicate record_sizes(struct once_record r) =
  @   r.owner.size <= ONCE_OWNER_SIZE_MAX && r.point.size <= ONCE_POINT_SIZE_MAX
  @   && r.data.size <= ONCE_DATA_SIZE_MAX && r.result.size <= ONCE_RESULT_SIZE_MAX;
  @ predicate record_ok(struct once_record *r) =
  @   \valid_read(r) && record_values(*r) && record_sizes(*r)
  @   && bytes_readable(r->owner) && bytes_readable(r->point)
  @   && bytes_readable(r->data) && bytes_readable(r->result);
  @
  @ predicate request_ok(struct once_request *q, integer now_ms) =
  @   \valid_read(q)
  @   && q->owner.size <= ONCE_OWNER_SIZE_MAX && bytes_readable(q->owner)
  @   && ONCE_BIRTH_NONE <= q->birth_ms <= now_ms + ONCE_KEY_SKEW_MS_MAX
  @   && 1 <= q->retention_ms <= ONCE_RETENTION_MS_MAX
  @   && 1 <= q->lease_ms <= ONCE_LEASE_MS_MAX
  @   && (q->on_doubt == ONCE_ON_DOUBT_REJECT || q->on_doubt == ONCE_ON_DOUBT_RETRY);
  @ predicate step_ok(struct once_step *s) =
  @   \valid_read(s) && s->point.size <= ONCE_POINT_SIZE_MAX
  @   && s->data.size <= ONCE_DATA_SIZE_MAX && s->after.size <= ONCE_POINT_SIZE_MAX
  @   && bytes_readable(s->point) && bytes_readable(s->data) && bytes_readable(s->after);
  @ predicate answer_ok(struct once_answer *a) =
  @   \valid_read(a) && a->result.size <= ONCE_RESULT_SIZE_MAX && bytes_readable(a->result);
  @*/

/*@ requires \valid_read(a) && \valid_read(b);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result <==> same_fingerprint(a, b);
  @*/
bool once__fingerprint_equal(const struct once_fingerprint *a, const struct once_fingerprint *b);

/* What time makes of a stored state: a started operation whose lease is over is in doubt, an
 * ended one past its expiry is absent. Nothing else changes by time alone (INV-4). */
/*@ logic integer state_at(struct once_record *r, integer now_ms) =
  @   r->state == ONCE_STATE_STARTED && now_ms >= r->lease_end_ms ? (integer)ONCE_STATE_DOUBT
  @   : (r->state == ONCE_STATE_COMPLETED || r->state == ONCE_STATE_FAILED)
  @       && now_ms >= r->expires_ms ? (integer)ONCE_STATE_ABSENT
  @   : (integer)r->state;
  @*/
/*@ requires \valid_read(rec) && state_known(rec->state);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result == state_at(rec, now_ms);
  @ ensures inv4_started_is_never_absent:
  @   rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT
  @   ==> \result == ONCE_STATE_STARTED || \result == ONCE_STATE_DOUBT;
  @*/
enum once_state once__state_at(const struct once_record *rec, once_ms now_ms);

/* Checks of what comes from outside, made once where it enters. They say what is wrong in the
 * defect (offset is always 0). Decisions are made on checked values only. */
ONCE_MUST_CHECK int once__request_check(const struct once_request *req, once_ms now_ms,
                                        struct once_defect *ret_defect);
ONCE_MUST_CHECK int once__answer_check(const struct once_answer *answer,
                                       struct once_defect *ret_defect);
ONCE_MUST_CHECK int once__step_check(const struct once_step *step, struct once_defect *ret_defect);
/* Of the store's own time and fence: ONCE_ERR_CLOCK, ONCE_ERR_FULL. */
ONCE_MUST_CHECK int once__moment_check(struct once_moment at, struct once_defect *ret_defect);
/* Why something failed. */
ONCE_MUST_CHECK int once__reason_check(struct once_bytes reason, struct once_defect *ret_defect);
/* Of a renewal: 0 gives the lease up. */
ONCE_MUST_CHECK int once__lease_check(once_ms lease_ms, struct once_defect *ret_defect);
ONCE_MUST_CHECK int once__record_check(const struct once_record *rec,
                                       struct once_defect *ret_defect);

#endif
