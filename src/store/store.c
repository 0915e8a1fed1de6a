/* SPDX-License-Identifier: Apache-2.0
 *
 * The public calls of <once/store.h>, for every store: each fills a struct once_op and hands it to
 * the store behind the handle. This file checks the pointers that a store could not work with; what
 * the operations say is checked in call.c, for the blocking, the batched and the submitted form
 * alike. It decides nothing, keeps nothing and takes no lock.
 *
 * once_open and once_backup belong to the embedded engine and live there.
 */
#include "store/store.h"

#include <once/key.h>

#include <stdlib.h>

void once_reply_release(struct once_reply *reply)
{
    if (!reply)
        return;
    free(reply->memory);
    *reply = (struct once_reply){.err = ONCE_OK};
}

int once_close(struct once_store *store)
{
    return store ? store->ops->close(store) : ONCE_OK;
}

int once_call(struct once_store *store, struct once_op *ops, size_t count)
{
    if (!ops && count > 0)
        return ONCE_ERR_INVALID;
    if (!store) {
        for (size_t i = 0; i < count; i++)
            ops[i].reply = (struct once_reply){.err = ONCE_ERR_INVALID, .what = "no store"};
        return ONCE_ERR_INVALID;
    }
    if (count == 0)
        return ONCE_OK;
    store->ops->call(store, ops, count);
    for (size_t i = 0; i < count; i++) {
        if (ops[i].reply.err != ONCE_OK)
            return ops[i].reply.err;
    }
    return ONCE_OK;
}

int once_submit(struct once_store *store, struct once_op *op)
{
    size_t taken;

    return once_submit_many(store, &op, 1, &taken);
}

static int submit(struct once_store *store, struct once_op *const *ops, size_t count, bool here,
                  size_t *ret_taken)
{
    if (!store || !ret_taken || (!ops && count > 0))
        return ONCE_ERR_INVALID;
    *ret_taken = 0;
    for (size_t i = 0; i < count; i++) {
        if (!ops[i] || !ops[i]->told)
            return ONCE_ERR_INVALID;
    }
    return count > 0 ? store->ops->submit(store, ops, count, here, ret_taken) : ONCE_OK;
}

int once_submit_many(struct once_store *store, struct once_op *const *ops, size_t count,
                     size_t *ret_taken)
{
    return submit(store, ops, count, false, ret_taken);
}

int once_submit_here(struct once_store *store, struct once_op *const *ops, size_t count,
                     size_t *ret_taken)
{
    return submit(store, ops, count, true, ret_taken);
}

struct once_name once_name_of(const char *ns, const char *key)
{
    return (struct once_name){.ns = once_bytes_of(ns), .key = once_bytes_of(key)};
}

/* One operation, waited for. Nobody could be told without ret_reply, so nothing is done then. */
static int call_one(struct once_store *store, struct once_name name, struct once_op *op,
                    struct once_reply *ret_reply)
{
    int err;

    if (!ret_reply)
        return ONCE_ERR_INVALID;
    op->ns = name.ns;
    op->key = name.key;
    err = once_call(store, op, 1);
    *ret_reply = op->reply; /* the memory behind it moves too */
    return err;
}

int once_begin(struct once_store *store, struct once_name name,
               const struct once_begin_options *options, struct once_reply *ret_reply)
{
    struct once_op op = {.call = ONCE_CALL_BEGIN};

    if (options) {
        op.fingerprint = options->fingerprint;
        op.owner = options->owner;
        op.ttl_ms = options->ttl_ms;
        op.lease_ms = options->lease_ms;
        op.on_doubt = options->on_doubt;
    }
    return call_one(store, name, &op, ret_reply);
}

int once_complete(struct once_store *store, struct once_name name, uint64_t fence, int32_t code,
                  struct once_bytes result, struct once_reply *ret_reply)
{
    struct once_op op = {
        .call = ONCE_CALL_COMPLETE, .fence = fence, .code = code, .result = result};

    return call_one(store, name, &op, ret_reply);
}

