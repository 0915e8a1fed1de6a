/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over a segment shows what was written and nothing else, whatever happened to the bytes,
 * and tells a torn tail from damage. The seed is printed; ONCE_SEED=n replays.
 */
#include "seeded.h"

#include <xxhash.h>

#include "segment_help.h"

enum { BLOCK = ONCE_BLOCK_SIZE };

/* ---- What a walk saw ------------------------------------------------------------------------- */

struct seen {
    const struct help_segment *seg; /* what was written; NULL: anything may be seen */
    size_t records;
    size_t batches;
    uint64_t batch;
    int err; /* of the record after so many */
    size_t err_after;
};

static int see_batch(void *user, const struct once__scan_batch *batch)
{
    struct seen *seen = user;

    assert_int_equal(batch->offset % BLOCK, 0);
    seen->batches++;
    seen->batch = batch->header.number;
    return ONCE_OK;
}

/* Records come in order, and each is the very bytes that were written there. */
static int see_record(void *user, uint32_t offset, uint32_t size,
                      const struct once__log_record *rec)
{
    struct seen *seen = user;
    struct once_defect defect;
    uint8_t bytes[8192];

    if (seen->err != ONCE_OK && seen->records == seen->err_after)
        return seen->err;
    assert_int_equal(once__record_check(&rec->record, &defect), ONCE_OK);
    if (seen->seg) {
        const struct help_written *written = &seen->seg->written[seen->records];

        assert_true(seen->records < seen->seg->written_count);
        assert_int_equal(offset, written->offset);
        assert_int_equal(size, written->size);
        assert_true(seen->batch == written->batch);
        assert_true(size <= sizeof bytes);
        once__record_encode(rec, bytes);
        assert_memory_equal(bytes, seen->seg->bytes + offset, size);
    }
    seen->records++;
    return ONCE_OK;
}

static struct once__scan_input input_of(struct help_file *file)
{
    return (struct once__scan_input){.file = &file->file, .segment_size = HELP_SEGMENT_SIZE};
}

static struct once__scan walk(const struct once__scan_input *input, struct seen *seen)
{
    struct once__scan_visitor visitor = {.batch = see_batch, .record = see_record, .user = seen};
    struct once__scan scan;

    assert_int_equal(once__scan_segment(input, &visitor, &scan), ONCE_OK);
    assert_int_equal(scan.record_count, seen->records);
    assert_int_equal(scan.batch_count, seen->batches);
    if (scan.ended != ONCE__SCAN_WHOLE) {
        assert_int_equal(scan.bad_offset, scan.end);
        assert_non_null(scan.defect.what);
        assert_true(scan.defect.offset >= scan.bad_offset);
    }
    return scan;
}

/* Walks these bytes against what seg wrote. */
static struct once__scan walk_bytes(const uint8_t *bytes, size_t size,
                                    const struct help_segment *seg)
{
    struct help_file file = help_file_of(bytes, size);
    struct once__scan_input input = input_of(&file);
    struct seen seen = {.seg = seg};
    struct once__scan scan = walk(&input, &seen);

    assert_false(file.misaligned);
    return scan;
}

/* ---- Segments -------------------------------------------------------------------------------- */

static struct once__log_record started(const char *key, uint64_t fence)
{
    return (struct once__log_record){
        .ns = once_bytes_of("ns"),
        .key = once_bytes_of(key),
        .record = {.state = ONCE_STATE_STARTED,
                   .attempt = 1,
                   .fence = fence,
                   .created_ms = help_now_ms,
                   .lease_end_ms = help_now_ms + 1000,
                   .retention_ms = 5000,
                   .expires_ms = help_now_ms + 5000},
    };
}

/* Four batches of 2, 1, 30 (two blocks) and 1 records, one write under way at a time. */
static struct help_segment four_batches(void)
{
    struct once__log_record recs[30];
    struct help_segment seg;

    for (uint64_t i = 0; i < 30; i++) {
        static const char keys[] = "abcdefghijklmnopqrstuvwxyzABCDEF";

        recs[i] = started(keys + i, 1 + i);
        recs[i].record.result.size = 0;
        recs[i].record.data = once_bytes_of("some data that takes some room, some room");
    }
    help_segment_init(&seg, help_header(3), NULL);
    help_batch(&seg, recs, 2, 0);
    help_batch(&seg, recs + 2, 1, 0);
    help_batch(&seg, recs, 30, 0);
    help_batch(&seg, recs + 3, 1, ONCE__BATCH_CLOSED);
    assert_int_equal(seg.end, 6 * BLOCK);
    return seg;
}

