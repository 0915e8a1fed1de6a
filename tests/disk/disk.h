/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk in memory for tests, behind engine/vfs.h. It keeps apart what is durable and what only
 * the running system sees, and a power cut makes of everything unsynced what a real disk may: lost,
 * torn at sectors of 512 bytes, reordered. Seeded: the same calls give the same disk.
 *
 * Safe from many threads (one lock), though what happens then depends on their order. Whoever
 * breaks the rules of vfs.h (an unaligned access through a DURABLE or DIRECT handle, a write
 * through a handle for reading, a vfs freed with files open) is stopped by an assertion.
 */
#ifndef ONCE_TESTS_DISK_H
#define ONCE_TESTS_DISK_H

#include "engine/vfs.h"

struct disk;

/* An empty disk. size_max bounds the bytes of all files: beyond it ONCE_ERR_SPACE. A file that was
 * removed or cut short takes its space until that is durable. Aborts without memory. */
struct disk *disk_new(uint64_t seed, uint64_t size_max);
/* Every mount was freed before. Accepts NULL. */
void disk_free(struct disk *disk);

/* A view of the disk for one process's life: what once__engine_open takes and frees. Several lives
 * follow one another on one disk; while one holds the lock another gets ONCE_ERR_LOCKED. */
struct once__vfs *disk_mount(struct disk *disk);

/* Faults. Each counts changing operations (write, sync, allocate, truncate, rename, remove, create,
 * sync_folder) from 1 on, over the whole life of the disk; 0 is never. Taking the lock is none,
 * though its file is made and written. */
struct disk_faults {
    /* Power fails during this operation: it may be done in part. */
    uint64_t cut_at;
    /* This durable write, or the next one, fails with ONCE_ERR_IO; of what it wrote any part may be
     * there now and gone later. */
    uint64_t fail_write_at;
    /* The same for a sync, of a file or of the folder: what it was to make durable is then shown to
     * readers but is not durable, and a later sync that succeeds does not make it so. Writing it
     * again, and syncing that, does. */
    uint64_t fail_sync_at;
    bool fail_for_ever; /* and all later ones too, else once */
    /* From this operation on whatever needs new space gives ONCE_ERR_SPACE. Of a write any part
     * that needed none may be there. */
    uint64_t full_at;
    uint64_t full_until; /* up to this one, itself included; 0 is for ever */
};
void disk_set_faults(struct disk *disk, const struct disk_faults *faults);
uint64_t disk_operations(const struct disk *disk); /* so far */

/* Power fails now. Every call through mounts of before gives ONCE_ERR_IO from here on; frees of
 * mounts still work. What was unsynced is settled here, by the seed: all of it lost, all of it
 * kept, each sector by chance, only what came first, or only what came last. */
void disk_cut(struct disk *disk);
/* The process died, the system did not: what was written stays visible and is still not durable.
 * Calls through mounts of before give ONCE_ERR_IO. */
void disk_kill(struct disk *disk);
bool disk_is_cut(const struct disk *disk); /* since the last mount */

/* Looking and damaging, past the vfs. False when there is no such file, or it is shorter. */
bool disk_flip(struct disk *disk, const char *name, uint64_t offset, uint8_t mask);
bool disk_peek(struct disk *disk, const char *name, uint64_t offset, void *data, size_t size);
bool disk_remove(struct disk *disk, const char *name);
uint64_t disk_file_size(struct disk *disk, const char *name); /* 0 when it is not there */
uint64_t disk_used(const struct disk *disk);

#endif
