/* SPDX-License-Identifier: Apache-2.0
 *
 * The transaction of a group, and what became of it.
 *
 *     idle ──run──▶ held ──decided──▶ committing ──COMMIT, no warning──▶ idle: RAN
 *       ▲            │ error: rolled back, AGAIN      │ lost, warned, an error of COMMIT itself
 *       │            ▼                                ▼
 *       └───────── idle                            unknown: LOST; the next run settles it
 *
 * It holds: before COMMIT is sent nothing can become true. From then on only the lane's row says
 * whether it did, and nothing is told or decided again before it was asked (INV-2). Rows are held
 * by the transaction and by nothing else: a server that dies lets go of them.
 */
#include "store/postgres/pg_apply.h"

#include "base/assert.h"
#include "base/random.h"
#include "store/call.h"
#include "store/postgres/pg_group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct once__pg_apply {
    int64_t lane_id;
    int64_t number;             /* of the newest group */
    bool unknown;               /* it may have been committed; its ops hold what to tell then */
    struct once_op *unknown_op; /* the first of them, */
    size_t unknown_count;       /* and how many */
    struct once__stage *stage;
    uint8_t secret[ONCE__OBJECT_SECRET_SIZE];
};

int once__pg_apply_new(int64_t lane_id, struct once__pg_apply **ret_apply)
{
    struct once__pg_apply *apply = calloc(1, sizeof(*apply));
    int err = apply ? ONCE_OK : ONCE_ERR_MEMORY;

    if (err == ONCE_OK)
        err = once__random_bytes(apply->secret, sizeof(apply->secret));
    if (err == ONCE_OK)
        err = once__stage_new(&apply->stage);
    if (err != ONCE_OK) {
        once__pg_apply_free(apply);
        return err;
    }
    apply->lane_id = lane_id;
    *ret_apply = apply;
    return ONCE_OK;
}

void once__pg_apply_free(struct once__pg_apply *apply)
{
    if (!apply)
        return;
    once__stage_free(apply->stage);
    free(apply);
}

void once__pg_apply_drop(struct once__pg_apply *apply)
{
    apply->unknown = false;
}

/* ---- The pipeline ---------------------------------------------------------------------------- */

enum { COMMANDS_MAX = 4 };

/* What came back to the commands of one round trip. */
struct answers {
    size_t count;
    size_t failed; /* the first that failed; count: none */
    int err;       /* that of it, also in the link */
    PGresult *results[COMMANDS_MAX];
};

static void answers_clear(struct answers *answers)
{
    for (size_t i = 0; i < COMMANDS_MAX; i++) {
        PQclear(answers->results[i]);
        answers->results[i] = NULL;
    }
}

/* One command without parameters. */
static int send_command(struct once__pg_link *link, const char *sql)
{
    if (PQsendQueryParams(link->conn, sql, 0, NULL, NULL, NULL, NULL, 1) != 1)
        return once__pg_failed(link, NULL);
    return ONCE_OK;
}

static int send_sync(struct once__pg_link *link)
{
    return PQpipelineSync(link->conn) == 1 ? ONCE_OK : once__pg_failed(link, NULL);
}

/* The one result of a command, and the end of it. */
static int read_command(struct once__pg_link *link, once_ms until_ms, PGresult **ret_result)
{
    PGresult *result = NULL, *end = NULL;
    int err = once__pg_next(link, until_ms, &result);

    if (err == ONCE_OK && !result)
        err = once__pg_failed(link, NULL);
    if (err == ONCE_OK)
        err = once__pg_next(link, until_ms, &end);
    if (err == ONCE_OK && end)
        err = once__pg_failed(link, NULL);
    PQclear(end);
    if (err == ONCE_OK)
        *ret_result = result;
    else
        PQclear(result);
    return err;
}

static int read_sync(struct once__pg_link *link, once_ms until_ms)
{
    PGresult *result = NULL;
    int err = once__pg_next(link, until_ms, &result);

    if (err == ONCE_OK && PQresultStatus(result) != PGRES_PIPELINE_SYNC)
        err = once__pg_failed(link, NULL);
    PQclear(result);
    return err;
}

/* Reads answers->count of them and the synchronisation point. ONCE_ERR_IO: the session is lost, and
 * only what came before that is there. */
