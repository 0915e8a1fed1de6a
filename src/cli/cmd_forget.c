/* SPDX-License-Identifier: Apache-2.0
 *
 * `once forget`: deletes an operation. One that someone is at is deleted only by its fence, or
 * after a person at the terminal has said so: forgetting it says that it did not happen. A doubt is
 * never deleted: it is resolved first.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/op_look.h"
#include "cli/options.h"

static const char forget_help[] =
    "usage: once forget [--fence FENCE] [--json] [--dir DIR | --server ADDR] [NS] KEY\n"
    "\n"
    "Deletes an operation: the next begin of this key is the first one again. One that has ended "
    "is\n"
    "deleted without asking. One that someone is at is only deleted with the fence that `once "
    "get`\n"
    "shows, or after asking at a terminal: forgetting it says that it did not happen, and whoever\n"
    "still holds it is told STALE. One that is in doubt has to be resolved first, with `once\n"
    "resolve`.\n"
    "\n"
    "  once forget order-7\n"
    "  once forget pay order-7 --fence 17\n"
    "\n"
    "  --fence FENCE  this attempt and no other one\n" CLI_HELP_NAME CLI_HELP_DIR CLI_HELP_SERVER
    "  --json     one JSON object for machines, errors too\n"
    "  --         what follows is no option, even if it begins with a dash\n"
    "\n"
    "exit status: 0 forgotten; 64 usage; 66 there is no such operation, or no store; 69 the store "
    "is\n"
    "in use, or its disk failed; 70 the store is damaged; 71 out of memory, or an output that "
    "cannot\n"
    "be written; 75 someone is at it; 76 it is in doubt; 77 not allowed, or the fence is not the\n"
    "current one.\n";

enum option { OPTION_JSON, OPTION_DIR, OPTION_SERVER, OPTION_NAMESPACE, OPTION_FENCE };

static const struct cli_option forget_options[] = {
    {"--json", NULL, OPTION_JSON},       {"--dir", "DIR", OPTION_DIR},
    {"--server", "ADDR", OPTION_SERVER}, {"--namespace", "NS", OPTION_NAMESPACE},
    {"-n", "NS", OPTION_NAMESPACE},      {"--fence", "FENCE", OPTION_FENCE},
};

struct forget_args {
    bool json;
    struct cli_where where;
    uint64_t fence; /* 0: not given */
    struct once_name name;
};

