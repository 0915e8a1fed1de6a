/* SPDX-License-Identifier: Apache-2.0
 *
 * Check, repair and backup on stores that are built byte by byte on the test disk.
 */
#include "unit/seeded.h"

#include "disk/disk.h"
#include "engine/check.h"
#include "engine/engine.h"
#include "unit/segment_help.h"

enum {
    SEGMENTS = 4,
    BATCHES = 4,
    RECORDS = 3, /* of a batch */
    FIRST = 3,   /* sequence of the oldest segment */
    NAME_SIZE = 32,
    DISK_SIZE = 1 << 24
};

/* ---- A store --------------------------------------------------------------------------------- */

struct batch_place {
    uint64_t number;
    uint32_t slot;
    uint32_t offset, end;
};

struct fixture {
    struct disk *disk;
    struct once__store_file store;
    struct help_segment segments[SEGMENTS];
    struct batch_place batches[SEGMENTS * BATCHES];
    size_t batch_count;
    char names[SEGMENTS * BATCHES * RECORDS][NAME_SIZE];
    size_t name_count;
};

static void put_file(struct disk *disk, const char *name, const void *bytes, size_t size)
{
    struct once__vfs *vfs = disk_mount(disk);
    struct once__file *file;

    assert_int_equal(vfs->ops->open(vfs, name, ONCE__OPEN_CREATE | ONCE__OPEN_WRITE, &file), 0);
    assert_int_equal(once__file_truncate(file, size), 0);
    assert_int_equal(once__file_write(file, 0, bytes, size), 0);
    assert_int_equal(once__file_sync(file), 0);
    once__file_close(file);
    assert_int_equal(vfs->ops->sync_folder(vfs), 0);
    vfs->ops->free(vfs);
}

static void put_segment(struct fixture *fixture, size_t index)
{
    char name[ONCE__NAME_SIZE];

    once__segment_name((uint32_t)index, name);
    put_file(fixture->disk, name, fixture->segments[index].bytes, HELP_SEGMENT_SIZE);
}

/* Records of one batch: new operations; the first one replaces the first of the batch before. */
static void add_batch(struct fixture *fixture, size_t index)
{
    struct help_segment *segment = &fixture->segments[index];
    struct once__log_record recs[RECORDS];
    uint32_t offset = segment->end;

    for (size_t i = 0; i < RECORDS; i++) {
        char *name = fixture->names[fixture->name_count];

        snprintf(name, NAME_SIZE, "key-%zu", fixture->name_count);
        fixture->name_count++;
        recs[i] = (struct once__log_record){
            .ns = once_bytes_of("pay"),
            .key = once_bytes_of(name),
            .record = {.state = i == 1 ? ONCE_STATE_STARTED : ONCE_STATE_COMPLETED,
                       .attempt = 1,
                       .fence = fixture->name_count,
                       .created_ms = segment->now_ms,
                       .lease_end_ms = segment->now_ms + 1000,
                       .retention_ms = 1000000,
                       .expires_ms = segment->now_ms + 1000000,
                       .result = once_bytes_of(i == 1 ? "" : "done")}};
    }
    if (fixture->batch_count > 0) {
        const struct batch_place *before = &fixture->batches[fixture->batch_count - 1];
        size_t old = fixture->name_count - 2 * RECORDS;

        recs[0].key = once_bytes_of(fixture->names[old]);
        memcpy(fixture->names[fixture->name_count - RECORDS], fixture->names[old], NAME_SIZE);
        recs[0].previous_sequence = fixture->segments[before->slot].header.sequence;
        recs[0].previous_offset = before->offset + ONCE__BATCH_HEADER_SIZE;
    }
    segment->now_ms += 10;
    segment->oldest = FIRST;
    fixture->batches[fixture->batch_count++] = (struct batch_place){
        .number = segment->number,
        .slot = (uint32_t)index,
        .offset = offset,
        .end = offset + once__batch_disk_size(help_batch_size(recs, RECORDS))};
    help_batch(segment, recs, RECORDS, 0);
}

static void begin_segment(struct fixture *fixture, size_t index)
{
    struct once__segment_header header = {.segment_size = HELP_SEGMENT_SIZE,
                                          .sequence = FIRST + index,
                                          .first_batch = 50,
                                          .chain = 0xabcdef,
                                          .previous_end = 2 * ONCE_BLOCK_SIZE,
                                          .created_ms = help_now_ms};
    uint64_t fence = 0;

    memcpy(header.store_id, fixture->store.id, sizeof(header.store_id));
    header.salt = once__segment_salt(fixture->store.secret, header.sequence);
    if (index > 0) {
        const struct help_segment *before = &fixture->segments[index - 1];

        header.first_batch = before->number;
        header.chain = before->chain;
        header.previous_end = before->end;
        header.created_ms = before->now_ms;
        fence = before->last_fence;
    }
    help_segment_init(&fixture->segments[index], header, NULL);
    fixture->segments[index].last_fence = fence;
}

static int compare_entries(const void *a, const void *b)
{
    uint64_t x = once__sidecar_order(*(const uint64_t *)a);
    uint64_t y = once__sidecar_order(*(const uint64_t *)b);

    return (x > y) - (x < y);
}