static int read_answers(struct once__pg_link *link, once_ms until_ms, struct answers *answers)
{
    int err = ONCE_OK;

    ONCE_ASSERT(answers->count <= COMMANDS_MAX);
    answers->failed = answers->count;
    for (size_t i = 0; err == ONCE_OK && i < answers->count; i++) {
        ExecStatusType status;

        err = read_command(link, until_ms, &answers->results[i]);
        if (err != ONCE_OK)
            break;
        status = PQresultStatus(answers->results[i]);
        if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK ||
            answers->failed < answers->count)
            continue;
        answers->failed = i;
        answers->err = once__pg_failed(link, answers->results[i]);
    }
    return err == ONCE_OK ? read_sync(link, until_ms) : ONCE_ERR_IO;
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static enum once__pg_ran refuse_all(const struct once__pg_group *group, int err, const char *what)
{
    for (size_t i = 0; i < group->count; i++)
        once__call_refuse(group->ops[i], err, what);
    return ONCE__PG_RAN;
}

static void forget_replies(const struct once__pg_group *group)
{
    for (size_t i = 0; i < group->count; i++)
        once_reply_release(&group->ops[i]->reply);
}

/* Ends the transaction; the link says then what it said before. */
static int roll_back(struct once__pg_link *link, once_ms until_ms)
{
    struct answers answers = {.count = 1};
    char state[sizeof(link->state)], text[sizeof(link->text)];
    int err;

    memcpy(state, link->state, sizeof(state));
    memcpy(text, link->text, sizeof(text));
    err = send_command(link, "ROLLBACK");
    if (err == ONCE_OK)
        err = send_sync(link);
    if (err == ONCE_OK)
        err = read_answers(link, until_ms, &answers);
    if (err == ONCE_OK && answers.failed < answers.count)
        err = ONCE_ERR_IO;
    answers_clear(&answers);
    if (err == ONCE_OK) {
        memcpy(link->state, state, sizeof(state));
        memcpy(link->text, text, sizeof(text));
    }
    return err;
}

/* PostgreSQL refused something. Where one of many may be the reason, fewer are asked for. */
static enum once__pg_ran give_up(const struct once__pg_group *group, struct once__pg_link *link,
                                 once_ms until_ms, int err)
{
    if (roll_back(link, until_ms) != ONCE_OK)
        return ONCE__PG_RAN_LOST;
    forget_replies(group);
    if (group->count > 1 || once__pg_passing(link))
        return ONCE__PG_RAN_AGAIN;
    return refuse_all(group, err, "PostgreSQL refused the transaction; its log says why");
}

/* The group as a whole is too large, or there is no memory for it. */
static enum once__pg_ran too_much(const struct once__pg_group *group, struct once__pg_link *link,
                                  once_ms until_ms, int err)
{
    if (roll_back(link, until_ms) != ONCE_OK)
        return ONCE__PG_RAN_LOST;
    if (group->count == 1)
        return refuse_all(group, err, NULL);
    forget_replies(group);
    (void)snprintf(link->state, sizeof(link->state), "%s", "54000");
    (void)snprintf(link->text, sizeof(link->text), "%s", "too many objects in one transaction");
    return ONCE__PG_RAN_AGAIN;
}

/* ---- One group ------------------------------------------------------------------------------- */

/* Holds and reads every row. */
static enum once__pg_ran hold(struct once__pg_apply *apply, struct once__pg_group *group,
                              struct once__pg_link *link, once_ms until_ms)
{
    struct answers answers = {.count = 0};
    int err = send_command(link, "BEGIN");

    if (err == ONCE_OK)
        err = once__pg_hold_send(group, link->conn, apply->lane_id, apply->number, &answers.count);
    answers.count++; /* and BEGIN */
    if (err == ONCE_OK)
        err = send_sync(link);
    if (err == ONCE_OK)
        err = read_answers(link, until_ms, &answers);
    if (err != ONCE_OK) {
        answers_clear(&answers);
        return ONCE__PG_RAN_LOST;
    }
    if (answers.failed < answers.count) {
        answers_clear(&answers);
        return give_up(group, link, until_ms, answers.err);
    }
    for (size_t i = 0; i < sizeof(group->results) / sizeof(*group->results); i++) {
        group->results[i] = answers.results[i + 1];
        answers.results[i + 1] = NULL;
    }
    answers_clear(&answers);
    return ONCE__PG_RAN;
}

/* Writes and commits. */
static enum once__pg_ran keep(struct once__pg_apply *apply, struct once__pg_group *group,
                              struct once__pg_link *link, once_ms until_ms)
{
    struct answers answers = {.count = 0};
    bool committed = false;
    int err;

