/* SPDX-License-Identifier: Apache-2.0
 *
 * AWSET and MVREG by example: what add-wins means, what a remove takes away, how deltas with gaps
 * behave, and what the check refuses in a causal context.
 */
#include "lattice_help.h"

static struct once_bytes add(struct once_bytes set, const char *node, const char *member)
{
    return MAKE(once_awset_add(set, WRITE(node, member), &out));
}

static struct once_bytes remove_from(struct once_bytes set, const char *member)
{
    return MAKE(once_awset_remove(set, b(member), &out));
}

static struct once_bytes write_to(struct once_bytes reg, const char *node, const char *value)
{
    return MAKE(once_mvreg_write(reg, WRITE(node, value), &out));
}

/* set with the member added, or removed, by the replica that has it. */
static struct once_bytes with(struct once_bytes set, const char *node, const char *member)
{
    return merge(set, add(set, node, member));
}

static struct once_bytes without(struct once_bytes set, const char *member)
{
    return merge(set, remove_from(set, member));
}

static struct once_bytes written(struct once_bytes reg, const char *node, const char *value)
{
    return merge(reg, write_to(reg, node, value));
}

static bool contains(struct once_bytes set, const char *member)
{
    bool result = false;

    assert_ok(once_awset_contains(set, b(member), &result));
    return result;
}

static struct once_bytes empty(void)
{
    return bottom(ONCE_LATTICE_AWSET);
}

static void awset__added_and_removed__comes_and_goes(void **state)
{
    struct once_bytes set = with(with(empty(), "n1", "x"), "n1", "y");

    (void)state;
    assert_text(set, "awset{x n1:1,y n1:2 | n1:2}");
    assert_true(contains(set, "x"));
    assert_false(contains(set, "z"));
    set = without(set, "x");
    assert_text(set, "awset{y n1:2 | n1:2}");
    assert_false(contains(set, "x"));
    set = with(set, "n1", "x");
    assert_text(set, "awset{x n1:3,y n1:2 | n1:3}");
}

static void awset__concurrent_add_and_remove__add_wins(void **state)
{
    struct once_bytes both = with(empty(), "n1", "x");
    struct once_bytes added = with(both, "n2", "x");
    struct once_bytes removed = without(both, "x");

    (void)state;
    assert_text(merge(added, removed), "awset{x n2:1 | n1:1,n2:1}");
    assert_state(merge(added, removed), merge(removed, added));
    /* The new add also replaced the old one, so it already knows of everything the remove did. */
    assert_int_equal(order(added, removed), ONCE_ORDER_AFTER);
    assert_int_equal(order(added, with(removed, "n1", "y")), ONCE_ORDER_CONCURRENT);
}

static void awset__remove_of_what_was_seen__wins(void **state)
{
    struct once_bytes one = with(empty(), "n1", "x");
    struct once_bytes two = with(one, "n2", "y");
    struct once_bytes removed = without(two, "x");

    (void)state;
    assert_int_equal(order(one, removed), ONCE_ORDER_BEFORE);
    assert_text(merge(removed, one), "awset{y n2:1 | n1:1,n2:1}");
    assert_text(merge(merge(removed, one), two), "awset{y n2:1 | n1:1,n2:1}");
}

static void awset__remove_of_what_is_not_there__is_the_bottom(void **state)
{
    (void)state;
    assert_state(remove_from(with(empty(), "n1", "x"), "y"), empty());
    assert_state(remove_from(empty(), "y"), empty());
}

static void awset__two_adds_concurrent__one_remove_takes_both_only_if_it_saw_both(void **state)
{
    struct once_bytes one = with(empty(), "n1", "x"), two = with(empty(), "n2", "x");
    struct once_bytes both = merge(one, two);

    (void)state;
    assert_text(both, "awset{x n1:1 n2:1 | n1:1,n2:1}");
    assert_false(contains(without(both, "x"), "x"));
    assert_true(contains(merge(without(one, "x"), two), "x"));
}

static void awset__added_again__replaces_its_own_dots(void **state)
{
    struct once_bytes set = empty();
    size_t size_once;

    (void)state;
    set = with(set, "n1", "x");
    size_once = set.size;
    for (int i = 0; i < 50; i++)
        set = with(set, "n1", "x");
    assert_int_equal(set.size, size_once);
    assert_text(set, "awset{x n1:51 | n1:51}");
}

static void awset__filled_and_emptied__leaves_no_tombstones(void **state)
{
    struct once_bytes set = empty();

    (void)state;
    for (int i = 0; i < 100; i++) {
        char member[16];

        snprintf(member, sizeof member, "m%d", i);
        set = without(with(set, "n1", member), member);
    }
    assert_text(set, "awset{ | n1:100}");
    assert_int_equal(set.size, without(with(empty(), "n1", "x"), "x").size);
}

