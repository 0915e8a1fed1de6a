/* SPDX-License-Identifier: Apache-2.0
 *
 * What each effect does to a thing, said again: own arithmetic, own order of checks. Which effects
 * are of one apply, and what that comes to, is in decide.c.
 */
#include "apply/world.h"

#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

const char *const world_nodes[WORLD_NODES] = {"a", "berlin", "node-3"};
const char *const world_members[WORLD_MEMBERS] = {"eins", "m1", "m2", "x", "y", "zz"};
const char *const world_buckets[WORLD_BUCKETS] = {"1999-12-31", "2000-01-01", "2000-01-02", "a",
                                                  "b"};
const struct declaration world_declarations[WORLD_DECLARATIONS] = {
    {{"new>paid", "paid>sent", "new>gone", "paid>gone"},
     {"new", "paid", "sent", "gone"},
     {(1 << 1) | (1 << 3), (1 << 2) | (1 << 3), 0, 0},
     false},
    {{"off>on", "on>off"}, {"off", "on"}, {1 << 1, 1 << 0}, true},
    {{"new>paid", "new>gone"}, {"new", "paid", "gone"}, {(1 << 1) | (1 << 2), 0, 0}, false},
    {{"a>b", "b>b", "b>c", "c>d", "d>e"},
     {"a", "b", "c", "d", "e"},
     {1 << 1, (1 << 1) | (1 << 2), 1 << 3, 1 << 4, 0},
     false},
};

static struct told number(bool changed, int64_t n)
{
    return (struct told){.changed = changed, .number = n};
}

static struct told word(bool changed, const char *text)
{
    return (struct told){.changed = changed, .is_word = true, .word = text};
}

static struct told rejected(const char *text)
{
    return (struct told){.rejected = text};
}

