/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of Once in SQLite: once_begin(), once_complete(), … inside of the transactions of a
 * program that has SQLite linked in. Link with -lonce-sqlite (pkg-config once-sqlite). Programs
 * that load extensions take once_sqlite.so instead. The functions are described in docs/sqlite.md.
 */
#ifndef ONCE_SQLITE_H
#define ONCE_SQLITE_H

#include <once/err.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sqlite3;
struct sqlite3_api_routines;

/* Adds the functions to a connection; they go with it. SQLITE_OK, or an SQLite error; then
 * *ret_error (ret_error may be NULL) is a text that sqlite3_free frees, or NULL. api may be NULL:
 * it is there so that this is an entry point as SQLite has them. Calling it twice is harmless.
 *
 * For every connection that the process opens from now on:
 *     sqlite3_auto_extension((void (*)(void))once_sqlite_init); */
ONCE_API ONCE_MUST_CHECK int once_sqlite_init(struct sqlite3 *db, char **ret_error,
                                              const struct sqlite3_api_routines *api);

#ifdef __cplusplus
}
#endif
#endif
