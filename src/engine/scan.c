/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over one segment: docs/format/engine.md, "Reading a segment".
 *
 * What it gives is what was written: a record is shown only when its own check, the fold of its
 * batch, the check of the batch's header, and the chain up to there are right. It does not cut,
 * repair or judge: whether a torn tail is cut or damage refuses to start is the caller's.
 *
 * Why a bad batch was torn or damaged: several batches are under way at once, so a power cut may
 * leave a later one whole and an earlier one not; that is a torn tail, for nobody was told of
 * either. A later header that says the bad one was durable by then is the proof of damage. So are
 * bytes with a right check that we would never write: no tear makes those.
 */
#include "engine/scan.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/defect.h"
#include "engine/little_endian.h"
#include "engine/mutant.h"

enum { CHUNK_SIZE = 1 << 20 };

/* How far before its own segment a record may replace one: what a sidecar can say (36 bits). */
#define DISTANCE_MAX ((1ULL << (64 - ONCE__OFFSET_BITS)) - 1)

_Static_assert(CHUNK_SIZE % ONCE_BLOCK_SIZE == 0, "reads are whole blocks");
_Static_assert(ONCE__SEGMENT_HEADER_SIZE == ONCE_BLOCK_SIZE, "batches begin at the second block");

/* A part of the segment in memory: whole blocks, in memory aligned for direct reads. */
struct window {
    struct once__file *file;
    uint32_t segment_size;
    uint32_t offset;   /* in the segment */
    uint32_t size;     /* loaded */
    uint32_t capacity; /* at most the segment's size */
    uint8_t *data;
};

/* What a batch turned out to be. */
enum fault {
    NO_FAULT,
    BAD,       /* not there, or not all of it */
    IMPOSSIBLE /* there, and wrong: only damage or our own mistake makes it */
};

struct walk {
    const struct once__scan_input *input;
    const struct once__scan_visitor *visitor;
    struct once__scan *scan;
    struct window window;
};

/* ---- Reading --------------------------------------------------------------------------------- */

static int window_grow(struct window *window, uint32_t size)
{
    void *data;

    ONCE_ASSERT(size % ONCE_BLOCK_SIZE == 0 && size <= window->segment_size);
    if (size <= window->capacity)
        return ONCE_OK;
    if (posix_memalign(&data, ONCE_BLOCK_SIZE, size) != 0)
        return ONCE_ERR_MEMORY;
    free(window->data);
    window->data = data;
    window->capacity = size;
    window->size = 0;
    return ONCE_OK;
}

/* Makes size bytes at offset, both whole blocks inside the segment, readable in memory. They stay
 * until the next call. */
static int window_load(struct window *window, uint32_t offset, uint32_t size,
                       const uint8_t **ret_bytes)
{
    uint32_t wanted;
    size_t got = 0;
    int err;

    ONCE_ASSERT(offset % ONCE_BLOCK_SIZE == 0 && size % ONCE_BLOCK_SIZE == 0);
    ONCE_ASSERT(offset <= window->segment_size && size <= window->segment_size - offset);
    if (offset < window->offset || offset - window->offset > window->size ||
        size > window->size - (offset - window->offset)) {
        err = window_grow(window, size);
        if (err != ONCE_OK)
            return err;
        wanted = window->segment_size - offset;
        wanted = wanted < window->capacity ? wanted : window->capacity;
        window->size = 0;
        err = once__file_read(window->file, offset, window->data, wanted, &got);
        if (err != ONCE_OK)
            return err;
        ONCE_ASSERT(got <= wanted);
        memset(window->data + got, 0, wanted - got);
        window->offset = offset;
        window->size = wanted;
    }
    *ret_bytes = window->data + (offset - window->offset);
    return ONCE_OK;
}

