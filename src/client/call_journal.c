/* SPDX-License-Identifier: Apache-2.0
 *
 * A call's record in the journal: claims it, keeps its lease, ends it.
 *
 * Every step is idempotent (the owner names a begin, the fence the rest), so a step whose answer
 * was lost is asked again, within the journal's patience.
 */
#include "client/call_inner.h"

#include <string.h>
#include <time.h>

#include "base/random.h"

enum { REPEAT_MS = 100, RENEW_AGAIN_MS = 500 };

/* ---- A store of this process ----------------------------------------------------------------- */

static void sleep_ms(once_ms ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&left, NULL); /* cut short by a signal is as good */
}

/* A store in this process does not park: it is asked again as it says. */
static int perform_in_store(void *user, struct once_op *op, once_ms wait_ms)
{
    once_ms end_ms = once__call_now_ms() + wait_ms;

    for (;;) {
        int err = once_call(user, op, 1);
        once_ms left_ms = end_ms - once__call_now_ms();
        once_ms pause_ms = op->reply.retry_ms < REPEAT_MS ? op->reply.retry_ms : REPEAT_MS;

        if (err != ONCE_OK || op->call != ONCE_CALL_BEGIN || op->reply.word != ONCE_BUSY ||
            left_ms <= 0)
            return err;
        once_reply_release(&op->reply);
        sleep_ms(pause_ms < left_ms ? pause_ms : left_ms);
    }
}

struct once_http_journal once_http_journal_of(struct once_store *store)
{
    return (struct once_http_journal){.perform = perform_in_store, .user = store};
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static bool is_passing(int err)
{
    return err == ONCE_ERR_IO || err == ONCE_ERR_STOPPED || err == ONCE_ERR_LOCKED ||
           err == ONCE_ERR_LOADING || err == ONCE_ERR_RATE;
}

uint64_t once__call_random(void)
{
    uint64_t random;

    if (once__random_bytes(&random, sizeof(random)) != ONCE_OK)
        random = (uint64_t)once__call_now_ms() * 2654435761U; /* jitter, not a secret */
    return random;
}

static int perform_within(const struct once__call_claim *claim, struct once_op *op, once_ms wait_ms,
                          once_ms patience_ms)
{
    once_ms end_ms = once__call_now_ms() + patience_ms;

    op->ns = claim->ns;
    op->key = claim->key;
    for (;;) {
        int err = claim->journal->perform(claim->journal->user, op, wait_ms);

        if (!is_passing(err) || once__call_now_ms() >= end_ms)
            return err;
        once_reply_release(&op->reply);
        sleep_ms(REPEAT_MS / 2 + (once_ms)(once__call_random() % REPEAT_MS));
    }
}

int once__call_perform(const struct once__call_claim *claim, struct once_op *op, once_ms wait_ms)
{
    return perform_within(claim, op, wait_ms, claim->journal->patience_ms);
}

int once__call_begin(struct once__call_claim *claim, enum once_on_doubt on_doubt, once_ms wait_ms,
                     struct once_reply *ret_reply)
{
    struct once_op op = {.call = ONCE_CALL_BEGIN,
                         .fingerprint = claim->fingerprint,
                         .owner = claim->owner,
                         .ttl_ms = claim->ttl_ms,
                         .lease_ms = claim->lease_ms,
                         .on_doubt = on_doubt};
    once_ms asked_ms = once__call_now_ms();
    int err = once__call_perform(claim, &op, wait_ms);

    *ret_reply = op.reply;
    if (err == ONCE_OK && op.reply.word == ONCE_EXECUTE) {
        claim->fence = op.reply.fence;
        /* A begin that waited got its lease when it was answered; asked_ms is on the safe side. */
        claim->renew_at_ms = (wait_ms > 0 ? once__call_now_ms() : asked_ms) + claim->lease_ms / 3;
    }
    return err;
}

/* The lease ran out while this process stood still, and nobody took the call: it takes it again. */
static void claim_again(struct once__call_claim *claim)
{
    struct once_reply reply;
    int err = once__call_begin(claim, ONCE_ON_DOUBT_RETRY, 0, &reply);

    if (err == ONCE_OK && reply.word != ONCE_EXECUTE)
        claim->lost = true;
    if (err != ONCE_OK)
        claim->renew_at_ms = once__call_now_ms() + RENEW_AGAIN_MS;
    once_reply_release(&reply);
}

void once__call_renew(struct once__call_claim *claim)
{
    struct once_op op = {
        .call = ONCE_CALL_RENEW, .fence = claim->fence, .lease_ms = claim->lease_ms};
    once_ms now_ms = once__call_now_ms();
    int err;

    if (claim->lost || now_ms < claim->renew_at_ms)
        return;
    err = perform_within(claim, &op, 0, 0);
    if (err == ONCE_OK && op.reply.word == ONCE_DONE)
        claim->renew_at_ms = now_ms + claim->lease_ms / 3;
    else if (err == ONCE_OK && op.reply.word == ONCE_DOUBT)
        claim_again(claim);
    else if (err == ONCE_OK)
        claim->lost = true;
    else
        claim->renew_at_ms = now_ms + RENEW_AGAIN_MS;
    once_reply_release(&op.reply);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static int step(const struct once__call_claim *claim, struct once_op *op, enum once_word *ret_word)
{
    int err;

    op->fence = claim->fence;
    err = once__call_perform(claim, op, 0);
    if (err == ONCE_OK)
        *ret_word = op->reply.word;
    once_reply_release(&op->reply);
    return err;
}

int once__call_checkpoint(struct once__call_claim *claim, const char *point, struct once_bytes data,
                          enum once_word *ret_word)
{
    struct once_op op = {.call = ONCE_CALL_CHECKPOINT, .point = once_bytes_of(point), .data = data};

    return step(claim, &op, ret_word);
}

int once__call_complete(const struct once__call_claim *claim, int32_t code,
                        struct once_bytes result, enum once_word *ret_word)
{
    struct once_op op = {.call = ONCE_CALL_COMPLETE, .code = code, .result = result};

    return step(claim, &op, ret_word);
}

int once__call_fail(const struct once__call_claim *claim, const char *reason,
                    enum once_word *ret_word)
{
    struct once_op op = {.call = ONCE_CALL_FAIL, .result = once_bytes_of(reason)};

    return step(claim, &op, ret_word);
}

int once__call_give_up(const struct once__call_claim *claim, enum once_word *ret_word)
{
    struct once_op op = {.call = ONCE_CALL_RENEW, .lease_ms = 0};

    return step(claim, &op, ret_word);
}
