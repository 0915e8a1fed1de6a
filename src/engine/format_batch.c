/* SPDX-License-Identifier: Apache-2.0
 *
 * The store file, the headers of segments and batches, and the names of files.
 *
 *   store file              segment header            batch header
 *   offset size             offset size               offset size
 *        0    8  magic           0    8  magic             0    4  magic
 *        8    4  version         8    4  version           4    4  size
 *       12    4  segment size   12    4  segment size      8    4  count
 *       16   16  id             16   16  store id         12    4  flags
 *       32    8  created, ms    32    8  sequence         16    8  sequence
 *       40   24  0              40    8  first batch      24    8  number
 *       64  192  secret         48    8  chain            32    8  durable
 *      256  248  0              56    8  created, ms      40    8  chain
 *      504    8  check          64    8  salt             48    8  last fence
 *                               72    4  previous end     56    8  oldest
 *                               76    4  0                64    8  now, ms
 *                               80    8  life             72    8  records' checks, folded
 *                               88  416  0                80    8  next chain
 *                              504    8  check            88    8  life
 *                              512 3584  0, never read    96    8  check
 *
 * The first two fit one sector, so a power cut leaves the old or the new one. Checks are XXH3-64 of
 * what is before them; that of a batch header is seeded with its segment's salt.
 */
#include "engine/format.h"

#include <xxhash.h>

#include "base/assert.h"
#include "base/defect.h"
#include "engine/little_endian.h"
#include "engine/mutant.h"

enum { MAGIC_SIZE = 8, SECTOR_SIZE = 512, SECTOR_CHECK = 504, BATCH_CHECK = 96 };

static const uint8_t store_magic[MAGIC_SIZE] = {'O', 'n', 'c', 'e', 's', 't', 'o', 'r'};
static const uint8_t segment_magic[MAGIC_SIZE] = {'O', 'n', 'c', 'e', 's', 'e', 'g', 'm'};
#define BATCH_MAGIC 0x7461424FU /* "OBat" */

_Static_assert((int)ONCE__STORE_FILE_SIZE == SECTOR_SIZE, "the store file is one sector");
_Static_assert(ONCE__BATCH_HEADER_SIZE == BATCH_CHECK + 8, "the check is the last field");
_Static_assert((int)ONCE__SEGMENT_HEADER_SIZE >= SECTOR_SIZE, "a segment header fills a sector");

/* Signs a sector whose fields are there. */
static void sector_seal(uint8_t *sector)
{
    once__put_le64(sector + SECTOR_CHECK, XXH3_64bits(sector, SECTOR_CHECK));
}

static bool sector_sealed(const uint8_t *sector)
{
    return once__get_le64(sector + SECTOR_CHECK) == XXH3_64bits(sector, SECTOR_CHECK);
}

/* Is this sector what it says once its magic is put right? Then the magic alone was hit. */
static bool only_magic_is_wrong(const uint8_t *sector, const uint8_t magic[MAGIC_SIZE])
{
    uint8_t copy[SECTOR_SIZE];

    memcpy(copy, sector, SECTOR_SIZE);
    memcpy(copy, magic, MAGIC_SIZE);
    return sector_sealed(copy);
}

/* ---- The store file -------------------------------------------------------------------------- */

void once__store_file_encode(const struct once__store_file *file,
                             uint8_t ret_bytes[ONCE__STORE_FILE_SIZE])
{
    uint8_t *b = ret_bytes;

    ONCE_ASSERT(once__segment_size_ok(file->segment_size));
    ONCE_ASSERT(file->created_ms >= 0 && file->created_ms <= ONCE_NOW_MS_MAX);
    memset(b, 0, ONCE__STORE_FILE_SIZE);
    memcpy(b, store_magic, MAGIC_SIZE);
    once__put_le32(b + 8, ONCE__FORMAT_VERSION);
    once__put_le32(b + 12, file->segment_size);
    memcpy(b + 16, file->id, ONCE__STORE_ID_SIZE);
    once__put_le64(b + 32, (uint64_t)file->created_ms);
    memcpy(b + 64, file->secret, ONCE__SECRET_SIZE);
    sector_seal(b);
}

int once__store_file_decode(struct once_bytes bytes, struct once__store_file *ret_file,
                            struct once_defect *ret_defect)
{
    struct once__store_file file;
    const uint8_t *b = bytes.data;

