/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds the answer back until its outcome is durable (INV-2): the header stays in r->headers_out,
 * the body is copied as it comes; at its end the outcome is recorded, and then all of it goes on.
 *
 *     EXECUTING ─header─▶ CAPTURING ─last byte, too large, or half─▶ HOLDING ─recorded─▶ TOLD
 *
 * Stands behind the copy filter and before every filter that changes an answer for this client
 * (ranges, compression, chunks), so what is kept is what the upstream said.
 */
#include "gate.h"

/* One of the bits that say that a filter holds something back. */
enum { GATE_BUFFERED = 0x08 };

static ngx_http_output_header_filter_pt next_header;
static ngx_http_output_body_filter_pt next_body;
static ngx_http_request_body_filter_pt next_request_body;

/* ---- Sending what was held ------------------------------------------------------------------- */

/* As if it had been sent. */
static void drop(ngx_chain_t *in)
{
    for (; in; in = in->next) {
        if (ngx_buf_in_memory(in->buf))
            in->buf->pos = in->buf->last;
        if (in->buf->in_file)
            in->buf->file_pos = in->buf->file_last;
    }
}

static bool replace_answer(struct gate_ctx *ctx, enum gate_problem problem, ngx_uint_t status)
{
    uint64_t retry_ms = problem == GATE_PROBLEM_UNREACHED ? 1000 : 0;
    ngx_chain_t *out = gate_answer_make(ctx->r, ctx->conf, problem, status, NULL, retry_ms);

    ctx->replaced = true;
    drop(ctx->out);
    ctx->out = NULL;
    ctx->r->http_version = ctx->http_version;
    if (!out)
        return false;
    ctx->out = out;
    return true;
}

/* Header and body, to the filters behind. What comes after it passes, unless the answer was
 * replaced: then it is dropped. */
static ngx_int_t send_held(struct gate_ctx *ctx)
{
    ngx_http_request_t *r = ctx->r;
    ngx_int_t rc;

    ctx->state = GATE_TOLD;
    r->buffered &= ~(unsigned)GATE_BUFFERED;
    rc = next_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK)
        return NGX_ERROR;
    if (r->header_only || !ctx->out)
        return rc;
    rc = next_body(r, ctx->out);
    ctx->out = NULL;
    return rc;
}

/* Is nginx still talking to it? Then nginx ends the request, and not we. */
static bool upstream_goes_on(const ngx_http_request_t *r)
{
    return r->upstream && r->upstream->cleanup;
}

/* The answer cannot be sent. An upstream that goes on finds out by the connection, and ends the
 * request; ended by us, it would be ended twice. */
static void give_up(ngx_http_request_t *r)
{
    if (upstream_goes_on(r))
        r->connection->error = 1;
    else
        ngx_http_finalize_request(r, NGX_ERROR);
}

/* Goes on with a request that waited for this: nginx's own writer ends it, or what reads the
 * upstream, which may have stopped when we took no more, goes on. */
static void go_on(struct gate_ctx *ctx)
{
    ngx_http_request_t *r = ctx->r;
    ngx_connection_t *c = r->connection;

    if (send_held(ctx) == NGX_ERROR)
        give_up(r);
    else
        r->write_event_handler(r);
    ngx_http_run_posted_requests(c);
}

/* ---- Recording ------------------------------------------------------------------------------- */

static void log_unrecorded(struct gate_ctx *ctx, const struct gate_verdict *verdict)
{
    ngx_log_error(NGX_LOG_ERR, ctx->r->connection->log, 0,
                  "once: the outcome of \"%*s\" in \"%*s\" (fence %uL) could not be recorded: %*s",
                  ctx->op->key.size, ctx->op->key.text, ctx->op->ns_size, ctx->op->ns,
                  ctx->op->fence, verdict->refused ? verdict->result.size : (size_t)9,
                  verdict->refused ? (const char *)verdict->result.data : "no answer");
    gate_count(ctx->r, GATE_COUNT_unrecorded);
}

static void recorded(void *user, const struct gate_verdict *verdict);

/* The server refuses to keep it: the bounds of its namespace are narrower than once_max_answer, or
 * its disk is full. That it was done fits always. */
static bool record_less(struct gate_ctx *ctx, const struct gate_verdict *verdict)
{
    struct once_bytes result;

    if (!verdict->refused || ctx->judged.outcome != ONCE_OUTCOME_STORE || ctx->too_big)
        return false;
    ctx->too_big = true;
    if (!gate_kept_write(ctx->r, NULL, ctx->out_size, true, &result) ||
        !gate_call_end(ctx->op, ONCE_OUTCOME_STORE, ctx->judged.status, result, recorded, ctx,
                       &ctx->call))
        return false;
    ngx_log_error(NGX_LOG_WARN, ctx->r->connection->log, 0,
                  "once: the answer of \"%*s\" in \"%*s\" is kept without its body: %*s",
                  ctx->op->key.size, ctx->op->key.text, ctx->op->ns_size, ctx->op->ns,
                  verdict->result.size, verdict->result.data);
    gate_count(ctx->r, GATE_COUNT_not_kept);
    ctx->asked_at = ngx_current_msec;
    return true;
}

