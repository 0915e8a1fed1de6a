/* SPDX-License-Identifier: Apache-2.0
 *
 * ONCE.LIST: operations of a namespace, or of all that the caller may use, a page at a time.
 * ONCE.NAMESPACE: what the configuration says about it.
 */
#include "server/resp_commands.h"
#include "server/resp_look.h"
#include "server/resp_option.h"
#include "server/room.h"

#include <string.h>

enum { COUNT_DEFAULT = 100, NS_IN_MS = 1000000 };

struct list {
    struct once__look look;
    struct once_bytes asked;        /* the namespace as the caller calls it, which may be kept under
                              * another; empty: all of them */
    struct once__config *config;    /* a reference; of all of them, */
    struct once__identity identity; /* as they were when it was asked */
    char ns[ONCE_NAMESPACE_SIZE_MAX + 1];
    struct once_filter filter;
    size_t count;
    uint64_t cursor;
};

static const char *const state_words[] = {"STARTED", "COMPLETED", "FAILED", "DOUBT", NULL};
static const enum once_state states[] = {ONCE_STATE_STARTED, ONCE_STATE_COMPLETED,
                                         ONCE_STATE_FAILED, ONCE_STATE_DOUBT};

enum { STATE, CURSOR, COUNT, LIST_OPTIONS };
static const struct once__option list_options[LIST_OPTIONS] = {
    [STATE] = {"STATE", ONCE__OPTION_WORD, "a state", 0, 0, state_words},
    [CURSOR] = {"CURSOR", ONCE__OPTION_BYTES, "a cursor", 1, 20, NULL},
    [COUNT] = {"COUNT", ONCE__OPTION_NUMBER, "a number", 1, ONCE_LIST_COUNT_MAX, NULL},
};

static void write_number_or_null(struct once__out *out, const char *name, bool known,
                                 int64_t number)
{
    once__out_text(out, name);
    if (known)
        once__out_integer(out, number);
    else
        once__out_null(out);
}

static void add_item(void *user, const struct once_item *item)
{
    struct list *list = user;
    struct once__out *out = &list->look.list;
    struct once_bytes asked = list->asked;

    if (asked.size == 0 && !once__service_sees(list->config, &list->identity, item->ns, &asked))
        return;
    list->look.count++;
    once__out_map(out, 11);
    once__out_text(out, "ns");
    once__out_bulk(out, asked);
    once__out_text(out, "key");
    once__out_bulk(out, item->key);
    once__out_text(out, "state");
    once__out_text(out, once_state_name(item->state));
    once__out_text(out, "fence");
    once__out_integer(out, (int64_t)item->fence);
    once__out_text(out, "attempt");
    once__out_integer(out, item->attempt);
    write_number_or_null(out, "code", item->state == ONCE_STATE_COMPLETED, item->code);
    once__out_text(out, "owner");
    once__out_bulk_or_null(out, item->owner);
    once__out_text(out, "point");
    once__out_bulk_or_null(out, item->point);
    write_number_or_null(out, "created_ms", item->created_ms > 0, item->created_ms);
    write_number_or_null(out, "lease_end_ms", item->lease_end_ms > 0, item->lease_end_ms);
    write_number_or_null(out, "expires_ms", item->expires_ms > 0, item->expires_ms);
}

static void run_list(struct once__job *job)
{
    struct list *list = once__look_of(job);
    uint64_t end_ns = once__now_ns() + (uint64_t)ONCE_LIST_LOOK_MS * NS_IN_MS;

    /* Few among many: looked for, up to a moment, so that a page is worth its way. */
    do {
        list->look.err = once_list(list->look.store, &list->filter, list->cursor,
                                   list->count - list->look.count, add_item, list, &list->cursor);
    } while (list->look.err == ONCE_OK && list->cursor != 0 && list->look.count < list->count &&
             once__now_ns() < end_ns);
}

static void drop_list(struct once__look *look)
{
    once__config_unref(((struct list *)look)->config);
}

static bool may_list(const struct once__request *request, struct once__out *out, struct list *list)
{
    const struct once__session *session = request->session;

    if (request->args[1].size > 0)
        return once__look_at_namespace(request, out, request->args[1], list->ns);
    list->config = once__config_ref(session->config);
    list->identity = session->identity;
    list->look.drop = drop_list;
    return once__look_at_all(request, out);
}

enum once__next once__resp_list(struct once__request *request, struct once__out *out)
{
    struct once__option_value values[LIST_OPTIONS];
    struct list *list;
    uint64_t cursor = 0;
    size_t end;