    if (bytes.size != ONCE__STORE_FILE_SIZE)
        return once__defect(ONCE_ERR_DAMAGED,
                            bytes.size < SECTOR_SIZE ? bytes.size : (size_t)SECTOR_SIZE,
                            "the store file does not have 512 bytes", ret_defect);
    if (memcmp(b, store_magic, MAGIC_SIZE) != 0)
        return once__defect(ONCE_ERR_DAMAGED, 0, "the store file does not begin like one",
                            ret_defect);
    if (!sector_sealed(b))
        return once__defect(ONCE_ERR_DAMAGED, SECTOR_CHECK, "the store file's check is wrong",
                            ret_defect);
    if (once__get_le32(b + 8) != ONCE__FORMAT_VERSION)
        return once__defect(ONCE_ERR_VERSION, 8, "the store has another format version",
                            ret_defect);
    file.segment_size = once__get_le32(b + 12);
    file.created_ms = (once_ms)once__get_le64(b + 32);
    memcpy(file.id, b + 16, ONCE__STORE_ID_SIZE);
    memcpy(file.secret, b + 64, ONCE__SECRET_SIZE);
    if (!once__segment_size_ok(file.segment_size))
        return once__defect(ONCE_ERR_DAMAGED, 12, "the store's segment size is out of range",
                            ret_defect);
    if (file.created_ms < 0 || file.created_ms > ONCE_NOW_MS_MAX)
        return once__defect(ONCE_ERR_DAMAGED, 32, "the store's time is out of range", ret_defect);
    if (!once__all_zero(b + 40, 24) || !once__all_zero(b + 256, SECTOR_CHECK - 256))
        return once__defect(ONCE_ERR_DAMAGED, 40, "the store file has unknown fields", ret_defect);
    *ret_file = file;
    return ONCE_OK;
}

/* ---- Segments -------------------------------------------------------------------------------- */

uint64_t once__segment_salt(const uint8_t secret[ONCE__SECRET_SIZE], uint64_t sequence)
{
    uint8_t bytes[16] = "segment"; /* no name hashes to the same: its first byte is a size */

    once__put_le64(bytes + 8, sequence);
    return XXH3_64bits_withSecret(bytes, sizeof bytes, secret, ONCE__SECRET_SIZE);
}

void once__segment_header_encode(const struct once__segment_header *header,
                                 uint8_t ret_block[ONCE__SEGMENT_HEADER_SIZE])
{
    uint8_t *b = ret_block;

    ONCE_ASSERT(once__segment_size_ok(header->segment_size));
    ONCE_ASSERT(header->sequence >= 1 && header->first_batch >= 1);
    memset(b, 0, ONCE__SEGMENT_HEADER_SIZE);
    memcpy(b, segment_magic, MAGIC_SIZE);
    once__put_le32(b + 8, ONCE__FORMAT_VERSION);
    once__put_le32(b + 12, header->segment_size);
    memcpy(b + 16, header->store_id, ONCE__STORE_ID_SIZE);
    once__put_le64(b + 32, header->sequence);
    once__put_le64(b + 40, header->first_batch);
    once__put_le64(b + 48, header->chain);
    once__put_le64(b + 56, (uint64_t)header->created_ms);
    once__put_le64(b + 64, header->salt);
    once__put_le32(b + 72, header->previous_end);
    once__put_le64(b + 80, header->life);
    sector_seal(b);
}

static int check_segment(const struct once__segment_header *header, struct once_defect *ret_defect)
{
    bool first = header->sequence == 1;

    if (!once__segment_size_ok(header->segment_size))
        return once__defect(ONCE_ERR_DAMAGED, 12, "the segment's size is out of range", ret_defect);
    /* Positions are 64 bits. */
    if (header->sequence < 1 || header->sequence >= UINT64_MAX / header->segment_size)
        return once__defect(ONCE_ERR_DAMAGED, 32, "the segment's sequence number is out of range",
                            ret_defect);
    if (header->first_batch < 1 || (first && (header->first_batch != 1 || header->chain != 0)))
        return once__defect(ONCE_ERR_DAMAGED, 40, "the segment's first batch is out of range",
                            ret_defect);
    if (header->created_ms < 0 || header->created_ms > ONCE_NOW_MS_MAX)
        return once__defect(ONCE_ERR_DAMAGED, 56, "the segment's time is out of range", ret_defect);
    if (header->previous_end % ONCE_BLOCK_SIZE != 0 ||
        header->previous_end > header->segment_size || (header->previous_end == 0) != first)
        return once__defect(ONCE_ERR_DAMAGED, 72, "the end of the segment before is out of range",
                            ret_defect);
    return ONCE_OK;
}

