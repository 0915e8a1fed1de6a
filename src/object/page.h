/* SPDX-License-Identifier: Apache-2.0
 *
 * What a store shows of an object: copies, so that who looks needs no lock. Only durable facts may
 * be shown (INV-2), which is the store's to wait for.
 */
#ifndef ONCE_OBJECT_PAGE_H
#define ONCE_OBJECT_PAGE_H

#include "object/object.h"

/* The object as once_object_get gives it. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__object_copy(const struct once__object *object,
                                      struct once_object *ret_object);

/* A page of items, copied. Their bytes are in one buffer, in order. */
struct once__page {
    struct once_object_item *items;
    size_t count;
    size_t count_max;
    struct once_buf bytes;
    uint64_t cursor; /* where to go on */
    bool more;
};

/* Up to count items behind the cursor. ONCE_ERR_MEMORY: then there is nothing to release. */
ONCE_MUST_CHECK int once__page_init(struct once__page *page, uint64_t cursor, size_t count);
void once__page_release(struct once__page *page);
/* Copies them, once. ONCE_ERR_OBJECT_TYPE: there are no items in an object of this type.
 * ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__page_gather(struct once__page *page, const struct once__object *object);
void once__page_show(struct once__page *page,
                     void (*each)(void *user, const struct once_object_item *item), void *user);

#endif
