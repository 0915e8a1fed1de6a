/* SPDX-License-Identifier: Apache-2.0
 *
 * All RESP connections of one loop: what happens before the loop sleeps and after it woke.
 *
 * While libuv tells what has come, commands are begun and their calls collected. When it has told
 * everything, the calls go to the service in one piece, then connections that have something to do
 * get a turn each, in the order in which they asked; what they begin goes to the service in one
 * more piece. If one of them still has something to do the loop does not sleep.
 */
#include "server/conn.h"

#include <stdlib.h>

#include "base/assert.h"
#include "server/conn_inner.h"

uint64_t once__conns_now(const struct once__conns *conns)
{
    return uv_now(conns->setup.loop) * 1000000;
}

/* ---- Turns ----------------------------------------------------------------------------------- */

void once__conns_list(struct once__conn *conn)
{
    struct once__turns *turns = &conn->conns->turns;

    if (conn->listed)
        return;
    conn->listed = true;
    conn->turn_next = NULL;
    if (turns->first)
        turns->last->turn_next = conn;
    else
        turns->first = conn;
    turns->last = conn;
}

void once__conns_starve(struct once__conn *conn)
{
    struct once__turns *starving = &conn->conns->starving;

    if (conn->starves)
        return;
    conn->starves = true;
    conn->starve_next = NULL;
    if (starving->first)
        starving->last->starve_next = conn;
    else
        starving->first = conn;
    starving->last = conn;
}

static struct once__conn *take_starving(struct once__turns *starving)
{
    struct once__conn *conn = starving->first;

    starving->first = conn->starve_next;
    conn->starves = false;
    return conn;
}

bool once__conns_full(const struct once__conns *conns)
{
    if (conns->away_size > ONCE_UNREAD_SIZE_MAX / 2)
        return true;
    return conns->calls_away >= ONCE_CALLS_MAX &&
           conns->calls_away >= ONCE_CALLS_MAX + once__service_parked(conns->setup.service);
}

void once__conns_submit(struct once__conns *conns)
{
    size_t count = conns->collected_count;

    if (count == 0)
        return;
    conns->collected_count = 0;
    once__service_submit_here(conns->setup.service, conns->collected, count);
}

static void give_turn(struct once__conn *conn)
{
    if (conn->gone) {
        once__conns_forget(conn);
        return;
    }
    conn->budget = ONCE__TURN_COMMANDS;
    once__conn_turn(conn);
}

static void count(struct once__conns *conns)
{
    struct once__metrics *metrics = conns->setup.metrics;

    if (conns->bytes_in > 0)
        once__metrics_add(metrics, ONCE__BYTES_IN, conns->bytes_in);
    if (conns->bytes_out > 0)
        once__metrics_add(metrics, ONCE__BYTES_OUT, conns->bytes_out);
    if (conns->commands > 0)
        once__metrics_add(metrics, ONCE__COMMANDS, conns->commands);
    conns->bytes_in = conns->bytes_out = conns->commands = 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct once__conns *conns = handle->data;

    if (--conns->handles > 0)
        return;
    conns->empty = true;
    if (conns->emptied)
        conns->emptied(conns->emptied_user);
}

static void close_handles(struct once__conns *conns)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&conns->async, (uv_handle_t *)&conns->prepare,
                              (uv_handle_t *)&conns->check, (uv_handle_t *)&conns->idle,
                              (uv_handle_t *)&conns->timer};

    if (uv_is_closing(handles[0]))
        return;
    ONCE_ASSERT(conns->calls_away == 0);
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++)
        uv_close(handles[i], on_handle_closed);
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

static void work(struct once__conns *conns)
{
    struct once__conn *conn, *next;

    once__conns_submit(conns);
    conn = conns->turns.first;
    conns->turns.first = NULL;
    for (; conn; conn = next) {
        next = conn->turn_next;
        conn->listed = false;
        give_turn(conn);
    }
    /* Each of them may be starved again, behind the others. */
    while (conns->starving.first && (!once__conns_full(conns) || conns->starving.first->gone))
        give_turn(take_starving(&conns->starving));
    once__conns_submit(conns);
    count(conns);
    if (conns->draining && !conns->all && !conns->listeners) {
        close_handles(conns);
        return;
    }
    if (conns->turns.first)
        (void)uv_idle_start(&conns->idle, on_idle);
    else
        (void)uv_idle_stop(&conns->idle);
}

static void on_check(uv_check_t *check)
{
    work(check->data);
}

/* Timers and the ends of writes may have left something to do. */
static void on_prepare(uv_prepare_t *prepare)
{
    work(prepare->data);
}

