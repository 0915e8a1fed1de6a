/* SPDX-License-Identifier: Apache-2.0
 *
 * Binary values: arrays as PostgreSQL documents them, byte by byte, and columns of results.
 */
#include "store/postgres/pg_inner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void is(const struct once_buf *buf, const uint8_t *bytes, size_t size)
{
    assert_int_equal(buf->size, size);
    assert_memory_equal(buf->data, bytes, size);
}

static void array__of_each_type__is_what_the_server_reads(void **state)
{
    static const uint8_t numbers[] = {
        0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0,    2,    0,    0,    0,    1,    0,    0,
        0, 8, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0,  0, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t bytes[] = {0, 0, 0, 1, 0,   0,    0,    0,    0,    0,   0, 17,
                                    0, 0, 0, 3, 0,   0,    0,    1,    0,    0,   0, 0,
                                    0, 0, 0, 2, 'a', 0xff, 0xff, 0xff, 0xff, 0xff};
    struct once_buf buf;

    (void)state;
    once_buf_init(&buf, 1024);
    assert_int_equal(once__pg_array_begin(&buf, ONCE__PG_INT8, 2), ONCE_OK);
    assert_int_equal(once__pg_put_i64(&buf, 258), ONCE_OK);
    assert_int_equal(once__pg_put_i64(&buf, -1), ONCE_OK);
    is(&buf, numbers, sizeof(numbers));
    once_buf_clear(&buf);
    assert_int_equal(once__pg_array_begin(&buf, ONCE__PG_BYTEA, 3), ONCE_OK);
    assert_int_equal(once__pg_put_bytes(&buf, (struct once_bytes){NULL, 0}), ONCE_OK);
    assert_int_equal(once__pg_put_bytes(&buf, (struct once_bytes){(const uint8_t *)"a\xff", 2}),
                     ONCE_OK);
    assert_int_equal(once__pg_put_null(&buf), ONCE_OK);
    is(&buf, bytes, sizeof(bytes));
    once_buf_release(&buf);
}

static void array__small_elements__have_their_sizes(void **state)
{
    static const uint8_t bytes[] = {0, 0, 0,    1,    1, 0, 0, 0, 1,    0,    0,    0,
                                    0, 2, 0xff, 0xfe, 0, 0, 0, 4, 0x80, 0x00, 0x00, 0x00};
    struct once_buf buf;

    (void)state;
    once_buf_init(&buf, 1024);
    assert_int_equal(once__pg_put_bool(&buf, true), ONCE_OK);
    assert_int_equal(once__pg_put_bool(&buf, false), ONCE_OK);
    assert_int_equal(once__pg_put_i16(&buf, -2), ONCE_OK);
    assert_int_equal(once__pg_put_i32(&buf, INT32_MIN), ONCE_OK);
    is(&buf, bytes, sizeof(bytes));
    once_buf_release(&buf);
}

static void array__empty__has_no_dimension(void **state)
{
    static const uint8_t bytes[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25};
    struct once_buf buf;

    (void)state;
    once_buf_init(&buf, 1024);
    assert_int_equal(once__pg_array_begin(&buf, ONCE__PG_TEXT, 0), ONCE_OK);
    is(&buf, bytes, sizeof(bytes));
    once_buf_release(&buf);
}

static void array__at_the_bound__is_refused(void **state)
{
    struct once_buf buf;
    uint8_t many[64] = {0};

    (void)state;
    once_buf_init(&buf, 64);
    assert_int_equal(once__pg_put_bytes(&buf, (struct once_bytes){many, 61}), ONCE_ERR_FULL);
    assert_int_equal(buf.size, 0);
    assert_int_equal(once__pg_put_bytes(&buf, (struct once_bytes){many, 60}), ONCE_OK);
    assert_int_equal(once__pg_put_bool(&buf, true), ONCE_ERR_FULL);
    assert_int_equal(once__pg_array_begin(&buf, ONCE__PG_TEXT, (size_t)INT32_MAX + 1),
                     ONCE_ERR_FULL);
    once_buf_release(&buf);
}

/* One row of binary columns, as libpq would have read it. */
static PGresult *row_of(const struct once_bytes *values, int count)
{
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    PGresAttDesc columns[8] = {{0}};
    char name[] = "c";

    assert_true(result && count <= 8);
    for (int i = 0; i < count; i++) {
        columns[i].name = name;
        columns[i].format = 1;
    }
    assert_int_equal(PQsetResultAttrs(result, count, columns), 1);
    for (int i = 0; i < count; i++) {
        char bytes[16] = {0};

        memcpy(bytes, values[i].data ? values[i].data : (const uint8_t *)"", values[i].size);
        assert_int_equal(PQsetvalue(result, 0, i, values[i].data ? bytes : NULL,
                                    values[i].data ? (int)values[i].size : -1),
                         1);
    }
    return result;
}

static void column__right_and_wrong_sizes__are_read_or_damaged(void **state)
{
    static const uint8_t eight[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe};
    const struct once_bytes values[] = {{eight, 8}, {eight, 4}, {eight, 2}, {NULL, 0}, {eight, 0}};
    PGresult *result = row_of(values, 5);
    int64_t long_number;
    int32_t number;
    int16_t short_number;

    (void)state;
    assert_int_equal(once__pg_get_i64(result, 0, 0, &long_number), ONCE_OK);
    assert_int_equal(long_number, -2);
    assert_int_equal(once__pg_get_i32(result, 0, 1, &number), ONCE_OK);
    assert_int_equal(number, -1);
    assert_int_equal(once__pg_get_i16(result, 0, 2, &short_number), ONCE_OK);
    assert_int_equal(short_number, -1);
    assert_int_equal(once__pg_get_i64(result, 0, 3, &long_number), ONCE_OK);
    assert_int_equal(long_number, 0);
    assert_int_equal(once__pg_get_i64(result, 0, 1, &long_number), ONCE_ERR_DAMAGED);
    assert_int_equal(once__pg_get_i32(result, 0, 4, &number), ONCE_ERR_DAMAGED);
    assert_int_equal(once__pg_get_i16(result, 0, 5, &short_number), ONCE_ERR_DAMAGED);
    assert_int_equal(once__pg_get_i16(result, 1, 0, &short_number), ONCE_ERR_DAMAGED);
    assert_int_equal(once__pg_get_bytes(result, 0, 0).size, 8);
    assert_int_equal(once__pg_get_bytes(result, 0, 3).size, 0);
    PQclear(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(array__of_each_type__is_what_the_server_reads),
        cmocka_unit_test(array__small_elements__have_their_sizes),
        cmocka_unit_test(array__empty__has_no_dimension),
        cmocka_unit_test(array__at_the_bound__is_refused),
        cmocka_unit_test(column__right_and_wrong_sizes__are_read_or_damaged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
