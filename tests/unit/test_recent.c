/* SPDX-License-Identifier: Apache-2.0
 *
 * src/object/recent.c: a ring that knows the newest deltas, and says what it does not know.
 */
#include "seeded.h"

#include <once/lattice.h>

#include "object/object.h"

#define assert_ok(call) assert_int_equal((call), ONCE_OK)

static bool same(struct once_bytes x, struct once_bytes y)
{
    return x.size == y.size && memcmp(x.data, y.data, x.size) == 0;
}

static struct once__edit merging(const char *name, struct once_bytes delta, uint64_t version)
{
    struct once__edit edit = {.kind = delta.data[0], .name = once_bytes_of(name)};

    edit.to.merge.delta = delta;
    edit.to.merge.version = version;
    return edit;
}

struct seen {
    uint64_t count;
    uint64_t next; /* number of the note that must come */
    uint64_t stop_at;
};

/* Notes are numbered: name and delta of note i follow from i. */
static struct once__edit numbered(uint64_t i, uint64_t version)
{
    static uint8_t bytes[1 << 16];
    static char name[32];
    struct once__edit edit;

    memset(bytes, (int)(i % 251), sizeof bytes);
    bytes[0] = ONCE_LATTICE_GSET;
    (void)snprintf(name, sizeof name, "note-%" PRIu64, i);
    edit = merging(name, (struct once_bytes){bytes, 1 + i * 7919 % 9001}, version);
    if (i % 1000 == 999) /* large ones, to wrap at odd places */
        edit.to.merge.delta.size = sizeof bytes;
    return edit;
}

static int see(void *user, const struct once__edit *edit)
{
    struct seen *seen = user;
    struct once__edit expected = numbered(seen->next++, edit->to.merge.version);

    assert_int_equal(edit->kind, ONCE_LATTICE_GSET);
    assert_true(same(edit->name, expected.name));
    assert_true(same(edit->to.merge.delta, expected.to.merge.delta));
    seen->count++;
    return seen->count == seen->stop_at ? 7 : ONCE_OK;
}

static void recent__more_than_its_bound__knows_the_newest(void **unused)
{
    enum { COUNT = 6000, PARTS = 3 }; /* parts of one change */
    struct once__recent *recent;
    size_t size = 0;

    (void)unused;
    assert_ok(once__recent_new(&recent));
    for (uint64_t i = 0; i < COUNT; i++) {
        struct once__edit edit = numbered(i, 1 + i / PARTS);

        once__recent_note(recent, &edit);
        size += edit.name.size + edit.to.merge.delta.size;
        if (i % 37 == 0) {
            struct seen seen = {.next = once__recent_since(recent) * PARTS};

            assert_ok(once__recent_walk(recent, once__recent_since(recent), see, &seen));
            assert_int_equal(seen.next, i + 1);
            if (size < ONCE_RECENT_SIZE_MAX / 2)
                assert_int_equal(once__recent_since(recent), 0);
        }
        if (i % 101 == 0 && once__recent_since(recent) < 1 + i / PARTS) {
            uint64_t since = i / PARTS;
            struct seen seen = {.next = since * PARTS};

            assert_ok(once__recent_walk(recent, since, see, &seen));
            assert_int_equal(seen.next, i + 1);
        }
    }
    assert_true(size > 4 * (size_t)ONCE_RECENT_SIZE_MAX);
    assert_true(once__recent_since(recent) > COUNT / PARTS / 2);
    assert_true(once__recent_since(recent) < COUNT / PARTS - 100);
    once__recent_free(recent);
}

static void recent__each_says_stop__stops_and_returns_it(void **unused)
{
    struct seen seen = {.stop_at = 2};
    struct once__recent *recent;

    (void)unused;
    assert_ok(once__recent_new(&recent));
    for (uint64_t i = 0; i < 5; i++) {
        struct once__edit edit = numbered(i, i + 1);

        once__recent_note(recent, &edit);
    }
    assert_int_equal(once__recent_walk(recent, 0, see, &seen), 7);
    assert_int_equal(seen.count, 2);
    once__recent_free(recent);
}

static void recent__started__knows_what_comes_after(void **unused)
{
    struct seen seen = {.next = 4};
    struct once__recent *recent;

    (void)unused;
    assert_ok(once__recent_new(&recent));
    assert_int_equal(once__recent_since(recent), 0);
    for (uint64_t i = 0; i < 6; i++) {
        struct once__edit edit = numbered(i, 10 + i);

        once__recent_note(recent, &edit);
        if (i == 3)
            once__recent_start(recent, 13);
    }
    assert_int_equal(once__recent_since(recent), 13);
    assert_ok(once__recent_walk(recent, 13, see, &seen));
    assert_int_equal(seen.count, 2);
    assert_ok(once__recent_walk(recent, 15, see, &seen));
    assert_int_equal(seen.count, 2);
    once__recent_free(recent);
    once__recent_free(NULL);
}

/* One that can never fit takes everything with it: what is not known is not claimed. */
static void recent__larger_than_the_ring__forgets_up_to_it(void **unused)
{
    static uint8_t large[ONCE_RECENT_SIZE_MAX + 1] = {ONCE_LATTICE_GSET};
    struct once__edit first = numbered(0, 1);
    struct once__edit edit = merging("large", (struct once_bytes){large, sizeof large}, 2);
    struct once__recent *recent;
    struct seen seen = {0};

    (void)unused;
    assert_ok(once__recent_new(&recent));
    once__recent_note(recent, &first);
    once__recent_note(recent, &edit);
    first = numbered(0, 2); /* another part of the same change: half a change is none */
    once__recent_note(recent, &first);
    assert_int_equal(once__recent_since(recent), 2);
    assert_ok(once__recent_walk(recent, 2, see, &seen));
    assert_int_equal(seen.count, 0);
    first = numbered(0, 3);
    once__recent_note(recent, &first);
    assert_ok(once__recent_walk(recent, 2, see, &seen));
    assert_int_equal(seen.count, 1);
    once__recent_free(recent);
}

/* As recovery does it, which reads old edits over newer ones. */
static void recent__older_version__forgets_what_came_before(void **unused)
{
    static const uint64_t versions[] = {5, 9, 3, 9, 7, 10};
    struct seen seen = {.next = 5};
    struct once__recent *recent;

    (void)unused;
    assert_ok(once__recent_new(&recent));
    for (uint64_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        struct once__edit edit = numbered(i, versions[i]);

        once__recent_note(recent, &edit);
    }
    assert_int_equal(once__recent_since(recent), 9);
    assert_ok(once__recent_walk(recent, 9, see, &seen));
    assert_int_equal(seen.count, 1);
    once__recent_free(recent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recent__more_than_its_bound__knows_the_newest),
        cmocka_unit_test(recent__each_says_stop__stops_and_returns_it),
        cmocka_unit_test(recent__started__knows_what_comes_after),
        cmocka_unit_test(recent__larger_than_the_ring__forgets_up_to_it),
        cmocka_unit_test(recent__older_version__forgets_what_came_before),
    };

    return cmocka_run_group_tests_name("recent", tests, NULL, NULL);
}
