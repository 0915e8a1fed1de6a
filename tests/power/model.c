/* SPDX-License-Identifier: Apache-2.0
 *
 * The model: model.h says what it believes. Here decisions are entered into the journal, answers
 * are compared field by field, and after a crash the possible prefixes are weighed.
 *
 * It never asks the engine anything; it is told.
 */
#include "power/model.h"

#include "core/value.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static once_ms later(once_ms a, once_ms b)
{
    return a > b ? a : b;
}

void model_init(struct model *model, struct history *history)
{
    struct extension *extension = model->extension;

    memset(model, 0, sizeof(*model));
    model->extension = extension;
    model->history = history;
    model->broken_key = HISTORY_NO_KEY;
}

void model_break(struct model *model, int key, const char *format, ...)
{
    va_list list;

    if (model->broken)
        return;
    model->broken = true;
    model->broken_key = key;
    va_start(list, format);
    vsnprintf(model->broken_text, sizeof(model->broken_text), format, list);
    va_end(list);
}

/* ---- Deciding -------------------------------------------------------------------------------- */

int model_begin(const struct model *model, int key, const struct once_op *op,
                const struct once_fingerprint *fingerprint, once_ms now_ms,
                struct once_decision *ret_decision)
{
    struct once_moment at = {.now_ms = now_ms, .next_fence = model->last_fence + 1};
    struct once_request request = {
        .fingerprint = *fingerprint,
        .owner = op->owner,
        .birth_ms = model->births[key],
        .retention_ms = op->ttl_ms != 0 ? op->ttl_ms : ONCE_RETENTION_MS_DEFAULT,
        .lease_ms = op->lease_ms != 0 ? op->lease_ms : ONCE_LEASE_MS_DEFAULT,
        .on_doubt = op->on_doubt,
    };
    struct once_defect defect;
    int err = once__request_check(&request, at.now_ms, &defect);

    if (err == ONCE_OK)
        *ret_decision = once__decide_begin(&model->now[key], &request, at);
    return err;
}

static int decide_value(const struct once_record *record, const struct once_op *op,
                        struct once_moment at, struct once_decision *ret_decision)
{
    struct once_value value = {.bytes = op->result,
                               .when = op->when,
                               .keep_ttl = op->keep_ttl,
                               .ttl_ms = op->ttl_ms,
                               .until_ms = op->until_ms};
    once_ms ttl_ms;
    int err = once__value_ttl(&value, at.now_ms, &ttl_ms, NULL);

    if (err != ONCE_OK)
        return err;
    *ret_decision = op->call == ONCE_CALL_SET ? once__decide_set(record, &value, ttl_ms, at)
                                              : once__decide_expire(record, ttl_ms, at.now_ms);
    return ONCE_OK;
}

static int decide(const struct model *model, int key, const struct once_op *op, once_ms now_ms,
                  struct once_decision *ret_decision)
{
    const struct once_record *record = &model->now[key];
    struct once_moment at = {.now_ms = now_ms, .next_fence = model->last_fence + 1};
    struct once_answer answer = {.code = op->code, .result = op->result};
    struct once_step step = {
        .point = op->point, .data = op->data, .follows = op->follows, .after = op->after};
    struct once_renewal renewal = {.fence = op->fence, .lease_ms = op->lease_ms};
    struct once_resolution resolution = {.done = op->done, .fence = op->fence, .answer = answer};
    struct once_fingerprint fingerprint = {{0}};

