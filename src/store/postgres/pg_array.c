/* SPDX-License-Identifier: Apache-2.0
 *
 * Values as PostgreSQL sends and receives them in binary: numbers with the most significant byte
 * first, and arrays of one dimension:
 *
 *     4  dimensions: 1            4  count             per element:  4  size; all ones is NULL
 *     4  has a NULL: 0 or 1       4  first index: 1                  n  the value
 *     4  type of an element
 *
 * The server takes an array with no element only as one with no dimension. Whether there is a NULL
 * it finds out itself, so the flag stays 0. Owns no state.
 */
#include "store/postgres/pg_inner.h"

#include <string.h>

static void store_u32(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void store_u64(uint8_t *at, uint64_t value)
{
    store_u32(at, (uint32_t)(value >> 32));
    store_u32(at + 4, (uint32_t)value);
}

static uint64_t load(const uint8_t *at, size_t size)
{
    uint64_t value = 0;

    for (size_t i = 0; i < size; i++)
        value = value << 8 | at[i];
    return value;
}

int once__pg_array_begin(struct once_buf *buf, uint32_t type, size_t count)
{
    uint8_t head[20];

    if (count > INT32_MAX)
        return ONCE_ERR_FULL;
    store_u32(head, count > 0 ? 1 : 0);
    store_u32(head + 4, 0);
    store_u32(head + 8, type);
    store_u32(head + 12, (uint32_t)count);
    store_u32(head + 16, 1);
    return once_buf_append(buf, head, count > 0 ? sizeof(head) : 12);
}

int once__pg_put_bool(struct once_buf *buf, bool value)
{
    const uint8_t bytes[5] = {0, 0, 0, 1, value ? 1 : 0};

    return once_buf_append(buf, bytes, sizeof(bytes));
}

int once__pg_put_i16(struct once_buf *buf, int16_t value)
{
    uint16_t bits = (uint16_t)value;
    const uint8_t bytes[6] = {0, 0, 0, 2, (uint8_t)(bits >> 8), (uint8_t)bits};

    return once_buf_append(buf, bytes, sizeof(bytes));
}

int once__pg_put_i32(struct once_buf *buf, int32_t value)
{
    uint8_t bytes[8] = {0, 0, 0, 4};

    store_u32(bytes + 4, (uint32_t)value);
    return once_buf_append(buf, bytes, sizeof(bytes));
}

int once__pg_put_i64(struct once_buf *buf, int64_t value)
{
    uint8_t bytes[12] = {0, 0, 0, 8};

    store_u64(bytes + 4, (uint64_t)value);
    return once_buf_append(buf, bytes, sizeof(bytes));
}

int once__pg_put_bytes(struct once_buf *buf, struct once_bytes value)
{
    uint8_t size[4];
    int err;

    if (value.size > INT32_MAX)
        return ONCE_ERR_FULL;
    err = once_buf_reserve(buf, sizeof(size) + value.size);
    if (err != ONCE_OK)
        return err;
    store_u32(size, (uint32_t)value.size);
    err = once_buf_append(buf, size, sizeof(size));
    if (err != ONCE_OK || value.size == 0)
        return err;
    return once_buf_append(buf, value.data, value.size);
}

int once__pg_put_null(struct once_buf *buf)
{
    static const uint8_t null[4] = {0xff, 0xff, 0xff, 0xff};

    return once_buf_append(buf, null, sizeof(null));
}

/* ---- Results --------------------------------------------------------------------------------- */

struct once_bytes once__pg_get_bytes(const PGresult *result, int row, int column)
{
    int size = PQgetlength(result, row, column);

    if (size <= 0 || PQgetisnull(result, row, column))
        return (struct once_bytes){NULL, 0};
    return (struct once_bytes){(const uint8_t *)PQgetvalue(result, row, column), (size_t)size};
}

static int get(const PGresult *result, int row, int column, size_t size, uint64_t *ret_bits)
{
    struct once_bytes bytes;

    if (row >= PQntuples(result) || column >= PQnfields(result))
        return ONCE_ERR_DAMAGED;
    bytes = once__pg_get_bytes(result, row, column);
    if (PQfformat(result, column) != 1)
        return ONCE_ERR_DAMAGED;
    if (PQgetisnull(result, row, column)) {
        *ret_bits = 0;
        return ONCE_OK;
    }
    if (bytes.size != size)
        return ONCE_ERR_DAMAGED;
    *ret_bits = load(bytes.data, size);
    return ONCE_OK;
}

int once__pg_get_i64(const PGresult *result, int row, int column, int64_t *ret)
{
    uint64_t bits;
    int err = get(result, row, column, 8, &bits);

    if (err == ONCE_OK)
        *ret = (int64_t)bits;
    return err;
}

int once__pg_get_i32(const PGresult *result, int row, int column, int32_t *ret)
{
    uint64_t bits;
    int err = get(result, row, column, 4, &bits);

    if (err == ONCE_OK)
        *ret = (int32_t)(uint32_t)bits;
    return err;
}

int once__pg_get_i16(const PGresult *result, int row, int column, int16_t *ret)
{
    uint64_t bits;
    int err = get(result, row, column, 2, &bits);

    if (err == ONCE_OK)
        *ret = (int16_t)(uint16_t)bits;
    return err;
}
