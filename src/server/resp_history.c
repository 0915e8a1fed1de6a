/* SPDX-License-Identifier: Apache-2.0
 *
 * ONCE.HISTORY: what happened to an operation, the newest first.
 */
#include "server/history.h"
#include "server/resp_commands.h"
#include "server/resp_look.h"
#include "server/resp_option.h"

#include <string.h>

#include <once/key.h>

struct history {
    struct once__look look;
    char ns[ONCE_NAMESPACE_SIZE_MAX + 1];
    struct once_bytes key;
    size_t count;
    bool found, more;
};

enum { COUNT, HISTORY_OPTIONS };
static const struct once__option history_options[HISTORY_OPTIONS] = {
    [COUNT] = {"COUNT", ONCE__OPTION_NUMBER, "a number", 1, ONCE_LIST_COUNT_MAX, NULL},
};

static void write_number(struct once__out *out, const char *name, int64_t number)
{
    once__out_text(out, name);
    once__out_integer(out, number);
}

static void write_bytes(struct once__out *out, const char *name, struct once_bytes bytes)
{
    once__out_text(out, name);
    once__out_bulk_or_null(out, once__history_cut(bytes));
}

static void add_past(void *user, const struct once_past *past)
{
    struct history *history = user;
    struct once__out *out = &history->look.list;

    history->look.count++;
    once__out_map(out, 15);
    once__out_text(out, "event");
    once__out_text(out, once_event_name(past->event));
    write_number(out, "at_ms", past->at_ms);
    once__out_text(out, "state");
    once__out_text(out, once_state_name(past->state));
    write_number(out, "fence", (int64_t)past->fence);
    write_number(out, "attempt", past->attempt);
    write_number(out, "code", past->code);
    write_bytes(out, "owner", past->owner);
    write_bytes(out, "point", past->point);
    write_bytes(out, "data", past->data);
    write_number(out, "data_size", (int64_t)past->data.size);
    write_bytes(out, "result", past->result);
    write_number(out, "result_size", (int64_t)past->result.size);
    write_number(out, "created_ms", past->created_ms);
    write_number(out, "lease_end_ms", past->lease_end_ms);
    write_number(out, "expires_ms", past->expires_ms);
}

static void run_history(struct once__job *job)
{
    struct history *history = once__look_of(job);
    struct once_name name = {once_bytes_of(history->ns), history->key};

    history->look.err = once_history(history->look.store, name, history->count, add_past, history,
                                     &history->found, &history->more);
}

enum once__next once__resp_history(struct once__request *request, struct once__out *out)
{
    struct once__option_value values[HISTORY_OPTIONS];
    struct once_defect defect;
    struct history *history;
    size_t end;

    memset(values, 0, sizeof(values));
    if (!once__options_read(request, out, 3, NULL, history_options, HISTORY_OPTIONS, values, &end))
        return ONCE__ANSWERED;
    if (once_namespace_check(request->args[1], &defect) != ONCE_OK ||
        once_key_check(request->args[2], &defect) != ONCE_OK) {
        once__out_error(out, "ERR", "ONCE.HISTORY: %s", defect.what);
        return ONCE__ANSWERED;
    }
    history = once__look_new(request, out, sizeof(*history), run_history);
    if (!history || !once__look_at_namespace(request, out, request->args[1], history->ns))
        return ONCE__ANSWERED;
    history->look.lacks = ONCE__HISTORY_LACKS;
    history->key = request->args[2];
    history->count = values[COUNT].given ? (size_t)values[COUNT].number
                                         : (size_t)ONCE__HISTORY_COUNT_DEFAULT;
    return ONCE__JOB;
}

void once__resp_history_finish(struct once__request *request, struct once__out *out)
{
    const struct history *history = request->state;

    if (once__look_failed(&history->look, out))
        return;
    if (!history->found) {
        once__out_null(out);
        return;
    }
    once__out_array(out, 2);
    once__out_integer(out, history->more ? 1 : 0);
    once__out_array(out, history->look.count);
    once__out_raw(out, once_buf_bytes(&history->look.list.buf));
}
