/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing the embedded store, its calls, and its numbers. inner.h has the map of the
 * engine's files.
 */
#include "engine/inner.h"

#include "store/call.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int once__message(int err, struct once_message *ret_message, const char *format, ...)
{
    va_list args;

    if (ret_message) {
        va_start(args, format);
        vsnprintf(ret_message->text, sizeof(ret_message->text), format, args);
        va_end(args);
    }
    return err;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static bool prepare(struct once__engine *engine, struct once_op *op)
{
    if (once__call_check(op) != ONCE_OK)
        return false;
    if (!once__call_named(op))
        return true;
    op->inner.hash = once__name_hash(engine->file.secret, op->ns, op->key);
    return true;
}

/* Many keys miss the cache of the processor many times: bring what the next ones need ahead. */
enum { FAR = 16, NEAR = 8 };

static void look_ahead(const struct once__engine *engine, const struct once_op *ops, size_t count,
                       size_t at)
{
    if (at + FAR < count)
        once__index_prefetch_shard(engine->index, ops[at + FAR].inner.hash);
    if (at + NEAR < count)
        once__index_prefetch(engine->index, ops[at + NEAR].inner.hash);
}

static uint64_t decide_all(struct once__engine *engine, struct once_op *ops, size_t count)
{
    uint64_t position = 0;

    for (size_t i = 0; i < count; i++) {
        if (i % ONCE__NOW_USES == 0) {
            engine->now_uses = 0;
            (void)once__engine_now(engine);
            engine->now_uses = count - i > 1 ? ONCE__NOW_USES : 0;
        }
        look_ahead(engine, ops, count, i);
        if (ops[i].reply.err != ONCE_OK)
            continue;
        once__operate(engine, &ops[i], ONCE__COLD_READ);
        if (ops[i].inner.position > position)
            position = ops[i].inner.position;
    }
    engine->now_uses = 0;
    return position;
}

/* Who asked another store for its changes will not be given them again. */
static bool has_merge(const struct once_op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ops[i].call == ONCE_CALL_MERGE)
            return true;
    }
    return false;
}

static void engine_call(struct once_store *store, struct once_op *ops, size_t count)
{
    struct once__engine *engine = once__engine_of(store);
    bool waits = engine->options.durability == ONCE_LOSES_NOTHING;
    bool merges = !waits && has_merge(ops, count);
    uint64_t position, durable = 0;
    int err = ONCE_OK;

    for (size_t i = 0; i < count; i++)
        (void)prepare(engine, &ops[i]);
    pthread_mutex_lock(&engine->lock);
    position = decide_all(engine, ops, count);
    if (waits && !ONCE__MUTANT(ACK_BEFORE_SYNC)) {
        err = once__commit_wait_out(engine, position);
    } else if (merges) {
        err = once__commit_wait_synced(engine, position);
        pthread_mutex_unlock(&engine->lock);
    } else {
        bool nudge = once__commit_wants(engine);

        pthread_mutex_unlock(&engine->lock);
        if (nudge)
            once__commit_nudge(engine);
    }
    if (err != ONCE_OK) {
        pthread_mutex_lock(&engine->lock);
        durable = engine->log.durable;
        pthread_mutex_unlock(&engine->lock);
    }
    for (size_t i = 0; err != ONCE_OK && i < count; i++) {
        if (ops[i].inner.position > durable)
            once__call_refuse(&ops[i], err, NULL);
    }
}

static int take_op(struct once__engine *engine, struct once_op *op)
{
    if (engine->stop)
        return ONCE_ERR_CLOSED;
    if (engine->submitted_count >= ONCE_SUBMITTED_MAX)
        return ONCE_ERR_FULL;
    engine->submitted_count++;
    if (op->reply.err != ONCE_OK ||
        (!once__commit_must_defer(engine, op) && once__operate(engine, op, ONCE__COLD_DEFER)))
        once__commit_submit(engine, op);
    else
        once__commit_defer(engine, op);
    return ONCE_OK;
}

