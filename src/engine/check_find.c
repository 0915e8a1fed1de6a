/* SPDX-License-Identifier: Apache-2.0
 *
 * Which file holds a segment of the log: the one whose header says so; else one with a damaged
 * header whose batches are of it, and the header is made again; else none, and a segment is made
 * that says its batches are given up.
 *
 * A batch tells its segment by the salt in its check, so an old batch in a file that was used again
 * is never taken for a newer segment's.
 */
#include "engine/check_inner.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { MADE_SIZE = ONCE_BLOCK_SIZE }; /* of the one batch in a made segment, if its end is free */

/* ---- Finding segments ------------------------------------------------------------------------ */

static int compare_segments(const void *a, const void *b)
{
    const struct once__check_segment *const *x = a, *const *y = b;

    if ((*x)->said != (*y)->said)
        return (*x)->said < (*y)->said ? -1 : 1;
    return ((*x)->header.created_ms > (*y)->header.created_ms) -
           ((*x)->header.created_ms < (*y)->header.created_ms);
}

void once__check_sort(struct once__check *check)
{
    for (size_t i = 0; i < check->segment_count; i++)
        check->segments[i]->said = check->segments[i]->header.sequence;
    if (check->segment_count > 1)
        qsort(check->segments, check->segment_count, sizeof(struct once__check_segment *),
              compare_segments);
    check->sorted_count = check->segment_count;
}

