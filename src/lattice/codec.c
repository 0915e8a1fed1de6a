/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing encoded states, field by field; see codec.h. Owns the bounds of single fields
 * (sizes of members and names, counts) and the two header bytes. Knows nothing of what fields mean.
 */
#include "lattice/codec.h"

#include "base/assert.h"

/* Where a reader of no bytes points: arithmetic on NULL is undefined even when it adds nothing. */
static const uint8_t nothing[1];

void once__reader_init(struct once__reader *reader, struct once_bytes bytes)
{
    const uint8_t *data = bytes.data ? bytes.data : nothing;
    size_t size = bytes.data ? bytes.size : 0;

    *reader = (struct once__reader){.start = data, .at = data, .end = data + size};
    if (!bytes.data && bytes.size > 0)
        once__reader_fail(reader, ONCE_ERR_INVALID, data, "there are no bytes");
    if (size > ONCE_LATTICE_SIZE_MAX)
        once__reader_fail(reader, ONCE_ERR_FULL, data, "the state is larger than the bound");
}

void once__reader_fail(struct once__reader *reader, int err, const uint8_t *where, const char *what)
{
    ONCE_ASSERT(err != ONCE_OK);
    ONCE_ASSERT(where >= reader->start && where <= reader->end);
    if (reader->err == ONCE_OK) {
        reader->err = err;
        reader->defect.offset = (size_t)(where - reader->start);
        reader->defect.what = what;
    }
    reader->at = reader->end;
}

void once__reader_truncated(struct once__reader *reader)
{
    once__reader_fail(reader, ONCE_ERR_DAMAGED, reader->end, "the bytes end too early");
}

bool once__read_bool(struct once__reader *reader)
{
    const uint8_t *where = reader->at;
    uint8_t value = once__read_u8(reader);

    if (value > 1)
        once__reader_fail(reader, ONCE_ERR_DAMAGED, where, "neither 0 nor 1");
    return value == 1;
}

uint32_t once__read_count(struct once__reader *reader)
{
    const uint8_t *where = reader->at;
    uint32_t count = once__read_u32(reader);

    if (count > ONCE_LATTICE_ENTRIES_MAX) {
        once__reader_fail(reader, ONCE_ERR_FULL, where, "more entries than the bound");
        return 0;
    }
    return count;
}

struct once_bytes once__read_member(struct once__reader *reader)
{
    const uint8_t *where = reader->at;
    uint32_t size = once__read_u32(reader);

    if (size > ONCE_MEMBER_SIZE_MAX) {
        once__reader_fail(reader, ONCE_ERR_FULL, where, "a member or value longer than the bound");
        size = 0;
    }
    return once__read_bytes(reader, size);
}

struct once_bytes once__read_node(struct once__reader *reader)
{
    const uint8_t *where = reader->at;
    uint32_t size = once__read_u32(reader);

    if (size > ONCE_NODE_SIZE_MAX) {
        once__reader_fail(reader, ONCE_ERR_FULL, where, "a node's name longer than the bound");
        size = 0;
    } else if (size == 0) {
        once__reader_fail(reader, ONCE_ERR_DAMAGED, where, "a node without a name");
    }
    return once__read_bytes(reader, size);
}

void once__reader_finish(struct once__reader *reader)
{
    if (reader->at < reader->end)
        once__reader_fail(reader, ONCE_ERR_DAMAGED, reader->at, "something follows the state");
}

struct once__reader once__reader_inner(struct once__reader *reader, size_t size)
{
    struct once_bytes bytes = once__read_bytes(reader, size);
    struct once__reader inner = *reader;

    inner.at = bytes.data;
    inner.end = bytes.data + bytes.size;
    return inner;
}

void once__reader_adopt(struct once__reader *reader, const struct once__reader *inner)
{
    if (inner->err != ONCE_OK)
        once__reader_fail(reader, inner->err, inner->start + inner->defect.offset,
                          inner->defect.what);
}

enum once_lattice_type once__read_header(struct once__reader *reader)
{
    const uint8_t *where = reader->at;
    uint8_t type = once__read_u8(reader);
    uint8_t version;

    if (once__reader_ok(reader) && (type < ONCE_LATTICE_MAX || type > ONCE_LATTICE_MAP))
        once__reader_fail(reader, ONCE_ERR_DAMAGED, where, "not the tag of a type");
    version = once__read_u8(reader);
    if (once__reader_ok(reader) && version != ONCE__LATTICE_VERSION)
        once__reader_fail(reader, ONCE_ERR_DAMAGED, where + 1, "not a version that is known");
    return once__reader_ok(reader) ? (enum once_lattice_type)type : (enum once_lattice_type)0;
}

void once__writer_init(struct once__writer *writer, struct once_buf *out)
{
    *writer = (struct once__writer){.out = out, .start = out->size};
}

