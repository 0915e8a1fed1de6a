/* SPDX-License-Identifier: Apache-2.0
 *
 * An object's one allocation: making it, giving it other bytes, and reading it. body.h has the
 * layout. Which edits there are and what they do is table.c's.
 */
#include "object/body.h"

#include <string.h>

#include "base/assert.h"

/* Kind, sizes and numbers of an edit, roughly. */
enum { EDIT_OVERHEAD = 8 };

/* The fixed part is whole words, so a name needs no padding before it. */
static size_t fixed_size(enum once_object_type type)
{
    switch (type) {
    case ONCE_OBJECT_COUNTER:
        return sizeof(int64_t);
    case ONCE_OBJECT_REGISTER:
    case ONCE_OBJECT_MACHINE:
        return sizeof(uint64_t);
    case ONCE_OBJECT_FENCE:
        return sizeof(struct once__fence);
    case ONCE_OBJECT_LEASE:
        return sizeof(struct once__lease_fixed);
    case ONCE_OBJECT_SEQUENCE:
        return sizeof(struct once__sequence);
    case ONCE_OBJECT_LOG:
    case ONCE_OBJECT_OUTBOX:
        return sizeof(struct once__items);
    case ONCE_OBJECT_BUCKETS:
        return sizeof(struct once__buckets);
    case ONCE_OBJECT_NONE:
    case ONCE_OBJECT_MAX:
    case ONCE_OBJECT_MIN:
    case ONCE_OBJECT_FLAG:
    case ONCE_OBJECT_GSET:
    case ONCE_OBJECT_VV:
    case ONCE_OBJECT_LWW:
    case ONCE_OBJECT_GCOUNTER:
    case ONCE_OBJECT_PNCOUNTER:
    case ONCE_OBJECT_AWSET:
    case ONCE_OBJECT_MVREG:
    case ONCE_OBJECT_MAP:
        break;
    }
    ONCE_ASSERT(once_object_mergeable(type));
    return sizeof(uint64_t);
}

static size_t size_with(const struct once__object *object, size_t bytes_size)
{
    return sizeof(*object) + fixed_size(once__object_type(object)) + object->name_size + bytes_size;
}

static size_t object_size(const struct once__object *object)
{
    return size_with(object, object->bytes_size);
}

static const uint8_t *name_of(const struct once__object *object)
{
    return (const uint8_t *)object->fixed + fixed_size(once__object_type(object));
}

static uint8_t *bytes_of(struct once__object *object)
{
    return (uint8_t *)object->fixed + fixed_size(once__object_type(object)) + object->name_size;
}

struct once__object *once__object_new(struct once__heap *heap, enum once_object_type type,
                                      struct once_bytes name, struct once_bytes bytes)
{
    struct once__object head = {
        .type = (uint8_t)type, .name_size = (uint8_t)name.size, .bytes_size = (uint32_t)bytes.size};
    struct once__object *object;

    ONCE_ASSERT(name.size > 0 && name.size <= UINT8_MAX);
    ONCE_ASSERT(bytes.size <= UINT32_MAX);

    object = once__heap_take(heap, object_size(&head));
    if (!object)
        return NULL;
    *object = head;
    memset(object->fixed, 0, fixed_size(type));
    memcpy(bytes_of(object) - name.size, name.data, name.size);
    if (bytes.size > 0)
        memcpy(bytes_of(object), bytes.data, bytes.size);
    return object;
}

struct once__object *once__object_rewrite(struct once__heap *heap, struct once__object *object,
                                          struct once_bytes bytes)
{
    size_t size = object_size(object), new_size = size_with(object, bytes.size);
    struct once__object *there = object;

    ONCE_ASSERT(bytes.size <= UINT32_MAX);

    if (once__heap_room(size) != once__heap_room(new_size)) {
        there = once__heap_take(heap, new_size);
        if (!there)
            return NULL;
        memcpy(there, object, size_with(object, 0));
    }
    if (bytes.size > 0)
        memmove(bytes_of(there), bytes.data, bytes.size);
    there->bytes_size = (uint32_t)bytes.size;
    if (there != object)
        once__heap_give(heap, object, size);
    return there;
}

void once__object_free(struct once__heap *heap, struct once__object *object)
{
    if (!object)
        return;
    if (object->type == ONCE_OBJECT_LOG || object->type == ONCE_OBJECT_OUTBOX)
        once__items_release(once__object_own(object), heap);
    if (object->type == ONCE_OBJECT_BUCKETS)
        once__buckets_release(once__object_own(object), heap);
    once__heap_give(heap, object, object_size(object));
}

uint64_t once__object_encoded_size(const struct once__object *object)
{
    uint64_t edit_size = EDIT_OVERHEAD + (uint64_t)object->name_size;
    const struct once__items *items;
    const struct once__buckets *buckets;

    if (object->type == ONCE_OBJECT_BUCKETS) {
        buckets = once__object_fixed(object);
        return buckets->count * edit_size + buckets->bytes_size;
    }
    if (object->type == ONCE_OBJECT_LOG || object->type == ONCE_OBJECT_OUTBOX) {
        items = once__object_fixed(object);
        return (items->count + 1) * edit_size + items->bytes_size;
    }
    return edit_size + object->bytes_size;
}

