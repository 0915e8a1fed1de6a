/* SPDX-License-Identifier: Apache-2.0
 *
 * An object as edits that make it, in slices. Between the slices the object may change: whatever
 * changes is in the log behind the place where the dump began, and putting that on top mends it.
 *
 * A part is where to go on. LOG: how many events are there already. OUTBOX: 0 for how many there
 * ever were, then 1 + the last message's number. BUCKETS: the index of the next; one that comes
 * before it shifts the others up, so that one is dumped twice and none is left out.
 */
#include "object/body.h"

#include "base/assert.h"

static int dump_whole(const struct once__object *object, struct once_buf *out)
{
    enum once_object_type type = once__object_type(object);
    struct once__edit edit = {.kind = type, .name = once__object_name(object)};

    switch (edit.kind) {
    case ONCE__EDIT_COUNTER:
        edit.to.counter = once__object_counter(object);
        break;
    case ONCE__EDIT_REGISTER:
        edit.to.reg = once__object_register(object);
        break;
    case ONCE__EDIT_MACHINE:
        edit.to.machine.declared = once__object_declared(object);
        edit.to.machine.at = once__object_machine_at(object);
        break;
    case ONCE__EDIT_FENCE:
        edit.to.fence = once__object_fence(object);
        break;
    case ONCE__EDIT_LEASE:
        edit.to.lease = once__object_lease(object);
        break;
    case ONCE__EDIT_SEQUENCE:
        edit.to.sequence = once__object_sequence(object);
        break;
    default:
        ONCE_ASSERT(once_object_mergeable(type));
        edit.to.merge.delta = once__object_state(object);
        edit.to.merge.version = once__object_version(object);
    }
    return once__edit_encode(&edit, out);
}
_Static_assert((int)ONCE__EDIT_COUNTER == (int)ONCE_OBJECT_COUNTER &&
                   (int)ONCE__EDIT_REGISTER == (int)ONCE_OBJECT_REGISTER &&
                   (int)ONCE__EDIT_MACHINE == (int)ONCE_OBJECT_MACHINE &&
                   (int)ONCE__EDIT_FENCE == (int)ONCE_OBJECT_FENCE &&
                   (int)ONCE__EDIT_LEASE == (int)ONCE_OBJECT_LEASE &&
                   (int)ONCE__EDIT_SEQUENCE == (int)ONCE_OBJECT_SEQUENCE,
               "what replaces a whole object has its type's number");

static int dump_event(const struct once__object *object, uint64_t *part, struct once_buf *out)
{
    struct once_object_item item = once__object_event(object, *part + 1);
    struct once__edit edit = {
        .kind = ONCE__EDIT_EVENT,
        .name = once__object_name(object),
        .to.event = {.number = item.number, .id = item.id, .payload = item.payload}};

    *part = item.number == once__object_event_count(object) ? UINT64_MAX : item.number;
    return once__edit_encode(&edit, out);
}

static int dump_message(const struct once__object *object, uint64_t *part, struct once_buf *out)
{
    struct once__edit edit = {.name = once__object_name(object)};
    struct once_object_item item;

    if (*part == 0) {
        edit.kind = ONCE__EDIT_OUTBOX;
        edit.to.outbox = once__object_message_total(object);
        *part = 1;
        return once__edit_encode(&edit, out);
    }
    if (!once__object_message_after(object, *part - 1, &item)) {
        *part = UINT64_MAX;
        return ONCE_OK;
    }
    edit.kind = ONCE__EDIT_MESSAGE;
    edit.to.message.number = item.number;
    edit.to.message.group = item.group;
    edit.to.message.payload = item.payload;
    *part = item.number + 1;
    return once__edit_encode(&edit, out);
}

static int dump_bucket(const struct once__object *object, uint64_t *part, struct once_buf *out)
{
    struct once_object_item item = once__object_bucket_at(object, *part);
    struct once__edit edit = {.kind = ONCE__EDIT_BUCKET,
                              .name = once__object_name(object),
                              .to.bucket = {.bucket = item.id, .count = item.number}};

    *part = *part + 1 == once__object_bucket_count(object) ? UINT64_MAX : *part + 1;
    return once__edit_encode(&edit, out);
}

/* One edit, and *part behind it. */
static int dump_part(const struct once__object *object, uint64_t *part, struct once_buf *out)
{
    enum once_object_type type = once__object_type(object);

    if (type == ONCE_OBJECT_LOG)
        return dump_event(object, part, out);
    if (type == ONCE_OBJECT_OUTBOX)
        return dump_message(object, part, out);
    if (type == ONCE_OBJECT_BUCKETS)
        return dump_bucket(object, part, out);
    *part = UINT64_MAX;
    return dump_whole(object, out);
}

int once__object_dump(const struct once__object *object, uint64_t *part, size_t size_max,
                      struct once_buf *out)
{
    size_t start = out->size;
    uint64_t next = *part;

    ONCE_ASSERT(next != UINT64_MAX);

    do {
        int err = dump_part(object, &next, out);

        if (err != ONCE_OK) {
            out->size = start;
            return err;
        }
    } while (next != UINT64_MAX && out->size - start < size_max);
    *part = next;
    return ONCE_OK;
}
