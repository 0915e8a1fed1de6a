/* SPDX-License-Identifier: Apache-2.0
 *
 * Random asks. They look at what the world is now, so that most of them do something; sent late, or
 * again, they meet another one.
 */
#include "apply/ask.h"

#include "power/workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <once/lattice.h>

static const struct {
    enum once_object_type type;
    const char *name;
    enum ask_kind kinds[4];
    unsigned weights[4];
} types[] = {
    {ONCE_OBJECT_COUNTER, "acct", {ASK_ADD}, {1}},
    {ONCE_OBJECT_OUTBOX, "topic", {ASK_EMIT, ASK_SENT}, {5, 2}},
    {ONCE_OBJECT_REGISTER, "register", {ASK_SET, ASK_DELETE}, {4, 1}},
    {ONCE_OBJECT_LOG, "log", {ASK_APPEND}, {1}},
    {ONCE_OBJECT_SEQUENCE, "producer", {ASK_SEQ}, {1}},
    {ONCE_OBJECT_FENCE, "fence", {ASK_GRANT, ASK_GUARD}, {2, 3}},
    {ONCE_OBJECT_LEASE, "lease", {ASK_LEASE, ASK_RENEW, ASK_RELEASE, ASK_HOLD}, {4, 2, 2, 1}},
    {ONCE_OBJECT_MACHINE, "machine", {ASK_MOVE, ASK_MACHINE}, {5, 1}},
    {ONCE_OBJECT_BUCKETS, "buckets", {ASK_BUCKET}, {1}},
    {ONCE_OBJECT_AWSET, "cart", {ASK_INSERT, ASK_REMOVE}, {3, 2}},
    {ONCE_OBJECT_GSET, "gset", {ASK_UNION}, {1}},
    {ONCE_OBJECT_MAX, "max", {ASK_MAX}, {1}},
    {ONCE_OBJECT_MIN, "min", {ASK_MIN}, {1}},
    {ONCE_OBJECT_FLAG, "flag", {ASK_FLAG}, {1}},
    {ONCE_OBJECT_VV, "clock", {ASK_CLOCK}, {1}},
    {ONCE_OBJECT_LWW, "lww", {ASK_LWW}, {1}},
    {ONCE_OBJECT_GCOUNTER, "likes", {ASK_GADD}, {1}},
    {ONCE_OBJECT_PNCOUNTER, "stock", {ASK_PNADD}, {1}},
};
enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]) };

void asker_start(struct asker *asker, struct world *world, struct chance *chance)
{
    size_t first = chance_below(chance, TYPE_COUNT);

    *asker = (struct asker){.world = world,
                            .large_percent = (unsigned)chance_between(chance, 0, 14)};
    if (chance_percent(chance, 25)) /* segments are full soon, and snapshots are due */
        asker->large_percent = 50;
    world->object_count = (int)chance_between(chance, 4, WORLD_OBJECTS_MAX);
    for (int i = 0; i < world->object_count; i++) {
        size_t type = (first + (size_t)i) % TYPE_COUNT;
        size_t size = sizeof(world->names[i]);

        asker->types[i] = types[type].type;
        snprintf(world->names[i], size, "%s:%d", types[type].name, i / TYPE_COUNT);
        if (i % 11 == 10) { /* a name as long as it may be */
            size_t used = strlen(world->names[i]);

            memset(world->names[i] + used, '.', size - 1 - used);
            world->names[i][size - 1] = '\0';
        }
    }
}

static struct once_bytes text_bytes(struct asker *asker, const char *prefix, uint64_t number)
{
    char text[40];
    int size = snprintf(text, sizeof(text), "%s%" PRIu64, prefix, number);

    return world_copy(asker->world, (struct once_bytes){(uint8_t *)text, (size_t)size});
}

static struct once_bytes payload(struct asker *asker, struct chance *chance)
{
    if (!chance_percent(chance, asker->large_percent))
        return workload_noise(chance, chance_below(chance, 60));
    if (chance_percent(chance, 80))
        return workload_noise(chance, chance_below(chance, WORKLOAD_LARGE_SIZE));
    return workload_noise(chance, chance_below(chance, 3 * WORKLOAD_LARGE_SIZE));
}

/* Mostly what it is; else near it, so that it is refused, or done already. */
static uint64_t near(struct chance *chance, uint64_t number)
{
    static const unsigned weights[] = {70, 14, 8, 8};

    switch (chance_pick(chance, weights, 4)) {
    case 1:
        return number > 0 ? number - 1 : 0;
    case 2:
        return number + 1;
    case 3:
        return chance_below(chance, number + 3);
    default:
        return number;
    }
}

static uint64_t at_least_1(uint64_t number)
{
    return number > 0 ? number : 1;
}

/* ---- Kinds ----------------------------------------------------------------------------------- */

