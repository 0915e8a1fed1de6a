/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of `once gateway`: read, and checked one by one.
 */
#include <once/key.h>
#include <once/limits.h>

#include "cli/echo.h"
#include "cli/gateway.h"

enum {
    WORKERS_MAX = 64,
    SCOPE_ROOM = 25, /* of a namespace's bytes, when there is a scope */
    LEASE_MS_MIN = 1000
};
static const uint64_t BODY_MAX_MAX = UINT64_C(1) << 30;
static const uint64_t ANSWER_MAX_MAX = ONCE_RESULT_SIZE_MAX - (1 << 18);
static const once_ms TIMEOUT_MS_MAX = 86400000;

enum option {
    OPTION_LISTEN,
    OPTION_UPSTREAM,
    OPTION_UPSTREAM_CA,
    OPTION_TIMEOUT,
    OPTION_DIR,
    OPTION_SERVER,
    OPTION_REQUIRE,
    OPTION_NAMESPACE,
    OPTION_SCOPE,
    OPTION_METHODS,
    OPTION_TTL,
    OPTION_LEASE,
    OPTION_WAIT,
    OPTION_ON_5XX,
    OPTION_DOUBT,
    OPTION_PROFILE,
    OPTION_FINGERPRINT,
    OPTION_MAX_BODY,
    OPTION_MAX_ANSWER,
    OPTION_FAIL,
    OPTION_WORKERS,
    OPTION_ACCESS_LOG,
    OPTION_METRICS,
    OPTION_PRINT,
    OPTION_JSON
};

/* In the order of the ids, so that an id is an index; second names behind. */
const struct cli_option gateway_options[GATEWAY_OPTION_COUNT] = {
    {"--listen", "HOST:PORT", OPTION_LISTEN},
    {"--upstream", "URL", OPTION_UPSTREAM},
    {"--upstream-ca", "FILE", OPTION_UPSTREAM_CA},
    {"--timeout", "TIME", OPTION_TIMEOUT},
    {"--dir", "DIR", OPTION_DIR},
    {"--server", "ADDR", OPTION_SERVER},
    {"--require", NULL, OPTION_REQUIRE},
    {"--namespace", "NS", OPTION_NAMESPACE},
    {"--scope", "TEXT", OPTION_SCOPE},
    {"--methods", "LIST", OPTION_METHODS},
    {"--ttl", "TIME", OPTION_TTL},
    {"--lease", "TIME", OPTION_LEASE},
    {"--wait", "TIME", OPTION_WAIT},
    {"--on-5xx", "default|release|store|doubt", OPTION_ON_5XX},
    {"--doubt", "reject|retry", OPTION_DOUBT},
    {"--profile", "ietf|stripe", OPTION_PROFILE},
    {"--fingerprint", "LIST", OPTION_FINGERPRINT},
    {"--max-body", "SIZE", OPTION_MAX_BODY},
    {"--max-answer", "SIZE", OPTION_MAX_ANSWER},
    {"--fail", "closed|open", OPTION_FAIL},
    {"--workers", "N", OPTION_WORKERS},
    {"--access-log", "FILE", OPTION_ACCESS_LOG},
    {"--metrics", "HOST:PORT", OPTION_METRICS},
    {"--print-config", NULL, OPTION_PRINT},
    {"--json", NULL, OPTION_JSON},
    {"-n", "NS", OPTION_NAMESPACE},
};

/* ---- One value ------------------------------------------------------------------------------- */

static int wrong_value(int id, const char *value, const char *why)
{
    return cli_usage(&cli_gateway, "%s '%s': %s", gateway_options[id].name, cli_echo(value).text,
                     why);
}

/* Takes a text that a check finds good. */
static int take_text(int id, const char *value, const char *wrong, const char **ret_value)
{
    if (wrong)
        return wrong_value(id, value, wrong);
    *ret_value = value;
    return CLI_OK;
}

static int take_word(int id, const char *value, const char **ret_value)
{
    if (!gateway_is_one_of(gateway_options[id].value, value))
        return cli_usage(&cli_gateway, "%s is one of %s, not '%s'", gateway_options[id].name,
                         gateway_options[id].value, cli_echo(value).text);
    *ret_value = value;
    return CLI_OK;
}

static int take_time(int id, const char *value, once_ms min_ms, once_ms max_ms, once_ms *ret_ms)
{
    once_ms ms;

    if (!cli_duration(value, max_ms, &ms) || ms < min_ms)
        return cli_usage(&cli_gateway, "%s is a time from %lld ms to %lld s, such as 30s, not '%s'",
                         gateway_options[id].name, (long long)min_ms, (long long)(max_ms / 1000),
                         cli_echo(value).text);
    *ret_ms = ms;
    return CLI_OK;
}

static int take_size(int id, const char *value, uint64_t max, uint64_t *ret_size)
{
    if (!gateway_size(value, max, ret_size))
        return cli_usage(&cli_gateway,
                         "%s is a size from 1 to %llu bytes, such as 64k or 1m, not '%s'",
                         gateway_options[id].name, (unsigned long long)max, cli_echo(value).text);
    return CLI_OK;
}

