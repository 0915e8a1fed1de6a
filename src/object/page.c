/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of objects and of what is inside them, for who looks. Knows no lock, no log and no time.
 */
#include "object/page.h"

#include <stdlib.h>
#include <string.h>

int once__object_copy(const struct once__object *object, struct once_object *ret_object)
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

/* ---- Reading what is inside ------------------------------------------------------------------ */

int once__page_init(struct once__page *page, uint64_t cursor, size_t count)
{
    struct once_object_item *items = malloc(count * sizeof(*items));

    if (!items)
        return ONCE_ERR_MEMORY;
    *page = (struct once__page){.items = items, .count_max = count, .cursor = cursor};
    once_buf_init(&page->bytes, SIZE_MAX / 2);
    return ONCE_OK;
}

void once__page_release(struct once__page *page)
{
    free(page->items);
    page->items = NULL;
    once_buf_release(&page->bytes);
}

static int keep_bytes(struct once_buf *buf, struct once_bytes bytes)
{
    return bytes.size > 0 ? once_buf_append(buf, bytes.data, bytes.size) : ONCE_OK;
}

static int keep_item(struct once__page *page, const struct once_object_item *item)
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

void once__page_show(struct once__page *page, void (*each)(void *, const struct once_object_item *),
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

int once__page_gather(struct once__page *page, const struct once__object *object)
{
    enum once_object_type type = once__object_type(object);
    struct once_object_item item;
    int err = ONCE_OK;

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
        if (page->count == page->count_max || page->bytes.size >= PAGE_SIZE) {
            page->more = true;
            return ONCE_OK;
        }
        err = keep_item(page, &item);
        page->cursor = type == ONCE_OBJECT_BUCKETS ? page->cursor + 1 : item.number;
    }
    return err;
}
