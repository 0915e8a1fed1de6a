/* SPDX-License-Identifier: Apache-2.0
 *
 * What lattice.c needs to know of a type, and what the files of the types share with each other.
 *
 * Readers given to these functions stand behind the two header bytes and end with the state;
 * failures are left in readers and writer (codec.h). depth is how many maps are around the state;
 * only maps look at it.
 */
#ifndef ONCE_LATTICE_OPS_H
#define ONCE_LATTICE_OPS_H

#include "lattice/codec.h"

struct once__lattice_ops {
    const char *name;
    uint8_t bottom_size; /* the bottom's payload is this many zero bytes, for every type */

    /* Fails the reader unless what is left of it is the payload of one canonical state. */
    void (*check)(struct once__reader *reader, unsigned depth);

    /* Puts the payload of the merged state: never more bytes than a and b have together. */
    void (*merge)(struct once__reader *a, struct once__reader *b, struct once__writer *out,
                  unsigned depth);

    /* Where a stands relative to b; anything if a reader failed. */
    enum once_order (*compare)(struct once__reader *a, struct once__reader *b, unsigned depth);
};

extern const struct once__lattice_ops once__max_ops;
extern const struct once__lattice_ops once__min_ops;
extern const struct once__lattice_ops once__flag_ops;
extern const struct once__lattice_ops once__lww_ops;
extern const struct once__lattice_ops once__gset_ops;
extern const struct once__lattice_ops once__vv_ops;
extern const struct once__lattice_ops once__gcounter_ops;
extern const struct once__lattice_ops once__pncounter_ops;
extern const struct once__lattice_ops once__awset_ops;
extern const struct once__lattice_ops once__mvreg_ops;
extern const struct once__lattice_ops once__map_ops;

/* The table of the types. The type must be one. */
const struct once__lattice_ops *once__lattice_ops_of(enum once_lattice_type type);

/* A reader behind the header of a state of this type; failed (ONCE_ERR_TYPE) if it is of
 * another. */
void once__open(struct once__reader *reader, struct once_bytes state, enum once_lattice_type type);

/* Header and payload of one state that ends where the reader does, inside depth maps. Gives its
 * type. */
enum once_lattice_type once__check_state(struct once__reader *reader, unsigned depth);

#endif
