/* SPDX-License-Identifier: Apache-2.0
 *
 * Values, as of Redis: reading and deleting them. They live in a namespace of their own, as
 * operations that are completed; keys keep the rules of Once, and one that does not is refused with
 * the reason before anything happens.
 *
 * A value may have 16 MiB and a command thousands of keys. So many of them are not read together
 * but one after the other, on a lane, and what is read is written to the answer at once: memory is
 * bounded by the answer, and the answer by MANY_SIZE_MAX.
 */
#include "server/resp_commands.h"
#include "server/resp_look.h"

#include <once/key.h>

#include <inttypes.h>
#include <time.h>

/* ---- Shared ---------------------------------------------------------------------------------- */

void once__value_call(struct once__call *call, enum once_call_kind kind, struct once_bytes key)
{
    call->op.call = kind;
    call->op.ns = (struct once_bytes){(const uint8_t *)ONCE_VALUES_NAMESPACE,
                                      sizeof(ONCE_VALUES_NAMESPACE) - 1};
    call->op.key = key;
}

bool once__value_keys_ok(struct once__out *out, const struct once_bytes *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct once_defect defect = {0, NULL};
        int err = once_key_check(keys[i], &defect);

        if (err != ONCE_OK) {
            once__out_err(out, err, NULL);
            return false;
        }
    }
    return true;
}

bool once__value_failed(const struct once__request *request, struct once__out *out)
{
    for (size_t i = 0; i < request->call_count; i++) {
        const struct once_reply *reply = &request->calls[i].op.reply;

        if (reply->err != ONCE_OK) {
            once__out_call_error(out, reply);
            return true;
        }
        if (reply->word == ONCE_BUSY || reply->word == ONCE_DOUBT) {
            once__out_error(out, once_word_name(reply->word),
                            "%" PRId64 " this is no value, but "
                            "an operation that is under way",
                            reply->word == ONCE_BUSY ? reply->retry_ms : (int64_t)reply->fence);
            return true;
        }
    }
    return false;
}

bool once__value_present(const struct once_reply *reply)
{
    return reply->state == ONCE_STATE_COMPLETED;
}

once_ms once__wall_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A call of this kind for every key from the first argument on. */
static enum once__next call_all(struct once__request *request, struct once__out *out,
                                enum once_call_kind kind)
{
    size_t count = request->arg_count - 1;
    struct once__call *calls;

    if (!once__value_keys_ok(out, &request->args[1], count))
        return ONCE__ANSWERED;
    calls = once__request_calls(request, out, count);
    if (!calls)
        return ONCE__ANSWERED;
    for (size_t i = 0; i < count; i++)
        once__value_call(&calls[i], kind, request->args[1 + i]);
    return once__request_send(request, out);
}

static void write_value(struct once__out *out, const struct once_reply *reply)
{
    if (once__value_present(reply))
        once__out_bulk(out, reply->result);
    else
        once__out_null(out);
}

/* ---- Reading --------------------------------------------------------------------------------- */

enum once__next once__resp_value_get(struct once__request *request, struct once__out *out)
{
    return call_all(request, out, ONCE_CALL_GET);
}

void once__resp_value_get_finish(struct once__request *request, struct once__out *out)
{
    if (!once__value_failed(request, out))
        write_value(out, &request->one.op.reply);
}

enum once__next once__resp_value_strlen(struct once__request *request, struct once__out *out)
{
    return call_all(request, out, ONCE_CALL_GET);
}

void once__resp_value_strlen_finish(struct once__request *request, struct once__out *out)
{
    const struct once_reply *reply = &request->one.op.reply;

    if (!once__value_failed(request, out))
        once__out_integer(out, once__value_present(reply) ? (int64_t)reply->result.size : 0);
}

enum once__next once__resp_value_type(struct once__request *request, struct once__out *out)
{
    return call_all(request, out, ONCE_CALL_GET);
}

void once__resp_value_type_finish(struct once__request *request, struct once__out *out)
{
    if (!once__value_failed(request, out))
        once__out_simple(out, once__value_present(&request->one.op.reply) ? "string" : "none");
}

/* ---- Reading many ---------------------------------------------------------------------------- */

enum { TOGETHER_MAX = 16, MANY_SIZE_MAX = 4 * ONCE_RESULT_SIZE_MAX };

struct many {
    struct once__look look; /* count: how many there are */
    bool values;            /* they are asked for, and go into look.list */
};

/* A reply that is an error stays in its call, for finish. */
static void run_many(struct once__job *job)
{
    struct once__request *request = once__look_request(job);
    struct many *many = once__look_of(job);

    for (size_t i = 0; i < request->call_count && !many->look.list.failed; i++) {
        struct once_op *op = &request->calls[i].op;

        if (once_call(many->look.store, op, 1) != ONCE_OK)
            return;
        many->look.count += once__value_present(&op->reply) ? 1 : 0;
        if (many->values)
            write_value(&many->look.list, &op->reply);
        once_reply_release(&op->reply);
    }
}

static enum once__next read_many(struct once__request *request, struct once__out *out, bool values)
{
    enum once__next next = call_all(request, out, ONCE_CALL_GET);
    struct many *many;

    if (next != ONCE__CALLS || request->call_count <= TOGETHER_MAX)
        return next;
    many = once__look_new(request, out, sizeof(*many), run_many);
    if (!many)
        return ONCE__ANSWERED;
    many->look.list.buf.size_max = MANY_SIZE_MAX;
    many->values = values;
    return ONCE__JOB;
}

enum once__next once__resp_value_mget(struct once__request *request, struct once__out *out)
{
    return read_many(request, out, true);
}

void once__resp_value_mget_finish(struct once__request *request, struct once__out *out)
{
    const struct many *many = request->state;

    if (once__value_failed(request, out) || (many && once__look_failed(&many->look, out)))
        return;
    once__out_array(out, request->call_count);
    if (many) {
        once__out_raw(out, once_buf_bytes(&many->look.list.buf));
        return;
    }
    for (size_t i = 0; i < request->call_count; i++)
        write_value(out, &request->calls[i].op.reply);
}

enum once__next once__resp_value_exists(struct once__request *request, struct once__out *out)
{
    return read_many(request, out, false);
}

void once__resp_value_exists_finish(struct once__request *request, struct once__out *out)
{
    const struct many *many = request->state;
    size_t count = many ? many->look.count : 0;

    if (once__value_failed(request, out))
        return;
    for (size_t i = 0; !many && i < request->call_count; i++)
        count += once__value_present(&request->calls[i].op.reply) ? 1 : 0;
    once__out_integer(out, (int64_t)count);
}

/* ---- Deleting -------------------------------------------------------------------------------- */

enum once__next once__resp_value_del(struct once__request *request, struct once__out *out)
{
    return call_all(request, out, ONCE_CALL_FORGET);
}

void once__resp_value_del_finish(struct once__request *request, struct once__out *out)
{
    int64_t count = 0;

    if (once__value_failed(request, out))
        return;
    for (size_t i = 0; i < request->call_count; i++)
        count += request->calls[i].op.reply.word == ONCE_DONE ? 1 : 0;
    once__out_integer(out, count);
}