static uint8_t *copy_of(const struct help_segment *seg)
{
    uint8_t *copy = malloc(seg->header.segment_size);

    assert_non_null(copy);
    memcpy(copy, seg->bytes, seg->header.segment_size);
    return copy;
}

static void scan__good_segment__shows_all_of_it(void **state)
{
    struct help_segment seg = four_batches();
    struct help_file file = help_file_of(seg.bytes, HELP_SEGMENT_SIZE);
    struct once__scan_input input = input_of(&file);
    struct seen seen = {.seg = &seg};
    struct once__scan scan = walk(&input, &seen);

    (void)state;
    assert_int_equal(seen.records, 34);
    assert_int_equal(seen.batches, 4);
    assert_int_equal(scan.ended, ONCE__SCAN_TORN); /* no batch follows, and no more is known */
    assert_int_equal(scan.end, 6 * BLOCK);
    assert_true(scan.chain == seg.chain && scan.next_batch == 304);
    assert_true(scan.last.number == 303 && scan.last.flags == ONCE__BATCH_CLOSED);
    assert_true(scan.header.sequence == 3);
    input.known_end = 6 * BLOCK;
    input.store_id = seg.header.store_id;
    seen = (struct seen){.seg = &seg};
    scan = walk(&input, &seen);
    assert_int_equal(scan.ended, ONCE__SCAN_WHOLE);
    assert_int_equal(seen.records, 34);
    help_segment_release(&seg);
}

static void scan__full_or_empty_segment__is_whole_or_ends_at_once(void **state)
{
    struct once__log_record rec = started("k", 1);
    struct help_segment seg;
    struct once__scan scan;

    (void)state;
    help_segment_init(&seg, help_header(1), NULL);
    scan = walk_bytes(seg.bytes, HELP_SEGMENT_SIZE, &seg);
    assert_int_equal(scan.ended, ONCE__SCAN_TORN);
    assert_int_equal(scan.end, BLOCK);
    assert_true(scan.chain == 0 && scan.next_batch == 1 && scan.last.number == 0);
    while (help_batch_fits(&seg, &rec, 1))
        help_batch(&seg, &rec, 1, 0);
    scan = walk_bytes(seg.bytes, HELP_SEGMENT_SIZE, &seg);
    assert_int_equal(scan.ended, ONCE__SCAN_WHOLE);
    assert_int_equal(scan.end, HELP_SEGMENT_SIZE);
    assert_int_equal(scan.batch_count, 7);
    help_segment_release(&seg);
}

static void scan__batch_without_records__is_good(void **state)
{
    struct help_segment seg;

    (void)state;
    help_segment_init(&seg, help_header(1), NULL);
    help_batch(&seg, NULL, 0, ONCE__BATCH_CLOSED);
    assert_int_equal(walk_bytes(seg.bytes, HELP_SEGMENT_SIZE, &seg).batch_count, 1);
    help_segment_release(&seg);
}

/* ---- Flips and cuts -------------------------------------------------------------------------- */

/* Behind the records of a batch, up to the end of its block: nobody looks there. */
static bool is_padding(const struct help_segment *seg, uint32_t offset)
{
    for (uint32_t at = BLOCK, size; at < seg->end; at += once__batch_disk_size(size)) {
        memcpy(&size, seg->bytes + at + 4, sizeof(size));
        if (offset < at + once__batch_disk_size(size))
            return offset >= at + size;
    }
    return false;
}

