/* SPDX-License-Identifier: Apache-2.0
 *
 * Making keys, and the rules that every key keeps. The only file of the core that reads the clock
 * and the random source: a key is made before there is a request, so no decision depends on them
 * (K1, K5).
 *
 * Does not read the Idempotency-Key header: key_header.c does.
 */
#include "core/key_rules.h"

#include "base/assert.h"
#include "base/defect.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/uuid.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SEQUENCE_TEXT_SIZE = 21 }; /* ":18446744073709551615" */

_Static_assert(ONCE_UUID_TEXT_SIZE == (int)ONCE__UUID_TEXT_SIZE, "one size of UUID text");
_Static_assert(ONCE_DIGEST_TEXT_SIZE == 2 * ONCE__SHA256_SIZE, "one size of digest text");
_Static_assert(ONCE_DIGEST_TEXT_SIZE <= ONCE_KEY_SIZE_MAX, "a digest is a key");

const char *once__key_character_defect(uint8_t character)
{
    if (character < 0x20 || character == 0x7f)
        return "a control character may not stand in a key";
    if (character > 0x7f)
        return "a byte outside ASCII may not stand in a key";
    return NULL;
}

/* The leftmost defect wins, so that what is told can be pointed at. */
/* Without a branch a character, because every call asks this of its key. */
static bool all_allowed(struct once_bytes key)
{
    unsigned bad = 0;

    for (size_t i = 0; i < key.size; i++)
        bad |= (unsigned)(key.data[i] - 0x20) > 0x7e - 0x20;
    return bad == 0;
}

int once_key_check(struct once_bytes key, struct once_defect *ret_defect)
{
    if (key.size == 0)
        return once__defect(ONCE_ERR_KEY_EMPTY, 0, "a key has at least one character", ret_defect);
    if (!key.data)
        return once__defect(ONCE_ERR_INVALID, 0, "the key is a null pointer", ret_defect);
    if (key.size <= ONCE_KEY_SIZE_MAX && all_allowed(key))
        return ONCE_OK;
    for (size_t i = 0; i < key.size; i++) {
        const char *what = once__key_character_defect(key.data[i]);

        if (i == ONCE_KEY_SIZE_MAX)
            return once__defect(ONCE_ERR_KEY_TOO_LONG, i, "a key has at most 255 characters",
                                ret_defect);
        if (what)
            return once__defect(ONCE_ERR_KEY_CHARACTER, i, what, ret_defect);
    }
    return ONCE_OK;
}

int once_namespace_check(struct once_bytes ns, struct once_defect *ret_defect)
{
    if (ns.size == 0 || !ns.data)
        return once__defect(ONCE_ERR_INVALID, 0, "a namespace has at least one character",
                            ret_defect);
    for (size_t i = 0; i < ns.size; i++) {
        if (i == ONCE_NAMESPACE_SIZE_MAX)
            return once__defect(ONCE_ERR_INVALID, i, "a namespace has at most 64 characters",
                                ret_defect);
        if (ns.data[i] <= ' ' || ns.data[i] > '~')
            return once__defect(ONCE_ERR_INVALID, i,
                                "a namespace holds printable ASCII without spaces", ret_defect);
    }
    return ONCE_OK;
}

_Static_assert(ONCE_NAMESPACE_SIZE_MAX == 64, "the text above names the bound");
_Static_assert(ONCE_KEY_SIZE_MAX == 255, "the texts of ERR_KEY_TOO_LONG name the bound");

static void key_from_uuid(const struct once__uuid *uuid, struct once_key *ret_key)
{
    struct once_key key = {.size = ONCE_UUID_TEXT_SIZE};

    once__uuid_format(uuid, key.text);
    *ret_key = key;
}

int once_key_uuid4(struct once_key *ret_key)
{
    uint8_t random[ONCE__UUID_SIZE];
    struct once__uuid uuid;
    int err;

    if (!ret_key)
        return ONCE_ERR_INVALID;
    err = once__random_bytes(random, sizeof(random));
    if (err != ONCE_OK)
        return err;
    uuid = once__uuid4_of(random);
    key_from_uuid(&uuid, ret_key);
    return ONCE_OK;
}

static int wall_clock_ms(int64_t *ret_now_ms)
{
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return ONCE_ERR_CLOCK;
    if (now.tv_sec < 0 || now.tv_sec > ONCE_NOW_MS_MAX / 1000)
        return ONCE_ERR_CLOCK;
    *ret_now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    return ONCE_OK;
}

