/* SPDX-License-Identifier: Apache-2.0
 *
 * `once run`: any command, once per key. See run.h for how its parts work together.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/folder.h"
#include "cli/options.h"
#include "cli/run.h"

static const char run_help[] =
    "usage: once run [OPTIONS] KEY -- COMMAND [ARGUMENT...]\n"
    "\n"
    "Runs a command once per key. Its output is shown while it runs, and kept: the same again "
    "runs\n"
    "nothing and gives the first output and exit status. While it runs, others who ask are told "
    "so\n"
    "(BUSY). The same key with another command line is refused (MISMATCH). If this process or the\n"
    "machine dies in between, nobody knows whether it happened: the key is in doubt, and is never\n"
    "run again by itself; once resolve ends the doubt. Many may run side by side, on one folder "
    "or\n"
    "through a server. The store is made if it is not there.\n"
    "\n"
    "  once run backup-2026-07-31 -- pg_dump -f backup.sql shop\n"
    "  once run \"invoice-$id\" --input invoice.json --wait 5m -- ./send-invoice invoice.json\n"
    "  once run \"$(once key digest report 2026-07)\" --success 0,2 -- ./report 2026-07\n"
    "\n"
    "What happened is told by the command's exit status: one of --success is its answer, which is\n"
    "kept and replayed. Any other says that it did not happen: the key is free again. Killed by a\n"
    "signal, or one of --doubt: nobody knows. The command finds $ONCE_KEY, $ONCE_NAMESPACE,\n"
    "$ONCE_FENCE and $ONCE_ATTEMPT; with --on-doubt retry after a doubt $ONCE_DOUBT is 1; and the\n"
    "last recovery point that it made itself is $ONCE_POINT.\n"
    "\n"
    "  --namespace NS, -n NS\n"
    "             the namespace of the key (default: run)\n"
    "  --wait TIME\n"
    "             if it is running now, wait so long for its answer: 30s, 5m, 1h\n"
    "  --on-doubt reject|retry\n"
    "             what to do when an earlier run vanished (default: what a server's namespace\n"
    "             says, else reject). retry runs it again,\n"
    "             which is right only where a second time does no harm; if that fails, the doubt\n"
    "             stays\n"
    "  --success LIST\n"
    "             exit statuses that are answers, such as 0,2 or 0,10-19 (default: 0)\n"
    "  --doubt LIST\n"
    "             exit statuses after which nobody knows whether it happened (default: none)\n"
    "  --input FILE\n"
    "             the content of this file counts as part of the command line; may be repeated\n"
    "  --env NAME\n"
    "             the value of this variable counts too; may be repeated\n"
    "  --ttl TIME\n"
    "             how long the answer is kept: 5m, 24h, 7d (default: 24h)\n"
    "  --lease TIME\n"
    "             how long others wait after this process was cut off (default: 30s). It is "
    "renewed\n"
    "             while the command runs\n"
    "  --output-max BYTES\n"
    "             so much of the output is kept (default: 1048576, at most 15728640); all of it "
    "is\n"
    "             shown\n" CLI_HELP_DIR CLI_HELP_SERVER
    "  --json     one JSON object with the output in it, at the end, instead of the output\n"
    "  --quiet    do not tell what was replayed or failed; errors and doubts are told\n"
    "\n"
    "exit status: that of the command, now or the first time; 64 usage; 65 MISMATCH: the key "
    "belongs\n"
    "to another command; 69 the store is in use, full, or its disk failed; 70 the store is "
    "damaged;\n"
    "71 out of memory, or an output that cannot be written; 75 BUSY; 76 DOUBT; 77 TOO_OLD, or "
    "someone\n"
    "resolved it meanwhile; 126 the command cannot be started; 127 there is no such command.\n";

/* The command gets its names through the environment: fences travel with what it does (D2). */
static bool set_environment(const struct run *run)
{
    char fence[24], attempt[16];

    snprintf(fence, sizeof(fence), "%llu", (unsigned long long)run->fence);
    snprintf(attempt, sizeof(attempt), "%u", (unsigned)run->attempt);
    (void)unsetenv("ONCE_DOUBT");
    (void)unsetenv("ONCE_POINT");
    return setenv("ONCE_KEY", run->args->key, 1) == 0 &&
           setenv("ONCE_NAMESPACE", run->args->ns, 1) == 0 && setenv("ONCE_FENCE", fence, 1) == 0 &&
           setenv("ONCE_ATTEMPT", attempt, 1) == 0 &&
           (!run->is_retry || setenv("ONCE_DOUBT", "1", 1) == 0) &&
           (!run->point[0] || setenv("ONCE_POINT", run->point, 1) == 0);
}

