/* SPDX-License-Identifier: Apache-2.0
 *
 * The public calls of <once/apply.h>, for every store: applies and merges become operations, the
 * rest goes to the store behind the handle. Decides nothing and keeps nothing.
 */
#include "store/store.h"

#include "base/bytes.h"
#include "object/object.h"

#include <once/key.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int once_apply(struct once_store *store, struct once_name name,
               const struct once_apply_options *options, const struct once_do *dos, size_t count,
               struct once_reply *ret_reply)
{
    struct once_op op = {
        .call = ONCE_CALL_APPLY, .ns = name.ns, .key = name.key, .dos = dos, .do_count = count};
    int err;

    if (!ret_reply)
        return ONCE_ERR_INVALID;
    if (options) {
        op.fingerprint = options->fingerprint;
        op.ttl_ms = options->ttl_ms;
    }
    err = once_call(store, &op, 1);
    *ret_reply = op.reply; /* the memory behind it moves too */
    return err;
}

/* ---- Objects --------------------------------------------------------------------------------- */

void once_object_release(struct once_object *object)
{
    if (!object)
        return;
    free(object->memory);
    *object = (struct once_object){.type = ONCE_OBJECT_NONE};
}

static int check(const struct once_store *store, struct once_bytes name)
{
    if (!store)
        return ONCE_ERR_INVALID;
    if (!store->ops->object_get)
        return ONCE_ERR_UNSUPPORTED;
    return once_key_check(name, NULL) == ONCE_OK ? ONCE_OK : ONCE_ERR_INVALID;
}

int once_object_get(struct once_store *store, struct once_bytes name,
                    struct once_object *ret_object)
{
    int err = ret_object ? check(store, name) : ONCE_ERR_INVALID;

    return err == ONCE_OK ? store->ops->object_get(store, name, ret_object) : err;
}

int once_object_read(struct once_store *store, struct once_bytes name, uint64_t cursor,
                     size_t count, void (*each)(void *user, const struct once_object_item *item),
                     void *user, uint64_t *ret_cursor, bool *ret_more)
{
    int err = check(store, name);

    if (!each || !ret_cursor || !ret_more || count < 1 || count > ONCE_LIST_COUNT_MAX)
        return ONCE_ERR_INVALID;
    if (err != ONCE_OK)
        return err;
    return store->ops->object_read(store, name, cursor, count, each, user, ret_cursor, ret_more);
}

int once_object_list(struct once_store *store, uint64_t cursor, size_t count,
                     void (*each)(void *user, struct once_bytes name, enum once_object_type type),
                     void *user, uint64_t *ret_cursor)
{
    if (!store || !each || !ret_cursor || count < 1 || count > ONCE_LIST_COUNT_MAX)
        return ONCE_ERR_INVALID;
    if (!store->ops->object_list)
        return ONCE_ERR_UNSUPPORTED;
    return store->ops->object_list(store, cursor, count, each, user, ret_cursor);
}

/* ---- Between replicas ------------------------------------------------------------------------ */

static bool was_news(const struct once_reply *reply)
{
    struct once_result result;
    size_t offset = 0;

    return reply->word == ONCE_APPLIED && once_results_next(reply->result, &offset, &result) == 1 &&
           result.is_number && result.number == 1;
}

int once_object_merge(struct once_store *store, struct once_bytes name, struct once_bytes state,
                      bool *ret_changed)
{
    struct once_op op = {.call = ONCE_CALL_MERGE, .key = name, .data = state};
    int err = check(store, name);

    if (err != ONCE_OK)
        return err;
    err = once_call(store, &op, 1);
    if (err == ONCE_OK && ret_changed)
        *ret_changed = was_news(&op.reply);
    once_reply_release(&op.reply);
    return err;
}

int once_object_delta(struct once_store *store, struct once_bytes name, uint64_t since,
                      struct once_buf *out, uint64_t *ret_version)
{
    int err = check(store, name);

    if (!out || !ret_version)
        return ONCE_ERR_INVALID;
    return err == ONCE_OK ? store->ops->object_delta(store, name, since, out, ret_version) : err;
}

int once_changes(struct once_store *store, struct once_changes_cursor *cursor, size_t size_max,
                 struct once_buf *out, bool *ret_more)
{
    if (!store || !cursor || !out || !ret_more || size_max == 0)
        return ONCE_ERR_INVALID;
    if (!store->ops->changes)
        return ONCE_ERR_UNSUPPORTED;
    return store->ops->changes(store, cursor, size_max, out, ret_more);
}

/* Merges some at a time: they share durable writes. */
enum { MERGES_AT_ONCE = 256 };

/* An error that concerns one object, and keeps no other from being merged: or one that is at its
 * bound would hold up everything behind it for ever. The larger answer is told of two. */
static int rank(int err)
{
    if (err == ONCE_OK)
        return 0;
    if (err == ONCE_ERR_OBJECT_TYPE)
        return 1;
    return err == ONCE_ERR_FULL || err == ONCE_ERR_TOO_LARGE ? 2 : 3;
}

