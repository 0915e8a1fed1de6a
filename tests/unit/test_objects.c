/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of objects: what each kind of edit does, what is refused, and what it costs. Random
 * edits against a model are in test_objects_random.c.
 */
#include "unit/object_help.h"

#include <stdio.h>

#include "object/body.h"

static struct once__edit counter(const char *name, int64_t value)
{
    return (struct once__edit){.kind = ONCE__EDIT_COUNTER, .name = b(name), .to.counter = value};
}

static struct once__edit event(const char *name, uint64_t number, const char *payload)
{
    return (struct once__edit){
        .kind = ONCE__EDIT_EVENT,
        .name = b(name),
        .to.event = {.number = number, .id = b("id"), .payload = b(payload)}};
}

static struct once__edit message(const char *name, uint64_t number, const char *payload)
{
    return (struct once__edit){
        .kind = ONCE__EDIT_MESSAGE,
        .name = b(name),
        .to.message = {.number = number, .group = b("g"), .payload = b(payload)}};
}

static struct once__edit sent(const char *name, uint64_t number)
{
    return (struct once__edit){.kind = ONCE__EDIT_SENT, .name = b(name), .to.sent = number};
}

static struct once__edit machine(const char *name, const char *declared, uint32_t at)
{
    return (struct once__edit){.kind = ONCE__EDIT_MACHINE,
                               .name = b(name),
                               .to.machine = {.declared = b(declared), .at = at}};
}

static struct once__edit moved(const char *name, uint32_t at)
{
    return (struct once__edit){.kind = ONCE__EDIT_MOVED, .name = b(name), .to.moved = at};
}

static struct once__edit bucket(const char *name, const char *of, uint64_t count)
{
    return (struct once__edit){
        .kind = ONCE__EDIT_BUCKET, .name = b(name), .to.bucket = {.bucket = b(of), .count = count}};
}

static struct once__edit merging(const char *name, struct once_bytes delta, uint64_t version)
{
    return (struct once__edit){
        .kind = delta.data[0], .name = b(name), .to.merge = {.delta = delta, .version = version}};
}

/* ---- Each kind ------------------------------------------------------------------------------- */

static void put__of_a_replacing_kind__is_what_it_says(void **state)
{
    struct once__objects *objects = objects_new();
    struct once__lease lease;

    (void)state;
    put(objects, counter("c", -5));
    put(objects, counter("c", 7));
    assert_int_equal(once__object_counter(found(objects, "c")), 7);

    put(objects, (struct once__edit){.kind = ONCE__EDIT_FENCE,
                                     .name = b("f"),
                                     .to.fence = {.granted = 9, .seen = 4}});
    assert_int_equal(once__object_fence(found(objects, "f")).granted, 9);
    assert_int_equal(once__object_fence(found(objects, "f")).seen, 4);

    put(objects, (struct once__edit){.kind = ONCE__EDIT_SEQUENCE,
                                     .name = b("q"),
                                     .to.sequence = {.epoch = 3, .next = 8}});
    assert_int_equal(once__object_sequence(found(objects, "q")).epoch, 3);
    assert_int_equal(once__object_sequence(found(objects, "q")).next, 8);

    put(objects,
        (struct once__edit){.kind = ONCE__EDIT_LEASE,
                            .name = b("l"),
                            .to.lease = {.token = 2, .until_ms = 77, .owner = b("someone")}});
    lease = once__object_lease(found(objects, "l"));
    assert_true(lease.token == 2 && lease.until_ms == 77 && same(lease.owner, b("someone")));
    put(objects,
        (struct once__edit){.kind = ONCE__EDIT_LEASE, .name = b("l"), .to.lease = {.token = 2}});
    assert_int_equal(once__object_lease(found(objects, "l")).owner.size, 0);
    assert_int_equal(once__objects_count(objects), 4);
    once__objects_free(objects);
}

