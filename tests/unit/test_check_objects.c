/* SPDX-License-Identifier: Apache-2.0
 *
 * Check, repair and backup of stores with objects, which the engine itself makes on the test disk:
 * what the check calls clean opens, what it calls damaged does not, and what a repair leaves opens
 * with everything that was still to be read.
 */
#include "unit/seeded.h"

#include <once/apply.h>

#include "disk/disk.h"
#include "engine/check.h"
#include "engine_help.h"
#include "object/object.h"

enum { COUNTERS = 20, PAYLOAD = 600, FINDINGS_MAX = 64, SHORT_MS = 1000, LONG_MS = 86400000 };

/* ---- Making objects -------------------------------------------------------------------------- */

static void apply(struct life *life, const char *key, once_ms ttl_ms, const char *const *texts)
{
    struct once_bytes words[4][8];
    uint8_t scratch[4][PAYLOAD + 100];
    struct once_do dos[4];
    struct once_op op = {.call = ONCE_CALL_APPLY, .ttl_ms = ttl_ms, .dos = dos};
    int err;

    for (; texts[op.do_count]; op.do_count++) {
        size_t at = op.do_count, count;
        struct once_defect defect;

        assert_int_equal(
            once_do_split(once_bytes_of(texts[at]), scratch[at], words[at], 8, &count, &defect),
            ONCE_OK);
        dos[at] = (struct once_do){words[at], count};
    }
    err = life_call(life, &op, key);
    if (err != ONCE_OK)
        fail_msg("%s: %s: %s", key, once_err_name(err), op.reply.what ? op.reply.what : "");
    assert_int_equal(op.reply.word, ONCE_APPLIED);
    once_reply_release(&op.reply);
}

/* The number-th turn: a counter of all, one of COUNTERS, an event; then a set, without a key. */
static void turn(struct life *life, unsigned number, once_ms ttl_ms)
{
    char key[LIFE_KEY_SIZE], counter[64], event[PAYLOAD + 64], member[64];

    snprintf(key, sizeof(key), "turn-%u", number);
    snprintf(counter, sizeof(counter), "ADD c:%u 1", number % COUNTERS);
    snprintf(event, sizeof(event), "APPEND history e-%u %0*u", number, PAYLOAD, number);
    snprintf(member, sizeof(member), "UNION seen m-%u", number);
    apply(life, key, ttl_ms, (const char *const[]){"ADD total 1", counter, event, NULL});
    apply(life, "", 0, (const char *const[]){member, NULL});
    life_pass(life, 10);
}

static void turns(struct life *life, unsigned count, once_ms ttl_ms, unsigned *number)
{
    for (unsigned i = 0; i < count; i++)
        turn(life, (*number)++, ttl_ms);
}

/* Turns, with the work behind the scenes, until there are so many snapshots since it was opened. */
static void until_snapshots(struct life *life, uint64_t count, once_ms ttl_ms, unsigned *number)
{
    while (life_stats(life).snapshots < count) {
        turns(life, 8, ttl_ms, number);
        life_work(life);
        assert_true(*number < 20000);
    }
}

static void assert_counter(struct life *life, const char *name, unsigned value)
{
    struct once_object object;
    char text[256], expected[256];

    assert_int_equal(once_object_get(life->store, once_bytes_of(name), &object), ONCE_OK);
    assert_true(object.json.size < sizeof(text));
    snprintf(text, sizeof(text), "%.*s", (int)object.json.size, (const char *)object.json.data);
    snprintf(expected, sizeof(expected), "{\"name\":\"%s\",\"type\":\"counter\",\"value\":%u}",
             name, value);
    assert_string_equal(text, expected);
    once_object_release(&object);
}

/* All counters are what so many turns make of them. */
static void assert_counters(struct life *life, unsigned number)
{
    assert_counter(life, "total", number);
    for (unsigned i = 0; i < COUNTERS && i < number; i++) {
        char name[16];

        snprintf(name, sizeof(name), "c:%u", i);
        assert_counter(life, name, number / COUNTERS + (number % COUNTERS > i ? 1 : 0));
    }
}

/* ---- Looking --------------------------------------------------------------------------------- */

struct seen {
    struct once__check_summary summary;
    struct once__finding findings[FINDINGS_MAX];
    size_t count;
    uint64_t lost_operations, lost_changes; /* that could be read */
    const struct once__check *check;
};

static void note_lost(void *user, const struct once__lost *lost)
{
    struct seen *seen = user;

    assert_true(lost->operation || lost->change);
    assert_true(!lost->operation || lost->record->key.size > 0);
    assert_true(!lost->change || lost->record->change > 0);
    seen->lost_operations += lost->operation;
    seen->lost_changes += lost->change;
}

