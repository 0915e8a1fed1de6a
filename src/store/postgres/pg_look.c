/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects as others see them. A row is read whole, made an object again in a table of its own, and
 * shown as the engine shows one (object/page.h). Only durable facts are shown (INV-2): once__pg_ask
 * answers when what it saw is durable.
 *
 * A shared store remembers no deltas: who asks for what is new is given the whole state, which
 * holds it. Decides nothing and holds no row.
 */
#include "store/postgres/pg_apply.h"

#include "object/page.h"
#include "store/postgres/pg_group.h"

#include <inttypes.h>
#include <stdio.h>

enum { NUMBER_TEXT_SIZE = 24 };

/* An object that was read. */
struct sight {
    struct once__objects *objects;
    const struct once__object *object; /* NULL: there is none */
};

static void sight_release(struct sight *sight)
{
    once__objects_free(sight->objects);
}

static int make_object(const PGresult *result, struct once_bytes name, struct sight *sight)
{
    static const uint8_t secret[ONCE__OBJECT_SECRET_SIZE]; /* one name floods nothing */
    int err;

    if (PQntuples(result) == 0)
        return ONCE_OK;
    if (PQntuples(result) != 1 || PQnfields(result) != 3)
        return ONCE_ERR_DAMAGED;
    err = once__objects_new(secret, &sight->objects);
    if (err == ONCE_OK)
        err = once__pg_body_load(sight->objects, name, once__pg_get_bytes(result, 0, 2));
    if (err == ONCE_OK)
        sight->object = once__objects_find(sight->objects, name);
    return err == ONCE_OK && !sight->object ? ONCE_ERR_DAMAGED : err;
}

/* Release the sight also on failure. */
static int see(struct once_store *store, struct once_bytes name, struct sight *ret_sight)
{
    const char *values[1] = {(const char *)name.data};
    const int sizes[1] = {(int)name.size}, formats[1] = {1};
    PGresult *result = NULL;
    int err;

    *ret_sight = (struct sight){.objects = NULL};
    err = once__pg_ask(store, "SELECT * FROM once.object_get($1::text)", 1, values, sizes, formats,
                       &result);
    if (err == ONCE_OK)
        err = make_object(result, name, ret_sight);
    PQclear(result);
    return err;
}

int once__pg_object_get(struct once_store *store, struct once_bytes name,
                        struct once_object *ret_object)
{
    struct once_object copy = {.type = ONCE_OBJECT_NONE};
    struct sight sight;
    int err = see(store, name, &sight);

    if (err == ONCE_OK && sight.object)
        err = once__object_copy(sight.object, &copy);
    if (err == ONCE_OK)
        *ret_object = copy;
    sight_release(&sight);
    return err;
}

int once__pg_object_read(struct once_store *store, struct once_bytes name, uint64_t cursor,
                         size_t count,
                         void (*each)(void *user, const struct once_object_item *item), void *user,
                         uint64_t *ret_cursor, bool *ret_more)
{
    struct once__page page;
    struct sight sight;
    int err = once__page_init(&page, cursor, count);

    if (err != ONCE_OK)
        return err;
    err = see(store, name, &sight);
    if (err == ONCE_OK && sight.object)
        err = once__page_gather(&page, sight.object);
    sight_release(&sight);
    if (err == ONCE_OK) {
        once__page_show(&page, each, user);
        *ret_cursor = page.cursor;
        *ret_more = page.more;
    }
    once__page_release(&page);
    return err;
}

int once__pg_object_delta(struct once_store *store, struct once_bytes name, uint64_t since,
                          struct once_buf *out, uint64_t *ret_version)
{
    struct once_bytes state;
    struct sight sight;
    uint64_t version = 0;
    int err = see(store, name, &sight);

    if (err == ONCE_OK && !sight.object)
        err = ONCE_ERR_NO_OBJECT;
    else if (err == ONCE_OK && !once_object_mergeable(once__object_type(sight.object)))
        err = ONCE_ERR_OBJECT_TYPE;
    if (err == ONCE_OK) {
        version = once__object_version(sight.object);
        state = once__object_state(sight.object);
        if (since != version) /* a later one is of a history that was restored away */
            err = once_buf_append(out, state.data, state.size);
    }
    if (err == ONCE_OK)
        *ret_version = version;
    sight_release(&sight);
    return err;
}

int once__pg_object_list(struct once_store *store, uint64_t cursor, size_t count,
                         void (*each)(void *user, struct once_bytes name,
                                      enum once_object_type type),
                         void *user, uint64_t *ret_cursor)
{
    char after[NUMBER_TEXT_SIZE], most[NUMBER_TEXT_SIZE];
    const char *values[2] = {after, most};
    const int sizes[2] = {0, 0}, formats[2] = {0, 0};
    PGresult *result = NULL;
    int64_t last = 0;
    int rows, err;

    if (cursor > INT64_MAX)
        return ONCE_ERR_INVALID;
    (void)snprintf(after, sizeof(after), "%" PRIu64, cursor);
    (void)snprintf(most, sizeof(most), "%zu", count);
    err = once__pg_ask(store, "SELECT * FROM once.object_list($1::bigint, $2::integer)", 2, values,
                       sizes, formats, &result);
    rows = err == ONCE_OK ? PQntuples(result) : 0;
    if (err == ONCE_OK && PQnfields(result) != 3)
        err = ONCE_ERR_DAMAGED;
    for (int i = 0; err == ONCE_OK && i < rows; i++) {
        int16_t type = 0;

        err = once__pg_get_i64(result, i, 0, &last);
        if (err == ONCE_OK)
            err = once__pg_get_i16(result, i, 2, &type);
        if (err == ONCE_OK)
            each(user, once__pg_get_bytes(result, i, 1), (enum once_object_type)type);
    }
    PQclear(result);
    if (err == ONCE_OK)
        *ret_cursor = (size_t)rows < count ? 0 : (uint64_t)last;
    return err;
}
