/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the arguments of a subcommand, in the same way for all of them.
 */
#ifndef ONCE_CLI_OPTIONS_H
#define ONCE_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"

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

/* The next argument: an option's id with its value in ret_value ("--name value" or "--name=value";
 * NULL without), or one of the above. The text belongs to argv. */
int cli_args_next(struct cli_args *args, const char **ret_value);

/* Decimal digits and nothing else, from min to max. */
bool cli_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret_number);

/* Whether a flag stands among the arguments before "--", wherever: for --help and --json, which
 * must work also where the other arguments are wrong. */
bool cli_has_flag(int argc, char **argv, const char *flag);

#endif
