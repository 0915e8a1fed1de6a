/* SPDX-License-Identifier: Apache-2.0
 *
 * Fingerprints of requests (K3, INV-5): SHA-256 over these, in this order. A number is 8 bytes, the
 * most significant first; a field is its size as a number and then its bytes.
 *
 *     field   "once.fingerprint.1"
 *     field   method
 *     field   path
 *     field   query
 *     number  how many headers follow
 *     fields  name in lower case, value; sorted by name, equal names in the order given
 *     number  form of the body: 0 raw, 1 canonical JSON
 *     bytes   the body, to the end
 *
 * Everything before the body can be told apart again, so two requests share these bytes only when
 * they are the same request. The layout is a promise: records on disk hold its hashes. A change of
 * it needs a new tag and makes retries that straddle the upgrade a MISMATCH.
 */
#include <once/fingerprint.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/defect.h"
#include "base/sha256.h"
#include "core/json_canon.h"

#include <stdlib.h>
#include <string.h>

static const char fingerprint_tag[] = "once.fingerprint.1";

enum stage { STAGE_HEADERS, STAGE_BODY, STAGE_ENDED };

/* A header in header_text: its name, then its value. */
struct header {
    size_t offset;
    size_t name_size;
    size_t value_size;
    struct once_bytes name; /* set for sorting, when header_text moves no more */
};

struct once_fingerprinter {
    struct once__sha256 hash;
    enum stage stage;
    enum once_body_form body_form;
    int err; /* the first error: it stays */
    struct once_buf header_text;
    struct once_buf headers;   /* struct header, in the order given */
    struct once_buf json_body; /* a JSON body as it came */
};

_Static_assert(ONCE_FINGERPRINT_SIZE == (int)ONCE__SHA256_SIZE, "a fingerprint is a SHA-256");

static bool is_none(const struct once_fingerprint *fingerprint)
{
    uint8_t all = 0;

    for (size_t i = 0; i < sizeof(fingerprint->bytes); i++)
        all |= fingerprint->bytes[i];
    return all == 0;
}

/* A hash of zeros would mean "no fingerprint" and match a request that has none. Nobody has ever
 * seen one; the guard costs nothing. */
static struct once_fingerprint from_digest(const struct once__sha256_digest *digest)
{
    struct once_fingerprint fingerprint;

    memcpy(fingerprint.bytes, digest->bytes, sizeof(fingerprint.bytes));
    if (is_none(&fingerprint))
        fingerprint.bytes[0] = 1;
    return fingerprint;
}

int once_fingerprint_from_bytes(struct once_bytes bytes, struct once_fingerprint *ret_fingerprint)
{
    struct once_fingerprint fingerprint = {{0}};
    struct once__sha256_digest digest;
    int err;

    if (!ret_fingerprint || !once__bytes_readable(bytes))
        return ONCE_ERR_INVALID;
    if (bytes.size == ONCE_FINGERPRINT_SIZE)
        memcpy(fingerprint.bytes, bytes.data, ONCE_FINGERPRINT_SIZE);
    if (bytes.size > 0 && is_none(&fingerprint)) {
        err = once__sha256_of(bytes, &digest);
        if (err != ONCE_OK)
            return err;
        fingerprint = from_digest(&digest);
    }
    *ret_fingerprint = fingerprint;
    return ONCE_OK;
}

int once_fingerprinter_new(const struct once_fingerprint_spec *spec,
                           struct once_fingerprinter **ret_fingerprinter)
{
    struct once_fingerprinter *self;
    int err;

    if (!spec || !ret_fingerprinter || !once__bytes_readable(spec->method) ||
        !once__bytes_readable(spec->path) || !once__bytes_readable(spec->query))
        return ONCE_ERR_INVALID;
    if (spec->body_form != ONCE_BODY_RAW && spec->body_form != ONCE_BODY_JSON)
        return ONCE_ERR_INVALID;
    self = calloc(1, sizeof(*self));
    if (!self)
        return ONCE_ERR_MEMORY;
    self->stage = STAGE_HEADERS;
    self->body_form = spec->body_form;
    once_buf_init(&self->header_text, ONCE_FINGERPRINT_HEADERS_SIZE_MAX);
    /* A header has a name of one byte at least. */
    once_buf_init(&self->headers, ONCE_FINGERPRINT_HEADERS_SIZE_MAX * sizeof(struct header));
    once_buf_init(&self->json_body, ONCE_JSON_SIZE_MAX);

    err = once__sha256_init(&self->hash);
    if (err == ONCE_OK)
        err = once__sha256_add_sized(&self->hash, once_bytes_of(fingerprint_tag));
    if (err == ONCE_OK)
        err = once__sha256_add_sized(&self->hash, spec->method);
    if (err == ONCE_OK)
        err = once__sha256_add_sized(&self->hash, spec->path);
    if (err == ONCE_OK)
        err = once__sha256_add_sized(&self->hash, spec->query);
    if (err == ONCE_OK) {
        *ret_fingerprinter = self;
        self = NULL;
    }
    once_fingerprinter_free(self);
    return err;
}

void once_fingerprinter_free(struct once_fingerprinter *fingerprinter)
{
    if (!fingerprinter)
        return;
    once__sha256_release(&fingerprinter->hash);
    once_buf_release(&fingerprinter->header_text);
    once_buf_release(&fingerprinter->headers);
    once_buf_release(&fingerprinter->json_body);
    free(fingerprinter);
}