static void register__of_any_size__keeps_its_value_and_its_version(void **state)
{
    struct once__objects *objects = objects_new();
    static uint8_t value[ONCE_VALUE_SIZE_MAX];
    struct once__edit edit = {.kind = ONCE__EDIT_REGISTER, .name = b("r")};

    (void)state;
    for (size_t i = 0; i < sizeof value; i++)
        value[i] = (uint8_t)(i * 31 >> 3);
    for (size_t size = 0, version = 1; version < 200; version++) {
        struct once__register reg;

        put(objects, counter("neighbour", (int64_t)version));
        edit.to.reg = (struct once__register){
            .version = version, .present = true, .value = {.data = value, .size = size}};
        put(objects, edit);
        reg = once__object_register(found(objects, "r"));
        assert_int_equal(reg.version, version);
        assert_true(reg.present && same(reg.value, edit.to.reg.value));
        size = version == 150 ? sizeof value : version * 7919 % 300;
    }
    edit.to.reg = (struct once__register){.version = 200};
    put(objects, edit);
    assert_false(once__object_register(found(objects, "r")).present);
    assert_int_equal(once__object_register(found(objects, "r")).value.size, 0);
    assert_int_equal(once__object_register(found(objects, "r")).version, 200);
    once__objects_free(objects);
}

static void machine__declared_once__moves_and_refuses_another(void **state)
{
    struct once__objects *objects = objects_new();

    (void)state;
    refuses(objects, moved("m", 0));
    refuses(objects, machine("m", "a>", 0));
    refuses(objects, machine("m", "a>b", 2));
    assert_int_equal(once__objects_count(objects), 0);
    put(objects, machine("m", "a>b b>c", 0));
    put(objects, moved("m", 2));
    assert_int_equal(once__object_machine_at(found(objects, "m")), 2);
    refuses(objects, moved("m", 3));
    refuses(objects, machine("m", "a>b", 1));
    refuses(objects, machine("m", "a>b b>c", 3));
    assert_int_equal(once__object_machine_at(found(objects, "m")), 2);
    put(objects, machine("m", "a>b b>c", 1)); /* as an old edit, or a snapshot, says it */
    assert_int_equal(once__object_machine_at(found(objects, "m")), 1);
    assert_true(same(once__object_declared(found(objects, "m")), b("a>b b>c")));
    once__objects_free(objects);
}

static void log__of_events__takes_the_next_ignores_the_old_refuses_a_gap(void **state)
{
    struct once__objects *objects = objects_new();
    struct once_object_item item;

    (void)state;
    refuses(objects, event("l", 2, "x"));
    refuses(objects, event("l", 0, "x"));
    assert_null(once__objects_find(objects, b("l")));
    for (uint64_t n = 1; n <= 300; n++)
        put(objects, event("l", n, n % 2 ? "odd" : ""));
    put(objects, event("l", 1, "another"));
    put(objects, event("l", 300, "another"));
    refuses(objects, event("l", 302, "x"));
    assert_int_equal(once__object_event_count(found(objects, "l")), 300);
    for (uint64_t n = 1; n <= 300; n++) {
        item = once__object_event(found(objects, "l"), n);
        assert_int_equal(item.number, n);
        assert_true(same(item.id, b("id")) && same(item.payload, b(n % 2 ? "odd" : "")));
        assert_int_equal(item.group.size, 0);
    }
    once__objects_free(objects);
}

