/* SPDX-License-Identifier: Apache-2.0
 *
 * src/object/feed.c and gather.c: what a replica is given. A `side` is what the engine
 * has: a table, the ring, and the number of the last change.
 */
#include "lattice_mutate.h"

#include <stdio.h>

#include <xxhash.h>

#include "object/object.h"

enum { SIZE_ANY = 1 << 20, HEADER = 32, CHECK = 8 };

struct side {
    struct once__objects *objects;
    struct once__recent *recent;
    uint64_t last;
};

static void side_begin(struct side *side)
{
    static const uint8_t secret[ONCE__OBJECT_SECRET_SIZE] = {7};

    *side = (struct side){0};
    assert_ok(once__objects_new(secret, &side->objects));
    assert_ok(once__recent_new(&side->recent));
}

static void side_end(struct side *side)
{
    once__objects_free(side->objects);
    once__recent_free(side->recent);
}

/* As after a restart: the ring is empty. */
static void side_restart(struct side *side)
{
    once__recent_start(side->recent, side->last);
}

static struct once__edit merging(const char *name, struct once_bytes delta, uint64_t version)
{
    struct once__edit edit = {.kind = delta.data[0], .name = b(name)};

    edit.to.merge.delta = delta;
    edit.to.merge.version = version;
    return edit;
}

/* A part of change `last`. */
static void side_merge(struct side *side, const char *name, struct once_bytes delta)
{
    struct once__edit edit = merging(name, delta, side->last);

    assert_ok(once__objects_put(side->objects, &edit));
    once__recent_note(side->recent, &edit);
}

static void side_change(struct side *side, const char *name, struct once_bytes delta)
{
    side->last++;
    side_merge(side, name, delta);
}

/* An object that replicas do not exchange. */
static void side_count(struct side *side, const char *name, int64_t value)
{
    struct once__edit edit = {.kind = ONCE__EDIT_COUNTER, .name = b(name), .to.counter = value};

    side->last++;
    assert_ok(once__objects_put(side->objects, &edit));
}

static const struct once__object *side_object(const struct side *side, const char *name)
{
    const struct once__object *object = once__objects_find(side->objects, b(name));

    assert_non_null(object);
    return object;
}

static struct once_bytes side_state(const struct side *side, const char *name)
{
    struct once_bytes state = once__object_state(side_object(side, name));

    return keep(state.data, state.size);
}

static bool ask(const struct side *side, struct once_changes_cursor *cursor, size_t size_max,
                struct once_bytes *ret_message)
{
    struct once_buf out = fresh();
    bool more = false;

    assert_ok(
        once__feed_changes(side->objects, side->recent, side->last, cursor, size_max, &out, &more));
    *ret_message = taken(ONCE_OK, &out);
    return more;
}

/* Merges a message as the engine would. Gives the number of entries. */
static unsigned take_message(struct side *side, struct once_bytes message)
{
    struct once_bytes name, state;
    struct once_defect defect;
    unsigned count = 0;
    size_t offset = 0;
    int err;

    assert_ok(once__feed_check(message, &defect));
    while ((err = once__feed_next(message, &offset, &name, &state)) == 1) {
        char text[ONCE_OBJECT_NAME_SIZE_MAX + 1] = "";

        memcpy(text, name.data, name.size);
        side_change(side, text, state);
        count++;
    }
    assert_ok(err);
    return count;
}

/* Asks until there is nothing more. Gives the number of messages. */
static unsigned pull(const struct side *from, struct side *to, struct once_changes_cursor *cursor,
                     size_t size_max)
{
    struct once_bytes message;
    unsigned count = 0;
    bool more;

    do {
        more = ask(from, cursor, size_max, &message);
        if (message.size > 0) {
            (void)take_message(to, message);
            count++;
        }
    } while (more);
    return count;
}

/* Every mergeable object of a is at or before the one of b. */
static void assert_has(const struct side *a, const struct side *b_side)
{
    for (uint64_t i = 0; i < once__objects_count(a->objects); i++) {
        const struct once__object *object = once__objects_at(a->objects, i), *other;

        if (!once_object_mergeable(once__object_type(object)))
            continue;
        other = once__objects_find(b_side->objects, once__object_name(object));
        assert_non_null(other);
        assert_state(once__object_state(object), once__object_state(other));
    }
}

/* ---- Changes ---- */

