/* SPDX-License-Identifier: Apache-2.0
 *
 * vfs_folder.h.
 *
 * Making: a folder whose name in its parent is not durable takes the whole store with it at a power
 * cut. So after each one that is made its parent is synced, before the next is made; and because
 * somebody may have been stopped between the two, the parent of the deepest folder that is already
 * there is synced as well. By induction all names on the way are durable in the end, and a folder
 * that was always there costs one fsync.
 *
 * Locking: a lock of the open file description (F_OFD_SETLK), so that a second store in the same
 * process is refused too, and closing another descriptor of the file does not give it up. We never
 * remove the file: a lock on a file that has lost its name keeps nobody away.
 */
#include "engine/vfs_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <once/err.h>

#include "base/assert.h"

int once__vfs_err(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return ONCE_ERR_SPACE;
    case EACCES:
    case EPERM:
    case EROFS:
        return ONCE_ERR_PERMISSION;
    default:
        return ONCE_ERR_IO;
    }
}

int once__folder_sync(int from, const char *name)
{
    int fd = openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = 0;

    if (fd < 0)
        return errno;
    while (fsync(fd) < 0) {
        error = errno;
        if (error != EINTR)
            break;
        error = 0;
    }
    close(fd);
    return error;
}

/* Syncs the parent of a folder that was there already. Whoever may not read it did not make it. */
static int sync_parent(int folder)
{
    int error = once__folder_sync(folder, "..");

    return error == EACCES || error == EPERM || error == EROFS ? 0 : error;
}

/* Makes one folder durably, unless somebody else just did. */
static int make_in(int parent, const char *name, bool last)
{
    int error = sync_parent(parent);

    if (error != 0)
        return error;
    if (mkdirat(parent, name, last ? 0700 : 0755) < 0 && errno != EEXIST)
        return errno;
    return once__folder_sync(parent, ".");
}

/* Steps from *fd, which is closed, into the folder of this name. */
static int step(int *fd, const char *name, bool last)
{
    int how = O_DIRECTORY | O_CLOEXEC | (last ? O_RDONLY : O_PATH);
    int next = openat(*fd, name, how), error = 0;

    if (next < 0 && errno == ENOENT) {
        error = make_in(*fd, name, last);
        if (error == 0)
            next = openat(*fd, name, how);
    }
    if (next < 0)
        return error ? error : errno;
    close(*fd);
    *fd = next;
    return 0;
}

static int make_all(const char *path, int *ret_fd)
{
    char *copy = strdup(path), *rest = copy, *part;
    int fd, error = 0;

    if (!copy)
        return ENOMEM;
    fd = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        error = errno;
    while (error == 0 && (part = strsep(&rest, "/"))) {
        bool last = !rest || rest[strspn(rest, "/")] == '\0';

        if (part[0])
            error = step(&fd, part, last);
    }
    free(copy);
    if (error != 0) {
        if (fd >= 0)
            close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

int once__folder_open(const char *path, bool make, int *ret_fd)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error;

    if (fd < 0 && (errno != ENOENT || !make || !path[0]))
        return errno;
    if (fd < 0) {
        error = make_all(path, &fd);
        if (error != 0)
            return error;
    } else if (make) {
        error = sync_parent(fd);
        if (error != 0) {
            close(fd);
            return error;
        }
    }
    *ret_fd = fd;
    return 0;
}

/* Whether the name still means the file that was opened. */
static bool is_named(int folder, const char *name, int fd)
{
    struct stat opened, named;

    return fstat(fd, &opened) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/* Over the old text, then cut to size: where there was room once there still is on a full disk. */
static int write_text(int fd, const char *text)
{
    size_t size = strlen(text), done = 0;

    while (done < size) {
        ssize_t put = pwrite(fd, text + done, size - done, (off_t)done);

        if (put < 0 && errno != EINTR)
            return errno;
        done += put > 0 ? (size_t)put : 0;
    }
    return ftruncate(fd, (off_t)size) < 0 ? errno : 0;
}

int once__folder_lock(int folder, const char *name, const char *text, int *ret_fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), error;

    ONCE_ASSERT(!strchr(name, '/'));
    if (fd < 0)
        return errno;
    if (fcntl(fd, F_OFD_SETLK, &whole) < 0)
        error = errno == EACCES ? EAGAIN : errno;
    else if (!is_named(folder, name, fd))
        error = EAGAIN; /* taken away under us: somebody else may have the new one */
    else
        error = write_text(fd, text);
    if (error != 0) {
        close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

void once__folder_owner(int folder, const char *name, char *ret_owner, size_t owner_size)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t size = 0;

    if (owner_size == 0) {
        if (fd >= 0)
            close(fd);
        return;
    }
    if (fd >= 0) {
        do
            size = pread(fd, ret_owner, owner_size - 1, 0);
        while (size < 0 && errno == EINTR);
        close(fd);
    }
    ret_owner[size > 0 ? size : 0] = '\0';
}
