/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations over HTTP: begin and what follows it. Fields are declared here, next to what is made
 * of them.
 */
#include "server/http_inner.h"

#include <stdio.h>

#include "base/assert.h"

#define COUNT(fields) (sizeof(fields) / sizeof((fields)[0]))
/* A fence that was never given (0) is for the store to refuse where it must be said. */
#define FENCE_FIELD(needed, meaning)                                                               \
    {                                                                                              \
        .name = "fence", .kind = ONCE__FIELD_NUMBER, .required = (needed),                         \
        .min = (needed) ? 0 : 1, .max = (int64_t)ONCE_FENCE_MAX, .text = (meaning)                 \
    }

/* ---- What the bodies say --------------------------------------------------------------------- */

enum { BEGIN_FINGERPRINT, BEGIN_OWNER, BEGIN_TTL, BEGIN_LEASE, BEGIN_ON_DOUBT, BEGIN_WAIT };
static const char *const on_doubt_words[] = {"reject", "retry", NULL};
static const struct once__http_field begin_fields[] = {
    [BEGIN_FINGERPRINT] = {.name = "fingerprint",
                           .kind = ONCE__FIELD_BYTES,
                           .text = "What makes this request this request; the same key with "
                                   "another one is a MISMATCH. 32 bytes are taken as they are, "
                                   "anything else is hashed."},
    [BEGIN_OWNER] = {.name = "owner",
                     .kind = ONCE__FIELD_TEXT,
                     .max = ONCE_OWNER_SIZE_MAX,
                     .text = "Names this attempt: asking again with the same owner gives the same "
                             "EXECUTE."},
    [BEGIN_TTL] = {.name = "ttl_ms",
                   .kind = ONCE__FIELD_NUMBER,
                   .min = 1,
                   .max = ONCE_RETENTION_MS_MAX,
                   .text = "How long the answer is kept; else the namespace's retention_ms."},
    [BEGIN_LEASE] = {.name = "lease_ms",
                     .kind = ONCE__FIELD_NUMBER,
                     .min = 1,
                     .max = ONCE_LEASE_MS_MAX,
                     .text = "How long the attempt may take without a renew; else the "
                             "namespace's lease_ms."},
    [BEGIN_ON_DOUBT] = {.name = "on_doubt",
                        .kind = ONCE__FIELD_WORD,
                        .words = on_doubt_words,
                        .text = "What to do when someone started it and vanished."},
    [BEGIN_WAIT] = {.name = "wait_ms",
                    .kind = ONCE__FIELD_NUMBER,
                    .min = 0,
                    .max = ONCE_WAIT_MS_MAX,
                    .text = "While someone else does it, wait so long for its answer instead of "
                            "being told BUSY; at most the namespace's wait_ms_max."},
};
const struct once__http_fields once__http_begin_fields = {"BeginRequest", begin_fields,
                                                          COUNT(begin_fields)};

enum { COMPLETE_FENCE, COMPLETE_CODE, COMPLETE_RESULT };
static const struct once__http_field complete_fields[] = {
    [COMPLETE_FENCE] = FENCE_FIELD(true, "The fence that EXECUTE gave."),
    [COMPLETE_CODE] = {.name = "code",
                       .kind = ONCE__FIELD_NUMBER,
                       .required = true,
                       .min = INT32_MIN,
                       .max = INT32_MAX,
                       .text = "A number of yours that replays give back; in a namespace whose "
                               "codes are http, the HTTP status of the answer."},
    [COMPLETE_RESULT] = {.name = "result",
                         .kind = ONCE__FIELD_BYTES,
                         .max = ONCE_RESULT_SIZE_MAX,
                         .text = "The answer: a string, which replays give back as it is. A JSON "
                                 "value goes in as its text."},
};
const struct once__http_fields once__http_complete_fields = {"CompleteRequest", complete_fields,
                                                             COUNT(complete_fields)};

enum { FAIL_FENCE, FAIL_REASON };
static const struct once__http_field fail_fields[] = {
    [FAIL_FENCE] = FENCE_FIELD(true, "The fence that EXECUTE gave."),
    [FAIL_REASON] = {.name = "reason",
                     .kind = ONCE__FIELD_BYTES,
                     .max = ONCE_REASON_SIZE_MAX,
                     .text = "Why, for people."},
};
const struct once__http_fields once__http_fail_fields = {"FailRequest", fail_fields,
                                                         COUNT(fail_fields)};

