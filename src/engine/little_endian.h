/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as the engine's files have them: little-endian, wherever they lie. On a machine that is
 * little-endian itself each is one unaligned load or store.
 */
#ifndef ONCE_ENGINE_LITTLE_ENDIAN_H
#define ONCE_ENGINE_LITTLE_ENDIAN_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void once__put_le32(uint8_t *at, uint32_t number)
{
    number = htole32(number);
    memcpy(at, &number, sizeof number);
}

static inline void once__put_le64(uint8_t *at, uint64_t number)
{
    number = htole64(number);
    memcpy(at, &number, sizeof number);
}

static inline uint32_t once__get_le32(const uint8_t *at)
{
    uint32_t number;

    memcpy(&number, at, sizeof number);
    return le32toh(number);
}

static inline uint64_t once__get_le64(const uint8_t *at)
{
    uint64_t number;

    memcpy(&number, at, sizeof number);
    return le64toh(number);
}

static inline bool once__all_zero(const uint8_t *bytes, size_t size)
{
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

#endif
