/* SPDX-License-Identifier: Apache-2.0
 *
 * An apply, asked of a server. The answer is made into the reply that the library would have given,
 * its result included.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cli/reach_server.h"
#include "client/client.h"
#include "core/deed_result.h"

/* ---- Asking ---------------------------------------------------------------------------------- */

/* ONCE.APPLY ns key [FP bytes] [TTL ms] DO n word… [DO n word…] */
struct command {
    struct once_bytes *words;
    size_t count;
    struct reach_number ttl;
    struct reach_number sizes[ONCE_EFFECTS_MAX];
};

static void add(struct command *command, struct once_bytes word)
{
    command->words[command->count++] = word;
}

static int make_command(struct once_name name, const struct once_apply_options *options,
                        const struct once_do *dos, size_t count, struct command *command)
{
    size_t words = 7;

    if (count > ONCE_EFFECTS_MAX)
        return ONCE_ERR_INVALID;
    for (size_t i = 0; i < count; i++)
        words += 2 + dos[i].count;
    command->words = calloc(words, sizeof(command->words[0]));
    if (!command->words)
        return ONCE_ERR_MEMORY;
    command->count = 0;
    add(command, once_bytes_of("ONCE.APPLY"));
    add(command, name.ns);
    add(command, name.key);
    if (options->fingerprint.size > 0) {
        add(command, once_bytes_of("FP"));
        add(command, options->fingerprint);
    }
    if (options->ttl_ms > 0) {
        command->ttl = reach_number((uint64_t)options->ttl_ms);
        add(command, once_bytes_of("TTL"));
        add(command, once_bytes_of(command->ttl.text));
    }
    for (size_t i = 0; i < count; i++) {
        command->sizes[i] = reach_number(dos[i].count);
        add(command, once_bytes_of("DO"));
        add(command, once_bytes_of(command->sizes[i].text));
        for (size_t j = 0; j < dos[i].count; j++)
            add(command, dos[i].words[j]);
    }
    return ONCE_OK;
}

/* ---- The answer ------------------------------------------------------------------------------ */

/* Takes one word off the beginning, and the blank behind it. */
static struct once_bytes take_word(struct once_bytes *text)
{
    const uint8_t *blank = text->size > 0 ? memchr(text->data, ' ', text->size) : NULL;
    struct once_bytes word = {text->data, blank ? (size_t)(blank - text->data) : text->size};
    size_t size = word.size + (blank ? 1 : 0);

    text->data += size;
    text->size -= size;
    return word;
}

static bool take_number(struct once_bytes *text, uint64_t *ret_number)
{
    struct once__answer_item item = {.kind = ONCE__ANSWER_BYTES, .bytes = take_word(text)};

    return reach_is_number(&item, ret_number);
}

static bool take_end(struct once_bytes *text, const char *end)
{
    size_t size = strlen(end);

    if (text->size < size || memcmp(text->data + text->size - size, end, size) != 0)
        return false;
    text->size -= size;
    return true;
}

/* "REJECTED 1 BELOW_MIN acct:42 is at 900 …", with " (replayed)" where it is an old answer. */
static int read_rejected(struct cli_reach *reach, struct once_bytes text, struct once_buf *result,
                         struct once_reply *reply)
{
    bool replayed = take_end(&text, " (replayed)");
    char *word, *reason;
    uint64_t effect;
    struct once_bytes bytes;
    int err = ONCE_ERR_MEMORY;

    (void)take_word(&text);
    if (!take_number(&text, &effect) || effect == 0 || effect > UINT32_MAX)
        return reach_strange(reach);
    bytes = take_word(&text);
    word = strndup((const char *)bytes.data, bytes.size);
    reason = strndup((const char *)text.data, text.size);
    if (word && reason)
        err = once__rejection_write(result, (uint32_t)effect, word, reason);
    free(word);
    free(reason);
    reply->word = replayed ? ONCE_REPLAY : ONCE_REJECTED;
    reply->code = ONCE_CODE_REJECTED;
    return err;
}

static int read_results(struct cli_reach *reach, const struct once__answer_item *items,
                        size_t count, struct once_buf *result)
{
    int err = once__results_begin(result);

    for (size_t i = 0; i < count && err == ONCE_OK; i++) {
        struct once_bytes word;

        if (items[i].kind == ONCE__ANSWER_NUMBER)
            err = once__results_number(result, items[i].number);
        else if (items[i].kind != ONCE__ANSWER_NULL && reach_is_bytes(&items[i], &word))
            err = once__results_word(result, word);
        else
            err = reach_strange(reach);
    }
    return err == ONCE_OK ? once__results_end(result) : err;
}

