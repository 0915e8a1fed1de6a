/* SPDX-License-Identifier: Apache-2.0
 *
 * A group: calls that are decided in one transaction, and the rows that they are decided on. Only
 * for pg_apply.c and its parts.
 */
#ifndef ONCE_STORE_POSTGRES_PG_GROUP_H
#define ONCE_STORE_POSTGRES_PG_GROUP_H

#include "core/record.h"
#include "object/stage.h"
#include "store/postgres/pg_inner.h"

/* An operation. Bytes are borrowed: from the result that it was read with, or from an op. */
struct once__pg_row {
    struct once_name name;
    struct once_record found;
    int64_t found_id;
    struct once_record record; /* as the calls so far have left it */
    int64_t id;
    struct once__pg_id call; /* that changed it last */
    bool changed;
    bool left_out; /* the result was not given */
    bool damaged;  /* what was found is not a record */
};

/* An object; what it is now is in the table of the group. */
struct once__pg_thing {
    struct once_bytes name;
    struct once_bytes found; /* the edits that make it; empty: it is not there */
    int64_t found_version;
    int64_t found_id; /* negative: it was made for this transaction */
    int64_t id;       /* its place in the order of first use */
    size_t order;     /* of its first change, from 1; 0: it was not changed */
    size_t size;      /* of its body now, or somewhat less than this */
    bool left_out;    /* the body was not given */
    bool damaged;
    struct once_buf body; /* to be written */
};

struct once__pg_group {
    struct once_op *const *ops; /* borrowed */
    const struct once__pg_id *ids;
    size_t count;
    bool *refused; /* by a bound: an op that is left out when the rest is decided again */

    struct once__pg_row *rows; /* sorted by name */
    size_t row_count;
    struct once__pg_thing *things; /* sorted by name */
    size_t thing_count;

    once_ms now_ms;
    uint64_t *fences; /* one for each op */

    const uint8_t *secret;     /* ONCE__OBJECT_SECRET_SIZE bytes; borrowed */
    struct once__stage *stage; /* borrowed */
    struct once__objects *objects;
    size_t changed_count; /* things that were changed */
    uint64_t version;     /* of the last change: above that of every object that was found */

    /* Of hold, hold_objects (if there are things), moment: what was found lies there. */
    PGresult *results[3];
};

/* What ops, ids, count, secret and stage say: all names, sorted. ONCE_ERR_MEMORY; release it in any
 * case. */
ONCE_MUST_CHECK int once__pg_group_gather(struct once__pg_group *group);
void once__pg_group_release(struct once__pg_group *group);

/* Decides all on what was found: each op has a reply, or was refused, and rows and things are what
 * is to be written. Else nothing may be written: ONCE_ERR_FULL (ask for fewer: several pass the
 * bound of an object's size, or that of all answers), ONCE_ERR_MEMORY, ONCE_ERR_DAMAGED (our own
 * mistake). */
ONCE_MUST_CHECK int once__pg_group_decide(struct once__pg_group *group);

/* Makes the object of edits, in a table that may hold others. ONCE_ERR_DAMAGED, ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__pg_body_load(struct once__objects *objects, struct once_bytes name,
                                       struct once_bytes body);

/* ---- pg_keep.c: what a group asks for and writes --------------------------------------------- */

/* Into the pipeline: so many commands. ONCE_ERR_IO, ONCE_ERR_MEMORY, ONCE_ERR_FULL. */
ONCE_MUST_CHECK int once__pg_hold_send(struct once__pg_group *group, PGconn *conn, int64_t lane_id,
                                       int64_t number, size_t *ret_count);
/* From group->results. ONCE_ERR_DAMAGED: these are not the rows that were asked for. */
ONCE_MUST_CHECK int once__pg_hold_read(struct once__pg_group *group);
ONCE_MUST_CHECK int once__pg_keep_send(struct once__pg_group *group, PGconn *conn,
                                       size_t *ret_count);

#endif
