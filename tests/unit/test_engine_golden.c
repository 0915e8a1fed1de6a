/* SPDX-License-Identifier: Apache-2.0
 *
 * The byte layout of docs/format/engine.md, held still: today's code makes exactly the folder
 * tests/golden/engine/v1 and reads it back. A change of these files is a change of the format.
 *
 *   store        id 00 01 … 0f, segments of 32 KiB
 *   000001.seg   sequence 2, sealed: its last batch is followed by sequence 3
 *   000001.idx   its sidecar
 *   000000.seg   sequence 3, active, in the file that held sequence 1: its batches lie behind
 *
 * ONCE_GOLDEN names another folder to read them from. ONCE_GOLDEN_WRITE names a folder in which
 * to write what today's code makes, for a new version of the format.
 */
#include "seeded.h"

#include "segment_help.h"

#define KEY_COUNT 3

struct golden {
    struct once__store_file store;
    uint8_t store_bytes[ONCE__STORE_FILE_SIZE];
    struct help_segment retired; /* sequence 1; active writes over it */
    struct help_segment sealed;
    struct help_segment active;
    struct once_buf sidecar;
};

/* ---- What is in it --------------------------------------------------------------------------- */

static struct once__log_record record_of(const char *key, enum once_state state, uint64_t fence,
                                         once_ms now_ms)
{
    struct once__log_record rec = {
        .ns = once_bytes_of("orders"),
        .key = once_bytes_of(key),
        .record = {.state = state,
                   .attempt = 1,
                   .fence = fence,
                   .created_ms = now_ms,
                   .lease_end_ms = now_ms + 30000,
                   .retention_ms = ONCE_RETENTION_MS_DEFAULT,
                   .expires_ms = now_ms + ONCE_RETENTION_MS_DEFAULT},
    };

    return rec;
}

static struct once__log_record replacing(struct once__log_record rec,
                                         const struct help_segment *seg, size_t written)
{
    rec.previous_sequence = seg->header.sequence;
    rec.previous_offset = seg->written[written].offset;
    return rec;
}

static struct once__segment_header header_of(const struct golden *golden,
                                             const struct help_segment *before)
{
    struct once__segment_header header = {
        .segment_size = golden->store.segment_size,
        .sequence = before ? before->header.sequence + 1 : 1,
        .first_batch = before ? before->number : 1,
        .chain = before ? before->chain : 0,
        .previous_end = before ? before->end : 0,
        .created_ms = before ? before->now_ms : help_now_ms,
    };

    memcpy(header.store_id, golden->store.id, sizeof header.store_id);
    header.salt = once__segment_salt(golden->store.secret, header.sequence);
    return header;
}

static void make_retired(struct golden *golden)
{
    struct help_segment *seg = &golden->retired;
    struct once__log_record recs[2];

    help_segment_init(seg, header_of(golden, NULL), NULL);
    recs[0] = record_of("k-1", ONCE_STATE_STARTED, 1, seg->now_ms);
    recs[0].record.owner = once_bytes_of("worker-1");
    recs[1] = record_of("k-2", ONCE_STATE_STARTED, 2, seg->now_ms);
    help_batch(seg, recs, 2, 0);
    seg->now_ms += 1000;
    help_batch(seg, recs, 0, 0);
    help_batch(seg, recs, 0, 0);
}

/* k-1 was completed; k-2 reached a point; k-3 was started, failed, and was forgotten. */
static void make_sealed(struct golden *golden)
{
    struct help_segment *seg = &golden->sealed;
    struct once__log_record recs[2], k3;

    help_segment_init(seg, header_of(golden, &golden->retired), NULL);
    seg->oldest = 1;
    seg->last_fence = 2;
    recs[0] = replacing(record_of("k-1", ONCE_STATE_COMPLETED, 1, help_now_ms), &golden->retired,
                        0);
    recs[0].record.owner = once_bytes_of("worker-1");
    recs[0].record.code = 201;
    recs[0].record.result = once_bytes_of("{\"id\":42}");
    recs[1] = replacing(record_of("k-2", ONCE_STATE_STARTED, 2, help_now_ms), &golden->retired, 1);
    recs[1].record.point = once_bytes_of("charged");
    recs[1].record.data = (struct once_bytes){.data = golden->store.secret, .size = 5};
    help_batch(seg, recs, 2, 0);
    seg->now_ms += 1000;
    seg->oldest = 2;
    k3 = record_of("k-3", ONCE_STATE_STARTED, 3, seg->now_ms);
    for (uint8_t i = 0; i < ONCE_FINGERPRINT_SIZE; i++)
        k3.record.fingerprint.bytes[i] = (uint8_t)(0xf0 ^ i);
    help_batch(seg, &k3, 1, 0);
    k3 = replacing(k3, seg, 2);
    k3.record.state = ONCE_STATE_FAILED;
    k3.record.result = once_bytes_of("card declined");
    help_batch(seg, &k3, 1, 0);
    k3 = replacing((struct once__log_record){.ns = k3.ns, .key = k3.key}, seg, 3);
    help_batch(seg, &k3, 1, 0);
}