/* Of a key that somebody begun and completed: [code, result]. */
static int read_elsewhere(struct cli_reach *reach, const struct once__answer_item *item,
                          struct once_buf *result, struct once_reply *reply)
{
    if (!reach_is_list(item, 2) || item->items[0].kind != ONCE__ANSWER_NUMBER ||
        item->items[1].kind != ONCE__ANSWER_BYTES)
        return reach_strange(reach);
    reply->code = (int32_t)item->items[0].number;
    return once_buf_append(result, item->items[1].bytes.data, item->items[1].bytes.size);
}

static bool find_word(struct once_bytes text, enum once_word *ret_word)
{
    static const enum once_word words[] = {ONCE_APPLIED, ONCE_REPLAY, ONCE_MISMATCH,
                                           ONCE_TOO_OLD, ONCE_BUSY,   ONCE_DOUBT};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (once__bytes_equal(text, once_bytes_of(once_word_name(words[i])))) {
            *ret_word = words[i];
            return true;
        }
    }
    return false;
}

static int read_verdict(struct cli_reach *reach, const struct once__answer_item *answer,
                        struct once_buf *result, struct once_reply *reply)
{
    const struct once__answer_item *items = answer->items;
    uint64_t number;

    if (answer->kind != ONCE__ANSWER_LIST || answer->count == 0 ||
        items[0].kind != ONCE__ANSWER_WORD || !find_word(items[0].bytes, &reply->word))
        return reach_strange(reach);
    if (reply->word == ONCE_REPLAY && answer->count == 2 && items[1].kind == ONCE__ANSWER_LIST)
        return read_elsewhere(reach, &items[1], result, reply);
    if (reply->word == ONCE_REPLAY || reply->word == ONCE_APPLIED)
        return read_results(reach, items + 1, answer->count - 1, result);
    if (reply->word == ONCE_BUSY || reply->word == ONCE_DOUBT) {
        if (answer->count < 2 || !reach_is_number(&items[1], &number))
            return reach_strange(reach);
        if (reply->word == ONCE_BUSY)
            reply->retry_ms = (once_ms)number;
        else
            reply->fence = number;
    }
    return ONCE_OK;
}

/* "effect 2: what is wrong with it": what stays, and the number is told apart. */
static void read_effect(struct cli_reach *reach, struct once_reply *reply)
{
    static const char start[] = "effect ";
    char *text = reach->message.text, *colon = strstr(text, ": ");
    struct once_bytes number;
    uint64_t effect;

    if (strncmp(text, start, sizeof(start) - 1) != 0 || !colon)
        return;
    number = (struct once_bytes){(const uint8_t *)text + sizeof(start) - 1,
                                 (size_t)(colon - text) - (sizeof(start) - 1)};
    if (!take_number(&number, &effect) || effect == 0 || effect > UINT32_MAX)
        return;
    reply->effect = (uint32_t)effect;
    memmove(text, colon + 2, strlen(colon + 2) + 1);
}

int reach_server_apply(struct cli_reach *reach, struct once_name name,
                       const struct once_apply_options *options, const struct once_do *dos,
                       size_t count, struct once_reply *ret_reply)
{
    const struct once__answer_item *answer;
    struct once_reply reply = {0};
    struct command command = {0};
    struct once_buf result;

    once_buf_init(&result, ONCE_RESULT_SIZE_MAX);
    reply.err = make_command(name, options, dos, count, &command);
    if (reply.err == ONCE_OK)
        reply.err = reach_call_any(reach, command.words, command.count, &answer);
    if (reply.err == ONCE_OK) {
        if (once__answer_is_error(answer, "REJECTED"))
            reply.err = read_rejected(reach, answer->bytes, &result, &reply);
        else if (answer->kind == ONCE__ANSWER_ERROR)
            reply.err = reach_error(reach, answer);
        else
            reply.err = read_verdict(reach, answer, &result, &reply);
    }
    free(command.words);
    if (reply.err != ONCE_OK) {
        once_buf_release(&result);
        reply = (struct once_reply){.err = reply.err};
        read_effect(reach, &reply);
        reply.what = reach->message.text[0] ? reach->message.text : NULL;
    }
    reply.result = once_buf_bytes(&result);
    reply.memory = result.data;
    *ret_reply = reply;
    return reply.err;
}
