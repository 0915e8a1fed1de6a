/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes a command's output on while it runs, and records it.
 *
 * A slow reader slows the command down, as it would without us: of each stream at most one piece is
 * on its way. A reader that is gone does not end the command: its output is recorded on. When the
 * command has ended, what its pipes hold is taken and nothing more is waited for: a process that it
 * left in the background may hold them open for ever.
 */
#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/run.h"

enum {
    PIECE_SIZE = 1 << 16,
    WRITE_SIZE = 4096, /* a pipe that can be written to takes as much without waiting (PIPE_BUF) */
    REST_SIZE_MAX = 1 << 22,
    STREAMS = 2
};

struct stream {
    int number; /* 1 or 2: where it goes, and its name in frames */
    int *from;  /* -1: at its end */
    bool *unread;
    uint8_t piece[PIECE_SIZE];
    size_t start, size; /* what of piece was not written yet */
};

/* ---- One stream ------------------------------------------------------------------------------ */

static void close_end(struct stream *stream)
{
    (void)close(*stream->from);
    *stream->from = -1;
}

/* Takes a piece of at most max bytes. Gives its size; 0: there is none now. */
static size_t take_piece(struct stream *stream, size_t max, struct run_output *output)
{
    ssize_t size = read(*stream->from, stream->piece, max < PIECE_SIZE ? max : PIECE_SIZE);

    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (size <= 0) {
        close_end(stream);
        return 0;
    }
    run_output_add(output, stream->number, (struct once_bytes){stream->piece, (size_t)size});
    return (size_t)size;
}

/* Writes some of what is on its way. */
static void pass_some(struct stream *stream)
{
    size_t size = stream->size < WRITE_SIZE ? stream->size : WRITE_SIZE;
    ssize_t written = write(stream->number, stream->piece + stream->start, size);

    if (written > 0) {
        stream->start += (size_t)written;
        stream->size -= (size_t)written;
    } else if (errno != EAGAIN && errno != EINTR) {
        *stream->unread = true;
    }
    if (*stream->unread)
        stream->size = 0;
}

static bool can_write(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};

    return poll(&ready, 1, 0) == 1;
}

/* ---- While it runs --------------------------------------------------------------------------- */

static void relay_once(struct run *run, struct stream streams[STREAMS])
{
    struct pollfd waits[1 + STREAMS] = {{.fd = run->signals.fd, .events = POLLIN}};

    for (int i = 0; i < STREAMS; i++) {
        if (streams[i].size > 0)
            waits[1 + i] = (struct pollfd){.fd = streams[i].number, .events = POLLOUT};
        else
            waits[1 + i] = (struct pollfd){.fd = *streams[i].from, .events = POLLIN};
    }
    if (poll(waits, 1 + STREAMS, -1) < 0)
        return;
    for (int i = 0; i < STREAMS; i++) {
        if (waits[1 + i].revents == 0)
            continue;
        if (streams[i].size == 0) {
            size_t size = take_piece(&streams[i], PIECE_SIZE, &run->output);

            streams[i].start = 0;
            streams[i].size = *streams[i].unread ? 0 : size;
        } else {
            pass_some(&streams[i]);
        }
    }
    if (waits[0].revents != 0)
        run_signals_read(&run->signals, &run->child);
}

/* ---- When it has ended ----------------------------------------------------------------------- */

/* What the pipe holds now, and what was on its way, go to rest. */
static void drain(struct run *run, struct stream *stream, struct once_buf *rest)
{
    int waiting = 0;
    size_t left, size;

    if (stream->size > 0 &&
        once_buf_append(rest, stream->piece + stream->start, stream->size) != ONCE_OK)
        *stream->unread = true;
    if (*stream->from < 0 || ioctl(*stream->from, FIONREAD, &waiting) != 0)
        return;
    for (left = (size_t)waiting; left > 0 && *stream->from >= 0; left -= size) {
        size = take_piece(stream, left, &run->output);
        if (size == 0)
            return;
        if (!*stream->unread && once_buf_append(rest, stream->piece, size) != ONCE_OK)
            *stream->unread = true;
    }
}

/* As much of the rest as can be written without waiting. */
static void pass_ready(struct stream *stream, struct once_buf *rest)
{
    size_t at = 0;

    while (at < rest->size && !*stream->unread && can_write(stream->number)) {
        size_t size = rest->size - at < WRITE_SIZE ? rest->size - at : WRITE_SIZE;
        ssize_t written = write(stream->number, rest->data + at, size);

        if (written > 0)
            at += (size_t)written;
        else if (errno != EAGAIN && errno != EINTR)
            *stream->unread = true;
        else
            break;
    }
    if (at > 0)
        memmove(rest->data, rest->data + at, rest->size - at);
    rest->size -= at;
}

void run_relay(struct run *run, struct once_buf rest[3])
{
    static struct stream streams[STREAMS];

    for (int i = 0; i < STREAMS; i++) {
        streams[i] = (struct stream){.number = i + 1};
        streams[i].from = i == 0 ? &run->child.out : &run->child.err;
        streams[i].unread = &run->unread[i + 1];
        once_buf_init(&rest[i + 1], REST_SIZE_MAX);
    }
    run_signals_read(&run->signals, &run->child);
    while (!run->child.ended)
        relay_once(run, streams);
    for (int i = 0; i < STREAMS; i++) {
        drain(run, &streams[i], &rest[i + 1]);
        pass_ready(&streams[i], &rest[i + 1]);
    }
}

void run_relay_finish(struct run *run, struct once_buf rest[3])
{
    for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++) {
        if (!run->unread[i] && !run_write(i, once_buf_bytes(&rest[i])))
            run->unread[i] = true;
        once_buf_clear(&rest[i]);
    }
}