/* Every batch but the last is proved durable by a header behind it. */
static void scan__any_byte_flipped__is_found_where_it_is(void **state)
{
    static const uint32_t begins[] = {BLOCK, 2 * BLOCK, 3 * BLOCK, 5 * BLOCK, 6 * BLOCK};
    static const size_t records[] = {0, 2, 3, 33};
    struct help_segment seg = four_batches();
    uint8_t *bytes = copy_of(&seg);
    struct once__scan scan;

    (void)state;
    for (uint32_t i = BLOCK; i < seg.end; i++) {
        int batch = i < begins[1] ? 0 : i < begins[2] ? 1 : i < begins[3] ? 2 : 3;

        bytes[i] ^= (uint8_t)(1 << i % 8);
        scan = walk_bytes(bytes, HELP_SEGMENT_SIZE, &seg);
        bytes[i] = seg.bytes[i];
        if (is_padding(&seg, i)) {
            assert_int_equal(scan.record_count, 34);
            continue;
        }
        assert_int_equal(scan.bad_offset, begins[batch]);
        assert_int_equal(scan.record_count, records[batch]);
        assert_true(scan.defect.offset < begins[batch + 1]);
        if (batch == 3) {
            assert_int_equal(scan.ended, ONCE__SCAN_TORN);
        } else {
            assert_int_equal(scan.ended, ONCE__SCAN_DAMAGED);
            assert_int_equal(scan.good_offset, begins[batch + 1]);
            assert_true(scan.good.number == 301 + (uint64_t)batch && scan.proof == 302);
        }
    }
    for (uint32_t i = seg.end; i < HELP_SEGMENT_SIZE; i += 7) { /* behind the tail is nothing */
        bytes[i] ^= 1;
        scan = walk_bytes(bytes, HELP_SEGMENT_SIZE, &seg);
        bytes[i] = seg.bytes[i];
        assert_int_equal(scan.record_count, 34);
        assert_int_equal(scan.ended, ONCE__SCAN_TORN);
    }
    free(bytes);
    help_segment_release(&seg);
}

static void scan__header_flipped__is_an_error_that_says_why(void **state)
{
    struct help_segment seg = four_batches();
    uint8_t *bytes = copy_of(&seg);
    struct help_file file = help_file_of(bytes, HELP_SEGMENT_SIZE);
    struct once__scan_input input = input_of(&file);
    struct once__scan scan;
    uint8_t other[ONCE__STORE_ID_SIZE] = {9};

    (void)state;
    for (uint32_t i = 0; i < 512; i++) {
        bytes[i] ^= 4;
        assert_int_equal(once__scan_segment(&input, NULL, &scan), ONCE_ERR_DAMAGED);
        assert_non_null(scan.defect.what);
        bytes[i] = seg.bytes[i];
    }
    input.store_id = other;
    assert_int_equal(once__scan_segment(&input, NULL, &scan), ONCE_ERR_DAMAGED);
    assert_int_equal(scan.defect.offset, 16);
    input.store_id = NULL;
    input.segment_size *= 2;
    assert_int_equal(once__scan_segment(&input, NULL, &scan), ONCE_ERR_DAMAGED);
    assert_int_equal(scan.defect.offset, 12);
    memset(bytes, 0, BLOCK);
    assert_int_equal(once__scan_segment(&input, NULL, &scan), ONCE_ERR_NO_STORE);
    file.size = 0;
    assert_int_equal(once__scan_segment(&input, NULL, &scan), ONCE_ERR_NO_STORE);
    file.err = ONCE_ERR_IO;
    assert_int_equal(once__scan_segment(&input, NULL, &scan), ONCE_ERR_IO);
    free(bytes);
    help_segment_release(&seg);
}

static void scan__cut_anywhere__is_torn_at_the_last_whole_batch(void **state)
{
    static const uint32_t ends[] = {BLOCK, 2 * BLOCK, 3 * BLOCK, 5 * BLOCK, 6 * BLOCK};
    struct help_segment seg = four_batches();

    (void)state;
    for (uint32_t size = BLOCK; size <= HELP_SEGMENT_SIZE; size++) {
        struct once__scan scan = walk_bytes(seg.bytes, size, &seg);
        int whole = 0;

        /* Zeros are there by themselves, so a batch is whole from its last other byte on. */
        while (whole < 4) {
            uint32_t last = ends[whole + 1] - 1;

            while (seg.bytes[last] == 0)
                last--;
            if (last >= size)
                break;
            whole++;
        }
        assert_int_equal(scan.ended, ONCE__SCAN_TORN);
        assert_int_equal(scan.end, ends[whole]);
    }
    help_segment_release(&seg);
}

/* ---- Torn or damaged ------------------------------------------------------------------------- */

/* Batches 300 to 305, one block each, of which the last four were under way together. */
static struct help_segment six_batches(void)
{
    struct help_segment seg;

    help_segment_init(&seg, help_header(3), NULL);
    for (uint64_t i = 0; i < 6; i++) {
        struct once__log_record rec = started("k", i + 1);

        help_batch(&seg, &rec, 1, 0);
        if (i >= 2)
            seg.durable = 301;
    }
    return seg;
}

