/* SPDX-License-Identifier: Apache-2.0
 *
 * Which folder a command works on, and taking it.
 */
#ifndef ONCE_CLI_FOLDER_H
#define ONCE_CLI_FOLDER_H

#include <once/store.h>

#include "cli/cli.h"
#include "engine/vfs.h"

/* The store's folder: given (--dir; NULL is not given), else $ONCE_DIR, else $XDG_DATA_HOME/once,
 * else ~/.local/share/once. An empty variable is none; a shared store (its URL, or $ONCE_STORE
 * where no folder is named) is refused. Into memory that the caller frees.
 * Otherwise tells what is wrong, and returns an exit status that is not CLI_OK. */
int cli_folder(const struct cli_command *command, const char *given, char **ret_folder);

/* The same, and tells nobody: ONCE_ERR_INVALID, ONCE_ERR_MEMORY, and *ret_what says why. */
ONCE_MUST_CHECK int cli_folder_find(const char *given, char **ret_folder, const char **ret_what);

/* Opens and locks a folder that holds a store, so that nobody else changes it: the caller frees the
 * vfs. Otherwise tells what is wrong, and returns an exit status that is not CLI_OK. */
int cli_folder_take(const struct cli_command *command, const char *folder,
                    struct once__vfs **ret_vfs);

/* Whether somebody owns the store in this folder at this moment, and who: "pid 17 (once) on host
 * since …", which may be empty. */
bool cli_folder_owner(const char *folder, char *ret_owner, size_t size);

/* The exit status for an error of a store. */
int cli_store_status(int err);

/* Tells an error of a store; returns its exit status. The message may hold anything. */
int cli_store_error(const struct cli_command *command, int err, const struct once_message *message);

#endif
