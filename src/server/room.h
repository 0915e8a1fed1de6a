/* SPDX-License-Identifier: Apache-2.0
 *
 * The waiting room: begins that were told BUSY and may wait (D4).
 *
 * Calls of one name (namespace and key) stand in a line in the order in which they came. What the
 * head of a line learns by beginning again decides about the others, so that ten thousand who wait
 * for one operation cost one question a second, and an operation that fails again and again does
 * not make all of them ask each time. Whoever leaves hands the duty to ask on to the next: nobody
 * is stranded, whatever becomes of the one before.
 *
 *     park ──┬── take (the operation has ended)            → begins again
 *            ├── the head's probe is due                   → begins again
 *            └── its wait is over, cancelled, drained      → told BUSY
 *
 * Every function may be called from any thread.
 */
#ifndef ONCE_SERVER_ROOM_H
#define ONCE_SERVER_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "server/service.h"

struct once__room;

ONCE_MUST_CHECK int once__room_new(struct once__metrics *metrics, struct once__room **ret_room);
void once__room_free(struct once__room *room); /* nobody is in it. Accepts NULL */

/* Others may end what is waited for here, and nobody tells: heads of lines ask often from here on.
 */
void once__room_share(struct once__room *room);

/* A begin that was told BUSY, with retry_ms in its reply. False: it may not wait (any longer), or
 * there is no room for it: tell it. */
bool once__room_park(struct once__room *room, struct once__call *call, uint64_t now_ns);

/* Takes out the line of this name, or only its head, for them to begin again: a list by
 * parking.chain. NULL: nobody waits. Costs next to nothing while the room is empty. */
struct once__call *once__room_take(struct once__room *room, const struct once_op *op, bool all,
                                   uint64_t now_ns);

/* Has its caller gone? */
bool once__room_cancelled(struct once__room *room, const struct once__call *call);
void once__room_cancel(struct once__room *room, struct once__call *call);

/* Tells this list of calls, which are not parked, from the timer's thread. */
void once__room_tell(struct once__room *room, struct once__call *list);

/* Everyone parked is told, and nobody is parked any more. */
void once__room_drain(struct once__room *room);

size_t once__room_count(const struct once__room *room);

/* What the timer's thread is to do: lists by parking.chain. */
struct once__room_due {
    struct once__call *tell;  /* their replies are there */
    struct once__call *again; /* begin again */
};
/* Waits until something is due. False: the room is stopped. */
bool once__room_wait(struct once__room *room, struct once__room_due *ret_due);
void once__room_stop(struct once__room *room);

uint64_t once__now_ns(void); /* CLOCK_MONOTONIC */

#endif
