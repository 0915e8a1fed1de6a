/* SPDX-License-Identifier: Apache-2.0
 *
 * The vfs on a test disk: one life of a process. Every call takes the disk's lock, asks whether
 * this life is over, counts itself if it changes something, and lets the faults happen.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <once/limits.h>

#include "base/assert.h"
#include "disk/inside.h"

struct mount {
    struct once__vfs vfs;
    struct disk *disk;
    uint64_t life;
    uint32_t file_count; /* open ones */
};
struct handle {
    struct once__file file;
    struct inode *inode;
    unsigned flags;
};

static struct mount *mount_of(struct once__vfs *vfs)
{
    return (struct mount *)vfs;
}

static struct disk *disk_of(struct once__file *file)
{
    return mount_of(file->vfs)->disk;
}

static struct inode *inode_of(struct once__file *file)
{
    return ((struct handle *)file)->inode;
}

/* Takes the lock. False when this life is over. */
static bool enter(struct once__vfs *vfs)
{
    struct mount *mount = mount_of(vfs);

    pthread_mutex_lock(&mount->disk->lock);
    return mount->life == mount->disk->life;
}

static int leave(struct once__vfs *vfs, int err)
{
    if (err == ONCE_ERR_SPACE)
        vfs->system_errno = ENOSPC;
    else if (err == ONCE_ERR_NO_STORE)
        vfs->system_errno = ENOENT;
    else if (err == ONCE_ERR_IO)
        vfs->system_errno = EIO;
    pthread_mutex_unlock(&mount_of(vfs)->disk->lock);
    return err;
}

