/* SPDX-License-Identifier: Apache-2.0
 *
 * Which model belongs to which effect, and what the models share.
 */
#include "laws/model.h"

#include "base/assert.h"
#include "laws/search.h"

const char once__grouping_batch[] =
    "one apply with both, where one that is rejected rejects the other";

int64_t once__signed_at(uint64_t index)
{
    const uint64_t mask = ((uint64_t)1 << 60) - 1;
    uint64_t size = index < ONCE__SIGNED_SMALL ? (index + 1) / 2 : once__scatter(index) & mask;

    return index % 2 == 0 ? -(int64_t)size : (int64_t)size;
}

const struct once__model *once__model_of(enum once__effect_id id)
{
    static const struct once__model *const models[ONCE__EFFECT_COUNT] = {
        [ONCE__ADD] = &once__model_add,
        [ONCE__ADD_BOUNDED] = &once__model_add_bounded,
        [ONCE__MAX] = &once__model_max,
        [ONCE__MIN] = &once__model_min,
        [ONCE__FLAG] = &once__model_flag,
        [ONCE__UNION] = &once__model_union,
        [ONCE__CLOCK] = &once__model_clock,
        [ONCE__LWW] = &once__model_lww,
        [ONCE__GADD] = &once__model_gadd,
        [ONCE__PNADD] = &once__model_pnadd,
        [ONCE__INSERT] = &once__model_insert,
        [ONCE__REMOVE] = &once__model_remove,
        [ONCE__SET] = &once__model_set,
        [ONCE__SET_IF] = &once__model_set_if,
        [ONCE__DELETE] = &once__model_delete,
        [ONCE__DELETE_IF] = &once__model_delete_if,
        [ONCE__MACHINE] = &once__model_machine,
        [ONCE__MOVE] = &once__model_move,
        [ONCE__MOVE_FORWARD] = &once__model_move_forward,
        [ONCE__APPEND] = &once__model_append,
        [ONCE__APPEND_AT] = &once__model_append_at,
        [ONCE__GRANT] = &once__model_grant,
        [ONCE__GUARD] = &once__model_guard,
        [ONCE__LEASE] = &once__model_lease,
        [ONCE__RENEW] = &once__model_renew,
        [ONCE__RELEASE] = &once__model_release,
        [ONCE__HOLD] = &once__model_hold,
        [ONCE__SEQ] = &once__model_seq,
        [ONCE__BUCKET] = &once__model_bucket,
        [ONCE__EMIT] = &once__model_emit,
        [ONCE__SENT] = &once__model_sent,
    };

    ONCE_ASSERT(id < ONCE__EFFECT_COUNT);
    ONCE_ASSERT(models[id] != NULL);
    return models[id];
}
