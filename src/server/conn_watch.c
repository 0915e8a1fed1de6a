/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock of all connections: once a second it looks at each. Deadlines are therefore kept to
 * the second, and cost nothing while nothing is late.
 */
#include "server/conn_inner.h"

#include <poll.h>

static bool is_over(uint64_t since_ns, uint64_t now_ns, once_ms bound_ms)
{
    return now_ns > since_ns && (now_ns - since_ns) / 1000000 >= (uint64_t)bound_ms;
}

/* Does nobody take what is to be sent? */
static bool is_slow(struct once__conn *conn, uint64_t now_ns)
{
    size_t left;

    if (!conn->sending)
        return false;
    left = uv_stream_get_write_queue_size(&conn->uv.stream);
    if (left != conn->left) {
        conn->left = left;
        conn->progress_ns = now_ns;
    }
    return is_over(conn->progress_ns, now_ns, ONCE_SLOW_READER_MS);
}

/* A password that is being compared may take its time. */
static bool is_unknown(const struct once__conn *conn)
{
    if (conn->tls && !once__tls_session_ready(conn->tls))
        return true;
    return !conn->session.identity.known && !conn->held;
}

/* Who is not read from is not heard to leave either, and those who are parked for it could be
 * given something that nobody would do. */
static void notice_end(struct once__conn *conn)
{
    struct pollfd look = {.events = POLLRDHUP};
    uv_os_fd_t fd;

    if (conn->reading || conn->eof || conn->away == 0 || uv_fileno(&conn->uv.handle, &fd) != 0)
        return;
    look.fd = fd;
    if (poll(&look, 1, 0) <= 0)
        return;
    if (look.revents & (POLLERR | POLLHUP))
        once__conn_drop(conn, NULL);
    else if (look.revents & POLLRDHUP)
        once__conn_cancel(conn);
}

static void watch(struct once__conn *conn, uint64_t now_ns, once_ms idle_ms_max)
{
    if (conn->gone)
        return;
    if (conn->lingering && now_ns >= conn->linger_until_ns)
        once__conn_drop(conn, NULL);
    else if (is_slow(conn, now_ns))
        once__conn_drop(conn, "it does not take its answers");
    else if (is_unknown(conn) && is_over(conn->session.since_ns, now_ns, ONCE_AUTH_DEADLINE_MS))
        once__conn_drop(conn, "it did not say who it is in time");
    else if (idle_ms_max > 0 && !conn->first && once__conn_unsent(conn) == 0 &&
             is_over(conn->heard_ns, now_ns, idle_ms_max))
        once__conn_drop(conn, "it was silent for too long");
    else
        notice_end(conn);
}

void once__conns_watch(uv_timer_t *timer)
{
    struct once__conns *conns = timer->data;
    uint64_t now_ns = once__conns_now(conns);

    for (struct once__conn *conn = conns->all; conn; conn = conn->next)
        watch(conn, now_ns, conns->config->idle_ms_max);
    for (struct once__listener *listener = conns->listeners; listener; listener = listener->next)
        once__listener_retry(listener);
}
