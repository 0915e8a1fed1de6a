/* SPDX-License-Identifier: Apache-2.0
 *
 * Random batches of once.calls on a few names, against a model that plays them one after the other
 * with the core: what a server does. Names stand in a batch once or several times, keys grow old
 * and come from the future, and the clock goes on between batches. Each batch is asked a second
 * time with the same ids, as after a lost connection: what was decided is told again, and nothing
 * is done twice.
 */
#include "conformance/pg_link.h"
#include "conformance/pg_table.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_COUNT = 14, CALLS_MAX = 32, SHOWN_MAX = 20, TEXT_SIZE = 1024, CALL_KINDS = 8 };

static const once_ms START_MS = 1767225600000LL;
static const once_ms NEVER_MS = -300000000000000LL; /* what keeps the system's clock out of it */

struct name {
    char key[TABLE_KEY_SIZE];
    once_ms birth_ms;
    struct once_record record;
    bool fence_unknown; /* a resolution gave it one that nobody was told */
};

struct sequence {
    PGconn *conn;
    uint64_t random;
    once_ms now_ms;
    uint64_t fence_before; /* the last that was given before this batch */
    struct name names[NAME_COUNT];
    struct table_case cases[CALLS_MAX];
    int of[CALLS_MAX]; /* index of the case's name */
    size_t count;
    unsigned round;
    int failures;
};

static unsigned pick(struct sequence *sequence, unsigned count)
{
    return (unsigned)(table_shuffle(&sequence->random) % count);
}

static void complain(struct sequence *sequence, size_t i, const char *what, int64_t got,
                     int64_t want)
{
    char text[TEXT_SIZE];

    if (sequence->failures++ >= SHOWN_MAX)
        return;
    table_describe(&sequence->cases[i], text, sizeof(text));
    printf("# sequence, round %u, call %zu of %zu: %s is %" PRId64 ", not %" PRId64 ": %s\n",
           sequence->round, i, sequence->count, what, got, want, text);
}

/* ---- Making a batch -------------------------------------------------------------------------- */

static void make_begin(struct sequence *sequence, const struct name *name, struct table_case *one)
{
    static const once_ms ttls[] = {1, 1000, 86400000};
    static const once_ms leases[] = {1, 500, 30000};
    static const char *const owners[] = {"alice", "bob", ""};

    one->begin = (struct once_request){
        .owner = once_bytes_of(owners[pick(sequence, 3)]),
        .birth_ms = name->birth_ms,
        .retention_ms = ttls[pick(sequence, 3)],
        .lease_ms = leases[pick(sequence, 3)],
        .on_doubt = pick(sequence, 2) == 0 ? ONCE_ON_DOUBT_REJECT : ONCE_ON_DOUBT_RETRY,
    };
    if (pick(sequence, 8) == 0)
        memset(one->begin.fingerprint.bytes, 'x', sizeof(one->begin.fingerprint.bytes));
}

static void make_call(struct sequence *sequence, size_t i)
{
    static const char *const words[] = {"", "one", "two"};
    static const once_ms leases[] = {0, 1, 500, 30000};
    int n = (int)pick(sequence, NAME_COUNT);
    struct name *name = &sequence->names[n];
    struct table_case *one = &sequence->cases[i];

    sequence->of[i] = n;
    *one = (struct table_case){.call = (enum once_call_kind)pick(sequence, CALL_KINDS),
                               .name = name->key,
                               .begin = {.birth_ms = ONCE_BIRTH_NONE}};
    if (pick(sequence, 3) == 0)
        one->call = pick(sequence, 2) == 0 ? ONCE_CALL_BEGIN : ONCE_CALL_COMPLETE;
    if (one->call == ONCE_CALL_BEGIN) {
        make_begin(sequence, name, one);
        return;
    }
    one->fence = pick(sequence, 4) == 0 ? pick(sequence, 2) * 7 : name->record.fence;
    one->lease_ms = leases[pick(sequence, 4)];
    one->done = pick(sequence, 2) == 0;
    if (one->call != ONCE_CALL_FAIL)
        one->answer.code = (int32_t)pick(sequence, 2);
    one->answer.result = once_bytes_of(words[pick(sequence, 3)]);
    one->step = (struct once_step){.point = once_bytes_of(words[1 + pick(sequence, 2)]),
                                   .data = once_bytes_of(words[pick(sequence, 3)]),
                                   .follows = pick(sequence, 2) == 0};
    if (one->step.follows)
        one->step.after = once_bytes_of(words[pick(sequence, 3)]);
}

