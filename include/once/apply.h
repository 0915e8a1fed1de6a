/* SPDX-License-Identifier: Apache-2.0
 *
 * Apply: the check of a key, the effects and the key's record in one atomic unit.
 *
 *     once_apply(store, name, options, dos, count, &reply)
 *
 * changes Once's own objects (counters, sets, registers, state machines, event logs, fences,
 * outboxes, …) under a key. The first time every effect happens, or none: one that is rejected (a
 * bound, a stale token, a wrong version, an illegal move) rejects all of them. Either answer is
 * kept under the key, and every retry gets it again. docs/guides has a page for each task.
 *
 * An object is named by 1 to ONCE_OBJECT_NAME_SIZE_MAX bytes, of the rules of a key. Its type is
 * fixed by the first effect that changes it. Objects are the store's, not a namespace's, and they
 * do not expire.
 *
 * An effect is written as words, as in every protocol of Once: {"ADD", "acct:42", "-100", "MIN",
 * "0"}. once_do_split makes them of one line of text.
 *
 *     ADD name n [MIN m] [MAX m]         counter              → its new value
 *     MAX name n, MIN name n             largest, smallest    → its value
 *     FLAG name                          flag                 → 1
 *     UNION name member…                 grow-only set        → how many were new
 *     CLOCK name node n                  version vector       → the node's number
 *     LWW name time node value           last writer wins     → 1 if it won, else 0
 *     GADD name node n                   growing counter      → the sum
 *     PNADD name node n                  growing and shrinking counter → the sum
 *     INSERT name node member…           add-wins set         → how many were new
 *     REMOVE name member…                                     → how many were there
 *     SET name value [IF version]        register             → its new version
 *     DELETE name [IF version]                                → its version
 *     MACHINE name from>to…              declares; begins in the first state → 1, or 0 if it was
 *     MOVE name from to                  state machine        → the state it is in
 *     APPEND name event_id payload [AT version]   event log   → its new version
 *     GRANT name                         fence                → the token
 *     GUARD name token                                        → the token
 *     LEASE name owner ms                lease                → the token
 *     RENEW name token ms                                     → the token
 *     RELEASE name token                                      → 1, or 0 if it was
 *     HOLD name token                    is it still the newest? → the token
 *     SEQ name epoch n                   producer sequence    → "new" or "duplicate"
 *     BUCKET name bucket n               counts by bucket     → the bucket's count
 *     EMIT topic payload [GROUP g]       outbox               → the message's number
 *     SENT topic number…                 takes messages out   → how many were still there
 *
 * Words are matched without regard to case. Numbers are decimal. `once laws` says which of them
 * need a key; without one those are refused with ONCE_ERR_KEY_NEEDED.
 */
#ifndef ONCE_APPLY_H
#define ONCE_APPLY_H

#include <once/lattice.h>
#include <once/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an apply may say besides its name. All zero is a good choice for each. */
struct once_apply_options {
    struct once_bytes fingerprint; /* of the request; empty: of the effects themselves */
    once_ms ttl_ms;                /* how long the answer is kept; 0 is 24 h */
};

/* The words:
 *     APPLIED, REJECTED        now; result as below
 *     REPLAY                   it was decided before: code is ONCE_CODE_APPLIED or
 *                              ONCE_CODE_REJECTED, result as then
 *     MISMATCH, TOO_OLD        as of begin
 *     BUSY, DOUBT              someone began this key (once_begin) and has not ended it
 * A name without a key (its key is empty): only effects that need none; nothing is remembered but
 * the objects, and the word is APPLIED or REJECTED. The namespace may then be empty too.
 *
 * The result of APPLIED is a JSON array with a number or a word for each effect, in order; of
 * REJECTED it is {"rejected":i,"word":"BELOW_MIN","reason":"…"} where i counts effects from 1.
 * once_results_next and once_rejection_read read them.
 *
 * Errors that concern one effect put its number, from 1, into reply.effect, and reply.what says
 * what is wrong with it: ONCE_ERR_INVALID, ONCE_ERR_OBJECT_TYPE, ONCE_ERR_KEY_NEEDED,
 * ONCE_ERR_FULL. Then nothing happened, and nothing is kept under the key. */
enum { ONCE_CODE_APPLIED = 0, ONCE_CODE_REJECTED = 1 };
ONCE_API int once_apply(struct once_store *store, struct once_name name,
                        const struct once_apply_options *options, const struct once_do *dos,
                        size_t count, struct once_reply *ret_reply);

/* Splits a line into words, as a shell would: blanks separate, "…" and '…' keep blanks (in "…" a
 * backslash takes the next character as it is), and a word that begins with { or [ goes on to the
 * bracket that closes it, JSON strings respected. The words point into text and into scratch, which
 * must have room for text.size bytes; keep both as long as the words are used. ONCE_ERR_INVALID:
 * defect says where and what; ONCE_ERR_FULL: more than words_max. */
