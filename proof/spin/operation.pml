/* SPDX-License-Identifier: Apache-2.0
 *
 * One operation under one key, and everything that can go wrong around it. Safety only:
 * progress.pml shows that callers also get somewhere.
 *
 *     client ──request──▶ network ──▶ worker ──decide──▶ memory ──sync──▶ disk
 *       │  ◀────word───── network ◀──── once it is durable ◀───────────────┘
 *       └────effect────▶ resource (outside: it counts what really happened)
 *
 * The network never forgets: a request, once sent, may arrive at any time, in any order, any number
 * of times or never. So nothing is queued: a begin may always arrive, an owner's call from the
 * moment it is in call[]. Of the replies a client acts on the first that reaches it and ignores the
 * others, so its mailbox holds that one and the others count as lost.
 *
 * A pause is a client that takes no step while the clock does. A crash is final: a caller who comes
 * back is another client with another owner id, as record.h asks ("names one attempt, not a
 * machine").
 *
 * What is part of the world is chosen by -D; `run` names every combination it uses.
 *     CLIENTS, RESOLVERS, FENCES   how many there are; more fences are never given
 *     RETRY                        on_doubt RETRY; else REJECT, the default
 *     KEYED, FENCED, LOOK          how the resource guards the effect; else not at all
 *     NO_POWER_CUTS, NO_RENEWALS, NO_EXPIRY, ONE_REQUEST
 *                                  leave something out
 *     NON_ATOMIC and others        a mistake of the store or a misuse by its caller, each told
 *                                  where it is made
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef RESOLVERS
#define RESOLVERS 1
#endif
#ifndef FENCES
#define FENCES 4
#endif

/* ---- What must hold ---- */

#define BIT_effect_once 1      /* the effect happens at most once */
#define BIT_one_live_lease 2   /* INV-1: no attempt starts while another's lease lives */
#define BIT_fences_grow 4      /* INV-1: a new fence is larger than any that anyone was told */
#define BIT_stale_refused 8    /* D2: no call changes anything under an older fence than one told */
#define BIT_replay_is_true 16  /* REPLAY only after COMPLETE, with the answer of the effect */
#define BIT_answer_kept 32     /* INV-2, INV-3: an answer told once is the answer from then on */
#define BIT_started_stays 64   /* INV-4: what was started and has not ended is never absent */
#define BIT_mismatch_first 128 /* INV-5, K3: another request is a MISMATCH in every state */
#define ALL 255

bool effect_once = true, one_live_lease = true, fences_grow = true, stale_refused = true;
bool replay_is_true = true, answer_kept = true, started_stays = true, mismatch_first = true;

#include "check.pml"

/* ---- The callers ---- */

mtype = { ASKING, RUNNING, ACTED, WAITING, GONE }; /* where a client is; 0 is not heard of yet */
mtype = { COMPLETE, FAIL, FORGET, LET_GO };        /* how an attempt ends; LET_GO is renew 0 */
mtype = { FOUND_DONE, FOUND_NOT_DONE };            /* what a resolver found out */

typedef Mail {
    mtype word;  /* 0 is empty */
    byte number; /* EXECUTE: the fence; REPLAY: the answer */
    bool held    /* not durable yet, so not told yet (INV-2) */
};

/* Clients and resolvers are numbered from 1. */
mtype stage[CLIENTS + 1];
Mail mail[CLIENTS + 1];
byte fence[CLIENTS + 1];  /* of the attempt it was told to execute */
byte answer[CLIENTS + 1]; /* what the resource answered */
mtype call[CLIENTS + 1];  /* how it ended its attempt: this call is in the network */
bool renew[CLIENTS + 1];  /* a renewal is in the network */
bool flying[CLIENTS + 1]; /* it let go, but its request to the resource is still on its way */

mtype found[RESOLVERS + 1]; /* this finding is in the network */
byte found_fence[RESOLVERS + 1];
byte found_answer[RESOLVERS + 1];

byte other_request; /* this client asks for something else under the same key; drawn at the start */
#define print_of(who) ((who) == other_request -> 2 : 1)

#ifdef RETENTION_DIFFERS /* misuse: two requests for one key, each with its own idea of retention */
#define retention_of(who) ((who) == 2 -> 2 : 1)
#define AGE_MAX 2
#else
#define retention_of(who) 1
#ifdef NO_EXPIRY
#define AGE_MAX 0
#else
#define AGE_MAX 1
#endif
#endif

/* ---- The store ---- */

byte next_fence = 1;
byte age; /* of the key, in retentions */

#include "decide.pml"

Record mem;          /* what the store decides on */
Record disk;         /* what a power cut leaves */
byte disk_fence = 1; /* next_fence, likewise */
bool dirty;          /* mem has what disk has not */

