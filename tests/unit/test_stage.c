/* SPDX-License-Identifier: Apache-2.0
 *
 * Each effect on a stage: what it gives, when it is rejected and what that says, and several of
 * them on one object. What a stage refuses is in test_stage_refuse.c.
 */
#include "unit/stage_help.h"

static void add__within_its_range__gives_the_new_value(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bench_apply(b, "[100]", "ADD acct:42 100", NULL), 1);
    assert_int_equal(bench_apply(b, "[50]", "ADD acct:42 -50 MIN 0 MAX 100", NULL), 1);
    assert_int_equal(once__object_counter(once__objects_at(b->objects, 0)), 50);
    assert_int_equal(bench_apply(b, "[50]", "ADD acct:42 0", NULL), 0);
    assert_int_equal(bench_apply(b, "[0]", "ADD never 0", NULL), 0);
    assert_int_equal(once__objects_count(b->objects), 1);
}

static void add__outside_its_range__is_rejected_with_numbers(void **state)
{
    struct bench *b = *state;

    bench_apply(b, "[50]", "ADD acct:42 50", NULL);
    bench_reject(b, 1, "BELOW_MIN", "acct:42 is at 50 and would come to -50, below its minimum 0",
                 "ADD acct:42 -100 MIN 0", NULL);
    bench_reject(b, 1, "ABOVE_MAX", "acct:42 is at 50 and would come to 60, above its maximum 55",
                 "ADD acct:42 10 MAX 55", NULL);
    bench_reject(b, 1, "OVERFLOW", "acct:42 is at 50, and adding 9223372036854775807",
                 "ADD acct:42 9223372036854775807", NULL);
}

static void add__several_on_one_counter__gives_one_edit(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bench_apply(b, "[5,12,10]", "ADD a 5", "ADD a 7", "ADD a -2 MIN 10", NULL), 1);
    assert_int_equal(once__object_counter(once__objects_at(b->objects, 0)), 10);
    assert_int_equal(bench_apply(b, "[11,10]", "ADD a 1", "ADD a -1", NULL), 0);
    bench_reject(b, 3, "BELOW_MIN", "a is at 1 and would come to -1", "ADD a -5", "ADD a -4",
                 "ADD a -2 MIN 0", NULL);
    assert_int_equal(once__object_counter(once__objects_at(b->objects, 0)), 10);
}

static void extremes_and_flag__keep_the_largest_the_smallest_and_true(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bench_apply(b, "[5,5,9,3,3,1]", "MAX high 5", "MAX high -5", "MAX high 9",
                                 "MIN low 3", "MIN low 7", "FLAG up", NULL),
                     3);
    assert_int_equal(bench_apply(b, "[9,3,1]", "MAX high 8", "MIN low 4", "FLAG up", NULL), 0);
    assert_int_equal(bench_apply(b, "[-9]", "MAX other -9", NULL), 1);
}

static void union__counts_what_is_new(void **state)
{
    struct bench *b = *state;
    bool contains;

    assert_int_equal(bench_apply(b, "[2]", "UNION tags red blue red", NULL), 1);
    assert_int_equal(bench_apply(b, "[1,1,0]", "UNION tags blue green", "UNION tags amber",
                                 "UNION tags red amber", NULL),
                     1);
    assert_int_equal(bench_apply(b, "[0]", "UNION tags red amber", NULL), 0);
    assert_int_equal(once_gset_contains(once__object_state(once__objects_at(b->objects, 0)),
                                        once_bytes_of("amber"), &contains),
                     ONCE_OK);
    assert_true(contains);
    assert_int_equal(once__object_version(once__objects_at(b->objects, 0)), 1);
}

static void clock_and_lww__take_the_newer(void **state)
{
    struct bench *b = *state;

    assert_int_equal(
        bench_apply(b, "[5,7,5]", "CLOCK vv a 5", "CLOCK vv b 7", "CLOCK vv a 3", NULL), 1);
    assert_int_equal(bench_apply(b, "[0]", "CLOCK none a 0", NULL), 0);
    assert_int_equal(bench_apply(b, "[1,0,1]", "LWW r 10 a x", "LWW r 9 b y", "LWW r 10 b z", NULL),
                     1);
    assert_int_equal(bench_apply(b, "[1,0]", "LWW r 10 b z", "LWW r 10 a x", NULL), 0);
}

