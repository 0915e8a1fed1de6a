/* SPDX-License-Identifier: Apache-2.0
 *
 * `once object NAME` and `once object`: one object, what it holds, and all of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cmd_object.h"
#include "cli/echo.h"
#include "cli/folder.h"

/* ---- One object ------------------------------------------------------------------------------ */

/* Where the JSON value that begins at offset ends. The JSON is the library's own and whole. */
static size_t value_end(struct once_bytes json, size_t offset)
{
    bool in_string = false;
    size_t depth = 0;

    for (; offset < json.size; offset++) {
        uint8_t byte = json.data[offset];

        if (in_string) {
            offset += byte == '\\';
            in_string = byte != '"';
        } else if (byte == '"') {
            in_string = true;
        } else if (byte == '{' || byte == '[') {
            depth++;
        } else if (depth == 0 && (byte == ',' || byte == ':' || byte == '}')) {
            return offset;
        } else if (byte == '}' || byte == ']') {
            depth--;
        }
    }
    return json.size;
}

static struct once_bytes slice(struct once_bytes bytes, size_t from, size_t to)
{
    if (to > from + 1 && bytes.data[from] == '"')
        return (struct once_bytes){bytes.data + from + 1, to - from - 2};
    return (struct once_bytes){bytes.data + from, to - from};
}

/* A line for each member of the object's JSON: "value     900". */
static void print_members(struct once_bytes json)
{
    size_t offset = 1;

    while (offset < json.size) {
        size_t name_end = value_end(json, offset);
        size_t end = name_end < json.size ? value_end(json, name_end + 1) : json.size;
        struct once_bytes name = slice(json, offset, name_end);

        if (name.size == 0 || end == json.size)
            return;
        printf("%-9.*s ", (int)name.size, (const char *)name.data);
        cli_print(stdout, slice(json, name_end + 1, end));
        putchar('\n');
        offset = end + 1;
    }
}

/* The library's JSON holds other people's text: it escapes what JSON must, here also what would
 * steer a terminal (DEL and, in UTF-8, U+0080 to U+009F). */
static void print_json(struct once_bytes json)
{
    for (size_t i = 0; i < json.size; i++) {
        if (json.data[i] == 0x7f) {
            fputs("\\u007f", stdout);
        } else if (json.data[i] == 0xc2 && i + 1 < json.size && json.data[i + 1] < 0xa0) {
            printf("\\u%04x", json.data[++i]);
        } else {
            putchar(json.data[i]);
        }
    }
    putchar('\n');
}

static void show_one(const struct object_args *args, const struct once_object *object)
{
    if (args->json)
        print_json(object->json);
    else
        print_members(object->json);
}

/* ---- What it holds --------------------------------------------------------------------------- */

/* A list broke off: what was begun in JSON is ended as JSON. */
static int end_early(const struct object_args *args, const struct cli_reach *reach, int err)
{
    const char *text = cli_reach_text(reach, err);

    if (!args->json)
        return object_error(args, err, text);
    fputs("],\"error\":", stdout);
    cli_json_string(stdout, once_bytes_of(text));
    printf(",\"exit_status\":%d}\n", cli_store_status(err));
    return cli_message(&cli_object, cli_store_status(err), "%s", text);
}

struct items {
    bool first;
    enum once_object_type type;
};

static void print_item(void *user, const struct once_object_item *item)
{
    const struct items *items = user;

    if (items->type == ONCE_OBJECT_BUCKETS) {
        cli_print(stdout, item->id);
        printf("  %" PRIu64 "\n", item->number);
        return;
    }
    printf("%" PRIu64 "  ", item->number);
    cli_print(stdout, items->type == ONCE_OBJECT_LOG ? item->id
                      : item->group.size > 0         ? item->group
                                                     : once_bytes_of("-"));
    fputs("  ", stdout);
    cli_print(stdout, item->payload);
    putchar('\n');
}

