/* SPDX-License-Identifier: Apache-2.0
 *
 * What the gateway says itself: problem details (RFC 9457) in the IETF profile, Stripe's error
 * objects and statuses in the Stripe profile. The texts are ours; nothing of a request is repeated
 * in them.
 */
#include "gate.h"

static const struct known {
    ngx_uint_t status;
    ngx_uint_t stripe_status;
    const char *type; /* behind "urn:once:problem:" */
    const char *title;
    const char *detail;
    const char *verdict; /* NULL: none */
    const char *stripe_type;
    const char *stripe_code; /* NULL: none */
    bool final;              /* a retry with this key gets the same: clients are told not to */
} problems[] = {
    [GATE_PROBLEM_MISSING] = {400, 400, "key-missing", "Idempotency-Key is missing",
                              "This path needs an Idempotency-Key header: a new key for each "
                              "operation, the same one for its retries.",
                              NULL, "invalid_request_error", NULL, true},
    [GATE_PROBLEM_MALFORMED] = {400, 400, "key-malformed", "Idempotency-Key is malformed", NULL,
                                NULL, "invalid_request_error", NULL, true},
    [GATE_PROBLEM_BODY] = {413, 400, "too-large", "The request is too large",
                           "The body is larger than this path takes with an Idempotency-Key.", NULL,
                           "invalid_request_error", NULL, true},
    [GATE_PROBLEM_BUSY] = {409, 409, "busy", "A request with this key is running",
                           "The first request with this Idempotency-Key has not ended: ask again "
                           "after the time in Retry-After.",
                           "BUSY", "idempotency_error", "idempotency_key_in_use", false},
    [GATE_PROBLEM_MISMATCH] = {422, 400, "mismatch", "The key belongs to another request",
                               "This Idempotency-Key was used for another request. A retry must "
                               "be the same request; another one needs a key of its own.",
                               "MISMATCH", "idempotency_error", NULL, true},
    [GATE_PROBLEM_DOUBT] = {409, 409, "doubt", "The outcome is in doubt",
                            "A request with this key was started and its outcome is not known. It "
                            "is not done again by itself: someone has to look, and resolve it.",
                            "DOUBT", "idempotency_error", "idempotency_in_doubt", true},
    [GATE_PROBLEM_TOO_OLD] = {422, 400, "too-old", "The key is too old",
                              "This key is older than answers are kept: whether it was used cannot "
                              "be known any more.",
                              "TOO_OLD", "idempotency_error", "idempotency_key_too_old", true},
    [GATE_PROBLEM_UNAVAILABLE] = {503, 503, "unavailable", "Duplicates cannot be told apart now",
                                  "The store of keys does not answer; nothing was done. Ask again.",
                                  NULL, "api_error", NULL, false},
    [GATE_PROBLEM_UNRECORDED] = {503, 503, "unrecorded", "The outcome could not be recorded",
                                 "The request was carried out, but its answer could not be kept: "
                                 "it is in doubt until someone resolves it.",
                                 "DOUBT", "api_error", "idempotency_in_doubt", true},
    [GATE_PROBLEM_STALE] = {409, 409, "stale", "The operation was ended by someone else",
                            "While this request ran, the operation was resolved or taken over. Ask "
                            "again to get its answer.",
                            "STALE", "idempotency_error", NULL, false},
    [GATE_PROBLEM_UNREACHED] = {502, 502, "unreached", "The service was not reached",
                                "The service could not be asked; nothing was done. Ask again.",
                                NULL, "api_error", NULL, false},
    [GATE_PROBLEM_UNKNOWN] = {502, 502, "doubt", "The outcome is in doubt",
                              "The service was asked and gave no whole answer: nobody knows "
                              "whether it was done. It is not done again by itself.",
                              "DOUBT", "api_error", "idempotency_in_doubt", true},
    [GATE_PROBLEM_NOT_KEPT] = {200, 200, "not-kept", "The answer was not kept",
                               "This operation was done, and its answer was too large to be kept: "
                               "the status is that of the first answer.",
                               "REPLAY", "api_error", "idempotency_answer_not_kept", true},
};

/* Statuses that nginx has no words for, or takes headers away from when it has to find some. */
void gate_status_line(ngx_http_request_t *r)
{
    static const struct {
        ngx_uint_t status;
        ngx_str_t line;
    } lines[] = {{204, ngx_string("204 No Content")},
                 {304, ngx_string("304 Not Modified")},
                 {422, ngx_string("422 Unprocessable Content")},
                 {423, ngx_string("423 Locked")},
                 {424, ngx_string("424 Failed Dependency")},
                 {425, ngx_string("425 Too Early")},
                 {428, ngx_string("428 Precondition Required")},
                 {451, ngx_string("451 Unavailable For Legal Reasons")}};

    ngx_str_null(&r->headers_out.status_line);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (lines[i].status == r->headers_out.status)
            r->headers_out.status_line = lines[i].line;
    }
}

