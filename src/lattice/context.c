/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal contexts: reading, searching, joining and comparing sets of dots; layout in context.h.
 *
 * A context that has been read is canonical, whatever the bytes came from: all rules are checked
 * here, on every read, because looking up dots of a damaged context would silently give wrong
 * answers. The rest of a state is trusted as far as once_lattice_check was asked.
 */
#include "lattice/context.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "lattice/scalar.h"

enum {
    NODE_SIZE_MIN = 4 + 1 + 8 + 4, /* of one node in a context */
    NUMBER_SIZE = 8,
};

static uint64_t extra_at(const struct once__context_node *node, uint32_t index)
{
    return once__load_u64(node->extras + (size_t)index * NUMBER_SIZE);
}

static void check_extras(struct once__reader *reader, const struct once__context_node *node)
{
    for (uint32_t i = 0; i < node->extra_count; i++) {
        uint64_t extra = extra_at(node, i);
        const uint8_t *where = node->extras + (size_t)i * NUMBER_SIZE;

        if (i == 0 && (extra <= node->base || extra - node->base == 1)) {
            once__reader_fail(reader, ONCE_ERR_DAMAGED, where, "a dot that belongs to the base");
            return;
        }
        if (i > 0 && extra <= extra_at(node, i - 1)) {
            once__reader_fail(reader, ONCE_ERR_DAMAGED, where,
                              "a dot that is not above the one before it");
            return;
        }
    }
}

static void read_node(struct once__reader *reader, struct once__context_node *node)
{
    const uint8_t *where;

    *node = (struct once__context_node){.name = once__read_node(reader)};
    where = reader->at;
    node->base = once__read_u64(reader);
    node->extra_count = once__read_count(reader);
    node->extras = once__read_bytes(reader, (size_t)node->extra_count * NUMBER_SIZE).data;
    if (!once__reader_ok(reader))
        return;
    if (node->base == 0 && node->extra_count == 0)
        once__reader_fail(reader, ONCE_ERR_DAMAGED, where, "a node without a dot");
    else
        check_extras(reader, node);
}

void once__context_read(struct once__reader *reader, struct once__context *ret_context)
{
    struct once__context *context = ret_context;
    uint32_t count = once__read_count(reader);

    context->nodes = context->few;
    context->count = 0;
    if (count > once__reader_left(reader) / NODE_SIZE_MIN) {
        once__reader_truncated(reader);
        return;
    }
    if (count > ONCE__CONTEXT_FEW) {
        context->nodes = calloc(count, sizeof *context->nodes);
        if (!context->nodes) {
            context->nodes = context->few;
            once__reader_fail(reader, ONCE_ERR_MEMORY, reader->at, "out of memory");
            return;
        }
    }
    for (uint32_t i = 0; i < count && once__reader_ok(reader); i++) {
        struct once__context_node *node = &context->nodes[i];

        read_node(reader, node);
        if (once__reader_ok(reader) && i > 0 &&
            once__bytes_compare(context->nodes[i - 1].name, node->name) >= 0)
            once__reader_fail(reader, ONCE_ERR_DAMAGED, node->name.data,
                              "a node that is not above the one before it");
    }
    if (once__reader_ok(reader))
        context->count = count;
}

void once__context_release(struct once__context *context)
{
    if (context->nodes != context->few)
        free(context->nodes);
    context->nodes = context->few;
    context->count = 0;
}

void once__context_skip_node(struct once__reader *reader)
{
    struct once__context_node node;

    read_node(reader, &node);
}

uint32_t once__context_skip(struct once__reader *reader, const uint8_t **ret_first)
{
    uint32_t count = once__read_count(reader);

    *ret_first = reader->at;
    for (uint32_t i = 0; i < count && once__reader_ok(reader); i++)
        once__context_skip_node(reader);
    return count;
}

