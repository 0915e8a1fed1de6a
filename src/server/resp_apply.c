/* SPDX-License-Identifier: Apache-2.0
 *
 * ONCE.APPLY and ONCE.MERGE: changing objects. The effects of an apply stay where they are, as
 * arguments of the command; only a list of where each begins is made.
 */
#include "server/resp_commands.h"
#include "server/resp_option.h"

#include <inttypes.h>
#include <string.h>

/* ---- apply ----------------------------------------------------------------------------------- */

enum { FP, TTL, APPLY_OPTIONS };
static const struct once__option apply_options[APPLY_OPTIONS] = {
    [FP] = {"FP", ONCE__OPTION_BYTES, "a fingerprint", 0, ONCE_COMMAND_SIZE_MAX, NULL},
    [TTL] = {"TTL", ONCE__OPTION_NUMBER, "a number of milliseconds", 1, ONCE_RETENTION_MS_MAX,
             NULL},
};

/* Reads "DO n word…" at *at into one effect. False: answered. */
static bool read_do(const struct once__request *request, struct once__out *out, size_t number,
                    size_t *at, struct once_do *ret_do)
{
    const struct once_bytes *args = request->args;
    size_t left = request->arg_count - *at - 1;
    int64_t count;

    if (left == 0) {
        once__out_bad(request, out, "DO %zu needs the number of its words", number);
        return false;
    }
    if (!once__arg_decimal(args[*at + 1], &count) || count < 1 || count > ONCE_EFFECT_WORDS_MAX) {
        once__out_bad(request, out,
                      "DO %zu: the number of its words must be from 1 to %d, not '%s'", number,
                      ONCE_EFFECT_WORDS_MAX, once__arg_echo(args[*at + 1]).text);
        return false;
    }
    left--;
    if ((size_t)count > left) {
        once__out_bad(request, out, "DO %zu says %" PRId64 " words, but %zu follow", number, count,
                      left);
        return false;
    }
    *ret_do = (struct once_do){.words = &args[*at + 2], .count = (size_t)count};
    *at += 2 + (size_t)count;
    return true;
}

/* Effects and options, in any order, from the third argument on. False: answered. */
static bool read_apply(const struct once__request *request, struct once__out *out,
                       struct once__option_value *values, struct once_do *dos, size_t *ret_count)
{
    size_t at = 3, count = 0;

    while (at < request->arg_count) {
        if (!once__arg_is(request->args[at], "DO")) {
            if (!once__options_read(request, out, at, "DO", apply_options, APPLY_OPTIONS, values,
                                    &at))
                return false;
        } else if (count == ONCE_EFFECTS_MAX) {
            once__out_bad(request, out, "at most %d DO are allowed", ONCE_EFFECTS_MAX);
            return false;
        } else if (!read_do(request, out, count + 1, &at, &dos[count])) {
            return false;
        } else {
            count++;
        }
    }
    if (count == 0) {
        once__out_bad(request, out, "DO is missing: there is nothing to apply");
        return false;
    }
    *ret_count = count;
    return true;
}

enum once__next once__resp_apply(struct once__request *request, struct once__out *out)
{
    struct once_op *op = &request->one.op;
    struct once__option_value values[APPLY_OPTIONS];
    struct once_do *dos = once__request_alloc(request, ONCE_EFFECTS_MAX * sizeof(*dos));

    memset(values, 0, sizeof(values));
    if (!dos) {
        once__out_err(out, ONCE_ERR_MEMORY, NULL);
        return ONCE__ANSWERED;
    }
    if (!read_apply(request, out, values, dos, &op->do_count))
        return ONCE__ANSWERED;
    request->calls = &request->one;
    request->call_count = 1;
    op->call = ONCE_CALL_APPLY;
    op->ns = request->args[1];
    op->key = request->args[2];
    op->fingerprint = values[FP].bytes;
    op->ttl_ms = values[TTL].number;
    op->dos = dos;
    return once__request_send(request, out);
}

/* How many results there are; negative: these are not results. */
static int count_results(struct once_bytes bytes, size_t *ret_count)
{
    struct once_result result;
    size_t offset = 0, count = 0;
    int more;

    while ((more = once_results_next(bytes, &offset, &result)) == 1)
        count++;
    *ret_count = count;
    return more;
}