/* The sidecar of a segment, as the engine would make it; change (may be NULL) spoils one entry. */
static void put_sidecar(struct fixture *fixture, size_t index,
                        void (*change)(struct once__sidecar_entry *entry), size_t entry_count,
                        size_t kill_count)
{
    struct help_segment *segment = &fixture->segments[index];
    uint64_t entries[2 * BATCHES * RECORDS], kills[2];
    struct once__sidecar_header header = {
        .sequence = segment->header.sequence, .chain = segment->chain, .end = segment->end};
    char name[ONCE__NAME_SIZE];
    struct once_buf out;
    uint32_t count = 0;

    memcpy(header.store_id, fixture->store.id, sizeof(header.store_id));
    for (size_t i = 0; i < segment->written_count && count < entry_count; i++) {
        const struct help_written *written = &segment->written[i];
        size_t global = index * BATCHES * RECORDS + i;
        struct once__sidecar_entry entry = {
            .hash = once__name_hash(fixture->store.secret, once_bytes_of("pay"),
                                    once_bytes_of(fixture->names[global])) >>
                    20 << 20,
            .offset = written->offset,
            .size = written->size,
            .open = i % RECORDS == 1,
        };

        if (i % RECORDS == 0 && i + RECORDS < segment->written_count)
            continue; /* replaced in this segment */
        if (!entry.open) {
            struct once__log_record rec;
            uint32_t size;

            once__record_view(segment->bytes + written->offset, &rec, &size);
            entry.expires_s = once__expires_s(rec.record.expires_ms);
        }
        if (count < 2 && change) /* an open one and one that has ended */
            change(&entry);
        once__sidecar_entry_pack(&entry, entries + (size_t)2 * count++);
    }
    qsort(entries, count, 2 * sizeof(uint64_t), compare_entries);
    header.entry_count = count;
    for (size_t i = 0; index > 0 && i < kill_count; i++) {
        const struct batch_place *before = &fixture->batches[index * BATCHES - 1];

        /* Only the first is right. */
        kills[i] = once__sidecar_kill_pack(
            header.sequence,
            (struct once__sidecar_kill){.sequence = header.sequence - 1,
                                        .offset = before->offset + ONCE__BATCH_HEADER_SIZE +
                                                  8 * (uint32_t)i});
        header.kill_count++;
    }
    once_buf_init(&out, 1 << 16);
    assert_int_equal(once__sidecar_encode(&header, entries, kills, &out), ONCE_OK);
    once__sidecar_name((uint32_t)index, name);
    put_file(fixture->disk, name, out.data, out.size);
    once_buf_release(&out);
}

static void fixture_init(struct fixture *fixture, uint64_t seed)
{
    uint8_t bytes[ONCE__STORE_FILE_SIZE];

    *fixture = (struct fixture){.disk = disk_new(seed, DISK_SIZE)};
    fixture->store.segment_size = HELP_SEGMENT_SIZE;
    fixture->store.created_ms = help_now_ms;
    for (size_t i = 0; i < sizeof(fixture->store.secret); i++)
        fixture->store.secret[i] = (uint8_t)seeded_next(&seed);
    memset(fixture->store.id, 7, sizeof(fixture->store.id));
    once__store_file_encode(&fixture->store, bytes);
    put_file(fixture->disk, ONCE__STORE_NAME, bytes, sizeof(bytes));
    for (size_t i = 0; i < SEGMENTS; i++) {
        begin_segment(fixture, i);
        for (size_t j = 0; j < BATCHES; j++)
            add_batch(fixture, i);
        put_segment(fixture, i);
    }
    for (size_t i = 0; i + 1 < SEGMENTS; i++)
        put_sidecar(fixture, i, NULL, SIZE_MAX, 1);
}

static void fixture_release(struct fixture *fixture)
{
    for (size_t i = 0; i < SEGMENTS; i++)
        help_segment_release(&fixture->segments[i]);
    disk_free(fixture->disk);
}

static void flip(struct fixture *fixture, const char *name, uint64_t offset)
{
    assert_true(disk_flip(fixture->disk, name, offset, 0x10));
}

static void flip_segment(struct fixture *fixture, uint32_t slot, uint64_t offset)
{
    char name[ONCE__NAME_SIZE];

    once__segment_name(slot, name);
    flip(fixture, name, offset);
}

/* ---- Looking --------------------------------------------------------------------------------- */

struct seen {
    struct once__check_summary summary;
    struct once__finding findings[32];
    size_t count;
    size_t lost;
    char lost_names[64][NAME_SIZE];
    const struct once__check *check;
};

static void note_lost(void *user, const struct once__lost *lost)
{
    struct seen *seen = user;

    assert_true(seen->lost < 64);
    snprintf(seen->lost_names[seen->lost++], NAME_SIZE, "%.*s", (int)lost->record->key.size,
             (const char *)lost->record->key.data);
}

static void note_finding(void *user, const struct once__finding *finding)
{
    struct seen *seen = user;

    assert_true(seen->count < 32);
    seen->findings[seen->count++] = *finding;
    assert_int_equal(once__check_lost(seen->check, finding, note_lost, seen), ONCE_OK);
}

/* Checks, and repairs when asked. */
static struct seen look(struct disk *disk, bool repair)
{
    struct once__vfs *vfs = disk_mount(disk);
    struct once_message message = {{0}};
    struct once__check *check = NULL;
    struct seen seen = {.count = 0};
    uint64_t before = disk_operations(disk);
    int err = once__check_new(vfs, &check, &message);

