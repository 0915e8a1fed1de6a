/* SPDX-License-Identifier: Apache-2.0
 *
 * All that the engine asks of a file system: one folder and the files in it. Tests replace it by a
 * disk that loses, tears and reorders what was not synced, fails, fills up and flips bits.
 *
 * What a caller may rely on after a power cut:
 *     write through a DURABLE handle     there, once the call has returned
 *     write through any other handle     there, once a sync of that file has returned
 *     a file's name (made, renamed)      there, once sync_folder has returned
 *     anything else                      each sector of 512 bytes old or new, in any order
 * After a failed write or sync nothing is known about what it was to make durable, and asking again
 * proves nothing (INV-8).
 */
#ifndef ONCE_ENGINE_VFS_H
#define ONCE_ENGINE_VFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <once/err.h>

struct once__vfs;
struct once__file;

enum once__open_flags {
    ONCE__OPEN_CREATE = 1,  /* make it if it is not there */
    ONCE__OPEN_WRITE = 2,   /* else for reading only */
    ONCE__OPEN_DURABLE = 4, /* each write is durable when it returns; direct where the file system
                             * can. Offsets, sizes and memory are multiples of ONCE_BLOCK_SIZE, for
                             * reads too */
    ONCE__OPEN_DIRECT = 8   /* as DURABLE, but writes are durable only after sync: to fill space */
};

struct once__file_ops {
    /* Reads up to size bytes; fewer only at the end of the file. */
    int (*read)(struct once__file *file, uint64_t offset, void *data, size_t size,
                size_t *ret_size);
    /* Writes all of them, or fails: then any part of them may have been written. */
    int (*write)(struct once__file *file, uint64_t offset, const void *data, size_t size);
    int (*sync)(struct once__file *file);
    int (*size)(struct once__file *file, uint64_t *ret_size);
    /* Makes the file at least this large, with the space behind it allocated: writing there never
     * gives ONCE_ERR_SPACE. What was added reads as zeros. */
    int (*allocate)(struct once__file *file, uint64_t size);
    /* Makes the file exactly this large. */
    int (*truncate)(struct once__file *file, uint64_t size);
    /* Files are closed before their vfs is freed. */
    void (*close)(struct once__file *file);
};

struct once__vfs_ops {
    /* ONCE_ERR_NO_STORE when the file is not there and CREATE is not given. */
    int (*open)(struct once__vfs *vfs, const char *name, unsigned flags, struct once__file **ret);
    int (*remove)(struct once__vfs *vfs, const char *name); /* not there: ONCE_ERR_NO_STORE */
    /* Replaces to if it is there. from is not: ONCE_ERR_NO_STORE. */
    int (*rename)(struct once__vfs *vfs, const char *from, const char *to);
    int (*sync_folder)(struct once__vfs *vfs);
    /* Calls each with every file's name (the lock's too, and whatever else lies there, but no
     * folder), in any order; stops and returns what each returns if not ONCE_OK. */
    int (*list)(struct once__vfs *vfs, int (*each)(void *user, const char *name), void *user);
    /* Takes the folder for this process: the file named so is locked, and holds this text. Held
     * until the vfs is freed or the process ends. ONCE_ERR_LOCKED, also within one process; the
     * beginning of the text of the one who has it is then in ret_owner, NUL-terminated (when that
     * one is just writing it, the text may be the one before, or empty).
     * A child made by fork() shares the lock: while it lives and has not called exec, the folder
     * stays taken, even when its parent is gone. It must not use the vfs. */
    int (*lock)(struct once__vfs *vfs, const char *name, const char *text, char *ret_owner,
                size_t owner_size);
    int (*free_size)(struct once__vfs *vfs, uint64_t *ret_size); /* of the disk, for anyone */
    void (*free)(struct once__vfs *vfs);                         /* closes the folder, unlocks */
};

/* Implementations put these first. */
struct once__vfs {
    const struct once__vfs_ops *ops;
    _Atomic bool direct;      /* direct writes work here; known after the first DURABLE open; a
                               * system that refuses them only later makes it false then */
    _Atomic int system_errno; /* of the last failure, for messages */
};
struct once__file {
    const struct once__file_ops *ops;
    struct once__vfs *vfs;
};

/* A folder of the system. Makes it (0700) with make, and what leads to it, all of it durably; else
 * ONCE_ERR_NO_STORE. ONCE_ERR_PERMISSION, ONCE_ERR_SPACE, ONCE_ERR_IO, ONCE_ERR_MEMORY. On failure
 * the system's number is in ret_errno, which may be NULL. */
ONCE_MUST_CHECK int once__vfs_open(const char *folder, bool make, struct once__vfs **ret_vfs,
                                   int *ret_errno);

/* For tests: a vfs of once__vfs_open behaves as if the system could not do these. */
enum once__vfs_refusals {
    ONCE__REFUSE_DIRECT_OPEN = 1, /* opening for direct access */
    ONCE__REFUSE_DIRECT_USE = 2,  /* the first direct read or write of a file */
    ONCE__REFUSE_FALLOCATE = 4
};
void once__vfs_refuse(struct once__vfs *vfs, unsigned refusals);

/* The calls, for who reads them. */
static inline int once__file_read(struct once__file *file, uint64_t offset, void *data, size_t size,
                                  size_t *ret_size)
{
    return file->ops->read(file, offset, data, size, ret_size);
}
static inline int once__file_write(struct once__file *file, uint64_t offset, const void *data,
                                   size_t size)
{
    return file->ops->write(file, offset, data, size);
}
static inline int once__file_sync(struct once__file *file)
{
    return file->ops->sync(file);
}
static inline int once__file_size(struct once__file *file, uint64_t *ret_size)
{
    return file->ops->size(file, ret_size);
}
static inline int once__file_allocate(struct once__file *file, uint64_t size)
{
    return file->ops->allocate(file, size);
}
static inline int once__file_truncate(struct once__file *file, uint64_t size)
{
    return file->ops->truncate(file, size);
}
/* Accepts NULL. */
static inline void once__file_close(struct once__file *file)
{
    if (file)
        file->ops->close(file);
}

#endif
