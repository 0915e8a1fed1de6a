/* SPDX-License-Identifier: Apache-2.0
 *
 * What disk.c (the disk, its faults, its cuts) and mount.c (the vfs on it) share.
 */
#ifndef ONCE_TESTS_DISK_INSIDE_H
#define ONCE_TESTS_DISK_INSIDE_H

#include <pthread.h>

#include "disk/disk.h"
#include "disk/names.h"

struct disk {
    pthread_mutex_t lock; /* guards all below; the atomic ones may be looked at without */
    struct pool pool;
    struct names names;
    uint64_t size_max;
    _Atomic uint64_t operations;
    struct disk_faults faults;
    bool write_failed; /* that fault has happened */
    bool sync_failed;
    uint64_t life; /* mounts of an earlier one are dead */
    _Atomic bool cut;
    const struct once__vfs *owner; /* who holds the lock, or NULL */
    uint32_t mount_count;
};

/* All with the lock held. */

/* Counts one changing operation. True: power fails during it. */
bool disk_step(struct disk *disk);
bool disk_write_fails(struct disk *disk); /* the durable write that was counted last */
bool disk_sync_fails(struct disk *disk);
/* Whether the operation with this number may take so many bytes more. */
bool disk_has_room(const struct disk *disk, uint64_t operation, uint64_t growth);
void disk_power_fails(struct disk *disk);

#endif
