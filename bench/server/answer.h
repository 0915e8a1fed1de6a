/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of a RESP server to a claim of a key: SET … NX of Redis, ONCE.BEGIN of Once.
 */
#ifndef BENCH_SERVER_ANSWER_H
#define BENCH_SERVER_ANSWER_H

#include <stddef.h>

enum bench_answer {
    BENCH_ANSWER_PART, /* there is more to come */
    BENCH_ANSWER_NEW,  /* the key was not known: OK, or EXECUTE */
    BENCH_ANSWER_KNOWN,
    BENCH_ANSWER_ERROR, /* the server said so, in one line */
    BENCH_ANSWER_JUNK   /* not RESP, or nothing that answers a claim */
};

/* Reads one answer at data; ret_size is what it takes, unless it is PART or JUNK. */
enum bench_answer bench_answer_read(const char *data, size_t size, size_t *ret_size);

#endif
