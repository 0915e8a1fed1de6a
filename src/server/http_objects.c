/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects over HTTP: apply, registers with ETag and If-Match (S8), lists, items and merging.
 *
 * A PUT or DELETE of a register is an apply of one effect. With If-Match it names the version that
 * it was made for and needs no key: a repeated one finds the version gone and changes nothing.
 * Without, it needs an Idempotency-Key.
 */
#include "server/http_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <once/key.h>

#include "base/assert.h"
#include "base/bytes.h"

enum { LIST_COUNT_DEFAULT = 100 };

/* Of keys that came in an Idempotency-Key header without a namespace. */
#define HEADER_NAMESPACE "http"

#define COUNT(fields) (sizeof(fields) / sizeof((fields)[0]))

/* ---- What bodies and queries say ------------------------------------------------------------- */

enum { APPLY_FINGERPRINT, APPLY_TTL, APPLY_DO };
static const struct once__http_field apply_fields[] = {
    [APPLY_FINGERPRINT] = {.name = "fingerprint",
                           .kind = ONCE__FIELD_BYTES,
                           .text = "Of the request; without it the effects themselves are."},
    [APPLY_TTL] = {.name = "ttl_ms",
                   .kind = ONCE__FIELD_NUMBER,
                   .min = 1,
                   .max = ONCE_RETENTION_MS_MAX,
                   .text = "How long the answer is kept; else the namespace's retention_ms."},
    [APPLY_DO] = {.name = "do",
                  .kind = ONCE__FIELD_DEEDS,
                  .required = true,
                  .text = "The effects, each an array of its words: "
                          "[[\"ADD\",\"acct:42\",-100,\"MIN\",0]]."},
};
const struct once__http_fields once__http_apply_fields = {"ApplyRequest", apply_fields,
                                                          COUNT(apply_fields)};

static const struct once__http_field merge_fields[] = {
    {.name = "state_base64",
     .kind = ONCE__FIELD_BASE64,
     .required = true,
     .max = ONCE_MERGEABLE_SIZE_MAX,
     .text = "A state or a delta of a mergeable type, as ONCE.DELTA and once_object_delta give "
             "it."},
};
const struct once__http_fields once__http_merge_fields = {"MergeRequest", merge_fields,
                                                          COUNT(merge_fields)};

enum { PAGE_CURSOR, PAGE_COUNT };
#define PAGE_COUNT_FIELD                                                                           \
    {                                                                                              \
        .name = "count", .kind = ONCE__FIELD_NUMBER, .min = 1, .max = ONCE_LIST_COUNT_MAX,         \
        .text = "At most so many; 100 without it."                                                 \
    }
static const struct once__http_field objects_query[] = {
    [PAGE_CURSOR] = {.name = "cursor",
                     .kind = ONCE__FIELD_CURSOR,
                     .text = "Where the page before ended."},
    [PAGE_COUNT] = PAGE_COUNT_FIELD,
};
const struct once__http_fields once__http_objects_query = {"objects", objects_query,
                                                           COUNT(objects_query)};
static const struct once__http_field items_query[] = {
    [PAGE_CURSOR] = {.name = "after",
                     .kind = ONCE__FIELD_CURSOR,
                     .text = "Where the page before ended; of a log or an outbox, the number of "
                             "the last item that is known."},
    [PAGE_COUNT] = PAGE_COUNT_FIELD,
};
const struct once__http_fields once__http_items_query = {"items", items_query, COUNT(items_query)};

static size_t page_count(const struct once__http_request *request)
{
    const struct once__http_value *count = &request->query.values[PAGE_COUNT];

    return count->given ? (size_t)count->number : LIST_COUNT_DEFAULT;
}

/* ---- Apply ----------------------------------------------------------------------------------- */

enum once__http_next once__http_apply(struct once__http_request *request)
{
    const struct once__http_value *values = request->said.values;
    struct once_op *op = &request->call.op;

