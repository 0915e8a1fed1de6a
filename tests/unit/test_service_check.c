/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may make which call, and what the policy of a namespace makes of it.
 */
#include "service_help.h"

#include <unistd.h>

#include "server/service_inner.h"

static const char config_text[] =
    "dir = /nowhere\n"
    "[namespace *]\n"
    "[namespace pay]\n"
    "retention = 2h\n"
    "retention_max = 3h\n"
    "lease = 7s\n"
    "lease_max = 10s\n"
    "wait_max = 5s\n"
    "doubt = retry\n"
    "doubt_fixed = yes\n"
    "result_max = 10\n"
    "[namespace web]\n"
    "codes = http\n"
    "result_max = 10\n"
    "[namespace own]\n"
    "scope = user\n"
    "[namespace a-name-of-sixty-characters-which-is-nearly-as-long-as-may-be]\n"
    "scope = user\n"
    "[user ann]\n"
    "role = admin\n"
    "token = sha256$0000000000000000000000000000000000000000000000000000000000000001\n"
    "[user bob]\n"
    "role = write\n"
    "namespaces = pay, web, own, redis\n"
    "objects = acct:, mail:\n"
    "token = sha256$0000000000000000000000000000000000000000000000000000000000000002\n"
    "[user eve]\n"
    "role = read\n"
    "namespaces = pay, own\n"
    "objects = acct:\n"
    "token = sha256$0000000000000000000000000000000000000000000000000000000000000003\n"
    "[user all]\n"
    "role = write\n"
    "namespaces = *\n"
    "objects = *\n"
    "token = sha256$0000000000000000000000000000000000000000000000000000000000000004\n";

struct desk {
    struct house house;
    struct once__config *config;
    struct once__identity ann, bob, eve, all, nobody, owner;
};

static struct once__identity someone(const char *name, enum once__role role)
{
    struct once__identity identity = {.known = true, .role = role};

    snprintf(identity.name, sizeof(identity.name), "%s", name);
    return identity;
}

static void desk_open(struct desk *desk)
{
    house_open(&desk->house, true);
    desk->config = house_config(config_text);
    desk->ann = someone("ann", ONCE__ROLE_ADMIN);
    desk->bob = someone("bob", ONCE__ROLE_WRITE);
    desk->eve = someone("eve", ONCE__ROLE_READ);
    desk->all = someone("all", ONCE__ROLE_WRITE);
    desk->owner = someone("", ONCE__ROLE_ADMIN);
    desk->nobody = (struct once__identity){.known = false, .role = ONCE__ROLE_ADMIN};
}

static void desk_close(struct desk *desk)
{
    once__config_unref(desk->config);
    house_close(&desk->house);
}

static void ignore(struct once__call *call)
{
    (void)call;
}

/* The call as it was checked, in one place that stays. */
static struct once__call *check(struct desk *desk, const struct once__identity *who, const char *ns,
                                struct once__call call)
{
    static struct once__call checked;

    checked = call;
    checked.op.ns = once_bytes_of(ns);
    if (checked.op.key.size == 0 && checked.op.call != ONCE_CALL_APPLY)
        checked.op.key = once_bytes_of("key");
    checked.done = ignore;
    checked.op.reply.err = once__service_check(desk->house.service, desk->config, who, &checked);
    if (checked.op.reply.err != ONCE_OK)
        assert_non_null(checked.op.reply.what);
    return &checked;
}

static int err_of(struct desk *desk, const struct once__identity *who, const char *ns,
                  enum once_call_kind kind)
{
    return check(desk, who, ns, (struct once__call){.op = {.call = kind}})->op.reply.err;
}

static void assert_bytes(struct once_bytes bytes, const char *text)
{
    assert_int_equal(bytes.size, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.size);
}

/* ---- Who ------------------------------------------------------------------------------------- */