static int read_header(struct walk *walk)
{
    const struct once__scan_input *input = walk->input;
    struct once__scan *scan = walk->scan;
    const uint8_t *bytes;
    int err;

    err = window_load(&walk->window, 0, ONCE__SEGMENT_HEADER_SIZE, &bytes);
    if (err != ONCE_OK)
        return err;
    err = once__segment_header_decode(
        (struct once_bytes){.data = bytes, .size = ONCE__SEGMENT_HEADER_SIZE}, &scan->header,
        &scan->defect);
    if (err != ONCE_OK)
        return err;
    if (scan->header.segment_size != input->segment_size)
        return once__defect(ONCE_ERR_DAMAGED, 12, "the segment has another size than its store's",
                            &scan->defect);
    if (input->store_id && memcmp(scan->header.store_id, input->store_id, ONCE__STORE_ID_SIZE) != 0)
        return once__defect(ONCE_ERR_DAMAGED, 16, "the segment belongs to another store",
                            &scan->defect);
    scan->end = ONCE__SEGMENT_HEADER_SIZE;
    scan->chain = scan->header.chain;
    scan->next_batch = scan->header.first_batch;
    return ONCE_OK;
}

/* ---- One batch ------------------------------------------------------------------------------- */

/* Records why the batch is bad; offset is in the segment. */
static enum fault fault_at(struct walk *walk, enum fault fault, size_t offset, const char *what)
{
    walk->scan->defect = (struct once_defect){.offset = offset, .what = what};
    return fault;
}

/* Does the header at bytes belong here, next in the chain? */
static enum fault check_header(struct walk *walk, const uint8_t *bytes, uint32_t offset,
                               struct once__scan_batch *ret_batch)
{
    struct once_bytes block = {.data = bytes, .size = ONCE_BLOCK_SIZE};
    const struct once__scan *scan = walk->scan;
    struct once__scan_batch batch = {.offset = offset};
    struct once_defect defect;
    uint32_t limit = walk->input->known_end ? walk->input->known_end : walk->input->segment_size;
    bool given_up;

    if (once__batch_header_decode(block, scan->header.salt, &batch.header, &batch.check, &defect) !=
        ONCE_OK)
        return fault_at(walk,
                        once__batch_header_intact(block, scan->header.salt) ? IMPOSSIBLE : BAD,
                        offset + defect.offset, defect.what);
    given_up = (batch.header.flags & ONCE__BATCH_GIVEN_UP) != 0;
    if (batch.header.sequence != scan->header.sequence)
        return fault_at(walk, BAD, offset + 16, "the batch is of another segment");
    if (batch.header.number != scan->next_batch &&
        !(given_up && batch.header.number > scan->next_batch))
        return fault_at(walk, BAD, offset + 24, "the batch has not the number that follows");
    if (batch.header.chain != scan->chain)
        return fault_at(walk, BAD, offset + 40, "the batch does not follow the one before");
    if (scan->batch_count == 0 && !given_up && batch.header.life != scan->header.life)
        return fault_at(walk, BAD, offset + 88, "the batch is from an earlier life of the store");
    if (once__batch_disk_size(batch.header.size) > limit - offset)
        return fault_at(walk, IMPOSSIBLE, offset + 4, "the batch goes beyond the segment's end");
    *ret_batch = batch;
    return NO_FAULT;
}

/* A record replaces one that was written before it. */
static bool previous_ok(const struct once__log_record *rec, uint64_t sequence, uint32_t offset)
{
    if (rec->previous_sequence == 0)
        return true;
    if (rec->previous_sequence == sequence)
        return rec->previous_offset < offset;
    return rec->previous_sequence < sequence && sequence - rec->previous_sequence <= DISTANCE_MAX;
}

/* All records of a batch whose header is good and all of whose blocks are at bytes. */
static enum fault check_records(struct walk *walk, const uint8_t *bytes,
                                struct once__scan_batch *batch)
{
    uint32_t at = ONCE__BATCH_HEADER_SIZE, size, end = batch->header.size;
    uint64_t check, fold = 0;
    struct once__log_record rec;
    struct once_defect defect;

