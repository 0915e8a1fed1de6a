/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a request: its key, its body, its fingerprint, a begin; then what the verdict says.
 *
 *     no key ─▶ 400 or on its way        EXECUTE ─▶ to the upstream, with fence and attempt
 *     READING ─▶ ASKING ─▶ verdict       REPLAY  ─▶ the kept answer
 *                  ▲                     BUSY    ─▶ 409, or WAITING
 *                  └── WAITING ◀──────── others  ─▶ refused
 *
 * Runs behind access control and limits, before the content handler. Decides nothing: the server
 * does.
 */
#include "gate.h"

#include <openssl/sha.h>

enum { PAUSE_MS_MIN = 10, PAUSE_MS_MAX = 250, PIECE_SIZE = 65536 };

static void ask(struct gate_ctx *ctx);

/* ---- The context ----------------------------------------------------------------------------- */

/* The request ends before its operation did. What is known is recorded; nobody waits for it. */
static void request_ends(void *data)
{
    struct gate_ctx *ctx = data;

    if (ctx->timer.timer_set)
        ngx_del_timer(&ctx->timer);
    if (ctx->call) {
        gate_call_drop(ctx->call);
    } else if (ctx->state == GATE_EXECUTING || ctx->state == GATE_CAPTURING ||
               ctx->state == GATE_HOLDING) {
        struct gate_judgement judged = gate_judge(ctx->r, ctx->conf);

        if (judged.outcome == ONCE_OUTCOME_STORE) { /* an answer was on its way */
            judged.outcome = ONCE_OUTCOME_DOUBT;
            judged.what = "the request ended before its answer did";
        }
        if (ctx->state != GATE_HOLDING)
            gate_count(ctx->r, judged.outcome == ONCE_OUTCOME_RELEASE ? GATE_COUNT_released
                                                                      : GATE_COUNT_in_doubt);
        (void)gate_call_end(ctx->op, judged.outcome, 0, once_bytes_of(judged.what), NULL, NULL,
                            NULL);
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0, "once: \"%*s\" in \"%*s\" (fence %uL): %s",
                      ctx->op->key.size, ctx->op->key.text, ctx->op->ns_size, ctx->op->ns,
                      ctx->op->fence, judged.what);
    }
    gate_op_unref(ctx->op);
}

struct gate_ctx *gate_ctx_of(ngx_http_request_t *r)
{
    struct gate_ctx *ctx = ngx_http_get_module_ctx(r, ngx_http_once_module);

    if (ctx || (!r->internal && !r->filter_finalize))
        return ctx;
    /* An internal redirect forgets contexts; the pool does not. */
    for (ngx_pool_cleanup_t *cleanup = r->pool->cleanup; cleanup; cleanup = cleanup->next) {
        if (cleanup->handler == request_ends) {
            ngx_http_set_ctx(r, cleanup->data, ngx_http_once_module);
            return cleanup->data;
        }
    }
    return NULL;
}

static struct gate_ctx *make_ctx(ngx_http_request_t *r, const struct gate_conf *conf)
{
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(r->pool, sizeof(struct gate_ctx));
    struct gate_ctx *ctx;

    if (!cleanup)
        return NULL;
    ctx = cleanup->data;
    ngx_memzero(ctx, sizeof(*ctx));
    ctx->op = gate_op_new();
    if (!ctx->op)
        return NULL;
    ctx->r = r;
    ctx->conf = conf;
    ctx->method = r->method;
    ctx->http_version = r->http_version;
    ctx->out_last = &ctx->out;
    ctx->pause_ms = PAUSE_MS_MIN;
    ctx->timer.data = ctx;
    ctx->timer.log = r->connection->log;
    cleanup->handler = request_ends;
    ngx_http_set_ctx(r, ctx, ngx_http_once_module);
    return ctx;
}

/* ---- The key and its scope ------------------------------------------------------------------- */

static bool name_is(const ngx_str_t *name, const char *text)
{
    return name->len == ngx_strlen(text) &&
           ngx_strncasecmp(name->data, (u_char *)text, name->len) == 0;
}