static void check__roles__allow_what_they_say(void **state)
{
    static const struct {
        enum once_call_kind kind;
        enum once__role role;
    } needs[] = {
        {ONCE_CALL_BEGIN, ONCE__ROLE_WRITE},  {ONCE_CALL_COMPLETE, ONCE__ROLE_WRITE},
        {ONCE_CALL_FAIL, ONCE__ROLE_WRITE},   {ONCE_CALL_CHECKPOINT, ONCE__ROLE_WRITE},
        {ONCE_CALL_RENEW, ONCE__ROLE_WRITE},  {ONCE_CALL_RESOLVE, ONCE__ROLE_ADMIN},
        {ONCE_CALL_FORGET, ONCE__ROLE_ADMIN}, {ONCE_CALL_GET, ONCE__ROLE_READ},
        {ONCE_CALL_APPLY, ONCE__ROLE_WRITE},
    };
    struct desk desk;

    (void)state;
    desk_open(&desk);
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        enum once__role role = needs[i].role;

        assert_int_equal(err_of(&desk, &desk.eve, "pay", needs[i].kind),
                         role == ONCE__ROLE_READ ? ONCE_OK : ONCE_ERR_DENIED);
        assert_int_equal(err_of(&desk, &desk.bob, "pay", needs[i].kind),
                         role <= ONCE__ROLE_WRITE ? ONCE_OK : ONCE_ERR_DENIED);
        assert_int_equal(err_of(&desk, &desk.ann, "pay", needs[i].kind), ONCE_OK);
        assert_int_equal(err_of(&desk, &desk.nobody, "pay", needs[i].kind), ONCE_ERR_DENIED);
    }
    desk_close(&desk);
}

static void check__forget__needs_the_fence_or_an_administrator(void **state)
{
    struct once__call with_fence = {.op = {.call = ONCE_CALL_FORGET, .fence = 7}};
    struct desk desk;

    (void)state;
    desk_open(&desk);
    assert_int_equal(check(&desk, &desk.bob, "pay", with_fence)->op.reply.err, ONCE_OK);
    assert_int_equal(check(&desk, &desk.eve, "pay", with_fence)->op.reply.err, ONCE_ERR_DENIED);
    /* A value is data: who may set it may delete it. */
    assert_int_equal(err_of(&desk, &desk.bob, "redis", ONCE_CALL_FORGET), ONCE_OK);
    desk_close(&desk);
}

static void check__namespaces__only_ones_own(void **state)
{
    struct desk desk;

    (void)state;
    desk_open(&desk);
    assert_int_equal(err_of(&desk, &desk.bob, "mail", ONCE_CALL_BEGIN), ONCE_ERR_DENIED);
    assert_int_equal(err_of(&desk, &desk.all, "mail", ONCE_CALL_BEGIN), ONCE_OK);
    assert_int_equal(err_of(&desk, &desk.ann, "mail", ONCE_CALL_BEGIN), ONCE_OK);
    assert_int_equal(err_of(&desk, &desk.all, "", ONCE_CALL_BEGIN), ONCE_ERR_INVALID);
    assert_int_equal(err_of(&desk, &desk.all, "a b", ONCE_CALL_BEGIN), ONCE_ERR_INVALID);
    assert_int_equal(err_of(&desk, &desk.all,
                            "a-namespace-of-more-characters-than-the-sixty-four-that-are-allowed",
                            ONCE_CALL_BEGIN),
                     ONCE_ERR_INVALID);
    desk_close(&desk);
}

static void check__undeclared_namespace__is_refused_where_all_are_declared(void **state)
{
    struct desk desk;

    (void)state;
    desk_open(&desk);
    desk.config->namespaces_declared = true;
    assert_int_equal(err_of(&desk, &desk.ann, "mail", ONCE_CALL_BEGIN), ONCE_ERR_INVALID);
    assert_int_equal(err_of(&desk, &desk.ann, "pay", ONCE_CALL_BEGIN), ONCE_OK);
    desk_close(&desk);
}

