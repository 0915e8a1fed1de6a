/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing encoded states: a bounds-checked reader over borrowed bytes, and a writer
 * that appends to a buffer and takes everything back on error.
 *
 * Both keep their first failure and then stand still: a failed reader is at its end and gives zeros
 * and no bytes, a failed writer ignores what is put. So a decoder reads a row of fields and asks
 * once, and every loop over entries asks once per entry. All integers are little-endian.
 */
#ifndef ONCE_LATTICE_CODEC_H
#define ONCE_LATTICE_CODEC_H

#include <endian.h>
#include <string.h>

#include <once/lattice.h>

enum { ONCE__LATTICE_VERSION = 1, ONCE__LATTICE_HEADER_SIZE = 2 };

struct once__reader {
    const uint8_t *start; /* of the outermost state: offsets count from here */
    const uint8_t *at;
    const uint8_t *end;
    int err;
    struct once_defect defect; /* set with err */
};

struct once__writer {
    struct once_buf *out;
    size_t start; /* out's size before: where it goes back to */
    int err;
};

static inline uint32_t once__load_u32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

static inline uint64_t once__load_u64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return le64toh(value);
}

static inline void once__store_u32(uint8_t *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof value);
}

static inline void once__store_u64(uint8_t *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof value);
}

/* Starts at the first byte. NULL with a size is a failed reader (ONCE_ERR_INVALID). */
void once__reader_init(struct once__reader *reader, struct once_bytes bytes);

/* Records the first failure; where lies in the reader's bytes or at their end. */
void once__reader_fail(struct once__reader *reader, int err, const uint8_t *where,
                       const char *what);

/* The bytes end too early: the first bad byte is the one that is missing. */
void once__reader_truncated(struct once__reader *reader);

static inline size_t once__reader_left(const struct once__reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

static inline bool once__reader_ok(const struct once__reader *reader)
{
    return reader->err == ONCE_OK;
}

/* Exactly size bytes, or none and a failure. */
static inline struct once_bytes once__read_bytes(struct once__reader *reader, size_t size)
{
    struct once_bytes bytes = {.data = reader->at, .size = size};

    if (once__reader_left(reader) < size) {
        once__reader_truncated(reader);
        return (struct once_bytes){.data = reader->end, .size = 0};
    }
    reader->at += size;
    return bytes;
}

static inline uint8_t once__read_u8(struct once__reader *reader)
{
    struct once_bytes bytes = once__read_bytes(reader, 1);

    return bytes.size == 1 ? bytes.data[0] : 0;
}

static inline uint32_t once__read_u32(struct once__reader *reader)
{
    struct once_bytes bytes = once__read_bytes(reader, 4);

    return bytes.size == 4 ? once__load_u32(bytes.data) : 0;
}

static inline uint64_t once__read_u64(struct once__reader *reader)
{
    struct once_bytes bytes = once__read_bytes(reader, 8);

    return bytes.size == 8 ? once__load_u64(bytes.data) : 0;
}

/* A byte that is 0 or 1. */
bool once__read_bool(struct once__reader *reader);

/* A count of entries, at most ONCE_LATTICE_ENTRIES_MAX. */
uint32_t once__read_count(struct once__reader *reader);

/* A u32 size and that many bytes: a set member, a register's value, a map's key. */
struct once_bytes once__read_member(struct once__reader *reader);

/* The same for the name of a node, which is never empty. */
struct once_bytes once__read_node(struct once__reader *reader);

/* Fails unless everything was read. */
void once__reader_finish(struct once__reader *reader);

/* A reader of the next size bytes that reports offsets from the same start; reader moves behind
 * them. */
struct once__reader once__reader_inner(struct once__reader *reader, size_t size);

/* Takes over the inner reader's failure, if it has one. */
void once__reader_adopt(struct once__reader *reader, const struct once__reader *inner);

/* The type tag, after checking tag and version; 0 and a failure if they are not known. */
enum once_lattice_type once__read_header(struct once__reader *reader);

/* Everything put from now on is appended to out. */
void once__writer_init(struct once__writer *writer, struct once_buf *out);

/* Fails (ONCE_ERR_INVALID) if bytes that will be read lie in out's memory, which moves as it
 * grows. */
void once__writer_apart(struct once__writer *writer, struct once_bytes bytes);

/* The first failure, having taken back what was put; or ONCE_OK. */
ONCE_MUST_CHECK int once__writer_finish(struct once__writer *writer);

/* Records the first failure. */
void once__writer_fail(struct once__writer *writer, int err);

/* Room for size more bytes, to be filled by the caller: NULL and a failure if there is none. */
uint8_t *once__put_room(struct once__writer *writer, size_t size);

/* Room for up to size more bytes: fewer, *ret_size, where the buffer's bound is nearer. */
uint8_t *once__put_room_upto(struct once__writer *writer, size_t size, size_t *ret_size);

void once__put_u8(struct once__writer *writer, uint8_t value);
void once__put_u32(struct once__writer *writer, uint32_t value);
void once__put_u64(struct once__writer *writer, uint64_t value);
void once__put_bytes(struct once__writer *writer, struct once_bytes bytes);
void once__put_header(struct once__writer *writer, enum once_lattice_type type);

/* A u32 size and the bytes. ONCE_ERR_FULL past the bound; an empty node is ONCE_ERR_INVALID, and so
 * is NULL with a size. */
void once__put_member(struct once__writer *writer, struct once_bytes member);
void once__put_node(struct once__writer *writer, struct once_bytes node);

/* A place to come back to: a count or size that is known only later. */
static inline size_t once__writer_mark(const struct once__writer *writer)
{
    return writer->out->size;
}

/* Leaves 4 bytes open at the mark, to be filled by a patch. */
size_t once__put_gap_u32(struct once__writer *writer);
void once__patch_u32(struct once__writer *writer, size_t mark, uint32_t value);
void once__patch_u64(struct once__writer *writer, size_t mark, uint64_t value);

/* Patches a count of entries: ONCE_ERR_FULL past ONCE_LATTICE_ENTRIES_MAX. */
void once__patch_count(struct once__writer *writer, size_t mark, uint64_t count);

/* Takes back everything since the mark. */
void once__writer_rewind(struct once__writer *writer, size_t mark);

#endif
