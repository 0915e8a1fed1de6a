/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes RESP2 or RESP3. Every piece is whole or absent: when the buffer cannot grow, nothing of
 * the piece is written and the buffer is marked, because what follows could not be understood.
 */
#include "server/resp_write.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum {
    NUMBER_SIZE_MAX = 24, /* a kind, a sign, 19 digits, CR LF */
    ERROR_SIZE_MAX = 512
};

void once__out_init(struct once__out *out, size_t size_max)
{
    *out = (struct once__out){.protocol = 2};
    once_buf_init(&out->buf, size_max);
}

void once__out_release(struct once__out *out)
{
    once_buf_release(&out->buf);
    out->failed = false;
}

/* Where size bytes may be written now, or NULL; the caller adds what it wrote. */
static uint8_t *room(struct once__out *out, size_t size)
{
    if (out->failed)
        return NULL;
    if (out->buf.capacity - out->buf.size < size && once_buf_reserve(&out->buf, size) != ONCE_OK) {
        out->failed = true;
        return NULL;
    }
    return out->buf.data + out->buf.size;
}

/* "<kind><number>\r\n"; how many bytes that were. */
static size_t write_number(uint8_t *to, char kind, int64_t number)
{
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    uint8_t digits[20];
    size_t count = 0, at = 0;

    to[at++] = (uint8_t)kind;
    if (number < 0)
        to[at++] = '-';
    do {
        digits[count++] = (uint8_t)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    while (count > 0)
        to[at++] = digits[--count];
    to[at++] = '\r';
    to[at++] = '\n';
    return at;
}

static void put_number(struct once__out *out, char kind, int64_t number)
{
    uint8_t *to = room(out, NUMBER_SIZE_MAX);

    if (to)
        out->buf.size += write_number(to, kind, number);
}

static void put_count(struct once__out *out, char kind, size_t count)
{
    ONCE_ASSERT(count <= INT64_MAX);
    put_number(out, kind, (int64_t)count);
}

static void put_raw(struct once__out *out, const char *text, size_t size)
{
    uint8_t *to = room(out, size);

    if (!to)
        return;
    memcpy(to, text, size);
    out->buf.size += size;
}

/* "<kind><size>\r\n<prefix><bytes>\r\n". */
static void put_sized(struct once__out *out, char kind, const char *prefix, struct once_bytes bytes)
{
    size_t prefix_size = strlen(prefix), at;
    uint8_t *to;

    if (bytes.size > SIZE_MAX / 2) {
        out->failed = true;
        return;
    }
    to = room(out, NUMBER_SIZE_MAX + prefix_size + bytes.size + 2);
    if (!to)
        return;
    at = write_number(to, kind, (int64_t)(prefix_size + bytes.size));
    memcpy(to + at, prefix, prefix_size);
    at += prefix_size;
    if (bytes.size > 0)
        memcpy(to + at, bytes.data, bytes.size);
    at += bytes.size;
    to[at++] = '\r';
    to[at++] = '\n';
    out->buf.size += at;
}

void once__out_simple(struct once__out *out, const char *text)
{
    size_t size = strlen(text);
    uint8_t *to = room(out, size + 3);

    ONCE_ASSERT(!memchr(text, '\r', size));
    ONCE_ASSERT(!memchr(text, '\n', size));
    if (!to)
        return;
    to[0] = '+';
    memcpy(to + 1, text, size);
    memcpy(to + 1 + size, "\r\n", 2);
    out->buf.size += size + 3;
}

void once__out_error(struct once__out *out, const char *code, const char *format, ...)
{
    char line[ERROR_SIZE_MAX + 1];
    size_t size;
    va_list args;
    int head, tail;

    head = snprintf(line, sizeof line, "-%s ", code);
    ONCE_ASSERT(head > 0 && (size_t)head < sizeof line / 2);
    va_start(args, format);
    tail = vsnprintf(line + head, sizeof line - (size_t)head, format, args);
    va_end(args);
    size = (size_t)head + (tail > 0 ? strlen(line + head) : 0);
    /* The text may quote what the other side sent. */
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = ' ';
    }
    if (room(out, size + 2)) {
        put_raw(out, line, size);
        put_raw(out, "\r\n", 2);
    }
}

void once__out_integer(struct once__out *out, int64_t number)
{
    put_number(out, ':', number);
}

void once__out_bulk(struct once__out *out, struct once_bytes bytes)
{
    put_sized(out, '$', "", bytes);
}

void once__out_text(struct once__out *out, const char *text)
{
    put_sized(out, '$', "", once_bytes_of(text));
}

void once__out_verbatim(struct once__out *out, struct once_bytes text)
{
    if (out->protocol >= 3)
        put_sized(out, '=', "txt:", text);
    else
        put_sized(out, '$', "", text);
}

void once__out_null(struct once__out *out)
{
    if (out->protocol >= 3)
        put_raw(out, "_\r\n", 3);
    else
        put_raw(out, "$-1\r\n", 5);
}

void once__out_boolean(struct once__out *out, bool value)
{
    if (out->protocol >= 3)
        put_raw(out, value ? "#t\r\n" : "#f\r\n", 4);
    else
        put_number(out, ':', value);
}

void once__out_array(struct once__out *out, size_t count)
{
    put_count(out, '*', count);
}

void once__out_map(struct once__out *out, size_t pairs)
{
    if (out->protocol >= 3)
        put_count(out, '%', pairs);
    else
        put_count(out, '*', pairs * 2);
}

void once__out_set(struct once__out *out, size_t count)
{
    put_count(out, out->protocol >= 3 ? '~' : '*', count);
}
