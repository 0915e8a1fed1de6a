/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery, the objects: the snapshot, and over it the edits of the log from the segment in which
 * the snapshot was begun. Changes are numbered, so that one that is missing is noticed: the first
 * must follow what the snapshot had when it was begun, each next one the one before, and the last
 * must be no earlier than what may be in the snapshot.
 *
 * After something was given up (`once check --repair`: a batch, or a part of the snapshot) numbers
 * may be missing; then objects are what the rest of the edits makes of them.
 */
#include "engine/recovery.h"

#include <inttypes.h>

#include "engine/edits.h"
#include "engine/snapshot_scan.h"

/* The edits of many records are put together: then their objects are looked for at the same time,
 * and most records have few. */
enum { TOGETHER_RECORDS = 256, TOGETHER_SIZE = 1 << 15 };

struct gathered {
    struct once_buf bytes; /* of TOGETHER_SIZE from the beginning: edits point into it */
    struct once_bytes edits[TOGETHER_RECORDS];
    uint32_t offsets[TOGETHER_RECORDS]; /* of the records in the segment */
    size_t count;
};

struct replay {
    struct once__recovery *recovery;
    const struct once__seen *seen; /* the segment that is read */
    struct gathered gathered;      /* read from it, and not put yet */
    bool lenient;                  /* something was given up: numbers may be missing */
    bool any;
    uint64_t last;      /* change */
    uint32_t bad_at;    /* where a record is that does not fit */
    const char *defect; /* and why */
};

/* ---- The snapshot ---------------------------------------------------------------------------- */

/* Room for as many as the end of the file says, if it says so. */
static int expect_objects(struct once__recovery *recovery, struct once__file *file)
{
    uint8_t bytes[ONCE__SNAPSHOT_END_SIZE];
    struct once__snapshot_end end;
    uint64_t size;
    size_t got;

    if (once__file_size(file, &size) != ONCE_OK ||
        size < ONCE__SNAPSHOT_HEADER_SIZE + ONCE__SNAPSHOT_CHUNK_HEADER_SIZE + sizeof(bytes) ||
        once__file_read(file, size - sizeof(bytes), bytes, sizeof(bytes), &got) != ONCE_OK ||
        got < sizeof(bytes))
        return ONCE_OK;
    once__snapshot_end_decode(bytes, &end);
    if (end.object_count > size / 4) /* no object is shorter */
        return ONCE_OK;
    return once__objects_expect(recovery->engine->objects.table, end.object_count);
}

struct loading {
    struct once__engine *engine;
    struct once__snapshot_scan scan;
    uint64_t offset; /* of the chunk at hand */
};

static int load_chunk(void *user, uint64_t offset, struct once_bytes edits)
{
    struct loading *loading = user;
    struct once__object_state *objects = &loading->engine->objects;
    bool lenient = (loading->scan.header.flags & ONCE__SNAPSHOT_REPAIRED) != 0;

    loading->offset = offset;
    return once__edits_put(objects->table, objects->recent, edits, lenient, NULL);
}

static int load_file(struct once__recovery *recovery, struct once__file *file,
                     struct once__snapshot_header *ret_header, struct once__snapshot_end *ret_end)
{
    struct loading loading = {.engine = recovery->engine};
    struct once__snapshot_visitor visitor = {.chunk = load_chunk, .user = &loading};
    int err = expect_objects(recovery, file);

    if (err == ONCE_OK)
        err = once__snapshot_scan(file, recovery->engine->file.id, &visitor, &loading.scan);
    if (err == ONCE_OK && loading.scan.unreadable)
        err = ONCE_ERR_IO;
    if (err == ONCE_ERR_DAMAGED)
        loading.scan.defect = (struct once_defect){.offset = (size_t)loading.offset,
                                                   .what = "an edit in it cannot be"};
    if (err == ONCE_ERR_DAMAGED || (err == ONCE_OK && loading.scan.damaged))
        return once__message(ONCE_ERR_DAMAGED, recovery->message,
                             "%s, the snapshot of objects, is damaged at offset %zu: %s; "
                             "`once check` says more",
                             ONCE__OBJECTS_NAME, loading.scan.defect.offset,
                             loading.scan.defect.what);
    if (err == ONCE_ERR_VERSION)
        return once__message(err, recovery->message,
                             "%s, the snapshot of objects, is of a format that this version does "
                             "not know",
                             ONCE__OBJECTS_NAME);
    if (err != ONCE_OK)
        return err;
    *ret_header = loading.scan.header;
    *ret_end = loading.scan.end;
    recovery->engine->objects.snapshot_size = loading.scan.size;
    return ONCE_OK;
}