static void check__by_user__everyone_has_keys_of_their_own(void **state)
{
    static const char long_name[] = "a-name-of-sixty-characters-which-is-nearly-as-long-as-may-be";
    struct once__call begin = {.op = {.call = ONCE_CALL_BEGIN}};
    struct once__call *call;
    struct desk desk;

    (void)state;
    desk_open(&desk);
    call = check(&desk, &desk.bob, "own", begin);
    assert_int_equal(call->op.reply.err, ONCE_OK);
    assert_bytes(call->op.ns, "own@bob");
    assert_string_equal(call->counts->ns, "own");
    assert_bytes(check(&desk, &desk.ann, "own", begin)->op.ns, "own@ann");
    assert_bytes(check(&desk, &desk.owner, "own", begin)->op.ns, "own");
    assert_bytes(check(&desk, &desk.bob, "pay", begin)->op.ns, "pay");
    /* Values too. */
    desk.config->otherwise.by_user = true;
    call = check(&desk, &desk.bob, "redis", (struct once__call){.op = {.call = ONCE_CALL_SET}});
    assert_int_equal(call->op.reply.err, ONCE_OK);
    assert_bytes(call->op.ns, "redis@bob");
    /* Those of others are for administrators, however they are named. */
    assert_int_equal(err_of(&desk, &desk.bob, "own@ann", ONCE_CALL_GET), ONCE_ERR_DENIED);
    assert_int_equal(err_of(&desk, &desk.all, "own@ann", ONCE_CALL_GET), ONCE_ERR_DENIED);
    assert_int_equal(err_of(&desk, &desk.all, "own@all", ONCE_CALL_GET), ONCE_ERR_DENIED);
    assert_bytes(check(&desk, &desk.ann, "own@bob", begin)->op.ns, "own@bob");
    assert_bytes(check(&desk, &desk.owner, "own@bob", begin)->op.ns, "own@bob");
    assert_int_equal(strlen(long_name), 60);
    assert_int_equal(check(&desk, &desk.all, long_name, begin)->op.ns.size, 64);
    desk.all = someone("ally", ONCE__ROLE_ADMIN);
    assert_int_equal(err_of(&desk, &desk.all, long_name, ONCE_CALL_BEGIN), ONCE_ERR_INVALID);
    desk_close(&desk);
}

/* ---- Objects --------------------------------------------------------------------------------- */

static struct once__call *apply(struct desk *desk, const struct once__identity *who, const char *ns,
                                const char *object)
{
    struct once_bytes good[] = {once_bytes_of("FLAG"), once_bytes_of("acct:1")};
    struct once_bytes words[] = {once_bytes_of("FLAG"), once_bytes_of(object)};
    struct once_do dos[] = {{good, 2}, {words, 2}};

    return check(desk, who, ns,
                 (struct once__call){.op = {.call = ONCE_CALL_APPLY, .dos = dos, .do_count = 2}});
}

static void check__objects__only_ones_own(void **state)
{
    struct once__call merge = {.op = {.call = ONCE_CALL_MERGE}};
    struct once__call nameless = {.op = {.call = ONCE_CALL_APPLY}};
    struct once_bytes word = once_bytes_of("FLAG");
    struct once_do lonely = {&word, 1};
    struct desk desk;
    struct once__call *call;

    (void)state;
    desk_open(&desk);
    assert_int_equal(apply(&desk, &desk.bob, "pay", "acct:2")->op.reply.err, ONCE_OK);
    call = apply(&desk, &desk.bob, "pay", "stock:2");
    assert_int_equal(call->op.reply.err, ONCE_ERR_DENIED);
    assert_int_equal(call->op.reply.effect, 2);
    assert_int_equal(apply(&desk, &desk.ann, "pay", "stock:2")->op.reply.err, ONCE_OK);
    assert_int_equal(apply(&desk, &desk.all, "pay", "stock:2")->op.reply.err, ONCE_OK);
    /* Without a key no namespace is needed, and objects are whose they are. */
    assert_int_equal(apply(&desk, &desk.bob, "", "acct:2")->op.reply.err, ONCE_OK);
    assert_int_equal(apply(&desk, &desk.bob, "", "stock:2")->op.reply.err, ONCE_ERR_DENIED);
    merge.op.key = once_bytes_of("acct:3");
    assert_int_equal(check(&desk, &desk.bob, "", merge)->op.reply.err, ONCE_OK);
    assert_int_equal(check(&desk, &desk.eve, "", merge)->op.reply.err, ONCE_ERR_DENIED);
    merge.op.key = once_bytes_of("stock:3");
    assert_int_equal(check(&desk, &desk.bob, "", merge)->op.reply.err, ONCE_ERR_DENIED);
    /* An effect without words is the store's to refuse. */
    nameless.op.dos = &lonely;
    nameless.op.do_count = 1;
    assert_int_equal(check(&desk, &desk.bob, "pay", nameless)->op.reply.err, ONCE_OK);
    desk_close(&desk);
}

