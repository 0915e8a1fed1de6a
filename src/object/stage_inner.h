/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a stage: what its files share. stage.c runs the deeds and makes the edits; each
 * other stage_*.c has the steps of one family of objects.
 *
 * Invariants while a run is under way:
 * - There is one slot for each object that a deed named, and the slot says what the object would be
 *   after the deeds so far. Only slots that are `changed` become edits.
 * - Bytes in slots belong to the table, to the deeds or to the stage's own buffers, and none of
 *   these changes before the edits are encoded.
 * - A step that rejects or fails ends the run, so it may leave its slot half done.
 */
#ifndef ONCE_OBJECT_STAGE_INNER_H
#define ONCE_OBJECT_STAGE_INNER_H

#include "object/stage.h"

/* What a step gives besides ONCE_OK and errors: the reason is in the stage. */
enum { ONCE__STAGE_REJECTED = 1 };

/* Levels of a pile: two deltas for each word of an effect, merged in pairs. */
enum { ONCE__PILE_LEVELS = 14 };
_Static_assert((1 << (ONCE__PILE_LEVELS - 1)) >= 2 * ONCE_EFFECT_WORDS_MAX, "the pile is too low");

/* The bounds that a stage keeps: those of limits.h, unless a test sets lower ones. */
struct once__stage_limits {
    uint64_t objects;
    uint64_t events;
    uint64_t messages;
    uint64_t buckets;
    size_t mergeable_size;
};

/* An object as the deeds so far would leave it. */
struct once__slot {
    struct once_bytes name;
    struct once__object_place place;
    const struct once__object *object; /* as it is in the table; NULL: not there */
    enum once_object_type type;
    bool changed;
    union {
        int64_t counter;
        struct {
            struct once_bytes state; /* without delta, while it is behind */
            bool behind;
        } merge;
        struct once__register reg;
        struct {
            bool declared; /* in this run: its text is in stage->declared */
            size_t offset;
            size_t size;
            uint32_t at;
        } machine;
        uint64_t event_count;
        struct once__fence fence;
        struct once__lease lease;
        struct once__sequence sequence;
        uint64_t bucket_count;
        struct {
            uint64_t total;
            uint64_t waiting;
        } outbox;
    } now;
    struct once_buf state; /* mergeable: where now.merge.state is, unless it is the table's */
    struct once_buf delta; /* mergeable: everything that came to it in this run */
};

/* An event or a message that was added in this run. */
struct once__stage_item {
    const struct once__slot *slot;
    uint64_t number;
    const struct once__deed *deed;
};

struct once__stage_bucket {
    const struct once__slot *slot;
    struct once_bytes bucket;
    uint64_t count;
    bool changed;
};

/* The messages that one SENT took out: a stretch of stage->sent, in increasing order. */
struct once__stage_sent {
    const struct once__slot *slot;
    size_t start;
    size_t count;
};

struct once__stage {
    struct once__stage_limits limits;
    const struct once__stage_input *input;              /* NULL: no run is under way */
    const struct once__deed *deed;                      /* the one under way */
    struct once__object_place places[ONCE_EFFECTS_MAX]; /* of each deed's object */

    /* Each deed adds at most one to each of these. */
    struct once__slot slots[ONCE_EFFECTS_MAX];
    size_t slot_count;
    struct once__slot *changed[ONCE_EFFECTS_MAX]; /* in the order in which they first did */
    size_t changed_count;
    struct once__stage_item items[ONCE_EFFECTS_MAX];
    size_t item_count;
    struct once__stage_bucket buckets[ONCE_EFFECTS_MAX];
    size_t bucket_count;
    struct once__stage_sent sents[ONCE_EFFECTS_MAX];
    size_t sent_count;

    uint64_t new_count;   /* objects that would be new */
    uint64_t growth_size; /* bytes of memory that the edits would add, about */

    uint64_t *sent; /* the numbers of all sents */
    size_t sent_size, sent_capacity;
    struct once_buf declared; /* texts of machines declared in this run */
    struct once_buf one, two, three, scratch, members;
    struct once_buf pile[ONCE__PILE_LEVELS];

    struct once_buf edits;
    struct once_buf result;
    const struct once__objects *objects; /* that the edits are for; NULL: there are none to put */
    uint64_t version;                    /* that they have */
    struct {
        struct once__objects *objects;
        struct once__recent *recent;
    } into; /* while they are put */

    const char *what;            /* with an error */
    enum once__effect_word word; /* with a rejection */
    char reason[ONCE_REASON_SIZE_MAX];
};

