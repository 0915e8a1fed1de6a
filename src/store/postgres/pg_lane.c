/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane: one thread, one session, and the calls that go to it (pg_route.c). The thread owns
 * everything but the queue of what was added.
 *
 *     added ─▶ waiting ─▶ flight (pg_flight.c) ─▶ told
 *                 ▲────────── lost, failed ──┘
 *
 * Each session of a lane takes the same advisory lock. So a new one that has it knows that the
 * session that was lost is gone, and that nothing which was sent to it will happen later: what was
 * under way is settled by asking again, by the names of the calls (SETTLING). Only when the lost
 * session cannot be ended (its process is stopped), and everybody who was waiting for it was told
 * that nobody knows, does the lane go on under another number.
 */
#include "store/postgres/pg_apply.h"
#include "store/postgres/pg_inner.h"

#include "base/assert.h"
#include "base/random.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- Adding ---------------------------------------------------------------------------------- */

bool once__pg_lane_add(struct once__pg_lane *lane, struct once_op *op)
{
    bool stop;

    op->inner.next = NULL;
    pthread_mutex_lock(&lane->lock);
    stop = lane->stop;
    if (!stop) {
        *lane->added.last = op;
        lane->added.last = &op->inner.next;
    }
    pthread_mutex_unlock(&lane->lock);
    return !stop;
}

void once__pg_lane_wake(struct once__pg_lane *lane)
{
    const uint64_t one = 1;
    ssize_t written = write(lane->wake_fd, &one, sizeof(one));

    (void)written; /* it fails only when the lane will wake anyway */
}

/* Moves what was added to what waits, and tells what was refused where it came in. False: stop, and
 * nothing more will be added. */
static bool take_added(struct once__pg_lane *lane)
{
    struct once_op *op;
    bool stop;

    pthread_mutex_lock(&lane->lock);
    op = lane->added.first;
    lane->added = (struct once__pg_queue){NULL, &lane->added.first};
    stop = lane->stop;
    pthread_mutex_unlock(&lane->lock);
    while (op) {
        struct once_op *next = op->inner.next;

        op->inner.next = NULL;
        if (op->reply.err != ONCE_OK) {
            once__pg_tell(lane->store, &op, 1);
        } else {
            *lane->waiting.last = op;
            lane->waiting.last = &op->inner.next;
        }
        op = next;
    }
    return !stop;
}

/* ---- The session ----------------------------------------------------------------------------- */

/* A number that no other session uses. Applies find what became of a lost one by it. */
static int new_session(struct once__pg_lane *lane)
{
    struct once__pg_apply *apply;
    int64_t session;
    int err = once__random_bytes(&session, sizeof(session));

    if (err == ONCE_OK)
        err = once__pg_apply_new(session, &apply);
    if (err != ONCE_OK)
        return err;
    once__pg_apply_free(lane->apply);
    lane->apply = apply;
    lane->session = session;
    lane->ended = false;
    return ONCE_OK;
}

static void later(struct once__pg_lane *lane)
{
    once__pg_link_close(&lane->link);
    lane->state = ONCE__PG_DOWN;
    lane->backoff_ms = lane->backoff_ms * 2 < ONCE_PG_BACKOFF_MS_MAX ? lane->backoff_ms * 2
                                                                     : ONCE_PG_BACKOFF_MS_MAX;
    lane->retry_ms = once__pg_clock_ms() + lane->backoff_ms;
    if (!lane->said)
        once__pg_say(lane->store, ONCE__PG_WARN, "unreachable", "%s", lane->link.text);
    lane->said = true;
}

static void open_session(struct once__pg_lane *lane)
{
    once_ms now_ms = once__pg_clock_ms();

    if (now_ms < lane->retry_ms)
        return;
    if (once__pg_link_open(&lane->link, now_ms + ONCE_PG_CONNECT_MS) != ONCE_OK) {
        later(lane);
        return;
    }
    lane->state = ONCE__PG_SETTLING;
    lane->settling_ms = once__pg_clock_ms();
    lane->ended = false;
}

static void settled(struct once__pg_lane *lane, once_ms until_ms)
{
    if (once__pg_batch_prepare(&lane->link, until_ms) != ONCE_OK ||
        PQenterPipelineMode(lane->link.conn) != 1) {
        later(lane);
        return;
    }
    lane->link.warned = false;
    lane->state = ONCE__PG_UP;
    lane->retry_ms = 0;
    atomic_store(&lane->up, true);
    if (lane->said)
        once__pg_say(lane->store, ONCE__PG_INFO, "connected", "a session is there again");
    lane->said = false;
}

