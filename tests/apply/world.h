/* SPDX-License-Identifier: Apache-2.0
 *
 * What objects must be, whatever the disk does: a second bookkeeping of every effect, with its own
 * arithmetic. It knows nothing of edits, snapshots or stages: it is asked what was asked of the
 * store (struct ask, not words), and says what each effect comes to.
 *
 * Values are never changed: each change makes a new struct thing, noted with the entry of the
 * model's journal (power/model.h) that it belongs to. So what every object was after every prefix
 * of the decisions is still there when a power cut leaves some prefix.
 *
 * Everything lives in the world's own memory until the run is over.
 */
#ifndef ONCE_TESTS_APPLY_WORLD_H
#define ONCE_TESTS_APPLY_WORLD_H

#include <once/apply.h>

#include "power/model.h"

enum {
    WORLD_OBJECTS_MAX = 44,
    WORLD_NODES = 3,   /* of vectors and counters; owners of leases */
    WORLD_MEMBERS = 6, /* of sets */
    WORLD_BUCKETS = 5,
    WORLD_STATES_MAX = 5,
    WORLD_DECLARATIONS = 4,
    WORLD_MESSAGES_MAX = 2048, /* ever, in one outbox of one run */
    WORLD_CHANGES_MAX = 8192,  /* of things, in one life */
    WORLD_EFFECTS_MAX = 6,     /* of one apply */
    WORLD_RESULT_SIZE = 512
};

/* ---- What is asked --------------------------------------------------------------------------- */

enum ask_kind {
    ASK_ADD,
    ASK_MAX,
    ASK_MIN,
    ASK_FLAG,
    ASK_UNION,
    ASK_CLOCK,
    ASK_LWW,
    ASK_GADD,
    ASK_PNADD,
    ASK_INSERT,
    ASK_REMOVE,
    ASK_SET,
    ASK_DELETE,
    ASK_MACHINE,
    ASK_MOVE,
    ASK_APPEND,
    ASK_GRANT,
    ASK_GUARD,
    ASK_LEASE,
    ASK_RENEW,
    ASK_RELEASE,
    ASK_HOLD,
    ASK_SEQ,
    ASK_BUCKET,
    ASK_EMIT,
    ASK_SENT,
    ASK_NONSENSE, /* words that are no effect */
    ASK_COUNT
};

/* One effect. What a kind does not use is zero. */
struct ask {
    enum ask_kind kind;
    int object;
    int64_t n;               /* ADD MAX MIN PNADD; LWW: time */
    bool has_min, has_max;   /* ADD */
    int64_t min, max;        /* ADD */
    uint64_t number;         /* CLOCK GADD BUCKET SEQ; tokens */
    uint64_t epoch;          /* SEQ */
    once_ms ms;              /* LEASE RENEW */
    bool expects;            /* SET DELETE IF, APPEND AT */
    uint64_t expected;       /* that version */
    int node;                /* node, owner, bucket, declaration; MOVE: from */
    int to;                  /* MOVE */
    unsigned members;        /* UNION INSERT REMOVE: a mask */
    struct once_bytes id;    /* APPEND event id, EMIT group */
    struct once_bytes value; /* SET LWW value, APPEND EMIT payload */
    uint64_t numbers[3];     /* SENT */
    size_t number_count;
};

/* A request: what is sent, once or often. dos is first: a call is known by it. */
struct request {
    struct once_do dos[WORLD_EFFECTS_MAX];
    struct ask asks[WORLD_EFFECTS_MAX];
    size_t count;
    int key; /* HISTORY_NO_KEY: without one */
    struct once_bytes fingerprint;
    once_ms ttl_ms;
    /* A merge instead: one ask that is the state, and its bytes */
    bool merges;
    struct once_bytes state;
};

/* The moves of a machine, as they are declared. */
struct declaration {
    const char *moves[8];
    const char *states[WORLD_STATES_MAX]; /* in the order of first mention */
    unsigned to[WORLD_STATES_MAX];        /* bit j: the move to state j is declared */
    bool cycle;
};
extern const struct declaration world_declarations[WORLD_DECLARATIONS];

extern const char *const world_nodes[WORLD_NODES];
extern const char *const world_members[WORLD_MEMBERS];
extern const char *const world_buckets[WORLD_BUCKETS];

/* ---- What there is --------------------------------------------------------------------------- */

/* An event or a message, and those before it. */
struct post {
    const struct post *before;
    uint64_t number;
    struct once_bytes id; /* of an event; the group of a message */
    struct once_bytes payload;
    uint64_t mark; /* of this one alone */
    uint64_t sum;  /* of all events up to this one */
};

