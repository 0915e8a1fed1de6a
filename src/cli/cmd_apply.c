/* SPDX-License-Identifier: Apache-2.0
 *
 * `once apply`: effects on Once's own objects, under a key. The work is once_apply's.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <once/apply.h>
#include <once/key.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/effects.h"
#include "cli/folder.h"
#include "cli/options.h"
#include "cli/reach.h"

static const char apply_help[] =
    "usage: once apply [--dir DIR | --server ADDR] [--fingerprint TEXT] [--ttl TIME] [--json] NS "
    "KEY\n"
    "            EFFECT...\n"
    "       once apply [--dir DIR | --server ADDR] [--json] --no-key EFFECT...\n"
    "\n"
    "Changes Once's own objects, all or nothing, and keeps the answer under the key NS KEY: the\n"
    "same command again changes nothing and gives the first answer (REPLAYED). An effect that is\n"
    "rejected (a bound, a stale token, another version, an illegal move) rejects all of them, and\n"
    "that answer is kept too. Each EFFECT is one argument. The store is made if it is not there.\n"
    "\n"
    "  once apply pay order-7 'ADD acct:42 -100 MIN 0' 'EMIT charges {\"amount\": 100}'\n"
    "  key=$(once key uuid7); once apply pay \"$key\" 'MOVE order:7 placed paid'\n"
    "  once apply --no-key 'MAX highest-seen 17' 'UNION visitors alice bob'\n"
    "  once apply orders o-7 --ttl 7d 'APPEND orders:7 evt-1 {\"paid\":true} AT 3'\n"
    "\n"
    "  --no-key   for effects that a late duplicate cannot hurt: MAX, UNION, SET ... IF, and so "
    "on.\n"
    "             There is no NS and no KEY then, and no answer is kept. `once laws` says which\n"
    "             effects need a key, and why; they are refused without\n"
    "  --fingerprint TEXT, --fp TEXT\n"
    "             what must be the same in a retry (default: the effects); another one under the\n"
    "             same key is a MISMATCH\n"
    "  --ttl TIME  how long the answer is kept: 500ms, 90s, 5m, 24h, 7d (default: "
    "24h)\n" CLI_HELP_DIR CLI_HELP_SERVER "  --json     one JSON object for machines, errors too\n"
    "  --         what follows is no option, even if it begins with a dash\n"
    "\n"
    "effects: words between blanks. 'single' and \"double\" quotes keep blanks; a word that "
    "begins\n"
    "with { or [ goes on to its closing bracket.\n" CLI_HELP_EFFECTS "\n"
    "exit status: 0 applied, or replayed; 64 usage, a bad effect, an effect that needs a key, an\n"
    "object of another type; 65 MISMATCH: the key belongs to another request; 69 the store is in "
    "use,\n"
    "full, or its disk failed; 70 the store is damaged; 71 out of memory, or an output that cannot "
    "be\n"
    "written; 75 BUSY; 76 DOUBT: someone began this key and vanished; 77 REJECTED, now or the "
    "first\n"
    "time; or TOO_OLD.\n";

enum option {
    OPTION_JSON,
    OPTION_DIR,
    OPTION_SERVER,
    OPTION_FINGERPRINT,
    OPTION_TTL,
    OPTION_NO_KEY
};

static const struct cli_option apply_options[] = {
    {"--json", NULL, OPTION_JSON},        {"--dir", "DIR", OPTION_DIR},
    {"--server", "ADDR", OPTION_SERVER},  {"--fingerprint", "TEXT", OPTION_FINGERPRINT},
    {"--fp", "TEXT", OPTION_FINGERPRINT}, {"--ttl", "TIME", OPTION_TTL},
    {"--no-key", NULL, OPTION_NO_KEY},
};

struct apply_args {
    bool json, no_key;
    struct cli_where where;
    const char *fingerprint;
    once_ms ttl_ms;
    struct once_name name;
    const char **values; /* what is not an option; freed by the caller */
    size_t value_count;
    size_t first_effect; /* its index in values */
};

/* ---- The answer ------------------------------------------------------------------------------ */

