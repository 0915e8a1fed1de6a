/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects as text, in one form for what the world expects and for what the store shows: two of them
 * are the same object exactly when the texts are equal. Events and messages are in it by a sum.
 */
#ifndef ONCE_TESTS_APPLY_SHOW_H
#define ONCE_TESTS_APPLY_SHOW_H

#include "apply/world.h"
#include "power/chance.h"

enum { SHOW_SIZE = 2048 };

struct show {
    size_t size;
    char text[SHOW_SIZE];
};

/* What the world says. */
void show_thing(const struct world *world, int object, const struct thing *thing,
                struct show *ret_show);
/* What the store says; reads logs, outboxes and buckets to the end, in pages of any size. An error
 * is that of the call. */
int show_object(struct once_store *store, struct chance *chance, const char *name,
                struct show *ret_show);
bool show_equal(const struct show *a, const struct show *b);

#endif
