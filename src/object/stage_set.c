/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on sets: UNION on a grow-only set, INSERT and REMOVE on an add-wins set. Each takes many
 * members, and the state is walked a fixed number of times for all of them together.
 */
#include "object/stage_inner.h"

#include "base/assert.h"
#include "base/bytes.h"

/* A walk over the different members of the deed, beside the set that they may be in: both are
 * sorted alike, so one pass tells which are there. */
struct walk {
    struct once_bytes state;
    const uint8_t *first; /* where the size of the set's first member is */
    struct once_lattice_iter asked;
    struct once_lattice_iter there;
    struct once_lattice_entry next; /* of the set: the first that was not passed yet */
    int more;
};

/* The size stands before the bytes. */
static const uint8_t *entry_start(const struct once_lattice_entry *entry)
{
    return entry->key.data - sizeof(uint32_t);
}

/* stage->members has the deed's members then, as a grow-only set. */
static int walk_start(struct once__stage *stage, struct once_bytes state, struct walk *walk)
{
    const struct once__deed *deed = stage->deed;
    int err;

    once_buf_clear(&stage->members);
    err = once_gset_add_all(deed->members, deed->member_count, &stage->members);
    if (err == ONCE_OK)
        err = once_lattice_iter_init(&walk->asked, once_buf_bytes(&stage->members));
    if (err == ONCE_OK)
        err = once_lattice_iter_init(&walk->there, state);
    if (err != ONCE_OK)
        return err;
    walk->more = once_lattice_iter_next(&walk->there, &walk->next);
    walk->state = state;
    walk->first = walk->more == 1 ? entry_start(&walk->next) : NULL;
    return walk->more < 0 ? walk->more : ONCE_OK;
}

/* 1: one more member; 0: there was none; negative: an error. */
static int walk_next(struct walk *walk, struct once_bytes *ret_member, bool *ret_there)
{
    struct once_lattice_entry wanted;
    int more = once_lattice_iter_next(&walk->asked, &wanted), order = 1;

    if (more != 1)
        return more;
    while (walk->more == 1 && (order = once__bytes_compare(walk->next.key, wanted.key)) < 0)
        walk->more = once_lattice_iter_next(&walk->there, &walk->next);
    if (walk->more < 0)
        return walk->more;
    *ret_member = wanted.key;
    *ret_there = walk->more == 1 && order == 0;
    return 1;
}

int once__stage_union(struct once__stage *stage)
{
    enum once_order order;
    struct once_bytes member;
    struct once__slot *slot;
    struct walk walk;
    int64_t new_count = 0;
    bool there;
    int err = once__stage_open(stage, ONCE_OBJECT_GSET, &slot);

    if (err != ONCE_OK)
        return err;
    err = walk_start(stage, slot->now.merge.state, &walk);
    while (err == ONCE_OK && (err = walk_next(&walk, &member, &there)) == 1) {
        new_count += !there;
        err = ONCE_OK;
    }
    if (err != ONCE_OK)
        return once__stage_lattice_error(stage, err);
    if (new_count > 0)
        err = once__stage_take(stage, slot, once_buf_bytes(&stage->members), &order);
    return err == ONCE_OK ? once__stage_number(stage, new_count) : err;
}

/* ---- Piles: many deltas into one, merged in pairs, and those in pairs again ------------------ */

static void pile_start(struct once__stage *stage)
{
    for (size_t i = 0; i < ONCE__PILE_LEVELS; i++)
        once_buf_clear(&stage->pile[i]);
}

/* Takes the bytes of delta, and leaves it empty. Level i holds 2^i deltas, or none. */
static int pile_push(struct once__stage *stage, struct once_buf *delta)
{
    int err = ONCE_OK;
    size_t level = 0;

    for (; stage->pile[level].size > 0; level++) {
        err = once__stage_merge_into(stage, once_buf_bytes(&stage->pile[level]),
                                     once_buf_bytes(delta), delta);
        if (err != ONCE_OK)
            return err;
        once_buf_clear(&stage->pile[level]);
        ONCE_ASSERT(level + 1 < ONCE__PILE_LEVELS);
    }
    once__stage_swap(&stage->pile[level], delta);
    return ONCE_OK;
}

/* All of them merged, in stage->one. */
static int pile_take(struct once__stage *stage)
{
    int err = ONCE_OK;

    once_buf_clear(&stage->one);
    for (size_t i = 0; err == ONCE_OK && i < ONCE__PILE_LEVELS; i++) {
        if (stage->pile[i].size == 0)
            continue;
        if (stage->one.size == 0)
            once__stage_swap(&stage->one, &stage->pile[i]);
        else
            err = once__stage_merge_into(stage, once_buf_bytes(&stage->one),
                                         once_buf_bytes(&stage->pile[i]), &stage->one);
    }
    return err;
}

