/* SPDX-License-Identifier: Apache-2.0
 *
 * The decision: a record meets a request, and a pure function says what the caller is told and what the
 * record becomes. No I/O, no clock, no allocation, no globals.
 *
 *                 begin                    complete
 *      ABSENT ───────────▶ STARTED ───────────────────▶ COMPLETED
 *        ▲                 ▲  │ ▲ │ lease over             ▲  │
 *        │     begin       │  │ │ ▼ (begin sees it,        │  │ expires, forget
 *        │   (next fence)  │  │ │   or renew 0)            │  ▼
 *        │                 │  │ DOUBT ──complete, resolve──┘ ABSENT
 *        │                 │  │ │  ▲ └─renew, begin RETRY──▶ STARTED
 *        │                 │  │ fail, resolve NOTDONE
 *        └──expires── FAILED ◀┴─┘
 *
 * A decision with changed set must be durable before its word is told to anyone (INV-2); a decision
 * without changed must wait for whatever made the record durable. The contracts below are proved by
 * Frama-C on the shipping decide.c: `make proof`.
 */
#ifndef ONCE_CORE_DECIDE_H
#define ONCE_CORE_DECIDE_H

#include "core/record.h"

struct once_decision {
    enum once_word word;
    bool changed;            /* next must be made durable before word is told */
    once_ms retry_ms;        /* BUSY: when to come back */
    struct once_record next; /* what the record is from now on; the record itself if not changed */
};

/*@ predicate unchanged(struct once_decision d, struct once_record r) = !d.changed && d.next == r;
  @
  @ predicate lease_lives(struct once_record *r, integer now_ms) =
  @   r->state == ONCE_STATE_STARTED && now_ms < r->lease_end_ms;
  @ predicate own_lease(struct once_record *r, struct once_request *q) =
  @   q->owner.size > 0 && bytes_same(r->owner, q->owner);
  @
  @ // What holds for every decision, whoever asks.
  @ predicate decision_ok(struct once_decision d, struct once_record *r) =
  @   record_values(d.next) && record_sizes(d.next) && (!d.changed ==> d.next == *r);
  @ predicate fence_grows(struct once_decision d, struct once_record *r) =
  @   d.next.state != ONCE_STATE_ABSENT ==> d.next.fence >= r->fence;
  @*/

