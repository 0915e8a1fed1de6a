/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections to a server of Once: connect, say who we are, send what is waiting, read answers in
 * order, and when a connection is lost give its calls to another. A call is handed back exactly
 * once: with its answer, or without one when its time is over.
 */
#include "gate_link.h"

enum {
    READ_SIZE = 16384,
    OUT_SIZE = 16384,
    OUT_SIZE_KEPT = 1 << 20,
    RETRY_MS_MIN = 20,
    RETRY_MS_MAX = 1000,
    LOADING_MS = 50 /* the server is opening its store: asked again after this */
};

enum gate_link_state { LINK_DOWN, LINK_CONNECTING, LINK_UP };

struct gate_link {
    struct gate_server *server;
    enum gate_link_state state;
    ngx_peer_connection_t peer;
    ngx_queue_t flights; /* sent, or in the buffer, in order */
    ngx_uint_t flight_count;
    u_char *out, *out_pos, *out_last, *out_end; /* bytes that were not sent yet */
    struct once__answer answer;
    bool greeting; /* the next answer is that to AUTH */
    ngx_event_t retry;
    ngx_msec_t retry_ms;
};

static void link_lost(struct gate_link *link, const char *why);
static void turn_soon(struct gate_server *server);

/* ---- Calls ----------------------------------------------------------------------------------- */

static void hand_back(struct gate_flight *flight, const struct once__answer_item *answer)
{
    if (flight->deadline.timer_set)
        ngx_del_timer(&flight->deadline);
    flight->done(flight, answer);
}

static void leave_link(struct gate_flight *flight)
{
    ngx_queue_remove(&flight->queue);
    if (flight->link)
        flight->link->flight_count--;
    flight->link = NULL;
}

/* Its time is over. Its answer would be taken for the next one's, so the connection goes with it;
 * and one that does not answer in time is not good for the others either. */
static void deadline_passed(ngx_event_t *event)
{
    struct gate_flight *flight = event->data;
    struct gate_link *link = flight->link;

    leave_link(flight);
    if (link)
        link_lost(link, "no answer in time");
    hand_back(flight, NULL);
}

/* ---- Sending --------------------------------------------------------------------------------- */

static bool out_add(struct gate_link *link, const u_char *bytes, size_t size)
{
    size_t have = (size_t)(link->out_last - link->out_pos);

    if (size > (size_t)(link->out_end - link->out_last)) {
        size_t room = OUT_SIZE;
        u_char *out;

        while (room < have + size)
            room *= 2;
        out = ngx_alloc(room, ngx_cycle->log);
        if (!out)
            return false;
        if (have > 0)
            ngx_memcpy(out, link->out_pos, have);
        ngx_free(link->out);
        link->out = link->out_pos = out;
        link->out_last = out + have;
        link->out_end = out + room;
    }
    link->out_last = ngx_cpymem(link->out_last, bytes, size);
    return true;
}

/* All was sent. What a burst, or a large answer, has made it is not kept. */
static void out_empty(struct gate_link *link)
{
    if ((size_t)(link->out_end - link->out) > OUT_SIZE_KEPT) {
        ngx_free(link->out);
        link->out = link->out_end = NULL;
    }
    link->out_pos = link->out_last = link->out;
}

/* False: the connection was lost. */
static bool out_flush(struct gate_link *link)
{
    ngx_connection_t *c = link->peer.connection;

    while (link->out_pos < link->out_last && c->write->ready) {
        ssize_t n = c->send(c, link->out_pos, (size_t)(link->out_last - link->out_pos));

        if (n == NGX_AGAIN)
            break;
        if (n <= 0) {
            link_lost(link, "it cannot be written to");
            return false;
        }
        link->out_pos += n;
    }
    if (link->out_pos == link->out_last)
        out_empty(link);
    if (ngx_handle_write_event(c->write, 0) != NGX_OK) {
        link_lost(link, "it cannot be watched");
        return false;
    }
    return true;
}

