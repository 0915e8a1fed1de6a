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

/* A JSON string with its quotes, all ASCII: bytes that are not are shown as the escape of their
 * value. */
void cli_json_string(FILE *out, struct once_bytes text);

#endif
