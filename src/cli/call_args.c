/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of `once call`.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/call.h"
#include "cli/echo.h"

enum option {
    OPTION_KEY,
    OPTION_NAMESPACE,
    OPTION_HEADER,
    OPTION_SECRET_HEADER,
    OPTION_DATA,
    OPTION_KEY_HEADER,
    OPTION_BARE_KEY,
    OPTION_RETRIES,
    OPTION_DEADLINE,
    OPTION_TIMEOUT,
    OPTION_CONNECT_TIMEOUT,
    OPTION_FINAL,
    OPTION_CACERT,
    OPTION_WAIT,
    OPTION_TTL,
    OPTION_LEASE,
    OPTION_ON_DOUBT,
    OPTION_RESUME,
    OPTION_ALL,
    OPTION_INCLUDE,
    OPTION_OUTPUT,
    OPTION_OUTPUT_MAX,
    OPTION_DIR,
    OPTION_SERVER,
    OPTION_QUIET,
    OPTION_JSON
};

const struct cli_option call_options[CALL_OPTION_COUNT] = {
    {"--key", "KEY", OPTION_KEY},
    {"--namespace", "NS", OPTION_NAMESPACE},
    {"-n", "NS", OPTION_NAMESPACE},
    {"--header", "HEADER", OPTION_HEADER},
    {"-H", "HEADER", OPTION_HEADER},
    {"--secret-header", "HEADER", OPTION_SECRET_HEADER},
    {"--data", "TEXT", OPTION_DATA},
    {"-d", "TEXT", OPTION_DATA},
    {"--key-header", "NAME", OPTION_KEY_HEADER},
    {"--bare-key", NULL, OPTION_BARE_KEY},
    {"--retries", "N", OPTION_RETRIES},
    {"--deadline", "TIME", OPTION_DEADLINE},
    {"--timeout", "TIME", OPTION_TIMEOUT},
    {"--connect-timeout", "TIME", OPTION_CONNECT_TIMEOUT},
    {"--final", "STATUS", OPTION_FINAL},
    {"--cacert", "FILE", OPTION_CACERT},
    {"--wait", "TIME", OPTION_WAIT},
    {"--ttl", "TIME", OPTION_TTL},
    {"--lease", "TIME", OPTION_LEASE},
    {"--on-doubt", "reject|retry", OPTION_ON_DOUBT},
    {"--resume", NULL, OPTION_RESUME},
    {"--all", NULL, OPTION_ALL},
    {"--include", NULL, OPTION_INCLUDE},
    {"-i", NULL, OPTION_INCLUDE},
    {"--output", "FILE", OPTION_OUTPUT},
    {"-o", "FILE", OPTION_OUTPUT},
    {"--output-max", "BYTES", OPTION_OUTPUT_MAX},
    {"--dir", "DIR", OPTION_DIR},
    {"--server", "ADDR", OPTION_SERVER},
    {"--quiet", NULL, OPTION_QUIET},
    {"--json", NULL, OPTION_JSON},
};

