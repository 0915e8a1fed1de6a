/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to PostgreSQL for test programs: see the header.
 */
#include "conformance/pg_link.h"

#include "base/assert.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OID_BOOL = 16, OID_BYTEA = 17, OID_INT8 = 20, OID_INT4 = 23, OID_TEXT = 25 };

void pg_die(const char *what, PGconn *conn, const PGresult *result)
{
    fprintf(stderr, "%.2000s: %s\n", what,
            result ? PQresultErrorMessage(result) : PQerrorMessage(conn));
    exit(2);
}

PGconn *pg_connect(void)
{
    const char *url = getenv("ONCE_PG_URL");
    PGconn *conn;

    if (!url) {
        fprintf(stderr,
                "ONCE_PG_URL is not set: pytest tests/e2e/test_pg_conformance.py sets it\n");
        exit(2);
    }
    conn = PQconnectdb(url);
    if (PQstatus(conn) != CONNECTION_OK)
        pg_die("connect", conn, NULL);
    return conn;
}

void pg_run(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        pg_die(text, conn, result);
    PQclear(result);
}

int64_t pg_number(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    int64_t number;

    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        pg_die(text, conn, result);
    number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return number;
}

void pg_add(struct pg_ask *ask, const char *format, ...)
{
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(ask->text + ask->text_size, sizeof(ask->text) - ask->text_size, format, args);
    va_end(args);
    ONCE_ASSERT(size >= 0 && (size_t)size < sizeof(ask->text) - ask->text_size);
    ask->text_size += (size_t)size;
}

static void add(struct pg_ask *ask, Oid type, const void *value, size_t size)
{
    int i = ask->count++;

    ONCE_ASSERT(i < PG_ARGS_MAX);
    ask->types[i] = type;
    ask->values[i] = value;
    ask->sizes[i] = (int)size;
    ask->forms[i] = 1;
    pg_add(ask, "$%d", ask->count);
}

void pg_add_text(struct pg_ask *ask, const char *text)
{
    add(ask, OID_TEXT, text, text ? strlen(text) : 0);
}

void pg_add_bytes(struct pg_ask *ask, struct once_bytes bytes)
{
    add(ask, OID_BYTEA, bytes.data, bytes.size);
}

void pg_add_int8(struct pg_ask *ask, int64_t number)
{
    uint64_t *at = &ask->numbers[ask->count];

    *at = htobe64((uint64_t)number);
    add(ask, OID_INT8, at, sizeof(*at));
}

void pg_add_int4(struct pg_ask *ask, int32_t number)
{
    uint64_t *at = &ask->numbers[ask->count];
    uint32_t bytes = htobe32((uint32_t)number);

    memcpy(at, &bytes, sizeof(bytes));
    add(ask, OID_INT4, at, sizeof(bytes));
}

void pg_add_bool(struct pg_ask *ask, bool yes)
{
    uint64_t *at = &ask->numbers[ask->count];

    memset(at, yes ? 1 : 0, 1);
    add(ask, OID_BOOL, at, 1);
}

PGresult *pg_ask(PGconn *conn, const struct pg_ask *ask)
{
    return PQexecParams(conn, ask->text, ask->count, ask->types, ask->values, ask->sizes,
                        ask->forms, 1);
}

int64_t pg_int(const PGresult *result, int row, int column)
{
    const char *at = PQgetvalue(result, row, column);
    int64_t number = 0;

    ONCE_ASSERT(column >= 0 && row < PQntuples(result));
    if (PQgetisnull(result, row, column))
        return 0;
    switch (PQgetlength(result, row, column)) {
    case 1:
        return at[0] != 0;
    case 2: {
        uint16_t two;

        memcpy(&two, at, sizeof(two));
        return (int16_t)be16toh(two);
    }
    case 4: {
        uint32_t four;

        memcpy(&four, at, sizeof(four));
        return (int32_t)be32toh(four);
    }
    case 8:
        memcpy(&number, at, sizeof(number));
        return (int64_t)be64toh((uint64_t)number);
    default:
        pg_die("this is no number in binary", NULL, result);
    }
}

int64_t pg_word(const PGresult *result, int row, int column)
{
    return PQgetisnull(result, row, column) ? PG_NULL : pg_int(result, row, column);
}

struct once_bytes pg_bytes(const PGresult *result, int row, int column)
{
    ONCE_ASSERT(column >= 0 && row < PQntuples(result));
    return (struct once_bytes){(const uint8_t *)PQgetvalue(result, row, column),
                               (size_t)PQgetlength(result, row, column)};
}
