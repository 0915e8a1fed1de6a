/* SPDX-License-Identifier: Apache-2.0
 *
 * AWSET: a set whose members come and go, and where an add wins over a remove that did not see it.
 *
 *     context (context.h), u32 member count, then for each member, strictly increasing:
 *         u32 member size, member, the dots of its adds (dots.h), at least one
 *
 * A member is in the set while one of its dots lives. An add makes a new dot and replaces the dots
 * of that member that it saw; a remove takes those away and adds nothing. What was removed leaves
 * only its dots in the context, which melt into the base: a set that was filled and emptied a
 * million times is as small as one that was emptied once.
 */
#include "base/bytes.h"
#include "lattice/dots.h"
#include "lattice/ops.h"
#include "lattice/scalar.h"

/* One state in a walk over members. While left > 0 the reader stands behind the member's name. */
struct side {
    struct once__reader *reader;
    struct once__context context;
    uint32_t left;
    struct once_bytes member;
};

static void side_stand(struct side *side)
{
    if (side->left == 0)
        return;
    side->member = once__read_member(side->reader);
    if (!once__reader_ok(side->reader))
        side->left = 0;
}

/* Reads the context, but not yet the members. */
static void side_open(struct side *side, struct once__reader *reader)
{
    side->reader = reader;
    side->left = 0;
    side->member = (struct once_bytes){0};
    once__context_read(reader, &side->context);
}

static void side_start(struct side *side)
{
    side->left = once__read_count(side->reader);
    side_stand(side);
}

static void side_next(struct side *side)
{
    side->left--;
    if (!once__reader_ok(side->reader))
        side->left = 0;
    side_stand(side);
}

/* The dots of the member that the walk takes next; none for a side that is not at it. */
static void side_dots(const struct side *side, bool taken, struct once__dots *ret_dots)
{
    if (taken)
        once__dots_open(ret_dots, side->reader, &side->context, false);
    else
        once__dots_none(ret_dots, false);
}

static enum once__take next_member(const struct side *a, const struct side *b)
{
    int order = a->left == 0 ? 1 : b->left == 0 ? -1 : once__bytes_compare(a->member, b->member);

    return once__take_by(order);
}

static void awset_check(struct once__reader *reader, unsigned depth)
{
    struct side side;
    struct once_bytes before = {0};

    (void)depth;
    side_open(&side, reader);
    side_start(&side);
    for (bool first = true; side.left > 0; first = false) {
        const uint8_t *where = reader->at;

        if (!first && once__bytes_compare(before, side.member) >= 0)
            once__reader_fail(reader, ONCE_ERR_DAMAGED, side.member.data,
                              "a member that is not above the one before it");
        if (once__dots_check(reader, &side.context, false) == 0)
            once__reader_fail(reader, ONCE_ERR_DAMAGED, where, "a member without a dot");
        before = side.member;
        side_next(&side);
    }
    once__context_release(&side.context);
}

static void awset_merge(struct once__reader *a, struct once__reader *b, struct once__writer *out,
                        unsigned depth)
{
    struct side sides[2];
    size_t count_mark;
    uint64_t count = 0;

    (void)depth;
    side_open(&sides[0], a);
    side_open(&sides[1], b);
    once__context_link(&sides[0].context, &sides[1].context);
    once__context_merge(&sides[0].context, &sides[1].context, out);
    side_start(&sides[0]);
    side_start(&sides[1]);
    count_mark = once__put_gap_u32(out);
    while (sides[0].left > 0 || sides[1].left > 0) {
        enum once__take take = next_member(&sides[0], &sides[1]);
        size_t member_mark = once__writer_mark(out), dots_mark;
        struct once__dots a_dots, b_dots;
        uint32_t dots_count;

        once__put_member(out, sides[take == ONCE__TAKE_B].member);
        dots_mark = once__put_gap_u32(out);
        side_dots(&sides[0], take != ONCE__TAKE_B, &a_dots);
        side_dots(&sides[1], take != ONCE__TAKE_A, &b_dots);
        dots_count = once__dots_merge(&a_dots, &b_dots, out);
        once__patch_count(out, dots_mark, dots_count);
        if (dots_count > 0)
            count++;
        else
            once__writer_rewind(out, member_mark); /* all its adds are gone, and so is the member */
        if (take != ONCE__TAKE_B)
            side_next(&sides[0]);
        if (take != ONCE__TAKE_A)
            side_next(&sides[1]);
    }
    once__patch_count(out, count_mark, count);
    once__context_release(&sides[0].context);
    once__context_release(&sides[1].context);
}

