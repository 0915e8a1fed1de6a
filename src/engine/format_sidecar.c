/* SPDX-License-Identifier: Apache-2.0
 *
 * The sidecar of a sealed segment: what a restart needs of it without reading it.
 *
 *   offset size
 *        0    8  magic
 *        8    4  version
 *       12    4  end: offset behind the segment's last batch
 *       16   16  store id
 *       32    8  sequence of the segment
 *       40    8  chain: check of the segment's last batch
 *       48    4  count of entries
 *       52    4  count of kills
 *       56    4  count of records with edits of objects
 *       60    4  0
 *       64  16n  entries, ascending by their first word
 *           8m   kills
 *            8   check: XXH3-64 of everything before it
 *
 *   entry  first word   bits 63-20 hash, 19-0 offset/8 without its low 8 bits
 *          second word  bits 63-56 those 8 bits, 55-24 expires, 23-2 size/8, 1 open, 0 absent
 *   kill   bits 63-28 how many segments before this one, 27-0 offset/8
 *
 * A sidecar is never needed: one that is missing, or bad, or of another segment is made again from
 * the log. So a reader refuses anything that is not exact.
 */
#include "engine/format.h"

#include <xxhash.h>

#include "base/assert.h"
#include "base/defect.h"
#include "engine/little_endian.h"

enum {
    MAGIC_SIZE = 8,
    CHECK_SIZE = 8,
    HASH_SHIFT = 20,
    OFFSET_LOW_BITS = 8,
    EXPIRES_SHIFT = 24,
    SIZE_SHIFT = 2,
    SIZE_BITS = 22,
    OPEN_BIT = 2,
    ABSENT_BIT = 1
};

static const uint8_t magic[MAGIC_SIZE] = {'O', 'n', 'c', 'e', 's', 'i', 'd', 'e'};

#define DISTANCE_MAX ((1ULL << (64 - ONCE__OFFSET_BITS)) - 1)

_Static_assert(ONCE__OFFSET_BITS - OFFSET_LOW_BITS == HASH_SHIFT, "hash and offset fill a word");
_Static_assert(SIZE_SHIFT + SIZE_BITS == EXPIRES_SHIFT, "a size is below the expiry");

void once__sidecar_entry_pack(const struct once__sidecar_entry *entry, uint64_t ret_words[2])
{
    uint64_t place = entry->offset / ONCE__RECORD_ALIGN;
    uint64_t size = entry->size / ONCE__RECORD_ALIGN;

    ONCE_ASSERT(entry->offset % ONCE__RECORD_ALIGN == 0 && entry->size % ONCE__RECORD_ALIGN == 0);
    ONCE_ASSERT(place < 1ULL << ONCE__OFFSET_BITS && size < 1ULL << SIZE_BITS);
    ret_words[0] = htole64(entry->hash >> HASH_SHIFT << HASH_SHIFT | place >> OFFSET_LOW_BITS);
    ret_words[1] = htole64(place << (64 - OFFSET_LOW_BITS) |
                           (uint64_t)entry->expires_s << EXPIRES_SHIFT | size << SIZE_SHIFT |
                           (entry->open ? OPEN_BIT : 0) | (entry->absent ? ABSENT_BIT : 0));
}

void once__sidecar_entry_unpack(const uint64_t words[2], struct once__sidecar_entry *ret_entry)
{
    uint64_t first = le64toh(words[0]), second = le64toh(words[1]);
    uint64_t place = (first & ((1ULL << HASH_SHIFT) - 1)) << OFFSET_LOW_BITS |
                     second >> (64 - OFFSET_LOW_BITS);

    *ret_entry = (struct once__sidecar_entry){
        .hash = first >> HASH_SHIFT << HASH_SHIFT,
        .offset = (uint32_t)(place * ONCE__RECORD_ALIGN),
        .size = (uint32_t)(second >> SIZE_SHIFT & ((1ULL << SIZE_BITS) - 1)) * ONCE__RECORD_ALIGN,
        .expires_s = (uint32_t)(second >> EXPIRES_SHIFT),
        .open = (second & OPEN_BIT) != 0,
        .absent = (second & ABSENT_BIT) != 0,
    };
}

uint64_t once__sidecar_order(uint64_t word)
{
    return le64toh(word);
}

