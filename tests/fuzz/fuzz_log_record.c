/* SPDX-License-Identifier: Apache-2.0
 *
 * Foreign log records. If the first byte is odd the rest gets the check that it asks for, so that
 * the rules behind the check are reached too. The bytes lie in a heap block of their own size.
 * Nothing may crash; what decodes is a record that core accepts, has one form only, and reads the
 * same without checks.
 */
#include <xxhash.h>

#include "../unit/segment_help.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* XXH3 of what the size field spans, put in front. */
static void seal(uint8_t *bytes, size_t size)
{
    uint64_t check;
    size_t claimed;

    if (size < 12)
        return;
    claimed = (size_t)bytes[8] | (size_t)bytes[9] << 8 | (size_t)bytes[10] << 16 |
              (size_t)bytes[11] << 24;
    if (claimed < 8 || claimed > size)
        return;
    check = XXH3_64bits(bytes + 8, claimed - 8);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(check >> 8 * i);
}

static void must_be_one_form(struct once_bytes bytes, const struct once__log_record *rec,
                             uint32_t size, uint64_t check)
{
    struct once_defect defect;
    struct once__log_record view;
    uint32_t view_size;
    uint8_t *again = malloc(size);

    HELP_MUST(again);
    HELP_MUST(size <= bytes.size && size % ONCE__RECORD_ALIGN == 0);
    HELP_MUST(once__record_peek(bytes.data) == size && once__record_intact(bytes));
    HELP_MUST(once__record_check(&rec->record, &defect) == ONCE_OK);
    HELP_MUST(rec->ns.size <= ONCE_NAMESPACE_SIZE_MAX && rec->key.size <= ONCE_KEY_SIZE_MAX);
    HELP_MUST((rec->ns.size > 0) == (rec->key.size > 0));
    HELP_MUST(rec->ns.size > 0 || rec->change > 0);
    HELP_MUST(rec->change > 0 ? rec->edits.size <= ONCE_EDITS_SIZE_MAX : rec->edits.size == 0);
    HELP_MUST(rec->ns.size > 0 ||
              (rec->record.state == ONCE_STATE_ABSENT && rec->previous_sequence == 0));
    HELP_MUST(once__record_size(rec) == size);
    HELP_MUST(once__record_encode(rec, again) == check);
    HELP_MUST(memcmp(again, bytes.data, size) == 0);
    once__record_view(bytes.data, &view, &view_size);
    HELP_MUST(view_size == size && help_record_same(&view, rec));
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct once__log_record rec;
    struct once_defect defect = {.offset = SIZE_MAX};
    struct once_bytes bytes;
    uint32_t record_size;
    uint64_t check;
    uint8_t *copy;
    int err;

    if (size < 1)
        return 0;
    copy = malloc(size > 1 ? size - 1 : 1);
    HELP_MUST(copy);
    memcpy(copy, data + 1, size - 1);
    bytes = (struct once_bytes){.data = copy, .size = size - 1};
    if (data[0] % 2)
        seal(copy, bytes.size);
    err = once__record_decode(bytes, &rec, &record_size, &check, &defect);
    if (err == ONCE_OK) {
        must_be_one_form(bytes, &rec, record_size, check);
    } else {
        HELP_MUST(err == ONCE_ERR_DAMAGED);
        HELP_MUST(defect.what && defect.offset <= bytes.size);
    }
    free(copy);
    return 0;
}
