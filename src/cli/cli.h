/* SPDX-License-Identifier: Apache-2.0
 *
 * What the subcommands of `once` share: the command table, exit statuses, messages.
 */
#ifndef ONCE_CLI_CLI_H
#define ONCE_CLI_CLI_H

#include <stddef.h>

/* Exit statuses that scripts may rely on. */
enum {
    CLI_OK = 0,     /* done or replayed */
    CLI_FAILED = 1, /* the thing that was checked does not hold */
    CLI_USAGE = 64,
    CLI_MISMATCH = 65,    /* the key belongs to another request */
    CLI_NOT_FOUND = 66,   /* no store, no such operation, no such object */
    CLI_UNAVAILABLE = 69, /* the store is in use, or its disk failed or is full */
    CLI_DAMAGED = 70,     /* the store, or a file of it */
    CLI_INTERNAL = 71,    /* out of memory, no random bytes, an output that cannot be written */
    CLI_BUSY = 75,        /* someone is at it */
    CLI_DOUBT = 76,       /* someone began it and vanished */
    CLI_REFUSED = 77,     /* rejected, stale, too old: not allowed */
    CLI_CONFIG = 78       /* the server's configuration is wrong */
};

struct cli_option;

/* One subcommand. run gets argv[0] = the subcommand's name. Help, man pages and the shells'
 * completions are all made from this; the shape of help is in help_text.h. */
struct cli_command {
    const char *name;
    const char *summary; /* one line for `once --help` */
    const char *help;    /* the whole text of `once NAME --help` */
    int (*run)(int argc, char **argv);
    const struct cli_option *options; /* what cli_args_next is given */
    size_t option_count;
    const char *words; /* first arguments that are words of ours, "show merge"; NULL: none */
    /* Instead of options, where they are made from another table; NULL: they are not. */
    const struct cli_option *(*make_options)(size_t *ret_count);
};

/* words of a command whose first argument is a command. */
#define CLI_WORDS_COMMANDS "COMMAND"

extern const struct cli_command cli_apply;
extern const struct cli_command cli_backup;
extern const struct cli_command cli_call;
extern const struct cli_command cli_check;
extern const struct cli_command cli_completion;
extern const struct cli_command cli_forget;
extern const struct cli_command cli_gateway;
extern const struct cli_command cli_get;
extern const struct cli_command cli_help;
extern const struct cli_command cli_inspect;
extern const struct cli_command cli_key;
extern const struct cli_command cli_laws;
extern const struct cli_command cli_ls;
extern const struct cli_command cli_man;
extern const struct cli_command cli_namespace;
extern const struct cli_command cli_object;
extern const struct cli_command cli_resolve;
extern const struct cli_command cli_run;
extern const struct cli_command cli_serve;
extern const struct cli_command cli_sim;
extern const struct cli_command cli_watch;

/* "once NAME: message" and a pointer to --help on stderr; returns CLI_USAGE. With --json also one
 * object on stdout: {"error": message, "exit_status": status}. */
int cli_usage(const struct cli_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same without the pointer; returns status. */
int cli_error(const struct cli_command *command, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "once NAME: message" on stderr and nothing else, for who prints an object of its own; returns
 * status. */
int cli_message(const struct cli_command *command, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