/* The header's value, and how often it is there. */
static ngx_uint_t find_header(ngx_http_request_t *r, const char *name, ngx_str_t *ret_value)
{
    ngx_uint_t count = 0;

    for (ngx_list_part_t *part = &r->headers_in.headers.part; part; part = part->next) {
        ngx_table_elt_t *headers = part->elts;

        for (ngx_uint_t i = 0; i < part->nelts; i++) {
            if (headers[i].hash != 0 && name_is(&headers[i].key, name) && count++ == 0)
                *ret_value = headers[i].value;
        }
    }
    return count;
}

/* "namespace", or "namespace~" and the beginning of the scope's hash: who the caller is stays out
 * of the store. */
static const char *read_scope(struct gate_ctx *ctx)
{
    struct gate_op *op = ctx->op;
    ngx_str_t ns, scope = ngx_null_string;
    u_char digest[SHA256_DIGEST_LENGTH];
    struct once_defect defect = {.what = "it cannot be evaluated"};

    if (ngx_http_complex_value(ctx->r, ctx->conf->ns, &ns) != NGX_OK)
        return defect.what;
    if (ctx->conf->scope && ngx_http_complex_value(ctx->r, ctx->conf->scope, &scope) != NGX_OK)
        return defect.what;
    if (ns.len > ONCE_NAMESPACE_SIZE_MAX - (ctx->conf->scope ? GATE_SCOPE_ROOM : 0))
        return "it is too long";
    ngx_memcpy(op->ns, ns.data, ns.len);
    op->ns_size = ns.len;
    if (ctx->conf->scope) {
        op->ns[op->ns_size++] = '~';
        SHA256(scope.data, scope.len, digest);
        ngx_hex_dump((u_char *)op->ns + op->ns_size, digest, GATE_SCOPE_BYTES);
        op->ns_size += 2 * GATE_SCOPE_BYTES;
    }
    if (once_namespace_check((struct once_bytes){(const uint8_t *)op->ns, op->ns_size}, &defect) !=
        ONCE_OK)
        return defect.what;
    return NULL;
}

/* Unique among all workers of all machines: the same owner asking again would be given the same
 * EXECUTE. */
static bool make_owner(struct gate_op *op)
{
    static struct once_key worker;
    static ngx_pid_t pid;
    static uint64_t count;

    if (pid != ngx_pid) {
        if (once_key_uuid4(&worker) != ONCE_OK)
            return false;
        pid = ngx_pid;
    }
    op->owner_size = (size_t)(ngx_snprintf((u_char *)op->owner, sizeof(op->owner), "ngx.%*s.%uL",
                                           worker.size, worker.text, ++count) -
                              (u_char *)op->owner);
    return true;
}

/* ---- The fingerprint ------------------------------------------------------------------------- */

/* A piece of a body that nginx has put into a file. It is read in a blocking way, as nginx does. */
static bool add_file(struct once_fingerprinter *printer, ngx_buf_t *buf, u_char *piece)
{
    off_t at = buf->file_pos;

    while (at < buf->file_last) {
        size_t size = (size_t)ngx_min((off_t)PIECE_SIZE, buf->file_last - at);
        ssize_t n = ngx_read_file(buf->file, piece, size, at);

        if (n <= 0 || once_fingerprinter_body(printer, (struct once_bytes){piece, (size_t)n}) < 0)
            return false;
        at += n;
    }
    return true;
}

static bool add_body(ngx_http_request_t *r, struct once_fingerprinter *printer)
{
    u_char *piece = NULL;

    for (ngx_chain_t *in = r->request_body ? r->request_body->bufs : NULL; in; in = in->next) {
        ngx_buf_t *buf = in->buf;

        if (buf->in_file && !ngx_buf_in_memory(buf)) {
            if (!piece && !(piece = ngx_palloc(r->pool, PIECE_SIZE)))
                return false;
            if (!add_file(printer, buf, piece))
                return false;
        } else if (once_fingerprinter_body(
                       printer, (struct once_bytes){buf->pos, (size_t)(buf->last - buf->pos)}) <
                   0) {
            return false;
        }
    }
    return true;
}

static bool add_headers(ngx_http_request_t *r, const struct gate_conf *conf,
                        struct once_fingerprinter *printer)
{
    const ngx_str_t *names = conf->fp_headers ? conf->fp_headers->elts : NULL;

