/* SPDX-License-Identifier: Apache-2.0
 *
 * The log of a check, from its newest segment down to the oldest that is needed. Downwards, because
 * what is durable, what was replaced and where a segment must end is known from what came later.
 *
 *     find the segment's file ─▶ walk it ─▶ join it to the one behind ─▶ compare its sidecar
 *        │ not there
 *        ├▶ a file with a damaged header whose batches are of it: the header is made again
 *        └▶ none: a segment is made that says its batches are given up
 *
 * When the newest segment was begun while the end of the one before was still being written, and
 * the power failed then, the newest is no part of the log: the tail is torn, not damaged.
 */
#include "engine/check_inner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* ---- Joining --------------------------------------------------------------------------------- */

/* Gives a made-up header what the segment before knows. */
static void relink(struct once__check_segment *next, const struct once__check_segment *segment)
{
    struct once__patch *front = next->patch_count > 0 &&
                                        next->patches[0].offset == ONCE__SEGMENT_HEADER_SIZE
                                    ? &next->patches[0]
                                    : NULL;

    ONCE_ASSERT(next->rebuilt);
    next->header.previous_end = segment->scan.end;
    if (next->first_known || (front && front->batch.number < segment->scan.next_batch))
        return;
    next->header.first_batch = segment->scan.next_batch;
    next->header.chain = segment->scan.chain;
    next->first_known = true;
    if (front) {
        front->batch.chain = segment->scan.chain;
        if (next->first.flags & ONCE__BATCH_GIVEN_UP)
            next->first = front->batch;
    }
}

static bool follows(const struct once__check_segment *next,
                    const struct once__check_segment *segment)
{
    return next->header.first_batch == segment->scan.next_batch &&
           next->header.chain == segment->scan.chain &&
           next->header.previous_end == segment->scan.end;
}

/* The newest segment was begun and never became part of the log. */
static int cut_torn(struct once__check *check, struct once__check_segment *next)
{
    struct once__finding *finding;

    once__check_retract(check, next->header.sequence);
    for (size_t i = 0; i < check->log_count; i++)
        check->log[i]->needed = false;
    check->log_count = 0;
    for (size_t i = 0; i < check->kills_count; i++)
        free(check->kills[i].items);
    free(check->kills);
    check->kills = NULL;
    check->kills_count = 0;
    check->now_ms = 0;
    check->lossy = false;
    check->told_objects = false;
    check->summary = (struct once__check_summary){.disk_size = check->summary.disk_size};
    finding = once__check_add(check, ONCE__FINDING_TORN, ONCE__REMEDY_NOTHING, next);
    if (!finding)
        return ONCE_ERR_MEMORY;
    once__check_say(finding, "the segment was begun when the store stopped, before the end of the "
                             "one before it was written; none of it was told to anyone");
    return ONCE_OK;
}

static int join(struct once__check *check, struct once__check_segment *segment,
                struct once__check_segment *next, bool *ret_torn)
{
    struct once__finding *finding;

    *ret_torn = false;
    if (next->rebuilt)
        relink(next, segment);
    if (follows(next, segment) || segment->more_damage)
        return ONCE_OK;
    if (segment->scan.ended == ONCE__SCAN_TORN &&
        segment->scan.next_batch < next->header.first_batch) {
        *ret_torn = true;
        return cut_torn(check, next);
    }
    finding = once__check_add(check, ONCE__FINDING_CHAIN, ONCE__REMEDY_NONE, next);
    if (!finding)
        return ONCE_ERR_MEMORY;
    once__check_say(finding,
                    "the segment does not follow the one before: it begins with batch %" PRIu64
                    ", and batch %" PRIu64 " is next; one of them is of another copy of the store",
                    next->header.first_batch, segment->scan.next_batch);
    return ONCE_OK;
}

static int compare_order(struct once__check *check, const struct once__check_segment *segment,
                         const struct once__check_segment *next)
{
    const struct once__batch_header *last = &segment->scan.last, *first = &next->first;
    struct once__finding *finding;

    if (segment->scan.batch_count == 0 || next->scan.batch_count == 0 ||
        (first->now_ms >= last->now_ms && first->last_fence >= last->last_fence &&
         first->oldest >= last->oldest && first->durable >= last->durable))
        return ONCE_OK;
    if (next->patch_count > 0 && next->patches[0].offset == ONCE__SEGMENT_HEADER_SIZE)
        return ONCE_OK; /* that batch is ours */
    finding = once__check_add(check, ONCE__FINDING_ORDER, ONCE__REMEDY_NONE, next);
    if (!finding)
        return ONCE_ERR_MEMORY;
    finding->offset = ONCE__SEGMENT_HEADER_SIZE;
    once__check_say(finding, "store time, the last fence or what is oldest runs back behind the "
                             "segment before");
    return ONCE_OK;
}

