/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP calls that survive: the request and its key are durable before the first byte is sent, the
 * same key and the same bytes go out with every retry, and the answer is kept.
 *
 *     once_http_send    sends a request under a key, or gives the answer that was kept
 *     once_http_resume  goes on with a call whose process was killed
 *
 * Both are right only where the receiver does its work once for each Idempotency-Key: such a
 * request may be sent again, also when nobody knows whether it arrived.
 *
 * This is the library once-http (pkg-config once-http), apart from once because it needs libcurl.
 * Its functions are safe from many threads, and block. The program calls curl_global_init before
 * it starts threads if its libcurl is older than 7.84.
 */
#ifndef ONCE_CALL_H
#define ONCE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <once/bytes.h>
#include <once/err.h>
#include <once/limits.h>
#include <once/store.h>
#include <once/verdict.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Where calls are kept -------------------------------------------------------------------- */

/* perform makes one call of store.h (begin, checkpoint, renew, complete, fail, get): it writes
 * op->reply whole and returns its err. wait_ms > 0, of a begin: it may wait so long while the
 * answer is BUSY. It is called on the thread of once_http_send and never while that waits for the
 * network, but for renewals.
 *
 * patience_ms: how long a call is repeated that gives ONCE_ERR_IO, _STOPPED, _LOCKED, _LOADING or
 * _RATE, because the next one may reach another owner of the store; 0: not at all. */
struct once_http_journal {
    int (*perform)(void *user, struct once_op *op, once_ms wait_ms);
    void *user;
    once_ms patience_ms;
};

/* A store of this process. It is not held during the network call: other threads use it. */
ONCE_API struct once_http_journal once_http_journal_of(struct once_store *store);

/* ---- Requests -------------------------------------------------------------------------------- */

/* Everything is borrowed until the call returns. The fields together are what must be the same
 * under the same key, else MISMATCH. */
struct once_http_request {
    const char *method; /* "POST"; upper case letters */
    const char *url;    /* http:// or https://, with no user or password in it */
    /* "Name: value" each. Not Authorization, Proxy-Authorization or Cookie: the store keeps these
     * texts. Not Host, Content-Length, Transfer-Encoding, Connection or Expect. A body that has no
     * Content-Type gets one: application/json if it is a JSON object or array, else
     * application/octet-stream. */
    const char *const *headers;
    size_t header_count;
    /* "Authorization: Bearer $TOKEN" each: the store keeps this text, and $TOKEN or ${TOKEN} is
     * read from the environment when it is sent; $$ is a dollar. */
    const char *const *secret_headers;
    size_t secret_header_count;
    /* The body; no data is none. At most ONCE_SEND_BODY_KEPT_MAX bytes, which the store keeps. */
    struct once_bytes body;
    /* Or the file that it is in, up to ONCE_SEND_FILE_SIZE_MAX. If it is larger than what the store
     * keeps, its path and SHA-256 are kept, and a resume needs the same bytes there. */
    const char *body_file;
    const char *key_header; /* NULL is "Idempotency-Key" */
    bool bare_key; /* the key as it is; else as a string in quotes, as the IETF draft says */
};

/* Why there is no final answer yet, while it goes on. */
struct once_http_try {
    unsigned number;  /* 1 is the first of this call */
    int status;       /* HTTP's; 0: none came */
    const char *text; /* what was wrong, for a person */
    once_ms wait_ms;  /* the next one goes out after so long; -1: there is no next one */
};

struct once_http_budget;

/* All zero is a good choice for each. Times are at most ONCE_SEND_TIME_MS_MAX. */
struct once_http_options {
    struct once_bytes ns;        /* empty is "call" */
    struct once_bytes owner;     /* names this attempt; empty: one is made */
    once_ms ttl_ms;              /* how long the answer is kept; 0 is 24 h */
    once_ms lease_ms;            /* 0 is 30 s; it is renewed as long as the call goes on */
    once_ms wait_ms;             /* while someone else is at it: so long */
    enum once_on_doubt on_doubt; /* of once_http_send; a resume always takes over */

    unsigned attempts_max;      /* 0 is ONCE_SEND_ATTEMPTS_DEFAULT; 1 is no retry */
    once_ms deadline_ms;        /* of all together; 0 is ONCE_SEND_DEADLINE_MS_DEFAULT */
    once_ms timeout_ms;         /* of each attempt; 0 is ONCE_SEND_TIMEOUT_MS_DEFAULT */
    once_ms connect_ms;         /* of its connection; 0 is ONCE_SEND_CONNECT_MS_DEFAULT */
    once_ms backoff_ms;         /* 0 is ONCE_SEND_BACKOFF_MS_DEFAULT; doubled each time up to */
    once_ms backoff_ms_max;     /* 0 is ONCE_SEND_BACKOFF_MS_MAX_DEFAULT; a random part of it */
    once_ms retry_after_ms_max; /* 0 is ONCE_SEND_RETRY_AFTER_MS_DEFAULT */
    struct once_http_budget *budget; /* shared by many calls; NULL is none */
    const int *final_statuses;       /* these are final too, such as 409: not retried, and kept */
    size_t final_count;

