/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of a server as one JSON document, for /v1/stats, ONCE.STATS and whoever watches:
 * what metrics.c has counted, what the store says, and how many operations are in doubt.
 *
 * Pages and terminals ask every second. Who asks within ONCE_STATS_MS of another is given the same
 * document, and doubts are counted at most every ONCE_DOUBTS_MS, so that many watchers cost as much
 * as one. Everything here may wait: it is for a lane, never for a loop.
 */
#ifndef ONCE_SERVER_STATS_H
#define ONCE_SERVER_STATS_H

#include "server/access.h"
#include "server/metrics.h"

struct once__server;
struct once__stats;

ONCE_MUST_CHECK int once__stats_new(struct once__stats **ret_stats);
void once__stats_free(struct once__stats *stats); /* accepts NULL */

/* Appends the document as this caller may see it: totals for everyone who is known, and the
 * namespaces that are theirs. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__stats_write(struct once__stats *stats, const struct once__server *server,
                                      const struct once__config *config,
                                      const struct once__identity *identity, struct once_buf *out);

/* Operations that have not ended. */
struct once__open_counts {
    uint64_t doubts;  /* at least, when there are more */
    uint64_t started; /* at most, then */
    bool more;        /* counting stopped at ONCE_DOUBTS_COUNT_MAX, or took too long */
};
/* Counts them, or remembers. store may be NULL: then there are none. */
struct once__open_counts once__stats_open(struct once__stats *stats, struct once_store *store);

/* Bytes of memory that are the process's own and in use; 0: the system does not say. */
uint64_t once__resident_size(void);

#endif
