/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes out. The answers of one turn are sent with one call to the system, straight out of the
 * buffer that all connections share. Only what the system does not take is kept: one piece is with
 * libuv, the rest is queued behind it.
 */
#include "server/conn_inner.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum {
    SHARED_SIZE_KEPT = 1 << 20 /* a shared buffer that grew larger is given back */
};

size_t once__conn_unsent(const struct once__conn *conn)
{
    return conn->sending_size + conn->queued.size;
}

static void on_written(uv_write_t *write, int status);

static void sent(struct once__conn *conn)
{
    conn->conns->unsent_size -= conn->sending_size;
    free(conn->sending);
    conn->sending = NULL;
    conn->sending_size = 0;
}

static void send_queued(struct once__conn *conn)
{
    uv_buf_t piece;

    ONCE_ASSERT(!conn->sending);
    if (conn->queued.size == 0)
        return;
    conn->sending = conn->queued.data;
    conn->sending_size = conn->queued.size;
    once_buf_init(&conn->queued, conn->queued.size_max);
    conn->left = conn->sending_size;
    conn->progress_ns = once__conns_now(conn->conns);
    piece.base = (char *)conn->sending;
    piece.len = conn->sending_size;
    if (uv_write(&conn->write, &conn->uv.stream, &piece, 1, on_written) == 0)
        return;
    sent(conn);
    once__conn_drop(conn, "cannot write");
}

static void on_written(uv_write_t *write, int status)
{
    struct once__conn *conn = write->handle->data;

    if (status == 0)
        conn->conns->bytes_out += (int64_t)conn->sending_size;
    sent(conn);
    if (conn->gone)
        return;
    if (status < 0) {
        once__conn_drop(conn, NULL);
        return;
    }
    send_queued(conn);
    if (!conn->gone)
        once__conns_list(conn);
}

/* Sends bytes, or keeps what cannot be sent now. */
static void send_bytes(struct once__conn *conn, const struct once_buf *bytes)
{
    size_t taken = 0;

    if (bytes->size == 0)
        return;
    if (!conn->sending) {
        uv_buf_t piece = {.base = (char *)bytes->data, .len = bytes->size};
        int rc = uv_try_write(&conn->uv.stream, &piece, 1);

        if (rc < 0 && rc != UV_EAGAIN) {
            once__conn_drop(conn, NULL);
            return;
        }
        taken = rc > 0 ? (size_t)rc : 0;
        conn->conns->bytes_out += (int64_t)taken;
    }
    if (taken == bytes->size)
        return;
    if (once_buf_append(&conn->queued, bytes->data + taken, bytes->size - taken) != ONCE_OK) {
        once__conn_drop(conn, "out of memory for answers");
        return;
    }
    conn->conns->unsent_size += bytes->size - taken;
    if (!conn->sending)
        send_queued(conn);
}

static void clear(struct once_buf *buf)
{
    if (buf->capacity > SHARED_SIZE_KEPT)
        once_buf_release(buf);
    else
        once_buf_clear(buf);
}

void once__conn_flush(struct once__conn *conn)
{
    struct once__out *out = &conn->conns->out;

    if (out->failed && !conn->gone)
        once__conn_drop(conn, "an answer is too large");
    out->failed = false;
    if (conn->tls && !conn->gone) {
        struct once_buf *outgoing = once__tls_session_outgoing(conn->tls);

        if (out->buf.size > 0 &&
            once__tls_session_write(conn->tls, out->buf.data, out->buf.size) != ONCE_OK)
            once__conn_drop(conn, "cannot encrypt");
        else
            send_bytes(conn, outgoing);
        /* It is the session's own: an idle connection keeps none. */
        once_buf_release(outgoing);
    } else if (!conn->gone) {
        send_bytes(conn, &out->buf);
    }
    clear(&out->buf);
}

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    struct once__conn *conn = shutdown->handle->data;

    if (status < 0 && !conn->gone)
        once__conn_drop(conn, NULL);
}

void once__conn_linger(struct once__conn *conn)
{
    ONCE_ASSERT(!conn->lingering);
    conn->lingering = true;
    conn->linger_until_ns = once__conns_now(conn->conns) + (uint64_t)ONCE__LINGER_MS * 1000000;
    if (uv_shutdown(&conn->shutdown, &conn->uv.stream, on_shutdown) != 0)
        once__conn_drop(conn, NULL);
}
