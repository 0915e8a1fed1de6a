/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of one file of the test disk, twice: as the running system sees them, and as they are
 * on the medium. Only tests/disk includes this; the caller holds the disk's lock.
 *
 * Every sector of 512 bytes that differs has a stamp: its turn in the order of all that is pending
 * on the disk. A sector without one is the same in both. Of a sector that was written several times
 * since it was durable only the oldest and the newest bytes are kept, and a cut gives one of these;
 * a real disk could give one between, also where a failed sync parted the two writes.
 *
 * A stamp may be stuck: a sync was to make it durable and failed. The system believes that it is
 * written, so later syncs pass it by; only writing it again helps.
 */
#ifndef ONCE_TESTS_DISK_INODE_H
#define ONCE_TESTS_DISK_INODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SECTOR_SIZE = 512 };

/* What all files of one disk share. */
struct pool {
    struct inode *first;
    _Atomic uint64_t used; /* bytes that the files take: the larger of both sizes of each */
    uint32_t stamp;        /* the last one given since the last cut */
    uint64_t random;       /* SplitMix64 */
};

/* 0 to count - 1. */
uint64_t pool_below(struct pool *pool, uint64_t count);

#define STAMP_STUCK 0x80000000U

uint32_t pool_stamp(struct pool *pool);

/* What a power cut makes of pending things: the rule of one cut. */
enum settle_mode { SETTLE_LOST, SETTLE_KEPT, SETTLE_EACH, SETTLE_PREFIX, SETTLE_SUFFIX };
struct settling {
    struct pool *pool;
    enum settle_mode mode;
    uint32_t threshold; /* PREFIX keeps stamps up to it, SUFFIX those behind it */
    uint32_t weight;    /* EACH keeps this many of 8 */
};
bool settling_keeps(struct settling *settling, uint32_t stamp);

struct inode {
    struct pool *pool;
    struct inode *next;
    struct inode **link; /* what points at this one */
    uint32_t refs;       /* names, changes of names, open handles */
    uint32_t dirty_from; /* stamped sectors are in [from, to) */
    uint32_t dirty_to;
    uint32_t size_stamp; /* not 0: the size is pending */
    uint64_t size;
    uint64_t durable_size;
    uint64_t charged;  /* its part of pool->used */
    uint64_t capacity; /* of both arrays: whole sectors */
    uint8_t *data;     /* zeros from size on */
    uint8_t *medium;   /* the same bytes, as far as they are durable */
    uint32_t *stamps;  /* one for each sector */
};

/* An empty file with one reference. Aborts without memory, as all here do. */
struct inode *inode_new(struct pool *pool);
struct inode *inode_hold(struct inode *inode);
void inode_drop(struct inode *inode); /* the last one frees it; accepts NULL */

/* Bytes that it would take more than now if it reached to end. */
uint64_t inode_growth(const struct inode *inode, uint64_t end);

void inode_write(struct inode *inode, uint64_t offset, const void *data, size_t size);
void inode_write_durable(struct inode *inode, uint64_t offset, const void *data, size_t size);
void inode_set_size(struct inode *inode, uint64_t size);
void inode_sync(struct inode *inode);
/* A sync that failed: all that is pending is stuck. */
void inode_stick(struct inode *inode);
/* The same for these sectors alone. */
void inode_stick_range(struct inode *inode, uint64_t offset, size_t size);

/* Widens [*low, *high] by the stamps of what is pending. */
void inode_stamps(const struct inode *inode, uint32_t *low, uint32_t *high);
/* Afterwards nothing is pending. */
void inode_settle(struct inode *inode, struct settling *settling);

#endif
