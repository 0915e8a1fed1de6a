/* SPDX-License-Identifier: Apache-2.0
 *
 * One request from its headers to its answer.
 *
 * libmicrohttpd calls once__http_handle with the headers, with each piece of the body, and when
 * the body is there; and after each time that the connection was suspended. The phase says what is
 * due. While a connection is suspended its request belongs to whoever works for it: a login, a
 * lane, or the store; once__http_resume is their last touch of it.
 *
 * Large bodies are read, and large answers written, on a lane: a body of 20 MiB takes a tenth of a
 * second, in which the thread of all connections would do nothing else.
 */
#include "server/http_inner.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum {
    LARGE_SIZE = 1 << 18,       /* a body or an answer for a lane */
    REFUSED_SIZE_MAX = 1 << 16, /* of a body that is read only to be thrown away */
    ANSWER_SIZE_MAX = 1 << 30,
    HEADER_SIZE = 32
};

/* ---- Bytes held ------------------------------------------------------------------------------ */

static bool hold(struct once__http *http, size_t size)
{
    if (atomic_fetch_add(&http->held, size) + size <= ONCE_UNREAD_SIZE_MAX)
        return true;
    atomic_fetch_sub(&http->held, size);
    return false;
}

struct held_bytes {
    struct once__http *http;
    size_t size;
    uint8_t *data;
};

/* ---- Answers --------------------------------------------------------------------------------- */

struct once__view once__http_answer(struct once__http_request *request, unsigned status)
{
    struct once__http_answer *answer = &request->answer;

    once_buf_release(&answer->body);
    *answer = (struct once__http_answer){.status = status, .type = "application/json"};
    once_buf_init(&answer->body, ANSWER_SIZE_MAX);
    return (struct once__view){.out = &answer->body, .err = ONCE_OK};
}

void once__http_answer_end(struct once__http_request *request, struct once__view *view)
{
    struct once__http_answer *answer = &request->answer;

    if (view->err == ONCE_OK)
        return;
    once_buf_release(&answer->body);
    *answer = (struct once__http_answer){.status = 503, .retry_ms = 1000}; /* no memory for more */
}

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    /* Fails only without memory: the answer goes without it then. */
    (void)MHD_add_response_header(response, name, value);
}

static void add_headers(const struct once__http_request *request, struct MHD_Response *response)
{
    const struct once__http_answer *answer = &request->answer;
    char text[HEADER_SIZE];

    if (answer->type)
        add_header(response, "Content-Type", answer->type);
    add_header(response, "X-Content-Type-Options", "nosniff");
    /* The page's files may be kept, but are asked for again: a new server has a new page. */
    add_header(response, "Cache-Control", answer->privacy ? "no-cache" : "no-store");
    if (answer->etag[0] != '\0')
        add_header(response, "ETag", answer->etag);
    if (answer->allow)
        add_header(response, "Allow", answer->allow);
    if (answer->privacy) {
        add_header(response, "Content-Security-Policy", answer->privacy);
        add_header(response, "Referrer-Policy", "no-referrer");
        add_header(response, "Cross-Origin-Opener-Policy", "same-origin");
        add_header(response, "Cross-Origin-Embedder-Policy", "require-corp");
        add_header(response, "Cross-Origin-Resource-Policy", "same-origin");
        add_header(response, "Permissions-Policy",
                   "camera=(), geolocation=(), microphone=(), payment=(), usb=()");
    }
    if (answer->retry_ms > 0) {
        (void)snprintf(text, sizeof text, "%lld", (long long)((answer->retry_ms + 999) / 1000));
        add_header(response, "Retry-After", text);
    }
    if (answer->authenticate) {
        if (!answer->own_form)
            add_header(response, "WWW-Authenticate", "Basic realm=\"once\", charset=\"UTF-8\"");
        add_header(response, "WWW-Authenticate", "Bearer realm=\"once\"");
    }
    if (answer->close || atomic_load(&request->http->draining))
        add_header(response, "Connection", "close");
}

static void free_body(void *user)
{
    struct held_bytes *held = user;

    atomic_fetch_sub(&held->http->held, held->size);
    free(held->data);
    free(held);
}

/* The body moves into the response, and is freed when it was sent. */
static struct MHD_Response *make_response(struct once__http_request *request)
{
    struct once_buf *body = &request->answer.body;
    struct held_bytes *held = malloc(sizeof *held);
    struct MHD_Response *response;

