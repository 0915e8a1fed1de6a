/* SPDX-License-Identifier: Apache-2.0
 *
 * The store of operation.pml at work: a request arrives, the record is read, decide.pml decides,
 * the record is written, and the word is told. What must hold of a decision is checked where it is
 * made.
 */

#ifdef NON_ATOMIC /* mistake: read, think, then write; this is the one the whole project is about */
#define ONE_STEP
#else
#define ONE_STEP atomic
#endif

#if defined(ACK_BEFORE_DURABLE) /* mistake: tell first, sync later */
#define HELD false
#elif defined(REPEAT_BEFORE_DURABLE) /* mistake: what changes nothing waits for nothing */
#define HELD changed
#else
#define HELD dirty
#endif

#ifdef FORGET_ENDED /* misuse: someone forgets an operation whose caller may still retry */
#define MAY_BE_FORGOTTEN true
#else
#define MAY_BE_FORGOTTEN RUNNING_NOW(mem)
#endif

#ifdef NO_POWER_CUTS
#define POWER_CUTS false
#else
#define POWER_CUTS true
#endif

/* Which request arrives: any that was sent. */
#if CLIENTS > 2
#define PICK_CLIENT if :: who = 1 :: stage[2] != 0 -> who = 2 :: stage[3] != 0 -> who = 3 fi
#define PICK_SENDER(of) if :: of[1] -> who = 1 :: of[2] -> who = 2 :: of[3] -> who = 3 fi
#else
#define PICK_CLIENT if :: who = 1 :: stage[2] != 0 -> who = 2 fi
#define PICK_SENDER(of) if :: of[1] -> who = 1 :: of[2] -> who = 2 fi
#endif
#if RESOLVERS > 1
#define PICK_FINDING if :: found[1] -> who = 1 :: found[2] -> who = 2 fi
#elif RESOLVERS > 0
#define PICK_FINDING found[1] -> who = 1
#else
#define PICK_FINDING false
#endif

/* Clients are alike, so they are numbered in the order in which the store first hears of them. */
inline hear()
{
    if
    :: who < CLIENTS && stage[who + 1] == 0 -> stage[who + 1] = ASKING
    :: else -> skip
    fi
}

/* Whether this is the one reply that gets through. */
inline draw_luck(listening)
{
    if
    :: stage[who] == listening && mail[who].word == 0 -> through = true
    :: skip
    fi
}

inline read()
{
    copy(rec, mem);
    copy(next, mem);
#ifdef NON_ATOMIC
    printf("store: worker %d reads the record for client %d: %e\n", number, who, rec.state)
#endif
}

inline write()
{
    if
    :: changed && next.fence == next_fence && next_fence > FENCES ->
        printf("store: ...but that is the bound of this model, so the request was lost\n");
        word = 0;
        changed = false
    :: changed && !(next.fence == next_fence && next_fence > FENCES) ->
        next_fence = (next.fence == next_fence -> next_fence + 1 : next_fence);
        copy(mem, next);
        dirty = POWER_CUTS
    :: else -> skip
    fi
}

/* BUSY asks the client to ask again, which it does anyway. */
inline tell(listening)
{
    if
    :: through && word != 0 && word != BUSY && stage[who] == listening && mail[who].word == 0 ->
        mail[who].word = word;
        mail[who].number = (word == EXECUTE -> next.fence : (word == REPLAY -> next.answer : 0));
        mail[who].held = HELD
    :: else -> skip
    fi
}

inline note_end()
{
    ended = (changed && word == DONE && rec.fence > ended -> rec.fence : ended);
    completed = (completed || (changed && next.state == COMPLETED))
}

