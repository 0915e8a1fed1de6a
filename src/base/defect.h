/* SPDX-License-Identifier: Apache-2.0
 *
 * Telling what was wrong in an input and where.
 */
#ifndef ONCE_BASE_DEFECT_H
#define ONCE_BASE_DEFECT_H

#include <once/bytes.h>

/* Fills ret_defect unless it is NULL, and returns err. what is static text. */
static inline int once__defect(int err, size_t offset, const char *what,
                               struct once_defect *ret_defect)
{
    if (ret_defect)
        *ret_defect = (struct once_defect){.offset = offset, .what = what};
    return err;
}

#endif