static void note_finding(void *user, const struct once__finding *finding)
{
    struct seen *seen = user;

    assert_true(seen->count < FINDINGS_MAX);
    seen->findings[seen->count++] = *finding;
    assert_int_equal(once__check_lost(seen->check, finding, note_lost, seen), ONCE_OK);
}

static struct seen look(struct disk *disk, bool repair)
{
    struct once__vfs *vfs = disk_mount(disk);
    struct once_message message = {{0}};
    struct once__check *check = NULL;
    struct seen seen = {.count = 0};
    uint64_t before = disk_operations(disk);
    int err = once__check_new(vfs, &check, &message);

    if (err != ONCE_OK)
        fail_msg("check: %s", message.text);
    seen.summary = *once__check_summary(check);
    seen.check = check;
    once__check_findings(check, note_finding, &seen);
    assert_int_equal(disk_operations(disk), before); /* a check writes nothing */
    if (repair)
        err = once__check_repair(check, NULL, NULL, &message);
    if (err != ONCE_OK)
        fail_msg("repair: %s", message.text);
    once__check_free(check);
    vfs->ops->free(vfs);
    seen.check = NULL;
    return seen;
}

static const struct once__finding *damage_of(const struct seen *seen)
{
    for (size_t i = 0; i < seen->count; i++) {
        if (once__finding_is_damage(&seen->findings[i]))
            return &seen->findings[i];
    }
    fail_msg("there is no damage");
    return NULL;
}

static void assert_clean(struct disk *disk)
{
    struct seen seen = look(disk, false);

    if (seen.summary.damages > 0)
        fail_msg("%s %" PRIu64 ": %s", damage_of(&seen)->file, damage_of(&seen)->offset,
                 damage_of(&seen)->what);
}

/* Refused, then repaired, then clean and durable; open at the end. */
static struct seen mend(struct life *life)
{
    struct once_message message = {""};
    uint64_t operations;
    struct seen seen;

    assert_int_equal(life_try_open(life, &message), ONCE_ERR_DAMAGED);
    seen = look(life->disk, true);
    assert_true(seen.summary.damages > 0);
    assert_int_equal(seen.summary.damages, seen.summary.repairs);
    disk_cut(life->disk);
    assert_clean(life->disk);
    operations = disk_operations(life->disk);
    (void)look(life->disk, true); /* again: nothing to do */
    assert_int_equal(disk_operations(life->disk), operations);
    life_open(life);
    return seen;
}

/* Goes on for many segments and snapshots, and opens again and again. */
static void go_on(struct life *life, unsigned *number)
{
    for (int i = 0; i < 4; i++) {
        turns(life, 60, SHORT_MS, number);
        life_work(life);
        life_again(life, (enum life_end)(i % LIFE_END_COUNT));
        life_close(life);
        assert_clean(life->disk);
        life_open(life);
    }
}

/* ---- Whole files ----------------------------------------------------------------------------- */

struct image {
    uint8_t *bytes;
    size_t size;
};

static struct image take(struct disk *disk, const char *name)
{
    struct image image = {.size = disk_file_size(disk, name)};

    image.bytes = malloc(image.size + 1);
    assert_non_null(image.bytes);
    assert_true(image.size > 0 && disk_peek(disk, name, 0, image.bytes, image.size));
    return image;
}

static void put(struct disk *disk, const char *name, const void *bytes, size_t size)
{
    struct once__vfs *vfs = disk_mount(disk);
    struct once__file *file;

    assert_int_equal(vfs->ops->open(vfs, name, ONCE__OPEN_CREATE | ONCE__OPEN_WRITE, &file), 0);
    assert_int_equal(once__file_truncate(file, 0), 0);
    assert_int_equal(once__file_write(file, 0, bytes, size), 0);
    assert_int_equal(once__file_sync(file), 0);
    once__file_close(file);
    assert_int_equal(vfs->ops->sync_folder(vfs), 0);
    vfs->ops->free(vfs);
}

/* Slot of the segment in use with the highest sequence below the newest that has changes, and the
 * offset of its second batch. */
static uint32_t sealed_slot(struct disk *disk)
{
    uint64_t best = 0, newest = 0;
    uint32_t slot = UINT32_MAX, newest_slot = UINT32_MAX;

    for (uint32_t i = 0; i < 64; i++) {
        uint8_t block[ONCE_BLOCK_SIZE];
        struct once__segment_header header;
        char name[ONCE__NAME_SIZE];

        once__segment_name(i, name);
        if (!disk_peek(disk, name, 0, block, sizeof(block)) ||
            once__segment_header_decode((struct once_bytes){block, sizeof(block)}, &header, NULL) !=
                ONCE_OK)
            continue;
        if (header.sequence > newest) {
            best = newest;
            slot = newest_slot;
            newest = header.sequence;
            newest_slot = i;
        } else if (header.sequence > best) {
            best = header.sequence;
            slot = i;
        }
    }
    assert_true(slot != UINT32_MAX);
    return slot;
}

