/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a call over HTTP: what it asks, what comes back, when it is tried again, how it is
 * kept. call_send.c puts them together.
 *
 * What is kept under the key:
 *
 *     point "request"    before the first byte is sent. Data: one line of JSON, then the body
 *         {"once":"call","version":1,"method":…,"url":…,"headers":[…],"secret_headers":[…],
 *          "key_header":…,"bare_key":false,"body_size":n}
 *         a large body stays in its file: "body_file" and "body_sha256" are there too, and no
 *         body follows
 *     point "unreached"  the same data, just before it fails: nothing was ever sent
 *     result             one line of JSON, then the body; the code is HTTP's status
 *         {"once":"call","version":1,"status":…,"headers":[…],"kept":n,"lost":n}
 *
 * A line is read by its names; names that are not known are skipped.
 */
#ifndef ONCE_CLIENT_CALL_INNER_H
#define ONCE_CLIENT_CALL_INNER_H

#include <once/call.h>
#include <once/fingerprint.h>
#include <once/key.h>

enum { ONCE__CALL_VERSION = 1, ONCE__CALL_SHA256_TEXT_SIZE = 65 };

#define ONCE__CALL_POINT_REQUEST "request"
#define ONCE__CALL_POINT_UNREACHED "unreached"

/* Writes what is wrong, and returns err. */
int once__call_wrong(int err, char text[ONCE_MESSAGE_SIZE], const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The boot-time clock, as the store's: it goes on while the machine sleeps. */
once_ms once__call_now_ms(void);
/* For jitter. */
uint64_t once__call_random(void);

/* Strings, one behind the other, each with its NUL; and how many. */
struct once__call_lines {
    struct once_buf text;
    size_t count;
};
/* The next one after line, or the first for NULL; NULL at the end. */
const char *once__call_lines_next(const struct once__call_lines *lines, const char *line);
/* Adds a copy. ONCE_ERR_FULL, ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__call_lines_add(struct once__call_lines *lines, const char *line,
                                         size_t size);

/* ---- Requests (call_request.c, call_header.c, call_keep.c) ----------------------------------- */

/* A request that was checked. Owns everything. */
struct once__call_request {
    char method[ONCE_SEND_METHOD_SIZE_MAX + 1];
    char *url;
    struct once__call_lines headers; /* with the Content-Type */
    struct once__call_lines secrets; /* as they are kept */
    char *key_header;
    bool bare_key;
    bool has_body;
    struct once_buf body;
    char *body_file; /* NULL: the store keeps the body */
    char body_sha256[ONCE__CALL_SHA256_TEXT_SIZE];
};

/* Checks a request, reads its file, and checks that its secrets can be filled in. On failure text
 * says what is wrong. Release it either way. */
ONCE_MUST_CHECK int once__call_request_make(const struct once_http_request *given,
                                            struct once__call_request *ret_request,
                                            char text[ONCE_MESSAGE_SIZE]);
void once__call_request_release(struct once__call_request *request);

/* Reads the body's file, at most size_max bytes, and its SHA-256. */
ONCE_MUST_CHECK int once__call_request_load(struct once__call_request *request,
                                            char text[ONCE_MESSAGE_SIZE]);
/* What must be the same under the same key. */
ONCE_MUST_CHECK int once__call_request_fingerprint(const struct once__call_request *request,
                                                   struct once_fingerprint *ret_fingerprint);
/* Appends the data of point "request"; reads it again. read loads the file and refuses one that
 * has changed; release what it wrote either way. ONCE_ERR_INVALID: it is no such data. */
ONCE_MUST_CHECK int once__call_request_write(const struct once__call_request *request,
                                             struct once_buf *out);
ONCE_MUST_CHECK int once__call_request_read(struct once_bytes data,
                                            struct once__call_request *ret_request,
                                            char text[ONCE_MESSAGE_SIZE]);

/* RFC 9110's token: what a name may be. */
bool once__call_is_token(const char *text, size_t size);
/* Adds "Name: value", checked; kept as "Name: value" whatever blanks there were. */
ONCE_MUST_CHECK int once__call_header_add(struct once__call_request *request, const char *given,
                                          bool secret, char text[ONCE_MESSAGE_SIZE]);
/* Whether all can be filled in now. */
ONCE_MUST_CHECK int once__call_secrets_check(const struct once__call_request *request,
                                             char text[ONCE_MESSAGE_SIZE]);
/* Appends the text with its variables filled in from the environment. ONCE_ERR_INVALID: no such
 * variable, or it has characters that a header may not have. Never tells a value. */
ONCE_MUST_CHECK int once__call_secret_fill(const char *secret, struct once_buf *out,
                                           char text[ONCE_MESSAGE_SIZE]);

/* Appends the value of the key's header: "KEY" in quotes, or bare. */
ONCE_MUST_CHECK int once__call_key_value(struct once_bytes key, bool bare, struct once_buf *out);

/* ---- One attempt (call_transfer.c) ----------------------------------------------------------- */

/* What came back. Owns its buffers; the caller sets their bounds. */
struct once__call_reply {
    bool sent;  /* a connection was there, and the request began to go out */
    bool whole; /* a whole answer came */
    bool again; /* none came, and another attempt makes sense */
    int status; /* 0: none */
    struct once__call_lines headers;
    struct once_buf body;
    uint64_t body_lost;
    char text[ONCE_MESSAGE_SIZE]; /* what was wrong; "" */
};

struct once__call_transfer {
    const struct once__call_request *request;
    struct once_bytes key;
    const char *ca_file;
    once_ms timeout_ms;
    once_ms connect_ms;
    size_t answer_size_max;
    /* Asked many times a second, on this thread; true ends it. */
    bool (*pause)(void *user);
    void *user;
};

void once__call_reply_release(struct once__call_reply *reply);
/* Sends it and reads the answer. ONCE_ERR_INVALID (a secret), ONCE_ERR_MEMORY: nothing was sent,
 * reply->text says why. ONCE_OK: reply says what came. Release it either way. */
ONCE_MUST_CHECK int once__call_transfer(const struct once__call_transfer *transfer,
                                        struct once__call_reply *ret_reply);

/* The value of a header, without blanks around it; NULL: none such. name has no colon. */
const char *once__call_header(const struct once__call_lines *headers, const char *name);

/* ---- When to try again (call_plan.c) --------------------------------------------------------- */

enum once__call_fate {
    ONCE__CALL_FINAL, /* an answer to keep */
    ONCE__CALL_AGAIN, /* to be tried again */
    ONCE__CALL_DOUBT  /* who answered says that trying again is no use, and does not know */
};
enum once__call_fate once__call_fate(const struct once__call_reply *reply,
                                     const struct once_http_options *options);

/* Full jitter: a random part of base doubled number times, of at most max. random is any number;
 * number 0 is the first wait. */
once_ms once__call_backoff_ms(once_ms base_ms, once_ms max_ms, unsigned number, uint64_t random);
/* A Retry-After: seconds, or a date after now_s. -1: none that can be read. */
once_ms once__call_retry_after_ms(const char *value, int64_t now_s);
/* What an option means: 0 is its default. ONCE_ERR_INVALID with text. */
ONCE_MUST_CHECK int once__call_options_fill(const struct once_http_options *given,
                                            struct once_http_options *ret_options,
                                            char text[ONCE_MESSAGE_SIZE]);
void once__call_budget_begin(struct once_http_budget *budget);
bool once__call_budget_take(struct once_http_budget *budget);

/* ---- Answers (call_answer.c) ----------------------------------------------------------------- */

/* Appends the result to keep: of the body at most kept_max bytes, and no headers if !with_headers.
 */
ONCE_MUST_CHECK int once__call_result_write(const struct once__call_reply *reply, size_t kept_max,
                                            bool with_headers, struct once_buf *out);
/* The answer that was kept; one that another program completed gives code and bytes as they are. */
ONCE_MUST_CHECK int once__call_result_read(int32_t code, struct once_bytes result,
                                           struct once_http_answer *answer);
/* The answer takes what came. */
ONCE_MUST_CHECK int once__call_answer_take(struct once__call_reply *reply,
                                           struct once_http_answer *answer);

/* ---- The journal (call_journal.c) ------------------------------------------------------------ */

/* One call under way: its name, its fence, its lease. */
struct once__call_claim {
    const struct once_http_journal *journal;
    struct once_bytes ns;
    struct once_bytes key;
    struct once_bytes fingerprint;
    struct once_bytes owner;
    once_ms ttl_ms;
    once_ms lease_ms;
    uint64_t fence;
    once_ms renew_at_ms; /* by once__call_now_ms */
    bool lost;           /* someone else has it, or ended it */
};

/* Performs op with ns and key filled in; repeats within the journal's patience. The reply is the
 * caller's to release. */
int once__call_perform(const struct once__call_claim *claim, struct once_op *op, once_ms wait_ms);
int once__call_begin(struct once__call_claim *claim, enum once_on_doubt on_doubt, once_ms wait_ms,
                     struct once_reply *ret_reply);
/* Renews the lease if it is time to. A journal that cannot be reached is asked again next time. */
void once__call_renew(struct once__call_claim *claim);
/* These give the word in ret_word. */
ONCE_MUST_CHECK int once__call_checkpoint(struct once__call_claim *claim, const char *point,
                                          struct once_bytes data, enum once_word *ret_word);
ONCE_MUST_CHECK int once__call_complete(const struct once__call_claim *claim, int32_t code,
                                        struct once_bytes result, enum once_word *ret_word);
ONCE_MUST_CHECK int once__call_fail(const struct once__call_claim *claim, const char *reason,
                                    enum once_word *ret_word);
ONCE_MUST_CHECK int once__call_give_up(const struct once__call_claim *claim,
                                       enum once_word *ret_word);

#endif
