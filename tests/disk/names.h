/* SPDX-License-Identifier: Apache-2.0
 *
 * The one folder of the test disk: which name is which file, as the running system sees it and as
 * it is on the medium, and the changes between the two, in order. A change (made, removed, renamed)
 * happens whole or not at all; changes may arrive out of order. Only tests/disk includes this; the
 * caller holds the disk's lock.
 */
#ifndef ONCE_TESTS_DISK_NAMES_H
#define ONCE_TESTS_DISK_NAMES_H

#include "disk/inode.h"

enum { NAME_SIZE = 64 }; /* with its NUL; a longer one is the caller's mistake */

struct entry {
    char name[NAME_SIZE];
    struct inode *inode;
};
struct entries {
    struct entry *list;
    uint32_t count;
    uint32_t capacity;
};
/* The name that inode loses, the name that it gets; either may be "". */
struct change {
    char lost[NAME_SIZE];
    char got[NAME_SIZE];
    struct inode *inode;
    uint32_t stamp;
};
struct names {
    struct entries seen;
    struct entries durable;
    struct change *changes;
    uint32_t change_count;
    uint32_t change_capacity;
};

struct inode *names_find(const struct names *names, const char *name); /* NULL: not there */
void names_change(struct names *names, struct inode *inode, const char *lost, const char *got);
void names_sync(struct names *names);
void names_stick(struct names *names); /* a sync that failed */
void names_stamps(const struct names *names, uint32_t *low, uint32_t *high);
void names_settle(struct names *names, struct settling *settling);
void names_forget(struct names *names, const char *name); /* gone at once, for good */
void names_release(struct names *names);

#endif