static void mergeable_counters__give_the_sum(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bench_apply(b, "[5,8,9]", "GADD g a 5", "GADD g b 3", "GADD g a 1", NULL), 1);
    assert_int_equal(bench_apply(b, "[9]", "GADD g a 0", NULL), 0);
    assert_int_equal(
        bench_apply(b, "[-5,-2,-2]", "PNADD p a -5", "PNADD p b 3", "PNADD p b 0", NULL), 1);
    bench_reject(b, 1, "OVERFLOW", "the number of g would pass 9223372036854775807",
                 "GADD g c 9223372036854775807", NULL);
    bench_reject(b, 2, "OVERFLOW", "p would leave", "PNADD p a 9223372036854775807",
                 "PNADD p b 9223372036854775807", NULL);
}

static void clock__past_what_a_result_can_say__is_rejected(void **state)
{
    struct bench *b = *state;
    struct once_buf vv;

    once_buf_init(&vv, 1 << 10);
    assert_int_equal(once_vv_set(once_bytes_of("a"), UINT64_MAX, &vv), ONCE_OK);
    bench_start(b);
    b->deeds[0] = (struct once__deed){
        .kind = ONCE__DEED_MERGE, .name = once_bytes_of("vv"), .value = once_buf_bytes(&vv)};
    b->deed_count = 1;
    assert_int_equal(bench_stage(b), ONCE_OK);
    assert_string_equal(b->result, "[1]");
    assert_int_equal(bench_put(b), 1);
    bench_reject(b, 1, "OVERFLOW", "the number of vv would pass", "CLOCK vv a 1", NULL);
    once_buf_release(&vv);
}

static void awset__inserts_and_removes__counts_members(void **state)
{
    struct bench *b = *state;
    size_t count;

    assert_int_equal(bench_apply(b, "[3]", "INSERT cart n apple pear apple fig", NULL), 1);
    assert_int_equal(bench_apply(b, "[2,1,0]", "REMOVE cart fig apple fig kiwi",
                                 "INSERT cart m fig", "INSERT cart n fig pear", NULL),
                     1);
    assert_int_equal(bench_apply(b, "[0]", "REMOVE cart apple", NULL), 0);
    assert_int_equal(bench_apply(b, "[0]", "REMOVE never apple", NULL), 0);
    bench_apply(b, "[2,0,2]", "INSERT cart k '' zebra", "INSERT cart n zebra ''",
                "REMOVE cart zebra ''", NULL);
    assert_int_equal(
        once_lattice_count(once__object_state(once__objects_at(b->objects, 0)), &count), ONCE_OK);
    assert_int_equal(count, 2);
}

/* A member that is inserted again gets a new dot for its old one, also as one of many. */
static void awset__inserted_again_and_again__does_not_grow(void **state)
{
    struct bench *b = *state;
    size_t size = 0;

    for (int i = 0; i < 100; i++) {
        bench_apply(b, i == 0 ? "[4]" : "[0]", "INSERT cart n apple pear fig kiwi", NULL);
        if (i == 0)
            size = once__object_state(once__objects_at(b->objects, 0)).size;
    }
    assert_int_equal(once__object_state(once__objects_at(b->objects, 0)).size, size);
    bench_apply(b, "[4]", "REMOVE cart fig kiwi apple pear", NULL);
    bench_apply(b, "[1]", "INSERT cart m pear", NULL);
    bench_apply(b, "[0,1]", "REMOVE cart apple", "REMOVE cart pear", NULL);
}

/* One dot for each member, whether they come one by one or all at once, once or twice. */
static void awset__many_at_once__is_as_small_as_one_by_one(void **state)
{
    struct bench *b = *state;
    char many[8192] = "INSERT cart n", one[64];
    size_t size = strlen(many);

    for (int i = 0; i < 500; i++) {
        size += (size_t)snprintf(many + size, sizeof many - size, " m%d", (i * 7) % 250);
        (void)snprintf(one, sizeof one, "INSERT carts n m%d", (i * 7) % 250);
        bench_apply(b, i < 250 ? "[1]" : "[0]", one, NULL);
    }
    bench_apply(b, "[250]", many, NULL);
    assert_int_equal(once__object_state(once__objects_at(b->objects, 0)).size,
                     once__object_state(once__objects_at(b->objects, 1)).size);
    bench_apply(b, "[0]", many, NULL);
    assert_int_equal(once__object_state(once__objects_at(b->objects, 0)).size,
                     once__object_state(once__objects_at(b->objects, 1)).size);
}