static int read_args(int argc, char **argv, struct forget_args *args)
{
    struct cli_args reader = CLI_ARGS(&cli_forget, forget_options, argc, argv);
    const char *value, *ns = NULL, *values[3];
    size_t count = 0;
    int got;

    while ((got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        args->json = args->json || got == OPTION_JSON;
        if (got == OPTION_DIR)
            args->where.dir = value;
        else if (got == OPTION_SERVER)
            args->where.server = value;
        else if (got == OPTION_NAMESPACE)
            ns = value;
        else if (got == CLI_ARG_VALUE && count < 3)
            values[count++] = value;
        if (got == OPTION_FENCE && !cli_number(value, 1, ONCE_FENCE_MAX, &args->fence))
            return cli_usage(&cli_forget, "--fence takes the number that once get shows, not '%s'",
                             cli_echo(value).text);
    }
    return cli_op_name(&cli_forget, ns, values, count, &args->name);
}

static int tell_doubt(const struct forget_args *args, const struct once_reply *reply)
{
    return cli_op_refused(&cli_forget, args->json,
                          &(struct once_reply){.word = ONCE_DOUBT, .fence = reply->fence},
                          CLI_DOUBT,
                          "it is in doubt, and has to be resolved first: look, and then once "
                          "resolve. Nothing was forgotten");
}

/* Someone is at it, and no fence was given. The folder is nobody's while a person thinks. */
static int confirm(const struct forget_args *args, struct cli_reach *reach,
                   const struct once_reply *reply)
{
    struct cli_view view = {.out = stderr, .style = cli_style_of(stderr), .now_ms = reply->now_ms};
    once_ms left_ms = reply->lease_end_ms - reply->now_ms;
    struct once_reply busy = {.word = ONCE_BUSY, .retry_ms = left_ms > 0 ? left_ms : 0};
    char text[256], answer[16];

    cli_reach_rest(reach);
    if (!cli_can_ask() || args->json) {
        snprintf(text, sizeof(text),
                 "someone is at it; nothing was forgotten. To say that it did not happen, and "
                 "never will: --fence %" PRIu64,
                 reply->fence);
        return cli_op_refused(&cli_forget, args->json, &busy, CLI_BUSY, text);
    }
    cli_op_show(&view, args->name, reply);
    if (cli_ask("\nForgetting it says that it did not happen. Forget it? [y/N] ", answer,
                sizeof(answer)) &&
        (answer[0] == 'y' || answer[0] == 'Y'))
        return CLI_OK;
    return cli_message(&cli_forget, CLI_BUSY, "nothing was forgotten");
}

/* seen: it was there a moment ago, so who finds it gone may have done that, in a call whose answer
 * was lost. */
static int tell(const struct forget_args *args, const struct once_reply *reply, bool seen)
{
    if (reply->err != ONCE_OK)
        return cli_op_error(&cli_forget, reply);
    if (reply->word == ONCE_DONE || (reply->word == ONCE_NOTFOUND && seen)) {
        puts(args->json ? "{\"verdict\":\"OK\"}" : "FORGOTTEN");
        return CLI_OK;
    }
    switch ((int)reply->word) {
    case ONCE_NOTFOUND:
        return cli_op_refused(&cli_forget, args->json, reply, CLI_NOT_FOUND,
                              "there is no such operation");
    case ONCE_BUSY:
        return cli_op_refused(&cli_forget, args->json, reply, CLI_BUSY,
                              "someone is at it; nothing was forgotten");
    case ONCE_DOUBT:
        return tell_doubt(args, reply);
    default:
        return cli_op_refused(&cli_forget, args->json, reply, CLI_REFUSED,
                              "the fence is not the current one: someone has begun it again; look "
                              "again. Nothing was forgotten");
    }
}

static int forget(const struct forget_args *args, struct cli_reach *reach)
{
    struct once_op op;
    uint64_t fence = args->fence;
    int status = CLI_OK;

    if (fence == 0) {
        status = cli_op_get(&cli_forget, reach, args->name, &op);
        if (status == CLI_OK && op.reply.state == ONCE_STATE_DOUBT)
            status = tell_doubt(args, &op.reply);
        else if (status == CLI_OK && op.reply.state == ONCE_STATE_STARTED)
            status = confirm(args, reach, &op.reply);
        fence = op.reply.fence;
        once_reply_release(&op.reply);
    }
    if (status != CLI_OK)
        return status;
    op = (struct once_op){
        .call = ONCE_CALL_FORGET, .ns = args->name.ns, .key = args->name.key, .fence = fence};
    (void)cli_reach_op(reach, &op, 0);
    status = tell(args, &op.reply, args->fence == 0);
    once_reply_release(&op.reply);
    return status;
}

static int forget_run(int argc, char **argv)
{
    struct forget_args args = {0};
    struct cli_reach reach = {0};
    int status = read_args(argc, argv, &args);

    if (status == CLI_OK)
        status = cli_reach_open(&cli_forget, &args.where, false, &reach);
    if (status == CLI_OK)
        status = forget(&args, &reach);
    return cli_reach_close(&cli_forget, &reach, status);
}

const struct cli_command cli_forget = {
    .name = "forget",
    .summary = "delete an operation: its key is new again",
    .help = forget_help,
    .run = forget_run,
    .options = forget_options,
    .option_count = sizeof(forget_options) / sizeof(forget_options[0]),
};
