/* SPDX-License-Identifier: Apache-2.0
 *
 * One session with the database: connecting, waiting with a deadline, and what errors mean.
 *
 * A session is used by one thread at a time. It never blocks without a bound: everything but the
 * connecting itself goes through once__pg_next, which gives up at its deadline, and when the store
 * is being closed. Connecting is libpq's, which knows how to try several hosts; connect_timeout
 * bounds it for each. What this file does not do: decide what is asked again (pg_flight.c).
 */
#include "store/postgres/pg_inner.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

uint64_t once__pg_clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

once_ms once__pg_clock_ms(void)
{
    return (once_ms)(once__pg_clock_us() / 1000);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* What libpq says, in one line; of several hosts each has said something. */
static void keep_text(struct once__pg_link *link, const char *text)
{
    size_t used = 0;

    if (!text || text[0] == '\0')
        text = "the connection was lost";
    for (; *text != '\0' && used + 3 < sizeof(link->text); text++) {
        bool blank = *text == ' ' || *text == '\t';

        if (*text == '\n' && text[1] != '\0') {
            link->text[used++] = ';';
            link->text[used++] = ' ';
        } else if (*text != '\n' && !(blank && used > 0 && link->text[used - 1] == ' ')) {
            link->text[used++] = blank ? ' ' : *text;
        }
    }
    link->text[used] = '\0';
}

static bool in_class(const struct once__pg_link *link, const char *class)
{
    return strncmp(link->state, class, strlen(class)) == 0;
}

/* What an SQLSTATE means to a caller. */
static int meaning(const struct once__pg_link *link)
{
    if (strcmp(link->state, "53200") == 0)
        return ONCE_ERR_MEMORY;
    if (strcmp(link->state, "53100") == 0)
        return ONCE_ERR_SPACE;
    if (strcmp(link->state, "42501") == 0 || in_class(link, "28"))
        return ONCE_ERR_PERMISSION;
    if (in_class(link, "3F") || in_class(link, "42"))
        return ONCE_ERR_VERSION; /* what should be there is not */
    return ONCE_ERR_IO;
}

int once__pg_failed(struct once__pg_link *link, const PGresult *result)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;

    link->err = ONCE_ERR_IO;
    link->state[0] = '\0';
    if (!state) {
        keep_text(link, link->conn ? PQerrorMessage(link->conn) : NULL);
        return ONCE_ERR_IO;
    }
    snprintf(link->state, sizeof(link->state), "%s", state);
    keep_text(link, PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    link->err = meaning(link);
    return link->err;
}

bool once__pg_lock_held(const struct once__pg_link *link)
{
    return strcmp(link->state, "55P03") == 0;
}

bool once__pg_passing(const struct once__pg_link *link)
{
    return once__pg_lock_held(link) || in_class(link, "40") || strcmp(link->state, "57014") == 0;
}

bool once__pg_useless(const struct once__pg_link *link)
{
    return !link->conn || PQstatus(link->conn) != CONNECTION_OK || link->state[0] == '\0' ||
           in_class(link, "08") || in_class(link, "57P") || in_class(link, "25") ||
           in_class(link, "26") || in_class(link, "0A");
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* So often it is looked whether the store is being closed. */
enum { SLICE_MS = 100 };

static bool is_over(const struct once__pg_link *link, once_ms until_ms, once_ms now_ms)
{
    if (now_ms >= until_ms)
        return true;
    if (!atomic_load(&link->store->closing))
        return false;
    return link->hurries || now_ms >= link->store->close_ms;
}

static int too_late(struct once__pg_link *link)
{
    link->err = ONCE_ERR_IO;
    link->state[0] = '\0';
    keep_text(link, "the database did not answer in time");
    return ONCE_ERR_IO;
}

/* A slice of waiting, or less. */
static int wait_some(struct once__pg_link *link, bool write, once_ms until_ms)
{
    once_ms now_ms = once__pg_clock_ms();
    struct pollfd fd = {.fd = PQsocket(link->conn),
                        .events = (short)(POLLIN | (write ? POLLOUT : 0))};
    once_ms left_ms = until_ms - now_ms;

    if (is_over(link, until_ms, now_ms))
        return too_late(link);
    if (poll(&fd, 1, left_ms < SLICE_MS ? (int)left_ms : SLICE_MS) < 0 && errno != EINTR)
        return once__pg_failed(link, NULL);
    if ((fd.revents & ~POLLOUT) != 0 && PQconsumeInput(link->conn) != 1)
        return once__pg_failed(link, NULL);
    return ONCE_OK;
}

int once__pg_next(struct once__pg_link *link, once_ms until_ms, PGresult **ret_result)
{
    for (;;) {
        int unsent = PQflush(link->conn);
        int err;

        if (PQisBusy(link->conn) == 0) {
            *ret_result = PQgetResult(link->conn);
            return ONCE_OK;
        }
        if (unsent < 0)
            return once__pg_failed(link, NULL);
        err = wait_some(link, unsent > 0, until_ms);
        if (err != ONCE_OK)
            return err;
    }
}

static bool is_error(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY;
}

int once__pg_run(struct once__pg_link *link, const char *sql, int count, const char *const *values,
                 const int *sizes, const int *formats, once_ms until_ms, PGresult **ret_result)
{
    PGresult *last = NULL, *result;
    int sent, failed = ONCE_OK, err;

    if (values)
        sent = PQsendQueryParams(link->conn, sql, count, NULL, values, sizes, formats, 1);
    else
        sent = PQsendQuery(link->conn, sql);
    if (sent != 1)
        return once__pg_failed(link, NULL);
    while ((err = once__pg_next(link, until_ms, &result)) == ONCE_OK && result) {
        if (failed == ONCE_OK && is_error(result))
            failed = once__pg_failed(link, result);
        PQclear(last);
        last = result;
    }
    if (err == ONCE_OK)
        err = failed;
    if (err == ONCE_OK && !last)
        err = once__pg_failed(link, NULL);
    if (err == ONCE_OK && ret_result) {
        *ret_result = last;
        return ONCE_OK;
    }
    PQclear(last);
    return err;
}

/* ---- Connecting ------------------------------------------------------------------------------ */

static void hear(void *user, const PGresult *result)
{
    struct once__pg_link *link = user;
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);

    /* Who cannot be understood may have warned. */
    if (!severity || strcmp(severity, "WARNING") == 0)
        link->warned = true;
}

void once__pg_link_close(struct once__pg_link *link)
{
    PQfinish(link->conn);
    link->conn = NULL;
}

/* What a session needs; a role's or a database's own settings must not change what is decided. The
 * plans of the functions look rows up by name, whatever the statistics say. */
static const char settings[] =
    "SET client_min_messages = warning;"
    "SET search_path = pg_catalog;"
    "SET default_transaction_isolation = 'read committed';"
    "SET default_transaction_read_only = off;"
    "SET default_transaction_deferrable = off;"
    "SET statement_timeout = 10000;"                   /* ONCE_PG_WAIT_MS */
    "SET lock_timeout = 200;"                          /* ONCE_PG_LOCK_MS */
    "SET idle_in_transaction_session_timeout = 10000;" /* a stopped server holds no row */
    "SET plan_cache_mode = force_generic_plan;"
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;"
    "SET jit = off;";

_Static_assert(ONCE_PG_WAIT_MS == 10000 && ONCE_PG_LOCK_MS == 200, "the settings say so");

/* Before the URL, which may say otherwise, and behind it, where it may not. Most of it is how soon
 * a server that has vanished is noticed. */
static PGconn *connect_to(const char *url)
{
    static const char *const names[] = {"application_name",    "target_session_attrs",
                                        "connect_timeout",     "keepalives_idle",
                                        "keepalives_interval", "keepalives_count",
                                        "tcp_user_timeout",    "dbname",
                                        "client_encoding",     NULL};
    const char *values[] = {"once", "read-write", "3", "5", "2", "3", "8000", url, "UTF8", NULL};

    return PQconnectdbParams(names, values, 1);
}

static int check_server(struct once__pg_link *link)
{
    if (PQserverVersion(link->conn) >= 130000)
        return ONCE_OK;
    snprintf(link->text, sizeof(link->text),
             "the server is PostgreSQL %d; Once needs 13 or later: upgrade it",
             PQserverVersion(link->conn) / 10000);
    return ONCE_ERR_UNSUPPORTED;
}

/* No connection: a wrong password does not become right by waiting, everything else may. libpq
 * gives no SQLSTATE for these, only a sentence. */
static int refused(struct once__pg_link *link)
{
    const char *said = link->conn ? PQerrorMessage(link->conn) : NULL;
    bool denied = said && (strstr(said, "authentication failed") || strstr(said, "no password") ||
                           strstr(said, "pg_hba.conf") || strstr(said, "permission denied"));

    link->state[0] = '\0';
    keep_text(link, said);
    once__pg_link_close(link);
    return denied ? ONCE_ERR_PERMISSION : ONCE_ERR_IO;
}

int once__pg_link_open(struct once__pg_link *link, once_ms until_ms)
{
    int err;

    once__pg_link_close(link);
    link->warned = false;
    link->conn = connect_to(link->store->url);
    if (!link->conn || PQstatus(link->conn) != CONNECTION_OK)
        return refused(link);
    PQsetNoticeReceiver(link->conn, hear, link);
    if (PQsetnonblocking(link->conn, 1) != 0) {
        once__pg_link_close(link);
        return ONCE_ERR_MEMORY;
    }
    err = check_server(link);
    if (err == ONCE_OK)
        err = once__pg_run(link, settings, 0, NULL, NULL, NULL, until_ms, NULL);
    if (err == ONCE_OK && PQserverVersion(link->conn) >= 140000)
        err = once__pg_run(link, "SET idle_session_timeout = 0", 0, NULL, NULL, NULL, until_ms,
                           NULL);
    if (err == ONCE_OK)
        err = once__pg_check_durable(link, until_ms);
    if (err == ONCE_OK && !link->store->accept_loss)
        err = once__pg_run(link,
                           "SELECT set_config('synchronous_commit', 'on', false)"
                           " WHERE current_setting('synchronous_commit') <> 'remote_apply'",
                           0, NULL, NULL, NULL, until_ms, NULL);
    if (err != ONCE_OK)
        once__pg_link_close(link);
    return err;
}

/* ---- The session's lock ---------------------------------------------------------------------- */

int once__pg_link_lock(struct once__pg_link *link, int64_t number, once_ms until_ms)
{
    char sql[80];
    int err;

    snprintf(sql, sizeof(sql), "SELECT pg_advisory_lock('%" PRId64 "'::bigint)", number);
    err = once__pg_run(link, sql, 0, NULL, NULL, NULL, until_ms, NULL);
    return err != ONCE_OK && once__pg_lock_held(link) ? ONCE_ERR_LOCKED : err;
}

int once__pg_link_end_holder(struct once__pg_link *link, int64_t number, once_ms until_ms)
{
    char sql[512];

    snprintf(sql, sizeof(sql),
             "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d"
             " ON d.oid = l.database AND d.datname = current_database()"
             " WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted"
             " AND l.classid::bigint = %" PRIu32 " AND l.objid::bigint = %" PRIu32
             " AND l.pid <> pg_backend_pid()",
             (uint32_t)((uint64_t)number >> 32), (uint32_t)(uint64_t)number);
    return once__pg_run(link, sql, 0, NULL, NULL, NULL, until_ms, NULL);
}
