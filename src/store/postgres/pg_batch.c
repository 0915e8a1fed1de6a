/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch of calls as one statement: arrays out, rows in. Keeps no state but the buffers that the
 * arrays are written into.
 *
 * The calls are sorted by name, so that all servers lock rows in one order; calls of one name stay
 * in the order in which they were submitted. An answer is written by the same function as in every
 * store (once__call_tell), out of what the row says.
 */
#include "store/postgres/pg_inner.h"

#include "base/assert.h"
#include "store/call.h"

#include <stdlib.h>
#include <string.h>

/* ---- Asking ---------------------------------------------------------------------------------- */

/* In the order of once.calls. */
enum {
    P_CALL,
    P_NS,
    P_KEY,
    P_AGAIN,
    P_FINGERPRINT,
    P_OWNER,
    P_BIRTH,
    P_TTL,
    P_LEASE,
    P_RETRY,
    P_FENCE,
    P_DONE,
    P_CODE,
    P_RESULT,
    P_POINT,
    P_DATA,
    P_FOLLOWS,
    P_AFTER,
    P_ID
};
_Static_assert(P_ID + 1 == ONCE__PG_PARAMS, "one for each");

static const struct {
    Oid array;
    uint32_t element;
} types[ONCE__PG_PARAMS] = {
    [P_CALL] = {ONCE__PG_INT2_ARRAY, ONCE__PG_INT2},
    [P_NS] = {ONCE__PG_TEXT_ARRAY, ONCE__PG_TEXT},
    [P_KEY] = {ONCE__PG_TEXT_ARRAY, ONCE__PG_TEXT},
    [P_AGAIN] = {ONCE__PG_BOOL_ARRAY, ONCE__PG_BOOL},
    [P_FINGERPRINT] = {ONCE__PG_BYTEA_ARRAY, ONCE__PG_BYTEA},
    [P_OWNER] = {ONCE__PG_BYTEA_ARRAY, ONCE__PG_BYTEA},
    [P_BIRTH] = {ONCE__PG_INT8_ARRAY, ONCE__PG_INT8},
    [P_TTL] = {ONCE__PG_INT8_ARRAY, ONCE__PG_INT8},
    [P_LEASE] = {ONCE__PG_INT8_ARRAY, ONCE__PG_INT8},
    [P_RETRY] = {ONCE__PG_BOOL_ARRAY, ONCE__PG_BOOL},
    [P_FENCE] = {ONCE__PG_INT8_ARRAY, ONCE__PG_INT8},
    [P_DONE] = {ONCE__PG_BOOL_ARRAY, ONCE__PG_BOOL},
    [P_CODE] = {ONCE__PG_INT4_ARRAY, ONCE__PG_INT4},
    [P_RESULT] = {ONCE__PG_BYTEA_ARRAY, ONCE__PG_BYTEA},
    [P_POINT] = {ONCE__PG_BYTEA_ARRAY, ONCE__PG_BYTEA},
    [P_DATA] = {ONCE__PG_BYTEA_ARRAY, ONCE__PG_BYTEA},
    [P_FOLLOWS] = {ONCE__PG_BOOL_ARRAY, ONCE__PG_BOOL},
    [P_AFTER] = {ONCE__PG_BYTEA_ARRAY, ONCE__PG_BYTEA},
    [P_ID] = {ONCE__PG_UUID_ARRAY, ONCE__PG_UUID},
};

/* In the order of C_I and so on. Answers that come behind too many bytes are left out: they were
 * decided, and are asked for again. Their bytes are not even read where they are kept apart from
 * their row.
 *
 * The second statement does not wait for a row that someone holds: its timeout holds for its own
 * transaction, and is set before the function is called because an argument needs it. */
