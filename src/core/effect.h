/* SPDX-License-Identifier: Apache-2.0
 *
 * Effects: what `apply` does to one object, as pure steps on small values, and what is true of
 * each.
 *
 * A step meets the object's value and says CHANGED, UNCHANGED (there was nothing to do) or one of
 * the rejections. Only CHANGED writes the value. An object that nobody touched is all zero. Numbers
 * cannot overflow: what would leave its range is rejected.
 *
 * UNION, CLOCK, LWW, GADD, PNADD, INSERT and REMOVE act on mergeable states; their steps are the
 * mutators of <once/lattice.h>. They are in the table below because the table is the whole list.
 *
 * The contracts are proved by Frama-C on the shipping effect.c, and the laws that follow from them
 * in proof/effect_laws.c. `once laws` runs the same steps and shows the laws that fail.
 */
#ifndef ONCE_CORE_EFFECT_H
#define ONCE_CORE_EFFECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <once/bytes.h>
#include <once/limits.h>

#include "base/bytes.h"

/* X(name, text). The rejections are everything after UNCHANGED. */
#define ONCE__EFFECT_WORDS(X)                                                                      \
    X(CHANGED, "changed")                                                                          \
    X(UNCHANGED, "there was nothing to do")                                                        \
    X(OVERFLOW, "the number would leave its range")                                                \
    X(BELOW_MIN, "the counter would fall below its minimum")                                       \
    X(ABOVE_MAX, "the counter would rise above its maximum")                                       \
    X(VERSION, "the object is at another version")                                                 \
    X(NO_STATE, "the machine has no such state")                                                   \
    X(NO_MOVE, "the machine has no such move")                                                     \
    X(ELSEWHERE, "the machine is in another state")                                                \
    X(REDECLARED, "the machine is declared already, and differently")                              \
    X(STALE, "the token is old, used up or was never given")                                       \
    X(FENCED, "a newer epoch exists")                                                              \
    X(GAP, "a sequence number before this one is missing")                                         \
    X(HELD, "someone else holds the lease")                                                        \
    X(NO_MESSAGE, "the outbox never gave this number")

enum once__effect_word {
#define ONCE__EFFECT_ENUM(name, text) ONCE__EFFECT_##name,
    ONCE__EFFECT_WORDS(ONCE__EFFECT_ENUM)
#undef ONCE__EFFECT_ENUM
        ONCE__EFFECT_WORD_COUNT
};

/* "the object is at another version". Never NULL; the text is static. */
/*@ terminates \true;
  @ assigns \nothing;
  @*/
const char *once__effect_word_text(enum once__effect_word word);

/*@ predicate rejected(integer word) =
  @   ONCE__EFFECT_UNCHANGED < word < ONCE__EFFECT_WORD_COUNT;
  @*/
/*@ requires known: 0 <= word < ONCE__EFFECT_WORD_COUNT;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result <==> rejected(word);
  @*/
static inline bool once__effect_rejected(enum once__effect_word word)
{
    return word > ONCE__EFFECT_UNCHANGED;
}

/* --- Counters: ADD name n [MIN m] [MAX m] --- */

/* Both ends belong to the range. Without MIN or MAX they are the ends of int64_t. */
struct once__range {
    int64_t min;
    int64_t max;
};

/*@ predicate within(integer value, struct once__range range) = range.min <= value <= range.max; */

/* The sum must lie in the range, or nothing happens. */
/*@ requires \valid(value);
  @ terminates \true;
  @ assigns *value;
  @ ensures adds: within(\old(*value) + n, range) ==> *value == \old(*value) + n
  @   && \result == (n == 0 ? ONCE__EFFECT_UNCHANGED : ONCE__EFFECT_CHANGED);
  @ ensures refuses: !within(\old(*value) + n, range) ==> rejected(\result);
  @ ensures rejected_is_unchanged: \result != ONCE__EFFECT_CHANGED ==> *value == \old(*value);
  @ ensures stays_within: within(\old(*value), range) ==> within(*value, range);
  @*/
enum once__effect_word once__effect_add(int64_t *value, int64_t n, struct once__range range);

/* --- MAX name n, MIN name n, FLAG name --- */

struct once__extreme {
    bool present; /* false until the first MAX or MIN; then value counts */
    int64_t value;
};

