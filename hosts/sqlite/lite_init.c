/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the extension begins: registers its functions with a connection, and calls them.
 *
 * Functions that write are for the top of a statement only (SQLITE_DIRECTONLY): a trigger or a view
 * in a database file that came from elsewhere must not begin or end operations. Once loaded the
 * code stays until the process ends: libcrypto keeps what it looked up for us.
 */
#include <once/sqlite.h>

#include <string.h>

#include "lite.h"
#include "lite_functions.h"
#include "lite_merge.h"

#ifndef SQLITE_CORE
const sqlite3_api_routines *sqlite3_api;

/* What SQLite looks for in once_sqlite.so. */
ONCE_API int sqlite3_extension_init(sqlite3 *db, char **ret_error, const sqlite3_api_routines *api);
#endif

/* txn_state is of 3.34. */
enum { SQLITE_VERSION_LEAST = 3034000 };

void once__lite_release(void *self)
{
    struct once__lite *lite = self;

    if (--lite->users > 0)
        return;
    once__lite_forget_statements(lite);
    sqlite3_free(lite->bound);
    sqlite3_free(lite);
}

static void release_bound(void *self)
{
    once__lite_release(((struct once__lite_bound *)self)->lite);
}

/* ---- A call ---------------------------------------------------------------------------------- */

static void dispatch(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct once__lite_bound *bound = sqlite3_user_data(context);
    struct once__lite *lite = bound->lite;
    struct once__lite_call call = {.lite = lite,
                                   .context = context,
                                   .values = values,
                                   .count = count,
                                   .name = bound->function->name};

    if (bound->function->pure) {
        bound->function->run(&call);
        return;
    }
    /* A trigger on one of our tables could come back here, and take statements that are in use. */
    if (lite->called) {
        once__lite_error(&call, ONCE_ERR_INVALID, "another function of Once is at work");
        return;
    }
    lite->called = true;
    lite->why[0] = '\0';
    bound->function->run(&call);
    lite->called = false;
}

/* ---- Registration ---------------------------------------------------------------------------- */

static int register_function(struct once__lite *lite, struct once__lite_bound *bound)
{
    const struct once__lite_function *function = bound->function;
    int flags = SQLITE_UTF8 |
                (function->pure ? SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS : SQLITE_DIRECTONLY);
    int status = SQLITE_OK;

    for (int count = function->least; status == SQLITE_OK && count <= function->most; count++) {
        lite->users++; /* given back by release_bound, also where registering fails */
        status = sqlite3_create_function_v2(lite->db, function->name, count, flags, bound, dispatch,
                                            NULL, NULL, release_bound);
    }
    return status;
}

static int register_all(struct once__lite *lite)
{
    int status = once__lite_merge_register(lite);

    for (size_t i = 0; status == SQLITE_OK && i < once__lite_function_count; i++) {
        lite->bound[i] = (struct once__lite_bound){lite, &once__lite_functions[i]};
        status = register_function(lite, &lite->bound[i]);
    }
    if (status == SQLITE_OK) {
        lite->users++;
        status = once__lite_keep_register(lite);
    }
    return status;
}

/* Loading it a second time changes nothing, and must not: functions cannot be replaced while a
 * statement runs, and load_extension() is one. The error of a connection that is asked for the
 * first time is wiped: sqlite3_open fails with it where we are an automatic extension. */
static bool registered(sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;
    int status = sqlite3_prepare_v2(db, "SELECT once_version()", -1, &statement, NULL);

    sqlite3_finalize(statement);
    if (status == SQLITE_OK)
        return true;
    (void)sqlite3_prepare_v2(db, "SELECT 1", -1, &statement, NULL);
    sqlite3_finalize(statement);
    return false;
}

static int attach(sqlite3 *db, char **ret_error)
{
    struct once__lite *lite;
    int status;

    if (sqlite3_libversion_number() < SQLITE_VERSION_LEAST) {
        if (ret_error)
            *ret_error = sqlite3_mprintf("once_sqlite needs SQLite 3.34 or newer, this is %s",
                                         sqlite3_libversion());
        return SQLITE_ERROR;
    }
    if (registered(db))
        return SQLITE_OK;
    lite = sqlite3_malloc(sizeof *lite);
    if (!lite)
        return SQLITE_NOMEM;
    memset(lite, 0, sizeof *lite);
    lite->db = db;
    lite->users = 1; /* this function */
    lite->bound = sqlite3_malloc64(once__lite_function_count * sizeof *lite->bound);
    status = lite->bound ? register_all(lite) : SQLITE_NOMEM;
    if (status != SQLITE_OK && ret_error)
        *ret_error = sqlite3_mprintf("once_sqlite: %s", sqlite3_errmsg(db));
    once__lite_release(lite);
    /* Nothing was wrong: that a function was missing is not left behind as the last error, which
     * sqlite3_open takes for its own where we are an automatic extension. */
    if (status == SQLITE_OK)
        (void)sqlite3_exec(db, "", NULL, NULL, NULL);
    return status;
}

#ifdef SQLITE_CORE
int once_sqlite_init(sqlite3 *db, char **ret_error, const sqlite3_api_routines *api)
{
    (void)api;
    if (ret_error)
        *ret_error = NULL;
    return db ? attach(db, ret_error) : SQLITE_MISUSE;
}
#else
int sqlite3_extension_init(sqlite3 *db, char **ret_error, const sqlite3_api_routines *api)
{
    int status;

    sqlite3_api = api;
    status = attach(db, ret_error);
    return status == SQLITE_OK ? SQLITE_OK_LOAD_PERMANENTLY : status;
}
#endif
