/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing JSON, piece by piece, for view.c. The first failure stays, and what comes behind it is
 * not written: it is asked for once, at the end.
 */
#ifndef ONCE_OBJECT_VIEW_TEXT_H
#define ONCE_OBJECT_VIEW_TEXT_H

#include <stdbool.h>

#include <once/bytes.h>
#include <once/fingerprint.h>

struct once__view {
    struct once_buf *out;
    int err;
};

bool once__utf8_check(struct once_bytes bytes);

void once__view_text(struct once__view *view, const char *text); /* as it is */
void once__view_signed(struct once__view *view, int64_t number);
void once__view_number(struct once__view *view, uint64_t number);
/* With quotes, escaped; the bytes must be UTF-8. */
void once__view_string(struct once__view *view, struct once_bytes text);
/* With quotes: RFC 4648, padded. */
void once__view_base64(struct once__view *view, struct once_bytes bytes);

/* ,"name": and then a value; name needs no escapes. */
void once__view_field(struct once__view *view, const char *name);
void once__view_signed_field(struct once__view *view, const char *name, int64_t number);
void once__view_number_field(struct once__view *view, const char *name, uint64_t number);
/* ,"name":"…", or ,"name_base64":"…" for bytes that are not UTF-8. */
void once__view_bytes_field(struct once__view *view, const char *name, struct once_bytes bytes);
/* The same; null where nothing is known. */
void once__view_known_field(struct once__view *view, const char *name, struct once_bytes bytes,
                            bool known);
/* In hexadecimal; null where there is none. */
void once__view_fingerprint_field(struct once__view *view,
                                  const struct once_fingerprint *fingerprint);

#endif
