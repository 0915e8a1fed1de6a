/* SPDX-License-Identifier: Apache-2.0
 *
 * LMDB: one write transaction a batch, MDB_NOOVERWRITE, fully synced (no MDB_NOSYNC,
 * MDB_NOMETASYNC, MDB_WRITEMAP or MDB_MAPASYNC). Writers take turns, as LMDB makes them; the map is
 * large enough never to grow.
 */
#include "peer.h"

#include <lmdb.h>
#include <stdlib.h>

#define MAP_SIZE (16ULL << 30)

struct lmdb {
    MDB_env *env;
    MDB_dbi dbi;
};

static void check(const char *what, int status)
{
    if (status != MDB_SUCCESS)
        bench_die("lmdb: %s: %s", what, mdb_strerror(status));
}

static void *open_lmdb(const struct bench_load *load)
{
    struct lmdb *lmdb = bench_alloc(1, sizeof *lmdb);
    MDB_txn *txn = NULL;

    check("create", mdb_env_create(&lmdb->env));
    check("map", mdb_env_set_mapsize(lmdb->env, MAP_SIZE));
    check("open", mdb_env_open(lmdb->env, load->folder, 0, 0600));
    check("begin", mdb_txn_begin(lmdb->env, NULL, 0, &txn));
    check("table", mdb_dbi_open(txn, NULL, 0, &lmdb->dbi));
    check("commit", mdb_txn_commit(txn));
    return lmdb;
}

static size_t insert(void *self, int thread, const struct bench_key *keys, size_t count)
{
    struct lmdb *lmdb = self;
    MDB_txn *txn = NULL;
    size_t inserted = 0;

    (void)thread;
    check("begin", mdb_txn_begin(lmdb->env, NULL, 0, &txn));
    for (size_t i = 0; i < count; i++) {
        struct bench_key name = keys[i];
        uint8_t kept[BENCH_VALUE_SIZE];
        MDB_val key = {.mv_size = sizeof name.text, .mv_data = name.text};
        MDB_val value = {.mv_size = sizeof kept, .mv_data = kept};
        int status;

        memcpy(kept, bench_value, sizeof kept);
        status = mdb_put(txn, lmdb->dbi, &key, &value, MDB_NOOVERWRITE);
        if (status == MDB_KEYEXIST)
            continue;
        check("put", status);
        inserted++;
    }
    check("commit", mdb_txn_commit(txn));
    return inserted;
}

static void close_lmdb(void *self)
{
    struct lmdb *lmdb = self;

    mdb_env_close(lmdb->env);
    free(lmdb);
}

const struct bench_peer bench_lmdb = {
    .name = "lmdb",
    .looks = true,
    .open = open_lmdb,
    .insert = insert,
    .close = close_lmdb,
};
