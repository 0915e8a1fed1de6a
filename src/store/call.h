/* SPDX-License-Identifier: Apache-2.0
 *
 * What every store does with a call, so that all do the same: check it where it enters, let the
 * core decide, and write the reply.
 *
 *     once__call_check  →  the store finds the record  →  once__call_decide  →  the store makes it
 *     durable  →  once__call_tell
 */
#ifndef ONCE_STORE_CALL_H
#define ONCE_STORE_CALL_H

#include <once/store.h>

#include "core/decide.h"

/* Empties the reply, checks everything that does not need the record or the time, and prepares
 * op->inner (fingerprint, birth). On failure reply.err and what say which argument it was. */
ONCE_MUST_CHECK int once__call_check(struct once_op *op);

/* Is it an operation with a name, which has a record? An apply without a key and a merge are not.
 */
static inline bool once__call_named(const struct once_op *op)
{
    return op->call != ONCE_CALL_MERGE && !(op->call == ONCE_CALL_APPLY && op->key.size == 0);
}

/* It was decided, or refused: frees what check has prepared. */
void once__call_decided(struct once_op *op);

/* Checks what needs the time, and decides. apply is decided as a begin: EXECUTE means that its
 * effects are to be staged now. get decides nothing: its word is OK or NOTFOUND. The decision
 * borrows from op and record. ONCE_ERR_KEY_FUTURE, ONCE_ERR_CLOCK, ONCE_ERR_FULL, also in
 * reply.err. */
ONCE_MUST_CHECK int once__call_decide(struct once_op *op, const struct once_record *record,
                                      struct once_moment at, struct once_decision *ret_decision);

/* Fills the reply from the decision: the word and what belongs to it, with copies of the bytes.
 * now_ms is the moment of the decision. ONCE_ERR_MEMORY, also in reply.err. */
ONCE_MUST_CHECK int once__call_tell(struct once_op *op, const struct once_decision *decision,
                                    once_ms now_ms);

/* Nothing was decided, or nobody knows. */
void once__call_refuse(struct once_op *op, int err, const char *what);

/* The first time at which this unchanged decision holds: what was told because time has passed must
 * not be taken back by a clock that starts earlier after a crash (INV-6). 0 when it does not depend
 * on time. */
once_ms once__call_holds_since(const struct once_op *op, const struct once_record *record,
                               const struct once_decision *decision, once_ms now_ms);

#endif
