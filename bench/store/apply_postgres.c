/* SPDX-License-Identifier: Apache-2.0
 *
 * PostgreSQL: the transaction that stands in for apply where people have no better. A row for the
 * key, which must be new; the debit; a row of the outbox. Statements are prepared, and each thread
 * has a connection of its own, through a Unix socket.
 *
 * postgres: all three in one statement, so that a transaction is one round trip. Three statements
 * in one pipeline take as long. postgres_steps: BEGIN, the three, COMMIT, one after the other, as
 * most applications do it. They share a server, and have a database each.
 */
#include "apply_peer.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pg_server.h"

enum { NUMBER_SIZE = 24, COPY_SIZE = 1 << 16 };

static struct bench_pg *server;
static int server_users;

struct postgres {
    PGconn **connections; /* one a thread */
    int threads;
    bool steps;
};

static const char create[] =
    "CREATE TABLE ops(key text PRIMARY KEY, value bytea NOT NULL);"
    "CREATE TABLE accounts(id int PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor=50);"
    "CREATE TABLE outbox(id bigint GENERATED ALWAYS AS IDENTITY (CACHE 32) PRIMARY KEY,"
    " topic text NOT NULL, payload bytea NOT NULL);";

struct statement {
    const char *name;
    const char *sql;
};

#define KEY_SQL "INSERT INTO ops VALUES ($1, $2)"
#define DEBIT_SQL "UPDATE accounts SET balance = balance - 1 WHERE balance > -1000000000 AND id = "
#define EMIT_SQL "INSERT INTO outbox(topic, payload) VALUES ('charges', "

static const struct statement statements[] = {
    {"key", KEY_SQL},
    {"debit", DEBIT_SQL "$1"},
    {"emit", EMIT_SQL "$1)"},
    {"all", "WITH k AS (" KEY_SQL "), b AS (" DEBIT_SQL "$3 RETURNING balance), "
            "o AS (" EMIT_SQL "$4)) SELECT balance FROM b"},
};

static _Noreturn void die(PGconn *connection)
{
    bench_die("postgres: %s", PQerrorMessage(connection));
}

static void say(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);

    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        die(connection);
    PQclear(result);
}

static void expect(struct postgres *postgres, const char *setting, const char *value)
{
    char sql[64];
    PGresult *result;

    snprintf(sql, sizeof sql, "SHOW %s", setting);
    result = PQexec(postgres->connections[0], sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        die(postgres->connections[0]);
    if (strcmp(PQgetvalue(result, 0, 0), value) != 0)
        bench_die("postgres: %s is %s", setting, PQgetvalue(result, 0, 0));
    PQclear(result);
}

static PGconn *connect_to(const char *database)
{
    char address[256];
    PGconn *connection;

    snprintf(address, sizeof address, "%s dbname=%s", bench_pg_address(server), database);
    connection = PQconnectdb(address);
    if (PQstatus(connection) != CONNECTION_OK)
        die(connection);
    return connection;
}

static void make_database(const struct bench_apply_load *load, const char *name)
{
    PGconn *connection;
    char sql[64];

    if (server_users++ == 0)
        server = bench_pg_start(load->folder);
    connection = connect_to("postgres");
    snprintf(sql, sizeof sql, "CREATE DATABASE %s", name);
    say(connection, sql);
    PQfinish(connection);
}

static void prepare(PGconn *connection)
{
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        PGresult *result = PQprepare(connection, statements[i].name, statements[i].sql, 0, NULL);

        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            die(connection);
        PQclear(result);
    }
}

static struct postgres *open_database(const struct bench_apply_load *load, const char *name)
{
    struct postgres *postgres = bench_alloc(1, sizeof *postgres);
    char accounts[96];

    make_database(load, name);
    postgres->threads = load->threads_max;
    postgres->connections = bench_alloc((size_t)load->threads_max, sizeof(PGconn *));
    for (int i = 0; i < load->threads_max; i++) {
        postgres->connections[i] = connect_to(name);
        say(postgres->connections[i], "SET plan_cache_mode = force_generic_plan");
    }
    expect(postgres, "fsync", "on");
    expect(postgres, "synchronous_commit", "on");
    expect(postgres, "full_page_writes", "on");
    say(postgres->connections[0], create);
    snprintf(accounts, sizeof accounts,
             "INSERT INTO accounts SELECT id, 0 FROM generate_series(0, %d) AS id",
             BENCH_ACCOUNTS - 1);
    say(postgres->connections[0], accounts);
    for (int i = 0; i < load->threads_max; i++)
        prepare(postgres->connections[i]);
    return postgres;
}

static void *open_whole(const struct bench_apply_load *load)
{
    return open_database(load, "whole");
}

static void *open_steps(const struct bench_apply_load *load)
{
    struct postgres *postgres = open_database(load, "steps");

    postgres->steps = true;
    return postgres;
}

/* The parameters of one transaction. */
struct order {
    char key[BENCH_KEY_SIZE + 1];
    char account[NUMBER_SIZE];
    const char *values[4];
};

static const int sizes[4] = {0, BENCH_VALUE_SIZE, 0, BENCH_PAYLOAD_SIZE}, binary[4] = {0, 1, 0, 1};

static void order_init(struct order *order, const struct bench_key *key)
{
    memcpy(order->key, key->text, BENCH_KEY_SIZE);
    order->key[BENCH_KEY_SIZE] = '\0';
    snprintf(order->account, sizeof order->account, "%u", bench_account(key));
    order->values[0] = order->key;
    order->values[1] = (const char *)bench_value;
    order->values[2] = order->account;
    order->values[3] = bench_payload;
}