/* False: there is no memory. */
static bool link_take(struct gate_link *link, struct gate_flight *flight)
{
    if (!out_add(link, flight->command, flight->command_size))
        return false;
    flight->link = link;
    flight->taken = true;
    ngx_queue_insert_tail(&link->flights, &flight->queue);
    link->flight_count++;
    link->peer.connection->idle = 0;
    return true;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool is_error(const struct once__answer_item *item, const char *code)
{
    size_t size = ngx_strlen(code);

    return item->kind == ONCE__ANSWER_ERROR && item->bytes.size >= size &&
           ngx_memcmp(item->bytes.data, code, size) == 0;
}

/* The first answer, to AUTH. False: the connection was lost. */
static bool greeted(struct gate_link *link, const struct once__answer_item *item)
{
    link->greeting = false;
    if (item->kind != ONCE__ANSWER_ERROR)
        return true;
    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0, "once: the server \"%V\" refuses the user: %*s",
                  &link->server->name, item->bytes.size, item->bytes.data);
    link->retry_ms = RETRY_MS_MAX;
    link_lost(link, "the server refuses the user");
    return false;
}

/* The store is being opened: the call goes back to those that wait, and the connection, which is
 * good, asks again in a moment. */
static void ask_again(struct gate_link *link, struct gate_flight *flight)
{
    leave_link(flight);
    ngx_queue_insert_tail(&link->server->waiting, &flight->queue);
    if (!link->retry.timer_set)
        ngx_add_timer(&link->retry, LOADING_MS);
}

/* One whole answer. False: the connection was lost. */
static bool answered(struct gate_link *link, const struct once__answer_item *item)
{
    struct gate_flight *flight;

    if (link->greeting)
        return greeted(link, item);
    if (ngx_queue_empty(&link->flights)) {
        link_lost(link, "an answer that nobody asked for");
        return false;
    }
    flight = ngx_queue_data(ngx_queue_head(&link->flights), struct gate_flight, queue);
    link->retry_ms = RETRY_MS_MIN;
    link->server->down = 0;
    if (is_error(item, "LOADING ")) {
        ask_again(link, flight);
        return true;
    }
    leave_link(flight);
    hand_back(flight, item);
    return true;
}

/* False: the connection was lost. */
static bool read_answers(struct gate_link *link, const u_char *bytes, size_t size)
{
    const struct once__answer_item *item;
    int got;

    if (once__answer_feed(&link->answer, bytes, size) != ONCE_OK) {
        link_lost(link, "its answer is too large");
        return false;
    }
    while ((got = once__answer_next(&link->answer, &item)) == 1) {
        if (!answered(link, item))
            return false;
        if (link->state != LINK_UP)
            return false;
        once__answer_clear(&link->answer);
    }
    if (got < 0) {
        link_lost(link, "its answer is not RESP");
        return false;
    }
    return true;
}

static void link_read(ngx_event_t *event)
{
    ngx_connection_t *c = event->data;
    struct gate_link *link = c->data;
    u_char bytes[READ_SIZE];

    if (c->close) { /* the worker is ending, and it is idle */
        link_lost(link, NULL);
        return;
    }
    while (event->ready) {
        ssize_t n = c->recv(c, bytes, sizeof(bytes));

        if (n == NGX_AGAIN)
            break;
        if (n <= 0) {
            link_lost(link, "it was closed");
            return;
        }
        if (!read_answers(link, bytes, (size_t)n))
            return;
    }
    if (ngx_handle_read_event(event, 0) != NGX_OK) {
        link_lost(link, "it cannot be watched");
        return;
    }
    c->idle = link->flight_count == 0;
    if (ngx_exiting && c->idle)
        link_lost(link, NULL);
}

/* ---- Connecting ------------------------------------------------------------------------------ */

static void link_close(struct gate_link *link)
{
    if (link->peer.connection)
        ngx_close_connection(link->peer.connection);
    link->peer.connection = NULL;
    link->state = LINK_DOWN;
    out_empty(link);
    once__answer_reset(&link->answer);
}

