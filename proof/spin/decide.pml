/* SPDX-License-Identifier: Apache-2.0
 *
 * The decision of src/core/decide.c in Promela, function by function and under the same names.
 * Included by the models; owns nothing of its own. Whoever includes it has said, before:
 *
 *     print_of(who), retention_of(who)   what caller `who` asks for; its owner id is its number
 *     next_fence                         larger than any fence the store gave before
 *     age                                how many retentions ago the key was born
 *
 * and declares, where a decision is made, these locals:
 *
 *     Record rec     the record that was read
 *     Record next    what it becomes; equal to rec before the decision
 *     mtype word     what the caller is told
 *     bool changed   next must be durable before word is told
 *
 * Times became questions: decide.c only ever asks whether a moment has passed, so a lease end is
 * the bit lease_over and an expiry is the bit expired. The models let time set them whenever it
 * likes, so every order of real clocks is among the paths. Attempt numbers, creation times and
 * recovery points decide nothing and are left out.
 *
 * agree.pml holds all this against the shipped decide.c, case by case. Each mistake below changes
 * one line of the decision; `run` shows that the properties notice.
 */
mtype = { ABSENT, STARTED, COMPLETED, FAILED, IN_DOUBT };           /* enum once_state */
mtype = { EXECUTE, REPLAY, BUSY, MISMATCH, DOUBT, TOO_OLD };        /* enum once_word: to begin */
mtype = { DONE, STALE, NOTFOUND };                                  /* ...and to an owner's call */

typedef Record {
    mtype state;
    byte fence;
    byte owner;
    byte print;      /* the fingerprint */
    byte answer;     /* code and result in one number */
    byte retention;  /* 1 is short, 2 is long */
    bool lease_over; /* STARTED: now_ms >= lease_end_ms */
    bool expired     /* COMPLETED, FAILED: now_ms >= expires_ms */
};

inline copy(to, from)
{
    to.state = from.state;
    to.fence = from.fence;
    to.owner = from.owner;
    to.print = from.print;
    to.answer = from.answer;
    to.retention = from.retention;
    to.lease_over = from.lease_over;
    to.expired = from.expired
}

/* ABSENT is all zero. */
inline clear(r)
{
    r.state = ABSENT;
    r.fence = 0;
    r.owner = 0;
    r.print = 0;
    r.answer = 0;
    r.retention = 0;
    r.lease_over = false;
    r.expired = false
}

/* ---- The mistakes ---- */

#ifdef EXPIRED_IS_ABSENT /* mistake: a lease that ran out frees the key */
#define LEASE_OVER_IS ABSENT
#else
#define LEASE_OVER_IS IN_DOUBT
#endif

#ifdef NO_FENCE_CHECK /* mistake: whoever says "complete" is believed */
#define MY_FENCE(f) true
#else
#define MY_FENCE(f) ((f) == rec.fence)
#endif

#ifdef NO_FINGERPRINT /* mistake: the key alone names the request */
#define OTHER_REQUEST(who) false
#else
#define OTHER_REQUEST(who) (rec.print != print_of(who))
#endif

#ifdef BUSY_BEFORE_MISMATCH /* mistake: another request hears of the first one's lease */
#define BUSY_COMES_FIRST true
#else
#define BUSY_COMES_FIRST false
#endif

#ifdef NO_OWNER /* mistake: the owner's own retry is told BUSY like everybody else's */
#define OWNER_ASKS_AGAIN(who) false
#else
#define OWNER_ASKS_AGAIN(who) ((who) != 0 && rec.owner == (who)) /* 0 is anonymous */
#endif

#ifdef DELETE_UNFENCED /* mistake: a forget without a fence deletes a running operation too */
#define RUNNING_NEEDS_FENCE false
#else
#define RUNNING_NEEDS_FENCE true
#endif

/* ---- What callers choose ---- */

#ifndef KEY_HAS_BIRTH
#ifdef KEY_WITHOUT_BIRTH /* misuse, where the key may be retried after its retention: no UUIDv7 */
#define KEY_HAS_BIRTH false
#else
#define KEY_HAS_BIRTH true
#endif
#endif

#ifndef ON_DOUBT_RETRY
#ifdef RETRY
#define ON_DOUBT_RETRY true
#else
#define ON_DOUBT_RETRY false
#endif
#endif

/* ---- The decision ---- */

/* once__state_at: by time alone a started operation becomes a doubt, and never absent. */
#define STATE_AT(r) \
    (r.state == STARTED && r.lease_over -> LEASE_OVER_IS : \
     ((r.state == COMPLETED || r.state == FAILED) && r.expired -> ABSENT : r.state))

#define TOO_OLD_FOR(who) (KEY_HAS_BIRTH && age >= retention_of(who))

inline say(w)
{
    word = w;
    changed = false
}

inline change(w)
{
    word = w;
    changed = true
}