/* Runs a prepared statement with count parameters from the one of this number on. False: the key is
 * known. Dies unless it is that or as many rows were changed or told as it should be. */
static bool run(PGconn *connection, const char *name, const struct order *order, int from,
                int count)
{
    PGresult *result = PQexecPrepared(connection, name, count, order->values + from, sizes + from,
                                      binary + from, 0);
    ExecStatusType status = PQresultStatus(result);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    bool known = state && strcmp(state, "23505") == 0; /* unique_violation */

    if (!known && status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        die(connection);
    if (!known && strcmp(PQcmdTuples(result), "1") != 0)
        bench_die("postgres: %s: not one row", name);
    PQclear(result);
    return !known;
}

static size_t apply(void *self, int thread, const struct bench_key *keys, size_t count)
{
    struct postgres *postgres = self;
    PGconn *connection = postgres->connections[thread];
    struct order order;
    bool fresh;

    if (count != 1)
        bench_die("postgres: one at a time");
    order_init(&order, keys);
    if (!postgres->steps)
        return run(connection, "all", &order, 0, 4) ? 1 : 0;
    say(connection, "BEGIN");
    fresh = run(connection, "key", &order, 0, 2) && run(connection, "debit", &order, 2, 1) &&
            run(connection, "emit", &order, 3, 1);
    say(connection, fresh ? "COMMIT" : "ROLLBACK");
    return fresh ? 1 : 0;
}

/* Copies rows of one table; text makes the row of a key. */
static void copy(struct postgres *postgres, const char *sql, const struct bench_key *keys,
                 size_t count, int (*text)(const struct bench_key *key, char *at, size_t size))
{
    PGconn *connection = postgres->connections[0];
    PGresult *result = PQexec(connection, sql);
    char *buffer = bench_alloc(1, COPY_SIZE);
    size_t used = 0;

    if (PQresultStatus(result) != PGRES_COPY_IN)
        die(connection);
    PQclear(result);
    for (size_t i = 0; i < count; i++) {
        int size = text(&keys[i], buffer + used, COPY_SIZE - used);

        used += (size_t)size;
        if (used > COPY_SIZE - 1024 || i == count - 1) {
            if (PQputCopyData(connection, buffer, (int)used) != 1)
                die(connection);
            used = 0;
        }
    }
    if (PQputCopyEnd(connection, NULL) != 1)
        die(connection);
    result = PQgetResult(connection);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        die(connection);
    PQclear(result);
    while ((result = PQgetResult(connection)))
        PQclear(result);
    free(buffer);
}

static int op_text(const struct bench_key *key, char *at, size_t size)
{
    int used = snprintf(at, size, "%.*s\t\\\\x", BENCH_KEY_SIZE, key->text);

    for (size_t i = 0; i < BENCH_VALUE_SIZE; i++)
        used += snprintf(at + used, size - (size_t)used, "%02x", bench_value[i]);
    return used + snprintf(at + used, size - (size_t)used, "\n");
}

static int message_text(const struct bench_key *key, char *at, size_t size)
{
    (void)key;
    return snprintf(at, size, "charges\t%.*s\n", BENCH_PAYLOAD_SIZE, bench_payload);
}

static void fill_part(struct postgres *postgres, const struct bench_key *keys, size_t count)
{
    int debits[BENCH_ACCOUNTS] = {0};
    char sql[96];

    copy(postgres, "COPY ops FROM STDIN", keys, count, op_text);
    copy(postgres, "COPY outbox(topic, payload) FROM STDIN", keys, count, message_text);
    for (size_t i = 0; i < count; i++)
        debits[bench_account(&keys[i])]++;
    say(postgres->connections[0], "BEGIN");
    for (int i = 0; i < BENCH_ACCOUNTS; i++) {
        snprintf(sql, sizeof sql, "UPDATE accounts SET balance = balance - %d WHERE id = %d",
                 debits[i], i);
        say(postgres->connections[0], sql);
    }
    say(postgres->connections[0], "COMMIT");
}

/* In two parts: the checkpoint between them makes segments of its log that can be used again, and
 * after the second part no page has to be logged whole: as it is most of the time. */
static void fill(void *self, const struct bench_key *keys, size_t count)
{
    struct postgres *postgres = self;

    fill_part(postgres, keys, count / 2);
    say(postgres->connections[0], "CHECKPOINT");
    fill_part(postgres, keys + count / 2, count - count / 2);
    say(postgres->connections[0], "VACUUM ANALYZE");
    sync();
}

static uint64_t number_of(struct postgres *postgres, const char *sql)
{
    PGresult *result = PQexec(postgres->connections[0], sql);
    uint64_t number;

    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        die(postgres->connections[0]);
    number = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return number;
}

static void sums(void *self, uint64_t *ret_debits, uint64_t *ret_messages)
{
    *ret_debits = number_of(self, "SELECT -sum(balance) FROM accounts");
    *ret_messages = number_of(self, "SELECT count(*) FROM outbox");
}

static void close_postgres(void *self)
{
    struct postgres *postgres = self;

    for (int i = 0; i < postgres->threads; i++)
        PQfinish(postgres->connections[i]);
    if (--server_users == 0)
        bench_pg_stop(server);
    free(postgres->connections);
    free(postgres);
}

const struct bench_apply_peer bench_apply_postgres = {
    .name = "postgres",
    .effects = true,
    .open = open_whole,
    .fill = fill,
    .apply = apply,
    .sums = sums,
    .close = close_postgres,
};

const struct bench_apply_peer bench_apply_postgres_steps = {
    .name = "postgres_steps",
    .effects = true,
    .open = open_steps,
    .fill = fill,
    .apply = apply,
    .sums = sums,
    .close = close_postgres,
};
