/* SPDX-License-Identifier: Apache-2.0
 *
 * Callers get somewhere: whoever does not crash ends with an answer, or, where nobody resolves
 * doubts, with the clear word that there is one. Liveness only: operation.pml shows that nothing
 * bad happens on the way.
 *
 * "Eventually" is meaningless over a network that may lose everything for ever, so the network
 * loses LOSSES messages here and repeats STRAYS old ones, at any point, and then behaves. Every
 * process that can take a step takes one eventually (weak fairness: pan -f). Everything decided is
 * durable at once: a power cut that loses an untold decision looks to the caller like a lost
 * message.
 *
 * Configurations, chosen by -D (run lists them all):
 *     CLIENTS         how many attempts there are
 *     NO_RESOLVER     nobody resolves doubts, so DOUBT is a word to end with
 *     NEVER_RESOLVED  nobody resolves doubts although everybody waits for it
 *     NO_CLOCK        leases never end: a lone owner must get through all the same
 *     NO_CRASH        clients do not crash
 *     LOSE_FOR_EVER   the network never behaves
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef STRAYS
#define STRAYS 1
#endif

#define print_of(who) 1
#define retention_of(who) 1
#define age 0

#include "check.pml"

byte next_fence = 1;

#include "decide.pml"

mtype = { ANSWERED, FAILED_ITSELF, LEFT_IN_DOUBT, CRASHED }; /* how a client ends */

Record mem;
byte losses = LOSSES;
byte strays = STRAYS;
mtype got[CLIENTS + 1]; /* clients are numbered from 1; 0 is still on its way */
bool may_act[CLIENTS + 1];
bool happened; /* the effect */

#if CLIENTS > 2
#define EVERYONE (got[1] != 0 && got[2] != 0 && got[3] != 0)
#define ANYONE_MAY_ACT (may_act[1] || may_act[2] || may_act[3])
#elif CLIENTS > 1
#define EVERYONE (got[1] != 0 && got[2] != 0)
#define ANYONE_MAY_ACT (may_act[1] || may_act[2])
#else
#define EVERYONE (got[1] != 0)
#define ANYONE_MAY_ACT may_act[1]
#endif

ltl everyone_gets_somewhere { <> EVERYONE }

#ifdef LOSE_FOR_EVER
#define CAN_LOSE true
#define lose() skip
#else
#define CAN_LOSE (losses > 0)
#define lose() losses--
#endif

#ifdef NO_CRASH
#define CAN_CRASH false
#else
#define CAN_CRASH true
#endif

#ifdef NO_RESOLVER
#define DOUBT_IS_AN_END true
#else
#define DOUBT_IS_AN_END false
#endif

inline read()
{
    copy(rec, mem);
    copy(next, mem)
}

inline write()
{
    if
    :: changed ->
        next_fence = (next.fence == next_fence -> next_fence + 1 : next_fence);
        copy(mem, next)
    :: else -> skip
    fi;
    clear(rec);
    clear(next);
    changed = false
}

/* Either way may fail: the request, or the reply to a decision that was made all the same. */
inline maybe_lost()
{
    if
    :: CAN_LOSE ->
        printf("network: the reply is lost\n");
        lose();
        word = 0
    :: true
    fi
}

proctype client(byte me)
{
    Record rec;
    Record next;
    mtype word;
    bool changed;
    byte fence;

    d_step { clear(rec); clear(next) };

    /* BUSY is told to come back, and so is DOUBT where somebody resolves; silence is a time-out. */
begin:
    do
    :: atomic {
           d_step {
               read();
               decide_begin(me);
               fence = next.fence;
               printf("client %d: begin -> %e; %e, fence %d\n", me, word, next.state, next.fence);
               write()
           };
           maybe_lost();
           if
           :: word == EXECUTE -> may_act[me] = true; word = 0; break
           :: word == REPLAY -> visit(replay); got[me] = ANSWERED; goto over
           :: word == DOUBT && DOUBT_IS_AN_END ->
               visit(left_in_doubt);
               got[me] = LEFT_IN_DOUBT;
               goto over
           :: word == DOUBT && !DOUBT_IS_AN_END -> visit(waits_in_doubt); word = 0; fence = 0
           :: word == BUSY -> visit(busy); word = 0; fence = 0
           :: word == 0 -> visit(reply_lost); fence = 0
           fi
       }
    :: atomic { CAN_LOSE -> printf("network: begin of client %d is lost\n", me); lose() }
    :: atomic { CAN_CRASH -> got[me] = CRASHED; goto over }
    od;

    if
    :: atomic { happened = true; may_act[me] = false }
    :: atomic { CAN_CRASH -> may_act[me] = false; got[me] = CRASHED; goto over }
    :: atomic {
           /* It did not happen and the client says so, once; if that is lost, there is a doubt. */
           may_act[me] = false;
           if
           :: CAN_LOSE -> printf("network: fail of client %d is lost\n", me); lose()
           :: d_step {
                  read();
                  decide_fail(fence);
                  printf("client %d: fail -> %e\n", me, word);
                  write()
              }
           fi;
           got[me] = FAILED_ITSELF;
           goto over
       }
    fi;

    /* STALE: somebody resolved the doubt meanwhile, so it asks for the answer that is kept. */
    do
    :: atomic {
           d_step {
               read();
               decide_complete(fence, fence);
               printf("client %d: complete -> %e\n", me, word);
               write()
           };
           maybe_lost();
           if
           :: word == DONE -> visit(done); got[me] = ANSWERED; goto over
           :: word == STALE -> visit(asks_after_stale); word = 0; fence = 0; goto begin
           :: else -> word = 0
           fi
       }
    :: atomic { CAN_LOSE -> printf("network: complete of client %d is lost\n", me); lose() }
    :: atomic { CAN_CRASH -> got[me] = CRASHED; goto over }
    od;

over:
    skip
}

/* A begin sent long ago arrives now. Whoever sent it has asked again since, and does not listen. */
proctype stray(byte sender)
{
    Record rec;
    Record next;
    mtype word;
    bool changed;

    d_step { clear(rec); clear(next) };
end:
    do
    :: d_step {
           strays > 0 ->
           strays--;
           read();
           decide_begin(sender);
           printf("network: an old begin of client %d -> %e\n", sender, word);
           write();
           word = 0
       }
    od
}

proctype clock()
{
end:
    do
    :: d_step {
           mem.state == STARTED && !mem.lease_over ->
           printf("clock: the lease of fence %d is over\n", mem.fence);
           mem.lease_over = true
       }
    od
}

proctype resolver()
{
    Record rec;
    Record next;
    mtype word;
    bool changed;

    d_step { clear(rec); clear(next) };
end:
    do
    :: d_step {
           STATE_AT(mem) == IN_DOUBT && !ANYONE_MAY_ACT ->
           read();
           decide_resolve(happened, mem.fence, 1);
           visit(resolved);
           printf("resolver: happened=%d -> %e\n", happened, word);
           write();
           word = 0
       }
    od
}

init
{
    atomic {
        clear(mem);
        run client(1);
#if CLIENTS > 1
        run client(2);
#endif
#if CLIENTS > 2
        run client(3);
#endif
        run stray(1);
#ifndef NO_CLOCK
        run clock();
#endif
#if !defined(NO_RESOLVER) && !defined(NEVER_RESOLVED)
        run resolver();
#endif
        skip
    }
}