/* ---- Playing it ------------------------------------------------------------------------------ */

static PGresult *ask(struct sequence *sequence, const char *text)
{
    PGresult *result = PQexecParams(sequence->conn, text, 0, NULL, NULL, NULL, NULL, 1);

    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        pg_die(text, sequence->conn, result);
    return result;
}

/* One batch in a transaction of its own. Every batch writes, even one that changes nothing: only
 * then does its commit wait for what it has seen to be durable (INV-2). */
static PGresult *ask_calls(struct sequence *sequence)
{
    char text[TABLE_CALLS_SIZE + 64], calls[TABLE_CALLS_SIZE];
    PGresult *result;

    table_calls_text("count(*) OVER (PARTITION BY key) > 1", (uint64_t)sequence->round * CALLS_MAX,
                     calls);
    snprintf(text, sizeof(text), "SELECT * FROM (%s) x ORDER BY 1", calls);
    pg_run(sequence->conn, "BEGIN");
    result = ask(sequence, text);
    if (pg_number(sequence->conn,
                  "SELECT (pg_current_xact_id_if_assigned() IS NOT NULL)::integer") != 1 &&
        sequence->failures++ < SHOWN_MAX)
        printf("# sequence, round %u: a batch that writes nothing\n", sequence->round);
    pg_run(sequence->conn, "COMMIT");
    return result;
}

static int64_t told_fence(const PGresult *told, int row)
{
    return pg_word(told, row, 1) == ONCE_EXECUTE ? pg_int(told, row, 2) : 0;
}

/* What the core makes of it, with the fence that the database chose. */
static struct once_decision decide(struct sequence *sequence, struct table_case *one,
                                   const struct name *name, uint64_t fence)
{
    uint64_t last = name->record.fence > sequence->fence_before ? name->record.fence
                                                                : sequence->fence_before;

    one->record = name->record;
    one->at.now_ms = sequence->now_ms;
    one->at.next_fence = fence > name->record.fence ? fence : last + 1;
    if (one->call == ONCE_CALL_GET) {
        bool there = once__state_at(&name->record, sequence->now_ms) != ONCE_STATE_ABSENT;

        return (struct once_decision){.word = there ? ONCE_DONE : ONCE_NOTFOUND,
                                      .next = name->record};
    }
    return table_decide(one);
}

static void compare_get(struct sequence *sequence, const PGresult *told, int row, size_t i,
                        const struct name *name, const struct once_decision *want)
{
    struct once_record shown = want->next;
    struct once_bytes print = pg_bytes(told, row, 16);
    struct once_record found = {.state = (enum once_state)pg_int(told, row, 10),
                                .attempt = (uint32_t)pg_int(told, row, 3),
                                .fence = (uint64_t)pg_int(told, row, 2),
                                .created_ms = pg_int(told, row, 11),
                                .lease_end_ms = pg_int(told, row, 12),
                                .retention_ms = pg_int(told, row, 13),
                                .expires_ms = pg_int(told, row, 14),
                                .code = (int32_t)pg_int(told, row, 5),
                                .owner = pg_bytes(told, row, 15),
                                .point = pg_bytes(told, row, 6),
                                .data = pg_bytes(told, row, 7),
                                .result = pg_bytes(told, row, 8)};
    const char *field;

    memcpy(found.fingerprint.bytes, print.data, print.size <= 32 ? print.size : 0);
    shown.state = once__state_at(&want->next, sequence->now_ms);
    if (want->word == ONCE_NOTFOUND)
        shown = (struct once_record){.state = ONCE_STATE_ABSENT};
    else if (name->fence_unknown)
        shown.fence = found.fence;
    field = table_record_differs(&found, &shown);
    if (field)
        complain(sequence, i, field, -1, -1);
}

