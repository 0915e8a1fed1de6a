/* SPDX-License-Identifier: Apache-2.0
 *
 * `once object delta`, `merge`, `changes` and `sync`: mergeable objects between stores, as bytes
 * in a file or a pipe, or from folder to folder.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cmd_object.h"
#include "cli/echo.h"
#include "cli/folder.h"
#include "cli/options.h"

enum { ID_SIZE = sizeof(((struct once_changes_cursor *)0)->store_id) };

/* Bytes would look bad on a terminal, and might steer it. */
static bool is_terminal(const struct object_args *args)
{
    if (args->json || !isatty(STDOUT_FILENO))
        return false;
    (void)cli_usage(&cli_object, "the bytes are not for a terminal: send them to a file or a pipe, "
                                 "or ask for --json");
    return true;
}

/* ---- Out ------------------------------------------------------------------------------------- */

/* Nothing new is no bytes, and then there is no buffer either. */
static void print_bytes(const struct once_buf *out)
{
    if (out->size > 0)
        fwrite(out->data, 1, out->size, stdout);
}

int object_delta(const struct object_args *args, struct once_store *store)
{
    uint64_t since = 0, version = 0;
    struct once_object object = {0};
    struct once_buf out;
    int err, status;

    if (is_terminal(args))
        return CLI_USAGE;
    if (args->since && !cli_number(args->since, 0, UINT64_MAX, &since))
        return cli_usage(&cli_object, "--since takes a version of the object, not '%s'",
                         cli_echo(args->since).text);
    status = object_get(args, store, &object);
    if (status != CLI_OK)
        return status;
    once_buf_init(&out, OBJECT_MESSAGE_SIZE_MAX);
    err = once_object_delta(store, once_bytes_of(args->values[0]), since, &out, &version);
    if (err == ONCE_ERR_OBJECT_TYPE) {
        status = cli_usage(&cli_object, "'%s' is a %s, which cannot be merged, so it has no delta",
                           cli_echo(args->values[0]).text, once_object_type_name(object.type));
    } else if (err != ONCE_OK) {
        status = object_error(args, err, NULL);
    } else if (args->json) {
        fputs("{\"name\":", stdout);
        cli_json_string(stdout, once_bytes_of(args->values[0]));
        printf(",\"type\":\"%s\",\"version\":%" PRIu64 ",\"delta_base64\":\"",
               once_object_type_name(object.type), version);
        cli_base64(stdout, once_buf_bytes(&out));
        puts("\"}");
    } else {
        print_bytes(&out);
        (void)cli_message(&cli_object, CLI_OK, "%zu bytes; what comes later: --since %" PRIu64,
                          out.size, version);
    }
    once_buf_release(&out);
    once_object_release(&object);
    return status;
}

/* A cursor as one word: the store's id in hex, then three numbers. */
static void print_cursor(FILE *out, const struct once_changes_cursor *cursor)
{
    for (size_t i = 0; i < ID_SIZE; i++)
        fprintf(out, "%02x", cursor->store_id[i]);
    fprintf(out, ".%" PRIu64 ".%" PRIu64 ".%" PRIu64, cursor->since, cursor->until, cursor->at);
}

static bool read_cursor(const char *text, struct once_changes_cursor *ret_cursor)
{
    struct once_changes_cursor cursor;
    uint64_t *numbers[] = {&cursor.since, &cursor.until, &cursor.at};
    char digits[24];

    for (size_t i = 0; i < ID_SIZE; i++, text += 2) {
        unsigned byte;

        if (strspn(text, "0123456789abcdef") < 2 || sscanf(text, "%2x", &byte) != 1)
            return false;
        cursor.store_id[i] = (uint8_t)byte;
    }
    for (size_t i = 0; i < 3; i++) {
        size_t size = text[0] == '.' ? strspn(text + 1, "0123456789") : 0;

        if (size >= sizeof(digits))
            return false;
        memcpy(digits, text + 1, size);
        digits[size] = '\0';
        if (!cli_number(digits, 0, UINT64_MAX, numbers[i]))
            return false;
        text += 1 + size;
    }
    *ret_cursor = cursor;
    return text[0] == '\0';
}

int object_changes(const struct object_args *args, struct once_store *store)
{
    struct once_changes_cursor cursor = {0};
    struct once_buf out;
    bool more = false;
    int err;

    if (is_terminal(args))
        return CLI_USAGE;
    if (args->since && !read_cursor(args->since, &cursor))
        return cli_usage(&cli_object, "'%s' is no cursor of `once object changes`",
                         cli_echo(args->since).text);
    once_buf_init(&out, OBJECT_MESSAGE_SIZE_MAX);
    err = once_changes(store, &cursor, OBJECT_MESSAGE_SIZE, &out, &more);
    if (err == ONCE_OK && args->json) {
        fputs("{\"changes_base64\":\"", stdout);
        cli_base64(stdout, once_buf_bytes(&out));
        fputs("\",\"cursor\":\"", stdout);
        print_cursor(stdout, &cursor);
        printf("\",\"more\":%s}\n", more ? "true" : "false");
    } else if (err == ONCE_OK) {
        print_bytes(&out);
        fprintf(stderr, "once object: %zu bytes%s --since ", out.size,
                more ? "; there is more:" : "; what comes later:");
        print_cursor(stderr, &cursor);
        fputc('\n', stderr);
    }
    once_buf_release(&out);
    return err == ONCE_OK ? CLI_OK : object_error(args, err, NULL);
}

