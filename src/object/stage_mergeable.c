/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on mergeable objects: a mutator of <once/lattice.h> makes a delta from the state, and the
 * delta is what goes into the log.
 *
 * Two deeds on one object: the second sees the state with the delta of the first. A large state is
 * not copied for that before there is a second one: until then the slot is `behind`. What an apply
 * comes to is all its deltas merged, which is the same as one after the other.
 */
#include "object/stage_inner.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/bytes.h"

/* States up to here are merged at once: then it is known what they grow by. */
enum { SMALL_SIZE_MAX = 4096 };

/* A buffer that became larger than this is given back after the run. */
enum { KEPT_CAPACITY_MAX = 1 << 16 };

static int too_large(struct once__stage *stage)
{
    return once__stage_fail(stage, ONCE_ERR_FULL,
                            "the state of a mergeable object, or what comes to it at one go, would "
                            "be larger than it may");
}

int once__stage_lattice_error(struct once__stage *stage, int err)
{
    if (err == ONCE_ERR_FULL)
        return too_large(stage);
    if (err == ONCE_ERR_OVERFLOW)
        return once__stage_reject(stage, ONCE__EFFECT_OVERFLOW,
                                  "a number of %.*s would leave what 64 bits hold",
                                  ONCE__STAGE_TEXT(stage->deed->name));
    return err;
}

int once__stage_merge_into(struct once__stage *stage, struct once_bytes a, struct once_bytes b,
                           struct once_buf *into)
{
    int err;

    once_buf_clear(&stage->scratch);
    err = once_lattice_merge(a, b, &stage->scratch);
    if (err == ONCE_OK)
        once__stage_swap(&stage->scratch, into);
    return err;
}

int once__stage_mergeable_load(struct once__stage *stage, struct once__slot *slot)
{
    int err = ONCE_OK;

    once_buf_clear(&slot->state);
    once_buf_clear(&slot->delta);
    slot->now.merge.behind = false;
    if (slot->object) {
        slot->now.merge.state = once__object_state(slot->object);
        return ONCE_OK;
    }
    err = once_lattice_bottom((enum once_lattice_type)slot->type, &slot->state);
    slot->now.merge.state = once_buf_bytes(&slot->state);
    return err == ONCE_OK ? err : once__stage_lattice_error(stage, err);
}

static void give_back(struct once_buf *buf)
{
    if (buf->capacity > KEPT_CAPACITY_MAX)
        once_buf_release(buf);
}

void once__stage_mergeable_end(struct once__stage *stage)
{
    bool used = false;

    for (size_t i = 0; i < stage->slot_count; i++) {
        if (!once_object_mergeable(stage->slots[i].type))
            continue;
        used = true;
        give_back(&stage->slots[i].state);
        give_back(&stage->slots[i].delta);
    }
    if (!used)
        return;
    give_back(&stage->one);
    give_back(&stage->two);
    give_back(&stage->three);
    give_back(&stage->scratch);
    give_back(&stage->members);
    for (size_t i = 0; i < ONCE__PILE_LEVELS; i++)
        give_back(&stage->pile[i]);
}

int once__stage_open(struct once__stage *stage, enum once_object_type type,
                     struct once__slot **ret_slot)
{
    struct once__slot *slot = NULL;
    int err = once__stage_slot(stage, type, &slot);

    if (err != ONCE_OK)
        return err;
    if (slot->now.merge.behind) {
        err = once__stage_merge_into(stage, slot->now.merge.state, once_buf_bytes(&slot->delta),
                                     &slot->state);
        if (err != ONCE_OK)
            return once__stage_lattice_error(stage, err);
        slot->now.merge.state = once_buf_bytes(&slot->state);
        slot->now.merge.behind = false;
    }
    once_buf_clear(&stage->one);
    *ret_slot = slot;
    return ONCE_OK;
}

static int add_to_delta(struct once__stage *stage, struct once__slot *slot, struct once_bytes delta)
{
    if (slot->delta.size == 0)
        return once_buf_append(&slot->delta, delta.data, delta.size);
    return once__stage_merge_into(stage, once_buf_bytes(&slot->delta), delta, &slot->delta);
}

int once__stage_take(struct once__stage *stage, struct once__slot *slot, struct once_bytes delta,
                     enum once_order *ret_order)
{
    struct once_bytes state = slot->now.merge.state;
    size_t sum = state.size + delta.size, growth_size = delta.size;
    enum once_order order;
    int err = once_lattice_compare(delta, state, &order);

    ONCE_ASSERT(!slot->now.merge.behind);
    if (err != ONCE_OK)
        return once__stage_lattice_error(stage, err);
    *ret_order = order;
    if (order == ONCE_ORDER_EQUAL || order == ONCE_ORDER_BEFORE)
        return ONCE_OK;

    err = add_to_delta(stage, slot, delta);
    if (err == ONCE_OK && slot->delta.size > stage->limits.mergeable_size)
        err = ONCE_ERR_FULL;
    if (err == ONCE_OK && (sum <= SMALL_SIZE_MAX || sum > stage->limits.mergeable_size)) {
        err = once__stage_merge_into(stage, state, delta, &slot->state);
        if (err == ONCE_OK && slot->state.size > stage->limits.mergeable_size)
            err = ONCE_ERR_FULL;
        growth_size = slot->state.size > state.size ? slot->state.size - state.size : 0;
        slot->now.merge.state = once_buf_bytes(&slot->state);
    } else {
        slot->now.merge.behind = true;
    }
    return err == ONCE_OK ? once__stage_change(stage, slot, growth_size)
                          : once__stage_lattice_error(stage, err);
}