static void print_result(const struct once_result *result)
{
    if (result->is_number)
        printf("%" PRId64, result->number);
    else
        cli_print(stdout, result->word);
}

/* A replay under a fingerprint of the caller's own may have had other effects the first time. */
static void print_results(const struct apply_args *args, const struct cli_effects *effects,
                          const struct once_reply *reply)
{
    bool same = reply->word == ONCE_APPLIED || !args->fingerprint;
    struct once_result result;
    size_t offset = 0;

    for (size_t i = 0; once_results_next(reply->result, &offset, &result) == 1; i++) {
        if (same && i < effects->count)
            printf("  %s -> ", cli_echo(effects->texts[i]).text);
        else
            printf("  effect %zu -> ", i + 1);
        print_result(&result);
        putchar('\n');
    }
}

static void print_json_results(struct once_bytes results)
{
    struct once_result result;
    size_t offset = 0;

    fputs(",\"results\":[", stdout);
    for (bool first = true; once_results_next(results, &offset, &result) == 1; first = false) {
        if (!first)
            putchar(',');
        if (result.is_number)
            printf("%" PRId64, result.number);
        else
            cli_json_string(stdout, result.word);
    }
    putchar(']');
}

static bool are_results(struct once_bytes results)
{
    struct once_result result;
    size_t offset = 0;
    int got;

    do {
        got = once_results_next(results, &offset, &result);
    } while (got == 1);
    return got == 0;
}

static int tell_applied(const struct apply_args *args, const struct cli_effects *effects,
                        const struct once_reply *reply)
{
    if (args->json) {
        printf("{\"verdict\":\"%s\"", once_word_name(reply->word));
        print_json_results(reply->result);
        puts("}");
    } else {
        puts(reply->word == ONCE_REPLAY ? "REPLAYED" : "APPLIED");
        print_results(args, effects, reply);
    }
    return CLI_OK;
}

/* "effect 1, 'ADD acct:42 -1000 MIN 0': BELOW_MIN: acct:42 is at 900 …" */
static int tell_reason(const struct apply_args *args, const char *effect,
                       const struct once_rejection *rejection)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return cli_message(&cli_apply, CLI_REFUSED, "effect %" PRIu32 " was rejected",
                           rejection->effect);
    fprintf(out, "effect %" PRIu32, rejection->effect);
    if (effect)
        fprintf(out, ", '%s'", cli_echo(effect).text);
    fprintf(out, ": %s: ", cli_echo_bytes(rejection->word).text);
    cli_print(out, rejection->reason);
    fputs(args->no_key ? "; nothing happened"
                       : "; nothing happened, and this key keeps this answer: another try is "
                         "another key",
          out);
    fclose(out);
    (void)cli_message(&cli_apply, CLI_REFUSED, "%s", text);
    free(text);
    return CLI_REFUSED;
}

static int tell_rejected(const struct apply_args *args, const struct cli_effects *effects,
                         const struct once_reply *reply, const struct once_rejection *rejection)
{
    bool replayed = reply->word == ONCE_REPLAY;
    bool same = (!replayed || !args->fingerprint) && rejection->effect >= 1 &&
                rejection->effect <= effects->count;

    if (args->json) {
        printf("{\"verdict\":\"REJECTED\",\"replayed\":%s,\"rejected\":%" PRIu32 ",\"word\":",
               replayed ? "true" : "false", rejection->effect);
        cli_json_string(stdout, rejection->word);
        fputs(",\"reason\":", stdout);
        cli_json_string(stdout, rejection->reason);
        printf(",\"exit_status\":%d}\n", CLI_REFUSED);
    } else {
        puts(replayed ? "REJECTED, replayed" : "REJECTED");
    }
    return tell_reason(args, same ? effects->texts[rejection->effect - 1] : NULL, rejection);
}

/* The key was completed by someone who did the work elsewhere (begin and complete). */
static int tell_other_answer(const struct apply_args *args, const struct once_reply *reply)
{
    if (args->json) {
        printf("{\"verdict\":\"REPLAY\",\"code\":%" PRId32 ",", reply->code);
        cli_json_bytes(stdout, "result", reply->result);
        puts("}");
        return CLI_OK;
    }
    printf("REPLAYED\n  begun and completed elsewhere, code %" PRId32 ": ", reply->code);
    cli_print(stdout, reply->result);
    putchar('\n');
    return CLI_OK;
}

