/* SPDX-License-Identifier: Apache-2.0
 *
 * A store on PostgreSQL: no local state, any number of servers beside each other (X3).
 *
 *     submit ─▶ a lane, always one for a name ─▶ one batch: SELECT once.calls(arrays) = one round
 *     trip, one commit ─▶ told in order
 *
 * What is decided is decided by the SQL functions of hosts/postgres, in the transaction that writes
 * it; applies, merges and values, which SQL does not know, are decided by the core in a transaction
 * that holds their rows (pg_apply.c). Time and fences are the database's.
 */
#ifndef ONCE_STORE_POSTGRES_PG_H
#define ONCE_STORE_POSTGRES_PG_H

#include <once/store.h>

enum once__pg_level { ONCE__PG_ERROR, ONCE__PG_WARN, ONCE__PG_INFO };

struct once__pg_setup {
    const char *url;  /* postgres://… as libpq reads it; several hosts are tried in turn */
    bool accept_loss; /* go on where the database may lose what it has acknowledged */
    unsigned lanes;   /* connections; 0 is ONCE_PG_LANES_DEFAULT */
    /* What an operator should know (lost connections, a refused setting). Any thread; may be NULL.
     * text holds no secret. */
    void (*say)(void *user, enum once__pg_level level, const char *event, const char *text);
    void *user;
};

/* Is this a name of such a store ("postgres://", "postgresql://")? */
bool once__pg_url(const char *url);

/* Can libpq read it? For who cannot see why not: ONCE__PG_URL_FORM. */
bool once__pg_url_readable(const char *url);
#define ONCE__PG_URL_FORM                                                                          \
    "it is postgres://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=VALUE; OPTION is one of libpq's, "   \
    "such as sslmode, and a special character in a part is written as %xx"

/* The URL without its password, for people. At most size bytes with the NUL. */
void once__pg_url_shown(const char *url, char *ret_text, size_t size);

/* Connects, installs or upgrades the schema where its role may, and refuses a database that may
 * lose what it acknowledges. ONCE_ERR_INVALID (the URL), ONCE_ERR_IO (nobody answers),
 * ONCE_ERR_PERMISSION, ONCE_ERR_VERSION (the schema is newer, or older and may not be upgraded),
 * ONCE_ERR_UNSUPPORTED (an asynchronous setting, a server older than 13), ONCE_ERR_MEMORY;
 * ret_message says what to do. */
ONCE_MUST_CHECK int once__pg_open(const struct once__pg_setup *setup, struct once_store **ret_store,
                                  struct once_message *ret_message);

#endif
