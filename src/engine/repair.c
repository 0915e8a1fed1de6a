/* SPDX-License-Identifier: Apache-2.0
 *
 * Does what the findings of a check say.
 *
 * The order makes it safe to be cut off anywhere:
 *   1. Sidecars that do not fit go first: a sidecar must never speak of what was given up. When
 *      anything is given up all of them go, because an operation whose newest record is lost goes
 *      back to its record before, which a sidecar may have left out as dead.
 *   2. The store file is written beside the old one and renamed.
 *   3. A damaged segment's file is copied whole to FILE.damaged before anything in it changes; then
 *      its blocks are written in ascending order, each durable before the next. Until the last is
 *      there a new check finds what is left.
 *   4. A missing segment is written beside and gets its name when it is whole.
 *   5. So is a snapshot of objects, after the old one was copied to objects.damaged.
 * Each step leaves a store that is as good as before, or better.
 */
#include "engine/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/check_inner.h"
#include "engine/inner.h"
#include "engine/snapshot_scan.h"

#define TEMPORARY_NAME "repair.new"

enum { KEPT_NAME_SIZE = 40, KEPT_MAX = 1000, STEP_SIZE = 256 };

struct repair {
    struct once__check *check;
    struct once__vfs *vfs;
    uint8_t *chunk; /* ONCE__CHECK_CHUNK_SIZE, aligned */
    void (*step)(void *user, const char *text);
    void *user;
};

__attribute__((format(printf, 2, 3))) static void tell(const struct repair *repair,
                                                       const char *format, ...)
{
    char text[STEP_SIZE];
    va_list args;

    if (!repair->step)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    repair->step(repair->user, text);
}

/* ---- Sidecars -------------------------------------------------------------------------------- */

/* Must all sidecars go? */
static bool gives_up(const struct once__check *check)
{
    if (check->store_bad)
        return true;
    for (size_t i = 0; i < check->log_count; i++) {
        if (check->log[i]->patch_count > 0)
            return true;
    }
    return false;
}

static int delete_sidecars(const struct repair *repair)
{
    const struct once__check *check = repair->check;
    bool all = gives_up(check), any = false;

    for (size_t i = 0; i < check->segment_count; i++) {
        const struct once__check_segment *segment = check->segments[i];
        char name[ONCE__NAME_SIZE];
        int err;

        if (!segment->has_sidecar || !(all || segment->delete_sidecar))
            continue;
        once__sidecar_name(segment->slot, name);
        err = repair->vfs->ops->remove(repair->vfs, name);
        if (err != ONCE_OK && err != ONCE_ERR_NO_STORE)
            return err;
        any = true;
        tell(repair, "%s: deleted; the engine makes it again", name);
    }
    return any ? repair->vfs->ops->sync_folder(repair->vfs) : ONCE_OK;
}

/* ---- Whole files ----------------------------------------------------------------------------- */

/* What was written under the temporary name is whole: gives it its own. */
static int give_name(const struct repair *repair, const char *name)
{
    int err = repair->vfs->ops->rename(repair->vfs, TEMPORARY_NAME, name);

    return err == ONCE_OK ? repair->vfs->ops->sync_folder(repair->vfs) : err;
}

/* What an earlier repair left unfinished under the temporary name goes. */
static int open_temporary(const struct repair *repair, unsigned flags, struct once__file **ret_file)
{
    int err = repair->vfs->ops->remove(repair->vfs, TEMPORARY_NAME);

    if (err != ONCE_OK && err != ONCE_ERR_NO_STORE)
        return err;
    return repair->vfs->ops->open(repair->vfs, TEMPORARY_NAME,
                                  flags | ONCE__OPEN_CREATE | ONCE__OPEN_WRITE, ret_file);
}

static int write_store_file(const struct repair *repair)
{
    uint8_t bytes[ONCE__STORE_FILE_SIZE];
    struct once__file *file = NULL;
    int err;

    if (!repair->check->store_bad)
        return ONCE_OK;
    once__store_file_encode(&repair->check->file, bytes);
    err = open_temporary(repair, 0, &file);
    if (err == ONCE_OK)
        err = once__file_write(file, 0, bytes, sizeof(bytes));
    if (err == ONCE_OK)
        err = once__file_sync(file);
    once__file_close(file);
    if (err == ONCE_OK)
        err = give_name(repair, ONCE__STORE_NAME);
    if (err == ONCE_OK)
        tell(repair, "%s: written again", ONCE__STORE_NAME);
    return err;
}