static void fill_number(struct chance *chance, struct ask *ask)
{
    switch ((unsigned)ask->kind) {
    case ASK_ADD:
        ask->n = chance_between(chance, -60, 100);
        if (chance_percent(chance, 3))
            ask->n = chance_percent(chance, 50) ? INT64_MAX : INT64_MIN;
        ask->has_min = chance_percent(chance, 50);
        ask->has_max = chance_percent(chance, 20);
        ask->max = chance_between(chance, 100, 400);
        break;
    case ASK_PNADD:
        ask->n = chance_between(chance, -60, 100);
        break;
    case ASK_LWW:
        ask->n = chance_between(chance, 0, 50);
        break;
    default:
        ask->n = chance_between(chance, -1000, 1000);
        break;
    }
    ask->number = chance_below(chance, 30);
}

/* What RENEW, RELEASE, HOLD and GUARD name: mostly the newest there is. */
static void fill_token(struct chance *chance, const struct thing *thing, struct ask *ask)
{
    static const once_ms lengths[] = {1, 100, 900, 6000, 60000, ONCE_LEASE_MS_MAX};
    uint64_t newest = 0;

    if (thing->type == ONCE_OBJECT_LEASE)
        newest = thing->is.lease.token;
    if (thing->type == ONCE_OBJECT_FENCE)
        newest = thing->is.fence.granted > thing->is.fence.seen ? thing->is.fence.granted
                                                                : thing->is.fence.seen + 1;
    ask->number = at_least_1(near(chance, newest));
    ask->ms = lengths[chance_below(chance, sizeof(lengths) / sizeof(lengths[0]))];
}

static void fill_expected(struct chance *chance, const struct thing *thing, struct ask *ask)
{
    uint64_t version = 0;

    if (thing->type == ONCE_OBJECT_REGISTER)
        version = thing->is.reg.version;
    if (thing->type == ONCE_OBJECT_LOG)
        version = thing->is.log.count;
    ask->expects = chance_percent(chance, 55);
    ask->expected = near(chance, version);
}

static void fill_move(struct chance *chance, const struct thing *thing, struct ask *ask)
{
    int declaration = (int)chance_below(chance, WORLD_DECLARATIONS);
    const struct declaration *declared;
    int count = 0;

    if (thing->type == ONCE_OBJECT_MACHINE && chance_percent(chance, 90))
        declaration = thing->is.machine.declaration;
    declared = &world_declarations[declaration];
    while (count < WORLD_STATES_MAX && declared->states[count])
        count++;
    ask->to = (int)chance_below(chance, (uint64_t)count);
    ask->node = (int)chance_below(chance, (uint64_t)count);
    if (thing->type == ONCE_OBJECT_MACHINE && thing->is.machine.at < count &&
        chance_percent(chance, 80)) {
        ask->node = thing->is.machine.at;
        for (int tries = 0; tries < 4 && (declared->to[ask->node] >> ask->to & 1) == 0; tries++)
            ask->to = (int)chance_below(chance, (uint64_t)count);
    }
    ask->node += declaration * 8;
    ask->to += declaration * 8;
}

static void fill_sequence(struct chance *chance, const struct thing *thing, struct ask *ask)
{
    uint64_t epoch = 0, next = 0;

    if (thing->type == ONCE_OBJECT_SEQUENCE) {
        epoch = thing->is.sequence.epoch;
        next = thing->is.sequence.next;
    }
    ask->epoch = chance_percent(chance, 88) ? epoch : near(chance, epoch + 1);
    ask->number = ask->epoch == epoch ? near(chance, next) : chance_below(chance, 8) == 0;
}

static void fill_sent(struct chance *chance, const struct thing *thing, struct ask *ask)
{
    uint64_t total = thing->type == ONCE_OBJECT_OUTBOX ? thing->is.outbox.total : 0;

    ask->number_count = 1 + chance_below(chance, 3);
    for (size_t i = 0; i < ask->number_count; i++)
        ask->numbers[i] = at_least_1(chance_percent(chance, 94) ? chance_below(chance, total + 1)
                                                                : total + 1);
}

