/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance suite on the functions in SQLite:
 *
 *     conformance_sqlite [--wal] [--transaction] [--threads N] [scenario]
 *
 * Each call alone, or in a transaction of the caller with a write of the caller's in it; with a
 * rollback journal or a write-ahead log; one connection, or one for each of many threads. A restart
 * closes every connection and opens the file again. The clock stands still: the wall is moved far
 * behind, so that store time is once_meta.last_ms, which the scenarios advance.
 */
#include "conformance/conformance.h"

#include <once/sqlite.h>

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"

enum { PATH_SIZE = 256, ARGUMENTS_MAX = 7, BUSY_MS = 60000, ERRORS_MAX = 64 };

static bool with_wal;
static bool with_transaction;

struct connection {
    pthread_t thread;
    sqlite3 *db;
};

struct lite_store {
    char folder[PATH_SIZE];
    char path[PATH_SIZE + 16];
    pthread_mutex_t lock;
    struct connection connections[CONFORMANCE_THREADS_MAX + 1];
    size_t count;
};

static void execute(sqlite3 *db, const char *sql)
{
    char *error = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK) {
        printf("# %s: %s\n", sql, error);
        ONCE_ASSERT(false);
    }
}

static sqlite3 *connect_to(const struct lite_store *store)
{
    sqlite3 *db = NULL;

    ONCE_ASSERT(sqlite3_open(store->path, &db) == SQLITE_OK);
    ONCE_ASSERT(sqlite3_busy_timeout(db, BUSY_MS) == SQLITE_OK);
    ONCE_ASSERT(once_sqlite_init(db, NULL, NULL) == SQLITE_OK);
    execute(db, "PRAGMA synchronous = OFF"); /* no power is cut here */
    return db;
}

/* The connection of this thread. */
static sqlite3 *connection(struct lite_store *store)
{
    sqlite3 *db = NULL;

    pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < store->count && !db; i++)
        if (pthread_equal(store->connections[i].thread, pthread_self()))
            db = store->connections[i].db;
    if (!db) {
        ONCE_ASSERT(store->count < sizeof store->connections / sizeof store->connections[0]);
        db = connect_to(store);
        store->connections[store->count++] = (struct connection){pthread_self(), db};
    }
    pthread_mutex_unlock(&store->lock);
    return db;
}

/* The extension's statements must not keep a connection open. */
static void disconnect(struct lite_store *store)
{
    for (size_t i = 0; i < store->count; i++)
        ONCE_ASSERT(sqlite3_close(store->connections[i].db) == SQLITE_OK);
    store->count = 0;
}

static void *store_open(once_ms start_ms)
{
    const char *temporary = getenv("TMPDIR");
    struct lite_store *store = calloc(1, sizeof *store);
    char *clock;

    ONCE_ASSERT(store != NULL);
    ONCE_ASSERT(pthread_mutex_init(&store->lock, NULL) == 0);
    (void)snprintf(store->folder, sizeof store->folder, "%s/once-sqlite-XXXXXX",
                   temporary ? temporary : "/tmp");
    ONCE_ASSERT(mkdtemp(store->folder) != NULL);
    (void)snprintf(store->path, sizeof store->path, "%s/shop.db", store->folder);
    execute(connection(store), with_wal ? "PRAGMA journal_mode = WAL; SELECT once_install()"
                                        : "SELECT once_install()");
    execute(connection(store), "CREATE TABLE effect(at INTEGER PRIMARY KEY)");
    clock = sqlite3_mprintf("UPDATE once_meta SET ahead_ms = -200000000000000, last_ms = %lld",
                            (long long)start_ms);
    execute(connection(store), clock);
    sqlite3_free(clock);
    return store;
}

static void store_close(void *self)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    struct lite_store *store = self;

    disconnect(store);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char path[PATH_SIZE + 32];

        (void)snprintf(path, sizeof path, "%s%s", store->path, ends[i]);
        unlink(path);
    }
    rmdir(store->folder);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static void *store_restart(void *self)
{
    disconnect(self);
    return self;
}

