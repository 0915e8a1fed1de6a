/* SPDX-License-Identifier: Apache-2.0
 *
 * The waiting room by itself: lines, deadlines and probes against a plain model, and its bound.
 */
#include "seeded.h"

#include "server/room.h"

enum { GUESTS = 400, NAMES = 12, STEPS = 20000 };

#define SECOND_NS 1000000000ULL

/* What the model knows of a guest. */
enum place { OUTSIDE, PARKED, TOLD };

struct guest {
    struct once__call call; /* first */
    unsigned name;
    enum place place;
    unsigned number; /* the how manieth to come; a guest keeps it when it begins again */
    bool over;       /* its wait is over */
};

struct line {
    struct guest *guests[GUESTS];
    size_t count;
    bool due; /* its head's probe */
};

struct model {
    struct once__metrics *metrics;
    struct once__room *room;
    struct guest guests[GUESTS];
    struct line lines[NAMES];
    char names[NAMES][16];
    unsigned last_number;
    size_t parked;
    size_t told; /* cancelled, and not told yet */
};

static void model_open(struct model *model)
{
    memset(model, 0, sizeof(*model));
    assert_int_equal(once__metrics_new(&model->metrics), ONCE_OK);
    assert_int_equal(once__room_new(model->metrics, &model->room), ONCE_OK);
    for (unsigned i = 0; i < NAMES; i++)
        snprintf(model->names[i], sizeof(model->names[i]), "key-%u", i);
}

/* Times long ago, so that what is due is due now: probes at once, waits in the past or far in the
 * future. */
static void model_park(struct model *model, struct guest *guest, unsigned name, bool over)
{
    uint64_t now_ns = once__now_ns();
    struct line *line;
    size_t at = 0;

    if (guest->number == 0) {
        memset(guest, 0, sizeof(*guest));
        guest->name = name;
        guest->number = ++model->last_number;
    }
    guest->call.op.ns = once_bytes_of("test");
    guest->call.op.key = once_bytes_of(model->names[guest->name]);
    guest->call.op.reply.retry_ms = 1;
    guest->call.wait_until_ns = over ? now_ns - 50 * SECOND_NS : now_ns + 1000 * SECOND_NS;
    assert_true(once__room_park(model->room, &guest->call, now_ns - 100 * SECOND_NS));
    guest->over = over;
    guest->place = PARKED;
    model->parked++;
    line = &model->lines[guest->name];
    if (line->count > 0 && guest->number > line->guests[0]->number)
        at = line->count;
    memmove(&line->guests[at + 1], &line->guests[at], (line->count - at) * sizeof(line->guests[0]));
    line->guests[at] = guest;
    line->count++;
    line->due = true;
}

static void model_leave(struct model *model, struct guest *guest)
{
    struct line *line = &model->lines[guest->name];
    size_t at = 0;

    while (at < line->count && line->guests[at] != guest)
        at++;
    assert_true(at < line->count);
    line->count--;
    memmove(&line->guests[at], &line->guests[at + 1], (line->count - at) * sizeof(line->guests[0]));
    guest->place = OUTSIDE;
    model->parked--;
}

/* Those who may ask. */
static struct guest *model_asks(const struct line *line)
{
    for (size_t i = 0; i < line->count; i++) {
        if (!line->guests[i]->over)
            return line->guests[i];
    }
    return NULL;
}

static void model_take(struct model *model, unsigned name, bool all)
{
    struct once_op op = {.ns = once_bytes_of("test"), .key = once_bytes_of(model->names[name])};
    struct once__call *list = once__room_take(model->room, &op, all, once__now_ns());
    struct line *line = &model->lines[name];
    size_t expected = line->count > 0 ? (all ? line->count : 1) : 0;

    for (; list; list = list->parking.chain) {
        assert_true(expected-- > 0);
        assert_ptr_equal(list, line->guests[0]);
        assert_true(list->parking.again);
        assert_false(list->parking.parked);
        model_leave(model, line->guests[0]);
    }
    assert_int_equal(expected, 0);
    line->due = false;
}