    switch (op->call) {
    case ONCE_CALL_BEGIN:
        /* The workload's fingerprints are none, or 32 bytes that count as they are. */
        if (op->fingerprint.size > 0)
            memcpy(fingerprint.bytes, op->fingerprint.data, ONCE_FINGERPRINT_SIZE);
        return model_begin(model, key, op, &fingerprint, now_ms, ret_decision);
    case ONCE_CALL_COMPLETE:
        *ret_decision = once__decide_complete(record, op->fence, &answer, now_ms);
        return ONCE_OK;
    case ONCE_CALL_FAIL:
        *ret_decision = once__decide_fail(record, op->fence, op->result, now_ms);
        return ONCE_OK;
    case ONCE_CALL_CHECKPOINT:
        *ret_decision = once__decide_checkpoint(record, op->fence, &step, now_ms);
        return ONCE_OK;
    case ONCE_CALL_RENEW:
        *ret_decision = once__decide_renew(record, renewal, now_ms);
        return ONCE_OK;
    case ONCE_CALL_RESOLVE:
        *ret_decision = once__decide_resolve(record, &resolution, at);
        return ONCE_OK;
    case ONCE_CALL_FORGET:
        *ret_decision = once__decide_forget(record, op->fence, now_ms);
        return ONCE_OK;
    case ONCE_CALL_SET:
    case ONCE_CALL_EXPIRE:
        return decide_value(record, op, at, ret_decision);
    case ONCE_CALL_GET:
    case ONCE_CALL_APPLY: /* an extension's */
    case ONCE_CALL_MERGE:
        break;
    }
    *ret_decision = (struct once_decision){.word = ONCE_DONE, .next = *record};
    if (once__state_at(record, now_ms) == ONCE_STATE_ABSENT)
        ret_decision->word = ONCE_NOTFOUND;
    return ONCE_OK;
}

/* When time alone made of the record what it is now; 0 when it is what was written. */
static once_ms changed_by_time_ms(const struct once_record *record, once_ms now_ms)
{
    enum once_state state = once__state_at(record, now_ms);

    if (state == record->state)
        return 0;
    return state == ONCE_STATE_DOUBT ? record->lease_end_ms : record->expires_ms;
}

/* What must have passed for an answer that changed nothing: told once, it may never be taken back
 * by a clock that starts earlier (INV-6). */
static once_ms holds_since(const struct model *model, const struct promise *promise,
                           const struct once_op *op)
{
    const struct once_record *record;
    once_ms since_ms = 0;

    if (promise->key == HISTORY_NO_KEY)
        return 0;
    record = &model->now[promise->key];
    if (promise->decision.word == ONCE_NOTFOUND || promise->decision.word == ONCE_TOO_OLD ||
        op->call == ONCE_CALL_GET)
        since_ms = changed_by_time_ms(record, promise->now_ms);
    if (promise->decision.word == ONCE_TOO_OLD)
        since_ms = later(since_ms, model->births[promise->key] +
                                       (op->ttl_ms != 0 ? op->ttl_ms : ONCE_RETENTION_MS_DEFAULT));
    return since_ms;
}

static void enter(struct model *model, const struct promise *promise)
{
    struct model_entry *entry = &model->entries[model->count];
    const struct once_record *next = &promise->decision.next;

    if (model->count == MODEL_ENTRIES_MAX)
        abort(); /* the workload is bounded */
    if (next->fence > model->last_fence)
        model->last_fence = next->fence;
    if (model->last_fence > model->top_fence)
        model->top_fence = model->last_fence;
    *entry = (struct model_entry){.key = promise->key,
                                  .record = *next,
                                  .last_fence = model->last_fence,
                                  .now_ms = promise->now_ms};
    model->count++;
    if (promise->key != HISTORY_NO_KEY) {
        model->now[promise->key] = *next;
        model->changed[promise->key] = model->count;
    }
    if (model->extension)
        model->extension->enter(model->extension->self, promise);
}

static size_t depends_on(const struct model *model, const struct promise *promise)
{
    size_t of_key = promise->key != HISTORY_NO_KEY ? model->changed[promise->key] : 0;

    if (promise->err == ONCE_OK && promise->decision.changed)
        return model->count;
    return of_key > promise->reveals ? of_key : promise->reveals;
}

