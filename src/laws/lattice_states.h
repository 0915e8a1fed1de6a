/* SPDX-License-Identifier: Apache-2.0
 *
 * States of the mergeable types by number, made with the shipping mutators. 0 is the bottom.
 */
#ifndef ONCE_LAWS_LATTICE_STATES_H
#define ONCE_LAWS_LATTICE_STATES_H

#include <once/lattice.h>

enum { ONCE__LATTICE_TYPE_FIRST = ONCE_LATTICE_MAX, ONCE__LATTICE_TYPE_LAST = ONCE_LATTICE_MAP };

/* How many states the type has here at most; every number below names one. */
uint64_t once__lattice_state_count(enum once_lattice_type type);

/* Appends the state to out. */
ONCE_MUST_CHECK int once__lattice_state(enum once_lattice_type type, uint64_t index,
                                        struct once_buf *out);

#endif
