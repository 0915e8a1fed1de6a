/* SPDX-License-Identifier: Apache-2.0
 *
 * The decisions of Once. decide.h has the state diagram and what is proved of each function.
 *
 * Every function here is pure: it reads a record and a request, both checked where they entered,
 * and returns what to say and what the record becomes. It keeps INV-1, INV-4 and INV-5; the store
 * keeps the rest. Time and fences come in as arguments. Sums cannot overflow: limits.h bounds both
 * operands.
 */
#include "core/decide.h"

#include "base/assert.h"

_Static_assert(ONCE_TIME_MS_MAX < INT64_MAX / 2, "sums of times fit");
_Static_assert(ONCE_LEASE_MS_MAX <= ONCE_RETENTION_MS_MAX, "a lease end is a valid time");
_Static_assert(ONCE_ATTEMPT_MAX < UINT32_MAX, "attempts fit");

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result == (a > b ? a : b);
  @*/
static once_ms later(once_ms a, once_ms b)
{
    return a > b ? a : b;
}

/*@ requires \valid_read(rec);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result.word == word && unchanged(\result, *rec) && \result.retry_ms == 0;
  @*/
static struct once_decision say(const struct once_record *rec, enum once_word word)
{
    struct once_decision decision = {.word = word, .changed = false, .retry_ms = 0};

    decision.next = *rec;
    return decision;
}

/* The same, on the way to a change of next. */
/*@ requires \valid_read(rec);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result.word == word && \result.changed && \result.retry_ms == 0
  @   && \result.next == *rec;
  @*/
static struct once_decision change(const struct once_record *rec, enum once_word word)
{
    struct once_decision decision = say(rec, word);

    decision.changed = true;
    return decision;
}

/*@ requires record_ok(rec) && now_ok(now_ms) && lease_lives(rec, now_ms);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result.word == ONCE_BUSY && unchanged(\result, *rec)
  @   && 1 <= \result.retry_ms <= ONCE_RETRY_MS_MAX;
  @*/
static struct once_decision say_busy(const struct once_record *rec, once_ms now_ms)
{
    struct once_decision decision = say(rec, ONCE_BUSY);
    once_ms left_ms = rec->lease_end_ms - now_ms;

    ONCE_ASSERT(left_ms > 0);
    decision.retry_ms = left_ms < ONCE_RETRY_MS_MAX ? left_ms : ONCE_RETRY_MS_MAX;
    return decision;
}

/* Somebody began and vanished. Written down before it is told, so that no clock can make it
 * "started" again. */
/*@ requires record_ok(rec) && (rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT);
  @ requires word == ONCE_DOUBT || word == ONCE_DONE;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result.word == word && \result.retry_ms == 0
  @   && \result.changed == (rec->state == ONCE_STATE_STARTED);
  @ ensures valid: record_values(\result.next) && record_sizes(\result.next);
  @ ensures doubt: \result.next == {*rec \with .state = (enum once_state)ONCE_STATE_DOUBT};
  @*/
static struct once_decision doubt(const struct once_record *rec, enum once_word word)
{
    struct once_decision decision = say(rec, word);

    decision.changed = rec->state != ONCE_STATE_DOUBT;
    decision.next.state = ONCE_STATE_DOUBT;
    return decision;
}

/* A key that is absent and was born longer ago than answers are kept may have run and expired. */
/*@ requires \valid_read(req) && now_ok(now_ms) && request_ok(req, now_ms);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result <==>
  @   (req->birth_ms != ONCE_BIRTH_NONE && now_ms - req->birth_ms >= req->retention_ms);
  @*/
static bool too_old(const struct once_request *req, once_ms now_ms)
{
    return req->birth_ms != ONCE_BIRTH_NONE && now_ms - req->birth_ms >= req->retention_ms;
}

/* The same owner asking again while its lease lives: it lost the reply. Two anonymous callers
 * are never the same. */
/*@ requires record_ok(rec) && \valid_read(req) && bytes_readable(req->owner);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result <==> own_lease(rec, req);
  @*/
static bool owner_asks_again(const struct once_record *rec, const struct once_request *req)
{
    return req->owner.size > 0 && once__bytes_equal(rec->owner, req->owner);
}

/* A new attempt under a new fence. A first attempt starts from nothing; a later one keeps the
 * birth, the recovery point, and the longest retention anyone was promised. */
