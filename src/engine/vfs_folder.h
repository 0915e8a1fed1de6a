/* SPDX-License-Identifier: Apache-2.0
 *
 * The store's folder in the system's tree: making it durably, and taking it for one process. For
 * vfs_posix.c alone. Functions return 0 or an errno.
 */
#ifndef ONCE_ENGINE_VFS_FOLDER_H
#define ONCE_ENGINE_VFS_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* Which of our errors a number of the system is. */
int once__vfs_err(int error);

/* Opens the folder; with make, makes what is missing of it and of the way to it. */
int once__folder_open(const char *path, bool make, int *ret_fd);

/* fsync of a folder named from another. */
int once__folder_sync(int from, const char *name);

/* Locks the file and then writes the text into it. EAGAIN: somebody has it. The lock belongs to the
 * descriptor and ends with it. */
int once__folder_lock(int folder, const char *name, const char *text, int *ret_fd);

/* The text of the one who has the lock, as far as it fits; "" if it cannot be read. */
void once__folder_owner(int folder, const char *name, char *ret_owner, size_t owner_size);

#endif
