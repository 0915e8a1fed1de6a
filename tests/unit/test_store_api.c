/* SPDX-License-Identifier: Apache-2.0
 *
 * libonce as a program uses it: once_open on a real folder, threads, batches, callbacks, lists and
 * bounds. What the words mean is the conformance suite's; what survives is the power test's.
 */
#include "seeded.h"

#include <once/once.h>

#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { FOLDER_SIZE = 256, THREADS = 16, MANY = 1000 };

static char folder[FOLDER_SIZE];

static const struct once_options SMALL = {.segment_size = 1 << 18};

static int make_folder(void **state)
{
    const char *temporary = getenv("TMPDIR");

    (void)state;
    snprintf(folder, sizeof(folder), "%s/once-api-XXXXXX", temporary ? temporary : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about;
    (void)type;
    (void)where;
    return remove(path);
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static struct once_store *open_with(const struct once_options *options)
{
    struct once_message message = {""};
    struct once_store *store = NULL;
    int err = once_open(folder, options, &store, &message);

    if (err != ONCE_OK)
        fail_msg("%s: %s", once_err_name(err), message.text);
    return store;
}

static struct once_name key_of(char *text, size_t size, int number)
{
    snprintf(text, size, "key-%d", number);
    return once_name_of("api", text);
}

static uint64_t begin(struct once_store *store, int number, once_ms lease_ms)
{
    struct once_begin_options options = {.lease_ms = lease_ms};
    struct once_reply reply;
    char text[32];
    uint64_t fence;

    assert_int_equal(once_begin(store, key_of(text, sizeof(text), number), &options, &reply),
                     ONCE_OK);
    assert_int_equal(reply.word, ONCE_EXECUTE);
    fence = reply.fence;
    once_reply_release(&reply);
    return fence;
}

static void complete(struct once_store *store, int number, uint64_t fence, const char *result)
{
    struct once_reply reply;
    char text[32];

    assert_int_equal(once_complete(store, key_of(text, sizeof(text), number), fence, number,
                                   once_bytes_of(result), &reply),
                     ONCE_OK);
    assert_int_equal(reply.word, ONCE_DONE);
    once_reply_release(&reply);
}

static void assert_replays(struct once_store *store, int number, const char *result)
{
    struct once_reply reply;
    char text[32];

    assert_int_equal(once_begin(store, key_of(text, sizeof(text), number), NULL, &reply), ONCE_OK);
    assert_int_equal(reply.word, ONCE_REPLAY);
    assert_int_equal(reply.code, number);
    assert_int_equal(reply.result.size, strlen(result));
    assert_memory_equal(reply.result.data, result, reply.result.size);
    once_reply_release(&reply);
}

/* ---- Opening -------------------------------------------------------------------------------- */

static void open__arguments_that_mean_nothing__are_refused(void **state)
{
    struct once_options bad[] = {
        {.durability = (enum once_durability)3},
        {.durability = ONCE_LOSES_INTERVAL, .interval_ms = -1},
        {.durability = ONCE_LOSES_INTERVAL, .interval_ms = ONCE_INTERVAL_MS_MAX + 1},
        {.keys_max = ONCE_KEYS_MAX + 1},
        {.segment_size = ONCE_SEGMENT_SIZE_MIN - 1},
        {.segment_size = ONCE_SEGMENT_SIZE_MAX + ONCE_BLOCK_SIZE},
    };
    struct once_store *store = NULL;
    struct once_message message;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        message.text[0] = '\0';
        assert_int_equal(once_open(folder, &bad[i], &store, &message), ONCE_ERR_INVALID);
        assert_true(strlen(message.text) > 0);
        assert_null(store);
    }
    assert_int_equal(once_open(NULL, NULL, &store, NULL), ONCE_ERR_INVALID);
    assert_int_equal(once_open("", NULL, &store, NULL), ONCE_ERR_INVALID);
    assert_int_equal(once_open(folder, NULL, NULL, NULL), ONCE_ERR_INVALID);
}

static void open__folder_is_not_there__is_made_or_refused(void **state)
{
    struct once_options existing = {.must_exist = true};
    struct once_store *store = NULL;
    struct once_message message = {""};
    char path[FOLDER_SIZE + 16];

    (void)state;
    snprintf(path, sizeof(path), "%s/new/store", folder);
    assert_int_equal(once_open(path, &existing, &store, &message), ONCE_ERR_NO_STORE);
    assert_non_null(strstr(message.text, path));
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(once_open(path, &SMALL, &store, &message), ONCE_OK);
    assert_int_equal(once_close(store), ONCE_OK);
    assert_int_equal(once_open(path, &existing, &store, &message), ONCE_OK);
    assert_int_equal(once_close(store), ONCE_OK);
}

static void open__second_owner__is_told_who_has_it(void **state)
{
    struct once_store *store = open_with(&SMALL), *second = NULL;
    struct once_message message = {""};
    char pid[16];

    (void)state;
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    assert_int_equal(once_open(folder, &SMALL, &second, &message), ONCE_ERR_LOCKED);
    assert_null(second);
    assert_non_null(strstr(message.text, pid));
    assert_int_equal(once_close(store), ONCE_OK);
    store = open_with(&SMALL);
    assert_int_equal(once_close(store), ONCE_OK);
}

static void open__again__remembers_every_durability(void **state)
{
    struct once_options options = SMALL;
    struct once_store *store;

    (void)state;
    for (int durability = 0; durability < 3; durability++) {
        options.durability = (enum once_durability)durability;
        store = open_with(&options);
        complete(store, durability, begin(store, durability, 0), "kept");
        assert_int_equal(once_close(store), ONCE_OK);
        store = open_with(&options);
        for (int number = 0; number <= durability; number++)
            assert_replays(store, number, "kept");
        assert_int_equal(once_close(store), ONCE_OK);
    }
}

/* ---- Many at a time ------------------------------------------------------------------------- */

static void call__many__are_decided_in_order(void **state)
{
    struct once_store *store = open_with(&SMALL);
    struct once_bytes ns = once_bytes_of("api"), key = once_bytes_of("k"), me = once_bytes_of("me");
    struct once_op ops[] = {
        {.call = ONCE_CALL_GET, .ns = ns, .key = key},
        {.call = ONCE_CALL_BEGIN, .ns = ns, .key = key, .owner = me},
        {.call = ONCE_CALL_BEGIN, .ns = ns, .key = key, .owner = me},
        {.call = ONCE_CALL_BEGIN, .ns = ns},
        {.call = ONCE_CALL_BEGIN, .ns = ns, .key = key, .owner = once_bytes_of("you")},
        {.call = ONCE_CALL_GET, .ns = ns, .key = key},
    };
    enum { COUNT = sizeof(ops) / sizeof(ops[0]) };

    (void)state;
    assert_int_equal(once_call(store, ops, COUNT), ONCE_ERR_KEY_EMPTY);
    assert_int_equal(ops[0].reply.word, ONCE_NOTFOUND);
    assert_int_equal(ops[1].reply.word, ONCE_EXECUTE);
    assert_int_equal(ops[2].reply.word, ONCE_EXECUTE);
    assert_int_equal(ops[2].reply.fence, ops[1].reply.fence);
    assert_int_equal(ops[3].reply.err, ONCE_ERR_KEY_EMPTY);
    assert_int_equal(ops[4].reply.err, ONCE_OK);
    assert_int_equal(ops[4].reply.word, ONCE_BUSY);
    assert_int_equal(ops[5].reply.state, ONCE_STATE_STARTED);
    assert_int_equal(ops[5].reply.owner.size, 2);
    assert_memory_equal(ops[5].reply.owner.data, "me", 2);
    for (size_t i = 0; i < COUNT; i++)
        once_reply_release(&ops[i].reply);
    assert_int_equal(once_close(store), ONCE_OK);
}

struct racer {
    struct once_store *store;
    uint64_t fences[MANY]; /* 0: another one got it */
};

static void *race(void *self)
{
    struct racer *racer = self;

    for (int i = 0; i < MANY; i++) {
        struct once_reply reply;
        char text[32];

        if (once_begin(racer->store, key_of(text, sizeof(text), i), NULL, &reply) != ONCE_OK)
            continue; /* then nobody may have it, which is seen below */
        if (reply.word == ONCE_EXECUTE)
            racer->fences[i] = reply.fence;
        once_reply_release(&reply);
    }
    return NULL;
}

static void begin__same_keys_from_16_threads__one_executes_each(void **state)
{
    struct once_store *store = open_with(&SMALL);
    static struct racer racers[THREADS];
    pthread_t threads[THREADS];
    struct once_stats stats;

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        racers[i].store = store;
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int key = 0; key < MANY; key++) {
        int executed = 0;

        for (int i = 0; i < THREADS; i++)
            executed += racers[i].fences[key] != 0;
        assert_int_equal(executed, 1);
    }
    once_stats_get(store, &stats);
    assert_int_equal(stats.calls, THREADS * MANY);
    assert_int_equal(stats.keys, MANY);
    assert_int_equal(stats.keys_open, MANY);
    assert_int_equal(stats.last_fence, MANY);
    assert_false(stats.stopped);
    assert_int_equal(once_close(store), ONCE_OK);
}

