/* SPDX-License-Identifier: Apache-2.0
 *
 * A client of operation.pml: it asks, runs what it was told to run, and says how that went. It may
 * crash at every step, and pause as long as it likes. It acts at most once, and never after it said
 * FAIL or FORGET: that much a caller of Once must keep.
 */

/* ---- The effect ---- */

inline happen(me)
{
    effects = (effects < 2 -> effects + 1 : 2);
    holds = fence[me];
    printf("client %d: the effect happens, under fence %d: it has happened %d time(s)\n", me,
           fence[me], effects);
    must(effect_once, effects <= 1)
}

/* One step of the resource. A client that is refused knows that someone took over. */
inline act(me)
{
#if defined(KEYED)
    if
    :: effects == 0 -> happen(me)
    :: else -> visit(effect_was_there)
    fi;
#elif defined(FENCED)
    if
    :: fence[me] > guard ->
        guard = fence[me];
        happen(me)
    :: else ->
        visit(effect_refused);
        refused = true
    fi;
#else
    happen(me);
#endif
    answer[me] = holds
}

/* LOOK takes two steps: show the fence and see what is there; then act, unless a newer one came. */
inline look(me)
{
    refused = (fence[me] <= guard);
    guard = (refused -> guard : fence[me]);
    there = (effects > 0)
}

inline act_after_look(me)
{
    if
    :: !refused && there -> visit(effect_was_there)
    :: !refused && !there && guard == fence[me] -> happen(me)
    :: else ->
        visit(effect_refused);
        refused = true
    fi;
    answer[me] = holds
}

/* The client gave up waiting for the resource, and only now its request arrives there. */
inline land(me)
{
    flying[me] = false;
#ifdef LOOK
    act_after_look(me);
#else
    act(me);
#endif
    visit(effect_after_let_go);
    refused = false;
    answer[me] = 0
}

/* ---- A client ---- */

/* The network hands over the one reply that reaches this client. */
inline receive(me)
{
    word = mail[me].word;
    number = mail[me].number;
    mail[me].word = 0;
    mail[me].number = 0;
    printf("client %d: is told %e %d\n", me, word, number)
}

/* What is in the network stays there; all else that it knew is gone. */
inline leave(me)
{
    stage[me] = GONE;
    fence[me] = (call[me] == 0 && !renew[me] -> 0 : fence[me]);
    answer[me] = (call[me] == COMPLETE -> answer[me] : 0);
    mail[me].word = 0;
    mail[me].number = 0;
    mail[me].held = false;
    refused = false;
    there = false;
    number = 0;
    word = 0
}

inline crash(me)
{
    printf("client %d: crashes\n", me);
    if
    :: stage[me] == RUNNING -> visit(crash_before_effect)
    :: stage[me] == ACTED -> visit(crash_after_effect)
    :: else -> skip
    fi;
    leave(me)
}

inline send(me, what)
{
    printf("client %d: sends %e with fence %d\n", me, what, fence[me]);
    call[me] = what;
    stage[me] = WAITING
}

/* What a client makes of the word for its begin. */
inline learn(me)
{
    if
    :: word == EXECUTE ->
        stage[me] = RUNNING;
        fence[me] = number;
        highest_told = (number > highest_told -> number : highest_told);
        word = 0;
        number = 0
    :: else ->
        if
        :: word == REPLAY ->
            visit(told_replay);
            must(replay_is_true, completed && effects > 0 && number == holds);
            answered = true
        :: word == DOUBT -> visit(told_doubt)
        :: word == MISMATCH -> visit(told_mismatch)
        :: word == TOO_OLD -> visit(told_too_old)
        fi;
        leave(me)
    fi
}

/* What it makes of the word for the call that ended its attempt. */
inline learn_end(me)
{
    if
    :: word == DONE && call[me] == COMPLETE ->
        visit(told_done);
        answered = true
    :: word == STALE -> visit(told_stale)
    :: else -> skip
    fi;
    leave(me)
}

#ifdef NO_RENEWALS
#define RENEWALS false
#else
#define RENEWALS true
#endif

proctype client(byte me)
{
    mtype word;
    byte number;
    bool refused; /* by the resource */
    bool there;   /* LOOK: the effect was there already */

begin:
    if
    :: atomic {
           mail[me].word != 0 && !mail[me].held ->
           d_step { receive(me); learn(me) };
           if
           :: stage[me] == RUNNING
           :: else -> goto gone
           fi
       }
    :: d_step { stage[me] == ASKING -> crash(me) }; goto gone
    fi;

    do
    :: d_step {
           RENEWALS && !renew[me] ->
           printf("client %d: sends RENEW with fence %d\n", me, fence[me]);
           renew[me] = true
       }
    :: d_step { send(me, FAIL) }; goto wait   /* it knows that nothing happened */
    :: d_step { send(me, FORGET) }; goto wait /* likewise, and wants no trace */
    :: d_step { send(me, LET_GO) }; goto wait /* it does not know, and nothing will */
    :: d_step { crash(me) }; goto gone
#ifdef LOOK
    :: d_step { look(me) };
        if
        :: d_step { act_after_look(me); stage[me] = ACTED }; break
        :: d_step { !refused && !there -> send(me, LET_GO); flying[me] = true }; goto wait
        :: d_step { crash(me) }; goto gone
        fi
#else
    :: d_step { act(me); stage[me] = ACTED }; break
    :: d_step { send(me, LET_GO); flying[me] = true }; goto wait
#endif
    od;

    if
    :: d_step { refused -> leave(me) }; goto gone
    :: d_step { !refused -> send(me, COMPLETE) }
    :: d_step { !refused -> send(me, LET_GO) } /* the answer of the resource was lost */
    :: d_step { crash(me) }; goto gone
    fi;

wait:
    do
    :: d_step { flying[me] -> land(me) }
    :: d_step { mail[me].word != 0 && !mail[me].held -> receive(me); learn_end(me) }; break
    :: d_step { crash(me) }; break
    od;

gone:
#ifdef OWNER_REUSED /* misuse: the owner id names the machine, which comes back and asks again */
    skip;
    d_step {
        printf("client %d: asks again under the same owner id\n", me);
        stage[me] = ASKING
    };
    goto begin;
#endif
end:
    do
    :: d_step { flying[me] -> land(me) }
    od
}