    for (ngx_uint_t i = 0; names && i < conf->fp_headers->nelts; i++) {
        ngx_str_t value = ngx_null_string;

        if (find_header(r, (const char *)names[i].data, &value) > 0 &&
            once_fingerprinter_header(printer, (struct once_bytes){names[i].data, names[i].len},
                                      (struct once_bytes){value.data, value.len}) < 0)
            return false;
    }
    return true;
}

/* In this form; false: it has none. */
static bool fingerprint_as(struct gate_ctx *ctx, enum once_body_form form)
{
    ngx_http_request_t *r = ctx->r;
    u_char *end = r->unparsed_uri.data + r->unparsed_uri.len;
    u_char *query = ngx_strlchr(r->unparsed_uri.data, end, '?');
    u_char *path_end = query ? query : end;
    struct once_fingerprint_spec spec = {
        .method = {r->method_name.data, r->method_name.len},
        .path = {r->unparsed_uri.data, (size_t)(path_end - r->unparsed_uri.data)},
        .body_form = form};
    struct once_fingerprinter *printer;
    bool good;

    if (query)
        spec.query = (struct once_bytes){query + 1, (size_t)(end - query - 1)};
    if (once_fingerprinter_new(&spec, &printer) != ONCE_OK)
        return false;
    good = add_headers(r, ctx->conf, printer) && add_body(r, printer) &&
           once_fingerprinter_finish(printer, &ctx->op->fingerprint, NULL) == ONCE_OK;
    once_fingerprinter_free(printer);
    return good;
}

/* A body that is no JSON counts byte for byte. */
static bool fingerprint(struct gate_ctx *ctx)
{
    return (ctx->conf->body_form == ONCE_BODY_JSON && fingerprint_as(ctx, ONCE_BODY_JSON)) ||
           fingerprint_as(ctx, ONCE_BODY_RAW);
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

static bool set_value(ngx_http_request_t *r, ngx_table_elt_t *header, uint64_t value)
{
    u_char *text = ngx_pnalloc(r->pool, 24);

    if (!text)
        return false;
    header->value.data = text;
    header->value.len = (size_t)(ngx_sprintf(text, "%uL", value) - text);
    return true;
}

/* Sets a header of the request wherever the client has sent it; ret_found says whether it has. */
static bool set_header(ngx_http_request_t *r, const char *name, uint64_t value, bool *ret_found)
{
    *ret_found = false;
    for (ngx_list_part_t *part = &r->headers_in.headers.part; part; part = part->next) {
        ngx_table_elt_t *headers = part->elts;

        for (ngx_uint_t i = 0; i < part->nelts; i++) {
            if (!name_is(&headers[i].key, name))
                continue;
            *ret_found = true;
            if (!set_value(r, &headers[i], value))
                return false;
        }
    }
    return true;
}

static bool push_header(ngx_http_request_t *r, const char *name, const char *low, uint64_t value)
{
    ngx_table_elt_t *header;
    bool found;

    if (!set_header(r, name, value, &found))
        return false;
    if (found)
        return true;
    header = ngx_list_push(&r->headers_in.headers);
    if (!header)
        return false;
    ngx_memzero(header, sizeof(*header));
    header->key.data = (u_char *)name;
    header->key.len = ngx_strlen(name);
    header->lowcase_key = (u_char *)low;
    header->hash = ngx_hash_key((u_char *)low, ngx_strlen(low));
    return set_value(r, header, value);
}

/* The upstream must not take a client's word for a fence: 0 is never one. */
static bool disarm(ngx_http_request_t *r)
{
    bool found;

    return set_header(r, "Once-Fence", 0, &found) && set_header(r, "Once-Attempt", 0, &found);
}

static void renew(ngx_event_t *event)
{
    struct gate_ctx *ctx = event->data;

    (void)gate_call_renew(ctx->op); /* if it fails, the next one, or the end of the lease */
    ngx_add_timer(&ctx->timer, ctx->op->lease / 3 + 1);
}

static void execute(struct gate_ctx *ctx)
{
    ngx_http_request_t *r = ctx->r;

    gate_count(r, GATE_COUNT_execute);
    ctx->state = GATE_EXECUTING;
    if (!push_header(r, "Once-Fence", "once-fence", ctx->op->fence) ||
        !push_header(r, "Once-Attempt", "once-attempt", ctx->op->attempt)) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }
    ctx->timer.handler = renew;
    ngx_add_timer(&ctx->timer, ctx->op->lease / 3 + 1);
    r->preserve_body = 1;
    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
}