static void changes__no_news__no_message(void **unused)
{
    struct once_changes_cursor cursor = {0};
    struct once_bytes message;
    struct side side;

    (void)unused;
    side_begin(&side);
    assert_false(ask(&side, &cursor, SIZE_ANY, &message));
    assert_int_equal(message.size, 0);
    side_change(&side, "n", MAKE(once_max_set(4, &out)));
    assert_false(ask(&side, &cursor, SIZE_ANY, &message));
    assert_int_not_equal(message.size, 0);
    assert_int_equal(cursor.since, 1);
    assert_false(ask(&side, &cursor, SIZE_ANY, &message));
    assert_int_equal(message.size, 0);
    side_end(&side);
}

static void changes__of_objects_that_are_not_exchanged__pass_without_a_message(void **unused)
{
    struct once_changes_cursor cursor = {0}, walking = {0};
    struct once_bytes message;
    struct side side;

    (void)unused;
    side_begin(&side);
    for (int i = 0; i < 5; i++)
        side_count(&side, "acct", i);
    assert_false(ask(&side, &cursor, SIZE_ANY, &message));
    assert_int_equal(message.size, 0);
    assert_int_equal(cursor.since, 5);
    side_restart(&side);
    assert_false(ask(&side, &walking, SIZE_ANY, &message));
    assert_int_equal(message.size, 0);
    assert_int_equal(walking.since, 5);
    side_end(&side);
}

static void changes__many_of_one_object__one_entry(void **unused)
{
    struct once_changes_cursor cursor = {0};
    struct once_bytes message;
    struct side from, to;

    (void)unused;
    side_begin(&from);
    side_begin(&to);
    side_change(&from, "set", MAKE(once_gset_add(b("before"), &out)));
    (void)pull(&from, &to, &cursor, SIZE_ANY);
    for (int i = 0; i < 1000; i++) {
        char member[32];

        (void)snprintf(member, sizeof member, "m%d", i);
        side_change(&from, "set", MAKE(once_gset_add(b(member), &out)));
        if (i % 10 == 0)
            side_change(&from, "count",
                        MAKE(once_gcounter_add(i ? side_state(&from, "count")
                                                 : bottom(ONCE_LATTICE_GCOUNTER),
                                               b("a"), 1, &out)));
    }
    assert_false(ask(&from, &cursor, SIZE_ANY, &message));
    assert_int_equal(take_message(&to, message), 2);
    assert_has(&from, &to);
    side_end(&from);
    side_end(&to);
}

/* The next question gets the delta, not the state: what makes exchanging cheap. */
static void changes__one_member_more_in_a_large_set__small_message(void **unused)
{
    struct once_changes_cursor cursor = {0};
    struct once_bytes message;
    struct side from, to;

    (void)unused;
    side_begin(&from);
    side_begin(&to);
    for (int i = 0; i < 1000; i++) {
        char member[32];

        (void)snprintf(member, sizeof member, "m%d", i);
        side_change(&from, "set", MAKE(once_gset_add(b(member), &out)));
    }
    (void)pull(&from, &to, &cursor, SIZE_ANY);
    side_change(&from, "set", MAKE(once_gset_add(b("one"), &out)));
    side_change(&from, "set", MAKE(once_gset_add(b("two"), &out)));
    assert_false(ask(&from, &cursor, SIZE_ANY, &message));
    assert_int_equal(message.size, HEADER + 1 + 3 + 4 + (2 + 4 + 2 * (4 + 3)) + CHECK);
    (void)take_message(&to, message);
    assert_has(&from, &to);
    side_end(&from);
    side_end(&to);
}

/* Messages as the bound wants them, whether they come of the ring or of a walk. */
static void changes__bounded__messages_stay_within_and_give_all(void **unused)
{
    (void)unused;
    for (int walking = 0; walking < 2; walking++) {
        struct once_changes_cursor cursor = {0};
        struct once_bytes message;
        struct side from, to;
        unsigned count = 0, entries;
        bool more;

        side_begin(&from);
        side_begin(&to);
        for (int i = 0; i < 500; i++) {
            char name[32];

            (void)snprintf(name, sizeof name, "object-%d", i);
            side_change(&from, name, MAKE(once_gset_add(b("a member of the set"), &out)));
        }
        if (walking)
            side_restart(&from);
        do {
            more = ask(&from, &cursor, 1000, &message);
            assert_true(message.size > 0 && message.size <= 1000);
            entries = take_message(&to, message);
            assert_true(!more || entries >= 15);
            count++;
        } while (more);
        assert_true(count > 20);
        assert_has(&from, &to);
        side_end(&from);
        side_end(&to);
    }
}

