/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of recovery share: recover.c (the order of things, and where the log ends),
 * recover_files.c (which files there are, and a new store), recover_load.c (what is in them).
 */
#ifndef ONCE_ENGINE_RECOVERY_H
#define ONCE_ENGINE_RECOVERY_H

#include "engine/inner.h"
#include "engine/scan.h"

/* A segment file with a good header. */
struct once__seen {
    uint32_t slot;
    struct once__segment_header header;
};

/* Offsets in a segment that later ones replaced. */
struct once__killed {
    uint32_t *offsets;
    size_t count, capacity;
};

struct once__recovery {
    struct once__engine *engine;
    struct once_message *message;
    bool made;       /* the store is new */
    uint32_t *slots; /* of segment files */
    size_t slot_count, slot_capacity;
    struct once__seen *seen; /* with a good header, by sequence */
    size_t seen_count;
    struct once__summary *tail;     /* of the newest segment */
    struct once__summary *previous; /* of the one before; only if has_previous */
    bool has_previous;
    struct once__scan end; /* of the newest */
    struct once__batch_header last;
    struct once__killed *killed; /* by sequence - oldest */
    uint64_t killed_count;
    uint64_t *bits; /* one segment's killed, a bit for each 8 bytes */
};

/* Says where the damage is; ONCE_ERR_DAMAGED. */
int once__recovery_damaged(struct once__recovery *recovery, const struct once__seen *seen,
                           uint64_t offset, const char *what);

/* recover_files.c: the store file and all segment headers; makes a store where there is none. */
ONCE_MUST_CHECK int once__recovery_open(struct once__recovery *recovery);
/* Makes a store without any batch again, as if there had been none. */
ONCE_MUST_CHECK int once__recovery_make_again(struct once__recovery *recovery);
/* Replaces the spares that were never used by new ones, unless the store was closed in order. */
ONCE_MUST_CHECK int once__recovery_renew_spares(struct once__recovery *recovery);
/* Notes that a slot's file is spare. */
void once__recovery_spare(struct once__engine *engine, uint32_t slot, bool filled);

/* recover.c: a summary from the log, synced before it is believed; damage is an error. */
ONCE_MUST_CHECK int once__recovery_scan(struct once__recovery *recovery,
                                        const struct once__seen *seen, uint32_t known_end,
                                        uint64_t durable, struct once__summary **ret_summary,
                                        struct once__scan *ret_scan);

/* recover_load.c: the segments from the oldest on, and the index. */
ONCE_MUST_CHECK int once__recovery_load(struct once__recovery *recovery);

/* recover_objects.c: the snapshot, and the edits of the log from where it was begun. */
ONCE_MUST_CHECK int once__recovery_objects(struct once__recovery *recovery);

/* recover_twins.c: after something was given up, only the newest record of a name stays. */
ONCE_MUST_CHECK int once__recovery_drop_twins(struct once__recovery *recovery);

#endif