static int by_order(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    uint64_t left = once__sidecar_order(x[0]), right = once__sidecar_order(y[0]);

    return left < right ? -1 : left > right;
}

/* The newest records of the three keys are written[0], [1] and [4]; two replaced older ones. */
static void make_sidecar(struct golden *golden)
{
    static const size_t newest[KEY_COUNT] = {0, 1, 4};
    const struct help_segment *seg = &golden->sealed;
    uint64_t entries[2 * KEY_COUNT], kills[2];
    struct once__sidecar_header header = {.sequence = seg->header.sequence,
                                          .chain = seg->chain,
                                          .end = seg->end,
                                          .entry_count = KEY_COUNT,
                                          .kill_count = 2};

    memcpy(header.store_id, golden->store.id, sizeof header.store_id);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const struct help_written *written = &seg->written[newest[i]];
        struct once__sidecar_entry entry = {.offset = written->offset, .size = written->size};
        struct once__log_record rec;
        uint32_t size;

        once__record_view(seg->bytes + written->offset, &rec, &size);
        entry.hash = once__name_hash(golden->store.secret, rec.ns, rec.key);
        entry.open = rec.record.state == ONCE_STATE_STARTED;
        entry.absent = rec.record.state == ONCE_STATE_ABSENT;
        entry.expires_s = entry.open ? 0 : once__expires_s(rec.record.expires_ms);
        once__sidecar_entry_pack(&entry, entries + 2 * i);
        if (i < 2)
            kills[i] = once__sidecar_kill_pack(
                header.sequence, (struct once__sidecar_kill){.sequence = rec.previous_sequence,
                                                             .offset = rec.previous_offset});
    }
    qsort(entries, KEY_COUNT, ONCE__SIDECAR_ENTRY_SIZE, by_order);
    once_buf_init(&golden->sidecar, 4096);
    HELP_MUST(once__sidecar_encode(&header, entries, kills, &golden->sidecar) == ONCE_OK);
}

/* k-2 is in doubt, k-4 is new, and the store was closed. Two writes were under way at once. */
static void make_active(struct golden *golden)
{
    struct help_segment *seg = &golden->active;
    struct once__log_record rec;

    help_segment_init(seg, header_of(golden, &golden->sealed), golden->retired.bytes);
    seg->oldest = 2;
    seg->last_fence = 3;
    seg->durable--;
    rec = replacing(record_of("k-2", ONCE_STATE_DOUBT, 2, help_now_ms), &golden->sealed, 1);
    rec.record.point = once_bytes_of("charged");
    help_batch(seg, &rec, 1, 0);
    seg->now_ms += 60000;
    rec = record_of("k-4", ONCE_STATE_STARTED, 4, seg->now_ms);
    rec.ns = once_bytes_of("mail");
    help_batch(seg, &rec, 1, ONCE__BATCH_CLOSED);
}

static struct golden make_golden(void)
{
    struct golden golden = {
        .store = {.segment_size = HELP_SEGMENT_SIZE, .created_ms = help_now_ms}};

    for (int i = 0; i < ONCE__STORE_ID_SIZE; i++)
        golden.store.id[i] = (uint8_t)i;
    for (int i = 0; i < ONCE__SECRET_SIZE; i++)
        golden.store.secret[i] = (uint8_t)(i * i * 7 + i * 3 + 1);
    once__store_file_encode(&golden.store, golden.store_bytes);
    make_retired(&golden);
    make_sealed(&golden);
    make_sidecar(&golden);
    make_active(&golden);
    return golden;
}

