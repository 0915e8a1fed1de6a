/* SPDX-License-Identifier: Apache-2.0
 *
 * The three laws, written for the prover; never compiled into anything.
 *
 * Each law_ function calls the shipping steps of src/lattice/scalar.c and must return true whatever
 * its arguments are. WP knows the steps by their contracts in scalar.h, which it proves on scalar.c
 * in the same run. For each merge X:
 *   law_X_idempotent, law_X_commutative, law_X_associative;
 *   law_X_bottom: merging the bottom changes nothing;
 *   law_X_agrees: the order says "at or before" exactly when merging a into b leaves b.
 * What walks over collections takes these steps entry by entry; tests/unit/test_lattice_laws.c
 * tests the walks, exhaustively on small domains.
 */
#include <limits.h>

#include "lattice/scalar.h"

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result <==> order == ONCE_ORDER_EQUAL || order == ONCE_ORDER_BEFORE; */
static bool at_or_before(enum once_order order)
{
    return order == ONCE_ORDER_EQUAL || order == ONCE_ORDER_BEFORE;
}

/* MAX. */

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result <==> a == b; */
static bool number_same(struct once__number a, struct once__number b)
{
    return a.known == b.known && a.value == b.value;
}

/*@ requires number_ok(a);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_max_idempotent(struct once__number a)
{
    return number_same(once__max_merge(a, a), a);
}

/*@ requires number_ok(a);
  @ requires number_ok(b);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_max_commutative(struct once__number a, struct once__number b)
{
    return number_same(once__max_merge(a, b), once__max_merge(b, a));
}

/*@ requires number_ok(a);
  @ requires number_ok(b);
  @ requires number_ok(c);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_max_associative(struct once__number a, struct once__number b, struct once__number c)
{
    struct once__number ab_c = once__max_merge(once__max_merge(a, b), c);
    struct once__number a_bc = once__max_merge(a, once__max_merge(b, c));

    return number_same(ab_c, a_bc);
}

/*@ requires number_ok(a);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_max_bottom(struct once__number a)
{
    struct once__number bottom = {.known = false, .value = 0};

    return number_same(once__max_merge(bottom, a), a);
}

/*@ requires number_ok(a);
  @ requires number_ok(b);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_max_agrees(struct once__number a, struct once__number b)
{
    return at_or_before(once__max_order(a, b)) == number_same(once__max_merge(a, b), b);
}

/* MIN. */

