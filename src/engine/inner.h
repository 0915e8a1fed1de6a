/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the engine: what its files share. One lock guards everything in here, but what the
 * comments name otherwise.
 *
 *     operate.c   a call meets its record, the core decides, the next record goes to the log
 *     log.c       records become batches, batches become durable writes, in one chain
 *     commit.c    who writes them, who waits for them, who is told
 *     segment.c   the segments: slots, files, what is still needed of each
 *     space.c     what may be admitted so that all that was admitted can finish (INV-7)
 *     sidecar.c   the summary of a segment, kept for a restart
 *     retire.c    expiry: whole segments, after what outlives them was carried to the tail
 *     recover.c   from the files to all of this
 *     keeper.c    the work behind the scenes
 *     list.c      looking at many
 *     apply.c     effects on objects: staged, written with the key's record, put into memory
 *     snapshot.c  all objects, written to disk while they change
 *     look.c      objects as others see them
 *     engine.c    opening, closing, numbers
 */
#ifndef ONCE_ENGINE_INNER_H
#define ONCE_ENGINE_INNER_H

#include <pthread.h>
#include <semaphore.h>

#include "base/assert.h"
#include "core/decide.h"
#include "engine/clock.h"
#include "engine/engine.h"
#include "engine/format.h"
#include "engine/index.h"
#include "engine/mutant.h"
#include "engine/vfs.h"
#include "object/object.h"
#include "object/stage.h"
#include "store/store.h"

/* ---- Segments -------------------------------------------------------------------------------- */

enum once__segment_state {
    ONCE__SEGMENT_NONE,   /* no file */
    ONCE__SEGMENT_BUSY,   /* the keeper is making or removing the file */
    ONCE__SEGMENT_SPARE,  /* a file of full size, nothing in it is needed */
    ONCE__SEGMENT_ACTIVE, /* the one that is written to: the newest */
    ONCE__SEGMENT_SEALED  /* whole; read only until it is retired */
};

/* What is still needed of a segment, by when it expires: class 0 is open and never does; class n
 * expires within 2^n seconds after the segment was begun, so that few classes tell precisely when
 * most of it is dead. */
enum { ONCE__CLASS_COUNT = 33 };
struct once__class {
    uint32_t size;      /* bytes of live records */
    uint32_t expires_s; /* the latest of them, ever */
};

/* The summary of a segment: what its sidecar will say. */
struct once__summary {
    uint64_t *entries; /* packed, 2 words each, in log order */
    size_t entry_count, entry_capacity;
    uint64_t *kills; /* packed */
    size_t kill_count, kill_capacity;
    uint64_t *replaced; /* a bit for each 8 bytes of the segment: the record there has a successor
                         * in the same segment. Successors in later ones do not count: they may
                         * not be durable when the sidecar is written, and list it themselves */
    uint32_t changes;   /* records with edits of objects */
    bool gaps;          /* something in the segment was given up: it gets no sidecar, so that every
                         * opening sees that; see recover_twins.c */
};

/* A slot: a file, and the segment that it holds now. */
struct once__segment {
    enum once__segment_state state;
    bool filled;       /* SPARE: written before, so that writing costs no metadata */
    bool blank;        /* SPARE: found at opening, and never used before */
    bool summarised;   /* SEALED: has its sidecar */
    uint64_t sequence; /* ACTIVE, SEALED */
    uint64_t chain;    /* SEALED: check of its last batch */
    uint32_t end;      /* SEALED: offset behind its last batch */
    uint32_t begun_s;  /* store time in seconds when it was begun */
    uint32_t changes;  /* records with edits of objects: needed until a snapshot has them */
    uint8_t *image;    /* its content in memory; the active segment and the one before have it */
    uint32_t writes;   /* durable writes queued or under way */
    struct once__file *file;       /* for durable writes: ACTIVE, and SEALED while writes > 0 */
    struct once__summary *summary; /* until it is summarised */
    struct once__class classes[ONCE__CLASS_COUNT];
};

