/* SPDX-License-Identifier: Apache-2.0
 *
 * The newest deltas of mergeable objects: a ring of bytes, so that noting one is a copy and
 * replicas that ask soon get what is new instead of whole states.
 *
 * Notes lie one after the other from head on, each in one piece. Where the next would not fit
 * before the end of the ring it goes to the beginning, and the ring's used part ends at `end` until
 * head has come round too:
 *
 *     not wrapped   ......[head … tail)......
 *     wrapped       [… tail)......[head … end)
 *
 * It holds:
 * - versions in the ring never fall from one note to the next;
 * - every delta that was noted with a version above `since` is in the ring;
 * - no more than ONCE_RECENT_SIZE_MAX bytes are in use, and what is dropped is the oldest.
 *
 * Several notes of one version are parts of one change; when the first of them goes, the version is
 * not known any more, and the others are passed over. Does not know objects, and merges nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "object/object.h"

/* Before the name and the delta of each note, which follow without a gap. */
struct note {
    uint64_t version;
    uint32_t size;        /* with this header, a multiple of NOTE_ALIGN */
    uint32_t size_before; /* of the note before this one */
    uint32_t delta_size;
    uint16_t name_size;
    uint8_t kind;
};

enum { NOTE_ALIGN = 8, RING_SIZE_MIN = 1 << 12 };

_Static_assert(sizeof(struct note) % NOTE_ALIGN == 0, "notes follow each other without a gap");
_Static_assert(ONCE_RECENT_SIZE_MAX % RING_SIZE_MIN == 0, "the ring doubles up to its bound");
_Static_assert(ONCE_OBJECT_NAME_SIZE_MAX <= UINT16_MAX, "a name's size fits");

struct once__recent {
    uint8_t *ring;
    size_t capacity;
    size_t head;      /* the oldest note */
    size_t tail;      /* behind the newest */
    size_t end;       /* when wrapped: behind the last note before the beginning of the ring */
    size_t last_size; /* of the newest note */
    uint64_t count;
    bool wrapped;
    uint64_t since;
    uint64_t newest; /* the last version that was noted, or since */
};

int once__recent_new(struct once__recent **ret)
{
    struct once__recent *recent = calloc(1, sizeof *recent);

    if (!recent)
        return ONCE_ERR_MEMORY;
    *ret = recent;
    return ONCE_OK;
}

void once__recent_free(struct once__recent *recent)
{
    if (recent)
        free(recent->ring);
    free(recent);
}

uint64_t once__recent_since(const struct once__recent *recent)
{
    return recent->since;
}

static void forget_all(struct once__recent *recent)
{
    recent->head = recent->tail = recent->end = 0;
    recent->last_size = 0;
    recent->count = 0;
    recent->wrapped = false;
}

void once__recent_start(struct once__recent *recent, uint64_t version)
{
    forget_all(recent);
    recent->since = recent->newest = version;
}

static const struct note *note_at(const struct once__recent *recent, size_t at)
{
    const struct note *note = (const void *)(recent->ring + at);

    ONCE_ASSERT(at % NOTE_ALIGN == 0 && at + sizeof *note <= recent->capacity);
    ONCE_ASSERT(note->size >= sizeof *note && at + note->size <= recent->capacity);
    return note;
}

/* Where the note behind this one begins. */
static size_t behind(const struct once__recent *recent, size_t at)
{
    size_t next = at + note_at(recent, at)->size;

    return recent->wrapped && next == recent->end ? 0 : next;
}

static void drop_oldest(struct once__recent *recent)
{
    size_t next;

    ONCE_ASSERT(recent->count > 0);
    recent->since = note_at(recent, recent->head)->version;
    if (--recent->count == 0) {
        forget_all(recent);
        return;
    }
    next = behind(recent, recent->head);
    if (next < recent->head)
        recent->wrapped = false;
    recent->head = next;
}

/* Is there a place for so many bytes in one piece? Then tail is there. */
static bool find_place(struct once__recent *recent, size_t size)
{
    if (recent->wrapped)
        return recent->head - recent->tail >= size;
    if (recent->capacity - recent->tail >= size)
        return true;
    if (recent->head < size)
        return false;
    recent->wrapped = true;
    recent->end = recent->tail;
    recent->tail = 0;
    return true;
}

