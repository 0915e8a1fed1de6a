/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of objects: by name through a hash table, by index through an array, and changed by
 * edits.
 *
 * Ten million objects fit, and none of it stops for long while it grows. The array is in chunks
 * that never move. The hash table is in shards that grow one at a time; a slot has 32 bits of the
 * hash, enough to find its place in a larger shard, so growing looks at no object.
 *
 * Always: every object is in the array once, at its index, and in one slot, which has the index. On
 * failure nothing changed: what can fail comes before what changes anything.
 */
#include "object/body.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/assert.h"
#include "base/bytes.h"

enum {
    SHARD_BITS = 10,
    SHARD_COUNT = 1 << SHARD_BITS,
    SHARD_SLOTS_MIN = 4,
    SHARD_FULL_PERCENT = 80,
    EXPECT_SHARE_MIN = 16,
    EXPECT_MORE = 64,
    CHUNK_BITS = 12,
    CHUNK_OBJECTS = 1 << CHUNK_BITS,
    SCRATCH_KEPT_MAX = 1 << 16, /* a larger state is merged rarely */
    LINE_SIZE = 64              /* of the processor's cache */
};

struct slot {
    uint32_t number; /* the object's index + 1; 0: free */
    uint32_t tag;    /* of the name's hash; its share of 2^32 says where the slot belongs */
};

/* Open addressing: an object is at its home or behind it, with no free slot between. */
struct shard {
    struct slot *slots;
    uint32_t slot_count;
    uint32_t count;
};

struct chunk {
    struct once__object *objects[CHUNK_OBJECTS];
};

struct once__objects {
    struct once__heap heap;
    uint64_t count;
    uint64_t encoded_size;
    struct chunk **chunks;
    uint64_t chunk_count;
    uint64_t chunk_capacity;
    struct once_buf scratch; /* for merging */
    struct shard shards[SHARD_COUNT];
    uint8_t secret[ONCE__OBJECT_SECRET_SIZE];
};
_Static_assert(ONCE_OBJECTS_MAX < UINT32_MAX, "an index + 1 fits a slot");
_Static_assert((int)ONCE__OBJECT_SECRET_SIZE >= XXH3_SECRET_SIZE_MIN, "a secret of XXH3");

/* ---- By name --------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct once__objects *objects, struct once_bytes name)
{
    return XXH3_64bits_withSecret(name.data, name.size, objects->secret, sizeof objects->secret);
}

static uint32_t shard_of(uint64_t hash)
{
    return (uint32_t)(hash >> (64 - SHARD_BITS));
}

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)hash;
}

static uint32_t home_of(const struct shard *shard, uint32_t tag)
{
    return (uint32_t)((uint64_t)tag * shard->slot_count >> 32);
}

static uint32_t after(const struct shard *shard, uint32_t at)
{
    return at + 1 == shard->slot_count ? 0 : at + 1;
}

static struct once__object **pointer_at(const struct once__objects *objects, uint64_t index)
{
    ONCE_ASSERT(index < objects->count);
    return &objects->chunks[index >> CHUNK_BITS]->objects[index & (CHUNK_OBJECTS - 1)];
}

/* The first slot with the tag, at this one or behind it; a free one: there is none. */
static uint32_t tagged(const struct shard *shard, uint32_t at, uint32_t tag)
{
    while (shard->slots[at].number != 0 && shard->slots[at].tag != tag)
        at = after(shard, at);
    return at;
}

static bool is_named(const struct once__object *object, struct once_bytes name)
{
    return once__bytes_equal(once__object_name(object), name);
}

/* The array's pointer to the object; NULL: there is none of this name. */
static struct once__object **pointer_of(const struct once__objects *objects, struct once_bytes name,
                                        uint64_t hash)
{
    const struct shard *shard = &objects->shards[shard_of(hash)];
    uint32_t tag = tag_of(hash);

    if (shard->slot_count == 0)
        return NULL;
    for (uint32_t at = tagged(shard, home_of(shard, tag), tag); shard->slots[at].number != 0;
         at = tagged(shard, after(shard, at), tag)) {
        struct once__object **pointer = pointer_at(objects, shard->slots[at].number - 1);

        if (is_named(*pointer, name))
            return pointer;
    }
    return NULL;
}

