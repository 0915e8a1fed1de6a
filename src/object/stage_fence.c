/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on a fence (GRANT, GUARD), a lease (LEASE, RENEW, RELEASE, HOLD) and a producer's sequence
 * (SEQ). A reason names numbers and times, and never who has a lease.
 */
#include "object/stage_inner.h"

#include <inttypes.h>

#include "base/assert.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static int reject_overflow(struct once__stage *stage)
{
    return once__stage_reject(stage, ONCE__EFFECT_OVERFLOW,
                              "%.*s would need a number above %" PRIu64 ", the last that there is",
                              ONCE__STAGE_TEXT(stage->deed->name), (uint64_t)ONCE_FENCE_MAX);
}

int once__stage_grant(struct once__stage *stage)
{
    struct once__slot *slot;
    uint64_t token;
    int err = once__stage_slot(stage, ONCE_OBJECT_FENCE, &slot);

    if (err != ONCE_OK)
        return err;
    token = larger(slot->now.fence.granted, slot->now.fence.seen);
    if (once__effect_grant(&token) != ONCE__EFFECT_CHANGED)
        return reject_overflow(stage);
    slot->now.fence.granted = token;
    err = once__stage_change(stage, slot, 0);
    return err == ONCE_OK ? once__stage_number(stage, (int64_t)token) : err;
}

/* Someone who was granted a newer token, and has not used it yet, is fenced off from the older ones
 * already: so the mark is right below the newest grant. */
int once__stage_guard(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once__slot *slot;
    struct once__fence *fence;
    enum once__effect_word word;
    uint64_t mark;
    int err = once__stage_slot(stage, ONCE_OBJECT_FENCE, &slot);

    if (err != ONCE_OK)
        return err;
    fence = &slot->now.fence;
    mark = larger(fence->seen, fence->granted > 0 ? fence->granted - 1 : 0);
    word = once__effect_guard(&mark, deed->number);
    if (word == ONCE__EFFECT_OVERFLOW)
        return reject_overflow(stage);
    if (once__effect_rejected(word) && deed->number <= fence->seen)
        return once__stage_reject(
            stage, word, "%.*s has seen token %" PRIu64 ", and %" PRIu64 " is not above it",
            ONCE__STAGE_TEXT(deed->name), fence->seen, deed->number);
    if (once__effect_rejected(word))
        return once__stage_reject(
            stage, word, "%.*s has granted token %" PRIu64 ", and %" PRIu64 " is older than that",
            ONCE__STAGE_TEXT(deed->name), fence->granted, deed->number);
    ONCE_ASSERT(mark == deed->number);
    fence->seen = mark;
    err = once__stage_change(stage, slot, 0);
    return err == ONCE_OK ? once__stage_number(stage, (int64_t)fence->seen) : err;
}

/* ---- Leases ---------------------------------------------------------------------------------- */

int once__stage_lease(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    const once_ms now_ms = stage->input->now_ms;
    struct once__claim claim = {
        .owner = deed->node, .now_ms = now_ms, .until_ms = now_ms + deed->ms};
    struct once__slot *slot;
    enum once__effect_word word;
    size_t size_before;
    int err = once__stage_slot(stage, ONCE_OBJECT_LEASE, &slot);

    if (err != ONCE_OK)
        return err;
    size_before = slot->now.lease.owner.size;
    word = once__effect_lease(&slot->now.lease, claim);
    if (word == ONCE__EFFECT_OVERFLOW)
        return reject_overflow(stage);
    if (once__effect_rejected(word))
        return once__stage_reject(
            stage, word,
            "%.*s is held by another owner until %" PRId64 " ms since 1970, under token %" PRIu64,
            ONCE__STAGE_TEXT(deed->name), slot->now.lease.until_ms, slot->now.lease.token);
    if (word == ONCE__EFFECT_CHANGED)
        err = once__stage_change(stage, slot,
                                 deed->node.size > size_before ? deed->node.size - size_before : 0);
    return err == ONCE_OK ? once__stage_number(stage, (int64_t)slot->now.lease.token) : err;
}

