/* SPDX-License-Identifier: Apache-2.0
 *
 * From the files to a running engine. Writes only where there was no store yet, or where a torn
 * tail leaves a segment behind that nobody was told of.
 *
 *   1. Every segment file's header says which segment it holds; a file without one is spare.
 *   2. The last two segments are read whole: only there batches may be missing, because a segment
 *      is not begun before the one before the last is durable. At the first gap the log ends,
 *      unless something proves that
 *      what is missing was durable: that is damage, and nobody may be told anything (INV-3).
 *   3. What is read there is synced before it is believed: a process that died may have left it in
 *      the system's memory only. What no later batch proves to be durable is written again, because
 *      after a
 *      sync that failed a sync that succeeds proves nothing (INV-8).
 *   4. The last batch says which segment is the oldest; all from there on must be there. Their
 *      summaries, from sidecars or from the log, newest first, make the index.
 *   5. The snapshot of objects, and over it the edits of the log from where it was begun.
 *   6. Time and fences go on from the last batch (INV-1, INV-6).
 */
#include "engine/recovery.h"

#include "base/random.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int once__recovery_damaged(struct once__recovery *recovery, const struct once__seen *seen,
                           uint64_t offset, const char *what)
{
    char name[ONCE__NAME_SIZE];

    once__segment_name(seen->slot, name);
    return once__message(ONCE_ERR_DAMAGED, recovery->message,
                         "%s (segment %" PRIu64 ") is damaged at offset %" PRIu64
                         ": %s; `once check` says what would be lost if it were given up",
                         name, seen->header.sequence, offset, what ? what : "it cannot be read");
}

/* ---- Where the log ends ---------------------------------------------------------------------- */

int once__recovery_scan(struct once__recovery *recovery, const struct once__seen *seen,
                        uint32_t known_end, uint64_t durable, struct once__summary **ret_summary,
                        struct once__scan *ret_scan)
{
    struct once__engine *engine = recovery->engine;
    struct once__file *file;
    char name[ONCE__NAME_SIZE];
    int err;

    once__segment_name(seen->slot, name);
    err = engine->vfs->ops->open(engine->vfs, name, ONCE__OPEN_WRITE | ONCE__OPEN_DURABLE, &file);
    if (err == ONCE_OK) {
        err = once__file_sync(file); /* before it is believed */
        if (err == ONCE_OK)
            err = once__summary_scan(engine, file, known_end, durable, ret_summary, ret_scan);
        once__file_close(file);
    }
    if (err != ONCE_OK)
        return once__message(err, recovery->message, "%s cannot be read (system error %d)", name,
                             engine->vfs->system_errno);
    engine->counts.recovered += ret_scan->record_count;
    engine->gaps = engine->gaps || (*ret_summary)->gaps;
    if (ret_scan->ended == ONCE__SCAN_DAMAGED) {
        once__summary_free(*ret_summary);
        *ret_summary = NULL;
        return once__recovery_damaged(recovery, seen, ret_scan->bad_offset, ret_scan->defect.what);
    }
    return ONCE_OK;
}

/* The newest segment was begun after batches that are lost: nobody was told of anything in it. */
static int discard_newest(struct once__recovery *recovery)
{
    struct once__engine *engine = recovery->engine;
    struct once__seen *seen = &recovery->seen[recovery->seen_count - 1];
    void *zeros = aligned_alloc(ONCE_BLOCK_SIZE, ONCE__SEGMENT_HEADER_SIZE);
    struct once__file *file;
    char name[ONCE__NAME_SIZE];
    int err;

    if (!zeros)
        return ONCE_ERR_MEMORY;
    memset(zeros, 0, ONCE__SEGMENT_HEADER_SIZE);
    once__segment_name(seen->slot, name);
    err = engine->vfs->ops->open(engine->vfs, name, ONCE__OPEN_WRITE | ONCE__OPEN_DURABLE, &file);
    if (err == ONCE_OK) {
        err = once__file_write(file, 0, zeros, ONCE__SEGMENT_HEADER_SIZE);
        once__file_close(file);
    }
    free(zeros);
    if (err != ONCE_OK)
        return err;
    once__recovery_spare(engine, seen->slot, true);
    recovery->seen_count--;
    once__summary_free(recovery->tail);
    recovery->tail = recovery->previous;
    recovery->previous = NULL;
    recovery->has_previous = false;
    return ONCE_OK;
}

/* Reads the segment before the newest. *ret_whole: it goes to where the newest begins. */
static int scan_previous(struct once__recovery *recovery, bool proved, bool *ret_whole)
{
    const struct once__seen *newest = &recovery->seen[recovery->seen_count - 1];
    const struct once__seen *before = newest - 1;
    struct once__scan scan;
    int err;

    if (recovery->end.batch_count > 0 &&
        recovery->end.last.durable + 1 >= newest->header.first_batch)
        proved = true;
    err = once__recovery_scan(recovery, before, proved ? newest->header.previous_end : 0,
                              recovery->end.last.durable, &recovery->previous, &scan);
    if (err != ONCE_OK)
        return err;
    recovery->has_previous = true;
    if (scan.end > newest->header.previous_end)
        return once__recovery_damaged(recovery, newest, 0,
                                      "it does not begin where the one before ends");
    *ret_whole = scan.end == newest->header.previous_end && scan.chain == newest->header.chain;
    if (!*ret_whole)
        recovery->end = scan;
    if (!*ret_whole || recovery->end.batch_count == 0)
        recovery->last = scan.last;
    return ONCE_OK;
}

