/* SPDX-License-Identifier: Apache-2.0
 *
 * One attempt over the network, through libcurl.
 *
 * http and https alone, TLS always verified, no redirect followed (a redirect is an answer), no
 * connection kept. libcurl says when a connection is there and the request is about to go out:
 * before that moment nothing was sent, after it nobody knows.
 */
#include "client/call_inner.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TICK_MS = 100, USER_AGENT_SIZE = 64 };

struct attempt {
    const struct once__call_transfer *transfer;
    struct once__call_reply *reply;
    CURL *easy;
    CURLM *multi;
    struct curl_slist *headers;
    bool out_of_memory;
    bool too_long; /* its headers */
    bool behind;   /* the headers: what comes as one now is a trailer */
    bool stopped;
    char error[CURL_ERROR_SIZE];
};

/* ---- What libcurl calls ---------------------------------------------------------------------- */

static int on_ready(void *user, char *remote, char *local, int remote_port, int local_port)
{
    struct attempt *attempt = user;

    (void)remote, (void)local, (void)remote_port, (void)local_port;
    attempt->reply->sent = true;
    return CURL_PREREQFUNC_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* A line that begins with a blank belongs to the one before it (RFC 9112, 5.2). */
static int add_fold(struct once__call_lines *headers, const char *text, size_t length)
{
    int err = once_buf_reserve(&headers->text, length + 1);

    while (length > 0 && is_blank(*text))
        text++, length--;
    if (err != ONCE_OK || headers->count == 0)
        return err;
    headers->text.data[headers->text.size - 1] = ' ';
    err = once_buf_append(&headers->text, text, length);
    return err == ONCE_OK ? once_buf_append(&headers->text, "", 1) : err;
}

/* "HTTP/1.1 200 OK" begins an answer anew: what stood before it was an interim one. */
static size_t on_header(char *text, size_t one, size_t size, void *user)
{
    struct attempt *attempt = user;
    struct once__call_reply *reply = attempt->reply;
    size_t length = size * one;
    int err;

    if (length >= 5 && strncasecmp(text, "HTTP/", 5) == 0) {
        once_buf_clear(&reply->headers.text);
        reply->headers.count = 0;
        attempt->behind = false;
        return length;
    }
    while (length > 0 && (text[length - 1] == '\r' || text[length - 1] == '\n' ||
                          is_blank(text[length - 1]))) /* no part of a value */
        length--;
    if (size > 0 && (text[0] == '\r' || text[0] == '\n'))
        attempt->behind = true;
    if (length == 0 || attempt->behind || memchr(text, '\0', length))
        return size * one;
    if (is_blank(text[0]))
        err = add_fold(&reply->headers, text, length);
    else
        err = reply->headers.count < ONCE_SEND_ANSWER_HEADERS_MAX
                  ? once__call_lines_add(&reply->headers, text, length)
                  : ONCE_ERR_FULL;
    attempt->too_long = err == ONCE_ERR_FULL;
    attempt->out_of_memory = err == ONCE_ERR_MEMORY;
    return err == ONCE_OK ? size * one : 0;
}

/* A body past the bound is read to its end all the same: cutting it off might stop its sender. */
static size_t on_body(char *bytes, size_t one, size_t size, void *user)
{
    struct attempt *attempt = user;
    struct once_buf *body = &attempt->reply->body;
    size_t length = size * one;
    size_t room = body->size_max - body->size;
    size_t kept = length < room ? length : room;

    if (kept > 0 && once_buf_append(body, bytes, kept) != ONCE_OK) {
        attempt->out_of_memory = true;
        return 0;
    }
    attempt->reply->body_lost += length - kept;
    return length;
}

/* ---- Setting up ------------------------------------------------------------------------------ */

static int add_line(struct attempt *attempt, const char *line)
{
    struct curl_slist *longer = curl_slist_append(attempt->headers, line);

    if (!longer)
        return ONCE_ERR_MEMORY;
    attempt->headers = longer;
    return ONCE_OK;
}

/* libcurl takes "Name:" as "do not send it", and "Name;" for one with no value. */
static int add_header(struct attempt *attempt, const char *line)
{
    size_t size = strlen(line);
    size_t colon = strcspn(line, ":");
    char *empty;
    int err;

    if (colon + 1 + strspn(line + colon + 1, " \t") < size)
        return add_line(attempt, line);
    empty = strndup(line, colon + 1);
    if (!empty)
        return ONCE_ERR_MEMORY;
    empty[colon] = ';';
    err = add_line(attempt, empty);
    free(empty);
    return err;
}

static int add_key(struct attempt *attempt)
{
    const struct once__call_request *request = attempt->transfer->request;
    struct once_buf line;
    int err;

    once_buf_init(&line, ONCE_SEND_HEADERS_SIZE_MAX);
    err = once_buf_append(&line, request->key_header, strlen(request->key_header));
    if (err == ONCE_OK)
        err = once_buf_append(&line, ": ", 2);
    if (err == ONCE_OK)
        err = once__call_key_value(attempt->transfer->key, request->bare_key, &line);
    if (err == ONCE_OK)
        err = once_buf_append(&line, "", 1);
    if (err == ONCE_OK)
        err = add_line(attempt, (const char *)line.data);
    once_buf_release(&line);
    return err;
}

static int add_secret(struct attempt *attempt, const char *secret)
{
    struct once_buf line;
    int err;

    once_buf_init(&line, ONCE_SEND_HEADERS_SIZE_MAX + 1);
    err = once__call_secret_fill(secret, &line, attempt->reply->text);
    if (err == ONCE_OK)
        err = once_buf_append(&line, "", 1);
    if (err == ONCE_OK)
        err = add_header(attempt, (const char *)line.data);
    if (line.data)
        explicit_bzero(line.data, line.size);
    once_buf_release(&line);
    return err;
}

static int add_headers(struct attempt *attempt)
{
    const struct once__call_request *request = attempt->transfer->request;
    /* No waiting for a "100 Continue", and no type that nobody has asked for. */
    int err = add_line(attempt, "Expect:");

    if (err == ONCE_OK && !once__call_header(&request->headers, "Content-Type") &&
        !once__call_header(&request->secrets, "Content-Type"))
        err = add_line(attempt, "Content-Type:");
    if (err == ONCE_OK)
        err = add_key(attempt);
    for (const char *line = NULL;
         err == ONCE_OK && (line = once__call_lines_next(&request->headers, line)) != NULL;)
        err = add_header(attempt, line);
    for (const char *line = NULL;
         err == ONCE_OK && (line = once__call_lines_next(&request->secrets, line)) != NULL;)
        err = add_secret(attempt, line);
    return err;
}

static bool wants_body(const struct once__call_request *request)
{
    return request->has_body || strcmp(request->method, "POST") == 0 ||
           strcmp(request->method, "PUT") == 0 || strcmp(request->method, "PATCH") == 0;
}

#define SET(option, value) (curl_easy_setopt(attempt->easy, (option), (value)) == CURLE_OK)

static bool set_request(struct attempt *attempt)
{
    const struct once__call_request *request = attempt->transfer->request;
    const char *body = request->body.size > 0 ? (const char *)request->body.data : "";

    if (!SET(CURLOPT_URL, request->url) || !SET(CURLOPT_HTTPHEADER, attempt->headers))
        return false;
    if (wants_body(request))
        return SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.size) &&
               SET(CURLOPT_POSTFIELDS, body) && SET(CURLOPT_CUSTOMREQUEST, request->method);
    if (strcmp(request->method, "HEAD") == 0)
        return SET(CURLOPT_NOBODY, 1L);
    return SET(CURLOPT_HTTPGET, 1L) && SET(CURLOPT_CUSTOMREQUEST, request->method);
}