int once__segment_header_decode(struct once_bytes block, struct once__segment_header *ret_header,
                                struct once_defect *ret_defect)
{
    struct once__segment_header header;
    const uint8_t *b = block.data;
    int err;

    if (block.size < SECTOR_SIZE)
        return once__defect(ONCE_ERR_NO_STORE, block.size, "the segment has no header", ret_defect);
    if (memcmp(b, segment_magic, MAGIC_SIZE) != 0) {
        /* A spare is used again. What was a segment until its magic was hit is not one. */
        if (only_magic_is_wrong(b, segment_magic))
            return once__defect(ONCE_ERR_DAMAGED, 0, "the segment does not begin like one",
                                ret_defect);
        return once__defect(ONCE_ERR_NO_STORE, 0, "this is not a segment", ret_defect);
    }
    if (!sector_sealed(b))
        return once__defect(ONCE_ERR_DAMAGED, SECTOR_CHECK, "the segment header's check is wrong",
                            ret_defect);
    if (once__get_le32(b + 8) != ONCE__FORMAT_VERSION)
        return once__defect(ONCE_ERR_VERSION, 8, "the segment has another format version",
                            ret_defect);
    header.segment_size = once__get_le32(b + 12);
    memcpy(header.store_id, b + 16, ONCE__STORE_ID_SIZE);
    header.sequence = once__get_le64(b + 32);
    header.first_batch = once__get_le64(b + 40);
    header.chain = once__get_le64(b + 48);
    header.created_ms = (once_ms)once__get_le64(b + 56);
    header.salt = once__get_le64(b + 64);
    header.previous_end = once__get_le32(b + 72);
    header.life = once__get_le64(b + 80);
    if (!once__all_zero(b + 76, 4) || !once__all_zero(b + 88, SECTOR_CHECK - 88))
        return once__defect(ONCE_ERR_DAMAGED, 76, "the segment header has unknown fields",
                            ret_defect);
    err = check_segment(&header, ret_defect);
    if (err != ONCE_OK)
        return err;
    *ret_header = header;
    return ONCE_OK;
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* What a batch's header may say. NULL when all is well, else what is not; ret_offset says where. */
static const char *batch_fault(const struct once__batch_header *h, size_t *ret_offset)
{
    bool given_up = (h->flags & ONCE__BATCH_GIVEN_UP) != 0;
    uint32_t room = h->size - ONCE__BATCH_HEADER_SIZE; /* after the first line: not below 0 */

    *ret_offset = 4;
    if (h->size < ONCE__BATCH_HEADER_SIZE || h->size % ONCE__RECORD_ALIGN != 0 ||
        h->size > ONCE_SEGMENT_SIZE_MAX - ONCE__SEGMENT_HEADER_SIZE)
        return "the batch's size is out of range";
    *ret_offset = 8;
    if (h->count > room / ONCE__RECORD_SIZE_MIN || (h->count == 0 && room > 0 && !given_up) ||
        (h->count > 0 && given_up))
        return "the batch's count does not fit its size";
    *ret_offset = 12;
    if (h->flags > (ONCE__BATCH_CLOSED | ONCE__BATCH_GIVEN_UP | ONCE__BATCH_OBJECTS))
        return "the batch has unknown flags";
    *ret_offset = 16;
    if (h->sequence < 1 || h->oldest < 1 || h->oldest > h->sequence)
        return "the batch's segments are out of range";
    *ret_offset = 24;
    if (h->number < 1 || h->number == UINT64_MAX || h->durable >= h->number)
        return "the batch's numbers are out of range";
    *ret_offset = 48;
    if (h->last_fence > ONCE_FENCE_MAX)
        return "the batch's last fence is out of range";
    *ret_offset = 64;
    if (h->now_ms < 0 || h->now_ms > ONCE_NOW_MS_MAX)
        return "the batch's time is out of range";
    *ret_offset = 80;
    if (h->next_chain != 0 && !given_up)
        return "the batch has unknown fields";
    return NULL;
}

static uint64_t batch_check(const uint8_t *b, uint64_t salt)
{
    return XXH3_64bits_withSeed(b, BATCH_CHECK, salt);
}

uint64_t once__batch_header_encode(const struct once__batch_header *header, uint64_t salt,
                                   uint8_t ret_bytes[ONCE__BATCH_HEADER_SIZE])
{
    uint8_t *b = ret_bytes;
    uint64_t check;
    size_t offset;

    ONCE_ASSERT(batch_fault(header, &offset) == NULL);
    once__put_le32(b, BATCH_MAGIC);
    once__put_le32(b + 4, header->size);
    once__put_le32(b + 8, header->count);
    once__put_le32(b + 12, header->flags);
    once__put_le64(b + 16, header->sequence);
    once__put_le64(b + 24, header->number);
    once__put_le64(b + 32, header->durable);
    once__put_le64(b + 40, header->chain);
    once__put_le64(b + 48, header->last_fence);
    once__put_le64(b + 56, header->oldest);
    once__put_le64(b + 64, (uint64_t)header->now_ms);
    once__put_le64(b + 72, header->records);
    once__put_le64(b + 80, header->next_chain);
    once__put_le64(b + 88, header->life);
    check = batch_check(b, salt);
    once__put_le64(b + BATCH_CHECK, check);
    return check;
}

bool once__batch_header_intact(struct once_bytes bytes, uint64_t salt)
{
    if (bytes.size < ONCE__BATCH_HEADER_SIZE || once__get_le32(bytes.data) != BATCH_MAGIC)
        return false;
    return once__get_le64(bytes.data + BATCH_CHECK) == batch_check(bytes.data, salt);
}

int once__batch_header_decode(struct once_bytes bytes, uint64_t salt,
                              struct once__batch_header *ret_header, uint64_t *ret_check,
                              struct once_defect *ret_defect)
{
    struct once__batch_header header;
    const uint8_t *b = bytes.data;
    const char *fault;
    size_t offset;

