/* SPDX-License-Identifier: Apache-2.0
 *
 * Many connections send the same payments again and again, each in a transaction with a balance,
 * and backends are killed at random:
 *
 *     ONCE_PG_URL=postgresql://… pg_balance [--connections N] [--keys N] [--sends N] [--kills N]
 *                                           [--crashes N] [--seed N] [--without]
 *
 *     BEGIN; once.begin → EXECUTE: update the balance, note the effect, once.complete; COMMIT
 *                       → REPLAY: the result must be the one that everybody got
 *
 * A send that lost its connection is sent again, whatever became of it; some are abandoned
 * half-way or rolled back on purpose. At the end each balance is the sum of its keys, each key had
 * one effect and one result, and none is lost. A deadlock, or any word but EXECUTE, REPLAY and
 * (where it was asked not to wait) BUSY, is a failure. --crashes kills with SIGKILL, after which
 * PostgreSQL starts anew: the backends must be processes of this machine. --without leaves Once
 * out: the checks must find what happens then.
 */
#include "conformance/pg_link.h"

#include "base/assert.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CONNECTIONS_MAX = 256,
    KEYS_MAX = 100000,
    ACCOUNTS = 40,
    RESULT_SIZE = 64,
    CONNECT_TRIES_MAX = 3000,
    TRIES_MAX = 10000,
    SHOWN_MAX = 20
};

struct options {
    uint64_t connections, keys, sends, kills, crashes, seed, without;
};

enum outcome { ANSWERED, LOST, BUSY, WRONG };

static struct options options = {
    .connections = 64, .keys = 1000, .sends = 20, .kills = 50, .seed = 1};
static uint32_t *order;              /* of the sends: indexes of keys */
static char (*results)[RESULT_SIZE]; /* of each key: what the first to know was told */
static pthread_mutex_t results_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic size_t next_send;
static _Atomic int failures, shown;
static _Atomic long executed, replayed, busy, lost, abandoned, killed;
static _Atomic bool finished;

