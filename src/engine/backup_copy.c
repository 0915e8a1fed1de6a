/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies a store that is in use, without its lock and without its owner's help.
 *
 * Segments are copied in the order of the log, the one that is written to last. Meanwhile the owner
 * goes on: it writes batches, begins segments, and uses the files of expired ones again. Nothing of
 * that can spoil the copy unseen:
 *   - A file that was used again has another header when it is read a second time.
 *   - Every batch has its check, its segment's salt and its place in the chain, so what was copied
 *     half written is seen when the copy is read.
 *   - The last batch of the copy says which segment is the oldest that is needed. A segment that
 *     expired before it could be copied is older than that.
 * What does not fit is copied again. What was told to anyone before the copy began was durable by
 * then, and batches that are durable are there when their segment is read: it is in the copy.
 *
 * The snapshot of objects goes before the log, and both are copied until they fit:
 * backup_objects.c.
 *
 * Slots are given anew, because two segments of the copy may have lain in one file of the source.
 * Sidecars are not copied: the engine makes them again.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/backup_inner.h"
#include "engine/check.h"
#include "engine/inner.h"
#include "engine/scan.h"

enum { ROUNDS_MAX = 16, DAMAGED_ROUNDS = 3, CHUNK_SIZE = 1 << 20 };

/* A segment of the source, or its copy. */
struct piece {
    uint32_t slot;
    bool sure; /* of a copy: it is whole, and the next one follows it */
    struct once__segment_header header;
    struct once__scan scan; /* of a copy */
    /* Of a copy: the first and last change of objects in it, or 0; was something given up? */
    uint64_t first_change, last_change;
    bool gaps;
};
struct pieces {
    struct piece *items;
    size_t count, capacity;
};

struct backup {
    struct once__vfs *from, *to;
    struct once__store_file file;
    uint8_t store_bytes[ONCE__STORE_FILE_SIZE];
    struct pieces found;  /* in the source now, by sequence */
    struct pieces copies; /* by sequence */
    uint32_t next_slot;
    uint8_t *chunk; /* CHUNK_SIZE, aligned */
    uint8_t *block; /* two blocks, aligned */
    uint64_t done, all;
    void (*progress)(void *user, uint64_t done, uint64_t all);
    void *user;
    struct once_message *message;
    /* Where the copy was damaged in the last rounds: the same place again and again is damage. */
    uint64_t bad_sequence;
    uint32_t bad_offset;
    unsigned bad_rounds;
    /* A file of this round whose header cannot be right. An owner writes a header in one sector,
     * into a file of full size: it is damage, unless it is gone in the next round. */
    bool header_bad;
    uint32_t header_slot;
    const char *header_what;
    struct once__backup_snapshot snapshot;
};

static int by_sequence(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;

    return (x->header.sequence > y->header.sequence) - (x->header.sequence < y->header.sequence);
}

static int add_piece(struct pieces *pieces, const struct piece *piece)
{
    if (pieces->count == pieces->capacity) {
        size_t capacity = pieces->capacity > 0 ? 2 * pieces->capacity : 64;
        struct piece *items = reallocarray(pieces->items, capacity, sizeof(*items));

        if (!items)
            return ONCE_ERR_MEMORY;
        pieces->items = items;
        pieces->capacity = capacity;
    }
    pieces->items[pieces->count++] = *piece;
    return ONCE_OK;
}

static struct piece *find_piece(const struct pieces *pieces, uint64_t sequence)
{
    struct piece key = {.header = {.sequence = sequence}};

    return pieces->count > 0
               ? bsearch(&key, pieces->items, pieces->count, sizeof(*pieces->items), by_sequence)
               : NULL;
}

/* ---- The source ------------------------------------------------------------------------------ */

static int read_store_file(struct backup *backup)
{
    struct once_defect defect = {0};
    struct once__file *file = NULL;
    size_t got = 0;
    int err = backup->from->ops->open(backup->from, ONCE__STORE_NAME, 0, &file);

    if (err == ONCE_OK)
        err = once__file_read(file, 0, backup->store_bytes, sizeof(backup->store_bytes), &got);
    once__file_close(file);
    if (err == ONCE_ERR_NO_STORE)
        return once__message(err, backup->message, "there is no store here");
    if (err != ONCE_OK)
        return once__message(err, backup->message, "the store file cannot be read: %s",
                             once_err_text(err));
    err = once__store_file_decode((struct once_bytes){backup->store_bytes, got}, &backup->file,
                                  &defect);
    if (err != ONCE_OK)
        return once__message(err, backup->message, "%s, offset %zu: %s", ONCE__STORE_NAME,
                             defect.offset, defect.what);
    return ONCE_OK;
}