static int engine_submit(struct once_store *store, struct once_op *const *ops, size_t count,
                         bool here, size_t *ret_taken)
{
    struct once__engine *engine = once__engine_of(store);
    size_t taken = 0;
    bool nudge;
    int err = ONCE_OK;

    for (size_t i = 0; i < count; i++)
        (void)prepare(engine, ops[i]);
    pthread_mutex_lock(&engine->lock);
    if (!engine->stop && !engine->manual && engine->writer_count == 0)
        err = once__commit_start(engine);
    for (size_t i = 0; i < count && i < FAR; i++)
        once__index_prefetch_shard(engine->index, ops[i]->inner.hash);
    for (size_t i = 0; i < count && i < NEAR; i++)
        once__index_prefetch(engine->index, ops[i]->inner.hash);
    while (err == ONCE_OK && taken < count) {
        if (taken % ONCE__NOW_USES == 0) {
            engine->now_uses = 0;
            (void)once__engine_now(engine);
            engine->now_uses = count - taken > 1 ? ONCE__NOW_USES : 0;
        }
        if (taken + FAR < count)
            once__index_prefetch_shard(engine->index, ops[taken + FAR]->inner.hash);
        if (taken + NEAR < count)
            once__index_prefetch(engine->index, ops[taken + NEAR]->inner.hash);
        err = take_op(engine, ops[taken]);
        taken += err == ONCE_OK ? 1 : 0;
    }
    engine->now_uses = 0;
    if (here && taken > 0 && taken <= ONCE__HERE_MAX)
        once__commit_here(engine);
    nudge = taken > 0 && once__commit_wants(engine);
    pthread_mutex_unlock(&engine->lock);
    if (nudge)
        once__commit_nudge(engine);
    for (size_t i = taken; i < count; i++)
        once__call_decided(ops[i]); /* not taken */
    *ret_taken = taken;
    return err;
}

static void engine_stats(struct once_store *store, struct once_stats *ret_stats)
{
    struct once__engine *engine = once__engine_of(store);
    const struct once__log *log = &engine->log;
    struct once_stats stats;
    once_ms now_ms;

    pthread_mutex_lock(&engine->lock);
    stats = engine->counts;
    now_ms = once__engine_now(engine);
    stats.keys = once__index_count(engine->index);
    stats.keys_open = once__index_open_count(engine->index);
    stats.index_size = once__index_memory(engine->index);
    stats.disk_size = (uint64_t)engine->file_count * engine->segment_size;
    stats.reserved_size = engine->reserved;
    stats.segments = log->sequence - log->oldest + 1;
    stats.segments_spare = engine->spare_count;
    for (uint64_t sequence = log->oldest; sequence <= log->sequence; sequence++) {
        const struct once__segment *segment =
            engine->segments[once__segment_slot(engine, sequence)];

        stats.log_size += sequence < log->sequence ? segment->end : log->append_offset;
        stats.live_size += once__segment_live(segment, now_ms);
    }
    stats.last_fence = log->last_fence;
    stats.objects = once__objects_count(engine->objects.table);
    stats.objects_size = once__objects_memory(engine->objects.table);
    stats.changes = engine->objects.change;
    stats.snapshot_size = engine->objects.snapshot_size;
    stats.disk_size += engine->objects.snapshot_size;
    stats.now_ms = now_ms;
    stats.direct = engine->vfs->direct;
    stats.stopped = log->failed != ONCE_OK;
    pthread_mutex_unlock(&engine->lock);
    *ret_stats = stats;
}

/* ---- By hand --------------------------------------------------------------------------------- */

struct once__write *once__engine_take(struct once_store *store)
{
    struct once__engine *engine = once__engine_of(store);
    struct once__write *write;

    pthread_mutex_lock(&engine->lock);
    write = once__log_take(engine);
    pthread_mutex_unlock(&engine->lock);
    return write;
}

int once__engine_write(struct once_store *store, struct once__write *write)
{
    return once__log_write(once__engine_of(store), write);
}

