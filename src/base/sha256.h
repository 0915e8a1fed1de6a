/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 through libcrypto. Safe from many threads as long as each hash has one user at a time.
 */
#ifndef ONCE_BASE_SHA256_H
#define ONCE_BASE_SHA256_H

#include <once/bytes.h>

enum { ONCE__SHA256_SIZE = 32 };

/* One hash under way. All zero is a hash that was never begun. */
struct once__sha256 {
    struct evp_md_ctx_st *context;
};

struct once__sha256_digest {
    uint8_t bytes[ONCE__SHA256_SIZE];
};

/* Begins a hash; once__sha256_release frees it. ONCE_ERR_CRYPTO. */
ONCE_MUST_CHECK int once__sha256_init(struct once__sha256 *ret_hash);

/* Adds bytes as they are. ONCE_ERR_CRYPTO. */
ONCE_MUST_CHECK int once__sha256_add(struct once__sha256 *hash, struct once_bytes bytes);

/* Adds a number as 8 bytes, the most significant first. ONCE_ERR_CRYPTO. */
ONCE_MUST_CHECK int once__sha256_add_number(struct once__sha256 *hash, uint64_t number);

/* Adds bytes after their size: what was added can be told apart again. ONCE_ERR_CRYPTO. */
ONCE_MUST_CHECK int once__sha256_add_sized(struct once__sha256 *hash, struct once_bytes bytes);

/* Ends the hash; only release may follow. ONCE_ERR_CRYPTO. */
ONCE_MUST_CHECK int once__sha256_finish(struct once__sha256 *hash,
                                        struct once__sha256_digest *ret_digest);

/* Accepts NULL and a hash that was never begun. */
void once__sha256_release(struct once__sha256 *hash);

/* The hash of some bytes in one call. ONCE_ERR_CRYPTO. */
ONCE_MUST_CHECK int once__sha256_of(struct once_bytes bytes,
                                    struct once__sha256_digest *ret_digest);

/* Frees what is kept for the life of the process. For a host that unloads this code before it ends,
 * when no hash is under way; the next one looks up again. */
void once__sha256_forget(void);

#endif