static void remove_sidecars(struct disk *disk)
{
    for (uint32_t i = 0; i < 256; i++) {
        char name[ONCE__NAME_SIZE];

        once__sidecar_name(i, name);
        (void)disk_remove(disk, name);
    }
}

/* A closed store with a snapshot, segments behind it, and retired ones before it. */
static unsigned begin_store(struct life *life)
{
    unsigned number = 0;

    life_begin(life);
    until_snapshots(life, 2, SHORT_MS, &number);
    turns(life, 40, SHORT_MS, &number);
    assert_true(life_stats(life).segments_retired > 0);
    life_close(life);
    return number;
}

/* ---- Clean ----------------------------------------------------------------------------------- */

static void check__store_with_objects__is_clean_and_counts_them(void **state)
{
    struct life life;
    struct seen seen;
    unsigned number;

    (void)state;
    number = begin_store(&life);
    seen = look(life.disk, false);
    assert_int_equal(seen.count, 0);
    assert_int_equal(seen.summary.objects, COUNTERS + 3);
    assert_true(seen.summary.sidecars > 0);
    assert_int_equal(seen.summary.snapshot_size, disk_file_size(life.disk, ONCE__OBJECTS_NAME));
    assert_true(seen.summary.changes > 0 && seen.summary.changes < seen.summary.last_change);
    life_open(&life);
    assert_int_equal(seen.summary.last_change, life_stats(&life).changes);
    assert_counters(&life, number);
    life_end(&life);
}

static void check__unfinished_snapshot__is_a_note(void **state)
{
    struct life life;
    struct seen seen;
    unsigned number;

    (void)state;
    number = begin_store(&life);
    put(life.disk, ONCE__OBJECTS_NEW_NAME, "half", 4);
    seen = look(life.disk, false);
    assert_int_equal(seen.summary.damages, 0);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.findings[0].kind, ONCE__FINDING_LEFTOVER);
    assert_string_equal(seen.findings[0].file, ONCE__OBJECTS_NEW_NAME);
    life_open(&life);
    assert_counters(&life, number);
    assert_int_equal(disk_file_size(life.disk, ONCE__OBJECTS_NEW_NAME), 0);
    life_end(&life);
}

static void check__sidecar_with_a_wrong_count_of_changes__is_deleted(void **state)
{
    struct life life;
    struct once__sidecar_header header;
    const uint64_t *entries, *kills;
    struct once_defect defect;
    struct once_buf out;
    struct image image;
    struct seen seen;
    char name[ONCE__NAME_SIZE] = "";
    unsigned number = 0;

    (void)state;
    life_begin(&life);
    turns(&life, 12, LONG_MS, &number); /* too few for a snapshot */
    life_work(&life);
    life_close(&life);
    for (uint32_t i = 0; disk_file_size(life.disk, name) == 0; i++) {
        assert_true(i < 64);
        once__sidecar_name(i, name);
    }
    image = take(life.disk, name);
    assert_int_equal(once__sidecar_decode((struct once_bytes){image.bytes, image.size}, &header,
                                          &entries, &kills, &defect),
                     ONCE_OK);
    assert_true(header.change_count > 0);
    header.change_count = 0; /* opening would leave its changes out */
    once_buf_init(&out, 1 << 20);
    assert_int_equal(once__sidecar_encode(&header, entries, kills, &out), ONCE_OK);
    put(life.disk, name, out.data, out.size);
    seen = look(life.disk, true);
    assert_int_equal(seen.summary.damages, 1);
    assert_int_equal(damage_of(&seen)->kind, ONCE__FINDING_SIDECAR);
    assert_non_null(strstr(damage_of(&seen)->what, "changes"));
    assert_clean(life.disk);
    life_open(&life);
    assert_counters(&life, number);
    once_buf_release(&out);
    free(image.bytes);
    life_end(&life);
}

/* ---- The snapshot ---------------------------------------------------------------------------- */

