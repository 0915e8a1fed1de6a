/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on what has many parts: event logs (APPEND), outboxes (EMIT, SENT) and counts by bucket
 * (BUCKET). A slot has only the counts; the parts that this run adds, takes out or counts stand in
 * the stage's arrays, and are looked for there first.
 */
#include "object/stage_inner.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"

/* About what the table needs for an event, a message or a bucket besides its bytes. */
enum { PART_OVERHEAD_SIZE = 32 };

static int reject_overflow(struct once__stage *stage)
{
    return once__stage_reject(stage, ONCE__EFFECT_OVERFLOW,
                              "%.*s has used up its numbers: %" PRIu64 " was the last",
                              ONCE__STAGE_TEXT(stage->deed->name), (uint64_t)ONCE_VERSION_MAX);
}

static void add_item(struct once__stage *stage, const struct once__slot *slot, uint64_t number)
{
    ONCE_ASSERT(stage->item_count < ONCE_EFFECTS_MAX);
    stage->items[stage->item_count++] = (struct once__stage_item){
        .slot = slot, .number = number, .deed = stage->deed};
}

/* ---- Event logs ------------------------------------------------------------------------------ */

/* An event, from the table or from this run. The number must be one of the log's. */
static struct once_object_item event_at(const struct once__stage *stage,
                                        const struct once__slot *slot, uint64_t number)
{
    ONCE_ASSERT(number > 0 && number <= slot->now.event_count);
    if (slot->object && number <= once__object_event_count(slot->object))
        return once__object_event(slot->object, number);
    for (size_t i = 0; i < stage->item_count; i++) {
        const struct once__stage_item *item = &stage->items[i];

        if (item->slot == slot && item->number == number)
            return (struct once_object_item){
                .number = number, .id = item->deed->node, .payload = item->deed->value};
    }
    ONCE_ASSERT(false); /* neither in the table nor in the run */
    return (struct once_object_item){0};
}

/* Does the event of this deed stand where it was asked to? The id names it, and another payload
 * under the same id is another request: its writer must not be told that it was kept. */
static bool is_there(const struct once__stage *stage, const struct once__slot *slot)
{
    const struct once__deed *deed = stage->deed;
    struct once_object_item event;

    if (!deed->expected.given || deed->expected.version >= slot->now.event_count)
        return false;
    event = event_at(stage, slot, deed->expected.version + 1);
    return once__bytes_equal(event.id, deed->node) && once__bytes_equal(event.payload, deed->value);
}

static int reject_append(struct once__stage *stage, enum once__effect_word word, uint64_t version)
{
    const struct once__deed *deed = stage->deed;

    if (word == ONCE__EFFECT_OVERFLOW)
        return reject_overflow(stage);
    return once__stage_reject(
        stage, word, "%.*s is at version %" PRIu64 ", and the event is for version %" PRIu64 "%s",
        ONCE__STAGE_TEXT(deed->name), version, deed->expected.version,
        deed->expected.version < version ? ", where another event stands behind it" : "");
}

int once__stage_append(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once__append append = {.at = deed->expected};
    struct once__slot *slot;
    enum once__effect_word word;
    uint64_t *version;
    int err = once__stage_slot(stage, ONCE_OBJECT_LOG, &slot);

    if (err != ONCE_OK)
        return err;
    version = &slot->now.event_count;
    append.there = is_there(stage, slot);
    word = once__effect_append(version, append);
    if (once__effect_rejected(word))
        return reject_append(stage, word, *version);
    if (word == ONCE__EFFECT_UNCHANGED)
        return once__stage_number(stage, (int64_t)append.at.version + 1);

    if (*version > stage->limits.events)
        return once__stage_fail(stage, ONCE_ERR_FULL, "the log holds as many events as one may");
    err = once__stage_change(stage, slot, deed->node.size + deed->value.size + PART_OVERHEAD_SIZE);
    if (err != ONCE_OK)
        return err;
    add_item(stage, slot, *version);
    return once__stage_number(stage, (int64_t)*version);
}

/* ---- Outboxes -------------------------------------------------------------------------------- */

