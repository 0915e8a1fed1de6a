/* SPDX-License-Identifier: Apache-2.0
 *
 * What HTTP bodies and queries may say, declared as data: the same tables read requests strictly
 * and describe themselves in the OpenAPI document.
 *
 * Reading is strict because a request that means something else than it says is worse than a
 * refused one: a field that is not known, is there twice, or is of another type is an error that
 * names the field.
 */
#ifndef ONCE_SERVER_HTTP_JSON_H
#define ONCE_SERVER_HTTP_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <once/bytes.h>
#include <once/limits.h>
#include <once/store.h>

enum { ONCE__HTTP_FIELDS_MAX = 8, ONCE__HTTP_DEFECT_SIZE = 256 };

enum once__field_kind {
    ONCE__FIELD_TEXT,   /* a string */
    ONCE__FIELD_BYTES,  /* a string under its name, or base64 under name_base64 */
    ONCE__FIELD_BASE64, /* base64 only; the name says so itself */
    ONCE__FIELD_NUMBER, /* a whole number, min to max */
    ONCE__FIELD_CURSOR, /* a decimal number of 64 bits, as a string */
    ONCE__FIELD_BOOL,
    ONCE__FIELD_WORD, /* one of words */
    ONCE__FIELD_DEEDS /* [["ADD","acct:42",-100],…] */
};

struct once__http_field {
    const char *name;
    enum once__field_kind kind;
    bool required;
    int64_t min, max;         /* NUMBER; of strings max is their size in bytes, 0: no bound here */
    const char *const *words; /* WORD: ends with NULL */
    const char *text;         /* what it means, for the OpenAPI document */
};

struct once__http_fields {
    const char *name; /* "BeginRequest": what the OpenAPI document calls it */
    const struct once__http_field *fields;
    size_t count;
};

struct once__http_value {
    bool given;
    int64_t number; /* NUMBER; WORD: which; BOOL: 0 or 1 */
    uint64_t cursor;
    struct once_bytes bytes;
};

/* What a body or a query said; values stand in the order of the table. Bytes are borrowed from
 * it. */
struct once__http_said {
    struct once__http_value values[ONCE__HTTP_FIELDS_MAX];
    struct once_do *dos; /* DEEDS */
    size_t do_count;
    struct once_bytes *words; /* inner, behind dos */
    size_t word_count;
    json_t *root;
    struct once__http_memory *memory; /* what was decoded */
};

/* What was wrong: the text names the field, or the place in the text that is no JSON. */
struct once__http_defect {
    char field[64]; /* "" when it is not about one */
    char text[ONCE__HTTP_DEFECT_SIZE];
};

/* Reads a body; no bytes at all are an empty object. Whether it succeeds or not, release what it
 * has said. ONCE_ERR_INVALID (ret_defect says what), ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__http_body_read(const struct once__http_fields *fields,
                                         struct once_bytes body, struct once__http_said *ret_said,
                                         struct once__http_defect *ret_defect);

/* One member of a query, decoded already. fields may be NULL: none is known. said is all zero
 * before the first. ONCE_ERR_INVALID, ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__http_query_add(const struct once__http_fields *fields,
                                         struct once_bytes name, struct once_bytes value,
                                         struct once__http_said *said,
                                         struct once__http_defect *ret_defect);

void once__http_said_release(struct once__http_said *said);

/* RFC 4648, padded, without blanks; out has room for size / 4 * 3 bytes. False: it is not. */
bool once__base64_decode(struct once_bytes text, uint8_t *out, size_t *ret_size);

/* %41 is A. out has room for text.size bytes. False: a % without two hex digits behind it. */
bool once__percent_decode(struct once_bytes text, uint8_t *out, size_t *ret_size);

#endif
