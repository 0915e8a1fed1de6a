/* SPDX-License-Identifier: Apache-2.0
 *
 * Values: operations that are completed as soon as they are begun, for hosts that speak the
 * protocol of a key-value store. Pure, as decide.h. A value keeps every invariant of a record, so
 * stores need to know nothing of it; what is under way is never overwritten (INV-4).
 */
#ifndef ONCE_CORE_VALUE_H
#define ONCE_CORE_VALUE_H

#include <once/store.h>

#include "core/decide.h"

struct once_value {
    struct once_bytes bytes;
    enum once_when when;
    bool keep_ttl;
    once_ms ttl_ms;   /* 0: until_ms says; from 1 to ONCE_RETENTION_MS_MAX */
    once_ms until_ms; /* 0: for ONCE_RETENTION_MS_MAX */
};

/* What does not need the record. ONCE_ERR_INVALID, ONCE_ERR_FULL. */
ONCE_MUST_CHECK int once__value_check(const struct once_value *value,
                                      struct once_defect *ret_defect);
/* The time that is left. ONCE_ERR_INVALID: none is. */
ONCE_MUST_CHECK int once__value_ttl(const struct once_value *value, once_ms now_ms,
                                    once_ms *ret_ttl_ms, struct once_defect *ret_defect);

/* OK (set), NOTFOUND (the condition does not hold), BUSY, DOUBT. ttl_ms is that of once__value_ttl.
 */
struct once_decision once__decide_set(const struct once_record *rec, const struct once_value *value,
                                      once_ms ttl_ms, struct once_moment at);
/* OK, NOTFOUND, BUSY, DOUBT. */
struct once_decision once__decide_expire(const struct once_record *rec, once_ms ttl_ms,
                                         once_ms now_ms);

#endif