static int take_namespace(int id, const char *value, const char **ret_ns)
{
    struct once_defect defect;

    if (once_namespace_check(once_bytes_of(value), &defect) != ONCE_OK)
        return wrong_value(id, value, defect.what);
    return take_text(id, value, gateway_path_check(value), ret_ns);
}

static int take_upstream(int id, const char *value, struct gateway_args *args)
{
    const char *wrong = gateway_url_read(value, &args->upstream);

    return take_text(id, value, wrong, &args->upstream_text);
}

static int take(int id, const char *value, struct gateway_args *args)
{
    switch ((enum option)id) {
    case OPTION_LISTEN:
        return take_text(id, value, gateway_address_check(value), &args->listen);
    case OPTION_UPSTREAM:
        return take_upstream(id, value, args);
    case OPTION_UPSTREAM_CA:
        return take_text(id, value, gateway_path_check(value), &args->upstream_ca);
    case OPTION_TIMEOUT:
        return take_time(id, value, 1, TIMEOUT_MS_MAX, &args->timeout_ms);
    case OPTION_DIR:
        return take_text(id, value, gateway_path_check(value), &args->where.dir);
    case OPTION_SERVER:
        return take_text(id, value, gateway_path_check(value), &args->where.server);
    case OPTION_NAMESPACE:
        return take_namespace(id, value, &args->ns);
    case OPTION_SCOPE:
        return take_text(id, value, gateway_scope_check(value), &args->scope);
    case OPTION_METHODS:
        return take_text(id, value, gateway_methods_check(value), &args->methods);
    case OPTION_TTL:
        return take_time(id, value, 1, ONCE_RETENTION_MS_MAX, &args->ttl_ms);
    case OPTION_LEASE:
        return take_time(id, value, LEASE_MS_MIN, ONCE_LEASE_MS_MAX, &args->lease_ms);
    case OPTION_WAIT:
        return take_time(id, value, 1, ONCE_WAIT_MS_MAX, &args->wait_ms);
    case OPTION_ON_5XX:
        return take_word(id, value, &args->on_5xx);
    case OPTION_DOUBT:
        return take_word(id, value, &args->doubt);
    case OPTION_PROFILE:
        return take_word(id, value, &args->profile);
    case OPTION_FINGERPRINT:
        return take_text(id, value, gateway_fingerprint_check(value), &args->fingerprint);
    case OPTION_MAX_BODY:
        return take_size(id, value, BODY_MAX_MAX, &args->body_max);
    case OPTION_MAX_ANSWER:
        return take_size(id, value, ANSWER_MAX_MAX, &args->answer_max);
    case OPTION_FAIL:
        return take_word(id, value, &args->fail);
    case OPTION_WORKERS:
        if (!cli_number(value, 1, WORKERS_MAX, &args->workers))
            return wrong_value(id, value, "it is a number from 1 to 64");
        return CLI_OK;
    case OPTION_ACCESS_LOG:
        return take_text(id, value, gateway_path_check(value), &args->access_log);
    case OPTION_METRICS:
        return take_text(id, value, gateway_address_check(value), &args->metrics);
    case OPTION_REQUIRE:
        args->require = true;
        return CLI_OK;
    case OPTION_PRINT:
        args->print = true;
        return CLI_OK;
    case OPTION_JSON:
        args->json = true;
        return CLI_OK;
    }
    return CLI_USAGE;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int check_together(const struct gateway_args *args)
{
    if (!args->listen)
        return cli_usage(&cli_gateway, "--listen is missing: where clients ask, such as "
                                       "127.0.0.1:8080");
    if (!args->upstream_text)
        return cli_usage(&cli_gateway, "--upstream is missing: the service behind, such as "
                                       "http://127.0.0.1:3000");
    if (args->where.dir && args->where.server)
        return cli_usage(&cli_gateway, "--dir and --server name two places; give one");
    if (args->ns && args->scope &&
        once_bytes_of(args->ns).size > ONCE_NAMESPACE_SIZE_MAX - SCOPE_ROOM)
        return cli_usage(&cli_gateway, "--namespace has at most %d bytes with --scope",
                         ONCE_NAMESPACE_SIZE_MAX - SCOPE_ROOM);
    if (args->upstream_ca && !args->upstream.tls)
        return cli_usage(&cli_gateway, "--upstream-ca is for a service with https://");
    return CLI_OK;
}

int gateway_args_read(int argc, char **argv, struct gateway_args *ret_args)
{
    struct cli_args reader = CLI_ARGS(&cli_gateway, gateway_options, argc, argv);
    const char *value = NULL;
    int id, status;

    while ((id = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (id == CLI_ARG_VALUE)
            return cli_usage(&cli_gateway, "'%s' is no option", cli_echo(value).text);
        if (id == CLI_ARG_WRONG)
            return CLI_USAGE;
        status = take(id, value, ret_args);
        if (status != CLI_OK)
            return status;
    }
    return check_together(ret_args);
}