static int look_at(struct desk *desk, const struct once__identity *who, const char *name,
                   bool writes)
{
    const char *what = NULL;
    int err = once__service_check_object(desk->house.service, desk->config, who,
                                         once_bytes_of(name), writes, &what);

    assert_true(err == ONCE_OK || what);
    return err;
}

static void check_object__looking__only_at_ones_own(void **state)
{
    struct desk desk;

    (void)state;
    desk_open(&desk);
    assert_int_equal(look_at(&desk, &desk.eve, "acct:1", false), ONCE_OK);
    assert_int_equal(look_at(&desk, &desk.eve, "acct:1", true), ONCE_ERR_DENIED);
    assert_int_equal(look_at(&desk, &desk.eve, "mail:1", false), ONCE_ERR_DENIED);
    assert_int_equal(look_at(&desk, &desk.eve, "", false), ONCE_ERR_DENIED);
    assert_int_equal(look_at(&desk, &desk.bob, "", false), ONCE_ERR_DENIED);
    assert_int_equal(look_at(&desk, &desk.all, "", true), ONCE_OK);
    assert_int_equal(look_at(&desk, &desk.ann, "", true), ONCE_OK);
    assert_int_equal(look_at(&desk, &desk.nobody, "acct:1", false), ONCE_ERR_DENIED);
    once__service_open(desk.house.service, NULL);
    assert_int_equal(look_at(&desk, &desk.ann, "acct:1", false), ONCE_ERR_LOADING);
    desk_close(&desk);
}

static int look_into(struct desk *desk, const struct once__identity *who, const char *ns,
                     const char *expected)
{
    char inside[ONCE_NAMESPACE_SIZE_MAX + 1] = "unwritten";
    const char *what = NULL;
    int err = once__service_check_look(desk->house.service, desk->config, who, once_bytes_of(ns),
                                       inside, &what);

    assert_true(err == ONCE_OK || what);
    assert_string_equal(inside, expected);
    return err;
}

static void check_look__listing__only_ones_own(void **state)
{
    struct desk desk;

    (void)state;
    desk_open(&desk);
    assert_int_equal(look_into(&desk, &desk.eve, "pay", "pay"), ONCE_OK);
    assert_int_equal(look_into(&desk, &desk.eve, "own", "own@eve"), ONCE_OK);
    assert_int_equal(look_into(&desk, &desk.eve, "web", "unwritten"), ONCE_ERR_DENIED);
    assert_int_equal(look_into(&desk, &desk.eve, "own@bob", "unwritten"), ONCE_ERR_DENIED);
    assert_int_equal(look_into(&desk, &desk.ann, "own@bob", "own@bob"), ONCE_OK);
    /* Every namespace, those of other users in "own" too. */
    assert_int_equal(look_into(&desk, &desk.all, "", "unwritten"), ONCE_ERR_DENIED);
    assert_int_equal(look_into(&desk, &desk.ann, "", ""), ONCE_OK);
    assert_int_equal(look_into(&desk, &desk.nobody, "pay", "unwritten"), ONCE_ERR_DENIED);
    once__service_open(desk.house.service, NULL);
    assert_int_equal(look_into(&desk, &desk.ann, "pay", "unwritten"), ONCE_ERR_LOADING);
    desk_close(&desk);
}

/* What of the kept namespace is called, or NULL. */
static const char *seen_as(struct desk *desk, const struct once__identity *who, const char *kept)
{
    static char text[ONCE_NAMESPACE_SIZE_MAX + 1];
    struct once_bytes asked;

    if (!once__service_sees(desk->config, who, once_bytes_of(kept), &asked))
        return NULL;
    memcpy(text, asked.data, asked.size);
    text[asked.size] = '\0';
    return text;
}

