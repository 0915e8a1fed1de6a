/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of objects: a few of them of every type, and requests that mostly make sense, and
 * sometimes do not. A request is sent once, often, late, or after another that was made later.
 */
#ifndef ONCE_TESTS_APPLY_ASK_H
#define ONCE_TESTS_APPLY_ASK_H

#include "apply/world.h"
#include "power/chance.h"

enum { ASKER_REQUESTS_MAX = 40 };

struct asker {
    struct world *world;
    enum once_object_type types[WORLD_OBJECTS_MAX]; /* what an object is meant to be */
    unsigned large_percent;                         /* of payloads and values */
    struct request *requests[ASKER_REQUESTS_MAX];   /* that may be sent (again) */
    size_t request_count;
    uint64_t serial;
};

/* Names objects, into the world. */
void asker_start(struct asker *asker, struct world *world, struct chance *chance);
/* A request, new or old. */
const struct request *asker_next(struct asker *asker, struct chance *chance, once_ms now_ms);

/* May a request without a key mostly be of this kind? With an expected version others may too. */
bool ask_needs_no_key(enum ask_kind kind);

/* The words of an effect, into request->dos[i]. */
void ask_words(struct asker *asker, struct chance *chance, struct request *request, size_t i);

#endif
