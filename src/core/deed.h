/* SPDX-License-Identifier: Apache-2.0
 *
 * A DO form, read: the words of one effect become a deed, with every word checked that can be
 * checked without the object. Pure.
 */
#ifndef ONCE_CORE_DEED_H
#define ONCE_CORE_DEED_H

#include <once/bytes.h>
#include <once/verdict.h>

#include "core/effect.h"

enum once__deed_kind {
    ONCE__DEED_ADD,
    ONCE__DEED_MAX,
    ONCE__DEED_MIN,
    ONCE__DEED_FLAG,
    ONCE__DEED_UNION,
    ONCE__DEED_CLOCK,
    ONCE__DEED_LWW,
    ONCE__DEED_GADD,
    ONCE__DEED_PNADD,
    ONCE__DEED_INSERT,
    ONCE__DEED_REMOVE,
    ONCE__DEED_SET,
    ONCE__DEED_DELETE,
    ONCE__DEED_MACHINE,
    ONCE__DEED_MOVE,
    ONCE__DEED_APPEND,
    ONCE__DEED_GRANT,
    ONCE__DEED_GUARD,
    ONCE__DEED_LEASE,
    ONCE__DEED_RENEW,
    ONCE__DEED_RELEASE,
    ONCE__DEED_HOLD,
    ONCE__DEED_SEQ,
    ONCE__DEED_BUCKET,
    ONCE__DEED_EMIT,
    ONCE__DEED_SENT,
    ONCE__DEED_MERGE, /* not a DO form: once_object_merge; value is the state */
    ONCE__DEED_COUNT
};

/* Bytes are borrowed from the words. What a kind does not use is zero. */
struct once__deed {
    enum once__deed_kind kind;
    /* Its row of laws. MOVE is ONCE__MOVE here: whether the machine has a cycle is known when the
     * object is. MERGE: none. */
    enum once__effect_id effect;
    struct once_bytes name;           /* EMIT SENT: the topic */
    int64_t n;                        /* ADD MAX MIN PNADD; LWW: time */
    uint64_t number;                  /* CLOCK GADD BUCKET: up to INT64_MAX, as results are int64_t;
                                       * SEQ n; GUARD RENEW RELEASE HOLD: token */
    uint64_t epoch;                   /* SEQ */
    once_ms ms;                       /* LEASE RENEW */
    struct once__range range;         /* ADD; the ends of int64_t where not given */
    struct once__expected expected;   /* SET DELETE IF; APPEND AT */
    struct once_bytes node;           /* CLOCK LWW GADD PNADD INSERT node; LEASE owner; APPEND event
                                       * id; BUCKET bucket; MOVE from; EMIT group, empty: none */
    struct once_bytes value;          /* LWW SET value; APPEND EMIT payload; MOVE to; MERGE state */
    const struct once_bytes *members; /* UNION INSERT REMOVE members; MACHINE moves "from>to"; SENT
                                       * numbers, checked. One or more */
    size_t member_count;
};

/* Reads the words of one effect. On failure ret_defect (may be NULL) says what was wrong and what
 * is expected; its offset is the index of the word that is wrong (word_count: one is missing).
 * ONCE_ERR_INVALID, also at a bound of limits.h. members borrows the array words. */
ONCE_MUST_CHECK int once__deed_read(const struct once_bytes *words, size_t word_count,
                                    struct once__deed *ret_deed, struct once_defect *ret_defect);

/* Decimal, whole, in range: "-5", "007" is 7; no blanks, no "+". False if not. */
bool once__int64_read(struct once_bytes text, int64_t *ret_n);
bool once__uint64_read(struct once_bytes text, uint64_t max, uint64_t *ret_n);

/* A move of a declaration: "from>to", two state names of 1 to ONCE_STATE_NAME_SIZE_MAX characters
 * of A-Z a-z 0-9 _ - . : each. False if it is not. */
bool once__move_read(struct once_bytes word, struct once_bytes *ret_from,
                     struct once_bytes *ret_to);

#endif
