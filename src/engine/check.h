/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at a whole store without opening it: `once check`, and what `--repair` does about it.
 *
 * A check reads everything that is still needed: the store file, every segment's header, every
 * batch and record with its check, the chain through all segments, the order of time and fences,
 * the sidecars against the log, the snapshot of objects, the numbers of their changes, and sizes.
 * It writes nothing. Whoever calls holds the folder's lock.
 *
 * A repair does what the findings say under remedy, and nothing else. It may be cut off at any
 * point: the store is then as damaged as before or less, and a new check and repair go on.
 */
#ifndef ONCE_ENGINE_CHECK_H
#define ONCE_ENGINE_CHECK_H

#include <once/store.h>

#include "engine/format.h"
#include "engine/vfs.h"

enum once__finding_kind {
    ONCE__FINDING_STORE,    /* the store file is damaged or missing */
    ONCE__FINDING_SIZE,     /* a segment's file is too short */
    ONCE__FINDING_HEADER,   /* a segment's header is damaged; its batches say which one it is */
    ONCE__FINDING_MISSING,  /* a segment is missing, or nothing in it can be read */
    ONCE__FINDING_BATCH,    /* one or more batches are damaged */
    ONCE__FINDING_CHAIN,    /* a segment does not follow the one before */
    ONCE__FINDING_ORDER,    /* time, fences or what is oldest run back */
    ONCE__FINDING_LINK,     /* a record replaces one that is not there */
    ONCE__FINDING_SIDECAR,  /* a sidecar is damaged or does not fit its segment */
    ONCE__FINDING_TORN,     /* what was being written when the store stopped: was told to nobody */
    ONCE__FINDING_STRAY,    /* a file that looks like a segment in use, and nothing needs it */
    ONCE__FINDING_LEFTOVER, /* a file that nothing needs */
    ONCE__FINDING_GIVEN_UP, /* damage that was given up by an earlier repair */
    ONCE__FINDING_SNAPSHOT, /* the snapshot of objects is damaged or missing */
    ONCE__FINDING_CHANGES   /* changes of objects are missing, or do not fit the objects */
};

enum once__remedy {
    ONCE__REMEDY_NOTHING,     /* it is no damage: nothing to do */
    ONCE__REMEDY_NONE,        /* it is damage, and repair cannot help: restore a backup */
    ONCE__REMEDY_NEW_STORE,   /* write a new store file; nothing is lost */
    ONCE__REMEDY_SPARE,       /* make the file a spare one; nothing is lost */
    ONCE__REMEDY_EXTEND,      /* make the file as large as it must be; nothing is lost */
    ONCE__REMEDY_NEW_HEADER,  /* write the header again; nothing is lost */
    ONCE__REMEDY_DELETE,      /* delete the sidecar, the engine makes it again; nothing is lost */
    ONCE__REMEDY_GIVE_UP,     /* mark the batches as given up; what they held is lost */
    ONCE__REMEDY_NEW_SEGMENT, /* write a segment that says its batches are given up: lost */
    /* Write the snapshot again, with what can be read of it, and a word that something is missing;
     * what cannot be read and the log does not have is lost. */
    ONCE__REMEDY_NEW_SNAPSHOT
};

/* What giving up takes away. Operations that are lost for certain: readable - replaced +
 * unreadable; there may be more. */
struct once__loss {
    uint64_t batches;
    uint64_t readable;   /* records whose name can still be read: once__check_lost tells them */
    uint64_t replaced;   /* of those: a later record stands in for them, nothing is lost */
    uint64_t unreadable; /* records that nothing replaced, of which only the number is known */
    bool more;           /* there may be others that nobody can count any more */
    /* Changes of objects that are in none of log and snapshot, as far as known; once__check_lost
     * tells those that can be read. */
    uint64_t changes;
    /* NEW_SNAPSHOT: objects of which nothing is left; more says that others may be incomplete. */
    uint64_t objects;
};

struct once__finding {
    enum once__finding_kind kind;
    enum once__remedy remedy;
    char file[64];          /* in the folder; of a MISSING one the name that it will get */
    uint64_t sequence;      /* of the segment; 0 when it is about none */
    uint64_t offset;        /* in the file */
    uint64_t size;          /* bytes, from offset; 0 when it is a point */
    char what[200];         /* a sentence without its period */
    struct once__loss loss; /* remedies GIVE_UP, NEW_SEGMENT and NEW_SNAPSHOT */
};
static inline bool once__finding_is_damage(const struct once__finding *finding)
{
    return finding->remedy != ONCE__REMEDY_NOTHING;
}

