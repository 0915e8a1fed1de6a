/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the backup share: backup_copy.c copies the log, backup_objects.c the snapshot
 * of objects that goes with it.
 */
#ifndef ONCE_ENGINE_BACKUP_INNER_H
#define ONCE_ENGINE_BACKUP_INNER_H

#include <once/store.h>

#include "engine/snapshot_scan.h"
#include "engine/vfs.h"

/* The snapshot in the copy. */
struct once__backup_snapshot {
    bool has;
    struct once__snapshot_scan scan; /* all zero without one */
};

/* Sequence of the first segment whose changes are not in it. */
static inline uint64_t once__backup_snapshot_from(const struct once__backup_snapshot *snapshot)
{
    return snapshot->has ? snapshot->scan.header.from : 1;
}

/* The copied log, as far as objects are concerned. */
struct once__backup_log {
    uint64_t oldest; /* sequence of its first segment */
    /* Numbers of the first and last change in segments that the snapshot needs; 0 is none. */
    uint64_t first, last;
    bool gaps;         /* something in it was given up */
    bool told_objects; /* its last batch says that there is a snapshot */
};

/* Copies the snapshot as it is now, over what was copied before. progress is told of every part.
 * ONCE_ERR_DAMAGED with a message, ONCE_ERR_VERSION, ONCE_ERR_SPACE, ONCE_ERR_IO,
 * ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__backup_snapshot(struct once__vfs *from, struct once__vfs *to,
                                          const uint8_t *store_id,
                                          void (*progress)(void *user, uint64_t size), void *user,
                                          struct once__backup_snapshot *ret_snapshot,
                                          struct once_message *message);
/* Do the copied snapshot and the log that was copied after it make the objects? Else both are
 * copied again. ONCE_ERR_DAMAGED with a message: they never will. */
ONCE_MUST_CHECK int once__backup_snapshot_fits(struct once__vfs *from,
                                               const struct once__backup_snapshot *snapshot,
                                               const struct once__backup_log *log, bool *ret_fits,
                                               struct once_message *message);
ONCE_MUST_CHECK int once__backup_snapshot_sync(struct once__vfs *to,
                                               const struct once__backup_snapshot *snapshot);

#endif
