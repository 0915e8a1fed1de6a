/* SPDX-License-Identifier: Apache-2.0
 *
 * Showing other people's text. A key or a file may hold escape sequences that would move the
 * cursor or rename the window of whoever reads the message; in messages only printable ASCII goes
 * out as it came, in JSON strings everything but controls and what is no UTF-8.
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

struct cli_echo cli_echo_bytes(struct once_bytes text)
{
    static const char cut[] = "...";
    struct cli_echo echo = {{0}};
    size_t size = 0;

    for (size_t i = 0; i < text.size; i++) {
        char piece[ESCAPE_SIZE + 1];
        size_t width = echo_byte(text.data[i], piece);

        if (size + width + sizeof(cut) > sizeof(echo.text)) {
            memcpy(echo.text + size, cut, sizeof(cut));
            break;
        }
        memcpy(echo.text + size, piece, width);
        size += width;
    }
    return echo;
}

struct cli_quoted cli_quoted(struct once_bytes word)
{
    static const char cut[] = "...'", quote[] = "'\\''";
    struct cli_quoted quoted = {"'"};
    size_t size = 1;

    for (size_t i = 0; i < word.size; i++) {
        char piece[ESCAPE_SIZE + 1];
        size_t width = sizeof(quote) - 1;

        if (word.data[i] == '\'')
            memcpy(piece, quote, sizeof(quote));
        else
            width = echo_byte(word.data[i], piece);
        if (size + width + sizeof(cut) > sizeof(quoted.text)) {
            memcpy(quoted.text + size, cut, sizeof(cut));
            return quoted;
        }
        memcpy(quoted.text + size, piece, width);
        size += width;
    }
    quoted.text[size] = '\'';
    return quoted;
}

struct cli_echo cli_echo(const char *text)
{
    return cli_echo_bytes(once_bytes_of(text));
}

void cli_print(FILE *out, struct once_bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        char piece[ESCAPE_SIZE + 1];

        (void)echo_byte(text.data[i], piece);
        fputs(piece, out);
    }
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

size_t cli_utf8_size(struct once_bytes text)
{
    static const struct {
        uint8_t first_min, first_max;
        uint8_t second_min, second_max; /* narrower where longer forms of shorter ones begin */
        size_t size;
    } forms[] = {
        {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    size_t i = 0;

    while (i < sizeof(forms) / sizeof(forms[0]) &&
           (text.data[0] < forms[i].first_min || text.data[0] > forms[i].first_max))
        i++;
    if (i == sizeof(forms) / sizeof(forms[0]) || forms[i].size > text.size)
        return 0;
    if (forms[i].size > 1 &&
        (text.data[1] < forms[i].second_min || text.data[1] > forms[i].second_max))
        return 0;
    for (size_t j = 2; j < forms[i].size; j++) {
        if (text.data[j] < 0x80 || text.data[j] > 0xbf)
            return 0;
    }
    return forms[i].size;
}

void cli_json_string(FILE *out, struct once_bytes text)
{
    fputc('"', out);
    while (text.size > 0) {
        uint8_t byte = text.data[0];
        size_t size = cli_utf8_size(text);

        if (size == 0)
            fprintf(out, "\\\\x%02x", byte);
        else if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (size == 1 && !is_printable(byte))
            fprintf(out, "\\u%04x", byte);
        else if (size == 2 && byte == 0xc2 && text.data[1] < 0xa0) /* controls too, to a terminal */
            fprintf(out, "\\u%04x", text.data[1]);
        else
            fwrite(text.data, 1, size, out);
        size = size > 0 ? size : 1;
        text = (struct once_bytes){text.data + size, text.size - size};
    }
    fputc('"', out);
}

static bool is_utf8(struct once_bytes text)
{
    while (text.size > 0) {
        size_t size = cli_utf8_size(text);

        if (size == 0)
            return false;
        text = (struct once_bytes){text.data + size, text.size - size};
    }
    return true;
}

void cli_json_bytes(FILE *out, const char *name, struct once_bytes bytes)
{
    if (is_utf8(bytes)) {
        fprintf(out, "\"%s\":", name);
        cli_json_string(out, bytes);
        return;
    }
    fprintf(out, "\"%s_base64\":\"", name);
    cli_base64(out, bytes);
    fputc('"', out);
}

void cli_base64(FILE *out, struct once_bytes bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < bytes.size; i += 3) {
        size_t left = bytes.size - i;
        uint32_t three = (uint32_t)bytes.data[i] << 16;

        if (left > 1)
            three |= (uint32_t)bytes.data[i + 1] << 8;
        if (left > 2)
            three |= bytes.data[i + 2];
        fputc(digits[three >> 18], out);
        fputc(digits[three >> 12 & 63], out);
        fputc(left > 1 ? digits[three >> 6 & 63] : '=', out);
        fputc(left > 2 ? digits[three & 63] : '=', out);
    }
}