static void sees__all_namespaces__only_ones_own(void **state)
{
    struct desk desk;
    const char *what = NULL;

    (void)state;
    desk_open(&desk);
    assert_string_equal(seen_as(&desk, &desk.eve, "pay"), "pay");
    assert_string_equal(seen_as(&desk, &desk.eve, "own@eve"), "own");
    assert_null(seen_as(&desk, &desk.eve, "own@bob"));
    assert_null(seen_as(&desk, &desk.eve, "own@ev"));
    assert_null(seen_as(&desk, &desk.eve, "own"));
    assert_null(seen_as(&desk, &desk.eve, "web"));
    assert_null(seen_as(&desk, &desk.nobody, "pay"));
    assert_string_equal(seen_as(&desk, &desk.ann, "own@bob"), "own@bob");
    assert_string_equal(seen_as(&desk, &desk.ann, "web"), "web");
    /* Who may use every namespace has but one scope in those that are by_user. */
    assert_string_equal(seen_as(&desk, &desk.all, "web"), "web");
    assert_null(seen_as(&desk, &desk.all, "own@bob"));
    assert_int_equal(once__service_check_scan(desk.house.service, desk.config, &desk.eve, &what),
                     ONCE_OK);
    assert_int_equal(once__service_check_scan(desk.house.service, desk.config, &desk.nobody, &what),
                     ONCE_ERR_DENIED);
    assert_non_null(what);
    once__service_open(desk.house.service, NULL);
    assert_int_equal(once__service_check_scan(desk.house.service, desk.config, &desk.ann, &what),
                     ONCE_ERR_LOADING);
    desk_close(&desk);
}

/* ---- The policy ------------------------------------------------------------------------------ */

static void check__nothing_said__the_policy_says_it(void **state)
{
    struct once__call begin = {.op = {.call = ONCE_CALL_BEGIN}, .wait_ms = 60000};
    struct once__call *call;
    struct desk desk;

    (void)state;
    desk_open(&desk);
    call = check(&desk, &desk.bob, "pay", begin);
    assert_int_equal(call->op.ttl_ms, 2 * LIFE_HOUR_MS);
    assert_int_equal(call->op.lease_ms, 7000);
    assert_int_equal(call->op.on_doubt, ONCE_ON_DOUBT_RETRY);
    assert_int_equal(call->wait_ms, 5000);
    call = check(&desk, &desk.bob, "web", begin);
    assert_int_equal(call->op.ttl_ms, ONCE_RETENTION_MS_DEFAULT);
    assert_int_equal(call->op.lease_ms, ONCE_LEASE_MS_DEFAULT);
    assert_int_equal(call->op.on_doubt, ONCE_ON_DOUBT_REJECT);
    call = apply(&desk, &desk.bob, "pay", "acct:1");
    assert_int_equal(call->op.ttl_ms, 2 * LIFE_HOUR_MS);
    desk_close(&desk);
}

static void check__something_said__is_held_against_the_policy(void **state)
{
    struct once__call call = {.op = {.call = ONCE_CALL_BEGIN,
                                     .ttl_ms = 3 * LIFE_HOUR_MS,
                                     .lease_ms = 10000,
                                     .on_doubt = ONCE_ON_DOUBT_RETRY},
                              .on_doubt_given = true};
    struct desk desk;

    (void)state;
    desk_open(&desk);
    assert_int_equal(check(&desk, &desk.bob, "pay", call)->op.reply.err, ONCE_OK);
    call.op.ttl_ms++;
    assert_int_equal(check(&desk, &desk.bob, "pay", call)->op.reply.err, ONCE_ERR_INVALID);
    call.op.ttl_ms--;
    call.op.lease_ms++;
    assert_int_equal(check(&desk, &desk.bob, "pay", call)->op.reply.err, ONCE_ERR_INVALID);
    call.op.lease_ms--;
    call.op.on_doubt = ONCE_ON_DOUBT_REJECT;
    assert_int_equal(check(&desk, &desk.bob, "pay", call)->op.reply.err, ONCE_ERR_INVALID);
    call.op.on_doubt = ONCE_ON_DOUBT_RETRY; /* where it is not fixed a request may choose */
    assert_int_equal(check(&desk, &desk.bob, "web", call)->op.on_doubt, ONCE_ON_DOUBT_RETRY);
    assert_int_equal(check(&desk, &desk.bob, "web", call)->op.reply.err, ONCE_OK);
    call = (struct once__call){.op = {.call = ONCE_CALL_RENEW, .lease_ms = 10001}};
    assert_int_equal(check(&desk, &desk.bob, "pay", call)->op.reply.err, ONCE_ERR_INVALID);
    call.op.lease_ms = 0;
    assert_int_equal(check(&desk, &desk.bob, "pay", call)->op.lease_ms, 0);
    call = (struct once__call){
        .op = {.call = ONCE_CALL_COMPLETE, .result = once_bytes_of("0123456789")}};
    assert_int_equal(check(&desk, &desk.bob, "pay", call)->op.reply.err, ONCE_OK);
    call.op.result = once_bytes_of("0123456789+");
    assert_int_equal(check(&desk, &desk.bob, "pay", call)->op.reply.err, ONCE_ERR_TOO_LARGE);
    call.op.call = ONCE_CALL_RESOLVE;
    assert_int_equal(check(&desk, &desk.ann, "pay", call)->op.reply.err, ONCE_ERR_TOO_LARGE);
    desk_close(&desk);
}