#define COLUMNS                                                                                    \
    "SELECT i, word, now_ms, fence, attempt, retry_ms, code, point,"                               \
    " CASE WHEN NOT left_out THEN data END, CASE WHEN NOT left_out THEN result END, state,"        \
    " created_ms, lease_end_ms, retention_ms, expires_ms, owner, fingerprint, left_out"            \
    " FROM (SELECT c.*, sum(coalesce(octet_length(c.data), 0) + coalesce(octet_length(c.result),"  \
    " 0)) OVER (ROWS UNBOUNDED PRECEDING) > 67108864 AS left_out FROM "
_Static_assert(ONCE_PG_ANSWERS_SIZE_MAX == 67108864, "the statement says so");
#define REST                                                                                       \
    ", $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) c) t"

static const struct {
    const char *name;
    const char *sql;
} statements[2] = {
    {"once_calls", COLUMNS "once.calls($1" REST},
    {"once_calls_held",
     "WITH s AS MATERIALIZED (SELECT set_config('lock_timeout', '10', true) AS v) " COLUMNS
     "s, LATERAL once.calls(CASE WHEN s.v IS NOT NULL THEN $1 END" REST},
};

int once__pg_batch_prepare(struct once__pg_link *link, once_ms until_ms)
{
    Oid oids[ONCE__PG_PARAMS];

    for (size_t i = 0; i < ONCE__PG_PARAMS; i++)
        oids[i] = types[i].array;
    for (size_t i = 0; i < 2; i++) {
        int err = ONCE_OK, failed = ONCE_OK;
        PGresult *result;

        if (PQsendPrepare(link->conn, statements[i].name, statements[i].sql, ONCE__PG_PARAMS,
                          oids) != 1)
            return once__pg_failed(link, NULL);
        while ((err = once__pg_next(link, until_ms, &result)) == ONCE_OK && result) {
            if (PQresultStatus(result) != PGRES_COMMAND_OK)
                failed = once__pg_failed(link, result);
            PQclear(result);
        }
        if (err != ONCE_OK || failed != ONCE_OK)
            return err != ONCE_OK ? err : failed;
    }
    return ONCE_OK;
}

/* Room for the largest result beside a full batch, and for what each element has around it. */
#define PARAM_SIZE_MAX ((size_t)ONCE_PG_BATCH_SIZE_MAX + ONCE_RESULT_SIZE_MAX + (1 << 16))
enum { KEPT_SIZE_MAX = 1 << 20 };

void once__pg_writer_init(struct once__pg_writer *writer)
{
    for (size_t i = 0; i < ONCE__PG_PARAMS; i++)
        once_buf_init(&writer->params[i], PARAM_SIZE_MAX);
}

void once__pg_writer_release(struct once__pg_writer *writer)
{
    for (size_t i = 0; i < ONCE__PG_PARAMS; i++)
        once_buf_release(&writer->params[i]);
}

size_t once__pg_op_size(const struct once_op *op)
{
    size_t size = op->ns.size + op->key.size + op->owner.size + op->result.size + op->point.size +
                  op->data.size + op->after.size + 256;

    for (size_t i = 0; i < op->do_count; i++) {
        for (size_t j = 0; j < op->dos[i].count; j++)
            size += op->dos[i].words[j].size;
    }
    return size;
}

int once__pg_op_check(struct once_op *op)
{
    struct once_request request = {.fingerprint = op->inner.fingerprint,
                                   .owner = op->owner,
                                   .birth_ms = op->inner.birth_ms,
                                   .retention_ms = op->ttl_ms,
                                   .lease_ms = op->lease_ms,
                                   .on_doubt = op->on_doubt};
    struct once_defect defect = {0, NULL};
    int err;

    if (op->call != ONCE_CALL_BEGIN)
        return ONCE_OK;
    if (request.retention_ms == 0)
        request.retention_ms = ONCE_RETENTION_MS_DEFAULT;
    if (request.lease_ms == 0)
        request.lease_ms = ONCE_LEASE_MS_DEFAULT;
    /* Whether it was born in the future the database will say: its clock counts. */
    err = once__request_check(
        &request,
        request.birth_ms > 0 && request.birth_ms <= ONCE_NOW_MS_MAX ? request.birth_ms : 0,
        &defect);
    if (err != ONCE_OK)
        once__call_refuse(op, err, defect.what);
    return err;
}

