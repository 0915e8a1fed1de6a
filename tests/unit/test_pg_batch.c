/* SPDX-License-Identifier: Apache-2.0
 *
 * What a batch makes of rows: each call its own, in any order; rows that are not those that were
 * asked for are refused whole; and what is asked of a begin before it is sent.
 */
#include "store/postgres/pg_inner.h"

#include "store/call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { COLUMNS = 18, OPS = 3 };

/* The columns of once.told that a test says something about. */
struct row {
    int32_t at;
    int16_t word;
    int64_t fence;
    int32_t code;
    const char *result;
    bool left_out;
};

static void put(PGresult *result, int row, int column, uint64_t number, int size)
{
    char bytes[8];

    for (int i = 0; i < size; i++)
        bytes[i] = (char)(uint8_t)(number >> (8 * (size - 1 - i)));
    assert_int_equal(PQsetvalue(result, row, column, bytes, size), 1);
}

static PGresult *rows_of(const struct row *rows, int count)
{
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    PGresAttDesc columns[COLUMNS] = {{0}};
    char name[] = "c";

    for (int i = 0; i < COLUMNS; i++) {
        columns[i].name = name;
        columns[i].format = 1;
    }
    assert_int_equal(PQsetResultAttrs(result, COLUMNS, columns), 1);
    for (int i = 0; i < count; i++) {
        char text[32];

        for (int column = 0; column < COLUMNS; column++)
            assert_int_equal(PQsetvalue(result, i, column, NULL, -1), 1);
        put(result, i, 0, (uint64_t)rows[i].at, 4);
        put(result, i, 1, (uint64_t)rows[i].word, 2);
        put(result, i, 2, 1000, 8);
        put(result, i, 3, (uint64_t)rows[i].fence, 8);
        put(result, i, 4, 1, 4);
        put(result, i, 6, (uint64_t)rows[i].code, 4);
        if (rows[i].left_out)
            put(result, i, 17, 1, 1);
        if (rows[i].result) {
            snprintf(text, sizeof(text), "%s", rows[i].result);
            assert_int_equal(PQsetvalue(result, i, 9, text, (int)strlen(text)), 1);
        }
    }
    return result;
}

static struct once__pg_batch batch;
static size_t told_count;

static int read(struct once_op ops[OPS], const struct row *rows, int count)
{
    once_ms now_ms = 0;
    int err;

    batch = (struct once__pg_batch){.count = OPS};
    for (size_t i = 0; i < OPS; i++) {
        ops[i] = (struct once_op){.call = ONCE_CALL_BEGIN};
        batch.ops[i] = &ops[i];
    }
    batch.result = rows_of(rows, count);
    err = once__pg_batch_read(&batch, &now_ms, &told_count);
    PQclear(batch.result);
    assert_true(err != ONCE_OK || now_ms == 1000);
    return err;
}

static void rows__in_any_order__are_each_calls_own(void **state)
{
    static const struct row rows[] = {{3, ONCE_ERR_KEY_FUTURE, 0, 0, NULL, false},
                                      {1, ONCE_EXECUTE, 42, 0, NULL, false},
                                      {2, ONCE_REPLAY, 0, -7, "answer", false}};
    struct once_op ops[OPS];

    (void)state;
    assert_int_equal(read(ops, rows, OPS), ONCE_OK);
    assert_int_equal(ops[0].reply.word, ONCE_EXECUTE);
    assert_int_equal(ops[0].reply.fence, 42);
    assert_int_equal(ops[0].reply.attempt, 1);
    assert_int_equal(ops[1].reply.word, ONCE_REPLAY);
    assert_int_equal(ops[1].reply.code, -7);
    assert_int_equal(ops[1].reply.result.size, 6);
    assert_memory_equal(ops[1].reply.result.data, "answer", 6);
    assert_int_equal(ops[1].reply.fence, 0); /* a replay tells no fence */
    assert_int_equal(ops[2].reply.err, ONCE_ERR_KEY_FUTURE);
    assert_non_null(ops[2].reply.what);
    for (size_t i = 0; i < OPS; i++)
        once_reply_release(&ops[i].reply);
}

static void rows__left_out__are_not_told_and_stand_behind(void **state)
{
    static const struct row rows[] = {{1, ONCE_EXECUTE, 42, 0, NULL, true},
                                      {2, ONCE_REPLAY, 0, 0, "answer", false},
                                      {3, ONCE_REPLAY, 0, 0, NULL, true}};
    struct once_op ops[OPS];

    (void)state;
    assert_int_equal(read(ops, rows, OPS), ONCE_OK);
    assert_int_equal(told_count, 1);
    assert_ptr_equal(batch.ops[0], &ops[1]);
    assert_ptr_equal(batch.ops[1], &ops[0]);
    assert_ptr_equal(batch.ops[2], &ops[2]);
    assert_int_equal(ops[1].reply.result.size, 6);
    assert_int_equal(ops[0].reply.fence, 0);
    once_reply_release(&ops[1].reply);
}

