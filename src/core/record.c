/* SPDX-License-Identifier: Apache-2.0
 *
 * What time makes of a record, and when two fingerprints are one. The prover reads this file.
 */
#include "core/record.h"

bool once__fingerprint_equal(const struct once_fingerprint *a, const struct once_fingerprint *b)
{
    /*@ loop invariant bound: 0 <= i <= ONCE_FINGERPRINT_SIZE;
      @ loop invariant same: \forall integer j; 0 <= j < i ==> a->bytes[j] == b->bytes[j];
      @ loop assigns i;
      @ loop variant ONCE_FINGERPRINT_SIZE - i;
      @*/
    for (int i = 0; i < ONCE_FINGERPRINT_SIZE; i++) {
        if (a->bytes[i] != b->bytes[i])
            return false;
    }
    return true;
}

enum once_state once__state_at(const struct once_record *rec, once_ms now_ms)
{
    switch (rec->state) {
    case ONCE_STATE_STARTED:
        return now_ms >= rec->lease_end_ms ? ONCE_STATE_DOUBT : ONCE_STATE_STARTED;
    case ONCE_STATE_COMPLETED:
    case ONCE_STATE_FAILED:
        return now_ms >= rec->expires_ms ? ONCE_STATE_ABSENT : rec->state;
    case ONCE_STATE_ABSENT:
    case ONCE_STATE_DOUBT:
        break;
    }
    return rec->state;
}
