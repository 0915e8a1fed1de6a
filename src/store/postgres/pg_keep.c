/* SPDX-License-Identifier: Apache-2.0
 *
 * What a group asks for and writes, as statements: the arrays that go to once.hold and once.keep
 * and the rows that come back (hosts/postgres/1.1/60_objects.sql). Bytes are sent as values, never
 * as SQL, and what comes back is checked as everything from outside.
 *
 * Does not wait and knows no transaction: pg_apply.c.
 */
#include "store/postgres/pg_group.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* PostgreSQL takes less than 1 GiB in one message. */
enum { MESSAGE_SIZE_MAX = 1000 << 20 };

enum { PARAMS_MAX = 17, NUMBER_TEXT_SIZE = 24 };

/* The parameters of one statement. The first error stays. */
struct params {
    int err;
    int count;
    struct once_buf bufs[PARAMS_MAX];
    uint32_t types[PARAMS_MAX];
    bool texts[PARAMS_MAX];
};

static void params_init(struct params *params)
{
    memset(params, 0, sizeof(*params));
    for (size_t i = 0; i < PARAMS_MAX; i++)
        once_buf_init(&params->bufs[i], MESSAGE_SIZE_MAX);
}

static void params_release(struct params *params)
{
    for (size_t i = 0; i < PARAMS_MAX; i++)
        once_buf_release(&params->bufs[i]);
}

static void note(struct params *params, int err)
{
    if (params->err == ONCE_OK)
        params->err = err;
}

static void add_number(struct params *params, int64_t number)
{
    char text[NUMBER_TEXT_SIZE];
    int size = snprintf(text, sizeof(text), "%" PRId64, number);

    ONCE_ASSERT(params->count < PARAMS_MAX && size > 0 && size < (int)sizeof(text));
    params->types[params->count] = ONCE__PG_INT8;
    params->texts[params->count] = true;
    note(params, once_buf_append(&params->bufs[params->count++], text, (size_t)size + 1));
}

static struct once_buf *add_array(struct params *params, uint32_t type, size_t count)
{
    static const struct {
        uint32_t element, array;
    } types[] = {
        {ONCE__PG_BYTEA, ONCE__PG_BYTEA_ARRAY}, {ONCE__PG_INT8, ONCE__PG_INT8_ARRAY},
        {ONCE__PG_INT2, ONCE__PG_INT2_ARRAY},   {ONCE__PG_INT4, ONCE__PG_INT4_ARRAY},
        {ONCE__PG_TEXT, ONCE__PG_TEXT_ARRAY},   {ONCE__PG_UUID, ONCE__PG_UUID_ARRAY},
    };
    struct once_buf *buf = &params->bufs[params->count];

    ONCE_ASSERT(params->count < PARAMS_MAX);
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        if (types[i].element == type)
            params->types[params->count] = types[i].array;
    }
    ONCE_ASSERT(params->types[params->count] != 0);
    params->count++;
    note(params, once__pg_array_begin(buf, type, count));
    return buf;
}

static int send_statement(struct params *params, PGconn *conn, const char *sql)
{
    const char *values[PARAMS_MAX];
    int sizes[PARAMS_MAX], formats[PARAMS_MAX];
    size_t size = 0;

    for (int i = 0; params->err == ONCE_OK && i < params->count; i++) {
        values[i] = (const char *)params->bufs[i].data;
        sizes[i] = (int)params->bufs[i].size;
        formats[i] = params->texts[i] ? 0 : 1;
        size += params->bufs[i].size;
    }
    if (params->err == ONCE_OK && size > MESSAGE_SIZE_MAX)
        params->err = ONCE_ERR_FULL;
    if (params->err == ONCE_OK &&
        PQsendQueryParams(conn, sql, params->count, params->types, values, sizes, formats, 1) != 1)
        params->err = ONCE_ERR_IO;
    return params->err;
}

/* ---- Holding --------------------------------------------------------------------------------- */

/* The bytes of all together are bounded as those of objects; what was not given is NULL. */
static const char hold_sql[] =
    "SELECT id, state, attempt, fence, created_ms, lease_end_ms, retention_ms, expires_ms, code,"
    " fingerprint, owner, point, CASE WHEN sum <= $5 THEN data END,"
    " CASE WHEN sum <= $5 THEN result END FROM (SELECT h.*, sum(octet_length(h.data) +"
    " octet_length(h.result)) OVER (ROWS UNBOUNDED PRECEDING) FROM once.hold($1, $2, $3, $4) h) t";

