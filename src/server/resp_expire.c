/* SPDX-License-Identifier: Apache-2.0
 *
 * How long values are kept: EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT, TTL, PTTL, and the times of SET.
 *
 * A value without a time is kept for ONCE_RETENTION_MS_MAX, which is told as -1, "for ever"; so the
 * longest time that a caller may say is a millisecond less.
 */
#include "server/resp_commands.h"
#include "server/server.h"

#include <string.h>

static bool wrong_time(const struct once__request *request, struct once__out *out, bool too_far)
{
    once__out_error(out, "ERR", "invalid expire time in '%s' command%s",
                    once__command_full_name(request->command),
                    too_far ? ": nothing is kept longer than ten years" : "");
    return false;
}

/* By whose clock a moment is over: the store's, where servers share one. */
static once_ms store_ms(const struct once__request *request)
{
    return once__service_wall_ms(once__server_service(request->session->server));
}

bool once__expire_read(const struct once__request *request, struct once__out *out,
                       struct once_bytes arg, enum once__expire_unit unit, bool positive,
                       struct once__expire *ret_expire)
{
    bool seconds = unit == ONCE__EXPIRE_EX || unit == ONCE__EXPIRE_EXAT;
    bool point = unit == ONCE__EXPIRE_EXAT || unit == ONCE__EXPIRE_PXAT;
    struct once__expire expire = {.ttl_ms = 0};
    int64_t number, left_ms;

    if (!once__arg_decimal(arg, &number)) {
        once__out_error(out, "ERR", "value is not an integer or out of range");
        return false;
    }
    if ((positive && number <= 0) ||
        (seconds && (number > INT64_MAX / 1000 || number < INT64_MIN / 1000)))
        return wrong_time(request, out, false);
    if (seconds)
        number *= 1000;
    left_ms = number;
    if (point && __builtin_sub_overflow(number, store_ms(request), &left_ms))
        left_ms = INT64_MIN; /* long ago */
    if (left_ms > ONCE__EXPIRE_MS_MAX)
        return wrong_time(request, out, true);
    expire.over = left_ms <= 0;
    if (point)
        expire.until_ms = number;
    else
        expire.ttl_ms = number;
    *ret_expire = expire;
    return true;
}

/* ---- EXPIRE and its kin ---------------------------------------------------------------------- */

static enum once__expire_unit unit_of(const struct once__command *command)
{
    bool ms = command->name[0] == 'P';
    size_t size = strlen(command->name);

    if (memcmp(command->name + size - 2, "AT", 2) == 0)
        return ms ? ONCE__EXPIRE_PXAT : ONCE__EXPIRE_EXAT;
    return ms ? ONCE__EXPIRE_PX : ONCE__EXPIRE_EX;
}

enum once__next once__resp_value_expire(struct once__request *request, struct once__out *out)
{
    const struct once_bytes *args = request->args;
    struct once__expire expire;
    struct once_op *op = &request->one.op;

    if (request->arg_count > 3) {
        once__out_error(out, "ERR", "Unsupported option %s", once__arg_echo(args[3]).text);
        return ONCE__ANSWERED;
    }
    if (!once__expire_read(request, out, args[2], unit_of(request->command), false, &expire) ||
        !once__value_keys_ok(out, &args[1], 1))
        return ONCE__ANSWERED;
    (void)once__request_calls(request, out, 1);
    once__value_call(&request->one, expire.over ? ONCE_CALL_FORGET : ONCE_CALL_EXPIRE, args[1]);
    if (!expire.over) {
        op->ttl_ms = expire.ttl_ms;
        op->until_ms = expire.until_ms;
    }
    return once__request_send(request, out);
}

void once__resp_value_expire_finish(struct once__request *request, struct once__out *out)
{
    if (!once__value_failed(request, out))
        once__out_integer(out, request->one.op.reply.word == ONCE_DONE ? 1 : 0);
}

/* ---- TTL, PTTL ------------------------------------------------------------------------------- */

enum once__next once__resp_value_ttl(struct once__request *request, struct once__out *out)
{
    if (!once__value_keys_ok(out, &request->args[1], 1))
        return ONCE__ANSWERED;
    (void)once__request_calls(request, out, 1);
    once__value_call(&request->one, ONCE_CALL_GET, request->args[1]);
    return once__request_send(request, out);
}

void once__resp_value_ttl_finish(struct once__request *request, struct once__out *out)
{
    const struct once_reply *reply = &request->one.op.reply;
    once_ms left_ms = reply->expires_ms - reply->now_ms;

    if (once__value_failed(request, out))
        return;
    if (!once__value_present(reply))
        left_ms = -2;
    else if (reply->retention_ms >= ONCE_RETENTION_MS_MAX)
        left_ms = -1;
    else if (left_ms < 0)
        left_ms = 0;
    else if (request->command->name[0] != 'P')
        left_ms = (left_ms + 500) / 1000; /* as Redis rounds */
    once__out_integer(out, left_ms);
}
