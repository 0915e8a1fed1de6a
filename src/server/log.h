/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's log: one line an event, as text for people or as JSON for machines, with names of
 * things and never their secrets. Safe from every thread; a line is written with one write.
 *
 *     once__log_event(log, ONCE__LOG_INFO, "ready", (struct once__field[]){
 *         {"recovered", .number = 5}, {"folder", .text = folder}, {.name = NULL}});
 *
 *     2026-11-15T17:00:00.123Z info ready recovered=5 folder="/var/lib/once"
 *     {"time":"2026-11-15T17:00:00.123Z","level":"info","event":"ready","recovered":5,…}
 */
#ifndef ONCE_SERVER_LOG_H
#define ONCE_SERVER_LOG_H

#include "server/config.h"

struct once__log;

struct once__field {
    const char *name;        /* NULL ends the list */
    const char *text;        /* NULL: it is bytes if those are given, else the number */
    struct once_bytes bytes; /* anything: escaped, cut at ONCE_LOG_FIELD_SIZE_MAX */
    int64_t number;
};

/* To standard error, or appended to a file. ONCE_ERR_IO: ret_errno says why. */
ONCE_MUST_CHECK int once__log_new(const struct once__config *config, struct once__log **ret_log,
                                  int *ret_errno);
void once__log_free(struct once__log *log); /* accepts NULL */
/* After a reload, or when the file was moved away: opens it again, takes format and level over. */
ONCE_MUST_CHECK int once__log_reopen(struct once__log *log, const struct once__config *config);

/* At most so many lines of one event a second (ONCE_LOG_RATE_MAX) are written; how many were left
 * out is said later. log may be NULL: nothing happens. */
void once__log_event(struct once__log *log, enum once__log_level level, const char *event,
                     const struct once__field *fields);
/* The audit line: always written, whatever the level: event=audit, who, what and on what. */
void once__log_audit(struct once__log *log, const char *who, const char *from, const char *what,
                     const struct once__field *fields);

#endif
