/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of an operation, as RESP, and their answers as verdicts. All are idempotent: a begin
 * carries an owner id, the others a fence, so gate_link may send them again.
 */
#include "gate.h"

#include <stdarg.h>

enum { WORDS_MAX = 16 };

struct gate_call {
    struct gate_flight flight; /* first */
    struct gate_op *op;
    bool begins;
    bool withdraws; /* begins in order to give back */
    gate_told told; /* NULL: nobody waits for it */
    void *user;
};

struct gate_op *gate_op_new(void)
{
    struct gate_op *op = ngx_calloc(sizeof(*op), ngx_cycle->log);

    if (op)
        op->references = 1;
    return op;
}

void gate_op_unref(struct gate_op *op)
{
    if (op && --op->references == 0)
        ngx_free(op);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    enum once_word word;
} words[] = {{"EXECUTE", ONCE_EXECUTE}, {"REPLAY", ONCE_REPLAY},     {"BUSY", ONCE_BUSY},
             {"DOUBT", ONCE_DOUBT},     {"MISMATCH", ONCE_MISMATCH}, {"TOO_OLD", ONCE_TOO_OLD},
             {"OK", ONCE_DONE},         {"STALE", ONCE_STALE},       {"NOTFOUND", ONCE_NOTFOUND},
             {"RELEASED", ONCE_DONE}};

/* The word at the beginning of the text, up to a blank. */
static bool read_word(struct once_bytes text, enum once_word *ret_word)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t size = ngx_strlen(words[i].text);

        if (text.size < size || ngx_memcmp(text.data, words[i].text, size) != 0 ||
            (text.size > size && text.data[size] != ' '))
            continue;
        *ret_word = words[i].word;
        return true;
    }
    return false;
}

static int64_t number_at(const struct once__answer_item *list, size_t i)
{
    return i < list->count && list->items[i].kind == ONCE__ANSWER_NUMBER ? list->items[i].number
                                                                         : 0;
}

static void read_begun(struct gate_op *op, const struct once__answer_item *answer,
                       struct gate_verdict *verdict)
{
    if (answer->kind != ONCE__ANSWER_LIST || answer->count == 0 ||
        !read_word(answer->items[0].bytes, &verdict->word)) {
        verdict->refused = true;
        verdict->result = answer->bytes;
        return;
    }
    if (verdict->word == ONCE_EXECUTE) {
        op->fence = (uint64_t)number_at(answer, 1);
        op->attempt = (uint32_t)number_at(answer, 2);
    } else if (verdict->word == ONCE_REPLAY) {
        verdict->code = (int)number_at(answer, 1);
        verdict->result = answer->count > 2 ? answer->items[2].bytes : (struct once_bytes){NULL, 0};
    } else if (verdict->word == ONCE_BUSY) {
        verdict->retry_ms = (uint64_t)number_at(answer, 1);
    }
}

/* +OK, or -STALE …, or an error that is no word. */
static void read_ended(const struct once__answer_item *answer, struct gate_verdict *verdict)
{
    if ((answer->kind != ONCE__ANSWER_WORD && answer->kind != ONCE__ANSWER_ERROR) ||
        !read_word(answer->bytes, &verdict->word)) {
        verdict->refused = true;
        verdict->result = answer->bytes;
    }
}

static void give_back(struct gate_op *op)
{
    static const char reason[] = "the client went away before it began";

    (void)gate_call_end(op, ONCE_OUTCOME_RELEASE, 0,
                        (struct once_bytes){(const uint8_t *)reason, sizeof(reason) - 1}, NULL,
                        NULL, NULL);
}

static void call_done(struct gate_flight *flight, const struct once__answer_item *answer)
{
    struct gate_call *call = (struct gate_call *)(void *)flight;
    struct gate_verdict verdict = {.none = !answer, .maybe_begun = !answer && flight->taken};

    if (answer && call->begins)
        read_begun(call->op, answer, &verdict);
    else if (answer)
        read_ended(answer, &verdict);
    if (call->told)
        call->told(call->user, &verdict);
    else if (call->begins && answer && !verdict.refused && verdict.word == ONCE_EXECUTE)
        give_back(call->op);
    else if (call->begins && verdict.maybe_begun && !call->withdraws)
        gate_call_withdraw(call->op);
    gate_op_unref(call->op);
    ngx_free(call);
}

void gate_call_drop(struct gate_call *call)
{
    call->told = NULL;
}

/* ---- Commands -------------------------------------------------------------------------------- */

struct number {
    u_char text[24];
    size_t size;
};