enum { CHECKPOINT_FENCE, CHECKPOINT_POINT, CHECKPOINT_DATA, CHECKPOINT_AFTER };
static const struct once__http_field checkpoint_fields[] = {
    [CHECKPOINT_FENCE] = FENCE_FIELD(true, "The fence that EXECUTE gave."),
    [CHECKPOINT_POINT] = {.name = "point",
                          .kind = ONCE__FIELD_TEXT,
                          .required = true,
                          .max = ONCE_POINT_SIZE_MAX,
                          .text = "The step that is finished."},
    [CHECKPOINT_DATA] = {.name = "data",
                         .kind = ONCE__FIELD_BYTES,
                         .max = ONCE_DATA_SIZE_MAX,
                         .text = "What a retry needs to go on."},
    [CHECKPOINT_AFTER] = {.name = "after",
                          .kind = ONCE__FIELD_TEXT,
                          .max = ONCE_POINT_SIZE_MAX,
                          .text = "The point that this one follows, \"\" for the beginning: a "
                                  "repeated older one is then STALE."},
};
const struct once__http_fields once__http_checkpoint_fields = {
    "CheckpointRequest", checkpoint_fields, COUNT(checkpoint_fields)};

enum { RENEW_FENCE, RENEW_LEASE };
static const struct once__http_field renew_fields[] = {
    [RENEW_FENCE] = FENCE_FIELD(true, "The fence that EXECUTE gave."),
    [RENEW_LEASE] = {.name = "lease_ms",
                     .kind = ONCE__FIELD_NUMBER,
                     .required = true,
                     .min = 0,
                     .max = ONCE_LEASE_MS_MAX,
                     .text = "From now on; 0 gives the lease up: the operation is in doubt."},
};
const struct once__http_fields once__http_renew_fields = {"RenewRequest", renew_fields,
                                                          COUNT(renew_fields)};

enum { RESOLVE_DONE, RESOLVE_OUTCOME, RESOLVE_CODE, RESOLVE_RESULT, RESOLVE_FENCE };
static const char *const outcome_words[] = {"NOTDONE", "DONE", NULL};
static const struct once__http_field resolve_fields[] = {
    [RESOLVE_DONE] = {.name = "done",
                      .kind = ONCE__FIELD_BOOL,
                      .text = "Did it happen? Either this or outcome is needed."},
    [RESOLVE_OUTCOME] = {.name = "outcome",
                         .kind = ONCE__FIELD_WORD,
                         .words = outcome_words,
                         .text = "The same as done, in the words of RESP."},
    [RESOLVE_CODE] = {.name = "code",
                      .kind = ONCE__FIELD_NUMBER,
                      .min = INT32_MIN,
                      .max = INT32_MAX,
                      .text = "As in complete; needed when it happened."},
    [RESOLVE_RESULT] = {.name = "result",
                        .kind = ONCE__FIELD_BYTES,
                        .max = ONCE_RESULT_SIZE_MAX,
                        .text = "As in complete; only when it happened."},
    [RESOLVE_FENCE] = FENCE_FIELD(false, "The fence of the doubt that was looked at; without it "
                                         "whichever it is now."),
};
const struct once__http_fields once__http_resolve_fields = {"ResolveRequest", resolve_fields,
                                                            COUNT(resolve_fields)};

static const struct once__http_field forget_query[] = {
    FENCE_FIELD(false, "The current fence: forgets the operation even if it has not ended."),
};
const struct once__http_fields once__http_forget_query = {"forget", forget_query,
                                                          COUNT(forget_query)};

/* ---- Calling --------------------------------------------------------------------------------- */

enum once__http_next once__http_call(struct once__http_request *request)
{
    struct once__call *call = &request->call;

    call->from = request->from;
    if (once__service_check(request->http->setup.service, request->config, &request->identity,
                            call) == ONCE_OK)
        return ONCE__HTTP_CALL;
    once__http_problem_err(request, &call->op.reply);
    return ONCE__HTTP_ANSWERED;
}

/* The call of a path /v1/ops/{ns}/{key}. */
static struct once_op *op_of(struct once__http_request *request, enum once_call_kind kind)
{
    struct once_op *op = &request->call.op;