static void compare_told(struct sequence *sequence, const PGresult *told, int row, size_t i,
                         const struct name *name, const struct once_decision *want)
{
    const struct once_bytes none = {NULL, 0};
    const struct once_record *next = &want->next;
    bool runs = want->word == ONCE_EXECUTE || want->word == ONCE_DOUBT;
    bool replays = want->word == ONCE_REPLAY;

    if (pg_word(told, row, 1) != want->word)
        complain(sequence, i, "word", pg_word(told, row, 1), want->word);
    else if (sequence->cases[i].call == ONCE_CALL_GET)
        compare_get(sequence, told, row, i, name, want);
    else if (!name->fence_unknown && pg_int(told, row, 2) != (runs ? (int64_t)next->fence : 0))
        complain(sequence, i, "fence", pg_int(told, row, 2), (int64_t)next->fence);
    else if (pg_int(told, row, 3) != (runs ? (int64_t)next->attempt : 0))
        complain(sequence, i, "attempt", pg_int(told, row, 3), next->attempt);
    else if (pg_int(told, row, 4) != want->retry_ms)
        complain(sequence, i, "retry_ms", pg_int(told, row, 4), want->retry_ms);
    else if (pg_int(told, row, 5) != (replays ? next->code : 0))
        complain(sequence, i, "code", pg_int(told, row, 5), next->code);
    else if (!once__bytes_equal(pg_bytes(told, row, 6), runs ? next->point : none) ||
             !once__bytes_equal(pg_bytes(told, row, 7), runs ? next->data : none) ||
             !once__bytes_equal(pg_bytes(told, row, 8), replays ? next->result : none))
        complain(sequence, i, "point, data or result", -1, -1);
}

static void play(struct sequence *sequence, const PGresult *told)
{
    if ((size_t)PQntuples(told) != sequence->count)
        pg_die("one answer for each call", NULL, NULL);
    for (size_t i = 0; i < sequence->count; i++) {
        struct table_case *one = &sequence->cases[i];
        struct name *name = &sequence->names[sequence->of[i]];
        struct once_decision want;

        if (pg_int(told, (int)i, 0) != (int64_t)i)
            pg_die("each call is answered once", NULL, NULL);
        if (one->call == ONCE_CALL_BEGIN &&
            name->birth_ms > sequence->now_ms + ONCE_KEY_SKEW_MS_MAX) {
            if (pg_word(told, (int)i, 1) != ONCE_ERR_KEY_FUTURE)
                complain(sequence, i, "word", pg_word(told, (int)i, 1), ONCE_ERR_KEY_FUTURE);
            continue;
        }
        want = decide(sequence, one, name, (uint64_t)told_fence(told, (int)i));
        if (want.changed && want.next.state != ONCE_STATE_ABSENT)
            name->fence_unknown = one->call == ONCE_CALL_RESOLVE ||
                                  (name->fence_unknown && one->call != ONCE_CALL_BEGIN) ||
                                  (name->fence_unknown && want.word == ONCE_DOUBT);
        compare_told(sequence, told, (int)i, i, name, &want);
        if (want.changed)
            name->record = want.next;
        if (want.changed && want.next.state == ONCE_STATE_ABSENT)
            name->fence_unknown = false;
    }
}

/* The table afterwards is what the model holds. */
static void compare_rows(struct sequence *sequence)
{
    PGresult *rows = ask(sequence, "SELECT key, state, attempt, fence, created_ms, lease_end_ms,"
                                   " retention_ms, expires_ms, code, fingerprint, owner, point,"
                                   " data, result FROM once.operation WHERE ns = 't'");
    int there = 0;

    for (int n = 0; n < NAME_COUNT; n++) {
        struct name *name = &sequence->names[n];
        struct once_record found = {.state = ONCE_STATE_ABSENT};
        const char *field;

        for (int row = 0; row < PQntuples(rows); row++) {
            if (strcmp(PQgetvalue(rows, row, 0), name->key) == 0)
                found = table_record(rows, row, 1);
        }
        there += found.state != ONCE_STATE_ABSENT;
        if (name->fence_unknown && found.fence > sequence->fence_before) {
            name->record.fence = found.fence;
            name->fence_unknown = false;
        }
        field = table_record_differs(&found, &name->record);
        if (field && sequence->failures++ < SHOWN_MAX)
            printf("# sequence, round %u: %s of '%s' differs\n", sequence->round, field, name->key);
    }
    if (there != PQntuples(rows))
        pg_die("rows that nobody made", NULL, NULL);
    PQclear(rows);
}