/* A name for what is kept of a file that no earlier repair has used. */
static int kept_name(const struct repair *repair, const char *name, char ret_name[KEPT_NAME_SIZE])
{
    char kept[KEPT_NAME_SIZE];

    for (unsigned i = 1; i < KEPT_MAX; i++) {
        struct once__file *file = NULL;
        int err;

        if (i == 1)
            snprintf(kept, sizeof(kept), "%s.damaged", name);
        else
            snprintf(kept, sizeof(kept), "%s.damaged.%u", name, i);
        err = repair->vfs->ops->open(repair->vfs, kept, 0, &file);
        once__file_close(err == ONCE_OK ? file : NULL);
        if (err == ONCE_ERR_NO_STORE) {
            memcpy(ret_name, kept, sizeof(kept));
            return ONCE_OK;
        }
        if (err != ONCE_OK)
            return err;
    }
    return ONCE_ERR_FULL;
}

/* The file may be one for direct access: reads are of whole blocks. */
static int copy_bytes(const struct repair *repair, struct once__file *from, struct once__file *to,
                      uint64_t size)
{
    int err = ONCE_OK;

    for (uint64_t at = 0; err == ONCE_OK && at < size; at += ONCE__CHECK_CHUNK_SIZE) {
        size_t part = size - at < ONCE__CHECK_CHUNK_SIZE ? (size_t)(size - at)
                                                         : (size_t)ONCE__CHECK_CHUNK_SIZE;
        size_t blocks = (part + ONCE_BLOCK_SIZE - 1) / ONCE_BLOCK_SIZE * ONCE_BLOCK_SIZE;

        err = once__check_read(from, at, repair->chunk, blocks);
        if (err == ONCE_ERR_IO) { /* a stretch that nobody can read: nothing to keep of it */
            memset(repair->chunk, 0, blocks);
            err = ONCE_OK;
        }
        if (err == ONCE_OK)
            err = once__file_write(to, at, repair->chunk, part);
    }
    return err;
}

/* Keeps the file as it was found. */
static int keep_file(const struct repair *repair, const char *name, uint64_t size)
{
    struct once__file *from = NULL, *to = NULL;
    char kept[KEPT_NAME_SIZE];
    int err = kept_name(repair, name, kept);

    if (err == ONCE_OK)
        err = repair->vfs->ops->open(repair->vfs, name, ONCE__OPEN_DIRECT, &from);
    if (err == ONCE_OK)
        err = open_temporary(repair, 0, &to);
    if (err == ONCE_OK)
        err = copy_bytes(repair, from, to, size);
    if (err == ONCE_OK)
        err = once__file_sync(to);
    once__file_close(from);
    once__file_close(to);
    if (err == ONCE_OK)
        err = give_name(repair, kept);
    if (err == ONCE_OK)
        tell(repair, "%s: kept as it was in %s", name, kept);
    return err;
}

static int keep(const struct repair *repair, const struct once__check_segment *segment)
{
    char name[ONCE__NAME_SIZE];

    once__segment_name(segment->slot, name);
    return keep_file(repair, name, segment->file_size);
}

/* ---- Segments -------------------------------------------------------------------------------- */

static int extend(const struct repair *repair, const struct once__check_segment *segment,
                  uint64_t size)
{
    struct once__file *file = NULL;
    int err = once__check_open(repair->check, segment, ONCE__OPEN_WRITE | ONCE__OPEN_DIRECT, &file);

    if (err == ONCE_OK)
        err = once__file_allocate(file, size);
    if (err == ONCE_OK)
        err = once__file_sync(file);
    once__file_close(file);
    return err;
}

/* Header first: a GIVEN_UP batch behind a damaged header would be taken for the segment's first. */
static int write_blocks(const struct repair *repair, const struct once__check_segment *segment,
                        struct once__file *file)
{
    int err = ONCE_OK;

    if (segment->rebuilt) {
        once__check_header_block(segment, repair->chunk);
        err = once__file_write(file, 0, repair->chunk, ONCE_BLOCK_SIZE);
    }
    for (size_t i = 0; err == ONCE_OK && i < segment->patch_count; i++) {
        once__check_patch_block(segment, &segment->patches[i], repair->chunk);
        err = once__file_write(file, segment->patches[i].offset, repair->chunk, ONCE_BLOCK_SIZE);
    }
    return err;
}