/*@ requires record: record_ok(rec);
  @ requires moment: moment_ok(at, rec);
  @ requires request: request_ok(req, at.now_ms);
  @ requires same: !first ==> same_fingerprint(&rec->fingerprint, &req->fingerprint)
  @   && rec->state != ONCE_STATE_ABSENT;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures word: \result.word == ONCE_EXECUTE && \result.changed;
  @ ensures valid: record_values(\result.next) && record_sizes(\result.next);
  @ ensures started: \result.next.state == ONCE_STATE_STARTED
  @   && \result.next.fence == at.next_fence
  @   && \result.next.lease_end_ms == at.now_ms + req->lease_ms;
  @ ensures retained: \result.next.expires_ms >= at.now_ms + req->retention_ms
  @   && \result.next.expires_ms >= req->birth_ms + req->retention_ms;
  @ ensures kept: !first ==> \result.next.retention_ms >= rec->retention_ms
  @   && \result.next.expires_ms >= rec->expires_ms
  @   && \result.next.point == rec->point && \result.next.data == rec->data;
  @ ensures counts: \result.next.attempt == (first ? 1
  @     : rec->attempt < ONCE_ATTEMPT_MAX ? rec->attempt + 1 : ONCE_ATTEMPT_MAX)
  @   && \result.next.created_ms == (first ? at.now_ms : rec->created_ms)
  @   && \result.next.retention_ms >= req->retention_ms;
  @ ensures bytes: \result.next.owner == req->owner && \result.next.result.size == 0
  @   && (first ==> \result.next.point.size == 0 && \result.next.data.size == 0);
  @ ensures binds: \forall integer i; 0 <= i < ONCE_FINGERPRINT_SIZE ==>
  @   \result.next.fingerprint.bytes[i] == req->fingerprint.bytes[i];
  @*/
static struct once_decision execute(const struct once_record *rec, const struct once_request *req,
                                    struct once_moment at, bool first)
{
    struct once_decision decision = change(rec, ONCE_EXECUTE);
    /* A key from a clock that runs ahead is kept until it is too old by that clock: no gap (K5,
     * K6). */
    once_ms expires_ms = later(at.now_ms, req->birth_ms) + req->retention_ms;
    uint32_t attempts = first ? 0 : rec->attempt;

    decision.next.state = ONCE_STATE_STARTED;
    decision.next.attempt = attempts < ONCE_ATTEMPT_MAX ? attempts + 1 : ONCE_ATTEMPT_MAX;
    decision.next.fence = at.next_fence;
    decision.next.lease_end_ms = at.now_ms + req->lease_ms;
    decision.next.created_ms = first ? at.now_ms : rec->created_ms;
    decision.next.retention_ms = later(first ? 0 : rec->retention_ms, req->retention_ms);
    decision.next.expires_ms = later(first ? 0 : rec->expires_ms, expires_ms);
    decision.next.fingerprint = req->fingerprint;
    decision.next.owner = req->owner;
    decision.next.code = 0;
    decision.next.result = (struct once_bytes){0};
    if (first) {
        decision.next.point = (struct once_bytes){0};
        decision.next.data = (struct once_bytes){0};
    }
    return decision;
}

struct once_decision once__decide_begin(const struct once_record *rec,
                                        const struct once_request *req, struct once_moment at)
{
    enum once_state state = once__state_at(rec, at.now_ms);

    ONCE_ASSERT(at.next_fence > rec->fence);
    ONCE_ASSERT(req->lease_ms > 0);
    if (state == ONCE_STATE_ABSENT) {
        if (too_old(req, at.now_ms))
            return say(rec, ONCE_TOO_OLD);
        return execute(rec, req, at, true);
    }
    /* Before everything else: an old answer to a new question is silent corruption (INV-5). */
    if (!once__fingerprint_equal(&rec->fingerprint, &req->fingerprint))
        return say(rec, ONCE_MISMATCH);
    if (state == ONCE_STATE_COMPLETED)
        return say(rec, ONCE_REPLAY);
    if (state == ONCE_STATE_FAILED)
        return execute(rec, req, at, false);
    if (state == ONCE_STATE_STARTED) {
        if (owner_asks_again(rec, req))
            return say(rec, ONCE_EXECUTE);
        return say_busy(rec, at.now_ms);
    }

    ONCE_ASSERT(state == ONCE_STATE_DOUBT);
    if (req->on_doubt == ONCE_ON_DOUBT_RETRY)
        return execute(rec, req, at, false);
    return doubt(rec, ONCE_DOUBT);
}

