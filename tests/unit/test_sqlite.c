/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions in SQLite where only C gets to: how a connection ends with statements of ours kept
 * in it, and what happens when memory or the disk ends in the middle of a call. Memory is counted
 * by SQLite itself: what is left after the last connection is a leak. After sqlite3_close_v2 a
 * connection lives until its statements end, and no new statement can be prepared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include <once/sqlite.h>

enum { CALLS_MAX = 20000, TEXT_SIZE = 256 };

/* ---- Memory that ends ------------------------------------------------------------------------ */

static sqlite3_mem_methods real_memory;
static int allocations_left = -1; /* -1: as many as are asked for */

static bool allowed(void)
{
    if (allocations_left < 0)
        return true;
    return allocations_left-- > 0; /* one fails; those after it do not */
}

static void *few_malloc(int size)
{
    return allowed() ? real_memory.xMalloc(size) : NULL;
}

static void *few_realloc(void *memory, int size)
{
    return allowed() ? real_memory.xRealloc(memory, size) : NULL;
}

static int set_up_memory(void **state)
{
    sqlite3_mem_methods few;

    (void)state;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 1), SQLITE_OK);
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory), SQLITE_OK);
    few = real_memory;
    few.xMalloc = few_malloc;
    few.xRealloc = few_realloc;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &few), SQLITE_OK);
    return 0;
}

/* ---- Help ------------------------------------------------------------------------------------ */

static sqlite3 *open_memory(void)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(once_sqlite_init(db, NULL, NULL), SQLITE_OK);
    return db;
}

/* The first column of the first row, up to TEXT_SIZE; the status of the last step. */
static int ask(sqlite3 *db, const char *sql, char *ret_text)
{
    sqlite3_stmt *statement = NULL;
    int status = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

    ret_text[0] = '\0';
    if (status != SQLITE_OK)
        return status;
    status = sqlite3_step(statement);
    if (status == SQLITE_ROW && sqlite3_column_text(statement, 0))
        (void)snprintf(ret_text, TEXT_SIZE, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return status;
}

static void must_say(sqlite3 *db, const char *sql, const char *expected)
{
    char text[TEXT_SIZE];

    assert_int_equal(ask(db, sql, text), SQLITE_ROW);
    if (!strstr(text, expected))
        fail_msg("%s said %s, not %s", sql, text, expected);
}

/* ---- Beginnings and ends --------------------------------------------------------------------- */

static void init__no_connection__is_misuse(void **state)
{
    (void)state;
    assert_int_equal(once_sqlite_init(NULL, NULL, NULL), SQLITE_MISUSE);
}

static void init__as_an_automatic_extension__every_open_has_it(void **state)
{
    sqlite3 *db = NULL;

    (void)state;
    assert_int_equal(sqlite3_auto_extension((void (*)(void))once_sqlite_init), SQLITE_OK);
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_errcode(db), SQLITE_OK);
    must_say(db, "SELECT once_begin('charges', 'k')", "EXECUTE");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    sqlite3_reset_auto_extension();
    assert_int_equal(sqlite3_memory_used(), 0);
}

static void init__twice__is_once(void **state)
{
    sqlite3 *db = open_memory();
    char before[] = "not written", *error = before;

    (void)state;
    must_say(db, "SELECT once_begin('charges', 'k')", "EXECUTE");
    assert_int_equal(once_sqlite_init(db, &error, NULL), SQLITE_OK);
    assert_null(error);
    must_say(db, "SELECT once_begin('charges', 'k')", "BUSY");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sqlite3_memory_used(), 0);
}

static void close__statements_are_kept__is_ok(void **state)
{
    sqlite3 *db = open_memory();

    (void)state;
    must_say(db, "SELECT once_begin('charges', 'k')", "EXECUTE");
    must_say(db, "SELECT once_complete('charges', 'k', 1)", "OK");
    must_say(db, "SELECT once_emit('mail', 'hello')", "2");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sqlite3_memory_used(), 0);
}