/* ---- The log --------------------------------------------------------------------------------- */

/* A durable write: a closed batch, or the header of a new segment. */
struct once__write {
    struct once__file *file;
    const uint8_t *bytes;
    uint32_t slot;
    uint32_t offset;
    uint32_t size;   /* whole blocks */
    uint64_t number; /* of the batch; of the one before for a header */
    uint64_t end;    /* position behind it */
    uint32_t count;  /* records */
    once_ms now_ms;  /* store time in the batch */
    enum { ONCE__WRITE_FREE, ONCE__WRITE_QUEUED, ONCE__WRITE_RUNNING, ONCE__WRITE_DONE } state;
};

enum { ONCE__WRITES_MAX = 64 }; /* in the queue; a power of two */

struct once__log {
    uint32_t active; /* slot */
    uint8_t *images[2];
    uint64_t sequence; /* of the active segment */
    uint64_t salt;     /* of the active segment's checks */
    uint64_t life;     /* of this opening: in every batch */
    uint64_t oldest;   /* sequence of the oldest segment that is still needed */

    /* The open batch: from batch_offset in the active segment. Records end at append_offset. */
    uint32_t batch_offset;
    uint32_t append_offset;
    uint32_t batch_count;
    uint64_t batch_fold;
    bool mark; /* write it even without records: it carries time, or what is oldest */
    bool closing;

    uint64_t next_number;
    uint64_t chain;          /* check of the last closed batch */
    uint64_t durable_number; /* every batch up to here is durable */
    uint64_t proved_number;  /* what batches say of it: without durability nothing is */
    uint64_t durable;        /* position: everything before it is durable */
    once_ms durable_ms;      /* store time in the last durable batch */
    uint64_t last_fence;

    /* The queue: first..last, in log order. durable advances over what is DONE at its head. */
    struct once__write writes[ONCE__WRITES_MAX];
    uint32_t first, last; /* free-running */
    uint32_t running;
    uint32_t retries; /* of a mutant */
    int failed;       /* an error: nothing more is written or told (INV-8) */
};

/* ---- The engine ------------------------------------------------------------------------------ */

/* A thread in a blocking call. */
struct once__waiter {
    sem_t wake;
    uint64_t position; /* what it waits for */
    bool durable;      /* when it is woken: it is */
    struct once__waiter *next;
};

/* A segment on its way out. */
struct once__retiring {
    enum {
        ONCE__RETIRE_IDLE,
        ONCE__RETIRE_CARRY, /* taking entry after entry out of the index, or to the tail */
        ONCE__RETIRE_SETTLE /* what was carried, and that it is not needed, become durable */
    } phase;
    uint64_t sequence;
    uint32_t slot;
    struct once__summary *summary;
    size_t next;       /* entry */
    uint64_t position; /* SETTLE: what to wait for */
    once_ms judged_ms; /* durable store time by which entries are dead */
};

/* A snapshot on its way. The keeper's alone, but for what it reads under the lock. */
struct once__snapshotting {
    enum {
        ONCE__SNAPSHOT_IDLE,
        ONCE__SNAPSHOT_WRITE,  /* object after object */
        ONCE__SNAPSHOT_SETTLE, /* everything that may be in it becomes durable in the log */
        ONCE__SNAPSHOT_COMMIT  /* then it takes the place of the one before */
    } phase;
    struct once__file *file;
    struct once__snapshot_header header;
    struct once__snapshot_end end;
    uint64_t size;     /* written so far */
    uint64_t count;    /* objects there were when it was begun */
    uint64_t index;    /* of the object to write next, */
    uint64_t part;     /* and the part of it */
    uint64_t position; /* SETTLE: what to wait for */
    struct once_buf chunk;
};