/* Whether the holder of this fence may still say how its attempt went: OK, else why not. */
/*@ requires record_ok(rec) && now_ok(now_ms);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures words: \result == ONCE_DONE || \result == ONCE_STALE || \result == ONCE_NOTFOUND;
  @ ensures exact: \result == ONCE_DONE <==>
  @   (fence == rec->fence && (rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT));
  @ ensures notfound: \result == ONCE_NOTFOUND <==> state_at(rec, now_ms) == ONCE_STATE_ABSENT;
  @*/
static enum once_word running_under(const struct once_record *rec, uint64_t fence, once_ms now_ms)
{
    enum once_state state = once__state_at(rec, now_ms);

    if (state == ONCE_STATE_ABSENT)
        return ONCE_NOTFOUND;
    if (fence != rec->fence)
        return ONCE_STALE;
    return state == ONCE_STATE_STARTED || state == ONCE_STATE_DOUBT ? ONCE_DONE : ONCE_STALE;
}

/*@ requires record_ok(rec) && answer_ok(answer);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result <==>
  @   (rec->code == answer->code && bytes_same(rec->result, answer->result));
  @*/
static bool ended_with(const struct once_record *rec, const struct once_answer *answer)
{
    return rec->code == answer->code && once__bytes_equal(rec->result, answer->result);
}

/* Ends the attempt in state with this code and result. The retention counts from here (K4). */
/*@ requires record_ok(rec) && now_ok(now_ms) && rec->state != ONCE_STATE_ABSENT;
  @ requires ended: state == ONCE_STATE_COMPLETED || state == ONCE_STATE_FAILED;
  @ requires size: answer.result.size <= ONCE_RESULT_SIZE_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures word: \result.word == ONCE_DONE && \result.changed;
  @ ensures valid: record_values(\result.next) && record_sizes(\result.next);
  @ ensures ended: \result.next.state == state && \result.next.code == answer.code
  @   && \result.next.result == answer.result;
  @ ensures kept: \result.next.expires_ms >= now_ms + rec->retention_ms
  @   && \result.next.expires_ms >= rec->expires_ms;
  @ ensures rest: identity_stays(\result.next, *rec) && \result.next.fence == rec->fence;
  @ ensures kept_too: \result.next.point == rec->point
  @   && \result.next.data == rec->data && \result.next.fingerprint == rec->fingerprint;
  @*/
static struct once_decision end(const struct once_record *rec, enum once_state state,
                                struct once_answer answer, once_ms now_ms)
{
    struct once_decision decision = change(rec, ONCE_DONE);

    decision.next.state = state;
    decision.next.code = answer.code;
    decision.next.result = answer.result;
    decision.next.expires_ms = later(rec->expires_ms, now_ms + rec->retention_ms);
    return decision;
}

struct once_decision once__decide_complete(const struct once_record *rec, uint64_t fence,
                                           const struct once_answer *answer, once_ms now_ms)
{
    enum once_word word = running_under(rec, fence, now_ms);

    if (word == ONCE_DONE)
        return end(rec, ONCE_STATE_COMPLETED, *answer, now_ms);
    /* Sent again after a lost reply. The first answer stays; another one is not hidden behind
     * an OK. */
    if (word == ONCE_STALE && fence == rec->fence && rec->state == ONCE_STATE_COMPLETED)
        return say(rec, ended_with(rec, answer) ? ONCE_DONE : ONCE_MISMATCH);
    return say(rec, word);
}

struct once_decision once__decide_fail(const struct once_record *rec, uint64_t fence,
                                       struct once_bytes reason, once_ms now_ms)
{
    enum once_word word = running_under(rec, fence, now_ms);
    struct once_answer answer = {.code = 0, .result = reason};

    if (word == ONCE_DONE)
        return end(rec, ONCE_STATE_FAILED, answer, now_ms);
    if (word == ONCE_STALE && fence == rec->fence && rec->state == ONCE_STATE_FAILED)
        return say(rec, ONCE_DONE);
    return say(rec, word);
}

