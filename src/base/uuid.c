/* SPDX-License-Identifier: Apache-2.0
 *
 * UUIDs (RFC 9562): text, version, birth time, and the bits of versions 4 and 7. uuid.h has the
 * byte table. Reads neither clock nor random source: core/key.c does.
 */
#include "base/uuid.h"

#include "base/assert.h"

#include <stdatomic.h>
#include <string.h>

#include <once/limits.h>

/* Where the hyphens stand in the text. */
static bool is_hyphen_place(size_t index)
{
    return index == 8 || index == 13 || index == 18 || index == 23;
}

static int hex_value(uint8_t character)
{
    if (character >= '0' && character <= '9')
        return character - '0';
    if (character >= 'a' && character <= 'f')
        return character - 'a' + 10;
    if (character >= 'A' && character <= 'F')
        return character - 'A' + 10;
    return -1;
}

void once__uuid_format(const struct once__uuid *uuid, char ret_text[ONCE__UUID_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    size_t nibble = 0;

    for (size_t i = 0; i < ONCE__UUID_TEXT_SIZE; i++) {
        if (is_hyphen_place(i)) {
            ret_text[i] = '-';
            continue;
        }
        ret_text[i] = digits[(uuid->bytes[nibble / 2] >> (nibble % 2 == 0 ? 4 : 0)) & 0x0f];
        nibble++;
    }
    ONCE_ASSERT(nibble == (size_t)ONCE__UUID_SIZE * 2);
}

int once__uuid_parse(struct once_bytes text, struct once__uuid *ret_uuid)
{
    struct once__uuid uuid = {{0}};
    size_t nibble = 0;

    if (text.size != ONCE__UUID_TEXT_SIZE)
        return ONCE_ERR_INVALID;
    for (size_t i = 0; i < ONCE__UUID_TEXT_SIZE; i++) {
        int value = hex_value(text.data[i]);

        if (is_hyphen_place(i)) {
            if (text.data[i] != '-')
                return ONCE_ERR_INVALID;
            continue;
        }
        if (value < 0)
            return ONCE_ERR_INVALID;
        uuid.bytes[nibble / 2] = (uint8_t)(uuid.bytes[nibble / 2] << 4 | value);
        nibble++;
    }
    *ret_uuid = uuid;
    return ONCE_OK;
}

bool once__uuid_is_rfc(const struct once__uuid *uuid)
{
    return (uuid->bytes[8] & 0xc0) == 0x80;
}

unsigned once__uuid_version(const struct once__uuid *uuid)
{
    return uuid->bytes[6] >> 4;
}

int64_t once__uuid_birth_ms(const struct once__uuid *uuid)
{
    int64_t birth_ms = 0;

    if (!once__uuid_is_rfc(uuid) || once__uuid_version(uuid) != 7)
        return -1;
    for (size_t i = 0; i < 6; i++)
        birth_ms = birth_ms << 8 | uuid->bytes[i];
    return birth_ms;
}

static void set_version(struct once__uuid *uuid, unsigned version)
{
    uuid->bytes[6] = (uint8_t)(version << 4 | (uuid->bytes[6] & 0x0f));
    uuid->bytes[8] = (uint8_t)(0x80 | (uuid->bytes[8] & 0x3f));
}

struct once__uuid once__uuid4_of(const uint8_t random[ONCE__UUID_SIZE])
{
    struct once__uuid uuid;

    memcpy(uuid.bytes, random, ONCE__UUID_SIZE);
    set_version(&uuid, 4);
    return uuid;
}

/* Moves the clock on and gives its new value. A new millisecond begins at a random count, which
 * makes two processes meet less often, in the lower half, which leaves room for 2^15 more in the
 * same millisecond. */
static int clock_tick(struct once__uuid7_clock *clock, uint64_t now_ms, uint64_t seed,
                      uint64_t *ret_value)
{
    uint64_t last = atomic_load(&clock->last);
    uint64_t next;

    ONCE_ASSERT(seed < 1U << (ONCE__UUID7_COUNTER_BITS - 1));
    do {
        if (now_ms > last >> ONCE__UUID7_COUNTER_BITS)
            next = now_ms << ONCE__UUID7_COUNTER_BITS | seed;
        else
            next = last + 1;
        if (next >> ONCE__UUID7_COUNTER_BITS > ONCE_NOW_MS_MAX)
            return ONCE_ERR_CLOCK;
    } while (!atomic_compare_exchange_weak(&clock->last, &last, next));
    *ret_value = next;
    return ONCE_OK;
}

_Static_assert(ONCE_NOW_MS_MAX < 1LL << 48, "every time of 1970 to 9999 has room in 48 bits");

int once__uuid7_next(struct once__uuid7_clock *clock, int64_t now_ms,
                     const uint8_t random[ONCE__UUID7_RANDOM_SIZE], struct once__uuid *ret_uuid)
{
    uint64_t seed = (uint64_t)(random[0] & 0x7f) << 8 | random[1];
    struct once__uuid uuid;
    uint64_t value;
    int err;

    if (now_ms < 0 || now_ms > ONCE_NOW_MS_MAX)
        return ONCE_ERR_CLOCK;
    err = clock_tick(clock, (uint64_t)now_ms, seed, &value);
    if (err != ONCE_OK)
        return err;

    for (size_t i = 0; i < 6; i++)
        uuid.bytes[i] = (uint8_t)(value >> (56 - 8 * i));
    uuid.bytes[6] = (uint8_t)(value >> 12 & 0x0f);
    uuid.bytes[7] = (uint8_t)(value >> 4);
    uuid.bytes[8] = (uint8_t)((value & 0x0f) << 2 | (random[2] & 0x03));
    memcpy(uuid.bytes + 9, random + 3, ONCE__UUID7_RANDOM_SIZE - 3);
    set_version(&uuid, 7);
    *ret_uuid = uuid;
    return ONCE_OK;
}