static bool set_rules(struct attempt *attempt)
{
    const struct once__call_transfer *transfer = attempt->transfer;

    return SET(CURLOPT_PROTOCOLS_STR, "http,https") && SET(CURLOPT_FOLLOWLOCATION, 0L) &&
           SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) && SET(CURLOPT_NOSIGNAL, 1L) &&
           SET(CURLOPT_SSL_VERIFYPEER, 1L) && SET(CURLOPT_SSL_VERIFYHOST, 2L) &&
           (!transfer->ca_file || SET(CURLOPT_CAINFO, transfer->ca_file)) &&
           SET(CURLOPT_FORBID_REUSE, 1L) && SET(CURLOPT_HTTP09_ALLOWED, 0L) &&
           SET(CURLOPT_USERAGENT, "once") && SET(CURLOPT_ERRORBUFFER, attempt->error) &&
           SET(CURLOPT_TIMEOUT_MS, (long)transfer->timeout_ms) &&
           SET(CURLOPT_CONNECTTIMEOUT_MS, (long)transfer->connect_ms) &&
           SET(CURLOPT_PREREQFUNCTION, on_ready) && SET(CURLOPT_PREREQDATA, attempt) &&
           SET(CURLOPT_HEADERFUNCTION, on_header) && SET(CURLOPT_HEADERDATA, attempt) &&
           SET(CURLOPT_WRITEFUNCTION, on_body) && SET(CURLOPT_WRITEDATA, attempt);
}