/*@ requires record: record_ok(rec);
  @ requires moment: moment_ok(at, rec);
  @ requires request: request_ok(req, at.now_ms);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures valid: decision_ok(\result, rec);
  @ ensures word: ONCE_EXECUTE <= \result.word <= ONCE_TOO_OLD;
  @ ensures inv1_no_execute_under_a_live_lease:
  @   lease_lives(rec, at.now_ms) && !own_lease(rec, req) ==> \result.word != ONCE_EXECUTE;
  @ ensures inv1_own_begin_again_is_the_same_execute:
  @   lease_lives(rec, at.now_ms) && \result.word == ONCE_EXECUTE ==> unchanged(\result, *rec);
  @ ensures inv1_new_attempt_new_fence:
  @   \result.word == ONCE_EXECUTE && \result.changed ==>
  @     \result.next.fence == at.next_fence && \result.next.fence > rec->fence
  @     && \result.next.state == ONCE_STATE_STARTED
  @     && \result.next.lease_end_ms == at.now_ms + req->lease_ms;
  @ ensures fences_grow: fence_grows(\result, rec);
  @ ensures inv4_never_absent: \result.changed ==> \result.next.state != ONCE_STATE_ABSENT;
  @ ensures inv4_doubt_needs_permission:
  @   state_at(rec, at.now_ms) == ONCE_STATE_DOUBT && req->on_doubt == ONCE_ON_DOUBT_REJECT
  @   ==> \result.word == ONCE_DOUBT || \result.word == ONCE_MISMATCH;
  @ ensures inv4_doubt_is_told:
  @   \result.word == ONCE_DOUBT ==>
  @     \result.next.state == ONCE_STATE_DOUBT && \result.next.fence == rec->fence;
  @ ensures inv5_replay_is_of_the_same_request:
  @   \result.word == ONCE_REPLAY ==>
  @     state_at(rec, at.now_ms) == ONCE_STATE_COMPLETED && unchanged(\result, *rec)
  @     && same_fingerprint(&rec->fingerprint, &req->fingerprint);
  @ ensures inv5_mismatch_before_everything:
  @   \result.word == ONCE_MISMATCH <==>
  @     (state_at(rec, at.now_ms) != ONCE_STATE_ABSENT
  @      && !same_fingerprint(&rec->fingerprint, &req->fingerprint));
  @ ensures completed_is_replayed:
  @   state_at(rec, at.now_ms) == ONCE_STATE_COMPLETED
  @   && same_fingerprint(&rec->fingerprint, &req->fingerprint) ==> \result.word == ONCE_REPLAY;
  @ ensures busy_is_a_live_lease:
  @   \result.word == ONCE_BUSY ==>
  @     lease_lives(rec, at.now_ms) && unchanged(\result, *rec)
  @     && 1 <= \result.retry_ms <= ONCE_RETRY_MS_MAX;
  @ ensures k5_too_old:
  @   state_at(rec, at.now_ms) == ONCE_STATE_ABSENT && req->birth_ms != ONCE_BIRTH_NONE
  @   && at.now_ms - req->birth_ms >= req->retention_ms ==> \result.word == ONCE_TOO_OLD;
  @ ensures too_old_is_absent:
  @   \result.word == ONCE_TOO_OLD ==>
  @     state_at(rec, at.now_ms) == ONCE_STATE_ABSENT && unchanged(\result, *rec);
  @ ensures k5_retained_until_too_old:
  @   \result.word == ONCE_EXECUTE && \result.changed && req->birth_ms != ONCE_BIRTH_NONE ==>
  @     \result.next.expires_ms >= req->birth_ms + req->retention_ms;
  @ ensures retention_never_shrinks:
  @   \result.word == ONCE_EXECUTE && state_at(rec, at.now_ms) != ONCE_STATE_ABSENT ==>
  @     \result.next.retention_ms >= rec->retention_ms && \result.next.expires_ms >= rec->expires_ms;
  @ ensures d3_resumes:
  @   \result.word == ONCE_EXECUTE && state_at(rec, at.now_ms) != ONCE_STATE_ABSENT ==>
  @     \result.next.point == rec->point && \result.next.data == rec->data;
  @ ensures bytes_are_borrowed:
  @   \result.word == ONCE_EXECUTE && \result.changed ==>
  @     \result.next.owner == req->owner && \result.next.result.size == 0
  @     && (state_at(rec, at.now_ms) == ONCE_STATE_ABSENT ==>
  @           \result.next.point.size == 0 && \result.next.data.size == 0);
  @ ensures binds: \result.word == ONCE_EXECUTE ==>
  @     (\forall integer i; 0 <= i < ONCE_FINGERPRINT_SIZE ==>
  @        \result.next.fingerprint.bytes[i] == req->fingerprint.bytes[i]);
  @*/
struct once_decision once__decide_begin(const struct once_record *rec,
                                        const struct once_request *req, struct once_moment at);

/* The calls of an owner. Each is refused unless fence is the record's own (D2), and each sent again after
 * a lost reply gets the same OK (D5). An owner whose lease is over may still end its operation as long as
 * nobody took over: it is the one who knows. */

