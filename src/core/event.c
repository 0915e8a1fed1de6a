/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads back from two records which call made the second. What tells them apart: only begin and
 * resolve take a new fence; only a checkpoint changes the point; a life begins with attempt 1.
 */
#include "core/event.h"

#include <string.h>

#include "base/bytes.h"

const char *once_event_name(enum once_event event)
{
    static const char *const names[] = {
        [ONCE_EVENT_BEGAN] = "BEGAN",
        [ONCE_EVENT_TAKEN_OVER] = "TAKEN_OVER",
        [ONCE_EVENT_RENEWED] = "RENEWED",
        [ONCE_EVENT_CHECKPOINT] = "CHECKPOINT",
        [ONCE_EVENT_DOUBT] = "DOUBT",
        [ONCE_EVENT_COMPLETED] = "COMPLETED",
        [ONCE_EVENT_FAILED] = "FAILED",
        [ONCE_EVENT_RESOLVED_DONE] = "RESOLVED_DONE",
        [ONCE_EVENT_RESOLVED_NOT_DONE] = "RESOLVED_NOT_DONE",
        [ONCE_EVENT_FORGOTTEN] = "FORGOTTEN",
        [ONCE_EVENT_APPLIED] = "APPLIED",
        [ONCE_EVENT_RETAINED] = "RETAINED",
        [ONCE_EVENT_KEPT] = "KEPT",
    };

    if ((unsigned)event >= sizeof(names) / sizeof(names[0]) || !names[event])
        return "UNKNOWN";
    return names[event];
}

static bool same_answer(const struct once_record *a, const struct once_record *b)
{
    return a->code == b->code && once__bytes_equal(a->result, b->result);
}

static bool same_point(const struct once_record *a, const struct once_record *b)
{
    return once__bytes_equal(a->point, b->point) && once__bytes_equal(a->data, b->data);
}

static bool is_open(const struct once_record *rec)
{
    return rec->state == ONCE_STATE_STARTED || rec->state == ONCE_STATE_DOUBT;
}

static enum once_event opened(const struct once_record *before, const struct once_record *after)
{
    if (before->fence != after->fence || before->state == ONCE_STATE_ABSENT)
        return is_open(before) ? ONCE_EVENT_TAKEN_OVER : ONCE_EVENT_BEGAN;
    if (!same_point(before, after))
        return ONCE_EVENT_CHECKPOINT;
    if (before->state != after->state)
        return ONCE_EVENT_DOUBT;
    return before->lease_end_ms != after->lease_end_ms ? ONCE_EVENT_RENEWED : (enum once_event)0;
}

static enum once_event completed(const struct once_record *before, const struct once_record *after)
{
    if (is_open(before))
        return before->fence == after->fence ? ONCE_EVENT_COMPLETED : ONCE_EVENT_RESOLVED_DONE;
    if (before->state != ONCE_STATE_COMPLETED || before->fence != after->fence ||
        !same_answer(before, after))
        return ONCE_EVENT_APPLIED;
    return before->expires_ms != after->expires_ms ? ONCE_EVENT_RETAINED : (enum once_event)0;
}

enum once_event once__event_between(const struct once_record *before,
                                    const struct once_record *after)
{
    switch (after->state) {
    case ONCE_STATE_ABSENT:
        return before->state == ONCE_STATE_ABSENT ? (enum once_event)0 : ONCE_EVENT_FORGOTTEN;
    case ONCE_STATE_STARTED:
    case ONCE_STATE_DOUBT:
        return opened(before, after);
    case ONCE_STATE_COMPLETED:
        return completed(before, after);
    case ONCE_STATE_FAILED:
        if (before->state == ONCE_STATE_FAILED && before->fence == after->fence)
            return (enum once_event)0;
        return is_open(before) && before->fence != after->fence ? ONCE_EVENT_RESOLVED_NOT_DONE
                                                                : ONCE_EVENT_FAILED;
    }
    return ONCE_EVENT_KEPT;
}

bool once__event_is_birth(const struct once_record *before, const struct once_record *after)
{
    if (before->state == ONCE_STATE_ABSENT)
        return true;
    return after->attempt == 1 && !is_open(before) && before->fence != after->fence &&
           after->state != ONCE_STATE_ABSENT;
}
