/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on their way to the store and back. service_check.c decides whether a call may be made;
 * room.c keeps those that wait.
 *
 *     submit ──▶ store ──▶ on_told ──┬─▶ park        a begin that is BUSY and may wait
 *                  ▲                 ├─▶ give_back   EXECUTE for a caller that is gone
 *                  │                 └─▶ finish ──▶ done
 *                  └── begin_again ◀── room ──▶ finish (its wait is over)
 *
 * on_told runs on the store's threads, one call at a time and in the order of decisions. That order
 * is what makes parking safe: an end that was decided after a BUSY is told after it, and finds it
 * parked. What the store cannot be asked for in time (a wait that is over, a probe, a call that was
 * not taken) is the timer's thread.
 *
 * Nothing here allocates, and the room's lock is taken only where someone waits.
 */
#include "server/service_inner.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/assert.h"

enum { CHUNK = 256 }; /* calls that are handed to the store at once */

#define NS_PER_MS 1000000ULL

static const char give_back_reason[] = "the waiting caller is gone";

_Static_assert(offsetof(struct once__call, op) == 0, "an op is its call");

static struct once__call *call_of(struct once_op *op)
{
    return (struct once__call *)(void *)op;
}

/* ---- The answer ------------------------------------------------------------------------------ */

/* The call is its host's again from here on. */
static void finish(struct once__service *service, struct once__call *call, uint64_t took_ns,
                   uint64_t now_ns)
{
    once__metrics_told(service->metrics, call->counts, &call->op, took_ns);
    if (call->audited)
        once__service_audit_end(service, call);
    if (call->parking.number > 0) /* it was parked */
        once__metrics_waited(service->metrics,
                             now_ns + (uint64_t)call->wait_ms * NS_PER_MS - call->wait_until_ns);
    call->done(call);
    atomic_fetch_add_explicit(&service->told, 1, memory_order_release);
}

static void say_busy(struct once__call *call)
{
    once_reply_release(&call->op.reply);
    call->op.reply.word = ONCE_BUSY;
    call->op.reply.retry_ms = ONCE_RETRY_MS_MAX;
}

/* A list by parking.chain: each begins once more. A call is told, and may be gone, as soon as the
 * store has it; with the last call the service may be gone too. */
static void begin_again(struct once__service *service, struct once__call *list, uint64_t now_ns)
{
    struct once_store *store = list ? once__service_store(service) : NULL;

    while (list) {
        struct once_op *ops[CHUNK];
        size_t count = 0, taken = 0;
        int err;

        for (; list && count < CHUNK; list = list->parking.chain) {
            once_reply_release(&list->op.reply);
            list->began_ns = now_ns;
            ops[count++] = &list->op;
        }
        err = once_submit_many(store, ops, count, &taken);
        ONCE_ASSERT(err != ONCE_OK || taken == count);
        for (size_t i = taken; i < count; i++) {
            struct once__call *call = call_of(ops[i]);

            say_busy(call);
            call->took_ns = 0;
            call->parking.chain = NULL;
            once__room_tell(service->room, call);
        }
    }
}

/* ---- News ------------------------------------------------------------------------------------ */

/* Whom an answer concerns that wait for the same name. */
enum audience { NOBODY, HEAD, LINE };

/* A stranger with another fingerprint learns nothing that those who wait do not know; one of them
 * does. */
static enum audience audience_of_begin(const struct once__call *call)
{
    enum once_word word = call->op.reply.word;
    bool ok = call->op.reply.err == ONCE_OK;

    if (ok && (word == ONCE_EXECUTE || word == ONCE_BUSY))
        return NOBODY; /* someone holds it, and its end will be news */
    if (ok && (word == ONCE_REPLAY || word == ONCE_DOUBT))
        return LINE;
    return call->parking.again ? LINE : NOBODY;
}

/* All of them where there is an answer for all; where one may execute, one. A doubt the head tells
 * the others about, if it is not the one who may retry. */
static enum audience audience_of(const struct once__call *call)
{
    const struct once_op *op = &call->op;
    enum once_word word = op->reply.word;

