/* SPDX-License-Identifier: Apache-2.0
 *
 * `once get`: one operation, with everything that is needed to decide a doubt.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/folder.h"
#include "cli/op_look.h"
#include "cli/options.h"

static const char get_help[] =
    "usage: once get [--history] [--json] [--dir DIR | --server ADDR] [NS] KEY\n"
    "       once get --raw [--dir DIR | --server ADDR] [NS] KEY\n"
    "\n"
    "Shows one operation: its state and since when, who has it and whether that process is still\n"
    "there, its last recovery point and what was kept with it, its result. Changes nothing. Text "
    "of\n"
    "others is escaped, and shown from its beginning.\n"
    "\n"
    "  once get order-7\n"
    "  once get pay order-7 --history\n"
    "  once get pay order-7 --raw > answer\n"
    "\n"
    "  --history  also what happened to it, the newest first, as far as the log still has it\n"
    "  --raw      nothing but the bytes of the result, as they are kept\n" CLI_HELP_NAME
        CLI_HELP_DIR CLI_HELP_SERVER "  --json     one JSON object for machines, errors too\n"
    "  --         what follows is no option, even if it begins with a dash\n"
    "\n"
    "exit status: 0 shown, in whatever state; 1 with --raw: it failed; 64 usage; 66 there is no "
    "such\n"
    "operation, or no store; 69 the store is in use, or its disk failed; 70 the store is damaged; "
    "71\n"
    "out of memory, or an output that cannot be written; 75 with --raw: someone is at it; 76 with\n"
    "--raw: it is in doubt; 77 not allowed.\n";

enum option {
    OPTION_JSON,
    OPTION_DIR,
    OPTION_SERVER,
    OPTION_NAMESPACE,
    OPTION_HISTORY,
    OPTION_RAW
};

static const struct cli_option get_options[] = {
    {"--json", NULL, OPTION_JSON},       {"--dir", "DIR", OPTION_DIR},
    {"--server", "ADDR", OPTION_SERVER}, {"--namespace", "NS", OPTION_NAMESPACE},
    {"-n", "NS", OPTION_NAMESPACE},      {"--history", NULL, OPTION_HISTORY},
    {"--raw", NULL, OPTION_RAW},
};

struct get_args {
    bool json, history, raw;
    struct cli_where where;
    struct once_name name;
};

static int read_args(int argc, char **argv, struct get_args *args)
{
    struct cli_args reader = CLI_ARGS(&cli_get, get_options, argc, argv);
    const char *value, *ns = NULL, *values[3];
    size_t count = 0;
    int got;

    while ((got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        args->json = args->json || got == OPTION_JSON;
        args->history = args->history || got == OPTION_HISTORY;
        args->raw = args->raw || got == OPTION_RAW;
        if (got == OPTION_DIR)
            args->where.dir = value;
        else if (got == OPTION_SERVER)
            args->where.server = value;
        else if (got == OPTION_NAMESPACE)
            ns = value;
        else if (got == CLI_ARG_VALUE && count < 3)
            values[count++] = value;
    }
    if (args->raw && (args->json || args->history))
        return cli_usage(&cli_get, "--raw is the result and nothing else; leave %s out",
                         args->json ? "--json" : "--history");
    return cli_op_name(&cli_get, ns, values, count, &args->name);
}

/* ---- Raw ------------------------------------------------------------------------------------- */

static int write_raw(const struct once_reply *reply)
{
    switch (reply->state) {
    case ONCE_STATE_STARTED:
        return cli_error(&cli_get, CLI_BUSY, "there is no result yet: someone is at it");
    case ONCE_STATE_DOUBT:
        return cli_error(&cli_get, CLI_DOUBT, "there is no result: it is in doubt");
    case ONCE_STATE_FAILED:
        return cli_error(&cli_get, CLI_FAILED, "there is no result: it failed");
    case ONCE_STATE_COMPLETED:
    case ONCE_STATE_ABSENT:
        break;
    }
    if (reply->result.size > 0)
        fwrite(reply->result.data, 1, reply->result.size, stdout);
    return CLI_OK;
}

