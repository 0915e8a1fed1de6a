/* SPDX-License-Identifier: Apache-2.0
 *
 * What an apply came to, as JSON: its writers, for the stage, and its readers, for everyone.
 * deed_result.h has the form.
 *
 * Kept here: what the writers write the readers read, to the same values; everything else is
 * ONCE_ERR_DAMAGED. The readers are not a JSON parser: another spelling of the same JSON was not
 * written here, so it is not a result.
 */
#include "core/deed_result.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "core/deed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <once/apply.h>

enum { NUMBER_TEXT_SIZE = 21 }; /* "-9223372036854775808" and a NUL */

static bool is_word_character(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':';
}

static bool is_reason_character(uint8_t c)
{
    return c >= 0x20 && c <= 0x7e && c != '"' && c != '\\';
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Room was made before. */
static void put(struct once_buf *out, const void *data, size_t size)
{
    int err = once_buf_append(out, data, size);

    ONCE_ASSERT(err == ONCE_OK);
}

static void put_text(struct once_buf *out, const char *text)
{
    put(out, text, strlen(text));
}

/* The comma in front of every item but the first. An item never ends with a bracket. */
static void put_comma(struct once_buf *out)
{
    ONCE_ASSERT(out->size > 0);
    if (out->data[out->size - 1] != '[')
        put(out, ",", 1);
}

int once__results_begin(struct once_buf *out)
{
    return once_buf_append(out, "[", 1);
}

/* Every effect has a number, and printf would take longer than the effect. The text ends where
 * `text` ends; returns where it begins. */
static size_t write_number(char text[NUMBER_TEXT_SIZE], int64_t number)
{
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    size_t at = NUMBER_TEXT_SIZE;

    do {
        text[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (number < 0)
        text[--at] = '-';
    return at;
}

int once__results_number(struct once_buf *out, int64_t number)
{
    char text[NUMBER_TEXT_SIZE];
    size_t at = write_number(text, number), size = sizeof(text) - at;
    int err = once_buf_reserve(out, 1 + size);

    if (err != ONCE_OK)
        return err;
    put_comma(out);
    put(out, text + at, size);
    return ONCE_OK;
}

int once__results_word(struct once_buf *out, struct once_bytes word)
{
    int err;

    ONCE_ASSERT(word.size > 0);
    for (size_t i = 0; i < word.size; i++)
        ONCE_ASSERT(is_word_character(word.data[i]));
    err = once_buf_reserve(out, 3 + word.size);
    if (err != ONCE_OK)
        return err;
    put_comma(out);
    put(out, "\"", 1);
    put(out, word.data, word.size);
    put(out, "\"", 1);
    return ONCE_OK;
}

int once__results_end(struct once_buf *out)
{
    return once_buf_append(out, "]", 1);
}

#define REJECTED_TEXT "{\"rejected\":"
#define WORD_TEXT ",\"word\":\""
#define REASON_TEXT ",\"reason\":\""
#define END_TEXT "\"}"

int once__rejection_write(struct once_buf *out, uint32_t effect, const char *word,
                          const char *reason)
{
    char number[NUMBER_TEXT_SIZE];
    size_t size = sizeof(REJECTED_TEXT WORD_TEXT "\"" REASON_TEXT END_TEXT) + sizeof(number);
    int err;

    ONCE_ASSERT(effect > 0);
    ONCE_ASSERT(word && word[0] != '\0');
    ONCE_ASSERT(reason);
    for (const char *c = word; *c != '\0'; c++)
        ONCE_ASSERT(is_word_character((uint8_t)*c));
    err = once_buf_reserve(out, size + strlen(word) + strlen(reason));
    if (err != ONCE_OK)
        return err;
    snprintf(number, sizeof(number), "%" PRIu32, effect);
    put_text(out, REJECTED_TEXT);
    put_text(out, number);
    put_text(out, WORD_TEXT);
    put_text(out, word);
    put_text(out, "\"" REASON_TEXT);
    for (const char *c = reason; *c != '\0'; c++)
        put(out, is_reason_character((uint8_t)*c) ? c : "?", 1);
    put_text(out, END_TEXT);
    return ONCE_OK;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The run of characters from *offset on, which is moved behind it. May be empty. */
static struct once_bytes take_run(struct once_bytes text, size_t *offset, bool (*in_run)(uint8_t))
{
    size_t from = *offset;

    while (*offset < text.size && in_run(text.data[*offset]))
        (*offset)++;
    return (struct once_bytes){text.data + from, *offset - from};
}

static bool take(struct once_bytes text, size_t *offset, const char *expected)
{
    size_t size = strlen(expected);

    ONCE_ASSERT(*offset <= text.size);
    if (text.size - *offset < size || memcmp(text.data + *offset, expected, size) != 0)
        return false;
    *offset += size;
    return true;
}

static bool is_number_character(uint8_t c)
{
    return (c >= '0' && c <= '9') || c == '-';
}

/* A number as it is written here: "007" and "-0" are not. */
static bool take_number(struct once_bytes text, size_t *offset, int64_t *ret_number)
{
    struct once_bytes run = take_run(text, offset, is_number_character);
    size_t sign = run.size > 0 && run.data[0] == '-' ? 1 : 0;
    bool zero_first = run.size > sign && run.data[sign] == '0';

    if (zero_first && run.size > 1)
        return false;
    return once__int64_read(run, ret_number);
}

/* Behind the opening quote; takes the closing one too. */
static bool take_word(struct once_bytes text, size_t *offset, struct once_bytes *ret_word)
{
    struct once_bytes run = take_run(text, offset, is_word_character);

    if (run.size == 0 || !take(text, offset, "\""))
        return false;
    *ret_word = run;
    return true;
}

int once_results_next(struct once_bytes result, size_t *offset, struct once_result *ret_result)
{
    struct once_result item = {.is_number = false};
    size_t at;
    bool first;

    if (!offset || !ret_result || !once__bytes_readable(result))
        return ONCE_ERR_INVALID;
    at = *offset;
    if (at >= result.size)
        return ONCE_ERR_DAMAGED;
    first = at == 0;
    if (first && !take(result, &at, "["))
        return ONCE_ERR_DAMAGED;
    if (take(result, &at, "]")) {
        if (at != result.size)
            return ONCE_ERR_DAMAGED;
        *offset = at - 1; /* to say the same when asked again */
        return 0;
    }
    if (!first && !take(result, &at, ","))
        return ONCE_ERR_DAMAGED;

    item.is_number = !take(result, &at, "\"");
    if (item.is_number ? !take_number(result, &at, &item.number)
                       : !take_word(result, &at, &item.word))
        return ONCE_ERR_DAMAGED;
    if (at >= result.size || (result.data[at] != ',' && result.data[at] != ']'))
        return ONCE_ERR_DAMAGED;
    *offset = at;
    *ret_result = item;
    return 1;
}

int once_rejection_read(struct once_bytes result, struct once_rejection *ret_rejection)
{
    struct once_rejection rejection = {0};
    size_t at = 0;
    int64_t effect;

    if (!ret_rejection || !once__bytes_readable(result))
        return ONCE_ERR_INVALID;
    if (result.size == 0 || !take(result, &at, REJECTED_TEXT) ||
        !take_number(result, &at, &effect) || effect < 1 || effect > UINT32_MAX)
        return ONCE_ERR_DAMAGED;
    rejection.effect = (uint32_t)effect;
    if (!take(result, &at, WORD_TEXT) || !take_word(result, &at, &rejection.word))
        return ONCE_ERR_DAMAGED;
    if (!take(result, &at, REASON_TEXT))
        return ONCE_ERR_DAMAGED;
    rejection.reason = take_run(result, &at, is_reason_character);
    if (!take(result, &at, END_TEXT) || at != result.size)
        return ONCE_ERR_DAMAGED;
    *ret_rejection = rejection;
    return ONCE_OK;
}
