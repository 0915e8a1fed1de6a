/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of RESP connections share. All of it belongs to the loop's thread, but for the
 * list of told flights, which any thread adds to.
 *
 *     conn.c          all connections: made, configured, drained; the end of a loop's turn
 *     conn_turn.c     one connection: goes on, is bounded, ends
 *     conn_read.c     bytes in: where they are kept, commands found in them
 *     conn_flight.c   commands under way: order, what comes back
 *     flight_memory.c their memory
 *     conn_write.c    bytes out
 *     conn_watch.c    the clock: deadlines, slow readers
 *     listen.c        who listens, who is let in
 *
 * A connection's life:
 *
 *     accepted → open ⇄ (held, paused) → closing (QUIT, wrong bytes, drained, end of input): what
 *     is under way is answered and sent → lingering (after wrong bytes: so that the answer is not
 *     lost) → gone: the socket is closed, what is in the store comes back → freed
 */
#ifndef ONCE_SERVER_CONN_INNER_H
#define ONCE_SERVER_CONN_INNER_H

#include <stdatomic.h>

#include <uv.h>

#include "server/conn.h"
#include "server/resp_read.h"
#include "server/tls.h"

enum {
    ONCE__INPUT_SIZE = 1 << 16,    /* what one connection may say in a turn of the loop */
    ONCE__INPUT_BEFORE = 1 << 14,  /* room in front of it, for the beginning of a cut command */
    ONCE__TURN_COMMANDS = 1024,    /* commands of one connection in a turn of the loop */
    ONCE__FLIGHT_ROOM = 512,       /* bytes of a command that need no further memory */
    ONCE__GIFT_SIZE_MIN = 1 << 14, /* smaller arguments are copied: their buffer is worth more */
    ONCE__FLIGHTS_SPARE_MAX = 4096,
    ONCE__LINGER_MS = 2000,
    ONCE__ANSWER_GUESS = 1 << 16,                          /* of a connection that is new */
    ONCE__COMMAND_RESULTS_MAX = 4 * (ONCE_RESULT_SIZE_MAX) /* bytes of results of one command */
};

enum once__flight_state {
    ONCE__FLIGHT_HELD,    /* a job that waits until what came before it is answered */
    ONCE__FLIGHT_AWAY,    /* in the store, in a lane */
    ONCE__FLIGHT_BACK,    /* finish writes the answer */
    ONCE__FLIGHT_ANSWERED /* the answer is there and waits for its turn */
};

/* One command under way. */
struct once__flight {
    struct once__request request;
    struct once__conn *conn;
    struct once__flight *next;      /* of its connection, in order; or in the spare list */
    struct once__flight *told_next; /* in the list of told ones */
    _Atomic size_t untold;          /* calls that did not come back yet */
    enum once__flight_state state;
    bool holds;     /* no further command of the connection is begun before this one is answered */
    bool waits;     /* it may be parked */
    int protocol;   /* when it was begun */
    bool cancelled; /* its waits were */
    void (*run)(struct once__job *job); /* the command's own */
    size_t away_calls;                  /* counted in conns->calls_away */
    size_t away_size;                   /* counted in conn->away_size and conns->away_size */
    _Atomic size_t held_size;           /* counted in conns->held_size */
    uint8_t *answer;
    size_t answer_size;
    void *bytes; /* arguments, or the answer, that did not fit into room */
    void *words; /* the array of arguments that did not fit */
    _Alignas(16) uint8_t room[ONCE__FLIGHT_ROOM];
};

/* The beginning of a command whose end has not come yet, and whatever follows while the connection
 * is held up. No memory at all when empty. */
struct once__tail {
    uint8_t *data;
    size_t at; /* understood up to here */
    size_t size;
    size_t capacity;
};

struct once__conn {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    struct once__conns *conns;
    struct once__conn *next, **link; /* of all */
    struct once__conn *turn_next;    /* in conns->turns */
    struct once__conn *starve_next;  /* in conns->starving */
    struct once__session session;
    struct once__tls_session *tls; /* NULL: none */

    /* In. */
    struct once__tail tail;
    struct once__resp_reader reader;
    struct once__resp_arg *parked_args; /* of a command that is not whole yet */
    size_t parked_count;
    unsigned budget;   /* commands that may still be begun in this turn */
    uint64_t heard_ns; /* last bytes */

    /* Under way. */
    struct once__flight *first, *last;
    size_t flights;
    size_t away;         /* of them handed to others */
    size_t waiting;      /* of them that may be parked */
    size_t away_size;    /* bytes that all of them hold */
    size_t answer_guess; /* how large its answers were lately: quick to grow, slow to shrink */

    /* Out. */
    uv_write_t write;
    uv_shutdown_t shutdown;
    uint8_t *sending; /* what write sends; NULL: nothing is under way */
    size_t sending_size;
    struct once_buf queued; /* what follows */
    size_t left;            /* of sending, when the clock last looked */
    uint64_t progress_ns;   /* when that last changed */

