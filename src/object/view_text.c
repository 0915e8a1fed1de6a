/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing JSON for view.c: strings that are escaped where JSON must be, base64 for bytes that no
 * JSON string can hold.
 */
#include "object/view_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum { NUMBER_TEXT_SIZE = 21 }; /* the longest number of 64 bits, and a NUL */

/* How many bytes follow this first byte of a character; the second byte must be at least `least`
 * and at most `most` (no overlong forms, no surrogates, nothing above U+10FFFF). False: it is
 * none. */
static bool read_lead(uint8_t lead, size_t *ret_rest, uint8_t *ret_least, uint8_t *ret_most)
{
    *ret_least = 0x80;
    *ret_most = 0xbf;
    if (lead < 0x80) {
        *ret_rest = 0;
    } else if (lead >= 0xc2 && lead <= 0xdf) {
        *ret_rest = 1;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        *ret_rest = 2;
        if (lead == 0xe0)
            *ret_least = 0xa0;
        if (lead == 0xed)
            *ret_most = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        *ret_rest = 3;
        if (lead == 0xf0)
            *ret_least = 0x90;
        if (lead == 0xf4)
            *ret_most = 0x8f;
    } else {
        return false;
    }
    return true;
}

bool once__utf8_check(struct once_bytes bytes)
{
    size_t at = 0;

    while (at < bytes.size) {
        size_t rest;
        uint8_t least, most;

        if (!read_lead(bytes.data[at++], &rest, &least, &most) || rest > bytes.size - at)
            return false;
        for (; rest > 0; rest--, at++) {
            if (bytes.data[at] < least || bytes.data[at] > most)
                return false;
            least = 0x80;
            most = 0xbf;
        }
    }
    return true;
}

static void put(struct once__view *view, const void *data, size_t size)
{
    if (view->err == ONCE_OK)
        view->err = once_buf_append(view->out, data, size);
}

void once__view_text(struct once__view *view, const char *text)
{
    put(view, text, strlen(text));
}

void once__view_signed(struct once__view *view, int64_t number)
{
    char text[NUMBER_TEXT_SIZE];

    (void)snprintf(text, sizeof text, "%" PRId64, number);
    once__view_text(view, text);
}

void once__view_number(struct once__view *view, uint64_t number)
{
    char text[NUMBER_TEXT_SIZE];

    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    once__view_text(view, text);
}

void once__view_string(struct once__view *view, struct once_bytes text)
{
    size_t from = 0;

    put(view, "\"", 1);
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        char escape[sizeof "\\u0000"];

        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        put(view, text.data + from, i - from);
        from = i + 1;
        if (c == '"' || c == '\\')
            (void)snprintf(escape, sizeof escape, "\\%c", c);
        else if (c == '\n')
            (void)snprintf(escape, sizeof escape, "\\n");
        else if (c == '\t')
            (void)snprintf(escape, sizeof escape, "\\t");
        else if (c == '\r')
            (void)snprintf(escape, sizeof escape, "\\r");
        else
            (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
        once__view_text(view, escape);
    }
    if (text.size > from)
        put(view, text.data + from, text.size - from);
    put(view, "\"", 1);
}

void once__view_base64(struct once__view *view, struct once_bytes bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    put(view, "\"", 1);
    for (size_t i = 0; i < bytes.size; i += 3) {
        size_t left = bytes.size - i;
        uint32_t group = (uint32_t)bytes.data[i] << 16;
        char text[4];

        if (left > 1)
            group |= (uint32_t)bytes.data[i + 1] << 8;
        if (left > 2)
            group |= bytes.data[i + 2];
        for (unsigned digit = 0; digit < 4; digit++)
            text[digit] = digit <= left ? digits[group >> (18 - 6 * digit) & 0x3f] : '=';
        put(view, text, sizeof text);
    }
    put(view, "\"", 1);
}

void once__view_field(struct once__view *view, const char *name)
{
    once__view_text(view, ",\"");
    once__view_text(view, name);
    once__view_text(view, "\":");
}

void once__view_signed_field(struct once__view *view, const char *name, int64_t number)
{
    once__view_field(view, name);
    once__view_signed(view, number);
}

void once__view_number_field(struct once__view *view, const char *name, uint64_t number)
{
    once__view_field(view, name);
    once__view_number(view, number);
}

void once__view_bytes_field(struct once__view *view, const char *name, struct once_bytes bytes)
{
    if (once__utf8_check(bytes)) {
        once__view_field(view, name);
        once__view_string(view, bytes);
        return;
    }
    once__view_text(view, ",\"");
    once__view_text(view, name);
    once__view_text(view, "_base64\":");
    once__view_base64(view, bytes);
}

void once__view_known_field(struct once__view *view, const char *name, struct once_bytes bytes,
                            bool known)
{
    if (known) {
        once__view_bytes_field(view, name, bytes);
        return;
    }
    once__view_field(view, name);
    once__view_text(view, "null");
}

void once__view_fingerprint_field(struct once__view *view,
                                  const struct once_fingerprint *fingerprint)
{
    char text[2 * ONCE_FINGERPRINT_SIZE + 1];
    bool known = false;

    for (size_t i = 0; i < ONCE_FINGERPRINT_SIZE; i++) {
        known = known || fingerprint->bytes[i] != 0;
        (void)snprintf(text + 2 * i, 3, "%02x", fingerprint->bytes[i]);
    }
    once__view_known_field(view, "fingerprint", once_bytes_of(text), known);
}
