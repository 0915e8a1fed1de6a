/* SPDX-License-Identifier: Apache-2.0
 *
 * Which folder a command works on, and taking it.
 */
#include "cli/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/echo.h"
#include "engine/format.h"
#include "store/postgres/pg.h"

enum { OWNER_SIZE = 256, TEXT_SIZE = 64 };

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

int cli_folder_find(const char *given, char **ret_folder, const char **ret_what)
{
    const char *data = variable("XDG_DATA_HOME"), *home = variable("HOME");
    char *folder = NULL;
    int size = 0;

    *ret_what = "--dir is empty";
    if (given && !given[0])
        return ONCE_ERR_INVALID;
    if (!given)
        given = variable("ONCE_DIR");
    *ret_what = "a shared store has no folder: once serve --store serves it, and --server asks "
                "such a server; --dir is the folder of another store";
    if (once__pg_url(given ? given : variable("ONCE_STORE"))) /* any folder would be a wrong one */
        return ONCE_ERR_INVALID;
    *ret_what = "which folder? Give --dir, or set ONCE_DIR";
    if (given)
        folder = strdup(given);
    else if (data)
        size = asprintf(&folder, "%s/once", data);
    else if (home)
        size = asprintf(&folder, "%s/.local/share/once", home);
    else
        return ONCE_ERR_INVALID;
    *ret_what = once_err_text(ONCE_ERR_MEMORY);
    if (size < 0 || !folder)
        return ONCE_ERR_MEMORY;
    *ret_folder = folder;
    return ONCE_OK;
}

int cli_folder(const struct cli_command *command, const char *given, char **ret_folder)
{
    const char *what;
    int err = cli_folder_find(given, ret_folder, &what);

    if (err == ONCE_OK)
        return CLI_OK;
    return err == ONCE_ERR_INVALID ? cli_usage(command, "%s", what)
                                   : cli_error(command, CLI_INTERNAL, "%s", what);
}

int cli_store_status(int err)
{
    switch (err) {
    case ONCE_OK:
        return CLI_OK;
    case ONCE_ERR_INVALID:
    case ONCE_ERR_KEY_EMPTY:
    case ONCE_ERR_KEY_TOO_LONG:
    case ONCE_ERR_KEY_CHARACTER:
    case ONCE_ERR_KEY_FUTURE:
    case ONCE_ERR_KEY_NEEDED:
    case ONCE_ERR_OBJECT_TYPE:
    case ONCE_ERR_TOO_LARGE:
        return CLI_USAGE;
    case ONCE_ERR_NO_STORE:
    case ONCE_ERR_NO_OBJECT:
        return CLI_NOT_FOUND;
    case ONCE_ERR_DAMAGED:
        return CLI_DAMAGED;
    case ONCE_ERR_DENIED:
        return CLI_REFUSED;
    case ONCE_ERR_RATE:
        return CLI_BUSY;
    case ONCE_ERR_MEMORY:
    case ONCE_ERR_RANDOM:
        return CLI_INTERNAL;
    default:
        return CLI_UNAVAILABLE;
    }
}

/* Control characters of a file's or an owner's text never reach the terminal. */
static void clean(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || (unsigned char)*text == 0x7f)
            *text = ' ';
    }
}

int cli_store_error(const struct cli_command *command, int err, const struct once_message *message)
{
    struct once_message copy = *message;

    clean(copy.text);
    return cli_error(command, cli_store_status(err), "%s",
                     copy.text[0] ? copy.text : once_err_text(err));
}

/* Is there anything of a store? A folder without must not get a lock file. */
static int note_store(void *user, const char *name)
{
    bool *has_store = user, is_segment;
    uint32_t slot;

    if (strcmp(name, ONCE__STORE_NAME) == 0 ||
        (once__name_slot(name, &is_segment, &slot) && is_segment))
        *has_store = true;
    return ONCE_OK;
}

static int take(const struct cli_command *command, const char *folder, struct once__vfs *vfs)
{
    char owner[OWNER_SIZE] = "", text[TEXT_SIZE];
    bool has_store = false;
    int err = vfs->ops->list(vfs, note_store, &has_store);

    if (err == ONCE_OK && !has_store)
        return cli_error(command, CLI_NOT_FOUND, "there is no store in '%s'",
                         cli_echo(folder).text);
    snprintf(text, sizeof(text), "once %s, process %ld\n", command->name, (long)getpid());
    if (err == ONCE_OK)
        err = vfs->ops->lock(vfs, ONCE__LOCK_NAME, text, owner, sizeof(owner));
    clean(owner);
    if (err == ONCE_ERR_LOCKED)
        return cli_error(command, CLI_UNAVAILABLE,
                         "another process owns the store in '%s': %s; stop it, or check a copy: "
                         "once backup --dir '%s' COPY",
                         cli_echo(folder).text, owner[0] ? owner : "unknown",
                         cli_echo(folder).text);
    if (err != ONCE_OK)
        return cli_error(command, cli_store_status(err), "'%s': %s: %s", cli_echo(folder).text,
                         once_err_text(err), strerror(vfs->system_errno));
    return CLI_OK;
}

int cli_folder_take(const struct cli_command *command, const char *folder,
                    struct once__vfs **ret_vfs)
{
    struct once__vfs *vfs = NULL;
    int error = 0, status;
    int err = once__vfs_open(folder, false, &vfs, &error);

    if (err == ONCE_ERR_NO_STORE)
        return cli_error(command, CLI_NOT_FOUND, "there is no store in '%s'",
                         cli_echo(folder).text);
    if (err != ONCE_OK)
        return cli_error(command, cli_store_status(err), "'%s' cannot be opened: %s",
                         cli_echo(folder).text, strerror(error));
    status = take(command, folder, vfs);
    if (status != CLI_OK) {
        vfs->ops->free(vfs);
        return status;
    }
    *ret_vfs = vfs;
    return CLI_OK;
}

bool cli_folder_owner(const char *folder, char *ret_owner, size_t size)
{
    struct once__vfs *vfs = NULL;
    char text[TEXT_SIZE];
    bool has_store = false, owned = false;
    int error = 0;

    if (once__vfs_open(folder, false, &vfs, &error) != ONCE_OK)
        return false;
    ret_owner[0] = '\0';
    snprintf(text, sizeof(text), "process %ld, looking\n", (long)getpid());
    if (vfs->ops->list(vfs, note_store, &has_store) == ONCE_OK && has_store)
        owned = vfs->ops->lock(vfs, ONCE__LOCK_NAME, text, ret_owner, size) == ONCE_ERR_LOCKED;
    ret_owner[strcspn(ret_owner, "\n")] = '\0';
    clean(ret_owner);
    vfs->ops->free(vfs);
    return owned;
}
