/* SPDX-License-Identifier: Apache-2.0
 *
 * A store: where operations are kept. It makes every decision durable before it tells it.
 *
 *     once_begin     EXECUTE: do the work, then once_complete. REPLAY: here is the first answer.
 *     once_complete  from now on every begin of this key is a REPLAY, until the answer expires.
 *
 * Calls come in three forms, all of one operation, `struct once_op`:
 *
 *     once_begin, once_complete, …   blocking, one operation
 *     once_call                      blocking, many operations that share their durable writes
 *     once_submit                    a callback for each operation; the call itself does not wait
 *
 * A store is safe from many threads; calls that come at the same time share durable writes. One
 * process owns a directory at a time. After fork() only the parent may use the store.
 */
#ifndef ONCE_STORE_H
#define ONCE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <once/bytes.h>
#include <once/err.h>
#include <once/fingerprint.h>
#include <once/limits.h>
#include <once/verdict.h>

#ifdef __cplusplus
extern "C" {
#endif

struct once_store;

/* When an answer is told. Named by what a power cut takes back. */
enum once_durability {
    ONCE_LOSES_NOTHING = 0, /* "always": after it is durable. The default */
    ONCE_LOSES_INTERVAL =
        1,                  /* "interval": at once; a power cut or a kill loses the last interval */
    ONCE_LOSES_UNSYNCED = 2 /* "none": at once; written soon, synced once a segment: a kill loses
                             * the last moments, a power cut what the system had not written */
};

/* How to open a store. All zero is a good choice for each. */
struct once_options {
    enum once_durability durability;
    once_ms interval_ms;    /* of ONCE_LOSES_INTERVAL; 0 is ONCE_INTERVAL_MS_DEFAULT */
    uint64_t disk_size_max; /* bytes that the log may take on disk; 0 is as many as there are. The
                             * snapshot of objects comes on top: about what the objects hold, and
                             * twice that while a new one is written */
    uint64_t keys_max;      /* keys that the store may hold; 0 is ONCE_KEYS_MAX */
    uint64_t objects_size_max; /* bytes of memory for objects; 0 is ONCE_OBJECTS_SIZE_DEFAULT */
    uint32_t segment_size; /* of a store that is made now: a power of two, ONCE_SEGMENT_SIZE_MIN to
                             * _MAX; 0 is ONCE_SEGMENT_SIZE_DEFAULT. One that is there keeps its
                             * own. A record, result and data included, must fit into a segment,
                             * else ONCE_ERR_TOO_LARGE */
    bool must_exist;       /* do not make a store where there is none: ONCE_ERR_NO_STORE */
    /* Told while a store is being opened: bytes read, and in all. On the caller's thread; NULL is
     * nobody. */
    void (*progress)(void *user, uint64_t done, uint64_t all);
    void *progress_user;
};

/* What went wrong, for a person: what, where, and what to do next. */
struct once_message {
    char text[ONCE_MESSAGE_SIZE];
};

/* Opens the store in this directory, which is made if it is not there (mode 0700), together with
 * its parent's. Reads what it needs to answer, cuts a torn tail, and starts the store's threads.
 *
 * ONCE_ERR_INVALID (an option, no folder), ONCE_ERR_LOCKED, ONCE_ERR_NO_STORE, ONCE_ERR_VERSION,
 * ONCE_ERR_DAMAGED (`once check` says more), ONCE_ERR_SPACE, ONCE_ERR_IO, ONCE_ERR_PERMISSION,
 * ONCE_ERR_KEYS, ONCE_ERR_MEMORY, ONCE_ERR_CLOCK, ONCE_ERR_RANDOM. ret_message (may be NULL) is
 * written on failure only. options may be NULL. */
ONCE_API ONCE_MUST_CHECK int once_open(const char *folder, const struct once_options *options,
                                       struct once_store **ret_store,
                                       struct once_message *ret_message);

/* Answers what was submitted, makes everything durable, and frees the store. No other call may be
 * under way or follow. Accepts NULL. Returns ONCE_OK, or ONCE_ERR_STOPPED when not everything could
 * be made durable (which then was told to nobody, unless durability said so); the store is freed
 * either way. */
ONCE_API int once_close(struct once_store *store);

/* ---- Operations ------------------------------------------------------------------------------ */

enum once_call_kind {
    ONCE_CALL_BEGIN = 0,
    ONCE_CALL_COMPLETE = 1,
    ONCE_CALL_FAIL = 2,
    ONCE_CALL_CHECKPOINT = 3,
    ONCE_CALL_RENEW = 4,
    ONCE_CALL_RESOLVE = 5,
    ONCE_CALL_FORGET = 6,
    ONCE_CALL_GET = 7,
    ONCE_CALL_APPLY = 8, /* <once/apply.h> */
    ONCE_CALL_MERGE = 9, /* once_object_merge: key is the object's name, data the state */
    ONCE_CALL_SET = 10,  /* a value; see below */
    ONCE_CALL_EXPIRE = 11
};

/* Values are operations that were completed as soon as they were begun: result is the value, and
 * get, forget and list know them like every other. For hosts that speak another store's protocol;
 * keep them in a namespace of their own.
 *
 *     SET      result is the value; when says on which condition; ttl_ms from now on, else
 *              until_ms, else (both 0) for ONCE_RETENTION_MS_MAX; keep_ttl: as long as the one that
 *              is there. A ttl that is over already is refused. OK: it was set. NOTFOUND: when did
 *              not hold, nothing was changed. In both cases state and result are those of the value
 *              before (ABSENT: none). Asking twice sets twice.
 *     EXPIRE   ttl_ms or until_ms of a value that is there. OK, NOTFOUND.
 * An operation that is under way (started or in doubt) is BUSY or DOUBT, and stays. */
enum once_when {
    ONCE_ALWAYS = 0,
    ONCE_WHEN_ABSENT = 1, /* and a failed operation is absent */
    ONCE_WHEN_PRESENT = 2
};

/* An answer. err is ONCE_OK, or why nothing was decided (what then says which argument it was);
 * after ONCE_ERR_IO or ONCE_ERR_STOPPED nobody knows whether the call was kept: open the store
 * again and repeat it.
 *
 * The word, and with it only what belongs to it:
 *     EXECUTE, DOUBT   fence, attempt, point, data
 *     REPLAY           code, result
 *     BUSY             retry_ms
 *     OK of get        everything; state tells which (result of a FAILED one is its reason)
 *     set              state, result: those of before
 *     APPLIED          result; REJECTED: code, result (<once/apply.h>)
 * The rest is zero: a MISMATCH reveals nothing of the other request. */
struct once_reply {
    int err;
    enum once_word word;
    const char *what; /* static text, with some errors; else NULL */
    uint32_t effect;  /* apply: which effect an error is about, from 1; 0 is none */
    uint64_t fence;
    uint32_t attempt;
    int32_t code;
    once_ms retry_ms;
    struct once_bytes point; /* these belong to the reply */
    struct once_bytes data;
    struct once_bytes result;
    /* get only */
    enum once_state state;
    once_ms created_ms;
    once_ms lease_end_ms;
    once_ms retention_ms;
    once_ms expires_ms;
    once_ms now_ms; /* when this was so */
    struct once_bytes owner;
    struct once_fingerprint fingerprint;

    void *memory; /* behind the bytes; once_reply_release frees it */
};

/* Frees what the reply holds; it is all zero then. Accepts NULL and a reply that holds nothing. */
ONCE_API void once_reply_release(struct once_reply *reply);

/* One effect of an apply: its words, such as {"ADD", "acct:42", "-100"}. */
struct once_do {
    const struct once_bytes *words;
    size_t count;
};

/* One call. All zero but what the call needs; bytes are borrowed until the answer is there. */
struct once_op {
    enum once_call_kind call;
    struct once_bytes ns;
    struct once_bytes key;

    /* begin; apply: fingerprint and ttl_ms */
    struct once_bytes fingerprint; /* of the request: once_fingerprint_from_bytes; empty is none */
    struct once_bytes owner;       /* names this attempt: the same owner gets the same EXECUTE */
    once_ms ttl_ms;                /* how long the answer is kept; 0 is 24 h */
    once_ms lease_ms;              /* 0 is 30 s; renew: the new lease, and 0 gives it up */
    enum once_on_doubt on_doubt;

    /* the fence that EXECUTE gave; resolve, forget: 0 is "whichever it is" */
    uint64_t fence;

    /* complete; resolve when done; fail: result is the reason */
    bool done;
    int32_t code;
    struct once_bytes result;

    /* checkpoint */
    struct once_bytes point;
    struct once_bytes data;
    bool follows;            /* after is given */
    struct once_bytes after; /* the point that this one follows; empty is the beginning */

    /* apply */
    const struct once_do *dos;
    size_t do_count;

    /* set, expire */
    enum once_when when;
    bool keep_ttl;
    once_ms until_ms; /* store time */

    /* The answer. Written whole; release it. */
    struct once_reply reply;

    /* once_submit: called when reply is there, on a thread of the store, one at a time and in the
     * order in which decisions became durable. It may submit more; it may not call once_call,
     * once_close or any blocking form. The op is the caller's again from here on. */
    void (*told)(struct once_op *op);
    void *user;

    /* The store's, from the call to the answer. */
    struct {
        struct once_op *next;
        uint64_t position;
        uint64_t hash;
        struct once_fingerprint fingerprint;
        once_ms birth_ms;
        void *deeds;
        size_t deed_count;
        size_t result_size;  /* of the reply, while it waits to be told */
        once_ms deadline_ms; /* of a shared store: it is given up then */
    } inner;
};

/* Decides all of them in order, and returns when every answer may be told. Each op has its own
 * reply.err; the result is ONCE_OK when all have ONCE_OK, else the first other. */
ONCE_API int once_call(struct once_store *store, struct once_op *ops, size_t count);

/* Takes the operation; told is called once, later, never inside of this call. ONCE_ERR_INVALID (no
 * told), ONCE_ERR_FULL (ONCE_SUBMITTED_MAX are waiting), ONCE_ERR_CLOSED: not taken, told is not
 * called. Every other error is the reply's. */
ONCE_API ONCE_MUST_CHECK int once_submit(struct once_store *store, struct once_op *op);

/* Takes many at once, which is cheaper, and decides them in order. *ret_taken: so many of them,
 * from the first on, were taken; all of them with ONCE_OK. Operations of one key are decided in
 * the order in which they were submitted. */
ONCE_API ONCE_MUST_CHECK int once_submit_many(struct once_store *store, struct once_op *const *ops,
                                              size_t count, size_t *ret_taken);

/* The same, by a caller that can wait for the disk for a moment. Where they are few, the disk has
 * been quick and nobody else is writing, they are written and told on this thread, which saves two
 * changes of threads: told may be called in here. */
ONCE_API ONCE_MUST_CHECK int once_submit_here(struct once_store *store, struct once_op *const *ops,
                                              size_t count, size_t *ret_taken);

/* The name of an operation. */
struct once_name {
    struct once_bytes ns;
    struct once_bytes key;
};

/* {ns, key} of two C strings. */
ONCE_API struct once_name once_name_of(const char *ns, const char *key);

/* What a begin may say besides its name. All zero is a good choice for each. */
struct once_begin_options {
    struct once_bytes fingerprint;
    struct once_bytes owner;
    once_ms ttl_ms;
    once_ms lease_ms;
    enum once_on_doubt on_doubt;
};

/* The blocking calls. Each returns reply.err and writes the whole reply, also on failure; release
 * it. The words are those of verdict.h.
 *
 * begin: EXECUTE, REPLAY, BUSY, MISMATCH, DOUBT or TOO_OLD. options may be NULL. */
ONCE_API int once_begin(struct once_store *store, struct once_name name,
                        const struct once_begin_options *options, struct once_reply *ret_reply);

/* OK, STALE, NOTFOUND; MISMATCH when the same attempt has ended with another answer. */
ONCE_API int once_complete(struct once_store *store, struct once_name name, uint64_t fence,
                           int32_t code, struct once_bytes result, struct once_reply *ret_reply);

/* It is known not to have happened. OK, STALE, NOTFOUND. */
ONCE_API int once_fail(struct once_store *store, struct once_name name, uint64_t fence,
                       struct once_bytes reason, struct once_reply *ret_reply);

/* The last finished step. after may be NULL: then the last to arrive counts. OK, STALE, NOTFOUND.
 */
ONCE_API int once_checkpoint(struct once_store *store, struct once_name name, uint64_t fence,
                             struct once_bytes point, struct once_bytes data,
                             const struct once_bytes *after, struct once_reply *ret_reply);

/* A longer lease; 0 gives it up with an unknown outcome. OK, DOUBT, STALE, NOTFOUND. */
ONCE_API int once_renew(struct once_store *store, struct once_name name, uint64_t fence,
                        once_ms lease_ms, struct once_reply *ret_reply);

/* Ends a doubt: it happened, with this answer. fence names the doubt that was looked at; 0 is
 * whichever it is now. OK, BUSY, MISMATCH, STALE, NOTFOUND. */
ONCE_API int once_resolve_done(struct once_store *store, struct once_name name, uint64_t fence,
                               int32_t code, struct once_bytes result,
                               struct once_reply *ret_reply);

/* Ends a doubt: it did not happen, and never will under the fences given so far. */
ONCE_API int once_resolve_not_done(struct once_store *store, struct once_name name, uint64_t fence,
                                   struct once_reply *ret_reply);

/* Deletes a record that has ended; with its current fence also a running one (it did not happen).
 * OK, BUSY, DOUBT, STALE, NOTFOUND. */
ONCE_API int once_forget(struct once_store *store, struct once_name name, uint64_t fence,
                         struct once_reply *ret_reply);

/* OK and the whole record, or NOTFOUND. */
ONCE_API int once_get(struct once_store *store, struct once_name name,
                      struct once_reply *ret_reply);

/* ---- Looking --------------------------------------------------------------------------------- */

/* Which operations. All zero, or NULL for the whole, is all of them. */
struct once_filter {
    struct once_bytes ns;  /* empty is every namespace */
    bool by_state;         /* state is given */
    enum once_state state; /* STARTED, COMPLETED, FAILED or DOUBT */
};

/* One operation of a list. Bytes are the caller's only inside of each. */
struct once_item {
    struct once_bytes ns;
    struct once_bytes key;
    enum once_state state;
    uint64_t fence;
    uint32_t attempt;
    int32_t code;
    once_ms created_ms;
    once_ms lease_end_ms;
    once_ms expires_ms;
    struct once_bytes owner;
    struct once_bytes point;
};

/* Calls each for up to count operations (1 to ONCE_LIST_COUNT_MAX) after the cursor, 0 for the
 * beginning, in an order that means nothing, and gives the cursor to go on with, 0 at the end. A
 * page may be shorter than count, even empty, before the end. each runs on the caller's thread and
 * may call the store, but not close it. A list may wait: do not ask for one in told. An operation
 * that is there from the first page to the last is given exactly once. Only durable facts are
 * shown. Listing STARTED or DOUBT reads only those; other states read every record.
 * ONCE_ERR_INVALID, ONCE_ERR_STOPPED, ONCE_ERR_DAMAGED, ONCE_ERR_IO, ONCE_ERR_MEMORY. */
ONCE_API ONCE_MUST_CHECK int once_list(struct once_store *store, const struct once_filter *filter,
                                       uint64_t cursor, size_t count,
                                       void (*each)(void *user, const struct once_item *item),
                                       void *user, uint64_t *ret_cursor);

/* What happened to an operation, in the words of the calls. */
enum once_event {
    ONCE_EVENT_BEGAN = 1,     /* an attempt: EXECUTE was given */
    ONCE_EVENT_TAKEN_OVER,    /* an attempt that follows a doubt: on_doubt was RETRY */
    ONCE_EVENT_RENEWED,       /* a longer lease */
    ONCE_EVENT_CHECKPOINT,    /* a recovery point */
    ONCE_EVENT_DOUBT,         /* the lease was over, or its owner gave it up */
    ONCE_EVENT_COMPLETED,     /* with an answer */
    ONCE_EVENT_FAILED,        /* known not to have happened */
    ONCE_EVENT_RESOLVED_DONE, /* someone said how a doubt ended */
    ONCE_EVENT_RESOLVED_NOT_DONE,
    ONCE_EVENT_FORGOTTEN,
    ONCE_EVENT_APPLIED,  /* begun, done and completed in one: an apply, a value that was set */
    ONCE_EVENT_RETAINED, /* a value's time was changed */
    ONCE_EVENT_KEPT      /* what it was before is not in the log any more */
};
ONCE_API const char *once_event_name(enum once_event event); /* "BEGAN", … */

/* One step of an operation's life, and what its record was from then on. Bytes are the caller's
 * only inside of each. */
struct once_past {
    enum once_event event;
    once_ms at_ms; /* store time of the durable write that it came with */
    enum once_state state;
    uint64_t fence;
    uint32_t attempt;
    int32_t code;
    once_ms created_ms;
    once_ms lease_end_ms;
    once_ms expires_ms;
    struct once_bytes owner;
    struct once_bytes point;
    struct once_bytes data;
    struct once_bytes result;
};

/* Calls each for the last steps of an operation, the newest first, up to count (1 to
 * ONCE_LIST_COUNT_MAX), and says whether there are older ones. Steps whose segment was given back
 * since are not there: then the oldest is KEPT. Nothing before a FORGOTTEN is shown. That a lease
 * ended is no step until someone noticed. *ret_found is false, and each not called, when there is
 * no such operation or it has expired. Only durable facts are shown. each may call the store, but
 * not close it. A look may wait and read from disk: do not ask for one in told. The errors of
 * once_list; ONCE_ERR_UNSUPPORTED: this store keeps no history. */
ONCE_API ONCE_MUST_CHECK int once_history(struct once_store *store, struct once_name name,
                                          size_t count,
                                          void (*each)(void *user, const struct once_past *past),
                                          void *user, bool *ret_found, bool *ret_more);

/* How often something was of what size: bucket i counts those up to 2^i, the last one all others.
 */
struct once_spread {
    uint64_t buckets[28];
    uint64_t sum;
};

/* Numbers about a store, since it was opened where they count something. */
struct once_stats {
    uint64_t keys;             /* in the index, expired ones that were not retired yet included */
    uint64_t keys_open;        /* STARTED or DOUBT */
    uint64_t index_size;       /* bytes of memory of the index */
    uint64_t disk_size;        /* bytes on disk, spare segments included */
    uint64_t log_size;         /* bytes of the log in use */
    uint64_t live_size;        /* bytes of it that are still needed */
    uint64_t reserved_size;    /* bytes kept free for what was admitted */
    uint64_t segments;         /* in use */
    uint64_t segments_spare;   /* ready to be used */
    uint64_t segments_retired; /* whole segments that expired */
    uint64_t records_carried;  /* moved to the tail because they outlived their segment */
    uint64_t calls;            /* operations decided */
    uint64_t records;          /* records written */
    uint64_t batches;          /* durable writes */
    uint64_t batch_size_max;   /* the largest */
    uint64_t cold_reads;       /* records read from disk */
    uint64_t last_fence;
    uint64_t objects;              /* <once/apply.h> */
    uint64_t objects_size;         /* bytes of memory */
    uint64_t changes;              /* number of the last change of objects; for ever */
    uint64_t snapshots;            /* of objects, written since it was opened */
    uint64_t snapshot_size;        /* bytes on disk of the newest */
    once_ms now_ms;                /* store time */
    once_ms recovery_ms;           /* how long opening took */
    uint64_t recovered;            /* records that opening read from the log itself */
    struct once_spread write_us;   /* of durable writes: how long each took, */
    struct once_spread write_size; /* its bytes, */
    struct once_spread write_ops;  /* and its records */
    bool direct;                   /* direct writes; else write and fdatasync */
    bool stopped;                  /* a write failed */
    /* Of a store that servers share; of a folder none of it is set. */
    bool shared;          /* other processes change it too */
    bool unreachable;     /* it does not answer now: nothing can be decided, nothing is lost */
    uint64_t links;       /* connections that it should have, */
    uint64_t links_up;    /* those that are up, */
    uint64_t links_lost;  /* and those that were lost */
    uint64_t asked_again; /* calls that were asked again because their answer was lost */
    uint64_t unsettled;   /* calls of which nobody knows: told ONCE_ERR_IO */
};

ONCE_API void once_stats_get(struct once_store *store, struct once_stats *ret_stats);

/* Copies a store that is in use, by this process or another, or by nobody, into a new directory.
 * What was told before the call is in the copy (with another durability than ONCE_LOSES_NOTHING,
 * what had reached the disk). The copy is made as "TARGET.partial" and renamed when it is whole and
 * durable; after a failure the unfinished one stays, and the next backup to this target replaces
 * it. To restore, copy the directory back.
 *
 * ONCE_ERR_INVALID (the target is there already, or lies inside of the store), ONCE_ERR_LOCKED
 * (another copy to it is under way), ONCE_ERR_NO_STORE, ONCE_ERR_VERSION, ONCE_ERR_DAMAGED,
 * ONCE_ERR_SPACE, ONCE_ERR_PERMISSION, ONCE_ERR_MEMORY, ONCE_ERR_IO (also when the store changes
 * faster than it can be copied); ret_message (may be NULL) is written on failure only. progress
 * (may be NULL) is told bytes done and in all, on the caller's thread; both begin anew when parts
 * are copied again. */
ONCE_API ONCE_MUST_CHECK int once_backup(const char *folder, const char *target,
                                         void (*progress)(void *user, uint64_t done, uint64_t all),
                                         void *user, struct once_message *ret_message);

#ifdef __cplusplus
}
#endif
#endif
