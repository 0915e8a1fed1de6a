/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON numbers in their RFC 8785 form, which is how ECMAScript prints a double.
 */
#ifndef ONCE_CORE_JSON_NUMBER_H
#define ONCE_CORE_JSON_NUMBER_H

#include <once/fingerprint.h>

enum { ONCE__JSON_NUMBER_SIZE_MAX = 32 }; /* the longest, "-1.2345678901234567e-308", has 24 */

struct once__json_number {
    char text[ONCE__JSON_NUMBER_SIZE_MAX];
    size_t size;
};

/* The size of the number that begins at offset (a minus or a digit), by the grammar of RFC 8259.
 * ONCE_ERR_JSON. */
ONCE_MUST_CHECK int once__json_number_scan(struct once_bytes json, size_t offset, size_t *ret_size,
                                           struct once_defect *ret_defect);

/* The canonical form of a number that the scan accepted. Depends neither on the locale nor on
 * how the thread rounds, traps or treats subnormal numbers, and leaves all of that as it was.
 * ONCE_ERR_JSON_NUMBER: beyond the range of a double, or, with ONCE_JSON_EXACT, not the decimal
 * value that the canonical form has; ret_what is then static text. */
ONCE_MUST_CHECK int once__json_number_canonical(struct once_bytes literal,
                                                enum once_json_numbers numbers,
                                                struct once__json_number *ret_number,
                                                const char **ret_what);

#endif
