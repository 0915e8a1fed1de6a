/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of operations, asked of a server. An answer is made into the reply that the library
 * would have given. Bytes of answers are the client's until its next call, so a reply has copies.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cli/reach_server.h"
#include "client/client.h"

enum { WORDS_MAX = 16, NUMBERS_MAX = 4 };

/* ---- Asking ---------------------------------------------------------------------------------- */

struct command {
    struct once_bytes words[WORDS_MAX];
    size_t count;
    struct reach_number numbers[NUMBERS_MAX]; /* behind words */
    size_t number_count;
};

static void add(struct command *command, struct once_bytes word)
{
    command->words[command->count++] = word;
}

static void add_text(struct command *command, const char *word)
{
    add(command, once_bytes_of(word));
}

static void add_number(struct command *command, int64_t number)
{
    struct reach_number *word = &command->numbers[command->number_count++];

    *word = reach_number(number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
    if (number < 0) {
        memmove(word->text + 1, word->text, sizeof(word->text) - 1);
        word->text[0] = '-';
    }
    add_text(command, word->text);
}

static void add_option(struct command *command, const char *name, int64_t number)
{
    if (number <= 0)
        return;
    add_text(command, name);
    add_number(command, number);
}

static void add_begin(struct command *command, const struct once_op *op, once_ms wait_ms,
                      bool rejects_doubt)
{
    if (op->fingerprint.size > 0) {
        add_text(command, "FP");
        add(command, op->fingerprint);
    }
    if (op->owner.size > 0) {
        add_text(command, "OWNER");
        add(command, op->owner);
    }
    add_option(command, "TTL", op->ttl_ms);
    add_option(command, "LEASE", op->lease_ms);
    add_option(command, "WAIT", wait_ms);
    if (op->on_doubt == ONCE_ON_DOUBT_RETRY || rejects_doubt) {
        add_text(command, "DOUBT");
        add_text(command, op->on_doubt == ONCE_ON_DOUBT_RETRY ? "RETRY" : "REJECT");
    }
}

static void add_checkpoint(struct command *command, const struct once_op *op)
{
    add(command, op->point);
    if (op->data.size > 0)
        add(command, op->data);
    if (op->follows) {
        add_text(command, "AFTER");
        add(command, op->after);
    }
}

static void add_resolve(struct command *command, const struct once_op *op)
{
    if (op->done) {
        add_text(command, "DONE");
        add_number(command, op->code);
        add(command, op->result);
    } else {
        add_text(command, "NOTDONE");
    }
    add_option(command, "FENCE", (int64_t)op->fence);
}

/* What follows the name and, for an owner's call, the fence. */
static void add_rest(struct command *command, const struct once_op *op, once_ms wait_ms,
                     bool rejects_doubt)
{
    if (op->call == ONCE_CALL_BEGIN) {
        add_begin(command, op, wait_ms, rejects_doubt);
    } else if (op->call == ONCE_CALL_COMPLETE) {
        add_number(command, op->code);
        add(command, op->result);
    } else if (op->call == ONCE_CALL_FAIL) {
        if (op->result.size > 0)
            add(command, op->result);
    } else if (op->call == ONCE_CALL_CHECKPOINT) {
        add_checkpoint(command, op);
    } else if (op->call == ONCE_CALL_RENEW) {
        add_number(command, op->lease_ms);
    } else if (op->call == ONCE_CALL_RESOLVE) {
        add_resolve(command, op);
    } else if (op->call == ONCE_CALL_FORGET && op->fence > 0) {
        add_number(command, (int64_t)op->fence);
    }
}

static int make_command(const struct once_op *op, once_ms wait_ms, bool rejects_doubt,
                        struct command *command)
{
    static const struct {
        const char *name;
        bool is_owners; /* the fence stands behind the key */
    } calls[] = {
        [ONCE_CALL_BEGIN] = {"ONCE.BEGIN", false},
        [ONCE_CALL_COMPLETE] = {"ONCE.COMPLETE", true},
        [ONCE_CALL_FAIL] = {"ONCE.FAIL", true},
        [ONCE_CALL_CHECKPOINT] = {"ONCE.CHECKPOINT", true},
        [ONCE_CALL_RENEW] = {"ONCE.RENEW", true},
        [ONCE_CALL_RESOLVE] = {"ONCE.RESOLVE", false},
        [ONCE_CALL_FORGET] = {"ONCE.FORGET", false},
        [ONCE_CALL_GET] = {"ONCE.GET", false},
    };

    if ((unsigned)op->call >= sizeof(calls) / sizeof(calls[0]) || op->fence > ONCE_FENCE_MAX)
        return ONCE_ERR_INVALID;
    add_text(command, calls[op->call].name);
    add(command, op->ns);
    add(command, op->key);
    if (calls[op->call].is_owners)
        add_number(command, (int64_t)op->fence);
    add_rest(command, op, wait_ms, rejects_doubt);
    return ONCE_OK;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Moves the reply's bytes from the answer into memory of its own. */
static int keep_bytes(struct once_reply *reply)
{
    struct once_bytes *all[] = {&reply->point, &reply->data, &reply->result, &reply->owner};
    size_t size = 0;
    uint8_t *memory;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        size += all[i]->size;
    if (size == 0)
        return ONCE_OK;
    memory = malloc(size);
    if (!memory)
        return ONCE_ERR_MEMORY;
    reply->memory = memory;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i]->size > 0)
            memcpy(memory, all[i]->data, all[i]->size);
        all[i]->data = memory;
        memory += all[i]->size;
    }
    return ONCE_OK;
}

