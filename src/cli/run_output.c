/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command wrote: kept in order, made into a result, and shown again.
 *
 *     {"once":"run","version":1,"frames":[[1,6],[2,4]],"kept":10,"lost":0}\n
 *     hello\nhey\n
 *
 * frames are [stream, bytes] in the order in which they were read; their bytes follow the line.
 * Only a beginning is kept: after the first byte that is lost, all are. Results come from the
 * store and so from anyone who may complete or resolve; one that is not exactly of this form is
 * shown as it is.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cli/run.h"

static const char HEAD[] = "{\"once\":\"run\",\"version\":1,\"frames\":[";

enum { FRAME_TEXT_SIZE = 32, TAIL_TEXT_SIZE = 96 };

void run_output_init(struct run_output *output, size_t size_max)
{
    *output = (struct run_output){.lost = 0};
    once_buf_init(&output->bytes, size_max);
}

void run_output_release(struct run_output *output)
{
    once_buf_release(&output->bytes);
    free(output->frames);
    *output = (struct run_output){.lost = 0};
}

/* ---- Keeping --------------------------------------------------------------------------------- */

static bool add_frame(struct run_output *output, struct run_frame frame)
{
    size_t capacity = output->frame_capacity ? 2 * output->frame_capacity : 16;
    struct run_frame *last = output->frame_count > 0 ? &output->frames[output->frame_count - 1]
                                                     : NULL;

    if (last && last->stream == frame.stream) {
        last->size += frame.size;
        return true;
    }
    if (output->frame_count == ONCE_RUN_FRAMES_MAX)
        return false;
    if (output->frame_count == output->frame_capacity) {
        struct run_frame *more = realloc(output->frames, capacity * sizeof(*more));

        if (!more)
            return false;
        output->frames = more;
        output->frame_capacity = capacity;
    }
    output->frames[output->frame_count++] = frame;
    return true;
}

void run_output_add(struct run_output *output, int stream, struct once_bytes bytes)
{
    size_t room = output->bytes.size_max - output->bytes.size;
    size_t size = output->lost > 0 ? 0 : bytes.size < room ? bytes.size : room;

    if (size > 0 && once_buf_reserve(&output->bytes, size) != ONCE_OK)
        size = 0;
    if (size > 0 && !add_frame(output, (struct run_frame){stream, size}))
        size = 0;
    if (size > 0 && once_buf_append(&output->bytes, bytes.data, size) != ONCE_OK)
        abort(); /* there is room */
    output->lost += bytes.size - size;
}

/* ---- As a result ----------------------------------------------------------------------------- */

/* The line for the first kept bytes. */
static int write_line(const struct run_output *output, size_t kept, struct once_buf *out)
{
    char text[TAIL_TEXT_SIZE];
    size_t left = kept;
    int size, err = once_buf_append(out, HEAD, sizeof(HEAD) - 1);

    for (size_t i = 0; i < output->frame_count && left > 0 && err == ONCE_OK; i++) {
        size_t part = output->frames[i].size < left ? output->frames[i].size : left;

        size = snprintf(text, FRAME_TEXT_SIZE, "%s[%d,%zu]", i > 0 ? "," : "",
                        output->frames[i].stream, part);
        err = once_buf_append(out, text, (size_t)size);
        left -= part;
    }
    size = snprintf(text, sizeof(text), "],\"kept\":%zu,\"lost\":%" PRIu64 "}\n", kept,
                    output->lost + (output->bytes.size - kept));
    return err == ONCE_OK ? once_buf_append(out, text, (size_t)size) : err;
}

int run_output_write(const struct run_output *output, size_t size_max, struct once_buf *ret_result)
{
    size_t kept = output->bytes.size, over;
    struct once_buf result;
    int err;

    once_buf_init(&result, ONCE_RESULT_SIZE_MAX);
    for (;;) {
        once_buf_clear(&result);
        err = write_line(output, kept, &result);
        if (err == ONCE_OK && result.size + kept <= size_max)
            break;
        if (err != ONCE_OK || kept == 0)
            goto out;
        over = result.size + kept - size_max;
        kept = kept > over ? kept - over : kept / 2;
    }
    if (kept > 0)
        err = once_buf_append(&result, output->bytes.data, kept);
out:
    if (err == ONCE_OK)
        *ret_result = result;
    else
        once_buf_release(&result);
    return err;
}

