/* SPDX-License-Identifier: Apache-2.0
 *
 * Mergeable values as SQL values: numbers, and JSON that lite_json.c reads.
 */
#ifndef ONCE_HOSTS_SQLITE_LITE_MERGE_H
#define ONCE_HOSTS_SQLITE_LITE_MERGE_H

#include "lite.h"

/* Registers the merges, as functions of two states and as aggregates. An SQLite status. */
int once__lite_merge_register(struct once__lite *lite);

void once__lite_do_gcounter_add(struct once__lite_call *call);
void once__lite_do_gcounter_value(struct once__lite_call *call);
void once__lite_do_vv_tick(struct once__lite_call *call);
void once__lite_do_vv_order(struct once__lite_call *call);
void once__lite_do_lww(struct once__lite_call *call);

/* ---- lite_json.c: states as JSON ------------------------------------------------------------- */

/* A union: an array of strings. */
ONCE_MUST_CHECK int once__lite_read_union(struct once_bytes json, struct once_buf *out,
                                          struct once_defect *ret_defect);
/* A version vector or a counter: an object of nodes and whole numbers. */
ONCE_MUST_CHECK int once__lite_read_counts(struct once_bytes json, bool counter,
                                           struct once_buf *out, struct once_defect *ret_defect);
/* A register: {"time":n,"node":"…","value":…}. */
ONCE_MUST_CHECK int once__lite_read_lww(struct once_bytes json, struct once_buf *out,
                                        struct once_defect *ret_defect);

/* The same back, in the one form that a state has. */
ONCE_MUST_CHECK int once__lite_write_union(struct once_bytes state, struct once_buf *out);
ONCE_MUST_CHECK int once__lite_write_counts(struct once_bytes state, struct once_buf *out);
ONCE_MUST_CHECK int once__lite_write_lww(struct once_bytes state, struct once_buf *out);

#endif