    if (err != ONCE_OK)
        print_message("%s\n", message.text);
    assert_int_equal(err, ONCE_OK);
    seen.summary = *once__check_summary(check);
    seen.check = check;
    once__check_findings(check, note_finding, &seen);
    assert_int_equal(disk_operations(disk), before); /* a check writes nothing */
    if (repair) {
        err = once__check_repair(check, NULL, NULL, &message);
        if (err != ONCE_OK)
            print_message("%s\n", message.text);
        assert_int_equal(err, ONCE_OK);
    }
    once__check_free(check);
    vfs->ops->free(vfs);
    seen.check = NULL;
    return seen;
}

static const struct once__finding *damage_of(const struct seen *seen, size_t index)
{
    for (size_t i = 0; i < seen->count; i++) {
        if (once__finding_is_damage(&seen->findings[i]) && index-- == 0)
            return &seen->findings[i];
    }
    fail_msg("there is no such damage");
    return NULL;
}

/* Repairs what was just seen, and expects a clean store with this many records. */
static struct seen mend(struct fixture *fixture, uint64_t records)
{
    struct seen seen = look(fixture->disk, true), after;
    uint64_t operations;

    disk_cut(fixture->disk); /* it is durable on return */
    after = look(fixture->disk, false);
    if (after.summary.damages > 0)
        print_message("still: %s %s\n", damage_of(&after, 0)->file, damage_of(&after, 0)->what);
    assert_int_equal(after.summary.damages, 0);
    assert_int_equal(after.summary.records, records);
    operations = disk_operations(fixture->disk);
    (void)look(fixture->disk, true); /* again: nothing to do */
    assert_int_equal(disk_operations(fixture->disk), operations);
    return seen;
}

enum { ALL_RECORDS = SEGMENTS * BATCHES * RECORDS };

/* ---- Clean ----------------------------------------------------------------------------------- */

static void check__clean_store__finds_nothing(void **state)
{
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_init(&fixture, 1);
    seen = look(fixture.disk, false);
    assert_int_equal(seen.count, 0);
    assert_int_equal(seen.summary.segments, SEGMENTS);
    assert_int_equal(seen.summary.batches, SEGMENTS * BATCHES);
    assert_int_equal(seen.summary.records, ALL_RECORDS);
    assert_int_equal(seen.summary.sidecars, SEGMENTS - 1);
    assert_int_equal(seen.summary.oldest, FIRST);
    assert_int_equal(seen.summary.newest, FIRST + SEGMENTS - 1);
    assert_int_equal(seen.summary.last_fence, ALL_RECORDS);
    fixture_release(&fixture);
}

static void check__no_store__says_so(void **state)
{
    struct disk *disk = disk_new(1, DISK_SIZE);
    struct once__vfs *vfs = disk_mount(disk);
    struct once_message message;
    struct once__check *check = NULL;

    (void)state;
    assert_int_equal(once__check_new(vfs, &check, &message), ONCE_ERR_NO_STORE);
    assert_null(check);
    vfs->ops->free(vfs);
    disk_free(disk);
}

/* ---- Batches --------------------------------------------------------------------------------- */

static void check__damaged_record__names_what_is_lost_and_repair_keeps_the_rest(void **state)
{
    struct fixture fixture;
    const struct once__finding *finding;
    const struct batch_place *place;
    struct seen seen;

    (void)state;
    fixture_init(&fixture, 2);
    place = &fixture.batches[BATCHES + 1];
    /* In the second record, an open one. */
    flip_segment(&fixture, 1, fixture.segments[1].written[RECORDS + 1].offset + 40);
    seen = look(fixture.disk, false);
    finding = damage_of(&seen, 0);
    assert_int_equal(finding->kind, ONCE__FINDING_BATCH);
    assert_int_equal(finding->remedy, ONCE__REMEDY_GIVE_UP);
    assert_string_equal(finding->file, "000001.seg");
    assert_int_equal(finding->offset, place->offset);
    assert_int_equal(finding->size, place->end - place->offset);
    assert_int_equal(finding->sequence, FIRST + 1);
    assert_int_equal(finding->loss.batches, 1);
    assert_int_equal(finding->loss.readable, 2);
    assert_int_equal(finding->loss.replaced, 1); /* the batch behind replaced the first one */
    assert_int_equal(finding->loss.unreadable, 1);
    assert_false(finding->loss.more);
    assert_int_equal(seen.lost, 1);
    assert_string_equal(seen.lost_names[0], fixture.names[(BATCHES + 1) * RECORDS + 2]);
    assert_int_equal(seen.summary.damages, 1);
    mend(&fixture, ALL_RECORDS - RECORDS);
    assert_int_equal(disk_file_size(fixture.disk, "000001.seg.damaged"), HELP_SEGMENT_SIZE);
    /* An operation may go back to a record that a sidecar left out: all of them are made again. */
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        char name[ONCE__NAME_SIZE];

        once__sidecar_name(i, name);
        assert_int_equal(disk_file_size(fixture.disk, name), 0);
    }
    fixture_release(&fixture);
}

static void check__damaged_batch_header__still_names_every_record(void **state)
{
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_init(&fixture, 3);
    flip_segment(&fixture, 2, fixture.batches[2 * BATCHES + 2].offset + 30);
    seen = mend(&fixture, ALL_RECORDS - RECORDS);
    assert_int_equal(damage_of(&seen, 0)->loss.readable, RECORDS);
    assert_int_equal(damage_of(&seen, 0)->loss.unreadable, 0);
    assert_false(damage_of(&seen, 0)->loss.more);
    assert_int_equal(seen.lost, RECORDS - 1);
    fixture_release(&fixture);
}

