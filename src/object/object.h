/* SPDX-License-Identifier: Apache-2.0
 *
 * Once's own objects, in memory: a table by name, changed only by edits.
 *
 *     deed (what is asked) → stage.h decides, on the table as it is → edits (what it comes to)
 *     edits → the log, durable → once__objects_put, here, and after a restart again
 *
 * An edit says what the object is afterwards, or what came to it; putting one twice, or a stretch
 * of old ones again in order, ends in the same objects. So an object can be written to a snapshot
 * at any moment while others change: a snapshot is a file of edits, and the log from where the
 * snapshot began, put on top of it, mends the rest.
 *
 * Nothing here does I/O, knows the time, or locks: the engine's lock guards the table. Objects are
 * never removed, so an object's index (its place in the order of first use) is stable.
 */
#ifndef ONCE_OBJECT_OBJECT_H
#define ONCE_OBJECT_OBJECT_H

#include <once/apply.h>

#include "core/effect.h"

/* Numbers are written to disk: append, never renumber. Up to 31: merge a state of that lattice
 * type. */
enum once__edit_kind {
    ONCE__EDIT_COUNTER = 32,
    ONCE__EDIT_REGISTER = 33,
    ONCE__EDIT_MACHINE = 34, /* declared, and where it is */
    ONCE__EDIT_EVENT = 35,   /* one event of a log */
    ONCE__EDIT_FENCE = 36,
    ONCE__EDIT_LEASE = 37,
    ONCE__EDIT_SEQUENCE = 38,
    ONCE__EDIT_BUCKET = 39,  /* one bucket */
    ONCE__EDIT_MESSAGE = 40, /* one message of an outbox */
    ONCE__EDIT_SENT = 41,    /* one message goes */
    ONCE__EDIT_OUTBOX = 42,  /* how many messages there ever were */
    ONCE__EDIT_MOVED = 43    /* a machine's new state */
};

/* The type of the object that an edit of this kind is for; NONE: there is no such kind. */
enum once_object_type once__edit_type(unsigned kind);

struct once__fence {
    uint64_t granted; /* the highest token given by GRANT */
    uint64_t seen;    /* the highest that passed GUARD */
};

/* One edit. Bytes are borrowed. */
struct once__edit {
    unsigned kind;
    struct once_bytes name;
    union {
        int64_t counter;
        struct {
            struct once_bytes delta; /* a state of the type `kind` */
            uint64_t version;        /* the change that this came with */
        } merge;
        struct once__register reg;
        struct {
            struct once_bytes declared; /* "a>b b>c": the words of MACHINE, one blank between */
            uint32_t at;                /* state, in the order of first mention */
        } machine;
        uint32_t moved;
        struct {
            uint64_t number;
            struct once_bytes id;
            struct once_bytes payload;
        } event;
        struct once__fence fence;
        struct once__lease lease;
        struct once__sequence sequence;
        struct {
            struct once_bytes bucket;
            uint64_t count;
        } bucket;
        struct {
            uint64_t number;
            struct once_bytes group;
            struct once_bytes payload;
        } message;
        uint64_t sent;
        uint64_t outbox;
    } to;
};

/* ---- edit.c: the bytes of an edit, in the log and in a snapshot (docs/format/objects.md) ----- */

/* Appends. ONCE_ERR_FULL, ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__edit_encode(const struct once__edit *edit, struct once_buf *out);
/* Reads the edit at *offset and moves *offset behind it. Checks everything that can be checked
 * without the object: sizes and bounds of limits.h, names, canonical lattice states, machines.
 * One form only: what decodes encodes to the same bytes. ONCE_ERR_DAMAGED with a defect;
 * ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__edit_decode(struct once_bytes bytes, size_t *offset,
                                      struct once__edit *ret_edit, struct once_defect *ret_defect);

/* ---- table.c and its helpers ----------------------------------------------------------------- */

struct once__objects;
struct once__object; /* opaque */

/* Empty. hash_secret seeds the names' hash against flooding (ONCE__OBJECT_SECRET_SIZE bytes are
 * used, copied). */
enum { ONCE__OBJECT_SECRET_SIZE = 192 };
ONCE_MUST_CHECK int once__objects_new(const uint8_t *hash_secret, struct once__objects **ret);
void once__objects_free(struct once__objects *objects); /* accepts NULL */
/* Room for so many in all, so that it need not grow meanwhile: memory that is used at once, so a
 * number from disk is judged before. ONCE_ERR_FULL: more than ONCE_OBJECTS_MAX. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__objects_expect(struct once__objects *objects, uint64_t count);

/* Makes the edit true; the object is made if it is not there. ONCE_ERR_DAMAGED: the object is of
 * another type, or the edit leaves a gap in an event log, moves a machine that is not declared or
 * has no such state, declares it differently, or merges to more than ONCE_MERGEABLE_SIZE_MAX: our
 * own mistake while running, damage when it comes from disk. ONCE_ERR_MEMORY. On failure nothing
 * changed. */
ONCE_MUST_CHECK int once__objects_put(struct once__objects *objects, const struct once__edit *edit);

/* Where the object of a name is: looked for once, used again. An object never goes and its pointer
 * never moves, so this holds as long as the table. */
struct once__object_place {
    uint64_t hash;                /* of the name */
    struct once__object **object; /* the table's pointer to it; NULL: it was not there */
};
/* Looks for many names at the same time, and so waits for memory once and not for each of them. */
void once__objects_locate(const struct once__objects *objects, const struct once_bytes *names,
                          size_t count, struct once__object_place *ret_places);
/* once__objects_put at the place of the edit's name. The object may have been made since. */
ONCE_MUST_CHECK int once__objects_put_at(struct once__objects *objects,
                                         struct once__object_place *place,
                                         const struct once__edit *edit);

