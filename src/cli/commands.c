/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of subcommands. A new one gets a row here and its name in meson.build (its man page is
 * installed); help, man pages and completions follow from that.
 */
#include "cli/commands.h"

#include <string.h>

#include "base/nearest.h"
#include "cli/echo.h"

const struct cli_group cli_groups[] = {
    {"once per key", {&cli_run, &cli_call}},
    {"looking and deciding", {&cli_ls, &cli_get, &cli_watch, &cli_resolve, &cli_forget}},
    {"keys and objects", {&cli_key, &cli_apply, &cli_object, &cli_laws}},
    {"the server", {&cli_serve, &cli_gateway, &cli_namespace}},
    {"the store's files", {&cli_check, &cli_inspect, &cli_backup}},
    {"learning more", {&cli_sim, &cli_help, &cli_man, &cli_completion}},
};
const size_t cli_group_count = sizeof(cli_groups) / sizeof(cli_groups[0]);

enum { GROUP_SIZE = sizeof(cli_groups[0].commands) / sizeof(cli_groups[0].commands[0]) };

const struct cli_command *cli_command_next(const struct cli_command *command)
{
    bool found = command == NULL;

    for (size_t i = 0; i < cli_group_count; i++) {
        for (size_t j = 0; j < GROUP_SIZE && cli_groups[i].commands[j] != NULL; j++) {
            if (found)
                return cli_groups[i].commands[j];
            found = cli_groups[i].commands[j] == command;
        }
    }
    return NULL;
}

const struct cli_command *cli_command_find(const char *name)
{
    const struct cli_command *command = NULL;

    while ((command = cli_command_next(command)) != NULL) {
        if (strcmp(command->name, name) == 0)
            return command;
    }
    return NULL;
}

const struct cli_group *cli_command_group(const struct cli_command *command)
{
    for (size_t i = 0; i < cli_group_count; i++) {
        for (size_t j = 0; j < GROUP_SIZE && cli_groups[i].commands[j] != NULL; j++) {
            if (cli_groups[i].commands[j] == command)
                return &cli_groups[i];
        }
    }
    return NULL;
}

const struct cli_option *cli_command_options(const struct cli_command *command, size_t *ret_count)
{
    if (command->make_options)
        return command->make_options(ret_count);
    *ret_count = command->option_count;
    return command->options;
}

const char *cli_command_nearest(const char *name)
{
    struct once__nearest nearest = {.typed = name, .size = strlen(name)};
    const struct cli_command *command = NULL;

    while ((command = cli_command_next(command)) != NULL)
        once__nearest_try(&nearest, command->name);
    return nearest.best;
}

const struct cli_command *cli_command_named(const struct cli_command *command, const char *name)
{
    const struct cli_command *found = cli_command_find(name);
    const char *nearest = found ? NULL : cli_command_nearest(name);

    if (!found)
        (void)cli_usage(command, "there is no command '%s'%s%s%s", cli_echo(name).text,
                        nearest ? "; did you mean '" : "", nearest ? nearest : "",
                        nearest ? "'?" : "");
    return found;
}
