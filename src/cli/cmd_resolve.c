/* SPDX-License-Identifier: Apache-2.0
 *
 * `once resolve`: a person, or a script that knows, says how a doubt ended.
 *
 * It is always said about the very attempt that was looked at: the fence goes with it, so that a
 * finding about an old attempt cannot end a newer one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/op_look.h"
#include "cli/options.h"
#include "cli/owner.h"

static const char resolve_help[] =
    "usage: once resolve [NS] KEY --done [--code N] [--result TEXT | --result-file FILE]\n"
    "       once resolve [NS] KEY --not-done\n"
    "       once resolve NS KEY DONE CODE RESULT | NS KEY NOTDONE\n"
    "\n"
    "Ends a doubt: someone began this operation and vanished, you looked where its effect would "
    "be,\n"
    "and say what you found. Without an outcome it shows the operation and asks, at a terminal.\n"
    "The finding is about the attempt that was looked at; if someone has begun it again since, "
    "nothing\n"
    "is changed.\n"
    "\n"
    "  once ls --state doubt\n"
    "  once resolve order-7\n"
    "  once resolve pay order-7 --fence 17 --done --code 200 --result '{\"charge\":\"ch_1\"}'\n"
    "\n"
    "  --done     it happened: from now on every repeat gets this answer\n"
    "  --not-done\n"
    "             it did not happen, and never will under the attempts so far: the key is free\n"
    "  --code N   with --done: the answer's code (default: 0)\n"
    "  --result TEXT  with --done: the answer (default: none)\n"
    "  --result-file FILE\n"
    "             with --done: the answer from a file; - is the standard input\n"
    "  --fence FENCE  the attempt that you looked at, as once get shows it (default: the one\n"
    "             that is current now)\n" CLI_HELP_NAME CLI_HELP_DIR CLI_HELP_SERVER
    "  --json     one JSON object for machines, errors too\n"
    "  --         what follows is no option, even if it begins with a dash\n"
    "\n"
    "exit status: 0 resolved, now or before with the same answer; 64 usage; 65 it has ended with\n"
    "another answer; 66 there is no such operation, or no store; 69 the store is in use, or its\n"
    "disk failed; 70 the store is damaged; 71 out of memory, or an output that cannot be written;\n"
    "75 someone is at it; 76 nobody said how it ended; 77 not allowed, or the fence is not the\n"
    "current one.\n";

enum option {
    OPTION_JSON,
    OPTION_DIR,
    OPTION_SERVER,
    OPTION_NAMESPACE,
    OPTION_FENCE,
    OPTION_DONE,
    OPTION_NOT_DONE,
    OPTION_CODE,
    OPTION_RESULT,
    OPTION_RESULT_FILE
};

static const struct cli_option resolve_options[] = {
    {"--json", NULL, OPTION_JSON},
    {"--dir", "DIR", OPTION_DIR},
    {"--server", "ADDR", OPTION_SERVER},
    {"--namespace", "NS", OPTION_NAMESPACE},
    {"-n", "NS", OPTION_NAMESPACE},
    {"--fence", "FENCE", OPTION_FENCE},
    {"--done", NULL, OPTION_DONE},
    {"--not-done", NULL, OPTION_NOT_DONE},
    {"--code", "N", OPTION_CODE},
    {"--result", "TEXT", OPTION_RESULT},
    {"--result-file", "FILE", OPTION_RESULT_FILE},
};

enum { VALUES_MAX = 6 };

struct resolve_args {
    bool json, done, not_done;
    struct cli_where where;
    const char *ns, *code_text, *result_text, *result_file;
    const char *values[VALUES_MAX];
    size_t value_count;
    uint64_t fence; /* 0: not given */
    struct once_name name;
    /* The answer. */
    int32_t code;
    struct once_bytes result;
    struct once_buf file; /* behind result, if it came from there */
};

/* ---- Arguments ------------------------------------------------------------------------------- */