static int bits(unsigned mask)
{
    return __builtin_popcount(mask);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

__extension__ typedef __int128 wide;

static struct told add(struct thing *thing, const struct ask *ask)
{
    wide sum = (wide)thing->is.counter + ask->n;

    if (sum < INT64_MIN || sum > INT64_MAX)
        return rejected("OVERFLOW");
    if (ask->has_min && sum < ask->min)
        return rejected("BELOW_MIN");
    if (ask->has_max && sum > ask->max)
        return rejected("ABOVE_MAX");
    thing->is.counter = (int64_t)sum;
    return number(ask->n != 0, thing->is.counter);
}

static struct told extreme(struct thing *thing, const struct ask *ask)
{
    bool fresh = thing->type == ONCE_OBJECT_NONE;
    bool better = ask->kind == ASK_MAX ? ask->n > thing->is.counter : ask->n < thing->is.counter;

    if (fresh || better)
        thing->is.counter = ask->n;
    return number(fresh || better, thing->is.counter);
}

static struct told flag(const struct thing *thing)
{
    return number(thing->type == ONCE_OBJECT_NONE, 1);
}

static struct told clock_vector(struct thing *thing, const struct ask *ask)
{
    uint64_t *up = &thing->is.up[ask->node];
    bool more = ask->number > *up;

    if (more)
        *up = ask->number;
    return number(more, (int64_t)*up);
}

static struct told gadd(struct thing *thing, const struct ask *ask)
{
    uint64_t sum = 0;

    thing->is.up[ask->node] += ask->number;
    for (int i = 0; i < WORLD_NODES; i++)
        sum += thing->is.up[i];
    return number(ask->number > 0, (int64_t)sum);
}

static struct told pnadd(struct thing *thing, const struct ask *ask)
{
    int64_t sum = 0;

    if (ask->n > 0)
        thing->is.pn.up[ask->node] += (uint64_t)ask->n;
    else
        thing->is.pn.down[ask->node] += (uint64_t)-ask->n;
    for (int i = 0; i < WORLD_NODES; i++)
        sum += (int64_t)thing->is.pn.up[i] - (int64_t)thing->is.pn.down[i];
    return number(ask->n != 0, sum);
}

static struct told bucket(struct thing *thing, const struct ask *ask)
{
    thing->is.buckets[ask->node] += ask->number;
    return number(ask->number > 0, (int64_t)thing->is.buckets[ask->node]);
}

/* ---- Sets and registers ---------------------------------------------------------------------- */

static struct told unite(struct thing *thing, const struct ask *ask)
{
    int fresh = bits(ask->members & ~thing->is.members);

    thing->is.members |= ask->members;
    return number(fresh > 0, fresh);
}

/* How the write of ask stands to the one that is there: before, the same, later. */
static int write_order(const struct thing *thing, const struct ask *ask)
{
    struct once_bytes node = once_bytes_of(world_nodes[ask->node]);
    int order;

    if (thing->type == ONCE_OBJECT_NONE)
        return 1;
    if (ask->n != thing->is.lww.time)
        return ask->n > thing->is.lww.time ? 1 : -1;
    order = once__bytes_compare(node, once_bytes_of(world_nodes[thing->is.lww.node]));
    return order != 0 ? order : once__bytes_compare(ask->value, thing->is.lww.value);
}

static struct told lww(struct thing *thing, const struct ask *ask)
{
    int order = write_order(thing, ask);

    if (order <= 0)
        return number(false, order == 0); /* the same again has won before */
    thing->is.lww.time = ask->n;
    thing->is.lww.node = ask->node;
    thing->is.lww.value = ask->value;
    return number(true, 1);
}

static struct told insert(struct thing *thing, const struct ask *ask)
{
    int fresh = 0;

    for (int i = 0; i < WORLD_MEMBERS; i++) {
        if ((ask->members >> i & 1) == 0)
            continue;
        fresh += thing->is.aw.dots[i].number == 0;
        thing->is.aw.dots[i].node = ask->node;
        thing->is.aw.dots[i].number = ++thing->is.aw.seen[ask->node];
    }
    return number(true, fresh);
}

static struct told remove_members(struct thing *thing, const struct ask *ask)
{
    int there = 0;

    for (int i = 0; i < WORLD_MEMBERS; i++) {
        if ((ask->members >> i & 1) == 0 || thing->is.aw.dots[i].number == 0)
            continue;
        there++;
        thing->is.aw.dots[i].number = 0;
    }
    return number(there > 0, there);
}

static struct told set(struct thing *thing, const struct ask *ask)
{
    if (ask->expects && ask->expected != thing->is.reg.version)
        return rejected("VERSION");
    thing->is.reg.version++;
    thing->is.reg.present = true;
    thing->is.reg.value = ask->value;
    return number(true, (int64_t)thing->is.reg.version);
}

static struct told delete (struct thing *thing, const struct ask *ask)
{
    bool there = thing->is.reg.present;

    /* Of what is gone every version that was is fine; of what is there only this one. */
    if (ask->expects &&
        (there ? ask->expected != thing->is.reg.version : ask->expected > thing->is.reg.version))
        return rejected("VERSION");
    if (there) {
        thing->is.reg.version++;
        thing->is.reg.present = false;
        thing->is.reg.value = (struct once_bytes){NULL, 0};
    }
    return number(there, (int64_t)thing->is.reg.version);
}

/* ---- Machines, logs, outboxes ---------------------------------------------------------------- */

static struct told machine(struct thing *thing, const struct ask *ask)
{
    if (thing->type != ONCE_OBJECT_NONE)
        return thing->is.machine.declaration == ask->node ? number(false, 0)
                                                          : rejected("REDECLARED");
    thing->is.machine.declaration = ask->node;
    thing->is.machine.at = 0;
    return number(true, 1);
}

/* from and to are states of declaration 3 and 0 by number; which of them the machine has, shows. */
static int state_of(const struct declaration *declaration, int state)
{
    for (int i = 0; i < WORLD_STATES_MAX && declaration->states[i]; i++) {
        if (strcmp(declaration->states[i], world_declarations[state / 8].states[state % 8]) == 0)
            return i;
    }
    return -1;
}

static struct told move(struct thing *thing, const struct ask *ask)
{
    const struct declaration *declaration = &world_declarations[thing->is.machine.declaration];
    int from, to;

    if (thing->type == ONCE_OBJECT_NONE)
        return rejected("NO_STATE");
    from = state_of(declaration, ask->node);
    to = state_of(declaration, ask->to);
    if (from < 0 || to < 0)
        return rejected("NO_STATE");
    if (to == thing->is.machine.at)
        return word(false, declaration->states[to]);
    if ((declaration->to[from] >> to & 1) == 0)
        return rejected("NO_MOVE");
    if (from != thing->is.machine.at)
        return rejected("ELSEWHERE");
    thing->is.machine.at = to;
    return word(true, declaration->states[to]);
}

static const struct post *post(struct world *world, const struct post *before, uint64_t n,
                               const struct ask *ask)
{
    struct post *made = world_take(world, sizeof(*made));

    *made = (struct post){.before = before, .number = n, .id = ask->id, .payload = ask->value};
    made->mark = world_mark(n, ask->id, ask->value);
    made->sum = world_mix(before ? before->sum : 0, made->mark);
    return made;
}

static const struct post *find_post(const struct post *last, uint64_t n)
{
    while (last && last->number != n)
        last = last->before;
    return last;
}

static struct told append(struct world *world, struct thing *thing, const struct ask *ask)
{
    if (ask->expects && ask->expected < thing->is.log.count) {
        const struct post *there = find_post(thing->is.log.last, ask->expected + 1);

        if (once__bytes_equal(there->id, ask->id) && once__bytes_equal(there->payload, ask->value))
            return number(false, (int64_t)ask->expected + 1);
    }
    if (ask->expects && ask->expected != thing->is.log.count)
        return rejected("VERSION");
    thing->is.log.count++;
    thing->is.log.last = post(world, thing->is.log.last, thing->is.log.count, ask);
    return number(true, (int64_t)thing->is.log.count);
}

static struct told emit(struct world *world, struct thing *thing, const struct ask *ask)
{
    if (thing->is.outbox.total + 1 >= WORLD_MESSAGES_MAX)
        abort(); /* the workload is bounded */
    thing->is.outbox.total++;
    thing->is.outbox.waiting++;
    thing->is.outbox.last = post(world, thing->is.outbox.last, thing->is.outbox.total, ask);
    thing->is.outbox.sum += thing->is.outbox.last->mark;
    return number(true, (int64_t)thing->is.outbox.total);
}

static struct told sent(struct thing *thing, const struct ask *ask)
{
    int64_t there = 0;

    for (size_t i = 0; i < ask->number_count; i++) {
        uint64_t n = ask->numbers[i];

        if (n > thing->is.outbox.total)
            return rejected("NO_MESSAGE");
        if (thing->is.outbox.gone[n / 8] >> (n % 8) & 1)
            continue;
        thing->is.outbox.gone[n / 8] |= (uint8_t)(1 << (n % 8));
        thing->is.outbox.waiting--;
        thing->is.outbox.sum -= find_post(thing->is.outbox.last, n)->mark;
        there++;
    }
    return number(there > 0, there);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static struct told grant(struct thing *thing)
{
    if (thing->is.fence.seen > thing->is.fence.granted)
        thing->is.fence.granted = thing->is.fence.seen;
    thing->is.fence.granted++;
    return number(true, (int64_t)thing->is.fence.granted);
}

/* A token that a newer one was granted after is stale too, used or not. */
static struct told guard(struct thing *thing, const struct ask *ask)
{
    if (ask->number <= thing->is.fence.seen || ask->number < thing->is.fence.granted)
        return rejected("STALE");
    thing->is.fence.seen = ask->number;
    return number(true, (int64_t)ask->number);
}

static struct told lease(struct thing *thing, const struct ask *ask, once_ms now_ms)
{
    if (thing->type == ONCE_OBJECT_NONE)
        thing->is.lease.owner = -1;
    if (thing->is.lease.owner >= 0 && now_ms < thing->is.lease.until_ms) {
        if (thing->is.lease.owner != ask->node)
            return rejected("HELD");
        return number(false, (int64_t)thing->is.lease.token);
    }
    thing->is.lease.token++;
    thing->is.lease.owner = ask->node;
    thing->is.lease.until_ms = now_ms + ask->ms;
    return number(true, (int64_t)thing->is.lease.token);
}

/* RENEW, RELEASE, HOLD. */
static struct told holder(struct thing *thing, const struct ask *ask, once_ms now_ms)
{
    bool newest = thing->type != ONCE_OBJECT_NONE && ask->number == thing->is.lease.token;
    bool held = newest && thing->is.lease.owner >= 0;
    bool longer = held && now_ms + ask->ms > thing->is.lease.until_ms;

    if (ask->kind == ASK_RELEASE ? !newest : !held)
        return rejected("STALE");
    if (ask->kind == ASK_HOLD)
        return number(false, (int64_t)ask->number);
    if (ask->kind == ASK_RENEW) {
        if (longer)
            thing->is.lease.until_ms = now_ms + ask->ms;
        return number(longer, (int64_t)ask->number);
    }
    if (held) {
        thing->is.lease.owner = -1;
        thing->is.lease.until_ms = 0;
    }
    return number(held, held);
}

static struct told sequence(struct thing *thing, const struct ask *ask)
{
    uint64_t next = ask->epoch == thing->is.sequence.epoch ? thing->is.sequence.next : 0;

    if (ask->epoch < thing->is.sequence.epoch)
        return rejected("FENCED");
    if (ask->number < next)
        return word(false, "duplicate");
    if (ask->number > next)
        return rejected("GAP");
    thing->is.sequence.epoch = ask->epoch;
    thing->is.sequence.next = next + 1;
    return word(true, "new");
}

/* ---- All of them ----------------------------------------------------------------------------- */

struct told world_act(struct world *world, struct thing *thing, const struct ask *ask,
                      once_ms now_ms)
{
    switch (ask->kind) {
    case ASK_ADD:
        return add(thing, ask);
    case ASK_MAX:
    case ASK_MIN:
        return extreme(thing, ask);
    case ASK_FLAG:
        return flag(thing);
    case ASK_UNION:
        return unite(thing, ask);
    case ASK_CLOCK:
        return clock_vector(thing, ask);
    case ASK_LWW:
        return lww(thing, ask);
    case ASK_GADD:
        return gadd(thing, ask);
    case ASK_PNADD:
        return pnadd(thing, ask);
    case ASK_INSERT:
        return insert(thing, ask);
    case ASK_REMOVE:
        return remove_members(thing, ask);
    case ASK_SET:
        return set(thing, ask);
    case ASK_DELETE:
        return delete (thing, ask);
    case ASK_MACHINE:
        return machine(thing, ask);
    case ASK_MOVE:
        return move(thing, ask);
    case ASK_APPEND:
        return append(world, thing, ask);
    case ASK_GRANT:
        return grant(thing);
    case ASK_GUARD:
        return guard(thing, ask);
    case ASK_LEASE:
        return lease(thing, ask, now_ms);
    case ASK_RENEW:
    case ASK_RELEASE:
    case ASK_HOLD:
        return holder(thing, ask, now_ms);
    case ASK_SEQ:
        return sequence(thing, ask);
    case ASK_BUCKET:
        return bucket(thing, ask);
    case ASK_EMIT:
        return emit(world, thing, ask);
    case ASK_SENT:
        return sent(thing, ask);
    case ASK_NONSENSE:
    case ASK_COUNT:
        break;
    }
    abort();
}
