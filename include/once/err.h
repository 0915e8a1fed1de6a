/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors of every fallible function in Once.
 *
 * A function that can fail returns 0 or one of these negative numbers; its outputs (named ret_x)
 * are written only on success. Verdicts such as MISMATCH or BUSY are answers, not errors:
 * verdict.h.
 */
#ifndef ONCE_ERR_H
#define ONCE_ERR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ONCE_API __attribute__((visibility("default")))
#define ONCE_MUST_CHECK __attribute__((warn_unused_result))
#else
#define ONCE_API
#define ONCE_MUST_CHECK
#endif

/* X(name, number, text). Numbers are part of the binary interface: append, never renumber. */
#define ONCE_ERRORS(X)                                                                             \
    X(OK, 0, "ok")                                                                                 \
    X(ERR_INVALID, -1, "an argument is not valid")                                                 \
    X(ERR_MEMORY, -2, "out of memory")                                                             \
    X(ERR_FULL, -3, "a size bound was reached")                                                    \
    X(ERR_DAMAGED, -4, "the bytes are damaged")                                                    \
    X(ERR_RANDOM, -5, "the system gave no random bytes")                                           \
    X(ERR_CLOCK, -6, "the system clock is outside the years 1970 to 9999")                         \
    X(ERR_CRYPTO, -7, "libcrypto failed")                                                          \
    X(ERR_KEY_EMPTY, -8, "the key is empty")                                                       \
    X(ERR_KEY_TOO_LONG, -9, "the key is too long")                                                 \
    X(ERR_KEY_CHARACTER, -10, "the key has a character that is not allowed")                       \
    X(ERR_KEY_ESCAPE, -11, "a backslash in the key may only stand before a quote or a backslash")  \
    X(ERR_KEY_UNTERMINATED, -12, "the key's closing quote is missing")                             \
    X(ERR_KEY_TRAILING, -13, "something follows the key")                                          \
    X(ERR_KEY_FUTURE, -14, "the key says that it was born in the future")                          \
    X(ERR_JSON, -15, "the JSON is malformed")                                                      \
    X(ERR_JSON_NUMBER, -16, "a JSON number would lose digits")                                     \
    X(ERR_JSON_DUPLICATE, -17, "a JSON object names the same member twice")                        \
    X(ERR_TYPE, -18, "the two states are of different types")                                      \
    X(ERR_OVERFLOW, -19, "a number would overflow")                                                \
    X(ERR_IO, -20, "the disk failed")                                                              \
    X(ERR_SPACE, -21, "the disk, or the store's bound on it, is full")                             \
    X(ERR_KEYS, -22, "the store holds as many keys as its bound allows")                           \
    X(ERR_LOCKED, -23, "another process owns the store")                                           \
    X(ERR_VERSION, -24, "the store was written in a format this version does not know")            \
    X(ERR_STOPPED, -25, "the store has stopped: a write failed; open it again")                    \
    X(ERR_NO_STORE, -26, "there is no store here")                                                 \
    X(ERR_TOO_LARGE, -27, "the record is larger than a segment of this store")                     \
    X(ERR_CLOSED, -28, "the store is being closed")                                                \
    X(ERR_UNSUPPORTED, -29, "this store cannot do that")                                           \
    X(ERR_PERMISSION, -30, "the system does not allow it")                                         \
    X(ERR_KEY_NEEDED, -31, "an effect that is not idempotent by itself needs a key")               \
    X(ERR_OBJECT_TYPE, -32, "the object is of another type")                                       \
    X(ERR_NO_OBJECT, -33, "there is no such object")                                               \
    X(ERR_DENIED, -34, "this user may not do that")                                                \
    X(ERR_RATE, -35, "this user has made too many calls; come back later")                         \
    X(ERR_LOADING, -36, "the store is still being opened")

enum once_err {
#define ONCE_ERR_ENUM(name, number, text) ONCE_##name = (number),
    ONCE_ERRORS(ONCE_ERR_ENUM)
#undef ONCE_ERR_ENUM
};

/* "the key is too long". Never NULL; the text is static. */
ONCE_API const char *once_err_text(int err);

/* "ERR_KEY_TOO_LONG". Never NULL; the text is static. */
ONCE_API const char *once_err_name(int err);

#ifdef __cplusplus
}
#endif
#endif
