/* SPDX-License-Identifier: Apache-2.0
 *
 * What an edit does to its object. Edits are physical: what they say is so afterwards. One that is
 * old is either undone by those behind it in the log or does nothing, so a stretch of old ones put
 * again, in order, ends where it ended.
 *
 * Bounds of counts are the stage's business, sizes edit.c's. What an edit from disk could break
 * here is checked: gaps, states that no machine has, merges that fail.
 */
#include "object/body.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Other bytes, and *object is where they are. */
static int rewrite(struct once__heap *heap, struct once__object **object, struct once_bytes bytes)
{
    struct once__object *there = once__object_rewrite(heap, *object, bytes);

    if (!there)
        return ONCE_ERR_MEMORY;
    *object = there;
    return ONCE_OK;
}

static int change_merge(struct once__heap *heap, struct once_buf *scratch,
                        const struct once__edit *edit, struct once__object **object)
{
    struct once_bytes state = once__object_bytes(*object), merged;
    uint64_t *version;
    int err = ONCE_OK;

    if (!once__bytes_equal(state, edit->to.merge.delta)) {
        once_buf_clear(scratch);
        err = once_lattice_merge(state, edit->to.merge.delta, scratch);
        merged = once_buf_bytes(scratch);
        if (err == ONCE_ERR_MEMORY)
            return err;
        if (err != ONCE_OK || merged.size > ONCE_MERGEABLE_SIZE_MAX)
            return ONCE_ERR_DAMAGED;
        if (!once__bytes_equal(state, merged))
            err = rewrite(heap, object, merged);
    }
    if (err != ONCE_OK)
        return err;
    version = once__object_own(*object);
    *version = larger(*version, edit->to.merge.version);
    return ONCE_OK;
}

static int change_register(struct once__heap *heap, const struct once__register *reg,
                           struct once__object **object)
{
    uint64_t *version;
    int err;

    ONCE_ASSERT(reg->present || reg->value.size == 0);
    err = rewrite(heap, object, reg->value);
    if (err != ONCE_OK)
        return err;
    version = once__object_own(*object);
    *version = reg->version;
    (*object)->present = reg->present;
    return ONCE_OK;
}

/* state_count is 0 until the first declaration was read. */
static int change_machine(struct once__heap *heap, const struct once__edit *edit,
                          struct once__object **object)
{
    struct once_bytes declared = edit->to.machine.declared;
    struct once__declaration declaration;
    uint32_t state_count = (*object)->state_count;
    uint64_t *at;
    int err;

    if (state_count == 0) {
        if (once__declaration_read(declared, &declaration, NULL) != ONCE_OK)
            return ONCE_ERR_DAMAGED;
        state_count = declaration.machine.state_count;
    } else if (!once__bytes_equal(once__object_bytes(*object), declared)) {
        return ONCE_ERR_DAMAGED;
    }
    if (edit->to.machine.at >= state_count)
        return ONCE_ERR_DAMAGED;
    err = rewrite(heap, object, declared);
    if (err != ONCE_OK)
        return err;
    (*object)->state_count = (uint8_t)state_count;
    at = once__object_own(*object);
    *at = edit->to.machine.at;
    return ONCE_OK;
}
_Static_assert(ONCE_MACHINE_STATES_MAX <= UINT8_MAX, "state_count fits");

static int change_moved(uint32_t moved, struct once__object *object)
{
    uint64_t *at = once__object_own(object);

    if (moved >= object->state_count)
        return ONCE_ERR_DAMAGED;
    *at = moved;
    return ONCE_OK;
}

static int change_lease(struct once__heap *heap, const struct once__lease *lease,
                        struct once__object **object)
{
    struct once__lease_fixed *fixed;
    int err = rewrite(heap, object, lease->owner);

    if (err != ONCE_OK)
        return err;
    fixed = once__object_own(*object);
    *fixed = (struct once__lease_fixed){.token = lease->token, .until_ms = lease->until_ms};
    return ONCE_OK;
}

