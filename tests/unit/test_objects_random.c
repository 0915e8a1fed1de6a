/* SPDX-License-Identifier: Apache-2.0
 *
 * Random edits, as the stage would make them, put into a table and into a trivial model; and what
 * recovery rests on: old stretches put again, dumps, and dumps in slices while objects change.
 */
#include "unit/lattice_mutate.h"
#include "unit/object_help.h"

#include "object/body.h"

enum {
    TYPE_COUNT = 20,
    NAMES_EACH = 3,
    NAME_COUNT = TYPE_COUNT * NAMES_EACH,
    ITEMS_MAX = 400,
    BUCKETS = 12,
    STATES = 3
};

static const enum once_object_type types[TYPE_COUNT] = {
    ONCE_OBJECT_MAX,      ONCE_OBJECT_MIN,      ONCE_OBJECT_FLAG,     ONCE_OBJECT_GSET,
    ONCE_OBJECT_VV,       ONCE_OBJECT_LWW,      ONCE_OBJECT_GCOUNTER, ONCE_OBJECT_PNCOUNTER,
    ONCE_OBJECT_AWSET,    ONCE_OBJECT_MVREG,    ONCE_OBJECT_MAP,      ONCE_OBJECT_COUNTER,
    ONCE_OBJECT_REGISTER, ONCE_OBJECT_MACHINE,  ONCE_OBJECT_LOG,      ONCE_OBJECT_FENCE,
    ONCE_OBJECT_LEASE,    ONCE_OBJECT_SEQUENCE, ONCE_OBJECT_BUCKETS,  ONCE_OBJECT_OUTBOX,
};

/* What an object should be. Bytes live until the end of the test. */
struct model {
    bool used;
    int64_t counter;
    struct once_bytes state;
    uint64_t version;
    struct once__register reg;
    uint32_t at;
    struct once__fence fence;
    struct once__lease lease;
    struct once__sequence sequence;
    uint64_t buckets[BUCKETS]; /* 0: not there */
    uint64_t total;
    struct once_bytes items[ITEMS_MAX + 1]; /* the payload; NULL: not there */
};

struct world {
    uint64_t seed;
    uint64_t change;
    struct once__objects *objects;
    struct model models[NAME_COUNT];
    struct once_bytes names[NAME_COUNT];
    struct once_buf history; /* every edit that was put */
};

static const char *declared = "a>b b>c c>a";

static struct once_bytes random_bytes(struct world *world, size_t size_max)
{
    uint8_t bytes[512];
    size_t size = (size_t)help_below(&world->seed, size_max + 1);

    assert_true(size <= sizeof bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)help_random(&world->seed);
    return keep(bytes, size);
}

static struct world *world_new(uint64_t seed)
{
    struct world *world = calloc(1, sizeof *world);

    assert_non_null(world);
    world->seed = seed;
    world->objects = objects_new();
    once_buf_init(&world->history, SIZE_MAX / 2);
    for (unsigned i = 0; i < NAME_COUNT; i++) {
        char name[ONCE_OBJECT_NAME_SIZE_MAX + 1];
        int size = snprintf(name, sizeof name, "%0*u", i % 7 == 0 ? 255 : 1 + (int)i % 30, i);

        world->names[i] = keep(name, (size_t)size);
    }
    return world;
}

static void world_free(struct world *world)
{
    once__objects_free(world->objects);
    once_buf_release(&world->history);
    free(world);
}

/* ---- Edits ----------------------------------------------------------------------------------- */

static void edit_merge(struct world *world, struct model *model, struct once__edit *edit)
{
    enum once_lattice_type type = (enum once_lattice_type)edit->kind;
    const char *node = help_below(&world->seed, 2) ? "n1" : "n2";
    struct once_bytes state = model->used ? model->state : bottom(type);

    edit->to.merge.delta = mutate_randomly(type, state, node, &world->seed);
    edit->to.merge.version = model->version = world->change;
    model->state = merge(state, edit->to.merge.delta);
}

static void edit_machine(struct world *world, struct model *model, struct once__edit *edit)
{
    model->at = model->used ? (uint32_t)help_below(&world->seed, STATES) : 0;
    if (model->used && help_below(&world->seed, 4) > 0) {
        edit->kind = ONCE__EDIT_MOVED;
        edit->to.moved = model->at;
    } else {
        edit->to.machine.declared = b(declared);
        edit->to.machine.at = model->at;
    }
}

