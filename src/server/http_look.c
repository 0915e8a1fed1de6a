/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at things over HTTP: policies of namespaces, the state of the server, its metrics and its
 * description.
 */
#include "server/http_inner.h"

#include <stdio.h>
#include <string.h>

#include <once/key.h>

#include "server/server.h"

enum { TEXT_SIZE_MAX = 1 << 26 };

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
    once__view_text(view,
                    strcmp(policy->name, "*") != 0 ? ",\"declared\":true" : ",\"declared\":false");
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
    if (policy->codes == ONCE__CODES_HTTP)
        once__view_bytes_field(view, "on_5xx", once_bytes_of(on_5xx[policy->on_5xx]));
    else
        once__view_text(view, ",\"on_5xx\":null"); /* other codes say nothing about 500 */
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
    bool ready = status.phase == ONCE__READY && !status.unreachable;
    struct once__view view = once__http_answer(request, ready ? 200 : 503);

    if (!ready)
        request->answer.retry_ms = 1000;
    once__view_text(&view, "{\"status\":\"");
    once__view_text(&view, status.unreachable ? "unreachable" : names[status.phase]);
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
    if (store && view.err == ONCE_OK) {
        struct once__open_counts open = once__stats_open(
            once__server_stats(request->http->setup.server), store);

        view.err = once__metrics_write_open(open.doubts, open.started, view.out);
    }
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
