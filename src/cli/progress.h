/* SPDX-License-Identifier: Apache-2.0
 *
 * Says how far long work is: one line on stderr that is written over and gone at the end. Only on a
 * terminal, and only when the work takes longer than a moment.
 */
#ifndef ONCE_CLI_PROGRESS_H
#define ONCE_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include <once/verdict.h>

struct cli_progress {
    const char *what; /* "copying" */
    bool terminal;
    bool drawn; /* there is a line to be wiped away */
    once_ms start_ms;
    once_ms drawn_ms;
    uint64_t done; /* as told last */
};

/* Starts. what is static text. */
void cli_progress_start(struct cli_progress *progress, const char *what);
/* Bytes done, and in all: user is the struct cli_progress. For who takes a callback. */
void cli_progress_bytes(void *user, uint64_t done, uint64_t all);
/* So many of something were found, where nobody knows how much there is. */
void cli_progress_found(struct cli_progress *progress, uint64_t count);
/* Wipes the line away: before anything else is printed, and at the end. It may go on after. */
void cli_progress_wipe(struct cli_progress *progress);

#endif
