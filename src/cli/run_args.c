/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of `once run`.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/echo.h"
#include "cli/options.h"
#include "cli/run.h"

enum option {
    OPTION_NAMESPACE,
    OPTION_DIR,
    OPTION_SERVER,
    OPTION_WAIT,
    OPTION_TTL,
    OPTION_LEASE,
    OPTION_ON_DOUBT,
    OPTION_SUCCESS,
    OPTION_DOUBT,
    OPTION_INPUT,
    OPTION_ENV,
    OPTION_OUTPUT_MAX,
    OPTION_JSON,
    OPTION_QUIET
};

const struct cli_option run_options[RUN_OPTION_COUNT] = {
    {"--namespace", "NS", OPTION_NAMESPACE},
    {"-n", "NS", OPTION_NAMESPACE},
    {"--dir", "DIR", OPTION_DIR},
    {"--server", "ADDR", OPTION_SERVER},
    {"--wait", "TIME", OPTION_WAIT},
    {"--ttl", "TIME", OPTION_TTL},
    {"--lease", "TIME", OPTION_LEASE},
    {"--on-doubt", "reject|retry", OPTION_ON_DOUBT},
    {"--success", "LIST", OPTION_SUCCESS},
    {"--doubt", "LIST", OPTION_DOUBT},
    {"--input", "FILE", OPTION_INPUT},
    {"--env", "NAME", OPTION_ENV},
    {"--output-max", "BYTES", OPTION_OUTPUT_MAX},
    {"--json", NULL, OPTION_JSON},
    {"--quiet", NULL, OPTION_QUIET},
};

