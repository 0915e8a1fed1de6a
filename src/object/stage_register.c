/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on a counter (ADD) and on a register (SET, DELETE). A register's value may be anybody's
 * secret: reasons speak of its version only.
 */
#include "object/stage_inner.h"

#include <inttypes.h>

#include "base/assert.h"

static int reject_add(struct once__stage *stage, enum once__effect_word word, int64_t value)
{
    const struct once__deed *deed = stage->deed;
    int64_t sum;

    if (word == ONCE__EFFECT_OVERFLOW || __builtin_add_overflow(value, deed->n, &sum))
        return once__stage_reject(stage, ONCE__EFFECT_OVERFLOW,
                                  "%.*s is at %" PRId64 ", and adding %" PRId64
                                  " would leave what 64 bits hold",
                                  ONCE__STAGE_TEXT(deed->name), value, deed->n);
    if (word == ONCE__EFFECT_BELOW_MIN)
        return once__stage_reject(stage, word,
                                  "%.*s is at %" PRId64 " and would come to %" PRId64
                                  ", below its minimum %" PRId64,
                                  ONCE__STAGE_TEXT(deed->name), value, sum, deed->range.min);
    return once__stage_reject(stage, word,
                              "%.*s is at %" PRId64 " and would come to %" PRId64
                              ", above its maximum %" PRId64,
                              ONCE__STAGE_TEXT(deed->name), value, sum, deed->range.max);
}

int once__stage_add(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once__slot *slot;
    enum once__effect_word word;
    int err = once__stage_slot(stage, ONCE_OBJECT_COUNTER, &slot);

    if (err != ONCE_OK)
        return err;
    word = once__effect_add(&slot->now.counter, deed->n, deed->range);
    if (once__effect_rejected(word))
        return reject_add(stage, word, slot->now.counter);
    if (word == ONCE__EFFECT_CHANGED)
        err = once__stage_change(stage, slot, 0);
    return err == ONCE_OK ? once__stage_number(stage, slot->now.counter) : err;
}

/* Of SET and DELETE. */
static int reject_register(struct once__stage *stage, enum once__effect_word word, uint64_t version)
{
    const struct once__deed *deed = stage->deed;

    if (word == ONCE__EFFECT_OVERFLOW)
        return once__stage_reject(stage, word,
                                  "%.*s is at version %" PRIu64 ", the last that there is",
                                  ONCE__STAGE_TEXT(deed->name), version);
    return once__stage_reject(
        stage, word, "%.*s is at version %" PRIu64 ", and the effect is for version %" PRIu64,
        ONCE__STAGE_TEXT(deed->name), version, deed->expected.version);
}

/* What follows the pure step. */
static int finish_register(struct once__stage *stage, struct once__slot *slot,
                           enum once__effect_word word, size_t size_before)
{
    size_t size = slot->now.reg.value.size;
    int err = ONCE_OK;

    if (once__effect_rejected(word))
        return reject_register(stage, word, slot->now.reg.version);
    if (word == ONCE__EFFECT_CHANGED)
        err = once__stage_change(stage, slot, size > size_before ? size - size_before : 0);
    ONCE_ASSERT(slot->now.reg.version <= ONCE_VERSION_MAX);
    return err == ONCE_OK ? once__stage_number(stage, (int64_t)slot->now.reg.version) : err;
}

int once__stage_set(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once__slot *slot;
    size_t size_before;
    int err = once__stage_slot(stage, ONCE_OBJECT_REGISTER, &slot);

    if (err != ONCE_OK)
        return err;
    size_before = slot->now.reg.value.size;
    return finish_register(
        stage, slot, once__effect_set(&slot->now.reg, deed->value, deed->expected), size_before);
}

int once__stage_delete(struct once__stage *stage)
{
    struct once__slot *slot;
    size_t size_before;
    int err = once__stage_slot(stage, ONCE_OBJECT_REGISTER, &slot);

    if (err != ONCE_OK)
        return err;
    size_before = slot->now.reg.value.size;
    return finish_register(stage, slot, once__effect_delete(&slot->now.reg, stage->deed->expected),
                           size_before);
}