/* ---- The add-wins set ------------------------------------------------------------------------ */

/* The state without all members but the one that the walk stands at, in stage->two: what removes
 * the member is the same, and is found without going through the others. By docs/format/lattice.md:
 * the header and the context, a count, and one entry. */
static int make_single(struct once__stage *stage, const struct walk *walk)
{
    static const uint8_t count_one[sizeof(uint32_t)] = {1};
    struct once_lattice_iter rest = walk->there;
    const uint8_t *start = entry_start(&walk->next);
    const uint8_t *end = walk->state.data + walk->state.size;
    struct once_lattice_entry behind;
    int err = once_lattice_iter_next(&rest, &behind);

    if (err < 0)
        return err;
    if (err == 1)
        end = entry_start(&behind);
    ONCE_ASSERT(walk->first >= walk->state.data + sizeof count_one && start < end);
    once_buf_clear(&stage->two);
    err = once_buf_append(&stage->two, walk->state.data,
                          (size_t)(walk->first - walk->state.data) - sizeof count_one);
    if (err == ONCE_OK)
        err = once_buf_append(&stage->two, count_one, sizeof count_one);
    return err == ONCE_OK ? once_buf_append(&stage->two, start, (size_t)(end - start)) : err;
}

/* Pushes what removes the member that the walk stands at: the dots that a new add, or nothing,
 * replaces. */
static int push_remove(struct once__stage *stage, const struct walk *walk)
{
    int err = make_single(stage, walk);

    if (err != ONCE_OK)
        return err;
    once_buf_clear(&stage->three);
    err = once_awset_remove(once_buf_bytes(&stage->two), walk->next.key, &stage->three);
    return err == ONCE_OK ? pile_push(stage, &stage->three) : err;
}

/* Pushes an add, made from the one before it (or from the state), which has the node's newest dot;
 * stage->one is the newest. */
static int push_add(struct once__stage *stage, struct once_bytes state, struct once_bytes member)
{
    struct once_write write = {.node = stage->deed->node, .value = member};
    struct once_bytes from = stage->one.size > 0 ? once_buf_bytes(&stage->one) : state;
    int err;

    once_buf_clear(&stage->two);
    err = once_awset_add(from, &write, &stage->two);
    if (err == ONCE_OK && stage->one.size > 0)
        err = pile_push(stage, &stage->one);
    once_buf_clear(&stage->one);
    once__stage_swap(&stage->one, &stage->two);
    return err;
}

/* The delta of INSERT, or of REMOVE, in stage->one; *ret_there is how many members were there, of
 * *ret_count. An add that is made from another add costs nothing in the size of the set, but does
 * not know the dots that its member has there: a remove beside it replaces them, or a member that
 * is inserted again and again would gather dots. */
static int make_delta(struct once__stage *stage, struct once_bytes state, int64_t *ret_count,
                      int64_t *ret_there)
{
    bool insert = stage->deed->kind == ONCE__DEED_INSERT;
    int64_t count = 0, there_count = 0;
    struct once_bytes member;
    struct walk walk;
    bool there;
    int err = walk_start(stage, state, &walk);

    pile_start(stage);
    while (err == ONCE_OK && (err = walk_next(&walk, &member, &there)) == 1) {
        count++;
        there_count += there;
        err = there ? push_remove(stage, &walk) : ONCE_OK;
        if (err == ONCE_OK && insert)
            err = push_add(stage, state, member);
    }
    if (err == ONCE_OK && stage->one.size > 0)
        err = pile_push(stage, &stage->one);
    if (err == ONCE_OK)
        err = pile_take(stage);
    if (err != ONCE_OK)
        return err;
    *ret_count = count;
    *ret_there = there_count;
    return ONCE_OK;
}

/* INSERT tells how many were not there, REMOVE how many were. */
int once__stage_awset(struct once__stage *stage)
{
    enum once_order order;
    struct once__slot *slot;
    int64_t count, there_count;
    int err = once__stage_open(stage, ONCE_OBJECT_AWSET, &slot);

    if (err != ONCE_OK)
        return err;
    err = make_delta(stage, slot->now.merge.state, &count, &there_count);
    if (err != ONCE_OK)
        return once__stage_lattice_error(stage, err);
    if (stage->one.size > 0)
        err = once__stage_take(stage, slot, once_buf_bytes(&stage->one), &order);
    if (err != ONCE_OK)
        return err;
    return once__stage_number(stage, stage->deed->kind == ONCE__DEED_INSERT ? count - there_count
                                                                            : there_count);
}
