/* SPDX-License-Identifier: Apache-2.0
 *
 * What `once serve` prints instead of serving, and telling what others wrote.
 */
#ifndef ONCE_CLI_SERVE_H
#define ONCE_CLI_SERVE_H

#include <stdio.h>

#include <once/bytes.h>
#include <once/limits.h>

/* A message with every control character as a blank. */
struct cli_clean {
    char text[ONCE_MESSAGE_SIZE];
};
struct cli_clean cli_clean(const char *text);

/* Each returns an exit status. */
int cli_serve_hash_password(void);
int cli_serve_make_token(void);
int cli_serve_help_settings(void);
int cli_serve_help_commands(void);

/* Text of several lines: line feeds stay, every other control character is a blank. */
void cli_print_lines(FILE *out, struct once_bytes text);

#endif
