/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine writes to disk, byte by byte, and the only code that reads or writes those bytes.
 * docs/format/engine.md is the specification; numbers are little-endian; every check is XXH3-64.
 *
 *   store       64 bytes + secret   what the folder is: id, segment size, the hash's secret
 *   N.seg       a segment of the log: a header block, then batches, each starting at a block
 *   N.idx       the sidecar of a sealed segment: 16 bytes for each record that was live then
 *   objects     a snapshot of all objects: edits (object/object.h), in chunks with a check each
 *   lock        names the owner of the folder
 *
 * N is the slot of a segment, 6 hex digits, used again and again; what a segment is in the life of
 * the log is its sequence number, in its header.
 *
 * A *place* is where a record starts: slot * 2^28 + offset / 8, in the index (47 bits).
 * A *position* is a point in the endless log: sequence number * segment size + offset (64 bits);
 * positions only grow.
 *
 * Batches form one chain through all segments: each has the number after its predecessor's and
 * repeats its predecessor's check. A batch tells which batches were known to be durable when it was
 * made; so a reader who finds a bad batch can tell a torn tail (nothing durable came after) from
 * damage.
 * Clients choose bytes of the log, so the checks of a segment's batches begin with its salt, which
 * nobody outside can know: no answer that a client stores can pass for a batch.
 *
 * Everything read from disk is checked here; nothing here asserts on those bytes.
 */
#ifndef ONCE_ENGINE_FORMAT_H
#define ONCE_ENGINE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <once/bytes.h>
#include <once/limits.h>

#include "core/record.h"

enum {
    ONCE__FORMAT_VERSION = 1,
    ONCE__STORE_ID_SIZE = 16,
    ONCE__SECRET_SIZE = 192,     /* of the keys' hash: XXH3 with a secret */
    ONCE__STORE_FILE_SIZE = 512, /* one sector: written whole or not at all */
    ONCE__SEGMENT_HEADER_SIZE = ONCE_BLOCK_SIZE,
    ONCE__BATCH_HEADER_SIZE = 104,
    ONCE__RECORD_HEADER_SIZE = 88,
    ONCE__RECORD_ALIGN = 8,
    ONCE__RECORD_EDITS_SIZE =
        16, /* behind the header of a record with edits: what there is of them */
    ONCE__RECORD_SIZE_MIN = 96, /* the shortest name, nothing else */
    /* All fields at their bounds. */
    ONCE__RECORD_SIZE_MAX = (ONCE__RECORD_HEADER_SIZE + ONCE__RECORD_EDITS_SIZE +
                             ONCE_FINGERPRINT_SIZE + ONCE_NAMESPACE_SIZE_MAX + ONCE_KEY_SIZE_MAX +
                             ONCE_OWNER_SIZE_MAX + ONCE_POINT_SIZE_MAX + ONCE_DATA_SIZE_MAX +
                             ONCE_RESULT_SIZE_MAX + ONCE_EDITS_SIZE_MAX + ONCE__RECORD_ALIGN - 1) /
                            ONCE__RECORD_ALIGN * ONCE__RECORD_ALIGN,
    /* Where the first record of a segment can be. */
    ONCE__RECORD_OFFSET_MIN = ONCE__SEGMENT_HEADER_SIZE + ONCE__BATCH_HEADER_SIZE,
    ONCE__SLOT_BITS = 19,
    ONCE__OFFSET_BITS = 28, /* of 8 bytes */
    ONCE__NAME_SIZE = 16    /* of a file, with its NUL */
};

#define ONCE__STORE_NAME "store"
#define ONCE__LOCK_NAME "lock"

/* ---- The store file -------------------------------------------------------------------------- */

struct once__store_file {
    uint8_t id[ONCE__STORE_ID_SIZE]; /* random; repeated in every segment */
    uint32_t segment_size;
    once_ms created_ms;
    uint8_t secret[ONCE__SECRET_SIZE];
};
void once__store_file_encode(const struct once__store_file *file,
                             uint8_t ret_bytes[ONCE__STORE_FILE_SIZE]);
