/* SPDX-License-Identifier: Apache-2.0
 *
 * The index against a list that is searched from end to end, and the promises a model does not
 * see: memory a key, no resize to and fro, nothing changed when memory is denied.
 */
#include "unit/seeded.h"

#include <stdbool.h>

#include <once/limits.h>

#include "engine/index.h"
#include "engine/index_shard.h"

static const uint64_t PLACE_MAX = (1ULL << ONCE__PLACE_BITS) - 1;
static const uint64_t TOP_MASK = ~((1ULL << 20) - 1); /* the 44 bits that are kept */

static struct once__index *index_new(uint64_t keys_max)
{
    struct once__index *index = NULL;

    assert_int_equal(once__index_new(keys_max, &index), ONCE_OK);
    return index;
}

static void insert(struct once__index *index, uint64_t hash, uint64_t place, bool open)
{
    struct once__index_value value = {.place = place, .open = open};

    assert_int_equal(once__index_insert(index, hash, value), ONCE_OK);
}

/* ---- What always holds ----------------------------------------------------------------------- */

/* Every entry is within reach of its home, and every bucket counts at least those that passed it,
 * exactly those unless it has lost count. */
static void check_shard(const struct once__shard *shard)
{
    uint32_t *passed = calloc((size_t)shard->bucket_count + 1, sizeof(*passed));
    uint32_t count = 0, open_count = 0;

    assert_non_null(passed);
    for (uint32_t at = 0; at < shard->bucket_count; at++) {
        for (uint32_t slot = 0; slot < ONCE__BUCKET_SLOTS; slot++) {
            if (!(shard->buckets[at].used >> slot & 1))
                continue;
            count++;
            open_count += once__bucket_value(&shard->buckets[at], slot).open;
            for (uint32_t by = once__shard_home(shard, shard->buckets[at].tag[slot]); by != at;
                 by = once__shard_after(shard, by))
                passed[by]++;
        }
    }
    for (uint32_t at = 0; at < shard->bucket_count; at++)
        if (shard->buckets[at].passed < UINT8_MAX)
            assert_int_equal(shard->buckets[at].passed, passed[at]);
    assert_int_equal(shard->count, count);
    assert_int_equal(shard->open_count, open_count);
    assert_true(count * 100ULL <= shard->bucket_count * 6ULL * 88);
    free(passed);
}

static void check_index(const struct once__index *index)
{
    uint64_t count = 0, open_count = 0, memory_size = sizeof(*index);

    for (size_t i = 0; i < ONCE__SHARD_COUNT; i++) {
        const struct once__shard *shard = &index->shards[i];

        check_shard(shard);
        count += shard->count;
        open_count += shard->open_count;
        if (shard->bucket_count != ONCE__NURSERY_BUCKETS)
            memory_size += (uint64_t)shard->bucket_count * ONCE__BUCKET_SIZE;
    }
    if (index->nursery != NULL)
        memory_size += (uint64_t)ONCE__SHARD_COUNT * ONCE__NURSERY_BUCKETS * ONCE__BUCKET_SIZE;
    assert_int_equal(once__index_count(index), count);
    assert_int_equal(once__index_open_count(index), open_count);
    assert_int_equal(once__index_memory(index), memory_size);
}

/* ---- The model ------------------------------------------------------------------------------- */

enum { MODEL_MAX = 1500 };

struct entry {
    uint64_t hash;
    struct once__index_value value;
    int seen;
};

struct model {
    struct entry entries[MODEL_MAX];
    size_t count;
    size_t keys_max;
    uint64_t random;
};

/* Few shards and few tags, so that much collides; the ends of both ranges are among them. */
static uint64_t some_hash(uint64_t *random)
{
    static const uint64_t shards[] = {0, 1, 2047, 4095};
    uint64_t shard = shards[seeded_below(random, 4)], tag, rest = seeded_below(random, 1 << 20);

    switch (seeded_below(random, 8)) {
    case 0:
        tag = 0;
        break;
    case 1:
        tag = UINT32_MAX;
        break;
    case 2:
        tag = UINT32_MAX - seeded_below(random, 100);
        break;
    case 3:
        tag = seeded_below(random, 8) * 0x12345678ULL % UINT32_MAX;
        break;
    default:
        tag = seeded_below(random, 1ULL << 32);
    }
    return shard << 52 | tag << 20 | rest;
}

