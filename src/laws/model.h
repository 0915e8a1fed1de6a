/* SPDX-License-Identifier: Apache-2.0
 *
 * Models: for each effect, objects and operations by number, around the real step.
 *
 * A model decides nothing. It makes the object's value and the operation's arguments from a number
 * (0 is the simplest), calls the shipping step of core/effect.h or <once/lattice.h>, compares two
 * values, and describes them. State 0 is the object that nobody touched.
 */
#ifndef ONCE_LAWS_MODEL_H
#define ONCE_LAWS_MODEL_H

#include "core/effect.h"
#include "laws/text.h"

enum { ONCE__MODEL_BUCKETS = 2, ONCE__MODEL_EVENTS = 16, ONCE__MODEL_LATTICE_SIZE = 1024 };

/* Events of a log or messages of an outbox, by letter; 0 is a message that was sent. */
struct once__model_log {
    uint64_t count; /* what the step counts */
    uint8_t events[ONCE__MODEL_EVENTS];
};

struct once__model_machine {
    struct once__machine machine;
    uint32_t at;
};

struct once__model_lattice {
    size_t size;
    uint8_t bytes[ONCE__MODEL_LATTICE_SIZE];
};

/* The value of one object; the model knows which. */
union once__value {
    int64_t counter;
    struct once__extreme extreme;
    bool flag;
    struct once__register reg;
    struct once__model_machine machine;
    uint64_t token;
    struct once__lease lease;
    struct once__sequence sequence;
    uint64_t buckets[ONCE__MODEL_BUCKETS];
    struct once__model_log log;
    struct once__model_lattice lattice;
};

/* One DO. What the arguments mean is the model's. */
struct once__operation {
    enum once__effect_id id;
    int64_t arg[3];
};

/* How many there are of something: all below small are tried, and random ones below large. */
struct once__extent {
    uint64_t small;
    uint64_t large;
};

struct once__model {
    struct once__extent states;
    struct once__extent operations;
    struct once__extent others; /* what else can happen to the object between an operation and its
                                   late duplicate; if small is 0: the operations themselves */
    const char *grouping;       /* what it means to hand two of them over as one */

    int (*state)(uint64_t index, union once__value *ret_value);
    void (*operation)(uint64_t index, struct once__operation *ret_operation);
    void (*other)(uint64_t index, struct once__operation *ret_operation); /* NULL: operation */

    /* Runs the step: an enum once__effect_word, or a negative enum once_err. */
    int (*apply)(union once__value *value, const struct once__operation *operation);

    /* Two neighbours as one operation. NULL: one apply with both, where one rejection rejects
     * both. */
    int (*apply_folded)(union once__value *value, const struct once__operation *first,
                        const struct once__operation *second);

    bool (*equal)(const union once__value *a, const union once__value *b);
    void (*describe)(struct once__text *text, const union once__value *value);
    void (*describe_start)(struct once__text *text, const union once__value *value); /* or NULL */
    void (*describe_operation)(struct once__text *text, const struct once__operation *operation);
};

/* The model of an effect; the text is static. */
const struct once__model *once__model_of(enum once__effect_id id);

extern const struct once__model once__model_add;
extern const struct once__model once__model_add_bounded;
extern const struct once__model once__model_max;
extern const struct once__model once__model_min;
extern const struct once__model once__model_flag;
extern const struct once__model once__model_union;
extern const struct once__model once__model_clock;
extern const struct once__model once__model_lww;
extern const struct once__model once__model_gadd;
extern const struct once__model once__model_pnadd;
extern const struct once__model once__model_insert;
extern const struct once__model once__model_remove;
extern const struct once__model once__model_set;
extern const struct once__model once__model_set_if;
extern const struct once__model once__model_delete;
extern const struct once__model once__model_delete_if;
extern const struct once__model once__model_machine;
extern const struct once__model once__model_move;
extern const struct once__model once__model_move_forward;
extern const struct once__model once__model_append;
extern const struct once__model once__model_append_at;
extern const struct once__model once__model_grant;
extern const struct once__model once__model_guard;
extern const struct once__model once__model_lease;
extern const struct once__model once__model_renew;
extern const struct once__model once__model_release;
extern const struct once__model once__model_hold;
extern const struct once__model once__model_seq;
extern const struct once__model once__model_bucket;
extern const struct once__model once__model_emit;
extern const struct once__model once__model_sent;

/* Shared by the models. */
extern const char once__grouping_batch[];

/* 0, 1, -1, 2, -2, …; from ONCE__SIGNED_SMALL on scattered over -2^60 to 2^60, so that the sum
 * of a state and three operations stays inside 64 bits. */
enum { ONCE__SIGNED_SMALL = 256 };
int64_t once__signed_at(uint64_t index);

#endif
