/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the SQLite extension share.
 *
 * A call goes through the same steps, whichever it is:
 *
 *     lite_args     the arguments, read strictly: another type, a bound, a byte that is no key
 *     enter         the write lock is taken before anything is read: nobody decides beside us
 *     find          the record, and with it store time and the next fence
 *     core/decide   what is told, and what the record becomes
 *     keep, leave   written in the caller's transaction, which the caller commits
 *
 * The extension decides nothing itself, and keeps nothing in memory but prepared statements. All
 * names of tables have "main." before them, so that a temporary table cannot stand in for ours.
 */
#ifndef ONCE_HOSTS_SQLITE_LITE_H
#define ONCE_HOSTS_SQLITE_LITE_H

#include <sqlite3ext.h>
#include <stdbool.h>

#include <once/bytes.h>
#include <once/verdict.h>

#include "core/decide.h"

/* The loadable form calls SQLite through a table of its host's; the linked form does not. */
#ifndef SQLITE_CORE
extern const sqlite3_api_routines *sqlite3_api;
#endif

/* Of the tables. A database of another version is refused: lite_schema.c. */
enum { ONCE__LITE_VERSION = 2 };

enum { ONCE__LITE_WHY_SIZE = 128 };

/* Prepared when first needed, and kept: lite_keep.c has their texts. */
enum once__lite_sql {
    ONCE__LITE_BEGIN,
    ONCE__LITE_COMMIT,
    ONCE__LITE_ROLLBACK,
    ONCE__LITE_LOCK,
    ONCE__LITE_META,
    ONCE__LITE_MARK,
    ONCE__LITE_FIND,
    ONCE__LITE_ADD,
    ONCE__LITE_CHANGE,
    ONCE__LITE_REMOVE,
    ONCE__LITE_SEEN,
    ONCE__LITE_RESOURCE_LOOK,
    ONCE__LITE_RESOURCE_SET,
    ONCE__LITE_MACHINE_LOOK,
    ONCE__LITE_MACHINE_ADD,
    ONCE__LITE_MACHINE_CHANGE,
    ONCE__LITE_MACHINE_STRAYS,
    ONCE__LITE_ENTITY_LOOK,
    ONCE__LITE_ENTITY_SET,
    ONCE__LITE_EMIT,
    ONCE__LITE_TAKE,
    ONCE__LITE_TAKEN,
    ONCE__LITE_MESSAGE_LOOK,
    ONCE__LITE_ACK,
    ONCE__LITE_GIVE_BACK,
    ONCE__LITE_SWEEP_OPERATIONS,
    ONCE__LITE_SWEEP_MESSAGES,
    ONCE__LITE_SWEEP_OUTBOX,
    ONCE__LITE_SQL_COUNT
};

/* One connection. It lives as long as the last function that is registered with it. */
struct once__lite {
    sqlite3 *db;
    sqlite3_stmt *statements[ONCE__LITE_SQL_COUNT];
    unsigned users;                 /* registered functions and modules */
    struct once__lite_bound *bound; /* what each of them is given */
    bool kept;       /* the table that ends with the connection is there: lite_keep.c */
    bool closing;    /* that table is gone again: nothing is kept any more */
    bool called;     /* a call is under way: none begins inside of it */
    bool inside;     /* a function of the program's runs in once_apply, and may call us */
    bool reading;    /* this call writes nothing, and makes no tables */
    bool own;        /* the transaction is this call's, because the caller has none */
    once_ms now_ms;  /* store time of this call */
    once_ms last_ms; /* the last one that was written down */
    uint64_t next_fence;
    bool (*task)(void *self); /* to be run by the next scan of once_functions: lite_keep.c */
    void *task_self;
    char why
        [ONCE__LITE_WHY_SIZE]; /* the tables could not be made: SQLite's own text, for the error */
};

struct once__lite_call;

/* A function, as data. */
struct once__lite_function {
    const char *name;
    int least, most; /* arguments */
    void (*run)(struct once__lite_call *call);
    bool pure;             /* looks at nothing but its arguments: views and indexes may use it */
    const char *arguments; /* for people: the table once_functions */
    const char *text;
};

struct once__lite_bound {
    struct once__lite *lite;
    const struct once__lite_function *function;
};

/* One call of a function. */
struct once__lite_call {
    struct once__lite *lite;
    sqlite3_context *context;
    sqlite3_value **values;
    int count;
    const char *name; /* of the function, for messages */
};

/* Bytes of an argument or a column. */
struct once__lite_bytes {
    struct once_bytes bytes;
    bool given; /* not NULL */
    bool text;  /* UTF-8 without a NUL, and came as text */
};

/* The name of an operation. */
struct once__lite_name {
    struct once_bytes ns;
    struct once_bytes key;
};

/* A record as it stands in the table; its bytes belong to the statement that found it. */
struct once__lite_found {
    struct once_record record;
    bool there;       /* a row is; an absent record may have one that has expired */
    bool result_text; /* the result is text */
    bool result_null;
};

