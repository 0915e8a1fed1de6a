/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane's batches under way: sending them (pg_take.c chooses what), what came of it, and what is
 * asked again. Everything here runs on the lane's thread.
 *
 * Nothing is told before the commit that it belongs to was acknowledged without a warning (INV-2):
 * rows come before their transaction commits, so an answer counts only at the end of its part of
 * the pipeline. Whatever else happens, an error, a warning, a lost session, the same calls are
 * asked again under the same names, and a call that was decided before is answered from what it
 * wrote.
 */
#include "store/postgres/pg_apply.h"
#include "store/postgres/pg_inner.h"

#include "base/assert.h"
#include "store/call.h"

#include <stdlib.h>

/* ---- Numbers --------------------------------------------------------------------------------- */

static void note(struct once_spread *spread, uint64_t value)
{
    enum { LAST = sizeof(spread->buckets) / sizeof(spread->buckets[0]) - 1 };
    unsigned bucket = value > 1 ? 64 - (unsigned)__builtin_clzll(value - 1) : 0;

    spread->buckets[bucket < LAST ? bucket : LAST]++;
    spread->sum += value;
}

static void note_batch(struct once__pg_store *store, const struct once__pg_batch *batch)
{
    pthread_mutex_lock(&store->numbers_lock);
    store->numbers.calls += batch->count;
    store->numbers.batches++;
    if (batch->sent_size > store->numbers.batch_size_max)
        store->numbers.batch_size_max = batch->sent_size;
    note(&store->numbers.write_us, once__pg_clock_us() - batch->sent_us);
    note(&store->numbers.write_size, batch->sent_size);
    note(&store->numbers.write_ops, batch->count);
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->ops[i]->reply.fence > store->numbers.last_fence)
            store->numbers.last_fence = batch->ops[i]->reply.fence;
    }
    pthread_mutex_unlock(&store->numbers_lock);
}

static void count(struct once__pg_store *store, uint64_t *number, size_t more)
{
    pthread_mutex_lock(&store->numbers_lock);
    *number += more;
    pthread_mutex_unlock(&store->numbers_lock);
}

/* ---- Refusing -------------------------------------------------------------------------------- */

static once_ms deadline_of(const struct once__pg_store *store, once_ms deadline_ms)
{
    if (atomic_load(&store->closing) && store->close_ms < deadline_ms)
        return store->close_ms;
    return deadline_ms;
}

static void refuse_unknown(struct once__pg_store *store, struct once_op *op)
{
    once__call_refuse(op, ONCE_ERR_IO,
                      "the database was lost before it answered: nobody knows whether the call was "
                      "kept; ask again");
    count(store, &store->numbers.unsettled, 1);
}

/* Its time is over. */
static void give_up(struct once__pg_lane *lane, struct once_op *op)
{
    struct once__pg_store *store = lane->store;
    const char *unsafe = atomic_load(&store->unsafe);

    if (once__pg_is_unknown(op)) {
        refuse_unknown(store, op);
    } else if (unsafe && !store->accept_loss) {
        once__call_refuse(op, ONCE_ERR_IO, unsafe); /* nothing was decided: it may be asked again */
    } else {
        once__call_refuse(op, ONCE_ERR_IO,
                          "the database does not answer: nothing was decided; ask again");
    }
}

static void tell_one(struct once__pg_lane *lane, struct once_op *op)
{
    once__pg_tell(lane->store, &op, 1);
}

/* A call that failed alone: nothing was decided, unless an earlier answer to it was lost. */
static void refuse_alone(struct once__pg_lane *lane, struct once_op *op)
{
    int err = lane->link.err;
    const char *what =
        err == ONCE_ERR_PERMISSION
            ? "the server's role may not do this in the database: nothing was decided"
        : err == ONCE_ERR_VERSION ? "the schema in the database is not the one that "
                                    "this program needs: nothing was decided"
        : err == ONCE_ERR_SPACE   ? "the database's disk is full: nothing was decided"
                                  : "the database refused the call: nothing was decided";

    once__pg_say(lane->store, ONCE__PG_ERROR, "refused", "%s: %s", lane->link.state,
                 lane->link.text);
    if (once__pg_is_unknown(op))
        refuse_unknown(lane->store, op);
    else
        once__call_refuse(op, err, what);
    tell_one(lane, op);
}

/* ---- Waiting again --------------------------------------------------------------------------- */

static int by_position(const void *a, const void *b)
{
    uint64_t one = (*(struct once_op *const *)a)->inner.position;
    uint64_t other = (*(struct once_op *const *)b)->inner.position;

    return one < other ? -1 : one > other;
}

/* What came of the batch: nothing, or nobody knows. */
enum outcome { NOTHING, UNKNOWN };