/* Objects: <once/apply.h>. */
struct once__object_state {
    struct once__objects *table;
    struct once__recent *recent;
    struct once__stage *stage;
    uint64_t change;        /* number of the last change */
    uint64_t position;      /* behind it: who tells anything of objects waits for this (INV-2) */
    bool has_snapshot;      /* one is durable for certain */
    uint64_t from;          /* edits of segments from here on are not in the snapshot on disk */
    uint64_t proved;        /* nor in any that may be there after a power cut: of the one that was
                             * found at opening nobody knows whether its name is durable (INV-8) */
    uint64_t snapshot_size; /* of that one */
    bool wanted;            /* a snapshot would let segments go, and space is short */
    bool unlucky;           /* one could not be written; tried again when the keeper has slept */
    struct once__snapshotting snapshotting;
};

enum { ONCE__COLD_MARKS = 256 }; /* a power of two */

struct once__engine {
    struct once_store store; /* first */
    struct once__vfs *vfs;
    struct once__clock clock;
    struct once_options options;
    struct once__store_file file;
    uint32_t segment_size;
    bool manual;

    pthread_mutex_t lock;
    bool stop;         /* threads shall end */
    bool crashed;      /* nothing more is told */
    once_ms now_ms;    /* the latest store time that was used */
    uint32_t now_uses; /* it may be used this often before the clock is read again */

    struct once__index *index;
    struct once__segment **segments; /* by slot; NULL where none was ever */
    uint32_t segment_count;          /* slots ever used */
    uint32_t segment_capacity;
    uint32_t *sequence_slots; /* slot of sequence s at s & (capacity - 1) */
    uint32_t sequence_capacity;
    uint32_t spare_count, filled_count, file_count;

    struct once__log log;
    struct once__object_state objects;

    uint64_t reserved;        /* bytes that open operations need to end */
    uint32_t reserve_largest; /* of one of them, ever */

    /* Blocking callers, who came last first; submitted operations, in order. */
    struct once__waiter *waiters;
    struct once_op *submitted, **submitted_tail;
    /* Submitted and not decided yet, in order: they need a record from disk, or room. One thread at
     * a time decides them, and what is submitted for the same key meanwhile (cold_marks, by hash)
     * goes behind them; behind one that needs room (cold_full) goes everything. */
    struct once_op *cold, **cold_tail;
    uint32_t cold_marks[ONCE__COLD_MARKS];
    bool cold_full;
    bool cold_deciding;
    uint32_t submitted_count;
    uint64_t submitted_size; /* results that were decided and not told: over the bound further ones
                              * are cold, and wait to be decided */
    bool telling;            /* a thread is calling back */
    pthread_cond_t work;     /* for the writers: something to write or to tell */
    uint32_t writers_idle;
    pthread_t writers[ONCE_BATCHES_IN_FLIGHT_MAX];
    uint32_t writer_count;
    pthread_cond_t chores; /* for the keeper */
    bool chore;
    pthread_t keeper;
    bool keeper_started;
    bool rested; /* the keeper has slept once: this store was not opened for a moment only, and
                  * spares filled ahead are worth their writing */
    once_ms flushed_boot_ms; /* INTERVAL: when */

    struct once__retiring retiring;
    bool gaps;             /* some segment has them */
    uint32_t unsummarised; /* sealed segments that shall get a sidecar */
    bool no_spare;         /* a spare could not be made; tried again when the keeper has slept */
    struct once__file *readers[ONCE_OPEN_FILES_MAX]; /* guarded by readers_lock */
    uint32_t reader_slots[ONCE_OPEN_FILES_MAX];
    uint32_t reader_users[ONCE_OPEN_FILES_MAX];
    uint32_t reader_next;
    pthread_mutex_t readers_lock;

    uint64_t write_us; /* how long writes took lately */
    struct once_stats counts;
};

static inline struct once__engine *once__engine_of(struct once_store *store)
{
    return (struct once__engine *)(void *)store;
}

