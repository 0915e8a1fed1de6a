/* SPDX-License-Identifier: Apache-2.0
 *
 * A PostgreSQL server of the benchmark's own: made below a folder, reached through a Unix socket
 * only, stopped when the process that started it ends.
 */
#ifndef BENCH_STORE_PG_SERVER_H
#define BENCH_STORE_PG_SERVER_H

struct bench_pg;

/* Makes a cluster below folder and starts a server on it; dies when it cannot. Root may not run
 * one: then the user "postgres" does, else "nobody", and folder is made passable for it. */
struct bench_pg *bench_pg_start(const char *folder);
/* What PQconnectdb wants, but for the name of the database. */
const char *bench_pg_address(const struct bench_pg *pg);
void bench_pg_stop(struct bench_pg *pg);

#endif
