/* SPDX-License-Identifier: Apache-2.0
 *
 * Showing other people's text: no byte of it reaches the terminal as a control.
 */
#ifndef ONCE_CLI_ECHO_H
#define ONCE_CLI_ECHO_H

#include <stdbool.h>
#include <stdio.h>

#include <once/bytes.h>

/* A piece of text for a message: printable ASCII as it is, every other byte as \xNN, cut with
 * "...". */
struct cli_echo {
    char text[128];
};

struct cli_echo cli_echo(const char *text);
struct cli_echo cli_echo_bytes(struct once_bytes text);

/* A word of a command that is shown to be typed: in quotes that a shell understands, whatever is in
 * it. Whole, if it is a key or a namespace. */
struct cli_quoted {
    char text[1100]; /* a key of 255 quotes */
};

struct cli_quoted cli_quoted(struct once_bytes word);

/* The same for text that must not be cut. */
void cli_print(FILE *out, struct once_bytes text);

/* How many bytes the UTF-8 character at the start of some bytes has: 0 when it is none (RFC 3629).
 */
size_t cli_utf8_size(struct once_bytes text);

/* Two lines: the text around offset (at most its size), and a caret under it. Nothing for no text.
 * */
void cli_point(FILE *out, struct once_bytes text, size_t offset);

/* A JSON string with its quotes: UTF-8 as it is, control characters escaped, and bytes that are no
 * UTF-8 as \xNN, like in messages (a JSON string cannot hold them). */
void cli_json_string(FILE *out, struct once_bytes text);

/* "name":"…", or for bytes that are no UTF-8 "name_base64":"…". */
void cli_json_bytes(FILE *out, const char *name, struct once_bytes bytes);

/* In base64 (RFC 4648, with padding), without quotes. */
void cli_base64(FILE *out, struct once_bytes bytes);

#endif
