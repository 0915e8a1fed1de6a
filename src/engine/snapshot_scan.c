/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the chunks of a snapshot: format_snapshot.c knows their bytes, this one knows their order.
 */
#include "engine/snapshot_scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

struct walk {
    struct once__file *file;
    const struct once__snapshot_visitor *visitor;
    struct once__snapshot_scan *scan;
    uint64_t offset; /* of the chunk at hand */
    uint64_t number;
    uint8_t *bytes;
    size_t capacity;
};

static void note_damage(struct once__snapshot_scan *scan, uint64_t offset, const char *what)
{
    if (scan->damaged)
        return;
    scan->damaged = true;
    scan->defect = (struct once_defect){.offset = (size_t)offset, .what = what};
}

/* What the file is short of, or the disk cannot give, is zeros. */
static int read_part(struct walk *walk, uint64_t offset, void *data, size_t size)
{
    size_t got = 0;
    int err = once__file_read(walk->file, offset, data, size, &got);

    if (err == ONCE_ERR_IO) {
        note_damage(walk->scan, offset, "the disk cannot read it");
        walk->scan->unreadable = true;
        got = 0;
        err = ONCE_OK;
    }
    if (err == ONCE_OK)
        memset((uint8_t *)data + got, 0, size - got);
    return err;
}

static int reserve(struct walk *walk, size_t size)
{
    uint8_t *grown;

    if (size <= walk->capacity)
        return ONCE_OK;
    grown = realloc(walk->bytes, size);
    if (!grown)
        return ONCE_ERR_MEMORY;
    walk->bytes = grown;
    walk->capacity = size;
    return ONCE_OK;
}

static int read_header(struct walk *walk, const uint8_t *store_id)
{
    struct once__snapshot_scan *scan = walk->scan;
    uint8_t head[ONCE__SNAPSHOT_HEADER_SIZE];
    struct once__snapshot_header header;
    struct once_defect defect = {0};
    size_t known;
    int err = once__file_size(walk->file, &scan->size);

    if (err == ONCE_OK)
        err = read_part(walk, 0, head, sizeof(head));
    if (err != ONCE_OK)
        return err;
    known = scan->size < sizeof(head) ? (size_t)scan->size : sizeof(head);
    err = once__snapshot_header_decode((struct once_bytes){head, known}, &header, &defect);
    if (err == ONCE_ERR_DAMAGED) {
        note_damage(scan, defect.offset, defect.what);
        return ONCE_OK;
    }
    if (err != ONCE_OK)
        return err;
    if (store_id && memcmp(header.store_id, store_id, ONCE__STORE_ID_SIZE) != 0) {
        note_damage(scan, 16, "the snapshot belongs to another store");
        return ONCE_OK;
    }
    scan->header = header;
    scan->has_header = true;
    return ONCE_OK;
}

/* A chunk whose check is right. */
static int use_chunk(struct walk *walk, const struct once__snapshot_chunk *chunk)
{
    struct once__snapshot_scan *scan = walk->scan;

    if (chunk->is_end) {
        once__snapshot_end_decode(walk->bytes, &scan->end);
        scan->has_end = true;
        return ONCE_OK;
    }
    scan->chunk_count++;
    if (!walk->visitor)
        return ONCE_OK;
    return walk->visitor->chunk(walk->visitor->user, walk->offset,
                                (struct once_bytes){walk->bytes, chunk->size});
}

/* One chunk, good or not. *ret_more is false when nothing behind it can be told. */
static int read_chunk(struct walk *walk, bool *ret_more)
{
    struct once__snapshot_scan *scan = walk->scan;
    uint8_t head[ONCE__SNAPSHOT_CHUNK_HEADER_SIZE];
    struct once__snapshot_chunk chunk;
    struct once_defect defect;
    int err;

    *ret_more = false;
    if (scan->size - walk->offset < sizeof(head)) {
        note_damage(scan, walk->offset, "the snapshot ends too early");
        scan->lost_count++;
        return ONCE_OK;
    }
    err = read_part(walk, walk->offset, head, sizeof(head));
    if (err != ONCE_OK)
        return err;
    if (once__snapshot_chunk_decode(head, &chunk, &defect) != ONCE_OK) {
        note_damage(scan, walk->offset, defect.what);
        scan->lost_count++;
        return ONCE_OK;
    }
    if (scan->size - walk->offset - sizeof(head) < chunk.size) {
        note_damage(scan, walk->offset, "the snapshot ends too early");
        scan->lost_count++;
        return ONCE_OK;
    }
    err = reserve(walk, chunk.size);
    if (err == ONCE_OK)
        err = read_part(walk, walk->offset + sizeof(head), walk->bytes, chunk.size);
    if (err != ONCE_OK)
        return err;
    if (once__snapshot_chunk_good(&scan->header, walk->number, &chunk,
                                  (struct once_bytes){walk->bytes, chunk.size})) {
        err = use_chunk(walk, &chunk);
    } else {
        note_damage(scan, walk->offset, "a chunk's check is wrong");
        scan->lost_count += chunk.is_end ? 0 : 1;
    }
    walk->offset += sizeof(head) + chunk.size;
    walk->number++;
    *ret_more = !chunk.is_end;
    return err;
}

int once__snapshot_scan(struct once__file *file, const uint8_t *store_id,
                        const struct once__snapshot_visitor *visitor,
                        struct once__snapshot_scan *ret_scan)
{
    struct walk walk = {
        .file = file, .visitor = visitor, .scan = ret_scan, .offset = ONCE__SNAPSHOT_HEADER_SIZE};
    bool more;
    int err;

    ONCE_ASSERT(file && ret_scan);
    *ret_scan = (struct once__snapshot_scan){.has_header = false};
    err = read_header(&walk, store_id);
    more = err == ONCE_OK && ret_scan->has_header;
    while (err == ONCE_OK && more)
        err = read_chunk(&walk, &more);
    free(walk.bytes);
    if (err != ONCE_OK || ret_scan->damaged)
        return err;
    ONCE_ASSERT(ret_scan->has_end);
    if (ret_scan->end.chunk_count != ret_scan->chunk_count || walk.offset != ret_scan->size ||
        ret_scan->end.change < ret_scan->header.change)
        note_damage(ret_scan, walk.offset, "the snapshot's end does not fit");
    return ONCE_OK;
}
