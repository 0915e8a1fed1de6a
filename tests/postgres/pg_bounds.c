/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds and time of objects on a store on PostgreSQL: an object that is full refuses what grows
 * and nothing else, alone and in the middle of a group; leases and answers end by the database's
 * clock.
 *
 *     ONCE_PG_URL=postgres://… pg_bounds     as the owner of the schema: it moves the clock
 */
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <once/apply.h>
#include <once/store.h>

#include "store/postgres/pg.h"

enum { OPS = 24, TEXT_SIZE = 32 };

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "pg_bounds: " __VA_ARGS__);                                      \
            (void)fprintf(stderr, " [line %d: %s]\n", __LINE__, #condition);                       \
            _exit(1); /* the store's threads go on, and libraries must not end below them */       \
        }                                                                                          \
    } while (0)

static struct once_store *store;
static unsigned serial;
static char payload[ONCE_PAYLOAD_SIZE_MAX];

/* One effect under a new key, or the given one. */
struct ask {
    char key[TEXT_SIZE];
    struct once_bytes words[6];
    struct once_do one;
    struct once_op op;
};

static void prepare(struct ask *ask, const char *key, const char *const *words)
{
    memset(ask, 0, sizeof(*ask));
    (void)snprintf(ask->key, sizeof(ask->key), "%s%u", key ? key : "new ", key ? 0 : ++serial);
    ask->one.words = ask->words;
    for (; words[ask->one.count]; ask->one.count++)
        ask->words[ask->one.count] = words[ask->one.count] == payload
                                         ? (struct once_bytes){(uint8_t *)payload, sizeof(payload)}
                                         : once_bytes_of(words[ask->one.count]);
    ask->op = (struct once_op){.call = ONCE_CALL_APPLY,
                               .ns = once_bytes_of("bounds"),
                               .key = once_bytes_of(ask->key),
                               .ttl_ms = key ? 1000 : 0,
                               .dos = &ask->one,
                               .do_count = 1};
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The word, or the error. */
static int apply(const char *key, const char *const *words, int64_t *ret_number)
{
    struct once_result result;
    struct ask ask;
    size_t offset = 0;
    int told;

    prepare(&ask, key, words);
    (void)once_call(store, &ask.op, 1);
    told = ask.op.reply.err != ONCE_OK ? ask.op.reply.err : (int)ask.op.reply.word;
    if (told == ONCE_ERR_FULL)
        CHECK(ask.op.reply.what && strstr(ask.op.reply.what, "4 MiB") && ask.op.reply.effect == 1,
              "%s", ask.op.reply.what ? ask.op.reply.what : "no text");
    if (told == (int)ONCE_APPLIED && ret_number &&
        once_results_next(ask.op.reply.result, &offset, &result) == 1)
        *ret_number = result.number;
    once_reply_release(&ask.op.reply);
    return told;
}

/* ---- An object that is full ------------------------------------------------------------------ */

/* Many in one call: those that fit happen, in order, and each of the others is refused. */
static void fill_in_a_group(void)
{
    static struct ask asks[OPS];
    struct once_op ops[OPS];
    unsigned applied = 0, full = 0;

    for (size_t i = 0; i < OPS; i++) {
        if (i % 2 == 0) /* what does not grow, between them */
            prepare(&asks[i], NULL, WORDS("ADD", "beside", "1"));
        else
            prepare(&asks[i], NULL, WORDS("APPEND", "log", "event", payload));
        ops[i] = asks[i].op;
    }
    (void)once_call(store, ops, OPS);
    for (size_t i = 0; i < OPS; i++) {
        CHECK(ops[i].reply.err == ONCE_OK || ops[i].reply.err == ONCE_ERR_FULL, "%s",
              once_err_name(ops[i].reply.err));
        CHECK(i % 2 == 1 || ops[i].reply.err == ONCE_OK, "a counter is not full");
        CHECK(i % 2 == 0 || ops[i].reply.err != ONCE_OK || full == 0, "full, and then not");
        applied += i % 2 == 1 && ops[i].reply.err == ONCE_OK ? 1 : 0;
        full += ops[i].reply.err == ONCE_ERR_FULL ? 1 : 0;
        once_reply_release(&ops[i].reply);
    }
    CHECK(applied == 3 && full == OPS / 2 - 3, "%u applied, %u full", applied, full);
}

static void check_full(void)
{
    int64_t number = 0;

    for (unsigned i = 0; i < 12; i++)
        CHECK(apply(NULL, WORDS("APPEND", "log", "event", payload), &number) == (int)ONCE_APPLIED,
              "event %u", i);
    fill_in_a_group();
    CHECK(apply(NULL, WORDS("APPEND", "log", "event", payload), NULL) == ONCE_ERR_FULL, "log");
    CHECK(apply(NULL, WORDS("APPEND", "log", "small", "one"), &number) == (int)ONCE_APPLIED &&
              number == 16,
          "event %" PRId64, number);
    CHECK(apply(NULL, WORDS("ADD", "beside", "1"), &number) == (int)ONCE_APPLIED &&
              number == OPS / 2 + 1,
          "%" PRId64, number);
    /* An outbox can be emptied. */
    for (unsigned i = 0; i < 15; i++)
        CHECK(apply(NULL, WORDS("EMIT", "outbox", payload), NULL) == (int)ONCE_APPLIED, "%u", i);
    CHECK(apply("kept", WORDS("EMIT", "outbox", payload), NULL) == ONCE_ERR_FULL, "outbox");
    CHECK(apply(NULL, WORDS("SENT", "outbox", "3", "4"), NULL) == (int)ONCE_APPLIED, "sent");
    CHECK(apply("kept", WORDS("EMIT", "outbox", payload), &number) == (int)ONCE_APPLIED &&
              number == 16,
          "an error is kept under no key; %" PRId64, number);
    CHECK(apply("kept", WORDS("EMIT", "outbox", payload), NULL) == (int)ONCE_REPLAY, "replay");
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void move_clock(PGconn *conn, const char *ms)
{
    PGresult *result = PQexecParams(conn, "SELECT once.set_clock($1::bigint, NULL)", 1, NULL, &ms,
                                    NULL, NULL, 0);

    CHECK(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQerrorMessage(conn));
    PQclear(result);
}

static void check_time(PGconn *conn)
{
    int64_t token = 0;

    CHECK(apply(NULL, WORDS("LEASE", "lease", "ann", "60000"), &token) == (int)ONCE_APPLIED &&
              token == 1,
          "token %" PRId64, token);
    CHECK(apply(NULL, WORDS("LEASE", "lease", "bob", "60000"), NULL) == (int)ONCE_REJECTED, "held");
    CHECK(apply(NULL, WORDS("RENEW", "lease", "1", "70000"), NULL) == (int)ONCE_APPLIED, "renew");
    move_clock(conn, "65000");
    CHECK(apply(NULL, WORDS("LEASE", "lease", "bob", "60000"), NULL) == (int)ONCE_REJECTED, "held");
    move_clock(conn, "80000");
    CHECK(apply(NULL, WORDS("LEASE", "lease", "bob", "60000"), &token) == (int)ONCE_APPLIED &&
              token == 2,
          "token %" PRId64, token);
    CHECK(apply(NULL, WORDS("RENEW", "lease", "1", "70000"), NULL) == (int)ONCE_REJECTED, "stale");
    CHECK(apply(NULL, WORDS("HOLD", "lease", "2"), NULL) == (int)ONCE_APPLIED, "hold");
    /* What is kept under a key is kept for its time. */
    CHECK(apply("soon gone", WORDS("ADD", "counter", "1"), NULL) == (int)ONCE_APPLIED, "first");
    CHECK(apply("soon gone", WORDS("ADD", "counter", "1"), NULL) == (int)ONCE_REPLAY, "again");
    move_clock(conn, "90000");
    CHECK(apply("soon gone", WORDS("ADD", "counter", "1"), &token) == (int)ONCE_APPLIED &&
              token == 2,
          "a new life");
}

int main(void)
{
    struct once__pg_setup setup = {.url = getenv("ONCE_PG_URL"), .lanes = 1};
    struct once_message message = {""};
    PGconn *conn = PQconnectdb(setup.url ? setup.url : "");

    CHECK(setup.url && PQstatus(conn) == CONNECTION_OK, "%s", PQerrorMessage(conn));
    CHECK(once__pg_open(&setup, &store, &message) == ONCE_OK, "%s", message.text);
    memset(payload, 'x', sizeof(payload));
    check_full();
    check_time(conn);
    CHECK(once_close(store) == ONCE_OK, "not closed");
    PQfinish(conn);
    (void)printf("bounds and time hold\n");
    return 0;
}
