/* SPDX-License-Identifier: Apache-2.0
 *
 * An operation as text and as JSON. Decides nothing, and asks nobody but the system, whether the
 * owner's process is still there.
 */
#include "cli/op_show.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "cli/echo.h"
#include "cli/owner.h"
#include "server/history.h"

enum { REASON_SIZE_MAX = 200 }; /* of it in a line of the past */

/* ---- Text ------------------------------------------------------------------------------------ */

static void show_time(const struct cli_view *view, const char *label, const char *text,
                      once_ms at_ms)
{
    char time[CLI_TIME_SIZE], ago[CLI_TIME_SIZE];

    cli_op_label(view, label);
    fprintf(view->out, "%s%s, %s\n", text, cli_time(at_ms, time),
            cli_ago(at_ms, view->now_ms, ago));
}

static const char *state_text(const struct once_reply *reply)
{
    switch (reply->state) {
    case ONCE_STATE_STARTED:
        return "someone is at it";
    case ONCE_STATE_COMPLETED:
        return "it happened; every repeat gets this answer";
    case ONCE_STATE_FAILED:
        return "it did not happen; it may be tried again";
    case ONCE_STATE_DOUBT:
        return "someone began it and vanished; nobody knows whether it happened";
    case ONCE_STATE_ABSENT:
        break;
    }
    return "there is none";
}

/* When it ended: how long it is kept counts from there. 0: not known. */
static once_ms ended_ms(const struct once_reply *reply)
{
    once_ms ended = reply->expires_ms - reply->retention_ms;

    return reply->retention_ms > 0 && ended >= reply->created_ms ? ended : 0;
}

static void show_times(const struct cli_view *view, const struct once_reply *reply)
{
    bool ended = reply->state == ONCE_STATE_COMPLETED || reply->state == ONCE_STATE_FAILED;

    if (reply->created_ms > 0)
        show_time(view, "begun", "", reply->created_ms);
    /* A lease that was given up ends later than the doubt began: then its past knows. */
    if (reply->state == ONCE_STATE_DOUBT && view->doubt_ms > 0)
        show_time(view, "in doubt", "since ", view->doubt_ms);
    else if (reply->state == ONCE_STATE_DOUBT && reply->lease_end_ms <= view->now_ms)
        show_time(view, "in doubt", "since ", reply->lease_end_ms);
    if (reply->state == ONCE_STATE_STARTED)
        show_time(view, "lease", "until ", reply->lease_end_ms);
    if (ended && ended_ms(reply) > 0)
        show_time(view, "ended", "", ended_ms(reply));
    if (ended && reply->expires_ms > 0)
        show_time(view, "kept", "until ", reply->expires_ms);
}

/* Who: for owners of `once run` and `once call` also whether that process is still there. */
static void show_owner(const struct cli_view *view, const struct once_reply *reply)
{
    bool open = reply->state == ONCE_STATE_STARTED || reply->state == ONCE_STATE_DOUBT;
    bool gone = cli_owner_gone(reply->owner);
    pid_t pid = cli_owner_pid(reply->owner);

    cli_op_label(view, "owner");
    if (pid > 0)
        fprintf(view->out, "process %ld of this machine", (long)pid);
    if (pid > 0 && open)
        fprintf(view->out, ", %s%s%s", cli_colour(view->style, gone ? CLI_RED : CLI_GREEN),
                gone ? "gone" : "still there", cli_colour(view->style, CLI_PLAIN));
    fputs(pid > 0 ? " (" : "", view->out);
    cli_print_text(view->out, reply->owner);
    fputs(pid > 0 ? ")\n" : "\n", view->out);
}

static bool hex(const struct once_fingerprint *fingerprint,
                char text[2 * ONCE_FINGERPRINT_SIZE + 1])
{
    bool known = false;

    for (size_t i = 0; i < ONCE_FINGERPRINT_SIZE; i++) {
        known = known || fingerprint->bytes[i] != 0;
        snprintf(text + 2 * i, 3, "%02x", fingerprint->bytes[i]);
    }
    return known;
}