/* ---- segment.c ------------------------------------------------------------------------------- */

/* The slot of a sequence from oldest to the newest. */
uint32_t once__segment_slot(const struct once__engine *engine, uint64_t sequence);
/* Remembers which slot holds a sequence. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__segment_bind(struct once__engine *engine, uint64_t sequence,
                                       uint32_t slot);
/* A slot without a file, BUSY from now on. ONCE_ERR_FULL, ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__segment_new_slot(struct once__engine *engine, uint32_t *ret_slot);
/* Takes in a slot that a file has. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__segment_take_slot(struct once__engine *engine, uint32_t slot);
/* Makes a file of full size for a BUSY slot, makes it durable and closes it, and then makes its
 * name durable; none of them needs the lock. once__segment_made, with the lock, is told how it
 * went. ONCE_ERR_STOPPED: a sync failed, and a later one would prove nothing of the same file
 * (INV-8). */
ONCE_MUST_CHECK int once__segment_make_file(struct once__engine *engine, uint32_t slot, bool fill,
                                            struct once__file **ret_file);
ONCE_MUST_CHECK int once__segment_sync_file(struct once__engine *engine, uint32_t slot,
                                            struct once__file *file);
ONCE_MUST_CHECK int once__segment_sync_names(struct once__engine *engine);
void once__segment_made(struct once__engine *engine, uint32_t slot, int err, bool filled);
/* A spare to write to next, filled if there is one. False when there is none. */
bool once__segment_find_spare(const struct once__engine *engine, bool filled_only,
                              uint32_t *ret_slot);

/* A record's part in what is needed of its segment. */
struct once__weight {
    uint32_t size;
    uint32_t expires_s;
    bool open;
    bool absent;
};
struct once__weight once__weight_of(const struct once_record *record, uint32_t size);
void once__segment_gain(struct once__segment *segment, struct once__weight weight);
void once__segment_lose(struct once__segment *segment, struct once__weight weight);
/* Bytes that are needed at this time, at most. */
uint64_t once__segment_live(const struct once__segment *segment, once_ms now_ms);

/* Reads bytes of a sealed segment without the lock. */
ONCE_MUST_CHECK int once__segment_read(struct once__engine *engine, uint32_t slot, uint32_t offset,
                                       void *data, size_t size, size_t *ret_size);
/* Forgets the reading handle of a slot whose file is replaced or removed. */
void once__segment_forget_reader(struct once__engine *engine, uint32_t slot);
void once__segment_close_readers(struct once__engine *engine);
/* Reads the record at a place without the lock, into memory that the caller frees. The bytes of
 * ret_rec point into it. ONCE_ERR_DAMAGED, ONCE_ERR_IO, ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__segment_read_record(struct once__engine *engine, uint64_t place,
                                              struct once__log_record *ret_rec, uint32_t *ret_size,
                                              void **ret_memory);

/* ---- sidecar.c: summaries -------------------------------------------------------------------- */

/* An empty one, for a segment that is being written. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__summary_new(const struct once__engine *engine,
                                      struct once__summary **ret_summary);
ONCE_MUST_CHECK int once__summary_reserve(struct once__summary *summary); /* for one more of each */
/* Notes a record of the segment being written, which has room for it. */
void once__summary_note(struct once__summary *summary, uint64_t own_sequence, uint32_t offset,
                        struct once__weight weight, uint64_t hash,
                        const struct once__log_record *rec);
void once__summary_free(struct once__summary *summary); /* accepts NULL */
/* The summary of a sealed segment from its sidecar, or ONCE_ERR_NO_STORE, ONCE_ERR_DAMAGED, ….
 * Needs no lock. */
ONCE_MUST_CHECK int once__summary_load(struct once__engine *engine, uint32_t slot,
                                       uint64_t sequence, uint64_t chain, uint32_t end,
                                       struct once__summary **ret_summary);
