/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws of the effects, written for the prover; never compiled into anything.
 *
 * Each law_ function calls the shipping steps of src/core/effect.c and must return true whatever
 * its arguments are. WP knows the steps by their contracts in effect.h, which it proves on
 * effect.c. There is a law here for each "yes" of the table once__effects (UNION, CLOCK and LWW are
 * merges: laws.c; GADD, PNADD, INSERT and REMOVE are tested), and for each "needs no key": there
 * the proof is by induction. One law says that whatever happens to the object only moves it up,
 * another that an operation whose effect lies below is a no-op or refused; so a duplicate changes
 * nothing however late it comes.
 *
 * "Regroups" is associativity: two neighbours handed over as one do what they do one after the
 * other. Where one apply with both is the only way to do that, it is enough that neither is ever
 * rejected.
 */
#include "core/effect.h"

/* ADD. Without bounds as long as no sum leaves 64 bits; there the counter has bounds like any
 * other. */

/*@ requires fits: INT64_MIN <= s + x <= INT64_MAX && INT64_MIN <= s + y <= INT64_MAX
  @   && INT64_MIN <= s + x + y <= INT64_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_add_commutative(int64_t s, int64_t x, int64_t y)
{
    const struct once__range all = {INT64_MIN, INT64_MAX};
    int64_t a = s, b = s;

    once__effect_add(&a, x, all);
    once__effect_add(&a, y, all);
    once__effect_add(&b, y, all);
    once__effect_add(&b, x, all);
    return a == b;
}

/*@ requires fits: INT64_MIN <= s + x <= INT64_MAX && INT64_MIN <= x + y <= INT64_MAX
  @   && INT64_MIN <= s + x + y <= INT64_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_add_regroups(int64_t s, int64_t x, int64_t y)
{
    const struct once__range all = {INT64_MIN, INT64_MAX};
    int64_t a = s, b = s;

    once__effect_add(&a, x, all);
    once__effect_add(&a, y, all);
    once__effect_add(&b, x + y, all);
    return a == b;
}

/*@ requires within(s, range);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_add_stays_within_its_bounds(int64_t s, int64_t x, struct once__range range)
{
    once__effect_add(&s, x, range);
    return range.min <= s && s <= range.max;
}

/* MAX, MIN. */

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result <==> (a.present <==> b.present) && (a.present ==> a.value == b.value); */
static bool same_extreme(struct once__extreme a, struct once__extreme b)
{
    return a.present == b.present && (!a.present || a.value == b.value);
}

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_max_idempotent(struct once__extreme s, int64_t x)
{
    struct once__extreme twice;

    once__effect_max(&s, x);
    twice = s;
    once__effect_max(&twice, x);
    return same_extreme(s, twice);
}

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_max_commutative(struct once__extreme s, int64_t x, int64_t y)
{
    struct once__extreme a = s, b = s;

    once__effect_max(&a, x);
    once__effect_max(&a, y);
    once__effect_max(&b, y);
    once__effect_max(&b, x);
    return same_extreme(a, b);
}

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_max_regroups(struct once__extreme s, int64_t x, int64_t y)
{
    struct once__extreme a = s, b = s;

    once__effect_max(&a, x);
    once__effect_max(&a, y);
    once__effect_max(&b, x > y ? x : y);
    return same_extreme(a, b);
}

