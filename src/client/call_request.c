/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests as they are given: checks them, and reads their files.
 *
 * Nothing secret gets from here into the store or into a message: a URL with a user or a password
 * is refused, and not repeated. Headers are call_header.c's.
 */
#include "client/call_inner.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/sha256.h"

enum { READ_SIZE = 1 << 16 };

static const char DEFAULT_KEY_HEADER[] = "Idempotency-Key";

/* ---- Small things ---------------------------------------------------------------------------- */

int once__call_wrong(int err, char text[ONCE_MESSAGE_SIZE], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(text, ONCE_MESSAGE_SIZE, format, args);
    va_end(args);
    return err;
}

static int out_of_memory(char text[ONCE_MESSAGE_SIZE])
{
    return once__call_wrong(ONCE_ERR_MEMORY, text, "%s", once_err_text(ONCE_ERR_MEMORY));
}

once_ms once__call_now_ms(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_BOOTTIME, &now) != 0)
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Method and URL -------------------------------------------------------------------------- */

static int take_method(struct once__call_request *request, const char *method,
                       char text[ONCE_MESSAGE_SIZE])
{
    size_t size = method ? strlen(method) : 0;

    if (size == 0 || size > ONCE_SEND_METHOD_SIZE_MAX ||
        strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != size)
        return once__call_wrong(ONCE_ERR_INVALID, text,
                                "a method is a word of upper case letters, such as POST");
    if (strcmp(method, "CONNECT") == 0 || strcmp(method, "TRACE") == 0)
        return once__call_wrong(ONCE_ERR_INVALID, text, "the method %s is not for calls", method);
    memcpy(request->method, method, size + 1);
    return ONCE_OK;
}

/* The URL itself is not told: it may hold the very password that is refused. */
static int take_url(struct once__call_request *request, const char *url,
                    char text[ONCE_MESSAGE_SIZE])
{
    size_t size = url ? strlen(url) : 0;
    CURLU *parts;
    CURLUcode code;

    if (size == 0 || (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0))
        return once__call_wrong(ONCE_ERR_INVALID, text, "a URL begins with http:// or https://");
    if (size > ONCE_SEND_URL_SIZE_MAX)
        return once__call_wrong(ONCE_ERR_INVALID, text, "the URL is over %d bytes long",
                                ONCE_SEND_URL_SIZE_MAX);
    for (size_t i = 0; i < size; i++) {
        if (url[i] <= 0x20 || url[i] > 0x7e)
            return once__call_wrong(ONCE_ERR_INVALID, text,
                                    "the URL's character %zu is a blank or no printable ASCII; "
                                    "write it as %%XX",
                                    i + 1);
    }
    if (strchr("/?#", strstr(url, "://")[3])) /* its NUL too */
        return once__call_wrong(ONCE_ERR_INVALID, text, "the URL has no host");
    parts = curl_url();
    if (!parts)
        return out_of_memory(text);
    code = curl_url_set(parts, CURLUPART_URL, url, CURLU_DISALLOW_USER);
    curl_url_cleanup(parts);
    if (code == CURLUE_USER_NOT_ALLOWED)
        return once__call_wrong(ONCE_ERR_INVALID, text,
                                "the URL has a user or a password in it, and the store would keep "
                                "it; give a secret header, 'Authorization: Basic $VARIABLE'");
    if (code == CURLUE_OUT_OF_MEMORY)
        return out_of_memory(text);
    if (code != CURLUE_OK)
        return once__call_wrong(ONCE_ERR_INVALID, text, "the URL cannot be read: %s",
                                curl_url_strerror(code));
    request->url = strndup(url, strcspn(url, "#")); /* a fragment is not sent */
    return request->url ? ONCE_OK : out_of_memory(text);
}

/* ---- Bodies ---------------------------------------------------------------------------------- */

static int hash_body(struct once__call_request *request, char text[ONCE_MESSAGE_SIZE])
{
    struct once__sha256_digest digest;
    int err = once__sha256_of(once_buf_bytes(&request->body), &digest);

    if (err != ONCE_OK)
        return once__call_wrong(err, text, "%s", once_err_text(err));
    for (size_t i = 0; i < ONCE__SHA256_SIZE; i++)
        snprintf(request->body_sha256 + 2 * i, 3, "%02x", digest.bytes[i]);
    return ONCE_OK;
}

