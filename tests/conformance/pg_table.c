/* SPDX-License-Identifier: Apache-2.0
 *
 * The decision table of SQL against that of the core:
 *
 *     ONCE_PG_URL=postgresql://… pg_table [--seed N] [--thin N] [--random N] [--stride N]
 *                                         [--rounds N]
 *
 *     decide     once.decide, the pure function, on every case (--thin: one in N) and --random ones
 *     calls      once.calls on real rows, one in --stride of the cases; many do not go through
 *                once.decide but through the statements for the common case
 *     again      the same with every name marked as standing in the batch more than once
 *     functions  once.begin, once.complete, … on real rows
 *     sequence   --rounds batches of random calls on few names, each asked twice
 *
 * Word, changed, retry_ms and every field of the next record must be equal, what is told must be
 * what belongs to the word, and rows that were not to change must be as they were. Prints the
 * first differences and ends with 1 after the pass that has them. The role of the URL owns the
 * schema.
 */
#include "conformance/pg_table.h"
#include "conformance/pg_link.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_MAX = 1000, SHOWN_MAX = 20, DESCRIPTION_SIZE = 1024, DIGEST_SIZE = 64 };

struct pass {
    const char *name;
    PGconn *conn;
    void (*play)(struct pass *pass);
    bool again;
    struct table_case cases[BATCH_MAX];
    size_t count;
    unsigned round;
    size_t played;
    int failures;
};

static void complain(struct pass *pass, size_t i, const char *what, int64_t got, int64_t want)
{
    char text[DESCRIPTION_SIZE];

    if (pass->failures++ >= SHOWN_MAX)
        return;
    table_describe(&pass->cases[i], text, sizeof(text));
    printf("# %s: %s is %" PRId64 ", not %" PRId64 ": %s\n", pass->name, what, got, want, text);
}

static void flush(struct pass *pass)
{
    if (pass->count == 0)
        return;
    table_send(pass->conn, pass->cases, pass->count, pass->round);
    pass->play(pass);
    pass->played += pass->count;
    pass->count = 0;
    pass->round++;
}

static void visit(void *user, const struct table_case *one)
{
    struct pass *pass = user;

    pass->cases[pass->count++] = *one;
    if (pass->count == BATCH_MAX)
        flush(pass);
}

static PGresult *must_ask(struct pass *pass, const char *text)
{
    PGresult *result = PQexecParams(pass->conn, text, 0, NULL, NULL, NULL, NULL, 1);

    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        pg_die(text, pass->conn, result);
    return result;
}

/* ---- once.decide ---------------------------------------------------------------------------- */

/* A name without a record is NULL in every other case, else a record whose state is 0. */
static const char decide_text[] =
    "SELECT c.i, d.word, d.changed, d.retry_ms, (d.next).state, (d.next).attempt, (d.next).fence,"
    " (d.next).created_ms, (d.next).lease_end_ms, (d.next).retention_ms, (d.next).expires_ms,"
    " (d.next).code, (d.next).fingerprint, (d.next).owner, (d.next).point, (d.next).data,"
    " (d.next).result, (d.next).id"
    " FROM cases c, LATERAL once.decide(c.call, CASE WHEN c.state = 0 AND c.i % 2 = 0 THEN NULL"
    " ELSE pg_temp.rec(c) END, pg_temp.req(c), c.now_ms, c.next_fence) d ORDER BY c.i";

/* The first fence is the record's id: of a new operation the new one. */
static uint64_t id_of(const struct table_case *one, const struct once_decision *decision)
{
    bool first = decision->word == ONCE_EXECUTE && decision->changed &&
                 once__state_at(&one->record, one->at.now_ms) == ONCE_STATE_ABSENT;

    return first ? decision->next.fence : decision->next.state == ONCE_STATE_ABSENT ? 0 : one->id;
}