void call_args_release(struct call_args *args)
{
    free(args->headers);
    free(args->secret_headers);
    once_buf_release(&args->input);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static int read_time(const char *name, const char *value, once_ms min_ms, once_ms max_ms,
                     once_ms *ret_ms)
{
    once_ms ms;

    if (!cli_duration(value, max_ms, &ms) || ms < min_ms)
        return cli_usage(&cli_call,
                         "%s takes a number and a unit, such as 500ms, 30s, 5m or 24h, from %lldms "
                         "to %lldd, not '%s'",
                         name, (long long)min_ms, (long long)(max_ms / 86400000),
                         cli_echo(value).text);
    *ret_ms = ms;
    return CLI_OK;
}

static int read_key(const char *value, struct once_key *ret_key)
{
    struct once_defect defect;

    if (once_key_business(once_bytes_of(value), ret_key, &defect) == ONCE_OK)
        return CLI_OK;
    return cli_usage(&cli_call, "the key '%s', character %zu: %s", cli_echo(value).text,
                     defect.offset + 1, defect.what);
}

static int read_namespace(const char *value, const char **ret_ns)
{
    struct once_defect defect;

    if (once_namespace_check(once_bytes_of(value), &defect) != ONCE_OK)
        return cli_usage(&cli_call, "the namespace '%s', character %zu: %s", cli_echo(value).text,
                         defect.offset + 1, defect.what);
    *ret_ns = value;
    return CLI_OK;
}

/* All of the standard input, up to what the store keeps. */
static int read_input(struct once_buf *input)
{
    char piece[1 << 14];
    size_t got;

    once_buf_init(input, ONCE_SEND_BODY_KEPT_MAX);
    while ((got = fread(piece, 1, sizeof(piece), stdin)) > 0) {
        int err = once_buf_append(input, piece, got);

        if (err == ONCE_ERR_FULL)
            return cli_usage(&cli_call,
                             "the standard input has more than %d bytes; put it into a file, "
                             "--data @FILE",
                             ONCE_SEND_BODY_KEPT_MAX);
        if (err != ONCE_OK)
            return cli_error(&cli_call, CLI_INTERNAL, "%s", once_err_text(err));
    }
    if (ferror(stdin))
        return cli_error(&cli_call, CLI_INTERNAL, "the standard input cannot be read: %s",
                         strerror(errno));
    return CLI_OK;
}

static int read_data(const char *value, struct call_args *args)
{
    static const uint8_t nothing[1];
    int status;

    if (args->request.body.data || args->request.body_file)
        return cli_usage(&cli_call, "--data stands twice; a request has one body");
    if (value[0] != '@') {
        args->request.body = once_bytes_of(value);
        return CLI_OK;
    }
    if (strcmp(value, "@-") != 0) {
        args->request.body_file = value + 1;
        return value[1] ? CLI_OK : cli_usage(&cli_call, "--data @ names no file");
    }
    status = read_input(&args->input);
    args->request.body = once_buf_bytes(&args->input);
    if (!args->request.body.data)
        args->request.body = (struct once_bytes){nothing, 0};
    return status;
}

static int read_finals(const char *value, struct call_args *args)
{
    size_t count = 0;
    const char *at = value;

    do {
        char *end;
        long status = strtol(at, &end, 10);

        if (at[0] < '0' || at[0] > '9' || end - at != 3 || status < 400 || status > 599 ||
            (*end != ',' && *end != '\0') || count == ONCE_SEND_FINAL_MAX)
            return cli_usage(&cli_call,
                             "--final takes up to %d statuses from 400 to 599, such as 409,501, "
                             "not '%s'",
                             ONCE_SEND_FINAL_MAX, cli_echo(value).text);
        args->finals[count++] = (int)status;
        at = *end == ',' ? end + 1 : NULL;
    } while (at);
    args->options.final_statuses = args->finals;
    args->options.final_count = count;
    return CLI_OK;
}

static int read_retries(const char *value, struct call_args *args)
{
    uint64_t retries;

    if (!cli_number(value, 0, ONCE_SEND_ATTEMPTS_MAX - 1, &retries))
        return cli_usage(&cli_call, "--retries takes a number from 0 to %d, not '%s'",
                         ONCE_SEND_ATTEMPTS_MAX - 1, cli_echo(value).text);
    args->options.attempts_max = (unsigned)retries + 1;
    return CLI_OK;
}

static int read_output_max(const char *value, struct call_args *args)
{
    uint64_t size;

    if (!cli_number(value, 1, ONCE_SEND_KEPT_SIZE_MAX, &size))
        return cli_usage(&cli_call, "--output-max takes bytes, from 1 to %d, not '%s'",
                         ONCE_SEND_KEPT_SIZE_MAX, cli_echo(value).text);
    args->options.kept_size_max = (size_t)size;
    return CLI_OK;
}

static int read_on_doubt(const char *value, struct call_args *args)
{
    if (strcmp(value, "reject") != 0 && strcmp(value, "retry") != 0)
        return cli_usage(&cli_call, "--on-doubt takes reject or retry, not '%s'",
                         cli_echo(value).text);
    args->options.on_doubt = strcmp(value, "retry") == 0 ? ONCE_ON_DOUBT_RETRY
                                                         : ONCE_ON_DOUBT_REJECT;
    return CLI_OK;
}

/* ---- Options --------------------------------------------------------------------------------- */

static int read_flag(enum option option, struct call_args *args)
{
    args->request.bare_key = args->request.bare_key || option == OPTION_BARE_KEY;
    args->resume = args->resume || option == OPTION_RESUME;
    args->all = args->all || option == OPTION_ALL;
    args->include = args->include || option == OPTION_INCLUDE;
    args->quiet = args->quiet || option == OPTION_QUIET;
    args->json = args->json || option == OPTION_JSON;
    return CLI_OK;
}

static int read_text(enum option option, const char *value, struct call_args *args)
{
    if (option == OPTION_HEADER)
        args->headers[args->request.header_count++] = value;
    else if (option == OPTION_SECRET_HEADER)
        args->secret_headers[args->request.secret_header_count++] = value;
    else if (option == OPTION_KEY_HEADER)
        args->request.key_header = value;
    else if (option == OPTION_CACERT)
        args->options.ca_file = value;
    else if (option == OPTION_OUTPUT)
        args->output = value;
    else if (option == OPTION_DIR)
        args->where.dir = value;
    else
        args->where.server = value;
    return CLI_OK;
}

static int read_option(enum option option, const char *value, struct call_args *args)
{
    const once_ms max_ms = ONCE_SEND_TIME_MS_MAX;
    struct once_http_options *options = &args->options;

    switch (option) {
    case OPTION_KEY:
        return read_key(value, &args->key);
    case OPTION_NAMESPACE:
        return read_namespace(value, &args->ns);
    case OPTION_DATA:
        return read_data(value, args);
    case OPTION_RETRIES:
        return read_retries(value, args);
    case OPTION_DEADLINE:
        return read_time("--deadline", value, 1, max_ms, &options->deadline_ms);
    case OPTION_TIMEOUT:
        return read_time("--timeout", value, 1, max_ms, &options->timeout_ms);
    case OPTION_CONNECT_TIMEOUT:
        return read_time("--connect-timeout", value, 1, max_ms, &options->connect_ms);
    case OPTION_FINAL:
        return read_finals(value, args);
    case OPTION_WAIT:
        return read_time("--wait", value, 1, max_ms, &options->wait_ms);
    case OPTION_TTL:
        return read_time("--ttl", value, 1, ONCE_RETENTION_MS_MAX, &options->ttl_ms);
    case OPTION_LEASE:
        return read_time("--lease", value, CALL_LEASE_MS_MIN, ONCE_LEASE_MS_MAX,
                         &options->lease_ms);
    case OPTION_ON_DOUBT:
        return read_on_doubt(value, args);
    case OPTION_OUTPUT_MAX:
        return read_output_max(value, args);
    case OPTION_BARE_KEY:
    case OPTION_RESUME:
    case OPTION_ALL:
    case OPTION_INCLUDE:
    case OPTION_QUIET:
    case OPTION_JSON:
        return read_flag(option, args);
    case OPTION_HEADER:
    case OPTION_SECRET_HEADER:
    case OPTION_KEY_HEADER:
    case OPTION_CACERT:
    case OPTION_OUTPUT:
    case OPTION_DIR:
    case OPTION_SERVER:
        return read_text(option, value, args);
    }
    return CLI_USAGE;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* A resume sends what was kept: it takes nothing of a request. */
static int check_resume(struct call_args *args, const char *const *values, size_t count)
{
    const struct once_http_request *request = &args->request;

    if (request->header_count > 0 || request->secret_header_count > 0 || request->body.data ||
        request->body_file || request->key_header || request->bare_key)
        return cli_usage(&cli_call, "--resume sends the request that was kept; headers, data and "
                                    "the form of the key are in it");
    if (args->all && (count > 0 || args->key.size > 0))
        return cli_usage(&cli_call, "--resume --all takes no key: it resumes every call");
    if (args->all && (args->output || args->include))
        return cli_usage(&cli_call, "--resume --all prints no bodies: give a key to %s",
                         args->output ? "--output" : "--include");
    if (args->all)
        return CLI_OK;
    if (count + (args->key.size > 0 ? 1 : 0) != 1)
        return cli_usage(&cli_call, "which call? once call --resume KEY, or --resume --all");
    return count == 1 ? read_key(values[0], &args->key) : CLI_OK;
}

static int check(struct call_args *args, const char *const *values, size_t count)
{
    int err;

    if (args->ns)
        args->options.ns = once_bytes_of(args->ns);
    if (args->json && args->include)
        return cli_usage(&cli_call, "--json has the headers in it; --include has nothing to add");
    if (args->resume)
        return check_resume(args, values, count);
    if (args->all)
        return cli_usage(&cli_call, "--all goes with --resume");
    if (count != 2)
        return cli_usage(&cli_call, "%s: once call METHOD URL, such as POST https://host/charges",
                         count < 2 ? "which method and URL?" : "too many arguments");
    args->request.method = values[0];
    args->request.url = values[1];
    if (args->key.size > 0)
        return CLI_OK;
    err = once_key_uuid7(&args->key);
    if (err != ONCE_OK)
        return cli_error(&cli_call, CLI_INTERNAL, "%s", once_err_text(err));
    args->key_made = true;
    return CLI_OK;
}

int call_args_read(int argc, char **argv, struct call_args *ret_args)
{
    struct call_args *args = ret_args;
    struct cli_args reader = {.command = &cli_call,
                              .options = call_options,
                              .option_count = CALL_OPTION_COUNT,
                              .argc = argc,
                              .argv = argv,
                              .next = 1};
    const char *values[3], *value;
    size_t count = 0;
    int status = CLI_OK, got;

    *args = (struct call_args){.where = {.patience_ms = CALL_PATIENCE_MS},
                               .headers = calloc((size_t)argc, sizeof(args->headers[0])),
                               .secret_headers = calloc((size_t)argc, sizeof(args->headers[0]))};
    if (!args->headers || !args->secret_headers)
        return cli_error(&cli_call, CLI_INTERNAL, "%s", once_err_text(ONCE_ERR_MEMORY));
    while (status == CLI_OK && (got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        if (got != CLI_ARG_VALUE)
            status = read_option((enum option)got, value, args);
        else if (count < sizeof(values) / sizeof(values[0]))
            values[count++] = value;
    }
    args->request.headers = args->headers;
    args->request.secret_headers = args->secret_headers;
    return status == CLI_OK ? check(args, values, count) : status;
}
