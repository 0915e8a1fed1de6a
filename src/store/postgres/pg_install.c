/* SPDX-License-Identifier: Apache-2.0
 *
 * What a database must be like before a store is opened on it: it has the schema in a version that
 * this program knows, what it acknowledges is kept (INV-3), and sessions are our own. The scripts
 * are those of hosts/postgres. Owns no state.
 *
 * Two servers that start at once install one after the other: an advisory lock. A schema that is
 * newer than this program is not used: it may mean something else by the same names.
 */
#include "store/postgres/pg_inner.h"

#include "once_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The schema ------------------------------------------------------------------------------ */

/* "ONCE" and a version of our own; shared by all programs that install. */
enum { INSTALL_LOCK_HIGH = 0x4f4e4345, INSTALL_LOCK_LOW = 1 };

static const char *newest(void)
{
    return once__schema_versions[once__schema_version_count - 1];
}

static bool is_known(const char *version)
{
    for (size_t i = 0; i < once__schema_version_count; i++) {
        if (strcmp(once__schema_versions[i], version) == 0)
            return true;
    }
    return false;
}

/* The version that is there; "" when there is no schema. */
static int read_version(struct once__pg_link *link, once_ms until_ms, char ret_version[32])
{
    PGresult *result;
    bool there;
    int err = once__pg_run(link, "SELECT to_regproc('once.version') IS NOT NULL", 0, NULL, NULL,
                           NULL, until_ms, &result);

    if (err != ONCE_OK)
        return err;
    there = strcmp(PQgetvalue(result, 0, 0), "t") == 0;
    PQclear(result);
    ret_version[0] = '\0';
    if (!there)
        return ONCE_OK;
    err = once__pg_run(link, "SELECT once.version()", 0, NULL, NULL, NULL, until_ms, &result);
    if (err != ONCE_OK)
        return err;
    snprintf(ret_version, 32, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return ONCE_OK;
}

/* After an error the session is in a failed transaction: its caller closes it. */
static int run_script(struct once__pg_link *link, once_ms until_ms)
{
    return once__pg_run(link, once__schema_script, 0, NULL, NULL, NULL, until_ms, NULL);
}

/* Waits as long as an upgrade takes that another server runs. */
static int lock_install(struct once__pg_link *link, once_ms until_ms)
{
    char sql[80];
    int err = once__pg_run(link, "SET lock_timeout = 0; SET statement_timeout = 0", 0, NULL, NULL,
                           NULL, until_ms, NULL);

    snprintf(sql, sizeof(sql), "SELECT pg_advisory_lock(%d, %d)", INSTALL_LOCK_HIGH,
             INSTALL_LOCK_LOW);
    return err != ONCE_OK ? err : once__pg_run(link, sql, 0, NULL, NULL, NULL, until_ms, NULL);
}

int once__pg_install(struct once__pg_link *link, once_ms until_ms, struct once_message *ret_message)
{
    char version[32];
    int err = lock_install(link, until_ms);

    if (err == ONCE_OK)
        err = read_version(link, until_ms, version);
    if (err != ONCE_OK)
        return once__pg_message(err, ret_message,
                                "the schema \"once\" cannot be read: %s; grant the server's role "
                                "once_server, or let its owner run once.sql",
                                link->text);
    if (strcmp(version, newest()) == 0)
        return ONCE_OK;
    if (version[0] != '\0' && !is_known(version))
        return once__pg_message(ONCE_ERR_VERSION, ret_message,
                                "the schema \"once\" is of version %s, this program knows versions "
                                "up to %s: use a newer one",
                                version, newest());
    err = run_script(link, until_ms);
    if (err != ONCE_OK)
        return once__pg_message(version[0] != '\0' ? ONCE_ERR_VERSION : err, ret_message,
                                "the schema \"once\" cannot be %s to version %s: %s; let the "
                                "database's owner run once.sql",
                                version[0] != '\0' ? "upgraded" : "installed", newest(),
                                link->text);
    once__pg_say(link->store, ONCE__PG_INFO, "schema", "installed version %s", newest());
    return ONCE_OK;
}

/* ---- Sessions of our own --------------------------------------------------------------------- */

static int read_backend(struct once__pg_link *link, once_ms until_ms, int *ret_pid)
{
    PGresult *result;
    int err = once__pg_run(link, "SELECT pg_backend_pid()", 0, NULL, NULL, NULL, until_ms, &result);

    if (err != ONCE_OK)
        return err;
    *ret_pid = (int)strtol(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return ONCE_OK;
}

/* Who answers is who was connected to, or something stands between. If that shares sessions,
 * another that begins a transaction takes away the one that has just answered. */
int once__pg_check_sessions(struct once__pg_link *link, struct once__pg_link *other,
                            once_ms until_ms)
{
    int before = 0, after = 0;
    int err = read_backend(link, until_ms, &before);

    if (err != ONCE_OK || before == PQbackendPID(link->conn))
        return err;
    err = once__pg_link_open(other, until_ms);
    if (err == ONCE_OK)
        err = read_backend(link, until_ms, &before);
    if (err == ONCE_OK)
        err = once__pg_run(other, "BEGIN", 0, NULL, NULL, NULL, until_ms, NULL);
    if (err == ONCE_OK)
        err = read_backend(link, until_ms, &after);
    once__pg_link_close(other);
    if (err != ONCE_OK || before == after)
        return err;
    snprintf(link->text, sizeof(link->text),
             "a pooler between gives a session's statements to different backends (pgbouncer in "
             "transaction mode): connect to PostgreSQL itself, or let it pool whole sessions");
    return ONCE_ERR_UNSUPPORTED;
}

/* ---- Settings that lose what was acknowledged ------------------------------------------------ */

/* A standby that streams and is not waited for is one that a failover may choose. Who may not see
 * more than that somebody streams counts everybody; readers of a logical slot are never promoted.
 */
static const char settings_sql[] =
    "SELECT pg_is_in_recovery(), current_setting('fsync'), current_setting('full_page_writes'),"
    " (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),"
    " current_setting('synchronous_standby_names'),"
    " (SELECT count(*) FROM pg_stat_replication r LEFT JOIN pg_replication_slots s"
    "  ON s.active_pid = r.pid WHERE s.slot_type IS DISTINCT FROM 'logical'"
    "  AND coalesce(r.state, 'streaming') = 'streaming'"
    "  AND coalesce(r.application_name, '') NOT IN ('pg_receivewal', 'pg_basebackup'))";

enum { IN_RECOVERY, FSYNC, FULL_PAGE_WRITES, SYNCHRONOUS_COMMIT, STANDBY_NAMES, STANDBYS };

static bool is(const PGresult *result, int column, const char *value)
{
    return strcmp(PQgetvalue(result, 0, column), value) == 0;
}

/* What is wrong with these settings and what to do; NULL: nothing. */
static const char *defect_of(const PGresult *result)
{
    if (is(result, FSYNC, "off"))
        return "fsync is off: a power cut loses or damages the database; set fsync = on";
    if (is(result, FULL_PAGE_WRITES, "off"))
        return "full_page_writes is off: a power cut may damage the database; set full_page_writes "
               "= on";
    if (is(result, SYNCHRONOUS_COMMIT, "off"))
        return "synchronous_commit is off: a crash loses what was acknowledged; set "
               "synchronous_commit = on";
    if (is(result, SYNCHRONOUS_COMMIT, "local") || is(result, SYNCHRONOUS_COMMIT, "remote_write"))
        return "synchronous_commit does not wait until a standby has written to disk: a failover "
               "loses what was acknowledged; set synchronous_commit = on";
    if (is(result, STANDBY_NAMES, "") && !is(result, STANDBYS, "0"))
        return "a standby streams asynchronously (synchronous_standby_names is empty): a failover "
               "to it loses what was acknowledged; set synchronous_standby_names, in Patroni "
               "synchronous_mode";
    return NULL;
}

int once__pg_check_durable(struct once__pg_link *link, once_ms until_ms)
{
    const char *defect;
    PGresult *result;
    int err = once__pg_run(link, settings_sql, 0, NULL, NULL, NULL, until_ms, &result);

    if (err != ONCE_OK)
        return err;
    if (is(result, IN_RECOVERY, "t")) {
        PQclear(result);
        snprintf(link->text, sizeof(link->text),
                 "the server is a standby: it cannot be written to");
        return ONCE_ERR_IO;
    }
    defect = defect_of(result);
    PQclear(result);
    once__pg_judged(link->store, defect);
    if (!defect || link->store->accept_loss)
        return ONCE_OK;
    snprintf(link->text, sizeof(link->text), "%s", defect);
    return ONCE_ERR_UNSUPPORTED;
}
