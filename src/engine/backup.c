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
#include <sys/stat.h>

#include <once/store.h>

#include "engine/check.h"
#include "engine/inner.h"
#include "engine/vfs_folder.h"

static int remove_name(void *user, const char *name)
{
    struct once__vfs *vfs = user;

    return vfs->ops->remove(vfs, name);
}

/* An unfinished copy of before is no use to anyone. */
static int open_partial(const char *partial, struct once__vfs **ret_vfs, int *ret_errno)
{
    int err = once__vfs_open(partial, true, ret_vfs, ret_errno);

    if (err != ONCE_OK)
        return err;
    err = (*ret_vfs)->ops->list(*ret_vfs, remove_name, *ret_vfs);
    if (err != ONCE_OK) {
        *ret_errno = (*ret_vfs)->system_errno;
        (*ret_vfs)->ops->free(*ret_vfs);
    }
    return err;
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
    int err, error = 0;

    if (snprintf(partial, sizeof(partial), "%s.partial", target) >= (int)sizeof(partial))
        return once__message(ONCE_ERR_INVALID, ret_message, "the target's name is too long");
    err = open_partial(partial, &to, &error);
    if (err != ONCE_OK)
        return once__message(err, ret_message, "%s cannot be made: %s", partial, strerror(error));
    err = once__backup(from, to, progress, user, ret_message);
    to->ops->free(to);
    return err == ONCE_OK ? give_name(partial, target, ret_message) : err;
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