/* The exit status; RUN_LATE: nothing was run, and the attempt is still to be taken back. */
static int execute(struct run *run)
{
    struct once_buf rest[3] = {{0}};
    struct run_lease lease;
    struct run_start start = {.signals = &run->signals,
                              .command = run->args->command,
                              .until_ms = run->begun_ms + run->args->lease_ms};
    int error = ENOMEM, status;

    if (run_signals_ending()) {
        run_begin_undo(run, "a signal came before the command was started");
        cli_reach_rest(&run->reach);
        run_signals_breathe(&run->signals);
        return cli_error(&cli_run, CLI_FAILED, "a signal came; nothing was run");
    }
    if (set_environment(run))
        error = run_child_start(&start, &run->child);
    if (error == RUN_LATE)
        return RUN_LATE;
    if (error != 0)
        return run_end_unstarted(run, error);
    run->unread[STDOUT_FILENO] = run->unread[STDERR_FILENO] = run->args->json;
    run_lease_start(&lease, run);
    run_relay(run, rest);
    run_lease_stop(&lease);
    status = run_end(run, &lease, rest);
    for (int i = 0; i < 3; i++)
        once_buf_release(&rest[i]);
    return status;
}

static int begin_and_execute_once(struct run *run)
{
    struct once_reply reply = {0};
    int status = run_begin(run, &reply);

    if (status != CLI_OK) {
        run_signals_breathe(&run->signals);
        return status;
    }
    if (reply.word == ONCE_EXECUTE)
        status = execute(run);
    else if (reply.word == ONCE_REPLAY)
        status = run_replay(run, &reply);
    else
        status = run_refused(run, &reply);
    once_reply_release(&reply);
    return status;
}

/* Again, where the lease was over before the command could be started. */
static int begin_and_execute(struct run *run)
{
    int status = begin_and_execute_once(run);

    for (int i = 1; i < ONCE_RUN_HELD_UP_MAX && status == RUN_LATE; i++) {
        run_begin_undo(run, "the runner was held up, and ran nothing");
        cli_reach_rest(&run->reach);
        run_signals_breathe(&run->signals);
        status = begin_and_execute_once(run);
    }
    return status == RUN_LATE ? run_end_unstarted(run, RUN_LATE) : status;
}

static int run_with(const struct run_args *args)
{
    struct run run = {.args = args,
                      .name = once_name_of(args->ns, args->key),
                      .at_store = PTHREAD_MUTEX_INITIALIZER,
                      .signals = {.fd = -1},
                      .child = {.out = -1, .err = -1}};
    int err, status = run_fingerprint(args, &run.fingerprint);

    if (status == CLI_OK)
        status = cli_reach_open(&cli_run, &args->where, true, &run.reach);
    if (status != CLI_OK)
        return status;
    run.reach.rejects_doubt = args->reject_doubt;
    err = cli_owner_make(&run.owner);
    if (err == ONCE_OK)
        err = run_signals_take(&run.at_store, &run.signals);
    run_output_init(&run.output, args->output_max);
    if (err == ONCE_OK)
        status = begin_and_execute(&run);
    else
        status = cli_error(&cli_run, CLI_INTERNAL, "%s; nothing was run", once_err_text(err));
    run_output_release(&run.output);
    run_child_release(&run.child);
    if (run.signals.fd >= 0)
        (void)close(run.signals.fd);
    return cli_reach_close(&cli_run, &run.reach, status);
}

static int run_run(int argc, char **argv)
{
    struct run_args args;
    int status = run_args_read(argc, argv, &args);

    if (status == CLI_OK)
        status = run_with(&args);
    run_args_release(&args);
    return status;
}

const struct cli_command cli_run = {
    .name = "run",
    .summary = "run a command once per key, and replay its output and exit status",
    .help = run_help,
    .run = run_run,
    .options = run_options,
    .option_count = RUN_OPTION_COUNT,
};