int once_fail(struct once_store *store, struct once_name name, uint64_t fence,
              struct once_bytes reason, struct once_reply *ret_reply)
{
    struct once_op op = {.call = ONCE_CALL_FAIL, .fence = fence, .result = reason};

    return call_one(store, name, &op, ret_reply);
}

int once_checkpoint(struct once_store *store, struct once_name name, uint64_t fence,
                    struct once_bytes point, struct once_bytes data, const struct once_bytes *after,
                    struct once_reply *ret_reply)
{
    struct once_op op = {
        .call = ONCE_CALL_CHECKPOINT, .fence = fence, .point = point, .data = data};

    if (after) {
        op.follows = true;
        op.after = *after;
    }
    return call_one(store, name, &op, ret_reply);
}

int once_renew(struct once_store *store, struct once_name name, uint64_t fence, once_ms lease_ms,
               struct once_reply *ret_reply)
{
    struct once_op op = {.call = ONCE_CALL_RENEW, .fence = fence, .lease_ms = lease_ms};

    return call_one(store, name, &op, ret_reply);
}

int once_resolve_done(struct once_store *store, struct once_name name, uint64_t fence, int32_t code,
                      struct once_bytes result, struct once_reply *ret_reply)
{
    struct once_op op = {
        .call = ONCE_CALL_RESOLVE, .fence = fence, .done = true, .code = code, .result = result};

    return call_one(store, name, &op, ret_reply);
}

int once_resolve_not_done(struct once_store *store, struct once_name name, uint64_t fence,
                          struct once_reply *ret_reply)
{
    struct once_op op = {.call = ONCE_CALL_RESOLVE, .fence = fence};

    return call_one(store, name, &op, ret_reply);
}

int once_forget(struct once_store *store, struct once_name name, uint64_t fence,
                struct once_reply *ret_reply)
{
    struct once_op op = {.call = ONCE_CALL_FORGET, .fence = fence};

    return call_one(store, name, &op, ret_reply);
}

int once_get(struct once_store *store, struct once_name name, struct once_reply *ret_reply)
{
    struct once_op op = {.call = ONCE_CALL_GET};

    return call_one(store, name, &op, ret_reply);
}

/* A state that nothing is in, or a namespace that no store takes, would silently list nothing. */
static int filter_check(const struct once_filter *filter)
{
    if (filter->by_state &&
        (filter->state < ONCE_STATE_STARTED || filter->state > ONCE_STATE_DOUBT))
        return ONCE_ERR_INVALID;
    if (filter->ns.size == 0)
        return ONCE_OK;
    return once_namespace_check(filter->ns, NULL);
}

int once_list(struct once_store *store, const struct once_filter *filter, uint64_t cursor,
              size_t count, void (*each)(void *user, const struct once_item *item), void *user,
              uint64_t *ret_cursor)
{
    static const struct once_filter everything;
    int err;

    if (!store || !each || !ret_cursor || count < 1 || count > ONCE_LIST_COUNT_MAX)
        return ONCE_ERR_INVALID;
    if (!filter)
        filter = &everything;
    err = filter_check(filter);
    if (err != ONCE_OK)
        return err;
    return store->ops->list(store, filter, cursor, count, each, user, ret_cursor);
}

int once_history(struct once_store *store, struct once_name name, size_t count,
                 void (*each)(void *user, const struct once_past *past), void *user,
                 bool *ret_found, bool *ret_more)
{
    int err;

    if (!store || !each || !ret_found || !ret_more || count < 1 || count > ONCE_LIST_COUNT_MAX)
        return ONCE_ERR_INVALID;
    err = once_namespace_check(name.ns, NULL);
    if (err == ONCE_OK)
        err = once_key_check(name.key, NULL);
    if (err != ONCE_OK)
        return err;
    if (!store->ops->history)
        return ONCE_ERR_UNSUPPORTED;
    return store->ops->history(store, name, count, each, user, ret_found, ret_more);
}

void once_stats_get(struct once_store *store, struct once_stats *ret_stats)
{
    if (!ret_stats)
        return;
    *ret_stats = (struct once_stats){0};
    if (store)
        store->ops->stats(store, ret_stats);
}
