/* SPDX-License-Identifier: Apache-2.0
 *
 * The world: what it remembers, and which of it holds after a prefix of the journal. What effects
 * do is in deeds.c.
 */
#include "apply/world.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_SIZE = 1 << 18 };

struct world_chunk {
    struct world_chunk *next;
    size_t size, used;
    max_align_t bytes[];
};

static const struct thing nothing;

/* ---- Memory ---------------------------------------------------------------------------------- */

void *world_take(struct world *world, size_t size)
{
    size_t whole = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct world_chunk *chunk = world->chunks;
    void *taken;

    if (!chunk || chunk->size - chunk->used < whole) {
        size_t room = whole > CHUNK_SIZE ? whole : CHUNK_SIZE;

        chunk = malloc(sizeof(*chunk) + room);
        if (!chunk)
            abort();
        *chunk = (struct world_chunk){.next = world->chunks, .size = room};
        world->chunks = chunk;
    }
    taken = (uint8_t *)chunk->bytes + chunk->used;
    chunk->used += whole;
    memset(taken, 0, size);
    return taken;
}

struct once_bytes world_copy(struct world *world, struct once_bytes bytes)
{
    uint8_t *copy = world_take(world, bytes.size);

    if (bytes.size > 0)
        memcpy(copy, bytes.data, bytes.size);
    return (struct once_bytes){copy, bytes.size};
}

/* Gives back all but the chunk that is largest in use for every run: the first. */
static void give_back(struct world *world, bool all)
{
    while (world->chunks && (all || world->chunks->next)) {
        struct world_chunk *next = world->chunks->next;

        free(world->chunks);
        world->chunks = next;
    }
    if (world->chunks)
        world->chunks->used = 0;
}

void world_clear(struct world *world, struct model *model)
{
    give_back(world, false);
    world->model = model;
    world->object_count = 0;
    world->change_count = 0;
    world->change = world->base_change = world->births = 0;
    world->stage.count = 0;
    for (int i = 0; i < WORLD_OBJECTS_MAX; i++) {
        world->base[i] = world->now[i] = &nothing;
        world->changed[i] = 0;
    }
}

void world_free(struct world *world)
{
    if (!world)
        return;
    give_back(world, true);
    free(world);
}

/* ---- Marks ----------------------------------------------------------------------------------- */

uint64_t world_mix(uint64_t sum, uint64_t mark)
{
    sum = (sum ^ mark) * 0x9e3779b97f4a7c15ULL;
    return sum ^ (sum >> 29);
}

static uint64_t mix_bytes(uint64_t sum, struct once_bytes bytes)
{
    size_t at = 0;

    for (; at + sizeof(uint64_t) <= bytes.size; at += sizeof(uint64_t)) {
        uint64_t word;

        memcpy(&word, bytes.data + at, sizeof(word));
        sum = world_mix(sum, word);
    }
    for (; at < bytes.size; at++)
        sum = world_mix(sum, bytes.data[at]);
    return world_mix(sum, bytes.size);
}

uint64_t world_mark(uint64_t number, struct once_bytes id, struct once_bytes payload)
{
    return mix_bytes(mix_bytes(world_mix(1, number), id), payload);
}

/* ---- The journal ----------------------------------------------------------------------------- */

void world_enter(struct world *world)
{
    size_t entry = world->model->count;
    bool changed = false;

    for (size_t i = 0; i < world->stage.count; i++) {
        struct thing *after;
        int object = world->stage.objects[i];

        if (!world->stage.touched[i])
            continue;
        if (world->change_count == WORLD_CHANGES_MAX)
            abort(); /* the workload is bounded */
        if (!changed)
            world->change++;
        changed = true;
        after = world_take(world, sizeof(*after));
        *after = world->stage.things[i];
        after->change = world->change;
        world->changes[world->change_count++] = (struct world_change){entry, object, after};
        world->now[object] = after;
        world->changed[object] = entry;
    }
    if (world->stage.count > 0)
        world->births = world->stage.births;
    world->stage.count = 0;
    world->changes_after[entry] = world->change;
}

size_t world_stage_reveals(const struct world *world)
{
    size_t most = 0;

    for (size_t i = 0; i < world->stage.count; i++) {
        size_t entry = world->changed[world->stage.objects[i]];

        most = entry > most ? entry : most;
    }
    return most;
}

const struct thing *world_after(const struct world *world, int object, size_t prefix)
{
    const struct thing *thing = world->base[object];

    for (size_t i = 0; i < world->change_count && world->changes[i].entry <= prefix; i++) {
        if (world->changes[i].object == object)
            thing = world->changes[i].after;
    }
    return thing;
}

void world_settle(struct world *world, size_t prefix, uint64_t change)
{
    for (size_t i = 0; i < world->change_count && world->changes[i].entry <= prefix; i++)
        world->base[world->changes[i].object] = world->changes[i].after;
    for (int i = 0; i < world->object_count; i++) {
        world->now[i] = world->base[i];
        world->changed[i] = 0;
    }
    world->change_count = 0;
    world->change = world->base_change = change;
    world->changes_after[0] = change;
}
