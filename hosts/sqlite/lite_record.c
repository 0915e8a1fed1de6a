/* SPDX-License-Identifier: Apache-2.0
 *
 * The transaction of a call, and what it reads and writes: records, store time, fences.
 *
 * Invariants.
 * - The write lock is held from before the record is read until the transaction ends, so that no
 *   other connection decides on the same record (INV-1). In a transaction of the caller that ends
 *   with the caller's COMMIT; a call outside of one has a transaction of its own.
 * - A fence is taken by raising once_meta.next_fence before the record is written. If that write
 *   fails, a fence was skipped. If the transaction is rolled back, the fence was never given, and
 *   neither was anything that could have gone out with it.
 * - Store time is the later of the wall clock and once_meta.last_ms, which is written with each
 *   fence, with each TOO_OLD, and otherwise once in ONCE_LITE_TICK_MS (INV-6).
 * - Rows are input: what a file holds is checked before the core sees it.
 */
#include "lite.h"

#include <string.h>
#include <time.h>

#include <once/limits.h>

/* ---- The transaction ------------------------------------------------------------------------- */

static void end_statements(struct once__lite *lite)
{
    if (!lite->kept && !lite->inside)
        once__lite_forget_statements(lite);
}

int once__lite_begin_own(struct once__lite *lite)
{
    sqlite3_stmt *rollback;
    int status = once__lite_statement(lite, ONCE__LITE_ROLLBACK, &rollback);

    if (status == SQLITE_OK)
        status = once__lite_run(lite, ONCE__LITE_BEGIN);
    lite->own = status == SQLITE_OK;
    return status;
}

/* A statement that writes, and calls us, has a transaction already: it ends with it. */
static int take_lock(struct once__lite *lite)
{
    int status = SQLITE_OK;

    if (sqlite3_get_autocommit(lite->db) && sqlite3_txn_state(lite->db, NULL) != SQLITE_TXN_WRITE)
        status = once__lite_begin_own(lite);
    /* Before the first read, so that SQLite waits for another writer as the caller has told it to
     * (busy_timeout), and does not find out in the middle that its view is old. */
    if (status == SQLITE_OK && sqlite3_txn_state(lite->db, "main") != SQLITE_TXN_WRITE &&
        sqlite3_db_readonly(lite->db, "main") == 0)
        status = once__lite_run(lite, ONCE__LITE_LOCK);
    return status;
}

bool once__lite_enter(struct once__lite_call *call)
{
    struct once__lite *lite = call->lite;
    int status;

    lite->reading = false;
    lite->own = false;
    status = take_lock(lite);
    if (status == SQLITE_OK)
        return true;
    once__lite_sqlite_error(call, status);
    once__lite_abandon(call);
    return false;
}

bool once__lite_leave(struct once__lite_call *call)
{
    struct once__lite *lite = call->lite;
    int status = SQLITE_OK;

    if (lite->own)
        status = once__lite_run(lite, ONCE__LITE_COMMIT);
    if (status != SQLITE_OK) {
        once__lite_sqlite_error(call, status);
        once__lite_abandon(call);
        return false;
    }
    lite->own = false;
    end_statements(lite);
    return true;
}

static void roll_back(struct once__lite *lite)
{
    /* Some errors have rolled it back already. */
    if (!sqlite3_get_autocommit(lite->db))
        (void)once__lite_run(lite, ONCE__LITE_ROLLBACK);
    /* After an interrupt, and where memory has ended, SQLite runs nothing more before the caller's
     * statement is over, not even that. A statement that would write, and is not let, makes it roll
     * back by itself. */
    if (!sqlite3_get_autocommit(lite->db))
        (void)once__lite_run(lite, ONCE__LITE_BEGIN);
}

void once__lite_abandon(struct once__lite_call *call)
{
    struct once__lite *lite = call->lite;

    if (lite->own)
        roll_back(lite);
    lite->own = false;
    end_statements(lite);
}

/* ---- Time and fences ------------------------------------------------------------------------- */

