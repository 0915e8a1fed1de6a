/* SPDX-License-Identifier: Apache-2.0
 *
 * May this call be made, and what does the policy of its namespace make of it (K2, K4, D6)?
 *
 * The order matters: who it is, what the role allows, whose namespace and objects these are, the
 * rate, and only then what the policy says, so that nobody learns about what is not theirs. What a
 * store checks of every call (keys, sizes, times that make no sense) is left to the store.
 */
#include "server/service_inner.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <once/key.h>

#include "base/assert.h"
#include "base/bytes.h"

static int refuse(struct once__call *call, int err, const char *what)
{
    call->op.reply.err = err;
    call->op.reply.what = what;
    return err;
}

/* ---- Who ------------------------------------------------------------------------------------- */

static const char *role_defect(const struct once__identity *identity, enum once__role needed)
{
    if (!identity->known)
        return "nobody knows who is calling: log in first";
    if (identity->role >= needed)
        return NULL;
    return needed == ONCE__ROLE_ADMIN ? "this is for administrators"
                                      : "this user may look and change nothing";
}

/* "redis", and what by_user makes of it. */
static bool is_values(struct once_bytes ns)
{
    static const char name[] = ONCE_VALUES_NAMESPACE;
    size_t size = sizeof(name) - 1;

    return ns.size >= size && memcmp(ns.data, name, size) == 0 &&
           (ns.size == size || ns.data[size] == '@');
}

static enum once__role role_needed(const struct once_op *op)
{
    if (op->call == ONCE_CALL_GET)
        return ONCE__ROLE_READ;
    if (op->call == ONCE_CALL_RESOLVE)
        return ONCE__ROLE_ADMIN;
    if (op->call == ONCE_CALL_FORGET && op->fence == 0 && !is_values(op->ns))
        return ONCE__ROLE_ADMIN;
    return ONCE__ROLE_WRITE;
}

static bool within_rate(struct once__service *service, const struct once__config *config,
                        const struct once__identity *identity, once_ms *ret_wait_ms)
{
    /* Only users have a rate; the clock is not read for others. */
    if (!service->access || config->user_count == 0 || identity->name[0] == '\0')
        return true;
    if (once__access_rate(service->access, config, identity, once__now_ns(), ret_wait_ms))
        return true;
    once__metrics_add(service->metrics, ONCE__RATE_LIMITED, 1);
    return false;
}

static const char rate_text[] = "this user has made too many calls; come back later";

/* ---- Whose namespace ------------------------------------------------------------------------- */

/* Where a namespace is by_user everyone has keys of their own in it, under "namespace@user". Only
 * an administrator may name those of another. *ret_ns points to asked, or to text. */
static int own_namespace(const struct once__policy *policy, const struct once__identity *identity,
                         struct once_bytes asked, char *text, struct once_bytes *ret_ns,
                         const char **ret_what)
{
    size_t name_size = strlen(identity->name);

    *ret_ns = asked;
    if (!policy->by_user)
        return ONCE_OK;
    if (memchr(asked.data, '@', asked.size)) {
        if (identity->role == ONCE__ROLE_ADMIN)
            return ONCE_OK;
        *ret_what = "keys of other users are for administrators; name the namespace alone";
        return ONCE_ERR_DENIED;
    }
    if (name_size == 0)
        return ONCE_OK; /* there are no users, or it is the owner of the process */
    if (asked.size + 1 + name_size > ONCE_NAMESPACE_SIZE_MAX) {
        *ret_what = "the namespace and the user's name are too long together";
        return ONCE_ERR_INVALID;
    }
    memcpy(text, asked.data, asked.size);
    text[asked.size] = '@';
    memcpy(text + asked.size + 1, identity->name, name_size + 1);
    *ret_ns = (struct once_bytes){(const uint8_t *)text, asked.size + 1 + name_size};
    return ONCE_OK;
}

/* The policy and the inner name of a namespace that someone asked for. */
static int find_namespace(const struct once__config *config, const struct once__identity *identity,
                          struct once_bytes *ns, char *text, const struct once__policy **ret_policy,
                          const char **ret_what)
{
    struct once_defect defect;
    const struct once__policy *policy;
    int err = once_namespace_check(*ns, &defect);

    if (err != ONCE_OK) {
        *ret_what = defect.what;
        return err;
    }
    if (!once__access_namespace(config, identity, *ns)) {
        *ret_what = "this user may not use that namespace";
        return ONCE_ERR_DENIED;
    }
    policy = once__config_policy(config, *ns);
    if (!policy) {
        *ret_what = "only declared namespaces may be used, and this is none of them";
        return ONCE_ERR_INVALID;
    }
    *ret_policy = policy;
    return own_namespace(policy, identity, *ns, text, ns, ret_what);
}