static int read_all(int fd, struct once_buf *out)
{
    for (;;) {
        ssize_t got;
        int err = once_buf_reserve(out, READ_SIZE);

        if (err == ONCE_ERR_FULL && out->size < out->size_max)
            err = once_buf_reserve(out, out->size_max - out->size);
        if (err == ONCE_ERR_FULL) { /* at its end, or one byte too many? */
            char byte;

            got = read(fd, &byte, 1);
            if (got == 0)
                return ONCE_OK;
            return got < 0 && errno != EINTR ? ONCE_ERR_IO : ONCE_ERR_TOO_LARGE;
        }
        if (err != ONCE_OK)
            return err;
        got = read(fd, out->data + out->size, out->capacity - out->size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0 ? ONCE_OK : ONCE_ERR_IO;
        out->size += (size_t)got;
    }
}

int once__call_request_load(struct once__call_request *request, char text[ONCE_MESSAGE_SIZE])
{
    int fd = open(request->body_file, O_RDONLY | O_CLOEXEC);
    int err, number = errno;

    if (fd < 0)
        return once__call_wrong(number == EACCES ? ONCE_ERR_PERMISSION : ONCE_ERR_INVALID, text,
                                "the body's file cannot be opened: %s", strerror(number));
    once_buf_release(&request->body);
    once_buf_init(&request->body, ONCE_SEND_FILE_SIZE_MAX);
    err = read_all(fd, &request->body);
    number = errno;
    (void)close(fd);
    if (err == ONCE_ERR_TOO_LARGE)
        return once__call_wrong(err, text, "the body's file has more than %d bytes",
                                ONCE_SEND_FILE_SIZE_MAX);
    if (err == ONCE_ERR_IO)
        return once__call_wrong(ONCE_ERR_INVALID, text, "the body's file cannot be read: %s",
                                strerror(number));
    if (err != ONCE_OK)
        return out_of_memory(text);
    request->has_body = true;
    return hash_body(request, text);
}

/* A file is named by its whole path: a resume may run in another folder. */
static int take_file(struct once__call_request *request, const char *path,
                     char text[ONCE_MESSAGE_SIZE])
{
    struct stat found;
    int err;

    request->body_file = realpath(path, NULL);
    if (!request->body_file)
        return once__call_wrong(errno == EACCES ? ONCE_ERR_PERMISSION : ONCE_ERR_INVALID, text,
                                "the body's file cannot be found: %s", strerror(errno));
    err = once__call_request_load(request, text);
    if (err != ONCE_OK)
        return err;
    if (request->body.size > ONCE_SEND_BODY_KEPT_MAX) {
        if (stat(request->body_file, &found) == 0 && S_ISREG(found.st_mode))
            return ONCE_OK;
        return once__call_wrong(ONCE_ERR_TOO_LARGE, text,
                                "the body has more than %d bytes and is in no regular file, so a "
                                "resume could not read it again; put it into one",
                                ONCE_SEND_BODY_KEPT_MAX);
    }
    free(request->body_file); /* the store keeps it */
    request->body_file = NULL;
    return ONCE_OK;
}

static int take_body(struct once__call_request *request, const struct once_http_request *given,
                     char text[ONCE_MESSAGE_SIZE])
{
    int err;

    if (given->body_file && given->body.data)
        return once__call_wrong(ONCE_ERR_INVALID, text, "a body and a file with a body: give one");
    if (given->body_file)
        return take_file(request, given->body_file, text);
    if (!given->body.data)
        return given->body.size == 0
                   ? hash_body(request, text)
                   : once__call_wrong(ONCE_ERR_INVALID, text, "a body of a size and no bytes");
    if (given->body.size > ONCE_SEND_BODY_KEPT_MAX)
        return once__call_wrong(ONCE_ERR_TOO_LARGE, text,
                                "the body has more than %d bytes; put it into a file",
                                ONCE_SEND_BODY_KEPT_MAX);
    request->has_body = true;
    err = once_buf_append(&request->body, given->body.data, given->body.size);
    return err == ONCE_OK ? hash_body(request, text) : out_of_memory(text);
}

/* Said once and kept, so that a resume sends the same. */
static int add_content_type(struct once__call_request *request, char text[ONCE_MESSAGE_SIZE])
{
    json_t *json = NULL;
    int err;

    if (!request->has_body || once__call_header(&request->headers, "Content-Type") ||
        once__call_header(&request->secrets, "Content-Type"))
        return ONCE_OK;
    if (request->body.size > 0 && request->body.size <= ONCE_SEND_BODY_KEPT_MAX)
        json = json_loadb((const char *)request->body.data, request->body.size, 0, NULL);
    err = once__call_header_add(
        request, json ? "Content-Type: application/json" : "Content-Type: application/octet-stream",
        false, text);
    json_decref(json);
    return err;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int take_key_header(struct once__call_request *request, const char *name,
                           char text[ONCE_MESSAGE_SIZE])
{
    request->key_header = strdup(name ? name : DEFAULT_KEY_HEADER);
    if (!request->key_header)
        return out_of_memory(text);
    if (!once__call_is_token(request->key_header, strlen(request->key_header)) ||
        strlen(request->key_header) > 255)
        return once__call_wrong(ONCE_ERR_INVALID, text,
                                "the name of the key's header is letters, digits and -");
    return ONCE_OK;
}

int once__call_request_make(const struct once_http_request *given,
                            struct once__call_request *ret_request, char text[ONCE_MESSAGE_SIZE])
{
    struct once__call_request *request = ret_request;
    int err;

    *request = (struct once__call_request){.bare_key = given->bare_key};
    once_buf_init(&request->body, ONCE_SEND_BODY_KEPT_MAX);
    once_buf_init(&request->headers.text, ONCE_SEND_HEADERS_SIZE_MAX);
    once_buf_init(&request->secrets.text, ONCE_SEND_HEADERS_SIZE_MAX);
    err = take_method(request, given->method, text);
    if (err == ONCE_OK)
        err = take_url(request, given->url, text);
    if (err == ONCE_OK)
        err = take_key_header(request, given->key_header, text);
    for (size_t i = 0; i < given->header_count && err == ONCE_OK; i++)
        err = once__call_header_add(request, given->headers[i], false, text);
    for (size_t i = 0; i < given->secret_header_count && err == ONCE_OK; i++)
        err = once__call_header_add(request, given->secret_headers[i], true, text);
    if (err == ONCE_OK)
        err = take_body(request, given, text);
    if (err == ONCE_OK)
        err = add_content_type(request, text);
    if (err == ONCE_OK)
        err = once__call_secrets_check(request, text);
    return err;
}

void once__call_request_release(struct once__call_request *request)
{
    free(request->url);
    free(request->key_header);
    free(request->body_file);
    once_buf_release(&request->headers.text);
    once_buf_release(&request->secrets.text);
    once_buf_release(&request->body);
    *request = (struct once__call_request){.url = NULL};
}
