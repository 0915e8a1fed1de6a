/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations: one call, whoever owns the store, and patience with owners that come and go. The one
 * place where a call is repeated, so that the commands need no loops of their own.
 *
 * A folder is never held while this sleeps: others want it, and whoever holds the key that is
 * waited for needs it to complete.
 */
#include "cli/reach.h"

#include "cli/reach_server.h"

enum {
    AGAIN_MS_MIN = 20, /* between two tries */
    AGAIN_MS_MAX = 500,
    PARK_MS_MAX = 10000 /* of one wait at a server: less than the client waits for an answer */
};
_Static_assert(PARK_MS_MAX * 2 <= ONCE_CLIENT_TIMEOUT_MS, "a parked begin is answered in time");

static once_ms smaller(once_ms a, once_ms b)
{
    return a < b ? a : b;
}

/* After IO and STOPPED nobody knows; the others say that they have no room, or no time, now. */
static bool is_worth_repeating(const struct cli_reach *reach, int err)
{
    if (reach->strange)
        return false;
    return err == ONCE_ERR_IO || err == ONCE_ERR_STOPPED || err == ONCE_ERR_FULL ||
           err == ONCE_ERR_RATE || err == ONCE_ERR_LOADING || err == ONCE_ERR_CLOSED;
}

/* One try. */
static void try_op(struct cli_reach *reach, struct once_op *op, once_ms wait_ms,
                   once_ms deadline_ms)
{
    int err = reach_ready(reach, deadline_ms);

    if (err != ONCE_OK)
        op->reply = (struct once_reply){
            .err = err, .what = reach->message.text[0] ? reach->message.text : NULL};
    else if (reach->store)
        (void)once_call(reach->store, op, 1);
    else
        reach_server_op(reach, op, smaller(wait_ms, PARK_MS_MAX));
}

/* Tries until it is known what the call came to, or the patience ends. */
static int call_op(struct cli_reach *reach, struct once_op *op, once_ms wait_ms)
{
    once_ms start_ms = reach_now_ms(), pause_ms = AGAIN_MS_MIN;

    for (;;) {
        try_op(reach, op, wait_ms, start_ms + reach->patience_ms);
        if (!is_worth_repeating(reach, op->reply.err) ||
            reach_now_ms() + pause_ms >= start_ms + reach->patience_ms)
            return op->reply.err;
        once_reply_release(&op->reply);
        cli_reach_rest(reach);
        reach_sleep(pause_ms / 2, pause_ms);
        pause_ms = smaller(2 * pause_ms, AGAIN_MS_MAX);
    }
}

int cli_reach_op(struct cli_reach *reach, struct once_op *op, once_ms wait_ms)
{
    once_ms end_ms = reach_now_ms() + wait_ms, pause_ms = AGAIN_MS_MIN;

    for (;;) {
        once_ms left_ms = end_ms - reach_now_ms();
        int err = call_op(reach, op, left_ms > 0 ? left_ms : 0);

        left_ms = end_ms - reach_now_ms();
        if (err != ONCE_OK || op->call != ONCE_CALL_BEGIN || op->reply.word != ONCE_BUSY ||
            left_ms <= 0)
            return err;
        if (op->reply.retry_ms > 0)
            left_ms = smaller(left_ms, op->reply.retry_ms);
        once_reply_release(&op->reply);
        if (reach->store)
            cli_reach_rest(reach);
        reach_sleep(smaller(pause_ms / 2, left_ms), smaller(pause_ms, left_ms));
        pause_ms = smaller(2 * pause_ms, AGAIN_MS_MAX);
    }
}

int cli_reach_ops(struct cli_reach *reach, const struct once_filter *filter, uint64_t cursor,
                  size_t count, void (*each)(void *user, const struct once_item *item), void *user,
                  uint64_t *ret_cursor)
{
    int err = reach_ready(reach, reach_now_ms() + reach->patience_ms);

    if (err != ONCE_OK)
        return err;
    if (reach->store)
        return once_list(reach->store, filter, cursor, count, each, user, ret_cursor);
    return reach_server_ops(reach, filter, cursor, count, each, user, ret_cursor);
}

int cli_reach_history(struct cli_reach *reach, struct once_name name, size_t count,
                      void (*each)(void *user, const struct once_past *past), void *user,
                      bool *ret_found, bool *ret_more)
{
    int err = reach_ready(reach, reach_now_ms() + reach->patience_ms);

    if (err != ONCE_OK)
        return err;
    if (reach->store)
        return once_history(reach->store, name, count, each, user, ret_found, ret_more);
    return reach_server_history(reach, name, count, each, user, ret_found, ret_more);
}
