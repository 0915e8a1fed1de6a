/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of reach share: the calls of reach.h, asked of a server over RESP (reach->client
 * is there), and how whoever owns the store is found.
 */
#ifndef ONCE_CLI_REACH_SERVER_H
#define ONCE_CLI_REACH_SERVER_H

#include "cli/reach.h"

/* ---- Finding (reach.c) ----------------------------------------------------------------------- */

/* Opens the folder or the server if neither is; a folder that is in use and answered for by nobody
 * is waited for until deadline_ms (of reach_now_ms). On failure reach->message says more. */
int reach_ready(struct cli_reach *reach, once_ms deadline_ms);

once_ms reach_now_ms(void);                       /* a clock that no one sets */
void reach_sleep(once_ms min_ms, once_ms max_ms); /* so long, by chance; a signal ends it */

/* ---- The calls ------------------------------------------------------------------------------- */

/* One call, not repeated; wait_ms is of a begin. Writes op->reply whole. */
void reach_server_op(struct cli_reach *reach, struct once_op *op, once_ms wait_ms);
int reach_server_ops(struct cli_reach *reach, const struct once_filter *filter, uint64_t cursor,
                     size_t count, void (*each)(void *user, const struct once_item *item),
                     void *user, uint64_t *ret_cursor);
int reach_server_history(struct cli_reach *reach, struct once_name name, size_t count,
                         void (*each)(void *user, const struct once_past *past), void *user,
                         bool *ret_found, bool *ret_more);

int reach_server_apply(struct cli_reach *reach, struct once_name name,
                       const struct once_apply_options *options, const struct once_do *dos,
                       size_t count, struct once_reply *ret_reply);
int reach_server_get(struct cli_reach *reach, struct once_bytes name,
                     struct once_object *ret_object);
int reach_server_read(struct cli_reach *reach, struct once_bytes name, uint64_t cursor,
                      size_t count, void (*each)(void *user, const struct once_object_item *item),
                      void *user, uint64_t *ret_cursor, bool *ret_more);
int reach_server_list(struct cli_reach *reach, uint64_t cursor, size_t count,
                      void (*each)(void *user, struct once_bytes name, enum once_object_type type),
                      void *user, uint64_t *ret_cursor);
int reach_server_merge(struct cli_reach *reach, struct once_bytes name, enum once_object_type type,
                       struct once_bytes state, bool *ret_changed);
int reach_server_delta(struct cli_reach *reach, struct once_bytes name, uint64_t since,
                       struct once_buf *out, uint64_t *ret_version);
int reach_server_changes(struct cli_reach *reach, struct once_changes_cursor *cursor,
                         size_t size_max, struct once_buf *out, bool *ret_more);
int reach_server_changes_merge(struct cli_reach *reach, struct once_bytes message,
                               size_t *ret_count);

/* ---- What they share (reach_call.c) ---------------------------------------------------------- */

struct once__answer_item;

/* Asks. ONCE_OK: an answer that is no error, good until the next call. Otherwise the server's error
 * (ONCE_ERR_DENIED, …), or that of the connection; reach->message says more. While the server is
 * still opening its store, waits for it. */
int reach_call(struct cli_reach *reach, const struct once_bytes *words, size_t count,
               const struct once__answer_item **ret_answer);
/* The answer was not what this command gives. */
int reach_strange(struct cli_reach *reach);
/* For reach_apply: also an error is an answer. */
int reach_call_any(struct cli_reach *reach, const struct once_bytes *words, size_t count,
                   const struct once__answer_item **ret_answer);
/* What an error answer means; reach->message becomes its text. */
int reach_error(struct cli_reach *reach, const struct once__answer_item *answer);

/* A number as a word. */
struct reach_number {
    char text[24];
};
struct reach_number reach_number(uint64_t number);

/* Is the item a list of so many? A number from 0 on, also as text? Bytes (null: none)? */
bool reach_is_list(const struct once__answer_item *item, size_t count);
bool reach_is_number(const struct once__answer_item *item, uint64_t *ret_number);
bool reach_is_bytes(const struct once__answer_item *item, struct once_bytes *ret_bytes);
/* An integer of these bounds, which may be below 0? */
bool reach_is_integer(const struct once__answer_item *item, int64_t min, int64_t max,
                      int64_t *ret_number);
/* A value of a map that may be null, or not there: 0, no bytes. False: it is something else. */
bool reach_find_bytes(const struct once__answer_item *map, const char *name,
                      struct once_bytes *ret_bytes);
bool reach_find_number(const struct once__answer_item *map, const char *name, int64_t min,
                       int64_t max, int64_t *ret_number);

/* What a record, an item of a list and a step of a history have in common. */
struct reach_facts {
    enum once_state state;
    int64_t fence, attempt, code;
    once_ms created_ms, lease_end_ms, expires_ms;
    struct once_bytes owner, point;
};
bool reach_read_facts(const struct once__answer_item *map, struct reach_facts *facts);

/* An object's type by its name. */
bool reach_is_type(const struct once__answer_item *item, enum once_object_type *ret_type);

#endif
