/* SPDX-License-Identifier: Apache-2.0
 *
 * once_apply: a function of the program's, once for each key: begin, call, complete. Its answer
 * replays; an error of it takes everything back, what it wrote and the key too. The request is
 * JSON, and the key is bound to what it means: spaces and the order of members make no difference.
 */
#include "lite.h"

#include <string.h>

#include <once/fingerprint.h>
#include <once/key.h>
#include <once/limits.h>

#include "base/sha256.h"
#include "core/json_canon.h"

/* SHA-256 of the canonical form; false: the error is set. */
static bool json_fingerprint(struct once__lite_call *call, struct once_bytes json,
                             struct once_fingerprint *ret_fingerprint)
{
    struct once__sha256_digest digest;
    struct once_defect defect = {0, NULL};
    struct once_buf canonical;
    int err;

    once_buf_init(&canonical, (size_t)ONCE_JSON_SIZE_MAX * ONCE__JSON_CANON_GROWTH_MAX);
    err = once_json_canonical(json, ONCE_JSON_EXACT, &canonical, &defect);
    if (err == ONCE_OK)
        err = once__sha256_of(once_buf_bytes(&canonical), &digest);
    once_buf_release(&canonical);
    if (err != ONCE_OK) {
        once__lite_error(call, err, defect.what);
        return false;
    }
    memcpy(ret_fingerprint->bytes, digest.bytes, ONCE_FINGERPRINT_SIZE);
    return true;
}

void once__lite_do_fingerprint(struct once__lite_call *call)
{
    struct once_fingerprint fingerprint;
    struct once__lite_bytes json;

    if (!once__lite_given(call, 0))
        return; /* of nothing it is nothing */
    if (once__lite_bytes_arg(call, 0, "the request", ONCE_JSON_SIZE_MAX, &json) &&
        json_fingerprint(call, json.bytes, &fingerprint))
        sqlite3_result_blob(call->context, fingerprint.bytes, ONCE_FINGERPRINT_SIZE,
                            SQLITE_TRANSIENT);
}

/* ---- The program's function ------------------------------------------------------------------ */

/* The name comes from the caller: it is quoted as an identifier, and can be nothing else. */
static int prepare_call(struct once__lite *lite, struct once_bytes name, sqlite3_stmt **ret)
{
    char *sql = sqlite3_mprintf("SELECT \"%w\"(?1)", (const char *)name.data);
    int status = sql ? sqlite3_prepare_v2(lite->db, sql, -1, ret, NULL) : SQLITE_NOMEM;

    sqlite3_free(sql);
    return status;
}

static bool run_function(struct once__lite_call *call, sqlite3_stmt *statement,
                         struct once_bytes request, struct once__lite_bytes *ret_answer)
{
    struct once__lite *lite = call->lite;
    int status = once__lite_bind_bytes(statement, 1, request, true), type;

    if (status == SQLITE_OK) {
        bool own = lite->own, inside = lite->inside; /* a call inside has others */

        lite->called = false; /* it may use us: none of our statements is in use now */
        lite->inside = true;
        status = sqlite3_step(statement);
        lite->called = true;
        lite->inside = inside;
        lite->reading = false;
        lite->own = own;
    }
    if (status != SQLITE_ROW) {
        once__lite_sqlite_error(call, status);
        return false;
    }
    type = sqlite3_column_type(statement, 0);
    if (type != SQLITE_TEXT && type != SQLITE_BLOB && type != SQLITE_NULL) {
        once__lite_error(call, ONCE_ERR_INVALID, "the function must give text, a blob or NULL");
        return false;
    }
    *ret_answer = (struct once__lite_bytes){.given = type != SQLITE_NULL};
    if (type != SQLITE_NULL)
        ret_answer->bytes = once__lite_column(statement, 0);
    ret_answer->text = type == SQLITE_TEXT && once__lite_is_text(ret_answer->bytes);
    if (ret_answer->bytes.size <= ONCE_RESULT_SIZE_MAX)
        return true;
    once__lite_error(call, ONCE_ERR_FULL, "the result is larger than 16 MiB");
    return false;
}

static void tell_answer(struct once__lite_call *call, const struct once__lite_bytes *answer)
{
    if (!answer->given)
        sqlite3_result_null(call->context);
    else if (answer->text)
        sqlite3_result_text64(call->context, (const char *)answer->bytes.data, answer->bytes.size,
                              SQLITE_TRANSIENT, SQLITE_UTF8);
    else if (answer->bytes.size == 0)
        (void)sqlite3_result_zeroblob64(call->context, 0);
    else
        sqlite3_result_blob64(call->context, answer->bytes.data, answer->bytes.size,
                              SQLITE_TRANSIENT);
}

/* What a verdict other than EXECUTE means here: the first answer, or an error. DOUBT is an error
 * too, and nothing is lost by that: the record says since when its lease is over. */
static bool answer_verdict(struct once__lite_call *call, const struct once_decision *decision,
                           const struct once__lite_bytes *result)
{
    switch (decision->word) {
    case ONCE_REPLAY:
        tell_answer(call, result);
        return true;
    case ONCE_BUSY:
        once__lite_tell_word(call, decision);
        break;
    case ONCE_MISMATCH:
        once__lite_refuse(call, ONCE_MISMATCH, "this key belongs to another request");
        break;
    case ONCE_TOO_OLD:
        once__lite_refuse(call, ONCE_TOO_OLD, "the key was born longer ago than answers are kept");
        break;
    case ONCE_DOUBT:
    case ONCE_EXECUTE:
    case ONCE_DONE:
    case ONCE_STALE:
    case ONCE_NOTFOUND:
    case ONCE_APPLIED:
    case ONCE_REJECTED:
        once__lite_refuse(call, ONCE_DOUBT, "someone started it and vanished: resolve it");
        break;
    }
    return false;
}

