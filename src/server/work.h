/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane: a few threads that do what would hold a loop up (comparing passwords, listing, reading
 * objects), in the order in which it came, with a bound on what waits.
 */
#ifndef ONCE_SERVER_WORK_H
#define ONCE_SERVER_WORK_H

#include <stddef.h>

#include <once/err.h>

struct once__lane;

struct once__job {
    void (*run)(struct once__job *job); /* on a thread of the lane; may wait; the job is the
                                         * caller's again when run returns */
    struct once__job *next;             /* inner */
};

ONCE_MUST_CHECK int once__lane_new(unsigned threads, size_t jobs_max, struct once__lane **ret_lane);
/* Runs what waits, then ends the threads. Accepts NULL. */
void once__lane_free(struct once__lane *lane);
/* ONCE_ERR_FULL: jobs_max are waiting; ONCE_ERR_CLOSED. Then run is not called. */
ONCE_MUST_CHECK int once__lane_add(struct once__lane *lane, struct once__job *job);

#endif
