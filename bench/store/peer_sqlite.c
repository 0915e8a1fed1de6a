/* SPDX-License-Identifier: Apache-2.0
 *
 * SQLite: write-ahead log, synchronous=FULL, one transaction a batch, INSERT OR IGNORE prepared
 * once, into a table that is its own index (WITHOUT ROWID). Threads share one connection under a
 * mutex: with a connection each they would wait for the database's lock by sleeping, which is
 * slower.
 */
#include "peer.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>

struct sqlite {
    sqlite3 *db;
    sqlite3_stmt *begin;
    sqlite3_stmt *put;
    sqlite3_stmt *commit;
    pthread_mutex_t lock;
};

static void check(struct sqlite *sqlite, int status)
{
    if (status != SQLITE_OK && status != SQLITE_DONE && status != SQLITE_ROW)
        bench_die("sqlite: %s", sqlite3_errmsg(sqlite->db));
}

static void prepare(struct sqlite *sqlite, const char *sql, sqlite3_stmt **ret_statement)
{
    check(sqlite,
          sqlite3_prepare_v3(sqlite->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret_statement, NULL));
}

static void *open_sqlite(const struct bench_load *load)
{
    struct sqlite *sqlite = bench_alloc(1, sizeof *sqlite);
    char *path = bench_path(load->folder, "db");
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;

    check(sqlite, sqlite3_open_v2(path, &sqlite->db, flags, NULL));
    check(sqlite,
          sqlite3_exec(
              sqlite->db,
              "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
              "PRAGMA cache_size=-65536;"
              "CREATE TABLE IF NOT EXISTS ops(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;",
              NULL, NULL, NULL));
    prepare(sqlite, "BEGIN IMMEDIATE", &sqlite->begin);
    prepare(sqlite, "INSERT OR IGNORE INTO ops VALUES (?1, ?2)", &sqlite->put);
    prepare(sqlite, "COMMIT", &sqlite->commit);
    if (pthread_mutex_init(&sqlite->lock, NULL) != 0)
        bench_die("sqlite: no mutex");
    free(path);
    return sqlite;
}

static void step(struct sqlite *sqlite, sqlite3_stmt *statement)
{
    check(sqlite, sqlite3_step(statement));
    check(sqlite, sqlite3_reset(statement));
}

static size_t insert(void *self, int thread, const struct bench_key *keys, size_t count)
{
    struct sqlite *sqlite = self;
    size_t inserted = 0;

    (void)thread;
    pthread_mutex_lock(&sqlite->lock);
    step(sqlite, sqlite->begin);
    for (size_t i = 0; i < count; i++) {
        check(sqlite,
              sqlite3_bind_text(sqlite->put, 1, keys[i].text, BENCH_KEY_SIZE, SQLITE_STATIC));
        check(sqlite,
              sqlite3_bind_blob(sqlite->put, 2, bench_value, BENCH_VALUE_SIZE, SQLITE_STATIC));
        step(sqlite, sqlite->put);
        inserted += (size_t)sqlite3_changes(sqlite->db);
    }
    step(sqlite, sqlite->commit);
    pthread_mutex_unlock(&sqlite->lock);
    return inserted;
}

static void close_sqlite(void *self)
{
    struct sqlite *sqlite = self;

    sqlite3_finalize(sqlite->begin);
    sqlite3_finalize(sqlite->put);
    sqlite3_finalize(sqlite->commit);
    sqlite3_close(sqlite->db);
    pthread_mutex_destroy(&sqlite->lock);
    free(sqlite);
}

const struct bench_peer bench_sqlite = {
    .name = "sqlite",
    .looks = true,
    .open = open_sqlite,
    .insert = insert,
    .close = close_sqlite,
};
