/* SPDX-License-Identifier: Apache-2.0
 *
 * What the inside of Once knows about canonical JSON beyond fingerprint.h.
 */
#ifndef ONCE_CORE_JSON_CANON_H
#define ONCE_CORE_JSON_CANON_H

#include <once/fingerprint.h>

/* How many times larger than its source a canonical form can be. The worst is a list of 1e20, five
 * bytes each with the comma, which become 22. */
enum { ONCE__JSON_CANON_GROWTH_MAX = 5 };

#endif
