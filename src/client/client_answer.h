/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads answers (RESP2) from bytes that come in pieces of any size.
 *
 *     init  →  feed, next, feed, next, …: 1  →  clear  →  feed, next, …  →  release
 */
#ifndef ONCE_CLIENT_ANSWER_H
#define ONCE_CLIENT_ANSWER_H

#include <once/limits.h>

#include "client/client.h"

struct once__answer {
    struct once_buf bytes; /* of this answer, and whatever came behind it */
    const char *what;      /* why nothing more can be read: static text */
    /* Inner: how far the bytes were understood. */
    size_t offset;                          /* of the first byte that was not */
    size_t searched;                        /* of a line: there is no end of it before this */
    size_t left[ONCE_ANSWER_DEPTH_MAX + 1]; /* values that are missing at each depth */
    size_t depth;
    size_t count; /* values in all, those that lists have announced included */
    bool whole;
    struct once__answer_item *items;
};

void once__answer_init(struct once__answer *answer);
void once__answer_release(struct once__answer *answer);

/* Adds bytes that came. ONCE_ERR_FULL: more than ONCE_ANSWER_SIZE_MAX. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__answer_feed(struct once__answer *answer, const uint8_t *bytes,
                                      size_t size);

/* 1: the answer is whole; it belongs to the reader until clear or feed. 0: bytes are missing.
 * ONCE_ERR_DAMAGED: this is not RESP2, or larger than its bounds: nothing more can be read until
 * reset. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__answer_next(struct once__answer *answer,
                                      const struct once__answer_item **ret_item);

/* Drops the whole answer; the bytes behind it stay. */
void once__answer_clear(struct once__answer *answer);
/* Drops everything. */
void once__answer_reset(struct once__answer *answer);

/* Has anything come behind the whole answer? */
bool once__answer_has_more(const struct once__answer *answer);

#endif
