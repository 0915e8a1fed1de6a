/* SPDX-License-Identifier: Apache-2.0
 *
 * What RESP and HTTP share: a call with someone's identity behind it, policed by its namespace,
 * handed to the store, parked if it asked to WAIT, counted, and told.
 *
 *     host: once__service_check  →  once__service_submit  →  store  →  (waiting room)  →  done
 *
 * Parking (D4) costs no thread and no polling. A begin that is told BUSY and may wait is put into
 * the waiting room from the store's own callback, and so is the end of an operation taken out of
 * it: callbacks come one at a time and in the order of decisions, so no end can slip between. Who
 * is taken out begins again, and gets REPLAY, or EXECUTE when the first one failed. Calls of one
 * name stand in a line; its head also begins again when the lease that all of them wait for may be
 * over. Where servers share a store, another one may end the operation, and no callback tells:
 * there the head asks often.
 */
#ifndef ONCE_SERVER_SERVICE_H
#define ONCE_SERVER_SERVICE_H

#include <once/apply.h>
#include <once/store.h>

#include "server/access.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/work.h"

struct once__service;
struct once__call;

/* The place of a call in the waiting room; room.c. Under the room's lock from the first parking on.
 */
struct once__parking {
    uint64_t hash;                  /* of its name */
    uint64_t number;                /* who came first has a smaller one; 0: was never parked */
    uint64_t probe_ns;              /* the head of a line: when it asks how things are */
    uint64_t wake_ns;               /* what the heap is ordered by */
    size_t heap_at;                 /* its place there */
    struct once__call *next, *prev; /* in the line of its name, a ring */
    struct once__call *chain;       /* the head of a line: the next one in the table; also the next
                                     * of a list of calls that were taken out */
    struct once__call **link;       /* what points at it there */
    uint8_t probes;                 /* how often it was parked */
    bool parked;
    bool again;     /* was parked and begins again */
    bool cancelled; /* its caller is gone */
};

/* One call on its way. Hosts embed it; all zero but what they say. */
struct once__call {
    /* The host's. op as in store.h, but told and user, which are the service's. A policy fills in
     * what is not given: ttl_ms 0 of begin and apply, lease_ms 0 of begin, no on_doubt_given. */
    struct once_op op;
    once_ms wait_ms;                       /* begin: how long it may be parked; 0 not at all */
    bool on_doubt_given;                   /* op.on_doubt was said by the request */
    const char *from;                      /* the caller's address, for the audit; NULL: not said */
    void (*done)(struct once__call *call); /* op.reply is there; on any thread; must not wait */
    void *user;

    /* Written by once__service_check. */
    enum once_outcome outcome; /* complete: what the policy made of its code. STORE unless the
                                * namespace says otherwise; RELEASE: it was failed instead; DOUBT:
                                * its lease was given up */
    char ns[ONCE_NAMESPACE_SIZE_MAX + 1]; /* op.ns when it is "namespace@user" */
    char reason[16];                      /* op.result of a RELEASE */
    bool audited;                         /* its outcome is written down too */
    char who[ONCE_USER_SIZE_MAX + 1];     /* the caller, for that */

    /* Inner. */
    struct once__service *service;
    struct once__counts *counts;
    uint64_t began_ns;      /* handed to the store, the last time */
    uint64_t took_ns;       /* how long that took, while it is parked */
    uint64_t wait_until_ns; /* the end of its wait */
    struct once__parking parking;
};

struct once__service_setup {
    struct once__metrics *metrics;
    struct once__access *access;
    struct once__log *log;
};

ONCE_MUST_CHECK int once__service_new(const struct once__service_setup *setup,
                                      struct once__service **ret_service);
/* Everything was told before. Accepts NULL. */
void once__service_free(struct once__service *service);