static uint64_t some_place(uint64_t *random)
{
    switch (seeded_below(random, 8)) {
    case 0:
        return PLACE_MAX - seeded_below(random, 3);
    case 1:
        return seeded_below(random, 3);
    default:
        return seeded_below(random, PLACE_MAX);
    }
}

static struct entry *model_find(struct model *model, uint64_t hash, uint64_t place)
{
    for (size_t i = 0; i < model->count; i++)
        if (((model->entries[i].hash ^ hash) & TOP_MASK) == 0 &&
            model->entries[i].value.place == place)
            return &model->entries[i];
    return NULL;
}

/* What next gives is what the model holds for the hash, each once. */
static void check_next(struct model *model, const struct once__index *index, uint64_t hash)
{
    struct once__index_iter iter = {0};
    struct once__index_value value;
    size_t expected = 0, given = 0;

    for (size_t i = 0; i < model->count; i++) {
        model->entries[i].seen = 0;
        expected += ((model->entries[i].hash ^ hash) & TOP_MASK) == 0;
    }
    once__index_prefetch(index, hash);
    while (once__index_next(index, hash, &iter, &value)) {
        struct entry *entry = model_find(model, hash, value.place);

        assert_non_null(entry);
        assert_int_equal(entry->seen++, 0);
        assert_int_equal(entry->value.open, value.open);
        given++;
    }
    assert_int_equal(given, expected);
    assert_false(once__index_next(index, hash, &iter, &value));
}

static void model_insert(struct model *model, struct once__index *index)
{
    struct entry entry = {.hash = some_hash(&model->random)};
    int err;

    entry.value.place = some_place(&model->random);
    entry.value.open = seeded_below(&model->random, 3) == 0;
    if (model->count > 0 && seeded_below(&model->random, 3) == 0)
        entry.hash = model->entries[seeded_below(&model->random, model->count)].hash;
    if (model_find(model, entry.hash, entry.value.place) != NULL)
        return;
    err = once__index_insert(index, entry.hash, entry.value);
    if (model->count == model->keys_max) {
        assert_int_equal(err, ONCE_ERR_KEYS);
        return;
    }
    assert_int_equal(err, ONCE_OK);
    model->entries[model->count++] = entry;
}

static void model_replace(struct model *model, struct once__index *index, struct entry *entry)
{
    struct once__index_value value = {.place = some_place(&model->random),
                                      .open = seeded_below(&model->random, 2) == 0};

    if (seeded_below(&model->random, 2) == 0)
        value.place = entry->value.place;
    else if (model_find(model, entry->hash, value.place) != NULL)
        return;
    assert_true(once__index_replace(index, entry->hash, entry->value.place, value));
    entry->value = value;
}

static void model_step(struct model *model, struct once__index *index, bool growing)
{
    uint64_t dice = seeded_below(&model->random, 10), hash = some_hash(&model->random);
    uint64_t place = some_place(&model->random);
    struct entry *entry = NULL;

    if (model->count > 0)
        entry = &model->entries[seeded_below(&model->random, model->count)];
    if (dice < (growing ? 6 : 2)) {
        model_insert(model, index);
    } else if (dice < 8 && entry != NULL) {
        assert_true(once__index_remove(index, entry->hash, entry->value.place));
        assert_false(once__index_remove(index, entry->hash, entry->value.place));
        *entry = model->entries[--model->count];
    } else if (dice < 9 && entry != NULL) {
        model_replace(model, index, entry);
        assert_true(once__index_has(index, entry->hash, entry->value.place));
    } else {
        bool there = model_find(model, hash, place) != NULL;

        assert_int_equal(once__index_has(index, hash, place), there);
        if (!there) {
            assert_false(once__index_remove(index, hash, place));
            assert_false(
                once__index_replace(index, hash, place, (struct once__index_value){.place = 1}));
        }
        check_next(model, index, entry != NULL ? entry->hash : hash);
        check_next(model, index, hash);
    }
}

