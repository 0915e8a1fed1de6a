/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes in. Every connection reads into the one input that they share, and its commands are read
 * straight out of it. Only the beginning of a command whose end has not come, or what may not be
 * begun yet, is copied to the connection's own tail. When more comes, a small tail is put in front
 * of it (that is what ONCE__INPUT_BEFORE is for); a large one grows instead, and becomes the
 * command's memory when the command is whole.
 *
 * All tails together are bounded by half of ONCE_UNREAD_SIZE_MAX. The other half is for commands
 * under way: those end by themselves, so reading waits for them. Tails end only by being read, so
 * who would make them too large is refused.
 */
#include "server/conn_inner.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* Bytes of a connection that commands are looked for in. */
struct window {
    uint8_t *data;
    size_t at;
    size_t size;
    bool in_tail;
};

/* ---- The tail -------------------------------------------------------------------------------- */

void once__conn_tail_release(struct once__conn *conn)
{
    conn->conns->tail_size -= conn->tail.capacity;
    free(conn->tail.data);
    conn->tail = (struct once__tail){0};
}

static bool tail_append(struct once__conn *conn, const uint8_t *bytes, size_t size)
{
    struct once__tail *tail = &conn->tail;
    size_t need, missing, capacity;

    if (tail->at > 0) {
        tail->size -= tail->at;
        memmove(tail->data, tail->data + tail->at, tail->size);
        tail->at = 0;
    }
    need = tail->size + size;
    if (need > tail->capacity) {
        size_t others = conn->conns->tail_size - tail->capacity;
        uint8_t *data;

        /* Twice as much each time, but not more than what is known to come. */
        missing = once__resp_missing(&conn->reader, need);
        capacity = missing > 0 && missing < need ? need + missing : need * 2;
        if (others + capacity > ONCE_UNREAD_SIZE_MAX / 2)
            return false;
        data = realloc(tail->data, capacity);
        if (!data)
            return false;
        tail->data = data;
        tail->capacity = capacity;
        conn->conns->tail_size = others + capacity;
    }
    memcpy(tail->data + tail->size, bytes, size);
    tail->size = need;
    return true;
}

/* What was found of a command that is not whole yet goes with the tail. It is smaller than the
 * bytes that it was found in, times two. */
static bool park_reader(struct once__conn *conn)
{
    size_t count = conn->reader.count;

    if (count > conn->parked_count) {
        struct once__resp_arg *args = realloc(conn->parked_args,
                                              (count + count / 2) * sizeof *args);

        if (!args)
            return false;
        conn->parked_args = args;
        memcpy(args + conn->parked_count, conn->conns->args + conn->parked_count,
               (count - conn->parked_count) * sizeof *args);
        conn->parked_count = count;
    }
    return true;
}

static void reset_reader(struct once__conn *conn)
{
    conn->reader = (struct once__resp_reader){.args = conn->conns->args};
    if (conn->parked_args) {
        free(conn->parked_args);
        conn->parked_args = NULL;
        conn->parked_count = 0;
    }
}

/* ---- Commands -------------------------------------------------------------------------------- */

static struct once__resp_bounds bounds_of(const struct once__conn *conn)
{
    if (conn->session.identity.known)
        return (struct once__resp_bounds){.arg_count_max = ONCE_COMMAND_ARGS_MAX,
                                          .arg_size_max = ONCE_RESULT_SIZE_MAX,
                                          .size_max = ONCE_COMMAND_SIZE_MAX};
    return (struct once__resp_bounds){.arg_count_max = ONCE_COMMAND_ARGS_MAX_UNKNOWN,
                                      .arg_size_max = ONCE_COMMAND_SIZE_MAX_UNKNOWN,
                                      .size_max = ONCE_COMMAND_SIZE_MAX_UNKNOWN};
}

static void begin_one(struct once__conn *conn, struct window *window)
{
    struct once__conns *conns = conn->conns;
    struct once__found found = {
        .data = window->data + window->at, .args = conns->args, .count = conn->reader.count};
    size_t end = window->at + conn->reader.offset, rest = window->size - end;
    uint8_t *input = conns->input + ONCE__INPUT_BEFORE;

    if (window->in_tail && conn->reader.offset >= ONCE__GIFT_SIZE_MIN && rest <= ONCE__INPUT_SIZE) {
        found.gift = conn->tail.data;
        /* What is behind the command moves to the input, and before it is begun: the memory of one
         * that is answered at once is gone by then. */
        if (rest > 0)
            memcpy(input, window->data + end, rest);
    }
    conn->budget--;
    reset_reader(conn);
    if (once__flight_begin(conn, &found)) {
        conns->tail_size -= conn->tail.capacity;
        conn->tail = (struct once__tail){0};
        *window = (struct window){.data = input, .size = rest};
        return;
    }
    window->at = end;
}