    if (!held)
        return NULL;
    *held = (struct held_bytes){.http = request->http, .size = body->size, .data = body->data};
    atomic_fetch_add(&held->http->held, held->size);
    response = MHD_create_response_from_buffer_with_free_callback_cls(
        body->size, body->data ? (void *)body->data : (void *)held, free_body, held);
    if (!response) {
        atomic_fetch_sub(&held->http->held, held->size);
        free(held);
        return NULL;
    }
    *body = (struct once_buf){0};
    return response;
}

/* What the answer was made of; it may be as large as the answer. */
static void let_go(struct once__http_request *request)
{
    atomic_fetch_sub(&request->http->held, request->body.size + request->reply_held);
    request->reply_held = 0;
    once_buf_release(&request->body);
    once__http_said_release(&request->said);
    once_reply_release(&request->call.op.reply);
}

/* May the answer be replaced by "ask again"? Not one that gives an operation away. */
static bool may_ask_again(const struct once__http_request *request)
{
    return request->reply_held == 0 || request->call.op.reply.word != ONCE_EXECUTE;
}

static enum MHD_Result send_answer(struct once__http_request *request)
{
    struct once__http_answer *answer = &request->answer;
    struct MHD_Response *response;
    enum MHD_Result queued;

    ONCE_ASSERT(answer->status != 0);
    request->phase = ONCE__HTTP_DONE;
    if (answer->body.size > LARGE_SIZE && may_ask_again(request) &&
        atomic_load(&request->http->held) > ONCE_UNREAD_SIZE_MAX)
        once__http_problem(request, ONCE__PROBLEM_OVERLOAD,
                           "Too many large answers wait to be read: ask again later.");
    let_go(request);
    once__metrics_add(request->http->setup.metrics, ONCE__BYTES_OUT, (int64_t)answer->body.size);
    response = make_response(request);
    if (!response)
        return MHD_NO; /* closes the connection */
    add_headers(request, response);
    queued = MHD_queue_response(request->connection, answer->status, response);
    MHD_destroy_response(response);
    return queued;
}

/* ---- Suspended ------------------------------------------------------------------------------- */

/* A suspension is booked before anyone else gets the request, so that the end waits for all.
 * False: it has begun, nobody may be suspended any more, and the connection is closed. */
static bool book(struct once__http *http)
{
    bool booked;

    pthread_mutex_lock(&http->lock);
    booked = !http->closing;
    if (booked)
        http->suspended++;
    pthread_mutex_unlock(&http->lock);
    return booked;
}

static void unbook(struct once__http *http)
{
    pthread_mutex_lock(&http->lock);
    ONCE_ASSERT(http->suspended > 0);
    if (--http->suspended == 0)
        pthread_cond_broadcast(&http->rested);
    pthread_mutex_unlock(&http->lock);
}

static bool suspend(struct once__http_request *request, enum once__http_phase phase)
{
    if (!book(request->http))
        return false;
    request->phase = phase;
    MHD_suspend_connection(request->connection);
    return true;
}

void once__http_resume(struct once__http_request *request)
{
    struct once__http *http = request->http;

    MHD_resume_connection(request->connection);
    unbook(http);
}

static void told(struct once__call *call)
{
    struct once__http_request *request = call->user;

    request->reply_held = call->op.reply.result.size + call->op.reply.data.size;
    atomic_fetch_add(&request->http->held, request->reply_held);
    if (once__http_watch_end(request->http->watch, request))
        once__http_resume(request);
}

/* The connection is suspended. */
static void submit(struct once__http_request *request)
{
    struct once__http *http = request->http;
    struct once__call *call = &request->call;
    uint64_t watch_id = 0;

    call->done = told;
    call->user = request;
    request->phase = ONCE__HTTP_CALLING;
    if (call->wait_ms > 0)
        watch_id = once__http_watch_begin(http->watch, request);
    once__service_submit(http->setup.service, &call, 1);
    if (watch_id > 0)
        once__http_watch_arm(http->watch, watch_id);
}

static struct once__http_request *request_of(struct once__job *job)
{
    return (struct once__http_request *)(void *)((char *)job -
                                                 offsetof(struct once__http_request, job));
}

