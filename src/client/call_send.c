/* SPDX-License-Identifier: Apache-2.0
 *
 * A call from its begin to its end:
 *
 *     begin ── EXECUTE ── checkpoint "request" ── attempt, wait, attempt, … ─┬─ complete: answered
 *       │                                                                    ├─ fail: unreached
 *       └ REPLAY, BUSY, …: told as they are                                  └─ renew 0: in doubt
 *
 * Invariants: before the first byte goes out, key and request are durable. Every attempt of every
 * process under this key sends the same request. A call fails only if no attempt of any process got
 * as far as sending; otherwise, without a final answer, it is in doubt. An answer is told after it
 * is durable.
 */
#include "client/call_inner.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { TICK_MS = 100 };

struct call {
    struct once_http_options options;
    struct once__call_claim claim;
    struct once__call_request request;
    struct once_http_answer *answer;
    struct once_fingerprint fingerprint;
    struct once_key owner;
    once_ms end_ms;
    bool maybe_sent; /* by an earlier attempt of another process, or by this one */
    bool stopped;
};

static int end(struct call *call, enum once_http_outcome outcome)
{
    call->answer->outcome = outcome;
    return ONCE_OK;
}

/* ---- Between attempts ------------------------------------------------------------------------ */

/* Asked while something is waited for: keeps the lease, and says when to stop. */
static bool pause_call(void *user)
{
    struct call *call = user;

    once__call_renew(&call->claim);
    if (!call->stopped && call->options.stop && call->options.stop(call->options.user))
        call->stopped = true;
    return call->stopped || call->claim.lost;
}

static bool wait_ms(struct call *call, once_ms wait)
{
    once_ms until_ms = once__call_now_ms() + wait;

    for (;;) {
        once_ms left_ms = until_ms - once__call_now_ms();
        once_ms tick_ms = left_ms < TICK_MS ? left_ms : TICK_MS;
        struct timespec tick = {.tv_nsec = tick_ms * 1000000};

        if (pause_call(call))
            return false;
        if (left_ms <= 0)
            return true;
        (void)nanosleep(&tick, NULL);
    }
}

/* How long until the next attempt; -1: there is none. */
static once_ms next_wait(struct call *call, const struct once__call_reply *reply)
{
    const struct once_http_options *options = &call->options;
    const char *after = once__call_header(&reply->headers, "Retry-After");
    once_ms after_ms = reply->whole && after ? once__call_retry_after_ms(after, (int64_t)time(NULL))
                                             : -1;
    once_ms wait;

    wait = once__call_backoff_ms(options->backoff_ms, options->backoff_ms_max,
                                 call->answer->attempts - 1, once__call_random());
    if (after_ms > options->retry_after_ms_max)
        after_ms = options->retry_after_ms_max;
    if (wait < after_ms)
        wait = after_ms;
    if (call->answer->attempts >= options->attempts_max ||
        once__call_now_ms() + wait >= call->end_ms || !once__call_budget_take(options->budget))
        return -1;
    return wait;
}

static void tell_try(struct call *call, const struct once__call_reply *reply, once_ms wait)
{
    struct once_http_try one = {.number = call->answer->attempts,
                                .status = reply->status,
                                .text = call->answer->text,
                                .wait_ms = wait};

    if (reply->whole)
        snprintf(call->answer->text, sizeof(call->answer->text), "HTTP status %d", reply->status);
    else
        snprintf(call->answer->text, sizeof(call->answer->text), "%s", reply->text);
    call->answer->status = reply->status;
    if (call->options.tell)
        call->options.tell(call->options.user, &one);
}

/* ---- Endings --------------------------------------------------------------------------------- */

/* Somebody else ended it, or the answer to a complete was lost: what is kept is the answer. */
static int settle(struct call *call)
{
    struct once_op op = {.call = ONCE_CALL_GET};
    int err = once__call_perform(&call->claim, &op, 0);
    bool completed = err == ONCE_OK && op.reply.word == ONCE_DONE &&
                     op.reply.state == ONCE_STATE_COMPLETED;

    if (completed)
        err = once__call_result_read(op.reply.code, op.reply.result, call->answer);
    once_reply_release(&op.reply);
    if (err != ONCE_OK)
        return err;
    return end(call, completed ? ONCE_HTTP_REPLAYED : ONCE_HTTP_STALE);
}

