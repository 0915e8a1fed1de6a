/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance suite over HTTP and JSON, on a real server, with libcurl and jansson:
 *
 *     conformance_http [--threads N] [--disk] [scenario]
 *
 * Where the protocol tells less than the library (a DOUBT without attempt and data), GET of the
 * operation tells the rest. Every status is held against its verdict.
 */
#include "conformance/served.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>
#include <jansson.h>

#include "base/assert.h"

enum { URL_SIZE = 4096, BODY_SIZE_MAX = 1 << 20 };

/* A connection, which curl keeps open from request to request. */
struct web {
    CURL *curl;
    struct curl_slist *headers;
    uint16_t port;
    struct once_buf body;
};

struct response {
    long status;
    json_t *json; /* the caller drops it */
};

static size_t take_body(char *bytes, size_t size, size_t count, void *user)
{
    struct web *web = user;

    return once_buf_append(&web->body, bytes, size * count) == ONCE_OK ? size * count : 0;
}

static void *make_web(const struct served *served)
{
    struct web *web = calloc(1, sizeof(*web));

    ONCE_ASSERT(web != NULL);
    web->curl = curl_easy_init();
    web->headers = curl_slist_append(NULL, "Content-Type: application/json");
    web->port = served_http_port(served);
    once_buf_init(&web->body, BODY_SIZE_MAX);
    ONCE_ASSERT(web->curl && web->headers);
    return web;
}

static void drop_web(void *self)
{
    struct web *web = self;

    curl_easy_cleanup(web->curl);
    curl_slist_free_all(web->headers);
    once_buf_release(&web->body);
    free(web);
}

static const struct served_link http_link = {make_web, drop_web};

/* ---- Requests -------------------------------------------------------------------------------- */

static void write_url(struct web *web, const struct conformance_call *call, const char *action,
                      char *url)
{
    char *ns = curl_easy_escape(web->curl, call->ns, (int)strlen(call->ns));
    char *key = curl_easy_escape(web->curl, call->key, (int)strlen(call->key));
    int size;

    ONCE_ASSERT(ns && key);
    size = snprintf(url, URL_SIZE, "http://127.0.0.1:%u/v1/ops/%s/%s%s%s", web->port, ns, key,
                    action[0] ? "/" : "", action);
    ONCE_ASSERT(size > 0 && size < URL_SIZE);
    curl_free(ns);
    curl_free(key);
}

/* Takes the body (NULL: none). */
static struct response send_to(struct web *web, const char *method, const char *url, json_t *body)
{
    struct response response = {0};
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    CURLcode got;

