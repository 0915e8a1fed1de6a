/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading collections entry by entry, without allocating and without knowing the encoding. An
 * iterator points into the state's bytes and stays inside them, whatever they hold.
 */
#include "lattice/context.h"
#include "lattice/entries.h"
#include "lattice/ops.h"

static struct once__reader reader_from(const uint8_t *at, const uint8_t *end)
{
    struct once__reader reader = {.start = at, .at = at, .end = end};

    return reader;
}

/* The name of the node at this place of the context. Dots come in order of their nodes, so the
 * iterator's node only ever moves forward. */
static struct once_bytes find_name(struct once_lattice_iter *iter, struct once__reader *reader,
                                   uint32_t index)
{
    struct once__reader nodes = reader_from(iter->node_at, iter->end);
    struct once_bytes name;

    if (index < iter->node_index || index >= iter->node_count)
        once__reader_fail(reader, ONCE_ERR_DAMAGED, reader->start, "a dot of a node out of order");
    while (iter->node_index < index && once__reader_ok(reader)) {
        once__context_skip_node(&nodes);
        if (!once__reader_ok(&nodes))
            once__reader_fail(reader, nodes.err, reader->start, "a context that is damaged");
        iter->node_at = nodes.at;
        iter->node_index++;
    }
    name = once__read_node(&nodes);
    if (!once__reader_ok(&nodes))
        once__reader_fail(reader, nodes.err, reader->start, "a context that is damaged");
    return name;
}

static void read_numbered(struct once_lattice_iter *iter, struct once__reader *reader,
                          struct once_lattice_entry *entry)
{
    struct once__entry numbered = once__read_entry(reader, once__width_of(iter->type));

    entry->key = numbered.key;
    entry->number = numbered.numbers[0];
    entry->minus = numbered.numbers[1];
}

static void read_entry(struct once_lattice_iter *iter, struct once__reader *reader,
                       struct once_lattice_entry *entry)
{
    switch (iter->type) {
    case ONCE_LATTICE_GSET:
    case ONCE_LATTICE_VV:
    case ONCE_LATTICE_GCOUNTER:
    case ONCE_LATTICE_PNCOUNTER:
        read_numbered(iter, reader, entry);
        break;
    case ONCE_LATTICE_AWSET:
        entry->key = once__read_member(reader);
        (void)once__read_bytes(reader, (size_t)once__read_count(reader) * ONCE__DOT_SIZE);
        break;
    case ONCE_LATTICE_MVREG:
        entry->key = find_name(iter, reader, once__read_u32(reader));
        entry->number = once__read_u64(reader);
        entry->value = once__read_member(reader);
        break;
    case ONCE_LATTICE_MAP:
        entry->key = once__read_member(reader);
        entry->value = once__read_bytes(reader, once__read_u32(reader));
        break;
    case ONCE_LATTICE_MAX:
    case ONCE_LATTICE_MIN:
    case ONCE_LATTICE_FLAG:
    case ONCE_LATTICE_LWW:
    default:
        once__reader_fail(reader, ONCE_ERR_TYPE, reader->start, "not a collection");
        break;
    }
}

int once_lattice_iter_init(struct once_lattice_iter *iter, struct once_bytes state)
{
    struct once_lattice_iter fresh = {0};
    struct once__reader reader;

    if (!iter)
        return ONCE_ERR_INVALID;
    once__reader_init(&reader, state);
    fresh.type = once__read_header(&reader);
    switch (fresh.type) {
    case ONCE_LATTICE_AWSET:
    case ONCE_LATTICE_MVREG:
        fresh.node_count = once__context_skip(&reader, &fresh.node_at);
        break;
    case ONCE_LATTICE_MAX:
    case ONCE_LATTICE_MIN:
    case ONCE_LATTICE_FLAG:
    case ONCE_LATTICE_LWW:
        once__reader_fail(&reader, ONCE_ERR_TYPE, reader.start, "not a collection");
        break;
    case ONCE_LATTICE_GSET:
    case ONCE_LATTICE_VV:
    case ONCE_LATTICE_GCOUNTER:
    case ONCE_LATTICE_PNCOUNTER:
    case ONCE_LATTICE_MAP:
    default:
        break;
    }
    fresh.left = once__read_count(&reader);
    if (!once__reader_ok(&reader))
        return reader.err;
    fresh.at = reader.at;
    fresh.end = reader.end;
    *iter = fresh;
    return ONCE_OK;
}

int once_lattice_iter_next(struct once_lattice_iter *iter, struct once_lattice_entry *ret_entry)
{
    struct once_lattice_entry entry = {0};
    struct once__reader reader;

    if (!iter || !ret_entry)
        return ONCE_ERR_INVALID;
    if (iter->left == 0)
        return 0;
    reader = reader_from(iter->at, iter->end);
    read_entry(iter, &reader, &entry);
    if (!once__reader_ok(&reader))
        return reader.err;
    iter->at = reader.at;
    iter->left--;
    *ret_entry = entry;
    return 1;
}

int once_lattice_count(struct once_bytes state, size_t *ret_count)
{
    struct once_lattice_iter iter;
    int err = ret_count ? once_lattice_iter_init(&iter, state) : ONCE_ERR_INVALID;

    if (err != ONCE_OK)
        return err;
    *ret_count = iter.left;
    return ONCE_OK;
}
