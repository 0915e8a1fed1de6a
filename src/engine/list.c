/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at many operations: a page of the index, then each record from memory or disk. Shows
 * only what is durable (INV-2), and what time has made of it only when that time is (INV-6).
 */
#include "engine/inner.h"

#include <stdlib.h>
#include <string.h>

enum { SHARDS_A_PAGE = 64 };

struct page {
    struct {
        uint64_t hash;
        uint64_t place;
    } * items;
    size_t count, capacity;
    bool no_memory;
};

static void note_item(void *user, uint64_t hash_top, struct once__index_value value)
{
    struct page *page = user;

    if (page->count == page->capacity) {
        size_t capacity = page->capacity > 0 ? 2 * page->capacity : 64;
        void *items = realloc(page->items, capacity * sizeof(*page->items));

        if (!items) {
            page->no_memory = true;
            return;
        }
        page->items = items;
        page->capacity = capacity;
    }
    page->items[page->count].hash = hash_top;
    page->items[page->count++].place = value.place;
}

/* Where the item's record is now: it may have been replaced or carried since the page was made. The
 * name is not known without reading, but no other item of the page may have the place. False when
 * it is gone. */
static bool find_again(const struct once__engine *engine, struct page *page, size_t at)
{
    uint64_t hash = page->items[at].hash;
    struct once__index_iter iter = {0};
    struct once__index_value value;

    if (once__index_has(engine->index, hash, page->items[at].place))
        return true;
    while (once__index_next(engine->index, hash, &iter, &value)) {
        bool taken = false;

        for (size_t i = 0; i < page->count && !taken; i++)
            taken = page->items[i].place == value.place;
        if (taken)
            continue;
        page->items[at].place = value.place;
        return true;
    }
    return false;
}

int once__fetch_record(struct once__engine *engine, uint64_t place,
                       struct once__log_record *ret_rec, void **ret_memory)
{
    uint32_t slot = once__place_slot(place), size;
    struct once__segment *segment = engine->segments[slot];
    uint64_t sequence = segment->sequence;
    int err;

    *ret_memory = NULL;
    if (segment->image) {
        const uint8_t *bytes = segment->image + once__place_offset(place);

        once__record_view(bytes, ret_rec, &size);
        *ret_memory = malloc(size);
        if (!*ret_memory)
            return ONCE_ERR_MEMORY;
        memcpy(*ret_memory, bytes, size);
        once__record_view(*ret_memory, ret_rec, &size);
        return once__commit_wait(engine,
                                 once__position(engine, sequence, once__place_offset(place)) + 1);
    }
    pthread_mutex_unlock(&engine->lock);
    err = once__segment_read_record(engine, place, ret_rec, &size, ret_memory);
    pthread_mutex_lock(&engine->lock);
    engine->counts.cold_reads++;
    if (engine->segments[slot]->sequence == sequence)
        return err;
    if (err == ONCE_OK)
        free(*ret_memory);
    *ret_memory = NULL; /* recycled while it was read */
    return ONCE_OK;
}

static bool wanted(const struct once_filter *filter, const struct once__log_record *rec,
                   enum once_state state)
{
    if (state == ONCE_STATE_ABSENT || (filter->by_state && state != filter->state))
        return false;
    return filter->ns.size == 0 || once__bytes_equal(filter->ns, rec->ns);
}

static struct once_item item_of(const struct once__log_record *rec, enum once_state state)
{
    return (struct once_item){
        .ns = rec->ns,
        .key = rec->key,
        .state = state,
        .fence = rec->record.fence,
        .attempt = rec->record.attempt,
        .code = rec->record.code,
        .created_ms = rec->record.created_ms,
        .lease_end_ms = rec->record.lease_end_ms,
        .expires_ms = rec->record.expires_ms,
        .owner = rec->record.owner,
        .point = rec->record.point,
    };
}

int once__settle_time(struct once__engine *engine, const struct once_record *record,
                      once_ms *ret_now_ms)
{
    once_ms now_ms = once__engine_now(engine);
    uint64_t mark;
    int err;

    if (once__state_at(record, now_ms) != once__state_at(record, engine->log.durable_ms)) {
        err = once__space_admit_mark(engine);
        if (err == ONCE_OK)
            err = once__log_mark(engine, &mark);
        while (err == ONCE_ERR_FULL) {
            err = once__commit_some(engine);
            if (err == ONCE_OK)
                err = once__log_mark(engine, &mark);
        }
        if (err == ONCE_OK)
            err = once__commit_wait(engine, mark);
        if (err != ONCE_OK)
            return err;
    }
    *ret_now_ms = now_ms;
    return ONCE_OK;
}

static int show(struct once__engine *engine, const struct once_filter *filter, struct page *page,
                size_t at, void (*each)(void *user, const struct once_item *item), void *user)
{
    struct once__log_record rec;
    void *memory = NULL;
    once_ms now_ms = 0;
    int err = ONCE_OK;

    while (err == ONCE_OK && !memory && find_again(engine, page, at))
        err = once__fetch_record(engine, page->items[at].place, &rec, &memory);

    if (err == ONCE_OK && memory)
        err = once__settle_time(engine, &rec.record, &now_ms);
    if (err == ONCE_OK && memory) {
        enum once_state state = once__state_at(&rec.record, now_ms);

        if (wanted(filter, &rec, state)) {
            struct once_item item = item_of(&rec, state);

            pthread_mutex_unlock(&engine->lock);
            each(user, &item);
            pthread_mutex_lock(&engine->lock);
        }
    }
    free(memory);
    return err;
}

int once__engine_list(struct once_store *store, const struct once_filter *filter, uint64_t cursor,
                      size_t count, void (*each)(void *user, const struct once_item *item),
                      void *user, uint64_t *ret_cursor)
{
    struct once__engine *engine = once__engine_of(store);
    bool open_only = filter->by_state &&
                     (filter->state == ONCE_STATE_STARTED || filter->state == ONCE_STATE_DOUBT);
    struct once__index_page look = {
        .cursor = cursor, .count = count, .open_only = open_only, .shards_max = SHARDS_A_PAGE};
    struct page page = {0};
    uint64_t next;
    int err;

    pthread_mutex_lock(&engine->lock);
    err = engine->log.failed != ONCE_OK ? ONCE_ERR_STOPPED : ONCE_OK;
    if (err == ONCE_OK)
        err = once__index_walk(engine->index, &look, note_item, &page, &next);
    if (err == ONCE_OK && page.no_memory)
        err = ONCE_ERR_MEMORY;
    for (size_t i = 0; err == ONCE_OK && i < page.count; i++)
        err = show(engine, filter, &page, i, each, user);
    pthread_mutex_unlock(&engine->lock);
    free(page.items);
    if (err == ONCE_OK)
        *ret_cursor = next;
    return err;
}
