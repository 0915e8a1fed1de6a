/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection's turn: it answers what is back, begins what has come, sends, and then decides
 * what it waits for. Whatever may change that decision gives it another turn:
 *
 *     held, or too many commands under way     a flight that is back (conn_flight.c)
 *     too much unsent                          bytes that were sent (conn_write.c)
 *     too much under way of all connections    the list of the starving (conn.c)
 *     nothing to do                            bytes that come (conn_read.c)
 */
#include "server/conn_inner.h"

#include <stdlib.h>

#include "base/assert.h"

/* Does the connection itself allow it? */
static bool may_begin(const struct once__conn *conn)
{
    const struct once__conns *conns = conn->conns;
    size_t unsent = once__conn_unsent(conn);

    if (conn->gone || conn->session.closing || conn->held || conns->draining)
        return false;
    /* Where all of them have too much unsent, those wait that have any. */
    if (unsent > 0 && conns->unsent_size > ONCE_UNSENT_SIZE_MAX)
        return false;
    unsent += conns->out.buf.size;
    if (unsent >= ONCE_UNSENT_SIZE_PAUSE || conn->flights >= ONCE_PIPELINE_MAX ||
        conn->away_size >= ONCE_AWAY_SIZE_PAUSE)
        return false;
    /* Answers take memory as soon as they are there. Who gets large ones gets few at a time. */
    return unsent + (conn->flights - conn->waiting) * conn->answer_guess < ONCE_UNSENT_SIZE_PAUSE ||
           conn->flights == 0;
}

bool once__conn_may_begin(const struct once__conn *conn)
{
    return may_begin(conn) && !once__conns_full(conn->conns);
}

void once__conn_cancel(struct once__conn *conn)
{
    if (conn->away == 0)
        return;
    /* What was only collected is not the service's yet. */
    once__conns_submit(conn->conns);
    for (struct once__flight *flight = conn->first; flight; flight = flight->next) {
        for (size_t i = 0; i < flight->away_calls && !flight->cancelled; i++) {
            struct once__call *call = &flight->request.calls[i];

            if (call->op.call == ONCE_CALL_BEGIN && call->wait_ms > 0)
                once__service_cancel(conn->conns->setup.service, call);
        }
        flight->cancelled = true;
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct once__conn *conn = handle->data;

    conn->closed = true;
    once__conns_forget(conn);
}

/* Memory stays until nobody is inside of a function that uses it: see once__conns_forget. */
void once__conn_drop(struct once__conn *conn, const char *what)
{
    struct once__conns *conns = conn->conns;

    if (conn->gone)
        return;
    conn->gone = true;
    if (what) {
        once__metrics_add(conns->setup.metrics, ONCE__CONNECTIONS_CUT, 1);
        once__log_event(conns->setup.log, ONCE__LOG_INFO, "connection_cut",
                        (struct once__field[]){{"from", .text = conn->session.from},
                                               {"client", .number = (int64_t)conn->session.id},
                                               {"why", .text = what},
                                               {.name = NULL}});
    }
    once__conn_cancel(conn);
    conns->count--;
    once__metrics_add(conns->setup.metrics, ONCE__CONNECTIONS_RESP, -1);
    uv_close(&conn->uv.handle, on_closed);
}

void once__conn_reconfigure(struct once__conn *conn)
{
    struct once__session *session = &conn->session;
    struct once__config *config = conn->conns->config;

    if (conn->held) {
        /* Another thread looks at the session. */
        conn->reconfigures = true;
        return;
    }
    conn->reconfigures = false;
    once__config_unref(session->config);
    session->config = once__config_ref(config);
    if (conn->owner)
        session->identity = once__identity_owner(config);
    else if (session->identity.known && session->identity.name[0] != '\0')
        session->closing |= !once__identity_renew(&session->identity, config);
    else if (session->identity.known) {
        session->identity = once__identity_anonymous(config);
        session->closing |= !session->identity.known;
    } else
        session->identity = once__identity_anonymous(config);
}

/* Everything is answered and sent. */
static void end(struct once__conn *conn)
{
    bool linger = conn->wrong && !conn->eof && !conn->conns->draining;

    if (conn->tls) {
        once__tls_session_bye(conn->tls);
        once__conn_flush(conn);
    }
    if (conn->gone)
        return;
    if (!linger) {
        once__conn_drop(conn, NULL);
        return;
    }
    /* Closing a socket with unread bytes may take back what was sent on it. */
    once__metrics_add(conn->conns->setup.metrics, ONCE__CONNECTIONS_CUT, 1);
    once__conn_linger(conn);
    if (!conn->gone)
        once__conn_read_on(conn, true);
}

/* Will nothing further be begun? */
static bool is_ending(const struct once__conn *conn)
{
    return conn->session.closing || conn->conns->draining ||
           (conn->eof && conn->hungry && !conn->tls_more);
}

static void settle(struct once__conn *conn)
{
    const struct once__flight *first = conn->first;
    bool more = !conn->hungry || conn->tls_more, may;

    if (conn->gone || conn->lingering)
        return;
    if (!first && is_ending(conn)) {
        once__conn_read_on(conn, false);
        if (once__conn_unsent(conn) == 0)
            end(conn);
        return;
    }
    may = once__conn_may_begin(conn);
    once__conn_read_on(conn, may && !more && !conn->eof && !conn->filled);
    if (conn->gone)
        return;
    if (may && (more || conn->filled))
        once__conns_list(conn);
    else if (!may && may_begin(conn))
        once__conns_starve(conn);
    /* Answers that were held back until the ones before them were sent. */
    if (first && first->state != ONCE__FLIGHT_AWAY &&
        once__conn_unsent(conn) < ONCE_UNSENT_SIZE_PAUSE)
        once__conns_list(conn);
    conn->filled = false;
}

void once__conn_turn(struct once__conn *conn)
{
    if (conn->gone || conn->lingering)
        return;
    once__flight_finish(conn);
    if (conn->reconfigures && !conn->held)
        once__conn_reconfigure(conn);
    once__conn_begin(conn);
    once__conn_flush(conn);
    settle(conn);
}
