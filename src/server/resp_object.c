/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at objects: one, the names of all, and what is inside of a log, an outbox or buckets.
 */
#include "server/resp_commands.h"
#include "server/resp_look.h"
#include "server/resp_option.h"

#include <string.h>

enum { COUNT_DEFAULT = 100 };

static const struct once_bytes every = {NULL, 0};

/* ---- One ------------------------------------------------------------------------------------- */

struct object {
    struct once__look look;
    struct once_object object;
};

static void drop_object(struct once__look *look)
{
    once_object_release(&((struct object *)look)->object);
}

static void run_object(struct once__job *job)
{
    struct object *state = once__look_of(job);

    state->look.err = once_object_get(state->look.store, once__look_request(job)->args[1],
                                      &state->object);
}

enum once__next once__resp_object(struct once__request *request, struct once__out *out)
{
    struct object *state;

    if (!once__look_at_object(request, out, request->args[1], false))
        return ONCE__ANSWERED;
    state = once__look_new(request, out, sizeof(*state), run_object);
    if (!state)
        return ONCE__ANSWERED;
    state->look.drop = drop_object;
    return ONCE__JOB;
}

void once__resp_object_finish(struct once__request *request, struct once__out *out)
{
    const struct object *state = request->state;
    const struct once_object *object = &state->object;
    bool has_state = once_object_mergeable(object->type) ||
                     (object->type == ONCE_OBJECT_REGISTER && object->present);

    if (once__look_failed(&state->look, out))
        return;
    if (object->type == ONCE_OBJECT_NONE) {
        once__out_null(out);
        return;
    }
    once__out_map(out, 6);
    once__out_text(out, "name");
    once__out_bulk(out, request->args[1]);
    once__out_text(out, "type");
    once__out_text(out, once_object_type_name(object->type));
    once__out_text(out, "version");
    once__out_integer(out, (int64_t)object->version);
    once__out_text(out, "present");
    once__out_integer(out, object->present ? 1 : 0);
    once__out_text(out, "state");
    if (has_state)
        once__out_bulk(out, object->state);
    else
        once__out_null(out);
    once__out_text(out, "json");
    once__out_bulk(out, object->json);
}

/* ---- All ------------------------------------------------------------------------------------- */

struct objects {
    struct once__look look;
    uint64_t cursor;
    size_t count;
};

enum { CURSOR, COUNT, PAGE_OPTIONS };
static const struct once__option objects_options[PAGE_OPTIONS] = {
    [CURSOR] = {"CURSOR", ONCE__OPTION_BYTES, "a cursor", 1, 20, NULL},
    [COUNT] = {"COUNT", ONCE__OPTION_NUMBER, "a number", 1, ONCE_LIST_COUNT_MAX, NULL},
};
static const struct once__option items_options[PAGE_OPTIONS] = {
    [CURSOR] = {"AFTER", ONCE__OPTION_BYTES, "a cursor", 1, 20, NULL},
    [COUNT] = {"COUNT", ONCE__OPTION_NUMBER, "a number", 1, ONCE_LIST_COUNT_MAX, NULL},
};

/* Reads where a page begins and how long it is. False: answered. */
static bool read_page(const struct once__request *request, struct once__out *out, size_t at,
                      const struct once__option *options, uint64_t *ret_cursor, size_t *ret_count)
{
    struct once__option_value values[PAGE_OPTIONS];
    size_t end;

    memset(values, 0, sizeof(values));
    *ret_cursor = 0;
    *ret_count = COUNT_DEFAULT;
    if (!once__options_read(request, out, at, NULL, options, PAGE_OPTIONS, values, &end))
        return false;
    if (values[COUNT].given)
        *ret_count = (size_t)values[COUNT].number;
    return !values[CURSOR].given ||
           once__cursor_read(request, out, values[CURSOR].bytes, ret_cursor);
}

static void add_name(void *user, struct once_bytes name, enum once_object_type type)
{
    struct objects *state = user;
    struct once__out *out = &state->look.list;

    state->look.count++;
    once__out_array(out, 2);
    once__out_bulk(out, name);
    once__out_text(out, once_object_type_name(type));
}

static void run_objects(struct once__job *job)
{
    struct objects *state = once__look_of(job);

    state->look.err = once_object_list(state->look.store, state->cursor, state->count, add_name,
                                       state, &state->cursor);
}

enum once__next once__resp_objects(struct once__request *request, struct once__out *out)
{
    struct objects *state;
    uint64_t cursor;
    size_t count;

    if (!read_page(request, out, 1, objects_options, &cursor, &count) ||
        !once__look_at_object(request, out, every, false))
        return ONCE__ANSWERED;
    state = once__look_new(request, out, sizeof(*state), run_objects);
    if (!state)
        return ONCE__ANSWERED;
    state->cursor = cursor;
    state->count = count;
    return ONCE__JOB;
}

void once__resp_objects_finish(struct once__request *request, struct once__out *out)
{
    const struct objects *state = request->state;

    if (once__look_failed(&state->look, out))
        return;
    once__out_array(out, 2);
    once__cursor_write(out, state->cursor);
    once__out_array(out, state->look.count);
    once__out_raw(out, once_buf_bytes(&state->look.list.buf));
}

/* ---- What is inside -------------------------------------------------------------------------- */

struct items {
    struct once__look look;
    uint64_t cursor;
    size_t count;
    bool more;
};

static void add_item(void *user, const struct once_object_item *item)
{
    struct items *state = user;
    struct once__out *out = &state->look.list;

    state->look.count++;
    once__out_array(out, 4);
    once__out_integer(out, (int64_t)item->number);
    once__out_bulk_or_null(out, item->id);
    once__out_bulk_or_null(out, item->group);
    once__out_bulk_or_null(out, item->payload);
}

static void run_items(struct once__job *job)
{
    struct items *state = once__look_of(job);

    state->look.err = once_object_read(state->look.store, once__look_request(job)->args[1],
                                       state->cursor, state->count, add_item, state, &state->cursor,
                                       &state->more);
}

enum once__next once__resp_items(struct once__request *request, struct once__out *out)
{
    struct items *state;
    uint64_t cursor;
    size_t count;

    if (!read_page(request, out, 2, items_options, &cursor, &count) ||
        !once__look_at_object(request, out, request->args[1], false))
        return ONCE__ANSWERED;
    state = once__look_new(request, out, sizeof(*state), run_items);
    if (!state)
        return ONCE__ANSWERED;
    state->cursor = cursor;
    state->count = count;
    return ONCE__JOB;
}

void once__resp_items_finish(struct once__request *request, struct once__out *out)
{
    const struct items *state = request->state;

    if (once__look_failed(&state->look, out))
        return;
    once__out_array(out, 3);
    once__cursor_write(out, state->cursor);
    once__out_integer(out, state->more ? 1 : 0);
    once__out_array(out, state->look.count);
    once__out_raw(out, once_buf_bytes(&state->look.list.buf));
}
