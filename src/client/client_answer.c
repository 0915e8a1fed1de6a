/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads answers (RESP2) from bytes that come in pieces of any size.
 *
 * Bytes are only collected until the answer is whole. Meanwhile a scan goes over them that keeps
 * its place, so that an answer which comes byte by byte is read once, not once for each byte. When
 * it is whole a second pass, which cannot fail any more, makes the tree of items; their bytes point
 * into the collected ones.
 *
 * A server is believed no more than anybody else: every length and count is checked against its
 * bound before anything is allocated for it.
 */
#include "client/client_answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum { LINE_SIZE_MAX = 1 << 16 }; /* of a word, an error, a number */

void once__answer_init(struct once__answer *answer)
{
    *answer = (struct once__answer){0};
    once_buf_init(&answer->bytes, ONCE_ANSWER_SIZE_MAX);
    once__answer_reset(answer);
}

void once__answer_release(struct once__answer *answer)
{
    once_buf_release(&answer->bytes);
    free(answer->items);
    answer->items = NULL;
}

/* Ready for the next answer, whose bytes may be there already. */
static void start(struct once__answer *answer)
{
    free(answer->items);
    answer->items = NULL;
    answer->what = NULL;
    answer->offset = 0;
    answer->searched = 0;
    answer->depth = 0;
    answer->left[0] = 1;
    answer->count = 1;
    answer->whole = false;
}

void once__answer_reset(struct once__answer *answer)
{
    once_buf_clear(&answer->bytes);
    start(answer);
}

void once__answer_clear(struct once__answer *answer)
{
    ONCE_ASSERT(answer->whole);
    if (once__answer_has_more(answer))
        memmove(answer->bytes.data, answer->bytes.data + answer->offset,
                answer->bytes.size - answer->offset);
    answer->bytes.size -= answer->offset;
    start(answer);
}

bool once__answer_has_more(const struct once__answer *answer)
{
    return answer->bytes.size > answer->offset;
}

int once__answer_feed(struct once__answer *answer, const uint8_t *bytes, size_t size)
{
    int err;

    free(answer->items); /* their bytes may move */
    answer->items = NULL;
    err = once_buf_append(&answer->bytes, bytes, size);
    if (err == ONCE_ERR_FULL)
        answer->what = "the answer is too large";
    return err;
}

static int damaged(struct once__answer *answer, const char *what)
{
    answer->what = what;
    return ONCE_ERR_DAMAGED;
}

/* A decimal number, nothing else. */
static bool read_number(struct once_bytes text, int64_t *ret_number)
{
    bool negative = text.size > 0 && text.data[0] == '-';
    int64_t number = 0;

    if (text.size == (negative ? 1U : 0U))
        return false;
    for (size_t i = negative ? 1 : 0; i < text.size; i++) {
        int64_t digit = (int64_t)text.data[i] - '0';

        if (digit < 0 || digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, digit, &number)) /* downwards: INT64_MIN has no twin */
            return false;
    }
    if (!negative && number == INT64_MIN)
        return false;
    *ret_number = negative ? number : -number;
    return true;
}

/* The line that begins at the offset, without its type and its end. 1, 0 (its end is missing). */
static int find_line(struct once__answer *answer, struct once_bytes *ret_line)
{
    const uint8_t *data = answer->bytes.data;
    size_t from = answer->searched > answer->offset ? answer->searched : answer->offset;
    const uint8_t *end;

    if (from >= answer->bytes.size)
        return 0;
    end = memchr(data + from, '\n', answer->bytes.size - from);
    if ((end ? (size_t)(end - data) : answer->bytes.size) - answer->offset > LINE_SIZE_MAX)
        return damaged(answer, "a line is too long");
    if (!end) {
        answer->searched = answer->bytes.size;
        return 0;
    }
    if (end - data < (ptrdiff_t)answer->offset + 2 || end[-1] != '\r')
        return damaged(answer, "a line does not end with CR LF");
    *ret_line = (struct once_bytes){.data = data + answer->offset + 1,
                                    .size = (size_t)(end - data) - answer->offset - 2};
    return 1;
}

/* A value has been understood up to here; lists that it completes are understood with it. */
static void advance(struct once__answer *answer, size_t offset)
{
    answer->offset = offset;
    answer->searched = offset;
    answer->left[answer->depth]--;
    while (answer->depth > 0 && answer->left[answer->depth] == 0) {
        answer->depth--;
        answer->left[answer->depth]--;
    }
    answer->whole = answer->depth == 0 && answer->left[0] == 0;
}

static int scan_bytes(struct once__answer *answer, int64_t size, size_t line_end)
{
    size_t end;

    if (size == -1) {
        advance(answer, line_end);
        return 1;
    }
    if (size < 0)
        return damaged(answer, "a length is negative");
    if (size > ONCE_ANSWER_BYTES_MAX)
        return damaged(answer, "a string is too long");
    end = line_end + (size_t)size + 2;
    if (answer->bytes.size < end)
        return 0;
    if (answer->bytes.data[end - 2] != '\r' || answer->bytes.data[end - 1] != '\n')
        return damaged(answer, "a string does not end with CR LF");
    advance(answer, end);
    return 1;
}