/* ONCE_ERR_VERSION, ONCE_ERR_DAMAGED; ret_defect says what and where. */
ONCE_MUST_CHECK int once__store_file_decode(struct once_bytes bytes,
                                            struct once__store_file *ret_file,
                                            struct once_defect *ret_defect);

/* ---- Segments -------------------------------------------------------------------------------- */

/* Is this a size that a segment may have: within its bounds, whole blocks? */
static inline bool once__segment_size_ok(uint32_t segment_size)
{
    return segment_size >= ONCE_SEGMENT_SIZE_MIN && segment_size <= ONCE_SEGMENT_SIZE_MAX &&
           segment_size % ONCE_BLOCK_SIZE == 0;
}

/* The first block of a segment file; all of it is in the first sector, so it is written whole or
 * not at all. A file without a good one is spare. */
struct once__segment_header {
    uint8_t store_id[ONCE__STORE_ID_SIZE];
    uint32_t segment_size;
    uint64_t sequence;     /* 1 is the first segment of a store */
    uint64_t first_batch;  /* number of its first batch */
    uint64_t chain;        /* check of the batch before that; 0 before the first of all */
    uint32_t previous_end; /* offset behind the last batch of the segment before; 0 for the first */
    once_ms created_ms;    /* store time */
    uint64_t salt;         /* once__segment_salt: the checks of its batches begin with it */
    uint64_t life;         /* of its first batch: one of an earlier life that lies there is no part
                            * of it, though everything else may fit */
};
/* The salt of the segment with this sequence number. */
uint64_t once__segment_salt(const uint8_t secret[ONCE__SECRET_SIZE], uint64_t sequence);
void once__segment_header_encode(const struct once__segment_header *header,
                                 uint8_t ret_block[ONCE__SEGMENT_HEADER_SIZE]);
/* ONCE_ERR_NO_STORE: never a segment (the magic is not there, a spare). ONCE_ERR_VERSION.
 * ONCE_ERR_DAMAGED. */
ONCE_MUST_CHECK int once__segment_header_decode(struct once_bytes block,
                                                struct once__segment_header *ret_header,
                                                struct once_defect *ret_defect);

/* ---- Batches --------------------------------------------------------------------------------- */

enum once__batch_flags {
    ONCE__BATCH_CLOSED = 1,   /* the store was closed after this one */
    ONCE__BATCH_GIVEN_UP = 2, /* stands where damage was given up: once check --repair */
    ONCE__BATCH_OBJECTS = 4   /* there is a snapshot of objects: without it something is missing */
};

/* A header, then records, then zeros up to the next block. A GIVEN_UP one has no records: its size
 * spans what was given up, and the bytes behind its header mean nothing. */
struct once__batch_header {
    uint32_t size;       /* header and records, without the zeros */
    uint32_t count;      /* records */
    uint64_t sequence;   /* of the segment: what a recycled file held before cannot be mistaken */
    uint64_t number;     /* of the batch in the store */
    uint64_t durable;    /* every batch up to this number was durable when this one was made */
    uint64_t chain;      /* the check of the batch before */
    uint64_t last_fence; /* largest fence given, up to the end of this batch */
    uint64_t oldest;     /* sequence of the oldest segment that is still needed */
    once_ms now_ms;      /* store time */
    uint32_t flags;
    uint64_t records; /* the records' checks, folded in order: once__fold */
    /* GIVEN_UP: what the next batch says as chain; else 0. A GIVEN_UP one has the number of the
     * last batch that it stands for. */
    uint64_t next_chain;
    /* Random, new each time the store is opened. Else a batch that is written again after a crash
     * could come out the same as the one that was lost, and what once followed that one would
     * follow it again, though nobody was told of it and others have been told that it is not there.
     */
    uint64_t life;
};
/* Writes the header and returns its check, which the next batch repeats. salt is its segment's. */
uint64_t once__batch_header_encode(const struct once__batch_header *header, uint64_t salt,
                                   uint8_t ret_bytes[ONCE__BATCH_HEADER_SIZE]);
