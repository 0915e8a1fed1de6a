/* SPDX-License-Identifier: Apache-2.0
 *
 * Text in a fixed array. A report must come out whatever a plugin describes, so what does not fit
 * is cut and marked instead of being an error.
 */
#include "laws/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

struct once__text once__text_in(char *data, size_t capacity)
{
    struct once__text text = {.data = data, .size = 0, .capacity = capacity};

    ONCE_ASSERT(capacity >= sizeof("..."));
    data[0] = '\0';
    return text;
}

static void cut(struct once__text *text)
{
    text->size = text->capacity - 1;
    memcpy(text->data + text->size - 3, "...", sizeof("..."));
}

void once__text_add(struct once__text *text, const char *format, ...)
{
    size_t room = text->capacity - text->size;
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(text->data + text->size, room, format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= room)
        cut(text);
    else
        text->size += (size_t)size;
}

void once__text_add_bytes(struct once__text *text, struct once_bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        uint8_t byte = bytes.data[i];

        if (byte >= 0x20 && byte < 0x7f)
            once__text_add(text, "%c", byte);
        else
            once__text_add(text, "\\x%02x", byte);
    }
}