static uint64_t shuffle(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

static void complain(const char *what, const char *more)
{
    atomic_fetch_add(&failures, 1);
    if (atomic_fetch_add(&shown, 1) < SHOWN_MAX)
        printf("# %s: %.400s\n", what, more);
}

static int64_t amount_of(uint32_t key)
{
    return 1 + key % 97;
}

/* ---- One send -------------------------------------------------------------------------------- */

/* Hundreds of "terminating connection". */
static void ignore(void *self, const char *text)
{
    (void)self;
    (void)text;
}

/* PostgreSQL may just be starting again. */
static PGconn *connect_again(void)
{
    for (int tries = 0; tries < CONNECT_TRIES_MAX; tries++) {
        PGconn *conn = PQconnectdb(getenv("ONCE_PG_URL"));

        PQsetNoticeProcessor(conn, ignore, NULL);
        if (PQstatus(conn) == CONNECTION_OK)
            return conn;
        PQfinish(conn);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    pg_die("nobody answers", NULL, NULL);
}

/* Of a statement that failed: was it the connection? */
static enum outcome failed(const PGconn *conn, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    /* 57P01 terminated, 57P02 crash of another, 57P03 starting; no state: the socket closed. */
    if (!state || strncmp(state, "57P", 3) == 0 || PQstatus(conn) != CONNECTION_OK)
        return LOST;
    complain(state, PQresultErrorMessage(result));
    return WRONG;
}

static enum outcome run(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    ExecStatusType status = PQresultStatus(result);
    enum outcome outcome = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK
                               ? ANSWERED
                               : failed(conn, result);

    PQclear(result);
    return outcome;
}

/* All that are told a result are told the same. */
static void compare_result(uint32_t key, const char *result)
{
    ONCE_ASSERT(pthread_mutex_lock(&results_mutex) == 0);
    if (results[key][0] == '\0')
        snprintf(results[key], RESULT_SIZE, "%s", result);
    else if (strcmp(results[key], result) != 0)
        complain("another result", result);
    ONCE_ASSERT(pthread_mutex_unlock(&results_mutex) == 0);
}

/* The effect, and its result: the amount and who did it, so that two of them differ. */
static enum outcome execute(PGconn *conn, uint32_t key, const char *fence, const char *result)
{
    enum outcome outcome;
    char text[PG_TEXT_SIZE];

    snprintf(text, sizeof(text),
             "UPDATE public.account SET balance = balance + %" PRId64 " WHERE id = %" PRIu32
             "; INSERT INTO public.effect VALUES (%" PRIu32 ")",
             amount_of(key), key % ACCOUNTS, key);
    outcome = run(conn, text);
    if (outcome != ANSWERED || options.without)
        return outcome;
    snprintf(text, sizeof(text), "SELECT once.complete('pay', 'key-%" PRIu32 "', %s, 0, '%s')", key,
             fence, result);
    return run(conn, text);
}

/* begin; a word other than EXECUTE is the answer. */
static enum outcome begin(PGconn *conn, uint32_t key, bool wait, char *ret_word, char *ret_fence,
                          char *ret_result)
{
    char text[PG_TEXT_SIZE];
    PGresult *result;
    enum outcome outcome = ANSWERED;

    if (options.without) {
        snprintf(ret_word, RESULT_SIZE, "EXECUTE");
        return ANSWERED;
    }
    snprintf(text, sizeof(text),
             "SELECT verdict, fence, convert_from(result, 'UTF8') FROM once.begin('pay',"
             " 'key-%" PRIu32 "', 'amount %" PRId64 "', wait => %s)",
             key, amount_of(key), wait ? "true" : "false");
    result = PQexec(conn, text);
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1) {
        outcome = failed(conn, result);
    } else {
        snprintf(ret_word, RESULT_SIZE, "%s", PQgetvalue(result, 0, 0));
        snprintf(ret_fence, RESULT_SIZE, "%s", PQgetvalue(result, 0, 1));
        snprintf(ret_result, RESULT_SIZE, "%s", PQgetvalue(result, 0, 2));
    }
    PQclear(result);
    return outcome;
}

/* One transaction. */
static enum outcome send_once(PGconn *conn, uint32_t key, uint64_t *random)
{
    char word[RESULT_SIZE], fence[RESULT_SIZE], result[RESULT_SIZE];
    uint64_t fate = shuffle(random) % 100;
    enum outcome outcome = run(conn, "BEGIN");

    if (outcome == ANSWERED)
        outcome = begin(conn, key, fate % 4 != 0, word, fence, result);
    if (outcome != ANSWERED)
        return outcome;
    if (strcmp(word, "REPLAY") == 0) {
        compare_result(key, result);
        atomic_fetch_add(&replayed, 1);
        return run(conn, "COMMIT");
    }
    if (strcmp(word, "BUSY") == 0 && fate % 4 == 0) {
        atomic_fetch_add(&busy, 1);
        outcome = run(conn, "ROLLBACK");
        return outcome == ANSWERED ? BUSY : outcome;
    }
    if (strcmp(word, "EXECUTE") != 0) {
        complain("a word that cannot be", word);
        return WRONG;
    }
    snprintf(result, sizeof(result), "%" PRId64 " by %016" PRIx64, amount_of(key), shuffle(random));
    outcome = execute(conn, key, fence, result);
    if (outcome != ANSWERED)
        return outcome;
    if (fate < 5) { /* the program dies with its transaction open */
        atomic_fetch_add(&abandoned, 1);
        return LOST;
    }
    if (fate < 10) { /* it thinks better of it */
        atomic_fetch_add(&abandoned, 1);
        outcome = run(conn, "ROLLBACK");
        return outcome == ANSWERED ? BUSY : outcome;
    }
    outcome = run(conn, "COMMIT");
    if (outcome == ANSWERED && !options.without) {
        compare_result(key, result);
        atomic_fetch_add(&executed, 1);
    }
    return outcome;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *sender(void *self)
{
    uint64_t random = options.seed * 1000 + (uint64_t)(uintptr_t)self;
    PGconn *conn = connect_again();

    for (;;) {
        size_t i = atomic_fetch_add(&next_send, 1);
        enum outcome outcome = LOST;

        if (i >= options.keys * options.sends)
            break;
        for (int tries = 0; outcome != ANSWERED; tries++) {
            outcome = send_once(conn, order[i], &random);
            if (outcome == LOST || outcome == WRONG) {
                atomic_fetch_add(&lost, 1);
                PQfinish(conn);
                conn = connect_again();
            }
            if (outcome == WRONG || tries > TRIES_MAX) {
                complain("a send was never answered", "");
                break;
            }
        }
    }
    PQfinish(conn);
    return NULL;
}

/* Some backend of the senders; 0 when there is none. */
static int64_t victim(PGconn *conn)
{
    PGresult *result = PQexec(
        conn, "SELECT coalesce((SELECT pid FROM pg_stat_activity WHERE datname ="
              " current_database() AND pid <> pg_backend_pid() AND backend_type ="
              " 'client backend' AND state <> 'idle' ORDER BY random() LIMIT 1), 0)");
    int64_t pid = PQresultStatus(result) == PGRES_TUPLES_OK
                      ? strtoll(PQgetvalue(result, 0, 0), NULL, 10)
                      : -1;

    PQclear(result);
    return pid;
}

/* SIGKILL, if it is still what it was. */
static void crash(int64_t pid)
{
    char path[64], name[32] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%" PRId64 "/comm", pid);
    file = fopen(path, "r");
    if (!file)
        return;
    if (fgets(name, sizeof(name), file) && strcmp(name, "postgres\n") == 0)
        kill((pid_t)pid, SIGKILL);
    fclose(file);
}

/* Spreads its kills over the sends, so that a fast machine has as many as a slow one. */
static void *killer(void *self)
{
    uint64_t total = options.kills + options.crashes;
    PGconn *conn = connect_again();

    (void)self;
    for (uint64_t n = 1; n <= total && !atomic_load(&finished);) {
        size_t due = options.keys * options.sends * n / (total + 1);
        int64_t pid = 0;

        if (atomic_load(&next_send) < due) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            continue;
        }
        pid = victim(conn);
        if (pid < 0) {
            PQfinish(conn);
            conn = connect_again();
            continue;
        }
        if (pid == 0)
            continue;
        if (options.crashes > 0 && n % (total / options.crashes) == 0) {
            crash(pid);
        } else {
            char text[PG_TEXT_SIZE];

            snprintf(text, sizeof(text), "SELECT pg_terminate_backend(%" PRId64 ")", pid);
            if (run(conn, text) != ANSWERED)
                continue;
        }
        atomic_fetch_add(&killed, 1);
        n++;
    }
    PQfinish(conn);
    return NULL;
}

/* ---- Before and after ------------------------------------------------------------------------ */

static void prepare(void)
{
    PGconn *conn = connect_again();
    uint64_t random = options.seed;
    size_t count = options.keys * options.sends;
    char text[PG_TEXT_SIZE];

    order = calloc(count, sizeof(*order));
    results = calloc(options.keys, sizeof(*results));
    ONCE_ASSERT(order != NULL && results != NULL);
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)(i % options.keys);
    /* Near each other, so that the same key is in several hands at a time. */
    for (size_t i = 0; i < count; i++) {
        size_t j = i + shuffle(&random) % (count - i < 2000 ? count - i : 2000);
        uint32_t other = order[j];

        order[j] = order[i];
        order[i] = other;
    }
    snprintf(text, sizeof(text),
             "SET client_min_messages = warning; DROP TABLE IF EXISTS public.account,"
             " public.effect; CREATE TABLE public.account (id integer PRIMARY KEY, balance bigint"
             " NOT NULL) WITH (fillfactor = 50); CREATE TABLE public.effect (key integer);"
             " INSERT INTO public.account SELECT i, 0 FROM generate_series(0, %d) i",
             ACCOUNTS - 1);
    pg_run(conn, text);
    PQfinish(conn);
}