/* The summary of a segment from its log, up to known_end (0: to wherever it goes). Only what the
 * segment itself did not replace. Needs no lock. Like once__scan_segment; ret_scan tells how it
 * ended. */
struct once__scan;
ONCE_MUST_CHECK int once__summary_scan(struct once__engine *engine, struct once__file *file,
                                       uint32_t known_end, uint64_t durable,
                                       struct once__summary **ret_summary,
                                       struct once__scan *ret_scan);
/* Writes the sidecar of the oldest sealed segment that has none. False when there is none that can
 * have one now. Takes the lock. */
bool once__sidecar_work(struct once__engine *engine);

/* ---- log.c ----------------------------------------------------------------------------------- */

static inline uint64_t once__position(const struct once__engine *engine, uint64_t sequence,
                                      uint32_t offset)
{
    return sequence * engine->segment_size + offset;
}

/* Room for a record of this size in the open batch; a new batch or segment is begun where it does
 * not fit. ONCE_ERR_FULL: not now, a write must end first. ONCE_ERR_SPACE: there is no spare
 * segment. Only for sizes that fit into a segment. */
struct once__spot {
    uint8_t *bytes;
    uint32_t slot;
    uint32_t offset;
    uint64_t position; /* durable beyond this: the record is */
};
ONCE_MUST_CHECK int once__log_room(struct once__engine *engine, uint32_t size,
                                   struct once__spot *ret_spot);
/* The record was encoded into that room. */
void once__log_add(struct once__engine *engine, uint32_t size, uint64_t check);
/* Asks for a batch even if nothing is to be written, and gives the position to wait for.
 * ONCE_ERR_FULL, ONCE_ERR_SPACE as above. */
ONCE_MUST_CHECK int once__log_mark(struct once__engine *engine, uint64_t *ret_position);
/* Is there something to write, and may it be written now? */
bool once__log_ready(const struct once__engine *engine);
struct once__write *once__log_take(struct once__engine *engine);
/* Writes it; without the lock. */
ONCE_MUST_CHECK int once__log_write(struct once__engine *engine, const struct once__write *write);
void once__log_written(struct once__engine *engine, struct once__write *write, int err);
/* Without durability: syncs what was written to the active segment. All before it is synced. */
ONCE_MUST_CHECK int once__log_sync(struct once__engine *engine);
/* Is a batch open, which will be written anyway? */
bool once__log_is_open(const struct once__engine *engine);
/* Nothing is open, queued or under way. */
bool once__log_settled(const struct once__engine *engine);
/* Largest record that a segment can hold. */
uint32_t once__log_record_max(const struct once__engine *engine);
/* Bytes left in the active segment for batches after the open one. */
uint32_t once__log_left(const struct once__engine *engine);

/* ---- space.c --------------------------------------------------------------------------------- */

/* What a record of this size reserves while it is open. */
uint32_t once__reserve_of(const struct once__engine *engine, uint32_t record_size);
/* May an operation with a record of this size be open in this store? */
bool once__space_fits(const struct once__engine *engine, uint32_t record_size);
struct once__change {
    bool had;     /* there was a record, of this weight */
    bool carried; /* by expiry, which may use what is kept for it */
    struct once__weight before;
    struct once__weight after;
};
/* May this change be written? Makes spare segments if it must. ONCE_ERR_SPACE, ONCE_ERR_TOO_LARGE,
 * … */
ONCE_MUST_CHECK int once__space_admit(struct once__engine *engine,
                                      const struct once__change *change);
/* May a batch without records be written? ONCE_ERR_SPACE. */
ONCE_MUST_CHECK int once__space_admit_mark(struct once__engine *engine);
/* It was written. */
void once__space_changed(struct once__engine *engine, const struct once__change *change);
/* May the store take so many bytes more on disk, and still write a snapshot of its objects? */
bool once__space_allows(const struct once__engine *engine, uint64_t more);
/* Makes one more spare segment now, under the lock. */
ONCE_MUST_CHECK int once__space_grow(struct once__engine *engine);
/* Shall the keeper make more? */
bool once__space_short(const struct once__engine *engine);
/* How many spares what is reserved needs. */
uint32_t once__space_spares_needed(const struct once__engine *engine);
/* How many spares more than that are ready before anyone waits for one. */
uint32_t once__space_spares_ahead(const struct once__engine *engine);