/* bytes begin at the header and go at least to its end. Checks the header alone: check, then
 * bounds. ONCE_ERR_DAMAGED. ret_check is what the next batch repeats. */
ONCE_MUST_CHECK int once__batch_header_decode(struct once_bytes bytes, uint64_t salt,
                                              struct once__batch_header *ret_header,
                                              uint64_t *ret_check, struct once_defect *ret_defect);
/* Is the check right, whatever the header says? Then we wrote it so: a tear does not look like
 * this. */
bool once__batch_header_intact(struct once_bytes bytes, uint64_t salt);
/* Folds the check of one more record into the batch's. Starts at 0. */
static inline uint64_t once__fold(uint64_t records, uint64_t check)
{
    uint64_t turned = records << 23 | records >> 41;

    return (turned ^ check) * 0x9E3779B97F4A7C15ULL + 1;
}
/* Size of a batch on disk: whole blocks. */
static inline uint32_t once__batch_disk_size(uint32_t size)
{
    return (size + ONCE_BLOCK_SIZE - 1) / ONCE_BLOCK_SIZE * ONCE_BLOCK_SIZE;
}

/* ---- Records --------------------------------------------------------------------------------- */

/* A record as it lies in the log: an operation's record, its name, and which record of the same
 * name it replaces; the edits that came with it; or edits alone, without a name (ns.size is 0, and
 * the operation all zero). Bytes of a decoded one point into what was decoded. */
struct once__log_record {
    struct once_bytes ns;
    struct once_bytes key;
    struct once_record record;  /* ABSENT: forgotten */
    uint64_t previous_sequence; /* 0: replaces none */
    uint32_t previous_offset;   /* in bytes */
    uint64_t change;            /* number of this change of objects, from 1; 0: it is none */
    struct once_bytes edits;    /* of objects, encoded: object/object.h */
};

/* Bytes of the whole record in the log, a multiple of ONCE__RECORD_ALIGN. */
uint32_t once__record_size(const struct once__log_record *rec);
/* Writes exactly that many bytes and returns the record's check. */
uint64_t once__record_encode(const struct once__log_record *rec, uint8_t *ret_bytes);
/* bytes begin at the record; *ret_size is how many belong to it. Checks everything: sizes, check,
 * name, once__record_check. ONCE_ERR_DAMAGED. ret_check may be NULL. */
ONCE_MUST_CHECK int once__record_decode(struct once_bytes bytes, struct once__log_record *ret_rec,
                                        uint32_t *ret_size, uint64_t *ret_check,
                                        struct once_defect *ret_defect);
/* Is the record's check right, whatever it says? Then we wrote it so: a tear does not look like
 * this. */
bool once__record_intact(struct once_bytes bytes);
/* Size of the record that begins here, from its first bytes, or 0 if it cannot be one: to know how
 * much to read. */
enum { ONCE__RECORD_PEEK_SIZE = 16 };
uint32_t once__record_peek(const uint8_t bytes[ONCE__RECORD_PEEK_SIZE]);
/* Record bytes that we wrote ourselves and still hold in memory: decodes without checking. */
void once__record_view(const uint8_t *bytes, struct once__log_record *ret_rec, uint32_t *ret_size);
/* When a record that has ended may be given up, in whole seconds rounded up, since 1970; UINT32_MAX
 * beyond. */
static inline uint32_t once__expires_s(once_ms expires_ms)
{
    once_ms seconds = (expires_ms + 999) / 1000;

    return seconds < (once_ms)UINT32_MAX ? (uint32_t)seconds : UINT32_MAX;
}

/* Has it passed? What lies beyond the range never does. */
static inline bool once__expired(uint32_t expires_s, once_ms now_ms)
{
    return expires_s != UINT32_MAX && (once_ms)expires_s * 1000 <= now_ms;
}

