/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing what an apply came to, as apply.h describes it; once_results_next and once_rejection_read
 * read it. There is one form only, without blanks, because it is kept and given again byte by byte:
 *
 *     [900,"new",3]
 *     {"rejected":2,"word":"BELOW_MIN","reason":"the counter would fall below its minimum"}
 *
 * Words are of A-Z a-z 0-9 _ - . : and not empty. A reason is printable ASCII without quotes and
 * backslashes: any other byte of it is written as '?', so that no escapes are needed, and what is
 * between the quotes is the reason.
 *
 * Each function appends all it has to, or on error (ONCE_ERR_FULL, ONCE_ERR_MEMORY) nothing.
 */
#ifndef ONCE_CORE_DEED_RESULT_H
#define ONCE_CORE_DEED_RESULT_H

#include <stdint.h>

#include <once/bytes.h>

/* Begin, then a number or a word for each effect, then end. */
ONCE_MUST_CHECK int once__results_begin(struct once_buf *out);
ONCE_MUST_CHECK int once__results_number(struct once_buf *out, int64_t number);
ONCE_MUST_CHECK int once__results_word(struct once_buf *out, struct once_bytes word);
ONCE_MUST_CHECK int once__results_end(struct once_buf *out);

/* effect is its number, from 1. */
ONCE_MUST_CHECK int once__rejection_write(struct once_buf *out, uint32_t effect, const char *word,
                                          const char *reason);

#endif
