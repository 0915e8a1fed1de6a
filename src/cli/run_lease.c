/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the lease while the command runs, on a thread of its own: the store may keep it waiting
 * while output must flow.
 *
 * A renewal that fails is repeated, through restarts of a server and changes of the folder's owner.
 * A lease that was lost is told, and the command goes on: to stop it halfway would make less known,
 * not more. Its end is still taken unless someone resolved the operation meanwhile.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "cli/echo.h"
#include "cli/run.h"

enum { PATIENCE_MS = 300, AGAIN_MS_MIN = 20, AGAIN_MS_MAX = 1000 };

/* Sleeps; true: stop. */
static bool pause_or_stop(struct run_lease *lease, once_ms ms)
{
    struct timespec until;
    bool stop;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_mutex_lock(&lease->lock);
    while (!lease->stop && pthread_cond_timedwait(&lease->wake, &lease->lock, &until) != ETIMEDOUT)
        continue;
    stop = lease->stop;
    (void)pthread_mutex_unlock(&lease->lock);
    return stop;
}

/* Which process the command is: known since it was started. Not where the command has made a
 * recovery point of its own. */
static bool say_child(struct run *run)
{
    static const char RUNNING[] = "running";
    struct once_op op = {.call = ONCE_CALL_CHECKPOINT,
                         .ns = run->name.ns,
                         .key = run->name.key,
                         .fence = run->fence,
                         .point = once_bytes_of(RUNNING),
                         .follows = true,
                         .after = once_bytes_of(RUNNING)};
    struct once_buf facts;
    bool said;

    if (run_facts(run, run->child.pid, &facts) != ONCE_OK)
        return false;
    op.data = once_buf_bytes(&facts);
    said = cli_reach_op(&run->reach, &op, 0) == ONCE_OK;
    once_reply_release(&op.reply);
    once_buf_release(&facts);
    return said;
}

static int renew(struct run *run, enum once_word *ret_word)
{
    struct once_op op = {.call = ONCE_CALL_RENEW,
                         .ns = run->name.ns,
                         .key = run->name.key,
                         .fence = run->fence,
                         .lease_ms = run->args->lease_ms};
    int err = cli_reach_op(&run->reach, &op, 0);

    *ret_word = op.reply.word;
    once_reply_release(&op.reply);
    return err;
}

static void tell_lost(const struct run *run, enum once_word word)
{
    const char *key = run->args->key;

    if (word == ONCE_DOUBT)
        (void)cli_message(&cli_run, 0,
                          "THE LEASE OF '%s' IS OVER: it could not be renewed in time, and the key "
                          "is in doubt. The command goes on; its end is recorded unless someone "
                          "resolves the doubt before",
                          cli_echo(key).text);
    else
        (void)cli_message(&cli_run, 0,
                          "'%s' IS NOT OURS ANY MORE: someone resolved it, took it over or forgot "
                          "it while the command was running. The command goes on; its end will not "
                          "be recorded",
                          cli_echo(key).text);
}

static void *keep(void *user)
{
    struct run_lease *lease = user;
    struct run *run = lease->run;
    once_ms third_ms = run->args->lease_ms / 3, renewed_ms = run->begun_ms, left_ms;
    once_ms again_ms = AGAIN_MS_MIN;
    bool told = false, said = run->point[0] != '\0';
    enum once_word word;

    run->reach.patience_ms = PATIENCE_MS;
    left_ms = renewed_ms + third_ms - run_clock_ms();
    while (!pause_or_stop(lease, left_ms > 0 ? left_ms : 0)) {
        once_ms asked_ms = run_clock_ms();
        int err;

        (void)pthread_mutex_lock(&run->at_store);
        err = renew(run, &word);
        if (err == ONCE_OK && word == ONCE_DONE && !said)
            said = say_child(run);
        cli_reach_rest(&run->reach);
        (void)pthread_mutex_unlock(&run->at_store);

        if (err == ONCE_OK && word != ONCE_DONE) {
            lease->is_lost = true;
            tell_lost(run, word);
            return NULL;
        }
        if (err == ONCE_OK) {
            renewed_ms = asked_ms;
            again_ms = AGAIN_MS_MIN;
            left_ms = renewed_ms + third_ms - run_clock_ms();
        } else {
            if (!told && asked_ms - renewed_ms > 2 * third_ms && !run->args->quiet)
                told = cli_message(
                           &cli_run, 1, "the lease of '%s' cannot be renewed: %s; trying on",
                           cli_echo(run->args->key).text, cli_reach_text(&run->reach, err)) == 1;
            left_ms = again_ms;
            again_ms = 2 * again_ms < AGAIN_MS_MAX ? 2 * again_ms : AGAIN_MS_MAX;
        }
    }
    return NULL;
}

void run_lease_start(struct run_lease *lease, struct run *run)
{
    pthread_condattr_t monotonic;

    *lease = (struct run_lease){.run = run};
    (void)pthread_mutex_init(&lease->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&lease->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    lease->is_running = pthread_create(&lease->thread, NULL, keep, lease) == 0;
    if (!lease->is_running)
        (void)cli_message(&cli_run, 0, "the lease of '%s' cannot be renewed: %s",
                          cli_echo(run->args->key).text, once_err_text(ONCE_ERR_MEMORY));
}

void run_lease_stop(struct run_lease *lease)
{
    if (lease->is_running) {
        (void)pthread_mutex_lock(&lease->lock);
        lease->stop = true;
        (void)pthread_cond_signal(&lease->wake);
        (void)pthread_mutex_unlock(&lease->lock);
        (void)pthread_join(lease->thread, NULL);
        lease->is_running = false;
    }
    (void)pthread_cond_destroy(&lease->wake);
    (void)pthread_mutex_destroy(&lease->lock);
}