static void register__is_versioned(void **state)
{
    struct bench *b = *state;
    struct once__register reg;

    assert_int_equal(bench_apply(b, "[1,2]", "SET r one", "SET r two IF 1", NULL), 1);
    reg = once__object_register(once__objects_at(b->objects, 0));
    assert_true(reg.present);
    assert_int_equal(reg.version, 2);
    assert_memory_equal(reg.value.data, "two", 3);
    bench_reject(b, 1, "VERSION", "r is at version 2, and the effect is for version 1",
                 "SET r secret IF 1", NULL);
    assert_null(strstr(b->result, "secret"));
    assert_null(strstr(b->result, "two"));
    bench_reject(b, 1, "VERSION", "r is at version 2, and the effect is for version 5",
                 "DELETE r IF 5", NULL);
    assert_int_equal(bench_apply(b, "[3,3]", "DELETE r IF 2", "DELETE r", NULL), 1);
    assert_int_equal(bench_apply(b, "[3]", "DELETE r IF 3", NULL), 0);
    assert_int_equal(bench_apply(b, "[0]", "DELETE never", NULL), 0);
    assert_int_equal(bench_apply(b, "[4]", "SET r '' IF 3", NULL), 1);
    assert_true(once__object_register(once__objects_at(b->objects, 0)).present);
}

static void machine__is_declared_once_and_moves(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bench_apply(b, "[1,\"paid\"]", "MACHINE o new>paid paid>sent new>lost",
                                 "MOVE o new paid", NULL),
                     1);
    assert_int_equal(once__object_declared(once__objects_at(b->objects, 0)).size,
                     strlen("new>paid paid>sent new>lost"));
    assert_int_equal(once__object_machine_at(once__objects_at(b->objects, 0)), 1);
    assert_int_equal(bench_apply(b, "[0,\"paid\",\"sent\"]",
                                 "MACHINE o new>paid paid>sent new>lost paid>sent",
                                 "MOVE o new paid", "MOVE o paid sent", NULL),
                     1);
    bench_reject(b, 1, "REDECLARED",
                 "o is declared already, with other moves, and is in state sent",
                 "MACHINE o new>paid paid>sent", NULL);
    bench_reject(b, 1, "REDECLARED", "o is declared already", "MACHINE o n>paid paid>sent n>lost",
                 NULL);
    bench_reject(b, 2, "REDECLARED",
                 "fresh is declared already, with other moves, and is in state a",
                 "MACHINE fresh a>b", "MACHINE fresh a>b b>a", NULL);
}

static void move__illegal__names_the_legal_ones(void **state)
{
    struct bench *b = *state;

    bench_apply(b, "[1]", "MACHINE o new>paid paid>sent new>lost lost>lost", NULL);
    bench_reject(b, 1, "NO_MOVE",
                 "o has no move new>sent; it is in new, and from there it may move to paid, lost",
                 "MOVE o new sent", NULL);
    bench_reject(b, 1, "ELSEWHERE",
                 "o is in new, not in paid; from there it may move to paid, lost",
                 "MOVE o paid sent", NULL);
    bench_reject(b, 1, "NO_STATE", "o has no state gone; it is in new, and from there it may",
                 "MOVE o new gone", NULL);
    bench_reject(b, 1, "NO_STATE", "o has no state once;", "MOVE o once gone", NULL);
    bench_apply(b, "[\"lost\"]", "MOVE o new lost", NULL);
    bench_reject(b, 1, "ELSEWHERE", "o is in lost, not in paid; from there no move leads on",
                 "MOVE o paid sent", NULL);
    bench_reject(b, 2, "NO_STATE", "x is no machine yet: declare it first with MACHINE", "ADD a 1",
                 "MOVE x a b", NULL);
    assert_null(once__objects_find(b->objects, once_bytes_of("x")));
    assert_null(once__objects_find(b->objects, once_bytes_of("a")));
}