static void check__codes_are_statuses__some_are_no_answer(void **state)
{
    struct once__call complete = {
        .op = {.call = ONCE_CALL_COMPLETE, .fence = 3, .result = once_bytes_of("body")}};
    struct once__call *call;
    struct desk desk;

    (void)state;
    desk_open(&desk);
    complete.op.code = 201;
    call = check(&desk, &desk.bob, "web", complete);
    assert_int_equal(call->outcome, ONCE_OUTCOME_STORE);
    assert_int_equal(call->op.call, ONCE_CALL_COMPLETE);
    complete.op.code = 503;
    complete.op.result = once_bytes_of("a long text about why");
    call = check(&desk, &desk.bob, "web", complete); /* it is not kept, so it is not too long */
    assert_int_equal(call->op.reply.err, ONCE_OK);
    assert_int_equal(call->outcome, ONCE_OUTCOME_RELEASE);
    assert_int_equal(call->op.call, ONCE_CALL_FAIL);
    assert_bytes(call->op.result, "status 503");
    complete.op.code = 500;
    complete.op.lease_ms = 5;
    call = check(&desk, &desk.bob, "web", complete);
    assert_int_equal(call->outcome, ONCE_OUTCOME_DOUBT);
    assert_int_equal(call->op.call, ONCE_CALL_RENEW);
    assert_int_equal(call->op.lease_ms, 0);
    complete.op.code = INT32_MIN;
    assert_int_equal(check(&desk, &desk.bob, "web", complete)->outcome, ONCE_OUTCOME_DOUBT);
    /* Elsewhere a code is a code. */
    complete.op.result = once_bytes_of("body");
    call = check(&desk, &desk.bob, "pay", complete);
    assert_int_equal(call->outcome, ONCE_OUTCOME_STORE);
    assert_int_equal(call->op.call, ONCE_CALL_COMPLETE);
    desk_close(&desk);
}

static void check__values__have_a_namespace_of_their_own(void **state)
{
    static const enum once_call_kind kinds[] = {
        ONCE_CALL_BEGIN, ONCE_CALL_COMPLETE, ONCE_CALL_FAIL, ONCE_CALL_CHECKPOINT,
        ONCE_CALL_RENEW, ONCE_CALL_RESOLVE,  ONCE_CALL_APPLY};
    struct desk desk;

    (void)state;
    desk_open(&desk);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        assert_int_equal(err_of(&desk, &desk.ann, "redis", kinds[i]), ONCE_ERR_INVALID);
        assert_int_equal(err_of(&desk, &desk.ann, "redis@bob", kinds[i]), ONCE_ERR_INVALID);
    }
    assert_int_equal(err_of(&desk, &desk.bob, "redis", ONCE_CALL_SET), ONCE_OK);
    assert_int_equal(err_of(&desk, &desk.bob, "redis", ONCE_CALL_EXPIRE), ONCE_OK);
    assert_int_equal(err_of(&desk, &desk.bob, "redis", ONCE_CALL_GET), ONCE_OK);
    assert_int_equal(err_of(&desk, &desk.bob, "pay", ONCE_CALL_SET), ONCE_ERR_INVALID);
    assert_int_equal(err_of(&desk, &desk.all, "redistribution", ONCE_CALL_SET), ONCE_ERR_INVALID);
    assert_int_equal(err_of(&desk, &desk.all, "redistribution", ONCE_CALL_BEGIN), ONCE_OK);
    /* Nothing is filled in: a value without a TTL stays. */
    assert_int_equal(
        check(&desk, &desk.bob, "redis", (struct once__call){.op = {.call = ONCE_CALL_SET}})
            ->op.ttl_ms,
        0);
    desk_close(&desk);
}

