/* SPDX-License-Identifier: Apache-2.0
 *
 * The gateway: Idempotency-Key for whatever stands behind nginx. What its files share.
 *
 *     gate_path     a request arrives: key, body, fingerprint, begin; then replay, refuse, wait, or
 *                   on to the upstream
 *     gate_filter   the upstream's answer is held back until its outcome is durable, then sent
 *     gate_outcome  how the call of the upstream went, as far as nginx can know
 *     gate_kept     an answer as bytes, and back
 *     gate_answer   what the gateway says itself: problem details, Stripe's shapes
 *     gate_call     the calls of an operation; gate_link: the connections to the server
 *
 * An operation belongs to the request that began it. When the request ends before the operation
 * does, whoever ends it (the pool's cleanup) records what is known: never sent, or in doubt.
 */
#ifndef ONCE_NGINX_GATE_H
#define ONCE_NGINX_GATE_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <once/fingerprint.h>
#include <once/key.h>
#include <once/limits.h>
#include <once/verdict.h>

#include "core/outcome.h"
#include "gate_link.h"

extern ngx_module_t ngx_http_once_module;

/* ---- Configuration (gate_conf.c) ------------------------------------------------------------- */

/* Of a namespace: "~" and the beginning of a hash. */
enum { GATE_SCOPE_BYTES = 12, GATE_SCOPE_ROOM = 2 * GATE_SCOPE_BYTES + 1 };

enum gate_mode { GATE_OFF = 0, GATE_ON = 1, GATE_REQUIRE = 2 };
enum gate_profile { GATE_IETF = 0, GATE_STRIPE = 1 };

struct gate_conf {
    ngx_uint_t mode;
    struct gate_server *server;
    ngx_http_complex_value_t *ns;
    ngx_http_complex_value_t *scope; /* NULL: none */
    ngx_uint_t methods;              /* bits NGX_HTTP_… */
    ngx_msec_t ttl;
    ngx_msec_t lease;
    ngx_msec_t wait;
    ngx_uint_t on_5xx; /* enum once_on_5xx */
    ngx_uint_t doubt;  /* enum once_on_doubt */
    ngx_uint_t profile;
    ngx_uint_t body_form;    /* enum once_body_form */
    ngx_array_t *fp_headers; /* of ngx_str_t, lower case */
    size_t body_max;         /* of a request */
    size_t answer_max;       /* of an answer that is kept */
    ngx_uint_t fail_open;
};

struct gate_main_conf {
    ngx_array_t servers; /* of struct gate_server * */
    ngx_shm_zone_t *counts;
};

void *gate_conf_create_main(ngx_conf_t *cf);
void *gate_conf_create(ngx_conf_t *cf);
char *gate_conf_merge(ngx_conf_t *cf, void *parent, void *child);
/* The location that a request with this conf has come to is guarded as one with `once on` is: nginx
 * does not repeat what was sent, and does not give up when a client goes. It stays so for this
 * worker. */
void gate_conf_guard(ngx_http_request_t *r, const struct gate_conf *conf);
extern ngx_command_t gate_commands[];

/* ---- Counting (gate_count.c) ----------------------------------------------------------------- */

/* X(name, help), as Prometheus shows them: once_gateway_<name>_total. */
#define GATE_COUNTS(X)                                                                             \
    X(execute, "Requests passed on to the upstream.")                                              \
    X(replay, "Answers given again.")                                                              \
    X(busy, "Requests refused because the same key was running.")                                  \
    X(mismatch, "Requests refused because the key belongs to another request.")                    \
    X(doubt, "Requests refused because their operation is in doubt.")                              \
    X(too_old, "Requests refused because their key is older than its retention.")                  \
    X(bad_key, "Requests refused because their key is missing or malformed.")                      \
    X(waited, "Requests that waited for the same key.")                                            \
    X(stored, "Outcomes kept.")                                                                    \
    X(released, "Outcomes known not to have happened: the key is free.")                           \
    X(in_doubt, "Outcomes that nobody knows.")                                                     \
    X(not_kept, "Answers kept without their body, which was too large.")                           \
    X(unrecorded, "Outcomes that could not be recorded.")                                          \
    X(unavailable, "Requests refused because the server of Once did not answer.")                  \
    X(open, "Requests passed on without protection because the server did not answer.")
enum gate_count {
#define GATE_COUNT_ID(name, help) GATE_COUNT_##name,
    GATE_COUNTS(GATE_COUNT_ID)
#undef GATE_COUNT_ID
        GATE_COUNT_COUNT
};
void gate_count(ngx_http_request_t *r, enum gate_count which); /* r may be NULL */
char *gate_count_zone(ngx_conf_t *cf, struct gate_main_conf *conf);
char *gate_count_location(ngx_conf_t *cf, ngx_command_t *command, void *conf);

/* ---- An operation (gate_call.c) -------------------------------------------------------------- */

/* Outlives its request while a call is in flight. */
struct gate_op {
    ngx_uint_t references;
    struct gate_server *server;
    char ns[ONCE_NAMESPACE_SIZE_MAX + 1];
    size_t ns_size;
    struct once_key key;
    char owner[ONCE_OWNER_SIZE_MAX];
    size_t owner_size;
    struct once_fingerprint fingerprint;
    ngx_msec_t ttl, lease;
    ngx_uint_t doubt;
    uint64_t fence;
    uint32_t attempt;
};

struct gate_op *gate_op_new(void); /* NULL: no memory */
void gate_op_unref(struct gate_op *op);

/* What a begin said. The bytes are good inside of the callback. */
struct gate_verdict {
    enum once_word word;
    bool none;         /* nobody answered */
    bool maybe_begun;  /* none: but the server may have got it */
    bool refused;      /* an error: result is its text */
    int code;          /* REPLAY */
    uint64_t retry_ms; /* BUSY */
    struct once_bytes result;
};
/* Each gives true when it was sent; then told is called once, later, with this user, unless
 * gate_call_drop was called before. The op's fence and attempt are set by an EXECUTE. */