static void check__snapshot_flipped_anywhere__is_found_and_the_rest_is_kept(void **state)
{
    uint64_t seed = seeded_start("flipped snapshots");

    (void)state;
    for (int round = 0; round < 12; round++) {
        struct life life;
        struct seen seen;
        unsigned number = begin_store(&life);
        uint64_t size = disk_file_size(life.disk, ONCE__OBJECTS_NAME);
        uint64_t offset = round < 3 ? 20 * (uint64_t)round : seeded_below(&seed, size);

        assert_true(disk_flip(life.disk, ONCE__OBJECTS_NAME, offset, 0x10));
        seen = mend(&life);
        assert_int_equal(seen.summary.damages, 1);
        assert_int_equal(damage_of(&seen)->kind, ONCE__FINDING_SNAPSHOT);
        assert_int_equal(damage_of(&seen)->remedy, ONCE__REMEDY_NEW_SNAPSHOT);
        assert_string_equal(damage_of(&seen)->file, ONCE__OBJECTS_NAME);
        assert_true(damage_of(&seen)->loss.more);
        assert_int_equal(disk_file_size(life.disk, "objects.damaged"), size);
        assert_counters(&life, number); /* the log has them all */
        go_on(&life, &number);
        assert_counters(&life, number);
        life_end(&life);
    }
}

static void check__snapshot_missing__is_found_and_the_log_makes_what_it_can(void **state)
{
    struct life life;
    struct seen seen;
    unsigned number;

    (void)state;
    number = begin_store(&life);
    assert_true(disk_remove(life.disk, ONCE__OBJECTS_NAME));
    seen = mend(&life);
    assert_int_equal(damage_of(&seen)->kind, ONCE__FINDING_SNAPSHOT);
    assert_non_null(strstr(damage_of(&seen)->what, "missing"));
    assert_true(damage_of(&seen)->loss.more);
    assert_int_equal(life_stats(&life).changes, seen.summary.last_change);
    assert_counters(&life, number);
    go_on(&life, &number);
    assert_counters(&life, number);
    life_end(&life);
}

static void check__snapshot_lost_but_every_change_in_the_log__loses_nothing(void **state)
{
    struct life life;
    struct seen seen;
    unsigned number = 0;

    (void)state;
    life_begin(&life);
    turns(&life, 60, LONG_MS, &number);
    while (life_stats(&life).snapshots == 0)
        assert_true(once__engine_work(life.store));
    assert_int_equal(life_stats(&life).segments_retired, 0);
    life_close(&life);
    assert_true(disk_flip(life.disk, ONCE__OBJECTS_NAME, 70, 1));
    seen = mend(&life);
    assert_false(damage_of(&seen)->loss.more);
    assert_int_equal(damage_of(&seen)->loss.objects + damage_of(&seen)->loss.changes, 0);
    assert_non_null(strstr(damage_of(&seen)->what, "every change"));
    assert_counters(&life, number);
    life_end(&life);
}

/* One chunk of several is hit: the objects of the others are there, though the log has nothing of
 * them any more. */
static void repair__one_chunk_hit__keeps_the_others(void **state)
{
    struct life life;
    struct seen seen;
    uint64_t objects;
    unsigned number = 0;

    (void)state;
    life_begin(&life);
    for (unsigned i = 0; i < 100; i++) {
        char key[LIFE_KEY_SIZE], text[512];

        snprintf(key, sizeof(key), "set-%u", i);
        snprintf(text, sizeof(text), "SET once:%u %0400u", i, i);
        apply(&life, key, SHORT_MS, (const char *const[]){text, NULL});
    }
    until_snapshots(&life, 2, SHORT_MS, &number);
    turns(&life, 200, SHORT_MS, &number);
    life_pass(&life, 10 * SHORT_MS);
    until_snapshots(&life, 4, SHORT_MS, &number);
    objects = life_stats(&life).objects;
    life_close(&life);
    assert_true(disk_flip(life.disk, ONCE__OBJECTS_NAME, 20000, 1));
    seen = mend(&life);
    assert_true(damage_of(&seen)->loss.objects > 0 && damage_of(&seen)->loss.objects < 20);
    assert_int_equal(life_stats(&life).objects + damage_of(&seen)->loss.objects, objects);
    go_on(&life, &number);
    life_end(&life);
}

/* ---- Changes --------------------------------------------------------------------------------- */

static void check__batch_with_changes_hit__says_which_are_lost(void **state)
{
    struct life life;
    const struct once__finding *finding;
    struct seen seen;
    char name[ONCE__NAME_SIZE];
    unsigned number;

    (void)state;
    number = begin_store(&life);
    remove_sidecars(life.disk);
    once__segment_name(sealed_slot(life.disk), name);
    /* The header of a batch: its records can still be read. */
    assert_true(disk_flip(life.disk, name, 2 * ONCE_BLOCK_SIZE + 40, 1));
    seen = mend(&life);
    finding = damage_of(&seen);
    assert_int_equal(finding->kind, ONCE__FINDING_BATCH);
    assert_int_equal(finding->loss.changes, 1);
    assert_int_equal(seen.lost_changes, 1);
    assert_int_equal(seen.lost_operations, finding->loss.readable - finding->loss.replaced);
    go_on(&life, &number); /* numbers are missing, until a snapshot has the rest */
    life_end(&life);
}

