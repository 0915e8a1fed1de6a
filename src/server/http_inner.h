/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the HTTP host share: a request on its way, a route, an answer.
 *
 *     headers → http_guard (host, origin, who) → body → route.start
 *         → answered, or a call of the store, or a look on a lane → route.finish → answer
 *
 * A request belongs to one thread at a time: libmicrohttpd's, or, while its connection is
 * suspended, the one that works for it. once__http_resume hands it back.
 */
#ifndef ONCE_SERVER_HTTP_INNER_H
#define ONCE_SERVER_HTTP_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include <microhttpd.h>

#include "object/view_text.h"
#include "server/http.h"
#include "server/http_json.h"

struct once__http_watch;
struct once__scopes;

struct once__http {
    struct once__http_setup setup;
    struct MHD_Daemon *daemons[ONCE_LISTENERS_MAX]; /* of each listener */
    size_t daemon_count;
    struct once__http_watch *watch;
    struct once__scopes *scopes;
    _Atomic size_t pending;     /* requests */
    _Atomic size_t connections; /* open now */
    _Atomic size_t held;        /* bytes of bodies, replies and answers */
    _Atomic bool draining;

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t rested;
    size_t suspended; /* connections, and those that are about to be */
    bool closing;     /* none is suspended any more */
    struct once__config *config;
};

/* ---- Answers --------------------------------------------------------------------------------- */

struct once__http_answer {
    unsigned status; /* 0: there is none yet */
    const char *type;
    struct once_buf body;
    char etag[32];       /* "" none */
    const char *allow;   /* 405 */
    once_ms retry_ms;    /* > 0: Retry-After */
    bool authenticate;   /* WWW-Authenticate */
    bool own_form;       /* not Basic: the dashboard asks for the password itself */
    bool close;          /* the connection, after it */
    const char *privacy; /* Content-Security-Policy of the page and its files; NULL: none */
};

/* ---- Routes ---------------------------------------------------------------------------------- */

struct once__http_request;

enum once__http_next {
    ONCE__HTTP_ANSWERED,
    ONCE__HTTP_CALL, /* request->call, which has passed once__service_check */
    ONCE__HTTP_LOOK  /* route->look, on a lane */
};

enum once__http_flags {
    ONCE__HTTP_OPEN = 1,     /* for everyone */
    ONCE__HTTP_RAW = 2,      /* the body is bytes of any type */
    ONCE__HTTP_ALWAYS = 4,   /* also while the server drains */
    ONCE__HTTP_WRITES = 8,   /* takes If-Match, If-None-Match, Idempotency-Key and Once-Namespace */
    ONCE__HTTP_MATCHES = 16, /* takes If-None-Match, may answer 304 */
    ONCE__HTTP_SAYS_503 = 32 /* answers 503 with its own schema, no problem */
};

struct once__http_route {
    const char *method;
    const char *path; /* "/v1/ops/{ns}/{key}" */
    const char *id;   /* operationId */
    const char *tag;
    const char *summary;
    unsigned flags;
    size_t body_size_max;                  /* 0: no body */
    const struct once__http_fields *body;  /* NULL: none, or raw */
    const struct once__http_fields *query; /* NULL: none */
    const char *type;                      /* of a good answer */
    const char *schema;                    /* of a good answer: its name, in openapi_schemas.c */
    const char *problems;                  /* "404 409": statuses besides those of every route */
    enum once__http_next (*start)(struct once__http_request *request);
    void (*look)(struct once__http_request *request);
    void (*finish)(struct once__http_request *request);
};

extern const struct once__http_route once__http_routes[];
extern const size_t once__http_route_count;

enum { ONCE__HTTP_PARAMS_MAX = 2 };

/* Parts of a path, decoded. */
struct once__http_params {
    struct once_bytes values[ONCE__HTTP_PARAMS_MAX];
    size_t count;
    uint8_t bytes[1024];
};

enum once__http_match {
    ONCE__HTTP_MATCHED,
    ONCE__HTTP_NO_PATH,
    ONCE__HTTP_NO_METHOD, /* ret_allow says which there are */
    ONCE__HTTP_BAD_PATH   /* a % that is none, or a part that is too long */
};

/* HEAD is GET. ret_allow points to static text; it and ret_route are written when they are known.
 */
enum once__http_match once__http_route_find(const char *method, const char *path,
                                            const struct once__http_route **ret_route,
                                            struct once__http_params *ret_params,
                                            char ret_allow[64]);

/* ---- A request ------------------------------------------------------------------------------- */

enum once__http_phase {
    ONCE__HTTP_HEADERS,  /* nothing was looked at */
    ONCE__HTTP_LOGIN,    /* suspended: someone's password is compared */
    ONCE__HTTP_BODY,     /* the body is read */
    ONCE__HTTP_STARTING, /* suspended: a large body is read on a lane */
    ONCE__HTTP_CALLING,  /* suspended: the store decides */
    ONCE__HTTP_WORKING,  /* suspended: a look, or a large answer, on a lane */
    ONCE__HTTP_DONE      /* the answer is there */
};