static void awset__deltas_with_gaps__wait_in_the_context_until_the_gap_closes(void **state)
{
    struct once_bytes set = empty(), deltas[5], received = empty();

    (void)state;
    for (int i = 0; i < 5; i++) {
        char member[2] = {(char)('a' + i), 0};

        deltas[i] = add(set, "n1", member);
        set = merge(set, deltas[i]);
    }
    received = merge(received, deltas[3]);
    assert_text(received, "awset{d n1:4 | n1:0+4}");
    received = merge(received, deltas[1]);
    received = merge(received, deltas[4]);
    assert_text(received, "awset{b n1:2,d n1:4,e n1:5 | n1:0+2+4+5}");
    assert_int_equal(order(received, set), ONCE_ORDER_BEFORE);
    received = merge(received, deltas[0]);
    assert_text(received, "awset{a n1:1,b n1:2,d n1:4,e n1:5 | n1:2+4+5}");
    received = merge(merge(received, deltas[0]), deltas[2]);
    assert_state(received, set);
    assert_text(received, "awset{a n1:1,b n1:2,c n1:3,d n1:4,e n1:5 | n1:5}");
}

static void awset__remove_overtakes_its_add__the_late_add_stays_away(void **state)
{
    struct once_bytes added = add(empty(), "n1", "x");
    struct once_bytes removed = remove_from(added, "x");
    struct once_bytes received = merge(empty(), removed);

    (void)state;
    assert_text(removed, "awset{ | n1:1}");
    assert_text(merge(received, added), "awset{ | n1:1}");
}

/* The gap that the lost delta leaves in the context is closed by a remove of what it had added. So
 * nothing shows that something is missing, and no later delta brings back what it had replaced. */
static void awset__delta_lost__is_made_up_for_by_the_whole_state_or_the_merged_deltas(void **state)
{
    struct once_bytes sender = empty(), receiver = empty(), deltas[4], lost = empty();

    (void)state;
    for (int i = 0; i < 4; i++) {
        static const char *const members[] = {"x", "x", "x", "y"};

        deltas[i] = i == 2 ? remove_from(sender, members[i]) : add(sender, "n1", members[i]);
        sender = merge(sender, deltas[i]);
        if (i != 1)
            receiver = merge(receiver, deltas[i]);
    }
    assert_text(sender, "awset{y n1:3 | n1:3}");
    assert_text(receiver, "awset{x n1:1,y n1:3 | n1:3}");

    for (int i = 1; i < 4; i++)
        lost = merge(lost, deltas[i]);
    assert_state(merge(receiver, lost), sender);
    assert_state(merge(receiver, sender), sender);
    assert_state(merge(receiver, deltas[1]), sender);
    assert_true(contains(merge(receiver, add(sender, "n1", "z")), "x"));
}

static void mvreg__delta_lost__is_made_up_for_by_the_whole_state(void **state)
{
    struct once_bytes none = bottom(ONCE_LATTICE_MVREG), first = written(none, "n1", "red");
    struct once_bytes second = written(first, "n1", "green");
    struct once_bytes third = write_to(second, "n1", "blue");
    struct once_bytes sender = merge(second, third);

    (void)state;
    assert_text(merge(first, third), "mvreg{red n1:1,blue n1:3 | n1:3}");
    assert_state(merge(merge(first, third), sender), sender);
    assert_text(sender, "mvreg{blue n1:3 | n1:3}");
}

static void awset__add_delta__covers_what_it_replaces_and_nothing_else(void **state)
{
    struct once_bytes set = empty();

    (void)state;
    set = with(with(with(set, "n2", "x"), "n1", "y"), "n3", "z");
    set = merge(set, with(empty(), "n0", "x"));
    assert_text(add(set, "n2", "x"), "awset{x n2:2 | n0:1,n2:2}");
    assert_text(add(set, "n1", "x"), "awset{x n1:2 | n0:1,n1:0+2,n2:1}");
    assert_text(add(set, "n9", "x"), "awset{x n9:1 | n0:1,n2:1,n9:1}");
    assert_text(remove_from(set, "x"), "awset{ | n0:1,n2:1}");
}

static void awset__numbers_used_up__is_an_overflow(void **state)
{
    struct once_bytes full = hex(
        "09 01 01000000 01000000 61 0000000000000000 01000000 ffffffffffffffff 00000000");
    struct once_buf out = fresh();

    (void)state;
    assert_ok(once_lattice_check(full, NULL, NULL));
    assert_int_equal(once_awset_add(full, WRITE("a", "x"), &out), ONCE_ERR_OVERFLOW);
    assert_int_equal(out.size, 0);
    assert_ok(once_awset_add(full, WRITE("b", "x"), &out));
    once_buf_release(&out);
}

