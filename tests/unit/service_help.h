/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the service: a store on the test disk with a clock of the test's, a service in front
 * of it, and guests: calls that know when they were told.
 */
#ifndef ONCE_TESTS_SERVICE_HELP_H
#define ONCE_TESTS_SERVICE_HELP_H

#include "engine_help.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "server/service.h"

enum { PATIENCE_S = 60 }; /* a condition that does not come true until then never does */

struct house {
    struct life life;
    struct once__metrics *metrics;
    struct once__service *service;
    struct once__config *config;
    struct once__identity admin;
    _Atomic unsigned told_count;
};

struct guest {
    struct once__call call; /* first */
    struct house *house;
    char key[LIFE_KEY_SIZE];
    _Atomic unsigned told;
    _Atomic unsigned told_at; /* the how manieth of all */
    enum once_word word;      /* these after told */
    uint64_t fence;
};

static inline struct once__config *house_config(const char *text)
{
    struct once__config_error error = {""};
    struct once__config *config = NULL;

    if (once__config_parse("test", once_bytes_of(text), &config, &error) != ONCE_OK)
        fail_msg("%s", error.text);
    return config;
}

/* By hand (nothing is written or told but in HOUSE_AWAIT), or with the store's threads. */
static inline void house_open(struct house *house, bool by_hand)
{
    struct once__service_setup setup = {.metrics = NULL};

    memset(house, 0, sizeof(*house));
    life_prepare(&house->life, LIFE_DISK_SIZE);
    house->life.with_threads = !by_hand;
    life_open(&house->life);
    house->config = house_config("dir = /nowhere\n");
    house->admin = (struct once__identity){.known = true, .role = ONCE__ROLE_ADMIN};
    assert_int_equal(once__metrics_new(&house->metrics), ONCE_OK);
    setup.metrics = house->metrics;
    assert_int_equal(once__service_new(&setup, &house->service), ONCE_OK);
    once__service_open(house->service, house->life.store);
}

static inline bool patient(time_t *began)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (*began == 0)
        *began = now.tv_sec;
    sched_yield();
    return now.tv_sec - *began < PATIENCE_S;
}

/* By hand: what was decided is written, and told. */
static inline void house_tell(struct house *house)
{
    if (house->life.with_threads)
        return;
    life_write(&house->life);
    life_work(&house->life);
}

/* By hand: everything that follows from what was submitted, and nothing that needs time. */
static inline void house_settle(struct house *house)
{
    for (int i = 0; i < 4; i++)
        house_tell(house);
}

/* Waits until it is so; what is submitted by hand is written meanwhile. */
#define HOUSE_AWAIT(house, condition)                                                              \
    do {                                                                                           \
        time_t began_ = 0;                                                                         \
        while (!(condition)) {                                                                     \
            house_tell(house);                                                                     \
            if (!patient(&began_))                                                                 \
                fail_msg("never: %s", #condition);                                                 \
        }                                                                                          \
    } while (0)

static inline void house_close(struct house *house)
{
    HOUSE_AWAIT(house, once__service_pending(house->service) == 0);
    assert_int_equal(once__service_parked(house->service), 0);
    assert_int_equal(once__metrics_read(house->metrics, ONCE__PARKED), 0);
    once__service_free(house->service);
    once__metrics_free(house->metrics);
    once__config_unref(house->config);
    life_end(&house->life);
}

static inline void guest_told(struct once__call *call)
{
    struct guest *guest = (struct guest *)(void *)call;

    guest->word = call->op.reply.word;
    guest->fence = call->op.reply.fence;
    guest->told_at = ++guest->house->told_count;
    guest->told++;
}

/* A call that was checked and is not submitted yet. */
static inline void guest_prepare(struct house *house, struct guest *guest, struct once__call call,
                                 const char *key)
{
    int err;

    *guest = (struct guest){.call = call, .house = house};
    snprintf(guest->key, sizeof(guest->key), "%s", key);
    if (guest->call.op.ns.size == 0)
        guest->call.op.ns = once_bytes_of("test");
    guest->call.op.key = once_bytes_of(guest->key);
    guest->call.done = guest_told;
    err = once__service_check(house->service, house->config, &house->admin, &guest->call);
    if (err != ONCE_OK)
        fail_msg("%s: %s", once_err_name(err), guest->call.op.reply.what);
}

static inline void guest_submit(struct house *house, struct guest *guest, struct once__call call,
                                const char *key)
{
    struct once__call *submitted = &guest->call;

    guest_prepare(house, guest, call, key);
    once__service_submit(house->service, &submitted, 1);
}

static inline void guest_release(struct guest *guest)
{
    assert_int_equal(guest->told, 1);
    once_reply_release(&guest->call.op.reply);
}

/* Begins and is told; with a wait it may be parked for ever so long. */
static inline void guest_begin(struct house *house, struct guest *guest, const char *key,
                               once_ms wait_ms)
{
    guest_submit(house, guest,
                 (struct once__call){.op = {.call = ONCE_CALL_BEGIN}, .wait_ms = wait_ms}, key);
}

/* Submits one call, waits for it, and gives its word. */
static inline enum once_word house_call(struct house *house, struct once_op op, const char *key)
{
    struct guest guest;

    guest_submit(house, &guest, (struct once__call){.op = op}, key);
    HOUSE_AWAIT(house, guest.told == 1);
    /* done comes before the call is counted as told. */
    assert_int_equal(guest.call.op.reply.err, ONCE_OK);
    guest_release(&guest);
    return guest.word;
}

/* Begins, is told to execute, and gives the fence. */
static inline uint64_t house_start(struct house *house, const char *key, once_ms lease_ms)
{
    struct guest guest;

    guest_submit(house, &guest,
                 (struct once__call){.op = {.call = ONCE_CALL_BEGIN, .lease_ms = lease_ms}}, key);
    HOUSE_AWAIT(house, guest.told == 1);
    assert_int_equal(guest.call.op.reply.err, ONCE_OK);
    assert_int_equal(guest.word, ONCE_EXECUTE);
    guest_release(&guest);
    return guest.fence;
}

static inline enum once_word house_fail(struct house *house, const char *key, uint64_t fence)
{
    return house_call(house, (struct once_op){.call = ONCE_CALL_FAIL, .fence = fence}, key);
}

static inline enum once_word house_complete(struct house *house, const char *key, uint64_t fence,
                                            const char *result)
{
    return house_call(house,
                      (struct once_op){.call = ONCE_CALL_COMPLETE,
                                       .fence = fence,
                                       .code = 200,
                                       .result = once_bytes_of(result)},
                      key);
}

#endif
