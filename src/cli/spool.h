/* SPDX-License-Identifier: Apache-2.0
 *
 * Output that does not make its writer wait for a slow reader: `once ls | less` must not hold a
 * folder for as long as somebody reads.
 */
#ifndef ONCE_CLI_SPOOL_H
#define ONCE_CLI_SPOOL_H

#include <stdbool.h>
#include <stddef.h>

#include <once/bytes.h>

enum { CLI_SPOOL_SIZE_MAX = 1 << 28 };

struct cli_spool {
    int fd;
    struct once_buf waiting; /* from `written` on */
    size_t written;
    int error; /* errno of a failed write; EPIPE: nobody reads any more */
};

void cli_spool_init(struct cli_spool *spool, int fd);
/* Takes the bytes, and writes as much as the reader takes now. Waits for it only when more than
 * CLI_SPOOL_SIZE_MAX would be kept. False: error is set, and nothing more is wanted. */
bool cli_spool_write(struct cli_spool *spool, const void *data, size_t size);
/* Writes the rest, however long it takes. */
bool cli_spool_finish(struct cli_spool *spool);
void cli_spool_release(struct cli_spool *spool);

#endif
