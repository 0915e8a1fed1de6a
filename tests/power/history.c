/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeping and writing the history of a run. Text is made only when it is read: a run that finds
 * nothing must be fast.
 */
#include "power/history.h"

#include <inttypes.h>
#include <stdlib.h>

enum { HISTORY_CAPACITY_FIRST = 1024 };

static const char *call_name(enum once_call_kind call)
{
    static const char *const names[] = {"begin",   "complete", "fail", "checkpoint", "renew",
                                        "resolve", "forget",   "get",  "apply",      "merge"};

    return (size_t)call < sizeof(names) / sizeof(names[0]) ? names[call] : "?";
}

void history_clear(struct history *history)
{
    history->count = 0;
}

void history_release(struct history *history)
{
    free(history->events);
    history->events = NULL;
    history->count = history->capacity = 0;
}

/* What an apply was to do, one effect a line. Long and unreadable words only by their size. */
static void print_dos(const struct event *event, FILE *out)
{
    for (size_t i = 0; event->dos && i < event->do_count; i++) {
        fprintf(out, "%34s%zu:", "", i + 1);
        for (size_t j = 0; j < event->dos[i].count; j++) {
            struct once_bytes word = event->dos[i].words[j];

            if (word.size > 40 || (word.size > 0 && (word.data[0] < 32 || word.data[0] > 126)))
                fprintf(out, " (%zu bytes)", word.size);
            else
                fprintf(out, " %.*s", (int)word.size, (const char *)word.data);
        }
        fprintf(out, "\n");
    }
}

static void print_event(const struct event *event, FILE *out)
{
    fprintf(out, "  life %-3" PRIu32 " disk %-5" PRIu64 " ", event->life, event->disk_operation);
    if (event->kind == EVENT_NOTE) {
        fprintf(out, "%s %" PRId64 "\n", event->note, event->number);
        return;
    }
    fprintf(out, "key %-2d t=%" PRId64 " ", event->key, event->now_ms);
    if (event->kind == EVENT_LISTED) {
        fprintf(out, "listed     %s fence %" PRIu64 ", durable now: %zu\n",
                once_state_name(event->state), event->fence, event->journal);
        return;
    }
    fprintf(out, "%s %-10s ", event->kind == EVENT_DECIDED ? "decided   " : "      told",
            call_name(event->call));
    if (event->err != ONCE_OK)
        fprintf(out, "%s", once_err_name(event->err));
    else
        fprintf(out, "%s %s fence %" PRIu64 " result %zu", once_word_name(event->word),
                once_state_name(event->state), event->fence, event->size);
    if (event->kind == EVENT_DECIDED) {
        fprintf(out, "%s entry %zu\n", event->changed ? " CHANGED" : "", event->journal);
        print_dos(event, out);
    } else {
        fprintf(out, ", durable now: %zu\n", event->journal);
    }
}

void history_add(struct history *history, const struct event *event)
{
    if (history->count == history->capacity) {
        size_t capacity = history->capacity > 0 ? history->capacity * 2 : HISTORY_CAPACITY_FIRST;
        struct event *events = realloc(history->events, capacity * sizeof(*events));

        if (!events)
            abort();
        history->events = events;
        history->capacity = capacity;
    }
    history->events[history->count++] = *event;
    if (history->verbose)
        print_event(event, stdout);
}

void history_print(const struct history *history, int key, FILE *out)
{
    for (size_t i = 0; i < history->count; i++) {
        const struct event *event = &history->events[i];

        if (key == HISTORY_NO_KEY || event->kind == EVENT_NOTE || event->key == key)
            print_event(event, out);
    }
}