static int tell_replay(const struct apply_args *args, const struct cli_effects *effects,
                       const struct once_reply *reply)
{
    struct once_rejection rejection;

    if (reply->code == ONCE_CODE_REJECTED &&
        once_rejection_read(reply->result, &rejection) == ONCE_OK)
        return tell_rejected(args, effects, reply, &rejection);
    if (reply->code == ONCE_CODE_APPLIED && are_results(reply->result))
        return tell_applied(args, effects, reply);
    return tell_other_answer(args, reply);
}

static int tell_refusal(const struct apply_args *args, const struct once_reply *reply, int status,
                        const char *text)
{
    if (args->json) {
        printf("{\"verdict\":\"%s\"", once_word_name(reply->word));
        if (reply->word == ONCE_BUSY)
            printf(",\"retry_ms\":%" PRId64, reply->retry_ms);
        if (reply->word == ONCE_DOUBT)
            printf(",\"fence\":%" PRIu64, reply->fence);
        printf(",\"exit_status\":%d}\n", status);
    } else {
        puts(once_word_name(reply->word));
    }
    return cli_message(&cli_apply, status, "%s", text);
}

static int tell(const struct apply_args *args, const struct cli_effects *effects,
                const struct once_reply *reply)
{
    struct once_rejection rejection;

    if (reply->word == ONCE_APPLIED)
        return tell_applied(args, effects, reply);
    if (reply->word == ONCE_REJECTED && once_rejection_read(reply->result, &rejection) == ONCE_OK)
        return tell_rejected(args, effects, reply, &rejection);
    if (reply->word == ONCE_REPLAY)
        return tell_replay(args, effects, reply);
    if (reply->word == ONCE_MISMATCH)
        return tell_refusal(args, reply, CLI_MISMATCH,
                            "this key belongs to another request, with other effects or another "
                            "fingerprint; nothing happened. A new request takes a new key: once "
                            "key uuid7");
    if (reply->word == ONCE_TOO_OLD)
        return tell_refusal(args, reply, CLI_REFUSED,
                            "this key was born longer ago than its answer is kept, so it may have "
                            "happened already; nothing happened now");
    if (reply->word == ONCE_BUSY)
        return tell_refusal(args, reply, CLI_BUSY,
                            "someone began this key and is at it; nothing happened. Come back "
                            "later");
    if (reply->word == ONCE_DOUBT)
        return tell_refusal(args, reply, CLI_DOUBT,
                            "someone began this key and vanished, so nobody knows whether it "
                            "happened; nothing happened now. Look, and resolve it");
    return cli_error(&cli_apply, CLI_INTERNAL, "an answer that apply does not give: %s",
                     once_word_name(reply->word));
}

