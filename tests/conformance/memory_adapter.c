/* SPDX-License-Identifier: Apache-2.0
 *
 * The first adapter: a store in memory on the core, nothing durable. It shows the flow that every
 * store has: find the record, let the core decide, keep the next record, answer.
 */
#include "conformance/conformance.h"

#include "base/assert.h"
#include "core/decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One record with the bytes that it borrows. */
struct entry {
    char ns[ONCE_NAMESPACE_SIZE_MAX + 1];
    struct once_key key;
    struct once_record record;
    uint8_t *bytes;
    struct entry *next;
};

struct memory_store {
    once_ms now_ms;
    uint64_t last_fence;
    struct entry *entries;
};

static void *must_allocate(size_t size)
{
    void *memory = calloc(1, size > 0 ? size : 1);

    ONCE_ASSERT(memory != NULL);
    return memory;
}

static void *store_open(once_ms start_ms)
{
    struct memory_store *store = must_allocate(sizeof(*store));

    store->now_ms = start_ms;
    return store;
}

static void store_close(void *self)
{
    struct memory_store *store = self;

    while (store->entries) {
        struct entry *entry = store->entries;

        store->entries = entry->next;
        free(entry->bytes);
        free(entry);
    }
    free(store);
}

static void store_advance(void *self, once_ms by_ms)
{
    struct memory_store *store = self;

    store->now_ms += by_ms;
}

static struct once_moment moment_of(const struct memory_store *store)
{
    struct once_moment moment = {.now_ms = store->now_ms, .next_fence = store->last_fence + 1};

    return moment;
}

/* The entry of this name, absent until something is decided. NULL when the key is not one. */
static struct entry *find(struct memory_store *store, const struct conformance_call *call,
                          struct conformance_answer *ret)
{
    struct once_key key;
    struct entry *entry;

    *ret = (struct conformance_answer){.err = ONCE_OK};
    ret->err = once_namespace_check(once_bytes_of(call->ns), NULL);
    if (ret->err == ONCE_OK)
        ret->err = once_key_business(once_bytes_of(call->key), &key, NULL);
    if (ret->err == ONCE_OK)
        ret->err = once__moment_check(moment_of(store), NULL);
    if (ret->err != ONCE_OK)
        return NULL;
    for (entry = store->entries; entry; entry = entry->next) {
        if (strcmp(entry->ns, call->ns) == 0 && strcmp(entry->key.text, key.text) == 0)
            return entry;
    }
    entry = must_allocate(sizeof(*entry));
    snprintf(entry->ns, sizeof(entry->ns), "%s", call->ns);
    entry->key = key;
    entry->next = store->entries;
    store->entries = entry;
    return entry;
}

static uint8_t *copy_into(uint8_t *at, struct once_bytes *bytes)
{
    if (bytes->size > 0)
        memcpy(at, bytes->data, bytes->size);
    bytes->data = at;
    return at + bytes->size;
}

/* What a durable store does with its log: the next record must outlive the request it borrows
 * from. */
static void keep(struct memory_store *store, struct entry *entry, struct once_record next)
{
    size_t size = next.owner.size + next.point.size + next.data.size + next.result.size;
    uint8_t *bytes = must_allocate(size), *at = bytes;
    struct once_defect defect = {0, NULL};

    at = copy_into(at, &next.owner);
    at = copy_into(at, &next.point);
    at = copy_into(at, &next.data);
    at = copy_into(at, &next.result);
    ONCE_ASSERT(at == bytes + size);
    ONCE_ASSERT(once__record_check(&next, &defect) == ONCE_OK);
    free(entry->bytes);
    entry->bytes = bytes;
    entry->record = next;
    if (next.fence > store->last_fence)
        store->last_fence = next.fence;
}

static void copy_text(char *to, struct once_bytes bytes)
{
    size_t size = bytes.size < CONFORMANCE_BYTES_MAX ? bytes.size : CONFORMANCE_BYTES_MAX - 1;

    if (size > 0)
        memcpy(to, bytes.data, size);
    to[size] = '\0';
}

static void tell_attempt(const struct once_record *record, struct conformance_answer *ret)
{
    ret->fence = record->fence;
    ret->attempt = record->attempt;
    copy_text(ret->point, record->point);
    copy_text(ret->data, record->data);
}

static void tell_result(const struct once_record *record, struct conformance_answer *ret)
{
    ret->code = record->code;
    ret->result_size = record->result.size;
    copy_text(ret->result, record->result);
}

static void settle(struct memory_store *store, struct entry *entry, struct once_decision decision,
                   struct conformance_answer *ret)
{
    if (decision.changed)
        keep(store, entry, decision.next);
    ret->word = decision.word;
    ret->retry_ms = decision.retry_ms;
    if (decision.word == ONCE_EXECUTE || decision.word == ONCE_DOUBT)
        tell_attempt(&entry->record, ret);
    if (decision.word == ONCE_REPLAY)
        tell_result(&entry->record, ret);
}