static void check__damage_at_every_batch__is_found_there_and_mended(void **state)
{
    (void)state;
    for (size_t i = 0; i < SEGMENTS * BATCHES - 1; i++) {
        struct fixture fixture;
        struct seen seen;

        fixture_init(&fixture, 4);
        flip_segment(&fixture, fixture.batches[i].slot, fixture.batches[i].offset + 100);
        seen = look(fixture.disk, false);
        assert_int_equal(damage_of(&seen, 0)->kind, ONCE__FINDING_BATCH);
        assert_int_equal(damage_of(&seen, 0)->offset, fixture.batches[i].offset);
        assert_int_equal(damage_of(&seen, 0)->sequence, FIRST + fixture.batches[i].slot);
        mend(&fixture, ALL_RECORDS - RECORDS);
        fixture_release(&fixture);
    }
}

static void check__two_damaged_stretches_in_one_segment__are_both_mended(void **state)
{
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_init(&fixture, 5);
    flip_segment(&fixture, 1, fixture.batches[BATCHES].offset + 50);
    flip_segment(&fixture, 1, fixture.batches[BATCHES + 2].offset + 150);
    flip_segment(&fixture, 1, fixture.batches[BATCHES + 3].offset + 150);
    seen = mend(&fixture, ALL_RECORDS - 3 * RECORDS);
    assert_int_equal(damage_of(&seen, 0)->offset, fixture.batches[BATCHES].offset);
    assert_int_equal(damage_of(&seen, 1)->offset, fixture.batches[BATCHES + 2].offset);
    fixture_release(&fixture);
}

/* The last two batches of the log: the second knows that the first was durable. */
static void check__damaged_end_that_was_durable__goes_on_behind_all_fences(void **state)
{
    struct fixture fixture;
    size_t count;
    struct seen seen;

    (void)state;
    fixture_init(&fixture, 6);
    count = fixture.batch_count;
    flip_segment(&fixture, SEGMENTS - 1, fixture.batches[count - 2].offset + 120);
    flip_segment(&fixture, SEGMENTS - 1, fixture.batches[count - 1].offset + 120);
    mend(&fixture, ALL_RECORDS - 2 * RECORDS);
    seen = look(fixture.disk, false);
    assert_true(seen.summary.last_fence >= ALL_RECORDS);
    fixture_release(&fixture);
}

/* A last batch that is whole and says what we would never write: no tear looks like this. */
static void check__impossible_last_batch__is_given_up_behind_its_fences(void **state)
{
    struct fixture fixture;
    struct help_segment *newest;
    struct once__log_record rec;
    struct seen seen;

    (void)state;
    fixture_init(&fixture, 24);
    newest = &fixture.segments[SEGMENTS - 1];
    rec = (struct once__log_record){
        .ns = once_bytes_of("pay"),
        .key = once_bytes_of("k"),
        .record = {.state = ONCE_STATE_STARTED, .attempt = 1, .fence = 5000, .retention_ms = 1},
        .previous_sequence = newest->header.sequence,
        .previous_offset = HELP_SEGMENT_SIZE - 8};
    help_batch(newest, &rec, 1, 0);
    put_segment(&fixture, SEGMENTS - 1);
    seen = mend(&fixture, ALL_RECORDS);
    assert_int_equal(damage_of(&seen, 0)->kind, ONCE__FINDING_BATCH);
    assert_int_equal(damage_of(&seen, 0)->loss.unreadable + seen.lost, 1);
    seen = look(fixture.disk, false);
    assert_true(seen.summary.last_fence >= 5000);
    fixture_release(&fixture);
}

static void check__torn_tail__is_no_damage(void **state)
{
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_init(&fixture, 7);
    flip_segment(&fixture, SEGMENTS - 1, fixture.batches[fixture.batch_count - 1].offset + 120);
    seen = look(fixture.disk, false);
    assert_int_equal(seen.summary.damages, 0);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.findings[0].kind, ONCE__FINDING_TORN);
    assert_int_equal(seen.findings[0].offset, fixture.batches[fixture.batch_count - 1].offset);
    assert_int_equal(seen.summary.records, ALL_RECORDS - RECORDS);
    fixture_release(&fixture);
}

static void wipe_header(struct fixture *fixture, size_t index, uint32_t size)
{
    memset(fixture->segments[index].bytes, 0, size);
    put_segment(fixture, index);
}