static void shard_add(struct shard *shard, struct slot slot)
{
    uint32_t at = home_of(shard, slot.tag);

    ONCE_ASSERT(shard->count < shard->slot_count);
    while (shard->slots[at].number != 0)
        at = after(shard, at);
    shard->slots[at] = slot;
    shard->count++;
}

static uint64_t shard_room(uint64_t slot_count)
{
    return slot_count * SHARD_FULL_PERCENT / 100;
}

/* To more slots. Nothing but slots is read, in the order of their homes. */
static int shard_grow(struct once__objects *objects, struct shard *shard, uint32_t slot_count)
{
    struct shard grown = {.slot_count = slot_count};

    ONCE_ASSERT(slot_count > shard->slot_count);
    grown.slots = once__heap_take(&objects->heap, slot_count * sizeof(struct slot));
    if (!grown.slots)
        return ONCE_ERR_MEMORY;
    memset(grown.slots, 0, slot_count * sizeof(struct slot));
    for (uint32_t at = 0; at < shard->slot_count; at++)
        if (shard->slots[at].number != 0)
            shard_add(&grown, shard->slots[at]);
    ONCE_ASSERT(grown.count == shard->count);
    once__heap_give(&objects->heap, shard->slots, shard->slot_count * sizeof(struct slot));
    *shard = grown;
    return ONCE_OK;
}

/* Room for one more. By half, not by twice: fewer slots stand empty. */
static int shard_reserve(struct once__objects *objects, struct shard *shard)
{
    uint64_t slot_count = shard->slot_count;

    if (shard->count < shard_room(slot_count))
        return ONCE_OK;
    slot_count = slot_count > 0 ? slot_count + slot_count / 2 : SHARD_SLOTS_MIN;
    if (slot_count > UINT32_MAX)
        return ONCE_ERR_MEMORY;
    return shard_grow(objects, shard, (uint32_t)slot_count);
}

/* ---- By index -------------------------------------------------------------------------------- */

static int chunks_reserve(struct once__objects *objects, uint64_t chunk_count)
{
    uint64_t capacity = objects->chunk_capacity > 0 ? objects->chunk_capacity : 1;
    struct chunk **chunks;

    while (capacity < chunk_count)
        capacity *= 2;
    if (capacity == objects->chunk_capacity)
        return ONCE_OK;
    chunks = once__heap_resize(&objects->heap, objects->chunks,
                               (size_t)objects->chunk_capacity * sizeof(struct chunk *),
                               (size_t)capacity * sizeof(struct chunk *));
    if (!chunks)
        return ONCE_ERR_MEMORY;
    objects->chunks = chunks;
    objects->chunk_capacity = capacity;
    return ONCE_OK;
}

/* A chunk for the next index. */
static int array_reserve(struct once__objects *objects)
{
    struct chunk *chunk;
    int err;

    if (objects->count < objects->chunk_count * CHUNK_OBJECTS)
        return ONCE_OK;
    err = chunks_reserve(objects, objects->chunk_count + 1);
    if (err != ONCE_OK)
        return err;
    chunk = once__heap_take(&objects->heap, sizeof *chunk);
    if (!chunk)
        return ONCE_ERR_MEMORY;
    objects->chunks[objects->chunk_count++] = chunk;
    return ONCE_OK;
}