    ONCE_ASSERT(request->params.count == 2);
    op->call = kind;
    op->ns = request->params.values[0];
    op->key = request->params.values[1];
    return op;
}

enum once__http_next once__http_begin(struct once__http_request *request)
{
    const struct once__http_value *values = request->said.values;
    struct once_op *op = op_of(request, ONCE_CALL_BEGIN);

    op->fingerprint = values[BEGIN_FINGERPRINT].bytes;
    op->owner = values[BEGIN_OWNER].bytes;
    op->ttl_ms = values[BEGIN_TTL].number;
    op->lease_ms = values[BEGIN_LEASE].number;
    op->on_doubt = (enum once_on_doubt)values[BEGIN_ON_DOUBT].number;
    request->call.on_doubt_given = values[BEGIN_ON_DOUBT].given;
    request->call.wait_ms = values[BEGIN_WAIT].number;
    return once__http_call(request);
}

enum once__http_next once__http_complete(struct once__http_request *request)
{
    const struct once__http_value *values = request->said.values;
    struct once_op *op = op_of(request, ONCE_CALL_COMPLETE);

    op->fence = (uint64_t)values[COMPLETE_FENCE].number;
    op->code = (int32_t)values[COMPLETE_CODE].number;
    op->result = values[COMPLETE_RESULT].bytes;
    return once__http_call(request);
}

enum once__http_next once__http_fail(struct once__http_request *request)
{
    struct once_op *op = op_of(request, ONCE_CALL_FAIL);

    op->fence = (uint64_t)request->said.values[FAIL_FENCE].number;
    op->result = request->said.values[FAIL_REASON].bytes;
    return once__http_call(request);
}

enum once__http_next once__http_checkpoint(struct once__http_request *request)
{
    const struct once__http_value *values = request->said.values;
    struct once_op *op = op_of(request, ONCE_CALL_CHECKPOINT);

    op->fence = (uint64_t)values[CHECKPOINT_FENCE].number;
    op->point = values[CHECKPOINT_POINT].bytes;
    op->data = values[CHECKPOINT_DATA].bytes;
    op->follows = values[CHECKPOINT_AFTER].given;
    op->after = values[CHECKPOINT_AFTER].bytes;
    return once__http_call(request);
}

enum once__http_next once__http_renew(struct once__http_request *request)
{
    struct once_op *op = op_of(request, ONCE_CALL_RENEW);

    op->fence = (uint64_t)request->said.values[RENEW_FENCE].number;
    op->lease_ms = request->said.values[RENEW_LEASE].number;
    return once__http_call(request);
}

static enum once__http_next refuse_resolve(struct once__http_request *request, const char *field,
                                           const char *text)
{
    struct once__http_defect defect = {.field = ""};

    (void)snprintf(defect.field, sizeof defect.field, "%s", field);
    (void)snprintf(defect.text, sizeof defect.text, "%s: %s", field, text);
    once__http_problem_field(request, &defect);
    return ONCE__HTTP_ANSWERED;
}

enum once__http_next once__http_resolve(struct once__http_request *request)
{
    const struct once__http_value *values = request->said.values;
    struct once_op *op = op_of(request, ONCE_CALL_RESOLVE);

    if (values[RESOLVE_DONE].given == values[RESOLVE_OUTCOME].given)
        return refuse_resolve(request, "done",
                              values[RESOLVE_DONE].given ? "is said twice, as outcome too"
                                                         : "is missing");
    op->done = values[RESOLVE_DONE].number == 1 || values[RESOLVE_OUTCOME].number == 1;
    if (op->done && !values[RESOLVE_CODE].given)
        return refuse_resolve(request, "code", "is missing: it happened, so it has an answer");
    if (!op->done && values[RESOLVE_CODE].given)
        return refuse_resolve(request, "code", "is said, but it did not happen");
    if (!op->done && values[RESOLVE_RESULT].given)
        return refuse_resolve(request, "result", "is said, but it did not happen");
    op->code = (int32_t)values[RESOLVE_CODE].number;
    op->result = values[RESOLVE_RESULT].bytes;
    op->fence = (uint64_t)values[RESOLVE_FENCE].number;
    return once__http_call(request);
}

enum once__http_next once__http_get(struct once__http_request *request)
{
    (void)op_of(request, ONCE_CALL_GET);
    return once__http_call(request);
}