inline handle_begin()
{
    decide_begin(who);
    printf("store: begin of client %d -> %e; %e, fence %d\n", who, word, next.state, next.fence);
    must(mismatch_first, STATE_AT(rec) == ABSENT || rec.print == print_of(who) || word == MISMATCH);
    must(started_stays, STATE_AT(rec) != ABSENT || highest_told <= ended);
    must(answer_kept, !answered || word == REPLAY || word == MISMATCH || word == TOO_OLD);
    must(fences_grow, word != EXECUTE || !changed || next.fence > highest_told);
    must(one_live_lease, word != EXECUTE || !changed || mem.state != STARTED || mem.lease_over);
    if
    :: word == EXECUTE && !changed -> visit(owner_asks_again)
    :: word == EXECUTE && changed && STATE_AT(rec) == FAILED -> visit(runs_after_failed)
    :: word == EXECUTE && changed && STATE_AT(rec) == IN_DOUBT -> visit(takes_over)
    :: word == BUSY -> visit(told_busy)
    :: else -> skip
    fi;
    write();
    tell(ASKING)
}

inline handle_call()
{
    if
    :: call[who] == COMPLETE -> decide_complete(fence[who], answer[who])
    :: call[who] == FAIL -> decide_fail(fence[who])
    :: call[who] == FORGET -> decide_forget(fence[who])
    :: call[who] == LET_GO -> decide_renew(fence[who], false)
    fi;
    printf("store: %e of client %d with fence %d -> %e; %e, fence %d\n", call[who], who,
           fence[who], word, next.state, next.fence);
    must(stale_refused, !changed || fence[who] >= highest_told);
    if
    :: changed && next.state == COMPLETED && STATE_AT(rec) == IN_DOUBT ->
        visit(late_owner_completes)
    :: else -> skip
    fi;
    if
    :: call[who] != LET_GO -> note_end()
    :: else -> skip
    fi;
    write();
    tell(WAITING)
}

/* Its sender does not wait for the reply; a client that does is a client that sees it late. */
inline handle_renew()
{
    decide_renew(fence[who], true);
    printf("store: RENEW of client %d with fence %d -> %e; %e\n", who, fence[who], word,
           next.state);
    must(stale_refused, !changed || fence[who] >= highest_told);
    if
    :: word == DOUBT -> visit(renewed_too_late)
    :: else -> skip
    fi;
    write()
}

/* Someone who waited long enough asks to delete the record without naming a fence. Forgetting what
 * has ended is its user's own decision (FORGET_ENDED), so this is about running operations. */
inline handle_unfenced_forget()
{
    decide_forget(0);
    printf("store: FORGET without a fence -> %e; %e\n", word, next.state);
    if
    :: !changed -> visit(unfenced_forget_refused)
    :: else -> skip
    fi;
    write()
}

inline handle_resolve()
{
    decide_resolve(found[who] == FOUND_DONE, found_fence[who], found_answer[who]);
    printf("store: %e about fence %d -> %e; %e, fence %d\n", found[who], found_fence[who], word,
           next.state, next.fence);
    if
    :: changed && next.state == COMPLETED -> visit(resolved_done)
    :: changed && next.state == FAILED -> visit(resolved_not_done)
    :: word == STALE -> visit(resolved_too_late)
    :: else -> skip
    fi;
    note_end();
    write()
}

inline finish()
{
    clear(rec);
    clear(next);
    word = 0;
    changed = false;
    through = false;
    who = 0
}

proctype worker(byte number)
{
    Record rec;
    Record next;
    mtype word;
    bool changed;
    bool through;
    byte who;

    d_step { clear(rec); clear(next) };
    do
    :: ONE_STEP {
           atomic { PICK_CLIENT; hear(); draw_luck(ASKING); read() };
           d_step { handle_begin(); finish() }
       }
    :: ONE_STEP {
           atomic { PICK_SENDER(call); draw_luck(WAITING); read() };
           d_step { handle_call(); finish() }
       }
    :: ONE_STEP {
           atomic { PICK_SENDER(renew); read() };
           d_step { handle_renew(); finish() }
       }
    :: ONE_STEP {
           atomic { MAY_BE_FORGOTTEN -> read() };
           d_step { handle_unfenced_forget(); finish() }
       }
    :: ONE_STEP {
           atomic { PICK_FINDING; read() };
           d_step { handle_resolve(); finish() }
       }
    od
}