static int read_header(struct backup *backup, struct once__file *file, uint8_t *block,
                       struct once__segment_header *ret_header)
{
    struct once_defect defect;
    size_t got = 0;
    int err = once__file_read(file, 0, block, ONCE_BLOCK_SIZE, &got);

    if (err != ONCE_OK)
        return err;
    memset(block + got, 0, ONCE_BLOCK_SIZE - got);
    err = once__segment_header_decode((struct once_bytes){block, got}, ret_header, &defect);
    if (err == ONCE_OK &&
        memcmp(ret_header->store_id, backup->file.id, sizeof(backup->file.id)) != 0)
        return ONCE_ERR_NO_STORE;
    return err;
}

static int open_source(const struct backup *backup, uint32_t slot, struct once__file **ret_file)
{
    char name[ONCE__NAME_SIZE];

    once__segment_name(slot, name);
    return backup->from->ops->open(backup->from, name, ONCE__OPEN_DIRECT, ret_file);
}

/* Notes a file that is damaged as such: it may be the newest segment, which nothing else names. */
static void look_for_damage(struct backup *backup, struct once__file *file, uint32_t slot, int err)
{
    uint64_t size = 0;
    bool is_short = err == ONCE_OK && once__file_size(file, &size) == ONCE_OK &&
                    size < backup->file.segment_size;

    if (err != ONCE_ERR_DAMAGED && !is_short)
        return;
    backup->header_bad = true;
    backup->header_slot = slot;
    backup->header_what = is_short ? "the file is shorter than a segment"
                                   : "the segment's header is damaged";
}

/* A file may go, or be used again, between the list and the look: it is no segment then. */
static int find_file(void *user, const char *name)
{
    struct backup *backup = user;
    struct piece piece = {0};
    struct once__file *file = NULL;
    bool is_segment;
    int err;

    if (!once__name_slot(name, &is_segment, &piece.slot) || !is_segment)
        return ONCE_OK;
    err = open_source(backup, piece.slot, &file);
    if (err == ONCE_OK)
        err = read_header(backup, file, backup->block, &piece.header);
    look_for_damage(backup, file, piece.slot, err);
    once__file_close(file);
    if (err == ONCE_ERR_NO_STORE || err == ONCE_ERR_DAMAGED)
        return ONCE_OK;
    return err == ONCE_OK ? add_piece(&backup->found, &piece) : err;
}

static int find_all(struct backup *backup)
{
    int err;

    backup->found.count = 0;
    backup->header_bad = false;
    err = backup->from->ops->list(backup->from, find_file, backup);
    if (err == ONCE_OK && backup->found.count > 1)
        qsort(backup->found.items, backup->found.count, sizeof(*backup->found.items), by_sequence);
    return err;
}

/* The oldest segment that is needed now, from the newest batch that can be read; else 0. */
static int find_oldest(struct backup *backup, uint64_t *ret_oldest)
{
    for (size_t i = backup->found.count; i > 0; i--) {
        const struct piece *piece = &backup->found.items[i - 1];
        struct once__scan scan = {0};
        struct once__file *file = NULL;
        int err = open_source(backup, piece->slot, &file);

        if (err == ONCE_OK)
            err = once__scan_segment(
                &(struct once__scan_input){.file = file,
                                           .store_id = backup->file.id,
                                           .segment_size = backup->file.segment_size},
                NULL, &scan);
        once__file_close(file);
        if (err != ONCE_OK && err != ONCE_ERR_NO_STORE && err != ONCE_ERR_DAMAGED)
            return err;
        if (err == ONCE_OK && scan.batch_count > 0) {
            *ret_oldest = scan.last.oldest;
            return ONCE_OK;
        }
    }
    *ret_oldest = 0;
    return ONCE_OK;
}

/* ---- Copying --------------------------------------------------------------------------------- */

static void tell_progress(struct backup *backup, uint64_t size)
{
    backup->done += size;
    if (backup->all < backup->done)
        backup->all = backup->done;
    if (backup->progress)
        backup->progress(backup->user, backup->done, backup->all);
}

static int copy_bytes(struct backup *backup, struct once__file *from, struct once__file *to,
                      uint32_t end)
{
    int err = ONCE_OK;

    ONCE_ASSERT(end % ONCE_BLOCK_SIZE == 0);
    for (uint32_t at = 0; err == ONCE_OK && at < end; at += CHUNK_SIZE) {
        size_t size = end - at < CHUNK_SIZE ? end - at : (size_t)CHUNK_SIZE, got = 0;

        err = once__file_read(from, at, backup->chunk, size, &got);
        if (err == ONCE_OK)
            memset(backup->chunk + got, 0, size - got);
        if (err == ONCE_OK)
            err = once__file_write(to, at, backup->chunk, size);
        tell_progress(backup, size);
    }
    return err;
}

