/* SPDX-License-Identifier: Apache-2.0
 *
 * The service in front of a real store: calls there and back, and the waiting room (D4). Store time
 * is the test's; waiting is in the time of the machine, so a probe comes within a second. Where no
 * probe is needed the store is worked by hand, and what is expected is there without any waiting.
 */
#include "service_help.h"

#include "server/room.h"
#include "store/store.h"

enum { CROWD = 1000, WAIT_MS = 50000 };

static struct guest *make_crowd(size_t count)
{
    struct guest *crowd = calloc(count, sizeof(struct guest));

    assert_non_null(crowd);
    return crowd;
}

static void begin_crowd(struct house *house, struct guest *crowd, size_t count, const char *key,
                        enum once_on_doubt on_doubt)
{
    for (size_t i = 0; i < count; i++)
        guest_submit(house, &crowd[i],
                     (struct once__call){.op = {.call = ONCE_CALL_BEGIN, .on_doubt = on_doubt},
                                         .on_doubt_given = true,
                                         .wait_ms = WAIT_MS},
                     key);
    HOUSE_AWAIT(house, once__service_parked(house->service) == count);
}

static void release_crowd(struct guest *crowd, size_t count)
{
    for (size_t i = 0; i < count; i++)
        guest_release(&crowd[i]);
    free(crowd);
}

static size_t count_told(const struct guest *crowd, size_t count, enum once_word word)
{
    size_t told = 0;

    for (size_t i = 0; i < count; i++)
        told += crowd[i].told > 0 && crowd[i].word == word;
    return told;
}

/* ---- There and back -------------------------------------------------------------------------- */

static void submit__many__are_decided_in_order_and_told_once(void **state)
{
    static struct guest guests[600];
    struct once__call *calls[600];
    struct house house;

    (void)state;
    house_open(&house, false);
    for (unsigned i = 0; i < 600; i++) {
        enum once_call_kind kind = i % 2 == 0 ? ONCE_CALL_BEGIN : ONCE_CALL_GET;

        guest_prepare(&house, &guests[i], (struct once__call){.op = {.call = kind}},
                      life_key(i / 2).text);
        calls[i] = &guests[i].call;
    }
    once__service_submit(house.service, calls, 600);
    HOUSE_AWAIT(&house, once__service_pending(house.service) == 0);
    for (unsigned i = 0; i < 600; i++) {
        assert_int_equal(guests[i].word, i % 2 == 0 ? ONCE_EXECUTE : ONCE_DONE);
        guest_release(&guests[i]);
    }
    assert_int_equal(once__metrics_total(house.metrics, ONCE_CALL_BEGIN, ONCE_EXECUTE), 300);
    assert_int_equal(once__metrics_total(house.metrics, ONCE_CALL_GET, ONCE_DONE), 300);
    house_close(&house);
}

static void submit__busy_without_wait__is_told_at_once(void **state)
{
    struct house house;
    struct guest guest;

    (void)state;
    house_open(&house, false);
    (void)house_start(&house, "key", 0);
    guest_begin(&house, &guest, "key", 0);
    HOUSE_AWAIT(&house, guest.told == 1);
    assert_int_equal(guest.word, ONCE_BUSY);
    guest_release(&guest);
    house_close(&house);
}

/* ---- A store that takes only so many --------------------------------------------------------- */

struct small_store {
    struct once_store store; /* first */
    size_t room;
    int err;
    struct once_op *taken[8];
    _Atomic size_t taken_count; /* after what it counts */
    bool shared;
    bool unreachable;
    once_ms retry_ms;
};

static int small_submit(struct once_store *store, struct once_op *const *ops, size_t count,
                        bool here, size_t *ret_taken)
{
    struct small_store *small = (struct small_store *)(void *)store;
    size_t taken = 0;

    (void)here;
    for (; taken < count && small->room > 0; taken++, small->room--) {
        small->taken[small->taken_count] = ops[taken];
        small->taken_count++;
    }
    *ret_taken = taken;
    return taken == count ? ONCE_OK : small->err;
}