/*@ requires \valid(extreme);
  @ terminates \true;
  @ assigns *extreme;
  @ ensures takes: !\old(extreme->present) || n > \old(extreme->value) ==>
  @   \result == ONCE__EFFECT_CHANGED && extreme->present && extreme->value == n;
  @ ensures keeps: \old(extreme->present) && n <= \old(extreme->value) ==>
  @   \result == ONCE__EFFECT_UNCHANGED && *extreme == \old(*extreme);
  @*/
enum once__effect_word once__effect_max(struct once__extreme *extreme, int64_t n);

/*@ requires \valid(extreme);
  @ terminates \true;
  @ assigns *extreme;
  @ ensures takes: !\old(extreme->present) || n < \old(extreme->value) ==>
  @   \result == ONCE__EFFECT_CHANGED && extreme->present && extreme->value == n;
  @ ensures keeps: \old(extreme->present) && n >= \old(extreme->value) ==>
  @   \result == ONCE__EFFECT_UNCHANGED && *extreme == \old(*extreme);
  @*/
enum once__effect_word once__effect_min(struct once__extreme *extreme, int64_t n);

/*@ requires \valid(flag);
  @ terminates \true;
  @ assigns *flag;
  @ ensures raised: *flag;
  @ ensures exact: \result == (\old(*flag) ? ONCE__EFFECT_UNCHANGED : ONCE__EFFECT_CHANGED);
  @*/
enum once__effect_word once__effect_flag(bool *flag);

/* --- Registers: SET name value [IF version], DELETE name [IF version] --- */

/* A register's version grows with every SET and with every DELETE that found something, and
 * outlives the value: what stays behind is the tombstone that refuses a late SET … IF. Version 0
 * was never set. */
struct once__register {
    uint64_t version;
    bool present;
    struct once_bytes value; /* borrowed; empty unless present */
};

/* IF version, AT version; or neither. */
struct once__expected {
    bool given;
    uint64_t version;
};

/*@ predicate register_ok(struct once__register *r) = r->version <= ONCE_VERSION_MAX;
  @ predicate meets(struct once__expected expected, integer version) =
  @   !expected.given || expected.version == version;
  @*/

/* A SET without IF always takes a new version, even when the value is the same: somebody wrote. */
/*@ requires \valid(reg) && register_ok(reg);
  @ terminates \true;
  @ assigns *reg;
  @ ensures sets:
  @   meets(expected, \old(reg->version)) && \old(reg->version) < ONCE_VERSION_MAX ==>
  @     \result == ONCE__EFFECT_CHANGED && reg->present && reg->value == value
  @     && reg->version == \old(reg->version) + 1;
  @ ensures refuses:
  @   !meets(expected, \old(reg->version)) || \old(reg->version) == ONCE_VERSION_MAX ==>
  @     rejected(\result) && *reg == \old(*reg);
  @ ensures valid: register_ok(reg);
  @*/
enum once__effect_word once__effect_set(struct once__register *reg, struct once_bytes value,
                                        struct once__expected expected);

/* Deleting what is not there is a no-op: a repeated DELETE … IF finds its work done. Only a
 * version that never was is refused there too, or a copy of it could come back later and delete
 * what that version holds. */
/*@ requires \valid(reg) && register_ok(reg);
  @ terminates \true;
  @ assigns *reg;
  @ ensures deletes:
  @   \old(reg->present) && meets(expected, \old(reg->version))
  @   && \old(reg->version) < ONCE_VERSION_MAX ==>
  @     \result == ONCE__EFFECT_CHANGED && !reg->present && reg->value.size == 0
  @     && reg->version == \old(reg->version) + 1;
  @ ensures nothing_there:
  @   !\old(reg->present) && (!expected.given || expected.version <= \old(reg->version)) ==>
  @     \result == ONCE__EFFECT_UNCHANGED;
  @ ensures refuses:
  @   \old(reg->present)
  @   && (!meets(expected, \old(reg->version)) || \old(reg->version) == ONCE_VERSION_MAX)
  @   || expected.given && expected.version > \old(reg->version) ==> rejected(\result);
  @ ensures only_changed_writes: \result != ONCE__EFFECT_CHANGED ==> *reg == \old(*reg);
  @ ensures valid: register_ok(reg);
  @*/
enum once__effect_word once__effect_delete(struct once__register *reg,
                                           struct once__expected expected);

/* --- State machines: MACHINE name from>to…, MOVE name from to --- */

/* States are numbered in the order in which they were declared; a machine begins in state 0. */
struct once__machine {
    uint32_t state_count;                 /* 0: not declared */
    uint64_t to[ONCE_MACHINE_STATES_MAX]; /* bit j of to[i]: i>j may happen */
};

