/* SPDX-License-Identifier: Apache-2.0
 *
 * The index: nanoseconds an insert, a removal, a lookup that hits and one that misses, each at
 * random, at 1 M and 10 M keys; memory a key as the system counts it (resident) and as the index
 * does, also at the worst moment of growth from 1 M on; and how long an insert pauses that grows a
 * shard on the way to 10 M keys.
 *
 * "index.memory_10m bytes=… counted=… limit=24", "index.time_10m insert_ns=…". Exits 1 when a
 * key takes more than 24 bytes. --report-only is short.
 */
#include "engine/index.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <once/limits.h>

enum { MILLION = 1000000, LOOKUPS = 2 * MILLION, AHEAD = 8, PAUSES_MAX = 1 << 16 };

static const double LIMIT_BYTES = 24.0;

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The hash of key n: SplitMix64, as good as a seeded hash of its name. */
static uint64_t hash_of(uint64_t n)
{
    uint64_t z = (n + 1) * 0x9e3779b97f4a7c15ULL;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

static uint64_t resident_size(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    uint64_t pages = 0;

    if (file == NULL || fscanf(file, "%*u %" SCNu64, &pages) != 1)
        abort();
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void insert_keys(struct once__index *index, uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n < to; n++) {
        struct once__index_value value = {.place = n};

        if (once__index_insert(index, hash_of(n), value) != ONCE_OK)
            abort();
    }
}

/* Entries found for LOOKUPS random keys of [from, from + count). */
static uint64_t look_up(const struct once__index *index, uint64_t from, uint64_t count, bool ahead)
{
    uint64_t found = 0;

    for (uint64_t i = 0; i < LOOKUPS; i++) {
        uint64_t n = from + hash_of(~i) % count;
        struct once__index_iter iter = {0};
        struct once__index_value value;

        if (ahead)
            once__index_prefetch(index, hash_of(from + hash_of(~(i + AHEAD)) % count));
        while (once__index_next(index, hash_of(n), &iter, &value))
            found += value.place == n;
    }
    return found;
}

static double lookup_ns(const struct once__index *index, bool hit, bool ahead)
{
    uint64_t count = once__index_count(index), from = hit ? 0 : 1ULL << 40;
    double start = seconds_now();

    if (look_up(index, from, count, ahead) != (hit ? LOOKUPS : 0))
        abort();
    return (seconds_now() - start) * 1e9 / LOOKUPS;
}

static void print_times(const struct once__index *index, double insert_ns)
{
    uint64_t count = once__index_count(index);

    printf("index.time_%" PRIu64 "m insert_ns=%.1f hit_ns=%.1f miss_ns=%.1f hit_prefetched_ns=%.1f "
           "miss_prefetched_ns=%.1f\n",
           count / MILLION, insert_ns, lookup_ns(index, true, false),
           lookup_ns(index, false, false), lookup_ns(index, true, true),
           lookup_ns(index, false, true));
}

static bool print_memory(const struct once__index *index, const char *name, uint64_t resident)
{
    double count = (double)once__index_count(index), bytes = (double)resident / count;

    printf("index.memory_%s keys=%.0f bytes=%.2f counted=%.2f limit=%.0f\n", name, count, bytes,
           (double)once__index_memory(index) / count, LIMIT_BYTES);
    return bytes <= LIMIT_BYTES;
}

/* Fills an index and watches its memory: the worst is looked for at every hundredth more keys. */
static bool measure_memory(uint64_t keys)
{
    static const uint64_t stops[] = {1, 2, 5, 10};
    uint64_t before = resident_size(), count = 0, worst_keys = 0;
    double worst = 0;
    struct once__index *index;
    bool kept = true;

    if (once__index_new(ONCE_KEYS_MAX, &index) != ONCE_OK)
        abort();
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]) && stops[i] * MILLION <= keys; i++) {
        char name[16];

        while (count < stops[i] * MILLION) {
            uint64_t next = count + count / 100 + 1000;
            double bytes;

            next = next < stops[i] * MILLION ? next : stops[i] * MILLION;
            insert_keys(index, count, next);
            count = next;
            bytes = (double)(resident_size() - before) / (double)count;
            if (count >= MILLION && bytes > worst) {
                worst = bytes;
                worst_keys = count;
            }
        }
        snprintf(name, sizeof(name), "%" PRIu64 "m", stops[i]);
        kept = print_memory(index, name, resident_size() - before) && kept;
    }
    printf("index.memory_worst keys=%" PRIu64 " bytes=%.2f limit=%.0f\n", worst_keys, worst,
           LIMIT_BYTES);
    once__index_free(index);
    return kept && worst <= LIMIT_BYTES;
}

static void measure_times(uint64_t keys)
{
    struct once__index *index;
    double start = seconds_now(), insert_ns;

    if (once__index_new(ONCE_KEYS_MAX, &index) != ONCE_OK)
        abort();
    insert_keys(index, 0, keys);
    insert_ns = (seconds_now() - start) * 1e9 / (double)keys;
    print_times(index, insert_ns);

    start = seconds_now();
    for (uint64_t n = 0; n < keys; n++)
        if (!once__index_remove(index, hash_of(n), n))
            abort();
    printf("index.remove_%" PRIu64 "m remove_ns=%.1f\n", keys / MILLION,
           (seconds_now() - start) * 1e9 / (double)keys);
    once__index_free(index);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* How long inserts that grow a shard take in the second half of the way, where shards are largest.
 * quiet_us is the longest of those that grow nothing: what the machine itself does to a thread. */
static void measure_pauses(uint64_t keys)
{
    static double pauses_us[PAUSES_MAX];
    size_t pause_count = 0;
    double quiet_us = 0, last;
    struct once__index *index;

    if (once__index_new(ONCE_KEYS_MAX, &index) != ONCE_OK)
        abort();
    insert_keys(index, 0, keys / 2);
    last = seconds_now();
    for (uint64_t n = keys / 2; n < keys; n++) {
        uint64_t memory_size = once__index_memory(index);
        double now, us;

        insert_keys(index, n, n + 1);
        now = seconds_now();
        us = (now - last) * 1e6;
        last = now;
        if (once__index_memory(index) == memory_size)
            quiet_us = us > quiet_us ? us : quiet_us;
        else if (pause_count < PAUSES_MAX)
            pauses_us[pause_count++] = us;
    }
    once__index_free(index);
    if (pause_count == 0)
        abort();
    qsort(pauses_us, pause_count, sizeof(pauses_us[0]), compare_doubles);
    printf("index.pause_%" PRIu64 "m count=%zu median_us=%.1f p99_us=%.1f p999_us=%.1f "
           "longest_us=%.1f quiet_us=%.1f\n",
           keys / MILLION, pause_count, pauses_us[pause_count / 2],
           pauses_us[pause_count * 99 / 100], pauses_us[pause_count * 999 / 1000],
           pauses_us[pause_count - 1], quiet_us);
}

int main(int argc, char **argv)
{
    bool report_only = argc > 1 && strcmp(argv[1], "--report-only") == 0;
    uint64_t keys = report_only ? MILLION : 10 * MILLION;
    bool kept = measure_memory(keys);

    measure_times(MILLION);
    if (keys > MILLION)
        measure_times(keys);
    measure_pauses(report_only ? 2 * MILLION : keys);
    return kept || report_only ? 0 : 1;
}
