/* SPDX-License-Identifier: Apache-2.0
 *
 * A store, or the server that owns it: finds out which, and passes calls on.
 */
#include "cli/reach.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/echo.h"
#include "cli/folder.h"
#include "cli/options.h"
#include "cli/reach_server.h"
#include "client/client.h"

static const char SOCKET_NAME[] = "once.sock"; /* in the folder; see server/config.h */

/* ---- Opening --------------------------------------------------------------------------------- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

static int open_server(const struct cli_command *command, const char *address,
                       struct cli_reach *reach)
{
    const struct once__client_options options = {.user = variable("ONCE_USER"),
                                                 .password = variable("ONCE_PASSWORD"),
                                                 .tls_ca = variable("ONCE_TLS_CA")};
    struct once_message message = {""};
    int err;

    if (options.user && !options.password)
        return cli_usage(command, "ONCE_USER is set and ONCE_PASSWORD is not");
    err = once__client_open(address, &options, &reach->client, &message);
    if (err == ONCE_ERR_INVALID)
        return cli_usage(command, "'%s' is no address of a server: %s", cli_echo(address).text,
                         message.text);
    if (err == ONCE_ERR_DAMAGED)
        err = ONCE_ERR_IO; /* what it said is, not its store */
    if (err != ONCE_OK)
        return cli_store_error(command, err, &message);
    return CLI_OK;
}

/* Who owns the folder may be a server; it asks nobody who has the right to open the socket. */
static bool open_owner(const char *folder, struct cli_reach *reach)
{
    char *path = NULL;
    bool open;

    if (asprintf(&path, "%s/%s", folder, SOCKET_NAME) < 0)
        return false;
    open = once__client_open(path, NULL, &reach->client, NULL) == ONCE_OK;
    free(path);
    return open;
}

static int open_folder(const struct cli_command *command, const char *folder, bool may_make,
                       struct cli_reach *reach)
{
    struct once_options options = {.must_exist = !may_make};
    struct once_message message = {""};
    int err = once_open(folder, &options, &reach->store, &message);

    if (err == ONCE_OK || (err == ONCE_ERR_LOCKED && open_owner(folder, reach)))
        return CLI_OK;
    if (err == ONCE_ERR_LOCKED)
        snprintf(message.text + strlen(message.text), sizeof(message.text) - strlen(message.text),
                 ". Nothing happened: the same command again is right when it is free");
    return cli_store_error(command, err, &message);
}

int cli_reach_open(const struct cli_command *command, const struct cli_where *where, bool may_make,
                   struct cli_reach *ret_reach)
{
    struct cli_reach reach = {0};
    int status = CLI_OK;

    if (where->server && where->dir)
        return cli_usage(command, "--dir and --server name two places; give one");
    if (where->server && !where->server[0])
        return cli_usage(command, "--server is empty");
    if (!where->server)
        status = cli_folder(command, where->dir, &reach.name);
    else if (!(reach.name = strdup(where->server)))
        status = cli_error(command, CLI_INTERNAL, "%s", once_err_text(ONCE_ERR_MEMORY));
    if (status == CLI_OK)
        status = where->server ? open_server(command, where->server, &reach)
                               : open_folder(command, reach.name, may_make, &reach);
    if (status != CLI_OK) {
        free(reach.name);
        return status;
    }
    *ret_reach = reach;
    return CLI_OK;
}

int cli_reach_close(const struct cli_command *command, struct cli_reach *reach, int status)
{
    int err = once_close(reach->store);

    once__client_close(reach->client);
    free(reach->name);
    *reach = (struct cli_reach){0};
    if (err == ONCE_OK || status != CLI_OK)
        return status;
    return cli_error(command, cli_store_status(err), "%s", once_err_text(err));
}

const char *cli_reach_text(const struct cli_reach *reach, int err)
{
    return reach->client && reach->message.text[0] ? reach->message.text : once_err_text(err);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

int cli_reach_apply(struct cli_reach *reach, struct once_name name,
                    const struct once_apply_options *options, const struct once_do *dos,
                    size_t count, struct once_reply *ret_reply)
{
    if (reach->store)
        return once_apply(reach->store, name, options, dos, count, ret_reply);
    return reach_server_apply(reach, name, options, dos, count, ret_reply);
}

int cli_reach_get(struct cli_reach *reach, struct once_bytes name, struct once_object *ret_object)
{
    return reach->store ? once_object_get(reach->store, name, ret_object)
                        : reach_server_get(reach, name, ret_object);
}

int cli_reach_read(struct cli_reach *reach, struct once_bytes name, uint64_t cursor, size_t count,
                   void (*each)(void *user, const struct once_object_item *item), void *user,
                   uint64_t *ret_cursor, bool *ret_more)
{
    if (reach->store)
        return once_object_read(reach->store, name, cursor, count, each, user, ret_cursor,
                                ret_more);
    return reach_server_read(reach, name, cursor, count, each, user, ret_cursor, ret_more);
}

int cli_reach_list(struct cli_reach *reach, uint64_t cursor, size_t count,
                   void (*each)(void *user, struct once_bytes name, enum once_object_type type),
                   void *user, uint64_t *ret_cursor)
{
    if (reach->store)
        return once_object_list(reach->store, cursor, count, each, user, ret_cursor);
    return reach_server_list(reach, cursor, count, each, user, ret_cursor);
}

int cli_reach_merge(struct cli_reach *reach, struct once_bytes name, enum once_object_type type,
                    struct once_bytes state, bool *ret_changed)
{
    return reach->store ? once_object_merge(reach->store, name, state, ret_changed)
                        : reach_server_merge(reach, name, type, state, ret_changed);
}

int cli_reach_delta(struct cli_reach *reach, struct once_bytes name, uint64_t since,
                    struct once_buf *out, uint64_t *ret_version)
{
    return reach->store ? once_object_delta(reach->store, name, since, out, ret_version)
                        : reach_server_delta(reach, name, since, out, ret_version);
}

int cli_reach_changes(struct cli_reach *reach, struct once_changes_cursor *cursor, size_t size_max,
                      struct once_buf *out, bool *ret_more)
{
    return reach->store ? once_changes(reach->store, cursor, size_max, out, ret_more)
                        : reach_server_changes(reach, cursor, size_max, out, ret_more);
}

int cli_reach_changes_merge(struct cli_reach *reach, struct once_bytes message, size_t *ret_count)
{
    return reach->store ? once_changes_merge(reach->store, message, ret_count)
                        : reach_server_changes_merge(reach, message, ret_count);
}

/* ---- Cursors --------------------------------------------------------------------------------- */

enum { ID_SIZE = sizeof(((struct once_changes_cursor *)0)->store_id) };

/* The store's id in hex, then three numbers. */
const char *cli_cursor_write(const struct once_changes_cursor *cursor, char text[CLI_CURSOR_SIZE])
{
    for (size_t i = 0; i < ID_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", cursor->store_id[i]);
    snprintf(text + (size_t)2 * ID_SIZE, CLI_CURSOR_SIZE - (size_t)2 * ID_SIZE,
             ".%" PRIu64 ".%" PRIu64 ".%" PRIu64, cursor->since, cursor->until, cursor->at);
    return text;
}

bool cli_cursor_read(const char *text, struct once_changes_cursor *ret_cursor)
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