static int mend(const struct repair *repair, const struct once__check_segment *segment)
{
    uint64_t size = repair->check->file.segment_size;
    struct once__file *file = NULL;
    char name[ONCE__NAME_SIZE];
    int err = ONCE_OK;

    once__segment_name(segment->slot, name);
    if (segment->rebuilt || segment->patch_count > 0)
        err = keep(repair, segment);
    if (err == ONCE_OK && segment->file_size < size) {
        err = extend(repair, segment, size);
        if (err == ONCE_OK)
            tell(repair, "%s: extended to %" PRIu64 " bytes", name, size);
    }
    if (err != ONCE_OK || (!segment->rebuilt && segment->patch_count == 0))
        return err;
    err = once__check_open(repair->check, segment, ONCE__OPEN_WRITE | ONCE__OPEN_DURABLE, &file);
    if (err == ONCE_OK)
        err = write_blocks(repair, segment, file);
    once__file_close(file);
    if (err == ONCE_OK)
        tell(repair, "%s: %s%zu damaged stretches given up", name,
             segment->rebuilt ? "header written again, " : "", segment->patch_count);
    return err;
}

static int make_segment(const struct repair *repair, const struct once__check_segment *segment)
{
    struct once__file *file = NULL;
    char name[ONCE__NAME_SIZE];
    int err = open_temporary(repair, ONCE__OPEN_DIRECT, &file);

    if (err == ONCE_OK)
        err = once__file_allocate(file, repair->check->file.segment_size);
    if (err == ONCE_OK)
        err = write_blocks(repair, segment, file);
    if (err == ONCE_OK)
        err = once__file_sync(file);
    once__file_close(file);
    once__segment_name(segment->slot, name);
    if (err == ONCE_OK)
        err = give_name(repair, name);
    if (err == ONCE_OK)
        tell(repair, "%s: made in the place of segment %" PRIu64, name, segment->header.sequence);
    return err;
}

/* A file without a header is a spare. */
static int make_spare(const struct repair *repair, const struct once__check_segment *segment)
{
    struct once__file *file = NULL;
    char name[ONCE__NAME_SIZE];
    int err = keep(repair, segment);

    if (err == ONCE_OK)
        err = extend(repair, segment, repair->check->file.segment_size);
    if (err == ONCE_OK)
        err = once__check_open(repair->check, segment, ONCE__OPEN_WRITE | ONCE__OPEN_DURABLE,
                               &file);
    memset(repair->chunk, 0, ONCE_BLOCK_SIZE);
    if (err == ONCE_OK)
        err = once__file_write(file, 0, repair->chunk, ONCE_BLOCK_SIZE);
    once__file_close(file);
    once__segment_name(segment->slot, name);
    if (err == ONCE_OK)
        tell(repair, "%s: made a spare file", name);
    return err;
}

/* ---- The snapshot of objects ----------------------------------------------------------------- */

struct rewriting {
    struct once__file *file;
    struct once__snapshot_header header;
    struct once__snapshot_end end;
    uint64_t size;
};

static int write_chunk(struct rewriting *rewriting, bool is_end, struct once_bytes bytes)
{
    uint8_t head[ONCE__SNAPSHOT_CHUNK_HEADER_SIZE];
    int err;

    once__snapshot_chunk_encode(&rewriting->header, rewriting->end.chunk_count, is_end, bytes,
                                head);
    err = once__file_write(rewriting->file, rewriting->size, head, sizeof(head));
    if (err == ONCE_OK)
        err = once__file_write(rewriting->file, rewriting->size + sizeof(head), bytes.data,
                               bytes.size);
    rewriting->size += sizeof(head) + bytes.size;
    rewriting->end.chunk_count += is_end ? 0 : 1;
    return err;
}

/* A chunk of the old snapshot is kept if all its edits can be read. */
static int keep_chunk(void *user, uint64_t offset, struct once_bytes edits)
{
    size_t at = 0;

    (void)offset;
    while (at < edits.size) {
        struct once_defect defect;
        struct once__edit edit;
        int err = once__edit_decode(edits, &at, &edit, &defect);

        if (err != ONCE_OK)
            return err == ONCE_ERR_DAMAGED ? ONCE_OK : err;
    }
    return write_chunk(user, false, edits);
}