/* Without a snapshot both outputs say that nothing is in it. */
static int load_snapshot(struct once__recovery *recovery, struct once__snapshot_header *ret_header,
                         struct once__snapshot_end *ret_end)
{
    struct once__engine *engine = recovery->engine;
    struct once__file *file;
    int err = engine->vfs->ops->open(engine->vfs, ONCE__OBJECTS_NAME, 0, &file);

    *ret_header = (struct once__snapshot_header){.from = 1};
    *ret_end = (struct once__snapshot_end){0};
    if (err == ONCE_ERR_NO_STORE && !(recovery->last.flags & ONCE__BATCH_OBJECTS))
        return ONCE_OK;
    if (err == ONCE_ERR_NO_STORE)
        return once__message(ONCE_ERR_DAMAGED, recovery->message,
                             "%s, the snapshot of objects, is missing; `once check` says more",
                             ONCE__OBJECTS_NAME);
    if (err != ONCE_OK)
        return err;
    err = load_file(recovery, file, ret_header, ret_end);
    once__file_close(file);
    return err;
}

/* ---- The log --------------------------------------------------------------------------------- */

static int put_gathered(struct replay *replay)
{
    struct once__object_state *objects = &replay->recovery->engine->objects;
    struct gathered *gathered = &replay->gathered;
    struct once__edit_spot bad;
    int err = once__edits_put_all(objects->table, objects->recent, gathered->edits, gathered->count,
                                  replay->lenient, &bad, NULL);

    if (err != ONCE_OK) {
        replay->bad_at = gathered->offsets[bad.piece];
        replay->defect = "an edit of the record cannot be";
    }
    once_buf_clear(&gathered->bytes);
    gathered->count = 0;
    return err;
}

/* The record's bytes go when this returns, so they are copied; or all is put at once. */
static int gather(struct replay *replay, uint32_t offset, struct once_bytes edits)
{
    struct gathered *gathered = &replay->gathered;
    bool copied = edits.size <= TOGETHER_SIZE;
    int err = ONCE_OK;

    if (copied && edits.size > TOGETHER_SIZE - gathered->bytes.size)
        err = put_gathered(replay);
    if (err == ONCE_OK && copied) {
        struct once_bytes from = edits;

        edits.data = gathered->bytes.data + gathered->bytes.size;
        err = once_buf_append(&gathered->bytes, from.data, from.size);
    }
    if (err != ONCE_OK)
        return err;
    gathered->edits[gathered->count] = edits;
    gathered->offsets[gathered->count] = offset;
    gathered->count++;
    return !copied || gathered->count == TOGETHER_RECORDS ? put_gathered(replay) : ONCE_OK;
}

static int replay_record(void *user, uint32_t offset, uint32_t size,
                         const struct once__log_record *rec)
{
    struct replay *replay = user;
    bool follows = replay->any ? rec->change == replay->last + 1 : rec->change <= replay->last + 1;
    int err;

    (void)size;
    if (rec->change == 0)
        return ONCE_OK;
    if (!follows && !replay->lenient) {
        err = put_gathered(replay); /* what is wrong before this is told first */
        if (err != ONCE_OK)
            return err;
        replay->bad_at = offset;
        replay->defect = "a change of objects before this record is missing";
        return ONCE_ERR_DAMAGED;
    }
    replay->any = true;
    replay->last = rec->change;
    return gather(replay, offset, rec->edits);
}

