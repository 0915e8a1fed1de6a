/* SPDX-License-Identifier: Apache-2.0
 *
 * Random updates of all mergeable types. Each is looked at on the spot: the delta since the version
 * before, merged into the state before, is the state now. And each is added to what must be in the
 * end, twice: merged, and counted by other means where there are some.
 */
#include "replica/replicas.h"

#include <stdio.h>
#include <string.h>

enum {
    EFFECTS_MAX = 4,
    MEMBERS_AT_ONCE = 3,
    LINE_SIZE = 256,
    WORDS_MAX = 16,
    STATE_SIZE_MAX = 1 << 20
};

/* One update of one object. */
struct step {
    struct subject *subject;
    struct once_object before;
    char line[LINE_SIZE];
    uint8_t scratch[LINE_SIZE];
    struct once_bytes words[WORDS_MAX];
    /* What it adds. */
    int64_t n;
    size_t member_count;
    unsigned members[MEMBERS_AT_ONCE];
    bool needs_key;
};

void subjects_begin(void)
{
    for (unsigned i = 0; i < OBJECTS; i++) {
        struct subject *subject = &world.subjects[i];

        subject->type = (enum once_object_type)(1 + i / OBJECTS_OF_A_TYPE);
        snprintf(subject->name, NAME_SIZE, "%s-%u", once_object_type_name(subject->type),
                 i % OBJECTS_OF_A_TYPE);
        subject->largest = INT64_MIN;
        subject->smallest = INT64_MAX;
        once_buf_init(&subject->state, STATE_SIZE_MAX);
    }
}

void subjects_end(void)
{
    for (unsigned i = 0; i < OBJECTS; i++)
        once_buf_release(&world.subjects[i].state);
}

static struct once_object look(const struct replica *replica, const struct subject *subject)
{
    struct once_object object;

    MUST(once_object_get(replica->store, once_bytes_of(subject->name), &object) == ONCE_OK);
    MUST(object.type == ONCE_OBJECT_NONE || object.type == subject->type);
    return object;
}

static void subject_merge(struct subject *subject, struct once_bytes state)
{
    struct once_buf merged;

    if (subject->state.size == 0) {
        MUST(once_buf_append(&subject->state, state.data, state.size) == ONCE_OK);
        return;
    }
    once_buf_init(&merged, STATE_SIZE_MAX);
    MUST(once_lattice_merge(once_buf_bytes(&subject->state), state, &merged) == ONCE_OK);
    once_buf_release(&subject->state);
    subject->state = merged;
}

/* The state before, and what came since by the store's own account, is the state now. */
static void step_end(const struct replica *replica, struct step *step)
{
    struct subject *subject = step->subject;
    struct once_bytes name = once_bytes_of(subject->name);
    struct once_object now = look(replica, subject);
    struct once_buf delta, merged;
    uint64_t version = 0;

    if (now.type == ONCE_OBJECT_NONE) { /* a REMOVE from a set that nobody used */
        MUST(step->before.type == ONCE_OBJECT_NONE);
        once_object_release(&step->before);
        once_object_release(&now);
        return;
    }
    once_buf_init(&delta, STATE_SIZE_MAX);
    once_buf_init(&merged, STATE_SIZE_MAX);
    MUST(once_object_delta(replica->store, name, step->before.version, &delta, &version) ==
         ONCE_OK);
    MUST(version == now.version && version >= step->before.version);
    MUST((delta.size == 0) == same(step->before.state, now.state));
    if (step->before.type == ONCE_OBJECT_NONE) {
        MUST(same(once_buf_bytes(&delta), now.state));
    } else if (delta.size > 0) {
        MUST(once_lattice_merge(step->before.state, once_buf_bytes(&delta), &merged) == ONCE_OK);
        MUST(same(once_buf_bytes(&merged), now.state));
    }
    subject_merge(subject, now.state);
    once_buf_release(&delta);
    once_buf_release(&merged);
    once_object_release(&step->before);
    once_object_release(&now);
}

