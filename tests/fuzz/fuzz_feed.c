/* SPDX-License-Identifier: Apache-2.0
 *
 * Foreign messages of changes, and foreign cursors. The first byte: if it is odd the last 8 bytes
 * of the message become the check of the rest, so that the rules behind the check are reached too.
 * The next 24 bytes are a cursor. The message lies in a heap block of its own size. Nothing may
 * crash; what passes the check has one form only, and what was merged from it can be given on and
 * on.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <once/key.h>
#include <xxhash.h>

#include "object/object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CURSOR_SIZE = 24, HEADER_SIZE = 32, CHECK_SIZE = 8 };

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_feed: %s (line %d)\n", #condition, __LINE__);                    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct side {
    struct once__objects *objects;
    struct once__recent *recent;
    uint64_t last;
};

static struct side side_new(void)
{
    static const uint8_t secret[ONCE__OBJECT_SECRET_SIZE] = {1};
    struct side side = {0};

    MUST(once__objects_new(secret, &side.objects) == ONCE_OK);
    MUST(once__recent_new(&side.recent) == ONCE_OK);
    return side;
}

static void side_free(struct side *side)
{
    once__objects_free(side->objects);
    once__recent_free(side->recent);
}

static void append(struct once_buf *out, const void *data, size_t size)
{
    MUST(once_buf_append(out, data, size) == ONCE_OK);
}

/* Merges the entries; a name that comes with two types keeps the first. Whatever was read, written
 * again, is the message. */
static void take(struct side *side, struct once_bytes message)
{
    struct once_bytes name, state;
    struct once_buf again;
    uint32_t count = 0, le_count;
    uint64_t check;
    size_t offset = 0;
    int err;

    once_buf_init(&again, message.size);
    append(&again, message.data, HEADER_SIZE);
    while ((err = once__feed_next(message, &offset, &name, &state)) == 1) {
        struct once__edit edit = {.kind = state.data[0], .name = name};
        uint8_t name_size = (uint8_t)name.size;
        uint32_t state_size = htole32((uint32_t)state.size);

        MUST(once_key_check(name, NULL) == ONCE_OK);
        MUST(once_lattice_check(state, NULL, NULL) == ONCE_OK);
        append(&again, &name_size, 1);
        append(&again, name.data, name.size);
        append(&again, &state_size, 4);
        append(&again, state.data, state.size);
        edit.to.merge.delta = state;
        edit.to.merge.version = ++side->last;
        err = once__objects_put(side->objects, &edit);
        MUST(err == ONCE_OK || err == ONCE_ERR_DAMAGED);
        if (err == ONCE_OK)
            once__recent_note(side->recent, &edit);
        count++;
    }
    MUST(err == 0);
    le_count = htole32(count);
    check = htole64(XXH3_64bits(again.data, again.size));
    append(&again, &check, CHECK_SIZE);
    MUST(memcmp(again.data + 12, &le_count, 4) == 0);
    MUST(again.size == message.size && memcmp(again.data, message.data, again.size) == 0);
    once_buf_release(&again);
}

/* Asks until there is no more, which must come. */
static void give(const struct side *from, struct side *to, struct once_changes_cursor cursor,
                 size_t size_max)
{
    bool more = true;

    for (uint64_t i = 0; more; i++) {
        struct once_defect defect;
        struct once_buf out;

        MUST(i <= 2 * from->last + 2);
        once_buf_init(&out, ONCE_LATTICE_SIZE_MAX);
        MUST(once__feed_changes(from->objects, from->recent, from->last, &cursor, size_max, &out,
                                &more) == ONCE_OK);
        if (out.size > 0) {
            MUST(once__feed_check(once_buf_bytes(&out), &defect) == ONCE_OK);
            take(to, once_buf_bytes(&out));
        }
        once_buf_release(&out);
    }
    MUST(cursor.since == from->last && cursor.until == 0 && cursor.at == 0);
}

static void must_be_equal(const struct side *a, const struct side *b)
{
    MUST(once__objects_count(a->objects) == once__objects_count(b->objects));
    for (uint64_t i = 0; i < once__objects_count(a->objects); i++) {
        const struct once__object *one = once__objects_at(a->objects, i);
        const struct once__object *other = once__objects_find(b->objects, once__object_name(one));
        struct once_bytes x = once__object_state(one), y;

        MUST(other);
        y = once__object_state(other);
        MUST(x.size == y.size && memcmp(x.data, y.data, x.size) == 0);
    }
}

static void pass_on(struct once_bytes message, const uint8_t *bytes)
{
    struct side first = side_new(), second = side_new(), third = side_new(), any = side_new();
    struct once_changes_cursor cursor = {0}, foreign = {0};

    take(&first, message);
    give(&first, &second, cursor, bytes[0]);
    must_be_equal(&first, &second);
    once__recent_start(second.recent, second.last); /* from here by a walk */
    give(&second, &third, cursor, 16 * (size_t)bytes[1]);
    must_be_equal(&second, &third);
    memcpy(&foreign.since, bytes, 8);
    memcpy(&foreign.until, bytes + 8, 8);
    memcpy(&foreign.at, bytes + 16, 8);
    give(&first, &any, foreign, bytes[2]);
    side_free(&first);
    side_free(&second);
    side_free(&third);
    side_free(&any);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct once_defect defect = {.offset = SIZE_MAX};
    struct once_bytes message, name, state;
    size_t offset = 0;
    uint8_t *copy;
    int err;

    if (size < 1 + CURSOR_SIZE)
        return 0;
    message.size = size - 1 - CURSOR_SIZE;
    message.data = copy = malloc(message.size > 0 ? message.size : 1);
    MUST(copy);
    memcpy(copy, data + 1 + CURSOR_SIZE, message.size);
    if (data[0] % 2 && message.size >= CHECK_SIZE) {
        uint64_t check = htole64(XXH3_64bits(copy, message.size - CHECK_SIZE));

        memcpy(copy + message.size - CHECK_SIZE, &check, CHECK_SIZE);
    }
    err = once__feed_check(message, &defect);
    if (err == ONCE_OK) {
        pass_on(message, data + 1);
    } else {
        MUST(err == ONCE_ERR_DAMAGED);
        MUST(defect.what && defect.offset <= message.size);
        while (once__feed_next(message, &offset, &name, &state) == 1)
            MUST(offset <= message.size - CHECK_SIZE); /* stays inside even so */
    }
    free(copy);
    return 0;
}
