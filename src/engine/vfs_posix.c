/* SPDX-License-Identifier: Apache-2.0
 *
 * vfs.h on a folder of the system. Everything goes through the folder's descriptor, so that it
 * stays the same folder whatever is renamed above it. vfs_folder.c makes and opens that folder.
 *
 * DURABLE is O_DIRECT | O_DSYNC: a write returns when the device has it, and its error is told to
 * the one who wrote. Where the file system cannot do that, which shows at open or at the first use,
 * it is a buffered write and fdatasync, one write of a file at a time: the kernel tells a failed
 * writeback once for each descriptor, so with two under way the wrong one might hear of it.
 *
 * What it does not do: try a failed write or sync again (INV-8), or touch signals; whoever sets a
 * limit on file sizes ignores SIGXFSZ himself.
 */
#include "engine/vfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <once/limits.h>

#include "base/assert.h"
#include "engine/vfs_folder.h"

struct posix_vfs {
    struct once__vfs vfs;
    int folder;
    int lock;                    /* the locked file, or -1 */
    _Atomic bool direct_refused; /* the system cannot; do not ask again */
    _Atomic unsigned refusals;   /* once__vfs_refuse */
};
struct posix_file {
    struct once__file file;
    int fd;
    bool aligned; /* opened DURABLE or DIRECT */
    bool durable;
    _Atomic bool direct;
    pthread_mutex_t buffered; /* held over a buffered write and its fdatasync */
};

/* A direct write that ends inside a block is taken up again at that block, this often without
 * getting on; a full disk or a failing device says so the second time. */
enum { STALLS_MAX = 3, ZEROS_SIZE = 1 << 16 };

static struct posix_vfs *posix_vfs(struct once__vfs *vfs)
{
    return (struct posix_vfs *)vfs;
}

static struct posix_file *posix_file(struct once__file *file)
{
    return (struct posix_file *)file;
}

