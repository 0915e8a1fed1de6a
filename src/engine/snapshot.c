/* SPDX-License-Identifier: Apache-2.0
 *
 * The snapshot of all objects: written by the keeper, a chunk at a time, while objects change.
 *
 *     IDLE ──due──▶ WRITE ──all objects──▶ SETTLE ──durable──▶ COMMIT ──renamed──▶ IDLE
 *
 * Each object is written as it is at that moment. That is enough, because the edits of the log,
 * from the segment in which the snapshot was begun, are put over it: an edit says what an object is
 * afterwards, so putting old ones again does no harm as long as all later ones follow. They do: the
 * snapshot does not count before the log up to its end is durable (INV-3), and segments from its
 * beginning on are kept until the next one counts.
 */
#include "engine/inner.h"

#include <string.h>

/* A chunk is gathered under the lock: small enough that nobody waits long for it. A snapshot is due
 * when the log since the last one is this much larger than the objects. */
enum { CHUNK_SIZE = 1 << 16, SLACK_SEGMENTS = 4 };

/* Smaller with small segments, so that tests see many. */
static size_t chunk_size(const struct once__engine *engine)
{
    return engine->segment_size / 16 < CHUNK_SIZE ? engine->segment_size / 16 : CHUNK_SIZE;
}

bool once__snapshot_needs(const struct once__engine *engine, const struct once__segment *segment)
{
    return segment->changes > 0 && segment->sequence >= engine->objects.proved;
}

/* Would one let a sealed segment go, and is it worth it? Retiring says with `wanted` that it waits
 * for one. */
static bool due(struct once__engine *engine)
{
    struct once__object_state *objects = &engine->objects;
    const struct once__log *log = &engine->log;
    uint64_t from = objects->wanted ? objects->proved : objects->from;
    uint64_t first = from > log->oldest ? from : log->oldest;
    uint64_t worth = (uint64_t)SLACK_SEGMENTS * engine->segment_size +
                     2 * once__objects_encoded_size(objects->table);
    uint64_t size = (log->sequence - first) * engine->segment_size;

    if (log->failed != ONCE_OK || objects->unlucky || (!objects->wanted && size < worth))
        return false;
    for (uint64_t sequence = first; sequence < log->sequence; sequence++) {
        if (engine->segments[once__segment_slot(engine, sequence)]->changes > 0)
            return true;
    }
    objects->from = log->sequence; /* nothing before is needed */
    if (objects->wanted)
        objects->proved = log->sequence;
    objects->wanted = false;
    return false;
}

void once__snapshot_abandon(struct once__engine *engine)
{
    struct once__snapshotting *snapshotting = &engine->objects.snapshotting;

    once__file_close(snapshotting->file);
    once_buf_release(&snapshotting->chunk);
    *snapshotting = (struct once__snapshotting){.phase = ONCE__SNAPSHOT_IDLE};
}

/* It may work later. The one before stays, and so do the segments that it needs. */
static void fail(struct once__engine *engine)
{
    once__snapshot_abandon(engine);
    (void)engine->vfs->ops->remove(engine->vfs, ONCE__OBJECTS_NEW_NAME);
    pthread_mutex_lock(&engine->lock);
    engine->objects.unlucky = true;
    pthread_mutex_unlock(&engine->lock);
}

/* A sync of names failed: perhaps another one, under way at the same time, was not told (INV-8). */
static void stop(struct once__engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    if (engine->log.failed == ONCE_OK) {
        engine->log.failed = ONCE_ERR_IO;
        once__commit_after_write(engine);
    }
    pthread_mutex_unlock(&engine->lock);
}

static int write_bytes(struct once__snapshotting *snapshotting, const void *data, size_t size)
{
    int err = once__file_write(snapshotting->file, snapshotting->size, data, size);

    snapshotting->size += size;
    return err;
}

static int write_chunk(struct once__snapshotting *snapshotting, bool is_end,
                       struct once_bytes bytes)
{
    uint8_t head[ONCE__SNAPSHOT_CHUNK_HEADER_SIZE];
    int err;

    once__snapshot_chunk_encode(&snapshotting->header, snapshotting->end.chunk_count, is_end, bytes,
                                head);
    err = write_bytes(snapshotting, head, sizeof(head));
    if (err == ONCE_OK)
        err = write_bytes(snapshotting, bytes.data, bytes.size);
    snapshotting->end.chunk_count += is_end ? 0 : 1;
    return err;
}

/* Without the lock. */
static int make_file(struct once__engine *engine)
{
    struct once__snapshotting *snapshotting = &engine->objects.snapshotting;
    uint8_t head[ONCE__SNAPSHOT_HEADER_SIZE];
    int err = engine->vfs->ops->open(engine->vfs, ONCE__OBJECTS_NEW_NAME,
                                     ONCE__OPEN_CREATE | ONCE__OPEN_WRITE, &snapshotting->file);

    if (err == ONCE_OK)
        err = once__file_truncate(snapshotting->file, 0);
    if (err != ONCE_OK)
        return err;
    once__snapshot_header_encode(&snapshotting->header, head);
    return write_bytes(snapshotting, head, sizeof(head));
}

