/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/ops/{ns}/{key}/history: what happened to an operation, the newest first.
 */
#include "server/http_inner.h"

#include <once/key.h>

#include "server/history.h"

enum { HISTORY_COUNT };
static const struct once__http_field history_query[] = {
    [HISTORY_COUNT] = {.name = "count",
                       .kind = ONCE__FIELD_NUMBER,
                       .min = 1,
                       .max = ONCE_LIST_COUNT_MAX,
                       .text = "At most so many; 100 without it."},
};
const struct once__http_fields once__http_history_query = {"history", history_query, 1};

enum once__http_next once__http_history(struct once__http_request *request)
{
    struct once_reply reply = {.err = ONCE_OK};
    struct once_defect defect = {.what = NULL};

    reply.err = once__service_check_look(request->http->setup.service, request->config,
                                         &request->identity, request->params.values[0], request->ns,
                                         &reply.what);
    if (reply.err == ONCE_OK) {
        reply.err = once_key_check(request->params.values[1], &defect);
        reply.what = defect.what;
    }
    if (reply.err == ONCE_OK)
        return ONCE__HTTP_LOOK;
    if (reply.err == ONCE_ERR_RATE)
        reply.retry_ms = ONCE_RETRY_MS_MAX;
    once__http_problem_err(request, &reply);
    return ONCE__HTTP_ANSWERED;
}

struct history {
    struct once__view view;
    size_t count;
};

/* Bytes from their beginning; where that is not all of them, how many there are. */
static void put_bytes(struct once__view *view, const char *name, const char *size_name,
                      struct once_bytes bytes)
{
    struct once_bytes cut = once__history_cut(bytes);

    if (bytes.size == 0)
        return;
    once__view_bytes_field(view, name, cut);
    if (cut.size < bytes.size)
        once__view_number_field(view, size_name, bytes.size);
}

static void add_past(void *user, const struct once_past *past)
{
    struct history *history = user;
    struct once__view *view = &history->view;

    once__view_text(view, history->count++ > 0 ? ",{\"event\":" : "{\"event\":");
    once__view_string(view, once_bytes_of(once_event_name(past->event)));
    once__view_signed_field(view, "at_ms", past->at_ms);
    once__view_bytes_field(view, "state", once_bytes_of(once_state_name(past->state)));
    once__view_number_field(view, "fence", past->fence);
    once__view_number_field(view, "attempt", past->attempt);
    put_bytes(view, "owner", "owner_size", past->owner);
    put_bytes(view, "point", "point_size", past->point);
    put_bytes(view, "data", "data_size", past->data);
    if (past->state == ONCE_STATE_COMPLETED) {
        once__view_signed_field(view, "code", past->code);
        put_bytes(view, "result", "result_size", past->result);
    }
    if (past->state == ONCE_STATE_FAILED)
        put_bytes(view, "reason", "reason_size", past->result);
    once__view_signed_field(view, "created_ms", past->created_ms);
    once__view_signed_field(view, "lease_end_ms", past->lease_end_ms);
    once__view_signed_field(view, "expires_ms", past->expires_ms);
    once__view_text(view, "}");
}

void once__http_history_look(struct once__http_request *request)
{
    const struct once__http_value *count = &request->query.values[HISTORY_COUNT];
    struct once_name name = {once_bytes_of(request->ns), request->params.values[1]};
    struct history history = {.view = once__http_answer(request, 200)};
    struct once_reply reply = {.err = ONCE_OK, .word = ONCE_NOTFOUND};
    bool found = false, more = false;

    once__view_text(&history.view, "{\"namespace\":");
    once__view_string(&history.view, request->params.values[0]);
    once__view_bytes_field(&history.view, "key", request->params.values[1]);
    once__view_text(&history.view, ",\"events\":[");
    reply.err = once_history(once__service_store(request->http->setup.service), name,
                             count->given ? (size_t)count->number
                                          : (size_t)ONCE__HISTORY_COUNT_DEFAULT,
                             add_past, &history, &found, &more);
    if (reply.err == ONCE_ERR_UNSUPPORTED)
        reply.what = ONCE__HISTORY_LACKS;
    if (reply.err != ONCE_OK) {
        once__http_problem_err(request, &reply);
        return;
    }
    if (!found) {
        once__http_problem_word(request, &reply);
        return;
    }
    once__view_text(&history.view, more ? "],\"more\":true}" : "],\"more\":false}");
    once__http_answer_end(request, &history.view);
}