static int keep_chunks(const struct repair *repair, struct rewriting *rewriting)
{
    struct once__snapshot_visitor visitor = {.chunk = keep_chunk, .user = rewriting};
    struct once__snapshot_scan scan;
    struct once__file *from = NULL;
    int err;

    if (!repair->check->has_snapshot)
        return ONCE_OK;
    err = repair->vfs->ops->open(repair->vfs, ONCE__OBJECTS_NAME, 0, &from);
    if (err == ONCE_OK)
        err = once__snapshot_scan(from, repair->check->file.id, &visitor, &scan);
    once__file_close(from);
    return err;
}

static int rewrite(const struct repair *repair, struct rewriting *rewriting)
{
    uint8_t head[ONCE__SNAPSHOT_HEADER_SIZE], end[ONCE__SNAPSHOT_END_SIZE];
    int err = open_temporary(repair, 0, &rewriting->file);

    if (err != ONCE_OK)
        return err;
    once__snapshot_header_encode(&rewriting->header, head);
    err = once__file_write(rewriting->file, 0, head, sizeof(head));
    rewriting->size = sizeof(head);
    if (err == ONCE_OK)
        err = keep_chunks(repair, rewriting);
    if (err == ONCE_OK) {
        once__snapshot_end_encode(&rewriting->end, end);
        err = write_chunk(rewriting, true, (struct once_bytes){end, sizeof(end)});
    }
    if (err == ONCE_OK)
        err = once__file_sync(rewriting->file);
    once__file_close(rewriting->file);
    return err;
}

/* Replayed from the oldest segment, it gets from the log what can be had. Changes go on behind all
 * that is known to have been. */
static int write_snapshot(const struct repair *repair)
{
    const struct once__check *check = repair->check;
    struct rewriting rewriting = {
        .header = {.from = check->summary.oldest > 0 ? check->summary.oldest : 1,
                   .change = check->first_change > 0 ? check->first_change - 1
                                                     : check->summary.last_change,
                   .created_ms = check->summary.now_ms,
                   .flags = ONCE__SNAPSHOT_REPAIRED},
        .end = {.object_count = check->summary.objects, .change = check->summary.last_change}};
    int err = ONCE_OK;

    if (!check->new_snapshot)
        return ONCE_OK;
    memcpy(rewriting.header.store_id, check->file.id, ONCE__STORE_ID_SIZE);
    if (check->has_snapshot)
        err = keep_file(repair, ONCE__OBJECTS_NAME, check->snapshot.size);
    if (err == ONCE_OK)
        err = rewrite(repair, &rewriting);
    if (err == ONCE_OK)
        err = give_name(repair, ONCE__OBJECTS_NAME);
    if (err == ONCE_OK)
        tell(repair, "%s: written again with %" PRIu64 " of its chunks", ONCE__OBJECTS_NAME,
             rewriting.end.chunk_count);
    return err;
}

static int run(struct repair *repair)
{
    const struct once__check *check = repair->check;
    int err = delete_sidecars(repair);

    if (err == ONCE_OK)
        err = write_store_file(repair);
    for (size_t i = check->log_count; err == ONCE_OK && i-- > 0;) {
        if (check->log[i]->present)
            err = mend(repair, check->log[i]);
        else
            err = make_segment(repair, check->log[i]);
    }
    for (size_t i = 0; err == ONCE_OK && i < check->segment_count; i++) {
        if (check->segments[i]->stray)
            err = make_spare(repair, check->segments[i]);
    }
    return err == ONCE_OK ? write_snapshot(repair) : err;
}

int once__check_repair(struct once__check *check, void (*step)(void *user, const char *text),
                       void *user, struct once_message *ret_message)
{
    struct repair repair = {.check = check, .vfs = check->vfs, .step = step, .user = user};
    int err;

    if (check->summary.repairs == 0)
        return ONCE_OK;
    ONCE_ASSERT(once__segment_size_ok(check->file.segment_size));
    repair.chunk = aligned_alloc(ONCE_BLOCK_SIZE, ONCE__CHECK_CHUNK_SIZE);
    err = repair.chunk ? run(&repair) : ONCE_ERR_MEMORY;
    free(repair.chunk);
    if (err != ONCE_OK)
        return once__message(err, ret_message,
                             "the repair stopped: %s (system error %d); what was done so far is "
                             "safe, run it again",
                             once_err_text(err), check->vfs->system_errno);
    return ONCE_OK;
}
