/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that look at the store and may have to wait for it: they run on a lane, never on the
 * loop, and keep what they found until it is their turn to be answered.
 */
#ifndef ONCE_SERVER_RESP_LOOK_H
#define ONCE_SERVER_RESP_LOOK_H

#include "server/command.h"

/* A command puts this first into a state of its own. */
struct once__look {
    struct once_store *store;
    int err;                               /* why there is nothing */
    struct once__out list;                 /* what was found, as RESP already */
    size_t count;                          /* of it */
    const char *lacks;                     /* said with ONCE_ERR_UNSUPPORTED; may be NULL */
    void (*drop)(struct once__look *look); /* frees what the command adds; may be NULL */
};

/* A state of this size, in request->state, released with the request; run goes to the lane. NULL:
 * there is no memory, and that was answered. */
void *once__look_new(struct once__request *request, struct once__out *out, size_t size,
                     void (*run)(struct once__job *job));
/* The state of the request that this job is part of; the request itself. */
void *once__look_of(struct once__job *job);
struct once__request *once__look_request(struct once__job *job);
/* Was there an error? Then it was answered. */
bool once__look_failed(const struct once__look *look, struct once__out *out);

/* May this caller look? False: the reason was answered. ns as of once__service_check_look. */
bool once__look_at_namespace(const struct once__request *request, struct once__out *out,
                             struct once_bytes ns, char *ret_ns);
/* At all namespaces, where once__service_sees says what is shown? */
bool once__look_at_all(const struct once__request *request, struct once__out *out);
/* An empty name is every object. */
bool once__look_at_object(const struct once__request *request, struct once__out *out,
                          struct once_bytes name, bool writes);

/* Cursors are decimal text, up to 2^64 - 1: integers of RESP are signed. */
bool once__cursor_read(const struct once__request *request, struct once__out *out,
                       struct once_bytes arg, uint64_t *ret_cursor);
void once__cursor_write(struct once__out *out, uint64_t cursor);

/* A bulk string, or null where there are no bytes. */
void once__out_bulk_or_null(struct once__out *out, struct once_bytes bytes);

#endif
