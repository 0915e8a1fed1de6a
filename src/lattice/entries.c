/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorted entries of fixed width: checking, finding, and the two-way walks that merge and compare.
 *
 * A walk has two lanes, one per input, each standing at an entry whose extent has been checked
 * against the end of its input. Keys are compared by their first 8 bytes as one big-endian number;
 * equal numbers fall back to the whole keys. Long stretches of short members are left to sprint.c.
 *
 * Invariants of a lane that has been looked at and has entries left: its entry, `size` bytes from
 * `at`, lies before the end, and prefix is that of its key. Every entry is checked against the end
 * of the output.
 */
#include "lattice/entries.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "lattice/scalar.h"
#include "lattice/sprint.h"

enum {
    SIZE_SIZE = 4,   /* of the u32 before each key */
    PREFIX_SIZE = 8, /* of the key's start that is compared as one number */
    WALK_MAX = 64,   /* entries walked before sprinting is tried again */
};

struct lane {
    struct once__run run;
    size_t size; /* of the entry at `at`, all of it */
    uint64_t prefix;
    bool damaged; /* an entry did not fit before the end; then none are left */
};

struct once__entry once__read_entry(struct once__reader *reader, enum once__width width)
{
    struct once__entry entry = {0};

    if (width == ONCE__WIDTH_NONE) {
        entry.key = once__read_member(reader);
        return entry;
    }
    entry.key = once__read_node(reader);
    entry.numbers[0] = once__read_u64(reader);
    if (width == ONCE__WIDTH_PAIR)
        entry.numbers[1] = once__read_u64(reader);
    return entry;
}

void once__put_single(struct once__writer *writer, enum once_lattice_type type,
                      enum once__width width, const struct once__entry *entry)
{
    bool empty = entry->numbers[0] == 0 && entry->numbers[1] == 0;
    size_t mark;

    ONCE_ASSERT(width == ONCE__WIDTH_COUNT || width == ONCE__WIDTH_PAIR);
    once__put_header(writer, type);
    once__put_u32(writer, empty ? 0 : 1);
    mark = once__writer_mark(writer);
    once__put_node(writer, entry->key);
    once__put_u64(writer, entry->numbers[0]);
    if (width == ONCE__WIDTH_PAIR)
        once__put_u64(writer, entry->numbers[1]);
    if (empty) /* Put all the same: a bad node is refused whatever its number. */
        once__writer_rewind(writer, mark);
}

bool once__entries_find(struct once__reader *reader, enum once__width width, struct once_bytes key,
                        struct once__entry *ret_entry)
{
    uint32_t count = once__read_count(reader);

    for (uint32_t i = 0; i < count && once__reader_ok(reader); i++) {
        struct once__entry entry = once__read_entry(reader, width);
        int order = once__bytes_compare(entry.key, key);

        if (order > 0 || !once__reader_ok(reader))
            break;
        if (order == 0) {
            *ret_entry = entry;
            return true;
        }
    }
    *ret_entry = (struct once__entry){.key = key};
    return false;
}

void once__entries_check(struct once__reader *reader, enum once__width width)
{
    uint32_t count = once__read_count(reader);
    struct once_bytes before = {0};

    for (uint32_t i = 0; i < count && once__reader_ok(reader); i++) {
        struct once__entry entry = once__read_entry(reader, width);

        if (!once__reader_ok(reader))
            return;
        if (i > 0 && once__bytes_compare(before, entry.key) >= 0)
            once__reader_fail(reader, ONCE_ERR_DAMAGED, entry.key.data,
                              "a key that is not above the one before it");
        else if (width != ONCE__WIDTH_NONE && entry.numbers[0] == 0 && entry.numbers[1] == 0)
            once__reader_fail(reader, ONCE_ERR_DAMAGED, entry.key.data + entry.key.size,
                              "an entry of zeros, which means the same as none");
        before = entry.key;
    }
}

/* Zero-padded, so that a lower prefix is a lower key; equal ones say nothing. room is what the
 * input holds from key on. */