static void store_advance(void *self, once_ms by_ms)
{
    char *sql = sqlite3_mprintf("UPDATE once_meta SET last_ms = last_ms + %lld", (long long)by_ms);

    execute(connection(self), sql);
    sqlite3_free(sql);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* What a function is called with, in order; a NULL text is NULL. */
struct argument {
    const char *text;
    bool is_number;
    int64_t number;
    struct once_bytes bytes;
    bool is_bytes;
};

static struct argument text(const char *value)
{
    return (struct argument){.text = value};
}

static struct argument number(int64_t value)
{
    return (struct argument){.is_number = true, .number = value};
}

/* 0 is "not given". */
static struct argument given(int64_t value)
{
    return value != 0 ? number(value) : text(NULL);
}

static struct argument bytes(struct once_bytes value)
{
    return (struct argument){.is_bytes = true, .bytes = value};
}

static void bind(sqlite3_stmt *statement, int index, const struct argument *argument)
{
    if (argument->is_number)
        sqlite3_bind_int64(statement, index, argument->number);
    else if (argument->is_bytes && argument->bytes.size > 0)
        sqlite3_bind_blob64(statement, index, argument->bytes.data, argument->bytes.size,
                            SQLITE_TRANSIENT);
    else if (argument->is_bytes)
        sqlite3_bind_zeroblob(statement, index, 0);
    else
        sqlite3_bind_text(statement, index, argument->text, -1, SQLITE_TRANSIENT);
}

/* "…(ERR_KEY_EMPTY)" is that error; a word at the beginning is a verdict. */
static void refused(const char *message, struct conformance_answer *ret)
{
    const char *open = strrchr(message, '(');

    for (int err = -1; open && err > -ERRORS_MAX; err--) {
        const char *name = once_err_name(err);

        if (strncmp(open + 1, name, strlen(name)) == 0 && open[1 + strlen(name)] == ')') {
            ret->err = err;
            return;
        }
    }
    for (int word = ONCE_EXECUTE; word <= ONCE_REJECTED; word++) {
        const char *name = once_word_name((enum once_word)word);

        if (strncmp(message, name, strlen(name)) == 0 && message[strlen(name)] == ' ') {
            const char *in = strstr(message, "come back in ");

            ret->word = (enum once_word)word;
            if (in)
                ret->retry_ms = strtoll(in + strlen("come back in "), NULL, 10);
            return;
        }
    }
    printf("# not understood: %s\n", message);
    ret->err = ONCE_ERR_IO;
}

/* Calls it; the caller frees what it said, NULL for SQL's NULL and for a refusal. */
static char *call_function(sqlite3 *db, const char *name, const struct argument *arguments,
                           int count, struct conformance_answer *ret)
{
    static const char *const marks[] = {"?",         "?,?",         "?,?,?",        "?,?,?,?",
                                        "?,?,?,?,?", "?,?,?,?,?,?", "?,?,?,?,?,?,?"};
    char *sql = sqlite3_mprintf("SELECT %s(%s)", name, marks[count - 1]), *said = NULL;
    sqlite3_stmt *statement = NULL;

    ONCE_ASSERT(count <= ARGUMENTS_MAX);
    *ret = (struct conformance_answer){.err = ONCE_OK};
    if (with_transaction)
        execute(db, "BEGIN; INSERT INTO effect DEFAULT VALUES");
    ONCE_ASSERT(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK);
    for (int i = 0; i < count; i++)
        bind(statement, i + 1, &arguments[i]);
    if (sqlite3_step(statement) == SQLITE_ROW) {
        const char *value = (const char *)sqlite3_column_text(statement, 0);

        said = value ? sqlite3_mprintf("%s", value) : NULL;
    } else {
        refused(sqlite3_errmsg(db), ret);
    }
    sqlite3_finalize(statement);
    if (with_transaction)
        execute(db, ret->err == ONCE_OK && said ? "COMMIT" : "ROLLBACK");
    sqlite3_free(sql);
    return said;
}

/* ---- Answers, read with SQLite's own JSON functions ------------------------------------------ */

static void copy_text(char *to, const void *from, size_t size)
{
    size = size < CONFORMANCE_BYTES_MAX ? size : CONFORMANCE_BYTES_MAX - 1;
    if (size > 0)
        memcpy(to, from, size);
    to[size] = '\0';
}

static void copy_column(sqlite3_stmt *row, int column, char *to)
{
    copy_text(to, sqlite3_column_text(row, column), (size_t)sqlite3_column_bytes(row, column));
}

/* SQLite's JSON ends a text at a NUL: what is bytes is asked for as bytes. */
static void read_result(sqlite3 *db, const struct argument *name, struct conformance_answer *ret)
{
    sqlite3_stmt *row = NULL;

    ONCE_ASSERT(sqlite3_prepare_v2(db, "SELECT once_result(?1, ?2)", -1, &row, NULL) == SQLITE_OK);
    bind(row, 1, &name[0]);
    bind(row, 2, &name[1]);
    ONCE_ASSERT(sqlite3_step(row) == SQLITE_ROW);
    ret->result_size = (size_t)sqlite3_column_bytes(row, 0);
    copy_text(ret->result, sqlite3_column_blob(row, 0), ret->result_size);
    sqlite3_finalize(row);
}

static void read_answer(sqlite3 *db, const char *json, struct conformance_answer *ret)
{
    static const char sql[] =
        "SELECT ?1 ->> 'verdict', ?1 ->> 'fence', ?1 ->> 'attempt', ?1 ->> 'retry_ms',"
        " ?1 ->> 'code', coalesce(?1 ->> 'result', ?1 ->> 'reason'), ?1 ->> 'point',"
        " ?1 ->> 'data', ?1 ->> 'state'";
    sqlite3_stmt *row = NULL;
    const char *word, *state;

    ONCE_ASSERT(sqlite3_prepare_v2(db, sql, -1, &row, NULL) == SQLITE_OK);
    sqlite3_bind_text(row, 1, json, -1, SQLITE_STATIC);
    ONCE_ASSERT(sqlite3_step(row) == SQLITE_ROW);
    word = (const char *)sqlite3_column_text(row, 0);
    for (int i = ONCE_EXECUTE; word && i <= ONCE_TOO_OLD; i++)
        if (strcmp(word, once_word_name((enum once_word)i)) == 0)
            ret->word = (enum once_word)i;
    ret->fence = (uint64_t)sqlite3_column_int64(row, 1);
    ret->attempt = (uint32_t)sqlite3_column_int64(row, 2);
    ret->retry_ms = sqlite3_column_int64(row, 3);
    ret->code = sqlite3_column_int(row, 4);
    copy_column(row, 5, ret->result);
    ret->result_size = (size_t)sqlite3_column_bytes(row, 5);
    copy_column(row, 6, ret->point);
    copy_column(row, 7, ret->data);
    state = (const char *)sqlite3_column_text(row, 8);
    for (int i = ONCE_STATE_STARTED; state && i <= ONCE_STATE_DOUBT; i++)
        if (strcmp(state, once_state_name((enum once_state)i)) == 0)
            ret->state = (enum once_state)i;
    sqlite3_finalize(row);
}

static void perform(void *self, const char *name, const struct argument *arguments, int count,
                    struct conformance_answer *ret)
{
    sqlite3 *db = connection(self);
    char *said = call_function(db, name, arguments, count, ret);

    if (!said)
        return;
    if (said[0] == '{') {
        read_answer(db, said, ret);
        if (ret->word == ONCE_REPLAY || ret->state == ONCE_STATE_COMPLETED)
            read_result(db, arguments, ret);
    } else {
        ret->word = strcmp(said, "DOUBT") == 0 ? ONCE_DOUBT : ONCE_DONE;
    }
    /* A doubt that is told by its word alone: what belongs to it stands in the record. */
    if (said[0] != '{' && ret->word == ONCE_DOUBT) {
        char *record = call_function(db, "once_get", arguments, 2, ret);

        ONCE_ASSERT(record != NULL);
        read_answer(db, record, ret);
        ret->word = ONCE_DOUBT;
        ret->state = ONCE_STATE_ABSENT;
        sqlite3_free(record);
    }
    sqlite3_free(said);
}

static void store_begin(void *self, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    perform(self, "once_begin",
            (struct argument[]){text(call->ns), text(call->key), text(call->fingerprint),
                                text(call->owner), given(call->ttl_ms), given(call->lease_ms),
                                text(call->on_doubt == ONCE_ON_DOUBT_RETRY ? "RETRY" : NULL)},
            7, ret);
}

static void store_complete(void *self, const struct conformance_call *call,
                           struct conformance_answer *ret)
{
    perform(self, "once_complete",
            (struct argument[]){text(call->ns), text(call->key), number((int64_t)call->fence),
                                number(call->code), bytes(call->result)},
            5, ret);
}

static void store_fail(void *self, const struct conformance_call *call,
                       struct conformance_answer *ret)
{
    perform(self, "once_fail",
            (struct argument[]){text(call->ns), text(call->key), number((int64_t)call->fence),
                                bytes(call->result)},
            4, ret);
}

static void store_checkpoint(void *self, const struct conformance_call *call,
                             struct conformance_answer *ret)
{
    perform(self, "once_checkpoint",
            (struct argument[]){text(call->ns), text(call->key), number((int64_t)call->fence),
                                text(call->point), text(call->data), text(call->after)},
            6, ret);
}

static void store_renew(void *self, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    perform(self, "once_renew",
            (struct argument[]){text(call->ns), text(call->key), number((int64_t)call->fence),
                                number(call->lease_ms)},
            4, ret);
}

static void store_resolve(void *self, const struct conformance_call *call,
                          struct conformance_answer *ret)
{
    perform(self, "once_resolve",
            (struct argument[]){text(call->ns), text(call->key), number(call->done ? 1 : 0),
                                number(call->code), bytes(call->result),
                                given((int64_t)call->fence)},
            6, ret);
}

static void store_forget(void *self, const struct conformance_call *call,
                         struct conformance_answer *ret)
{
    perform(self, "once_forget",
            (struct argument[]){text(call->ns), text(call->key), given((int64_t)call->fence)}, 3,
            ret);
}

static void store_get(void *self, const struct conformance_call *call,
                      struct conformance_answer *ret)
{
    perform(self, "once_get", (struct argument[]){text(call->ns), text(call->key)}, 2, ret);
    if (ret->err == ONCE_OK)
        ret->word = ret->state == ONCE_STATE_ABSENT ? ONCE_NOTFOUND : ONCE_DONE;
}

static struct conformance_adapter sqlite_adapter = {
    .open = store_open,
    .close = store_close,
    .advance = store_advance,
    .restart = store_restart,
    .begin = store_begin,
    .complete = store_complete,
    .fail = store_fail,
    .checkpoint = store_checkpoint,
    .renew = store_renew,
    .resolve = store_resolve,
    .forget = store_forget,
    .get = store_get,
};

int main(int argc, char **argv)
{
    static char name[96];
    const char *filter = NULL;

    sqlite_adapter.threads = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--wal") == 0)
            with_wal = true;
        else if (strcmp(argv[i], "--transaction") == 0)
            with_transaction = true;
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            sqlite_adapter.threads = (unsigned)strtoul(argv[++i], NULL, 10);
        else
            filter = argv[i];
    }
    (void)snprintf(name, sizeof name, "SQLite, %s, %s, %u threads",
                   with_wal ? "write-ahead log" : "rollback journal",
                   with_transaction ? "in a transaction" : "each call alone",
                   sqlite_adapter.threads);
    sqlite_adapter.name = name;
    return conformance_run(&sqlite_adapter, filter) > 0 ? 1 : 0;
}
