/* SPDX-License-Identifier: Apache-2.0
 *
 * `once call`: what its files share. The work is once/call.h's.
 */
#ifndef ONCE_CLI_CALL_H
#define ONCE_CLI_CALL_H

#include <once/call.h>
#include <once/key.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/owner.h"
#include "cli/reach.h"

enum { CALL_PATIENCE_MS = 30000, CALL_RENEW_PATIENCE_MS = 1000, CALL_LEASE_MS_MIN = 1000 };

struct call_args {
    bool json, include, quiet, resume, all;
    struct cli_where where;
    const char *ns;
    struct once_key key;
    bool key_made; /* here */
    const char *output;
    struct once_http_request request;
    struct once_http_options options; /* without owner, stop, tell */
    const char **headers;             /* freed by call_args_release, like the next ones */
    const char **secret_headers;
    int finals[ONCE_SEND_FINAL_MAX];
    struct once_buf input; /* a body that was read from standard input */
};

enum { CALL_OPTION_COUNT = 31 };
extern const struct cli_option call_options[CALL_OPTION_COUNT];

/* Reads the arguments, and the standard input if it is the body. Otherwise tells what is wrong and
 * returns an exit status that is not CLI_OK. Release them either way. */
int call_args_read(int argc, char **argv, struct call_args *ret_args);
void call_args_release(struct call_args *args);

/* A journal over a folder or its server: the folder is held for a moment only, never while the
 * network is waited for. */
struct call_journal {
    const struct call_args *args;
    struct cli_reach reach; /* if open */
    bool open;
    bool key_told;
    struct once_message message; /* about the last error */
    struct once_http_journal journal;
};
void call_journal_init(const struct call_args *args, struct call_journal *ret_journal);
/* The store itself; rest it afterwards. The library's error, and the journal's message. */
ONCE_MUST_CHECK int call_journal_reach(struct call_journal *journal, struct cli_reach **ret_reach);
int call_journal_close(struct call_journal *journal, int status);

/* If the owner of this call is known to be gone, its lease is given up: it is in doubt at once, and
 * not when the lease ends. True: it was so. */
bool call_bury(struct call_journal *journal, struct once_bytes ns, struct once_bytes key);

/* Sends or resumes one call, with a key of its own; err as once_http_send gives it. */
int call_once(const struct call_args *args, struct call_journal *journal, struct once_bytes key,
              bool resume, struct once_http_answer *ret_answer);
/* Did a signal ask to stop? call_signals makes those that do so set it. */
bool call_stopped(void *user);
void call_signals(void);

/* Every call that is in doubt, or whose owner is gone. */
int call_resume_all(struct call_args *args, struct call_journal *journal);

/* Tells how a call ended; gives the exit status. brief: one line for it, among others. */
int call_tell(const struct call_args *args, struct once_bytes key, int err,
              const struct call_journal *journal, const struct once_http_answer *answer,
              bool brief);

#endif