/* The delta in stage->one, and then a number for a result. */
static int finish(struct once__stage *stage, struct once__slot *slot, int64_t number)
{
    enum once_order order;
    int err = once__stage_take(stage, slot, once_buf_bytes(&stage->one), &order);

    return err == ONCE_OK ? once__stage_number(stage, number) : err;
}

/* ---- Numbers, flags, clocks, counters -------------------------------------------------------- */

int once__stage_extreme(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    bool is_max = deed->kind == ONCE__DEED_MAX;
    struct once__extreme extreme = {.present = false};
    struct once__slot *slot = NULL;
    struct once_bytes state;
    int err = once__stage_open(stage, is_max ? ONCE_OBJECT_MAX : ONCE_OBJECT_MIN, &slot);

    if (err != ONCE_OK)
        return err;
    state = slot->now.merge.state;
    err = is_max ? once_max_value(state, &extreme.present, &extreme.value)
                 : once_min_value(state, &extreme.present, &extreme.value);
    if (err != ONCE_OK)
        return once__stage_lattice_error(stage, err);
    (void)(is_max ? once__effect_max(&extreme, deed->n) : once__effect_min(&extreme, deed->n));
    err = is_max ? once_max_set(deed->n, &stage->one) : once_min_set(deed->n, &stage->one);
    return err == ONCE_OK ? finish(stage, slot, extreme.value)
                          : once__stage_lattice_error(stage, err);
}

int once__stage_flag(struct once__stage *stage)
{
    struct once__slot *slot = NULL;
    int err = once__stage_open(stage, ONCE_OBJECT_FLAG, &slot);

    if (err != ONCE_OK)
        return err;
    err = once_flag_raise(&stage->one);
    return err == ONCE_OK ? finish(stage, slot, 1) : once__stage_lattice_error(stage, err);
}

/* The largest number that a result can have. */
static int reject_result(struct once__stage *stage)
{
    return once__stage_reject(stage, ONCE__EFFECT_OVERFLOW,
                              "the number of %.*s would pass %" PRId64 ", the largest that is told",
                              ONCE__STAGE_TEXT(stage->deed->name), INT64_MAX);
}

int once__stage_clock(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once__slot *slot = NULL;
    uint64_t number;
    int err = once__stage_open(stage, ONCE_OBJECT_VV, &slot);

    if (err != ONCE_OK)
        return err;
    err = once_vv_value(slot->now.merge.state, deed->node, &number);
    if (err != ONCE_OK)
        return once__stage_lattice_error(stage, err);
    number = number > deed->number ? number : deed->number;
    if (number > INT64_MAX)
        return reject_result(stage);
    err = once_vv_set(deed->node, deed->number, &stage->one);
    return err == ONCE_OK ? finish(stage, slot, (int64_t)number)
                          : once__stage_lattice_error(stage, err);
}

int once__stage_lww(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once_lww write = {.time = deed->n, .node = deed->node, .value = deed->value};
    enum once_order order;
    struct once__slot *slot = NULL;
    int err = once__stage_open(stage, ONCE_OBJECT_LWW, &slot);

    if (err != ONCE_OK)
        return err;
    err = once_lww_write(&write, &stage->one);
    if (err != ONCE_OK)
        return once__stage_lattice_error(stage, err);
    err = once__stage_take(stage, slot, once_buf_bytes(&stage->one), &order);
    if (err != ONCE_OK)
        return err;
    return once__stage_number(stage, order != ONCE_ORDER_BEFORE); /* equal: it had won before */
}

int once__stage_gadd(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once__slot *slot = NULL;
    uint64_t sum = 0;
    int err = once__stage_open(stage, ONCE_OBJECT_GCOUNTER, &slot);

    if (err != ONCE_OK)
        return err;
    err = once_gcounter_value(slot->now.merge.state, &sum);
    if (err == ONCE_ERR_OVERFLOW || sum > INT64_MAX || deed->number > INT64_MAX - sum)
        return reject_result(stage);
    if (err == ONCE_OK)
        err = once_gcounter_add(slot->now.merge.state, deed->node, deed->number, &stage->one);
    if (err != ONCE_OK)
        return once__stage_lattice_error(stage, err);
    return finish(stage, slot, (int64_t)(sum + deed->number));
}

int once__stage_pnadd(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once__slot *slot = NULL;
    int64_t sum;
    int err = once__stage_open(stage, ONCE_OBJECT_PNCOUNTER, &slot);

    if (err != ONCE_OK)
        return err;
    err = once_pncounter_value(slot->now.merge.state, &sum);
    if (err == ONCE_OK && __builtin_add_overflow(sum, deed->n, &sum))
        err = ONCE_ERR_OVERFLOW;
    if (err == ONCE_OK)
        err = once_pncounter_add(slot->now.merge.state, deed->node, deed->n, &stage->one);
    return err == ONCE_OK ? finish(stage, slot, sum) : once__stage_lattice_error(stage, err);
}

int once__stage_merge(struct once__stage *stage)
{
    struct once_bytes state = stage->deed->value;
    enum once_order order;
    struct once__slot *slot = NULL;
    int err;

    if (state.size == 0 || !once_object_mergeable((enum once_object_type)state.data[0]))
        return once__stage_fail(stage, ONCE_ERR_DAMAGED, "not a state of a mergeable object");
    err = once__stage_open(stage, (enum once_object_type)state.data[0], &slot);
    if (err == ONCE_OK)
        err = once__stage_take(stage, slot, state, &order);
    if (err != ONCE_OK)
        return err;
    return once__stage_number(stage, order == ONCE_ORDER_AFTER || order == ONCE_ORDER_CONCURRENT);
}