static int set_up(struct attempt *attempt)
{
    int err;

    /* Counted inside of libcurl: it is cleaned up when the program ends. */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return ONCE_ERR_MEMORY;
    attempt->easy = curl_easy_init();
    attempt->multi = curl_multi_init();
    if (!attempt->easy || !attempt->multi)
        return ONCE_ERR_MEMORY;
    err = add_headers(attempt);
    if (err != ONCE_OK)
        return err;
    if (!set_request(attempt) || !set_rules(attempt) ||
        curl_multi_add_handle(attempt->multi, attempt->easy) != CURLM_OK)
        return ONCE_ERR_MEMORY;
    return ONCE_OK;
}

#undef SET

/* ---- Running --------------------------------------------------------------------------------- */

/* Until it is over; false: it was stopped. */
static bool run(struct attempt *attempt, CURLcode *ret_code)
{
    for (;;) {
        int running = 0, left;
        CURLMcode code = curl_multi_perform(attempt->multi, &running);
        CURLMsg *message = curl_multi_info_read(attempt->multi, &left);

        if (message && message->msg == CURLMSG_DONE) {
            *ret_code = message->data.result;
            return true;
        }
        if (code != CURLM_OK || running == 0) {
            *ret_code = CURLE_FAILED_INIT;
            return true;
        }
        if (attempt->transfer->pause(attempt->transfer->user))
            return false;
        if (curl_multi_poll(attempt->multi, NULL, 0, TICK_MS, NULL) != CURLM_OK) {
            *ret_code = CURLE_OUT_OF_MEMORY;
            return true;
        }
    }
}

/* Errors that the next attempt would only meet again. */
static bool is_lasting(CURLcode code)
{
    return code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
           code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
           code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_ISSUER_ERROR ||
           code == CURLE_OUT_OF_MEMORY || code == CURLE_WRITE_ERROR || code == CURLE_FAILED_INIT ||
           code == CURLE_NOT_BUILT_IN;
}

static void tell_end(struct attempt *attempt, CURLcode code)
{
    struct once__call_reply *reply = attempt->reply;
    const char *why = attempt->error[0] ? attempt->error : curl_easy_strerror(code);
    long status = 0;

    (void)curl_easy_getinfo(attempt->easy, CURLINFO_RESPONSE_CODE, &status);
    reply->status = status >= 100 && status <= 999 ? (int)status : 0;
    reply->whole = code == CURLE_OK && reply->status >= 200;
    reply->again = !reply->whole && !is_lasting(code);
    if (attempt->too_long)
        why = "the answer's headers are too long";
    else if (attempt->out_of_memory)
        why = once_err_text(ONCE_ERR_MEMORY);
    if (!reply->whole)
        snprintf(reply->text, sizeof(reply->text), "%s", why);
    /* It may repeat what a stranger said. */
    for (char *at = reply->text; *at; at++) {
        if (*at < 0x20 || *at > 0x7e)
            *at = '?';
    }
}

int once__call_transfer(const struct once__call_transfer *transfer,
                        struct once__call_reply *ret_reply)
{
    struct attempt attempt = {.transfer = transfer, .reply = ret_reply};
    CURLcode code = CURLE_OK;
    int err;

    *ret_reply = (struct once__call_reply){0};
    once_buf_init(&ret_reply->headers.text, ONCE_SEND_ANSWER_HEADERS_SIZE_MAX);
    once_buf_init(&ret_reply->body, transfer->answer_size_max);
    err = set_up(&attempt);
    if (err != ONCE_OK && ret_reply->text[0] == '\0')
        (void)once__call_wrong(err, ret_reply->text, "%s", once_err_text(err));
    if (err == ONCE_OK && run(&attempt, &code))
        tell_end(&attempt, code);
    else if (err == ONCE_OK)
        snprintf(ret_reply->text, sizeof(ret_reply->text), "stopped");
    if (attempt.multi && attempt.easy)
        (void)curl_multi_remove_handle(attempt.multi, attempt.easy);
    curl_easy_cleanup(attempt.easy);
    (void)curl_multi_cleanup(attempt.multi);
    curl_slist_free_all(attempt.headers);
    return err;
}

void once__call_reply_release(struct once__call_reply *reply)
{
    once_buf_release(&reply->headers.text);
    once_buf_release(&reply->body);
    *reply = (struct once__call_reply){0};
}