    op->call = ONCE_CALL_APPLY;
    if (request->params.count == 2) {
        op->ns = request->params.values[0];
        op->key = request->params.values[1];
    }
    op->fingerprint = values[APPLY_FINGERPRINT].bytes;
    op->ttl_ms = values[APPLY_TTL].number;
    op->dos = request->said.dos;
    op->do_count = request->said.do_count;
    return once__http_call(request);
}

static void put_rejection(struct once__http_request *request,
                          const struct once_rejection *rejection, bool replayed)
{
    bool version = once__bytes_equal(rejection->word, once_bytes_of("VERSION"));
    bool writes = (request->route->flags & ONCE__HTTP_WRITES) != 0;
    char reason[ONCE_MESSAGE_SIZE];
    struct once__view view;

    (void)snprintf(reason, sizeof reason, "%.*s", (int)rejection->reason.size,
                   (const char *)rejection->reason.data);
    view = once__http_problem_begin(
        request, version && writes ? ONCE__PROBLEM_VERSION : ONCE__PROBLEM_REJECTED, reason);
    once__view_text(&view, ",\"verdict\":\"REJECTED\"");
    once__view_number_field(&view, "effect", rejection->effect);
    once__view_bytes_field(&view, "word", rejection->word);
    once__view_bytes_field(&view, "reason", rejection->reason);
    once__view_text(&view, replayed ? ",\"replayed\":true" : ",\"replayed\":false");
    once__http_problem_end(request, &view);
}

/* What is common to the answers of an apply. True: it was answered; false: it was applied. */
static bool apply_answered(struct once__http_request *request)
{
    const struct once_reply *reply = &request->call.op.reply;
    bool replayed = reply->word == ONCE_REPLAY;
    struct once_rejection rejection;

    if (reply->err != ONCE_OK) {
        once__http_problem_err(request, reply);
        return true;
    }
    if (!replayed && reply->word != ONCE_APPLIED && reply->word != ONCE_REJECTED) {
        once__http_problem_word(request, reply);
        return true;
    }
    if (reply->word == ONCE_APPLIED || (replayed && reply->code != ONCE_CODE_REJECTED))
        return false;
    /* A key that begin and complete used may have any code: what it holds decides. */
    if (once_rejection_read(reply->result, &rejection) != ONCE_OK)
        return false;
    put_rejection(request, &rejection, replayed);
    return true;
}

/* [900,"new"]; false: these are not the results of an apply. */
static bool put_results(struct once__view *view, struct once_bytes results)
{
    struct once_result result;
    size_t offset = 0;
    size_t before = view->out->size;
    int more;

    once__view_text(view, ",\"results\":[");
    for (size_t i = 0; (more = once_results_next(results, &offset, &result)) == 1; i++) {
        once__view_text(view, i > 0 ? "," : "");
        if (result.is_number)
            once__view_signed(view, result.number);
        else
            once__view_string(view, result.word);
    }
    once__view_text(view, "]");
    if (more < 0)
        view->out->size = before;
    return more == 0;
}

void once__http_apply_finish(struct once__http_request *request)
{
    const struct once_reply *reply = &request->call.op.reply;
    struct once__view view;

    if (apply_answered(request))
        return;
    view = once__http_verdict(request, once_word_name(reply->word));
    if (!put_results(&view, reply->result)) {
        /* The key was begun and completed by someone: its answer is given as it is. */
        once__view_signed_field(&view, "code", reply->code);
        once__view_bytes_field(&view, "result", reply->result);
    }
    once__view_text(&view, "}");
    once__http_answer_end(request, &view);
}

/* ---- Registers ------------------------------------------------------------------------------- */

static enum once__http_next refuse(struct once__http_request *request,
                                   enum once__http_problem problem, const char *detail)
{
    once__http_problem(request, problem, detail);
    return ONCE__HTTP_ANSWERED;
}

/* "7" with its quotes, as we gave it. */
static bool read_etag(const char *text, char *ret_version, size_t size)
{
    size_t digits;

    if (*text++ != '"')
        return false;
    digits = strspn(text, "0123456789");
    if (digits == 0 || digits >= size || strcmp(text + digits, "\"") != 0)
        return false;
    memcpy(ret_version, text, digits);
    ret_version[digits] = '\0';
    return true;
}

