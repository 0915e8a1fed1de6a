/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance suite on the SQL functions of hosts/postgres, called as a program calls them:
 * each step is a transaction of the caller, BEGIN, a function, COMMIT, and a refusal rolls it
 * back.
 *
 *     ONCE_PG_URL=postgresql://… conformance_postgres [--business] [--straight] [--threads N]
 *                                                     [scenario]
 *
 * --business: each transaction first does something of its own, which must have happened exactly
 * when the call was not refused. --straight: no restarts. A restart ends every backend and
 * connects anew. The clock is the store's, stopped: milliseconds count in some scenarios. The role
 * of the URL owns the schema.
 *
 * The words of the answer are read from what SQL gives: a row of once.verdict, 'OK', or an error
 * ("STALE …", SQLSTATE ON007); nothing is decided here.
 */
#include "conformance/conformance.h"
#include "conformance/pg_link.h"

#include "base/assert.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { END_TRIES_MAX = 100000 };

static bool with_business;
static unsigned thread_count = 1;

struct pg_store {
    pthread_mutex_t mutex;
    PGconn *idle[CONFORMANCE_THREADS_MAX];
    int idle_count;
    int64_t effects; /* transactions that were committed with a call in them */
};

/* ---- Connections ---------------------------------------------------------------------------- */

static PGconn *take(struct pg_store *store)
{
    PGconn *conn = NULL;

    ONCE_ASSERT(pthread_mutex_lock(&store->mutex) == 0);
    if (store->idle_count > 0)
        conn = store->idle[--store->idle_count];
    ONCE_ASSERT(pthread_mutex_unlock(&store->mutex) == 0);
    return conn ? conn : pg_connect();
}

static void give(struct pg_store *store, PGconn *conn)
{
    ONCE_ASSERT(pthread_mutex_lock(&store->mutex) == 0);
    ONCE_ASSERT(store->idle_count < CONFORMANCE_THREADS_MAX);
    store->idle[store->idle_count++] = conn;
    ONCE_ASSERT(pthread_mutex_unlock(&store->mutex) == 0);
}

static void drop_all(struct pg_store *store)
{
    while (store->idle_count > 0)
        PQfinish(store->idle[--store->idle_count]);
}

/* ---- Life and death ------------------------------------------------------------------------- */

static void *store_open(once_ms start_ms)
{
    struct pg_store *store = calloc(1, sizeof(*store));
    PGconn *conn = pg_connect();
    char text[PG_TEXT_SIZE];

    ONCE_ASSERT(store != NULL);
    ONCE_ASSERT(pthread_mutex_init(&store->mutex, NULL) == 0);
    snprintf(text, sizeof(text),
             "BEGIN; CREATE TABLE IF NOT EXISTS public.conformance_effect (n bigserial);"
             " TRUNCATE public.conformance_effect; DELETE FROM once.operation;"
             " SELECT once.set_clock(-300000000000000, %lld); COMMIT",
             (long long)start_ms);
    pg_run(conn, "SET client_min_messages = warning");
    pg_run(conn, text);
    ONCE_ASSERT(pg_number(conn, "SELECT once.now_ms()") == start_ms);
    give(store, conn);
    return store;
}

static void store_close(void *self)
{
    struct pg_store *store = self;
    PGconn *conn = take(store);
    int64_t found = pg_number(conn, "SELECT count(*) FROM public.conformance_effect");

    PQfinish(conn);
    if (with_business && found != store->effects) {
        printf("# %lld effects, not %lld\n", (long long)found, (long long)store->effects);
        pg_die("a refused call left an effect, or one was lost", NULL, NULL);
    }
    drop_all(store);
    pthread_mutex_destroy(&store->mutex);
    free(store);
}

static void store_advance(void *self, once_ms by_ms)
{
    struct pg_store *store = self;
    PGconn *conn = take(store);
    char text[PG_TEXT_SIZE];

    snprintf(text, sizeof(text), "SELECT once.set_clock(NULL, once.now_ms() + %lld)",
             (long long)by_ms);
    pg_run(conn, text);
    give(store, conn);
}