/* ---- Reading --------------------------------------------------------------------------------- */

enum once_object_type once__object_type(const struct once__object *object)
{
    return (enum once_object_type)object->type;
}

struct once_bytes once__object_name(const struct once__object *object)
{
    return (struct once_bytes){.data = name_of(object), .size = object->name_size};
}

struct once_bytes once__object_bytes(const struct once__object *object)
{
    return (struct once_bytes){.data = name_of(object) + object->name_size,
                               .size = object->bytes_size};
}

int64_t once__object_counter(const struct once__object *object)
{
    const int64_t *counter = once__object_fixed(object);

    ONCE_ASSERT(object->type == ONCE_OBJECT_COUNTER);
    return *counter;
}

struct once_bytes once__object_state(const struct once__object *object)
{
    ONCE_ASSERT(once_object_mergeable(once__object_type(object)));
    return once__object_bytes(object);
}

uint64_t once__object_version(const struct once__object *object)
{
    const uint64_t *version = once__object_fixed(object);

    ONCE_ASSERT(once_object_mergeable(once__object_type(object)));
    return *version;
}

struct once__register once__object_register(const struct once__object *object)
{
    const uint64_t *version = once__object_fixed(object);

    ONCE_ASSERT(object->type == ONCE_OBJECT_REGISTER);
    return (struct once__register){
        .version = *version, .present = object->present, .value = once__object_bytes(object)};
}

struct once_bytes once__object_declared(const struct once__object *object)
{
    ONCE_ASSERT(object->type == ONCE_OBJECT_MACHINE);
    return once__object_bytes(object);
}

uint32_t once__object_machine_at(const struct once__object *object)
{
    const uint64_t *at = once__object_fixed(object);

    ONCE_ASSERT(object->type == ONCE_OBJECT_MACHINE);
    ONCE_ASSERT(*at < object->state_count);
    return (uint32_t)*at;
}

struct once__fence once__object_fence(const struct once__object *object)
{
    const struct once__fence *fence = once__object_fixed(object);

    ONCE_ASSERT(object->type == ONCE_OBJECT_FENCE);
    return *fence;
}

struct once__lease once__object_lease(const struct once__object *object)
{
    const struct once__lease_fixed *lease = once__object_fixed(object);

    ONCE_ASSERT(object->type == ONCE_OBJECT_LEASE);
    return (struct once__lease){
        .token = lease->token, .until_ms = lease->until_ms, .owner = once__object_bytes(object)};
}

struct once__sequence once__object_sequence(const struct once__object *object)
{
    const struct once__sequence *sequence = once__object_fixed(object);

    ONCE_ASSERT(object->type == ONCE_OBJECT_SEQUENCE);
    return *sequence;
}

static const struct once__buckets *buckets_of(const struct once__object *object)
{
    ONCE_ASSERT(object->type == ONCE_OBJECT_BUCKETS);
    return once__object_fixed(object);
}

uint64_t once__object_bucket(const struct once__object *object, struct once_bytes bucket)
{
    const struct once__counted *counted = once__buckets_find(buckets_of(object), bucket);

    return counted ? counted->count : 0;
}

uint64_t once__object_bucket_count(const struct once__object *object)
{
    return buckets_of(object)->count;
}

struct once_object_item once__object_bucket_at(const struct once__object *object, uint64_t index)
{
    const struct once__buckets *buckets = buckets_of(object);
    const struct once__counted *counted;

    ONCE_ASSERT(index < buckets->count);
    counted = buckets->sorted[index];
    return (struct once_object_item){.number = counted->count,
                                     .id = {.data = counted->bytes, .size = counted->size}};
}

static const struct once__items *items_of(const struct once__object *object,
                                          enum once_object_type type)
{
    ONCE_ASSERT(object->type == type);
    return once__object_fixed(object);
}

uint64_t once__object_event_count(const struct once__object *object)
{
    return items_of(object, ONCE_OBJECT_LOG)->count;
}

struct once_object_item once__object_event(const struct once__object *object, uint64_t number)
{
    const struct once__item *item = once__items_find(items_of(object, ONCE_OBJECT_LOG), number);
    struct once__item_bytes bytes;

    ONCE_ASSERT(item); /* 1 to the count: all are there */
    bytes = once__item_read(item);
    return (struct once_object_item){.number = number, .id = bytes.word, .payload = bytes.payload};
}

uint64_t once__object_message_total(const struct once__object *object)
{
    return items_of(object, ONCE_OBJECT_OUTBOX)->total;
}

uint64_t once__object_message_count(const struct once__object *object)
{
    return items_of(object, ONCE_OBJECT_OUTBOX)->count;
}

bool once__object_message_after(const struct once__object *object, uint64_t number,
                                struct once_object_item *ret_item)
{
    uint64_t found;
    const struct once__item *item = once__items_after(items_of(object, ONCE_OBJECT_OUTBOX), number,
                                                      &found);
    struct once__item_bytes bytes;

    if (!item)
        return false;
    bytes = once__item_read(item);
    *ret_item = (struct once_object_item){
        .number = found, .group = bytes.word, .payload = bytes.payload};
    return true;
}

bool once__object_has_message(const struct once__object *object, uint64_t number)
{
    return once__items_find(items_of(object, ONCE_OBJECT_OUTBOX), number) != NULL;
}