static void check__value_kept_longer_than_allowed__is_refused(void **state)
{
    struct once__call set = {.op = {.call = ONCE_CALL_SET, .result = once_bytes_of("01234")}};
    once_ms now_ms = (once_ms)time(NULL) * 1000;
    struct desk desk;

    (void)state;
    desk_open(&desk);
    desk.config->otherwise.retention_ms_max = 2 * LIFE_HOUR_MS;
    desk.config->otherwise.result_size_max = 5;
    assert_int_equal(check(&desk, &desk.bob, "redis", set)->op.reply.err, ONCE_ERR_INVALID);
    set.op.keep_ttl = true;
    assert_int_equal(check(&desk, &desk.bob, "redis", set)->op.reply.err, ONCE_OK);
    set.op.keep_ttl = false;
    set.op.ttl_ms = 2 * LIFE_HOUR_MS;
    assert_int_equal(check(&desk, &desk.bob, "redis", set)->op.reply.err, ONCE_OK);
    set.op.ttl_ms++;
    assert_int_equal(check(&desk, &desk.bob, "redis", set)->op.reply.err, ONCE_ERR_INVALID);
    set.op.ttl_ms = 0;
    set.op.until_ms = now_ms + LIFE_HOUR_MS;
    assert_int_equal(check(&desk, &desk.bob, "redis", set)->op.reply.err, ONCE_OK);
    set.op.until_ms = now_ms + 3 * LIFE_HOUR_MS;
    assert_int_equal(check(&desk, &desk.bob, "redis", set)->op.reply.err, ONCE_ERR_INVALID);
    set.op.until_ms = now_ms + LIFE_HOUR_MS;
    set.op.result = once_bytes_of("012345");
    assert_int_equal(check(&desk, &desk.bob, "redis", set)->op.reply.err, ONCE_ERR_TOO_LARGE);
    desk_close(&desk);
}

/* ---- Rate, loading, audit -------------------------------------------------------------------- */

static void check__over_the_rate__says_when_to_come_back(void **state)
{
    struct once__service_setup setup = {.metrics = NULL};
    struct once__lane *lane = NULL;
    struct once__access *access = NULL;
    struct once__service *service = NULL;
    struct once__call call;
    struct desk desk;
    int err = ONCE_OK;

    (void)state;
    desk_open(&desk);
    assert_int_equal(once__lane_new(1, 1, &lane), ONCE_OK);
    assert_int_equal(once__access_new(lane, &access), ONCE_OK);
    setup = (struct once__service_setup){.metrics = desk.house.metrics, .access = access};
    assert_int_equal(once__service_new(&setup, &service), ONCE_OK);
    once__service_open(service, desk.house.life.store);
    for (size_t i = 0; i < desk.config->user_count; i++) {
        if (strcmp(desk.config->users[i].name, "bob") == 0)
            desk.config->users[i].rate_max = 5;
    }
    for (int i = 0; i < 100 && err == ONCE_OK; i++) {
        call = (struct once__call){
            .op = {.call = ONCE_CALL_GET, .ns = once_bytes_of("pay"), .key = once_bytes_of("key")}};
        err = once__service_check(service, desk.config, &desk.bob, &call);
    }
    assert_int_equal(err, ONCE_ERR_RATE);
    assert_int_equal(call.op.reply.err, ONCE_ERR_RATE);
    assert_true(call.op.reply.retry_ms > 0);
    assert_int_equal(once__metrics_read(desk.house.metrics, ONCE__RATE_LIMITED), 1);
    call.op.ns = once_bytes_of("pay"); /* others go on */
    assert_int_equal(once__service_check(service, desk.config, &desk.ann, &call), ONCE_OK);
    once__service_free(service);
    once__access_free(access);
    once__lane_free(lane);
    desk_close(&desk);
}

static void check__no_store_yet__is_loading(void **state)
{
    struct once__call call = {
        .op = {.call = ONCE_CALL_GET, .ns = once_bytes_of("pay"), .key = once_bytes_of("key")}};
    struct desk desk;

    (void)state;
    desk_open(&desk);
    once__service_open(desk.house.service, NULL);
    assert_int_equal(once__service_check(desk.house.service, desk.config, &desk.bob, &call),
                     ONCE_ERR_LOADING);
    assert_null(once__service_store(desk.house.service));
    desk_close(&desk);
}

