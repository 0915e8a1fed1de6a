/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables: made on first use or by once_install(), and brought up to date by once_install().
 *
 * once_meta has one row: the version of the tables, the next fence, the last store time that is
 * written down, and how far tests have moved the clock. Each step of `steps` makes one version out
 * of the one before; steps are only ever added. Tables of an older version are not changed behind
 * their owner's back, since an older extension may be using them at the same time: every function
 * but once_install() refuses them.
 */
#include "lite.h"

#include <stdio.h>

/* Operations. */
#define STEP_1                                                                                     \
    "CREATE TABLE main.once_meta("                                                                 \
    " id INTEGER PRIMARY KEY CHECK (id = 1),"                                                      \
    " version INTEGER NOT NULL,"                                                                   \
    " next_fence INTEGER NOT NULL,"                                                                \
    " last_ms INTEGER NOT NULL,"                                                                   \
    " ahead_ms INTEGER NOT NULL DEFAULT 0);"                                                       \
    "CREATE TABLE main.once_operation("                                                            \
    " ns TEXT NOT NULL,"                                                                           \
    " key TEXT NOT NULL,"                                                                          \
    " state INTEGER NOT NULL,"                                                                     \
    " attempt INTEGER NOT NULL,"                                                                   \
    " fence INTEGER NOT NULL,"                                                                     \
    " created_ms INTEGER NOT NULL,"                                                                \
    " lease_end_ms INTEGER NOT NULL,"                                                              \
    " retention_ms INTEGER NOT NULL,"                                                              \
    " expires_ms INTEGER NOT NULL,"                                                                \
    " code INTEGER NOT NULL,"                                                                      \
    " fingerprint BLOB, owner BLOB, point BLOB, data BLOB, result BLOB,"                           \
    " PRIMARY KEY (ns, key)) WITHOUT ROWID;"                                                       \
    "CREATE INDEX main.once_operation_open ON once_operation(lease_end_ms)"                        \
    " WHERE state IN (1, 4);"                                                                      \
    "CREATE INDEX main.once_operation_ended ON once_operation(expires_ms)"                         \
    " WHERE state IN (2, 3);"                                                                      \
    "INSERT INTO main.once_meta VALUES (1, 1, 1, 0, 0);"

/* Store time in plain SQL: these views can be read where the extension is not loaded. */
#define NOW_MS                                                                                     \
    "(SELECT max(last_ms, ahead_ms"                                                                \
    " + CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)) FROM once_meta)"

#define TIME_OF(ms) "strftime('%Y-%m-%dT%H:%M:%fZ', (" ms ") / 1000.0, 'unixepoch')"

