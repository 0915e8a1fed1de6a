/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparing borrowed bytes. Kept apart from the buffers because the prover reads this file.
 */
#include "base/bytes.h"

bool once__bytes_equal(struct once_bytes a, struct once_bytes b)
{
    if (a.size != b.size)
        return false;
    /*@ loop invariant bound: 0 <= i <= a.size;
      @ loop invariant same: \forall integer j; 0 <= j < i ==> a.data[j] == b.data[j];
      @ loop assigns i;
      @ loop variant a.size - i;
      @*/
    for (size_t i = 0; i < a.size; i++) {
        if (a.data[i] != b.data[i])
            return false;
    }
    return true;
}
