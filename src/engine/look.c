/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects as others see them. Only durable facts are shown (INV-2): what was looked at is copied,
 * and handed out when the last change of any object is durable.
 */
#include "engine/inner.h"

#include <stdlib.h>
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

static int copy_object(const struct once__object *object, struct once_object *ret_object)
{
    struct once_object copy = {.type = once__object_type(object), .present = true};
    struct once__register reg;
    struct once_bytes state = {NULL, 0};
    struct once_buf json;
    uint8_t *memory;
    int err;

    if (once_object_mergeable(copy.type)) {
        state = once__object_state(object);
        copy.version = once__object_version(object);
    } else if (copy.type == ONCE_OBJECT_REGISTER) {
        reg = once__object_register(object);
        state = reg.value;
        copy.version = reg.version;
        copy.present = reg.present;
    } else if (copy.type == ONCE_OBJECT_LOG) {
        copy.version = once__object_event_count(object);
    } else if (copy.type == ONCE_OBJECT_OUTBOX) {
        copy.version = once__object_message_total(object);
    }
    once_buf_init(&json, SIZE_MAX / 2);
    err = once__object_view(object, &json);
    memory = err == ONCE_OK ? malloc(json.size + state.size + 1) : NULL;
    if (err == ONCE_OK && !memory)
        err = ONCE_ERR_MEMORY;
    if (err == ONCE_OK) {
        memcpy(memory, json.data, json.size);
        if (state.size > 0)
            memcpy(memory + json.size, state.data, state.size);
        copy.json = (struct once_bytes){memory, json.size};
        copy.state = (struct once_bytes){memory + json.size, state.size};
        copy.memory = memory;
        *ret_object = copy;
    }
    once_buf_release(&json);
    return err;
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
        err = copy_object(object, &copy);
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

/* A page of items, copied: each runs without the lock. Their bytes are in one buffer, in order. */
struct page {
    struct once_object_item *items;
    size_t count;
    struct once_buf bytes;
    uint64_t cursor;
    bool more;
};

static int keep_bytes(struct once_buf *buf, struct once_bytes bytes)
{
    return bytes.size > 0 ? once_buf_append(buf, bytes.data, bytes.size) : ONCE_OK;
}

static int keep_item(struct page *page, const struct once_object_item *item)
{
    int err = keep_bytes(&page->bytes, item->id);

    if (err == ONCE_OK)
        err = keep_bytes(&page->bytes, item->group);
    if (err == ONCE_OK)
        err = keep_bytes(&page->bytes, item->payload);
    if (err == ONCE_OK)
        page->items[page->count++] = *item;
    return err;
}

static const uint8_t *point_at(const uint8_t *at, struct once_bytes *bytes)
{
    bytes->data = bytes->size > 0 ? at : NULL;
    return at + bytes->size;
}

static void show_page(struct page *page, void (*each)(void *, const struct once_object_item *),
                      void *user)
{
    static const uint8_t nothing[1];
    const uint8_t *at = page->bytes.data ? page->bytes.data : nothing;

    for (size_t i = 0; i < page->count; i++) {
        struct once_object_item *item = &page->items[i];

        at = point_at(at, &item->id);
        at = point_at(at, &item->group);
        at = point_at(at, &item->payload);
        each(user, item);
    }
}

/* Items are handed out in pages of about this many bytes. */
enum { PAGE_SIZE = 1 << 20 };

static int gather(const struct once__object *object, uint64_t cursor, size_t count,
                  struct page *page)
{
    enum once_object_type type = once__object_type(object);
    struct once_object_item item;
    int err = ONCE_OK;

    page->cursor = cursor;
    while (err == ONCE_OK) {
        if (type == ONCE_OBJECT_LOG) {
            if (page->cursor >= once__object_event_count(object))
                return ONCE_OK;
            item = once__object_event(object, page->cursor + 1);
        } else if (type == ONCE_OBJECT_BUCKETS) {
            if (page->cursor >= once__object_bucket_count(object))
                return ONCE_OK;
            item = once__object_bucket_at(object, page->cursor);
        } else if (type == ONCE_OBJECT_OUTBOX) {
            if (!once__object_message_after(object, page->cursor, &item))
                return ONCE_OK;
        } else {
            return ONCE_ERR_OBJECT_TYPE;
        }
        if (page->count == count || page->bytes.size >= PAGE_SIZE) {
            page->more = true;
            return ONCE_OK;
        }
        err = keep_item(page, &item);
        page->cursor = type == ONCE_OBJECT_BUCKETS ? page->cursor + 1 : item.number;
    }
    return err;
}

int once__engine_object_read(struct once_store *store, struct once_bytes name, uint64_t cursor,
                             size_t count,
                             void (*each)(void *user, const struct once_object_item *item),
                             void *user, uint64_t *ret_cursor, bool *ret_more)
{
    struct once__engine *engine = once__engine_of(store);
    struct page page = {.cursor = cursor};
    const struct once__object *object;
    int err;

    once_buf_init(&page.bytes, SIZE_MAX / 2);
    page.items = malloc(count * sizeof(*page.items));
    if (!page.items)
        return ONCE_ERR_MEMORY;
    pthread_mutex_lock(&engine->lock);
    object = once__objects_find(engine->objects.table, name);
    err = object ? gather(object, cursor, count, &page) : ONCE_OK;
    err = settle_answer(engine, err);
    pthread_mutex_unlock(&engine->lock);
    if (err == ONCE_OK)
        show_page(&page, each, user);
    free(page.items);
    once_buf_release(&page.bytes);
    if (err == ONCE_OK) {
        *ret_cursor = page.cursor;
        *ret_more = page.more;
    }
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
