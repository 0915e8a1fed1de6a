/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes: a queue of jobs and the threads that run them. A job is run once, by one thread, and jobs
 * are taken in the order in which they were added; what waits is bounded. A lane that is being
 * freed takes nothing new and runs what it has.
 */
#include "server/work.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/assert.h"

struct once__lane {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct once__job *first;
    struct once__job **tail;
    size_t count;
    size_t jobs_max;
    bool closed;
    unsigned thread_count;
    pthread_t threads[];
};

static struct once__job *take(struct once__lane *lane)
{
    struct once__job *job = lane->first;

    if (!job)
        return NULL;
    lane->first = job->next;
    if (!lane->first)
        lane->tail = &lane->first;
    lane->count--;
    job->next = NULL;
    return job;
}

static void *lane_main(void *arg)
{
    struct once__lane *lane = arg;

    pthread_mutex_lock(&lane->lock);
    for (;;) {
        struct once__job *job = take(lane);

        if (job) {
            pthread_mutex_unlock(&lane->lock);
            job->run(job); /* the job may be gone from here on */
            pthread_mutex_lock(&lane->lock);
        } else if (lane->closed) {
            break;
        } else {
            pthread_cond_wait(&lane->more, &lane->lock);
        }
    }
    pthread_mutex_unlock(&lane->lock);
    return NULL;
}

/* Signals are the business of the thread that runs the server. */
static void start_threads(struct once__lane *lane, unsigned threads)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (lane->thread_count < threads) {
        if (pthread_create(&lane->threads[lane->thread_count], NULL, lane_main, lane) != 0)
            break;
        lane->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int once__lane_new(unsigned threads, size_t jobs_max, struct once__lane **ret_lane)
{
    struct once__lane *lane;

    ONCE_ASSERT(threads > 0);
    ONCE_ASSERT(jobs_max > 0);
    lane = calloc(1, sizeof(*lane) + threads * sizeof(lane->threads[0]));
    if (!lane)
        return ONCE_ERR_MEMORY;
    lane->tail = &lane->first;
    lane->jobs_max = jobs_max;
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->more, NULL);
    start_threads(lane, threads);
    if (lane->thread_count == 0) { /* with fewer than asked for it is only slower */
        once__lane_free(lane);
        return ONCE_ERR_MEMORY;
    }
    *ret_lane = lane;
    return ONCE_OK;
}

void once__lane_free(struct once__lane *lane)
{
    if (!lane)
        return;
    pthread_mutex_lock(&lane->lock);
    lane->closed = true;
    pthread_cond_broadcast(&lane->more);
    pthread_mutex_unlock(&lane->lock);
    for (unsigned i = 0; i < lane->thread_count; i++)
        pthread_join(lane->threads[i], NULL);
    ONCE_ASSERT(!lane->first || lane->thread_count == 0);
    pthread_cond_destroy(&lane->more);
    pthread_mutex_destroy(&lane->lock);
    free(lane);
}

int once__lane_add(struct once__lane *lane, struct once__job *job)
{
    int err = ONCE_OK;

    ONCE_ASSERT(job->run);
    pthread_mutex_lock(&lane->lock);
    if (lane->closed) {
        err = ONCE_ERR_CLOSED;
    } else if (lane->count >= lane->jobs_max) {
        err = ONCE_ERR_FULL;
    } else {
        job->next = NULL;
        *lane->tail = job;
        lane->tail = &job->next;
        lane->count++;
        pthread_cond_signal(&lane->more);
    }
    pthread_mutex_unlock(&lane->lock);
    return err;
}