/* The IF of the effect: false, and it is answered, when the headers make no sense. */
static bool read_condition(struct once__http_request *request, bool *ret_given)
{
    const char *match = once__http_header(request, "If-Match");
    const char *none = once__http_header(request, "If-None-Match");

    *ret_given = match || none;
    if (match && none) {
        (void)refuse(request, ONCE__PROBLEM_BAD_REQUEST,
                     "If-Match and If-None-Match are two conditions: say one.");
        return false;
    }
    if (none && strcmp(none, "*") != 0) {
        (void)refuse(request, ONCE__PROBLEM_BAD_REQUEST,
                     "If-None-Match of a write is *: only as the first value.");
        return false;
    }
    if (none)
        memcpy(request->version, "0", 2);
    if (match && !read_etag(match, request->version, sizeof request->version)) {
        (void)refuse(request, ONCE__PROBLEM_BAD_REQUEST,
                     "If-Match is one version in quotes, as ETag gives it: \"7\".");
        return false;
    }
    return true;
}

/* The key of the write: false, and it is answered, when it is none. */
static bool read_key(struct once__http_request *request)
{
    const char *header = once__http_header(request, "Idempotency-Key");
    const char *ns = once__http_header(request, "Once-Namespace");
    struct once_op *op = &request->call.op;
    struct once_defect defect = {.what = ""};
    char detail[ONCE_MESSAGE_SIZE];
    int err;

    if (!header)
        return true;
    request->key = malloc(sizeof *request->key);
    if (!request->key) {
        (void)refuse(request, ONCE__PROBLEM_OVERLOAD, once_err_text(ONCE_ERR_MEMORY));
        return false;
    }
    err = once_key_parse_header(once_bytes_of(header), request->key, &defect);
    if (err != ONCE_OK) {
        (void)snprintf(detail, sizeof detail, "Idempotency-Key: %s (at byte %zu)",
                       once_err_text(err), defect.offset);
        (void)refuse(request, ONCE__PROBLEM_BAD_REQUEST, detail);
        return false;
    }
    op->ns = once_bytes_of(ns ? ns : HEADER_NAMESPACE);
    op->key = (struct once_bytes){.data = (const uint8_t *)request->key->text,
                                  .size = request->key->size};
    return true;
}

/* words[0 .. count) are there; a condition is put behind them. */
static enum once__http_next write_object(struct once__http_request *request, size_t count)
{
    struct once_op *op = &request->call.op;
    bool conditional;

    if (!read_condition(request, &conditional) || !read_key(request))
        return ONCE__HTTP_ANSWERED;
    if (!conditional && !request->key)
        return refuse(request, ONCE__PROBLEM_CONDITION,
                      "A write that may be repeated needs If-Match with the version that it is "
                      "for, If-None-Match: * for a first value, or an Idempotency-Key.");
    if (conditional) {
        request->words[count++] = once_bytes_of("IF");
        request->words[count++] = once_bytes_of(request->version);
    }
    ONCE_ASSERT(count <= COUNT(request->words));
    request->one = (struct once_do){.words = request->words, .count = count};
    op->call = ONCE_CALL_APPLY;
    op->dos = &request->one;
    op->do_count = 1;
    return once__http_call(request);
}

enum once__http_next once__http_object_put(struct once__http_request *request)
{
    request->words[0] = once_bytes_of("SET");
    request->words[1] = request->params.values[0];
    request->words[2] = once_buf_bytes(&request->body);
    return write_object(request, 3);
}

enum once__http_next once__http_object_delete(struct once__http_request *request)
{
    request->words[0] = once_bytes_of("DELETE");
    request->words[1] = request->params.values[0];
    return write_object(request, 2);
}

static void put_etag(struct once__http_request *request, uint64_t version)
{
    (void)snprintf(request->answer.etag, sizeof request->answer.etag, "\"%" PRIu64 "\"", version);
}