static struct once_bytes number_of(struct number *number, uint64_t value)
{
    number->size = (size_t)(ngx_snprintf(number->text, sizeof(number->text), "%uL", value) -
                            number->text);
    return (struct once_bytes){number->text, number->size};
}

/* A call with the command in the same piece of memory. */
static bool send_words(struct gate_op *op, const struct once_bytes *list, size_t count,
                       ngx_msec_t patience_ms, const struct gate_call *what,
                       struct gate_call **ret_call)
{
    size_t size = 32;
    struct gate_call *call;
    u_char *p;

    for (size_t i = 0; i < count; i++)
        size += list[i].size + 32;
    call = ngx_alloc(sizeof(*call) + size, ngx_cycle->log);
    if (!call)
        return false;
    *call = *what;
    call->op = op;
    op->references++;
    call->flight.command = p = (u_char *)(call + 1);
    p = ngx_sprintf(p, "*%uz\r\n", count);
    for (size_t i = 0; i < count; i++) {
        p = ngx_sprintf(p, "$%uz\r\n", list[i].size);
        if (list[i].size > 0)
            p = ngx_cpymem(p, list[i].data, list[i].size);
        *p++ = '\r';
        *p++ = '\n';
    }
    call->flight.command_size = (size_t)(p - call->flight.command);
    call->flight.done = call_done;
    if (ret_call)
        *ret_call = call;
    gate_send(op->server, &call->flight, patience_ms);
    return true;
}

#define WORD(text)                                                                                 \
    (struct once_bytes)                                                                            \
    {                                                                                              \
        (const uint8_t *)(text), sizeof(text) - 1                                                  \
    }

static bool send_begin(struct gate_op *op, ngx_msec_t patience_ms, const struct gate_call *what,
                       struct gate_call **ret_call)
{
    struct number ttl, lease;
    const struct once_bytes list[] = {
        WORD("ONCE.BEGIN"),
        {(const uint8_t *)op->ns, op->ns_size},
        {(const uint8_t *)op->key.text, op->key.size},
        WORD("FP"),
        {op->fingerprint.bytes, sizeof(op->fingerprint.bytes)},
        WORD("OWNER"),
        {(const uint8_t *)op->owner, op->owner_size},
        WORD("TTL"),
        number_of(&ttl, op->ttl),
        WORD("LEASE"),
        number_of(&lease, op->lease),
        WORD("DOUBT"),
        op->doubt == ONCE_ON_DOUBT_RETRY ? WORD("RETRY") : WORD("REJECT"),
    };

    return send_words(op, list, sizeof(list) / sizeof(list[0]), patience_ms, what, ret_call);
}

bool gate_call_begin(struct gate_op *op, gate_told told, void *user, struct gate_call **ret_call)
{
    return send_begin(op, op->server->begin_ms,
                      &(struct gate_call){.begins = true, .told = told, .user = user}, ret_call);
}

void gate_call_withdraw(struct gate_op *op)
{
    (void)send_begin(op, op->server->end_ms, &(struct gate_call){.begins = true, .withdraws = true},
                     NULL);
}

bool gate_call_end(struct gate_op *op, enum once_outcome outcome, int code,
                   struct once_bytes result, gate_told told, void *user,
                   struct gate_call **ret_call)
{
    struct number fence, number;
    struct once_bytes list[WORDS_MAX];
    size_t count = 0;

    list[count++] = outcome == ONCE_OUTCOME_STORE     ? WORD("ONCE.COMPLETE")
                    : outcome == ONCE_OUTCOME_RELEASE ? WORD("ONCE.FAIL")
                                                      : WORD("ONCE.RENEW");
    list[count++] = (struct once_bytes){(const uint8_t *)op->ns, op->ns_size};
    list[count++] = (struct once_bytes){(const uint8_t *)op->key.text, op->key.size};
    list[count++] = number_of(&fence, op->fence);
    if (outcome == ONCE_OUTCOME_STORE)
        list[count++] = number_of(&number, (uint64_t)code);
    list[count++] = outcome == ONCE_OUTCOME_DOUBT ? WORD("0") : result;
    return send_words(op, list, count, op->server->end_ms,
                      &(struct gate_call){.told = told, .user = user}, ret_call);
}

bool gate_call_renew(struct gate_op *op)
{
    struct number fence, lease;
    const struct once_bytes list[] = {
        WORD("ONCE.RENEW"),
        {(const uint8_t *)op->ns, op->ns_size},
        {(const uint8_t *)op->key.text, op->key.size},
        number_of(&fence, op->fence),
        number_of(&lease, op->lease),
    };

    return send_words(op, list, sizeof(list) / sizeof(list[0]), op->server->begin_ms,
                      &(struct gate_call){.told = NULL}, NULL);
}
