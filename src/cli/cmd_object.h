/* SPDX-License-Identifier: Apache-2.0
 *
 * What the actions of `once object` share.
 */
#ifndef ONCE_CLI_CMD_OBJECT_H
#define ONCE_CLI_CMD_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include <once/apply.h>

#include "cli/reach.h"

/* A message of changes: about how large, and how large with an object that is larger than that. */
enum {
    OBJECT_MESSAGE_SIZE = 1 << 20,
    OBJECT_MESSAGE_SIZE_MAX = OBJECT_MESSAGE_SIZE + 2 * (ONCE_MERGEABLE_SIZE_MAX + 1024)
};

/* The arguments, read. The texts belong to argv; a text is NULL when not given. */
struct object_args {
    bool json;
    bool page; /* --after or --count was given */
    struct cli_where where;
    uint64_t after;
    uint64_t count;
    const char *since;
    const char *values[2]; /* behind the action: NAME, TYPE, OTHER */
};

/* The actions; each gets the open store, or its server, and returns an exit status. */
int object_show(const struct object_args *args, struct cli_reach *reach);
int object_list(const struct object_args *args, struct cli_reach *reach);
int object_merge(const struct object_args *args, struct cli_reach *reach);
int object_delta(const struct object_args *args, struct cli_reach *reach);
int object_changes(const struct object_args *args, struct cli_reach *reach);

/* sync opens both stores itself. */
int object_sync(const struct object_args *args);

/* Tells an error about the object that the arguments name; returns its exit status. */
int object_error(const struct object_args *args, int err, const char *what);
/* The same with what the store or its server has said. */
int object_call_error(const struct object_args *args, const struct cli_reach *reach, int err);

/* The object of this name, which must be there: the caller releases it. Otherwise tells so. */
int object_get(const struct object_args *args, struct cli_reach *reach,
               struct once_object *ret_object);

#endif