uint64_t once__sidecar_kill_pack(uint64_t own_sequence, struct once__sidecar_kill kill)
{
    uint64_t distance = own_sequence - kill.sequence;

    ONCE_ASSERT(kill.sequence >= 1 && kill.sequence < own_sequence);
    ONCE_ASSERT(distance <= DISTANCE_MAX);
    ONCE_ASSERT(kill.offset % ONCE__RECORD_ALIGN == 0);
    return htole64(distance << ONCE__OFFSET_BITS | kill.offset / ONCE__RECORD_ALIGN);
}

struct once__sidecar_kill once__sidecar_kill_unpack(uint64_t own_sequence, uint64_t word)
{
    uint64_t number = le64toh(word);

    return (struct once__sidecar_kill){
        .sequence = own_sequence - (number >> ONCE__OFFSET_BITS),
        .offset = (uint32_t)(number & ((1ULL << ONCE__OFFSET_BITS) - 1)) * ONCE__RECORD_ALIGN,
    };
}

static size_t file_size(size_t entry_count, size_t kill_count)
{
    return ONCE__SIDECAR_HEADER_SIZE + entry_count * ONCE__SIDECAR_ENTRY_SIZE +
           kill_count * ONCE__SIDECAR_KILL_SIZE + CHECK_SIZE;
}

int once__sidecar_encode(const struct once__sidecar_header *header, const uint64_t *entries,
                         const uint64_t *kills, struct once_buf *out)
{
    size_t size = file_size(header->entry_count, header->kill_count);
    size_t entries_size = (size_t)header->entry_count * ONCE__SIDECAR_ENTRY_SIZE;
    size_t kills_size = (size_t)header->kill_count * ONCE__SIDECAR_KILL_SIZE;
    uint8_t *b;
    int err;

    for (size_t i = 1; i < header->entry_count; i++)
        ONCE_ASSERT(once__sidecar_order(entries[2 * i - 2]) <= once__sidecar_order(entries[2 * i]));
    err = once_buf_reserve(out, size);
    if (err != ONCE_OK)
        return err;
    b = out->data + out->size;
    memset(b, 0, ONCE__SIDECAR_HEADER_SIZE);
    memcpy(b, magic, MAGIC_SIZE);
    once__put_le32(b + 8, ONCE__FORMAT_VERSION);
    once__put_le32(b + 12, header->end);
    memcpy(b + 16, header->store_id, ONCE__STORE_ID_SIZE);
    once__put_le64(b + 32, header->sequence);
    once__put_le64(b + 40, header->chain);
    once__put_le32(b + 48, header->entry_count);
    once__put_le32(b + 52, header->kill_count);
    once__put_le32(b + 56, header->change_count);
    if (entries_size > 0)
        memcpy(b + ONCE__SIDECAR_HEADER_SIZE, entries, entries_size);
    if (kills_size > 0)
        memcpy(b + ONCE__SIDECAR_HEADER_SIZE + entries_size, kills, kills_size);
    once__put_le64(b + size - CHECK_SIZE, XXH3_64bits(b, size - CHECK_SIZE));
    out->size += size;
    return ONCE_OK;
}

static bool entry_ok(const struct once__sidecar_entry *entry, uint32_t end)
{
    if (entry->offset < ONCE__RECORD_OFFSET_MIN || entry->offset >= end)
        return false;
    if (entry->size < ONCE__RECORD_SIZE_MIN || entry->size > end - entry->offset)
        return false;
    return !entry->open || (!entry->absent && entry->expires_s == 0);
}

static int check_entries(const struct once__sidecar_header *header, const uint64_t *entries,
                         struct once_defect *ret_defect)
{
    struct once__sidecar_entry entry;
    uint64_t last = 0;

    for (size_t i = 0; i < header->entry_count; i++) {
        uint64_t order = once__sidecar_order(entries[2 * i]);

        once__sidecar_entry_unpack(entries + 2 * i, &entry);
        if (order < last || !entry_ok(&entry, header->end))
            return once__defect(ONCE_ERR_DAMAGED,
                                ONCE__SIDECAR_HEADER_SIZE + i * ONCE__SIDECAR_ENTRY_SIZE,
                                "an entry of the sidecar cannot be", ret_defect);
        last = order;
    }
    return ONCE_OK;
}

