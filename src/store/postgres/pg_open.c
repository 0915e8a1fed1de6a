/* SPDX-License-Identifier: Apache-2.0
 *
 * The store on PostgreSQL as a store: opening and closing it, taking calls and handing them to a
 * lane, telling, and its numbers. pg_inner.h has the map.
 *
 * Invariants: a call that was taken is told exactly once, whatever becomes of the database; one
 * caller is told at a time.
 */
#include "store/postgres/pg_apply.h"
#include "store/postgres/pg_inner.h"

#include "base/assert.h"
#include "base/random.h"
#include "core/deed.h"
#include "store/call.h"

#include <xxhash.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Words for people ------------------------------------------------------------------------ */

int once__pg_message(int err, struct once_message *ret_message, const char *format, ...)
{
    va_list args;

    if (ret_message) {
        va_start(args, format);
        vsnprintf(ret_message->text, sizeof(ret_message->text), format, args);
        va_end(args);
    }
    return err;
}

void once__pg_say(struct once__pg_store *store, enum once__pg_level level, const char *event,
                  const char *format, ...)
{
    char text[ONCE_MESSAGE_SIZE];
    va_list args;

    if (!store->say)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    store->say(store->user, level, event, text);
}

void once__pg_judged(struct once__pg_store *store, const char *defect)
{
    const char *before = atomic_exchange(&store->unsafe, defect);

    if (defect && defect != before)
        once__pg_say(store, store->accept_loss ? ONCE__PG_WARN : ONCE__PG_ERROR, "unsafe", "%s",
                     defect);
    else if (!defect && before)
        once__pg_say(store, ONCE__PG_INFO, "safe", "the settings keep what is acknowledged again");
}

/* ---- Time ------------------------------------------------------------------------------------ */

void once__pg_saw_ms(struct once__pg_store *store, once_ms now_ms)
{
    pthread_mutex_lock(&store->numbers_lock);
    if (now_ms > store->numbers.now_ms) {
        store->numbers.now_ms = now_ms;
        store->numbers_ms = once__pg_clock_ms();
    }
    pthread_mutex_unlock(&store->numbers_lock);
}

