/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run came to, as edits: one for each small object that is not what it was, one delta for
 * each mergeable, one for each event, message, message sent and bucket. Messages stand before the
 * SENT of their outbox, because one apply may emit a message and take it out again. Objects come in
 * the order in which they were first changed, as if the deeds had been put one by one.
 *
 * The edits are walked twice, and are the same both times: to encode them, and to put them.
 */
#include "object/stage_inner.h"

#include "base/assert.h"

/* What is done with each edit. */
typedef int (*edit_use)(struct once__stage *stage, struct once__slot *slot,
                        const struct once__edit *edit);

static int walk_items(struct once__stage *stage, struct once__slot *slot, edit_use use)
{
    int err = ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < stage->item_count; i++) {
        const struct once__stage_item *item = &stage->items[i];
        struct once__edit edit = {.name = slot->name};

        if (item->slot != slot)
            continue;
        if (slot->type == ONCE_OBJECT_LOG) {
            edit.kind = ONCE__EDIT_EVENT;
            edit.to.event.number = item->number;
            edit.to.event.id = item->deed->node;
            edit.to.event.payload = item->deed->value;
        } else {
            edit.kind = ONCE__EDIT_MESSAGE;
            edit.to.message.number = item->number;
            edit.to.message.group = item->deed->node;
            edit.to.message.payload = item->deed->value;
        }
        err = use(stage, slot, &edit);
    }
    return err;
}

static int walk_sent(struct once__stage *stage, struct once__slot *slot, edit_use use)
{
    int err = ONCE_OK;

    for (size_t i = 0; i < stage->sent_count; i++) {
        const struct once__stage_sent *sent = &stage->sents[i];

        if (sent->slot != slot)
            continue;
        for (size_t j = 0; err == ONCE_OK && j < sent->count; j++) {
            struct once__edit edit = {.kind = ONCE__EDIT_SENT, .name = slot->name};

            edit.to.sent = stage->sent[sent->start + j];
            err = use(stage, slot, &edit);
        }
    }
    return err;
}

static int walk_buckets(struct once__stage *stage, struct once__slot *slot, edit_use use)
{
    int err = ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < stage->bucket_count; i++) {
        const struct once__stage_bucket *bucket = &stage->buckets[i];
        struct once__edit edit = {.kind = ONCE__EDIT_BUCKET, .name = slot->name};

        if (bucket->slot != slot || !bucket->changed)
            continue;
        edit.to.bucket.bucket = bucket->bucket;
        edit.to.bucket.count = bucket->count;
        err = use(stage, slot, &edit);
    }
    return err;
}

static int walk_machine(struct once__stage *stage, struct once__slot *slot, edit_use use)
{
    struct once__edit edit = {.name = slot->name};

    if (slot->now.machine.declared) {
        edit.kind = ONCE__EDIT_MACHINE;
        edit.to.machine.declared = once__stage_declared(stage, slot);
        edit.to.machine.at = slot->now.machine.at;
        return use(stage, slot, &edit);
    }
    if (slot->now.machine.at == once__object_machine_at(slot->object))
        return ONCE_OK; /* it went round */
    edit.kind = ONCE__EDIT_MOVED;
    edit.to.moved = slot->now.machine.at;
    return use(stage, slot, &edit);
}

/* One edit that says it all. */
static int walk_whole(struct once__stage *stage, struct once__slot *slot, edit_use use)
{
    struct once__edit edit = {.name = slot->name};

    switch ((unsigned)slot->type) {
    case ONCE_OBJECT_COUNTER:
        if (slot->object && slot->now.counter == once__object_counter(slot->object))
            return ONCE_OK; /* what was added was taken away again */
        edit.kind = ONCE__EDIT_COUNTER;
        edit.to.counter = slot->now.counter;
        break;
    case ONCE_OBJECT_REGISTER:
        edit.kind = ONCE__EDIT_REGISTER;
        edit.to.reg = slot->now.reg;
        break;
    case ONCE_OBJECT_FENCE:
        edit.kind = ONCE__EDIT_FENCE;
        edit.to.fence = slot->now.fence;
        break;
    case ONCE_OBJECT_LEASE:
        edit.kind = ONCE__EDIT_LEASE;
        edit.to.lease = slot->now.lease;
        break;
    case ONCE_OBJECT_SEQUENCE:
        edit.kind = ONCE__EDIT_SEQUENCE;
        edit.to.sequence = slot->now.sequence;
        break;
    default:
        ONCE_ASSERT(once_object_mergeable(slot->type));
        edit.kind = slot->type;
        edit.to.merge.delta = once_buf_bytes(&slot->delta);
        edit.to.merge.version = stage->version;
        break;
    }
    return use(stage, slot, &edit);
}

static int walk_slot(struct once__stage *stage, struct once__slot *slot, edit_use use)
{
    int err;

    switch ((unsigned)slot->type) {
    case ONCE_OBJECT_MACHINE:
        return walk_machine(stage, slot, use);
    case ONCE_OBJECT_LOG:
        return walk_items(stage, slot, use);
    case ONCE_OBJECT_BUCKETS:
        return walk_buckets(stage, slot, use);
    case ONCE_OBJECT_OUTBOX:
        err = walk_items(stage, slot, use);
        return err == ONCE_OK ? walk_sent(stage, slot, use) : err;
    default:
        return walk_whole(stage, slot, use);
    }
}

static int walk(struct once__stage *stage, edit_use use)
{
    int err = ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < stage->changed_count; i++)
        err = walk_slot(stage, stage->changed[i], use);
    return err;
}

/* ---- Encoding -------------------------------------------------------------------------------- */

static int encode(struct once__stage *stage, struct once__slot *slot, const struct once__edit *edit)
{
    int err = once__edit_encode(edit, &stage->edits);

    (void)slot;
    if (err == ONCE_ERR_FULL)
        return once__stage_fail(stage, err,
                                "what these effects write about objects is more than one apply may "
                                "write: take fewer at a time");
    return err;
}

int once__stage_encode(struct once__stage *stage)
{
    ONCE_ASSERT(stage->edits.size == 0);
    return walk(stage, encode);
}

/* ---- Putting --------------------------------------------------------------------------------- */

static int put(struct once__stage *stage, struct once__slot *slot, const struct once__edit *edit)
{
    int err = once__objects_put_at(stage->into.objects, &slot->place, edit);

    if (err == ONCE_OK && stage->into.recent && once_object_mergeable(slot->type))
        once__recent_note(stage->into.recent, edit);
    return err;
}

int once__stage_put(struct once__stage *stage, struct once__objects *objects,
                    struct once__recent *recent)
{
    int err;

    ONCE_ASSERT(objects && objects == stage->objects);
    stage->into.objects = objects;
    stage->into.recent = recent;
    err = walk(stage, put);
    ONCE_ASSERT(err != ONCE_ERR_DAMAGED); /* the steps were made on these objects */
    stage->objects = NULL;
    once__stage_mergeable_end(stage);
    return err;
}