static bool is_fence(const struct once__answer_item *item, uint64_t *ret_fence)
{
    return reach_is_number(item, ret_fence) && *ret_fence > 0;
}

static bool read_execute(const struct once__answer_item *items, struct once_reply *reply)
{
    int64_t attempt;
    bool good = is_fence(&items[1], &reply->fence) &&
                reach_is_integer(&items[2], 1, UINT32_MAX, &attempt);

    reply->attempt = good ? (uint32_t)attempt : 0;
    return good && reach_is_bytes(&items[3], &reply->point) &&
           reach_is_bytes(&items[4], &reply->data);
}

/* [EXECUTE fence attempt point data], [REPLAY code result], [BUSY retry_ms], [DOUBT fence point],
 * [MISMATCH], [TOO_OLD] */
static bool read_begin(const struct once__answer_item *answer, struct once_reply *reply)
{
    static const struct {
        enum once_word word;
        size_t count;
    } verdicts[] = {{ONCE_EXECUTE, 5}, {ONCE_REPLAY, 3},   {ONCE_BUSY, 2},
                    {ONCE_DOUBT, 3},   {ONCE_MISMATCH, 1}, {ONCE_TOO_OLD, 1}};
    const struct once__answer_item *items = answer->items;
    size_t i = 0, count = sizeof(verdicts) / sizeof(verdicts[0]);
    int64_t number = 0;
    bool good = true;

    if (answer->kind != ONCE__ANSWER_LIST || answer->count == 0 ||
        items[0].kind != ONCE__ANSWER_WORD)
        return false;
    while (i < count &&
           !once__bytes_equal(items[0].bytes, once_bytes_of(once_word_name(verdicts[i].word))))
        i++;
    if (i == count || answer->count < verdicts[i].count)
        return false;
    reply->word = verdicts[i].word;
    if (reply->word == ONCE_EXECUTE) {
        good = read_execute(items, reply);
    } else if (reply->word == ONCE_REPLAY) {
        good = reach_is_integer(&items[1], INT32_MIN, INT32_MAX, &number) &&
               reach_is_bytes(&items[2], &reply->result);
        reply->code = (int32_t)number;
    } else if (reply->word == ONCE_BUSY) {
        good = reach_is_integer(&items[1], 0, ONCE_LEASE_MS_MAX, &reply->retry_ms);
    } else if (reply->word == ONCE_DOUBT) {
        good = is_fence(&items[1], &reply->fence) && reach_is_bytes(&items[2], &reply->point);
    }
    return good;
}

/* "STALE text", "BUSY 120 text", "DOUBT 17 text": a verdict that is written as an error. */
static bool read_refusal(const struct once__answer_item *answer, struct once_reply *reply)
{
    static const enum once_word words[] = {ONCE_STALE, ONCE_NOTFOUND, ONCE_BUSY, ONCE_DOUBT,
                                           ONCE_MISMATCH};
    char text[24] = "";
    uint64_t number;
    size_t i = 0, count = sizeof(words) / sizeof(words[0]), start, size;

    while (i < count && !once__answer_is_error(answer, once_word_name(words[i])))
        i++;
    if (i == count)
        return false;
    reply->word = words[i];
    start = strlen(once_word_name(words[i])) + 1;
    for (size = 0; size < sizeof(text) - 1 && start + size < answer->bytes.size; size++) {
        if (answer->bytes.data[start + size] == ' ')
            break;
        text[size] = (char)answer->bytes.data[start + size];
    }
    if (!reach_is_number(
            &(struct once__answer_item){.kind = ONCE__ANSWER_BYTES, .bytes = once_bytes_of(text)},
            &number))
        return true;
    if (reply->word == ONCE_BUSY && number <= ONCE_LEASE_MS_MAX)
        reply->retry_ms = (once_ms)number;
    if (reply->word == ONCE_DOUBT)
        reply->fence = number;
    return true;
}

