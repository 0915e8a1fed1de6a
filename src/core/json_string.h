/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON strings in their RFC 8785 form, and the order of member names.
 */
#ifndef ONCE_CORE_JSON_STRING_H
#define ONCE_CORE_JSON_STRING_H

#include <once/bytes.h>

/* Reads the string whose opening quote is at *offset, appends its canonical form with both quotes
 * to out, and moves *offset behind it. On failure out may have grown. ONCE_ERR_JSON, ONCE_ERR_FULL,
 * ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__json_string(struct once_bytes json, size_t *offset, struct once_buf *out,
                                      struct once_defect *ret_defect);

/* The order of RFC 8785, by UTF-16 code units, of two names in canonical form: <0, 0 or >0. */
int once__json_name_compare(struct once_bytes a, struct once_bytes b);

#endif
