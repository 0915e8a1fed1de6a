/* SPDX-License-Identifier: Apache-2.0
 *
 * Every route of the HTTP host, as data, and finding the one that a request means. The OpenAPI
 * document is made from this table.
 */
#include "server/http_inner.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum {
    SMALL_BODY = 1 << 16,
    DATA_BODY = ONCE_DATA_SIZE_MAX / 3 * 4 + (1 << 16),
    APPLY_BODY = ONCE_EFFECTS_SIZE_MAX * 2,
    MERGE_BODY = ONCE_MERGEABLE_SIZE_MAX / 3 * 4 + (1 << 16)
};

#define JSON "application/json"

const struct once__http_route once__http_routes[] = {
    {.method = "POST",
     .path = "/v1/ops/{ns}/{key}/begin",
     .id = "begin",
     .tag = "operations",
     .summary = "Ask whether to do the operation now. EXECUTE: do it, then complete it. REPLAY: "
                "it was done, here is its answer.",
     .body_size_max = SMALL_BODY,
     .body = &once__http_begin_fields,
     .type = JSON,
     .schema = "Begun",
     .problems = "409 422",
     .start = once__http_begin,
     .finish = once__http_begin_finish},
    {.method = "POST",
     .path = "/v1/ops/{ns}/{key}/complete",
     .id = "complete",
     .tag = "operations",
     .summary = "It was done: keep its answer for every retry.",
     .body_size_max = ONCE_HTTP_BODY_SIZE_MAX,
     .body = &once__http_complete_fields,
     .type = JSON,
     .schema = "Completed",
     .problems = "404 409 422",
     .start = once__http_complete,
     .finish = once__http_complete_finish},
    {.method = "POST",
     .path = "/v1/ops/{ns}/{key}/fail",
     .id = "fail",
     .tag = "operations",
     .summary = "It is known not to have happened: the key is free to retry.",
     .body_size_max = SMALL_BODY,
     .body = &once__http_fail_fields,
     .type = JSON,
     .schema = "Ok",
     .problems = "404 409 422",
     .start = once__http_fail,
     .finish = once__http_ok_finish},
    {.method = "POST",
     .path = "/v1/ops/{ns}/{key}/checkpoint",
     .id = "checkpoint",
     .tag = "operations",
     .summary = "Record the last finished step, so that a retry goes on there.",
     .body_size_max = DATA_BODY,
     .body = &once__http_checkpoint_fields,
     .type = JSON,
     .schema = "Ok",
     .problems = "404 409 422",
     .start = once__http_checkpoint,
     .finish = once__http_ok_finish},
    {.method = "POST",
     .path = "/v1/ops/{ns}/{key}/renew",
     .id = "renew",
     .tag = "operations",
     .summary = "A longer lease; 0 gives it up, with an unknown outcome.",
     .body_size_max = SMALL_BODY,
     .body = &once__http_renew_fields,
     .type = JSON,
     .schema = "Ok",
     .problems = "404 409 422",
     .start = once__http_renew,
     .finish = once__http_ok_finish},
    {.method = "POST",
     .path = "/v1/ops/{ns}/{key}/resolve",
     .id = "resolve",
     .tag = "operations",
     .summary = "End a doubt: it happened, with this answer, or it did not.",
     .body_size_max = ONCE_HTTP_BODY_SIZE_MAX,
     .body = &once__http_resolve_fields,
     .type = JSON,
     .schema = "Ok",
     .problems = "404 409 422",
     .start = once__http_resolve,
     .finish = once__http_ok_finish},
    {.method = "GET",
     .path = "/v1/ops/{ns}/{key}",
     .id = "getOperation",
     .tag = "operations",
     .summary = "Everything that is known about an operation.",
     .type = JSON,
     .schema = "Operation",
     .problems = "404",
     .start = once__http_get,
     .finish = once__http_get_finish},
    {.method = "GET",
     .path = "/v1/ops/{ns}/{key}/history",
     .id = "getHistory",
     .tag = "operations",
     .summary = "What happened to an operation, the newest first, as far as the log has it.",
     .query = &once__http_history_query,
     .type = JSON,
     .schema = "History",
     .problems = "404 501",
     .start = once__http_history,
     .look = once__http_history_look},
    {.method = "DELETE",
     .path = "/v1/ops/{ns}/{key}",
     .id = "forget",
     .tag = "operations",
     .summary = "Forget an operation that has ended; with its fence also one that has not.",
     .query = &once__http_forget_query,
     .type = JSON,
     .schema = "Ok",
     .problems = "404 409 422",
     .start = once__http_forget,
     .finish = once__http_ok_finish},
    {.method = "GET",
     .path = "/v1/ops/{ns}",
     .id = "listOperations",
     .tag = "operations",
     .summary = "The operations of a namespace, page by page.",
     .query = &once__http_list_query,
     .type = JSON,
     .schema = "OperationList",
     .start = once__http_list,
     .look = once__http_list_look},
    {.method = "GET",
     .path = "/v1/ops",
     .id = "listAllOperations",
     .tag = "operations",
     .summary = "The operations of every namespace that the caller may use, page by page.",
     .query = &once__http_list_query,
     .type = JSON,
     .schema = "OperationPage",
     .start = once__http_list_all,
     .look = once__http_list_all_look},
    {.method = "GET",
     .path = "/v1/search",
     .id = "search",
     .tag = "operations",
     .summary = "The operations under this key, in every namespace that the caller may use.",
     .query = &once__http_search_query,
     .type = JSON,
     .schema = "Found",
     .start = once__http_search,
     .look = once__http_search_look},
    {.method = "POST",
     .path = "/v1/apply/{ns}/{key}",
     .id = "apply",
     .tag = "objects",
     .summary = "Change objects under a key: all effects happen, once, or none does.",
     .body_size_max = APPLY_BODY,
     .body = &once__http_apply_fields,
     .type = JSON,
     .schema = "Applied",
     .problems = "409 422",
     .start = once__http_apply,
     .finish = once__http_apply_finish},
    {.method = "POST",
     .path = "/v1/apply",
     .id = "applyWithoutKey",
     .tag = "objects",
     .summary = "Change objects without a key: only effects of which a late copy changes nothing.",
     .body_size_max = APPLY_BODY,
     .body = &once__http_apply_fields,
     .type = JSON,
     .schema = "Applied",
     .problems = "409 422",
     .start = once__http_apply,
     .finish = once__http_apply_finish},
    {.method = "GET",
     .path = "/v1/objects",
     .id = "listObjects",
     .tag = "objects",
     .summary = "Names and types of objects, page by page.",
     .query = &once__http_objects_query,
     .type = JSON,
     .schema = "ObjectList",
     .start = once__http_objects,
     .look = once__http_objects_look},
    {.method = "GET",
     .path = "/v1/objects/{name}",
     .id = "getObject",
     .tag = "objects",
     .summary = "An object as it is now, with its version as ETag.",
     .flags = ONCE__HTTP_MATCHES,
     .type = JSON,
     .schema = "Object",
     .problems = "404",
     .start = once__http_object,
     .look = once__http_object_look},
    {.method = "PUT",
     .path = "/v1/objects/{name}",
     .id = "putObject",
     .tag = "objects",
     .summary = "Set a register to the bytes of the body: over the version that If-Match names, "
                "as its first value (If-None-Match: *), or under an Idempotency-Key.",
     .flags = ONCE__HTTP_RAW | ONCE__HTTP_WRITES,
     .body_size_max = ONCE_VALUE_SIZE_MAX,
     .type = JSON,
     .schema = "Written",
     .problems = "409 412 422 428",
     .start = once__http_object_put,
     .finish = once__http_write_finish},
    {.method = "DELETE",
     .path = "/v1/objects/{name}",
     .id = "deleteObject",
     .tag = "objects",
     .summary = "Delete a register's value: of the version that If-Match names, or under an "
                "Idempotency-Key. Its version stays, so that a late write finds it changed.",
     .flags = ONCE__HTTP_WRITES,
     .type = JSON,
     .schema = "Written",
     .problems = "409 412 422 428",
     .start = once__http_object_delete,
     .finish = once__http_write_finish},
    {.method = "GET",
     .path = "/v1/objects/{name}/items",
     .id = "listItems",
     .tag = "objects",
     .summary = "Events of a log, messages of an outbox, or buckets, page by page.",
     .query = &once__http_items_query,
     .type = JSON,
     .schema = "ItemList",
     .problems = "404 409",
     .start = once__http_object,
     .look = once__http_items_look},
    {.method = "POST",
     .path = "/v1/objects/{name}/merge",
     .id = "mergeObject",
     .tag = "objects",
     .summary = "Merge a replica's state or delta into a mergeable object.",
     .body_size_max = MERGE_BODY,
     .body = &once__http_merge_fields,
     .type = JSON,
     .schema = "Merged",
     .problems = "409",
     .start = once__http_object_merge,
     .finish = once__http_merge_finish},
    {.method = "GET",
     .path = "/v1/namespaces",
     .id = "listNamespaces",
     .tag = "server",
     .summary = "The policies of namespaces: how long answers are kept, and so on.",
     .type = JSON,
     .schema = "NamespaceList",
     .start = once__http_namespaces},
    {.method = "GET",
     .path = "/v1/namespaces/{ns}",
     .id = "getNamespace",
     .tag = "server",
     .summary = "The policy of a namespace.",
     .type = JSON,
     .schema = "Namespace",
     .problems = "404",
     .start = once__http_namespace},
    {.method = "GET",
     .path = "/v1/me",
     .id = "me",
     .tag = "server",
     .summary = "Who is asking, and in which role.",
     .type = JSON,
     .schema = "Me",
     .start = once__http_me},
    {.method = "GET",
     .path = "/v1/stats",
     .id = "stats",
     .tag = "server",
     .summary = "The server's numbers, as one document: two of them make rates.",
     .flags = ONCE__HTTP_ALWAYS,
     .type = JSON,
     .schema = "Stats",
     .start = once__http_stats,
     .look = once__http_stats_look},
    {.method = "GET",
     .path = "/metrics",
     .id = "metrics",
     .tag = "server",
     .summary = "Numbers for Prometheus.",
     .flags = ONCE__HTTP_ALWAYS,
     .type = "text/plain; version=0.0.4; charset=utf-8",
     .start = once__http_metrics,
     .look = once__http_metrics_look},
    {.method = "GET",
     .path = "/healthz",
     .id = "health",
     .tag = "server",
     .summary = "The process lives.",
     .flags = ONCE__HTTP_OPEN | ONCE__HTTP_ALWAYS,
     .type = JSON,
     .schema = "Health",
     .start = once__http_health},
    {.method = "GET",
     .path = "/readyz",
     .id = "ready",
     .tag = "server",
     .summary = "Calls are served: 200, else 503 with the reason.",
     .flags = ONCE__HTTP_OPEN | ONCE__HTTP_ALWAYS | ONCE__HTTP_SAYS_503,
     .type = JSON,
     .schema = "Readiness",
     .start = once__http_ready},
    {.method = "GET",
     .path = "/openapi.json",
     .id = "openapi",
     .tag = "server",
     .summary = "This description.",
     .flags = ONCE__HTTP_OPEN,
     .type = JSON,
     .schema = "Any",
     .start = once__http_description},
    {.method = "GET",
     .path = "/",
     .id = "page",
     .tag = "server",
     .summary = "The dashboard, for people: what happens now, doubts, keys, objects.",
     .flags = ONCE__HTTP_OPEN | ONCE__HTTP_ALWAYS | ONCE__HTTP_MATCHES,
     .type = "text/html; charset=utf-8",
     .start = once__http_page},
    {.method = "GET",
     .path = "/web/{file}",
     .id = "pageFile",
     .tag = "server",
     .summary = "What the dashboard is made of: app.js, style.css and so on.",
     .flags = ONCE__HTTP_OPEN | ONCE__HTTP_ALWAYS | ONCE__HTTP_MATCHES,
     .type = "*/*",
     .problems = "404",
     .start = once__http_page_file},
};
const size_t once__http_route_count = sizeof once__http_routes / sizeof once__http_routes[0];

