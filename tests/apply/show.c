/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of objects. The world's are written here field by field: the JSON of view.c and the
 * descriptions of lattice states are said again, not made by the code under test.
 */
#include "apply/show.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(struct show *show, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct show *show, const char *format, ...)
{
    va_list list;
    int size;

    va_start(list, format);
    size = vsnprintf(show->text + show->size, sizeof(show->text) - show->size, format, list);
    va_end(list);
    if (size < 0 || (size_t)size >= sizeof(show->text) - show->size)
        abort();
    show->size += (size_t)size;
}

bool show_equal(const struct show *a, const struct show *b)
{
    return a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

/* ---- The world ------------------------------------------------------------------------------- */

static void put_vector(struct show *show, const uint64_t *up, const uint64_t *down)
{
    const char *comma = "";

    for (int i = 0; i < WORLD_NODES; i++) {
        if (up[i] == 0 && (!down || down[i] == 0))
            continue;
        if (down)
            put(show, "%s%s:+%" PRIu64 "-%" PRIu64, comma, world_nodes[i], up[i], down[i]);
        else
            put(show, "%s%s:%" PRIu64, comma, world_nodes[i], up[i]);
        comma = ",";
    }
}

static void put_awset(struct show *show, const struct thing *thing)
{
    const char *comma = "";

    for (int i = 0; i < WORLD_MEMBERS; i++) {
        const struct dot *dot = &thing->is.aw.dots[i];

        if (dot->number == 0)
            continue;
        put(show, "%s%s %s:%" PRIu64, comma, world_members[i], world_nodes[dot->node], dot->number);
        comma = ",";
    }
    comma = " | ";
    for (int i = 0; i < WORLD_NODES; i++) {
        if (thing->is.aw.seen[i] == 0)
            continue;
        put(show, "%s%s:%" PRIu64, comma, world_nodes[i], thing->is.aw.seen[i]);
        comma = ",";
    }
}

/* As once_lattice_describe. Names of nodes and members are in the order of their bytes. */
static void put_mergeable(struct show *show, const struct thing *thing)
{
    put(show, "change %" PRIu64 " %s{", thing->change, once_object_type_name(thing->type));
    switch ((unsigned)thing->type) {
    case ONCE_OBJECT_MAX:
    case ONCE_OBJECT_MIN:
        put(show, "%" PRId64, thing->is.counter);
        break;
    case ONCE_OBJECT_FLAG:
        put(show, "true");
        break;
    case ONCE_OBJECT_GSET:
        for (int i = 0, count = 0; i < WORLD_MEMBERS; i++) {
            if (thing->is.members >> i & 1)
                put(show, "%s%s", count++ > 0 ? "," : "", world_members[i]);
        }
        break;
    case ONCE_OBJECT_LWW:
        put(show, "%.*s @%" PRId64 " by %s", (int)thing->is.lww.value.size,
            (const char *)thing->is.lww.value.data, thing->is.lww.time,
            world_nodes[thing->is.lww.node]);
        break;
    case ONCE_OBJECT_PNCOUNTER:
        put_vector(show, thing->is.pn.up, thing->is.pn.down);
        break;
    case ONCE_OBJECT_AWSET:
        put_awset(show, thing);
        break;
    default:
        put_vector(show, thing->is.up, NULL);
        break;
    }
    put(show, "}");
}

static void put_machine(struct show *show, const struct thing *thing)
{
    const struct declaration *declared = &world_declarations[thing->is.machine.declaration];

    put(show, ",\"state\":\"%s\",\"states\":", declared->states[thing->is.machine.at]);
    for (int i = 0; i < WORLD_STATES_MAX && declared->states[i]; i++)
        put(show, "%s\"%s\"", i == 0 ? "[" : ",", declared->states[i]);
    put(show, "],\"moves\":");
    for (int i = 0; declared->moves[i]; i++)
        put(show, "%s\"%s\"", i == 0 ? "[" : ",", declared->moves[i]);
    put(show, "]");
}

static void put_fields(struct show *show, const struct thing *thing)
{
    int count = 0;

    switch ((unsigned)thing->type) {
    case ONCE_OBJECT_COUNTER:
        put(show, ",\"value\":%" PRId64, thing->is.counter);
        break;
    case ONCE_OBJECT_MACHINE:
        put_machine(show, thing);
        break;
    case ONCE_OBJECT_LOG:
        put(show, ",\"version\":%" PRIu64, thing->is.log.count);
        break;
    case ONCE_OBJECT_FENCE:
        put(show, ",\"granted\":%" PRIu64 ",\"seen\":%" PRIu64, thing->is.fence.granted,
            thing->is.fence.seen);
        break;
    case ONCE_OBJECT_LEASE:
        put(show, ",\"token\":%" PRIu64 ",\"owner\":", thing->is.lease.token);
        if (thing->is.lease.owner >= 0)
            put(show, "\"%s\"", world_nodes[thing->is.lease.owner]);
        else
            put(show, "null");
        put(show, ",\"until_ms\":%" PRId64, thing->is.lease.until_ms);
        break;
    case ONCE_OBJECT_SEQUENCE:
        put(show, ",\"epoch\":%" PRIu64 ",\"next\":%" PRIu64, thing->is.sequence.epoch,
            thing->is.sequence.next);
        break;
    case ONCE_OBJECT_BUCKETS:
        for (int i = 0; i < WORLD_BUCKETS; i++)
            count += thing->is.buckets[i] > 0;
        put(show, ",\"count\":%d", count);
        break;
    default:
        put(show, ",\"total\":%" PRIu64 ",\"waiting\":%" PRIu64, thing->is.outbox.total,
            thing->is.outbox.waiting);
        break;
    }
}

static void put_items(struct show *show, const struct thing *thing)
{
    if (thing->type == ONCE_OBJECT_LOG)
        put(show, " %" PRIu64 " events %016" PRIx64, thing->is.log.count,
            thing->is.log.last ? thing->is.log.last->sum : 0);
    if (thing->type == ONCE_OBJECT_OUTBOX)
        put(show, " %" PRIu64 " messages %016" PRIx64, thing->is.outbox.waiting,
            thing->is.outbox.sum);
    if (thing->type != ONCE_OBJECT_BUCKETS)
        return;
    for (int i = 0; i < WORLD_BUCKETS; i++) {
        if (thing->is.buckets[i] > 0)
            put(show, " %s=%" PRIu64, world_buckets[i], thing->is.buckets[i]);
    }
}

static void put_register(struct show *show, uint64_t version, bool present, struct once_bytes value)
{
    put(show, "register version %" PRIu64 " %s size %zu %016" PRIx64, version,
        present ? "present" : "gone", value.size,
        world_mark(0, value, (struct once_bytes){NULL, 0}));
}

void show_thing(const struct world *world, int object, const struct thing *thing,
                struct show *ret_show)
{
    ret_show->size = 0;
    if (thing->type == ONCE_OBJECT_NONE) {
        put(ret_show, "none");
    } else if (once_object_mergeable(thing->type)) {
        put_mergeable(ret_show, thing);
    } else if (thing->type == ONCE_OBJECT_REGISTER) {
        put_register(ret_show, thing->is.reg.version, thing->is.reg.present, thing->is.reg.value);
    } else {
        put(ret_show, "{\"name\":\"%s\",\"type\":\"%s\"", world->names[object],
            once_object_type_name(thing->type));
        put_fields(ret_show, thing);
        put(ret_show, "}");
        put_items(ret_show, thing);
    }
}

/* ---- The store ------------------------------------------------------------------------------- */

struct reading {
    enum once_object_type type;
    struct show *show;
    uint64_t count, sum, last;
    bool disorder;
};

static void on_item(void *user, const struct once_object_item *item)
{
    struct reading *reading = user;
    uint64_t mark;

    reading->count++;
    if (reading->type == ONCE_OBJECT_BUCKETS) {
        put(reading->show, " %.*s=%" PRIu64, (int)item->id.size, (const char *)item->id.data,
            item->number);
        return;
    }
    mark = world_mark(item->number, reading->type == ONCE_OBJECT_LOG ? item->id : item->group,
                      item->payload);
    reading->disorder = reading->disorder || item->number <= reading->last;
    reading->last = item->number;
    if (reading->type == ONCE_OBJECT_LOG)
        reading->sum = world_mix(reading->sum, mark);
    else
        reading->sum += mark;
}

static int read_items(struct once_store *store, struct chance *chance, struct once_bytes name,
                      enum once_object_type type, struct show *show)
{
    struct reading reading = {.type = type, .show = show};
    uint64_t cursor = 0;
    bool more = true;

    while (more) {
        size_t count = chance_percent(chance, 70) ? ONCE_LIST_COUNT_MAX
                                                  : 1 + chance_below(chance, 30);
        uint64_t before = cursor;
        int err = once_object_read(store, name, cursor, count, on_item, &reading, &cursor, &more);

        if (err != ONCE_OK)
            return err;
        if (more && cursor == before)
            more = false; /* no end: what is missing shows */
    }
    if (type != ONCE_OBJECT_BUCKETS)
        put(show, " %" PRIu64 " %s %016" PRIx64, reading.count,
            type == ONCE_OBJECT_LOG ? "events" : "messages", reading.sum);
    if (reading.disorder)
        put(show, " out of order");
    return ONCE_OK;
}

static int put_state(struct show *show, const struct once_object *object)
{
    struct once_buf text;
    int err;

    once_buf_init(&text, (size_t)2 * ONCE_LATTICE_TEXT_MAX);
    err = once_lattice_check(object->state, NULL, NULL);
    if (err == ONCE_OK)
        err = once_lattice_describe(object->state, &text);
    put(show, "change %" PRIu64 " ", object->version);
    if (err == ONCE_OK && text.size < SHOW_SIZE / 2)
        put(show, "%.*s", (int)text.size, (const char *)text.data);
    else
        put(show, "not a state that was ever made: %d", err);
    once_buf_release(&text);
    return ONCE_OK;
}

int show_object(struct once_store *store, struct chance *chance, const char *name,
                struct show *ret_show)
{
    struct once_object object;
    int err = once_object_get(store, once_bytes_of(name), &object);

    if (err != ONCE_OK)
        return err;
    ret_show->size = 0;
    if (object.type == ONCE_OBJECT_NONE) {
        put(ret_show, "none");
    } else if (once_object_mergeable(object.type)) {
        err = put_state(ret_show, &object);
    } else if (object.type == ONCE_OBJECT_REGISTER) {
        put_register(ret_show, object.version, object.present, object.state);
    } else if (object.json.size < SHOW_SIZE / 2) {
        put(ret_show, "%.*s", (int)object.json.size, (const char *)object.json.data);
        if (object.type == ONCE_OBJECT_LOG || object.type == ONCE_OBJECT_OUTBOX ||
            object.type == ONCE_OBJECT_BUCKETS)
            err = read_items(store, chance, once_bytes_of(name), object.type, ret_show);
    } else {
        put(ret_show, "%zu bytes of JSON", object.json.size);
    }
    once_object_release(&object);
    return err;
}
