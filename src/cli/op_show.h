/* SPDX-License-Identifier: Apache-2.0
 *
 * An operation on the screen: everything that is needed to decide a doubt. `once get`, and what
 * `once resolve` and `once forget` show before they ask.
 */
#ifndef ONCE_CLI_OP_SHOW_H
#define ONCE_CLI_OP_SHOW_H

#include <once/store.h>

#include "cli/text_table.h"

/* Where it is shown. */
struct cli_view {
    FILE *out;
    struct cli_style style;
    once_ms now_ms;   /* what "ago" counts from */
    once_ms doubt_ms; /* since when it is in doubt; 0: not known, unless its lease just ran out */
};

/* The record that a get gave (its word was OK), whole, for people. */
void cli_op_show(const struct cli_view *view, struct once_name name,
                 const struct once_reply *reply);
/* How a doubt is ended, as commands to be typed; nothing where there is none. options is what must
 * be typed behind the name to get at the same store, "" or " --dir …". */
void cli_op_advise(const struct cli_view *view, struct once_name name,
                   const struct once_reply *reply, const char *options);
/* One step of its past. */
void cli_op_show_past(const struct cli_view *view, const struct once_past *past);

/* The same as members of a JSON object, without its braces. */
void cli_op_json(FILE *out, struct once_name name, const struct once_reply *reply);
void cli_op_json_past(FILE *out, const struct once_past *past);

/* ---- Pieces (op_bytes.c) --------------------------------------------------------------------- */

/* "name         ", padded: everything stands behind it. */
void cli_op_label(const struct cli_view *view, const char *name);

/* Data of a recovery point and results: a first line of JSON as names and values, as `once run` and
 * `once call` write it; what follows indented, from its beginning. */
/* Does its first line say that it is "run"'s, or "call"'s? */
bool cli_op_is_by(struct once_bytes bytes, const char *writer);
void cli_op_show_data(const struct cli_view *view, struct once_bytes data);
void cli_op_show_result(const struct cli_view *view, int32_t code, struct once_bytes result);

#endif