/* Keeps as much of the answer as goes in: all that was asked for, else what always goes in. */
static int keep(struct call *call, const struct once__call_reply *reply, enum once_word *ret_word)
{
    struct once_buf result;
    int err;

    once_buf_init(&result, ONCE_RESULT_SIZE_MAX);
    err = once__call_result_write(reply, call->options.kept_size_max, true, &result);
    if (err == ONCE_OK)
        err = once__call_complete(&call->claim, reply->status, once_buf_bytes(&result), ret_word);
    if (err == ONCE_ERR_SPACE || err == ONCE_ERR_TOO_LARGE || err == ONCE_ERR_FULL) {
        once_buf_clear(&result);
        err = once__call_result_write(reply, 0, false, &result);
        if (err == ONCE_OK)
            err = once__call_complete(&call->claim, reply->status, once_buf_bytes(&result),
                                      ret_word);
    }
    once_buf_release(&result);
    return err;
}

static int finish(struct call *call, struct once__call_reply *reply)
{
    enum once_word word = ONCE_STALE;
    int err = keep(call, reply, &word);
    int taken;

    call->answer->text[0] = '\0';
    /* DOUBT: a policy of the namespace takes this status for an unknown outcome. */
    if (err == ONCE_OK && word != ONCE_DONE && word != ONCE_DOUBT)
        return settle(call);
    taken = once__call_answer_take(reply, call->answer);
    if (err != ONCE_OK)
        return once__call_wrong(err, call->answer->text,
                                "the answer came and could not be kept: %s", once_err_text(err));
    if (taken != ONCE_OK)
        return taken;
    return end(call, word == ONCE_DOUBT ? ONCE_HTTP_DOUBT : ONCE_HTTP_ANSWERED);
}

/* Nothing was ever sent. The point says so first: if this process is killed before the fail, the
 * next one knows. */
static int unreached(struct call *call, struct once_bytes data)
{
    char reason[ONCE_MESSAGE_SIZE + 64];
    enum once_word word;
    int err = once__call_checkpoint(&call->claim, ONCE__CALL_POINT_UNREACHED, data, &word);

    snprintf(reason, sizeof(reason), "nothing was sent: %s", call->answer->text);
    if (err == ONCE_OK && word == ONCE_DONE)
        err = once__call_fail(&call->claim, reason, &word);
    if (err != ONCE_OK)
        return err;
    return word == ONCE_DONE ? end(call, ONCE_HTTP_UNREACHED) : settle(call);
}

/* No final answer: what is known of it is said, and no more. */
static int give_up(struct call *call, struct once_bytes data)
{
    enum once_word word;
    int err;

    if (call->claim.lost)
        return settle(call);
    if (!call->maybe_sent)
        return unreached(call, data);
    err = once__call_give_up(&call->claim, &word);
    /* An owner that cannot say so is in doubt all the same, when its lease is over. */
    if (err == ONCE_OK && word != ONCE_DONE)
        return settle(call);
    return end(call, ONCE_HTTP_DOUBT);
}

/* ---- Attempts -------------------------------------------------------------------------------- */

static int attempt(struct call *call, struct once__call_reply *ret_reply)
{
    once_ms left_ms = call->end_ms - once__call_now_ms();
    struct once__call_transfer transfer = {.request = &call->request,
                                           .key = call->claim.key,
                                           .ca_file = call->options.ca_file,
                                           .timeout_ms = call->options.timeout_ms,
                                           .connect_ms = call->options.connect_ms,
                                           .answer_size_max = call->options.answer_size_max,
                                           .pause = pause_call,
                                           .user = call};
    int err;

    if (transfer.timeout_ms > left_ms)
        transfer.timeout_ms = left_ms > 0 ? left_ms : 1;
    call->answer->attempts++;
    err = once__call_transfer(&transfer, ret_reply);
    if (ret_reply->sent) {
        call->answer->sent++;
        call->maybe_sent = true;
    }
    return err;
}

/* data is what the point "request" holds. */
static int send_until_final(struct call *call, struct once_bytes data)
{
    call->end_ms = once__call_now_ms() + call->options.deadline_ms;
    once__call_budget_begin(call->options.budget);
    for (;;) {
        struct once__call_reply reply;
        int err = attempt(call, &reply);
        enum once__call_fate fate = once__call_fate(&reply, &call->options);
        once_ms wait = -1;

        if (err == ONCE_OK && fate == ONCE__CALL_FINAL)
            err = finish(call, &reply);
        else if (err == ONCE_OK && fate == ONCE__CALL_AGAIN)
            wait = next_wait(call, &reply);
        if (fate != ONCE__CALL_FINAL)
            tell_try(call, &reply, wait);
        once__call_reply_release(&reply);
        if (fate == ONCE__CALL_FINAL)
            return err;
        if (err != ONCE_OK) {
            (void)give_up(call, data);
            return err;
        }
        if (wait < 0 || !wait_ms(call, wait))
            return give_up(call, data);
    }
}

