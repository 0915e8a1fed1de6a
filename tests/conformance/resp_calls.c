/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of the suite as commands of RESP, and their answers back.
 *
 * Where the protocol tells less than the library (a DOUBT without attempt and data), ONCE.GET tells
 * the rest.
 */
#include "conformance/resp_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "client/client.h"

enum { WORDS_MAX = 20, NUMBERS_MAX = 8, NUMBER_SIZE = 24 };

/* A command that is being put together. */
struct command {
    struct once_bytes words[WORDS_MAX];
    size_t count;
    char numbers[NUMBERS_MAX][NUMBER_SIZE];
    size_t number_count;
};

static void add_bytes(struct command *command, struct once_bytes word)
{
    ONCE_ASSERT(command->count < WORDS_MAX);
    command->words[command->count++] = word;
}

static void add(struct command *command, const char *word)
{
    add_bytes(command, once_bytes_of(word));
}

static void add_number(struct command *command, int64_t number)
{
    char *text = command->numbers[command->number_count++];

    ONCE_ASSERT(command->number_count <= NUMBERS_MAX);
    snprintf(text, NUMBER_SIZE, "%" PRId64, number);
    add(command, text);
}

static struct command command_of(const char *name, const struct conformance_call *call)
{
    struct command command = {.count = 0};

    add(&command, name);
    add(&command, call->ns);
    add(&command, call->key);
    return command;
}

/* ---- Connections ----------------------------------------------------------------------------- */

static void *make_client(const struct served *served)
{
    struct once__client *client = NULL;
    struct once_message message = {""};
    char address[32];
    int err;

    snprintf(address, sizeof(address), "127.0.0.1:%u", served_resp_port(served));
    err = once__client_open(address, NULL, &client, &message);
    if (err != ONCE_OK)
        printf("# %s: %s\n", once_err_name(err), message.text);
    ONCE_ASSERT(err == ONCE_OK);
    return client;
}

static void drop_client(void *client)
{
    once__client_close(client);
}

const struct served_link resp_link = {make_client, drop_client};