static void outbox__of_messages__inserts_takes_and_counts_ever(void **state)
{
    struct once__objects *objects = objects_new();
    struct once_object_item item;

    (void)state;
    refuses(objects, message("t", 0, "x"));
    put(objects, message("t", 5, "five"));
    put(objects, message("t", 2, "two"));
    put(objects, message("t", 5, "again"));
    assert_int_equal(once__object_message_total(found(objects, "t")), 5);
    assert_int_equal(once__object_message_count(found(objects, "t")), 2);
    assert_true(once__object_message_after(found(objects, "t"), 0, &item));
    assert_true(item.number == 2 && same(item.payload, b("two")) && same(item.group, b("g")));
    assert_true(once__object_message_after(found(objects, "t"), 2, &item));
    assert_true(item.number == 5 && same(item.payload, b("five")));
    assert_false(once__object_message_after(found(objects, "t"), 5, &item));
    assert_false(once__object_message_after(found(objects, "t"), UINT64_MAX, &item));

    put(objects, sent("t", 2));
    put(objects, sent("t", 2));
    put(objects, sent("t", 9)); /* as of a snapshot that never saw it */
    assert_false(once__object_has_message(found(objects, "t"), 2));
    assert_true(once__object_has_message(found(objects, "t"), 5));
    assert_int_equal(once__object_message_total(found(objects, "t")), 9);
    assert_int_equal(once__object_message_count(found(objects, "t")), 1);

    put(objects, sent("new", 3));
    assert_int_equal(once__object_message_total(found(objects, "new")), 3);
    assert_int_equal(once__object_message_count(found(objects, "new")), 0);
    put(objects, (struct once__edit){.kind = ONCE__EDIT_OUTBOX, .name = b("t"), .to.outbox = 8});
    assert_int_equal(once__object_message_total(found(objects, "t")), 9);
    put(objects, (struct once__edit){.kind = ONCE__EDIT_OUTBOX, .name = b("t"), .to.outbox = 10});
    assert_int_equal(once__object_message_total(found(objects, "t")), 10);
    once__objects_free(objects);
}

static void buckets__in_any_order__are_sorted_by_bytes(void **state)
{
    static const char *names[] = {"m", "b", "z", "", "ba", "a", "bb", "b\377"};
    static const char *sorted[] = {"a", "b", "ba", "bb", "b\377", "m", "z"};
    struct once__objects *objects = objects_new();

    (void)state;
    for (size_t i = 0; i < 8; i++)
        if (names[i][0])
            put(objects, bucket("h", names[i], i + 1));
    put(objects, bucket("h", "ba", 100));
    assert_int_equal(once__object_bucket_count(found(objects, "h")), 7);
    for (size_t i = 0; i < 7; i++) {
        struct once_object_item item = once__object_bucket_at(found(objects, "h"), i);

        assert_true(same(item.id, b(sorted[i])));
        assert_int_equal(item.number, once__object_bucket(found(objects, "h"), b(sorted[i])));
    }
    assert_int_equal(once__object_bucket(found(objects, "h"), b("ba")), 100);
    assert_int_equal(once__object_bucket(found(objects, "h"), b("m")), 1);
    assert_int_equal(once__object_bucket(found(objects, "h"), b("none")), 0);
    once__objects_free(objects);
}

static void mergeable__merged_again__changes_nothing_but_the_version(void **state)
{
    struct once__objects *objects = objects_new();
    struct once_bytes x = MAKE(once_gset_add(b("x"), &out)), y = MAKE(once_gset_add(b("y"), &out));

    (void)state;
    put(objects, merging("g", x, 5));
    assert_true(same(once__object_state(found(objects, "g")), x));
    put(objects, merging("g", y, 9));
    assert_true(same(once__object_state(found(objects, "g")), merge(x, y)));
    put(objects, merging("g", x, 7));
    assert_int_equal(once__object_version(found(objects, "g")), 9);
    put(objects, merging("g", x, 11));
    assert_int_equal(once__object_version(found(objects, "g")), 11);
    assert_true(same(once__object_state(found(objects, "g")), merge(x, y)));
    once__objects_free(objects);
}

static void mergeable__past_the_bound__is_refused_and_stays(void **state)
{
    struct once__objects *objects = objects_new();
    static uint8_t member[ONCE_MEMBER_SIZE_MAX];
    struct once_bytes before;
    struct once__edit edit;
    unsigned added = 0;
    int err = ONCE_OK;

    (void)state;
    for (; err == ONCE_OK && added < 100; added++) {
        member[0] = (uint8_t)added;
        edit = merging(
            "g",
            MAKE(once_gset_add((struct once_bytes){.data = member, .size = sizeof member}, &out)),
            added);
        before = added > 0 ? once__object_state(found(objects, "g")) : before;
        err = once__objects_put(objects, &edit);
    }
    assert_int_equal(err, ONCE_ERR_DAMAGED);
    assert_int_equal(added, 16);
    assert_int_equal(once__object_state(found(objects, "g")).size, before.size);
    assert_int_equal(once__object_version(found(objects, "g")), 14);
    once__objects_free(objects);
}

