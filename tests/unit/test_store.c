/* SPDX-License-Identifier: Apache-2.0
 *
 * The public calls on a store that only remembers what it was asked: every argument arrives, and
 * what no store could work with is refused before it gets there.
 */
#include "seeded.h"

#include "store/store.h"

struct spy {
    struct once_store store;
    unsigned calls;
    unsigned submits;
    unsigned lists;
    unsigned closes;
    struct once_op op; /* the last one */
    struct once_filter filter;
    uint64_t cursor;
    int errs[8]; /* given to the ops of a call, in order */
};

static void spy_call(struct once_store *store, struct once_op *ops, size_t count)
{
    struct spy *spy = (struct spy *)store;

    spy->calls++;
    spy->op = ops[count - 1];
    for (size_t i = 0; i < count; i++) {
        ops[i].reply = (struct once_reply){.err = spy->errs[i], .word = ONCE_DONE, .fence = 77};
        ops[i].reply.memory = malloc(1); /* released by whoever asked: the sanitizer counts */
    }
}

static int spy_submit(struct once_store *store, struct once_op *const *ops, size_t count, bool here,
                      size_t *ret_taken)
{
    struct spy *spy = (struct spy *)store;

    (void)here;

    spy->submits++;
    spy->op = *ops[0];
    *ret_taken = 0;
    return count > 0 ? ONCE_ERR_CLOSED : ONCE_OK;
}

static int spy_list(struct once_store *store, const struct once_filter *filter, uint64_t cursor,
                    size_t count, void (*each)(void *user, const struct once_item *item),
                    void *user, uint64_t *ret_cursor)
{
    struct spy *spy = (struct spy *)store;
    struct once_item item = {.fence = count};

    spy->lists++;
    spy->filter = *filter;
    spy->cursor = cursor;
    each(user, &item);
    *ret_cursor = cursor + 1;
    return ONCE_OK;
}

static void spy_stats(struct once_store *store, struct once_stats *ret_stats)
{
    (void)store;
    ret_stats->keys = 42;
}

static int spy_close(struct once_store *store)
{
    struct spy *spy = (struct spy *)store;

    spy->closes++;
    return ONCE_ERR_STOPPED;
}

static const struct once__store_ops SPY_OPS = {
    .call = spy_call,
    .submit = spy_submit,
    .list = spy_list,
    .stats = spy_stats,
    .close = spy_close,
};

static struct spy spy_new(void)
{
    return (struct spy){.store = {.ops = &SPY_OPS}};
}

static void assert_bytes(struct once_bytes bytes, const char *text)
{
    assert_int_equal(bytes.size, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.size);
}

static void begin__options__arrive(void **state)
{
    struct spy spy = spy_new();
    struct once_begin_options options = {
        .fingerprint = once_bytes_of("print"),
        .owner = once_bytes_of("me"),
        .ttl_ms = 3,
        .lease_ms = 4,
        .on_doubt = ONCE_ON_DOUBT_RETRY,
    };
    struct once_reply reply;

    (void)state;
    memset(&reply, 0xa5, sizeof(reply));
    assert_int_equal(once_begin(&spy.store, once_name_of("pay", "k"), &options, &reply), ONCE_OK);
    assert_int_equal(spy.op.call, ONCE_CALL_BEGIN);
    assert_bytes(spy.op.ns, "pay");
    assert_bytes(spy.op.key, "k");
    assert_bytes(spy.op.fingerprint, "print");
    assert_bytes(spy.op.owner, "me");
    assert_int_equal(spy.op.ttl_ms, 3);
    assert_int_equal(spy.op.lease_ms, 4);
    assert_int_equal(spy.op.on_doubt, ONCE_ON_DOUBT_RETRY);
    assert_int_equal(reply.fence, 77);
    once_reply_release(&reply);
    assert_int_equal(once_begin(&spy.store, once_name_of("pay", "k"), NULL, &reply), ONCE_OK);
    assert_int_equal(spy.op.owner.size + spy.op.fingerprint.size, 0);
    assert_int_equal(spy.op.lease_ms, 0);
    once_reply_release(&reply);
}