/* Of RENEW, RELEASE and HOLD: the token is not the newest, or it was released. */
static int reject_token(struct once__stage *stage, const struct once__slot *slot)
{
    const struct once__deed *deed = stage->deed;

    if (!once__slot_exists(slot))
        return once__stage_reject(stage, ONCE__EFFECT_STALE,
                                  "%.*s was never leased: ask for it first with LEASE",
                                  ONCE__STAGE_TEXT(deed->name));
    if (slot->now.lease.token == deed->number)
        return once__stage_reject(stage, ONCE__EFFECT_STALE,
                                  "%.*s was given back under token %" PRIu64 ": ask for it again",
                                  ONCE__STAGE_TEXT(deed->name), deed->number);
    return once__stage_reject(stage, ONCE__EFFECT_STALE,
                              "the newest token of %.*s is %" PRIu64 ", not %" PRIu64,
                              ONCE__STAGE_TEXT(deed->name), slot->now.lease.token, deed->number);
}

int once__stage_renew(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once__renewal renewal = {.token = deed->number,
                                    .until_ms = stage->input->now_ms + deed->ms};
    struct once__slot *slot;
    enum once__effect_word word;
    int err = once__stage_slot(stage, ONCE_OBJECT_LEASE, &slot);

    if (err != ONCE_OK)
        return err;
    if (!once__slot_exists(slot))
        return reject_token(stage, slot);
    word = once__effect_renew(&slot->now.lease, renewal);
    if (once__effect_rejected(word))
        return reject_token(stage, slot);
    if (word == ONCE__EFFECT_CHANGED)
        err = once__stage_change(stage, slot, 0);
    return err == ONCE_OK ? once__stage_number(stage, (int64_t)deed->number) : err;
}

int once__stage_release(struct once__stage *stage)
{
    struct once__slot *slot;
    enum once__effect_word word;
    int err = once__stage_slot(stage, ONCE_OBJECT_LEASE, &slot);

    if (err != ONCE_OK)
        return err;
    if (!once__slot_exists(slot))
        return reject_token(stage, slot);
    word = once__effect_release(&slot->now.lease, stage->deed->number);
    if (once__effect_rejected(word))
        return reject_token(stage, slot);
    if (word == ONCE__EFFECT_CHANGED)
        err = once__stage_change(stage, slot, 0);
    return err == ONCE_OK ? once__stage_number(stage, word == ONCE__EFFECT_CHANGED) : err;
}

int once__stage_hold(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once__slot *slot;
    int err = once__stage_slot(stage, ONCE_OBJECT_LEASE, &slot);

    if (err != ONCE_OK)
        return err;
    if (!once__slot_exists(slot) ||
        once__effect_rejected(once__effect_hold(&slot->now.lease, deed->number)))
        return reject_token(stage, slot);
    return once__stage_number(stage, (int64_t)deed->number);
}

/* ---- Sequences ------------------------------------------------------------------------------- */

int once__stage_seq(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once__position position = {.epoch = deed->epoch, .n = deed->number};
    struct once__slot *slot;
    struct once__sequence *sequence;
    enum once__effect_word word;
    int err = once__stage_slot(stage, ONCE_OBJECT_SEQUENCE, &slot);

    if (err != ONCE_OK)
        return err;
    sequence = &slot->now.sequence;
    word = once__effect_seq(sequence, position);
    if (word == ONCE__EFFECT_OVERFLOW)
        return reject_overflow(stage);
    if (word == ONCE__EFFECT_FENCED)
        return once__stage_reject(
            stage, word,
            "%.*s is in epoch %" PRIu64 ", and %" PRIu64 " is older; its next number is %" PRIu64,
            ONCE__STAGE_TEXT(deed->name), sequence->epoch, deed->epoch, sequence->next);
    if (word == ONCE__EFFECT_GAP)
        return once__stage_reject(
            stage, word,
            "%.*s has %" PRIu64 " next in epoch %" PRIu64 ", and %" PRIu64 " of epoch %" PRIu64
            " came too early%s",
            ONCE__STAGE_TEXT(deed->name), sequence->next, sequence->epoch, deed->number,
            deed->epoch, deed->epoch > sequence->epoch ? ": a new epoch begins with 0" : "");
    if (word == ONCE__EFFECT_CHANGED)
        err = once__stage_change(stage, slot, 0);
    if (err != ONCE_OK)
        return err;
    return once__stage_word(stage,
                            once_bytes_of(word == ONCE__EFFECT_CHANGED ? "new" : "duplicate"));
}