static void changes__object_larger_than_the_bound__goes_whole_and_alone(void **unused)
{
    static const uint8_t large[5000];
    struct once_bytes member = {large, sizeof large}, message;
    struct side from, to;

    (void)unused;
    for (int walking = 0; walking < 2; walking++) {
        struct once_changes_cursor cursor = {0};
        unsigned entries = 0;
        bool more;

        side_begin(&from);
        side_begin(&to);
        side_change(&from, "small", MAKE(once_flag_raise(&out)));
        side_change(&from, "large", MAKE(once_gset_add(member, &out)));
        side_change(&from, "other", MAKE(once_flag_raise(&out)));
        if (walking)
            side_restart(&from);
        do {
            more = ask(&from, &cursor, 100, &message);
            assert_int_equal(take_message(&to, message), 1);
            entries++;
        } while (more);
        assert_int_equal(entries, 3);
        assert_has(&from, &to);
        side_end(&from);
        side_end(&to);
    }
}

/* A change of several objects that is too large for a message is given object by object. */
static void changes__change_larger_than_the_bound__is_given_in_parts(void **unused)
{
    struct once_changes_cursor cursor = {0};
    struct once_bytes message;
    struct side from, to;
    unsigned count = 0;
    bool more;

    (void)unused;
    side_begin(&from);
    side_begin(&to);
    side_change(&from, "first", MAKE(once_flag_raise(&out)));
    (void)pull(&from, &to, &cursor, 300);
    from.last++;
    for (int i = 0; i < 64; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "object-%d", i);
        side_merge(&from, name, MAKE(once_gset_add(b("a member of the set"), &out)));
    }
    do {
        more = ask(&from, &cursor, 300, &message);
        assert_true(message.size <= 300);
        (void)take_message(&to, message);
        count++;
        if (count == 3)
            side_change(&from, "object-0", MAKE(once_gset_add(b("late"), &out)));
    } while (more);
    assert_true(count > 8);
    assert_int_equal(cursor.since, from.last);
    assert_has(&from, &to);
    side_end(&from);
    side_end(&to);
}

static void changes__objects_change_during_a_walk__come_afterwards(void **unused)
{
    struct once_changes_cursor cursor = {0};
    struct once_bytes message;
    struct side from, to;

    (void)unused;
    side_begin(&from);
    side_begin(&to);
    side_change(&from, "a", MAKE(once_gset_add(b("1"), &out)));
    side_change(&from, "b", MAKE(once_gset_add(b("1"), &out)));
    side_change(&from, "c", MAKE(once_gset_add(b("1"), &out)));
    side_restart(&from);
    assert_true(ask(&from, &cursor, 1, &message)); /* a */
    (void)take_message(&to, message);
    assert_int_equal(cursor.until, 3);
    assert_int_equal(cursor.at, 1);
    side_change(&from, "a", MAKE(once_gset_add(b("2"), &out))); /* passed already */
    side_change(&from, "c", MAKE(once_gset_add(b("2"), &out))); /* still to come */
    side_change(&from, "d", MAKE(once_gset_add(b("2"), &out))); /* new */
    while (cursor.until != 0) {
        assert_true(ask(&from, &cursor, 1, &message));
        (void)take_message(&to, message);
    }
    assert_int_equal(cursor.since, 3);
    (void)pull(&from, &to, &cursor, SIZE_ANY);
    assert_int_equal(cursor.since, 6);
    assert_has(&from, &to);
    side_end(&from);
    side_end(&to);
}

/* The store was restored from an older copy, or the cursor is of another one, or is nonsense. */
static void changes__cursor_that_cannot_be__starts_from_zero(void **unused)
{
    static const struct once_changes_cursor cursors[] = {
        {.since = 4},
        {.since = UINT64_MAX},
        {.since = 1, .until = 4},
        {.since = 2, .until = 2, .at = 1},
        {.since = 1, .until = 3, .at = 4},
        {.since = 3, .at = 1},
    };

    (void)unused;
    for (int walking = 0; walking < 2; walking++)
        for (size_t i = 0; i < sizeof cursors / sizeof *cursors; i++) {
            struct once_changes_cursor cursor = cursors[i];
            struct side from, to;

            side_begin(&from);
            side_begin(&to);
            side_change(&from, "a", MAKE(once_flag_raise(&out)));
            side_change(&from, "b", MAKE(once_flag_raise(&out)));
            side_change(&from, "c", MAKE(once_flag_raise(&out)));
            if (walking)
                side_restart(&from);
            (void)pull(&from, &to, &cursor, SIZE_ANY);
            assert_has(&from, &to);
            assert_int_equal(cursor.since, 3);
            side_end(&from);
            side_end(&to);
        }
}

