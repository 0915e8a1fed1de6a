/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks as words, as <once/apply.h> has them, and as states for a merge.
 */
#include "apply/ask.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <once/lattice.h>

enum { WORDS_MAX = 12 };

struct words {
    struct world *world;
    struct once_bytes at[WORDS_MAX];
    size_t count;
};

static void put(struct words *words, struct once_bytes word)
{
    if (words->count == WORDS_MAX)
        abort();
    words->at[words->count++] = word;
}

static void put_text(struct words *words, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put_text(struct words *words, const char *format, ...)
{
    char text[320];
    va_list list;
    int size;

    va_start(list, format);
    size = vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (size < 0 || (size_t)size >= sizeof(text))
        abort();
    put(words, world_copy(words->world, (struct once_bytes){(uint8_t *)text, (size_t)size}));
}

static void put_members(struct words *words, unsigned members)
{
    for (int i = 0; i < WORLD_MEMBERS; i++) {
        if (members >> i & 1)
            put_text(words, "%s", world_members[i]);
    }
}

static void put_expected(struct words *words, const struct ask *ask, const char *word)
{
    if (!ask->expects)
        return;
    put_text(words, "%s", word);
    put_text(words, "%" PRIu64, ask->expected);
}

/* Words that are no effect, each for another reason. */
static void put_nonsense(struct words *words, const struct ask *ask)
{
    static const char *const lines[][4] = {
        {"ADD", "x", "1.5", NULL},  {"ADD", "x", NULL, NULL},
        {"SHOUT", "x", NULL, NULL}, {"MAX", "", "1", NULL},
        {"SEQ", "x", "-1", "0"},    {"LEASE", "x", "o", "0"},
        {"SENT", "x", "0", NULL},   {"ADD", "x", "9999999999999999999", NULL},
        {"FLAG", "x", "y", NULL},   {"MACHINE", "x", "a>b>c", NULL},
    };
    const char *const *line = lines[(size_t)ask->node % (sizeof(lines) / sizeof(lines[0]))];

    for (int i = 0; i < 4 && line[i]; i++)
        put_text(words, "%s", line[i]);
}

static const char *state_name(int state)
{
    return world_declarations[state / 8].states[state % 8];
}

static void put_rest(struct words *words, const struct ask *ask)
{
    switch ((unsigned)ask->kind) {
    case ASK_MACHINE:
        for (int i = 0; world_declarations[ask->node].moves[i]; i++)
            put_text(words, "%s", world_declarations[ask->node].moves[i]);
        break;
    case ASK_MOVE:
        put_text(words, "%s", state_name(ask->node));
        put_text(words, "%s", state_name(ask->to));
        break;
    case ASK_APPEND:
        put(words, ask->id);
        put(words, ask->value);
        put_expected(words, ask, "AT");
        break;
    case ASK_EMIT:
        put(words, ask->value);
        if (ask->id.size > 0) {
            put_text(words, "GROUP");
            put(words, ask->id);
        }
        break;
    case ASK_SENT:
        for (size_t i = 0; i < ask->number_count; i++)
            put_text(words, "%" PRIu64, ask->numbers[i]);
        break;
    case ASK_LEASE:
        put_text(words, "%s", world_nodes[ask->node]);
        put_text(words, "%" PRId64, ask->ms);
        break;
    case ASK_GUARD:
    case ASK_RELEASE:
    case ASK_HOLD:
    case ASK_RENEW:
        put_text(words, "%" PRIu64, ask->number);
        if (ask->kind == ASK_RENEW)
            put_text(words, "%" PRId64, ask->ms);
        break;
    case ASK_SEQ:
        put_text(words, "%" PRIu64, ask->epoch);
        put_text(words, "%" PRIu64, ask->number);
        break;
    case ASK_BUCKET:
        put_text(words, "%s", world_buckets[ask->node]);
        put_text(words, "%" PRIu64, ask->number);
        break;
    default:
        break; /* the others: put_first */
    }
}

/* Numbers, sets and registers. */
static void put_first(struct words *words, const struct ask *ask)
{
    switch ((unsigned)ask->kind) {
    case ASK_ADD:
        put_text(words, "%" PRId64, ask->n);
        if (ask->has_min)
            put_text(words, "MIN");
        if (ask->has_min)
            put_text(words, "%" PRId64, ask->min);
        if (ask->has_max)
            put_text(words, "max");
        if (ask->has_max)
            put_text(words, "%" PRId64, ask->max);
        break;
    case ASK_MAX:
    case ASK_MIN:
        put_text(words, "%" PRId64, ask->n);
        break;
    case ASK_UNION:
    case ASK_REMOVE:
        put_members(words, ask->members);
        break;
    case ASK_INSERT:
        put_text(words, "%s", world_nodes[ask->node]);
        put_members(words, ask->members);
        break;
    case ASK_CLOCK:
    case ASK_GADD:
        put_text(words, "%s", world_nodes[ask->node]);
        put_text(words, "%" PRIu64, ask->number);
        break;
    case ASK_PNADD:
        put_text(words, "%s", world_nodes[ask->node]);
        put_text(words, "%" PRId64, ask->n);
        break;
    case ASK_LWW:
        put_text(words, "%" PRId64, ask->n);
        put_text(words, "%s", world_nodes[ask->node]);
        put(words, ask->value);
        break;
    case ASK_SET:
        put(words, ask->value);
        put_expected(words, ask, "IF");
        break;
    case ASK_DELETE:
        put_expected(words, ask, "if");
        break;
    default:
        put_rest(words, ask);
        break;
    }
}

void ask_words(struct asker *asker, struct chance *chance, struct request *request, size_t i)
{
    static const char *const upper[ASK_COUNT] = {
        "ADD",    "MAX",    "MIN",     "FLAG",   "UNION",   "CLOCK",  "LWW",    "GADD",  "PNADD",
        "INSERT", "REMOVE", "SET",     "DELETE", "MACHINE", "MOVE",   "APPEND", "GRANT", "GUARD",
        "LEASE",  "RENEW",  "RELEASE", "HOLD",   "SEQ",     "BUCKET", "EMIT",   "SENT",  ""};
    static const char *const lower[ASK_COUNT] = {
        "add",    "max",    "Min",     "flag",   "union",   "clock",  "lww",    "gadd",  "pnadd",
        "insert", "remove", "Set",     "delete", "machine", "move",   "append", "grant", "guard",
        "lease",  "renew",  "release", "hold",   "seq",     "bucket", "emit",   "sent",  ""};
    const struct ask *ask = &request->asks[i];
    struct words words = {.world = asker->world};
    struct once_bytes *kept;

    if (ask->kind == ASK_NONSENSE) {
        put_nonsense(&words, ask);
    } else {
        put_text(&words, "%s", (chance_percent(chance, 90) ? upper : lower)[ask->kind]);
        put_text(&words, "%s", asker->world->names[ask->object]);
        put_first(&words, ask);
    }
    kept = world_take(asker->world, words.count * sizeof(*kept));
    for (size_t j = 0; j < words.count; j++)
        kept[j] = words.at[j];
    request->dos[i] = (struct once_do){kept, words.count};
}
