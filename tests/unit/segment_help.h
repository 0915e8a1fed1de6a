/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the engine's format: a segment that is built in memory, a file that reads it, and
 * records made from a number. Every segment lies in a heap block of its own size, so the address
 * sanitizer sees a step outside.
 */
#ifndef ONCE_TESTS_SEGMENT_HELP_H
#define ONCE_TESTS_SEGMENT_HELP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/scan.h"

#define HELP_MUST(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { HELP_SEGMENT_SIZE = ONCE_SEGMENT_SIZE_MIN, HELP_WRITTEN_MAX = 256 };

static const once_ms help_now_ms = 1700000000000LL;

/* ---- Files ----------------------------------------------------------------------------------- */

struct help_file {
    struct once__file file;
    const uint8_t *bytes;
    size_t size;
    int err;         /* of the next reads */
    size_t reads;    /* calls so far */
    bool misaligned; /* a read was not of whole blocks into aligned memory */
};

static inline int help_file_read(struct once__file *file, uint64_t offset, void *data, size_t size,
                                 size_t *ret_size)
{
    struct help_file *self = (struct help_file *)file;
    size_t left = offset < self->size ? self->size - (size_t)offset : 0;

    self->reads++;
    if (offset % ONCE_BLOCK_SIZE != 0 || size % ONCE_BLOCK_SIZE != 0 ||
        (uintptr_t)data % ONCE_BLOCK_SIZE != 0)
        self->misaligned = true;
    if (self->err != ONCE_OK)
        return self->err;
    *ret_size = size < left ? size : left;
    if (*ret_size > 0)
        memcpy(data, self->bytes + offset, *ret_size);
    return ONCE_OK;
}

static const struct once__file_ops help_file_ops = {.read = help_file_read};

static inline struct help_file help_file_of(const uint8_t *bytes, size_t size)
{
    return (struct help_file){.file = {.ops = &help_file_ops}, .bytes = bytes, .size = size};
}

/* ---- Segments -------------------------------------------------------------------------------- */

/* Where a record was written. */
struct help_written {
    uint32_t offset;
    uint32_t size;
    uint64_t batch;
};

struct help_segment {
    uint8_t *bytes;
    struct once__segment_header header;
    uint32_t end;
    uint64_t chain;
    uint64_t number;  /* of the next batch */
    uint64_t durable; /* what the next batch says */
    uint64_t last_fence;
    uint64_t oldest;
    once_ms now_ms;
    struct help_written written[HELP_WRITTEN_MAX];
    size_t written_count;
};

static inline struct once__segment_header help_header(uint64_t sequence)
{
    struct once__segment_header header = {
        .segment_size = HELP_SEGMENT_SIZE,
        .sequence = sequence,
        .first_batch = sequence == 1 ? 1 : 100 * sequence,
        .chain = sequence == 1 ? 0 : 0x1122334455667788ULL + sequence,
        .previous_end = sequence == 1 ? 0 : 5 * ONCE_BLOCK_SIZE,
        .created_ms = help_now_ms,
        .salt = 0x5a17 + sequence,
    };

    for (int i = 0; i < ONCE__STORE_ID_SIZE; i++)
        header.store_id[i] = (uint8_t)i;
    return header;
}

/* Begins a segment over what the memory holds: NULL for new memory, all zero. */
static inline void help_segment_init(struct help_segment *seg, struct once__segment_header header,
                                     uint8_t *bytes)
{
    *seg = (struct help_segment){
        .bytes = bytes ? bytes : calloc(1, header.segment_size),
        .header = header,
        .end = ONCE__SEGMENT_HEADER_SIZE,
        .chain = header.chain,
        .number = header.first_batch,
        .durable = header.first_batch - 1,
        .oldest = header.sequence,
        .now_ms = header.created_ms,
    };
    HELP_MUST(seg->bytes);
    once__segment_header_encode(&header, seg->bytes);
}

static inline void help_segment_release(struct help_segment *seg)
{
    free(seg->bytes);
    *seg = (struct help_segment){0};
}

static inline uint32_t help_batch_size(const struct once__log_record *recs, size_t count)
{
    uint32_t size = ONCE__BATCH_HEADER_SIZE;

    for (size_t i = 0; i < count; i++)
        size += once__record_size(&recs[i]);
    return size;
}

static inline bool help_batch_fits(const struct help_segment *seg,
                                   const struct once__log_record *recs, size_t count)
{
    return once__batch_disk_size(help_batch_size(recs, count)) <=
           seg->header.segment_size - seg->end;
}

/* Writes a batch at the end. durable moves as with one write under way at a time: the batch before
 * is durable when this one is made; set seg->durable after a call for anything else. */
