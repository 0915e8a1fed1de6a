/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the arguments of a subcommand, in the same way for all of them.
 */
#ifndef ONCE_CLI_OPTIONS_H
#define ONCE_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <once/verdict.h>

#include "cli/cli.h"

/* What --help says about an option that several commands have. */
#define CLI_HELP_DIR                                                                               \
    "  --dir DIR  the store's folder (default: $ONCE_DIR, else $XDG_DATA_HOME/once, else\n"        \
    "             ~/.local/share/once)\n"

struct cli_option {
    const char *name;  /* with its dashes */
    const char *value; /* what the value is called in messages; NULL when there is none */
    int id;            /* not negative */
};

/* What cli_args_next gives besides ids. */
enum {
    CLI_ARG_END = -1,
    CLI_ARG_VALUE = -2, /* an argument that is no option */
    CLI_ARG_WRONG = -3  /* told already: return CLI_USAGE */
};

struct cli_args {
    const struct cli_command *command;
    const struct cli_option *options;
    size_t option_count;
    int argc;
    char **argv;
    int next; /* index of the next argument; starts behind the subcommand and what belongs to it */
    bool options_end; /* behind "--" nothing is an option */
};

/* The arguments of a command behind its name. options is an array. */
#define CLI_ARGS(cli_command, cli_options, count, vector)                                          \
    {                                                                                              \
        .command = (cli_command), .options = (cli_options),                                        \
        .option_count = sizeof(cli_options) / sizeof((cli_options)[0]), .argc = (count),           \
        .argv = (vector), .next = 1                                                                \
    }

/* The next argument: an option's id with its value in ret_value ("--name value" or "--name=value";
 * NULL without), or one of the above. The text belongs to argv. */
int cli_args_next(struct cli_args *args, const char **ret_value);

/* Decimal digits and nothing else, from min to max. */
bool cli_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret_number);

/* A length of time: digits and a unit, one of ms s m h d, such as 24h; from 1 ms to max_ms. */
bool cli_duration(const char *text, once_ms max_ms, once_ms *ret_ms);

/* Whether a flag stands among the arguments before "--", wherever: for --help and --json, which
 * must work also where the other arguments are wrong. */
bool cli_has_flag(int argc, char **argv, const char *flag);

#endif
