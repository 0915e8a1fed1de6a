/* SPDX-License-Identifier: Apache-2.0
 *
 * Scripts with which shells complete `once …`, made from the tables of the commands.
 */
#ifndef ONCE_CLI_COMPLETION_H
#define ONCE_CLI_COMPLETION_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/commands.h"

/* Each prints one script. */
void cli_completion_bash(FILE *out);
void cli_completion_zsh(FILE *out);
void cli_completion_fish(FILE *out);

/* What can be offered for the value of an option. */
enum cli_offer {
    CLI_OFFER_NO_VALUE, /* it takes none */
    CLI_OFFER_WORDS,    /* its value is called "one|two|three" */
    CLI_OFFER_FOLDERS,
    CLI_OFFER_FILES,
    CLI_OFFER_NOTHING
};
enum cli_offer cli_offer_of(const struct cli_option *option);

/* The words of such a value with blanks between. */
void cli_offer_words(FILE *out, const struct cli_option *option);

/* The words that a command's first argument may be, with blanks between; nothing where it is no
 * word of ours. */
void cli_offer_arguments(FILE *out, const struct cli_command *command);
bool cli_offer_has_arguments(const struct cli_command *command);

/* Whether a command of somebody else's stands behind --: "once run KEY -- COMMAND". */
bool cli_offer_runs_commands(const struct cli_command *command);

/* Text between single quotes, where escapes is what the shell writes for characters in it that it
 * would read: pairs of a character and text, up to NULL. */
struct cli_escape {
    char character;
    const char *text;
};
void cli_offer_escaped(FILE *out, const char *text, const struct cli_escape *escapes);

#endif
