/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the store on PostgreSQL. README.md has the map.
 *
 *     pg_open      the store: open, close, its calls         pg_lane    a thread: queue, told
 *     pg_install   the schema; what may lose data is refused pg_flight  a lane's batches under way
 *     pg_link      one session: connect, wait, errors        pg_batch   once.calls: arrays, rows
 *     pg_ask       sessions to look with; pg_list: lists     pg_array   binary values
 *     pg_keeper    each second: time, settings, numbers      pg_url     names of stores
 *     pg_route     which lane                                pg_take    what a batch takes
 *     pg_apply     applies, merges, values (pg_apply.h)
 *
 * Threads: each lane has one, the keeper has one. Locks, in the order in which they are taken:
 * told_lock (held while someone is told, who may submit) → a lane's lock; route.lock, looks_lock
 * and numbers_lock are leaves. Nobody holds a lane's lock while it talks to the database.
 */
#ifndef ONCE_STORE_POSTGRES_PG_INNER_H
#define ONCE_STORE_POSTGRES_PG_INNER_H

#include "base/bytes.h"
#include "store/postgres/pg.h"
#include "store/store.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>

struct once__pg_store;
struct once__pg_apply;

/* ---- One session (pg_link.c) ----------------------------------------------------------------- */

enum { ONCE__PG_STATE_SIZE = 6 }; /* an SQLSTATE and its NUL */

struct once__pg_link {
    struct once__pg_store *store;
    PGconn *conn; /* NULL: none */
    bool hurries; /* gives up as soon as the store is being closed */
    /* A warning came since this was cleared. A commit with one counts as unknown: the wait for a
     * synchronous standby may have been cancelled. */
    bool warned;
    int err;                         /* what the last error means, */
    char state[ONCE__PG_STATE_SIZE]; /* its SQLSTATE; "" when the session was lost, */
    char text[512];                  /* and what it said, without a secret */
};

/* Milliseconds that only grow: for deadlines of ours. Store time is the database's. */
once_ms once__pg_clock_ms(void);
uint64_t once__pg_clock_us(void);

/* Connects and sets the session up. ONCE_ERR_IO, ONCE_ERR_UNSUPPORTED (a server that is too old, or
 * that may lose what it acknowledges), ONCE_ERR_PERMISSION; text says why. */
ONCE_MUST_CHECK int once__pg_link_open(struct once__pg_link *link, once_ms until_ms);

/* Takes the advisory lock with this number, which proves that no other session that took it is
 * there any more. ONCE_ERR_LOCKED: it is still there, after ONCE_PG_LOCK_MS; then end_holder ends
 * it, as soon as it can be ended. */
ONCE_MUST_CHECK int once__pg_link_lock(struct once__pg_link *link, int64_t number,
                                       once_ms until_ms);
ONCE_MUST_CHECK int once__pg_link_end_holder(struct once__pg_link *link, int64_t number,
                                             once_ms until_ms);

/* Accepts one that is closed. */
void once__pg_link_close(struct once__pg_link *link);

/* Waits for the next result; NULL is the end of a command's, as PQgetResult says it. Errors of
 * commands are results too (look at PQresultStatus; once__pg_failed keeps what they say).
 * ONCE_ERR_IO. */
ONCE_MUST_CHECK int once__pg_next(struct once__pg_link *link, once_ms until_ms,
                                  PGresult **ret_result);

/* Keeps state and text of a result that is an error, or with NULL those of a lost session, and
 * returns the error that it means: ONCE_ERR_IO, ONCE_ERR_SPACE, ONCE_ERR_PERMISSION,
 * ONCE_ERR_VERSION, ONCE_ERR_MEMORY. */
int once__pg_failed(struct once__pg_link *link, const PGresult *result);

/* One statement outside of a pipeline; its results are binary. With values NULL it may be several,
 * whose results are text, and the last is given. */
ONCE_MUST_CHECK int once__pg_run(struct once__pg_link *link, const char *sql, int count,
                                 const char *const *values, const int *sizes, const int *formats,
                                 once_ms until_ms, PGresult **ret_result);

/* Would the same question, asked again a moment later, or alone, do better? (A deadlock, a lock
 * that someone holds.) */
bool once__pg_passing(const struct once__pg_link *link);
bool once__pg_lock_held(const struct once__pg_link *link); /* 55P03 */
/* Will this session never decide again? (It is ending, or the server cannot be written to.) */
bool once__pg_useless(const struct once__pg_link *link);

/* ---- Binary values (pg_array.c) -------------------------------------------------------------- */