static void close__caller_has_a_statement__goes_on_and_closes_later(void **state)
{
    sqlite3 *db = open_memory();
    sqlite3_stmt *statement;

    (void)state;
    must_say(db, "SELECT once_begin('charges', 'k')", "EXECUTE");
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT once_begin('charges', 'l')", -1, &statement, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_BUSY);
    must_say(db, "SELECT once_begin('charges', 'k')", "BUSY");
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    sqlite3_finalize(statement);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sqlite3_memory_used(), 0);
}

static void close_v2__statement_goes_on_calling__is_an_error_and_nothing_is_left(void **state)
{
    sqlite3 *db = open_memory();
    sqlite3_stmt *statement;

    (void)state;
    must_say(db, "SELECT once_install()", "2");
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT once_begin('charges', 'k' || value), "
                                        "once_get('charges', 'k1') FROM json_each('[1,2,3]')",
                                        -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(sqlite3_close_v2(db), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_MISUSE); /* it can prepare no more */
    sqlite3_finalize(statement);
    assert_int_equal(sqlite3_memory_used(), 0);
}

static void table_has_our_name__statements_end_with_each_call(void **state)
{
    sqlite3 *db = open_memory();

    (void)state;
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE once_functions(x)", NULL, NULL, NULL),
                     SQLITE_OK);
    must_say(db, "SELECT once_begin('charges', 'k')", "EXECUTE");
    must_say(db, "SELECT once_complete('charges', 'k', 1, 7)", "OK");
    must_say(db, "SELECT once_begin('charges', 'k')", "REPLAY");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sqlite3_memory_used(), 0);
}

/* ---- What ends in the middle ----------------------------------------------------------------- */

static const char *const life[] = {
    "SELECT once_begin('charges', 'k', 'fp', 'me')",
    "SELECT once_checkpoint('charges', 'k', 1, 'half', 'data')",
    "SELECT once_complete('charges', 'k', 1, 201, 'receipt')",
    "SELECT once_begin('charges', 'k', 'fp')",
    "SELECT once_get('charges', 'k')",
    "SELECT once_seen('g', 't', '1')",
    "SELECT once_machine('m', 'a>b')",
    "SELECT once_move('m', 'e', 'a', 'b')",
    "SELECT once_emit('mail', 'hello', 'g')",
    "SELECT once_take('mail')",
    "SELECT once_apply('charges', 'a', '{\"x\":1}', 'upper')",
    "SELECT once_merge_union('[\"a\"]', '[\"b\"]')",
    "SELECT once_sweep()",
};

enum { LIFE_COUNT = sizeof life / sizeof life[0] };

/* ---- Faults ---------------------------------------------------------------------------------- */

static int steps_left;

static int interrupt_later(void *db)
{
    if (steps_left-- == 0)
        sqlite3_interrupt(db);
    return 0;
}

enum fault { NO_MEMORY, INTERRUPTED };

/* Number n, of allocations or of steps, is the one that fails. */
static void arm(sqlite3 *db, enum fault fault, int n)
{
    if (fault == NO_MEMORY) {
        allocations_left = n;
        return;
    }
    steps_left = n;
    sqlite3_progress_handler(db, 1, interrupt_later, db);
}

/* Were there more than n, so that one has failed? */
static bool disarm(sqlite3 *db, enum fault fault)
{
    bool reached = fault == NO_MEMORY ? allocations_left < 0 : steps_left < 0;

    allocations_left = -1;
    sqlite3_progress_handler(db, 0, NULL, NULL);
    return reached;
}

/* The effect of an apply: a row; it calls Once, too, and makes an index. */
static void effect(sqlite3_context *context, int count, sqlite3_value **values)
{
    sqlite3 *db = sqlite3_context_db_handle(context);
    int status = sqlite3_exec(db,
                              "INSERT INTO account VALUES (2); CREATE INDEX i ON account(x);"
                              "SELECT once_begin('inner', 'k');",
                              NULL, NULL, NULL);

    (void)count;
    (void)values;
    if (status != SQLITE_OK)
        sqlite3_result_error_code(context, status);
    else
        sqlite3_result_text(context, "done", -1, SQLITE_STATIC);
}

