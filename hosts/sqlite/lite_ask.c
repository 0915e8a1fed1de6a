/* SPDX-License-Identifier: Apache-2.0
 *
 * One prepared statement, bound and stepped: how the functions beside those of an operation reach
 * their tables. Bytes are bound as they lie, so they must outlive the statement's rest.
 */
#include "lite.h"

struct once__lite_value once__lite_number(int64_t number)
{
    return (struct once__lite_value){.kind = ONCE__LITE_NUMBER, .number = number};
}

struct once__lite_value once__lite_text(struct once_bytes text)
{
    return (struct once__lite_value){.kind = ONCE__LITE_TEXT, .bytes = text};
}

struct once__lite_value once__lite_value_of(const struct once__lite_bytes *bytes)
{
    struct once__lite_value value = {.kind = ONCE__LITE_NULL, .bytes = bytes->bytes};

    if (bytes->given)
        value.kind = bytes->text ? ONCE__LITE_TEXT : ONCE__LITE_BLOB;
    return value;
}

static int bind(sqlite3_stmt *statement, int index, const struct once__lite_value *value)
{
    switch (value->kind) {
    case ONCE__LITE_NUMBER:
        return sqlite3_bind_int64(statement, index, value->number);
    case ONCE__LITE_TEXT:
    case ONCE__LITE_BLOB:
        return once__lite_bind_bytes(statement, index, value->bytes,
                                     value->kind == ONCE__LITE_TEXT);
    case ONCE__LITE_NULL:
        break;
    }
    return sqlite3_bind_null(statement, index);
}

bool once__lite_ask(struct once__lite_call *call, enum once__lite_sql which,
                    const struct once__lite_value *values, size_t count, sqlite3_stmt **ret_row)
{
    sqlite3_stmt *statement;
    int status = once__lite_statement(call->lite, which, &statement);

    *ret_row = NULL;
    for (size_t i = 0; status == SQLITE_OK && i < count; i++)
        status = bind(statement, (int)i + 1, &values[i]);
    if (status == SQLITE_OK)
        status = once__lite_step(call->lite, statement);
    if (status == SQLITE_ROW) {
        *ret_row = statement;
        return true;
    }
    once__lite_rest(statement);
    if (status == SQLITE_DONE)
        return true;
    once__lite_sqlite_error(call, status);
    return false;
}

bool once__lite_tell(struct once__lite_call *call, enum once__lite_sql which,
                     const struct once__lite_value *values, size_t count, int64_t *ret_changed)
{
    sqlite3_stmt *row;

    if (!once__lite_ask(call, which, values, count, &row))
        return false;
    once__lite_rest(row);
    if (!ret_changed)
        return once__lite_changed_one(call);
    *ret_changed = sqlite3_changes(call->lite->db);
    return true;
}

struct once_bytes once__lite_column(sqlite3_stmt *row, int index)
{
    const void *data = sqlite3_column_type(row, index) == SQLITE_TEXT
                           ? (const void *)sqlite3_column_text(row, index)
                           : sqlite3_column_blob(row, index);

    return (struct once_bytes){data, data ? (size_t)sqlite3_column_bytes(row, index) : 0};
}