static void count(struct step *step)
{
    struct subject *subject = step->subject;

    if (subject->type == ONCE_OBJECT_GCOUNTER || subject->type == ONCE_OBJECT_PNCOUNTER)
        subject->sum += step->n;
    if (subject->type == ONCE_OBJECT_MAX && step->n > subject->largest)
        subject->largest = step->n;
    if (subject->type == ONCE_OBJECT_MIN && step->n < subject->smallest)
        subject->smallest = step->n;
    for (size_t i = 0; i < step->member_count; i++)
        subject->members[step->members[i]] = true;
}

/* ---- By effects ---- */

static bool has_effect(enum once_object_type type)
{
    return type != ONCE_OBJECT_MVREG && type != ONCE_OBJECT_MAP;
}

/* Up to three members, behind what is there of the line. */
static void add_members(struct step *step, size_t size)
{
    for (uint64_t left = 1 + chance_below(&world.chance, MEMBERS_AT_ONCE); left > 0; left--) {
        unsigned member = (unsigned)chance_below(&world.chance, MEMBERS);

        size += (size_t)snprintf(step->line + size, LINE_SIZE - size, " m%u", member);
        step->members[step->member_count++] = member;
    }
}

/* The effect as a line of text. */
static void write_line(const struct replica *replica, struct step *step)
{
    const char *name = step->subject->name, *node = replica->node;
    struct chance *chance = &world.chance;
    int size;

    step->n = chance_between(chance, -1000, 1000);
    switch ((int)step->subject->type) {
    case ONCE_OBJECT_MAX:
        snprintf(step->line, LINE_SIZE, "MAX %s %" PRId64, name, step->n);
        break;
    case ONCE_OBJECT_MIN:
        snprintf(step->line, LINE_SIZE, "MIN %s %" PRId64, name, step->n);
        break;
    case ONCE_OBJECT_FLAG:
        snprintf(step->line, LINE_SIZE, "FLAG %s", name);
        break;
    case ONCE_OBJECT_GSET:
        add_members(step, (size_t)snprintf(step->line, LINE_SIZE, "UNION %s", name));
        break;
    case ONCE_OBJECT_VV:
        snprintf(step->line, LINE_SIZE, "CLOCK %s %s %" PRIu64, name, node,
                 chance_below(chance, 100000));
        break;
    case ONCE_OBJECT_LWW:
        snprintf(step->line, LINE_SIZE, "LWW %s %" PRIu64 " %s 'value %" PRId64 "'", name,
                 chance_below(chance, 50) + world.counts.updates / 100, node, step->n);
        break;
    case ONCE_OBJECT_GCOUNTER:
        step->n = chance_between(chance, 0, 9);
        snprintf(step->line, LINE_SIZE, "GADD %s %s %" PRId64, name, node, step->n);
        step->needs_key = true;
        break;
    case ONCE_OBJECT_PNCOUNTER:
        snprintf(step->line, LINE_SIZE, "PNADD %s %s %" PRId64, name, node, step->n);
        step->needs_key = true;
        break;
    case ONCE_OBJECT_AWSET:
        if (chance_percent(chance, 60))
            size = snprintf(step->line, LINE_SIZE, "INSERT %s %s", name, node);
        else
            size = snprintf(step->line, LINE_SIZE, "REMOVE %s", name);
        add_members(step, (size_t)size);
        step->member_count = 0; /* they come and go: only merging tells */
        step->needs_key = true;
        break;
    default:
        world_fail("a type without an effect", __FILE__, __LINE__);
    }
}

/* Objects come into use and go out of it: what was not given of one of the old ones is not made up
 * for by a later state. */
static struct subject *pick(bool by_effect)
{
    uint64_t first = world.counts.updates * (OBJECTS_OF_A_TYPE - OBJECTS_IN_USE) /
                     world.update_count;
    uint64_t at = first + chance_below(&world.chance, OBJECTS_IN_USE);
    struct subject *subject;