/*@ predicate machine_ok(struct once__machine *m) = m->state_count <= ONCE_MACHINE_STATES_MAX;
  @ predicate same_machine{L1, L2}(struct once__machine *a, struct once__machine *b) =
  @   \at(a->state_count, L1) == \at(b->state_count, L2)
  @   && (\forall integer i; 0 <= i < ONCE_MACHINE_STATES_MAX ==>
  @         \at(a->to[i], L1) == \at(b->to[i], L2));
  @ predicate has_move(struct once__machine *m, integer from, integer to) =
  @   (((uint64_t)(m->to[from] >> to)) & 1) == 1;
  @*/

/* A machine is declared once. The same again is a no-op; another one is refused, because objects
 * are already somewhere in the first. */
/*@ requires \valid(machine) && \valid_read(declared) && \separated(machine, declared);
  @ requires machine_ok(machine) && machine_ok(declared) && declared->state_count > 0;
  @ terminates \true;
  @ assigns *machine;
  @ ensures declares: \old(machine->state_count) == 0 ==>
  @   \result == ONCE__EFFECT_CHANGED && same_machine{Here, Here}(machine, declared);
  @ ensures again:
  @   \old(machine->state_count) != 0 && same_machine{Pre, Here}(machine, declared) ==>
  @     \result == ONCE__EFFECT_UNCHANGED;
  @ ensures refuses:
  @   \old(machine->state_count) != 0 && !same_machine{Pre, Here}(machine, declared) ==>
  @     rejected(\result);
  @ ensures declared_once:
  @   \old(machine->state_count) != 0 ==> same_machine{Pre, Here}(machine, machine);
  @ ensures valid: machine_ok(machine);
  @*/
enum once__effect_word once__effect_machine(struct once__machine *machine,
                                            const struct once__machine *declared);

struct once__move {
    uint32_t from;
    uint32_t to;
};

/* Arriving where one already is, is a no-op. Anything else must be declared and must start here. */
/*@ requires \valid_read(machine) && \valid(at) && machine_ok(machine);
  @ requires \separated(machine, at);
  @ terminates \true;
  @ assigns *at;
  @ ensures arrived: \result == ONCE__EFFECT_UNCHANGED <==>
  @   (move.from < machine->state_count && move.to < machine->state_count && move.to == \old(*at));
  @ ensures moves: \result == ONCE__EFFECT_CHANGED <==>
  @   (move.from < machine->state_count && move.to < machine->state_count
  @    && move.to != \old(*at) && move.from == \old(*at)
  @    && has_move(machine, move.from, move.to));
  @ ensures goes_there: \result == ONCE__EFFECT_CHANGED ==> *at == move.to;
  @ ensures stays: \result != ONCE__EFFECT_CHANGED ==> *at == \old(*at);
  @ ensures word: 0 <= \result < ONCE__EFFECT_WORD_COUNT;
  @ ensures valid: \old(*at) < machine->state_count ==> *at < machine->state_count;
  @*/
enum once__effect_word once__effect_move(uint32_t *at, struct once__move move,
                                         const struct once__machine *machine);

/* True when some state can be left and reached again. There a late duplicate of a MOVE can move
 * a second time, so it needs a key; in a machine without a cycle it does not. A move from a
 * state to itself is never more than a no-op, and is no cycle. */
/*@ requires \valid_read(machine) && machine_ok(machine);
  @ terminates \true;
  @ assigns \nothing;
  @*/
bool once__machine_has_cycle(const struct once__machine *machine);

/* --- Fences: GRANT name, GUARD name token --- */

/* The new token is *token, larger than every one before. */
/*@ requires \valid(token) && *token <= ONCE_FENCE_MAX;
  @ terminates \true;
  @ assigns *token;
  @ ensures grants: \old(*token) < ONCE_FENCE_MAX ==>
  @   \result == ONCE__EFFECT_CHANGED && *token == \old(*token) + 1;
  @ ensures exhausted: \old(*token) == ONCE_FENCE_MAX ==>
  @   rejected(\result) && *token == \old(*token);
  @*/
enum once__effect_word once__effect_grant(uint64_t *token);

/* Rejects a token at or below the highest (S4): also the same token again. So a token guards one
 * write, a repeated write is refused without a key, and a holder that writes twice asks for two
 * tokens. Tokens that no GRANT can give are refused, or one typing mistake would lock everybody
 * out. */