/* A dot of an add-wins set; number 0 is none. */
struct dot {
    int node;
    uint64_t number;
};

struct thing {
    enum once_object_type type; /* NONE: nobody used it yet */
    uint64_t birth;             /* objects that came first have smaller ones */
    uint64_t change;            /* mergeable: the change that it last changed with */
    union {
        int64_t counter; /* MAX and MIN too */
        unsigned members;
        uint64_t up[WORLD_NODES];
        struct {
            uint64_t up[WORLD_NODES];
            uint64_t down[WORLD_NODES];
        } pn;
        struct {
            int64_t time;
            int node;
            struct once_bytes value;
        } lww;
        struct {
            struct dot dots[WORLD_MEMBERS];
            uint64_t seen[WORLD_NODES];
        } aw;
        struct {
            uint64_t version;
            bool present;
            struct once_bytes value;
        } reg;
        struct {
            int declaration;
            int at;
        } machine;
        struct {
            uint64_t count;
            const struct post *last;
        } log;
        struct {
            uint64_t granted;
            uint64_t seen;
        } fence;
        struct {
            uint64_t token;
            once_ms until_ms;
            int owner; /* -1: nobody */
        } lease;
        struct {
            uint64_t epoch;
            uint64_t next;
        } sequence;
        uint64_t buckets[WORLD_BUCKETS];
        struct {
            uint64_t total;
            uint64_t waiting;
            uint64_t sum; /* of the marks of those that wait */
            const struct post *last;
            uint8_t gone[WORLD_MESSAGES_MAX / 8];
        } outbox;
    } is;
};

/* A change of one object. */
struct world_change {
    size_t entry; /* of the journal: from this prefix on */
    int object;
    const struct thing *after;
};

struct world_chunk;
struct world {
    struct model *model;
    char names[WORLD_OBJECTS_MAX][ONCE_OBJECT_NAME_SIZE_MAX + 1];
    int object_count;

    const struct thing *base[WORLD_OBJECTS_MAX]; /* before the first entry */
    const struct thing *now[WORLD_OBJECTS_MAX];
    size_t changed[WORLD_OBJECTS_MAX]; /* entries up to the last change; 0 is base */
    struct world_change changes[WORLD_CHANGES_MAX];
    size_t change_count;
    uint64_t change; /* number of the last change of objects */
    uint64_t base_change;
    uint64_t changes_after[MODEL_ENTRIES_MAX + 1]; /* that number after each prefix */
    uint64_t births;

    /* What was decided last, until it is entered. */
    struct {
        size_t count;
        int objects[WORLD_EFFECTS_MAX];
        struct thing things[WORLD_EFFECTS_MAX];
        bool touched[WORLD_EFFECTS_MAX]; /* changed, not only looked at */
        uint64_t births;
    } stage;

    struct world_chunk *chunks;
};

/* What effects come to. */
struct outcome {
    int err;              /* nothing is decided: OBJECT_TYPE, KEY_NEEDED, INVALID */
    uint32_t effect;      /* the one that err or the rejection is about, from 1 */
    const char *rejected; /* the word, or NULL */
    bool changed;
    size_t size; /* result is written: an array of results */
    char result[WORLD_RESULT_SIZE];
};

/* What one effect comes to. */
struct told {
    const char *rejected; /* the word, or NULL */
    bool changed;
    bool is_word;
    int64_t number;
    const char *word;
};

/* Empty, for a new run; keeps its memory. */
void world_clear(struct world *world, struct model *model);
void world_free(struct world *world);
/* Memory until the next world_clear. */
void *world_take(struct world *world, size_t size);
struct once_bytes world_copy(struct world *world, struct once_bytes bytes);

/* One effect on one thing, which is of its type or of none. deeds.c */
struct told world_act(struct world *world, struct thing *thing, const struct ask *ask,
                      once_ms now_ms);
/* Decides, on what is there now; only world->stage is changed. */
void world_decide(struct world *world, const struct request *request, bool has_key, once_ms now_ms,
                  struct outcome *ret_outcome);
/* What was decided last happened: it is the newest entry of the journal. */
void world_enter(struct world *world);
/* The largest entry that the objects of the stage were last changed by: what an answer about them
 * reveals. */
size_t world_stage_reveals(const struct world *world);

/* What an object was after a prefix of the journal. */
const struct thing *world_after(const struct world *world, int object, size_t prefix);
/* Everything is what it was after this prefix, and the journal begins anew. */
void world_settle(struct world *world, size_t prefix, uint64_t change);

/* The sum of a post, for those that read them one by one. */
uint64_t world_mark(uint64_t number, struct once_bytes id, struct once_bytes payload);
uint64_t world_mix(uint64_t sum, uint64_t mark);

#endif
