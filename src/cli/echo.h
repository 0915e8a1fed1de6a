/* SPDX-License-Identifier: Apache-2.0
 *
 * Showing other people's text: no byte of it reaches the terminal as a control.
 */
#ifndef ONCE_CLI_ECHO_H
#define ONCE_CLI_ECHO_H

#include <stdio.h>

#include <once/bytes.h>

/* A piece of text for a message: printable ASCII as it is, every other byte as \xNN, cut with
 * "...". */
struct cli_echo {
    char text[128];
};

struct cli_echo cli_echo(const char *text);

/* Two lines: the text around offset (at most its size), and a caret under it. Nothing for no text.
 * */
void cli_point(FILE *out, struct once_bytes text, size_t offset);

/* A JSON string with its quotes: UTF-8 as it is, control characters escaped, and bytes that are no
 * UTF-8 as \xNN, like in messages (a JSON string cannot hold them). */
void cli_json_string(FILE *out, struct once_bytes text);

#endif