    for (uint32_t i = 0; i < batch->header.count; i++) {
        struct once_bytes rest = {.data = bytes + at, .size = end - at};

        if (once__record_decode(rest, &rec, &size, &check, &defect) != ONCE_OK) {
            if (ONCE__MUTANT(NO_CHECKSUM)) {
                batch->header.count = i;
                return NO_FAULT;
            }
            return fault_at(walk, once__record_intact(rest) ? IMPOSSIBLE : BAD,
                            batch->offset + at + defect.offset, defect.what);
        }
        if (!previous_ok(&rec, batch->header.sequence, batch->offset + at))
            return fault_at(walk, IMPOSSIBLE, batch->offset + at + 72,
                            "the record replaces a later one");
        fold = once__fold(fold, check);
        at += size;
    }
    if (ONCE__MUTANT(NO_CHECKSUM))
        return NO_FAULT;
    if (fold != batch->header.records)
        return fault_at(walk, BAD, batch->offset + 72, "the batch's records are not its own");
    if (at != end)
        return fault_at(walk, IMPOSSIBLE, batch->offset + at,
                        "the batch has more than its records");
    /* What follows up to the block's end means nothing. If it had to be zeros, a batch that was cut
     * off for it could be made good by the torn write of another one over it. */
    return NO_FAULT;
}

static int visit(struct walk *walk, const uint8_t *bytes, const struct once__scan_batch *batch)
{
    const struct once__scan_visitor *visitor = walk->visitor;
    uint32_t at = ONCE__BATCH_HEADER_SIZE, size;
    struct once__log_record rec;
    int err = ONCE_OK;

    if (visitor && visitor->batch)
        err = visitor->batch(visitor->user, batch);
    if (err != ONCE_OK || !visitor || !visitor->record)
        return err;
    for (uint32_t i = 0; i < batch->header.count; i++) {
        once__record_view(bytes + at, &rec, &size);
        err = visitor->record(visitor->user, batch->offset + at, size, &rec);
        if (err != ONCE_OK)
            return err;
        at += size;
    }
    return ONCE_OK;
}

/* Reads the batch at scan->end. If it is good, shows it and goes behind it. */
static int read_batch(struct walk *walk, enum fault *ret_fault)
{
    struct once__scan *scan = walk->scan;
    struct once__scan_batch batch;
    const uint8_t *bytes;
    uint32_t disk_size;
    enum fault fault;
    bool given_up;
    int err;

    err = window_load(&walk->window, scan->end, ONCE_BLOCK_SIZE, &bytes);
    if (err != ONCE_OK)
        return err;
    fault = check_header(walk, bytes, scan->end, &batch);
    if (fault != NO_FAULT) {
        *ret_fault = fault;
        return ONCE_OK;
    }
    disk_size = once__batch_disk_size(batch.header.size);
    given_up = (batch.header.flags & ONCE__BATCH_GIVEN_UP) != 0;
    if (!given_up) {
        err = window_load(&walk->window, scan->end, disk_size, &bytes);
        if (err != ONCE_OK)
            return err;
        fault = check_records(walk, bytes, &batch);
        if (fault != NO_FAULT) {
            *ret_fault = fault;
            return ONCE_OK;
        }
    }
    err = visit(walk, bytes, &batch);
    if (err != ONCE_OK)
        return err;
    scan->end += disk_size;
    scan->chain = given_up ? batch.header.next_chain : batch.check;
    scan->next_batch = batch.header.number + 1;
    scan->last = batch.header;
    scan->batch_count++;
    scan->record_count += batch.header.count;
    *ret_fault = NO_FAULT;
    return ONCE_OK;
}

/* ---- Behind a bad batch ---------------------------------------------------------------------- */

/* What the blocks behind a bad batch tell. */
struct behind {
    uint32_t good_offset; /* the first good header of a later batch; 0 if there is none */
    struct once__batch_header good;
    uint64_t durable; /* the highest that a header of this segment tells */
};

