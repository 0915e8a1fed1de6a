/* SPDX-License-Identifier: Apache-2.0
 *
 * Small effects in the caller's transaction: messages that a consumer has seen, fencing tokens, and
 * the sweep that removes what is over.
 */
#include "lite.h"

#include <inttypes.h>
#include <stdio.h>

#include <once/limits.h>

#include "core/effect.h"

/* ---- Consumers ------------------------------------------------------------------------------- */

/* 1: it was seen before, and is skipped. 0: it comes for the first time, and this transaction is to
 * process it. Known until a sweep after its retention. */
void once__lite_do_seen(struct once__lite_call *call)
{
    const struct once__lite_range range = {1, ONCE_RETENTION_MS_MAX, ONCE_LITE_SEEN_MS_DEFAULT};
    struct once_bytes group, topic, id;
    int64_t retention_ms, changed = 0;
    bool ok;

    if (!once__lite_key_arg(call, 0, "the consumer group", &group) ||
        !once__lite_key_arg(call, 1, "the topic", &topic) ||
        !once__lite_key_arg(call, 2, "the message's id", &id) ||
        !once__lite_number_arg(call, 3, "retention_ms", range, &retention_ms) ||
        !once__lite_start(call))
        return;
    ok = once__lite_tell(
        call, ONCE__LITE_SEEN,
        (struct once__lite_value[]){once__lite_text(group), once__lite_text(topic),
                                    once__lite_text(id), once__lite_number(call->lite->now_ms),
                                    once__lite_number(call->lite->now_ms + retention_ms)},
        5, &changed);
    once__lite_end(call, ok, changed == 0);
}

/* ---- Fencing tokens -------------------------------------------------------------------------- */

struct resource {
    struct once_bytes name;
    int64_t granted, seen;
};

static bool look_at_resource(struct once__lite_call *call, struct resource *resource)
{
    struct once__lite_value name = once__lite_text(resource->name);
    sqlite3_stmt *row;

    if (!once__lite_ask(call, ONCE__LITE_RESOURCE_LOOK, &name, 1, &row))
        return false;
    if (row) {
        resource->granted = sqlite3_column_int64(row, 0);
        resource->seen = sqlite3_column_int64(row, 1);
    }
    once__lite_rest(row);
    if (resource->granted >= 0 && resource->granted <= (int64_t)ONCE_FENCE_MAX &&
        resource->seen >= 0 && resource->seen <= (int64_t)ONCE_FENCE_MAX)
        return true;
    once__lite_error(call, ONCE_ERR_DAMAGED, "a token of the resource is out of range");
    return false;
}

static bool keep_resource(struct once__lite_call *call, const struct resource *resource)
{
    return once__lite_tell(call, ONCE__LITE_RESOURCE_SET,
                           (struct once__lite_value[]){once__lite_text(resource->name),
                                                       once__lite_number(resource->granted),
                                                       once__lite_number(resource->seen)},
                           3, NULL);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A token larger than any that was given or seen. It is one of the store's fences, so that it is
 * larger than those of begins, too. */
void once__lite_do_grant(struct once__lite_call *call)
{
    struct resource resource = {.granted = 0};
    bool ok;

    if (!once__lite_key_arg(call, 0, "the resource", &resource.name) || !once__lite_start(call))
        return;
    ok = look_at_resource(call, &resource);
    if (ok) {
        resource.granted = larger((int64_t)call->lite->next_fence,
                                  larger(resource.granted, resource.seen) + 1);
        ok = resource.granted <= (int64_t)ONCE_FENCE_MAX;
        if (!ok)
            once__lite_error(call, ONCE_ERR_OVERFLOW, "the tokens of this resource are used up");
    }
    ok = ok && once__lite_mark(call, true) && keep_resource(call, &resource);
    once__lite_end(call, ok, resource.granted);
}

/* Why a token is refused, in the words of object/stage_fence.c. */
static void refuse_token(struct once__lite_call *call, const struct resource *resource,
                         int64_t token)
{
    bool used = token <= resource->seen;
    char text[128];

    (void)snprintf(text, sizeof text,
                   used ? "token %" PRId64 " was seen, and %" PRId64 " is not above it"
                        : "token %" PRId64 " was granted, and %" PRId64 " is older than that",
                   used ? resource->seen : resource->granted, token);
    once__lite_refuse(call, ONCE_STALE, text);
}

/* Above every token that was here, and not older than the newest grant: someone who was granted a
 * newer token, and has not used it yet, has fenced off the older ones already. It passes once. */
static bool guard(struct once__lite_call *call, struct resource *resource, int64_t token)
{
    uint64_t mark = (uint64_t)larger(resource->seen, resource->granted - 1);
    enum once__effect_word word = once__effect_guard(&mark, (uint64_t)token);

    if (word != ONCE__EFFECT_CHANGED) {
        refuse_token(call, resource, token);
        return false;
    }
    resource->seen = (int64_t)mark;
    return keep_resource(call, resource);
}

void once__lite_do_guard(struct once__lite_call *call)
{
    const struct once__lite_range range = {1, (int64_t)ONCE_FENCE_MAX, 0};
    struct resource resource = {.granted = 0};
    int64_t token;

    if (!once__lite_key_arg(call, 0, "the resource", &resource.name) ||
        !once__lite_number_arg(call, 1, "the token", range, &token))
        return;
    if (token == 0)
        once__lite_error(call, ONCE_ERR_INVALID, "there is no token");
    else if (once__lite_start(call))
        once__lite_end(call, look_at_resource(call, &resource) && guard(call, &resource, token), 1);
}

/* ---- Time, and what is over ------------------------------------------------------------------ */

void once__lite_do_now(struct once__lite_call *call)
{
    call->lite->reading = true;
    call->lite->own = false;
    if (!once__lite_installed(call->lite))
        once__lite_error(call, ONCE_ERR_NO_STORE, "the tables are not there: once_install()");
    else if (once__lite_look(call))
        sqlite3_result_int64(call->context, call->lite->now_ms);
    once__lite_abandon(call);
}

/* Only what ended and whose retention is over; never what runs or is in doubt (INV-4). Store time
 * is written down first: a clock that is set back does not bring back the time at which they were
 * still to be known. */
void once__lite_do_sweep(struct once__lite_call *call)
{
    static const enum once__lite_sql sweeps[] = {
        ONCE__LITE_SWEEP_OPERATIONS, ONCE__LITE_SWEEP_MESSAGES, ONCE__LITE_SWEEP_OUTBOX};
    const struct once__lite_range range = {1, ONCE_LITE_SWEEP_MAX, ONCE_LITE_SWEEP_DEFAULT};
    int64_t batch, swept = 0;
    bool ok;

    if (!once__lite_number_arg(call, 0, "the batch", range, &batch) || !once__lite_start(call))
        return;
    ok = once__lite_mark(call, false);
    for (size_t i = 0; ok && i < sizeof sweeps / sizeof sweeps[0]; i++) {
        int64_t gone = 0;

        ok = once__lite_tell(call, sweeps[i],
                             (struct once__lite_value[]){once__lite_number(call->lite->now_ms),
                                                         once__lite_number(batch)},
                             2, &gone);
        swept += gone;
    }
    once__lite_end(call, ok, swept);
}