void cli_op_show(const struct cli_view *view, struct once_name name, const struct once_reply *reply)
{
    char fingerprint[2 * ONCE_FINGERPRINT_SIZE + 1];

    cli_op_label(view, "operation");
    cli_print(view->out, name.ns);
    fputc(' ', view->out);
    cli_print(view->out, name.key);
    fputc('\n', view->out);
    cli_op_label(view, "state");
    fprintf(view->out, "%s%s%s: %s\n", cli_colour(view->style, cli_state_colour(reply->state)),
            once_state_name(reply->state), cli_colour(view->style, CLI_PLAIN), state_text(reply));
    show_times(view, reply);
    cli_op_label(view, "attempt");
    fprintf(view->out, "%" PRIu32 ", fence %" PRIu64 "\n", reply->attempt, reply->fence);
    if (reply->owner.size > 0)
        show_owner(view, reply);
    if (reply->point.size > 0) {
        cli_op_label(view, "point");
        cli_print_text(view->out, reply->point);
        fputc('\n', view->out);
        cli_op_show_data(view, reply->data);
    }
    if (hex(&reply->fingerprint, fingerprint)) {
        cli_op_label(view, "fingerprint");
        fprintf(view->out, "%s\n", fingerprint);
    }
    if (reply->state == ONCE_STATE_COMPLETED)
        cli_op_show_result(view, reply->code, reply->result);
    if (reply->state == ONCE_STATE_FAILED && reply->result.size > 0) {
        cli_op_label(view, "reason");
        cli_print_text(view->out, reply->result);
        fputc('\n', view->out);
    }
}

static void advise(const struct cli_view *view, struct once_name name, uint64_t fence,
                   const char *options, const char *outcome)
{
    fputs("  once resolve ", view->out);
    cli_print_word(view->out, name.ns);
    fputc(' ', view->out);
    cli_print_word(view->out, name.key);
    fprintf(view->out, "%s --fence %" PRIu64 " %s\n", options, fence, outcome);
}

void cli_op_advise(const struct cli_view *view, struct once_name name,
                   const struct once_reply *reply, const char *options)
{
    bool gone = reply->state == ONCE_STATE_STARTED && cli_owner_gone(reply->owner);

    if (reply->state != ONCE_STATE_DOUBT && !gone)
        return;
    fputs("\nLook where its effect would be, then say what you found:\n", view->out);
    advise(view, name, reply->fence, options, "--done --code CODE --result TEXT");
    advise(view, name, reply->fence, options, "--not-done");
    if (!cli_op_is_by(reply->data, "call"))
        return;
    fputs("or send it again, to a receiver that does its work once for each key:\n  once call",
          view->out);
    if (!once__bytes_equal(name.ns, once_bytes_of("call"))) {
        fputs(" -n ", view->out);
        cli_print_word(view->out, name.ns);
    }
    fprintf(view->out, "%s --resume ", options);
    cli_print_word(view->out, name.key);
    fputc('\n', view->out);
}

/* ---- The past -------------------------------------------------------------------------------- */

static void show_point(const struct cli_view *view, const struct once_past *past)
{
    fputs(", at '", view->out);
    cli_print_text(view->out, past->point);
    fputc('\'', view->out);
}

