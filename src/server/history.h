/* SPDX-License-Identifier: Apache-2.0
 *
 * What both protocols show of an operation's past. A step may hold megabytes, and there are many:
 * of each its beginning is shown, with its whole size beside it. The whole result is in GET.
 */
#ifndef ONCE_SERVER_HISTORY_H
#define ONCE_SERVER_HISTORY_H

#include <once/bytes.h>
#include <once/limits.h>

/* With ONCE_ERR_UNSUPPORTED. */
#define ONCE__HISTORY_LACKS "a shared store keeps no history: only what each operation is now"

enum { ONCE__HISTORY_COUNT_DEFAULT = 100 };

/* The beginning, not cut inside of a character of UTF-8. */
static inline struct once_bytes once__history_cut(struct once_bytes bytes)
{
    size_t size = ONCE_HISTORY_BYTES_MAX;

    if (bytes.size <= size)
        return bytes;
    for (int back = 0; back < 3 && (bytes.data[size] & 0xc0) == 0x80; back++)
        size--;
    return (struct once_bytes){bytes.data, size};
}

#endif