static once_ms ttl_of(const struct once_op *op)
{
    return op->ttl_ms != 0 ? op->ttl_ms : ONCE_RETENTION_MS_DEFAULT;
}

static once_ms lease_of(const struct once_op *op)
{
    bool by_default = op->call == ONCE_CALL_BEGIN && op->lease_ms == 0;

    return by_default ? ONCE_LEASE_MS_DEFAULT : op->lease_ms;
}

/* A fence that no store gives is larger than any: -1 is never the fence of a record. */
static int64_t fence_of(const struct once_op *op)
{
    return op->fence <= ONCE_FENCE_MAX ? (int64_t)op->fence : -1;
}

static int put_op(struct once_buf *params, const struct once_op *op, bool again,
                  const struct once__pg_id *id)
{
    const struct once_bytes fingerprint = {op->inner.fingerprint.bytes,
                                           sizeof(op->inner.fingerprint.bytes)};
    const struct once_bytes uuid = {id->bytes, sizeof(id->bytes)};
    int errs[ONCE__PG_PARAMS] = {
        [P_CALL] = once__pg_put_i16(&params[P_CALL], (int16_t)op->call),
        [P_NS] = once__pg_put_bytes(&params[P_NS], op->ns),
        [P_KEY] = once__pg_put_bytes(&params[P_KEY], op->key),
        [P_AGAIN] = once__pg_put_bool(&params[P_AGAIN], again),
        [P_FINGERPRINT] = once__pg_put_bytes(&params[P_FINGERPRINT], fingerprint),
        [P_OWNER] = once__pg_put_bytes(&params[P_OWNER], op->owner),
        [P_BIRTH] = once__pg_put_i64(&params[P_BIRTH], op->inner.birth_ms),
        [P_TTL] = once__pg_put_i64(&params[P_TTL], ttl_of(op)),
        [P_LEASE] = once__pg_put_i64(&params[P_LEASE], lease_of(op)),
        [P_RETRY] = once__pg_put_bool(&params[P_RETRY], op->on_doubt == ONCE_ON_DOUBT_RETRY),
        [P_FENCE] = once__pg_put_i64(&params[P_FENCE], fence_of(op)),
        [P_DONE] = once__pg_put_bool(&params[P_DONE], op->done),
        [P_CODE] = once__pg_put_i32(&params[P_CODE], op->code),
        [P_RESULT] = once__pg_put_bytes(&params[P_RESULT], op->result),
        [P_POINT] = once__pg_put_bytes(&params[P_POINT], op->point),
        [P_DATA] = once__pg_put_bytes(&params[P_DATA], op->data),
        [P_FOLLOWS] = once__pg_put_bool(&params[P_FOLLOWS], op->follows),
        [P_AFTER] = once__pg_put_bytes(&params[P_AFTER], op->after),
        [P_ID] = once__pg_put_bytes(&params[P_ID], uuid),
    };

    for (size_t i = 0; i < ONCE__PG_PARAMS; i++) {
        if (errs[i] != ONCE_OK)
            return errs[i];
    }
    return ONCE_OK;
}

static int compare_names(const struct once_op *a, const struct once_op *b)
{
    int order = once__bytes_compare(a->ns, b->ns);

    return order != 0 ? order : once__bytes_compare(a->key, b->key);
}

static int compare_ops(const void *a, const void *b)
{
    const struct once_op *one = *(struct once_op *const *)a;
    const struct once_op *other = *(struct once_op *const *)b;
    int order = compare_names(one, other);

    if (order != 0)
        return order;
    return one->inner.position < other->inner.position ? -1 : 1;
}

