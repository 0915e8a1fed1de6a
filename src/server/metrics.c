/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters. Counting is on the path of every call: a few relaxed additions, no lock, no allocation
 * but the first time that a namespace is named. The counters of a namespace are found in a table
 * that is only ever added to: slots are published whole, so that whoever reads needs no lock, and
 * adding is done under one.
 *
 * Numbers of different counters are read one after the other and may be of different moments; each
 * one never runs backwards. metrics_text.c writes them down.
 */
#include "server/metrics_inner.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/assert.h"
#include "base/random.h"

_Static_assert((ONCE__COUNT_SLOTS & (ONCE__COUNT_SLOTS - 1)) == 0, "a mask finds the slot");
_Static_assert(ONCE__COUNT_SLOTS >= 2 * ONCE_METRICS_NAMESPACES_MAX, "a search soon ends");

int once__metrics_new(struct once__metrics **ret_metrics)
{
    struct once__metrics *metrics = aligned_alloc(ONCE__CACHE_LINE, sizeof(*metrics));
    int err;

    if (!metrics)
        return ONCE_ERR_MEMORY;
    memset(metrics, 0, sizeof(*metrics));
    err = once__random_bytes(&metrics->seed, sizeof(metrics->seed));
    if (err != ONCE_OK) {
        free(metrics);
        return err;
    }
    /* No namespace has a blank in its name: this cannot be one of them. */
    memcpy(metrics->others.ns, ONCE__OTHERS, sizeof(ONCE__OTHERS));
    pthread_mutex_init(&metrics->adding, NULL);
    *ret_metrics = metrics;
    return ONCE_OK;
}

void once__metrics_free(struct once__metrics *metrics)
{
    if (!metrics)
        return;
    for (size_t i = 0; i < ONCE__COUNT_SLOTS; i++)
        free(atomic_load_explicit(&metrics->slots[i], memory_order_relaxed));
    pthread_mutex_destroy(&metrics->adding);
    free(metrics);
}

/* The counters of this namespace; else NULL and the empty slot where they belong. */
static struct once__counts *find(struct once__metrics *metrics, struct once_bytes ns,
                                 size_t *ret_slot)
{
    size_t at = XXH3_64bits_withSeed(ns.data, ns.size, metrics->seed) % ONCE__COUNT_SLOTS;

    for (;; at = (at + 1) % ONCE__COUNT_SLOTS) {
        struct once__counts *counts = atomic_load_explicit(&metrics->slots[at],
                                                           memory_order_acquire);

        if (!counts) {
            *ret_slot = at;
            return NULL;
        }
        if (memcmp(counts->ns, ns.data, ns.size) == 0 && counts->ns[ns.size] == '\0')
            return counts;
    }
}

/* Others may be adding too; the winner's is used. */
static struct once__counts *add(struct once__metrics *metrics, struct once_bytes ns)
{
    struct once__counts *counts;
    size_t slot = 0;

    pthread_mutex_lock(&metrics->adding);
    counts = find(metrics, ns, &slot);
    if (!counts && metrics->count < ONCE_METRICS_NAMESPACES_MAX)
        counts = calloc(1, sizeof(*counts));
    if (!counts) {
        pthread_mutex_unlock(&metrics->adding);
        return &metrics->others;
    }
    if (counts->ns[0] == '\0') { /* it is new */
        memcpy(counts->ns, ns.data, ns.size);
        metrics->count++;
        atomic_store_explicit(&metrics->slots[slot], counts, memory_order_release);
    }
    pthread_mutex_unlock(&metrics->adding);
    return counts;
}

struct once__counts *once__metrics_namespace(struct once__metrics *metrics, struct once_bytes ns)
{
    struct once__counts *counts;
    size_t slot = 0;

    ONCE_ASSERT(ns.size <= ONCE_NAMESPACE_SIZE_MAX);
    if (ns.size == 0)
        return &metrics->nameless;
    counts = find(metrics, ns, &slot);
    return counts ? counts : add(metrics, ns);
}

/* ---- Counting -------------------------------------------------------------------------------- */

