/* SPDX-License-Identifier: Apache-2.0
 *
 * The decision: a record meets a request, and a pure function says what the caller is told and
 * what the record becomes. No I/O, no clock, no allocation, no globals.
 *
 *   from        call                                  to
 *   ABSENT      begin                                 STARTED    a new fence
 *   STARTED     complete                              COMPLETED  its fence, lease over or not
 *   STARTED     fail                                  FAILED
 *   STARTED     renew                                 STARTED    while the lease lives
 *   STARTED     renew 0; anyone who meets it after    DOUBT
 *               the lease is over
 *   DOUBT       complete, fail                        as from STARTED: the owner is who knows
 *   DOUBT       resolve done / not done               COMPLETED / FAILED, a new fence
 *   DOUBT       begin RETRY                           STARTED    a new fence
 *   FAILED      begin                                 STARTED    a new fence
 *   COMPLETED   expiry, forget                        ABSENT
 *   FAILED      expiry, forget                        ABSENT
 *   STARTED     forget with its fence                 ABSENT     as fail: it did not happen
 *
 * checkpoint, from STARTED or DOUBT, keeps the state and records the last finished step.
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
  @ // Who and what it is: nothing that ends or renews an attempt touches these.
  @ predicate identity_stays(struct once_record n, struct once_record r) =
  @   n.attempt == r.attempt && n.created_ms == r.created_ms && n.retention_ms == r.retention_ms
  @   && n.owner == r.owner && n.fingerprint == r.fingerprint;
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
  @ ensures new_key_executes:
  @   state_at(rec, at.now_ms) == ONCE_STATE_ABSENT ==> \result.word == ONCE_EXECUTE
  @     || (\result.word == ONCE_TOO_OLD && req->birth_ms != ONCE_BIRTH_NONE
  @         && at.now_ms - req->birth_ms >= req->retention_ms);
  @ ensures failed_is_free:
  @   state_at(rec, at.now_ms) == ONCE_STATE_FAILED
  @   && same_fingerprint(&rec->fingerprint, &req->fingerprint) ==> \result.word == ONCE_EXECUTE;
  @ ensures lease_decides:
  @   lease_lives(rec, at.now_ms) && same_fingerprint(&rec->fingerprint, &req->fingerprint) ==>
  @     (\result.word == ONCE_EXECUTE || \result.word == ONCE_BUSY)
  @     && (\result.word == ONCE_EXECUTE <==> own_lease(rec, req));
  @ ensures policy_decides:
  @   state_at(rec, at.now_ms) == ONCE_STATE_DOUBT
  @   && same_fingerprint(&rec->fingerprint, &req->fingerprint) ==>
  @     \result.word == (req->on_doubt == ONCE_ON_DOUBT_RETRY ? ONCE_EXECUTE : ONCE_DOUBT);
  @ ensures attempts_count:
  @   \result.word == ONCE_EXECUTE && \result.changed ==>
  @     \result.next.attempt == (state_at(rec, at.now_ms) == ONCE_STATE_ABSENT ? 1
  @       : rec->attempt < ONCE_ATTEMPT_MAX ? rec->attempt + 1 : ONCE_ATTEMPT_MAX)
  @     && \result.next.created_ms ==
  @       (state_at(rec, at.now_ms) == ONCE_STATE_ABSENT ? at.now_ms : rec->created_ms);
  @ ensures k4_promised_retention:
  @   \result.word == ONCE_EXECUTE && \result.changed ==>
  @     \result.next.retention_ms >= req->retention_ms
  @     && \result.next.expires_ms >= at.now_ms + req->retention_ms;
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
  @     \result.next.retention_ms >= rec->retention_ms
  @     && \result.next.expires_ms >= rec->expires_ms;
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

/* The calls of an owner. Each is refused unless fence is the record's own (D2). One that is
 * sent again after a lost reply gets the same OK (D5) as long as nothing else has happened to
 * the record; after that it is STALE, and has changed nothing. An owner whose lease is over may
 * still end its operation as long as nobody took over: it is the one who knows. */

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
  @ ensures rest_stays: identity_stays(\result.next, *rec)
  @   && \result.next.point == rec->point && \result.next.data == rec->data;
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
  @ ensures k4_retention_counts_from_the_end:
  @   \result.changed ==> \result.next.expires_ms >= now_ms + rec->retention_ms
  @     && \result.next.expires_ms >= rec->expires_ms;
  @ ensures rest_stays: identity_stays(\result.next, *rec);
  @ ensures binding_stays: \result.next.fingerprint == rec->fingerprint;
  @*/
struct once_decision once__decide_fail(const struct once_record *rec, uint64_t fence,
                                       struct once_bytes reason, once_ms now_ms);

/*@ requires record: record_ok(rec);
  @ requires now: now_ok(now_ms);
  @ requires step: step_ok(step);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures valid: decision_ok(\result, rec);
  @ ensures inv1_stale_is_refused:
  @   fence != rec->fence ==> unchanged(\result, *rec)
  @     && (\result.word == ONCE_STALE || \result.word == ONCE_NOTFOUND);
  @ ensures running_only: \result.changed ==> \result.word == ONCE_DONE
  @   && (rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT)
  @   && \result.next.point == step->point && \result.next.data == step->data;
  @ ensures d3_never_back:
  @   \result.changed && step->follows ==> bytes_same(rec->point, step->after);
  @ ensures d3_next_step_is_taken:
  @   fence == rec->fence && (rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT)
  @   && (!step->follows || bytes_same(rec->point, step->after)) ==> \result.word == ONCE_DONE;
  @ ensures not_a_renewal: \result.next.state == rec->state && \result.next.fence == rec->fence
  @   && \result.next.lease_end_ms == rec->lease_end_ms
  @   && \result.next.expires_ms == rec->expires_ms;
  @ ensures rest_stays: identity_stays(\result.next, *rec)
  @   && \result.next.code == rec->code && \result.next.result == rec->result;
  @ ensures binding_stays: \result.next.fingerprint == rec->fingerprint;
  @*/