/* Takes the object, whose name is new, unless it fails. */
static int table_add(struct once__objects *objects, uint64_t hash, struct once__object *object)
{
    struct shard *shard = &objects->shards[shard_of(hash)];
    int err;

    if (objects->count == ONCE_OBJECTS_MAX)
        return ONCE_ERR_DAMAGED; /* the stage allows no more */
    err = shard_reserve(objects, shard);
    if (err == ONCE_OK)
        err = array_reserve(objects);
    if (err != ONCE_OK)
        return err;
    objects->count++;
    *pointer_at(objects, objects->count - 1) = object;
    shard_add(shard, (struct slot){.number = (uint32_t)objects->count, .tag = tag_of(hash)});
    objects->encoded_size += once__object_encoded_size(object);
    return ONCE_OK;
}

/* ---- Making and freeing ---------------------------------------------------------------------- */

int once__objects_new(const uint8_t *hash_secret, struct once__objects **ret)
{
    struct once__heap heap = {.memory = 0};
    struct once__objects *objects = once__heap_take(&heap, sizeof *objects);

    if (!objects)
        return ONCE_ERR_MEMORY;
    memset(objects, 0, sizeof *objects);
    objects->heap = heap;
    memcpy(objects->secret, hash_secret, sizeof objects->secret);
    /* A merge needs room for both, whatever it comes to. */
    once_buf_init(&objects->scratch, 2 * (size_t)ONCE_MERGEABLE_SIZE_MAX);
    *ret = objects;
    return ONCE_OK;
}

void once__objects_free(struct once__objects *objects)
{
    struct once__heap heap;

    if (!objects)
        return;
    for (uint64_t i = 0; i < objects->count; i++)
        once__object_free(&objects->heap, *pointer_at(objects, i));
    for (uint64_t i = 0; i < objects->chunk_count; i++)
        once__heap_give(&objects->heap, objects->chunks[i], sizeof(struct chunk));
    once__heap_give(&objects->heap, objects->chunks,
                    (size_t)objects->chunk_capacity * sizeof(struct chunk *));
    for (uint32_t i = 0; i < SHARD_COUNT; i++)
        once__heap_give(&objects->heap, objects->shards[i].slots,
                        objects->shards[i].slot_count * sizeof(struct slot));
    once_buf_release(&objects->scratch);
    heap = objects->heap;
    once__heap_give(&heap, objects, sizeof *objects);
    ONCE_ASSERT(heap.memory == 0); /* so what it says is what is out */
}

int once__objects_expect(struct once__objects *objects, uint64_t count)
{
    /* Hashing fills shards unevenly: 4 deviations more than each one's share. */
    uint64_t share = count / SHARD_COUNT, each = share + share / 16 + EXPECT_MORE;
    uint64_t slot_count = each * 100 / SHARD_FULL_PERCENT + 1;
    int err;

    if (count > ONCE_OBJECTS_MAX)
        return ONCE_ERR_FULL;
    if (share < EXPECT_SHARE_MIN)
        return ONCE_OK; /* growing is quick */
    err = chunks_reserve(objects, (count + CHUNK_OBJECTS - 1) / CHUNK_OBJECTS);
    for (uint32_t i = 0; err == ONCE_OK && i < SHARD_COUNT; i++)
        if (objects->shards[i].slot_count < slot_count)
            err = shard_grow(objects, &objects->shards[i], (uint32_t)slot_count);
    return err;
}

/* ---- The table's own questions --------------------------------------------------------------- */

uint64_t once__objects_count(const struct once__objects *objects)
{
    return objects->count;
}

uint64_t once__objects_memory(const struct once__objects *objects)
{
    return objects->heap.memory + objects->scratch.capacity;
}

uint64_t once__objects_encoded_size(const struct once__objects *objects)
{
    return objects->encoded_size;
}

const struct once__object *once__objects_find(const struct once__objects *objects,
                                              struct once_bytes name)
{
    struct once__object *const *pointer = pointer_of(objects, name, hash_of(objects, name));

    return pointer ? *pointer : NULL;
}

