/* SPDX-License-Identifier: Apache-2.0
 *
 * The requests that are at the service behind the gateway. Players share the list; a request that
 * was taken is its taker's alone.
 */
#include "conformance/gateway_held.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "conformance/served.h"

void held_init(struct held_list *list)
{
    list->first = NULL;
    ONCE_ASSERT(pthread_mutex_init(&list->lock, NULL) == 0);
}

void held_release(struct held_list *list)
{
    while (list->first) {
        struct held *held = list->first;
        struct gateway_answer answer;

        list->first = held->next;
        gateway_say(&held->pair, 0, once_bytes_of(""));
        gateway_read(&held->pair, &answer);
        gateway_close(&held->pair);
        free(held);
    }
    pthread_mutex_destroy(&list->lock);
}

static void copy(char *to, const char *text)
{
    served_copy(to, once_bytes_of(text ? text : ""));
}

void held_add(struct held_list *list, const struct conformance_call *call, uint64_t fence,
              struct gateway_pair pair)
{
    struct held *held = calloc(1, sizeof(*held));

    ONCE_ASSERT(held != NULL);
    copy(held->ns, call->ns);
    copy(held->key, call->key);
    copy(held->owner, call->owner);
    copy(held->fingerprint, call->fingerprint);
    held->fence = fence;
    held->pair = pair;
    pthread_mutex_lock(&list->lock);
    held->next = list->first;
    list->first = held;
    pthread_mutex_unlock(&list->lock);
}

static bool is_of(const struct held *held, const struct conformance_call *call)
{
    return strcmp(held->ns, call->ns) == 0 && strcmp(held->key, call->key) == 0;
}

struct held *held_take(struct held_list *list, const struct conformance_call *call)
{
    struct held *found = NULL;

    pthread_mutex_lock(&list->lock);
    for (struct held **at = &list->first; *at && !found;) {
        if (is_of(*at, call) && (*at)->fence == call->fence) {
            found = *at;
            *at = found->next;
        } else {
            at = &(*at)->next;
        }
    }
    pthread_mutex_unlock(&list->lock);
    return found;
}

bool held_by_caller(struct held_list *list, const struct conformance_call *call)
{
    bool found = false;

    pthread_mutex_lock(&list->lock);
    for (const struct held *held = list->first; held && call->owner && !found; held = held->next)
        found = is_of(held, call) && !held->over && strcmp(held->owner, call->owner) == 0 &&
                strcmp(held->fingerprint, call->fingerprint ? call->fingerprint : "") == 0;
    pthread_mutex_unlock(&list->lock);
    return found;
}

void held_mark_over(struct held_list *list, const struct conformance_call *call)
{
    pthread_mutex_lock(&list->lock);
    for (struct held *held = list->first; held; held = held->next)
        held->over |= is_of(held, call) && held->fence == call->fence;
    pthread_mutex_unlock(&list->lock);
}
