/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told: verdicts and records as JSON, in the shapes of the HTTP API. Bytes that are no
 * UTF-8 stand in base64 under their name with _base64 behind it.
 */
#include "lite.h"

#include <inttypes.h>
#include <stdio.h>

#include <once/limits.h>

#include "object/view_text.h"

static struct once__view start(struct once_buf *buf)
{
    once_buf_init(buf, ONCE_LITE_ANSWER_SIZE_MAX);
    return (struct once__view){.out = buf, .err = ONCE_OK};
}

/* The answer becomes the function's value; JSON functions of SQLite take it as text. */
static void finish(struct once__lite_call *call, struct once__view *view)
{
    once__view_text(view, "}");
    if (view->err != ONCE_OK)
        once__lite_error(call, view->err, NULL);
    else
        sqlite3_result_text64(call->context, (const char *)view->out->data, view->out->size,
                              SQLITE_TRANSIENT, SQLITE_UTF8);
    once_buf_release(view->out);
}

void once__lite_tell_begin(struct once__lite_call *call, const struct once_decision *decision)
{
    const struct once_record *next = &decision->next;
    struct once_buf buf;
    struct once__view view = start(&buf);

    once__view_text(&view, "{\"verdict\":\"");
    once__view_text(&view, once_word_name(decision->word));
    once__view_text(&view, "\"");
    if (decision->word == ONCE_EXECUTE || decision->word == ONCE_DOUBT) {
        once__view_number_field(&view, "fence", next->fence);
        once__view_number_field(&view, "attempt", next->attempt);
        once__view_known_field(&view, "point", next->point, next->point.size > 0);
        once__view_known_field(&view, "data", next->data, next->point.size > 0);
    } else if (decision->word == ONCE_REPLAY) {
        once__view_signed_field(&view, "code", next->code);
        once__view_bytes_field(&view, "result", next->result);
    } else if (decision->word == ONCE_BUSY) {
        once__view_signed_field(&view, "retry_ms", decision->retry_ms);
    }
    finish(call, &view);
}

void once__lite_tell_record(struct once__lite_call *call, const struct once__lite_name *name,
                            const struct once_record *record)
{
    enum once_state state = once__state_at(record, call->lite->now_ms);
    struct once_buf buf;
    struct once__view view = start(&buf);

    once__view_text(&view, "{\"namespace\":");
    once__view_string(&view, name->ns);
    once__view_bytes_field(&view, "key", name->key);
    once__view_bytes_field(&view, "state", once_bytes_of(once_state_name(state)));
    once__view_number_field(&view, "fence", record->fence);
    once__view_number_field(&view, "attempt", record->attempt);
    if (state == ONCE_STATE_COMPLETED) {
        once__view_signed_field(&view, "code", record->code);
        once__view_bytes_field(&view, "result", record->result);
    } else if (state == ONCE_STATE_FAILED) {
        once__view_bytes_field(&view, "reason", record->result);
    }
    once__view_known_field(&view, "owner", record->owner, record->owner.size > 0);
    once__view_known_field(&view, "point", record->point, record->point.size > 0);
    once__view_known_field(&view, "data", record->data, record->point.size > 0);
    once__view_signed_field(&view, "created_ms", record->created_ms);
    once__view_signed_field(&view, "lease_end_ms", record->lease_end_ms);
    once__view_signed_field(&view, "retention_ms", record->retention_ms);
    once__view_signed_field(&view, "expires_ms", record->expires_ms);
    once__view_signed_field(&view, "now_ms", call->lite->now_ms);
    once__view_fingerprint_field(&view, &record->fingerprint);
    finish(call, &view);
}

void once__lite_tell_word(struct once__lite_call *call, const struct once_decision *decision)
{
    char text[64];

    switch (decision->word) {
    case ONCE_DONE:
    case ONCE_DOUBT: /* it was written down: an error would take it back */
        sqlite3_result_text(call->context, once_word_name(decision->word), -1, SQLITE_STATIC);
        return;
    case ONCE_BUSY:
        (void)snprintf(text, sizeof text, "someone holds a live lease; come back in %" PRId64 " ms",
                       decision->retry_ms);
        once__lite_refuse(call, ONCE_BUSY, text);
        return;
    case ONCE_MISMATCH:
        once__lite_refuse(call, ONCE_MISMATCH, "the operation has ended with another answer");
        return;
    case ONCE_STALE:
        once__lite_refuse(call, ONCE_STALE,
                          "the fence is not the current one, or the attempt has ended");
        return;
    case ONCE_EXECUTE:
    case ONCE_REPLAY:
    case ONCE_TOO_OLD:
    case ONCE_NOTFOUND:
    case ONCE_APPLIED:
    case ONCE_REJECTED:
        break;
    }
    once__lite_refuse(call, ONCE_NOTFOUND, "there is no such operation");
}
