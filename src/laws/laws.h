/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws: what `once laws` asks of every effect, of every mergeable type, and of a user's merge.
 *
 * Every answer is computed by running the shipping code over many small cases and random larger
 * ones. A "no" comes with a smallest counterexample. A "yes" is a test here; the proof is in
 * proof/.
 */
#ifndef ONCE_LAWS_LAWS_H
#define ONCE_LAWS_LAWS_H

#include "core/effect.h"
#include "laws/search.h"

/* For an operation x on an object, and for merge:
 *   IDEMPOTENT   x twice is x once
 *                merge(a, a) = a
 *   COMMUTATIVE  x then y is y then x
 *                merge(a, b) = merge(b, a)
 *   ASSOCIATIVE  (x with y) then z is x then (y with z)
 *                merge(merge(a, b), c) = merge(a, merge(b, c))
 *   LATE         x that was accepted, then others, then x again, is the same without the last x
 *                merge(merge(merge(a, b), c), b) = merge(merge(a, b), c) */
enum once__law {
    ONCE__LAW_IDEMPOTENT,
    ONCE__LAW_COMMUTATIVE,
    ONCE__LAW_ASSOCIATIVE,
    ONCE__LAW_LATE,
    ONCE__LAW_COUNT
};

enum { ONCE__EXAMPLE_SIZE = 2048, ONCE__LAWS_RANDOM_COUNT = 2000 };

/* "idempotent", … Never NULL; the text is static. */
const char *once__law_name(enum once__law law);

/* What breaks in production where the law does not hold: one sentence. */
const char *once__law_meaning(enum once__law law);

struct once__law_finding {
    bool holds;
    uint64_t checks;                  /* cases that were tried */
    char example[ONCE__EXAMPLE_SIZE]; /* the counterexample; empty when it holds */
};

/* A row of the table: first the effects, in the order of once__effects, then the mergeable
 * types. */
struct once__law_report {
    bool is_type; /* a mergeable type; else an effect */
    const char *name;
    const char *form;     /* an effect's DO form; a type's name */
    const char *variant;  /* which form this row is about */
    const char *grouping; /* what handing two over as one means */
    uint64_t states;      /* tried in every combination with all operations; random ones follow */
    uint64_t operations;  /* 0 for a type: there the states meet each other */
    struct once__laws declared;
    struct once__law_finding findings[ONCE__LAW_COUNT];
};

size_t once__law_row_count(void);

/* The name of a row, without checking anything. */
const char *once__law_row_name(size_t row);

/* Checks one row. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__law_check(size_t row, struct once__effort effort,
                                    struct once__law_report *ret_report);

/* What the table declares of this law. */
bool once__law_declared(const struct once__laws *laws, enum once__law law);

/* The first law about which the table and the check disagree, or ONCE__LAW_COUNT. */
enum once__law once__law_disagreement(const struct once__law_report *report);

/* --- The parts --- */

/* Checks the four laws on the effect's model. On an error what is in findings means nothing. */
ONCE_MUST_CHECK int once__law_check_effect(enum once__effect_id id, struct once__effort effort,
                                           struct once__law_finding *findings);

/* Something with a merge: states by number, simplest first. Calls that return int give a
 * negative error, which ends the check. */
struct once__mergeable {
    void *context;
    uint64_t small; /* all states below are tried together; at least 1 */
    uint64_t large; /* and random ones below */
    int (*generate)(void *context, uint64_t index, struct once_buf *out);
    int (*merge)(void *context, struct once_bytes a, struct once_bytes b, struct once_buf *out);
    int (*describe)(void *context, struct once_bytes state, struct once_buf *out);
    size_t state_size_max;
};

/* Checks the laws below law_count, in order. On an error what is in findings means nothing. */
ONCE_MUST_CHECK int once__law_check_merge(const struct once__mergeable *mergeable,
                                          struct once__effort effort, size_t law_count,
                                          struct once__law_finding *findings);

#endif
