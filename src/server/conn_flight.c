/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands under way: their order, and how they come back.
 *
 * Answers leave in the order of the commands. A command that is answered at once while others are
 * under way keeps its answer until it is the first. What is handed to the store, a lane or access
 * comes back on another thread, which puts the flight into a list without locks and wakes the loop
 * if the list was empty. The loop takes from the list only when it was woken: so nobody can still
 * be about to wake it when everything that was handed out is back and the handle is closed.
 */
#include "server/conn_inner.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum {
    HELD_SIZE_MIN = 1 << 12 /* smaller results are not counted */
};

/* Called on any thread, when everything that the flight was handed to others for is back. */
static void tell(struct once__flight *flight)
{
    struct once__conns *conns = flight->conn->conns;
    struct once__flight *head = atomic_load_explicit(&conns->told, memory_order_relaxed);

    do
        flight->told_next = head;
    while (!atomic_compare_exchange_weak_explicit(&conns->told, &head, flight, memory_order_release,
                                                  memory_order_relaxed));
    /* From here on the flight is the loop's. */
    if (!head)
        (void)uv_async_send(&conns->async);
}

/* A large result stays in memory until its turn to be sent has come, and anyone can ask for many.
 * Over the bound it is given up for an error; what was only looked at or replayed can be asked for
 * again. */
static void hold(struct once__flight *flight, struct once_op *op)
{
    struct once__conns *conns = flight->conn->conns;
    size_t size = op->reply.result.size;
    bool looked = op->call == ONCE_CALL_GET ||
                  (op->call == ONCE_CALL_SET && op->reply.word == ONCE_NOTFOUND);
    int err = ONCE_OK;

    if (!looked && op->reply.word != ONCE_REPLAY)
        return;
    if (atomic_load(&flight->held_size) + size > ONCE__COMMAND_RESULTS_MAX)
        err = ONCE_ERR_TOO_LARGE;
    else if (atomic_fetch_add(&conns->held_size, size) + size + atomic_load(&conns->unsent_size) >
             ONCE_HELD_SIZE_MAX) {
        atomic_fetch_sub(&conns->held_size, size);
        err = ONCE_ERR_FULL;
    }
    if (err == ONCE_OK) {
        atomic_fetch_add(&flight->held_size, size);
        return;
    }
    once_reply_release(&op->reply);
    op->reply.err = err;
    op->reply.what = err == ONCE_ERR_FULL
                         ? "too many large results wait to be sent; come back later"
                         : "the results of one command are too large together; ask for fewer";
}

static void call_done(struct once__call *call)
{
    struct once__flight *flight = call->user;

    if (call->op.reply.result.size >= HELD_SIZE_MIN)
        hold(flight, &call->op);
    if (atomic_fetch_sub_explicit(&flight->untold, 1, memory_order_acq_rel) == 1)
        tell(flight);
}

static void job_run(struct once__job *job)
{
    struct once__flight *flight = (struct once__flight *)(void *)((uint8_t *)job -
                                                                  offsetof(struct once__flight,
                                                                           request.job));

    flight->run(job);
    tell(flight);
}

static void login_done(struct once__login *login)
{
    tell(login->user);
}