/* ---- Callbacks ------------------------------------------------------------------------------ */

static struct {
    pthread_t submitter;
    atomic_int inside; /* callbacks running now */
    atomic_int told;
    atomic_int wrong;
    uint64_t last_fence;
} seen;

static void on_begun(struct once_op *op)
{
    if (atomic_fetch_add(&seen.inside, 1) != 0 || pthread_equal(pthread_self(), seen.submitter))
        seen.wrong++;
    if (op->reply.err != ONCE_OK || op->reply.word != ONCE_EXECUTE ||
        op->reply.fence <= seen.last_fence)
        seen.wrong++;
    seen.last_fence = op->reply.fence;
    once_reply_release(&op->reply);
    seen.told++;
    atomic_fetch_sub(&seen.inside, 1);
}

static void submit__many_and_close__all_are_told_in_order(void **state)
{
    struct once_store *store = open_with(&SMALL);
    static struct once_op ops[MANY];
    static char keys[MANY][16];

    (void)state;
    memset(&seen, 0, sizeof(seen));
    seen.submitter = pthread_self();
    for (int i = 0; i < MANY; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%d", i);
        ops[i] = (struct once_op){.call = ONCE_CALL_BEGIN,
                                  .ns = once_bytes_of("api"),
                                  .key = once_bytes_of(keys[i]),
                                  .told = on_begun};
        assert_int_equal(once_submit(store, &ops[i]), ONCE_OK);
    }
    assert_int_equal(once_close(store), ONCE_OK);
    assert_int_equal(seen.told, MANY);
    assert_int_equal(seen.wrong, 0);
}

