/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes a sample: the document of a server's ONCE.STATS, or what a store in a folder knows; and its
 * doubts, the oldest first. A folder is held for that moment only.
 */
#include "cli/watch.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "cli/reach_server.h"
#include "client/client.h"

enum { PAGE = 200, LOOK_MS = 100 };

void watch_sample_release(struct watch_sample *sample)
{
    free(sample->list);
    sample->list = NULL;
    sample->list_count = 0;
}

/* ---- A server's document --------------------------------------------------------------------- */

static uint64_t number(const json_t *in, const char *name)
{
    json_int_t found = json_integer_value(json_object_get(in, name));

    return found > 0 ? (uint64_t)found : 0;
}

static void text(const json_t *in, const char *name, char *to, size_t size)
{
    const char *found = json_string_value(json_object_get(in, name));

    (void)snprintf(to, size, "%s", found ? found : "");
    for (; *to != '\0'; to++) {
        if (*to < 0x20 || *to == 0x7f) /* bytes over 0x7f are negative */
            *to = '?';
    }
}

/* Verdicts by call, then by word: of a word its sum over the calls. */
static void read_words(const json_t *verdicts, struct watch_sample *sample)
{
    const char *call;
    json_t *words;

    json_object_foreach((json_t *)(uintptr_t)verdicts, call, words)
    {
        for (unsigned word = 0; word < WATCH_WORDS; word++)
            sample->words[word] += number(words, once_word_name((enum once_word)word));
    }
}

static bool read_spread(const json_t *in, const char *name, struct once_spread *spread)
{
    const json_t *found = json_object_get(in, name);
    const json_t *buckets = json_object_get(found, "buckets");

    if (json_array_size(buckets) != WATCH_BUCKETS)
        return false;
    for (size_t i = 0; i < WATCH_BUCKETS; i++) {
        json_int_t count = json_integer_value(json_array_get(buckets, i));

        spread->buckets[i] = count > 0 ? (uint64_t)count : 0;
    }
    spread->sum = number(found, "sum");
    return true;
}

#define FIELD(name)                                                                                \
    {                                                                                              \
#name, offsetof(struct watch_sample, name)                                                 \
    }

static void read_numbers(const json_t *root, struct watch_sample *sample)
{
    static const struct {
        const char *name;
        size_t offset; /* of a uint64_t */
    } fields[] = {
        FIELD(loaded),        FIELD(to_load),   FIELD(started_ms),   FIELD(uptime_ms),
        FIELD(batches),       FIELD(records),   FIELD(keys),         FIELD(keys_max),
        FIELD(keys_open),     FIELD(doubts),    FIELD(started),      FIELD(index_size),
        FIELD(memory_size),   FIELD(objects),   FIELD(objects_size), FIELD(disk_size),
        FIELD(disk_size_max), FIELD(disk_free), FIELD(log_size),     FIELD(live_size),
        FIELD(parked),
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        uint64_t value = number(root, fields[i].name);

        memcpy((char *)sample + fields[i].offset, &value, sizeof(value));
    }
}

bool watch_sample_read(struct once_bytes json, struct watch_sample *ret_sample)
{
    struct watch_sample sample = {.server = true};
    json_error_t error;
    json_t *root = json_loadb((const char *)json.data, json.size, 0, &error);
    const char *call;
    json_t *count;
    bool good;

    good = json_is_object(json_object_get(root, "verdicts")) &&
           read_spread(root, "latency_us", &sample.latency_us) &&
           read_spread(root, "write_us", &sample.write_us);
    if (good) {
        read_words(json_object_get(root, "verdicts"), &sample);
        json_object_foreach(json_object_get(root, "errors"), call, count)
        {
            sample.errors += json_integer_value(count) > 0 ? (uint64_t)json_integer_value(count)
                                                           : 0;
        }
        read_numbers(root, &sample);
        sample.now_ms = (once_ms)number(root, "now_ms");
        sample.stopped = json_is_true(json_object_get(root, "stopped"));
        sample.shared = json_is_true(json_object_get(root, "shared"));
        sample.doubts_more = json_is_true(json_object_get(root, "doubts_more"));
        sample.resp = number(json_object_get(root, "connections"), "resp");
        sample.http = number(json_object_get(root, "connections"), "http");
        text(root, "version", sample.version, sizeof(sample.version));
        text(root, "phase", sample.phase, sizeof(sample.phase));
        if (json_is_true(json_object_get(root, "unreachable")))
            snprintf(sample.phase, sizeof(sample.phase), "unreachable");
        *ret_sample = sample;
    }
    json_decref(root);
    return good;
}

static int ask_server(struct cli_reach *reach, struct watch_sample *sample)
{
    const struct once_bytes word = once_bytes_of("ONCE.STATS");
    const struct once__answer_item *answer;
    struct once_bytes json;
    int err = reach_call(reach, &word, 1, &answer);

    if (err != ONCE_OK)
        return err;
    if (!reach_is_bytes(answer, &json) || !watch_sample_read(json, sample))
        return reach_strange(reach);
    return ONCE_OK;
}

/* ---- A folder -------------------------------------------------------------------------------- */