ONCE_API ONCE_MUST_CHECK int once_do_split(struct once_bytes text, uint8_t *scratch,
                                           struct once_bytes *words, size_t words_max,
                                           size_t *ret_count, struct once_defect *ret_defect);

/* One result of an apply: a number, or a word. */
struct once_result {
    bool is_number;
    int64_t number;
    struct once_bytes word; /* points into the result */
};
/* *offset is 0 at the beginning. 1: there was one more. 0: there was none. ONCE_ERR_DAMAGED: these
 * are not the results of an apply. */
ONCE_API ONCE_MUST_CHECK int once_results_next(struct once_bytes result, size_t *offset,
                                               struct once_result *ret_result);

struct once_rejection {
    uint32_t effect; /* from 1 */
    struct once_bytes word;
    struct once_bytes reason;
};
/* ONCE_ERR_DAMAGED: this is not a rejection. */
ONCE_API ONCE_MUST_CHECK int once_rejection_read(struct once_bytes result,
                                                 struct once_rejection *ret_rejection);

/* ---- Objects --------------------------------------------------------------------------------- */

/* Numbers are written to disk: append, never renumber. The first are those of lattice.h. */
enum once_object_type {
    ONCE_OBJECT_NONE = 0,
    ONCE_OBJECT_MAX = ONCE_LATTICE_MAX,
    ONCE_OBJECT_MIN = ONCE_LATTICE_MIN,
    ONCE_OBJECT_FLAG = ONCE_LATTICE_FLAG,
    ONCE_OBJECT_GSET = ONCE_LATTICE_GSET,
    ONCE_OBJECT_VV = ONCE_LATTICE_VV,
    ONCE_OBJECT_LWW = ONCE_LATTICE_LWW,
    ONCE_OBJECT_GCOUNTER = ONCE_LATTICE_GCOUNTER,
    ONCE_OBJECT_PNCOUNTER = ONCE_LATTICE_PNCOUNTER,
    ONCE_OBJECT_AWSET = ONCE_LATTICE_AWSET,
    ONCE_OBJECT_MVREG = ONCE_LATTICE_MVREG,
    ONCE_OBJECT_MAP = ONCE_LATTICE_MAP,
    ONCE_OBJECT_COUNTER = 32,
    ONCE_OBJECT_REGISTER = 33,
    ONCE_OBJECT_MACHINE = 34,
    ONCE_OBJECT_LOG = 35,
    ONCE_OBJECT_FENCE = 36,
    ONCE_OBJECT_LEASE = 37,
    ONCE_OBJECT_SEQUENCE = 38,
    ONCE_OBJECT_BUCKETS = 39,
    ONCE_OBJECT_OUTBOX = 40
};

/* "counter", "gset", … Never NULL; the text is static. */
ONCE_API const char *once_object_type_name(enum once_object_type type);

/* Is it one of the mergeable types, which replicas exchange? */
static inline bool once_object_mergeable(enum once_object_type type)
{
    return type >= ONCE_OBJECT_MAX && type <= ONCE_OBJECT_MAP;
}

/* An object, as it is now. Release it. */
struct once_object {
    enum once_object_type type; /* NONE: nobody used this name yet */
    uint64_t version; /* REGISTER: its version (0 never set); LOG: its count of events; OUTBOX:
                       * messages ever; mergeable: the change that it last changed with */
    bool present;     /* REGISTER: it has a value now (else deleted) */
    /* REGISTER: the value. Mergeable: the state, as in lattice.h. Else empty. */
    struct once_bytes state;
    /* {"name":"acct:42","type":"counter","value":900}: everything, for people and for HTTP; of
     * logs, outboxes and buckets only the counts (once_object_read has the rest), of sets and
     * vectors the first 1000 entries and "more":true (state has the rest). Bytes that are
     * not UTF-8 are given in base64, under "value_base64" instead of "value". */
    struct once_bytes json;
    void *memory;
};
ONCE_API void once_object_release(struct once_object *object); /* accepts NULL */

/* Only durable facts are shown: may wait for a write. ONCE_ERR_INVALID (the name), ONCE_ERR_MEMORY,
 * ONCE_ERR_STOPPED, ONCE_ERR_UNSUPPORTED. */
ONCE_API ONCE_MUST_CHECK int once_object_get(struct once_store *store, struct once_bytes name,
                                             struct once_object *ret_object);

/* An event, a message, or a bucket. Bytes are the caller's only inside of each. */
struct once_object_item {
    uint64_t number;         /* LOG: from 1; OUTBOX: from 1; BUCKETS: the count */
    struct once_bytes id;    /* LOG: event id; BUCKETS: the bucket */
    struct once_bytes group; /* OUTBOX */
    struct once_bytes payload;
};
/* Calls each for up to count (1 to ONCE_LIST_COUNT_MAX) items behind the cursor, 0 for the
 * beginning, and gives the cursor to go on with; *ret_more says whether there was more then. The
 * cursor of a log or an outbox is the number of the last item: what comes later can be read by
 * asking again. A bucket's cursor counts buckets, in the order of their bytes. Only durable facts
 * are shown. ONCE_ERR_INVALID, ONCE_ERR_OBJECT_TYPE, ONCE_ERR_MEMORY, ONCE_ERR_STOPPED. */