static once_ms wall_ms(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The first four columns of META and FIND. */
static bool read_meta(struct once__lite_call *call, sqlite3_stmt *statement)
{
    struct once__lite *lite = call->lite;
    int64_t version = sqlite3_column_int64(statement, 0);
    once_ms ahead_ms = sqlite3_column_int64(statement, 3), wall = wall_ms();
    struct once_defect defect = {0, NULL};
    int err;

    if (version < ONCE__LITE_VERSION) {
        once__lite_error(call, ONCE_ERR_VERSION,
                         "the tables are of an older version; SELECT once_install() upgrades them");
        return false;
    }
    if (version > ONCE__LITE_VERSION) {
        once__lite_error(call, ONCE_ERR_VERSION,
                         "the tables are of a newer version; use a newer once_sqlite");
        return false;
    }
    lite->next_fence = (uint64_t)sqlite3_column_int64(statement, 1);
    lite->last_ms = sqlite3_column_int64(statement, 2);
    lite->now_ms = -1;
    if (wall >= 0 && ahead_ms >= -ONCE_NOW_MS_MAX && ahead_ms <= ONCE_NOW_MS_MAX)
        lite->now_ms = wall + ahead_ms;
    if (lite->now_ms < lite->last_ms)
        lite->now_ms = lite->last_ms;
    err = once__moment_check(
        (struct once_moment){.now_ms = lite->now_ms, .next_fence = lite->next_fence}, &defect);
    if (err == ONCE_OK)
        return true;
    once__lite_error(call, err, defect.what);
    return false;
}

static void no_meta(struct once__lite_call *call)
{
    once__lite_error(call, ONCE_ERR_DAMAGED, "the table once_meta has lost its row");
}

bool once__lite_look(struct once__lite_call *call)
{
    sqlite3_stmt *statement;
    int status = once__lite_statement(call->lite, ONCE__LITE_META, &statement);
    bool ok = false;

    if (status == SQLITE_OK) {
        status = once__lite_step(call->lite, statement);
        if (status == SQLITE_ROW)
            ok = read_meta(call, statement);
        else if (status == SQLITE_DONE)
            no_meta(call);
        once__lite_rest(statement);
    }
    if (status != SQLITE_ROW && status != SQLITE_DONE)
        once__lite_sqlite_error(call, status);
    return ok;
}

bool once__lite_changed_one(struct once__lite_call *call)
{
    if (sqlite3_changes(call->lite->db) == 1)
        return true;
    once__lite_error(call, ONCE_ERR_DAMAGED,
                     "a row was not written: a trigger, or a view in place of the table, kept it");
    return false;
}

bool once__lite_mark(struct once__lite_call *call, bool fence_taken)
{
    struct once__lite *lite = call->lite;
    sqlite3_stmt *statement;
    int status = once__lite_statement(lite, ONCE__LITE_MARK, &statement);

    if (status == SQLITE_OK) {
        uint64_t next = lite->next_fence + (fence_taken ? 1 : 0);

        (void)sqlite3_bind_int64(statement, 1, (sqlite3_int64)next);
        (void)sqlite3_bind_int64(statement, 2, lite->now_ms);
        status = once__lite_step(lite, statement);
        once__lite_rest(statement);
        if (status == SQLITE_DONE) {
            if (!once__lite_changed_one(call))
                return false;
            lite->next_fence = next;
            lite->last_ms = lite->now_ms;
            return true;
        }
    }
    once__lite_sqlite_error(call, status);
    return false;
}

bool once__lite_start(struct once__lite_call *call)
{
    if (!once__lite_enter(call))
        return false;
    if (once__lite_look(call))
        return true;
    once__lite_abandon(call);
    return false;
}

void once__lite_end(struct once__lite_call *call, bool ok, int64_t number)
{
    if (!ok)
        once__lite_abandon(call);
    else if (once__lite_leave(call))
        sqlite3_result_int64(call->context, number);
}

/* ---- Records --------------------------------------------------------------------------------- */

/* Where the columns of a record begin: in a row that FIND gives, and among what is bound. */
enum { FOUND_AT = 4, BOUND_AT = 3 };

/* A number of the row that must fit into 32 bits. */
static bool fits(int64_t number, int64_t least, int64_t most)
{
    return number >= least && number <= most;
}

static bool read_record(struct once__lite_call *call, sqlite3_stmt *row,
                        struct once__lite_found *ret_found)
{
    struct once_bytes fingerprint = once__lite_column(row, FOUND_AT + 8);
    int64_t state = sqlite3_column_int64(row, FOUND_AT);
    int64_t attempt = sqlite3_column_int64(row, FOUND_AT + 1);
    int64_t code = sqlite3_column_int64(row, FOUND_AT + 7);
    struct once_record *record = &ret_found->record;
    struct once_defect defect = {0, NULL};

    *record = (struct once_record){
        .state = (enum once_state)(fits(state, ONCE_STATE_STARTED, ONCE_STATE_DOUBT) ? state : 0),
        .attempt = (uint32_t)(fits(attempt, 1, ONCE_ATTEMPT_MAX) ? attempt : 0),
        .fence = (uint64_t)sqlite3_column_int64(row, FOUND_AT + 2),
        .created_ms = sqlite3_column_int64(row, FOUND_AT + 3),
        .lease_end_ms = sqlite3_column_int64(row, FOUND_AT + 4),
        .retention_ms = sqlite3_column_int64(row, FOUND_AT + 5),
        .expires_ms = sqlite3_column_int64(row, FOUND_AT + 6),
        .code = (int32_t)code,
        .owner = once__lite_column(row, FOUND_AT + 9),
        .point = once__lite_column(row, FOUND_AT + 10),
        .data = once__lite_column(row, FOUND_AT + 11),
        .result = once__lite_column(row, FOUND_AT + 12),
    };
    ret_found->there = true;
    ret_found->result_text = sqlite3_column_type(row, FOUND_AT + 12) == SQLITE_TEXT;
    ret_found->result_null = sqlite3_column_type(row, FOUND_AT + 12) == SQLITE_NULL;
    if (fingerprint.size == ONCE_FINGERPRINT_SIZE)
        memcpy(record->fingerprint.bytes, fingerprint.data, ONCE_FINGERPRINT_SIZE);
    if (record->state == ONCE_STATE_ABSENT || !fits(code, INT32_MIN, INT32_MAX) ||
        (fingerprint.size != 0 && fingerprint.size != ONCE_FINGERPRINT_SIZE))
        defect.what = "a number or the fingerprint of the record is out of range";
    else if (record->fence >= call->lite->next_fence)
        defect.what = "the record's fence was never given: once_meta is older than the record";
    else if (once__record_check(record, &defect) == ONCE_OK)
        return true;
    once__lite_error(call, ONCE_ERR_DAMAGED, defect.what);
    return false;
}

static int bind_name(sqlite3_stmt *statement, const struct once__lite_name *name)
{
    int status = sqlite3_bind_text(statement, 1, (const char *)name->ns.data, (int)name->ns.size,
                                   SQLITE_STATIC);

    if (status == SQLITE_OK)
        status = sqlite3_bind_text(statement, 2, (const char *)name->key.data, (int)name->key.size,
                                   SQLITE_STATIC);
    return status;
}

bool once__lite_find(struct once__lite_call *call, const struct once__lite_name *name,
                     struct once__lite_found *ret_found, sqlite3_stmt **ret_statement)
{
    sqlite3_stmt *statement = NULL;
    int status = once__lite_statement(call->lite, ONCE__LITE_FIND, &statement);

    *ret_found = (struct once__lite_found){.there = false};
    *ret_statement = NULL;
    if (status == SQLITE_OK)
        status = bind_name(statement, name);
    if (status == SQLITE_OK)
        status = once__lite_step(call->lite, statement);
    if (status == SQLITE_DONE) {
        no_meta(call);
    } else if (status != SQLITE_ROW) {
        once__lite_sqlite_error(call, status);
    } else if (read_meta(call, statement) &&
               (sqlite3_column_type(statement, FOUND_AT) == SQLITE_NULL ||
                read_record(call, statement, ret_found))) {
        *ret_statement = statement;
        return true;
    }
    once__lite_rest(statement);
    return false;
}

/* Valid UTF-8 is text to whoever looks at the table; a NUL in it would end it there. */
int once__lite_bind_bytes(sqlite3_stmt *statement, int index, struct once_bytes bytes, bool text)
{
    if (!bytes.data)
        return text ? sqlite3_bind_text(statement, index, "", 0, SQLITE_STATIC)
                    : sqlite3_bind_zeroblob(statement, index, 0);
    if (text)
        return sqlite3_bind_text64(statement, index, (const char *)bytes.data, bytes.size,
                                   SQLITE_STATIC, SQLITE_UTF8);
    return sqlite3_bind_blob64(statement, index, bytes.data, bytes.size, SQLITE_STATIC);
}

/* No bytes are NULL. */
static int bind_few(sqlite3_stmt *statement, int index, struct once_bytes bytes)
{
    if (bytes.size == 0)
        return sqlite3_bind_null(statement, index);
    return once__lite_bind_bytes(statement, index, bytes, once__lite_is_text(bytes));
}

static int bind_fingerprint(sqlite3_stmt *statement, int index,
                            const struct once_fingerprint *fingerprint)
{
    static const struct once_fingerprint none;

    if (once__fingerprint_equal(fingerprint, &none))
        return sqlite3_bind_null(statement, index);
    return sqlite3_bind_blob(statement, index, fingerprint->bytes, ONCE_FINGERPRINT_SIZE,
                             SQLITE_STATIC);
}

static int bind_record(sqlite3_stmt *statement, const struct once_record *record,
                       const struct once__lite_bytes *result)
{
    const int64_t numbers[] = {(int64_t)record->state, record->attempt,      (int64_t)record->fence,
                               record->created_ms,     record->lease_end_ms, record->retention_ms,
                               record->expires_ms,     record->code};
    int at = BOUND_AT, status = SQLITE_OK;

    for (size_t i = 0; status == SQLITE_OK && i < sizeof numbers / sizeof numbers[0]; i++)
        status = sqlite3_bind_int64(statement, at++, numbers[i]);
    if (status == SQLITE_OK)
        status = bind_fingerprint(statement, at++, &record->fingerprint);
    if (status == SQLITE_OK)
        status = bind_few(statement, at++, record->owner);
    if (status == SQLITE_OK)
        status = bind_few(statement, at++, record->point);
    if (status == SQLITE_OK)
        status = bind_few(statement, at++, record->data);
    if (status != SQLITE_OK || !result->given)
        return status;
    return once__lite_bind_bytes(statement, at, result->bytes, result->text);
}

static int write_record(struct once__lite *lite, const struct once__lite_name *name,
                        const struct once_record *next, bool there,
                        const struct once__lite_bytes *result)
{
    enum once__lite_sql which = there ? ONCE__LITE_CHANGE : ONCE__LITE_ADD;
    sqlite3_stmt *statement;
    int status;

    if (next->state == ONCE_STATE_ABSENT)
        which = ONCE__LITE_REMOVE;
    status = once__lite_statement(lite, which, &statement);
    if (status != SQLITE_OK)
        return status;
    status = bind_name(statement, name);
    if (status == SQLITE_OK && which != ONCE__LITE_REMOVE)
        status = bind_record(statement, next, result);
    if (status == SQLITE_OK)
        status = once__lite_step(lite, statement);
    once__lite_rest(statement);
    return status;
}

bool once__lite_keep(struct once__lite_call *call, const struct once__lite_name *name,
                     const struct once__lite_found *found, const struct once_decision *decision,
                     const struct once__lite_bytes *result)
{
    struct once__lite *lite = call->lite;
    bool fence_taken = decision->changed && decision->next.fence == lite->next_fence;
    struct once__lite_bytes same = {.bytes = found->record.result,
                                    .given = !found->result_null && found->there,
                                    .text = found->result_text};
    int status;

    if (fence_taken || decision->word == ONCE_TOO_OLD ||
        (decision->changed && lite->now_ms - lite->last_ms >= ONCE_LITE_TICK_MS)) {
        if (!once__lite_mark(call, fence_taken))
            return false;
    }
    if (!decision->changed)
        return true;
    status = write_record(lite, name, &decision->next, found->there, result ? result : &same);
    if (status == SQLITE_DONE)
        return once__lite_changed_one(call);
    once__lite_sqlite_error(call, status);
    return false;
}