/* ---- Shown ----------------------------------------------------------------------------------- */

struct showing {
    struct cli_view view;
    bool json;
    size_t count; /* of steps */
};

static void add_past(void *user, const struct once_past *past)
{
    struct showing *showing = user;
    FILE *out = showing->view.out;

    if (showing->json) {
        fputs(showing->count > 0 ? "," : "", out);
        cli_op_json_past(out, past);
    } else {
        cli_op_show_past(&showing->view, past);
    }
    showing->count++;
}

static int show_history(const struct get_args *args, struct cli_reach *reach,
                        struct showing *showing)
{
    FILE *out = showing->view.out;
    bool found = false, more = false;
    int err;

    fputs(args->json ? ",\"history\":[" : "\nhistory, the newest first\n", out);
    err = cli_reach_history(reach, args->name, ONCE_LIST_COUNT_MAX, add_past, showing, &found,
                            &more);
    if (err != ONCE_OK)
        return cli_op_error(&cli_get,
                            &(struct once_reply){.err = err, .what = cli_reach_text(reach, err)});
    if (args->json)
        fprintf(out, "],\"history_more\":%s", more ? "true" : "false");
    else if (more)
        fputs("  ... and older ones\n", out);
    return CLI_OK;
}

/* Into memory: the folder is let go before anything is written to who may be slow to read it. */
static int render(const struct get_args *args, struct cli_reach *reach,
                  const struct once_reply *reply, FILE *out)
{
    struct showing showing = {
        .view = {.out = out, .style = cli_style_of(stdout), .now_ms = reply->now_ms},
        .json = args->json};
    char *options = cli_op_options(&args->where);
    int status = options ? CLI_OK
                         : cli_error(&cli_get, CLI_INTERNAL, "%s", once_err_text(ONCE_ERR_MEMORY));

    if (status == CLI_OK && args->json) {
        fputc('{', out);
        cli_op_json(out, args->name, reply);
    } else if (status == CLI_OK) {
        showing.view.doubt_ms = cli_op_doubt_ms(reach, args->name, reply);
        cli_op_show(&showing.view, args->name, reply);
    }
    if (status == CLI_OK && args->history)
        status = show_history(args, reach, &showing);
    if (status == CLI_OK && args->json)
        fputs("}\n", out);
    else if (status == CLI_OK)
        cli_op_advise(&showing.view, args->name, reply, options);
    free(options);
    return status;
}

static int show(const struct get_args *args, struct cli_reach *reach,
                const struct once_reply *reply)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int status = CLI_INTERNAL;

    if (out)
        status = render(args, reach, reply, out);
    if (!out || fclose(out) != 0)
        status = cli_error(&cli_get, CLI_INTERNAL, "%s", once_err_text(ONCE_ERR_MEMORY));
    cli_reach_rest(reach);
    if (status == CLI_OK)
        fwrite(text, 1, size, stdout);
    free(text);
    return status;
}

static int get_run(int argc, char **argv)
{
    struct get_args args = {0};
    struct cli_reach reach = {0};
    struct once_op op = {.call = ONCE_CALL_GET};
    int status = read_args(argc, argv, &args);

    if (status == CLI_OK)
        status = cli_reach_open(&cli_get, &args.where, false, &reach);
    if (status == CLI_OK)
        status = cli_op_get(&cli_get, &reach, args.name, &op);
    if (status == CLI_OK && args.raw) {
        cli_reach_rest(&reach);
        status = write_raw(&op.reply);
    } else if (status == CLI_OK) {
        status = show(&args, &reach, &op.reply);
    }
    once_reply_release(&op.reply);
    return cli_reach_close(&cli_get, &reach, status);
}

const struct cli_command cli_get = {
    .name = "get",
    .summary = "one operation: its state, owner, recovery point, result and past",
    .help = get_help,
    .run = get_run,
    .options = get_options,
    .option_count = sizeof(get_options) / sizeof(get_options[0]),
};
