/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of the suite over RESP, on a connection of a served server (resp_link). Used by the
 * adapter of RESP, and by that of the gateway for what a gateway does not say.
 */
#ifndef ONCE_TESTS_RESP_CALLS_H
#define ONCE_TESTS_RESP_CALLS_H

#include "conformance/served.h"

extern const struct served_link resp_link;

/* self is a struct served. */
void resp_begin(void *self, const struct conformance_call *call, struct conformance_answer *ret);
void resp_complete(void *self, const struct conformance_call *call, struct conformance_answer *ret);
void resp_fail(void *self, const struct conformance_call *call, struct conformance_answer *ret);
void resp_checkpoint(void *self, const struct conformance_call *call,
                     struct conformance_answer *ret);
void resp_renew(void *self, const struct conformance_call *call, struct conformance_answer *ret);
void resp_resolve(void *self, const struct conformance_call *call, struct conformance_answer *ret);
void resp_forget(void *self, const struct conformance_call *call, struct conformance_answer *ret);
void resp_get(void *self, const struct conformance_call *call, struct conformance_answer *ret);
/* With these bytes instead of the call's fingerprint. */
void resp_begin_as(void *self, const struct conformance_call *call, struct once_bytes fingerprint,
                   struct conformance_answer *ret);
/* Who owns the operation; "" is nobody. ret_owner has CONFORMANCE_BYTES_MAX bytes. */
void resp_owner(void *self, const struct conformance_call *call, char *ret_owner);

#endif
