/* SPDX-License-Identifier: Apache-2.0
 *
 * The byte layout of objects in a store, held still: today's code makes exactly the folder
 * tests/golden/engine/v1-objects, checks it, opens it, and shows the objects in it.
 *
 *   store        as of tests/golden/engine/v1
 *   000000.seg   sequence 1: three changes, the second without a key
 *   objects      a snapshot that was begun after the first change, and may have the second
 *
 * ONCE_GOLDEN_WRITE names a folder in which to write what today's code makes, for a new version of
 * the format.
 */
#include "seeded.h"

#include "disk/disk.h"
#include "engine/check.h"
#include "engine_help.h"
#include "object/object.h"
#include "segment_help.h"

#define LONG_AGO_MS 1700000000000LL

struct golden {
    struct once__store_file store;
    uint8_t store_bytes[ONCE__STORE_FILE_SIZE];
    struct help_segment segment;
    struct once_buf snapshot;
};

/* ---- What is in it --------------------------------------------------------------------------- */

static void add_edit(struct once_buf *out, struct once__edit edit, const char *name)
{
    edit.name = once_bytes_of(name);
    HELP_MUST(once__edit_encode(&edit, out) == ONCE_OK);
}

static void make_first(struct once_buf *out)
{
    struct once__edit edit = {.kind = ONCE__EDIT_COUNTER, .to.counter = -100};

    add_edit(out, edit, "counter");
    edit = (struct once__edit){
        .kind = ONCE__EDIT_REGISTER,
        .to.reg = {.version = 7, .present = true, .value = once_bytes_of("one")}};
    add_edit(out, edit, "register");
    edit = (struct once__edit){.kind = ONCE__EDIT_MACHINE,
                               .to.machine = {.declared = once_bytes_of("a>b b>c"), .at = 0}};
    add_edit(out, edit, "machine");
    edit = (struct once__edit){
        .kind = ONCE__EDIT_EVENT,
        .to.event = {.number = 1, .id = once_bytes_of("e-1"), .payload = once_bytes_of("paid")}};
    add_edit(out, edit, "log");
    edit = (struct once__edit){.kind = ONCE__EDIT_FENCE, .to.fence = {.granted = 5, .seen = 4}};
    add_edit(out, edit, "fence");
    edit = (struct once__edit){
        .kind = ONCE__EDIT_LEASE,
        .to.lease = {.token = 3, .until_ms = LONG_AGO_MS, .owner = once_bytes_of("me")}};
    add_edit(out, edit, "lease");
    edit = (struct once__edit){.kind = ONCE__EDIT_SEQUENCE, .to.sequence = {.epoch = 2, .next = 9}};
    add_edit(out, edit, "sequence");
    edit = (struct once__edit){.kind = ONCE__EDIT_BUCKET,
                               .to.bucket = {.bucket = once_bytes_of("mon"), .count = 300}};
    add_edit(out, edit, "buckets");
    edit = (struct once__edit){
        .kind = ONCE__EDIT_MESSAGE,
        .to.message = {.number = 1, .group = once_bytes_of("g"), .payload = once_bytes_of("hi")}};
    add_edit(out, edit, "outbox");
}

/* A raised flag, merged. */
static void make_second(struct once_buf *out)
{
    static const uint8_t state[] = {3, 1, 1};
    struct once__edit edit = {
        .kind = ONCE_OBJECT_FLAG,
        .to.merge = {.delta = {.data = state, .size = sizeof state}, .version = 2}};

    add_edit(out, edit, "flag");
}

static void make_third(struct once_buf *out)
{
    struct once__edit edit = {.kind = ONCE__EDIT_COUNTER, .to.counter = 900};

    add_edit(out, edit, "counter");
    edit = (struct once__edit){.kind = ONCE__EDIT_MOVED, .to.moved = 1};
    add_edit(out, edit, "machine");
    edit = (struct once__edit){.kind = ONCE__EDIT_SENT, .to.sent = 1};
    add_edit(out, edit, "outbox");
    edit = (struct once__edit){.kind = ONCE__EDIT_OUTBOX, .to.outbox = 4};
    add_edit(out, edit, "outbox");
}