enum {
    ONCE__PG_BOOL = 16,
    ONCE__PG_BYTEA = 17,
    ONCE__PG_INT8 = 20,
    ONCE__PG_INT2 = 21,
    ONCE__PG_INT4 = 23,
    ONCE__PG_TEXT = 25,
    ONCE__PG_UUID = 2950,
    ONCE__PG_BOOL_ARRAY = 1000,
    ONCE__PG_BYTEA_ARRAY = 1001,
    ONCE__PG_INT2_ARRAY = 1005,
    ONCE__PG_INT4_ARRAY = 1007,
    ONCE__PG_TEXT_ARRAY = 1009,
    ONCE__PG_INT8_ARRAY = 1016,
    ONCE__PG_UUID_ARRAY = 2951
};

/* The name of one call: the same when it is asked again. */
struct once__pg_id {
    uint8_t bytes[16];
};

/* An array of one dimension: begin with its element type and count, then as many elements. Empty
 * bytes are an empty element, not a NULL. ONCE_ERR_MEMORY, ONCE_ERR_FULL. */
ONCE_MUST_CHECK int once__pg_array_begin(struct once_buf *buf, uint32_t type, size_t count);
ONCE_MUST_CHECK int once__pg_put_bool(struct once_buf *buf, bool value);
ONCE_MUST_CHECK int once__pg_put_i16(struct once_buf *buf, int16_t value);
ONCE_MUST_CHECK int once__pg_put_i32(struct once_buf *buf, int32_t value);
ONCE_MUST_CHECK int once__pg_put_i64(struct once_buf *buf, int64_t value);
ONCE_MUST_CHECK int once__pg_put_bytes(struct once_buf *buf, struct once_bytes value);
ONCE_MUST_CHECK int once__pg_put_null(struct once_buf *buf);

/* A value of a binary result; NULL is 0, or no bytes (borrowed from the result). What has another
 * size than it should is ONCE_ERR_DAMAGED. */
ONCE_MUST_CHECK int once__pg_get_i64(const PGresult *result, int row, int column, int64_t *ret);
ONCE_MUST_CHECK int once__pg_get_i32(const PGresult *result, int row, int column, int32_t *ret);
ONCE_MUST_CHECK int once__pg_get_i16(const PGresult *result, int row, int column, int16_t *ret);
struct once_bytes once__pg_get_bytes(const PGresult *result, int row, int column);

/* ---- A batch (pg_batch.c) -------------------------------------------------------------------- */

/* The parameters of once.calls. */
enum { ONCE__PG_PARAMS = 19 };

/* Calls that are asked together, and how far that went. */
struct once__pg_batch {
    /* As they were submitted; the asked ones are sorted by name. */
    struct once_op *ops[ONCE_PG_BATCH_COUNT_MAX];
    size_t count;
    bool applies;        /* of call 8 to 11, else of 0 to 7 */
    bool held;           /* one call whose row someone holds: it does not wait for it */
    PGresult *result;    /* rows that are not committed yet */
    bool failed;         /* an error came, now or with the commit; the link keeps what it said */
    once_ms deadline_ms; /* the first of its calls */
    uint64_t sent_us;
    size_t sent_size;
};

/* Where a batch is written down before it is sent. */
struct once__pg_writer {
    struct once_buf params[ONCE__PG_PARAMS];
};
void once__pg_writer_init(struct once__pg_writer *writer);
void once__pg_writer_release(struct once__pg_writer *writer);

/* What the request says in bytes: for the bound of a batch. */
size_t once__pg_op_size(const struct once_op *op);

/* What SQL does not check again; fills the defaults in. As once__call_refuse on failure. */
ONCE_MUST_CHECK int once__pg_op_check(struct once_op *op);

/* The statements that ask; prepared once a session, before it is in pipeline mode. */
ONCE_MUST_CHECK int once__pg_batch_prepare(struct once__pg_link *link, once_ms until_ms);

/* Sends it, with the end of its transaction. The session is in pipeline mode. Sorts the ops by
 * name. ONCE_ERR_MEMORY, ONCE_ERR_FULL: nothing was sent. ONCE_ERR_IO: nobody knows. */
ONCE_MUST_CHECK int once__pg_batch_send(struct once__pg_link *link, struct once__pg_writer *writer,
                                        struct once__pg_batch *batch);

/* Fills replies from the rows. Each op has its own reply.err. Those that were left out, because the
 * answers before them are large, stand behind the ret_told ones that were not: decided, to be asked
 * again. ONCE_ERR_DAMAGED: these are not the rows that were asked for, and no reply was written. */
ONCE_MUST_CHECK int once__pg_batch_read(struct once__pg_batch *batch, once_ms *ret_now_ms,
                                        size_t *ret_told);

/* ---- Lanes (pg_lane.c, pg_flight.c) ---------------------------------------------------------- */

enum { ONCE__PG_HELD_COUNT = 16, ONCE__PG_BACKOFF_MS_MIN = 5 };

/* A name whose row some transaction holds: it is asked for alone until_ms, and not before
 * next_ms. */