/* It is ours: makes the request durable, then sends it. */
static int execute(struct call *call, const struct once_reply *begun)
{
    struct once_buf data;
    enum once_word word = ONCE_DONE;
    int err;

    /* Nobody gets past this point without having kept the request; an attempt that ended there may
     * have been sent. */
    call->maybe_sent = begun->point.size == strlen(ONCE__CALL_POINT_REQUEST) &&
                       memcmp(begun->point.data, ONCE__CALL_POINT_REQUEST, begun->point.size) == 0;
    call->answer->fence = begun->fence;
    once_buf_init(&data, ONCE_DATA_SIZE_MAX);
    err = once__call_request_write(&call->request, &data);
    if (err == ONCE_OK && !call->maybe_sent)
        err = once__call_checkpoint(&call->claim, ONCE__CALL_POINT_REQUEST, once_buf_bytes(&data),
                                    &word);
    if (err != ONCE_OK && !call->maybe_sent) {
        (void)once__call_wrong(err, call->answer->text, "the request could not be kept: %s",
                               once_err_text(err));
        if (once__call_fail(&call->claim, "nothing was sent: the request could not be kept",
                            &word) != ONCE_OK)
            word = ONCE_STALE; /* the lease ends by itself, and the next one sees no request */
    } else if (err == ONCE_OK && word != ONCE_DONE) {
        err = settle(call);
    } else if (err == ONCE_OK) {
        err = send_until_final(call, once_buf_bytes(&data));
    }
    once_buf_release(&data);
    return err;
}

/* ---- Beginnings ------------------------------------------------------------------------------ */

/* A doubt about something that was never sent is none. */
static bool never_sent(const struct once_reply *reply)
{
    size_t size = strlen(ONCE__CALL_POINT_UNREACHED);

    return reply->word == ONCE_DOUBT &&
           (reply->point.size == 0 ||
            (reply->point.size == size &&
             memcmp(reply->point.data, ONCE__CALL_POINT_UNREACHED, size) == 0));
}

static int begin(struct call *call, enum once_on_doubt on_doubt)
{
    struct once_reply reply;
    int err = once__call_begin(&call->claim, on_doubt, call->options.wait_ms, &reply);

    if (err == ONCE_OK && never_sent(&reply)) {
        once_reply_release(&reply);
        err = once__call_begin(&call->claim, ONCE_ON_DOUBT_RETRY, 0, &reply);
    }
    if (err != ONCE_OK)
        (void)once__call_wrong(err, call->answer->text, "%s",
                               reply.what ? reply.what : once_err_text(err));
    else if (reply.word == ONCE_EXECUTE)
        err = execute(call, &reply);
    else if (reply.word == ONCE_REPLAY)
        err = end(call, ONCE_HTTP_REPLAYED) == ONCE_OK
                  ? once__call_result_read(reply.code, reply.result, call->answer)
                  : ONCE_OK;
    else if (reply.word == ONCE_MISMATCH)
        err = end(call, ONCE_HTTP_MISMATCH);
    else if (reply.word == ONCE_TOO_OLD)
        err = end(call, ONCE_HTTP_TOO_OLD);
    else
        err = end(call, reply.word == ONCE_DOUBT ? ONCE_HTTP_DOUBT : ONCE_HTTP_BUSY);
    if (call->answer->fence == 0)
        call->answer->fence = reply.fence;
    call->answer->retry_ms = reply.retry_ms;
    once_reply_release(&reply);
    return err;
}

static int prepare(struct call *call, const struct once_http_journal *journal,
                   struct once_bytes key, const struct once_http_options *options,
                   struct once_http_answer *ret_answer)
{
    struct once_defect defect;
    int err;

    *ret_answer = (struct once_http_answer){0};
    *call = (struct call){.answer = ret_answer};
    if (!journal || !journal->perform)
        return once__call_wrong(ONCE_ERR_INVALID, ret_answer->text, "no journal");
    err = once__call_options_fill(options, &call->options, ret_answer->text);
    if (err != ONCE_OK)
        return err;
    err = once_key_check(key, &defect);
    if (err == ONCE_OK)
        err = once_namespace_check(call->options.ns, &defect);
    if (err != ONCE_OK)
        return once__call_wrong(err, ret_answer->text, "%s", defect.what);
    call->claim = (struct once__call_claim){.journal = journal,
                                            .ns = call->options.ns,
                                            .key = key,
                                            .owner = call->options.owner,
                                            .ttl_ms = call->options.ttl_ms,
                                            .lease_ms = call->options.lease_ms};
    if (call->claim.owner.size > 0)
        return ONCE_OK;
    err = once_key_uuid4(&call->owner);
    if (err != ONCE_OK)
        return once__call_wrong(err, ret_answer->text, "%s", once_err_text(err));
    call->claim.owner = (struct once_bytes){(const uint8_t *)call->owner.text, call->owner.size};
    return ONCE_OK;
}

