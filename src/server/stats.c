/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of a server as one document. It is made whole by one asker at a time; others are
 * given the one before meanwhile, or wait for the first. The part about namespaces is kept in
 * pieces, because not everyone may see all of them: numbers of a document are of one moment, now_ms
 * and uptime_ms, so that differences of two documents are rates.
 *
 * A document that cannot be made leaves the one before; doubts that cannot be counted (the store
 * has stopped) stay as they were known last.
 */
#include "server/stats.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "object/view_text.h"
#include "server/metrics_inner.h"
#include "server/room.h"
#include "server/server.h"

enum {
    DOCUMENT_SIZE_MAX = 1 << 22,
    PIECES_MAX = ONCE_METRICS_NAMESPACES_MAX + 2, /* and the nameless, and every other */
    NS_IN_MS = 1000000,
    DOUBT_PAGE = 50 /* a record of a doubt may be large, and time is looked at after each page */
};

/* One namespace of the document: where its text begins in `spaces`. */
struct piece {
    const struct once__counts *counts;
    size_t offset;
};

struct document {
    uint64_t made_ns;       /* 0: there is none */
    struct once_buf totals; /* up to, and without, the namespaces */
    struct once_buf spaces; /* {"namespace":…}{…} */
    struct piece pieces[PIECES_MAX];
    size_t piece_count;
};

struct once__stats {
    uint64_t since_ns;

    pthread_mutex_t lock; /* document, building */
    pthread_cond_t built;
    bool building;
    struct document document;

    pthread_mutex_t counting; /* what follows; held while doubts are counted */
    uint64_t counted_ns;      /* 0: never */
    struct once__open_counts open;
};

int once__stats_new(struct once__stats **ret_stats)
{
    struct once__stats *stats = calloc(1, sizeof(*stats));

    if (!stats)
        return ONCE_ERR_MEMORY;
    stats->since_ns = once__now_ns();
    pthread_mutex_init(&stats->lock, NULL);
    pthread_mutex_init(&stats->counting, NULL);
    pthread_cond_init(&stats->built, NULL);
    *ret_stats = stats;
    return ONCE_OK;
}

static void release(struct document *document)
{
    once_buf_release(&document->totals);
    once_buf_release(&document->spaces);
}

void once__stats_free(struct once__stats *stats)
{
    if (!stats)
        return;
    release(&stats->document);
    pthread_mutex_destroy(&stats->lock);
    pthread_mutex_destroy(&stats->counting);
    pthread_cond_destroy(&stats->built);
    free(stats);
}

/* ---- Doubts ---------------------------------------------------------------------------------- */

static void count_doubt(void *user, const struct once_item *item)
{
    uint64_t *count = user;

    (void)item;
    (*count)++;
}

/* False: the store does not say. */
static bool count_doubts(struct once_store *store, uint64_t *ret_doubts, bool *ret_more)
{
    const struct once_filter filter = {.by_state = true, .state = ONCE_STATE_DOUBT};
    uint64_t end_ns = once__now_ns() + (uint64_t)ONCE_DOUBTS_COUNT_MS * NS_IN_MS;
    uint64_t cursor = 0, count = 0;

    do {
        uint64_t left = ONCE_DOUBTS_COUNT_MAX - count;
        size_t page = left < DOUBT_PAGE ? (size_t)left : DOUBT_PAGE;

        if (once_list(store, &filter, cursor, page, count_doubt, &count, &cursor) != ONCE_OK)
            return false;
    } while (cursor != 0 && count < ONCE_DOUBTS_COUNT_MAX && once__now_ns() < end_ns);
    *ret_more = cursor != 0;
    *ret_doubts = count;
    return true;
}

struct once__open_counts once__stats_open(struct once__stats *stats, struct once_store *store)
{
    struct once__open_counts open = {0};
    struct once_stats numbers;
    uint64_t now_ns = once__now_ns();

    if (!store)
        return open;
    once_stats_get(store, &numbers);
    pthread_mutex_lock(&stats->counting);
    /* A database that does not answer would be waited for. */
    if (!numbers.unreachable &&
        (stats->counted_ns == 0 ||
         now_ns - stats->counted_ns >= (uint64_t)ONCE_DOUBTS_MS * NS_IN_MS)) {
        if (count_doubts(store, &stats->open.doubts, &stats->open.more))
            stats->counted_ns = once__now_ns();
    }
    open = stats->open;
    pthread_mutex_unlock(&stats->counting);
    once_stats_get(store, &numbers);
    /* Some may have ended since they were counted; of a shared store the count itself is older. */
    if (open.doubts > numbers.keys_open && !numbers.shared)
        open.doubts = numbers.keys_open;
    if (numbers.keys_open > open.doubts)
        open.started = numbers.keys_open - open.doubts;
    return open;
}