static void blocking_calls__arguments__arrive(void **state)
{
    struct spy spy = spy_new();
    struct once_name name = once_name_of("pay", "k");
    struct once_bytes one = once_bytes_of("one"), two = once_bytes_of("two"),
                      three = once_bytes_of("three");
    struct once_reply reply;

    (void)state;
    assert_int_equal(once_complete(&spy.store, name, 5, -6, one, &reply), ONCE_OK);
    assert_int_equal(spy.op.call, ONCE_CALL_COMPLETE);
    assert_int_equal(spy.op.fence, 5);
    assert_int_equal(spy.op.code, -6);
    assert_bytes(spy.op.result, "one");
    once_reply_release(&reply);

    assert_int_equal(once_fail(&spy.store, name, 7, two, &reply), ONCE_OK);
    assert_int_equal(spy.op.call, ONCE_CALL_FAIL);
    assert_int_equal(spy.op.fence, 7);
    assert_bytes(spy.op.result, "two");
    once_reply_release(&reply);

    assert_int_equal(once_checkpoint(&spy.store, name, 8, one, two, &three, &reply), ONCE_OK);
    assert_int_equal(spy.op.call, ONCE_CALL_CHECKPOINT);
    assert_int_equal(spy.op.fence, 8);
    assert_bytes(spy.op.point, "one");
    assert_bytes(spy.op.data, "two");
    assert_true(spy.op.follows);
    assert_bytes(spy.op.after, "three");
    once_reply_release(&reply);
    assert_int_equal(once_checkpoint(&spy.store, name, 8, one, two, NULL, &reply), ONCE_OK);
    assert_false(spy.op.follows);
    once_reply_release(&reply);

    assert_int_equal(once_renew(&spy.store, name, 9, 10, &reply), ONCE_OK);
    assert_int_equal(spy.op.call, ONCE_CALL_RENEW);
    assert_int_equal(spy.op.fence, 9);
    assert_int_equal(spy.op.lease_ms, 10);
    once_reply_release(&reply);
}

static void blocking_calls__that_end_or_look__arrive(void **state)
{
    struct spy spy = spy_new();
    struct once_name name = once_name_of("pay", "k");
    struct once_reply reply;

    (void)state;
    assert_int_equal(once_resolve_done(&spy.store, name, 1, 2, once_bytes_of("r"), &reply),
                     ONCE_OK);
    assert_int_equal(spy.op.call, ONCE_CALL_RESOLVE);
    assert_true(spy.op.done);
    assert_int_equal(spy.op.fence, 1);
    assert_int_equal(spy.op.code, 2);
    assert_bytes(spy.op.result, "r");
    once_reply_release(&reply);

    assert_int_equal(once_resolve_not_done(&spy.store, name, 3, &reply), ONCE_OK);
    assert_int_equal(spy.op.call, ONCE_CALL_RESOLVE);
    assert_false(spy.op.done);
    assert_int_equal(spy.op.fence, 3);
    once_reply_release(&reply);

    assert_int_equal(once_forget(&spy.store, name, 4, &reply), ONCE_OK);
    assert_int_equal(spy.op.call, ONCE_CALL_FORGET);
    assert_int_equal(spy.op.fence, 4);
    once_reply_release(&reply);

    assert_int_equal(once_get(&spy.store, name, &reply), ONCE_OK);
    assert_int_equal(spy.op.call, ONCE_CALL_GET);
    assert_bytes(spy.op.key, "k");
    once_reply_release(&reply);
    assert_int_equal(spy.calls, 4);
}

static void blocking_calls__refused_by_the_store__return_its_error(void **state)
{
    struct spy spy = spy_new();
    struct once_reply reply;

    (void)state;
    spy.errs[0] = ONCE_ERR_SPACE;
    assert_int_equal(once_begin(&spy.store, once_name_of("a", "b"), NULL, &reply), ONCE_ERR_SPACE);
    assert_int_equal(reply.err, ONCE_ERR_SPACE);
    once_reply_release(&reply);
    assert_int_equal(reply.err, ONCE_OK);
    assert_null(reply.memory);
}