/* ---- All of them ----------------------------------------------------------------------------- */

static void conns_destroy(struct once__conns *conns)
{
    once__flight_free_spare(conns);
    once__out_release(&conns->out);
    once__out_release(&conns->aside);
    once__config_unref(conns->config);
    free(conns->collected);
    free(conns->input);
    free(conns->args);
    free(conns);
}

/* These do not fail but for the asynchronous one, which is first. */
static int open_handles(struct once__conns *conns)
{
    uv_loop_t *loop = conns->setup.loop;

    if (uv_async_init(loop, &conns->async, once__flight_told) != 0)
        return ONCE_ERR_IO;
    (void)uv_prepare_init(loop, &conns->prepare);
    (void)uv_check_init(loop, &conns->check);
    (void)uv_idle_init(loop, &conns->idle);
    (void)uv_timer_init(loop, &conns->timer);
    conns->handles = 5;
    conns->async.data = conns->prepare.data = conns->check.data = conns;
    conns->idle.data = conns->timer.data = conns;
    (void)uv_prepare_start(&conns->prepare, on_prepare);
    (void)uv_check_start(&conns->check, on_check);
    (void)uv_timer_start(&conns->timer, once__conns_watch, 1000, 1000);
    return ONCE_OK;
}

int once__conns_new(const struct once__conns_setup *setup, struct once__config *config,
                    struct once__conns **ret_conns)
{
    struct once__conns *conns = calloc(1, sizeof *conns);
    int err;

    if (!conns)
        return ONCE_ERR_MEMORY;
    conns->setup = *setup;
    once__out_init(&conns->out, ONCE_ANSWER_SIZE_MAX);
    once__out_init(&conns->aside, ONCE_ANSWER_SIZE_MAX);
    conns->input = malloc(ONCE__INPUT_BEFORE + ONCE__INPUT_SIZE);
    conns->args = malloc(ONCE_COMMAND_ARGS_MAX * sizeof *conns->args);
    err = conns->input && conns->args ? open_handles(conns) : ONCE_ERR_MEMORY;
    if (err != ONCE_OK) {
        conns_destroy(conns);
        return err;
    }
    conns->config = once__config_ref(config);
    *ret_conns = conns;
    return ONCE_OK;
}

void once__conns_forget(struct once__conn *conn)
{
    if (!conn->gone || !conn->closed || conn->away > 0 || conn->listed || conn->starves)
        return;
    once__flight_free_all(conn);
    once__conn_tail_release(conn);
    free(conn->parked_args);
    conn->conns->unsent_size -= once__conn_unsent(conn);
    once_buf_release(&conn->queued);
    once__tls_session_free(conn->tls);
    once__config_unref(conn->session.config);
    *conn->link = conn->next;
    if (conn->next)
        conn->next->link = conn->link;
    free(conn);
}

void once__conns_configure(struct once__conns *conns, struct once__config *config)
{
    once__config_unref(conns->config);
    conns->config = once__config_ref(config);
    for (struct once__conn *conn = conns->all; conn; conn = conn->next) {
        if (conn->gone)
            continue;
        once__conn_reconfigure(conn);
        once__conns_list(conn);
    }
}

void once__conns_drain(struct once__conns *conns, void (*emptied)(void *user), void *user)
{
    conns->emptied = emptied;
    conns->emptied_user = user;
    conns->draining = true;
    once__listeners_close(conns);
    for (struct once__conn *conn = conns->all; conn; conn = conn->next) {
        if (conn->lingering)
            once__conn_drop(conn, NULL);
        else if (!conn->gone)
            once__conns_list(conn);
    }
}

void once__conns_cut(struct once__conns *conns)
{
    conns->draining = true;
    once__listeners_close(conns);
    for (struct once__conn *conn = conns->all; conn; conn = conn->next)
        once__conn_drop(conn, NULL);
}

void once__conns_each(struct once__conns *conns,
                      void (*each)(void *user, const struct once__session *session), void *user)
{
    for (struct once__conn *conn = conns->all; conn; conn = conn->next) {
        if (!conn->gone)
            each(user, &conn->session);
    }
}

size_t once__conns_count(const struct once__conns *conns)
{
    return conns->count;
}

void once__conns_free(struct once__conns *conns)
{
    if (!conns)
        return;
    if (!conns->empty) {
        conns->emptied = NULL;
        once__conns_cut(conns);
    }
    while (!conns->empty)
        (void)uv_run(conns->setup.loop, UV_RUN_ONCE);
    conns_destroy(conns);
}
