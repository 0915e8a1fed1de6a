/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepared statements, kept for the life of a connection, and the table once_functions.
 *
 * A connection cannot be closed while a statement of it lives, and SQLite tells an extension of the
 * end in one way only: before it counts what is left, it disconnects virtual tables. So there is
 * one, once_functions, which lists what the extension can do; its disconnect ends our statements.
 * Where it cannot be (someone has a table of this name), and after the first disconnect, statements
 * end with each call: a close that was refused, because the program has statements of its own,
 * comes again, and must not be refused for ours.
 */
#include "lite.h"

#include <string.h>

#include "lite_functions.h"

/* All columns but ns and key, in the order of lite_record.c. */
#define RECORD_COLUMNS                                                                             \
    "state, attempt, fence, created_ms, lease_end_ms, retention_ms, expires_ms, code, "            \
    "fingerprint, owner, point, data, result"

static const char *const texts[ONCE__LITE_SQL_COUNT] = {
    [ONCE__LITE_BEGIN] = "BEGIN IMMEDIATE",
    [ONCE__LITE_COMMIT] = "COMMIT",
    [ONCE__LITE_ROLLBACK] = "ROLLBACK",
    /* Changes nothing, but is a write: it takes the lock without a page to write back. */
    [ONCE__LITE_LOCK] = "UPDATE main.once_meta SET last_ms = last_ms WHERE id = 0",
    [ONCE__LITE_META] =
        "SELECT version, next_fence, last_ms, ahead_ms FROM main.once_meta WHERE id = 1",
    [ONCE__LITE_MARK] =
        "UPDATE main.once_meta SET next_fence = ?1, last_ms = max(last_ms, ?2) WHERE id = 1",
    [ONCE__LITE_FIND] = "SELECT version, next_fence, last_ms, ahead_ms, " RECORD_COLUMNS
                        " FROM main.once_meta"
                        " LEFT JOIN main.once_operation ON ns = ?1 AND key = ?2 WHERE id = 1",
    [ONCE__LITE_ADD] = "INSERT INTO main.once_operation(ns, key, " RECORD_COLUMNS
                       ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
                       "?15)",
    [ONCE__LITE_CHANGE] = "UPDATE main.once_operation SET (" RECORD_COLUMNS ") = (?3, ?4, ?5, ?6,"
                          " ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) WHERE ns = ?1 AND key = ?2",
    [ONCE__LITE_REMOVE] = "DELETE FROM main.once_operation WHERE ns = ?1 AND key = ?2",
    [ONCE__LITE_SEEN] = "INSERT INTO main.once_message VALUES (?1, ?2, ?3, ?4, ?5)"
                        " ON CONFLICT DO NOTHING",
    [ONCE__LITE_RESOURCE_LOOK] = "SELECT granted, seen FROM main.once_resource WHERE name = ?1",
    [ONCE__LITE_RESOURCE_SET] = "INSERT INTO main.once_resource VALUES (?1, ?2, ?3) ON CONFLICT"
                                " (name) DO UPDATE SET granted = ?2, seen = ?3",
    [ONCE__LITE_MACHINE_LOOK] = "SELECT moves FROM main.once_machine WHERE name = ?1",
    [ONCE__LITE_MACHINE_ADD] = "INSERT INTO main.once_machine VALUES (?1, ?2)",
    [ONCE__LITE_MACHINE_CHANGE] = "UPDATE main.once_machine SET moves = ?2 WHERE name = ?1",
    [ONCE__LITE_MACHINE_STRAYS] =
        "SELECT state, min(entity) FROM main.once_entity WHERE machine = ?1 GROUP BY state",
    [ONCE__LITE_ENTITY_LOOK] =
        "SELECT state FROM main.once_entity WHERE machine = ?1 AND entity = ?2",
    [ONCE__LITE_ENTITY_SET] = "INSERT INTO main.once_entity VALUES (?1, ?2, ?3, ?4) ON CONFLICT"
                              " (machine, entity) DO UPDATE SET state = ?3, moved_ms = ?4",
    [ONCE__LITE_EMIT] = "INSERT INTO main.once_outbox(id, topic, grp, payload, emitted_ms)"
                        " VALUES (?1, ?2, ?3, ?4, ?5)",
    /* Of a group only the first that waits, and nothing while that one is taken. */
    [ONCE__LITE_TAKE] =
        "UPDATE main.once_outbox SET attempt = attempt + 1, token = ?2, taken_until_ms = ?3"
        " WHERE id IN (SELECT id FROM main.once_outbox o WHERE topic = ?1 AND acked_ms IS NULL"
        " AND taken_until_ms <= ?4 AND (grp IS NULL OR NOT EXISTS (SELECT 1 FROM main.once_outbox b"
        " WHERE b.topic = ?1 AND b.grp = o.grp AND b.acked_ms IS NULL AND b.id < o.id))"
        " ORDER BY id LIMIT ?5)",
    [ONCE__LITE_TAKEN] = "SELECT id, grp, payload, attempt, emitted_ms FROM main.once_outbox"
                         " WHERE topic = ?1 AND acked_ms IS NULL AND token = ?2 ORDER BY id",
    [ONCE__LITE_MESSAGE_LOOK] = "SELECT token, acked_ms FROM main.once_outbox WHERE id = ?1",
    [ONCE__LITE_ACK] = "UPDATE main.once_outbox SET acked_ms = ?2 WHERE id = ?1",
    [ONCE__LITE_GIVE_BACK] =
        "UPDATE main.once_outbox SET token = 0, taken_until_ms = ?2 WHERE id = ?1",
    [ONCE__LITE_SWEEP_OPERATIONS] =
        "DELETE FROM main.once_operation WHERE (ns, key) IN (SELECT ns, key FROM"
        " main.once_operation WHERE state IN (2, 3) AND expires_ms <= ?1 ORDER BY expires_ms"
        " LIMIT ?2)",
    [ONCE__LITE_SWEEP_MESSAGES] =
        "DELETE FROM main.once_message WHERE (consumer_group, topic, message_id) IN (SELECT"
        " consumer_group, topic, message_id FROM main.once_message WHERE expires_ms <= ?1 ORDER BY"
        " expires_ms LIMIT ?2)",
    [ONCE__LITE_SWEEP_OUTBOX] =
        "DELETE FROM main.once_outbox WHERE id IN (SELECT id FROM main.once_outbox WHERE acked_ms"
        " <= ?1 - 86400000 ORDER BY acked_ms LIMIT ?2)",
};

