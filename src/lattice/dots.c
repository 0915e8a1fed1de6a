/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of living dots; layout in dots.h.
 *
 * What a replica knows of a dot is one of three: nothing (its context lacks it), that it lives (it
 * is listed), that it is gone (the context has it, the list has not). Merging takes the later of
 * the two, dot by dot, by the step proved in scalar.c. That is what makes an add win over a remove
 * that never saw it, and a remove final for the adds that it saw, without keeping anything of what
 * was removed.
 */
#include "lattice/dots.h"

#include "base/bytes.h"
#include "lattice/scalar.h"

struct once__new_dot once__dot_after(const struct once__context *context, struct once_bytes node,
                                     struct once__writer *out)
{
    struct once__new_dot dot = {.node = node, .number = once__context_last(context, node)};

    if (dot.number == UINT64_MAX)
        once__writer_fail(out, ONCE_ERR_OVERFLOW);
    else
        dot.number++;
    return dot;
}

static void stand(struct once__dots *dots)
{
    if (dots->left == 0)
        return;
    dots->dot = once__read_dot(dots->reader, dots->context);
    if (dots->valued)
        dots->value = once__read_member(dots->reader);
    if (!once__reader_ok(dots->reader))
        dots->left = 0;
}

void once__dots_open(struct once__dots *dots, struct once__reader *reader,
                     const struct once__context *context, bool valued)
{
    *dots = (struct once__dots){.reader = reader, .context = context, .valued = valued};
    dots->left = once__read_count(reader);
    stand(dots);
}

void once__dots_none(struct once__dots *dots, bool valued)
{
    *dots = (struct once__dots){.valued = valued};
}

void once__dots_next(struct once__dots *dots)
{
    dots->left--;
    stand(dots);
}

uint32_t once__dots_check(struct once__reader *reader, const struct once__context *context,
                          bool valued)
{
    uint32_t count = once__read_count(reader);
    struct once__dot_ref before = {0};

    for (uint32_t i = 0; i < count && once__reader_ok(reader); i++) {
        const uint8_t *where = reader->at;
        struct once__dot_ref dot = once__read_dot(reader, context);

        if (valued)
            (void)once__read_member(reader);
        if (!once__reader_ok(reader))
            break;
        if (i > 0 &&
            (dot.node < before.node || (dot.node == before.node && dot.number <= before.number)))
            once__reader_fail(reader, ONCE_ERR_DAMAGED, where,
                              "a dot that is not above the one before it");
        else if (!once__context_saw(dot.node, dot.number))
            once__reader_fail(reader, ONCE_ERR_DAMAGED, where + 4,
                              "a dot that the context does not have");
        before = dot;
    }
    return count;
}

/* The next dot of a walk over two lists: who lists it, and what each side knows of it. */
struct step {
    enum once__take take;
    struct once__dot a;
    struct once__dot b;
    struct once__dot_ref dot;
};

static struct step next_step(const struct once__dots *a, const struct once__dots *b)
{
    int order = a->left == 0 ? 1 : b->left == 0 ? -1 : once__dot_compare(a->dot, b->dot);
    struct step step = {.take = once__take_by(order)};
    bool other_saw = true;

    step.dot = step.take == ONCE__TAKE_B ? b->dot : a->dot;
    if (step.take != ONCE__TAKE_BOTH)
        other_saw = once__context_saw(step.dot.node->peer, step.dot.number);
    step.a.alive = step.take != ONCE__TAKE_B;
    step.b.alive = step.take != ONCE__TAKE_A;
    step.a.seen = step.a.alive || other_saw;
    step.b.seen = step.b.alive || other_saw;
    return step;
}

static void step_over(const struct step *step, struct once__dots *a, struct once__dots *b)
{
    if (step->take != ONCE__TAKE_B)
        once__dots_next(a);
    if (step->take != ONCE__TAKE_A)
        once__dots_next(b);
}

uint32_t once__dots_merge(struct once__dots *a, struct once__dots *b, struct once__writer *out)
{
    uint32_t count = 0;

    while (a->left > 0 || b->left > 0) {
        struct step step = next_step(a, b);

        if (once__dot_merge(step.a, step.b).alive) {
            struct once_bytes value = step.take == ONCE__TAKE_B ? b->value : a->value;

            /* One dot with two values means that two writers share a name: the larger value
             * stays. */
            if (step.take == ONCE__TAKE_BOTH && once__bytes_compare(a->value, b->value) < 0)
                value = b->value;
            once__put_dot(out, step.dot.node->merged_index, step.dot.number);
            if (a->valued)
                once__put_member(out, value);
            count++;
        }
        step_over(&step, a, b);
    }
    return count;
}

enum once_order once__dots_compare(struct once__dots *a, struct once__dots *b)
{
    enum once_order order = ONCE_ORDER_EQUAL;

    while (a->left > 0 || b->left > 0) {
        struct step step = next_step(a, b);

        order = once__order_join(order, once__dot_order(step.a, step.b));
        if (step.take == ONCE__TAKE_BOTH) {
            int values = once__bytes_compare(a->value, b->value);

            if (values != 0)
                order = once__order_join(order, values < 0 ? ONCE_ORDER_BEFORE : ONCE_ORDER_AFTER);
        }
        step_over(&step, a, b);
    }
    return order;
}

uint32_t once__dots_put_context(struct once__dots *replaced, const struct once__new_dot *new_dot,
                                struct once__writer *out)
{
    struct once__context_builder builder;
    struct once_bytes current = {0};
    uint32_t new_index = 0;

    once__context_build(&builder, out);
    while (replaced->left > 0 || new_dot) {
        bool old = replaced->left > 0 &&
                   (!new_dot || once__bytes_compare(replaced->dot.node->name, new_dot->node) <= 0);
        struct once_bytes node = old ? replaced->dot.node->name : new_dot->node;

        if (builder.node_count == 0 || once__bytes_compare(current, node) != 0)
            once__context_build_node(&builder, node, 0);
        current = node;
        once__context_build_number(&builder, old ? replaced->dot.number : new_dot->number);
        if (old) {
            once__dots_next(replaced);
        } else {
            new_index = builder.node_count - 1;
            new_dot = NULL;
        }
    }
    once__context_build_end(&builder);
    return new_index;
}
