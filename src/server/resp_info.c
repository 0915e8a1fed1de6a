/* SPDX-License-Identifier: Apache-2.0
 *
 * INFO, DBSIZE and TIME. INFO has the sections and names of Redis, as far as there is something
 * true to say, and a section of Once's own. Numbers of the store are fetched on a lane: the store
 * may be busy.
 */
#include "server/resp_commands.h"
#include "server/resp_look.h"
#include "server/server.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct info {
    struct once__look look;
    struct once_stats stats;
    struct once__stats *counter; /* of doubts; INFO */
    struct once__open_counts open;
};

/* What the sections are written from. */
struct facts {
    const struct once__session *session;
    const struct once__config *config;
    struct once__status status;
    const struct once__metrics *metrics;
    const struct once_stats *stats; /* NULL: the store is not open yet */
    struct once__open_counts open;
    struct once_buf text;
    bool failed;
};

static void __attribute__((format(printf, 2, 3))) say(struct facts *facts, const char *format, ...)
{
    char line[1024];
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= sizeof(line) ||
        once_buf_append(&facts->text, line, (size_t)size) != ONCE_OK)
        facts->failed = true;
}

static uint64_t gauge(const struct facts *facts, enum once__gauge which)
{
    return once__metrics_read(facts->metrics, which);
}

/* ---- Sections -------------------------------------------------------------------------------- */

static void say_server(struct facts *facts)
{
    const struct once__status *status = &facts->status;
    uint64_t now_ms = (uint64_t)once__wall_ms();
    uint64_t up_s = now_ms > status->started_ms ? (now_ms - status->started_ms) / 1000 : 0;

    say(facts, "redis_version:%s\r\n", ONCE__REDIS_VERSION);
    say(facts, "once_version:%s\r\n", ONCE_VERSION);
    say(facts, "redis_mode:standalone\r\n");
    say(facts, "arch_bits:%zu\r\n", sizeof(void *) * 8);
    say(facts, "process_id:%ld\r\n", (long)getpid());
    say(facts, "run_id:%s\r\n", status->run_id);
    say(facts, "tcp_port:%u\r\n",
        facts->config->resp_count > 0 ? once__server_resp_port(facts->session->server, 0) : 0U);
    say(facts, "server_time_usec:%" PRIu64 "\r\n", now_ms * 1000);
    say(facts, "uptime_in_seconds:%" PRIu64 "\r\n", up_s);
    say(facts, "uptime_in_days:%" PRIu64 "\r\n", up_s / 86400);
    say(facts, "config_file:%s\r\n", facts->config->file ? facts->config->file : "");
}

static void say_clients(struct facts *facts)
{
    say(facts, "connected_clients:%" PRIu64 "\r\n", gauge(facts, ONCE__CONNECTIONS_RESP));
    say(facts, "maxclients:%" PRIu32 "\r\n", facts->config->connections_max);
    say(facts, "blocked_clients:%" PRIu64 "\r\n", gauge(facts, ONCE__PARKED));
    say(facts, "http_connections:%" PRIu64 "\r\n", gauge(facts, ONCE__CONNECTIONS_HTTP));
}

static void say_memory(struct facts *facts)
{
    const struct once_stats *stats = facts->stats;
    uint64_t resident = once__resident_size();

    say(facts, "used_memory:%" PRIu64 "\r\n",
        stats ? stats->index_size + stats->objects_size : resident);
    say(facts, "used_memory_rss:%" PRIu64 "\r\n", resident);
    say(facts, "maxmemory:0\r\n");
    say(facts, "maxmemory_policy:noeviction\r\n");
}

static void say_persistence(struct facts *facts)
{
    const struct once__status *status = &facts->status;

    say(facts, "loading:%d\r\n", facts->stats ? 0 : 1);
    if (!facts->stats) {
        say(facts, "loading_total_bytes:%" PRIu64 "\r\n", status->to_load);
        say(facts, "loading_loaded_bytes:%" PRIu64 "\r\n", status->loaded);
    }
    say(facts, "aof_enabled:1\r\n");
    say(facts, "aof_last_write_status:%s\r\n",
        status->phase == ONCE__FAILED || (facts->stats && facts->stats->stopped) ? "err" : "ok");
    if (facts->stats && !facts->stats->shared)
        say(facts, "aof_current_size:%" PRIu64 "\r\n", facts->stats->log_size);
}

