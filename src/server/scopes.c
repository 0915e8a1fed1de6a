/* SPDX-License-Identifier: Apache-2.0
 *
 * Namespaces that hold operations. A walk over the store is made in pieces and remembered: its
 * cursor stands where the last piece ended, and what is begun behind it is known by the counters.
 * They do not know scopes ("pay~acme" is counted as pay), nor namespaces past
 * ONCE_METRICS_NAMESPACES_MAX: when something was begun in one of those since a walk began, it is
 * worth nothing at its end and begins anew. The names that it found stay.
 */
#include "server/scopes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "server/metrics_inner.h"
#include "server/room.h"

enum { WALK_PAGE = 50, NS_IN_MS = 1000000 }; /* records may be large: see ONCE_SCOPES_LOOK_MS */

struct once__scopes {
    pthread_mutex_t lock;
    struct once__scope_names names; /* of records that were seen */
    uint64_t cursor;
    uint64_t uncounted; /* once__metrics_uncounted when this walk began */
    bool whole;         /* it has come to its end */
    bool no_memory;
};

/* ---- Names ----------------------------------------------------------------------------------- */

void once__scope_names_release(struct once__scope_names *names)
{
    free(names->names);
    *names = (struct once__scope_names){0};
}

/* Where the name is, or where it belongs. */
static size_t place_of(const struct once__scope_names *names, const char *name, bool *ret_there)
{
    size_t from = 0, to = names->count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(names->names[middle], name);

        if (order == 0) {
            *ret_there = true;
            return middle;
        }
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    *ret_there = false;
    return from;
}

bool once__scope_names_add(struct once__scope_names *names, struct once_bytes name)
{
    char text[ONCE_NAMESPACE_SIZE_MAX + 1];
    bool there;
    size_t at;

    if (name.size == 0 || name.size > ONCE_NAMESPACE_SIZE_MAX)
        return true; /* it is no namespace */
    memcpy(text, name.data, name.size);
    text[name.size] = '\0';
    at = place_of(names, text, &there);
    if (there)
        return true;
    if (names->count == ONCE_SCOPES_MAX) {
        names->full = true;
        return true;
    }
    if (names->count == names->capacity) {
        size_t capacity = names->capacity > 0 ? 2 * names->capacity : 16;
        void *memory = realloc(names->names, capacity * sizeof(*names->names));

        if (!memory)
            return false;
        names->names = memory;
        names->capacity = capacity;
    }
    memmove(names->names + at + 1, names->names + at, (names->count - at) * sizeof(*names->names));
    memcpy(names->names[at], text, sizeof(text));
    names->count++;
    return true;
}

static bool add_all(struct once__scope_names *names, const struct once__scope_names *more)
{
    for (size_t i = 0; i < more->count; i++) {
        if (!once__scope_names_add(names, once_bytes_of(more->names[i])))
            return false;
    }
    names->full = names->full || more->full;
    return true;
}

/* ---- What the server knows ------------------------------------------------------------------- */

/* The namespace, and where it is by_user that of each user. */
static bool add_asked(struct once__scope_names *names, const struct once__config *config,
                      const char *ns)
{
    const struct once__policy *policy = once__config_policy(config, once_bytes_of(ns));

    if (!once__scope_names_add(names, once_bytes_of(ns)))
        return false;
    if (!policy || !policy->by_user || strchr(ns, '@'))
        return true;
    for (size_t i = 0; i < config->user_count; i++) {
        char text[ONCE_NAMESPACE_SIZE_MAX + ONCE_USER_SIZE_MAX + 2];

        (void)snprintf(text, sizeof(text), "%s@%s", ns, config->users[i].name);
        if (!once__scope_names_add(names, once_bytes_of(text)))
            return false;
    }
    return true;
}

static bool add_known(struct once__scope_names *names, const struct once__config *config,
                      const struct once__metrics *metrics)
{
    const struct once__counts *counts;
    size_t at = 0;

    for (size_t i = 0; i < config->policy_count; i++) {
        if (!add_asked(names, config, config->policies[i].name))
            return false;
    }
    while ((counts = once__metrics_each(metrics, &at))) {
        if (strcmp(counts->ns, ONCE__OTHERS) != 0 && !add_asked(names, config, counts->ns))
            return false;
    }
    return true;
}

/* ---- What the store holds -------------------------------------------------------------------- */

static void see(void *user, const struct once_item *item)
{
    struct once__scopes *scopes = user;

    if (!once__scope_names_add(&scopes->names, item->ns))
        scopes->no_memory = true;
}

/* Under the lock: two who search wait for one another. *ret_whole: the names are those of all
 * that was begun before this look. */
static int walk(struct once__scopes *scopes, struct once_store *store,
                const struct once__metrics *metrics, bool *ret_whole)
{
    uint64_t end_ns = once__now_ns() + (uint64_t)ONCE_SCOPES_LOOK_MS * NS_IN_MS;
    uint64_t uncounted = once__metrics_uncounted(metrics);
    int err = ONCE_OK;

    scopes->whole = scopes->whole && scopes->uncounted == uncounted;
    scopes->no_memory = false;
    while (err == ONCE_OK && !scopes->whole && once__now_ns() < end_ns) {
        if (scopes->cursor == 0)
            scopes->uncounted = uncounted;
        err = once_list(store, NULL, scopes->cursor, WALK_PAGE, see, scopes, &scopes->cursor);
        if (err == ONCE_OK && scopes->no_memory)
            err = ONCE_ERR_MEMORY;
        scopes->whole = err == ONCE_OK && scopes->cursor == 0;
    }
    *ret_whole = scopes->whole && scopes->uncounted == uncounted;
    return err;
}

int once__scopes_new(struct once__scopes **ret_scopes)
{
    struct once__scopes *scopes = calloc(1, sizeof(*scopes));

    if (!scopes)
        return ONCE_ERR_MEMORY;
    pthread_mutex_init(&scopes->lock, NULL);
    *ret_scopes = scopes;
    return ONCE_OK;
}

void once__scopes_free(struct once__scopes *scopes)
{
    if (!scopes)
        return;
    once__scope_names_release(&scopes->names);
    pthread_mutex_destroy(&scopes->lock);
    free(scopes);
}

int once__scopes_look(struct once__scopes *scopes, struct once_store *store,
                      const struct once__config *config, const struct once__metrics *metrics,
                      struct once__scope_names *ret_names, bool *ret_whole)
{
    int err;

    ONCE_ASSERT(store);
    *ret_names = (struct once__scope_names){0};
    pthread_mutex_lock(&scopes->lock);
    err = walk(scopes, store, metrics, ret_whole);
    if (err == ONCE_OK && !add_all(ret_names, &scopes->names))
        err = ONCE_ERR_MEMORY;
    pthread_mutex_unlock(&scopes->lock);
    if (err == ONCE_OK && !add_known(ret_names, config, metrics))
        err = ONCE_ERR_MEMORY;
    *ret_whole = *ret_whole && !ret_names->full;
    return err;
}
