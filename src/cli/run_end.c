/* SPDX-License-Identifier: Apache-2.0
 *
 * How a run ended: recorded first, then told.
 *
 *     an exit status of --success     complete: from now on it is replayed
 *     any other                       fail: the command says that it did not happen; in a retry
 *                                     of a doubt that leaves the doubt
 *     one of --doubt, or a signal     in doubt: nobody knows
 *
 * Whatever cannot be recorded stays in doubt: it is never run again by itself.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/echo.h"
#include "cli/op_look.h"
#include "cli/run.h"

enum { CUT_SIZE = 1 << 16, EXEC_NOT_FOUND = 127, EXEC_NOT_POSSIBLE = 126 };

/* ---- Telling --------------------------------------------------------------------------------- */

static void print_stream(const struct run_output *output, int stream, const char *name)
{
    struct once_buf bytes;

    if (run_output_stream(output, stream, &bytes) != ONCE_OK)
        return;
    putchar(',');
    cli_json_bytes(stdout, name, once_buf_bytes(&bytes));
    once_buf_release(&bytes);
}

/* One object, also for what went wrong. output NULL: there is none. */
static void print_json(const struct run *run, const char *verdict, int status,
                       const struct run_output *output)
{
    if (!run->args->json)
        return;
    printf("{\"verdict\":\"%s\",\"exit_status\":%d,\"namespace\":", verdict, status);
    cli_json_string(stdout, run->name.ns);
    fputs(",\"key\":", stdout);
    cli_json_string(stdout, run->name.key);
    if (run->fence > 0)
        printf(",\"fence\":%" PRIu64 ",\"attempt\":%" PRIu32, run->fence, run->attempt);
    if (output) {
        print_stream(output, STDOUT_FILENO, "stdout");
        print_stream(output, STDERR_FILENO, "stderr");
        printf(",\"lost\":%" PRIu64, output->lost);
    }
    puts("}");
}

/* Output that nobody took is not a success, whatever the command says. */
static int tell_unread(const struct run *run, int status)
{
    if (run->args->json || (!run->unread[STDOUT_FILENO] && !run->unread[STDERR_FILENO]))
        return status;
    return cli_message(&cli_run, status == CLI_OK ? CLI_INTERNAL : status,
                       "not all output could be written: %s is closed; '%s' ended with status %d",
                       run->unread[STDOUT_FILENO] ? "stdout" : "stderr",
                       cli_echo(run->args->key).text, status);
}

/* And how to end it, as it would be typed. */
static void tell_doubt(const struct run *run, const char *what)
{
    bool other = strcmp(run->args->ns, "run") != 0;
    char *options = cli_op_options(&run->args->where);

    (void)cli_message(&cli_run, 0,
                      "'%s' is in doubt: %s, so nobody knows whether it happened. Find out, then: "
                      "once resolve%s %s%s%s%s --done, or --not-done; or where a second time "
                      "does no harm: once run --on-doubt retry",
                      cli_echo(run->args->key).text, what, options ? options : "",
                      other ? "-n " : "", other ? cli_quoted(run->name.ns).text : "",
                      other ? " " : "", cli_quoted(run->name.key).text);
    free(options);
}

/* ---- Recording ------------------------------------------------------------------------------- */

/* The word, or STALE with an error in *ret_err. */
static enum once_word record(struct run *run, struct once_op *op, int *ret_err)
{
    enum once_word word;

    op->fence = run->fence;
    *ret_err = run_ask(run, op, 0);
    word = *ret_err == ONCE_OK ? op->reply.word : ONCE_STALE;
    once_reply_release(&op->reply);
    cli_reach_rest(&run->reach); /* telling may wait for a reader, and others want the folder */
    return word;
}

/* With as much of the output as the store takes; a result of ONCE_RESULT_RESERVED bytes always has
 * room, also on a full disk (INV-7). */
static enum once_word complete(struct run *run, int status, int *ret_err)
{
    static const size_t sizes[] = {ONCE_RESULT_SIZE_MAX, CUT_SIZE, ONCE_RESULT_RESERVED};
    enum once_word word = ONCE_STALE;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct once_op op = {.call = ONCE_CALL_COMPLETE, .code = status};
        struct once_buf result = {0};

        *ret_err = run_output_write(&run->output, sizes[i], &result);
        if (*ret_err == ONCE_ERR_MEMORY)
            continue;
        if (*ret_err != ONCE_OK)
            break;
        op.result = once_buf_bytes(&result);
        word = record(run, &op, ret_err);
        if (*ret_err == ONCE_OK && i > 0 && op.result.size < run->output.bytes.size)
            (void)cli_message(&cli_run, 0,
                              "the store had no room for the whole output of '%s'; a replay gives "
                              "its beginning",
                              cli_echo(run->args->key).text);
        once_buf_release(&result);
        if (*ret_err != ONCE_ERR_SPACE && *ret_err != ONCE_ERR_TOO_LARGE &&
            *ret_err != ONCE_ERR_INVALID)
            break;
    }
    return word;
}