static void play_decide(struct pass *pass)
{
    PGresult *result = must_ask(pass, decide_text);

    ONCE_ASSERT((size_t)PQntuples(result) == pass->count);
    for (int row = 0; row < PQntuples(result); row++) {
        size_t i = (size_t)pg_int(result, row, 0);
        const struct table_case *one = &pass->cases[i];
        struct once_decision want = table_decide(one);
        struct once_record next = table_record(result, row, 4);
        const char *field = table_record_differs(&next, &want.next);

        if (pg_word(result, row, 1) != want.word)
            complain(pass, i, "word", pg_word(result, row, 1), want.word);
        else if (pg_word(result, row, 2) != want.changed)
            complain(pass, i, "changed", pg_word(result, row, 2), want.changed);
        else if (pg_word(result, row, 3) != want.retry_ms)
            complain(pass, i, "retry_ms", pg_word(result, row, 3), want.retry_ms);
        else if (field)
            complain(pass, i, field, -1, -1);
        else if (pg_int(result, row, 17) != (int64_t)id_of(one, &want))
            complain(pass, i, "id", pg_int(result, row, 17), (int64_t)id_of(one, &want));
    }
    PQclear(result);
}

/* ---- Through the real functions ------------------------------------------------------------- */

static const char clear_text[] = "DELETE FROM once.operation WHERE ns IN ('t', 'u')";
/* Ids must differ; the cases' own are the same for many. In another namespace there are the same
 * keys with the same fences, which nobody asks for. */
static const char fill_text[] =
    "UPDATE cases SET id = 1000000000 + i WHERE state <> 0;"
    "INSERT INTO once.operation SELECT r.* FROM cases c, LATERAL pg_temp.rec(c) r WHERE c.state <>"
    " 0;"
    "INSERT INTO once.operation SELECT 'u', key, id + 1000000000, state, attempt, fence,"
    " created_ms, lease_end_ms, retention_ms, expires_ms, code, fingerprint, owner, point, data,"
    " result FROM once.operation WHERE ns = 't'";
static const char others_text[] =
    "SELECT coalesce(sum(hashtextextended(o::text, 0)::numeric), 0)::text FROM once.operation o"
    " WHERE ns = 'u'";

static const char functions_text[] =
    "SELECT c.i, a.word, a.fence, a.attempt, a.retry_ms, a.code, a.point, a.data, a.result,"
    " c.now_ms FROM cases c, LATERAL pg_temp.try(c) a";

static const char rows_text[] =
    "SELECT c.i, o.id, o.state, o.attempt, o.fence, o.created_ms, o.lease_end_ms, o.retention_ms,"
    " o.expires_ms, o.code, o.fingerprint, o.owner, o.point, o.data, o.result,"
    " o.call IS NOT NULL AND o.call = lpad(to_hex(c.i), 32, '0')::uuid AS mine,"
    " o.call IS NULL AS nobodys FROM cases c"
    " LEFT JOIN once.operation o ON o.ns = 't' AND o.key = c.key ORDER BY c.i";

