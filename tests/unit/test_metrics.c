/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics: that everything is counted once and where it belongs, and that the page is what a strict
 * reader of Prometheus text accepts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "exposition.h"
#include "server/metrics.h"

enum { PAGE_SIZE = 1 << 22, THREADS = 8, TIMES = 2000 };

static struct once__metrics *make_metrics(void)
{
    struct once__metrics *metrics = NULL;

    assert_int_equal(once__metrics_new(&metrics), ONCE_OK);
    return metrics;
}

static void tell(struct once__metrics *metrics, const char *ns, enum once_call_kind call,
                 enum once_word word, uint64_t took_ns)
{
    struct once_op op = {.call = call, .reply = {.word = word}};

    once__metrics_told(metrics, once__metrics_namespace(metrics, once_bytes_of(ns)), &op, took_ns);
}

static void tell_error(struct once__metrics *metrics, const char *ns, enum once_call_kind call)
{
    struct once_op op = {.call = call, .reply = {.err = ONCE_ERR_FULL}};

    once__metrics_told(metrics, once__metrics_namespace(metrics, once_bytes_of(ns)), &op, 5);
}

/* Writes and reads the page; fails when a strict reader would. */
static void read_page(const struct once__metrics *metrics, const struct once_stats *stats,
                      struct exposition *page)
{
    struct once_buf out;

    once_buf_init(&out, PAGE_SIZE);
    assert_int_equal(once__metrics_write(metrics, stats, &out), ONCE_OK);
    if (stats)
        assert_int_equal(once__metrics_write_open(4, 3, &out), ONCE_OK);
    assert_int_equal(once_buf_append(&out, "", 1), ONCE_OK);
    if (!exposition_read(page, (char *)out.data))
        fail_msg("%s", page->wrong);
    once_buf_release(&out);
}

#define ASSERT_SERIES(page, series, expected)                                                      \
    do {                                                                                           \
        double found_ = exposition_value(page, series);                                            \
        if (found_ < (double)(expected)-1e-9 || found_ > (double)(expected) + 1e-9)                \
            fail_msg("%s is %g and not %g", series, found_, (double)(expected));                   \
    } while (0)

/* ---- Counting -------------------------------------------------------------------------------- */

static void told__verdicts_and_errors__are_counted_by_namespace_and_call(void **state)
{
    struct once__metrics *metrics = make_metrics();
    struct exposition page = {.samples = NULL};

    (void)state;
    for (int i = 0; i < 3; i++)
        tell(metrics, "pay", ONCE_CALL_BEGIN, ONCE_EXECUTE, 1000);
    tell(metrics, "pay", ONCE_CALL_BEGIN, ONCE_REPLAY, 1000);
    tell(metrics, "mail", ONCE_CALL_BEGIN, ONCE_EXECUTE, 1000);
    tell(metrics, "mail", ONCE_CALL_COMPLETE, ONCE_DONE, 1000);
    tell(metrics, "", ONCE_CALL_APPLY, ONCE_APPLIED, 1000);
    tell_error(metrics, "pay", ONCE_CALL_BEGIN);
    read_page(metrics, NULL, &page);
    ASSERT_SERIES(&page,
                  "once_verdicts_total{namespace=\"pay\",call=\"begin\",verdict=\"EXECUTE\"}", 3);
    ASSERT_SERIES(&page, "once_verdicts_total{namespace=\"pay\",call=\"begin\",verdict=\"REPLAY\"}",
                  1);
    ASSERT_SERIES(&page,
                  "once_verdicts_total{namespace=\"mail\",call=\"begin\",verdict=\"EXECUTE\"}", 1);
    ASSERT_SERIES(&page, "once_verdicts_total{namespace=\"mail\",call=\"complete\",verdict=\"OK\"}",
                  1);
    ASSERT_SERIES(&page, "once_verdicts_total{namespace=\"\",call=\"apply\",verdict=\"APPLIED\"}",
                  1);
    ASSERT_SERIES(&page, "once_call_errors_total{namespace=\"pay\",call=\"begin\"}", 1);
    assert_true(exposition_value(&page, "once_call_errors_total{namespace=\"mail\","
                                        "call=\"begin\"}") < 0);
    assert_int_equal(once__metrics_total(metrics, ONCE_CALL_BEGIN, ONCE_EXECUTE), 4);
    assert_int_equal(once__metrics_total(metrics, ONCE_CALL_APPLY, ONCE_APPLIED), 1);
    exposition_release(&page);
    once__metrics_free(metrics);
}