    do {
        uint64_t type = chance_below(&world.chance, ONCE_OBJECT_MAP);

        subject = &world.subjects[type * OBJECTS_OF_A_TYPE + at];
    } while (has_effect(subject->type) != by_effect);
    return subject;
}

/* Effects on different objects: how many there are. */
static size_t prepare(const struct replica *replica, struct step *steps, struct once_do *dos)
{
    size_t wanted = chance_percent(&world.chance, 80) ? 1 : EFFECTS_MAX, count_now = 0;

    for (size_t i = 0; i < wanted; i++) {
        struct step *step = &steps[count_now];
        struct subject *subject = pick(true);
        struct once_defect defect;
        bool there = false;

        for (size_t k = 0; k < count_now; k++)
            there = there || steps[k].subject == subject;
        if (there)
            continue;
        *step = (struct step){.subject = subject, .before = look(replica, subject)};
        write_line(replica, step);
        MUST(once_do_split(once_bytes_of(step->line), step->scratch, step->words, WORDS_MAX,
                           &dos[count_now].count, &defect) == ONCE_OK);
        dos[count_now].words = step->words;
        count_now++;
    }
    return count_now;
}

static void update_by_effects(struct replica *replica)
{
    struct step steps[EFFECTS_MAX];
    struct once_do dos[EFFECTS_MAX];
    size_t step_count = prepare(replica, steps, dos);
    bool keyed = chance_percent(&world.chance, 30);
    struct once_name name = {.ns = {NULL, 0}, .key = {NULL, 0}};
    struct once_reply reply, again;
    char key[NAME_SIZE];

    for (size_t i = 0; i < step_count; i++)
        keyed = keyed || steps[i].needs_key;
    if (keyed) {
        snprintf(key, sizeof key, "%" PRIu64, replica->key_count++);
        name = once_name_of(replica->node, key);
    }
    MUST(once_apply(replica->store, name, NULL, dos, step_count, &reply) == ONCE_OK);
    MUST(reply.word == ONCE_APPLIED);
    if (keyed && chance_percent(&world.chance, 10)) { /* the client did not get the answer */
        MUST(once_apply(replica->store, name, NULL, dos, step_count, &again) == ONCE_OK);
        MUST(again.word == ONCE_REPLAY && again.code == ONCE_CODE_APPLIED);
        MUST(same(again.result, reply.result));
        once_reply_release(&again);
        world.counts.replays++;
    }
    once_reply_release(&reply);
    for (size_t i = 0; i < step_count; i++) {
        step_end(replica, &steps[i]);
        count(&steps[i]);
    }
}

/* ---- By merging ---- */

/* A delta of a multi-value register or of an add-wins set, made of the state that is there, or of
 * none. */
static void write_causal(const struct replica *replica, enum once_lattice_type type,
                         struct once_bytes state, struct once_buf *delta)
{
    char text[NAME_SIZE];
    struct once_write write = {.node = once_bytes_of(replica->node)};
    struct once_buf none;

    once_buf_init(&none, STATE_SIZE_MAX);
    MUST(once_lattice_bottom(type, &none) == ONCE_OK);
    if (state.size == 0 || state.data[0] != type)
        state = once_buf_bytes(&none);
    snprintf(text, sizeof text, "m%" PRIu64, chance_below(&world.chance, MEMBERS));
    write.value = once_bytes_of(text);
    if (type == ONCE_LATTICE_MVREG)
        MUST(once_mvreg_write(state, &write, delta) == ONCE_OK);
    else if (chance_percent(&world.chance, 60))
        MUST(once_awset_add(state, &write, delta) == ONCE_OK);
    else
        MUST(once_awset_remove(state, write.value, delta) == ONCE_OK);
    once_buf_release(&none);
}

