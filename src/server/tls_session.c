/* SPDX-License-Identifier: Apache-2.0
 *
 * One TLS connection between two buffers: what came and was not read, what is to be sent. GnuTLS
 * pulls from the one and pushes to the other; nothing here waits or touches a socket.
 */
#include "server/tls.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "server/tls_inner.h"

struct once__tls_session {
    gnutls_session_t session;
    struct once_buf incoming;
    size_t incoming_at; /* read up to here */
    struct once_buf outgoing;
    bool ready;
    bool over;
    const char *why;
};

static ssize_t pull(gnutls_transport_ptr_t pointer, void *to, size_t size)
{
    struct once__tls_session *self = pointer;
    size_t there = self->incoming.size - self->incoming_at;

    if (there == 0) {
        gnutls_transport_set_errno(self->session, EAGAIN);
        return -1;
    }
    if (size > there)
        size = there;
    memcpy(to, self->incoming.data + self->incoming_at, size);
    self->incoming_at += size;
    return (ssize_t)size;
}

static int pull_timeout(gnutls_transport_ptr_t pointer, unsigned int ms)
{
    const struct once__tls_session *self = pointer;

    (void)ms;
    return self->incoming.size > self->incoming_at;
}

static ssize_t push(gnutls_transport_ptr_t pointer, const void *bytes, size_t size)
{
    struct once__tls_session *self = pointer;

    if (once_buf_append(&self->outgoing, bytes, size) != ONCE_OK) {
        gnutls_transport_set_errno(self->session, ENOMEM);
        return -1;
    }
    return (ssize_t)size;
}

int once__tls_session_new(struct once__tls *tls, struct once__tls_session **ret_session)
{
    struct once__tls_session *self = calloc(1, sizeof *self);
    int err;

    if (!self)
        return ONCE_ERR_MEMORY;
    once_buf_init(&self->incoming, ONCE_TLS_PENDING_MAX);
    once_buf_init(&self->outgoing, (size_t)ONCE_ANSWER_SIZE_MAX * 2);
    if (gnutls_init(&self->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0) {
        free(self);
        return ONCE_ERR_MEMORY;
    }
    gnutls_transport_set_ptr(self->session, self);
    gnutls_transport_set_pull_function(self->session, pull);
    gnutls_transport_set_pull_timeout_function(self->session, pull_timeout);
    gnutls_transport_set_push_function(self->session, push);
    err = once__tls_prepare(tls, self->session);
    if (err != ONCE_OK) {
        once__tls_session_free(self);
        return err;
    }
    *ret_session = self;
    return ONCE_OK;
}

void once__tls_session_free(struct once__tls_session *self)
{
    if (!self)
        return;
    gnutls_deinit(self->session);
    once_buf_release(&self->incoming);
    once_buf_release(&self->outgoing);
    free(self);
}

int once__tls_session_feed(struct once__tls_session *self, const uint8_t *bytes, size_t size)
{
    struct once_buf *incoming = &self->incoming;

    if (self->incoming_at > 0) {
        incoming->size -= self->incoming_at;
        memmove(incoming->data, incoming->data + self->incoming_at, incoming->size);
        self->incoming_at = 0;
    }
    return once_buf_append(incoming, bytes, size);
}

/* Whoever is silent costs no buffer. */
static void give_back(struct once__tls_session *self)
{
    if (self->incoming_at == self->incoming.size) {
        once_buf_release(&self->incoming);
        self->incoming_at = 0;
    }
}

static long end(struct once__tls_session *self, const char *why, const char **ret_what)
{
    self->over = true;
    self->why = why;
    *ret_what = why;
    return ONCE_ERR_CLOSED;
}

static long shake(struct once__tls_session *self, const char **ret_what)
{
    for (;;) {
        int rc = gnutls_handshake(self->session);

        if (rc == GNUTLS_E_SUCCESS) {
            self->ready = true;
            return 1;
        }
        if (rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED)
            return 0;
        if (gnutls_error_is_fatal(rc)) {
            (void)gnutls_alert_send_appropriate(self->session, rc);
            return end(self, gnutls_strerror(rc), ret_what);
        }
    }
}

long once__tls_session_read(struct once__tls_session *self, uint8_t *out, size_t size,
                            const char **ret_what)
{
    ONCE_ASSERT(size > 0 && size <= LONG_MAX);
    if (self->over)
        return end(self, self->why, ret_what);
    if (!self->ready) {
        long shaken = shake(self, ret_what);

        if (shaken <= 0) {
            give_back(self);
            return shaken;
        }
    }
    for (;;) {
        ssize_t got = gnutls_record_recv(self->session, out, size);

        if (got > 0)
            return (long)got;
        if (got == 0)
            return end(self, NULL, ret_what);
        if (got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED) {
            give_back(self);
            return 0;
        }
        if (got == GNUTLS_E_REHANDSHAKE)
            return end(self, "renegotiation is not served", ret_what);
        if (gnutls_error_is_fatal((int)got)) {
            (void)gnutls_alert_send_appropriate(self->session, (int)got);
            return end(self, gnutls_strerror((int)got), ret_what);
        }
    }
}

bool once__tls_session_ready(const struct once__tls_session *self)
{
    return self->ready;
}

int once__tls_session_write(struct once__tls_session *self, const uint8_t *bytes, size_t size)
{
    ONCE_ASSERT(self->ready);
    if (self->over && self->why)
        return ONCE_ERR_CLOSED;
    while (size > 0) {
        ssize_t sent = gnutls_record_send(self->session, bytes, size);

        if (sent == GNUTLS_E_AGAIN || sent == GNUTLS_E_INTERRUPTED)
            continue;
        if (sent <= 0) {
            self->over = true;
            self->why = "cannot encrypt";
            return sent == GNUTLS_E_PUSH_ERROR ? ONCE_ERR_FULL : ONCE_ERR_CLOSED;
        }
        bytes += sent;
        size -= (size_t)sent;
    }
    return ONCE_OK;
}

void once__tls_session_bye(struct once__tls_session *self)
{
    if (self->ready && !(self->over && self->why))
        (void)gnutls_bye(self->session, GNUTLS_SHUT_WR);
}

struct once_buf *once__tls_session_outgoing(struct once__tls_session *self)
{
    return &self->outgoing;
}