    size_t kept_size_max;   /* body that the store keeps; 0 is ONCE_SEND_KEPT_SIZE_DEFAULT */
    size_t answer_size_max; /* body that the caller is given; 0 is ONCE_SEND_ANSWER_SIZE_MAX */
    const char *ca_file;    /* PEM file of who signs; NULL is the system's */

    /* Asked several times a second; true stops the call: in doubt if anything was sent. */
    bool (*stop)(void *user);
    /* Told about each attempt that gave no final answer. */
    void (*tell)(void *user, const struct once_http_try *one);
    void *user;
};

/* ---- Answers --------------------------------------------------------------------------------- */

enum once_http_outcome {
    ONCE_HTTP_ANSWERED = 0,  /* a final answer came, now, and is kept */
    ONCE_HTTP_REPLAYED = 1,  /* it had come before: this is what was kept of it */
    ONCE_HTTP_UNREACHED = 2, /* nothing was sent, ever: it did not happen, and the key is free */
    ONCE_HTTP_DOUBT = 3,     /* it was sent, and nobody knows how it ended: resume it */
    ONCE_HTTP_BUSY = 4,      /* someone else is at it */
    ONCE_HTTP_MISMATCH = 5,  /* the key belongs to another request */
    ONCE_HTTP_TOO_OLD = 6,   /* the key is older than answers are kept */
    ONCE_HTTP_STALE = 7,     /* someone else ended it meanwhile, or forgot it */
    ONCE_HTTP_ABSENT = 8     /* of a resume: there is no such call */
};

struct once_http_answer {
    enum once_http_outcome outcome;
    int status; /* HTTP's: of the answer, or the last one that was not final; 0: none */
    const char *const *headers; /* "Name: value" each; belong to the answer, like the body */
    size_t header_count;
    struct once_bytes body;
    uint64_t body_lost; /* bytes of the body that are not here */
    unsigned sent;      /* attempts of this call that got as far as sending */
    unsigned attempts;  /* all of its attempts */
    uint64_t fence;
    once_ms retry_ms;             /* BUSY: come back after */
    char text[ONCE_MESSAGE_SIZE]; /* what was wrong, for a person: printable ASCII; "" */
    void *memory;
};

/* Frees what the answer holds; it is all zero then. Accepts NULL and one that holds nothing. */
ONCE_API void once_http_answer_release(struct once_http_answer *answer);

/* "answered", "in doubt", … Never NULL; the text is static. */
ONCE_API const char *once_http_outcome_name(enum once_http_outcome outcome);

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Sends the request under the key until a final answer comes: 2xx, 3xx (nothing follows a
 * redirect), 4xx but for 408, 409, 425 and 429; those, 5xx and a broken connection are tried
 * again, unless the answer says Stripe-Should-Retry or X-Should-Retry: false. The answer is kept
 * under the key, with HTTP's status as its code, and told only then.
 *
 * Writes the whole answer, also on failure; release it. Returns ONCE_OK and an outcome, or:
 * ONCE_ERR_INVALID, ONCE_ERR_KEY_… (text says what is wrong), ONCE_ERR_TOO_LARGE (the body),
 * ONCE_ERR_MEMORY, ONCE_ERR_RANDOM, ONCE_ERR_PERMISSION (the file), or an error of the journal.
 * With an error nothing was sent, unless sent says otherwise: then status and body are what came,
 * the journal did not keep it, and a resume finds out again. options may be NULL. */
ONCE_API ONCE_MUST_CHECK int once_http_send(const struct once_http_journal *journal,
                                            struct once_bytes key,
                                            const struct once_http_request *request,
                                            const struct once_http_options *options,
                                            struct once_http_answer *ret_answer);

/* Goes on with the call of this key, whose owner is gone: the request that was kept, byte for byte,
 * with the same key. It takes a doubt over (see above for where that is right). If it was killed
 * before the request was kept, nothing was sent, but nothing says that it was a call either: it
 * stays in doubt until the same request is sent again. Otherwise like once_http_send;
 * ONCE_ERR_INVALID also where the operation is not a call, or its file has changed. */
ONCE_API ONCE_MUST_CHECK int once_http_resume(const struct once_http_journal *journal,
                                              struct once_bytes key,
                                              const struct once_http_options *options,
                                              struct once_http_answer *ret_answer);

/* ---- Retry budgets --------------------------------------------------------------------------- */

/* Keeps many calls from multiplying the load on a receiver that fails: each retry takes one token;
 * each call brings percent / 100 of one; there are tokens_max at first, and never more.
 * tokens_max: 1 to 1,000,000; percent: 0 to 100. ONCE_ERR_INVALID, ONCE_ERR_MEMORY. */
ONCE_API ONCE_MUST_CHECK int once_http_budget_new(unsigned tokens_max, unsigned percent,
                                                  struct once_http_budget **ret_budget);
/* No call may use it any more. Accepts NULL. */
ONCE_API void once_http_budget_free(struct once_http_budget *budget);

#ifdef __cplusplus
}
#endif
#endif
