/* SPDX-License-Identifier: Apache-2.0
 *
 * Who writes, who waits, who is told. Group commit is greedy: whoever waits and finds that a write
 * may be begun writes what there is, also for the others; nobody waits for a timer. A caller in a
 * blocking call writes in its own thread, so that a lone caller pays for the disk and nothing else.
 * What was submitted is written and told by the store's own threads. Who waits is woken without the
 * lock, and goes on without it: else everyone woken would wait for it once more.
 *
 * INV-2: a reply is told when everything before its position is durable. INV-8: after a failed
 * write everybody who waits is told so and nothing else.
 */
#include "engine/inner.h"

#include "store/call.h"

#include <errno.h>
#include <time.h>

static bool told_now(const struct once__engine *engine, uint64_t position)
{
    if (engine->options.durability != ONCE_LOSES_NOTHING || ONCE__MUTANT(ACK_BEFORE_SYNC))
        return true;
    return position <= engine->log.durable;
}

/* Takes from the line all whose position is durable, and one more, the first to be woken, to write
 * what has gathered meanwhile. Whoever was taken out is woken by wake_all, once. */
static struct once__waiter *take_waiters(struct once__engine *engine)
{
    bool failed = engine->log.failed != ONCE_OK;
    struct once__waiter *taken = NULL, **link = &engine->waiters, **oldest = NULL;