static void small_stats(struct once_store *store, struct once_stats *ret_stats)
{
    const struct small_store *small = (struct small_store *)(void *)store;

    *ret_stats = (struct once_stats){
        .shared = small->shared, .unreachable = small->unreachable, .now_ms = 12345};
}

static const struct once__store_ops small_ops = {.submit = small_submit, .stats = small_stats};

static void small_tell(struct small_store *small, enum once_word word)
{
    struct once_op *op = small->taken[--small->taken_count];

    op->reply = (struct once_reply){.word = word,
                                    .retry_ms = small->retry_ms ? small->retry_ms : 1};
    op->told(op);
}

static void submit__store_is_full__the_rest_is_told_so_elsewhere(void **state)
{
    struct small_store small = {.store = {&small_ops}, .room = 2, .err = ONCE_ERR_FULL};
    struct house house;
    struct guest guests[4];
    struct once__call *calls[4];

    (void)state;
    house_open(&house, false);
    for (unsigned i = 0; i < 4; i++) {
        guest_prepare(&house, &guests[i], (struct once__call){.op = {.call = ONCE_CALL_GET}},
                      life_key(i).text);
        calls[i] = &guests[i].call;
    }
    once__service_open(house.service, &small.store);
    once__service_submit(house.service, calls, 4);
    HOUSE_AWAIT(&house, guests[2].told == 1 && guests[3].told == 1);
    assert_int_equal(guests[2].call.op.reply.err, ONCE_ERR_FULL);
    assert_non_null(guests[2].call.op.reply.what);
    assert_int_equal(guests[0].told + guests[1].told, 0);
    assert_int_equal(small.taken_count, 2);
    small_tell(&small, ONCE_NOTFOUND);
    small_tell(&small, ONCE_NOTFOUND);
    for (unsigned i = 0; i < 4; i++)
        guest_release(&guests[i]);
    house_close(&house);
}

static void submit__no_store_yet__is_told_that_it_is_loading(void **state)
{
    struct house house;
    struct guest guest;
    struct once__call *call = &guest.call;

    (void)state;
    house_open(&house, false);
    guest_prepare(&house, &guest, (struct once__call){.op = {.call = ONCE_CALL_GET}}, "key");
    once__service_open(house.service, NULL);
    once__service_submit(house.service, &call, 1);
    HOUSE_AWAIT(&house, guest.told == 1);
    assert_int_equal(guest.call.op.reply.err, ONCE_ERR_LOADING);
    house_close(&house);
}

/* Who is taken out to begin again, and cannot, is told BUSY. */
static void wait__store_takes_nothing_any_more__busy(void **state)
{
    struct small_store small = {.store = {&small_ops}, .room = 1, .err = ONCE_ERR_CLOSED};
    struct house house;
    struct guest guest;
    struct once__call *call = &guest.call;

    (void)state;
    house_open(&house, false);
    guest_prepare(&house, &guest,
                  (struct once__call){.op = {.call = ONCE_CALL_BEGIN}, .wait_ms = WAIT_MS}, "key");
    once__service_open(house.service, &small.store);
    once__service_submit(house.service, &call, 1);
    small_tell(&small, ONCE_BUSY);
    HOUSE_AWAIT(&house, guest.told == 1); /* its probe is due soon */
    assert_int_equal(guest.word, ONCE_BUSY);
    assert_int_equal(guest.call.op.reply.err, ONCE_OK);
    house_close(&house);
}

/* ---- A store that servers share -------------------------------------------------------------- */

static void shared__unreachable_or_not__is_told_with_its_own_time(void **state)
{
    struct small_store small = {.store = {&small_ops}, .shared = true};
    struct house house;

    (void)state;
    house_open(&house, false);
    assert_true(once__service_reachable(house.service));
    assert_true(once__service_wall_ms(house.service) > 1700000000000LL);
    once__service_open(house.service, &small.store);
    assert_true(once__service_reachable(house.service));
    assert_int_equal(once__service_wall_ms(house.service), 12345);
    small.unreachable = true;
    assert_false(once__service_reachable(house.service));
    once__service_open(house.service, NULL);
    assert_false(once__service_reachable(house.service));
    house_close(&house);
}

