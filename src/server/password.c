/* SPDX-License-Identifier: Apache-2.0
 *
 * Passwords and tokens as a configuration keeps them: hashes, and their text.
 *
 *     scrypt$15$8$1$<salt in base64>$<hash in base64>      log2 N, r, p
 *     sha256$<64 hex digits>
 *
 * Other costs than ours are read within bounds, so that a file can keep its hashes when ours grow.
 */
#include "server/password.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "base/sha256.h"
#include "server/config_inner.h"

enum {
    LOG_N = 15,
    LOG_N_MIN = 14,
    LOG_N_MAX = 18,
    R = 8,
    R_MAX = 16,
    P = 1,
    P_MAX = 4,
    SALT_TEXT = 24,
    HASH_TEXT = 44,
    TOKEN_SIZE = 32,
    TEXT_MAX = 256
};

static const uint64_t memory_max = 1ULL << 27; /* 128 MiB */

int once__password_hash(const struct once__password *password, struct once_bytes secret,
                        uint8_t ret_hash[ONCE__HASH_SIZE])
{
    uint64_t n = 1ULL << password->log_n;
    /* What scrypt itself takes, and some room for libcrypto's own. */
    uint64_t memory = 128ULL * password->r * (n + password->p + 2) + (1U << 20);

    if (EVP_PBE_scrypt((const char *)secret.data, secret.size, password->salt,
                       sizeof(password->salt), n, password->r, password->p, memory, ret_hash,
                       ONCE__HASH_SIZE) != 1)
        return ONCE_ERR_CRYPTO;
    return ONCE_OK;
}

void once__password_decoy(struct once__password *ret_password)
{
    *ret_password = (struct once__password){.set = true, .log_n = LOG_N, .r = R, .p = P};
}

int once__password_write(const struct once__password *password, struct once_buf *out)
{
    unsigned char salt[SALT_TEXT + 1], hash[HASH_TEXT + 1];
    char text[TEXT_MAX];
    int size;

    (void)EVP_EncodeBlock(salt, password->salt, sizeof(password->salt));
    (void)EVP_EncodeBlock(hash, password->hash, sizeof(password->hash));
    size = snprintf(text, sizeof(text), "scrypt$%u$%u$%u$%s$%s", password->log_n, password->r,
                    password->p, (const char *)salt, (const char *)hash);
    return once_buf_append(out, text, (size_t)size);
}

int once__password_make(struct once_bytes password, struct once_buf *out)
{
    struct once__password made;
    int err;

    if (password.size < ONCE_PASSWORD_SIZE_MIN || password.size > ONCE_PASSWORD_SIZE_MAX)
        return ONCE_ERR_INVALID;
    once__password_decoy(&made);
    err = once__random_bytes(made.salt, sizeof(made.salt));
    if (err == ONCE_OK)
        err = once__password_hash(&made, password, made.hash);
    if (err == ONCE_OK)
        err = once__password_write(&made, out);
    return err;
}

/* Digits without a zero in front, from min to max, and the byte behind them. */
static bool read_cost(const char **at, char end, uint32_t min, uint32_t max, uint32_t *ret_cost)
{
    uint32_t cost = 0;

    if (**at < '1' || **at > '9')
        return false;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        cost = cost * 10 + (uint32_t)(**at - '0');
        if (cost > max)
            return false;
    }
    if (cost < min || **at != end)
        return false;
    (*at)++;
    *ret_cost = cost;
    return true;
}

/* Exactly size bytes in their one base64 form, and what follows. */
static bool read_base64(const char **at, size_t text_size, char end, uint8_t *ret_bytes,
                        size_t size)
{
    unsigned char bytes[HASH_TEXT], again[HASH_TEXT + 1];

    if (strnlen(*at, text_size) < text_size || (*at)[text_size] != end)
        return false;
    if (EVP_DecodeBlock(bytes, (const unsigned char *)*at, (int)text_size) < 0)
        return false;
    (void)EVP_EncodeBlock(again, bytes, (int)size);
    if (memcmp(again, *at, text_size) != 0)
        return false;
    memcpy(ret_bytes, bytes, size);
    *at += text_size + 1;
    return true;
}

