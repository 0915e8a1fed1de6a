/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of the ONCE.* commands: pairs of a word and its value, in any order, each at most once.
 */
#ifndef ONCE_SERVER_RESP_OPTION_H
#define ONCE_SERVER_RESP_OPTION_H

#include "server/command.h"

enum once__option_kind {
    ONCE__OPTION_BYTES,
    ONCE__OPTION_NUMBER,
    ONCE__OPTION_WORD /* one of words; its place among them becomes the number */
};

struct once__option {
    const char *name; /* in capitals */
    enum once__option_kind kind;
    const char *what;         /* of its value: "a number of milliseconds", "bytes" */
    int64_t min, max;         /* NUMBER: of the number; BYTES: of the size */
    const char *const *words; /* NULL ends them */
};

struct once__option_value {
    bool given;
    int64_t number;
    struct once_bytes bytes;
};

/* Reads args[at] and what follows, up to the end or to the word stop (which may be NULL), which
 * *ret_at is then the place of. values has one for each option, all zero in the first call. False:
 * something is wrong, and the answer says what. */
bool once__options_read(const struct once__request *request, struct once__out *out, size_t at,
                        const char *stop, const struct once__option *options, size_t option_count,
                        struct once__option_value *values, size_t *ret_at);

#endif