/* To the front of what waits: no earlier call of these names is there. */
static void put_back_ops(struct once__pg_lane *lane, struct once_op **ops, size_t count,
                         enum outcome outcome)
{
    qsort(ops, count, sizeof(*ops), by_position);
    for (size_t i = count; i > 0; i--) {
        struct once_op *op = ops[i - 1];

        if (outcome == UNKNOWN)
            once__pg_set_unknown(op);
        op->inner.next = lane->waiting.first;
        if (!lane->waiting.first)
            lane->waiting.last = &op->inner.next;
        lane->waiting.first = op;
    }
}

static void put_back(struct once__pg_lane *lane, struct once__pg_batch *batch, enum outcome outcome)
{
    PQclear(batch->result);
    batch->result = NULL;
    put_back_ops(lane, batch->ops, batch->count, outcome);
    batch->count = 0;
}

static struct once__pg_batch *take_flight(struct once__pg_lane *lane)
{
    struct once__pg_batch *batch = lane->flight[0];

    ONCE_ASSERT(lane->flight_count > 0);
    lane->flight_count--;
    for (size_t i = 0; i < lane->flight_count; i++)
        lane->flight[i] = lane->flight[i + 1];
    return batch;
}

void once__pg_flight_lost(struct once__pg_lane *lane)
{
    size_t lost = 0;

    once__pg_say(lane->store, ONCE__PG_WARN, "lost", "%s", lane->link.text);
    while (lane->flight_count > 0) {
        lost += lane->flight[lane->flight_count - 1]->count;
        /* From the end, so that the oldest is first again. */
        put_back(lane, lane->flight[--lane->flight_count], UNKNOWN);
    }
    once__pg_link_close(&lane->link);
    lane->state = ONCE__PG_DOWN;
    lane->said = true;
    /* Should a call be what the session was lost by, it is alone soon, and not asked too often. */
    lane->count_max = lane->count_max > 8 ? lane->count_max / 8 : 1;
    lane->retry_ms = once__pg_clock_ms() + lane->backoff_ms;
    lane->backoff_ms = lane->backoff_ms * 2 < ONCE_PG_BACKOFF_MS_MAX ? lane->backoff_ms * 2
                                                                     : ONCE_PG_BACKOFF_MS_MAX;
    atomic_store(&lane->up, false);
    count(lane->store, &lane->store->numbers.links_lost, 1);
    count(lane->store, &lane->store->numbers.asked_again, lost);
}

