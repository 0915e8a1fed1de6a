/* SPDX-License-Identifier: Apache-2.0
 *
 * What happened between two records of one operation. Pure, as decide.h: records stand alone, and
 * this reads back from two of them which call made the second.
 */
#ifndef ONCE_CORE_EVENT_H
#define ONCE_CORE_EVENT_H

#include <once/store.h>

#include "core/record.h"

/* before: the record that after replaced; one that is ABSENT if there was none. 0: nothing
 * happened, the two are the same. */
enum once_event once__event_between(const struct once_record *before,
                                    const struct once_record *after);
/* Does a life of the operation begin with it? Then what came before has expired or was forgotten,
 * and is nobody's business any more. */
bool once__event_is_birth(const struct once_record *before, const struct once_record *after);

#endif
