/* SPDX-License-Identifier: Apache-2.0
 *
 * Output that does not make its writer wait. Nothing is made non-blocking: the descriptor is shared
 * with other processes. A pipe that poll calls writable takes PIPE_BUF bytes at once.
 */
#include "cli/spool.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <once/err.h>

void cli_spool_init(struct cli_spool *spool, int fd)
{
    *spool = (struct cli_spool){.fd = fd};
    once_buf_init(&spool->waiting, CLI_SPOOL_SIZE_MAX);
}

/* One piece; waits for the reader unless it must not. False: the reader is not ready, or failed. */
static bool write_some(struct cli_spool *spool, bool may_wait)
{
    struct pollfd ready = {.fd = spool->fd, .events = POLLOUT};
    size_t left = spool->waiting.size - spool->written;
    ssize_t done;

    if (left == 0 || spool->error != 0)
        return false;
    if (!may_wait && poll(&ready, 1, 0) == 0)
        return false;
    if (!may_wait && left > PIPE_BUF)
        left = PIPE_BUF;
    done = write(spool->fd, spool->waiting.data + spool->written, left);
    if (done < 0 && errno != EINTR && errno != EAGAIN)
        spool->error = errno;
    else if (done < 0 && errno == EAGAIN)
        (void)poll(&ready, 1, may_wait ? -1 : 0);
    else if (done > 0)
        spool->written += (size_t)done;
    if (spool->written == spool->waiting.size) {
        once_buf_clear(&spool->waiting);
        spool->written = 0;
    }
    return spool->error == 0 && (done > 0 || may_wait);
}

bool cli_spool_write(struct cli_spool *spool, const void *data, size_t size)
{
    if (spool->error != 0)
        return false;
    if (once_buf_append(&spool->waiting, data, size) != ONCE_OK) {
        if (!cli_spool_finish(spool))
            return false;
        if (once_buf_append(&spool->waiting, data, size) != ONCE_OK) {
            spool->error = ENOMEM;
            return false;
        }
    }
    while (write_some(spool, false))
        ;
    return spool->error == 0;
}

bool cli_spool_finish(struct cli_spool *spool)
{
    while (write_some(spool, true))
        ;
    return spool->error == 0;
}

void cli_spool_release(struct cli_spool *spool)
{
    once_buf_release(&spool->waiting);
}
