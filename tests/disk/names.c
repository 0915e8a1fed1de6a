/* SPDX-License-Identifier: Apache-2.0
 *
 * names.h. Folders of tests are small: names are looked up one by one.
 */
#include "disk/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static void copy_name(char to[NAME_SIZE], const char *name)
{
    int size = snprintf(to, NAME_SIZE, "%s", name);

    ONCE_ASSERT(size >= 0 && size < NAME_SIZE);
}

static struct entry *find(const struct entries *entries, const char *name)
{
    for (uint32_t i = 0; i < entries->count; i++) {
        if (strcmp(entries->list[i].name, name) == 0)
            return &entries->list[i];
    }
    return NULL;
}

static void clear(struct entries *entries, struct entry *entry)
{
    inode_drop(entry->inode);
    *entry = entries->list[--entries->count];
}

static void set(struct entries *entries, const char *name, struct inode *inode)
{
    struct entry *entry = find(entries, name);

    inode_hold(inode);
    if (entry) {
        inode_drop(entry->inode);
        entry->inode = inode;
        return;
    }
    if (entries->count == entries->capacity) {
        entries->capacity = entries->capacity ? entries->capacity * 2 : 16;
        entries->list = realloc(entries->list, entries->capacity * sizeof(*entries->list));
        ONCE_ASSERT(entries->list);
    }
    entry = &entries->list[entries->count++];
    copy_name(entry->name, name);
    entry->inode = inode;
}

/* A name that another file has by now is not lost: the change that came between did not arrive. */
static void apply(struct entries *entries, const struct change *change)
{
    struct entry *lost = find(entries, change->lost);

    if (lost && lost->inode == change->inode)
        clear(entries, lost);
    if (change->got[0])
        set(entries, change->got, change->inode);
}

struct inode *names_find(const struct names *names, const char *name)
{
    const struct entry *entry = find(&names->seen, name);

    return entry ? entry->inode : NULL;
}

void names_change(struct names *names, struct inode *inode, const char *lost, const char *got)
{
    struct change *change;

    if (names->change_count == names->change_capacity) {
        names->change_capacity = names->change_capacity ? names->change_capacity * 2 : 16;
        names->changes = realloc(names->changes, names->change_capacity * sizeof(*change));
        ONCE_ASSERT(names->changes);
    }
    change = &names->changes[names->change_count++];
    copy_name(change->lost, lost);
    copy_name(change->got, got);
    change->inode = inode_hold(inode);
    change->stamp = pool_stamp(inode->pool);
    apply(&names->seen, change);
}

static bool touches(const struct change *change, const char *name)
{
    return name[0] && (strcmp(change->lost, name) == 0 || strcmp(change->got, name) == 0);
}

/* Drops of the first count changes those that a later one, durable now, has overtaken: they must
 * not come back at a cut. Returns how many are left. */
static uint32_t drop_overtaken(struct names *names, uint32_t count, const struct change *by)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct change *change = &names->changes[i];

        if (touches(change, by->lost) || touches(change, by->got))
            inode_drop(change->inode);
        else
            names->changes[left++] = *change;
    }
    return left;
}

void names_sync(struct names *names)
{
    uint32_t stuck_count = 0;

    for (uint32_t i = 0; i < names->change_count; i++) {
        struct change change = names->changes[i];

        if (change.stamp & STAMP_STUCK) {
            names->changes[stuck_count++] = change;
        } else {
            apply(&names->durable, &change);
            stuck_count = drop_overtaken(names, stuck_count, &change);
            inode_drop(change.inode);
        }
    }
    names->change_count = stuck_count;
}

void names_stick(struct names *names)
{
    for (uint32_t i = 0; i < names->change_count; i++)
        names->changes[i].stamp |= STAMP_STUCK;
}

void names_stamps(const struct names *names, uint32_t *low, uint32_t *high)
{
    for (uint32_t i = 0; i < names->change_count; i++) {
        uint32_t turn = names->changes[i].stamp & ~STAMP_STUCK;

        *low = turn < *low ? turn : *low;
        *high = turn > *high ? turn : *high;
    }
}

static void clear_all(struct entries *entries)
{
    while (entries->count > 0)
        clear(entries, &entries->list[entries->count - 1]);
}

void names_settle(struct names *names, struct settling *settling)
{
    if (names->change_count == 0)
        return;
    for (uint32_t i = 0; i < names->change_count; i++) {
        struct change *change = &names->changes[i];

        if (settling_keeps(settling, change->stamp))
            apply(&names->durable, change);
    }
    clear_all(&names->seen);
    for (uint32_t i = 0; i < names->durable.count; i++)
        set(&names->seen, names->durable.list[i].name, names->durable.list[i].inode);
    for (uint32_t i = 0; i < names->change_count; i++)
        inode_drop(names->changes[i].inode);
    names->change_count = 0;
}

void names_forget(struct names *names, const char *name)
{
    struct entry *entry;

    for (uint32_t i = 0; i < names->change_count; i++) {
        if (strcmp(names->changes[i].got, name) == 0)
            names->changes[i].got[0] = '\0';
    }
    entry = find(&names->seen, name);
    if (entry)
        clear(&names->seen, entry);
    entry = find(&names->durable, name);
    if (entry)
        clear(&names->durable, entry);
}

void names_release(struct names *names)
{
    clear_all(&names->seen);
    clear_all(&names->durable);
    for (uint32_t i = 0; i < names->change_count; i++)
        inode_drop(names->changes[i].inode);
    free(names->seen.list);
    free(names->durable.list);
    free(names->changes);
    *names = (struct names){0};
}
