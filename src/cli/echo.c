/* SPDX-License-Identifier: Apache-2.0
 *
 * Showing other people's text. A key or a file may hold escape sequences that would move the cursor
 * or rename the window of whoever reads the message; only printable ASCII goes out as it came.
 */
#include "cli/echo.h"

#include <stdbool.h>
#include <string.h>

enum {
    ESCAPE_SIZE = 4, /* \xNN */
    POINT_BEFORE = 40,
    POINT_AFTER = 30
};

static bool is_printable(uint8_t byte)
{
    return byte >= 0x20 && byte <= 0x7e;
}

/* Writes one byte and gives its width. ret_text has room for ESCAPE_SIZE and a NUL. */
static size_t echo_byte(uint8_t byte, char ret_text[ESCAPE_SIZE + 1])
{
    int printed = snprintf(ret_text, ESCAPE_SIZE + 1, is_printable(byte) ? "%c" : "\\x%02x", byte);

    return (size_t)printed;
}

struct cli_echo cli_echo(const char *text)
{
    static const char cut[] = "...";
    struct cli_echo echo = {{0}};
    size_t size = 0;

    for (; *text != '\0'; text++) {
        char piece[ESCAPE_SIZE + 1];
        size_t width = echo_byte((uint8_t)*text, piece);

        if (size + width + sizeof(cut) > sizeof(echo.text)) {
            memcpy(echo.text + size, cut, sizeof(cut));
            break;
        }
        memcpy(echo.text + size, piece, width);
        size += width;
    }
    return echo;
}

void cli_point(FILE *out, struct once_bytes text, size_t offset)
{
    size_t first = offset > POINT_BEFORE ? offset - POINT_BEFORE : 0;
    size_t last = text.size - offset > POINT_AFTER ? offset + POINT_AFTER : text.size;
    size_t caret = 2;

    if (text.size == 0)
        return;
    fputs("  ", out);
    if (first > 0)
        caret += (size_t)fprintf(out, "...");
    for (size_t i = first; i < last; i++) {
        char piece[ESCAPE_SIZE + 1];
        size_t width = echo_byte(text.data[i], piece);

        fputs(piece, out);
        if (i < offset)
            caret += width;
    }
    fputs(last < text.size ? "...\n" : "\n", out);
    fprintf(out, "%*s\n", (int)caret + 1, "^");
}

void cli_json_string(FILE *out, struct once_bytes text)
{
    fputc('"', out);
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];

        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (is_printable(byte))
            fputc(byte, out);
        else
            fprintf(out, "\\u%04x", byte);
    }
    fputc('"', out);
}