/* ---- commit.c -------------------------------------------------------------------------------- */

/* Writes one batch, if that can be done now. Drops the lock meanwhile. */
bool once__commit_write_one(struct once__engine *engine);
/* Waits until everything before the position is durable, writing what can be written. ONCE_ERR_IO,
 * ONCE_ERR_STOPPED. */
ONCE_MUST_CHECK int once__commit_wait(struct once__engine *engine, uint64_t position);
/* The same, and against a power cut also without durability. */
ONCE_MUST_CHECK int once__commit_wait_synced(struct once__engine *engine, uint64_t position);
/* The same, but ends without the lock. */
ONCE_MUST_CHECK int once__commit_wait_out(struct once__engine *engine, uint64_t position);
/* The same for the keeper. By hand it may be that only the test can bring that about: false then.
 */
bool once__commit_settled(struct once__engine *engine, uint64_t position);
/* Lets at least one write end: there is no room. */
ONCE_MUST_CHECK int once__commit_some(struct once__engine *engine);
/* Something was added that nobody waits for in a blocking call: is there a writer to be woken
 * for it? Then nudge one, without the lock: else it would wake up only to wait for that. */
bool once__commit_wants(const struct once__engine *engine);
void once__commit_nudge(struct once__engine *engine);
/* The caller's thread writes and tells, if nobody is writing and the disk has been quick. */
void once__commit_here(struct once__engine *engine);
enum { ONCE__HERE_MAX = 64 }; /* for so few; more are written beside while further ones come */
/* Puts an op, decided and told, into the line of those that wait for their position. */
void once__commit_submit(struct once__engine *engine, struct once_op *op);
/* Puts an op that could not be decided at once into the line of those. */
void once__commit_defer(struct once__engine *engine, struct once_op *op);
/* It was taken out of that line, and decided. */
void once__commit_undefer(struct once__engine *engine, struct once_op *op);
/* Must it wait behind others in that line? */
static inline bool once__commit_must_defer(const struct once__engine *engine,
                                           const struct once_op *op)
{
    return engine->cold_full || engine->submitted_size > ONCE_SUBMITTED_SIZE_MAX ||
           engine->cold_marks[op->inner.hash % ONCE__COLD_MARKS] > 0;
}
/* Calls back what may be told. Drops and takes the lock. */
void once__commit_tell(struct once__engine *engine);
void once__commit_after_write(struct once__engine *engine);          /* wakes who can go on */
ONCE_MUST_CHECK int once__commit_start(struct once__engine *engine); /* the writers */
void once__commit_stop(struct once__engine *engine);

/* ---- operate.c ------------------------------------------------------------------------------- */

enum once__cold { ONCE__COLD_READ, ONCE__COLD_DEFER };
/* Decides a checked op and writes its reply; op->inner.position says what must be durable before it
 * is told. May drop the lock to read from disk, or with DEFER returns false instead: nothing
 * was decided. */
bool once__operate(struct once__engine *engine, struct once_op *op, enum once__cold cold);
/* Writes a record over the one at (hash, place), which outlives its segment. As once__log_room. */
ONCE_MUST_CHECK int once__carry(struct once__engine *engine, uint64_t hash, uint64_t place,
                                const struct once__log_record *rec, uint32_t size);
/* Store time. Within one call of many operations, and as long as the lock is held, the clock is
 * read for every ONCE__NOW_USES of them only. */
enum { ONCE__NOW_USES = 32 };
once_ms once__engine_now(struct once__engine *engine);