/*@ requires record: record_ok(rec);
  @ requires now: now_ok(now_ms);
  @ requires answer: answer_ok(answer);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures valid: decision_ok(\result, rec);
  @ ensures inv1_stale_is_refused:
  @   fence != rec->fence ==> unchanged(\result, *rec)
  @     && (\result.word == ONCE_STALE || \result.word == ONCE_NOTFOUND);
  @ ensures fences_stay: \result.next.fence == rec->fence;
  @ ensures ends:
  @   \result.changed ==> \result.word == ONCE_DONE && \result.next.state == ONCE_STATE_COMPLETED
  @     && \result.next.code == answer->code && \result.next.result == answer->result
  @     && (rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT);
  @ ensures current_owner_can_end:
  @   (rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT) && fence == rec->fence
  @   ==> \result.word == ONCE_DONE && \result.changed;
  @ ensures rest_stays: \result.next.owner == rec->owner && \result.next.point == rec->point
  @     && \result.next.data == rec->data;
  @ ensures first_answer_stays:
  @   rec->state == ONCE_STATE_COMPLETED ==> unchanged(\result, *rec);
  @ ensures d5_same_answer_again:
  @   state_at(rec, now_ms) == ONCE_STATE_COMPLETED && fence == rec->fence
  @   && rec->code == answer->code && bytes_same(rec->result, answer->result)
  @   ==> \result.word == ONCE_DONE;
  @ ensures done_means_this_answer:
  @   \result.word == ONCE_DONE ==> \result.next.state == ONCE_STATE_COMPLETED
  @     && \result.next.code == answer->code && bytes_same(\result.next.result, answer->result);
  @ ensures k4_retention_counts_from_the_end:
  @   \result.changed ==> \result.next.expires_ms >= now_ms + rec->retention_ms
  @     && \result.next.expires_ms >= rec->expires_ms;
  @ ensures binding_stays: \result.next.fingerprint == rec->fingerprint;
  @*/
struct once_decision once__decide_complete(const struct once_record *rec, uint64_t fence,
                                           const struct once_answer *answer, once_ms now_ms);

/* It is known not to have happened: free to retry, from the last recovery point. */
/*@ requires record: record_ok(rec);
  @ requires now: now_ok(now_ms);
  @ requires reason: reason.size <= ONCE_RESULT_SIZE_MAX && bytes_readable(reason);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures valid: decision_ok(\result, rec);
  @ ensures inv1_stale_is_refused:
  @   fence != rec->fence ==> unchanged(\result, *rec)
  @     && (\result.word == ONCE_STALE || \result.word == ONCE_NOTFOUND);
  @ ensures fences_stay: \result.next.fence == rec->fence;
  @ ensures ends:
  @   \result.changed ==> \result.word == ONCE_DONE && \result.next.state == ONCE_STATE_FAILED
  @     && (rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT);
  @ ensures current_owner_can_end:
  @   (rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT) && fence == rec->fence
  @   ==> \result.word == ONCE_DONE && \result.changed;
  @ ensures completed_stays: rec->state == ONCE_STATE_COMPLETED ==>
  @   unchanged(\result, *rec) && \result.word != ONCE_DONE;
  @ ensures d3_point_stays: \result.next.point == rec->point && \result.next.data == rec->data;
  @ ensures binding_stays: \result.next.fingerprint == rec->fingerprint;
  @*/
struct once_decision once__decide_fail(const struct once_record *rec, uint64_t fence,
                                       struct once_bytes reason, once_ms now_ms);

/*@ requires record: record_ok(rec);
  @ requires now: now_ok(now_ms);
  @ requires step: \valid_read(step) && step->point.size <= ONCE_POINT_SIZE_MAX
  @   && step->data.size <= ONCE_DATA_SIZE_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures valid: decision_ok(\result, rec);
  @ ensures inv1_stale_is_refused:
  @   fence != rec->fence ==> unchanged(\result, *rec)
  @     && (\result.word == ONCE_STALE || \result.word == ONCE_NOTFOUND);
  @ ensures running_only: \result.changed ==> \result.word == ONCE_DONE
  @   && (rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT)
  @   && \result.next.point == step->point && \result.next.data == step->data;
  @ ensures not_a_renewal: \result.next.state == rec->state && \result.next.fence == rec->fence
  @   && \result.next.lease_end_ms == rec->lease_end_ms;
  @ ensures binding_stays: \result.next.fingerprint == rec->fingerprint;
  @*/
struct once_decision once__decide_checkpoint(const struct once_record *rec, uint64_t fence,
                                             const struct once_step *step, once_ms now_ms);

