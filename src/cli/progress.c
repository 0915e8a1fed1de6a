/* SPDX-License-Identifier: Apache-2.0
 *
 * A line that says how far long work is.
 */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    QUIET_MS = 200, /* shorter work shows nothing */
    STEP_MS = 100,  /* between two lines */
    BAR_SIZE = 24
};

static once_ms now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void cli_progress_start(struct cli_progress *progress, const char *what)
{
    const char *term = getenv("TERM");

    *progress = (struct cli_progress){.what = what,
                                      .terminal = isatty(STDERR_FILENO) && term && term[0] &&
                                                  strcmp(term, "dumb") != 0,
                                      .start_ms = now_ms()};
}

/* Is it time for another line? */
static bool is_due(struct cli_progress *progress)
{
    once_ms now;

    if (!progress->terminal)
        return false;
    now = now_ms();
    if (now - progress->start_ms < QUIET_MS || now - progress->drawn_ms < STEP_MS)
        return false;
    progress->drawn_ms = now;
    progress->drawn = true;
    return true;
}

void cli_progress_bytes(void *user, uint64_t done, uint64_t all)
{
    struct cli_progress *progress = user;
    char bar[BAR_SIZE + 1];
    size_t full;

    progress->done = done;
    if (!is_due(progress))
        return;
    done = done < all ? done : all;
    full = all > 0 ? (size_t)(done / (all / BAR_SIZE + 1)) : 0;
    memset(bar, '-', BAR_SIZE);
    memset(bar, '#', full < BAR_SIZE ? full : BAR_SIZE);
    bar[BAR_SIZE] = '\0';
    fprintf(stderr, "\r%s [%s] %3" PRIu64 " %%  %" PRIu64 " of %" PRIu64 " MiB\033[K",
            progress->what, bar, all > 0 ? (uint64_t)((double)done * 100 / (double)all) : 0,
            done >> 20, all >> 20);
    fflush(stderr);
}

void cli_progress_found(struct cli_progress *progress, uint64_t count)
{
    progress->done = count;
    if (!is_due(progress))
        return;
    fprintf(stderr, "\r%s, %" PRIu64 " found so far, %" PRId64 " s\033[K", progress->what, count,
            (progress->drawn_ms - progress->start_ms) / 1000);
    fflush(stderr);
}

void cli_progress_wipe(struct cli_progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    progress->drawn = false;
}