/* ---- Statements ------------------------------------------------------------------------------ */

static int prepare(struct once__lite *lite, const char *text, sqlite3_stmt **ret_statement)
{
    return sqlite3_prepare_v3(lite->db, text, -1, SQLITE_PREPARE_PERSISTENT, ret_statement, NULL);
}

/* Brings the virtual table to life: a name that is looked up does. */
static void connect_table(struct once__lite *lite)
{
    sqlite3_stmt *statement = NULL;

    if (!lite->kept && !lite->closing)
        (void)prepare(lite, "SELECT 1 FROM once_functions LIMIT 0", &statement);
    sqlite3_finalize(statement);
}

static int make_tables(struct once__lite *lite, int status)
{
    if (status != SQLITE_ERROR || lite->reading || once__lite_installed(lite))
        return status;
    return once__lite_install(lite);
}

int once__lite_statement(struct once__lite *lite, enum once__lite_sql which,
                         sqlite3_stmt **ret_statement)
{
    int status = SQLITE_OK;

    if (!lite->statements[which]) {
        connect_table(lite);
        status = prepare(lite, texts[which], &lite->statements[which]);
        if (status != SQLITE_OK) {
            status = make_tables(lite, status);
            if (status == SQLITE_OK)
                status = prepare(lite, texts[which], &lite->statements[which]);
        }
    }
    *ret_statement = lite->statements[which];
    return status;
}

/* A prepared statement outlives tables that a rollback took back: it finds out here. */
int once__lite_step(struct once__lite *lite, sqlite3_stmt *statement)
{
    int status = sqlite3_step(statement);

    if (status != SQLITE_ERROR || lite->reading || once__lite_installed(lite))
        return status;
    (void)sqlite3_reset(statement);
    status = once__lite_install(lite);
    return status == SQLITE_OK ? sqlite3_step(statement) : status;
}

void once__lite_rest(sqlite3_stmt *statement)
{
    if (!statement)
        return;
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
}

int once__lite_run(struct once__lite *lite, enum once__lite_sql which)
{
    sqlite3_stmt *statement;
    int status = once__lite_statement(lite, which, &statement);

    if (status != SQLITE_OK)
        return status;
    status = once__lite_step(lite, statement);
    once__lite_rest(statement);
    return status == SQLITE_DONE ? SQLITE_OK : status;
}

void once__lite_forget_statements(struct once__lite *lite)
{
    for (int i = 0; i < ONCE__LITE_SQL_COUNT; i++) {
        sqlite3_finalize(lite->statements[i]);
        lite->statements[i] = NULL;
    }
}

int once__lite_ready_rollback(struct once__lite *lite)
{
    static const enum once__lite_sql needed[] = {ONCE__LITE_ROLLBACK, ONCE__LITE_BEGIN};
    int status = SQLITE_OK;

    for (size_t i = 0; status == SQLITE_OK && i < sizeof needed / sizeof needed[0]; i++) {
        sqlite3_stmt *fresh = NULL;

        status = prepare(lite, texts[needed[i]], &fresh);
        if (status != SQLITE_OK)
            break;
        sqlite3_finalize(lite->statements[needed[i]]);
        lite->statements[needed[i]] = fresh;
    }
    return status;
}

