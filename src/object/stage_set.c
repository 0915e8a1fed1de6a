/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on sets: UNION on a grow-only set, INSERT and REMOVE on an add-wins set. Each takes many
 * members; the state is walked a fixed number of times for all of them together, except that an
 * add-wins set is walked once more for each member that it has already.
 */
#include "object/stage_inner.h"

#include "base/assert.h"
#include "base/bytes.h"

struct news {
    uint64_t count; /* different members */
    uint64_t new_count;
};

/* How many of the deed's members are not in the set: one walk over both, which are sorted alike.
 * stage->two has the members then, as a grow-only set. */
static int count_members(struct once__stage *stage, struct once_bytes state, struct news *ret_news)
{
    const struct once__deed *deed = stage->deed;
    struct once_lattice_iter there, asked;
    struct once_lattice_entry has = {0}, wants;
    struct news news = {0};
    int err, more;

    once_buf_clear(&stage->two);
    err = once_gset_add_all(deed->members, deed->member_count, &stage->two);
    if (err == ONCE_OK)
        err = once_lattice_iter_init(&there, state);
    if (err == ONCE_OK)
        err = once_lattice_iter_init(&asked, once_buf_bytes(&stage->two));
    if (err != ONCE_OK)
        return err;

    more = once_lattice_iter_next(&there, &has);
    while ((err = once_lattice_iter_next(&asked, &wants)) == 1) {
        int order = 1;

        while (more == 1 && (order = once__bytes_compare(has.key, wants.key)) < 0)
            more = once_lattice_iter_next(&there, &has);
        if (more < 0)
            return more;
        news.count++;
        if (more == 0 || order > 0)
            news.new_count++;
    }
    if (err < 0)
        return err;
    *ret_news = news;
    return ONCE_OK;
}

int once__stage_union(struct once__stage *stage)
{
    enum once_order order;
    struct once__slot *slot;
    struct news news;
    int err = once__stage_open(stage, ONCE_OBJECT_GSET, &slot);

    if (err != ONCE_OK)
        return err;
    err = count_members(stage, slot->now.merge.state, &news);
    if (err != ONCE_OK)
        return once__stage_lattice_error(stage, err);
    if (news.new_count > 0)
        err = once__stage_take(stage, slot, once_buf_bytes(&stage->two), &order);
    return err == ONCE_OK ? once__stage_number(stage, (int64_t)news.new_count) : err;
}

/* ---- Piles: many deltas into one, merged in pairs, and those in pairs again --------------------- */

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

/* ---- The add-wins set ---------------------------------------------------------------------------- */

/* Pushes what removes the member, if it is there: the dots that a new add, or nothing, replaces. */
static int push_remove(struct once__stage *stage, struct once_bytes state, struct once_bytes member)
{
    bool contains;
    int err = once_awset_contains(state, member, &contains);

    if (err != ONCE_OK || !contains)
        return err;
    once_buf_clear(&stage->two);
    err = once_awset_remove(state, member, &stage->two);
    return err == ONCE_OK ? pile_push(stage, &stage->two) : err;
}

/* The first add is made from the state; each further one from the one before it, which has the
 * node's newest dot, and so costs nothing in the size of the set. Such an add does not know the
 * dots that its member has in the state: a remove beside it replaces them, or a member that is
 * inserted again and again would gather dots. */
static int make_inserts(struct once__stage *stage, struct once_bytes state)
{
    const struct once__deed *deed = stage->deed;
    struct once_write write = {.node = deed->node};
    int err;

    pile_start(stage);
    write.value = deed->members[0];
    err = once_awset_add(state, &write, &stage->one);
    for (size_t i = 1; err == ONCE_OK && i < deed->member_count; i++) {
        write.value = deed->members[i];
        err = push_remove(stage, state, write.value);
        if (err != ONCE_OK)
            break;
        once_buf_clear(&stage->two);
        err = once_awset_add(once_buf_bytes(&stage->one), &write, &stage->two);
        if (err == ONCE_OK)
            err = pile_push(stage, &stage->one);
        once__stage_swap(&stage->one, &stage->two);
    }
    if (err == ONCE_OK)
        err = pile_push(stage, &stage->one);
    return err == ONCE_OK ? pile_take(stage) : err;
}

int once__stage_insert(struct once__stage *stage)
{
    enum once_order order;
    struct once__slot *slot;
    struct news news;
    int err = once__stage_open(stage, ONCE_OBJECT_AWSET, &slot);

    if (err != ONCE_OK)
        return err;
    ONCE_ASSERT(stage->deed->member_count > 0);
    err = count_members(stage, slot->now.merge.state, &news);
    if (err == ONCE_OK)
        err = make_inserts(stage, slot->now.merge.state);
    if (err != ONCE_OK)
        return once__stage_lattice_error(stage, err);
    err = once__stage_take(stage, slot, once_buf_bytes(&stage->one), &order);
    return err == ONCE_OK ? once__stage_number(stage, (int64_t)news.new_count) : err;
}

static int make_removes(struct once__stage *stage, struct once_bytes state)
{
    const struct once__deed *deed = stage->deed;
    int err = ONCE_OK;

    pile_start(stage);
    for (size_t i = 0; err == ONCE_OK && i < deed->member_count; i++)
        err = push_remove(stage, state, deed->members[i]);
    return err == ONCE_OK ? pile_take(stage) : err;
}

int once__stage_remove(struct once__stage *stage)
{
    enum once_order order;
    struct once__slot *slot;
    struct news news;
    int err = once__stage_open(stage, ONCE_OBJECT_AWSET, &slot);

    if (err != ONCE_OK)
        return err;
    err = count_members(stage, slot->now.merge.state, &news);
    if (err == ONCE_OK && news.count == news.new_count)
        return once__stage_number(stage, 0);
    if (err == ONCE_OK)
        err = make_removes(stage, slot->now.merge.state);
    if (err != ONCE_OK)
        return once__stage_lattice_error(stage, err);
    err = once__stage_take(stage, slot, once_buf_bytes(&stage->one), &order);
    return err == ONCE_OK ? once__stage_number(stage, (int64_t)(news.count - news.new_count)) : err;
}