static int look_behind(struct walk *walk, struct behind *ret_behind)
{
    const struct once__scan *scan = walk->scan;
    struct behind behind = {0};
    struct once__batch_header header;
    const uint8_t *bytes;
    uint64_t check;
    int err;

    for (uint32_t offset = scan->end + ONCE_BLOCK_SIZE; offset < walk->input->segment_size;
         offset += ONCE_BLOCK_SIZE) {
        err = window_load(&walk->window, offset, ONCE_BLOCK_SIZE, &bytes);
        if (err != ONCE_OK)
            return err;
        if (once__batch_header_decode((struct once_bytes){.data = bytes, .size = ONCE_BLOCK_SIZE},
                                      scan->header.salt, &header, &check, NULL) != ONCE_OK)
            continue;
        if (header.sequence != scan->header.sequence || header.number <= scan->next_batch)
            continue;
        if (behind.good_offset == 0) {
            behind.good_offset = offset;
            behind.good = header;
        }
        if (header.durable > behind.durable)
            behind.durable = header.durable;
    }
    *ret_behind = behind;
    return ONCE_OK;
}

/* Torn or damaged? A batch that was cut off as torn and never overwritten may still lie behind the
 * tail. It says nothing about what followed: all that it knew to be durable is before the cut. But
 * it is no batch to go on with either, so where nothing behind proves damage, only what is known
 * from elsewhere to be part of the log counts as good. */
static void judge(struct walk *walk, enum fault fault, const struct behind *behind)
{
    const struct once__scan_input *input = walk->input;
    struct once__scan *scan = walk->scan;
    bool proved_here = behind->durable >= scan->next_batch;
    bool proved = proved_here || input->durable >= scan->next_batch;
    bool good = behind->good_offset != 0;

    ONCE_ASSERT(fault != NO_FAULT);
    scan->bad_offset = scan->end;
    if (!proved && input->known_end == 0 && fault == BAD) {
        scan->ended = ONCE__SCAN_TORN;
        return;
    }
    if (input->known_end != 0)
        good = good && behind->good_offset < input->known_end;
    else if (!proved_here)
        good = good && behind->good.number <= input->durable;
    scan->ended = ONCE__SCAN_DAMAGED;
    scan->proof = behind->durable > input->durable ? behind->durable : input->durable;
    if (good) {
        scan->good_offset = behind->good_offset;
        scan->good = behind->good;
    } else {
        scan->good_offset = input->known_end ? input->known_end : input->segment_size;
    }
}

/* ---- The walk -------------------------------------------------------------------------------- */

static bool at_end(const struct walk *walk)
{
    uint32_t end = walk->scan->end;

    return end == walk->input->known_end || end == walk->input->segment_size;
}

static int walk_batches(struct walk *walk)
{
    struct once__scan *scan = walk->scan;
    struct behind behind;
    enum fault fault;
    int err;

    while (!at_end(walk)) {
        ONCE_ASSERT(scan->end < walk->input->segment_size);
        err = read_batch(walk, &fault);
        if (err != ONCE_OK)
            return err;
        if (fault == NO_FAULT)
            continue;
        err = look_behind(walk, &behind);
        if (err != ONCE_OK)
            return err;
        if (ONCE__MUTANT(GAP_SKIPPED) && behind.good_offset != 0) {
            scan->end = behind.good_offset;
            scan->next_batch = behind.good.number;
            scan->chain = behind.good.chain;
            continue;
        }
        judge(walk, fault, &behind);
        return ONCE_OK;
    }
    scan->ended = ONCE__SCAN_WHOLE;
    return ONCE_OK;
}

int once__scan_segment(const struct once__scan_input *input,
                       const struct once__scan_visitor *visitor, struct once__scan *ret_scan)
{
    struct once__scan scan = {0};
    struct walk walk = {
        .input = input,
        .visitor = visitor,
        .scan = &scan,
        .window = {.file = input->file, .segment_size = input->segment_size},
    };
    int err;

    ONCE_ASSERT(once__segment_size_ok(input->segment_size));
    ONCE_ASSERT(input->known_end % ONCE_BLOCK_SIZE == 0);
    ONCE_ASSERT(input->known_end <= input->segment_size);
    err = window_grow(&walk.window,
                      input->segment_size < CHUNK_SIZE ? input->segment_size : CHUNK_SIZE);
    if (err == ONCE_OK)
        err = read_header(&walk);
    if (err == ONCE_OK)
        err = walk_batches(&walk);
    free(walk.window.data);
    *ret_scan = scan;
    return err;
}