static int send_hold(const struct once__pg_group *group, PGconn *conn, int64_t lane_id,
                     int64_t number)
{
    struct once_buf *ns, *key;
    struct params params;
    int err;

    params_init(&params);
    add_number(&params, lane_id);
    add_number(&params, number);
    ns = add_array(&params, ONCE__PG_TEXT, group->row_count);
    key = add_array(&params, ONCE__PG_TEXT, group->row_count);
    for (size_t i = 0; params.err == ONCE_OK && i < group->row_count; i++) {
        note(&params, once__pg_put_bytes(ns, group->rows[i].name.ns));
        note(&params, once__pg_put_bytes(key, group->rows[i].name.key));
    }
    add_number(&params, ONCE_PG_ANSWERS_SIZE_MAX);
    err = send_statement(&params, conn, hold_sql);
    params_release(&params);
    return err;
}

static int send_hold_objects(const struct once__pg_group *group, PGconn *conn)
{
    const int64_t one_max = 2LL * ONCE_EFFECTS_MAX * ONCE_PG_OBJECT_SIZE_MAX; /* no bound */
    struct once_buf *names;
    struct params params;
    int err;

    params_init(&params);
    names = add_array(&params, ONCE__PG_TEXT, group->thing_count);
    for (size_t i = 0; params.err == ONCE_OK && i < group->thing_count; i++)
        note(&params, once__pg_put_bytes(names, group->things[i].name));
    add_number(&params, group->count > 1 ? ONCE_PG_BODIES_SIZE_MAX : one_max);
    err = send_statement(&params, conn, "SELECT * FROM once.hold_objects($1, $2)");
    params_release(&params);
    return err;
}

int once__pg_hold_send(struct once__pg_group *group, PGconn *conn, int64_t lane_id, int64_t number,
                       size_t *ret_count)
{
    struct params params;
    int err = send_hold(group, conn, lane_id, number);

    if (err == ONCE_OK && group->thing_count > 0)
        err = send_hold_objects(group, conn);
    if (err != ONCE_OK)
        return err;
    params_init(&params);
    add_number(&params, (int64_t)group->count);
    err = send_statement(&params, conn, "SELECT * FROM once.moment($1::integer)");
    params_release(&params);
    if (err == ONCE_OK)
        *ret_count = group->thing_count > 0 ? 3 : 2;
    return err;
}

enum { ROW_COLUMNS = 14, THING_COLUMNS = 3, MOMENT_COLUMNS = 2 };

static bool shaped(const PGresult *result, size_t rows, int columns)
{
    return result && PQntuples(result) == (int)rows && PQnfields(result) == columns;
}

/* The numbers of a record, as they stand in the row: id to code. */
static int read_numbers(const PGresult *result, int row, struct once__pg_row *ret_row)
{
    struct once_record *record = &ret_row->found;
    int64_t fence = 0;
    int32_t attempt = 0;
    int16_t state = 0;
    int err = once__pg_get_i64(result, row, 0, &ret_row->found_id);

    if (err == ONCE_OK)
        err = once__pg_get_i16(result, row, 1, &state);
    if (err == ONCE_OK)
        err = once__pg_get_i32(result, row, 2, &attempt);
    if (err == ONCE_OK)
        err = once__pg_get_i64(result, row, 3, &fence);
    if (err == ONCE_OK)
        err = once__pg_get_i64(result, row, 4, &record->created_ms);
    if (err == ONCE_OK)
        err = once__pg_get_i64(result, row, 5, &record->lease_end_ms);
    if (err == ONCE_OK)
        err = once__pg_get_i64(result, row, 6, &record->retention_ms);
    if (err == ONCE_OK)
        err = once__pg_get_i64(result, row, 7, &record->expires_ms);
    if (err == ONCE_OK)
        err = once__pg_get_i32(result, row, 8, &record->code);
    if (err != ONCE_OK)
        return err;
    if (state < 0 || attempt < 0 || fence < 0)
        return ONCE_ERR_DAMAGED;
    record->state = (enum once_state)state;
    record->attempt = (uint32_t)attempt;
    record->fence = (uint64_t)fence;
    return ONCE_OK;
}

