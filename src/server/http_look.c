/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at things over HTTP: lists of operations, policies of namespaces, the state of the
 * server, its metrics and its description.
 */
#include "server/http_inner.h"

#include <stdio.h>

#include <once/key.h>

#include "server/server.h"

enum { LIST_COUNT_DEFAULT = 100, TEXT_SIZE_MAX = 1 << 26 };

#define COUNT(fields) (sizeof(fields) / sizeof((fields)[0]))

/* ---- Lists of operations --------------------------------------------------------------------- */

enum { LIST_STATE, LIST_CURSOR, LIST_COUNT };
static const char *const state_words[] = {"started", "completed", "failed", "doubt", NULL};
static const enum once_state states[] = {ONCE_STATE_STARTED, ONCE_STATE_COMPLETED,
                                         ONCE_STATE_FAILED, ONCE_STATE_DOUBT};
static const struct once__http_field list_query[] = {
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
const struct once__http_fields once__http_list_query = {"list", list_query, COUNT(list_query)};

enum once__http_next once__http_list(struct once__http_request *request)
{
    struct once_reply reply = {.err = ONCE_OK};

    reply.err = once__service_check_look(request->http->setup.service, request->config,
                                         &request->identity, request->params.values[0], request->ns,
                                         &reply.what);
    if (reply.err == ONCE_OK)
        return ONCE__HTTP_LOOK;
    if (reply.err == ONCE_ERR_RATE)
        reply.retry_ms = ONCE_RETRY_MS_MAX;
    once__http_problem_err(request, &reply);
    return ONCE__HTTP_ANSWERED;
}

struct list {
    struct once__view view;
    size_t count;
};

static void add_operation(void *user, const struct once_item *item)
{
    struct list *list = user;
    struct once__view *view = &list->view;

    once__view_text(view, list->count++ > 0 ? ",{\"key\":" : "{\"key\":");
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

void once__http_list_look(struct once__http_request *request)
{
    const struct once__http_value *values = request->query.values;
    struct once_filter filter = {.ns = once_bytes_of(request->ns),
                                 .by_state = values[LIST_STATE].given};
    struct list list = {.view = once__http_answer(request, 200)};
    struct once_reply reply = {.err = ONCE_OK};
    uint64_t cursor = 0;

    if (filter.by_state)
        filter.state = states[values[LIST_STATE].number];
    once__view_text(&list.view, "{\"namespace\":");
    once__view_string(&list.view, request->params.values[0]);
    once__view_text(&list.view, ",\"operations\":[");
    reply.err = once_list(
        once__service_store(request->http->setup.service), &filter, values[LIST_CURSOR].cursor,
        values[LIST_COUNT].given ? (size_t)values[LIST_COUNT].number : LIST_COUNT_DEFAULT,
        add_operation, &list, &cursor);
    if (reply.err != ONCE_OK) {
        once__http_problem_err(request, &reply);
        return;
    }
    once__view_text(&list.view, "],\"cursor\":\"");
    once__view_number(&list.view, cursor);
    once__view_text(&list.view, "\"}");
    once__http_answer_end(request, &list.view);
}

/* ---- Policies (K4: retention is published) --------------------------------------------------- */

static void put_policy(struct once__view *view, const struct once__policy *policy, const char *name)
{
    static const char *const on_5xx[] = {
        [ONCE_ON_5XX_DEFAULT] = "default",
        [ONCE_ON_5XX_RELEASE] = "release",
        [ONCE_ON_5XX_STORE] = "store",
        [ONCE_ON_5XX_DOUBT] = "doubt",
    };

    once__view_text(view, "{\"namespace\":");
    once__view_string(view, once_bytes_of(name));
    once__view_signed_field(view, "retention_ms", policy->retention_ms);
    once__view_signed_field(view, "retention_ms_max", policy->retention_ms_max);
    once__view_signed_field(view, "lease_ms", policy->lease_ms);
    once__view_signed_field(view, "lease_ms_max", policy->lease_ms_max);
    once__view_signed_field(view, "wait_ms_max", policy->wait_ms_max);
    once__view_text(view, policy->on_doubt == ONCE_ON_DOUBT_RETRY ? ",\"on_doubt\":\"retry\""
                                                                  : ",\"on_doubt\":\"reject\"");
    once__view_text(view, policy->doubt_fixed ? ",\"doubt_fixed\":true" : ",\"doubt_fixed\":false");
    once__view_text(view, policy->codes == ONCE__CODES_HTTP ? ",\"codes\":\"http\""
                                                            : ",\"codes\":\"any\"");
    once__view_bytes_field(view, "on_5xx", once_bytes_of(on_5xx[policy->on_5xx]));
    once__view_number_field(view, "result_size_max", policy->result_size_max);
    once__view_text(view, policy->by_user ? ",\"by_user\":true}" : ",\"by_user\":false}");
}

enum once__http_next once__http_namespaces(struct once__http_request *request)
{
    const struct once__config *config = request->config;
    struct once__view view = once__http_answer(request, 200);
    size_t count = 0;

    once__view_text(&view, "{\"declared_only\":");
    once__view_text(&view, config->namespaces_declared ? "true" : "false");
    once__view_text(&view, ",\"namespaces\":[");
    for (size_t i = 0; i < config->policy_count; i++) {
        const struct once__policy *policy = &config->policies[i];

        if (!once__access_namespace(config, &request->identity, once_bytes_of(policy->name)))
            continue;
        once__view_text(&view, count++ > 0 ? "," : "");
        put_policy(&view, policy, policy->name);
    }
    if (!config->namespaces_declared) {
        once__view_text(&view, count > 0 ? "," : "");
        put_policy(&view, &config->otherwise, "*");
    }
    once__view_text(&view, "]}");
    once__http_answer_end(request, &view);
    return ONCE__HTTP_ANSWERED;
}

enum once__http_next once__http_namespace(struct once__http_request *request)
{
    struct once_bytes ns = request->params.values[0];
    const struct once__policy *policy;
    struct once_defect defect = {.what = NULL};
    struct once_reply reply = {.err = once_namespace_check(ns, &defect)};
    char name[ONCE_NAMESPACE_SIZE_MAX + 1];
    struct once__view view;

    reply.what = defect.what;
    if (reply.err == ONCE_OK && !once__access_namespace(request->config, &request->identity, ns)) {
        reply.err = ONCE_ERR_DENIED;
        reply.what = "this user may not use that namespace";
    }
    if (reply.err != ONCE_OK) {
        once__http_problem_err(request, &reply);
        return ONCE__HTTP_ANSWERED;
    }
    policy = once__config_policy(request->config, ns);
    if (!policy) {
        once__http_problem(request, ONCE__PROBLEM_NO_NAMESPACE,
                           "Only declared namespaces exist here, and this is none of them.");
        return ONCE__HTTP_ANSWERED;
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)ns.size, (const char *)ns.data);
    view = once__http_answer(request, 200);
    put_policy(&view, policy, name);
    once__http_answer_end(request, &view);
    return ONCE__HTTP_ANSWERED;
}

/* ---- The server ------------------------------------------------------------------------------ */

enum once__http_next once__http_health(struct once__http_request *request)
{
    struct once__view view = once__http_answer(request, 200);

    once__view_text(&view, "{\"status\":\"alive\"}");
    once__http_answer_end(request, &view);
    return ONCE__HTTP_ANSWERED;
}

enum once__http_next once__http_ready(struct once__http_request *request)
{
    static const char *const names[] = {
        [ONCE__LOADING] = "loading",
        [ONCE__READY] = "ready",
        [ONCE__DRAINING] = "draining",
        [ONCE__FAILED] = "failed",
    };
    struct once__status status = once__server_status(request->http->setup.server);
    struct once__view view = once__http_answer(request, status.phase == ONCE__READY ? 200 : 503);

    if (status.phase != ONCE__READY)
        request->answer.retry_ms = 1000;
    once__view_text(&view, "{\"status\":\"");
    once__view_text(&view, names[status.phase]);
    once__view_text(&view, "\"");
    if (status.phase == ONCE__LOADING) {
        once__view_number_field(&view, "loaded", status.loaded);
        once__view_number_field(&view, "to_load", status.to_load);
    }
    once__view_text(&view, "}");
    once__http_answer_end(request, &view);
    return ONCE__HTTP_ANSWERED;
}

enum once__http_next once__http_metrics(struct once__http_request *request)
{
    (void)request;
    return ONCE__HTTP_LOOK; /* whoever is known */
}

void once__http_metrics_look(struct once__http_request *request)
{
    struct once_store *store = once__service_store(request->http->setup.service);
    struct once__view view = once__http_answer(request, 200);
    struct once_stats stats;

    if (store)
        once_stats_get(store, &stats);
    view.err = once__metrics_write(request->http->setup.metrics, store ? &stats : NULL, view.out);
    request->answer.type = request->route->type;
    once__http_answer_end(request, &view);
}

/* Made once; the table does not change. */
static pthread_once_t description_once = PTHREAD_ONCE_INIT;
static struct once_buf description;
static int description_err;

static void make_description(void)
{
    once_buf_init(&description, TEXT_SIZE_MAX);
    description_err = once__http_openapi(&description);
}

enum once__http_next once__http_description(struct once__http_request *request)
{
    struct once__view view = once__http_answer(request, 200);

    (void)pthread_once(&description_once, make_description);
    view.err = description_err;
    if (view.err == ONCE_OK)
        view.err = once_buf_append(view.out, description.data, description.size);
    once__http_answer_end(request, &view);
    return ONCE__HTTP_ANSWERED;
}

enum once__http_next once__http_page(struct once__http_request *request)
{
    struct once__view view = once__http_answer(request, 200);

    request->answer.type = request->route->type;
    request->answer.privacy =
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
    once__view_text(&view,
                    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Once</title>"
                    "<style>body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;"
                    "max-width:60rem;padding:0 1rem}code{font-size:.9em}td{padding:.2em .8em .2em "
                    "0;vertical-align:top}</style><h1>Once</h1><p>Exactly-once effects over "
                    "at-least-once networks. The whole description: <a href=\"/openapi.json\">"
                    "/openapi.json</a>.</p><table>");
    for (size_t i = 0; i < once__http_route_count; i++) {
        const struct once__http_route *route = &once__http_routes[i];

        once__view_text(&view, "<tr><td><code>");
        once__view_text(&view, route->method);
        once__view_text(&view, "</code><td><code>");
        once__view_text(&view, route->path);
        once__view_text(&view, "</code><td>");
        once__view_text(&view, route->summary);
    }
    once__view_text(&view, "</table></html>\n");
    once__http_answer_end(request, &view);
    return ONCE__HTTP_ANSWERED;
}
