/* SPDX-License-Identifier: Apache-2.0
 *
 * The waiting room: lines of calls by name, a heap of when to look after whom, one lock.
 *
 *   table    heads of lines, by the hash of their name; seeded, so nobody chooses names that meet
 *   line     a ring of calls of one name; the table knows its head
 *   heap     every parked call once, the earliest wake_ns at the top: the end of its wait, for a
 *            head also its probe
 *   told     calls that are not parked any more, or never were, and wait for the timer's thread
 *
 * All of a call's parking belongs to the room's lock while it is parked, and its `cancelled`
 * always. Nothing here calls the store or a host: the lock is held for moments only.
 */
#include "server/room.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <xxhash.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/random.h"

enum { BUCKETS = 1 << 16, HEAP_SIZE_MIN = 64 };

#define NS_PER_MS 1000000ULL
#define NS_PER_S 1000000000ULL

/* Calls linked by parking.chain, in order. */
struct list {
    struct once__call *first;
    struct once__call *last;
};

struct once__room {
    struct once__metrics *metrics;
    uint64_t seed;
    _Atomic size_t count; /* parked; written under the lock */
    pthread_mutex_t lock;
    pthread_cond_t timer;
    struct once__call *heads[BUCKETS];
    struct once__call **heap;
    size_t heap_size;
    uint64_t last_number;
    struct list told;
    uint64_t sleeps_until_ns; /* the timer's thread; 0: it does not sleep, or was woken */
    bool draining;
    bool stopped;
    bool shared; /* an end may come from elsewhere: heads ask often */
};

uint64_t once__now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void append(struct list *list, struct once__call *call)
{
    call->parking.chain = NULL;
    if (list->last)
        list->last->parking.chain = call;
    else
        list->first = call;
    list->last = call;
}

/* ---- The heap -------------------------------------------------------------------------------- */

static size_t parked_count(const struct once__room *room)
{
    return atomic_load_explicit(&room->count, memory_order_relaxed);
}

static void heap_put(struct once__room *room, size_t at, struct once__call *call)
{
    room->heap[at] = call;
    call->parking.heap_at = at;
}

/* Moves the call at this place to where it belongs among the first count. */
static void heap_settle(struct once__room *room, size_t at, size_t count)
{
    struct once__call *call = room->heap[at];
    uint64_t wake_ns = call->parking.wake_ns;

    while (at > 0 && room->heap[(at - 1) / 2]->parking.wake_ns > wake_ns) {
        heap_put(room, at, room->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count &&
            room->heap[child + 1]->parking.wake_ns < room->heap[child]->parking.wake_ns)
            child++;
        if (room->heap[child]->parking.wake_ns >= wake_ns)
            break;
        heap_put(room, at, room->heap[child]);
        at = child;
    }
    heap_put(room, at, call);
}

static void heap_remove(struct once__room *room, struct once__call *call, size_t count)
{
    size_t at = call->parking.heap_at;
    struct once__call *last = room->heap[count - 1];

    ONCE_ASSERT(room->heap[at] == call);
    if (last == call)
        return;
    heap_put(room, at, last);
    heap_settle(room, at, count - 1);
}

/* Sets when to look after a parked call. */
static void set_wake(struct once__room *room, struct once__call *call, uint64_t wake_ns)
{
    call->parking.wake_ns = wake_ns;
    heap_settle(room, call->parking.heap_at, parked_count(room));
}

/* Wakes the timer's thread if it would sleep too long; before every unlock that changed something.
 */
static void nudge(struct once__room *room)
{
    bool due = room->told.first ||
               (parked_count(room) > 0 && room->heap[0]->parking.wake_ns < room->sleeps_until_ns);

    if (!due || room->sleeps_until_ns == 0)
        return;
    room->sleeps_until_ns = 0;
    pthread_cond_signal(&room->timer);
}