static void check__segment_with_changes_missing__counts_them(void **state)
{
    struct life life;
    struct seen seen;
    char name[ONCE__NAME_SIZE];
    unsigned number;

    (void)state;
    number = begin_store(&life);
    once__segment_name(sealed_slot(life.disk), name);
    assert_true(disk_remove(life.disk, name));
    remove_sidecars(life.disk);
    seen = mend(&life);
    assert_int_equal(damage_of(&seen)->kind, ONCE__FINDING_MISSING);
    assert_true(damage_of(&seen)->loss.changes > 5);
    go_on(&life, &number);
    life_end(&life);
}

/* The segment in which the snapshot was begun, and the next, are lost. Those that are made for them
 * hold no change; if they were retired before the next snapshot, nothing would say why changes are
 * missing. */
static void check__segment_of_the_snapshot_missing__opens_until_the_next_snapshot(void **state)
{
    struct life life;
    struct once__snapshot_header header;
    struct image image;
    struct seen seen;
    char name[ONCE__NAME_SIZE];
    unsigned number = 0;

    (void)state;
    life_begin(&life);
    until_snapshots(&life, 2, SHORT_MS, &number);
    turns(&life, 10, SHORT_MS, &number); /* too few for another one */
    life_close(&life);
    image = take(life.disk, ONCE__OBJECTS_NAME);
    assert_int_equal(
        once__snapshot_header_decode((struct once_bytes){image.bytes, image.size}, &header, NULL),
        ONCE_OK);
    for (uint32_t i = 0; i < 64; i++) {
        struct once__segment_header segment = {.sequence = 0};
        uint8_t block[ONCE_BLOCK_SIZE];

        once__segment_name(i, name);
        if (disk_peek(life.disk, name, 0, block, sizeof(block)) &&
            once__segment_header_decode((struct once_bytes){block, sizeof(block)}, &segment,
                                        NULL) == ONCE_OK &&
            (segment.sequence == header.from || segment.sequence == header.from + 1))
            assert_true(disk_remove(life.disk, name));
    }
    remove_sidecars(life.disk);
    seen = mend(&life);
    assert_int_equal(seen.summary.damages, 2);
    assert_true(damage_of(&seen)->loss.changes > 0);
    life_pass(&life, 100 * SHORT_MS);
    for (int i = 0; i < 6; i++) {
        turns(&life, 1, SHORT_MS, &number);
        life_work(&life);
        life_again(&life, LIFE_KILLED);
    }
    go_on(&life, &number);
    free(image.bytes);
    life_end(&life);
}

static void check__snapshot_of_an_older_copy__names_the_missing_changes(void **state)
{
    struct life life;
    const struct once__finding *finding;
    struct image old;
    struct seen seen;
    unsigned number;

    (void)state;
    number = begin_store(&life);
    old = take(life.disk, ONCE__OBJECTS_NAME);
    life_open(&life);
    until_snapshots(&life, 2, SHORT_MS, &number);
    turns(&life, 40, SHORT_MS, &number);
    life_work(&life);
    life_close(&life);
    put(life.disk, ONCE__OBJECTS_NAME, old.bytes, old.size);
    seen = mend(&life);
    finding = damage_of(&seen);
    assert_int_equal(finding->kind, ONCE__FINDING_CHANGES);
    assert_int_equal(finding->remedy, ONCE__REMEDY_NEW_SNAPSHOT);
    assert_true(finding->sequence > 0 && finding->offset >= ONCE__RECORD_OFFSET_MIN);
    assert_true(finding->loss.changes > 10);
    assert_counter(&life, "total", number); /* it was changed since */
    go_on(&life, &number);
    free(old.bytes);
    life_end(&life);
}

/* Makes the snapshot say something else at its end, under a right check. */
static void change_end(struct disk *disk, uint64_t change, uint64_t more_chunks)
{
    struct image image = take(disk, ONCE__OBJECTS_NAME);
    uint8_t *bytes = image.bytes + image.size - ONCE__SNAPSHOT_END_SIZE;
    struct once__snapshot_header header;
    struct once__snapshot_end end;
    uint64_t number;

    assert_int_equal(
        once__snapshot_header_decode((struct once_bytes){image.bytes, image.size}, &header, NULL),
        ONCE_OK);
    once__snapshot_end_decode(bytes, &end);
    number = end.chunk_count;
    end.change = change > 0 ? change : end.change;
    end.chunk_count += more_chunks;
    once__snapshot_end_encode(&end, bytes);
    once__snapshot_chunk_encode(&header, number, true,
                                (struct once_bytes){bytes, ONCE__SNAPSHOT_END_SIZE},
                                bytes - ONCE__SNAPSHOT_CHUNK_HEADER_SIZE);
    put(disk, ONCE__OBJECTS_NAME, image.bytes, image.size);
    free(image.bytes);
}

