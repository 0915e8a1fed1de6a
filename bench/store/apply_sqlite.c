/* SPDX-License-Identifier: Apache-2.0
 *
 * SQLite: the transaction that stands in for apply where people have no better. A row for the key,
 * which must be new; the debit; a row of the outbox. Write-ahead log, synchronous=FULL, statements
 * prepared once. Threads share one connection under a mutex: with a connection each they would wait
 * for the database's lock by sleeping.
 */
#include "apply_peer.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>

enum { FILL_BATCH = 1 << 16 };

enum statement { BEGIN, KEY, DEBIT, EMIT, COMMIT, ROLLBACK, STATEMENTS };

static const char *const texts[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [KEY] = "INSERT INTO ops VALUES (?1, ?2)",
    [DEBIT] = "UPDATE accounts SET balance = balance - 1 WHERE id = ?1 AND balance > -1000000000",
    [EMIT] = "INSERT INTO outbox(topic, payload) VALUES ('charges', ?1)",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
};

struct sqlite {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    pthread_mutex_t lock;
};

static void check(struct sqlite *sqlite, int status)
{
    if (status != SQLITE_OK && status != SQLITE_DONE && status != SQLITE_ROW)
        bench_die("sqlite: %s", sqlite3_errmsg(sqlite->db));
}

static void execute(struct sqlite *sqlite, const char *sql)
{
    check(sqlite, sqlite3_exec(sqlite->db, sql, NULL, NULL, NULL));
}

static void *open_sqlite(const struct bench_apply_load *load)
{
    struct sqlite *sqlite = bench_alloc(1, sizeof *sqlite);
    char *path = bench_path(load->folder, "db"), *accounts;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;

    check(sqlite, sqlite3_open_v2(path, &sqlite->db, flags, NULL));
    execute(sqlite, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-262144;"
                    "CREATE TABLE ops(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;"
                    "CREATE TABLE accounts(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);"
                    "CREATE TABLE outbox(id INTEGER PRIMARY KEY, topic TEXT, payload BLOB);");
    accounts = sqlite3_mprintf("WITH RECURSIVE n(id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n "
                               "WHERE id < %d) INSERT INTO accounts SELECT id, 0 FROM n",
                               BENCH_ACCOUNTS - 1);
    execute(sqlite, accounts);
    sqlite3_free(accounts);
    for (int i = 0; i < STATEMENTS; i++)
        check(sqlite, sqlite3_prepare_v3(sqlite->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                         &sqlite->statements[i], NULL));
    if (pthread_mutex_init(&sqlite->lock, NULL) != 0)
        bench_die("sqlite: no mutex");
    free(path);
    return sqlite;
}

static int step(struct sqlite *sqlite, enum statement which)
{
    int status = sqlite3_step(sqlite->statements[which]);

    sqlite3_reset(sqlite->statements[which]);
    return status;
}

/* Inside of a transaction. False: the key is known, and nothing was changed. */
static bool apply_key(struct sqlite *sqlite, const struct bench_key *key)
{
    sqlite3_stmt *const *statements = sqlite->statements;
    int status;

    check(sqlite, sqlite3_bind_text(statements[KEY], 1, key->text, BENCH_KEY_SIZE, SQLITE_STATIC));
    check(sqlite,
          sqlite3_bind_blob(statements[KEY], 2, bench_value, BENCH_VALUE_SIZE, SQLITE_STATIC));
    status = step(sqlite, KEY);
    if (status == SQLITE_CONSTRAINT)
        return false;
    check(sqlite, status);
    check(sqlite, sqlite3_bind_int(statements[DEBIT], 1, (int)bench_account(key)));
    check(sqlite, step(sqlite, DEBIT));
    if (sqlite3_changes(sqlite->db) != 1)
        bench_die("sqlite: no account was debited");
    check(sqlite,
          sqlite3_bind_blob(statements[EMIT], 1, bench_payload, BENCH_PAYLOAD_SIZE, SQLITE_STATIC));
    check(sqlite, step(sqlite, EMIT));
    return true;
}

static size_t apply(void *self, int thread, const struct bench_key *keys, size_t count)
{
    struct sqlite *sqlite = self;
    bool fresh;

    (void)thread;
    if (count != 1)
        bench_die("sqlite: one at a time");
    pthread_mutex_lock(&sqlite->lock);
    check(sqlite, step(sqlite, BEGIN));
    fresh = apply_key(sqlite, keys);
    check(sqlite, step(sqlite, fresh ? COMMIT : ROLLBACK));
    pthread_mutex_unlock(&sqlite->lock);
    return fresh ? 1 : 0;
}

static void fill(void *self, const struct bench_key *keys, size_t count)
{
    struct sqlite *sqlite = self;

    for (size_t i = 0; i < count; i++) {
        if (i % FILL_BATCH == 0)
            check(sqlite, step(sqlite, BEGIN));
        if (!apply_key(sqlite, &keys[i]))
            bench_die("sqlite: could not be filled");
        if (i % FILL_BATCH == FILL_BATCH - 1 || i == count - 1)
            check(sqlite, step(sqlite, COMMIT));
    }
    execute(sqlite, "PRAGMA wal_checkpoint(TRUNCATE)");
}

static uint64_t number_of(struct sqlite *sqlite, const char *sql)
{
    sqlite3_stmt *statement;
    sqlite3_int64 number;

    check(sqlite, sqlite3_prepare_v2(sqlite->db, sql, -1, &statement, NULL));
    check(sqlite, sqlite3_step(statement));
    number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return (uint64_t)number;
}

static void sums(void *self, uint64_t *ret_debits, uint64_t *ret_messages)
{
    *ret_debits = number_of(self, "SELECT -sum(balance) FROM accounts");
    *ret_messages = number_of(self, "SELECT count(*) FROM outbox");
}

static void close_sqlite(void *self)
{
    struct sqlite *sqlite = self;

    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(sqlite->statements[i]);
    sqlite3_close(sqlite->db);
    pthread_mutex_destroy(&sqlite->lock);
    free(sqlite);
}

const struct bench_apply_peer bench_apply_sqlite = {
    .name = "sqlite",
    .effects = true,
    .open = open_sqlite,
    .fill = fill,
    .apply = apply,
    .sums = sums,
    .close = close_sqlite,
};
