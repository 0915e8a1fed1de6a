/* SPDX-License-Identifier: Apache-2.0
 *
 * Talking to a server of Once from an nginx worker: a few persistent connections, many calls in
 * flight on each, nothing that waits.
 *
 * Every call that goes through here is idempotent (an owner id, a fence), so a call whose
 * connection is lost is sent again, on another or a new one, until its time is over. Answers come
 * in the order of the calls of a connection.
 */
#ifndef ONCE_NGINX_GATE_LINK_H
#define ONCE_NGINX_GATE_LINK_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>

#include "client/client_answer.h"

struct gate_link;

/* A server, as a configuration names it. What a worker adds is made at its first call. */
struct gate_server {
    ngx_str_t name; /* as it was written */
    ngx_addr_t *addrs;
    ngx_uint_t addr_count;
    ngx_str_t user;
    ngx_str_t password;
    ngx_uint_t link_count;
    ngx_msec_t begin_ms; /* how long a begin may take, connecting included */
    ngx_msec_t end_ms;   /* how long the outcome of an operation is tried to be recorded */

    /* A worker's. */
    struct gate_link *links;
    ngx_queue_t waiting; /* calls that no connection has */
    ngx_event_t turn;    /* posted: something waits to be sent */
    ngx_uint_t next_addr;
    ngx_uint_t down; /* connecting failed last time, and was told in the log */
};

/* A call in flight. Whoever sends it allocates it (ngx_alloc) and gets it back in done, on a later
 * turn of the event loop, and frees it there. answer is good inside of done; NULL: nobody answered
 * in time, and nobody knows whether it was done. */
struct gate_flight {
    ngx_queue_t queue;
    struct gate_server *server;
    struct gate_link *link; /* NULL: it waits for one */
    bool taken;             /* by a link, once: the server may have got it */
    u_char *command;        /* RESP; behind the struct, or wherever the sender put it */
    size_t command_size;
    ngx_event_t deadline;
    void (*done)(struct gate_flight *flight, const struct once__answer_item *answer);
    void *user;
};

/* Sends it. done, command, command_size and user are set. */
void gate_send(struct gate_server *server, struct gate_flight *flight, ngx_msec_t patience_ms);

#endif