    link->warned = false;
    apply->unknown = true; /* from here on: some of it may be sent before sending fails */
    apply->unknown_op = group->ops[0];
    apply->unknown_count = group->count;
    err = once__pg_keep_send(group, link->conn, &answers.count);
    if (err == ONCE_OK)
        err = send_command(link, "COMMIT");
    answers.count++;
    if (err == ONCE_OK)
        err = send_sync(link);
    if (err == ONCE_OK)
        err = read_answers(link, until_ms, &answers);
    if (err == ONCE_OK && answers.failed == answers.count)
        committed = strcmp(PQcmdStatus(answers.results[answers.count - 1]), "COMMIT") == 0;
    answers_clear(&answers);
    if (err == ONCE_OK && answers.failed < answers.count - 1) { /* COMMIT was not run */
        apply->unknown = false;
        return give_up(group, link, until_ms, answers.err);
    }
    if (err != ONCE_OK || !committed || link->warned)
        return ONCE__PG_RAN_LOST;
    apply->unknown = false;
    return ONCE__PG_RAN;
}

static bool left_out(const struct once__pg_group *group)
{
    for (size_t i = 0; i < group->thing_count; i++) {
        if (group->things[i].left_out)
            return true;
    }
    for (size_t i = 0; i < group->row_count; i++) {
        if (group->rows[i].left_out)
            return true;
    }
    return false;
}

static enum once__pg_ran run_group(struct once__pg_apply *apply, struct once__pg_group *group,
                                   struct once__pg_link *link, once_ms until_ms)
{
    enum once__pg_ran ran;
    int err = once__pg_group_gather(group);

    if (err != ONCE_OK)
        return refuse_all(group, err, NULL);
    apply->number++;
    ran = hold(apply, group, link, until_ms);
    if (ran != ONCE__PG_RAN || !group->results[0])
        return ran;
    err = once__pg_hold_read(group);
    if (err == ONCE_OK && left_out(group))
        err = ONCE_ERR_FULL;
    if (err == ONCE_OK)
        err = once__pg_group_decide(group);
    if (err != ONCE_OK)
        return too_much(group, link, until_ms, err);
    return keep(apply, group, link, until_ms);
}

/* ---- After a lost session -------------------------------------------------------------------- */

/* Was the group that nobody knows about committed, and is that durable? */
static int settle(struct once__pg_apply *apply, struct once__pg_link *link, once_ms until_ms,
                  bool *ret_committed)
{
    struct answers answers = {.count = 3};
    struct once_bytes told = {NULL, 0};
    char lane[24], number[24];
    const char *values[2] = {lane, number};
    int err = send_command(link, "BEGIN");

    (void)snprintf(lane, sizeof(lane), "%" PRId64, apply->lane_id);
    (void)snprintf(number, sizeof(number), "%" PRId64, apply->number);
    link->warned = false;
    if (err == ONCE_OK && PQsendQueryParams(link->conn, "SELECT once.settled($1, $2)", 2, NULL,
                                            values, NULL, NULL, 1) != 1)
        err = once__pg_failed(link, NULL);
    if (err == ONCE_OK)
        err = send_command(link, "COMMIT");
    if (err == ONCE_OK)
        err = send_sync(link);
    if (err == ONCE_OK)
        err = read_answers(link, until_ms, &answers);
    if (err == ONCE_OK && answers.failed < answers.count)
        err = ONCE_ERR_IO;
    if (err == ONCE_OK && PQntuples(answers.results[1]) == 1 && PQnfields(answers.results[1]) == 1)
        told = once__pg_get_bytes(answers.results[1], 0, 0);
    if (err == ONCE_OK && (told.size != 1 || link->warned))
        err = ONCE_ERR_IO;
    if (err == ONCE_OK)
        *ret_committed = told.data[0] == 1;
    answers_clear(&answers);
    return err;
}

enum once__pg_ran once__pg_apply_run(struct once__pg_apply *apply, struct once__pg_link *link,
                                     once_ms until_ms, struct once_op *const *ops,
                                     const struct once__pg_id *ids, size_t count)
{
    struct once__pg_group group = {
        .ops = ops, .ids = ids, .count = count, .secret = apply->secret, .stage = apply->stage};
    enum once__pg_ran ran;

    ONCE_ASSERT(count > 0 && count <= ONCE_PG_APPLY_OPS_MAX);
    if (apply->unknown) {
        bool committed = false;

        ONCE_ASSERT(apply->unknown_op == ops[0] && apply->unknown_count == count);
        if (settle(apply, link, until_ms, &committed) != ONCE_OK)
            return ONCE__PG_RAN_LOST;
        apply->unknown = false;
        if (committed)
            return ONCE__PG_RAN;
    }
    forget_replies(&group);
    ran = run_group(apply, &group, link, until_ms);
    once__pg_group_release(&group);
    return ran;
}