/* A signal takes a moment; a backend that never ends is a failure. */
static void await_end(PGconn *conn)
{
    for (int tries = 0; tries < END_TRIES_MAX; tries++) {
        PGresult *result = PQexec(conn, "SELECT 1");
        bool lives = PQresultStatus(result) == PGRES_TUPLES_OK;

        PQclear(result);
        if (!lives)
            return;
    }
    pg_die("a backend that was terminated lives", conn, NULL);
}

/* Every backend of this program ends, and none of them is used again. */
static void *store_restart(void *self)
{
    struct pg_store *store = self;
    PGconn *conn = pg_connect();

    pg_run(conn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
                 " current_database() AND pid <> pg_backend_pid() AND backend_type ="
                 " 'client backend'");
    for (int i = 0; i < store->idle_count; i++)
        await_end(store->idle[i]);
    drop_all(store);
    give(store, conn);
    return store;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static void copy_text(char *to, struct once_bytes bytes)
{
    size_t size = bytes.size < CONFORMANCE_BYTES_MAX ? bytes.size : CONFORMANCE_BYTES_MAX - 1;

    if (size > 0)
        memcpy(to, bytes.data, size);
    to[size] = '\0';
}

static enum once_word word_of(struct once_bytes name)
{
    for (int word = ONCE_EXECUTE; word <= ONCE_REJECTED; word++) {
        const char *known = once_word_name((enum once_word)word);

        if (name.size == strlen(known) && memcmp(name.data, known, name.size) == 0)
            return (enum once_word)word;
    }
    pg_die("this is no word", NULL, NULL);
}

static enum once_state state_of(struct once_bytes name)
{
    for (int state = ONCE_STATE_ABSENT; state <= ONCE_STATE_DOUBT; state++) {
        const char *known = once_state_name((enum once_state)state);

        if (name.size == strlen(known) && memcmp(name.data, known, name.size) == 0)
            return (enum once_state)state;
    }
    pg_die("this is no state", NULL, NULL);
}

static int err_of(const char *name)
{
    for (int err = -1; name && err >= ONCE_ERR_LOADING; err--) {
        if (strcmp(name, once_err_name(err)) == 0)
            return err;
    }
    return ONCE_OK;
}

/* "BUSY …; come back in 250 ms". 0 when it does not say so. */
static once_ms retry_ms_of(const char *text)
{
    const char *at = strstr(text, "come back in ");

    return at ? strtoll(at + strlen("come back in "), NULL, 10) : 0;
}

/* An error of SQL: a word whose message begins with it, or a refusal that names an error. */
static void read_error(PGconn *conn, const PGresult *result, struct conformance_answer *ret)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);

    *ret = (struct conformance_answer){.err = ONCE_OK};
    if (state && text && strncmp(state, "ON", 2) == 0) {
        ret->word = word_of((struct once_bytes){(const uint8_t *)text, strcspn(text, " ")});
        if ((long)ret->word != strtol(state + 2, NULL, 10))
            pg_die("SQLSTATE and word are not the same", conn, result);
        if (ret->word == ONCE_BUSY)
            ret->retry_ms = retry_ms_of(text);
        return;
    }
    if (state && (strcmp(state, "22023") == 0 || strcmp(state, "54000") == 0))
        ret->err = err_of(detail);
    if (ret->err == ONCE_OK)
        pg_die("an error that is no answer", conn, result);
}

/* The fields that a result has by these names; the others stay 0. */
static void read_fields(const PGresult *result, struct conformance_answer *ret)
{
    for (int column = 0; column < PQnfields(result); column++) {
        const char *name = PQfname(result, column);

        if (PQgetisnull(result, 0, column))
            continue;
        if (strcmp(name, "fence") == 0)
            ret->fence = (uint64_t)pg_int(result, 0, column);
        else if (strcmp(name, "attempt") == 0)
            ret->attempt = (uint32_t)pg_int(result, 0, column);
        else if (strcmp(name, "retry_ms") == 0)
            ret->retry_ms = pg_int(result, 0, column);
        else if (strcmp(name, "code") == 0)
            ret->code = (int32_t)pg_int(result, 0, column);
        else if (strcmp(name, "point") == 0)
            copy_text(ret->point, pg_bytes(result, 0, column));
        else if (strcmp(name, "data") == 0)
            copy_text(ret->data, pg_bytes(result, 0, column));
        else if (strcmp(name, "state") == 0)
            ret->state = state_of(pg_bytes(result, 0, column));
        else if (strcmp(name, "verdict") == 0)
            ret->word = word_of(pg_bytes(result, 0, column));
        else if (strcmp(name, "result") == 0) {
            ret->result_size = pg_bytes(result, 0, column).size;
            copy_text(ret->result, pg_bytes(result, 0, column));
        }
    }
}