static void put__to_an_object_of_another_type__is_refused_and_changes_nothing(void **state)
{
    struct once__objects *objects = objects_new();
    const char *names[] = {"c", "l", "t", "m", "h", "g"};
    struct once_bytes flag = MAKE(once_flag_raise(&out)), set = MAKE(once_gset_add(b("x"), &out));
    struct once_buf before, after;

    (void)state;
    for (int i = 0; i < 6; i++) {
        const struct once__edit edits[] = {counter(names[i], 1),      event(names[i], 1, "p"),
                                           message(names[i], 1, "p"), machine(names[i], "a>b", 0),
                                           bucket(names[i], "b", 1),  merging(names[i], set, 1),
                                           merging(names[i], flag, 1)};

        put(objects, edits[i]);
        before = dump_of(objects);
        for (int j = 0; j < 7; j++)
            if (j != i)
                refuses(objects, edits[j]);
        after = dump_of(objects);
        assert_true(same(once_buf_bytes(&before), once_buf_bytes(&after)));
        once_buf_release(&before);
        once_buf_release(&after);
    }
    once__objects_free(objects);
}

/* Under the secret of these tests the two have the same 42 bits of hash that the table keeps. */
static void objects__whose_hashes_are_alike__are_told_apart(void **state)
{
    struct once__objects *objects = objects_new();

    (void)state;
    put(objects, counter("n1033406", 1));
    assert_null(once__objects_find(objects, b("n4781235")));
    put(objects, counter("n4781235", 2));
    assert_int_equal(once__objects_count(objects), 2);
    assert_int_equal(once__object_counter(found(objects, "n1033406")), 1);
    assert_int_equal(once__object_counter(found(objects, "n4781235")), 2);
    once__objects_free(objects);
}

/* ---- Messages by number ---------------------------------------------------------------------- */

/* Any numbers come and go, in any order, against a row of flags. */
static void outbox__of_random_numbers__finds_what_is_there_and_the_next(void **state)
{
    enum { NUMBERS = 3000, SPREAD = 1 << 20 };
    static bool there[NUMBERS + 2];
    uint64_t seed = help_seed();
    struct once__objects *objects = objects_new();
    uint64_t count = 0, base = help_below(&seed, SPREAD);

    (void)state;
    memset(there, 0, sizeof there);
    put(objects, sent("t", base + 1)); /* so that there is one */
    for (int round = 0; round < 30000; round++) {
        uint64_t number = 1 + help_below(&seed, NUMBERS), from = help_below(&seed, NUMBERS + 1);
        struct once_object_item item;
        uint64_t next = from + 1;

        /* Grows and shrinks by turns; now and then whatever is first goes. */
        if (round / 3000 % 2 == 0 ? help_below(&seed, 3) > 0 : help_below(&seed, 5) == 0) {
            put(objects, message("t", base + number, "p"));
            count += !there[number];
            there[number] = true;
        } else {
            if (help_below(&seed, 2) == 0 &&
                once__object_message_after(found(objects, "t"), 0, &item))
                number = item.number - base;
            put(objects, sent("t", base + number));
            count -= there[number];
            there[number] = false;
        }
        while (next <= NUMBERS && !there[next])
            next++;
        assert_int_equal(once__object_message_count(found(objects, "t")), count);
        assert_int_equal(once__object_has_message(found(objects, "t"), base + number),
                         there[number]);
        if (once__object_message_after(found(objects, "t"), base + from, &item))
            assert_int_equal(item.number, base + next);
        else
            assert_int_equal(next, NUMBERS + 1);
    }
    once__objects_free(objects);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void put_counters(struct once__objects *objects, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        char name[17];

        snprintf(name, sizeof name, "c%015" PRIx64, i * 0x9e3779b9U);
        put(objects, counter(name, (int64_t)i));
    }
}

