/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects as others see them. Only durable facts are shown (INV-2): what was looked at is copied,
 * and handed out when the last change of any object is durable.
 */
#include "engine/inner.h"

#include "object/page.h"

#include <string.h>

/* With the lock: waits for what was seen so far. */
static int settle(struct once__engine *engine, uint64_t position)
{
    if (engine->log.failed != ONCE_OK)
        return ONCE_ERR_STOPPED;
    if (engine->options.durability != ONCE_LOSES_NOTHING || ONCE__MUTANT(EDITS_BEFORE_LOG))
        return ONCE_OK;
    return once__commit_wait(engine, position);
}

/* What the answer is when everything that it tells is durable: that an object is of another type,
 * or not there, is told as well. */
static int settle_answer(struct once__engine *engine, int answer)
{
    int err = settle(engine, engine->objects.position);

    return err == ONCE_OK ? answer : err;
}

int once__engine_object_get(struct once_store *store, struct once_bytes name,
                            struct once_object *ret_object)
{
    struct once__engine *engine = once__engine_of(store);
    struct once_object copy = {.type = ONCE_OBJECT_NONE};
    const struct once__object *object;
    int err = ONCE_OK;

    pthread_mutex_lock(&engine->lock);
    object = once__objects_find(engine->objects.table, name);
    if (object)
        err = once__object_copy(object, &copy);
    if (err == ONCE_OK)
        err = settle(engine, engine->objects.position);
    pthread_mutex_unlock(&engine->lock);
    if (err == ONCE_OK)
        *ret_object = copy;
    else
        once_object_release(&copy);
    return err;
}

/* ---- Reading what is inside ------------------------------------------------------------------ */

int once__engine_object_read(struct once_store *store, struct once_bytes name, uint64_t cursor,
                             size_t count,
                             void (*each)(void *user, const struct once_object_item *item),
                             void *user, uint64_t *ret_cursor, bool *ret_more)
{
    struct once__engine *engine = once__engine_of(store);
    const struct once__object *object;
    struct once__page page;
    int err = once__page_init(&page, cursor, count);

    if (err != ONCE_OK)
        return err;
    pthread_mutex_lock(&engine->lock);
    object = once__objects_find(engine->objects.table, name);
    err = object ? once__page_gather(&page, object) : ONCE_OK;
    err = settle_answer(engine, err);
    pthread_mutex_unlock(&engine->lock);
    if (err == ONCE_OK) {
        once__page_show(&page, each, user);
        *ret_cursor = page.cursor;
        *ret_more = page.more;
    }
    once__page_release(&page);
    return err;
}

/* ---- All of them ----------------------------------------------------------------------------- */

int once__engine_object_list(struct once_store *store, uint64_t cursor, size_t count,
                             void (*each)(void *user, struct once_bytes name,
                                          enum once_object_type type),
                             void *user, uint64_t *ret_cursor)
{
    struct once__engine *engine = once__engine_of(store);
    uint64_t next = cursor, objects;
    int err = ONCE_OK;

    pthread_mutex_lock(&engine->lock);
    objects = once__objects_count(engine->objects.table);
    err = settle(engine, engine->objects.position);
    for (; err == ONCE_OK && next < objects && next - cursor < count; next++) {
        const struct once__object *object = once__objects_at(engine->objects.table, next);
        enum once_object_type type = once__object_type(object);
        uint8_t name[ONCE_OBJECT_NAME_SIZE_MAX];
        struct once_bytes bytes = once__object_name(object);

        memcpy(name, bytes.data, bytes.size);
        bytes.data = name;
        pthread_mutex_unlock(&engine->lock);
        each(user, bytes, type);
        pthread_mutex_lock(&engine->lock);
    }
    pthread_mutex_unlock(&engine->lock);
    if (err == ONCE_OK)
        *ret_cursor = next < objects ? next : 0;
    return err;
}

/* ---- Between replicas ------------------------------------------------------------------------ */

/* As settle, but whatever the durability is: what a power cut takes back comes again under the same
 * numbers (of changes, and inside the states: those of a node), so another store that was told of
 * it would take the new ones for those, and never ask for them. */
static int settle_for_others(struct once__engine *engine)
{
    if (engine->log.failed != ONCE_OK)
        return ONCE_ERR_STOPPED;
    if (ONCE__MUTANT(EDITS_BEFORE_LOG))
        return ONCE_OK;
    return once__commit_wait_synced(engine, engine->objects.position);
}

int once__engine_object_delta(struct once_store *store, struct once_bytes name, uint64_t since,
                              struct once_buf *out, uint64_t *ret_version)
{
    struct once__engine *engine = once__engine_of(store);
    const struct once__object *object;
    uint64_t version = 0;
    size_t size = out->size;
    int err;

    pthread_mutex_lock(&engine->lock);
    object = once__objects_find(engine->objects.table, name);
    if (!object)
        err = ONCE_ERR_NO_OBJECT;
    else if (!once_object_mergeable(once__object_type(object)))
        err = ONCE_ERR_OBJECT_TYPE;
    else
        err = once__feed_delta(engine->objects.table, engine->objects.recent, object,
                               since <= engine->objects.change ? since : 0, out);
    if (err == ONCE_OK) {
        version = once__object_version(object);
        err = settle_for_others(engine);
    } else {
        err = settle_answer(engine, err);
    }
    pthread_mutex_unlock(&engine->lock);
    if (err == ONCE_OK)
        *ret_version = version;
    else
        out->size = size;
    return err;
}

int once__engine_changes(struct once_store *store, struct once_changes_cursor *cursor,
                         size_t size_max, struct once_buf *out, bool *ret_more)
{
    struct once__engine *engine = once__engine_of(store);
    struct once_changes_cursor next = *cursor;
    size_t size = out->size;
    bool more = false;
    int err;

    _Static_assert(sizeof(next.store_id) == ONCE__STORE_ID_SIZE, "a store's id");
    if (memcmp(next.store_id, engine->file.id, sizeof(next.store_id)) != 0) {
        next = (struct once_changes_cursor){.since = 0}; /* of another store, or new */
        memcpy(next.store_id, engine->file.id, sizeof(next.store_id));
    }
    pthread_mutex_lock(&engine->lock);
    err = once__feed_changes(engine->objects.table, engine->objects.recent, engine->objects.change,
                             &next, size_max, out, &more);
    if (err == ONCE_OK)
        err = settle_for_others(engine);
    pthread_mutex_unlock(&engine->lock);
    if (err == ONCE_OK) {
        *cursor = next;
        *ret_more = more;
    } else {
        out->size = size;
    }
    return err;
}