/* ---- What was replaced ----------------------------------------------------------------------- */

static struct once__kills *kills_of(struct once__check *check, uint64_t sequence)
{
    uint64_t oldest = check->summary.oldest;

    if (check->kills_count == 0 || sequence < oldest || sequence - oldest >= check->kills_count)
        return NULL;
    return &check->kills[sequence - oldest];
}

/* The first segment with batches tells which is oldest: from there to the newest every segment has
 * a list of its records that were replaced. */
static int learn_end(struct once__check *check, const struct once__check_segment *segment)
{
    if (check->summary.oldest != 0 || segment->scan.batch_count == 0)
        return ONCE_OK;
    check->summary.oldest = segment->scan.last.oldest;
    check->summary.last_fence = segment->scan.last.last_fence;
    check->summary.now_ms = segment->scan.last.now_ms;
    check->told_objects = (segment->scan.last.flags & ONCE__BATCH_OBJECTS) != 0;
    check->now_ms = segment->scan.last.now_ms;
    if (check->summary.newest - check->summary.oldest >= ONCE_SEGMENTS_MAX)
        return ONCE_ERR_DAMAGED;
    check->kills_count = (size_t)(check->summary.newest - check->summary.oldest) + 1;
    check->kills = calloc(check->kills_count, sizeof(*check->kills));
    return check->kills ? ONCE_OK : ONCE_ERR_MEMORY;
}

/* Gives every record that this segment replaced to the list of its own segment. */
static int share_kills(struct once__check *check)
{
    for (size_t i = 0; i < check->killed.count; i++) {
        const struct once__kill *kill = &check->killed.items[i];
        struct once__kills *kills = kills_of(check, kill->sequence);
        int err;

        if (!kills)
            continue;
        err = once__check_grow(&kills->items, kills->count, &kills->capacity,
                               sizeof(*kills->items));
        if (err != ONCE_OK)
            return err;
        kills->items[kills->count++] = *kill;
    }
    return ONCE_OK;
}

static bool is_given(const struct once__givens *givens, uint32_t offset)
{
    for (size_t i = 0; i < givens->count; i++) {
        if (offset >= givens->items[i].offset && offset < givens->items[i].end)
            return true;
    }
    return false;
}

/* Every record that was replaced is there, under the name of the one that replaced it. */
static int compare_links(struct once__check *check, const struct once__check_segment *segment)
{
    struct once__finding *finding;
    uint64_t count = 0;
    uint32_t offset = 0;
    size_t j = 0;

    for (size_t i = 0; i < segment->kills.count; i++) {
        const struct once__kill *kill = &segment->kills.items[i];

        while (j < check->seens.count && check->seens.items[j].offset < kill->offset)
            j++;
        if (j < check->seens.count && check->seens.items[j].offset == kill->offset &&
            check->seens.items[j].hash >> 32 == kill->hash)
            continue;
        if (is_given(&check->givens, kill->offset))
            continue;
        offset = count == 0 ? kill->offset : offset;
        count++;
    }
    if (count == 0 || segment->more_damage)
        return ONCE_OK;
    finding = once__check_add(check, ONCE__FINDING_LINK, ONCE__REMEDY_NONE, segment);
    if (!finding)
        return ONCE_ERR_MEMORY;
    finding->offset = offset;
    once__check_say(finding,
                    "%" PRIu64 " later records replace records of this segment that are "
                    "not there",
                    count);
    return ONCE_OK;
}

/* ---- Telling --------------------------------------------------------------------------------- */

static int tell_file(struct once__check *check, const struct once__check_segment *segment)
{
    struct once__finding *finding;

    if (segment->present && segment->file_size < segment->header.segment_size) {
        finding = once__check_add(check, ONCE__FINDING_SIZE, ONCE__REMEDY_EXTEND, segment);
        if (!finding)
            return ONCE_ERR_MEMORY;
        finding->offset = segment->file_size;
        once__check_say(finding, "the file has %" PRIu64 " bytes and must have %" PRIu32,
                        segment->file_size, segment->header.segment_size);
    }
    if (segment->present && segment->rebuilt) {
        finding = once__check_add(check, ONCE__FINDING_HEADER, ONCE__REMEDY_NEW_HEADER, segment);
        if (!finding)
            return ONCE_ERR_MEMORY;
        finding->size = ONCE__SEGMENT_HEADER_SIZE;
        once__check_say(finding, "the segment's header is damaged: %s",
                        segment->header_defect.what ? segment->header_defect.what
                                                    : "it cannot be read");
    }
    if (segment->torn_end > 0) {
        finding = once__check_add(check, ONCE__FINDING_TORN, ONCE__REMEDY_NOTHING, segment);
        if (!finding)
            return ONCE_ERR_MEMORY;
        finding->offset = segment->scan.end;
        finding->size = segment->torn_end - segment->scan.end;
        once__check_say(finding, "this was being written when the store stopped; none of it was "
                                 "told to anyone");
    }
    return ONCE_OK;
}

