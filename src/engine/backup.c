/* SPDX-License-Identifier: Apache-2.0
 *
 * once_backup: the folders around a copy (backup_copy.c). The copy is made under another name and
 * gets its own when it is whole and durable, so a folder of that name is a good copy or not there.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <once/store.h>

#include "engine/check.h"
#include "engine/inner.h"
#include "engine/vfs_folder.h"

/* What a copy is made of. Nothing else in the folder is ours to remove. */
static bool is_of_a_copy(const char *name)
{
    bool is_segment;
    uint32_t slot;

    return strcmp(name, ONCE__STORE_NAME) == 0 || strcmp(name, ONCE__OBJECTS_NAME) == 0 ||
           once__name_slot(name, &is_segment, &slot);
}

static int refuse_foreign(void *user, const char *name)
{
    (void)user;
    return is_of_a_copy(name) ? ONCE_OK : ONCE_ERR_INVALID;
}

static int remove_name(void *user, const char *name)
{
    struct once__vfs *vfs = user;

    return vfs->ops->remove(vfs, name);
}

/* Takes the folder of the unfinished copy: -1 and errno, or a descriptor that holds it until it is
 * closed, after the copy has its name. Two that copy to one place would each spoil what the other
 * has finished. */
static int take_partial(const char *partial)
{
    struct stat held, named;
    int fd;

    fd = open(partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        if (fstat(fd, &held) == 0 && lstat(partial, &named) == 0 && held.st_ino == named.st_ino &&
            held.st_dev == named.st_dev)
            return fd;
        errno = EWOULDBLOCK; /* just finished and renamed */
    }
    close(fd);
    return -1;
}

/* An unfinished copy of before is no use to anyone. */
static int clear_partial(struct once__vfs *to, const char *partial, struct once_message *message)
{
    int err = to->ops->list(to, refuse_foreign, NULL);

    if (err == ONCE_ERR_INVALID)
        return once__message(err, message,
                             "%s is there already and holds files that are no unfinished copy: "
                             "move them away, or name another target",
                             partial);
    if (err == ONCE_OK)
        err = to->ops->list(to, remove_name, to);
    return err == ONCE_OK ? ONCE_OK
                          : once__message(err, message, "%s cannot be emptied: %s", partial,
                                          strerror(to->system_errno));
}

/* The folder in which the last part of the path lies. */
static void parent_of(const char *path, char ret_parent[PATH_MAX])
{
    char *slash;

    snprintf(ret_parent, PATH_MAX, "%s", path);
    slash = strrchr(ret_parent, '/');
    if (!slash)
        snprintf(ret_parent, PATH_MAX, ".");
    else if (slash == ret_parent)
        slash[1] = '\0';
    else
        *slash = '\0';
}

/* A copy inside of the store would be a file of the store. */
static bool lies_in(const char *target, const char *folder)
{
    char parent[PATH_MAX], real_parent[PATH_MAX], real_folder[PATH_MAX];
    size_t size;

    parent_of(target, parent);
    if (!realpath(parent, real_parent) || !realpath(folder, real_folder))
        return false;
    size = strlen(real_folder);
    return strncmp(real_parent, real_folder, size) == 0 &&
           (real_parent[size] == '\0' || real_parent[size] == '/');
}

/* Gives the finished copy its name, durably. */
static int give_name(const char *partial, const char *target, struct once_message *ret_message)
{
    char parent[PATH_MAX];
    int error;

    parent_of(target, parent);
    if (renameat2(AT_FDCWD, partial, AT_FDCWD, target, RENAME_NOREPLACE) != 0 &&
        !(errno == EINVAL && rename(partial, target) == 0))
        return once__message(errno == EEXIST ? ONCE_ERR_INVALID : once__vfs_err(errno), ret_message,
                             "the finished copy %s cannot be renamed to %s: %s", partial, target,
                             strerror(errno));
    error = once__folder_sync(AT_FDCWD, parent);
    if (error != 0)
        return once__message(once__vfs_err(error), ret_message,
                             "the folder %s cannot be synced: %s", parent, strerror(error));
    return ONCE_OK;
}

static int copy_folder(struct once__vfs *from, const char *target,
                       void (*progress)(void *user, uint64_t done, uint64_t all), void *user,
                       struct once_message *ret_message)
{
    char partial[PATH_MAX];
    struct once__vfs *to = NULL;
    int err, error = 0, held;

    if (snprintf(partial, sizeof(partial), "%s.partial", target) >= (int)sizeof(partial))
        return once__message(ONCE_ERR_INVALID, ret_message, "the target's name is too long");
    err = once__vfs_open(partial, true, &to, &error); /* made durably, with what leads to it */
    if (err != ONCE_OK)
        return once__message(err, ret_message, "%s cannot be made: %s", partial, strerror(error));
    to->ops->free(to);
    held = take_partial(partial);
    if (held < 0) {
        error = errno;
        return once__message(error == EWOULDBLOCK ? ONCE_ERR_LOCKED : once__vfs_err(error),
                             ret_message, "%s cannot be taken: %s", partial,
                             error == EWOULDBLOCK ? "another backup is at it" : strerror(error));
    }
    err = once__vfs_open(partial, false, &to, &error); /* only now: it may have been another's */
    if (err != ONCE_OK) {
        close(held);
        return once__message(err, ret_message, "%s cannot be opened: %s", partial, strerror(error));
    }
    err = clear_partial(to, partial, ret_message);
    if (err == ONCE_OK)
        err = once__backup(from, to, progress, user, ret_message);
    to->ops->free(to);
    if (err == ONCE_OK)
        err = give_name(partial, target, ret_message);
    close(held);
    return err;
}

int once_backup(const char *folder, const char *target,
                void (*progress)(void *user, uint64_t done, uint64_t all), void *user,
                struct once_message *ret_message)
{
    struct once__vfs *from = NULL;
    char name[PATH_MAX];
    struct stat there;
    size_t size;
    int err, error = 0;

    if (!folder || !target || !folder[0] || !target[0] || strlen(target) >= sizeof(name))
        return once__message(ONCE_ERR_INVALID, ret_message, "a folder and a target are needed");
    snprintf(name, sizeof(name), "%s", target);
    for (size = strlen(name); size > 1 && name[size - 1] == '/';)
        name[--size] = '\0';
    if (lstat(name, &there) == 0)
        return once__message(ONCE_ERR_INVALID, ret_message,
                             "%s is there already: name a new folder", name);
    err = once__vfs_open(folder, false, &from, &error);
    if (err != ONCE_OK)
        return once__message(err, ret_message, "%s cannot be opened: %s", folder,
                             err == ONCE_ERR_NO_STORE ? "there is no store" : strerror(error));
    if (lies_in(name, folder))
        err = once__message(ONCE_ERR_INVALID, ret_message,
                            "%s lies inside of the store itself: name a folder elsewhere", name);
    else
        err = copy_folder(from, name, progress, user, ret_message);
    from->ops->free(from);
    return err;
}
