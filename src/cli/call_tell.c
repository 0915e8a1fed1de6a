/* SPDX-License-Identifier: Apache-2.0
 *
 * How `once call` tells an answer: the body on standard output, everything else on standard error.
 *
 * A terminal gets no control characters from a stranger's answer; a pipe and a file get its bytes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/call.h"
#include "cli/echo.h"
#include "cli/folder.h"

/* ---- Bodies ---------------------------------------------------------------------------------- */

static void print_safely(FILE *out, struct once_bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        /* U+0080 to U+009F are controls too. */
        bool wide = c == 0xc2 && i + 1 < text.size && text.data[i + 1] < 0xa0;

        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f || wide)
            fprintf(out, "\\x%02x", c);
        else
            putc(c, out);
    }
}

static void print_head(FILE *out, const struct once_http_answer *answer)
{
    fprintf(out, "HTTP %d\n", answer->status);
    for (size_t i = 0; i < answer->header_count; i++) {
        cli_print(out, once_bytes_of(answer->headers[i]));
        putc('\n', out);
    }
    putc('\n', out);
}

static int print_body(const struct call_args *args, const struct once_http_answer *answer)
{
    FILE *out = args->output ? fopen(args->output, "wbe") : stdout;
    bool failed;

    if (!out)
        return cli_error(&cli_call, CLI_INTERNAL,
                         "the answer is kept, and '%s' cannot be written: %s; the same command "
                         "again gives the answer again",
                         cli_echo(args->output).text, strerror(errno));
    if (args->include)
        print_head(out, answer);
    if (out == stdout && isatty(STDOUT_FILENO))
        print_safely(out, answer->body);
    else if (answer->body.size > 0)
        (void)fwrite(answer->body.data, 1, answer->body.size, out);
    if (out == stdout)
        return CLI_OK; /* main looks whether it could be written */
    failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed)
        return cli_error(&cli_call, CLI_INTERNAL,
                         "the answer is kept, and '%s' could not be written whole; the same "
                         "command again gives the answer again",
                         cli_echo(args->output).text);
    return CLI_OK;
}

/* A note behind a body with no end of line begins a line of its own, where both go to one place: a
 * terminal, or 2>&1. A pipe that takes the body alone gets the body alone. */
static void end_line(const struct once_http_answer *answer, bool note)
{
    struct stat out, err;
    bool ended = answer->body.size == 0 || answer->body.data[answer->body.size - 1] == '\n';

    if (ended || fstat(STDOUT_FILENO, &out) != 0 || fstat(STDERR_FILENO, &err) != 0)
        return;
    if (isatty(STDOUT_FILENO) || (note && out.st_dev == err.st_dev && out.st_ino == err.st_ino)) {
        (void)fflush(stdout);
        fputc('\n', stderr);
    }
}

/* ---- Outcomes -------------------------------------------------------------------------------- */

static int status_of(const struct once_http_answer *answer)
{
    switch (answer->outcome) {
    case ONCE_HTTP_ANSWERED:
    case ONCE_HTTP_REPLAYED:
        return answer->status >= 400 ? CLI_FAILED : CLI_OK;
    case ONCE_HTTP_UNREACHED:
        return CLI_UNAVAILABLE;
    case ONCE_HTTP_DOUBT:
        return CLI_DOUBT;
    case ONCE_HTTP_BUSY:
        return CLI_BUSY;
    case ONCE_HTTP_MISMATCH:
        return CLI_MISMATCH;
    case ONCE_HTTP_TOO_OLD:
    case ONCE_HTTP_STALE:
        return CLI_REFUSED;
    case ONCE_HTTP_ABSENT:
        return CLI_NOT_FOUND;
    }
    return CLI_INTERNAL;
}

