/* SPDX-License-Identifier: Apache-2.0
 *
 * Store time (INV-6): it starts at the later of wall time and the last durable time, and advances
 * with the boot-time clock, which nobody can set. It never runs back and never leaps.
 */
#ifndef ONCE_ENGINE_CLOCK_H
#define ONCE_ENGINE_CLOCK_H

#include <once/verdict.h>

/* Where time comes from; tests bring their own. Both in ms, from any thread. */
struct once__time_source {
    once_ms (*wall_ms)(void *self); /* since 1970; may jump */
    once_ms (*boot_ms)(void *self); /* since any point; never runs back, counts sleep */
    void *self;
};

extern const struct once__time_source once__system_time;

struct once__clock {
    const struct once__time_source *source;
    once_ms start_ms; /* store time at boot_ms */
    once_ms boot_ms;
};

/* Starts the clock. ONCE_ERR_CLOCK when the wall clock is outside the years 1970 to 9999. */
ONCE_MUST_CHECK int once__clock_start(struct once__clock *clock,
                                      const struct once__time_source *source,
                                      once_ms last_durable_ms);

/* Store time now; at most ONCE_NOW_MS_MAX. */
once_ms once__clock_now(const struct once__clock *clock);

#endif