/* All places take some minutes: they are tried where the environment asks for it. */
static int stride(int quick)
{
    return getenv("ONCE_FAULTS_ALL") ? 1 : quick;
}

/* A connection to what the other one has. */
static sqlite3 *copy_of(sqlite3 *from)
{
    sqlite3 *db = open_memory();
    sqlite3_backup *copy = sqlite3_backup_init(db, "main", from, "main");

    assert_non_null(copy);
    assert_int_equal(sqlite3_backup_step(copy, -1), SQLITE_DONE);
    assert_int_equal(sqlite3_backup_finish(copy), SQLITE_OK);
    assert_int_equal(
        sqlite3_create_function(db, "effect", 1, SQLITE_UTF8, NULL, effect, NULL, NULL), SQLITE_OK);
    return db;
}

static void must_run(sqlite3 *db, const char *sql)
{
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* Whatever failed: a call that had no transaction has none, one in a transaction of the caller's
 * has left nothing in it, or has ended all of it; and the same call works afterwards. The number of
 * failures; each says which places are tried. */
static int fail_everywhere(sqlite3 *from, enum fault fault, const char *before, const char *sql,
                           int each)
{
    char text[TEXT_SIZE];
    bool reached = true;
    int failed = 0;

    for (int n = 0; reached && n < CALLS_MAX; n += each) {
        sqlite3_int64 used = sqlite3_memory_used();
        sqlite3 *db = copy_of(from);
        int status;

        must_run(db, before);
        arm(db, fault, n);
        status = ask(db, sql, text);
        reached = disarm(db, fault);
        if (status != SQLITE_ROW) {
            failed++;
            if (status != (fault == NO_MEMORY ? SQLITE_NOMEM : SQLITE_INTERRUPT))
                fail_msg("%s, fault %d: %d, %s", sql, n, status, sqlite3_errmsg(db));
        }
        if (!before[0] && sqlite3_get_autocommit(db) == 0)
            fail_msg("%s, fault %d: still in a transaction (%d)", sql, n, status);
        if (status != SQLITE_ROW && before[0]) {
            must_say(db, "SELECT count(*) < 2 AND coalesce(max(x), 1) = 1 FROM account", "1");
            must_say(db, "SELECT once_get('charges', 'a') IS NULL", "1");
            if (sqlite3_get_autocommit(db) == 0)
                must_run(db, "ROLLBACK");
        }
        if (status != SQLITE_ROW)
            assert_int_equal(ask(db, sql, text), SQLITE_ROW);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_true(sqlite3_memory_used() == used);
    }
    assert_false(reached);
    return failed;
}

static void life_goes_wrong_everywhere(enum fault fault)
{
    sqlite3 *db = open_memory();
    char text[TEXT_SIZE];
    int failed = 0;

    must_say(db, "SELECT once_install()", "2");
    for (int call = 0; call < LIFE_COUNT; call++) {
        failed += fail_everywhere(db, fault, "", life[call], stride(7 + call % 3));
        assert_int_equal(ask(db, life[call], text), SQLITE_ROW);
    }
    assert_true(failed > LIFE_COUNT);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sqlite3_memory_used(), 0);
}

static void memory_ends__at_an_allocation__is_told_and_nothing_is_left(void **state)
{
    (void)state;
    life_goes_wrong_everywhere(NO_MEMORY);
}

static void interrupt__at_a_step__leaves_no_transaction(void **state)
{
    (void)state;
    life_goes_wrong_everywhere(INTERRUPTED);
}

/* The first call makes the tables, and with them indexes, which put prepared statements out of
 * date; also those that would end its transaction. */
static void first_use_goes_wrong(enum fault fault, int each)
{
    static const char *const first[] = {"SELECT once_begin('charges', 'a')",
                                        "SELECT once_apply('charges', 'a', '{}', 'effect')",
                                        "SELECT once_install()"};
    sqlite3 *db = open_memory();

    must_run(db, "CREATE TABLE account(x)");
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        assert_true(fail_everywhere(db, fault, "", first[i], each) > 5);
    assert_true(
        fail_everywhere(db, fault, "BEGIN; INSERT INTO account VALUES (1)", first[1], each) > 5);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sqlite3_memory_used(), 0);
}

