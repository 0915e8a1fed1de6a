/* SPDX-License-Identifier: Apache-2.0
 *
 * The power-cut test: random work on a disk that loses power, checked against a model (model.h).
 *
 *     power --cuts 20000              at least that many cuts; 1 and a history on a violation
 *     power --seed 7 --verbose        one run again, with everything that happens in it
 *     power --exhaustive              small workloads, a fault at every single disk operation
 *     power --mutant gap-skipped      a deliberately broken engine: 0 when it is caught
 *
 * ONCE_POWER_CUTS overrides --cuts: slow builds do fewer.
 */
#include "power/command.h"

int main(int argc, char **argv)
{
    static const struct command command = {.name = "power", .cuts_variable = "ONCE_POWER_CUTS"};

    return command_main(&command, argc, argv);
}