/* The newest segment was begun, and the end of the one before is not there. */
static void check__tail_torn_over_two_segments__is_no_damage(void **state)
{
    struct fixture fixture;
    const struct batch_place *last;
    struct help_segment *newest;
    struct seen seen;

    (void)state;
    fixture_init(&fixture, 8);
    last = &fixture.batches[(SEGMENTS - 1) * BATCHES - 1];
    newest = &fixture.segments[SEGMENTS - 1];
    /* One batch in it, made when the last of the segment before was under way. */
    memset(newest->bytes, 0, HELP_SEGMENT_SIZE);
    {
        struct once__segment_header header = newest->header;
        uint8_t *bytes = newest->bytes;

        help_segment_init(newest, header, bytes);
        newest->oldest = FIRST;
        newest->last_fence = ALL_RECORDS;
        newest->durable = last->number - 1;
        help_batch(newest, NULL, 0, 0);
    }
    put_segment(&fixture, SEGMENTS - 1);
    flip_segment(&fixture, SEGMENTS - 2, last->offset + 120);
    assert_true(disk_remove(fixture.disk, "000002.idx"));
    seen = look(fixture.disk, false);
    assert_int_equal(seen.summary.damages, 0);
    assert_int_equal(seen.summary.newest, FIRST + SEGMENTS - 2);
    assert_int_equal(seen.summary.records, ALL_RECORDS - BATCHES * RECORDS - RECORDS);

    /* A start has discarded it since: its batch still lies there. */
    wipe_header(&fixture, SEGMENTS - 1, ONCE_BLOCK_SIZE);
    seen = look(fixture.disk, false);
    assert_int_equal(seen.summary.damages, 0);
    assert_int_equal(seen.summary.newest, FIRST + SEGMENTS - 2);

    /* The same, but the newest knows that the end was durable. */
    help_segment_init(newest, newest->header, newest->bytes);
    newest->oldest = FIRST;
    newest->last_fence = ALL_RECORDS;
    help_batch(newest, NULL, 0, 0);
    put_segment(&fixture, SEGMENTS - 1);
    seen = look(fixture.disk, false);
    assert_int_equal(seen.summary.damages, 1);
    assert_int_equal(damage_of(&seen, 0)->offset, last->offset);
    mend(&fixture, ALL_RECORDS - BATCHES * RECORDS - RECORDS);
    fixture_release(&fixture);
}

/* ---- Headers and whole segments -------------------------------------------------------------- */

static void check__damaged_header__is_made_again_and_nothing_is_lost(void **state)
{
    (void)state;
    for (size_t i = 0; i < SEGMENTS; i++) {
        for (int wiped = 0; wiped < 2; wiped++) {
            struct fixture fixture;
            struct seen seen;

            fixture_init(&fixture, 9);
            if (wiped)
                wipe_header(&fixture, i, ONCE_BLOCK_SIZE);
            else
                flip_segment(&fixture, (uint32_t)i, 33);
            seen = mend(&fixture, ALL_RECORDS);
            assert_int_equal(damage_of(&seen, 0)->kind, ONCE__FINDING_HEADER);
            assert_int_equal(damage_of(&seen, 0)->sequence, FIRST + i);
            assert_int_equal(seen.summary.damages, 1);
            fixture_release(&fixture);
        }
    }
}

static void check__header_and_first_batch_damaged__loses_that_batch_only(void **state)
{
    (void)state;
    for (size_t i = 0; i < SEGMENTS; i++) {
        struct fixture fixture;
        struct seen seen;

        fixture_init(&fixture, 10);
        flip_segment(&fixture, (uint32_t)i, 33);
        flip_segment(&fixture, (uint32_t)i, ONCE_BLOCK_SIZE + 20);
        seen = mend(&fixture, ALL_RECORDS - RECORDS);
        assert_int_equal(damage_of(&seen, 0)->kind, ONCE__FINDING_HEADER);
        assert_int_equal(damage_of(&seen, 1)->kind, ONCE__FINDING_BATCH);
        assert_int_equal(damage_of(&seen, 1)->loss.batches, 1);
        fixture_release(&fixture);
    }
}

static void check__missing_segments__are_made_and_the_rest_is_kept(void **state)
{
    (void)state;
    for (size_t first = 0; first + 1 < SEGMENTS; first++) {
        for (size_t last = first; last + 1 < SEGMENTS; last++) {
            struct fixture fixture;
            uint64_t batches = 0;
            struct seen seen;

            fixture_init(&fixture, 11);
            for (size_t i = first; i <= last; i++) {
                char name[ONCE__NAME_SIZE];

                once__segment_name((uint32_t)i, name);
                assert_true(disk_remove(fixture.disk, name));
            }
            seen = mend(&fixture, ALL_RECORDS - (last - first + 1) * BATCHES * RECORDS);
            for (size_t i = 0; i <= last - first; i++) {
                assert_int_equal(damage_of(&seen, i)->kind, ONCE__FINDING_MISSING);
                assert_int_equal(damage_of(&seen, i)->sequence, FIRST + first + i);
                batches += damage_of(&seen, i)->loss.batches;
                /* The sidecar says how many there were: all but the replaced ones. */
                assert_false(damage_of(&seen, i)->loss.more);
                assert_int_equal(damage_of(&seen, i)->loss.unreadable, BATCHES * (RECORDS - 1));
            }
            if (first > 0)
                assert_int_equal(batches, (last - first + 1) * BATCHES);
            fixture_release(&fixture);
        }
    }
}

static void check__short_file__is_extended(void **state)
{
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_init(&fixture, 12);
    put_file(fixture.disk, "000001.seg", fixture.segments[1].bytes, fixture.segments[1].end);
    seen = mend(&fixture, ALL_RECORDS);
    assert_int_equal(damage_of(&seen, 0)->kind, ONCE__FINDING_SIZE);
    assert_int_equal(disk_file_size(fixture.disk, "000001.seg"), HELP_SEGMENT_SIZE);
    fixture_release(&fixture);
}

