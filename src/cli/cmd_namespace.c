/* SPDX-License-Identifier: Apache-2.0
 *
 * `once namespace`: what holds in each namespace. Asks the server that owns the folder; where none
 * runs, reads what the configuration would say to one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <once/key.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/options.h"
#include "cli/serve.h"
#include "client/client.h"
#include "server/config.h"

static const char namespace_help[] =
    "usage: once namespace [--config FILE] [--dir DIR] [--json] [NAME]\n"
    "\n"
    "Shows what holds in a namespace, or in all that are declared: how long answers are kept, how\n"
    "long a lease is, what becomes of a doubt. From the server that owns the folder, if one runs;\n"
    "else from the configuration that a server would read.\n"
    "\n"
    "  --config FILE  the server's configuration (default: $ONCE_CONFIG, else "
    "none)\n" CLI_HELP_DIR "  --json     one JSON object for machines, errors too\n"
    "\n"
    "exit status: 0 shown; 64 usage; 66 only declared namespaces exist, and this is none; 69 the\n"
    "server does not answer; 78 the configuration is wrong\n";

enum option { OPTION_CONFIG, OPTION_DIR, OPTION_JSON };

static const struct cli_option namespace_options[] = {
    {"--config", "FILE", OPTION_CONFIG},
    {"--dir", "DIR", OPTION_DIR},
    {"--json", NULL, OPTION_JSON},
};

struct namespace_args {
    const char *config;
    const char *dir;
    const char *name; /* NULL: all */
    bool json;
};

/* What is shown. */
struct view {
    const char *source; /* "server", "configuration" */
    bool json;
    size_t count;
};