/* ---- What the system says -------------------------------------------------------------------- */

uint64_t once__resident_size(void)
{
    unsigned long long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &all, &resident) != 2)
        resident = 0;
    (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static once_ms wall_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / NS_IN_MS;
}

/* Bytes that the disk of this folder has left for us; 0: it does not say. */
static uint64_t free_size(const char *folder)
{
    struct statvfs disk;

    if (!folder || statvfs(folder, &disk) != 0)
        return 0;
    return (uint64_t)disk.f_bavail * disk.f_frsize;
}

/* ---- Numbers of the server ------------------------------------------------------------------- */

static uint64_t load(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void put_name(struct once__view *view, const char *name, bool first)
{
    once__view_text(view, first ? "\"" : ",\"");
    once__view_text(view, name);
    once__view_text(view, "\":");
}

/* {"EXECUTE":3,…}: those that are not 0. */
static void put_words(struct once__view *view, const uint64_t *words)
{
    bool first = true;

    once__view_text(view, "{");
    for (unsigned word = 0; word < ONCE__WORD_COUNT; word++) {
        if (words[word] == 0)
            continue;
        put_name(view, once_word_name((enum once_word)word), first);
        once__view_number(view, words[word]);
        first = false;
    }
    once__view_text(view, "}");
}

struct totals {
    uint64_t verdicts[ONCE__CALL_COUNT][ONCE__WORD_COUNT];
    uint64_t errors[ONCE__CALL_COUNT];
};

static void add_counts(struct totals *totals, const struct once__counts *counts)
{
    for (unsigned call = 0; call < ONCE__CALL_COUNT; call++) {
        for (unsigned word = 0; word < ONCE__WORD_COUNT; word++)
            totals->verdicts[call][word] += load(&counts->verdicts[call][word]);
        totals->errors[call] += load(&counts->errors[call]);
    }
}

static bool is_used(const struct totals *counts, unsigned call)
{
    for (unsigned word = 0; word < ONCE__WORD_COUNT; word++) {
        if (counts->verdicts[call][word] > 0)
            return true;
    }
    return false;
}

/* Of a namespace only calls that were made; of all of them every one, so that readers need not
 * ask whether it is there. */
static void put_verdicts(struct once__view *view, const struct totals *totals, bool every)
{
    bool first = true;

    once__view_field(view, "verdicts");
    once__view_text(view, "{");
    for (unsigned call = 0; call < ONCE__CALL_COUNT; call++) {
        if (!every && !is_used(totals, call))
            continue;
        put_name(view, once__call_name((enum once_call_kind)call), first);
        put_words(view, totals->verdicts[call]);
        first = false;
    }
    once__view_text(view, "}");
}

static void put_errors(struct once__view *view, const struct totals *totals)
{
    once__view_field(view, "errors");
    once__view_text(view, "{");
    for (unsigned call = 0; call < ONCE__CALL_COUNT; call++) {
        put_name(view, once__call_name((enum once_call_kind)call), call == 0);
        once__view_number(view, totals->errors[call]);
    }
    once__view_text(view, "}");
}

static void put_spread(struct once__view *view, const char *name, const struct once_spread *spread)
{
    once__view_field(view, name);
    once__view_text(view, "{\"buckets\":[");
    for (size_t i = 0; i < ONCE__LATENCY_BUCKETS; i++) {
        once__view_text(view, i > 0 ? "," : "");
        once__view_number(view, spread->buckets[i]);
    }
    once__view_text(view, "]");
    once__view_number_field(view, "sum", spread->sum);
    once__view_text(view, "}");
}

/* Of all calls together. */
static void put_latency(struct once__view *view, const struct once__metrics *metrics)
{
    struct once_spread all = {.sum = 0};

    for (unsigned call = 0; call < ONCE__CALL_COUNT; call++) {
        for (size_t i = 0; i < ONCE__LATENCY_BUCKETS; i++)
            all.buckets[i] += load(&metrics->took[call].buckets[i]);
        all.sum += load(&metrics->took[call].sum_us);
    }
    put_spread(view, "latency_us", &all);
}

static void put_gauges(struct once__view *view, const struct once__metrics *metrics)
{
    static const struct {
        const char *name;
        enum once__gauge gauge;
    } gauges[] = {
        {"parked", ONCE__PARKED},
        {"commands", ONCE__COMMANDS},
        {"http_requests", ONCE__HTTP_REQUESTS},
        {"bytes_in", ONCE__BYTES_IN},
        {"bytes_out", ONCE__BYTES_OUT},
        {"auth_failed", ONCE__AUTH_FAILED},
        {"rate_limited", ONCE__RATE_LIMITED},
    };

    once__view_field(view, "connections");
    once__view_text(view, "{\"resp\":");
    once__view_number(view, once__metrics_read(metrics, ONCE__CONNECTIONS_RESP));
    once__view_number_field(view, "http", once__metrics_read(metrics, ONCE__CONNECTIONS_HTTP));
    once__view_text(view, "}");
    for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
        once__view_number_field(view, gauges[i].name, once__metrics_read(metrics, gauges[i].gauge));
}

/* ---- Numbers of the store -------------------------------------------------------------------- */

static void put_flag(struct once__view *view, const char *name, bool flag)
{
    once__view_field(view, name);
    once__view_text(view, flag ? "true" : "false");
}

/* A number that only a folder has. */
static void put_own(struct once__view *view, const struct once_stats *stats, const char *name,
                    uint64_t number)
{
    if (!stats->shared) {
        once__view_number_field(view, name, number);
        return;
    }
    once__view_field(view, name);
    once__view_text(view, "null");
}

static void put_store(struct once__view *view, const struct once_stats *stats,
                      const struct once__open_counts *open, const struct once__config *config)
{
    const struct once_options *options = &config->store;

    put_spread(view, "write_us", &stats->write_us);
    put_spread(view, "write_ops", &stats->write_ops);
    once__view_number_field(view, "batches", stats->batches);
    once__view_number_field(view, "records", stats->records);
    once__view_number_field(view, "keys", stats->keys);
    put_own(view, stats, "keys_max", options->keys_max ? options->keys_max : ONCE_KEYS_MAX);
    once__view_number_field(view, "keys_open", stats->keys_open);
    once__view_number_field(view, "doubts", open->doubts);
    put_flag(view, "doubts_more", open->more);
    once__view_number_field(view, "started", open->started);
    put_own(view, stats, "index_size", stats->index_size);
    once__view_number_field(view, "memory_size", once__resident_size());
    once__view_number_field(view, "objects", stats->objects);
    once__view_number_field(view, "objects_size", stats->objects_size);
    put_own(view, stats, "objects_size_max",
            options->objects_size_max ? options->objects_size_max : ONCE_OBJECTS_SIZE_DEFAULT);
    put_own(view, stats, "disk_size", stats->disk_size);
    put_own(view, stats, "disk_size_max", options->disk_size_max);
    put_own(view, stats, "disk_free", free_size(config->folder));
    put_own(view, stats, "log_size", stats->log_size);
    put_own(view, stats, "live_size", stats->live_size);
    put_own(view, stats, "segments", stats->segments);
}

/* ---- The document ---------------------------------------------------------------------------- */

static void put_phase(struct once__view *view, const struct once__status *status,
                      const struct once_stats *stats)
{
    static const char *const names[] = {"loading", "ready", "draining", "failed"};

    once__view_number_field(view, "started_ms", status->started_ms);
    once__view_bytes_field(view, "version", once_bytes_of(ONCE_VERSION));
    put_flag(view, "ready", status->phase == ONCE__READY && !status->unreachable);
    once__view_bytes_field(view, "phase", once_bytes_of(names[status->phase]));
    once__view_number_field(view, "loaded", status->loaded);
    once__view_number_field(view, "to_load", status->to_load);
    put_flag(view, "stopped", stats->stopped || status->phase == ONCE__FAILED);
    put_flag(view, "shared", stats->shared);
    put_flag(view, "unreachable", status->unreachable);
}

static void put_space(struct once__view *view, const struct once__counts *counts,
                      const struct totals *totals)
{
    uint64_t errors = 0;

    for (unsigned call = 0; call < ONCE__CALL_COUNT; call++)
        errors += totals->errors[call];
    once__view_text(view, "{\"namespace\":");
    once__view_string(view, once_bytes_of(counts->ns));
    put_verdicts(view, totals, false);
    once__view_number_field(view, "errors", errors);
    once__view_text(view, "}");
}

/* Each namespace, and the sum of all, of the same readings. */
static int put_spaces(struct document *document, const struct once__metrics *metrics,
                      struct totals *all)
{
    struct once__view view = {.out = &document->spaces, .err = ONCE_OK};
    const struct once__counts *counts;
    size_t at = 0;

    while ((counts = once__metrics_each(metrics, &at))) {
        struct totals one = {.errors = {0}};

        ONCE_ASSERT(document->piece_count < PIECES_MAX);
        add_counts(&one, counts);
        for (unsigned call = 0; call < ONCE__CALL_COUNT; call++) {
            for (unsigned word = 0; word < ONCE__WORD_COUNT; word++)
                all->verdicts[call][word] += one.verdicts[call][word];
            all->errors[call] += one.errors[call];
        }
        document->pieces[document->piece_count++] = (struct piece){.counts = counts,
                                                                   .offset = document->spaces.size};
        put_space(&view, counts, &one);
    }
    return view.err;
}

static int make_document(struct once__stats *stats, const struct once__server *server,
                         const struct once__config *config, struct document *document)
{
    struct once_store *store = once__service_store(once__server_service(server));
    const struct once__metrics *metrics = once__server_metrics(server);
    struct once__status status = once__server_status(server);
    struct once__open_counts open = once__stats_open(stats, store);
    struct once__view view = {.out = &document->totals, .err = ONCE_OK};
    struct totals all = {.errors = {0}};
    struct once_stats numbers = {.now_ms = wall_ms(), .shared = config->store_url != NULL};
    int err;

    if (store)
        once_stats_get(store, &numbers);
    err = put_spaces(document, metrics, &all);
    document->made_ns = once__now_ns();
    once__view_text(&view, "{\"now_ms\":");
    once__view_signed(&view, numbers.now_ms);
    once__view_number_field(&view, "uptime_ms", (document->made_ns - stats->since_ns) / NS_IN_MS);
    put_phase(&view, &status, &numbers);
    put_verdicts(&view, &all, true);
    put_errors(&view, &all);
    put_latency(&view, metrics);
    put_store(&view, &numbers, &open, config);
    put_gauges(&view, metrics);
    return err != ONCE_OK ? err : view.err;
}

/* ---- For whom -------------------------------------------------------------------------------- */

/* The nameless and "every other" are of nobody in particular: for administrators. */
static bool may_see(const struct once__config *config, const struct once__identity *identity,
                    const char *ns)
{
    if (identity->role == ONCE__ROLE_ADMIN)
        return identity->known;
    return ns[0] != '\0' && strcmp(ns, ONCE__OTHERS) != 0 &&
           once__access_namespace(config, identity, once_bytes_of(ns));
}

static int write_for(const struct document *document, const struct once__config *config,
                     const struct once__identity *identity, struct once_buf *out)
{
    int err = once_buf_append(out, document->totals.data, document->totals.size);
    bool first = true;

    if (err == ONCE_OK)
        err = once_buf_append(out, ",\"namespaces\":[", 15);
    for (size_t i = 0; err == ONCE_OK && i < document->piece_count; i++) {
        const struct piece *piece = &document->pieces[i];
        size_t end = i + 1 < document->piece_count ? piece[1].offset : document->spaces.size;

        if (!may_see(config, identity, piece->counts->ns))
            continue;
        err = first ? ONCE_OK : once_buf_append(out, ",", 1);
        if (err == ONCE_OK)
            err = once_buf_append(out, document->spaces.data + piece->offset, end - piece->offset);
        first = false;
    }
    return err != ONCE_OK ? err : once_buf_append(out, "]}", 2);
}

static bool is_fresh(const struct document *document)
{
    return document->made_ns != 0 &&
           once__now_ns() - document->made_ns < (uint64_t)ONCE_STATS_MS * NS_IN_MS;
}

/* Under the lock, which is given up meanwhile. */
static int renew(struct once__stats *stats, const struct once__server *server,
                 const struct once__config *config)
{
    struct document *fresh = calloc(1, sizeof(*fresh));
    int err = ONCE_ERR_MEMORY;

    stats->building = true;
    pthread_mutex_unlock(&stats->lock);
    if (fresh) {
        once_buf_init(&fresh->totals, DOCUMENT_SIZE_MAX);
        once_buf_init(&fresh->spaces, DOCUMENT_SIZE_MAX);
        err = make_document(stats, server, config, fresh);
    }
    pthread_mutex_lock(&stats->lock);
    if (err == ONCE_OK) {
        struct document before = stats->document;

        stats->document = *fresh;
        *fresh = before;
    }
    stats->building = false;
    pthread_cond_broadcast(&stats->built);
    if (fresh)
        release(fresh);
    free(fresh);
    return err;
}

int once__stats_write(struct once__stats *stats, const struct once__server *server,
                      const struct once__config *config, const struct once__identity *identity,
                      struct once_buf *out)
{
    int err = ONCE_OK;

    pthread_mutex_lock(&stats->lock);
    while (stats->building && stats->document.made_ns == 0)
        pthread_cond_wait(&stats->built, &stats->lock);
    if (!stats->building && !is_fresh(&stats->document))
        err = renew(stats, server, config);
    if (err == ONCE_OK)
        err = write_for(&stats->document, config, identity, out);
    pthread_mutex_unlock(&stats->lock);
    return err;
}
