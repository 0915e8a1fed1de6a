/* SPDX-License-Identifier: Apache-2.0
 *
 * The decision table: what SQL decides against what the core decides, case by case.
 *
 *     pg_table_cases.c     which cases there are
 *     pg_table_send.c      how a case goes to PostgreSQL, and a record comes back
 *     pg_table.c           passes: once.decide, once.calls, the functions of a caller
 *     pg_table_sequence.c  the pass with many calls of one name in one batch, asked twice
 */
#ifndef ONCE_TESTS_PG_TABLE_H
#define ONCE_TESTS_PG_TABLE_H

#include <libpq-fe.h>

#include <once/store.h>

#include "core/decide.h"

/* A record, what meets it, and when. Bytes are static. Fields that the call does not have are
 * empty. */
struct table_case {
    enum once_call_kind call;
    const char *name; /* its key; NULL: a key of its own */
    struct once_record record;
    uint64_t id; /* of the record: its first fence */
    struct once_request begin;
    uint64_t fence;
    bool done;
    struct once_answer answer; /* fail: the reason */
    struct once_step step;
    once_ms lease_ms; /* renew */
    struct once_moment at;
};

typedef void table_visit(void *user, const struct table_case *one);

/* Every combination of what decisions look at; what they only carry along takes turns. Visits one
 * in every `stride`, chosen by the seed. Only at the first of the times when `one_time`. */
void table_each(uint64_t seed, unsigned stride, bool one_time, table_visit *visit, void *user);

/* Combinations of everything, at random. */
void table_random(uint64_t seed, size_t count, table_visit *visit, void *user);

/* What the core says. */
struct once_decision table_decide(const struct table_case *one);

/* "begin, started, lease over, …": for people who look for what went wrong. */
void table_describe(const struct table_case *one, char *ret_text, size_t size);

uint64_t table_shuffle(uint64_t *state);

/* ---- Sending -------------------------------------------------------------------------------- */

/* The temporary table "cases" of this connection, and what the passes need beside it. */
void table_prepare(PGconn *conn);

/* Replaces what is in "cases". Case i has the number i and the key of table_key. */
void table_send(PGconn *conn, const struct table_case *cases, size_t count, unsigned round);

/* A key that is as old as the begin says. */
enum { TABLE_KEY_SIZE = 40 };
void table_key(const struct table_case *one, unsigned round, size_t i,
               char ret_key[TABLE_KEY_SIZE]);

/* The query that makes all calls of "cases" in one batch: number of the case, word, fence, attempt,
 * retry_ms, code, point, data, result, now_ms; and for a get state, created_ms, lease_end_ms,
 * retention_ms, expires_ms, owner, fingerprint. again: an expression, does the name stand there
 * more than once. Call i has the id id_base + i. */
enum { TABLE_CALLS_SIZE = 2048 };
void table_calls_text(const char *again, uint64_t id_base, char ret_text[TABLE_CALLS_SIZE]);

/* The record in this row, from the column "state" on: state, attempt, fence, created_ms,
 * lease_end_ms, retention_ms, expires_ms, code, fingerprint, owner, point, data, result. Borrows
 * from the result. NULL is absent. */
struct once_record table_record(const PGresult *result, int row, int column);

/* The name of the first field in which they differ, or NULL. */
const char *table_record_differs(const struct once_record *a, const struct once_record *b);

/* ---- The pass of pg_table_sequence.c --------------------------------------------------------- */

/* Returns the failures; adds the calls that were made. */
int table_sequence(PGconn *conn, uint64_t seed, unsigned rounds, size_t *calls);

#endif
