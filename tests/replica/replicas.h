/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the replicas' test share: three stores, the objects that they have in common,
 * and a channel between them that cannot be relied on.
 */
#ifndef ONCE_TESTS_REPLICA_REPLICAS_H
#define ONCE_TESTS_REPLICA_REPLICAS_H

#include <inttypes.h>
#include <string.h>

#include <once/once.h>

#include "power/chance.h"

enum {
    REPLICAS = 3,
    OBJECTS_OF_A_TYPE = 150,
    OBJECTS_IN_USE = 5, /* of a type, at one time */
    OBJECTS = OBJECTS_OF_A_TYPE * ONCE_OBJECT_MAP,
    MEMBERS = 100, /* of a set, all told */
    NAME_SIZE = 32,
    FOLDER_SIZE = 512
};

/* An object, and what it must be in the end. */
struct subject {
    enum once_object_type type;
    char name[NAME_SIZE];
    struct once_buf state; /* every delta, merged; empty: nobody used it */
    /* What the updates come to, by other means than merging. */
    int64_t sum;
    int64_t largest;
    int64_t smallest;
    bool members[MEMBERS]; /* those that were ever added */
};

struct replica {
    struct once_store *store;
    char node[NAME_SIZE]; /* no two replicas write under one name */
    char folder[FOLDER_SIZE];
    uint64_t key_count;
    struct once_changes_cursor cursors[REPLICAS]; /* what it has of each other one */
};

/* An answer to a replica that asked another for its changes: the message, and where its cursor is
 * then. */
struct packet {
    unsigned to;
    unsigned from;
    struct once_changes_cursor cursor;
    struct once_bytes message;
};

enum { PACKETS_MAX = 64 };

struct counts {
    uint64_t updates, replays, questions, walks, lost, repeated, damaged, news, restarts, forgotten;
};

struct world {
    struct chance chance;
    uint64_t seed;
    uint64_t update_count; /* how many there will be */
    char folder[FOLDER_SIZE / 2];
    struct replica replicas[REPLICAS];
    struct subject subjects[OBJECTS];
    struct packet packets[PACKETS_MAX]; /* on their way, in no order */
    size_t packet_count;
    struct counts counts;
};

/* Says what is wrong and how to see it again, and ends the process. */
_Noreturn void world_fail(const char *condition, const char *file, int line);
extern struct world world;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            world_fail(#condition, __FILE__, __LINE__);                                            \
    } while (0)

static inline bool same(struct once_bytes a, struct once_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* ---- update.c ---- */

void subjects_begin(void);
void subjects_end(void);
/* One random update by the replica, checked on the spot and added to what must be in the end. */
void update(struct replica *replica);
/* Does the replica have everything, and nothing else? Calls world_fail where not. */
void check_end(const struct replica *replica);

/* ---- channel.c ---- */

/* Does the first ever ask the second? The last one only asks one other: what it is not told there
 * has no other way to it. */
bool channel_knows(unsigned to, unsigned from);
/* The replica asks another; the answer may get lost on its way, come twice, or late. */
void channel_ask(unsigned to, unsigned from);
/* One of the packets on their way arrives. False: there was none. */
bool channel_deliver(void);
/* Nobody has news for anybody, and nothing is on its way. */
bool channel_quiet(void);
void channel_end(void);

#endif