static void fill(struct asker *asker, struct chance *chance, struct ask *ask)
{
    const struct thing *thing = asker->world->now[ask->object];

    ask->node = (int)chance_below(chance, WORLD_NODES);
    switch ((unsigned)ask->kind) {
    case ASK_UNION:
    case ASK_INSERT:
    case ASK_REMOVE:
        ask->members = 1U << chance_below(chance, WORLD_MEMBERS);
        if (chance_percent(chance, 30))
            ask->members |= (unsigned)chance_below(chance, 1U << WORLD_MEMBERS);
        break;
    case ASK_SET:
    case ASK_DELETE:
    case ASK_APPEND:
        fill_expected(chance, thing, ask);
        ask->id = text_bytes(asker, "event-", chance_below(chance, ++asker->serial));
        ask->value = payload(asker, chance);
        break;
    case ASK_EMIT:
        if (chance_percent(chance, 40))
            ask->id = text_bytes(asker, "group-", chance_below(chance, 3));
        ask->value = payload(asker, chance);
        break;
    case ASK_MACHINE:
        ask->node = (int)chance_below(chance, WORLD_DECLARATIONS);
        if (thing->type == ONCE_OBJECT_MACHINE && chance_percent(chance, 60))
            ask->node = thing->is.machine.declaration;
        break;
    case ASK_MOVE:
        fill_move(chance, thing, ask);
        break;
    case ASK_SEQ:
        fill_sequence(chance, thing, ask);
        break;
    case ASK_BUCKET:
        ask->node = (int)chance_below(chance, WORLD_BUCKETS);
        ask->number = chance_below(chance, 20);
        break;
    case ASK_SENT:
        fill_sent(chance, thing, ask);
        break;
    case ASK_LEASE:
    case ASK_RENEW:
    case ASK_RELEASE:
    case ASK_HOLD:
    case ASK_GUARD:
        fill_token(chance, thing, ask);
        break;
    default:
        fill_number(chance, ask);
        if (ask->kind == ASK_LWW)
            ask->value = text_bytes(asker, "v", chance_below(chance, 5));
        break;
    }
}

static enum ask_kind kind_for(struct chance *chance, enum once_object_type type)
{
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (types[i].type == type)
            return types[i].kinds[chance_pick(chance, types[i].weights, 4)];
    }
    abort();
}

/* The outbox has room for its numbers in the world, which is bounded. */
static bool crowded(const struct asker *asker, int object)
{
    const struct thing *thing = asker->world->now[object];

    return thing->type == ONCE_OBJECT_OUTBOX && thing->is.outbox.total > WORLD_MESSAGES_MAX - 16;
}

static void ask(struct asker *asker, struct chance *chance, struct ask *ret_ask)
{
    int object = (int)chance_below(chance, (uint64_t)asker->world->object_count);
    const struct thing *thing = asker->world->now[object];
    enum once_object_type type = thing->type != ONCE_OBJECT_NONE ? thing->type
                                                                 : asker->types[object];

    *ret_ask = (struct ask){.object = object};
    if (chance_percent(chance, 2))
        type = types[chance_below(chance, TYPE_COUNT)].type; /* mostly a wrong one */
    ret_ask->kind = kind_for(chance, type);
    if (ret_ask->kind == ASK_EMIT && crowded(asker, object))
        ret_ask->kind = ASK_SENT;
    fill(asker, chance, ret_ask);
    if (chance_below(chance, 300) == 0)
        *ret_ask = (struct ask){.kind = ASK_NONSENSE, .node = (int)chance_below(chance, 100)};
}

/* ---- Requests -------------------------------------------------------------------------------- */

static int pick_key(struct asker *asker, struct chance *chance, once_ms now_ms)
{
    const struct model *model = asker->world->model;
    int key = (int)chance_below(chance, (uint64_t)model->key_count);

    /* A key that nobody used yet, or not any more, if there is one. */
    for (int tries = 0; tries < 10 && chance_percent(chance, 96); tries++) {
        enum once_state state = once__state_at(&model->now[key], now_ms);

        if (state == ONCE_STATE_ABSENT || state == ONCE_STATE_FAILED)
            break;
        key = (int)chance_below(chance, (uint64_t)model->key_count);
    }
    return key;
}

static once_ms retention(struct chance *chance)
{
    static const once_ms choices[] = {50, 1000, 3000, 10000, 60000, 0};
    static const unsigned weights[] = {4, 6, 6, 4, 3, 1};

    return choices[chance_pick(chance, weights, 6)];
}

static void make_apply(struct asker *asker, struct chance *chance, once_ms now_ms,
                       struct request *request)
{
    static const unsigned counts[WORLD_EFFECTS_MAX] = {40, 25, 20, 8, 4, 3};
    static const uint8_t prints[2][ONCE_FINGERPRINT_SIZE] = {{7, 8, 9}, {10, 11, 12}};

    request->count = 1 + chance_pick(chance, counts, WORLD_EFFECTS_MAX);
    request->key = pick_key(asker, chance, now_ms);
    request->ttl_ms = retention(chance);
    /* Of one's own, or of the effects. */
    if (chance_percent(chance, 40))
        request->fingerprint = (struct once_bytes){prints[chance_percent(chance, 20)],
                                                   ONCE_FINGERPRINT_SIZE};
    for (size_t i = 0; i < request->count; i++) {
        ask(asker, chance, &request->asks[i]);
        ask_words(asker, chance, request, i);
    }
}

