/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine refuses, each with its own error, and a message that says what, where, and what
 * to do next.
 */
#include "engine_help.h"

#include <unistd.h>
#include <xxhash.h>

static void expect_refusal(struct life *life, int err, const char *const *words)
{
    struct once_message message = {""};

    assert_int_equal(life_try_open(life, &message), err);
    assert_null(life->store);
    for (; *words; words++) {
        if (!strstr(message.text, *words))
            fail_msg("\"%s\" does not say \"%s\"", message.text, *words);
    }
}
#define EXPECT_REFUSAL(life, err, ...)                                                             \
    expect_refusal(life, err, (const char *const[]){__VA_ARGS__, NULL})

/* A store of some sealed segments with their sidecars, closed. */
static void make_sealed(struct life *life, int segments)
{
    unsigned number = 0;

    life_begin(life);
    for (int i = 0; i < segments; i++) {
        struct once_op op = {.call = ONCE_CALL_BEGIN};
        static uint8_t data[6000];

        /* Large records, all needed: nothing is retired. */
        for (uint64_t before = life_stats(life).segments; life_stats(life).segments == before;) {
            struct life_key key = life_key(number++);
            uint64_t fence = 0;

            assert_int_equal(life_word(life, op, key.text, &fence), ONCE_EXECUTE);
            assert_int_equal(life_word(life,
                                       (struct once_op){.call = ONCE_CALL_COMPLETE,
                                                        .fence = fence,
                                                        .result = {data, sizeof(data)}},
                                       key.text, NULL),
                             ONCE_DONE);
        }
        life_work(life);
    }
    assert_int_equal(life_stats(life).segments_retired, 0);
    life_close(life);
}

static void open__second_owner__is_locked_and_names_the_first(void **state)
{
    struct life life;
    char pid[32];
    struct once_store *first;

    (void)state;
    life_begin(&life);
    first = life.store;
    snprintf(pid, sizeof(pid), "pid %ld ", (long)getpid());
    EXPECT_REFUSAL(&life, ONCE_ERR_LOCKED, pid, "in use");
    life.store = first;
    life_do(&life, "k", 0); /* the first is not harmed */
    life_end(&life);
}

/* Changes the version in a file's first sector, and its check with it: what another version of Once
 * would have written. */
static void change_version(struct disk *disk, const char *name, uint8_t mask)
{
    enum { SECTOR = 512, CHECK = SECTOR - 8, VERSION = 8 };
    uint8_t sector[SECTOR];
    uint64_t before, after;

    assert_true(disk_peek(disk, name, 0, sector, sizeof(sector)));
    before = XXH3_64bits(sector, CHECK);
    sector[VERSION] ^= mask;
    after = XXH3_64bits(sector, CHECK);
    assert_true(disk_flip(disk, name, VERSION, mask));
    for (unsigned i = 0; i < 8; i++)
        assert_true(disk_flip(disk, name, CHECK + i, (uint8_t)((before ^ after) >> 8 * i)));
}

static void open__other_version__is_refused_and_nothing_is_changed(void **state)
{
    static const char *const names[] = {"store", "000000.seg"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct life life;
        uint64_t operations;

        life_begin(&life);
        life_do(&life, "k", 0);
        life_close(&life);
        change_version(life.disk, names[i], 2);
        operations = disk_operations(life.disk);
        EXPECT_REFUSAL(&life, ONCE_ERR_VERSION, names[i], "version");
        assert_int_equal(disk_operations(life.disk), operations);
        change_version(life.disk, names[i], 2);
        life_open(&life);
        assert_int_equal(life_get(&life, "k"), ONCE_DONE);
        life_end(&life);
    }
}

static void open__store_file_damaged__says_where(void **state)
{
    struct life life;

    (void)state;
    life_begin(&life);
    life_close(&life);
    assert_true(disk_flip(life.disk, "store", 20, 1));
    EXPECT_REFUSAL(&life, ONCE_ERR_DAMAGED, "store", "offset");
    life_end(&life);
}

static void open__store_file_missing__does_not_make_a_new_store(void **state)
{
    struct life life;

    (void)state;
    life_begin(&life);
    life_do(&life, "k", 0);
    life_close(&life);
    assert_true(disk_remove(life.disk, "store"));
    EXPECT_REFUSAL(&life, ONCE_ERR_DAMAGED, "store", "missing", "backup");
    assert_true(disk_file_size(life.disk, "000000.seg") > 0);
    life_end(&life);
}