static int worse(int a, int b)
{
    return rank(b) > rank(a) ? b : a;
}

static int merge_some(struct once_store *store, struct once_op *ops, size_t count,
                      size_t *news_count)
{
    int result = ONCE_OK;

    (void)once_call(store, ops, count); /* each has its own answer */
    for (size_t i = 0; i < count; i++) {
        int err = ops[i].reply.err;

        result = worse(result, err);
        *news_count += err == ONCE_OK && was_news(&ops[i].reply) ? 1 : 0;
        once_reply_release(&ops[i].reply);
    }
    return result;
}

int once_changes_merge(struct once_store *store, struct once_bytes message, size_t *ret_count)
{
    struct once_op *ops;
    struct once_defect defect;
    size_t offset = 0, news_count = 0;
    int more = 1, left_out = ONCE_OK, err;

    if (!store)
        return ONCE_ERR_INVALID;
    if (!store->ops->changes)
        return ONCE_ERR_UNSUPPORTED;
    err = once__feed_check(message, &defect);
    if (err != ONCE_OK)
        return err;
    ops = malloc(MERGES_AT_ONCE * sizeof(*ops));
    if (!ops)
        return ONCE_ERR_MEMORY;
    while (err == ONCE_OK && more == 1) {
        size_t count = 0;

        while (count < MERGES_AT_ONCE) {
            struct once_op op = {.call = ONCE_CALL_MERGE};

            more = once__feed_next(message, &offset, &op.key, &op.data);
            if (more != 1)
                break;
            ops[count++] = op;
        }
        err = more < 0 ? more : ONCE_OK;
        if (err == ONCE_OK)
            err = merge_some(store, ops, count, &news_count);
        if (err != ONCE_OK && rank(err) < 3) {
            left_out = worse(left_out, err);
            err = ONCE_OK;
        }
    }
    free(ops);
    if (err != ONCE_OK)
        return err;
    if (ret_count)
        *ret_count = news_count;
    return left_out;
}

/* ---- Leases ---------------------------------------------------------------------------------- */

/* A number as a word. */
struct number_word {
    char text[24];
    struct once_bytes bytes;
};

static struct once_bytes word_of(uint64_t number, struct number_word *memory)
{
    int size = snprintf(memory->text, sizeof(memory->text), "%" PRIu64, number);

    return (struct once_bytes){(const uint8_t *)memory->text, (size_t)size};
}

static int ask(struct once_store *store, struct once_name request, const struct once_do *effect,
               struct once_lease *ret_lease)
{
    struct once_reply reply = {.err = ONCE_OK};
    struct once_lease lease = {.word = ONCE_REJECTED};
    struct once_result result;
    size_t offset = 0;
    int err = once_apply(store, request, NULL, effect, 1, &reply);

    if (err == ONCE_OK) {
        bool applied = reply.word == ONCE_APPLIED ||
                       (reply.word == ONCE_REPLAY && reply.code == ONCE_CODE_APPLIED);

        lease.word = reply.word == ONCE_REPLAY ? (applied ? ONCE_APPLIED : ONCE_REJECTED)
                                               : reply.word;
        if (applied && once_results_next(reply.result, &offset, &result) == 1 && result.is_number)
            lease.token = (uint64_t)result.number;
        *ret_lease = lease;
    }
    once_reply_release(&reply);
    return err;
}

int once_lease_grant(struct once_store *store, struct once_name request, struct once_bytes lease,
                     struct once_bytes owner, once_ms lease_ms, struct once_lease *ret_lease)
{
    struct number_word ms;
    struct once_bytes words[] = {once_bytes_of("LEASE"), lease, owner,
                                 word_of(lease_ms > 0 ? (uint64_t)lease_ms : 0, &ms)};
    struct once_do effect = {words, 4};

    if (!ret_lease || request.key.size == 0)
        return ONCE_ERR_INVALID;
    return ask(store, request, &effect, ret_lease);
}

int once_lease_renew(struct once_store *store, struct once_bytes lease, uint64_t token,
                     once_ms lease_ms, struct once_lease *ret_lease)
{
    struct number_word number, ms;
    struct once_bytes words[] = {once_bytes_of("RENEW"), lease, word_of(token, &number),
                                 word_of(lease_ms > 0 ? (uint64_t)lease_ms : 0, &ms)};
    struct once_do effect = {words, 4};
    struct once_name nobody = {{NULL, 0}, {NULL, 0}};

    return ret_lease ? ask(store, nobody, &effect, ret_lease) : ONCE_ERR_INVALID;
}

int once_lease_release(struct once_store *store, struct once_bytes lease, uint64_t token,
                       struct once_lease *ret_lease)
{
    struct number_word number;
    struct once_bytes words[] = {once_bytes_of("RELEASE"), lease, word_of(token, &number)};
    struct once_do effect = {words, 3};
    struct once_name nobody = {{NULL, 0}, {NULL, 0}};

    return ret_lease ? ask(store, nobody, &effect, ret_lease) : ONCE_ERR_INVALID;
}
