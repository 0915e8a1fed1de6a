/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers: what of one is kept (call_inner.h has the layout), and what the caller is given.
 *
 * Set-Cookie is not kept: a session is a secret of the moment, not a part of the answer.
 */
#include "client/call_inner.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Behind an answer. */
struct memory {
    struct once__call_lines headers;
    struct once_buf body;
    const char **table; /* of the headers */
};

/* ---- What is kept ---------------------------------------------------------------------------- */

/* A header's bytes as JSON: those that are no UTF-8 are Latin-1, which is what they once were. */
static json_t *text_of(const char *line)
{
    size_t size = strlen(line);
    json_t *text = json_stringn(line, size);
    char *wide;
    size_t at = 0;

    if (text)
        return text;
    wide = malloc(2 * size + 1);
    if (!wide)
        return NULL;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)line[i];

        if (c >= 0x80)
            wide[at++] = (char)(0xc0 | c >> 6);
        wide[at++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
    }
    text = json_stringn(wide, at);
    free(wide);
    return text;
}

static json_t *headers_of(const struct once__call_lines *headers, bool with_headers)
{
    json_t *array = json_array();

    for (const char *line = NULL;
         array && with_headers && (line = once__call_lines_next(headers, line)) != NULL;) {
        if (strncasecmp(line, "Set-Cookie", 10) == 0)
            continue;
        if (json_array_append_new(array, text_of(line)) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

int once__call_result_write(const struct once__call_reply *reply, size_t kept_max,
                            bool with_headers, struct once_buf *out)
{
    size_t kept = reply->body.size < kept_max ? reply->body.size : kept_max;
    json_t *object = json_object();
    bool made = object && json_object_set_new(object, "once", json_string("call")) == 0 &&
                json_object_set_new(object, "version", json_integer(ONCE__CALL_VERSION)) == 0 &&
                json_object_set_new(object, "status", json_integer(reply->status)) == 0 &&
                json_object_set_new(object, "headers", headers_of(&reply->headers, with_headers)) ==
                    0 &&
                json_object_set_new(object, "kept", json_integer((json_int_t)kept)) == 0 &&
                json_object_set_new(
                    object, "lost",
                    json_integer((json_int_t)(reply->body.size - kept + reply->body_lost))) == 0;
    char *line = made ? json_dumps(object, JSON_COMPACT) : NULL;
    int err = line ? once_buf_append(out, line, strlen(line)) : ONCE_ERR_MEMORY;

    if (err == ONCE_OK)
        err = once_buf_append(out, "\n", 1);
    if (err == ONCE_OK && kept > 0)
        err = once_buf_append(out, reply->body.data, kept);
    free(line);
    json_decref(object);
    return err;
}

/* ---- What the caller is given ---------------------------------------------------------------- */

static int take(struct memory *memory, struct once_http_answer *answer)
{
    size_t i = 0;

    memory->table = calloc(memory->headers.count + 1, sizeof(memory->table[0]));
    if (!memory->table)
        return ONCE_ERR_MEMORY;
    for (const char *line = NULL; (line = once__call_lines_next(&memory->headers, line)) != NULL;)
        memory->table[i++] = line;
    answer->headers = memory->table;
    answer->header_count = i;
    answer->body = once_buf_bytes(&memory->body);
    return ONCE_OK;
}

static struct memory *memory_new(struct once_http_answer *answer)
{
    struct memory *memory = calloc(1, sizeof(*memory));

    if (!memory)
        return NULL;
    once_buf_init(&memory->headers.text, 2 * ONCE_SEND_ANSWER_HEADERS_SIZE_MAX);
    once_buf_init(&memory->body, ONCE_RESULT_SIZE_MAX);
    answer->memory = memory;
    return memory;
}

int once__call_answer_take(struct once__call_reply *reply, struct once_http_answer *answer)
{
    struct memory *memory = memory_new(answer);

    if (!memory)
        return ONCE_ERR_MEMORY;
    memory->headers = reply->headers;
    memory->body = reply->body;
    answer->status = reply->status;
    answer->body_lost = reply->body_lost;
    *reply = (struct once__call_reply){0};
    return take(memory, answer);
}

static bool read_headers(const json_t *array, struct once__call_lines *headers)
{
    size_t count = json_array_size(array);

    if (!json_is_array(array) || count > ONCE_SEND_ANSWER_HEADERS_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *line = json_string_value(json_array_get(array, i));

        if (!line || once__call_lines_add(headers, line, strlen(line)) != ONCE_OK)
            return false;
    }
    return true;
}

/* Whether the line is one of ours; then the answer has its status and headers. */
static bool read_line(const json_t *object, size_t rest, struct memory *memory,
                      struct once_http_answer *answer)
{
    const char *once = json_string_value(json_object_get(object, "once"));
    json_int_t status = json_integer_value(json_object_get(object, "status"));
    json_int_t lost = json_integer_value(json_object_get(object, "lost"));

    if (!once || strcmp(once, "call") != 0 || status < 100 || status > 999 || lost < 0 ||
        json_integer_value(json_object_get(object, "version")) != ONCE__CALL_VERSION ||
        json_integer_value(json_object_get(object, "kept")) != (json_int_t)rest ||
        !read_headers(json_object_get(object, "headers"), &memory->headers))
        return false;
    answer->status = (int)status;
    answer->body_lost = (uint64_t)lost;
    return true;
}

int once__call_result_read(int32_t code, struct once_bytes result, struct once_http_answer *answer)
{
    struct memory *memory = memory_new(answer);
    const uint8_t *end = result.size > 0 ? memchr(result.data, '\n', result.size) : NULL;
    struct once_bytes body = {0};
    json_t *object = NULL;
    int err = ONCE_OK;

    if (!memory)
        return ONCE_ERR_MEMORY;
    if (end) {
        size_t line_size = (size_t)(end - result.data);

        object = json_loadb((const char *)result.data, line_size, 0, NULL);
        body = (struct once_bytes){end + 1, result.size - line_size - 1};
    }
    if (!read_line(object, body.size, memory, answer)) {
        /* Somebody resolved it by hand, with a result of their own. */
        once_buf_clear(&memory->headers.text);
        memory->headers.count = 0;
        answer->status = code >= 100 && code <= 999 ? code : 0;
        answer->body_lost = 0;
        body = result;
    }
    if (body.size > 0)
        err = once_buf_append(&memory->body, body.data, body.size);
    json_decref(object);
    return err == ONCE_OK ? take(memory, answer) : err;
}

void once_http_answer_release(struct once_http_answer *answer)
{
    struct memory *memory;

    if (!answer)
        return;
    memory = answer->memory;
    if (memory) {
        once_buf_release(&memory->headers.text);
        once_buf_release(&memory->body);
        free(memory->table);
        free(memory);
    }
    *answer = (struct once_http_answer){0};
}

const char *once_http_outcome_name(enum once_http_outcome outcome)
{
    static const char *const names[] = {
        [ONCE_HTTP_ANSWERED] = "answered",   [ONCE_HTTP_REPLAYED] = "replayed",
        [ONCE_HTTP_UNREACHED] = "unreached", [ONCE_HTTP_DOUBT] = "in doubt",
        [ONCE_HTTP_BUSY] = "busy",           [ONCE_HTTP_MISMATCH] = "mismatch",
        [ONCE_HTTP_TOO_OLD] = "too old",     [ONCE_HTTP_STALE] = "stale",
        [ONCE_HTTP_ABSENT] = "absent"};

    return (size_t)outcome < sizeof(names) / sizeof(names[0]) ? names[outcome] : "unknown";
}
