/* SPDX-License-Identifier: Apache-2.0
 *
 * What a page for people needs besides the operations: the server's numbers, who is asking, and
 * where a key is. All of it looks and changes nothing.
 */
#include "server/http_inner.h"

#include <stdio.h>
#include <string.h>

#include <once/key.h>

#include "server/scopes.h"
#include "server/server.h"

enum { SEARCH_BATCH = 8 }; /* of each its result is read, and that may be large */

/* ---- Numbers --------------------------------------------------------------------------------- */

enum once__http_next once__http_stats(struct once__http_request *request)
{
    (void)request;
    return ONCE__HTTP_LOOK; /* whoever is known; no call of their rate, like /metrics */
}

void once__http_stats_look(struct once__http_request *request)
{
    const struct once__server *server = request->http->setup.server;
    struct once__view view = once__http_answer(request, 200);

    view.err = once__stats_write(once__server_stats(server), server, request->config,
                                 &request->identity, view.out);
    once__http_answer_end(request, &view);
}

/* ---- Who am I? ------------------------------------------------------------------------------- */

enum once__http_next once__http_me(struct once__http_request *request)
{
    static const char *const roles[] = {
        [ONCE__ROLE_READ] = "read", [ONCE__ROLE_WRITE] = "write", [ONCE__ROLE_ADMIN] = "admin"};
    struct once__view view = once__http_answer(request, 200);

    once__view_text(&view, "{\"user\":");
    if (request->identity.name[0] != '\0')
        once__view_string(&view, once_bytes_of(request->identity.name));
    else
        once__view_text(&view, "null");
    once__view_bytes_field(&view, "role", once_bytes_of(roles[request->identity.role]));
    once__view_field(&view, "users");
    once__view_text(&view, request->config->user_count > 0 ? "true}" : "false}");
    once__http_answer_end(request, &view);
    return ONCE__HTTP_ANSWERED;
}

/* ---- Where is this key? ---------------------------------------------------------------------- */

static const struct once__http_field search_query[] = {
    {.name = "key",
     .kind = ONCE__FIELD_TEXT,
     .max = ONCE_KEY_SIZE_MAX,
     .text = "The key, whole; it must be given."},
};
const struct once__http_fields once__http_search_query = {"search", search_query, 1};

enum once__http_next once__http_search(struct once__http_request *request)
{
    const struct once__http_value *key = &request->query.values[0];
    struct once_reply reply = {.err = ONCE_OK};
    struct once_defect defect = {.what = NULL};

    if (!key->given) {
        struct once__http_defect missing = {.field = "key", .text = "key: which one? Give ?key="};

        once__http_problem_field(request, &missing);
        return ONCE__HTTP_ANSWERED;
    }
    reply.err = once__service_check_scan(request->http->setup.service, request->config,
                                         &request->identity, &reply.what);
    if (reply.err == ONCE_OK) {
        reply.err = once_key_check(key->bytes, &defect);
        reply.what = defect.what;
    }
    if (reply.err == ONCE_OK)
        return ONCE__HTTP_LOOK;
    if (reply.err == ONCE_ERR_RATE)
        reply.retry_ms = ONCE_RETRY_MS_MAX;
    once__http_problem_err(request, &reply);
    return ONCE__HTTP_ANSWERED;
}

struct search {
    struct once__http_request *request;
    struct once_store *store;
    struct once__view view;
    size_t found;
    size_t looked;
};

static void put_found(struct search *search, const struct once_op *op, struct once_bytes asked)
{
    const struct once_reply *reply = &op->reply;
    struct once_item item = {.key = op->key,
                             .state = reply->state,
                             .fence = reply->fence,
                             .attempt = reply->attempt,
                             .code = reply->code,
                             .created_ms = reply->created_ms,
                             .lease_end_ms = reply->lease_end_ms,
                             .expires_ms = reply->expires_ms,
                             .owner = reply->owner,
                             .point = reply->point};

    once__view_text(&search->view, search->found++ > 0 ? "," : "");
    once__http_put_item(&search->view, &item, &asked);
}

/* Looks in some of them; results are let go before the next. */
static int look_in(struct search *search, char (*names)[ONCE_NAMESPACE_SIZE_MAX + 1], size_t count)
{
    const struct once__http_request *request = search->request;
    struct once_op ops[SEARCH_BATCH];
    struct once_bytes asked[SEARCH_BATCH];
    size_t used = 0;
    int err;

    memset(ops, 0, sizeof(ops));
    for (size_t i = 0; i < count; i++) {
        struct once_bytes kept = once_bytes_of(names[i]);

        if (!once__service_sees(request->config, &request->identity, kept, &asked[used]))
            continue;
        ops[used++] = (struct once_op){
            .call = ONCE_CALL_GET, .ns = kept, .key = request->query.values[0].bytes};
    }
    if (used == 0)
        return ONCE_OK;
    err = once_call(search->store, ops, used);
    search->looked += used;
    for (size_t i = 0; i < used; i++) {
        if (ops[i].reply.err == ONCE_OK && ops[i].reply.word == ONCE_DONE)
            put_found(search, &ops[i], asked[i]);
        once_reply_release(&ops[i].reply);
    }
    return err;
}

void once__http_search_look(struct once__http_request *request)
{
    struct once__http *http = request->http;
    struct search search = {.request = request,
                            .store = once__service_store(http->setup.service),
                            .view = once__http_answer(request, 200)};
    struct once_reply reply = {.err = ONCE_OK};
    struct once__scope_names names;
    bool whole = false;

    once__view_text(&search.view, "{\"operations\":[");
    reply.err = once__scopes_look(http->scopes, search.store, request->config, http->setup.metrics,
                                  &names, &whole);
    for (size_t at = 0; reply.err == ONCE_OK && at < names.count; at += SEARCH_BATCH) {
        size_t count = names.count - at < SEARCH_BATCH ? names.count - at : SEARCH_BATCH;

        reply.err = look_in(&search, names.names + at, count);
    }
    once__scope_names_release(&names);
    if (reply.err != ONCE_OK) {
        once__http_problem_err(request, &reply);
        return;
    }
    once__view_text(&search.view, "]");
    once__view_number_field(&search.view, "namespaces", search.looked);
    once__view_field(&search.view, "complete");
    once__view_text(&search.view, whole ? "true}" : "false}");
    once__http_answer_end(request, &search.view);
}