struct once__pg_held {
    uint64_t hash;
    once_ms next_ms;
    once_ms until_ms;
};

struct once__pg_queue {
    struct once_op *first; /* through inner.next */
    struct once_op **last;
};

/* DOWN ─open─▶ SETTLING ─lock─▶ UP; any of them ─lost─▶ DOWN. */
enum once__pg_lane_state { ONCE__PG_DOWN, ONCE__PG_SETTLING, ONCE__PG_UP };

struct once__pg_lane {
    struct once__pg_store *store;
    pthread_t thread;
    bool started;
    int wake_fd;    /* an eventfd: there are more, or stop */
    atomic_bool up; /* for the numbers */

    pthread_mutex_t lock;
    struct once__pg_queue added; /* submitted and not taken yet */
    bool stop;

    /* The lane's thread's own. */
    enum once__pg_lane_state state;
    struct once__pg_link link;
    int64_t session;     /* its advisory lock, the same for every session until one is given up */
    once_ms settling_ms; /* since then */
    bool ended;          /* the session that holds the lock was told to end */
    bool said;           /* that there is no session */
    once_ms retry_ms;    /* connect again then */
    once_ms backoff_ms;
    struct once__pg_queue waiting;                                /* in the order of submission */
    struct once__pg_batch *flight[ONCE_PG_BATCHES_IN_FLIGHT_MAX]; /* the oldest first */
    size_t flight_count;
    struct once__pg_apply *apply;
    struct once__pg_batch *applying; /* of which nobody knows: it is run again first */
    size_t count_max; /* of the next batch: smaller after an error that one call may have caused */
    size_t answer_size;                             /* bytes of the largest answer lately */
    struct once__pg_held held[ONCE__PG_HELD_COUNT]; /* hash 0: none */
    struct once__pg_writer writer;
    struct once__pg_batch batches[ONCE_PG_BATCHES_IN_FLIGHT_MAX];
};

ONCE_MUST_CHECK int once__pg_lane_start(struct once__pg_lane *lane, struct once__pg_store *store);
/* Both accept one that never started. All are stopped before the first is released: whom one lane
 * tells may submit to another. */
void once__pg_lane_stop(struct once__pg_lane *lane);
void once__pg_lane_release(struct once__pg_lane *lane);
/* False: it was told to stop, and the op is not taken. */
ONCE_MUST_CHECK bool once__pg_lane_add(struct once__pg_lane *lane, struct once_op *op);
void once__pg_lane_wake(struct once__pg_lane *lane);

/* Fills the batch from those that wait; it stays empty when nothing may be asked now. */
void once__pg_take(struct once__pg_lane *lane, struct once__pg_batch *batch);

/* Someone holds the row of this name. */
void once__pg_hold(struct once__pg_lane *lane, uint64_t hash);

/* Sends what may be sent. */
void once__pg_flight_fill(struct once__pg_lane *lane);

/* Takes what has come, and tells it. */
void once__pg_flight_receive(struct once__pg_lane *lane);

/* The session is not used any more: what is under way waits for the next one. */
void once__pg_flight_lost(struct once__pg_lane *lane);

/* Refuses what is over, and loses a session that has not answered until then. */
void once__pg_flight_expire(struct once__pg_lane *lane);

/* When fill or expire have to be called next, however quiet it is. */
once_ms once__pg_flight_next_ms(const struct once__pg_lane *lane);

/* Is there a call that was sent and is not settled? */
bool once__pg_flight_unknown(const struct once__pg_lane *lane);

/* ---- Which lane (pg_route.c) ----------------------------------------------------------------- */

enum {
    ONCE__PG_BUCKETS = 4096,    /* of names */
    ONCE__PG_FURTHER_COUNT = 64 /* so many calls are worth a further batch, or lane */
};

struct once__pg_route {
    pthread_mutex_t lock;
    struct {
        uint32_t count; /* calls under way: all of them in this lane */
        uint32_t lane;
    } buckets[ONCE__PG_BUCKETS];
    size_t counts[ONCE_PG_LANES_MAX]; /* calls under way in each lane */
};

/* The lane for a call with this hash, which is under way from now on; leave: it has been told. */
struct once__pg_lane *once__pg_route_enter(struct once__pg_store *store, uint64_t hash);
void once__pg_route_leave(struct once__pg_store *store, uint64_t hash);

/* ---- The store ------------------------------------------------------------------------------- */

struct once__pg_store {
    struct once_store store; /* first */
    char *url;               /* with its password: never shown */
    bool accept_loss;
    void (*say)(void *user, enum once__pg_level level, const char *event, const char *text);
    void *user;

