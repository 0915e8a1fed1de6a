/* SPDX-License-Identifier: Apache-2.0
 *
 * Callers that go away while their begin is parked. libmicrohttpd does not look at a connection
 * that is suspended, so without this a caller that hung up would be given the operation when its
 * turn comes, and nobody would do it.
 *
 * One thread sleeps in epoll_wait on the sockets of parked requests and cancels the call of one
 * whose peer has closed. A socket leaves the set before its request is resumed, so none is ever
 * looked at that libmicrohttpd may have closed.
 *
 * After a reload it cancels those whose user is gone or has another secret now, too.
 *
 * A request is pinned while its call is cancelled, outside of the lock: told may come meanwhile,
 * and then who pinned it last resumes the request instead. A peer that closed only its own
 * direction counts as gone: it is told BUSY.
 */
#include "server/http_inner.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"

struct once__http_watch {
    struct once__service *service;
    int epoll;
    int wake; /* an eventfd: the end */
    pthread_t thread;
    pthread_mutex_t lock;
    struct once__http_request *first;
    uint64_t last_id; /* 0 is the eventfd's */
};

/* NULL: its call was told meanwhile. */
static struct once__http_request *find(struct once__http_watch *watch, uint64_t id)
{
    struct once__http_request *found = watch->first;

    while (found && found->watch_id != id)
        found = found->watch_next;
    return found;
}

static struct once__http_request *pin(struct once__http_watch *watch, uint64_t id)
{
    struct once__http_request *found;

    pthread_mutex_lock(&watch->lock);
    found = find(watch, id);
    if (found)
        found->watch_pins++;
    pthread_mutex_unlock(&watch->lock);
    return found;
}

static void unpin(struct once__http_watch *watch, struct once__http_request *request)
{
    bool told;

    pthread_mutex_lock(&watch->lock);
    ONCE_ASSERT(request->watch_pins > 0);
    told = --request->watch_pins == 0 && request->watch_told;
    pthread_mutex_unlock(&watch->lock);
    if (told)
        once__http_resume(request);
}

static void *run(void *argument)
{
    struct once__http_watch *watch = argument;

    for (;;) {
        struct epoll_event event;
        int count = epoll_wait(watch->epoll, &event, 1, -1);
        struct once__http_request *request;

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 1 || event.data.u64 == 0)
            return NULL;
        request = pin(watch, event.data.u64);
        if (!request)
            continue;
        once__service_cancel(watch->service, &request->call);
        unpin(watch, request);
    }
}

/* Signals are the business of the thread that runs the server. */
static bool start_thread(struct once__http_watch *watch)
{
    sigset_t all, before;
    int result;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(&watch->thread, NULL, run, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result == 0;
}

int once__http_watch_new(struct once__service *service, struct once__http_watch **ret_watch)
{
    struct once__http_watch *watch = calloc(1, sizeof *watch);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};

    if (!watch)
        return ONCE_ERR_MEMORY;
    watch->service = service;
    watch->epoll = epoll_create1(EPOLL_CLOEXEC);
    watch->wake = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&watch->lock, NULL);
    if (watch->epoll < 0 || watch->wake < 0 ||
        epoll_ctl(watch->epoll, EPOLL_CTL_ADD, watch->wake, &event) != 0 || !start_thread(watch)) {
        if (watch->epoll >= 0)
            close(watch->epoll);
        if (watch->wake >= 0)
            close(watch->wake);
        pthread_mutex_destroy(&watch->lock);
        free(watch);
        return ONCE_ERR_IO;
    }
    *ret_watch = watch;
    return ONCE_OK;
}

void once__http_watch_free(struct once__http_watch *watch)
{
    uint64_t one = 1;
    ssize_t written;

    if (!watch)
        return;
    ONCE_ASSERT(!watch->first);
    do
        written = write(watch->wake, &one, sizeof one);
    while (written < 0 && errno == EINTR);
    ONCE_ASSERT(written == sizeof one);
    pthread_join(watch->thread, NULL);
    close(watch->epoll);
    close(watch->wake);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

static int socket_of(const struct once__http_request *request)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info ? info->connect_fd : -1;
}

uint64_t once__http_watch_begin(struct once__http_watch *watch, struct once__http_request *request)
{
    uint64_t id;

    ONCE_ASSERT(!request->watched);
    pthread_mutex_lock(&watch->lock);
    id = request->watch_id = ++watch->last_id;
    request->watched = true;
    request->watch_pins = 0;
    request->watch_armed = false;
    request->watch_told = false;
    request->watch_next = watch->first;
    request->watch_link = &watch->first;
    if (watch->first)
        watch->first->watch_link = &request->watch_next;
    watch->first = request;
    pthread_mutex_unlock(&watch->lock);
    return id;
}

void once__http_watch_arm(struct once__http_watch *watch, uint64_t id)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = id};
    struct once__http_request *request;

    pthread_mutex_lock(&watch->lock);
    request = find(watch, id);
    /* What cannot be watched is told in its time, as if its caller were there. */
    if (request) {
        request->watch_armed = true;
        (void)epoll_ctl(watch->epoll, EPOLL_CTL_ADD, socket_of(request), &event);
    }
    pthread_mutex_unlock(&watch->lock);
}

/* The newest request before this id whose user means nothing to the configuration, pinned. Only one
 * that was submitted can be cancelled. */
static struct once__http_request *pin_stranger(struct once__http_watch *watch,
                                               const struct once__config *config, uint64_t before)
{
    struct once__http_request *found;

    pthread_mutex_lock(&watch->lock);
    for (found = watch->first; found; found = found->watch_next) {
        struct once__identity identity = found->identity;

        if (found->watch_armed && found->watch_id < before &&
            !once__identity_renew(&identity, config))
            break;
    }
    if (found)
        found->watch_pins++;
    pthread_mutex_unlock(&watch->lock);
    return found;
}

void once__http_watch_renew(struct once__http_watch *watch, const struct once__config *config)
{
    struct once__http_request *request;
    uint64_t before = UINT64_MAX;

    while ((request = pin_stranger(watch, config, before)) != NULL) {
        before = request->watch_id; /* newer ones stand before it in the list */
        once__service_cancel(watch->service, &request->call);
        unpin(watch, request);
    }
}

bool once__http_watch_end(struct once__http_watch *watch, struct once__http_request *request)
{
    bool pinned;

    if (!request->watched)
        return true;
    pthread_mutex_lock(&watch->lock);
    (void)epoll_ctl(watch->epoll, EPOLL_CTL_DEL, socket_of(request), NULL);
    *request->watch_link = request->watch_next;
    if (request->watch_next)
        request->watch_next->watch_link = request->watch_link;
    request->watched = false;
    pinned = request->watch_pins > 0;
    request->watch_told = pinned;
    pthread_mutex_unlock(&watch->lock);
    return !pinned;
}