/* The result of someone who resolved it by hand is only a body. */
static void kept_by_hand(ngx_http_request_t *r, int code, struct once_bytes *body,
                         struct once_bytes result)
{
    static const ngx_str_t json = ngx_string("application/json");
    static const ngx_str_t text = ngx_string("text/plain");
    bool is_json = result.size > 0 && (result.data[0] == '{' || result.data[0] == '[');

    ngx_http_clean_header(r);
    r->headers_out.status = code >= 200 && code <= 599 ? (ngx_uint_t)code : 200;
    r->headers_out.content_type = is_json ? json : text;
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    *body = result;
}

static ngx_int_t replay(struct gate_ctx *ctx, const struct gate_verdict *verdict)
{
    ngx_http_request_t *r = ctx->r;
    struct once_bytes body = {NULL, 0};
    ngx_chain_t out = {.next = NULL};
    bool lost = false;
    ngx_int_t rc;

    gate_count(r, GATE_COUNT_replay);
    if (!gate_kept_read(r, verdict->result, &body, &lost))
        kept_by_hand(r, verdict->code, &body, verdict->result);
    if (lost) {
        ngx_chain_t *made = gate_answer_make(r, ctx->conf, GATE_PROBLEM_NOT_KEPT,
                                             r->headers_out.status, NULL, 0);

        if (!made)
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        out.buf = made->buf;
    } else {
        out.buf = ngx_create_temp_buf(r->pool, body.size > 0 ? body.size : 1);
        if (!out.buf)
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        if (body.size > 0)
            out.buf->last = ngx_cpymem(out.buf->pos, body.data, body.size);
        else
            out.buf->temporary = 0; /* nothing but the end */
        out.buf->last_buf = 1;
        out.buf->last_in_chain = 1;
        if (r->headers_out.status != NGX_HTTP_NO_CONTENT &&
            r->headers_out.status != NGX_HTTP_NOT_MODIFIED)
            r->headers_out.content_length_n = (off_t)body.size;
    }
    gate_status_line(r);
    if (!gate_header_add(r, "Idempotency-Replayed", "true", 4) ||
        (ctx->conf->profile == GATE_STRIPE &&
         !gate_header_add(r, "Idempotent-Replayed", "true", 4)))
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    r->disable_not_modified = 1; /* If-Match and the like were for the upstream, the first time */
    rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only)
        return rc;
    return ngx_http_output_filter(r, &out);
}

static void ask_again(ngx_event_t *event)
{
    struct gate_ctx *ctx = event->data;
    ngx_connection_t *c = ctx->r->connection;

    ngx_http_set_log_request(c->log, ctx->r);
    ask(ctx);
    ngx_http_run_posted_requests(c);
}

/* BUSY: asked again after pauses that grow, as long as the client may be held. */
static bool wait_more(struct gate_ctx *ctx)
{
    ngx_msec_int_t left = (ngx_msec_int_t)(ctx->wait_until - ngx_current_msec);

    if (left <= 0)
        return false;
    if (ctx->state != GATE_WAITING && ctx->pause_ms == PAUSE_MS_MIN)
        gate_count(ctx->r, GATE_COUNT_waited);
    ctx->state = GATE_WAITING;
    ctx->r->read_event_handler = ngx_http_test_reading; /* a client that goes is not waited for */
    ctx->timer.handler = ask_again;
    ngx_add_timer(&ctx->timer, ngx_min(ctx->pause_ms, (ngx_msec_t)left));
    ctx->pause_ms = ngx_min(ctx->pause_ms * 3 / 2, (ngx_msec_t)PAUSE_MS_MAX);
    return true;
}

