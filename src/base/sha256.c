/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 through libcrypto's EVP interface. The algorithm is looked up once in the life of the
 * process: the lookup costs more than hashing a key. It is not given back at its end, because
 * libcrypto may already be gone when our own destructors would run.
 */
#include "base/sha256.h"

#include "base/assert.h"

#include <stdatomic.h>

#include <openssl/evp.h>

static _Atomic(EVP_MD *) cached;

/* Threads that race for the first lookup may both do it; one result stays. A lookup that fails is
 * tried again by the next caller, which a pthread_once could not do. */
static EVP_MD *algorithm(void)
{
    EVP_MD *found = atomic_load_explicit(&cached, memory_order_acquire);
    EVP_MD *mine;

    if (found)
        return found;
    mine = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (!mine)
        return NULL;
    if (atomic_compare_exchange_strong(&cached, &found, mine))
        return mine;
    EVP_MD_free(mine);
    return found;
}

void once__sha256_forget(void)
{
    EVP_MD_free(atomic_exchange(&cached, NULL));
}

int once__sha256_init(struct once__sha256 *ret_hash)
{
    EVP_MD *md = algorithm();
    EVP_MD_CTX *context;

    if (!md)
        return ONCE_ERR_CRYPTO;
    context = EVP_MD_CTX_new();
    if (!context)
        return ONCE_ERR_CRYPTO;
    if (EVP_DigestInit_ex2(context, md, NULL) != 1) {
        EVP_MD_CTX_free(context);
        return ONCE_ERR_CRYPTO;
    }
    ret_hash->context = context;
    return ONCE_OK;
}

int once__sha256_add(struct once__sha256 *hash, struct once_bytes bytes)
{
    ONCE_ASSERT(hash->context);
    if (bytes.size == 0)
        return ONCE_OK;
    if (EVP_DigestUpdate(hash->context, bytes.data, bytes.size) != 1)
        return ONCE_ERR_CRYPTO;
    return ONCE_OK;
}

int once__sha256_add_number(struct once__sha256 *hash, uint64_t number)
{
    uint8_t encoded[8];

    for (size_t i = 0; i < sizeof(encoded); i++)
        encoded[i] = (uint8_t)(number >> (56 - 8 * i));
    return once__sha256_add(hash, (struct once_bytes){encoded, sizeof(encoded)});
}

int once__sha256_add_sized(struct once__sha256 *hash, struct once_bytes bytes)
{
    int err = once__sha256_add_number(hash, bytes.size);

    if (err != ONCE_OK)
        return err;
    return once__sha256_add(hash, bytes);
}

int once__sha256_finish(struct once__sha256 *hash, struct once__sha256_digest *ret_digest)
{
    struct once__sha256_digest digest;
    unsigned size = 0;

    ONCE_ASSERT(hash->context);
    if (EVP_DigestFinal_ex(hash->context, digest.bytes, &size) != 1)
        return ONCE_ERR_CRYPTO;
    ONCE_ASSERT(size == ONCE__SHA256_SIZE);
    *ret_digest = digest;
    return ONCE_OK;
}

void once__sha256_release(struct once__sha256 *hash)
{
    if (!hash)
        return;
    EVP_MD_CTX_free(hash->context);
    hash->context = NULL;
}

int once__sha256_of(struct once_bytes bytes, struct once__sha256_digest *ret_digest)
{
    struct once__sha256 hash = {0};
    int err = once__sha256_init(&hash);

    if (err == ONCE_OK)
        err = once__sha256_add(&hash, bytes);
    if (err == ONCE_OK)
        err = once__sha256_finish(&hash, ret_digest);
    once__sha256_release(&hash);
    return err;
}