/* Of the rows that nobody asks for. */
static void digest(struct pass *pass, char ret_text[DIGEST_SIZE])
{
    PGresult *result = PQexec(pass->conn, others_text);

    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        pg_die(others_text, pass->conn, result);
    snprintf(ret_text, DIGEST_SIZE, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
}

/* What is there after a call, against what the core says that there should be. */
static struct once_decision compare_row(struct pass *pass, const PGresult *rows, size_t i,
                                        bool with_calls, int64_t fence_before)
{
    struct table_case one = pass->cases[i];
    struct once_record found = table_record(rows, (int)i, 2);
    struct once_decision want;
    const char *field;
    uint64_t id = one.id;

    one.at.next_fence = found.fence > one.record.fence ? found.fence : ONCE_FENCE_MAX;
    want = table_decide(&one);
    one.id = 1000000000 + i;
    field = table_record_differs(&found, &want.next);
    if (field) {
        complain(pass, i, field, -1, -1);
        return want;
    }
    if (want.changed && want.next.fence != one.record.fence && want.next.fence != 0 &&
        (int64_t)want.next.fence <= fence_before)
        complain(pass, i, "fence", (int64_t)want.next.fence, fence_before + 1);
    id = one.record.state == ONCE_STATE_ABSENT && !want.changed ? 0 : id_of(&one, &want);
    if (pg_int(rows, (int)i, 1) != (int64_t)id)
        complain(pass, i, "id", pg_int(rows, (int)i, 1), (int64_t)id);
    if (found.state != ONCE_STATE_ABSENT) {
        bool mine = with_calls && want.changed;

        if (pg_int(rows, (int)i, 15) != mine || pg_int(rows, (int)i, 16) == mine)
            complain(pass, i, "call", pg_int(rows, (int)i, 15), mine);
    }
    return want;
}

static void compare_told(struct pass *pass, const PGresult *told, int row, size_t i,
                         const struct once_decision *want)
{
    const struct once_bytes none = {NULL, 0};
    const struct once_record *next = &want->next;
    bool runs = want->word == ONCE_EXECUTE || want->word == ONCE_DOUBT;
    bool replays = want->word == ONCE_REPLAY;

    if (pass->cases[i].call != ONCE_CALL_BEGIN && want->word == ONCE_DOUBT &&
        PQgetisnull(told, row, 2))
        runs = false; /* a caller's function says only DOUBT */
    if (pg_word(told, row, 1) != want->word)
        complain(pass, i, "word", pg_word(told, row, 1), want->word);
    else if (pg_int(told, row, 2) != (runs ? (int64_t)next->fence : 0))
        complain(pass, i, "told fence", pg_int(told, row, 2), runs ? (int64_t)next->fence : 0);
    else if (pg_int(told, row, 3) != (runs ? (int64_t)next->attempt : 0))
        complain(pass, i, "told attempt", pg_int(told, row, 3), next->attempt);
    else if (pg_int(told, row, 4) != want->retry_ms)
        complain(pass, i, "told retry_ms", pg_int(told, row, 4), want->retry_ms);
    else if (pg_int(told, row, 5) != (replays ? next->code : 0))
        complain(pass, i, "told code", pg_int(told, row, 5), next->code);
    else if (!once__bytes_equal(pg_bytes(told, row, 6), runs ? next->point : none))
        complain(pass, i, "told point", -1, -1);
    else if (!once__bytes_equal(pg_bytes(told, row, 7), runs ? next->data : none))
        complain(pass, i, "told data", -1, -1);
    else if (!once__bytes_equal(pg_bytes(told, row, 8), replays ? next->result : none))
        complain(pass, i, "told result", -1, -1);
    else if (pg_int(told, row, 9) != pass->cases[i].at.now_ms)
        complain(pass, i, "now_ms", pg_int(told, row, 9), pass->cases[i].at.now_ms);
}

/* Fills the table, asks with this text, and compares what is told and what is there afterwards. */
static void play_on_rows(struct pass *pass, const char *text, bool with_calls)
{
    static bool seen[BATCH_MAX];
    static struct once_decision wants[BATCH_MAX];
    char before[DIGEST_SIZE], after[DIGEST_SIZE];
    PGresult *told, *rows;
    int64_t fence_before;

    pg_run(pass->conn, "BEGIN");
    pg_run(pass->conn, clear_text);
    pg_run(pass->conn, fill_text);
    pg_run(pass->conn, "ANALYZE cases");
    fence_before = pg_number(pass->conn, "SELECT last_value FROM once.fence_seq");
    digest(pass, before);
    told = must_ask(pass, text);
    rows = must_ask(pass, rows_text);
    digest(pass, after);
    if (strcmp(before, after) != 0)
        complain(pass, 0, "rows of another namespace changed; one of them", -1, -1);
    pg_run(pass->conn, "COMMIT");
    if ((size_t)PQntuples(told) != pass->count)
        pg_die("one answer for each call", NULL, NULL);
    ONCE_ASSERT((size_t)PQntuples(rows) == pass->count);
    memset(seen, 0, sizeof(seen));
    for (size_t i = 0; i < pass->count; i++)
        wants[i] = compare_row(pass, rows, i, with_calls, fence_before);
    for (int row = 0; row < PQntuples(told); row++) {
        size_t i = (size_t)pg_int(told, row, 0);

        if (i >= pass->count || seen[i])
            pg_die("each call is answered once", NULL, NULL);
        seen[i] = true;
        compare_told(pass, told, row, i, &wants[i]);
    }
    PQclear(told);
    PQclear(rows);
}

static void play_calls(struct pass *pass)
{
    char text[TABLE_CALLS_SIZE];

    table_calls_text(pass->again ? "true" : "false", 0, text);
    play_on_rows(pass, text, true);
}

static void play_functions(struct pass *pass)
{
    play_on_rows(pass, functions_text, false);
}

/* ---- The program ---------------------------------------------------------------------------- */

struct options {
    uint64_t seed;
    uint64_t thin;
    uint64_t random;
    uint64_t stride;
    uint64_t rounds;
};

static void read_options(int argc, char **argv, struct options *ret)
{
    for (int i = 1; i < argc; i++) {
        uint64_t *to = strcmp(argv[i], "--seed") == 0     ? &ret->seed
                       : strcmp(argv[i], "--thin") == 0   ? &ret->thin
                       : strcmp(argv[i], "--stride") == 0 ? &ret->stride
                       : strcmp(argv[i], "--random") == 0 ? &ret->random
                       : strcmp(argv[i], "--rounds") == 0 ? &ret->rounds
                                                          : NULL;

        if (!to || i + 1 == argc) {
            fprintf(
                stderr,
                "usage: pg_table [--seed N] [--thin N] [--random N] [--stride N] [--rounds N]\n");
            exit(2);
        }
        *to = strtoull(argv[++i], NULL, 10);
    }
}

static int report(struct pass *pass)
{
    flush(pass);
    printf("%s %s: %zu cases, %d differ\n", pass->failures == 0 ? "ok" : "not ok", pass->name,
           pass->played, pass->failures);
    return pass->failures;
}

/* The clock stands still at the first of the cases' times, and all fences are larger than
 * theirs. */
static void stop_clock(PGconn *conn)
{
    pg_run(conn, "SELECT once.set_clock(-300000000000000, 1767225600000)");
    pg_run(conn, "SELECT setval('once.fence_seq', greatest(last_value, 1000)) FROM once.fence_seq");
}

static int pass_decide(struct pass *pass, PGconn *conn, const struct options *options)
{
    *pass = (struct pass){.name = "decide", .conn = conn, .play = play_decide};
    table_each(options->seed, (unsigned)options->thin, false, visit, pass);
    table_random(options->seed, options->random, visit, pass);
    return report(pass);
}

static int passes_on_rows(struct pass *pass, PGconn *conn, const struct options *options)
{
    static const struct {
        const char *name;
        void (*play)(struct pass *pass);
        bool again;
    } ways[] = {{"calls", play_calls, false},
                {"calls, one after the other", play_calls, true},
                {"functions", play_functions, false}};
    int failures = 0;

    stop_clock(conn);
    for (size_t i = 0; failures == 0 && i < sizeof(ways) / sizeof(ways[0]); i++) {
        *pass = (struct pass){
            .name = ways[i].name, .conn = conn, .play = ways[i].play, .again = ways[i].again};
        table_each(options->seed + i, (unsigned)options->stride, true, visit, pass);
        failures = report(pass);
    }
    return failures;
}

static int pass_sequence(PGconn *conn, const struct options *options)
{
    size_t calls = 0;
    int failures = table_sequence(conn, options->seed, (unsigned)options->rounds, &calls);

    printf("%s sequence: %zu calls, %d differ\n", failures == 0 ? "ok" : "not ok", calls, failures);
    return failures;
}

int main(int argc, char **argv)
{
    static struct pass pass;
    struct options options = {.seed = 1, .thin = 1, .random = 20000, .stride = 4, .rounds = 200};
    PGconn *conn = pg_connect();
    int failures;

    setvbuf(stdout, NULL, _IOLBF, 0);
    read_options(argc, argv, &options);
    printf("# seed %" PRIu64 "\n", options.seed);
    table_prepare(conn);
    failures = pass_decide(&pass, conn, &options);
    if (failures == 0)
        failures = passes_on_rows(&pass, conn, &options);
    if (failures == 0)
        failures = pass_sequence(conn, &options);
    PQfinish(conn);
    return failures > 0 ? 1 : 0;
}