static void fold_case(uint8_t *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] >= 'A' && text[i] <= 'Z')
            text[i] = (uint8_t)(text[i] - 'A' + 'a');
    }
}

static int add_header(struct once_fingerprinter *self, struct once_bytes name,
                      struct once_bytes value)
{
    struct header header = {
        .offset = self->header_text.size, .name_size = name.size, .value_size = value.size};
    int err;

    if (self->stage != STAGE_HEADERS || name.size == 0 || !once__bytes_readable(name) ||
        !once__bytes_readable(value))
        return ONCE_ERR_INVALID;
    err = once_buf_append(&self->header_text, name.data, name.size);
    if (err != ONCE_OK)
        return err;
    fold_case(self->header_text.data + header.offset, name.size);
    err = once_buf_append(&self->header_text, value.data, value.size);
    if (err != ONCE_OK)
        return err;
    return once_buf_append(&self->headers, &header, sizeof(header));
}

int once_fingerprinter_header(struct once_fingerprinter *fingerprinter, struct once_bytes name,
                              struct once_bytes value)
{
    if (!fingerprinter)
        return ONCE_ERR_INVALID;
    if (fingerprinter->err == ONCE_OK)
        fingerprinter->err = add_header(fingerprinter, name, value);
    return fingerprinter->err;
}

/* By name, then as given: a total order, so that it does not matter whether the sort is stable. */
static int compare_headers(const void *a_header, const void *b_header)
{
    const struct header *a = a_header;
    const struct header *b = b_header;
    int order = once__bytes_compare(a->name, b->name);

    return order != 0 ? order : (a->offset > b->offset) - (a->offset < b->offset);
}

/* No more headers: they go into the hash, and the form of the body. */
static int end_headers(struct once_fingerprinter *self)
{
    struct header *headers = (struct header *)(void *)self->headers.data;
    size_t count = self->headers.size / sizeof(*headers);
    const uint8_t *text = self->header_text.data;
    int err = once__sha256_add_number(&self->hash, count);

    ONCE_ASSERT(self->stage == STAGE_HEADERS);
    for (size_t i = 0; i < count; i++)
        headers[i].name = (struct once_bytes){text + headers[i].offset, headers[i].name_size};
    if (count > 1)
        qsort(headers, count, sizeof(*headers), compare_headers);
    for (size_t i = 0; i < count && err == ONCE_OK; i++) {
        struct once_bytes value = {headers[i].name.data + headers[i].name_size,
                                   headers[i].value_size};

        err = once__sha256_add_sized(&self->hash, headers[i].name);
        if (err == ONCE_OK)
            err = once__sha256_add_sized(&self->hash, value);
    }
    if (err == ONCE_OK)
        err = once__sha256_add_number(&self->hash, (uint64_t)self->body_form);
    self->stage = STAGE_BODY;
    return err;
}

static int add_body(struct once_fingerprinter *self, struct once_bytes piece)
{
    int err = ONCE_OK;

    if (self->stage == STAGE_ENDED || !once__bytes_readable(piece))
        return ONCE_ERR_INVALID;
    if (self->stage == STAGE_HEADERS)
        err = end_headers(self);
    if (err != ONCE_OK)
        return err;
    if (self->body_form == ONCE_BODY_RAW)
        return once__sha256_add(&self->hash, piece);
    return once_buf_append(&self->json_body, piece.data, piece.size);
}

int once_fingerprinter_body(struct once_fingerprinter *fingerprinter, struct once_bytes piece)
{
    if (!fingerprinter)
        return ONCE_ERR_INVALID;
    if (fingerprinter->err == ONCE_OK)
        fingerprinter->err = add_body(fingerprinter, piece);
    return fingerprinter->err;
}

/* Two amounts that round to one double would be one request: exact numbers only. */
static int add_canonical(struct once_fingerprinter *self, struct once_defect *ret_defect)
{
    struct once_buf canonical;
    int err;

    once_buf_init(&canonical, (size_t)ONCE_JSON_SIZE_MAX * ONCE__JSON_CANON_GROWTH_MAX);
    err = once_json_canonical(once_buf_bytes(&self->json_body), ONCE_JSON_EXACT, &canonical,
                              ret_defect);
    if (err == ONCE_OK)
        err = once__sha256_add(&self->hash, once_buf_bytes(&canonical));
    once_buf_release(&canonical);
    return err;
}

int once_fingerprinter_finish(struct once_fingerprinter *fingerprinter,
                              struct once_fingerprint *ret_fingerprint,
                              struct once_defect *ret_defect)
{
    struct once_defect defect = {.offset = 0, .what = NULL};
    struct once__sha256_digest digest;
    int err;

    if (!fingerprinter || !ret_fingerprint)
        return once__defect(ONCE_ERR_INVALID, 0, once_err_text(ONCE_ERR_INVALID), ret_defect);
    err = once_fingerprinter_body(fingerprinter, (struct once_bytes){NULL, 0});
    if (err == ONCE_OK && fingerprinter->body_form == ONCE_BODY_JSON)
        err = add_canonical(fingerprinter, &defect);
    if (err == ONCE_OK)
        err = once__sha256_finish(&fingerprinter->hash, &digest);
    fingerprinter->stage = STAGE_ENDED;
    fingerprinter->err = err;
    if (err != ONCE_OK)
        return once__defect(err, defect.offset, defect.what ? defect.what : once_err_text(err),
                            ret_defect);
    *ret_fingerprint = from_digest(&digest);
    return ONCE_OK;
}