/* Late duplicates, by induction on what happens in between: the number only moves one way. */
/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_max_never_goes_back(struct once__extreme s, int64_t y)
{
    struct once__extreme before = s;

    once__effect_max(&s, y);
    return s.present && (!before.present || s.value == before.value || s.value > before.value);
}

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_max_late_duplicate(struct once__extreme s, struct once__extreme later, int64_t x)
{
    once__effect_max(&s, x);
    if (!later.present || (later.value != s.value && !(later.value > s.value)))
        return true;
    return once__effect_max(&later, x) == ONCE__EFFECT_UNCHANGED;
}

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_min_idempotent(struct once__extreme s, int64_t x)
{
    struct once__extreme twice;

    once__effect_min(&s, x);
    twice = s;
    once__effect_min(&twice, x);
    return same_extreme(s, twice);
}

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_min_commutative(struct once__extreme s, int64_t x, int64_t y)
{
    struct once__extreme a = s, b = s;

    once__effect_min(&a, x);
    once__effect_min(&a, y);
    once__effect_min(&b, y);
    once__effect_min(&b, x);
    return same_extreme(a, b);
}

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_min_regroups(struct once__extreme s, int64_t x, int64_t y)
{
    struct once__extreme a = s, b = s;

    once__effect_min(&a, x);
    once__effect_min(&a, y);
    once__effect_min(&b, x < y ? x : y);
    return same_extreme(a, b);
}

/* Late duplicates, by induction on what happens in between: the number only moves one way. */
/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_min_never_goes_back(struct once__extreme s, int64_t y)
{
    struct once__extreme before = s;

    once__effect_min(&s, y);
    return s.present && (!before.present || s.value == before.value || s.value < before.value);
}

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_min_late_duplicate(struct once__extreme s, struct once__extreme later, int64_t x)
{
    once__effect_min(&s, x);
    if (!later.present || (later.value != s.value && !(later.value < s.value)))
        return true;
    return once__effect_min(&later, x) == ONCE__EFFECT_UNCHANGED;
}

/* FLAG. */

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_flag_idempotent_commutative_regroups(bool s)
{
    bool one = s, two = s;

    once__effect_flag(&one);
    once__effect_flag(&two);
    once__effect_flag(&two);
    return one == two && one;
}

/* SET, DELETE. */

/*@ predicate same_reg(struct once__register a, struct once__register b) =
  @   a.version == b.version && (a.present <==> b.present)
  @   && a.value.data == b.value.data && a.value.size == b.value.size;
  @*/
/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result <==> same_reg(a, b); */
static bool same_register(struct once__register a, struct once__register b)
{
    return a.version == b.version && a.present == b.present && a.value.data == b.value.data &&
           a.value.size == b.value.size;
}