bool once__context_saw(const struct once__context_node *node, uint64_t number)
{
    uint32_t low = 0, high;

    if (!node || number == 0)
        return false;
    if (number <= node->base)
        return true;
    high = node->extra_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t extra = extra_at(node, middle);

        if (extra == number)
            return true;
        if (extra < number)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

uint64_t once__context_last(const struct once__context *context, struct once_bytes name)
{
    for (uint32_t i = 0; i < context->count; i++) {
        const struct once__context_node *node = &context->nodes[i];

        if (once__bytes_equal(node->name, name))
            return node->extra_count > 0 ? extra_at(node, node->extra_count - 1) : node->base;
    }
    return 0;
}

void once__context_link(struct once__context *a, struct once__context *b)
{
    uint32_t i = 0, j = 0, merged = 0;

    while (i < a->count || j < b->count) {
        struct once__context_node *a_node = i < a->count ? &a->nodes[i] : NULL;
        struct once__context_node *b_node = j < b->count ? &b->nodes[j] : NULL;
        int order = a_node && b_node ? once__bytes_compare(a_node->name, b_node->name)
                                     : (a_node ? -1 : 1);
        enum once__take take = once__take_by(order);

        if (take != ONCE__TAKE_B) {
            a_node->merged_index = merged;
            a_node->peer = take == ONCE__TAKE_BOTH ? b_node : NULL;
            i++;
        }
        if (take != ONCE__TAKE_A) {
            b_node->merged_index = merged;
            b_node->peer = take == ONCE__TAKE_BOTH ? a_node : NULL;
            j++;
        }
        merged++;
    }
}

/* The extras of both, in order; those that the bases cover are left out by the builder. */
static void build_extras(struct once__context_builder *builder, const struct once__context_node *a,
                         const struct once__context_node *b)
{
    uint32_t i = 0, j = 0;

    while (i < a->extra_count && j < b->extra_count) {
        uint64_t a_extra = extra_at(a, i), b_extra = extra_at(b, j);

        once__context_build_number(builder, a_extra < b_extra ? a_extra : b_extra);
        i += a_extra <= b_extra;
        j += b_extra <= a_extra;
    }
    for (; i < a->extra_count; i++)
        once__context_build_number(builder, extra_at(a, i));
    for (; j < b->extra_count; j++)
        once__context_build_number(builder, extra_at(b, j));
}

void once__context_merge(const struct once__context *a, const struct once__context *b,
                         struct once__writer *out)
{
    static const struct once__context_node none;
    struct once__context_builder builder;
    uint32_t i = 0, j = 0;

    once__context_build(&builder, out);
    while (i < a->count || j < b->count) {
        const struct once__context_node *from_a = &none, *from_b = &none;

        /* The linked places say who is next: the node whose place is the number of nodes so far. */
        if (i < a->count && a->nodes[i].merged_index == builder.node_count)
            from_a = &a->nodes[i++];
        if (j < b->count && b->nodes[j].merged_index == builder.node_count)
            from_b = &b->nodes[j++];
        ONCE_ASSERT(from_a != &none || from_b != &none);
        once__context_build_node(&builder, from_a != &none ? from_a->name : from_b->name,
                                 once__count_merge(from_a->base, from_b->base));
        build_extras(&builder, from_a, from_b);
    }
    once__context_build_end(&builder);
}

/* Both contexts are canonical, so the larger base has a dot, the smaller one's base + 1, that the
 * other lacks; an extra is lacking where the other neither covers nor names it. */
static enum once_order compare_nodes(const struct once__context_node *a,
                                     const struct once__context_node *b)
{
    enum once_order order = once__count_order(a->base, b->base);
    uint32_t i = 0, j = 0;

    while (i < a->extra_count || j < b->extra_count) {
        uint64_t a_extra = i < a->extra_count ? extra_at(a, i) : 0;
        uint64_t b_extra = j < b->extra_count ? extra_at(b, j) : 0;

        if (j == b->extra_count || (i < a->extra_count && a_extra < b_extra)) {
            if (a_extra > b->base)
                order = once__order_join(order, ONCE_ORDER_AFTER);
            i++;
        } else if (i == a->extra_count || b_extra < a_extra) {
            if (b_extra > a->base)
                order = once__order_join(order, ONCE_ORDER_BEFORE);
            j++;
        } else {
            i++;
            j++;
        }
    }
    return order;
}

enum once_order once__context_compare(const struct once__context *a, const struct once__context *b)
{
    enum once_order order = ONCE_ORDER_EQUAL;

    for (uint32_t i = 0; i < a->count; i++) {
        const struct once__context_node *node = &a->nodes[i];

        order = once__order_join(order,
                                 node->peer ? compare_nodes(node, node->peer) : ONCE_ORDER_AFTER);
    }
    for (uint32_t j = 0; j < b->count; j++) {
        if (!b->nodes[j].peer)
            order = once__order_join(order, ONCE_ORDER_BEFORE);
    }
    return order;
}

struct once__dot_ref once__read_dot(struct once__reader *reader,
                                    const struct once__context *context)
{
    const uint8_t *where = reader->at;
    uint32_t index = once__read_u32(reader);
    struct once__dot_ref dot = {.number = once__read_u64(reader)};

    if (!once__reader_ok(reader))
        return dot;
    if (index < context->count)
        dot.node = &context->nodes[index];
    else
        once__reader_fail(reader, ONCE_ERR_DAMAGED, where, "a dot of a node that is not there");
    return dot;
}

void once__put_dot(struct once__writer *writer, uint32_t node_index, uint64_t number)
{
    once__put_u32(writer, node_index);
    once__put_u64(writer, number);
}

int once__dot_compare(struct once__dot_ref a, struct once__dot_ref b)
{
    if (a.node->merged_index != b.node->merged_index)
        return a.node->merged_index < b.node->merged_index ? -1 : 1;
    return (a.number > b.number) - (a.number < b.number);
}

void once__context_build(struct once__context_builder *builder, struct once__writer *out)
{
    *builder = (struct once__context_builder){.out = out, .count_mark = once__put_gap_u32(out)};
}

/* Fills in what is known only now of the node that was current. */
static void build_close(struct once__context_builder *builder)
{
    if (builder->node_count == 0)
        return;
    once__patch_u64(builder->out, builder->base_mark, builder->base);
    once__patch_count(builder->out, builder->base_mark + NUMBER_SIZE, builder->extra_count);
}

void once__context_build_node(struct once__context_builder *builder, struct once_bytes name,
                              uint64_t base)
{
    build_close(builder);
    once__put_node(builder->out, name);
    builder->base_mark = once__writer_mark(builder->out);
    once__put_u64(builder->out, base);
    (void)once__put_gap_u32(builder->out);
    builder->base = base;
    builder->extra_count = 0;
    builder->node_count++;
}

void once__context_build_number(struct once__context_builder *builder, uint64_t number)
{
    if (number <= builder->base)
        return;
    if (builder->extra_count == 0 && number - builder->base == 1) {
        builder->base = number; /* the gap is closed */
        return;
    }
    once__put_u64(builder->out, number);
    builder->extra_count++;
}

void once__context_build_end(struct once__context_builder *builder)
{
    build_close(builder);
    once__patch_count(builder->out, builder->count_mark, builder->node_count);
}
