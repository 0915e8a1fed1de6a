/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands about one operation share (get, resolve, forget): its name among the arguments,
 * looking at it, asking at the terminal, and what errors mean.
 */
#ifndef ONCE_CLI_OP_LOOK_H
#define ONCE_CLI_OP_LOOK_H

#include <once/store.h>

#include "cli/cli.h"
#include "cli/op_show.h"
#include "cli/reach.h"

/* The namespace of a KEY that stands alone: that of `once run`. */
#define CLI_NAMESPACE_DEFAULT "run"

/* What --help says about the name. */
#define CLI_HELP_NAME                                                                              \
    "  --namespace NS, -n NS\n"                                                                    \
    "             the namespace of a KEY that stands alone (default: run)\n"

/* The name of an operation: KEY in ns (NULL: not given), or NS KEY. Otherwise tells what is wrong,
 * and returns an exit status that is not CLI_OK. */
int cli_op_name(const struct cli_command *command, const char *ns, const char *const *values,
                size_t count, struct once_name *ret_name);

/* Gets the record into op->reply, which the caller releases. CLI_NOT_FOUND and others were told. */
int cli_op_get(const struct cli_command *command, struct cli_reach *reach, struct once_name name,
               struct once_op *op);

/* Tells an error of a call about this operation; returns its exit status. */
int cli_op_error(const struct cli_command *command, const struct once_reply *reply);

/* "BUSY", and why: tells it, as JSON too; returns status. */
int cli_op_refused(const struct cli_command *command, bool json, const struct once_reply *reply,
                   int status, const char *text);

/* Is there a person who can be asked? */
bool cli_can_ask(void);
/* Asks on stderr; the answer without its newline. False: there was none (end of file). */
bool cli_ask(const char *question, char *answer, size_t size);

/* Since when it is in doubt, if its owner said so: the last step. 0: its lease ran out. */
once_ms cli_op_doubt_ms(struct cli_reach *reach, struct once_name name,
                        const struct once_reply *reply);

/* What must be typed behind the name to get at the same store, for cli_op_advise: "" or
 * " --dir …". The caller frees it; NULL: no memory. */
char *cli_op_options(const struct cli_where *where);

#endif