struct once__http_request {
    struct once__http *http;
    struct MHD_Connection *connection;
    const struct once__http_route *route; /* NULL: there is none */
    const char *method;
    const char *path;
    struct once__config *config; /* a reference */
    struct once__identity identity;
    struct once__http_params params;
    char from[64];
    char allow[64];
    enum once__http_phase phase;
    bool refused; /* the answer was there before the body */

    struct once_buf body;
    size_t body_seen;
    struct once__http_said said;  /* by the body */
    struct once__http_said query; /* by the query */

    struct once__login login;
    _Atomic bool login_met; /* one of two has come: its answer, or its suspension */
    struct once__job job;
    struct once__call call;
    size_t reply_held;                    /* bytes of its reply */
    char ns[ONCE_NAMESPACE_SIZE_MAX + 1]; /* of a look */
    struct once_key *key;                 /* of an Idempotency-Key header */
    struct once_do one;                   /* the effect of a PUT or DELETE of an object */
    struct once_bytes words[5];
    char version[24];

    /* http_watch.c */
    struct once__http_request *watch_next, **watch_link;
    uint64_t watch_id;
    unsigned watch_pins;
    bool watched, watch_armed, watch_told;

    struct once__http_answer answer;
};

/* The host's part of the checks before a body is read: true, or the answer is a refusal. Then
 * the login of who sent a password: true: the identity is known or the answer is a refusal; false:
 * done will be called. */
bool once__http_guard(struct once__http_request *request);
bool once__http_login(struct once__http_request *request, void (*done)(struct once__login *login));
void once__http_login_finish(struct once__http_request *request);

const char *once__http_header(const struct once__http_request *request, const char *name);

/* libmicrohttpd's callbacks: http_handle.c. */
enum MHD_Result once__http_handle(void *user, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **slot);
void once__http_completed(void *user, struct MHD_Connection *connection, void **slot,
                          enum MHD_RequestTerminationCode how);

/* The connection goes on on its own thread. The last touch of the request. */
void once__http_resume(struct once__http_request *request);

/* ---- Writing answers ------------------------------------------------------------------------- */

/* Starts an answer: "application/json" and status, an empty body to write into. */
struct once__view once__http_answer(struct once__http_request *request, unsigned status);
/* Checks that all of it could be written; else the answer is a problem. */
void once__http_answer_end(struct once__http_request *request, struct once__view *view);

/* Problem details (RFC 9457). */
enum once__http_problem {
    ONCE__PROBLEM_BAD_FIELD,
    ONCE__PROBLEM_BAD_REQUEST,
    ONCE__PROBLEM_UNAUTHENTICATED,
    ONCE__PROBLEM_DENIED,
    ONCE__PROBLEM_CROSS_ORIGIN,
    ONCE__PROBLEM_NO_ROUTE,
    ONCE__PROBLEM_NO_NAMESPACE,
    ONCE__PROBLEM_NOT_FOUND,
    ONCE__PROBLEM_NO_OBJECT,
    ONCE__PROBLEM_NO_FILE,
    ONCE__PROBLEM_METHOD,
    ONCE__PROBLEM_BUSY,
    ONCE__PROBLEM_DOUBT,
    ONCE__PROBLEM_STALE,
    ONCE__PROBLEM_OBJECT_TYPE,
    ONCE__PROBLEM_VERSION,
    ONCE__PROBLEM_TOO_LARGE,
    ONCE__PROBLEM_MEDIA_TYPE,
    ONCE__PROBLEM_HOST,
    ONCE__PROBLEM_MISMATCH,
    ONCE__PROBLEM_TOO_OLD,
    ONCE__PROBLEM_REJECTED,
    ONCE__PROBLEM_CONDITION,
    ONCE__PROBLEM_RATE,
    ONCE__PROBLEM_AUTH_DELAYED,
    ONCE__PROBLEM_INTERNAL,
    ONCE__PROBLEM_UNSUPPORTED,
    ONCE__PROBLEM_LOADING,
    ONCE__PROBLEM_FULL,
    ONCE__PROBLEM_STOPPED,
    ONCE__PROBLEM_DRAINING,
    ONCE__PROBLEM_OVERLOAD,
    ONCE__PROBLEM_COUNT
};

/* Starts a problem: type, title, status, detail and instance are written, further members may
 * follow; once__http_problem_end closes it. */
struct once__view once__http_problem_begin(struct once__http_request *request,
                                           enum once__http_problem problem, const char *detail);
void once__http_problem_end(struct once__http_request *request, struct once__view *view);
/* All of it. */
void once__http_problem(struct once__http_request *request, enum once__http_problem problem,
                        const char *detail);
void once__http_problem_field(struct once__http_request *request,
                              const struct once__http_defect *defect);
/* Of an error of the store or the service; what may be NULL, effect 0. */
void once__http_problem_err(struct once__http_request *request, const struct once_reply *reply);
/* Of a word that is no success: BUSY, MISMATCH, DOUBT, TOO_OLD, STALE, NOTFOUND. */
void once__http_problem_word(struct once__http_request *request, const struct once_reply *reply);

