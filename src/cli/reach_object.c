/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects, asked of a server: looking at them and exchanging them.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/reach_server.h"
#include "client/client.h"

/* ---- Looking --------------------------------------------------------------------------------- */

static int copy_object(const struct once__answer_item *answer, struct once_object *object)
{
    const struct once__answer_item *type = once__answer_find(answer, "type");
    const struct once__answer_item *version = once__answer_find(answer, "version");
    const struct once__answer_item *present = once__answer_find(answer, "present");
    const struct once__answer_item *state = once__answer_find(answer, "state");
    const struct once__answer_item *json = once__answer_find(answer, "json");
    uint64_t is_present;
    uint8_t *memory;

    if (!type || !version || !present || !state || !json || !reach_is_type(type, &object->type) ||
        !reach_is_number(version, &object->version) || !reach_is_number(present, &is_present) ||
        !reach_is_bytes(state, &object->state) || !reach_is_bytes(json, &object->json))
        return ONCE_ERR_IO;
    object->present = is_present != 0;
    memory = malloc(object->state.size + object->json.size + 1);
    if (!memory)
        return ONCE_ERR_MEMORY;
    if (object->state.size > 0)
        memcpy(memory, object->state.data, object->state.size);
    if (object->json.size > 0)
        memcpy(memory + object->state.size, object->json.data, object->json.size);
    object->state.data = memory;
    object->json.data = memory + object->state.size;
    object->memory = memory;
    return ONCE_OK;
}

int reach_server_get(struct cli_reach *reach, struct once_bytes name,
                     struct once_object *ret_object)
{
    const struct once_bytes words[] = {once_bytes_of("ONCE.OBJECT"), name};
    const struct once__answer_item *answer;
    struct once_object object = {.type = ONCE_OBJECT_NONE};
    int err = reach_call(reach, words, 2, &answer);

    if (err == ONCE_OK && answer->kind != ONCE__ANSWER_NULL)
        err = copy_object(answer, &object);
    if (err == ONCE_ERR_IO && !reach->message.text[0])
        err = reach_strange(reach);
    if (err == ONCE_OK)
        *ret_object = object;
    return err;
}

static bool is_item(const struct once__answer_item *item, struct once_object_item *ret_item)
{
    return reach_is_list(item, 4) && reach_is_number(&item->items[0], &ret_item->number) &&
           reach_is_bytes(&item->items[1], &ret_item->id) &&
           reach_is_bytes(&item->items[2], &ret_item->group) &&
           reach_is_bytes(&item->items[3], &ret_item->payload);
}

int reach_server_read(struct cli_reach *reach, struct once_bytes name, uint64_t cursor,
                      size_t count, void (*each)(void *user, const struct once_object_item *item),
                      void *user, uint64_t *ret_cursor, bool *ret_more)
{
    struct reach_number after = reach_number(cursor), most = reach_number(count);
    const struct once_bytes words[] = {
        once_bytes_of("ONCE.ITEMS"), name,
        once_bytes_of("AFTER"),      once_bytes_of(after.text),
        once_bytes_of("COUNT"),      once_bytes_of(most.text),
    };
    const struct once__answer_item *answer, *list;
    struct once_object_item item;
    uint64_t next, more;
    int err = reach_call(reach, words, 6, &answer);

    if (err != ONCE_OK)
        return err;
    if (!reach_is_list(answer, 3) || !reach_is_number(&answer->items[0], &next) ||
        !reach_is_number(&answer->items[1], &more) || answer->items[2].kind != ONCE__ANSWER_LIST)
        return reach_strange(reach);
    list = &answer->items[2];
    for (size_t i = 0; i < list->count; i++) {
        if (!is_item(&list->items[i], &item))
            return reach_strange(reach);
        each(user, &item);
    }
    *ret_cursor = next;
    *ret_more = more != 0;
    return ONCE_OK;
}

/* The names of a page, apart from the answer that they came in: the callback may ask the server
 * itself, and that ends the answer. */
struct page {
    struct once_buf names; /* one behind the other */
    size_t count;
    struct page_entry {
        size_t size;
        enum once_object_type type;
    } * entries;
};

static int take_page(const struct once__answer_item *list, struct page *page)
{
    struct once_bytes name;
    int err = ONCE_OK;

    once_buf_init(&page->names, ONCE_ANSWER_SIZE_MAX);
    page->count = list->count;
    page->entries = calloc(list->count + 1, sizeof(page->entries[0]));
    if (!page->entries)
        return ONCE_ERR_MEMORY;
    for (size_t i = 0; i < list->count && err == ONCE_OK; i++) {
        const struct once__answer_item *item = &list->items[i];

        if (!reach_is_list(item, 2) || !reach_is_bytes(&item->items[0], &name) ||
            !reach_is_type(&item->items[1], &page->entries[i].type))
            return ONCE_ERR_IO;
        page->entries[i].size = name.size;
        err = once_buf_append(&page->names, name.data, name.size);
    }
    return err;
}

static void tell_page(const struct page *page,
                      void (*each)(void *user, struct once_bytes name, enum once_object_type type),
                      void *user)
{
    size_t offset = 0;

    for (size_t i = 0; i < page->count; i++) {
        each(user, (struct once_bytes){page->names.data + offset, page->entries[i].size},
             page->entries[i].type);
        offset += page->entries[i].size;
    }
}

