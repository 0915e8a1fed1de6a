/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs deeds, one after the other, on slots instead of on objects (stage_inner.h), and says what
 * they come to: edits and results, or the first rejection, or why nothing can be decided.
 *
 * It never changes the table, knows no time but the one it is given, and in the common case, small
 * objects, allocates nothing: every buffer is kept for the next run.
 */
#include "object/stage_inner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "core/deed_result.h"

/* About what the table needs for an object besides its bytes, and for a name it did not know. */
enum { OBJECT_OVERHEAD_SIZE = 64 };

/* Room for a merge of two states of the largest size, and for the delta of the longest effect. */
enum { MERGE_ROOM = 4 * ONCE_MERGEABLE_SIZE_MAX };

/* Of the results of all effects, or of one rejection. */
enum { RESULT_ROOM = 2 * ONCE_REASON_SIZE_MAX + ONCE_EFFECTS_MAX * 64 };
_Static_assert(ONCE_STATE_NAME_SIZE_MAX + 3 < 64, "the longest result of one effect");

static const struct once__stage_limits limits_default = {
    .objects = ONCE_OBJECTS_MAX,
    .events = ONCE_EVENTS_MAX,
    .messages = ONCE_MESSAGES_MAX,
    .buckets = ONCE_BUCKETS_MAX,
    .mergeable_size = ONCE_MERGEABLE_SIZE_MAX,
};

int once__stage_new(struct once__stage **ret_stage)
{
    struct once__stage *stage = calloc(1, sizeof *stage);

    if (!stage)
        return ONCE_ERR_MEMORY;
    stage->limits = limits_default;
    for (size_t i = 0; i < ONCE_EFFECTS_MAX; i++) {
        once_buf_init(&stage->slots[i].state, MERGE_ROOM);
        once_buf_init(&stage->slots[i].delta, MERGE_ROOM);
    }
    for (size_t i = 0; i < ONCE__PILE_LEVELS; i++)
        once_buf_init(&stage->pile[i], MERGE_ROOM);
    once_buf_init(&stage->one, MERGE_ROOM);
    once_buf_init(&stage->two, MERGE_ROOM);
    once_buf_init(&stage->three, MERGE_ROOM);
    once_buf_init(&stage->scratch, MERGE_ROOM);
    once_buf_init(&stage->members, MERGE_ROOM);
    once_buf_init(&stage->declared, (size_t)ONCE_EFFECTS_SIZE_MAX * 2);
    once_buf_init(&stage->edits, ONCE_EDITS_SIZE_MAX);
    once_buf_init(&stage->result, RESULT_ROOM);
    *ret_stage = stage;
    return ONCE_OK;
}

void once__stage_free(struct once__stage *stage)
{
    if (!stage)
        return;
    for (size_t i = 0; i < ONCE_EFFECTS_MAX; i++) {
        once_buf_release(&stage->slots[i].state);
        once_buf_release(&stage->slots[i].delta);
    }
    for (size_t i = 0; i < ONCE__PILE_LEVELS; i++)
        once_buf_release(&stage->pile[i]);
    once_buf_release(&stage->one);
    once_buf_release(&stage->two);
    once_buf_release(&stage->three);
    once_buf_release(&stage->scratch);
    once_buf_release(&stage->members);
    once_buf_release(&stage->declared);
    once_buf_release(&stage->edits);
    once_buf_release(&stage->result);
    free(stage->sent);
    free(stage);
}

int once__stage_reject(struct once__stage *stage, enum once__effect_word word, const char *format,
                       ...)
{
    va_list args;

    ONCE_ASSERT(once__effect_rejected(word));
    stage->word = word;
    va_start(args, format);
    (void)vsnprintf(stage->reason, sizeof stage->reason, format, args); /* too long: cut */
    va_end(args);
    return ONCE__STAGE_REJECTED;
}

int once__stage_fail(struct once__stage *stage, int err, const char *what)
{
    ONCE_ASSERT(err < 0);
    stage->what = what;
    return err;
}

int once__stage_number(struct once__stage *stage, int64_t number)
{
    return once__results_number(&stage->result, number);
}

int once__stage_word(struct once__stage *stage, struct once_bytes word)
{
    return once__results_word(&stage->result, word);
}

/* ---- Type and key ---------------------------------------------------------------------------- */

#define IS(what) "this name is " what "; an object's type is fixed by its first use"

