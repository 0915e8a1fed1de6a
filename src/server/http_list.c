/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of operations over HTTP: of one namespace, and of all that the caller may see.
 *
 * The store gives pages that may be short, or empty, before the end: it has looked at so many and
 * found few. An answer goes on until it has its count, or for ONCE_LIST_LOOK_MS, so that the few
 * doubts among a million keys come with the first request and not with the hundredth.
 */
#include "server/http_inner.h"

#include "server/room.h"

enum { LIST_COUNT_DEFAULT = 100, NS_IN_MS = 1000000 };

enum { LIST_STATE, LIST_CURSOR, LIST_COUNT, LIST_FIELDS };
static const char *const state_words[] = {"started", "completed", "failed", "doubt", NULL};
static const enum once_state states[] = {ONCE_STATE_STARTED, ONCE_STATE_COMPLETED,
                                         ONCE_STATE_FAILED, ONCE_STATE_DOUBT};
static const struct once__http_field list_query[LIST_FIELDS] = {
    [LIST_STATE] = {.name = "state",
                    .kind = ONCE__FIELD_WORD,
                    .words = state_words,
                    .text = "Only these. started and doubt are quick, the others read every "
                            "record."},
    [LIST_CURSOR] = {.name = "cursor",
                     .kind = ONCE__FIELD_CURSOR,
                     .text = "Where the page before ended."},
    [LIST_COUNT] = {.name = "count",
                    .kind = ONCE__FIELD_NUMBER,
                    .min = 1,
                    .max = ONCE_LIST_COUNT_MAX,
                    .text = "At most so many; 100 without it."},
};
const struct once__http_fields once__http_list_query = {"list", list_query, LIST_FIELDS};

/* ---- May they? ------------------------------------------------------------------------------- */

static enum once__http_next look_or_refuse(struct once__http_request *request,
                                           struct once_reply *reply)
{
    if (reply->err == ONCE_OK)
        return ONCE__HTTP_LOOK;
    if (reply->err == ONCE_ERR_RATE)
        reply->retry_ms = ONCE_RETRY_MS_MAX;
    once__http_problem_err(request, reply);
    return ONCE__HTTP_ANSWERED;
}

enum once__http_next once__http_list(struct once__http_request *request)
{
    struct once_reply reply = {.err = ONCE_OK};

    reply.err = once__service_check_look(request->http->setup.service, request->config,
                                         &request->identity, request->params.values[0], request->ns,
                                         &reply.what);
    return look_or_refuse(request, &reply);
}

enum once__http_next once__http_list_all(struct once__http_request *request)
{
    struct once_reply reply = {.err = ONCE_OK};

    reply.err = once__service_check_scan(request->http->setup.service, request->config,
                                         &request->identity, &reply.what);
    return look_or_refuse(request, &reply);
}

/* ---- A page ---------------------------------------------------------------------------------- */

struct list {
    struct once__view view;
    const struct once__http_request *request;
    bool all; /* namespaces: each item names its own */
    size_t count;
};

void once__http_put_item(struct once__view *view, const struct once_item *item,
                         const struct once_bytes *ns)
{
    if (ns) {
        once__view_text(view, "{\"namespace\":");
        once__view_string(view, *ns);
        once__view_text(view, ",\"key\":");
    } else {
        once__view_text(view, "{\"key\":");
    }
    once__view_string(view, item->key);
    once__view_bytes_field(view, "state", once_bytes_of(once_state_name(item->state)));
    once__view_number_field(view, "fence", item->fence);
    once__view_number_field(view, "attempt", item->attempt);
    if (item->state == ONCE_STATE_COMPLETED)
        once__view_signed_field(view, "code", item->code);
    if (item->owner.size > 0)
        once__view_bytes_field(view, "owner", item->owner);
    if (item->point.size > 0)
        once__view_bytes_field(view, "point", item->point);
    once__view_signed_field(view, "created_ms", item->created_ms);
    once__view_signed_field(view, "lease_end_ms", item->lease_end_ms);
    once__view_signed_field(view, "expires_ms", item->expires_ms);
    once__view_text(view, "}");
}

static void add_operation(void *user, const struct once_item *item)
{
    struct list *list = user;
    struct once_bytes asked;

    if (list->all &&
        !once__service_sees(list->request->config, &list->request->identity, item->ns, &asked))
        return;
    once__view_text(&list->view, list->count++ > 0 ? "," : "");
    once__http_put_item(&list->view, item, list->all ? &asked : NULL);
}

/* Goes on until there is a page of it. */
static void list_page(struct once__http_request *request, struct list *list, struct once_bytes ns)
{
    const struct once__http_value *values = request->query.values;
    struct once_store *store = once__service_store(request->http->setup.service);
    struct once_filter filter = {.ns = ns, .by_state = values[LIST_STATE].given};
    size_t count = values[LIST_COUNT].given ? (size_t)values[LIST_COUNT].number
                                            : LIST_COUNT_DEFAULT;
    uint64_t end_ns = once__now_ns() + (uint64_t)ONCE_LIST_LOOK_MS * NS_IN_MS;
    uint64_t cursor = values[LIST_CURSOR].cursor;
    struct once_reply reply = {.err = ONCE_OK};

    if (filter.by_state)
        filter.state = states[values[LIST_STATE].number];
    do {
        reply.err = once_list(store, &filter, cursor, count - list->count, add_operation, list,
                              &cursor);
    } while (reply.err == ONCE_OK && cursor != 0 && list->count < count && once__now_ns() < end_ns);
    if (reply.err != ONCE_OK) {
        once__http_problem_err(request, &reply);
        return;
    }
    once__view_text(&list->view, "],\"cursor\":\"");
    once__view_number(&list->view, cursor);
    once__view_text(&list->view, "\"}");
    once__http_answer_end(request, &list->view);
}

void once__http_list_look(struct once__http_request *request)
{
    struct list list = {.view = once__http_answer(request, 200), .request = request};

    once__view_text(&list.view, "{\"namespace\":");
    once__view_string(&list.view, request->params.values[0]);
    once__view_text(&list.view, ",\"operations\":[");
    list_page(request, &list, once_bytes_of(request->ns));
}

void once__http_list_all_look(struct once__http_request *request)
{
    struct list list = {.view = once__http_answer(request, 200), .request = request, .all = true};

    once__view_text(&list.view, "{\"operations\":[");
    list_page(request, &list, (struct once_bytes){NULL, 0});
}
