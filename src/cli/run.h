/* SPDX-License-Identifier: Apache-2.0
 *
 * `once run`: a command, once per key. What its files share.
 *
 *     read arguments, fingerprint    run_args.c, run_request.c
 *     begin, and point "running"     run_begin.c     the key is ours, durably
 *     signals blocked, fork, exec    run_child.c
 *     output passed on and recorded  run_relay.c, run_output.c   while run_lease.c renews
 *     complete, fail, or in doubt    run_end.c
 *
 * The store is never open while we fork, and never held while the command runs: each call opens it
 * for a moment, whoever owns it then (cli_reach_rest).
 */
#ifndef ONCE_CLI_RUN_H
#define ONCE_CLI_RUN_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include <once/key.h>
#include <once/store.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/owner.h"
#include "cli/reach.h"

enum {
    RUN_OPTION_COUNT = 15,
    RUN_STATUSES = 256, /* exit statuses */
    RUN_STEP_MS = 500   /* signals are looked at this often */
};

extern const struct cli_option run_options[RUN_OPTION_COUNT];

/* ---- Arguments ------------------------------------------------------------------------------- */

struct run_args {
    struct cli_where where;
    const char *ns, *key;
    char **command; /* ends with NULL */
    once_ms wait_ms, ttl_ms, lease_ms;
    bool json, quiet;
    bool retry_doubt, reject_doubt; /* neither: as the store's namespace says */
    bool success[RUN_STATUSES];     /* exit statuses that are the command's answer, */
    bool doubt[RUN_STATUSES];       /* and those that leave open whether it happened */
    const char **inputs, **variables;
    size_t input_count, variable_count;
    size_t output_max;
};

/* Tells what is wrong. The caller releases them in any case. */
int run_args_read(int argc, char **argv, struct run_args *ret_args);
void run_args_release(struct run_args *args);

/* ---- Output ---------------------------------------------------------------------------------- */

/* What a command wrote, in the order in which it was read: the first bytes, up to a bound. */
struct run_frame {
    int stream; /* 1 or 2 */
    size_t size;
};
struct run_output {
    struct once_buf bytes;
    struct run_frame *frames;
    size_t frame_count, frame_capacity;
    uint64_t lost; /* bytes behind those that are kept */
};

void run_output_init(struct run_output *output, size_t size_max);
void run_output_release(struct run_output *output);
void run_output_add(struct run_output *output, int stream, struct once_bytes bytes);

/* As a result that fits into size_max (at least 256) bytes: a line of JSON, and the bytes. What
 * does not fit is counted as lost. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int run_output_write(const struct run_output *output, size_t size_max,
                                     struct once_buf *ret_result);
/* A result as output. One that is not of ours (somebody resolved the operation) is text for stdout.
 * Borrows the result. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int run_output_read(struct once_bytes result, struct run_output *ret_output);
/* All bytes of one stream, in order. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int run_output_stream(const struct run_output *output, int stream,
                                      struct once_buf *ret_bytes);
/* To stdout and stderr. False: not all of it could be written. */
bool run_output_show(const struct run_output *output);
/* Writes all of it, and waits where it must. False: nobody takes it. */
bool run_write(int fd, struct once_bytes bytes);

/* ---- Signals and the child ------------------------------------------------------------------- */

/* What was inherited, and the descriptor that signals are read from. */
struct run_signals {
    pthread_mutex_t *at_store; /* held by who has the store open: we do not stop then */
    sigset_t mask;
    struct sigaction child_action, pipe_action;
    int fd;
};

struct run_child {
    pid_t pid;
    int out, err; /* read ends; -1: closed */
    bool ended;
    int wait_status; /* of waitpid, once it has ended */
};

/* From here on signals wait until they are read. ONCE_ERR_IO. */
ONCE_MUST_CHECK int run_signals_take(pthread_mutex_t *at_store, struct run_signals *ret_signals);
/* Lets those that wait act on this process as they would have: it may end or stop here. For moments
 * in which nothing is begun. */