/* The lease is long, and nobody here ends it: another server does. */
static void shared__ended_elsewhere__who_waits_asks_soon(void **state)
{
    struct small_store small = {
        .store = {&small_ops}, .room = SIZE_MAX, .shared = true, .retry_ms = 1000};
    struct house house;
    struct guest guest;
    struct once__call *call = &guest.call;

    (void)state;
    house_open(&house, false);
    guest_prepare(&house, &guest,
                  (struct once__call){.op = {.call = ONCE_CALL_BEGIN}, .wait_ms = WAIT_MS}, "key");
    once__service_open(house.service, &small.store);
    once__service_submit(house.service, &call, 1);
    for (uint64_t asked = 0; asked < 6; asked++) {
        uint64_t began_ns = once__now_ns(), took_ms;

        small_tell(&small, ONCE_BUSY);
        HOUSE_AWAIT(&house, small.taken_count == 1);
        took_ms = (once__now_ns() - began_ns) / 1000000;
        assert_true(took_ms >= (asked < 4 ? (uint64_t)ONCE_PROBE_MS_MIN << asked : 250));
        assert_true(took_ms < 900); /* sooner than the lease: much, unless the machine is slow */
    }
    small_tell(&small, ONCE_REPLAY);
    HOUSE_AWAIT(&house, guest.told == 1);
    assert_int_equal(guest.word, ONCE_REPLAY);
    house_close(&house);
}

/* ---- An end ---------------------------------------------------------------------------------- */

static void wait__completed__everyone_gets_the_first_answer(void **state)
{
    struct guest *crowd = make_crowd(CROWD);
    struct house house;
    uint64_t fence;

    (void)state;
    house_open(&house, true);
    fence = house_start(&house, "key", 0);
    begin_crowd(&house, crowd, CROWD, "key", ONCE_ON_DOUBT_REJECT);
    assert_int_equal(house_complete(&house, "key", fence, "the answer"), ONCE_DONE);
    house_settle(&house);
    assert_int_equal(count_told(crowd, CROWD, ONCE_REPLAY), CROWD);
    for (size_t i = 0; i < CROWD; i++) {
        assert_int_equal(crowd[i].call.op.reply.code, 200);
        assert_int_equal(crowd[i].call.op.reply.result.size, 10);
        assert_memory_equal(crowd[i].call.op.reply.result.data, "the answer", 10);
    }
    assert_int_equal(once__metrics_total(house.metrics, ONCE_CALL_BEGIN, ONCE_EXECUTE), 1);
    assert_int_equal(once__metrics_total(house.metrics, ONCE_CALL_BEGIN, ONCE_BUSY), 0);
    release_crowd(crowd, CROWD);
    house_close(&house);
}

static void wait__other_names__stay_parked(void **state)
{
    struct house house;
    struct guest other_key, other_ns;
    uint64_t fence, fence_key;

    (void)state;
    house_open(&house, false);
    fence = house_start(&house, "key", 0);
    fence_key = house_start(&house, "key2", 0);
    guest_begin(&house, &other_key, "key2", WAIT_MS);
    assert_int_equal(
        house_call(&house, (struct once_op){.call = ONCE_CALL_BEGIN, .ns = once_bytes_of("test2")},
                   "key"),
        ONCE_EXECUTE);
    guest_submit(&house, &other_ns,
                 (struct once__call){.op = {.call = ONCE_CALL_BEGIN, .ns = once_bytes_of("test2")},
                                     .wait_ms = 1500},
                 "key");
    HOUSE_AWAIT(&house, once__service_parked(house.service) == 2);
    assert_int_equal(house_complete(&house, "key", fence, ""), ONCE_DONE);
    assert_int_equal(other_key.told + other_ns.told, 0);
    assert_int_equal(house_complete(&house, "key2", fence_key, ""), ONCE_DONE);
    HOUSE_AWAIT(&house, other_key.told == 1);
    assert_int_equal(other_key.word, ONCE_REPLAY);
    HOUSE_AWAIT(&house, other_ns.told == 1); /* after its time */
    assert_int_equal(other_ns.word, ONCE_BUSY);
    guest_release(&other_key);
    guest_release(&other_ns);
    house_close(&house);
}