static int note_batch(void *user, const struct once__scan_batch *batch)
{
    struct piece *copy = user;

    copy->gaps = copy->gaps || batch->header.flags & ONCE__BATCH_GIVEN_UP;
    return ONCE_OK;
}

static int note_record(void *user, uint32_t offset, uint32_t size,
                       const struct once__log_record *rec)
{
    struct piece *copy = user;

    (void)offset;
    (void)size;
    if (rec->change == 0)
        return ONCE_OK;
    copy->first_change = copy->first_change > 0 ? copy->first_change : rec->change;
    copy->last_change = rec->change;
    return ONCE_OK;
}

/* Reads the copy, and cuts it behind its last good batch. */
static int read_copy(struct backup *backup, struct once__file *file, uint32_t known_end,
                     struct piece *copy)
{
    struct once__scan_visitor visitor = {.batch = note_batch, .record = note_record, .user = copy};
    int err = once__scan_segment(
        &(struct once__scan_input){.file = file,
                                   .store_id = backup->file.id,
                                   .segment_size = backup->file.segment_size,
                                   .known_end = known_end},
        &visitor, &copy->scan);

    if (err == ONCE_OK && copy->scan.ended == ONCE__SCAN_TORN) {
        err = once__file_truncate(file, copy->scan.end);
        if (err == ONCE_OK)
            err = once__file_allocate(file, backup->file.segment_size);
    }
    return err;
}

/* Copies one segment. *ret_same is false when its file was used for another one meanwhile. */
static int copy_segment(struct backup *backup, const struct piece *piece, uint32_t known_end,
                        struct piece *copy, bool *ret_same)
{
    uint8_t *before = backup->block, *after = backup->block + ONCE_BLOCK_SIZE;
    struct once__segment_header header;
    struct once__file *from = NULL, *to = NULL;
    char name[ONCE__NAME_SIZE];
    int err = open_source(backup, piece->slot, &from);

    *ret_same = false;
    if (err == ONCE_OK)
        err = read_header(backup, from, before, &header);
    if (err == ONCE_ERR_NO_STORE || err == ONCE_ERR_DAMAGED ||
        (err == ONCE_OK && header.sequence != piece->header.sequence)) {
        once__file_close(from);
        return ONCE_OK;
    }
    once__segment_name(copy->slot, name);
    if (err == ONCE_OK)
        err = backup->to->ops->open(backup->to, name,
                                    ONCE__OPEN_CREATE | ONCE__OPEN_WRITE | ONCE__OPEN_DIRECT, &to);
    if (err == ONCE_OK)
        err = once__file_truncate(to, 0);
    if (err == ONCE_OK)
        err = once__file_allocate(to, backup->file.segment_size);
    if (err == ONCE_OK)
        err = copy_bytes(backup, from, to, known_end ? known_end : backup->file.segment_size);
    if (err == ONCE_OK)
        err = read_header(backup, from, after, &header);
    if (err == ONCE_OK)
        *ret_same = memcmp(before, after, ONCE_BLOCK_SIZE) == 0;
    else if (err == ONCE_ERR_NO_STORE || err == ONCE_ERR_DAMAGED)
        err = ONCE_OK;
    if (err == ONCE_OK && *ret_same) {
        copy->header = piece->header;
        err = read_copy(backup, to, known_end, copy);
    }
    once__file_close(from);
    once__file_close(to);
    return err;
}

/* Copies everything that is needed and not surely copied yet. */
static int copy_all(struct backup *backup)
{
    uint64_t oldest = 0;
    int err = find_all(backup);

    if (err == ONCE_OK)
        err = find_oldest(backup, &oldest);
    backup->done = 0;
    backup->all = 0;
    for (size_t i = 0; i < backup->found.count; i++)
        backup->all += backup->found.items[i].header.sequence >= oldest ? backup->file.segment_size
                                                                        : 0;
    for (size_t i = 0; err == ONCE_OK && i < backup->found.count; i++) {
        const struct piece *piece = &backup->found.items[i];
        const struct piece *next = i + 1 < backup->found.count ? piece + 1 : NULL;
        struct piece *old = find_piece(&backup->copies, piece->header.sequence);
        struct piece copy = {.slot = old ? old->slot : backup->next_slot};
        bool last_two = i + 2 >= backup->found.count;
        uint32_t known_end = !last_two && next->header.sequence == piece->header.sequence + 1
                                 ? next->header.previous_end
                                 : 0;
        bool same = false;

        if (piece->header.sequence < oldest || (old && old->sure))
            continue;
        err = copy_segment(backup, piece, known_end, &copy, &same);
        if (err != ONCE_OK || !same)
            continue;
        if (old) {
            *old = copy;
            continue;
        }
        backup->next_slot++;
        err = add_piece(&backup->copies, &copy);
        qsort(backup->copies.items, backup->copies.count, sizeof(copy), by_sequence);
    }
    return err;
}