/* A row that is not a record concerns only who asks for it. */
static void read_row(const PGresult *result, int row, struct once__pg_row *ret_row)
{
    struct once_record *record = &ret_row->found;
    struct once_bytes fingerprint = once__pg_get_bytes(result, row, 9);
    struct once_defect defect;

    *record = (struct once_record){.state = ONCE_STATE_ABSENT};
    ret_row->damaged = read_numbers(result, row, ret_row) != ONCE_OK;
    if (ret_row->damaged || record->state == ONCE_STATE_ABSENT)
        return;
    record->owner = once__pg_get_bytes(result, row, 10);
    record->point = once__pg_get_bytes(result, row, 11);
    record->data = once__pg_get_bytes(result, row, 12);
    record->result = once__pg_get_bytes(result, row, 13);
    ret_row->left_out = PQgetisnull(result, row, 13) == 1;
    if (fingerprint.size == sizeof(record->fingerprint.bytes))
        memcpy(record->fingerprint.bytes, fingerprint.data, fingerprint.size);
    ret_row->damaged = fingerprint.size != sizeof(record->fingerprint.bytes) ||
                       once__record_check(record, &defect) != ONCE_OK;
    if (ret_row->damaged)
        *record = (struct once_record){.state = ONCE_STATE_ABSENT};
}

static int read_thing(const PGresult *result, int row, struct once__pg_thing *ret_thing)
{
    int err = once__pg_get_i64(result, row, 0, &ret_thing->found_id);

    if (err == ONCE_OK)
        err = once__pg_get_i64(result, row, 1, &ret_thing->found_version);
    if (err == ONCE_OK && ret_thing->found_version < 0)
        err = ONCE_ERR_DAMAGED;
    ret_thing->left_out = PQgetisnull(result, row, 2) == 1;
    ret_thing->found = once__pg_get_bytes(result, row, 2);
    return err;
}

int once__pg_hold_read(struct once__pg_group *group)
{
    bool all = group->thing_count > 0;
    const PGresult *rows = group->results[0], *things = all ? group->results[1] : NULL,
                   *moment = group->results[all ? 2 : 1];
    int err = ONCE_OK;

    if (!shaped(rows, group->row_count, ROW_COLUMNS) ||
        (all && !shaped(things, group->thing_count, THING_COLUMNS)) ||
        !shaped(moment, group->count, MOMENT_COLUMNS))
        return ONCE_ERR_DAMAGED;
    for (size_t i = 0; i < group->row_count; i++)
        read_row(rows, (int)i, &group->rows[i]);
    for (size_t i = 0; err == ONCE_OK && i < group->thing_count; i++)
        err = read_thing(things, (int)i, &group->things[i]);
    for (size_t i = 0; err == ONCE_OK && i < group->count; i++) {
        int64_t fence = 0;

        err = once__pg_get_i64(moment, (int)i, 0, &group->now_ms);
        if (err == ONCE_OK)
            err = once__pg_get_i64(moment, (int)i, 1, &fence);
        group->fences[i] = (uint64_t)fence;
    }
    return err;
}

/* ---- Keeping --------------------------------------------------------------------------------- */

/* What is written: what has changed, and rows that were made and are not needed. */
static bool row_goes_out(const struct once__pg_row *row)
{
    return row->changed || (row->found.state == ONCE_STATE_ABSENT && !row->damaged);
}

static bool thing_goes_out(const struct once__pg_thing *thing)
{
    return thing->order > 0 || thing->found_id < 0;
}

static void put_record(struct params *params, struct once_buf *bufs, const struct once__pg_row *row)
{
    const struct once_record *record = &row->record;
    struct once_bytes fingerprint = {record->fingerprint.bytes, sizeof(record->fingerprint.bytes)};
    struct once_bytes call = {row->call.bytes, sizeof(row->call.bytes)};

    note(params, once__pg_put_bytes(&bufs[0], row->name.ns));
    note(params, once__pg_put_bytes(&bufs[1], row->name.key));
    note(params, once__pg_put_i64(&bufs[2], row->id));
    note(params, once__pg_put_i16(&bufs[3], row->changed ? (int16_t)record->state : 0));
    note(params, once__pg_put_i32(&bufs[4], (int32_t)record->attempt));
    note(params, once__pg_put_i64(&bufs[5], (int64_t)record->fence));
    note(params, once__pg_put_i64(&bufs[6], record->created_ms));
    note(params, once__pg_put_i64(&bufs[7], record->lease_end_ms));
    note(params, once__pg_put_i64(&bufs[8], record->retention_ms));
    note(params, once__pg_put_i64(&bufs[9], record->expires_ms));
    note(params, once__pg_put_i32(&bufs[10], record->code));
    note(params, once__pg_put_bytes(&bufs[11], fingerprint));
    note(params, once__pg_put_bytes(&bufs[12], record->owner));
    note(params, once__pg_put_bytes(&bufs[13], record->point));
    note(params, once__pg_put_bytes(&bufs[14], record->data));
    note(params, once__pg_put_bytes(&bufs[15], record->result));
    note(params, once__pg_put_bytes(&bufs[16], call));
}