/* A text with one %, of which the number must be this. */
static void expect(PGconn *conn, const char *what, const char *text, int64_t want)
{
    int64_t got = pg_number(conn, text);
    char more[PG_TEXT_SIZE];

    snprintf(more, sizeof(more), "%" PRId64 ", not %" PRId64, got, want);
    if (got != want)
        complain(what, more);
}

static void check(void)
{
    PGconn *conn = connect_again();
    char text[PG_TEXT_SIZE];

    for (uint32_t account = 0; account < ACCOUNTS; account++) {
        int64_t want = 0;

        for (uint32_t key = account; key < options.keys; key += ACCOUNTS)
            want += amount_of(key);
        snprintf(text, sizeof(text), "SELECT balance FROM public.account WHERE id = %" PRIu32,
                 account);
        expect(conn, "a balance", text, want);
    }
    expect(conn, "effects", "SELECT count(*) FROM public.effect", (int64_t)options.keys);
    expect(conn, "keys with an effect", "SELECT count(DISTINCT key) FROM public.effect",
           (int64_t)options.keys);
    if (!options.without)
        expect(conn, "keys that are kept",
               "SELECT count(*) FROM once.operation WHERE ns = 'pay' AND state = 2",
               (int64_t)options.keys);
    for (uint32_t key = 0; !options.without && key < options.keys; key++) {
        PGresult *result;

        snprintf(text, sizeof(text),
                 "SELECT convert_from(result, 'UTF8') FROM once.get('pay',"
                 " 'key-%" PRIu32 "')",
                 key);
        result = PQexec(conn, text);
        if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
            complain("a lost key", text);
        else
            compare_result(key, PQgetvalue(result, 0, 0));
        PQclear(result);
    }
    PQfinish(conn);
}

