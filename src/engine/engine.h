/* SPDX-License-Identifier: Apache-2.0
 *
 * The embedded store, as the rest of Once sees it besides <once/store.h>: how to open it on any
 * disk and clock, and how tests drive it by hand.
 */
#ifndef ONCE_ENGINE_ENGINE_H
#define ONCE_ENGINE_ENGINE_H

#include <once/store.h>

#include "engine/clock.h"
#include "engine/vfs.h"

struct once__engine_setup {
    struct once__vfs *vfs; /* taken, also on failure: freed with the store */
    const struct once__time_source *time;
    struct once_options options;
    /* No threads: what was submitted moves only by the calls below. Blocking calls still work:
     * the caller writes. */
    bool manual;
};

/* As once_open, on any disk and any clock. */
ONCE_MUST_CHECK int once__engine_open(const struct once__engine_setup *setup,
                                      struct once_store **ret_store,
                                      struct once_message *ret_message);

/* Drops the store as a crash would: nothing more is written, nothing more is told. */
void once__engine_crash(struct once_store *store);

/* ---- By hand (manual) ------------------------------------------------------------------------ */

struct once__write; /* a durable write under way */

/* The next batch to write, or NULL: nothing to write, or ONCE_BATCHES_IN_FLIGHT_MAX are under way.
 */
struct once__write *once__engine_take(struct once_store *store);
/* Writes it. Several may be under way, and end in any order. */
ONCE_MUST_CHECK int once__engine_write(struct once_store *store, struct once__write *write);
/* Says how it went. What may be told now is told: callbacks run in here. */
void once__engine_written(struct once_store *store, struct once__write *write, int err);
/* One piece of the work behind the scenes: filling a spare segment, a sidecar, expiry. False when
 * there is nothing to do now. */
bool once__engine_work(struct once_store *store);

#endif