/* ---- Whose objects --------------------------------------------------------------------------- */

static const char object_text[] = "this user may not use that object";

/* Every effect names its object, or topic, in its second word. */
static int check_objects(struct once__call *call, const struct once__config *config,
                         const struct once__identity *identity)
{
    const struct once_op *op = &call->op;

    if (op->call == ONCE_CALL_MERGE)
        return once__access_object(config, identity, op->key)
                   ? ONCE_OK
                   : refuse(call, ONCE_ERR_DENIED, object_text);
    if (op->call != ONCE_CALL_APPLY)
        return ONCE_OK;
    for (size_t i = 0; i < op->do_count; i++) {
        if (op->dos[i].count < 2 || once__access_object(config, identity, op->dos[i].words[1]))
            continue; /* one without a name is refused by the store */
        call->op.reply.effect = (uint32_t)i + 1;
        return refuse(call, ONCE_ERR_DENIED, object_text);
    }
    return ONCE_OK;
}

/* ---- What the policy says -------------------------------------------------------------------- */

static int check_ttl(struct once__call *call, const struct once__policy *policy)
{
    if (call->op.ttl_ms == 0)
        call->op.ttl_ms = policy->retention_ms;
    if (call->op.ttl_ms > policy->retention_ms_max)
        return refuse(call, ONCE_ERR_INVALID, "the TTL is longer than its namespace allows");
    return ONCE_OK;
}

static int check_begin(struct once__call *call, const struct once__policy *policy)
{
    struct once_op *op = &call->op;

    if (op->lease_ms == 0)
        op->lease_ms = policy->lease_ms;
    if (op->lease_ms > policy->lease_ms_max)
        return refuse(call, ONCE_ERR_INVALID, "the lease is longer than its namespace allows");
    if (!call->on_doubt_given)
        op->on_doubt = policy->on_doubt;
    else if (policy->doubt_fixed && op->on_doubt != policy->on_doubt)
        return refuse(call, ONCE_ERR_INVALID,
                      "its namespace decides what becomes of a doubt, and says otherwise");
    if (call->wait_ms > policy->wait_ms_max)
        call->wait_ms = policy->wait_ms_max;
    return check_ttl(call, policy);
}

static int check_result(struct once__call *call, const struct once__policy *policy)
{
    if (call->op.result.size > policy->result_size_max)
        return refuse(call, ONCE_ERR_TOO_LARGE, "the result is larger than its namespace allows");
    return ONCE_OK;
}

/* Where codes are HTTP statuses, some say that it did not happen, and some that nobody knows. */
static int check_complete(struct once__call *call, const struct once__policy *policy)
{
    struct once_op *op = &call->op;

    if (policy->codes == ONCE__CODES_HTTP)
        call->outcome = once__outcome_of_status(op->code, policy->on_5xx);
    switch (call->outcome) {
    case ONCE_OUTCOME_STORE:
        return check_result(call, policy);
    case ONCE_OUTCOME_RELEASE:
        snprintf(call->reason, sizeof(call->reason), "status %d", (int)op->code);
        op->call = ONCE_CALL_FAIL;
        op->result = once_bytes_of(call->reason);
        break;
    case ONCE_OUTCOME_DOUBT:
        op->call = ONCE_CALL_RENEW;
        op->lease_ms = 0;
        op->result = (struct once_bytes){NULL, 0};
        break;
    }
    return ONCE_OK;
}

/* A value that is to stay longer than its namespace keeps things. */
static int check_value_ttl(const struct once__service *service, struct once__call *call,
                           const struct once__policy *policy)
{
    const struct once_op *op = &call->op;
    bool forever = op->call == ONCE_CALL_SET && op->ttl_ms == 0 && op->until_ms == 0;

    if (policy->retention_ms_max >= ONCE_RETENTION_MS_MAX || op->keep_ttl)
        return ONCE_OK;
    if (forever)
        return refuse(call, ONCE_ERR_INVALID,
                      "its namespace keeps nothing for ever: say how long the value is kept");
    if (op->ttl_ms > policy->retention_ms_max ||
        (op->ttl_ms == 0 &&
         op->until_ms > once__service_wall_ms(service) + policy->retention_ms_max + 1000))
        return refuse(call, ONCE_ERR_INVALID, "the TTL is longer than its namespace allows");
    return ONCE_OK;
}