/* ---- Judging the copy ------------------------------------------------------------------------ */

static bool follows(const struct piece *next, const struct piece *piece)
{
    return next->header.first_batch == piece->scan.next_batch &&
           next->header.chain == piece->scan.chain && next->header.previous_end == piece->scan.end;
}

static int drop(struct backup *backup, size_t index)
{
    char name[ONCE__NAME_SIZE];

    once__segment_name(backup->copies.items[index].slot, name);
    backup->copies.count--;
    memmove(backup->copies.items + index, backup->copies.items + index + 1,
            (backup->copies.count - index) * sizeof(*backup->copies.items));
    return backup->to->ops->remove(backup->to, name);
}

/* The same bad batch in round after round is damage of the source, not a batch under way. */
static bool is_damage(struct backup *backup, const struct piece *piece)
{
    uint32_t offset = piece->scan.bad_offset;

    if (backup->bad_sequence != piece->header.sequence || backup->bad_offset != offset) {
        backup->bad_sequence = piece->header.sequence;
        backup->bad_offset = offset;
        backup->bad_rounds = 0;
    }
    return ++backup->bad_rounds >= DAMAGED_ROUNDS;
}

static int refuse_damage(struct backup *backup, const struct piece *piece)
{
    return once__message(ONCE_ERR_DAMAGED, backup->message,
                         "segment %" PRIu64 " is damaged at offset %" PRIu32
                         ": %s; `once check` says more",
                         piece->header.sequence, piece->scan.bad_offset, piece->scan.defect.what);
}

/* The newest segment was begun before the end of the one before was written. Nothing says that the
 * missing end is durable, so nobody was told of anything behind it: the copy ends there. */
static int drop_begun(struct backup *backup)
{
    size_t count = backup->copies.count;
    const struct piece *newest = &backup->copies.items[count - 1], *before = newest - 1;

    if (count < 2 || before->header.sequence + 1 != newest->header.sequence ||
        before->scan.ended == ONCE__SCAN_DAMAGED ||
        before->scan.next_batch >= newest->header.first_batch ||
        newest->scan.last.durable >= before->scan.next_batch)
        return ONCE_OK;
    return drop(backup, count - 1);
}

/* Is the copy a store? *ret_whole says so; else another round is needed. */
static int judge(struct backup *backup, bool *ret_whole)
{
    struct pieces *copies = &backup->copies;
    uint64_t oldest = 1;
    int err = copies->count > 0 ? drop_begun(backup) : ONCE_OK;

    *ret_whole = false;
    if (err != ONCE_OK || copies->count == 0)
        return err;
    for (size_t i = copies->count; i > 0; i--) {
        if (copies->items[i - 1].scan.batch_count > 0) {
            oldest = copies->items[i - 1].scan.last.oldest;
            break;
        }
    }
    while (err == ONCE_OK && copies->items[0].header.sequence < oldest)
        err = drop(backup, 0);
    if (err != ONCE_OK)
        return err;
    *ret_whole = copies->items[0].header.sequence == oldest;
    for (size_t i = 0; i < copies->count; i++) {
        struct piece *piece = &copies->items[i];
        bool last = i + 1 == copies->count;

        piece->sure = !last && follows(piece + 1, piece) &&
                      piece[1].header.sequence == piece->header.sequence + 1;
        *ret_whole = *ret_whole && (piece->sure || last) && piece->scan.ended != ONCE__SCAN_DAMAGED;
        if (piece->scan.ended == ONCE__SCAN_DAMAGED && !piece->sure && is_damage(backup, piece))
            return refuse_damage(backup, piece);
    }
    return ONCE_OK;
}

static void tell_copied(void *user, uint64_t size)
{
    tell_progress(user, size);
}

static int copy_snapshot(struct backup *backup)
{
    return once__backup_snapshot(backup->from, backup->to, backup->file.id, tell_copied, backup,
                                 &backup->snapshot, backup->message);
}

