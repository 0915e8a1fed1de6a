/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of which every merge and every comparison is made: on one number, one flag, one
 * register, one entry of a vector, one dot of a causal set, one pair of keys in a sorted walk.
 *
 * The contracts say exactly what each step does; Frama-C proves them on scalar.c as it ships, and
 * proves in proof/laws.c from these contracts alone that each merge is idempotent, commutative and
 * associative, has its bottom, and agrees with its order. What walks over many entries (entries.c,
 * context.c, …) only calls these steps entry by entry. Nothing here touches memory.
 */
#ifndef ONCE_LATTICE_SCALAR_H
#define ONCE_LATTICE_SCALAR_H

#include <stdbool.h>
#include <stdint.h>

#include <once/lattice.h>

/* A number that may not be there yet: the state of MAX and MIN. */
struct once__number {
    bool known;
    int64_t value; /* 0 while not known, so that the bottom is one value */
};

/* One node's entry of a PN-counter. */
struct once__pn {
    uint64_t plus;
    uint64_t minus;
};

/* What one replica knows of one dot (one add, one write): nothing, that it lives, or that it is
 * gone. */
struct once__dot {
    bool seen;
    bool alive; /* only if seen */
};

/* What is known of two LWW registers a and b before picking one. */
struct once__lww_pair {
    bool a_written;
    bool b_written;
    int64_t a_time;
    int64_t b_time;
    int node_order;  /* sign of comparing a's node with b's */
    int value_order; /* sign of comparing a's value with b's */
};

/* Which side of a sorted walk comes next. The first two index an array of sides. */
enum once__take { ONCE__TAKE_A = 0, ONCE__TAKE_B = 1, ONCE__TAKE_BOTH = 2 };

/*@ predicate number_ok(struct once__number n) = n.known || n.value == 0;
  @ predicate dot_ok(struct once__dot d) = d.alive ==> d.seen;
  @ predicate order_ok(integer o) = ONCE_ORDER_EQUAL <= o <= ONCE_ORDER_CONCURRENT;
  @
  @ // The order of two numbers, 0 standing for "not there".
  @ logic integer order_of(integer a, integer b) =
  @   a == b ? ONCE_ORDER_EQUAL : a < b ? ONCE_ORDER_BEFORE : ONCE_ORDER_AFTER;
  @ // An order is two facts: b has something that a has not, and the reverse.
  @ predicate b_has_more(integer o) = o == ONCE_ORDER_BEFORE || o == ONCE_ORDER_CONCURRENT;
  @ predicate a_has_more(integer o) = o == ONCE_ORDER_AFTER || o == ONCE_ORDER_CONCURRENT;
  @ // A dot only ever goes up: unknown, alive, gone.
  @ logic integer dot_rank(struct once__dot d) = !d.seen ? 0 : d.alive ? 1 : 2;
  @*/

/*@ requires a: number_ok(a);
  @ requires b: number_ok(b);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures canonical: number_ok(\result);
  @ ensures known: \result.known <==> a.known || b.known;
  @ ensures one_of_them: \result == a || \result == b;
  @ ensures at_least_a: a.known ==> \result.value >= a.value;
  @ ensures at_least_b: b.known ==> \result.value >= b.value;
  @*/
struct once__number once__max_merge(struct once__number a, struct once__number b);

/*@ requires a: number_ok(a);
  @ requires b: number_ok(b);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures canonical: number_ok(\result);
  @ ensures known: \result.known <==> a.known || b.known;
  @ ensures one_of_them: \result == a || \result == b;
  @ ensures at_most_a: a.known ==> \result.value <= a.value;
  @ ensures at_most_b: b.known ==> \result.value <= b.value;
  @*/
struct once__number once__min_merge(struct once__number a, struct once__number b);

/*@ requires a: number_ok(a);
  @ requires b: number_ok(b);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures both: a.known && b.known ==> \result == order_of(a.value, b.value);
  @ ensures unknown_first: !(a.known && b.known) ==> \result == order_of(a.known, b.known);
  @*/
enum once_order once__max_order(struct once__number a, struct once__number b);