static void release_golden(struct golden *golden)
{
    help_segment_release(&golden->sealed);
    help_segment_release(&golden->active); /* and with it retired's memory */
    once_buf_release(&golden->sidecar);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void path_of(const char *name, char *path, size_t size)
{
    const char *folder = getenv("ONCE_GOLDEN"), *slash = strrchr(__FILE__, '/');

    if (folder)
        snprintf(path, size, "%s/%s", folder, name);
    else
        snprintf(path, size, "%.*s/../golden/engine/v1/%s", (int)(slash - __FILE__), __FILE__,
                 name);
}

/* Reads a whole file into memory that the caller frees. */
static uint8_t *read_golden(const char *name, size_t *ret_size)
{
    uint8_t *bytes = malloc(HELP_SEGMENT_SIZE + 1);
    char path[4096];
    FILE *file;

    path_of(name, path, sizeof path);
    file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot open %s", path);
    assert_non_null(bytes);
    *ret_size = fread(bytes, 1, HELP_SEGMENT_SIZE + 1, file);
    fclose(file);
    return bytes;
}

static void write_file(const char *folder, const char *name, const uint8_t *bytes, size_t size)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "wb");
    HELP_MUST(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

static void write_all(const char *folder)
{
    struct golden golden = make_golden();

    write_file(folder, "store", golden.store_bytes, sizeof golden.store_bytes);
    write_file(folder, "000000.seg", golden.active.bytes, HELP_SEGMENT_SIZE);
    write_file(folder, "000001.seg", golden.sealed.bytes, HELP_SEGMENT_SIZE);
    write_file(folder, "000001.idx", golden.sidecar.data, golden.sidecar.size);
    release_golden(&golden);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void must_be(const char *name, const uint8_t *bytes, size_t size)
{
    size_t golden_size;
    uint8_t *golden = read_golden(name, &golden_size);

    if (golden_size != size || memcmp(golden, bytes, size) != 0)
        fail_msg("the bytes of %s have changed", name);
    free(golden);
}

static void golden__every_file__is_made_as_it_always_was(void **state)
{
    struct golden golden = make_golden();

    (void)state;
    must_be("store", golden.store_bytes, sizeof golden.store_bytes);
    must_be("000000.seg", golden.active.bytes, HELP_SEGMENT_SIZE);
    must_be("000001.seg", golden.sealed.bytes, HELP_SEGMENT_SIZE);
    must_be("000001.idx", golden.sidecar.data, golden.sidecar.size);
    release_golden(&golden);
}

static void golden__store_file__is_read_as_it_always_was(void **state)
{
    struct once__store_file store;
    size_t size;
    uint8_t *bytes = read_golden("store", &size), again[ONCE__STORE_FILE_SIZE];

    (void)state;
    assert_int_equal(
        once__store_file_decode((struct once_bytes){.data = bytes, .size = size}, &store, NULL),
        ONCE_OK);
    assert_int_equal(store.segment_size, 32768);
    assert_true(store.created_ms == 1700000000000LL);
    assert_int_equal(store.id[15], 15);
    assert_int_equal(store.secret[1], 11);
    once__store_file_encode(&store, again);
    assert_memory_equal(again, bytes, sizeof again);
    free(bytes);
}

/* One line for each record, and its bytes made again. */
struct reader {
    const uint8_t *bytes;
    char text[2048];
    size_t size;
};

static int read_record(void *user, uint32_t offset, uint32_t size,
                       const struct once__log_record *rec)
{
    struct reader *reader = user;
    uint8_t again[512];

    assert_true(size <= sizeof again);
    once__record_encode(rec, again);
    assert_memory_equal(again, reader->bytes + offset, size);
    reader->size += (size_t)snprintf(
        reader->text + reader->size, sizeof reader->text - reader->size,
        "%.*s/%.*s %s %d %d owner=%.*s point=%.*s data=%d result=%.*s code=%d fp=%d prev=%d:%d\n",
        (int)rec->ns.size, rec->ns.data, (int)rec->key.size, rec->key.data,
        once_state_name(rec->record.state), (int)rec->record.fence, (int)rec->record.attempt,
        (int)rec->record.owner.size, rec->record.owner.data, (int)rec->record.point.size,
        rec->record.point.data, (int)rec->record.data.size, (int)rec->record.result.size,
        rec->record.result.data, rec->record.code, rec->record.fingerprint.bytes[0],
        (int)rec->previous_sequence, (int)rec->previous_offset);
    return ONCE_OK;
}

/* Walks the golden segment and compares what it holds. */
static struct once__scan scan_golden(const char *name, uint32_t known_end, const char *expected)
{
    size_t size;
    uint8_t *bytes = read_golden(name, &size), again[ONCE__SEGMENT_HEADER_SIZE];
    struct help_file file = help_file_of(bytes, size);
    struct once__scan_input input = {
        .file = &file.file, .segment_size = HELP_SEGMENT_SIZE, .known_end = known_end};
    struct reader reader = {.bytes = bytes};
    struct once__scan_visitor visitor = {.record = read_record, .user = &reader};
    struct once__scan scan;

    assert_int_equal(once__scan_segment(&input, &visitor, &scan), ONCE_OK);
    assert_string_equal(reader.text, expected);
    once__segment_header_encode(&scan.header, again);
    assert_memory_equal(again, bytes, sizeof again);
    free(bytes);
    return scan;
}

static void golden__segments__are_read_as_they_always_were(void **state)
{
    struct once__scan sealed, active;

    (void)state;
    active = scan_golden(
        "000000.seg", 0,
        "orders/k-2 doubt 2 1 owner= point=charged data=0 result= code=0 fp=0 prev=2:4320\n"
        "mail/k-4 started 4 1 owner= point= data=0 result= code=0 fp=0 prev=0:0\n");
    assert_int_equal(active.ended, ONCE__SCAN_TORN);
    assert_true(active.header.sequence == 3 && active.header.first_batch == 8);
    assert_int_equal(active.end, 3 * ONCE_BLOCK_SIZE);
    assert_true(active.last.number == 9 && active.last.durable == 8 && active.last.oldest == 2);
    assert_true(active.last.last_fence == 4 && active.last.flags == ONCE__BATCH_CLOSED);
    assert_true(active.last.now_ms == 1700000062000LL);
    sealed = scan_golden(
        "000001.seg", active.header.previous_end,
        "orders/k-1 completed 1 1 owner=worker-1 point= data=0 result={\"id\":42} code=201 fp=0 "
        "prev=1:4200\n"
        "orders/k-2 started 2 1 owner= point=charged data=5 result= code=0 fp=0 prev=1:4312\n"
        "orders/k-3 started 3 1 owner= point= data=0 result= code=0 fp=240 prev=0:0\n"
        "orders/k-3 failed 3 1 owner= point= data=0 result=card declined code=0 fp=240 "
        "prev=2:8296\n"
        "orders/k-3 absent 0 0 owner= point= data=0 result= code=0 fp=0 prev=2:12392\n");
    assert_int_equal(sealed.ended, ONCE__SCAN_WHOLE);
    assert_true(sealed.header.sequence == 2 && sealed.header.first_batch == 4);
    assert_true(sealed.chain == active.header.chain);
    assert_true(sealed.next_batch == active.header.first_batch);
}

static void golden__sidecar__is_read_as_it_always_was(void **state)
{
    size_t size;
    uint8_t *bytes = read_golden("000001.idx", &size);
    struct once__sidecar_header header;
    const uint64_t *entries, *kills;
    struct once__sidecar_kill kill;
    int open = 0, absent = 0, ended = 0;

    (void)state;
    assert_int_equal(once__sidecar_decode((struct once_bytes){.data = bytes, .size = size}, &header,
                                          &entries, &kills, NULL),
                     ONCE_OK);
    assert_true(header.sequence == 2 && header.end == 5 * ONCE_BLOCK_SIZE);
    assert_true(header.entry_count == KEY_COUNT && header.kill_count == 2);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        struct once__sidecar_entry entry;

        once__sidecar_entry_unpack(entries + 2 * i, &entry);
        open += entry.open && entry.offset == 4320;
        absent += entry.absent && entry.offset == 16488 && entry.size == 104;
        ended += entry.expires_s == 1700086400 && entry.offset == 4200;
    }
    assert_true(open == 1 && absent == 1 && ended == 1);
    kill = once__sidecar_kill_unpack(header.sequence, kills[1]);
    assert_true(kill.sequence == 1 && kill.offset == 4312);
    free(bytes);
}

int main(void)
{
    const char *folder = getenv("ONCE_GOLDEN_WRITE");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden__every_file__is_made_as_it_always_was),
        cmocka_unit_test(golden__store_file__is_read_as_it_always_was),
        cmocka_unit_test(golden__segments__are_read_as_they_always_were),
        cmocka_unit_test(golden__sidecar__is_read_as_it_always_was),
    };

    if (folder) {
        write_all(folder);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
