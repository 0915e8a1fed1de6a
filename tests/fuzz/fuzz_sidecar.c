/* SPDX-License-Identifier: Apache-2.0
 *
 * Foreign sidecars. If the first byte is odd the last 8 bytes become the check of the rest, so that
 * the rules behind the check are reached too. The bytes lie in a heap block of their own size.
 * Nothing may crash; what decodes names only records that can be there, and has one form only.
 */
#include <xxhash.h>

#include "../unit/segment_help.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_be_possible(const struct once__sidecar_header *header, const uint64_t *entries,
                             const uint64_t *kills)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < header->entry_count; i++) {
        struct once__sidecar_entry entry;
        uint64_t words[2];

        once__sidecar_entry_unpack(entries + 2 * i, &entry);
        HELP_MUST(entry.hash >= last);
        last = entry.hash;
        HELP_MUST(entry.offset >= ONCE__RECORD_OFFSET_MIN && entry.size >= ONCE__RECORD_SIZE_MIN);
        HELP_MUST((uint64_t)entry.offset + entry.size <= header->end);
        HELP_MUST(!(entry.open && entry.absent));
        once__sidecar_entry_pack(&entry, words);
        HELP_MUST(words[0] == entries[2 * i] && words[1] == entries[2 * i + 1]);
    }
    for (uint32_t i = 0; i < header->kill_count; i++) {
        struct once__sidecar_kill kill = once__sidecar_kill_unpack(header->sequence, kills[i]);

        HELP_MUST(kill.sequence >= 1 && kill.sequence < header->sequence);
        HELP_MUST(kill.offset >= ONCE__RECORD_OFFSET_MIN && kill.offset <= ONCE_SEGMENT_SIZE_MAX);
        HELP_MUST(once__sidecar_kill_pack(header->sequence, kill) == kills[i]);
    }
}

static void must_be_one_form(const struct once__sidecar_header *header, const uint64_t *entries,
                             const uint64_t *kills, struct once_bytes bytes)
{
    struct once_buf again;

    once_buf_init(&again, bytes.size);
    HELP_MUST(once__sidecar_encode(header, entries, kills, &again) == ONCE_OK);
    HELP_MUST(again.size == bytes.size && memcmp(again.data, bytes.data, bytes.size) == 0);
    once_buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct once__sidecar_header header;
    struct once_defect defect = {.offset = SIZE_MAX};
    const uint64_t *entries, *kills;
    struct once_bytes bytes;
    uint8_t *copy;
    int err;

    if (size < 1)
        return 0;
    copy = malloc(size > 1 ? size - 1 : 1);
    HELP_MUST(copy);
    memcpy(copy, data + 1, size - 1);
    bytes = (struct once_bytes){.data = copy, .size = size - 1};
    if (data[0] % 2 && bytes.size >= 8) {
        uint64_t check = XXH3_64bits(copy, bytes.size - 8);

        for (size_t i = 0; i < 8; i++)
            copy[bytes.size - 8 + i] = (uint8_t)(check >> 8 * i);
    }
    err = once__sidecar_decode(bytes, &header, &entries, &kills, &defect);
    if (err == ONCE_OK) {
        must_be_possible(&header, entries, kills);
        must_be_one_form(&header, entries, kills, bytes);
    } else {
        HELP_MUST(err == ONCE_ERR_DAMAGED || err == ONCE_ERR_VERSION);
        HELP_MUST(defect.what && defect.offset <= bytes.size);
    }
    free(copy);
    return 0;
}