static void check__resolve_and_forget__leave_an_audit_line(void **state)
{
    char path[] = "/tmp/once-audit-XXXXXX", text[4096] = "";
    struct once__service_setup setup = {.metrics = NULL};
    struct once__call call = {.op = {.call = ONCE_CALL_RESOLVE, .key = once_bytes_of("k-1")},
                              .from = "10.0.0.7:5"};
    struct once__service *service = NULL;
    struct once__log *log = NULL;
    struct desk desk;
    int file, system_error = 0;

    (void)state;
    desk_open(&desk);
    file = mkstemp(path);
    assert_true(file >= 0);
    desk.config->log_file = strdup(path);
    assert_int_equal(once__log_new(desk.config, &log, &system_error), ONCE_OK);
    setup = (struct once__service_setup){.metrics = desk.house.metrics, .log = log};
    assert_int_equal(once__service_new(&setup, &service), ONCE_OK);
    once__service_open(service, desk.house.life.store);
    for (int i = 0; i < 3; i++) {
        call.op.ns = once_bytes_of(i < 2 ? "pay" : "redis");
        call.op.call = i == 0 ? ONCE_CALL_RESOLVE : ONCE_CALL_FORGET;
        assert_int_equal(once__service_check(service, desk.config, &desk.ann, &call), ONCE_OK);
    }
    call.op.ns = once_bytes_of("pay");
    assert_int_equal(once__service_check(service, desk.config, &desk.bob, &call), ONCE_ERR_DENIED);
    /* And what came of it. */
    assert_true(call.audited);
    call.op = (struct once_op){.call = ONCE_CALL_RESOLVE,
                               .ns = once_bytes_of("pay"),
                               .key = once_bytes_of("k-2"),
                               .done = true,
                               .reply = {.word = ONCE_STALE}};
    once__service_audit_end(service, &call);
    call.op.reply = (struct once_reply){.err = ONCE_ERR_SPACE};
    once__service_audit_end(service, &call);
    assert_true(read(file, text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "who=\"ann\" from=\"10.0.0.7:5\" what=\"resolve_done\" "
                                 "namespace=\"pay\" key=\"k-2\" fence=0 outcome=\"STALE\"\n"));
    assert_non_null(strstr(text, "outcome=\"ERR_SPACE\"\n"));
    assert_non_null(strstr(text, "resolve_not_done"));
    assert_non_null(strstr(text, "forget"));
    assert_non_null(strstr(text, "ann"));
    assert_non_null(strstr(text, "10.0.0.7:5"));
    assert_non_null(strstr(text, "k-1"));
    assert_null(strstr(text, "redis"));
    assert_null(strstr(text, "bob"));
    once__service_free(service);
    once__log_free(log);
    close(file);
    unlink(path);
    desk_close(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check__roles__allow_what_they_say),
        cmocka_unit_test(check__forget__needs_the_fence_or_an_administrator),
        cmocka_unit_test(check__namespaces__only_ones_own),
        cmocka_unit_test(check__undeclared_namespace__is_refused_where_all_are_declared),
        cmocka_unit_test(check__by_user__everyone_has_keys_of_their_own),
        cmocka_unit_test(check__objects__only_ones_own),
        cmocka_unit_test(check_object__looking__only_at_ones_own),
        cmocka_unit_test(check_look__listing__only_ones_own),
        cmocka_unit_test(sees__all_namespaces__only_ones_own),
        cmocka_unit_test(check__nothing_said__the_policy_says_it),
        cmocka_unit_test(check__something_said__is_held_against_the_policy),
        cmocka_unit_test(check__codes_are_statuses__some_are_no_answer),
        cmocka_unit_test(check__values__have_a_namespace_of_their_own),
        cmocka_unit_test(check__value_kept_longer_than_allowed__is_refused),
        cmocka_unit_test(check__over_the_rate__says_when_to_come_back),
        cmocka_unit_test(check__no_store_yet__is_loading),
        cmocka_unit_test(check__resolve_and_forget__leave_an_audit_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