static void count_one(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Bucket i counts what took up to 2^i microseconds, the last one everything longer. */
static void measure(struct once__histogram *histogram, uint64_t took_ns)
{
    uint64_t us = (took_ns + 999) / 1000;
    size_t bucket = us <= 1 ? 0 : (size_t)(64 - __builtin_clzll(us - 1));

    if (bucket >= ONCE__LATENCY_BUCKETS)
        bucket = ONCE__LATENCY_BUCKETS - 1;
    count_one(&histogram->buckets[bucket]);
    atomic_fetch_add_explicit(&histogram->sum_us, (took_ns + 500) / 1000, memory_order_relaxed);
}

/* Is there, perhaps, an operation now in a namespace that no counters are named after? */
static bool begins_uncounted(const struct once__metrics *metrics, const struct once__counts *counts,
                             const struct once_op *op)
{
    enum once_word word = op->reply.word;

    if (op->call != ONCE_CALL_BEGIN && op->call != ONCE_CALL_APPLY && op->call != ONCE_CALL_SET)
        return false;
    if (word != ONCE_EXECUTE && word != ONCE_APPLIED && word != ONCE_REJECTED && word != ONCE_DONE)
        return false;
    return counts == &metrics->others ||
           (op->ns.size > 0 && memchr(op->ns.data, '~', op->ns.size) != NULL);
}

void once__metrics_told(struct once__metrics *metrics, struct once__counts *counts,
                        const struct once_op *op, uint64_t took_ns)
{
    ONCE_ASSERT((unsigned)op->call < ONCE__CALL_COUNT);
    ONCE_ASSERT((unsigned)op->reply.word < ONCE__WORD_COUNT);
    if (op->reply.err == ONCE_OK)
        count_one(&counts->verdicts[op->call][op->reply.word]);
    else
        count_one(&counts->errors[op->call]);
    if (op->reply.err == ONCE_OK && begins_uncounted(metrics, counts, op))
        count_one(&metrics->uncounted);
    measure(&metrics->took[op->call], took_ns);
}

void once__metrics_waited(struct once__metrics *metrics, uint64_t took_ns)
{
    measure(&metrics->waited, took_ns);
}

void once__metrics_add(struct once__metrics *metrics, enum once__gauge gauge, int64_t n)
{
    ONCE_ASSERT((unsigned)gauge < ONCE__GAUGE_COUNT);
    atomic_fetch_add_explicit(&metrics->gauges[gauge].value, (uint64_t)n, memory_order_relaxed);
}

uint64_t once__metrics_read(const struct once__metrics *metrics, enum once__gauge gauge)
{
    ONCE_ASSERT((unsigned)gauge < ONCE__GAUGE_COUNT);
    return atomic_load_explicit(&metrics->gauges[gauge].value, memory_order_relaxed);
}

const struct once__counts *once__metrics_each(const struct once__metrics *metrics, size_t *at)
{
    while (*at < ONCE__COUNT_SLOTS) {
        const struct once__counts *counts = atomic_load_explicit(&metrics->slots[(*at)++],
                                                                 memory_order_acquire);

        if (counts)
            return counts;
    }
    if (*at == ONCE__COUNT_SLOTS) {
        (*at)++;
        return &metrics->nameless;
    }
    if (*at == ONCE__COUNT_SLOTS + 1) {
        (*at)++;
        return &metrics->others;
    }
    return NULL;
}

uint64_t once__metrics_uncounted(const struct once__metrics *metrics)
{
    return atomic_load_explicit(&metrics->uncounted, memory_order_relaxed);
}

uint64_t once__metrics_total(const struct once__metrics *metrics, enum once_call_kind call,
                             enum once_word word)
{
    const struct once__counts *counts;
    uint64_t total = 0;
    size_t at = 0;

    ONCE_ASSERT((unsigned)call < ONCE__CALL_COUNT);
    ONCE_ASSERT((unsigned)word < ONCE__WORD_COUNT);
    while ((counts = once__metrics_each(metrics, &at)))
        total += atomic_load_explicit(&counts->verdicts[call][word], memory_order_relaxed);
    return total;
}