static int replay_segment(struct replay *replay)
{
    struct once__engine *engine = replay->recovery->engine;
    const struct once__seen *seen = replay->seen;
    const struct once__segment *segment = engine->segments[seen->slot];
    struct once__scan_input input = {
        .store_id = engine->file.id,
        .segment_size = engine->segment_size,
        .known_end = segment->state == ONCE__SEGMENT_ACTIVE ? replay->recovery->end.end
                                                            : segment->end,
    };
    struct once__scan_visitor visitor = {.record = replay_record, .user = replay};
    struct once__scan scan = {.defect = {0, NULL}};
    char name[ONCE__NAME_SIZE];
    int err;

    once__segment_name(seen->slot, name);
    err = engine->vfs->ops->open(engine->vfs, name, 0, &input.file);
    if (err != ONCE_OK)
        return err;
    replay->defect = NULL;
    err = once__scan_segment(&input, &visitor, &scan);
    once__file_close(input.file);
    if (err == ONCE_OK)
        err = put_gathered(replay);
    if (err == ONCE_ERR_DAMAGED && replay->defect)
        return once__recovery_damaged(replay->recovery, seen, replay->bad_at, replay->defect);
    if (err == ONCE_OK && scan.ended != ONCE__SCAN_WHOLE)
        return once__recovery_damaged(replay->recovery, seen, scan.bad_offset, scan.defect.what);
    return err;
}

static int replay_log(struct replay *replay, uint64_t from)
{
    struct once__recovery *recovery = replay->recovery;
    int err = ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < recovery->seen_count; i++) {
        const struct once__seen *seen = &recovery->seen[i];
        const struct once__segment *segment = recovery->engine->segments[seen->slot];

        if (seen->header.sequence < from || seen->header.sequence < recovery->engine->log.oldest ||
            segment->changes == 0)
            continue;
        replay->seen = seen;
        err = replay_segment(replay);
    }
    return err;
}

/* Where something was given up changes may be missing, and only that segment says so: it is needed
 * until a snapshot has what is left of the objects, as if it had a change. */
static void keep_gaps(struct once__engine *engine)
{
    for (uint64_t sequence = engine->log.oldest; sequence <= engine->log.sequence; sequence++) {
        struct once__segment *segment = engine->segments[once__segment_slot(engine, sequence)];

        if (segment->summary && segment->summary->gaps && segment->changes == 0)
            segment->changes = 1;
    }
}

int once__recovery_objects(struct once__recovery *recovery)
{
    struct once__engine *engine = recovery->engine;
    struct once__object_state *objects = &engine->objects;
    struct once__snapshot_header header;
    struct once__snapshot_end end;
    struct replay replay = {.recovery = recovery};
    int err = once__objects_new(engine->file.secret, &objects->table);

    if (err == ONCE_OK)
        err = once__recent_new(&objects->recent);
    if (err == ONCE_OK)
        err = once__stage_new(&objects->stage);
    if (err == ONCE_OK)
        err = load_snapshot(recovery, &header, &end);
    if (err != ONCE_OK)
        return err;
    replay.last = header.change;
    replay.lenient = engine->gaps || header.flags & ONCE__SNAPSHOT_REPAIRED;
    keep_gaps(engine);
    once_buf_init(&replay.gathered.bytes, TOGETHER_SIZE);
    err = once_buf_reserve(&replay.gathered.bytes, TOGETHER_SIZE);
    if (err == ONCE_OK)
        err = replay_log(&replay, header.from);
    once_buf_release(&replay.gathered.bytes);
    if (err == ONCE_OK && replay.last < end.change && !replay.lenient)
        return once__message(ONCE_ERR_DAMAGED, recovery->message,
                             "the log ends at change %" PRIu64
                             " of objects, and the snapshot has change %" PRIu64
                             "; `once check` says more",
                             replay.last, end.change);
    if (err != ONCE_OK)
        return err;
    objects->has_snapshot = (recovery->last.flags & ONCE__BATCH_OBJECTS) != 0;
    objects->from = header.from;
    objects->proved = 1;
    objects->change = replay.last > end.change ? replay.last : end.change;
    once__recent_start(objects->recent, objects->change);
    (void)engine->vfs->ops->remove(engine->vfs, ONCE__OBJECTS_NEW_NAME); /* if one was on its way */
    return ONCE_OK;
}