static struct once__log_record record_of(const char *key, uint64_t fence, uint64_t change,
                                         const struct once_buf *edits)
{
    return (struct once__log_record){
        .ns = once_bytes_of("orders"),
        .key = once_bytes_of(key),
        .record = {.state = ONCE_STATE_COMPLETED,
                   .attempt = 1,
                   .fence = fence,
                   .created_ms = help_now_ms,
                   .lease_end_ms = help_now_ms + 30000,
                   .retention_ms = ONCE_RETENTION_MS_DEFAULT,
                   .expires_ms = help_now_ms + ONCE_RETENTION_MS_DEFAULT,
                   .result = once_bytes_of("[1]")},
        .change = change,
        .edits = once_buf_bytes(edits)};
}

static void add_chunk(struct golden *golden, const struct once__snapshot_header *header,
                      uint64_t number, bool is_end, struct once_bytes bytes)
{
    uint8_t head[ONCE__SNAPSHOT_CHUNK_HEADER_SIZE];

    once__snapshot_chunk_encode(header, number, is_end, bytes, head);
    HELP_MUST(once_buf_append(&golden->snapshot, head, sizeof head) == ONCE_OK);
    HELP_MUST(once_buf_append(&golden->snapshot, bytes.data, bytes.size) == ONCE_OK);
}

static void make_snapshot(struct golden *golden, const struct once_buf *first,
                          const struct once_buf *second)
{
    struct once__snapshot_header header = {.from = 1, .change = 1, .created_ms = help_now_ms};
    struct once__snapshot_end end = {.object_count = 10, .change = 2, .chunk_count = 2};
    uint8_t head[ONCE__SNAPSHOT_HEADER_SIZE], end_bytes[ONCE__SNAPSHOT_END_SIZE];

    memcpy(header.store_id, golden->store.id, sizeof header.store_id);
    once__snapshot_header_encode(&header, head);
    once_buf_init(&golden->snapshot, 4096);
    HELP_MUST(once_buf_append(&golden->snapshot, head, sizeof head) == ONCE_OK);
    add_chunk(golden, &header, 0, false, once_buf_bytes(first));
    add_chunk(golden, &header, 1, false, once_buf_bytes(second));
    once__snapshot_end_encode(&end, end_bytes);
    add_chunk(golden, &header, 2, true, (struct once_bytes){end_bytes, sizeof end_bytes});
}

static void make_golden(struct golden *golden)
{
    struct once__segment_header header = {.segment_size = HELP_SEGMENT_SIZE,
                                          .sequence = 1,
                                          .first_batch = 1,
                                          .created_ms = help_now_ms};
    struct once_buf first, second, third;
    struct once__log_record rec;

    *golden = (struct golden){
        .store = {.segment_size = HELP_SEGMENT_SIZE, .created_ms = help_now_ms}};
    for (int i = 0; i < ONCE__STORE_ID_SIZE; i++)
        golden->store.id[i] = (uint8_t)i;
    for (int i = 0; i < ONCE__SECRET_SIZE; i++)
        golden->store.secret[i] = (uint8_t)(i * i * 7 + i * 3 + 1);
    once__store_file_encode(&golden->store, golden->store_bytes);
    memcpy(header.store_id, golden->store.id, sizeof header.store_id);
    header.salt = once__segment_salt(golden->store.secret, 1);
    once_buf_init(&first, 4096);
    once_buf_init(&second, 4096);
    once_buf_init(&third, 4096);
    make_first(&first);
    make_second(&second);
    make_third(&third);
    help_segment_init(&golden->segment, header, NULL);
    rec = record_of("k-1", 1, 1, &first);
    help_batch(&golden->segment, &rec, 1, 0);
    rec = (struct once__log_record){.change = 2, .edits = once_buf_bytes(&second)};
    help_batch(&golden->segment, &rec, 1, 0);
    rec = record_of("k-2", 2, 3, &third);
    help_batch(&golden->segment, &rec, 1, ONCE__BATCH_CLOSED | ONCE__BATCH_OBJECTS);
    make_snapshot(golden, &first, &second);
    once_buf_release(&first);
    once_buf_release(&second);
    once_buf_release(&third);
}

static void release_golden(struct golden *golden)
{
    help_segment_release(&golden->segment);
    once_buf_release(&golden->snapshot);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static uint8_t *read_golden(const char *name, size_t *ret_size)
{
    const char *slash = strrchr(__FILE__, '/');
    uint8_t *bytes = malloc(HELP_SEGMENT_SIZE + 1);
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%.*s/../golden/engine/v1-objects/%s", (int)(slash - __FILE__),
             __FILE__, name);
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
    struct golden golden;

    make_golden(&golden);
    write_file(folder, "store", golden.store_bytes, sizeof golden.store_bytes);
    write_file(folder, "000000.seg", golden.segment.bytes, HELP_SEGMENT_SIZE);
    write_file(folder, ONCE__OBJECTS_NAME, golden.snapshot.data, golden.snapshot.size);
    release_golden(&golden);
}