/*@ requires s.version < ONCE_VERSION_MAX - 1;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_set_idempotent_on_the_value(struct once__register s, struct once_bytes x)
{
    const struct once__expected any = {false, 0};
    struct once__register twice;

    once__effect_set(&s, x, any);
    twice = s;
    once__effect_set(&twice, x, any);
    return s.present && twice.present && s.value.data == twice.value.data &&
           s.value.size == twice.value.size;
}

/*@ requires s.version < ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_set_regroups_because_it_is_not_rejected(struct once__register s, struct once_bytes x)
{
    const struct once__expected any = {false, 0};

    return !once__effect_rejected(once__effect_set(&s, x, any));
}

/*@ requires s.version < ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_delete_regroups_because_it_is_not_rejected(struct once__register s)
{
    const struct once__expected any = {false, 0};

    return !once__effect_rejected(once__effect_delete(&s, any));
}

/*@ requires s.version <= ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_set_if_idempotent(struct once__register s, struct once_bytes x, uint64_t version)
{
    const struct once__expected expected = {true, version};
    struct once__register twice;

    once__effect_set(&s, x, expected);
    twice = s;
    once__effect_set(&twice, x, expected);
    return same_register(s, twice);
}

/*@ requires s.version < ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_delete_idempotent_and_commutative(struct once__register s)
{
    const struct once__expected any = {false, 0};
    struct once__register twice;

    once__effect_delete(&s, any);
    twice = s;
    once__effect_delete(&twice, any);
    return same_register(s, twice);
}

/*@ requires s.version <= ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_delete_if_idempotent(struct once__register s, uint64_t version)
{
    const struct once__expected expected = {true, version};
    struct once__register twice;

    once__effect_delete(&s, expected);
    twice = s;
    once__effect_delete(&twice, expected);
    return same_register(s, twice);
}

/*@ requires s.version < ONCE_VERSION_MAX;
  @ requires s.present || s.value.data == \null && s.value.size == 0;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_delete_if_commutative(struct once__register s, uint64_t x, uint64_t y)
{
    const struct once__expected if_x = {true, x};
    const struct once__expected if_y = {true, y};
    struct once__register a = s, b = s;

    once__effect_delete(&a, if_x);
    once__effect_delete(&a, if_y);
    once__effect_delete(&b, if_y);
    once__effect_delete(&b, if_x);
    return a.version == b.version && a.present == b.present && a.value.size == b.value.size;
}

/* Late duplicates, by induction on what happens in between: the version never falls. */
/*@ requires s.version <= ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_register_never_goes_back(struct once__register s, struct once_bytes y, bool set,
                                  struct once__expected expected)
{
    uint64_t before = s.version;
    enum once__effect_word word = set ? once__effect_set(&s, y, expected)
                                      : once__effect_delete(&s, expected);

    return word == ONCE__EFFECT_CHANGED ? s.version > before : s.version == before;
}

/*@ requires s.version <= ONCE_VERSION_MAX;
  @ requires later.version <= ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_set_if_late_duplicate(struct once__register s, struct once__register later,
                               struct once_bytes x, uint64_t version)
{
    const struct once__expected expected = {true, version};
    enum once__effect_word word = once__effect_set(&s, x, expected);

    if (once__effect_rejected(word) || later.version < s.version)
        return true;
    return once__effect_set(&later, x, expected) != ONCE__EFFECT_CHANGED;
}

/*@ requires s.version <= ONCE_VERSION_MAX;
  @ requires later.version <= ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_delete_if_late_duplicate(struct once__register s, struct once__register later,
                                  uint64_t version)
{
    const struct once__expected expected = {true, version};
    enum once__effect_word word = once__effect_delete(&s, expected);

    /* Later is at a higher version, or nothing has happened since. */
    if (once__effect_rejected(word) || later.version < s.version ||
        (later.version == s.version && later.present != s.present))
        return true;
    return once__effect_delete(&later, expected) != ONCE__EFFECT_CHANGED;
}

/* MACHINE, MOVE. */

/*@ requires \valid(s) && \valid_read(x) && \valid_read(y);
  @ requires \separated(s, x) && \separated(s, y);
  @ requires machine_ok(s) && machine_ok(x) && machine_ok(y);
  @ requires x->state_count > 0 && y->state_count > 0;
  @ terminates \true;
  @ assigns *s;
  @ ensures \result; */
bool law_machine_idempotent_and_late_duplicate(struct once__machine *s,
                                               const struct once__machine *x,
                                               const struct once__machine *y)
{
    enum once__effect_word word = once__effect_machine(s, x);

    once__effect_machine(s, y);
    return once__effect_rejected(word) || once__effect_machine(s, x) == ONCE__EFFECT_UNCHANGED;
}

/*@ requires \valid_read(m) && machine_ok(m);
  @ requires s < m->state_count;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_move_idempotent(uint32_t s, struct once__move x, const struct once__machine *m)
{
    uint32_t twice;

    once__effect_move(&s, x, m);
    twice = s;
    once__effect_move(&twice, x, m);
    return s == twice;
}

/* A machine without a cycle: its states have ranks, and every move but a stay leads to a higher
 * one. */
/*@ predicate forward(struct once__machine *m, uint32_t *rank) =
  @   \forall integer i, j; 0 <= i < m->state_count && 0 <= j < m->state_count && i != j
  @     && has_move(m, i, j) ==> rank[i] < rank[j];
  @*/