void run_signals_breathe(const struct run_signals *signals);
/* Is one waiting that would end this process? */
bool run_signals_ending(void);
/* One that came, to the child as it is right; reaps a child that ended. */
void run_signals_read(const struct run_signals *signals, struct run_child *child);

struct run_start {
    const struct run_signals *signals;
    char *const *command;
    once_ms until_ms; /* of run_clock_ms: the lease ends. It is not started later: RUN_LATE */
};
enum { RUN_LATE = -1 };

/* Starts the command. 0, RUN_LATE, or the errno of why it is not running: then nothing of it
 * was. */
int run_child_start(const struct run_start *start, struct run_child *ret_child);
void run_child_release(struct run_child *child);

/* ---- The whole ------------------------------------------------------------------------------- */

struct run {
    const struct run_args *args;
    struct once_name name;
    struct once_fingerprint fingerprint;
    struct cli_owner owner;
    struct cli_reach reach; /* one thread at a time: the lease's while there is one */
    pthread_mutex_t at_store;
    struct run_signals signals;
    struct run_child child;
    struct run_output output;
    bool unread[3]; /* by stream: nobody takes what we write */

    /* since EXECUTE */
    uint64_t fence;
    uint32_t attempt;
    char
        point[ONCE_POINT_SIZE_MAX + 1]; /* the last recovery point of an earlier attempt; "" none */
    bool is_retry;                      /* of a doubt: an earlier attempt may have happened, so
                                         * that this one failed does not say that none did */
    once_ms begun_ms;                   /* run_clock_ms before it was asked for */
    once_ms started_ms;                 /* wall clock */
};

/* Milliseconds that also count while the machine sleeps. */
once_ms run_clock_ms(void);

/* What must be the same in a retry: the command line, files, variables. Tells what is wrong. */
int run_fingerprint(const struct run_args *args, struct once_fingerprint *ret_fingerprint);
/* What a person wants to know about a running command, as JSON. child 0: not known yet.
 * ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int run_facts(const struct run *run, pid_t child, struct once_buf *ret_facts);

/* Asks the store, and repeats what it did not answer for ONCE_RUN_STORE_MS, or until a signal wants
 * to end us. Returns op->reply.err; the caller releases the reply, and soon lets go of the
 * store. */
int run_ask(struct run *run, struct once_op *op, once_ms wait_ms);

/* begin, with patience and with care for owners that are gone; after EXECUTE also the recovery
 * point. Lets go of the store. The reply (EXECUTE, REPLAY, BUSY, MISMATCH, DOUBT, TOO_OLD) is
 * the caller's. Otherwise tells what is wrong, and returns an exit status that is not CLI_OK. */
int run_begin(struct run *run, struct once_reply *ret_reply);
/* Takes back an attempt that never started: nothing happened. A doubt stays one. */
void run_begin_undo(struct run *run, const char *reason);

/* Passes output on until the command has ended and all that it left in its pipes is recorded. What
 * could not be written yet is in rest, by stream. */
void run_relay(struct run *run, struct once_buf rest[3]);
/* Writes the rest. */
void run_relay_finish(struct run *run, struct once_buf rest[3]);

/* Renews the lease until it is stopped, on a thread of its own. */
struct run_lease {
    struct run *run;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_running, stop;
    bool is_lost; /* read it after stop */
};
/* Without a thread the lease just ends: the command goes on and can still be completed. */
void run_lease_start(struct run_lease *lease, struct run *run);
void run_lease_stop(struct run_lease *lease);

/* Records how the command ended and tells it. Gives the exit status. */
int run_end(struct run *run, const struct run_lease *lease, struct once_buf rest[3]);
int run_end_unstarted(struct run *run, int error);
/* Gives the recorded answer. */
int run_replay(struct run *run, const struct once_reply *reply);
/* Tells a verdict other than EXECUTE and REPLAY. */
int run_refused(struct run *run, const struct once_reply *reply);

#endif