/* Index of the first segment whose sequence is larger. */
static size_t upper(const struct once__check *check, uint64_t sequence)
{
    size_t low = 0, high = check->sorted_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (check->segments[middle]->said <= sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The newest of those that say they are this one. */
struct once__check_segment *once__check_find(const struct once__check *check, uint64_t sequence)
{
    size_t index = upper(check, sequence);

    if (index == 0 || check->segments[index - 1]->said != sequence)
        return NULL;
    return check->segments[index - 1];
}

uint64_t once__check_newest(const struct once__check *check)
{
    return check->sorted_count > 0 ? check->segments[check->sorted_count - 1]->said : 0;
}

uint64_t once__check_lowest(const struct once__check *check)
{
    size_t index = upper(check, 0);

    return index < check->sorted_count ? check->segments[index]->said : 0;
}

/* A batch that stands in for those before the first one that can be read. */
static int patch_front(struct once__check_segment *segment, const struct once__probe *probe)
{
    struct once__patch *patch = calloc(ONCE__PATCHES_MAX, sizeof(*patch));
    const struct once__batch_header *good = &probe->header;

    if (!patch)
        return ONCE_ERR_MEMORY;
    patch->offset = ONCE__SEGMENT_HEADER_SIZE;
    patch->lost_end = probe->offset;
    patch->defect = (struct once_defect){.offset = patch->offset,
                                         .what = "the first batch is damaged"};
    patch->batch = (struct once__batch_header){.size = probe->offset - patch->offset,
                                               .sequence = good->sequence,
                                               .number = good->number - 1,
                                               .last_fence = good->last_fence,
                                               .oldest = good->oldest,
                                               .now_ms = good->now_ms,
                                               .flags = ONCE__BATCH_GIVEN_UP |
                                                        (good->flags & ONCE__BATCH_OBJECTS),
                                               .next_chain = good->chain};
    patch->batch.durable = good->durable < patch->batch.number ? good->durable
                                                               : patch->batch.number - 1;
    segment->patches = patch;
    segment->patch_count = 1;
    return ONCE_OK;
}

/* Makes the header of a file again from the batches in it. */
static int adopt(struct once__check *check, struct once__check_segment *segment, uint64_t sequence,
                 const struct once__probe *probe)
{
    bool first = probe->offset == ONCE__SEGMENT_HEADER_SIZE;
    bool certain = first && !(probe->header.flags & ONCE__BATCH_GIVEN_UP);

    segment->rebuilt = true;
    segment->first_known = certain || sequence == 1;
    segment->header = (struct once__segment_header){
        .segment_size = check->file.segment_size,
        .sequence = sequence,
        .first_batch = sequence == 1 ? 1 : probe->header.number - !first,
        .chain = first && sequence > 1 ? probe->header.chain : 0,
        .previous_end = sequence == 1 ? 0 : ONCE__SEGMENT_HEADER_SIZE,
        .created_ms = probe->header.now_ms,
        .salt = once__segment_salt(check->file.secret, sequence),
        .life = probe->header.life};
    memcpy(segment->header.store_id, check->file.id, ONCE__STORE_ID_SIZE);
    return first ? ONCE_OK : patch_front(segment, probe);
}

/* A segment that was begun and never became part of the log is discarded by its header alone: its
 * batches still lie there. Those of the log are known by a later one that knew them to be durable,
 * or by the segment behind, which repeats the check of the last one. A header that is there and
 * damaged was never discarded. */
static bool is_part_of_log(const struct once__check *check,
                           const struct once__check_segment *segment,
                           const struct once__probe *probe)
{
    const struct once__check_segment *next = check->log_count > 0 ? check->log[check->log_count - 1]
                                                                  : NULL;

    if (!probe->found || (probe->offset > ONCE__SEGMENT_HEADER_SIZE && probe->header.number < 2))
        return false;
    if (segment->header_err == ONCE_ERR_DAMAGED || probe->durable >= probe->header.number)
        return true;
    return next && next->first_known && probe->last + 1 == next->header.first_batch &&
           probe->check == next->header.chain;
}

int once__check_adopt(struct once__check *check, uint64_t sequence, bool quick,
                      struct once__check_segment **ret_segment)
{
    size_t count = upper(check, 0);

    *ret_segment = NULL;
    if (check->store_bad) /* without the secret batches cannot be told */
        return ONCE_OK;
    for (size_t i = 0; i < count; i++) {
        struct once__check_segment *segment = check->segments[i];
        struct once__probe probe = {.found = false};
        struct once__file *file = NULL;
        int err;

        if (segment->rebuilt && segment->header.sequence == sequence) {
            *ret_segment = segment;
            return ONCE_OK;
        }
        if (!segment->present || segment->rebuilt)
            continue;
        err = once__check_open(check, segment, ONCE__OPEN_DIRECT, &file);
        if (err == ONCE_OK)
            err = once__check_probe(file, &check->file, sequence,
                                    quick && segment->header_err != ONCE_ERR_DAMAGED, &probe);
        once__file_close(file);
        if (err != ONCE_OK && err != ONCE_ERR_IO) /* else nothing of this file can be read */
            return err;
        if (err != ONCE_OK || !is_part_of_log(check, segment, &probe))
            continue;
        *ret_segment = segment;
        return adopt(check, segment, sequence, &probe);
    }
    return ONCE_OK;
}

static uint32_t free_slot(const struct once__check *check)
{
    uint32_t slot = 0;

    for (size_t i = 0; i < check->segment_count; i++) {
        if (check->segments[i]->slot >= slot)
            slot = check->segments[i]->slot + 1;
    }
    return slot;
}

/* A segment that says that what it held is given up. Its neighbour behind is there. */
static int make(struct once__check *check, uint64_t sequence,
                const struct once__check_segment *next, struct once__check_segment **ret_segment)
{
    struct once__check_segment *segment;
    uint32_t slot = free_slot(check);
    uint32_t end = next->header.previous_end > ONCE__SEGMENT_HEADER_SIZE && next->end_known
                       ? next->header.previous_end
                       : ONCE__SEGMENT_HEADER_SIZE + MADE_SIZE;
    struct once__probe behind = {.offset = end};
    int err = once__check_grow(&check->segments, check->segment_count, &check->segment_capacity,
                               sizeof(*check->segments));

    if (err != ONCE_OK)
        return err;
    if (slot >= ONCE_SEGMENTS_MAX)
        return ONCE_ERR_FULL;
    segment = calloc(1, sizeof(*segment));
    if (!segment)
        return ONCE_ERR_MEMORY;
    segment->slot = slot;
    segment->header_err = ONCE_ERR_NO_STORE;
    segment->rebuilt = true;
    segment->gaps = true;
    segment->header = next->header;
    segment->header.sequence = sequence;
    segment->header.previous_end = sequence == 1 ? 0 : ONCE__SEGMENT_HEADER_SIZE;
    segment->header.salt = once__segment_salt(check->file.secret, sequence);
    check->segments[check->segment_count++] = segment;

    behind.header = next->scan.batch_count > 0 ? next->first : (struct once__batch_header){0};
    behind.header.sequence = sequence;
    behind.header.number = next->header.first_batch;
    behind.header.chain = next->header.chain;
    if (behind.header.oldest == 0 || behind.header.oldest > sequence)
        behind.header.oldest = check->summary.oldest > 0 && check->summary.oldest <= sequence
                                   ? check->summary.oldest
                                   : sequence;
    if (behind.header.number < 2)
        return ONCE_ERR_DAMAGED;
    err = patch_front(segment, &behind);
    if (err != ONCE_OK)
        return err;
    /* Until the segment before says better, it stands for one batch. */
    segment->header.first_batch = sequence == 1 ? 1 : behind.header.number - 1;
    segment->header.chain = sequence == 1 ? 0 : sequence;
    segment->patches->batch.chain = segment->header.chain;
    segment->first = segment->patches->batch;
    segment->scan = (struct once__scan){.header = segment->header,
                                        .end = end,
                                        .chain = behind.header.chain,
                                        .next_batch = behind.header.number,
                                        .last = segment->first,
                                        .batch_count = 1};
    *ret_segment = segment;
    return ONCE_OK;
}

/* The segment of this sequence: as it is, with a header made again, or made. */
int once__check_take(struct once__check *check, uint64_t sequence,
                     struct once__check_segment **ret_segment)
{
    struct once__check_segment *segment = once__check_find(check, sequence);
    int err = ONCE_OK;

    if (segment) {
        segment->first_known = true;
        segment->end_known = true;
        *ret_segment = segment;
        return ONCE_OK;
    }
    err = once__check_adopt(check, sequence, false, &segment);
    if (err == ONCE_OK && !segment) {
        ONCE_ASSERT(check->log_count > 0);
        err = make(check, sequence, check->log[check->log_count - 1], &segment);
        if (err == ONCE_OK && sequence > 1 && !once__check_find(check, sequence - 1)) {
            /* Perhaps the one before is made too: then this one stands for one batch. */
            segment->first_known = segment->patches->batch.number > 1;
        }
    }
    if (err == ONCE_OK)
        *ret_segment = segment;
    return err;
}