static void told__times__fall_into_their_buckets(void **state)
{
    static const uint64_t took_ns[] = {0, 1000, 1001, 2000, 4001, 67108864000ULL, 1000000000000ULL};
    struct once__metrics *metrics = make_metrics();
    struct exposition page = {.samples = NULL};

    (void)state;
    for (size_t i = 0; i < sizeof(took_ns) / sizeof(took_ns[0]); i++)
        tell(metrics, "pay", ONCE_CALL_GET, ONCE_DONE, took_ns[i]);
    once__metrics_waited(metrics, 3000000);
    read_page(metrics, NULL, &page);
    ASSERT_SERIES(&page, "once_call_seconds_bucket{call=\"get\",le=\"1e-06\"}", 2);
    ASSERT_SERIES(&page, "once_call_seconds_bucket{call=\"get\",le=\"2e-06\"}", 4);
    ASSERT_SERIES(&page, "once_call_seconds_bucket{call=\"get\",le=\"4e-06\"}", 4);
    ASSERT_SERIES(&page, "once_call_seconds_bucket{call=\"get\",le=\"8e-06\"}", 5);
    ASSERT_SERIES(&page, "once_call_seconds_bucket{call=\"get\",le=\"67.108864\"}", 6);
    ASSERT_SERIES(&page, "once_call_seconds_bucket{call=\"get\",le=\"+Inf\"}", 7);
    ASSERT_SERIES(&page, "once_call_seconds_count{call=\"get\"}", 7);
    ASSERT_SERIES(&page, "once_call_seconds_sum{call=\"get\"}", 1067.108872);
    ASSERT_SERIES(&page, "once_wait_seconds_count", 1);
    ASSERT_SERIES(&page, "once_wait_seconds_sum", 0.003);
    exposition_release(&page);
    once__metrics_free(metrics);
}

static void namespace__too_many__are_counted_together(void **state)
{
    struct once__metrics *metrics = make_metrics();
    struct exposition page = {.samples = NULL};
    struct once__counts *first;
    char ns[ONCE_NAMESPACE_SIZE_MAX + 1];

    (void)state;
    first = once__metrics_namespace(metrics, once_bytes_of("ns-0"));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < ONCE_METRICS_NAMESPACES_MAX + 10; i++) {
            snprintf(ns, sizeof(ns), "ns-%d", i);
            tell(metrics, ns, ONCE_CALL_BEGIN, ONCE_EXECUTE, 1);
        }
    }
    assert_ptr_equal(once__metrics_namespace(metrics, once_bytes_of("ns-0")), first);
    read_page(metrics, NULL, &page);
    ASSERT_SERIES(
        &page, "once_verdicts_total{namespace=\"ns-255\",call=\"begin\",verdict=\"EXECUTE\"}", 2);
    ASSERT_SERIES(
        &page, "once_verdicts_total{namespace=\"every other\",call=\"begin\",verdict=\"EXECUTE\"}",
        20);
    assert_true(exposition_value(&page, "once_verdicts_total{namespace=\"ns-256\","
                                        "call=\"begin\",verdict=\"EXECUTE\"}") < 0);
    assert_int_equal(once__metrics_total(metrics, ONCE_CALL_BEGIN, ONCE_EXECUTE),
                     2 * (ONCE_METRICS_NAMESPACES_MAX + 10));
    exposition_release(&page);
    once__metrics_free(metrics);
}

/* Many of them, so that some stand where others would: the longest first. */
static void namespace__one_the_beginning_of_another__are_two(void **state)
{
    struct once__metrics *metrics = make_metrics();

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (char letter = 'a'; letter <= 'd'; letter++) {
            for (size_t size = ONCE_NAMESPACE_SIZE_MAX; size > 0; size--) {
                char ns[ONCE_NAMESPACE_SIZE_MAX + 1] = "";

                memset(ns, letter, size);
                assert_string_equal(once__metrics_namespace(metrics, once_bytes_of(ns))->ns, ns);
            }
        }
    }
    once__metrics_free(metrics);
    once__metrics_free(NULL);
}