static void read_options(int argc, char **argv)
{
    const struct {
        const char *name;
        uint64_t *to;
    } known[] = {{"--connections", &options.connections},
                 {"--keys", &options.keys},
                 {"--sends", &options.sends},
                 {"--kills", &options.kills},
                 {"--crashes", &options.crashes},
                 {"--seed", &options.seed}};

    for (int i = 1; i < argc; i++) {
        bool found = strcmp(argv[i], "--without") == 0;

        options.without |= found;
        for (size_t j = 0; !found && i + 1 < argc && j < sizeof(known) / sizeof(known[0]); j++) {
            if (strcmp(argv[i], known[j].name) == 0) {
                *known[j].to = strtoull(argv[++i], NULL, 10);
                found = true;
            }
        }
        if (!found || options.connections > CONNECTIONS_MAX || options.keys > KEYS_MAX) {
            fprintf(stderr, "pg_balance: %s is not known, or out of range\n", argv[i]);
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    pthread_t threads[CONNECTIONS_MAX], killing;

    setvbuf(stdout, NULL, _IOLBF, 0);
    read_options(argc, argv);
    prepare();
    for (uintptr_t i = 0; i < options.connections; i++)
        ONCE_ASSERT(pthread_create(&threads[i], NULL, sender, (void *)i) == 0); // NOLINT
    ONCE_ASSERT(pthread_create(&killing, NULL, killer, NULL) == 0);
    for (size_t i = 0; i < options.connections; i++)
        ONCE_ASSERT(pthread_join(threads[i], NULL) == 0);
    atomic_store(&finished, true);
    atomic_store(&shown, 0); /* what is found at the end is worth as many lines */
    ONCE_ASSERT(pthread_join(killing, NULL) == 0);
    check();
    printf("executed %ld replayed %ld busy %ld lost %ld abandoned %ld killed %ld failures %d\n",
           atomic_load(&executed), atomic_load(&replayed), atomic_load(&busy), atomic_load(&lost),
           atomic_load(&abandoned), atomic_load(&killed), atomic_load(&failures));
    free(order);
    free(results);
    return atomic_load(&failures) > 0 ? 1 : 0;
}
