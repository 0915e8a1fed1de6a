/* SPDX-License-Identifier: Apache-2.0
 *
 * The requests that are at the service behind the gateway and wait for how they end.
 */
#ifndef ONCE_TESTS_GATEWAY_HELD_H
#define ONCE_TESTS_GATEWAY_HELD_H

#include <pthread.h>

#include "conformance/conformance.h"
#include "conformance/gateway_wire.h"

struct held {
    struct held *next;
    char ns[CONFORMANCE_BYTES_MAX], key[CONFORMANCE_BYTES_MAX], owner[CONFORMANCE_BYTES_MAX];
    char fingerprint[CONFORMANCE_BYTES_MAX];
    uint64_t fence;
    bool over; /* its operation was ended by a call of the suite */
    struct gateway_pair pair;
};

struct held_list {
    pthread_mutex_t lock;
    struct held *first;
};

void held_init(struct held_list *list);
/* Ends them all: the service closes, and their clients are told. */
void held_release(struct held_list *list);

/* The request of this call, which was given this fence. */
void held_add(struct held_list *list, const struct conformance_call *call, uint64_t fence,
              struct gateway_pair pair);
/* The one with the call's namespace, key and fence leaves the list; the caller ends and frees it.
 * NULL: there is none. */
struct held *held_take(struct held_list *list, const struct conformance_call *call);
/* Whether the owner of the call has the operation, as far as the suite was told, and asks for the
 * same. */
bool held_by_caller(struct held_list *list, const struct conformance_call *call);
/* The call has ended the operation of its fence. */
void held_mark_over(struct held_list *list, const struct conformance_call *call);

#endif
