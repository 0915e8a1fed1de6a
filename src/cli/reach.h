/* SPDX-License-Identifier: Apache-2.0
 *
 * A store, or the server that owns it: commands ask here and do not see the difference.
 *
 *     --dir DIR      the store in this folder; if a server owns it, that server, over DIR/once.sock
 *     --server ADDR  that server
 *
 * The calls are those of <once/store.h> and <once/apply.h>, with the same answers and errors.
 */
#ifndef ONCE_CLI_REACH_H
#define ONCE_CLI_REACH_H

#include <once/apply.h>

#include "cli/cli.h"

/* What --help says about where the store is. */
#define CLI_HELP_SERVER                                                                            \
    "  --server ADDR  or a server: HOST:PORT, tls://HOST:PORT, its socket's path; you are\n"       \
    "             $ONCE_USER with $ONCE_PASSWORD; $ONCE_TLS_CA: PEM file of who signs. The "       \
    "server\n"                                                                                     \
    "             that owns DIR is found without\n"

/* Where, as it was given; NULL: not given. */
struct cli_where {
    const char *dir;
    const char *server;
};

struct cli_reach {
    char *name;               /* the folder or the address, for messages */
    struct once_store *store; /* or */
    struct once__client *client;
    struct once_message message; /* client: what it said about the last error; "" is nothing */
};

/* Opens; without may_make only a store that is there. The caller closes it. Otherwise tells what is
 * wrong, the owner's name if the store is in use and nobody answers for it, and returns an exit
 * status that is not CLI_OK. */
int cli_reach_open(const struct cli_command *command, const struct cli_where *where, bool may_make,
                   struct cli_reach *ret_reach);
/* Closes it; accepts one that is all zero. Gives status, or if that is CLI_OK and closing fails,
 * tells so. */
int cli_reach_close(const struct cli_command *command, struct cli_reach *reach, int status);

/* What to tell about an error that a call gave. Good until the next call. */
const char *cli_reach_text(const struct cli_reach *reach, int err);

int cli_reach_apply(struct cli_reach *reach, struct once_name name,
                    const struct once_apply_options *options, const struct once_do *dos,
                    size_t count, struct once_reply *ret_reply);
int cli_reach_get(struct cli_reach *reach, struct once_bytes name, struct once_object *ret_object);
int cli_reach_read(struct cli_reach *reach, struct once_bytes name, uint64_t cursor, size_t count,
                   void (*each)(void *user, const struct once_object_item *item), void *user,
                   uint64_t *ret_cursor, bool *ret_more);
int cli_reach_list(struct cli_reach *reach, uint64_t cursor, size_t count,
                   void (*each)(void *user, struct once_bytes name, enum once_object_type type),
                   void *user, uint64_t *ret_cursor);
/* type is what state is: once_lattice_check has said so. */
int cli_reach_merge(struct cli_reach *reach, struct once_bytes name, enum once_object_type type,
                    struct once_bytes state, bool *ret_changed);
int cli_reach_delta(struct cli_reach *reach, struct once_bytes name, uint64_t since,
                    struct once_buf *out, uint64_t *ret_version);
int cli_reach_changes(struct cli_reach *reach, struct once_changes_cursor *cursor, size_t size_max,
                      struct once_buf *out, bool *ret_more);
int cli_reach_changes_merge(struct cli_reach *reach, struct once_bytes message, size_t *ret_count);

/* A cursor of changes as one word, as people and servers are given it. write returns text. */
enum { CLI_CURSOR_SIZE = 2 * 16 + 3 * 21 + 1 };
const char *cli_cursor_write(const struct once_changes_cursor *cursor, char text[CLI_CURSOR_SIZE]);
bool cli_cursor_read(const char *text, struct once_changes_cursor *ret_cursor);

#endif