/*@ requires \valid_read(m) && machine_ok(m) && \valid_read(rank + (0 .. 63));
  @ requires s < m->state_count && forward(m, rank);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_move_forward_never_goes_back(uint32_t s, struct once__move y,
                                      const struct once__machine *m, const uint32_t *rank)
{
    uint32_t before = s;
    enum once__effect_word word = once__effect_move(&s, y, m);

    return word == ONCE__EFFECT_CHANGED ? rank[s] > rank[before] : s == before;
}

/*@ requires \valid_read(m) && machine_ok(m) && \valid_read(rank + (0 .. 63));
  @ requires s < m->state_count && later < m->state_count && forward(m, rank);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_move_forward_late_duplicate(uint32_t s, uint32_t later, struct once__move x,
                                     const struct once__machine *m, const uint32_t *rank)
{
    enum once__effect_word word;

    /*@ assert x_leads_up: x.from < m->state_count && x.to < m->state_count && x.from != x.to
      @   && has_move(m, x.from, x.to) ==> rank[x.from] < rank[x.to];
      @*/
    word = once__effect_move(&s, x, m);
    /*@ assert still: x.from < m->state_count && x.to < m->state_count && x.from != x.to
      @   && has_move(m, x.from, x.to) ==> rank[x.from] < rank[x.to];
      @*/
    if (once__effect_rejected(word) || (later != s && rank[later] <= rank[s]))
        return true;
    /*@ assert there: s == x.to; */
    return once__effect_move(&later, x, m) != ONCE__EFFECT_CHANGED;
}

/* GRANT, GUARD. */

/*@ requires s < ONCE_FENCE_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_grant_is_larger_and_regroups_because_it_is_not_rejected(uint64_t s)
{
    uint64_t before = s;

    return once__effect_grant(&s) == ONCE__EFFECT_CHANGED && s > before;
}

/*@ requires s <= ONCE_FENCE_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_guard_idempotent(uint64_t s, uint64_t x)
{
    uint64_t twice;

    once__effect_guard(&s, x);
    twice = s;
    once__effect_guard(&twice, x);
    return s == twice;
}

/*@ requires s <= ONCE_FENCE_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_guard_commutative(uint64_t s, uint64_t x, uint64_t y)
{
    uint64_t a = s, b = s;

    once__effect_guard(&a, x);
    once__effect_guard(&a, y);
    once__effect_guard(&b, y);
    once__effect_guard(&b, x);
    return a == b;
}

/* Late duplicates: whatever was seen since, the highest has not fallen, and x is stale. */
/*@ requires s <= ONCE_FENCE_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_guard_refuses_the_stale(uint64_t s, uint64_t x)
{
    uint64_t before = s;
    enum once__effect_word word = once__effect_guard(&s, x);

    return s >= before && (x > before || (once__effect_rejected(word) && s == before));
}

/* LEASE, RENEW, RELEASE, HOLD. */

/*@ predicate lease_value_ok(struct once__lease l) =
  @   l.token <= ONCE_FENCE_MAX && (l.owner.size > 0 ==> l.token > 0) && bytes_readable(l.owner);
  @ predicate claim_ok(struct once__claim c) =
  @   c.owner.size > 0 && bytes_readable(c.owner) && c.now_ms < c.until_ms;
  @*/

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result <==> a.token == b.token && a.until_ms == b.until_ms
  @   && a.owner.size == b.owner.size && a.owner.data == b.owner.data; */
static bool same_lease(struct once__lease a, struct once__lease b)
{
    return a.token == b.token && a.until_ms == b.until_ms && a.owner.size == b.owner.size &&
           a.owner.data == b.owner.data;
}