/* ---- apply.c --------------------------------------------------------------------------------- */

/* What the op's deeds come to; the stage's, until it is used again. On failure the op was refused.
 */
ONCE_MUST_CHECK int once__apply_stage(struct once__engine *engine, struct once_op *op, bool has_key,
                                      once_ms now_ms, struct once__staged *ret_staged);
/* A begin was decided as EXECUTE: stages, and makes the decision that of the apply. */
ONCE_MUST_CHECK int once__apply_decide(struct once__engine *engine, struct once_op *op,
                                       struct once_moment at, struct once_decision *decision,
                                       struct once__staged *ret_staged);
/* The record, which has edits, is in the log: makes them true in memory. */
ONCE_MUST_CHECK int once__apply_put(struct once__engine *engine, const struct once__log_record *rec,
                                    const struct once__spot *spot);
/* An op without a key, as once__operate. */
bool once__apply_nameless(struct once__engine *engine, struct once_op *op, enum once__cold cold);

/* ---- snapshot.c ------------------------------------------------------------------------------ */

/* One piece of it. False when there is nothing to do now. Takes the lock. */
bool once__snapshot_work(struct once__engine *engine);
/* Is this segment needed to make the objects again? */
bool once__snapshot_needs(const struct once__engine *engine, const struct once__segment *segment);
/* Drops one that is on its way. */
void once__snapshot_abandon(struct once__engine *engine);

/* ---- look.c ---------------------------------------------------------------------------------- */

int once__engine_object_get(struct once_store *store, struct once_bytes name,
                            struct once_object *ret_object);
int once__engine_object_read(struct once_store *store, struct once_bytes name, uint64_t cursor,
                             size_t count,
                             void (*each)(void *user, const struct once_object_item *item),
                             void *user, uint64_t *ret_cursor, bool *ret_more);
int once__engine_object_list(struct once_store *store, uint64_t cursor, size_t count,
                             void (*each)(void *user, struct once_bytes name,
                                          enum once_object_type type),
                             void *user, uint64_t *ret_cursor);
int once__engine_object_delta(struct once_store *store, struct once_bytes name, uint64_t since,
                              struct once_buf *out, uint64_t *ret_version);
int once__engine_changes(struct once_store *store, struct once_changes_cursor *cursor,
                         size_t size_max, struct once_buf *out, bool *ret_more);

/* ---- the others ------------------------------------------------------------------------------ */

bool once__retire_work(struct once__engine *engine);
bool once__keeper_work(struct once__engine *engine);
ONCE_MUST_CHECK int once__keeper_start(struct once__engine *engine);
void once__keeper_stop(struct once__engine *engine);
void once__keeper_wake(struct once__engine *engine);
ONCE_MUST_CHECK int once__recover(struct once__engine *engine, struct once_message *ret_message);
int once__engine_list(struct once_store *store, const struct once_filter *filter, uint64_t cursor,
                      size_t count, void (*each)(void *user, const struct once_item *item),
                      void *user, uint64_t *ret_cursor);
/* list.c: a durable copy of the record at a place, which the caller frees. *ret_memory is NULL when
 * the place was recycled while it was read. Drops and takes the lock. */
ONCE_MUST_CHECK int once__fetch_record(struct once__engine *engine, uint64_t place,
                                       struct once__log_record *ret_rec, void **ret_memory);
/* list.c: store time as it is durable, moved up to the present if that makes a difference to the
 * record. Drops and takes the lock. */
ONCE_MUST_CHECK int once__settle_time(struct once__engine *engine, const struct once_record *record,
                                      once_ms *ret_now_ms);
int once__engine_history(struct once_store *store, struct once_name name, size_t count,
                         void (*each)(void *user, const struct once_past *past), void *user,
                         bool *ret_found, bool *ret_more);
/* Formats the message and returns err. */
int once__message(int err, struct once_message *ret_message, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