/* A record that giving up loses. */
struct once__lost {
    const struct once__log_record *record; /* bytes are the caller's only inside of the call */
    bool
        operation; /* the operation is lost; false: it has no name, or a later record replaced it */
    bool goes_back; /* an older record of the same name may be there: it counts again then */
    bool change;    /* its change of objects is lost */
};

struct once__check_summary {
    uint64_t segments; /* in use */
    uint64_t spares;
    uint64_t batches;
    uint64_t records;
    uint64_t sidecars; /* that fit their segment */
    uint64_t oldest, newest;
    uint64_t disk_size; /* of the store file, all segments' files and the snapshot */
    uint64_t last_fence;
    once_ms now_ms;
    uint64_t objects;       /* as a repair would leave them */
    uint64_t changes;       /* of objects, in the log */
    uint64_t last_change;   /* number of the last one; 0: there never was one */
    uint64_t snapshot_size; /* in bytes; 0: there is none */
    uint64_t findings;
    uint64_t damages; /* findings that are damage */
    uint64_t repairs; /* damages that a repair can mend */
};

struct once__check;

/* Checks the store. Findings are damage, not errors: ONCE_OK says that everything was looked at.
 * ONCE_ERR_NO_STORE (neither a store file nor a segment), ONCE_ERR_VERSION, ONCE_ERR_IO,
 * ONCE_ERR_MEMORY. vfs is borrowed until the check is freed. */
ONCE_MUST_CHECK int once__check_new(struct once__vfs *vfs, struct once__check **ret_check,
                                    struct once_message *ret_message);
/* The same; progress (may be NULL) is told bytes of the log read, and about how many there are. */
ONCE_MUST_CHECK int
once__check_new_watched(struct once__vfs *vfs,
                        void (*progress)(void *user, uint64_t done, uint64_t all), void *user,
                        struct once__check **ret_check, struct once_message *ret_message);
void once__check_free(struct once__check *check); /* accepts NULL */

const struct once__check_summary *once__check_summary(const struct once__check *check);

/* Calls each for every finding, in the order of the log. */
void once__check_findings(const struct once__check *check,
                          void (*each)(void *user, const struct once__finding *finding),
                          void *user);

/* Calls each for every record that this finding's remedy loses and that can be read.
 * ONCE_ERR_IO, ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__check_lost(const struct once__check *check,
                                     const struct once__finding *finding,
                                     void (*each)(void *user, const struct once__lost *lost),
                                     void *user);

/* Does what the findings say. step (may be NULL) is told what has just been done. The check knows
 * nothing about the store afterwards: make a new one. */
ONCE_MUST_CHECK int once__check_repair(struct once__check *check,
                                       void (*step)(void *user, const char *text), void *user,
                                       struct once_message *ret_message);

/* ---- Copying a store that is in use ---------------------------------------------------------- */

/* What once_backup does between two folders: copies the store in from, which may be in use, into
 * the empty folder to, where every file is durable on return. Never writes to from.
 * ONCE_ERR_NO_STORE, ONCE_ERR_VERSION, ONCE_ERR_DAMAGED, ONCE_ERR_SPACE, ONCE_ERR_IO,
 * ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__backup(struct once__vfs *from, struct once__vfs *to,
                                 void (*progress)(void *user, uint64_t done, uint64_t all),
                                 void *user, struct once_message *ret_message);

/* ---- Reading a damaged segment, for once inspect --------------------------------------------- */

/* A damaged stretch of a segment. */
struct once__damage {
    uint32_t offset;
    uint32_t end;              /* where the next good batch is, or the segment's end */
    struct once_defect defect; /* offset is in the segment */
};

struct once__view_visitor {
    int (*batch)(void *user, const struct once__batch_header *header, uint32_t offset,
                 uint64_t check);
    int (*record)(void *user, uint32_t offset, uint32_t size, const struct once__log_record *rec);
    int (*damage)(void *user, const struct once__damage *damage);
    void *user;
};

/* How the segment looks as a whole: where it ends, and how. */
struct once__view {
    uint32_t end;
    uint64_t batch_count;
    uint64_t record_count;
    uint64_t damage_count;
};

/* Walks all good batches of a segment whose header is good, over damage too. A batch comes before
 * its records. ONCE_ERR_IO, ONCE_ERR_MEMORY, and what a visitor returns. */
ONCE_MUST_CHECK int once__view_segment(struct once__file *file,
                                       const struct once__segment_header *header,
                                       const struct once__view_visitor *visitor,
                                       struct once__view *ret_view);

#endif
