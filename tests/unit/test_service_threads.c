/* SPDX-License-Identifier: Apache-2.0
 *
 * Many threads on one service and one store: begins that wait on few names, ends of every kind,
 * callers that go away. As callers see it: at most one executes a name at a time, every call is
 * told once, everybody who waits is told in the end, and nobody is left in the room.
 */
#include "service_help.h"

enum { THREADS = 8, KEYS = 5, ROUNDS = 120, NAMES = KEYS * (1 + ROUNDS / 20) };

struct arena {
    struct house house;
    _Atomic int holders[NAMES];  /* who was told to execute and has not ended it yet */
    _Atomic unsigned overlaps;   /* two at once */
    _Atomic unsigned unexpected; /* an answer that there is no reason for */
    _Atomic unsigned executed, replayed, busy;
};

struct member {
    struct arena *arena;
    unsigned number;
    pthread_t thread;
    uint64_t chance;
};

/* SplitMix64. */
static uint64_t below(struct member *member, uint64_t bound)
{
    uint64_t z = (member->chance += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return (z ^ (z >> 31)) % bound;
}

/* Fails a test from a thread: cmocka cannot. */
static void await_told(struct arena *arena, struct guest *guest)
{
    time_t began = 0;

    while (guest->told == 0) {
        if (!patient(&began)) {
            fprintf(stderr, "a call was never told\n");
            abort();
        }
    }
    if (guest->call.op.reply.err != ONCE_OK)
        arena->unexpected++;
}

static void submit(struct arena *arena, struct guest *guest, struct once__call call,
                   const char *key)
{
    struct house *house = &arena->house;
    struct once__call *submitted = &guest->call;

    *guest = (struct guest){.call = call, .house = house};
    snprintf(guest->key, sizeof(guest->key), "%s", key);
    guest->call.op.ns = once_bytes_of("test");
    guest->call.op.key = once_bytes_of(guest->key);
    guest->call.done = guest_told;
    if (once__service_check(house->service, house->config, &house->admin, &guest->call) != ONCE_OK)
        abort();
    once__service_submit(house->service, &submitted, 1);
}

/* Ends what it was told to execute, in one of the ways that there are. */
static void end(struct member *member, unsigned key, const char *name, uint64_t fence)
{
    struct arena *arena = member->arena;
    struct once_op op = {.call = ONCE_CALL_FAIL, .fence = fence};
    struct guest guest;
    uint64_t way = below(member, 10);

    if (way == 0)
        op.call = ONCE_CALL_FORGET;
    else if (way == 1)
        op.call = ONCE_CALL_COMPLETE;
    else if (way == 2)
        op.call = ONCE_CALL_RENEW; /* given up: others may retry */
    arena->holders[key]--; /* from its decision on it may be another's, before this one knows */
    submit(arena, &guest, (struct once__call){.op = op}, name);
    await_told(arena, &guest);
    if (guest.word != ONCE_DONE)
        arena->unexpected++;
    once_reply_release(&guest.call.op.reply);
}

static void one_round(struct member *member, unsigned round)
{
    struct arena *arena = member->arena;
    unsigned key = round / 20 * KEYS + (unsigned)below(member, KEYS);
    struct guest guest;
    char name[LIFE_KEY_SIZE];
    bool gone = below(member, 4) == 0;

    snprintf(name, sizeof(name), "key-%u", key);
    submit(arena, &guest,
           (struct once__call){.op = {.call = ONCE_CALL_BEGIN, .on_doubt = ONCE_ON_DOUBT_RETRY},
                               .on_doubt_given = true,
                               .wait_ms = (once_ms)below(member, 3) * 20000},
           name);
    if (gone) {
        for (uint64_t i = below(member, 200); i > 0; i--)
            sched_yield();
        once__service_cancel(arena->house.service, &guest.call);
    }
    await_told(arena, &guest);
    if (guest.word == ONCE_EXECUTE) {
        arena->executed++;
        if (arena->holders[key]++ > 0)
            arena->overlaps++;
        for (uint64_t i = below(member, 20); i > 0; i--)
            sched_yield();
        end(member, key, name, guest.fence);
    } else if (guest.word == ONCE_REPLAY) {
        arena->replayed++;
    } else if (guest.word == ONCE_BUSY) {
        arena->busy++;
    } else {
        arena->unexpected++;
    }
    once_reply_release(&guest.call.op.reply);
}

static void *member_main(void *arg)
{
    struct member *member = arg;

    for (unsigned round = 0; round < ROUNDS; round++)
        one_round(member, round);
    return NULL;
}

static void service__many_threads__one_executes_and_everyone_is_told(void **state)
{
    static struct arena arena;
    struct member members[THREADS];
    const char *seed = getenv("ONCE_SEED");

    (void)state;
    memset(&arena, 0, sizeof(arena));
    house_open(&arena.house, false);
    for (unsigned i = 0; i < THREADS; i++) {
        members[i] = (struct member){.arena = &arena,
                                     .number = i,
                                     .chance = (seed ? strtoull(seed, NULL, 10) : 1) * 100 + i};
        assert_int_equal(pthread_create(&members[i].thread, NULL, member_main, &members[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(members[i].thread, NULL);
    HOUSE_AWAIT(&arena.house, once__service_pending(arena.house.service) == 0);
    assert_int_equal(arena.overlaps, 0);
    assert_int_equal(arena.unexpected, 0);
    assert_int_equal(arena.executed + arena.replayed + arena.busy, THREADS * ROUNDS);
    assert_true(arena.executed > 0 && arena.busy > 0);
    house_close(&arena.house);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(service__many_threads__one_executes_and_everyone_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