/* Its calls wait again, before those that came later. why is NULL when that is as it should be. */
static void link_lost(struct gate_link *link, const char *why)
{
    struct gate_server *server = link->server;
    ngx_uint_t level = server->down ? NGX_LOG_INFO : NGX_LOG_ERR; /* told once */

    if (why)
        ngx_log_error(level, ngx_cycle->log, 0, "once: connection to the server \"%V\": %s",
                      &server->name, why);
    if (link->state == LINK_CONNECTING)
        server->down = 1;
    link_close(link);
    while (!ngx_queue_empty(&link->flights)) {
        struct gate_flight *flight = ngx_queue_data(ngx_queue_last(&link->flights),
                                                    struct gate_flight, queue);

        leave_link(flight);
        ngx_queue_insert_head(&server->waiting, &flight->queue);
    }
    if (ngx_queue_empty(&server->waiting))
        return;
    if (!link->retry.timer_set)
        ngx_add_timer(&link->retry, link->retry_ms);
    /* Several times within the patience of a begin: a server that is back is found by it. */
    link->retry_ms = ngx_min(2 * link->retry_ms,
                             ngx_min((ngx_msec_t)RETRY_MS_MAX, server->begin_ms / 4 + 1));
}

/* Says who we are, before anything else. False: there is no memory. */
static bool greet(struct gate_link *link)
{
    const struct gate_server *server = link->server;
    u_char head[96];

    link->greeting = server->user.len > 0;
    if (!link->greeting)
        return true;
    return out_add(link, head,
                   (size_t)(ngx_snprintf(head, sizeof(head), "*3\r\n$4\r\nAUTH\r\n$%uz\r\n",
                                         server->user.len) -
                            head)) &&
           out_add(link, server->user.data, server->user.len) &&
           out_add(link, head,
                   (size_t)(ngx_snprintf(head, sizeof(head), "\r\n$%uz\r\n", server->password.len) -
                            head)) &&
           out_add(link, server->password.data, server->password.len) &&
           out_add(link, (const u_char *)"\r\n", 2);
}

static void link_up(struct gate_link *link)
{
    ngx_event_t *write = link->peer.connection->write;

    if (write->timer_set)
        ngx_del_timer(write);
    link->state = LINK_UP;
    link->peer.connection->idle = 1; /* until it takes a call */
    if (!greet(link)) {
        link_lost(link, "there is no memory");
        return;
    }
    turn_soon(link->server);
}

static void link_write(ngx_event_t *event)
{
    ngx_connection_t *c = event->data;
    struct gate_link *link = c->data;
    socklen_t size = sizeof(int);
    int err = 0;

    if (event->timedout) { /* another address may be better */
        link_lost(link, "nobody takes the connection");
        return;
    }
    if (link->state == LINK_CONNECTING) {
        if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &size) < 0)
            err = ngx_socket_errno;
        if (err != 0) {
            link_lost(link, "nobody is there");
            return;
        }
        link_up(link);
        return;
    }
    (void)out_flush(link);
}

static void link_connect(struct gate_link *link)
{
    struct gate_server *server = link->server;
    ngx_addr_t *addr = &server->addrs[server->next_addr++ % server->addr_count];
    ngx_int_t rc;

    link->peer.sockaddr = addr->sockaddr;
    link->peer.socklen = addr->socklen;
    link->peer.name = &addr->name;
    link->peer.get = ngx_event_get_peer;
    link->peer.log = ngx_cycle->log;
    link->peer.log_error = NGX_ERROR_ERR;
    link->state = LINK_CONNECTING;
    rc = ngx_event_connect_peer(&link->peer);
    if (rc == NGX_ERROR || rc == NGX_BUSY || rc == NGX_DECLINED) {
        link_lost(link, "nobody is there");
        return;
    }
    link->peer.connection->data = link;
    link->peer.connection->log = ngx_cycle->log;
    link->peer.connection->read->handler = link_read;
    link->peer.connection->write->handler = link_write;
    link->peer.connection->read->log = link->peer.connection->write->log = ngx_cycle->log;
    if (rc == NGX_OK)
        link_up(link);
    else /* twice within the patience of a begin */
        ngx_add_timer(link->peer.connection->write, server->begin_ms / 2 + 1);
}

static void retry(ngx_event_t *event)
{
    struct gate_link *link = event->data;

    if (!ngx_queue_empty(&link->server->waiting))
        turn_soon(link->server);
}

/* ---- A turn ---------------------------------------------------------------------------------- */

/* The connection that is up and has the fewest calls. */
static struct gate_link *least(struct gate_server *server)
{
    struct gate_link *best = NULL;