static void open__segment_missing__says_which(void **state)
{
    struct life life;

    (void)state;
    make_sealed(&life, 4);
    assert_true(disk_remove(life.disk, "000001.seg"));
    EXPECT_REFUSAL(&life, ONCE_ERR_DAMAGED, "missing", "once check");
    life_end(&life);
}

static void open__segment_header_damaged__says_where(void **state)
{
    struct life life;

    (void)state;
    make_sealed(&life, 3);
    assert_true(disk_flip(life.disk, "000000.seg", 40, 4));
    EXPECT_REFUSAL(&life, ONCE_ERR_DAMAGED, "000000.seg", "offset", "once check");
    life_end(&life);
}

/* With a sidecar a restart does not read the log: the damage shows when the record is read. Without
 * one it shows at once. */
static void open__sealed_segment_damaged__is_found_at_open_or_at_read(void **state)
{
    struct life life;
    struct once_op get = {.call = ONCE_CALL_GET};

    (void)state;
    make_sealed(&life, 4);
    assert_true(disk_flip(life.disk, "000000.seg", 2 * ONCE_BLOCK_SIZE + 200, 0x10));
    life_open(&life);
    assert_int_equal(life_call(&life, &get, life_key(0).text), ONCE_ERR_DAMAGED);
    assert_non_null(get.reply.what);
    assert_int_equal(life_get(&life, life_key(1).text), ONCE_DONE); /* others are not harmed */
    life_close(&life);
    assert_true(disk_remove(life.disk, "000000.idx"));
    EXPECT_REFUSAL(&life, ONCE_ERR_DAMAGED, "000000.seg", "offset 8192", "once check");
    life_end(&life);
}

static void open__durable_batch_of_the_newest_segment_damaged__is_damage_not_a_tail(void **state)
{
    struct life life;

    (void)state;
    life_begin(&life);
    life_do(&life, "a", 0);
    life_do(&life, "b", 0);
    life_close(&life);
    assert_true(disk_flip(life.disk, "000000.seg", ONCE_BLOCK_SIZE + 120, 1));
    EXPECT_REFUSAL(&life, ONCE_ERR_DAMAGED, "000000.seg", "offset 4096");
    life_end(&life);
}

static void open__no_store_and_must_exist__is_refused(void **state)
{
    struct life life;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    life.options.must_exist = true;
    EXPECT_REFUSAL(&life, ONCE_ERR_NO_STORE, "no store");
    assert_int_equal(disk_file_size(life.disk, "store"), 0);
    life_end(&life);
}

