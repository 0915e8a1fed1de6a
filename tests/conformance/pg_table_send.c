/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases go to PostgreSQL by COPY into a temporary table, so that thousands are one round trip and
 * every pass is a query on that table; records come back as rows in binary.
 */
#include "conformance/pg_link.h"
#include "conformance/pg_table.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_SIZE = 4096 };

/* Two casts and two functions make the passes short: the record and the request of a case, and a
 * call of a caller's function with its error as a word. */
static const char preparation[] =
    "SET client_min_messages = warning;"
    "CREATE TEMPORARY TABLE cases ("
    " i integer, call smallint, key text COLLATE \"C\","
    " id bigint, state smallint, attempt integer, fence bigint, created_ms bigint,"
    " lease_end_ms bigint, retention_ms bigint, expires_ms bigint, code integer,"
    " fingerprint bytea, owner bytea, point bytea, data bytea, result bytea,"
    " q_fingerprint bytea, q_owner bytea, q_birth_ms bigint, q_ttl_ms bigint, q_lease_ms bigint,"
    " q_retry boolean, q_fence bigint, q_done boolean, q_code integer, q_result bytea,"
    " q_point bytea, q_data bytea, q_follows boolean, q_after bytea,"
    " now_ms bigint, next_fence bigint);"
    "CREATE FUNCTION pg_temp.rec(c cases) RETURNS once.operation LANGUAGE sql AS $$"
    " SELECT ROW('t', c.key, c.id, c.state, c.attempt, c.fence, c.created_ms, c.lease_end_ms,"
    " c.retention_ms, c.expires_ms, c.code, c.fingerprint, c.owner, c.point, c.data, c.result,"
    " NULL)::once.operation $$;"
    "CREATE FUNCTION pg_temp.req(c cases) RETURNS once.request LANGUAGE sql AS $$"
    " SELECT ROW(c.q_fingerprint, c.q_owner, c.q_birth_ms, c.q_ttl_ms, c.q_lease_ms, c.q_retry,"
    " c.q_fence, c.q_done, c.q_code, c.q_result, c.q_point, c.q_data, c.q_follows, c.q_after)"
    "::once.request $$;"
    "CREATE TYPE pg_temp.answer AS (word smallint, fence bigint, attempt integer, retry_ms bigint,"
    " code integer, point bytea, data bytea, result bytea);"
    "CREATE FUNCTION pg_temp.try(c cases) RETURNS pg_temp.answer LANGUAGE plpgsql AS $$"
    " DECLARE a pg_temp.answer; v once.verdict;"
    " words text[] := ARRAY['EXECUTE', 'REPLAY', 'BUSY', 'MISMATCH', 'DOUBT', 'TOO_OLD', 'OK',"
    "  'STALE', 'NOTFOUND'];"
    " BEGIN"
    "  CASE c.call"
    "  WHEN 0 THEN"
    "   v := once.begin('t', c.key, nullif(c.q_fingerprint, decode(repeat('00', 32), 'hex')),"
    "    convert_from(c.q_owner, 'UTF8'), c.q_ttl_ms, c.q_lease_ms,"
    "    CASE WHEN c.q_retry THEN 'RETRY' ELSE 'REJECT' END, c.i % 5 <> 0);"
    "   a := (0, v.fence, v.attempt, v.retry_ms, v.code, convert_to(v.point, 'UTF8'), v.data,"
    "    v.result);"
    "  WHEN 1 THEN v.verdict := once.complete('t', c.key, c.q_fence, c.q_code, c.q_result);"
    "  WHEN 2 THEN v.verdict := once.fail('t', c.key, c.q_fence,"
    "   convert_from(c.q_result, 'UTF8'));"
    "  WHEN 3 THEN v.verdict := once.checkpoint('t', c.key, c.q_fence,"
    "   convert_from(c.q_point, 'UTF8'), c.q_data,"
    "   CASE WHEN c.q_follows THEN convert_from(c.q_after, 'UTF8') END);"
    "  WHEN 4 THEN v.verdict := once.renew('t', c.key, c.q_fence, c.q_lease_ms);"
    "  WHEN 5 THEN v.verdict := once.resolve('t', c.key, c.q_done, c.q_code, c.q_result,"
    "   c.q_fence);"
    "  WHEN 6 THEN v.verdict := once.forget('t', c.key, c.q_fence);"
    "  END CASE;"
    "  a.word := array_position(words, v.verdict) - 1;"
    "  RETURN a;"
    " EXCEPTION WHEN OTHERS THEN"
    "  IF SQLSTATE !~ '^ON' OR words[substr(SQLSTATE, 3)::int + 1] <> split_part(SQLERRM, ' ', 1)"
    "   THEN RAISE; END IF;"
    "  a := NULL;"
    "  a.word := substr(SQLSTATE, 3);"
    "  a.retry_ms := substring(SQLERRM FROM 'come back in ([0-9]+) ms');"
    "  RETURN a;"
    " END $$;";