static inline uint64_t prefix_of(const uint8_t *key, size_t key_size, size_t room)
{
    uint64_t prefix = 0;

    if (key_size >= PREFIX_SIZE || (key_size > 0 && room >= PREFIX_SIZE)) {
        memcpy(&prefix, key, PREFIX_SIZE);
        prefix = be64toh(prefix);
        if (key_size < PREFIX_SIZE)
            prefix &= UINT64_MAX << (8 * (PREFIX_SIZE - key_size));
        return prefix;
    }
    for (size_t i = 0; i < key_size; i++)
        prefix |= (uint64_t)key[i] << (8 * (PREFIX_SIZE - 1 - i));
    return prefix;
}

/* Looks at the entry at `at`, if there is one left: it must lie wholly before the end. */
static inline void lane_look(struct lane *lane, size_t width)
{
    size_t room = (size_t)(lane->run.end - lane->run.at);
    size_t key_size;

    if (lane->run.left == 0)
        return;
    key_size = room >= SIZE_SIZE ? once__load_u32(lane->run.at) : 0;
    if (room < SIZE_SIZE + width || key_size > room - SIZE_SIZE - width) {
        lane->damaged = true;
        lane->run.left = 0;
        return;
    }
    lane->size = SIZE_SIZE + key_size + width;
    lane->prefix = prefix_of(lane->run.at + SIZE_SIZE, key_size, room - SIZE_SIZE);
}

static inline void lane_next(struct lane *lane, size_t width)
{
    lane->run.at += lane->size;
    lane->run.left--;
    lane_look(lane, width);
}

/* Stands the lane at the first entry. */
static struct lane lane_open(struct once__reader *reader, size_t width)
{
    struct lane lane = {.run.left = once__read_count(reader)};

    lane.run.at = reader->at;
    lane.run.end = reader->end;
    lane_look(&lane, width);
    return lane;
}

/* Moves the reader to where the lane went, with its failure. */
static void lane_close(const struct lane *lane, struct once__reader *reader)
{
    if (lane->damaged)
        once__reader_truncated(reader);
    else if (once__reader_ok(reader))
        reader->at = lane->run.at;
}

static inline int lane_compare(const struct lane *a, const struct lane *b, size_t width)
{
    struct once_bytes a_key = {.data = a->run.at + SIZE_SIZE, .size = a->size - SIZE_SIZE - width};
    struct once_bytes b_key = {.data = b->run.at + SIZE_SIZE, .size = b->size - SIZE_SIZE - width};

    if (a->prefix != b->prefix)
        return a->prefix < b->prefix ? -1 : 1;
    return once__bytes_compare(a_key, b_key);
}

/* The numbers behind the key; 0 past the width. */
static inline struct once__pn lane_numbers(const struct lane *lane, size_t width)
{
    const uint8_t *numbers = lane->run.at + lane->size - width;
    struct once__pn pn = {0};

    if (width >= ONCE__WIDTH_COUNT)
        pn.plus = once__load_u64(numbers);
    if (width == ONCE__WIDTH_PAIR)
        pn.minus = once__load_u64(numbers + 8);
    return pn;
}

/* Both lanes have the key; one entry has just been copied to before out, give it the merged
 * numbers. */
static inline void merge_numbers(const struct lane lanes[2], uint8_t *out, size_t width)
{
    struct once__pn a = lane_numbers(&lanes[0], width);
    struct once__pn b = lane_numbers(&lanes[1], width);
    struct once__pn merged;

    if (width == ONCE__WIDTH_COUNT) {
        once__store_u64(out - 8, once__count_merge(a.plus, b.plus));
    } else if (width == ONCE__WIDTH_PAIR) {
        merged = once__pn_merge(a, b);
        once__store_u64(out - 16, merged.plus);
        once__store_u64(out - 8, merged.minus);
    }
}

/* Writes at most steps merged entries from *out on, until a lane is empty, and moves *out. Gives
 * how many, or -1 if out_end is too near. Inlined for each width, so that width is a constant in
 * the loop. */