static void look_at_store(const struct cli_reach *reach, struct watch_sample *sample)
{
    struct once_stats stats;
    struct statvfs disk;

    once_stats_get(reach->store, &stats);
    *sample = (struct watch_sample){
        .phase = "ready",
        .now_ms = stats.now_ms,
        .stopped = stats.stopped,
        .keys = stats.keys,
        .keys_max = ONCE_KEYS_MAX,
        .keys_open = stats.keys_open,
        .index_size = stats.index_size,
        .objects = stats.objects,
        .objects_size = stats.objects_size,
        .disk_size = stats.disk_size,
        .log_size = stats.log_size,
        .live_size = stats.live_size,
    };
    if (statvfs(reach->name, &disk) == 0)
        sample->disk_free = (uint64_t)disk.f_bavail * disk.f_frsize;
}

/* ---- Doubts ---------------------------------------------------------------------------------- */

struct collecting {
    struct watch_sample *sample;
    bool no_memory;
};

static size_t copy(char *to, size_t size, struct once_bytes from)
{
    size_t count = from.size < size ? from.size : size - 1;

    if (count > 0)
        memcpy(to, from.data, count);
    to[count] = '\0';
    return count;
}

static int older(const void *one, const void *other)
{
    const struct watch_doubt *a = one, *b = other;

    return (a->since_ms > b->since_ms) - (a->since_ms < b->since_ms);
}

/* Of many doubts the oldest and the newest are worth a line: each half that stays is exact. */
static void drop_middle(struct watch_sample *sample)
{
    const size_t kept = WATCH_DOUBTS_MAX / 4;

    qsort(sample->list, sample->list_count, sizeof(*sample->list), older);
    memmove(sample->list + kept, sample->list + sample->list_count - kept,
            kept * sizeof(*sample->list));
    sample->list_count = 2 * kept;
    sample->list_more = true;
}

static void add_doubt(void *user, const struct once_item *item)
{
    struct collecting *collecting = user;
    struct watch_sample *sample = collecting->sample;
    struct watch_doubt *doubt;

    if (!sample->server)
        sample->doubts++;
    if (sample->list_count == WATCH_DOUBTS_MAX)
        drop_middle(sample);
    if (!sample->list)
        sample->list = calloc(WATCH_DOUBTS_MAX, sizeof(*sample->list));
    if (!sample->list) {
        collecting->no_memory = true;
        return;
    }
    doubt = &sample->list[sample->list_count++];
    (void)copy(doubt->ns, sizeof(doubt->ns), item->ns);
    (void)copy(doubt->key, sizeof(doubt->key), item->key);
    doubt->owner_size = copy(doubt->owner, sizeof(doubt->owner), item->owner);
    doubt->point_size = copy(doubt->point, sizeof(doubt->point), item->point);
    doubt->fence = item->fence;
    doubt->attempt = item->attempt;
    doubt->since_ms = item->lease_end_ms;
}

/* A list that cannot be had (no right to it, a store that has stopped) is no reason to show
 * nothing. */
static int collect_doubts(struct cli_reach *reach, struct watch_sample *sample)
{
    const struct once_filter filter = {.by_state = true, .state = ONCE_STATE_DOUBT};
    struct collecting collecting = {.sample = sample};
    once_ms end_ms = reach_now_ms() + LOOK_MS;
    uint64_t cursor = 0;
    int err;

    do {
        err = cli_reach_ops(reach, &filter, cursor, PAGE, add_doubt, &collecting, &cursor);
    } while (err == ONCE_OK && cursor != 0 && reach_now_ms() < end_ms);
    if (collecting.no_memory)
        return ONCE_ERR_MEMORY;
    if (err == ONCE_ERR_DENIED)
        snprintf(sample->list_text, sizeof(sample->list_text), "only administrators see which");
    else if (err != ONCE_OK && err != ONCE_ERR_IO)
        snprintf(sample->list_text, sizeof(sample->list_text), "%s", once_err_text(err));
    sample->list_more = sample->list_more || cursor != 0;
    if (!sample->server) {
        sample->doubts_more = cursor != 0;
        sample->started = sample->keys_open > sample->doubts ? sample->keys_open - sample->doubts
                                                             : 0;
    }
    if (sample->list_count > 0)
        qsort(sample->list, sample->list_count, sizeof(*sample->list), older);
    return err == ONCE_ERR_IO ? err : ONCE_OK;
}

int watch_sample_take(struct cli_reach *reach, struct watch_sample *ret_sample)
{
    struct watch_sample sample = {0};
    int err = reach_ready(reach, reach_now_ms() + reach->patience_ms);

    if (err != ONCE_OK)
        return err;
    if (reach->store)
        look_at_store(reach, &sample);
    else
        err = ask_server(reach, &sample);
    if (err == ONCE_OK && (!sample.server || sample.doubts > 0))
        err = collect_doubts(reach, &sample);
    if (reach->store || err != ONCE_OK)
        cli_reach_rest(reach); /* whoever owns it then is asked the next time */
    if (err != ONCE_OK) {
        watch_sample_release(&sample);
        return err;
    }
    *ret_sample = sample;
    return ONCE_OK;
}
