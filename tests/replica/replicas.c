/* SPDX-License-Identifier: Apache-2.0
 *
 * Three stores, random updates of all mergeable types in each of them, and a channel between them
 * that loses, repeats and reorders. In the end all three have the same bytes, those of a model that
 * merged every delta.
 *
 *     replicas [UPDATES]        100,000 unless said; ONCE_SEED=n replays a run
 */
#include "replica/replicas.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    UPDATES_DEFAULT = 100000,
    SEGMENT_SIZE = 1 << 18,
    RESTARTS = 50,
    FORGOTTEN = 5,
    PHASES = 60,
    ROUNDS_MAX = 100000
};

struct world world;

_Noreturn void world_fail(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: %s\nafter %" PRIu64 " updates; the stores are in %s\n", file, line,
            condition, world.counts.updates, world.folder);
    fprintf(stderr, "replay: ONCE_SEED=%" PRIu64 " replicas %" PRIu64 "\n", world.seed,
            world.update_count);
    exit(1);
}

static void replica_open(struct replica *replica)
{
    struct once_options options = {.durability = ONCE_LOSES_UNSYNCED, .segment_size = SEGMENT_SIZE};
    struct once_message message = {""};

    if (once_open(replica->folder, &options, &replica->store, &message) != ONCE_OK)
        world_fail(message.text, __FILE__, __LINE__);
}

/* The replica is closed and opened again; its objects are what they were. */
static void replica_restart(struct replica *replica)
{
    static struct once_object before[OBJECTS];

    for (unsigned i = 0; i < OBJECTS; i++)
        MUST(once_object_get(replica->store, once_bytes_of(world.subjects[i].name), &before[i]) ==
             ONCE_OK);
    MUST(once_close(replica->store) == ONCE_OK);
    replica_open(replica);
    for (unsigned i = 0; i < OBJECTS; i++) {
        struct once_object now;

        MUST(once_object_get(replica->store, once_bytes_of(world.subjects[i].name), &now) ==
             ONCE_OK);
        MUST(now.type == before[i].type && now.version == before[i].version);
        MUST(same(now.state, before[i].state) && same(now.json, before[i].json));
        once_object_release(&now);
        once_object_release(&before[i]);
    }
    world.counts.restarts++;
}

static struct replica *any_replica(void)
{
    return &world.replicas[chance_below(&world.chance, REPLICAS)];
}

static void ask_anyone(void)
{
    unsigned to, from;

    do {
        to = (unsigned)chance_below(&world.chance, REPLICAS);
        from = (unsigned)chance_below(&world.chance, REPLICAS);
    } while (!channel_knows(to, from));
    channel_ask(to, from);
}

static void run(void)
{
    struct chance *chance = &world.chance;

    while (world.counts.updates < world.update_count) {
        /* Half of the time they hardly hear of each other, and have more to tell afterwards. */
        bool apart = world.counts.updates * PHASES / world.update_count % 2 == 1;
        uint64_t what = chance_below(chance, apart ? 1000 : 100);

        if (chance_below(chance, world.update_count) < RESTARTS)
            replica_restart(any_replica());
        if (world.counts.updates < world.update_count / 2 &&
            chance_below(chance, world.update_count) < FORGOTTEN) {
            /* Its cursors are lost. Not to the end, since it is given everything again then. */
            memset(any_replica()->cursors, 0, sizeof world.replicas[0].cursors);
            world.counts.forgotten++;
        }
        if (what < 10)
            ask_anyone();
        else if (what < 20)
            (void)channel_deliver();
        else
            update(any_replica());
    }
}

/* The channel stays as it is, but answers that are lost are asked for again. */
static void settle(void)
{
    for (unsigned round = 0; !channel_quiet(); round++) {
        MUST(round < ROUNDS_MAX);
        for (unsigned i = 0; i < REPLICAS * REPLICAS; i++)
            ask_anyone();
        while (channel_deliver())
            ;
    }
}

static void begin(void)
{
    const char *place = getenv("TMPDIR");

    snprintf(world.folder, sizeof world.folder, "%s/once-replicas-XXXXXX", place ? place : "/tmp");
    MUST(mkdtemp(world.folder));
    subjects_begin();
    for (unsigned i = 0; i < REPLICAS; i++) {
        struct replica *replica = &world.replicas[i];

        snprintf(replica->node, NAME_SIZE, "node-%u", i);
        snprintf(replica->folder, FOLDER_SIZE, "%s/%u", world.folder, i);
        replica_open(replica);
    }
}

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *walk)
{
    (void)info;
    (void)flag;
    (void)walk;
    return remove(path);
}

static void end(void)
{
    for (unsigned i = 0; i < REPLICAS; i++) {
        check_end(&world.replicas[i]);
        MUST(once_close(world.replicas[i].store) == ONCE_OK);
    }
    channel_end();
    subjects_end();
    nftw(world.folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int main(int argc, char **argv)
{
    const char *given = getenv("ONCE_SEED");
    const struct counts *counts = &world.counts;

    world.seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    world.update_count = argc > 1 ? strtoull(argv[1], NULL, 10) : UPDATES_DEFAULT;
    if (argc > 2 || world.update_count == 0) {
        fprintf(stderr, "usage: replicas [UPDATES]\n");
        return 64;
    }
    world.chance.state = world.seed;
    printf("ONCE_SEED=%" PRIu64 " replays this run\n", world.seed);
    fflush(stdout);
    begin();
    run();
    settle();
    end();
    printf("%" PRIu64 " updates, %" PRIu64 " of them asked again, %" PRIu64 " restarts, %" PRIu64
           " times cursors lost\n",
           counts->updates, counts->replays, counts->restarts, counts->forgotten);
    printf("%" PRIu64 " questions (%" PRIu64 " in a walk), %" PRIu64 " messages lost, %" PRIu64
           " repeated, %" PRIu64 " damaged; %" PRIu64 " entries were news\n",
           counts->questions, counts->walks, counts->lost, counts->repeated, counts->damaged,
           counts->news);
    return 0;
}
