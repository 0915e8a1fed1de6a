/* SPDX-License-Identifier: Apache-2.0
 *
 * Random bytes from the kernel.
 */
#ifndef ONCE_BASE_RANDOM_H
#define ONCE_BASE_RANDOM_H

#include <stddef.h>

#include <once/err.h>

/* The kernel gives this many bytes whole or not at all. */
enum { ONCE__RANDOM_SIZE_MAX = 256 };

/* Fills size bytes, at most ONCE__RANDOM_SIZE_MAX; waits until the kernel's generator is seeded.
 * ONCE_ERR_RANDOM. */
ONCE_MUST_CHECK int once__random_bytes(void *ret_bytes, size_t size);

#endif
