/* SPDX-License-Identifier: Apache-2.0
 *
 * The work behind the scenes, by one thread: writes on an interval, sidecars, expiry, and keeping
 * spare segments ready. Nothing that a caller waits for depends on it, but for spare segments,
 * which a caller makes itself when there is none.
 */
#include "engine/inner.h"

#include <time.h>

/* Spares ready to be written to without cost; spares beyond what is reserved that are too many. */
enum { FILLED_WANTED = 2, AHEAD_MOST = 12, AT_ONCE = 16, SLEEP_MS = 1000 };

/* Makes some spares at once: what the first sync makes durable costs the others nothing. */
static bool make_spares(struct once__engine *engine)
{
    bool fill = engine->filled_count < FILLED_WANTED && (engine->rested || engine->manual);
    struct once__file *files[AT_ONCE];
    uint32_t slots[AT_ONCE], count = 0;
    int errs[AT_ONCE], err = ONCE_OK;

    if (engine->no_spare || engine->log.failed != ONCE_OK || (!fill && !once__space_short(engine)))
        return false;
    while (count < AT_ONCE && count < (fill ? 1 : once__space_spares_ahead(engine))) {
        if (!once__space_allows(engine, (uint64_t)(count + 1) * engine->segment_size))
            break;
        if (once__segment_new_slot(engine, &slots[count]) != ONCE_OK)
            break;
        count++;
    }
    pthread_mutex_unlock(&engine->lock);
    for (uint32_t i = 0; i < count; i++)
        errs[i] = once__segment_make_file(engine, slots[i], fill, &files[i]);
    for (uint32_t i = 0; i < count; i++) {
        if (errs[i] == ONCE_OK)
            errs[i] = once__segment_sync_file(engine, slots[i], files[i]);
    }
    if (count > 0)
        err = once__segment_sync_names(engine);
    pthread_mutex_lock(&engine->lock);
    engine->no_spare = count == 0;
    for (uint32_t i = 0; i < count; i++) {
        if (errs[i] == ONCE_OK)
            errs[i] = err;
        once__segment_made(engine, slots[i], errs[i], fill);
        engine->no_spare = engine->no_spare || errs[i] != ONCE_OK;
    }
    return !engine->no_spare;
}

static bool find_surplus(const struct once__engine *engine, uint32_t *ret_slot)
{
    uint32_t needed = once__space_spares_needed(engine);
    bool have = false;

    if (engine->spare_count <= needed ||
        (engine->spare_count <= needed + AHEAD_MOST + needed / 4 && once__space_allows(engine, 0)))
        return false;
    for (uint32_t slot = 0; slot < engine->segment_count; slot++) {
        const struct once__segment *segment = engine->segments[slot];

        if (segment->state != ONCE__SEGMENT_SPARE)
            continue;
        *ret_slot = slot;
        have = true;
        if (!segment->filled)
            break;
    }
    return have;
}

static bool remove_spare(struct once__engine *engine)
{
    struct once__segment *segment;
    char name[ONCE__NAME_SIZE];
    uint32_t slot;
    int err;

    if (!find_surplus(engine, &slot))
        return false;
    segment = engine->segments[slot];
    engine->spare_count--;
    engine->filled_count -= segment->filled ? 1 : 0;
    segment->state = ONCE__SEGMENT_BUSY;
    pthread_mutex_unlock(&engine->lock);
    once__segment_forget_reader(engine, slot);
    once__segment_name(slot, name);
    (void)engine->vfs->ops->remove(engine->vfs, name); /* if not, it is a spare after a restart */
    err = once__segment_sync_names(engine);            /* its space is free only then */
    pthread_mutex_lock(&engine->lock);
    segment->state = ONCE__SEGMENT_NONE;
    engine->file_count--;
    if (err != ONCE_OK && engine->log.failed == ONCE_OK) {
        engine->log.failed = ONCE_ERR_IO;
        once__commit_after_write(engine);
    }
    return err == ONCE_OK;
}

static bool spares_work(struct once__engine *engine)
{
    bool more;

    pthread_mutex_lock(&engine->lock);
    more = make_spares(engine) || remove_spare(engine);
    pthread_mutex_unlock(&engine->lock);
    return more;
}

static void flush_on_interval(struct once__engine *engine)
{
    once_ms boot_ms = engine->clock.source->boot_ms(engine->clock.source->self);

    if (engine->options.durability != ONCE_LOSES_INTERVAL ||
        boot_ms - engine->flushed_boot_ms < engine->options.interval_ms)
        return;
    pthread_mutex_lock(&engine->lock);
    while (!once__log_settled(engine) && engine->log.failed == ONCE_OK) {
        if (engine->manual ? !once__commit_write_one(engine) : once__commit_some(engine) != ONCE_OK)
            break;
    }
    pthread_mutex_unlock(&engine->lock);
    engine->flushed_boot_ms = boot_ms;
}

bool once__keeper_work(struct once__engine *engine)
{
    bool more;

    flush_on_interval(engine);
    more = once__sidecar_work(engine);
    more = once__snapshot_work(engine) || more;
    more = once__retire_work(engine) || more; /* none of them waits for the others to be done */
    return spares_work(engine) || more;
}

void once__keeper_wake(struct once__engine *engine)
{
    engine->chore = true;
    pthread_cond_signal(&engine->chores);
}

/* Sleeps until there is a chore, or it is time to look for one. */
static void rest(struct once__engine *engine)
{
    bool interval = engine->options.durability == ONCE_LOSES_INTERVAL;
    once_ms sleep_ms = interval && engine->options.interval_ms < SLEEP_MS
                           ? engine->options.interval_ms
                           : SLEEP_MS;
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += sleep_ms / 1000;
    until.tv_nsec += sleep_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    while (!engine->chore && !engine->stop) {
        if (pthread_cond_timedwait(&engine->chores, &engine->lock, &until) != 0)
            break;
    }
    engine->rested = true;
    engine->no_spare = false;
    engine->objects.unlucky = false;
}

static void *keeper_main(void *arg)
{
    struct once__engine *engine = arg;

    pthread_mutex_lock(&engine->lock);
    while (!engine->stop) {
        bool more = true;

        engine->chore = false;
        pthread_mutex_unlock(&engine->lock);
        while (more) {
            more = once__keeper_work(engine);
            pthread_mutex_lock(&engine->lock);
            more = more && !engine->stop;
            pthread_mutex_unlock(&engine->lock);
        }
        pthread_mutex_lock(&engine->lock);
        rest(engine);
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

int once__keeper_start(struct once__engine *engine)
{
    if (pthread_create(&engine->keeper, NULL, keeper_main, engine) != 0)
        return ONCE_ERR_MEMORY;
    engine->keeper_started = true;
    return ONCE_OK;
}

void once__keeper_stop(struct once__engine *engine)
{
    if (!engine->keeper_started)
        return;
    pthread_mutex_lock(&engine->lock);
    engine->stop = true;
    pthread_cond_signal(&engine->chores);
    pthread_mutex_unlock(&engine->lock);
    pthread_join(engine->keeper, NULL);
    engine->keeper_started = false;
}