static void model_cancel(struct model *model, struct guest *guest)
{
    if (guest->place != PARKED)
        return;
    once__room_cancel(model->room, &guest->call);
    assert_true(once__room_cancelled(model->room, &guest->call));
    model_leave(model, guest);
    guest->place = TOLD;
    model->told++;
}

static bool something_is_due(const struct model *model)
{
    bool due = model->told > 0;

    for (unsigned i = 0; i < NAMES; i++) {
        const struct line *line = &model->lines[i];

        due |= line->due && line->count > 0;
        for (size_t j = 0; j < line->count; j++)
            due |= line->guests[j]->over;
    }
    return due;
}

/* Told: those who were cancelled, and those whose wait is over. Asking: one of each line. */
static void model_wait(struct model *model)
{
    struct guest *asks[NAMES];
    struct once__room_due due = {NULL, NULL};

    if (!something_is_due(model))
        return; /* it would wait */
    for (unsigned i = 0; i < NAMES; i++)
        asks[i] = model_asks(&model->lines[i]);
    assert_true(once__room_wait(model->room, &due));
    for (; due.tell; due.tell = due.tell->parking.chain) {
        struct guest *guest = (struct guest *)(void *)due.tell;

        if (guest->place == TOLD) {
            model->told--;
        } else {
            assert_true(guest->place == PARKED && guest->over);
            model_leave(model, guest);
        }
        guest->place = OUTSIDE;
        guest->number = 0;
    }
    for (; due.again; due.again = due.again->parking.chain) {
        struct guest *guest = (struct guest *)(void *)due.again;

        assert_ptr_equal(guest, asks[guest->name]);
        asks[guest->name] = NULL;
        model_leave(model, guest);
        model->lines[guest->name].due = false;
    }
    assert_int_equal(model->told, 0);
    for (unsigned i = 0; i < NAMES; i++)
        assert_false(asks[i] && model->lines[i].due);
    assert_false(something_is_due(model));
}

static void model_close(struct model *model)
{
    struct once__room_due due = {NULL, NULL};
    size_t told = 0;

    once__room_drain(model->room);
    assert_int_equal(once__room_count(model->room), 0);
    once__room_stop(model->room);
    if (model->told + model->parked > 0)
        assert_true(once__room_wait(model->room, &due));
    for (; due.tell; due.tell = due.tell->parking.chain)
        told++;
    assert_int_equal(told, model->told + model->parked);
    assert_false(once__room_wait(model->room, &due));
    once__room_free(model->room);
    once__metrics_free(model->metrics);
}

static void room__whatever_happens__is_what_the_model_says(void **state)
{
    static struct model model;
    uint64_t seed = seeded_start("room");

    (void)state;
    model_open(&model);
    for (unsigned step = 0; step < STEPS; step++) {
        struct guest *guest = &model.guests[seeded_below(&seed, GUESTS)];
        unsigned name = (unsigned)seeded_below(&seed, NAMES);
        uint64_t what = seeded_below(&seed, 200);

        if (what < 2)
            model_wait(&model);
        else if (what < 6)
            model_take(&model, name, true);
        else if (what < 30)
            model_take(&model, name, false);
        else if (what < 60)
            model_cancel(&model, guest);
        else if (guest->place == OUTSIDE && !guest->call.parking.cancelled)
            model_park(&model, guest, name, seeded_below(&seed, 4) == 0);
        assert_int_equal(once__room_count(model.room), model.parked);
        assert_int_equal(once__metrics_read(model.metrics, ONCE__PARKED), model.parked);
    }
    model_close(&model);
}