static void check__snapshot_with_other_parts_than_it_says__is_damaged(void **state)
{
    struct life life;
    struct image image;
    struct seen seen;
    unsigned number = begin_store(&life);

    (void)state;
    change_end(life.disk, 0, 1);
    seen = mend(&life);
    assert_int_equal(damage_of(&seen)->kind, ONCE__FINDING_SNAPSHOT);
    assert_counters(&life, number);
    life_close(&life);
    image = take(life.disk, ONCE__OBJECTS_NAME);
    put(life.disk, ONCE__OBJECTS_NAME, image.bytes, image.size + 1); /* a byte too many */
    seen = mend(&life);
    assert_int_equal(damage_of(&seen)->kind, ONCE__FINDING_SNAPSHOT);
    assert_counters(&life, number);
    free(image.bytes);
    life_end(&life);
}

/* Gives the snapshot a chunk more, with this edit. */
static void add_edit(struct disk *disk, const struct once__edit *edit)
{
    struct image image = take(disk, ONCE__OBJECTS_NAME);
    size_t end_size = ONCE__SNAPSHOT_CHUNK_HEADER_SIZE + ONCE__SNAPSHOT_END_SIZE;
    uint8_t head[ONCE__SNAPSHOT_CHUNK_HEADER_SIZE], last[ONCE__SNAPSHOT_END_SIZE];
    struct once__snapshot_header header;
    struct once__snapshot_end end;
    struct once_buf bytes, file;

    once_buf_init(&bytes, 1 << 10);
    once_buf_init(&file, image.size + (1 << 11));
    assert_int_equal(once__edit_encode(edit, &bytes), ONCE_OK);
    assert_int_equal(
        once__snapshot_header_decode((struct once_bytes){image.bytes, image.size}, &header, NULL),
        ONCE_OK);
    once__snapshot_end_decode(image.bytes + image.size - sizeof(last), &end);
    once__snapshot_chunk_encode(&header, end.chunk_count, false, once_buf_bytes(&bytes), head);
    assert_int_equal(once_buf_append(&file, image.bytes, image.size - end_size), ONCE_OK);
    assert_int_equal(once_buf_append(&file, head, sizeof(head)), ONCE_OK);
    assert_int_equal(once_buf_append(&file, bytes.data, bytes.size), ONCE_OK);
    end.chunk_count++;
    end.object_count++;
    once__snapshot_end_encode(&end, last);
    once__snapshot_chunk_encode(&header, end.chunk_count, true,
                                (struct once_bytes){last, sizeof(last)}, head);
    assert_int_equal(once_buf_append(&file, head, sizeof(head)), ONCE_OK);
    assert_int_equal(once_buf_append(&file, last, sizeof(last)), ONCE_OK);
    put(disk, ONCE__OBJECTS_NAME, file.data, file.size);
    once_buf_release(&bytes);
    once_buf_release(&file);
    free(image.bytes);
}

/* Recovery puts the edits of many records together, the check those of one: both name the same. */
static void open__edit_that_does_not_fit__names_its_record(void **state)
{
    struct once__edit edit = {
        .kind = ONCE__EDIT_EVENT,
        .name = once_bytes_of("late"),
        .to = {.event = {.number = 1, .id = once_bytes_of("e"), .payload = once_bytes_of("p")}}};
    const struct once__finding *finding;
    struct once_message message = {""};
    struct life life;
    struct seen seen;
    unsigned number;
    char where[128];

    (void)state;
    number = begin_store(&life);
    life_open(&life);
    turns(&life, 3, SHORT_MS, &number);
    apply(&life, "late", SHORT_MS, (const char *const[]){"ADD late 1", NULL});
    turns(&life, 3, SHORT_MS, &number);
    life_close(&life);
    assert_clean(life.disk);
    add_edit(life.disk, &edit);
    assert_int_equal(life_try_open(&life, &message), ONCE_ERR_DAMAGED);
    seen = look(life.disk, false);
    finding = damage_of(&seen);
    assert_int_equal(finding->kind, ONCE__FINDING_CHANGES);
    snprintf(where, sizeof(where),
             "(segment %" PRIu64 ") is damaged at offset %" PRIu64 ": an edit of the record cannot",
             finding->sequence, finding->offset);
    if (!strstr(message.text, where))
        fail_msg("\"%s\" is not in \"%s\"", where, message.text);
    (void)mend(&life);
    assert_counters(&life, number);
    life_end(&life);
}

