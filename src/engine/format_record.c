/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of the log, and the hash of their names.
 *
 *   offset size
 *        0    8  check: XXH3-64 of everything behind it, up to the record's size
 *        8    4  size of the whole record, a multiple of 8
 *       12    1  kind: 1, an operation; 2, an operation with edits of objects; 3, edits alone
 *       13    1  state
 *       14    4  sizes of namespace, key, owner, point: one byte each
 *       18    1  flags: bit 0, a fingerprint follows the header
 *       19    1  0
 *       20    4  attempt
 *       24    4  size of data
 *       28    4  size of result
 *       32    8  fence
 *       40    8  created, ms
 *       48    8  lease end, ms
 *       56    8  retention, ms
 *       64    8  expires, ms
 *       72    8  sequence of the segment with the record that this one replaces, or 0
 *       80    4  offset of that record, or 0
 *       84    4  code
 *       88       [edits' head] [fingerprint] namespace key owner point data result [edits], zeros
 *       to
 *                a multiple of 8
 *
 *   edits' head, of kinds 2 and 3
 *        0    8  number of the change, from 1
 *        8    4  size of edits
 *       12    4  0
 *
 * Of kind 3 everything from 13 to 88 is zero. A record has one form only: what decodes encodes to
 * the same bytes. Nothing here knows where in the log a record lies, or whether the one that it
 * replaces is there.
 */
#include "engine/format.h"

#include <xxhash.h>

#include "base/assert.h"
#include "base/defect.h"
#include "engine/little_endian.h"
#include "engine/mutant.h"

enum { KIND_OPERATION = 1, KIND_APPLIED = 2, KIND_EDITS = 3, FLAG_FINGERPRINT = 1, CHECK_SIZE = 8 };

_Static_assert(ONCE_NAMESPACE_SIZE_MAX <= UINT8_MAX, "a name's sizes fit a byte each");
_Static_assert(ONCE_KEY_SIZE_MAX <= UINT8_MAX, "a name's sizes fit a byte each");
_Static_assert(ONCE_OWNER_SIZE_MAX <= UINT8_MAX, "the owner's size fits a byte");
_Static_assert(ONCE_POINT_SIZE_MAX <= UINT8_MAX, "the point's size fits a byte");
_Static_assert(ONCE__RECORD_SIZE_MAX / ONCE__RECORD_ALIGN < 1 << 22,
               "a sidecar has 22 bits for it");
_Static_assert(ONCE_SEGMENT_SIZE_MAX / ONCE__RECORD_ALIGN <= 1 << ONCE__OFFSET_BITS,
               "every offset has a place");
_Static_assert(ONCE__RECORD_SIZE_MIN == ONCE__RECORD_HEADER_SIZE + ONCE__RECORD_ALIGN,
               "the header and two bytes of name");

static bool has_fingerprint(const struct once_fingerprint *fingerprint)
{
    uint64_t words[ONCE_FINGERPRINT_SIZE / 8];

    memcpy(words, fingerprint->bytes, sizeof words);
    return (words[0] | words[1] | words[2] | words[3]) != 0;
}

/* Without the zeros at the end. */
static size_t exact_size(const struct once__log_record *rec, bool fingerprint)
{
    return ONCE__RECORD_HEADER_SIZE + (rec->change > 0 ? (size_t)ONCE__RECORD_EDITS_SIZE : 0) +
           (fingerprint ? (size_t)ONCE_FINGERPRINT_SIZE : 0) + rec->ns.size + rec->key.size +
           rec->record.owner.size + rec->record.point.size + rec->record.data.size +
           rec->record.result.size + rec->edits.size;
}

static size_t aligned(size_t size)
{
    return (size + ONCE__RECORD_ALIGN - 1) / ONCE__RECORD_ALIGN * ONCE__RECORD_ALIGN;
}

uint32_t once__record_size(const struct once__log_record *rec)
{
    size_t size = aligned(exact_size(rec, has_fingerprint(&rec->record.fingerprint)));

    ONCE_ASSERT(size <= ONCE__RECORD_SIZE_MAX);
    return (uint32_t)size;
}

static uint8_t *put_bytes(uint8_t *at, struct once_bytes bytes)
{
    if (bytes.size > 0)
        memcpy(at, bytes.data, bytes.size);
    return at + bytes.size;
}

uint64_t once__record_encode(const struct once__log_record *rec, uint8_t *ret_bytes)
{
    const struct once_record *r = &rec->record;
    bool fingerprint = has_fingerprint(&r->fingerprint);
    size_t exact = exact_size(rec, fingerprint), size = aligned(exact);
    uint8_t *b = ret_bytes, *at = b + ONCE__RECORD_HEADER_SIZE;
    uint64_t check;

    ONCE_ASSERT(rec->ns.size <= ONCE_NAMESPACE_SIZE_MAX && rec->key.size <= ONCE_KEY_SIZE_MAX);
    ONCE_ASSERT((rec->ns.size > 0 && rec->key.size > 0) ||
                (rec->ns.size == 0 && rec->key.size == 0 && rec->change > 0));
    ONCE_ASSERT(rec->change > 0 ? rec->edits.size <= ONCE_EDITS_SIZE_MAX : rec->edits.size == 0);
    ONCE_ASSERT(r->owner.size <= ONCE_OWNER_SIZE_MAX && r->point.size <= ONCE_POINT_SIZE_MAX);
    ONCE_ASSERT(r->data.size <= ONCE_DATA_SIZE_MAX && r->result.size <= ONCE_RESULT_SIZE_MAX);
    once__put_le32(b + 8, (uint32_t)size);
    b[12] = rec->change == 0 ? KIND_OPERATION : rec->ns.size > 0 ? KIND_APPLIED : KIND_EDITS;
    b[13] = (uint8_t)r->state;
    b[14] = (uint8_t)rec->ns.size;
    b[15] = (uint8_t)rec->key.size;
    b[16] = (uint8_t)r->owner.size;
    b[17] = (uint8_t)r->point.size;
    b[18] = fingerprint ? FLAG_FINGERPRINT : 0;
    b[19] = 0;
    once__put_le32(b + 20, r->attempt);
    once__put_le32(b + 24, (uint32_t)r->data.size);
    once__put_le32(b + 28, (uint32_t)r->result.size);
    once__put_le64(b + 32, r->fence);
    once__put_le64(b + 40, (uint64_t)r->created_ms);
    once__put_le64(b + 48, (uint64_t)r->lease_end_ms);
    once__put_le64(b + 56, (uint64_t)r->retention_ms);
    once__put_le64(b + 64, (uint64_t)r->expires_ms);
    once__put_le64(b + 72, rec->previous_sequence);
    once__put_le32(b + 80, rec->previous_offset);
    once__put_le32(b + 84, (uint32_t)r->code);
    if (rec->change > 0) {
        once__put_le64(at, rec->change);
        once__put_le32(at + 8, (uint32_t)rec->edits.size);
        once__put_le32(at + 12, 0);
        at += ONCE__RECORD_EDITS_SIZE;
    }
    if (fingerprint) {
        memcpy(at, r->fingerprint.bytes, ONCE_FINGERPRINT_SIZE);
        at += ONCE_FINGERPRINT_SIZE;
    }
    at = put_bytes(at, rec->ns);
    at = put_bytes(at, rec->key);
    at = put_bytes(at, r->owner);
    at = put_bytes(at, r->point);
    at = put_bytes(at, r->data);
    at = put_bytes(at, r->result);
    at = put_bytes(at, rec->edits);
    memset(at, 0, size - exact);
    check = XXH3_64bits(b + CHECK_SIZE, size - CHECK_SIZE);
    once__put_le64(b, check);
    return check;
}

static struct once_bytes take_bytes(const uint8_t **at, size_t size)
{
    struct once_bytes bytes = {.data = *at, .size = size};

    *at += size;
    return bytes;
}

void once__record_view(const uint8_t *bytes, struct once__log_record *ret_rec, uint32_t *ret_size)
{
    const uint8_t *b = bytes, *at = b + ONCE__RECORD_HEADER_SIZE;
    struct once_record *r = &ret_rec->record;
    uint32_t edits_size = 0;

    *ret_size = once__get_le32(b + 8);
    ret_rec->change = 0;
    if (b[12] != KIND_OPERATION) {
        ret_rec->change = once__get_le64(at);
        edits_size = once__get_le32(at + 8);
        at += ONCE__RECORD_EDITS_SIZE;
    }
    r->state = (enum once_state)b[13];
    r->attempt = once__get_le32(b + 20);
    r->fence = once__get_le64(b + 32);
    r->created_ms = (once_ms)once__get_le64(b + 40);
    r->lease_end_ms = (once_ms)once__get_le64(b + 48);
    r->retention_ms = (once_ms)once__get_le64(b + 56);
    r->expires_ms = (once_ms)once__get_le64(b + 64);
    ret_rec->previous_sequence = once__get_le64(b + 72);
    ret_rec->previous_offset = once__get_le32(b + 80);
    r->code = (int32_t)once__get_le32(b + 84);
    if (b[18] & FLAG_FINGERPRINT) {
        memcpy(r->fingerprint.bytes, at, ONCE_FINGERPRINT_SIZE);
        at += ONCE_FINGERPRINT_SIZE;
    } else {
        r->fingerprint = (struct once_fingerprint){0};
    }
    ret_rec->ns = take_bytes(&at, b[14]);
    ret_rec->key = take_bytes(&at, b[15]);
    r->owner = take_bytes(&at, b[16]);
    r->point = take_bytes(&at, b[17]);
    r->data = take_bytes(&at, once__get_le32(b + 24));
    r->result = take_bytes(&at, once__get_le32(b + 28));
    ret_rec->edits = take_bytes(&at, edits_size);
}

uint32_t once__record_peek(const uint8_t bytes[ONCE__RECORD_PEEK_SIZE])
{
    uint32_t size = once__get_le32(bytes + 8);

    if (bytes[12] < KIND_OPERATION || bytes[12] > KIND_EDITS)
        return 0;
    if ((bytes[14] == 0) != (bytes[12] == KIND_EDITS) ||
        (bytes[15] == 0) != (bytes[12] == KIND_EDITS))
        return 0;
    if (size < ONCE__RECORD_SIZE_MIN || size > ONCE__RECORD_SIZE_MAX ||
        size % ONCE__RECORD_ALIGN != 0)
        return 0;
    return size;
}

bool once__record_intact(struct once_bytes bytes)
{
    uint32_t size;

    if (bytes.size < ONCE__RECORD_PEEK_SIZE)
        return false;
    size = once__get_le32(bytes.data + 8);
    if (size < ONCE__RECORD_PEEK_SIZE || size > bytes.size)
        return false;
    return XXH3_64bits(bytes.data + CHECK_SIZE, size - CHECK_SIZE) == once__get_le64(bytes.data);
}

/* The sizes, flags and zeros of a record of this size, all of which is there: does it have the one
 * form that encode makes? */
static int check_form(const uint8_t *b, uint32_t size, struct once_defect *ret_defect)
{
    uint64_t exact = ONCE__RECORD_HEADER_SIZE + (uint64_t)b[14] + b[15] + b[16] + b[17] +
                     once__get_le32(b + 24) + once__get_le32(b + 28);

    if (b[12] != KIND_OPERATION) {
        const uint8_t *head = b + ONCE__RECORD_HEADER_SIZE;

        if (size < ONCE__RECORD_HEADER_SIZE + ONCE__RECORD_EDITS_SIZE ||
            once__get_le64(head) == 0 || once__get_le32(head + 8) > ONCE_EDITS_SIZE_MAX ||
            once__get_le32(head + 12) != 0)
            return once__defect(ONCE_ERR_DAMAGED, ONCE__RECORD_HEADER_SIZE,
                                "the record's edits have no right head", ret_defect);
        exact += ONCE__RECORD_EDITS_SIZE + (uint64_t)once__get_le32(head + 8);
    }
    if (b[12] == KIND_EDITS && !once__all_zero(b + 13, ONCE__RECORD_HEADER_SIZE - 13))
        return once__defect(ONCE_ERR_DAMAGED, 13, "a record of edits alone has more", ret_defect);
    if (b[18] > FLAG_FINGERPRINT || b[19] != 0)
        return once__defect(ONCE_ERR_DAMAGED, 18, "the record has unknown flags", ret_defect);
    if (b[18] & FLAG_FINGERPRINT)
        exact += ONCE_FINGERPRINT_SIZE;
    if (exact > size || size - exact >= ONCE__RECORD_ALIGN)
        return once__defect(ONCE_ERR_DAMAGED, 8, "the record's size is not that of its parts",
                            ret_defect);
    if (!once__all_zero(b + exact, size - exact))
        return once__defect(ONCE_ERR_DAMAGED, (size_t)exact, "the record does not end in zeros",
                            ret_defect);
    return ONCE_OK;
}

static int check_meaning(const struct once__log_record *rec, bool fingerprint,
                         struct once_defect *ret_defect)
{
    if (rec->ns.size > ONCE_NAMESPACE_SIZE_MAX)
        return once__defect(ONCE_ERR_DAMAGED, 14, "the record's namespace is too long", ret_defect);
    if (fingerprint != has_fingerprint(&rec->record.fingerprint))
        return once__defect(ONCE_ERR_DAMAGED, 18, "the record's fingerprint is empty", ret_defect);
    if (rec->previous_sequence == 0 && rec->previous_offset != 0)
        return once__defect(ONCE_ERR_DAMAGED, 80, "the record replaces one of no segment",
                            ret_defect);
    if (rec->previous_sequence != 0 && (rec->previous_offset < ONCE__RECORD_OFFSET_MIN ||
                                        rec->previous_offset > ONCE_SEGMENT_SIZE_MAX ||
                                        rec->previous_offset % ONCE__RECORD_ALIGN != 0))
        return once__defect(ONCE_ERR_DAMAGED, 80, "the record replaces one where none can be",
                            ret_defect);
    return once__record_check(&rec->record, ret_defect);
}

int once__record_decode(struct once_bytes bytes, struct once__log_record *ret_rec,
                        uint32_t *ret_size, uint64_t *ret_check, struct once_defect *ret_defect)
{
    struct once__log_record rec;
    uint64_t check;
    uint32_t size;
    int err;

    if (bytes.size < ONCE__RECORD_SIZE_MIN)
        return once__defect(ONCE_ERR_DAMAGED, bytes.size, "the record is cut off", ret_defect);
    size = once__record_peek(bytes.data);
    if (size == 0)
        return once__defect(ONCE_ERR_DAMAGED, 8, "no record begins here", ret_defect);
    if (size > bytes.size)
        return once__defect(ONCE_ERR_DAMAGED, bytes.size, "the record is cut off", ret_defect);
    check = XXH3_64bits(bytes.data + CHECK_SIZE, size - CHECK_SIZE);
    if (check != once__get_le64(bytes.data) && !ONCE__MUTANT(NO_CHECKSUM))
        return once__defect(ONCE_ERR_DAMAGED, 0, "the record's check is wrong", ret_defect);
    err = check_form(bytes.data, size, ret_defect);
    if (err != ONCE_OK)
        return err;
    once__record_view(bytes.data, &rec, &size);
    err = check_meaning(&rec, (bytes.data[18] & FLAG_FINGERPRINT) != 0, ret_defect);
    if (err != ONCE_OK)
        return err;
    *ret_rec = rec;
    *ret_size = size;
    if (ret_check)
        *ret_check = check;
    return ONCE_OK;
}

uint64_t once__name_hash(const uint8_t secret[ONCE__SECRET_SIZE], struct once_bytes ns,
                         struct once_bytes key)
{
    uint8_t name[1 + ONCE_NAMESPACE_SIZE_MAX + ONCE_KEY_SIZE_MAX];
    uint8_t *at = name;

    ONCE_ASSERT(ns.size <= ONCE_NAMESPACE_SIZE_MAX);
    ONCE_ASSERT(key.size <= ONCE_KEY_SIZE_MAX);
    *at++ = (uint8_t)ns.size; /* "ab" "c" is not "a" "bc" */
    at = put_bytes(at, ns);
    at = put_bytes(at, key);
    return XXH3_64bits_withSecret(name, (size_t)(at - name), secret, ONCE__SECRET_SIZE);
}
