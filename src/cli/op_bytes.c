/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of an operation for people: data of recovery points, results. They may be anybody's,
 * and anything: what is not understood is shown as text, a bounded part of it, with every control
 * escaped. `once run` and `once call` write a line of JSON and bytes behind it:
 *
 *     {"once":"run","version":1,"frames":[[1,6],[2,4]],"kept":10,"lost":0}     output
 *     {"once":"call","version":1,"status":200,"headers":["A: b"],"kept":2,…}   body
 */
#include <inttypes.h>
#include <string.h>

#include <jansson.h>

#include "base/bytes.h"
#include "cli/op_show.h"

enum {
    LABEL_SIZE = 13,
    LINES_MAX = 20, /* of bytes that are shown */
    LINE_SIZE_MAX = 400,
    HEADERS_MAX = 30,
    TEXT_SIZE_MAX = 2000, /* of one value */
    EPOCH_MS_MIN = 1000000000
};

void cli_op_label(const struct cli_view *view, const char *name)
{
    fprintf(view->out, "%s%-*s%s", cli_colour(view->style, CLI_DIM), LABEL_SIZE, name,
            cli_colour(view->style, CLI_PLAIN));
}

static struct once_bytes first(struct once_bytes bytes, size_t size)
{
    return (struct once_bytes){bytes.data, bytes.size < size ? bytes.size : size};
}

static struct once_bytes behind(struct once_bytes bytes, size_t size)
{
    return (struct once_bytes){bytes.data + size, bytes.size - size};
}

/* ---- Lines ----------------------------------------------------------------------------------- */

struct lines {
    const struct cli_view *view;
    size_t left;      /* lines that may still be shown */
    size_t not_shown; /* bytes */
};

/* Each line behind a mark: "|" of output, "!" of errors. */
static void show_lines(struct lines *lines, char mark, struct once_bytes bytes)
{
    FILE *out = lines->view->out;

    while (bytes.size > 0 && lines->left > 0) {
        const uint8_t *end = memchr(bytes.data, '\n', bytes.size);
        size_t size = end ? (size_t)(end - bytes.data) : bytes.size;
        struct once_bytes line = first((struct once_bytes){bytes.data, size}, LINE_SIZE_MAX);

        fprintf(out, "  %s%c%s ", cli_colour(lines->view->style, mark == '!' ? CLI_RED : CLI_DIM),
                mark, cli_colour(lines->view->style, CLI_PLAIN));
        cli_print_text(out, line);
        if (line.size < size)
            fputs("...", out);
        fputc('\n', out);
        lines->not_shown += size - line.size;
        lines->left--;
        bytes = behind(bytes, end ? size + 1 : size);
    }
    lines->not_shown += bytes.size;
}