static void store_begin(void *self, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    struct memory_store *store = self;
    struct entry *entry = find(store, call, ret);
    struct once_request request = {
        .owner = once_bytes_of(call->owner),
        .birth_ms = once_key_birth_ms(once_bytes_of(call->key)),
        .retention_ms = call->ttl_ms != 0 ? call->ttl_ms : ONCE_RETENTION_MS_DEFAULT,
        .lease_ms = call->lease_ms != 0 ? call->lease_ms : ONCE_LEASE_MS_DEFAULT,
        .on_doubt = call->on_doubt,
    };

    if (!entry)
        return;
    ret->err = once_fingerprint_from_bytes(once_bytes_of(call->fingerprint), &request.fingerprint);
    if (ret->err == ONCE_OK)
        ret->err = once__request_check(&request, store->now_ms, NULL);
    if (ret->err == ONCE_OK)
        settle(store, entry, once__decide_begin(&entry->record, &request, moment_of(store)), ret);
}

static void store_complete(void *self, const struct conformance_call *call,
                           struct conformance_answer *ret)
{
    struct memory_store *store = self;
    struct entry *entry = find(store, call, ret);
    struct once_answer answer = {.code = call->code, .result = call->result};

    if (!entry)
        return;
    ret->err = once__answer_check(&answer, NULL);
    if (ret->err == ONCE_OK)
        settle(store, entry,
               once__decide_complete(&entry->record, call->fence, &answer, store->now_ms), ret);
}

static void store_fail(void *self, const struct conformance_call *call,
                       struct conformance_answer *ret)
{
    struct memory_store *store = self;
    struct entry *entry = find(store, call, ret);

    if (!entry)
        return;
    ret->err = once__reason_check(call->result, NULL);
    if (ret->err == ONCE_OK)
        settle(store, entry,
               once__decide_fail(&entry->record, call->fence, call->result, store->now_ms), ret);
}

static void store_checkpoint(void *self, const struct conformance_call *call,
                             struct conformance_answer *ret)
{
    struct memory_store *store = self;
    struct entry *entry = find(store, call, ret);
    struct once_step step = {.point = once_bytes_of(call->point),
                             .data = once_bytes_of(call->data),
                             .follows = call->after != NULL,
                             .after = once_bytes_of(call->after)};

    if (!entry)
        return;
    ret->err = once__step_check(&step, NULL);
    if (ret->err == ONCE_OK)
        settle(store, entry,
               once__decide_checkpoint(&entry->record, call->fence, &step, store->now_ms), ret);
}

static void store_renew(void *self, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    struct memory_store *store = self;
    struct entry *entry = find(store, call, ret);
    struct once_renewal renewal = {.fence = call->fence, .lease_ms = call->lease_ms};

    if (!entry)
        return;
    ret->err = once__lease_check(call->lease_ms, NULL);
    if (ret->err == ONCE_OK)
        settle(store, entry, once__decide_renew(&entry->record, renewal, store->now_ms), ret);
}

static void store_resolve(void *self, const struct conformance_call *call,
                          struct conformance_answer *ret)
{
    struct memory_store *store = self;
    struct entry *entry = find(store, call, ret);
    struct once_resolution resolution = {
        .done = call->done,
        .fence = call->fence,
        .answer = {.code = call->code, .result = call->result},
    };

    if (!entry)
        return;
    ret->err = once__answer_check(&resolution.answer, NULL);
    if (ret->err == ONCE_OK)
        settle(store, entry, once__decide_resolve(&entry->record, &resolution, moment_of(store)),
               ret);
}

static void store_forget(void *self, const struct conformance_call *call,
                         struct conformance_answer *ret)
{
    struct memory_store *store = self;
    struct entry *entry = find(store, call, ret);

    if (entry)
        settle(store, entry, once__decide_forget(&entry->record, call->fence, store->now_ms), ret);
}

static void store_get(void *self, const struct conformance_call *call,
                      struct conformance_answer *ret)
{
    struct memory_store *store = self;
    struct entry *entry = find(store, call, ret);

    if (!entry)
        return;
    ret->state = once__state_at(&entry->record, store->now_ms);
    ret->word = ret->state == ONCE_STATE_ABSENT ? ONCE_NOTFOUND : ONCE_DONE;
    if (ret->state == ONCE_STATE_ABSENT)
        return;
    tell_attempt(&entry->record, ret);
    tell_result(&entry->record, ret);
}

static const struct conformance_adapter memory_adapter = {
    .name = "memory",
    .open = store_open,
    .close = store_close,
    .advance = store_advance,
    .begin = store_begin,
    .complete = store_complete,
    .fail = store_fail,
    .checkpoint = store_checkpoint,
    .renew = store_renew,
    .resolve = store_resolve,
    .forget = store_forget,
    .get = store_get,
};

int main(int argc, char **argv)
{
    return conformance_run(&memory_adapter, argc > 1 ? argv[1] : NULL) > 0 ? 1 : 0;
}