/*@ requires lease_value_ok(s) && claim_ok(x);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_lease_idempotent(struct once__lease s, struct once__claim x)
{
    struct once__lease twice;

    once__effect_lease(&s, x);
    twice = s;
    once__effect_lease(&twice, x);
    return same_lease(s, twice);
}

/* S4: who slept through the end of its lease, while another was given it, is refused everything. */
/*@ requires lease_value_ok(s) && claim_ok(x) && s.token > 0;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_lease_refuses_the_paused_owner(struct once__lease s, struct once__claim x,
                                        int64_t until_ms)
{
    const uint64_t paused = s.token;

    if (once__effect_lease(&s, x) != ONCE__EFFECT_CHANGED)
        return true;
    return once__effect_rejected(
               once__effect_renew(&s, (struct once__renewal){paused, until_ms})) &&
           once__effect_rejected(once__effect_release(&s, paused)) &&
           once__effect_rejected(once__effect_hold(&s, paused));
}

/*@ requires lease_value_ok(s);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_renew_idempotent(struct once__lease s, struct once__renewal x)
{
    struct once__lease twice;

    once__effect_renew(&s, x);
    twice = s;
    once__effect_renew(&twice, x);
    return same_lease(s, twice);
}

/*@ requires lease_value_ok(s);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_renew_commutative(struct once__lease s, struct once__renewal x, struct once__renewal y)
{
    struct once__lease a = s, b = s;

    once__effect_renew(&a, x);
    once__effect_renew(&a, y);
    once__effect_renew(&b, y);
    once__effect_renew(&b, x);
    return same_lease(a, b);
}

/*@ requires lease_value_ok(s);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_release_idempotent(struct once__lease s, uint64_t x)
{
    struct once__lease twice;

    once__effect_release(&s, x);
    twice = s;
    once__effect_release(&twice, x);
    return same_lease(s, twice);
}

/*@ requires lease_value_ok(s);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_release_commutative(struct once__lease s, uint64_t x, uint64_t y)
{
    struct once__lease a = s, b = s;

    once__effect_release(&a, x);
    once__effect_release(&a, y);
    once__effect_release(&b, y);
    once__effect_release(&b, x);
    return same_lease(a, b);
}

/* A HOLD never changes anything, so it is all three, and its duplicate is one more question. */
/*@ requires lease_value_ok(s);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_hold_changes_nothing(struct once__lease s, uint64_t x)
{
    struct once__lease before = s;

    return once__effect_hold(&s, x) != ONCE__EFFECT_CHANGED && same_lease(s, before);
}

/* Late duplicates, by induction on what happens in between. A lease moves one way: to a larger
 * token; of one token from held to released; while it is held to a later end. */
/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result <==> later.token > s.token
  @   || later.token == s.token && (later.owner.size == 0
  @      || s.owner.size > 0 && later.until_ms >= s.until_ms); */
static bool lease_not_before(struct once__lease later, struct once__lease s)
{
    return later.token > s.token ||
           (later.token == s.token &&
            (later.owner.size == 0 || (s.owner.size > 0 && later.until_ms >= s.until_ms)));
}

/*@ requires lease_value_ok(s) && claim_ok(claim);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_lease_never_goes_back(struct once__lease s, int which, struct once__claim claim,
                               struct once__renewal renewal, uint64_t token)
{
    struct once__lease before = s;

    if (which == 0)
        once__effect_lease(&s, claim);
    else if (which == 1)
        once__effect_renew(&s, renewal);
    else
        once__effect_release(&s, token);
    return lease_not_before(s, before);
}

/*@ requires lease_value_ok(s) && lease_value_ok(later);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_renew_late_duplicate(struct once__lease s, struct once__lease later,
                              struct once__renewal x)
{
    enum once__effect_word word = once__effect_renew(&s, x);

    if (once__effect_rejected(word) || !lease_not_before(later, s))
        return true;
    return once__effect_renew(&later, x) != ONCE__EFFECT_CHANGED;
}

/*@ requires lease_value_ok(s) && lease_value_ok(later);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_release_late_duplicate(struct once__lease s, struct once__lease later, uint64_t x)
{
    enum once__effect_word word = once__effect_release(&s, x);

    if (once__effect_rejected(word) || !lease_not_before(later, s))
        return true;
    return once__effect_release(&later, x) != ONCE__EFFECT_CHANGED;
}

/* SEQ. */

