/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h. The wall clock is read once, at the start; from then on somebody who sets it changes
 * nothing until the store is opened again.
 */
#include "engine/clock.h"

#include <time.h>

#include <once/limits.h>

#include "base/assert.h"

static once_ms read_ms(clockid_t id)
{
    struct timespec now;

    /* Fails only for a clock that the kernel does not have. */
    ONCE_ASSERT(clock_gettime(id, &now) == 0);
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static once_ms system_wall_ms(void *self)
{
    (void)self;
    return read_ms(CLOCK_REALTIME);
}

static once_ms system_boot_ms(void *self)
{
    (void)self;
    return read_ms(CLOCK_BOOTTIME);
}

const struct once__time_source once__system_time = {
    .wall_ms = system_wall_ms,
    .boot_ms = system_boot_ms,
};

int once__clock_start(struct once__clock *clock, const struct once__time_source *source,
                      once_ms last_durable_ms)
{
    once_ms wall_ms = source->wall_ms(source->self);
    once_ms start_ms = wall_ms > last_durable_ms ? wall_ms : last_durable_ms;

    if (wall_ms < 0 || wall_ms > ONCE_NOW_MS_MAX)
        return ONCE_ERR_CLOCK;
    *clock = (struct once__clock){
        .source = source,
        .start_ms = start_ms < ONCE_NOW_MS_MAX ? start_ms : ONCE_NOW_MS_MAX,
        .boot_ms = source->boot_ms(source->self),
    };
    return ONCE_OK;
}

once_ms once__clock_now(const struct once__clock *clock)
{
    once_ms passed_ms = clock->source->boot_ms(clock->source->self) - clock->boot_ms;

    ONCE_ASSERT(clock->start_ms >= 0);
    if (passed_ms < 0)
        passed_ms = 0; /* a source that breaks its promise must not make store time run back */
    return passed_ms < ONCE_NOW_MS_MAX - clock->start_ms ? clock->start_ms + passed_ms
                                                         : ONCE_NOW_MS_MAX;
}