static void blocking_calls__no_store__say_so_in_the_reply(void **state)
{
    struct once_name name = once_name_of("a", "b");
    struct once_bytes none = {NULL, 0};
    struct once_reply reply;

    (void)state;
#define REFUSED(call)                                                                              \
    memset(&reply, 0xa5, sizeof(reply));                                                           \
    assert_int_equal(call, ONCE_ERR_INVALID);                                                      \
    assert_int_equal(reply.err, ONCE_ERR_INVALID);                                                 \
    assert_null(reply.memory);                                                                     \
    assert_int_equal(reply.fence, 0);                                                              \
    once_reply_release(&reply)
    REFUSED(once_begin(NULL, name, NULL, &reply));
    REFUSED(once_complete(NULL, name, 1, 0, none, &reply));
    REFUSED(once_fail(NULL, name, 1, none, &reply));
    REFUSED(once_checkpoint(NULL, name, 1, none, none, NULL, &reply));
    REFUSED(once_renew(NULL, name, 1, 1, &reply));
    REFUSED(once_resolve_done(NULL, name, 1, 0, none, &reply));
    REFUSED(once_resolve_not_done(NULL, name, 1, &reply));
    REFUSED(once_forget(NULL, name, 1, &reply));
    REFUSED(once_get(NULL, name, &reply));
#undef REFUSED
}

static void blocking_calls__no_reply__do_nothing(void **state)
{
    struct spy spy = spy_new();

    (void)state;
    assert_int_equal(once_begin(&spy.store, once_name_of("a", "b"), NULL, NULL), ONCE_ERR_INVALID);
    assert_int_equal(once_get(&spy.store, once_name_of("a", "b"), NULL), ONCE_ERR_INVALID);
    assert_int_equal(spy.calls, 0);
}

static void call__many__gives_the_first_error(void **state)
{
    struct spy spy = spy_new();
    struct once_op ops[4] = {{.call = ONCE_CALL_GET}};

    (void)state;
    assert_int_equal(once_call(&spy.store, ops, 4), ONCE_OK);
    for (int i = 0; i < 4; i++)
        once_reply_release(&ops[i].reply);
    spy.errs[1] = ONCE_ERR_SPACE;
    spy.errs[2] = ONCE_ERR_KEYS;
    assert_int_equal(once_call(&spy.store, ops, 4), ONCE_ERR_SPACE);
    assert_int_equal(ops[0].reply.err, ONCE_OK);
    assert_int_equal(ops[2].reply.err, ONCE_ERR_KEYS);
    for (int i = 0; i < 4; i++)
        once_reply_release(&ops[i].reply);
    assert_int_equal(spy.calls, 2);
}

static void call__nothing_to_do__is_ok_and_missing_arguments_are_not(void **state)
{
    struct spy spy = spy_new();
    struct once_op ops[2] = {{.call = ONCE_CALL_GET}};

    (void)state;
    assert_int_equal(once_call(&spy.store, ops, 0), ONCE_OK);
    assert_int_equal(once_call(&spy.store, NULL, 0), ONCE_OK);
    assert_int_equal(once_call(&spy.store, NULL, 1), ONCE_ERR_INVALID);
    assert_int_equal(spy.calls, 0);
    memset(&ops[0].reply, 0xa5, sizeof(ops[0].reply));
    assert_int_equal(once_call(NULL, ops, 2), ONCE_ERR_INVALID);
    assert_int_equal(ops[0].reply.err, ONCE_ERR_INVALID);
    assert_null(ops[0].reply.memory);
    assert_int_equal(ops[1].reply.err, ONCE_ERR_INVALID);
}

static void ignore_told(struct once_op *op)
{
    (void)op;
}

static void submit__without_told_op_or_store__is_not_taken(void **state)
{
    struct spy spy = spy_new();
    struct once_op op = {.call = ONCE_CALL_GET};

    (void)state;
    assert_int_equal(once_submit(&spy.store, &op), ONCE_ERR_INVALID);
    assert_int_equal(once_submit(&spy.store, NULL), ONCE_ERR_INVALID);
    op.told = ignore_told;
    assert_int_equal(once_submit(NULL, &op), ONCE_ERR_INVALID);
    assert_int_equal(spy.submits, 0);
    assert_int_equal(once_submit(&spy.store, &op), ONCE_ERR_CLOSED);
    assert_int_equal(spy.submits, 1);
}

static void add_fence(void *user, const struct once_item *item)
{
    *(uint64_t *)user += item->fence;
}