static const char *type_text(enum once_object_type type)
{
    static const char *const texts[] = {
        [ONCE_OBJECT_MAX] = IS("a max"),
        [ONCE_OBJECT_MIN] = IS("a min"),
        [ONCE_OBJECT_FLAG] = IS("a flag"),
        [ONCE_OBJECT_GSET] = IS("a gset, a grow-only set"),
        [ONCE_OBJECT_VV] = IS("a vv, a version vector"),
        [ONCE_OBJECT_LWW] = IS("an lww, a last-writer-wins register"),
        [ONCE_OBJECT_GCOUNTER] = IS("a gcounter, a growing counter"),
        [ONCE_OBJECT_PNCOUNTER] = IS("a pncounter, a growing and shrinking counter"),
        [ONCE_OBJECT_AWSET] = IS("an awset, an add-wins set"),
        [ONCE_OBJECT_MVREG] = IS("an mvreg, a multi-value register"),
        [ONCE_OBJECT_MAP] = IS("a map"),
        [ONCE_OBJECT_COUNTER] = IS("a counter"),
        [ONCE_OBJECT_REGISTER] = IS("a register"),
        [ONCE_OBJECT_MACHINE] = IS("a state machine"),
        [ONCE_OBJECT_LOG] = IS("an event log"),
        [ONCE_OBJECT_FENCE] = IS("a fence"),
        [ONCE_OBJECT_LEASE] = IS("a lease"),
        [ONCE_OBJECT_SEQUENCE] = IS("a producer sequence"),
        [ONCE_OBJECT_BUCKETS] = IS("counts by bucket"),
        [ONCE_OBJECT_OUTBOX] = IS("an outbox"),
    };
    const char *text = (size_t)type < sizeof texts / sizeof *texts ? texts[type] : NULL;

    return text ? text : IS("of another type");
}

#define GIVE_KEY ": give a key (`once key` makes one)"

/* Why a deed needs a key: what its late duplicate would do. */
static const char *key_text(enum once__deed_kind kind)
{
    static const char *const texts[ONCE__DEED_COUNT] = {
        [ONCE__DEED_ADD] = "a repeated ADD would count twice" GIVE_KEY,
        [ONCE__DEED_GADD] = "a repeated GADD would count twice" GIVE_KEY,
        [ONCE__DEED_PNADD] = "a repeated PNADD would count twice" GIVE_KEY,
        [ONCE__DEED_INSERT] =
            "a repeated INSERT would bring back what was removed meanwhile" GIVE_KEY,
        [ONCE__DEED_REMOVE] =
            "a repeated REMOVE would take out what was inserted meanwhile" GIVE_KEY,
        [ONCE__DEED_SET] = "a repeated SET would write over what was set meanwhile" GIVE_KEY
                           ", or say IF version",
        [ONCE__DEED_DELETE] = "a repeated DELETE would delete what was set meanwhile" GIVE_KEY
                              ", or say IF version",
        [ONCE__DEED_MOVE] =
            "this machine can come back to a state, so a repeated MOVE could move twice" GIVE_KEY,
        [ONCE__DEED_APPEND] = "a repeated APPEND would stand in the log twice" GIVE_KEY
                              ", or say AT version",
        [ONCE__DEED_GRANT] =
            "a repeated GRANT would give a second token, which makes the first one "
            "stale" GIVE_KEY,
        [ONCE__DEED_LEASE] =
            "a repeated LEASE would take the lease again after it was released" GIVE_KEY,
        [ONCE__DEED_RENEW] = "a repeated RENEW would make the lease longer than was asked" GIVE_KEY,
        [ONCE__DEED_BUCKET] = "a repeated BUCKET would count twice" GIVE_KEY,
        [ONCE__DEED_EMIT] = "a repeated EMIT would send the message twice" GIVE_KEY,
    };

    return texts[kind] ? texts[kind] : "a late duplicate could still change the object" GIVE_KEY;
}