/* Decides what had to wait for the disk or for room. */
static void decide_deferred(struct once__engine *engine)
{
    struct once_op *op = engine->cold;
    bool full = engine->cold_full;

    engine->cold = NULL;
    engine->cold_tail = &engine->cold;
    while (op) {
        struct once_op *next = op->inner.next;

        once__commit_undefer(engine, op);
        if (engine->log.running == 0 || engine->log.failed != ONCE_OK) {
            once__operate(engine, op, ONCE__COLD_READ);
            once__commit_submit(engine, op);
        } else {
            once__commit_defer(engine, op);
            engine->cold_full = full;
        }
        op = next;
    }
}

void once__engine_written(struct once_store *store, struct once__write *write, int err)
{
    struct once__engine *engine = once__engine_of(store);

    pthread_mutex_lock(&engine->lock);
    once__log_written(engine, write, err);
    once__commit_after_write(engine);
    decide_deferred(engine);
    once__commit_tell(engine);
    pthread_mutex_unlock(&engine->lock);
}

bool once__engine_work(struct once_store *store)
{
    struct once__engine *engine = once__engine_of(store);
    bool more = once__keeper_work(engine);

    pthread_mutex_lock(&engine->lock);
    engine->no_spare = false;
    engine->objects.unlucky = false;
    decide_deferred(engine);
    once__commit_tell(engine);
    pthread_mutex_unlock(&engine->lock);
    return more;
}

/* ---- Closing --------------------------------------------------------------------------------- */

/* Accepts a half-built one. */
static void engine_free(struct once__engine *engine)
{
    for (uint32_t i = 0; i < engine->segment_count; i++) {
        once__file_close(engine->segments[i]->file);
        once__summary_free(engine->segments[i]->summary);
        free(engine->segments[i]);
    }
    free(engine->segments);
    free(engine->sequence_slots);
    once__summary_free(engine->retiring.summary);
    for (struct once_op *op = engine->cold; op; op = op->inner.next)
        once__call_decided(op); /* after a crash nobody decides them */
    once__snapshot_abandon(engine);
    once__stage_free(engine->objects.stage);
    once__recent_free(engine->objects.recent);
    once__objects_free(engine->objects.table);
    once__segment_close_readers(engine);
    once__index_free(engine->index);
    free(engine->log.images[0]);
    free(engine->log.images[1]);
    if (engine->vfs)
        engine->vfs->ops->free(engine->vfs);
    pthread_mutex_destroy(&engine->readers_lock);
    pthread_mutex_destroy(&engine->lock);
    pthread_cond_destroy(&engine->work);
    pthread_cond_destroy(&engine->chores);
    free(engine);
}

/* Without durability the active segment was not synced yet: the batch that closes may say that all
 * is durable only after. */
static int sync_active(struct once__engine *engine)
{
    return engine->options.durability == ONCE_LOSES_UNSYNCED ? once__log_sync(engine) : ONCE_OK;
}

static int settle_all(struct once__engine *engine)
{
    int err = ONCE_OK;

    while (err == ONCE_OK && !once__log_settled(engine))
        err = once__commit_some(engine);
    return err;
}

static int write_closed(struct once__engine *engine)
{
    uint64_t position;
    int err = settle_all(engine);

    if (err == ONCE_OK)
        err = sync_active(engine);
    if (err == ONCE_OK)
        err = once__space_admit_mark(engine);
    if (err == ONCE_OK) {
        engine->log.closing = true;
        err = once__log_mark(engine, &position);
    }
    if (err == ONCE_OK)
        err = once__commit_wait(engine, position);
    return err == ONCE_OK ? sync_active(engine) : err;
}

