/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of an operation: ONCE.BEGIN to ONCE.FORGET, and ONCE.GET. Each becomes one call;
 * what it came to is a verdict (an array that begins with a word), OK, or an error that begins with
 * the word. Decides nothing.
 */
#include "server/resp_commands.h"
#include "server/resp_look.h"
#include "server/resp_option.h"

#include <inttypes.h>
#include <string.h>

/* The one call of this request, on the operation that its first arguments name. */
static struct once_op *operation(struct once__request *request, enum once_call_kind kind)
{
    struct once_op *op = &request->one.op;

    request->calls = &request->one;
    request->call_count = 1;
    op->call = kind;
    op->ns = request->args[1];
    op->key = request->args[2];
    return op;
}

/* min 0: a fence that was never given, which the store calls STALE; where 0 would mean
 * "whichever it is", min is 1. */
static bool read_fence(const struct once__request *request, struct once__out *out,
                       struct once_bytes arg, int64_t min, uint64_t *ret_fence)
{
    int64_t number;

    if (!once__arg_number(request, out, arg, "the fence must be a number", min,
                          (int64_t)ONCE_FENCE_MAX, &number))
        return false;
    *ret_fence = (uint64_t)number;
    return true;
}

static bool read_code(const struct once__request *request, struct once__out *out,
                      struct once_bytes arg, int32_t *ret_code)
{
    int64_t number;

    if (!once__arg_number(request, out, arg, "the code must be a number", INT32_MIN, INT32_MAX,
                          &number))
        return false;
    *ret_code = (int32_t)number;
    return true;
}

/* Everything an owner calls begins with ns, key and fence. NULL: answered. */
static struct once_op *owners(struct once__request *request, struct once__out *out,
                              enum once_call_kind kind, size_t arg_count_max)
{
    struct once_op *op = operation(request, kind);

    if (request->arg_count > arg_count_max) {
        once__out_wrong_count(request, out);
        return NULL;
    }
    return read_fence(request, out, request->args[3], 0, &op->fence) ? op : NULL;
}

/* ---- begin ----------------------------------------------------------------------------------- */

static const char *const doubt_words[] = {"REJECT", "RETRY", NULL};

enum { FP, OWNER, TTL, LEASE, DOUBT, WAIT, BEGIN_OPTIONS };
static const struct once__option begin_options[BEGIN_OPTIONS] = {
    [FP] = {"FP", ONCE__OPTION_BYTES, "a fingerprint", 0, ONCE_COMMAND_SIZE_MAX, NULL},
    [OWNER] = {"OWNER", ONCE__OPTION_BYTES, "a name", 1, ONCE_OWNER_SIZE_MAX, NULL},
    [TTL] = {"TTL", ONCE__OPTION_NUMBER, "a number of milliseconds", 1, ONCE_RETENTION_MS_MAX,
             NULL},
    [LEASE] = {"LEASE", ONCE__OPTION_NUMBER, "a number of milliseconds", 1, ONCE_LEASE_MS_MAX,
               NULL},
    [DOUBT] = {"DOUBT", ONCE__OPTION_WORD, "a word", 0, 0, doubt_words},
    [WAIT] = {"WAIT", ONCE__OPTION_NUMBER, "a number of milliseconds", 0, ONCE_WAIT_MS_MAX, NULL},
};

_Static_assert(ONCE_ON_DOUBT_REJECT == 0 && ONCE_ON_DOUBT_RETRY == 1, "doubt_words has them so");

enum once__next once__resp_begin(struct once__request *request, struct once__out *out)
{
    struct once_op *op = operation(request, ONCE_CALL_BEGIN);
    struct once__option_value values[BEGIN_OPTIONS];
    size_t end;

    memset(values, 0, sizeof(values));
    if (!once__options_read(request, out, 3, NULL, begin_options, BEGIN_OPTIONS, values, &end))
        return ONCE__ANSWERED;
    op->fingerprint = values[FP].bytes;
    op->owner = values[OWNER].bytes;
    op->ttl_ms = values[TTL].number;
    op->lease_ms = values[LEASE].number;
    op->on_doubt = (enum once_on_doubt)values[DOUBT].number;
    request->one.on_doubt_given = values[DOUBT].given;
    request->one.wait_ms = values[WAIT].number;
    return once__request_send(request, out);
}