/* Every attempt fails: they get it one after the other, in the order in which they came, and nobody
 * asks for nothing. */
static void wait__failed__one_executes_and_the_rest_wait_on(void **state)
{
    enum { FEW = 100 };
    struct guest *crowd = make_crowd(FEW);
    struct house house;
    uint64_t fence, calls;

    (void)state;
    house_open(&house, true);
    fence = house_start(&house, "key", 0);
    begin_crowd(&house, crowd, FEW, "key", ONCE_ON_DOUBT_REJECT);
    calls = life_stats(&house.life).calls;
    for (size_t i = 0; i < FEW; i++) {
        assert_int_equal(house_fail(&house, "key", fence), ONCE_DONE);
        house_settle(&house);
        assert_int_equal(crowd[i].told, 1);
        assert_int_equal(crowd[i].word, ONCE_EXECUTE);
        assert_int_equal(crowd[i].call.op.reply.attempt, i + 2);
        assert_int_equal(count_told(crowd, FEW, ONCE_EXECUTE), i + 1);
        fence = crowd[i].fence;
    }
    /* A fail and a begin for each, and a probe now and then; all of all would be 10,000. */
    calls = life_stats(&house.life).calls - calls;
    assert_in_range(calls, 2 * FEW, 4 * FEW);
    release_crowd(crowd, FEW);
    house_close(&house);
}

static void wait__forgotten__one_executes(void **state)
{
    struct guest *crowd = make_crowd(3);
    struct house house;
    uint64_t fence;

    (void)state;
    house_open(&house, true);
    fence = house_start(&house, "key", 0);
    begin_crowd(&house, crowd, 3, "key", ONCE_ON_DOUBT_REJECT);
    assert_int_equal(
        house_call(&house, (struct once_op){.call = ONCE_CALL_FORGET, .fence = fence}, "key"),
        ONCE_DONE);
    house_settle(&house);
    assert_int_equal(crowd[0].told, 1);
    assert_int_equal(crowd[0].word, ONCE_EXECUTE);
    assert_int_equal(crowd[0].call.op.reply.attempt, 1);
    assert_int_equal(crowd[1].told + crowd[2].told, 0);
    assert_int_equal(house_complete(&house, "key", crowd[0].fence, ""), ONCE_DONE);
    house_settle(&house);
    assert_int_equal(count_told(crowd, 3, ONCE_REPLAY), 2);
    release_crowd(crowd, 3);
    house_close(&house);
}

/* Someone else takes the name with another request: nobody waits for that. */
static void wait__name_belongs_to_another_request__mismatch(void **state)
{
    struct guest *crowd = make_crowd(3);
    struct house house;
    struct guest forget, begin;
    struct once__call *calls[2] = {&forget.call, &begin.call};
    struct once_op op = {.call = ONCE_CALL_FORGET};

    (void)state;
    house_open(&house, true);
    op.fence = house_start(&house, "key", 0);
    begin_crowd(&house, crowd, 3, "key", ONCE_ON_DOUBT_REJECT);
    guest_prepare(&house, &forget, (struct once__call){.op = op}, "key");
    op = (struct once_op){.call = ONCE_CALL_BEGIN, .fingerprint = once_bytes_of("another")};
    guest_prepare(&house, &begin, (struct once__call){.op = op}, "key");
    once__service_submit(house.service, calls, 2);
    house_settle(&house);
    assert_int_equal(begin.word, ONCE_EXECUTE);
    assert_int_equal(count_told(crowd, 3, ONCE_MISMATCH), 3);
    guest_release(&forget);
    guest_release(&begin);
    release_crowd(crowd, 3);
    house_close(&house);
}