int once__stage_key_check(struct once__stage *stage, enum once__effect_id effect)
{
    ONCE_ASSERT(effect < ONCE__EFFECT_COUNT);
    if (stage->input->has_key || !once__effects[effect].laws.needs_key)
        return ONCE_OK;
    return once__stage_fail(stage, ONCE_ERR_KEY_NEEDED, key_text(stage->deed->kind));
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static void slot_load_small(struct once__slot *slot)
{
    const struct once__object *object = slot->object;

    memset(&slot->now, 0, sizeof slot->now);
    if (!object)
        return; /* what nobody touched is all zero */
    switch ((unsigned)slot->type) {
    case ONCE_OBJECT_COUNTER:
        slot->now.counter = once__object_counter(object);
        break;
    case ONCE_OBJECT_REGISTER:
        slot->now.reg = once__object_register(object);
        break;
    case ONCE_OBJECT_MACHINE:
        slot->now.machine.at = once__object_machine_at(object);
        break;
    case ONCE_OBJECT_LOG:
        slot->now.event_count = once__object_event_count(object);
        break;
    case ONCE_OBJECT_FENCE:
        slot->now.fence = once__object_fence(object);
        break;
    case ONCE_OBJECT_LEASE:
        slot->now.lease = once__object_lease(object);
        break;
    case ONCE_OBJECT_SEQUENCE:
        slot->now.sequence = once__object_sequence(object);
        break;
    case ONCE_OBJECT_BUCKETS:
        slot->now.bucket_count = once__object_bucket_count(object);
        break;
    case ONCE_OBJECT_OUTBOX:
        slot->now.outbox.total = once__object_message_total(object);
        slot->now.outbox.waiting = once__object_message_count(object);
        break;
    default:
        break;
    }
}

static int slot_load(struct once__stage *stage, struct once__slot *slot, enum once_object_type type)
{
    slot->type = type;
    if (once_object_mergeable(type))
        return once__stage_mergeable_load(stage, slot);
    slot_load_small(slot);
    return ONCE_OK;
}

static const struct once__object_place *place_of_deed(const struct once__stage *stage)
{
    return &stage->places[stage->deed - stage->input->deeds];
}

static struct once__slot *slot_find(struct once__stage *stage)
{
    uint64_t hash = place_of_deed(stage)->hash;

    for (size_t i = 0; i < stage->slot_count; i++) {
        struct once__slot *slot = &stage->slots[i];

        if (slot->place.hash == hash && once__bytes_equal(slot->name, stage->deed->name))
            return slot;
    }
    return NULL;
}

int once__stage_slot_keyless(struct once__stage *stage, enum once_object_type type,
                             struct once__slot **ret_slot)
{
    struct once__slot *slot = slot_find(stage);
    int err;

    if (!slot) {
        ONCE_ASSERT(stage->slot_count < ONCE_EFFECTS_MAX);
        slot = &stage->slots[stage->slot_count++];
        slot->name = stage->deed->name;
        slot->place = *place_of_deed(stage);
        slot->object = slot->place.object ? *slot->place.object : NULL;
        slot->changed = false;
        slot->type = slot->object ? once__object_type(slot->object) : ONCE_OBJECT_NONE;
        if (slot->type == ONCE_OBJECT_NONE || slot->type == type) {
            err = slot_load(stage, slot, type);
            if (err != ONCE_OK)
                return err;
        }
    }
    if (slot->type != type) {
        if (once__slot_exists(slot))
            return once__stage_fail(stage, ONCE_ERR_OBJECT_TYPE, type_text(slot->type));
        err = slot_load(stage, slot, type); /* a deed of another type found nothing to do here */
        if (err != ONCE_OK)
            return err;
    }
    *ret_slot = slot;
    return ONCE_OK;
}

int once__stage_slot(struct once__stage *stage, enum once_object_type type,
                     struct once__slot **ret_slot)
{
    struct once__slot *slot;
    int err = once__stage_slot_keyless(stage, type, &slot);

    if (err == ONCE_OK && stage->deed->kind != ONCE__DEED_MERGE) /* merging is idempotent */
        err = once__stage_key_check(stage, stage->deed->effect);
    if (err == ONCE_OK)
        *ret_slot = slot;
    return err;
}

int once__stage_change(struct once__stage *stage, struct once__slot *slot, uint64_t growth_size)
{
    const struct once__stage_input *input = stage->input;

    if (!once__slot_exists(slot)) {
        stage->new_count++;
        if (once__objects_count(input->objects) + stage->new_count > stage->limits.objects)
            return once__stage_fail(stage, ONCE_ERR_FULL,
                                    "the store holds as many objects as one may");
        growth_size += OBJECT_OVERHEAD_SIZE + slot->name.size;
    }
    if (!slot->changed)
        stage->changed[stage->changed_count++] = slot;
    slot->changed = true;
    if (growth_size == 0)
        return ONCE_OK; /* what does not grow goes on when memory is full */
    stage->growth_size += growth_size;
    if (once__objects_memory(input->objects) + stage->growth_size > input->memory_max)
        return once__stage_fail(
            stage, ONCE_ERR_FULL,
            "the objects of the store take as much memory as they may (objects_size_max)");
    return ONCE_OK;
}

/* ---- The run --------------------------------------------------------------------------------- */

static const char *word_name(enum once__effect_word word)
{
    static const char *const names[] = {
#define WORD_NAME(name, text) #name,
        ONCE__EFFECT_WORDS(WORD_NAME)
#undef WORD_NAME
    };

    ONCE_ASSERT(once__effect_rejected(word) && word < ONCE__EFFECT_WORD_COUNT);
    return names[word];
}

static int step(struct once__stage *stage)
{
    static int (*const steps[ONCE__DEED_COUNT])(struct once__stage *) = {
        [ONCE__DEED_ADD] = once__stage_add,         [ONCE__DEED_MAX] = once__stage_extreme,
        [ONCE__DEED_MIN] = once__stage_extreme,     [ONCE__DEED_FLAG] = once__stage_flag,
        [ONCE__DEED_UNION] = once__stage_union,     [ONCE__DEED_CLOCK] = once__stage_clock,
        [ONCE__DEED_LWW] = once__stage_lww,         [ONCE__DEED_GADD] = once__stage_gadd,
        [ONCE__DEED_PNADD] = once__stage_pnadd,     [ONCE__DEED_INSERT] = once__stage_awset,
        [ONCE__DEED_REMOVE] = once__stage_awset,    [ONCE__DEED_SET] = once__stage_set,
        [ONCE__DEED_DELETE] = once__stage_delete,   [ONCE__DEED_MACHINE] = once__stage_machine,
        [ONCE__DEED_MOVE] = once__stage_move,       [ONCE__DEED_APPEND] = once__stage_append,
        [ONCE__DEED_GRANT] = once__stage_grant,     [ONCE__DEED_GUARD] = once__stage_guard,
        [ONCE__DEED_LEASE] = once__stage_lease,     [ONCE__DEED_RENEW] = once__stage_renew,
        [ONCE__DEED_RELEASE] = once__stage_release, [ONCE__DEED_HOLD] = once__stage_hold,
        [ONCE__DEED_SEQ] = once__stage_seq,         [ONCE__DEED_BUCKET] = once__stage_bucket,
        [ONCE__DEED_EMIT] = once__stage_emit,       [ONCE__DEED_SENT] = once__stage_sent,
        [ONCE__DEED_MERGE] = once__stage_merge,
    };

    ONCE_ASSERT((unsigned)stage->deed->kind < ONCE__DEED_COUNT);
    return steps[stage->deed->kind](stage);
}

static void locate(struct once__stage *stage)
{
    struct once_bytes names[ONCE_EFFECTS_MAX];

    for (size_t i = 0; i < stage->input->deed_count; i++)
        names[i] = stage->input->deeds[i].name;
    once__objects_locate(stage->input->objects, names, stage->input->deed_count, stage->places);
}

static void start(struct once__stage *stage, const struct once__stage_input *input)
{
    if (stage->objects)
        once__stage_mergeable_end(stage); /* what the last run came to was not put */
    stage->objects = NULL;
    stage->version = input->version;
    stage->input = input;
    stage->deed = NULL;
    stage->slot_count = 0;
    stage->changed_count = 0;
    stage->item_count = 0;
    stage->bucket_count = 0;
    stage->sent_count = 0;
    stage->sent_size = 0;
    stage->new_count = 0;
    stage->growth_size = 0;
    stage->what = NULL;
    once_buf_clear(&stage->declared);
    once_buf_clear(&stage->edits);
    once_buf_clear(&stage->result);
}

/* The deeds, and their results; *ret_effect is the last that was tried. */
static int run_deeds(struct once__stage *stage, uint32_t *ret_effect)
{
    int err = once__results_begin(&stage->result);

    *ret_effect = 0;
    for (size_t i = 0; err == ONCE_OK && i < stage->input->deed_count; i++) {
        *ret_effect = (uint32_t)i + 1;
        stage->deed = &stage->input->deeds[i];
        err = step(stage);
    }
    if (err != ONCE_OK)
        return err;
    *ret_effect = 0;
    return once__results_end(&stage->result);
}

int once__stage_run(struct once__stage *stage, const struct once__stage_input *input,
                    struct once__staged *ret_staged, uint32_t *ret_effect, const char **ret_what)
{
    uint32_t effect;
    bool rejected;
    int err;

    ONCE_ASSERT(input->deed_count > 0);
    ONCE_ASSERT(input->deed_count <= ONCE_EFFECTS_MAX);
    start(stage, input);
    locate(stage);
    err = run_deeds(stage, &effect);
    rejected = err == ONCE__STAGE_REJECTED;
    if (rejected) {
        once_buf_clear(&stage->result);
        err = once__rejection_write(&stage->result, effect, word_name(stage->word), stage->reason);
    } else if (err == ONCE_OK) {
        err = once__stage_encode(stage);
    }
    stage->input = NULL;
    if (err == ONCE_OK && stage->edits.size > 0)
        stage->objects = input->objects; /* once__stage_put needs what the slots have */
    else
        once__stage_mergeable_end(stage);
    if (err != ONCE_OK) {
        *ret_effect = effect;
        *ret_what = stage->what ? stage->what : once_err_text(err);
        return err;
    }
    *ret_staged = (struct once__staged){
        .rejected = rejected,
        .changed = stage->edits.size > 0,
        .edits = once_buf_bytes(&stage->edits),
        .result = once_buf_bytes(&stage->result),
    };
    return ONCE_OK;
}