/* A whole life, each call submitted by the callback of the one before. */
struct chain {
    struct once_store *store;
    struct once_op op;
    enum once_word words[4];
    atomic_int steps;
};

static void on_step(struct once_op *op)
{
    struct chain *chain = op->user;
    uint64_t fence = op->reply.fence;
    int step = chain->steps;

    chain->words[step] = op->reply.word;
    if (op->reply.err != ONCE_OK)
        seen.wrong++;
    once_reply_release(&op->reply);
    op->call = step == 0 ? ONCE_CALL_COMPLETE : step == 1 ? ONCE_CALL_BEGIN : ONCE_CALL_GET;
    op->fence = step == 0 ? fence : 0;
    if (step < 3 && once_submit(chain->store, op) != ONCE_OK)
        seen.wrong++;
    chain->steps++;
}

static void submit__from_a_callback__goes_on(void **state)
{
    struct once_store *store = open_with(&SMALL);
    struct chain chain = {.store = store,
                          .op = {.call = ONCE_CALL_BEGIN,
                                 .ns = once_bytes_of("api"),
                                 .key = once_bytes_of("k"),
                                 .told = on_step,
                                 .user = &chain}};

    (void)state;
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(once_submit(store, &chain.op), ONCE_OK);
    while (chain.steps < 4)
        sched_yield();
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(chain.words[0], ONCE_EXECUTE);
    assert_int_equal(chain.words[1], ONCE_DONE);
    assert_int_equal(chain.words[2], ONCE_REPLAY);
    assert_int_equal(chain.words[3], ONCE_DONE);
    assert_int_equal(once_close(store), ONCE_OK);
}

