/* SPDX-License-Identifier: Apache-2.0
 *
 * Applies, merges and values on PostgreSQL. SQL does not know what they come to: the core decides,
 * inside of a transaction that holds every row that it decides on.
 *
 *     BEGIN, once.hold, once.hold_objects, once.moment   one round trip: rows held, and read
 *     decide, here, one call after the other             pg_group.c
 *     once.keep, once.keep_objects, COMMIT               another: written, and durable
 *
 * A group is the calls that share a transaction. They may be of any names: the second call on a
 * name is decided on what the first one has left.
 *
 * What is told is in the ops from the decision on, and told to nobody before the commit is known
 * (INV-2). When that gets lost, the lane's row says what became of it: each group writes its number
 * there. It was committed: the answers hold. It was not: it never will be, because the session is
 * gone, and all of it is decided anew. So nothing happens twice, and no answer is made up: not of a
 * set, which tells what was there before, nor of an apply without a key, which has no record.
 */
#ifndef ONCE_STORE_POSTGRES_PG_APPLY_H
#define ONCE_STORE_POSTGRES_PG_APPLY_H

#include "store/postgres/pg_inner.h"

/* lane_id: random; the row of once.lane. */
ONCE_MUST_CHECK int once__pg_apply_new(int64_t lane_id, struct once__pg_apply **ret_apply);
void once__pg_apply_free(struct once__pg_apply *apply); /* accepts NULL */

enum once__pg_ran {
    ONCE__PG_RAN,       /* every op has its reply, or its refusal: tell them */
    ONCE__PG_RAN_AGAIN, /* nothing was decided, link says why: ask again, fewer of them */
    ONCE__PG_RAN_LOST   /* nobody knows: run the same ops again, on a session that was opened after
                         * the old one was gone */
};

/* Decides ops of the calls APPLY, MERGE, SET and EXPIRE, 1 to ONCE_PG_APPLY_OPS_MAX of them, which
 * passed once__call_check; once__call_decided is left to the caller. The session is in pipeline
 * mode with nothing under way, and so it is left, unless it was lost. */
enum once__pg_ran once__pg_apply_run(struct once__pg_apply *apply, struct once__pg_link *link,
                                     once_ms until_ms, struct once_op *const *ops,
                                     const struct once__pg_id *ids, size_t count);

/* After RAN_LOST: the ops were refused (nobody knows), and will not come again. */
void once__pg_apply_drop(struct once__pg_apply *apply);

/* ---- Looking (pg_look.c): of struct once__store_ops ------------------------------------------ */

int once__pg_object_get(struct once_store *store, struct once_bytes name,
                        struct once_object *ret_object);
int once__pg_object_read(struct once_store *store, struct once_bytes name, uint64_t cursor,
                         size_t count,
                         void (*each)(void *user, const struct once_object_item *item), void *user,
                         uint64_t *ret_cursor, bool *ret_more);
int once__pg_object_list(struct once_store *store, uint64_t cursor, size_t count,
                         void (*each)(void *user, struct once_bytes name,
                                      enum once_object_type type),
                         void *user, uint64_t *ret_cursor);
int once__pg_object_delta(struct once_store *store, struct once_bytes name, uint64_t since,
                          struct once_buf *out, uint64_t *ret_version);

#endif