/* False: these are not results. */
static bool write_results(struct once__out *out, const char *word, struct once_bytes bytes)
{
    struct once_result result;
    size_t offset = 0, count;

    if (count_results(bytes, &count) < 0)
        return false;
    once__out_array(out, 1 + count);
    once__out_simple(out, word);
    while (once_results_next(bytes, &offset, &result) == 1) {
        if (result.is_number)
            once__out_integer(out, result.number);
        else
            once__out_bulk(out, result.word);
    }
    return true;
}

static bool write_rejection(struct once__out *out, struct once_bytes bytes, bool replayed)
{
    struct once_rejection rejection;

    if (once_rejection_read(bytes, &rejection) != ONCE_OK)
        return false;
    once__out_error(out, "REJECTED", "%" PRIu32 " %.*s %.*s%s", rejection.effect,
                    (int)rejection.word.size, (const char *)rejection.word.data,
                    (int)rejection.reason.size, (const char *)rejection.reason.data,
                    replayed ? " (replayed)" : "");
    return true;
}

/* What the key was completed with: by an apply, or by ONCE.COMPLETE. */
static void write_replay(struct once__out *out, const struct once_reply *reply)
{
    if (reply->code == ONCE_CODE_APPLIED && write_results(out, "REPLAY", reply->result))
        return;
    if (reply->code == ONCE_CODE_REJECTED && write_rejection(out, reply->result, true))
        return;
    once__out_array(out, 2);
    once__out_simple(out, "REPLAY");
    once__out_array(out, 2);
    once__out_integer(out, reply->code);
    once__out_bulk(out, reply->result);
}

void once__resp_apply_finish(struct once__request *request, struct once__out *out)
{
    const struct once_reply *reply = &request->one.op.reply;
    bool written = true;

    if (reply->err != ONCE_OK || (reply->word != ONCE_APPLIED && reply->word != ONCE_REJECTED &&
                                  reply->word != ONCE_REPLAY)) {
        once__resp_begin_finish(request, out); /* BUSY, DOUBT, MISMATCH, TOO_OLD, an error */
        return;
    }
    if (reply->word == ONCE_REPLAY)
        write_replay(out, reply);
    else if (reply->word == ONCE_APPLIED)
        written = write_results(out, "APPLIED", reply->result);
    else
        written = write_rejection(out, reply->result, false);
    if (!written)
        once__out_err(out, ONCE_ERR_DAMAGED, "the answer of this apply cannot be read");
}

/* ---- merge ----------------------------------------------------------------------------------- */

/* False: answered. */
static bool check_type(const struct once__request *request, struct once__out *out)
{
    struct once_bytes word = request->args[2], state = request->args[3];
    char names[160] = "";
    size_t size = 0;

    for (int type = ONCE_LATTICE_MAX; type <= ONCE_LATTICE_MAP; type++) {
        const char *name = once_lattice_type_name((enum once_lattice_type)type);

        if (word.size == strlen(name) &&
            strncasecmp((const char *)word.data, name, word.size) == 0) {
            if (state.size > 0 && state.data[0] == type)
                return true;
            once__out_bad(request, out, "the bytes are no state of the type %s", name);
            return false;
        }
        size += (size_t)snprintf(names + size, sizeof(names) - size, "%s%s", size > 0 ? ", " : "",
                                 name);
    }
    once__out_bad(request, out, "type must be one of %s, not '%s'", names,
                  once__arg_echo(word).text);
    return false;
}

enum once__next once__resp_merge(struct once__request *request, struct once__out *out)
{
    struct once_op *op = &request->one.op;

    if (!check_type(request, out))
        return ONCE__ANSWERED;
    request->calls = &request->one;
    request->call_count = 1;
    op->call = ONCE_CALL_MERGE;
    op->key = request->args[1];
    op->data = request->args[3];
    return once__request_send(request, out);
}

void once__resp_merge_finish(struct once__request *request, struct once__out *out)
{
    const struct once_reply *reply = &request->one.op.reply;
    struct once_result result = {.is_number = false};
    size_t offset = 0;

    if (reply->err != ONCE_OK)
        once__out_call_error(out, reply);
    else if (reply->word == ONCE_REJECTED)
        (void)write_rejection(out, reply->result, false);
    else if (once_results_next(reply->result, &offset, &result) == 1 && result.is_number)
        once__out_integer(out, result.number);
    else
        once__out_err(out, ONCE_ERR_DAMAGED, "the answer of this merge cannot be read");
}