uint64_t once__objects_count(const struct once__objects *objects);
uint64_t once__objects_memory(const struct once__objects *objects); /* bytes, all told */
/* About as many bytes as a snapshot of all would have. */
uint64_t once__objects_encoded_size(const struct once__objects *objects);

/* NULL if there is none. Valid until the next put. */
const struct once__object *once__objects_find(const struct once__objects *objects,
                                              struct once_bytes name);
const struct once__object *once__objects_at(const struct once__objects *objects, uint64_t index);
enum once_object_type once__object_type(const struct once__object *object);
struct once_bytes once__object_name(const struct once__object *object);

/* Reading one of a type; borrowed until the next put. */
int64_t once__object_counter(const struct once__object *object);
struct once_bytes once__object_state(const struct once__object *object); /* mergeable */
uint64_t once__object_version(const struct once__object *object);        /* mergeable */
struct once__register once__object_register(const struct once__object *object);
struct once_bytes once__object_declared(const struct once__object *object); /* MACHINE */
uint32_t once__object_machine_at(const struct once__object *object);
struct once__fence once__object_fence(const struct once__object *object);
struct once__lease once__object_lease(const struct once__object *object);
struct once__sequence once__object_sequence(const struct once__object *object);
uint64_t once__object_bucket(const struct once__object *object,
                             struct once_bytes bucket); /* or 0 */
uint64_t once__object_bucket_count(const struct once__object *object);
struct once_object_item once__object_bucket_at(const struct once__object *object, uint64_t index);
uint64_t once__object_event_count(const struct once__object *object);
struct once_object_item once__object_event(const struct once__object *object, uint64_t number);
uint64_t once__object_message_total(const struct once__object *object); /* ever emitted */
uint64_t once__object_message_count(const struct once__object *object); /* there now */
/* The first message with a number above this one; false if there is none. */
bool once__object_message_after(const struct once__object *object, uint64_t number,
                                struct once_object_item *ret_item);
bool once__object_has_message(const struct once__object *object, uint64_t number);

/* Appends edits that make the object, from part *part on (0 at the beginning), until about size_max
 * bytes were appended; each call gets further, and large logs, outboxes and buckets take many.
 * *part is UINT64_MAX when all is there. The object may change between the calls. ONCE_ERR_FULL,
 * ONCE_ERR_MEMORY: nothing was appended. */
ONCE_MUST_CHECK int once__object_dump(const struct once__object *object, uint64_t *part,
                                      size_t size_max, struct once_buf *out);

/* ---- machine.c: declarations ----------------------------------------------------------------- */

/* A declaration read: the pure machine of effect.h, and the states' names in order. Borrowed. */
struct once__declaration {
    struct once__machine machine;
    struct once_bytes states[ONCE_MACHINE_STATES_MAX];
};
/* From "a>b b>c". ONCE_ERR_INVALID: malformed, or more than ONCE_MACHINE_STATES_MAX states. */
ONCE_MUST_CHECK int once__declaration_read(struct once_bytes declared,
                                           struct once__declaration *ret_declaration,
                                           struct once_defect *ret_defect);
/* The state's number, or UINT32_MAX. */
uint32_t once__declaration_state(const struct once__declaration *declaration,
                                 struct once_bytes name);

/* ---- view.c: an object as JSON --------------------------------------------------------------- */

/* Appends what struct once_object's json says. ONCE_ERR_FULL, ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__object_view(const struct once__object *object, struct once_buf *out);

/* ---- recent.c: the newest deltas of mergeable objects, bounded ------------------------------- */

struct once__recent;
ONCE_MUST_CHECK int once__recent_new(struct once__recent **ret);
void once__recent_free(struct once__recent *recent);
/* Notes an edit that merged a delta (version: its change number; they only grow). Old ones go when
 * ONCE_RECENT_SIZE_MAX bytes are reached, and so do all when there is no memory: then what came
 * before is not known any more. */
void once__recent_note(struct once__recent *recent, const struct once__edit *edit);
/* Everything with a version above this one is still known. After a restart: start it at the last
 * change number. */
uint64_t once__recent_since(const struct once__recent *recent);
void once__recent_start(struct once__recent *recent, uint64_t version);
/* Calls each for all noted with a version above since, oldest first, until it returns other than
 * ONCE_OK, which is returned. since must not be below once__recent_since. */
ONCE_MUST_CHECK int once__recent_walk(const struct once__recent *recent, uint64_t since,
                                      int (*each)(void *user, const struct once__edit *edit),
                                      void *user);

/* ---- feed.c: messages between replicas ------------------------------------------------------- */

/* Appends to out the delta of one object since a version, or its state: once_object_delta. */
ONCE_MUST_CHECK int once__feed_delta(const struct once__objects *objects,
                                     const struct once__recent *recent,
                                     const struct once__object *object, uint64_t since,
                                     struct once_buf *out);
/* once_changes, on the table; last is the newest change number there is. */
ONCE_MUST_CHECK int once__feed_changes(const struct once__objects *objects,
                                       const struct once__recent *recent, uint64_t last,
                                       struct once_changes_cursor *cursor, size_t size_max,
                                       struct once_buf *out, bool *ret_more);
/* Checks a whole message, then reads it: names and states one after the other. *offset 0 at the
 * beginning. 1: one more; 0: none; negative: an error. */
ONCE_MUST_CHECK int once__feed_check(struct once_bytes message, struct once_defect *ret_defect);
ONCE_MUST_CHECK int once__feed_next(struct once_bytes message, size_t *offset,
                                    struct once_bytes *ret_name, struct once_bytes *ret_state);

#endif
