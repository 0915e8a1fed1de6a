/* SPDX-License-Identifier: Apache-2.0
 *
 * Problem details (RFC 9457): what went wrong, for a person (title, detail) and for a program
 * (type, status, verdict, error and what belongs to them), and the mapping of the store's words
 * and errors to HTTP's statuses.
 */
#include "server/http_inner.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

struct problem {
    unsigned status;
    const char *type; /* behind "urn:once:problem:" */
    const char *title;
};

static const struct problem problems[ONCE__PROBLEM_COUNT] = {
    [ONCE__PROBLEM_BAD_FIELD] = {400, "bad-field", "A field is not valid"},
    [ONCE__PROBLEM_BAD_REQUEST] = {400, "bad-request", "The request is not valid"},
    [ONCE__PROBLEM_UNAUTHENTICATED] = {401, "unauthenticated", "Nobody is known by that"},
    [ONCE__PROBLEM_DENIED] = {403, "denied", "This user may not do that"},
    [ONCE__PROBLEM_CROSS_ORIGIN] = {403, "cross-origin", "A page of another origin sent this"},
    [ONCE__PROBLEM_NO_ROUTE] = {404, "no-route", "There is nothing at this path"},
    [ONCE__PROBLEM_NO_NAMESPACE] = {404, "no-namespace", "There is no such namespace"},
    [ONCE__PROBLEM_NOT_FOUND] = {404, "not-found", "There is no such operation"},
    [ONCE__PROBLEM_NO_OBJECT] = {404, "no-object", "There is no such object"},
    [ONCE__PROBLEM_NO_FILE] = {404, "no-file", "The page has no such file"},
    [ONCE__PROBLEM_METHOD] = {405, "method", "This path does not take that method"},
    [ONCE__PROBLEM_BUSY] = {409, "busy", "Someone holds a live lease"},
    [ONCE__PROBLEM_DOUBT] = {409, "doubt", "Someone started it and vanished"},
    [ONCE__PROBLEM_STALE] = {409, "stale", "The fence is not the current one"},
    [ONCE__PROBLEM_OBJECT_TYPE] = {409, "object-type", "The object is of another type"},
    [ONCE__PROBLEM_VERSION] = {412, "version", "The object is at another version"},
    [ONCE__PROBLEM_TOO_LARGE] = {413, "too-large", "It is too large"},
    [ONCE__PROBLEM_MEDIA_TYPE] = {415, "media-type", "The body is of a type not taken here"},
    [ONCE__PROBLEM_HOST] = {421, "host", "This server does not answer for that host"},
    [ONCE__PROBLEM_MISMATCH] = {422, "mismatch", "The key belongs to another request"},
    [ONCE__PROBLEM_TOO_OLD] = {422, "too-old", "The key is older than answers are kept"},
    [ONCE__PROBLEM_REJECTED] = {422, "rejected", "An effect was rejected, and so all of them"},
    [ONCE__PROBLEM_CONDITION] = {428, "condition", "A condition or a key is needed"},
    [ONCE__PROBLEM_RATE] = {429, "rate", "This user has made too many calls"},
    [ONCE__PROBLEM_AUTH_DELAYED] = {429, "wrong-passwords", "Too many wrong passwords"},
    [ONCE__PROBLEM_INTERNAL] = {500, "internal", "The server failed"},
    [ONCE__PROBLEM_UNSUPPORTED] = {501, "unsupported", "This store cannot do that"},
    [ONCE__PROBLEM_LOADING] = {503, "loading", "The store is still being opened"},
    [ONCE__PROBLEM_FULL] = {503, "full", "The store is full"},
    [ONCE__PROBLEM_STOPPED] = {503, "stopped", "The store has stopped"},
    [ONCE__PROBLEM_DRAINING] = {503, "draining", "The server is stopping"},
    [ONCE__PROBLEM_OVERLOAD] = {503, "overload", "The server is too busy"},
};