static int engine_close(struct once_store *store)
{
    struct once__engine *engine = once__engine_of(store);
    int err;

    once__keeper_stop(engine);
    once__commit_stop(engine);
    pthread_mutex_lock(&engine->lock);
    err = settle_all(engine);
    decide_deferred(engine);
    if (err == ONCE_OK)
        err = settle_all(engine);
    once__commit_tell(engine);
    if (err == ONCE_OK)
        err = write_closed(engine);
    pthread_mutex_unlock(&engine->lock);
    engine_free(engine);
    return err == ONCE_OK || err == ONCE_ERR_SPACE ? ONCE_OK : ONCE_ERR_STOPPED;
}

void once__engine_crash(struct once_store *store)
{
    struct once__engine *engine = once__engine_of(store);

    pthread_mutex_lock(&engine->lock);
    engine->crashed = true;
    if (engine->log.failed == ONCE_OK)
        engine->log.failed = ONCE_ERR_STOPPED;
    pthread_mutex_unlock(&engine->lock);
    once__keeper_stop(engine);
    once__commit_stop(engine);
    engine_free(engine);
}

static const struct once__store_ops engine_ops = {
    .call = engine_call,
    .submit = engine_submit,
    .list = once__engine_list,
    .history = once__engine_history,
    .object_get = once__engine_object_get,
    .object_read = once__engine_object_read,
    .object_list = once__engine_object_list,
    .object_delta = once__engine_object_delta,
    .changes = once__engine_changes,
    .stats = engine_stats,
    .close = engine_close,
};

/* ---- Opening --------------------------------------------------------------------------------- */

static int check_options(struct once_options *options, struct once_message *ret_message)
{
    if (options->interval_ms == 0)
        options->interval_ms = ONCE_INTERVAL_MS_DEFAULT;
    if (options->keys_max == 0)
        options->keys_max = ONCE_KEYS_MAX;
    if (options->objects_size_max == 0)
        options->objects_size_max = ONCE_OBJECTS_SIZE_DEFAULT;
    if (options->segment_size == 0)
        options->segment_size = ONCE_SEGMENT_SIZE_DEFAULT;
    if ((unsigned)options->durability > ONCE_LOSES_UNSYNCED)
        return once__message(ONCE_ERR_INVALID, ret_message, "there is no such durability");
    if (options->interval_ms < 1 || options->interval_ms > ONCE_INTERVAL_MS_MAX)
        return once__message(ONCE_ERR_INVALID, ret_message, "the interval is 1 to %lld ms",
                             ONCE_INTERVAL_MS_MAX);
    if (options->keys_max > ONCE_KEYS_MAX)
        return once__message(ONCE_ERR_INVALID, ret_message, "a store holds at most %llu keys",
                             ONCE_KEYS_MAX);
    if (options->segment_size < ONCE_SEGMENT_SIZE_MIN ||
        options->segment_size > ONCE_SEGMENT_SIZE_MAX ||
        (options->segment_size & (options->segment_size - 1)) != 0)
        return once__message(ONCE_ERR_INVALID, ret_message,
                             "a segment is a power of two from %d to %d bytes",
                             ONCE_SEGMENT_SIZE_MIN, ONCE_SEGMENT_SIZE_MAX);
    return ONCE_OK;
}

static int take_folder(struct once__vfs *vfs, struct once_message *ret_message)
{
    char text[256], host[64] = "", owner[256] = "", since[32] = "";
    time_t now = time(NULL);
    struct tm parts;
    int err;

    gethostname(host, sizeof(host) - 1);
    if (gmtime_r(&now, &parts))
        strftime(since, sizeof(since), "%Y-%m-%dT%H:%M:%SZ", &parts);
    snprintf(text, sizeof(text), "pid %ld (%s) on %s since %s\n", (long)getpid(),
             program_invocation_short_name, host, since);
    err = vfs->ops->lock(vfs, ONCE__LOCK_NAME, text, owner, sizeof(owner));
    owner[strcspn(owner, "\n")] = '\0';
    if (err == ONCE_ERR_LOCKED)
        return once__message(err, ret_message, "the store is in use by %s; one process at a time",
                             owner[0] ? owner : "another process");
    return err;
}