struct promise model_decide(struct model *model, int key, const struct once_op *op, once_ms now_ms,
                            int err)
{
    struct promise promise = {.key = key, .call = op->call, .now_ms = now_ms};
    struct event event = {.kind = EVENT_DECIDED, .key = key, .call = op->call, .now_ms = now_ms};

    model->time_top_ms = later(model->time_top_ms, now_ms);
    if (key != HISTORY_NO_KEY)
        promise.before = model->now[key];
    if (op->call == ONCE_CALL_APPLY || op->call == ONCE_CALL_MERGE)
        promise.err = model->extension->decide(model->extension->self, op, &promise);
    else
        promise.err = decide(model, key, op, now_ms, &promise.decision);
    if (err == ONCE_ERR_FULL && promise.grows)
        promise.err = err;
    if (promise.err == ONCE_OK) {
        promise.holds_since_ms = promise.decision.changed ? now_ms
                                                          : holds_since(model, &promise, op);
        promise.err = err;
    }
    if (promise.err == ONCE_OK && promise.decision.changed)
        enter(model, &promise);
    promise.depends = depends_on(model, &promise);

    event.life = model->life;
    event.disk_operation = model->disk_operation;
    event.err = promise.err;
    event.word = promise.decision.word;
    event.state = promise.decision.next.state;
    event.fence = promise.decision.next.fence;
    event.size = promise.decision.next.result.size;
    event.changed = promise.decision.changed;
    event.dos = op->dos;
    event.do_count = op->do_count;
    event.journal = promise.depends;
    history_add(model->history, &event);
    return promise;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* What the answer to a get must be of this record, or to another call of this decision. */
static struct once_reply reply_of(enum once_call_kind call, const struct once_decision *decision,
                                  once_ms now_ms)
{
    const struct once_record *record = &decision->next;
    struct once_reply reply = {.word = decision->word, .retry_ms = decision->retry_ms};
    bool whole = call == ONCE_CALL_GET && decision->word == ONCE_DONE;

    if (whole || decision->word == ONCE_EXECUTE || decision->word == ONCE_DOUBT) {
        reply.fence = record->fence;
        reply.attempt = record->attempt;
        reply.point = record->point;
        reply.data = record->data;
    }
    if (whole || decision->word == ONCE_REPLAY || decision->word == ONCE_APPLIED ||
        decision->word == ONCE_REJECTED) {
        reply.code = record->code;
        reply.result = record->result;
    }
    if (whole) {
        reply.state = once__state_at(record, now_ms);
        reply.created_ms = record->created_ms;
        reply.lease_end_ms = record->lease_end_ms;
        reply.retention_ms = record->retention_ms;
        reply.expires_ms = record->expires_ms;
        reply.owner = record->owner;
        reply.fingerprint = record->fingerprint;
    }
    return reply;
}

static struct once_reply reply_of_set(const struct promise *promise)
{
    struct once_reply reply = {.word = promise->decision.word,
                               .retry_ms = promise->decision.retry_ms,
                               .state = once__state_at(&promise->before, promise->now_ms)};

    if (reply.state == ONCE_STATE_COMPLETED)
        reply.result = promise->before.result;
    return reply;
}

/* The rejection of an apply that was told to nobody: only its beginning is known. */
static bool is_partly_known(struct once_bytes result)
{
    static const char open[] = "{\"rejected\":";

    return result.size > sizeof(open) && memcmp(result.data, open, sizeof(open) - 1) == 0 &&
           result.data[result.size - 1] != '}';
}

static bool result_is(struct once_bytes expected, struct once_bytes told)
{
    if (is_partly_known(expected) && told.size > expected.size)
        told.size = expected.size;
    return once__bytes_equal(expected, told);
}

/* The first field in which they differ, or NULL. a is what is expected. */
static const char *difference(const struct once_reply *a, const struct once_reply *b)
{
    if (a->word != b->word)
        return "word";
    if (a->state != b->state)
        return "state";
    if (a->fence != b->fence)
        return "fence";
    if (a->attempt != b->attempt)
        return "attempt";
    if (a->code != b->code)
        return "code";
    if (a->retry_ms != b->retry_ms)
        return "retry_ms";
    if (!once__bytes_equal(a->point, b->point))
        return "point";
    if (!once__bytes_equal(a->data, b->data))
        return "data";
    if (!result_is(a->result, b->result))
        return "result";
    if (a->created_ms != b->created_ms)
        return "created_ms";
    if (a->lease_end_ms != b->lease_end_ms)
        return "lease_end_ms";
    if (a->retention_ms != b->retention_ms)
        return "retention_ms";
    if (a->expires_ms != b->expires_ms)
        return "expires_ms";
    if (!once__bytes_equal(a->owner, b->owner))
        return "owner";
    if (!once__fingerprint_equal(&a->fingerprint, &b->fingerprint))
        return "fingerprint";
    return NULL;
}

static void note_told(struct model *model, const struct promise *promise,
                      const struct once_reply *reply)
{
    struct event event = {.kind = EVENT_TOLD,
                          .key = promise->key,
                          .life = model->life,
                          .disk_operation = model->disk_operation,
                          .now_ms = promise->now_ms,
                          .call = promise->call,
                          .word = reply->word,
                          .state = reply->state,
                          .err = reply->err,
                          .fence = reply->fence,
                          .size = reply->result.size,
                          .journal = model->floor};

    history_add(model->history, &event);
}

/* A fence belongs to one attempt of one key, for ever (INV-1). */
static void told_fence(struct model *model, int key, uint64_t fence, uint32_t attempt)
{
    if (fence == 0)
        return;
    if (fence >= MODEL_FENCES_MAX)
        abort(); /* the workload is bounded */
    if (model->fences[fence].attempt != 0 &&
        (model->fences[fence].key != key || model->fences[fence].attempt != attempt))
        model_break(model, key,
                    "INV-1: fence %" PRIu64 " was told for key %d attempt %" PRIu32
                    " and now for key %d attempt %" PRIu32,
                    fence, model->fences[fence].key, model->fences[fence].attempt, key, attempt);
    model->fences[fence].key = key;
    model->fences[fence].attempt = attempt;
    if (fence > model->told_fence)
        model->told_fence = fence;
}

void model_told(struct model *model, const struct promise *promise, const struct once_reply *reply)
{
    struct once_reply expected;
    const char *field;

    if (reply->err == ONCE_ERR_IO || reply->err == ONCE_ERR_STOPPED) {
        note_told(model, promise, reply); /* nobody knows */
        return;
    }
    if (reply->err != promise->err) {
        note_told(model, promise, reply);
        model_break(model, promise->key, "told %s where %s was decided", once_err_name(reply->err),
                    once_err_name(promise->err));
        return;
    }
    if (reply->err != ONCE_OK) {
        note_told(model, promise, reply);
        if (reply->effect != promise->effect && reply->err != ONCE_ERR_FULL)
            model_break(model, promise->key, "%s of effect %u is said of effect %u",
                        once_err_name(reply->err), promise->effect, reply->effect);
        return;
    }

    if (promise->depends > model->floor)
        model->floor = promise->depends;
    model->time_floor_ms = later(model->time_floor_ms, promise->holds_since_ms);
    note_told(model, promise, reply);
    expected = promise->call == ONCE_CALL_SET
                   ? reply_of_set(promise)
                   : reply_of(promise->call, &promise->decision, promise->now_ms);
    field = difference(&expected, reply);
    if (field) {
        model_break(model, promise->key,
                    "INV-1..5: the answer differs in its %s: expected %s (%s, fence %" PRIu64
                    "), told %s (%s, fence %" PRIu64 ")",
                    field, once_word_name(expected.word), once_state_name(expected.state),
                    expected.fence, once_word_name(reply->word), once_state_name(reply->state),
                    reply->fence);
        return;
    }
    told_fence(model, promise->key, reply->fence, reply->attempt);
}

/* ---- Listing --------------------------------------------------------------------------------- */

static bool item_is(const struct once_item *item, const struct once_record *record, once_ms now_ms)
{
    return item->state == once__state_at(record, now_ms) && item->state != ONCE_STATE_ABSENT &&
           item->fence == record->fence && item->attempt == record->attempt &&
           item->code == record->code && item->created_ms == record->created_ms &&
           item->lease_end_ms == record->lease_end_ms && item->expires_ms == record->expires_ms &&
           once__bytes_equal(item->owner, record->owner) &&
           once__bytes_equal(item->point, record->point);
}

/* Walks what a key is after each prefix from the floor on; begin at prefix 0. */
static const struct once_record *record_after(const struct model *model, int key, size_t prefix,
                                              const struct once_record *before)
{
    if (prefix > 0 && model->entries[prefix - 1].key == key)
        return &model->entries[prefix - 1].record;
    return before;
}

void model_listed(struct model *model, int key, const struct once_item *item, once_ms now_ms)
{
    const struct once_record *record = &model->base[key];
    struct event event = {.kind = EVENT_LISTED,
                          .key = key,
                          .life = model->life,
                          .disk_operation = model->disk_operation,
                          .now_ms = now_ms,
                          .state = item->state,
                          .fence = item->fence};
    size_t since = 0;

    for (size_t prefix = 0; prefix <= model->count; prefix++) {
        const struct once_record *next = record_after(model, key, prefix, record);

        if (next != record)
            since = prefix;
        record = next;
        if (prefix < model->floor || !item_is(item, record, now_ms))
            continue;
        if (since > model->floor)
            model->floor = since; /* it was shown: it is durable (INV-2) */
        model->time_floor_ms = later(model->time_floor_ms, changed_by_time_ms(record, now_ms));
        event.journal = model->floor;
        history_add(model->history, &event);
        return;
    }
    history_add(model->history, &event);
    model_break(model, key, "INV-2: the list shows %s with fence %" PRIu64 ", which it never was",
                once_state_name(item->state), item->fence);
}

struct model_shown model_shows(const struct model *model, int key, const struct once_filter *filter,
                               once_ms now_ms)
{
    const struct once_record *record = &model->base[key];
    struct model_shown shown = {.may = false, .must = true};
    bool of_ns = filter->ns.size == 0 || once__bytes_equal(filter->ns, model->names[key].ns);

    for (size_t prefix = 0; prefix <= model->count; prefix++) {
        enum once_state state;
        bool fits;

        record = record_after(model, key, prefix, record);
        if (prefix < model->floor)
            continue;
        state = once__state_at(record, now_ms);
        fits = of_ns && state != ONCE_STATE_ABSENT && (!filter->by_state || filter->state == state);
        shown.may = shown.may || fits;
        shown.must = shown.must && fits;
    }
    return shown;
}

/* ---- Crashing and coming back ---------------------------------------------------------------- */

void model_crash(struct model *model, bool everything)
{
    if (model->guessing)
        return; /* nothing was decided since the last crash */
    if (everything)
        model->floor = model->count;
    model->guessing = true;
    for (size_t prefix = 0; prefix <= model->count; prefix++)
        model->possible[prefix] = prefix >= model->floor;
}

void model_opened(struct model *model, const struct once_stats *stats, once_ms wall_ms)
{
    once_ms top_ms = later(wall_ms, model->time_top_ms);

    if (stats->now_ms < model->time_floor_ms)
        model_break(model, HISTORY_NO_KEY,
                    "INV-6: store time starts at %" PRId64 ", and %" PRId64
                    " had to have passed for what was told",
                    stats->now_ms, model->time_floor_ms);
    if (stats->now_ms < wall_ms || stats->now_ms > top_ms)
        model_break(model, HISTORY_NO_KEY,
                    "INV-6: store time starts at %" PRId64 ", not between %" PRId64 " and %" PRId64,
                    stats->now_ms, wall_ms, top_ms);
    if (stats->last_fence < model->told_fence)
        model_break(model, HISTORY_NO_KEY,
                    "INV-1: the last fence is %" PRIu64 ", and %" PRIu64 " was told",
                    stats->last_fence, model->told_fence);
    if (stats->last_fence > model->top_fence)
        model_break(model, HISTORY_NO_KEY,
                    "the last fence is %" PRIu64 ", and only %" PRIu64 " were given",
                    stats->last_fence, model->top_fence);
    model->time_top_ms = later(model->time_top_ms, stats->now_ms);
}

static struct once_reply seen_of(const struct once_record *record, once_ms now_ms)
{
    struct once_decision decision = {.word = ONCE_DONE, .next = *record};

    if (once__state_at(record, now_ms) == ONCE_STATE_ABSENT)
        decision.word = ONCE_NOTFOUND;
    return reply_of(ONCE_CALL_GET, &decision, now_ms);
}

/* What was known in part is known now. */
static void learn(struct model *model, struct once_record *record, const struct once_reply *reply)
{
    if (is_partly_known(record->result) && result_is(record->result, reply->result))
        record->result = model->extension->keep(model->extension->self, reply->result);
}

static void learn_all(struct model *model, int key, const struct once_reply *reply)
{
    learn(model, &model->base[key], reply);
    for (size_t i = 0; i < model->count; i++) {
        if (model->entries[i].key == key)
            learn(model, &model->entries[i].record, reply);
    }
}

void model_saw(struct model *model, int key, const struct once_reply *reply, once_ms now_ms)
{
    const struct once_record *record = &model->base[key];
    struct promise promise = {.key = key, .call = ONCE_CALL_GET, .now_ms = now_ms};
    once_ms since_ms = ONCE_TIME_MS_MAX;
    bool any = false;

    note_told(model, &promise, reply);
    for (size_t prefix = 0; prefix <= model->count; prefix++) {
        struct once_reply expected;
        once_ms by_time_ms;

        record = record_after(model, key, prefix, record);
        if (!model->possible[prefix])
            continue;
        expected = seen_of(record, now_ms);
        if (difference(&expected, reply)) {
            model->possible[prefix] = false;
            continue;
        }
        any = true;
        by_time_ms = changed_by_time_ms(record, now_ms);
        since_ms = by_time_ms < since_ms ? by_time_ms : since_ms;
    }
    if (!any) {
        model_break(model, key,
                    "INV-3, INV-4: after the restart the key is %s (%s, fence %" PRIu64
                    ", result %zu): no prefix of the decisions that has all that was told gives "
                    "that (floor %zu of %zu)",
                    once_word_name(reply->word), once_state_name(reply->state), reply->fence,
                    reply->result.size, model->floor, model->count);
        return;
    }
    model->time_floor_ms = later(model->time_floor_ms, since_ms);
    if (model->extension)
        learn_all(model, key, reply);
    told_fence(model, key, reply->fence, reply->attempt);
}

static uint64_t fence_after(const struct model *model, size_t prefix)
{
    return prefix > 0 ? model->entries[prefix - 1].last_fence : model->base_fence;
}

/* Writes down what time has made of a record. */
static void age(struct once_record *record, once_ms now_ms)
{
    enum once_state state = once__state_at(record, now_ms);

    if (state == ONCE_STATE_ABSENT)
        memset(record, 0, sizeof(*record));
    record->state = state;
}

void model_settle(struct model *model, const struct once_stats *stats)
{
    size_t least = model->count, most = 0;

    for (size_t prefix = 0; prefix <= model->count; prefix++) {
        if (!model->possible[prefix])
            continue;
        least = prefix < least ? prefix : least;
        most = prefix > most ? prefix : most;
    }
    if (stats->last_fence < fence_after(model, least))
        model_break(model, HISTORY_NO_KEY,
                    "INV-1: the last fence is %" PRIu64 ", and %" PRIu64 " is durable",
                    stats->last_fence, fence_after(model, least));
    if (least > 0 && stats->now_ms < model->entries[least - 1].now_ms)
        model_break(model, HISTORY_NO_KEY,
                    "INV-6: store time is %" PRId64 ", and a decision of %" PRId64 " is durable",
                    stats->now_ms, model->entries[least - 1].now_ms);

    /* Prefixes that look the same differ in what was written down and what time has made: the
     * latter was told just now, so it is as final as the former. */
    for (size_t i = 0; i < most; i++) {
        if (model->entries[i].key != HISTORY_NO_KEY)
            model->base[model->entries[i].key] = model->entries[i].record;
    }
    if (model->extension)
        model->extension->settle(model->extension->self, most, stats);
    for (int key = 0; key < model->key_count; key++) {
        age(&model->base[key], stats->now_ms);
        model->now[key] = model->base[key];
        model->changed[key] = 0;
    }
    model->count = model->floor = 0;
    model->base_fence = model->last_fence = stats->last_fence;
    model->guessing = false;
}
