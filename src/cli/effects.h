/* SPDX-License-Identifier: Apache-2.0
 *
 * Effects as they are typed: each argument is one line of words.
 */
#ifndef ONCE_CLI_EFFECTS_H
#define ONCE_CLI_EFFECTS_H

#include <once/apply.h>

#include "cli/cli.h"

struct cli_effects {
    const char *const *texts; /* the arguments; they belong to argv */
    size_t count;
    struct once_do dos[ONCE_EFFECTS_MAX];
    struct once_bytes *words; /* of all of them; some point into scratch */
    uint8_t *scratch;
};

/* Splits and checks them all. Otherwise tells which effect and which word is wrong, and returns an
 * exit status that is not CLI_OK. Release them either way. */
int cli_effects_read(const struct cli_command *command, const char *const *texts, size_t count,
                     struct cli_effects *ret_effects);
void cli_effects_release(struct cli_effects *effects);

/* The forms of all effects, for --help. */
#define CLI_HELP_EFFECTS                                                                           \
    "  ADD name n [MIN m] [MAX m]        a counter; gives its new value\n"                         \
    "  MAX name n, MIN name n            the largest, the smallest number; gives it\n"             \
    "  FLAG name                         raised for ever\n"                                        \
    "  UNION name member...              a set that grows; gives how many were new\n"              \
    "  CLOCK name node n                 a version vector\n"                                       \
    "  LWW name time node value          last writer wins; gives 1 if it won, else 0\n"            \
    "  GADD name node n                  a counter that grows, merged by node; gives the sum\n"    \
    "  PNADD name node n                 the same, up and down\n"                                  \
    "  INSERT name node member...        an add-wins set; gives how many were new\n"               \
    "  REMOVE name member...             out of that set; gives how many were there\n"             \
    "  SET name value [IF version]       a register; gives its new version\n"                      \
    "  DELETE name [IF version]          its value goes, its version stays\n"                      \
    "  MACHINE name from>to...           declares the moves; begins in the first state named\n"    \
    "  MOVE name from to                 along a declared move; gives the state\n"                 \
    "  APPEND name event_id payload [AT version]   an event log; gives its new version\n"          \
    "  GRANT name                        a fencing token, larger than all before\n"                \
    "  GUARD name token                  lets a token above the highest through, once\n"           \
    "  LEASE name owner ms               a lease with a token; refused while another has it\n"     \
    "  RENEW name token ms, RELEASE name token, HOLD name token\n"                                 \
    "  SEQ name epoch n                  a producer's number: \"new\" or \"duplicate\"\n"          \
    "  BUCKET name bucket n              counts by bucket; gives the bucket's count\n"             \
    "  EMIT topic payload [GROUP g]      a message into the outbox; gives its number\n"            \
    "  SENT topic number...              messages out of the outbox; gives how many were there\n"

#endif
