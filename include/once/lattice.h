/* SPDX-License-Identifier: Apache-2.0
 *
 * Mergeable types: states that may be sent in any order, any number of times, and still converge.
 *
 * A state IS its canonical encoding: one byte string per meaning, so equal states are equal bytes,
 * a state can be stored or sent as it is, and merging is one linear pass over two byte strings. The
 * bytes are specified in docs/format/lattice.md.
 *
 * How they are used. A replica keeps a state, starting from the bottom. A mutator looks at that
 * state and makes a delta: a small state of the same type that holds the change. The replica merges
 * the delta into its own state and sends it, or its whole state, to the others, who merge it into
 * theirs.
 *
 * What delivery has to do. States and deltas may arrive in any order, any number of times. Replicas
 * are equal once everything that was made has reached all of them: by itself, or inside a state
 * that it was merged into. So a delta that was lost is made up for by the delta again, by the
 * merged delta of a stretch of updates that it is in, or by the whole state of any replica that has
 * it. A later delta of the same node need not do:
 *   FLAG, VV by increments, GCOUNTER   makes up for all earlier ones
 *   PNCOUNTER                          for those of the same sign
 *   MAX, MIN, VV that is set           if its number is not less (MIN: not more)
 *   LWW                                if it is the later write
 *   GSET, AWSET, MVREG                 does not
 *   MAP                                under its key as the type there; of another key it does not
 * A replica of an AWSET or MVREG cannot notice the loss by itself: a later remove can fill the gap
 * in its context, and what the lost delta had replaced lives on. Where deltas can get lost, send a
 * whole state from time to time.
 *
 * Rules for every function below:
 * - Functions that make a state append it to out; on error out is what it was. out must not hold
 *   the input bytes (ONCE_ERR_INVALID), and needs room for more than the result may be in the end:
 *   a merge for a.size + b.size bytes, a mutator for its delta as if it changed something.
 * - No pointer may be NULL (ONCE_ERR_INVALID), except data of size 0 and where it is said.
 * - Bytes that came from elsewhere go through once_lattice_check first. Everything here stays
 *   inside its inputs whatever they hold, and gives ONCE_ERR_DAMAGED where it stumbles over damage;
 *   results mean something only for states that passed the check.
 * - A state of another type than the function's is ONCE_ERR_TYPE; a bound of limits.h, or of out,
 *   is ONCE_ERR_FULL; ONCE_ERR_MEMORY can come from anything that has an out, and from checking or
 *   comparing add-wins sets and multi-value registers that many nodes wrote.
 * - A node is the name of one writer, 1 to ONCE_NODE_SIZE_MAX bytes. Two writers that share a name
 *   and do not share a state break their own updates (never the laws).
 * - Nothing is shared or kept: all functions are safe from many threads.
 */
#ifndef ONCE_LATTICE_H
#define ONCE_LATTICE_H

#include <stdbool.h>

#include <once/bytes.h>
#include <once/limits.h>