static void init_locks(struct once__engine *engine)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;

    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_settype(&mutex, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&engine->lock, &mutex);
    pthread_mutex_init(&engine->readers_lock, NULL);
    pthread_mutexattr_destroy(&mutex);
    pthread_condattr_init(&cond);
    pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
    pthread_cond_init(&engine->chores, &cond);
    pthread_condattr_destroy(&cond);
    pthread_cond_init(&engine->work, NULL);
}

static int start_threads(struct once__engine *engine)
{
    int err = ONCE_OK;

    if (engine->manual)
        return ONCE_OK;
    if (engine->options.durability == ONCE_LOSES_UNSYNCED)
        err = once__commit_start(engine);
    return err == ONCE_OK ? once__keeper_start(engine) : err;
}

static int build(struct once__engine *engine, struct once_message *ret_message)
{
    once_ms begun_ms = engine->clock.source->boot_ms(engine->clock.source->self);
    int err = check_options(&engine->options, ret_message);

    if (err == ONCE_OK)
        err = take_folder(engine->vfs, ret_message);
    if (err == ONCE_OK)
        err = once__index_new(engine->options.keys_max, &engine->index);
    if (err == ONCE_OK)
        err = once__recover(engine, ret_message);
    engine->flushed_boot_ms = engine->clock.source->boot_ms(engine->clock.source->self);
    engine->counts.recovery_ms = engine->flushed_boot_ms - begun_ms;
    return err == ONCE_OK ? start_threads(engine) : err;
}

int once__engine_open(const struct once__engine_setup *setup, struct once_store **ret_store,
                      struct once_message *ret_message)
{
    struct once__engine *engine = calloc(1, sizeof(*engine));
    struct once_message message = {""};
    int err;

    if (!engine) {
        setup->vfs->ops->free(setup->vfs);
        return once__message(ONCE_ERR_MEMORY, ret_message, "%s", once_err_text(ONCE_ERR_MEMORY));
    }
    engine->store.ops = &engine_ops;
    engine->vfs = setup->vfs;
    engine->clock.source = setup->time;
    engine->options = setup->options;
    engine->manual = setup->manual;
    engine->submitted_tail = &engine->submitted;
    engine->cold_tail = &engine->cold;
    init_locks(engine);
    err = build(engine, &message);
    if (err == ONCE_OK) {
        *ret_store = &engine->store;
        return ONCE_OK;
    }
    if (message.text[0] == '\0') /* nobody knew more */
        once__message(err, &message, "%s (system error %d)", once_err_text(err),
                      engine->vfs->system_errno);
    if (ret_message)
        *ret_message = message;
    engine_free(engine);
    return err;
}

/* Says which folder. */
static int in_folder(int err, const char *folder, const struct once_message *message,
                     struct once_message *ret_message)
{
    return once__message(err, ret_message, "%.512s: %.480s", folder, message->text);
}

int once_open(const char *folder, const struct once_options *options, struct once_store **ret_store,
              struct once_message *ret_message)
{
    struct once__engine_setup setup = {.time = &once__system_time};
    struct once_message message = {""};
    int system_errno = 0;
    int err;

    if (!folder || folder[0] == '\0' || !ret_store)
        return once__message(ONCE_ERR_INVALID, ret_message, "no folder was named");
    if (options)
        setup.options = *options;
    err = check_options(&setup.options, &message);
    if (err != ONCE_OK)
        return in_folder(err, folder, &message, ret_message);
    err = once__vfs_open(folder, !setup.options.must_exist, &setup.vfs, &system_errno);
    if (err != ONCE_OK)
        return once__message(err, ret_message, "%.512s: %s (%s)", folder,
                             system_errno == ENOTDIR ? "this is no folder" : once_err_text(err),
                             strerrordesc_np(system_errno) ? strerrordesc_np(system_errno) : "?");
    err = once__engine_open(&setup, ret_store, &message);
    return err == ONCE_OK ? ONCE_OK : in_folder(err, folder, &message, ret_message);
}