static int scan_list(struct once__answer *answer, int64_t count, size_t line_end)
{
    if (count == -1 || count == 0) {
        advance(answer, line_end);
        return 1;
    }
    if (count < 0)
        return damaged(answer, "a count is negative");
    if (count > (int64_t)(ONCE_ANSWER_ITEMS_MAX - answer->count))
        return damaged(answer, "there are too many items");
    if (answer->depth == ONCE_ANSWER_DEPTH_MAX)
        return damaged(answer, "lists are nested too deeply");
    answer->count += (size_t)count;
    answer->offset = line_end;
    answer->searched = line_end;
    answer->left[++answer->depth] = (size_t)count;
    return 1;
}

/* One value, or the head of a list. 1, or 0 (bytes are missing). */
static int scan(struct once__answer *answer)
{
    struct once_bytes line;
    size_t line_end;
    int64_t number = 0;
    uint8_t type;
    int got;

    if (answer->offset >= answer->bytes.size)
        return 0;
    type = answer->bytes.data[answer->offset];
    if (type == '\0' || !strchr("+-:$*", type))
        return damaged(answer, "a type that RESP2 does not have");
    got = find_line(answer, &line);
    if (got != 1)
        return got;
    line_end = (size_t)(line.data - answer->bytes.data) + line.size + 2;
    if (type != '+' && type != '-' && !read_number(line, &number))
        return damaged(answer, "a number is not one");
    if (type == '$')
        return scan_bytes(answer, number, line_end);
    if (type == '*')
        return scan_list(answer, number, line_end);
    advance(answer, line_end);
    return 1;
}

/* ---- The tree -------------------------------------------------------------------------------- */

struct builder {
    struct once_bytes rest; /* bytes that were understood already */
    struct once__answer_item *next;
};

static struct once_bytes take(struct builder *builder, size_t size)
{
    struct once_bytes taken = {.data = builder->rest.data, .size = size};

    ONCE_ASSERT(size <= builder->rest.size);
    builder->rest.data += size;
    builder->rest.size -= size;
    return taken;
}

static struct once_bytes take_line(struct builder *builder)
{
    const uint8_t *end = memchr(builder->rest.data, '\n', builder->rest.size);
    struct once_bytes line;

    ONCE_ASSERT(end != NULL);
    line = take(builder, (size_t)(end - builder->rest.data) + 1);
    line.size -= 2;
    return line;
}

/* As deep as ONCE_ANSWER_DEPTH_MAX. */
static void build(struct builder *builder, struct once__answer_item *item)
{
    uint8_t type = take(builder, 1).data[0];
    struct once_bytes line = take_line(builder);

    *item = (struct once__answer_item){.kind = ONCE__ANSWER_NULL};
    if (type == '+' || type == '-') {
        item->kind = type == '+' ? ONCE__ANSWER_WORD : ONCE__ANSWER_ERROR;
        item->bytes = line;
        return;
    }
    ONCE_ASSERT(read_number(line, &item->number));
    if (type == ':') {
        item->kind = ONCE__ANSWER_NUMBER;
        return;
    }
    if (item->number < 0) { /* null */
        item->number = 0;
        return;
    }
    if (type == '$') {
        item->kind = ONCE__ANSWER_BYTES;
        item->bytes = take(builder, (size_t)item->number);
        (void)take(builder, 2);
    } else {
        struct once__answer_item *items = builder->next;

        item->kind = ONCE__ANSWER_LIST;
        item->count = (size_t)item->number;
        item->items = items;
        builder->next += item->count; /* those of one list stand side by side */
        for (size_t i = 0; i < item->count; i++)
            build(builder, &items[i]);
    }
    item->number = 0;
}

int once__answer_next(struct once__answer *answer, const struct once__answer_item **ret_item)
{
    struct builder builder;

    if (answer->what)
        return ONCE_ERR_DAMAGED;
    while (!answer->whole) {
        int got = scan(answer);

        if (got != 1)
            return got;
    }
    if (!answer->items) {
        answer->items = calloc(answer->count, sizeof(answer->items[0]));
        if (!answer->items)
            return ONCE_ERR_MEMORY;
        builder.rest = (struct once_bytes){answer->bytes.data, answer->offset};
        builder.next = answer->items + 1;
        build(&builder, &answer->items[0]);
        ONCE_ASSERT(builder.rest.size == 0);
        ONCE_ASSERT(builder.next == answer->items + answer->count);
    }
    *ret_item = answer->items;
    return 1;
}

/* ---- Looking at answers ---------------------------------------------------------------------- */

const struct once__answer_item *once__answer_find(const struct once__answer_item *answer,
                                                  const char *name)
{
    if (answer->kind != ONCE__ANSWER_LIST)
        return NULL;
    for (size_t i = 0; i + 1 < answer->count; i += 2) {
        const struct once__answer_item *item = &answer->items[i];

        if ((item->kind == ONCE__ANSWER_BYTES || item->kind == ONCE__ANSWER_WORD) &&
            once__bytes_equal(item->bytes, once_bytes_of(name)))
            return &answer->items[i + 1];
    }
    return NULL;
}

bool once__answer_is_error(const struct once__answer_item *answer, const char *code)
{
    size_t size = strlen(code);

    return answer->kind == ONCE__ANSWER_ERROR && answer->bytes.size >= size &&
           memcmp(answer->bytes.data, code, size) == 0 &&
           (answer->bytes.size == size || answer->bytes.data[size] == ' ');
}