static void awset__many_nodes__merge_and_compare_alike(void **state)
{
    struct once_bytes left = empty(), right = empty();

    (void)state;
    for (int i = 0; i < 41; i++) {
        char node[16], member[16];

        snprintf(node, sizeof node, "n%02d", (i * 7) % 40);
        snprintf(member, sizeof member, "m%02d", i % 10);
        left = with(left, node, member);
        if (i % 3 == 0)
            right = merge(right, left);
        else if (i % 3 == 1)
            right = without(right, member);
    }
    right = with(right, "n99", "own");
    assert_ok(once_lattice_check(merge(left, right), NULL, NULL));
    assert_state(merge(left, right), merge(right, left));
    assert_int_equal(order(left, right), ONCE_ORDER_CONCURRENT);
    assert_int_equal(order(left, merge(left, right)), ONCE_ORDER_BEFORE);
    assert_int_equal(order(merge(left, right), right), ONCE_ORDER_AFTER);
}

static void awset__check__refuses_what_is_not_canonical(void **state)
{
    (void)state;
    /* Context: n1 {1,2,4}; member x with dot (n1, 4). */
    assert_ok(once_lattice_check(hex("09 01 01000000 01000000 61 0200000000000000 01000000 "
                                     "0400000000000000 01000000 01000000 78 01000000 00000000 "
                                     "0400000000000000"),
                                 NULL, NULL));
    /* A node without a dot; an extra that belongs to the base; extras not increasing. */
    assert_refused(hex("09 01 01000000 01000000 61 0000000000000000 00000000 00000000"),
                   ONCE_ERR_DAMAGED, 11);
    assert_refused(hex("09 01 01000000 01000000 61 0200000000000000 01000000 0300000000000000 "
                       "00000000"),
                   ONCE_ERR_DAMAGED, 23);
    assert_refused(hex("09 01 01000000 01000000 61 0200000000000000 01000000 0200000000000000 "
                       "00000000"),
                   ONCE_ERR_DAMAGED, 23);
    assert_refused(hex("09 01 01000000 01000000 61 0200000000000000 02000000 0400000000000000 "
                       "0400000000000000 00000000"),
                   ONCE_ERR_DAMAGED, 31);
    /* Nodes not increasing. */
    assert_refused(hex("09 01 02000000 01000000 61 0200000000000000 00000000 01000000 61 "
                       "0200000000000000 00000000 00000000"),
                   ONCE_ERR_DAMAGED, 27);
    /* A member without a dot; a dot of no node; one that the context lacks; number 0; dots
     * twice. */
    assert_refused(hex("09 01 01000000 01000000 61 0200000000000000 00000000 01000000 01000000 78 "
                       "00000000"),
                   ONCE_ERR_DAMAGED, 32);
    assert_refused(hex("09 01 01000000 01000000 61 0200000000000000 00000000 01000000 01000000 78 "
                       "01000000 01000000 0100000000000000"),
                   ONCE_ERR_DAMAGED, 36);
    assert_refused(hex("09 01 01000000 01000000 61 0200000000000000 00000000 01000000 01000000 78 "
                       "01000000 00000000 0300000000000000"),
                   ONCE_ERR_DAMAGED, 40);
    assert_refused(hex("09 01 01000000 01000000 61 0200000000000000 00000000 01000000 01000000 78 "
                       "01000000 00000000 0000000000000000"),
                   ONCE_ERR_DAMAGED, 40);
    assert_refused(hex("09 01 01000000 01000000 61 0200000000000000 00000000 01000000 01000000 78 "
                       "02000000 00000000 0100000000000000 00000000 0100000000000000"),
                   ONCE_ERR_DAMAGED, 48);
    /* Members not increasing; a context that claims more nodes than there are bytes. */
    assert_refused(hex("09 01 01000000 01000000 61 0200000000000000 00000000 02000000 01000000 78 "
                       "01000000 00000000 0100000000000000 01000000 78 01000000 00000000 "
                       "0200000000000000"),
                   ONCE_ERR_DAMAGED, 52);
    assert_refused(hex("09 01 ffffff00"), ONCE_ERR_DAMAGED, 6);
    assert_refused(hex("09 01 01000001"), ONCE_ERR_FULL, 2);
}