static void edit_event(struct world *world, struct model *model, struct once__edit *edit)
{
    if (model->total < ITEMS_MAX)
        model->items[++model->total] = random_bytes(world, 100);
    edit->to.event.number = model->total;
    edit->to.event.id = b("id");
    edit->to.event.payload = model->items[model->total];
}

static void edit_bucket(struct world *world, struct model *model, struct once__edit *edit)
{
    static const char *const buckets[BUCKETS] = {"a", "aa", "ab", "b",  "ba", "bb",
                                                 "c", "d",  "da", "db", "e",  "f"};
    unsigned at = (unsigned)help_below(&world->seed, BUCKETS);

    model->buckets[at] += 1 + help_below(&world->seed, 1000);
    edit->to.bucket.bucket = b(buckets[at]);
    edit->to.bucket.count = model->buckets[at];
}

static void edit_outbox(struct world *world, struct model *model, struct once__edit *edit)
{
    uint64_t number = model->total > 0 ? 1 + help_below(&world->seed, model->total) : 0;

    if (model->total < ITEMS_MAX && (number == 0 || help_below(&world->seed, 3) > 0)) {
        edit->kind = ONCE__EDIT_MESSAGE;
        model->items[++model->total] = random_bytes(world, 100);
        edit->to.message.number = model->total;
        edit->to.message.group = b("g");
        edit->to.message.payload = model->items[model->total];
        return;
    }
    edit->kind = ONCE__EDIT_SENT;
    edit->to.sent = number;
    model->items[number] = (struct once_bytes){.data = NULL};
}

static void edit_replacing(struct world *world, struct model *model, struct once__edit *edit)
{
    switch (edit->kind) {
    case ONCE__EDIT_COUNTER:
        edit->to.counter = model->counter = (int64_t)help_random(&world->seed);
        break;
    case ONCE__EDIT_REGISTER:
        model->reg.version++;
        model->reg.present = help_below(&world->seed, 4) > 0;
        model->reg.value = model->reg.present ? random_bytes(world, 200) : b("");
        edit->to.reg = model->reg;
        break;
    case ONCE__EDIT_FENCE:
        model->fence.granted++;
        model->fence.seen = help_below(&world->seed, model->fence.granted);
        edit->to.fence = model->fence;
        break;
    case ONCE__EDIT_LEASE:
        model->lease.token++;
        model->lease.until_ms = (int64_t)help_below(&world->seed, 1ULL << 40);
        model->lease.owner = random_bytes(world, ONCE_OWNER_SIZE_MAX);
        edit->to.lease = model->lease;
        break;
    default:
        assert_int_equal(edit->kind, ONCE__EDIT_SEQUENCE);
        model->sequence.next++;
        model->sequence.epoch += help_below(&world->seed, 2);
        edit->to.sequence = model->sequence;
    }
}

/* The next edit: into the model and into the history, not yet into the table. */
static struct once__edit world_edit(struct world *world)
{
    unsigned at = (unsigned)help_below(&world->seed, NAME_COUNT);
    struct model *model = &world->models[at];
    enum once_object_type type = types[at % TYPE_COUNT];
    struct once__edit edit = {.kind = type, .name = world->names[at]};

    world->change++;
    if (once_object_mergeable(type))
        edit_merge(world, model, &edit);
    else if (type == ONCE_OBJECT_MACHINE)
        edit_machine(world, model, &edit);
    else if (type == ONCE_OBJECT_LOG)
        edit_event(world, model, &edit);
    else if (type == ONCE_OBJECT_BUCKETS)
        edit_bucket(world, model, &edit);
    else if (type == ONCE_OBJECT_OUTBOX)
        edit_outbox(world, model, &edit);
    else
        edit_replacing(world, model, &edit);
    model->used = true;
    assert_ok(once__edit_encode(&edit, &world->history));
    return edit;
}

static void world_step(struct world *world)
{
    put(world->objects, world_edit(world));
}

/* ---- The model ------------------------------------------------------------------------------- */

static void check_items(const struct model *model, const struct once__object *object, bool events)
{
    struct once_object_item item = {.number = 0};
    uint64_t count = 0;

    for (uint64_t n = 1; n <= ITEMS_MAX; n++) {
        if (!model->items[n].data)
            continue;
        count++;
        if (events)
            item = once__object_event(object, n);
        else
            assert_true(once__object_message_after(object, item.number, &item));
        assert_int_equal(item.number, n);
        assert_true(same(item.payload, model->items[n]));
    }
    assert_int_equal(events ? once__object_event_count(object) : once__object_message_count(object),
                     count);
    if (!events) {
        assert_int_equal(once__object_message_total(object), model->total);
        assert_false(once__object_message_after(object, item.number, &item));
    }
}