/* The hash of a name under the store's secret. */
uint64_t once__name_hash(const uint8_t secret[ONCE__SECRET_SIZE], struct once_bytes ns,
                         struct once_bytes key);

/* ---- Sidecars -------------------------------------------------------------------------------- */

/* A record of the segment that was the newest of its name when the sidecar was made. */
struct once__sidecar_entry {
    uint64_t hash;      /* only the top 44 bits count and are kept; the others are 0 */
    uint32_t offset;    /* in bytes, of the record in the segment */
    uint32_t size;      /* of the record, in bytes */
    uint32_t expires_s; /* once__expires_s; 0 when open: never */
    bool open;          /* STARTED or DOUBT: never expires */
    bool absent;        /* a record that was forgotten: nothing live, but it hides older ones */
};
/* 16 bytes: hash 44 bits, offset/8 28, expires_s 32, size/8 22, open 1, absent 1. Packed words are
 * little-endian whatever the machine, as they lie in the file: compare them by
 * once__sidecar_order. */
void once__sidecar_entry_pack(const struct once__sidecar_entry *entry, uint64_t ret_words[2]);
void once__sidecar_entry_unpack(const uint64_t words[2], struct once__sidecar_entry *ret_entry);

/* A record of an older segment that one of this segment replaced. 8 bytes: how many segments before
 * (36 bits), offset/8 (28). */
struct once__sidecar_kill {
    uint64_t sequence;
    uint32_t offset;
};

struct once__sidecar_header {
    uint8_t store_id[ONCE__STORE_ID_SIZE];
    uint64_t sequence; /* of its segment */
    uint64_t chain;    /* check of the segment's last batch: the sidecar is of this very segment */
    uint32_t end;      /* offset behind the segment's last batch */
    uint32_t entry_count;
    uint32_t kill_count;
    uint32_t change_count; /* records with edits of objects in the segment */
};
enum { ONCE__SIDECAR_HEADER_SIZE = 64, ONCE__SIDECAR_ENTRY_SIZE = 16, ONCE__SIDECAR_KILL_SIZE = 8 };
/* The number by which entries are sorted, of an entry's first word: the hash is in its top. */
uint64_t once__sidecar_order(uint64_t word);
/* The file: header, entries in ascending hash order, kills, and an 8-byte check of all before it.
 * Appends a whole sidecar file to out (which must allow it). entries: packed words, 2 for each, in
 * the order of once__sidecar_order of the first. kills: packed by once__sidecar_kill_pack.
 * ONCE_ERR_FULL, ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__sidecar_encode(const struct once__sidecar_header *header,
                                         const uint64_t *entries, const uint64_t *kills,
                                         struct once_buf *out);
/* Checks the whole file, every entry and every kill, and gives its parts, pointing into bytes
 * (8-byte aligned memory). ONCE_ERR_VERSION, ONCE_ERR_DAMAGED. */
ONCE_MUST_CHECK int once__sidecar_decode(struct once_bytes bytes,
                                         struct once__sidecar_header *ret_header,
                                         const uint64_t **ret_entries, const uint64_t **ret_kills,
                                         struct once_defect *ret_defect);
uint64_t once__sidecar_kill_pack(uint64_t own_sequence, struct once__sidecar_kill kill);
struct once__sidecar_kill once__sidecar_kill_unpack(uint64_t own_sequence, uint64_t word);

/* ---- Snapshots of objects -------------------------------------------------------------------- */

#define ONCE__OBJECTS_NAME "objects"
#define ONCE__OBJECTS_NEW_NAME "objects.new"

/* A header, chunks, and an end. Written under the new name, synced, then renamed: so a snapshot is
 * whole, or damaged. All edits of the log from the beginning of segment `from` on, put over it,
 * make the objects of now. */
