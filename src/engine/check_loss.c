/* SPDX-License-Identifier: Apache-2.0
 *
 * What a damaged stretch of a segment has lost: looks for records that are still whole in there,
 * whatever became of their batch, and for what nobody can read any more.
 *
 * A record that was replaced by a later one is not a loss: the later one stands in for it. Nor is a
 * change of objects that was made before the snapshot: that one has what it came to.
 */
#include "engine/check_inner.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* A whole record in the stretch; offsets are in the stretch. */
struct found {
    uint32_t offset;
    uint32_t size;
};

struct stretch {
    uint8_t *bytes;
    uint32_t size;
    uint32_t offset; /* in the segment */
    struct found *found;
    size_t count, capacity;
    struct once__kills killed; /* by records in here */
};

static int find_records(struct stretch *stretch, uint64_t sequence)
{
    struct once__log_record rec;
    struct once_defect defect;
    uint32_t size;

    for (uint32_t at = 0; at + ONCE__RECORD_PEEK_SIZE <= stretch->size; at += ONCE__RECORD_ALIGN) {
        uint32_t peeked = once__record_peek(stretch->bytes + at);
        int err;

        if (peeked == 0 || peeked > stretch->size - at ||
            once__record_decode((struct once_bytes){stretch->bytes + at, peeked}, &rec, &size, NULL,
                                &defect) != ONCE_OK)
            continue;
        err = once__check_grow(&stretch->found, stretch->count, &stretch->capacity,
                               sizeof(*stretch->found));
        if (err == ONCE_OK)
            err = once__check_grow(&stretch->killed.items, stretch->killed.count,
                                   &stretch->killed.capacity, sizeof(*stretch->killed.items));
        if (err != ONCE_OK)
            return err;
        stretch->found[stretch->count++] = (struct found){at, size};
        if (rec.previous_sequence == sequence)
            stretch->killed.items[stretch->killed.count++] = (struct once__kill){
                .sequence = sequence, .offset = rec.previous_offset};
        at += size - ONCE__RECORD_ALIGN;
    }
    return ONCE_OK;
}

/* Records that the headers which can be read say are there, and whether these headers tell all. */
static uint64_t count_told(const struct stretch *stretch, const struct once__segment_header *header,
                           bool *ret_all)
{
    uint64_t count = 0;
    uint32_t at = 0;

    *ret_all = true;
    while (at < stretch->size) {
        struct once_bytes rest = {stretch->bytes + at, stretch->size - at};
        struct once__batch_header batch;
        struct once_defect defect;
        uint64_t check;

        if (once__batch_header_decode(rest, header->salt, &batch, &check, &defect) == ONCE_OK &&
            batch.sequence == header->sequence &&
            once__batch_disk_size(batch.size) <= stretch->size - at) {
            count += batch.count;
            at += once__batch_disk_size(batch.size);
        } else {
            *ret_all = false;
            at += ONCE_BLOCK_SIZE;
        }
    }
    return count;
}

/* Only the header of one batch was hit: its records follow one another from the first to the last.
 */
static bool one_whole_batch(const struct stretch *stretch, uint64_t batches)
{
    uint32_t at = ONCE__BATCH_HEADER_SIZE;

    if (batches != 1)
        return false;
    for (size_t i = 0; i < stretch->count; i++) {
        if (stretch->found[i].offset != at)
            return false;
        at += stretch->found[i].size;
    }
    return stretch->count > 0 && once__batch_disk_size(at) == stretch->size;
}

static void tell(const struct once__check *check, const struct stretch *stretch,
                 const struct once__check_segment *segment,
                 void (*each)(void *user, const struct once__lost *lost), void *user,
                 struct once__loss *loss)
{
    for (size_t i = 0; i < stretch->count; i++) {
        uint32_t offset = stretch->found[i].offset, size;
        struct once__log_record rec;
        struct once__lost lost = {.record = &rec};
        bool replaced = once__kills_has(&segment->kills, stretch->offset + offset) ||
                        once__kills_has(&stretch->killed, stretch->offset + offset);

        once__record_view(stretch->bytes + offset, &rec, &size);
        lost.operation = rec.ns.size > 0 && !replaced;
        lost.goes_back = rec.previous_sequence != 0 &&
                         rec.previous_sequence >= check->summary.oldest;
        lost.change = rec.change > check->snapshot.header.change;
        loss->readable += rec.ns.size > 0 ? 1 : 0;
        loss->replaced += replaced ? 1 : 0;
        loss->changes += lost.change ? 1 : 0;
        if (each && (lost.operation || lost.change))
            each(user, &lost);
    }
}

/* Of the records that cannot be read, those that a later one replaced: no loss. */
static uint64_t count_replaced(const struct stretch *stretch,
                               const struct once__check_segment *segment)
{
    uint64_t count = 0;
    size_t j = 0;

    for (size_t i = 0; i < segment->kills.count; i++) {
        uint32_t offset = segment->kills.items[i].offset;

        if (offset < stretch->offset || offset - stretch->offset >= stretch->size)
            continue;
        while (j < stretch->count && stretch->offset + stretch->found[j].offset < offset)
            j++;
        count += j == stretch->count || stretch->offset + stretch->found[j].offset != offset;
    }
    return count;
}

int once__check_loss(const struct once__check *check, const struct once__check_segment *segment,
                     const struct once__patch *patch,
                     void (*each)(void *user, const struct once__lost *lost), void *user,
                     struct once__loss *ret_loss)
{
    struct stretch stretch = {.offset = patch->offset, .size = patch->lost_end - patch->offset};
    struct once__loss loss = {.batches = ret_loss->batches};
    struct once__file *file = NULL;
    uint64_t told;
    bool all;
    int err;

    ONCE_ASSERT(patch->lost_end >= patch->offset && stretch.size % ONCE_BLOCK_SIZE == 0);
    if (stretch.size == 0) {
        loss.changes = patch->changes;
        loss.more = true;
        *ret_loss = loss;
        return ONCE_OK;
    }
    stretch.bytes = aligned_alloc(ONCE_BLOCK_SIZE, stretch.size);
    err = stretch.bytes ? once__check_open(check, segment, ONCE__OPEN_DIRECT, &file)
                        : ONCE_ERR_MEMORY;
    if (err == ONCE_OK)
        err = once__check_read(file, patch->offset, stretch.bytes, stretch.size);
    if (err == ONCE_ERR_IO) {
        memset(stretch.bytes, 0, stretch.size); /* nothing of it can be read */
        err = ONCE_OK;
    }
    if (err == ONCE_OK)
        err = find_records(&stretch, segment->header.sequence);
    if (err == ONCE_OK) {
        once__kills_sort(&stretch.killed);
        tell(check, &stretch, segment, each, user, &loss);
        told = count_told(&stretch, &segment->header, &all);
        if (told > stretch.count) {
            uint64_t replaced = count_replaced(&stretch, segment);

            loss.unreadable = told - stretch.count;
            loss.unreadable -= replaced < loss.unreadable ? replaced : loss.unreadable;
        }
        if (patch->changes > loss.changes)
            loss.changes = patch->changes;
        loss.more = !all && !one_whole_batch(&stretch, loss.batches);
        *ret_loss = loss;
    }
    once__file_close(file);
    free(stretch.bytes);
    free(stretch.found);
    free(stretch.killed.items);
    return err;
}