/* ---- A doubt --------------------------------------------------------------------------------- */

static void wait__lease_is_over__everyone_learns_of_the_doubt(void **state)
{
    struct guest *crowd = make_crowd(CROWD);
    struct house house;

    (void)state;
    house_open(&house, false);
    (void)house_start(&house, "key", 5000);
    begin_crowd(&house, crowd, CROWD, "key", ONCE_ON_DOUBT_REJECT);
    life_pass(&house.life, 5000);
    HOUSE_AWAIT(&house, once__service_pending(house.service) == 0); /* after a probe */
    assert_int_equal(count_told(crowd, CROWD, ONCE_DOUBT), CROWD);
    release_crowd(crowd, CROWD);
    house_close(&house);
}

static void wait__lease_is_over_and_may_retry__one_executes(void **state)
{
    struct guest *crowd = make_crowd(3);
    struct house house;

    (void)state;
    house_open(&house, false);
    (void)house_start(&house, "key", 5000);
    begin_crowd(&house, crowd, 3, "key", ONCE_ON_DOUBT_RETRY);
    life_pass(&house.life, 5000);
    HOUSE_AWAIT(&house, crowd[0].told == 1);
    assert_int_equal(crowd[0].word, ONCE_EXECUTE);
    assert_int_equal(crowd[0].call.op.reply.attempt, 2);
    assert_int_equal(crowd[1].told + crowd[2].told, 0);
    assert_int_equal(house_complete(&house, "key", crowd[0].fence, ""), ONCE_DONE);
    HOUSE_AWAIT(&house, crowd[1].told == 1 && crowd[2].told == 1);
    assert_int_equal(count_told(crowd, 3, ONCE_REPLAY), 2);
    release_crowd(crowd, 3);
    house_close(&house);
}

static void wait__lease_given_up__everyone_learns_of_the_doubt(void **state)
{
    struct guest *crowd = make_crowd(5);
    struct house house;
    uint64_t fence;

    (void)state;
    house_open(&house, true);
    fence = house_start(&house, "key", 0);
    begin_crowd(&house, crowd, 5, "key", ONCE_ON_DOUBT_REJECT);
    assert_int_equal(
        house_call(&house, (struct once_op){.call = ONCE_CALL_RENEW, .fence = fence}, "key"),
        ONCE_DONE);
    house_settle(&house);
    assert_int_equal(count_told(crowd, 5, ONCE_DOUBT), 5);
    release_crowd(crowd, 5);
    house_close(&house);
}

/* A begin without a wait that finds the doubt tells those who wait. */
static void wait__a_stranger_finds_the_doubt__everyone_learns_of_it(void **state)
{
    struct guest *crowd = make_crowd(5);
    struct house house;

    (void)state;
    house_open(&house, true);
    (void)house_start(&house, "key", 60000);
    begin_crowd(&house, crowd, 5, "key", ONCE_ON_DOUBT_REJECT);
    life_pass(&house.life, 60000);
    assert_int_equal(house_call(&house, (struct once_op){.call = ONCE_CALL_BEGIN}, "key"),
                     ONCE_DOUBT);
    house_settle(&house);
    assert_int_equal(count_told(crowd, 5, ONCE_DOUBT), 5);
    release_crowd(crowd, 5);
    house_close(&house);
}

/* Resolved before anyone who waits has noticed the doubt. */
static void resolve_before_a_probe(struct house *house, struct guest *crowd, bool done)
{
    house_open(house, true);
    (void)house_start(house, "key", 60000);
    begin_crowd(house, crowd, 3, "key", ONCE_ON_DOUBT_REJECT);
    life_pass(&house->life, 60000);
    assert_int_equal(
        house_call(house, (struct once_op){.call = ONCE_CALL_RESOLVE, .done = done}, "key"),
        ONCE_DONE);
    house_settle(house);
}