static void print_json_item(void *user, const struct once_object_item *item)
{
    struct items *items = user;

    fputs(items->first ? "{" : ",{", stdout);
    items->first = false;
    if (items->type == ONCE_OBJECT_BUCKETS) {
        cli_json_bytes(stdout, "bucket", item->id);
        printf(",\"count\":%" PRIu64 "}", item->number);
        return;
    }
    printf("\"number\":%" PRIu64 ",", item->number);
    if (items->type == ONCE_OBJECT_LOG || item->group.size > 0) {
        if (items->type == ONCE_OBJECT_LOG)
            cli_json_bytes(stdout, "id", item->id);
        else
            cli_json_bytes(stdout, "group", item->group);
        putchar(',');
    }
    cli_json_bytes(stdout, "payload", item->payload);
    putchar('}');
}

static int show_items(const struct object_args *args, struct cli_reach *reach,
                      enum once_object_type type)
{
    struct items items = {.first = true, .type = type};
    uint64_t cursor = 0;
    bool more = false;
    int err;

    if (args->json) {
        fputs("{\"name\":", stdout);
        cli_json_string(stdout, once_bytes_of(args->values[0]));
        printf(",\"type\":\"%s\",\"items\":[", once_object_type_name(type));
    }
    err = cli_reach_read(reach, once_bytes_of(args->values[0]), args->after, (size_t)args->count,
                         args->json ? print_json_item : print_item, &items, &cursor, &more);
    if (err != ONCE_OK)
        return end_early(args, reach, err);
    if (args->json)
        printf("],\"cursor\":%" PRIu64 ",\"more\":%s}\n", cursor, more ? "true" : "false");
    else if (more)
        (void)cli_message(&cli_object, CLI_OK, "there is more: --after %" PRIu64, cursor);
    return CLI_OK;
}

int object_show(const struct object_args *args, struct cli_reach *reach)
{
    struct once_object object = {0};
    enum once_object_type type;
    int status = object_get(args, reach, &object);

    if (status != CLI_OK)
        return status;
    type = object.type;
    if (!args->page)
        show_one(args, &object);
    else if (type == ONCE_OBJECT_LOG || type == ONCE_OBJECT_OUTBOX || type == ONCE_OBJECT_BUCKETS)
        status = show_items(args, reach, type);
    else
        status = cli_usage(&cli_object,
                           "'%s' is a %s; --after and --count read logs, outboxes and buckets",
                           cli_echo(args->values[0]).text, once_object_type_name(type));
    once_object_release(&object);
    return status;
}

/* ---- All of them ----------------------------------------------------------------------------- */

struct listing {
    bool json;
    uint64_t count;
};

static void print_object(void *user, struct once_bytes name, enum once_object_type type)
{
    struct listing *listing = user;

    if (listing->json) {
        fputs(listing->count > 0 ? ",{\"name\":" : "{\"name\":", stdout);
        cli_json_string(stdout, name);
        printf(",\"type\":\"%s\"}", once_object_type_name(type));
    } else {
        printf("%-9s ", once_object_type_name(type));
        cli_print(stdout, name);
        putchar('\n');
    }
    listing->count++;
}

int object_list(const struct object_args *args, struct cli_reach *reach)
{
    struct listing listing = {.json = args->json};
    size_t count = args->page ? (size_t)args->count : ONCE_LIST_COUNT_MAX;
    uint64_t cursor = args->after;
    int err;

    if (args->json)
        fputs("{\"objects\":[", stdout);
    do {
        err = cli_reach_list(reach, cursor, count, print_object, &listing, &cursor);
    } while (err == ONCE_OK && cursor != 0 && !args->page);
    if (err != ONCE_OK)
        return end_early(args, reach, err);
    if (args->json)
        printf("],\"cursor\":%" PRIu64 "}\n", cursor);
    else if (cursor != 0)
        (void)cli_message(&cli_object, CLI_OK, "there is more: --after %" PRIu64, cursor);
    else if (listing.count == 0)
        (void)cli_message(&cli_object, CLI_OK, "there are no objects yet; `once apply` makes them");
    return CLI_OK;
}