/* The other way: the log is an older copy's. */
static void check__snapshot_newer_than_the_log__is_found(void **state)
{
    struct life life;
    struct seen seen;
    unsigned number;

    (void)state;
    number = begin_store(&life);
    change_end(life.disk, 1000000, 0);
    seen = mend(&life);
    assert_int_equal(damage_of(&seen)->kind, ONCE__FINDING_CHANGES);
    assert_int_equal(life_stats(&life).changes, 1000000); /* numbers never come again */
    assert_counters(&life, number);
    go_on(&life, &number);
    life_end(&life);
}

/* ---- Properties ------------------------------------------------------------------------------ */

static void repair__cut_off_anywhere__can_be_run_again(void **state)
{
    (void)state;
    for (uint64_t cut = 0;; cut++) {
        struct life life;
        struct once__vfs *vfs;
        struct once_message message;
        struct once__check *check = NULL;
        unsigned number = begin_store(&life);
        bool done;

        assert_true(disk_flip(life.disk, ONCE__OBJECTS_NAME, 80, 1));
        vfs = disk_mount(life.disk);
        assert_int_equal(once__check_new(vfs, &check, &message), ONCE_OK);
        disk_set_faults(life.disk,
                        &(struct disk_faults){.cut_at = disk_operations(life.disk) + cut + 1});
        done = once__check_repair(check, NULL, NULL, &message) == ONCE_OK;
        once__check_free(check);
        vfs->ops->free(vfs);
        disk_set_faults(life.disk, &(struct disk_faults){0});
        if (!disk_is_cut(life.disk))
            disk_cut(life.disk);
        (void)look(life.disk, true);
        assert_clean(life.disk);
        life_open(&life);
        assert_counters(&life, number);
        life_end(&life);
        if (done)
            break;
        assert_true(cut < 100);
    }
}

/* What the check calls clean opens; what does not open the check calls damaged; and it can be
 * mended so that it opens. */
static void check__random_flips__agree_with_the_engine(void **state)
{
    uint64_t seed = seeded_start("check and engine, objects"), refused = 0;

    (void)state;
    for (int round = 0; round < 40; round++) {
        struct life life;
        struct once_message message = {""};
        struct seen seen;
        unsigned number = begin_store(&life);
        int err;

        for (uint64_t i = seeded_below(&seed, 3); i < 3; i++) {
            char name[ONCE__NAME_SIZE] = ONCE__OBJECTS_NAME;

            if (seeded_below(&seed, 3) > 0)
                once__segment_name((uint32_t)seeded_below(&seed, 12), name);
            if (disk_file_size(life.disk, name) > 0)
                (void)disk_flip(life.disk, name,
                                seeded_below(&seed, disk_file_size(life.disk, name)), 4);
        }
        remove_sidecars(life.disk); /* so that the engine reads everything */
        seen = look(life.disk, false);
        err = life_try_open(&life, &message);
        if ((err != ONCE_OK) != (seen.summary.damages > 0))
            fail_msg("round %d: %s; %s", round, message.text,
                     seen.summary.damages > 0 ? damage_of(&seen)->what : "clean");
        if (err != ONCE_OK) {
            refused++;
            (void)look(life.disk, true);
            assert_clean(life.disk);
            life_open(&life);
        }
        turns(&life, 30, SHORT_MS, &number);
        life_work(&life);
        life_again(&life, LIFE_CUT);
        life_close(&life);
        assert_clean(life.disk);
        life_end(&life);
    }
    assert_true(refused > 5 && refused < 40);
}

/* ---- Backup ---------------------------------------------------------------------------------- */

/* The owner goes on while it is copied: at every step of the copy some turns and some work. */
struct owner {
    struct life *life;
    unsigned *number;
    unsigned pace;  /* turns for each step */
    unsigned steps; /* that are left */
    bool one;       /* no more work once there is a snapshot */
};

static void goes_on(void *user, uint64_t done, uint64_t all)
{
    struct owner *owner = user;

    assert_true(done <= all);
    if (owner->steps == 0)
        return;
    owner->steps--;
    turns(owner->life, owner->pace, SHORT_MS, owner->number);
    for (unsigned i = 0; i < 40 && !(owner->one && life_stats(owner->life).snapshots > 0); i++)
        (void)once__engine_work(owner->life->store);
}