static int tell_missing(struct once__check *check, struct once__check_segment *segment)
{
    struct once__finding *finding = once__check_add(check, ONCE__FINDING_MISSING,
                                                    ONCE__REMEDY_NEW_SEGMENT, segment);
    struct once__kills *kills = kills_of(check, segment->header.sequence);
    bool found = false;
    int err = ONCE_OK;

    if (!finding)
        return ONCE_ERR_MEMORY;
    if (kills) {
        once__kills_sort(kills);
        check->killed.count = 0;
        err = once__check_sidecar_count(check, segment->header.sequence, kills, &found,
                                        &finding->loss.unreadable);
        if (err == ONCE_OK)
            err = share_kills(check);
    }
    finding->loss.batches = segment->scan.next_batch - segment->header.first_batch;
    finding->loss.changes = segment->patches[0].changes;
    finding->loss.more = !found;
    once__check_say(finding, "segment %" PRIu64 " is missing, or nothing in it can be read",
                    segment->header.sequence);
    return err;
}

static int tell_damage(struct once__check *check, const struct once__check_segment *segment)
{
    uint64_t number = segment->header.first_batch;

    for (size_t i = 0; i < segment->patch_count; i++) {
        const struct once__patch *patch = &segment->patches[i];
        struct once__finding *finding = once__check_add(check, ONCE__FINDING_BATCH,
                                                        ONCE__REMEDY_GIVE_UP, segment);
        int err;

        if (!finding)
            return ONCE_ERR_MEMORY;
        finding->offset = patch->offset;
        finding->size = patch->batch.size;
        number = patch->first_lost > 0 ? patch->first_lost : number;
        finding->loss.batches = patch->batch.number - number + 1;
        once__check_say(finding, "%s (at offset %zu)", patch->defect.what, patch->defect.offset);
        err = once__check_loss(check, segment, patch, NULL, NULL, &finding->loss);
        if (err != ONCE_OK)
            return err;
        if (i + 1 == segment->patch_count && segment->more_damage)
            once__check_say(finding,
                            "%s; more of the segment is damaged behind: repair, then "
                            "check again",
                            patch->defect.what);
    }
    return ONCE_OK;
}

/* What an earlier repair gave up is told, and is no damage any more. */
static int tell_given(struct once__check *check, const struct once__check_segment *segment)
{
    for (size_t i = 0; i < check->givens.count; i++) {
        const struct once__given *given = &check->givens.items[i];
        struct once__finding *finding;
        bool ours = false;

        for (size_t j = 0; j < segment->patch_count; j++)
            ours = ours || segment->patches[j].offset == given->offset;
        if (ours)
            continue;
        finding = once__check_add(check, ONCE__FINDING_GIVEN_UP, ONCE__REMEDY_NOTHING, segment);
        if (!finding)
            return ONCE_ERR_MEMORY;
        finding->offset = given->offset;
        finding->size = given->end - given->offset;
        once__check_say(finding, "what was damaged here was given up by an earlier repair");
    }
    return ONCE_OK;
}

/* ---- The walk -------------------------------------------------------------------------------- */

/* The segment's own walk, and what it says about others. */
static int look_at(struct once__check *check, struct once__check_segment *segment,
                   const struct once__check_segment *next)
{
    struct once__neighbour neighbour = {0};
    struct once__kills *kills;
    int err;

    if (next)
        neighbour = (struct once__neighbour){
            .there = true,
            .newest = next->header.sequence == check->summary.newest,
            .first_known = next->first_known,
            .end_known = next->end_known,
            .first_batch = next->header.first_batch,
            .chain = next->header.chain,
            .previous_end = next->header.previous_end,
            .first = next->scan.batch_count > 0 ? &next->first : NULL};
    err = once__check_walk(check, segment, &neighbour);
    if (err == ONCE_OK)
        err = learn_end(check, segment);
    if (err == ONCE_OK)
        err = share_kills(check);
    if (err != ONCE_OK)
        return err;
    if (segment->scan.last.durable > check->proof)
        check->proof = segment->scan.last.durable;
    kills = kills_of(check, segment->header.sequence);
    if (kills) {
        segment->kills = *kills;
        *kills = (struct once__kills){0};
        once__kills_sort(&segment->kills);
    }
    check->summary.batches += segment->scan.batch_count;
    check->summary.records += segment->scan.record_count;
    return ONCE_OK;
}