bool once__pg_flight_unknown(const struct once__pg_lane *lane)
{
    if (lane->applying || lane->flight_count > 0)
        return true;
    for (const struct once_op *op = lane->waiting.first; op; op = op->inner.next) {
        if (once__pg_is_unknown(op))
            return true;
    }
    return false;
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

static void expire_applying(struct once__pg_lane *lane, once_ms now_ms)
{
    struct once__pg_batch *batch = lane->applying;

    if (!batch || deadline_of(lane->store, batch->deadline_ms) > now_ms)
        return;
    for (size_t i = 0; i < batch->count; i++)
        give_up(lane, batch->ops[i]);
    once__pg_apply_drop(lane->apply);
    once__pg_tell(lane->store, batch->ops, batch->count);
    batch->count = 0;
    lane->applying = NULL;
}

void once__pg_flight_expire(struct once__pg_lane *lane)
{
    once_ms now_ms = once__pg_clock_ms();
    struct once_op *op;

    for (size_t i = 0; i < lane->flight_count; i++) {
        if (deadline_of(lane->store, lane->flight[i]->deadline_ms) <= now_ms) {
            snprintf(lane->link.text, sizeof(lane->link.text),
                     "the database did not answer in time");
            once__pg_flight_lost(lane);
            break;
        }
    }
    expire_applying(lane, now_ms);
    /* They wait in the order of their deadlines. */
    while ((op = lane->waiting.first) &&
           deadline_of(lane->store, op->inner.deadline_ms) <= now_ms) {
        lane->waiting.first = op->inner.next;
        if (!lane->waiting.first)
            lane->waiting.last = &lane->waiting.first;
        give_up(lane, op);
        tell_one(lane, op);
    }
}

once_ms once__pg_flight_next_ms(const struct once__pg_lane *lane)
{
    once_ms now_ms = once__pg_clock_ms();
    once_ms next_ms = now_ms + 1000;

    if (atomic_load(&lane->store->unsafe) && lane->waiting.first)
        next_ms = now_ms + 100;
    for (size_t i = 0; i < lane->flight_count; i++) {
        once_ms deadline_ms = deadline_of(lane->store, lane->flight[i]->deadline_ms);

        next_ms = deadline_ms < next_ms ? deadline_ms : next_ms;
    }
    if (lane->applying) {
        once_ms deadline_ms = deadline_of(lane->store, lane->applying->deadline_ms);

        next_ms = deadline_ms < next_ms ? deadline_ms : next_ms;
    }
    if (lane->waiting.first) {
        once_ms deadline_ms = deadline_of(lane->store, lane->waiting.first->inner.deadline_ms);

        next_ms = deadline_ms < next_ms ? deadline_ms : next_ms;
    }
    for (size_t i = 0; lane->waiting.first && i < ONCE__PG_HELD_COUNT; i++) {
        if (lane->held[i].next_ms > now_ms && lane->held[i].next_ms < next_ms)
            next_ms = lane->held[i].next_ms;
    }
    return next_ms;
}

/* ---- What came of it ------------------------------------------------------------------------- */

static size_t answer_size_of(const struct once__pg_batch *batch)
{
    size_t largest = 0;

    for (size_t i = 0; i < batch->count; i++) {
        size_t size = batch->ops[i]->reply.result.size + batch->ops[i]->reply.data.size;

        largest = size > largest ? size : largest;
    }
    return largest;
}

/* It is committed: every op has its reply. */
static void decided(struct once__pg_lane *lane, struct once__pg_batch *batch)
{
    size_t largest = answer_size_of(batch);
    size_t taken = batch->count;

    PQclear(batch->result);
    batch->result = NULL;
    lane->answer_size = largest > lane->answer_size / 2 ? largest : lane->answer_size / 2;
    lane->count_max = lane->count_max * 2 < ONCE_PG_BATCH_COUNT_MAX ? lane->count_max * 2
                                                                    : ONCE_PG_BATCH_COUNT_MAX;
    lane->backoff_ms = ONCE__PG_BACKOFF_MS_MIN;
    note_batch(lane->store, batch);
    batch->count = 0;
    once__pg_tell(lane->store, batch->ops, taken);
}

/* An owner is told that its key is busy: who holds it is a transaction that has not ended. */
static void tell_busy(struct once__pg_lane *lane, struct once_op *op)
{
    struct once_decision decision = {.word = ONCE_BUSY, .retry_ms = ONCE_PG_BUSY_MS};

    if (once__call_tell(op, &decision, once__pg_store_ms(lane->store)) != ONCE_OK)
        ONCE_ASSERT(op->reply.err != ONCE_OK);
    tell_one(lane, op);
}

/* The statement failed, and the session lives: nothing was decided. link says why. One call may
 * have been the cause for all: they are asked again in smaller batches. */
static void failed(struct once__pg_lane *lane, struct once__pg_batch *batch)
{
    bool locked = once__pg_lock_held(&lane->link);
    struct once_op *op = batch->ops[0];

    if (batch->count > 1) {
        size_t parts = locked ? 8 : 2;

        lane->count_max = batch->count / parts > 0 ? batch->count / parts : 1;
        put_back(lane, batch, NOTHING);
        return;
    }
    if (locked)
        once__pg_hold(lane, op->inner.hash);
    /* A begin is told BUSY, if it was not this very one that began the operation. */
    if (once__pg_passing(&lane->link) &&
        !(locked && op->call == ONCE_CALL_BEGIN && !once__pg_is_unknown(op))) {
        put_back(lane, batch, NOTHING);
        return;
    }
    PQclear(batch->result);
    batch->result = NULL;
    batch->count = 0;
    if (locked)
        tell_busy(lane, op);
    else
        refuse_alone(lane, op);
}

/* The answer to the oldest batch is complete. libpq hears a notice as soon as it comes to it, at
 * times before it gives the rows that were sent ahead of it; but never before it gave the end of
 * the batch ahead. So whatever was heard since then counts. */
static void finish(struct once__pg_lane *lane)
{
    struct once__pg_batch *batch = take_flight(lane);
    bool warned = lane->link.warned;
    once_ms now_ms;
    size_t told;

    lane->link.warned = false;

    if (batch->failed && !batch->result) {
        failed(lane, batch);
        return;
    }
    if (batch->failed || warned || !batch->result) {
        once__pg_say(lane->store, ONCE__PG_WARN, "unknown",
                     "a commit was answered with a warning or an error; its calls are asked again");
        count(lane->store, &lane->store->numbers.asked_again, batch->count);
        put_back(lane, batch, UNKNOWN);
        return;
    }
    if (once__pg_batch_read(batch, &now_ms, &told) == ONCE_OK) {
        once__pg_saw_ms(lane->store, now_ms);
        put_back_ops(lane, batch->ops + told, batch->count - told, UNKNOWN);
        batch->count = told;
        decided(lane, batch);
        return;
    }
    for (size_t i = 0; i < batch->count; i++)
        once__call_refuse(batch->ops[i], ONCE_ERR_IO,
                          "the database answered in a way that this program does not know: nobody "
                          "knows whether the call was kept");
    count(lane->store, &lane->store->numbers.unsettled, batch->count);
    decided(lane, batch);
}

void once__pg_flight_receive(struct once__pg_lane *lane)
{
    struct once__pg_link *link = &lane->link;
    bool was_null = false;

    if (PQconsumeInput(link->conn) != 1 || PQstatus(link->conn) != CONNECTION_OK) {
        if (once__pg_failed(link, NULL) != ONCE_OK)
            once__pg_flight_lost(lane);
        return;
    }
    while (lane->flight_count > 0 && PQisBusy(link->conn) == 0) {
        struct once__pg_batch *batch = lane->flight[0];
        PGresult *result = PQgetResult(link->conn);
        ExecStatusType status = PQresultStatus(result);

        if (!result && was_null)
            break;
        was_null = !result;
        if (!result)
            continue;
        if (status == PGRES_TUPLES_OK && !batch->result) {
            batch->result = result;
            continue;
        }
        if (status == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            finish(lane);
            continue;
        }
        batch->failed = true;
        if (once__pg_failed(link, result) != ONCE_OK && once__pg_useless(link)) {
            PQclear(result);
            once__pg_flight_lost(lane);
            return;
        }
        PQclear(result);
    }
}

/* ---- Sending --------------------------------------------------------------------------------- */

static void run_applies(struct once__pg_lane *lane, struct once__pg_batch *batch)
{
    struct once__pg_id ids[ONCE_PG_APPLY_OPS_MAX];
    enum once__pg_ran ran;

    ONCE_ASSERT(lane->flight_count == 0 && batch->count <= ONCE_PG_APPLY_OPS_MAX);
    for (size_t i = 0; i < batch->count; i++)
        ids[i] = once__pg_call_id(lane->store, batch->ops[i]);
    lane->applying = NULL;
    lane->link.state[0] = '\0';
    ran = once__pg_apply_run(lane->apply, &lane->link, deadline_of(lane->store, batch->deadline_ms),
                             batch->ops, ids, batch->count);
    if (ran == ONCE__PG_RAN) {
        decided(lane, batch);
        return;
    }
    if (ran == ONCE__PG_RAN_LOST) {
        for (size_t i = 0; i < batch->count; i++)
            once__pg_set_unknown(batch->ops[i]);
        lane->applying = batch;
        count(lane->store, &lane->store->numbers.asked_again, batch->count);
        once__pg_flight_lost(lane);
        return;
    }
    if (once__pg_useless(&lane->link)) {
        put_back(lane, batch, NOTHING);
        once__pg_flight_lost(lane);
        return;
    }
    failed(lane, batch);
}

/* False: there is nothing to send, or the session is lost. */
static bool send_one(struct once__pg_lane *lane, struct once__pg_batch *batch)
{
    int err;

    once__pg_take(lane, batch);
    if (batch->count == 0)
        return false;
    if (batch->applies) {
        run_applies(lane, batch);
        return lane->state == ONCE__PG_UP;
    }
    err = once__pg_batch_send(&lane->link, &lane->writer, batch);
    if (err == ONCE_ERR_IO) {
        put_back(lane, batch, UNKNOWN);
        once__pg_flight_lost(lane);
        return false;
    }
    if (err != ONCE_OK) { /* no memory */
        lane->link.err = err;
        snprintf(lane->link.state, sizeof(lane->link.state), "53200");
        failed(lane, batch);
        return true;
    }
    lane->flight[lane->flight_count++] = batch;
    return true;
}

static struct once__pg_batch *free_batch(struct once__pg_lane *lane)
{
    for (size_t i = 0; i < ONCE_PG_BATCHES_IN_FLIGHT_MAX; i++) {
        bool used = &lane->batches[i] == lane->applying;

        for (size_t j = 0; j < lane->flight_count; j++)
            used = used || lane->flight[j] == &lane->batches[i];
        if (!used)
            return &lane->batches[i];
    }
    return NULL;
}

/* Is it worth to send one more beside what is under way? Both run on one session, one after the
 * other, so a further batch only saves a round trip; and a small one costs a commit that the calls
 * which come meanwhile would have shared. */
static bool is_worth_it(const struct once__pg_lane *lane)
{
    const struct once_op *op = lane->waiting.first;
    size_t waiting = 0;

    if (lane->flight_count == 0)
        return true;
    for (; op && waiting < ONCE__PG_FURTHER_COUNT; op = op->inner.next)
        waiting++;
    return waiting == ONCE__PG_FURTHER_COUNT;
}

void once__pg_flight_fill(struct once__pg_lane *lane)
{
    if (lane->applying)
        run_applies(lane, lane->applying);
    while (lane->state == ONCE__PG_UP && lane->flight_count < ONCE_PG_BATCHES_IN_FLIGHT_MAX &&
           lane->waiting.first && is_worth_it(lane)) {
        if (atomic_load(&lane->store->unsafe) && !lane->store->accept_loss)
            return;
        if (!send_one(lane, free_batch(lane)))
            return;
    }
}