static int fail(struct once__vfs *vfs, int error)
{
    vfs->system_errno = error;
    return once__vfs_err(error);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void check_range(const struct posix_file *file, uint64_t offset, const void *data,
                        size_t size)
{
    ONCE_ASSERT(size <= INT64_MAX && offset <= INT64_MAX - (uint64_t)size);
    if (file->aligned) {
        ONCE_ASSERT(offset % ONCE_BLOCK_SIZE == 0);
        ONCE_ASSERT(size % ONCE_BLOCK_SIZE == 0);
        ONCE_ASSERT((uintptr_t)data % ONCE_BLOCK_SIZE == 0);
    }
}

static bool refuses(const struct once__vfs *vfs, unsigned refusal)
{
    return ((const struct posix_vfs *)vfs)->refusals & refusal;
}

/* Goes on without O_DIRECT. O_DSYNC stays on the descriptor, which costs but does no harm. Returns
 * 0 or errno. */
static int drop_direct(struct posix_file *file)
{
    int flags = fcntl(file->fd, F_GETFL);

    if (flags < 0 || fcntl(file->fd, F_SETFL, flags & ~O_DIRECT) < 0)
        return errno;
    posix_vfs(file->file.vfs)->direct_refused = true;
    file->file.vfs->direct = false;
    file->direct = false;
    return 0;
}

/* 0 or errno. */
static int read_all(const struct posix_file *file, uint64_t offset, uint8_t *data, size_t size,
                    bool direct, size_t *ret_size)
{
    size_t done = 0;

    if (direct && refuses(file->file.vfs, ONCE__REFUSE_DIRECT_USE))
        return EINVAL;
    while (done < size) {
        ssize_t got = pread(file->fd, data + done, size - done, (off_t)(offset + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        done += (size_t)got;
        /* A direct read stops inside a block only at the end, and could not go on from there. */
        if (got == 0 || (direct && got % ONCE_BLOCK_SIZE != 0))
            break;
    }
    *ret_size = done;
    return 0;
}

/* 0 or errno. */
static int write_all(const struct posix_file *file, uint64_t offset, const uint8_t *data,
                     size_t size, bool direct)
{
    size_t unit = direct ? ONCE_BLOCK_SIZE : 1, done = 0;
    unsigned stalls = 0;

    if (direct && refuses(file->file.vfs, ONCE__REFUSE_DIRECT_USE))
        return EINVAL;
    while (done < size) {
        ssize_t put = pwrite(file->fd, data + done, size - done, (off_t)(offset + done));

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        if ((size_t)put < unit && ++stalls > STALLS_MAX)
            return EIO;
        done += (size_t)put / unit * unit;
    }
    return 0;
}

static int file_read(struct once__file *base, uint64_t offset, void *data, size_t size,
                     size_t *ret_size)
{
    struct posix_file *file = posix_file(base);
    bool direct = file->direct;
    int error;

    check_range(file, offset, data, size);
    error = read_all(file, offset, data, size, direct, ret_size);
    if (error == EINVAL && direct) {
        error = drop_direct(file);
        if (error == 0)
            error = read_all(file, offset, data, size, false, ret_size);
    }
    return error == 0 ? ONCE_OK : fail(base->vfs, error);
}

static int sync_data(int fd)
{
    int error;

    do
        error = fdatasync(fd) < 0 ? errno : 0;
    while (error == EINTR);
    return error;
}

static int write_buffered(struct posix_file *file, uint64_t offset, const void *data, size_t size)
{
    int error;

    if (!file->durable)
        return write_all(file, offset, data, size, false);
    pthread_mutex_lock(&file->buffered);
    error = write_all(file, offset, data, size, false);
    if (error == 0)
        error = sync_data(file->fd);
    pthread_mutex_unlock(&file->buffered);
    return error;
}

static int file_write(struct once__file *base, uint64_t offset, const void *data, size_t size)
{
    struct posix_file *file = posix_file(base);
    int error = EINVAL;
    bool direct = file->direct;

    check_range(file, offset, data, size);
    if (direct) {
        error = write_all(file, offset, data, size, true);
        if (error == EINVAL) {
            error = drop_direct(file);
            direct = error != 0;
        }
    }
    if (!direct)
        error = write_buffered(file, offset, data, size);
    return error == 0 ? ONCE_OK : fail(base->vfs, error);
}

static int file_sync(struct once__file *base)
{
    struct posix_file *file = posix_file(base);
    int error;

    pthread_mutex_lock(&file->buffered);
    error = sync_data(file->fd);
    pthread_mutex_unlock(&file->buffered);
    return error == 0 ? ONCE_OK : fail(base->vfs, error);
}

static int file_size(struct once__file *base, uint64_t *ret_size)
{
    struct stat status;

    if (fstat(posix_file(base)->fd, &status) < 0)
        return fail(base->vfs, errno);
    *ret_size = (uint64_t)status.st_size;
    return ONCE_OK;
}

/* Zeros from the end of the file to size. The block in which the file ends is written again whole,
 * because direct writes cannot begin inside it. */
static int fill(struct once__file *base, uint64_t size)
{
    struct posix_file *file = posix_file(base);
    uint64_t end, at;
    size_t tail;
    uint8_t *zeros;
    int err = file_size(base, &end);

    if (err != ONCE_OK || end >= size)
        return err;
    zeros = aligned_alloc(ONCE_BLOCK_SIZE, ZEROS_SIZE);
    if (!zeros)
        return ONCE_ERR_MEMORY;
    memset(zeros, 0, ZEROS_SIZE);
    at = end - end % ONCE_BLOCK_SIZE;
    if (at < end)
        err = file_read(base, at, zeros, ONCE_BLOCK_SIZE, &tail);
    while (err == ONCE_OK && at < size) {
        size_t part = size - at < ZEROS_SIZE ? (size_t)(size - at) : ZEROS_SIZE;

        err = file_write(base, at, zeros, part);
        if (at < end)
            memset(zeros, 0, ONCE_BLOCK_SIZE);
        at += part;
    }
    ONCE_ASSERT(err != ONCE_OK || !file->aligned || at % ONCE_BLOCK_SIZE == 0);
    free(zeros);
    return err;
}

static int file_allocate(struct once__file *base, uint64_t size)
{
    int error = EOPNOTSUPP;

    check_range(posix_file(base), size, NULL, 0);
    if (size == 0)
        return ONCE_OK;
    if (!refuses(base->vfs, ONCE__REFUSE_FALLOCATE)) {
        do
            error = fallocate(posix_file(base)->fd, 0, 0, (off_t)size) < 0 ? errno : 0;
        while (error == EINTR);
    }
    if (error == EOPNOTSUPP || error == ENOSYS)
        return fill(base, size);
    return error == 0 ? ONCE_OK : fail(base->vfs, error);
}

static int file_truncate(struct once__file *base, uint64_t size)
{
    ONCE_ASSERT(size <= INT64_MAX);
    while (ftruncate(posix_file(base)->fd, (off_t)size) < 0) {
        if (errno != EINTR)
            return fail(base->vfs, errno);
    }
    return ONCE_OK;
}

static void file_close(struct once__file *base)
{
    struct posix_file *file = posix_file(base);

    close(file->fd); /* what a close could tell was told by the sync before, or nobody asked */
    pthread_mutex_destroy(&file->buffered);
    free(file);
}

static const struct once__file_ops file_ops = {
    .read = file_read,
    .write = file_write,
    .sync = file_sync,
    .size = file_size,
    .allocate = file_allocate,
    .truncate = file_truncate,
    .close = file_close,
};

/* ---- The folder ------------------------------------------------------------------------------ */

static int open_at(const struct posix_vfs *vfs, const char *name, int flags)
{
    int fd;

    ONCE_ASSERT(!strchr(name, '/'));
    do
        fd = openat(vfs->folder, name, flags | O_CLOEXEC | O_NONBLOCK,
                    0600); /* a pipe may lie there */
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* Opens for direct access if that is asked for and the system can. -1 and errno. */
static int open_for(struct posix_vfs *vfs, const char *name, unsigned flags, bool *ret_direct)
{
    bool aligned = flags & (ONCE__OPEN_DURABLE | ONCE__OPEN_DIRECT);
    int how = flags & ONCE__OPEN_WRITE ? O_RDWR : O_RDONLY, direct = O_DIRECT, fd;

    if (flags & ONCE__OPEN_CREATE)
        how |= O_CREAT;
    if (flags & ONCE__OPEN_DURABLE)
        direct |= O_DSYNC;
    if (aligned && !vfs->direct_refused) {
        bool refused = refuses(&vfs->vfs, ONCE__REFUSE_DIRECT_OPEN);

        fd = refused ? -1 : open_at(vfs, name, how | direct);
        if (fd >= 0 || (!refused && errno != EINVAL)) {
            *ret_direct = true;
            return fd;
        }
        vfs->direct_refused = true;
    }
    *ret_direct = false;
    return open_at(vfs, name, how);
}

static int vfs_open(struct once__vfs *base, const char *name, unsigned flags,
                    struct once__file **ret)
{
    struct posix_vfs *vfs = posix_vfs(base);
    struct posix_file *file = calloc(1, sizeof(*file));
    bool direct;
    int error;

    if (!file)
        return ONCE_ERR_MEMORY;
    file->fd = open_for(vfs, name, flags, &direct);
    if (file->fd < 0) {
        error = errno;
        free(file);
        return error == ENOENT && !(flags & ONCE__OPEN_CREATE) ? ONCE_ERR_NO_STORE
                                                               : fail(base, error);
    }
    ONCE_ASSERT(pthread_mutex_init(&file->buffered, NULL) == 0);
    file->file = (struct once__file){.ops = &file_ops, .vfs = base};
    file->aligned = flags & (ONCE__OPEN_DURABLE | ONCE__OPEN_DIRECT);
    file->durable = flags & ONCE__OPEN_DURABLE;
    file->direct = direct;
    if (file->aligned)
        base->direct = direct;
    *ret = &file->file;
    return ONCE_OK;
}

static int vfs_remove(struct once__vfs *base, const char *name)
{
    if (unlinkat(posix_vfs(base)->folder, name, 0) == 0)
        return ONCE_OK;
    return errno == ENOENT ? ONCE_ERR_NO_STORE : fail(base, errno);
}

static int vfs_rename(struct once__vfs *base, const char *from, const char *to)
{
    int folder = posix_vfs(base)->folder;

    if (renameat(folder, from, folder, to) == 0)
        return ONCE_OK;
    return errno == ENOENT ? ONCE_ERR_NO_STORE : fail(base, errno);
}

/* Through the descriptor that is there: a process that has no more of them must not look like a
 * disk that fails (INV-8). */
static int vfs_sync_folder(struct once__vfs *base)
{
    int error;

    do
        error = fsync(posix_vfs(base)->folder) < 0 ? errno : 0;
    while (error == EINTR);
    return error == 0 ? ONCE_OK : fail(base, error);
}

static bool is_folder(int folder, const struct dirent *entry)
{
    struct stat status;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(status.st_mode);
}

static int vfs_list(struct once__vfs *base, int (*each)(void *user, const char *name), void *user)
{
    int fd = open_at(posix_vfs(base), ".", O_RDONLY | O_DIRECTORY), err = ONCE_OK;
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (!folder) {
        err = fail(base, errno);
        if (fd >= 0)
            close(fd);
        return err;
    }
    while (err == ONCE_OK) {
        errno = 0;
        entry = readdir(folder);
        if (!entry) {
            err = errno ? fail(base, errno) : ONCE_OK;
            break;
        }
        if (!is_folder(fd, entry))
            err = each(user, entry->d_name);
    }
    closedir(folder);
    return err;
}

static int vfs_lock(struct once__vfs *base, const char *name, const char *text, char *ret_owner,
                    size_t owner_size)
{
    struct posix_vfs *vfs = posix_vfs(base);
    int fd, error;

    error = once__folder_lock(vfs->folder, name, text, &fd);
    if (error == EAGAIN) {
        once__folder_owner(vfs->folder, name, ret_owner, owner_size);
        return ONCE_ERR_LOCKED;
    }
    if (error != 0)
        return fail(base, error);
    ONCE_ASSERT(vfs->lock < 0); /* our own lock is in the way of a second one */
    vfs->lock = fd;
    return ONCE_OK;
}

static int vfs_free_size(struct once__vfs *base, uint64_t *ret_size)
{
    struct statvfs status;

    if (fstatvfs(posix_vfs(base)->folder, &status) < 0)
        return fail(base, errno);
    *ret_size = (uint64_t)status.f_bavail * (uint64_t)status.f_frsize;
    return ONCE_OK;
}

static void vfs_free(struct once__vfs *base)
{
    struct posix_vfs *vfs = posix_vfs(base);

    if (vfs->lock >= 0) {
        struct flock whole = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

        (void)fcntl(vfs->lock, F_OFD_SETLK, &whole); /* a child may have the description too */
        close(vfs->lock);
    }
    close(vfs->folder);
    free(vfs);
}

static const struct once__vfs_ops vfs_ops = {
    .open = vfs_open,
    .remove = vfs_remove,
    .rename = vfs_rename,
    .sync_folder = vfs_sync_folder,
    .list = vfs_list,
    .lock = vfs_lock,
    .free_size = vfs_free_size,
    .free = vfs_free,
};

int once__vfs_open(const char *folder, bool make, struct once__vfs **ret_vfs, int *ret_errno)
{
    struct posix_vfs *vfs = calloc(1, sizeof(*vfs));
    int error = ENOMEM;

    if (vfs)
        error = once__folder_open(folder, make, &vfs->folder);
    if (error != 0) {
        free(vfs);
        if (ret_errno)
            *ret_errno = error;
        if (error == ENOMEM)
            return ONCE_ERR_MEMORY;
        return error == ENOENT && !make ? ONCE_ERR_NO_STORE : once__vfs_err(error);
    }
    vfs->vfs.ops = &vfs_ops;
    vfs->lock = -1;
    *ret_vfs = &vfs->vfs;
    return ONCE_OK;
}

void once__vfs_refuse(struct once__vfs *vfs, unsigned refusals)
{
    ONCE_ASSERT(vfs->ops == &vfs_ops);
    posix_vfs(vfs)->refusals = refusals;
}
