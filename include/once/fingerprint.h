/* SPDX-License-Identifier: Apache-2.0
 *
 * Fingerprints: what makes two requests under one key the same request.
 */
#ifndef ONCE_FINGERPRINT_H
#define ONCE_FINGERPRINT_H

#include <stdbool.h>

#include <once/bytes.h>
#include <once/limits.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 32 bytes. All zero is "no fingerprint": equal only to no fingerprint. */
struct once_fingerprint {
    uint8_t bytes[ONCE_FINGERPRINT_SIZE];
};

/* What a host that takes a fingerprint as bytes (RESP's FP, HTTP's fingerprint) makes of them: no
 * bytes are no fingerprint, 32 bytes are taken as they are, anything else is hashed with SHA-256,
 * and so are 32 zeros, which would otherwise mean no fingerprint. ONCE_ERR_INVALID,
 * ONCE_ERR_CRYPTO. */
ONCE_API ONCE_MUST_CHECK int once_fingerprint_from_bytes(struct once_bytes bytes,
                                                         struct once_fingerprint *ret_fingerprint);

/* The fingerprint of an HTTP request, fed piece by piece by one thread at a time. After an error
 * every later call gives that error too: half a request has no fingerprint. */
struct once_fingerprinter;

enum once_body_form {
    ONCE_BODY_RAW = 0, /* byte for byte */
    ONCE_BODY_JSON = 1 /* RFC 8785 canonical: white space and member order make no difference */
};

/* Method, path and query count always, byte for byte; no query and an empty one are the same. */
struct once_fingerprint_spec {
    struct once_bytes method;
    struct once_bytes path;
    struct once_bytes query;
    enum once_body_form body_form;
};

/* Starts a fingerprint; what spec points at is not needed afterwards. The caller frees it with
 * _free. ONCE_ERR_INVALID, ONCE_ERR_MEMORY, ONCE_ERR_CRYPTO. */
ONCE_API ONCE_MUST_CHECK int once_fingerprinter_new(const struct once_fingerprint_spec *spec,
                                                    struct once_fingerprinter **ret_fingerprinter);

/* Adds a header that counts; headers that are not added do not. Names are folded to lower case,
 * values count byte for byte. The order of different headers makes no difference; the values of one
 * that comes several times count in the order given. All headers come before the first piece of
 * body (else ONCE_ERR_INVALID) and have ONCE_FINGERPRINT_HEADERS_SIZE_MAX bytes in all (else
 * ONCE_ERR_FULL). */
ONCE_API ONCE_MUST_CHECK int once_fingerprinter_header(struct once_fingerprinter *fingerprinter,
                                                       struct once_bytes name,
                                                       struct once_bytes value);

/* Adds a piece of the body; where the pieces are cut makes no difference. A raw body of any size
 * streams through; a JSON body is kept until the end and has at most ONCE_JSON_SIZE_MAX bytes (else
 * ONCE_ERR_FULL). */
ONCE_API ONCE_MUST_CHECK int once_fingerprinter_body(struct once_fingerprinter *fingerprinter,
                                                     struct once_bytes piece);

/* Ends it; only _free may follow. Never gives "no fingerprint". A JSON body that is malformed (an
 * empty one is) or that holds a number which a double would not keep gives its error and defect:
 * the caller refuses the request, or starts again with ONCE_BODY_RAW. ret_defect may be NULL. */
ONCE_API ONCE_MUST_CHECK int once_fingerprinter_finish(struct once_fingerprinter *fingerprinter,
                                                       struct once_fingerprint *ret_fingerprint,
                                                       struct once_defect *ret_defect);

/* Accepts NULL. */
ONCE_API void once_fingerprinter_free(struct once_fingerprinter *fingerprinter);

enum once_json_numbers {
    ONCE_JSON_EXACT = 0,  /* refuse a number that a double would not keep to the digit */
    ONCE_JSON_RFC8785 = 1 /* round as RFC 8785 says: two amounts may become one */
};

/* Appends the RFC 8785 form of one JSON text to out, which the text may not lie in; on failure out
 * holds what it held. ONCE_ERR_INVALID, ONCE_ERR_JSON, ONCE_ERR_JSON_NUMBER,
 * ONCE_ERR_JSON_DUPLICATE, ONCE_ERR_FULL (size, depth, or out), ONCE_ERR_MEMORY; ret_defect (may be
 * NULL) on failure only. */
ONCE_API ONCE_MUST_CHECK int once_json_canonical(struct once_bytes json,
                                                 enum once_json_numbers numbers,
                                                 struct once_buf *out,
                                                 struct once_defect *ret_defect);

#ifdef __cplusplus
}
#endif
#endif