static int check_kills(const struct once__sidecar_header *header, const uint64_t *kills,
                       struct once_defect *ret_defect)
{
    for (size_t i = 0; i < header->kill_count; i++) {
        uint64_t distance = le64toh(kills[i]) >> ONCE__OFFSET_BITS;
        struct once__sidecar_kill kill = once__sidecar_kill_unpack(header->sequence, kills[i]);

        if (distance == 0 || distance >= header->sequence ||
            kill.offset < ONCE__RECORD_OFFSET_MIN || kill.offset > ONCE_SEGMENT_SIZE_MAX)
            return once__defect(ONCE_ERR_DAMAGED, file_size(header->entry_count, i) - CHECK_SIZE,
                                "the sidecar replaces a record where none can be", ret_defect);
    }
    return ONCE_OK;
}

/* The header of a file whose check is right. */
static int decode_header(const uint8_t *b, struct once__sidecar_header *ret_header,
                         struct once_defect *ret_defect)
{
    struct once__sidecar_header header;

    header.end = once__get_le32(b + 12);
    memcpy(header.store_id, b + 16, ONCE__STORE_ID_SIZE);
    header.sequence = once__get_le64(b + 32);
    header.chain = once__get_le64(b + 40);
    header.entry_count = once__get_le32(b + 48);
    header.kill_count = once__get_le32(b + 52);
    header.change_count = once__get_le32(b + 56);
    if (header.end < ONCE__SEGMENT_HEADER_SIZE || header.end > ONCE_SEGMENT_SIZE_MAX ||
        header.end % ONCE_BLOCK_SIZE != 0)
        return once__defect(ONCE_ERR_DAMAGED, 12, "the sidecar's segment cannot end there",
                            ret_defect);
    if (header.sequence < 1)
        return once__defect(ONCE_ERR_DAMAGED, 32, "the sidecar is of no segment", ret_defect);
    if (!once__all_zero(b + 60, 4))
        return once__defect(ONCE_ERR_DAMAGED, 60, "the sidecar has unknown fields", ret_defect);
    *ret_header = header;
    return ONCE_OK;
}

int once__sidecar_decode(struct once_bytes bytes, struct once__sidecar_header *ret_header,
                         const uint64_t **ret_entries, const uint64_t **ret_kills,
                         struct once_defect *ret_defect)
{
    struct once__sidecar_header header;
    const uint64_t *entries, *kills;
    const uint8_t *b = bytes.data;
    int err;

    ONCE_ASSERT((uintptr_t)b % sizeof *entries == 0);
    if (bytes.size < file_size(0, 0) || bytes.size % ONCE__SIDECAR_KILL_SIZE != 0)
        return once__defect(ONCE_ERR_DAMAGED, bytes.size, "the sidecar is cut off", ret_defect);
    if (memcmp(b, magic, MAGIC_SIZE) != 0)
        return once__defect(ONCE_ERR_DAMAGED, 0, "this is not a sidecar", ret_defect);
    if (XXH3_64bits(b, bytes.size - CHECK_SIZE) != once__get_le64(b + bytes.size - CHECK_SIZE))
        return once__defect(ONCE_ERR_DAMAGED, bytes.size - CHECK_SIZE,
                            "the sidecar's check is wrong", ret_defect);
    if (once__get_le32(b + 8) != ONCE__FORMAT_VERSION)
        return once__defect(ONCE_ERR_VERSION, 8, "the sidecar has another format version",
                            ret_defect);
    err = decode_header(b, &header, ret_defect);
    if (err != ONCE_OK)
        return err;
    if (bytes.size != file_size(header.entry_count, header.kill_count))
        return once__defect(ONCE_ERR_DAMAGED, 48, "the sidecar's counts do not fit its size",
                            ret_defect);
    entries = (const uint64_t *)(const void *)(b + ONCE__SIDECAR_HEADER_SIZE);
    kills = entries + 2 * (size_t)header.entry_count;
    err = check_entries(&header, entries, ret_defect);
    if (err == ONCE_OK)
        err = check_kills(&header, kills, ret_defect);
    if (err != ONCE_OK)
        return err;
    *ret_header = header;
    *ret_entries = entries;
    *ret_kills = kills;
    return ONCE_OK;
}