static void scan__batch_lost_while_later_ones_were_under_way__is_torn(void **state)
{
    struct help_segment seg = six_batches();
    struct once__scan scan;

    (void)state;
    memset(seg.bytes + 3 * BLOCK, 0, BLOCK); /* 302; 303 to 305 are whole */
    scan = walk_bytes(seg.bytes, HELP_SEGMENT_SIZE, &seg);
    assert_int_equal(scan.ended, ONCE__SCAN_TORN);
    assert_int_equal(scan.record_count, 2);
    assert_true(scan.next_batch == 302);
    help_segment_release(&seg);
}

static void scan__batch_that_a_later_one_knew_to_be_durable__is_damaged(void **state)
{
    struct help_segment seg = six_batches();
    struct once__scan scan;

    (void)state;
    memset(seg.bytes + 2 * BLOCK, 0xff, 2 * BLOCK); /* 301 and 302 */
    scan = walk_bytes(seg.bytes, HELP_SEGMENT_SIZE, &seg);
    assert_int_equal(scan.ended, ONCE__SCAN_DAMAGED);
    assert_int_equal(scan.record_count, 1);
    assert_int_equal(scan.bad_offset, 2 * BLOCK);
    assert_int_equal(scan.good_offset, 4 * BLOCK);
    assert_true(scan.good.number == 303 && scan.proof == 301);
    help_segment_release(&seg);
}

static void scan__batch_known_from_elsewhere_to_be_durable__is_damaged(void **state)
{
    struct help_segment seg = six_batches();
    struct help_file file = help_file_of(seg.bytes, HELP_SEGMENT_SIZE);
    struct once__scan_input input = input_of(&file);
    struct seen seen = {.seg = &seg};
    struct once__scan scan;

    (void)state;
    memset(seg.bytes + 3 * BLOCK, 0, BLOCK); /* 302 */
    input.durable = 301;
    assert_int_equal(walk(&input, &seen).ended, ONCE__SCAN_TORN);
    input.durable = 302;
    seen = (struct seen){.seg = &seg};
    scan = walk(&input, &seen);
    assert_int_equal(scan.ended, ONCE__SCAN_DAMAGED);
    assert_true(scan.proof == 302 && scan.good.number == 0);
    assert_int_equal(scan.good_offset, HELP_SEGMENT_SIZE); /* 303 may be an old one */
    input.durable = 303;
    seen = (struct seen){.seg = &seg};
    assert_int_equal(walk(&input, &seen).good_offset, 4 * BLOCK);
    input.durable = 0;
    input.known_end = seg.end;
    seen = (struct seen){.seg = &seg};
    scan = walk(&input, &seen);
    assert_int_equal(scan.ended, ONCE__SCAN_DAMAGED);
    assert_int_equal(scan.good_offset, 4 * BLOCK);
    input.known_end = 4 * BLOCK; /* 303 is behind the end: not of this log */
    seen = (struct seen){.seg = &seg};
    scan = walk(&input, &seen);
    assert_int_equal(scan.ended, ONCE__SCAN_DAMAGED);
    assert_true(scan.good_offset == 4 * BLOCK && scan.good.number == 0);
    input.known_end = seg.end;
    memset(seg.bytes + 3 * BLOCK, 0, seg.end - 3 * BLOCK);
    seen = (struct seen){.seg = &seg};
    scan = walk(&input, &seen);
    assert_int_equal(scan.ended, ONCE__SCAN_DAMAGED);
    assert_int_equal(scan.good_offset, seg.end);
    help_segment_release(&seg);
}

static void scan__end_known_to_be_inside_of_a_batch__is_damaged(void **state)
{
    struct help_segment seg = four_batches();
    struct help_file file = help_file_of(seg.bytes, HELP_SEGMENT_SIZE);
    struct once__scan_input input = input_of(&file);
    struct seen seen = {.seg = &seg};
    struct once__scan scan;

    (void)state;
    input.known_end = 4 * BLOCK;
    scan = walk(&input, &seen);
    assert_int_equal(scan.ended, ONCE__SCAN_DAMAGED);
    assert_int_equal(scan.bad_offset, 3 * BLOCK);
    help_segment_release(&seg);
}

