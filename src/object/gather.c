/* SPDX-License-Identifier: Apache-2.0
 *
 * The deltas of the ring, by object. Owns where a message ends: between two changes, because a
 * cursor can point only there, and before it is too large; and the merging of one object's deltas
 * into one.
 *
 * Sizes are counted before anything is merged. The entry of an object takes at most the sum of its
 * deltas, and at most its state, which is given instead when it is not larger; so a counter that
 * was raised a thousand times counts once, and deltas are merged only while they are smaller than
 * the state.
 */
#include "object/gather.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"

enum {
    PARTS_AT_ONCE = 1 << 14, /* deltas of one gathering; one change may be over it */
    ENOUGH = 1               /* ends a walk over the ring; no error */
};

#define NONE UINT32_MAX

void once__gathering_init(struct once__gathering *gathering)
{
    *gathering = (struct once__gathering){0};
    once_buf_init(&gathering->scratch[0], ONCE_LATTICE_SIZE_MAX);
    once_buf_init(&gathering->scratch[1], ONCE_LATTICE_SIZE_MAX);
}

void once__gathering_release(struct once__gathering *gathering)
{
    free(gathering->parts);
    free(gathering->groups);
    free(gathering->slots);
    free(gathering->row);
    once_buf_release(&gathering->scratch[0]);
    once_buf_release(&gathering->scratch[1]);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* The slot of the object, or the empty one where it belongs. */
static uint32_t *slot_of(const struct once__gathering *gathering, const struct once__object *object)
{
    size_t mask = gathering->slot_count - 1;
    size_t at = (size_t)((uint64_t)(uintptr_t)object * 0x9e3779b97f4a7c15U >> 32) & mask;

    while (gathering->slots[at] != 0 &&
           gathering->groups[gathering->slots[at] - 1].object != object)
        at = (at + 1) & mask;
    return &gathering->slots[at];
}

/* Keeps the table of slots at most half full. */
static int grow_slots(struct once__gathering *gathering)
{
    size_t count = gathering->slot_count > 0 ? 2 * gathering->slot_count : 64;
    uint32_t *slots;

    if (2 * (gathering->group_count + 1) <= gathering->slot_count)
        return ONCE_OK;
    slots = calloc(count, sizeof *slots);
    if (!slots)
        return ONCE_ERR_MEMORY;
    free(gathering->slots);
    gathering->slots = slots;
    gathering->slot_count = count;
    for (uint32_t i = 0; i < gathering->group_count; i++)
        *slot_of(gathering, gathering->groups[i].object) = i + 1;
    return ONCE_OK;
}

static int grow_groups(struct once__gathering *gathering)
{
    size_t capacity = gathering->group_capacity > 0 ? 2 * gathering->group_capacity : 32;
    struct once__group *groups;

    if (gathering->group_count < gathering->group_capacity)
        return ONCE_OK;
    groups = realloc(gathering->groups, capacity * sizeof *groups);
    if (!groups)
        return ONCE_ERR_MEMORY;
    gathering->groups = groups;
    gathering->group_capacity = capacity;
    return ONCE_OK;
}

static int grow_parts(struct once__gathering *gathering)
{
    size_t capacity = gathering->part_capacity > 0 ? 2 * gathering->part_capacity : 32;
    struct once__part *parts;

    if (gathering->part_count < gathering->part_capacity)
        return ONCE_OK;
    parts = realloc(gathering->parts, capacity * sizeof *parts);
    if (!parts)
        return ONCE_ERR_MEMORY;
    gathering->parts = parts;
    gathering->part_capacity = capacity;
    return ONCE_OK;
}

static int group_of(struct once__gathering *gathering, const struct once__object *object,
                    uint32_t *ret_group)
{
    uint32_t *slot;
    int err = grow_slots(gathering);

    if (err == ONCE_OK)
        err = grow_groups(gathering);
    if (err != ONCE_OK)
        return err;
    slot = slot_of(gathering, object);
    if (*slot == 0) {
        gathering->groups[gathering->group_count++] = (struct once__group){.object = object};
        *slot = (uint32_t)gathering->group_count;
        gathering->size += gathering->bounds.entry_size + once__object_name(object).size;
    }
    *ret_group = *slot - 1;
    return ONCE_OK;
}

/* What the state in the entry of a group may take. */
static size_t size_bound(const struct once__group *group)
{
    size_t state_size = once__object_state(group->object).size;

    return group->deltas_size < state_size ? group->deltas_size : state_size;
}

static int add_part(struct once__gathering *gathering, const struct once__object *object,
                    struct once_bytes delta)
{
    struct once__group *group;
    uint32_t number;
    int err = grow_parts(gathering);

    if (err == ONCE_OK)
        err = group_of(gathering, object, &number);
    if (err != ONCE_OK)
        return err;
    group = &gathering->groups[number];
    gathering->size -= size_bound(group);
    group->deltas_size += delta.size;
    gathering->size += size_bound(group);
    gathering->parts[gathering->part_count++] = (struct once__part){delta, number, NONE};
    return ONCE_OK;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* The change that the last part is of is whole, and kept. False: that is enough. */
static bool end_change(struct once__gathering *gathering)
{
    bool fits = gathering->size <= gathering->bounds.size_max;

    if (gathering->part_count == 0)
        return true;
    ONCE_ASSERT(fits || gathering->kept_count == 0);
    gathering->split = !fits && gathering->group_count > 1;
    gathering->kept_count = gathering->part_count;
    gathering->version = gathering->part_version;
    return fits && gathering->part_count < PARTS_AT_ONCE;
}

static int take(void *user, const struct once__edit *edit)
{
    struct once__gathering *gathering = user;
    const struct once__object *object = gathering->only;
    uint64_t version = edit->to.merge.version;
    int err;

    if (object && !once__bytes_equal(edit->name, once__object_name(object)))
        return ONCE_OK;
    if (!object)
        object = once__objects_find(gathering->objects, edit->name);
    ONCE_ASSERT(object);
    ONCE_ASSERT(version >= gathering->part_version);
    if (version > gathering->part_version && !end_change(gathering) && !gathering->only)
        return ENOUGH;
    gathering->part_version = version;
    err = add_part(gathering, object, edit->to.merge.delta);
    if (err == ONCE_OK && gathering->size > gathering->bounds.size_max && gathering->kept_count > 0)
        return ENOUGH; /* this change will not be kept */
    return err;
}

/* Chains the parts that are kept, by group. */
static void chain(struct once__gathering *gathering)
{
    for (size_t i = 0; i < gathering->group_count; i++)
        gathering->groups[i] = (struct once__group){.object = gathering->groups[i].object,
                                                    .first = NONE};
    for (uint32_t i = 0; i < gathering->kept_count; i++) {
        struct once__part *part = &gathering->parts[i];
        struct once__group *group = &gathering->groups[part->group];

        part->next = group->first;
        group->first = i;
        group->part_count++;
        group->deltas_size += part->delta.size;
    }
}

static int take_all(struct once__gathering *gathering, const struct once__recent *recent,
                    uint64_t since)
{
    int err;

    ONCE_ASSERT(gathering->part_count == 0 && !gathering->row);
    err = once__recent_walk(recent, since, take, gathering);
    if (err < 0)
        return err;
    if (err == ONCE_OK)
        (void)end_change(gathering);
    gathering->all = err == ONCE_OK && gathering->kept_count == gathering->part_count;
    ONCE_ASSERT(gathering->all || gathering->kept_count > 0);
    chain(gathering);
    return ONCE_OK;
}

int once__gathering_take(struct once__gathering *gathering, const struct once__objects *objects,
                         const struct once__recent *recent, uint64_t since,
                         struct once__gather_bounds bounds)
{
    gathering->objects = objects;
    gathering->bounds = bounds;
    return take_all(gathering, recent, since);
}

int once__gathering_take_one(struct once__gathering *gathering, const struct once__object *object,
                             const struct once__recent *recent, uint64_t since)
{
    gathering->only = object;
    gathering->bounds = (struct once__gather_bounds){.size_max = SIZE_MAX};
    return take_all(gathering, recent, since);
}

/* ---- Merging --------------------------------------------------------------------------------- */

/* Merges neighbours until one is left: in n log n, where merging one after the other is quadratic.
 * The row is used up; the result is borrowed from it or from scratch. */
static int merge_row(struct once_bytes *row, size_t count, size_t size, struct once_buf *scratch,
                     struct once_bytes *ret_merged)
{
    for (unsigned round = 0; count > 1; round++) {
        struct once_buf *out = &scratch[round % 2];
        int err;

        /* All at once, so that nothing moves: a merge is never larger than what it merges. */
        once_buf_clear(out);
        err = once_buf_reserve(out, size);
        for (size_t i = 0; i < count && err == ONCE_OK; i += 2) {
            size_t start = out->size;

            if (i + 1 < count)
                err = once_lattice_merge(row[i], row[i + 1], out);
            else
                err = once_buf_append(out, row[i].data, row[i].size);
            row[i / 2] = (struct once_bytes){out->data + start, out->size - start};
        }
        if (err != ONCE_OK)
            return err;
        count = (count + 1) / 2;
    }
    *ret_merged = row[0];
    return ONCE_OK;
}

int once__gathering_merge(struct once__gathering *gathering, const struct once__group *group,
                          struct once_bytes *ret_state)
{
    struct once_bytes state = once__object_state(group->object);
    size_t count = 0;

    ONCE_ASSERT(group->part_count > 0);
    if (group->deltas_size >= state.size) {
        *ret_state = state;
        return ONCE_OK;
    }
    if (!gathering->row)
        gathering->row = calloc(gathering->kept_count, sizeof *gathering->row);
    if (!gathering->row)
        return ONCE_ERR_MEMORY;
    for (uint32_t i = group->first; i != NONE; i = gathering->parts[i].next)
        gathering->row[count++] = gathering->parts[i].delta;
    ONCE_ASSERT(count == group->part_count);
    return merge_row(gathering->row, count, group->deltas_size, gathering->scratch, ret_state);
}
