/* SPDX-License-Identifier: Apache-2.0
 *
 * The store interface: what the embedded engine, and later the shared stores, offer behind
 * <once/store.h>. Hosts and tools use the public header; this is for who implements a store.
 */
#ifndef ONCE_STORE_STORE_H
#define ONCE_STORE_STORE_H

#include <once/apply.h>
#include <once/store.h>

struct once__store_ops {
    /* Decides all in order and returns when all may be told. Arguments were not checked yet. */
    void (*call)(struct once_store *store, struct once_op *ops, size_t count);
    /* here: may write and tell on the caller's thread. */
    int (*submit)(struct once_store *store, struct once_op *const *ops, size_t count, bool here,
                  size_t *ret_taken);
    int (*list)(struct once_store *store, const struct once_filter *filter, uint64_t cursor,
                size_t count, void (*each)(void *user, const struct once_item *item), void *user,
                uint64_t *ret_cursor);
    /* NULL: this store keeps no history. */
    int (*history)(struct once_store *store, struct once_name name, size_t count,
                   void (*each)(void *user, const struct once_past *past), void *user,
                   bool *ret_found, bool *ret_more);
    /* <once/apply.h>; arguments were checked. NULL: this store has no objects. */
    int (*object_get)(struct once_store *store, struct once_bytes name,
                      struct once_object *ret_object);
    int (*object_read)(struct once_store *store, struct once_bytes name, uint64_t cursor,
                       size_t count, void (*each)(void *user, const struct once_object_item *item),
                       void *user, uint64_t *ret_cursor, bool *ret_more);
    int (*object_list)(struct once_store *store, uint64_t cursor, size_t count,
                       void (*each)(void *user, struct once_bytes name, enum once_object_type type),
                       void *user, uint64_t *ret_cursor);
    int (*object_delta)(struct once_store *store, struct once_bytes name, uint64_t since,
                        struct once_buf *out, uint64_t *ret_version);
    int (*changes)(struct once_store *store, struct once_changes_cursor *cursor, size_t size_max,
                   struct once_buf *out, bool *ret_more);
    void (*stats)(struct once_store *store, struct once_stats *ret_stats);
    int (*close)(struct once_store *store);
};

/* An implementation puts this first. */
struct once_store {
    const struct once__store_ops *ops;
};

#endif
