/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of living dots: those of one member of an AWSET, or all of an MVREG, each with its value.
 *
 *     u32 count, then count times: u32 node index, u64 number, and if valued: u32 value size, value
 *
 * Dots strictly increase by (node index, number), and the state's context has every one of them.
 */
#ifndef ONCE_LATTICE_DOTS_H
#define ONCE_LATTICE_DOTS_H

#include "lattice/context.h"

/* A walk over such a list. While left > 0 it stands at dot. */
struct once__dots {
    struct once__reader *reader;
    const struct once__context *context;
    bool valued;
    uint32_t left;
    struct once__dot_ref dot;
    struct once_bytes value;
};

/* A dot that a mutator adds to those that it replaces. */
struct once__new_dot {
    struct once_bytes node;
    uint64_t number;
};

/* The node's next dot after all that the context has; fails the writer (ONCE_ERR_OVERFLOW) if there
 * is none. */
struct once__new_dot once__dot_after(const struct once__context *context, struct once_bytes node,
                                     struct once__writer *out);

/* Stands at the first dot of the list that comes next. A failure of the reader ends the walk. */
void once__dots_open(struct once__dots *dots, struct once__reader *reader,
                     const struct once__context *context, bool valued);

/* A list of none, for the side that does not have the member. */
void once__dots_none(struct once__dots *dots, bool valued);
void once__dots_next(struct once__dots *dots);

/* Reads a list and checks all its rules, except that the list of a member may not be empty. Gives
 * the count. */
uint32_t once__dots_check(struct once__reader *reader, const struct once__context *context,
                          bool valued);

/* Puts the dots that survive, without the count, which it gives. The contexts are linked. */
uint32_t once__dots_merge(struct once__dots *a, struct once__dots *b, struct once__writer *out);

/* What the living dots add to the order of the linked contexts. */
enum once_order once__dots_compare(struct once__dots *a, struct once__dots *b);

/* Puts the context of a delta: the dots that it replaces, and the new one unless that is NULL.
 * Gives the new dot's node index. */
uint32_t once__dots_put_context(struct once__dots *replaced, const struct once__new_dot *new_dot,
                                struct once__writer *out);

#endif