/* X(status, name): every status that is answered, for the OpenAPI document. */
const char *once__http_status_text(unsigned status);

/* ---- What handlers share --------------------------------------------------------------------- */

/* Checks the call that is in request->call: CALL, or ANSWERED with a problem. */
enum once__http_next once__http_call(struct once__http_request *request);
/* {"verdict":"…" opens an answer with 200. */
struct once__view once__http_verdict(struct once__http_request *request, const char *verdict);

/* One operation of a list, as an object; ns: what the caller calls its namespace, NULL: it is that
 * of the whole list. */
void once__http_put_item(struct once__view *view, const struct once_item *item,
                         const struct once_bytes *ns);

/* Handlers, for the table. */
enum once__http_next once__http_begin(struct once__http_request *request);
enum once__http_next once__http_complete(struct once__http_request *request);
enum once__http_next once__http_fail(struct once__http_request *request);
enum once__http_next once__http_checkpoint(struct once__http_request *request);
enum once__http_next once__http_renew(struct once__http_request *request);
enum once__http_next once__http_resolve(struct once__http_request *request);
enum once__http_next once__http_get(struct once__http_request *request);
enum once__http_next once__http_forget(struct once__http_request *request);
enum once__http_next once__http_apply(struct once__http_request *request);
enum once__http_next once__http_list(struct once__http_request *request);
void once__http_list_look(struct once__http_request *request);
enum once__http_next once__http_list_all(struct once__http_request *request);
void once__http_list_all_look(struct once__http_request *request);
enum once__http_next once__http_history(struct once__http_request *request);
void once__http_history_look(struct once__http_request *request);
extern const struct once__http_fields once__http_history_query;
void once__http_begin_finish(struct once__http_request *request);
void once__http_complete_finish(struct once__http_request *request);
void once__http_ok_finish(struct once__http_request *request);
void once__http_get_finish(struct once__http_request *request);
void once__http_apply_finish(struct once__http_request *request);
extern const struct once__http_fields once__http_begin_fields, once__http_complete_fields,
    once__http_fail_fields, once__http_checkpoint_fields, once__http_renew_fields,
    once__http_resolve_fields, once__http_forget_query, once__http_list_query,
    once__http_apply_fields;

enum once__http_next once__http_object(struct once__http_request *request);
enum once__http_next once__http_object_put(struct once__http_request *request);
enum once__http_next once__http_object_delete(struct once__http_request *request);
enum once__http_next once__http_object_merge(struct once__http_request *request);
enum once__http_next once__http_objects(struct once__http_request *request);
void once__http_object_look(struct once__http_request *request);
void once__http_objects_look(struct once__http_request *request);
void once__http_items_look(struct once__http_request *request);
void once__http_write_finish(struct once__http_request *request);
void once__http_merge_finish(struct once__http_request *request);
extern const struct once__http_fields once__http_objects_query, once__http_items_query,
    once__http_merge_fields;

enum once__http_next once__http_stats(struct once__http_request *request);
void once__http_stats_look(struct once__http_request *request);
enum once__http_next once__http_me(struct once__http_request *request);
enum once__http_next once__http_search(struct once__http_request *request);
void once__http_search_look(struct once__http_request *request);
extern const struct once__http_fields once__http_search_query;

enum once__http_next once__http_namespaces(struct once__http_request *request);
enum once__http_next once__http_namespace(struct once__http_request *request);
enum once__http_next once__http_health(struct once__http_request *request);
enum once__http_next once__http_ready(struct once__http_request *request);
enum once__http_next once__http_metrics(struct once__http_request *request);
void once__http_metrics_look(struct once__http_request *request);
enum once__http_next once__http_description(struct once__http_request *request);
enum once__http_next once__http_page(struct once__http_request *request);
enum once__http_next once__http_page_file(struct once__http_request *request);

/* ---- Callers that go away (http_watch.c) ----------------------------------------------------- */

ONCE_MUST_CHECK int once__http_watch_new(struct once__service *service,
                                         struct once__http_watch **ret_watch);
void once__http_watch_free(struct once__http_watch *watch); /* accepts NULL */
/* Before the call is submitted: gives it a number; and after: from now on it is cancelled when its
 * peer is gone. The request may be over by then, so that it goes by its number. */
uint64_t once__http_watch_begin(struct once__http_watch *watch, struct once__http_request *request);
void once__http_watch_arm(struct once__http_watch *watch, uint64_t id);
/* Cancels the calls of those whom the configuration does not know any more. */
void once__http_watch_renew(struct once__http_watch *watch, const struct once__config *config);
/* The call was told. True: the caller resumes the request; false: the watch will. */
bool once__http_watch_end(struct once__http_watch *watch, struct once__http_request *request);

/* ---- The OpenAPI document -------------------------------------------------------------------- */

struct once__http_schema {
    const char *name;
    const char *json;
};
extern const struct once__http_schema once__http_schemas[];
extern const size_t once__http_schema_count;

#endif