static void wait__resolved_as_done__everyone_gets_the_answer(void **state)
{
    struct guest *crowd = make_crowd(3);
    struct house house;

    (void)state;
    resolve_before_a_probe(&house, crowd, true);
    assert_int_equal(count_told(crowd, 3, ONCE_REPLAY), 3);
    release_crowd(crowd, 3);
    house_close(&house);
}

static void wait__resolved_as_not_done__one_executes(void **state)
{
    struct guest *crowd = make_crowd(3);
    struct house house;

    (void)state;
    resolve_before_a_probe(&house, crowd, false);
    assert_int_equal(count_told(crowd, 3, ONCE_EXECUTE), 1);
    assert_int_equal(crowd[0].told, 1);
    assert_int_equal(crowd[1].told + crowd[2].told, 0);
    once__service_drain(house.service);
    HOUSE_AWAIT(&house, once__service_pending(house.service) == 0);
    release_crowd(crowd, 3);
    house_close(&house);
}

static void wait__lease_renewed__goes_on_waiting(void **state)
{
    struct house house;
    struct guest guest;
    uint64_t fence;

    (void)state;
    house_open(&house, false);
    fence = house_start(&house, "key", 400);
    guest_begin(&house, &guest, "key", WAIT_MS);
    HOUSE_AWAIT(&house, once__service_parked(house.service) == 1);
    assert_int_equal(
        house_call(&house,
                   (struct once_op){.call = ONCE_CALL_RENEW, .fence = fence, .lease_ms = 100000},
                   "key"),
        ONCE_DONE);
    life_pass(&house.life, 400);
    /* It asks when the first lease is over, and again. */
    HOUSE_AWAIT(&house, life_stats(&house.life).calls >= 5);
    assert_int_equal(guest.told, 0);
    assert_int_equal(house_complete(&house, "key", fence, ""), ONCE_DONE);
    HOUSE_AWAIT(&house, guest.told == 1);
    assert_int_equal(guest.word, ONCE_REPLAY);
    guest_release(&guest);
    house_close(&house);
}

/* ---- Nothing happens ------------------------------------------------------------------------- */

static void wait__time_is_up__busy(void **state)
{
    struct house house;
    struct guest first, second, third;
    uint64_t fence;

    (void)state;
    house_open(&house, false);
    fence = house_start(&house, "key", 0);
    guest_begin(&house, &first, "key", 30);
    guest_begin(&house, &second, "key", WAIT_MS);
    guest_begin(&house, &third, "key", 60);
    HOUSE_AWAIT(&house, first.told == 1 && third.told == 1);
    assert_int_equal(first.word, ONCE_BUSY);
    assert_int_equal(third.word, ONCE_BUSY);
    assert_true(first.told_at < third.told_at);
    assert_in_range(first.call.op.reply.retry_ms, 1, ONCE_RETRY_MS_MAX);
    assert_int_equal(second.told, 0);
    /* The head has left: the next one is still found, and still asks. */
    assert_int_equal(house_complete(&house, "key", fence, ""), ONCE_DONE);
    HOUSE_AWAIT(&house, second.told == 1);
    assert_int_equal(second.word, ONCE_REPLAY);
    guest_release(&first);
    guest_release(&second);
    guest_release(&third);
    house_close(&house);
}

static void wait__head_leaves__the_next_one_asks(void **state)
{
    struct house house;
    struct guest first, second;

    (void)state;
    house_open(&house, false);
    (void)house_start(&house, "key", 5000);
    guest_begin(&house, &first, "key", WAIT_MS);
    HOUSE_AWAIT(&house, once__service_parked(house.service) == 1);
    guest_begin(&house, &second, "key", WAIT_MS);
    HOUSE_AWAIT(&house, once__service_parked(house.service) == 2);
    once__service_cancel(house.service, &first.call);
    HOUSE_AWAIT(&house, first.told == 1);
    assert_int_equal(first.word, ONCE_BUSY);
    life_pass(&house.life, 5000);
    HOUSE_AWAIT(&house, second.told == 1);
    assert_int_equal(second.word, ONCE_DOUBT);
    guest_release(&first);
    guest_release(&second);
    house_close(&house);
}

