/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the check share.
 *
 *     check.c          the folder, the store file, the findings
 *     check_log.c      the log from its newest segment to its oldest, the chain
 *     check_find.c     which file holds a segment, and what stands in for a missing one
 *     check_segment.c  one segment: its batches, and what stands in for damaged ones
 *     check_loss.c     what a damaged stretch has lost
 *     check_sidecar.c  one sidecar against its segment
 *     check_objects.c  the snapshot of objects, and the changes of the log over it
 *     repair.c         what the findings say is done
 *
 * A damaged stretch is planned over at once: a *patch* is the block that a repair will write there.
 * The rest of the check reads the segment through its patches, so one walk finds everything, and
 * what it verifies is what the repair will leave behind.
 */
#ifndef ONCE_ENGINE_CHECK_INNER_H
#define ONCE_ENGINE_CHECK_INNER_H

#include "engine/check.h"
#include "engine/scan.h"
#include "engine/snapshot_scan.h"

enum {
    ONCE__PATCHES_MAX = 64, /* of one segment in one check; a repair goes on with the next check */
    ONCE__CHECK_CHUNK_SIZE = 1 << 20
};

/* A GIVEN_UP batch that stands in for damage. */
struct once__patch {
    uint32_t offset;
    uint32_t lost_end;   /* up to here the stretch held batches of this segment's life */
    uint64_t first_lost; /* number of the first batch that it stands for; 0: the segment's first */
    uint64_t changes;    /* of objects that are missing behind it */
    struct once_defect defect;
    struct once__batch_header batch;
};

/* A record that was replaced by a later one. */
struct once__kill {
    uint64_t sequence; /* of the one that was replaced */
    uint32_t offset;
    uint32_t hash; /* the upper half of the name's hash */
};
struct once__kills {
    struct once__kill *items;
    size_t count, capacity;
};

/* A record of the segment that is being looked at. */
struct once__seen {
    uint64_t hash;
    uint32_t offset;
    uint32_t size;
    uint32_t expires_s;
    bool open, absent;
    bool listed; /* in the sidecar */
};
struct once__seens {
    struct once__seen *items;
    size_t count, capacity;
};

struct once__check_segment {
    uint32_t slot;
    bool present;     /* has a file; else a repair makes it */
    bool rebuilt;     /* the header is made up: from its batches and its neighbours */
    bool first_known; /* header.first_batch and chain are certain */
    bool end_known;   /* header.previous_end is certain */
    bool needed;      /* part of the log, from oldest to newest */
    bool has_sidecar;
    bool delete_sidecar;
    bool stray;       /* a repair makes it a spare */
    bool gaps;        /* something in it is given up, now or before */
    uint32_t changes; /* records with edits of objects */
    uint64_t file_size;
    uint64_t said;  /* the sequence that its header on disk says; 0 when there is no good one */
    int header_err; /* of the header as it is on disk */
    struct once_defect header_defect;
    struct once__segment_header header;
    struct once__scan scan;
    struct once__batch_header first; /* first good batch, when scan.batch_count > 0 */
    struct once__patch *patches;
    size_t patch_count;
    bool more_damage;         /* than patches */
    uint32_t torn_end;        /* behind the last batch that was under way; 0 when there is none */
    struct once__kills kills; /* of records in here */
};

/* A stretch of the segment at hand that was given up, now or before. */
struct once__given {
    uint32_t offset, end;
};
struct once__givens {
    struct once__given *items;
    size_t count, capacity;
};

struct once__check {
    struct once__vfs *vfs;
    struct once__store_file file;
    bool store_bad;
    bool lossy;        /* something in the part of the log that was walked so far is given up */
    bool told_objects; /* the last batch says that there is a snapshot of objects */
    bool has_snapshot; /* there is a file of that name */
    bool new_snapshot; /* a repair writes it again */
    struct once__snapshot_scan snapshot;
    uint64_t first_change; /* in the log; 0: there is none */
    /* By sequence, those without one first; behind sorted_count those that a repair makes. */
    struct once__check_segment **segments;
    size_t segment_count, segment_capacity, sorted_count;
    struct once__check_segment **log; /* the newest first */
    size_t log_count, log_capacity;
    uint64_t proof;            /* every batch up to here was durable */
    struct once__kills *kills; /* of records in each segment from oldest to newest */
    size_t kills_count;
    once_ms now_ms; /* of the last batch */
    struct once__finding *findings;
    size_t finding_count, finding_capacity;
    struct once__seens seens;  /* of the segment at hand */
    struct once__kills killed; /* by records of the segment at hand */
    struct once__givens givens;
    struct once__check_summary summary;
    void (*progress)(void *user, uint64_t done, uint64_t all); /* NULL: nobody */
    void *user;
};

/* Room for one more item of an array that grows. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__check_grow(void *items_pointer, size_t count, size_t *capacity,
                                     size_t item_size);
/* Adds a finding about this segment (NULL: about none); the caller may fill in more. NULL without
 * memory. */