/* The store, once it has been opened (borrowed). Before, there is none. */
void once__service_open(struct once__service *service, struct once_store *store);
struct once_store *once__service_store(const struct once__service *service); /* NULL: not yet */
/* Does the store answer now? A folder always does; nothing does before it was opened. */
bool once__service_reachable(const struct once__service *service);
/* The time by which the store judges what is over: the database's, where servers share it, because
 * their own clocks may differ. Else this machine's. */
once_ms once__service_wall_ms(const struct once__service *service);

/* Is this caller allowed to, is it within the policy and the rate? On failure op.reply.err and
 * op.reply.what (static text) say why, and nothing else happens:
 *     ONCE_ERR_DENIED     the role, the namespace or the object is not theirs
 *     ONCE_ERR_RATE       over their rate; reply.retry_ms
 *     ONCE_ERR_LOADING    the store is not open yet
 *     ONCE_ERR_TOO_LARGE  the result or value, by the policy
 *     ONCE_ERR_INVALID    anything else against the policy
 * On success the op says what the policy made of it. resolve, forget need ADMIN, or WRITE where
 * the caller names the fence of a forget; get and looking need READ. Values (ONCE_CALL_SET,
 * ONCE_CALL_EXPIRE) live in ONCE_VALUES_NAMESPACE and nothing else does; to forget one needs WRITE.
 * Writes the audit line of resolve and forget, those of values apart; a second one, with the
 * verdict, follows before done is called. */
ONCE_MUST_CHECK int once__service_check(struct once__service *service,
                                        const struct once__config *config,
                                        const struct once__identity *identity,
                                        struct once__call *call);
/* The same for looking at operations without a call (list): ret_ns, of ONCE_NAMESPACE_SIZE_MAX + 1
 * bytes, is the namespace to look in. An empty one is all of them, which only administrators may
 * see. *ret_what is static text, written on failure. */
ONCE_MUST_CHECK int once__service_check_look(struct once__service *service,
                                             const struct once__config *config,
                                             const struct once__identity *identity,
                                             struct once_bytes ns, char *ret_ns,
                                             const char **ret_what);
/* For looking over namespaces at once, where once__service_sees says what each caller is shown. */
ONCE_MUST_CHECK int once__service_check_scan(struct once__service *service,
                                             const struct once__config *config,
                                             const struct once__identity *identity,
                                             const char **ret_what);
/* May this caller see what is kept in this namespace, and what do they call it? Where a namespace
 * is by_user its "namespace@user" is that user's, who names it without; administrators see all of
 * them, as they are. */
bool once__service_sees(const struct once__config *config, const struct once__identity *identity,
                        struct once_bytes kept, struct once_bytes *ret_asked);
/* And for objects without a call: an empty name is all of them (a list, changes). */
ONCE_MUST_CHECK int once__service_check_object(struct once__service *service,
                                               const struct once__config *config,
                                               const struct once__identity *identity,
                                               struct once_bytes name, bool writes,
                                               const char **ret_what);

/* Takes all of them, each checked; done is called once for each, never in here for any. The store
 * decides them in order. */
void once__service_submit(struct once__service *service, struct once__call **calls, size_t count);
/* The same on a thread that can wait for the disk for a moment: done may be called in here. */
void once__service_submit_here(struct once__service *service, struct once__call **calls,
                               size_t count);

/* The caller is gone: a parked call is told soon (BUSY), so that it is not given an operation
 * that nobody would do; one that is given it all the same fails it at once, unless it names an
 * owner, who may be asking again elsewhere and be told to execute under the same fence. done is
 * called as ever. Any thread; the call's memory must still be there, so it is freed after done
 * and after this. */
void once__service_cancel(struct once__service *service, struct once__call *call);

/* Tells everyone who is parked BUSY, now and from now on: the server is stopping. */
void once__service_drain(struct once__service *service);

/* How many calls were submitted and not told yet; how many of them are parked. */
size_t once__service_pending(const struct once__service *service);
size_t once__service_parked(const struct once__service *service);

#endif