/* Calls that say only DOUBT: what the caller is told of it is what get tells. */
static void look_up(PGconn *conn, const struct conformance_call *call,
                    struct conformance_answer *ret)
{
    struct pg_ask ask = {.count = 0};
    PGresult *result;

    pg_add(&ask, "SELECT fence, attempt, point, data FROM once.get(");
    pg_add_text(&ask, call->ns);
    pg_add(&ask, ",");
    pg_add_text(&ask, call->key);
    pg_add(&ask, ")");
    result = pg_ask(conn, &ask);
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        pg_die(ask.text, conn, result);
    read_fields(result, ret);
    PQclear(result);
}

/* A transaction of the caller with this statement in it. */
static void perform(struct pg_store *store, const struct conformance_call *call,
                    const struct pg_ask *ask, struct conformance_answer *ret)
{
    PGconn *conn = take(store);
    PGresult *result;
    bool told;

    *ret = (struct conformance_answer){.err = ONCE_OK};
    pg_run(conn, "BEGIN");
    if (with_business)
        pg_run(conn, "INSERT INTO public.conformance_effect DEFAULT VALUES");
    result = pg_ask(conn, ask);
    told = PQresultStatus(result) == PGRES_TUPLES_OK;
    if (!told) {
        read_error(conn, result, ret);
    } else if (PQntuples(result) == 0) {
        ret->word = ONCE_NOTFOUND; /* only get gives no row */
    } else {
        ret->word = ONCE_DONE;
        read_fields(result, ret);
        if (ret->word == ONCE_DOUBT && PQfnumber(result, "fence") < 0)
            look_up(conn, call, ret);
    }
    PQclear(result);
    pg_run(conn, told ? "COMMIT" : "ROLLBACK");
    ONCE_ASSERT(pthread_mutex_lock(&store->mutex) == 0);
    store->effects += told;
    ONCE_ASSERT(pthread_mutex_unlock(&store->mutex) == 0);
    give(store, conn);
}

/* "SELECT … once.<name>(ns, key". */
static struct pg_ask *start(struct pg_ask *ask, const char *columns, const char *name,
                            const struct conformance_call *call)
{
    *ask = (struct pg_ask){.count = 0};
    pg_add(ask, "SELECT %s FROM once.%s(", columns, name);
    pg_add_text(ask, call->ns);
    pg_add(ask, ", ");
    pg_add_text(ask, call->key);
    return ask;
}

/* Arguments that are not given are left out, so that the defaults are tested too. */
static void store_begin(void *store, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    struct pg_ask ask;

    start(&ask, "*", "begin", call);
    if (call->fingerprint) {
        pg_add(&ask, ", fingerprint => ");
        pg_add_bytes(&ask, once_bytes_of(call->fingerprint));
    }
    if (call->owner) {
        pg_add(&ask, ", owner => ");
        pg_add_text(&ask, call->owner);
    }
    if (call->ttl_ms != 0) {
        pg_add(&ask, ", ttl_ms => ");
        pg_add_int8(&ask, call->ttl_ms);
    }
    if (call->lease_ms != 0) {
        pg_add(&ask, ", lease_ms => ");
        pg_add_int8(&ask, call->lease_ms);
    }
    if (call->on_doubt == ONCE_ON_DOUBT_RETRY) {
        pg_add(&ask, ", on_doubt => ");
        pg_add_text(&ask, "RETRY");
    }
    pg_add(&ask, ")");
    perform(store, call, &ask, ret);
}

static void add_fence(struct pg_ask *ask, const struct conformance_call *call)
{
    pg_add(ask, ", fence => ");
    pg_add_int8(ask, (int64_t)call->fence);
}