int reach_server_list(struct cli_reach *reach, uint64_t cursor, size_t count,
                      void (*each)(void *user, struct once_bytes name, enum once_object_type type),
                      void *user, uint64_t *ret_cursor)
{
    struct reach_number after = reach_number(cursor), most = reach_number(count);
    const struct once_bytes words[] = {
        once_bytes_of("ONCE.OBJECTS"), once_bytes_of("CURSOR"),  once_bytes_of(after.text),
        once_bytes_of("COUNT"),        once_bytes_of(most.text),
    };
    const struct once__answer_item *answer;
    struct page page = {0};
    uint64_t next;
    int err = reach_call(reach, words, 5, &answer);

    if (err != ONCE_OK)
        return err;
    if (!reach_is_list(answer, 2) || !reach_is_number(&answer->items[0], &next) ||
        answer->items[1].kind != ONCE__ANSWER_LIST)
        return reach_strange(reach);
    err = take_page(&answer->items[1], &page);
    if (err == ONCE_ERR_IO)
        err = reach_strange(reach);
    if (err == ONCE_OK) {
        tell_page(&page, each, user);
        *ret_cursor = next;
    }
    once_buf_release(&page.names);
    free(page.entries);
    return err;
}

/* ---- Exchanging ------------------------------------------------------------------------------ */

int reach_server_merge(struct cli_reach *reach, struct once_bytes name, enum once_object_type type,
                       struct once_bytes state, bool *ret_changed)
{
    const struct once_bytes words[] = {once_bytes_of("ONCE.MERGE"), name,
                                       once_bytes_of(once_object_type_name(type)), state};
    const struct once__answer_item *answer;
    uint64_t changed;
    int err = reach_call(reach, words, 4, &answer);

    if (err != ONCE_OK)
        return err;
    if (!reach_is_number(answer, &changed))
        return reach_strange(reach);
    *ret_changed = changed != 0;
    return ONCE_OK;
}

int reach_server_delta(struct cli_reach *reach, struct once_bytes name, uint64_t since,
                       struct once_buf *out, uint64_t *ret_version)
{
    struct reach_number after = reach_number(since);
    const struct once_bytes words[] = {once_bytes_of("ONCE.DELTA"), name,
                                       once_bytes_of(after.text)};
    const struct once__answer_item *answer;
    struct once_bytes delta;
    uint64_t version;
    int err = reach_call(reach, words, 3, &answer);

    if (err != ONCE_OK)
        return err;
    if (!reach_is_list(answer, 2) || !reach_is_number(&answer->items[0], &version) ||
        !reach_is_bytes(&answer->items[1], &delta))
        return reach_strange(reach);
    err = once_buf_append(out, delta.data, delta.size);
    if (err == ONCE_OK)
        *ret_version = version;
    return err;
}

static bool is_cursor(const struct once__answer_item *item, struct once_changes_cursor *ret_cursor)
{
    char text[CLI_CURSOR_SIZE];
    struct once_bytes bytes;

    if (!reach_is_bytes(item, &bytes) || bytes.size >= sizeof(text) || bytes.size == 0)
        return false;
    memcpy(text, bytes.data, bytes.size);
    text[bytes.size] = '\0';
    return cli_cursor_read(text, ret_cursor);
}

int reach_server_changes(struct cli_reach *reach, struct once_changes_cursor *cursor,
                         size_t size_max, struct once_buf *out, bool *ret_more)
{
    static const struct once_changes_cursor start = {.since = 0};
    struct reach_number most = reach_number(size_max);
    char from[CLI_CURSOR_SIZE];
    const struct once_bytes words[] = {
        once_bytes_of("ONCE.CHANGES"),
        once_bytes_of("SIZE"),
        once_bytes_of(most.text),
        once_bytes_of("CURSOR"),
        once_bytes_of(cli_cursor_write(cursor, from)),
    };
    bool begins = memcmp(cursor, &start, sizeof(start)) == 0; /* there is no cursor yet */
    const struct once__answer_item *answer;
    struct once_changes_cursor next;
    struct once_bytes message;
    uint64_t more;
    int err = reach_call(reach, words, begins ? 3 : 5, &answer);

    if (err != ONCE_OK)
        return err;
    if (!reach_is_list(answer, 3) || !is_cursor(&answer->items[0], &next) ||
        !reach_is_number(&answer->items[1], &more) || !reach_is_bytes(&answer->items[2], &message))
        return reach_strange(reach);
    err = once_buf_append(out, message.data, message.size);
    if (err != ONCE_OK)
        return err;
    *cursor = next;
    *ret_more = more != 0;
    return ONCE_OK;
}

int reach_server_changes_merge(struct cli_reach *reach, struct once_bytes message,
                               size_t *ret_count)
{
    const struct once_bytes words[] = {once_bytes_of("ONCE.CHANGES.MERGE"), message};
    const struct once__answer_item *answer;
    uint64_t count;
    int err = reach_call(reach, words, 2, &answer);

    if (err != ONCE_OK)
        return err;
    if (!reach_is_number(answer, &count))
        return reach_strange(reach);
    *ret_count = (size_t)count;
    return ONCE_OK;
}