static void park__cancelled_or_over__is_refused(void **state)
{
    static struct model model;
    uint64_t now_ns = once__now_ns();
    struct once__call call = {.op = {.ns = once_bytes_of("n"), .key = once_bytes_of("k")}};

    (void)state;
    model_open(&model);
    call.wait_until_ns = now_ns;
    assert_false(once__room_park(model.room, &call, now_ns));
    call.wait_until_ns = now_ns + SECOND_NS;
    once__room_cancel(model.room, &call);
    assert_false(once__room_park(model.room, &call, now_ns));
    call.parking.cancelled = false;
    once__room_drain(model.room);
    assert_false(once__room_park(model.room, &call, now_ns));
    model_close(&model);
}

/* Each under a name of its own: the table has chains, and the heap is as large as it gets. */
static void park__as_many_as_may__the_next_is_refused(void **state)
{
    static struct model model;
    struct once__call *calls = calloc(ONCE_PARKED_MAX + 1, sizeof(struct once__call));
    uint32_t *keys = calloc(ONCE_PARKED_MAX + 1, sizeof(uint32_t));
    uint64_t now_ns = once__now_ns();
    struct once__room_due due = {NULL, NULL};

    (void)state;
    assert_non_null(calls);
    assert_non_null(keys);
    model_open(&model);
    for (uint32_t i = 0; i <= ONCE_PARKED_MAX; i++) {
        keys[i] = i;
        calls[i].op.ns = once_bytes_of("test");
        calls[i].op.key = (struct once_bytes){(const uint8_t *)&keys[i], sizeof(keys[i])};
        calls[i].op.reply.retry_ms = 1000000;
        calls[i].wait_until_ns = now_ns + (1000000 - i) * SECOND_NS;
        assert_int_equal(once__room_park(model.room, &calls[i], now_ns), i < ONCE_PARKED_MAX);
    }
    assert_int_equal(once__room_count(model.room), ONCE_PARKED_MAX);
    for (uint32_t i = 0; i < ONCE_PARKED_MAX; i += 2)
        assert_ptr_equal(once__room_take(model.room, &calls[i].op, false, now_ns), &calls[i]);
    assert_int_equal(once__room_count(model.room), ONCE_PARKED_MAX / 2);
    assert_true(once__room_park(model.room, &calls[ONCE_PARKED_MAX], now_ns));
    once__room_drain(model.room);
    assert_true(once__room_wait(model.room, &due));
    model_close(&model);
    free(calls);
    free(keys);
}

/* A crowd does not ask the database as often as a few do. */
static void share__many_wait__each_asks_less_often(void **state)
{
    enum { CROWD = 4000 };
    static struct model model;
    static struct once__call calls[CROWD];
    static uint32_t keys[CROWD];
    uint64_t now_ns = once__now_ns();

    (void)state;
    model_open(&model);
    once__room_share(model.room);
    for (uint32_t i = 0; i < CROWD; i++) {
        keys[i] = i;
        calls[i].op.ns = once_bytes_of("test");
        calls[i].op.key = (struct once_bytes){(const uint8_t *)&keys[i], sizeof(keys[i])};
        calls[i].op.reply.retry_ms = i == 1 ? 5 : 1000;
        calls[i].wait_until_ns = now_ns + 1000000 * SECOND_NS;
        assert_true(once__room_park(model.room, &calls[i], now_ns));
    }
    assert_int_equal(calls[0].parking.probe_ns - now_ns, ONCE_PROBE_MS_MIN * 1000000);
    assert_int_equal(calls[1].parking.probe_ns - now_ns, 6 * 1000000); /* the lease's end */
    assert_true(calls[CROWD / 2 - 1].parking.probe_ns - now_ns >= SECOND_NS - SECOND_NS / 100);
    assert_true(calls[CROWD - 1].parking.probe_ns - now_ns <= 1001000000);
    model.parked = CROWD;
    model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room__whatever_happens__is_what_the_model_says),
        cmocka_unit_test(park__cancelled_or_over__is_refused),
        cmocka_unit_test(park__as_many_as_may__the_next_is_refused),
        cmocka_unit_test(share__many_wait__each_asks_less_often),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