static void list__arguments__arrive(void **state)
{
    struct spy spy = spy_new();
    struct once_filter filter = {.ns = once_bytes_of("pay"), .by_state = true};
    uint64_t sum = 0, cursor = 0;

    (void)state;
    filter.state = ONCE_STATE_DOUBT;
    assert_int_equal(once_list(&spy.store, &filter, 9, 10, add_fence, &sum, &cursor), ONCE_OK);
    assert_int_equal(sum, 10);
    assert_int_equal(spy.cursor, 9);
    assert_int_equal(cursor, 10);
    assert_bytes(spy.filter.ns, "pay");
    assert_int_equal(spy.filter.state, ONCE_STATE_DOUBT);
    assert_int_equal(once_list(&spy.store, NULL, 0, 1, add_fence, &sum, &cursor), ONCE_OK);
    assert_int_equal(spy.filter.ns.size, 0);
    assert_false(spy.filter.by_state);
}

static void list__arguments_that_mean_nothing__are_refused(void **state)
{
    struct spy spy = spy_new();
    struct once_filter all = {.by_state = false};
    struct once_filter absent = {.by_state = true, .state = ONCE_STATE_ABSENT};
    struct once_filter unknown = {.by_state = true, .state = (enum once_state)5};
    struct once_filter spaced = {.ns = once_bytes_of("two words")};
    struct once_filter dangling = {.ns = {NULL, 3}};
    const struct once_filter *bad[] = {&absent, &unknown, &spaced, &dangling};
    uint64_t sum = 0, cursor = 5;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(once_list(&spy.store, bad[i], 0, 1, add_fence, &sum, &cursor),
                         ONCE_ERR_INVALID);
    assert_int_equal(once_list(NULL, &all, 0, 1, add_fence, &sum, &cursor), ONCE_ERR_INVALID);
    assert_int_equal(once_list(&spy.store, &all, 0, 1, NULL, &sum, &cursor), ONCE_ERR_INVALID);
    assert_int_equal(once_list(&spy.store, &all, 0, 1, add_fence, &sum, NULL), ONCE_ERR_INVALID);
    assert_int_equal(once_list(&spy.store, &all, 0, 0, add_fence, &sum, &cursor), ONCE_ERR_INVALID);
    assert_int_equal(
        once_list(&spy.store, &all, 0, ONCE_LIST_COUNT_MAX + 1, add_fence, &sum, &cursor),
        ONCE_ERR_INVALID);
    assert_int_equal(spy.lists, 0);
    assert_int_equal(cursor, 5);
    assert_int_equal(once_list(&spy.store, &all, 0, ONCE_LIST_COUNT_MAX, add_fence, &sum, &cursor),
                     ONCE_OK);
}

static void stats_and_close__with_and_without_a_store__answer(void **state)
{
    struct spy spy = spy_new();
    struct once_stats stats;

    (void)state;
    memset(&stats, 0xa5, sizeof(stats));
    once_stats_get(&spy.store, &stats);
    assert_int_equal(stats.keys, 42);
    assert_int_equal(stats.calls, 0);
    once_stats_get(NULL, &stats);
    assert_int_equal(stats.keys, 0);
    once_stats_get(&spy.store, NULL);
    assert_int_equal(once_close(NULL), ONCE_OK);
    assert_int_equal(once_close(&spy.store), ONCE_ERR_STOPPED);
    assert_int_equal(spy.closes, 1);
}

static void reply_release__twice_or_null__is_fine(void **state)
{
    struct once_reply reply = {.err = ONCE_ERR_IO, .fence = 3, .memory = malloc(8)};
    static const struct once_reply zero;

    (void)state;
    once_reply_release(NULL);
    once_reply_release(&reply);
    assert_memory_equal(&reply, &zero, sizeof(reply));
    once_reply_release(&reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begin__options__arrive),
        cmocka_unit_test(blocking_calls__arguments__arrive),
        cmocka_unit_test(blocking_calls__that_end_or_look__arrive),
        cmocka_unit_test(blocking_calls__refused_by_the_store__return_its_error),
        cmocka_unit_test(blocking_calls__no_store__say_so_in_the_reply),
        cmocka_unit_test(blocking_calls__no_reply__do_nothing),
        cmocka_unit_test(call__many__gives_the_first_error),
        cmocka_unit_test(call__nothing_to_do__is_ok_and_missing_arguments_are_not),
        cmocka_unit_test(submit__without_told_op_or_store__is_not_taken),
        cmocka_unit_test(list__arguments__arrive),
        cmocka_unit_test(list__arguments_that_mean_nothing__are_refused),
        cmocka_unit_test(stats_and_close__with_and_without_a_store__answer),
        cmocka_unit_test(reply_release__twice_or_null__is_fine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