/*@ requires \valid(highest) && *highest <= ONCE_FENCE_MAX;
  @ terminates \true;
  @ assigns *highest;
  @ ensures passes: \old(*highest) < token <= ONCE_FENCE_MAX ==>
  @   \result == ONCE__EFFECT_CHANGED && *highest == token;
  @ ensures refuses: token <= \old(*highest) || token > ONCE_FENCE_MAX ==>
  @   rejected(\result) && *highest == \old(*highest);
  @ ensures valid: *highest <= ONCE_FENCE_MAX;
  @*/
enum once__effect_word once__effect_guard(uint64_t *highest, uint64_t token);

/* --- Leases: LEASE name owner ms, RENEW name token ms, RELEASE name token, HOLD name token --- */

/* Times are points of store time. Tokens only grow; who has an older one is refused everything,
 * however long it slept. All zero: never given. */
struct once__lease {
    uint64_t token;          /* the newest that was given; 0: none yet */
    int64_t until_ms;        /* when it may be given to someone else; 0 when released */
    struct once_bytes owner; /* borrowed; empty: nobody's, never given or released */
};

struct once__claim {
    struct once_bytes owner; /* not empty */
    int64_t now_ms;
    int64_t until_ms; /* now and the lease's length */
};

/*@ predicate lease_ok(struct once__lease *l) =
  @   l->token <= ONCE_FENCE_MAX && (l->owner.size > 0 ==> l->token > 0);
  @ predicate leased(struct once__lease *l, integer now) = l->owner.size > 0 && now < l->until_ms;
  @ predicate holds(struct once__lease *l, integer token) =
  @   l->owner.size > 0 && token == l->token;
  @*/

/* The same owner asking again while it has the lease: UNCHANGED, its token and its end stay. While
 * another has it: HELD. Afterwards the owner is borrowed from the claim. */
/*@ requires \valid(lease) && lease_ok(lease);
  @ requires bytes_readable(lease->owner) && bytes_readable(claim.owner) && claim.owner.size > 0;
  @ terminates \true;
  @ assigns *lease;
  @ ensures gives: !leased{Pre}(lease, claim.now_ms) && \old(lease->token) < ONCE_FENCE_MAX ==>
  @   \result == ONCE__EFFECT_CHANGED && lease->token == \old(lease->token) + 1
  @   && lease->until_ms == claim.until_ms && lease->owner == claim.owner;
  @ ensures again: \old(leased(lease, claim.now_ms)
  @   && bytes_same(lease->owner, claim.owner)) ==> \result == ONCE__EFFECT_UNCHANGED;
  @ ensures one_at_a_time: \old(leased(lease, claim.now_ms)
  @   && !bytes_same(lease->owner, claim.owner)) ==> rejected(\result);
  @ ensures end_of_numbers: !leased{Pre}(lease, claim.now_ms)
  @   && \old(lease->token) == ONCE_FENCE_MAX ==> rejected(\result);
  @ ensures only_changed_writes: \result != ONCE__EFFECT_CHANGED ==> *lease == \old(*lease);
  @ ensures valid: lease_ok(lease);
  @*/
enum once__effect_word once__effect_lease(struct once__lease *lease, struct once__claim claim);

struct once__renewal {
    uint64_t token;
    int64_t until_ms; /* now and the lease's length */
};

/* Never shorter than it was. Also after its end, as long as nobody else was given it. */
/*@ requires \valid(lease) && lease_ok(lease);
  @ terminates \true;
  @ assigns lease->until_ms;
  @ ensures extends: holds{Pre}(lease, renewal.token) && renewal.until_ms > \old(lease->until_ms)
  @   ==> \result == ONCE__EFFECT_CHANGED && lease->until_ms == renewal.until_ms;
  @ ensures never_shorter: holds{Pre}(lease, renewal.token)
  @   && renewal.until_ms <= \old(lease->until_ms) ==> \result == ONCE__EFFECT_UNCHANGED;
  @ ensures refuses: !holds{Pre}(lease, renewal.token) ==> rejected(\result);
  @ ensures only_changed_writes: \result != ONCE__EFFECT_CHANGED ==>
  @   lease->until_ms == \old(lease->until_ms);
  @*/
enum once__effect_word once__effect_renew(struct once__lease *lease, struct once__renewal renewal);

/* The owner is empty then and until_ms 0; the token stays, and is refused from now on. Again:
 * UNCHANGED, until the lease is given to someone: then it is STALE as every older token is. */