static int send_keep(const struct once__pg_group *group, PGconn *conn, size_t count)
{
    static const uint32_t types[PARAMS_MAX] = {
        ONCE__PG_TEXT,  ONCE__PG_TEXT,  ONCE__PG_INT8,  ONCE__PG_INT2,  ONCE__PG_INT4,
        ONCE__PG_INT8,  ONCE__PG_INT8,  ONCE__PG_INT8,  ONCE__PG_INT8,  ONCE__PG_INT8,
        ONCE__PG_INT4,  ONCE__PG_BYTEA, ONCE__PG_BYTEA, ONCE__PG_BYTEA, ONCE__PG_BYTEA,
        ONCE__PG_BYTEA, ONCE__PG_UUID};
    struct params params;
    int err;

    params_init(&params);
    for (size_t i = 0; i < PARAMS_MAX; i++)
        (void)add_array(&params, types[i], count);
    for (size_t i = 0; params.err == ONCE_OK && i < group->row_count; i++) {
        if (row_goes_out(&group->rows[i]))
            put_record(&params, params.bufs, &group->rows[i]);
    }
    err = send_statement(&params, conn,
                         "SELECT once.keep($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, "
                         "$14, $15, $16, $17)");
    params_release(&params);
    return err;
}

static int send_keep_objects(const struct once__pg_group *group, PGconn *conn, size_t count)
{
    struct once_buf *names, *ids, *types, *versions, *bodies;
    struct params params;
    int err;

    params_init(&params);
    names = add_array(&params, ONCE__PG_TEXT, count);
    ids = add_array(&params, ONCE__PG_INT8, count);
    types = add_array(&params, ONCE__PG_INT2, count);
    versions = add_array(&params, ONCE__PG_INT8, count);
    bodies = add_array(&params, ONCE__PG_BYTEA, count);
    for (size_t i = 0; params.err == ONCE_OK && i < group->thing_count; i++) {
        const struct once__pg_thing *thing = &group->things[i];
        const struct once__object *object = thing->order > 0
                                                ? once__objects_find(group->objects, thing->name)
                                                : NULL;
        enum once_object_type type = object ? once__object_type(object) : ONCE_OBJECT_NONE;
        uint64_t version = once_object_mergeable(type) ? once__object_version(object) : 0;

        if (!thing_goes_out(thing))
            continue;
        note(&params, once__pg_put_bytes(names, thing->name));
        note(&params, once__pg_put_i64(ids, thing->id));
        note(&params, once__pg_put_i16(types, (int16_t)type));
        note(&params, once__pg_put_i64(versions, (int64_t)version));
        note(&params, once__pg_put_bytes(bodies, once_buf_bytes(&thing->body)));
    }
    err = send_statement(&params, conn, "SELECT once.keep_objects($1, $2, $3, $4, $5)");
    params_release(&params);
    return err;
}

int once__pg_keep_send(struct once__pg_group *group, PGconn *conn, size_t *ret_count)
{
    size_t rows = 0, things = 0, count = 0;
    int err = ONCE_OK;

    for (size_t i = 0; i < group->row_count; i++)
        rows += row_goes_out(&group->rows[i]) ? 1 : 0;
    for (size_t i = 0; i < group->thing_count; i++)
        things += thing_goes_out(&group->things[i]) ? 1 : 0;
    if (rows > 0 && ++count)
        err = send_keep(group, conn, rows);
    if (err == ONCE_OK && things > 0 && ++count)
        err = send_keep_objects(group, conn, things);
    if (err == ONCE_OK)
        *ret_count = count;
    return err;
}