static void check__segment_of_another_store__becomes_a_spare(void **state)
{
    struct fixture fixture;
    struct once__segment_header header;
    uint8_t *bytes = calloc(1, HELP_SEGMENT_SIZE);
    struct seen seen;

    (void)state;
    assert_non_null(bytes);
    fixture_init(&fixture, 13);
    header = fixture.segments[0].header;
    header.store_id[0] ^= 1;
    once__segment_header_encode(&header, bytes);
    put_file(fixture.disk, "000009.seg", bytes, HELP_SEGMENT_SIZE);
    seen = mend(&fixture, ALL_RECORDS);
    assert_int_equal(damage_of(&seen, 0)->kind, ONCE__FINDING_STRAY);
    seen = look(fixture.disk, false);
    assert_int_equal(seen.summary.spares, 1);
    free(bytes);
    fixture_release(&fixture);
}

static void check__foreign_chain__cannot_be_mended(void **state)
{
    struct fixture fixture;
    struct once__segment_header header;
    struct seen seen;

    (void)state;
    fixture_init(&fixture, 14);
    header = fixture.segments[1].header;
    header.chain ^= 1;
    help_segment_release(&fixture.segments[1]);
    help_segment_init(&fixture.segments[1], header, NULL);
    fixture.segments[1].oldest = FIRST;
    fixture.segments[1].last_fence = 1000;
    for (size_t i = 0; i < BATCHES; i++)
        help_batch(&fixture.segments[1], NULL, 0, 0);
    put_segment(&fixture, 1);
    seen = look(fixture.disk, false);
    assert_true(seen.summary.damages > seen.summary.repairs);
    fixture_release(&fixture);
}

static void check__store_file_damaged__is_made_again(void **state)
{
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_init(&fixture, 15);
    flip(&fixture, ONCE__STORE_NAME, 100);
    seen = mend(&fixture, ALL_RECORDS);
    assert_int_equal(damage_of(&seen, 0)->kind, ONCE__FINDING_STORE);
    fixture_release(&fixture);
    fixture_init(&fixture, 15);
    assert_true(disk_remove(fixture.disk, ONCE__STORE_NAME));
    mend(&fixture, ALL_RECORDS);
    fixture_release(&fixture);
}

static void check__time_and_fences_that_run_back__are_found(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        struct fixture fixture;
        struct help_segment *newest;
        struct seen seen;

        fixture_init(&fixture, 16);
        newest = &fixture.segments[SEGMENTS - 1];
        if (which == 0)
            newest->now_ms -= 1000;
        else if (which == 1)
            newest->last_fence -= 10;
        else
            newest->oldest -= 1;
        if (which < 2)
            help_batch(newest, NULL, 0, 0);
        else
            newest->oldest = FIRST;
        put_segment(&fixture, SEGMENTS - 1);
        seen = look(fixture.disk, false);
        assert_int_equal(seen.summary.damages, which < 2);
        if (which < 2) {
            assert_int_equal(damage_of(&seen, 0)->kind, ONCE__FINDING_ORDER);
            assert_int_equal(damage_of(&seen, 0)->remedy, ONCE__REMEDY_NONE);
        }
        fixture_release(&fixture);
    }
}

/* ---- Sidecars -------------------------------------------------------------------------------- */

static void other_hash(struct once__sidecar_entry *entry)
{
    entry->hash ^= 1ULL << 40;
}
static void other_size(struct once__sidecar_entry *entry)
{
    entry->size += 8;
}
static void other_offset(struct once__sidecar_entry *entry)
{
    entry->offset += 8;
}
static void other_expiry(struct once__sidecar_entry *entry)
{
    entry->expires_s += entry->open ? 0 : 1;
}
static void other_state(struct once__sidecar_entry *entry)
{
    entry->open = false; /* where it expires is not seen by its expiry: that is 0 */
}

