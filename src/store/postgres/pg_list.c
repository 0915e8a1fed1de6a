/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists: pages in the order of ids, which stay the same for an operation's life; the cursor is the
 * last id that was looked at. What a page shows is durable (pg_ask.c). Keeps nothing.
 */
#include "store/postgres/pg_inner.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    L_ID,
    L_NS,
    L_KEY,
    L_STATE,
    L_FENCE,
    L_ATTEMPT,
    L_CODE,
    L_CREATED,
    L_LEASE_END,
    L_EXPIRES,
    L_OWNER,
    L_POINT,
    L_COUNT
};

static const char list_sql[] =
    "SELECT id, ns, key, state, fence, attempt, code, created_ms, lease_end_ms, expires_ms, owner,"
    " point FROM once.list($1::bigint, $2::integer, $3::text, $4::smallint)";

static int read_item(const PGresult *result, int row, struct once_item *ret_item)
{
    struct once_item item = {.ns = once__pg_get_bytes(result, row, L_NS),
                             .key = once__pg_get_bytes(result, row, L_KEY),
                             .owner = once__pg_get_bytes(result, row, L_OWNER),
                             .point = once__pg_get_bytes(result, row, L_POINT)};
    int64_t fence;
    int32_t attempt;
    int16_t state;

    if (once__pg_get_i16(result, row, L_STATE, &state) != ONCE_OK || state < ONCE_STATE_STARTED ||
        state > ONCE_STATE_DOUBT || once__pg_get_i64(result, row, L_FENCE, &fence) != ONCE_OK ||
        once__pg_get_i32(result, row, L_ATTEMPT, &attempt) != ONCE_OK ||
        once__pg_get_i32(result, row, L_CODE, &item.code) != ONCE_OK ||
        once__pg_get_i64(result, row, L_CREATED, &item.created_ms) != ONCE_OK ||
        once__pg_get_i64(result, row, L_LEASE_END, &item.lease_end_ms) != ONCE_OK ||
        once__pg_get_i64(result, row, L_EXPIRES, &item.expires_ms) != ONCE_OK)
        return ONCE_ERR_DAMAGED;
    item.state = (enum once_state)state;
    item.fence = (uint64_t)fence;
    item.attempt = (uint32_t)attempt;
    *ret_item = item;
    return ONCE_OK;
}

/* The cursor after this page: full, or looked far enough without finding more, or at the end. */
static int read_cursor(const PGresult *result, size_t count, uint64_t *ret_cursor)
{
    int rows = PQntuples(result);
    int64_t id = 0;
    bool more = rows > 0 && ((size_t)rows >= count || PQgetisnull(result, rows - 1, L_KEY));

    if (PQnfields(result) != L_COUNT)
        return ONCE_ERR_DAMAGED;
    if (more && (once__pg_get_i64(result, rows - 1, L_ID, &id) != ONCE_OK || id < 1))
        return ONCE_ERR_DAMAGED;
    *ret_cursor = (uint64_t)id;
    return ONCE_OK;
}

int once__pg_list(struct once_store *store, const struct once_filter *filter, uint64_t cursor,
                  size_t count, void (*each)(void *user, const struct once_item *item), void *user,
                  uint64_t *ret_cursor)
{
    char after[24], most[24], ns[ONCE_NAMESPACE_SIZE_MAX + 1], state[8];
    const char *values[4] = {after, most, NULL, NULL};
    struct once_item item;
    PGresult *result;
    uint64_t next;
    int err;

    if (cursor > ONCE_FENCE_MAX)
        cursor = ONCE_FENCE_MAX;
    snprintf(after, sizeof(after), "%" PRIu64, cursor);
    snprintf(most, sizeof(most), "%zu", count);
    if (filter->ns.size > 0) {
        snprintf(ns, sizeof(ns), "%.*s", (int)filter->ns.size, (const char *)filter->ns.data);
        values[2] = ns;
    }
    if (filter->by_state) {
        snprintf(state, sizeof(state), "%d", (int)filter->state);
        values[3] = state;
    }
    err = once__pg_ask(store, list_sql, 4, values, NULL, NULL, &result);
    if (err != ONCE_OK)
        return err;
    err = read_cursor(result, count, &next);
    for (int row = 0; err == ONCE_OK && row < PQntuples(result); row++) {
        if (PQgetisnull(result, row, L_KEY))
            continue;
        err = read_item(result, row, &item);
        if (err == ONCE_OK)
            each(user, &item);
    }
    PQclear(result);
    if (err == ONCE_OK)
        *ret_cursor = next;
    return err;
}
