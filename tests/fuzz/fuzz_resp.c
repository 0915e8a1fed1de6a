/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as RESP commands, the first byte of the input says where they are cut. However they
 * are cut the commands are the same, arguments lie inside of what was given, and a command that is
 * written again as an array is read as the same one.
 */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/resp_read.h"

enum { ARGS_MAX = 64, LOG_SIZE_MAX = 1 << 20 };

static const struct once__resp_bounds bounds = {
    .arg_count_max = ARGS_MAX, .arg_size_max = 1000, .size_max = 2000};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Everything that was read, in a form that two ways of cutting can be compared by. */
static void note(struct once_buf *log, const void *bytes, size_t size)
{
    ONCE_ASSERT(once_buf_append(log, bytes, size) == ONCE_OK);
}

static void check_again(const uint8_t *input, const struct once__resp_reader *reader)
{
    struct once__resp_arg args[ARGS_MAX];
    struct once__resp_reader again = {.args = args};
    struct once__resp_bounds wide = {
        .arg_count_max = ARGS_MAX, .arg_size_max = 1 << 16, .size_max = 1 << 20};
    struct once_buf text;
    const char *what = NULL;
    char head[32];

    once_buf_init(&text, LOG_SIZE_MAX);
    note(&text, head, (size_t)snprintf(head, sizeof head, "*%u\r\n", reader->count));
    for (uint32_t i = 0; i < reader->count; i++) {
        note(&text, head, (size_t)snprintf(head, sizeof head, "$%u\r\n", reader->args[i].size));
        note(&text, input + reader->args[i].offset, reader->args[i].size);
        note(&text, "\r\n", 2);
    }
    ONCE_ASSERT(once__resp_read(&again, text.data, text.size, &wide, &what) == ONCE__RESP_COMMAND);
    ONCE_ASSERT(again.offset == text.size);
    ONCE_ASSERT(again.count == reader->count);
    for (uint32_t i = 0; i < reader->count; i++) {
        ONCE_ASSERT(args[i].size == reader->args[i].size);
        ONCE_ASSERT(
            memcmp(text.data + args[i].offset, input + reader->args[i].offset, args[i].size) == 0);
    }
    once_buf_release(&text);
}

static void check_command(const uint8_t *input, size_t size, const struct once__resp_reader *reader,
                          struct once_buf *log)
{
    ONCE_ASSERT(reader->count > 0 && reader->count <= bounds.arg_count_max);
    ONCE_ASSERT(reader->offset <= size && reader->offset <= bounds.size_max);
    for (uint32_t i = 0; i < reader->count; i++) {
        ONCE_ASSERT(reader->args[i].size <= bounds.arg_size_max);
        ONCE_ASSERT(reader->args[i].offset <= reader->offset);
        ONCE_ASSERT(reader->args[i].size <= reader->offset - reader->args[i].offset);
        note(log, &reader->args[i].size, sizeof reader->args[i].size);
        note(log, input + reader->args[i].offset, reader->args[i].size);
    }
    check_again(input, reader);
}

/* Reads all of it; step bytes more are there whenever the reader asks. */
static void read_all(const uint8_t *data, size_t size, size_t step, struct once_buf *log)
{
    struct once__resp_arg args[ARGS_MAX];
    struct once__resp_reader reader = {.args = args};
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    size_t begin = 0, there = step < size ? step : size;
    enum once__resp_result result;
    const char *what = NULL;

    ONCE_ASSERT(bytes);
    memcpy(bytes, data, size);
    for (;;) {
        size_t part_size = there - begin;
        uint8_t *part = malloc(part_size > 0 ? part_size : 1); /* exact */

        ONCE_ASSERT(part);
        memcpy(part, bytes + begin, part_size);
        result = once__resp_read(&reader, part, part_size, &bounds, &what);
        ONCE_ASSERT(reader.offset <= part_size);
        if (result == ONCE__RESP_COMMAND)
            check_command(part, part_size, &reader, log);
        free(part);
        if (result == ONCE__RESP_WRONG)
            break;
        if (result == ONCE__RESP_INCOMPLETE) {
            ONCE_ASSERT(part_size < bounds.size_max + 4);
            if (there == size)
                break;
            there = size - there > step ? there + step : size;
            continue;
        }
        note(log, &result, sizeof result);
        ONCE_ASSERT(reader.offset > 0);
        begin += reader.offset;
        reader = (struct once__resp_reader){.args = args};
    }
    note(log, &result, sizeof result);
    if (result == ONCE__RESP_WRONG)
        note(log, what, strlen(what));
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct once_buf whole, cut;
    size_t step;

    if (size == 0 || size > 1 << 14)
        return 0;
    step = (size_t)data[0] + 1;
    once_buf_init(&whole, LOG_SIZE_MAX);
    once_buf_init(&cut, LOG_SIZE_MAX);
    read_all(data + 1, size - 1, size, &whole);
    read_all(data + 1, size - 1, step, &cut);
    ONCE_ASSERT(whole.size == cut.size);
    ONCE_ASSERT(memcmp(whole.data, cut.data, whole.size) == 0);
    once_buf_release(&whole);
    once_buf_release(&cut);
    return 0;
}