const struct once__object *once__objects_at(const struct once__objects *objects, uint64_t index)
{
    return *pointer_at(objects, index);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

/* Of three dependent reads from memory - the slot, the array's pointer, the object - each is asked
 * for early for all names before the first of them is needed. */

static void ask_for_slot(const struct once__objects *objects, uint64_t hash)
{
    const struct shard *shard = &objects->shards[shard_of(hash)];

    if (shard->slot_count > 0)
        __builtin_prefetch(&shard->slots[home_of(shard, tag_of(hash))]);
}

/* The pointer to what is most likely the object: nearly always only one has the tag. */
static struct once__object **ask_for_pointer(const struct once__objects *objects, uint64_t hash)
{
    const struct shard *shard = &objects->shards[shard_of(hash)];
    struct once__object **pointer;
    uint32_t at;

    if (shard->slot_count == 0)
        return NULL;
    at = tagged(shard, home_of(shard, tag_of(hash)), tag_of(hash));
    if (shard->slots[at].number == 0)
        return NULL;
    pointer = pointer_at(objects, shard->slots[at].number - 1);
    __builtin_prefetch(pointer);
    return pointer;
}

/* The name may lie in the line of memory behind that of the object's beginning. */
static void ask_for_object(const struct once__object *object)
{
    __builtin_prefetch(object);
    __builtin_prefetch((const uint8_t *)object + LINE_SIZE / 2);
}

void once__objects_locate(const struct once__objects *objects, const struct once_bytes *names,
                          size_t count, struct once__object_place *ret_places)
{
    for (size_t i = 0; i < count; i++) {
        ret_places[i].hash = hash_of(objects, names[i]);
        ask_for_slot(objects, ret_places[i].hash);
    }
    for (size_t i = 0; i < count; i++)
        ret_places[i].object = ask_for_pointer(objects, ret_places[i].hash);
    for (size_t i = 0; i < count; i++)
        if (ret_places[i].object)
            ask_for_object(*ret_places[i].object);
    for (size_t i = 0; i < count; i++)
        if (ret_places[i].object && !is_named(*ret_places[i].object, names[i]))
            ret_places[i].object = pointer_of(objects, names[i], ret_places[i].hash);
}

/* ---- Edits ----------------------------------------------------------------------------------- */

/* The edit is the first of its name. */
static int put_first(struct once__objects *objects, uint64_t hash, const struct once__edit *edit)
{
    struct once__object *object = once__object_made_by(&objects->heap, edit);
    int err;

    if (!object)
        return ONCE_ERR_MEMORY;
    err = once__object_change(&objects->heap, &objects->scratch, edit, &object);
    if (err == ONCE_OK)
        err = table_add(objects, hash, object);
    if (err != ONCE_OK)
        once__object_free(&objects->heap, object);
    return err;
}

int once__objects_put(struct once__objects *objects, const struct once__edit *edit)
{
    struct once__object_place place = {.hash = hash_of(objects, edit->name)};

    return once__objects_put_at(objects, &place, edit);
}

int once__objects_put_at(struct once__objects *objects, struct once__object_place *place,
                         const struct once__edit *edit)
{
    uint64_t encoded_size;
    int err;

    if (!place->object)
        place->object = pointer_of(objects, edit->name, place->hash);
    ONCE_ASSERT(!place->object || once__object_name(*place->object).size == edit->name.size);
    if (!place->object) {
        err = put_first(objects, place->hash, edit);
        if (err == ONCE_OK)
            place->object = pointer_at(objects, objects->count - 1);
    } else if (once__object_type(*place->object) != once__edit_type(edit->kind)) {
        err = ONCE_ERR_DAMAGED;
    } else {
        encoded_size = once__object_encoded_size(*place->object);
        err = once__object_change(&objects->heap, &objects->scratch, edit, place->object);
        objects->encoded_size += once__object_encoded_size(*place->object) - encoded_size;
    }
    if (objects->scratch.capacity > SCRATCH_KEPT_MAX)
        once_buf_release(&objects->scratch);
    return err;
}