/* ---- lite_args.c: arguments and errors. Each false has set the error. ------------------------ */

/* A refusal: its text begins with the word, its code is SQLITE_CONSTRAINT_FUNCTION. */
void once__lite_refuse(struct once__lite_call *call, enum once_word word, const char *text);
/* A bad argument or a damaged row: "once_begin: the key is empty (ERR_KEY_EMPTY)". */
void once__lite_error(struct once__lite_call *call, int err, const char *what);
/* What SQLite said, under its own code: SQLITE_BUSY stays SQLITE_BUSY. */
void once__lite_sqlite_error(struct once__lite_call *call, int status);

/* Would it come back as it was, if it were kept as text? */
bool once__lite_is_text(struct once_bytes bytes);
bool once__lite_given(const struct once__lite_call *call, int index); /* and not NULL */
bool once__lite_name_args(struct once__lite_call *call, struct once__lite_name *ret_name);
/* Text that keeps the rules of keys. */
bool once__lite_key_arg(struct once__lite_call *call, int index, const char *what,
                        struct once_bytes *ret_key);
/* Text or a blob of at most size_max bytes. */
bool once__lite_bytes_arg(struct once__lite_call *call, int index, const char *what,
                          size_t size_max, struct once__lite_bytes *ret_bytes);
/* A whole number; NULL and a missing one are otherwise. */
struct once__lite_range {
    int64_t min, max, otherwise;
};
bool once__lite_number_arg(struct once__lite_call *call, int index, const char *what,
                           struct once__lite_range range, int64_t *ret_number);
bool once__lite_fence_arg(struct once__lite_call *call, int index, uint64_t *ret_fence);

/* ---- lite_keep.c: prepared statements -------------------------------------------------------- */

/* A statement to bind and step; reset it with _rest. An SQLite status. */
int once__lite_statement(struct once__lite *lite, enum once__lite_sql which,
                         sqlite3_stmt **ret_statement);
/* Steps it; where the tables are not there it makes them first, if the call may. */
int once__lite_step(struct once__lite *lite, sqlite3_stmt *statement);
void once__lite_rest(sqlite3_stmt *statement);
/* Step and rest of one that has no rows: SQLITE_OK or an error. */
int once__lite_run(struct once__lite *lite, enum once__lite_sql which);
void once__lite_forget_statements(struct once__lite *lite);
/* After an interrupt, and where memory has ended, SQLite prepares nothing before the caller's
 * statement is over, and an index that is made puts what was prepared out of date. So the two that
 * end a transaction are prepared anew after ours were made. An SQLite status. */
int once__lite_ready_rollback(struct once__lite *lite);
/* Runs the task inside of a statement of ours. Where the task says false, that statement fails in a
 * way that makes SQLite take back the transaction, the caller's too, even where it runs nothing any
 * more. So it says false when it is interrupted or out of memory, and nothing else has helped. An
 * SQLite status; but for SQLITE_OK the task was not run. */
typedef bool (*once__lite_task_fn)(void *self);
int once__lite_in_statement(struct once__lite *lite, once__lite_task_fn task, void *self);
/* One user less; with the last one the connection's part is freed. */
void once__lite_release(void *lite);
/* Registers the table whose end is the connection's. An SQLite status. */
int once__lite_keep_register(struct once__lite *lite);

/* ---- lite_schema.c: the tables --------------------------------------------------------------- */

/* Are they there? */
bool once__lite_installed(struct once__lite *lite);
/* Makes them, or brings older ones up to date, in the transaction that is open: all or nothing. An
 * SQLite status; SQLITE_MISMATCH when they are of a newer version. */
int once__lite_install(struct once__lite *lite);
void once__lite_do_install(struct once__lite_call *call);
void once__lite_do_version(struct once__lite_call *call);

/* ---- lite_record.c: a transaction, records, time, fences ------------------------------------- */

/* A transaction of the call's own. The statement that could end it is prepared before: there may be
 * no memory for it then. An SQLite status. */
int once__lite_begin_own(struct once__lite *lite);
/* Takes the write lock. False: the error is set, and the call is over. */
bool once__lite_enter(struct once__lite_call *call);
/* The end of the call. False: the error is set. */
bool once__lite_leave(struct once__lite_call *call);
/* The same after an error that was set already. */
void once__lite_abandon(struct once__lite_call *call);
/* Store time and the next fence. */
bool once__lite_look(struct once__lite_call *call);
/* Enter and look. */
bool once__lite_start(struct once__lite_call *call);
/* Leave, and say a number; abandon where something went wrong. */
void once__lite_end(struct once__lite_call *call, bool ok, int64_t number);
/* Time and fence, and the record. *ret_statement holds its bytes until _rest. */
bool once__lite_find(struct once__lite_call *call, const struct once__lite_name *name,
                     struct once__lite_found *ret_found, sqlite3_stmt **ret_statement);