static void machine__that_went_round__gives_no_edit(void **state)
{
    struct bench *b = *state;

    bench_apply(b, "[1]", "MACHINE door shut>open open>shut", NULL);
    assert_int_equal(
        bench_apply(b, "[\"open\",\"shut\"]", "MOVE door shut open", "MOVE door open shut", NULL),
        0);
}

static void append__stands_where_it_was_asked_to(void **state)
{
    struct bench *b = *state;
    struct once_object_item item;

    assert_int_equal(bench_apply(b, "[1,2,2]", "APPEND log e1 one", "APPEND log e2 two AT 1",
                                 "APPEND log e2 two AT 1", NULL),
                     2);
    assert_int_equal(
        bench_apply(b, "[1,2]", "APPEND log e1 one AT 0", "APPEND log e2 two AT 1", NULL), 0);
    assert_int_equal(bench_apply(b, "[3]", "APPEND log e1 again", NULL), 1);
    item = once__object_event(once__objects_at(b->objects, 0), 3);
    assert_memory_equal(item.id.data, "e1", 2);
    assert_memory_equal(item.payload.data, "again", 5);
    bench_reject(b, 1, "VERSION",
                 "log is at version 3, and the event is for version 1, where another event",
                 "APPEND log e9 x AT 1", NULL);
    bench_reject(b, 1, "VERSION", "where another event", "APPEND log e2 other AT 1", NULL);
    bench_reject(b, 2, "VERSION", "where another event", "APPEND log e4 x AT 3",
                 "APPEND log e4 y AT 3", NULL);
    bench_reject(b, 1, "VERSION", "log is at version 3, and the event is for version 4",
                 "APPEND log e9 x AT 4", NULL);
    bench_reject(b, 2, "VERSION", "log is at version 4, and the event is for version 3",
                 "APPEND log e4 x AT 3", "APPEND log e5 x AT 3", NULL);
}

static void fence__grants_larger_tokens_and_guards(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bench_apply(b, "[1,2,2]", "GRANT f", "GRANT f", "GUARD f 2", NULL), 1);
    bench_reject(b, 1, "STALE", "f has seen token 2, and 2 is not above it", "GUARD f 2", NULL);
    bench_apply(b, "[3]", "GRANT f", NULL);
    bench_apply(b, "[4]", "GRANT f", NULL);
    bench_reject(b, 1, "STALE", "f has granted token 4, and 3 is older than that", "GUARD f 3",
                 NULL);
    bench_apply(b, "[4]", "GUARD f 4", NULL);
    bench_apply(b, "[41,42]", "GUARD f 41", "GRANT f", NULL);
    bench_reject(b, 1, "STALE", "f has seen token 41", "GUARD f 41", NULL);
    bench_apply(b, "[9007199254740991]", "GUARD f 9007199254740991", NULL);
    bench_reject(b, 1, "OVERFLOW", "f would need a number above 9007199254740991", "GRANT f", NULL);
}

static void lease__has_one_owner_at_a_time(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bench_apply(b, "[1,1]", "LEASE l ann 1000", "LEASE l ann 5000", NULL), 1);
    assert_int_equal(once__object_lease(once__objects_at(b->objects, 0)).until_ms, 1001000);
    assert_int_equal(bench_apply(b, "[1]", "HOLD l 1", NULL), 0);
    bench_reject(b, 1, "HELD",
                 "l is held by another owner until 1001000 ms since 1970, under token 1",
                 "LEASE l bob 1000", NULL);
    assert_null(strstr(b->result, "ann"));
    bench_apply(b, "[1]", "RENEW l 1 3000", NULL);
    assert_int_equal(once__object_lease(once__objects_at(b->objects, 0)).until_ms, 1003000);
    assert_int_equal(bench_apply(b, "[1]", "RENEW l 1 1", NULL), 0);
    b->input.now_ms = 1003000;
    bench_apply(b, "[2]", "LEASE l bob 1000", NULL);
    bench_reject(b, 1, "STALE", "the newest token of l is 2, not 1", "HOLD l 1", NULL);
    bench_reject(b, 1, "STALE", "the newest token of l is 2, not 1", "RENEW l 1 5", NULL);
    bench_reject(b, 1, "STALE", "the newest token of l is 2, not 1", "RELEASE l 1", NULL);
    assert_int_equal(bench_apply(b, "[1,0]", "RELEASE l 2", "RELEASE l 2", NULL), 1);
    bench_reject(b, 1, "STALE", "l was given back under token 2", "HOLD l 2", NULL);
    bench_reject(b, 1, "STALE", "l was given back under token 2", "RENEW l 2 5", NULL);
    bench_apply(b, "[3]", "LEASE l ann 1000", NULL);
}

