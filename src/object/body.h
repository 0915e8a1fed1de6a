/* SPDX-License-Identifier: Apache-2.0
 *
 * How an object lies in memory. For table.c and the files named below.
 *
 * An object is one allocation: 8 bytes of header, the fixed part of its type, its name, and behind
 * the name the bytes that can change in size (a register's value, a state, a machine's declaration,
 * a lease's owner). Logs, outboxes and buckets have the rest elsewhere. What can grow moves: the
 * table's pointer to it is the only one.
 */
#ifndef ONCE_OBJECT_BODY_H
#define ONCE_OBJECT_BODY_H

#include "object/object.h"

/* ---- heap.c: memory that is counted ---------------------------------------------------------- */

struct once__heap {
    uint64_t memory; /* bytes taken, with what the allocator needs for itself */
};

/* What is taken for so many bytes: sizes with the same room can be used in place of each other. */
size_t once__heap_room(size_t size);
void *once__heap_take(struct once__heap *heap, size_t size); /* NULL: there is none */
/* As realloc; NULL: what was there is still there. */
void *once__heap_resize(struct once__heap *heap, void *memory, size_t size, size_t new_size);
void once__heap_give(struct once__heap *heap, void *memory, size_t size); /* accepts NULL */

/* For tests: refuses memory where it returns true. */
extern bool (*once__heap_deny)(size_t size);

/* ---- items.c: events and messages by number -------------------------------------------------- */

struct once__item {
    uint32_t payload_size;
    uint8_t word_size; /* an event's id, or a message's group: it comes first */
    uint8_t bytes[];
};

/* Up to 64 neighbours: numbers base * 64 to base * 64 + 63. */
struct once__item_chunk {
    uint64_t base;
    uint64_t there;    /* bit i: base * 64 + i is there; never 0 */
    uint64_t capacity; /* of items */
    struct once__item *items[];
};

/* All zero is empty. chunks[first] to chunks[first + chunk_count - 1] are in use, by base. */
struct once__items {
    uint64_t total;      /* the highest number there ever was */
    uint64_t count;      /* there now */
    uint64_t bytes_size; /* of their words and payloads */
    struct once__item_chunk **chunks;
    uint32_t first;
    uint32_t chunk_count;
    uint32_t capacity;
};

struct once__item_bytes {
    struct once_bytes word;
    struct once_bytes payload;
};

/* NULL: it is not there. */
const struct once__item *once__items_find(const struct once__items *items, uint64_t number);
/* The first above this number; NULL: there is none. */
const struct once__item *once__items_after(const struct once__items *items, uint64_t number,
                                           uint64_t *ret_number);
/* One that is not there yet. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__items_add(struct once__items *items, struct once__heap *heap,
                                    uint64_t number, struct once__item_bytes bytes);
/* One that is there. */
void once__items_take(struct once__items *items, struct once__heap *heap, uint64_t number);
void once__items_release(struct once__items *items, struct once__heap *heap);

static inline struct once__item_bytes once__item_read(const struct once__item *item)
{
    return (struct once__item_bytes){
        .word = {.data = item->bytes, .size = item->word_size},
        .payload = {.data = item->bytes + item->word_size, .size = item->payload_size}};
}

/* ---- buckets.c: counts by name --------------------------------------------------------------- */

struct once__counted {
    uint64_t count;
    uint8_t size;
    uint8_t bytes[];
};

/* All zero is empty. Sorted by bytes; none goes. */
struct once__buckets {
    struct once__counted **sorted;
    uint64_t bytes_size; /* of their names */
    uint32_t count;
    uint32_t capacity;
};

/* NULL: it is not there. */
const struct once__counted *once__buckets_find(const struct once__buckets *buckets,
                                               struct once_bytes bucket);
/* Makes it if it is not there. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__buckets_set(struct once__buckets *buckets, struct once__heap *heap,
                                      struct once_bytes bucket, uint64_t count);
void once__buckets_release(struct once__buckets *buckets, struct once__heap *heap);

/* ---- body.c: an object's one allocation ------------------------------------------------------ */

struct once__object {
    uint8_t type;
    uint8_t name_size;
    uint8_t present;     /* REGISTER */
    uint8_t state_count; /* MACHINE */
    uint32_t bytes_size; /* behind the name */
    uint64_t fixed[];    /* by type, below; then the name; then the bytes */
};
_Static_assert(sizeof(struct once__object) == 8, "8 bytes besides the fixed part and the name");

struct once__lease_fixed {
    uint64_t token;
    int64_t until_ms;
};

/* The fixed part:
 *     mergeable, REGISTER   uint64_t version        SEQUENCE      struct once__sequence
 *     COUNTER               int64_t                 LOG, OUTBOX   struct once__items
 *     MACHINE               uint64_t at             BUCKETS       struct once__buckets
 *     FENCE                 struct once__fence      LEASE         struct once__lease_fixed */
static inline const void *once__object_fixed(const struct once__object *object)
{
    return object->fixed;
}

static inline void *once__object_own(struct once__object *object)
{
    return object->fixed;
}

/* Those behind the name. */
struct once_bytes once__object_bytes(const struct once__object *object);

/* One with zeros for its fixed part and these bytes. NULL: there is no memory. */
struct once__object *once__object_new(struct once__heap *heap, enum once_object_type type,
                                      struct once_bytes name, struct once_bytes bytes);
/* Other bytes, which may be some of its own: the object, or a new one in its place and the old one
 * gone. NULL: there is no memory, and nothing changed. */
struct once__object *once__object_rewrite(struct once__heap *heap, struct once__object *object,
                                          struct once_bytes bytes);
void once__object_free(struct once__heap *heap, struct once__object *object); /* accepts NULL */

/* About the bytes of the edits that make it. */
uint64_t once__object_encoded_size(const struct once__object *object);

/* ---- change.c: what an edit does to its object ----------------------------------------------- */

/* One of the edit's name and type that the edit was not put into yet. NULL: there is no memory. */
struct once__object *once__object_made_by(struct once__heap *heap, const struct once__edit *edit);
/* The edit is for this type. *object may be another pointer afterwards. As once__objects_put. */
ONCE_MUST_CHECK int once__object_change(struct once__heap *heap, struct once_buf *scratch,
                                        const struct once__edit *edit,
                                        struct once__object **object);

#endif