    memset(values, 0, sizeof(values));
    if (!once__options_read(request, out, 2, NULL, list_options, LIST_OPTIONS, values, &end))
        return ONCE__ANSWERED;
    if (values[CURSOR].given && !once__cursor_read(request, out, values[CURSOR].bytes, &cursor))
        return ONCE__ANSWERED;
    list = once__look_new(request, out, sizeof(*list), run_list);
    if (!list || !may_list(request, out, list))
        return ONCE__ANSWERED;
    list->asked = request->args[1];
    list->filter.ns = once_bytes_of(list->ns);
    if (values[STATE].given) {
        list->filter.by_state = true;
        list->filter.state = states[values[STATE].number];
    }
    list->cursor = cursor;
    list->count = values[COUNT].given ? (size_t)values[COUNT].number : COUNT_DEFAULT;
    return ONCE__JOB;
}

void once__resp_list_finish(struct once__request *request, struct once__out *out)
{
    const struct list *list = request->state;

    if (once__look_failed(&list->look, out))
        return;
    once__out_array(out, 2);
    once__cursor_write(out, list->cursor);
    once__out_array(out, list->look.count);
    once__out_raw(out, once_buf_bytes(&list->look.list.buf));
}

/* ---- Policies -------------------------------------------------------------------------------- */

static const char *on_5xx_word(enum once_on_5xx on_5xx)
{
    static const char *const words[] = {"default", "release", "store", "doubt"};

    return words[on_5xx];
}

static void write_policy(struct once__out *out, const struct once__policy *policy,
                         struct once_bytes name)
{
    once__out_map(out, 13);
    once__out_text(out, "namespace");
    once__out_bulk(out, name);
    once__out_text(out, "declared");
    once__out_boolean(out, strcmp(policy->name, "*") != 0);
    once__out_text(out, "retention_ms");
    once__out_integer(out, policy->retention_ms);
    once__out_text(out, "retention_ms_max");
    once__out_integer(out, policy->retention_ms_max);
    once__out_text(out, "lease_ms");
    once__out_integer(out, policy->lease_ms);
    once__out_text(out, "lease_ms_max");
    once__out_integer(out, policy->lease_ms_max);
    once__out_text(out, "wait_ms_max");
    once__out_integer(out, policy->wait_ms_max);
    once__out_text(out, "on_doubt");
    once__out_text(out, policy->on_doubt == ONCE_ON_DOUBT_RETRY ? "retry" : "reject");
    once__out_text(out, "doubt_fixed");
    once__out_boolean(out, policy->doubt_fixed);
    once__out_text(out, "codes");
    once__out_text(out, policy->codes == ONCE__CODES_HTTP ? "http" : "any");
    once__out_text(out, "on_5xx");
    if (policy->codes == ONCE__CODES_HTTP)
        once__out_text(out, on_5xx_word(policy->on_5xx));
    else
        once__out_null(out);
    once__out_text(out, "result_size_max");
    once__out_integer(out, (int64_t)policy->result_size_max);
    once__out_text(out, "by_user");
    once__out_boolean(out, policy->by_user);
}

static bool visible(const struct once__session *session, const struct once__policy *policy)
{
    return once__access_namespace(session->config, &session->identity, once_bytes_of(policy->name));
}

static void write_policies(const struct once__session *session, struct once__out *out)
{
    const struct once__config *config = session->config;
    bool others = !config->namespaces_declared;
    size_t count = others ? 1 : 0;

    for (size_t i = 0; i < config->policy_count; i++)
        count += visible(session, &config->policies[i]) ? 1 : 0;
    once__out_array(out, count);
    for (size_t i = 0; i < config->policy_count; i++)
        if (visible(session, &config->policies[i]))
            write_policy(out, &config->policies[i], once_bytes_of(config->policies[i].name));
    if (others)
        write_policy(out, &config->otherwise, once_bytes_of("*"));
}

enum once__next once__resp_namespace(struct once__request *request, struct once__out *out)
{
    const struct once__session *session = request->session;
    const struct once__policy *policy;

    if (request->arg_count > 2) {
        once__out_wrong_count(request, out);
    } else if (request->arg_count == 1) {
        write_policies(session, out);
    } else if (!once__access_namespace(session->config, &session->identity, request->args[1])) {
        once__out_err(out, ONCE_ERR_DENIED, "this user may not use this namespace");
    } else {
        policy = once__config_policy(session->config, request->args[1]);
        if (policy)
            write_policy(out, policy, request->args[1]);
        else
            once__out_bad(request, out, "namespace '%s' is not declared",
                          once__arg_echo(request->args[1]).text);
    }
    return ONCE__ANSWERED;
}