    while (*link) {
        struct once__waiter *waiter = *link;

        if (!failed && waiter->position > engine->log.durable) {
            oldest = link; /* so far: the line begins with who came last */
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        waiter->durable = !failed;
        waiter->next = taken;
        taken = waiter;
    }
    if (oldest && once__log_ready(engine)) {
        struct once__waiter *heir = *oldest;

        *oldest = heir->next;
        heir->next = taken;
        taken = heir;
    }
    return taken;
}

/* Needs no lock. A waiter is gone as soon as it is woken. */
static void wake_all(struct once__waiter *taken)
{
    while (taken) {
        struct once__waiter *next = taken->next;

        sem_post(&taken->wake);
        taken = next;
    }
}

static bool can_tell(const struct once__engine *engine)
{
    return engine->submitted && !engine->telling && !engine->crashed &&
           (engine->log.failed != ONCE_OK || told_now(engine, engine->submitted->inner.position));
}

static bool can_decide_cold(const struct once__engine *engine)
{
    return engine->cold && !engine->cold_deciding &&
           engine->submitted_size <= ONCE_SUBMITTED_SIZE_MAX;
}

/* So few are told sooner than another writer wakes up: the one that tells them then writes. */
enum { TELL_ALONE = 128 };

/* After a write. A writer goes on by itself to tell and to write; waking another for nothing costs
 * more than many an answer. */
static void wake_threads(struct once__engine *engine, bool is_writer)
{
    bool more = once__log_ready(engine) && (!is_writer || engine->submitted_count > TELL_ALONE);

    if (engine->writers_idle > 0 &&
        (engine->log.failed != ONCE_OK || (!is_writer && can_tell(engine)) ||
         can_decide_cold(engine) || more))
        pthread_cond_signal(&engine->work);
    if (engine->retiring.phase > ONCE__RETIRE_CARRY)
        once__keeper_wake(engine);
}

void once__commit_after_write(struct once__engine *engine)
{
    wake_all(take_waiters(engine));
    wake_threads(engine, false);
}

static uint64_t clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void note(struct once_spread *spread, uint64_t value)
{
    enum { LAST = sizeof(spread->buckets) / sizeof(spread->buckets[0]) - 1 };
    unsigned bucket = value > 1 ? 64 - (unsigned)__builtin_clzll(value - 1) : 0;

    spread->buckets[bucket < LAST ? bucket : LAST]++;
    spread->sum += value;
}

static bool write_one(struct once__engine *engine, bool is_writer)
{
    struct once__write *write = once__log_take(engine);
    struct once__waiter *taken;
    uint64_t began_us;
    int err;

    if (!write)
        return false;
    engine->now_uses = 0;
    pthread_mutex_unlock(&engine->lock);
    began_us = clock_us();
    err = once__log_write(engine, write);
    began_us = clock_us() - began_us;
    pthread_mutex_lock(&engine->lock);
    engine->write_us = (7 * engine->write_us + began_us) / 8;
    note(&engine->counts.write_us, began_us);
    note(&engine->counts.write_size, write->size);
    note(&engine->counts.write_ops, write->count);
    once__log_written(engine, write, err);
    taken = take_waiters(engine);
    wake_threads(engine, is_writer);
    if (taken) { /* many: the first of them can go on meanwhile */
        pthread_mutex_unlock(&engine->lock);
        wake_all(taken);
        pthread_mutex_lock(&engine->lock);
    }
    return true;
}

bool once__commit_write_one(struct once__engine *engine)
{
    return write_one(engine, false);
}

enum { QUICK_US = 1000 };

void once__commit_here(struct once__engine *engine)
{
    if (engine->manual || engine->options.durability != ONCE_LOSES_NOTHING ||
        engine->log.running > 0 || engine->write_us > QUICK_US)
        return;
    if (write_one(engine, true))
        once__commit_tell(engine);
}

/* Ends without the lock. True: the position is durable. False: it may be; look again. */
static bool sleep_until_woken(struct once__engine *engine, uint64_t position)
{
    struct once__waiter waiter = {.position = position, .next = engine->waiters};

    ONCE_ASSERT(!engine->manual); /* by hand nobody else could write: finish the writes first */
    sem_init(&waiter.wake, 0, 0);
    engine->waiters = &waiter;
    engine->now_uses = 0;
    pthread_mutex_unlock(&engine->lock);
    while (sem_wait(&waiter.wake) != 0)
        ONCE_ASSERT(errno == EINTR);
    sem_destroy(&waiter.wake);
    return waiter.durable;
}

int once__commit_wait_out(struct once__engine *engine, uint64_t position)
{
    int err = ONCE_OK;

    while (err == ONCE_OK && engine->log.durable < position) {
        if (engine->log.failed != ONCE_OK) {
            err = ONCE_ERR_IO;
        } else if (!once__commit_write_one(engine)) {
            if (sleep_until_woken(engine, position))
                return ONCE_OK;
            pthread_mutex_lock(&engine->lock);
        }
    }
    pthread_mutex_unlock(&engine->lock);
    return err;
}

int once__commit_wait(struct once__engine *engine, uint64_t position)
{
    int err;

    if (engine->log.durable >= position)
        return ONCE_OK;
    err = once__commit_wait_out(engine, position);
    pthread_mutex_lock(&engine->lock);
    return err;
}

int once__commit_wait_synced(struct once__engine *engine, uint64_t position)
{
    const struct once__log *log = &engine->log;
    int err = once__commit_wait(engine, position);

    if (err == ONCE_OK && engine->options.durability == ONCE_LOSES_UNSYNCED &&
        log->proved_number < log->durable_number)
        err = once__log_sync(engine);
    return err;
}

int once__commit_some(struct once__engine *engine)
{
    const struct once__log *log = &engine->log;
    uint64_t before = log->durable;

    while (log->durable == before) {
        if (log->failed != ONCE_OK)
            return ONCE_ERR_STOPPED;
        if (once__log_settled(engine))
            return ONCE_OK;
        if (!once__commit_write_one(engine)) {
            (void)sleep_until_woken(engine, before + 1);
            pthread_mutex_lock(&engine->lock);
        }
    }
    return ONCE_OK;
}

bool once__commit_wants(const struct once__engine *engine)
{
    return engine->writers_idle > 0 &&
           (can_decide_cold(engine) || can_tell(engine) || once__log_ready(engine));
}

void once__commit_nudge(struct once__engine *engine)
{
    pthread_cond_signal(&engine->work);
}

void once__commit_submit(struct once__engine *engine, struct once_op *op)
{
    op->inner.next = NULL;
    *engine->submitted_tail = op;
    engine->submitted_tail = &op->inner.next;
    op->inner.result_size = op->reply.result.size;
    engine->submitted_size += op->inner.result_size;
}

void once__commit_defer(struct once__engine *engine, struct once_op *op)
{
    op->inner.next = NULL;
    *engine->cold_tail = op;
    engine->cold_tail = &op->inner.next;
    engine->cold_marks[op->inner.hash % ONCE__COLD_MARKS]++;
}

void once__commit_undefer(struct once__engine *engine, struct once_op *op)
{
    uint32_t *mark = &engine->cold_marks[op->inner.hash % ONCE__COLD_MARKS];

    ONCE_ASSERT(*mark > 0);
    (*mark)--;
    if (!engine->cold)
        engine->cold_full = false;
}

bool once__commit_settled(struct once__engine *engine, uint64_t position)
{
    if (!engine->manual)
        return once__commit_wait(engine, position) == ONCE_OK;
    while (engine->log.durable < position) {
        if (!once__commit_write_one(engine))
            return false;
    }
    return true;
}

/* Takes from the line what may be told, in order. */
static struct once_op *pop_told(struct once__engine *engine)
{
    struct once_op *head = engine->submitted;
    struct once_op **link = &head;
    uint32_t count = 0;

