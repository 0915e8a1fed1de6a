/* SPDX-License-Identifier: Apache-2.0
 *
 * What exactly-once costs where the effect is in SQLite: a business transaction, an update and an
 * insert, alone, and the same with once_begin and once_complete in it.
 *
 *     bench_sqlite [--report-only] [--folder F] [--rounds N]
 *
 * Two databases of the same shape, synchronous=FULL, statements prepared once. They take turns, a
 * block of transactions each, so that a noisy moment hits both; a round's ratio is of the means of
 * its blocks, and the result is the median over all rounds. A replay is a begin of a key that was
 * completed, in a transaction that commits.
 */
#include <once/sqlite.h>

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../store/common.h"

static const double LIMIT = 1.5;

enum { ACCOUNTS = 10000, KEY_SIZE = 32, ROUNDS_MAX = 100, BLOCKS = 8 };

enum statement { BEGIN, UPDATE, INSERT, ONCE_BEGIN, ONCE_COMPLETE, COMMIT, STATEMENTS };

static const char *const texts[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [UPDATE] = "UPDATE account SET balance = balance - 1 WHERE id = ?1",
    [INSERT] = "INSERT INTO charge(account, amount, note) VALUES (?1, 1, ?2)",
    [ONCE_BEGIN] = "SELECT once_begin('charges', ?1, ?2)",
    [ONCE_COMPLETE] = "SELECT once_complete('charges', ?1, ?2, 201, ?3)",
    [COMMIT] = "COMMIT",
};

struct side {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    bool once;
    uint64_t done; /* transactions so far; each has a key of its own */
};

static void check(struct side *side, int status)
{
    if (status != SQLITE_OK && status != SQLITE_DONE && status != SQLITE_ROW)
        bench_die("sqlite: %s", sqlite3_errmsg(side->db));
}

static void open_side(struct side *side, const char *folder, const char *name, const char *journal)
{
    char *path = bench_path(folder, name), *sql;

    check(side, sqlite3_open(path, &side->db));
    if (once_sqlite_init(side->db, NULL, NULL) != SQLITE_OK)
        bench_die("sqlite: the functions of Once cannot be added");
    sql = sqlite3_mprintf(
        "PRAGMA journal_mode=%s; PRAGMA synchronous=FULL; BEGIN; SELECT once_install();"
        "CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);"
        "CREATE TABLE charge(id INTEGER PRIMARY KEY, account INTEGER NOT NULL, amount INTEGER NOT "
        "NULL, note TEXT);"
        "WITH RECURSIVE n(id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id < %d) "
        "INSERT INTO account SELECT id, 0 FROM n; COMMIT",
        journal, ACCOUNTS - 1);
    check(side, sqlite3_exec(side->db, sql, NULL, NULL, NULL));
    sqlite3_free(sql);
    for (int i = 0; i < STATEMENTS; i++)
        check(side, sqlite3_prepare_v3(side->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                       &side->statements[i], NULL));
    free(path);
}

static void close_side(struct side *side)
{
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(side->statements[i]);
    check(side, sqlite3_close(side->db));
}

static void step(struct side *side, enum statement which)
{
    check(side, sqlite3_step(side->statements[which]));
    check(side, sqlite3_reset(side->statements[which]));
}

/* Random to a tree, as a client's UUID is: the worst that can happen to an index. */
static int key_of(uint64_t number, char *ret_key)
{
    uint64_t mixed = number * 0x9e3779b97f4a7c15u;

    return snprintf(ret_key, KEY_SIZE, "%016" PRIx64 "-%08" PRIx64, mixed, number);
}

/* Begins; the fence, or 0 for a replay. */
static int64_t once_begin_here(struct side *side, const char *key, int size)
{
    sqlite3_stmt *begin = side->statements[ONCE_BEGIN];
    const char *verdict, *fence;
    int64_t number = 0;

    check(side, sqlite3_bind_text(begin, 1, key, size, SQLITE_STATIC));
    check(side, sqlite3_bind_text(begin, 2, "100 EUR to 42", -1, SQLITE_STATIC));
    check(side, sqlite3_step(begin));
    verdict = (const char *)sqlite3_column_text(begin, 0);
    fence = verdict ? strstr(verdict, "\"EXECUTE\",\"fence\":") : NULL;
    if (fence)
        number = strtoll(fence + strlen("\"EXECUTE\",\"fence\":"), NULL, 10);
    else if (!verdict || !strstr(verdict, "\"REPLAY\""))
        bench_die("sqlite: begin said %s", verdict ? verdict : sqlite3_errmsg(side->db));
    check(side, sqlite3_reset(begin));
    return number;
}