static bool begin(struct once__engine *engine)
{
    struct once__snapshotting *snapshotting = &engine->objects.snapshotting;
    bool wanted;

    pthread_mutex_lock(&engine->lock);
    wanted = due(engine);
    if (wanted) {
        /* The segment in which the log is durable now: a crash may take back later ones, and then
         * the log goes on in this one. */
        snapshotting->header = (struct once__snapshot_header){
            .from = (engine->log.durable - 1) / engine->segment_size,
            .change = engine->objects.change,
            .created_ms = once__engine_now(engine),
        };
        memcpy(snapshotting->header.store_id, engine->file.id, ONCE__STORE_ID_SIZE);
        snapshotting->count = once__objects_count(engine->objects.table);
        snapshotting->phase = ONCE__SNAPSHOT_WRITE;
    }
    pthread_mutex_unlock(&engine->lock);
    if (!wanted)
        return false;
    /* The largest object, and a chunk; large logs and outboxes come in parts. */
    once_buf_init(&snapshotting->chunk, ONCE__SNAPSHOT_CHUNK_SIZE_MAX);
    if (make_file(engine) != ONCE_OK) {
        fail(engine);
        return false;
    }
    return true;
}

/* With the lock. */
static int gather(struct once__engine *engine)
{
    struct once__snapshotting *snapshotting = &engine->objects.snapshotting;
    struct once_buf *chunk = &snapshotting->chunk;
    int err = ONCE_OK;

    while (err == ONCE_OK && chunk->size < chunk_size(engine) &&
           snapshotting->index < snapshotting->count) {
        const struct once__object *object = once__objects_at(engine->objects.table,
                                                             snapshotting->index);

        if (ONCE__MUTANT(SNAPSHOT_SKIPS_OBJECT) && snapshotting->index == 1)
            snapshotting->part = UINT64_MAX;
        else
            err = once__object_dump(object, &snapshotting->part, chunk_size(engine) - chunk->size,
                                    chunk);
        if (snapshotting->part == UINT64_MAX) {
            snapshotting->index++;
            snapshotting->part = 0;
            snapshotting->end.object_count++;
        }
    }
    return err;
}

static bool write_some(struct once__engine *engine)
{
    struct once__snapshotting *snapshotting = &engine->objects.snapshotting;
    bool all;
    int err;

    once_buf_clear(&snapshotting->chunk);
    pthread_mutex_lock(&engine->lock);
    err = gather(engine);
    all = snapshotting->index == snapshotting->count;
    if (all) {
        snapshotting->end.change = engine->objects.change;
        snapshotting->position = engine->objects.position;
        snapshotting->phase = ONCE__SNAPSHOT_SETTLE;
    }
    pthread_mutex_unlock(&engine->lock);
    if (err == ONCE_OK && snapshotting->chunk.size > 0)
        err = write_chunk(snapshotting, false, once_buf_bytes(&snapshotting->chunk));
    if (err == ONCE_OK)
        return true;
    fail(engine);
    return false;
}

static bool settle(struct once__engine *engine)
{
    struct once__snapshotting *snapshotting = &engine->objects.snapshotting;
    bool settled;

    pthread_mutex_lock(&engine->lock);
    settled = ONCE__MUTANT(SNAPSHOT_BEFORE_DURABLE) ||
              once__commit_settled(engine, snapshotting->position);
    if (settled && engine->options.durability == ONCE_LOSES_UNSYNCED)
        settled = once__log_sync(engine) == ONCE_OK;
    if (settled)
        snapshotting->phase = ONCE__SNAPSHOT_COMMIT;
    pthread_mutex_unlock(&engine->lock);
    return settled;
}

static bool commit(struct once__engine *engine)
{
    struct once__snapshotting *snapshotting = &engine->objects.snapshotting;
    struct once__object_state *objects = &engine->objects;
    const struct once__vfs_ops *ops = engine->vfs->ops;
    uint8_t end[ONCE__SNAPSHOT_END_SIZE];
    int err;

    once__snapshot_end_encode(&snapshotting->end, end);
    err = write_chunk(snapshotting, true, (struct once_bytes){end, sizeof(end)});
    if (err == ONCE_OK)
        err = once__file_sync(snapshotting->file);
    once__file_close(snapshotting->file);
    snapshotting->file = NULL;
    if (err == ONCE_OK)
        err = ops->rename(engine->vfs, ONCE__OBJECTS_NEW_NAME, ONCE__OBJECTS_NAME);
    if (err == ONCE_OK)
        err = once__segment_sync_names(engine);
    if (err != ONCE_OK) {
        fail(engine); /* whichever of the two is there: the log has what both need */
        if (err == ONCE_ERR_STOPPED)
            stop(engine);
        return false;
    }
    pthread_mutex_lock(&engine->lock);
    objects->from = objects->proved = snapshotting->header.from;
    objects->has_snapshot = true;
    objects->snapshot_size = snapshotting->size;
    objects->wanted = false;
    engine->counts.snapshots++;
    once__snapshot_abandon(engine);
    pthread_mutex_unlock(&engine->lock);
    return true;
}

bool once__snapshot_work(struct once__engine *engine)
{
    switch (engine->objects.snapshotting.phase) {
    case ONCE__SNAPSHOT_IDLE:
        return begin(engine);
    case ONCE__SNAPSHOT_WRITE:
        return write_some(engine);
    case ONCE__SNAPSHOT_SETTLE:
        return settle(engine);
    case ONCE__SNAPSHOT_COMMIT:
        return commit(engine);
    }
    return false;
}
