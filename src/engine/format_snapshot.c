/* SPDX-License-Identifier: Apache-2.0
 *
 * The snapshot of all objects, as a file: a header, chunks of edits, and an end.
 *
 *   header                                   chunk
 *   offset size                              offset size
 *        0    8  magic                            0    4  size of what follows the chunk's head
 *        8    4  version                          4    4  1 for the end, else 0
 *       12    4  flags: 1, repaired               8    8  check, XXH3-64 seeded with the header's
 *       16   16  store id                                 check and the chunk's number
 *       32    8  from                            16       edits, one after the other
 *       40    8  change                    end
 *       48    8  created, ms                      0    8  count of objects written
 *       56    8  check: XXH3-64 of the            8    8  the last change that may be in it
 *                56 bytes before                 16    8  count of chunks before the end
 *
 * What an edit is, is object/edit.c's.
 */
#include "engine/format.h"

#include <xxhash.h>

#include "base/assert.h"
#include "base/defect.h"
#include "engine/little_endian.h"

enum { MAGIC_SIZE = 8, HEADER_CHECK = 56 };

static const uint8_t magic[MAGIC_SIZE] = {'O', 'n', 'c', 'e', 'o', 'b', 'j', 's'};

void once__snapshot_header_encode(const struct once__snapshot_header *header,
                                  uint8_t ret_bytes[ONCE__SNAPSHOT_HEADER_SIZE])
{
    uint8_t *b = ret_bytes;

    ONCE_ASSERT(header->from >= 1);
    memcpy(b, magic, MAGIC_SIZE);
    once__put_le32(b + 8, ONCE__FORMAT_VERSION);
    once__put_le32(b + 12, header->flags);
    memcpy(b + 16, header->store_id, ONCE__STORE_ID_SIZE);
    once__put_le64(b + 32, header->from);
    once__put_le64(b + 40, header->change);
    once__put_le64(b + 48, (uint64_t)header->created_ms);
    once__put_le64(b + HEADER_CHECK, XXH3_64bits(b, HEADER_CHECK));
}

int once__snapshot_header_decode(struct once_bytes bytes, struct once__snapshot_header *ret_header,
                                 struct once_defect *ret_defect)
{
    const uint8_t *b = bytes.data;
    struct once__snapshot_header header;

    if (bytes.size < ONCE__SNAPSHOT_HEADER_SIZE)
        return once__defect(ONCE_ERR_DAMAGED, bytes.size, "the snapshot is cut off", ret_defect);
    if (memcmp(b, magic, MAGIC_SIZE) != 0)
        return once__defect(ONCE_ERR_DAMAGED, 0, "this is not a snapshot of objects", ret_defect);
    if (XXH3_64bits(b, HEADER_CHECK) != once__get_le64(b + HEADER_CHECK))
        return once__defect(ONCE_ERR_DAMAGED, HEADER_CHECK, "the snapshot's check is wrong",
                            ret_defect);
    if (once__get_le32(b + 8) != ONCE__FORMAT_VERSION)
        return once__defect(ONCE_ERR_VERSION, 8, "the snapshot has another format version",
                            ret_defect);
    memcpy(header.store_id, b + 16, ONCE__STORE_ID_SIZE);
    header.from = once__get_le64(b + 32);
    header.change = once__get_le64(b + 40);
    header.created_ms = (once_ms)once__get_le64(b + 48);
    header.flags = once__get_le32(b + 12);
    if (header.flags > ONCE__SNAPSHOT_REPAIRED)
        return once__defect(ONCE_ERR_DAMAGED, 12, "the snapshot has unknown flags", ret_defect);
    if (header.from < 1)
        return once__defect(ONCE_ERR_DAMAGED, 32, "the snapshot was begun in no segment",
                            ret_defect);
    if (header.created_ms < 0 || header.created_ms > ONCE_NOW_MS_MAX)
        return once__defect(ONCE_ERR_DAMAGED, 48, "the snapshot's time is out of range",
                            ret_defect);
    *ret_header = header;
    return ONCE_OK;
}

static uint64_t chunk_check(const struct once__snapshot_header *header, uint64_t number,
                            bool is_end, struct once_bytes bytes)
{
    uint8_t encoded[ONCE__SNAPSHOT_HEADER_SIZE];
    uint64_t seed;

    once__snapshot_header_encode(header, encoded);
    seed = once__get_le64(encoded + HEADER_CHECK) + 2 * number + (is_end ? 1 : 0);
    return XXH3_64bits_withSeed(bytes.data, bytes.size, seed);
}

void once__snapshot_chunk_encode(const struct once__snapshot_header *header, uint64_t number,
                                 bool is_end, struct once_bytes bytes,
                                 uint8_t ret_bytes[ONCE__SNAPSHOT_CHUNK_HEADER_SIZE])
{
    ONCE_ASSERT(bytes.size > 0 && bytes.size <= ONCE__SNAPSHOT_CHUNK_SIZE_MAX);
    once__put_le32(ret_bytes, (uint32_t)bytes.size);
    once__put_le32(ret_bytes + 4, is_end ? 1 : 0);
    once__put_le64(ret_bytes + 8, chunk_check(header, number, is_end, bytes));
}

int once__snapshot_chunk_decode(const uint8_t bytes[ONCE__SNAPSHOT_CHUNK_HEADER_SIZE],
                                struct once__snapshot_chunk *ret_chunk,
                                struct once_defect *ret_defect)
{
    uint32_t size = once__get_le32(bytes), end = once__get_le32(bytes + 4);

    if (size == 0 || size > ONCE__SNAPSHOT_CHUNK_SIZE_MAX || end > 1 ||
        (end == 1 && size != ONCE__SNAPSHOT_END_SIZE))
        return once__defect(ONCE_ERR_DAMAGED, 0, "no chunk of a snapshot begins here", ret_defect);
    ret_chunk->size = size;
    ret_chunk->is_end = end == 1;
    ret_chunk->check = once__get_le64(bytes + 8);
    return ONCE_OK;
}

bool once__snapshot_chunk_good(const struct once__snapshot_header *header, uint64_t number,
                               const struct once__snapshot_chunk *chunk, struct once_bytes bytes)
{
    return bytes.size == chunk->size &&
           chunk_check(header, number, chunk->is_end, bytes) == chunk->check;
}

void once__snapshot_end_encode(const struct once__snapshot_end *end,
                               uint8_t ret_bytes[ONCE__SNAPSHOT_END_SIZE])
{
    once__put_le64(ret_bytes, end->object_count);
    once__put_le64(ret_bytes + 8, end->change);
    once__put_le64(ret_bytes + 16, end->chunk_count);
}

void once__snapshot_end_decode(const uint8_t bytes[ONCE__SNAPSHOT_END_SIZE],
                               struct once__snapshot_end *ret_end)
{
    ret_end->object_count = once__get_le64(bytes);
    ret_end->change = once__get_le64(bytes + 8);
    ret_end->chunk_count = once__get_le64(bytes + 16);
}