static enum once_order awset_compare(struct once__reader *a, struct once__reader *b, unsigned depth)
{
    struct side sides[2];
    enum once_order order;

    (void)depth;
    side_open(&sides[0], a);
    side_open(&sides[1], b);
    once__context_link(&sides[0].context, &sides[1].context);
    order = once__context_compare(&sides[0].context, &sides[1].context);
    side_start(&sides[0]);
    side_start(&sides[1]);
    while (sides[0].left > 0 || sides[1].left > 0) {
        enum once__take take = next_member(&sides[0], &sides[1]);
        struct once__dots a_dots, b_dots;

        side_dots(&sides[0], take != ONCE__TAKE_B, &a_dots);
        side_dots(&sides[1], take != ONCE__TAKE_A, &b_dots);
        order = once__order_join(order, once__dots_compare(&a_dots, &b_dots));
        if (take != ONCE__TAKE_B)
            side_next(&sides[0]);
        if (take != ONCE__TAKE_A)
            side_next(&sides[1]);
    }
    once__context_release(&sides[0].context);
    once__context_release(&sides[1].context);
    return order;
}

const struct once__lattice_ops once__awset_ops = {
    .name = "awset",
    .bottom_size = 8,
    .check = awset_check,
    .merge = awset_merge,
    .compare = awset_compare,
};

/* Moves to the member, or behind where it would be: is it there? */
static bool find_member(struct side *side, struct once_bytes member)
{
    while (side->left > 0) {
        int order = once__bytes_compare(side->member, member);
        uint32_t dots_count;

        if (order >= 0)
            return order == 0;
        dots_count = once__read_count(side->reader);
        (void)once__read_bytes(side->reader, (size_t)dots_count * ONCE__DOT_SIZE);
        side_next(side);
    }
    return false;
}

/* The delta that replaces the member's dots in state by the new one, or by nothing. */
static int replace(struct side *side, struct once_bytes member, const struct once__new_dot *new_dot,
                   struct once__writer *out)
{
    struct once__dots replaced;
    uint32_t node_index;

    side_start(side);
    side_dots(side, find_member(side, member), &replaced);
    once__put_header(out, ONCE_LATTICE_AWSET);
    node_index = once__dots_put_context(&replaced, new_dot, out);
    once__put_u32(out, new_dot ? 1 : 0);
    if (new_dot) {
        once__put_member(out, member);
        once__put_u32(out, 1);
        once__put_dot(out, node_index, new_dot->number);
    }
    if (!once__reader_ok(side->reader))
        once__writer_fail(out, side->reader->err);
    return once__writer_finish(out);
}

int once_awset_add(struct once_bytes state, const struct once_write *write, struct once_buf *out)
{
    struct once__new_dot new_dot;
    struct once__reader reader;
    struct once__writer writer;
    struct side side;
    int err;

    if (!out || !write || !once__bytes_readable(write->node) || !once__bytes_readable(write->value))
        return ONCE_ERR_INVALID;
    once__writer_init(&writer, out);
    once__writer_apart(&writer, state);
    once__writer_apart(&writer, write->node);
    once__writer_apart(&writer, write->value);
    once__open(&reader, state, ONCE_LATTICE_AWSET);
    side_open(&side, &reader);
    new_dot = once__dot_after(&side.context, write->node, &writer);
    err = replace(&side, write->value, &new_dot, &writer);
    once__context_release(&side.context);
    return err;
}

int once_awset_remove(struct once_bytes state, struct once_bytes member, struct once_buf *out)
{
    struct once__reader reader;
    struct once__writer writer;
    struct side side;
    int err;

    if (!out || !once__bytes_readable(member))
        return ONCE_ERR_INVALID;
    once__writer_init(&writer, out);
    once__writer_apart(&writer, state);
    once__writer_apart(&writer, member);
    once__open(&reader, state, ONCE_LATTICE_AWSET);
    side_open(&side, &reader);
    err = replace(&side, member, NULL, &writer);
    once__context_release(&side.context);
    return err;
}

int once_awset_contains(struct once_bytes state, struct once_bytes member, bool *ret_contains)
{
    struct once__reader reader;
    struct side side = {.reader = &reader};
    const uint8_t *ignored;
    bool contains;

    if (!ret_contains || !once__bytes_readable(member))
        return ONCE_ERR_INVALID;
    once__open(&reader, state, ONCE_LATTICE_AWSET);
    (void)once__context_skip(&reader, &ignored);
    side_start(&side);
    contains = find_member(&side, member);
    if (!once__reader_ok(&reader))
        return reader.err;
    *ret_contains = contains;
    return ONCE_OK;
}