/* Does the whole copy of the log go with the copy of the snapshot? */
static int judge_snapshot(struct backup *backup, bool *ret_fits)
{
    uint64_t from = once__backup_snapshot_from(&backup->snapshot);
    struct once__backup_log log = {.oldest = backup->copies.items[0].header.sequence};

    for (size_t i = 0; i < backup->copies.count; i++) {
        const struct piece *piece = &backup->copies.items[i];

        log.gaps = log.gaps || piece->gaps;
        if (piece->scan.batch_count > 0)
            log.told_objects = (piece->scan.last.flags & ONCE__BATCH_OBJECTS) != 0;
        if (piece->header.sequence < from || piece->first_change == 0)
            continue;
        log.first = log.first > 0 ? log.first : piece->first_change;
        log.last = piece->last_change;
    }
    return once__backup_snapshot_fits(backup->from, &backup->snapshot, &log, ret_fits,
                                      backup->message);
}

/* All at the end: a sync for each in between would make the copy slower than a busy store. */
static int sync_copies(struct backup *backup)
{
    int err = ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < backup->copies.count; i++) {
        struct once__file *file = NULL;
        char name[ONCE__NAME_SIZE];

        once__segment_name(backup->copies.items[i].slot, name);
        err = backup->to->ops->open(backup->to, name, ONCE__OPEN_WRITE | ONCE__OPEN_DIRECT, &file);
        if (err == ONCE_OK)
            err = once__file_sync(file);
        once__file_close(file);
    }
    return err;
}

static int write_store_file(struct backup *backup)
{
    struct once__file *file = NULL;
    int err = backup->to->ops->open(backup->to, ONCE__STORE_NAME,
                                    ONCE__OPEN_CREATE | ONCE__OPEN_WRITE, &file);

    if (err == ONCE_OK)
        err = once__file_write(file, 0, backup->store_bytes, sizeof(backup->store_bytes));
    if (err == ONCE_OK)
        err = once__file_sync(file);
    once__file_close(file);
    return err == ONCE_OK ? backup->to->ops->sync_folder(backup->to) : err;
}

static int run(struct backup *backup)
{
    bool whole = false, again = true;
    int err = read_store_file(backup);

    if (err != ONCE_OK)
        return err;
    for (unsigned round = 0; err == ONCE_OK && !whole && round < ROUNDS_MAX; round++) {
        if (again)
            err = copy_snapshot(backup);
        if (err == ONCE_ERR_DAMAGED)
            return err; /* told already */
        if (err == ONCE_OK)
            err = copy_all(backup);
        if (err != ONCE_OK)
            break;
        err = judge(backup, &whole);
        again = false;
        if (err == ONCE_OK && whole) {
            err = judge_snapshot(backup, &whole);
            again = !whole;
        }
        if (err == ONCE_ERR_DAMAGED)
            return err; /* told already */
        whole = whole && !backup->header_bad;
        whole = whole || (backup->found.count == 0 && backup->copies.count == 0);
    }
    if (err == ONCE_OK && !whole && backup->header_bad)
        return once__message(ONCE_ERR_DAMAGED, backup->message,
                             "%06" PRIx32 ".seg is damaged at offset 0: %s; `once check` says more",
                             backup->header_slot, backup->header_what);
    if (err == ONCE_OK && !whole)
        return once__message(ONCE_ERR_IO, backup->message,
                             "no whole copy came about in %d rounds: a segment is missing "
                             "(`once check` says more), or the store changes faster than it can "
                             "be copied to that disk",
                             (int)ROUNDS_MAX);
    if (err == ONCE_OK)
        err = sync_copies(backup);
    if (err == ONCE_OK)
        err = once__backup_snapshot_sync(backup->to, &backup->snapshot);
    if (err == ONCE_OK)
        err = write_store_file(backup);
    if (err != ONCE_OK)
        return once__message(err, backup->message, "the copy failed: %s (system error %d, %d)",
                             once_err_text(err), backup->from->system_errno,
                             backup->to->system_errno);
    return ONCE_OK;
}

int once__backup(struct once__vfs *from, struct once__vfs *to,
                 void (*progress)(void *user, uint64_t done, uint64_t all), void *user,
                 struct once_message *ret_message)
{
    struct backup backup = {
        .from = from, .to = to, .progress = progress, .user = user, .message = ret_message};
    int err = ONCE_ERR_MEMORY;

    backup.chunk = aligned_alloc(ONCE_BLOCK_SIZE, CHUNK_SIZE);
    backup.block = aligned_alloc(ONCE_BLOCK_SIZE, (size_t)2 * ONCE_BLOCK_SIZE);
    if (backup.chunk && backup.block)
        err = run(&backup);
    else
        err = once__message(err, ret_message, "out of memory");
    free(backup.chunk);
    free(backup.block);
    free(backup.found.items);
    free(backup.copies.items);
    return err;
}
