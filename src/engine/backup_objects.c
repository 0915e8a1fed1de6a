/* SPDX-License-Identifier: Apache-2.0
 *
 * The snapshot of objects in a copy of a store that is in use.
 *
 * The snapshot is copied before the log: it counts only once the log up to its end is durable, so
 * the log that is copied after it has all that it needs at its end. At its beginning the owner may
 * retire segments, but only those that a newer snapshot does not need, once that one has its name.
 * So either the copied log still begins where the snapshot needs it, which the numbers of changes
 * show, or the snapshot is not the newest any more and is copied again.
 *
 * A snapshot never changes: a new one is written beside it and takes its name. An open file stays
 * the one that it was.
 */
#include "engine/backup_inner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/inner.h"

enum { COPY_SIZE = 1 << 16 };

static int copy_bytes(struct once__file *from, struct once__file *to, uint64_t *ret_size,
                      void (*progress)(void *user, uint64_t size), void *user)
{
    uint8_t *bytes = malloc(COPY_SIZE);
    uint64_t at = 0;
    size_t got = COPY_SIZE;
    int err = bytes ? once__file_truncate(to, 0) : ONCE_ERR_MEMORY;

    while (err == ONCE_OK && got == COPY_SIZE) {
        err = once__file_read(from, at, bytes, COPY_SIZE, &got);
        if (err == ONCE_OK && got > 0)
            err = once__file_write(to, at, bytes, got);
        at += got;
        progress(user, got);
    }
    free(bytes);
    if (err == ONCE_OK)
        *ret_size = at;
    return err;
}

static int open_copy(struct once__vfs *to, struct once__file **ret_file)
{
    return to->ops->open(to, ONCE__OBJECTS_NAME, ONCE__OPEN_CREATE | ONCE__OPEN_WRITE, ret_file);
}

static int refuse(struct once_message *message, const struct once__snapshot_scan *scan)
{
    return once__message(ONCE_ERR_DAMAGED, message,
                         "%s, the snapshot of objects, is damaged at offset %zu: %s; `once check` "
                         "says more",
                         ONCE__OBJECTS_NAME, scan->defect.offset, scan->defect.what);
}

int once__backup_snapshot(struct once__vfs *from, struct once__vfs *to, const uint8_t *store_id,
                          void (*progress)(void *user, uint64_t size), void *user,
                          struct once__backup_snapshot *ret_snapshot, struct once_message *message)
{
    struct once__backup_snapshot snapshot = {.has = true};
    struct once__file *source = NULL, *copy = NULL;
    uint64_t size = 0;
    int err = from->ops->open(from, ONCE__OBJECTS_NAME, 0, &source);

    if (err == ONCE_ERR_NO_STORE) {
        *ret_snapshot = (struct once__backup_snapshot){.has = false};
        return ONCE_OK; /* there was none in an earlier round either: they never go */
    }
    if (err == ONCE_OK)
        err = open_copy(to, &copy);
    if (err == ONCE_OK)
        err = copy_bytes(source, copy, &size, progress, user);
    if (err == ONCE_OK)
        err = once__snapshot_scan(copy, store_id, NULL, &snapshot.scan);
    once__file_close(source);
    once__file_close(copy);
    if (err == ONCE_OK && snapshot.scan.damaged)
        return refuse(message, &snapshot.scan);
    if (err == ONCE_OK) {
        ONCE_ASSERT(snapshot.scan.size == size);
        *ret_snapshot = snapshot;
    }
    return err;
}

/* Is what was copied still the newest in the source? */
static int is_newest(struct once__vfs *from, const struct once__backup_snapshot *snapshot,
                     bool *ret_newest)
{
    uint8_t now[ONCE__SNAPSHOT_HEADER_SIZE], then[ONCE__SNAPSHOT_HEADER_SIZE];
    struct once__file *file = NULL;
    size_t got = 0;
    int err = from->ops->open(from, ONCE__OBJECTS_NAME, 0, &file);

    if (err == ONCE_ERR_NO_STORE) {
        *ret_newest = !snapshot->has;
        return ONCE_OK;
    }
    if (err == ONCE_OK)
        err = once__file_read(file, 0, now, sizeof(now), &got);
    once__file_close(file);
    if (err != ONCE_OK)
        return err;
    *ret_newest = false;
    if (snapshot->has && got == sizeof(now)) {
        once__snapshot_header_encode(&snapshot->scan.header, then);
        *ret_newest = memcmp(now, then, sizeof(now)) == 0;
    }
    return ONCE_OK;
}

int once__backup_snapshot_fits(struct once__vfs *from, const struct once__backup_snapshot *snapshot,
                               const struct once__backup_log *log, bool *ret_fits,
                               struct once_message *message)
{
    const struct once__snapshot_header *header = &snapshot->scan.header;
    uint64_t last = log->last > header->change ? log->last : header->change;
    bool lenient = log->gaps || header->flags & ONCE__SNAPSHOT_REPAIRED;
    bool newest = false;
    int err;

    *ret_fits = false;
    if ((log->told_objects && !snapshot->has) || (!lenient && last < snapshot->scan.end.change))
        return ONCE_OK; /* it came meanwhile; or the log was copied before */
    *ret_fits = log->oldest <= once__backup_snapshot_from(snapshot) ||
                (log->first > 0 && log->first <= header->change + 1);
    if (*ret_fits)
        return ONCE_OK;
    err = is_newest(from, snapshot, &newest);
    if (err != ONCE_OK || !newest)
        return err;
    /* Nothing that it needs was retired, now or before. */
    if (log->first > 0 && !lenient)
        return once__message(ONCE_ERR_DAMAGED, message,
                             "changes of objects before change %" PRIu64
                             " are missing; `once check` says more",
                             log->first);
    *ret_fits = true;
    return ONCE_OK;
}

int once__backup_snapshot_sync(struct once__vfs *to, const struct once__backup_snapshot *snapshot)
{
    struct once__file *copy = NULL;
    int err;

    if (!snapshot->has)
        return ONCE_OK;
    err = open_copy(to, &copy);
    if (err == ONCE_OK)
        err = once__file_sync(copy);
    once__file_close(copy);
    return err;
}