/* Writes what a decision changed: the record, the fence that it took, the time. result is what the
 * record's result becomes, with its type; NULL where it stays. */
bool once__lite_keep(struct once__lite_call *call, const struct once__lite_name *name,
                     const struct once__lite_found *found, const struct once_decision *decision,
                     const struct once__lite_bytes *result);
/* Writes down that store time has been this far, and that fences were given. */
bool once__lite_mark(struct once__lite_call *call, bool fence_taken);
/* Has the last statement changed one row? If not, a trigger or a view is in the way: the error is
 * set. */
bool once__lite_changed_one(struct once__lite_call *call);
/* As text or as a blob; never NULL. */
int once__lite_bind_bytes(sqlite3_stmt *statement, int index, struct once_bytes bytes, bool text);

/* ---- lite_ask.c: one statement of the rest -------------------------------------------------- */

/* What a parameter is bound to: text, a blob, a number, or NULL. */
struct once__lite_value {
    enum { ONCE__LITE_NULL, ONCE__LITE_NUMBER, ONCE__LITE_TEXT, ONCE__LITE_BLOB } kind;
    int64_t number;
    struct once_bytes bytes;
};

struct once__lite_value once__lite_number(int64_t number);
struct once__lite_value once__lite_text(struct once_bytes text);
struct once__lite_value once__lite_value_of(const struct once__lite_bytes *bytes);

/* Binds and steps. False: the error is set. *ret_row is the statement when there is a row, which
 * _rest ends; else NULL. */
bool once__lite_ask(struct once__lite_call *call, enum once__lite_sql which,
                    const struct once__lite_value *values, size_t count, sqlite3_stmt **ret_row);
/* The same for what has no rows; *ret_changed counts what it changed. NULL: that must be one. */
bool once__lite_tell(struct once__lite_call *call, enum once__lite_sql which,
                     const struct once__lite_value *values, size_t count, int64_t *ret_changed);
/* Bytes of a column, until the statement rests. */
struct once_bytes once__lite_column(sqlite3_stmt *row, int index);

/* ---- lite_effects.c, lite_machine.c, lite_outbox.c, lite_apply.c ----------------------------- */

void once__lite_do_seen(struct once__lite_call *call);
void once__lite_do_grant(struct once__lite_call *call);
void once__lite_do_guard(struct once__lite_call *call);
void once__lite_do_sweep(struct once__lite_call *call);
void once__lite_do_now(struct once__lite_call *call);
void once__lite_do_machine(struct once__lite_call *call);
void once__lite_do_machine_change(struct once__lite_call *call);
void once__lite_do_state(struct once__lite_call *call);
void once__lite_do_move(struct once__lite_call *call);
void once__lite_do_emit(struct once__lite_call *call);
void once__lite_do_take(struct once__lite_call *call);
void once__lite_do_ack(struct once__lite_call *call);
void once__lite_do_give_back(struct once__lite_call *call);
void once__lite_do_apply(struct once__lite_call *call);
void once__lite_do_fingerprint(struct once__lite_call *call);

/* ---- lite_call.c, lite_answer.c: the calls of an operation ----------------------------------- */

/* What a begin asks for; the rest of a request comes from the key. */
struct once__lite_begin {
    struct once__lite_name name;
    struct once_request request;
};

/* Reads the name, the fingerprint and what else a begin may say, from the third argument on. */
bool once__lite_begin_args(struct once__lite_call *call, struct once__lite_begin *ret_begin);
/* Decides and writes a begin, between enter and leave. The decision's bytes are borrowed from
 * *ret_statement. */
bool once__lite_begin_here(struct once__lite_call *call, struct once__lite_begin *begin,
                           struct once_decision *ret_decision, sqlite3_stmt **ret_statement);
/* The same for a complete; the word is told by nobody but OK. */
bool once__lite_complete_here(struct once__lite_call *call, const struct once__lite_name *name,
                              uint64_t fence, const struct once__lite_bytes *result);
/* Tells the verdict of a begin as JSON. */
void once__lite_tell_begin(struct once__lite_call *call, const struct once_decision *decision);
/* Tells a record as JSON. */
void once__lite_tell_record(struct once__lite_call *call, const struct once__lite_name *name,
                            const struct once_record *record);
/* "OK" or "DOUBT"; another word is refused. */
void once__lite_tell_word(struct once__lite_call *call, const struct once_decision *decision);

void once__lite_do_begin(struct once__lite_call *call);
void once__lite_do_complete(struct once__lite_call *call);
void once__lite_do_fail(struct once__lite_call *call);
void once__lite_do_checkpoint(struct once__lite_call *call);
void once__lite_do_renew(struct once__lite_call *call);
void once__lite_do_resolve(struct once__lite_call *call);
void once__lite_do_forget(struct once__lite_call *call);
void once__lite_do_get(struct once__lite_call *call);
void once__lite_do_result(struct once__lite_call *call);

#endif