static int read_code(const char *text, int32_t *ret_code)
{
    bool minus = text[0] == '-';
    uint64_t number;

    if (!cli_number(text + minus, 0, (uint64_t)INT32_MAX + minus, &number))
        return cli_usage(&cli_resolve,
                         "a code is a whole number from -2147483648 to 2147483647, not '%s'",
                         cli_echo(text).text);
    *ret_code = (int32_t)(minus ? -(int64_t)number : (int64_t)number);
    return CLI_OK;
}

static int read_file(struct resolve_args *args)
{
    bool standard = strcmp(args->result_file, "-") == 0;
    FILE *in = standard ? stdin : fopen(args->result_file, "re");
    char bytes[1 << 14];
    size_t got;
    int err = ONCE_OK, status = CLI_OK;

    if (!in)
        return cli_error(&cli_resolve, CLI_USAGE, "'%s' cannot be read: %s",
                         cli_echo(args->result_file).text, strerror(errno));
    while (err == ONCE_OK && (got = fread(bytes, 1, sizeof(bytes), in)) > 0)
        err = once_buf_append(&args->file, bytes, got);
    if (err == ONCE_ERR_FULL)
        status = cli_error(&cli_resolve, CLI_USAGE, "'%s' holds more than a result may: %d bytes",
                           cli_echo(args->result_file).text, ONCE_RESULT_SIZE_MAX);
    else if (err != ONCE_OK)
        status = cli_error(&cli_resolve, CLI_INTERNAL, "%s", once_err_text(err));
    else if (ferror(in))
        status = cli_error(&cli_resolve, CLI_USAGE, "'%s' cannot be read: %s",
                           cli_echo(args->result_file).text, strerror(errno));
    if (!standard)
        (void)fclose(in);
    args->result = once_buf_bytes(&args->file);
    return status;
}

/* NS KEY DONE CODE RESULT, NS KEY NOTDONE: as the server's command has it. */
static int read_words(struct resolve_args *args)
{
    const char *const *rest = args->values + 2;
    size_t count = args->value_count;

    if (args->done || args->not_done)
        return cli_usage(&cli_resolve, "one operation at a time; '%s' is too much",
                         cli_echo(rest[0]).text);
    args->value_count = 2;
    args->not_done = strcasecmp(rest[0], "NOTDONE") == 0 && count == 3;
    args->done = strcasecmp(rest[0], "DONE") == 0 && count == 5;
    if (args->done) {
        args->code_text = rest[1];
        args->result_text = rest[2];
    }
    if (args->done || args->not_done)
        return CLI_OK;
    return cli_usage(&cli_resolve,
                     "behind NS KEY only DONE CODE RESULT or NOTDONE may stand, not '%s'%s",
                     cli_echo(rest[0]).text,
                     strcasecmp(rest[0], "DONE") == 0 ? ", which needs a code and a result" : "");
}

static int check_args(struct resolve_args *args)
{
    int status = CLI_OK;

    if (args->value_count > 2)
        status = read_words(args);
    if (status == CLI_OK)
        status = cli_op_name(&cli_resolve, args->ns, args->values, args->value_count, &args->name);
    if (status != CLI_OK)
        return status;
    if (args->done && args->not_done)
        return cli_usage(&cli_resolve, "--done and --not-done: it is one of them");
    if (!args->done && (args->code_text || args->result_text || args->result_file))
        return cli_usage(&cli_resolve, "%s belongs to --done",
                         args->code_text     ? "--code"
                         : args->result_text ? "--result"
                                             : "--result-file");
    if (args->result_text && args->result_file)
        return cli_usage(&cli_resolve, "--result and --result-file: give one");
    if (!args->done && !args->not_done && (args->json || !cli_can_ask()))
        return cli_usage(&cli_resolve,
                         "did it happen? There is no terminal to ask at: give --done with --code "
                         "and --result, or --not-done");
    if (args->code_text)
        status = read_code(args->code_text, &args->code);
    if (args->result_text)
        args->result = once_bytes_of(args->result_text);
    if (status == CLI_OK && args->result_file)
        status = read_file(args);
    return status;
}