void run_args_release(struct run_args *args)
{
    free(args->inputs);
    free(args->variables);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* "0", "0,2", "0,10-19": exit statuses. */
static bool read_statuses(const char *text, bool statuses[RUN_STATUSES])
{
    char part[16], *dash;
    uint64_t first, last;

    memset(statuses, 0, RUN_STATUSES * sizeof(statuses[0]));
    for (;;) {
        size_t size = strcspn(text, ",");

        if (size == 0 || size >= sizeof(part))
            return false;
        memcpy(part, text, size);
        part[size] = '\0';
        dash = strchr(part, '-');
        if (dash)
            *dash = '\0';
        if (!cli_number(part, 0, RUN_STATUSES - 1, &first) ||
            !cli_number(dash ? dash + 1 : part, first, RUN_STATUSES - 1, &last))
            return false;
        for (uint64_t status = first; status <= last; status++)
            statuses[status] = true;
        if (text[size] == '\0')
            return true;
        text += size + 1;
    }
}

static int read_time(const char *name, const char *value, once_ms min_ms, once_ms max_ms,
                     once_ms *ret_ms)
{
    once_ms ms;

    if (!cli_duration(value, max_ms, &ms) || ms < min_ms)
        return cli_usage(&cli_run,
                         "%s takes a number and a unit, such as 500ms, 30s, 5m or 24h, from %lldms "
                         "to %lldd, not '%s'",
                         name, (long long)min_ms, (long long)(max_ms / 86400000),
                         cli_echo(value).text);
    *ret_ms = ms;
    return CLI_OK;
}

static int read_list(const char *name, const char *value, bool statuses[RUN_STATUSES])
{
    if (read_statuses(value, statuses))
        return CLI_OK;
    return cli_usage(&cli_run,
                     "%s takes exit statuses from 0 to 255, such as 0,2 or 10-19, not '%s'", name,
                     cli_echo(value).text);
}

static int read_bytes(const char *value, size_t *ret_size)
{
    uint64_t size;

    if (!cli_number(value, 0, ONCE_RUN_OUTPUT_SIZE_MAX, &size))
        return cli_usage(&cli_run, "--output-max takes bytes, from 0 to %d, not '%s'",
                         (int)ONCE_RUN_OUTPUT_SIZE_MAX, cli_echo(value).text);
    *ret_size = (size_t)size;
    return CLI_OK;
}

static int read_on_doubt(const char *value, struct run_args *args)
{
    if (strcmp(value, "reject") != 0 && strcmp(value, "retry") != 0)
        return cli_usage(&cli_run, "--on-doubt takes reject or retry, not '%s'",
                         cli_echo(value).text);
    args->retry_doubt = strcmp(value, "retry") == 0;
    args->reject_doubt = !args->retry_doubt;
    return CLI_OK;
}

static int read_variable(const char *value, struct run_args *args)
{
    if (!value[0] || strchr(value, '='))
        return cli_usage(&cli_run, "--env takes the name of a variable, not '%s'",
                         cli_echo(value).text);
    args->variables[args->variable_count++] = value;
    return CLI_OK;
}

static int read_option(int option, const char *value, struct run_args *args)
{
    switch ((enum option)option) {
    case OPTION_NAMESPACE:
        args->ns = value;
        return CLI_OK;
    case OPTION_DIR:
        args->where.dir = value;
        return CLI_OK;
    case OPTION_SERVER:
        args->where.server = value;
        return CLI_OK;
    case OPTION_WAIT:
        return read_time("--wait", value, 1, ONCE_LEASE_MS_MAX, &args->wait_ms);
    case OPTION_TTL:
        return read_time("--ttl", value, 1, ONCE_RETENTION_MS_MAX, &args->ttl_ms);
    case OPTION_LEASE:
        return read_time("--lease", value, ONCE_RUN_LEASE_MS_MIN, ONCE_LEASE_MS_MAX,
                         &args->lease_ms);
    case OPTION_ON_DOUBT:
        return read_on_doubt(value, args);
    case OPTION_SUCCESS:
        return read_list("--success", value, args->success);
    case OPTION_DOUBT:
        return read_list("--doubt", value, args->doubt);
    case OPTION_INPUT:
        args->inputs[args->input_count++] = value;
        return CLI_OK;
    case OPTION_ENV:
        return read_variable(value, args);
    case OPTION_OUTPUT_MAX:
        return read_bytes(value, &args->output_max);
    case OPTION_JSON:
        args->json = true;
        return CLI_OK;
    case OPTION_QUIET:
        args->quiet = true;
        return CLI_OK;
    }
    return CLI_USAGE;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int check(const struct run_args *args)
{
    struct once_defect defect;

    if (!args->key)
        return cli_usage(&cli_run, "which key? once run KEY -- COMMAND (the key names what must "
                                   "happen once, such as backup-2026-07-31)");
    if (!args->command)
        return cli_usage(&cli_run, "which command? once run %s -- COMMAND",
                         cli_echo(args->key).text);
    if (once_namespace_check(once_bytes_of(args->ns), &defect) != ONCE_OK)
        return cli_usage(&cli_run, "the namespace '%s', character %zu: %s", cli_echo(args->ns).text,
                         defect.offset + 1, defect.what);
    if (once_key_check(once_bytes_of(args->key), &defect) != ONCE_OK)
        return cli_usage(&cli_run, "the key '%s', character %zu: %s", cli_echo(args->key).text,
                         defect.offset + 1, defect.what);
    for (int status = 0; status < RUN_STATUSES; status++) {
        if (args->success[status] && args->doubt[status])
            return cli_usage(&cli_run, "exit status %d stands in --success and in --doubt", status);
    }
    return CLI_OK;
}

static int read_value(const struct cli_args *reader, const char *value, struct run_args *args)
{
    if (reader->options_end) {
        if (!args->key)
            return cli_usage(&cli_run, "the key comes before --: once run KEY -- COMMAND");
        args->command = &reader->argv[reader->next - 1];
        return CLI_OK;
    }
    if (args->key)
        return cli_usage(&cli_run,
                         "'%s' stands behind the key '%s'; the command comes behind --: once run "
                         "KEY -- COMMAND",
                         cli_echo(value).text, cli_echo(args->key).text);
    args->key = value;
    return CLI_OK;
}

int run_args_read(int argc, char **argv, struct run_args *ret_args)
{
    struct cli_args reader = CLI_ARGS(&cli_run, run_options, argc, argv);
    struct run_args *args = ret_args;
    const char *value;
    int got, status = CLI_OK;

    *args = (struct run_args){.ns = "run",
                              .where = {.patience_ms = ONCE_RUN_STORE_MS},
                              .lease_ms = ONCE_LEASE_MS_DEFAULT,
                              .output_max = ONCE_RUN_OUTPUT_SIZE_DEFAULT,
                              .inputs = calloc((size_t)argc, sizeof(args->inputs[0])),
                              .variables = calloc((size_t)argc, sizeof(args->variables[0]))};
    args->success[0] = true;
    if (!args->inputs || !args->variables)
        return cli_error(&cli_run, CLI_INTERNAL, "%s", once_err_text(ONCE_ERR_MEMORY));
    while (status == CLI_OK && !args->command &&
           (got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        status = got == CLI_ARG_VALUE ? read_value(&reader, value, args)
                                      : read_option(got, value, args);
    }
    return status == CLI_OK ? check(args) : status;
}