const char *once__http_status_text(unsigned status)
{
    if (status == 200)
        return "It is so, or it was done";
    if (status == 304)
        return "It has not changed";
    if (status == 400)
        return "The request or a field of it is not valid; the detail names it";
    if (status == 404)
        return "There is none";
    if (status == 409)
        return "Busy (with Retry-After), in doubt, stale, or an object of another type";
    if (status == 422)
        return "The key belongs to another request, is too old, or an effect was rejected";
    if (status == 503)
        return "Not now: loading, full, stopped, draining or overloaded";
    for (size_t i = 0; i < ONCE__PROBLEM_COUNT; i++) {
        if (problems[i].status == status)
            return problems[i].title;
    }
    return "Another status";
}

struct once__view once__http_problem_begin(struct once__http_request *request,
                                           enum once__http_problem problem, const char *detail)
{
    const struct problem *known = &problems[problem];
    struct once__view view = once__http_answer(request, known->status);

    request->answer.type = "application/problem+json";
    if (known->status == 503)
        request->answer.retry_ms = 1000;
    once__view_text(&view, "{\"type\":\"urn:once:problem:");
    once__view_text(&view, known->type);
    once__view_text(&view, "\",\"title\":");
    once__view_string(&view, once_bytes_of(known->title));
    once__view_number_field(&view, "status", known->status);
    once__view_bytes_field(&view, "detail", once_bytes_of(detail));
    /* A path may be any bytes. */
    if (once__utf8_check(once_bytes_of(request->path)))
        once__view_bytes_field(&view, "instance", once_bytes_of(request->path));
    return view;
}

void once__http_problem_end(struct once__http_request *request, struct once__view *view)
{
    once__view_text(view, "}");
    once__http_answer_end(request, view);
}

void once__http_problem(struct once__http_request *request, enum once__http_problem problem,
                        const char *detail)
{
    struct once__view view = once__http_problem_begin(request, problem, detail);

    once__http_problem_end(request, &view);
}

void once__http_problem_field(struct once__http_request *request,
                              const struct once__http_defect *defect)
{
    struct once__view view = once__http_problem_begin(request, ONCE__PROBLEM_BAD_FIELD,
                                                      defect->text);

    once__view_text(&view, ",\"error\":\"ERR_INVALID\"");
    if (defect->field[0] != '\0')
        once__view_bytes_field(&view, "field", once_bytes_of(defect->field));
    once__http_problem_end(request, &view);
}

static enum once__http_problem problem_of_err(const struct once_reply *reply)
{
    switch (reply->err) {
    case ONCE_ERR_DENIED:
        return ONCE__PROBLEM_DENIED;
    case ONCE_ERR_RATE:
        return ONCE__PROBLEM_RATE;
    case ONCE_ERR_LOADING:
        return ONCE__PROBLEM_LOADING;
    case ONCE_ERR_SPACE:
    case ONCE_ERR_KEYS:
        return ONCE__PROBLEM_FULL;
    case ONCE_ERR_FULL:
        /* Of one effect, or of what the request brings: no use in repeating it. */
        return reply->effect > 0 ? ONCE__PROBLEM_TOO_LARGE : ONCE__PROBLEM_FULL;
    case ONCE_ERR_TOO_LARGE:
        return ONCE__PROBLEM_TOO_LARGE;
    case ONCE_ERR_IO:
    case ONCE_ERR_STOPPED:
    case ONCE_ERR_CLOSED:
        return ONCE__PROBLEM_STOPPED;
    case ONCE_ERR_MEMORY:
        return ONCE__PROBLEM_OVERLOAD;
    case ONCE_ERR_OBJECT_TYPE:
    case ONCE_ERR_TYPE:
        return ONCE__PROBLEM_OBJECT_TYPE;
    case ONCE_ERR_NO_OBJECT:
        return ONCE__PROBLEM_NO_OBJECT;
    case ONCE_ERR_UNSUPPORTED:
        return ONCE__PROBLEM_UNSUPPORTED;
    case ONCE_ERR_INVALID:
    case ONCE_ERR_KEY_NEEDED:
    case ONCE_ERR_OVERFLOW:
        return ONCE__PROBLEM_BAD_FIELD;
    default:
        return reply->err <= ONCE_ERR_KEY_EMPTY && reply->err >= ONCE_ERR_KEY_FUTURE
                   ? ONCE__PROBLEM_BAD_FIELD
                   : ONCE__PROBLEM_INTERNAL;
    }
}

