/* SPDX-License-Identifier: Apache-2.0
 *
 * Manual pages in roff (man macros), made from the help texts and tables of the commands.
 */
#ifndef ONCE_CLI_MANUAL_H
#define ONCE_CLI_MANUAL_H

#include <stdio.h>

#include "cli/cli.h"

/* The page of one command; NULL is that of `once` itself. */
void cli_manual(FILE *out, const struct cli_command *command);

#endif