/* ---- From a result --------------------------------------------------------------------------- */

struct reader {
    const uint8_t *at, *end;
};

static bool take(struct reader *reader, const char *text)
{
    size_t size = strlen(text);

    if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, text, size) != 0)
        return false;
    reader->at += size;
    return true;
}

static bool take_number(struct reader *reader, uint64_t *ret_number)
{
    const uint8_t *start = reader->at;
    uint64_t number = 0;

    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        if (__builtin_mul_overflow(number, 10U, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*reader->at - '0'), &number))
            return false;
    }
    *ret_number = number;
    return reader->at > start;
}

/* False: it is not of this form. ONCE_ERR_MEMORY in err. */
static bool read_frames(struct reader *reader, struct run_output *output, int *err)
{
    uint64_t stream, size, sum = 0, kept;

    if (!take(reader, HEAD))
        return false;
    while (take(reader, sum > 0 ? ",[" : "[")) {
        if (!take_number(reader, &stream) || (stream != STDOUT_FILENO && stream != STDERR_FILENO) ||
            !take(reader, ",") || !take_number(reader, &size) || !take(reader, "]"))
            return false;
        if (size == 0 || size > ONCE_RESULT_SIZE_MAX || output->frame_count == ONCE_RUN_FRAMES_MAX)
            return false;
        if (!add_frame(output, (struct run_frame){(int)stream, (size_t)size})) {
            *err = ONCE_ERR_MEMORY;
            return false;
        }
        sum += size;
    }
    return take(reader, "],\"kept\":") && take_number(reader, &kept) &&
           take(reader, ",\"lost\":") && take_number(reader, &output->lost) &&
           take(reader, "}\n") && kept == sum && (uint64_t)(reader->end - reader->at) == kept;
}

int run_output_read(struct once_bytes result, struct run_output *ret_output)
{
    struct run_output output;
    struct reader reader = {result.data, result.data + result.size};
    int err = ONCE_OK;

    run_output_init(&output, ONCE_RESULT_SIZE_MAX);
    if (result.size > 0 && read_frames(&reader, &output, &err)) {
        result = (struct once_bytes){reader.at, (size_t)(reader.end - reader.at)};
    } else if (err == ONCE_OK) {
        output.frame_count = 0;
        output.lost = 0;
        if (result.size > 0 && !add_frame(&output, (struct run_frame){STDOUT_FILENO, result.size}))
            err = ONCE_ERR_MEMORY;
    }
    if (err == ONCE_OK && result.size > 0)
        err = once_buf_append(&output.bytes, result.data, result.size);
    if (err == ONCE_OK)
        *ret_output = output;
    else
        run_output_release(&output);
    return err;
}

/* ---- Showing --------------------------------------------------------------------------------- */

bool run_write(int fd, struct once_bytes bytes)
{
    while (bytes.size > 0) {
        ssize_t written = write(fd, bytes.data, bytes.size);

        if (written > 0) {
            bytes.data += written;
            bytes.size -= (size_t)written;
        } else if (written < 0 && errno == EAGAIN) {
            /* Somebody who shares it made it non-blocking. */
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        } else if (written == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

bool run_output_show(const struct run_output *output)
{
    const uint8_t *at = output->bytes.data;
    bool good[3] = {true, true, true};

    for (size_t i = 0; i < output->frame_count; i++) {
        const struct run_frame *frame = &output->frames[i];

        if (good[frame->stream])
            good[frame->stream] = run_write(frame->stream, (struct once_bytes){at, frame->size});
        at += frame->size;
    }
    return good[STDOUT_FILENO] && good[STDERR_FILENO];
}

int run_output_stream(const struct run_output *output, int stream, struct once_buf *ret_bytes)
{
    const uint8_t *at = output->bytes.data;
    struct once_buf bytes;
    int err = ONCE_OK;

    once_buf_init(&bytes, ONCE_RESULT_SIZE_MAX);
    for (size_t i = 0; i < output->frame_count && err == ONCE_OK; i++) {
        if (output->frames[i].stream == stream)
            err = once_buf_append(&bytes, at, output->frames[i].size);
        at += output->frames[i].size;
    }
    if (err == ONCE_OK)
        *ret_bytes = bytes;
    else
        once_buf_release(&bytes);
    return err;
}