void once__resp_begin_finish(struct once__request *request, struct once__out *out)
{
    const struct once_reply *reply = &request->one.op.reply;

    if (reply->err != ONCE_OK) {
        once__out_call_error(out, reply);
        return;
    }
    switch ((int)reply->word) {
    case ONCE_EXECUTE:
        once__out_array(out, 5);
        once__out_simple(out, "EXECUTE");
        once__out_integer(out, (int64_t)reply->fence);
        once__out_integer(out, reply->attempt);
        once__out_bulk_or_null(out, reply->point);
        once__out_bulk_or_null(out, reply->data);
        break;
    case ONCE_REPLAY:
        once__out_array(out, 3);
        once__out_simple(out, "REPLAY");
        once__out_integer(out, reply->code);
        once__out_bulk(out, reply->result);
        break;
    case ONCE_BUSY:
        once__out_array(out, 2);
        once__out_simple(out, "BUSY");
        once__out_integer(out, reply->retry_ms);
        break;
    case ONCE_DOUBT:
        once__out_array(out, 3);
        once__out_simple(out, "DOUBT");
        once__out_integer(out, (int64_t)reply->fence);
        once__out_bulk_or_null(out, reply->point);
        break;
    default: /* MISMATCH, TOO_OLD */
        once__out_array(out, 1);
        once__out_simple(out, once_word_name(reply->word));
        break;
    }
}

/* ---- The owner's calls ----------------------------------------------------------------------- */

enum once__next once__resp_complete(struct once__request *request, struct once__out *out)
{
    struct once_op *op = owners(request, out, ONCE_CALL_COMPLETE, 6);

    if (!op || !read_code(request, out, request->args[4], &op->code))
        return ONCE__ANSWERED;
    op->result = request->args[5];
    return once__request_send(request, out);
}

enum once__next once__resp_fail(struct once__request *request, struct once__out *out)
{
    struct once_op *op = owners(request, out, ONCE_CALL_FAIL, 5);

    if (!op)
        return ONCE__ANSWERED;
    if (request->arg_count == 5)
        op->result = request->args[4];
    return once__request_send(request, out);
}

/* fence point [data] [AFTER point]: with an even number of words behind the point AFTER is there.
 */
enum once__next once__resp_checkpoint(struct once__request *request, struct once__out *out)
{
    struct once_op *op = owners(request, out, ONCE_CALL_CHECKPOINT, 8);
    const struct once_bytes *args = request->args;
    size_t count = request->arg_count;

    if (!op)
        return ONCE__ANSWERED;
    op->point = args[4];
    if (count == 6 || count == 8)
        op->data = args[5];
    if (count >= 7) {
        if (!once__arg_is(args[count - 2], "AFTER")) {
            once__out_bad(request, out, "AFTER was expected, not '%s'",
                          once__arg_echo(args[count - 2]).text);
            return ONCE__ANSWERED;
        }
        op->follows = true;
        op->after = args[count - 1];
    }
    return once__request_send(request, out);
}

enum once__next once__resp_renew(struct once__request *request, struct once__out *out)
{
    struct once_op *op = owners(request, out, ONCE_CALL_RENEW, 5);

    if (!op || !once__arg_number(request, out, request->args[4],
                                 "lease_ms must be a number of milliseconds", 0, ONCE_LEASE_MS_MAX,
                                 &op->lease_ms))
        return ONCE__ANSWERED;
    return once__request_send(request, out);
}

static const struct once__option fence_option = {"FENCE", ONCE__OPTION_NUMBER,     "a number",
                                                 1,       (int64_t)ONCE_FENCE_MAX, NULL};

enum once__next once__resp_resolve(struct once__request *request, struct once__out *out)
{
    struct once_op *op = operation(request, ONCE_CALL_RESOLVE);
    struct once__option_value fence = {.given = false};
    const struct once_bytes *args = request->args;
    size_t at = 4;

    if (once__arg_is(args[3], "DONE")) {
        if (request->arg_count < 6) {
            once__out_bad(request, out, "DONE needs a code and a result");
            return ONCE__ANSWERED;
        }
        if (!read_code(request, out, args[4], &op->code))
            return ONCE__ANSWERED;
        op->done = true;
        op->result = args[5];
        at = 6;
    } else if (!once__arg_is(args[3], "NOTDONE")) {
        once__out_bad(request, out, "DONE or NOTDONE was expected, not '%s'",
                      once__arg_echo(args[3]).text);
        return ONCE__ANSWERED;
    }
    if (!once__options_read(request, out, at, NULL, &fence_option, 1, &fence, &at))
        return ONCE__ANSWERED;
    op->fence = (uint64_t)fence.number;
    return once__request_send(request, out);
}

enum once__next once__resp_forget(struct once__request *request, struct once__out *out)
{
    struct once_op *op = operation(request, ONCE_CALL_FORGET);

    if (request->arg_count > 4) {
        once__out_wrong_count(request, out);
        return ONCE__ANSWERED;
    }
    if (request->arg_count == 4 && !read_fence(request, out, request->args[3], 1, &op->fence))
        return ONCE__ANSWERED;
    return once__request_send(request, out);
}