/*@ requires \valid(lease) && lease_ok(lease);
  @ terminates \true;
  @ assigns lease->until_ms, lease->owner;
  @ ensures releases: holds{Pre}(lease, token) ==> \result == ONCE__EFFECT_CHANGED
  @   && lease->owner.size == 0 && lease->owner.data == \null && lease->until_ms == 0;
  @ ensures again: token > 0 && token == lease->token && \old(lease->owner.size) == 0 ==>
  @   \result == ONCE__EFFECT_UNCHANGED;
  @ ensures refuses: token == 0 || token != lease->token ==> rejected(\result);
  @ ensures only_changed_writes: \result != ONCE__EFFECT_CHANGED ==> *lease == \old(*lease);
  @*/
enum once__effect_word once__effect_release(struct once__lease *lease, uint64_t token);

/* UNCHANGED: the token is the newest, and not released; its time may be over, but nobody was given
 * the lease since. Else STALE. */
/*@ requires \valid_read(lease) && lease_ok(lease);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures passes: holds(lease, token) ==> \result == ONCE__EFFECT_UNCHANGED;
  @ ensures refuses: !holds(lease, token) ==> rejected(\result);
  @*/
enum once__effect_word once__effect_hold(const struct once__lease *lease, uint64_t token);

/* --- Sequences: SEQ name epoch n --- */

/* What one producer has sent. Each epoch counts from 0, as Kafka's producers do. */
struct once__sequence {
    uint64_t epoch;
    uint64_t next; /* the number that comes next in this epoch */
};

/* A place in a producer's stream. */
struct once__position {
    uint64_t epoch;
    uint64_t n;
};

/*@ predicate sequence_ok(struct once__sequence *s) =
  @   s->epoch <= ONCE_VERSION_MAX && s->next <= ONCE_VERSION_MAX;
  @ predicate in_turn(struct once__sequence *s, struct once__position p) =
  @   (p.epoch == s->epoch && p.n == s->next) || (p.epoch > s->epoch && p.n == 0);
  @ predicate seen(struct once__sequence *s, struct once__position p) =
  @   p.epoch == s->epoch && p.n < s->next;
  @*/

/* CHANGED is new, UNCHANGED is a duplicate, FENCED is a zombie's, GAP came too early. */
/*@ requires \valid(sequence) && sequence_ok(sequence);
  @ terminates \true;
  @ assigns *sequence;
  @ ensures takes: in_turn{Pre}(sequence, position)
  @   && position.n < ONCE_VERSION_MAX && position.epoch <= ONCE_VERSION_MAX ==>
  @     \result == ONCE__EFFECT_CHANGED && sequence->epoch == position.epoch
  @     && sequence->next == position.n + 1;
  @ ensures duplicate: seen{Pre}(sequence, position) ==> \result == ONCE__EFFECT_UNCHANGED;
  @ ensures fenced: position.epoch < \old(sequence->epoch) ==> rejected(\result);
  @ ensures gap: position.epoch >= \old(sequence->epoch)
  @   && !in_turn{Pre}(sequence, position) && !seen{Pre}(sequence, position) ==> rejected(\result);
  @ ensures end_of_numbers:
  @   !seen{Pre}(sequence, position)
  @   && (position.n >= ONCE_VERSION_MAX || position.epoch > ONCE_VERSION_MAX) ==>
  @     rejected(\result);
  @ ensures only_changed_writes: \result != ONCE__EFFECT_CHANGED ==> *sequence == \old(*sequence);
  @ ensures valid: sequence_ok(sequence);
  @*/
enum once__effect_word once__effect_seq(struct once__sequence *sequence,
                                        struct once__position position);

/* --- Counts, logs and outboxes: BUCKET, APPEND, EMIT, SENT --- */

/* One bucket of BUCKET name bucket n. */
/*@ requires \valid(count) && *count <= ONCE_BUCKET_COUNT_MAX;
  @ terminates \true;
  @ assigns *count;
  @ ensures adds: \old(*count) + n <= ONCE_BUCKET_COUNT_MAX ==> *count == \old(*count) + n
  @   && \result == (n == 0 ? ONCE__EFFECT_UNCHANGED : ONCE__EFFECT_CHANGED);
  @ ensures refuses: \old(*count) + n > ONCE_BUCKET_COUNT_MAX ==>
  @   rejected(\result) && *count == \old(*count);
  @ ensures valid: *count <= ONCE_BUCKET_COUNT_MAX;
  @*/
enum once__effect_word once__effect_bucket(uint64_t *count, uint64_t n);

/* The version of a log is its number of events. Without AT an APPEND is blind: the log is not
 * searched for the event id, so a repeated one stands there twice unless a key stops it. With AT
 * version it is a guarded write: the event goes right behind that version or nowhere, and
 * finding itself there already is a no-op. */