/* Consumers, fences, machines, the outbox; what people look at. */
#define STEP_2                                                                                     \
    "CREATE TABLE main.once_message("                                                              \
    " consumer_group TEXT NOT NULL,"                                                               \
    " topic TEXT NOT NULL,"                                                                        \
    " message_id TEXT NOT NULL,"                                                                   \
    " seen_ms INTEGER NOT NULL,"                                                                   \
    " expires_ms INTEGER NOT NULL,"                                                                \
    " PRIMARY KEY (consumer_group, topic, message_id)) WITHOUT ROWID;"                             \
    "CREATE INDEX main.once_message_expires ON once_message(expires_ms);"                          \
    "CREATE TABLE main.once_resource("                                                             \
    " name TEXT NOT NULL PRIMARY KEY,"                                                             \
    " granted INTEGER NOT NULL,"                                                                   \
    " seen INTEGER NOT NULL) WITHOUT ROWID;"                                                       \
    "CREATE TABLE main.once_machine("                                                              \
    " name TEXT NOT NULL PRIMARY KEY,"                                                             \
    " moves TEXT NOT NULL) WITHOUT ROWID;"                                                         \
    "CREATE TABLE main.once_entity("                                                               \
    " machine TEXT NOT NULL,"                                                                      \
    " entity TEXT NOT NULL,"                                                                       \
    " state TEXT NOT NULL,"                                                                        \
    " moved_ms INTEGER NOT NULL,"                                                                  \
    " PRIMARY KEY (machine, entity)) WITHOUT ROWID;"                                               \
    "CREATE TABLE main.once_outbox("                                                               \
    " id INTEGER PRIMARY KEY,"                                                                     \
    " topic TEXT NOT NULL,"                                                                        \
    " grp TEXT,"                                                                                   \
    " payload BLOB NOT NULL,"                                                                      \
    " emitted_ms INTEGER NOT NULL,"                                                                \
    " attempt INTEGER NOT NULL DEFAULT 0,"                                                         \
    " token INTEGER NOT NULL DEFAULT 0,"                                                           \
    " taken_until_ms INTEGER NOT NULL DEFAULT 0,"                                                  \
    " acked_ms INTEGER);"                                                                          \
    "CREATE INDEX main.once_outbox_waiting ON once_outbox(topic, id) WHERE acked_ms IS NULL;"      \
    "CREATE INDEX main.once_outbox_grouped ON once_outbox(topic, grp, id)"                         \
    " WHERE grp IS NOT NULL AND acked_ms IS NULL;"                                                 \
    "CREATE INDEX main.once_outbox_acked ON once_outbox(acked_ms) WHERE acked_ms IS NOT NULL;"     \
    "CREATE VIEW main.once_doubts AS"                                                              \
    " SELECT ns, key, fence, attempt, owner, point, " TIME_OF(                                     \
        "created_ms") " AS created,"                                                               \
                      " " TIME_OF(                                                                 \
                          "lease_end_ms") " AS lease_ended FROM once_operation"                    \
                                          " WHERE state IN (1, 4) AND (state = 4 OR lease_end_ms " \
                                          "<= " NOW_MS ") ORDER BY fence;"                         \
                                          "CREATE VIEW main.once_stats AS"                         \
                                          " SELECT ns,"                                            \
                                          " sum(state = 1 AND lease_end_ms > now_ms) AS started,"  \
                                          " sum(state = 2 AND expires_ms > now_ms) AS completed,"  \
                                          " sum(state = 3 AND expires_ms > now_ms) AS failed,"     \
                                          " sum(state = 4 OR (state = 1 AND lease_end_ms <= "      \
                                          "now_ms)) AS doubt,"                                     \
                                          " sum(state IN (2, 3) AND expires_ms <= now_ms) AS "     \
                                          "expired,"                                               \
                                          " " TIME_OF(                                             \
                                              "min(created_ms)") " AS oldest"                      \
                                                                 " FROM once_operation, "          \
                                                                 "(SELECT " NOW_MS                 \
                                                                 " AS now_ms) GROUP BY ns;"        \
                                                                 "CREATE VIEW main.once_waiting "  \
                                                                 "AS"                              \
                                                                 " SELECT topic, count(*) AS "     \
                                                                 "waiting, sum(taken_until_ms > "  \
                                                                 "now_ms) AS taken,"               \
                                                                 " max(attempt) AS "               \
                                                                 "attempts, " TIME_OF(             \
                                                                     "min(emitted_ms)") " AS "     \
                                                                                        "oldest"   \
                                                                                        " FROM "   \
                                                                                        "once_"    \
                                                                                        "outbox, " \
                                                                                        "(SELECT"  \
                                                                                        " " NOW_MS \
                                                                                        " AS "     \
                                                                                        "now_ms) " \
                                                                                        "WHERE "   \
                                                                                        "acked_"   \
                                                                                        "ms IS "   \
                                                                                        "NULL "    \
                                                                                        "GROUP "   \
                                                                                        "BY "      \
                                                                                        "topic;"   \
                                                                                        "UPDATE "  \
                                                                                        "main."    \
                                                                                        "once_"    \
                                                                                        "meta "    \
                                                                                        "SET "     \
                                                                                        "version " \
                                                                                        "= 2;"

static const char *const steps[] = {STEP_1, STEP_2};

_Static_assert(sizeof steps / sizeof steps[0] == ONCE__LITE_VERSION, "a step makes each version");

void once__lite_do_version(struct once__lite_call *call)
{
    sqlite3_result_int(call->context, ONCE__LITE_VERSION);
}

/* Asked each time it matters, since a rollback takes tables back that a call has made. */
bool once__lite_installed(struct once__lite *lite)
{
    return sqlite3_table_column_metadata(lite->db, "main", "once_meta", "next_fence", NULL, NULL,
                                         NULL, NULL, NULL) == SQLITE_OK;
}

