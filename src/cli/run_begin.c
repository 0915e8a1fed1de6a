/* SPDX-License-Identifier: Apache-2.0
 *
 * Begins a run: the key becomes ours before anything of the command happens.
 *
 * An owner that is gone (its process on this machine has ended) never says how it went: its
 * lease is given up under the fence that was seen, and the doubt is there at once. Giving up
 * another's lease never makes a key free: it only says sooner that nobody knows (INV-4).
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "cli/echo.h"
#include "cli/folder.h"
#include "cli/run.h"

static const char RUNNING[] = "running";

/* ---- Asking ---------------------------------------------------------------------------------- */

/* Errors after which the same call may go well. */
static bool may_pass(int err)
{
    return err == ONCE_ERR_LOCKED || err == ONCE_ERR_IO || err == ONCE_ERR_STOPPED ||
           err == ONCE_ERR_LOADING || err == ONCE_ERR_RATE || err == ONCE_ERR_CLOSED ||
           err == ONCE_ERR_FULL;
}

int run_ask(struct run *run, struct once_op *op, once_ms wait_ms)
{
    once_ms end_ms = run_clock_ms() + ONCE_RUN_STORE_MS;
    int err;

    run->reach.patience_ms = RUN_STEP_MS;
    op->ns = run->name.ns;
    op->key = run->name.key;
    for (;;) {
        err = cli_reach_op(&run->reach, op, wait_ms);
        if (!may_pass(err) || run_clock_ms() >= end_ms || run_signals_ending())
            return err;
        once_reply_release(&op->reply);
    }
}

static int tell_error(struct run *run, const struct once_reply *reply)
{
    struct once_message message;

    snprintf(message.text, sizeof(message.text), "%s; nothing was run",
             reply->what ? reply->what : cli_reach_text(&run->reach, reply->err));
    return cli_store_error(&cli_run, reply->err, &message);
}

static int ask_begin(struct run *run, enum once_on_doubt on_doubt, once_ms wait_ms,
                     struct once_reply *ret_reply)
{
    struct once_op op = {.call = ONCE_CALL_BEGIN,
                         .fingerprint = {run->fingerprint.bytes, sizeof(run->fingerprint.bytes)},
                         .owner = once_bytes_of(run->owner.text),
                         .ttl_ms = run->args->ttl_ms,
                         .lease_ms = run->args->lease_ms,
                         .on_doubt = on_doubt};
    int status;

    run->begun_ms = run_clock_ms();
    if (run_ask(run, &op, wait_ms) == ONCE_OK) {
        *ret_reply = op.reply;
        return CLI_OK;
    }
    status = tell_error(run, &op.reply);
    once_reply_release(&op.reply);
    return status;
}

/* ---- Others ---------------------------------------------------------------------------------- */

/* Is the attempt that stands in our way one that will never end? Then that is said for it. True:
 * ask again. */
static bool clear_away(struct run *run)
{
    struct once_op look = {.call = ONCE_CALL_GET};
    struct once_op say = {.call = ONCE_CALL_RENEW, .lease_ms = 0};
    bool is_open, cleared = false;

    if (run_ask(run, &look, 0) == ONCE_OK && look.reply.word == ONCE_DONE) {
        is_open = look.reply.state == ONCE_STATE_STARTED || look.reply.state == ONCE_STATE_DOUBT;
        say.fence = look.reply.fence;
        if (is_open && once__bytes_equal(look.reply.owner, once_bytes_of(run->owner.text))) {
            /* Our own begin, whose answer came too late: nothing of it happened. But a doubt that
             * it took over is one still: it is taken over again. */
            say.call = ONCE_CALL_FAIL;
            cleared = !run->is_retry && run_ask(run, &say, 0) == ONCE_OK;
        } else if (look.reply.state == ONCE_STATE_STARTED && cli_owner_gone(look.reply.owner)) {
            cleared = run_ask(run, &say, 0) == ONCE_OK;
        }
        once_reply_release(&say.reply);
    }
    once_reply_release(&look.reply);
    return cleared;
}

/* begin until it is something else than the way of an owner that is gone. */
static int begin_patiently(struct run *run, struct once_reply *ret_reply)
{
    enum once_on_doubt on_doubt = ONCE_ON_DOUBT_REJECT;
    once_ms end_ms = run_clock_ms() + run->args->wait_ms, wait_ms = 0;
    bool looked = false;

    for (;;) {
        struct once_reply reply;
        int status = ask_begin(run, on_doubt, wait_ms, &reply);

        if (status != CLI_OK)
            return status;
        wait_ms = end_ms - run_clock_ms();
        wait_ms = wait_ms < 0 ? 0 : wait_ms < RUN_STEP_MS ? wait_ms : RUN_STEP_MS;
        if (reply.word == ONCE_BUSY || (reply.word == ONCE_DOUBT && !looked)) {
            bool waits = reply.word == ONCE_BUSY && wait_ms > 0;

            looked = reply.word == ONCE_DOUBT;
            if (clear_away(run) || waits) {
                once_reply_release(&reply);
                cli_reach_rest(&run->reach);
                run_signals_breathe(&run->signals);
                continue;
            }
        }
        if (reply.word == ONCE_DOUBT && run->args->retry_doubt &&
            on_doubt == ONCE_ON_DOUBT_REJECT) {
            on_doubt = ONCE_ON_DOUBT_RETRY;
            run->is_retry = true;
            once_reply_release(&reply);
            continue;
        }
        *ret_reply = reply;
        return CLI_OK;
    }
}