static void mvreg__write__replaces_what_it_saw(void **state)
{
    struct once_bytes reg = written(bottom(ONCE_LATTICE_MVREG), "n1", "red");

    (void)state;
    reg = written(reg, "n2", "blue");
    assert_text(reg, "mvreg{blue n2:1 | n1:1,n2:1}");
    reg = written(reg, "n1", "green");
    assert_text(reg, "mvreg{green n1:2 | n1:2,n2:1}");
}

static void mvreg__concurrent_writes__both_stay_until_the_next(void **state)
{
    struct once_bytes start = written(bottom(ONCE_LATTICE_MVREG), "n1", "red");
    struct once_bytes left = written(start, "n1", "green"), right = written(start, "n2", "blue");
    struct once_bytes both = merge(left, right);
    struct once_lattice_iter iter;
    struct once_lattice_entry entry;

    (void)state;
    assert_int_equal(order(left, right), ONCE_ORDER_CONCURRENT);
    assert_text(both, "mvreg{green n1:2,blue n2:1 | n1:2,n2:1}");
    assert_ok(once_lattice_iter_init(&iter, both));
    assert_int_equal(once_lattice_iter_next(&iter, &entry), 1);
    assert_true(same(entry.key, b("n1")));
    assert_true(same(entry.value, b("green")));
    assert_int_equal(entry.number, 2);
    assert_int_equal(once_lattice_iter_next(&iter, &entry), 1);
    assert_true(same(entry.key, b("n2")));
    assert_true(same(entry.value, b("blue")));
    assert_int_equal(once_lattice_iter_next(&iter, &entry), 0);
    assert_text(written(both, "n3", "white"), "mvreg{white n3:1 | n1:2,n2:1,n3:1}");
    assert_state(merge(written(both, "n3", "white"), left), written(both, "n3", "white"));
}

static void mvreg__same_value_twice__is_two_writes(void **state)
{
    struct once_bytes none = bottom(ONCE_LATTICE_MVREG);
    struct once_bytes both = merge(write_to(none, "n1", "red"), write_to(none, "n2", "red"));
    size_t count = 0;

    (void)state;
    assert_ok(once_lattice_count(both, &count));
    assert_int_equal(count, 2);
}

static void mvreg__two_writers_share_a_name__stays_lawful(void **state)
{
    struct once_bytes none = bottom(ONCE_LATTICE_MVREG);
    struct once_bytes left = write_to(none, "n1", "a"), right = write_to(none, "n1", "b");

    (void)state;
    assert_state(merge(left, right), right);
    assert_state(merge(right, left), right);
    assert_int_equal(order(left, right), ONCE_ORDER_BEFORE);
}

static void iter__awset__gives_members_in_order(void **state)
{
    struct once_bytes set = with(with(with(empty(), "n1", "y"), "n2", "x"), "n3", "z");
    struct once_lattice_iter iter;
    struct once_lattice_entry entry;
    char members[4] = {0};

    (void)state;
    assert_ok(once_lattice_iter_init(&iter, without(set, "y")));
    for (int i = 0; once_lattice_iter_next(&iter, &entry) == 1; i++)
        members[i] = (char)entry.key.data[0];
    assert_string_equal(members, "xz");
}

#define TEST(name) cmocka_unit_test_teardown(name, help_release)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(awset__added_and_removed__comes_and_goes),
        TEST(awset__concurrent_add_and_remove__add_wins),
        TEST(awset__remove_of_what_was_seen__wins),
        TEST(awset__remove_of_what_is_not_there__is_the_bottom),
        TEST(awset__two_adds_concurrent__one_remove_takes_both_only_if_it_saw_both),
        TEST(awset__added_again__replaces_its_own_dots),
        TEST(awset__filled_and_emptied__leaves_no_tombstones),
        TEST(awset__deltas_with_gaps__wait_in_the_context_until_the_gap_closes),
        TEST(awset__remove_overtakes_its_add__the_late_add_stays_away),
        TEST(awset__delta_lost__is_made_up_for_by_the_whole_state_or_the_merged_deltas),
        TEST(mvreg__delta_lost__is_made_up_for_by_the_whole_state),
        TEST(awset__add_delta__covers_what_it_replaces_and_nothing_else),
        TEST(awset__numbers_used_up__is_an_overflow),
        TEST(awset__many_nodes__merge_and_compare_alike),
        TEST(awset__check__refuses_what_is_not_canonical),
        TEST(mvreg__write__replaces_what_it_saw),
        TEST(mvreg__concurrent_writes__both_stay_until_the_next),
        TEST(mvreg__same_value_twice__is_two_writes),
        TEST(mvreg__two_writers_share_a_name__stays_lawful),
        TEST(iter__awset__gives_members_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
