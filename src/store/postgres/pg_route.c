/* SPDX-License-Identifier: Apache-2.0
 *
 * Which lane a call goes to. Calls of one name are decided in the order in which they were
 * submitted: as long as one is under way, all that follow go to the same lane. Names are told apart
 * by a bucket of their hash. A bucket with nothing under way may go anywhere: to the first lane
 * that is up and has little to do, so that few calls share one batch and many use every lane; and a
 * lane that has lost its session keeps waiting only those that it had.
 */
#include "store/postgres/pg_inner.h"

#include "base/assert.h"

static uint32_t choose(const struct once__pg_store *store)
{
    const struct once__pg_route *route = &store->route;
    uint32_t best = 0;
    bool any = false;

    for (uint32_t i = 0; i < store->lane_count; i++) {
        if (!atomic_load(&store->lanes[i].up))
            continue;
        if (route->counts[i] < ONCE__PG_FURTHER_COUNT)
            return i;
        if (!any || route->counts[i] < route->counts[best])
            best = i;
        any = true;
    }
    return best;
}

struct once__pg_lane *once__pg_route_enter(struct once__pg_store *store, uint64_t hash)
{
    struct once__pg_route *route = &store->route;
    size_t bucket = hash % ONCE__PG_BUCKETS;
    uint32_t lane;

    pthread_mutex_lock(&route->lock);
    if (route->buckets[bucket].count == 0)
        route->buckets[bucket].lane = choose(store);
    route->buckets[bucket].count++;
    lane = route->buckets[bucket].lane;
    route->counts[lane]++;
    pthread_mutex_unlock(&route->lock);
    return &store->lanes[lane];
}

void once__pg_route_leave(struct once__pg_store *store, uint64_t hash)
{
    struct once__pg_route *route = &store->route;
    size_t bucket = hash % ONCE__PG_BUCKETS;

    pthread_mutex_lock(&route->lock);
    ONCE_ASSERT(route->buckets[bucket].count > 0);
    route->buckets[bucket].count--;
    route->counts[route->buckets[bucket].lane]--;
    pthread_mutex_unlock(&route->lock);
}