static int change_event(struct once__heap *heap, const struct once__edit *edit,
                        struct once__items *items)
{
    struct once__item_bytes bytes = {.word = edit->to.event.id, .payload = edit->to.event.payload};
    uint64_t number = edit->to.event.number;

    ONCE_ASSERT(items->total == items->count);
    if (number == 0 || number > items->count + 1)
        return ONCE_ERR_DAMAGED;
    return number <= items->count ? ONCE_OK : once__items_add(items, heap, number, bytes);
}

static int change_message(struct once__heap *heap, const struct once__edit *edit,
                          struct once__items *items)
{
    struct once__item_bytes bytes = {.word = edit->to.message.group,
                                     .payload = edit->to.message.payload};
    uint64_t number = edit->to.message.number;

    if (number == 0 || number > ONCE_VERSION_MAX)
        return ONCE_ERR_DAMAGED;
    return once__items_find(items, number) ? ONCE_OK : once__items_add(items, heap, number, bytes);
}

static void change_sent(struct once__heap *heap, uint64_t number, struct once__items *items)
{
    if (once__items_find(items, number))
        once__items_take(items, heap, number);
    items->total = larger(items->total, number);
}

/* Those whose fixed part is all: the value in its place. */
static void change_fixed(const struct once__edit *edit, struct once__object *object)
{
    void *fixed = once__object_own(object);

    if (edit->kind == ONCE__EDIT_COUNTER)
        memcpy(fixed, &edit->to.counter, sizeof edit->to.counter);
    else if (edit->kind == ONCE__EDIT_FENCE)
        memcpy(fixed, &edit->to.fence, sizeof edit->to.fence);
    else
        memcpy(fixed, &edit->to.sequence, sizeof edit->to.sequence);
}

static void change_outbox(uint64_t total, struct once__items *items)
{
    items->total = larger(items->total, total);
}

int once__object_change(struct once__heap *heap, struct once_buf *scratch,
                        const struct once__edit *edit, struct once__object **object)
{
    void *fixed = once__object_own(*object);

    ONCE_ASSERT(once__object_type(*object) == once__edit_type(edit->kind));

    switch (edit->kind) {
    case ONCE__EDIT_COUNTER:
    case ONCE__EDIT_FENCE:
    case ONCE__EDIT_SEQUENCE:
        change_fixed(edit, *object);
        return ONCE_OK;
    case ONCE__EDIT_REGISTER:
        return change_register(heap, &edit->to.reg, object);
    case ONCE__EDIT_MACHINE:
        return change_machine(heap, edit, object);
    case ONCE__EDIT_MOVED:
        return change_moved(edit->to.moved, *object);
    case ONCE__EDIT_LEASE:
        return change_lease(heap, &edit->to.lease, object);
    case ONCE__EDIT_BUCKET:
        return once__buckets_set(fixed, heap, edit->to.bucket.bucket, edit->to.bucket.count);
    case ONCE__EDIT_EVENT:
        return change_event(heap, edit, fixed);
    case ONCE__EDIT_MESSAGE:
        return change_message(heap, edit, fixed);
    case ONCE__EDIT_SENT:
        change_sent(heap, edit->to.sent, fixed);
        return ONCE_OK;
    case ONCE__EDIT_OUTBOX:
        change_outbox(edit->to.outbox, fixed);
        return ONCE_OK;
    default:
        return change_merge(heap, scratch, edit, object);
    }
}

struct once__object *once__object_made_by(struct once__heap *heap, const struct once__edit *edit)
{
    enum once_object_type type = once__edit_type(edit->kind);
    struct once_bytes bytes = {.size = 0};

    /* Made in its size, so that the change finds room. */
    if (edit->kind == ONCE__EDIT_REGISTER)
        bytes = edit->to.reg.value;
    else if (edit->kind == ONCE__EDIT_MACHINE)
        bytes = edit->to.machine.declared;
    else if (edit->kind == ONCE__EDIT_LEASE)
        bytes = edit->to.lease.owner;
    else if (once_object_mergeable(type))
        bytes = edit->to.merge.delta; /* a state merged with nothing */
    return once__object_new(heap, type, edit->name, bytes);
}