/* ---- In -------------------------------------------------------------------------------------- */

static int read_input(struct once_buf *input)
{
    uint8_t piece[1 << 14];
    size_t size;

    while ((size = fread(piece, 1, sizeof(piece), stdin)) > 0) {
        int err = once_buf_append(input, piece, size);

        if (err == ONCE_ERR_FULL)
            return cli_usage(&cli_object, "the input is too large: at most %zu bytes",
                             input->size_max);
        if (err != ONCE_OK)
            return cli_error(&cli_object, CLI_INTERNAL, "%s", once_err_text(err));
    }
    if (ferror(stdin))
        return cli_usage(&cli_object, "the input cannot be read: %s", strerror(errno));
    if (input->size == 0)
        return cli_usage(&cli_object, "the input is empty; once object delta NAME, or once object "
                                      "changes, makes what can be merged");
    return CLI_OK;
}

static int find_type(const char *name, enum once_object_type *ret_type)
{
    for (int type = ONCE_OBJECT_MAX; type <= ONCE_OBJECT_MAP; type++) {
        if (strcmp(once_object_type_name((enum once_object_type)type), name) == 0) {
            *ret_type = (enum once_object_type)type;
            return CLI_OK;
        }
    }
    return cli_usage(&cli_object,
                     "'%s' is no mergeable type; there are max min flag gset vv lww gcounter "
                     "pncounter awset mvreg map",
                     cli_echo(name).text);
}

static int merge_one(const struct object_args *args, struct once_store *store,
                     struct once_bytes state)
{
    enum once_object_type type = ONCE_OBJECT_NONE;
    enum once_lattice_type found;
    struct once_defect defect = {0};
    bool changed = false;
    int err, status = find_type(args->values[1], &type);

    if (status != CLI_OK)
        return status;
    err = once_lattice_check(state, &found, &defect);
    if (err == ONCE_ERR_DAMAGED || err == ONCE_ERR_FULL)
        return cli_usage(&cli_object, "the input is no state of a mergeable type: byte %zu: %s",
                         defect.offset, defect.what);
    if (err == ONCE_OK && (int)found != (int)type)
        return cli_usage(&cli_object, "the input is a %s, not a %s", once_lattice_type_name(found),
                         args->values[1]);
    if (err == ONCE_OK)
        err = once_object_merge(store, once_bytes_of(args->values[0]), state, &changed);
    if (err != ONCE_OK)
        return object_error(args, err, NULL);
    if (args->json) {
        fputs("{\"name\":", stdout);
        cli_json_string(stdout, once_bytes_of(args->values[0]));
        printf(",\"type\":\"%s\",\"changed\":%s}\n", args->values[1], changed ? "true" : "false");
    } else {
        puts(changed ? "merged" : "merged; nothing in it was new");
    }
    return CLI_OK;
}

static int merge_all(const struct object_args *args, struct once_store *store,
                     struct once_bytes message)
{
    size_t count = 0;
    int err = once_changes_merge(store, message, &count);

    if (err == ONCE_ERR_DAMAGED)
        return cli_usage(&cli_object, "the input is not what `once object changes` gives; for the "
                                      "state of one object: once object merge NAME TYPE");
    if (err == ONCE_ERR_OBJECT_TYPE)
        return cli_usage(&cli_object, "an object is of another type here and stayed as it is; "
                                      "the others were merged");
    if (err == ONCE_ERR_FULL || err == ONCE_ERR_TOO_LARGE)
        return cli_error(&cli_object, cli_store_status(err),
                         "an object would pass a bound here (%s) and stayed as it is; the others "
                         "were merged",
                         once_err_text(err));
    if (err != ONCE_OK)
        return object_error(args, err, NULL);
    if (args->json)
        printf("{\"changed\":%zu}\n", count);
    else
        printf("merged; news for %zu %s\n", count, count == 1 ? "object" : "objects");
    return CLI_OK;
}

int object_merge(const struct object_args *args, struct once_store *store)
{
    struct once_buf input;
    int status;

    once_buf_init(&input, OBJECT_MESSAGE_SIZE_MAX);
    status = read_input(&input);
    if (status == CLI_OK)
        status = args->values[0] ? merge_one(args, store, once_buf_bytes(&input))
                                 : merge_all(args, store, once_buf_bytes(&input));
    once_buf_release(&input);
    return status;
}
