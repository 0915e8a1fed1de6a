/* SPDX-License-Identifier: Apache-2.0
 *
 * A store, or the server that owns it: finds out which, and passes calls on.
 */
#include "cli/reach.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "cli/echo.h"
#include "cli/folder.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/reach_server.h"
#include "client/client.h"

static const char SOCKET_NAME[] = "once.sock"; /* in the folder; see server/config.h */

enum { POLL_MS_FIRST = 20, POLL_MS_MAX = 100 }; /* a crowd that waits for long asks less often */

/* ---- Time ------------------------------------------------------------------------------------ */

once_ms reach_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Those who wait for the same thing must not all come back at the same moment. */
void reach_sleep(once_ms min_ms, once_ms max_ms)
{
    uint64_t dice;
    struct timespec time;
    int64_t us = min_ms * 1000;

    if (max_ms > min_ms && getrandom(&dice, sizeof(dice), GRND_NONBLOCK) == (ssize_t)sizeof(dice))
        us += (int64_t)(dice % (uint64_t)((max_ms - min_ms) * 1000));
    time = (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    (void)nanosleep(&time, NULL);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

static int open_server(struct cli_reach *reach)
{
    const struct once__client_options options = {.user = variable("ONCE_USER"),
                                                 .password = variable("ONCE_PASSWORD"),
                                                 .tls_ca = variable("ONCE_TLS_CA")};
    int err = once__client_open(reach->name, &options, &reach->client, &reach->message);

    reach->strange = err == ONCE_ERR_DAMAGED;
    return reach->strange ? ONCE_ERR_IO : err; /* what it said is, not its store */
}

/* Who owns the folder may be a server; it asks nobody who has the right to open the socket. */
static bool open_owner(struct cli_reach *reach)
{
    char *path = NULL;
    bool open;

    if (asprintf(&path, "%s/%s", reach->name, SOCKET_NAME) < 0)
        return false;
    open = once__client_open(path, NULL, &reach->client, NULL) == ONCE_OK;
    free(path);
    return open;
}

struct patience {
    once_ms end_ms;
    once_ms last_ms; /* the end is never later */
    struct once_message owner;
};

/* Is it time to give up? Where owners take turns, a crowd of commands is at it and ours will come:
 * patience begins again with each of them, within bounds. Who chose a patience gets that one. */
static bool is_over(struct patience *patience, const struct cli_reach *reach)
{
    once_ms now_ms = reach_now_ms();

    if (reach->patience_ms == CLI_PATIENCE_MS &&
        strcmp(patience->owner.text, reach->message.text) != 0) {
        patience->owner = reach->message;
        patience->end_ms = now_ms + CLI_PATIENCE_MS;
        if (patience->end_ms > patience->last_ms)
            patience->end_ms = patience->last_ms;
    }
    return now_ms >= patience->end_ms;
}

/* A process that serves nobody holds a folder for a moment only, unless it is not one of ours; and
 * a server that is being started listens soon after it has the folder. */
static int open_folder(struct cli_reach *reach, once_ms deadline_ms)
{
    struct cli_progress progress; /* a large store takes a while */
    struct once_options options = {
        .must_exist = !reach->may_make, .progress = cli_progress_bytes, .progress_user = &progress};
    struct patience patience = {.end_ms = deadline_ms,
                                .last_ms = reach_now_ms() + CLI_PATIENCE_TURNS_MS};
    once_ms poll_ms = POLL_MS_FIRST;
    size_t size;

    cli_progress_start(&progress, "opening the store");
    for (;;) {
        int err = once_open(reach->name, &options, &reach->store, &reach->message);

        cli_progress_wipe(&progress);
        if (err == ONCE_OK || (err == ONCE_ERR_LOCKED && open_owner(reach)))
            return ONCE_OK;
        if (err != ONCE_ERR_LOCKED)
            return err;
        if (is_over(&patience, reach))
            break;
        reach_sleep(poll_ms / 4, poll_ms);
        poll_ms += poll_ms < POLL_MS_MAX ? 1 : 0;
    }
    size = strlen(reach->message.text);
    snprintf(reach->message.text + size, sizeof(reach->message.text) - size,
             ". Nothing happened: the same command again is right when it is free");
    return ONCE_ERR_LOCKED;
}

int reach_ready(struct cli_reach *reach, once_ms deadline_ms)
{
    int err = ONCE_OK;

    if (!reach->store && !reach->client)
        err = reach->is_address ? open_server(reach) : open_folder(reach, deadline_ms);
    if (err == ONCE_OK)
        reach->message.text[0] = '\0';
    return err;
}

/* Where the store is, as the arguments and the environment say. */
static int find(const struct cli_where *where, struct cli_reach *reach, const char **ret_what)
{
    *ret_what = "--dir and --server name two places; give one";
    if (where->server && where->dir)
        return ONCE_ERR_INVALID;
    if (!where->server)
        return cli_folder_find(where->dir, &reach->name, ret_what);
    *ret_what = "--server is empty";
    if (!where->server[0])
        return ONCE_ERR_INVALID;
    *ret_what = "ONCE_USER is set and ONCE_PASSWORD is not";
    if (variable("ONCE_USER") && !variable("ONCE_PASSWORD"))
        return ONCE_ERR_INVALID;
    reach->is_address = true;
    reach->name = strdup(where->server);
    *ret_what = once_err_text(ONCE_ERR_MEMORY);
    return reach->name ? ONCE_OK : ONCE_ERR_MEMORY;
}

/* *ret_usage: it was the arguments that were wrong. */
static int try_open(const struct cli_where *where, bool may_make, struct cli_reach *ret_reach,
                    struct once_message *ret_message, bool *ret_usage)
{
    struct cli_reach reach = {.may_make = may_make,
                              .patience_ms = where->patience_ms > 0 ? where->patience_ms
                                                                    : CLI_PATIENCE_MS};
    const char *what = NULL;
    int err = find(where, &reach, &what);

    *ret_usage = err == ONCE_ERR_INVALID;
    if (err != ONCE_OK) {
        snprintf(ret_message->text, sizeof(ret_message->text), "%s", what);
        return err;
    }
    err = reach_ready(&reach, reach_now_ms() + reach.patience_ms);
    if (err == ONCE_OK) {
        *ret_reach = reach;
        return ONCE_OK;
    }
    *ret_usage = err == ONCE_ERR_INVALID && reach.is_address;
    if (*ret_usage)
        snprintf(ret_message->text, sizeof(ret_message->text),
                 "'%s' is no address of a server: %.800s", cli_echo(reach.name).text,
                 reach.message.text);
    else
        *ret_message = reach.message;
    free(reach.name);
    return err;
}

int cli_reach_try(const struct cli_where *where, bool may_make, struct cli_reach *ret_reach,
                  struct once_message *ret_message)
{
    bool usage;

    return try_open(where, may_make, ret_reach, ret_message, &usage);
}

int cli_reach_open(const struct cli_command *command, const struct cli_where *where, bool may_make,
                   struct cli_reach *ret_reach)
{
    struct once_message message = {""};
    bool usage;
    int err = try_open(where, may_make, ret_reach, &message, &usage);

    if (err == ONCE_OK)
        return CLI_OK;
    return usage ? cli_usage(command, "%s", message.text) : cli_store_error(command, err, &message);
}

static int let_go(struct cli_reach *reach)
{
    int err = once_close(reach->store);

    once__client_close(reach->client);
    reach->store = NULL;
    reach->client = NULL;
    return err;
}

/* That closing fails is told to nobody: what was answered is durable, and what was not is asked
 * again. */
void cli_reach_rest(struct cli_reach *reach)
{
    (void)let_go(reach);
}

int cli_reach_close(const struct cli_command *command, struct cli_reach *reach, int status)
{
    int err = let_go(reach);

    free(reach->name);
    *reach = (struct cli_reach){0};
    if (err == ONCE_OK || status != CLI_OK)
        return status;
    return cli_error(command, cli_store_status(err), "%s", once_err_text(err));
}

const char *cli_reach_text(const struct cli_reach *reach, int err)
{
    return reach->message.text[0] ? reach->message.text : once_err_text(err);
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