void table_prepare(PGconn *conn)
{
    pg_run(conn, preparation);
}

void table_key(const struct table_case *one, unsigned round, size_t i, char ret_key[TABLE_KEY_SIZE])
{
    once_ms birth_ms = one->begin.birth_ms;

    if (one->name)
        snprintf(ret_key, TABLE_KEY_SIZE, "%s", one->name);
    else if (one->call != ONCE_CALL_BEGIN || birth_ms == ONCE_BIRTH_NONE || birth_ms >= 1LL << 48)
        snprintf(ret_key, TABLE_KEY_SIZE, "k%u-%zu", round, i);
    else
        snprintf(ret_key, TABLE_KEY_SIZE, "%08x-%04x-7%03x-8%03x-%012zx",
                 (unsigned)(birth_ms >> 16), (unsigned)(birth_ms & 0xffff), round & 0xfffU,
                 (round >> 12) & 0xfffU, i);
}

void table_calls_text(const char *again, uint64_t id_base, char ret_text[TABLE_CALLS_SIZE])
{
    int size = snprintf(
        ret_text, TABLE_CALLS_SIZE,
        "SELECT a.i[t.i], t.word, t.fence, t.attempt, t.retry_ms, t.code, t.point, t.data,"
        " t.result, t.now_ms, t.state, t.created_ms, t.lease_end_ms, t.retention_ms, t.expires_ms,"
        " t.owner, t.fingerprint FROM (SELECT array_agg(i) i, array_agg(call) AS call,"
        " array_agg('t'::text) ns, array_agg(key) AS key, array_agg(again) again,"
        " array_agg(q_fingerprint) fingerprint, array_agg(q_owner) AS owner,"
        " array_agg(q_birth_ms) birth_ms, array_agg(q_ttl_ms) ttl_ms, array_agg(q_lease_ms)"
        " lease_ms, array_agg(q_retry) retry, array_agg(q_fence) fence, array_agg(q_done) done,"
        " array_agg(q_code) code, array_agg(q_result) AS result, array_agg(q_point) point,"
        " array_agg(q_data) AS data, array_agg(q_follows) follows, array_agg(q_after) AS after,"
        " array_agg(lpad(to_hex(%" PRIu64 " + i), 32, '0')::uuid) id"
        " FROM (SELECT *, %s AS again FROM cases ORDER BY key, i) s) a,"
        " LATERAL once.calls(a.call, a.ns, a.key, a.again, a.fingerprint, a.owner, a.birth_ms,"
        " a.ttl_ms, a.lease_ms, a.retry, a.fence, a.done, a.code, a.result, a.point, a.data,"
        " a.follows, a.after, a.id) t",
        id_base, again);

    ONCE_ASSERT(size > 0 && size < TABLE_CALLS_SIZE);
}

/* ---- A line of COPY ------------------------------------------------------------------------- */

struct line {
    char text[LINE_SIZE];
    size_t size;
};

__attribute__((format(printf, 2, 3))) static void put(struct line *line, const char *format, ...)
{
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(line->text + line->size, sizeof(line->text) - line->size, format, args);
    va_end(args);
    ONCE_ASSERT(size >= 0 && (size_t)size < sizeof(line->text) - line->size);
    line->size += (size_t)size;
}

static void put_number(struct line *line, int64_t number)
{
    put(line, "\t%" PRId64, number);
}

static void put_bytes(struct line *line, struct once_bytes bytes)
{
    put(line, "\t\\\\x");
    for (size_t i = 0; i < bytes.size; i++)
        put(line, "%02x", bytes.data[i]);
}

static void put_record(struct line *line, const struct table_case *one)
{
    const struct once_record *record = &one->record;
    const struct once_bytes print = {record->fingerprint.bytes, sizeof(record->fingerprint.bytes)};

    put_number(line, (int64_t)one->id);
    put_number(line, record->state);
    put_number(line, record->attempt);
    put_number(line, (int64_t)record->fence);
    put_number(line, record->created_ms);
    put_number(line, record->lease_end_ms);
    put_number(line, record->retention_ms);
    put_number(line, record->expires_ms);
    put_number(line, record->code);
    put_bytes(line, print);
    put_bytes(line, record->owner);
    put_bytes(line, record->point);
    put_bytes(line, record->data);
    put_bytes(line, record->result);
}