/* A larger ring. Only the largest ever drops notes, so they lie at the beginning. False: no memory,
 * and nothing changed. */
static bool grow(struct once__recent *recent, size_t size)
{
    size_t capacity = recent->capacity > 0 ? recent->capacity : RING_SIZE_MIN;
    uint8_t *ring;

    ONCE_ASSERT(recent->head == 0 && !recent->wrapped);
    while (capacity < ONCE_RECENT_SIZE_MAX && capacity - recent->tail < size)
        capacity *= 2;
    ring = realloc(recent->ring, capacity);
    if (!ring)
        return false;
    recent->ring = ring;
    recent->capacity = capacity;
    return true;
}

/* Room for so many bytes at tail. False: there is none. */
static bool make_room(struct once__recent *recent, size_t size)
{
    if (size > ONCE_RECENT_SIZE_MAX)
        return false;
    while (!find_place(recent, size)) {
        if (recent->capacity < ONCE_RECENT_SIZE_MAX) {
            if (!grow(recent, size))
                return false;
        } else {
            drop_oldest(recent);
        }
    }
    return true;
}

void once__recent_note(struct once__recent *recent, const struct once__edit *edit)
{
    struct once_bytes name = edit->name, delta = edit->to.merge.delta;
    size_t size = sizeof(struct note) + name.size + delta.size;
    uint64_t version = edit->to.merge.version;
    struct note note;

    ONCE_ASSERT(once_object_mergeable(once__edit_type(edit->kind)));
    ONCE_ASSERT(name.size <= ONCE_OBJECT_NAME_SIZE_MAX && delta.size <= ONCE_LATTICE_SIZE_MAX);
    size = (size + NOTE_ALIGN - 1) / NOTE_ALIGN * NOTE_ALIGN;
    if (version < recent->newest || !make_room(recent, size)) {
        /* Recovery reads a snapshot, in whatever order its objects changed; or it does not fit. */
        once__recent_start(recent, version > recent->newest ? version : recent->newest);
        return;
    }
    recent->newest = version;
    note = (struct note){.version = version,
                         .size = (uint32_t)size,
                         .size_before = (uint32_t)recent->last_size,
                         .delta_size = (uint32_t)delta.size,
                         .name_size = (uint16_t)name.size,
                         .kind = (uint8_t)edit->kind};
    memcpy(recent->ring + recent->tail, &note, sizeof note);
    if (name.size > 0)
        memcpy(recent->ring + recent->tail + sizeof note, name.data, name.size);
    if (delta.size > 0)
        memcpy(recent->ring + recent->tail + sizeof note + name.size, delta.data, delta.size);
    recent->tail += size;
    recent->last_size = size;
    recent->count++;
}

/* The oldest note with a version above since, looked for from the newest back: who asks often pays
 * only for what is new. *ret_left is how many there are from it on. */
static size_t first_above(const struct once__recent *recent, uint64_t since, uint64_t *ret_left)
{
    size_t at = recent->tail, size = recent->last_size;
    uint64_t left = 0;

    for (; left < recent->count; left++) {
        size_t before = (recent->wrapped && at == 0 ? recent->end : at) - size;
        const struct note *note = note_at(recent, before);

        ONCE_ASSERT(note->size == size);
        if (note->version <= since)
            break;
        at = before;
        size = note->size_before;
    }
    *ret_left = left;
    return at;
}

int once__recent_walk(const struct once__recent *recent, uint64_t since,
                      int (*each)(void *user, const struct once__edit *edit), void *user)
{
    uint64_t left;
    size_t at = first_above(recent, since, &left);

    ONCE_ASSERT(since >= recent->since);
    for (; left > 0; left--, at = behind(recent, at)) {
        const struct note *note = note_at(recent, at);
        const uint8_t *bytes = recent->ring + at + sizeof *note;
        struct once__edit edit = {.kind = note->kind, .name = {bytes, note->name_size}};
        int err;

        edit.to.merge.version = note->version;
        edit.to.merge.delta = (struct once_bytes){bytes + note->name_size, note->delta_size};
        err = each(user, &edit);
        if (err != ONCE_OK)
            return err;
    }
    return ONCE_OK;
}