static void size__of_an_apply__counts_the_words_of_its_effects(void **state)
{
    static const uint8_t value[1 << 16];
    const struct once_bytes words[] = {{value, 3}, {value, 5}, {value, sizeof(value)}};
    const struct once_do dos[] = {{words, 3}, {words, 3}};
    struct once_op op = {.call = ONCE_CALL_APPLY, .dos = dos, .do_count = 2};

    (void)state;
    assert_true(once__pg_op_size(&op) >= 2 * sizeof(value));
}

static void rows__not_those_that_were_asked_for__are_refused_whole(void **state)
{
    static const struct row good[] = {
        {.at = 1, .fence = 1}, {.at = 2, .fence = 2}, {.at = 3, .fence = 3}};
    struct once_op ops[OPS];

    (void)state;
    assert_int_equal(read(ops, good, OPS), ONCE_OK);
    assert_int_equal(read(ops, good, 2), ONCE_ERR_DAMAGED); /* one is missing */
    for (int wrong = 0; wrong < 6; wrong++) {
        struct row rows[OPS];

        memcpy(rows, good, sizeof(rows));
        if (wrong == 0)
            rows[2].at = 2; /* twice */
        else if (wrong == 1)
            rows[2].at = 0;
        else if (wrong == 2)
            rows[2].at = 4;
        else if (wrong == 3)
            rows[2].word = 9; /* no word of these calls */
        else if (wrong == 4)
            rows[2].fence = -1;
        else
            rows[0].at = INT32_MIN;
        assert_int_equal(read(ops, rows, OPS), ONCE_ERR_DAMAGED);
        for (size_t i = 0; i < OPS; i++) {
            assert_int_equal(ops[i].reply.word, 0);
            assert_int_equal(ops[i].reply.fence, 0); /* nothing was written */
        }
    }
}

static void begin__bounds__are_those_of_every_store(void **state)
{
    static const uint8_t owner[ONCE_OWNER_SIZE_MAX + 1];
    static const struct {
        once_ms ttl_ms, lease_ms;
        size_t owner_size;
        int err;
    } cases[] = {{0, 0, 0, ONCE_OK},
                 {1, 1, ONCE_OWNER_SIZE_MAX, ONCE_OK},
                 {ONCE_RETENTION_MS_MAX, ONCE_LEASE_MS_MAX, 0, ONCE_OK},
                 {-1, 0, 0, ONCE_ERR_INVALID},
                 {ONCE_RETENTION_MS_MAX + 1, 0, 0, ONCE_ERR_INVALID},
                 {0, -1, 0, ONCE_ERR_INVALID},
                 {0, ONCE_LEASE_MS_MAX + 1, 0, ONCE_ERR_INVALID},
                 {0, 0, ONCE_OWNER_SIZE_MAX + 1, ONCE_ERR_INVALID}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct once_op op = {.call = ONCE_CALL_BEGIN,
                             .ns = once_bytes_of("ns"),
                             .key = once_bytes_of("key"),
                             .ttl_ms = cases[i].ttl_ms,
                             .lease_ms = cases[i].lease_ms,
                             .owner = {owner, cases[i].owner_size}};

        assert_int_equal(once__call_check(&op), ONCE_OK);
        assert_int_equal(once__pg_op_check(&op), cases[i].err);
        assert_int_equal(op.reply.err, cases[i].err);
    }
}

static void id__of_calls__differ_and_stay(void **state)
{
    static struct once__pg_store store = {.id = {{1, 2, 3}}};
    struct once_op one = {.inner.position = 2}, other = {.inner.position = 4};
    struct once__pg_id first = once__pg_call_id(&store, &one);
    struct once__pg_id second = once__pg_call_id(&store, &other);

    (void)state;
    assert_memory_not_equal(&first, &second, sizeof(first));
    one.inner.position |= 1; /* it was sent */
    second = once__pg_call_id(&store, &one);
    assert_memory_equal(&first, &second, sizeof(first));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows__in_any_order__are_each_calls_own),
        cmocka_unit_test(rows__left_out__are_not_told_and_stand_behind),
        cmocka_unit_test(size__of_an_apply__counts_the_words_of_its_effects),
        cmocka_unit_test(rows__not_those_that_were_asked_for__are_refused_whole),
        cmocka_unit_test(begin__bounds__are_those_of_every_store),
        cmocka_unit_test(id__of_calls__differ_and_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