enum once__http_next once__http_forget(struct once__http_request *request)
{
    struct once_op *op = op_of(request, ONCE_CALL_FORGET);

    op->fence = (uint64_t)request->query.values[0].number;
    return once__http_call(request);
}

/* ---- Answering ------------------------------------------------------------------------------- */

/* True: an error or a word that is no success was answered. */
static bool answered_problem(struct once__http_request *request)
{
    const struct once_reply *reply = &request->call.op.reply;

    if (reply->err != ONCE_OK) {
        once__http_problem_err(request, reply);
        return true;
    }
    if (reply->word == ONCE_EXECUTE || reply->word == ONCE_REPLAY || reply->word == ONCE_DONE)
        return false;
    once__http_problem_word(request, reply);
    return true;
}

struct once__view once__http_verdict(struct once__http_request *request, const char *verdict)
{
    struct once__view view = once__http_answer(request, 200);

    once__view_text(&view, "{\"verdict\":\"");
    once__view_text(&view, verdict);
    once__view_text(&view, "\"");
    return view;
}

static void end(struct once__http_request *request, struct once__view *view)
{
    once__view_text(view, "}");
    once__http_answer_end(request, view);
}

/* "name":"…" where there is something, else null. */
void once__http_begin_finish(struct once__http_request *request)
{
    const struct once_reply *reply = &request->call.op.reply;
    bool has_point = reply->point.size > 0;
    struct once__view view;

    if (answered_problem(request))
        return;
    view = once__http_verdict(request, once_word_name(reply->word));
    if (reply->word == ONCE_EXECUTE) {
        once__view_number_field(&view, "fence", reply->fence);
        once__view_number_field(&view, "attempt", reply->attempt);
        once__view_known_field(&view, "point", reply->point, has_point);
        once__view_known_field(&view, "data", reply->data, has_point);
    } else {
        once__view_signed_field(&view, "code", reply->code);
        once__view_bytes_field(&view, "result", reply->result);
    }
    end(request, &view);
}

void once__http_ok_finish(struct once__http_request *request)
{
    struct once__view view;

    if (answered_problem(request))
        return;
    view = once__http_verdict(request, once_word_name(ONCE_DONE));
    end(request, &view);
}

/* What the namespace's policy made of the code is told: the caller's answer may not be kept. */
void once__http_complete_finish(struct once__http_request *request)
{
    struct once__view view;

    if (request->call.outcome == ONCE_OUTCOME_STORE) {
        once__http_ok_finish(request);
        return;
    }
    if (answered_problem(request))
        return;
    view = once__http_verdict(request,
                              request->call.outcome == ONCE_OUTCOME_RELEASE ? "RELEASED" : "DOUBT");
    end(request, &view);
}

void once__http_get_finish(struct once__http_request *request)
{
    const struct once_reply *reply = &request->call.op.reply;
    struct once__view view;
    bool ended;

    if (answered_problem(request))
        return;
    ended = reply->state == ONCE_STATE_COMPLETED;
    view = once__http_answer(request, 200);
    once__view_text(&view, "{\"namespace\":");
    once__view_string(&view, request->params.values[0]);
    once__view_bytes_field(&view, "key", request->params.values[1]);
    once__view_bytes_field(&view, "state", once_bytes_of(once_state_name(reply->state)));
    once__view_number_field(&view, "fence", reply->fence);
    once__view_number_field(&view, "attempt", reply->attempt);
    if (ended) {
        once__view_signed_field(&view, "code", reply->code);
        once__view_bytes_field(&view, "result", reply->result);
    }
    if (reply->state == ONCE_STATE_FAILED)
        once__view_bytes_field(&view, "reason", reply->result);
    once__view_known_field(&view, "owner", reply->owner, reply->owner.size > 0);
    once__view_known_field(&view, "point", reply->point, reply->point.size > 0);
    once__view_known_field(&view, "data", reply->data, reply->point.size > 0);
    once__view_signed_field(&view, "created_ms", reply->created_ms);
    once__view_signed_field(&view, "lease_end_ms", reply->lease_end_ms);
    once__view_signed_field(&view, "retention_ms", reply->retention_ms);
    once__view_signed_field(&view, "expires_ms", reply->expires_ms);
    once__view_signed_field(&view, "now_ms", reply->now_ms);
    once__view_fingerprint_field(&view, &reply->fingerprint);
    end(request, &view);
}
