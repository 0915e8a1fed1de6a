/* SPDX-License-Identifier: Apache-2.0
 *
 * What service.c and service_check.c share.
 */
#ifndef ONCE_SERVER_SERVICE_INNER_H
#define ONCE_SERVER_SERVICE_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/room.h"
#include "server/service.h"

struct once__service {
    struct once__metrics *metrics;
    struct once__access *access;
    struct once__log *log;
    struct once__room *room;
    struct once_store *_Atomic store;
    _Atomic bool shared; /* set before store is */
    pthread_t timer;
    _Alignas(64) _Atomic size_t submitted; /* by hosts */
    _Alignas(64) _Atomic size_t told;      /* and their done was called */
};

/* The audit line of a call's outcome, if it has one: reply is there. */
void once__service_audit_end(struct once__service *service, const struct once__call *call);

#endif
