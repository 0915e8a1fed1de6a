/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run came to, as edits: one for each small object that is not what it was, one delta for
 * each mergeable, one for each event, message, message sent and bucket. Messages stand before the
 * SENT of their outbox, because one apply may emit a message and take it out again. Objects come in
 * the order in which they were first changed, as if the deeds had been put one by one.
 */
#include "object/stage_inner.h"

#include "base/assert.h"

static int encode(struct once__stage *stage, const struct once__edit *edit)
{
    int err = once__edit_encode(edit, &stage->edits);

    if (err == ONCE_ERR_FULL)
        return once__stage_fail(stage, err,
                                "what these effects write about objects is more than one apply may "
                                "write: take fewer at a time");
    return err;
}

static int encode_items(struct once__stage *stage, const struct once__slot *slot)
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
        err = encode(stage, &edit);
    }
    return err;
}

static int encode_sent(struct once__stage *stage, const struct once__slot *slot)
{
    int err = ONCE_OK;

    for (size_t i = 0; i < stage->sent_count; i++) {
        const struct once__stage_sent *sent = &stage->sents[i];

        if (sent->slot != slot)
            continue;
        for (size_t j = 0; err == ONCE_OK && j < sent->count; j++) {
            struct once__edit edit = {.kind = ONCE__EDIT_SENT, .name = slot->name};

            edit.to.sent = stage->sent[sent->start + j];
            err = encode(stage, &edit);
        }
    }
    return err;
}

static int encode_buckets(struct once__stage *stage, const struct once__slot *slot)
{
    int err = ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < stage->bucket_count; i++) {
        const struct once__stage_bucket *bucket = &stage->buckets[i];
        struct once__edit edit = {.kind = ONCE__EDIT_BUCKET, .name = slot->name};

        if (bucket->slot != slot || !bucket->changed)
            continue;
        edit.to.bucket.bucket = bucket->bucket;
        edit.to.bucket.count = bucket->count;
        err = encode(stage, &edit);
    }
    return err;
}

static int encode_machine(struct once__stage *stage, const struct once__slot *slot)
{
    struct once__edit edit = {.name = slot->name};

    if (slot->now.machine.declared) {
        edit.kind = ONCE__EDIT_MACHINE;
        edit.to.machine.declared = once__stage_declared(stage, slot);
        edit.to.machine.at = slot->now.machine.at;
        return encode(stage, &edit);
    }
    if (slot->now.machine.at == once__object_machine_at(slot->object))
        return ONCE_OK; /* it went round */
    edit.kind = ONCE__EDIT_MOVED;
    edit.to.moved = slot->now.machine.at;
    return encode(stage, &edit);
}

/* One edit that says it all. */
static int encode_whole(struct once__stage *stage, const struct once__slot *slot)
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
        edit.to.merge.version = stage->input->version;
        break;
    }
    return encode(stage, &edit);
}

static int encode_slot(struct once__stage *stage, const struct once__slot *slot)
{
    int err;

    switch ((unsigned)slot->type) {
    case ONCE_OBJECT_MACHINE:
        return encode_machine(stage, slot);
    case ONCE_OBJECT_LOG:
        return encode_items(stage, slot);
    case ONCE_OBJECT_BUCKETS:
        return encode_buckets(stage, slot);
    case ONCE_OBJECT_OUTBOX:
        err = encode_items(stage, slot);
        return err == ONCE_OK ? encode_sent(stage, slot) : err;
    default:
        return encode_whole(stage, slot);
    }
}

int once__stage_encode(struct once__stage *stage)
{
    int err = ONCE_OK;

    ONCE_ASSERT(stage->edits.size == 0);
    for (size_t i = 0; err == ONCE_OK && i < stage->changed_count; i++)
        err = encode_slot(stage, stage->changed[i]);
    return err;
}
