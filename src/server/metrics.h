/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers about a running server, for /metrics (Prometheus text), INFO and the dashboard. Counting
 * is an atomic addition from any thread; nothing here waits.
 */
#ifndef ONCE_SERVER_METRICS_H
#define ONCE_SERVER_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include <once/bytes.h>
#include <once/store.h>
#include <once/verdict.h>

enum {
    ONCE__WORD_COUNT = ONCE_REJECTED + 1,
    ONCE__CALL_COUNT = ONCE_CALL_EXPIRE + 1,
    ONCE__LATENCY_BUCKETS = 28 /* up to 1 us, 2 us, 4 us, … */
};

struct once__histogram {
    _Atomic uint64_t buckets[ONCE__LATENCY_BUCKETS];
    _Atomic uint64_t sum_us;
};

/* One namespace; the last of the table is every further one ("other"). */
struct once__counts {
    char ns[ONCE_NAMESPACE_SIZE_MAX + 1];
    _Atomic uint64_t verdicts[ONCE__CALL_COUNT][ONCE__WORD_COUNT];
    _Atomic uint64_t errors[ONCE__CALL_COUNT];
};

enum once__gauge {
    ONCE__CONNECTIONS_RESP, /* open now */
    ONCE__CONNECTIONS_HTTP,
    ONCE__CONNECTIONS_TOTAL,   /* ever */
    ONCE__CONNECTIONS_REFUSED, /* over connections_max, or not allowed */
    ONCE__CONNECTIONS_CUT,     /* closed by us: protocol error, slow reader, idle, auth timeout */
    ONCE__AUTH_FAILED,
    ONCE__AUTH_DELAYED,
    ONCE__RATE_LIMITED,
    ONCE__BYTES_IN,
    ONCE__BYTES_OUT,
    ONCE__COMMANDS, /* RESP commands read */
    ONCE__HTTP_REQUESTS,
    ONCE__PARKED, /* now */
    ONCE__RELOADS,
    ONCE__GAUGE_COUNT
};

struct once__metrics;

ONCE_MUST_CHECK int once__metrics_new(struct once__metrics **ret_metrics);
void once__metrics_free(struct once__metrics *metrics); /* accepts NULL */

/* The counters of a namespace, made at its first use; never NULL, never freed before the end. */
struct once__counts *once__metrics_namespace(struct once__metrics *metrics, struct once_bytes ns);
void once__metrics_told(struct once__metrics *metrics, struct once__counts *counts,
                        const struct once_op *op, uint64_t took_ns);
/* A begin was parked so long before it was told. */
void once__metrics_waited(struct once__metrics *metrics, uint64_t took_ns);
void once__metrics_add(struct once__metrics *metrics, enum once__gauge gauge, int64_t n);
uint64_t once__metrics_read(const struct once__metrics *metrics, enum once__gauge gauge);
/* Verdicts of all namespaces together. */
uint64_t once__metrics_total(const struct once__metrics *metrics, enum once_call_kind call,
                             enum once_word word);

/* "begin", "complete", … */
const char *once__call_name(enum once_call_kind call);

/* The whole as Prometheus text; stats may be NULL (the store is not open yet). */
ONCE_MUST_CHECK int once__metrics_write(const struct once__metrics *metrics,
                                        const struct once_stats *stats, struct once_buf *out);
/* Open operations: so many are in doubt, so many under way. */
ONCE_MUST_CHECK int once__metrics_write_open(uint64_t doubts, uint64_t started,
                                             struct once_buf *out);

#endif
