/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of every merge and comparison; contracts in scalar.h. The prover reads this file as it
 * ships, so it stays free of library calls, memory and loops.
 */
#include "lattice/scalar.h"

struct once__number once__max_merge(struct once__number a, struct once__number b)
{
    if (!a.known)
        return b;
    if (!b.known)
        return a;
    return a.value < b.value ? b : a;
}

struct once__number once__min_merge(struct once__number a, struct once__number b)
{
    if (!a.known)
        return b;
    if (!b.known)
        return a;
    return b.value < a.value ? b : a;
}

enum once_order once__max_order(struct once__number a, struct once__number b)
{
    if (!a.known || !b.known)
        return once__flag_order(a.known, b.known);
    if (a.value == b.value)
        return ONCE_ORDER_EQUAL;
    return a.value < b.value ? ONCE_ORDER_BEFORE : ONCE_ORDER_AFTER;
}

enum once_order once__min_order(struct once__number a, struct once__number b)
{
    if (!a.known || !b.known)
        return once__flag_order(a.known, b.known);
    if (a.value == b.value)
        return ONCE_ORDER_EQUAL;
    return a.value > b.value ? ONCE_ORDER_BEFORE : ONCE_ORDER_AFTER;
}

bool once__flag_merge(bool a, bool b)
{
    return a || b;
}

enum once_order once__flag_order(bool a, bool b)
{
    if (a == b)
        return ONCE_ORDER_EQUAL;
    return b ? ONCE_ORDER_BEFORE : ONCE_ORDER_AFTER;
}

uint64_t once__count_merge(uint64_t a, uint64_t b)
{
    return a < b ? b : a;
}

enum once_order once__count_order(uint64_t a, uint64_t b)
{
    if (a == b)
        return ONCE_ORDER_EQUAL;
    return a < b ? ONCE_ORDER_BEFORE : ONCE_ORDER_AFTER;
}

struct once__pn once__pn_merge(struct once__pn a, struct once__pn b)
{
    struct once__pn merged = {
        .plus = once__count_merge(a.plus, b.plus),
        .minus = once__count_merge(a.minus, b.minus),
    };

    return merged;
}

enum once_order once__pn_order(struct once__pn a, struct once__pn b)
{
    return once__order_join(once__count_order(a.plus, b.plus), once__count_order(a.minus, b.minus));
}

enum once_order once__lww_order(struct once__lww_pair pair)
{
    int order;

    if (!pair.a_written || !pair.b_written)
        return once__flag_order(pair.a_written, pair.b_written);
    if (pair.a_time != pair.b_time)
        return pair.a_time < pair.b_time ? ONCE_ORDER_BEFORE : ONCE_ORDER_AFTER;

    /* The clocks agree: any total order will do as long as every replica uses the same. */
    order = pair.node_order != 0 ? pair.node_order : pair.value_order;
    if (order == 0)
        return ONCE_ORDER_EQUAL;
    return order < 0 ? ONCE_ORDER_BEFORE : ONCE_ORDER_AFTER;
}

struct once__dot once__dot_merge(struct once__dot a, struct once__dot b)
{
    struct once__dot merged = {
        .seen = a.seen || b.seen,
        .alive = (a.alive && b.alive) || (a.alive && !b.seen) || (b.alive && !a.seen),
    };

    return merged;
}

enum once_order once__dot_order(struct once__dot a, struct once__dot b)
{
    if (a.seen != b.seen)
        return b.seen ? ONCE_ORDER_BEFORE : ONCE_ORDER_AFTER;
    if (a.alive == b.alive)
        return ONCE_ORDER_EQUAL;
    return a.alive ? ONCE_ORDER_BEFORE : ONCE_ORDER_AFTER; /* gone comes after alive */
}

enum once_order once__order_join(enum once_order x, enum once_order y)
{
    if (x == y || y == ONCE_ORDER_EQUAL)
        return x;
    return x == ONCE_ORDER_EQUAL ? y : ONCE_ORDER_CONCURRENT;
}
