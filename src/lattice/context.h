/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal contexts: which dots a replica has seen. The ground of AWSET and MVREG.
 *
 * A dot names one event, an add or a write: (node, number), each node numbering its own events from
 * 1. A context is a set of dots. Most of it is "all dots of the node up to base"; the extras are
 * dots beyond a gap, which there are while deltas are lost or overtake each other:
 *
 *     u32 node count, then for each node, names strictly increasing:
 *         u32 name size, name, u64 base, u32 extra count, u64 extras, strictly increasing
 *
 * Canonical: the first extra is at least base + 2 (base + 1 would be part of the base), and no node
 * is there without a dot. States name a dot in 12 bytes, by the place of its node in the context:
 * u32 index, u64 number. So an index means something only together with its context.
 */
#ifndef ONCE_LATTICE_CONTEXT_H
#define ONCE_LATTICE_CONTEXT_H

#include "lattice/codec.h"

enum { ONCE__CONTEXT_FEW = 8, ONCE__DOT_SIZE = 12 };

/* One node's dots, pointing into the state's bytes. The last two are set by once__context_link. */
struct once__context_node {
    struct once_bytes name;
    uint64_t base;
    const uint8_t *extras;
    uint32_t extra_count;
    uint32_t merged_index;                 /* its place in the merged context */
    const struct once__context_node *peer; /* the same node in the other context, or NULL */
};

struct once__context {
    struct once__context_node *nodes;
    uint32_t count;
    struct once__context_node few[ONCE__CONTEXT_FEW]; /* more nodes than this are allocated */
};

/* A dot of a state whose context has been read. */
struct once__dot_ref {
    const struct once__context_node *node; /* NULL if the reader failed */
    uint64_t number;
};

/* Reads a context, all of whose rules it checks; failing leaves it empty. To be released either
 * way. */
void once__context_read(struct once__reader *reader, struct once__context *ret_context);
void once__context_release(struct once__context *context);

/* Moves behind a context without keeping it; gives the number of its nodes, and where the first
 * is. */
uint32_t once__context_skip(struct once__reader *reader, const uint8_t **ret_first);
void once__context_skip_node(struct once__reader *reader);

/* Does the context have this dot of the node? NULL is a node that it does not have. */
bool once__context_saw(const struct once__context_node *node, uint64_t number);

/* The largest number that the context has of the node; 0 if it does not have the node. */
uint64_t once__context_last(const struct once__context *context, struct once_bytes name);

/* Finds out which nodes are in both, and which place each will have in the merged context. */
void once__context_link(struct once__context *a, struct once__context *b);

/* Puts the union of linked contexts. */
void once__context_merge(const struct once__context *a, const struct once__context *b,
                         struct once__writer *out);

/* Which of the linked contexts has dots that the other has not. */
enum once_order once__context_compare(const struct once__context *a, const struct once__context *b);

/* The next dot of a state. Fails if its index is not one of the context's. */
struct once__dot_ref once__read_dot(struct once__reader *reader,
                                    const struct once__context *context);
void once__put_dot(struct once__writer *writer, uint32_t node_index, uint64_t number);

/* Sign of the order of two dots of linked contexts: by the place of the node, then by number. */
int once__dot_compare(struct once__dot_ref a, struct once__dot_ref b);

/* Writes a canonical context: nodes in order of their names, numbers of each in increasing
 * order. */
struct once__context_builder {
    struct once__writer *out;
    size_t count_mark;
    size_t base_mark; /* of the current node; its extra count follows */
    uint64_t base;
    uint32_t extra_count;
    uint32_t node_count;
};

void once__context_build(struct once__context_builder *builder, struct once__writer *out);
void once__context_build_node(struct once__context_builder *builder, struct once_bytes name,
                              uint64_t base);
void once__context_build_number(struct once__context_builder *builder, uint64_t number);
void once__context_build_end(struct once__context_builder *builder);

#endif
