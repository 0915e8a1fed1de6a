/* SPDX-License-Identifier: Apache-2.0
 *
 * A PostgreSQL behind the server of a test, as ONCE_PG_URL names it: emptied for each store, with a
 * clock that stands still but when the test moves it.
 */
#ifndef ONCE_TESTS_SERVED_PG_H
#define ONCE_TESTS_SERVED_PG_H

#include <once/store.h>

/* Never NULL: without ONCE_PG_URL the program ends and says so. */
const char *served_pg_url(void);

/* How many connections decide; 0: as in `once serve`, and without the hook. */
extern unsigned served_pg_lanes;
struct once__config;
int served_pg_open(void *user, const struct once__config *config, struct once_store **ret_store,
                   struct once_message *ret_message);

/* A store without a record, at this time. Installs the schema as a server does. False: told. */
bool served_pg_prepare(once_ms start_ms);

/* Any thread. */
void served_pg_advance(once_ms by_ms);

/* Ends every session of servers, as a crash of their backends would. */
void served_pg_cut(void);

#endif