/* "exit status 3", and the end of what it said on stderr. */
static enum once_word fail(struct run *run, const char *what, int *ret_err)
{
    char reason[ONCE_RUN_REASON_SIZE_MAX + 128];
    struct once_op op = {.call = ONCE_CALL_FAIL};
    struct once_buf said = {0};
    enum once_word word;
    size_t size = (size_t)snprintf(reason, sizeof(reason), "%s", what), tail = 0;

    if (run_output_stream(&run->output, STDERR_FILENO, &said) == ONCE_OK && said.size > 0) {
        tail = said.size < ONCE_RUN_REASON_SIZE_MAX ? said.size : ONCE_RUN_REASON_SIZE_MAX;
        reason[size++] = '\n';
        memcpy(reason + size, said.data + said.size - tail, tail);
    }
    op.result = (struct once_bytes){(const uint8_t *)reason, size + tail};
    word = record(run, &op, ret_err);
    if (*ret_err == ONCE_ERR_SPACE) {
        op.result = once_bytes_of(what);
        word = record(run, &op, ret_err);
    }
    once_buf_release(&said);
    return word;
}

/* ---- Ends ------------------------------------------------------------------------------------ */

/* It ended, and the store did not take it. */
static int tell_unrecorded(struct run *run, const char *how, enum once_word word, int err)
{
    const char *key = run->args->key;
    char what[512];

    if (err != ONCE_OK) {
        snprintf(what, sizeof(what),
                 "the command ended (%s) and this could not be recorded (%.300s)", how,
                 cli_reach_text(&run->reach, err));
        tell_doubt(run, what);
        print_json(run, "DOUBT", CLI_DOUBT, &run->output);
        return CLI_DOUBT;
    }
    if (word == ONCE_MISMATCH) {
        (void)cli_message(&cli_run, 0,
                          "'%s' was completed with another answer while the command was running "
                          "(%s); that answer stays",
                          cli_echo(key).text, how);
        print_json(run, "MISMATCH", CLI_MISMATCH, &run->output);
        return CLI_MISMATCH;
    }
    (void)cli_message(
        &cli_run, 0,
        "the command ended (%s), but '%s' was not ours any more: someone resolved it, "
        "took it over or forgot it while the command was running. Its end was not "
        "recorded: look with once get",
        how, cli_echo(key).text);
    print_json(run, "STALE", CLI_REFUSED, &run->output);
    return CLI_REFUSED;
}

static int end_unknown(struct run *run, const char *how)
{
    struct once_op op = {.call = ONCE_CALL_RENEW, .lease_ms = 0};
    int err;
    enum once_word word = record(run, &op, &err);

    if (err == ONCE_OK && word != ONCE_DONE && word != ONCE_DOUBT)
        return tell_unrecorded(run, how, word, err);
    tell_doubt(run, how);
    print_json(run, "DOUBT", CLI_DOUBT, &run->output);
    return CLI_DOUBT;
}

/* What the command says is true of its own attempt. If that repeats one that is in doubt, it does
 * not say that the other one did not happen: the next run must not find the key free. */
static int end_failed(struct run *run, const char *how, int status)
{
    char still[256];
    int err;
    enum once_word word;

    if (run->is_retry) {
        snprintf(still, sizeof(still), "the command failed (%s), and an earlier attempt vanished",
                 how);
        return end_unknown(run, still);
    }
    word = fail(run, how, &err);
    if (err != ONCE_OK || word != ONCE_DONE)
        return tell_unrecorded(run, how, word, err);
    if (!run->args->quiet)
        (void)cli_message(&cli_run, 0,
                          "'%s' failed: %s; it counts as not done, the next run tries "
                          "again",
                          cli_echo(run->args->key).text, how);
    print_json(run, "FAILED", status, &run->output);
    return status;
}

static int end_done(struct run *run, const struct run_lease *lease, const char *how, int status,
                    struct once_buf rest[3])
{
    int err;
    enum once_word word = complete(run, status, &err);

    if (err != ONCE_OK || word != ONCE_DONE)
        return tell_unrecorded(run, how, word, err);
    run_relay_finish(run, rest);
    if (lease->is_lost)
        (void)cli_message(&cli_run, 0, "the end of '%s' was recorded: it is not in doubt any more",
                          cli_echo(run->args->key).text);
    print_json(run, "EXECUTE", status, &run->output);
    return tell_unread(run, status);
}

int run_end(struct run *run, const struct run_lease *lease, struct once_buf rest[3])
{
    int wait_status = run->child.wait_status, status;
    char how[128];

    if (WIFSIGNALED(wait_status)) {
        const char *name = sigabbrev_np(WTERMSIG(wait_status));

        snprintf(how, sizeof(how), "the command was killed by signal %d (%s%s)",
                 WTERMSIG(wait_status), name ? "SIG" : "", name ? name : "?");
        status = end_unknown(run, how);
    } else if (run->args->doubt[WEXITSTATUS(wait_status)]) {
        snprintf(how, sizeof(how), "the command ended with exit status %d, which leaves it open",
                 WEXITSTATUS(wait_status));
        status = end_unknown(run, how);
    } else {
        snprintf(how, sizeof(how), "exit status %d", WEXITSTATUS(wait_status));
        status = run->args->success[WEXITSTATUS(wait_status)]
                     ? end_done(run, lease, how, WEXITSTATUS(wait_status), rest)
                     : end_failed(run, how, WEXITSTATUS(wait_status));
    }
    run_relay_finish(run, rest);
    return status;
}