/* A bare key has fewer characters to choose from. */
static int check_key(const struct call *call)
{
    struct once_buf value;
    int err;

    once_buf_init(&value, ONCE_SEND_HEADERS_SIZE_MAX);
    err = once__call_key_value(call->claim.key, call->request.bare_key, &value);
    once_buf_release(&value);
    if (err == ONCE_ERR_KEY_CHARACTER)
        return once__call_wrong(err, call->answer->text,
                                "the key has a blank, a quote, a backslash, a comma or a "
                                "semicolon, so it cannot be sent bare");
    return err;
}

int once_http_send(const struct once_http_journal *journal, struct once_bytes key,
                   const struct once_http_request *request, const struct once_http_options *options,
                   struct once_http_answer *ret_answer)
{
    struct call call;
    int err;

    if (!ret_answer)
        return ONCE_ERR_INVALID;
    err = prepare(&call, journal, key, options, ret_answer);
    if (err == ONCE_OK && !request)
        err = once__call_wrong(ONCE_ERR_INVALID, ret_answer->text, "no request");
    if (err == ONCE_OK)
        err = once__call_request_make(request, &call.request, ret_answer->text);
    if (err == ONCE_OK)
        err = check_key(&call);
    if (err == ONCE_OK)
        err = once__call_request_fingerprint(&call.request, &call.fingerprint);
    if (err == ONCE_OK) {
        call.claim.fingerprint = (struct once_bytes){call.fingerprint.bytes,
                                                     sizeof(call.fingerprint.bytes)};
        err = begin(&call, call.options.on_doubt);
    }
    once__call_request_release(&call.request);
    return err;
}

/* ---- Resuming -------------------------------------------------------------------------------- */

/* Killed between its begin and its request, if it was a call: then nothing was sent. But nothing
 * says so, it may be any operation, and to fail that would make its doubt a lie (INV-4): it is left
 * as it is. The same request sent again has the fingerprint that says so. */
static int tell_unsent(struct call *call, const struct once_reply *found)
{
    call->answer->fence = found->fence;
    if (found->state == ONCE_STATE_STARTED) {
        if (found->lease_end_ms > found->now_ms && found->now_ms > 0)
            call->answer->retry_ms = found->lease_end_ms - found->now_ms;
        return end(call, ONCE_HTTP_BUSY);
    }
    (void)once__call_wrong(ONCE_OK, call->answer->text,
                           "no request is kept under this key. If it was a call, it ended before "
                           "anything was sent, and the same request again goes on with it");
    return end(call, found->state == ONCE_STATE_FAILED ? ONCE_HTTP_UNREACHED : ONCE_HTTP_DOUBT);
}

static int resume(struct call *call, const struct once_reply *found)
{
    int err;

    call->claim.fingerprint = (struct once_bytes){found->fingerprint.bytes,
                                                  sizeof(found->fingerprint.bytes)};
    if (found->state == ONCE_STATE_COMPLETED) {
        call->answer->fence = found->fence;
        err = once__call_result_read(found->code, found->result, call->answer);
        return err == ONCE_OK ? end(call, ONCE_HTTP_REPLAYED) : err;
    }
    if (found->point.size == 0)
        return tell_unsent(call, found);
    err = once__call_request_read(found->data, &call->request, call->answer->text);
    if (err == ONCE_OK)
        err = begin(call, ONCE_ON_DOUBT_RETRY);
    once__call_request_release(&call->request);
    return err;
}

int once_http_resume(const struct once_http_journal *journal, struct once_bytes key,
                     const struct once_http_options *options, struct once_http_answer *ret_answer)
{
    struct once_op op = {.call = ONCE_CALL_GET};
    struct call call;
    int err;

    if (!ret_answer)
        return ONCE_ERR_INVALID;
    err = prepare(&call, journal, key, options, ret_answer);
    if (err != ONCE_OK)
        return err;
    err = once__call_perform(&call.claim, &op, 0);
    if (err == ONCE_OK && op.reply.word == ONCE_DONE)
        err = resume(&call, &op.reply);
    else if (err == ONCE_OK)
        err = end(&call, ONCE_HTTP_ABSENT);
    else
        (void)once__call_wrong(err, ret_answer->text, "%s",
                               op.reply.what ? op.reply.what : once_err_text(err));
    once_reply_release(&op.reply);
    return err;
}