static void index__random_changes__agrees_with_a_list(void **state)
{
    static struct model model;
    uint64_t seed = seeded_start("index");

    (void)state;
    for (uint64_t run = 0; run < 24; run++) {
        struct once__index *index;

        model = (struct model){.random = seed + run, .keys_max = MODEL_MAX};
        if (run % 3 == 0)
            model.keys_max = 1 + seeded_below(&model.random, 300);
        index = index_new(model.keys_max);
        for (int step = 0; step < 8000; step++) {
            model_step(&model, index, step % 4000 < 2500);
            assert_int_equal(once__index_count(index), model.count);
            if (step % 1000 == 999)
                check_index(index);
        }
        while (model.count > 0) {
            struct entry *entry = &model.entries[--model.count];

            assert_true(once__index_remove(index, entry->hash, entry->value.place));
        }
        check_index(index);
        once__index_free(index);
    }
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

static void insert__at_keys_max__is_refused_until_one_is_removed(void **state)
{
    struct once__index *index = index_new(2);

    (void)state;
    insert(index, 1ULL << 40, 10, false);
    insert(index, 2ULL << 40, 20, true);
    assert_int_equal(once__index_insert(index, 3ULL << 40, (struct once__index_value){.place = 30}),
                     ONCE_ERR_KEYS);
    assert_false(once__index_has(index, 3ULL << 40, 30));
    assert_true(once__index_remove(index, 1ULL << 40, 10));
    insert(index, 3ULL << 40, 30, false);
    assert_int_equal(once__index_count(index), 2);
    assert_int_equal(once__index_open_count(index), 1);
    once__index_free(index);
    once__index_free(NULL);
}

/* Key number n of an even spread; its place is n. */
static uint64_t hash_of(uint64_t n)
{
    return seeded_next(&n);
}

static void check_bytes(const struct once__index *index)
{
    uint64_t count = once__index_count(index);

    if (count >= 1000000)
        assert_true(once__index_memory(index) <= 24 * count);
}

static void memory__from_a_million_keys__is_24_bytes_a_key_up_and_down(void **state)
{
    struct once__index *index = index_new(ONCE_KEYS_MAX);
    const uint64_t keys = 1800000;

    (void)state;
    for (uint64_t n = 0; n < keys; n++) {
        insert(index, hash_of(n), n, n % 1000 == 0);
        if (n % 4096 == 0)
            check_bytes(index);
    }
    check_index(index);
    assert_int_equal(once__index_open_count(index), keys / 1000);
    for (uint64_t n = 0; n < keys; n++) {
        assert_true(once__index_has(index, hash_of(n), n));
        assert_true(once__index_remove(index, hash_of(n), n));
        if (n % 4096 == 0)
            check_bytes(index);
    }
    check_index(index);
    assert_int_equal(once__index_count(index), 0);
    assert_true(once__index_memory(index) < 3 << 20);
    once__index_free(index);
}

static int allocations, allocations_allowed;

static bool count_and_deny(size_t size)
{
    assert_true(size > 0);
    allocations++;
    return allocations > allocations_allowed;
}

static void resize__keys_come_and_go_around_any_size__is_rare(void **state)
{
    struct once__index *index = index_new(ONCE_KEYS_MAX);
    uint64_t random = 7, changes = 0;

    (void)state;
    allocations = 0;
    allocations_allowed = 1 << 30;
    once__index_deny = count_and_deny;
    for (uint64_t n = 0; n < 3000; n++) {
        insert(index, hash_of(n) >> 12, n, false); /* one shard */
        for (int again = 0; again < 4; again++) {
            uint64_t hash = seeded_next(&random) >> 12, burst = 1 + seeded_below(&random, 3);

            if (n > 800 && n % 20 == 0)
                burst = n / 7;
            for (uint64_t i = 0; i < burst; i++)
                insert(index, hash + (i << 21), PLACE_MAX - i, false);
            for (uint64_t i = 0; i < burst; i++)
                assert_true(once__index_remove(index, hash + (i << 21), PLACE_MAX - i));
            changes += 2 * burst;
        }
    }
    check_index(index);
    assert_true(changes > 100000);
    assert_in_range(allocations, 3, 12); /* the nursery and pages, each size once */
    once__index_deny = NULL;
    once__index_free(index);
}

static void memory__denied__changes_nothing(void **state)
{
    struct once__index *index;
    uint64_t n = 0, refused = 0;

    (void)state;
    allocations = allocations_allowed = 0;
    once__index_deny = count_and_deny;
    index = NULL;
    assert_int_equal(once__index_new(10, &index), ONCE_ERR_MEMORY);
    assert_null(index);

    once__index_deny = NULL;
    index = index_new(ONCE_KEYS_MAX);
    while (n < 4000) { /* of one shard */
        uint64_t memory_size = once__index_memory(index);
        struct once__index_value value = {.place = n, .open = true};

        once__index_deny = count_and_deny;
        if (once__index_insert(index, hash_of(n) >> 12, value) == ONCE_OK) {
            n++;
            continue;
        }
        refused++;
        assert_int_equal(once__index_memory(index), memory_size);
        assert_int_equal(once__index_count(index), n);
        assert_int_equal(once__index_open_count(index), n);
        check_index(index);
        for (uint64_t i = 0; i < n; i++)
            assert_true(once__index_has(index, hash_of(i) >> 12, i));
        assert_false(once__index_has(index, hash_of(n) >> 12, n));
        once__index_deny = NULL;
        insert(index, hash_of(n) >> 12, n, true);
        n++;
    }
    assert_in_range(refused, 4, 20);

    once__index_deny = count_and_deny;
    assert_int_equal(once__index_expect(index, 5000000), ONCE_ERR_MEMORY);
    while (n > 0) { /* Removing needs no memory. */
        n--;
        assert_true(once__index_remove(index, hash_of(n) >> 12, n));
        if (n == 10)
            once__index_deny = NULL; /* The room that could not be made is not kept. */
    }
    check_index(index);
    assert_int_equal(index->shards[0].bucket_count, ONCE__NURSERY_BUCKETS);
    once__index_free(index);
}

static void expect__many_keys__come_without_growth_and_the_room_stays_until_then(void **state)
{
    struct once__index *index = index_new(ONCE_KEYS_MAX);
    const uint64_t keys = 400000;
    uint64_t memory_size;

    (void)state;
    insert(index, hash_of(0), 0, true);
    assert_int_equal(once__index_expect(index, keys), ONCE_OK);
    assert_true(once__index_has(index, hash_of(0), 0));
    memory_size = once__index_memory(index);
    for (uint64_t n = 1; n < keys / 2; n++) {
        insert(index, hash_of(n), n, false);
        insert(index, ~hash_of(n), n, false);
        assert_true(once__index_remove(index, ~hash_of(n), n));
    }
    assert_int_equal(once__index_memory(index), memory_size);
    check_index(index);
    for (uint64_t n = 0; n < keys / 2 - 1; n++)
        assert_true(once__index_remove(index, hash_of(n), n));
    assert_int_equal(once__index_memory(index), memory_size);

    assert_int_equal(once__index_expect(index, 0), ONCE_OK);
    for (uint64_t n = 0; n < keys / 2 - 1; n++) {
        insert(index, hash_of(n), n, false);
        assert_true(once__index_remove(index, hash_of(n), n));
    }
    assert_true(once__index_memory(index) < memory_size / 4);
    check_index(index);

    /* It stays no longer than until they have come. */
    assert_int_equal(once__index_expect(index, keys), ONCE_OK);
    memory_size = once__index_memory(index);
    for (uint64_t n = keys / 2; n < keys * 3 / 2; n++)
        insert(index, hash_of(n), n, false);
    for (uint64_t n = keys / 2; n < keys * 3 / 2; n++)
        assert_true(once__index_remove(index, hash_of(n), n));
    assert_true(once__index_memory(index) < memory_size / 4);
    once__index_free(index);
}

/* ---- One hash, many places ------------------------------------------------------------------- */

static uint32_t saturated_count(const struct once__shard *shard)
{
    uint32_t count = 0;

    for (uint32_t at = 0; at < shard->bucket_count; at++)
        count += shard->buckets[at].passed == UINT8_MAX;
    return count;
}

static void passed__more_than_it_can_count__loses_no_entry(void **state)
{
    struct once__index *index = index_new(ONCE_KEYS_MAX);
    const struct once__shard *shard = &index->shards[0];
    const uint64_t same = 0xfffffffdULL << 20; /* runs around the end of the shard */
    const uint64_t many = 2000, others = 300;
    uint32_t saturated;

    (void)state;
    for (uint64_t n = 0; n < many; n++)
        insert(index, same, n, n % 2 == 0);
    assert_true(saturated_count(shard) > 200);
    for (uint64_t n = 0; n < others; n++)
        insert(index, hash_of(n) >> 12, n, false);
    check_index(index);
    for (uint64_t n = 0; n < many; n++)
        assert_true(once__index_has(index, same, n));
    assert_false(once__index_has(index, same, many));

    saturated = saturated_count(shard);
    assert_int_equal(once__index_expect(index, 4096 * 2000), ONCE_OK); /* keeps it from shrinking */
    for (uint64_t n = 0; n < many; n++)
        assert_true(once__index_remove(index, same, n));
    assert_int_equal(saturated_count(shard), saturated);
    for (uint64_t n = 0; n < others; n++)
        assert_true(once__index_has(index, hash_of(n) >> 12, n));
    assert_false(once__index_has(index, same, 0));
    assert_int_equal(once__index_count(index), others);

    assert_int_equal(once__index_expect(index, 0), ONCE_OK);
    assert_true(once__index_remove(index, hash_of(0) >> 12, 0)); /* shrinks: counts anew */
    assert_int_equal(saturated_count(shard), 0);
    for (uint64_t n = 1; n < others; n++)
        assert_true(once__index_has(index, hash_of(n) >> 12, n));
    check_index(index);
    once__index_free(index);
}

static void passed__lost_count_everywhere__lookups_still_end(void **state)
{
    struct once__index *index = index_new(ONCE_KEYS_MAX);
    struct once__shard *shard = &index->shards[0];
    struct once__index_iter iter = {0};
    struct once__index_value value;

    (void)state;
    insert(index, 5ULL << 20, 1, true);
    insert(index, 0xf0000000ULL << 20, 2, true);
    for (uint32_t at = 0; at < shard->bucket_count; at++)
        shard->buckets[at].passed = UINT8_MAX;
    assert_false(once__index_has(index, 6ULL << 20, 1));
    assert_true(once__index_has(index, 0xf0000000ULL << 20, 2));
    assert_true(once__index_next(index, 0xf0000000ULL << 20, &iter, &value));
    assert_int_equal(value.place, 2);
    assert_false(once__index_next(index, 0xf0000000ULL << 20, &iter, &value));
    assert_false(once__index_next(index, 0xf0000000ULL << 20, &iter, &value));
    assert_true(once__index_remove(index, 5ULL << 20, 1));
    once__index_free(index);
}

/* ---- Walks ----------------------------------------------------------------------------------- */

struct seen {
    struct model *model;
    uint64_t last_top;
    uint64_t page_last_top; /* largest of the page before */
    size_t given;
    bool open_only;
};

static void see(void *user, uint64_t hash_top, struct once__index_value value)
{
    struct seen *seen = user;
    struct entry *entry = model_find(seen->model, hash_top, value.place);

    assert_int_equal(hash_top & ~TOP_MASK, 0);
    assert_true(hash_top >= seen->last_top);
    assert_true(seen->page_last_top == UINT64_MAX || hash_top > seen->page_last_top);
    assert_true(value.open || !seen->open_only);
    assert_non_null(entry); /* the model has volatile ones too */
    assert_int_equal(entry->value.open, value.open);
    entry->seen++;
    seen->last_top = hash_top;
    seen->given++;
}

/* Entries with an even place stay and keep whether they are open; the others come and go. */
static void change_between_pages(struct model *model, struct once__index *index)
{
    for (uint64_t left = seeded_below(&model->random, 60); left > 0; left--) {
        size_t which = seeded_below(&model->random, model->count);
        struct entry *entry = &model->entries[which];

        if (entry->value.place % 2 == 1 && seeded_below(&model->random, 2) == 0) {
            assert_true(once__index_remove(index, entry->hash, entry->value.place));
            *entry = model->entries[--model->count];
        } else if (model->count < MODEL_MAX) {
            struct entry fresh = {.hash = some_hash(&model->random)};

            fresh.value.place = some_place(&model->random) | 1;
            fresh.value.open = seeded_below(&model->random, 2) == 0;
            if (model_find(model, fresh.hash, fresh.value.place) != NULL)
                continue;
            insert(index, fresh.hash, fresh.value.place, fresh.value.open);
            model->entries[model->count++] = fresh;
        }
    }
}

static void walk_all(struct model *model, struct once__index *index, bool open_only, bool changes)
{
    struct once__index_page page = {.open_only = open_only};
    struct seen seen = {.model = model, .page_last_top = UINT64_MAX, .open_only = open_only};
    size_t pages = 0;

    for (size_t i = 0; i < model->count; i++)
        model->entries[i].seen = 0;
    do {
        page.count = 1 + seeded_below(&model->random, 40);
        page.shards_max = 1 + (uint32_t)seeded_below(&model->random, 3);
        seen.given = 0;
        assert_int_equal(once__index_walk(index, &page, see, &seen, &page.cursor), ONCE_OK);
        if (seen.given > 0)
            seen.page_last_top = seen.last_top;
        if (changes)
            change_between_pages(model, index);
        assert_true(++pages < 100000);
    } while (page.cursor != 0);
    for (size_t i = 0; i < model->count; i++) {
        const struct entry *entry = &model->entries[i];

        if (entry->value.place % 2 == 0 || !changes)
            assert_int_equal(entry->seen, entry->value.open || !open_only ? 1 : 0);
        else
            assert_in_range(entry->seen, 0, 1);
    }
}

static void walk__changes_between_pages__gives_what_stays_exactly_once(void **state)
{
    static struct model model;
    uint64_t seed = seeded_start("index walk");

    (void)state;
    for (uint64_t run = 0; run < 12; run++) {
        struct once__index *index = index_new(ONCE_KEYS_MAX);

        model = (struct model){.random = seed + run, .keys_max = MODEL_MAX * 2 / 3};
        while (model.count < model.keys_max / (1 + run % 3))
            model_insert(&model, index);
        for (int again = 0; again < 2; again++) {
            walk_all(&model, index, false, false);
            walk_all(&model, index, true, false);
            walk_all(&model, index, false, true);
            walk_all(&model, index, true, true);
        }
        check_index(index);
        once__index_free(index);
    }
}

static void count_given(void *user, uint64_t hash_top, struct once__index_value value)
{
    (void)hash_top;
    *(uint64_t *)user += value.open ? 1000 : 1;
}

static void walk__bounds__are_kept(void **state)
{
    struct once__index *index = index_new(ONCE_KEYS_MAX);
    struct once__index_page page = {.count = 10, .shards_max = 1};
    uint64_t given = 0, cursor = 77;

    (void)state;
    page.cursor = 1ULL << 44;
    assert_int_equal(once__index_walk(index, &page, count_given, &given, &cursor),
                     ONCE_ERR_INVALID);
    assert_int_equal(cursor, 77);
    page.cursor = 0;
    assert_int_equal(once__index_walk(index, &page, count_given, &given, &cursor), ONCE_OK);
    assert_int_equal(cursor, 0);

    /* One shard a page; those without an open entry cost nothing. */
    insert(index, 0, 1, false);
    insert(index, 5ULL << 52, 2, true);
    insert(index, UINT64_MAX, 3, true);
    for (uint64_t expected = 1; expected <= 2001; expected += 1000) {
        assert_int_equal(once__index_walk(index, &page, count_given, &given, &cursor), ONCE_OK);
        assert_int_equal(given, expected);
        page.cursor = cursor;
    }
    assert_int_equal(cursor, 0);
    page = (struct once__index_page){.count = 10, .shards_max = 2, .open_only = true};
    given = 0;
    assert_int_equal(once__index_walk(index, &page, count_given, &given, &cursor), ONCE_OK);
    assert_int_equal(given, 2000);
    assert_int_equal(cursor, 0);

    /* What has one tag is given together, however small the page. */
    for (uint64_t n = 0; n < 100; n++)
        insert(index, 5ULL << 52, 1000 + n, false);
    page = (struct once__index_page){.cursor = 1, .count = 1, .shards_max = 10};
    given = 0;
    assert_int_equal(once__index_walk(index, &page, count_given, &given, &cursor), ONCE_OK);
    assert_int_equal(given, 1100);

    /* What has not is counted. */
    for (uint64_t n = 0; n < 100; n++)
        insert(index, 9ULL << 52 | n << 40, n, false);
    page = (struct once__index_page){.cursor = 9ULL << 32, .count = 10, .shards_max = 10};
    given = 0;
    assert_int_equal(once__index_walk(index, &page, count_given, &given, &cursor), ONCE_OK);
    assert_int_equal(given, 10);
    assert_int_equal(cursor, 9ULL << 32 | 10 << 20);
    once__index_free(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index__random_changes__agrees_with_a_list),
        cmocka_unit_test(insert__at_keys_max__is_refused_until_one_is_removed),
        cmocka_unit_test(memory__from_a_million_keys__is_24_bytes_a_key_up_and_down),
        cmocka_unit_test(resize__keys_come_and_go_around_any_size__is_rare),
        cmocka_unit_test(memory__denied__changes_nothing),
        cmocka_unit_test(expect__many_keys__come_without_growth_and_the_room_stays_until_then),
        cmocka_unit_test(passed__more_than_it_can_count__loses_no_entry),
        cmocka_unit_test(passed__lost_count_everywhere__lookups_still_end),
        cmocka_unit_test(walk__changes_between_pages__gives_what_stays_exactly_once),
        cmocka_unit_test(walk__bounds__are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