struct once_decision once__decide_checkpoint(const struct once_record *rec, uint64_t fence,
                                             const struct once_step *step, once_ms now_ms);

/* lease_ms 0 gives the lease up with an unknown outcome: the operation is in doubt at once. A
 * lease that is over cannot be renewed (DOUBT): somebody may be looking into it. No renewal
 * shortens a lease. */
/*@ requires record: record_ok(rec);
  @ requires now: now_ok(now_ms);
  @ requires lease: 0 <= renewal.lease_ms <= ONCE_LEASE_MS_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures valid: decision_ok(\result, rec);
  @ ensures inv1_stale_is_refused:
  @   renewal.fence != rec->fence ==> unchanged(\result, *rec)
  @     && (\result.word == ONCE_STALE || \result.word == ONCE_NOTFOUND);
  @ ensures renews:
  @   lease_lives(rec, now_ms) && renewal.fence == rec->fence && renewal.lease_ms > 0 ==>
  @     \result.word == ONCE_DONE && \result.next.state == ONCE_STATE_STARTED
  @     && \result.next.lease_end_ms >= now_ms + renewal.lease_ms;
  @ ensures inv4_over_is_over:
  @   state_at(rec, now_ms) == ONCE_STATE_DOUBT && renewal.fence == rec->fence ==>
  @     \result.next.state == ONCE_STATE_DOUBT
  @     && \result.word == (renewal.lease_ms > 0 ? ONCE_DOUBT : ONCE_DONE);
  @ ensures gives_up:
  @   lease_lives(rec, now_ms) && renewal.fence == rec->fence && renewal.lease_ms == 0 ==>
  @     \result.word == ONCE_DONE && \result.next.state == ONCE_STATE_DOUBT;
  @ ensures never_shorter: \result.next.lease_end_ms >= rec->lease_end_ms;
  @ ensures inv4_never_absent: \result.changed ==> \result.next.state != ONCE_STATE_ABSENT;
  @ ensures fences_stay: \result.next.fence == rec->fence;
  @ ensures rest_stays: identity_stays(\result.next, *rec)
  @   && \result.next.expires_ms == rec->expires_ms && \result.next.point == rec->point
  @   && \result.next.data == rec->data && \result.next.code == rec->code
  @   && \result.next.result == rec->result;
  @ ensures binding_stays: \result.next.fingerprint == rec->fingerprint;
  @*/
struct once_decision once__decide_renew(const struct once_record *rec, struct once_renewal renewal,
                                        once_ms now_ms);

/* Ends a doubt under a new fence, so that the vanished owner is stale should it come back. An
 * operation with a live lease is BUSY; one that has ended already answers OK to the same
 * finding and MISMATCH to another. */
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
  @ ensures k4_retention_counts_from_the_end:
  @   \result.changed ==> \result.next.expires_ms >= at.now_ms + rec->retention_ms
  @     && \result.next.expires_ms >= rec->expires_ms;
  @ ensures rest_stays: identity_stays(\result.next, *rec)
  @   && \result.next.point == rec->point && \result.next.data == rec->data;
  @ ensures doubts_end:
  @   state_at(rec, at.now_ms) == ONCE_STATE_DOUBT && (res->fence == 0 || res->fence == rec->fence)
  @   ==> \result.word == ONCE_DONE && \result.changed;
  @ ensures not_done_is_true:
  @   \result.word == ONCE_DONE && !res->done ==> \result.next.state == ONCE_STATE_FAILED;
  @ ensures fences_grow: fence_grows(\result, rec);
  @ ensures binding_stays: \result.next.fingerprint == rec->fingerprint;
  @*/
struct once_decision once__decide_resolve(const struct once_record *rec,
                                          const struct once_resolution *res, struct once_moment at);

/* Deletes the record. With a fence only if it is the current one. Without (0), a running
 * operation is BUSY; naming its current fence declares, as fail does, that it did not happen. A
 * doubt is never deleted, whoever asks: resolve it. */
/*@ requires record: record_ok(rec);
  @ requires now: now_ok(now_ms);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures valid: decision_ok(\result, rec);
  @ ensures inv1_stale_is_refused:
  @   fence != 0 && fence != rec->fence ==> unchanged(\result, *rec)
  @     && (\result.word == ONCE_STALE || \result.word == ONCE_NOTFOUND);
  @ ensures inv4_running_needs_its_fence:
  @   lease_lives(rec, now_ms) && fence == 0 ==> unchanged(\result, *rec)
  @     && \result.word == ONCE_BUSY;
  @ ensures inv4_doubt_is_never_forgotten:
  @   state_at(rec, now_ms) == ONCE_STATE_DOUBT ==> \result.next.state != ONCE_STATE_ABSENT
  @     && (\result.word == ONCE_DOUBT || \result.word == ONCE_STALE)
  @     && \result.next.fence == rec->fence && \result.next.fingerprint == rec->fingerprint;
  @ ensures deletes: \result.word == ONCE_DONE ==>
  @   \result.changed && \result.next.state == ONCE_STATE_ABSENT;
  @ ensures ended_is_deleted:
  @   (state_at(rec, now_ms) == ONCE_STATE_COMPLETED || state_at(rec, now_ms) == ONCE_STATE_FAILED)
  @   && (fence == 0 || fence == rec->fence) ==> \result.word == ONCE_DONE;
  @*/
struct once_decision once__decide_forget(const struct once_record *rec, uint64_t fence,
                                         once_ms now_ms);

#endif
