/* SPDX-License-Identifier: Apache-2.0
 *
 * One segment of a check: walks its batches, plans a GIVEN_UP batch over every damaged stretch and
 * walks again, until the walk comes through.
 *
 * Reads go through the patches (struct patched), so a later walk sees what a repair will write.
 * Nothing is written here.
 */
#include "engine/check_inner.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* ---- The segment as a repair will leave it --------------------------------------------------- */

struct patched {
    struct once__file file;   /* first */
    struct once__file *inner; /* NULL: there is no file yet */
    const struct once__check_segment *segment;
};

void once__check_header_block(const struct once__check_segment *segment, uint8_t *ret_block)
{
    once__segment_header_encode(&segment->header, ret_block);
}

void once__check_patch_block(const struct once__check_segment *segment,
                             const struct once__patch *patch, uint8_t *ret_block)
{
    memset(ret_block, 0, ONCE_BLOCK_SIZE);
    (void)once__batch_header_encode(&patch->batch, segment->header.salt, ret_block);
}

/* A sector that the disk cannot give is damage, not the end of the check: it reads as zeros. A file
 * that gives nothing at all is an error. */
static int read_around(struct once__file *inner, uint64_t offset, uint8_t *data, size_t size)
{
    bool any = false;

    for (size_t at = 0; at < size; at += ONCE_BLOCK_SIZE) {
        size_t part = size - at < ONCE_BLOCK_SIZE ? size - at : (size_t)ONCE_BLOCK_SIZE;
        size_t got = 0;
        int err = once__file_read(inner, offset + at, data + at, part, &got);

        if (err != ONCE_OK && err != ONCE_ERR_IO)
            return err;
        any = any || err == ONCE_OK;
        memset(data + at + got, 0, part - got);
    }
    return any ? ONCE_OK : ONCE_ERR_IO;
}

int once__check_read(struct once__file *file, uint64_t offset, uint8_t *data, size_t size)
{
    size_t got = 0;
    int err = once__file_read(file, offset, data, size, &got);

    if (err == ONCE_ERR_IO) {
        err = read_around(file, offset, data, size);
        got = size;
    }
    if (err == ONCE_OK && got < size)
        memset(data + got, 0, size - got);
    return err;
}

static void lay_over(uint8_t *data, uint64_t offset, size_t size, uint64_t at,
                     const uint8_t block[ONCE_BLOCK_SIZE])
{
    uint64_t from = at > offset ? at : offset;
    uint64_t to = at + ONCE_BLOCK_SIZE < offset + size ? at + ONCE_BLOCK_SIZE : offset + size;

    if (from < to)
        memcpy(data + (from - offset), block + (from - at), to - from);
}

static int patched_read(struct once__file *file, uint64_t offset, void *data, size_t size,
                        size_t *ret_size)
{
    const struct patched *patched = (const struct patched *)(const void *)file;
    const struct once__check_segment *segment = patched->segment;
    uint8_t block[ONCE_BLOCK_SIZE];
    uint64_t end = segment->header.segment_size;
    int err = ONCE_OK;

    size = offset >= end ? 0 : size < end - offset ? size : (size_t)(end - offset);
    if (patched->inner && size > 0)
        err = once__check_read(patched->inner, offset, data, size);
    else
        memset(data, 0, size);
    if (err != ONCE_OK)
        return err;
    if (segment->rebuilt && offset < ONCE_BLOCK_SIZE) {
        once__check_header_block(segment, block);
        lay_over(data, offset, size, 0, block);
    }
    for (size_t i = 0; i < segment->patch_count; i++) {
        if (segment->patches[i].offset >= offset + size ||
            segment->patches[i].offset + ONCE_BLOCK_SIZE <= offset)
            continue;
        once__check_patch_block(segment, &segment->patches[i], block);
        lay_over(data, offset, size, segment->patches[i].offset, block);
    }
    *ret_size = size;
    return ONCE_OK;
}