static inline __attribute__((always_inline)) int64_t
walk_merge(struct lane lanes[2], uint8_t **out, const uint8_t *out_end, int64_t steps, size_t width)
{
    uint8_t *at = *out;
    int64_t written = 0;

    while (lanes[0].run.left > 0 && lanes[1].run.left > 0 && written < steps) {
        enum once__take take = once__take_by(lane_compare(&lanes[0], &lanes[1], width));
        struct lane *from = &lanes[take == ONCE__TAKE_B];

        if (from->size > (size_t)(out_end - at))
            return -1;
        memcpy(at, from->run.at, from->size);
        at += from->size;
        if (take == ONCE__TAKE_BOTH) {
            merge_numbers(lanes, at, width);
            lane_next(&lanes[1], width);
        }
        lane_next(from, width);
        written++;
    }
    *out = at;
    return written;
}

/* The same to the end of a lane, sprinting where sprinting works. */
static int64_t walk_merge_members(struct lane lanes[2], uint8_t **out, const uint8_t *out_end)
{
    int64_t written = 0, walked = 0;

    do {
        written += walked;
        written += (int64_t)once__sprint(&lanes[0].run, &lanes[1].run, out, out_end);
        lane_look(&lanes[0], ONCE__WIDTH_NONE);
        lane_look(&lanes[1], ONCE__WIDTH_NONE);
        walked = walk_merge(lanes, out, out_end, WALK_MAX, ONCE__WIDTH_NONE);
    } while (walked > 0);
    return walked < 0 ? walked : written;
}

void once__entries_merge(struct once__reader *a, struct once__reader *b, struct once__writer *out,
                         enum once__width width)
{
    struct lane lanes[2] = {lane_open(a, width), lane_open(b, width)};
    size_t count_mark = once__put_gap_u32(out);
    size_t start = once__writer_mark(out), room;
    uint8_t *first = once__put_room_upto(out, once__reader_left(a) + once__reader_left(b), &room);
    uint8_t *at = first;
    int64_t count = -1;

    if (!first)
        return;
    switch (width) {
    case ONCE__WIDTH_NONE:
        count = walk_merge_members(lanes, &at, first + room);
        break;
    case ONCE__WIDTH_COUNT:
        count = walk_merge(lanes, &at, first + room, INT64_MAX, ONCE__WIDTH_COUNT);
        break;
    case ONCE__WIDTH_PAIR:
        count = walk_merge(lanes, &at, first + room, INT64_MAX, ONCE__WIDTH_PAIR);
        break;
    }
    if (count < 0) {
        once__writer_fail(out, ONCE_ERR_FULL);
        return;
    }
    once__writer_rewind(out, start + (size_t)(at - first));

    /* What is left of the other lane is above everything written: it stays as it is. */
    for (int i = 0; i < 2; i++) {
        const struct once__run *rest = &lanes[i].run;

        if (rest->left > 0)
            once__put_bytes(
                out, (struct once_bytes){.data = rest->at, .size = (size_t)(rest->end - rest->at)});
        count += rest->left;
    }
    once__patch_count(out, count_mark, (uint64_t)count);
    lane_close(&lanes[0], a);
    lane_close(&lanes[1], b);
}

enum once_order once__entries_compare(struct once__reader *a, struct once__reader *b,
                                      enum once__width width)
{
    struct lane lanes[2] = {lane_open(a, width), lane_open(b, width)};
    enum once_order order = ONCE_ORDER_EQUAL;

    while (lanes[0].run.left > 0 && lanes[1].run.left > 0) {
        enum once__take take = once__take_by(lane_compare(&lanes[0], &lanes[1], width));

        if (take == ONCE__TAKE_BOTH)
            order = once__order_join(order, once__pn_order(lane_numbers(&lanes[0], width),
                                                           lane_numbers(&lanes[1], width)));
        else
            order = once__order_join(order,
                                     take == ONCE__TAKE_A ? ONCE_ORDER_AFTER : ONCE_ORDER_BEFORE);
        if (take != ONCE__TAKE_B)
            lane_next(&lanes[0], width);
        if (take != ONCE__TAKE_A)
            lane_next(&lanes[1], width);
    }
    if (lanes[0].run.left > 0)
        order = once__order_join(order, ONCE_ORDER_AFTER);
    if (lanes[1].run.left > 0)
        order = once__order_join(order, ONCE_ORDER_BEFORE);
    lane_close(&lanes[0], a);
    lane_close(&lanes[1], b);
    return order;
}