static void check__sidecar_that_does_not_fit__is_deleted(void **state)
{
    static const struct {
        void (*change)(struct once__sidecar_entry *entry);
        size_t entry_count;
        size_t kill_count;
    } cases[] = {
        {other_hash, SIZE_MAX, 1},
        {other_size, SIZE_MAX, 1},
        {other_offset, SIZE_MAX, 1},
        {other_state, SIZE_MAX, 1},
        {NULL, 3, 1},
        {NULL, SIZE_MAX, 0},
        {NULL, SIZE_MAX, 2},
        {other_expiry, SIZE_MAX, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture fixture;
        struct seen seen;

        fixture_init(&fixture, 17);
        put_sidecar(&fixture, 1, cases[i].change, cases[i].entry_count, cases[i].kill_count);
        seen = mend(&fixture, ALL_RECORDS);
        assert_int_equal(seen.summary.damages, 1);
        assert_int_equal(damage_of(&seen, 0)->kind, ONCE__FINDING_SIDECAR);
        assert_int_equal(damage_of(&seen, 0)->remedy, ONCE__REMEDY_DELETE);
        assert_string_equal(damage_of(&seen, 0)->file, "000001.idx");
        assert_int_equal(disk_file_size(fixture.disk, "000001.idx"), 0);
        assert_true(disk_file_size(fixture.disk, "000000.idx") > 0);
        fixture_release(&fixture);
    }
}

static void check__flipped_bit_in_a_sidecar__is_found_wherever_it_is(void **state)
{
    struct fixture fixture;
    uint64_t size;

    (void)state;
    fixture_init(&fixture, 18);
    size = disk_file_size(fixture.disk, "000001.idx");
    for (uint64_t at = 0; at < size; at++) {
        struct seen seen;

        flip(&fixture, "000001.idx", at);
        seen = look(fixture.disk, false);
        assert_int_equal(seen.summary.damages, 1);
        assert_int_equal(damage_of(&seen, 0)->kind, ONCE__FINDING_SIDECAR);
        flip(&fixture, "000001.idx", at);
    }
    fixture_release(&fixture);
}

/* ---- Cut off, and at random ------------------------------------------------------------------ */

static void spoil(struct fixture *fixture)
{
    flip_segment(fixture, 0, fixture->batches[1].offset + 100);
    flip_segment(fixture, 1, 40);
    flip_segment(fixture, 1, ONCE_BLOCK_SIZE + 20);
    assert_true(disk_remove(fixture->disk, "000002.seg"));
    flip_segment(fixture, 3, fixture->batches[3 * BATCHES + 1].offset + 100);
    flip(fixture, "000000.idx", 70);
}

enum { SPOILED_RECORDS = ALL_RECORDS - (3 + BATCHES) * RECORDS };

static void repair__cut_off_anywhere__ends_the_same(void **state)
{
    uint64_t seed = seeded_start("repair cut off"), operations, begun;
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, seed);
    spoil(&fixture);
    begun = disk_operations(fixture.disk);
    mend(&fixture, SPOILED_RECORDS);
    operations = disk_operations(fixture.disk) - begun;
    fixture_release(&fixture);
    assert_true(operations > 10);
    for (uint64_t cut = 1; cut <= operations; cut++) {
        struct once_message message;
        struct once__check *check = NULL;
        struct once__vfs *vfs;

        fixture_init(&fixture, seed + cut);
        spoil(&fixture);
        begun = disk_operations(fixture.disk);
        disk_set_faults(fixture.disk, &(struct disk_faults){.cut_at = begun + cut});
        vfs = disk_mount(fixture.disk);
        assert_int_equal(once__check_new(vfs, &check, &message), ONCE_OK);
        (void)!once__check_repair(check, NULL, NULL, &message);
        once__check_free(check);
        vfs->ops->free(vfs);
        disk_set_faults(fixture.disk, &(struct disk_faults){0});
        disk_cut(fixture.disk);
        mend(&fixture, SPOILED_RECORDS);
        fixture_release(&fixture);
    }
}

/* What the engine itself says of the store. */
static int open_store(struct disk *disk)
{
    struct once__engine_setup setup = {
        .vfs = disk_mount(disk), .time = &once__system_time, .manual = true};
    struct once_message message = {{0}};
    struct once_store *store = NULL;
    int err = once__engine_open(&setup, &store, &message);

    if (err == ONCE_OK)
        once__engine_crash(store);
    return err;
}

/* Flips up to six bits in segments from first to last, and says which batches were hit. */
static void flip_some(struct fixture *fixture, uint64_t *random, uint32_t last,
                      bool hit[SEGMENTS * BATCHES])
{
    for (uint64_t i = 1 + seeded_below(random, 6); i > 0; i--) {
        uint32_t slot = (uint32_t)seeded_below(random, last + 1);
        uint64_t offset = seeded_below(random, fixture->segments[slot].end);

        flip_segment(fixture, slot, offset);
        for (size_t j = 0; j < fixture->batch_count; j++)
            hit[j] = hit[j] ||
                     (fixture->batches[j].slot == slot && offset >= fixture->batches[j].offset &&
                      offset < fixture->batches[j].end);
    }
}

/* Batches that were not hit are there after the repair, and the engine opens the store. */
static void repair__random_flips__keep_every_batch_that_was_not_hit(void **state)
{
    uint64_t seed = seeded_start("random flips");

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct fixture fixture;
        bool hit[SEGMENTS * BATCHES] = {false};
        uint64_t kept = 0;
        struct seen seen;

        fixture_init(&fixture, seed + (uint64_t)round);
        flip_some(&fixture, &seed, SEGMENTS - 2, hit);
        for (size_t j = 0; j < fixture.batch_count; j++)
            kept += hit[j] ? 0 : RECORDS;
        (void)look(fixture.disk, true);
        seen = look(fixture.disk, false);
        assert_int_equal(seen.summary.damages, 0);
        assert_true(seen.summary.records >= kept);
        assert_true(seen.summary.last_fence >= ALL_RECORDS);
        assert_int_equal(open_store(fixture.disk), ONCE_OK);
        fixture_release(&fixture);
    }
}

/* What the check calls clean opens; what does not open the check calls damaged. */
static void check__random_flips__agree_with_the_engine(void **state)
{
    uint64_t seed = seeded_start("check and engine"), refused = 0;

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct fixture fixture;
        bool hit[SEGMENTS * BATCHES] = {false};
        struct seen seen;
        int err;

        fixture_init(&fixture, seed + (uint64_t)round);
        if (seeded_below(&seed, 4) == 0)
            wipe_header(&fixture, seeded_below(&seed, SEGMENTS), ONCE_BLOCK_SIZE);
        flip_some(&fixture, &seed, SEGMENTS - 1, hit);
        for (size_t i = 0; i < SEGMENTS; i++) {
            char name[ONCE__NAME_SIZE];

            once__sidecar_name((uint32_t)i, name);
            (void)disk_remove(fixture.disk, name); /* so that the engine reads everything */
        }
        seen = look(fixture.disk, false);
        err = open_store(fixture.disk);
        assert_true(err == ONCE_OK || err == ONCE_ERR_DAMAGED);
        assert_int_equal(err != ONCE_OK, seen.summary.damages > 0);
        refused += err != ONCE_OK;
        fixture_release(&fixture);
    }
    assert_true(refused > 100 && refused < 300);
}