int once_key_uuid7(struct once_key *ret_key)
{
    static struct once__uuid7_clock process_clock;
    uint8_t random[ONCE__UUID7_RANDOM_SIZE];
    struct once__uuid uuid;
    int64_t now_ms;
    int err;

    if (!ret_key)
        return ONCE_ERR_INVALID;
    err = once__random_bytes(random, sizeof(random));
    if (err != ONCE_OK)
        return err;
    err = wall_clock_ms(&now_ms);
    if (err != ONCE_OK)
        return err;
    err = once__uuid7_next(&process_clock, now_ms, random, &uuid);
    if (err != ONCE_OK)
        return err;
    key_from_uuid(&uuid, ret_key);
    return ONCE_OK;
}

static void key_from_digest(const struct once__sha256_digest *digest, struct once_key *ret_key)
{
    static const char digits[] = "0123456789abcdef";
    struct once_key key = {.size = ONCE_DIGEST_TEXT_SIZE};

    for (size_t i = 0; i < ONCE__SHA256_SIZE; i++) {
        key.text[2 * i] = digits[digest->bytes[i] >> 4];
        key.text[2 * i + 1] = digits[digest->bytes[i] & 0x0f];
    }
    *ret_key = key;
}

int once_key_digest(const struct once_bytes *parts, size_t part_count, struct once_key *ret_key)
{
    struct once__sha256 hash = {0};
    struct once__sha256_digest digest;
    int err;

    if (!ret_key || !parts || part_count == 0)
        return ONCE_ERR_INVALID;
    for (size_t i = 0; i < part_count; i++) {
        if (!parts[i].data && parts[i].size > 0)
            return ONCE_ERR_INVALID;
    }
    err = once__sha256_init(&hash);
    for (size_t i = 0; i < part_count && err == ONCE_OK; i++)
        err = once__sha256_add_sized(&hash, parts[i]);
    if (err == ONCE_OK)
        err = once__sha256_finish(&hash, &digest);
    if (err == ONCE_OK)
        key_from_digest(&digest, ret_key);
    once__sha256_release(&hash);
    return err;
}

/* One pair, one key: the digits after the last colon are the sequence, whatever the client is
 * called. */
int once_key_sequence(struct once_bytes client, uint64_t sequence, struct once_key *ret_key)
{
    char suffix[SEQUENCE_TEXT_SIZE + 1];
    struct once_key key = {.size = 0};
    size_t suffix_size;
    int printed, err;

    if (!ret_key)
        return ONCE_ERR_INVALID;
    err = once_key_check(client, NULL);
    if (err != ONCE_OK)
        return err;
    printed = snprintf(suffix, sizeof(suffix), ":%" PRIu64, sequence);
    ONCE_ASSERT(printed > 1 && printed <= SEQUENCE_TEXT_SIZE);
    suffix_size = (size_t)printed;
    if (client.size > ONCE_KEY_SIZE_MAX - suffix_size)
        return ONCE_ERR_KEY_TOO_LONG;
    memcpy(key.text, client.data, client.size);
    memcpy(key.text + client.size, suffix, suffix_size);
    key.size = client.size + suffix_size;
    *ret_key = key;
    return ONCE_OK;
}

int once_key_business(struct once_bytes id, struct once_key *ret_key,
                      struct once_defect *ret_defect)
{
    struct once_key key = {.size = id.size};
    int err;

    if (!ret_key)
        return once__defect(ONCE_ERR_INVALID, 0, "there is no place for the key", ret_defect);
    err = once_key_check(id, ret_defect);
    if (err != ONCE_OK)
        return err;
    memcpy(key.text, id.data, id.size);
    *ret_key = key;
    return ONCE_OK;
}

once_ms once_key_birth_ms(struct once_bytes key)
{
    struct once__uuid uuid;

    /* The version digit first: every begin asks, and most keys have no birth. */
    if (!key.data || key.size != ONCE__UUID_TEXT_SIZE || key.data[14] != '7' ||
        once__uuid_parse(key, &uuid) != ONCE_OK)
        return ONCE_BIRTH_NONE;
    return once__uuid_birth_ms(&uuid);
}

_Static_assert(ONCE_BIRTH_NONE == -1, "base/uuid.h says -1 for the same thing");