ONCE_API ONCE_MUST_CHECK int
once_object_read(struct once_store *store, struct once_bytes name, uint64_t cursor, size_t count,
                 void (*each)(void *user, const struct once_object_item *item), void *user,
                 uint64_t *ret_cursor, bool *ret_more);

/* Names and types of objects, in the order in which they were first used. As once_list. */
ONCE_API ONCE_MUST_CHECK int
once_object_list(struct once_store *store, uint64_t cursor, size_t count,
                 void (*each)(void *user, struct once_bytes name, enum once_object_type type),
                 void *user, uint64_t *ret_cursor);

/* ---- Replication of the mergeable ones ------------------------------------------------------- */

/* Merges a state or a delta into the object, durably; needs no key. *ret_changed (may be NULL): it
 * was news. ONCE_ERR_INVALID (the name), ONCE_ERR_DAMAGED (not a canonical state),
 * ONCE_ERR_OBJECT_TYPE, ONCE_ERR_FULL (ONCE_MERGEABLE_SIZE_MAX), … */
ONCE_API ONCE_MUST_CHECK int once_object_merge(struct once_store *store, struct once_bytes name,
                                               struct once_bytes state, bool *ret_changed);

/* What has come to the object since a version of it: a delta, or the whole state where what came
 * when is not known any more; appended to out. *ret_version is what to ask with next time. since 0
 * gives the whole state; nothing since: appends nothing. ONCE_ERR_NO_OBJECT, ONCE_ERR_OBJECT_TYPE,
 * ONCE_ERR_FULL (out). */
ONCE_API ONCE_MUST_CHECK int once_object_delta(struct once_store *store, struct once_bytes name,
                                               uint64_t since, struct once_buf *out,
                                               uint64_t *ret_version);

/* Anti-entropy. A replica asks another store for its changes and merges them into its own; the
 * messages may get lost, be repeated, and come in any order. The cursor belongs to one pair of
 * stores; keep it anywhere, or start again from all zero. Only durable changes are given, whatever
 * the store's durability is; the same goes for once_object_delta.
 *
 * Appends one message of at most about size_max bytes (an object larger than that still goes whole)
 * to out, nothing if there is no news, and advances the cursor; *ret_more: ask again now. */
struct once_changes_cursor {
    uint8_t store_id[16];
    uint64_t since; /* everything up to here was given */
    uint64_t until; /* a walk over all objects is under way: it will have given all up to here, */
    uint64_t at;    /* and goes on with this object */
};
ONCE_API ONCE_MUST_CHECK int once_changes(struct once_store *store,
                                          struct once_changes_cursor *cursor, size_t size_max,
                                          struct once_buf *out, bool *ret_more);
/* Merges a message of once_changes: durable when it returns. *ret_count (may be NULL): how many
 * objects it was news for. A bad message changes nothing: ONCE_ERR_DAMAGED. An object that is of
 * another type here (ONCE_ERR_OBJECT_TYPE) stays as it is, and so does one that would pass a bound
 * (ONCE_ERR_FULL, ONCE_ERR_TOO_LARGE); the others are merged and counted all the same. */
ONCE_API ONCE_MUST_CHECK int once_changes_merge(struct once_store *store, struct once_bytes message,
                                                size_t *ret_count);

/* ---- Leases ---------------------------------------------------------------------------------- */

/* A named lease with a fencing token, so that Once hands tokens out: `LEASE name owner ms` and so
 * on, for who wants functions. Pass the token to the resource, which refuses smaller ones (GUARD);
 * of objects in the same store HOLD lets only the newest token through, as often as it likes. */
struct once_lease {
    enum once_word word; /* APPLIED; REJECTED: someone else has it, or the token is not the newest;
                          * of a request also MISMATCH, TOO_OLD, BUSY, DOUBT */
    uint64_t token;      /* APPLIED: yours */
};
/* Asked under a key: a repeated request gets the first answer, a new try is a new key. The same
 * owner asking again while it has the lease gets the same token; its end stays. owner names one
 * holder: 1 to ONCE_OWNER_SIZE_MAX bytes. */
ONCE_API int once_lease_grant(struct once_store *store, struct once_name request,
                              struct once_bytes lease, struct once_bytes owner, once_ms lease_ms,
                              struct once_lease *ret_lease);
/* From now on for lease_ms, and never shorter than it was. Works also after its end, as long as
 * nobody else was granted it. */
ONCE_API int once_lease_renew(struct once_store *store, struct once_bytes lease, uint64_t token,
                              once_ms lease_ms, struct once_lease *ret_lease);
ONCE_API int once_lease_release(struct once_store *store, struct once_bytes lease, uint64_t token,
                                struct once_lease *ret_lease);

#ifdef __cplusplus
}
#endif
#endif