static int check_value(const struct once__service *service, struct once__call *call,
                       const struct once__policy *policy)
{
    enum once_call_kind kind = call->op.call;

    if (kind == ONCE_CALL_GET || kind == ONCE_CALL_FORGET)
        return ONCE_OK;
    if (kind != ONCE_CALL_SET && kind != ONCE_CALL_EXPIRE)
        return refuse(call, ONCE_ERR_INVALID,
                      "the namespace \"" ONCE_VALUES_NAMESPACE
                      "\" is for values (SET, GET, …); use another for operations");
    if (kind == ONCE_CALL_SET && call->op.result.size > policy->result_size_max)
        return refuse(call, ONCE_ERR_TOO_LARGE, "the value is larger than its namespace allows");
    return check_value_ttl(service, call, policy);
}

static int check_policy(const struct once__service *service, struct once__call *call,
                        const struct once__policy *policy)
{
    if (is_values(call->op.ns))
        return check_value(service, call, policy);
    switch (call->op.call) {
    case ONCE_CALL_BEGIN:
        return check_begin(call, policy);
    case ONCE_CALL_APPLY:
        return check_ttl(call, policy);
    case ONCE_CALL_COMPLETE:
        return check_complete(call, policy);
    case ONCE_CALL_RESOLVE:
        return check_result(call, policy);
    case ONCE_CALL_RENEW:
        if (call->op.lease_ms > policy->lease_ms_max)
            return refuse(call, ONCE_ERR_INVALID, "the lease is longer than its namespace allows");
        return ONCE_OK;
    case ONCE_CALL_SET:
    case ONCE_CALL_EXPIRE:
        return refuse(call, ONCE_ERR_INVALID,
                      "values live in the namespace \"" ONCE_VALUES_NAMESPACE "\" alone");
    case ONCE_CALL_FAIL:
    case ONCE_CALL_CHECKPOINT:
    case ONCE_CALL_FORGET:
    case ONCE_CALL_GET:
    case ONCE_CALL_MERGE:
        break; /* a policy says nothing about them */
    }
    return ONCE_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Before: what someone wants, so that it is written down even if the server dies over it (outcome
 * NULL); and after: what came of it. */
static void put_audit(struct once__service *service, const struct once__call *call,
                      const char *outcome)
{
    const struct once_op *op = &call->op;
    const char *what = op->call == ONCE_CALL_FORGET ? "forget"
                       : op->done                   ? "resolve_done"
                                                    : "resolve_not_done";

    once__log_audit(service->log, call->who, call->from ? call->from : "-", what,
                    (struct once__field[]){{.name = "namespace", .bytes = op->ns},
                                           {.name = "key", .bytes = op->key},
                                           {.name = "fence", .number = (int64_t)op->fence},
                                           {.name = outcome ? "outcome" : NULL, .text = outcome},
                                           {.name = NULL}});
}

static void audit(struct once__service *service, const struct once__identity *identity,
                  struct once__call *call)
{
    const struct once_op *op = &call->op;

    if (op->call != ONCE_CALL_RESOLVE && (op->call != ONCE_CALL_FORGET || is_values(op->ns)))
        return;
    call->audited = true;
    (void)snprintf(call->who, sizeof call->who, "%s",
                   identity->name[0] != '\0' ? identity->name : "-");
    put_audit(service, call, NULL);
}

void once__service_audit_end(struct once__service *service, const struct once__call *call)
{
    const struct once_reply *reply = &call->op.reply;

    put_audit(service, call,
              reply->err == ONCE_OK ? once_word_name(reply->word) : once_err_name(reply->err));
}

/* An apply without a key and a merge have no namespace, or need none. */
static bool has_namespace(const struct once_op *op)
{
    return op->call != ONCE_CALL_MERGE &&
           !(op->call == ONCE_CALL_APPLY && op->key.size == 0 && op->ns.size == 0);
}

int once__service_check(struct once__service *service, const struct once__config *config,
                        const struct once__identity *identity, struct once__call *call)
{
    struct once_op *op = &call->op;
    const struct once__policy *policy = NULL;
    struct once_bytes asked = op->ns;
    const char *what = role_defect(identity, role_needed(op));
    int err;

    ONCE_ASSERT((unsigned)op->call < ONCE__CALL_COUNT);
    call->outcome = ONCE_OUTCOME_STORE;
    if (what)
        return refuse(call, ONCE_ERR_DENIED, what);
    if (!has_namespace(op)) {
        asked = (struct once_bytes){NULL, 0};
    } else {
        err = find_namespace(config, identity, &op->ns, call->ns, &policy, &what);
        if (err != ONCE_OK)
            return refuse(call, err, what);
    }
    err = check_objects(call, config, identity);
    if (err != ONCE_OK)
        return err;
    if (!within_rate(service, config, identity, &op->reply.retry_ms))
        return refuse(call, ONCE_ERR_RATE, rate_text);
    if (policy && (err = check_policy(service, call, policy)) != ONCE_OK)
        return err;
    if (!once__service_store(service))
        return refuse(call, ONCE_ERR_LOADING, NULL);
    audit(service, identity, call);
    call->service = service;
    call->counts = once__metrics_namespace(service->metrics, once__namespace_base(asked));
    return ONCE_OK;
}

int once__service_check_look(struct once__service *service, const struct once__config *config,
                             const struct once__identity *identity, struct once_bytes ns,
                             char *ret_ns, const char **ret_what)
{
    enum once__role needed = ns.size > 0 ? ONCE__ROLE_READ : ONCE__ROLE_ADMIN;
    const char *what = role_defect(identity, needed);
    char text[ONCE_NAMESPACE_SIZE_MAX + 1];
    const struct once__policy *policy;
    once_ms wait_ms;
    int err = what ? ONCE_ERR_DENIED : ONCE_OK;

    if (err == ONCE_OK && ns.size > 0)
        err = find_namespace(config, identity, &ns, text, &policy, &what);
    if (err == ONCE_OK && !within_rate(service, config, identity, &wait_ms)) {
        err = ONCE_ERR_RATE;
        what = rate_text;
    }
    if (err == ONCE_OK && !once__service_store(service)) {
        err = ONCE_ERR_LOADING;
        what = once_err_text(err);
    }
    if (err != ONCE_OK) {
        *ret_what = what;
        return err;
    }
    if (ns.size > 0)
        memcpy(ret_ns, ns.data, ns.size);
    ret_ns[ns.size] = '\0';
    return ONCE_OK;
}

int once__service_check_scan(struct once__service *service, const struct once__config *config,
                             const struct once__identity *identity, const char **ret_what)
{
    once_ms wait_ms;

    *ret_what = role_defect(identity, ONCE__ROLE_READ);
    if (*ret_what)
        return ONCE_ERR_DENIED;
    if (!within_rate(service, config, identity, &wait_ms)) {
        *ret_what = rate_text;
        return ONCE_ERR_RATE;
    }
    if (once__service_store(service))
        return ONCE_OK;
    *ret_what = once_err_text(ONCE_ERR_LOADING);
    return ONCE_ERR_LOADING;
}

bool once__service_sees(const struct once__config *config, const struct once__identity *identity,
                        struct once_bytes kept, struct once_bytes *ret_asked)
{
    const struct once__policy *policy = once__config_policy(config, kept);
    const uint8_t *at = memchr(kept.data, '@', kept.size);
    struct once_bytes user;

    *ret_asked = kept;
    if (!identity->known)
        return false;
    if (identity->role == ONCE__ROLE_ADMIN)
        return true;
    if (!policy)
        return false;
    if (policy->by_user) {
        if (!at)
            return false;
        ret_asked->size = (size_t)(at - kept.data);
        user = (struct once_bytes){at + 1, kept.size - ret_asked->size - 1};
        if (!once__bytes_equal(user, once_bytes_of(identity->name)))
            return false;
    }
    return once__access_namespace(config, identity, *ret_asked);
}

int once__service_check_object(struct once__service *service, const struct once__config *config,
                               const struct once__identity *identity, struct once_bytes name,
                               bool writes, const char **ret_what)
{
    const char *what = role_defect(identity, writes ? ONCE__ROLE_WRITE : ONCE__ROLE_READ);
    once_ms wait_ms;
    int err = what ? ONCE_ERR_DENIED : ONCE_OK;

    if (err == ONCE_OK && !once__access_object(config, identity, name)) {
        err = ONCE_ERR_DENIED;
        what = name.size > 0 ? object_text : "this user may not see every object";
    }
    if (err == ONCE_OK && !within_rate(service, config, identity, &wait_ms)) {
        err = ONCE_ERR_RATE;
        what = rate_text;
    }
    if (err == ONCE_OK && !once__service_store(service)) {
        err = ONCE_ERR_LOADING;
        what = once_err_text(err);
    }
    if (err != ONCE_OK)
        *ret_what = what;
    return err;
}
