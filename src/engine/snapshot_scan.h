/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a snapshot of objects from its file, chunk by chunk, and says where and why it is not
 * whole. Used by recovery, `once check`, `once inspect` and `once backup`. Reads only; what the
 * edits in a chunk mean is the caller's.
 */
#ifndef ONCE_ENGINE_SNAPSHOT_SCAN_H
#define ONCE_ENGINE_SNAPSHOT_SCAN_H

#include "engine/format.h"
#include "engine/vfs.h"

struct once__snapshot_scan {
    struct once__snapshot_header header; /* all zero if has_header is false */
    struct once__snapshot_end end;       /* all zero if has_end is false */
    bool has_header, has_end;
    uint64_t size;        /* of the file */
    uint64_t chunk_count; /* good ones, without the end */
    uint64_t lost_count;  /* chunks that are not: at least */
    /* The first thing that is wrong: damaged says that there is one. */
    bool damaged;
    bool unreadable; /* the disk failed somewhere: that part is taken for damaged */
    struct once_defect defect;
};

/* For every good chunk, in order. A result other than ONCE_OK stops the walk and is returned. The
 * bytes are there until the call returns. */
struct once__snapshot_visitor {
    int (*chunk)(void *user, uint64_t offset, struct once_bytes edits);
    void *user;
};

/* Walks the file; store_id NULL: of any store. A chunk whose check is wrong is left out, and the
 * walk goes on behind it where the file still has its form: a check covers the place of its chunk,
 * so none can be taken for another. Damage is not an error: see damaged. visitor may be NULL.
 * ONCE_ERR_VERSION, ONCE_ERR_IO, ONCE_ERR_MEMORY, or what the visitor said; ret_scan is written
 * also then. */
ONCE_MUST_CHECK int once__snapshot_scan(struct once__file *file, const uint8_t *store_id,
                                        const struct once__snapshot_visitor *visitor,
                                        struct once__snapshot_scan *ret_scan);

#endif