struct once__snapshot_header {
    uint8_t store_id[ONCE__STORE_ID_SIZE];
    uint64_t from;      /* sequence of the segment */
    uint64_t change;    /* the last change before it was begun */
    once_ms created_ms; /* store time */
    uint32_t flags;     /* enum once__snapshot_flags */
};
enum once__snapshot_flags {
    /* Written by `once check --repair`, without what was lost: changes may be missing in it and
     * behind it, and what does not fit for that is filled up or left out. */
    ONCE__SNAPSHOT_REPAIRED = 1
};
enum {
    ONCE__SNAPSHOT_HEADER_SIZE = 64,
    ONCE__SNAPSHOT_CHUNK_HEADER_SIZE = 16, /* size 4, 0 or 1 for the end 4, check 8 */
    ONCE__SNAPSHOT_END_SIZE = 24,          /* objects 8, change 8, chunks 8 */
    ONCE__SNAPSHOT_CHUNK_SIZE_MAX = 1 << 25
};
/* The last chunk. */
struct once__snapshot_end {
    uint64_t object_count; /* how many were written: those that come twice count twice */
    uint64_t change;       /* the last change that may be in it: the log must have it */
    uint64_t chunk_count;
};
void once__snapshot_header_encode(const struct once__snapshot_header *header,
                                  uint8_t ret_bytes[ONCE__SNAPSHOT_HEADER_SIZE]);
/* ONCE_ERR_VERSION, ONCE_ERR_DAMAGED. */
ONCE_MUST_CHECK int once__snapshot_header_decode(struct once_bytes bytes,
                                                 struct once__snapshot_header *ret_header,
                                                 struct once_defect *ret_defect);
/* The header of a chunk with these bytes, the number-th from 0. Its check covers the store, from
 * and number, so that no chunk of another snapshot, or place, can be taken for it. */
void once__snapshot_chunk_encode(const struct once__snapshot_header *header, uint64_t number,
                                 bool is_end, struct once_bytes bytes,
                                 uint8_t ret_bytes[ONCE__SNAPSHOT_CHUNK_HEADER_SIZE]);
struct once__snapshot_chunk {
    uint32_t size;
    bool is_end;
    uint64_t check;
};
ONCE_MUST_CHECK int
once__snapshot_chunk_decode(const uint8_t bytes[ONCE__SNAPSHOT_CHUNK_HEADER_SIZE],
                            struct once__snapshot_chunk *ret_chunk, struct once_defect *ret_defect);
bool once__snapshot_chunk_good(const struct once__snapshot_header *header, uint64_t number,
                               const struct once__snapshot_chunk *chunk, struct once_bytes bytes);
void once__snapshot_end_encode(const struct once__snapshot_end *end,
                               uint8_t ret_bytes[ONCE__SNAPSHOT_END_SIZE]);
void once__snapshot_end_decode(const uint8_t bytes[ONCE__SNAPSHOT_END_SIZE],
                               struct once__snapshot_end *ret_end);

/* ---- Names of files -------------------------------------------------------------------------- */

void once__segment_name(uint32_t slot, char ret_name[ONCE__NAME_SIZE]); /* "00002a.seg" */
void once__sidecar_name(uint32_t slot, char ret_name[ONCE__NAME_SIZE]); /* "00002a.idx" */
/* False when the name is not that of a segment or sidecar. */
bool once__name_slot(const char *name, bool *ret_is_segment, uint32_t *ret_slot);

static inline uint64_t once__place(uint32_t slot, uint32_t offset)
{
    return (uint64_t)slot << ONCE__OFFSET_BITS | offset / ONCE__RECORD_ALIGN;
}
static inline uint32_t once__place_slot(uint64_t place)
{
    return (uint32_t)(place >> ONCE__OFFSET_BITS);
}
static inline uint32_t once__place_offset(uint64_t place)
{
    return (uint32_t)(place & ((1U << ONCE__OFFSET_BITS) - 1)) * ONCE__RECORD_ALIGN;
}

#endif