static void changes__no_room__nothing_changed(void **unused)
{
    (void)unused;
    for (int walking = 0; walking < 2; walking++) {
        struct once_changes_cursor cursor = {.store_id = {1}}, before = cursor;
        struct side side;
        bool more = false;

        side_begin(&side);
        side_change(&side, "a", MAKE(once_gset_add(b("member"), &out)));
        if (walking)
            side_restart(&side);
        for (size_t room = 0;; room++) {
            struct once_buf out;
            int err;

            once_buf_init(&out, 3 + room);
            assert_ok(once_buf_append(&out, "abc", 3));
            err = once__feed_changes(side.objects, side.recent, side.last, &cursor, SIZE_ANY, &out,
                                     &more);
            if (err == ONCE_OK) {
                assert_int_equal(room, HEADER + 1 + 1 + 4 + (2 + 4 + 4 + 6) + CHECK);
                assert_int_equal(out.size, out.size_max);
                assert_memory_equal(out.data, "abc", 3);
                assert_memory_equal(out.data + 3 + 16, cursor.store_id, 16);
                once_buf_release(&out);
                break;
            }
            assert_int_equal(err, ONCE_ERR_FULL);
            assert_int_equal(out.size, 3);
            assert_memory_equal(&cursor, &before, sizeof cursor);
            once_buf_release(&out);
        }
        side_end(&side);
    }
}

/* Nothing to give needs no room. */
static void changes__no_room_and_no_news__is_ok(void **unused)
{
    struct once_changes_cursor cursor = {0};
    struct once_buf out;
    struct side side;
    bool more = true;

    (void)unused;
    side_begin(&side);
    side_count(&side, "acct", 1);
    once_buf_init(&out, 0);
    assert_ok(
        once__feed_changes(side.objects, side.recent, side.last, &cursor, SIZE_ANY, &out, &more));
    assert_false(more);
    assert_int_equal(cursor.since, 1);
    side_end(&side);
}

/* However much is asked for: the engine's lock is held meanwhile. */
static void changes__very_many__work_for_one_message_is_bounded(void **unused)
{
    enum { MANY = 20000, AT_ONCE = 1 << 14 };
    struct once_changes_cursor cursor = {0}, walking = {0};
    struct once_bytes message, one = MAKE(once_max_set(1, &out));
    struct side from, to;
    char name[32];

    (void)unused;
    side_begin(&from);
    side_begin(&to);
    for (int i = 0; i < MANY; i++) /* 4 MiB of notes have room for them */
        side_change(&from, "n", one);
    assert_true(ask(&from, &cursor, SIZE_ANY, &message));
    assert_int_equal(cursor.since, AT_ONCE);
    assert_int_equal(take_message(&to, message), 1);
    assert_false(ask(&from, &cursor, SIZE_ANY, &message));
    assert_int_equal(cursor.since, MANY);

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "counter-%d", i);
        side_count(&from, name, 1);
    }
    side_change(&from, "last", one);
    side_restart(&from);
    walking.since = MANY;
    assert_true(ask(&from, &walking, SIZE_ANY, &message));
    assert_int_equal(message.size, 0);
    assert_int_equal(walking.at, AT_ONCE);
    assert_false(ask(&from, &walking, SIZE_ANY, &message));
    assert_int_equal(take_message(&to, message), 1);
    assert_has(&from, &to);
    side_end(&from);
    side_end(&to);
}

/* Random updates of every type, changes of many objects, restarts, and questions of random size in
 * between; in the end the other side has everything. */
