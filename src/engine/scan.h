/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the batches of one segment from its bytes, in order, and says where and why it had to stop.
 * Used by recovery, `once check`, `once inspect`, `once backup` and a fuzzer. Reads only.
 */
#ifndef ONCE_ENGINE_SCAN_H
#define ONCE_ENGINE_SCAN_H

#include "engine/format.h"
#include "engine/vfs.h"

/* How the walk over a segment ended. */
enum once__scan_end {
    ONCE__SCAN_WHOLE,  /* at the end that was expected, or no more batch fits */
    ONCE__SCAN_TORN,   /* behind the last good batch is nothing that proves a durable one there */
    ONCE__SCAN_DAMAGED /* something later in the segment proves that a batch here was durable */
};

struct once__scan_batch {
    uint32_t offset; /* in the segment */
    struct once__batch_header header;
    uint64_t check;
};

struct once__scan {
    struct once__segment_header header;
    uint32_t end;        /* offset behind the last good batch */
    uint64_t chain;      /* what the next batch must repeat: check of the last good batch, or what
                          * a GIVEN_UP one says; the header's chain if there is none */
    uint64_t next_batch; /* number that the next batch must have */
    struct once__batch_header
        last; /* the last good batch's header; count etc. 0 if there is none */
    uint64_t batch_count;
    uint64_t record_count;
    enum once__scan_end ended;
    uint32_t bad_offset; /* TORN, DAMAGED: where the first bad batch is */
    /* DAMAGED: the next batch behind it with a good header, or where the segment ends (known_end,
     * else its size); a GIVEN_UP batch from bad_offset to here, with the number before good's and
     * good's chain as next_chain, makes the segment whole again up to here. */
    uint32_t good_offset;
    struct once__batch_header good; /* DAMAGED: that header; all zero if there is none */
    uint64_t proof; /* DAMAGED: the highest number known to be durable, from here or elsewhere */
    struct once_defect defect; /* TORN, DAMAGED: why it is bad; offset is in the segment */
};

/* What a walk calls; either may be NULL; a result other than ONCE_OK stops it and is returned.
 * A batch comes before its records. Bytes of a record are there until its call returns. */
struct once__scan_visitor {
    int (*batch)(void *user, const struct once__scan_batch *batch);
    int (*record)(void *user, uint32_t offset, uint32_t size, const struct once__log_record *rec);
    void *user;
};

/* Walks the segment in file, of segment_size bytes, whose header is good and has this store's id
 * (store_id NULL: any). known_end is the offset where it must end when that is known (the next
 * segment's previous_end), else 0; a bad batch before it is damage. durable is a batch number known
 * to be durable from elsewhere, or 0. Bytes that the file is short of are zeros.
 * Calls the visitor for good batches only, each after all of its records were checked.
 * ONCE_ERR_NO_STORE, ONCE_ERR_VERSION, ONCE_ERR_DAMAGED (the header), ONCE_ERR_IO, ONCE_ERR_MEMORY,
 * or what the visitor said; ret_scan is written also then: how far the walk came, and its defect
 * says what is wrong with the header. A bad batch is not an error: see ended. */
struct once__scan_input {
    struct once__file *file; /* opened DURABLE, DIRECT or plainly: reads are aligned */
    const uint8_t *store_id;
    uint32_t segment_size;
    uint32_t known_end;
    uint64_t durable;
};
ONCE_MUST_CHECK int once__scan_segment(const struct once__scan_input *input,
                                       const struct once__scan_visitor *visitor,
                                       struct once__scan *ret_scan);

#endif
