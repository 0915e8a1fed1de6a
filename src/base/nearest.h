/* SPDX-License-Identifier: Apache-2.0
 *
 * "Did you mean …": the word that a mistyped one was meant to be.
 */
#ifndef ONCE_BASE_NEAREST_H
#define ONCE_BASE_NEAREST_H

#include <stddef.h>

/* Give typed and its size, try every word that there is, then look at best. */
struct once__nearest {
    const char *typed;
    size_t size;
    const char *best; /* NULL: none is near enough */
    size_t distance;  /* of best */
};

void once__nearest_try(struct once__nearest *nearest, const char *word);

#endif