    for (ngx_uint_t i = 0; i < server->link_count; i++) {
        struct gate_link *link = &server->links[i];

        if (link->state == LINK_UP && (!best || link->flight_count < best->flight_count))
            best = link;
    }
    return best;
}

/* One more connection, where all that are up have something to do. */
static void connect_one(struct gate_server *server)
{
    for (ngx_uint_t i = 0; i < server->link_count; i++) {
        if (server->links[i].state == LINK_CONNECTING)
            return;
    }
    for (ngx_uint_t i = 0; i < server->link_count; i++) {
        struct gate_link *link = &server->links[i];

        if (link->state == LINK_DOWN && !link->retry.timer_set) {
            link_connect(link);
            return;
        }
    }
}

static void give_waiting(struct gate_server *server)
{
    struct gate_link *link;

    while (!ngx_queue_empty(&server->waiting) && (link = least(server))) {
        struct gate_flight *flight = ngx_queue_data(ngx_queue_head(&server->waiting),
                                                    struct gate_flight, queue);

        ngx_queue_remove(&flight->queue);
        if (!link_take(link, flight)) {
            ngx_queue_insert_head(&server->waiting, &flight->queue);
            link_lost(link, "there is no memory");
        }
    }
    for (ngx_uint_t i = 0; i < server->link_count; i++) {
        link = &server->links[i];
        if (link->state == LINK_UP && link->out_pos < link->out_last)
            (void)out_flush(link);
    }
}

static void turn_soon(struct gate_server *server)
{
    ngx_post_event(&server->turn, &ngx_posted_events);
}

/* Once a turn of the event loop: what all requests of the turn have to say goes out together. */
static void turn(ngx_event_t *event)
{
    struct gate_server *server = event->data;
    struct gate_link *link = least(server);

    if (!ngx_queue_empty(&server->waiting) && (!link || link->flight_count > 0))
        connect_one(server);
    give_waiting(server);
}

/* The worker ends, or a configuration goes that nothing uses any more. */
static void free_links(void *data)
{
    struct gate_server *server = data;

    if (server->turn.posted) {
        ngx_delete_posted_event(&server->turn); /* a macro of two statements */
    }
    for (ngx_uint_t i = 0; i < server->link_count; i++) {
        struct gate_link *link = &server->links[i];

        if (link->retry.timer_set)
            ngx_del_timer(&link->retry);
        ngx_free(link->out);
        once__answer_release(&link->answer);
    }
    ngx_free(server->links);
    server->links = NULL;
}

static bool make_links(struct gate_server *server)
{
    ngx_pool_cleanup_t *cleanup;

    if (server->links)
        return true;
    cleanup = ngx_pool_cleanup_add(ngx_cycle->pool, 0);
    if (!cleanup)
        return false;
    server->links = ngx_calloc(server->link_count * sizeof(*server->links), ngx_cycle->log);
    if (!server->links)
        return false;
    cleanup->handler = free_links;
    cleanup->data = server;
    ngx_queue_init(&server->waiting);
    server->turn.handler = turn;
    server->turn.data = server;
    server->turn.log = ngx_cycle->log;
    for (ngx_uint_t i = 0; i < server->link_count; i++) {
        struct gate_link *link = &server->links[i];

        link->server = server;
        link->retry_ms = RETRY_MS_MIN;
        link->retry.handler = retry;
        link->retry.data = link;
        link->retry.log = ngx_cycle->log;
        link->retry.cancelable = 1;
        ngx_queue_init(&link->flights);
        once__answer_init(&link->answer);
    }
    return true;
}

void gate_send(struct gate_server *server, struct gate_flight *flight, ngx_msec_t patience_ms)
{
    flight->server = server;
    flight->link = NULL;
    flight->taken = false;
    ngx_memzero(&flight->deadline, sizeof(flight->deadline));
    flight->deadline.handler = deadline_passed;
    flight->deadline.data = flight;
    flight->deadline.log = ngx_cycle->log;
    ngx_queue_init(&flight->queue);
    if (!make_links(server)) {
        ngx_add_timer(&flight->deadline, 1);
        return;
    }
    ngx_add_timer(&flight->deadline, patience_ms);
    ngx_queue_insert_tail(&server->waiting, &flight->queue);
    turn_soon(server);
}