static void open__bad_options__are_refused_each_with_its_bound(void **state)
{
    static const struct {
        struct once_options options;
        const char *word;
    } bad[] = {
        {{.durability = (enum once_durability)3}, "durability"},
        {{.interval_ms = -1}, "interval"},
        {{.interval_ms = ONCE_INTERVAL_MS_MAX + 1}, "interval"},
        {{.keys_max = ONCE_KEYS_MAX + 1}, "keys"},
        {{.segment_size = ONCE_SEGMENT_SIZE_MIN / 2}, "segment"},
        {{.segment_size = ONCE_SEGMENT_SIZE_MIN + ONCE_BLOCK_SIZE}, "power of two"},
        {{.segment_size = 1U << 31}, "segment"},
        {{.segment_size = ONCE_SEGMENT_SIZE_MIN, .disk_size_max = 3 * ONCE_SEGMENT_SIZE_MIN},
         "at least 4"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct life life;

        life_prepare(&life, LIFE_DISK_SIZE);
        life.options = bad[i].options;
        EXPECT_REFUSAL(&life, ONCE_ERR_INVALID, bad[i].word);
        assert_int_equal(disk_file_size(life.disk, "store"), 0);
        life_end(&life);
    }
}

static void inv9_keys_max__new_keys__are_refused_and_old_ones_go_on(void **state)
{
    enum { KEYS = 20 };
    uint64_t fences[KEYS];
    struct once_op op = {.call = ONCE_CALL_BEGIN};
    struct life life;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    life.options.keys_max = KEYS;
    life_open(&life);
    for (unsigned i = 0; i < KEYS; i++)
        fences[i] = life_start(&life, life_key(i).text);
    assert_int_equal(life_call(&life, &op, "one more"), ONCE_ERR_KEYS);
    assert_int_equal(life_get(&life, "one more"), ONCE_NOTFOUND);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(life_complete(&life, life_key(i).text, fences[i], "r"), ONCE_DONE);
    op = (struct once_op){.call = ONCE_CALL_BEGIN};
    assert_int_equal(life_call(&life, &op, "one more"), ONCE_ERR_KEYS);
    life_again(&life, LIFE_CUT);
    assert_int_equal(life_stats(&life).keys, KEYS);
    life_close(&life);
    life.options.keys_max = KEYS - 1;
    EXPECT_REFUSAL(&life, ONCE_ERR_KEYS, "keys");
    life_end(&life);
}

/* Within the limits, but not in segments as small as these. */
static void inv9_larger_than_a_segment__is_refused_and_the_operation_lives_on(void **state)
{
    static uint8_t bytes[LIFE_SEGMENT_SIZE];
    struct once_op large = {.call = ONCE_CALL_COMPLETE, .result = {bytes, sizeof(bytes)}};
    struct life life;

    (void)state;
    life_begin(&life);
    large.fence = life_start(&life, "k");
    assert_int_equal(life_call(&life, &large, "k"), ONCE_ERR_TOO_LARGE);
    large.call = ONCE_CALL_CHECKPOINT;
    large.point = once_bytes_of("p");
    large.data = (struct once_bytes){bytes, sizeof(bytes)};
    assert_int_equal(life_call(&life, &large, "k"), ONCE_ERR_TOO_LARGE);
    large.data.size = LIFE_SEGMENT_SIZE / 2; /* fits, but could not be completed */
    assert_int_equal(life_call(&life, &large, "k"), ONCE_ERR_TOO_LARGE);
    assert_int_equal(life_state(&life, "k"), ONCE_STATE_STARTED);
    large.call = ONCE_CALL_COMPLETE; /* the largest that fits */
    large.result.size = LIFE_SEGMENT_SIZE - ONCE_BLOCK_SIZE - 512;
    assert_int_equal(life_word(&life, large, "k", NULL), ONCE_DONE);
    life_again(&life, LIFE_CUT);
    assert_int_equal(life_state(&life, "k"), ONCE_STATE_COMPLETED);
    life_end(&life);
}

static void inv9_beyond_the_limits__is_refused_and_says_which(void **state)
{
    static uint8_t bytes[ONCE_RESULT_SIZE_MAX + 1];
    static char text[300];
    struct once_op ops[6];
    struct life life;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    memset(ops, 0, sizeof(ops));
    for (int i = 0; i < 6; i++) {
        ops[i].ns = once_bytes_of("test");
        ops[i].key = once_bytes_of("k");
    }
    ops[0].ns = (struct once_bytes){(const uint8_t *)text, ONCE_NAMESPACE_SIZE_MAX + 1};
    ops[1].key = (struct once_bytes){(const uint8_t *)text, ONCE_KEY_SIZE_MAX + 1};
    ops[2].owner = (struct once_bytes){(const uint8_t *)text, ONCE_OWNER_SIZE_MAX + 1};
    ops[3].call = ONCE_CALL_COMPLETE;
    ops[3].result = (struct once_bytes){bytes, ONCE_RESULT_SIZE_MAX + 1};
    ops[4].call = ONCE_CALL_CHECKPOINT;
    ops[4].data = (struct once_bytes){bytes, ONCE_DATA_SIZE_MAX + 1};
    ops[5].call = ONCE_CALL_FAIL;
    ops[5].result = (struct once_bytes){bytes, ONCE_REASON_SIZE_MAX + 1};
    life_begin(&life);
    assert_int_not_equal(once_call(life.store, ops, 6), ONCE_OK);
    for (int i = 0; i < 6; i++) {
        assert_int_not_equal(ops[i].reply.err, ONCE_OK);
        assert_non_null(ops[i].reply.what);
    }
    assert_int_equal(life_stats(&life).keys, 0);
    life_end(&life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__second_owner__is_locked_and_names_the_first),
        cmocka_unit_test(open__other_version__is_refused_and_nothing_is_changed),
        cmocka_unit_test(open__store_file_damaged__says_where),
        cmocka_unit_test(open__store_file_missing__does_not_make_a_new_store),
        cmocka_unit_test(open__segment_missing__says_which),
        cmocka_unit_test(open__segment_header_damaged__says_where),
        cmocka_unit_test(open__sealed_segment_damaged__is_found_at_open_or_at_read),
        cmocka_unit_test(open__durable_batch_of_the_newest_segment_damaged__is_damage_not_a_tail),
        cmocka_unit_test(open__no_store_and_must_exist__is_refused),
        cmocka_unit_test(open__bad_options__are_refused_each_with_its_bound),
        cmocka_unit_test(inv9_keys_max__new_keys__are_refused_and_old_ones_go_on),
        cmocka_unit_test(inv9_larger_than_a_segment__is_refused_and_the_operation_lives_on),
        cmocka_unit_test(inv9_beyond_the_limits__is_refused_and_says_which),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