void once__writer_apart(struct once__writer *writer, struct once_bytes bytes)
{
    uintptr_t first = (uintptr_t)writer->out->data, last = first + writer->out->capacity;
    uintptr_t bytes_first = (uintptr_t)bytes.data, bytes_last = bytes_first + bytes.size;

    if (bytes.size > 0 && bytes_first < last && bytes_last > first)
        once__writer_fail(writer, ONCE_ERR_INVALID);
}

int once__writer_finish(struct once__writer *writer)
{
    if (writer->out->size - writer->start > ONCE_LATTICE_SIZE_MAX)
        once__writer_fail(writer, ONCE_ERR_FULL);
    if (writer->err != ONCE_OK)
        writer->out->size = writer->start;
    return writer->err;
}

void once__writer_fail(struct once__writer *writer, int err)
{
    ONCE_ASSERT(err != ONCE_OK);
    if (writer->err == ONCE_OK)
        writer->err = err;
}

uint8_t *once__put_room(struct once__writer *writer, size_t size)
{
    struct once_buf *out = writer->out;
    uint8_t *at;

    if (writer->err != ONCE_OK)
        return NULL;
    if (size > out->capacity - out->size || !out->data) {
        int err = once_buf_reserve(out, size > 0 ? size : 1);

        if (err != ONCE_OK) {
            once__writer_fail(writer, err);
            return NULL;
        }
    }
    at = out->data + out->size;
    out->size += size;
    return at;
}

uint8_t *once__put_room_upto(struct once__writer *writer, size_t size, size_t *ret_size)
{
    size_t room_max = writer->out->size_max - writer->out->size;

    *ret_size = size < room_max ? size : room_max;
    return once__put_room(writer, *ret_size);
}

void once__put_u8(struct once__writer *writer, uint8_t value)
{
    uint8_t *at = once__put_room(writer, 1);

    if (at)
        *at = value;
}

void once__put_u32(struct once__writer *writer, uint32_t value)
{
    uint8_t *at = once__put_room(writer, 4);

    if (at)
        once__store_u32(at, value);
}

void once__put_u64(struct once__writer *writer, uint64_t value)
{
    uint8_t *at = once__put_room(writer, 8);

    if (at)
        once__store_u64(at, value);
}

void once__put_bytes(struct once__writer *writer, struct once_bytes bytes)
{
    uint8_t *at;

    if (bytes.size == 0)
        return;
    if (!bytes.data) {
        once__writer_fail(writer, ONCE_ERR_INVALID);
        return;
    }
    at = once__put_room(writer, bytes.size);
    if (at)
        memcpy(at, bytes.data, bytes.size);
}

void once__put_header(struct once__writer *writer, enum once_lattice_type type)
{
    once__put_u8(writer, (uint8_t)type);
    once__put_u8(writer, ONCE__LATTICE_VERSION);
}

void once__put_member(struct once__writer *writer, struct once_bytes member)
{
    if (member.size > ONCE_MEMBER_SIZE_MAX) {
        once__writer_fail(writer, ONCE_ERR_FULL);
        return;
    }
    once__put_u32(writer, (uint32_t)member.size);
    once__put_bytes(writer, member);
}

void once__put_node(struct once__writer *writer, struct once_bytes node)
{
    if (node.size == 0 || node.size > ONCE_NODE_SIZE_MAX) {
        once__writer_fail(writer, node.size == 0 ? ONCE_ERR_INVALID : ONCE_ERR_FULL);
        return;
    }
    once__put_u32(writer, (uint32_t)node.size);
    once__put_bytes(writer, node);
}

size_t once__put_gap_u32(struct once__writer *writer)
{
    size_t mark = once__writer_mark(writer);

    once__put_u32(writer, 0);
    return mark;
}

void once__patch_u32(struct once__writer *writer, size_t mark, uint32_t value)
{
    if (writer->err != ONCE_OK)
        return;
    ONCE_ASSERT(mark >= writer->start && mark + 4 <= writer->out->size);
    once__store_u32(writer->out->data + mark, value);
}

void once__patch_u64(struct once__writer *writer, size_t mark, uint64_t value)
{
    if (writer->err != ONCE_OK)
        return;
    ONCE_ASSERT(mark >= writer->start && mark + 8 <= writer->out->size);
    once__store_u64(writer->out->data + mark, value);
}

void once__patch_count(struct once__writer *writer, size_t mark, uint64_t count)
{
    if (count > ONCE_LATTICE_ENTRIES_MAX)
        once__writer_fail(writer, ONCE_ERR_FULL);
    else
        once__patch_u32(writer, mark, (uint32_t)count);
}

void once__writer_rewind(struct once__writer *writer, size_t mark)
{
    ONCE_ASSERT(mark >= writer->start && mark <= writer->out->size);
    writer->out->size = mark;
}
