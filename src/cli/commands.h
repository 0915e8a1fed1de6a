/* SPDX-License-Identifier: Apache-2.0
 *
 * All subcommands, in the groups and the order in which people are shown them.
 */
#ifndef ONCE_CLI_COMMANDS_H
#define ONCE_CLI_COMMANDS_H

#include <stddef.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/options.h"

struct cli_group {
    const char *title;
    const struct cli_command *commands[8]; /* up to the first NULL */
};

extern const struct cli_group cli_groups[];
extern const size_t cli_group_count;

/* NULL: there is none of that name. */
const struct cli_command *cli_command_find(const char *name);

/* The group that a command stands in. */
const struct cli_group *cli_command_group(const struct cli_command *command);

/* The next command in the order of the groups; NULL gives the first, and stands behind the last. */
const struct cli_command *cli_command_next(const struct cli_command *command);

/* The options of a command, wherever they come from. */
const struct cli_option *cli_command_options(const struct cli_command *command, size_t *ret_count);

/* The command whose name is nearly this one; NULL: none is. */
const char *cli_command_nearest(const char *name);

/* The command that an argument of another one names; tells what is wrong and gives NULL. */
const struct cli_command *cli_command_named(const struct cli_command *command, const char *name);

/* What `once --help` prints. */
void cli_print_overview(FILE *out);

#endif