typedef void (*gate_told)(void *user, const struct gate_verdict *verdict);
struct gate_call; /* a call under way; *ret_call lets it be dropped */
bool gate_call_begin(struct gate_op *op, gate_told told, void *user, struct gate_call **ret_call);
/* How it ended: result for STORE, reason for RELEASE. Sent until end_ms is over. */
bool gate_call_end(struct gate_op *op, enum once_outcome outcome, int code,
                   struct once_bytes result, gate_told told, void *user,
                   struct gate_call **ret_call);
bool gate_call_renew(struct gate_op *op);
/* A begin had no answer, and nothing was done: asked again as long as an end is, and given back. */
void gate_call_withdraw(struct gate_op *op);
/* The caller is gone: told is not called. An EXECUTE that still arrives is given back: nothing was
 * done under it. */
void gate_call_drop(struct gate_call *call);

/* ---- A request ------------------------------------------------------------------------------- */

enum gate_state {
    GATE_READING,   /* its body */
    GATE_ASKING,    /* a begin is under way */
    GATE_WAITING,   /* BUSY: asked again after a moment */
    GATE_EXECUTING, /* the upstream is at it, and nothing of an answer has come */
    GATE_CAPTURING, /* its answer comes in */
    GATE_HOLDING,   /* its outcome is being recorded */
    GATE_TOLD       /* nothing is held back any more */
};

/* What became of the call of the upstream. */
struct gate_judgement {
    enum once_outcome outcome;
    int status;       /* that the upstream gave; 0: none */
    bool half;        /* an answer, but not all of it */
    const char *what; /* for logs and reasons */
};

struct gate_ctx {
    ngx_http_request_t *r;
    const struct gate_conf *conf;
    enum gate_state state;
    struct gate_op *op;
    ngx_uint_t method;       /* an error page may make it a GET */
    ngx_uint_t http_version; /* the client's: an upstream that speaks no HTTP makes nginx forget */
    struct gate_call *call;  /* under way */
    ngx_event_t timer;       /* WAITING: ask again; EXECUTING: renew */
    size_t in_size;          /* of the request's body, as far as it was read */
    ngx_msec_t wait_until;
    ngx_msec_t pause_ms;
    ngx_chain_t *out, **out_last; /* the answer's body */
    size_t out_size;
    struct gate_judgement judged;
    bool whole;                    /* all of the answer is there */
    bool too_big;                  /* it is sent, but not kept */
    bool open;                     /* passed on unprotected, as once_fail says */
    bool replaced;                 /* the answer is our own instead */
    bool refused;                  /* what nginx was about to do: see asks_again, is_no_answer */
    const char *verdict;           /* for logs */
    ngx_msec_t asked_at, spent_ms; /* in calls of Once */
};

/* The request's; found again after an internal redirect. NULL: none. */
struct gate_ctx *gate_ctx_of(ngx_http_request_t *r);

/* gate_path.c */
ngx_int_t gate_path_handler(ngx_http_request_t *r);

/* gate_outcome.c: judged when the answer's header is there, or when nothing more comes. */
struct gate_judgement gate_judge(ngx_http_request_t *r, const struct gate_conf *conf);

/* gate_filter.c: of answers, and of bodies that are over the bound. */
ngx_int_t gate_filter_init(ngx_conf_t *cf);

/* gate_kept.c: the answer in r->headers_out and this body as bytes of r->pool, and back. body NULL:
 * it was too large to be kept, so many bytes. False: no memory, or these are not such bytes. */
bool gate_kept_write(ngx_http_request_t *r, const ngx_chain_t *body, size_t body_size, bool lost,
                     struct once_bytes *ret_bytes);
bool gate_kept_read(ngx_http_request_t *r, struct once_bytes bytes, struct once_bytes *ret_body,
                    bool *ret_lost);

/* gate_answer.c: what the gateway says itself. */
enum gate_problem {
    GATE_PROBLEM_MISSING,
    GATE_PROBLEM_MALFORMED,
    GATE_PROBLEM_BODY,
    GATE_PROBLEM_BUSY,
    GATE_PROBLEM_MISMATCH,
    GATE_PROBLEM_DOUBT,
    GATE_PROBLEM_TOO_OLD,
    GATE_PROBLEM_UNAVAILABLE,
    GATE_PROBLEM_UNRECORDED, /* it ended, but that could not be recorded */
    GATE_PROBLEM_STALE,      /* someone else ended it meanwhile */
    GATE_PROBLEM_UNREACHED,  /* the upstream was never asked */
    GATE_PROBLEM_UNKNOWN,    /* the upstream gave no answer, or half of one */
    GATE_PROBLEM_NOT_KEPT    /* REPLAY of an answer whose body was too large */
};
/* Puts status and headers into r->headers_out, and gives the body; NULL: no memory. detail may be
 * NULL. status 0 is the problem's own. */
ngx_chain_t *gate_answer_make(ngx_http_request_t *r, const struct gate_conf *conf,
                              enum gate_problem problem, ngx_uint_t status, const char *detail,
                              uint64_t retry_ms);
/* Sends it, and gives what to finalize the request with. */
ngx_int_t gate_answer_send(ngx_http_request_t *r, const struct gate_conf *conf,
                           enum gate_problem problem, const char *detail, uint64_t retry_ms);
/* After r->headers_out.status was set. */
void gate_status_line(ngx_http_request_t *r);
/* A header of the answer. False: no memory. value is copied. */
bool gate_header_add(ngx_http_request_t *r, const char *name, const char *value, size_t size);

#endif