/* The end of a changing operation, during which power fails or not. */
static int leave_changed(struct once__vfs *vfs, bool cut, int err)
{
    if (cut) {
        disk_power_fails(mount_of(vfs)->disk);
        err = ONCE_ERR_IO;
    }
    return leave(vfs, err);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void check_aligned(struct once__file *file, uint64_t offset, const void *data, size_t size)
{
    if (!(((struct handle *)file)->flags & (ONCE__OPEN_DURABLE | ONCE__OPEN_DIRECT)))
        return;
    ONCE_ASSERT(offset % ONCE_BLOCK_SIZE == 0);
    ONCE_ASSERT(size % ONCE_BLOCK_SIZE == 0);
    ONCE_ASSERT((uintptr_t)data % ONCE_BLOCK_SIZE == 0);
}

static int handle_read(struct once__file *file, uint64_t offset, void *data, size_t size,
                       size_t *ret_size)
{
    const struct inode *inode = inode_of(file);
    size_t there = 0;

    check_aligned(file, offset, data, size);
    if (!enter(file->vfs))
        return leave(file->vfs, ONCE_ERR_IO);
    if (offset < inode->size)
        there = inode->size - offset < size ? (size_t)(inode->size - offset) : size;
    if (there > 0)
        memcpy(data, inode->data + offset, there);
    *ret_size = there;
    return leave(file->vfs, ONCE_OK);
}

/* A durable write that fails: some sectors of it are shown, and never become durable by a sync. */
static void write_some(struct inode *inode, uint64_t offset, const uint8_t *data, size_t size)
{
    uint64_t odds = pool_below(inode->pool, 3); /* none, half or all of them */

    for (size_t at = 0; at < size; at += SECTOR_SIZE) {
        if (pool_below(inode->pool, 2) >= odds)
            continue;
        inode_write(inode, offset + at, data + at, SECTOR_SIZE);
        inode_stick_range(inode, offset + at, SECTOR_SIZE);
    }
}

/* A write that has no room: the beginning of it, at most as far as no new space is needed. */
static void write_beginning(struct inode *inode, uint64_t offset, const void *data, size_t size)
{
    uint64_t room = offset < inode->charged ? inode->charged - offset : 0;
    uint64_t fits = room < size ? room : size;

    inode_write(inode, offset, data,
                (size_t)pool_below(inode->pool, fits / SECTOR_SIZE + 1) * SECTOR_SIZE);
}

static int handle_write(struct once__file *file, uint64_t offset, const void *data, size_t size)
{
    struct disk *disk = disk_of(file);
    struct inode *inode = inode_of(file);
    unsigned flags = ((struct handle *)file)->flags;
    bool durable = flags & ONCE__OPEN_DURABLE, cut;
    int err = ONCE_OK;

    ONCE_ASSERT(flags & ONCE__OPEN_WRITE);
    check_aligned(file, offset, data, size);
    if (!enter(file->vfs))
        return leave(file->vfs, ONCE_ERR_IO);
    cut = disk_step(disk);
    if (!disk_has_room(disk, disk->operations, inode_growth(inode, offset + size))) {
        write_beginning(inode, offset, data, size);
        err = ONCE_ERR_SPACE;
    } else if (durable && disk_write_fails(disk)) {
        write_some(inode, offset, data, size);
        err = ONCE_ERR_IO;
    } else if (durable && !cut) {
        inode_write_durable(inode, offset, data, size);
    } else {
        inode_write(inode, offset, data, size);
    }
    return leave_changed(file->vfs, cut, err);
}

static int handle_sync(struct once__file *file)
{
    struct disk *disk = disk_of(file);
    int err = ONCE_OK;
    bool cut;

    if (!enter(file->vfs))
        return leave(file->vfs, ONCE_ERR_IO);
    cut = disk_step(disk);
    if (disk_sync_fails(disk)) {
        inode_stick(inode_of(file));
        err = ONCE_ERR_IO;
    } else if (!cut) {
        inode_sync(inode_of(file));
    }
    return leave_changed(file->vfs, cut, err);
}

static int handle_size(struct once__file *file, uint64_t *ret_size)
{
    if (!enter(file->vfs))
        return leave(file->vfs, ONCE_ERR_IO);
    *ret_size = inode_of(file)->size;
    return leave(file->vfs, ONCE_OK);
}

static int resize(struct once__file *file, uint64_t size, bool may_shrink)
{
    struct disk *disk = disk_of(file);
    struct inode *inode = inode_of(file);
    int err = ONCE_OK;
    bool cut;

    ONCE_ASSERT(((struct handle *)file)->flags & ONCE__OPEN_WRITE);
    if (!enter(file->vfs))
        return leave(file->vfs, ONCE_ERR_IO);
    cut = disk_step(disk);
    if (!disk_has_room(disk, disk->operations, inode_growth(inode, size)))
        err = ONCE_ERR_SPACE;
    else if (may_shrink || size > inode->size)
        inode_set_size(inode, size);
    return leave_changed(file->vfs, cut, err);
}

static int handle_allocate(struct once__file *file, uint64_t size)
{
    return resize(file, size, false);
}

static int handle_truncate(struct once__file *file, uint64_t size)
{
    return resize(file, size, true);
}

static void handle_close(struct once__file *file)
{
    struct mount *mount = mount_of(file->vfs);

    pthread_mutex_lock(&mount->disk->lock);
    ONCE_ASSERT(mount->file_count > 0);
    mount->file_count--;
    inode_drop(inode_of(file));
    pthread_mutex_unlock(&mount->disk->lock);
    free(file);
}

static const struct once__file_ops handle_ops = {
    .read = handle_read,
    .write = handle_write,
    .sync = handle_sync,
    .size = handle_size,
    .allocate = handle_allocate,
    .truncate = handle_truncate,
    .close = handle_close,
};

/* ---- The folder ------------------------------------------------------------------------------ */

static struct inode *make_file(struct disk *disk, const char *name)
{
    struct inode *inode = inode_new(&disk->pool);

    names_change(&disk->names, inode, "", name);
    inode_drop(inode); /* its name holds it now */
    return inode;
}

static int mount_open(struct once__vfs *vfs, const char *name, unsigned flags,
                      struct once__file **ret)
{
    struct mount *mount = mount_of(vfs);
    struct disk *disk = mount->disk;
    struct handle *handle = calloc(1, sizeof(*handle));
    struct inode *inode;
    bool cut = false;

    ONCE_ASSERT(handle);
    if (!enter(vfs)) {
        free(handle);
        return leave(vfs, ONCE_ERR_IO);
    }
    inode = names_find(&disk->names, name);
    if (!inode && (flags & ONCE__OPEN_CREATE)) {
        cut = disk_step(disk);
        inode = make_file(disk, name);
    }
    if (!inode || cut) {
        free(handle);
        return leave_changed(vfs, cut, ONCE_ERR_NO_STORE);
    }
    *handle = (struct handle){
        .file = {.ops = &handle_ops, .vfs = vfs}, .inode = inode_hold(inode), .flags = flags};
    mount->file_count++;
    *ret = &handle->file;
    return leave(vfs, ONCE_OK);
}

static int mount_remove(struct once__vfs *vfs, const char *name)
{
    struct disk *disk = mount_of(vfs)->disk;
    struct inode *inode;
    bool cut;

    if (!enter(vfs))
        return leave(vfs, ONCE_ERR_IO);
    inode = names_find(&disk->names, name);
    if (!inode)
        return leave(vfs, ONCE_ERR_NO_STORE);
    cut = disk_step(disk);
    names_change(&disk->names, inode, name, "");
    return leave_changed(vfs, cut, ONCE_OK);
}

static int mount_rename(struct once__vfs *vfs, const char *from, const char *to)
{
    struct disk *disk = mount_of(vfs)->disk;
    struct inode *inode;
    bool cut;

    if (!enter(vfs))
        return leave(vfs, ONCE_ERR_IO);
    inode = names_find(&disk->names, from);
    if (!inode)
        return leave(vfs, ONCE_ERR_NO_STORE);
    cut = disk_step(disk);
    if (strcmp(from, to) != 0)
        names_change(&disk->names, inode, from, to);
    return leave_changed(vfs, cut, ONCE_OK);
}

static int mount_sync_folder(struct once__vfs *vfs)
{
    struct disk *disk = mount_of(vfs)->disk;
    int err = ONCE_OK;
    bool cut;

    if (!enter(vfs))
        return leave(vfs, ONCE_ERR_IO);
    cut = disk_step(disk);
    if (disk_sync_fails(disk)) {
        names_stick(&disk->names);
        err = ONCE_ERR_IO;
    } else if (!cut) {
        names_sync(&disk->names);
    }
    return leave_changed(vfs, cut, err);
}

/* The names are copied first: what is called back may use the disk. */
static int mount_list(struct once__vfs *vfs, int (*each)(void *user, const char *name), void *user)
{
    const struct entries *seen = &mount_of(vfs)->disk->names.seen;
    struct entry *list;
    uint32_t count;
    int err = ONCE_OK;

    if (!enter(vfs))
        return leave(vfs, ONCE_ERR_IO);
    count = seen->count;
    list = malloc((count + 1) * sizeof(*list));
    ONCE_ASSERT(list);
    if (count > 0)
        memcpy(list, seen->list, count * sizeof(*list));
    leave(vfs, ONCE_OK);
    for (uint32_t i = 0; i < count && err == ONCE_OK; i++)
        err = each(user, list[i].name);
    free(list);
    return err;
}

static int mount_lock(struct once__vfs *vfs, const char *name, const char *text, char *ret_owner,
                      size_t owner_size)
{
    struct disk *disk = mount_of(vfs)->disk;
    struct inode *inode;

    if (!enter(vfs))
        return leave(vfs, ONCE_ERR_IO);
    inode = names_find(&disk->names, name);
    if (disk->owner) {
        if (owner_size > 0)
            snprintf(ret_owner, owner_size, "%.*s", inode ? (int)inode->size : 0,
                     inode && inode->data ? (const char *)inode->data : "");
        return leave(vfs, ONCE_ERR_LOCKED);
    }
    if (!inode)
        inode = make_file(disk, name);
    inode_write(inode, 0, text, strlen(text));
    inode_set_size(inode, strlen(text));
    disk->owner = vfs;
    return leave(vfs, ONCE_OK);
}

static int mount_free_size(struct once__vfs *vfs, uint64_t *ret_size)
{
    struct disk *disk = mount_of(vfs)->disk;

    if (!enter(vfs))
        return leave(vfs, ONCE_ERR_IO);
    *ret_size = disk_has_room(disk, disk->operations + 1, 1) ? disk->size_max - disk->pool.used : 0;
    return leave(vfs, ONCE_OK);
}

static void mount_free(struct once__vfs *vfs)
{
    struct mount *mount = mount_of(vfs);
    struct disk *disk = mount->disk;

    pthread_mutex_lock(&disk->lock);
    ONCE_ASSERT(mount->file_count == 0);
    if (disk->owner == vfs)
        disk->owner = NULL;
    disk->mount_count--;
    pthread_mutex_unlock(&disk->lock);
    free(mount);
}

static const struct once__vfs_ops mount_ops = {
    .open = mount_open,
    .remove = mount_remove,
    .rename = mount_rename,
    .sync_folder = mount_sync_folder,
    .list = mount_list,
    .lock = mount_lock,
    .free_size = mount_free_size,
    .free = mount_free,
};

struct once__vfs *disk_mount(struct disk *disk)
{
    struct mount *mount = calloc(1, sizeof(*mount));

    ONCE_ASSERT(mount);
    mount->vfs.ops = &mount_ops;
    mount->vfs.direct = true;
    mount->disk = disk;
    pthread_mutex_lock(&disk->lock);
    mount->life = disk->life;
    disk->mount_count++;
    disk->cut = false;
    pthread_mutex_unlock(&disk->lock);
    return &mount->vfs;
}