static void run_look(struct once__job *job)
{
    struct once__http_request *request = request_of(job);

    request->route->look(request);
    once__http_resume(request);
}

static void run_finish(struct once__job *job)
{
    struct once__http_request *request = request_of(job);

    request->route->finish(request);
    once__http_resume(request);
}

/* ---- From body to answer --------------------------------------------------------------------- */

/* Any thread. */
static enum once__http_next start(struct once__http_request *request)
{
    const struct once__http_route *route = request->route;
    struct once__http_defect defect = {.field = ""};
    int err;

    if (route->body) {
        err = once__http_body_read(route->body, once_buf_bytes(&request->body), &request->said,
                                   &defect);
        if (err == ONCE_ERR_INVALID)
            once__http_problem_field(request, &defect);
        else if (err != ONCE_OK)
            once__http_problem(request, ONCE__PROBLEM_OVERLOAD, once_err_text(err));
        if (err != ONCE_OK)
            return ONCE__HTTP_ANSWERED;
    }
    return route->start(request);
}

static void run_start(struct once__job *job)
{
    struct once__http_request *request = request_of(job);

    switch (start(request)) {
    case ONCE__HTTP_CALL:
        submit(request);
        return;
    case ONCE__HTTP_LOOK:
        request->route->look(request);
        break;
    case ONCE__HTTP_ANSWERED:
        break;
    }
    once__http_resume(request);
}

/* Suspends it and hands it to a lane; a full lane gives it back at once, with an answer. */
static enum MHD_Result on_lane(struct once__http_request *request,
                               void (*run)(struct once__job *job), enum once__http_phase phase)
{
    request->job = (struct once__job){.run = run};
    if (!suspend(request, phase))
        return MHD_NO;
    if (once__lane_add(request->http->setup.looks, &request->job) == ONCE_OK)
        return MHD_YES;
    once__http_problem(request, ONCE__PROBLEM_OVERLOAD,
                       "Too many requests wait to be worked on: ask again later.");
    once__http_resume(request);
    return MHD_YES;
}

static enum MHD_Result go(struct once__http_request *request)
{
    if (atomic_load(&request->http->held) > ONCE_UNREAD_SIZE_MAX) {
        once__http_problem(request, ONCE__PROBLEM_OVERLOAD,
                           "Too many large bodies and answers are under way: ask again later.");
        return send_answer(request);
    }
    if (request->body.size > LARGE_SIZE)
        return on_lane(request, run_start, ONCE__HTTP_STARTING);
    switch (start(request)) {
    case ONCE__HTTP_CALL:
        if (!suspend(request, ONCE__HTTP_CALLING))
            return MHD_NO;
        submit(request);
        return MHD_YES;
    case ONCE__HTTP_LOOK:
        return on_lane(request, run_look, ONCE__HTTP_WORKING);
    case ONCE__HTTP_ANSWERED:
        break;
    }
    return send_answer(request);
}

static enum MHD_Result finish(struct once__http_request *request)
{
    if (request->call.op.reply.result.size > LARGE_SIZE)
        return on_lane(request, run_finish, ONCE__HTTP_WORKING);
    request->route->finish(request);
    return send_answer(request);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Refused before its body: a small body is read and thrown away first, so that the connection can
 * be used again and the client, which may still be sending, sees the answer. */
static enum MHD_Result refuse(struct once__http_request *request)
{
    const char *length = once__http_header(request, "Content-Length");
    bool chunked = once__http_header(request, "Transfer-Encoding") != NULL;

    request->refused = true;
    request->phase = ONCE__HTTP_BODY;
    if (request->answer.close || chunked ||
        (length && strtoull(length, NULL, 10) > REFUSED_SIZE_MAX))
        return send_answer(request);
    return MHD_YES;
}

/* The login and the suspension come in any order: the second of the two resumes. */
static void meet(struct once__http_request *request)
{
    if (atomic_exchange(&request->login_met, true))
        once__http_resume(request);
}

static void login_done(struct once__login *login)
{
    meet(login->user);
}

static enum MHD_Result take_headers(struct once__http_request *request)
{
    if (!once__http_guard(request))
        return refuse(request);
    /* A login may come back from its lane before it is known here whether it went there. */
    if (!book(request->http))
        return MHD_NO;
    if (once__http_login(request, login_done)) {
        unbook(request->http);
        request->phase = ONCE__HTTP_BODY;
        return request->answer.status != 0 ? refuse(request) : MHD_YES;
    }
    request->phase = ONCE__HTTP_LOGIN;
    MHD_suspend_connection(request->connection);
    meet(request);
    return MHD_YES;
}

static enum MHD_Result take_body(struct once__http_request *request, const char *data, size_t *size)
{
    size_t piece = *size;