static void settle(struct once__pg_lane *lane)
{
    once_ms now_ms = once__pg_clock_ms();
    int err = once__pg_link_lock(&lane->link, lane->session, now_ms + ONCE_PG_CONNECT_MS);

    if (err == ONCE_OK) {
        settled(lane, now_ms + ONCE_PG_CONNECT_MS);
        return;
    }
    if (err == ONCE_ERR_LOCKED) {
        bool long_ago = now_ms - lane->settling_ms >= ONCE_PG_SESSION_MS;

        err = ONCE_OK;
        if (long_ago && !lane->ended) {
            once__pg_say(lane->store, ONCE__PG_WARN, "session",
                         "a lost session is still there and is told to end");
            err = once__pg_link_end_holder(&lane->link, lane->session, now_ms + ONCE_PG_CONNECT_MS);
            lane->ended = true;
        } else if (long_ago && !once__pg_flight_unknown(lane)) {
            once__pg_say(lane->store, ONCE__PG_WARN, "session",
                         "a lost session does not end; nobody waits for what was sent to it any "
                         "more");
            err = new_session(lane);
        }
    }
    if (err != ONCE_OK)
        later(lane);
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void wait_for_more(struct once__pg_lane *lane)
{
    struct pollfd fds[2] = {{.fd = lane->wake_fd, .events = POLLIN}, {.fd = -1}};
    once_ms now_ms = once__pg_clock_ms();
    once_ms next_ms = once__pg_flight_next_ms(lane);
    uint64_t count;

    if (lane->state == ONCE__PG_SETTLING)
        return; /* the lock was waited for */
    if (lane->state == ONCE__PG_DOWN && lane->retry_ms < next_ms)
        next_ms = lane->retry_ms;
    if (lane->state == ONCE__PG_UP) {
        int unsent = PQflush(lane->link.conn);

        fds[1].fd = PQsocket(lane->link.conn);
        fds[1].events = (short)(POLLIN | (unsent > 0 ? POLLOUT : 0));
    }
    if (next_ms > now_ms)
        (void)poll(fds, 2, next_ms - now_ms < 1000 ? (int)(next_ms - now_ms) : 1000);
    if ((fds[0].revents & POLLIN) != 0 && read(lane->wake_fd, &count, sizeof(count)) < 0)
        ONCE_ASSERT(errno == EAGAIN || errno == EINTR);
}

static void *lane_run(void *user)
{
    struct once__pg_lane *lane = user;

    for (;;) {
        bool goes_on = take_added(lane);

        once__pg_flight_expire(lane);
        if (!goes_on && !lane->waiting.first && lane->flight_count == 0 && !lane->applying)
            break;
        if (lane->state == ONCE__PG_DOWN)
            open_session(lane);
        if (lane->state == ONCE__PG_SETTLING)
            settle(lane);
        if (lane->state == ONCE__PG_UP)
            once__pg_flight_fill(lane);
        wait_for_more(lane);
        if (lane->state == ONCE__PG_UP)
            once__pg_flight_receive(lane);
    }
    once__pg_link_close(&lane->link);
    return NULL;
}

int once__pg_lane_start(struct once__pg_lane *lane, struct once__pg_store *store)
{
    int err;

    memset(lane, 0, sizeof(*lane));
    lane->store = store;
    lane->link.store = store;
    lane->added.last = &lane->added.first;
    lane->waiting.last = &lane->waiting.first;
    lane->count_max = ONCE_PG_BATCH_COUNT_MAX;
    lane->backoff_ms = ONCE__PG_BACKOFF_MS_MIN;
    once__pg_writer_init(&lane->writer);
    lane->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lane->wake_fd < 0)
        return ONCE_ERR_IO;
    pthread_mutex_init(&lane->lock, NULL);
    err = new_session(lane);
    if (err == ONCE_OK && pthread_create(&lane->thread, NULL, lane_run, lane) != 0)
        err = ONCE_ERR_MEMORY;
    if (err == ONCE_OK) {
        lane->started = true;
        return ONCE_OK;
    }
    pthread_mutex_destroy(&lane->lock);
    close(lane->wake_fd);
    once__pg_apply_free(lane->apply);
    return err;
}

void once__pg_lane_stop(struct once__pg_lane *lane)
{
    if (!lane->started)
        return;
    pthread_mutex_lock(&lane->lock);
    lane->stop = true;
    pthread_mutex_unlock(&lane->lock);
    once__pg_lane_wake(lane);
    pthread_join(lane->thread, NULL);
    once__pg_apply_free(lane->apply);
    lane->apply = NULL;
    once__pg_writer_release(&lane->writer);
}

void once__pg_lane_release(struct once__pg_lane *lane)
{
    if (!lane->started)
        return;
    pthread_mutex_destroy(&lane->lock);
    close(lane->wake_fd);
    lane->started = false;
}