static void *count_much(void *arg)
{
    char ns[16];

    for (int i = 0; i < TIMES; i++) {
        snprintf(ns, sizeof(ns), "ns-%d", i % 50);
        tell(arg, ns, ONCE_CALL_BEGIN, ONCE_EXECUTE, 1);
        once__metrics_add(arg, ONCE__CONNECTIONS_RESP, i % 2 == 0 ? 1 : -1);
        once__metrics_add(arg, ONCE__BYTES_IN, 10);
    }
    return NULL;
}

static void told__from_many_threads__nothing_is_lost(void **state)
{
    struct once__metrics *metrics = make_metrics();
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_much, metrics), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(once__metrics_total(metrics, ONCE_CALL_BEGIN, ONCE_EXECUTE), THREADS * TIMES);
    assert_int_equal(once__metrics_read(metrics, ONCE__CONNECTIONS_RESP), 0);
    assert_int_equal(once__metrics_read(metrics, ONCE__BYTES_IN), 10 * THREADS * TIMES);
    once__metrics_free(metrics);
}

/* ---- The page -------------------------------------------------------------------------------- */

static void write__names_with_quotes_and_backslashes__are_escaped(void **state)
{
    struct once__metrics *metrics = make_metrics();
    struct exposition page = {.samples = NULL};

    (void)state;
    tell(metrics, "a\"b\\c\\", ONCE_CALL_BEGIN, ONCE_EXECUTE, 1);
    tell(metrics, "{}=,#", ONCE_CALL_BEGIN, ONCE_EXECUTE, 1);
    read_page(metrics, NULL, &page);
    ASSERT_SERIES(&page,
                  "once_verdicts_total{namespace=\"a\\\"b\\\\c\\\\\",call=\"begin\","
                  "verdict=\"EXECUTE\"}",
                  1);
    ASSERT_SERIES(&page,
                  "once_verdicts_total{namespace=\"{}=,#\",call=\"begin\",verdict=\"EXECUTE\"}", 1);
    exposition_release(&page);
    once__metrics_free(metrics);
}

static void write__longest_name_of_quotes__fits(void **state)
{
    struct once__metrics *metrics = make_metrics();
    struct exposition page = {.samples = NULL};
    char quotes[ONCE_NAMESPACE_SIZE_MAX + 1];

    (void)state;
    memset(quotes, '"', ONCE_NAMESPACE_SIZE_MAX);
    quotes[ONCE_NAMESPACE_SIZE_MAX] = '\0';
    tell(metrics, quotes, ONCE_CALL_CHECKPOINT, ONCE_MISMATCH, 1);
    tell_error(metrics, quotes, ONCE_CALL_CHECKPOINT);
    read_page(metrics, NULL, &page);
    once__metrics_free(metrics);
    exposition_release(&page);
}

static void write__store__shows_its_numbers(void **state)
{
    struct once__metrics *metrics = make_metrics();
    struct exposition page = {.samples = NULL};
    struct once_stats stats = {.keys = 7,
                               .keys_open = 2,
                               .last_fence = 9007199254740991ULL,
                               .recovery_ms = 1500,
                               .changes = 3,
                               .write_us = {.buckets = {1, [10] = 4, [27] = 1}, .sum = 5000000},
                               .write_size = {.buckets = {[12] = 6}, .sum = 24576},
                               .write_ops = {.buckets = {[3] = 6}, .sum = 40}};

    (void)state;
    once__metrics_add(metrics, ONCE__CONNECTIONS_HTTP, 5);
    once__metrics_add(metrics, ONCE__PARKED, 2);
    read_page(metrics, &stats, &page);
    ASSERT_SERIES(&page, "once_up", 1);
    ASSERT_SERIES(&page, "once_store_open", 1);
    ASSERT_SERIES(&page, "once_store_stopped", 0);
    ASSERT_SERIES(&page, "once_keys", 7);
    ASSERT_SERIES(&page, "once_keys_open", 2);
    ASSERT_SERIES(&page, "once_doubts", 4);
    ASSERT_SERIES(&page, "once_started", 3);
    ASSERT_SERIES(&page, "once_last_fence", 9007199254740991.0);
    ASSERT_SERIES(&page, "once_recovery_seconds", 1.5);
    ASSERT_SERIES(&page, "once_connections{protocol=\"http\"}", 5);
    ASSERT_SERIES(&page, "once_connections{protocol=\"resp\"}", 0);
    ASSERT_SERIES(&page, "once_parked", 2);
    ASSERT_SERIES(&page, "once_write_seconds_bucket{le=\"0.001024\"}", 5);
    ASSERT_SERIES(&page, "once_write_seconds_bucket{le=\"67.108864\"}", 5);
    ASSERT_SERIES(&page, "once_write_seconds_count", 6);
    ASSERT_SERIES(&page, "once_write_seconds_sum", 5);
    ASSERT_SERIES(&page, "once_write_bytes_bucket{le=\"2048\"}", 0);
    ASSERT_SERIES(&page, "once_write_bytes_bucket{le=\"4096\"}", 6);
    ASSERT_SERIES(&page, "once_write_bytes_sum", 24576);
    ASSERT_SERIES(&page, "once_write_records_bucket{le=\"8\"}", 6);
    stats.stopped = true;
    read_page(metrics, &stats, &page);
    ASSERT_SERIES(&page, "once_store_stopped", 1);
    read_page(metrics, NULL, &page);
    ASSERT_SERIES(&page, "once_store_open", 0);
    assert_true(exposition_value(&page, "once_keys") < 0);
    exposition_release(&page);
    once__metrics_free(metrics);
}

