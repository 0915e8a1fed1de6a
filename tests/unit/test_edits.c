/* SPDX-License-Identifier: Apache-2.0
 *
 * Edits of many records put together are the same as one by one, and what is wrong with one of them
 * is found in its place.
 */
#include "unit/object_help.h"

#include "engine/edits.h"

enum { PIECES = 200, PIECE_EDITS_MAX = 150, NAMES = 400 };

static struct once__edit counter(const char *name, int64_t value)
{
    return (struct once__edit){
        .kind = ONCE__EDIT_COUNTER, .name = b(name), .to = {.counter = value}};
}

static struct once__edit event(const char *name, uint64_t number)
{
    return (struct once__edit){
        .kind = ONCE__EDIT_EVENT,
        .name = b(name),
        .to = {.event = {.number = number, .id = b("id"), .payload = b("payload")}}};
}

static void add(struct once_buf *out, struct once__edit edit)
{
    assert_ok(once__edit_encode(&edit, out));
}

static int64_t counter_of(const struct once__objects *objects, const char *name)
{
    return once__object_counter(found(objects, name));
}

/* New and old objects, the same one often within a few edits, empty pieces between. */
static void edits__of_many_records__are_as_one_by_one(void **state)
{
    static struct once_bytes pieces[PIECES];
    static size_t ends[PIECES];
    uint64_t seed = help_seed(), events[NAMES] = {0};
    struct once__objects *one = objects_new(), *all = objects_new();
    struct once__edit_spot bad;
    struct once_buf bytes;
    char name[16];

    (void)state;
    once_buf_init(&bytes, SIZE_MAX / 2);
    for (size_t i = 0; i < PIECES; i++) {
        size_t count = help_below(&seed, 3) == 0 ? help_below(&seed, PIECE_EDITS_MAX)
                                                 : help_below(&seed, 4);

        for (size_t j = 0; j < count; j++) {
            size_t number = help_below(&seed, NAMES);

            (void)snprintf(name, sizeof name, "%c%zu", number % 2 == 0 ? 'c' : 'l', number);
            add(&bytes,
                number % 2 == 0 ? counter(name, (int64_t)(i * j)) : event(name, ++events[number]));
        }
        ends[i] = bytes.size;
    }
    for (size_t i = 0; i < PIECES; i++) {
        size_t begin = i > 0 ? ends[i - 1] : 0;

        pieces[i] = (struct once_bytes){bytes.data + begin, ends[i] - begin};
    }
    put_all(one, once_buf_bytes(&bytes));
    assert_ok(once__edits_put_all(all, NULL, pieces, PIECES, false, &bad, NULL));
    assert_true(once__objects_count(all) > NAMES / 2);
    assert_objects_equal(one, all);
    once_buf_release(&bytes);
    once__objects_free(one);
    once__objects_free(all);
}

/* Both have the same hash, as far as the table keeps it: test_objects.c. */
static void edits__of_names_whose_hashes_are_alike__are_told_apart(void **state)
{
    struct once__objects *objects = objects_new();
    struct once_buf bytes;

    (void)state;
    once_buf_init(&bytes, 1 << 12);
    for (int64_t i = 1; i <= 2; i++) {
        add(&bytes, counter("n1033406", i));
        add(&bytes, counter("n4781235", -i));
        assert_ok(once__edits_put(objects, NULL, once_buf_bytes(&bytes), false, NULL));
        assert_int_equal(once__objects_count(objects), 2);
        assert_int_equal(counter_of(objects, "n1033406"), i);
        assert_int_equal(counter_of(objects, "n4781235"), -i);
    }
    once_buf_release(&bytes);
    once__objects_free(objects);
}

