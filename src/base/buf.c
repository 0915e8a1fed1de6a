/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded growable buffers: data holds capacity bytes, size <= capacity <= size_max.
 */
#include "base/assert.h"
#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

enum { BUF_CAPACITY_FIRST = 64 };

struct once_bytes once_bytes_of(const char *text)
{
    struct once_bytes bytes = {.data = (const uint8_t *)text, .size = text ? strlen(text) : 0};

    return bytes;
}

bool once__bytes_readable(struct once_bytes bytes)
{
    return bytes.data || bytes.size == 0;
}

int once__bytes_compare(struct once_bytes a, struct once_bytes b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common > 0 ? memcmp(a.data, b.data, common) : 0;

    if (order != 0)
        return order;
    return (a.size > b.size) - (a.size < b.size);
}

void once_buf_init(struct once_buf *buf, size_t size_max)
{
    if (buf)
        *buf = (struct once_buf){.size_max = size_max};
}

void once_buf_clear(struct once_buf *buf)
{
    if (buf)
        buf->size = 0;
}

void once_buf_release(struct once_buf *buf)
{
    if (!buf)
        return;
    free(buf->data);
    once_buf_init(buf, buf->size_max);
}

int once_buf_reserve(struct once_buf *buf, size_t extra)
{
    size_t need, capacity;
    uint8_t *data;

    if (!buf)
        return ONCE_ERR_INVALID;
    ONCE_ASSERT(buf->size <= buf->capacity);
    if (extra > buf->size_max || buf->size > buf->size_max - extra)
        return ONCE_ERR_FULL;
    need = buf->size + extra;
    if (need <= buf->capacity)
        return ONCE_OK;

    capacity = buf->capacity > 0 ? buf->capacity : BUF_CAPACITY_FIRST;
    while (capacity < need)
        capacity = capacity > buf->size_max / 2 ? buf->size_max : capacity * 2;
    if (capacity > buf->size_max)
        capacity = buf->size_max;
    data = realloc(buf->data, capacity);
    if (!data)
        return ONCE_ERR_MEMORY;
    buf->data = data;
    buf->capacity = capacity;
    return ONCE_OK;
}

int once_buf_append(struct once_buf *buf, const void *data, size_t size)
{
    int err = !data && size > 0 ? ONCE_ERR_INVALID : once_buf_reserve(buf, size);

    if (err != ONCE_OK)
        return err;
    if (size > 0)
        memcpy(buf->data + buf->size, data, size);
    buf->size += size;
    return ONCE_OK;
}

struct once_bytes once_buf_bytes(const struct once_buf *buf)
{
    struct once_bytes bytes = {0};

    if (buf)
        bytes = (struct once_bytes){.data = buf->data, .size = buf->size};
    return bytes;
}