/* A tail was cut, and the log went on with larger batches. What was cut still lies behind. */
static void scan__batches_cut_off_earlier__are_never_seen_again(void **state)
{
    struct help_segment seg = six_batches(), next;
    struct once__log_record recs[50];
    struct once__scan scan;

    (void)state;
    for (uint64_t i = 0; i < 50; i++)
        recs[i] = started("other", 100 + i);
    help_segment_init(&next, help_header(3), seg.bytes);
    for (uint64_t i = 0; i < 2; i++) {
        struct once__log_record rec = started("k", i + 1);

        help_batch(&next, &rec, 1, 0);
    }
    help_batch(&next, recs, 50, 0); /* another 302, of two blocks: over the old 302 and 303 */
    assert_int_equal(next.end, 5 * BLOCK);
    scan = walk_bytes(next.bytes, HELP_SEGMENT_SIZE, &next);
    assert_int_equal(scan.ended, ONCE__SCAN_TORN);
    assert_int_equal(scan.record_count, 52);
    assert_true(scan.next_batch == 303);
    help_segment_release(&next);
}

/* As before, but the old 303 lies where the next batch will be, and has its number. */
static void scan__batch_cut_off_earlier__does_not_follow_another(void **state)
{
    struct help_segment seg = six_batches(), next;
    struct once__log_record rec = started("other", 100);
    struct once__scan scan;

    (void)state;
    help_segment_init(&next, help_header(3), seg.bytes);
    for (uint64_t i = 0; i < 2; i++) {
        struct once__log_record old = started("k", i + 1);

        help_batch(&next, &old, 1, 0);
    }
    help_batch(&next, &rec, 1, 0);
    scan = walk_bytes(next.bytes, HELP_SEGMENT_SIZE, &next);
    assert_int_equal(scan.ended, ONCE__SCAN_TORN);
    assert_int_equal(scan.record_count, 3);
    assert_true(scan.next_batch == 303 && scan.end == 4 * BLOCK);
    help_segment_release(&next);
}

/* The new 302 is torn so that old records with right checks of their own lie in its place. */
static void scan__old_records_under_a_new_header__are_not_its_own(void **state)
{
    struct once__log_record recs[30], others[30];
    struct help_segment seg, next;
    uint8_t *old;

    (void)state;
    for (uint64_t i = 0; i < 30; i++) {
        recs[i] = started("abc", 1 + i);
        others[i] = started("xyz", 1 + i);
    }
    help_segment_init(&seg, help_header(3), NULL);
    help_batch(&seg, recs, 30, 0);
    old = copy_of(&seg);
    help_segment_init(&next, help_header(3), seg.bytes);
    help_batch(&next, others, 30, 0);
    memcpy(seg.bytes + next.written[20].offset, old + next.written[20].offset,
           next.end - next.written[20].offset);
    assert_int_equal(walk_bytes(seg.bytes, HELP_SEGMENT_SIZE, &next).record_count, 0);
    free(old);
    help_segment_release(&next);
}

static void scan__recycled_file__does_not_show_its_past(void **state)
{
    struct help_segment seg = six_batches(), next;
    struct once__segment_header header = seg.header;
    struct once__log_record rec = started("new", 50);
    struct once__scan scan;

    (void)state;
    header.sequence = 4; /* the same salt and numbers: only the sequence tells them apart */
    help_segment_init(&next, header, seg.bytes);
    scan = walk_bytes(next.bytes, HELP_SEGMENT_SIZE, &next);
    assert_int_equal(scan.ended, ONCE__SCAN_TORN);
    assert_int_equal(scan.record_count, 0);
    help_batch(&next, &rec, 1, 0);
    scan = walk_bytes(next.bytes, HELP_SEGMENT_SIZE, &next);
    assert_int_equal(scan.ended, ONCE__SCAN_TORN);
    assert_int_equal(scan.record_count, 1);
    help_segment_release(&next);
}