/* ---- The outside ---- */

byte effects; /* how often the effect happened; stops counting at 2 */
byte holds;   /* whose effect the resource holds: a later one replaces an earlier */
byte guard;   /* FENCED, LOOK: the highest fence the resource has seen */

/* What only an observer of everything knows. */
byte highest_told; /* the highest fence any client was told */
byte ended;        /* the highest fence whose attempt has ended */
bool completed;    /* a complete, or a resolve DONE, was accepted */
bool answered;     /* someone was told the answer */

#define MAY_ACT(i) \
    (stage[i] == RUNNING || flying[i] || (stage[i] == ASKING && mail[i].word == EXECUTE))
#if CLIENTS > 2
#define ANYONE_MAY_ACT (MAY_ACT(1) || MAY_ACT(2) || MAY_ACT(3))
#else
#define ANYONE_MAY_ACT (MAY_ACT(1) || MAY_ACT(2))
#endif

#include "client.pml"
#include "store.pml"

/* ---- Time, power, and people ---- */

#define ENDED(r) (r.state == COMPLETED || r.state == FAILED)

proctype clock()
{
    do
    :: d_step {
           mem.state == STARTED && !mem.lease_over ->
           mem.lease_over = true;
#ifndef TIME_RUNS_BACK /* mistake against INV-6: a restart brings the lease back to life */
           disk.lease_over = (disk.lease_over || disk.fence == mem.fence);
#endif
           printf("clock: the lease of fence %d is over\n", mem.fence)
       }
    :: d_step {
           ENDED(mem) && !mem.expired && age >= mem.retention ->
           mem.expired = true;
           disk.expired = (disk.expired || (disk.fence == mem.fence && ENDED(disk)));
           printf("clock: the retention is over, the record has expired\n")
       }
    :: d_step {
           age < AGE_MAX ->
           age++;
           printf("clock: the key is %d retention(s) old\n", age)
       }
    od
}

inline lose_untold(i)
{
    if
    :: mail[i].held ->
        visit(untold_word_lost);
        mail[i].word = 0;
        mail[i].number = 0;
        mail[i].held = false
    :: else -> skip
    fi
}

proctype power()
{
    do
    :: d_step {
           dirty ->
           printf("disk: all that was decided is durable\n");
           copy(disk, mem);
           disk_fence = next_fence;
           dirty = false;
#if CLIENTS > 2
           mail[3].held = false;
#endif
           mail[2].held = false;
           mail[1].held = false
       }
    :: d_step {
           printf("store: crashes and starts again\n");
           copy(mem, disk);
#ifdef FENCE_RESET /* mistake: the counter is rebuilt from the records that are still there */
           next_fence = mem.fence + 1;
#else
           next_fence = disk_fence;
#endif
           dirty = false;
#if CLIENTS > 2
           lose_untold(3);
#endif
           lose_untold(2);
           lose_untold(1)
       }
    od
}

#ifdef HASTY_RESOLVE /* misuse: "it has not happened" is not yet "it will not happen any more" */
#define TRUTH_IS_FINAL true
#else
#define TRUTH_IS_FINAL (!ANYONE_MAY_ACT)
#endif

#ifdef RESOLVE_UNFENCED /* misuse: the finding does not say which doubt it is about */
#define LOOKED_AT 0
#else
#define LOOKED_AT mem.fence
#endif

/* A person or a reconciler looks at a doubt, finds out the truth, and says so. Resolvers are alike,
 * so they are numbered in the order in which they look. */
proctype resolver(byte me)
{
    d_step {
        !dirty && STATE_AT(mem) == IN_DOUBT && TRUTH_IS_FINAL && (me == 1 || found[me - 1] != 0) ->
        found[me] = (effects > 0 -> FOUND_DONE : FOUND_NOT_DONE);
        found_fence[me] = LOOKED_AT;
        found_answer[me] = (effects > 0 -> holds : 0);
        printf("resolver %d: %e about fence %d\n", me, found[me], mem.fence)
    }
}

init
{
    atomic {
        clear(mem);
        clear(disk);
        if
        :: skip
#ifndef ONE_REQUEST
        :: other_request = 2
#if CLIENTS > 2
        :: other_request = 3
#endif
#endif
        fi;
        stage[1] = ASKING;
        run client(1);
        run client(2);
#if CLIENTS > 2
        run client(3);
#endif
        run worker(1);
#ifdef NON_ATOMIC /* where a decision is one step, a second worker does nothing a first could not */
        run worker(2);
#endif
        run clock();
#if RESOLVERS > 0
        run resolver(1);
#endif
#if RESOLVERS > 1
        run resolver(2);
#endif
        if
        :: POWER_CUTS -> run power()
        :: else -> skip
        fi
    }
}