static void say_stats(struct facts *facts)
{
    say(facts, "total_connections_received:%" PRIu64 "\r\n", gauge(facts, ONCE__CONNECTIONS_TOTAL));
    say(facts, "total_commands_processed:%" PRIu64 "\r\n", gauge(facts, ONCE__COMMANDS));
    say(facts, "total_net_input_bytes:%" PRIu64 "\r\n", gauge(facts, ONCE__BYTES_IN));
    say(facts, "total_net_output_bytes:%" PRIu64 "\r\n", gauge(facts, ONCE__BYTES_OUT));
    say(facts, "rejected_connections:%" PRIu64 "\r\n", gauge(facts, ONCE__CONNECTIONS_REFUSED));
    say(facts, "cut_connections:%" PRIu64 "\r\n", gauge(facts, ONCE__CONNECTIONS_CUT));
    say(facts, "auth_failed:%" PRIu64 "\r\n", gauge(facts, ONCE__AUTH_FAILED));
    say(facts, "auth_delayed:%" PRIu64 "\r\n", gauge(facts, ONCE__AUTH_DELAYED));
    say(facts, "rate_limited:%" PRIu64 "\r\n", gauge(facts, ONCE__RATE_LIMITED));
    say(facts, "http_requests:%" PRIu64 "\r\n", gauge(facts, ONCE__HTTP_REQUESTS));
    say(facts, "evicted_keys:0\r\n");
}

static void say_replication(struct facts *facts)
{
    say(facts, "role:master\r\n");
    say(facts, "connected_slaves:0\r\n");
}

static void say_cpu(struct facts *facts)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return;
    say(facts, "used_cpu_sys:%lld.%06ld\r\n", (long long)usage.ru_stime.tv_sec,
        (long)usage.ru_stime.tv_usec);
    say(facts, "used_cpu_user:%lld.%06ld\r\n", (long long)usage.ru_utime.tv_sec,
        (long)usage.ru_utime.tv_usec);
}

static void say_keyspace(struct facts *facts)
{
    if (facts->stats && facts->stats->keys > 0)
        say(facts, "db0:keys=%" PRIu64 ",expires=%" PRIu64 ",avg_ttl=0\r\n", facts->stats->keys,
            facts->stats->keys);
}

static const char *phase_name(enum once__phase phase)
{
    static const char *const names[] = {"loading", "ready", "draining", "failed"};

    return names[phase];
}

static void say_verdicts(struct facts *facts)
{
    static const struct {
        enum once_call_kind call;
        enum once_word word;
        const char *name;
    } totals[] = {
        {ONCE_CALL_BEGIN, ONCE_EXECUTE, "begin_execute"},
        {ONCE_CALL_BEGIN, ONCE_REPLAY, "begin_replay"},
        {ONCE_CALL_BEGIN, ONCE_BUSY, "begin_busy"},
        {ONCE_CALL_BEGIN, ONCE_MISMATCH, "begin_mismatch"},
        {ONCE_CALL_BEGIN, ONCE_DOUBT, "begin_doubt"},
        {ONCE_CALL_BEGIN, ONCE_TOO_OLD, "begin_too_old"},
        {ONCE_CALL_COMPLETE, ONCE_DONE, "complete_ok"},
        {ONCE_CALL_COMPLETE, ONCE_STALE, "complete_stale"},
        {ONCE_CALL_FAIL, ONCE_DONE, "fail_ok"},
        {ONCE_CALL_RESOLVE, ONCE_DONE, "resolve_ok"},
        {ONCE_CALL_APPLY, ONCE_APPLIED, "apply_applied"},
        {ONCE_CALL_APPLY, ONCE_REPLAY, "apply_replay"},
        {ONCE_CALL_APPLY, ONCE_REJECTED, "apply_rejected"},
    };

    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++)
        say(facts, "%s:%" PRIu64 "\r\n", totals[i].name,
            once__metrics_total(facts->metrics, totals[i].call, totals[i].word));
}

static void say_files(struct facts *facts)
{
    const struct once_stats *stats = facts->stats;

    say(facts, "index_size:%" PRIu64 "\r\n", stats->index_size);
    say(facts, "disk_size:%" PRIu64 "\r\n", stats->disk_size);
    say(facts, "log_size:%" PRIu64 "\r\n", stats->log_size);
    say(facts, "segments:%" PRIu64 "\r\n", stats->segments);
}

static void say_links(struct facts *facts)
{
    const struct once_stats *stats = facts->stats;

    say(facts, "links:%" PRIu64 "\r\n", stats->links);
    say(facts, "links_up:%" PRIu64 "\r\n", stats->links_up);
    say(facts, "links_lost:%" PRIu64 "\r\n", stats->links_lost);
    say(facts, "asked_again:%" PRIu64 "\r\n", stats->asked_again);
    say(facts, "unsettled:%" PRIu64 "\r\n", stats->unsettled);
}

