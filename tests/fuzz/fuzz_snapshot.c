/* SPDX-License-Identifier: Apache-2.0
 *
 * Foreign snapshots of objects. If the first byte is odd the header and every chunk get the check
 * that they ask for, so that the rules behind the checks are reached too. Nothing may crash. A
 * snapshot that is called whole is exactly its header, its chunks and its end; what a damaged one
 * still gives is made of chunks that are good; edits that can be read have one form only, and a
 * table takes or refuses them.
 */
#include <xxhash.h>

#include "../unit/segment_help.h"
#include "engine/edits.h"
#include "engine/snapshot_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int size_of(struct once__file *file, uint64_t *ret_size)
{
    *ret_size = ((const struct help_file *)(const void *)file)->size;
    return ONCE_OK;
}

static uint32_t number_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* Right checks, as far as the sizes lead. */
static void seal(uint8_t *bytes, size_t size)
{
    struct once__snapshot_header header;
    size_t at = ONCE__SNAPSHOT_HEADER_SIZE;
    uint64_t check;

    if (size < at)
        return;
    check = XXH3_64bits(bytes, 56);
    memcpy(bytes + 56, &check, 8);
    if (once__snapshot_header_decode((struct once_bytes){bytes, size}, &header, NULL) != ONCE_OK)
        return;
    for (uint64_t number = 0; size - at >= ONCE__SNAPSHOT_CHUNK_HEADER_SIZE; number++) {
        uint32_t chunk_size = number_at(bytes + at), end = number_at(bytes + at + 4);

        if (chunk_size == 0 || end > 1 || chunk_size > size - at - ONCE__SNAPSHOT_CHUNK_HEADER_SIZE)
            return;
        once__snapshot_chunk_encode(
            &header, number, end == 1,
            (struct once_bytes){bytes + at + ONCE__SNAPSHOT_CHUNK_HEADER_SIZE, chunk_size},
            bytes + at);
        at += ONCE__SNAPSHOT_CHUNK_HEADER_SIZE + chunk_size;
    }
}

struct walk {
    struct once__objects *objects;
    uint64_t size; /* of the chunks, with their heads */
    uint64_t count;
    uint64_t last_offset;
};

/* Those that lead to millions of events that are filled up take too long here. */
enum { EVENT_MAX = 1000 };

/* Gives false when there is an event so late that a lenient reader would fill up many before it. */
static bool must_be_one_form(struct once_bytes edits)
{
    struct once_buf again;
    size_t offset = 0;
    bool early = true;

    once_buf_init(&again, edits.size);
    while (offset < edits.size) {
        struct once_defect defect = {.offset = SIZE_MAX};
        struct once__edit edit;
        size_t before = again.size, at = offset;
        int err = once__edit_decode(edits, &offset, &edit, &defect);

        if (err != ONCE_OK) {
            HELP_MUST(err == ONCE_ERR_DAMAGED && defect.what && defect.offset <= edits.size);
            break;
        }
        early = early && (edit.kind != ONCE__EDIT_EVENT || edit.to.event.number <= EVENT_MAX);
        HELP_MUST(offset > at && once__edit_type(edit.kind) != ONCE_OBJECT_NONE);
        HELP_MUST(once__edit_encode(&edit, &again) == ONCE_OK);
        HELP_MUST(again.size - before == offset - at);
        HELP_MUST(memcmp(again.data + before, edits.data + at, offset - at) == 0);
    }
    once_buf_release(&again);
    return early;
}

static int use_chunk(void *user, uint64_t offset, struct once_bytes edits)
{
    struct walk *walk = user;
    struct once_defect defect = {.offset = SIZE_MAX};
    int err;

    HELP_MUST(edits.size > 0 && offset >= ONCE__SNAPSHOT_HEADER_SIZE);
    HELP_MUST(offset > walk->last_offset);
    walk->last_offset = offset;
    walk->size += ONCE__SNAPSHOT_CHUNK_HEADER_SIZE + edits.size;
    walk->count++;
    err = once__edits_put(walk->objects, NULL, edits, must_be_one_form(edits), &defect);
    HELP_MUST(err == ONCE_OK || (err == ONCE_ERR_DAMAGED && defect.what));
    return ONCE_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t secret[ONCE__OBJECT_SECRET_SIZE];
    struct once__file_ops ops = {.read = help_file_read, .size = size_of};
    struct once__snapshot_scan scan;
    struct walk walk = {.objects = NULL};
    struct once__snapshot_visitor visitor = {.chunk = use_chunk, .user = &walk};
    struct help_file file;
    uint8_t *copy;
    int err;

    if (size < 1)
        return 0;
    copy = malloc(size > 1 ? size - 1 : 1);
    HELP_MUST(copy && once__objects_new(secret, &walk.objects) == ONCE_OK);
    memcpy(copy, data + 1, size - 1);
    if (data[0] % 2)
        seal(copy, size - 1);
    file = help_file_of(copy, size - 1);
    file.file.ops = &ops;
    err = once__snapshot_scan(&file.file, NULL, &visitor, &scan);
    HELP_MUST(err == ONCE_OK || err == ONCE_ERR_VERSION);
    if (err == ONCE_OK) {
        HELP_MUST(scan.size == size - 1 && scan.chunk_count == walk.count);
        HELP_MUST(!scan.damaged || (scan.defect.what && scan.defect.offset <= scan.size));
        HELP_MUST(scan.has_header || (scan.damaged && walk.count == 0));
        if (!scan.damaged) {
            HELP_MUST(scan.has_end && scan.end.chunk_count == walk.count && scan.lost_count == 0);
            HELP_MUST(ONCE__SNAPSHOT_HEADER_SIZE + walk.size + ONCE__SNAPSHOT_CHUNK_HEADER_SIZE +
                          ONCE__SNAPSHOT_END_SIZE ==
                      scan.size);
        }
    }
    once__objects_free(walk.objects);
    free(copy);
    return 0;
}