/* What the policy of its namespace has made of a complete. */
static const char *outcome_word(enum once_outcome outcome)
{
    if (outcome == ONCE_OUTCOME_RELEASE)
        return "RELEASED";
    return outcome == ONCE_OUTCOME_DOUBT ? "DOUBT" : "OK";
}

void once__resp_owner_finish(struct once__request *request, struct once__out *out)
{
    const struct once_reply *reply = &request->one.op.reply;
    enum once_outcome outcome = request->one.outcome;

    if (reply->err != ONCE_OK) {
        once__out_call_error(out, reply);
        return;
    }
    switch ((int)reply->word) {
    case ONCE_DONE:
        once__out_simple(out, outcome_word(outcome));
        break;
    case ONCE_STALE:
        once__out_error(out, "STALE", "the fence is not the current one, or the attempt has ended");
        break;
    case ONCE_NOTFOUND:
        once__out_error(out, "NOTFOUND", "there is no such operation");
        break;
    case ONCE_BUSY:
        once__out_error(out, "BUSY", "%" PRId64 " someone holds a live lease; come back later",
                        reply->retry_ms);
        break;
    case ONCE_DOUBT:
        if (outcome == ONCE_OUTCOME_DOUBT) /* it was one already, and that is what was asked for */
            once__out_simple(out, "DOUBT");
        else
            once__out_error(out, "DOUBT",
                            "%" PRIu64 " the lease is over and nobody knows whether it happened: "
                            "resolve it",
                            reply->fence);
        break;
    default:
        once__out_error(out, once_word_name(reply->word), "it has ended with another answer");
        break;
    }
}

/* ---- get ------------------------------------------------------------------------------------- */

enum once__next once__resp_get(struct once__request *request, struct once__out *out)
{
    (void)operation(request, ONCE_CALL_GET);
    return once__request_send(request, out);
}

static void time_or_null(struct once__out *out, const char *name, once_ms ms)
{
    once__out_text(out, name);
    if (ms > 0)
        once__out_integer(out, ms);
    else
        once__out_null(out);
}

static void write_fingerprint(struct once__out *out, const struct once_fingerprint *fingerprint)
{
    static const struct once_fingerprint none;
    static const char digits[] = "0123456789abcdef";
    char text[2 * ONCE_FINGERPRINT_SIZE + 1];

    if (memcmp(fingerprint, &none, sizeof(none)) == 0) {
        once__out_null(out);
        return;
    }
    for (size_t i = 0; i < ONCE_FINGERPRINT_SIZE; i++) {
        text[2 * i] = digits[fingerprint->bytes[i] >> 4];
        text[2 * i + 1] = digits[fingerprint->bytes[i] & 15];
    }
    text[sizeof(text) - 1] = '\0';
    once__out_text(out, text);
}

static void write_record(struct once__out *out, const struct once_reply *reply)
{
    bool completed = reply->state == ONCE_STATE_COMPLETED;

    once__out_map(out, 13);
    once__out_text(out, "state");
    once__out_text(out, once_state_name(reply->state));
    once__out_text(out, "fence");
    once__out_integer(out, (int64_t)reply->fence);
    once__out_text(out, "attempt");
    once__out_integer(out, reply->attempt);
    once__out_text(out, "code");
    if (completed)
        once__out_integer(out, reply->code);
    else
        once__out_null(out);
    once__out_text(out, reply->state == ONCE_STATE_FAILED ? "reason" : "result");
    if (completed)
        once__out_bulk(out, reply->result);
    else
        once__out_bulk_or_null(out, reply->result);
    once__out_text(out, "owner");
    once__out_bulk_or_null(out, reply->owner);
    once__out_text(out, "point");
    once__out_bulk_or_null(out, reply->point);
    once__out_text(out, "data");
    once__out_bulk_or_null(out, reply->data);
    time_or_null(out, "created_ms", reply->created_ms);
    time_or_null(out, "lease_end_ms", reply->lease_end_ms);
    time_or_null(out, "retention_ms", reply->retention_ms);
    time_or_null(out, "expires_ms", reply->expires_ms);
    once__out_text(out, "fingerprint");
    write_fingerprint(out, &reply->fingerprint);
}

void once__resp_get_finish(struct once__request *request, struct once__out *out)
{
    const struct once_reply *reply = &request->one.op.reply;

    if (reply->err != ONCE_OK)
        once__out_call_error(out, reply);
    else if (reply->word != ONCE_DONE)
        once__out_null(out);
    else
        write_record(out, reply);
}
