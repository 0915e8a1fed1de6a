/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the value of an Idempotency-Key header. What is accepted is a key by the rules, and
 * the same key when it is quoted and read again; what is refused points inside the value.
 */
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#include <once/key.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Quotes a key as RFC 9651 does. */
static size_t quote(const struct once_key *key, uint8_t ret_header[2 * ONCE_KEY_SIZE_MAX + 2])
{
    size_t size = 0;

    ret_header[size++] = '"';
    for (size_t i = 0; i < key->size; i++) {
        if (key->text[i] == '"' || key->text[i] == '\\')
            ret_header[size++] = '\\';
        ret_header[size++] = (uint8_t)key->text[i];
    }
    ret_header[size++] = '"';
    return size;
}

static void check_accepted(const struct once_key *key)
{
    struct once_bytes bytes = {(const uint8_t *)key->text, key->size};
    uint8_t header[2 * ONCE_KEY_SIZE_MAX + 2];
    struct once_key again;
    size_t header_size = quote(key, header);

    ONCE_ASSERT(key->size <= ONCE_KEY_SIZE_MAX);
    ONCE_ASSERT(strlen(key->text) == key->size);
    ONCE_ASSERT(once_key_check(bytes, NULL) == ONCE_OK);
    ONCE_ASSERT(once_key_parse_header((struct once_bytes){header, header_size}, &again, NULL) ==
                ONCE_OK);
    ONCE_ASSERT(again.size == key->size);
    ONCE_ASSERT(memcmp(again.text, key->text, key->size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *block = malloc(size > 0 ? size : 1); /* exact, so that a read beyond it is seen */
    struct once_defect defect = {.offset = SIZE_MAX, .what = NULL};
    struct once_key key = {.size = SIZE_MAX};
    int err;

    ONCE_ASSERT(block);
    if (size > 0)
        memcpy(block, data, size);
    err = once_key_parse_header((struct once_bytes){block, size}, &key, &defect);
    if (err == ONCE_OK) {
        check_accepted(&key);
        ONCE_ASSERT(!defect.what);
    } else {
        ONCE_ASSERT(err <= ONCE_ERR_KEY_EMPTY && err >= ONCE_ERR_KEY_TRAILING);
        ONCE_ASSERT(defect.offset <= size && defect.what);
        ONCE_ASSERT(key.size == SIZE_MAX);
        ONCE_ASSERT(once_key_parse_header((struct once_bytes){block, size}, &key, NULL) == err);
    }
    free(block);
    return 0;
}