static void add_last(struct once__conn *conn, struct once__flight *flight)
{
    if (conn->last)
        conn->last->next = flight;
    else
        conn->first = flight;
    conn->last = flight;
    conn->flights++;
    conn->waiting += flight->waits;
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static bool collect(struct once__conns *conns, struct once__flight *flight)
{
    struct once__request *request = &flight->request;
    size_t need = conns->collected_count + request->call_count;

    if (need > conns->collected_capacity) {
        size_t capacity = need * 2;
        struct once__call **more = realloc(conns->collected, capacity * sizeof *more);

        if (!more)
            return false;
        conns->collected = more;
        conns->collected_capacity = capacity;
    }
    for (size_t i = 0; i < request->call_count; i++) {
        struct once__call *call = &request->calls[i];

        call->done = call_done;
        call->user = flight;
        if (call->wait_ms > 0)
            flight->waits = true;
        /* Who waits may do so for long: what they hold must leave room for everyone else. */
        if (flight->away_size > 0 && conns->away_size > ONCE_UNREAD_SIZE_MAX / 4)
            call->wait_ms = 0;
        conns->collected[conns->collected_count++] = call;
    }
    atomic_store_explicit(&flight->untold, request->call_count, memory_order_relaxed);
    flight->away_calls = request->call_count;
    conns->calls_away += request->call_count;
    return true;
}

/* The address without its port. */
static void copy_from(const struct once__session *session, char *to, size_t to_size)
{
    const char *colon = strrchr(session->from, ':');
    size_t size = colon ? (size_t)(colon - session->from) : strlen(session->from);

    if (size >= to_size)
        size = to_size - 1;
    memcpy(to, session->from, size);
    to[size] = '\0';
}

static void begin_login(struct once__flight *flight)
{
    struct once__login *login = flight->request.login;

    login->done = login_done;
    login->user = flight;
    copy_from(&flight->conn->session, login->from, sizeof login->from);
    flight->holds = true;
    flight->state = ONCE__FLIGHT_AWAY;
    flight->conn->away++;
    if (once__access_start(flight->conn->conns->setup.access, login)) {
        flight->state = ONCE__FLIGHT_BACK;
        flight->conn->away--;
    }
}

/* What the command wants next. False: there is no memory. */
static bool go_on(struct once__flight *flight, enum once__next next)
{
    struct once__conn *conn = flight->conn;

    switch (next) {
    case ONCE__ANSWERED:
        once__request_release(&flight->request);
        return !conn->conns->aside.failed && once__flight_take_answer(flight, &conn->conns->aside);
    case ONCE__CALLS:
        ONCE_ASSERT(flight->request.call_count > 0);
        if (!collect(conn->conns, flight)) {
            once__request_release(&flight->request);
            return false;
        }
        flight->state = ONCE__FLIGHT_AWAY;
        conn->away++;
        return true;
    case ONCE__JOB:
        flight->run = flight->request.job.run;
        flight->request.job.run = job_run;
        flight->holds = true;
        flight->state = ONCE__FLIGHT_HELD;
        return true;
    case ONCE__LOGIN:
        begin_login(flight);
        return true;
    }
    return false;
}

bool once__flight_begin(struct once__conn *conn, const struct once__found *found)
{
    struct once__conns *conns = conn->conns;
    struct once__flight *flight = once__flight_new(conn);
    struct once__out *out = conn->first ? &conns->aside : &conns->out;
    enum once__next next;
    bool taken = false;

    if (!flight || !once__flight_take_arguments(flight, found, &taken)) {
        if (flight)
            once__flight_free(flight);
        once__conn_drop(conn, "out of memory");
        return taken;
    }
    conns->commands++;
    once_buf_clear(&conns->aside.buf);
    out->protocol = conn->session.protocol;
    next = once__command_start(&flight->request, out);
    conn->session.last_ns = once__conns_now(conns);
    if (next == ONCE__ANSWERED && out == &conns->out) {
        once__request_release(&flight->request);
        once__flight_free(flight);
        return taken;
    }
    if (!go_on(flight, next)) {
        conns->aside.failed = false;
        once__flight_free(flight);
        once__conn_drop(conn, "out of memory");
        return taken;
    }
    add_last(conn, flight);
    /* What stands behind those who wait must leave room for everyone else, too. */
    if (flight->away_size > 0 && conns->away_size > ONCE_UNREAD_SIZE_MAX / 4)
        once__conn_cancel(conn);
    if (flight->holds) {
        conn->held = true;
        once__flight_finish(conn);
    }
    return taken;
}

void once__flight_refuse(struct once__conn *conn, const char *code, const char *what)
{
    struct once__conns *conns = conn->conns;
    struct once__out *out = conn->first ? &conns->aside : &conns->out;
    struct once__flight *flight;

    conn->session.closing = true;
    conn->wrong = true;
    once_buf_clear(&conns->aside.buf);
    once__out_error(out, code, "%s", what);
    if (out == &conns->out)
        return;
    flight = once__flight_new(conn);
    if (!flight || !once__flight_take_answer(flight, out)) {
        if (flight)
            once__flight_free(flight);
        once__conn_drop(conn, "out of memory");
        return;
    }
    add_last(conn, flight);
}

/* ---- Coming back ----------------------------------------------------------------------------- */

/* A job whose turn has come. False: the lane has too many, and an answer says so. */
static bool launch(struct once__flight *flight, struct once__out *out)
{
    struct once__conn *conn = flight->conn;

    /* Its own thread may be done with it before this one goes on. */
    flight->state = ONCE__FLIGHT_AWAY;
    conn->away++;
    if (conn->conns->unsent_size <= ONCE_UNSENT_SIZE_MAX &&
        once__lane_add(conn->conns->setup.looks, &flight->request.job) == ONCE_OK)
        return true;
    conn->away--;
    flight->state = ONCE__FLIGHT_BACK;
    once__out_error(out, "FULL", "too many such commands are waiting; come back later (ERR_FULL)");
    return false;
}

/* Writes the answer of the first flight, if it is there. */
static bool finish_first(struct once__flight *flight, struct once__out *out)
{
    out->protocol = flight->protocol;
    if (flight->state == ONCE__FLIGHT_HELD) {
        if (launch(flight, out))
            return false;
        once__request_release(&flight->request);
        return true;
    }
    if (flight->state == ONCE__FLIGHT_AWAY)
        return false;
    if (flight->state == ONCE__FLIGHT_ANSWERED) {
        if (once_buf_append(&out->buf, flight->answer, flight->answer_size) != ONCE_OK)
            out->failed = true;
        return true;
    }
    flight->request.command->finish(&flight->request, out);
    once__request_release(&flight->request);
    return true;
}

static void learn_size(struct once__conn *conn, size_t size)
{
    if (size >= conn->answer_guess)
        conn->answer_guess = size;
    else
        conn->answer_guess -= (conn->answer_guess - size + 15) / 16;
}

void once__flight_finish(struct once__conn *conn)
{
    struct once__out *out = &conn->conns->out;

    while (conn->first && once__conn_unsent(conn) + out->buf.size < ONCE_UNSENT_SIZE_PAUSE) {
        struct once__flight *flight = conn->first;
        size_t before = out->buf.size;

        if (!finish_first(flight, out))
            return;
        learn_size(conn, out->buf.size - before);
        if (flight->holds)
            conn->held = false;
        conn->first = flight->next;
        if (!conn->first)
            conn->last = NULL;
        conn->flights--;
        conn->waiting -= flight->waits;
        once__flight_free(flight);
    }
}

static void land(struct once__flight *flight)
{
    struct once__conn *conn = flight->conn;

    conn->conns->calls_away -= flight->away_calls;
    flight->away_calls = 0;
    flight->state = ONCE__FLIGHT_BACK;
    conn->away--;
    if (conn->gone)
        once__conns_forget(conn);
    else if (flight == conn->first)
        once__conns_list(conn);
}

void once__flight_told(uv_async_t *async)
{
    struct once__conns *conns = async->data;
    struct once__flight *flight = atomic_exchange_explicit(&conns->told, NULL,
                                                           memory_order_acquire);
    struct once__flight *first = NULL;

    /* The newest is first: turn it around, who was told first is answered first. */
    while (flight) {
        struct once__flight *next = flight->told_next;

        flight->told_next = first;
        first = flight;
        flight = next;
    }
    while (first) {
        struct once__flight *next = first->told_next;

        land(first);
        first = next;
    }
}