static void objects__a_million_counters__cost_less_than_100_bytes_each(void **state)
{
    enum { MILLION = 1000000 };
    struct once__objects *objects = objects_new();

    (void)state;
    put_counters(objects, MILLION);
    assert_int_equal(once__objects_count(objects), MILLION);
    print_message("# bytes a counter: %.1f\n", (double)once__objects_memory(objects) / MILLION);
    assert_true(once__objects_memory(objects) < 100ULL * MILLION);
    for (uint64_t i = 0; i < MILLION; i += 97) {
        char name[17];

        snprintf(name, sizeof name, "c%015" PRIx64, i * 0x9e3779b9U);
        assert_int_equal(once__object_counter(found(objects, name)), i);
        assert_true(same(once__object_name(once__objects_at(objects, i)), b(name)));
    }
    assert_null(once__objects_find(objects, b("c")));
    once__objects_free(objects);
}

/* Of all that is needed later only objects and chunks of the array are of these sizes. */
static bool deny_slots(size_t size)
{
    return size > 64 && size != 4096 * sizeof(void *);
}

static void expect__of_so_many__leaves_no_growing_to_do(void **state)
{
    enum { COUNT = 100000 };
    struct once__objects *objects = objects_new();

    (void)state;
    assert_ok(once__objects_expect(objects, COUNT));
    assert_ok(once__objects_expect(objects, 1)); /* fewer: stays */
    assert_int_equal(once__objects_expect(objects, ONCE_OBJECTS_MAX + 1), ONCE_ERR_FULL);
    once__heap_deny = deny_slots;
    put_counters(objects, COUNT);
    once__heap_deny = NULL;
    assert_int_equal(once__objects_count(objects), COUNT);
    once__objects_free(objects);
}

static void objects__as_they_come_and_go__have_a_size_near_their_dump(void **state)
{
    struct once__objects *objects = objects_new();
    struct once_buf dump;

    (void)state;
    put_counters(objects, 1000);
    for (uint64_t n = 1; n <= 1000; n++) {
        put(objects, event("log", n, "a payload of some bytes"));
        put(objects, message("topic", n, "another one"));
        put(objects, sent("topic", n - n % 2 + 1));
    }
    for (unsigned i = 0; i < 1000; i++) {
        char name[ONCE_BUCKET_SIZE_MAX + 1];

        snprintf(name, sizeof name, "%064u", i);
        put(objects, bucket("h", name, i + 1));
    }
    dump = dump_of(objects);
    assert_true(once__objects_encoded_size(objects) < dump.size * 5 / 4);
    assert_true(once__objects_encoded_size(objects) > dump.size * 4 / 5);
    once_buf_release(&dump);
    once__objects_free(objects);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(put__of_a_replacing_kind__is_what_it_says, help_release),
        cmocka_unit_test_teardown(register__of_any_size__keeps_its_value_and_its_version,
                                  help_release),
        cmocka_unit_test_teardown(machine__declared_once__moves_and_refuses_another, help_release),
        cmocka_unit_test_teardown(log__of_events__takes_the_next_ignores_the_old_refuses_a_gap,
                                  help_release),
        cmocka_unit_test_teardown(outbox__of_messages__inserts_takes_and_counts_ever, help_release),
        cmocka_unit_test_teardown(buckets__in_any_order__are_sorted_by_bytes, help_release),
        cmocka_unit_test_teardown(mergeable__merged_again__changes_nothing_but_the_version,
                                  help_release),
        cmocka_unit_test_teardown(mergeable__past_the_bound__is_refused_and_stays, help_release),
        cmocka_unit_test_teardown(put__to_an_object_of_another_type__is_refused_and_changes_nothing,
                                  help_release),
        cmocka_unit_test_teardown(objects__whose_hashes_are_alike__are_told_apart, help_release),
        cmocka_unit_test_teardown(outbox__of_random_numbers__finds_what_is_there_and_the_next,
                                  help_release),
        cmocka_unit_test_teardown(objects__a_million_counters__cost_less_than_100_bytes_each,
                                  help_release),
        cmocka_unit_test_teardown(expect__of_so_many__leaves_no_growing_to_do, help_release),
        cmocka_unit_test_teardown(objects__as_they_come_and_go__have_a_size_near_their_dump,
                                  help_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