/* The same calls with the same ids, of names that stand there once. Each word comes again, but a
 * forget finds nothing any more. */
static void ask_again(struct sequence *sequence, const PGresult *first)
{
    PGresult *second;

    pg_run(sequence->conn, "DELETE FROM cases WHERE key IN (SELECT key FROM cases GROUP BY key"
                           " HAVING count(*) > 1)");
    if (pg_number(sequence->conn, "SELECT count(*) FROM cases") == 0)
        return;
    second = ask_calls(sequence);
    for (int row = 0; row < PQntuples(second); row++) {
        int i = (int)pg_int(second, row, 0);
        int64_t word = pg_int(first, i, 1);

        if (sequence->cases[i].call == ONCE_CALL_FORGET && word == ONCE_DONE)
            word = ONCE_NOTFOUND;
        if (pg_word(second, row, 1) != word)
            complain(sequence, (size_t)i, "word, asked again,", pg_word(second, row, 1), word);
        for (int column = 2; word != ONCE_NOTFOUND && column < PQnfields(first); column++) {
            if (!once__bytes_equal(pg_bytes(second, row, column), pg_bytes(first, i, column)) &&
                pg_word(second, row, 1) == word && column != 4)
                complain(sequence, (size_t)i, PQfname(first, column), -1, -1);
        }
    }
    PQclear(second);
}

/* ---- The pass -------------------------------------------------------------------------------- */

static void prepare(struct sequence *sequence)
{
    for (int n = 0; n < NAME_COUNT; n++) {
        struct name *name = &sequence->names[n];
        struct table_case one = {.call = ONCE_CALL_BEGIN};

        /* Some are young, some come from up to four days ahead, most do not say. */
        name->birth_ms = n % 3 == 0 ? START_MS + n * 28000000LL : ONCE_BIRTH_NONE;
        one.begin.birth_ms = name->birth_ms;
        table_key(&one, 4000, (size_t)n, name->key);
    }
    pg_run(sequence->conn, "DELETE FROM once.operation WHERE ns = 't'");
}

static void set_clock(struct sequence *sequence)
{
    char text[TEXT_SIZE];

    snprintf(text, sizeof(text), "SELECT once.set_clock(%" PRId64 ", %" PRId64 ")", NEVER_MS,
             sequence->now_ms);
    pg_run(sequence->conn, text);
}

int table_sequence(PGconn *conn, uint64_t seed, unsigned rounds, size_t *calls)
{
    static const once_ms steps[] = {0, 0, 1, 499, 1000, 30000, 3600000, 40000000};
    static struct sequence sequence;

    sequence = (struct sequence){.conn = conn, .random = seed, .now_ms = START_MS};
    prepare(&sequence);
    for (sequence.round = 1; sequence.round <= rounds; sequence.round++) {
        PGresult *told;

        sequence.now_ms += steps[pick(&sequence, 8)];
        set_clock(&sequence);
        sequence.fence_before = (uint64_t)pg_number(conn, "SELECT last_value FROM once.fence_seq");
        sequence.count = 1 + pick(&sequence, pick(&sequence, 3) == 0 ? 3 : CALLS_MAX);
        for (size_t i = 0; i < sequence.count; i++)
            make_call(&sequence, i);
        table_send(conn, sequence.cases, sequence.count, 0);
        told = ask_calls(&sequence);
        play(&sequence, told);
        compare_rows(&sequence);
        ask_again(&sequence, told);
        compare_rows(&sequence);
        *calls += sequence.count;
        PQclear(told);
    }
    return sequence.failures;
}
