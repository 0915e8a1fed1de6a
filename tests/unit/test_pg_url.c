/* SPDX-License-Identifier: Apache-2.0
 *
 * URLs of stores: which they are, and that no part of a password is shown.
 */
#include "store/postgres/pg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void url__each__is_one_or_not(void **state)
{
    (void)state;
    assert_true(once__pg_url("postgres://"));
    assert_true(once__pg_url("postgresql://u@h/db"));
    assert_false(once__pg_url("postgres:/h/db"));
    assert_false(once__pg_url("Postgres://h/db"));
    assert_false(once__pg_url("host=h dbname=db"));
    assert_false(once__pg_url(""));
    assert_false(once__pg_url(NULL));
}

static void readable__each__as_libpq_reads_it(void **state)
{
    (void)state;
    assert_true(once__pg_url_readable("postgres://"));
    assert_true(once__pg_url_readable("postgres://u:p%2Fw@h1,h2:5433/db?sslmode=require"));
    assert_true(once__pg_url_readable("postgres:///db?host=/run/postgresql"));
    assert_false(once__pg_url_readable("postgres://u@h/db?sslmod=require"));
    assert_false(once__pg_url_readable("postgres://u:p/w@h/db"));
    assert_false(once__pg_url_readable("postgres://h:54x2/db"));
    assert_false(once__pg_url_readable("host=h dbname=db"));
    assert_false(once__pg_url_readable(NULL));
}

static void shown__url__has_no_password(void **state)
{
    static const struct {
        const char *url;
        const char *shown;
    } cases[] = {
        {"postgres://h/db", "postgres://h/db"},
        {"postgres://u@h:5432/db", "postgres://u@h:5432/db"},
        {"postgres://u:secret@h/db", "postgres://u:***@h/db"},
        {"postgres://u:@h/db", "postgres://u:***@h/db"},
        {"postgresql://u:se:c@ret@h1,h2:5433/db?sslmode=require",
         "postgresql://u:***@h1,h2:5433/db?sslmode=require"},
        {"postgres://u:sec/ret@h/db", "postgres://u:***@h/db"},
        {"postgres://u:sec?ret@h/db", "postgres://u:***@h/db"},
        {"postgres://h/db?password=secret", "postgres://h/db?password=***"},
        {"postgres://h/db?a=b&PassWord=secret&c=d", "postgres://h/db?a=b&PassWord=***&c=d"},
        {"postgres://h/db?pass%77ord=secret", "postgres://h/db?pass%77ord=***"},
        {"postgres://h?sslpassword=secret&passfile=/etc/x",
         "postgres://h?sslpassword=***&passfile=/etc/x"},
        {"postgres:///db?host=/run/postgresql", "postgres:///db?host=/run/postgresql"},
        {"mysql://u:secret@h", "(not a URL)"},
        {NULL, "(not a URL)"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];

        once__pg_url_shown(cases[i].url, text, sizeof(text));
        assert_string_equal(text, cases[i].shown);
    }
}

static void shown__little_room__is_cut(void **state)
{
    const char *url = "postgres://u:secret@host/db";
    char text[64];

    (void)state;
    for (size_t size = 1; size < sizeof(text); size++) {
        memset(text, 'x', sizeof(text));
        once__pg_url_shown(url, text, size);
        assert_true(strlen(text) < size);
        assert_null(strstr(text, "secret"));
        assert_true(size == sizeof(text) - 1 || text[size] == 'x');
    }
    memset(text, 'x', sizeof(text));
    once__pg_url_shown(url, text, 0);
    assert_int_equal(text[0], 'x');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(url__each__is_one_or_not),
        cmocka_unit_test(readable__each__as_libpq_reads_it),
        cmocka_unit_test(shown__url__has_no_password),
        cmocka_unit_test(shown__little_room__is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
