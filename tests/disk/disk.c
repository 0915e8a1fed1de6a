/* SPDX-License-Identifier: Apache-2.0
 *
 * disk.h: the disk itself, its faults and its power cuts. mount.c is the vfs on it.
 */
#include "disk/disk.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "disk/inside.h"

struct disk *disk_new(uint64_t seed, uint64_t size_max)
{
    struct disk *disk = calloc(1, sizeof(*disk));

    ONCE_ASSERT(disk);
    ONCE_ASSERT(pthread_mutex_init(&disk->lock, NULL) == 0);
    disk->pool.random = seed;
    disk->size_max = size_max;
    return disk;
}

void disk_free(struct disk *disk)
{
    if (!disk)
        return;
    ONCE_ASSERT(disk->mount_count == 0);
    names_release(&disk->names);
    ONCE_ASSERT(!disk->pool.first);
    ONCE_ASSERT(disk->pool.used == 0);
    pthread_mutex_destroy(&disk->lock);
    free(disk);
}

void disk_set_faults(struct disk *disk, const struct disk_faults *faults)
{
    pthread_mutex_lock(&disk->lock);
    disk->faults = *faults;
    disk->write_failed = false;
    disk->sync_failed = false;
    pthread_mutex_unlock(&disk->lock);
}

uint64_t disk_operations(const struct disk *disk)
{
    return disk->operations;
}

bool disk_step(struct disk *disk)
{
    return ++disk->operations == disk->faults.cut_at;
}

static bool fails(const struct disk *disk, uint64_t at, bool *failed)
{
    if (at == 0 || disk->operations < at || (*failed && !disk->faults.fail_for_ever))
        return false;
    *failed = true;
    return true;
}

bool disk_write_fails(struct disk *disk)
{
    return fails(disk, disk->faults.fail_write_at, &disk->write_failed);
}

bool disk_sync_fails(struct disk *disk)
{
    return fails(disk, disk->faults.fail_sync_at, &disk->sync_failed);
}

bool disk_has_room(const struct disk *disk, uint64_t operation, uint64_t growth)
{
    const struct disk_faults *faults = &disk->faults;

    if (growth == 0)
        return true;
    if (faults->full_at && operation >= faults->full_at &&
        (!faults->full_until || operation <= faults->full_until))
        return false;
    /* The lock's file asks nobody, and may have put used past the bound. */
    return disk->pool.used <= disk->size_max && growth <= disk->size_max - disk->pool.used;
}

/* The rule of this cut. The threshold lies among what is pending, else it would seldom part it. */
static struct settling settling_choose(struct disk *disk)
{
    static const uint32_t weights[] = {1, 4, 7};
    struct pool *pool = &disk->pool;
    struct settling settling = {.pool = pool, .mode = (enum settle_mode)pool_below(pool, 5)};
    uint32_t low = UINT32_MAX, high = 0;

    if (settling.mode == SETTLE_EACH)
        settling.weight = weights[pool_below(pool, 3)];
    if (settling.mode != SETTLE_PREFIX && settling.mode != SETTLE_SUFFIX)
        return settling;
    names_stamps(&disk->names, &low, &high);
    for (const struct inode *inode = pool->first; inode; inode = inode->next)
        inode_stamps(inode, &low, &high);
    if (low <= high)
        settling.threshold = low + (uint32_t)pool_below(pool, high - low + 1);
    return settling;
}

static void end_life(struct disk *disk)
{
    disk->life++;
    disk->owner = NULL;
}

void disk_power_fails(struct disk *disk)
{
    struct settling settling = settling_choose(disk);

    for (struct inode *inode = disk->pool.first; inode; inode = inode->next)
        inode_settle(inode, &settling);
    names_settle(&disk->names, &settling);
    disk->pool.stamp = 0;
    disk->cut = true;
    end_life(disk);
}

void disk_cut(struct disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    disk_power_fails(disk);
    pthread_mutex_unlock(&disk->lock);
}

void disk_kill(struct disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    end_life(disk);
    pthread_mutex_unlock(&disk->lock);
}

bool disk_is_cut(const struct disk *disk)
{
    return disk->cut;
}

/* Locks; NULL, and unlocked again, when these bytes are not there. */
static struct inode *look(struct disk *disk, const char *name, uint64_t offset, uint64_t size)
{
    struct inode *inode;

    pthread_mutex_lock(&disk->lock);
    inode = names_find(&disk->names, name);
    if (inode && offset <= inode->size && size <= inode->size - offset)
        return inode;
    pthread_mutex_unlock(&disk->lock);
    return NULL;
}

bool disk_flip(struct disk *disk, const char *name, uint64_t offset, uint8_t mask)
{
    struct inode *inode = look(disk, name, offset, 1);

    if (!inode)
        return false;
    inode->data[offset] ^= mask;
    inode->medium[offset] ^= mask;
    pthread_mutex_unlock(&disk->lock);
    return true;
}

bool disk_peek(struct disk *disk, const char *name, uint64_t offset, void *data, size_t size)
{
    struct inode *inode = look(disk, name, offset, size);

    if (!inode)
        return false;
    if (size > 0)
        memcpy(data, inode->data + offset, size);
    pthread_mutex_unlock(&disk->lock);
    return true;
}

bool disk_remove(struct disk *disk, const char *name)
{
    if (!look(disk, name, 0, 0))
        return false;
    names_forget(&disk->names, name);
    pthread_mutex_unlock(&disk->lock);
    return true;
}

uint64_t disk_file_size(struct disk *disk, const char *name)
{
    struct inode *inode = look(disk, name, 0, 0);
    uint64_t size;

    if (!inode)
        return 0;
    size = inode->size;
    pthread_mutex_unlock(&disk->lock);
    return size;
}

uint64_t disk_used(const struct disk *disk)
{
    return disk->pool.used;
}