static int read_args(int argc, char **argv, struct namespace_args *args)
{
    struct cli_args reader = CLI_ARGS(&cli_namespace, namespace_options, argc, argv);
    struct once_defect defect;
    const char *value;
    int got;

    while ((got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        if (got == CLI_ARG_VALUE && args->name)
            return cli_usage(&cli_namespace, "one NAME at a time: '%s'", cli_echo(value).text);
        if (got == CLI_ARG_VALUE)
            args->name = value;
        if (got == OPTION_CONFIG)
            args->config = value;
        if (got == OPTION_DIR)
            args->dir = value;
        args->json = args->json || got == OPTION_JSON;
    }
    if (args->name && once_namespace_check(once_bytes_of(args->name), &defect) != ONCE_OK)
        return cli_usage(&cli_namespace, "'%s' is no namespace: %s", cli_echo(args->name).text,
                         defect.what);
    return CLI_OK;
}

/* ---- Showing --------------------------------------------------------------------------------- */

static const char *on_5xx_word(enum once_on_5xx on_5xx)
{
    static const char *const words[] = {"default", "release", "store", "doubt"};

    return words[on_5xx];
}

static void show_json(const struct once__policy *policy, const char *name, bool declared)
{
    fputs("{\"namespace\":", stdout);
    cli_json_string(stdout, once_bytes_of(name));
    printf(",\"declared\":%s,\"retention_ms\":%lld,\"retention_ms_max\":%lld,\"lease_ms\":%lld,"
           "\"lease_ms_max\":%lld,\"wait_ms_max\":%lld,\"on_doubt\":\"%s\",\"doubt_fixed\":%s,"
           "\"codes\":\"%s\",",
           declared ? "true" : "false", (long long)policy->retention_ms,
           (long long)policy->retention_ms_max, (long long)policy->lease_ms,
           (long long)policy->lease_ms_max, (long long)policy->wait_ms_max,
           policy->on_doubt == ONCE_ON_DOUBT_RETRY ? "retry" : "reject",
           policy->doubt_fixed ? "true" : "false",
           policy->codes == ONCE__CODES_HTTP ? "http" : "any");
    if (policy->codes == ONCE__CODES_HTTP)
        printf("\"on_5xx\":\"%s\",", on_5xx_word(policy->on_5xx));
    else
        fputs("\"on_5xx\":null,", stdout);
    printf("\"result_size_max\":%zu,\"by_user\":%s}", policy->result_size_max,
           policy->by_user ? "true" : "false");
}

static void show_times(const char *title, once_ms usual_ms, once_ms max_ms)
{
    char usual[ONCE__AMOUNT_SIZE], max[ONCE__AMOUNT_SIZE];

    once__duration_text(usual_ms, usual);
    once__duration_text(max_ms, max);
    printf("  %-10s %s, at most %s\n", title, usual, max);
}

static void show_text(const struct once__policy *policy, const char *name, bool declared)
{
    char wait[ONCE__AMOUNT_SIZE], size[ONCE__AMOUNT_SIZE];

    once__duration_text(policy->wait_ms_max, wait);
    once__size_text(policy->result_size_max, size);
    cli_print(stdout, once_bytes_of(name));
    puts(strcmp(name, "*") == 0 ? " (every other namespace)" : declared ? "" : " (not declared)");
    show_times("retention", policy->retention_ms, policy->retention_ms_max);
    show_times("lease", policy->lease_ms, policy->lease_ms_max);
    if (policy->wait_ms_max > 0)
        printf("  %-10s at most %s\n", "wait", wait);
    else
        printf("  %-10s never\n", "wait");
    printf("  %-10s %s%s\n", "doubt", policy->on_doubt == ONCE_ON_DOUBT_RETRY ? "retry" : "reject",
           policy->doubt_fixed ? ", always" : ", unless the request says otherwise");
    if (policy->codes == ONCE__CODES_HTTP)
        printf("  %-10s http, 5xx: %s\n", "codes", on_5xx_word(policy->on_5xx));
    else
        printf("  %-10s any\n", "codes");
    printf("  %-10s at most %s\n", "result", size);
    printf("  %-10s %s\n", "scope", policy->by_user ? "user" : "shared");
}

static void show(struct view *view, const struct once__policy *policy, const char *name,
                 bool declared)
{
    if (view->json) {
        if (view->count > 0)
            putchar(',');
        else
            printf("{\"source\":\"%s\",\"namespaces\":[", view->source);
        show_json(policy, name, declared);
    } else {
        if (view->count > 0)
            putchar('\n');
        show_text(policy, name, declared);
    }
    view->count++;
}

static void show_end(const struct view *view)
{
    if (view->json && view->count == 0)
        printf("{\"source\":\"%s\",\"namespaces\":[", view->source);
    if (view->json)
        puts("]}");
}

static int tell_undeclared(const struct namespace_args *args)
{
    return cli_error(&cli_namespace, CLI_NOT_FOUND,
                     "there is no namespace '%s': the configuration allows only those it declares",
                     cli_echo(args->name).text);
}

/* ---- From the configuration ------------------------------------------------------------------ */

static int show_config(const struct namespace_args *args, const struct once__config *config)
{
    struct view view = {.source = "configuration", .json = args->json};

    if (args->name) {
        const struct once__policy *policy = once__config_policy(config, once_bytes_of(args->name));

        if (!policy)
            return tell_undeclared(args);
        show(&view, policy, args->name, strcmp(policy->name, "*") != 0);
    }
    for (size_t i = 0; !args->name && i < config->policy_count; i++)
        show(&view, &config->policies[i], config->policies[i].name, true);
    if (!args->name && !config->namespaces_declared)
        show(&view, &config->otherwise, "*", false);
    show_end(&view);
    return CLI_OK;
}

/* ---- From a server --------------------------------------------------------------------------- */

static int64_t number_of(const struct once__answer_item *map, const char *name)
{
    const struct once__answer_item *item = once__answer_find(map, name);

    return item && item->kind == ONCE__ANSWER_NUMBER ? item->number : 0;
}

static bool word_is(const struct once__answer_item *map, const char *name, const char *word)
{
    const struct once__answer_item *item = once__answer_find(map, name);

    return item && item->bytes.size == strlen(word) &&
           memcmp(item->bytes.data, word, item->bytes.size) == 0;
}

static void read_policy(const struct once__answer_item *map, struct once__policy *ret_policy)
{
    const struct once__answer_item *name = once__answer_find(map, "namespace");

    *ret_policy = (struct once__policy){
        .retention_ms = number_of(map, "retention_ms"),
        .retention_ms_max = number_of(map, "retention_ms_max"),
        .lease_ms = number_of(map, "lease_ms"),
        .lease_ms_max = number_of(map, "lease_ms_max"),
        .wait_ms_max = number_of(map, "wait_ms_max"),
        .on_doubt = word_is(map, "on_doubt", "retry") ? ONCE_ON_DOUBT_RETRY : ONCE_ON_DOUBT_REJECT,
        .doubt_fixed = number_of(map, "doubt_fixed") != 0,
        .codes = word_is(map, "codes", "http") ? ONCE__CODES_HTTP : ONCE__CODES_ANY,
        .result_size_max = (size_t)number_of(map, "result_size_max"),
        .by_user = number_of(map, "by_user") != 0};
    for (enum once_on_5xx word = ONCE_ON_5XX_DEFAULT; word <= ONCE_ON_5XX_DOUBT; word++) {
        if (word_is(map, "on_5xx", on_5xx_word(word)))
            ret_policy->on_5xx = word;
    }
    if (name)
        snprintf(ret_policy->name, sizeof(ret_policy->name), "%.*s", (int)name->bytes.size,
                 (const char *)name->bytes.data);
}

static int show_answer(const struct namespace_args *args, const struct once__answer_item *answer)
{
    struct view view = {.source = "server", .json = args->json};
    struct once__policy policy;

    if (answer->kind == ONCE__ANSWER_ERROR) {
        if (args->name && memmem(answer->bytes.data, answer->bytes.size, "not declared", 12))
            return tell_undeclared(args);
        return cli_error(&cli_namespace, CLI_UNAVAILABLE, "the server says: %s",
                         cli_echo_bytes(answer->bytes).text);
    }
    for (size_t i = 0; i < (args->name ? 1 : answer->count); i++) {
        const struct once__answer_item *map = args->name ? answer : &answer->items[i];

        read_policy(map, &policy);
        show(&view, &policy, policy.name, number_of(map, "declared") != 0);
    }
    show_end(&view);
    return CLI_OK;
}

/* False: no server answers there, and nothing was shown. */
static bool show_server(const struct namespace_args *args, const char *socket, int *ret_status)
{
    const struct once_bytes words[] = {once_bytes_of("ONCE.NAMESPACE"), once_bytes_of(args->name)};
    const struct once__answer_item *answer;
    struct once__client *client = NULL;
    struct once_message message = {{0}};
    int err;

    if (once__client_open(socket, NULL, &client, &message) != ONCE_OK)
        return false;
    err = once__client_call(client, words, args->name ? 2 : 1, &answer, &message);
    if (err == ONCE_OK)
        *ret_status = show_answer(args, answer);
    else
        *ret_status = cli_error(&cli_namespace, CLI_UNAVAILABLE, "%s: %s", cli_echo(socket).text,
                                cli_clean(message.text).text);
    once__client_close(client);
    return true;
}

static int namespace_run(int argc, char **argv)
{
    struct namespace_args args = {0};
    int status = read_args(argc, argv, &args), err;
    struct once__setting dir = {"dir", args.dir, "--dir"};
    struct once__config_error error = {{0}};
    struct once__config *config = NULL;

    if (status != CLI_OK)
        return status;
    err = once__config_read(&(struct once__config_sources){.file = args.config,
                                                           .environment = environ,
                                                           .flags = &dir,
                                                           .flag_count = args.dir ? 1 : 0},
                            &config, &error);
    if (err != ONCE_OK)
        return cli_error(&cli_namespace, err == ONCE_ERR_MEMORY ? CLI_INTERNAL : CLI_CONFIG, "%s",
                         cli_clean(error.text).text);
    if (!config->socket || !show_server(&args, config->socket, &status))
        status = show_config(&args, config);
    once__config_unref(config);
    return status;
}

const struct cli_command cli_namespace = {
    .name = "namespace",
    .summary = "what holds in each namespace: retention, lease, doubts",
    .help = namespace_help,
    .run = namespace_run,
    .options = namespace_options,
    .option_count = sizeof(namespace_options) / sizeof(namespace_options[0]),
};