/* The answer is good until the client is used again. */
static const struct once__answer_item *ask(struct once__client *client,
                                           const struct command *command)
{
    const struct once__answer_item *answer = NULL;
    struct once_message message = {""};
    int err = once__client_call(client, command->words, command->count, &answer, &message);

    if (err != ONCE_OK)
        printf("# %s: %s\n", once_err_name(err), message.text);
    ONCE_ASSERT(err == ONCE_OK);
    return answer;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* "STALE …", "BUSY 250 …", "DOUBT fence …", or "ERR … (ERR_KEY_EMPTY)". */
static void read_error(struct once_bytes text, struct conformance_answer *ret)
{
    const uint8_t *blank = memchr(text.data, ' ', text.size);
    struct once_bytes code = {text.data, blank ? (size_t)(blank - text.data) : text.size};
    const uint8_t *open = memrchr(text.data, '(', text.size);
    uint64_t number = blank ? strtoull((const char *)blank, NULL, 10) : 0; /* ends at CR */

    if (served_word(code, &ret->word)) {
        if (ret->word == ONCE_BUSY)
            ret->retry_ms = (once_ms)number;
        if (ret->word == ONCE_DOUBT)
            ret->fence = number;
        return;
    }
    if (open && text.data[text.size - 1] == ')')
        ret->err = served_err(
            (struct once_bytes){open + 1, (size_t)(text.data + text.size - 1 - (open + 1))});
    if (ret->err == ONCE_OK) {
        printf("# an error that names none: %.*s\n", (int)text.size, (const char *)text.data);
        ret->err = ONCE_ERR_UNSUPPORTED;
    }
}

static void read_verdict(const struct once__answer_item *answer, struct conformance_answer *ret)
{
    const struct once__answer_item *items = answer->items;

    ONCE_ASSERT(answer->count >= 1 && items[0].kind == ONCE__ANSWER_WORD);
    ONCE_ASSERT(served_word(items[0].bytes, &ret->word));
    switch ((int)ret->word) {
    case ONCE_EXECUTE:
        ONCE_ASSERT(answer->count == 5);
        ret->fence = (uint64_t)items[1].number;
        ret->attempt = (uint32_t)items[2].number;
        served_copy(ret->point, items[3].bytes);
        served_copy(ret->data, items[4].bytes);
        break;
    case ONCE_REPLAY:
        ONCE_ASSERT(answer->count == 3);
        ret->code = (int32_t)items[1].number;
        ret->result_size = items[2].bytes.size;
        served_copy(ret->result, items[2].bytes);
        break;
    case ONCE_BUSY:
        ONCE_ASSERT(answer->count == 2);
        ret->retry_ms = items[1].number;
        break;
    case ONCE_DOUBT:
        ONCE_ASSERT(answer->count == 3);
        ret->fence = (uint64_t)items[1].number;
        served_copy(ret->point, items[2].bytes);
        break;
    default:
        ONCE_ASSERT(answer->count == 1);
        break;
    }
}

static struct once_bytes field(const struct once__answer_item *map, const char *name)
{
    const struct once__answer_item *value = once__answer_find(map, name);

    return value ? value->bytes : (struct once_bytes){NULL, 0};
}

static int64_t number_field(const struct once__answer_item *map, const char *name)
{
    const struct once__answer_item *value = once__answer_find(map, name);

    ONCE_ASSERT(value != NULL);
    return value->number; /* 0 of null */
}

static void read_record(const struct once__answer_item *answer, struct conformance_answer *ret)
{
    struct once_bytes result = field(answer, "result");

    ret->word = ONCE_NOTFOUND;
    if (answer->kind == ONCE__ANSWER_NULL)
        return;
    ret->word = ONCE_DONE;
    ONCE_ASSERT(served_state(field(answer, "state"), &ret->state));
    if (ret->state == ONCE_STATE_FAILED)
        result = field(answer, "reason");
    ret->fence = (uint64_t)number_field(answer, "fence");
    ret->attempt = (uint32_t)number_field(answer, "attempt");
    ret->code = (int32_t)number_field(answer, "code");
    ret->result_size = result.size;
    served_copy(ret->result, result);
    served_copy(ret->point, field(answer, "point"));
    served_copy(ret->data, field(answer, "data"));
}

static void look(struct once__client *client, const struct conformance_call *call,
                 struct conformance_answer *ret)
{
    struct command command = command_of("ONCE.GET", call);
    const struct once__answer_item *answer = ask(client, &command);

    *ret = (struct conformance_answer){.err = ONCE_OK};
    if (answer->kind == ONCE__ANSWER_ERROR)
        read_error(answer->bytes, ret);
    else
        read_record(answer, ret);
}

static void perform(struct served *served, const struct conformance_call *call,
                    const struct command *command, struct conformance_answer *ret)
{
    struct once__client *client = served_take(served);
    const struct once__answer_item *answer = ask(client, command);

    *ret = (struct conformance_answer){.err = ONCE_OK};
    if (answer->kind == ONCE__ANSWER_ERROR)
        read_error(answer->bytes, ret);
    else if (answer->kind == ONCE__ANSWER_WORD)
        ONCE_ASSERT(served_word(answer->bytes, &ret->word));
    else
        read_verdict(answer, ret);
    if (ret->err == ONCE_OK && ret->word == ONCE_DOUBT) {
        struct conformance_answer record;

        look(client, call, &record);
        ONCE_ASSERT(record.fence == ret->fence);
        ret->attempt = record.attempt;
        memcpy(ret->point, record.point, sizeof(ret->point));
        memcpy(ret->data, record.data, sizeof(ret->data));
    }
    served_give(served, client);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

void resp_begin_as(void *self, const struct conformance_call *call, struct once_bytes fingerprint,
                   struct conformance_answer *ret)
{
    struct command command = command_of("ONCE.BEGIN", call);

    if (fingerprint.data) {
        add(&command, "FP");
        add_bytes(&command, fingerprint);
    }
    if (call->owner) {
        add(&command, "OWNER");
        add(&command, call->owner);
    }
    if (call->ttl_ms != 0) {
        add(&command, "TTL");
        add_number(&command, call->ttl_ms);
    }
    if (call->lease_ms != 0) {
        add(&command, "LEASE");
        add_number(&command, call->lease_ms);
    }
    if (call->on_doubt == ONCE_ON_DOUBT_RETRY) {
        add(&command, "DOUBT");
        add(&command, "RETRY");
    }
    perform(self, call, &command, ret);
}

void resp_begin(void *self, const struct conformance_call *call, struct conformance_answer *ret)
{
    resp_begin_as(self, call, once_bytes_of(call->fingerprint), ret);
}

void resp_complete(void *self, const struct conformance_call *call, struct conformance_answer *ret)
{
    struct command command = command_of("ONCE.COMPLETE", call);

    add_number(&command, (int64_t)call->fence);
    add_number(&command, call->code);
    add_bytes(&command, call->result);
    perform(self, call, &command, ret);
}

void resp_fail(void *self, const struct conformance_call *call, struct conformance_answer *ret)
{
    struct command command = command_of("ONCE.FAIL", call);

    add_number(&command, (int64_t)call->fence);
    if (call->result.size > 0)
        add_bytes(&command, call->result);
    perform(self, call, &command, ret);
}

void resp_checkpoint(void *self, const struct conformance_call *call,
                     struct conformance_answer *ret)
{
    struct command command = command_of("ONCE.CHECKPOINT", call);

    add_number(&command, (int64_t)call->fence);
    add(&command, call->point);
    if (call->data)
        add(&command, call->data);
    if (call->after) {
        add(&command, "AFTER");
        add(&command, call->after);
    }
    perform(self, call, &command, ret);
}

void resp_renew(void *self, const struct conformance_call *call, struct conformance_answer *ret)
{
    struct command command = command_of("ONCE.RENEW", call);

    add_number(&command, (int64_t)call->fence);
    add_number(&command, call->lease_ms);
    perform(self, call, &command, ret);
}

void resp_resolve(void *self, const struct conformance_call *call, struct conformance_answer *ret)
{
    struct command command = command_of("ONCE.RESOLVE", call);

    if (call->done) {
        add(&command, "DONE");
        add_number(&command, call->code);
        add_bytes(&command, call->result);
    } else {
        add(&command, "NOTDONE");
    }
    if (call->fence != 0) {
        add(&command, "FENCE");
        add_number(&command, (int64_t)call->fence);
    }
    perform(self, call, &command, ret);
}

void resp_forget(void *self, const struct conformance_call *call, struct conformance_answer *ret)
{
    struct command command = command_of("ONCE.FORGET", call);

    if (call->fence != 0)
        add_number(&command, (int64_t)call->fence);
    perform(self, call, &command, ret);
}

void resp_get(void *self, const struct conformance_call *call, struct conformance_answer *ret)
{
    struct once__client *client = served_take(self);

    look(client, call, ret);
    served_give(self, client);
}

void resp_owner(void *self, const struct conformance_call *call, char *ret_owner)
{
    struct once__client *client = served_take(self);
    struct command command = command_of("ONCE.GET", call);
    const struct once__answer_item *answer = ask(client, &command);

    ret_owner[0] = '\0';
    if (answer->kind != ONCE__ANSWER_ERROR && answer->kind != ONCE__ANSWER_NULL)
        served_copy(ret_owner, field(answer, "owner"));
    served_give(self, client);
}