/* ---- Ours ------------------------------------------------------------------------------------ */

void run_begin_undo(struct run *run, const char *reason)
{
    struct once_op forget = {.call = ONCE_CALL_FORGET, .fence = run->fence};
    struct once_op fail = {
        .call = ONCE_CALL_FAIL, .fence = run->fence, .result = once_bytes_of(reason)};
    struct once_op doubt = {.call = ONCE_CALL_RENEW, .fence = run->fence, .lease_ms = 0};
    bool gone = false;

    /* That this attempt did nothing says nothing about the one that it was to repeat (INV-4). */
    if (run->is_retry) {
        (void)run_ask(run, &doubt, 0);
        once_reply_release(&doubt.reply);
        return;
    }
    /* Of a first attempt nothing stays: the key is not bound to a command line that has a typo. Not
     * everyone may forget, and there may be a history; then it failed. */
    if (run->attempt == 1) {
        gone = run_ask(run, &forget, 0) == ONCE_OK && forget.reply.word == ONCE_DONE;
        once_reply_release(&forget.reply);
    }
    if (!gone) {
        (void)run_ask(run, &fail, 0);
        once_reply_release(&fail.reply);
    }
}

static void keep_execute(struct run *run, const struct once_reply *reply)
{
    struct timespec now;
    size_t size = reply->point.size < ONCE_POINT_SIZE_MAX ? reply->point.size : ONCE_POINT_SIZE_MAX;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    run->started_ms = (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    run->fence = reply->fence;
    run->attempt = reply->attempt;
    /* From here on it is in a store that there is: in an empty one that takes its place, others
     * would find nothing of it. */
    run->reach.may_make = false;
    if (size > 0)
        memcpy(run->point, reply->point.data, size);
    run->point[size] = '\0';
    if (strcmp(run->point, RUNNING) == 0)
        run->point[0] = '\0'; /* that is ours, and says nothing to the command */
}

/* A command that made a recovery point of its own finds it again: then ours is left out. */
static enum once_word say_running(struct run *run, int *ret_err)
{
    struct once_op op = {
        .call = ONCE_CALL_CHECKPOINT, .fence = run->fence, .point = once_bytes_of(RUNNING)};
    struct once_buf facts = {0};
    enum once_word word;

    *ret_err = ONCE_OK;
    if (run->point[0])
        return ONCE_DONE;
    *ret_err = run_facts(run, 0, &facts);
    op.data = once_buf_bytes(&facts);
    if (*ret_err == ONCE_OK)
        *ret_err = run_ask(run, &op, 0);
    word = op.reply.word;
    once_reply_release(&op.reply);
    once_buf_release(&facts);
    /* It is for people: a full disk is no reason not to run what was begun. */
    if (*ret_err == ONCE_ERR_SPACE || *ret_err == ONCE_ERR_TOO_LARGE)
        *ret_err = ONCE_OK, word = ONCE_DONE;
    return word;
}

/* After a pause between begin and now the lease may be over, and someone may look into the
 * doubt. */
static enum once_word still_ours(struct run *run, int *ret_err)
{
    struct once_op op = {
        .call = ONCE_CALL_RENEW, .fence = run->fence, .lease_ms = run->args->lease_ms};
    once_ms asked_ms = run_clock_ms();
    enum once_word word;

    *ret_err = ONCE_OK;
    if (asked_ms - run->begun_ms < run->args->lease_ms / 3)
        return ONCE_DONE;
    *ret_err = run_ask(run, &op, 0);
    run->begun_ms = asked_ms;
    word = op.reply.word;
    once_reply_release(&op.reply);
    return word;
}

static int begin(struct run *run, struct once_reply *ret_reply)
{
    for (int i = 0; i < ONCE_RUN_HELD_UP_MAX; i++) {
        struct once_reply reply;
        enum once_word word;
        int err, status = begin_patiently(run, &reply);

        if (status != CLI_OK)
            return status;
        if (reply.word != ONCE_EXECUTE) {
            *ret_reply = reply;
            return CLI_OK;
        }
        keep_execute(run, &reply);
        word = say_running(run, &err);
        if (err == ONCE_OK && word == ONCE_DONE)
            word = still_ours(run, &err);
        if (err == ONCE_OK && word == ONCE_DONE) {
            *ret_reply = reply;
            return CLI_OK;
        }
        once_reply_release(&reply);
        run_begin_undo(run, "the runner was held up, and ran nothing");
        if (err != ONCE_OK)
            return cli_error(&cli_run, cli_store_status(err), "%s; nothing was run",
                             cli_reach_text(&run->reach, err));
        cli_reach_rest(&run->reach);
        run_signals_breathe(&run->signals);
    }
    return cli_error(&cli_run, CLI_UNAVAILABLE,
                     "the store is slower than the lease: it was over %d times before the command "
                     "could be started; nothing was run. Give a longer --lease",
                     ONCE_RUN_HELD_UP_MAX);
}

int run_begin(struct run *run, struct once_reply *ret_reply)
{
    int status = begin(run, ret_reply);

    cli_reach_rest(&run->reach);
    return status;
}