/* Somebody began and vanished: written down before it is told. */
inline doubt(w)
{
    word = w;
    changed = (rec.state != IN_DOUBT);
    next.state = IN_DOUBT
}

inline execute(who, first)
{
    change(EXECUTE);
    next.state = STARTED;
    next.fence = next_fence;
    next.owner = who;
    next.print = print_of(who);
    next.answer = 0;
    next.retention =
        (!(first) && rec.retention > retention_of(who) -> rec.retention : retention_of(who));
    next.lease_over = false;
    next.expired = false
}

inline decide_begin(who)
{
    if
    :: STATE_AT(rec) == ABSENT ->
        if
        :: TOO_OLD_FOR(who) -> say(TOO_OLD)
        :: else -> execute(who, true)
        fi
    :: BUSY_COMES_FIRST && STATE_AT(rec) == STARTED && !OWNER_ASKS_AGAIN(who) -> say(BUSY)
    :: else ->
        /* Before everything else: an old answer to a new question is silent corruption. */
        if
        :: OTHER_REQUEST(who) -> say(MISMATCH)
        :: else ->
            if
            :: STATE_AT(rec) == COMPLETED -> say(REPLAY)
            :: STATE_AT(rec) == FAILED -> execute(who, false)
            :: STATE_AT(rec) == STARTED ->
                if
                :: OWNER_ASKS_AGAIN(who) -> say(EXECUTE)
                :: else -> say(BUSY)
                fi
            :: STATE_AT(rec) == IN_DOUBT ->
                if
                :: ON_DOUBT_RETRY -> execute(who, false)
                :: else -> doubt(DOUBT)
                fi
            fi
        fi
    fi
}

#define RUNNING_NOW(r) (STATE_AT(r) == STARTED || STATE_AT(r) == IN_DOUBT)

/* running_under: whether the holder of this fence may still say how its attempt went. */
inline running_under(f)
{
    if
    :: STATE_AT(rec) == ABSENT -> say(NOTFOUND)
    :: STATE_AT(rec) != ABSENT && MY_FENCE(f) && RUNNING_NOW(rec) -> change(DONE)
    :: else -> say(STALE)
    fi
}

inline end_with(to, with)
{
    change(DONE);
    next.state = to;
    next.answer = with
}

inline decide_complete(f, with)
{
    running_under(f);
    if
    :: word == DONE -> end_with(COMPLETED, with)
    /* Sent again after a lost reply: the first answer stays. */
    :: word == STALE && f == rec.fence && rec.state == COMPLETED ->
        if
        :: rec.answer == with -> say(DONE)
        :: else -> say(MISMATCH)
        fi
    :: else -> skip
    fi
}

inline decide_fail(f)
{
    running_under(f);
    if
    :: word == DONE -> end_with(FAILED, 0)
    :: word == STALE && f == rec.fence && rec.state == FAILED -> say(DONE)
    :: else -> skip
    fi
}

/* Without more time the lease is given up with an unknown outcome: lease_ms 0. */
inline decide_renew(f, more_time)
{
    running_under(f);
    if
    :: word == DONE && !(more_time) -> doubt(DONE)
    /* A lease that is over is over: somebody may be looking into the doubt already. */
    :: word == DONE && more_time && STATE_AT(rec) == IN_DOUBT -> doubt(DOUBT)
    :: else -> skip
    fi
}

/* looked_at 0 is whichever doubt it is now. */
inline decide_resolve(done, looked_at, with)
{
    if
    :: STATE_AT(rec) == ABSENT -> say(NOTFOUND)
    :: STATE_AT(rec) == STARTED -> say(BUSY)
    :: STATE_AT(rec) == COMPLETED ->
        if
        :: done && rec.answer == with -> say(DONE)
        :: else -> say(MISMATCH)
        fi
    :: STATE_AT(rec) == FAILED ->
        if
        :: done -> say(MISMATCH)
        :: else -> say(DONE)
        fi
    :: STATE_AT(rec) == IN_DOUBT && looked_at != 0 && looked_at != rec.fence -> say(STALE)
    :: else ->
        if
        :: done -> end_with(COMPLETED, with)
        :: else -> end_with(FAILED, 0)
        fi;
        /* The vanished owner is stale should it come back. */
        next.fence = next_fence
    fi
}

inline decide_forget(f)
{
    if
    :: STATE_AT(rec) == ABSENT -> say(NOTFOUND)
    :: STATE_AT(rec) != ABSENT && f != 0 && f != rec.fence -> say(STALE)
    :: RUNNING_NEEDS_FENCE && f == 0 && STATE_AT(rec) == STARTED -> say(BUSY)
    /* Whoever is told DOUBT is told its fence: that must not be enough to erase it. */
    :: RUNNING_NEEDS_FENCE && (f == 0 || f == rec.fence) && STATE_AT(rec) == IN_DOUBT -> doubt(DOUBT)
    :: else ->
        change(DONE);
        clear(next)
    fi
}