void once__http_write_finish(struct once__http_request *request)
{
    const struct once_reply *reply = &request->call.op.reply;
    struct once_result result = {.is_number = false};
    size_t offset = 0;
    struct once__view view;

    if (apply_answered(request))
        return;
    if (once_results_next(reply->result, &offset, &result) != 1 || !result.is_number) {
        once__http_problem(request, ONCE__PROBLEM_MISMATCH,
                           "The key was used by another operation, whose answer is no version.");
        return;
    }
    view = once__http_verdict(request, once_word_name(reply->word));
    once__view_signed_field(&view, "version", result.number);
    once__view_text(&view, "}");
    put_etag(request, (uint64_t)result.number);
    once__http_answer_end(request, &view);
}

/* ---- Looking --------------------------------------------------------------------------------- */

static enum once__http_next look_at(struct once__http_request *request, struct once_bytes name)
{
    struct once_reply reply = {.err = ONCE_OK};

    reply.err = once__service_check_object(request->http->setup.service, request->config,
                                           &request->identity, name, false, &reply.what);
    if (reply.err == ONCE_OK)
        return ONCE__HTTP_LOOK;
    if (reply.err == ONCE_ERR_RATE)
        reply.retry_ms = ONCE_RETRY_MS_MAX;
    once__http_problem_err(request, &reply);
    return ONCE__HTTP_ANSWERED;
}

enum once__http_next once__http_object(struct once__http_request *request)
{
    return look_at(request, request->params.values[0]);
}

enum once__http_next once__http_objects(struct once__http_request *request)
{
    return look_at(request, (struct once_bytes){NULL, 0}); /* all of them */
}

static void look_failed(struct once__http_request *request, int err, const char *what)
{
    struct once_reply reply = {.err = err, .what = what};

    once__http_problem_err(request, &reply);
}

/* Has the caller this version already? */
static bool not_changed(const struct once__http_request *request, uint64_t version)
{
    const char *have = once__http_header(request, "If-None-Match");
    char etag[sizeof request->answer.etag];

    (void)snprintf(etag, sizeof etag, "\"%" PRIu64 "\"", version);
    return have && (strcmp(have, "*") == 0 || strstr(have, etag));
}

static bool has_version(enum once_object_type type)
{
    return type == ONCE_OBJECT_REGISTER || type == ONCE_OBJECT_LOG || type == ONCE_OBJECT_OUTBOX ||
           once_object_mergeable(type);
}

static void put_deleted(struct once__http_request *request, const struct once_object *object)
{
    struct once__view view = once__http_problem_begin(
        request, ONCE__PROBLEM_NO_OBJECT,
        "It was deleted; its version stays, and If-Match with it sets a new value.");

    once__view_text(&view, ",\"deleted\":true");
    once__view_number_field(&view, "version", object->version);
    put_etag(request, object->version);
    once__http_problem_end(request, &view);
}

void once__http_object_look(struct once__http_request *request)
{
    struct once_object object = {.type = ONCE_OBJECT_NONE};
    struct once__view view;
    int err = once_object_get(once__service_store(request->http->setup.service),
                              request->params.values[0], &object);

    if (err != ONCE_OK) {
        look_failed(request, err, NULL);
    } else if (object.type == ONCE_OBJECT_NONE) {
        once__http_problem(request, ONCE__PROBLEM_NO_OBJECT, "Nobody used this name yet.");
    } else if (object.type == ONCE_OBJECT_REGISTER && !object.present) {
        put_deleted(request, &object);
    } else if (has_version(object.type) && not_changed(request, object.version)) {
        (void)once__http_answer(request, 304);
        request->answer.type = NULL;
        put_etag(request, object.version);
    } else {
        view = once__http_answer(request, 200);
        if (has_version(object.type))
            put_etag(request, object.version);
        view.err = once_buf_append(view.out, object.json.data, object.json.size);
        once__http_answer_end(request, &view);
    }
    once_object_release(&object);
}

