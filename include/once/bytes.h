/* SPDX-License-Identifier: Apache-2.0
 *
 * Borrowed bytes and bounded growable buffers: how bytes go in and out of Once.
 */
#ifndef ONCE_BYTES_H
#define ONCE_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include <once/err.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that belong to someone else. data may be NULL only when size is 0. */
struct once_bytes {
    const uint8_t *data;
    size_t size;
};

/* A buffer that grows up to size_max and then refuses with ONCE_ERR_FULL. It owns data. */
struct once_buf {
    uint8_t *data;
    size_t size;
    size_t capacity;
    size_t size_max;
};

/* What was wrong in an input and where: filled by parsers on failure. what is static text. */
struct once_defect {
    size_t offset;
    const char *what;
};

/* The bytes of a C string, without its NUL. NULL gives no bytes. */
ONCE_API struct once_bytes once_bytes_of(const char *text);

/* On a buffer that is NULL, and on NULL data of some size, functions that can fail do so with
 * ONCE_ERR_INVALID; the others do nothing, and the content of NULL is no bytes. */

/* Starts empty, allocates nothing. */
ONCE_API void once_buf_init(struct once_buf *buf, size_t size_max);

/* Empties the buffer and keeps its memory. */
ONCE_API void once_buf_clear(struct once_buf *buf);

/* Frees the memory; the buffer is as after init. */
ONCE_API void once_buf_release(struct once_buf *buf);

/* Makes room for extra more bytes after size. ONCE_ERR_FULL, ONCE_ERR_MEMORY. */
ONCE_API ONCE_MUST_CHECK int once_buf_reserve(struct once_buf *buf, size_t extra);

/* Appends a copy of the bytes, or on error changes nothing. The bytes may not lie inside buf. */
ONCE_API ONCE_MUST_CHECK int once_buf_append(struct once_buf *buf, const void *data, size_t size);

/* The content, borrowed until the next change of the buffer. */
ONCE_API struct once_bytes once_buf_bytes(const struct once_buf *buf);

#ifdef __cplusplus
}
#endif
#endif