static void recorded(void *user, const struct gate_verdict *verdict)
{
    struct gate_ctx *ctx = user;
    bool failed = verdict->none || verdict->refused;
    bool made = true;

    ctx->call = NULL;
    ctx->spent_ms += ngx_current_msec - ctx->asked_at;
    if (record_less(ctx, verdict))
        return;
    if (failed)
        log_unrecorded(ctx, verdict);
    if (failed && !ctx->conf->fail_open)
        made = replace_answer(ctx, GATE_PROBLEM_UNRECORDED, 0);
    else if (!failed && verdict->word != ONCE_DONE && verdict->word != ONCE_DOUBT)
        made = replace_answer(ctx, GATE_PROBLEM_STALE, 0);
    if (!made) {
        ngx_connection_t *c = ctx->r->connection;

        ctx->state = GATE_TOLD;
        give_up(ctx->r);
        ngx_http_run_posted_requests(c);
        return;
    }
    go_on(ctx);
}

static void count_outcome(struct gate_ctx *ctx)
{
    static const enum gate_count counts[] = {[ONCE_OUTCOME_STORE] = GATE_COUNT_stored,
                                             [ONCE_OUTCOME_RELEASE] = GATE_COUNT_released,
                                             [ONCE_OUTCOME_DOUBT] = GATE_COUNT_in_doubt};

    gate_count(ctx->r, counts[ctx->judged.outcome]);
    if (ctx->judged.outcome == ONCE_OUTCOME_STORE && ctx->too_big)
        gate_count(ctx->r, GATE_COUNT_not_kept);
    if (ctx->judged.outcome == ONCE_OUTCOME_DOUBT)
        ngx_log_error(NGX_LOG_WARN, ctx->r->connection->log, 0,
                      "once: \"%*s\" in \"%*s\" is in doubt (fence %uL): %s", ctx->op->key.size,
                      ctx->op->key.text, ctx->op->ns_size, ctx->op->ns, ctx->op->fence,
                      ctx->judged.what);
}

/* nginx's own error page says less than we know; one that was made for this stays. */
static bool explain(struct gate_ctx *ctx)
{
    const ngx_http_request_t *r = ctx->r;
    ngx_uint_t status = r->headers_out.status == 504 && !ctx->judged.half ? 504 : 0;

    if (!ctx->refused && (ctx->judged.status != 0 || (r->error_page && !ctx->judged.half)))
        return true;
    if (ctx->judged.outcome == ONCE_OUTCOME_DOUBT)
        return replace_answer(ctx, GATE_PROBLEM_UNKNOWN, status);
    return ctx->judged.outcome != ONCE_OUTCOME_RELEASE ||
           replace_answer(ctx, GATE_PROBLEM_UNREACHED, status);
}

/* Starts it; the answer is held until it is done. */
static ngx_int_t record(struct gate_ctx *ctx)
{
    ngx_http_request_t *r = ctx->r;
    struct once_bytes result = {NULL, 0};

    if (ctx->timer.timer_set)
        ngx_del_timer(&ctx->timer);
    ctx->state = GATE_HOLDING;
    r->buffered |= GATE_BUFFERED;
    count_outcome(ctx);
    if (ctx->judged.outcome == ONCE_OUTCOME_STORE) {
        if (!gate_kept_write(r, ctx->out, ctx->out_size, ctx->too_big, &result))
            return NGX_ERROR;
    } else if (ctx->judged.what) {
        result = (struct once_bytes){(const uint8_t *)ctx->judged.what,
                                     ngx_strlen(ctx->judged.what)};
    }
    if (!explain(ctx))
        return NGX_ERROR;
    if (ctx->judged.outcome == ONCE_OUTCOME_DOUBT && !ctx->replaced &&
        !(gate_header_add(r, "Stripe-Should-Retry", "false", 5) &&
          gate_header_add(r, "X-Should-Retry", "false", 5)))
        return NGX_ERROR;
    ctx->asked_at = ngx_current_msec;
    if (!gate_call_end(ctx->op, ctx->judged.outcome, ctx->judged.status, result, recorded, ctx,
                       &ctx->call))
        return NGX_ERROR;
    return NGX_AGAIN;
}

/* ---- The filters ----------------------------------------------------------------------------- */

/* nginx takes 100 and 103 for the answer and what comes behind for its body, and lets 101 through
 * to the client past all filters. */
static bool is_no_answer(const struct gate_ctx *ctx)
{
    return ctx->judged.status > 0 && ctx->judged.status < 200 && !ctx->refused;
}

static ngx_int_t filter_header(ngx_http_request_t *r)
{
    struct gate_ctx *ctx = r == r->main ? gate_ctx_of(r) : NULL;

    if (!ctx || ctx->state != GATE_EXECUTING)
        return next_header(r);
    ctx->judged = gate_judge(r, ctx->conf);
    if (is_no_answer(ctx)) {
        ctx->refused = true;
        return NGX_HTTP_BAD_GATEWAY; /* nginx ends the upstream, and comes again */
    }
    ctx->state = GATE_CAPTURING;
    r->allow_ranges = 0;
    r->filter_need_in_memory = 1;
    if (r->header_only)
        return record(ctx) == NGX_ERROR ? NGX_ERROR : NGX_OK;
    return NGX_OK;
}

