/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper: a thread that each second writes the store's time down (INV-6), looks whether the
 * settings still keep what is acknowledged, removes what has expired, and reads the numbers that
 * are shown. It has a session of its own, and nothing waits for it: without it calls are decided as
 * before.
 */
#include "store/postgres/pg_inner.h"

#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { NUMBERS_TICKS = 5, SWEEPS_MAX = 10, SWEEP_COUNT = 1000 };

static int tick(struct once__pg_link *link, once_ms until_ms)
{
    static const char *const none[1];
    PGresult *result;
    int64_t now_ms;
    int err = once__pg_run(link, "SELECT once.tick()", 0, none, NULL, NULL, until_ms, &result);

    if (err != ONCE_OK)
        return err;
    err = once__pg_get_i64(result, 0, 0, &now_ms);
    PQclear(result);
    if (err == ONCE_OK)
        once__pg_saw_ms(link->store, now_ms);
    return err;
}

/* In short transactions, and not for long: the rest can wait for the next tick. */
static int sweep(struct once__pg_link *link, once_ms until_ms)
{
    static const char *const none[1];
    char sql[48];
    int err = ONCE_OK;

    snprintf(sql, sizeof(sql), "SELECT once.sweep(%d)", SWEEP_COUNT);
    for (size_t i = 0; i < SWEEPS_MAX && err == ONCE_OK; i++) {
        PGresult *result;
        int64_t swept;

        err = once__pg_run(link, sql, 0, none, NULL, NULL, until_ms, &result);
        if (err != ONCE_OK)
            return err;
        err = once__pg_get_i64(result, 0, 0, &swept);
        PQclear(result);
        if (err == ONCE_OK && swept < SWEEP_COUNT)
            break;
    }
    return err;
}

static int read_numbers(struct once__pg_link *link, once_ms until_ms)
{
    static const char *const none[1];
    struct once__pg_store *store = link->store;
    int64_t values[5];
    PGresult *result;
    char sql[128];
    int err;

    snprintf(sql, sizeof(sql),
             "SELECT keys, keys_open, objects, disk_size, last_fence FROM once.numbers(%d)",
             ONCE_PG_OPEN_COUNT_MAX);
    err = once__pg_run(link, sql, 0, none, NULL, NULL, until_ms, &result);
    if (err != ONCE_OK)
        return err;
    for (int i = 0; err == ONCE_OK && i < 5; i++)
        err = once__pg_get_i64(result, 0, i, &values[i]);
    PQclear(result);
    if (err != ONCE_OK)
        return err;
    pthread_mutex_lock(&store->numbers_lock);
    store->numbers.keys = (uint64_t)values[0];
    store->numbers.keys_open = (uint64_t)values[1];
    store->numbers.objects = (uint64_t)values[2];
    store->numbers.disk_size = (uint64_t)values[3];
    if ((uint64_t)values[4] > store->numbers.last_fence)
        store->numbers.last_fence = (uint64_t)values[4];
    if (store->numbers.keys < store->numbers.keys_open)
        store->numbers.keys = store->numbers.keys_open; /* an estimate of the last ANALYZE */
    pthread_mutex_unlock(&store->numbers_lock);
    return ONCE_OK;
}

static void keep(struct once__pg_store *store, unsigned ticks)
{
    struct once__pg_link *link = &store->keeper_link;
    once_ms until_ms = once__pg_clock_ms() + ONCE_PG_WAIT_MS;
    int err = ONCE_OK;

    if (!link->conn)
        err = once__pg_link_open(link, until_ms);
    else
        err = once__pg_check_durable(link, until_ms);
    if (err == ONCE_OK)
        err = tick(link, until_ms);
    if (err == ONCE_OK && ticks % NUMBERS_TICKS == 0)
        err = sweep(link, until_ms);
    if (err == ONCE_OK && ticks % NUMBERS_TICKS == 0)
        err = read_numbers(link, until_ms);
    if (err != ONCE_OK && err != ONCE_ERR_UNSUPPORTED && once__pg_useless(link))
        once__pg_link_close(link);
}

static void *keeper_run(void *user)
{
    struct once__pg_store *store = user;
    struct pollfd fd = {.fd = store->keeper_fd, .events = POLLIN};

    for (unsigned ticks = 0; !atomic_load(&store->closing); ticks++) {
        keep(store, ticks);
        (void)poll(&fd, 1, ONCE_PG_TICK_MS);
    }
    once__pg_link_close(&store->keeper_link);
    return NULL;
}

int once__pg_keeper_start(struct once__pg_store *store)
{
    store->keeper_link.store = store;
    store->keeper_link.hurries = true;
    store->keeper_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (store->keeper_fd < 0)
        return ONCE_ERR_IO;
    if (pthread_create(&store->keeper, NULL, keeper_run, store) != 0) {
        close(store->keeper_fd);
        return ONCE_ERR_MEMORY;
    }
    store->keeper_started = true;
    return ONCE_OK;
}

void once__pg_keeper_join(struct once__pg_store *store)
{
    const uint64_t one = 1;
    ssize_t written;

    if (!store->keeper_started)
        return;
    written = write(store->keeper_fd, &one, sizeof(one));
    (void)written; /* without it the keeper wakes within a second */
    pthread_join(store->keeper, NULL);
    close(store->keeper_fd);
    store->keeper_started = false;
}