static void check_buckets(const struct model *model, const struct once__object *object)
{
    uint64_t at = 0;

    for (unsigned i = 0; i < BUCKETS; i++)
        if (model->buckets[i] > 0)
            assert_int_equal(once__object_bucket_at(object, at++).number, model->buckets[i]);
    assert_int_equal(once__object_bucket_count(object), at);
}

static void check_lease(const struct model *model, const struct once__object *object)
{
    struct once__lease lease = once__object_lease(object);

    assert_int_equal(lease.token, model->lease.token);
    assert_int_equal(lease.until_ms, model->lease.until_ms);
    assert_true(same(lease.owner, model->lease.owner));
}

static void check_replaced(const struct model *model, const struct once__object *object)
{
    switch ((int)once__object_type(object)) {
    case ONCE_OBJECT_COUNTER:
        assert_true(once__object_counter(object) == model->counter);
        break;
    case ONCE_OBJECT_REGISTER:
        assert_int_equal(once__object_register(object).version, model->reg.version);
        assert_int_equal(once__object_register(object).present, model->reg.present);
        assert_true(same(once__object_register(object).value, model->reg.value));
        break;
    case ONCE_OBJECT_MACHINE:
        assert_true(same(once__object_declared(object), b(declared)));
        assert_int_equal(once__object_machine_at(object), model->at);
        break;
    case ONCE_OBJECT_FENCE:
        assert_int_equal(once__object_fence(object).granted, model->fence.granted);
        assert_int_equal(once__object_fence(object).seen, model->fence.seen);
        break;
    case ONCE_OBJECT_LEASE:
        check_lease(model, object);
        break;
    case ONCE_OBJECT_SEQUENCE:
        assert_int_equal(once__object_sequence(object).epoch, model->sequence.epoch);
        assert_int_equal(once__object_sequence(object).next, model->sequence.next);
        break;
    default:
        assert_true(same(once__object_state(object), model->state));
        assert_int_equal(once__object_version(object), model->version);
    }
}

static void check_world(const struct world *world)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < NAME_COUNT; i++) {
        const struct once__object *object = once__objects_find(world->objects, world->names[i]);
        enum once_object_type type = types[i % TYPE_COUNT];

        assert_int_equal(object != NULL, world->models[i].used);
        if (!object)
            continue;
        count++;
        assert_int_equal(once__object_type(object), type);
        assert_true(same(once__object_name(object), world->names[i]));
        if (type == ONCE_OBJECT_LOG || type == ONCE_OBJECT_OUTBOX)
            check_items(&world->models[i], object, type == ONCE_OBJECT_LOG);
        else if (type == ONCE_OBJECT_BUCKETS)
            check_buckets(&world->models[i], object);
        else
            check_replaced(&world->models[i], object);
    }
    assert_int_equal(once__objects_count(world->objects), count);
}

/* ---- Properties ------------------------------------------------------------------------------ */

static void put__of_random_edits__is_what_the_model_is(void **state)
{
    struct world *world = world_new(help_seed());

    (void)state;
    for (int step = 0; step < 10000; step++) {
        world_step(world);
        if (step % 100 == 0)
            check_world(world);
    }
    check_world(world);
    world_free(world);
}

static struct once_bytes history_from(const struct world *world, size_t offset)
{
    return (struct once_bytes){.data = world->history.data + offset,
                               .size = world->history.size - offset};
}

static void put__of_old_stretches_again__ends_in_the_same_objects(void **state)
{
    struct world *world = world_new(help_seed());
    size_t starts[3000];

    (void)state;
    for (unsigned step = 0; step < 3000; step++) {
        starts[step] = world->history.size;
        world_step(world);
        if (step % 50 == 0) {
            struct once_buf before = dump_of(world->objects), after;

            put_all(world->objects,
                    history_from(world, starts[help_below(&world->seed, step + 1)]));
            after = dump_of(world->objects);
            assert_true(same(once_buf_bytes(&before), once_buf_bytes(&after)));
            once_buf_release(&before);
            once_buf_release(&after);
            check_world(world);
        }
    }
    world_free(world);
}

static void dump__put_into_an_empty_table__makes_the_same_objects(void **state)
{
    struct world *world = world_new(help_seed());

    (void)state;
    for (int round = 0; round < 20; round++) {
        struct once__objects *copy = objects_new();
        struct once_buf dump;

        for (int step = 0; step < 200; step++)
            world_step(world);
        dump = dump_of(world->objects);
        put_all(copy, once_buf_bytes(&dump));
        assert_objects_equal(world->objects, copy);
        once_buf_release(&dump);
        once__objects_free(copy);
    }
    world_free(world);
}