/* lease_ms 0 gives the lease up with an unknown outcome: the operation is in doubt at once. */
/*@ requires record: record_ok(rec);
  @ requires now: now_ok(now_ms);
  @ requires lease: 0 <= lease_ms <= ONCE_LEASE_MS_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures valid: decision_ok(\result, rec);
  @ ensures inv1_stale_is_refused:
  @   fence != rec->fence ==> unchanged(\result, *rec)
  @     && (\result.word == ONCE_STALE || \result.word == ONCE_NOTFOUND);
  @ ensures running_only: \result.changed ==> \result.word == ONCE_DONE
  @   && (rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT)
  @   && \result.next.lease_end_ms == now_ms + lease_ms
  @   && \result.next.state == (lease_ms > 0 ? ONCE_STATE_STARTED : ONCE_STATE_DOUBT);
  @ ensures inv4_never_absent: \result.changed ==> \result.next.state != ONCE_STATE_ABSENT;
  @ ensures fences_stay: \result.next.fence == rec->fence;
  @ ensures binding_stays: \result.next.fingerprint == rec->fingerprint;
  @*/
struct once_decision once__decide_renew(const struct once_record *rec, uint64_t fence,
                                        once_ms lease_ms, once_ms now_ms);

/* Ends a doubt under a new fence, so that the vanished owner is stale should it come back. An operation with a
 * live lease is BUSY; one that has ended already answers OK to the same finding and MISMATCH to another. */
/*@ requires record: record_ok(rec);
  @ requires moment: moment_ok(at, rec);
  @ requires resolution: \valid_read(res) && answer_ok(&res->answer);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures valid: decision_ok(\result, rec);
  @ ensures only_doubts: \result.changed ==>
  @   state_at(rec, at.now_ms) == ONCE_STATE_DOUBT && \result.word == ONCE_DONE
  @   && \result.next.fence == at.next_fence && \result.next.fence > rec->fence
  @   && \result.next.state == (res->done ? ONCE_STATE_COMPLETED : ONCE_STATE_FAILED);
  @ ensures live_owner_is_not_disturbed:
  @   lease_lives(rec, at.now_ms) ==> unchanged(\result, *rec) && \result.word != ONCE_DONE;
  @ ensures another_doubt_is_refused:
  @   state_at(rec, at.now_ms) == ONCE_STATE_DOUBT && res->fence != 0 && res->fence != rec->fence
  @   ==> unchanged(\result, *rec) && \result.word == ONCE_STALE;
  @ ensures done_is_true:
  @   \result.word == ONCE_DONE && res->done ==> \result.next.state == ONCE_STATE_COMPLETED
  @     && \result.next.code == res->answer.code
  @     && bytes_same(\result.next.result, res->answer.result);
  @ ensures not_done_is_true:
  @   \result.word == ONCE_DONE && !res->done ==> \result.next.state == ONCE_STATE_FAILED;
  @ ensures fences_grow: fence_grows(\result, rec);
  @ ensures binding_stays: \result.next.fingerprint == rec->fingerprint;
  @*/
struct once_decision once__decide_resolve(const struct once_record *rec,
                                          const struct once_resolution *res, struct once_moment at);

/* Deletes the record. With a fence only if it is the current one; without (0), only an operation that has
 * ended: a running one is BUSY, a doubt is DOUBT. Naming the current fence of a running operation declares,
 * as fail does, that it did not happen. */
/*@ requires record: record_ok(rec);
  @ requires now: now_ok(now_ms);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures valid: decision_ok(\result, rec);
  @ ensures inv1_stale_is_refused:
  @   fence != 0 && fence != rec->fence ==> unchanged(\result, *rec)
  @     && (\result.word == ONCE_STALE || \result.word == ONCE_NOTFOUND);
  @ ensures inv4_running_needs_its_fence:
  @   (rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT) && fence == 0
  @   ==> unchanged(\result, *rec) && (\result.word == ONCE_BUSY || \result.word == ONCE_DOUBT);
  @ ensures deletes: \result.changed ==>
  @   \result.word == ONCE_DONE && \result.next.state == ONCE_STATE_ABSENT;
  @*/
struct once_decision once__decide_forget(const struct once_record *rec, uint64_t fence,
                                         once_ms now_ms);

#endif