/* Copies the store while its owner goes on; the copy opens with everything that was told before. */
static void copy_while(struct life *life, struct owner owner)
{
    struct life copy;
    struct once_message message = {""};
    unsigned told = *owner.number;
    struct once__vfs *from, *to;
    int err;

    life_prepare(&copy, LIFE_DISK_SIZE);
    copy.wall_ms = LIFE_START_MS + LIFE_HOUR_MS;
    from = disk_mount(life->disk);
    to = disk_mount(copy.disk);
    err = once__backup(from, to, goes_on, &owner, &message);
    if (err != ONCE_OK)
        fail_msg("pace %u: %s", owner.pace, message.text);
    from->ops->free(from);
    to->ops->free(to);
    disk_cut(copy.disk); /* durable on return */
    assert_clean(copy.disk);
    life_open(&copy);
    assert_true(life_stats(&copy).changes >= 2 * told);
    assert_int_equal(life_stats(&copy).objects, COUNTERS + 3);
    assert_counters(&copy, (unsigned)((life_stats(&copy).changes + 1) / 2));
    life_end(&copy);
}

static void backup__store_that_snapshots_meanwhile__is_whole(void **state)
{
    unsigned with_retired = 0;

    (void)state;
    for (unsigned pace = 0; pace < 8; pace++) {
        struct life life;
        unsigned number = begin_store(&life);
        uint64_t retired;

        life_open(&life);
        until_snapshots(&life, 1, SHORT_MS, &number);
        retired = life_stats(&life).segments_retired;
        copy_while(&life, (struct owner){&life, &number, pace * 3, 12, false});
        with_retired += life_stats(&life).segments_retired > retired;
        life_end(&life);
    }
    assert_true(with_retired > 3);
}

static void backup__first_snapshot_comes_meanwhile__is_in_the_copy(void **state)
{
    unsigned came = 0;

    (void)state;
    for (unsigned count = 21; count < 60; count += 2) {
        struct life life;
        unsigned number = 0;

        life_begin(&life);
        turns(&life, count, LONG_MS, &number);
        copy_while(&life, (struct owner){&life, &number, 1, 2, true});
        came += life_stats(&life).snapshots > 0;
        life_end(&life);
    }
    assert_true(came > 5);
}

static void backup__damaged_or_missing_snapshot__is_refused(void **state)
{
    (void)state;
    for (int missing = 0; missing < 2; missing++) {
        struct disk *target = disk_new(1, LIFE_DISK_SIZE);
        struct once_message message = {""};
        struct once__vfs *from, *to;
        struct life life;

        (void)begin_store(&life);
        assert_true(missing ? disk_remove(life.disk, ONCE__OBJECTS_NAME)
                            : disk_flip(life.disk, ONCE__OBJECTS_NAME, 80, 1));
        from = disk_mount(life.disk);
        to = disk_mount(target);
        assert_int_not_equal(once__backup(from, to, NULL, NULL, &message), ONCE_OK);
        if (!missing)
            assert_non_null(strstr(message.text, "objects"));
        from->ops->free(from);
        to->ops->free(to);
        disk_free(target);
        life_end(&life);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check__store_with_objects__is_clean_and_counts_them),
        cmocka_unit_test(check__unfinished_snapshot__is_a_note),
        cmocka_unit_test(check__sidecar_with_a_wrong_count_of_changes__is_deleted),
        cmocka_unit_test(check__snapshot_flipped_anywhere__is_found_and_the_rest_is_kept),
        cmocka_unit_test(check__snapshot_missing__is_found_and_the_log_makes_what_it_can),
        cmocka_unit_test(check__snapshot_lost_but_every_change_in_the_log__loses_nothing),
        cmocka_unit_test(repair__one_chunk_hit__keeps_the_others),
        cmocka_unit_test(check__batch_with_changes_hit__says_which_are_lost),
        cmocka_unit_test(check__segment_with_changes_missing__counts_them),
        cmocka_unit_test(check__segment_of_the_snapshot_missing__opens_until_the_next_snapshot),
        cmocka_unit_test(check__snapshot_of_an_older_copy__names_the_missing_changes),
        cmocka_unit_test(check__snapshot_with_other_parts_than_it_says__is_damaged),
        cmocka_unit_test(open__edit_that_does_not_fit__names_its_record),
        cmocka_unit_test(check__snapshot_newer_than_the_log__is_found),
        cmocka_unit_test(repair__cut_off_anywhere__can_be_run_again),
        cmocka_unit_test(check__random_flips__agree_with_the_engine),
        cmocka_unit_test(backup__store_that_snapshots_meanwhile__is_whole),
        cmocka_unit_test(backup__first_snapshot_comes_meanwhile__is_in_the_copy),
        cmocka_unit_test(backup__damaged_or_missing_snapshot__is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