int run_end_unstarted(struct run *run, int error)
{
    bool missing = error == ENOENT || error == ENOTDIR;
    int status = missing ? EXEC_NOT_FOUND : EXEC_NOT_POSSIBLE;
    char reason[256];

    if (error == RUN_LATE) {
        run_begin_undo(run, "the runner was held up, and ran nothing");
        cli_reach_rest(&run->reach);
        return cli_error(&cli_run, CLI_UNAVAILABLE,
                         "the lease of '%s' was over before the command could be started; nothing "
                         "was run. Give a longer --lease",
                         cli_echo(run->args->key).text);
    }
    snprintf(reason, sizeof(reason), "the command could not be started: %s", strerror(error));
    run_begin_undo(run, reason);
    cli_reach_rest(&run->reach);
    return cli_error(&cli_run, status, "'%s' cannot be started: %s; nothing was run%s",
                     cli_echo(run->args->command[0]).text, strerror(error),
                     run->is_retry ? ", and it stays in doubt" : "");
}

/* ---- Earlier answers, and none --------------------------------------------------------------- */

/* The note about a replay begins a line of its own, on a terminal. */
static void end_line(const struct run_output *output)
{
    struct once_bytes bytes = {output->bytes.data, output->bytes.size};

    if (bytes.size > 0 && bytes.data[bytes.size - 1] != '\n' && isatty(STDOUT_FILENO) &&
        isatty(STDERR_FILENO))
        fputc('\n', stderr);
}

int run_replay(struct run *run, const struct once_reply *reply)
{
    struct run_output output;
    int status = reply->code;
    const char *key = run->args->key;

    if (run_output_read(reply->result, &output) != ONCE_OK)
        return cli_error(&cli_run, CLI_INTERNAL, "%s", once_err_text(ONCE_ERR_MEMORY));
    if (status < 0 || status >= RUN_STATUSES) {
        (void)cli_message(&cli_run, 0, "'%s' was completed with code %d, which is no exit status",
                          cli_echo(key).text, status);
        status = CLI_FAILED;
    }
    if (!run->args->json && !run_output_show(&output))
        status = cli_message(&cli_run, status == CLI_OK ? CLI_INTERNAL : status,
                             "not all output could be written");
    if (!run->args->json && (output.lost > 0 || !run->args->quiet))
        end_line(&output);
    if (output.lost > 0)
        (void)cli_message(&cli_run, 0,
                          "%" PRIu64 " more bytes of output were not kept (--output-max)",
                          output.lost);
    if (!run->args->quiet)
        (void)cli_message(&cli_run, 0, "replayed '%s': it was done before, and nothing was run now",
                          cli_echo(key).text);
    print_json(run, "REPLAY", status, &output);
    run_output_release(&output);
    return status;
}

static int tell_busy(struct run *run)
{
    struct once_op look = {.call = ONCE_CALL_GET};
    char who[64] = "someone";
    pid_t pid;

    if (run_ask(run, &look, 0) == ONCE_OK && look.reply.word == ONCE_DONE &&
        look.reply.state == ONCE_STATE_STARTED) {
        pid = cli_owner_pid(look.reply.owner);
        if (pid > 0)
            snprintf(who, sizeof(who), "process %ld of this machine", (long)pid);
    }
    once_reply_release(&look.reply);
    cli_reach_rest(&run->reach);
    return cli_message(&cli_run, CLI_BUSY, "'%s' is running now: %s is at it; nothing was run. %s",
                       cli_echo(run->args->key).text, who,
                       run->args->wait_ms > 0 ? "It was waited for in vain"
                                              : "--wait 10m waits for its answer");
}

int run_refused(struct run *run, const struct once_reply *reply)
{
    const char *key = run->args->key;
    int status = CLI_INTERNAL;

    if (reply->word == ONCE_BUSY) {
        status = tell_busy(run);
    } else if (reply->word == ONCE_MISMATCH) {
        status = cli_message(&cli_run, CLI_MISMATCH,
                             "'%s' belongs to another command: its words, --input files or --env "
                             "variables were different when it ran first; nothing was run. What is "
                             "to happen besides needs a key of its own",
                             cli_echo(key).text);
    } else if (reply->word == ONCE_TOO_OLD) {
        status = cli_message(&cli_run, CLI_REFUSED,
                             "'%s' was born longer ago than answers are kept: it may have been run "
                             "and forgotten; nothing was run",
                             cli_echo(key).text);
    } else if (reply->word == ONCE_DOUBT) {
        tell_doubt(run, "an earlier run began it and vanished");
        status = CLI_DOUBT;
    }
    print_json(run, once_word_name(reply->word), status, NULL);
    return status;
}