/* ---- Looking -------------------------------------------------------------------------------- */

static void count_item(void *user, const struct once_item *item)
{
    int *counts = user;
    char text[32] = "";
    char *end;
    long number;

    assert_in_range(item->key.size, 5, sizeof(text) - 1);
    memcpy(text, item->key.data, item->key.size);
    number = strtol(text + 4, &end, 10);
    assert_int_equal(*end, '\0');
    assert_in_range(number, 0, MANY - 1);
    if (number % 3 == 0)
        assert_int_equal(item->state, ONCE_STATE_COMPLETED);
    else
        assert_int_equal(item->state, number % 3 == 1 ? ONCE_STATE_STARTED : ONCE_STATE_DOUBT);
    assert_int_equal(item->code, number % 3 == 0 ? number : 0);
    counts[number]++;
}

static int list_all(struct once_store *store, const struct once_filter *filter, size_t page,
                    int *counts)
{
    uint64_t cursor = 0;
    int sum = 0;

    memset(counts, 0, MANY * sizeof(*counts));
    do {
        assert_int_equal(once_list(store, filter, cursor, page, count_item, counts, &cursor),
                         ONCE_OK);
    } while (cursor != 0);
    for (int i = 0; i < MANY; i++) {
        assert_in_range(counts[i], 0, 1);
        sum += counts[i];
    }
    return sum;
}

static void list__in_pages__gives_each_once(void **state)
{
    struct once_store *store = open_with(&SMALL);
    struct once_filter filter = {.by_state = true};
    static int counts[MANY];
    struct once_reply reply;
    char text[32];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        uint64_t fence = begin(store, i, 0);

        if (i % 3 == 0)
            complete(store, i, fence, "r");
        if (i % 3 != 2)
            continue;
        assert_int_equal(once_renew(store, key_of(text, sizeof(text), i), fence, 0, &reply),
                         ONCE_OK);
        once_reply_release(&reply);
    }
    for (int opened = 0; opened < 2; opened++) { /* and again after a restart */
        filter.ns = once_bytes_of(NULL);
        for (size_t page = 1; page <= ONCE_LIST_COUNT_MAX; page = page * 7 + 3)
            assert_int_equal(list_all(store, NULL, page, counts), MANY);
        filter.state = ONCE_STATE_COMPLETED;
        assert_int_equal(list_all(store, &filter, 10, counts), (MANY + 2) / 3);
        filter.state = ONCE_STATE_STARTED;
        assert_int_equal(list_all(store, &filter, 10, counts), (MANY + 1) / 3);
        filter.state = ONCE_STATE_DOUBT;
        assert_int_equal(list_all(store, &filter, 10, counts), MANY / 3);
        filter.state = ONCE_STATE_FAILED;
        assert_int_equal(list_all(store, &filter, 10, counts), 0);
        filter.ns = once_bytes_of("ap");
        filter.state = ONCE_STATE_DOUBT;
        assert_int_equal(list_all(store, &filter, 10, counts), 0);
        assert_int_equal(once_close(store), ONCE_OK);
        store = open_with(&SMALL);
    }
    assert_int_equal(once_close(store), ONCE_OK);
}

/* ---- Bounds --------------------------------------------------------------------------------- */

static void begin__keys_max__is_refused_and_the_rest_goes_on(void **state)
{
    struct once_options options = {.segment_size = 1 << 18, .keys_max = 100};
    struct once_store *store = open_with(&options);
    uint64_t fences[100];
    struct once_reply reply;

    (void)state;
    for (int i = 0; i < 100; i++)
        fences[i] = begin(store, i, 0);
    assert_int_equal(once_begin(store, once_name_of("api", "more"), NULL, &reply), ONCE_ERR_KEYS);
    once_reply_release(&reply);
    for (int i = 0; i < 100; i++) {
        complete(store, i, fences[i], "done");
        assert_replays(store, i, "done");
    }
    assert_int_equal(once_close(store), ONCE_OK);
}