struct once__append {
    struct once__expected at;
    bool there; /* the event right behind version at is this one: its id, and its payload */
};

/*@ requires \valid(version) && *version <= ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns *version;
  @ ensures appends: meets(append.at, \old(*version)) && \old(*version) < ONCE_VERSION_MAX ==>
  @   \result == ONCE__EFFECT_CHANGED && *version == \old(*version) + 1;
  @ ensures already: append.at.given && append.at.version < \old(*version) && append.there ==>
  @   \result == ONCE__EFFECT_UNCHANGED;
  @ ensures refuses: append.at.given && append.at.version != \old(*version)
  @   && !(append.at.version < \old(*version) && append.there) ==> rejected(\result);
  @ ensures end_of_numbers: meets(append.at, \old(*version))
  @   && \old(*version) == ONCE_VERSION_MAX ==> rejected(\result);
  @ ensures only_changed_writes: \result != ONCE__EFFECT_CHANGED ==> *version == \old(*version);
  @ ensures valid: *version <= ONCE_VERSION_MAX;
  @*/
enum once__effect_word once__effect_append(uint64_t *version, struct once__append append);

/* One more message in the outbox; *count is its number. */
/*@ requires \valid(count) && *count <= ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns *count;
  @ ensures emits: \old(*count) < ONCE_VERSION_MAX ==>
  @   \result == ONCE__EFFECT_CHANGED && *count == \old(*count) + 1;
  @ ensures end_of_numbers: \old(*count) == ONCE_VERSION_MAX ==>
  @   rejected(\result) && *count == \old(*count);
  @*/
enum once__effect_word once__effect_emit(uint64_t *count);

/* Of SENT topic number…, one number. Numbers are never given twice, so what went cannot come back.
 * A number that no EMIT gave yet is refused, or a copy of the SENT could come again later and take
 * the message that has the number by then. */
struct once__receipt {
    uint64_t number;
    uint64_t emitted; /* messages ever: the number of the last */
};

/*@ requires \valid(there);
  @ requires given: *there ==> 0 < receipt.number <= receipt.emitted;
  @ terminates \true;
  @ assigns *there;
  @ ensures goes: \old(*there) ==> \result == ONCE__EFFECT_CHANGED && !*there;
  @ ensures gone: !\old(*there) && 0 < receipt.number <= receipt.emitted ==>
  @   \result == ONCE__EFFECT_UNCHANGED;
  @ ensures refuses: receipt.number == 0 || receipt.number > receipt.emitted ==> rejected(\result);
  @ ensures stays_gone: !\old(*there) ==> !*there;
  @*/
enum once__effect_word once__effect_sent(bool *there, struct once__receipt receipt);

/* --- The table --- */

/* One row a form: the laws of SET and of SET … IF are not the same. */
enum once__effect_id {
    ONCE__ADD,
    ONCE__ADD_BOUNDED,
    ONCE__MAX,
    ONCE__MIN,
    ONCE__FLAG,
    ONCE__UNION,
    ONCE__CLOCK,
    ONCE__LWW,
    ONCE__GADD,
    ONCE__PNADD,
    ONCE__INSERT,
    ONCE__REMOVE,
    ONCE__SET,
    ONCE__SET_IF,
    ONCE__DELETE,
    ONCE__DELETE_IF,
    ONCE__MACHINE,
    ONCE__MOVE,
    ONCE__MOVE_FORWARD,
    ONCE__APPEND,
    ONCE__APPEND_AT,
    ONCE__GRANT,
    ONCE__GUARD,
    ONCE__LEASE,
    ONCE__RENEW,
    ONCE__RELEASE,
    ONCE__HOLD,
    ONCE__SEQ,
    ONCE__BUCKET,
    ONCE__EMIT,
    ONCE__SENT,
    ONCE__EFFECT_COUNT
};

/* The three laws, and the question that decides about a key (A3): can a duplicate that arrives
 * late, after other operations on the object, still change it? docs/laws.md has the definitions. */
struct once__laws {
    bool idempotent;
    bool commutative;
    bool associative;
    bool needs_key;
};

struct once__effect {
    const char *name;    /* "SET" */
    const char *form;    /* the DO form: "SET name value [IF version]" */
    const char *variant; /* which of them this row is about: "SET name value IF version" */
    struct once__laws laws;
};

extern const struct once__effect once__effects[ONCE__EFFECT_COUNT];

#endif