/* ---- All of it ------------------------------------------------------------------------------- */

struct apply {
    struct once__lite_call *call;
    struct once__lite_begin begin;
    struct once_bytes request;
    sqlite3_stmt *function;
    bool alone; /* in a transaction of its own */
};

/* Begin, call, complete; the lock is held. False: the error is set. */
static bool perform(struct once__lite_call *call, struct apply *apply)
{
    struct once_decision decision;
    struct once__lite_bytes answer = {.given = false};
    sqlite3_stmt *statement;
    uint64_t fence;

    if (!once__lite_begin_here(call, &apply->begin, &decision, &statement))
        return false;
    if (decision.word != ONCE_EXECUTE) {
        int type = sqlite3_column_type(statement, sqlite3_column_count(statement) - 1);
        bool ok;

        answer.bytes = decision.next.result;
        answer.given = type != SQLITE_NULL;
        answer.text = type == SQLITE_TEXT;
        ok = answer_verdict(call, &decision, &answer);
        once__lite_rest(statement);
        return ok;
    }
    fence = decision.next.fence;
    once__lite_rest(statement);
    if (!run_function(call, apply->function, apply->request, &answer) ||
        !once__lite_complete_here(call, &apply->begin.name, fence, &answer))
        return false;
    tell_answer(call, &answer);
    return true;
}

/* An error of a function does not end the caller's transaction, so what was written since is taken
 * back here. The tables are there before: to take back their making would end the caller's
 * statement. False: that could not be done. */
static bool perform_in_savepoint(struct apply *apply)
{
    struct once__lite_call *call = apply->call;
    sqlite3 *db = call->lite->db;
    int status = sqlite3_exec(db, "SAVEPOINT once_apply", NULL, NULL, NULL);

    if (status == SQLITE_ERROR)
        once__lite_error(call, ONCE_ERR_INVALID,
                         "call it by a SELECT: this statement writes, and cannot be taken back");
    else if (status != SQLITE_OK)
        once__lite_sqlite_error(call, status);
    if (status != SQLITE_OK)
        return true;
    if (perform(call, apply)) {
        status = sqlite3_exec(db, "RELEASE once_apply", NULL, NULL, NULL);
        if (status == SQLITE_OK)
            return true;
        once__lite_sqlite_error(call, status);
    }
    return sqlite3_get_autocommit(db) ||
           sqlite3_exec(db, "ROLLBACK TO once_apply; RELEASE once_apply", NULL, NULL, NULL) ==
               SQLITE_OK;
}

/* A function of the program's may have done anything, so that what would end the transaction cannot
 * run where it was interrupted in the end: once__lite_in_statement. */
static bool perform_and_end(void *self)
{
    struct apply *apply = self;
    struct once__lite *lite = apply->call->lite;
    bool taken_back = true;

    if (!lite->own)
        taken_back = perform_in_savepoint(apply);
    else if (perform(apply->call, apply))
        return once__lite_leave(apply->call) || sqlite3_get_autocommit(lite->db);
    once__lite_abandon(apply->call);
    return taken_back && (!apply->alone || sqlite3_get_autocommit(lite->db));
}

static bool apply_args(struct once__lite_call *call, struct apply *apply,
                       struct once_bytes *ret_function)
{
    const struct once__lite_range lives = {1, ONCE_RETENTION_MS_MAX, ONCE_RETENTION_MS_DEFAULT};
    struct once_request *request = &apply->begin.request;
    struct once__lite_bytes json;

    *request = (struct once_request){.lease_ms = ONCE_LEASE_MS_DEFAULT};
    if (!once__lite_name_args(call, &apply->begin.name) ||
        !once__lite_bytes_arg(call, 2, "the request", ONCE_JSON_SIZE_MAX, &json) ||
        !once__lite_key_arg(call, 3, "the function", ret_function) ||
        !once__lite_number_arg(call, 4, "ttl_ms", lives, &request->retention_ms))
        return false;
    if (!json.given) {
        once__lite_error(call, ONCE_ERR_INVALID, "there is no request: the key is bound to it");
        return false;
    }
    apply->request = json.bytes;
    request->birth_ms = once_key_birth_ms(apply->begin.name.key);
    return json_fingerprint(call, json.bytes, &request->fingerprint);
}

void once__lite_do_apply(struct once__lite_call *call)
{
    struct apply apply = {.call = call};
    struct once_bytes function;
    int status;

    if (!apply_args(call, &apply, &function))
        return;
    status = prepare_call(call->lite, function, &apply.function);
    if (status != SQLITE_OK)
        once__lite_sqlite_error(call, status);
    else if (once__lite_start(call)) {
        apply.alone = call->lite->own;
        status = once__lite_in_statement(call->lite, perform_and_end, &apply);
        if (status != SQLITE_OK) {
            once__lite_sqlite_error(call, status);
            once__lite_abandon(call);
        }
    }
    sqlite3_finalize(apply.function);
}
