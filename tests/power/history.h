/* SPDX-License-Identifier: Apache-2.0
 *
 * What happened in a run, kept as numbers and written out only when something was wrong: the
 * history of one key together with every cut, kill, fault and opening.
 */
#ifndef ONCE_TESTS_POWER_HISTORY_H
#define ONCE_TESTS_POWER_HISTORY_H

#include <stdio.h>

#include <once/store.h>

enum { HISTORY_NO_KEY = -1 };

enum event_kind {
    EVENT_DECIDED, /* the model's word for an operation, when the engine decided it */
    EVENT_TOLD,
    EVENT_LISTED,
    EVENT_NOTE /* concerns every key */
};

struct event {
    enum event_kind kind;
    int key;
    uint32_t life;
    uint64_t disk_operation;
    once_ms now_ms;
    enum once_call_kind call;
    enum once_word word;
    enum once_state state;
    int err;
    uint64_t fence;
    size_t size;               /* of the result */
    size_t journal;            /* DECIDED: entries up to this one; TOLD: what must be durable now */
    bool changed;              /* DECIDED */
    const struct once_do *dos; /* DECIDED, apply: borrowed for the whole run */
    size_t do_count;
    const char *note; /* static; NOTE */
    int64_t number;   /* NOTE: what the note is about */
};

struct history {
    struct event *events;
    size_t count, capacity;
    bool verbose; /* write each down at once */
};

void history_clear(struct history *history);
void history_release(struct history *history);
void history_add(struct history *history, const struct event *event);
/* The events of this key and the notes; HISTORY_NO_KEY is all of them. */
void history_print(const struct history *history, int key, FILE *out);

#endif
