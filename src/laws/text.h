/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that grows inside a fixed array and ends in "..." when it does not fit.
 */
#ifndef ONCE_LAWS_TEXT_H
#define ONCE_LAWS_TEXT_H

#include <once/bytes.h>

struct once__text {
    char *data; /* always NUL-terminated */
    size_t size;
    size_t capacity; /* with the NUL; at least 4 */
};

/* Starts empty in an array that belongs to the caller. */
struct once__text once__text_in(char *data, size_t capacity);

void once__text_add(struct once__text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Bytes that came from elsewhere: what is not printable ASCII is written as \xNN. */
void once__text_add_bytes(struct once__text *text, struct once_bytes bytes);

#endif