/* The newest segment and the one before it may have lost their ends. If the one before has, then
 * the newest is not part of the log; and if nothing is left of the one before, the one before that
 * tells the rest, and is whole, because it was durable when the newest was begun. */
static int find_end(struct once__recovery *recovery)
{
    bool proved = false, whole = false;
    int err = once__recovery_scan(recovery, &recovery->seen[recovery->seen_count - 1], 0, 0,
                                  &recovery->tail, &recovery->end);

    if (err != ONCE_OK)
        return err;
    recovery->last = recovery->end.last;
    while (!whole && recovery->seen_count >= 2) {
        const struct once__seen *newest = &recovery->seen[recovery->seen_count - 1];
        const struct once__seen *before = newest - 1;

        if (before->header.sequence + 1 != newest->header.sequence)
            break;
        if (recovery->last.oldest > before->header.sequence)
            break; /* retired: its file may hold the beginning of another segment already */
        err = scan_previous(recovery, proved, &whole);
        if (err == ONCE_OK && !whole)
            err = discard_newest(recovery);
        if (err != ONCE_OK)
            return err;
        if (!whole && recovery->end.batch_count > 0)
            break;
        proved = true;
    }
    return ONCE_OK;
}

/* Does the spare in this slot have a batch of the segment after the newest that proves that the
 * header of that segment was durable? */
static int has_proof(struct once__recovery *recovery, uint32_t slot, uint64_t sequence,
                     bool *ret_proof)
{
    struct once__engine *engine = recovery->engine;
    uint64_t salt = once__segment_salt(engine->file.secret, sequence);

    *ret_proof = false;
    for (uint32_t at = ONCE__SEGMENT_HEADER_SIZE; at < engine->segment_size;
         at += ONCE_BLOCK_SIZE) {
        uint8_t bytes[ONCE__BATCH_HEADER_SIZE];
        struct once__batch_header batch;
        struct once_defect defect;
        uint64_t check;
        size_t size;
        bool good;
        int err = once__segment_read(engine, slot, at, bytes, sizeof(bytes), &size);

        if (err != ONCE_OK)
            return err;
        good = size == sizeof(bytes) &&
               once__batch_header_decode((struct once_bytes){bytes, size}, salt, &batch, &check,
                                         &defect) == ONCE_OK &&
               batch.sequence == sequence;
        if (!good && at == ONCE__SEGMENT_HEADER_SIZE)
            return ONCE_OK; /* as nearly always */
        if (good && batch.durable >= recovery->end.next_batch) {
            *ret_proof = true;
            return ONCE_OK;
        }
    }
    return ONCE_OK;
}

/* A segment after the newest that has lost its header would look like a spare. */
static int find_lost_header(struct once__recovery *recovery)
{
    struct once__engine *engine = recovery->engine;
    struct once__seen lost = {
        .header = {.sequence = recovery->seen[recovery->seen_count - 1].header.sequence + 1}};
    int err = ONCE_OK;

    for (uint32_t slot = 0; err == ONCE_OK && slot < engine->segment_count; slot++) {
        bool proof;

        if (engine->segments[slot]->state != ONCE__SEGMENT_SPARE)
            continue;
        lost.slot = slot;
        err = has_proof(recovery, slot, lost.header.sequence, &proof);
        if (err == ONCE_OK && proof)
            return once__recovery_damaged(recovery, &lost, 0,
                                          "the header is gone, but its batches are there");
        once__segment_forget_reader(engine, slot);
    }
    return err;
}

/* ---- What is not known to be durable --------------------------------------------------------- */

/* Where in the image of a segment the first batch behind the proved ones begins; end if there is
 * none, 0 if the segment's header is not proved either. */
static uint32_t first_unproved(const uint8_t *image, const struct once__segment_header *header,
                               uint32_t end, uint64_t proved)
{
    uint32_t at = ONCE__SEGMENT_HEADER_SIZE;

    if (header->first_batch > proved)
        return 0;
    while (at < end) {
        struct once_bytes bytes = {image + at, end - at};
        struct once__batch_header batch;
        struct once_defect defect;
        uint64_t check;

        if (once__batch_header_decode(bytes, header->salt, &batch, &check, &defect) != ONCE_OK ||
            batch.number > proved)
            break;
        at += once__batch_disk_size(batch.size);
    }
    return at < end ? at : end;
}

/* Writes the unproved end of a segment again, from the bytes that were believed: the same bytes to
 * the same places, so a power cut in between does no harm. */