/* Begins as many commands as may be begun now. */
static void begin_window(struct once__conn *conn, struct window *window)
{
    const char *what = NULL;

    conn->reader.args = conn->conns->args;
    if (conn->parked_count > 0)
        memcpy(conn->conns->args, conn->parked_args,
               conn->parked_count * sizeof *conn->parked_args);
    conn->hungry = window->at == window->size;
    while (!conn->hungry && conn->budget > 0 && once__conn_may_begin(conn)) {
        struct once__resp_bounds bounds = bounds_of(conn);

        switch (once__resp_read(&conn->reader, window->data + window->at, window->size - window->at,
                                &bounds, &what)) {
        case ONCE__RESP_COMMAND:
            begin_one(conn, window);
            break;
        case ONCE__RESP_NOTHING:
            window->at += conn->reader.offset;
            conn->budget--;
            reset_reader(conn);
            break;
        case ONCE__RESP_INCOMPLETE:
            conn->hungry = true;
            return;
        case ONCE__RESP_WRONG: {
            char text[256];

            snprintf(text, sizeof text, "Protocol error: %s", what);
            once__flight_refuse(conn, "ERR", text);
            return;
        }
        }
        conn->hungry = window->at == window->size;
    }
}

/* Keeps what was not begun. */
static void keep_window(struct once__conn *conn, const struct window *window)
{
    bool kept = true;

    if (conn->gone)
        return;
    if (window->in_tail) {
        conn->tail.at = window->at;
        if (window->at == window->size)
            once__conn_tail_release(conn);
    } else if (window->at < window->size) {
        kept = tail_append(conn, window->data + window->at, window->size - window->at);
    }
    if (kept)
        kept = park_reader(conn);
    if (!kept && !conn->session.closing) {
        once__conn_tail_release(conn);
        once__flight_refuse(conn, "FULL", "the server holds too many unfinished commands");
    }
}

static void begin_tail(struct once__conn *conn)
{
    struct window window = {
        .data = conn->tail.data, .at = conn->tail.at, .size = conn->tail.size, .in_tail = true};

    begin_window(conn, &window);
    keep_window(conn, &window);
}

/* size bytes have come into the input. */
static void take(struct once__conn *conn, size_t size)
{
    struct window window = {.data = conn->conns->input + ONCE__INPUT_BEFORE, .size = size};
    size_t before = conn->tail.size - conn->tail.at;

    if (before > ONCE__INPUT_BEFORE) {
        if (tail_append(conn, window.data, window.size)) {
            begin_tail(conn);
        } else {
            once__conn_tail_release(conn);
            once__flight_refuse(conn, "FULL", "the server holds too many unfinished commands");
        }
        return;
    }
    if (before > 0) {
        window.data -= before;
        window.size += before;
        memcpy(window.data, conn->tail.data + conn->tail.at, before);
        once__conn_tail_release(conn);
    }
    begin_window(conn, &window);
    keep_window(conn, &window);
}

static void take_tls(struct once__conn *conn)
{
    while (conn->tls_more && conn->budget > 0 && once__conn_may_begin(conn)) {
        const char *what = NULL;
        long got = once__tls_session_read(conn->tls, conn->conns->input + ONCE__INPUT_BEFORE,
                                          ONCE__INPUT_SIZE, &what);

        if (got > 0) {
            take(conn, (size_t)got);
            continue;
        }
        conn->tls_more = false;
        if (got < 0 && what) {
            once__conn_flush(conn); /* with it the alert that says why */
            once__conn_drop(conn, what);
        } else if (got < 0) {
            conn->eof = true;
            once__conn_cancel(conn);
        }
    }
}

void once__conn_begin(struct once__conn *conn)
{
    if (!conn->gone && !conn->hungry)
        begin_tail(conn);
    if (!conn->gone && conn->tls && conn->hungry)
        take_tls(conn);
}

/* ---- libuv ----------------------------------------------------------------------------------- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct once__conn *conn = handle->data;

    (void)suggested;
    ret_buf->base = (char *)conn->conns->input + ONCE__INPUT_BEFORE;
    ret_buf->len = ONCE__INPUT_SIZE;
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct once__conn *conn = stream->data;

    (void)buf;
    if (got == 0 || conn->gone)
        return;
    if (conn->lingering) {
        if (got < 0)
            once__conn_drop(conn, NULL);
        return;
    }
    if (got < 0 && got != UV_EOF) {
        once__conn_drop(conn, NULL);
        return;
    }
    conn->budget = ONCE__TURN_COMMANDS;
    if (got == UV_EOF) {
        conn->eof = true;
        once__conn_cancel(conn);
    } else {
        conn->heard_ns = once__conns_now(conn->conns);
        conn->conns->bytes_in += got;
        conn->filled = got == ONCE__INPUT_SIZE;
        if (!conn->tls) {
            take(conn, (size_t)got);
        } else if (once__tls_session_feed(conn->tls, conn->conns->input + ONCE__INPUT_BEFORE,
                                          (size_t)got) == ONCE_OK) {
            conn->tls_more = true;
        } else {
            once__conn_drop(conn, "too much ciphertext");
            return;
        }
    }
    once__conn_turn(conn);
}

void once__conn_read_on(struct once__conn *conn, bool on)
{
    if (conn->reading == on)
        return;
    conn->reading = on;
    if (!on)
        uv_read_stop(&conn->uv.stream);
    else if (uv_read_start(&conn->uv.stream, on_alloc, on_read) != 0)
        once__conn_drop(conn, "cannot read");
}
