/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanging the mergeable objects with another store: ONCE.DELTA of one object, ONCE.CHANGES of
 * all, and ONCE.CHANGES.MERGE. A cursor travels as text, "<store, hex>.<since>.<until>.<at>", the
 * same that `once object changes` prints.
 */
#include "server/resp_commands.h"
#include "server/resp_look.h"
#include "server/resp_option.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct once_bytes every = {NULL, 0};

static const char changes_lack[] =
    "a shared store exchanges no changes: every server of it sees the "
    "same objects";

/* ---- One object ------------------------------------------------------------------------------ */

struct delta {
    struct once__look look;
    struct once_buf bytes;
    uint64_t version;
};

static void drop_delta(struct once__look *look)
{
    once_buf_release(&((struct delta *)look)->bytes);
}

static void run_delta(struct once__job *job)
{
    struct delta *state = once__look_of(job);

    state->look.err = once_object_delta(state->look.store, once__look_request(job)->args[1],
                                        state->version, &state->bytes, &state->version);
}

enum once__next once__resp_delta(struct once__request *request, struct once__out *out)
{
    struct delta *state;
    int64_t since;

    if (!once__arg_number(request, out, request->args[2], "since must be a version", 0,
                          (int64_t)ONCE_VERSION_MAX, &since) ||
        !once__look_at_object(request, out, request->args[1], false))
        return ONCE__ANSWERED;
    state = once__look_new(request, out, sizeof(*state), run_delta);
    if (!state)
        return ONCE__ANSWERED;
    once_buf_init(&state->bytes, 4 * (size_t)ONCE_MERGEABLE_SIZE_MAX);
    state->look.drop = drop_delta;
    state->version = (uint64_t)since;
    return ONCE__JOB;
}

void once__resp_delta_finish(struct once__request *request, struct once__out *out)
{
    const struct delta *state = request->state;

    if (once__look_failed(&state->look, out))
        return;
    once__out_array(out, 2);
    once__out_integer(out, (int64_t)state->version);
    once__out_bulk(out, once_buf_bytes(&state->bytes));
}

/* ---- All objects ----------------------------------------------------------------------------- */

enum {
    CHANGES_SIZE_DEFAULT = 1 << 20,
    CHANGES_SIZE_MAX = 8 << 20,
    ID_SIZE = sizeof(((struct once_changes_cursor *)0)->store_id),
    CURSOR_TEXT_SIZE = 2 * ID_SIZE + 3 * 21 + 1
};

struct changes {
    struct once__look look;
    struct once_changes_cursor cursor;
    struct once_buf bytes;
    size_t size;
    bool more;
};

enum { CURSOR, SIZE, CHANGES_OPTIONS };
static const struct once__option changes_options[CHANGES_OPTIONS] = {
    [CURSOR] = {"CURSOR", ONCE__OPTION_BYTES, "a cursor", 1, CURSOR_TEXT_SIZE, NULL},
    [SIZE] = {"SIZE", ONCE__OPTION_NUMBER, "a number of bytes", 1, CHANGES_SIZE_MAX, NULL},
};

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads ".123" at *at. */
static bool read_part(struct once_bytes text, size_t *at, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t i = *at, digits = 0;

    if (i == text.size || text.data[i++] != '.')
        return false;
    for (; i < text.size && text.data[i] >= '0' && text.data[i] <= '9'; i++, digits++) {
        uint64_t digit = (uint64_t)(text.data[i] - '0');

        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *at = i;
    *ret_number = number;
    return digits > 0;
}

static bool read_cursor(struct once_bytes text, struct once_changes_cursor *ret_cursor)
{
    struct once_changes_cursor cursor;
    size_t at = 2 * (size_t)ID_SIZE;

    if (text.size < at)
        return false;
    for (size_t i = 0; i < ID_SIZE; i++) {
        int high = hex_digit(text.data[2 * i]), low = hex_digit(text.data[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        cursor.store_id[i] = (uint8_t)(high * 16 + low);
    }
    if (!read_part(text, &at, &cursor.since) || !read_part(text, &at, &cursor.until) ||
        !read_part(text, &at, &cursor.at) || at != text.size)
        return false;
    *ret_cursor = cursor;
    return true;
}

static void write_cursor(struct once__out *out, const struct once_changes_cursor *cursor)
{
    char text[CURSOR_TEXT_SIZE];
    size_t size = 0;

    for (size_t i = 0; i < ID_SIZE; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%02x", cursor->store_id[i]);
    (void)snprintf(text + size, sizeof(text) - size, ".%" PRIu64 ".%" PRIu64 ".%" PRIu64,
                   cursor->since, cursor->until, cursor->at);
    once__out_text(out, text);
}

static void drop_changes(struct once__look *look)
{
    once_buf_release(&((struct changes *)look)->bytes);
}

static void run_changes(struct once__job *job)
{
    struct changes *state = once__look_of(job);

    state->look.err = once_changes(state->look.store, &state->cursor, state->size, &state->bytes,
                                   &state->more);
}

enum once__next once__resp_changes(struct once__request *request, struct once__out *out)
{
    struct once__option_value values[CHANGES_OPTIONS];
    struct once_changes_cursor cursor = {.since = 0};
    struct changes *state;
    size_t end;

    memset(values, 0, sizeof(values));
    if (!once__options_read(request, out, 1, NULL, changes_options, CHANGES_OPTIONS, values, &end))
        return ONCE__ANSWERED;
    if (values[CURSOR].given && !read_cursor(values[CURSOR].bytes, &cursor)) {
        once__out_bad(request, out, "CURSOR must be one that it gave, not '%s'",
                      once__arg_echo(values[CURSOR].bytes).text);
        return ONCE__ANSWERED;
    }
    if (!once__look_at_object(request, out, every, false))
        return ONCE__ANSWERED;
    state = once__look_new(request, out, sizeof(*state), run_changes);
    if (!state)
        return ONCE__ANSWERED;
    state->look.lacks = changes_lack;
    state->size = values[SIZE].given ? (size_t)values[SIZE].number : CHANGES_SIZE_DEFAULT;
    once_buf_init(&state->bytes, state->size + 2 * (size_t)(ONCE_MERGEABLE_SIZE_MAX + 1024));
    state->look.drop = drop_changes;
    state->cursor = cursor;
    return ONCE__JOB;
}

void once__resp_changes_finish(struct once__request *request, struct once__out *out)
{
    const struct changes *state = request->state;

    if (once__look_failed(&state->look, out))
        return;
    once__out_array(out, 3);
    write_cursor(out, &state->cursor);
    once__out_integer(out, state->more ? 1 : 0);
    once__out_bulk(out, once_buf_bytes(&state->bytes));
}

/* ---- Taking another's changes ---------------------------------------------------------------- */

static void run_changes_merge(struct once__job *job)
{
    struct once__look *look = once__look_of(job);

    look->err = once_changes_merge(look->store, once__look_request(job)->args[1], &look->count);
}

enum once__next once__resp_changes_merge(struct once__request *request, struct once__out *out)
{
    struct once__look *look;

    if (!once__look_at_object(request, out, every, true))
        return ONCE__ANSWERED;
    look = once__look_new(request, out, sizeof(struct once__look), run_changes_merge);
    if (!look)
        return ONCE__ANSWERED;
    look->lacks = changes_lack;
    return ONCE__JOB;
}

void once__resp_changes_merge_finish(struct once__request *request, struct once__out *out)
{
    const struct once__look *look = request->state;

    if (!once__look_failed(look, out))
        once__out_integer(out, (int64_t)look->count);
}
