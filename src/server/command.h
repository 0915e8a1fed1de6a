/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands, declared as data: COMMAND, COMMAND DOCS, `once serve --help-commands` and the
 * reference pages all come from this one table.
 *
 * A command reads its arguments in start, on the loop's thread, and either answers at once, or
 * fills in calls that go to the store together with those of every other connection that could be
 * read at the same time, or hands a job to a lane. When all of that is there, finish writes the
 * answer, again on the loop's thread and in the order of the connection's commands.
 */
#ifndef ONCE_SERVER_COMMAND_H
#define ONCE_SERVER_COMMAND_H

#include "server/access.h"
#include "server/resp_write.h"
#include "server/service.h"

struct once__server;

/* A connection as commands see it. */
struct once__session {
    struct once__server *server;
    struct once__config *config; /* the newest; the session holds a reference */
    struct once__identity identity;
    uint64_t id;
    int protocol;
    char name[ONCE_CLIENT_NAME_SIZE_MAX + 1];
    char library[ONCE_CLIENT_NAME_SIZE_MAX + 1]; /* CLIENT SETINFO */
    char library_version[ONCE_CLIENT_NAME_SIZE_MAX + 1];
    char from[128]; /* "127.0.0.1:5000", "unix" */
    uint64_t since_ns;
    uint64_t last_ns; /* last command */
    const char *last_command;
    bool closing; /* QUIT: close when what was answered is sent */
};

enum once__next {
    ONCE__ANSWERED, /* the answer is in out */
    ONCE__CALLS,    /* request->calls go to the service, then finish */
    ONCE__JOB,      /* request->job goes to the looking lane, then finish */
    ONCE__LOGIN     /* request->login goes to access, then finish */
};

/* One command under way. From start to finish it is at one place, and so are its arguments. The
 * host fills in session, args and arg_count; once__command_start clears all the rest. When it is
 * over (answered, finished, or never to be finished) the host calls once__request_release. */
struct once__request {
    struct once__session *session;
    const struct once_bytes *args; /* args[0] is the name */
    size_t arg_count;
    const struct once__command *command; /* once__command_start finds it */
    struct once__call *calls; /* ONCE__CALLS: &one, or several from once__request_alloc. Each must
                               * have passed once__service_check */
    size_t call_count;
    struct once__call one;
    struct once__job job;      /* ONCE__JOB: run is set by the command */
    struct once__login *login; /* ONCE__LOGIN: from once__request_alloc */
    uint32_t mark;             /* the command's own, where that is enough */
    void *state;               /* the command's own, from once__request_alloc */
    void (*release)(struct once__request *request); /* frees what state holds; may be NULL. Also
                                                     * called when finish never is */
    struct once__request_memory *memory;            /* behind once__request_alloc */
};

/* Memory that lives as long as the request, zeroed. NULL: there is none. */
void *once__request_alloc(struct once__request *request, size_t size);
/* Calls request->release, releases the replies of its calls, frees its memory. Whatever was handed
 * to the store, a lane or access has come back before. */
void once__request_release(struct once__request *request);

enum once__command_flags {
    ONCE__COMMAND_READ = 1, /* changes nothing */
    ONCE__COMMAND_WRITE = 2,
    ONCE__COMMAND_ADMIN = 4, /* for administrators */
    ONCE__COMMAND_FAST = 8,
    ONCE__COMMAND_NO_AUTH = 16,  /* for everyone: HELLO, AUTH, QUIT, RESET, PING */
    ONCE__COMMAND_NO_STORE = 32, /* works before the store is open */
    ONCE__COMMAND_WAITS = 64     /* may be answered late */
};

struct once__command {
    const char *name;   /* "ONCE.BEGIN", "CLIENT" */
    const char *parent; /* of a subcommand ("CLIENT" of "SETNAME"); NULL for a command */
    int arity; /* with the name; negative: at least that many. Subcommands count both words */
    unsigned flags;
    /* Where keys stand, as in Redis: first, last (-1 is the last argument), step; 0 is none. */
    int key_first, key_last, key_step;
    const char *group;   /* "operations", "objects", "values", "connection", "server" */
    const char *usage;   /* "ns key [FP bytes] [OWNER id] …" */
    const char *summary; /* one sentence */
    const char *answers; /* what comes back, a line each */
    enum once__next (*start)(struct once__request *request, struct once__out *out);
    void (*finish)(struct once__request *request, struct once__out *out);
};

extern const struct once__command once__commands[];
extern const size_t once__command_count;

/* By name, without regard to case; for a parent the subcommand that the next argument names. NULL:
 * there is none, and *ret_what says whether "command" or "subcommand" is unknown. */
const struct once__command *once__command_find(const struct once_bytes *args, size_t arg_count,
                                               const char **ret_what);
bool once__command_arity_ok(const struct once__command *command, size_t arg_count);
/* In lower case, with its parent: "once.begin", "client|setname". */
const char *once__command_full_name(const struct once__command *command);

/* Does what every command needs (arity, authentication, role, store), then calls its start; with
 * ANSWERED in every case that something is wrong. */
enum once__next once__command_start(struct once__request *request, struct once__out *out);

/* The reference page of all commands, in Markdown. */
ONCE_MUST_CHECK int once__command_reference(struct once_buf *out);

/* ---- What commands share --------------------------------------------------------------------- */

/* Makes count calls, all zero, request->calls. NULL: there is no memory, and that was answered. */
struct once__call *once__request_calls(struct once__request *request, struct once__out *out,
                                       size_t count);
/* Checks every call with the service: ONCE__CALLS, or ANSWERED with the first error. */
enum once__next once__request_send(struct once__request *request, struct once__out *out);

/* The error of a call in RESP's words: "-NOPERM …", "-FULL …", "-LOADING …", "-ERR …". It ends with
 * the error's name, "(ERR_KEY_EMPTY)", for who wants to know exactly. */
void once__out_call_error(struct once__out *out, const struct once_reply *reply);
/* The same of an error without a reply; what may be NULL. */
void once__out_err(struct once__out *out, int err, const char *what);
/* "-ERR ONCE.BEGIN: … (ERR_INVALID)": an argument is wrong. */
void once__out_bad(const struct once__request *request, struct once__out *out, const char *format,
                   ...) __attribute__((format(printf, 3, 4)));
/* "-ERR wrong number of arguments for 'once.begin' command" */
void once__out_wrong_count(const struct once__request *request, struct once__out *out);
/* Bytes that are RESP already. */
void once__out_raw(struct once__out *out, struct once_bytes bytes);

/* An argument as it is shown in a message: cut short, other than printable ASCII escaped. */
struct once__echo {
    char text[128];
};
struct once__echo once__arg_echo(struct once_bytes arg);
/* Reads a decimal number: no blanks, no plus, no leading zeros. */
bool once__arg_decimal(struct once_bytes arg, int64_t *ret_number);
/* Reads one in a range; on failure answers "-ERR ONCE.BEGIN: what from min to max, not 'arg'". what
 * is such as "LEASE must be a number of milliseconds". */
bool once__arg_number(const struct once__request *request, struct once__out *out,
                      struct once_bytes arg, const char *what, int64_t min, int64_t max,
                      int64_t *ret_number);
/* Is it this word, which is in capitals, without regard to case? */
bool once__arg_is(struct once_bytes arg, const char *word);

#endif