static void add_answer(struct pg_ask *ask, const struct conformance_call *call)
{
    if (call->code != 0) {
        pg_add(ask, ", code => ");
        pg_add_int4(ask, call->code);
    }
    if (call->result.data) {
        pg_add(ask, ", result => ");
        pg_add_bytes(ask, call->result);
    }
}

static void store_complete(void *store, const struct conformance_call *call,
                           struct conformance_answer *ret)
{
    struct pg_ask ask;

    start(&ask, "complete AS verdict", "complete", call);
    add_fence(&ask, call);
    add_answer(&ask, call);
    pg_add(&ask, ")");
    perform(store, call, &ask, ret);
}

/* A reason is text in SQL. */
static void store_fail(void *store, const struct conformance_call *call,
                       struct conformance_answer *ret)
{
    struct pg_ask ask;

    start(&ask, "fail AS verdict", "fail", call);
    add_fence(&ask, call);
    if (call->result.data) {
        pg_add(&ask, ", reason => convert_from(");
        pg_add_bytes(&ask, call->result);
        pg_add(&ask, ", 'UTF8')");
    }
    pg_add(&ask, ")");
    perform(store, call, &ask, ret);
}

static void store_checkpoint(void *store, const struct conformance_call *call,
                             struct conformance_answer *ret)
{
    struct pg_ask ask;

    start(&ask, "checkpoint AS verdict", "checkpoint", call);
    add_fence(&ask, call);
    pg_add(&ask, ", point => ");
    pg_add_text(&ask, call->point);
    if (call->data) {
        pg_add(&ask, ", data => ");
        pg_add_bytes(&ask, once_bytes_of(call->data));
    }
    if (call->after) {
        pg_add(&ask, ", after => ");
        pg_add_text(&ask, call->after);
    }
    pg_add(&ask, ")");
    perform(store, call, &ask, ret);
}

static void store_renew(void *store, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    struct pg_ask ask;

    start(&ask, "renew AS verdict", "renew", call);
    add_fence(&ask, call);
    pg_add(&ask, ", lease_ms => ");
    pg_add_int8(&ask, call->lease_ms);
    pg_add(&ask, ")");
    perform(store, call, &ask, ret);
}

static void store_resolve(void *store, const struct conformance_call *call,
                          struct conformance_answer *ret)
{
    struct pg_ask ask;

    start(&ask, "resolve AS verdict", "resolve", call);
    pg_add(&ask, ", done => ");
    pg_add_bool(&ask, call->done);
    add_answer(&ask, call);
    if (call->fence != 0)
        add_fence(&ask, call);
    pg_add(&ask, ")");
    perform(store, call, &ask, ret);
}

static void store_forget(void *store, const struct conformance_call *call,
                         struct conformance_answer *ret)
{
    struct pg_ask ask;

    start(&ask, "forget AS verdict", "forget", call);
    if (call->fence != 0)
        add_fence(&ask, call);
    pg_add(&ask, ")");
    perform(store, call, &ask, ret);
}

static void store_get(void *store, const struct conformance_call *call,
                      struct conformance_answer *ret)
{
    struct pg_ask ask;

    start(&ask, "*", "get", call);
    pg_add(&ask, ")");
    perform(store, call, &ask, ret);
}

/* ---- The program ---------------------------------------------------------------------------- */

static struct conformance_adapter postgres_adapter = {
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
    const char *filter = NULL;
    char name[128];

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--business") == 0)
            with_business = true;
        else if (strcmp(argv[i], "--straight") == 0)
            postgres_adapter.restart = NULL;
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            thread_count = (unsigned)strtoul(argv[++i], NULL, 10);
        else
            filter = argv[i];
    }
    if (thread_count < 1 || thread_count > CONFORMANCE_THREADS_MAX) {
        fprintf(stderr, "--threads: 1 to %d\n", CONFORMANCE_THREADS_MAX);
        return 2;
    }
    snprintf(name, sizeof(name), "PostgreSQL%s, %u threads", with_business ? ", with business" : "",
             thread_count);
    postgres_adapter.name = name;
    postgres_adapter.threads = thread_count;
    return conformance_run(&postgres_adapter, filter) > 0 ? 1 : 0;
}