/* A client stores an answer that looks like a later batch. Without the salt it is none. */
static void scan__answer_that_poses_as_a_batch__proves_nothing(void **state)
{
    uint8_t result[2 * BLOCK] = {0};
    struct once__log_record rec = started("k", 1);
    struct once__batch_header fake = {
        .size = ONCE__BATCH_HEADER_SIZE, .sequence = 3, .number = 900, .durable = 899, .oldest = 1};
    struct help_segment seg;
    struct once__scan scan;
    uint32_t skew;

    (void)state;
    rec.record.result = (struct once_bytes){.data = result, .size = sizeof result};
    skew = BLOCK - ONCE__BATCH_HEADER_SIZE -
           (once__record_size(&rec) - (uint32_t)sizeof result - 5 /* zeros at the end */);
    once__batch_header_encode(&fake, 0, result + skew);
    help_segment_init(&seg, help_header(3), NULL);
    help_batch(&seg, &rec, 1, 0);
    assert_memory_equal(seg.bytes + 2 * BLOCK, result + skew, ONCE__BATCH_HEADER_SIZE);
    seg.bytes[BLOCK + 100] ^= 1;
    scan = walk_bytes(seg.bytes, HELP_SEGMENT_SIZE, &seg);
    assert_int_equal(scan.ended, ONCE__SCAN_TORN);
    once__batch_header_encode(&fake, seg.header.salt, seg.bytes + 2 * BLOCK); /* with it, it is */
    assert_int_equal(walk_bytes(seg.bytes, HELP_SEGMENT_SIZE, &seg).ended, ONCE__SCAN_DAMAGED);
    help_segment_release(&seg);
}

/* Changes a byte of the last batch's only record and makes every check right again. */
static struct once__scan scan_resealed(uint32_t at, uint8_t value)
{
    struct help_segment seg;
    struct once__log_record rec = started("k", 1);
    struct once__batch_header header;
    struct once__scan scan;
    uint8_t *bytes;
    uint64_t check;

    help_segment_init(&seg, help_header(3), NULL);
    header = help_batch(&seg, &rec, 1, 0);
    bytes = seg.bytes + seg.written[0].offset;
    bytes[at] = value;
    check = XXH3_64bits(bytes + 8, seg.written[0].size - 8);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(check >> 8 * i);
    header.records = once__fold(0, check);
    once__batch_header_encode(&header, seg.header.salt, seg.bytes + BLOCK);
    scan = walk_bytes(seg.bytes, HELP_SEGMENT_SIZE, &seg);
    help_segment_release(&seg);
    return scan;
}

/* A tear does not make right checks: cutting this off would lose what somebody was told. */
static void scan__right_checks_around_nonsense__are_damage_even_at_the_tail(void **state)
{
    (void)state;
    assert_int_equal(scan_resealed(12, 1).record_count, 1);           /* as it was */
    assert_int_equal(scan_resealed(12, 2).ended, ONCE__SCAN_DAMAGED); /* kind */
    assert_int_equal(scan_resealed(13, 9).ended, ONCE__SCAN_DAMAGED); /* state */
    assert_int_equal(scan_resealed(72, 4).ended, ONCE__SCAN_DAMAGED); /* replaces */
}

/* The same of a header: a flag that a later version may have. */
static void scan__right_check_around_an_unknown_flag__is_damage_even_at_the_tail(void **state)
{
    struct help_segment seg = six_batches();
    uint8_t *last = seg.bytes + seg.end - BLOCK;
    uint64_t check;

    (void)state;
    last[12] = 8;
    assert_int_equal(walk_bytes(seg.bytes, HELP_SEGMENT_SIZE, &seg).ended, ONCE__SCAN_TORN);
    check = XXH3_64bits_withSeed(last, 96, seg.header.salt);
    for (int i = 0; i < 8; i++)
        last[96 + i] = (uint8_t)(check >> 8 * i);
    assert_int_equal(walk_bytes(seg.bytes, HELP_SEGMENT_SIZE, &seg).ended, ONCE__SCAN_DAMAGED);
    help_segment_release(&seg);
}

static void scan__record_that_replaces_a_later_one__is_damage(void **state)
{
    struct once__log_record rec = started("k", 1);

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        static const uint64_t sequences[] = {2, 3, 3, 4};
        static const uint32_t offsets[] = {8192, ONCE__RECORD_OFFSET_MIN, 4200, 4200};
        static const bool good[] = {true, false, false, false};
        struct help_segment seg;
        struct once__scan scan;

        rec.previous_sequence = sequences[i];
        rec.previous_offset = offsets[i];
        help_segment_init(&seg, help_header(3), NULL);
        help_batch(&seg, &rec, 1, 0);
        scan = walk_bytes(seg.bytes, HELP_SEGMENT_SIZE, &seg);
        assert_int_equal(scan.record_count, good[i] ? 1 : 0);
        assert_int_equal(scan.ended, good[i] ? ONCE__SCAN_TORN : ONCE__SCAN_DAMAGED);
        help_segment_release(&seg);
    }
}

