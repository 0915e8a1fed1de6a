/* SPDX-License-Identifier: Apache-2.0
 *
 * The command of a power-cut test, for each of the tests that are one.
 */
#ifndef ONCE_TESTS_POWER_COMMAND_H
#define ONCE_TESTS_POWER_COMMAND_H

#include "power/run.h"

struct command {
    const char *name;
    const char *cuts_variable;   /* of the environment: overrides --cuts */
    struct extension *extension; /* may be NULL */
    void (*finish)(void);        /* at the very end, after the numbers; may be NULL */
};

/* What main returns: 0 no violation, or the mutant was caught; 1; 64 usage. */
int command_main(const struct command *command, int argc, char **argv);

#endif
