/* SPDX-License-Identifier: Apache-2.0
 *
 * UUIDs (RFC 9562). Pure: random bytes and time come in as arguments.
 *
 * The 16 bytes of a version 7 as Once makes them:
 *
 *     byte   0..5   unix time in ms, most significant byte first
 *     byte   6      0111 and bits 15..12 of the counter
 *     byte   7      bits 11..4 of the counter
 *     byte   8      10, bits 3..0 of the counter, 2 random bits
 *     byte   9..15  random
 */
#ifndef ONCE_BASE_UUID_H
#define ONCE_BASE_UUID_H

#include <stdbool.h>

#include <once/bytes.h>

enum {
    ONCE__UUID_SIZE = 16,
    ONCE__UUID_TEXT_SIZE = 36,
    ONCE__UUID7_COUNTER_BITS = 16,
    ONCE__UUID7_RANDOM_SIZE = 10
};

struct once__uuid {
    uint8_t bytes[ONCE__UUID_SIZE];
};

/* The time and the counter of the last version 7 that was made, as one number: time in ms times
 * 2^16, plus the counter. All zero is a clock that never ticked. One atomic word instead of a lock,
 * because a fork() may copy a lock while another thread holds it. */
struct once__uuid7_clock {
    _Atomic uint64_t last;
};

/* Lower case, 36 characters, no NUL. */
void once__uuid_format(const struct once__uuid *uuid, char ret_text[ONCE__UUID_TEXT_SIZE]);

/* Exactly the 36 characters, either case. ONCE_ERR_INVALID. Any version, any variant. */
ONCE_MUST_CHECK int once__uuid_parse(struct once_bytes text, struct once__uuid *ret_uuid);

/* The layout of RFC 9562; in any other the version means nothing. */
bool once__uuid_is_rfc(const struct once__uuid *uuid);

/* 0 to 15. */
unsigned once__uuid_version(const struct once__uuid *uuid);

/* The time inside a version 7 of the RFC's layout; -1 for every other UUID. */
int64_t once__uuid_birth_ms(const struct once__uuid *uuid);

/* A version 4 out of 16 random bytes. */
struct once__uuid once__uuid4_of(const uint8_t random[ONCE__UUID_SIZE]);

/* The next version 7: larger than every one made from this clock before, whatever now_ms does.
 * While now_ms stands still or goes back the counter goes on, and an overflowing counter carries
 * into the time. ONCE_ERR_CLOCK, outside of 1970 to 9999; the clock is then as before. Safe from
 * many threads. */
ONCE_MUST_CHECK int once__uuid7_next(struct once__uuid7_clock *clock, int64_t now_ms,
                                     const uint8_t random[ONCE__UUID7_RANDOM_SIZE],
                                     struct once__uuid *ret_uuid);

#endif