/* ---- stage.c --------------------------------------------------------------------------------- */

/* For the text of reasons: "%.*s". */
#define ONCE__STAGE_TEXT(bytes) (int)(bytes).size, (const char *)(bytes).data

/* Ends the run with a rejection. The format gives the reason. */
int once__stage_reject(struct once__stage *stage, enum once__effect_word word, const char *format,
                       ...) __attribute__((format(printf, 3, 4)));
/* Ends the run with an error; what is static text. */
int once__stage_fail(struct once__stage *stage, int err, const char *what);

/* The result of the deed under way. */
ONCE_MUST_CHECK int once__stage_number(struct once__stage *stage, int64_t number);
ONCE_MUST_CHECK int once__stage_word(struct once__stage *stage, struct once_bytes word);

/* The slot of the deed's object, which must be of the type or not be there yet; the need of a key
 * is checked too, by the deed's row of laws. A slot that is new is filled from the table. */
ONCE_MUST_CHECK int once__stage_slot(struct once__stage *stage, enum once_object_type type,
                                     struct once__slot **ret_slot);
/* The same, but leaves the key to once__stage_key_check. */
ONCE_MUST_CHECK int once__stage_slot_keyless(struct once__stage *stage, enum once_object_type type,
                                             struct once__slot **ret_slot);
ONCE_MUST_CHECK int once__stage_key_check(struct once__stage *stage, enum once__effect_id effect);

/* Is there such an object, in the table or by the deeds so far? */
static inline bool once__slot_exists(const struct once__slot *slot)
{
    return slot->object || slot->changed;
}

/* Notes that the deed changed the object, and by how many bytes it grew, about. */
ONCE_MUST_CHECK int once__stage_change(struct once__stage *stage, struct once__slot *slot,
                                       uint64_t growth_size);

/* ---- The families: each step is of one deed -------------------------------------------------- */

/* stage_register.c */
ONCE_MUST_CHECK int once__stage_add(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_set(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_delete(struct once__stage *stage);

/* stage_machine.c */
ONCE_MUST_CHECK int once__stage_machine(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_move(struct once__stage *stage);
struct once_bytes once__stage_declared(const struct once__stage *stage,
                                       const struct once__slot *slot);

/* stage_mergeable.c */
ONCE_MUST_CHECK int once__stage_mergeable_load(struct once__stage *stage, struct once__slot *slot);
void once__stage_mergeable_end(struct once__stage *stage);          /* gives large buffers back */
ONCE_MUST_CHECK int once__stage_extreme(struct once__stage *stage); /* MAX, MIN */
ONCE_MUST_CHECK int once__stage_flag(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_clock(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_lww(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_gadd(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_pnadd(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_merge(struct once__stage *stage);

/* The slot, with a state that has everything so far; stage->one is empty then, for a delta. */
ONCE_MUST_CHECK int once__stage_open(struct once__stage *stage, enum once_object_type type,
                                     struct once__slot **ret_slot);
/* Takes a delta in; *ret_order is where it stands to the state before. */
ONCE_MUST_CHECK int once__stage_take(struct once__stage *stage, struct once__slot *slot,
                                     struct once_bytes delta, enum once_order *ret_order);
/* merge(a, b), in place of what into holds. */
ONCE_MUST_CHECK int once__stage_merge_into(struct once__stage *stage, struct once_bytes a,
                                           struct once_bytes b, struct once_buf *into);
/* What an error of <once/lattice.h> means for the deed: an error with a text, or a rejection. */
int once__stage_lattice_error(struct once__stage *stage, int err);

static inline void once__stage_swap(struct once_buf *a, struct once_buf *b)
{
    struct once_buf other = *a;

    *a = *b;
    *b = other;
}

/* stage_set.c */
ONCE_MUST_CHECK int once__stage_union(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_awset(struct once__stage *stage); /* INSERT, REMOVE */

/* stage_log.c */
ONCE_MUST_CHECK int once__stage_append(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_emit(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_sent(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_bucket(struct once__stage *stage);

/* stage_fence.c */
ONCE_MUST_CHECK int once__stage_grant(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_guard(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_lease(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_renew(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_release(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_hold(struct once__stage *stage);
ONCE_MUST_CHECK int once__stage_seq(struct once__stage *stage);

/* stage_edit.c: everything that changed, encoded into stage->edits; and put, see stage.h. */
ONCE_MUST_CHECK int once__stage_encode(struct once__stage *stage);

#endif
