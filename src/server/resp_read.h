/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads RESP commands: an array of bulk strings, or one line of words ("inline", as typed into a
 * terminal). Allocates nothing, keeps nothing, points into the caller's bytes, and says
 * "incomplete". An input that comes in small pieces is not read again from its beginning: the
 * reader remembers how far it came.
 */
#ifndef ONCE_SERVER_RESP_READ_H
#define ONCE_SERVER_RESP_READ_H

#include <stdbool.h>

#include <once/bytes.h>

/* What one command may be; smaller before someone is known. */
struct once__resp_bounds {
    size_t arg_count_max;
    size_t arg_size_max;
    size_t size_max; /* of the whole command, with its framing */
};

/* A command under way. All zero at the beginning, and again after one was read. */
struct once__resp_reader {
    size_t offset;   /* bytes of the input that were understood */
    uint32_t wanted; /* arguments of the array */
    uint32_t count;  /* of them found */
    bool in_array;
    bool has_size; /* the size of the next argument is known: */
    size_t size;
    /* Where each found argument lies: offsets, because the input may be moved between calls. */
    struct once__resp_arg {
        uint32_t offset;
        uint32_t size;
    } * args; /* the caller's, with room for arg_count_max */
};

enum once__resp_result {
    ONCE__RESP_COMMAND,    /* reader->count arguments; input is read up to reader->offset */
    ONCE__RESP_NOTHING,    /* an empty line or array: reader->offset says what to skip */
    ONCE__RESP_INCOMPLETE, /* call again with more */
    ONCE__RESP_WRONG       /* not RESP, or past a bound: *ret_what says what; the connection cannot
                            * go on */
};

/* input begins where the command begins, in every call for it. Inline words are unquoted in place,
 * which is why the input is not const. */
enum once__resp_result once__resp_read(struct once__resp_reader *reader, uint8_t *input,
                                       size_t input_size, const struct once__resp_bounds *bounds,
                                       const char **ret_what);
/* How many bytes at least are still missing, when known (a large argument), else 0. */
size_t once__resp_missing(const struct once__resp_reader *reader, size_t input_size);

#endif