static void put_golden(struct disk *disk, const char *name)
{
    struct once__vfs *vfs = disk_mount(disk);
    struct once__file *file;
    size_t size;
    uint8_t *bytes = read_golden(name, &size);

    assert_int_equal(vfs->ops->open(vfs, name, ONCE__OPEN_CREATE | ONCE__OPEN_WRITE, &file), 0);
    assert_int_equal(once__file_write(file, 0, bytes, size), 0);
    assert_int_equal(once__file_sync(file), 0);
    once__file_close(file);
    assert_int_equal(vfs->ops->sync_folder(vfs), 0);
    vfs->ops->free(vfs);
    free(bytes);
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

static void golden_objects__every_file__is_made_as_it_always_was(void **state)
{
    struct golden golden;

    (void)state;
    make_golden(&golden);
    must_be("store", golden.store_bytes, sizeof golden.store_bytes);
    must_be("000000.seg", golden.segment.bytes, HELP_SEGMENT_SIZE);
    must_be(ONCE__OBJECTS_NAME, golden.snapshot.data, golden.snapshot.size);
    release_golden(&golden);
}

static void assert_shown(struct life *life, const char *name, const char *rest)
{
    struct once_object object;
    char text[512], expected[512];

    assert_int_equal(once_object_get(life->store, once_bytes_of(name), &object), ONCE_OK);
    snprintf(text, sizeof text, "%.*s", (int)object.json.size, (const char *)object.json.data);
    snprintf(expected, sizeof expected, "{\"name\":\"%s\",%s}", name, rest);
    assert_string_equal(text, expected);
    once_object_release(&object);
}

static void golden_objects__checked_and_opened__are_what_they_always_were(void **state)
{
    struct once_message message = {""};
    struct once__check *check = NULL;
    struct once__vfs *vfs;
    struct life life;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    put_golden(life.disk, "store");
    put_golden(life.disk, "000000.seg");
    put_golden(life.disk, ONCE__OBJECTS_NAME);
    vfs = disk_mount(life.disk);
    assert_int_equal(once__check_new(vfs, &check, &message), ONCE_OK);
    assert_int_equal(once__check_summary(check)->findings, 0);
    assert_int_equal(once__check_summary(check)->objects, 10);
    assert_int_equal(once__check_summary(check)->changes, 3);
    once__check_free(check);
    vfs->ops->free(vfs);
    life_open(&life);
    assert_int_equal(life_stats(&life).changes, 3);
    assert_int_equal(life_stats(&life).objects, 10);
    assert_shown(&life, "counter", "\"type\":\"counter\",\"value\":900");
    assert_shown(&life, "register",
                 "\"type\":\"register\",\"version\":7,\"present\":true,\"value\":\"one\"");
    assert_shown(&life, "machine",
                 "\"type\":\"machine\",\"state\":\"b\",\"states\":[\"a\",\"b\",\"c\"],\"moves\":["
                 "\"a>b\",\"b>c\"]");
    assert_shown(&life, "fence", "\"type\":\"fence\",\"granted\":5,\"seen\":4");
    assert_shown(&life, "sequence", "\"type\":\"sequence\",\"epoch\":2,\"next\":9");
    assert_shown(&life, "outbox", "\"type\":\"outbox\",\"total\":4,\"waiting\":0");
    assert_shown(&life, "lease",
                 "\"type\":\"lease\",\"token\":3,\"owner\":\"me\",\"until_ms\":1700000000000");
    assert_shown(&life, "buckets", "\"type\":\"buckets\",\"count\":1");
    assert_shown(&life, "log", "\"type\":\"log\",\"version\":1");
    assert_shown(&life, "flag", "\"type\":\"flag\",\"value\":true");
    life_end(&life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_objects__every_file__is_made_as_it_always_was),
        cmocka_unit_test(golden_objects__checked_and_opened__are_what_they_always_were),
    };
    const char *folder = getenv("ONCE_GOLDEN_WRITE");

    if (folder) {
        write_all(folder);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