/*@ requires a: number_ok(a);
  @ requires b: number_ok(b);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures both: a.known && b.known ==> \result == order_of(b.value, a.value);
  @ ensures unknown_first: !(a.known && b.known) ==> \result == order_of(a.known, b.known);
  @*/
enum once_order once__min_order(struct once__number a, struct once__number b);

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures either: \result <==> a || b;
  @*/
bool once__flag_merge(bool a, bool b);

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result == order_of(a, b);
  @*/
enum once_order once__flag_order(bool a, bool b);

/* One node's number in a version vector or a G-counter, and a type's tag in a map. */
/*@ terminates \true;
  @ assigns \nothing;
  @ ensures larger: \result == \max(a, b);
  @*/
uint64_t once__count_merge(uint64_t a, uint64_t b);

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result == order_of(a, b);
  @*/
enum once_order once__count_order(uint64_t a, uint64_t b);

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures plus: \result.plus == \max(a.plus, b.plus);
  @ ensures minus: \result.minus == \max(a.minus, b.minus);
  @*/
struct once__pn once__pn_merge(struct once__pn a, struct once__pn b);

/*@ terminates \true;
  @ assigns \nothing;
  @ ensures range: order_ok(\result);
  @ ensures b_more: b_has_more(\result) <==> a.plus < b.plus || a.minus < b.minus;
  @ ensures a_more: a_has_more(\result) <==> a.plus > b.plus || a.minus > b.minus;
  @*/
enum once_order once__pn_order(struct once__pn a, struct once__pn b);

/* EQUAL, BEFORE or AFTER, never CONCURRENT: the order of writes is total. EQUAL only if all the
 * same. */
/*@ terminates \true;
  @ assigns \nothing;
  @ ensures unwritten_first:
  @   !(pair.a_written && pair.b_written) ==> \result == order_of(pair.a_written, pair.b_written);
  @ ensures by_time: pair.a_written && pair.b_written && pair.a_time != pair.b_time ==>
  @   \result == order_of(pair.a_time, pair.b_time);
  @ ensures by_node: pair.a_written && pair.b_written && pair.a_time == pair.b_time
  @   && pair.node_order != 0 ==> \result == order_of(pair.node_order, 0);
  @ ensures by_value: pair.a_written && pair.b_written && pair.a_time == pair.b_time
  @   && pair.node_order == 0 ==> \result == order_of(pair.value_order, 0);
  @*/
enum once_order once__lww_order(struct once__lww_pair pair);

/* A dot stays while both have it, or while the one who lacks it never saw it. */
/*@ requires a: dot_ok(a);
  @ requires b: dot_ok(b);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures canonical: dot_ok(\result);
  @ ensures rank: dot_rank(\result) == \max(dot_rank(a), dot_rank(b));
  @*/
struct once__dot once__dot_merge(struct once__dot a, struct once__dot b);

/*@ requires a: dot_ok(a);
  @ requires b: dot_ok(b);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result == order_of(dot_rank(a), dot_rank(b));
  @*/
enum once_order once__dot_order(struct once__dot a, struct once__dot b);

/* Folds the orders of the entries into the order of the whole. */
/*@ requires x: order_ok(x);
  @ requires y: order_ok(y);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures range: order_ok(\result);
  @ ensures b_more: b_has_more(\result) <==> b_has_more(x) || b_has_more(y);
  @ ensures a_more: a_has_more(\result) <==> a_has_more(x) || a_has_more(y);
  @*/
enum once_order once__order_join(enum once_order x, enum once_order y);

/* key_order is <0, 0 or >0 as a's next key is below, equal to or above b's. Inline: it is the inner
 * step of every walk over sorted entries. */
/*@ terminates \true;
  @ assigns \nothing;
  @ ensures lower_first: key_order < 0 <==> \result == ONCE__TAKE_A;
  @ ensures higher_waits: key_order > 0 <==> \result == ONCE__TAKE_B;
  @ ensures equal_together: key_order == 0 <==> \result == ONCE__TAKE_BOTH;
  @*/
static inline enum once__take once__take_by(int key_order)
{
    if (key_order == 0)
        return ONCE__TAKE_BOTH;
    return key_order < 0 ? ONCE__TAKE_A : ONCE__TAKE_B;
}

#endif