/* "2026-11-15 20:15:12  3 min ago  CHECKPOINT   attempt 1, fence 17, at 'running'" */
void cli_op_show_past(const struct cli_view *view, const struct once_past *past)
{
    char time[CLI_TIME_SIZE], ago[CLI_TIME_SIZE];
    bool begins = past->event == ONCE_EVENT_BEGAN || past->event == ONCE_EVENT_TAKEN_OVER;

    fprintf(view->out, "  %s  %-11s  %s%-17s%s attempt %" PRIu32 ", fence %" PRIu64,
            cli_time(past->at_ms, time), cli_ago(past->at_ms, view->now_ms, ago),
            cli_colour(view->style, cli_state_colour(past->state)), once_event_name(past->event),
            cli_colour(view->style, CLI_PLAIN), past->attempt, past->fence);
    if (past->point.size > 0 && past->event != ONCE_EVENT_COMPLETED)
        show_point(view, past);
    if (past->state == ONCE_STATE_COMPLETED)
        fprintf(view->out, ", code %" PRId32, past->code);
    if (past->state == ONCE_STATE_FAILED && past->result.size > 0) {
        fputs(": ", view->out);
        cli_print_text(view->out,
                       (struct once_bytes){past->result.data, past->result.size < REASON_SIZE_MAX
                                                                  ? past->result.size
                                                                  : (size_t)REASON_SIZE_MAX});
    }
    if ((begins || past->event == ONCE_EVENT_RENEWED) && past->lease_end_ms > past->at_ms)
        fprintf(view->out, ", lease %s", cli_length(past->lease_end_ms - past->at_ms, time));
    if (begins && past->owner.size > 0) {
        fputs(", owner ", view->out);
        cli_print_text(view->out, past->owner);
    }
    fputc('\n', view->out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_bytes(FILE *out, const char *name, struct once_bytes bytes)
{
    fputc(',', out);
    cli_json_bytes(out, name, bytes);
}

static void json_times(FILE *out, once_ms created_ms, once_ms lease_end_ms, once_ms expires_ms)
{
    fprintf(out, ",\"created_ms\":%" PRId64 ",\"lease_end_ms\":%" PRId64 ",\"expires_ms\":%" PRId64,
            created_ms, lease_end_ms, expires_ms);
}

/* The names are those of GET /v1/ops/{namespace}/{key}. */
void cli_op_json(FILE *out, struct once_name name, const struct once_reply *reply)
{
    char fingerprint[2 * ONCE_FINGERPRINT_SIZE + 1];

    fputs("\"namespace\":", out);
    cli_json_string(out, name.ns);
    fputs(",\"key\":", out);
    cli_json_string(out, name.key);
    fprintf(out, ",\"state\":\"%s\",\"fence\":%" PRIu64 ",\"attempt\":%" PRIu32,
            once_state_name(reply->state), reply->fence, reply->attempt);
    if (reply->state == ONCE_STATE_COMPLETED) {
        fprintf(out, ",\"code\":%" PRId32, reply->code);
        json_bytes(out, "result", reply->result);
    }
    if (reply->state == ONCE_STATE_FAILED)
        json_bytes(out, "reason", reply->result);
    if (reply->owner.size > 0) {
        json_bytes(out, "owner", reply->owner);
        if (cli_owner_pid(reply->owner) > 0)
            fprintf(out, ",\"owner_pid\":%ld,\"owner_gone\":%s", (long)cli_owner_pid(reply->owner),
                    cli_owner_gone(reply->owner) ? "true" : "false");
    }
    if (reply->point.size > 0) {
        json_bytes(out, "point", reply->point);
        json_bytes(out, "data", reply->data);
    }
    json_times(out, reply->created_ms, reply->lease_end_ms, reply->expires_ms);
    fprintf(out, ",\"retention_ms\":%" PRId64 ",\"now_ms\":%" PRId64, reply->retention_ms,
            reply->now_ms);
    if (hex(&reply->fingerprint, fingerprint))
        fprintf(out, ",\"fingerprint\":\"%s\"", fingerprint);
}

/* As of GET /v1/ops/{namespace}/{key}/history. */
void cli_op_json_past(FILE *out, const struct once_past *past)
{
    fprintf(out,
            "{\"event\":\"%s\",\"at_ms\":%" PRId64 ",\"state\":\"%s\",\"fence\":%" PRIu64
            ",\"attempt\":%" PRIu32,
            once_event_name(past->event), past->at_ms, once_state_name(past->state), past->fence,
            past->attempt);
    if (past->owner.size > 0)
        json_bytes(out, "owner", past->owner);
    if (past->point.size > 0)
        json_bytes(out, "point", past->point);
    if (past->data.size > 0)
        json_bytes(out, "data", once__history_cut(past->data));
    if (past->state == ONCE_STATE_COMPLETED) {
        fprintf(out, ",\"code\":%" PRId32, past->code);
        json_bytes(out, "result", once__history_cut(past->result));
    }
    if (past->state == ONCE_STATE_FAILED)
        json_bytes(out, "reason", once__history_cut(past->result));
    json_times(out, past->created_ms, past->lease_end_ms, past->expires_ms);
    fputc('}', out);
}
