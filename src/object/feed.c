/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between replicas: what is new in the mergeable objects of one store, for another to
 * merge. docs/format/changes.md specifies them:
 *
 *     offset  size
 *          0     8  "Oncefeed"
 *          8     4  version: 1
 *         12     4  number of entries, not 0
 *         16    16  id of the store that gives
 *         32        entries: name size (1), name, state size (4), state
 *                8  check: XXH3-64 of everything before
 *
 * A cursor says what was given. Two ways lead forward:
 * - The ring of recent.c has everything since the cursor: its deltas, by object (gather.c).
 * - Otherwise a walk over all objects gives the states of those that changed since. It may take
 *   many messages, and objects change meanwhile: such a change has a number above `until`, the last
 *   one when the walk began, and comes again with the first question after the walk.
 *
 * It holds: when a cursor has come to `since`, the messages on the way, merged in any order, are at
 * or after what each object was when change `since` was made. They may hold more: a whole state is
 * newer than the change that it is given for, and merging what is known changes nothing.
 *
 * A cursor comes from outside; one that cannot be of these objects (it has numbers that were not
 * reached yet: the store was restored from an older copy) starts again from zero. For a cursor of
 * another store the engine does so, before it asks here; store_id is only copied into the message.
 *
 * The engine's lock is held meanwhile: the work for one message is bounded, whatever size_max is.
 */
#include <once/key.h>
#include <xxhash.h>

#include "base/assert.h"
#include "lattice/codec.h"
#include "object/gather.h"
#include "object/object.h"

enum {
    MAGIC_SIZE = 8,
    FORMAT_VERSION = 1,
    COUNT_OFFSET = 12,
    ID_SIZE = 16,
    HEADER_SIZE = 32,
    CHECK_SIZE = 8,
    FRAME_SIZE = HEADER_SIZE + CHECK_SIZE,
    ENTRY_SIZE = 1 + 4,       /* beside its name and state */
    OBJECTS_AT_ONCE = 1 << 14 /* objects that a walk looks at for one message */
};

static const uint8_t magic[MAGIC_SIZE] = {'O', 'n', 'c', 'e', 'f', 'e', 'e', 'd'};

_Static_assert(ONCE_OBJECT_NAME_SIZE_MAX <= UINT8_MAX, "a name's size is one byte");
_Static_assert(sizeof((struct once_changes_cursor *)0)->store_id == ID_SIZE, "ids are alike");
_Static_assert(COUNT_OFFSET + 4 + ID_SIZE == HEADER_SIZE, "the header has no gap");

/* ---- Writing a message ----------------------------------------------------------------------- */

struct message {
    const uint8_t *store_id;
    struct once__writer writer;
    size_t start; /* in the buffer */
    uint32_t count;
};

/* Nothing is written before the first entry: there are no messages without one. */
static void message_begin(struct message *message, const uint8_t *store_id, struct once_buf *out)
{
    *message = (struct message){.store_id = store_id, .start = out->size};
    once__writer_init(&message->writer, out);
}

static void message_put(struct message *message, struct once_bytes name, struct once_bytes state)
{
    struct once__writer *writer = &message->writer;

    ONCE_ASSERT(name.size > 0 && name.size <= ONCE_OBJECT_NAME_SIZE_MAX);
    ONCE_ASSERT(state.size > 0 && state.size <= UINT32_MAX);
    if (message->count++ == 0) {
        once__put_bytes(writer, (struct once_bytes){magic, MAGIC_SIZE});
        once__put_u32(writer, FORMAT_VERSION);
        (void)once__put_gap_u32(writer);
        once__put_bytes(writer, (struct once_bytes){message->store_id, ID_SIZE});
    }
    once__put_u8(writer, (uint8_t)name.size);
    once__put_bytes(writer, name);
    once__put_u32(writer, (uint32_t)state.size);
    once__put_bytes(writer, state);
}

/* On failure out is what it was. */
static int message_end(struct message *message)
{
    struct once__writer *writer = &message->writer;

    if (message->count > 0 && writer->err == ONCE_OK) {
        once__patch_u32(writer, message->start + COUNT_OFFSET, message->count);
        once__put_u64(writer, XXH3_64bits(writer->out->data + message->start,
                                          writer->out->size - message->start));
    }
    return once__writer_finish(writer);
}

/* ---- Giving ---------------------------------------------------------------------------------- */

