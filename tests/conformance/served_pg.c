/* SPDX-License-Identifier: Apache-2.0
 *
 * The database behind a served test; see the header. One session of our own, under a lock.
 */
#include "conformance/served_pg.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "conformance/pg_link.h"
#include "store/postgres/pg.h"

/* The system's clock counts for nothing then: time is what was written down last. */
#define AHEAD_MS "-300000000000000"

/* No server writes down the time of before meanwhile. */
#define ALONE "SELECT pg_advisory_xact_lock(hashtextextended('once.tick', 0));"

static const char empty[] = "DO $$ DECLARE name text; BEGIN"
                            " FOR name IN SELECT c.relname FROM pg_class c WHERE c.relkind = 'r'"
                            " AND c.relnamespace = 'once'::regnamespace LOOP"
                            " EXECUTE format('DELETE FROM once.%I', name); END LOOP; END $$";

unsigned served_pg_lanes;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static PGconn *session; /* for good */

const char *served_pg_url(void)
{
    const char *url = getenv("ONCE_PG_URL");

    if (!url) {
        fprintf(stderr, "ONCE_PG_URL is not set: pytest tests/e2e/test_pg_served.py sets it\n");
        exit(2);
    }
    return url;
}

int served_pg_open(void *user, const struct once__config *config, struct once_store **ret_store,
                   struct once_message *ret_message)
{
    const struct once__pg_setup setup = {.url = served_pg_url(), .lanes = served_pg_lanes};

    (void)user;
    (void)config;
    return once__pg_open(&setup, ret_store, ret_message);
}

static bool install(void)
{
    struct once_message message = {""};
    struct once_store *store = NULL;
    int err = served_pg_open(NULL, NULL, &store, &message);

    if (err == ONCE_OK)
        err = once_close(store);
    if (err != ONCE_OK)
        printf("# %s: %s\n", once_err_name(err), message.text);
    return err == ONCE_OK;
}

bool served_pg_prepare(once_ms start_ms)
{
    char text[256];

    if (!session) {
        if (!install())
            return false;
        session = pg_connect();
    }
    snprintf(text, sizeof(text), ALONE "SELECT once.set_clock(" AHEAD_MS ", %lld)",
             (long long)start_ms);
    pthread_mutex_lock(&lock);
    pg_run(session, empty);
    pg_run(session, text);
    pthread_mutex_unlock(&lock);
    return true;
}

void served_pg_advance(once_ms by_ms)
{
    char text[256];

    snprintf(text, sizeof(text), ALONE "SELECT once.set_clock(NULL, once.now_ms() + %lld)",
             (long long)by_ms);
    pthread_mutex_lock(&lock);
    pg_run(session, text);
    pthread_mutex_unlock(&lock);
}

void served_pg_cut(void)
{
    pthread_mutex_lock(&lock);
    pg_run(session, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND application_name LIKE 'once%'"
                    " AND pid <> pg_backend_pid()");
    pthread_mutex_unlock(&lock);
}