static int put_batch(struct once__pg_writer *writer, const struct once__pg_store *store,
                     const struct once__pg_batch *batch)
{
    struct once_op *const *ops = batch->ops;
    int err = ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < ONCE__PG_PARAMS; i++) {
        once_buf_clear(&writer->params[i]);
        err = once__pg_array_begin(&writer->params[i], types[i].element, batch->count);
    }
    for (size_t i = 0; err == ONCE_OK && i < batch->count; i++) {
        bool again = (i > 0 && compare_names(ops[i - 1], ops[i]) == 0) ||
                     (i + 1 < batch->count && compare_names(ops[i], ops[i + 1]) == 0);
        struct once__pg_id id = once__pg_call_id(store, ops[i]);

        err = put_op(writer->params, ops[i], again, &id);
    }
    return err;
}

int once__pg_batch_send(struct once__pg_link *link, struct once__pg_writer *writer,
                        struct once__pg_batch *batch)
{
    const char *values[ONCE__PG_PARAMS];
    int sizes[ONCE__PG_PARAMS], formats[ONCE__PG_PARAMS];
    const char *name = statements[batch->held ? 1 : 0].name;
    int sent, err;

    ONCE_ASSERT(batch->count > 0 && !batch->applies);
    qsort(batch->ops, batch->count, sizeof(struct once_op *), compare_ops);
    err = put_batch(writer, link->store, batch);
    if (err != ONCE_OK)
        return err;
    batch->sent_size = 0;
    for (size_t i = 0; i < ONCE__PG_PARAMS; i++) {
        values[i] = (const char *)writer->params[i].data;
        sizes[i] = (int)writer->params[i].size;
        formats[i] = 1;
        batch->sent_size += writer->params[i].size;
    }
    sent = PQsendQueryPrepared(link->conn, name, ONCE__PG_PARAMS, values, sizes, formats, 1) == 1 &&
           PQpipelineSync(link->conn) == 1;
    for (size_t i = 0; i < ONCE__PG_PARAMS; i++) {
        if (writer->params[i].capacity > KEPT_SIZE_MAX)
            once_buf_release(&writer->params[i]); /* libpq has its own copy */
    }
    return sent ? ONCE_OK : once__pg_failed(link, NULL);
}

/* ---- Reading --------------------------------------------------------------------------------- */

enum {
    C_I,
    C_WORD,
    C_NOW,
    C_FENCE,
    C_ATTEMPT,
    C_RETRY,
    C_CODE,
    C_POINT,
    C_DATA,
    C_RESULT,
    C_STATE,
    C_CREATED,
    C_LEASE_END,
    C_RETENTION,
    C_EXPIRES,
    C_OWNER,
    C_FINGERPRINT,
    C_LEFT_OUT,
    C_COUNT
};

/* One row. */
struct told {
    int16_t word;
    bool left_out;
    once_ms now_ms;
    struct once_decision decision;
};

static int read_record(const PGresult *result, int row, struct once_record *ret_record)
{
    struct once_bytes fingerprint = once__pg_get_bytes(result, row, C_FINGERPRINT);
    int64_t fence;
    int32_t attempt;
    int16_t state;

    if (once__pg_get_i64(result, row, C_FENCE, &fence) != ONCE_OK || fence < 0 ||
        once__pg_get_i32(result, row, C_ATTEMPT, &attempt) != ONCE_OK || attempt < 0 ||
        once__pg_get_i16(result, row, C_STATE, &state) != ONCE_OK || state < ONCE_STATE_ABSENT ||
        state > ONCE_STATE_DOUBT || once__pg_get_i32(result, row, C_CODE, &ret_record->code) ||
        once__pg_get_i64(result, row, C_CREATED, &ret_record->created_ms) != ONCE_OK ||
        once__pg_get_i64(result, row, C_LEASE_END, &ret_record->lease_end_ms) != ONCE_OK ||
        once__pg_get_i64(result, row, C_RETENTION, &ret_record->retention_ms) != ONCE_OK ||
        once__pg_get_i64(result, row, C_EXPIRES, &ret_record->expires_ms) != ONCE_OK ||
        (fingerprint.size != 0 && fingerprint.size != ONCE_FINGERPRINT_SIZE))
        return ONCE_ERR_DAMAGED;
    ret_record->state = (enum once_state)state;
    ret_record->fence = (uint64_t)fence;
    ret_record->attempt = (uint32_t)attempt;
    if (fingerprint.size > 0)
        memcpy(ret_record->fingerprint.bytes, fingerprint.data, fingerprint.size);
    ret_record->owner = once__pg_get_bytes(result, row, C_OWNER);
    ret_record->point = once__pg_get_bytes(result, row, C_POINT);
    ret_record->data = once__pg_get_bytes(result, row, C_DATA);
    ret_record->result = once__pg_get_bytes(result, row, C_RESULT);
    return ONCE_OK;
}