static inline struct once__batch_header help_batch(struct help_segment *seg,
                                                   const struct once__log_record *recs,
                                                   size_t count, uint32_t flags)
{
    uint8_t *at = seg->bytes + seg->end;
    struct once__batch_header header = {
        .size = help_batch_size(recs, count),
        .count = (uint32_t)count,
        .sequence = seg->header.sequence,
        .number = seg->number,
        .durable = seg->durable,
        .chain = seg->chain,
        .oldest = seg->oldest,
        .now_ms = seg->now_ms,
        .flags = flags,
    };
    uint32_t size = ONCE__BATCH_HEADER_SIZE, disk_size = once__batch_disk_size(header.size);

    HELP_MUST(disk_size <= seg->header.segment_size - seg->end);
    HELP_MUST(seg->written_count + count <= HELP_WRITTEN_MAX);
    for (size_t i = 0; i < count; i++) {
        if (recs[i].record.fence > seg->last_fence)
            seg->last_fence = recs[i].record.fence;
        header.records = once__fold(header.records, once__record_encode(&recs[i], at + size));
        seg->written[seg->written_count++] = (struct help_written){
            .offset = seg->end + size, .size = once__record_size(&recs[i]), .batch = seg->number};
        size += once__record_size(&recs[i]);
    }
    HELP_MUST(size == header.size);
    memset(at + size, 0, disk_size - size);
    header.last_fence = seg->last_fence;
    seg->chain = once__batch_header_encode(&header, seg->header.salt, at);
    seg->end += disk_size;
    seg->durable = seg->number++;
    return header;
}

/* ---- Records --------------------------------------------------------------------------------- */

static inline uint64_t help_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* Up to max bytes out of a fixed pool; often none, sometimes exactly max. */
static inline struct once_bytes help_random_bytes(uint64_t *state, size_t min, size_t max)
{
    static uint8_t pool[ONCE_KEY_SIZE_MAX * 16];
    uint64_t choice = help_random(state) % 8;
    size_t size = choice == 0   ? max
                  : choice <= 2 ? min
                                : min + (size_t)(help_random(state) % (max - min + 1));
    size_t room = sizeof pool - max;

    HELP_MUST(max < sizeof pool);
    for (size_t i = 0; pool[1] == 0 && i < sizeof pool; i++)
        pool[i] = (uint8_t)(i * 167 + 13);
    return (struct once_bytes){.data = pool + help_random(state) % room, .size = size};
}

/* A record that may stand in the log. data and result have up to payload_max bytes. */
static inline struct once__log_record help_random_record(uint64_t *state, size_t payload_max)
{
    struct once__log_record rec = {
        .ns = help_random_bytes(state, 1, ONCE_NAMESPACE_SIZE_MAX),
        .key = help_random_bytes(state, 1, ONCE_KEY_SIZE_MAX),
    };
    struct once_record *r = &rec.record;

    r->state = (enum once_state)(help_random(state) % 5);
    if (r->state == ONCE_STATE_ABSENT)
        return rec;
    r->attempt = 1 + (uint32_t)(help_random(state) % ONCE_ATTEMPT_MAX);
    r->fence = 1 + help_random(state) % ONCE_FENCE_MAX;
    r->created_ms = (once_ms)(help_random(state) % ONCE_NOW_MS_MAX);
    r->lease_end_ms = (once_ms)(help_random(state) % (ONCE_TIME_MS_MAX + 1));
    r->retention_ms = 1 + (once_ms)(help_random(state) % ONCE_RETENTION_MS_MAX);
    r->expires_ms = r->created_ms + r->retention_ms;
    r->code = (int32_t)(uint32_t)help_random(state);
    if (help_random(state) % 2) {
        uint64_t word = help_random(state) | 1;

        memcpy(r->fingerprint.bytes + 8 * (help_random(state) % 4), &word, sizeof word);
    }
    r->owner = help_random_bytes(state, 0, ONCE_OWNER_SIZE_MAX);
    r->point = help_random_bytes(state, 0, ONCE_POINT_SIZE_MAX);
    r->data = help_random_bytes(state, 0, payload_max);
    r->result = help_random_bytes(state, 0, payload_max);
    return rec;
}

static inline bool help_bytes_same(struct once_bytes a, struct once_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool help_record_same(const struct once__log_record *a,
                                    const struct once__log_record *b)
{
    const struct once_record *x = &a->record, *y = &b->record;

    return help_bytes_same(a->ns, b->ns) && help_bytes_same(a->key, b->key) &&
           a->change == b->change && help_bytes_same(a->edits, b->edits) &&
           a->previous_sequence == b->previous_sequence &&
           a->previous_offset == b->previous_offset && x->state == y->state &&
           x->attempt == y->attempt && x->fence == y->fence && x->created_ms == y->created_ms &&
           x->lease_end_ms == y->lease_end_ms && x->retention_ms == y->retention_ms &&
           x->expires_ms == y->expires_ms && x->code == y->code &&
           memcmp(&x->fingerprint, &y->fingerprint, sizeof x->fingerprint) == 0 &&
           help_bytes_same(x->owner, y->owner) && help_bytes_same(x->point, y->point) &&
           help_bytes_same(x->data, y->data) && help_bytes_same(x->result, y->result);
}

#endif
