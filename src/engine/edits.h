/* SPDX-License-Identifier: Apache-2.0
 *
 * Putting encoded edits of objects (object/object.h) into a table: of the engine's while it runs
 * and recovers, of `once check`'s to see what a recovery would make of them.
 */
#ifndef ONCE_ENGINE_EDITS_H
#define ONCE_ENGINE_EDITS_H

#include "object/object.h"

/* Puts all of them, in order. lenient: something before them was given up, and what does not fit
 * for that is filled up or left out. recent (may be NULL) is told of what is mergeable. ret_defect
 * may be NULL; its offset is in edits. ONCE_ERR_DAMAGED, ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__edits_put(struct once__objects *objects, struct once__recent *recent,
                                    struct once_bytes edits, bool lenient,
                                    struct once_defect *ret_defect);

/* The same for those of several records, one after the other: many at a time are put faster. On
 * failure *ret_bad says which edit it is. */
struct once__edit_spot {
    size_t piece;
    size_t offset; /* in the piece; that of ret_defect may lie behind it, in the edit */
};
ONCE_MUST_CHECK int once__edits_put_all(struct once__objects *objects, struct once__recent *recent,
                                        const struct once_bytes *pieces, size_t piece_count,
                                        bool lenient, struct once__edit_spot *ret_bad,
                                        struct once_defect *ret_defect);

#endif
