/* SPDX-License-Identifier: Apache-2.0
 *
 * What another test adds to the power-cut test: tests/apply adds objects. It answers for the calls
 * that it makes (ONCE_CALL_APPLY, ONCE_CALL_MERGE); keys, journal, lives and faults stay here. The
 * power test itself has none: the pointer is NULL.
 */
#ifndef ONCE_TESTS_POWER_EXTENSION_H
#define ONCE_TESTS_POWER_EXTENSION_H

#include <stdbool.h>

#include <once/store.h>

struct chance;
struct drive;
struct model;
struct promise;

struct extension {
    void *self;
    /* A run begins, with nothing on its disk. short_run: what shall happen must happen soon. */
    void (*start)(void *self, struct model *model, struct chance *chance, bool short_run);
    /* A call, and the key that it is about, or HISTORY_NO_KEY. False: the workload's own turn. */
    bool (*next)(void *self, struct chance *chance, once_ms now_ms, int *ret_key,
                 struct once_op *ret_op);
    /* The engine has decided an apply or a merge. Fills decision, effect, weight, grows and
     * reveals, and returns what it must be refused with; changes nothing. */
    int (*decide)(void *self, const struct once_op *op, struct promise *promise);
    /* There is a new entry in the journal: what was decided last, of whatever call. */
    void (*enter)(void *self, const struct promise *promise);
    /* After opening: looks at everything and rules prefixes out. False: it could not. */
    bool (*look)(void *self, struct drive *drive);
    /* The model is exact again: it is what it was after this prefix. */
    void (*settle)(void *self, size_t prefix, const struct once_stats *stats);
    /* One random look; only when it may block. */
    void (*step)(void *self, struct drive *drive);
    /* Numbers that the model knows as well. */
    void (*numbers)(void *self, const struct once_stats *stats);
    /* Compares all that there is; nothing may be under way. */
    void (*compare)(void *self, struct drive *drive);
    /* A copy for the whole run. */
    struct once_bytes (*keep)(void *self, struct once_bytes bytes);
    /* The life is over; the store's last numbers. */
    void (*over)(void *self, const struct once_stats *stats);
    const char *file; /* that it has on the disk, for flipped bits; may be NULL */
};

#endif
