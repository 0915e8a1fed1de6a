/* SPDX-License-Identifier: Apache-2.0
 *
 * The outbox (S3): emit writes a message in the transaction of the effect that it tells of; a
 * worker takes it under a lease, performs it outside with the message's id as the key, and
 * acknowledges it. A worker that vanishes leaves its messages to the next: outside, too, a message
 * may come twice, and its id says that it is the same. Messages of one group are taken one at a
 * time, in the order of their ids, which is the order of commits, since SQLite has one writer.
 */
#include "lite.h"

#include <once/limits.h>

#include "object/view_text.h"

/* The message's id, one of the store's fences. */
void once__lite_do_emit(struct once__lite_call *call)
{
    struct once__lite *lite = call->lite;
    struct once_bytes topic, group = {NULL, 0};
    struct once__lite_bytes payload;
    int64_t id, before;
    bool ok;

    if (!once__lite_key_arg(call, 0, "the topic", &topic) ||
        !once__lite_bytes_arg(call, 1, "the payload", ONCE_PAYLOAD_SIZE_MAX, &payload) ||
        (once__lite_given(call, 2) && !once__lite_key_arg(call, 2, "the group", &group)))
        return;
    if (!payload.given) {
        once__lite_error(call, ONCE_ERR_INVALID, "there is no payload");
        return;
    }
    if (!once__lite_start(call))
        return;
    id = (int64_t)lite->next_fence;
    before = sqlite3_last_insert_rowid(lite->db);
    ok = once__lite_mark(call, true) &&
         once__lite_tell(call, ONCE__LITE_EMIT,
                         (struct once__lite_value[]){
                             once__lite_number(id), once__lite_text(topic),
                             group.data ? once__lite_text(group)
                                        : (struct once__lite_value){.kind = ONCE__LITE_NULL},
                             once__lite_value_of(&payload), once__lite_number(lite->now_ms)},
                         5, NULL);
    sqlite3_set_last_insert_rowid(lite->db, before); /* the caller asks for that of its own row */
    once__lite_end(call, ok, id);
}

/* ---- Taking ---------------------------------------------------------------------------------- */

static void view_message(struct once__view *view, sqlite3_stmt *row, int64_t token)
{
    once__view_text(view, "{\"id\":");
    once__view_signed(view, sqlite3_column_int64(row, 0));
    once__view_field(view, "group");
    if (sqlite3_column_type(row, 1) == SQLITE_NULL)
        once__view_text(view, "null");
    else
        once__view_string(view, once__lite_column(row, 1));
    once__view_bytes_field(view, "payload", once__lite_column(row, 2));
    once__view_signed_field(view, "token", token);
    once__view_signed_field(view, "attempt", sqlite3_column_int64(row, 3));
    once__view_signed_field(view, "emitted_ms", sqlite3_column_int64(row, 4));
    once__view_text(view, "}");
}

/* Those that bear the token, as a JSON array. */
static bool show_taken(struct once__lite_call *call, struct once_bytes topic, int64_t token,
                       struct once_buf *out)
{
    const struct once__lite_value values[] = {once__lite_text(topic), once__lite_number(token)};
    struct once__view view = {.out = out, .err = ONCE_OK};
    int status = SQLITE_DONE;
    sqlite3_stmt *row;
    bool first = true;

    if (!once__lite_ask(call, ONCE__LITE_TAKEN, values, 2, &row))
        return false;
    once__view_text(&view, "[");
    for (status = row ? SQLITE_ROW : SQLITE_DONE; status == SQLITE_ROW;
         status = sqlite3_step(row)) {
        if (!first)
            once__view_text(&view, ",");
        first = false;
        view_message(&view, row, token);
    }
    once__view_text(&view, "]");
    once__lite_rest(row);
    if (status != SQLITE_DONE)
        once__lite_sqlite_error(call, status);
    else if (view.err != ONCE_OK)
        once__lite_error(call, view.err, NULL);
    return status == SQLITE_DONE && view.err == ONCE_OK;
}

