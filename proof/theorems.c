/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows from the contracts of src/core/decide.h over the whole life of a key. Each function
 * here is one theorem, its last `ensures`. The prover sees only the contracts of the shipping
 * functions, so a theorem holds for whatever implementation keeps them.
 *
 * A life is a chain of decisions. The step from one to the next is in the contracts already (an
 * EXECUTE binds the fingerprint and sets expires_ms >= birth_ms + retention_ms; complete, fail,
 * checkpoint, renew and resolve keep the fingerprint and never lower expires_ms), so a theorem
 * states what the chain has made of the record and proves what the next decision must be.
 */
#include "core/decide.h"

#include <stddef.h>

/* K5, K6: a UUIDv7 key that was completed never runs again, as long as retries ask for the
 * retention of the first request. Not one millisecond after its answer expired, not if the
 * client's clock ran ahead: first it is replayed, then it is too old. */
/*@ requires record_ok(rec) && rec->state == ONCE_STATE_COMPLETED;
  @ requires moment_ok(at, rec) && request_ok(req, at.now_ms);
  @ requires born: req->birth_ms != ONCE_BIRTH_NONE;
  @ requires bound: same_fingerprint(&rec->fingerprint, &req->fingerprint);
  @ requires kept: rec->expires_ms >= req->birth_ms + req->retention_ms;
  @ assigns \nothing;
  @ ensures k5_never_again: \result == ONCE_REPLAY || \result == ONCE_TOO_OLD;
  @*/
enum once_word completed_key_never_runs_again(const struct once_record *rec,
                                              const struct once_request *req, struct once_moment at)
{
    return once__decide_begin(rec, req, at).word;
}

/* INV-1, INV-4: from the moment an operation is started until its end is told, nobody but its
 * owner is told EXECUTE, at no time whatever, unless the caller says RETRY. */
/*@ requires record_ok(rec);
  @ requires running: rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT;
  @ requires moment_ok(at, rec) && request_ok(req, at.now_ms);
  @ requires another: !own_lease(rec, req);
  @ requires reject: req->on_doubt == ONCE_ON_DOUBT_REJECT;
  @ assigns \nothing;
  @ ensures inv1_nobody_else: \result != ONCE_EXECUTE && \result != ONCE_TOO_OLD;
  @*/
enum once_word started_runs_for_nobody_else(const struct once_record *rec,
                                            const struct once_request *req, struct once_moment at)
{
    return once__decide_begin(rec, req, at).word;
}

/* D2: once somebody took over, the first owner can neither complete, fail, checkpoint, renew
 * nor delete. */
/*@ requires record_ok(taken) && taken->state != ONCE_STATE_ABSENT;
  @ requires stale: 1 <= old_fence < taken->fence;
  @ requires now_ok(now_ms);
  @ requires answer_ok(answer) && step_ok(step);
  @ assigns \nothing;
  @ ensures d2_nothing_changes: \result == 0;
  @*/
int stale_owner_changes_nothing(const struct once_record *taken, uint64_t old_fence,
                                const struct once_answer *answer, const struct once_step *step,
                                once_ms now_ms)
{
    struct once_bytes no_reason = {.data = NULL, .size = 0};
    struct once_renewal renewal = {.fence = old_fence, .lease_ms = 1};

    return once__decide_complete(taken, old_fence, answer, now_ms).changed ||
           once__decide_fail(taken, old_fence, no_reason, now_ms).changed ||
           once__decide_checkpoint(taken, old_fence, step, now_ms).changed ||
           once__decide_renew(taken, renewal, now_ms).changed ||
           once__decide_forget(taken, old_fence, now_ms).changed;
}

/* D5: a complete whose reply was lost, sent again, gets the same OK and changes nothing. */
/*@ requires record_ok(ended) && answer_ok(answer) && now_ok(now_ms);
  @ requires kept: now_ms < ended->expires_ms;
  @ requires this_answer: ended->state == ONCE_STATE_COMPLETED && ended->code == answer->code
  @   && bytes_same(ended->result, answer->result);
  @ assigns \nothing;
  @ ensures d5_same: \result == 1;
  @*/
int complete_again_is_the_same(const struct once_record *ended, const struct once_answer *answer,
                               once_ms now_ms)
{
    struct once_decision again = once__decide_complete(ended, ended->fence, answer, now_ms);

    return again.word == ONCE_DONE && !again.changed;
}

/* K6: with time that does not run back, a doubt stays a doubt and what has expired stays
 * expired. */
/*@ requires \valid_read(rec) && state_known(rec->state);
  @ requires order: now_ms <= later_ms;
  @ assigns \nothing;
  @ ensures k6_time_only_moves_forward: \result == 1;
  @*/
int time_only_moves_forward(const struct once_record *rec, once_ms now_ms, once_ms later_ms)
{
    enum once_state now = once__state_at(rec, now_ms);
    enum once_state then = once__state_at(rec, later_ms);

    if (now == ONCE_STATE_ABSENT)
        return then == ONCE_STATE_ABSENT;
    if (now == ONCE_STATE_DOUBT)
        return then == ONCE_STATE_DOUBT;
    if (now == ONCE_STATE_STARTED)
        return then == ONCE_STATE_STARTED || then == ONCE_STATE_DOUBT;
    return then == now || then == ONCE_STATE_ABSENT;
}