    *size = 0;
    request->body_seen += piece;
    if (request->refused)
        return request->body_seen > REFUSED_SIZE_MAX + ONCE_HTTP_BODY_SIZE_MAX ? MHD_NO : MHD_YES;
    if (request->body_seen > request->route->body_size_max) {
        once__http_problem(request, ONCE__PROBLEM_TOO_LARGE, "The body is larger than is taken.");
        request->refused = true;
        return MHD_YES;
    }
    if (!hold(request->http, piece)) {
        once__http_problem(request, ONCE__PROBLEM_OVERLOAD,
                           "Too many large bodies are under way: send it again later.");
        request->refused = true;
        return MHD_YES;
    }
    if (once_buf_append(&request->body, data, piece) != ONCE_OK) {
        atomic_fetch_sub(&request->http->held, piece);
        once__http_problem(request, ONCE__PROBLEM_OVERLOAD, once_err_text(ONCE_ERR_MEMORY));
        request->refused = true;
    }
    return MHD_YES;
}

static void read_from(struct once__http_request *request)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    socklen_t size;

    if (!info || !info->client_addr)
        return;
    size = info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                    : sizeof(struct sockaddr_in);
    if (getnameinfo(info->client_addr, size, request->from, sizeof request->from, NULL, 0,
                    NI_NUMERICHOST) != 0)
        request->from[0] = '\0';
}

static struct once__http_request *request_new(struct once__http *http,
                                              struct MHD_Connection *connection, const char *method,
                                              const char *path)
{
    struct once__http_request *request = calloc(1, sizeof *request);

    if (!request)
        return NULL;
    request->http = http;
    request->connection = connection;
    request->method = method;
    request->path = path;
    once_buf_init(&request->body, ONCE_HTTP_BODY_SIZE_MAX);
    read_from(request);
    pthread_mutex_lock(&http->lock);
    request->config = once__config_ref(http->config);
    pthread_mutex_unlock(&http->lock);
    atomic_fetch_add(&http->pending, 1);
    once__metrics_add(http->setup.metrics, ONCE__HTTP_REQUESTS, 1);
    return request;
}

enum MHD_Result once__http_handle(void *user, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **slot)
{
    struct once__http_request *request = *slot;

    (void)version;
    if (!request) {
        request = request_new(user, connection, method, path);
        if (!request)
            return MHD_NO;
        *slot = request;
        return take_headers(request);
    }
    switch (request->phase) {
    case ONCE__HTTP_HEADERS:
        return take_headers(request);
    case ONCE__HTTP_LOGIN: /* resumed */
        once__http_login_finish(request);
        if (request->answer.status != 0)
            return refuse(request);
        request->phase = ONCE__HTTP_BODY;
        return MHD_YES;
    case ONCE__HTTP_BODY:
        if (*data_size > 0)
            return take_body(request, data, data_size);
        return request->refused ? send_answer(request) : go(request);
    case ONCE__HTTP_CALLING:
        return finish(request);
    case ONCE__HTTP_STARTING:
    case ONCE__HTTP_WORKING:
        return send_answer(request);
    case ONCE__HTTP_DONE:
        break;
    }
    return MHD_NO;
}

void once__http_completed(void *user, struct MHD_Connection *connection, void **slot,
                          enum MHD_RequestTerminationCode how)
{
    struct once__http_request *request = *slot;

    (void)user;
    (void)connection;
    (void)how;
    if (!request)
        return;
    *slot = NULL;
    ONCE_ASSERT(!request->watched);
    let_go(request);
    once__metrics_add(request->http->setup.metrics, ONCE__BYTES_IN, (int64_t)request->body_seen);
    once_buf_release(&request->answer.body);
    once__http_said_release(&request->query);
    free(request->key);
    once__config_unref(request->config);
    atomic_fetch_sub(&request->http->pending, 1);
    free(request);
}
