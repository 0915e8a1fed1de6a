/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys: the name under which an operation happens once.
 *
 * A key is made before the first attempt and sent unchanged with every retry. All functions here
 * are safe from many threads.
 */
#ifndef ONCE_KEY_H
#define ONCE_KEY_H

#include <once/bytes.h>
#include <once/limits.h>
#include <once/verdict.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ONCE_UUID_TEXT_SIZE 36
#define ONCE_DIGEST_TEXT_SIZE 64

/* No birth time: the key is not a UUIDv7. */
#define ONCE_BIRTH_NONE (-1LL)

/* A key as text, NUL-terminated for convenience; size counts without the NUL. */
struct once_key {
    char text[ONCE_KEY_SIZE_MAX + 1];
    size_t size;
};

/* A random UUID, version 4 (RFC 9562). ONCE_ERR_INVALID, ONCE_ERR_RANDOM. */
ONCE_API ONCE_MUST_CHECK int once_key_uuid4(struct once_key *ret_key);

/* A UUID version 7: carries its birth time, and each one made by this process is larger than the
 * one before, whatever the wall clock does. While the clock stands behind the last key, keys are
 * born at the time of the last key. ONCE_ERR_INVALID, ONCE_ERR_RANDOM, ONCE_ERR_CLOCK. */
ONCE_API ONCE_MUST_CHECK int once_key_uuid7(struct once_key *ret_key);

/* SHA-256 of the parts, each after its size as 8 bytes (most significant first), as 64 hex digits:
 * ("ab","c") and ("a","bc") are different keys. At least one part; a part is any bytes.
 * ONCE_ERR_INVALID, ONCE_ERR_CRYPTO. */
ONCE_API ONCE_MUST_CHECK int once_key_digest(const struct once_bytes *parts, size_t part_count,
                                             struct once_key *ret_key);

/* "client:sequence", the sequence in decimal. Two different pairs are two different keys, even when
 * a client's name has colons in it: the digits after the last colon are the sequence. The client's
 * name keeps the rules of once_key_check and leaves room (ONCE_ERR_KEY_TOO_LONG). */
ONCE_API ONCE_MUST_CHECK int once_key_sequence(struct once_bytes client, uint64_t sequence,
                                               struct once_key *ret_key);

/* A business id ("order-8841") as a key: checked like once_key_check, and copied. */
ONCE_API ONCE_MUST_CHECK int once_key_business(struct once_bytes id, struct once_key *ret_key,
                                               struct once_defect *ret_defect);

/* The rules that every key keeps: 1 to ONCE_KEY_SIZE_MAX bytes of printable ASCII (0x20 to 0x7e).
 * ONCE_ERR_KEY_EMPTY, ONCE_ERR_KEY_TOO_LONG, ONCE_ERR_KEY_CHARACTER, whichever is leftmost;
 * ret_defect (may be NULL) is written on failure only. */
ONCE_API ONCE_MUST_CHECK int once_key_check(struct once_bytes key, struct once_defect *ret_defect);

/* The rules of a namespace: 1 to ONCE_NAMESPACE_SIZE_MAX bytes of printable ASCII without spaces.
 * ONCE_ERR_INVALID; ret_defect (may be NULL) is written on failure only. */
ONCE_API ONCE_MUST_CHECK int once_namespace_check(struct once_bytes ns,
                                                  struct once_defect *ret_defect);

/* Reads the value of an Idempotency-Key header: an RFC 9651 string ("8e03", in quotes, with \" and
 * \\ as escapes) or the bare form that most clients send (8e03: no white space, quotes,
 * backslashes, commas or semicolons). Blanks around it are skipped; both forms of a key give the
 * same key. Parameters after the key and a second key are refused. Each defect has an error
 * ONCE_ERR_KEY_… of its own; ret_defect (may be NULL) says where, on failure only. */
ONCE_API ONCE_MUST_CHECK int once_key_parse_header(struct once_bytes header,
                                                   struct once_key *ret_key,
                                                   struct once_defect *ret_defect);

/* When the key was born, if it is exactly the text of a UUIDv7, in either case; else
 * ONCE_BIRTH_NONE. */
ONCE_API once_ms once_key_birth_ms(struct once_bytes key);

#ifdef __cplusplus
}
#endif
#endif