static int prove(struct once__recovery *recovery, const struct once__seen *seen, uint32_t end)
{
    struct once__engine *engine = recovery->engine;
    uint8_t *image = engine->log.images[seen->header.sequence & 1];
    struct once__file *file;
    char name[ONCE__NAME_SIZE];
    size_t size;
    int err;

    once__segment_name(seen->slot, name);
    err = engine->vfs->ops->open(engine->vfs, name, ONCE__OPEN_WRITE | ONCE__OPEN_DURABLE, &file);
    if (err != ONCE_OK)
        return err;
    err = once__file_read(file, 0, image, end, &size);
    if (err == ONCE_OK && size < end)
        err = once__recovery_damaged(recovery, seen, size, "the file ends here");
    if (err == ONCE_OK && end == ONCE__SEGMENT_HEADER_SIZE) { /* its first batch is ours */
        struct once__segment_header header = seen->header;

        header.life = engine->log.life;
        once__segment_header_encode(&header, image);
    }
    if (err == ONCE_OK) {
        uint32_t at = first_unproved(image, &seen->header, end, recovery->last.durable);

        while (err == ONCE_OK && at < end) {
            uint32_t piece = end - at < ONCE_BATCH_SIZE_MAX ? end - at : ONCE_BATCH_SIZE_MAX;

            err = once__file_write(file, at, image + at, piece);
            at += piece;
        }
    }
    once__file_close(file);
    return err;
}

/* Before a segment is begun the one before the last is durable: only the last two can be unproved.
 * The newest one's image stays. */
static int prove_tail(struct once__recovery *recovery)
{
    const struct once__seen *newest = &recovery->seen[recovery->seen_count - 1];
    int err = ONCE_OK;

    if (recovery->has_previous && recovery->last.durable + 1 < newest->header.first_batch)
        err = prove(recovery, newest - 1, newest->header.previous_end);
    return err == ONCE_OK ? prove(recovery, newest, recovery->end.end) : err;
}

/* ---- All together ---------------------------------------------------------------------------- */

static void start_log(struct once__recovery *recovery)
{
    struct once__engine *engine = recovery->engine;
    const struct once__seen *newest = &recovery->seen[recovery->seen_count - 1];
    const struct once__scan *end = &recovery->end;
    struct once__log *log = &engine->log;

    log->active = newest->slot;
    log->sequence = newest->header.sequence;
    log->salt = newest->header.salt;
    log->batch_offset = end->end;
    log->append_offset = end->end + ONCE__BATCH_HEADER_SIZE;
    log->next_number = end->next_batch;
    log->chain = end->chain;
    log->durable_number = log->proved_number = end->next_batch - 1;
    log->durable = once__position(engine, log->sequence, end->end);
    log->durable_ms = recovery->last.now_ms;
    log->last_fence = ONCE__MUTANT(FENCE_FORGOTTEN) ? 0 : recovery->last.last_fence;
}

static void release(struct once__recovery *recovery)
{
    for (uint64_t i = 0; recovery->killed && i < recovery->killed_count; i++)
        free(recovery->killed[i].offsets);
    free(recovery->killed);
    free(recovery->bits);
    free(recovery->slots);
    free(recovery->seen);
    once__summary_free(recovery->tail);
    once__summary_free(recovery->previous);
}

/* Memory for the log's images. The system gives pages when they are first written. */
static int make_images(struct once__engine *engine)
{
    for (int i = 0; i < 2; i++) {
        engine->log.images[i] = aligned_alloc(ONCE_BLOCK_SIZE, engine->segment_size);
        if (!engine->log.images[i])
            return ONCE_ERR_MEMORY;
    }
    return ONCE_OK;
}

static int make_again(struct once__recovery *recovery)
{
    int err = once__recovery_make_again(recovery);

    once__summary_free(recovery->tail);
    recovery->tail = NULL;
    return err == ONCE_OK ? find_end(recovery) : err;
}

int once__recover(struct once__engine *engine, struct once_message *ret_message)
{
    struct once__recovery recovery = {.engine = engine, .message = ret_message};
    int err = once__random_bytes(&engine->log.life, sizeof(engine->log.life));

    if (err == ONCE_OK)
        err = once__recovery_open(&recovery);
    engine->reserve_largest = 2 * ONCE_BLOCK_SIZE;
    if (err == ONCE_OK)
        err = make_images(engine);
    if (err == ONCE_OK)
        err = find_end(&recovery);
    if (err == ONCE_OK)
        err = find_lost_header(&recovery);
    if (err == ONCE_OK && !recovery.made && recovery.last.number == 0 && recovery.seen_count == 1 &&
        recovery.seen[0].header.sequence == 1)
        err = make_again(&recovery);
    if (err == ONCE_OK)
        err = prove_tail(&recovery);
    if (err == ONCE_OK)
        err = once__recovery_load(&recovery);
    if (err == ONCE_OK)
        err = once__recovery_drop_twins(&recovery);
    if (err == ONCE_OK)
        err = once__recovery_objects(&recovery);
    if (err == ONCE_OK)
        err = once__recovery_renew_spares(&recovery);
    if (err == ONCE_OK) {
        start_log(&recovery);
        err = once__clock_start(&engine->clock, engine->clock.source,
                                ONCE__MUTANT(TIME_FORGOTTEN) ? 0 : recovery.last.now_ms);
    }
    release(&recovery);
    return err;
}