/* ---- Damage that was given up ---------------------------------------------------------------- */

static void scan__batch_that_stands_for_damage__leads_over_it(void **state)
{
    struct help_segment seg = six_batches();
    struct once__batch_header header;
    struct once__scan scan;
    struct help_file file = help_file_of(seg.bytes, HELP_SEGMENT_SIZE);
    struct once__scan_input input = input_of(&file);
    struct seen seen = {.seg = NULL};

    (void)state;
    memset(seg.bytes + 2 * BLOCK, 0xff, 2 * BLOCK); /* 301 and 302 */
    scan = walk_bytes(seg.bytes, HELP_SEGMENT_SIZE, &seg);
    assert_int_equal(scan.ended, ONCE__SCAN_DAMAGED);
    header = (struct once__batch_header){
        .size = scan.good_offset - scan.bad_offset,
        .sequence = 3,
        .number = scan.good.number - 1,
        .chain = scan.chain,
        .last_fence = scan.good.last_fence,
        .oldest = 3,
        .now_ms = help_now_ms,
        .flags = ONCE__BATCH_GIVEN_UP,
        .next_chain = scan.good.chain,
    };
    once__batch_header_encode(&header, seg.header.salt, seg.bytes + scan.bad_offset);
    input.known_end = seg.end;
    scan = walk(&input, &seen);
    assert_int_equal(scan.ended, ONCE__SCAN_WHOLE);
    assert_int_equal(scan.batch_count, 5);
    assert_int_equal(scan.record_count, 4);
    header.number = 300; /* stands for one that is there */
    once__batch_header_encode(&header, seg.header.salt, seg.bytes + 2 * BLOCK);
    seen = (struct seen){.seg = NULL};
    assert_int_equal(walk(&input, &seen).ended, ONCE__SCAN_DAMAGED);
    help_segment_release(&seg);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void scan__batch_larger_than_a_chunk__is_read_whole(void **state)
{
    enum { SIZE = 4 << 20, RESULT = 2500000 };
    struct once__segment_header header = help_header(3);
    struct once__log_record small = started("s", 1), large = started("l", 2);
    uint8_t *result = malloc(RESULT);
    struct help_segment seg;
    struct help_file file;
    struct once__scan_input input;
    struct once__scan scan;

    (void)state;
    assert_non_null(result);
    memset(result, 'r', RESULT);
    large.record.result = (struct once_bytes){.data = result, .size = RESULT};
    header.segment_size = SIZE;
    help_segment_init(&seg, header, NULL);
    help_batch(&seg, &small, 1, 0);
    help_batch(&seg, &large, 1, 0);
    for (int i = 0; i < 200; i++)
        help_batch(&seg, &small, 1, 0);
    file = help_file_of(seg.bytes, SIZE);
    input = (struct once__scan_input){.file = &file.file, .segment_size = SIZE};
    assert_int_equal(once__scan_segment(&input, NULL, &scan), ONCE_OK);
    assert_int_equal(scan.record_count, 202);
    assert_false(file.misaligned);
    assert_true(file.reads <= 8);
    seg.bytes[2 * BLOCK + 2000000] ^= 1;
    assert_int_equal(once__scan_segment(&input, NULL, &scan), ONCE_OK);
    assert_int_equal(scan.ended, ONCE__SCAN_DAMAGED);
    assert_int_equal(scan.record_count, 1);
    free(result);
    help_segment_release(&seg);
}

static void scan__visitor_that_fails__stops_the_walk(void **state)
{
    struct help_segment seg = four_batches();
    struct help_file file = help_file_of(seg.bytes, HELP_SEGMENT_SIZE);
    struct once__scan_input input = input_of(&file);
    struct seen seen = {.seg = &seg, .err = ONCE_ERR_KEYS, .err_after = 5};
    struct once__scan_visitor visitor = {.record = see_record, .user = &seen};
    struct once__scan scan;

    (void)state;
    seen.seg = NULL; /* no batch is seen here */
    assert_int_equal(once__scan_segment(&input, &visitor, &scan), ONCE_ERR_KEYS);
    assert_int_equal(seen.records, 5);
    assert_int_equal(scan.end, 3 * BLOCK);
    help_segment_release(&seg);
}

/* ---- Properties ------------------------------------------------------------------------------ */

/* Random segments, random damage in sectors and bytes. The walk checks that all it sees is a prefix
 * of what was written; whole batches up to the first one that was touched are seen. */
static void scan__random_damage__shows_exactly_what_is_before_it(void **state)
{
    uint64_t seed = seeded_start("random damage");

    (void)state;
    for (int run = 0; run < 400; run++) {
        struct help_segment seg;
        uint32_t first = UINT32_MAX;
        struct once__scan scan;
        uint8_t *bytes;
        size_t before = 0;

        help_segment_init(&seg, help_header(1 + help_random(&seed) % 9), NULL);
        for (int i = 0; i < 6; i++) {
            struct once__log_record recs[4];
            size_t count = (size_t)(help_random(&seed) % 5);

            for (size_t j = 0; j < count; j++)
                recs[j] = help_random_record(&seed, 900);
            if (help_batch_fits(&seg, recs, count))
                help_batch(&seg, recs, count, 0);
        }
        bytes = copy_of(&seg);
        for (uint64_t i = help_random(&seed) % 3; i > 0; i--) {
            uint32_t at = BLOCK + (uint32_t)(help_random(&seed) % (HELP_SEGMENT_SIZE - BLOCK));
            uint32_t size = help_random(&seed) % 2 ? 1 : 512;

            at = at / size * size;
            for (uint32_t j = at; j < at + size; j++)
                bytes[j] = (uint8_t)help_random(&seed);
        }
        for (uint32_t i = 0; i < HELP_SEGMENT_SIZE && first == UINT32_MAX; i++)
            first = bytes[i] != seg.bytes[i] && !is_padding(&seg, i) ? i : first;
        scan = walk_bytes(bytes, HELP_SEGMENT_SIZE, &seg);
        assert_true(scan.end <= seg.end);
        if (first >= seg.end) {
            assert_int_equal(scan.record_count, seg.written_count);
        } else {
            assert_true(scan.end <= first);
            for (size_t i = 0; i < seg.written_count; i++)
                before += seg.written[i].offset < scan.end;
            assert_int_equal(scan.record_count, before);
            assert_int_not_equal(scan.ended, ONCE__SCAN_WHOLE);
        }
        free(bytes);
        help_segment_release(&seg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scan__good_segment__shows_all_of_it),
        cmocka_unit_test(scan__full_or_empty_segment__is_whole_or_ends_at_once),
        cmocka_unit_test(scan__batch_without_records__is_good),
        cmocka_unit_test(scan__any_byte_flipped__is_found_where_it_is),
        cmocka_unit_test(scan__header_flipped__is_an_error_that_says_why),
        cmocka_unit_test(scan__cut_anywhere__is_torn_at_the_last_whole_batch),
        cmocka_unit_test(scan__batch_lost_while_later_ones_were_under_way__is_torn),
        cmocka_unit_test(scan__batch_that_a_later_one_knew_to_be_durable__is_damaged),
        cmocka_unit_test(scan__batch_known_from_elsewhere_to_be_durable__is_damaged),
        cmocka_unit_test(scan__end_known_to_be_inside_of_a_batch__is_damaged),
        cmocka_unit_test(scan__batches_cut_off_earlier__are_never_seen_again),
        cmocka_unit_test(scan__batch_cut_off_earlier__does_not_follow_another),
        cmocka_unit_test(scan__old_records_under_a_new_header__are_not_its_own),
        cmocka_unit_test(scan__recycled_file__does_not_show_its_past),
        cmocka_unit_test(scan__answer_that_poses_as_a_batch__proves_nothing),
        cmocka_unit_test(scan__right_checks_around_nonsense__are_damage_even_at_the_tail),
        cmocka_unit_test(scan__right_check_around_an_unknown_flag__is_damage_even_at_the_tail),
        cmocka_unit_test(scan__record_that_replaces_a_later_one__is_damage),
        cmocka_unit_test(scan__batch_that_stands_for_damage__leads_over_it),
        cmocka_unit_test(scan__batch_larger_than_a_chunk__is_read_whole),
        cmocka_unit_test(scan__visitor_that_fails__stops_the_walk),
        cmocka_unit_test(scan__random_damage__shows_exactly_what_is_before_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