int once__stage_emit(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once__slot *slot;
    int err = once__stage_slot(stage, ONCE_OBJECT_OUTBOX, &slot);

    if (err != ONCE_OK)
        return err;
    if (once__effect_emit(&slot->now.outbox.total) != ONCE__EFFECT_CHANGED)
        return reject_overflow(stage);
    slot->now.outbox.waiting++;
    if (slot->now.outbox.waiting > stage->limits.messages)
        return once__stage_fail(
            stage, ONCE_ERR_FULL,
            "as many messages wait in the outbox as may: take some out with SENT");
    err = once__stage_change(stage, slot, deed->node.size + deed->value.size + PART_OVERHEAD_SIZE);
    if (err != ONCE_OK)
        return err;
    add_item(stage, slot, slot->now.outbox.total);
    return once__stage_number(stage, (int64_t)slot->now.outbox.total);
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The numbers of the deed, sorted, behind those in stage->sent, without moving its end. */
static int read_numbers(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    size_t need = stage->sent_size + deed->member_count;
    uint64_t *numbers;
    bool sorted = true;

    if (need > stage->sent_capacity) {
        numbers = realloc(stage->sent, need * 2 * sizeof *numbers);
        if (!numbers)
            return ONCE_ERR_MEMORY;
        stage->sent = numbers;
        stage->sent_capacity = need * 2;
    }
    numbers = stage->sent + stage->sent_size;
    for (size_t i = 0; i < deed->member_count; i++) {
        if (!once__uint64_read(deed->members[i], UINT64_MAX, &numbers[i]))
            return once__stage_fail(stage, ONCE_ERR_INVALID, "not the number of a message");
        sorted = sorted && (i == 0 || numbers[i - 1] <= numbers[i]);
    }
    if (!sorted)
        qsort(numbers, deed->member_count, sizeof *numbers, compare_numbers);
    return ONCE_OK;
}

/* Is the message waiting, as the deeds so far leave it? */
static bool is_waiting(const struct once__stage *stage, const struct once__slot *slot,
                       uint64_t number)
{
    uint64_t table_total = slot->object ? once__object_message_total(slot->object) : 0;

    if (number == 0 || number > slot->now.outbox.total)
        return false;
    if (number <= table_total && !once__object_has_message(slot->object, number))
        return false;
    for (size_t i = 0; i < stage->sent_count; i++) {
        const struct once__stage_sent *sent = &stage->sents[i];

        if (sent->slot == slot && sent->count > 0 &&
            bsearch(&number, stage->sent + sent->start, sent->count, sizeof number,
                    compare_numbers))
            return false;
    }
    return true;
}

/* Keeps of the sorted numbers at start those that go: they move to the front. The same number again
 * comes right behind itself. */
static int filter_numbers(struct once__stage *stage, const struct once__slot *slot, size_t start,
                          size_t *ret_count)
{
    struct once__receipt receipt = {.emitted = slot->now.outbox.total};
    size_t count = 0;

    for (size_t i = 0; i < stage->deed->member_count; i++) {
        enum once__effect_word word;
        bool there;

        receipt.number = stage->sent[start + i];
        there = is_waiting(stage, slot, receipt.number) &&
                !(count > 0 && stage->sent[start + count - 1] == receipt.number);
        word = once__effect_sent(&there, receipt);
        if (once__effect_rejected(word))
            return once__stage_reject(
                stage, word,
                "%.*s gave numbers up to %" PRIu64 " so far, and %" PRIu64 " is none of them",
                ONCE__STAGE_TEXT(slot->name), receipt.emitted, receipt.number);
        if (word == ONCE__EFFECT_CHANGED)
            stage->sent[start + count++] = receipt.number;
    }
    *ret_count = count;
    return ONCE_OK;
}

int once__stage_sent(struct once__stage *stage)
{
    struct once__slot *slot;
    size_t start = stage->sent_size, count = 0;
    int err = once__stage_slot(stage, ONCE_OBJECT_OUTBOX, &slot);

    if (err == ONCE_OK)
        err = read_numbers(stage);
    if (err == ONCE_OK)
        err = filter_numbers(stage, slot, start, &count);
    if (err == ONCE_OK && count > 0) {
        ONCE_ASSERT(stage->sent_count < ONCE_EFFECTS_MAX);
        ONCE_ASSERT(count <= slot->now.outbox.waiting);
        stage->sents[stage->sent_count++] = (struct once__stage_sent){
            .slot = slot, .start = start, .count = count};
        stage->sent_size += count;
        slot->now.outbox.waiting -= count;
        err = once__stage_change(stage, slot, 0);
    }
    return err == ONCE_OK ? once__stage_number(stage, (int64_t)count) : err;
}

/* ---- Counts by bucket ------------------------------------------------------------------------ */

static struct once__stage_bucket *bucket_of(struct once__stage *stage,
                                            const struct once__slot *slot)
{
    struct once_bytes name = stage->deed->node;
    struct once__stage_bucket *bucket;

    for (size_t i = 0; i < stage->bucket_count; i++) {
        bucket = &stage->buckets[i];
        if (bucket->slot == slot && once__bytes_equal(bucket->bucket, name))
            return bucket;
    }
    ONCE_ASSERT(stage->bucket_count < ONCE_EFFECTS_MAX);
    bucket = &stage->buckets[stage->bucket_count++];
    *bucket = (struct once__stage_bucket){
        .slot = slot,
        .bucket = name,
        .count = slot->object ? once__object_bucket(slot->object, name) : 0,
    };
    return bucket;
}

int once__stage_bucket(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once__stage_bucket *bucket;
    struct once__slot *slot;
    enum once__effect_word word;
    uint64_t growth_size = 0;
    int err = once__stage_slot(stage, ONCE_OBJECT_BUCKETS, &slot);

    if (err != ONCE_OK)
        return err;
    bucket = bucket_of(stage, slot);
    if (bucket->count == 0 && deed->number > 0) {
        slot->now.bucket_count++;
        growth_size = deed->node.size + PART_OVERHEAD_SIZE;
    }
    word = once__effect_bucket(&bucket->count, deed->number);
    if (once__effect_rejected(word))
        return once__stage_reject(stage, word,
                                  "a bucket of %.*s is at %" PRIu64 ", and counting %" PRIu64
                                  " more would pass %" PRIu64,
                                  ONCE__STAGE_TEXT(deed->name), bucket->count, deed->number,
                                  (uint64_t)ONCE_BUCKET_COUNT_MAX);
    if (slot->now.bucket_count > stage->limits.buckets && growth_size > 0)
        return once__stage_fail(stage, ONCE_ERR_FULL, "the object has as many buckets as one may");
    if (word == ONCE__EFFECT_CHANGED) {
        bucket->changed = true;
        err = once__stage_change(stage, slot, growth_size);
    }
    return err == ONCE_OK ? once__stage_number(stage, (int64_t)bucket->count) : err;
}