    struct once__pg_lane *lanes;
    size_t lane_count;
    struct once__pg_route route;
    uint64_t seed;         /* of the hash of names */
    struct once__pg_id id; /* of the store; a call's is this and its number */
    atomic_uint_fast64_t last_call;
    atomic_size_t submitted_count;
    atomic_bool closing;
    _Atomic(const char *) unsafe; /* a setting that loses data, found; NULL: none */
    once_ms close_ms;             /* everything is given up then; written before closing */
    pthread_mutex_t told_lock;    /* one is told at a time */

    pthread_mutex_t looks_lock;
    pthread_cond_t looks_free;
    struct once__pg_link looks[ONCE_PG_LOOKS_MAX];
    bool looks_taken[ONCE_PG_LOOKS_MAX];
    pthread_t keeper;
    bool keeper_started;
    int keeper_fd; /* an eventfd: stop */
    struct once__pg_link keeper_link;

    pthread_mutex_t numbers_lock;
    struct once_stats numbers; /* as they were last seen, and those that count */
    once_ms numbers_ms;        /* our clock when now_ms was so */
};

static inline struct once__pg_store *once__pg_of(struct once_store *store)
{
    return (struct once__pg_store *)store;
}

/* A call's position is its number, and in the lowest bit whether nobody knows what came of it: an
 * answer to it was lost. If not, and it is not under way, nothing was decided. Once set it stays:
 * that it fails when it is asked again says nothing of the first time. */
static inline bool once__pg_is_unknown(const struct once_op *op)
{
    return (op->inner.position & 1) != 0;
}

static inline void once__pg_set_unknown(struct once_op *op)
{
    op->inner.position |= 1;
}

/* The name of a call that was submitted. */
struct once__pg_id once__pg_call_id(const struct once__pg_store *store, const struct once_op *op);

/* Tells ops, which are decided or refused, one at a time. The lock of no lane is held. */
void once__pg_tell(struct once__pg_store *store, struct once_op *const *ops, size_t count);

/* What an operator should know. */
__attribute__((format(printf, 4, 5))) void once__pg_say(struct once__pg_store *store,
                                                        enum once__pg_level level,
                                                        const char *event, const char *format, ...);

/* Writes the message and returns err. */
__attribute__((format(printf, 3, 4))) int
once__pg_message(int err, struct once_message *ret_message, const char *format, ...);

/* The settings were looked at: static text, or NULL when nothing is wrong. While something is, and
 * loss was not accepted, nothing is asked. */
void once__pg_judged(struct once__pg_store *store, const char *defect);

/* Store time as the database last told it, gone on with our clock. For what needs no decision. */
once_ms once__pg_store_ms(struct once__pg_store *store);
void once__pg_saw_ms(struct once__pg_store *store, once_ms now_ms);

/* ---- The schema and the settings (pg_install.c) ---------------------------------------------- */

/* Installs or upgrades the schema. ONCE_ERR_VERSION, ONCE_ERR_PERMISSION, ONCE_ERR_IO. */
ONCE_MUST_CHECK int once__pg_install(struct once__pg_link *link, once_ms until_ms,
                                     struct once_message *ret_message);

/* Are statements of this session all answered by one backend? Locks and settings are worth nothing
 * otherwise. other is opened and closed where it is needed to find out. ONCE_ERR_UNSUPPORTED with
 * link->text; ONCE_ERR_IO. */
ONCE_MUST_CHECK int once__pg_check_sessions(struct once__pg_link *link, struct once__pg_link *other,
                                            once_ms until_ms);

/* Is what this session commits kept? ONCE_ERR_UNSUPPORTED with link->text naming the setting and
 * the remedy (a warning where accept_loss); ONCE_ERR_IO. */
ONCE_MUST_CHECK int once__pg_check_durable(struct once__pg_link *link, once_ms until_ms);

/* ---- Looking (pg_ask.c, pg_list.c, pg_keeper.c) ---------------------------------------------- */

/* One statement on a session that is not a lane's, up to ONCE_PG_WAIT_MS; it is asked again on a
 * new session when the old one is lost. Results are binary; the caller clears the result. What it
 * saw is durable when this returns ONCE_OK: a commit proved it. Only for statements that may run
 * twice. ONCE_ERR_IO, ONCE_ERR_CLOSED, ONCE_ERR_MEMORY, and those of once__pg_failed. */
ONCE_MUST_CHECK int once__pg_ask(struct once_store *store, const char *sql, int count,
                                 const char *const *values, const int *sizes, const int *formats,
                                 PGresult **ret_result);

int once__pg_list(struct once_store *store, const struct once_filter *filter, uint64_t cursor,
                  size_t count, void (*each)(void *user, const struct once_item *item), void *user,
                  uint64_t *ret_cursor);

ONCE_MUST_CHECK int once__pg_keeper_start(struct once__pg_store *store);
void once__pg_keeper_join(struct once__pg_store *store); /* accepts one that never started */

#endif
