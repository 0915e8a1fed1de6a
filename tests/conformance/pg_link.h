/* SPDX-License-Identifier: Apache-2.0
 *
 * What the C programs that test hosts/postgres share: one connection, statements with arguments of
 * every type in binary, and rows. What must not fail ends the program and says why; a statement
 * that may be refused gives its PGresult.
 */
#ifndef ONCE_TESTS_PG_LINK_H
#define ONCE_TESTS_PG_LINK_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include <once/bytes.h>

enum { PG_ARGS_MAX = 24, PG_TEXT_SIZE = 2048 };

/* A statement under construction: text, and arguments by number. */
struct pg_ask {
    char text[PG_TEXT_SIZE];
    size_t text_size;
    int count;
    Oid types[PG_ARGS_MAX];
    const char *values[PG_ARGS_MAX];
    int sizes[PG_ARGS_MAX];
    int forms[PG_ARGS_MAX];
    uint64_t numbers[PG_ARGS_MAX]; /* in network order, where the value is one */
};

/* Of ONCE_PG_URL. Ends the program when there is none, or nobody answers. */
PGconn *pg_connect(void);

/* Runs text, which must succeed; rows are thrown away. */
void pg_run(PGconn *conn, const char *text);

/* The one value of text, which must succeed and give a number. */
int64_t pg_number(PGconn *conn, const char *text);

__attribute__((format(printf, 2, 3))) void pg_add(struct pg_ask *ask, const char *format, ...);

/* Adds "$n::type" with this value. NULL data is NULL. */
void pg_add_text(struct pg_ask *ask, const char *text);
void pg_add_bytes(struct pg_ask *ask, struct once_bytes bytes);
void pg_add_int8(struct pg_ask *ask, int64_t number);
void pg_add_int4(struct pg_ask *ask, int32_t number);
void pg_add_bool(struct pg_ask *ask, bool yes);

/* Rows come back in binary. The caller clears. */
PGresult *pg_ask(PGconn *conn, const struct pg_ask *ask);

/* Prints what went wrong and ends the program. */
__attribute__((noreturn)) void pg_die(const char *what, PGconn *conn, const PGresult *result);

/* Values of the first row by the names of their columns. NULL is 0, or no bytes. */
int64_t pg_int(const PGresult *result, int row, int column);
/* The same where 0 says something: NULL is PG_NULL. */
enum { PG_NULL = -1000 };
int64_t pg_word(const PGresult *result, int row, int column);
struct once_bytes pg_bytes(const PGresult *result, int row, int column);

#endif
