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

int object_delta(const struct object_args *args, struct cli_reach *reach)
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
    status = object_get(args, reach, &object);
    if (status != CLI_OK)
        return status;
    once_buf_init(&out, OBJECT_MESSAGE_SIZE_MAX);
    err = cli_reach_delta(reach, once_bytes_of(args->values[0]), since, &out, &version);
    if (err == ONCE_ERR_OBJECT_TYPE) {
        status = cli_usage(&cli_object, "'%s' is a %s, which cannot be merged, so it has no delta",
                           cli_echo(args->values[0]).text, once_object_type_name(object.type));
    } else if (err != ONCE_OK) {
        status = object_call_error(args, reach, err);
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

int object_changes(const struct object_args *args, struct cli_reach *reach)
{
    struct once_changes_cursor cursor = {0};
    char text[CLI_CURSOR_SIZE];
    struct once_buf out;
    bool more = false;
    int err;

    if (is_terminal(args))
        return CLI_USAGE;
    if (args->since && !cli_cursor_read(args->since, &cursor))
        return cli_usage(&cli_object, "'%s' is no cursor of `once object changes`",
                         cli_echo(args->since).text);
    once_buf_init(&out, OBJECT_MESSAGE_SIZE_MAX);
    err = cli_reach_changes(reach, &cursor, OBJECT_MESSAGE_SIZE, &out, &more);
    if (err == ONCE_OK && args->json) {
        fputs("{\"changes_base64\":\"", stdout);
        cli_base64(stdout, once_buf_bytes(&out));
        printf("\",\"cursor\":\"%s\",\"more\":%s}\n", cli_cursor_write(&cursor, text),
               more ? "true" : "false");
    } else if (err == ONCE_OK) {
        print_bytes(&out);
        fprintf(stderr, "once object: %zu bytes%s --since %s\n", out.size,
                more ? "; there is more:" : "; what comes later:", cli_cursor_write(&cursor, text));
    }
    once_buf_release(&out);
    return err == ONCE_OK ? CLI_OK : object_call_error(args, reach, err);
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

static int merge_one(const struct object_args *args, struct cli_reach *reach,
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
        err = cli_reach_merge(reach, once_bytes_of(args->values[0]), type, state, &changed);
    if (err != ONCE_OK)
        return object_call_error(args, reach, err);
    if (args->json) {
        fputs("{\"name\":", stdout);
        cli_json_string(stdout, once_bytes_of(args->values[0]));
        printf(",\"type\":\"%s\",\"changed\":%s}\n", args->values[1], changed ? "true" : "false");
    } else {
        puts(changed ? "merged" : "merged; nothing in it was new");
    }
    return CLI_OK;
}

static int merge_all(const struct object_args *args, struct cli_reach *reach,
                     struct once_bytes message)
{
    size_t count = 0;
    int err = cli_reach_changes_merge(reach, message, &count);

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
        return object_call_error(args, reach, err);
    if (args->json)
        printf("{\"changed\":%zu}\n", count);
    else
        printf("merged; news for %zu %s\n", count, count == 1 ? "object" : "objects");
    return CLI_OK;
}

int object_merge(const struct object_args *args, struct cli_reach *reach)
{
    struct once_buf input;
    int status;

    once_buf_init(&input, OBJECT_MESSAGE_SIZE_MAX);
    status = read_input(&input);
    if (status == CLI_OK)
        status = args->values[0] ? merge_one(args, reach, once_buf_bytes(&input))
                                 : merge_all(args, reach, once_buf_bytes(&input));
    once_buf_release(&input);
    return status;
}