/* The server of Once did not answer, or refuses us. */
static void unavailable(struct gate_ctx *ctx, const struct gate_verdict *verdict)
{
    ngx_http_request_t *r = ctx->r;

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "once: the server \"%V\" %s%*s; the request is %s", &ctx->op->server->name,
                  verdict->refused ? "says: " : "did not answer", verdict->result.size,
                  verdict->result.data, ctx->conf->fail_open ? "passed on unprotected" : "refused");
    if (!ctx->conf->fail_open) {
        if (verdict->maybe_begun)
            gate_call_withdraw(ctx->op);
        gate_count(r, GATE_COUNT_unavailable);
        ctx->state = GATE_TOLD;
        ngx_http_finalize_request(
            r, gate_answer_send(r, ctx->conf, GATE_PROBLEM_UNAVAILABLE, NULL, 1000));
        return;
    }
    gate_count(r, GATE_COUNT_open);
    ctx->verdict = "OPEN";
    ctx->open = true;
    ctx->state = GATE_TOLD;
    r->preserve_body = 1;
    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
}

static void refuse(struct gate_ctx *ctx, enum gate_problem problem, enum gate_count count,
                   uint64_t retry_ms)
{
    gate_count(ctx->r, count);
    ctx->state = GATE_TOLD;
    ngx_http_finalize_request(ctx->r, gate_answer_send(ctx->r, ctx->conf, problem, NULL, retry_ms));
}

static void act(struct gate_ctx *ctx, const struct gate_verdict *verdict)
{
    ctx->verdict = once_word_name(verdict->word);
    switch ((int)verdict->word) {
    case ONCE_EXECUTE:
        execute(ctx);
        return;
    case ONCE_REPLAY:
        ctx->state = GATE_TOLD;
        ngx_http_finalize_request(ctx->r, replay(ctx, verdict));
        return;
    case ONCE_BUSY:
        if (!wait_more(ctx))
            refuse(ctx, GATE_PROBLEM_BUSY, GATE_COUNT_busy, ngx_max(verdict->retry_ms, 1));
        return;
    case ONCE_MISMATCH:
        refuse(ctx, GATE_PROBLEM_MISMATCH, GATE_COUNT_mismatch, 0);
        return;
    case ONCE_TOO_OLD:
        refuse(ctx, GATE_PROBLEM_TOO_OLD, GATE_COUNT_too_old, 0);
        return;
    default:
        refuse(ctx, GATE_PROBLEM_DOUBT, GATE_COUNT_doubt, 0);
    }
}

/* The server refuses the key itself: the client's mistake, whatever once_fail says. */
static bool refuses_key(const struct gate_verdict *verdict)
{
    static const char code[] = "(ERR_KEY_FUTURE)";
    size_t size = sizeof(code) - 1;

    return verdict->refused && verdict->result.size >= size &&
           ngx_memcmp(verdict->result.data + verdict->result.size - size, code, size) == 0;
}

static void born_in_the_future(struct gate_ctx *ctx)
{
    gate_count(ctx->r, GATE_COUNT_bad_key);
    ctx->state = GATE_TOLD;
    ngx_http_finalize_request(
        ctx->r, gate_answer_send(ctx->r, ctx->conf, GATE_PROBLEM_MALFORMED,
                                 "the key (UUIDv7) says that it was born more than 24 h in the "
                                 "future: check the clock of the machine that made it",
                                 0));
}

static void begun(void *user, const struct gate_verdict *verdict)
{
    struct gate_ctx *ctx = user;
    ngx_connection_t *c = ctx->r->connection;

    ctx->call = NULL;
    ctx->spent_ms += ngx_current_msec - ctx->asked_at;
    ngx_http_set_log_request(c->log, ctx->r);
    if (refuses_key(verdict))
        born_in_the_future(ctx);
    else if (verdict->none || verdict->refused)
        unavailable(ctx, verdict);
    else
        act(ctx, verdict);
    ngx_http_run_posted_requests(c);
}

static void ask(struct gate_ctx *ctx)
{
    ctx->state = GATE_ASKING;
    ctx->asked_at = ngx_current_msec;
    if (!gate_call_begin(ctx->op, begun, ctx, &ctx->call))
        ngx_http_finalize_request(ctx->r, NGX_HTTP_INTERNAL_SERVER_ERROR);
}

/* ---- Arriving -------------------------------------------------------------------------------- */

static void body_is_there(ngx_http_request_t *r)
{
    struct gate_ctx *ctx = gate_ctx_of(r);

    if (ctx->in_size > ctx->conf->body_max) {
        ctx->state = GATE_TOLD;
        ngx_http_finalize_request(r, gate_answer_send(r, ctx->conf, GATE_PROBLEM_BODY, NULL, 0));
        return;
    }
    if (!fingerprint(ctx)) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }
    ctx->wait_until = ngx_current_msec + ctx->conf->wait;
    ask(ctx);
}