static void changes__random__give_everything(void **unused)
{
    uint64_t seed = help_seed();

    (void)unused;
    for (int round = 0; round < 40; round++) {
        struct once_changes_cursor cursor = {0};
        struct side from, to;

        side_begin(&from);
        side_begin(&to);
        for (int step = 0; step < 400; step++) {
            uint64_t what = help_below(&seed, 100);
            struct once_bytes message;

            if (what < 70) {
                from.last++;
                for (uint64_t i = what < 60 ? 1 : 1 + help_below(&seed, 8); i > 0; i--) {
                    enum once_lattice_type type = (enum once_lattice_type)(
                        1 + help_below(&seed, ONCE_LATTICE_MAP));
                    const struct once__object *object;
                    struct once_bytes state = bottom(type);
                    char name[32];

                    (void)snprintf(name, sizeof name, "%u-%u", type,
                                   (unsigned)help_below(&seed, 6));
                    object = once__objects_find(from.objects, b(name));
                    if (object)
                        state = once__object_state(object);
                    side_merge(&from, name, mutate_randomly(type, state, "a", &seed));
                }
            } else if (what < 75) {
                side_count(&from, "acct", step);
            } else if (what < 77) {
                side_restart(&from);
            } else if (what < 78) {
                cursor = (struct once_changes_cursor){0};
            } else {
                (void)ask(&from, &cursor, help_below(&seed, 2000), &message);
                if (message.size > 0)
                    (void)take_message(&to, message);
            }
        }
        (void)pull(&from, &to, &cursor, help_below(&seed, 2000));
        assert_int_equal(cursor.since, from.last);
        assert_has(&from, &to);
        side_end(&from);
        side_end(&to);
        (void)help_release(NULL);
    }
}

/* ---- One object ---- */

static struct once_bytes delta_of(const struct side *side, const char *name, uint64_t since)
{
    return MAKE(
        once__feed_delta(side->objects, side->recent, side_object(side, name), since, &out));
}

static void delta__random__leads_from_the_state_then_to_the_state_now(void **unused)
{
    uint64_t seed = help_seed();

    (void)unused;
    for (int round = 0; round < 10; round++)
        ALL_TYPES(type)
        {
            enum { STEPS = 30 };
            struct once_bytes states[STEPS];
            uint64_t versions[STEPS];
            struct side side;

            side_begin(&side);
            for (int i = 0; i < STEPS; i++) {
                side_change(
                    &side, "o",
                    mutate_randomly(type, i ? side_state(&side, "o") : bottom(type), "n", &seed));
                side_change(&side, "another", MAKE(once_flag_raise(&out)));
                if (help_below(&seed, 20) == 0)
                    side_restart(&side);
                states[i] = side_state(&side, "o");
                versions[i] = once__object_version(side_object(&side, "o"));
            }
            for (int i = 0; i < STEPS; i++) {
                struct once_bytes delta = delta_of(&side, "o", versions[i]);

                if (versions[i] == versions[STEPS - 1])
                    assert_int_equal(delta.size, 0);
                else
                    assert_state(merge(states[i], delta), states[STEPS - 1]);
            }
            assert_state(delta_of(&side, "o", 0), states[STEPS - 1]);
            side_end(&side);
            (void)help_release(NULL);
        }
}

static void delta__of_a_large_set__is_small(void **unused)
{
    struct side side;

    (void)unused;
    side_begin(&side);
    for (int i = 0; i < 100; i++) {
        char member[32];

        (void)snprintf(member, sizeof member, "m%d", i);
        side_change(&side, "set", MAKE(once_gset_add(b(member), &out)));
    }
    assert_text(delta_of(&side, "set", 97), "gset{m97,m98,m99}");
    side_restart(&side);
    assert_state(delta_of(&side, "set", 97), side_state(&side, "set"));
    side_end(&side);
}

/* ---- Messages ---- */

/* The message after an edit of its bytes, with the right check again. */
static struct once_bytes rechecked(struct once_bytes message, size_t at, uint8_t byte)
{
    struct once_bytes copy = keep(message.data, message.size);
    uint8_t *bytes = help_blocks->data;
    uint64_t check;

    bytes[at] = byte;
    check = htole64(XXH3_64bits(bytes, message.size - CHECK));
    memcpy(bytes + message.size - CHECK, &check, CHECK);
    return copy;
}

static struct once_bytes example(void)
{
    struct once_changes_cursor cursor = {.store_id = "sixteen letters."};
    struct once_bytes message;
    struct side side;

    side_begin(&side);
    side_change(&side, "one", MAKE(once_gset_add(b("x"), &out)));
    side_change(&side, "two", MAKE(once_max_set(5, &out)));
    assert_false(ask(&side, &cursor, SIZE_ANY, &message));
    side_end(&side);
    return message;
}

static void assert_bad(struct once_bytes message, size_t offset)
{
    struct once_defect defect = {.offset = SIZE_MAX};

    assert_int_equal(once__feed_check(message, &defect), ONCE_ERR_DAMAGED);
    assert_non_null(defect.what);
    assert_true(defect.offset <= message.size);
    if (offset != SIZE_MAX)
        assert_int_equal(defect.offset, offset);
}