struct once_decision once__decide_checkpoint(const struct once_record *rec, uint64_t fence,
                                             const struct once_step *step, once_ms now_ms)
{
    enum once_word word = running_under(rec, fence, now_ms);

    if (word != ONCE_DONE)
        return say(rec, word);
    /* A copy of the last one changes nothing; one that does not follow it came too late. */
    if (step->follows && once__bytes_equal(rec->point, step->point) &&
        once__bytes_equal(rec->data, step->data))
        return say(rec, ONCE_DONE);
    if (step->follows && !once__bytes_equal(rec->point, step->after))
        return say(rec, ONCE_STALE);

    struct once_decision decision = change(rec, ONCE_DONE);
    decision.next.point = step->point;
    decision.next.data = step->data;
    return decision;
}

struct once_decision once__decide_renew(const struct once_record *rec, struct once_renewal renewal,
                                        once_ms now_ms)
{
    enum once_word word = running_under(rec, renewal.fence, now_ms);

    ONCE_ASSERT(renewal.lease_ms >= 0);
    if (word != ONCE_DONE)
        return say(rec, word);
    if (renewal.lease_ms == 0)
        return doubt(rec, ONCE_DONE);
    /* A lease that is over is over: somebody may be looking into the doubt already. */
    if (once__state_at(rec, now_ms) == ONCE_STATE_DOUBT)
        return doubt(rec, ONCE_DOUBT);

    struct once_decision decision = change(rec, ONCE_DONE);
    /* Never shorter: a late copy of an older renewal must not take back what a newer one gave. */
    decision.next.lease_end_ms = later(rec->lease_end_ms, now_ms + renewal.lease_ms);
    return decision;
}

/* A finding about an operation that has ended: OK when it says what the record says. */
/*@ requires record_ok(rec) && \valid_read(res) && answer_ok(&res->answer);
  @ requires ended: rec->state == ONCE_STATE_COMPLETED || rec->state == ONCE_STATE_FAILED;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures words: \result == ONCE_DONE || \result == ONCE_MISMATCH;
  @ ensures done: res->done ==> (\result == ONCE_DONE <==>
  @   (rec->state == ONCE_STATE_COMPLETED && rec->code == res->answer.code
  @    && bytes_same(rec->result, res->answer.result)));
  @ ensures not_done: !res->done ==> (\result == ONCE_DONE <==> rec->state == ONCE_STATE_FAILED);
  @*/
static enum once_word agrees(const struct once_record *rec, const struct once_resolution *res)
{
    bool same = res->done ? rec->state == ONCE_STATE_COMPLETED && ended_with(rec, &res->answer)
                          : rec->state == ONCE_STATE_FAILED;

    return same ? ONCE_DONE : ONCE_MISMATCH;
}

struct once_decision once__decide_resolve(const struct once_record *rec,
                                          const struct once_resolution *res, struct once_moment at)
{
    enum once_state state = once__state_at(rec, at.now_ms);
    struct once_answer not_done = {.code = 0, .result = {0}};

    ONCE_ASSERT(at.next_fence > rec->fence);
    if (state == ONCE_STATE_ABSENT)
        return say(rec, ONCE_NOTFOUND);
    if (state == ONCE_STATE_STARTED)
        return say_busy(rec, at.now_ms);
    if (state != ONCE_STATE_DOUBT)
        return say(rec, agrees(rec, res));
    if (res->fence != 0 && res->fence != rec->fence)
        return say(rec, ONCE_STALE);

    struct once_decision decision = res->done
                                        ? end(rec, ONCE_STATE_COMPLETED, res->answer, at.now_ms)
                                        : end(rec, ONCE_STATE_FAILED, not_done, at.now_ms);
    decision.next.fence = at.next_fence;
    return decision;
}

struct once_decision once__decide_forget(const struct once_record *rec, uint64_t fence,
                                         once_ms now_ms)
{
    enum once_state state = once__state_at(rec, now_ms);

    if (state == ONCE_STATE_ABSENT)
        return say(rec, ONCE_NOTFOUND);
    if (fence != 0 && fence != rec->fence)
        return say(rec, ONCE_STALE);
    if (fence == 0 && state == ONCE_STATE_STARTED)
        return say_busy(rec, now_ms);
    /* Whoever is told DOUBT is told its fence: that must not be enough to erase it. */
    if (state == ONCE_STATE_DOUBT)
        return doubt(rec, ONCE_DOUBT);

    struct once_decision decision = {.word = ONCE_DONE, .changed = true, .retry_ms = 0};
    decision.next = (struct once_record){.state = ONCE_STATE_ABSENT};
    return decision;
}
