/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of an operation: begin, complete, fail, checkpoint, renew, resolve, forget, get.
 *
 * Each reads its arguments, lets the core decide on the record, writes what changed, and tells it.
 * What is told goes into the caller's transaction: it is true when that commits, and was never said
 * when it rolls back (INV-2 is the caller's COMMIT).
 */
#include "lite.h"

#include <string.h>

#include <once/fingerprint.h>
#include <once/key.h>

enum { NAME_ARGS = 2 };

/* What a call asks of a record: one of these, as the core takes it. */
struct request {
    uint64_t fence;
    struct once_answer answer;
    struct once_step step;
    struct once_renewal renewal;
    struct once_resolution resolution;
    struct once__lite_bytes result; /* of complete, fail and resolve */
};

typedef struct once_decision (*decide_fn)(const struct once_record *record,
                                          const struct request *request, struct once_moment at);

/* ---- What each one decides ------------------------------------------------------------------- */

static struct once_decision complete(const struct once_record *record,
                                     const struct request *request, struct once_moment at)
{
    return once__decide_complete(record, request->fence, &request->answer, at.now_ms);
}

static struct once_decision fail(const struct once_record *record, const struct request *request,
                                 struct once_moment at)
{
    return once__decide_fail(record, request->fence, request->result.bytes, at.now_ms);
}

static struct once_decision checkpoint(const struct once_record *record,
                                       const struct request *request, struct once_moment at)
{
    return once__decide_checkpoint(record, request->fence, &request->step, at.now_ms);
}

static struct once_decision renew(const struct once_record *record, const struct request *request,
                                  struct once_moment at)
{
    return once__decide_renew(record, request->renewal, at.now_ms);
}

static struct once_decision resolve(const struct once_record *record, const struct request *request,
                                    struct once_moment at)
{
    return once__decide_resolve(record, &request->resolution, at);
}

static struct once_decision forget(const struct once_record *record, const struct request *request,
                                   struct once_moment at)
{
    return once__decide_forget(record, request->fence, at.now_ms);
}

/* ---- The flow -------------------------------------------------------------------------------- */

static struct once_moment moment(const struct once__lite *lite)
{
    return (struct once_moment){.now_ms = lite->now_ms, .next_fence = lite->next_fence};
}

/* A call of an owner or an operator: the name is read, the arguments are checked. */
static void perform(struct once__lite_call *call, const struct once__lite_name *name,
                    decide_fn decide, const struct request *request, bool with_result)
{
    struct once__lite_found found;
    struct once_decision decision;
    sqlite3_stmt *statement;
    bool ok;

    if (!once__lite_enter(call))
        return;
    ok = once__lite_find(call, name, &found, &statement);
    if (ok) {
        decision = decide(&found.record, request, moment(call->lite));
        ok = once__lite_keep(call, name, &found, &decision, with_result ? &request->result : NULL);
        once__lite_rest(statement);
    }
    if (!ok)
        once__lite_abandon(call);
    else if (once__lite_leave(call))
        once__lite_tell_word(call, &decision);
}

bool once__lite_begin_here(struct once__lite_call *call, struct once__lite_begin *begin,
                           struct once_decision *ret_decision, sqlite3_stmt **ret_statement)
{
    const struct once__lite_bytes none = {.given = false};
    struct once_defect defect = {0, NULL};
    struct once__lite_found found;
    int err;

    if (!once__lite_find(call, &begin->name, &found, ret_statement))
        return false;
    err = once__request_check(&begin->request, call->lite->now_ms, &defect);
    if (err != ONCE_OK) {
        once__lite_error(call, err, defect.what);
    } else {
        *ret_decision = once__decide_begin(&found.record, &begin->request, moment(call->lite));
        if (once__lite_keep(call, &begin->name, &found, ret_decision, &none))
            return true;
    }
    once__lite_rest(*ret_statement);
    return false;
}

bool once__lite_complete_here(struct once__lite_call *call, const struct once__lite_name *name,
                              uint64_t fence, const struct once__lite_bytes *result)
{
    struct once_answer answer = {.code = 0, .result = result->bytes};
    struct once_decision decision;
    struct once__lite_found found;
    sqlite3_stmt *statement;
    bool ok;

    if (!once__lite_find(call, name, &found, &statement))
        return false;
    decision = once__decide_complete(&found.record, fence, &answer, call->lite->now_ms);
    ok = once__lite_keep(call, name, &found, &decision, result);
    once__lite_rest(statement);
    if (ok && decision.word != ONCE_DONE) {
        once__lite_tell_word(call, &decision);
        return false;
    }
    return ok;
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static bool on_doubt_arg(struct once__lite_call *call, int index, enum once_on_doubt *ret_on_doubt)
{
    struct once__lite_bytes word;

    *ret_on_doubt = ONCE_ON_DOUBT_REJECT;
    if (!once__lite_given(call, index))
        return true;
    if (!once__lite_bytes_arg(call, index, "on_doubt", ONCE_POINT_SIZE_MAX, &word))
        return false;
    if (word.text && sqlite3_stricmp((const char *)word.bytes.data, "RETRY") == 0)
        *ret_on_doubt = ONCE_ON_DOUBT_RETRY;
    else if (!word.text || sqlite3_stricmp((const char *)word.bytes.data, "REJECT") != 0) {
        once__lite_error(call, ONCE_ERR_INVALID, "on_doubt is not 'REJECT' or 'RETRY'");
        return false;
    }
    return true;
}

/* Bounds are the core's: the widest range that a number can be handed on in is taken here. */
static bool length_arg(struct once__lite_call *call, int index, const char *what, once_ms otherwise,
                       once_ms *ret_ms)
{
    const struct once__lite_range range = {INT64_MIN, INT64_MAX, otherwise};

    return once__lite_number_arg(call, index, what, range, ret_ms);
}

bool once__lite_begin_args(struct once__lite_call *call, struct once__lite_begin *ret_begin)
{
    struct once__lite_bytes fingerprint, owner;
    struct once_request *request = &ret_begin->request;
    int err;

    *request = (struct once_request){.birth_ms = ONCE_BIRTH_NONE};
    if (!once__lite_name_args(call, &ret_begin->name) ||
        !once__lite_bytes_arg(call, 2, "the fingerprint", ONCE_RESULT_SIZE_MAX, &fingerprint) ||
        !once__lite_bytes_arg(call, 3, "the owner", ONCE_RESULT_SIZE_MAX, &owner) ||
        !length_arg(call, 4, "ttl_ms", ONCE_RETENTION_MS_DEFAULT, &request->retention_ms) ||
        !length_arg(call, 5, "lease_ms", ONCE_LEASE_MS_DEFAULT, &request->lease_ms) ||
        !on_doubt_arg(call, 6, &request->on_doubt))
        return false;
    request->birth_ms = once_key_birth_ms(ret_begin->name.key);
    request->owner = owner.bytes;
    err = once_fingerprint_from_bytes(fingerprint.bytes, &request->fingerprint);
    if (err == ONCE_OK)
        return true;
    once__lite_error(call, err, "the fingerprint cannot be made");
    return false;
}

/* code and result, from the argument at index on. */
static bool answer_args(struct once__lite_call *call, int index, struct request *request)
{
    const struct once__lite_range range = {INT32_MIN, INT32_MAX, 0};
    struct once_defect defect = {0, NULL};
    int64_t code;
    int err;

    if (!once__lite_number_arg(call, index, "the code", range, &code) ||
        !once__lite_bytes_arg(call, index + 1, "the result", SIZE_MAX, &request->result))
        return false;
    request->answer = (struct once_answer){.code = (int32_t)code, .result = request->result.bytes};
    err = once__answer_check(&request->answer, &defect);
    if (err != ONCE_OK)
        once__lite_error(call, err, defect.what);
    return err == ONCE_OK;
}

static bool defect_free(struct once__lite_call *call, int err, const struct once_defect *defect)
{
    if (err != ONCE_OK)
        once__lite_error(call, err, defect->what);
    return err == ONCE_OK;
}

/* ---- The functions --------------------------------------------------------------------------- */

void once__lite_do_begin(struct once__lite_call *call)
{
    struct once__lite_begin begin;
    struct once_decision decision;
    sqlite3_stmt *statement;

    if (!once__lite_begin_args(call, &begin) || !once__lite_enter(call))
        return;
    if (!once__lite_begin_here(call, &begin, &decision, &statement)) {
        once__lite_abandon(call);
        return;
    }
    once__lite_tell_begin(call, &decision);
    once__lite_rest(statement);
    (void)once__lite_leave(call);
}

void once__lite_do_complete(struct once__lite_call *call)
{
    struct once__lite_name name;
    struct request request = {.fence = 0};

    if (once__lite_name_args(call, &name) &&
        once__lite_fence_arg(call, NAME_ARGS, &request.fence) &&
        answer_args(call, NAME_ARGS + 1, &request))
        perform(call, &name, complete, &request, true);
}

void once__lite_do_fail(struct once__lite_call *call)
{
    struct once__lite_name name;
    struct request request = {.fence = 0};
    struct once_defect defect = {0, NULL};

    if (once__lite_name_args(call, &name) &&
        once__lite_fence_arg(call, NAME_ARGS, &request.fence) &&
        once__lite_bytes_arg(call, NAME_ARGS + 1, "the reason", SIZE_MAX, &request.result) &&
        defect_free(call, once__reason_check(request.result.bytes, &defect), &defect))
        perform(call, &name, fail, &request, true);
}

void once__lite_do_checkpoint(struct once__lite_call *call)
{
    struct once__lite_bytes point, data, after;
    struct once__lite_name name;
    struct request request = {.fence = 0};
    struct once_defect defect = {0, NULL};

    if (!once__lite_name_args(call, &name) ||
        !once__lite_fence_arg(call, NAME_ARGS, &request.fence) ||
        !once__lite_bytes_arg(call, NAME_ARGS + 1, "the point", SIZE_MAX, &point) ||
        !once__lite_bytes_arg(call, NAME_ARGS + 2, "the data", SIZE_MAX, &data) ||
        !once__lite_bytes_arg(call, NAME_ARGS + 3, "after", SIZE_MAX, &after))
        return;
    request.step = (struct once_step){
        .point = point.bytes, .data = data.bytes, .follows = after.given, .after = after.bytes};
    if (defect_free(call, once__step_check(&request.step, &defect), &defect))
        perform(call, &name, checkpoint, &request, false);
}

void once__lite_do_renew(struct once__lite_call *call)
{
    struct once__lite_name name;
    struct request request = {.fence = 0};
    struct once_defect defect = {0, NULL};

    if (once__lite_name_args(call, &name) &&
        once__lite_fence_arg(call, NAME_ARGS, &request.renewal.fence) &&
        length_arg(call, NAME_ARGS + 1, "lease_ms", -1, &request.renewal.lease_ms) &&
        defect_free(call, once__lease_check(request.renewal.lease_ms, &defect), &defect))
        perform(call, &name, renew, &request, false);
}

void once__lite_do_resolve(struct once__lite_call *call)
{
    const struct once__lite_range yes_or_no = {0, 1, -1};
    const struct once__lite_range fences = {0, (int64_t)ONCE_FENCE_MAX, 0};
    struct once__lite_name name;
    struct request request = {.fence = 0};
    int64_t done, fence;

    if (!once__lite_name_args(call, &name) ||
        !once__lite_number_arg(call, NAME_ARGS, "done", yes_or_no, &done) ||
        !answer_args(call, NAME_ARGS + 1, &request) ||
        !once__lite_number_arg(call, NAME_ARGS + 3, "the fence", fences, &fence))
        return;
    if (done < 0) {
        once__lite_error(call, ONCE_ERR_INVALID, "say whether it was done: 1 or 0");
        return;
    }
    request.resolution = (struct once_resolution){
        .done = done == 1, .fence = (uint64_t)fence, .answer = request.answer};
    if (done == 0) /* the core keeps no answer then */
        request.result = (struct once__lite_bytes){.given = false};
    perform(call, &name, resolve, &request, true);
}

void once__lite_do_forget(struct once__lite_call *call)
{
    const struct once__lite_range fences = {0, (int64_t)ONCE_FENCE_MAX, 0};
    struct once__lite_name name;
    struct request request = {.fence = 0};
    int64_t fence;

    if (!once__lite_name_args(call, &name) ||
        !once__lite_number_arg(call, NAME_ARGS, "the fence", fences, &fence))
        return;
    request.fence = (uint64_t)fence;
    perform(call, &name, forget, &request, false);
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* No lock is taken and nothing is written: a database that is read-only can be looked at, and one
 * without our tables holds no operation. False: there is none, or the error is set. */
static bool find_to_read(struct once__lite_call *call, const struct once__lite_name *name,
                         struct once__lite_found *ret_found, sqlite3_stmt **ret_statement)
{
    struct once__lite *lite = call->lite;

    lite->reading = true;
    lite->own = false;
    *ret_statement = NULL;
    if (!once__lite_installed(lite) || !once__lite_find(call, name, ret_found, ret_statement))
        return false;
    return ret_found->there &&
           once__state_at(&ret_found->record, lite->now_ms) != ONCE_STATE_ABSENT;
}

void once__lite_do_get(struct once__lite_call *call)
{
    struct once__lite_name name;
    struct once__lite_found found;
    sqlite3_stmt *statement;

    if (!once__lite_name_args(call, &name))
        return;
    if (find_to_read(call, &name, &found, &statement))
        once__lite_tell_record(call, &name, &found.record);
    once__lite_rest(statement);
    once__lite_abandon(call);
}

void once__lite_do_result(struct once__lite_call *call)
{
    struct once__lite_name name;
    struct once__lite_found found;
    sqlite3_stmt *statement;

    if (!once__lite_name_args(call, &name))
        return;
    if (find_to_read(call, &name, &found, &statement) &&
        found.record.state == ONCE_STATE_COMPLETED && !found.result_null) {
        struct once_bytes result = found.record.result;

        if (found.result_text)
            sqlite3_result_text64(call->context, (const char *)result.data, result.size,
                                  SQLITE_TRANSIENT, SQLITE_UTF8);
        else if (result.size == 0)
            (void)sqlite3_result_zeroblob64(call->context, 0);
        else
            sqlite3_result_blob64(call->context, result.data, result.size, SQLITE_TRANSIENT);
    }
    once__lite_rest(statement);
    once__lite_abandon(call);
}