    while (*link && (engine->log.failed != ONCE_OK || told_now(engine, (*link)->inner.position))) {
        struct once_op *op = *link;

        if (!told_now(engine, op->inner.position))
            once__call_refuse(op, ONCE_ERR_IO, NULL);
        link = &op->inner.next;
        count++;
    }
    engine->submitted = *link;
    if (!engine->submitted)
        engine->submitted_tail = &engine->submitted;
    *link = NULL;
    ONCE_ASSERT(engine->submitted_count >= count);
    engine->submitted_count -= count;
    return head;
}

void once__commit_tell(struct once__engine *engine)
{
    while (can_tell(engine)) {
        struct once_op *op = pop_told(engine);
        uint64_t size = 0;

        engine->telling = true;
        pthread_mutex_unlock(&engine->lock);
        while (op) {
            struct once_op *next = op->inner.next; /* after told the op is the caller's */

            size += op->inner.result_size;
            op->told(op);
            op = next;
        }
        pthread_mutex_lock(&engine->lock);
        engine->telling = false;
        ONCE_ASSERT(engine->submitted_size >= size);
        engine->submitted_size -= size;
    }
}

/* Decides the first of those that could not be decided at once. */
static bool decide_cold(struct once__engine *engine)
{
    struct once_op *op = engine->cold;

    if (!can_decide_cold(engine))
        return false;
    engine->cold = op->inner.next;
    if (!engine->cold)
        engine->cold_tail = &engine->cold;
    engine->cold_deciding = true; /* operate drops the lock while it reads or waits */
    once__operate(engine, op, ONCE__COLD_READ);
    engine->cold_deciding = false;
    once__commit_undefer(engine, op);
    once__commit_submit(engine, op);
    return true;
}

static void *writer_main(void *arg)
{
    struct once__engine *engine = arg;

    pthread_mutex_lock(&engine->lock);
    for (;;) {
        if (can_tell(engine)) {
            once__commit_tell(engine);
            continue;
        }
        if (engine->options.durability != ONCE_LOSES_INTERVAL && write_one(engine, true))
            continue;
        if (decide_cold(engine))
            continue;
        if (engine->stop && (engine->crashed || (!engine->submitted && !engine->cold)))
            break; /* the keeper may still be writing what is to be told here */
        engine->writers_idle++;
        pthread_cond_wait(&engine->work, &engine->lock);
        engine->writers_idle--;
    }
    pthread_cond_broadcast(&engine->work); /* the others may end now */
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

/* Two cover one write with the next; a third tells or reads meanwhile. */
enum { WRITER_COUNT = 3 };
_Static_assert(WRITER_COUNT <= ONCE_BATCHES_IN_FLIGHT_MAX, "there is room for them");

int once__commit_start(struct once__engine *engine)
{
    while (engine->writer_count < WRITER_COUNT) {
        if (pthread_create(&engine->writers[engine->writer_count], NULL, writer_main, engine) != 0)
            return engine->writer_count > 0 ? ONCE_OK : ONCE_ERR_MEMORY;
        engine->writer_count++;
    }
    return ONCE_OK;
}

void once__commit_stop(struct once__engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->stop = true;
    pthread_cond_broadcast(&engine->work);
    pthread_mutex_unlock(&engine->lock);
    for (uint32_t i = 0; i < engine->writer_count; i++)
        pthread_join(engine->writers[i], NULL);
    engine->writer_count = 0;
}