static void put_request(struct line *line, const struct table_case *one)
{
    const struct once_request *begin = &one->begin;
    const struct once_bytes print = {begin->fingerprint.bytes, sizeof(begin->fingerprint.bytes)};

    put_bytes(line, print);
    put_bytes(line, begin->owner);
    put_number(line, begin->birth_ms);
    put_number(line, begin->retention_ms);
    put_number(line, one->call == ONCE_CALL_BEGIN ? begin->lease_ms : one->lease_ms);
    put_number(line, begin->on_doubt == ONCE_ON_DOUBT_RETRY);
    put_number(line, (int64_t)one->fence);
    put_number(line, one->done);
    put_number(line, one->answer.code);
    put_bytes(line, one->answer.result);
    put_bytes(line, one->step.point);
    put_bytes(line, one->step.data);
    put_number(line, one->step.follows);
    put_bytes(line, one->step.after);
}

void table_send(PGconn *conn, const struct table_case *cases, size_t count, unsigned round)
{
    PGresult *result;

    pg_run(conn, "TRUNCATE cases");
    result = PQexec(conn, "COPY cases FROM STDIN");
    if (PQresultStatus(result) != PGRES_COPY_IN)
        pg_die("COPY", conn, result);
    PQclear(result);
    for (size_t i = 0; i < count; i++) {
        const struct table_case *one = &cases[i];
        struct line line = {.size = 0};
        char key[TABLE_KEY_SIZE];

        table_key(one, round, i, key);
        put(&line, "%zu\t%d\t%s", i, (int)one->call, key);
        put_record(&line, one);
        put_request(&line, one);
        put_number(&line, one->at.now_ms);
        put_number(&line, (int64_t)one->at.next_fence);
        put(&line, "\n");
        if (PQputCopyData(conn, line.text, (int)line.size) != 1)
            pg_die("COPY", conn, NULL);
    }
    if (PQputCopyEnd(conn, NULL) != 1)
        pg_die("COPY", conn, NULL);
    result = PQgetResult(conn);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        pg_die("COPY", conn, result);
    PQclear(result);
    ONCE_ASSERT(PQgetResult(conn) == NULL);
}

/* ---- Records -------------------------------------------------------------------------------- */

struct once_record table_record(const PGresult *result, int row, int column)
{
    struct once_record record = {.state = (enum once_state)pg_int(result, row, column)};
    struct once_bytes print = pg_bytes(result, row, column + 8);

    record.attempt = (uint32_t)pg_int(result, row, column + 1);
    record.fence = (uint64_t)pg_int(result, row, column + 2);
    record.created_ms = pg_int(result, row, column + 3);
    record.lease_end_ms = pg_int(result, row, column + 4);
    record.retention_ms = pg_int(result, row, column + 5);
    record.expires_ms = pg_int(result, row, column + 6);
    record.code = (int32_t)pg_int(result, row, column + 7);
    if (print.size > 0) {
        if (print.size != sizeof(record.fingerprint.bytes))
            pg_die("a fingerprint has 32 bytes", NULL, NULL);
        memcpy(record.fingerprint.bytes, print.data, print.size);
    }
    record.owner = pg_bytes(result, row, column + 9);
    record.point = pg_bytes(result, row, column + 10);
    record.data = pg_bytes(result, row, column + 11);
    record.result = pg_bytes(result, row, column + 12);
    return record;
}

const char *table_record_differs(const struct once_record *a, const struct once_record *b)
{
    if (a->state != b->state)
        return "state";
    if (a->attempt != b->attempt)
        return "attempt";
    if (a->fence != b->fence)
        return "fence";
    if (a->created_ms != b->created_ms)
        return "created_ms";
    if (a->lease_end_ms != b->lease_end_ms)
        return "lease_end_ms";
    if (a->retention_ms != b->retention_ms)
        return "retention_ms";
    if (a->expires_ms != b->expires_ms)
        return "expires_ms";
    if (a->code != b->code)
        return "code";
    if (!once__fingerprint_equal(&a->fingerprint, &b->fingerprint))
        return "fingerprint";
    if (!once__bytes_equal(a->owner, b->owner))
        return "owner";
    if (!once__bytes_equal(a->point, b->point))
        return "point";
    if (!once__bytes_equal(a->data, b->data))
        return "data";
    return once__bytes_equal(a->result, b->result) ? NULL : "result";
}
