/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery of a foreign segment. The first byte says how the rest becomes one; the next two what is
 * known from elsewhere. Modes 0 and 1 read pieces, each a 2-byte size and its bytes, each placed at
 * the next block:
 *
 *   0  as they are
 *   1  and then given the header, numbers, chain and checks that a reader asks for, as far as the
 *      sizes in them make sense: what is reached behind the checks
 *   2  a seed of 8 bytes for a segment of random records, then changes of 3 bytes: where, to what
 *
 * Nothing may crash. What is shown is in order, lies inside the segment, is what core accepts, and
 * encodes to the bytes that were read; in mode 2 it is a prefix of what was written.
 */
#include <xxhash.h>

#include "../unit/segment_help.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BLOCK = ONCE_BLOCK_SIZE };

/* Bytes of the input, taken one after the other; zeros behind its end. */
struct feed {
    const uint8_t *data;
    size_t size;
};

static uint64_t take(struct feed *feed, int count)
{
    uint64_t number = 0;

    for (int i = 0; i < count && feed->size > 0; i++) {
        number |= (uint64_t)*feed->data++ << 8 * i;
        feed->size--;
    }
    return number;
}

static void put(uint8_t *at, uint64_t number, int count)
{
    for (int i = 0; i < count; i++)
        at[i] = (uint8_t)(number >> 8 * i);
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* ---- Segments -------------------------------------------------------------------------------- */

static void place_pieces(struct feed *feed, uint8_t *bytes)
{
    for (uint32_t at = 0; at < HELP_SEGMENT_SIZE && feed->size > 0;) {
        size_t size = (size_t)take(feed, 2);

        size = size < feed->size ? size : feed->size;
        size = size < HELP_SEGMENT_SIZE - at ? size : HELP_SEGMENT_SIZE - at;
        memcpy(bytes + at, feed->data, size);
        feed->data += size;
        feed->size -= size;
        at += size > 0 ? once__batch_disk_size((uint32_t)size) : BLOCK;
    }
}

/* Gives each record the check that it asks for; returns their fold. */
static uint64_t seal_records(uint8_t *batch, uint32_t size, uint32_t count)
{
    uint32_t at = ONCE__BATCH_HEADER_SIZE;
    uint64_t fold = 0;

    for (uint32_t i = 0; i < count && at + 12 <= size; i++) {
        uint32_t record_size = get32(batch + at + 8);
        uint64_t check;

        if (record_size < 8 || record_size > size - at)
            break;
        check = XXH3_64bits(batch + at + 8, record_size - 8);
        put(batch + at, check, 8);
        fold = once__fold(fold, check);
        at += record_size;
    }
    return fold;
}

static void seal_segment(uint8_t *bytes)
{
    struct once__segment_header header = help_header(3);
    uint64_t chain = header.chain, number = header.first_batch;

    once__segment_header_encode(&header, bytes);
    for (uint32_t at = BLOCK; at < HELP_SEGMENT_SIZE;) {
        uint8_t *batch = bytes + at;
        uint32_t size = get32(batch + 4);

        put(batch, 0x7461424F, 4);
        put(batch + 16, header.sequence, 8);
        if (!(batch[12] & ONCE__BATCH_GIVEN_UP))
            put(batch + 24, number++, 8);
        put(batch + 40, chain, 8);
        if (size >= ONCE__BATCH_HEADER_SIZE && size <= HELP_SEGMENT_SIZE - at)
            put(batch + 72, seal_records(batch, size, get32(batch + 8)), 8);
        else
            size = BLOCK;
        chain = XXH3_64bits_withSeed(batch, 88, header.salt);
        put(batch + 88, chain, 8);
        at += once__batch_disk_size(size);
    }
}

static void build_segment(struct feed *feed, struct help_segment *seg)
{
    uint64_t seed = take(feed, 8);

    help_segment_init(seg, help_header(1 + seed % 5), NULL);
    for (uint64_t i = 1 + help_random(&seed) % 8; i > 0; i--) {
        struct once__log_record recs[4];
        size_t count = (size_t)(help_random(&seed) % 5);

        for (size_t j = 0; j < count; j++)
            recs[j] = help_random_record(&seed, 700);
        seg->durable -= seg->durable > seg->header.first_batch ? help_random(&seed) % 2 : 0;
        if (help_batch_fits(seg, recs, count))
            help_batch(seg, recs, count, 0);
    }
}

/* ---- What a walk shows ----------------------------------------------------------------------- */

struct seen {
    const uint8_t *bytes;
    const struct help_segment *seg; /* mode 2 */
    uint32_t end;                   /* of the record before */
    uint32_t batch_end;
    uint32_t batch_offset;
    uint64_t records;
    uint64_t batches;
};

static int see_batch(void *user, const struct once__scan_batch *batch)
{
    struct seen *seen = user;

    HELP_MUST(batch->offset % BLOCK == 0 && batch->offset >= seen->batch_end);
    HELP_MUST(batch->offset >= BLOCK && batch->header.size <= HELP_SEGMENT_SIZE - batch->offset);
    HELP_MUST(batch->header.durable < batch->header.number);
    seen->batch_offset = batch->offset;
    seen->batch_end = batch->offset + batch->header.size;
    seen->batches++;
    return ONCE_OK;
}

static int see_record(void *user, uint32_t offset, uint32_t size,
                      const struct once__log_record *rec)
{
    struct seen *seen = user;
    struct once_defect defect;
    uint8_t *again = malloc(size);

    HELP_MUST(again);
    HELP_MUST(offset >= seen->end && offset >= seen->batch_offset + ONCE__BATCH_HEADER_SIZE);
    HELP_MUST(size <= seen->batch_end - offset);
    HELP_MUST(once__record_check(&rec->record, &defect) == ONCE_OK);
    HELP_MUST(once__record_size(rec) == size);
    once__record_encode(rec, again);
    HELP_MUST(memcmp(again, seen->bytes + offset, size) == 0);
    free(again);
    if (seen->seg) {
        const struct help_written *written = &seen->seg->written[seen->records];

        HELP_MUST(seen->records < seen->seg->written_count);
        HELP_MUST(written->offset == offset && written->size == size);
        HELP_MUST(memcmp(seen->seg->bytes + offset, seen->bytes + offset, size) == 0);
    }
    seen->end = offset + size;
    seen->records++;
    return ONCE_OK;
}

static void must_end_well(const struct once__scan *scan, const struct once__scan_input *input)
{
    HELP_MUST(scan->end >= BLOCK && scan->end <= HELP_SEGMENT_SIZE && scan->end % BLOCK == 0);
    HELP_MUST(scan->next_batch >= scan->header.first_batch);
    if (scan->ended == ONCE__SCAN_WHOLE) {
        HELP_MUST(scan->end == HELP_SEGMENT_SIZE || scan->end == input->known_end);
        return;
    }
    HELP_MUST(scan->bad_offset == scan->end && scan->defect.what);
    HELP_MUST(scan->defect.offset >= scan->end && scan->defect.offset <= HELP_SEGMENT_SIZE);
    if (scan->ended == ONCE__SCAN_DAMAGED) {
        HELP_MUST(scan->good_offset > scan->bad_offset);
        HELP_MUST(scan->good_offset <= HELP_SEGMENT_SIZE);
        HELP_MUST(scan->good.number == 0 || scan->good.number > scan->next_batch);
    } else {
        HELP_MUST(input->known_end == 0 && input->durable < scan->next_batch);
    }
}

static void scan_bytes(const uint8_t *bytes, const struct help_segment *seg, uint8_t known_end,
                       uint8_t durable)
{
    struct help_file file = help_file_of(bytes, HELP_SEGMENT_SIZE);
    struct once__scan_input input = {.file = &file.file,
                                     .segment_size = HELP_SEGMENT_SIZE,
                                     .known_end = known_end % 9U * BLOCK,
                                     .durable = durable};
    struct seen seen = {.bytes = bytes, .seg = seg};
    struct once__scan_visitor visitor = {.batch = see_batch, .record = see_record, .user = &seen};
    struct once__scan scan;
    int err = once__scan_segment(&input, &visitor, &scan);

    HELP_MUST(!file.misaligned);
    if (err == ONCE_OK) {
        must_end_well(&scan, &input);
        HELP_MUST(scan.record_count == seen.records && scan.batch_count == seen.batches);
    } else {
        HELP_MUST(err == ONCE_ERR_NO_STORE || err == ONCE_ERR_VERSION || err == ONCE_ERR_DAMAGED);
        HELP_MUST(scan.defect.what && seen.batches == 0 && seen.records == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct feed feed = {.data = data, .size = size};
    struct help_segment seg = {0};
    uint8_t mode = (uint8_t)take(&feed, 1) % 3;
    uint8_t known_end = (uint8_t)take(&feed, 1), durable = (uint8_t)take(&feed, 1);
    uint8_t *bytes = calloc(1, HELP_SEGMENT_SIZE);

    HELP_MUST(bytes);
    if (mode == 2) {
        build_segment(&feed, &seg);
        memcpy(bytes, seg.bytes, HELP_SEGMENT_SIZE);
        while (feed.size >= 3) {
            uint32_t at = (uint32_t)take(&feed, 2) % HELP_SEGMENT_SIZE;

            bytes[at] = (uint8_t)take(&feed, 1);
        }
    } else {
        place_pieces(&feed, bytes);
        if (mode == 1)
            seal_segment(bytes);
    }
    scan_bytes(bytes, mode == 2 ? &seg : NULL, known_end, durable);
    help_segment_release(&seg);
    free(bytes);
    return 0;
}