static void begin__disk_size_max__is_refused_and_what_was_begun_completes(void **state)
{
    struct once_options options = {.segment_size = 1 << 16, .disk_size_max = 1 << 20};
    struct once_store *store = open_with(&options);
    static uint64_t fences[1 << 12];
    struct once_stats stats;
    int count = 0, err = ONCE_OK;

    (void)state;
    while (err == ONCE_OK && count < 1 << 12) {
        struct once_reply reply;
        char text[32];

        err = once_begin(store, key_of(text, sizeof(text), count), NULL, &reply);
        if (err == ONCE_OK)
            fences[count++] = reply.fence;
        once_reply_release(&reply);
    }
    assert_int_equal(err, ONCE_ERR_SPACE);
    assert_in_range(count, 20, 1 << 12);
    for (int i = 0; i < count; i++) /* INV-7 */
        complete(store, i, fences[i], "done");
    for (int i = 0; i < count; i++)
        assert_replays(store, i, "done");
    once_stats_get(store, &stats);
    assert_in_range(stats.disk_size, 1, 1 << 20);
    assert_int_equal(once_close(store), ONCE_OK);
}

static void complete__result_beyond_a_segment__is_refused_and_a_smaller_one_is_not(void **state)
{
    struct once_options options = {.segment_size = ONCE_SEGMENT_SIZE_MIN};
    struct once_store *store = open_with(&options);
    uint64_t fence = begin(store, 1, 0);
    static uint8_t large[ONCE_SEGMENT_SIZE_MIN];
    struct once_reply reply;

    (void)state;
    assert_int_equal(once_complete(store, once_name_of("api", "key-1"), fence, 0,
                                   (struct once_bytes){large, sizeof(large)}, &reply),
                     ONCE_ERR_TOO_LARGE);
    once_reply_release(&reply);
    complete(store, 1, fence, "small");
    assert_replays(store, 1, "small");
    assert_int_equal(once_close(store), ONCE_OK);
}

static void complete__largest_result__replays_after_a_restart(void **state)
{
    struct once_store *store = open_with(NULL);
    uint64_t fence = begin(store, 1, 0);
    uint8_t *large = malloc(ONCE_RESULT_SIZE_MAX);
    struct once_bytes result = {large, ONCE_RESULT_SIZE_MAX};
    struct once_reply reply;

    (void)state;
    assert_non_null(large);
    for (size_t i = 0; i < ONCE_RESULT_SIZE_MAX; i++)
        large[i] = (uint8_t)(i * 31 ^ i >> 8);
    assert_int_equal(once_complete(store, once_name_of("api", "key-1"), fence, 1, result, &reply),
                     ONCE_OK);
    once_reply_release(&reply);
    for (int opened = 0; opened < 2; opened++) {
        assert_int_equal(once_begin(store, once_name_of("api", "key-1"), NULL, &reply), ONCE_OK);
        assert_int_equal(reply.word, ONCE_REPLAY);
        assert_int_equal(reply.result.size, result.size);
        assert_true(memcmp(reply.result.data, large, result.size) == 0);
        once_reply_release(&reply);
        assert_int_equal(once_close(store), ONCE_OK);
        store = open_with(NULL);
    }
    assert_int_equal(once_close(store), ONCE_OK);
    free(large);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(open__arguments_that_mean_nothing__are_refused),
        IN_A_FOLDER(open__folder_is_not_there__is_made_or_refused),
        IN_A_FOLDER(open__second_owner__is_told_who_has_it),
        IN_A_FOLDER(open__again__remembers_every_durability),
        IN_A_FOLDER(call__many__are_decided_in_order),
        IN_A_FOLDER(begin__same_keys_from_16_threads__one_executes_each),
        IN_A_FOLDER(submit__many_and_close__all_are_told_in_order),
        IN_A_FOLDER(submit__from_a_callback__goes_on),
        IN_A_FOLDER(list__in_pages__gives_each_once),
        IN_A_FOLDER(begin__keys_max__is_refused_and_the_rest_goes_on),
        IN_A_FOLDER(begin__disk_size_max__is_refused_and_what_was_begun_completes),
        IN_A_FOLDER(complete__result_beyond_a_segment__is_refused_and_a_smaller_one_is_not),
        IN_A_FOLDER(complete__largest_result__replays_after_a_restart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