static void show_rest(const struct lines *lines)
{
    if (lines->not_shown > 0)
        fprintf(lines->view->out, "  ... %zu bytes more; --raw writes all\n", lines->not_shown);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static struct once_bytes text_of(const json_t *string)
{
    return (struct once_bytes){(const uint8_t *)json_string_value(string),
                               json_string_length(string)};
}

static bool is_time(const char *name, const json_t *value)
{
    size_t size = strlen(name);

    return size > 3 && strcmp(name + size - 3, "_ms") == 0 && json_is_integer(value) &&
           json_integer_value(value) > (json_int_t)EPOCH_MS_MIN * 1000 &&
           json_integer_value(value) < (json_int_t)EPOCH_MS_MIN * 100000;
}

static bool are_strings(const json_t *array)
{
    size_t i;
    json_t *item;

    json_array_foreach(array, i, item)
    {
        if (!json_is_string(item))
            return false;
    }
    return json_array_size(array) > 0;
}

static void show_words(FILE *out, const json_t *array)
{
    size_t i, size = 0;
    json_t *item;

    json_array_foreach(array, i, item)
    {
        if (size > TEXT_SIZE_MAX) {
            fputs(" ...", out);
            return;
        }
        fputs(i > 0 ? " " : "", out);
        cli_print_word(out, first(text_of(item), TEXT_SIZE_MAX));
        size += json_string_length(item);
    }
}

static void show_value(const struct cli_view *view, const char *name, const json_t *value)
{
    char time[CLI_TIME_SIZE], ago[CLI_TIME_SIZE];
    char *text;

    if (json_is_string(value)) {
        cli_print_text(view->out, first(text_of(value), TEXT_SIZE_MAX));
    } else if (is_time(name, value)) {
        fprintf(view->out, "%s, %s", cli_time(json_integer_value(value), time),
                cli_ago(json_integer_value(value), view->now_ms, ago));
    } else if (json_is_array(value) && are_strings(value)) {
        show_words(view->out, value);
    } else {
        text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        cli_print_text(view->out, first(once_bytes_of(text), TEXT_SIZE_MAX));
        free(text);
    }
}

static bool says_nothing(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static void show_members(const struct cli_view *view, json_t *object)
{
    const char *name;
    struct once_bytes label;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        if (strcmp(name, "once") == 0 || strcmp(name, "version") == 0 || says_nothing(value))
            continue;
        label = once_bytes_of(name);
        if (is_time(name, value))
            label.size -= 3; /* "_ms": it is shown as a time */
        fprintf(view->out, "  %s", cli_colour(view->style, CLI_DIM));
        cli_print_text(view->out, first(label, LABEL_SIZE * 4));
        fprintf(view->out, "%s%*s", cli_colour(view->style, CLI_PLAIN),
                label.size + 3 < LABEL_SIZE ? (int)(LABEL_SIZE - 2 - label.size) : 1, "");
        show_value(view, name, value);
        fputc('\n', view->out);
    }
}

/* The first line, if it is a JSON object; *ret_rest is what follows. NULL: it is none. */
static json_t *read_head(struct once_bytes bytes, struct once_bytes *ret_rest)
{
    const uint8_t *end = bytes.size > 0 ? memchr(bytes.data, '\n', bytes.size) : NULL;
    size_t size = end ? (size_t)(end - bytes.data) : bytes.size;
    json_t *object;

    if (bytes.size == 0 || bytes.data[0] != '{')
        return NULL;
    object = json_loadb((const char *)bytes.data, size, 0, NULL);
    if (!json_is_object(object)) {
        json_decref(object);
        return NULL;
    }
    *ret_rest = behind(bytes, end ? size + 1 : size);
    return object;
}

static bool is_by(const json_t *head, const char *writer)
{
    const char *once = json_string_value(json_object_get(head, "once"));

    return once && strcmp(once, writer) == 0;
}

/* ---- Data and results ------------------------------------------------------------------------ */

bool cli_op_is_by(struct once_bytes bytes, const char *writer)
{
    struct once_bytes rest;
    json_t *head = read_head(bytes, &rest);
    bool is = is_by(head, writer);

    json_decref(head);
    return is;
}

void cli_op_show_data(const struct cli_view *view, struct once_bytes data)
{
    struct lines lines = {.view = view, .left = LINES_MAX};
    struct once_bytes rest = data;
    json_t *head = read_head(data, &rest);

    if (head)
        show_members(view, head);
    show_lines(&lines, '|', rest);
    if (lines.not_shown > 0)
        fprintf(view->out, "  ... %zu bytes more\n", lines.not_shown);
    json_decref(head);
}

static void show_size(const struct cli_view *view, const char *what, size_t size,
                      const json_t *head)
{
    json_int_t lost = json_integer_value(json_object_get(head, "lost"));

    fprintf(view->out, "%zu bytes of %s", size, what);
    if (lost > 0)
        fprintf(view->out, ", %" JSON_INTEGER_FORMAT " more were not kept", lost);
    fputc('\n', view->out);
}

/* Output in the order in which it was written. Frames that do not fit are somebody else's. */
static void show_frames(struct lines *lines, const json_t *frames, struct once_bytes output)
{
    size_t i;
    json_t *frame;

    json_array_foreach(frames, i, frame)
    {
        json_int_t stream = json_integer_value(json_array_get(frame, 0));
        json_int_t size = json_integer_value(json_array_get(frame, 1));

        if (size < 0 || (uint64_t)size > output.size)
            break;
        show_lines(lines, stream == 2 ? '!' : '|', first(output, (size_t)size));
        output = behind(output, (size_t)size);
    }
    show_lines(lines, '|', output);
}

static void show_headers(const struct cli_view *view, const json_t *headers)
{
    size_t i;
    json_t *header;

    json_array_foreach(headers, i, header)
    {
        if (i == HEADERS_MAX) {
            fprintf(view->out, "  ... %zu headers more\n", json_array_size(headers) - i);
            return;
        }
        fputs("  ", view->out);
        show_value(view, "", header);
        fputc('\n', view->out);
    }
}

void cli_op_show_result(const struct cli_view *view, int32_t code, struct once_bytes result)
{
    struct lines lines = {.view = view, .left = LINES_MAX};
    struct once_bytes rest = result;
    json_t *head = read_head(result, &rest);

    cli_op_label(view, "result");
    fprintf(view->out, "code %" PRId32 ", ", code);
    if (is_by(head, "run")) {
        show_size(view, "output", rest.size, head);
        show_frames(&lines, json_object_get(head, "frames"), rest);
    } else if (is_by(head, "call")) {
        show_size(view, "body", rest.size, head);
        show_headers(view, json_object_get(head, "headers"));
        show_lines(&lines, '|', rest);
    } else {
        fprintf(view->out, "%zu bytes\n", result.size);
        show_lines(&lines, '|', result);
    }
    show_rest(&lines);
    json_decref(head);
}