static void say_once(struct facts *facts)
{
    const struct once_stats *stats = facts->stats;

    say(facts, "phase:%s\r\n",
        facts->status.unreachable ? "unreachable" : phase_name(facts->status.phase));
    if (stats) {
        say(facts, "shared:%d\r\n", stats->shared ? 1 : 0);
        say(facts, "keys:%" PRIu64 "\r\n", stats->keys);
        say(facts, "keys_open:%" PRIu64 "\r\n", stats->keys_open);
        say(facts, "doubts:%" PRIu64 "\r\n", facts->open.doubts);
        say(facts, "started:%" PRIu64 "\r\n", facts->open.started);
        say(facts, "objects:%" PRIu64 "\r\n", stats->objects);
        say(facts, "objects_size:%" PRIu64 "\r\n", stats->objects_size);
        if (stats->shared)
            say_links(facts);
        else
            say_files(facts);
        say(facts, "batches:%" PRIu64 "\r\n", stats->batches);
        say(facts, "records:%" PRIu64 "\r\n", stats->records);
        say(facts, "last_fence:%" PRIu64 "\r\n", stats->last_fence);
        say(facts, "now_ms:%" PRId64 "\r\n", stats->now_ms);
        say(facts, "recovery_ms:%" PRId64 "\r\n", stats->recovery_ms);
    }
    say_verdicts(facts);
}

static const struct {
    const char *name;
    const char *word; /* as it is asked for */
    void (*say)(struct facts *facts);
} sections[] = {
    {"Server", "SERVER", say_server}, {"Clients", "CLIENTS", say_clients},
    {"Memory", "MEMORY", say_memory}, {"Persistence", "PERSISTENCE", say_persistence},
    {"Stats", "STATS", say_stats},    {"Replication", "REPLICATION", say_replication},
    {"CPU", "CPU", say_cpu},          {"Keyspace", "KEYSPACE", say_keyspace},
    {"Once", "ONCE", say_once},
};

static bool asked_for(const struct once__request *request, const char *word)
{
    for (size_t i = 1; i < request->arg_count; i++) {
        struct once_bytes arg = request->args[i];

        if (once__arg_is(arg, word) || once__arg_is(arg, "ALL") || once__arg_is(arg, "DEFAULT") ||
            once__arg_is(arg, "EVERYTHING"))
            return true;
    }
    return request->arg_count == 1;
}

/* info is NULL before the store is open. */
static void write_info(const struct once__request *request, struct once__out *out,
                       const struct info *info)
{
    const struct once__session *session = request->session;
    struct facts facts = {.session = session,
                          .config = session->config,
                          .status = once__server_status(session->server),
                          .metrics = once__server_metrics(session->server),
                          .stats = info ? &info->stats : NULL};
    bool first = true;

    if (info)
        facts.open = info->open;
    once_buf_init(&facts.text, 1 << 16);
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        if (!asked_for(request, sections[i].word))
            continue;
        say(&facts, "%s# %s\r\n", first ? "" : "\r\n", sections[i].name);
        sections[i].say(&facts);
        first = false;
    }
    if (facts.failed)
        once__out_err(out, ONCE_ERR_MEMORY, NULL);
    else
        once__out_verbatim(out, once_buf_bytes(&facts.text));
    once_buf_release(&facts.text);
}

/* ---- Commands -------------------------------------------------------------------------------- */

static void run_stats(struct once__job *job)
{
    struct info *info = once__look_of(job);

    once_stats_get(info->look.store, &info->stats);
}

static void run_info(struct once__job *job)
{
    struct info *info = once__look_of(job);

    run_stats(job);
    info->open = once__stats_open(info->counter, info->look.store);
}

enum once__next once__resp_info(struct once__request *request, struct once__out *out)
{
    struct info *info;

    if (!once__service_store(once__server_service(request->session->server))) {
        write_info(request, out, NULL);
        return ONCE__ANSWERED;
    }
    info = once__look_new(request, out, sizeof(*info), run_info);
    if (!info)
        return ONCE__ANSWERED;
    info->counter = once__server_stats(request->session->server);
    return ONCE__JOB;
}

void once__resp_info_finish(struct once__request *request, struct once__out *out)
{
    const struct info *info = request->state;

    write_info(request, out, info);
}

enum once__next once__resp_dbsize(struct once__request *request, struct once__out *out)
{
    return once__look_new(request, out, sizeof(struct info), run_stats) ? ONCE__JOB
                                                                        : ONCE__ANSWERED;
}

void once__resp_dbsize_finish(struct once__request *request, struct once__out *out)
{
    const struct info *info = request->state;

    once__out_integer(out, (int64_t)info->stats.keys);
}

enum once__next once__resp_time(struct once__request *request, struct once__out *out)
{
    struct timespec now;
    char text[32];

    (void)request;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    once__out_array(out, 2);
    (void)snprintf(text, sizeof(text), "%lld", (long long)now.tv_sec);
    once__out_text(out, text);
    (void)snprintf(text, sizeof(text), "%ld", now.tv_nsec / 1000);
    once__out_text(out, text);
    return ONCE__ANSWERED;
}
