/* SPDX-License-Identifier: Apache-2.0
 *
 * SET and its short forms. Errors have the words of Redis, which clients look at.
 *
 * A SET whose end lies in the past already sets nothing and deletes what is there: a look and a
 * FORGET, one behind the other.
 */
#include "server/resp_commands.h"

/* What the words behind the value say. */
struct set {
    enum once_when when;
    bool get;
    bool keep_ttl;
    struct once__expire expire;
};

static bool syntax_error(struct once__out *out)
{
    once__out_error(out, "ERR", "syntax error");
    return false;
}

/* EX, PX, EXAT or PXAT? */
static bool is_unit(struct once_bytes arg, enum once__expire_unit *ret_unit)
{
    static const char *const words[] = {"EX", "PX", "EXAT", "PXAT"};

    for (int i = ONCE__EXPIRE_EX; i <= ONCE__EXPIRE_PXAT; i++) {
        *ret_unit = (enum once__expire_unit)i;
        if (once__arg_is(arg, words[i]))
            return true;
    }
    return false;
}

/* False: answered. */
static bool read_set(const struct once__request *request, struct once__out *out, struct set *set)
{
    const struct once_bytes *args = request->args, *time = NULL;
    enum once__expire_unit unit = ONCE__EXPIRE_EX, word;

    for (size_t i = 3; i < request->arg_count; i++) {
        if (once__arg_is(args[i], "NX") && set->when != ONCE_WHEN_PRESENT)
            set->when = ONCE_WHEN_ABSENT;
        else if (once__arg_is(args[i], "XX") && set->when != ONCE_WHEN_ABSENT)
            set->when = ONCE_WHEN_PRESENT;
        else if (once__arg_is(args[i], "GET"))
            set->get = true;
        else if (once__arg_is(args[i], "KEEPTTL") && !time)
            set->keep_ttl = true;
        else if (is_unit(args[i], &word) && !time && !set->keep_ttl && i + 1 < request->arg_count) {
            unit = word;
            time = &args[++i];
        } else {
            return syntax_error(out);
        }
    }
    return !time || once__expire_read(request, out, *time, unit, true, &set->expire);
}

/* Looks at what is there, and deletes it where the condition holds for one that is there. */
static enum once__next set_past(struct once__request *request, struct once__out *out,
                                const struct set *set)
{
    struct once__call *calls = once__request_calls(request, out,
                                                   set->when == ONCE_WHEN_ABSENT ? 1 : 2);

    if (!calls)
        return ONCE__ANSWERED;
    once__value_call(&calls[0], ONCE_CALL_GET, request->args[1]);
    if (request->call_count == 2)
        once__value_call(&calls[1], ONCE_CALL_FORGET, request->args[1]);
    return once__request_send(request, out);
}

/* What finish needs to know, as request->mark: a SET allocates nothing. */
enum { MARK_WHEN = 3, MARK_GET = 4, MARK_PAST = 8 };
_Static_assert((int)ONCE_WHEN_PRESENT <= (int)MARK_WHEN, "it fits");

static enum once__next send_set(struct once__request *request, struct once__out *out,
                                const struct set *set, struct once_bytes value)
{
    struct once_op *op = &request->one.op;

    if (!once__value_keys_ok(out, &request->args[1], 1))
        return ONCE__ANSWERED;
    request->mark = (uint32_t)set->when | (set->get ? MARK_GET : 0) |
                    (set->expire.over ? MARK_PAST : 0);
    if (set->expire.over)
        return set_past(request, out, set);
    (void)once__request_calls(request, out, 1);
    once__value_call(&request->one, ONCE_CALL_SET, request->args[1]);
    op->result = value;
    op->when = set->when;
    op->keep_ttl = set->keep_ttl;
    op->ttl_ms = set->expire.ttl_ms;
    op->until_ms = set->expire.until_ms;
    return once__request_send(request, out);
}

enum once__next once__resp_value_set(struct once__request *request, struct once__out *out)
{
    struct set set = {.when = ONCE_ALWAYS};

    if (!read_set(request, out, &set))
        return ONCE__ANSWERED;
    return send_set(request, out, &set, request->args[2]);
}

/* Was it set? Of one that ended in the past: would it have been? */
static bool was_set(const struct once__request *request)
{
    const struct once_reply *reply = &request->calls[0].op.reply;
    enum once_when when = (enum once_when)(request->mark & MARK_WHEN);

    if (!(request->mark & MARK_PAST))
        return reply->word == ONCE_DONE;
    return when == ONCE_ALWAYS || (when == ONCE_WHEN_PRESENT) == once__value_present(reply);
}

void once__resp_value_set_finish(struct once__request *request, struct once__out *out)
{
    const struct once_reply *before = &request->calls[0].op.reply;

    if (once__value_failed(request, out))
        return;
    if (!(request->mark & MARK_GET) && was_set(request))
        once__out_simple(out, "OK");
    else if ((request->mark & MARK_GET) && once__value_present(before))
        once__out_bulk(out, before->result);
    else
        once__out_null(out);
}

/* SETEX key seconds value, PSETEX key milliseconds value */
enum once__next once__resp_value_setex(struct once__request *request, struct once__out *out)
{
    struct set set = {.when = ONCE_ALWAYS};
    bool ms = request->command->name[0] == 'P';

    if (!once__expire_read(request, out, request->args[2], ms ? ONCE__EXPIRE_PX : ONCE__EXPIRE_EX,
                           true, &set.expire))
        return ONCE__ANSWERED;
    return send_set(request, out, &set, request->args[3]);
}

enum once__next once__resp_value_setnx(struct once__request *request, struct once__out *out)
{
    struct set set = {.when = ONCE_WHEN_ABSENT};

    return send_set(request, out, &set, request->args[2]);
}

void once__resp_value_setnx_finish(struct once__request *request, struct once__out *out)
{
    if (!once__value_failed(request, out))
        once__out_integer(out, was_set(request) ? 1 : 0);
}
