/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of a server in the text format of Prometheus (0.0.4): every family once, with HELP
 * and TYPE, its samples together; label values escaped. Families of single numbers are declared as
 * data; a family without samples has only its two lines.
 */
#include "server/metrics_inner.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"

/* Remembers the first error, so that nobody checks each line. */
struct page {
    struct once_buf *out;
    int err;
};

static void put(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct page *page, const char *format, ...)
{
    char line[512];
    va_list args;
    int size;

    if (page->err != ONCE_OK)
        return;
    va_start(args, format);
    size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    ONCE_ASSERT(size >= 0 && (size_t)size < sizeof(line));
    page->err = once_buf_append(page->out, line, (size_t)size);
}

static void put_family(struct page *page, const char *name, const char *type, const char *help)
{
    put(page, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static uint64_t load(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* ---- Single numbers -------------------------------------------------------------------------- */

static const struct {
    const char *name, *type, *labels, *help; /* no help: it goes on with the family before */
} gauges[ONCE__GAUGE_COUNT] = {
    [ONCE__CONNECTIONS_RESP] = {"once_connections", "gauge", "{protocol=\"resp\"}",
                                "Connections that are open now."},
    [ONCE__CONNECTIONS_HTTP] = {"once_connections", "gauge", "{protocol=\"http\"}", NULL},
    [ONCE__CONNECTIONS_TOTAL] = {"once_connections_total", "counter", "",
                                 "Connections that were accepted."},
    [ONCE__CONNECTIONS_REFUSED] = {"once_connections_refused_total", "counter", "",
                                   "Connections that were refused: too many, or not allowed."},
    [ONCE__CONNECTIONS_CUT] = {"once_connections_cut_total", "counter", "",
                               "Connections that the server closed: not the protocol, a slow "
                               "reader, silent, or nobody said who it is."},
    [ONCE__AUTH_FAILED] = {"once_auth_failed_total", "counter", "",
                           "Wrong names, passwords and tokens."},
    [ONCE__AUTH_DELAYED] = {"once_auth_delayed_total", "counter", "",
                            "Tries that were not looked at: too many wrong ones before."},
    [ONCE__RATE_LIMITED] = {"once_rate_limited_total", "counter", "",
                            "Calls that were refused because their user makes too many."},
    [ONCE__BYTES_IN] = {"once_received_bytes_total", "counter", "", "Bytes that came in."},
    [ONCE__BYTES_OUT] = {"once_sent_bytes_total", "counter", "", "Bytes that went out."},
    [ONCE__COMMANDS] = {"once_commands_total", "counter", "", "RESP commands that were read."},
    [ONCE__HTTP_REQUESTS] = {"once_http_requests_total", "counter", "", "HTTP requests."},
    [ONCE__PARKED] = {"once_parked", "gauge", "", "Begins that wait for another to end."},
    [ONCE__RELOADS] = {"once_reloads_total", "counter", "",
                       "Times that the configuration was read again."},
};

static void put_gauges(struct page *page, const struct once__metrics *metrics)
{
    for (unsigned i = 0; i < ONCE__GAUGE_COUNT; i++) {
        ONCE_ASSERT(gauges[i].name);
        if (gauges[i].help)
            put_family(page, gauges[i].name, gauges[i].type, gauges[i].help);
        put(page, "%s%s %" PRIu64 "\n", gauges[i].name, gauges[i].labels,
            once__metrics_read(metrics, (enum once__gauge)i));
    }
}

#define STAT(field) offsetof(struct once_stats, field)

static const struct {
    const char *name, *type;
    size_t offset; /* of a uint64_t */
    const char *help;
    enum { EVERY, FOLDER, SHARED } of; /* which stores have it */
} stats_numbers[] = {
    {"once_keys", "gauge", STAT(keys), "Keys that the store holds.", EVERY},
    {"once_keys_open", "gauge", STAT(keys_open), "Keys that are started or in doubt.", EVERY},
    {"once_index_bytes", "gauge", STAT(index_size), "Memory of the index.", FOLDER},
    {"once_disk_bytes", "gauge", STAT(disk_size), "Bytes on disk, spare segments included.",
     FOLDER},
    {"once_log_bytes", "gauge", STAT(log_size), "Bytes of the log in use.", FOLDER},
    {"once_log_live_bytes", "gauge", STAT(live_size), "Bytes of the log that are needed.", FOLDER},
    {"once_reserved_bytes", "gauge", STAT(reserved_size),
     "Bytes kept free so that what was begun can end.", FOLDER},
    {"once_segments", "gauge", STAT(segments), "Segments in use.", FOLDER},
    {"once_segments_spare", "gauge", STAT(segments_spare), "Segments that are ready to be used.",
     FOLDER},
    {"once_segments_retired_total", "counter", STAT(segments_retired),
     "Whole segments that expired.", FOLDER},
    {"once_records_carried_total", "counter", STAT(records_carried),
     "Records that outlived their segment and were moved.", FOLDER},
    {"once_store_calls_total", "counter", STAT(calls), "Operations that the store decided.", EVERY},
    {"once_store_records_total", "counter", STAT(records), "Records written.", EVERY},
    {"once_store_writes_total", "counter", STAT(batches), "Durable writes.", EVERY},
    {"once_store_cold_reads_total", "counter", STAT(cold_reads), "Records read from disk.", FOLDER},
    {"once_last_fence", "gauge", STAT(last_fence), "The largest fence that was given.", EVERY},
    {"once_objects", "gauge", STAT(objects), "Objects.", EVERY},
    {"once_objects_bytes", "gauge", STAT(objects_size), "Memory of objects.", EVERY},
    {"once_object_changes_total", "counter", STAT(changes), "Changes of objects, for ever.",
     FOLDER},
    {"once_snapshots_total", "counter", STAT(snapshots), "Snapshots of objects written.", FOLDER},
    {"once_snapshot_bytes", "gauge", STAT(snapshot_size), "Bytes of the newest snapshot.", FOLDER},
    {"once_recovered_records", "gauge", STAT(recovered),
     "Records that were read from the log when the store was opened.", FOLDER},
    {"once_store_links", "gauge", STAT(links),
     "Connections to the shared store that there should be.", SHARED},
    {"once_store_links_up", "gauge", STAT(links_up), "Those of them that are up.", SHARED},
    {"once_store_links_lost_total", "counter", STAT(links_lost),
     "Connections to the shared store that were lost.", SHARED},
    {"once_store_asked_again_total", "counter", STAT(asked_again),
     "Calls asked again because their answer was lost.", SHARED},
    {"once_store_unsettled_total", "counter", STAT(unsettled),
     "Calls of which nobody knows whether they were kept.", SHARED},
};

static void put_flag(struct page *page, const char *name, const char *help, bool flag)
{
    put_family(page, name, "gauge", help);
    put(page, "%s %d\n", name, flag ? 1 : 0);
}

static void put_stats(struct page *page, const struct once_stats *stats)
{
    for (size_t i = 0; i < sizeof(stats_numbers) / sizeof(stats_numbers[0]); i++) {
        const void *number = (const char *)stats + stats_numbers[i].offset;

        if (stats_numbers[i].of != EVERY && (stats_numbers[i].of == SHARED) != stats->shared)
            continue;
        put_family(page, stats_numbers[i].name, stats_numbers[i].type, stats_numbers[i].help);
        put(page, "%s %" PRIu64 "\n", stats_numbers[i].name, *(const uint64_t *)number);
    }
    put_family(page, "once_recovery_seconds", "gauge", "How long opening the store took.");
    put(page, "once_recovery_seconds %.3f\n", (double)stats->recovery_ms / 1e3);
    put_family(page, "once_store_time_seconds", "gauge", "Store time, since 1970.");
    put(page, "once_store_time_seconds %.3f\n", (double)stats->now_ms / 1e3);
    if (stats->shared)
        put_flag(page, "once_store_reachable", "The shared store answers.", !stats->unreachable);
    else
        put_flag(page, "once_store_direct_writes", "Writes bypass the system's cache.",
                 stats->direct);
}

_Static_assert(ONCE_DOUBTS_COUNT_MAX == 10000, "the help of once_doubts says so");

/* ---- Histograms ------------------------------------------------------------------------------ */

/* One that was read, with bounds of 2^i units; the last bucket has none. */
struct spread {
    const char *name;
    const char *label; /* "call=\"begin\"," or "" */
    uint64_t buckets[ONCE__LATENCY_BUCKETS];
    uint64_t sum;
    double unit;
};

_Static_assert(sizeof(((struct once_spread *)0)->buckets) / sizeof(uint64_t) ==
                   ONCE__LATENCY_BUCKETS,
               "spreads of the store have as many buckets");

static void put_spread(struct page *page, const struct spread *spread)
{
    size_t label_size = strlen(spread->label);
    int bare_size = label_size > 0 ? (int)label_size - 1 : 0; /* without its comma */
    const char *open = bare_size > 0 ? "{" : "", *close = bare_size > 0 ? "}" : "";
    uint64_t count = 0;

    for (size_t i = 0; i < ONCE__LATENCY_BUCKETS; i++) {
        count += spread->buckets[i];
        if (i < ONCE__LATENCY_BUCKETS - 1)
            put(page, "%s_bucket{%sle=\"%.9g\"} %" PRIu64 "\n", spread->name, spread->label,
                (double)(1ULL << i) * spread->unit, count);
        else
            put(page, "%s_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", spread->name, spread->label, count);
    }
    put(page, "%s_sum%s%.*s%s %.15g\n", spread->name, open, bare_size, spread->label, close,
        (double)spread->sum * spread->unit);
    put(page, "%s_count%s%.*s%s %" PRIu64 "\n", spread->name, open, bare_size, spread->label, close,
        count);
}

static const char *const call_names[ONCE__CALL_COUNT] = {
    [ONCE_CALL_BEGIN] = "begin",   [ONCE_CALL_COMPLETE] = "complete",
    [ONCE_CALL_FAIL] = "fail",     [ONCE_CALL_CHECKPOINT] = "checkpoint",
    [ONCE_CALL_RENEW] = "renew",   [ONCE_CALL_RESOLVE] = "resolve",
    [ONCE_CALL_FORGET] = "forget", [ONCE_CALL_GET] = "get",
    [ONCE_CALL_APPLY] = "apply",   [ONCE_CALL_MERGE] = "merge",
    [ONCE_CALL_SET] = "set",       [ONCE_CALL_EXPIRE] = "expire",
};

const char *once__call_name(enum once_call_kind call)
{
    ONCE_ASSERT((unsigned)call < ONCE__CALL_COUNT);
    return call_names[call];
}

static void put_histogram(struct page *page, const struct once__histogram *histogram,
                          const char *name, const char *label)
{
    struct spread spread = {.name = name, .label = label, .unit = 1e-6};

    for (size_t i = 0; i < ONCE__LATENCY_BUCKETS; i++)
        spread.buckets[i] = load(&histogram->buckets[i]);
    spread.sum = load(&histogram->sum_us);
    put_spread(page, &spread);
}

static void put_latencies(struct page *page, const struct once__metrics *metrics)
{
    put_family(page, "once_call_seconds", "histogram",
               "From handing a call to the store to its answer; waiting of a parked begin apart.");
    for (unsigned call = 0; call < ONCE__CALL_COUNT; call++) {
        char label[32];

        snprintf(label, sizeof(label), "call=\"%s\",", call_names[call]);
        put_histogram(page, &metrics->took[call], "once_call_seconds", label);
    }
    put_family(page, "once_wait_seconds", "histogram", "How long parked begins waited.");
    put_histogram(page, &metrics->waited, "once_wait_seconds", "");
}

static void put_store_spread(struct page *page, const struct once_spread *from, const char *name,
                             const char *help, double unit)
{
    struct spread spread = {.name = name, .label = "", .sum = from->sum, .unit = unit};

    memcpy(spread.buckets, from->buckets, sizeof(spread.buckets));
    put_family(page, name, "histogram", help);
    put_spread(page, &spread);
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

/* A label's value: backslashes and quotes are escaped. Names hold printable ASCII and nothing else,
 * so there are no line ends. */
static const char *escape(const char *ns, char *ret_text)
{
    char *end = ret_text;

    for (; *ns != '\0'; ns++) {
        if (*ns == '\\' || *ns == '"')
            *end++ = '\\';
        *end++ = *ns;
    }
    *end = '\0';
    return ret_text;
}

static void put_verdicts(struct page *page, const struct once__metrics *metrics)
{
    const struct once__counts *counts;
    size_t at = 0;

    put_family(page, "once_verdicts_total", "counter", "What callers were told.");
    while ((counts = once__metrics_each(metrics, &at))) {
        char ns[2 * ONCE_NAMESPACE_SIZE_MAX + 1];

        escape(counts->ns, ns);
        for (unsigned call = 0; call < ONCE__CALL_COUNT; call++) {
            for (unsigned word = 0; word < ONCE__WORD_COUNT; word++) {
                uint64_t count = load(&counts->verdicts[call][word]);

                if (count > 0)
                    put(page,
                        "once_verdicts_total{namespace=\"%s\",call=\"%s\",verdict=\"%s\"} %" PRIu64
                        "\n",
                        ns, call_names[call], once_word_name((enum once_word)word), count);
            }
        }
    }
}

static void put_errors(struct page *page, const struct once__metrics *metrics)
{
    const struct once__counts *counts;
    size_t at = 0;

    put_family(page, "once_call_errors_total", "counter",
               "Calls that were answered with an error instead of a verdict.");
    while ((counts = once__metrics_each(metrics, &at))) {
        char ns[2 * ONCE_NAMESPACE_SIZE_MAX + 1];

        escape(counts->ns, ns);
        for (unsigned call = 0; call < ONCE__CALL_COUNT; call++) {
            uint64_t count = load(&counts->errors[call]);

            if (count > 0)
                put(page, "once_call_errors_total{namespace=\"%s\",call=\"%s\"} %" PRIu64 "\n", ns,
                    call_names[call], count);
        }
    }
}

int once__metrics_write(const struct once__metrics *metrics, const struct once_stats *stats,
                        struct once_buf *out)
{
    struct page page = {.out = out, .err = ONCE_OK};

    put_flag(&page, "once_up", "The server answers.", true);
    put_flag(&page, "once_store_open", "The store is open.", stats != NULL);
    put_flag(&page, "once_store_stopped", "A write failed: nothing is acknowledged any more.",
             stats && stats->stopped);
    put_verdicts(&page, metrics);
    put_errors(&page, metrics);
    put_latencies(&page, metrics);
    put_gauges(&page, metrics);
    if (stats) {
        put_stats(&page, stats);
        put_store_spread(&page, &stats->write_us, "once_write_seconds",
                         "How long durable writes took.", 1e-6);
        if (!stats->shared)
            put_store_spread(&page, &stats->write_size, "once_write_bytes",
                             "Bytes of durable writes.", 1);
        put_store_spread(&page, &stats->write_ops, "once_write_records",
                         "Records of durable writes.", 1);
    }
    return page.err;
}

int once__metrics_write_open(uint64_t doubts, uint64_t started, struct once_buf *out)
{
    struct page page = {.out = out, .err = ONCE_OK};

    put_family(&page, "once_doubts", "gauge",
               "Operations in doubt: begun, and their owner vanished. Not counted beyond 10000.");
    put(&page, "once_doubts %" PRIu64 "\n", doubts);
    put_family(&page, "once_started", "gauge", "Operations that someone holds under a lease.");
    put(&page, "once_started %" PRIu64 "\n", started);
    return page.err;
}