    if (op->call == ONCE_CALL_BEGIN)
        return audience_of_begin(call);
    if (op->reply.err != ONCE_OK)
        return NOBODY;
    if (word == ONCE_DOUBT)
        return HEAD;
    switch (op->call) {
    case ONCE_CALL_COMPLETE:
        return word == ONCE_DONE ? LINE : NOBODY;
    case ONCE_CALL_RESOLVE:
        return word != ONCE_DONE ? NOBODY : op->done ? LINE : HEAD;
    case ONCE_CALL_FAIL:
    case ONCE_CALL_FORGET:
        return word == ONCE_DONE ? HEAD : NOBODY;
    case ONCE_CALL_RENEW:
        return word == ONCE_DONE && op->lease_ms == 0 ? HEAD : NOBODY;
    case ONCE_CALL_APPLY:
        return word == ONCE_APPLIED || word == ONCE_REJECTED ? LINE : NOBODY;
    case ONCE_CALL_BEGIN:
    case ONCE_CALL_GET:
    case ONCE_CALL_CHECKPOINT:
    case ONCE_CALL_MERGE:
    case ONCE_CALL_SET:
    case ONCE_CALL_EXPIRE:
        break;
    }
    return NOBODY;
}

/* Those whom the answer concerns are taken out before the call is gone with its name, and begin
 * again after it was told. */
static void tell(struct once__service *service, struct once__call *call, uint64_t now_ns)
{
    enum audience audience = NOBODY;
    struct once__call *list = NULL;

    if (once__room_count(service->room) > 0)
        audience = audience_of(call);
    if (audience != NOBODY)
        list = once__room_take(service->room, &call->op, audience == LINE, now_ns);
    finish(service, call, now_ns - call->began_ns, now_ns);
    begin_again(service, list, now_ns);
}

/* ---- An operation that nobody would do ------------------------------------------------------- */

static void on_given_back(struct once_op *op)
{
    struct once__call *call = call_of(op);
    struct once__service *service = call->service;
    uint64_t now_ns = once__now_ns();
    struct once__call *list = once__room_take(service->room, op, false, now_ns);

    op->call = ONCE_CALL_BEGIN;
    op->fence = 0;
    op->result = (struct once_bytes){NULL, 0};
    say_busy(call);
    finish(service, call, now_ns - call->began_ns, now_ns);
    begin_again(service, list, now_ns);
}

static void on_told(struct once_op *op);

/* The caller went away while its begin was asked again, and now it holds the operation. Nobody else
 * knows this fence: nothing was done, and nothing will be. */
static bool give_back(struct once__service *service, struct once__call *call)
{
    struct once_op *op = &call->op;
    struct once_reply reply = op->reply;

    if (!call->parking.again || op->owner.size > 0 || !once__room_cancelled(service->room, call))
        return false;
    op->call = ONCE_CALL_FAIL;
    op->fence = reply.fence;
    op->result = once_bytes_of(give_back_reason);
    op->told = on_given_back;
    op->reply = (struct once_reply){.err = ONCE_OK};
    if (once_submit(once__service_store(service), op) == ONCE_OK) {
        once_reply_release(&reply);
        return true;
    }
    /* The store is being closed: its lease will end, as that of everyone who vanishes. */
    op->call = ONCE_CALL_BEGIN;
    op->fence = 0;
    op->result = (struct once_bytes){NULL, 0};
    op->told = on_told;
    op->reply = reply;
    return false;
}

static void on_told(struct once_op *op)
{
    struct once__call *call = call_of(op);
    struct once__service *service = call->service;
    uint64_t now_ns = once__now_ns();

    if (op->call == ONCE_CALL_BEGIN && op->reply.err == ONCE_OK) {
        if (op->reply.word == ONCE_BUSY && call->wait_ms > 0) {
            call->took_ns = now_ns - call->began_ns;
            if (once__room_park(service->room, call, now_ns))
                return;
        } else if (op->reply.word == ONCE_EXECUTE && give_back(service, call)) {
            return;
        }
    }
    tell(service, call, now_ns);
}

/* ---- Handing over ---------------------------------------------------------------------------- */

/* The rest of a submit, which the store did not take. */
static void refuse(struct once__service *service, struct once__call **calls, size_t count, int err)
{
    for (size_t i = 0; i < count; i++) {
        struct once__call *call = calls[i];

        call->op.reply = (struct once_reply){.err = err};
        if (err == ONCE_ERR_FULL)
            call->op.reply.what = "too many calls are under way; come back later";
        call->took_ns = 0;
        call->parking.chain = NULL;
        once__room_tell(service->room, call);
    }
}