/* An answer of our own in place of the content: the phases end here. */
static ngx_int_t answer_now(ngx_http_request_t *r, const struct gate_conf *conf,
                            enum gate_problem problem, const char *detail)
{
    ngx_http_finalize_request(r, gate_answer_send(r, conf, problem, detail, 0));
    return NGX_DONE;
}

static ngx_int_t start(ngx_http_request_t *r, struct gate_ctx *ctx)
{
    const struct gate_conf *conf = ctx->conf;
    const char *what = read_scope(ctx);
    ngx_int_t rc;

    if (what || !make_owner(ctx->op)) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0, "once: namespace: %s",
                      what ? what : "no random bytes");
        ctx->state = GATE_TOLD;
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ctx->op->server = conf->server;
    ctx->op->ttl = conf->ttl;
    ctx->op->lease = conf->lease;
    ctx->op->doubt = conf->doubt;
    if (r->headers_in.content_length_n > (off_t)conf->body_max) {
        ctx->state = GATE_TOLD;
        return answer_now(r, conf, GATE_PROBLEM_BODY, NULL);
    }
    r->request_body_in_single_buf = 0;
    r->write_event_handler = ngx_http_request_empty_handler; /* the phases rest until a verdict */
    rc = ngx_http_read_client_request_body(r, body_is_there);
    if (rc >= NGX_HTTP_SPECIAL_RESPONSE)
        return rc;
    ngx_http_finalize_request(r, NGX_DONE);
    return NGX_DONE;
}

/* An error page, or whatever sends a request on inside of nginx, has come to a location that makes
 * its answer itself: would it ask for the same again, without our knowing what became of it? */
static bool asks_again(ngx_http_request_t *r, const struct gate_ctx *ctx)
{
    return r->upstream_states && r->content_handler && r->method == ctx->method &&
           gate_judge(r, ctx->conf).outcome == ONCE_OUTCOME_DOUBT;
}

/* A request that we know: to the upstream, or to an error page, in this location or in another. */
static ngx_int_t pass(ngx_http_request_t *r, struct gate_ctx *ctx, const struct gate_conf *conf)
{
    if (r != r->main)
        return NGX_DECLINED;
    if (ctx->state < GATE_EXECUTING)
        ctx->state = GATE_TOLD;
    if (ctx->state != GATE_EXECUTING) /* it never began: an error page is no way around us */
        return ctx->open || r->post_action || !r->content_handler || r->method != ctx->method
                   ? NGX_DECLINED
                   : NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (asks_again(r, ctx)) {
        ctx->refused = true;
        return NGX_HTTP_BAD_GATEWAY;
    }
    if (conf != ctx->conf)
        gate_conf_guard(r, ctx->conf);
    return NGX_DECLINED;
}

ngx_int_t gate_path_handler(ngx_http_request_t *r)
{
    const struct gate_conf *conf = ngx_http_get_module_loc_conf(r, ngx_http_once_module);
    struct gate_ctx *ctx = gate_ctx_of(r);
    struct once_defect defect;
    struct once_key key;
    ngx_str_t value = ngx_null_string;
    ngx_uint_t count;

    if (ctx)
        return pass(r, ctx, conf);
    if (r != r->main || conf->mode == GATE_OFF)
        return NGX_DECLINED;
    if (!disarm(r))
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (!(r->method & conf->methods))
        return NGX_DECLINED;
    count = find_header(r, "Idempotency-Key", &value);
    if (count == 0 && conf->mode == GATE_ON)
        return NGX_DECLINED;
    if (count == 0) {
        gate_count(r, GATE_COUNT_bad_key);
        return answer_now(r, conf, GATE_PROBLEM_MISSING, NULL);
    }
    defect.what = "Idempotency-Key is there more than once";
    if (count > 1 ||
        once_key_parse_header((struct once_bytes){value.data, value.len}, &key, &defect) < 0) {
        gate_count(r, GATE_COUNT_bad_key);
        return answer_now(r, conf, GATE_PROBLEM_MALFORMED, defect.what);
    }
    ctx = make_ctx(r, conf);
    if (!ctx)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    ctx->op->key = key;
    return start(r, ctx);
}
