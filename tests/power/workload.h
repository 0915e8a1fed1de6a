/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of the store: a few keys, and calls that mostly make sense in the state in which
 * the key is, so that every path of an operation is walked, and sometimes do not.
 */
#ifndef ONCE_TESTS_POWER_WORKLOAD_H
#define ONCE_TESTS_POWER_WORKLOAD_H

#include "power/chance.h"
#include "power/model.h"

enum {
    WORKLOAD_NAME_SIZE = 40,
    WORKLOAD_LARGE_SIZE = 6000 /* a result from here on is large: it may be refused for space */
};

struct workload {
    char texts[MODEL_KEYS_MAX][WORKLOAD_NAME_SIZE];
    unsigned large_percent; /* of results and data */
    unsigned sense_percent; /* of calls that fit the state of their key */
    uint32_t segment_size;
};

/* Names key_count keys, some of them born around wall_ms (UUIDv7), into the model. */
void workload_init(struct workload *workload, struct chance *chance, struct model *model,
                   int key_count, once_ms wall_ms);

/* A call, and the key that it is about. */
int workload_next(struct workload *workload, struct chance *chance, const struct model *model,
                  once_ms now_ms, struct once_op *ret_op);
/* A call on this key. */
void workload_call(struct workload *workload, struct chance *chance, const struct model *model,
                   int key, once_ms now_ms, struct once_op *ret_op);

/* Bytes that mean nothing, there for the whole run; after workload_init. */
struct once_bytes workload_noise(struct chance *chance, size_t size);

/* How much time passes; often none. */
once_ms workload_pause(struct chance *chance);

#endif
