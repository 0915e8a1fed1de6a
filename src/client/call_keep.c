/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests as they are kept: the data of the recovery point "request" (call_inner.h has its
 * layout), and the fingerprint that binds the key to its request.
 *
 * What was kept goes through the same checks as what is given: the store may have been written by
 * another version, or by someone else.
 */
#include "client/call_inner.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *texts_of(const struct once__call_lines *lines)
{
    json_t *array = json_array();

    for (const char *line = NULL; array && (line = once__call_lines_next(lines, line)) != NULL;) {
        if (json_array_append_new(array, json_string(line)) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *object_of(const struct once__call_request *request)
{
    json_t *object = json_object();
    bool made = object && json_object_set_new(object, "once", json_string("call")) == 0 &&
                json_object_set_new(object, "version", json_integer(ONCE__CALL_VERSION)) == 0 &&
                json_object_set_new(object, "method", json_string(request->method)) == 0 &&
                json_object_set_new(object, "url", json_string(request->url)) == 0 &&
                json_object_set_new(object, "headers", texts_of(&request->headers)) == 0 &&
                json_object_set_new(object, "secret_headers", texts_of(&request->secrets)) == 0 &&
                json_object_set_new(object, "key_header", json_string(request->key_header)) == 0 &&
                json_object_set_new(object, "bare_key", json_boolean(request->bare_key)) == 0;

    if (made && request->has_body)
        made = json_object_set_new(object, "body_size",
                                   json_integer((json_int_t)request->body.size)) == 0;
    if (made && request->body_file)
        made = json_object_set_new(object, "body_file", json_string(request->body_file)) == 0 &&
               json_object_set_new(object, "body_sha256", json_string(request->body_sha256)) == 0;
    if (made)
        return object;
    json_decref(object);
    return NULL;
}

int once__call_request_write(const struct once__call_request *request, struct once_buf *out)
{
    json_t *object = object_of(request);
    char *line = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    int err = line ? once_buf_append(out, line, strlen(line)) : ONCE_ERR_MEMORY;

    if (err == ONCE_OK)
        err = once_buf_append(out, "\n", 1);
    if (err == ONCE_OK && !request->body_file && request->body.size > 0)
        err = once_buf_append(out, request->body.data, request->body.size);
    free(line);
    json_decref(object);
    return err;
}

int once__call_request_fingerprint(const struct once__call_request *request,
                                   struct once_fingerprint *ret_fingerprint)
{
    const struct once_bytes parts[] = {
        once_bytes_of("once call 1"),
        once_bytes_of(request->method),
        once_bytes_of(request->url),
        once_buf_bytes(&request->headers.text),
        once_buf_bytes(&request->secrets.text),
        once_bytes_of(request->key_header),
        once_bytes_of(request->bare_key ? "bare" : "quoted"),
        once_bytes_of(request->has_body ? request->body_sha256 : "none"),
    };
    struct once_key digest;
    int err = once_key_digest(parts, sizeof(parts) / sizeof(parts[0]), &digest);

    if (err != ONCE_OK)
        return err;
    return once_fingerprint_from_bytes(
        (struct once_bytes){(const uint8_t *)digest.text, digest.size}, ret_fingerprint);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The strings of an array, borrowed from it. */
struct texts {
    const char *items[ONCE_SEND_HEADERS_MAX];
    size_t count;
};

static bool take_texts(const json_t *object, const char *name, struct texts *ret_texts)
{
    json_t *array = json_object_get(object, name);
    size_t count = json_array_size(array);

    if (!json_is_array(array) || count > ONCE_SEND_HEADERS_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        ret_texts->items[i] = json_string_value(json_array_get(array, i));
        if (!ret_texts->items[i])
            return false;
    }
    ret_texts->count = count;
    return true;
}

static int no_call(char text[ONCE_MESSAGE_SIZE])
{
    return once__call_wrong(ONCE_ERR_INVALID, text,
                            "what is kept under this key is no call, or one of a later version");
}

/* The body behind the line, or the file that it is in, unchanged. */
static int read_body(const json_t *object, struct once_bytes rest, struct once_http_request *given,
                     char text[ONCE_MESSAGE_SIZE])
{
    json_t *size = json_object_get(object, "body_size");

    given->body_file = json_string_value(json_object_get(object, "body_file"));
    if (!size)
        return rest.size == 0 && !given->body_file ? ONCE_OK : no_call(text);
    if (!json_is_integer(size) || json_integer_value(size) < 0)
        return no_call(text);
    if (given->body_file)
        return rest.size == 0 ? ONCE_OK : no_call(text);
    if ((uint64_t)json_integer_value(size) != rest.size)
        return no_call(text);
    given->body = rest;
    return ONCE_OK;
}

static int check_file(const json_t *object, const struct once__call_request *request,
                      char text[ONCE_MESSAGE_SIZE])
{
    const char *sha256 = json_string_value(json_object_get(object, "body_sha256"));

    if (!json_object_get(object, "body_file") ||
        (sha256 && strcmp(sha256, request->body_sha256) == 0))
        return ONCE_OK;
    return once__call_wrong(ONCE_ERR_INVALID, text,
                            "the body's file has changed since the call was begun, so this would "
                            "be another request; its SHA-256 was %s",
                            sha256 ? sha256 : "not kept");
}

int once__call_request_read(struct once_bytes data, struct once__call_request *ret_request,
                            char text[ONCE_MESSAGE_SIZE])
{
    const uint8_t *end = data.size > 0 ? memchr(data.data, '\n', data.size) : NULL;
    size_t line_size = end ? (size_t)(end - data.data) : 0;
    struct texts headers, secrets;
    struct once_http_request given = {0};
    json_t *object = end ? json_loadb((const char *)data.data, line_size, 0, NULL) : NULL;
    const char *once = json_string_value(json_object_get(object, "once"));
    int err = ONCE_OK;

    *ret_request = (struct once__call_request){.url = NULL};
    if (!once || strcmp(once, "call") != 0 ||
        json_integer_value(json_object_get(object, "version")) != ONCE__CALL_VERSION ||
        !take_texts(object, "headers", &headers) || !take_texts(object, "secret_headers", &secrets))
        err = no_call(text);
    if (err == ONCE_OK)
        err = read_body(object, (struct once_bytes){end + 1, data.size - line_size - 1}, &given,
                        text);
    if (err == ONCE_OK) {
        given.method = json_string_value(json_object_get(object, "method"));
        given.url = json_string_value(json_object_get(object, "url"));
        given.headers = headers.items;
        given.header_count = headers.count;
        given.secret_headers = secrets.items;
        given.secret_header_count = secrets.count;
        given.key_header = json_string_value(json_object_get(object, "key_header"));
        given.bare_key = json_is_true(json_object_get(object, "bare_key"));
        err = once__call_request_make(&given, ret_request, text);
    }
    if (err == ONCE_OK)
        err = check_file(object, ret_request, text);
    json_decref(object);
    return err;
}
