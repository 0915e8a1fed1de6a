/* SPDX-License-Identifier: Apache-2.0
 *
 * decide.pml is the decision that ships: the checker draws every record and every request that the
 * models can tell apart, lets decide.pml decide, calls the function of src/core/decide.c on the
 * same case, and compares word, change and record. `run` links the shipped source into the checker.
 *
 * The C side of a case: ABSENT is all zero; a lease that is over ends now, one that lives ends a
 * millisecond later; likewise an expiry. So both sides of each comparison of times are met exactly.
 */
#define BIT_model_is_the_code 1
#define ALL 1
bool model_is_the_code = true;

#include "check.pml"

/* The case. */
mtype = { BEGIN, COMPLETE, FAIL, RENEW, RESOLVE, FORGET };
mtype asked;
byte owner, print, retention, age; /* BEGIN */
bool birth, retry;                 /* BEGIN: whether the key has a birth time; on_doubt */
byte fence, with;                  /* the others: which fence, which answer */
bool yes;                          /* RENEW: more time; RESOLVE: done */

byte next_fence = 3;
#define print_of(who) print
#define retention_of(who) retention
#define KEY_HAS_BIRTH birth
#define ON_DOUBT_RETRY retry

#include "decide.pml"

Record rec;
Record next;
mtype word;
bool changed;

/* The numbers of enum once_state and enum once_word. */
#define STATE_NUMBER(s) \
    (s == ABSENT -> 0 : (s == STARTED -> 1 : (s == COMPLETED -> 2 : (s == FAILED -> 3 : 4))))
#define WORD_NUMBER(w) \
    (w == EXECUTE -> 0 : (w == REPLAY -> 1 : (w == BUSY -> 2 : (w == MISMATCH -> 3 : \
    (w == DOUBT -> 4 : (w == TOO_OLD -> 5 : (w == DONE -> 6 : (w == STALE -> 7 : 8))))))))
byte state_before, state_after, word_number;

c_decl {
    \#include "core/decide.h"

    enum { NOW_MS = 1000000, RETENTION_MS = 1000 };
    static const uint8_t digits[] = "0123456789";

    static struct once_bytes digit(int n)
    {
        struct once_bytes bytes = {.data = digits + n, .size = n > 0};
        return bytes;
    }

    static struct once_answer answer_of(int n)
    {
        struct once_answer answer = {.code = n, .result = digit(n)};
        return answer;
    }

    static int agrees(struct once_decision d, int word, int changed, int state, int fence,
                      int owner, int print, int answer, int retention, int lease_over, int expired)
    {
        struct once_bytes result = d.next.result;

        if ((int)d.word != word || d.changed != changed || (int)d.next.state != state)
            return 0;
        if (state == ONCE_STATE_ABSENT && changed)
            return d.next.fence == 0 && d.next.attempt == 0 && d.next.owner.size == 0;
        return (int)d.next.fence == fence && d.next.fingerprint.bytes[0] == print
               && d.next.owner.size == (owner > 0)
               && (owner == 0 || *d.next.owner.data - '0' == owner)
               && d.next.code == answer && result.size == (answer > 0)
               && (answer == 0 || *result.data - '0' == answer)
               && d.next.retention_ms == retention * RETENTION_MS
               && (state != ONCE_STATE_STARTED || (NOW_MS >= d.next.lease_end_ms) == lease_over)
               && ((state != ONCE_STATE_COMPLETED && state != ONCE_STATE_FAILED)
                   || (NOW_MS >= d.next.expires_ms) == expired);
    }
};

/* The calls of a case. now is the checker's own name for the state that it is in. */
c_code {
    static struct once_record the_record(void)
    {
        struct once_record r = {.state = now.state_before};

        if (r.state == ONCE_STATE_ABSENT)
            return r;
        r.attempt = 1;
        r.fence = now.rec.fence;
        r.created_ms = NOW_MS - 1;
        r.lease_end_ms = NOW_MS + !now.rec.lease_over;
        r.retention_ms = now.rec.retention * RETENTION_MS;
        r.expires_ms = NOW_MS + !now.rec.expired;
        r.code = now.rec.answer;
        r.result = digit(now.rec.answer);
        r.fingerprint.bytes[0] = now.rec.print;
        r.owner = digit(now.rec.owner);
        return r;
    }

    static struct once_request the_request(void)
    {
        struct once_request q = {.owner = digit(now.owner), .lease_ms = 1};

        q.fingerprint.bytes[0] = now.print;
        q.retention_ms = now.retention * RETENTION_MS;
        q.birth_ms = now.birth ? NOW_MS - now.age * RETENTION_MS : ONCE_BIRTH_NONE;
        q.on_doubt = now.retry ? ONCE_ON_DOUBT_RETRY : ONCE_ON_DOUBT_REJECT;
        return q;
    }

    static struct once_decision begin(struct once_record r)
    {
        struct once_request q = the_request();
        struct once_moment at = {.now_ms = NOW_MS, .next_fence = now.next_fence};

        return once__decide_begin(&r, &q, at);
    }

    static struct once_decision complete(struct once_record r)
    {
        struct once_answer answer = answer_of(now.with);

        return once__decide_complete(&r, now.fence, &answer, NOW_MS);
    }

    static struct once_decision renew(struct once_record r)
    {
        struct once_renewal renewal = {.fence = now.fence, .lease_ms = now.yes};

        return once__decide_renew(&r, renewal, NOW_MS);
    }

    static struct once_decision resolve(struct once_record r)
    {
        struct once_resolution res = {.done = now.yes, .fence = now.fence};
        struct once_moment at = {.now_ms = NOW_MS, .next_fence = now.next_fence};

        res.answer = answer_of(now.with);
        return once__decide_resolve(&r, &res, at);
    }
};
#define compare_with(decision) \
    c_code { \
        struct once_record r = the_record(); \
        now.model_is_the_code = \
            agrees(decision, now.word_number, now.changed, now.state_after, now.next.fence, \
                   now.next.owner, now.next.print, now.next.answer, now.next.retention, \
                   now.next.lease_over, now.next.expired); \
    }

