/* SPDX-License-Identifier: Apache-2.0
 *
 * MAP: a mergeable under each key, maps included.
 *
 *     u32 count, then count times, keys strictly increasing:
 *         u32 key size, key, u32 state size, the whole encoding of a state
 *
 * A key that both have is merged inside. If its states are of different types, the one with the
 * larger tag is taken whole: the types under a key form one lattice, the linear sum of them all,
 * every state of a larger tag above every state of a smaller one. A key is never removed, and a key
 * that holds a bottom is not the same as no key.
 */
#include "base/bytes.h"
#include "lattice/ops.h"
#include "lattice/scalar.h"

/* A walk over entries. While left > 0 it stands at key and state. */
struct walk {
    struct once__reader *reader;
    uint32_t left;
    struct once_bytes key;
    struct once_bytes whole;   /* the entry, from its key size to the end of its state */
    struct once__reader state; /* of the inner state, at its header */
};

static void walk_stand(struct walk *walk)
{
    const uint8_t *start = walk->reader->at;

    if (walk->left == 0)
        return;
    walk->key = once__read_member(walk->reader);
    walk->state = once__reader_inner(walk->reader, once__read_u32(walk->reader));
    walk->whole = (struct once_bytes){.data = start, .size = (size_t)(walk->reader->at - start)};
    if (!once__reader_ok(walk->reader))
        walk->left = 0;
}

/* Fails at a map that is too deep inside others: what bounds the recursion, whatever the bytes. */
static void walk_open(struct walk *walk, struct once__reader *reader, unsigned depth)
{
    *walk = (struct walk){.reader = reader};
    if (depth >= ONCE_LATTICE_DEPTH_MAX)
        once__reader_fail(reader, ONCE_ERR_FULL, reader->at, "maps nested deeper than the bound");
    walk->left = once__read_count(reader);
    walk_stand(walk);
}

/* Takes over what went wrong inside the entry, and goes to the next. */
static void walk_next(struct walk *walk)
{
    once__reader_adopt(walk->reader, &walk->state);
    walk->left--;
    if (!once__reader_ok(walk->reader))
        walk->left = 0;
    walk_stand(walk);
}

static enum once__take next_key(const struct walk *a, const struct walk *b)
{
    int order = a->left == 0 ? 1 : b->left == 0 ? -1 : once__bytes_compare(a->key, b->key);

    return once__take_by(order);
}

static void map_check(struct once__reader *reader, unsigned depth)
{
    struct once_bytes before = {0};
    struct walk walk;

    walk_open(&walk, reader, depth);
    for (bool first = true; walk.left > 0; first = false) {
        if (!first && once__bytes_compare(before, walk.key) >= 0)
            once__reader_fail(&walk.state, ONCE_ERR_DAMAGED, walk.key.data,
                              "a key that is not above the one before it");
        once__check_state(&walk.state, depth + 1);
        before = walk.key;
        walk_next(&walk);
    }
}

/* Both have the key. */
static void merge_inside(struct walk *a, struct walk *b, struct once__writer *out, unsigned depth)
{
    enum once_lattice_type a_type = once__read_header(&a->state);
    enum once_lattice_type b_type = once__read_header(&b->state);
    size_t size_mark;

    switch (once__count_order(a_type, b_type)) {
    case ONCE_ORDER_BEFORE:
        once__put_bytes(out, b->whole);
        return;
    case ONCE_ORDER_AFTER:
        once__put_bytes(out, a->whole);
        return;
    case ONCE_ORDER_EQUAL:
    case ONCE_ORDER_CONCURRENT:
        break;
    }
    once__put_member(out, a->key);
    size_mark = once__put_gap_u32(out);
    if (once__reader_ok(&a->state) && once__reader_ok(&b->state)) {
        once__put_header(out, a_type);
        once__lattice_ops_of(a_type)->merge(&a->state, &b->state, out, depth + 1);
    }
    once__patch_u32(out, size_mark, (uint32_t)(once__writer_mark(out) - size_mark - 4));
}