static int read_args(int argc, char **argv, struct resolve_args *args)
{
    struct cli_args reader = CLI_ARGS(&cli_resolve, resolve_options, argc, argv);
    const char *value;
    int got;

    while ((got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        args->json = args->json || got == OPTION_JSON;
        args->done = args->done || got == OPTION_DONE;
        args->not_done = args->not_done || got == OPTION_NOT_DONE;
        if (got == OPTION_DIR)
            args->where.dir = value;
        else if (got == OPTION_SERVER)
            args->where.server = value;
        else if (got == OPTION_NAMESPACE)
            args->ns = value;
        else if (got == OPTION_CODE)
            args->code_text = value;
        else if (got == OPTION_RESULT)
            args->result_text = value;
        else if (got == OPTION_RESULT_FILE)
            args->result_file = value;
        else if (got == CLI_ARG_VALUE && args->value_count < VALUES_MAX)
            args->values[args->value_count++] = value;
        if (got == OPTION_FENCE && !cli_number(value, 1, ONCE_FENCE_MAX, &args->fence))
            return cli_usage(&cli_resolve, "--fence takes the number that once get shows, not '%s'",
                             cli_echo(value).text);
    }
    return check_args(args);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

/* The outcome from a person at the terminal. answer outlives the call. */
static int ask(struct resolve_args *args, const struct once_reply *reply, once_ms doubt_ms,
               char *answer, size_t answer_size)
{
    struct cli_view view = {.out = stderr,
                            .style = cli_style_of(stderr),
                            .now_ms = reply->now_ms,
                            .doubt_ms = doubt_ms};

    cli_op_show(&view, args->name, reply);
    if (!cli_ask("\nDid it happen? d = done, n = not done, anything else: leave it in doubt: ",
                 answer, answer_size))
        answer[0] = '\0';
    args->done = strcasecmp(answer, "d") == 0 || strcasecmp(answer, "done") == 0;
    args->not_done = strcasecmp(answer, "n") == 0 || strcasecmp(answer, "not done") == 0;
    if (args->not_done)
        return CLI_OK;
    if (!args->done)
        return cli_message(&cli_resolve, CLI_DOUBT, "nothing was changed: it is still in doubt");
    if (!cli_ask("Its code [0]: ", answer, answer_size))
        return cli_message(&cli_resolve, CLI_DOUBT, "nothing was changed: it is still in doubt");
    if (answer[0] && read_code(answer, &args->code) != CLI_OK)
        return CLI_USAGE;
    if (!cli_ask("Its result, in one line [none]: ", answer, answer_size))
        return cli_message(&cli_resolve, CLI_DOUBT, "nothing was changed: it is still in doubt");
    args->result = once_bytes_of(answer);
    return CLI_OK;
}

/* ---- Resolving ------------------------------------------------------------------------------- */

/* Whose process is gone, and of this machine, will not come back: no need to wait for its lease. */
static int give_up(const struct resolve_args *args, struct cli_reach *reach, uint64_t fence)
{
    struct once_op op = {
        .call = ONCE_CALL_RENEW, .ns = args->name.ns, .key = args->name.key, .fence = fence};
    int err = cli_reach_op(reach, &op, 0);
    int status = err == ONCE_OK ? CLI_OK : cli_op_error(&cli_resolve, &op.reply);

    once_reply_release(&op.reply);
    return status; /* whatever it was told: resolving says the same, and why */
}

/* Looks: the fence that goes with the finding, and the outcome if nobody gave one. */
static int look(struct resolve_args *args, struct cli_reach *reach, char *answer,
                size_t answer_size)
{
    bool told = args->done || args->not_done;
    struct once_op op;
    int status = cli_op_get(&cli_resolve, reach, args->name, &op);
    const struct once_reply *reply = &op.reply;

    if (status == CLI_OK && reply->state == ONCE_STATE_STARTED && cli_owner_gone(reply->owner) &&
        (args->fence == 0 || args->fence == reply->fence))
        status = give_up(args, reach, reply->fence);
    else if (status == CLI_OK && !told && reply->state == ONCE_STATE_STARTED)
        status = cli_message(&cli_resolve, CLI_BUSY,
                             "someone is at it: there is nothing to "
                             "resolve yet");
    else if (status == CLI_OK && !told && reply->state != ONCE_STATE_DOUBT)
        status = cli_message(&cli_resolve, CLI_MISMATCH, "there is nothing to resolve: it is %s",
                             once_state_name(reply->state));
    if (status == CLI_OK && !told) {
        once_ms doubt_ms = cli_op_doubt_ms(reach, args->name, reply);

        cli_reach_rest(reach); /* it is nobody's while a person thinks */
        status = ask(args, reply, doubt_ms, answer, answer_size);
    }
    if (args->fence == 0)
        args->fence = reply->fence;
    once_reply_release(&op.reply);
    return status;
}

static int tell(const struct resolve_args *args, const struct once_reply *reply)
{
    if (reply->err != ONCE_OK)
        return cli_op_error(&cli_resolve, reply);
    switch ((int)reply->word) {
    case ONCE_DONE:
        if (args->json)
            printf("{\"verdict\":\"OK\",\"outcome\":\"%s\"}\n", args->done ? "done" : "not_done");
        else
            puts(args->done ? "RESOLVED: it happened; repeats get this answer"
                            : "RESOLVED: it did not happen; it may be tried again");
        return CLI_OK;
    case ONCE_NOTFOUND:
        return cli_op_refused(&cli_resolve, args->json, reply, CLI_NOT_FOUND,
                              "there is no such operation any more");
    case ONCE_BUSY:
        return cli_op_refused(&cli_resolve, args->json, reply, CLI_BUSY,
                              "someone is at it: there is nothing to resolve yet; nothing was "
                              "changed");
    case ONCE_MISMATCH:
        return cli_op_refused(&cli_resolve, args->json, reply, CLI_MISMATCH,
                              "it has ended already, in another way than you say: see once get; "
                              "nothing was changed");
    default:
        return cli_op_refused(&cli_resolve, args->json, reply, CLI_REFUSED,
                              "the fence is not the current one: someone has begun it again since; "
                              "look again. Nothing was changed");
    }
}

static int resolve(struct resolve_args *args, struct cli_reach *reach)
{
    char answer[4096] = "";
    struct once_op op;
    int status = look(args, reach, answer, sizeof(answer));

    if (status != CLI_OK)
        return status;
    op = (struct once_op){.call = ONCE_CALL_RESOLVE,
                          .ns = args->name.ns,
                          .key = args->name.key,
                          .fence = args->fence,
                          .done = args->done,
                          .code = args->code,
                          .result = args->result};
    (void)cli_reach_op(reach, &op, 0);
    status = tell(args, &op.reply);
    once_reply_release(&op.reply);
    return status;
}

static int resolve_run(int argc, char **argv)
{
    struct resolve_args args = {0};
    struct cli_reach reach = {0};
    int status;

    once_buf_init(&args.file, ONCE_RESULT_SIZE_MAX);
    status = read_args(argc, argv, &args);
    if (status == CLI_OK)
        status = cli_reach_open(&cli_resolve, &args.where, false, &reach);
    if (status == CLI_OK)
        status = resolve(&args, &reach);
    once_buf_release(&args.file);
    return cli_reach_close(&cli_resolve, &reach, status);
}

const struct cli_command cli_resolve = {
    .name = "resolve",
    .summary = "end a doubt: say whether it happened",
    .help = resolve_help,
    .run = resolve_run,
    .options = resolve_options,
    .option_count = sizeof(resolve_options) / sizeof(resolve_options[0]),
};
