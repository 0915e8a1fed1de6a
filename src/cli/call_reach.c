/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal of `once call`, over a folder or the server that owns it; owners that are gone; and
 * the signals that stop a call.
 *
 * The folder is let go after every step, so that other commands get at it while this one waits for
 * the network or sleeps.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/call.h"

enum { BURIALS_MAX = 3, WAIT_STEP_MS = 500 };

static volatile sig_atomic_t asked_to_stop;

/* ---- The journal ----------------------------------------------------------------------------- */

/* The store is opened, and made, when the first step needs it: not for a request that is wrong. */
static int reach(struct call_journal *journal)
{
    int err;

    if (journal->open)
        return ONCE_OK;
    err = cli_reach_try(&journal->args->where, !journal->args->resume, &journal->reach,
                        &journal->message);
    journal->open = err == ONCE_OK;
    return err;
}

/* Who is killed later must know what to resume: the key is told before it is used. */
static void tell_key(struct call_journal *journal)
{
    const struct call_args *args = journal->args;

    if (args->key_made && !args->quiet && !journal->key_told)
        (void)cli_message(&cli_call, CLI_OK, "the key is %s", args->key.text);
    journal->key_told = true;
}

/* cli_reach_op repeats by itself. A renewal comes while the network is read from, so it must not
 * take long; the next one is not far. */
static int perform(void *user, struct once_op *op, once_ms wait_ms)
{
    struct call_journal *journal = user;
    bool renewal = op->call == ONCE_CALL_RENEW && op->lease_ms > 0;
    int err;

    tell_key(journal);
    err = reach(journal);
    if (err != ONCE_OK) {
        op->reply = (struct once_reply){.err = err};
        return err;
    }
    journal->reach.patience_ms = renewal ? CALL_RENEW_PATIENCE_MS : CALL_PATIENCE_MS;
    /* In steps, so that a signal gets through. */
    for (once_ms left_ms = wait_ms;; left_ms -= WAIT_STEP_MS) {
        err = cli_reach_op(&journal->reach, op, left_ms < WAIT_STEP_MS ? left_ms : WAIT_STEP_MS);
        if (err != ONCE_OK || op->reply.word != ONCE_BUSY || left_ms <= WAIT_STEP_MS ||
            op->call != ONCE_CALL_BEGIN || call_stopped(NULL))
            break;
        once_reply_release(&op->reply);
    }
    if (err != ONCE_OK) {
        snprintf(journal->message.text, sizeof(journal->message.text), "%s",
                 op->reply.what ? op->reply.what : cli_reach_text(&journal->reach, err));
        op->reply.what = NULL; /* good until the next call only */
    }
    cli_reach_rest(&journal->reach);
    return err;
}

void call_journal_init(const struct call_args *args, struct call_journal *ret_journal)
{
    *ret_journal = (struct call_journal){.args = args,
                                         .journal = {.perform = perform, .user = ret_journal}};
}

int call_journal_reach(struct call_journal *journal, struct cli_reach **ret_reach)
{
    *ret_reach = &journal->reach;
    return reach(journal);
}

int call_journal_close(struct call_journal *journal, int status)
{
    return cli_reach_close(&cli_call, &journal->reach, status);
}

bool call_bury(struct call_journal *journal, struct once_bytes ns, struct once_bytes key)
{
    struct once_op get = {.call = ONCE_CALL_GET, .ns = ns, .key = key};
    struct once_op renew = {.call = ONCE_CALL_RENEW, .ns = ns, .key = key, .lease_ms = 0};
    bool gone = perform(journal, &get, 0) == ONCE_OK && get.reply.word == ONCE_DONE &&
                get.reply.state == ONCE_STATE_STARTED && cli_owner_gone(get.reply.owner);

    renew.fence = get.reply.fence;
    once_reply_release(&get.reply);
    if (!gone)
        return false;
    gone = perform(journal, &renew, 0) == ONCE_OK && renew.reply.word == ONCE_DONE;
    once_reply_release(&renew.reply);
    return gone;
}

/* ---- Signals --------------------------------------------------------------------------------- */

/* The first asks to stop in good order; a second of the same kind ends the process as ever. */
static void on_signal(int number)
{
    asked_to_stop = number;
}

bool call_stopped(void *user)
{
    (void)user;
    return asked_to_stop != 0;
}

void call_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct sigaction old;

        /* One that is ignored (nohup) stays so. */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
    }
}

/* ---- One call -------------------------------------------------------------------------------- */

static void tell_try(void *user, const struct once_http_try *one)
{
    const struct call_args *args = user;

    if (args->quiet || one->wait_ms < 0)
        return;
    (void)cli_message(&cli_call, CLI_OK, "attempt %u: %s; the next one in %lld.%01lld s",
                      one->number, one->text, (long long)(one->wait_ms / 1000),
                      (long long)(one->wait_ms % 1000 / 100));
}

/* BUSY is looked into before it is waited for: its owner may be gone. */
int call_once(const struct call_args *args, struct call_journal *journal, struct once_bytes key,
              bool resume, struct once_http_answer *ret_answer)
{
    struct once_http_options options = args->options;
    struct call_args told = *args;
    struct cli_owner owner;
    int err = cli_owner_make(&owner);

    *ret_answer = (struct once_http_answer){0};
    if (err != ONCE_OK)
        return err;
    options.owner = once_bytes_of(owner.text);
    options.stop = call_stopped;
    options.tell = tell_try;
    options.user = &told;
    options.wait_ms = 0;
    for (int burials = 0;; burials++) {
        struct once_bytes ns = options.ns.size > 0 ? options.ns : once_bytes_of("call");
        bool waited = options.wait_ms > 0;

        once_http_answer_release(ret_answer);
        err = resume ? once_http_resume(&journal->journal, key, &options, ret_answer)
                     : once_http_send(&journal->journal, key, &args->request, &options, ret_answer);
        if (err != ONCE_OK || ret_answer->outcome != ONCE_HTTP_BUSY || burials == BURIALS_MAX ||
            call_stopped(NULL))
            return err;
        if (!call_bury(journal, ns, key)) {
            if (waited || args->options.wait_ms == 0)
                return err;
            options.wait_ms = args->options.wait_ms;
        }
    }
}