static int tell_error(const struct cli_effects *effects, const struct once_reply *reply)
{
    const char *what = reply->what ? reply->what : once_err_text(reply->err);
    int status = cli_store_status(reply->err);

    if (reply->err == ONCE_ERR_IO || reply->err == ONCE_ERR_STOPPED)
        return cli_error(&cli_apply, status,
                         "%s; nobody knows whether it was kept: the same command again is safe",
                         what);
    if (reply->effect == 0 || reply->effect > effects->count)
        return cli_error(&cli_apply, status, "%s; nothing happened", what);
    return cli_error(&cli_apply, status, "effect %" PRIu32 ", '%s': %s; nothing happened",
                     reply->effect, cli_echo(effects->texts[reply->effect - 1]).text, what);
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static int read_name(const struct apply_args *args, struct once_name *ret_name)
{
    struct once_name name;
    struct once_defect defect;
    int err;

    if (args->value_count < 3)
        return cli_usage(&cli_apply,
                         "%s: give a namespace, a key (once key uuid7 makes one) and effects, or "
                         "--no-key and effects that need none",
                         args->value_count == 0   ? "nothing to do"
                         : args->value_count == 1 ? "one argument is too few"
                                                  : "two arguments are too few");
    name = once_name_of(args->values[0], args->values[1]);
    err = once_namespace_check(name.ns, &defect);
    if (err != ONCE_OK)
        return cli_usage(&cli_apply, "the namespace '%s', character %zu: %s",
                         cli_echo(args->values[0]).text, defect.offset + 1, defect.what);
    err = once_key_check(name.key, &defect);
    if (err != ONCE_OK)
        return cli_usage(&cli_apply, "the key '%s', character %zu: %s",
                         cli_echo(args->values[1]).text, defect.offset + 1, defect.what);
    *ret_name = name;
    return CLI_OK;
}

static int check_args(struct apply_args *args)
{
    if (!args->no_key) {
        args->first_effect = 2;
        return read_name(args, &args->name);
    }
    if (args->fingerprint || args->ttl_ms)
        return cli_usage(&cli_apply, "--no-key keeps no answer, so %s has nothing to say",
                         args->fingerprint ? "--fingerprint" : "--ttl");
    if (args->value_count == 0)
        return cli_usage(&cli_apply, "which effects? once apply --no-key 'MAX name 17'");
    return CLI_OK;
}

static int read_args(int argc, char **argv, struct apply_args *args)
{
    struct cli_args reader = CLI_ARGS(&cli_apply, apply_options, argc, argv);
    const char *value;
    int got;

    while ((got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        args->json = args->json || got == OPTION_JSON;
        args->no_key = args->no_key || got == OPTION_NO_KEY;
        if (got == OPTION_DIR)
            args->where.dir = value;
        else if (got == OPTION_SERVER)
            args->where.server = value;
        else if (got == OPTION_FINGERPRINT)
            args->fingerprint = value;
        else if (got == CLI_ARG_VALUE)
            args->values[args->value_count++] = value;
        if (got == OPTION_FINGERPRINT && !value[0])
            return cli_usage(&cli_apply, "the fingerprint is empty; without one it is the effects");
        if (got == OPTION_TTL && !cli_duration(value, ONCE_RETENTION_MS_MAX, &args->ttl_ms))
            return cli_usage(&cli_apply,
                             "--ttl takes a number and a unit, such as 5m, 24h or 7d, at most "
                             "3652d, not '%s'",
                             cli_echo(value).text);
    }
    return check_args(args);
}

static int apply(const struct apply_args *args, struct cli_reach *reach,
                 const struct cli_effects *effects)
{
    struct once_apply_options options = {.fingerprint = once_bytes_of(args->fingerprint),
                                         .ttl_ms = args->ttl_ms};
    struct once_reply reply;
    int status;

    if (cli_reach_apply(reach, args->name, &options, effects->dos, effects->count, &reply) !=
        ONCE_OK)
        status = tell_error(effects, &reply);
    else
        status = tell(args, effects, &reply);
    once_reply_release(&reply);
    return status;
}

static int apply_run(int argc, char **argv)
{
    struct apply_args args = {.values = calloc((size_t)argc, sizeof(args.values[0]))};
    static struct cli_effects effects;
    struct cli_reach reach = {0};
    int status = args.values
                     ? read_args(argc, argv, &args)
                     : cli_error(&cli_apply, CLI_INTERNAL, "%s", once_err_text(ONCE_ERR_MEMORY));

    if (status == CLI_OK)
        status = cli_effects_read(&cli_apply, args.values + args.first_effect,
                                  args.value_count - args.first_effect, &effects);
    if (status == CLI_OK)
        status = cli_reach_open(&cli_apply, &args.where, true, &reach);
    if (status == CLI_OK)
        status = apply(&args, &reach, &effects);
    status = cli_reach_close(&cli_apply, &reach, status);
    cli_effects_release(&effects);
    free(args.values);
    return status;
}

const struct cli_command cli_apply = {
    .name = "apply",
    .summary = "change objects under a key, all or nothing",
    .help = apply_help,
    .run = apply_run,
    .options = apply_options,
    .option_count = sizeof(apply_options) / sizeof(apply_options[0]),
};