void once__http_problem_err(struct once__http_request *request, const struct once_reply *reply)
{
    const char *what = reply->what ? reply->what : once_err_text(reply->err);
    char detail[ONCE_MESSAGE_SIZE];
    struct once__view view;

    ONCE_ASSERT(reply->err != ONCE_OK);
    if (reply->effect > 0)
        (void)snprintf(detail, sizeof detail, "effect %u: %s", (unsigned)reply->effect, what);
    else
        (void)snprintf(detail, sizeof detail, "%s", what);
    view = once__http_problem_begin(request, problem_of_err(reply), detail);
    if (reply->retry_ms > 0)
        request->answer.retry_ms = reply->retry_ms;
    once__view_text(&view, ",\"error\":\"");
    once__view_text(&view, once_err_name(reply->err));
    once__view_text(&view, "\"");
    if (reply->effect > 0)
        once__view_number_field(&view, "effect", reply->effect);
    if (reply->retry_ms > 0)
        once__view_signed_field(&view, "retry_ms", reply->retry_ms);
    once__http_problem_end(request, &view);
}

static const char *detail_of(enum once_word word)
{
    switch ((unsigned)word) {
    case ONCE_BUSY:
        return "Someone holds a live lease on this key: come back after retry_ms, or begin with "
               "wait_ms to be told when it has ended.";
    case ONCE_MISMATCH:
        return "The key was first used by a request with another fingerprint, or it has ended "
               "with another answer. A new request needs a new key.";
    case ONCE_DOUBT:
        return "Someone started this operation and its lease ran out; nobody knows whether it "
               "happened. Find out and resolve it; begin with on_doubt \"retry\" only where doing "
               "it twice does no harm.";
    case ONCE_TOO_OLD:
        return "The key was born longer ago than answers are kept, so nobody can say whether it "
               "was used. Make sure that the operation did not happen, then use a new key.";
    case ONCE_STALE:
        return "The fence is not the current one: someone else has taken the operation over, or "
               "this attempt has ended.";
    default:
        return "There is no operation under this key: it was never begun, was forgotten, or its "
               "answer has expired.";
    }
}

static enum once__http_problem problem_of_word(enum once_word word)
{
    switch ((unsigned)word) {
    case ONCE_BUSY:
        return ONCE__PROBLEM_BUSY;
    case ONCE_MISMATCH:
        return ONCE__PROBLEM_MISMATCH;
    case ONCE_DOUBT:
        return ONCE__PROBLEM_DOUBT;
    case ONCE_TOO_OLD:
        return ONCE__PROBLEM_TOO_OLD;
    case ONCE_STALE:
        return ONCE__PROBLEM_STALE;
    default:
        return ONCE__PROBLEM_NOT_FOUND;
    }
}

void once__http_problem_word(struct once__http_request *request, const struct once_reply *reply)
{
    struct once__view view = once__http_problem_begin(request, problem_of_word(reply->word),
                                                      detail_of(reply->word));

    once__view_text(&view, ",\"verdict\":\"");
    once__view_text(&view, once_word_name(reply->word));
    once__view_text(&view, "\"");
    if (reply->word == ONCE_BUSY) {
        once__view_signed_field(&view, "retry_ms", reply->retry_ms);
        request->answer.retry_ms = reply->retry_ms > 0 ? reply->retry_ms : 1;
    }
    if (reply->word == ONCE_DOUBT && reply->fence > 0) {
        once__view_number_field(&view, "fence", reply->fence);
        once__view_number_field(&view, "attempt", reply->attempt);
        if (reply->point.size > 0) {
            once__view_bytes_field(&view, "point", reply->point);
            once__view_bytes_field(&view, "data", reply->data);
        }
    }
    once__http_problem_end(request, &view);
}