#ifdef __cplusplus
extern "C" {
#endif

/* First byte of every encoding: append, never renumber. */
enum once_lattice_type {
    ONCE_LATTICE_MAX = 1,
    ONCE_LATTICE_MIN = 2,
    ONCE_LATTICE_FLAG = 3,
    ONCE_LATTICE_GSET = 4,      /* grow-only set */
    ONCE_LATTICE_VV = 5,        /* version vector */
    ONCE_LATTICE_LWW = 6,       /* last-writer-wins register by (time, node, value) */
    ONCE_LATTICE_GCOUNTER = 7,  /* counter that grows */
    ONCE_LATTICE_PNCOUNTER = 8, /* counter that grows and shrinks */
    ONCE_LATTICE_AWSET = 9,     /* add-wins set */
    ONCE_LATTICE_MVREG = 10,    /* multi-value register */
    ONCE_LATTICE_MAP = 11       /* map of mergeables */
};

/* Where a stands relative to b in the partial order a <= b iff merge(a, b) == b. */
enum once_order {
    ONCE_ORDER_EQUAL = 0,
    ONCE_ORDER_BEFORE = 1,
    ONCE_ORDER_AFTER = 2,
    ONCE_ORDER_CONCURRENT = 3
};

/* "gset", "pncounter", … Never NULL; the text is static. */
ONCE_API const char *once_lattice_type_name(enum once_lattice_type type);

/* The state that nothing has been merged into: merge(bottom, a) == a. */
ONCE_API ONCE_MUST_CHECK int once_lattice_bottom(enum once_lattice_type type, struct once_buf *out);

/* Are these bytes one canonical state? ONCE_ERR_DAMAGED, or ONCE_ERR_FULL where a bound of limits.h
 * is exceeded; then ret_defect says where the first bad byte is (bytes.size: one is missing). Both
 * outputs may be NULL; ret_type is written on success, ret_defect on failure. */
ONCE_API ONCE_MUST_CHECK int once_lattice_check(struct once_bytes bytes,
                                                enum once_lattice_type *ret_type,
                                                struct once_defect *ret_defect);

/* The least state that is at or after both. Time and space are linear in a.size + b.size; add-wins
 * sets and multi-value registers search, by halves, among the dots that arrived out of order. */
ONCE_API ONCE_MUST_CHECK int once_lattice_merge(struct once_bytes a, struct once_bytes b,
                                                struct once_buf *out);

/* Agrees with merge, without merging. */
ONCE_API ONCE_MUST_CHECK int once_lattice_compare(struct once_bytes a, struct once_bytes b,
                                                  enum once_order *ret_order);

/* One line for people, such as "gset{a,b}": not a format, cut short with "..." past
 * ONCE_LATTICE_TEXT_MAX bytes. States that differ are described differently, up to the cut; other
 * than visible ASCII is escaped. No NUL is appended. */
ONCE_API ONCE_MUST_CHECK int once_lattice_describe(struct once_bytes state, struct once_buf *out);

/* MAX, MIN: the largest, or smallest, number that was ever set. */

ONCE_API ONCE_MUST_CHECK int once_max_set(int64_t value, struct once_buf *out);
ONCE_API ONCE_MUST_CHECK int once_min_set(int64_t value, struct once_buf *out);

/* While nothing was set, *ret_known is false and *ret_value 0. */
ONCE_API ONCE_MUST_CHECK int once_max_value(struct once_bytes state, bool *ret_known,
                                            int64_t *ret_value);
ONCE_API ONCE_MUST_CHECK int once_min_value(struct once_bytes state, bool *ret_known,
                                            int64_t *ret_value);

/* FLAG: raised once, raised for ever. */

ONCE_API ONCE_MUST_CHECK int once_flag_raise(struct once_buf *out);
ONCE_API ONCE_MUST_CHECK int once_flag_value(struct once_bytes state, bool *ret_raised);

/* LWW: the write with the largest time; at equal times the larger node, then the larger value,
 * by bytes, so that the winner never depends on who merges first */

struct once_lww {
    int64_t time; /* any clock that the writers share; the unit is theirs */
    struct once_bytes node;
    struct once_bytes value; /* at most ONCE_MEMBER_SIZE_MAX bytes, as every value and member */
};

ONCE_API ONCE_MUST_CHECK int once_lww_write(const struct once_lww *write, struct once_buf *out);

/* Borrows from state. While nothing was written, *ret_written is false and *ret_write all zero. */
ONCE_API ONCE_MUST_CHECK int once_lww_value(struct once_bytes state, bool *ret_written,
                                            struct once_lww *ret_write);

/* GSET: members are added, never removed. */

ONCE_API ONCE_MUST_CHECK int once_gset_add(struct once_bytes member, struct once_buf *out);

/* All of them as one delta, in any order and however often, in n log n: the fast way to fill a set.
 * Of none it is the bottom. ONCE_ERR_FULL past ONCE_LATTICE_ENTRIES_MAX of them. */
ONCE_API ONCE_MUST_CHECK int once_gset_add_all(const struct once_bytes *members,
                                               size_t member_count, struct once_buf *out);
ONCE_API ONCE_MUST_CHECK int once_gset_contains(struct once_bytes state, struct once_bytes member,
                                                bool *ret_contains);

/* VV: how many events of each node have been seen. */

/* Raises the node's number by one. ONCE_ERR_OVERFLOW. */
ONCE_API ONCE_MUST_CHECK int once_vv_increment(struct once_bytes state, struct once_bytes node,
                                               struct once_buf *out);

/* Raises the node's number to number, if it is lower; 0 makes the bottom. */
ONCE_API ONCE_MUST_CHECK int once_vv_set(struct once_bytes node, uint64_t number,
                                         struct once_buf *out);

/* 0 for a node that was never seen. */
ONCE_API ONCE_MUST_CHECK int once_vv_value(struct once_bytes state, struct once_bytes node,
                                           uint64_t *ret_number);

/* GCOUNTER, PNCOUNTER: each node counts for itself, the value is the sum. */

/* ONCE_ERR_OVERFLOW when the node's own number would pass 64 bits; amount 0 makes the bottom. */
ONCE_API ONCE_MUST_CHECK int once_gcounter_add(struct once_bytes state, struct once_bytes node,
                                               uint64_t amount, struct once_buf *out);
ONCE_API ONCE_MUST_CHECK int once_pncounter_add(struct once_bytes state, struct once_bytes node,
                                                int64_t amount, struct once_buf *out);

/* The exact sum. ONCE_ERR_OVERFLOW when it does not fit the result: the state is still good, and
 * its entries can be added up in wider numbers through the iterator. */
ONCE_API ONCE_MUST_CHECK int once_gcounter_value(struct once_bytes state, uint64_t *ret_value);
ONCE_API ONCE_MUST_CHECK int once_pncounter_value(struct once_bytes state, int64_t *ret_value);

/* AWSET and MVREG: who writes what. A struct, because a name and a value that changed places would
 * be wrong for ever; a state and a name that do are noticed, since a name is no state. */
struct once_write {
    struct once_bytes node;
    struct once_bytes value; /* AWSET: the member */
};

/* AWSET: members come and go; of an add and a remove that did not know of each other the add wins.
 * A remove takes away exactly the adds that its replica had seen, and leaves no tombstone */

/* Adds write->value for write->node. ONCE_ERR_OVERFLOW after 2^64 - 1 adds by one node. state must
 * be the adding node's newest.
 *
 * Many members at one go: merging every delta into a large set is quadratic. Make the first delta
 * from the state and each further one from the delta before it, which has the node's newest dot;
 * merge them in pairs, those in pairs again, and the last one into the state. A member that was in
 * the set already then keeps its older dots beside the new one, until its next add or remove. */
ONCE_API ONCE_MUST_CHECK int once_awset_add(struct once_bytes state, const struct once_write *write,
                                            struct once_buf *out);

/* The bottom when state does not contain the member. */
ONCE_API ONCE_MUST_CHECK int once_awset_remove(struct once_bytes state, struct once_bytes member,
                                               struct once_buf *out);
ONCE_API ONCE_MUST_CHECK int once_awset_contains(struct once_bytes state, struct once_bytes member,
                                                 bool *ret_contains);

/* MVREG: a write replaces the values that its replica had seen; writes that did not know of each
 * other all stay until a later write replaces them. Read the values with the iterator */

/* ONCE_ERR_OVERFLOW after 2^64 - 1 writes by one node. state must be the writing node's newest. */
ONCE_API ONCE_MUST_CHECK int once_mvreg_write(struct once_bytes state,
                                              const struct once_write *write, struct once_buf *out);

/* MAP: a mergeable under each key, maps included. Keys are never removed. Where two replicas put
 * different types under one key, the type with the larger number wins the key whole */

/* inner is a state or delta of any type; it is checked (ONCE_ERR_DAMAGED). */
ONCE_API ONCE_MUST_CHECK int once_map_put(struct once_bytes key, struct once_bytes inner,
                                          struct once_buf *out);

/* Borrows from state. When the key is absent *ret_present is false and *ret_inner empty. */
ONCE_API ONCE_MUST_CHECK int once_map_get(struct once_bytes state, struct once_bytes key,
                                          bool *ret_present, struct once_bytes *ret_inner);

/* Reading collections: GSET, VV, GCOUNTER, PNCOUNTER, AWSET, MVREG, MAP. */

/* What there is to say about an entry; the rest is empty or 0. All bytes are borrowed from the
 * state. */
struct once_lattice_entry {
    struct once_bytes
        key; /* GSET, AWSET: member; VV, counters: node; MVREG: writing node; MAP: key */
    struct once_bytes value; /* MVREG: value; MAP: the state under the key */
    uint64_t number;         /* VV, GCOUNTER: the node's number; PNCOUNTER: what it added;
                                MVREG: which write of its node this is */
    uint64_t minus;          /* PNCOUNTER: what the node took away */
};

/* Allocates nothing and needs no release. The fields are private. */
struct once_lattice_iter {
    enum once_lattice_type type;
    uint32_t left;
    const uint8_t *at;
    const uint8_t *end;
    const uint8_t
        *node_at; /* MVREG: the context's entry of node_index; dots only move it forward */
    uint32_t node_index;
    uint32_t node_count;
};

/* How many entries the iterator will give. */
ONCE_API ONCE_MUST_CHECK int once_lattice_count(struct once_bytes state, size_t *ret_count);

/* Starts before the first entry; state must outlive the iterator. ONCE_ERR_TYPE if not a
 * collection. */
ONCE_API ONCE_MUST_CHECK int once_lattice_iter_init(struct once_lattice_iter *iter,
                                                    struct once_bytes state);

/* 1: there was one more entry, in order of key bytes (MVREG: of node, then number). 0: there was
 * none, *ret_entry is untouched. Negative: an error. */
ONCE_API ONCE_MUST_CHECK int once_lattice_iter_next(struct once_lattice_iter *iter,
                                                    struct once_lattice_entry *ret_entry);

#ifdef __cplusplus
}
#endif
#endif