static bool add_buf(struct gate_ctx *ctx, ngx_buf_t *buf)
{
    ngx_chain_t *link = buf ? ngx_alloc_chain_link(ctx->r->pool) : NULL;

    if (!link)
        return false;
    link->buf = buf;
    link->next = NULL;
    *ctx->out_last = link;
    ctx->out_last = &link->next;
    return true;
}

/* Copies what came, and says that it was taken. */
static bool take(struct gate_ctx *ctx, ngx_chain_t *in, bool *ret_flush)
{
    for (ngx_chain_t *each = in; each; each = each->next) {
        const ngx_buf_t *buf = each->buf;
        size_t size = ngx_buf_in_memory(buf) ? (size_t)(buf->last - buf->pos) : 0;

        if (buf->last_buf)
            ctx->whole = true;
        if (buf->flush && !buf->last_buf)
            *ret_flush = true;
        if (size > 0) {
            ngx_buf_t *copy = ngx_create_temp_buf(ctx->r->pool, size);

            if (!copy || !add_buf(ctx, copy))
                return false;
            copy->last = ngx_cpymem(copy->last, buf->pos, size);
            ctx->out_size += size;
        }
    }
    drop(in);
    return true;
}

/* The end of the answer, for the filters behind. */
static bool add_last(struct gate_ctx *ctx)
{
    ngx_buf_t *buf = ngx_calloc_buf(ctx->r->pool);

    if (!buf || !add_buf(ctx, buf))
        return false;
    buf->last_buf = 1;
    buf->last_in_chain = 1;
    return true;
}

/* Comes while we wait, behind an answer that is too large to be kept. It stays where it is, so that
 * nginx reads no more than its buffers take. */
static ngx_int_t hold(struct gate_ctx *ctx, ngx_chain_t *in)
{
    for (; in; in = in->next) {
        if (!add_buf(ctx, in->buf))
            return NGX_ERROR;
    }
    return NGX_AGAIN;
}

/* The upstream is finished with, and no end came: it broke off (see
 * ngx_http_upstream_finalize_request). */
static bool broke_off(const struct gate_ctx *ctx, bool flush)
{
    const ngx_http_upstream_t *u = ctx->r->upstream;

    return !ctx->whole && flush && u && !u->cleanup;
}

static ngx_int_t filter_body(ngx_http_request_t *r, ngx_chain_t *in)
{
    struct gate_ctx *ctx = r == r->main ? gate_ctx_of(r) : NULL;
    bool flush = false;

    if (ctx && ctx->replaced) {
        drop(in);
        in = NULL;
    }
    if (ctx && ctx->state == GATE_HOLDING)
        return hold(ctx, in);
    if (!ctx || ctx->state != GATE_CAPTURING)
        return next_body(r, in);
    if (!take(ctx, in, &flush) || (ctx->whole && !add_last(ctx)))
        return NGX_ERROR;
    if (broke_off(ctx, flush)) {
        ctx->judged = (struct gate_judgement){.outcome = ONCE_OUTCOME_DOUBT,
                                              .half = true,
                                              .what = "the upstream gave half an answer"};
        return record(ctx);
    }
    ctx->too_big = ctx->out_size > ctx->conf->answer_max;
    return ctx->whole || ctx->too_big ? record(ctx) : NGX_OK;
}

/* The body of a request. What is over the bound is read, so that the client sees the answer, but
 * not saved: only its end is passed on. */
static ngx_int_t filter_request_body(ngx_http_request_t *r, ngx_chain_t *in)
{
    struct gate_ctx *ctx = r == r->main ? gate_ctx_of(r) : NULL;
    ngx_chain_t end = {.buf = NULL, .next = NULL};

    if (!ctx || ctx->state != GATE_READING)
        return next_request_body(r, in);
    for (ngx_chain_t *link = in; link; link = link->next)
        ctx->in_size += (size_t)ngx_buf_size(link->buf);
    if (ctx->in_size <= ctx->conf->body_max)
        return next_request_body(r, in);
    for (; in; in = in->next) {
        in->buf->pos = in->buf->last;
        if (in->buf->last_buf && !(end.buf = ngx_calloc_buf(r->pool)))
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (end.buf)
        end.buf->last_buf = 1;
    return next_request_body(r, end.buf ? &end : NULL);
}

ngx_int_t gate_filter_init(ngx_conf_t *cf)
{
    (void)cf;
    next_header = ngx_http_top_header_filter;
    ngx_http_top_header_filter = filter_header;
    next_body = ngx_http_top_body_filter;
    ngx_http_top_body_filter = filter_body;
    next_request_body = ngx_http_top_request_body_filter;
    ngx_http_top_request_body_filter = filter_request_body;
    return NGX_OK;
}
