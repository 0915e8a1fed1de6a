/* SPDX-License-Identifier: Apache-2.0
 *
 * What the actions of `once key` share.
 */
#ifndef ONCE_CLI_CMD_KEY_H
#define ONCE_CLI_CMD_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include <once/bytes.h>

/* The arguments behind the action, read. The texts belong to argv; a text is NULL when not given.
 * */
struct key_args {
    bool json;      /* --json: for machines */
    bool as_header; /* --header without a value, of explain */
    bool json_body; /* --json-body */
    const char *count;
    const char *method;
    const char *path;
    const char *query;
    const char **headers;
    size_t header_count;
    const char **values; /* what is not an option */
    size_t value_count;
};

/* The larger actions; each returns an exit status. */
int key_explain(const struct key_args *args);
int key_fingerprint(const struct key_args *args);

/* Tells what is wrong with an input and where, with a caret under the place, and on stdout for
 * machines. Returns CLI_USAGE. */
int key_refuse(const struct key_args *args, int err, struct once_bytes input,
               const struct once_defect *defect);

#endif