/* One part of a path, up to the next slash. */
static struct once_bytes part_of(const char *path)
{
    return (struct once_bytes){.data = (const uint8_t *)path, .size = strcspn(path, "/")};
}

/* Do these have the same shape? Parts that are named in braces take anything; an empty one is for
 * the store to refuse, but at the end it is a slash too many. */
static bool path_matches(const char *pattern, const char *path)
{
    while (*pattern == '/' && *path == '/') {
        struct once_bytes want = part_of(++pattern);
        struct once_bytes got = part_of(++path);

        if (want.size > 0 && want.data[0] == '{') {
            if (got.size == 0 && *path == '\0')
                return false;
        } else if (want.size != got.size || memcmp(want.data, got.data, want.size) != 0) {
            return false;
        }
        pattern += want.size;
        path += got.size;
    }
    return *pattern == '\0' && *path == '\0';
}

static bool params_read(const char *pattern, const char *path, struct once__http_params *params)
{
    size_t used = 0;

    params->count = 0;
    while (*pattern == '/') {
        struct once_bytes want = part_of(++pattern);
        struct once_bytes got = part_of(++path);
        uint8_t *out = params->bytes + used;
        size_t size;

        pattern += want.size;
        path += got.size;
        if (want.size == 0 || want.data[0] != '{')
            continue;
        ONCE_ASSERT(params->count < ONCE__HTTP_PARAMS_MAX);
        if (got.size > sizeof params->bytes - used || !once__percent_decode(got, out, &size))
            return false;
        params->values[params->count++] = (struct once_bytes){.data = out, .size = size};
        used += size;
    }
    return true;
}

static bool method_matches(const char *want, const char *got)
{
    return strcmp(want, got) == 0 || (strcmp(want, "GET") == 0 && strcmp(got, "HEAD") == 0);
}

enum once__http_match once__http_route_find(const char *method, const char *path,
                                            const struct once__http_route **ret_route,
                                            struct once__http_params *ret_params,
                                            char ret_allow[64])
{
    size_t used = 0;

    ret_allow[0] = '\0';
    for (size_t i = 0; i < once__http_route_count; i++) {
        const struct once__http_route *route = &once__http_routes[i];

        if (!path_matches(route->path, path))
            continue;
        if (method_matches(route->method, method)) {
            *ret_route = route;
            return params_read(route->path, path, ret_params) ? ONCE__HTTP_MATCHED
                                                              : ONCE__HTTP_BAD_PATH;
        }
        used += (size_t)snprintf(ret_allow + used, 64 - used, "%s%s", used > 0 ? ", " : "",
                                 strcmp(route->method, "GET") == 0 ? "GET, HEAD" : route->method);
        ONCE_ASSERT(used < 64);
    }
    return used > 0 ? ONCE__HTTP_NO_METHOD : ONCE__HTTP_NO_PATH;
}