/*@ requires number_ok(a);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_min_idempotent(struct once__number a)
{
    return number_same(once__min_merge(a, a), a);
}

/*@ requires number_ok(a);
  @ requires number_ok(b);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_min_commutative(struct once__number a, struct once__number b)
{
    return number_same(once__min_merge(a, b), once__min_merge(b, a));
}

/*@ requires number_ok(a);
  @ requires number_ok(b);
  @ requires number_ok(c);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_min_associative(struct once__number a, struct once__number b, struct once__number c)
{
    struct once__number ab_c = once__min_merge(once__min_merge(a, b), c);
    struct once__number a_bc = once__min_merge(a, once__min_merge(b, c));

    return number_same(ab_c, a_bc);
}

/*@ requires number_ok(a);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_min_bottom(struct once__number a)
{
    struct once__number bottom = {.known = false, .value = 0};

    return number_same(once__min_merge(bottom, a), a);
}

/*@ requires number_ok(a);
  @ requires number_ok(b);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_min_agrees(struct once__number a, struct once__number b)
{
    return at_or_before(once__min_order(a, b)) == number_same(once__min_merge(a, b), b);
}

/* FLAG. */

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_flag_idempotent(bool a)
{
    return (once__flag_merge(a, a) == a);
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_flag_commutative(bool a, bool b)
{
    return (once__flag_merge(a, b) == once__flag_merge(b, a));
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_flag_associative(bool a, bool b, bool c)
{
    bool ab_c = once__flag_merge(once__flag_merge(a, b), c);
    bool a_bc = once__flag_merge(a, once__flag_merge(b, c));

    return (ab_c == a_bc);
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_flag_bottom(bool a)
{
    return once__flag_merge(false, a) == a;
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_flag_agrees(bool a, bool b)
{
    return at_or_before(once__flag_order(a, b)) == (once__flag_merge(a, b) == b);
}

/* A node's number: the entry-wise step of VV and GCOUNTER, and of the bases of causal contexts. */

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_count_idempotent(uint64_t a)
{
    return (once__count_merge(a, a) == a);
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_count_commutative(uint64_t a, uint64_t b)
{
    return (once__count_merge(a, b) == once__count_merge(b, a));
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_count_associative(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t ab_c = once__count_merge(once__count_merge(a, b), c);
    uint64_t a_bc = once__count_merge(a, once__count_merge(b, c));

    return (ab_c == a_bc);
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_count_bottom(uint64_t a)
{
    return once__count_merge(0, a) == a;
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_count_agrees(uint64_t a, uint64_t b)
{
    return at_or_before(once__count_order(a, b)) == (once__count_merge(a, b) == b);
}

/* A node's two numbers: the entry-wise step of PNCOUNTER. */

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result <==> a == b; */
static bool pn_same(struct once__pn a, struct once__pn b)
{
    return a.plus == b.plus && a.minus == b.minus;
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_pn_idempotent(struct once__pn a)
{
    return pn_same(once__pn_merge(a, a), a);
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_pn_commutative(struct once__pn a, struct once__pn b)
{
    return pn_same(once__pn_merge(a, b), once__pn_merge(b, a));
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_pn_associative(struct once__pn a, struct once__pn b, struct once__pn c)
{
    struct once__pn ab_c = once__pn_merge(once__pn_merge(a, b), c);
    struct once__pn a_bc = once__pn_merge(a, once__pn_merge(b, c));

    return pn_same(ab_c, a_bc);
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_pn_bottom(struct once__pn a)
{
    struct once__pn bottom = {.plus = 0, .minus = 0};

    return pn_same(once__pn_merge(bottom, a), a);
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_pn_agrees(struct once__pn a, struct once__pn b)
{
    return at_or_before(once__pn_order(a, b)) == pn_same(once__pn_merge(a, b), b);
}

/* What is known of a dot: the entry-wise step of AWSET and MVREG. */

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result <==> a == b; */
static bool dot_same(struct once__dot a, struct once__dot b)
{
    return a.seen == b.seen && a.alive == b.alive;
}

/*@ requires dot_ok(a);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_dot_idempotent(struct once__dot a)
{
    return dot_same(once__dot_merge(a, a), a);
}

/*@ requires dot_ok(a);
  @ requires dot_ok(b);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_dot_commutative(struct once__dot a, struct once__dot b)
{
    return dot_same(once__dot_merge(a, b), once__dot_merge(b, a));
}

/*@ requires dot_ok(a);
  @ requires dot_ok(b);
  @ requires dot_ok(c);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_dot_associative(struct once__dot a, struct once__dot b, struct once__dot c)
{
    struct once__dot ab_c = once__dot_merge(once__dot_merge(a, b), c);
    struct once__dot a_bc = once__dot_merge(a, once__dot_merge(b, c));

    return dot_same(ab_c, a_bc);
}

/*@ requires dot_ok(a);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_dot_bottom(struct once__dot a)
{
    struct once__dot bottom = {.seen = false, .alive = false};

    return dot_same(once__dot_merge(bottom, a), a);
}

/*@ requires dot_ok(a);
  @ requires dot_ok(b);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_dot_agrees(struct once__dot a, struct once__dot b)
{
    return at_or_before(once__dot_order(a, b)) == dot_same(once__dot_merge(a, b), b);
}

/* LWW. */

/* Nodes and values are byte strings under a total order; any integers stand for their ranks. */
struct write {
    bool written;
    int64_t time;
    int64_t node;
    int64_t value;
};

/*@ predicate write_ok(struct write w) =
  @   w.written || (w.time == 0 && w.node == 0 && w.value == 0);
  @ predicate write_le(struct write a, struct write b) =
  @   !a.written
  @   || (b.written
  @       && (a.time < b.time
  @           || (a.time == b.time
  @               && (a.node < b.node || (a.node == b.node && a.value <= b.value))))); */

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result <==> a == b; */
static bool write_same(struct write a, struct write b)
{
    return a.written == b.written && a.time == b.time && a.node == b.node && a.value == b.value;
}

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result < 0 <==> a < b;
  @ ensures \result > 0 <==> a > b; */
static int sign(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/*@ requires write_ok(a);
  @ requires write_ok(b);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures order_of: \result == ONCE_ORDER_EQUAL || \result == ONCE_ORDER_BEFORE
  @   || \result == ONCE_ORDER_AFTER;
  @ ensures at_or_before: \result != ONCE_ORDER_AFTER <==> write_le(a, b);
  @ ensures equal: \result == ONCE_ORDER_EQUAL <==> a == b; */
static enum once_order write_order(struct write a, struct write b)
{
    struct once__lww_pair pair = {
        .a_written = a.written,
        .b_written = b.written,
        .a_time = a.time,
        .b_time = b.time,
        .node_order = sign(a.node, b.node),
        .value_order = sign(a.value, b.value),
    };

    return once__lww_order(pair);
}

/* As registers.c does it. */
/*@ requires write_ok(a);
  @ requires write_ok(b);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures write_ok(\result);
  @ ensures later_b: write_le(a, b) ==> \result == b;
  @ ensures later_a: !write_le(a, b) ==> \result == a; */
static struct write write_merge(struct write a, struct write b)
{
    return write_order(a, b) == ONCE_ORDER_AFTER ? a : b;
}

/*@ requires write_ok(a);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_lww_idempotent(struct write a)
{
    return write_same(write_merge(a, a), a);
}

/*@ requires write_ok(a);
  @ requires write_ok(b);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_lww_commutative(struct write a, struct write b)
{
    return write_same(write_merge(a, b), write_merge(b, a));
}

/*@ requires write_ok(a);
  @ requires write_ok(b);
  @ requires write_ok(c);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_lww_associative(struct write a, struct write b, struct write c)
{
    struct write ab_c = write_merge(write_merge(a, b), c);
    struct write a_bc = write_merge(a, write_merge(b, c));

    return write_same(ab_c, a_bc);
}

/*@ requires write_ok(a);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_lww_bottom(struct write a)
{
    struct write bottom = {.written = false, .time = 0, .node = 0, .value = 0};

    return write_same(write_merge(bottom, a), a);
}

/*@ requires write_ok(a);
  @ requires write_ok(b);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_lww_agrees(struct write a, struct write b)
{
    return at_or_before(write_order(a, b)) == write_same(write_merge(a, b), b);
}

/* A map's value: the linear sum of all types. */

/* A number stands for the inner state; what counts is that its own merge is lawful. */
struct tagged {
    uint64_t tag;
    uint64_t inner;
};

/*@ predicate tagged_le(struct tagged a, struct tagged b) =
  @   a.tag < b.tag || (a.tag == b.tag && a.inner <= b.inner); */

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result <==> a == b; */
static bool tagged_same(struct tagged a, struct tagged b)
{
    return a.tag == b.tag && a.inner == b.inner;
}

/* As map.c does it: the larger tag wins whole, equal tags merge. */
/*@ terminates \true;
  @ assigns \nothing;
  @ ensures later_b: tagged_le(a, b) ==> \result == b;
  @ ensures later_a: !tagged_le(a, b) ==> \result == a; */
static struct tagged tagged_merge(struct tagged a, struct tagged b)
{
    struct tagged merged = a;

    switch (once__count_order(a.tag, b.tag)) {
    case ONCE_ORDER_BEFORE:
        return b;
    case ONCE_ORDER_AFTER:
        return a;
    default:
        merged.inner = once__count_merge(a.inner, b.inner);
        return merged;
    }
}

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures \result == ONCE_ORDER_EQUAL || \result == ONCE_ORDER_BEFORE
  @   || \result == ONCE_ORDER_AFTER;
  @ ensures \result != ONCE_ORDER_AFTER <==> tagged_le(a, b); */
static enum once_order tagged_order(struct tagged a, struct tagged b)
{
    enum once_order order = once__count_order(a.tag, b.tag);

    return order == ONCE_ORDER_EQUAL ? once__count_order(a.inner, b.inner) : order;
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_tagged_idempotent(struct tagged a)
{
    return tagged_same(tagged_merge(a, a), a);
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_tagged_commutative(struct tagged a, struct tagged b)
{
    return tagged_same(tagged_merge(a, b), tagged_merge(b, a));
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_tagged_associative(struct tagged a, struct tagged b, struct tagged c)
{
    struct tagged ab_c = tagged_merge(tagged_merge(a, b), c);
    struct tagged a_bc = tagged_merge(a, tagged_merge(b, c));

    return tagged_same(ab_c, a_bc);
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_tagged_bottom(struct tagged a)
{
    struct tagged bottom = {.tag = 0, .inner = 0};

    return tagged_same(tagged_merge(bottom, a), a);
}

/*@ assigns \nothing;
  @ ensures law: \result; */
bool law_tagged_agrees(struct tagged a, struct tagged b)
{
    return at_or_before(tagged_order(a, b)) == tagged_same(tagged_merge(a, b), b);
}

/* Orders themselves, folded over entries: any order of folding gives the same. */

/*@ requires order_ok(a);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_order_idempotent(enum once_order a)
{
    return (once__order_join(a, a) == a);
}

/*@ requires order_ok(a);
  @ requires order_ok(b);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_order_commutative(enum once_order a, enum once_order b)
{
    return (once__order_join(a, b) == once__order_join(b, a));
}

/*@ requires order_ok(a);
  @ requires order_ok(b);
  @ requires order_ok(c);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_order_associative(enum once_order a, enum once_order b, enum once_order c)
{
    enum once_order ab_c = once__order_join(once__order_join(a, b), c);
    enum once_order a_bc = once__order_join(a, once__order_join(b, c));

    return (ab_c == a_bc);
}

/*@ requires order_ok(a);
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_order_bottom(enum once_order a)
{
    return once__order_join(ONCE_ORDER_EQUAL, a) == a;
}

/* The step of a sorted walk: swapping the sides swaps what is taken, so no walk prefers a side. */

/*@ requires key_order > INT_MIN;
  @ assigns \nothing;
  @ ensures law: \result; */
bool law_take_commutative(int key_order)
{
    enum once__take ab = once__take_by(key_order);
    enum once__take ba = once__take_by(-key_order);

    if (ab == ONCE__TAKE_BOTH)
        return ba == ONCE__TAKE_BOTH;
    return ba == (ab == ONCE__TAKE_A ? ONCE__TAKE_B : ONCE__TAKE_A);
}