static void drain__parked__are_told_busy_and_nobody_waits_any_more(void **state)
{
    struct guest *crowd = make_crowd(CROWD);
    struct house house;
    struct guest late;

    (void)state;
    house_open(&house, false);
    (void)house_start(&house, "key", 0);
    begin_crowd(&house, crowd, CROWD, "key", ONCE_ON_DOUBT_REJECT);
    once__service_drain(house.service);
    HOUSE_AWAIT(&house, once__service_pending(house.service) == 0);
    assert_int_equal(count_told(crowd, CROWD, ONCE_BUSY), CROWD);
    guest_begin(&house, &late, "key", WAIT_MS);
    HOUSE_AWAIT(&house, late.told == 1);
    assert_int_equal(late.word, ONCE_BUSY);
    guest_release(&late);
    release_crowd(crowd, CROWD);
    house_close(&house);
}

static void wait__write_fails__everyone_learns_of_it(void **state)
{
    struct guest *crowd = make_crowd(5);
    struct house house;
    struct once__call end = {.op = {.call = ONCE_CALL_FAIL}};
    struct guest unlucky;

    (void)state;
    house_open(&house, false);
    (void)house_start(&house, "key", 0);
    /* An end has its room reserved: it is written, not refused for want of a file. */
    end.op.fence = house_start(&house, "other", 0);
    begin_crowd(&house, crowd, 5, "key", ONCE_ON_DOUBT_REJECT);
    disk_cut(house.life.disk);
    guest_submit(&house, &unlucky, end, "other");
    HOUSE_AWAIT(&house, once__service_pending(house.service) == 0);
    assert_int_not_equal(unlucky.call.op.reply.err, ONCE_OK);
    for (size_t i = 0; i < 5; i++)
        assert_int_not_equal(crowd[i].call.op.reply.err, ONCE_OK);
    guest_release(&unlucky);
    release_crowd(crowd, 5);
    house_close(&house);
}

/* ---- A caller that is gone ------------------------------------------------------------------- */

static void cancel__not_told_yet__is_not_parked(void **state)
{
    struct house house;
    struct guest guest;

    (void)state;
    house_open(&house, true);
    (void)house_start(&house, "key", 0);
    guest_begin(&house, &guest, "key", WAIT_MS); /* decided, and not told */
    once__service_cancel(house.service, &guest.call);
    HOUSE_AWAIT(&house, guest.told == 1);
    assert_int_equal(guest.word, ONCE_BUSY);
    assert_int_equal(once__service_parked(house.service), 0);
    once__service_cancel(house.service, &guest.call); /* too late: nothing happens */
    assert_int_equal(guest.told, 1);
    guest_release(&guest);
    house_close(&house);
}

/* One write at a time: the fail is told, the next one begins, and nothing of it is told yet. */
static void write_one(struct house *house)
{
    struct once__write *write = once__engine_take(house->life.store);

    assert_non_null(write);
    once__engine_written(house->life.store, write, once__engine_write(house->life.store, write));
}

/* The first one who waits is gone between beginning again and being told that it is theirs. */
static void cancel_while_beginning(struct house *house, struct guest *gone, struct guest *next,
                                   const char *owner)
{
    struct guest fail;
    uint64_t fence;

    house_open(house, true);
    fence = house_start(house, "key", 0);
    guest_submit(house, gone,
                 (struct once__call){.op = {.call = ONCE_CALL_BEGIN, .owner = once_bytes_of(owner)},
                                     .wait_ms = WAIT_MS},
                 "key");
    HOUSE_AWAIT(house, once__service_parked(house->service) == 1);
    guest_begin(house, next, "key", WAIT_MS);
    HOUSE_AWAIT(house, once__service_parked(house->service) == 2);
    guest_submit(house, &fail, (struct once__call){.op = {.call = ONCE_CALL_FAIL, .fence = fence}},
                 "key");
    write_one(house);
    assert_int_equal(fail.told, 1);
    assert_int_equal(once__service_parked(house->service), 1);
    assert_int_equal(gone->told, 0);
    once__service_cancel(house->service, &gone->call);
    HOUSE_AWAIT(house, gone->told == 1);
    guest_release(&fail);
}

