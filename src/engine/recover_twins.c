/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery after something was given up (`once check --repair`). A record tells which one it
 * replaces; if that one is lost, so is the word that it replaced an older one, and the older one
 * would be found beside the newest. Here the older ones of a name go, before anyone can see or
 * carry them.
 */
#include "engine/recovery.h"

#include <stdlib.h>

struct twin {
    uint64_t hash;
    uint64_t place;
    uint64_t position;
};

struct twins {
    const struct once__engine *engine;
    struct twin *at;
    size_t count, capacity;
    bool no_memory;
};

enum { PAGE_COUNT = 4096 };

static void note(void *user, uint64_t hash_top, struct once__index_value value)
{
    struct twins *twins = user;
    const struct once__segment *segment = twins->engine->segments[once__place_slot(value.place)];

    if (twins->count == twins->capacity) {
        size_t capacity = twins->capacity > 0 ? 2 * twins->capacity : PAGE_COUNT;
        struct twin *at = realloc(twins->at, capacity * sizeof(*at));

        if (!at) {
            twins->no_memory = true;
            return;
        }
        twins->at = at;
        twins->capacity = capacity;
    }
    twins->at[twins->count++] = (struct twin){
        .hash = hash_top,
        .place = value.place,
        .position = once__position(twins->engine, segment->sequence,
                                   once__place_offset(value.place)),
    };
}

static int read_twin(struct once__engine *engine, const struct twin *twin,
                     struct once__log_record *ret_rec, uint32_t *ret_size, void **ret_memory)
{
    const struct once__segment *segment = engine->segments[once__place_slot(twin->place)];

    if (!segment->image)
        return once__segment_read_record(engine, twin->place, ret_rec, ret_size, ret_memory);
    once__record_view(segment->image + once__place_offset(twin->place), ret_rec, ret_size);
    *ret_memory = NULL;
    return ONCE_OK;
}

/* Takes the older of two entries out of the index if they have one name. *ret_same says so. */
static int settle_pair(struct once__engine *engine, const struct twin *a, const struct twin *b,
                       bool *ret_same)
{
    const struct twin *older = a->position < b->position ? a : b;
    const struct twin *newer = older == a ? b : a;
    struct once__log_record old_rec, new_rec;
    void *old_memory = NULL, *new_memory = NULL;
    uint32_t old_size, new_size;
    int err = read_twin(engine, older, &old_rec, &old_size, &old_memory);

    if (err != ONCE_OK)
        return err;
    err = read_twin(engine, newer, &new_rec, &new_size, &new_memory);
    *ret_same = err == ONCE_OK && once__bytes_equal(old_rec.key, new_rec.key) &&
                once__bytes_equal(old_rec.ns, new_rec.ns);
    if (*ret_same) {
        struct once__change change = {.had = true,
                                      .before = once__weight_of(&old_rec.record, old_size)};
        bool removed = once__index_remove(engine->index, older->hash, older->place);

        ONCE_ASSERT(removed);
        once__segment_lose(engine->segments[once__place_slot(older->place)], change.before);
        once__space_changed(engine, &change);
    }
    free(old_memory);
    free(new_memory);
    return err;
}

/* Entries of one hash stand together. A pair of the same name loses its older one; what is left of
 * a page with more of them is looked at again. */
static int settle_page(struct once__engine *engine, const struct twins *twins, bool *ret_again)
{
    for (size_t i = 0; i < twins->count; i++) {
        for (size_t j = i + 1; j < twins->count && twins->at[j].hash == twins->at[i].hash; j++) {
            bool same;
            int err = settle_pair(engine, &twins->at[i], &twins->at[j], &same);

            if (err != ONCE_OK)
                return err;
            if (same) {
                *ret_again = true;
                return ONCE_OK;
            }
        }
    }
    *ret_again = false;
    return ONCE_OK;
}

int once__recovery_drop_twins(struct once__recovery *recovery)
{
    struct once__engine *engine = recovery->engine;
    struct once__index_page page = {.count = PAGE_COUNT, .shards_max = ONCE__SHARD_COUNT};
    struct twins twins = {.engine = engine};
    bool again = false;
    int err = ONCE_OK;

    while (engine->gaps && err == ONCE_OK) {
        uint64_t next;

        twins.count = 0;
        err = once__index_walk(engine->index, &page, note, &twins, &next);
        if (err == ONCE_OK && twins.no_memory)
            err = ONCE_ERR_MEMORY;
        if (err == ONCE_OK)
            err = settle_page(engine, &twins, &again);
        if (err != ONCE_OK || again)
            continue;
        if (next == 0)
            break;
        page.cursor = next;
    }
    free(twins.at);
    return err;
}