/* The words of the protocols, for machines. */
static const char *verdict_of(enum once_http_outcome outcome)
{
    static const char *const words[] = {
        [ONCE_HTTP_ANSWERED] = "ANSWERED", [ONCE_HTTP_REPLAYED] = "REPLAY",
        [ONCE_HTTP_UNREACHED] = "FAILED",  [ONCE_HTTP_DOUBT] = "DOUBT",
        [ONCE_HTTP_BUSY] = "BUSY",         [ONCE_HTTP_MISMATCH] = "MISMATCH",
        [ONCE_HTTP_TOO_OLD] = "TOO_OLD",   [ONCE_HTTP_STALE] = "STALE",
        [ONCE_HTTP_ABSENT] = "NOTFOUND"};

    return words[outcome];
}

static void print_json(const struct call_args *args, struct once_bytes key, int err, int status,
                       const struct once_http_answer *answer, const char *text)
{
    fputs("{\"verdict\":", stdout);
    if (err == ONCE_OK)
        printf("\"%s\"", verdict_of(answer->outcome));
    else
        fputs("null", stdout);
    fputs(",\"namespace\":", stdout);
    cli_json_string(stdout, once_bytes_of(args->ns ? args->ns : "call"));
    fputs(",\"key\":", stdout);
    cli_json_string(stdout, key);
    if (answer->status > 0)
        printf(",\"status\":%d", answer->status);
    printf(",\"attempts\":%u,\"sent\":%u", answer->attempts, answer->sent);
    if (answer->fence > 0)
        printf(",\"fence\":%" PRIu64, answer->fence);
    if (answer->outcome == ONCE_HTTP_BUSY && err == ONCE_OK)
        printf(",\"retry_ms\":%" PRId64, answer->retry_ms);
    if (answer->headers) {
        fputs(",\"headers\":[", stdout);
        for (size_t i = 0; i < answer->header_count; i++) {
            if (i > 0)
                putchar(',');
            cli_json_string(stdout, once_bytes_of(answer->headers[i]));
        }
        fputs("],", stdout);
        cli_json_bytes(stdout, "body", answer->body);
        printf(",\"body_lost\":%" PRIu64, answer->body_lost);
    }
    if (text[0]) {
        fputs(",\"error\":", stdout);
        cli_json_string(stdout, once_bytes_of(text));
    }
    printf(",\"exit_status\":%d}\n", status);
}

/* A sentence for a person. */
struct said {
    char text[8 * ONCE_MESSAGE_SIZE];
};

/* How to go on with this key, as a command. */
struct command {
    char text[4 * ONCE_MESSAGE_SIZE];
};

static struct command resume_command(const struct call_args *args, struct once_bytes key)
{
    struct command command;
    const char *place = args->where.dir ? args->where.dir : args->where.server;

    snprintf(command.text, sizeof(command.text), "once call%s%s%s%s --resume %s",
             !place            ? ""
             : args->where.dir ? " --dir "
                               : " --server ",
             place ? cli_quoted(once_bytes_of(place)).text : "", args->ns ? " --namespace " : "",
             args->ns ? cli_quoted(once_bytes_of(args->ns)).text : "", cli_quoted(key).text);
    return command;
}

static void say_answered(const struct call_args *args, struct once_bytes key,
                         const struct once_http_answer *answer, struct said *ret_text)
{
    char lost[96] = "";

    if (answer->body_lost > 0)
        snprintf(lost, sizeof(lost), "; %" PRIu64 " bytes of its body %s", answer->body_lost,
                 answer->outcome == ONCE_HTTP_REPLAYED ? "were not kept" : "are not here");
    if (answer->outcome == ONCE_HTTP_REPLAYED)
        snprintf(ret_text->text, sizeof(ret_text->text), "replayed: the answer to '%s' was %d%s",
                 cli_echo_bytes(key).text, answer->status, lost);
    else
        snprintf(ret_text->text, sizeof(ret_text->text), "%d after %u attempt%s, kept under '%s'%s",
                 answer->status, answer->attempts, answer->attempts == 1 ? "" : "s",
                 cli_echo_bytes(key).text, lost);
    (void)args;
}

