/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery, the objects: the snapshot, and over it the edits of the log from the segment in which
 * the snapshot was begun. Changes are numbered, so that one that is missing is noticed: the first
 * must follow what the snapshot had when it was begun, each next one the one before, and the last
 * must be no earlier than what may be in the snapshot.
 *
 * After something was given up (`once check --repair`) numbers may be missing; then objects are what
 * the rest of the edits makes of them.
 */
#include "engine/recovery.h"

#include <inttypes.h>
#include <stdlib.h>

struct replay {
    struct once__recovery *recovery;
    const struct once__seen *seen; /* the segment that is read */
    bool any;
    uint64_t last;      /* change */
    uint32_t bad_at;    /* where a record is that does not fit */
    const char *defect; /* and why */
};

static int damaged_snapshot(struct once__recovery *recovery, uint64_t offset, const char *what)
{
    return once__message(ONCE_ERR_DAMAGED, recovery->message,
                         "%s, the snapshot of objects, is damaged at offset %" PRIu64
                         ": %s; `once check` says more",
                         ONCE__OBJECTS_NAME, offset, what ? what : "it cannot be read");
}

/* ---- The snapshot ---------------------------------------------------------------------------- */

static int read_exactly(struct once__file *file, uint64_t offset, void *data, size_t size)
{
    size_t got;
    int err = once__file_read(file, offset, data, size, &got);

    return err == ONCE_OK && got < size ? ONCE_ERR_DAMAGED : err;
}

/* Room for as many as the end of the file says, if it says so. */
static int expect_objects(struct once__recovery *recovery, struct once__file *file, uint64_t size)
{
    uint8_t bytes[ONCE__SNAPSHOT_END_SIZE];
    struct once__snapshot_end end;

    if (size < ONCE__SNAPSHOT_HEADER_SIZE + ONCE__SNAPSHOT_CHUNK_HEADER_SIZE + sizeof(bytes) ||
        read_exactly(file, size - sizeof(bytes), bytes, sizeof(bytes)) != ONCE_OK)
        return ONCE_OK;
    once__snapshot_end_decode(bytes, &end);
    if (end.object_count > size / 4) /* no object is shorter */
        return ONCE_OK;
    return once__objects_expect(recovery->engine->objects.table, end.object_count);
}

static int load_chunks(struct once__recovery *recovery, struct once__file *file, uint64_t size,
                       const struct once__snapshot_header *header,
                       struct once__snapshot_end *ret_end)
{
    uint8_t head[ONCE__SNAPSHOT_CHUNK_HEADER_SIZE], *bytes = NULL;
    uint64_t offset = ONCE__SNAPSHOT_HEADER_SIZE, number = 0;
    struct once__snapshot_chunk chunk = {.is_end = false};
    struct once_defect defect = {0, NULL};
    size_t capacity = 0;
    int err = ONCE_OK;

    while (err == ONCE_OK && !chunk.is_end) {
        struct once_bytes content;

        defect.what = "it ends too early";
        err = read_exactly(file, offset, head, sizeof(head));
        if (err == ONCE_OK)
            err = once__snapshot_chunk_decode(head, &chunk, &defect);
        if (err != ONCE_OK)
            break;
        if (chunk.size > capacity) {
            uint8_t *grown = realloc(bytes, chunk.size);

            if (!grown) {
                err = ONCE_ERR_MEMORY;
                break;
            }
            bytes = grown;
            capacity = chunk.size;
        }
        err = read_exactly(file, offset + sizeof(head), bytes, chunk.size);
        content = (struct once_bytes){bytes, chunk.size};
        if (err == ONCE_OK && !once__snapshot_chunk_good(header, number, &chunk, content)) {
            defect.what = "a chunk's check is wrong";
            err = ONCE_ERR_DAMAGED;
        }
        if (err == ONCE_OK && chunk.is_end) {
            once__snapshot_end_decode(bytes, ret_end);
        } else if (err == ONCE_OK) {
            defect.what = "an edit cannot be";
            err = once__apply_edits(recovery->engine, content, false);
        }
        if (err == ONCE_OK) {
            offset += sizeof(head) + chunk.size;
            number++;
        }
    }
    free(bytes);
    if (err == ONCE_OK && (ret_end->chunk_count + 1 != number || offset != size)) {
        defect.what = "its end does not fit";
        err = ONCE_ERR_DAMAGED;
    }
    return err == ONCE_ERR_DAMAGED ? damaged_snapshot(recovery, offset, defect.what) : err;
}

static int load_file(struct once__recovery *recovery, struct once__file *file,
                     struct once__snapshot_header *ret_header, struct once__snapshot_end *ret_end)
{
    struct once__engine *engine = recovery->engine;
    uint8_t head[ONCE__SNAPSHOT_HEADER_SIZE];
    struct once_defect defect = {0, "it is too short"};
    uint64_t size;
    int err = once__file_size(file, &size);

    if (err == ONCE_OK)
        err = read_exactly(file, 0, head, sizeof(head));
    if (err == ONCE_OK)
        err = once__snapshot_header_decode((struct once_bytes){head, sizeof(head)}, ret_header,
                                           &defect);
    if (err == ONCE_OK && memcmp(ret_header->store_id, engine->file.id, ONCE__STORE_ID_SIZE) != 0) {
        defect = (struct once_defect){16, "it belongs to another store"};
        err = ONCE_ERR_DAMAGED;
    }
    if (err == ONCE_ERR_DAMAGED)
        return damaged_snapshot(recovery, defect.offset, defect.what);
    if (err == ONCE_OK)
        err = expect_objects(recovery, file, size);
    if (err == ONCE_OK)
        err = load_chunks(recovery, file, size, ret_header, ret_end);
    if (err == ONCE_OK)
        engine->objects.snapshot_size = size;
    return err;
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
    engine->objects.has_snapshot = err == ONCE_OK;
    return err;
}

/* ---- The log --------------------------------------------------------------------------------- */

static int replay_record(void *user, uint32_t offset, uint32_t size,
                         const struct once__log_record *rec)
{
    struct replay *replay = user;
    struct once__engine *engine = replay->recovery->engine;
    bool follows = replay->any ? rec->change == replay->last + 1 : rec->change <= replay->last + 1;
    int err;

    (void)size;
    if (rec->change == 0)
        return ONCE_OK;
    replay->bad_at = offset;
    if (!follows && !engine->gaps) {
        replay->defect = "a change of objects before this record is missing";
        return ONCE_ERR_DAMAGED;
    }
    err = once__apply_edits(engine, rec->edits, engine->gaps);
    if (err != ONCE_OK) {
        replay->defect = "an edit of the record cannot be";
        return err;
    }
    replay->any = true;
    replay->last = rec->change;
    return ONCE_OK;
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
    err = replay_log(&replay, header.from);
    if (err == ONCE_OK && replay.last < end.change && !engine->gaps)
        return once__message(ONCE_ERR_DAMAGED, recovery->message,
                             "the log ends at change %" PRIu64
                             " of objects, and the snapshot has change %" PRIu64
                             "; `once check` says more",
                             replay.last, end.change);
    if (err != ONCE_OK)
        return err;
    objects->from = header.from;
    objects->change = replay.last > end.change ? replay.last : end.change;
    once__recent_start(objects->recent, objects->change);
    (void)engine->vfs->ops->remove(engine->vfs, ONCE__OBJECTS_NEW_NAME); /* if one was on its way */
    return ONCE_OK;
}