bool once__password_read(struct once_bytes text, struct once__password *ret_password)
{
    static const char prefix[] = "scrypt$";
    struct once__password read = {.set = true};
    char copy[TEXT_MAX];
    const char *at = copy + sizeof(prefix) - 1;
    uint32_t log_n;

    if (text.size < sizeof(prefix) || text.size >= sizeof(copy) ||
        memchr(text.data, '\0', text.size))
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    if (strncmp(copy, prefix, sizeof(prefix) - 1) != 0 ||
        !read_cost(&at, '$', LOG_N_MIN, LOG_N_MAX, &log_n) ||
        !read_cost(&at, '$', 1, R_MAX, &read.r) || !read_cost(&at, '$', 1, P_MAX, &read.p) ||
        (128ULL * read.r << log_n) > memory_max ||
        !read_base64(&at, SALT_TEXT, '$', read.salt, sizeof(read.salt)) ||
        !read_base64(&at, HASH_TEXT, '\0', read.hash, sizeof(read.hash)))
        return false;
    read.log_n = (uint8_t)log_n;
    *ret_password = read;
    return true;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

int once__token_write(const struct once__token *token, struct once_buf *out)
{
    char text[8 + 2 * ONCE__HASH_SIZE + 1] = "sha256$";

    for (size_t i = 0; i < sizeof(token->hash); i++)
        snprintf(text + 7 + 2 * i, 3, "%02x", token->hash[i]);
    return once_buf_append(out, text, strlen(text));
}

int once__token_hash(struct once_bytes secret, struct once__token *ret_token)
{
    struct once__sha256_digest digest;
    int err = once__sha256_of(secret, &digest);

    if (err != ONCE_OK)
        return err;
    *ret_token = (struct once__token){.set = true};
    _Static_assert(sizeof(digest.bytes) == sizeof(ret_token->hash), "both are SHA-256");
    memcpy(ret_token->hash, digest.bytes, sizeof(digest.bytes));
    return ONCE_OK;
}

/* "once_" and 32 random bytes in base64 for URLs: no sign in it needs quoting anywhere. */
int once__token_make(struct once_buf *token, struct once_buf *line)
{
    unsigned char text[HASH_TEXT + 1];
    uint8_t secret[TOKEN_SIZE];
    struct once__token made;
    size_t begin = token->size;
    int err = once__random_bytes(secret, sizeof(secret));

    if (err != ONCE_OK)
        return err;
    (void)EVP_EncodeBlock(text, secret, sizeof(secret));
    for (unsigned char *c = text; *c; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c == '=' ? '\0' : *c;
    err = once_buf_append(token, "once_", 5);
    if (err == ONCE_OK)
        err = once_buf_append(token, text, strlen((const char *)text));
    if (err == ONCE_OK)
        err = once__token_hash((struct once_bytes){token->data + begin, token->size - begin},
                               &made);
    if (err == ONCE_OK)
        err = once__token_write(&made, line);
    OPENSSL_cleanse(secret, sizeof(secret));
    OPENSSL_cleanse(text, sizeof(text));
    return err;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool once__token_read(struct once_bytes text, struct once__token *ret_token)
{
    struct once__token read = {.set = true};

    if (text.size != 7 + 2 * sizeof(read.hash) || memcmp(text.data, "sha256$", 7) != 0)
        return false;
    for (size_t i = 0; i < sizeof(read.hash); i++) {
        int high = hex_digit(text.data[7 + 2 * i]), low = hex_digit(text.data[8 + 2 * i]);

        if (high < 0 || low < 0)
            return false;
        read.hash[i] = (uint8_t)(high * 16 + low);
    }
    *ret_token = read;
    return true;
}