/* docs/format/changes.md has these bytes as its example. */
static void message__example__is_these_bytes(void **unused)
{
    struct once_bytes expected = hex("4f6e636566656564 01000000 02000000"
                                     "7369787465656e206c6574746572732e"
                                     "03 6f6e65 0b000000 04 01 01000000 01000000 78"
                                     "03 74776f 0b000000 01 01 01 0500000000000000");
    struct once_bytes message = example();

    (void)unused;
    assert_int_equal(message.size, expected.size + CHECK);
    assert_memory_equal(message.data, expected.data, expected.size);
}

static void message__any_byte_flipped_or_missing__is_refused(void **unused)
{
    struct once_bytes message = example();

    (void)unused;
    for (size_t i = 0; i < message.size; i++) {
        struct once_bytes copy = keep(message.data, message.size);

        help_blocks->data[i] ^= (uint8_t)(1 << i % 8);
        assert_bad(copy, SIZE_MAX);
        assert_bad(keep(message.data, i), SIZE_MAX);
    }
    assert_bad((struct once_bytes){0}, 0);
}

static void message__wrong_inside__is_refused_where_it_is(void **unused)
{
    struct once_bytes message = example();
    size_t state = HEADER + 1 + 3 + 4;

    (void)unused;
    assert_bad(rechecked(message, 0, 'o'), 0);
    assert_bad(rechecked(message, 8, 2), 8);
    assert_bad(rechecked(message, 12, 0), 12);
    assert_bad(rechecked(message, 12, 3), message.size - CHECK); /* one is missing */
    assert_bad(rechecked(message, 12, 1), state + 11);           /* one too many */
    assert_bad(rechecked(message, HEADER, 0), SIZE_MAX);         /* no name */
    assert_bad(rechecked(message, HEADER, 255), message.size - CHECK);
    assert_bad(rechecked(message, HEADER + 2, '\n'), HEADER + 1);
    assert_bad(rechecked(message, HEADER + 4, 0), SIZE_MAX); /* no state */
    assert_bad(rechecked(message, state, 99), state);        /* no type */
    assert_bad(rechecked(message, state + 2, 2), SIZE_MAX);
    assert_bad(rechecked(message, state - 1, 0x7f), message.size - CHECK);
}

static void message__read__gives_names_and_states(void **unused)
{
    struct once_bytes message = example(), name, state;
    size_t offset = 0;

    (void)unused;
    assert_int_equal(once__feed_next(message, &offset, &name, &state), 1);
    assert_true(same(name, b("one")));
    assert_text(state, "gset{x}");
    assert_int_equal(once__feed_next(message, &offset, &name, &state), 1);
    assert_true(same(name, b("two")));
    assert_text(state, "max{5}");
    assert_int_equal(once__feed_next(message, &offset, &name, &state), 0);
    assert_int_equal(once__feed_next(message, &offset, &name, &state), 0);
    offset = message.size;
    assert_int_equal(once__feed_next(message, &offset, &name, &state), ONCE_ERR_INVALID);
}

#define TEST(function) cmocka_unit_test_teardown(function, help_release)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(changes__no_news__no_message),
        TEST(changes__of_objects_that_are_not_exchanged__pass_without_a_message),
        TEST(changes__many_of_one_object__one_entry),
        TEST(changes__one_member_more_in_a_large_set__small_message),
        TEST(changes__bounded__messages_stay_within_and_give_all),
        TEST(changes__object_larger_than_the_bound__goes_whole_and_alone),
        TEST(changes__change_larger_than_the_bound__is_given_in_parts),
        TEST(changes__objects_change_during_a_walk__come_afterwards),
        TEST(changes__cursor_that_cannot_be__starts_from_zero),
        TEST(changes__no_room__nothing_changed),
        TEST(changes__no_room_and_no_news__is_ok),
        TEST(changes__very_many__work_for_one_message_is_bounded),
        TEST(changes__random__give_everything),
        TEST(delta__random__leads_from_the_state_then_to_the_state_now),
        TEST(delta__of_a_large_set__is_small),
        TEST(message__example__is_these_bytes),
        TEST(message__any_byte_flipped_or_missing__is_refused),
        TEST(message__wrong_inside__is_refused_where_it_is),
        TEST(message__read__gives_names_and_states),
    };

    return cmocka_run_group_tests_name("feed", tests, NULL, NULL);
}