once_ms once__pg_store_ms(struct once__pg_store *store)
{
    once_ms now_ms;

    pthread_mutex_lock(&store->numbers_lock);
    now_ms = store->numbers.now_ms + (once__pg_clock_ms() - store->numbers_ms);
    pthread_mutex_unlock(&store->numbers_lock);
    return now_ms;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

struct once__pg_id once__pg_call_id(const struct once__pg_store *store, const struct once_op *op)
{
    struct once__pg_id id = store->id;
    uint64_t number = op->inner.position >> 1;

    for (unsigned i = 0; i < 8; i++)
        id.bytes[15 - i] ^= (uint8_t)(number >> (8 * i));
    return id;
}

void once__pg_tell(struct once__pg_store *store, struct once_op *const *ops, size_t count)
{
    pthread_mutex_lock(&store->told_lock);
    for (size_t i = 0; i < count; i++) {
        once__call_decided(ops[i]);
        once__pg_route_leave(store, ops[i]->inner.hash);
        atomic_fetch_sub(&store->submitted_count, 1);
        ops[i]->told(ops[i]); /* it is not ours any more */
    }
    pthread_mutex_unlock(&store->told_lock);
}

/* An apply without a key, and a merge, have no name; they go where others on the same object go. */
static uint64_t hash_of(const struct once__pg_store *store, const struct once_op *op)
{
    const struct once__deed *deeds = op->inner.deeds;
    uint64_t seed = store->seed;

    if (op->reply.err != ONCE_OK)
        return 0;
    if (!once__call_named(op))
        return XXH3_64bits_withSeed(deeds[0].name.data, deeds[0].name.size, ~seed);
    seed = XXH3_64bits_withSeed(op->ns.data, op->ns.size, seed);
    return XXH3_64bits_withSeed(op->key.data, op->key.size, seed);
}

/* NULL: the store was closed meanwhile. */
static struct once__pg_lane *take_op(struct once__pg_store *store, struct once_op *op)
{
    struct once__pg_lane *lane;

    if (once__call_check(op) == ONCE_OK && once__pg_op_check(op) != ONCE_OK)
        ONCE_ASSERT(op->reply.err != ONCE_OK);
    op->inner.hash = hash_of(store, op);
    op->inner.position = (atomic_fetch_add(&store->last_call, 1) + 1) << 1;
    op->inner.deadline_ms = once__pg_clock_ms() + ONCE_PG_WAIT_MS;
    lane = once__pg_route_enter(store, op->inner.hash);
    if (once__pg_lane_add(lane, op))
        return lane;
    once__pg_route_leave(store, op->inner.hash);
    once__call_decided(op);
    return NULL;
}

static int pg_submit(struct once_store *base, struct once_op *const *ops, size_t count, bool here,
                     size_t *ret_taken)
{
    struct once__pg_store *store = once__pg_of(base);
    struct once__pg_lane *lane;
    uint64_t touched = 0;
    size_t taken = 0;
    int err = ONCE_OK;

    (void)here; /* told is called by the lanes only */
    while (err == ONCE_OK && taken < count) {
        if (atomic_load(&store->closing)) {
            err = ONCE_ERR_CLOSED;
        } else if (atomic_fetch_add(&store->submitted_count, 1) >= ONCE_SUBMITTED_MAX) {
            atomic_fetch_sub(&store->submitted_count, 1);
            err = ONCE_ERR_FULL;
        } else if (!(lane = take_op(store, ops[taken]))) {
            atomic_fetch_sub(&store->submitted_count, 1);
            err = ONCE_ERR_CLOSED; /* by another thread, while its caller was told something */
        } else {
            touched |= UINT64_C(1) << (lane - store->lanes);
            taken++;
        }
    }
    for (size_t i = 0; i < store->lane_count; i++) {
        if ((touched >> i & 1) != 0)
            once__pg_lane_wake(&store->lanes[i]);
    }
    *ret_taken = taken;
    return err;
}

_Static_assert(ONCE_PG_LANES_MAX <= 64, "a bit for each");

/* Someone who waits for its calls. */
struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t done;
    size_t left;
};

struct kept {
    void (*told)(struct once_op *op);
    void *user;
};

static void wake_waiter(struct once_op *op)
{
    struct waiter *waiter = op->user;

    pthread_mutex_lock(&waiter->lock);
    if (--waiter->left == 0)
        pthread_cond_signal(&waiter->done);
    pthread_mutex_unlock(&waiter->lock);
}