static void lease__that_nobody_asked_for__has_no_tokens(void **state)
{
    struct bench *b = *state;

    bench_reject(b, 1, "STALE", "l was never leased", "HOLD l 1", NULL);
    bench_reject(b, 1, "STALE", "l was never leased", "RENEW l 1 5", NULL);
    bench_reject(b, 1, "STALE", "l was never leased", "RELEASE l 1", NULL);
    assert_int_equal(once__objects_count(b->objects), 0);
    bench_apply(b, "[1,1]", "LEASE l a 5", "HOLD l 1", NULL);
}

static void seq__tells_new_from_duplicate(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bench_apply(b, "[\"new\",\"duplicate\",\"new\"]", "SEQ p 2 0", "SEQ p 2 0",
                                 "SEQ p 2 1", NULL),
                     1);
    assert_int_equal(bench_apply(b, "[\"duplicate\"]", "SEQ p 2 1", NULL), 0);
    bench_reject(b, 1, "GAP", "p has 2 next in epoch 2, and 5 of epoch 2 came too early",
                 "SEQ p 2 5", NULL);
    bench_reject(b, 1, "GAP", "a new epoch begins with 0", "SEQ p 3 2", NULL);
    bench_reject(b, 1, "FENCED", "p is in epoch 2, and 1 is older", "SEQ p 1 2", NULL);
    bench_apply(b, "[\"new\"]", "SEQ p 3 0", NULL);
}

static void bucket__counts_by_bucket(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bench_apply(b, "[2,5,3]", "BUCKET hits 12:00 2", "BUCKET hits 12:01 5",
                                 "BUCKET hits 12:00 1", NULL),
                     2);
    assert_int_equal(bench_apply(b, "[3]", "BUCKET hits 12:00 0", NULL), 0);
    assert_int_equal(bench_apply(b, "[4]", "BUCKET hits 12:00 1", NULL), 1);
    assert_int_equal(once__object_bucket_count(once__objects_at(b->objects, 0)), 2);
    bench_reject(b, 1, "OVERFLOW",
                 "a bucket of hits is at 4, and counting 9223372036854775807 more",
                 "BUCKET hits 12:00 9223372036854775807", NULL);
}

static void outbox__numbers_messages_and_lets_them_go(void **state)
{
    struct bench *b = *state;
    struct once_object_item item;

    assert_int_equal(
        bench_apply(b, "[1,2,3]", "EMIT t {\"a\":1}", "EMIT t two GROUP g", "EMIT t 3", NULL), 3);
    assert_true(once__object_message_after(once__objects_at(b->objects, 0), 1, &item));
    assert_int_equal(item.number, 2);
    assert_memory_equal(item.group.data, "g", 1);
    assert_int_equal(bench_apply(b, "[2]", "SENT t 3 1 1 003", NULL), 2);
    assert_int_equal(once__object_message_count(once__objects_at(b->objects, 0)), 1);
    assert_int_equal(bench_apply(b, "[0]", "SENT t 1 3", NULL), 0);
    bench_reject(b, 1, "NO_MESSAGE", "t gave numbers up to 3 so far, and 4 is none of them",
                 "SENT t 2 4", NULL);
    /* Emitted and taken out again at once, and a second time by another SENT. */
    assert_int_equal(bench_apply(b, "[4,2,0]", "EMIT t four", "SENT t 2 4", "SENT t 4 2", NULL), 3);
    assert_int_equal(once__object_message_count(once__objects_at(b->objects, 0)), 0);
    assert_int_equal(once__object_message_total(once__objects_at(b->objects, 0)), 4);
}

