/* SPDX-License-Identifier: Apache-2.0
 *
 * What an apply comes to. Its effects meet things as the effects before them leave these; the first
 * that is rejected, or that cannot be decided, ends it, and nothing has changed.
 */
#include "apply/world.h"

#include "core/effect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    enum once_object_type type;
    enum once__effect_id effect, expecting; /* their rows of laws */
} kinds[ASK_COUNT] = {
    [ASK_ADD] = {ONCE_OBJECT_COUNTER, ONCE__ADD, 0},
    [ASK_MAX] = {ONCE_OBJECT_MAX, ONCE__MAX, 0},
    [ASK_MIN] = {ONCE_OBJECT_MIN, ONCE__MIN, 0},
    [ASK_FLAG] = {ONCE_OBJECT_FLAG, ONCE__FLAG, 0},
    [ASK_UNION] = {ONCE_OBJECT_GSET, ONCE__UNION, 0},
    [ASK_CLOCK] = {ONCE_OBJECT_VV, ONCE__CLOCK, 0},
    [ASK_LWW] = {ONCE_OBJECT_LWW, ONCE__LWW, 0},
    [ASK_GADD] = {ONCE_OBJECT_GCOUNTER, ONCE__GADD, 0},
    [ASK_PNADD] = {ONCE_OBJECT_PNCOUNTER, ONCE__PNADD, 0},
    [ASK_INSERT] = {ONCE_OBJECT_AWSET, ONCE__INSERT, 0},
    [ASK_REMOVE] = {ONCE_OBJECT_AWSET, ONCE__REMOVE, 0},
    [ASK_SET] = {ONCE_OBJECT_REGISTER, ONCE__SET, ONCE__SET_IF},
    [ASK_DELETE] = {ONCE_OBJECT_REGISTER, ONCE__DELETE, ONCE__DELETE_IF},
    [ASK_MACHINE] = {ONCE_OBJECT_MACHINE, ONCE__MACHINE, 0},
    [ASK_MOVE] = {ONCE_OBJECT_MACHINE, ONCE__MOVE, 0},
    [ASK_APPEND] = {ONCE_OBJECT_LOG, ONCE__APPEND, ONCE__APPEND_AT},
    [ASK_GRANT] = {ONCE_OBJECT_FENCE, ONCE__GRANT, 0},
    [ASK_GUARD] = {ONCE_OBJECT_FENCE, ONCE__GUARD, 0},
    [ASK_LEASE] = {ONCE_OBJECT_LEASE, ONCE__LEASE, 0},
    [ASK_RENEW] = {ONCE_OBJECT_LEASE, ONCE__RENEW, 0},
    [ASK_RELEASE] = {ONCE_OBJECT_LEASE, ONCE__RELEASE, 0},
    [ASK_HOLD] = {ONCE_OBJECT_LEASE, ONCE__HOLD, 0},
    [ASK_SEQ] = {ONCE_OBJECT_SEQUENCE, ONCE__SEQ, 0},
    [ASK_BUCKET] = {ONCE_OBJECT_BUCKETS, ONCE__BUCKET, 0},
    [ASK_EMIT] = {ONCE_OBJECT_OUTBOX, ONCE__EMIT, 0},
    [ASK_SENT] = {ONCE_OBJECT_OUTBOX, ONCE__SENT, 0},
};

/* Which laws: `once laws` proves that table, so it is not said again here. */
static bool needs_key(const struct thing *thing, const struct ask *ask)
{
    enum once__effect_id effect = kinds[ask->kind].effect;

    if (ask->expects)
        effect = kinds[ask->kind].expecting;
    if (ask->kind == ASK_MOVE && (thing->type == ONCE_OBJECT_NONE ||
                                  !world_declarations[thing->is.machine.declaration].cycle))
        effect = ONCE__MOVE_FORWARD;
    return once__effects[effect].laws.needs_key;
}

/* A state that comes from another replica. It is one ask of a kind that merges as it acts. */
static int merge(struct world *world, const struct request *request, struct thing *thing,
                 bool *ret_changed)
{
    struct ask ask = request->asks[0];
    enum once_object_type type = kinds[ask.kind].type;
    struct told told;

    if (thing->type != ONCE_OBJECT_NONE && thing->type != type)
        return ONCE_ERR_OBJECT_TYPE;
    if (ask.kind == ASK_GADD)
        ask.kind = ASK_CLOCK; /* the node's own number, not what is added to it */
    told = world_act(world, thing, &ask, 0);
    if (told.changed) {
        thing->type = type;
        thing->birth = thing->birth != 0 ? thing->birth : ++world->stage.births;
    }
    *ret_changed = told.changed;
    return ONCE_OK;
}