/* The snapshot of a running store: slices of a few bytes, with edits between them. */
static void dump__in_slices_while_objects_change__is_mended_by_the_edits_since(void **state)
{
    struct world *world = world_new(help_seed());

    (void)state;
    for (int round = 0; round < 20; round++) {
        struct once__objects *copy = objects_new();
        struct once_buf snapshot;
        uint64_t slices = 0;
        size_t began;

        for (int step = 0; step < 200; step++)
            world_step(world);
        once_buf_init(&snapshot, SIZE_MAX / 2);
        began = world->history.size;
        for (uint64_t i = 0; i < once__objects_count(world->objects); i++) {
            for (uint64_t part = 0; part != UINT64_MAX; slices++) {
                size_t before = snapshot.size, size_max = help_below(&world->seed, 500);

                assert_ok(once__object_dump(once__objects_at(world->objects, i), &part, size_max,
                                            &snapshot));
                assert_true(snapshot.size - before < size_max + 1000);
                for (uint64_t step = help_below(&world->seed, 3); step > 0; step--)
                    world_step(world);
            }
        }
        assert_true(slices >= once__objects_count(world->objects));
        put_all(copy, once_buf_bytes(&snapshot));
        put_all(copy, history_from(world, began));
        assert_objects_equal(world->objects, copy);
        once_buf_release(&snapshot);
        once__objects_free(copy);
    }
    check_world(world);
    world_free(world);
}

/* ---- No memory ------------------------------------------------------------------------------- */

static unsigned allowed;

static bool deny_after_allowed(size_t size)
{
    (void)size;
    if (allowed == 0)
        return true;
    allowed--;
    return false;
}

static void put__without_memory__changes_nothing_and_works_later(void **state)
{
    struct world *world = world_new(help_seed());
    unsigned denied = 0;

    (void)state;
    for (int step = 0; step < 1500; step++) {
        struct once__edit edit = world_edit(world);
        struct once_buf before = dump_of(world->objects);
        int err = ONCE_ERR_MEMORY;

        for (unsigned more = 0; err == ONCE_ERR_MEMORY; more++) {
            struct once_buf after;

            allowed = more;
            once__heap_deny = deny_after_allowed;
            err = once__objects_put(world->objects, &edit);
            once__heap_deny = NULL;
            if (err == ONCE_OK)
                break;
            assert_int_equal(err, ONCE_ERR_MEMORY);
            denied++;
            after = dump_of(world->objects);
            assert_true(same(once_buf_bytes(&before), once_buf_bytes(&after)));
            once_buf_release(&after);
        }
        once_buf_release(&before);
    }
    assert_true(denied > 100);
    check_world(world);
    world_free(world);
}

static void dump__into_a_full_buffer__gives_nothing_and_stays(void **state)
{
    struct world *world = world_new(help_seed());

    (void)state;
    for (int step = 0; step < 3000; step++)
        world_step(world);
    for (uint64_t i = 0; i < once__objects_count(world->objects); i++) {
        const struct once__object *object = once__objects_at(world->objects, i);
        struct once_buf whole = fresh();
        uint64_t part = 0;

        while (part != UINT64_MAX)
            assert_ok(once__object_dump(object, &part, 1, &whole));
        for (size_t size_max = 0; size_max < whole.size; size_max += 1 + whole.size / 10) {
            struct once_buf out;

            once_buf_init(&out, size_max);
            part = 0;
            assert_int_equal(once__object_dump(object, &part, SIZE_MAX, &out), ONCE_ERR_FULL);
            assert_int_equal(part, 0);
            assert_int_equal(out.size, 0);
            once_buf_release(&out);
        }
        once_buf_release(&whole);
    }
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(put__of_random_edits__is_what_the_model_is, help_release),
        cmocka_unit_test_teardown(put__of_old_stretches_again__ends_in_the_same_objects,
                                  help_release),
        cmocka_unit_test_teardown(dump__put_into_an_empty_table__makes_the_same_objects,
                                  help_release),
        cmocka_unit_test_teardown(
            dump__in_slices_while_objects_change__is_mended_by_the_edits_since, help_release),
        cmocka_unit_test_teardown(put__without_memory__changes_nothing_and_works_later,
                                  help_release),
        cmocka_unit_test_teardown(dump__into_a_full_buffer__gives_nothing_and_stays, help_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