static void merge__of_a_state__needs_no_key_and_tells_news(void **state)
{
    struct bench *b = *state;
    struct once_buf max;

    b->input.has_key = false;
    once_buf_init(&max, 1 << 10);
    assert_int_equal(once_max_set(7, &max), ONCE_OK);
    for (int i = 0; i < 2; i++) {
        bench_start(b);
        b->deeds[0] = (struct once__deed){
            .kind = ONCE__DEED_MERGE, .name = once_bytes_of("m"), .value = once_buf_bytes(&max)};
        b->deed_count = 1;
        assert_int_equal(bench_stage(b), ONCE_OK);
        assert_string_equal(b->result, i == 0 ? "[1]" : "[0]");
        assert_int_equal(bench_put(b), i == 0);
    }
    bench_apply(b, "[7]", "MAX m 3", NULL);
    once_buf_release(&max);
}

static void effects__of_many_objects__all_or_none(void **state)
{
    struct bench *b = *state;

    bench_apply(b, "[100,42,1,7]", "ADD acct 100", "GUARD acct:fence 42", "EMIT out x", "MAX m 7",
                NULL);
    assert_int_equal(bench_apply(b, "[0,2]", "ADD acct -100 MIN 0", "EMIT out y", NULL), 2);
    bench_reject(b, 5, "STALE", "acct:fence has seen token 42, and 41", "ADD acct 5", "EMIT out y",
                 "UNION new a", "SET reg v", "GUARD acct:fence 41", NULL);
    assert_null(once__objects_find(b->objects, once_bytes_of("new")));
    bench_apply(b, "[5]", "ADD acct 5", NULL); /* nothing was left in the stage */
}

static void stage__of_nothing_new__says_unchanged(void **state)
{
    struct bench *b = *state;

    bench_apply(b, "[1]", "FLAG up", NULL);
    assert_int_equal(bench_apply(b, "[1,0]", "FLAG up", "ADD none 0", NULL), 0);
    assert_false(b->staged.changed);
}

static void edits__of_mergeables__carry_the_version(void **state)
{
    struct bench *b = *state;

    b->input.version = 77;
    bench_apply(b, "[1,5]", "FLAG up", "GADD g n 5", NULL);
    assert_int_equal(once__object_version(once__objects_at(b->objects, 0)), 77);
    assert_int_equal(once__object_version(once__objects_at(b->objects, 1)), 77);
}

int main(void)
{
#define BENCH_TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)
    const struct CMUnitTest tests[] = {
        BENCH_TEST(add__within_its_range__gives_the_new_value),
        BENCH_TEST(add__outside_its_range__is_rejected_with_numbers),
        BENCH_TEST(add__several_on_one_counter__gives_one_edit),
        BENCH_TEST(extremes_and_flag__keep_the_largest_the_smallest_and_true),
        BENCH_TEST(union__counts_what_is_new),
        BENCH_TEST(clock_and_lww__take_the_newer),
        BENCH_TEST(mergeable_counters__give_the_sum),
        BENCH_TEST(clock__past_what_a_result_can_say__is_rejected),
        BENCH_TEST(awset__inserts_and_removes__counts_members),
        BENCH_TEST(awset__inserted_again_and_again__does_not_grow),
        BENCH_TEST(awset__many_at_once__is_as_small_as_one_by_one),
        BENCH_TEST(register__is_versioned),
        BENCH_TEST(machine__is_declared_once_and_moves),
        BENCH_TEST(move__illegal__names_the_legal_ones),
        BENCH_TEST(machine__that_went_round__gives_no_edit),
        BENCH_TEST(append__stands_where_it_was_asked_to),
        BENCH_TEST(fence__grants_larger_tokens_and_guards),
        BENCH_TEST(lease__has_one_owner_at_a_time),
        BENCH_TEST(lease__that_nobody_asked_for__has_no_tokens),
        BENCH_TEST(seq__tells_new_from_duplicate),
        BENCH_TEST(bucket__counts_by_bucket),
        BENCH_TEST(outbox__numbers_messages_and_lets_them_go),
        BENCH_TEST(merge__of_a_state__needs_no_key_and_tells_news),
        BENCH_TEST(effects__of_many_objects__all_or_none),
        BENCH_TEST(stage__of_nothing_new__says_unchanged),
        BENCH_TEST(edits__of_mergeables__carry_the_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