static bool read_owners(const struct once__answer_item *answer, struct once_reply *reply)
{
    struct once_bytes word;

    if (answer->kind != ONCE__ANSWER_WORD || !reach_is_bytes(answer, &word))
        return false;
    reply->word = once__bytes_equal(word, once_bytes_of("DOUBT")) ? ONCE_DOUBT : ONCE_DONE;
    return reply->word == ONCE_DOUBT || once__bytes_equal(word, once_bytes_of("OK")) ||
           once__bytes_equal(word, once_bytes_of("RELEASED"));
}

/* ---- Records --------------------------------------------------------------------------------- */

static bool read_hex(struct once_bytes text, struct once_fingerprint *ret_fingerprint)
{
    static const char digits[] = "0123456789abcdef";

    if (text.size == 0)
        return true;
    if (text.size != (size_t)2 * ONCE_FINGERPRINT_SIZE)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        const char *digit = text.data[i] ? strchr(digits, text.data[i]) : NULL;
        uint8_t *byte = &ret_fingerprint->bytes[i / 2];

        if (!digit)
            return false;
        *byte = (uint8_t)(*byte << 4 | (digit - digits));
    }
    return true;
}

static bool read_record(const struct once__answer_item *answer, struct once_reply *reply)
{
    struct reach_facts facts = {0};
    struct once_bytes fingerprint;

    reply->word = ONCE_NOTFOUND;
    if (answer->kind == ONCE__ANSWER_NULL)
        return true;
    if (!reach_read_facts(answer, &facts) ||
        !reach_find_bytes(answer, facts.state == ONCE_STATE_FAILED ? "reason" : "result",
                          &reply->result) ||
        !reach_find_bytes(answer, "data", &reply->data) ||
        !reach_find_number(answer, "retention_ms", 0, INT64_MAX, &reply->retention_ms) ||
        !reach_find_number(answer, "now_ms", 0, INT64_MAX, &reply->now_ms) ||
        !reach_find_bytes(answer, "fingerprint", &fingerprint) ||
        !read_hex(fingerprint, &reply->fingerprint))
        return false;
    reply->word = ONCE_DONE;
    reply->state = facts.state;
    reply->fence = (uint64_t)facts.fence;
    reply->attempt = (uint32_t)facts.attempt;
    reply->code = (int32_t)facts.code;
    reply->created_ms = facts.created_ms;
    reply->lease_end_ms = facts.lease_end_ms;
    reply->expires_ms = facts.expires_ms;
    reply->owner = facts.owner;
    reply->point = facts.point;
    return true;
}

static bool read_reply(enum once_call_kind call, const struct once__answer_item *answer,
                       struct once_reply *reply)
{
    if (call == ONCE_CALL_BEGIN)
        return read_begin(answer, reply);
    return call == ONCE_CALL_GET ? read_record(answer, reply) : read_owners(answer, reply);
}

void reach_server_op(struct cli_reach *reach, struct once_op *op, once_ms wait_ms)
{
    const struct once__answer_item *answer = NULL;
    struct once_reply reply = {0};
    struct command command = {.count = 0};
    int err = make_command(op, wait_ms, reach->rejects_doubt, &command);

    if (err == ONCE_OK)
        err = reach_call_any(reach, command.words, command.count, &answer);
    if (err == ONCE_OK && !read_refusal(answer, &reply)) {
        if (answer->kind == ONCE__ANSWER_ERROR)
            err = reach_error(reach, answer);
        else if (!read_reply(op->call, answer, &reply))
            err = reach_strange(reach);
        else
            err = keep_bytes(&reply);
    }
    if (err != ONCE_OK)
        reply = (struct once_reply){.err = err,
                                    .what = reach->message.text[0] ? reach->message.text : NULL};
    op->reply = reply;
}