/* 0: there are none. Negative: an SQLite status, negated. */
static int64_t version_of(struct once__lite *lite)
{
    sqlite3_stmt *statement;
    int64_t version = 0;
    int status;

    if (!once__lite_installed(lite))
        return 0;
    status = sqlite3_prepare_v2(lite->db, "SELECT version FROM main.once_meta WHERE id = 1", -1,
                                &statement, NULL);
    if (status != SQLITE_OK)
        return -status;
    status = sqlite3_step(statement);
    if (status == SQLITE_ROW)
        version = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    if (status == SQLITE_DONE || version < 0)
        return -SQLITE_CORRUPT; /* the row is gone, or is not ours */
    return status == SQLITE_ROW ? version : -status;
}

static int take_steps(struct once__lite *lite)
{
    int64_t version = version_of(lite);
    int status = version < 0 ? (int)-version : SQLITE_OK;

    if (version > ONCE__LITE_VERSION)
        return SQLITE_MISMATCH;
    for (int64_t step = version; status == SQLITE_OK && step < ONCE__LITE_VERSION; step++)
        status = sqlite3_exec(lite->db, steps[step], NULL, NULL, NULL);
    if (status == SQLITE_ERROR)
        (void)snprintf(lite->why, sizeof lite->why, "%s", sqlite3_errmsg(lite->db));
    /* In a transaction that has not written yet another connection may have been faster. */
    if (status == SQLITE_ERROR && version_of(lite) == ONCE__LITE_VERSION)
        status = SQLITE_OK;
    return status == SQLITE_OK ? once__lite_ready_rollback(lite) : status;
}

struct install {
    struct once__lite *lite;
    int status;
};

/* All steps or none. In a transaction of the caller's they are undone here; not inside of a
 * statement that writes, which takes them back itself. */
static bool install(void *self)
{
    struct install *install = self;
    sqlite3 *db = install->lite->db;
    bool saved = !install->lite->own && !sqlite3_get_autocommit(db) &&
                 sqlite3_exec(db, "SAVEPOINT once_install", NULL, NULL, NULL) == SQLITE_OK;
    int status = take_steps(install->lite);

    if (saved && !sqlite3_get_autocommit(db)) {
        int undone = SQLITE_OK;

        if (status != SQLITE_OK)
            undone = sqlite3_exec(db, "ROLLBACK TO once_install", NULL, NULL, NULL);
        if (undone == SQLITE_OK)
            undone = sqlite3_exec(db, "RELEASE once_install", NULL, NULL, NULL);
        if (status == SQLITE_OK)
            status = undone;
    }
    install->status = status;
    return (status & 0xff) != SQLITE_NOMEM && status != SQLITE_INTERRUPT;
}

/* Before anything is read: a transaction that has read cannot wait for another writer. There is no
 * table yet that could be written to; this needs none, and moves a page at most. */
static int take_lock(struct once__lite *lite)
{
    if (sqlite3_txn_state(lite->db, "main") == SQLITE_TXN_WRITE)
        return SQLITE_OK;
    return sqlite3_exec(lite->db, "PRAGMA main.incremental_vacuum(1)", NULL, NULL, NULL);
}

int once__lite_install(struct once__lite *lite)
{
    struct install made = {lite, SQLITE_ERROR};
    int64_t rowid = sqlite3_last_insert_rowid(lite->db);
    int status = take_lock(lite);

    if (status == SQLITE_OK)
        status = once__lite_in_statement(lite, install, &made);
    sqlite3_set_last_insert_rowid(lite->db, rowid); /* that is of the caller's row */
    return status == SQLITE_OK ? made.status : status;
}

/* In a transaction of the caller's, or its own. */
void once__lite_do_install(struct once__lite_call *call)
{
    struct once__lite *lite = call->lite;
    int status = SQLITE_OK;

    lite->reading = false;
    lite->own = false;
    if (sqlite3_get_autocommit(lite->db) && sqlite3_txn_state(lite->db, NULL) != SQLITE_TXN_WRITE)
        status = once__lite_begin_own(lite);
    if (status == SQLITE_OK)
        status = once__lite_install(lite);
    if (status == SQLITE_OK && once__lite_leave(call)) {
        sqlite3_result_int(call->context, ONCE__LITE_VERSION);
    } else if (status != SQLITE_OK) {
        if (status == SQLITE_MISMATCH)
            once__lite_error(call, ONCE_ERR_VERSION,
                             "the tables are of a newer version; use a newer once_sqlite");
        else
            once__lite_sqlite_error(call, status);
        once__lite_abandon(call);
    }
}