static int patched_size(struct once__file *file, uint64_t *ret_size)
{
    *ret_size = ((const struct patched *)(const void *)file)->segment->header.segment_size;
    return ONCE_OK;
}

static const struct once__file_ops patched_ops = {.read = patched_read, .size = patched_size};

static struct patched patched_of(const struct once__check_segment *segment,
                                 struct once__file *inner)
{
    return (struct patched){.file = {.ops = &patched_ops, .vfs = inner ? inner->vfs : NULL},
                            .inner = inner,
                            .segment = segment};
}

int once__check_open(const struct once__check *check, const struct once__check_segment *segment,
                     unsigned flags, struct once__file **ret_file)
{
    char name[ONCE__NAME_SIZE];

    once__segment_name(segment->slot, name);
    return check->vfs->ops->open(check->vfs, name, flags, ret_file);
}

/* Memory for direct reads. */
static uint8_t *aligned(size_t size)
{
    return aligned_alloc(ONCE_BLOCK_SIZE, size);
}

/* ---- Kills ----------------------------------------------------------------------------------- */

static int compare_kills(const void *a, const void *b)
{
    const struct once__kill *x = a, *y = b;

    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

void once__kills_sort(struct once__kills *kills)
{
    if (kills->count > 1)
        qsort(kills->items, kills->count, sizeof(*kills->items), compare_kills);
}

bool once__kills_has(const struct once__kills *kills, uint32_t offset)
{
    size_t low = 0, high = kills->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (kills->items[middle].offset == offset)
            return true;
        if (kills->items[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* ---- One walk -------------------------------------------------------------------------------- */

struct walk {
    struct once__check *check;
    struct once__check_segment *segment;
    bool any;
    struct once__batch_header before; /* when any */
    const char *disorder;             /* the first thing that runs back, or NULL */
    uint32_t disorder_offset;
};

static const char *disorder_of(const struct walk *walk, const struct once__batch_header *header)
{
    if (!walk->any)
        return NULL;
    if (header->now_ms < walk->before.now_ms)
        return "store time runs back";
    if (header->last_fence < walk->before.last_fence)
        return "the last fence runs back";
    if (header->oldest < walk->before.oldest)
        return "the oldest segment that is needed runs back";
    if (header->durable < walk->before.durable)
        return "what is durable runs back";
    return NULL;
}

static int walk_batch(void *user, const struct once__scan_batch *batch)
{
    struct walk *walk = user;
    struct once__givens *givens = &walk->check->givens;
    int err;

    if (batch->header.flags & ONCE__BATCH_GIVEN_UP) {
        err = once__check_grow(&givens->items, givens->count, &givens->capacity,
                               sizeof(*givens->items));
        if (err != ONCE_OK)
            return err;
        givens->items[givens->count++] = (struct once__given){
            batch->offset, batch->offset + once__batch_disk_size(batch->header.size)};
    }
    if (!walk->any)
        walk->segment->first = batch->header;
    walk->segment->gaps = walk->segment->gaps || batch->header.flags & ONCE__BATCH_GIVEN_UP;
    if (!walk->disorder) {
        walk->disorder = disorder_of(walk, &batch->header);
        walk->disorder_offset = batch->offset;
    }
    walk->before = batch->header;
    walk->any = true;
    return ONCE_OK;
}

static int walk_record(void *user, uint32_t offset, uint32_t size,
                       const struct once__log_record *rec)
{
    struct walk *walk = user;
    struct once__seens *seens = &walk->check->seens;
    struct once__kills *killed = &walk->check->killed;
    enum once_state state = rec->record.state;
    bool open = state == ONCE_STATE_STARTED || state == ONCE_STATE_DOUBT;
    uint64_t hash;
    int err;

    walk->segment->changes += rec->change > 0 ? 1 : 0;
    if (rec->ns.size == 0)
        return ONCE_OK; /* edits alone */
    hash = once__name_hash(walk->check->file.secret, rec->ns, rec->key);
    err = once__check_grow(&seens->items, seens->count, &seens->capacity, sizeof(*seens->items));
    if (err == ONCE_OK)
        err = once__check_grow(&killed->items, killed->count, &killed->capacity,
                               sizeof(*killed->items));
    if (err != ONCE_OK)
        return err;
    if (rec->record.fence > walk->before.last_fence && !walk->disorder) {
        walk->disorder = "a record has a larger fence than its batch knows of";
        walk->disorder_offset = offset;
    }
    seens->items[seens->count++] = (struct once__seen){
        .hash = hash,
        .offset = offset,
        .size = size,
        .expires_s = open ? 0 : once__expires_s(rec->record.expires_ms),
        .open = open,
        .absent = state == ONCE_STATE_ABSENT};
    if (rec->previous_sequence != 0)
        killed->items[killed->count++] = (struct once__kill){.sequence = rec->previous_sequence,
                                                             .offset = rec->previous_offset,
                                                             .hash = (uint32_t)(hash >> 32)};
    return ONCE_OK;
}

/* ---- Planning over damage -------------------------------------------------------------------- */

/* The headers of this segment's batches that can still be read in a stretch. */
struct remains {
    uint64_t number; /* the largest */
    uint64_t fence;
    once_ms now_ms;
    uint64_t oldest;
    uint64_t durable;
    uint32_t flags; /* ONCE__BATCH_OBJECTS: one says so */
    uint32_t end;   /* behind the last one */
    uint64_t count; /* records that they say they have */
};

static int read_remains(struct once__file *file, const struct once__segment_header *header,
                        uint32_t from, uint32_t to, struct remains *ret_remains)
{
    struct remains remains = {.end = from};
    uint8_t *chunk = aligned(ONCE__CHECK_CHUNK_SIZE);
    int err = chunk ? ONCE_OK : ONCE_ERR_MEMORY;

    for (uint64_t at = from; err == ONCE_OK && at < to; at += ONCE__CHECK_CHUNK_SIZE) {
        size_t want = to - at < ONCE__CHECK_CHUNK_SIZE ? (size_t)(to - at)
                                                       : (size_t)ONCE__CHECK_CHUNK_SIZE;

        err = once__check_read(file, at, chunk, want);
        for (size_t i = 0; err == ONCE_OK && i < want; i += ONCE_BLOCK_SIZE) {
            struct once__batch_header batch;
            struct once_defect defect;
            uint64_t check, end;

            if (once__batch_header_decode((struct once_bytes){chunk + i, want - i}, header->salt,
                                          &batch, &check, &defect) != ONCE_OK ||
                batch.sequence != header->sequence)
                continue;
            remains.number = batch.number > remains.number ? batch.number : remains.number;
            remains.fence = batch.last_fence > remains.fence ? batch.last_fence : remains.fence;
            remains.now_ms = batch.now_ms > remains.now_ms ? batch.now_ms : remains.now_ms;
            remains.oldest = batch.oldest > remains.oldest ? batch.oldest : remains.oldest;
            remains.durable = batch.durable > remains.durable ? batch.durable : remains.durable;
            remains.flags |= batch.flags & ONCE__BATCH_OBJECTS;
            remains.count += batch.count;
            end = at + i + once__batch_disk_size(batch.size);
            remains.end = end < to ? (uint32_t)end : to;
        }
    }
    free(chunk);
    if (err != ONCE_OK)
        return err;
    *ret_remains = remains;
    return ONCE_OK;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Nothing good follows in the whole store: numbers, fences and time go on behind whatever the lost
 * batches may have given. A fence needs a record, so their room bounds how many there were
 * (INV-1). */
static void stand_for_tail(struct once__batch_header *batch, const struct once__scan *scan,
                           const struct remains *remains, uint32_t lost_size)
{
    uint64_t number = remains->number > scan->proof ? remains->number : scan->proof;
    uint64_t fence = remains->fence > scan->last.last_fence ? remains->fence
                                                            : scan->last.last_fence;

    batch->flags |= (scan->last.flags & ONCE__BATCH_OBJECTS) | remains->flags;
    batch->number = number > scan->next_batch ? number : scan->next_batch;
    batch->next_chain = scan->chain;
    batch->last_fence = least(fence + lost_size / ONCE__RECORD_SIZE_MIN, ONCE_FENCE_MAX);
    batch->now_ms = remains->now_ms > scan->last.now_ms ? remains->now_ms : scan->last.now_ms;
    batch->oldest = remains->oldest > scan->last.oldest ? remains->oldest : scan->last.oldest;
    batch->durable = scan->proof > scan->last.durable ? scan->proof : scan->last.durable;
    batch->durable = least(batch->durable, batch->number - 1);
    if (batch->oldest == 0)
        batch->oldest = scan->header.sequence;
}

/* A good batch follows: everything lies between the one before and that one. */
static void stand_before(struct once__batch_header *batch, const struct once__batch_header *next)
{
    batch->flags |= next->flags & ONCE__BATCH_OBJECTS;
    batch->number = next->number - 1;
    batch->next_chain = next->chain;
    batch->last_fence = next->last_fence;
    batch->now_ms = next->now_ms;
    batch->oldest = least(next->oldest, batch->sequence);
    batch->durable = least(next->durable, batch->number - 1);
}

/* The batch that stands in for the stretch where the walk stopped. */
static int plan(struct once__file *file, const struct once__scan *scan,
                const struct once__neighbour *next, struct once__patch *ret_patch)
{
    uint32_t end = next->end_known ? next->previous_end : scan->header.segment_size;
    struct once__batch_header batch = {
        .flags = ONCE__BATCH_GIVEN_UP, .sequence = scan->header.sequence, .chain = scan->chain};
    bool found = scan->good.number > scan->next_batch && scan->good_offset < end;
    struct remains remains;
    int err;

    ONCE_ASSERT(scan->ended != ONCE__SCAN_WHOLE && scan->end % ONCE_BLOCK_SIZE == 0);
    if (found)
        end = scan->good_offset;
    else if (end <= scan->end)
        return ONCE_ERR_DAMAGED;
    err = read_remains(file, &scan->header, scan->end, end, &remains);
    if (err != ONCE_OK)
        return err;
    batch.size = end - scan->end;
    if (found)
        stand_before(&batch, &scan->good);
    else
        stand_for_tail(&batch, scan, &remains, end - scan->end);
    if (!found && next->there && next->first_known) {
        if (next->first_batch <= scan->next_batch)
            return ONCE_ERR_DAMAGED;
        if (next->first)
            stand_before(&batch, next->first);
        batch.number = next->first_batch - 1;
        batch.next_chain = next->chain;
        batch.durable = least(batch.durable, batch.number - 1);
    }
    *ret_patch = (struct once__patch){.offset = scan->end,
                                      .lost_end = found || next->end_known ? end : remains.end,
                                      .first_lost = scan->next_batch,
                                      .defect = scan->defect,
                                      .batch = batch};
    return ONCE_OK;
}

static int add_patch(struct once__check_segment *segment, const struct once__patch *patch)
{
    if (!segment->patches) {
        segment->patches = calloc(ONCE__PATCHES_MAX, sizeof(*segment->patches));
        if (!segment->patches)
            return ONCE_ERR_MEMORY;
    }
    ONCE_ASSERT(segment->patch_count < ONCE__PATCHES_MAX);
    segment->patches[segment->patch_count++] = *patch;
    return ONCE_OK;
}

static int report_disorder(struct once__check *check, const struct once__check_segment *segment,
                           const struct walk *walk)
{
    struct once__finding *finding;

    if (!walk->disorder)
        return ONCE_OK;
    finding = once__check_add(check, ONCE__FINDING_ORDER, ONCE__REMEDY_NONE, segment);
    if (!finding)
        return ONCE_ERR_MEMORY;
    finding->offset = walk->disorder_offset;
    once__check_say(finding, "%s", walk->disorder);
    return ONCE_OK;
}

/* The walk ends before the segment's end, and not because the tail was torn. */
static bool is_damage(const struct once__scan *scan, const struct once__neighbour *next)
{
    if (next->first_known && scan->next_batch >= next->first_batch)
        return false;
    return scan->ended == ONCE__SCAN_DAMAGED;
}

int once__check_walk(struct once__check *check, struct once__check_segment *segment,
                     const struct once__neighbour *next)
{
    struct once__file *inner = NULL;
    struct walk walk;
    int err = segment->present ? once__check_open(check, segment, ONCE__OPEN_DIRECT, &inner)
                               : ONCE_OK;

    while (err == ONCE_OK) {
        struct patched patched = patched_of(segment, inner);
        struct once__scan_visitor visitor = {
            .batch = walk_batch, .record = walk_record, .user = &walk};
        struct once__scan_input input = {.file = &patched.file,
                                         .store_id = segment->header.store_id,
                                         .segment_size = segment->header.segment_size,
                                         .durable = next->first_known ? check->proof : 0};
        struct once__patch patch;

        /* Of the segment before the newest the end may be torn too: batches of both were under
         * way at once. */
        if (next->end_known && !next->newest)
            input.known_end = next->previous_end;
        walk = (struct walk){.check = check, .segment = segment};
        segment->changes = 0;
        segment->gaps = false;
        check->seens.count = 0;
        check->killed.count = 0;
        check->givens.count = 0;
        err = once__scan_segment(&input, &visitor, &segment->scan);
        if (err != ONCE_OK || !is_damage(&segment->scan, next))
            break;
        segment->more_damage = segment->patch_count == ONCE__PATCHES_MAX;
        if (segment->more_damage)
            break;
        err = plan(&patched.file, &segment->scan, next, &patch);
        if (err == ONCE_OK)
            err = add_patch(segment, &patch);
        else if (err == ONCE_ERR_DAMAGED) {
            err =
                ONCE_OK; /* no batch can stand in: the chain does not fit, as the caller will see */
            break;
        }
    }
    if (err == ONCE_OK && segment->scan.ended == ONCE__SCAN_TORN && inner) {
        struct remains remains;

        err = read_remains(inner, &segment->header, segment->scan.end, segment->header.segment_size,
                           &remains);
        if (err == ONCE_OK && remains.number >= segment->scan.next_batch)
            segment->torn_end = remains.end;
    }
    once__file_close(inner);
    return err == ONCE_OK ? report_disorder(check, segment, &walk) : err;
}

int once__check_rewalk(const struct once__check *check, const struct once__check_segment *segment,
                       const struct once__scan_visitor *visitor)
{
    struct once__file *inner = NULL;
    struct patched patched;
    struct once__scan scan;
    int err = segment->present ? once__check_open(check, segment, ONCE__OPEN_DIRECT, &inner)
                               : ONCE_OK;

    if (err != ONCE_OK)
        return err;
    patched = patched_of(segment, inner);
    err = once__scan_segment(
        &(struct once__scan_input){.file = &patched.file,
                                   .store_id = segment->header.store_id,
                                   .segment_size = segment->header.segment_size,
                                   .known_end = segment->scan.end},
        visitor, &scan);
    once__file_close(inner);
    return err;
}

/* ---- Whose batches are these? ---------------------------------------------------------------- */

int once__check_probe(struct once__file *file, const struct once__store_file *store,
                      uint64_t sequence, bool quick, struct once__probe *ret_probe)
{
    uint64_t salt = once__segment_salt(store->secret, sequence);
    uint8_t *chunk = aligned(ONCE__CHECK_CHUNK_SIZE);
    struct once__probe probe = {.found = false};
    int err = chunk ? ONCE_OK : ONCE_ERR_MEMORY;
    uint32_t at = ONCE__SEGMENT_HEADER_SIZE;

    while (err == ONCE_OK && at < store->segment_size &&
           (probe.found || !quick || at == ONCE__SEGMENT_HEADER_SIZE)) {
        uint32_t left = store->segment_size - at;
        size_t want = at == ONCE__SEGMENT_HEADER_SIZE ? (size_t)ONCE_BLOCK_SIZE
                      : left < ONCE__CHECK_CHUNK_SIZE ? left
                                                      : (size_t)ONCE__CHECK_CHUNK_SIZE;

        err = once__check_read(file, at, chunk, want);
        for (size_t i = 0; err == ONCE_OK && i < want; i += ONCE_BLOCK_SIZE) {
            struct once__batch_header header;
            struct once_defect defect;
            uint64_t check;

            if (once__batch_header_decode((struct once_bytes){chunk + i, want - i}, salt, &header,
                                          &check, &defect) != ONCE_OK ||
                header.sequence != sequence)
                continue;
            if (!probe.found) {
                probe.offset = at + (uint32_t)i;
                probe.header = header;
                probe.found = true;
            }
            if (header.durable > probe.durable)
                probe.durable = header.durable;
            probe.last = header.number;
            probe.check = header.flags & ONCE__BATCH_GIVEN_UP ? header.next_chain : check;
        }
        at += (uint32_t)want;
    }
    free(chunk);
    if (err == ONCE_OK)
        *ret_probe = probe;
    return err;
}

/* ---- Looking at one segment alone ------------------------------------------------------------ */

struct looking {
    const struct once__view_visitor *visitor;
    uint32_t shown_end; /* batches before it were shown by an earlier walk */
    bool showing;
};

static int look_batch(void *user, const struct once__scan_batch *batch)
{
    struct looking *looking = user;

    looking->showing = batch->offset >= looking->shown_end;
    if (!looking->showing)
        return ONCE_OK;
    looking->shown_end = batch->offset + ONCE_BLOCK_SIZE;
    return looking->visitor->batch(looking->visitor->user, &batch->header, batch->offset,
                                   batch->check);
}

static int look_record(void *user, uint32_t offset, uint32_t size,
                       const struct once__log_record *rec)
{
    struct looking *looking = user;

    if (!looking->showing)
        return ONCE_OK;
    return looking->visitor->record(looking->visitor->user, offset, size, rec);
}

int once__view_segment(struct once__file *file, const struct once__segment_header *header,
                       const struct once__view_visitor *visitor, struct once__view *ret_view)
{
    static const struct once__neighbour nobody = {0};
    struct once__check_segment segment = {.present = true, .header = *header};
    struct looking looking = {.visitor = visitor};
    struct once__scan_visitor inner = {
        .batch = look_batch, .record = look_record, .user = &looking};
    int err = ONCE_OK;

    while (err == ONCE_OK) {
        struct patched patched = patched_of(&segment, file);
        struct once__scan_input input = {.file = &patched.file,
                                         .segment_size = header->segment_size};
        struct once__patch patch;
        struct once__damage damage;

        err = once__scan_segment(&input, &inner, &segment.scan);
        if (err != ONCE_OK || segment.scan.ended != ONCE__SCAN_DAMAGED ||
            segment.patch_count == ONCE__PATCHES_MAX)
            break;
        err = plan(&patched.file, &segment.scan, &nobody, &patch);
        if (err != ONCE_OK)
            break;
        damage = (struct once__damage){
            .offset = patch.offset, .end = patch.offset + patch.batch.size, .defect = patch.defect};
        looking.shown_end = damage.end;
        err = visitor->damage(visitor->user, &damage);
        if (err == ONCE_OK)
            err = add_patch(&segment, &patch);
    }
    if (err == ONCE_OK)
        *ret_view = (struct once__view){.end = segment.scan.end,
                                        .batch_count = segment.scan.batch_count,
                                        .record_count = segment.scan.record_count,
                                        .damage_count = segment.patch_count};
    free(segment.patches);
    return err;
}