static void say_outcome(const struct call_args *args, struct once_bytes key,
                        const struct once_http_answer *answer, struct said *ret_text)
{
    const char *why = answer->text[0] ? answer->text : "no answer";
    char *text = ret_text->text;
    const size_t size = sizeof(ret_text->text);

    switch (answer->outcome) {
    case ONCE_HTTP_ANSWERED:
    case ONCE_HTTP_REPLAYED:
        say_answered(args, key, answer, ret_text);
        return;
    case ONCE_HTTP_UNREACHED:
        snprintf(text, size,
                 "nothing was sent: %s; it did not happen, and the same command again "
                 "tries again",
                 why);
        return;
    case ONCE_HTTP_DOUBT:
        if (answer->attempts == 0 && answer->text[0])
            snprintf(text, size, "in doubt: %s", answer->text);
        else if (answer->attempts == 0)
            snprintf(
                text, size,
                "someone began this call and vanished, so nobody knows whether it happened. If "
                "the receiver does it once for each key: %s",
                resume_command(args, key).text);
        else
            snprintf(text, size,
                     "in doubt after %u attempt%s: %s. Nobody knows whether it happened; go on "
                     "with: %s",
                     answer->attempts, answer->attempts == 1 ? "" : "s", why,
                     resume_command(args, key).text);
        return;
    case ONCE_HTTP_BUSY:
        snprintf(text, size, "someone is at this call; nothing was sent. --wait TIME waits for it");
        return;
    case ONCE_HTTP_MISMATCH:
        snprintf(text, size,
                 "this key belongs to another request; nothing was sent. A new request takes a new "
                 "key");
        return;
    case ONCE_HTTP_TOO_OLD:
        snprintf(text, size,
                 "this key was born longer ago than its answer is kept, so it may have happened "
                 "already; nothing was sent");
        return;
    case ONCE_HTTP_STALE:
        snprintf(text, size,
                 "someone else ended or forgot this call meanwhile: once get %s %s says how it "
                 "stands",
                 args->ns ? args->ns : "call", cli_quoted(key).text);
        return;
    case ONCE_HTTP_ABSENT:
        snprintf(text, size, "there is no call '%s' in the namespace %s", cli_echo_bytes(key).text,
                 args->ns ? args->ns : "call");
        return;
    }
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static int error_status(int err)
{
    return err == ONCE_ERR_INVALID || err == ONCE_ERR_TOO_LARGE || err == ONCE_ERR_KEY_CHARACTER
               ? CLI_USAGE
               : cli_store_status(err);
}

static int tell_error(const struct call_args *args, struct once_bytes key, int err,
                      const struct call_journal *journal, const struct once_http_answer *answer)
{
    struct said text;
    const char *said = answer->text[0] ? answer->text : once_err_text(err);
    int status = error_status(err);

    if (answer->sent > 0)
        snprintf(text.text, sizeof(text.text), "%s (%s); it was sent: %s finds out again", said,
                 journal->message.text, resume_command(args, key).text);
    else
        snprintf(text.text, sizeof(text.text), "%s; nothing was sent",
                 journal->message.text[0] ? journal->message.text : said);
    if (args->json)
        print_json(args, key, err, status, answer, text.text);
    else if (answer->body.size > 0)
        (void)print_body(args, answer);
    return cli_message(&cli_call, status, "%s", text.text);
}

int call_tell(const struct call_args *args, struct once_bytes key, int err,
              const struct call_journal *journal, const struct once_http_answer *answer, bool brief)
{
    struct said text = {""};
    bool answered = answer->outcome == ONCE_HTTP_ANSWERED || answer->outcome == ONCE_HTTP_REPLAYED;
    int status;

    if (err != ONCE_OK)
        return tell_error(args, key, err, journal, answer);
    status = status_of(answer);
    say_outcome(args, key, answer, &text);
    if (args->json) {
        print_json(args, key, err, status, answer, answered ? "" : text.text);
    } else if (brief) {
        cli_print(stdout, key);
        printf("  %d  %s\n", answer->status, once_http_outcome_name(answer->outcome));
    } else if (answered || answer->body.size > 0) {
        int written = print_body(args, answer);

        if (written != CLI_OK)
            return written;
        if (!args->output)
            end_line(answer, !args->quiet || !answered);
    }
    if (!args->quiet || !answered)
        (void)cli_message(&cli_call, status, "%s", text.text);
    return status;
}