static void cancel__given_the_operation__gives_it_to_the_next(void **state)
{
    struct house house;
    struct guest gone, next;

    (void)state;
    cancel_while_beginning(&house, &gone, &next, NULL);
    assert_int_equal(gone.word, ONCE_BUSY);
    assert_int_equal(gone.call.op.call, ONCE_CALL_BEGIN);
    house_settle(&house);
    assert_int_equal(next.told, 1);
    assert_int_equal(next.word, ONCE_EXECUTE);
    assert_int_equal(next.call.op.reply.attempt, 3);
    guest_release(&gone);
    guest_release(&next);
    house_close(&house);
}

/* An owner may have asked again elsewhere and been told to execute under that very fence: taking
 * it away would let two execute. */
static void cancel__given_the_operation_to_an_owner__stays_theirs(void **state)
{
    struct house house;
    struct guest gone, next, again;

    (void)state;
    cancel_while_beginning(&house, &gone, &next, "me");
    assert_int_equal(gone.word, ONCE_EXECUTE);
    guest_submit(&house, &again,
                 (struct once__call){.op = {.call = ONCE_CALL_BEGIN, .owner = once_bytes_of("me")}},
                 "key");
    HOUSE_AWAIT(&house, again.told == 1);
    assert_int_equal(again.word, ONCE_EXECUTE);
    assert_int_equal(again.fence, gone.fence);
    assert_int_equal(next.told, 0);
    assert_int_equal(house_complete(&house, "key", again.fence, ""), ONCE_DONE);
    HOUSE_AWAIT(&house, next.told == 1);
    assert_int_equal(next.word, ONCE_REPLAY);
    guest_release(&gone);
    guest_release(&next);
    guest_release(&again);
    house_close(&house);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(submit__many__are_decided_in_order_and_told_once),
        cmocka_unit_test(submit__busy_without_wait__is_told_at_once),
        cmocka_unit_test(submit__store_is_full__the_rest_is_told_so_elsewhere),
        cmocka_unit_test(submit__no_store_yet__is_told_that_it_is_loading),
        cmocka_unit_test(wait__store_takes_nothing_any_more__busy),
        cmocka_unit_test(shared__unreachable_or_not__is_told_with_its_own_time),
        cmocka_unit_test(shared__ended_elsewhere__who_waits_asks_soon),
        cmocka_unit_test(wait__completed__everyone_gets_the_first_answer),
        cmocka_unit_test(wait__other_names__stay_parked),
        cmocka_unit_test(wait__failed__one_executes_and_the_rest_wait_on),
        cmocka_unit_test(wait__forgotten__one_executes),
        cmocka_unit_test(wait__name_belongs_to_another_request__mismatch),
        cmocka_unit_test(wait__lease_is_over__everyone_learns_of_the_doubt),
        cmocka_unit_test(wait__lease_is_over_and_may_retry__one_executes),
        cmocka_unit_test(wait__lease_given_up__everyone_learns_of_the_doubt),
        cmocka_unit_test(wait__a_stranger_finds_the_doubt__everyone_learns_of_it),
        cmocka_unit_test(wait__resolved_as_done__everyone_gets_the_answer),
        cmocka_unit_test(wait__resolved_as_not_done__one_executes),
        cmocka_unit_test(wait__lease_renewed__goes_on_waiting),
        cmocka_unit_test(wait__time_is_up__busy),
        cmocka_unit_test(wait__head_leaves__the_next_one_asks),
        cmocka_unit_test(drain__parked__are_told_busy_and_nobody_waits_any_more),
        cmocka_unit_test(wait__write_fails__everyone_learns_of_it),
        cmocka_unit_test(cancel__not_told_yet__is_not_parked),
        cmocka_unit_test(cancel__given_the_operation__gives_it_to_the_next),
        cmocka_unit_test(cancel__given_the_operation_to_an_owner__stays_theirs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
