/* SPDX-License-Identifier: Apache-2.0
 *
 * Namespaces that hold operations. The store finds an operation by its whole name, so whoever has
 * only a key must try every namespace; but nobody keeps a list of those. They are learnt: from
 * the configuration and the counters, which know what was used since the start, and by walking the
 * store once, a piece with each search, for what was used before.
 */
#ifndef ONCE_SERVER_SCOPES_H
#define ONCE_SERVER_SCOPES_H

#include <stdbool.h>

#include <once/store.h>

#include "server/config.h"
#include "server/metrics.h"

/* Names as they are kept ("pay@alice" where pay is by_user), sorted, each once. */
struct once__scope_names {
    char (*names)[ONCE_NAMESPACE_SIZE_MAX + 1];
    size_t count, capacity;
    bool full; /* ONCE_SCOPES_MAX: there may be more */
};
void once__scope_names_release(struct once__scope_names *names);
/* False: there is no memory. One that is there, or one too many, is no error. */
bool once__scope_names_add(struct once__scope_names *names, struct once_bytes name);

struct once__scopes;

ONCE_MUST_CHECK int once__scopes_new(struct once__scopes **ret_scopes);
void once__scopes_free(struct once__scopes *scopes); /* accepts NULL */

/* Walks on for ONCE_SCOPES_LOOK_MS, unless all of the store was walked; then gives every name that
 * is known. *ret_whole: there are no others. Waits for the store: on a lane. The caller releases
 * the names, also after an error (those of once_list). */
ONCE_MUST_CHECK int once__scopes_look(struct once__scopes *scopes, struct once_store *store,
                                      const struct once__config *config,
                                      const struct once__metrics *metrics,
                                      struct once__scope_names *ret_names, bool *ret_whole);

#endif
