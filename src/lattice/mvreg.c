/* SPDX-License-Identifier: Apache-2.0
 *
 * MVREG: a register that keeps every value that no later write has replaced.
 *
 *     context (context.h), then the living writes (dots.h), each dot with its value
 *
 * A write makes a new dot and replaces the writes that it saw. Two writes that did not see each
 * other both live on, as two values, until someone who sees both writes again.
 */
#include "base/bytes.h"
#include "lattice/dots.h"
#include "lattice/ops.h"
#include "lattice/scalar.h"

static void mvreg_check(struct once__reader *reader, unsigned depth)
{
    struct once__context context;

    (void)depth;
    once__context_read(reader, &context);
    (void)once__dots_check(reader, &context, true);
    once__context_release(&context);
}

static void mvreg_merge(struct once__reader *a, struct once__reader *b, struct once__writer *out,
                        unsigned depth)
{
    struct once__context contexts[2];
    struct once__dots a_dots, b_dots;
    size_t count_mark;

    (void)depth;
    once__context_read(a, &contexts[0]);
    once__context_read(b, &contexts[1]);
    once__context_link(&contexts[0], &contexts[1]);
    once__context_merge(&contexts[0], &contexts[1], out);
    count_mark = once__put_gap_u32(out);
    once__dots_open(&a_dots, a, &contexts[0], true);
    once__dots_open(&b_dots, b, &contexts[1], true);
    once__patch_count(out, count_mark, once__dots_merge(&a_dots, &b_dots, out));
    once__context_release(&contexts[0]);
    once__context_release(&contexts[1]);
}

static enum once_order mvreg_compare(struct once__reader *a, struct once__reader *b, unsigned depth)
{
    struct once__context contexts[2];
    struct once__dots a_dots, b_dots;
    enum once_order order;

    (void)depth;
    once__context_read(a, &contexts[0]);
    once__context_read(b, &contexts[1]);
    once__context_link(&contexts[0], &contexts[1]);
    once__dots_open(&a_dots, a, &contexts[0], true);
    once__dots_open(&b_dots, b, &contexts[1], true);
    order = once__order_join(once__context_compare(&contexts[0], &contexts[1]),
                             once__dots_compare(&a_dots, &b_dots));
    once__context_release(&contexts[0]);
    once__context_release(&contexts[1]);
    return order;
}

const struct once__lattice_ops once__mvreg_ops = {
    .name = "mvreg",
    .bottom_size = 8,
    .check = mvreg_check,
    .merge = mvreg_merge,
    .compare = mvreg_compare,
};

int once_mvreg_write(struct once_bytes state, const struct once_write *write, struct once_buf *out)
{
    struct once__new_dot new_dot;
    struct once__context context;
    struct once__reader reader;
    struct once__writer writer;
    struct once__dots replaced;
    uint32_t node_index;

    if (!out || !write || !once__bytes_readable(write->node) || !once__bytes_readable(write->value))
        return ONCE_ERR_INVALID;
    once__writer_init(&writer, out);
    once__writer_apart(&writer, state);
    once__writer_apart(&writer, write->node);
    once__writer_apart(&writer, write->value);
    once__open(&reader, state, ONCE_LATTICE_MVREG);
    once__context_read(&reader, &context);
    new_dot = once__dot_after(&context, write->node, &writer);

    once__dots_open(&replaced, &reader, &context, true);
    once__put_header(&writer, ONCE_LATTICE_MVREG);
    node_index = once__dots_put_context(&replaced, &new_dot, &writer);
    once__put_u32(&writer, 1);
    once__put_dot(&writer, node_index, new_dot.number);
    once__put_member(&writer, write->value);
    if (!once__reader_ok(&reader))
        once__writer_fail(&writer, reader.err);
    once__context_release(&context);
    return once__writer_finish(&writer);
}