    ONCE_ASSERT(!body || text);
    once_buf_clear(&web->body);
    curl_easy_reset(web->curl);
    curl_easy_setopt(web->curl, CURLOPT_URL, url);
    curl_easy_setopt(web->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(web->curl, CURLOPT_TIMEOUT, 60L);
    curl_easy_setopt(web->curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(web->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(web->curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(web->curl, CURLOPT_WRITEDATA, web);
    if (text) {
        curl_easy_setopt(web->curl, CURLOPT_HTTPHEADER, web->headers);
        curl_easy_setopt(web->curl, CURLOPT_POSTFIELDSIZE, (long)strlen(text));
        curl_easy_setopt(web->curl, CURLOPT_POSTFIELDS, text);
    }
    got = curl_easy_perform(web->curl);
    if (got != CURLE_OK)
        printf("# %s %s: %s\n", method, url, curl_easy_strerror(got));
    ONCE_ASSERT(got == CURLE_OK);
    curl_easy_getinfo(web->curl, CURLINFO_RESPONSE_CODE, &response.status);
    response.json = json_loadb((const char *)web->body.data, web->body.size, JSON_ALLOW_NUL, NULL);
    if (!response.json)
        printf("# %s %s: %ld and no JSON\n", method, url, response.status);
    ONCE_ASSERT(response.json != NULL);
    free(text);
    json_decref(body);
    return response;
}

/* ---- Bytes in JSON --------------------------------------------------------------------------- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static json_t *base64(struct once_bytes bytes)
{
    char text[256];
    size_t at = 0;

    ONCE_ASSERT(bytes.size <= 180);
    for (size_t i = 0; i < bytes.size; i += 3) {
        uint32_t group = 0;

        for (size_t j = 0; j < 3; j++)
            group = group << 8 | (i + j < bytes.size ? bytes.data[i + j] : 0U);
        for (size_t j = 0; j < 4; j++)
            text[at++] = i + j > bytes.size ? '=' : digits[group >> (18 - 6 * j) & 63];
    }
    return json_stringn(text, at);
}

/* Text as it is; bytes with a NUL in base64, as whoever has any bytes must send them. */
static void set_bytes(json_t *body, const char *name, struct once_bytes bytes)
{
    char name_base64[64];

    if (bytes.size == 0 || !memchr(bytes.data, '\0', bytes.size)) {
        json_object_set_new(body, name,
                            bytes.size == 0 ? json_string("")
                                            : json_stringn((const char *)bytes.data, bytes.size));
        return;
    }
    snprintf(name_base64, sizeof(name_base64), "%s_base64", name);
    json_object_set_new(body, name_base64, base64(bytes));
}

static void set_text(json_t *body, const char *name, const char *text)
{
    if (text)
        json_object_set_new(body, name, json_string(text));
}

static void set_number(json_t *body, const char *name, int64_t number)
{
    json_object_set_new(body, name, json_integer(number));
}

/* "name" or "name_base64": so many bytes, which is their size; their beginning is copied. */
static size_t get_bytes(const json_t *json, const char *name, char *to)
{
    const json_t *value = json_object_get(json, name);
    char name_base64[64];
    uint8_t bytes[256];
    size_t size = 0;
    uint32_t group = 0;
    const char *text;

    to[0] = '\0';
    if (json_is_string(value)) {
        served_copy(to, (struct once_bytes){(const uint8_t *)json_string_value(value),
                                            json_string_length(value)});
        return json_string_length(value);
    }
    snprintf(name_base64, sizeof(name_base64), "%s_base64", name);
    value = json_object_get(json, name_base64);
    if (!json_is_string(value))
        return 0;
    text = json_string_value(value);
    ONCE_ASSERT(json_string_length(value) <= 256);
    for (size_t i = 0; text[i] && text[i] != '='; i++) {
        const char *digit = strchr(digits, text[i]);

        ONCE_ASSERT(digit != NULL);
        group = group << 6 | (uint32_t)(digit - digits);
        if (i % 4 != 0)
            bytes[size++] = (uint8_t)(group >> (6 - 2 * (i % 4)));
    }
    served_copy(to, (struct once_bytes){bytes, size});
    return size;
}

static int64_t get_number(const json_t *json, const char *name)
{
    return json_integer_value(json_object_get(json, name)); /* 0 when it is not there */
}

static struct once_bytes get_text(const json_t *json, const char *name)
{
    return once_bytes_of(json_string_value(json_object_get(json, name)));
}

/* ---- Answers --------------------------------------------------------------------------------- */

static long status_of(enum once_word word)
{
    switch ((int)word) {
    case ONCE_BUSY:
    case ONCE_DOUBT:
    case ONCE_STALE:
        return 409;
    case ONCE_MISMATCH:
    case ONCE_TOO_OLD:
        return 422;
    case ONCE_NOTFOUND:
        return 404;
    default:
        return 200;
    }
}

/* Everything that it tells, also what does not belong to its verdict: the suite looks for that. */
static void read_answer(const struct response *response, struct conformance_answer *ret)
{
    const json_t *json = response->json;
    bool failed;

    *ret = (struct conformance_answer){.err = served_err(get_text(json, "error"))};
    if (ret->err != ONCE_OK)
        return;
    if (served_state(get_text(json, "state"), &ret->state)) {
        ret->word = ONCE_DONE;
    } else if (!served_word(get_text(json, "verdict"), &ret->word)) {
        printf("# %ld without verdict and error: %s\n", response->status,
               json_string_value(json_object_get(json, "detail")));
        ret->err = ONCE_ERR_UNSUPPORTED;
        return;
    }
    if (response->status != status_of(ret->word)) {
        printf("# %s with status %ld\n", once_word_name(ret->word), response->status);
        ret->err = ONCE_ERR_UNSUPPORTED;
    }
    failed = ret->state == ONCE_STATE_FAILED;
    ret->fence = (uint64_t)get_number(json, "fence");
    ret->attempt = (uint32_t)get_number(json, "attempt");
    ret->retry_ms = get_number(json, "retry_ms");
    ret->code = (int32_t)get_number(json, "code");
    ret->result_size = get_bytes(json, failed ? "reason" : "result", ret->result);
    (void)get_bytes(json, "point", ret->point);
    (void)get_bytes(json, "data", ret->data);
}

static void look(struct web *web, const struct conformance_call *call,
                 struct conformance_answer *ret)
{
    struct response response;
    char url[URL_SIZE];

    write_url(web, call, "", url);
    response = send_to(web, "GET", url, NULL);
    read_answer(&response, ret);
    json_decref(response.json);
}

/* Takes the body. */
static void perform(struct served *served, const struct conformance_call *call, const char *action,
                    json_t *body, struct conformance_answer *ret)
{
    struct web *web = served_take(served);
    bool forget = action[0] == '\0';
    struct response response;
    char url[URL_SIZE];

    write_url(web, call, action, url);
    if (forget && call->fence != 0)
        snprintf(url + strlen(url), URL_SIZE - strlen(url), "?fence=%" PRIu64, call->fence);
    response = send_to(web, forget ? "DELETE" : "POST", url, body);
    read_answer(&response, ret);
    json_decref(response.json);
    if (ret->err == ONCE_OK && ret->word == ONCE_DOUBT) {
        struct conformance_answer record;

        look(web, call, &record);
        ONCE_ASSERT(record.fence == ret->fence);
        ret->attempt = record.attempt;
        memcpy(ret->point, record.point, sizeof(ret->point));
        memcpy(ret->data, record.data, sizeof(ret->data));
    }
    served_give(served, web);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static json_t *new_body(void)
{
    json_t *body = json_object();

    ONCE_ASSERT(body != NULL);
    return body;
}

/* With what every owner's call says. */
static json_t *owners_body(const struct conformance_call *call)
{
    json_t *body = new_body();

    set_number(body, "fence", (int64_t)call->fence);
    return body;
}

static void store_begin(void *self, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    json_t *body = new_body();

    set_text(body, "fingerprint", call->fingerprint);
    set_text(body, "owner", call->owner);
    if (call->ttl_ms != 0)
        set_number(body, "ttl_ms", call->ttl_ms);
    if (call->lease_ms != 0)
        set_number(body, "lease_ms", call->lease_ms);
    if (call->on_doubt == ONCE_ON_DOUBT_RETRY)
        set_text(body, "on_doubt", "retry");
    perform(self, call, "begin", body, ret);
}

static void store_complete(void *self, const struct conformance_call *call,
                           struct conformance_answer *ret)
{
    json_t *body = owners_body(call);

    set_number(body, "code", call->code);
    set_bytes(body, "result", call->result);
    perform(self, call, "complete", body, ret);
}

static void store_fail(void *self, const struct conformance_call *call,
                       struct conformance_answer *ret)
{
    json_t *body = owners_body(call);

    if (call->result.size > 0)
        set_bytes(body, "reason", call->result);
    perform(self, call, "fail", body, ret);
}

static void store_checkpoint(void *self, const struct conformance_call *call,
                             struct conformance_answer *ret)
{
    json_t *body = owners_body(call);

    set_text(body, "point", call->point);
    set_text(body, "data", call->data);
    set_text(body, "after", call->after);
    perform(self, call, "checkpoint", body, ret);
}

static void store_renew(void *self, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    json_t *body = owners_body(call);

    set_number(body, "lease_ms", call->lease_ms);
    perform(self, call, "renew", body, ret);
}

static void store_resolve(void *self, const struct conformance_call *call,
                          struct conformance_answer *ret)
{
    json_t *body = new_body();

    json_object_set_new(body, "done", json_boolean(call->done));
    if (call->done) {
        set_number(body, "code", call->code);
        set_bytes(body, "result", call->result);
    }
    if (call->fence != 0)
        set_number(body, "fence", (int64_t)call->fence);
    perform(self, call, "resolve", body, ret);
}

static void store_forget(void *self, const struct conformance_call *call,
                         struct conformance_answer *ret)
{
    perform(self, call, "", NULL, ret);
}

static void store_get(void *self, const struct conformance_call *call,
                      struct conformance_answer *ret)
{
    struct web *web = served_take(self);

    look(web, call, ret);
    served_give(self, web);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void *store_open(once_ms start_ms)
{
    return served_open(start_ms, served_on_disk, &http_link);
}

static void store_close(void *self)
{
    served_close(self);
}

static void *store_restart(void *self)
{
    return served_restart(self);
}

static void store_advance(void *self, once_ms by_ms)
{
    served_advance(self, by_ms);
}

int main(int argc, char **argv)
{
    struct conformance_adapter adapter = {
        .open = store_open,
        .close = store_close,
        .advance = store_advance,
        .restart = store_restart,
        .begin = store_begin,
        .complete = store_complete,
        .fail = store_fail,
        .checkpoint = store_checkpoint,
        .renew = store_renew,
        .resolve = store_resolve,
        .forget = store_forget,
        .get = store_get,
    };
    int failed;

    ONCE_ASSERT(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    failed = served_main(argc, argv, &adapter, "HTTP");
    curl_global_cleanup();
    return failed;
}