static int push_log(struct once__check *check, struct once__check_segment *segment)
{
    int err = once__check_grow(&check->log, check->log_count, &check->log_capacity,
                               sizeof(*check->log));

    if (err != ONCE_OK)
        return err;
    segment->needed = true;
    check->lossy = check->lossy || segment->patch_count > 0;
    check->log[check->log_count++] = segment;
    return ONCE_OK;
}

static int process(struct once__check *check, struct once__check_segment *segment)
{
    struct once__check_segment *next = check->log_count > 0 ? check->log[check->log_count - 1]
                                                            : NULL;
    bool torn = false;
    int err = ONCE_OK;

    if (segment->present)
        err = look_at(check, segment, next);
    if (err == ONCE_OK && next)
        err = join(check, segment, next, &torn);
    if (err == ONCE_OK && torn) {
        /* The log ends here: look again, as at the newest. */
        check->summary.newest = segment->header.sequence;
        free(segment->kills.items);
        segment->kills = (struct once__kills){0};
        return process(check, segment);
    }
    if (err == ONCE_OK && next && segment->present)
        err = compare_order(check, segment, next);
    if (err == ONCE_OK)
        err = push_log(check, segment);
    if (err != ONCE_OK || !segment->present)
        return err;
    err = compare_links(check, segment);
    if (err == ONCE_OK)
        err = tell_given(check, segment);
    if (err == ONCE_OK && segment->has_sidecar && !check->store_bad)
        err = once__check_sidecar(check, segment);
    if (segment->patch_count ==
        0) { /* else what is lost must be told apart from what was replaced */
        free(segment->kills.items);
        segment->kills = (struct once__kills){0};
    }
    return err;
}

/* A file that is not part of the log, and still looks like a segment in use to whoever opens the
 * store. Expired segments, and those that a torn tail left, are no strays. */
static int tell_stray(struct once__check *check, struct once__check_segment *segment)
{
    const char *what = NULL;
    struct once__finding *finding;

    if (segment->header_err == ONCE_ERR_DAMAGED)
        what = segment->header_defect.what;
    else if (segment->header_err == ONCE_OK && segment->file_size < check->file.segment_size)
        what = "the file is shorter than a segment, and nothing in it is needed";
    else if (segment->header_err == ONCE_OK && once__check_find(check, segment->said) != segment)
        what = "another file holds the same segment, and is newer";
    if (!what)
        return ONCE_OK;
    segment->stray = true;
    finding = once__check_add(check, ONCE__FINDING_STRAY, ONCE__REMEDY_SPARE, segment);
    if (!finding)
        return ONCE_ERR_MEMORY;
    finding->sequence = 0;
    finding->offset = segment->header_defect.offset;
    once__check_say(finding, "%s", what);
    return ONCE_OK;
}

static int tell_all(struct once__check *check)
{
    int err = ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < check->log_count; i++) {
        struct once__check_segment *segment = check->log[i];

        if (!segment->present) {
            err = tell_missing(check, segment);
            continue;
        }
        err = tell_file(check, segment);
        if (err == ONCE_OK)
            err = tell_damage(check, segment);
        check->summary.segments++;
    }
    for (size_t i = 0; err == ONCE_OK && i < check->segment_count; i++) {
        struct once__check_segment *segment = check->segments[i];

        if (!segment->present || segment->needed)
            continue;
        check->summary.spares++;
        err = tell_stray(check, segment);
    }
    return err;
}

/* Segments from the newest down to stop are read. */
static void tell_progress(const struct once__check *check, uint64_t stop)
{
    uint64_t all = check->summary.newest >= stop ? check->summary.newest - stop + 1 : 0;

    if (check->progress)
        check->progress(check->user, check->log_count * check->file.segment_size,
                        all * check->file.segment_size);
}

int once__check_log(struct once__check *check)
{
    struct once__check_segment *segment = NULL;
    uint64_t sequence;
    int err;

    once__check_sort(check);
    sequence = once__check_newest(check) + 1;
    /* Newer ones than any header says, whose headers are damaged. */
    while ((err = once__check_adopt(check, sequence, true, &segment)) == ONCE_OK && segment) {
        check->summary.newest = sequence;
        sequence++;
    }
    for (sequence--; err == ONCE_OK && sequence > 0; sequence--) {
        uint64_t stop = check->summary.oldest > 0 ? check->summary.oldest
                                                  : once__check_lowest(check);

        if (check->log_count > 0 && sequence < stop)
            break;
        if (check->summary.newest < sequence)
            check->summary.newest = sequence;
        err = once__check_take(check, sequence, &segment);
        if (err == ONCE_OK)
            err = process(check, segment);
        if (err == ONCE_OK)
            tell_progress(check, stop);
    }
    if (err == ONCE_OK)
        err = once__check_objects(check);
    return err == ONCE_OK ? tell_all(check) : err;
}
