/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking a server, and what its errors mean. A server's errors end with the name that the library
 * gives them, "-FULL the disk … is full (ERR_SPACE)", so that a command ends with the same exit
 * status whoever owns the store.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "cli/options.h"
#include "cli/reach_server.h"
#include "client/client.h"

enum { LOADING_STEP_MS = 50 };

/* ---- Errors ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int err;
} names[] = {
#define NAME_AND_ERR(name, number, text) {#name, number},
    ONCE_ERRORS(NAME_AND_ERR)
#undef NAME_AND_ERR
};

/* Those that name no error of the library. */
static const struct {
    const char *code;
    int err;
} codes[] = {
    {"NOAUTH", ONCE_ERR_DENIED},   {"WRONGPASS", ONCE_ERR_DENIED}, {"NOPERM", ONCE_ERR_DENIED},
    {"LOADING", ONCE_ERR_LOADING}, {"RATE", ONCE_ERR_RATE},        {"FULL", ONCE_ERR_FULL},
    {"STOPPED", ONCE_ERR_STOPPED}, {"TOOBIG", ONCE_ERR_TOO_LARGE},
};

/* Takes " (ERR_SPACE)" off the end. */
static int take_name(struct once_bytes *text)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char end[64];
        size_t size = (size_t)snprintf(end, sizeof(end), " (%s)", names[i].name);

        if (text->size > size && memcmp(text->data + text->size - size, end, size) == 0) {
            text->size -= size;
            return names[i].err;
        }
    }
    return ONCE_OK;
}

/* Takes "CODE " off the beginning, and of RATE when to come back. */
static void take_code(struct once_bytes *text)
{
    const uint8_t *blank = text->size > 0 ? memchr(text->data, ' ', text->size) : NULL;
    size_t size = blank ? (size_t)(blank - text->data) + 1 : 0;

    if (size > 0 && memcmp(text->data, "RATE ", size < 5 ? size : 5) == 0) {
        while (size < text->size && text->data[size] >= '0' && text->data[size] <= '9')
            size++;
        if (size < text->size && text->data[size] == ' ')
            size++;
    }
    text->data += size;
    text->size -= size;
}

int reach_error(struct cli_reach *reach, const struct once__answer_item *answer)
{
    struct once_bytes text = answer->bytes;
    int err = take_name(&text);

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]) && err == ONCE_OK; i++) {
        if (once__answer_is_error(answer, codes[i].code))
            err = codes[i].err;
    }
    take_code(&text);
    if (once__answer_is_error(answer, "NOAUTH"))
        snprintf(reach->message.text, sizeof(reach->message.text),
                 "the server wants to know who you are: set ONCE_USER and ONCE_PASSWORD");
    else
        snprintf(reach->message.text, sizeof(reach->message.text), "%.*s", (int)text.size,
                 (const char *)text.data);
    for (char *c = reach->message.text; *c; c++) {
        if ((unsigned char)*c < 0x20 || (unsigned char)*c == 0x7f)
            *c = ' ';
    }
    return err != ONCE_OK ? err : ONCE_ERR_INVALID;
}

int reach_strange(struct cli_reach *reach)
{
    snprintf(reach->message.text, sizeof(reach->message.text),
             "the server at %.200s gave an answer that this version of once does not know",
             reach->name);
    return ONCE_ERR_IO;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

int reach_call_any(struct cli_reach *reach, const struct once_bytes *words, size_t count,
                   const struct once__answer_item **ret_answer)
{
    static const struct timespec step = {.tv_nsec = LOADING_STEP_MS * 1000000L};
    once_ms waited_ms = 0;

    for (;;) {
        int err = once__client_call(reach->client, words, count, ret_answer, &reach->message);

        if (err == ONCE_ERR_DAMAGED) {
            reach->strange = true;
            return ONCE_ERR_IO; /* the answer is, not the store */
        }
        if (err != ONCE_OK)
            return err;
        reach->message.text[0] = '\0';
        if (!once__answer_is_error(*ret_answer, "LOADING") || waited_ms >= ONCE_CLIENT_TIMEOUT_MS)
            return ONCE_OK;
        (void)nanosleep(&step, NULL);
        waited_ms += LOADING_STEP_MS;
    }
}

int reach_call(struct cli_reach *reach, const struct once_bytes *words, size_t count,
               const struct once__answer_item **ret_answer)
{
    const struct once__answer_item *answer;
    int err = reach_call_any(reach, words, count, &answer);

    if (err != ONCE_OK)
        return err;
    if (answer->kind == ONCE__ANSWER_ERROR)
        return reach_error(reach, answer);
    *ret_answer = answer;
    return ONCE_OK;
}

struct reach_number reach_number(uint64_t number)
{
    struct reach_number word;

    snprintf(word.text, sizeof(word.text), "%llu", (unsigned long long)number);
    return word;
}

/* ---- Answers --------------------------------------------------------------------------------- */

bool reach_is_list(const struct once__answer_item *item, size_t count)
{
    return item->kind == ONCE__ANSWER_LIST && item->count == count;
}

bool reach_is_bytes(const struct once__answer_item *item, struct once_bytes *ret_bytes)
{
    if (item->kind != ONCE__ANSWER_BYTES && item->kind != ONCE__ANSWER_WORD &&
        item->kind != ONCE__ANSWER_NULL)
        return false;
    *ret_bytes = item->bytes;
    return true;
}

bool reach_is_number(const struct once__answer_item *item, uint64_t *ret_number)
{
    char text[24];
    struct once_bytes bytes;

    if (item->kind == ONCE__ANSWER_NUMBER) {
        *ret_number = (uint64_t)item->number;
        return item->number >= 0;
    }
    if (!reach_is_bytes(item, &bytes) || bytes.size >= sizeof(text) || bytes.size == 0)
        return false;
    memcpy(text, bytes.data, bytes.size);
    text[bytes.size] = '\0';
    return strlen(text) == bytes.size && cli_number(text, 0, UINT64_MAX, ret_number);
}

bool reach_is_type(const struct once__answer_item *item, enum once_object_type *ret_type)
{
    struct once_bytes name;

    if (!reach_is_bytes(item, &name))
        return false;
    for (int type = ONCE_OBJECT_MAX; type <= ONCE_OBJECT_OUTBOX; type++) {
        const char *known = once_object_type_name((enum once_object_type)type);

        if (once__bytes_equal(name, once_bytes_of(known))) {
            *ret_type = (enum once_object_type)type;
            return true;
        }
    }
    return false;
}