static void map_merge(struct once__reader *a, struct once__reader *b, struct once__writer *out,
                      unsigned depth)
{
    size_t count_mark = once__put_gap_u32(out);
    uint64_t count = 0;
    struct walk walks[2];

    walk_open(&walks[0], a, depth);
    walk_open(&walks[1], b, depth);
    while (walks[0].left > 0 || walks[1].left > 0) {
        enum once__take take = next_key(&walks[0], &walks[1]);

        if (take == ONCE__TAKE_BOTH)
            merge_inside(&walks[0], &walks[1], out, depth);
        else
            once__put_bytes(out, walks[take].whole);
        count++;
        if (take != ONCE__TAKE_B)
            walk_next(&walks[0]);
        if (take != ONCE__TAKE_A)
            walk_next(&walks[1]);
    }
    once__patch_count(out, count_mark, count);
}

static enum once_order compare_inside(struct walk *a, struct walk *b, unsigned depth)
{
    enum once_lattice_type a_type = once__read_header(&a->state);
    enum once_lattice_type b_type = once__read_header(&b->state);

    if (!once__reader_ok(&a->state) || !once__reader_ok(&b->state))
        return ONCE_ORDER_EQUAL; /* of no account: the walk fails */
    if (a_type != b_type)
        return once__count_order(a_type, b_type);
    return once__lattice_ops_of(a_type)->compare(&a->state, &b->state, depth + 1);
}

static enum once_order map_compare(struct once__reader *a, struct once__reader *b, unsigned depth)
{
    enum once_order order = ONCE_ORDER_EQUAL;
    struct walk walks[2];

    walk_open(&walks[0], a, depth);
    walk_open(&walks[1], b, depth);
    while (walks[0].left > 0 || walks[1].left > 0) {
        enum once__take take = next_key(&walks[0], &walks[1]);

        if (take == ONCE__TAKE_BOTH)
            order = once__order_join(order, compare_inside(&walks[0], &walks[1], depth));
        else
            order = once__order_join(order,
                                     take == ONCE__TAKE_A ? ONCE_ORDER_AFTER : ONCE_ORDER_BEFORE);
        if (take != ONCE__TAKE_B)
            walk_next(&walks[0]);
        if (take != ONCE__TAKE_A)
            walk_next(&walks[1]);
    }
    return order;
}

const struct once__lattice_ops once__map_ops = {
    .name = "map",
    .bottom_size = 4,
    .check = map_check,
    .merge = map_merge,
    .compare = map_compare,
};

int once_map_put(struct once_bytes key, struct once_bytes inner, struct once_buf *out)
{
    struct once__reader reader;
    struct once__writer writer;

    if (!out || !once__bytes_readable(key))
        return ONCE_ERR_INVALID;
    once__reader_init(&reader, inner);
    once__check_state(&reader, 1);
    if (!once__reader_ok(&reader))
        return reader.err;
    once__writer_init(&writer, out);
    once__writer_apart(&writer, key);
    once__writer_apart(&writer, inner);
    once__put_header(&writer, ONCE_LATTICE_MAP);
    once__put_u32(&writer, 1);
    once__put_member(&writer, key);
    once__put_u32(&writer, (uint32_t)inner.size);
    once__put_bytes(&writer, inner);
    return once__writer_finish(&writer);
}

int once_map_get(struct once_bytes state, struct once_bytes key, bool *ret_present,
                 struct once_bytes *ret_inner)
{
    struct once_bytes inner = {0};
    struct once__reader reader;
    struct walk walk;
    bool present = false;

    if (!ret_present || !ret_inner || !once__bytes_readable(key))
        return ONCE_ERR_INVALID;
    once__open(&reader, state, ONCE_LATTICE_MAP);
    walk_open(&walk, &reader, 0);
    while (walk.left > 0 && !present) {
        int order = once__bytes_compare(walk.key, key);

        if (order > 0)
            break;
        if (order == 0) {
            present = true;
            inner.data = walk.state.at;
            inner.size = once__reader_left(&walk.state);
        } else {
            walk_next(&walk);
        }
    }
    if (!once__reader_ok(&reader))
        return reader.err;
    *ret_present = present;
    *ret_inner = inner;
    return ONCE_OK;
}