static void once_complete_here(struct side *side, const char *key, int size, int64_t fence)
{
    sqlite3_stmt *complete = side->statements[ONCE_COMPLETE];

    check(side, sqlite3_bind_text(complete, 1, key, size, SQLITE_STATIC));
    check(side, sqlite3_bind_int64(complete, 2, fence));
    check(side, sqlite3_bind_text(complete, 3, "{\"charge\":\"ch_1\"}", -1, SQLITE_STATIC));
    step(side, ONCE_COMPLETE);
}

static void transact(struct side *side)
{
    char key[KEY_SIZE];
    int size = key_of(side->done, key);
    int64_t fence = 0;

    step(side, BEGIN);
    if (side->once) {
        fence = once_begin_here(side, key, size);
        if (fence == 0)
            bench_die("sqlite: a new key was replayed");
    }
    check(side, sqlite3_bind_int64(side->statements[UPDATE], 1, (int64_t)(side->done % ACCOUNTS)));
    step(side, UPDATE);
    check(side, sqlite3_bind_int64(side->statements[INSERT], 1, (int64_t)(side->done % ACCOUNTS)));
    check(side, sqlite3_bind_text(side->statements[INSERT], 2, key, size, SQLITE_STATIC));
    step(side, INSERT);
    if (side->once)
        once_complete_here(side, key, size, fence);
    step(side, COMMIT);
    side->done++;
}

static void replay(struct side *side, uint64_t number)
{
    char key[KEY_SIZE];
    int size = key_of(number, key);

    step(side, BEGIN);
    if (once_begin_here(side, key, size) != 0)
        bench_die("sqlite: an old key was executed");
    step(side, COMMIT);
}

/* Microseconds a transaction. */
static double block_us(struct side *side, unsigned count)
{
    uint64_t start_ns = bench_now_ns();

    for (unsigned i = 0; i < count; i++)
        transact(side);
    return (double)(bench_now_ns() - start_ns) / 1000 / count;
}

static double replay_us(struct side *side, unsigned count)
{
    uint64_t start_ns = bench_now_ns();

    for (unsigned i = 0; i < count; i++)
        replay(side, i % side->done);
    return (double)(bench_now_ns() - start_ns) / 1000 / count;
}

/* Both in turn, in small blocks: the time of each as a mean, checkpoints of the log included. */
static void round_us(struct side *plain, struct side *once, unsigned count, double *ret_plain_us,
                     double *ret_once_us)
{
    double sums[2] = {0, 0};

    for (unsigned block = 0; block < BLOCKS; block++) {
        bool turn = block % 2 == 0;

        sums[turn ? 0 : 1] += block_us(turn ? plain : once, count);
        sums[turn ? 1 : 0] += block_us(turn ? once : plain, count);
    }
    *ret_plain_us = sums[0] / BLOCKS;
    *ret_once_us = sums[1] / BLOCKS;
}

/* One table of results; the ratio's median. */
static double measure(const char *parent, const char *journal, unsigned rounds, unsigned count)
{
    double plain_us[ROUNDS_MAX], once_us[ROUNDS_MAX], ratios[ROUNDS_MAX];
    struct side plain = {.once = false}, once = {.once = true};
    char *folder = bench_scratch_make(parent);
    double ratio, replayed;

    open_side(&plain, folder, "plain.db", journal);
    open_side(&once, folder, "once.db", journal);
    (void)block_us(&plain, count); /* warm: pages, the size of the journal */
    (void)block_us(&once, count);
    for (unsigned i = 0; i < rounds; i++) {
        round_us(&plain, &once, count, &plain_us[i], &once_us[i]);
        ratios[i] = once_us[i] / plain_us[i];
    }
    replayed = replay_us(&once, count);
    ratio = bench_median(ratios, rounds);
    printf("sqlite.%s ratio=%.2f plain_us=%.1f once_us=%.1f replay_us=%.1f lowest=%.2f "
           "highest=%.2f limit=%.1f\n",
           journal, ratio, bench_median(plain_us, rounds), bench_median(once_us, rounds), replayed,
           ratios[0], ratios[rounds - 1], LIMIT);
    close_side(&plain);
    close_side(&once);
    bench_scratch_remove(folder);
    free(folder);
    return ratio;
}

int main(int argc, char **argv)
{
    static const char *const journals[] = {"wal", "delete"};
    const char *folder = NULL;
    bool report_only = false, missed = false;
    unsigned rounds = 5;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--report-only") == 0)
            report_only = true;
        else if (strcmp(argv[i], "--folder") == 0 && i + 1 < argc)
            folder = argv[++i];
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            rounds = (unsigned)bench_number("--rounds", argv[++i], 1, ROUNDS_MAX);
        else
            bench_die("usage: bench_sqlite [--report-only] [--folder F] [--rounds N]");
    }
    for (size_t i = 0; i < sizeof journals / sizeof journals[0]; i++)
        missed |= measure(folder, journals[i], report_only ? 1 : rounds, report_only ? 5 : 50) >
                  LIMIT;
    return missed && !report_only ? 1 : 0;
}