static size_t staged(struct world *world, int object)
{
    size_t i = 0;

    while (i < world->stage.count && world->stage.objects[i] != object)
        i++;
    if (i < world->stage.count)
        return i;
    world->stage.objects[i] = object;
    world->stage.things[i] = *world->now[object];
    world->stage.touched[i] = false;
    world->stage.count++;
    return i;
}

static void put_result(struct outcome *outcome, const struct told *told, bool first)
{
    char *at = outcome->result + outcome->size;
    size_t room = sizeof(outcome->result) - outcome->size;
    int size = told->is_word ? snprintf(at, room, "%s\"%s\"", first ? "[" : ",", told->word)
                             : snprintf(at, room, "%s%" PRId64, first ? "[" : ",", told->number);

    if (size < 0 || (size_t)size >= room)
        abort();
    outcome->size += (size_t)size;
}

/* A counter or a machine that is back where it was has not changed. */
static bool went_round(const struct world *world, size_t i)
{
    const struct thing *before = world->now[world->stage.objects[i]];
    const struct thing *after = &world->stage.things[i];

    if (before->type == ONCE_OBJECT_COUNTER)
        return before->is.counter == after->is.counter;
    return before->type == ONCE_OBJECT_MACHINE && before->is.machine.at == after->is.machine.at;
}

/* One effect. False when it ends the apply. */
static bool take_effect(struct world *world, const struct ask *ask, bool has_key, once_ms now_ms,
                        struct outcome *outcome)
{
    size_t i = staged(world, ask->object);
    struct thing *thing = &world->stage.things[i];
    struct told told;

    if (thing->type != ONCE_OBJECT_NONE && thing->type != kinds[ask->kind].type) {
        outcome->err = ONCE_ERR_OBJECT_TYPE;
        return false;
    }
    if (!has_key && needs_key(thing, ask)) {
        outcome->err = ONCE_ERR_KEY_NEEDED;
        return false;
    }
    told = world_act(world, thing, ask, now_ms);
    if (told.rejected) {
        outcome->rejected = told.rejected;
        return false;
    }
    put_result(outcome, &told, outcome->effect == 1);
    if (told.changed) {
        thing->type = kinds[ask->kind].type;
        thing->birth = thing->birth != 0 ? thing->birth : ++world->stage.births;
        world->stage.touched[i] = true;
    }
    return true;
}

void world_decide(struct world *world, const struct request *request, bool has_key, once_ms now_ms,
                  struct outcome *ret_outcome)
{
    struct outcome *outcome = ret_outcome;

    *outcome = (struct outcome){.err = ONCE_OK};
    world->stage.count = 0;
    world->stage.births = world->births;
    for (size_t i = 0; i < request->count; i++) {
        if (request->asks[i].kind != ASK_NONSENSE)
            continue;
        outcome->err = ONCE_ERR_INVALID;
        outcome->effect = (uint32_t)i + 1;
        return;
    }
    if (request->merges) {
        size_t i = staged(world, request->asks[0].object);

        outcome->err = merge(world, request, &world->stage.things[i], &outcome->changed);
        outcome->effect = outcome->err != ONCE_OK ? 1 : 0;
        world->stage.touched[i] = outcome->changed;
        outcome->size = (size_t)snprintf(outcome->result, sizeof(outcome->result), "[%d]",
                                         outcome->changed);
        return;
    }
    for (size_t i = 0; i < request->count; i++) {
        outcome->effect = (uint32_t)i + 1;
        if (take_effect(world, &request->asks[i], has_key, now_ms, outcome))
            continue;
        for (size_t j = 0; j < world->stage.count; j++)
            world->stage.touched[j] = false;
        return;
    }
    for (size_t i = 0; i < world->stage.count; i++) {
        world->stage.touched[i] = world->stage.touched[i] && !went_round(world, i);
        outcome->changed = outcome->changed || world->stage.touched[i];
    }
    outcome->effect = 0;
    outcome->result[outcome->size++] = ']';
}