struct object_list {
    struct once__view view;
    size_t count;
};

static void add_object(void *user, struct once_bytes name, enum once_object_type type)
{
    struct object_list *list = user;

    once__view_text(&list->view, list->count++ > 0 ? ",{\"name\":" : "{\"name\":");
    once__view_string(&list->view, name);
    once__view_bytes_field(&list->view, "type", once_bytes_of(once_object_type_name(type)));
    once__view_text(&list->view, "}");
}

static void put_cursor(struct once__view *view, uint64_t cursor)
{
    once__view_text(view, "],\"cursor\":\"");
    once__view_number(view, cursor);
    once__view_text(view, "\"");
}

void once__http_objects_look(struct once__http_request *request)
{
    struct object_list list = {.view = once__http_answer(request, 200)};
    uint64_t cursor = 0;
    int err;

    once__view_text(&list.view, "{\"objects\":[");
    err = once_object_list(once__service_store(request->http->setup.service),
                           request->query.values[PAGE_CURSOR].cursor, page_count(request),
                           add_object, &list, &cursor);
    if (err != ONCE_OK) {
        look_failed(request, err, NULL);
        return;
    }
    put_cursor(&list.view, cursor);
    once__view_text(&list.view, "}");
    once__http_answer_end(request, &list.view);
}

static void add_item(void *user, const struct once_object_item *item)
{
    struct object_list *list = user;

    once__view_text(&list->view, list->count++ > 0 ? ",{\"number\":" : "{\"number\":");
    once__view_number(&list->view, item->number);
    if (item->id.size > 0)
        once__view_bytes_field(&list->view, "id", item->id);
    if (item->group.size > 0)
        once__view_bytes_field(&list->view, "group", item->group);
    if (item->payload.data)
        once__view_bytes_field(&list->view, "payload", item->payload);
    once__view_text(&list->view, "}");
}

void once__http_items_look(struct once__http_request *request)
{
    struct object_list list = {.view = once__http_answer(request, 200)};
    uint64_t cursor = 0;
    bool more = false;
    int err;

    once__view_text(&list.view, "{\"items\":[");
    err = once_object_read(once__service_store(request->http->setup.service),
                           request->params.values[0], request->query.values[PAGE_CURSOR].cursor,
                           page_count(request), add_item, &list, &cursor, &more);
    if (err != ONCE_OK) {
        look_failed(request, err,
                    err == ONCE_ERR_OBJECT_TYPE ? "only logs, outboxes and buckets have items"
                                                : NULL);
        return;
    }
    put_cursor(&list.view, cursor);
    once__view_text(&list.view, more ? ",\"more\":true}" : ",\"more\":false}");
    once__http_answer_end(request, &list.view);
}

/* ---- Merging --------------------------------------------------------------------------------- */

enum once__http_next once__http_object_merge(struct once__http_request *request)
{
    struct once_op *op = &request->call.op;

    op->call = ONCE_CALL_MERGE;
    op->key = request->params.values[0];
    op->data = request->said.values[0].bytes;
    return once__http_call(request);
}

void once__http_merge_finish(struct once__http_request *request)
{
    struct once_reply *reply = &request->call.op.reply;
    struct once_result news = {.is_number = false};
    size_t offset = 0;
    struct once__view view;

    if (reply->err == ONCE_ERR_DAMAGED) {
        reply->err = ONCE_ERR_INVALID;
        reply->what = "state_base64: is not the canonical state of a mergeable type";
    } else if (reply->err == ONCE_ERR_FULL) {
        reply->err = ONCE_ERR_TOO_LARGE; /* the object's bound: no use in repeating it */
    }
    if (apply_answered(request))
        return;
    view = once__http_verdict(request, once_word_name(ONCE_DONE));
    once__view_field(&view, "changed");
    once__view_text(&view, once_results_next(reply->result, &offset, &news) == 1 &&
                                   news.is_number && news.number == 1
                               ? "true}"
                               : "false}");
    once__http_answer_end(request, &view);
}