/*@ requires s.epoch <= ONCE_VERSION_MAX && s.next <= ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_seq_idempotent(struct once__sequence s, struct once__position x)
{
    struct once__sequence twice;

    once__effect_seq(&s, x);
    twice = s;
    once__effect_seq(&twice, x);
    return s.epoch == twice.epoch && s.next == twice.next;
}

/*@ requires s.epoch <= ONCE_VERSION_MAX && s.next <= ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_seq_refuses_the_zombie(struct once__sequence s, struct once__position x)
{
    uint64_t epoch = s.epoch;
    uint64_t next = s.next;

    return x.epoch >= epoch ||
           (once__effect_rejected(once__effect_seq(&s, x)) && s.epoch == epoch && s.next == next);
}

/*@ requires s.epoch <= ONCE_VERSION_MAX && s.next <= ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_seq_never_goes_back(struct once__sequence s, struct once__position y)
{
    struct once__sequence before = s;

    once__effect_seq(&s, y);
    return s.epoch > before.epoch || (s.epoch == before.epoch && s.next >= before.next);
}

/*@ requires s.epoch <= ONCE_VERSION_MAX && s.next <= ONCE_VERSION_MAX;
  @ requires later.epoch <= ONCE_VERSION_MAX && later.next <= ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_seq_late_duplicate(struct once__sequence s, struct once__sequence later,
                            struct once__position x)
{
    enum once__effect_word word = once__effect_seq(&s, x);

    if (once__effect_rejected(word) || later.epoch < s.epoch ||
        (later.epoch == s.epoch && later.next < s.next))
        return true;
    return once__effect_seq(&later, x) != ONCE__EFFECT_CHANGED;
}

/* BUCKET, APPEND, EMIT, SENT. */

/*@ requires s + x + y <= ONCE_BUCKET_COUNT_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_bucket_commutative_and_regroups(uint64_t s, uint64_t x, uint64_t y)
{
    uint64_t a = s, b = s, c = s;

    once__effect_bucket(&a, x);
    once__effect_bucket(&a, y);
    once__effect_bucket(&b, y);
    once__effect_bucket(&b, x);
    once__effect_bucket(&c, x + y);
    return a == b && b == c;
}

/*@ requires s < ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_append_and_emit_regroup_because_neither_is_rejected(uint64_t s)
{
    const struct once__append blind = {{false, 0}, false};
    uint64_t count = s;

    return !once__effect_rejected(once__effect_append(&s, blind)) &&
           !once__effect_rejected(once__effect_emit(&count));
}

/* Idempotent, and late duplicates: a log never shrinks, and an event stays where it is, so an
 * accepted APPEND … AT finds itself there for ever. */
/*@ requires s <= later <= ONCE_VERSION_MAX;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_append_at_late_duplicate(uint64_t s, uint64_t later, struct once__append x)
{
    enum once__effect_word word;

    if (!x.at.given)
        return true;
    word = once__effect_append(&s, x);
    if (once__effect_rejected(word) || later < s)
        return true;
    x.there = true;
    return once__effect_append(&later, x) == ONCE__EFFECT_UNCHANGED;
}

/* SENT. Two numbers are two messages, and each EMIT takes a new number, so one message is enough to
 * look at: idempotent, and late duplicates. Whatever was emitted since, what is gone stays gone. */
/*@ requires there ==> 0 < x.number <= x.emitted;
  @ requires x.emitted <= emitted_later;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_sent_late_duplicate(bool there, struct once__receipt x, uint64_t emitted_later)
{
    enum once__effect_word word = once__effect_sent(&there, x);

    if (once__effect_rejected(word))
        return true;
    x.emitted = emitted_later;
    return once__effect_sent(&there, x) == ONCE__EFFECT_UNCHANGED && !there;
}

/* Commutative: whether a SENT is refused depends on its numbers and on what was emitted, never on
 * other SENTs. */
/*@ requires there ==> 0 < x.number <= x.emitted;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \result; */
bool law_sent_commutative_because_refusals_do_not_depend_on_what_went(bool there,
                                                                      struct once__receipt x)
{
    bool gone = false;

    return once__effect_rejected(once__effect_sent(&there, x)) ==
           once__effect_rejected(once__effect_sent(&gone, x));
}
