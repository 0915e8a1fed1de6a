/* SPDX-License-Identifier: Apache-2.0
 *
 * What a store must be, whatever the disk does: a second bookkeeping of every decision, kept by the
 * test.
 *
 * Decisions that change a record form one journal, over all keys, in the order in which they were
 * made: the log is one chain. What is durable is always a prefix of it. *Told* answers push the
 * least prefix, the floor: an answer reveals its own change, or the last change of its key (INV-2,
 * INV-3). After a crash every prefix from the floor on is possible; what the store then tells of
 * each key leaves only those that agree, and none left is a violation. Within a life the model is
 * exact: every field of every answer is known before it is told.
 *
 * Decisions are made by the proved core (core/decide.h), so this checks what the store does with
 * them, not the decisions.
 *
 * Bytes in operations and records are borrowed for the whole run.
 */
#ifndef ONCE_TESTS_POWER_MODEL_H
#define ONCE_TESTS_POWER_MODEL_H

#include <once/store.h>

#include "core/decide.h"
#include "power/extension.h"
#include "power/history.h"

enum { MODEL_KEYS_MAX = 24, MODEL_ENTRIES_MAX = 2048, MODEL_FENCES_MAX = 8192 };

/* One change. */
struct model_entry {
    int key;                   /* HISTORY_NO_KEY: only of what an extension knows */
    struct once_record record; /* after it */
    uint64_t last_fence;       /* largest fence given, after it */
    once_ms now_ms;
};

/* What the answer to an operation must be, and what must be durable once it was told. */
struct promise {
    int key;
    enum once_call_kind call;
    int err; /* nothing was decided, for this reason */
    struct once_decision decision;
    struct once_record before; /* set tells it */
    once_ms now_ms;
    size_t depends;         /* entries of the journal */
    once_ms holds_since_ms; /* the time that must have passed; 0 is none */
    /* an extension's */
    size_t reveals;  /* entries of the journal that an answer without a change tells of */
    uint32_t effect; /* which one an error is about */
    size_t weight;   /* about as many bytes go to the log besides the record */
    bool grows;      /* it needs memory for good: may be refused for that, whatever it comes to */
};

struct model {
    struct once_name names[MODEL_KEYS_MAX];
    once_ms births[MODEL_KEYS_MAX];
    int key_count;

    struct once_record base[MODEL_KEYS_MAX]; /* before the first entry */
    struct once_record now[MODEL_KEYS_MAX];  /* after the last */
    size_t changed[MODEL_KEYS_MAX];          /* entries up to the last change; 0 is base */
    struct model_entry entries[MODEL_ENTRIES_MAX];
    size_t count;
    size_t floor; /* this many entries are durable for certain */

    uint64_t base_fence; /* last fence of base */
    uint64_t last_fence; /* given so far */
    uint64_t told_fence; /* largest ever told */
    uint64_t top_fence;  /* largest ever given, told or lost */
    struct {
        int key;
        uint32_t attempt;
    } fences[MODEL_FENCES_MAX]; /* whose a told fence is, by fence; attempt 0 is nobody's */

    once_ms time_floor_ms; /* store time can never again be before this */
    once_ms time_top_ms;   /* the latest that store time has been */

    /* Between a crash and the first look at every key: which prefixes are still possible. */
    bool guessing;
    bool possible[MODEL_ENTRIES_MAX + 1];

    struct extension *extension; /* may be NULL */
    struct history *history;
    uint32_t life;
    uint64_t disk_operation; /* for the history */

    bool broken;
    int broken_key;
    char broken_text[512];
};

void model_init(struct model *model, struct history *history);
/* Something is wrong: only the first is kept. */
void model_break(struct model *model, int key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What a begin of this key with this fingerprint would be decided as. ONCE_ERR_KEY_FUTURE. */
int model_begin(const struct model *model, int key, const struct once_op *op,
                const struct once_fingerprint *fingerprint, once_ms now_ms,
                struct once_decision *ret_decision);
/* The engine has decided this operation at this time: the model decides too. err is what the engine
 * refused it with, or ONCE_OK; the caller knows whether it may. */
struct promise model_decide(struct model *model, int key, const struct once_op *op, once_ms now_ms,
                            int err);
/* The engine told this answer. Errors that leave the outcome open (IO, STOPPED) tell nothing. */
void model_told(struct model *model, const struct promise *promise, const struct once_reply *reply);
/* A list showed this item, as the whole life of the key up to now allows. */
void model_listed(struct model *model, int key, const struct once_item *item, once_ms now_ms);
/* Whether the key must have been listed, and whether it may have been, by this filter: over all
 * prefixes that can be durable now. */
struct model_shown {
    bool may;
    bool must;
};
struct model_shown model_shows(const struct model *model, int key, const struct once_filter *filter,
                               once_ms now_ms);

/* The life is over. everything: it ended by a clean close, so that all is durable. */
void model_crash(struct model *model, bool everything);
/* The store is open again and says this of itself. */
void model_opened(struct model *model, const struct once_stats *stats, once_ms wall_ms);
/* While guessing: a get was answered. */
void model_saw(struct model *model, int key, const struct once_reply *reply, once_ms now_ms);
/* Every key was seen: the model is exact again. */
void model_settle(struct model *model, const struct once_stats *stats);

#endif