inline draw(what, low, high)
{
    what = low;
    do
    :: what < high -> what++
    :: break
    od
}

inline draw_record()
{
    if
    :: rec.state = ABSENT
    :: rec.state = STARTED
    :: rec.state = COMPLETED
    :: rec.state = FAILED
    :: rec.state = IN_DOUBT
    fi;
    if
    :: rec.state == ABSENT -> clear(rec)
    :: else ->
        draw(rec.fence, 1, 2);
        draw(rec.owner, 0, 2);
        draw(rec.print, 1, 2);
        draw(rec.retention, 1, 2);
        draw(rec.lease_over, false, true);
        if
        :: rec.state == COMPLETED -> draw(rec.answer, 0, 1)
        :: else -> skip
        fi;
        if
        :: rec.state == COMPLETED || rec.state == FAILED -> draw(rec.expired, false, true)
        :: else -> skip
        fi
    fi;
    copy(next, rec)
}

inline draw_request()
{
    if
    :: asked = BEGIN;
        draw(owner, 0, 2);
        draw(print, 1, 2);
        draw(retention, 1, 2);
        draw(age, 0, 2);
        draw(birth, false, true);
        draw(retry, false, true)
    :: asked = COMPLETE; draw(fence, 0, 2); draw(with, 0, 2)
    :: asked = FAIL; draw(fence, 0, 2)
    :: asked = RENEW; draw(fence, 0, 2); draw(yes, false, true)
    :: asked = RESOLVE; draw(fence, 0, 2); draw(with, 0, 2); draw(yes, false, true)
    :: asked = FORGET; draw(fence, 0, 2)
    fi
}

inline decide_and_number()
{
    if
    :: asked == BEGIN -> decide_begin(owner)
    :: asked == COMPLETE -> decide_complete(fence, with)
    :: asked == FAIL -> decide_fail(fence)
    :: asked == RENEW -> decide_renew(fence, yes)
    :: asked == RESOLVE -> decide_resolve(yes, fence, with)
    :: asked == FORGET -> decide_forget(fence)
    fi;
    state_before = STATE_NUMBER(rec.state);
    state_after = STATE_NUMBER(next.state);
    word_number = WORD_NUMBER(word);
    printf("case: the record is %e, fence %d, owner %d, print %d, answer %d, retention %d\n",
           rec.state, rec.fence, rec.owner, rec.print, rec.answer, rec.retention);
    printf("case: lease over %d, expired %d\n", rec.lease_over, rec.expired);
    printf("case: %e with fence %d, answer %d, yes %d\n", asked, fence, with, yes);
    printf("case: from owner %d, print %d, retention %d, age %d, birth %d, retry %d\n", owner,
           print, retention, age, birth, retry);
    printf("case: the model says %e, changed %d, %e, fence %d; the code says otherwise\n", word,
           changed, next.state, next.fence)
}

inline note_word()
{
    if
    :: word == EXECUTE -> visit(execute)
    :: word == REPLAY -> visit(replay)
    :: word == BUSY -> visit(busy)
    :: word == MISMATCH -> visit(mismatch)
    :: word == DOUBT -> visit(doubt)
    :: word == TOO_OLD -> visit(too_old)
    :: word == DONE -> visit(done)
    :: word == STALE -> visit(stale)
    :: word == NOTFOUND -> visit(notfound)
    fi
}

active proctype one_case()
{
    atomic {
        draw_record();
        draw_request();
        decide_and_number();
        note_word();
        if
        :: asked == BEGIN -> compare_with(begin(r))
        :: asked == COMPLETE -> compare_with(complete(r))
        :: asked == FAIL -> compare_with(once__decide_fail(&r, now.fence, digit(0), NOW_MS))
        :: asked == RENEW -> compare_with(renew(r))
        :: asked == RESOLVE -> compare_with(resolve(r))
        :: asked == FORGET -> compare_with(once__decide_forget(&r, now.fence, NOW_MS))
        fi;
        must(model_is_the_code, model_is_the_code)
    }
}