void once__lite_do_take(struct once__lite_call *call)
{
    const struct once__lite_range batches = {1, ONCE_LITE_TAKE_MAX, 10};
    const struct once__lite_range leases = {1, ONCE_LEASE_MS_MAX, ONCE_LEASE_MS_DEFAULT};
    struct once__lite *lite = call->lite;
    int64_t batch, lease_ms, token, taken = 0;
    struct once_bytes topic;
    struct once_buf out;
    bool ok;

    if (!once__lite_key_arg(call, 0, "the topic", &topic) ||
        !once__lite_number_arg(call, 1, "the batch", batches, &batch) ||
        !once__lite_number_arg(call, 2, "lease_ms", leases, &lease_ms) || !once__lite_start(call))
        return;
    token = (int64_t)lite->next_fence;
    once_buf_init(&out, ONCE_LITE_ANSWER_SIZE_MAX);
    ok = once__lite_tell(
             call, ONCE__LITE_TAKE,
             (struct once__lite_value[]){once__lite_text(topic), once__lite_number(token),
                                         once__lite_number(lite->now_ms + lease_ms),
                                         once__lite_number(lite->now_ms), once__lite_number(batch)},
             5, &taken) &&
         (taken == 0 || once__lite_mark(call, true)) && show_taken(call, topic, token, &out);
    if (!ok)
        once__lite_abandon(call);
    else if (once__lite_leave(call))
        sqlite3_result_text64(call->context, (const char *)out.data, out.size, SQLITE_TRANSIENT,
                              SQLITE_UTF8);
    once_buf_release(&out);
}

/* ---- How it went ----------------------------------------------------------------------------- */

/* Is it still this worker's? False: refused, or the error is set. */
static bool held(struct once__lite_call *call, int64_t id, int64_t token, bool *ret_acked)
{
    struct once__lite_value value = once__lite_number(id);
    sqlite3_stmt *row;
    int64_t holder = 0;
    bool there;

    if (!once__lite_ask(call, ONCE__LITE_MESSAGE_LOOK, &value, 1, &row))
        return false;
    there = row != NULL;
    if (there) {
        holder = sqlite3_column_int64(row, 0);
        *ret_acked = sqlite3_column_type(row, 1) != SQLITE_NULL;
    }
    once__lite_rest(row);
    if (!there)
        once__lite_refuse(call, ONCE_NOTFOUND, "there is no such message");
    else if (holder != token)
        once__lite_refuse(call, ONCE_STALE,
                          "another worker has taken the message, or it was given back");
    return there && holder == token;
}

/* 1: done now, with this at its second parameter. 0: it was acknowledged already. */
static void end_message(struct once__lite_call *call, enum once__lite_sql which, int64_t delay_ms)
{
    const struct once__lite_range range = {1, (int64_t)ONCE_FENCE_MAX, 0};
    int64_t id, token;
    bool acked = false, ok;

    if (!once__lite_number_arg(call, 0, "the id", range, &id) ||
        !once__lite_number_arg(call, 1, "the token", range, &token) || !once__lite_start(call))
        return;
    ok = held(call, id, token, &acked);
    if (ok && !acked)
        ok = once__lite_tell(
            call, which,
            (struct once__lite_value[]){once__lite_number(id),
                                        once__lite_number(call->lite->now_ms + delay_ms)},
            2, NULL);
    once__lite_end(call, ok, acked ? 0 : 1);
}

void once__lite_do_ack(struct once__lite_call *call)
{
    end_message(call, ONCE__LITE_ACK, 0);
}

void once__lite_do_give_back(struct once__lite_call *call)
{
    const struct once__lite_range delays = {0, ONCE_LEASE_MS_MAX, 0};
    int64_t delay_ms;

    if (once__lite_number_arg(call, 2, "delay_ms", delays, &delay_ms))
        end_message(call, ONCE__LITE_GIVE_BACK, delay_ms);
}
