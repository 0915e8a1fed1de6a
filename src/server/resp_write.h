/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes RESP2 or RESP3 into a buffer. A buffer that cannot grow remembers that it failed; nobody
 * checks each piece.
 */
#ifndef ONCE_SERVER_RESP_WRITE_H
#define ONCE_SERVER_RESP_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include <once/bytes.h>

struct once__out {
    struct once_buf buf;
    int protocol; /* 2 or 3 */
    bool failed;  /* the buffer could not grow: the connection must be closed */
};

void once__out_init(struct once__out *out, size_t size_max);
void once__out_release(struct once__out *out);

void once__out_simple(struct once__out *out, const char *text); /* no CR, LF */
/* "-CODE text": CR, LF and control characters in the text become blanks; cut at 512 bytes. */
void once__out_error(struct once__out *out, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void once__out_integer(struct once__out *out, int64_t number);
void once__out_bulk(struct once__out *out, struct once_bytes bytes);
void once__out_text(struct once__out *out, const char *text);           /* a bulk string */
void once__out_verbatim(struct once__out *out, struct once_bytes text); /* RESP2: bulk */
void once__out_null(struct once__out *out);
void once__out_boolean(struct once__out *out, bool value); /* RESP2: 1 or 0 */
void once__out_array(struct once__out *out, size_t count);
void once__out_map(struct once__out *out, size_t pairs); /* RESP2: an array of twice as many */
void once__out_set(struct once__out *out, size_t count); /* RESP2: an array */

#endif