static int read_row(const PGresult *result, int row, struct told *ret_told)
{
    struct once_bytes left_out = once__pg_get_bytes(result, row, C_LEFT_OUT);
    struct told told = {.left_out = left_out.size == 1 && left_out.data[0] == 1};

    if (once__pg_get_i16(result, row, C_WORD, &told.word) != ONCE_OK || told.word > ONCE_NOTFOUND ||
        PQgetisnull(result, row, C_WORD) ||
        once__pg_get_i64(result, row, C_NOW, &told.now_ms) != ONCE_OK ||
        once__pg_get_i64(result, row, C_RETRY, &told.decision.retry_ms) != ONCE_OK ||
        read_record(result, row, &told.decision.next) != ONCE_OK)
        return ONCE_ERR_DAMAGED;
    if (told.word >= 0)
        told.decision.word = (enum once_word)told.word;
    *ret_told = told;
    return ONCE_OK;
}

/* Every call has exactly one row; rows[i] is that of op i. */
static int find_rows(const struct once__pg_batch *batch, int rows[ONCE_PG_BATCH_COUNT_MAX])
{
    int count = PQntuples(batch->result);

    if (PQnfields(batch->result) != C_COUNT || (size_t)count != batch->count)
        return ONCE_ERR_DAMAGED;
    for (int i = 0; i < count; i++)
        rows[i] = -1;
    for (int row = 0; row < count; row++) {
        int32_t at;

        if (once__pg_get_i32(batch->result, row, C_I, &at) != ONCE_OK || at < 1 || at > count ||
            rows[at - 1] >= 0)
            return ONCE_ERR_DAMAGED;
        rows[at - 1] = row;
    }
    return ONCE_OK;
}

static void tell(struct once_op *op, const struct told *told)
{
    if (told->word == ONCE_ERR_KEY_FUTURE)
        once__call_refuse(op, told->word,
                          "the key (UUIDv7) says that it was born more than 24 h in the future: "
                          "check the clock of the machine that made it");
    else if (told->word < 0)
        once__call_refuse(op, told->word, once_err_text(told->word));
    else if (once__call_tell(op, &told->decision, told->now_ms) != ONCE_OK)
        once__call_refuse(op, ONCE_ERR_IO, "there was no memory for the answer; ask again");
}

int once__pg_batch_read(struct once__pg_batch *batch, once_ms *ret_now_ms, size_t *ret_told)
{
    struct once_op *left_out[ONCE_PG_BATCH_COUNT_MAX];
    size_t left_count = 0, told_count = 0;
    int rows[ONCE_PG_BATCH_COUNT_MAX];
    struct told told;
    int err = find_rows(batch, rows);

    for (size_t i = 0; err == ONCE_OK && i < batch->count; i++)
        err = read_row(batch->result, rows[i], &told);
    if (err != ONCE_OK)
        return err;
    for (size_t i = 0; i < batch->count; i++) {
        struct once_op *op = batch->ops[i];

        if (read_row(batch->result, rows[i], &told) != ONCE_OK)
            return ONCE_ERR_DAMAGED;
        *ret_now_ms = told.now_ms;
        if (told.left_out) {
            left_out[left_count++] = op;
            continue;
        }
        tell(op, &told);
        batch->ops[told_count++] = op;
    }
    memcpy(batch->ops + told_count, left_out, left_count * sizeof(struct once_op *));
    *ret_told = told_count;
    return ONCE_OK;
}
