/* SPDX-License-Identifier: Apache-2.0
 *
 * Random bytes from the kernel, asked for each time. Nothing is kept in the process, so two
 * processes that share memory after a fork() never share random bytes.
 */
#include "base/random.h"

#include "base/assert.h"

#include <errno.h>
#include <sys/random.h>

int once__random_bytes(void *ret_bytes, size_t size)
{
    ssize_t got;

    ONCE_ASSERT(size <= ONCE__RANDOM_SIZE_MAX);
    do {
        got = getrandom(ret_bytes, size, 0);
    } while (got < 0 && errno == EINTR);
    return got >= 0 && (size_t)got == size ? ONCE_OK : ONCE_ERR_RANDOM;
}