int once__feed_delta(const struct once__objects *objects, const struct once__recent *recent,
                     const struct once__object *object, uint64_t since, struct once_buf *out)
{
    struct once_bytes state = once__object_state(object);
    struct once__gathering gathering;
    int err = ONCE_OK;

    (void)objects;
    if (since >= once__object_version(object))
        return ONCE_OK;
    once__gathering_init(&gathering);
    if (since > 0 && since >= once__recent_since(recent))
        err = once__gathering_take_one(&gathering, object, recent, since);
    if (err == ONCE_OK && gathering.group_count > 0)
        err = once__gathering_merge(&gathering, &gathering.groups[0], &state);
    if (err == ONCE_OK)
        err = once_buf_append(out, state.data, state.size);
    once__gathering_release(&gathering);
    return err;
}

struct question {
    const struct once__objects *objects;
    const struct once__recent *recent;
    uint64_t last;
    size_t size_max; /* of all entries */
};

/* From the ring. *ret_split: the next change is too large for one message, but can be given object
 * by object, in a walk; then nothing happened yet. */
static int give_recent(const struct question *question, struct once_changes_cursor *cursor,
                       struct once_buf *out, bool *ret_split)
{
    struct once__gather_bounds bounds = {.size_max = question->size_max, .entry_size = ENTRY_SIZE};
    struct once__gathering gathering;
    struct message message;
    int err;

    once__gathering_init(&gathering);
    err = once__gathering_take(&gathering, question->objects, question->recent, cursor->since,
                               bounds);
    if (err != ONCE_OK || gathering.split)
        goto out;
    message_begin(&message, cursor->store_id, out);
    for (size_t i = 0; i < gathering.group_count && err == ONCE_OK; i++) {
        const struct once__group *group = &gathering.groups[i];
        struct once_bytes state;

        if (group->part_count == 0)
            continue;
        err = once__gathering_merge(&gathering, group, &state);
        if (err == ONCE_OK)
            message_put(&message, once__object_name(group->object), state);
        else
            once__writer_fail(&message.writer, err);
    }
    err = message_end(&message);
    if (err == ONCE_OK)
        cursor->since = gathering.all ? question->last : gathering.version;
out:
    *ret_split = gathering.split;
    once__gathering_release(&gathering);
    return err;
}

/* One stretch of a walk over the objects. */
static int give_walk(const struct question *question, struct once_changes_cursor *cursor,
                     struct once_buf *out)
{
    uint64_t count = once__objects_count(question->objects), at = cursor->at;
    struct message message;
    size_t size = 0;
    int err;

    message_begin(&message, cursor->store_id, out);
    for (unsigned looked = 0; at < count && looked < OBJECTS_AT_ONCE; at++, looked++) {
        const struct once__object *object = once__objects_at(question->objects, at);
        struct once_bytes name = once__object_name(object), state;

        if (!once_object_mergeable(once__object_type(object)) ||
            once__object_version(object) <= cursor->since)
            continue;
        state = once__object_state(object);
        size += ENTRY_SIZE + name.size + state.size;
        if (message.count > 0 && size > question->size_max)
            break;
        message_put(&message, name, state);
    }
    err = message_end(&message);
    if (err != ONCE_OK)
        return err;
    cursor->at = at;
    if (at == count) {
        cursor->since = cursor->until;
        cursor->until = cursor->at = 0;
    }
    return ONCE_OK;
}

/* Can these numbers be of these objects? */
static bool cursor_is_possible(const struct once_changes_cursor *cursor,
                               const struct question *question)
{
    if (cursor->until == 0)
        return cursor->since <= question->last && cursor->at == 0;
    return cursor->since < cursor->until && cursor->until <= question->last &&
           cursor->at <= once__objects_count(question->objects);
}

int once__feed_changes(const struct once__objects *objects, const struct once__recent *recent,
                       uint64_t last, struct once_changes_cursor *cursor, size_t size_max,
                       struct once_buf *out, bool *ret_more)
{
    size_t room = out->size_max - out->size;
    struct question question = {.objects = objects, .recent = recent, .last = last};
    struct once_changes_cursor to = *cursor;
    bool split = false;
    int err = ONCE_OK;

    /* An object that is too large for both goes whole, if out has room for it. */
    question.size_max = size_max < room ? size_max : room;
    question.size_max -= question.size_max < FRAME_SIZE ? question.size_max : FRAME_SIZE;
    if (!cursor_is_possible(&to, &question))
        to.since = to.until = to.at = 0;
    if (to.until == 0 && to.since < last && to.since >= once__recent_since(recent))
        err = give_recent(&question, &to, out, &split);
    if (err == ONCE_OK && to.until == 0 && to.since < last &&
        (split || to.since < once__recent_since(recent)))
        to.until = last;
    if (err == ONCE_OK && to.until > 0)
        err = give_walk(&question, &to, out);
    if (err != ONCE_OK)
        return err;
    ONCE_ASSERT(to.since <= last && to.until <= last);
    *cursor = to;
    *ret_more = to.until > 0 || to.since < last;
    return ONCE_OK;
}