bool gate_header_add(ngx_http_request_t *r, const char *name, const char *value, size_t size)
{
    ngx_table_elt_t *header = ngx_list_push(&r->headers_out.headers);
    u_char *copy = ngx_pnalloc(r->pool, size + 1);

    if (!header)
        return false;
    ngx_memzero(header, sizeof(*header));
    if (!copy)
        return false; /* hash 0: it is not sent */
    header->hash = 1;
    header->key.data = (u_char *)name;
    header->key.len = ngx_strlen(name);
    header->value.data = copy;
    header->value.len = size;
    ngx_memcpy(copy, value, size);
    return true;
}

static bool add_text(ngx_http_request_t *r, const char *name, const char *value)
{
    return gate_header_add(r, name, value, ngx_strlen(value));
}

/* Texts of ours, and of the key's parser: no quotes, no control characters. */
static u_char *write_ietf(u_char *p, u_char *last, const struct known *known, ngx_uint_t status,
                          const char *detail, uint64_t retry_ms)
{
    p = ngx_slprintf(p, last,
                     "{\"type\":\"urn:once:problem:%s\",\"title\":\"%s\",\"status\":%ui,"
                     "\"detail\":\"%s\"",
                     known->type, known->title, status, detail);
    if (known->verdict)
        p = ngx_slprintf(p, last, ",\"verdict\":\"%s\"", known->verdict);
    if (retry_ms > 0)
        p = ngx_slprintf(p, last, ",\"retry_ms\":%uL", retry_ms);
    return ngx_slprintf(p, last, "}\n");
}

static u_char *write_stripe(u_char *p, u_char *last, const struct known *known, const char *detail)
{
    p = ngx_slprintf(p, last, "{\"error\":{\"message\":\"%s\",\"type\":\"%s\"", detail,
                     known->stripe_type);
    if (known->stripe_code)
        p = ngx_slprintf(p, last, ",\"code\":\"%s\"", known->stripe_code);
    return ngx_slprintf(p, last, "}}\n");
}

static bool add_headers(ngx_http_request_t *r, const struct known *known, uint64_t retry_ms)
{
    u_char seconds[24];

    if (retry_ms > 0) {
        u_char *end = ngx_snprintf(seconds, sizeof(seconds), "%uL", (retry_ms + 999) / 1000);

        if (!gate_header_add(r, "Retry-After", (char *)seconds, (size_t)(end - seconds)))
            return false;
    }
    /* Client libraries that retry 409 and 5xx on their own know these. */
    if (known->final &&
        !(add_text(r, "Stripe-Should-Retry", "false") && add_text(r, "X-Should-Retry", "false")))
        return false;
    return add_text(r, "Cache-Control", "no-store");
}

ngx_chain_t *gate_answer_make(ngx_http_request_t *r, const struct gate_conf *conf,
                              enum gate_problem problem, ngx_uint_t status, const char *detail,
                              uint64_t retry_ms)
{
    static const ngx_str_t ietf_type = ngx_string("application/problem+json");
    static const ngx_str_t stripe_type = ngx_string("application/json");
    enum { SIZE = 1024 };
    const struct known *known = &problems[problem];
    bool stripe = conf->profile == GATE_STRIPE;
    ngx_buf_t *buf = ngx_create_temp_buf(r->pool, SIZE);
    ngx_chain_t *out = ngx_alloc_chain_link(r->pool);

    if (!buf || !out)
        return NULL;
    if (status == 0)
        status = stripe ? known->stripe_status : known->status;
    if (!detail)
        detail = known->detail;
    ngx_http_clean_header(r);
    r->headers_out.status = status;
    gate_status_line(r);
    r->headers_out.content_type = stripe ? stripe_type : ietf_type;
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;
    r->headers_out.charset.len = 0;
    if (!add_headers(r, known, retry_ms))
        return NULL;
    buf->last = stripe ? write_stripe(buf->pos, buf->end, known, detail)
                       : write_ietf(buf->pos, buf->end, known, status, detail, retry_ms);
    buf->last_buf = r == r->main;
    buf->last_in_chain = 1;
    r->headers_out.content_length_n = buf->last - buf->pos;
    out->buf = buf;
    out->next = NULL;
    return out;
}

ngx_int_t gate_answer_send(ngx_http_request_t *r, const struct gate_conf *conf,
                           enum gate_problem problem, const char *detail, uint64_t retry_ms)
{
    ngx_chain_t *out = gate_answer_make(r, conf, problem, 0, detail, retry_ms);
    ngx_int_t rc;

    if (!out)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK)
        return rc;
    rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only)
        return rc;
    return ngx_http_output_filter(r, out);
}
