/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for a counterexample.
 *
 * A law is a question about a few things ("is x twice the same as x once, starting from s?"), and
 * each thing is named by a number: 0 is the simplest. The search asks about all combinations of
 * small numbers, those with the smallest sum first, so the first failure is a smallest one. Then it
 * asks about random larger numbers, and makes whatever fails there as small as it can. The same
 * seed asks the same questions.
 */
#ifndef ONCE_LAWS_SEARCH_H
#define ONCE_LAWS_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <once/err.h>

enum { ONCE__DIMENSIONS_MAX = 4 };

struct once__domain {
    size_t dimensions;
    uint64_t small[ONCE__DIMENSIONS_MAX]; /* every number below is asked about; at least 1 */
    uint64_t large[ONCE__DIMENSIONS_MAX]; /* random numbers stay below; at least small */
};

struct once__effort {
    uint64_t seed;
    uint64_t random_count; /* random questions for each law */
};

struct once__found {
    bool holds;
    uint64_t checks;
    uint64_t index[ONCE__DIMENSIONS_MAX]; /* the counterexample when it does not hold */
};

/* Does the law hold for these numbers? 1 yes, 0 no, negative: an error, which ends the search. */
typedef int once__law_question(void *context, const uint64_t *index);

/* Gives the error of the question, if it gave one. */
ONCE_MUST_CHECK int once__search(const struct once__domain *domain, once__law_question *question,
                                 void *context, struct once__effort effort,
                                 struct once__found *ret_found);

/* A number that looks random and depends on nothing but its argument. */
uint64_t once__scatter(uint64_t number);

#endif