static void write__no_room__is_full(void **state)
{
    struct once__metrics *metrics = make_metrics();
    struct once_buf out;

    (void)state;
    once_buf_init(&out, 1000);
    assert_int_equal(once__metrics_write(metrics, NULL, &out), ONCE_ERR_FULL);
    once_buf_release(&out);
    once__metrics_free(metrics);
}

/* The checker itself: what it is to find, it finds. */
static void exposition__defects__are_found(void **state)
{
    static const char *const bad[] = {
        "",
        "once_x 1\n",
        "# HELP once_x A.\nonce_x 1\n",
        "# HELP once_x A.\n# TYPE once_x gauge\nonce_y 1\n",
        "# HELP once_x A.\n# TYPE once_x gauge\nonce_x 1",
        "# HELP once_x A.\n# TYPE once_x gauge\nonce_x one\n",
        "# HELP once_x A.\n# TYPE once_x gauge\nonce_x 1\nonce_x 2\n",
        "# HELP once_x A.\n# TYPE once_x counter\nonce_x 1\n",
        "# HELP once_x_total A.\n# TYPE once_x_total gauge\nonce_x_total 1\n",
        "# HELP once_x A.\n# TYPE once_x gauge\nonce_x{a=\"\"\"} 1\n",
        "# HELP once_x A.\n# TYPE once_x gauge\nonce_x{a=\"\\\"} 1\n",
        "# HELP once_x A.\n# TYPE once_x gauge\nonce_x{a=\"\\q\"} 1\n",
        "# HELP once_x A.\n# TYPE once_x histogram\nonce_x_bucket{le=\"1\"} 1\nonce_x_sum 1\n"
        "once_x_count 1\n",
        "# HELP once_x A.\n# TYPE once_x histogram\nonce_x_bucket{le=\"1\"} 2\n"
        "once_x_bucket{le=\"+Inf\"} 1\nonce_x_sum 1\nonce_x_count 1\n",
        "# HELP once_x A.\n# TYPE once_x histogram\nonce_x_bucket{le=\"1\"} 1\n"
        "once_x_bucket{le=\"+Inf\"} 2\nonce_x_sum 1\nonce_x_count 1\n",
    };
    struct exposition page = {.samples = NULL};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[512];

        snprintf(text, sizeof(text), "%s", bad[i]);
        if (exposition_read(&page, text))
            fail_msg("taken: %s", bad[i]);
    }
    exposition_release(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told__verdicts_and_errors__are_counted_by_namespace_and_call),
        cmocka_unit_test(told__times__fall_into_their_buckets),
        cmocka_unit_test(namespace__too_many__are_counted_together),
        cmocka_unit_test(namespace__one_the_beginning_of_another__are_two),
        cmocka_unit_test(told__from_many_threads__nothing_is_lost),
        cmocka_unit_test(write__names_with_quotes_and_backslashes__are_escaped),
        cmocka_unit_test(write__longest_name_of_quotes__fits),
        cmocka_unit_test(write__store__shows_its_numbers),
        cmocka_unit_test(write__no_room__is_full),
        cmocka_unit_test(exposition__defects__are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