static void pg_call(struct once_store *base, struct once_op *ops, size_t count)
{
    struct once__pg_store *store = once__pg_of(base);
    struct waiter waiter = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, count};
    struct kept one, *kept = count > 1 ? malloc(count * sizeof(*kept)) : &one;

    for (size_t i = 0; i < count; i++)
        memset(&ops[i].reply, 0, sizeof(ops[i].reply));
    for (size_t i = 0; !kept && i < count; i++)
        once__call_refuse(&ops[i], ONCE_ERR_MEMORY, NULL);
    if (!kept)
        return;
    for (size_t i = 0; i < count; i++) {
        kept[i] = (struct kept){ops[i].told, ops[i].user};
        ops[i].told = wake_waiter;
        ops[i].user = &waiter;
        atomic_fetch_add(&store->submitted_count, 1);
        if (!take_op(store, &ops[i]))
            ONCE_ASSERT(false); /* no call may be under way when a store is closed */
    }
    for (size_t i = 0; i < store->lane_count; i++)
        once__pg_lane_wake(&store->lanes[i]);
    pthread_mutex_lock(&waiter.lock);
    while (waiter.left > 0)
        pthread_cond_wait(&waiter.done, &waiter.lock);
    pthread_mutex_unlock(&waiter.lock);
    for (size_t i = 0; i < count; i++) {
        ops[i].told = kept[i].told;
        ops[i].user = kept[i].user;
    }
    if (kept != &one)
        free(kept);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void pg_stats(struct once_store *base, struct once_stats *ret_stats)
{
    struct once__pg_store *store = once__pg_of(base);
    const char *unsafe = atomic_load(&store->unsafe);
    struct once_stats stats;

    pthread_mutex_lock(&store->numbers_lock);
    stats = store->numbers;
    pthread_mutex_unlock(&store->numbers_lock);
    stats.now_ms = once__pg_store_ms(store);
    stats.shared = true;
    stats.links = store->lane_count;
    stats.links_up = 0;
    for (size_t i = 0; i < store->lane_count; i++)
        stats.links_up += atomic_load(&store->lanes[i].up) ? 1 : 0;
    stats.unreachable = stats.links_up == 0 || (unsafe && !store->accept_loss);
    *ret_stats = stats;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static int pg_close(struct once_store *base)
{
    struct once__pg_store *store = once__pg_of(base);

    store->close_ms = once__pg_clock_ms() + ONCE_PG_CLOSE_MS;
    atomic_store(&store->closing, true);
    for (size_t i = 0; i < store->lane_count; i++)
        once__pg_lane_stop(&store->lanes[i]);
    for (size_t i = 0; i < store->lane_count; i++)
        once__pg_lane_release(&store->lanes[i]);
    once__pg_keeper_join(store);
    for (size_t i = 0; i < ONCE_PG_LOOKS_MAX; i++)
        once__pg_link_close(&store->looks[i]);
    pthread_mutex_destroy(&store->told_lock);
    pthread_mutex_destroy(&store->route.lock);
    pthread_mutex_destroy(&store->looks_lock);
    pthread_cond_destroy(&store->looks_free);
    pthread_mutex_destroy(&store->numbers_lock);
    free(store->lanes);
    if (store->url)
        explicit_bzero(store->url, strlen(store->url));
    free(store->url);
    free(store);
    return ONCE_OK;
}

static const struct once__store_ops pg_ops = {
    .call = pg_call,
    .submit = pg_submit,
    .list = once__pg_list,
    .object_get = once__pg_object_get,
    .object_read = once__pg_object_read,
    .object_list = once__pg_object_list,
    .object_delta = once__pg_object_delta,
    .stats = pg_stats,
    .close = pg_close,
};

static int check_setup(const struct once__pg_setup *setup, struct once_message *ret_message)
{
    if (!once__pg_url(setup->url))
        return once__pg_message(ONCE_ERR_INVALID, ret_message,
                                "a store on PostgreSQL is named postgres://...");
    if (!once__pg_url_readable(setup->url))
        return once__pg_message(ONCE_ERR_INVALID, ret_message, "this URL cannot be read: %s",
                                ONCE__PG_URL_FORM);
    if (setup->lanes > ONCE_PG_LANES_MAX)
        return once__pg_message(ONCE_ERR_INVALID, ret_message,
                                "a store on PostgreSQL has 1 to %d connections", ONCE_PG_LANES_MAX);
    return ONCE_OK;
}

static int make_store(const struct once__pg_setup *setup, struct once__pg_store **ret_store)
{
    struct once__pg_store *store = calloc(1, sizeof(*store));
    size_t lane_count = setup->lanes > 0 ? setup->lanes : ONCE_PG_LANES_DEFAULT;

    if (!store)
        return ONCE_ERR_MEMORY;
    store->store.ops = &pg_ops;
    store->accept_loss = setup->accept_loss;
    store->say = setup->say;
    store->user = setup->user;
    pthread_mutex_init(&store->told_lock, NULL);
    pthread_mutex_init(&store->route.lock, NULL);
    pthread_mutex_init(&store->looks_lock, NULL);
    pthread_cond_init(&store->looks_free, NULL);
    pthread_mutex_init(&store->numbers_lock, NULL);
    for (size_t i = 0; i < ONCE_PG_LOOKS_MAX; i++)
        store->looks[i].store = store;
    *ret_store = store; /* pg_close frees it from here on, however far it was built */
    store->url = strdup(setup->url);
    store->lanes = calloc(lane_count, sizeof(*store->lanes));
    if (!store->url || !store->lanes)
        return ONCE_ERR_MEMORY;
    store->lane_count = lane_count;
    if (once__random_bytes(&store->seed, sizeof(store->seed)) != ONCE_OK)
        return ONCE_ERR_RANDOM;
    return once__random_bytes(store->id.bytes, sizeof(store->id.bytes));
}

/* May this role do what a server does? */
static const char try_sql[] =
    "SELECT once.tick(), (SELECT count(*) FROM once.list(0, 1, NULL, NULL)),"
    " (SELECT keys FROM once.numbers(1)), (SELECT count(*) FROM once.calls('{}', '{}', '{}', '{}',"
    " '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'))";

/* How long an upgrade may take: it may rewrite what is there. */
enum { INSTALL_MS = 600000 };

static int prepare_database(struct once__pg_store *store, const char *shown,
                            struct once_message *ret_message)
{
    struct once__pg_link *link = &store->looks[0];
    int err = once__pg_link_open(link, once__pg_clock_ms() + ONCE_PG_WAIT_MS);

    if (err != ONCE_OK)
        return once__pg_message(err, ret_message, "%s: %s%s", shown, link->text,
                                err == ONCE_ERR_UNSUPPORTED && atomic_load(&store->unsafe)
                                    ? "; or say --accept-loss"
                                    : "");
    err = once__pg_check_sessions(link, &store->looks[1], once__pg_clock_ms() + ONCE_PG_WAIT_MS);
    if (err != ONCE_OK)
        return once__pg_message(err, ret_message, "%s: %s", shown, link->text);
    err = once__pg_install(link, once__pg_clock_ms() + INSTALL_MS, ret_message);
    if (err == ONCE_OK) {
        err = once__pg_run(link, try_sql, 0, NULL, NULL, NULL,
                           once__pg_clock_ms() + ONCE_PG_WAIT_MS, NULL);
        if (err != ONCE_OK)
            once__pg_message(err, ret_message, "%s: %s%s", shown, link->text,
                             err == ONCE_ERR_PERMISSION ? "; grant the server's role once_server"
                                                        : "");
    }
    once__pg_link_close(link); /* it holds the lock of the installation */
    return err;
}

int once__pg_open(const struct once__pg_setup *setup, struct once_store **ret_store,
                  struct once_message *ret_message)
{
    struct once__pg_store *store = NULL;
    char shown[ONCE_MESSAGE_SIZE / 2];
    int err = check_setup(setup, ret_message);

    if (err != ONCE_OK)
        return err;
    once__pg_url_shown(setup->url, shown, sizeof(shown));
    err = make_store(setup, &store);
    if (err == ONCE_OK)
        err = prepare_database(store, shown, ret_message);
    else
        once__pg_message(err, ret_message, "%s: %s", shown, once_err_text(err));
    if (err == ONCE_OK) {
        for (size_t i = 0; err == ONCE_OK && i < store->lane_count; i++)
            err = once__pg_lane_start(&store->lanes[i], store);
        if (err == ONCE_OK)
            err = once__pg_keeper_start(store);
        if (err != ONCE_OK)
            once__pg_message(err, ret_message, "%s: its threads cannot be started: %s", shown,
                             once_err_text(err));
    }
    if (err == ONCE_OK)
        *ret_store = &store->store;
    else if (store)
        pg_close(&store->store);
    return err;
}