/* ---- Backup ---------------------------------------------------------------------------------- */

static void note_progress(void *user, uint64_t done, uint64_t all)
{
    uint64_t *last = user;

    assert_true(done <= all);
    *last = done;
}

static int copy(struct fixture *fixture, struct disk *target, struct once_message *ret_message)
{
    struct once__vfs *from = disk_mount(fixture->disk), *to = disk_mount(target);
    uint64_t before = disk_operations(fixture->disk), last = 0;
    int err = once__backup(from, to, note_progress, &last, ret_message);

    assert_int_equal(disk_operations(fixture->disk), before); /* the source is not touched */
    from->ops->free(from);
    to->ops->free(to);
    return err;
}

static void backup__whole_store__is_a_clean_store(void **state)
{
    struct disk *target = disk_new(1, DISK_SIZE);
    struct once_message message = {{0}};
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_init(&fixture, 20);
    assert_int_equal(copy(&fixture, target, &message), ONCE_OK);
    disk_cut(target); /* durable on return */
    seen = look(target, false);
    assert_int_equal(seen.count, 0);
    assert_int_equal(seen.summary.records, ALL_RECORDS);
    assert_int_equal(disk_file_size(target, "000000.seg"), HELP_SEGMENT_SIZE);
    disk_free(target);
    fixture_release(&fixture);
}

static void backup__torn_tail__is_cut(void **state)
{
    struct disk *target = disk_new(1, DISK_SIZE);
    struct once_message message = {{0}};
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_init(&fixture, 21);
    flip_segment(&fixture, SEGMENTS - 1, fixture.batches[fixture.batch_count - 1].offset + 120);
    assert_int_equal(copy(&fixture, target, &message), ONCE_OK);
    seen = look(target, false);
    assert_int_equal(seen.count, 0);
    assert_int_equal(seen.summary.records, ALL_RECORDS - RECORDS);
    disk_free(target);
    fixture_release(&fixture);
}

static void backup__damaged_store__is_refused(void **state)
{
    struct disk *target = disk_new(1, DISK_SIZE);
    struct once_message message = {{0}};
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, 22);
    flip_segment(&fixture, 1, fixture.batches[BATCHES + 1].offset + 120);
    assert_int_equal(copy(&fixture, target, &message), ONCE_ERR_DAMAGED);
    assert_non_null(strstr(message.text, "segment 4"));
    disk_free(target);
    fixture_release(&fixture);

    target = disk_new(1, DISK_SIZE);
    fixture_init(&fixture, 22);
    assert_true(disk_remove(fixture.disk, "000001.seg"));
    assert_int_not_equal(copy(&fixture, target, &message), ONCE_OK);
    disk_free(target);
    fixture_release(&fixture);
}

static void backup__full_target__is_refused(void **state)
{
    struct disk *target = disk_new(1, 2 * HELP_SEGMENT_SIZE);
    struct once_message message = {{0}};
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, 23);
    assert_int_equal(copy(&fixture, target, &message), ONCE_ERR_SPACE);
    disk_free(target);
    fixture_release(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check__clean_store__finds_nothing),
        cmocka_unit_test(check__no_store__says_so),
        cmocka_unit_test(check__damaged_record__names_what_is_lost_and_repair_keeps_the_rest),
        cmocka_unit_test(check__damaged_batch_header__still_names_every_record),
        cmocka_unit_test(check__damage_at_every_batch__is_found_there_and_mended),
        cmocka_unit_test(check__two_damaged_stretches_in_one_segment__are_both_mended),
        cmocka_unit_test(check__damaged_end_that_was_durable__goes_on_behind_all_fences),
        cmocka_unit_test(check__impossible_last_batch__is_given_up_behind_its_fences),
        cmocka_unit_test(check__torn_tail__is_no_damage),
        cmocka_unit_test(check__tail_torn_over_two_segments__is_no_damage),
        cmocka_unit_test(check__damaged_header__is_made_again_and_nothing_is_lost),
        cmocka_unit_test(check__header_and_first_batch_damaged__loses_that_batch_only),
        cmocka_unit_test(check__missing_segments__are_made_and_the_rest_is_kept),
        cmocka_unit_test(check__short_file__is_extended),
        cmocka_unit_test(check__segment_of_another_store__becomes_a_spare),
        cmocka_unit_test(check__foreign_chain__cannot_be_mended),
        cmocka_unit_test(check__store_file_damaged__is_made_again),
        cmocka_unit_test(check__time_and_fences_that_run_back__are_found),
        cmocka_unit_test(check__sidecar_that_does_not_fit__is_deleted),
        cmocka_unit_test(check__flipped_bit_in_a_sidecar__is_found_wherever_it_is),
        cmocka_unit_test(repair__cut_off_anywhere__ends_the_same),
        cmocka_unit_test(repair__random_flips__keep_every_batch_that_was_not_hit),
        cmocka_unit_test(check__random_flips__agree_with_the_engine),
        cmocka_unit_test(backup__whole_store__is_a_clean_store),
        cmocka_unit_test(backup__torn_tail__is_cut),
        cmocka_unit_test(backup__damaged_store__is_refused),
        cmocka_unit_test(backup__full_target__is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
