/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes: order, bounds, ends, and that their threads work side by side.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "server/work.h"

enum { JOBS = 100 };

struct task {
    struct once__job job; /* first */
    unsigned number;
    struct book *book;
};

/* Who was run, in order; and a gate that a job can be held at. */
struct book {
    struct task tasks[JOBS];
    unsigned order[JOBS];
    _Atomic unsigned count;
    _Atomic bool at_gate;
    _Atomic bool open;
};

static void prepare(struct book *book, void (*run)(struct once__job *job))
{
    *book = (struct book){.count = 0};
    for (unsigned i = 0; i < JOBS; i++)
        book->tasks[i] = (struct task){.job = {.run = run}, .number = i, .book = book};
}

static void note(struct once__job *job)
{
    struct task *task = (struct task *)(void *)job;

    task->book->order[task->book->count] = task->number;
    task->book->count++;
}

static void wait_at_gate(struct once__job *job)
{
    struct book *book = ((struct task *)(void *)job)->book;

    book->at_gate = true;
    while (!book->open)
        sched_yield();
    note(job);
}

static struct once__lane *make_lane(unsigned threads, size_t jobs_max)
{
    struct once__lane *lane = NULL;

    assert_int_equal(once__lane_new(threads, jobs_max, &lane), ONCE_OK);
    return lane;
}

static void lane__one_thread__runs_in_order_and_all_before_it_ends(void **state)
{
    static struct book book;
    struct once__lane *lane = make_lane(1, JOBS);

    (void)state;
    prepare(&book, note);
    for (unsigned i = 0; i < JOBS; i++)
        assert_int_equal(once__lane_add(lane, &book.tasks[i].job), ONCE_OK);
    once__lane_free(lane);
    assert_int_equal(book.count, JOBS);
    for (unsigned i = 0; i < JOBS; i++)
        assert_int_equal(book.order[i], i);
}

static void lane__as_many_wait_as_may__refuses_and_runs_them_later(void **state)
{
    static struct book book;
    struct once__lane *lane = make_lane(1, 3);

    (void)state;
    prepare(&book, note);
    book.tasks[0].job.run = wait_at_gate;
    assert_int_equal(once__lane_add(lane, &book.tasks[0].job), ONCE_OK);
    while (!book.at_gate) /* it runs: it does not wait any more */
        sched_yield();
    for (unsigned i = 1; i <= 3; i++)
        assert_int_equal(once__lane_add(lane, &book.tasks[i].job), ONCE_OK);
    assert_int_equal(once__lane_add(lane, &book.tasks[4].job), ONCE_ERR_FULL);
    book.open = true;
    while (book.count < 4)
        sched_yield();
    assert_int_equal(once__lane_add(lane, &book.tasks[4].job), ONCE_OK);
    once__lane_free(lane);
    assert_int_equal(book.count, 5);
    assert_int_equal(book.order[4], 4);
}

struct pair {
    struct once__job job; /* first */
    pthread_barrier_t *meeting;
};

static void meet(struct once__job *job)
{
    pthread_barrier_wait(((struct pair *)(void *)job)->meeting);
}

/* Each waits for the other: one thread alone would never end. */
static void lane__two_threads__run_side_by_side(void **state)
{
    pthread_barrier_t meeting;
    struct pair one = {{.run = meet}, &meeting}, other = {{.run = meet}, &meeting};
    struct once__lane *lane = make_lane(2, 4);

    (void)state;
    pthread_barrier_init(&meeting, NULL, 2);
    assert_int_equal(once__lane_add(lane, &one.job), ONCE_OK);
    assert_int_equal(once__lane_add(lane, &other.job), ONCE_OK);
    once__lane_free(lane);
    pthread_barrier_destroy(&meeting);
}

struct stubborn {
    struct once__job job; /* first */
    struct once__lane *lane;
    struct once__job more;
    _Atomic unsigned ran;
    _Atomic bool added;
    int last;
};

static void count_more(struct once__job *job)
{
    struct stubborn *self = (struct stubborn *)(void *)((char *)job -
                                                        offsetof(struct stubborn, more));

    self->ran++;
}

/* Adds until it is told that the lane is being freed. */
static void add_until_closed(struct once__job *job)
{
    struct stubborn *self = (struct stubborn *)(void *)job;

    self->added = once__lane_add(self->lane, &self->more) == ONCE_OK;
    do {
        sched_yield();
        self->last = once__lane_add(self->lane, &self->job);
    } while (self->last == ONCE_ERR_FULL);
}

static void lane__being_freed__takes_nothing_and_runs_what_it_has(void **state)
{
    struct once__lane *lane = make_lane(1, 1);
    struct stubborn stubborn = {
        .job = {.run = add_until_closed}, .lane = lane, .more = {.run = count_more}};

    (void)state;
    assert_int_equal(once__lane_add(lane, &stubborn.job), ONCE_OK);
    while (!stubborn.added)
        sched_yield();
    once__lane_free(lane);
    assert_int_equal(stubborn.last, ONCE_ERR_CLOSED);
    assert_int_equal(stubborn.ran, 1);
    once__lane_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lane__one_thread__runs_in_order_and_all_before_it_ends),
        cmocka_unit_test(lane__as_many_wait_as_may__refuses_and_runs_them_later),
        cmocka_unit_test(lane__two_threads__run_side_by_side),
        cmocka_unit_test(lane__being_freed__takes_nothing_and_runs_what_it_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
