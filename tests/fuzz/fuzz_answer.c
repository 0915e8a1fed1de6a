/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of a server that is broken or hostile. The first byte says into what pieces the rest is
 * cut: what comes out must not depend on that. Nothing may crash, and an answer that was
 * understood, written again, is the bytes that it was read from.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_answer: %s (line %d)\n", #condition, __LINE__);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void append(struct once_buf *out, const void *data, size_t size)
{
    MUST(once_buf_append(out, data, size) == ONCE_OK);
}

static void append_number(struct once_buf *out, char type, int64_t number)
{
    char text[32];
    int size = snprintf(text, sizeof(text), "%c%" PRId64 "\r\n", type, number);

    append(out, text, (size_t)size);
}

/* Null has two forms ($-1, *-1), and numbers may begin with zeroes: both become one form. */
static void write_item(struct once_buf *out, const struct once__answer_item *item, unsigned depth)
{
    MUST(depth <= ONCE_ANSWER_DEPTH_MAX);
    switch (item->kind) {
    case ONCE__ANSWER_NULL:
        append_number(out, '$', -1);
        break;
    case ONCE__ANSWER_WORD:
    case ONCE__ANSWER_ERROR:
        append(out, item->kind == ONCE__ANSWER_WORD ? "+" : "-", 1);
        append(out, item->bytes.data, item->bytes.size);
        append(out, "\r\n", 2);
        MUST(memchr(item->bytes.data, '\n', item->bytes.size) == NULL);
        break;
    case ONCE__ANSWER_NUMBER:
        append_number(out, ':', item->number);
        break;
    case ONCE__ANSWER_BYTES:
        append_number(out, '$', (int64_t)item->bytes.size);
        append(out, item->bytes.data, item->bytes.size);
        append(out, "\r\n", 2);
        break;
    case ONCE__ANSWER_LIST:
        append_number(out, '*', (int64_t)item->count);
        for (size_t i = 0; i < item->count; i++)
            write_item(out, &item->items[i], depth + 1);
        break;
    }
}

/* Everything that comes out of the bytes, cut into pieces of this size. Gives how it ended. */
static int read_all(struct once_bytes bytes, size_t piece, struct once_buf *out)
{
    struct once__answer answer;
    int got = 0;

    once__answer_init(&answer);
    for (size_t at = 0; at < bytes.size && got >= 0; at += piece) {
        const struct once__answer_item *item = NULL;
        size_t now = piece < bytes.size - at ? piece : bytes.size - at;

        MUST(once__answer_feed(&answer, bytes.data + at, now) == ONCE_OK);
        while ((got = once__answer_next(&answer, &item)) == 1) {
            write_item(out, item, 0);
            once__answer_clear(&answer);
        }
        MUST(got == 0 || got == ONCE_ERR_DAMAGED);
        MUST((got == 0) == (answer.what == NULL));
    }
    once__answer_release(&answer);
    return got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct once_buf whole, pieces, again;
    struct once_bytes bytes;
    int end;

    if (size < 1)
        return 0;
    bytes = (struct once_bytes){data + 1, size - 1};
    once_buf_init(&whole, SIZE_MAX);
    once_buf_init(&pieces, SIZE_MAX);
    once_buf_init(&again, SIZE_MAX);
    end = read_all(bytes, size, &whole);
    MUST(read_all(bytes, (size_t)data[0] % 16 + 1, &pieces) == end);
    MUST(whole.size == pieces.size);
    MUST(whole.size == 0 || memcmp(whole.data, pieces.data, whole.size) == 0);
    MUST(read_all(once_buf_bytes(&whole), 7, &again) == 0);
    MUST(again.size == whole.size);
    MUST(again.size == 0 || memcmp(whole.data, again.data, again.size) == 0);
    once_buf_release(&whole);
    once_buf_release(&pieces);
    once_buf_release(&again);
    return 0;
}