    if (bytes.size < ONCE__BATCH_HEADER_SIZE)
        return once__defect(ONCE_ERR_DAMAGED, bytes.size, "the batch's header is cut off",
                            ret_defect);
    if (once__get_le32(b) != BATCH_MAGIC)
        return once__defect(ONCE_ERR_DAMAGED, 0, "no batch begins here", ret_defect);
    if (!once__batch_header_intact(bytes, salt) && !ONCE__MUTANT(NO_CHECKSUM))
        return once__defect(ONCE_ERR_DAMAGED, BATCH_CHECK, "the batch header's check is wrong",
                            ret_defect);
    header.size = once__get_le32(b + 4);
    header.count = once__get_le32(b + 8);
    header.flags = once__get_le32(b + 12);
    header.sequence = once__get_le64(b + 16);
    header.number = once__get_le64(b + 24);
    header.durable = once__get_le64(b + 32);
    header.chain = once__get_le64(b + 40);
    header.last_fence = once__get_le64(b + 48);
    header.oldest = once__get_le64(b + 56);
    header.now_ms = (once_ms)once__get_le64(b + 64);
    header.records = once__get_le64(b + 72);
    header.next_chain = once__get_le64(b + 80);
    header.life = once__get_le64(b + 88);
    fault = batch_fault(&header, &offset);
    if (fault)
        return once__defect(ONCE_ERR_DAMAGED, offset, fault, ret_defect);
    *ret_header = header;
    *ret_check = once__get_le64(b + BATCH_CHECK);
    return ONCE_OK;
}

/* ---- Names of files -------------------------------------------------------------------------- */

enum { SLOT_DIGITS = 6 };
static const char digits[] = "0123456789abcdef";

static void slot_name(uint32_t slot, const char *suffix, char ret_name[ONCE__NAME_SIZE])
{
    ONCE_ASSERT(slot < ONCE_SEGMENTS_MAX);
    for (int i = 0; i < SLOT_DIGITS; i++)
        ret_name[i] = digits[slot >> 4 * (SLOT_DIGITS - 1 - i) & 15];
    memcpy(ret_name + SLOT_DIGITS, suffix, 5);
}

void once__segment_name(uint32_t slot, char ret_name[ONCE__NAME_SIZE])
{
    slot_name(slot, ".seg", ret_name);
}

void once__sidecar_name(uint32_t slot, char ret_name[ONCE__NAME_SIZE])
{
    slot_name(slot, ".idx", ret_name);
}

bool once__name_slot(const char *name, bool *ret_is_segment, uint32_t *ret_slot)
{
    uint32_t slot = 0;

    if (strlen(name) != SLOT_DIGITS + 4)
        return false;
    for (int i = 0; i < SLOT_DIGITS; i++) {
        const char *digit = strchr(digits, name[i]);

        if (!digit)
            return false;
        slot = slot << 4 | (uint32_t)(digit - digits);
    }
    if (slot >= ONCE_SEGMENTS_MAX)
        return false;
    if (strcmp(name + SLOT_DIGITS, ".seg") != 0 && strcmp(name + SLOT_DIGITS, ".idx") != 0)
        return false;
    *ret_is_segment = name[SLOT_DIGITS + 1] == 's';
    *ret_slot = slot;
    return true;
}
