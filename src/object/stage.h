/* SPDX-License-Identifier: Apache-2.0
 *
 * What deeds come to. A stage takes deeds one after the other, each on the objects as the deeds
 * before it would leave them, and changes nothing: in the end it has the edits, and a result for
 * each deed; or the first rejection, and no edits.
 *
 * The decisions are the pure steps of core/effect.h and the mutators of <once/lattice.h>.
 */
#ifndef ONCE_OBJECT_STAGE_H
#define ONCE_OBJECT_STAGE_H

#include "core/deed.h"
#include "object/object.h"

struct once__stage;

/* Kept by the engine and used again and again; keeps its memory. */
ONCE_MUST_CHECK int once__stage_new(struct once__stage **ret_stage);
void once__stage_free(struct once__stage *stage); /* accepts NULL */

struct once__stage_input {
    const struct once__objects *objects;
    const struct once__deed *deeds;
    size_t deed_count;   /* 1 to ONCE_EFFECTS_MAX */
    bool has_key;        /* else deeds that need one are refused: ONCE_ERR_KEY_NEEDED */
    once_ms now_ms;      /* for leases */
    uint64_t version;    /* the change number that the edits will have */
    uint64_t memory_max; /* of all objects: ONCE_ERR_FULL */
};

struct once__staged {
    bool rejected;
    bool changed;             /* there are edits */
    struct once_bytes edits;  /* encoded; the stage's until its next use */
    struct once_bytes result; /* as in apply.h, JSON; the stage's */
};

/* Errors: ONCE_ERR_OBJECT_TYPE, ONCE_ERR_KEY_NEEDED, ONCE_ERR_FULL (a bound of limits.h),
 * ONCE_ERR_MEMORY; ONCE_ERR_DAMAGED and ONCE_ERR_INVALID for a MERGE of what is no state, and for
 * words that once__deed_read would not have let pass. *ret_effect is then the number of the deed,
 * from 1 (0: none of them), and ret_what static text, e.g. "this name is a counter; an object's
 * type is fixed by its first use". */
ONCE_MUST_CHECK int once__stage_run(struct once__stage *stage,
                                    const struct once__stage_input *input,
                                    struct once__staged *ret_staged, uint32_t *ret_effect,
                                    const char **ret_what);

/* Makes true what the last run came to, once: the same as putting its encoded edits, but decodes
 * nothing and looks for no object again. objects is the table of the run, and has not changed since
 * then; the bytes of the deeds are still there. recent (may be NULL) is told of what is mergeable.
 * ONCE_ERR_MEMORY: some of it is true and some is not. */
ONCE_MUST_CHECK int once__stage_put(struct once__stage *stage, struct once__objects *objects,
                                    struct once__recent *recent);

#endif