/* Under "k" two types meet. */
static void write_map(const struct replica *replica, struct once_bytes state,
                      struct once_buf *delta)
{
    static const struct {
        const char *key;
        enum once_lattice_type type;
    } places[] = {{"k", ONCE_LATTICE_AWSET},
                  {"k", ONCE_LATTICE_MVREG},
                  {"l", ONCE_LATTICE_MVREG},
                  {"m", ONCE_LATTICE_AWSET}};
    size_t place = chance_below(&world.chance, sizeof places / sizeof *places);
    struct once_bytes key = once_bytes_of(places[place].key), inner = {NULL, 0};
    struct once_buf inner_delta;
    bool present;

    once_buf_init(&inner_delta, STATE_SIZE_MAX);
    if (state.size > 0)
        MUST(once_map_get(state, key, &present, &inner) == ONCE_OK);
    write_causal(replica, places[place].type, inner, &inner_delta);
    MUST(once_map_put(key, once_buf_bytes(&inner_delta), delta) == ONCE_OK);
    once_buf_release(&inner_delta);
}

static void update_by_merging(struct replica *replica)
{
    struct step step = {.subject = pick(false)};
    struct once_buf delta;
    bool changed = false;

    step.before = look(replica, step.subject);
    once_buf_init(&delta, STATE_SIZE_MAX);
    if (step.subject->type == ONCE_OBJECT_MAP)
        write_map(replica, step.before.state, &delta);
    else
        write_causal(replica, ONCE_LATTICE_MVREG, step.before.state, &delta);
    MUST(once_object_merge(replica->store, once_bytes_of(step.subject->name),
                           once_buf_bytes(&delta), &changed) == ONCE_OK);
    subject_merge(step.subject, once_buf_bytes(&delta));
    step_end(replica, &step);
    once_buf_release(&delta);
}

void update(struct replica *replica)
{
    if (chance_percent(&world.chance, 80))
        update_by_effects(replica);
    else
        update_by_merging(replica);
    world.counts.updates++;
}

/* ---- The end ---- */

/* What the state says, and what was counted. */
static void check_count(const struct subject *subject)
{
    struct once_bytes state = once_buf_bytes(&subject->state);
    uint64_t total = 0;
    int64_t value = 0;
    bool known, contains;

    switch ((int)subject->type) {
    case ONCE_OBJECT_MAX:
        MUST(once_max_value(state, &known, &value) == ONCE_OK && value == subject->largest);
        break;
    case ONCE_OBJECT_MIN:
        MUST(once_min_value(state, &known, &value) == ONCE_OK && value == subject->smallest);
        break;
    case ONCE_OBJECT_GCOUNTER:
        MUST(once_gcounter_value(state, &total) == ONCE_OK && total == (uint64_t)subject->sum);
        break;
    case ONCE_OBJECT_PNCOUNTER:
        MUST(once_pncounter_value(state, &value) == ONCE_OK && value == subject->sum);
        break;
    case ONCE_OBJECT_GSET:
        for (unsigned i = 0; i < MEMBERS; i++) {
            char member[NAME_SIZE];

            snprintf(member, sizeof member, "m%u", i);
            MUST(once_gset_contains(state, once_bytes_of(member), &contains) == ONCE_OK);
            MUST(contains == subject->members[i]);
        }
        break;
    default: /* only merging tells */
        break;
    }
}

static void count_object(void *user, struct once_bytes name, enum once_object_type type)
{
    (void)name;
    *(unsigned *)user += once_object_mergeable(type);
}

void check_end(const struct replica *replica)
{
    unsigned found = 0, expected = 0;
    uint64_t cursor = 0;

    do {
        MUST(once_object_list(replica->store, cursor, ONCE_LIST_COUNT_MAX, count_object, &found,
                              &cursor) == ONCE_OK);
    } while (cursor != 0);
    for (unsigned i = 0; i < OBJECTS; i++) {
        const struct subject *subject = &world.subjects[i];
        struct once_object object;

        if (subject->state.size == 0)
            continue;
        object = look(replica, subject);
        MUST(same(object.state, once_buf_bytes(&subject->state)));
        check_count(subject);
        once_object_release(&object);
        expected++;
    }
    MUST(found == expected);
}