    bool owner;        /* over the unix socket, by who started us */
    bool listed;       /* in conns->turns */
    bool starves;      /* in conns->starving; it gets turns all the same, to answer what is back:
                        * or its bytes would never make room */
    bool reading;      /* libuv reads */
    bool filled;       /* more than a whole input was there: others first */
    bool hungry;       /* everything that came was understood */
    bool tls_more;     /* ciphertext was fed and not all of it read */
    bool held;         /* by a flight that holds */
    bool eof;          /* nothing more will come */
    bool wrong;        /* it spoke no RESP: lingers */
    bool lingering;    /* only what was not read is thrown away */
    bool reconfigures; /* when it is not held any more */
    bool gone;
    bool closed; /* gone, and libuv has let go of it */
    uint64_t linger_until_ns;
};

struct once__listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    struct once__conns *conns;
    struct once__listener *next;
    bool tls;
    bool stuck; /* someone waits whom there was no memory for */
    char *path; /* of a unix socket, ours while device and inode are these; NULL: TCP */
    uint64_t device, inode;
};

struct once__turns {
    struct once__conn *first, *last;
};

struct once__conns {
    struct once__conns_setup setup;
    struct once__config *config;
    struct once__conn *all;
    size_t count;
    uint64_t last_id;
    struct once__listener *listeners;

    /* Shared by all connections, in use only inside of one function's run. */
    uint8_t *input; /* ONCE__INPUT_BEFORE, then ONCE__INPUT_SIZE */
    struct once__resp_arg *args;
    struct once__out out;   /* goes to the connection whose turn it is */
    struct once__out aside; /* an answer that is to wait */

    struct once__flight *spare;
    size_t spare_count;
    struct once__call **collected; /* go to the service at the end of the turn */
    size_t collected_count, collected_capacity;
    size_t calls_away;
    size_t away_size;           /* bytes of commands under way */
    size_t tail_size;           /* bytes of memory of all tails */
    _Atomic size_t unsent_size; /* bytes that are queued for all connections */

    struct once__turns turns;    /* connections that have something to do */
    struct once__turns starving; /* that may not go on before others are served */
    _Atomic(struct once__flight *) told;
    _Atomic size_t held_size; /* bytes of large results that came back and were not written yet */

    uv_async_t async;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle; /* active: the loop does not sleep */
    uv_timer_t timer;
    unsigned handles;                      /* of these five, open */
    int64_t bytes_in, bytes_out, commands; /* not yet in the metrics */

    bool draining;
    bool empty; /* no handle is left */
    void (*emptied)(void *user);
    void *emptied_user;
};

/* conn.c */
void once__conns_list(struct once__conn *conn);   /* it gets a turn */
void once__conns_starve(struct once__conn *conn); /* it gets one when there is room for its calls */
/* May nobody begin anything, because too much is under way? */
bool once__conns_full(const struct once__conns *conns);
void once__conns_submit(struct once__conns *conns);
uint64_t once__conns_now(const struct once__conns *conns); /* when the loop last woke, in ns */
void once__conns_forget(struct once__conn *conn); /* frees it if nothing refers to it any more */

/* conn_turn.c */
/* Answers, begins, sends, and then reads, waits or ends. */
void once__conn_turn(struct once__conn *conn);
/* May a further command of it be begun? */
bool once__conn_may_begin(const struct once__conn *conn);
/* Nothing is answered any more. what: for the log; NULL: nothing to say. */
void once__conn_drop(struct once__conn *conn, const char *what);
/* Whoever is parked for it is told to come back later: nobody listens any more. */
void once__conn_cancel(struct once__conn *conn);
void once__conn_reconfigure(struct once__conn *conn); /* from now on conns->config */

/* conn_read.c */
void once__conn_read_on(struct once__conn *conn, bool on);
/* Begins commands out of what has come already. */
void once__conn_begin(struct once__conn *conn);
void once__conn_tail_release(struct once__conn *conn);

/* conn_flight.c */
/* Where a command was found. */
struct once__found {
    uint8_t *data; /* the arguments' offsets are relative to it */
    const struct once__resp_arg *args;
    size_t count;
    uint8_t *gift; /* memory that data lies in, and that the flight may take over; else NULL */
};
/* Begins it. True: the gift was taken. */
bool once__flight_begin(struct once__conn *conn, const struct once__found *found);
/* An error that is answered after everything before it; then the connection ends. */
void once__flight_refuse(struct once__conn *conn, const char *code, const char *what);
/* Answers everything that is back and whose turn it is. */
void once__flight_finish(struct once__conn *conn);
void once__flight_told(uv_async_t *async);

/* flight_memory.c */
struct once__flight *once__flight_new(struct once__conn *conn); /* NULL: there is no memory */
void once__flight_free(struct once__flight *flight);
void once__flight_free_all(struct once__conn *conn);
void once__flight_free_spare(struct once__conns *conns);
/* The arguments move to where they stay until the answer is written. False: no memory. */
bool once__flight_take_arguments(struct once__flight *flight, const struct once__found *found,
                                 bool *ret_taken);
/* The answer waits in the flight, whose arguments nobody needs any more. False: no memory. */
bool once__flight_take_answer(struct once__flight *flight, const struct once__out *aside);

/* conn_write.c */
void once__conn_flush(struct once__conn *conn); /* sends what is in conns->out */
size_t once__conn_unsent(const struct once__conn *conn);
/* Sends the end of the stream; the rest of what comes is thrown away for a while. */
void once__conn_linger(struct once__conn *conn);

/* conn_watch.c */
void once__conns_watch(uv_timer_t *timer);

/* listen.c */
void once__listener_retry(struct once__listener *listener);
void once__listeners_close(struct once__conns *conns);

#endif
