/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions to look with: lists and objects are read on them, on the caller's thread, so that a look
 * keeps no lane waiting. Up to ONCE_PG_LOOKS_MAX at once; who finds none free waits.
 *
 * A row that can be read is committed, but not for sure where a failover would find it: after a
 * crash a primary shows what no standby has acknowledged. So every look ends with a commit of its
 * own that writes something; what comes before it in the log is durable with it (INV-2).
 */
#include "store/postgres/pg_inner.h"

#include <time.h>

static struct once__pg_link *take_look(struct once__pg_store *store)
{
    for (size_t i = 0; i < ONCE_PG_LOOKS_MAX; i++) {
        if (!store->looks_taken[i]) {
            store->looks_taken[i] = true;
            return &store->looks[i];
        }
    }
    return NULL;
}

static struct once__pg_link *wait_for_look(struct once__pg_store *store)
{
    struct once__pg_link *link;

    pthread_mutex_lock(&store->looks_lock);
    while (!(link = take_look(store)))
        pthread_cond_wait(&store->looks_free, &store->looks_lock);
    pthread_mutex_unlock(&store->looks_lock);
    return link;
}

static void give_look(struct once__pg_store *store, const struct once__pg_link *link)
{
    pthread_mutex_lock(&store->looks_lock);
    store->looks_taken[link - store->looks] = false;
    pthread_cond_signal(&store->looks_free);
    pthread_mutex_unlock(&store->looks_lock);
}

/* Writes something, and waits until it is durable. */
static int prove(struct once__pg_link *link, once_ms until_ms)
{
    int err;

    link->warned = false;
    err = once__pg_run(link, "SELECT pg_logical_emit_message(true, 'once', '')", 0, NULL, NULL,
                       NULL, until_ms, NULL);
    if (err == ONCE_OK && link->warned) {
        link->state[0] = '\0';
        return ONCE_ERR_IO;
    }
    return err;
}

struct question {
    const char *sql;
    int count;
    const char *const *values;
    const int *sizes;
    const int *formats;
};

static int ask_once(struct once__pg_link *link, const struct question *question, once_ms until_ms,
                    PGresult **ret_result)
{
    static const char *const none[1];
    PGresult *result;
    int err = ONCE_OK;

    if (!link->conn)
        err = once__pg_link_open(link, until_ms);
    if (err != ONCE_OK)
        return err;
    err = once__pg_run(link, question->sql, question->count,
                       question->values ? question->values : none, question->sizes,
                       question->formats, until_ms, &result);
    if (err != ONCE_OK)
        return err;
    err = prove(link, until_ms);
    if (err == ONCE_OK)
        *ret_result = result;
    else
        PQclear(result);
    return err;
}

static void pause_ms(long ms)
{
    struct timespec pause = {.tv_nsec = ms * 1000000};

    nanosleep(&pause, NULL);
}

int once__pg_ask(struct once_store *base, const char *sql, int count, const char *const *values,
                 const int *sizes, const int *formats, PGresult **ret_result)
{
    struct once__pg_store *store = once__pg_of(base);
    struct question question = {sql, count, values, sizes, formats};
    struct once__pg_link *link = wait_for_look(store);
    once_ms until_ms = once__pg_clock_ms() + ONCE_PG_WAIT_MS;
    long wait_ms = ONCE__PG_BACKOFF_MS_MIN;
    int err;

    for (;;) {
        err = ask_once(link, &question, until_ms, ret_result);
        if (err == ONCE_OK)
            break;
        if (once__pg_useless(link))
            once__pg_link_close(link);
        else if (!once__pg_passing(link))
            break; /* it would say the same again */
        if (err != ONCE_ERR_IO || atomic_load(&store->closing) ||
            once__pg_clock_ms() + wait_ms >= until_ms)
            break;
        pause_ms(wait_ms);
        wait_ms = wait_ms * 2 < 500 ? wait_ms * 2 : 500;
    }
    give_look(store, link);
    return err;
}