/* Room for one more. */
static bool heap_grow(struct once__room *room, size_t count)
{
    size_t size = room->heap_size > 0 ? 2 * room->heap_size : HEAP_SIZE_MIN;
    struct once__call **heap;

    if (count < room->heap_size)
        return true;
    heap = realloc(room->heap, size * sizeof(struct once__call *));
    if (!heap)
        return false;
    room->heap = heap;
    room->heap_size = size;
    return true;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static uint64_t hash_name(const struct once__room *room, const struct once_op *op)
{
    uint64_t ns = XXH3_64bits_withSeed(op->ns.data, op->ns.size, room->seed);

    return XXH3_64bits_withSeed(op->key.data, op->key.size, ns);
}

/* The head of the line of this name, or NULL. */
static struct once__call *find(const struct once__room *room, const struct once_op *op,
                               uint64_t hash)
{
    struct once__call *head = room->heads[hash % BUCKETS];

    while (head && (head->parking.hash != hash || !once__bytes_equal(head->op.key, op->key) ||
                    !once__bytes_equal(head->op.ns, op->ns)))
        head = head->parking.chain;
    return head;
}

/* Links a head where link points, before what is there. */
static void link_head(struct once__call **link, struct once__call *head)
{
    head->parking.link = link;
    head->parking.chain = *link;
    if (*link)
        (*link)->parking.link = &head->parking.chain;
    *link = head;
}

static void unlink_head(struct once__call *head)
{
    *head->parking.link = head->parking.chain;
    if (head->parking.chain)
        head->parking.chain->parking.link = head->parking.link;
    head->parking.link = NULL;
    head->parking.chain = NULL;
}

static bool is_head(const struct once__call *call)
{
    return call->parking.link != NULL;
}

/* The duty to ask goes to another one of the line, who asks at probe_ns. */
static void make_head(struct once__room *room, struct once__call *call, uint64_t probe_ns)
{
    ONCE_ASSERT(!is_head(call));
    link_head(&room->heads[call->parking.hash % BUCKETS], call);
    call->parking.probe_ns = probe_ns;
    set_wake(room, call, earlier(call->wait_until_ns, probe_ns));
}

/* Puts the call into the ring before this one, which is its end when that is the head. */
static void join(struct once__call *call, struct once__call *before)
{
    call->parking.next = before;
    call->parking.prev = before->parking.prev;
    before->parking.prev->parking.next = call;
    before->parking.prev = call;
}

/* It is not parked any more; its line is the caller's concern. */
static void unpark(struct once__room *room, struct once__call *call)
{
    size_t count = parked_count(room);

    ONCE_ASSERT(call->parking.parked);
    heap_remove(room, call, count);
    atomic_store_explicit(&room->count, count - 1, memory_order_relaxed);
    call->parking.parked = false;
    once__metrics_add(room->metrics, ONCE__PARKED, -1);
}

/* Takes one out; who comes behind a head is the head then. */
static void leave(struct once__room *room, struct once__call *call, uint64_t next_probe_ns)
{
    struct once__call *next = call->parking.next;
    bool head = is_head(call);

    if (head)
        unlink_head(call);
    call->parking.prev->parking.next = next;
    next->parking.prev = call->parking.prev;
    unpark(room, call);
    if (head && next != call)
        make_head(room, next, next_probe_ns);
}

/* It is told that it waited in vain. */
static void leave_to_be_told(struct once__room *room, struct once__call *call)
{
    leave(room, call, call->parking.probe_ns);
    append(&room->told, call);
}

/* Should the answer get lost or tell nothing, the next one asks. */
static void leave_to_begin(struct once__room *room, struct once__call *call, uint64_t now_ns,
                           struct list *list)
{
    leave(room, call, now_ns + ONCE_RETRY_MS_MAX * NS_PER_MS);
    call->parking.again = true;
    append(list, call);
}

/* All of them, in order. */
static void leave_together(struct once__room *room, struct once__call *head, struct list *list)
{
    struct once__call *call = head;

    unlink_head(head);
    do {
        struct once__call *next = call->parking.next;

        unpark(room, call);
        call->parking.again = true;
        append(list, call);
        call = next;
    } while (call != head);
}

/* Where the call belongs in the line of its name: who was here before goes before. */
static void enter(struct once__room *room, struct once__call *call, uint64_t probe_ns)
{
    struct once__call *head = find(room, &call->op, call->parking.hash);

    call->parking.next = call->parking.prev = call;
    if (!head) {
        make_head(room, call, probe_ns);
        return;
    }
    join(call, head);
    if (call->parking.number < head->parking.number) {
        unlink_head(head);
        make_head(room, call, earlier(probe_ns, head->parking.probe_ns));
        set_wake(room, head, head->wait_until_ns);
    } else if (probe_ns < head->parking.probe_ns) {
        head->parking.probe_ns = probe_ns;
        set_wake(room, head, earlier(head->wait_until_ns, probe_ns));
    }
}

/* In how many ms the call asks again, should it be the head of its line: when the lease may be
 * over; of a shared store sooner, less and less so, and the less the more are waiting. */
static uint64_t probe_ms(const struct once__room *room, const struct once__call *call)
{
    /* A millisecond more: the lease ends with the store's milliseconds, not with ours. */
    uint64_t lease_ms = (uint64_t)call->op.reply.retry_ms + 1;
    uint64_t ms = ONCE_PROBE_MS_MIN, fair_ms = parked_count(room) * 1000 / ONCE_PROBES_S_MAX;

    if (!room->shared)
        return lease_ms;
    for (unsigned i = 0; i < call->parking.probes && ms < ONCE_PROBE_MS_MAX; i++)
        ms *= 2;
    if (ms > ONCE_PROBE_MS_MAX)
        ms = ONCE_PROBE_MS_MAX;
    return earlier(lease_ms, ms > fair_ms ? ms : fair_ms);
}

bool once__room_park(struct once__room *room, struct once__call *call, uint64_t now_ns)
{
    struct once__parking *parking = &call->parking;
    size_t count;
    bool fits;

    ONCE_ASSERT(call->op.call == ONCE_CALL_BEGIN);
    ONCE_ASSERT(!parking->parked);
    if (now_ns >= call->wait_until_ns)
        return false;
    parking->hash = hash_name(room, &call->op);
    pthread_mutex_lock(&room->lock);
    count = parked_count(room);
    fits = !room->draining && !parking->cancelled && count < ONCE_PARKED_MAX &&
           heap_grow(room, count);
    if (fits) {
        if (parking->number == 0)
            parking->number = ++room->last_number;
        parking->parked = true;
        heap_put(room, count, call);
        atomic_store_explicit(&room->count, count + 1, memory_order_relaxed);
        set_wake(room, call, call->wait_until_ns);
        enter(room, call, now_ns + probe_ms(room, call) * NS_PER_MS);
        if (parking->probes < UINT8_MAX)
            parking->probes++;
        once__metrics_add(room->metrics, ONCE__PARKED, 1);
        nudge(room);
    }
    pthread_mutex_unlock(&room->lock);
    return fits;
}

struct once__call *once__room_take(struct once__room *room, const struct once_op *op, bool all,
                                   uint64_t now_ns)
{
    struct list taken = {NULL, NULL};
    struct once__call *head;
    uint64_t hash;

    /* Whoever was told BUSY before this op was told is in already: callbacks come one by one. */
    if (parked_count(room) == 0)
        return NULL;
    hash = hash_name(room, op);
    pthread_mutex_lock(&room->lock);
    head = find(room, op, hash);
    if (head && all)
        leave_together(room, head, &taken);
    else if (head)
        leave_to_begin(room, head, now_ns, &taken);
    nudge(room);
    pthread_mutex_unlock(&room->lock);
    return taken.first;
}

/* ---- Leaving without an answer --------------------------------------------------------------- */

bool once__room_cancelled(struct once__room *room, const struct once__call *call)
{
    bool cancelled;

    pthread_mutex_lock(&room->lock);
    cancelled = call->parking.cancelled;
    pthread_mutex_unlock(&room->lock);
    return cancelled;
}

void once__room_cancel(struct once__room *room, struct once__call *call)
{
    pthread_mutex_lock(&room->lock);
    call->parking.cancelled = true;
    if (call->parking.parked)
        leave_to_be_told(room, call);
    nudge(room);
    pthread_mutex_unlock(&room->lock);
}

void once__room_tell(struct once__room *room, struct once__call *list)
{
    pthread_mutex_lock(&room->lock);
    while (list) {
        struct once__call *next = list->parking.chain;

        ONCE_ASSERT(!list->parking.parked);
        append(&room->told, list);
        list = next;
    }
    nudge(room);
    pthread_mutex_unlock(&room->lock);
}

void once__room_drain(struct once__room *room)
{
    pthread_mutex_lock(&room->lock);
    room->draining = true;
    while (parked_count(room) > 0)
        leave_to_be_told(room, room->heap[0]);
    nudge(room);
    pthread_mutex_unlock(&room->lock);
}

/* ---- The timer ------------------------------------------------------------------------------- */

static void collect_due(struct once__room *room, struct list *again)
{
    uint64_t now_ns = once__now_ns();

    while (parked_count(room) > 0 && room->heap[0]->parking.wake_ns <= now_ns) {
        struct once__call *call = room->heap[0];

        if (call->wait_until_ns <= now_ns)
            leave_to_be_told(room, call);
        else
            leave_to_begin(room, call, now_ns, again);
    }
}

static void sleep_until_due(struct once__room *room)
{
    struct timespec until;

    room->sleeps_until_ns = parked_count(room) > 0 ? room->heap[0]->parking.wake_ns : UINT64_MAX;
    until.tv_sec = (time_t)(room->sleeps_until_ns / NS_PER_S);
    until.tv_nsec = (long)(room->sleeps_until_ns % NS_PER_S);
    if (room->sleeps_until_ns == UINT64_MAX)
        pthread_cond_wait(&room->timer, &room->lock);
    else
        (void)pthread_cond_timedwait(&room->timer, &room->lock, &until);
    room->sleeps_until_ns = 0;
}

bool once__room_wait(struct once__room *room, struct once__room_due *ret_due)
{
    struct list again = {NULL, NULL};
    bool due;

    pthread_mutex_lock(&room->lock);
    for (;;) {
        collect_due(room, &again);
        due = again.first || room->told.first;
        if (due || room->stopped)
            break;
        sleep_until_due(room);
    }
    *ret_due = (struct once__room_due){.tell = room->told.first, .again = again.first};
    room->told = (struct list){NULL, NULL};
    pthread_mutex_unlock(&room->lock);
    return due;
}

void once__room_share(struct once__room *room)
{
    pthread_mutex_lock(&room->lock);
    room->shared = true;
    pthread_mutex_unlock(&room->lock);
}

void once__room_stop(struct once__room *room)
{
    pthread_mutex_lock(&room->lock);
    room->stopped = true;
    pthread_cond_signal(&room->timer);
    pthread_mutex_unlock(&room->lock);
}

size_t once__room_count(const struct once__room *room)
{
    return parked_count(room);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

int once__room_new(struct once__metrics *metrics, struct once__room **ret_room)
{
    struct once__room *room = calloc(1, sizeof(*room));
    pthread_condattr_t clock;
    int err;

    if (!room)
        return ONCE_ERR_MEMORY;
    err = once__random_bytes(&room->seed, sizeof(room->seed));
    if (err != ONCE_OK) {
        free(room);
        return err;
    }
    room->metrics = metrics;
    pthread_mutex_init(&room->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&room->timer, &clock);
    pthread_condattr_destroy(&clock);
    *ret_room = room;
    return ONCE_OK;
}

void once__room_free(struct once__room *room)
{
    if (!room)
        return;
    ONCE_ASSERT(parked_count(room) == 0);
    ONCE_ASSERT(!room->told.first);
    pthread_cond_destroy(&room->timer);
    pthread_mutex_destroy(&room->lock);
    free(room->heap);
    free(room);
}