/* The third record of four. Those before it are put, it and those behind it are not. */
static void check_bad(struct once_bytes third, size_t offset, size_t defect_offset)
{
    struct once__objects *objects = objects_new();
    struct once__edit_spot bad = {99, 99};
    struct once_defect defect = {0};
    struct once_bytes pieces[4];
    struct once_buf bytes[3];

    for (size_t i = 0; i < 3; i++)
        once_buf_init(&bytes[i], 1 << 12);
    add(&bytes[0], counter("a", 1));
    add(&bytes[1], counter("a", 2));
    add(&bytes[1], counter("b", 3));
    add(&bytes[2], counter("c", 4));
    pieces[0] = once_buf_bytes(&bytes[0]);
    pieces[1] = once_buf_bytes(&bytes[1]);
    pieces[2] = third;
    pieces[3] = once_buf_bytes(&bytes[2]);
    assert_int_equal(once__edits_put_all(objects, NULL, pieces, 4, false, &bad, &defect),
                     ONCE_ERR_DAMAGED);
    assert_int_equal(bad.piece, 2);
    assert_int_equal(bad.offset, offset);
    assert_int_equal(defect.offset, defect_offset);
    assert_non_null(defect.what);
    assert_int_equal(counter_of(objects, "a"), 2);
    assert_int_equal(counter_of(objects, "b"), 3);
    assert_null(once__objects_find(objects, b("c")));
    for (size_t i = 0; i < 3; i++)
        once_buf_release(&bytes[i]);
    once__objects_free(objects);
}

static void edit__that_does_not_fit__is_told_with_its_record(void **state)
{
    struct once_buf third;
    size_t offset;

    (void)state;
    once_buf_init(&third, 1 << 12);
    add(&third, counter("d", 1));
    offset = third.size;
    add(&third, event("a", 1)); /* a counter */
    check_bad(once_buf_bytes(&third), offset, offset);
    once_buf_release(&third);
}

/* The record behind it must not be taken for its end. */
static void edit__that_is_cut_off__is_told_with_its_record(void **state)
{
    struct once_buf third;
    size_t offset;

    (void)state;
    once_buf_init(&third, 1 << 12);
    add(&third, counter("d", 1));
    offset = third.size;
    add(&third, event("e", 1));
    for (size_t size = offset + 1; size < third.size; size++) {
        struct once_bytes cut = {third.data, size};
        struct once_defect defect = {0};
        struct once__edit edit;
        size_t at = offset;

        assert_int_equal(once__edit_decode(cut, &at, &edit, &defect), ONCE_ERR_DAMAGED);
        check_bad(cut, offset, defect.offset);
    }
    once_buf_release(&third);
}

/* An event whose predecessors are lost keeps its number. */
static void edits__put_leniently__are_filled_up_or_left_out(void **state)
{
    struct once__objects *objects = objects_new();
    struct once_defect defect = {0};
    struct once_buf bytes;

    (void)state;
    once_buf_init(&bytes, 1 << 12);
    add(&bytes, counter("c", 1));
    add(&bytes, event("l", 3));
    add(&bytes, event("c", 1));
    add(&bytes, event("l", 4));
    assert_int_equal(once__edits_put(objects, NULL, once_buf_bytes(&bytes), false, &defect),
                     ONCE_ERR_DAMAGED);
    assert_ok(once__edits_put(objects, NULL, once_buf_bytes(&bytes), true, NULL));
    assert_int_equal(once__object_event_count(found(objects, "l")), 4);
    assert_true(same(once__object_event(found(objects, "l"), 2).id, b("lost")));
    assert_true(same(once__object_event(found(objects, "l"), 3).id, b("id")));
    assert_int_equal(counter_of(objects, "c"), 1);
    once_buf_release(&bytes);
    once__objects_free(objects);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits__of_many_records__are_as_one_by_one),
        cmocka_unit_test(edits__of_names_whose_hashes_are_alike__are_told_apart),
        cmocka_unit_test(edit__that_does_not_fit__is_told_with_its_record),
        cmocka_unit_test(edit__that_is_cut_off__is_told_with_its_record),
        cmocka_unit_test(edits__put_leniently__are_filled_up_or_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
