/* SPDX-License-Identifier: Apache-2.0
 *
 * RocksDB: a Get of each key, then one WriteBatch with a synced write-ahead log. Threads share
 * commits as RocksDB groups them by itself.
 *
 * Settings: a background thread for each core, a Bloom filter for tables and one for the table in
 * memory (a Get of a new key mostly ends there), recycled logs. Two threads that insert the same
 * key at once would both find it new; a real use must lock, which is not counted here.
 */
#include "peer.h"

#include <rocksdb/c.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOOM_BITS = 10, RECYCLED_LOGS = 4 };

struct rocks {
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_readoptions_t *reading;
    rocksdb_writeoptions_t *writing;
    rocksdb_writebatch_t **batches; /* one a thread */
    int threads;
};

static void check(const char *error)
{
    if (error)
        bench_die("rocksdb: %s", error);
}

static void *open_rocks(const struct bench_load *load)
{
    struct rocks *rocks = bench_alloc(1, sizeof *rocks);
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    char *error = NULL;

    rocksdb_block_based_options_set_filter_policy(
        table, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS));
    rocks->options = rocksdb_options_create();
    rocksdb_options_set_block_based_table_factory(rocks->options, table);
    rocksdb_options_set_create_if_missing(rocks->options, 1);
    rocksdb_options_increase_parallelism(rocks->options, (int)sysconf(_SC_NPROCESSORS_ONLN));
    rocksdb_options_set_memtable_prefix_bloom_size_ratio(rocks->options, 0.1);
    rocksdb_options_set_memtable_whole_key_filtering(rocks->options, 1);
    rocksdb_options_set_recycle_log_file_num(rocks->options, RECYCLED_LOGS);
    rocks->db = rocksdb_open(rocks->options, load->folder, &error);
    check(error);
    rocks->reading = rocksdb_readoptions_create();
    rocks->writing = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(rocks->writing, 1);
    rocks->threads = load->threads;
    rocks->batches = bench_alloc((size_t)load->threads, sizeof(rocksdb_writebatch_t *));
    for (int i = 0; i < load->threads; i++)
        rocks->batches[i] = rocksdb_writebatch_create();
    rocksdb_block_based_options_destroy(table);
    return rocks;
}

static size_t insert(void *self, int thread, const struct bench_key *keys, size_t count)
{
    struct rocks *rocks = self;
    rocksdb_writebatch_t *batch = rocks->batches[thread];
    char *error = NULL;
    size_t inserted = 0;

    rocksdb_writebatch_clear(batch);
    for (size_t i = 0; i < count; i++) {
        rocksdb_pinnableslice_t *found = rocksdb_get_pinned(rocks->db, rocks->reading, keys[i].text,
                                                            BENCH_KEY_SIZE, &error);

        check(error);
        if (found) {
            rocksdb_pinnableslice_destroy(found);
            continue;
        }
        rocksdb_writebatch_put(batch, keys[i].text, BENCH_KEY_SIZE, (const char *)bench_value,
                               BENCH_VALUE_SIZE);
        inserted++;
    }
    if (inserted > 0) {
        rocksdb_write(rocks->db, rocks->writing, batch, &error);
        check(error);
    }
    return inserted;
}

/* All in sorted tables, nothing left to compact. */
static void tidy(void *self)
{
    struct rocks *rocks = self;
    rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
    char *error = NULL;

    rocksdb_flush(rocks->db, options, &error);
    check(error);
    rocksdb_compact_range(rocks->db, NULL, 0, NULL, 0);
    rocksdb_flushoptions_destroy(options);
}

static void close_rocks(void *self)
{
    struct rocks *rocks = self;

    for (int i = 0; i < rocks->threads; i++)
        rocksdb_writebatch_destroy(rocks->batches[i]);
    free(rocks->batches);
    rocksdb_readoptions_destroy(rocks->reading);
    rocksdb_writeoptions_destroy(rocks->writing);
    rocksdb_close(rocks->db);
    rocksdb_options_destroy(rocks->options);
    free(rocks);
}

const struct bench_peer bench_rocksdb = {
    .name = "rocksdb",
    .looks = true,
    .open = open_rocks,
    .insert = insert,
    .tidy = tidy,
    .close = close_rocks,
};