static void first_use__memory_ends__leaves_no_transaction(void **state)
{
    (void)state;
    first_use_goes_wrong(NO_MEMORY, stride(97));
}

static void first_use__interrupt__leaves_no_transaction(void **state)
{
    (void)state;
    first_use_goes_wrong(INTERRUPTED, stride(47));
}

/* Half of an apply is not left behind in a transaction that the caller may go on to commit. */
static void apply__goes_wrong_in_a_transaction__is_taken_back(void **state)
{
    sqlite3 *db = open_memory();

    (void)state;
    must_say(db, "SELECT once_install()", "2");
    must_run(db, "CREATE TABLE account(x)");
    for (enum fault fault = NO_MEMORY; fault <= INTERRUPTED; fault++)
        assert_true(fail_everywhere(db, fault, "BEGIN; INSERT INTO account VALUES (1)",
                                    "SELECT once_apply('charges', 'a', '{}', 'effect')",
                                    stride(11)) > 10);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sqlite3_memory_used(), 0);
}

static void registering__memory_ends__is_told_and_nothing_is_left(void **state)
{
    int status = SQLITE_NOMEM;

    (void)state;
    for (int n = 0; status != SQLITE_OK && n < CALLS_MAX; n++) {
        sqlite3 *db = NULL;
        char *error = NULL;

        assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
        allocations_left = n;
        status = once_sqlite_init(db, &error, NULL);
        allocations_left = -1;
        sqlite3_free(error);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_int_equal(sqlite3_memory_used(), 0);
    }
    assert_int_equal(status, SQLITE_OK);
}

/* The database may grow by one page more each time, until a begin fits. */
static void disk_is_full__begin__is_told_and_leaves_no_half(void **state)
{
    char text[TEXT_SIZE], sql[TEXT_SIZE];
    sqlite3 *db = open_memory();
    int full = 0, status = SQLITE_FULL;

    (void)state;
    for (int pages = 1; status == SQLITE_FULL && pages < 200; pages++) {
        (void)snprintf(sql, sizeof sql, "PRAGMA max_page_count = %d", pages);
        assert_int_equal(ask(db, sql, text), SQLITE_ROW);
        status = ask(db, "SELECT once_begin('charges', 'k', NULL, printf('%060d', 7))", text);
        assert_int_not_equal(sqlite3_get_autocommit(db), 0);
        full += status == SQLITE_FULL;
    }
    assert_int_equal(status, SQLITE_ROW);
    assert_true(full > 0);
    assert_non_null(strstr(text, "\"EXECUTE\",\"fence\":1,"));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init__no_connection__is_misuse),
        cmocka_unit_test(init__as_an_automatic_extension__every_open_has_it),
        cmocka_unit_test(init__twice__is_once),
        cmocka_unit_test(close__statements_are_kept__is_ok),
        cmocka_unit_test(close__caller_has_a_statement__goes_on_and_closes_later),
        cmocka_unit_test(close_v2__statement_goes_on_calling__is_an_error_and_nothing_is_left),
        cmocka_unit_test(table_has_our_name__statements_end_with_each_call),
        cmocka_unit_test(memory_ends__at_an_allocation__is_told_and_nothing_is_left),
        cmocka_unit_test(registering__memory_ends__is_told_and_nothing_is_left),
        cmocka_unit_test(interrupt__at_a_step__leaves_no_transaction),
        cmocka_unit_test(first_use__memory_ends__leaves_no_transaction),
        cmocka_unit_test(first_use__interrupt__leaves_no_transaction),
        cmocka_unit_test(apply__goes_wrong_in_a_transaction__is_taken_back),
        cmocka_unit_test(disk_is_full__begin__is_told_and_leaves_no_half),
    };

    return cmocka_run_group_tests(tests, set_up_memory, NULL);
}
