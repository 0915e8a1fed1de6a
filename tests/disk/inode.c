/* SPDX-License-Identifier: Apache-2.0
 *
 * inode.h. A million power cuts go through here: no memory is taken for a sector, and a cut or a
 * sync touches only the range in which something is pending.
 */
#include "disk/inode.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

uint64_t pool_below(struct pool *pool, uint64_t count)
{
    uint64_t z = (pool->random += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return (z ^ (z >> 31)) % count;
}

uint32_t pool_stamp(struct pool *pool)
{
    ONCE_ASSERT(pool->stamp + 1 < STAMP_STUCK);
    return ++pool->stamp;
}

bool settling_keeps(struct settling *settling, uint32_t stamp)
{
    uint32_t turn = stamp & ~STAMP_STUCK;

    switch (settling->mode) {
    case SETTLE_LOST:
        return false;
    case SETTLE_KEPT:
        return true;
    case SETTLE_PREFIX:
        return turn <= settling->threshold;
    case SETTLE_SUFFIX:
        return turn > settling->threshold;
    case SETTLE_EACH:
        break;
    }
    return pool_below(settling->pool, 8) < settling->weight;
}

struct inode *inode_new(struct pool *pool)
{
    struct inode *inode = calloc(1, sizeof(*inode));

    ONCE_ASSERT(inode);
    inode->pool = pool;
    inode->refs = 1;
    inode->next = pool->first;
    inode->link = &pool->first;
    if (pool->first)
        pool->first->link = &inode->next;
    pool->first = inode;
    return inode;
}

struct inode *inode_hold(struct inode *inode)
{
    ONCE_ASSERT(inode->refs > 0);
    inode->refs++;
    return inode;
}

void inode_drop(struct inode *inode)
{
    if (!inode)
        return;
    ONCE_ASSERT(inode->refs > 0);
    if (--inode->refs > 0)
        return;
    *inode->link = inode->next;
    if (inode->next)
        inode->next->link = inode->link;
    inode->pool->used -= inode->charged;
    free(inode->data);
    free(inode->medium);
    free(inode->stamps);
    free(inode);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void charge(struct inode *inode)
{
    uint64_t bytes = larger(inode->size, inode->durable_size);

    inode->pool->used += bytes - inode->charged;
    inode->charged = bytes;
}

uint64_t inode_growth(const struct inode *inode, uint64_t end)
{
    return end > inode->charged ? end - inode->charged : 0;
}

/* The same array, larger, with zeros behind what was there. */
static void *enlarged(void *array, uint64_t old_size, uint64_t new_size)
{
    uint8_t *bytes = calloc(1, new_size);

    ONCE_ASSERT(bytes);
    if (old_size > 0)
        memcpy(bytes, array, old_size);
    free(array);
    return bytes;
}

static void reserve(struct inode *inode, uint64_t size)
{
    uint64_t old = inode->capacity, capacity;

    if (size <= old)
        return;
    capacity = larger((size + SECTOR_SIZE - 1) / SECTOR_SIZE * SECTOR_SIZE, old * 2);
    inode->data = enlarged(inode->data, old, capacity);
    inode->medium = enlarged(inode->medium, old, capacity);
    inode->stamps = enlarged(inode->stamps, old / SECTOR_SIZE * sizeof(uint32_t),
                             capacity / SECTOR_SIZE * sizeof(uint32_t));
    inode->capacity = capacity;
}

static uint32_t sector_of(uint64_t offset)
{
    return (uint32_t)(offset / SECTOR_SIZE);
}

static uint32_t sectors_to(uint64_t end)
{
    return (uint32_t)((end + SECTOR_SIZE - 1) / SECTOR_SIZE);
}

/* The sectors that hold bytes of [from, end) are pending. */
static void mark(struct inode *inode, uint64_t from, uint64_t end)
{
    uint32_t first = sector_of(from), last = sectors_to(end);
    bool clean = inode->dirty_from == inode->dirty_to;

    if (from == end)
        return;
    for (uint32_t i = first; i < last; i++)
        inode->stamps[i] = pool_stamp(inode->pool);
    if (clean || first < inode->dirty_from)
        inode->dirty_from = first;
    if (clean || last > inode->dirty_to)
        inode->dirty_to = last;
}

void inode_write(struct inode *inode, uint64_t offset, const void *data, size_t size)
{
    uint64_t end = offset + size;

    if (size == 0)
        return;
    reserve(inode, end);
    memcpy(inode->data + offset, data, size);
    mark(inode, offset, end);
    if (end > inode->size)
        inode->size = end;
    /* Also when the size was stuck: whoever writes behind the durable end writes the end again. */
    if (inode->size != inode->durable_size)
        inode->size_stamp = pool_stamp(inode->pool);
    charge(inode);
}

void inode_write_durable(struct inode *inode, uint64_t offset, const void *data, size_t size)
{
    uint64_t end = offset + size;
    uint32_t first = sector_of(offset);

    ONCE_ASSERT(offset % SECTOR_SIZE == 0);
    ONCE_ASSERT(size % SECTOR_SIZE == 0);
    if (size == 0)
        return;
    reserve(inode, end);
    memcpy(inode->data + offset, data, size);
    memcpy(inode->medium + offset, data, size);
    memset(inode->stamps + first, 0, (sector_of(end) - first) * sizeof(uint32_t));
    inode->size = larger(inode->size, end);
    inode->durable_size = larger(inode->durable_size, end);
    if (inode->size == inode->durable_size)
        inode->size_stamp = 0;
    charge(inode);
}

void inode_set_size(struct inode *inode, uint64_t size)
{
    uint64_t old = inode->size;

    if (size == old)
        return;
    if (size < old) {
        memset(inode->data + size, 0, old - size);
        mark(inode, size, old);
    } else {
        reserve(inode, size);
    }
    inode->size = size;
    inode->size_stamp = pool_stamp(inode->pool);
    charge(inode);
}

static uint8_t *sector(uint8_t *array, uint32_t index)
{
    return array + (uint64_t)index * SECTOR_SIZE;
}

void inode_sync(struct inode *inode)
{
    uint32_t stuck_from = 0, stuck_to = 0;

    for (uint32_t i = inode->dirty_from; i < inode->dirty_to; i++) {
        if (inode->stamps[i] & STAMP_STUCK) {
            if (stuck_from == stuck_to)
                stuck_from = i;
            stuck_to = i + 1;
        } else if (inode->stamps[i]) {
            memcpy(sector(inode->medium, i), sector(inode->data, i), SECTOR_SIZE);
            inode->stamps[i] = 0;
        }
    }
    inode->dirty_from = stuck_from;
    inode->dirty_to = stuck_to;
    if (inode->size_stamp & STAMP_STUCK)
        return;
    inode->durable_size = inode->size;
    inode->size_stamp = 0;
    charge(inode);
}

void inode_stick_range(struct inode *inode, uint64_t offset, size_t size)
{
    ONCE_ASSERT(sectors_to(offset + size) <= inode->capacity / SECTOR_SIZE);
    for (uint32_t i = sector_of(offset); i < sectors_to(offset + size); i++) {
        if (inode->stamps[i])
            inode->stamps[i] |= STAMP_STUCK;
    }
    if (inode->size_stamp)
        inode->size_stamp |= STAMP_STUCK;
}

void inode_stick(struct inode *inode)
{
    inode_stick_range(inode, (uint64_t)inode->dirty_from * SECTOR_SIZE,
                      (size_t)(inode->dirty_to - inode->dirty_from) * SECTOR_SIZE);
}

static void widen(uint32_t stamp, uint32_t *low, uint32_t *high)
{
    uint32_t turn = stamp & ~STAMP_STUCK;

    if (turn == 0)
        return;
    if (turn < *low)
        *low = turn;
    if (turn > *high)
        *high = turn;
}

void inode_stamps(const struct inode *inode, uint32_t *low, uint32_t *high)
{
    for (uint32_t i = inode->dirty_from; i < inode->dirty_to; i++)
        widen(inode->stamps[i], low, high);
    widen(inode->size_stamp, low, high);
}

/* A size that did not arrive may have come a part of the way: the file grew in several writes. */
static uint64_t settled_size(struct inode *inode, struct settling *settling)
{
    uint64_t low, high;

    if (!inode->size_stamp)
        return inode->size;
    if (settling_keeps(settling, inode->size_stamp))
        return inode->size;
    if (settling->mode == SETTLE_LOST || pool_below(inode->pool, 2) == 0)
        return inode->durable_size;
    low = inode->size < inode->durable_size ? inode->size : inode->durable_size;
    high = larger(inode->size, inode->durable_size);
    return low + pool_below(inode->pool, (high - low) / SECTOR_SIZE + 1) * SECTOR_SIZE;
}

void inode_settle(struct inode *inode, struct settling *settling)
{
    uint64_t high = larger(inode->size, inode->durable_size), size;

    for (uint32_t i = inode->dirty_from; i < inode->dirty_to; i++) {
        if (!inode->stamps[i])
            continue;
        if (settling_keeps(settling, inode->stamps[i]))
            memcpy(sector(inode->medium, i), sector(inode->data, i), SECTOR_SIZE);
        else
            memcpy(sector(inode->data, i), sector(inode->medium, i), SECTOR_SIZE);
        inode->stamps[i] = 0;
    }
    inode->dirty_from = 0;
    inode->dirty_to = 0;
    size = settled_size(inode, settling);
    ONCE_ASSERT(size <= high);
    /* A sector that was kept may reach behind the size that was. */
    if (size < high) {
        memset(inode->data + size, 0, high - size);
        memset(inode->medium + size, 0, high - size);
    }
    inode->size = size;
    inode->durable_size = size;
    inode->size_stamp = 0;
    charge(inode);
}