/* ---- Reading a message ----------------------------------------------------------------------- */

/* A reader of the entries, from the first on; failed if there is no room for header and check. */
static void open_entries(struct once__reader *reader, struct once_bytes message)
{
    once__reader_init(reader, message);
    if (message.size < FRAME_SIZE)
        once__reader_truncated(reader);
    if (!once__reader_ok(reader))
        return;
    reader->at += HEADER_SIZE;
    reader->end -= CHECK_SIZE;
}

static void read_entry(struct once__reader *reader, struct once_bytes *ret_name,
                       struct once_bytes *ret_state)
{
    *ret_name = once__read_bytes(reader, once__read_u8(reader));
    *ret_state = once__read_bytes(reader, once__read_u32(reader));
}

/* What stands around the entries. */
static void check_frame(struct once__reader *reader, struct once_bytes message)
{
    const uint8_t *start = reader->start, *check = reader->end;

    if (memcmp(start, magic, MAGIC_SIZE) != 0)
        once__reader_fail(reader, ONCE_ERR_DAMAGED, start, "not a message of changes");
    else if (once__load_u32(start + MAGIC_SIZE) != FORMAT_VERSION)
        once__reader_fail(reader, ONCE_ERR_DAMAGED, start + MAGIC_SIZE,
                          "a version of messages that is not known here");
    else if (once__load_u64(check) != XXH3_64bits(message.data, message.size - CHECK_SIZE))
        once__reader_fail(reader, ONCE_ERR_DAMAGED, check, "the check is not that of the message");
    else if (once__load_u32(start + COUNT_OFFSET) == 0)
        once__reader_fail(reader, ONCE_ERR_DAMAGED, start + COUNT_OFFSET, "there are no entries");
}

static void check_entry(struct once__reader *reader)
{
    struct once_bytes name, state;
    struct once_defect defect;
    int err;

    read_entry(reader, &name, &state);
    if (!once__reader_ok(reader))
        return;
    if (once_key_check(name, &defect) != ONCE_OK) {
        once__reader_fail(reader, ONCE_ERR_DAMAGED, name.data, "not the name of an object");
        return;
    }
    if (state.size > ONCE_MERGEABLE_SIZE_MAX) {
        once__reader_fail(reader, ONCE_ERR_DAMAGED, state.data, "a state larger than the bound");
        return;
    }
    err = once_lattice_check(state, NULL, &defect);
    if (err != ONCE_OK)
        once__reader_fail(reader, err == ONCE_ERR_MEMORY ? err : ONCE_ERR_DAMAGED,
                          state.data + defect.offset, defect.what);
}

int once__feed_check(struct once_bytes message, struct once_defect *ret_defect)
{
    struct once__reader reader;

    open_entries(&reader, message);
    if (once__reader_ok(&reader))
        check_frame(&reader, message);
    if (once__reader_ok(&reader)) {
        uint32_t count = once__load_u32(reader.start + COUNT_OFFSET);

        for (uint32_t i = 0; i < count && once__reader_ok(&reader); i++)
            check_entry(&reader);
        if (once__reader_left(&reader) > 0)
            once__reader_fail(&reader, ONCE_ERR_DAMAGED, reader.at,
                              "something follows the entries");
    }
    if (once__reader_ok(&reader))
        return ONCE_OK;
    *ret_defect = reader.defect;
    return reader.err == ONCE_ERR_FULL ? ONCE_ERR_DAMAGED : reader.err;
}

int once__feed_next(struct once_bytes message, size_t *offset, struct once_bytes *ret_name,
                    struct once_bytes *ret_state)
{
    struct once_bytes name, state;
    struct once__reader reader;

    open_entries(&reader, message);
    if (once__reader_ok(&reader) && *offset > 0) {
        if (*offset < HEADER_SIZE || *offset > message.size - CHECK_SIZE)
            return ONCE_ERR_INVALID;
        reader.at = reader.start + *offset;
    }
    if (once__reader_ok(&reader) && once__reader_left(&reader) == 0)
        return 0;
    read_entry(&reader, &name, &state);
    if (!once__reader_ok(&reader))
        return reader.err;
    *offset = (size_t)(reader.at - reader.start);
    *ret_name = name;
    *ret_state = state;
    return 1;
}