/* Without a key: only what needs none, mostly. */
static void make_keyless(struct asker *asker, struct chance *chance, struct request *request)
{
    static const unsigned counts[WORLD_EFFECTS_MAX] = {70, 20, 6, 2, 1, 1};

    request->key = HISTORY_NO_KEY;
    request->count = 1 + chance_pick(chance, counts, WORLD_EFFECTS_MAX);
    for (size_t i = 0; i < request->count; i++) {
        for (int tries = 0; tries < 12; tries++) {
            const struct ask *made = &request->asks[i];

            ask(asker, chance, &request->asks[i]);
            if (made->kind == ASK_NONSENSE || made->expects || ask_needs_no_key(made->kind))
                break;
        }
        ask_words(asker, chance, request, i);
    }
}

static int make_state(const struct ask *ask, struct once_buf *out)
{
    struct once_bytes node = once_bytes_of(world_nodes[ask->node]);
    struct once_lww write = {.time = ask->n, .node = node, .value = ask->value};
    struct once_bytes members[WORLD_MEMBERS], nothing = {NULL, 0};
    struct once_buf bottom;
    size_t count = 0;
    int err;

    switch ((unsigned)ask->kind) {
    case ASK_MAX:
        return once_max_set(ask->n, out);
    case ASK_MIN:
        return once_min_set(ask->n, out);
    case ASK_FLAG:
        return once_flag_raise(out);
    case ASK_CLOCK:
        return once_vv_set(node, ask->number, out);
    case ASK_LWW:
        return once_lww_write(&write, out);
    case ASK_GADD:
        once_buf_init(&bottom, 100);
        err = once_lattice_bottom(ONCE_LATTICE_GCOUNTER, &bottom);
        if (err == ONCE_OK)
            err = once_gcounter_add(once_buf_bytes(&bottom), node, ask->number, out);
        once_buf_release(&bottom);
        return err;
    default:
        for (int i = 0; i < WORLD_MEMBERS; i++) {
            if (ask->members >> i & 1)
                members[count++] = once_bytes_of(world_members[i]);
        }
        return once_gset_add_all(count > 0 ? members : &nothing, count, out);
    }
}

/* A state that another replica sends. */
static void make_merge(struct asker *asker, struct chance *chance, struct request *request)
{
    static const enum ask_kind kinds[] = {ASK_MAX, ASK_MIN,  ASK_FLAG, ASK_CLOCK,
                                          ASK_LWW, ASK_GADD, ASK_UNION};
    struct ask *made = &request->asks[0];
    struct once_buf out;

    request->key = HISTORY_NO_KEY;
    request->merges = true;
    request->count = 1;
    for (int tries = 0; tries < 20; tries++) {
        ask(asker, chance, made);
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
            tries = made->kind == kinds[i] ? 20 : tries;
    }
    if (made->kind != ASK_MAX && made->kind != ASK_MIN && made->kind != ASK_FLAG &&
        made->kind != ASK_CLOCK && made->kind != ASK_LWW && made->kind != ASK_GADD &&
        made->kind != ASK_UNION)
        *made = (struct ask){.kind = ASK_FLAG, .object = made->object};
    once_buf_init(&out, 1 << 16);
    if (make_state(made, &out) != ONCE_OK)
        abort();
    request->state = world_copy(asker->world, once_buf_bytes(&out));
    once_buf_release(&out);
}

bool ask_needs_no_key(enum ask_kind kind)
{
    static const enum ask_kind free_kinds[] = {
        ASK_MAX,  ASK_MIN,   ASK_FLAG, ASK_UNION, ASK_CLOCK,   ASK_LWW,  ASK_MACHINE,
        ASK_MOVE, ASK_GUARD, ASK_SEQ,  ASK_RENEW, ASK_RELEASE, ASK_HOLD, ASK_SENT};

    for (size_t i = 0; i < sizeof(free_kinds) / sizeof(free_kinds[0]); i++) {
        if (free_kinds[i] == kind)
            return true;
    }
    return false;
}

const struct request *asker_next(struct asker *asker, struct chance *chance, once_ms now_ms)
{
    static const unsigned weights[] = {55, 16, 4, 25};
    struct request *request = NULL;
    size_t which = chance_pick(chance, weights, 4);

    if (which == 3 && asker->request_count > 0) /* one that was made before */
        return asker->requests[chance_below(chance, asker->request_count)];
    request = world_take(asker->world, sizeof(*request));
    if (which == 1)
        make_keyless(asker, chance, request);
    else if (which == 2)
        make_merge(asker, chance, request);
    else
        make_apply(asker, chance, now_ms, request);

    which = chance_below(chance, ASKER_REQUESTS_MAX);
    if (asker->request_count < ASKER_REQUESTS_MAX)
        which = asker->request_count++;
    asker->requests[which] = request;
    /* Some are late: another one overtakes them. */
    return chance_percent(chance, 12) ? asker->requests[chance_below(chance, asker->request_count)]
                                      : request;
}
