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
    "             $ONCE_USER with $ONCE_PASSWORD; $ONCE_TLS_CA: PEM file of who signs. DIR's\n"    \
    "             own server is found without it\n"

/* Where, as it was given; NULL: not given. */
struct cli_where {
    const char *dir;
    const char *server;
    /* A folder in use by a process that serves nobody: how long to wait for it. Commands hold a
     * folder for a moment only. 0 is CLI_PATIENCE_MS for each process that has it meanwhile, and
     * CLI_PATIENCE_TURNS_MS for all of them. */
    once_ms patience_ms;
};
enum { CLI_PATIENCE_MS = 2000, CLI_PATIENCE_TURNS_MS = 20000 };

struct cli_reach {
    char *name;               /* the folder or the address, for messages */
    struct once_store *store; /* or */
    struct once__client *client;
    struct once_message message; /* what was said about the last error; "" is nothing */
    bool is_address;             /* name is: --server */
    bool may_make;
    bool rejects_doubt; /* a begin says so, whatever its namespace says */
    once_ms patience_ms;
    bool strange; /* what answers there speaks no RESP: asking again is no use */
};

/* Opens; without may_make only a store that is there. The caller closes it. Otherwise tells what is
 * wrong, the owner's name if the store is in use and nobody answers for it, and returns an exit
 * status that is not CLI_OK. */
int cli_reach_open(const struct cli_command *command, const struct cli_where *where, bool may_make,
                   struct cli_reach *ret_reach);
/* The same, and tells nobody: the library's error, ONCE_ERR_INVALID for what was given, and
 * ret_message says why. */
ONCE_MUST_CHECK int cli_reach_try(const struct cli_where *where, bool may_make,
                                  struct cli_reach *ret_reach, struct once_message *ret_message);
/* Closes it; accepts one that is all zero. Gives status, or if that is CLI_OK and closing fails,
 * tells so. */
int cli_reach_close(const struct cli_command *command, struct cli_reach *reach, int status);

/* Lets go of the folder or the connection, and of nothing else: the next call of an operation
 * opens it again, whoever owns it by then. For who waits, sleeps, or forks: after fork() a store
 * may not be used, and a folder that is held keeps everybody else out. */
void cli_reach_rest(struct cli_reach *reach);

/* What to tell about an error that a call gave. Good until the next call. */
const char *cli_reach_text(const struct cli_reach *reach, int err);

/* ---- Operations ------------------------------------------------------------------------------ */

/* begin, complete, fail, checkpoint, renew, resolve, forget, get: the call that op says. Writes
 * op->reply whole and returns its err (reply.what then says more, good until the next call); the
 * caller releases it. wait_ms > 0, of a begin: BUSY is waited for so long (a server parks it; a
 * folder is closed meanwhile and opened again, so that others get at it).
 *
 * Owners come and go between two calls, and during one: where nobody knows whether a call arrived
 * (a server was killed, a disk failed), and where a server has no room now, this opens anew,
 * server or folder, and repeats it, for up to patience_ms. That is right because all of these
 * calls are idempotent: a begin by its owner, the others by their fence. The caller needs no loop.
 *
 * on_doubt REJECT asked of a server is what its namespace says about doubts (by default: reject),
 * unless rejects_doubt.
 * Of a server DOUBT has no attempt and no data: get them. A complete that the namespace's policy
 * makes a doubt of is DOUBT; one that it makes a failure of is DONE. */
int cli_reach_op(struct cli_reach *reach, struct once_op *op, once_ms wait_ms);
/* once_list, once_history. */
int cli_reach_ops(struct cli_reach *reach, const struct once_filter *filter, uint64_t cursor,
                  size_t count, void (*each)(void *user, const struct once_item *item), void *user,
                  uint64_t *ret_cursor);
int cli_reach_history(struct cli_reach *reach, struct once_name name, size_t count,
                      void (*each)(void *user, const struct once_past *past), void *user,
                      bool *ret_found, bool *ret_more);

/* ---- Objects --------------------------------------------------------------------------------- */

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