struct once__finding *once__check_add(struct once__check *check, enum once__finding_kind kind,
                                      enum once__remedy remedy,
                                      const struct once__check_segment *segment);
/* Takes findings about segments from this sequence on back, for they are no part of the log. */
void once__check_retract(struct once__check *check, uint64_t sequence);
/* Writes what of a finding. */
void once__check_say(struct once__finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- check_log.c ----------------------------------------------------------------------------- */

/* Walks the log from its newest segment to its oldest: everything but the folder's list and the
 * store file. */
ONCE_MUST_CHECK int once__check_log(struct once__check *check);

/* ---- check_find.c ---------------------------------------------------------------------------- */

/* Sorts the segments by what their headers say. */
void once__check_sort(struct once__check *check);
/* The newest and the lowest sequence that a header says; 0 when there is none. */
uint64_t once__check_newest(const struct once__check *check);
uint64_t once__check_lowest(const struct once__check *check);
/* The segment whose header says this sequence (of several the newest), or NULL. */
struct once__check_segment *once__check_find(const struct once__check *check, uint64_t sequence);
/* Looks for the sequence among the files without a good header. quick looks at the first batch
 * only, unless the header says that it was one. NULL when there is none. */
ONCE_MUST_CHECK int once__check_adopt(struct once__check *check, uint64_t sequence, bool quick,
                                      struct once__check_segment **ret_segment);
/* The segment of this sequence: as it is, with a header made again, or made. */
ONCE_MUST_CHECK int once__check_take(struct once__check *check, uint64_t sequence,
                                     struct once__check_segment **ret_segment);

/* ---- check_segment.c ------------------------------------------------------------------------- */

/* What is known from the segment behind, when there is one. */
struct once__neighbour {
    bool there;
    bool newest;
    bool first_known; /* first_batch and chain */
    bool end_known;   /* previous_end */
    uint64_t first_batch;
    uint64_t chain;
    uint32_t previous_end;
    const struct once__batch_header *first; /* its first batch, or NULL */
};

/* Walks the segment, plans patches over damage, and fills seens and killed. */
ONCE_MUST_CHECK int once__check_walk(struct once__check *check, struct once__check_segment *segment,
                                     const struct once__neighbour *next);
/* Walks the segment again, as a repair will leave it. */
ONCE_MUST_CHECK int once__check_rewalk(const struct once__check *check,
                                       const struct once__check_segment *segment,
                                       const struct once__scan_visitor *visitor);
/* Encodes the header of a rebuilt or made segment, or one patch, as it will be written. */
void once__check_header_block(const struct once__check_segment *segment, uint8_t *ret_block);
void once__check_patch_block(const struct once__check_segment *segment,
                             const struct once__patch *patch, uint8_t *ret_block);
/* What a file has of the batches of a segment. quick gives up when the first is not in its place.
 */
struct once__probe {
    bool found;
    uint32_t offset; /* of the first that can be read */
    struct once__batch_header header;
    uint64_t durable; /* the highest that any of them tells */
    uint64_t last;    /* number of the last one in the file */
    uint64_t check;   /* what the batch behind that one repeats */
};
ONCE_MUST_CHECK int once__check_probe(struct once__file *file, const struct once__store_file *store,
                                      uint64_t sequence, bool quick, struct once__probe *ret_probe);
/* Reads all that the disk gives; a block that it cannot give is zeros. */
ONCE_MUST_CHECK int once__check_read(struct once__file *file, uint64_t offset, uint8_t *data,
                                     size_t size);
ONCE_MUST_CHECK int once__check_open(const struct once__check *check,
                                     const struct once__check_segment *segment, unsigned flags,
                                     struct once__file **ret_file);

bool once__kills_has(const struct once__kills *kills, uint32_t offset);
void once__kills_sort(struct once__kills *kills);

/* ---- check_loss.c ---------------------------------------------------------------------------- */

/* Counts what giving up a patch's stretch loses, and tells (each may be NULL) which operations. */
ONCE_MUST_CHECK int once__check_loss(const struct once__check *check,
                                     const struct once__check_segment *segment,
                                     const struct once__patch *patch,
                                     void (*each)(void *user, const struct once__lost *lost),
                                     void *user, struct once__loss *ret_loss);

/* ---- check_objects.c ------------------------------------------------------------------------- */

/* Reads the snapshot and puts the changes of the log over it, as a recovery does after the repair;
 * after the walk, before what is lost is told. */
ONCE_MUST_CHECK int once__check_objects(struct once__check *check);

/* ---- check_sidecar.c ------------------------------------------------------------------------- */

/* Compares the segment's sidecar with seens and killed. */
ONCE_MUST_CHECK int once__check_sidecar(struct once__check *check,
                                        struct once__check_segment *segment);
/* Live records that a sidecar lists for a segment that cannot be read; what that segment replaced
 * is added to killed. */
ONCE_MUST_CHECK int once__check_sidecar_count(struct once__check *check, uint64_t sequence,
                                              const struct once__kills *kills, bool *ret_found,
                                              uint64_t *ret_count);

#endif