/* ---- The table once_functions ---------------------------------------------------------------- */

struct functions_table {
    sqlite3_vtab base;
    struct once__lite *lite;
};

struct functions_cursor {
    sqlite3_vtab_cursor base;
    size_t at;
};

static int functions_connect(sqlite3 *db, void *self, int argc, const char *const *argv,
                             sqlite3_vtab **ret_table, char **ret_error)
{
    struct functions_table *table;
    int status = sqlite3_declare_vtab(db, "CREATE TABLE once_functions(name, arguments, about)");

    (void)argc;
    (void)argv;
    (void)ret_error;
    if (status != SQLITE_OK)
        return status;
    table = sqlite3_malloc(sizeof *table);
    if (!table)
        return SQLITE_NOMEM;
    memset(table, 0, sizeof *table);
    table->lite = self;
    table->lite->kept = true;
    (void)sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    *ret_table = &table->base;
    return SQLITE_OK;
}

static int functions_disconnect(sqlite3_vtab *base)
{
    struct functions_table *table = (struct functions_table *)base;

    table->lite->kept = false;
    table->lite->closing = true;
    once__lite_forget_statements(table->lite);
    sqlite3_free(table);
    return SQLITE_OK;
}

static int functions_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    (void)base;
    info->estimatedCost = (double)once__lite_function_count;
    info->estimatedRows = (sqlite3_int64)once__lite_function_count;
    return SQLITE_OK;
}

static int functions_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret_cursor)
{
    struct functions_cursor *cursor = sqlite3_malloc(sizeof *cursor);

    (void)base;
    if (!cursor)
        return SQLITE_NOMEM;
    memset(cursor, 0, sizeof *cursor);
    *ret_cursor = &cursor->base;
    return SQLITE_OK;
}

static int functions_close(sqlite3_vtab_cursor *base)
{
    sqlite3_free(base);
    return SQLITE_OK;
}

/* An I/O error makes SQLite roll back, whatever the statement is: it cannot know what is left. */
static int functions_filter(sqlite3_vtab_cursor *base, int index, const char *name, int argc,
                            sqlite3_value **argv)
{
    struct once__lite *lite = ((struct functions_table *)base->pVtab)->lite;
    once__lite_task_fn task = lite->task;

    (void)index;
    (void)name;
    (void)argc;
    (void)argv;
    ((struct functions_cursor *)base)->at = task ? once__lite_function_count : 0;
    lite->task = NULL;
    return !task || task(lite->task_self) ? SQLITE_OK : SQLITE_IOERR;
}

static int functions_next(sqlite3_vtab_cursor *base)
{
    ((struct functions_cursor *)base)->at++;
    return SQLITE_OK;
}

static int functions_eof(sqlite3_vtab_cursor *base)
{
    return ((struct functions_cursor *)base)->at >= once__lite_function_count;
}

static int functions_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct once__lite_function *function =
        &once__lite_functions[((struct functions_cursor *)base)->at];
    const char *text = column == 0 ? function->name
                                   : (column == 1 ? function->arguments : function->text);

    sqlite3_result_text(context, text, -1, SQLITE_STATIC);
    return SQLITE_OK;
}

static int functions_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret_rowid)
{
    *ret_rowid = (sqlite3_int64)((struct functions_cursor *)base)->at + 1;
    return SQLITE_OK;
}

/* Without xCreate it is there by its name alone, in every database, and cannot be made. */
static const sqlite3_module functions_module = {
    .iVersion = 0,
    .xConnect = functions_connect,
    .xBestIndex = functions_best_index,
    .xDisconnect = functions_disconnect,
    .xOpen = functions_open,
    .xClose = functions_close,
    .xFilter = functions_filter,
    .xNext = functions_next,
    .xEof = functions_eof,
    .xColumn = functions_column,
    .xRowid = functions_rowid,
};

int once__lite_in_statement(struct once__lite *lite, once__lite_task_fn task, void *self)
{
    sqlite3_stmt *statement = NULL;
    int status = prepare(lite, "SELECT 1 FROM once_functions", &statement);
    bool ran = false;

    if (status == SQLITE_OK) {
        lite->task = task;
        lite->task_self = self;
        status = sqlite3_step(statement);
        ran = !lite->task;
        lite->task = NULL;
        sqlite3_finalize(statement);
    }
    if (ran)
        return SQLITE_OK;
    /* Someone has a table of this name, or a view: it is done without. */
    if (status == SQLITE_ROW || status == SQLITE_DONE || status == SQLITE_ERROR) {
        (void)task(self);
        return SQLITE_OK;
    }
    return status;
}

int once__lite_keep_register(struct once__lite *lite)
{
    return sqlite3_create_module_v2(lite->db, "once_functions", &functions_module, lite,
                                    once__lite_release);
}