static void submit(struct once__service *service, struct once__call **calls, size_t count,
                   bool here)
{
    struct once_store *store = once__service_store(service);
    uint64_t now_ns = once__now_ns();

    here = here && count <= CHUNK;
    atomic_fetch_add_explicit(&service->submitted, count, memory_order_relaxed);
    while (count > 0) {
        struct once_op *ops[CHUNK];
        size_t chunk = count < CHUNK ? count : CHUNK, taken = 0;
        int err = ONCE_ERR_LOADING;

        for (size_t i = 0; i < chunk; i++) {
            struct once__call *call = calls[i];

            ONCE_ASSERT(call->service == service && call->counts); /* it was checked */
            ONCE_ASSERT(call->done);
            call->op.told = on_told;
            call->began_ns = now_ns;
            call->wait_until_ns = now_ns + (uint64_t)call->wait_ms * NS_PER_MS;
            ops[i] = &call->op;
        }
        if (store && here)
            err = once_submit_here(store, ops, chunk, &taken);
        else if (store)
            err = once_submit_many(store, ops, chunk, &taken);
        if (err != ONCE_OK) {
            refuse(service, calls + taken, count - taken, err);
            return;
        }
        calls += chunk;
        count -= chunk;
    }
}

void once__service_submit(struct once__service *service, struct once__call **calls, size_t count)
{
    submit(service, calls, count, false);
}

void once__service_submit_here(struct once__service *service, struct once__call **calls,
                               size_t count)
{
    submit(service, calls, count, true);
}

void once__service_cancel(struct once__service *service, struct once__call *call)
{
    once__room_cancel(service->room, call);
}

void once__service_drain(struct once__service *service)
{
    once__room_drain(service->room);
}

size_t once__service_pending(const struct once__service *service)
{
    /* In this order: what is told meanwhile makes it fewer, never less than none. */
    size_t told = atomic_load_explicit(&service->told, memory_order_acquire);

    return atomic_load_explicit(&service->submitted, memory_order_relaxed) - told;
}

size_t once__service_parked(const struct once__service *service)
{
    return once__room_count(service->room);
}

/* ---- The timer's thread, and a service's life ------------------------------------------------ */

static void *timer_main(void *arg)
{
    struct once__service *service = arg;
    struct once__room_due due;

    while (once__room_wait(service->room, &due)) {
        uint64_t now_ns = once__now_ns();

        while (due.tell) {
            struct once__call *next = due.tell->parking.chain;

            finish(service, due.tell, due.tell->took_ns, now_ns);
            due.tell = next;
        }
        begin_again(service, due.again, now_ns);
    }
    return NULL;
}

static int start_timer(struct once__service *service)
{
    sigset_t all, before;
    int result;

    /* Signals are the business of the thread that runs the server. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(&service->timer, NULL, timer_main, service);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result == 0 ? ONCE_OK : ONCE_ERR_MEMORY;
}

int once__service_new(const struct once__service_setup *setup, struct once__service **ret_service)
{
    struct once__service *service = aligned_alloc(64, sizeof(*service));
    int err;

    if (!service)
        return ONCE_ERR_MEMORY;
    *service = (struct once__service){
        .metrics = setup->metrics, .access = setup->access, .log = setup->log};
    err = once__room_new(service->metrics, &service->room);
    if (err == ONCE_OK)
        err = start_timer(service);
    if (err != ONCE_OK) {
        once__room_free(service->room);
        free(service);
        return err;
    }
    *ret_service = service;
    return ONCE_OK;
}

void once__service_free(struct once__service *service)
{
    if (!service)
        return;
    ONCE_ASSERT(once__service_pending(service) == 0);
    once__room_stop(service->room);
    pthread_join(service->timer, NULL);
    once__room_free(service->room);
    free(service);
}

void once__service_open(struct once__service *service, struct once_store *store)
{
    struct once_stats stats = {.shared = false};

    if (store)
        once_stats_get(store, &stats);
    if (stats.shared)
        once__room_share(service->room);
    atomic_store_explicit(&service->shared, stats.shared, memory_order_relaxed);
    atomic_store_explicit(&service->store, store, memory_order_release);
}

struct once_store *once__service_store(const struct once__service *service)
{
    return atomic_load_explicit(&service->store, memory_order_acquire);
}

bool once__service_reachable(const struct once__service *service)
{
    struct once_store *store = once__service_store(service);
    struct once_stats stats;

    if (!store || !atomic_load_explicit(&service->shared, memory_order_relaxed))
        return store != NULL;
    once_stats_get(store, &stats);
    return !stats.unreachable;
}

once_ms once__service_wall_ms(const struct once__service *service)
{
    struct once_store *store = once__service_store(service);
    struct once_stats stats;
    struct timespec now;

    if (store && atomic_load_explicit(&service->shared, memory_order_relaxed)) {
        once_stats_get(store, &stats);
        return stats.now_ms;
    }
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / (once_ms)NS_PER_MS;
}
