/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking, deciding and telling a call. Owns no state; keeps no invariant of its own, but is the
 * one place where a host's arguments become what the core decides on.
 */
#include "store/call.h"

#include "base/assert.h"
#include "base/sha256.h"
#include "core/deed.h"
#include "core/value.h"

#include <once/key.h>
#include <once/lattice.h>

#include <stdlib.h>
#include <string.h>

void once__call_refuse(struct once_op *op, int err, const char *what)
{
    ONCE_ASSERT(err != ONCE_OK);
    once_reply_release(&op->reply);
    op->reply.err = err;
    op->reply.what = what;
}

void once__call_decided(struct once_op *op)
{
    free(op->inner.deeds);
    op->inner.deeds = NULL;
    op->inner.deed_count = 0;
}

/* ---- apply ----------------------------------------------------------------------------------- */

/* Of the effects, word by word: the same key for other effects is a MISMATCH. */
static int effects_fingerprint(const struct once_op *op, struct once_fingerprint *ret_fingerprint)
{
    struct once__sha256 hash = {NULL};
    struct once__sha256_digest digest;
    int err = once__sha256_init(&hash);

    for (size_t i = 0; err == ONCE_OK && i < op->do_count; i++) {
        err = once__sha256_add_number(&hash, op->dos[i].count);
        for (size_t j = 0; err == ONCE_OK && j < op->dos[i].count; j++)
            err = once__sha256_add_sized(&hash, op->dos[i].words[j]);
    }
    if (err == ONCE_OK)
        err = once__sha256_finish(&hash, &digest);
    if (err == ONCE_OK)
        memcpy(ret_fingerprint->bytes, digest.bytes, sizeof(ret_fingerprint->bytes));
    once__sha256_release(&hash);
    return err;
}

/* Sets reply.effect to the effect that an error is about. */
static int check_sizes(struct once_op *op, struct once_defect *ret_defect)
{
    size_t size = 0;

    if (op->do_count < 1 || op->do_count > ONCE_EFFECTS_MAX || !op->dos) {
        ret_defect->what = "an apply has 1 to 64 effects";
        return ONCE_ERR_INVALID;
    }
    for (size_t i = 0; i < op->do_count; i++) {
        op->reply.effect = (uint32_t)i + 1;
        if (op->dos[i].count > 0 && !op->dos[i].words) {
            ret_defect->what = "the words of this effect are a null pointer";
            return ONCE_ERR_INVALID;
        }
        if (op->dos[i].count > ONCE_EFFECT_WORDS_MAX) {
            ret_defect->what = "an effect has at most 4096 words";
            return ONCE_ERR_FULL;
        }
        for (size_t j = 0; j < op->dos[i].count; j++) {
            size_t more = op->dos[i].words[j].size;

            if (more > ONCE_EFFECTS_SIZE_MAX || (size += more) > ONCE_EFFECTS_SIZE_MAX) {
                ret_defect->what = "the effects of an apply are larger than 1 MiB";
                return ONCE_ERR_FULL;
            }
        }
    }
    op->reply.effect = 0;
    return ONCE_OK;
}

_Static_assert(ONCE_EFFECTS_MAX == 64 && ONCE_EFFECT_WORDS_MAX == 4096 &&
                   ONCE_EFFECTS_SIZE_MAX == 1 << 20,
               "the texts above say so");

static int read_deeds(struct once_op *op, struct once_defect *ret_defect)
{
    struct once__deed *deeds;
    int err = check_sizes(op, ret_defect);

    if (err != ONCE_OK)
        return err;
    deeds = malloc(op->do_count * sizeof(*deeds));
    if (!deeds)
        return ONCE_ERR_MEMORY;
    op->inner.deeds = deeds;
    op->inner.deed_count = op->do_count;
    for (size_t i = 0; err == ONCE_OK && i < op->do_count; i++) {
        err = once__deed_read(op->dos[i].words, op->dos[i].count, &deeds[i], ret_defect);
        if (err != ONCE_OK)
            op->reply.effect = (uint32_t)i + 1;
    }
    return err;
}

static int check_apply(struct once_op *op, struct once_defect *ret_defect)
{
    int err = read_deeds(op, ret_defect);

    if (err != ONCE_OK || op->key.size == 0)
        return err;
    op->inner.birth_ms = once_key_birth_ms(op->key);
    ret_defect->what = "the fingerprint cannot be made";
    if (op->fingerprint.size == 0)
        return effects_fingerprint(op, &op->inner.fingerprint);
    return once_fingerprint_from_bytes(op->fingerprint, &op->inner.fingerprint);
}

/* A merge is one deed. */
static int check_merge(struct once_op *op, struct once_defect *ret_defect)
{
    struct once__deed *deed;
    int err = once_key_check(op->key, ret_defect);

    if (err == ONCE_OK && op->data.size > ONCE_MERGEABLE_SIZE_MAX) {
        ret_defect->what = "the state is larger than 1 MiB";
        err = ONCE_ERR_FULL;
    }
    if (err == ONCE_OK)
        err = once_lattice_check(op->data, NULL, ret_defect);
    if (err != ONCE_OK)
        return err;
    deed = calloc(1, sizeof(*deed));
    if (!deed)
        return ONCE_ERR_MEMORY;
    deed->kind = ONCE__DEED_MERGE;
    deed->name = op->key;
    deed->value = op->data;
    op->inner.deeds = deed;
    op->inner.deed_count = 1;
    return ONCE_OK;
}

_Static_assert(ONCE_MERGEABLE_SIZE_MAX == 1 << 20, "the text above says so");
_Static_assert(ONCE_OBJECT_NAME_SIZE_MAX == ONCE_KEY_SIZE_MAX, "an object's name is as a key");

/* ---- Values ---------------------------------------------------------------------------------- */

static struct once_value value_of(const struct once_op *op)
{
    return (struct once_value){.bytes = op->result,
                               .when = op->when,
                               .keep_ttl = op->keep_ttl,
                               .ttl_ms = op->ttl_ms,
                               .until_ms = op->until_ms};
}

/* ---- All calls ------------------------------------------------------------------------------- */

static int check_name(const struct once_op *op, struct once_defect *ret_defect)
{
    int err;

    if (!once__call_named(op))
        return ONCE_OK;
    err = once_namespace_check(op->ns, ret_defect);

    return err != ONCE_OK ? err : once_key_check(op->key, ret_defect);
}

static int check_arguments(struct once_op *op, struct once_defect *ret_defect)
{
    struct once_answer answer = {.code = op->code, .result = op->result};
    struct once_step step = {
        .point = op->point, .data = op->data, .follows = op->follows, .after = op->after};
    struct once_value value = value_of(op);

    switch (op->call) {
    case ONCE_CALL_BEGIN:
        op->inner.birth_ms = once_key_birth_ms(op->key);
        ret_defect->what = "the fingerprint cannot be read";
        return once_fingerprint_from_bytes(op->fingerprint, &op->inner.fingerprint);
    case ONCE_CALL_COMPLETE:
    case ONCE_CALL_RESOLVE:
        return once__answer_check(&answer, ret_defect);
    case ONCE_CALL_FAIL:
        return once__reason_check(op->result, ret_defect);
    case ONCE_CALL_CHECKPOINT:
        return once__step_check(&step, ret_defect);
    case ONCE_CALL_RENEW:
        return once__lease_check(op->lease_ms, ret_defect);
    case ONCE_CALL_APPLY:
        return check_apply(op, ret_defect);
    case ONCE_CALL_MERGE:
        return check_merge(op, ret_defect);
    case ONCE_CALL_SET:
    case ONCE_CALL_EXPIRE:
        return once__value_check(&value, ret_defect);
    case ONCE_CALL_FORGET:
    case ONCE_CALL_GET:
        return ONCE_OK;
    }
    ret_defect->what = "there is no such call";
    return ONCE_ERR_INVALID;
}

int once__call_check(struct once_op *op)
{
    struct once_defect defect = {0, NULL};
    int err;

    memset(&op->reply, 0, sizeof(op->reply));
    memset(&op->inner, 0, sizeof(op->inner));
    err = check_name(op, &defect);
    if (err == ONCE_OK)
        err = check_arguments(op, &defect);
    if (err != ONCE_OK) {
        uint32_t effect = op->reply.effect;

        once__call_decided(op);
        once__call_refuse(op, err, defect.what);
        op->reply.effect = effect;
    }
    return err;
}

static int request_of(const struct once_op *op, once_ms now_ms, struct once_request *ret_request,
                      struct once_defect *ret_defect)
{
    *ret_request = (struct once_request){
        .fingerprint = op->inner.fingerprint,
        .owner = op->owner,
        .birth_ms = op->inner.birth_ms,
        .retention_ms = op->ttl_ms != 0 ? op->ttl_ms : ONCE_RETENTION_MS_DEFAULT,
        .lease_ms = op->lease_ms != 0 ? op->lease_ms : ONCE_LEASE_MS_DEFAULT,
        .on_doubt = op->on_doubt,
    };
    if (op->call == ONCE_CALL_APPLY) { /* it has ended as soon as it is durable */
        ret_request->owner = (struct once_bytes){NULL, 0};
        ret_request->lease_ms = ONCE_LEASE_MS_DEFAULT;
        ret_request->on_doubt = ONCE_ON_DOUBT_REJECT;
    }
    return once__request_check(ret_request, now_ms, ret_defect);
}

static struct once_decision look(const struct once_record *record, once_ms now_ms)
{
    struct once_decision decision = {.word = ONCE_DONE, .next = *record};

    if (once__state_at(record, now_ms) == ONCE_STATE_ABSENT)
        decision.word = ONCE_NOTFOUND;
    return decision;
}

static struct once_decision resolve(const struct once_op *op, const struct once_record *record,
                                    struct once_moment at)
{
    struct once_resolution resolution = {
        .done = op->done, .fence = op->fence, .answer = {.code = op->code, .result = op->result}};

    return once__decide_resolve(record, &resolution, at);
}

static struct once_decision checkpoint(const struct once_op *op, const struct once_record *record,
                                       once_ms now_ms)
{
    struct once_step step = {
        .point = op->point, .data = op->data, .follows = op->follows, .after = op->after};

    return once__decide_checkpoint(record, op->fence, &step, now_ms);
}

static void decide(const struct once_op *op, const struct once_record *record,
                   struct once_moment at, struct once_decision *ret_decision)
{
    struct once_answer answer = {.code = op->code, .result = op->result};
    struct once_renewal renewal = {.fence = op->fence, .lease_ms = op->lease_ms};

    switch (op->call) {
    case ONCE_CALL_COMPLETE:
        *ret_decision = once__decide_complete(record, op->fence, &answer, at.now_ms);
        break;
    case ONCE_CALL_FAIL:
        *ret_decision = once__decide_fail(record, op->fence, op->result, at.now_ms);
        break;
    case ONCE_CALL_CHECKPOINT:
        *ret_decision = checkpoint(op, record, at.now_ms);
        break;
    case ONCE_CALL_RENEW:
        *ret_decision = once__decide_renew(record, renewal, at.now_ms);
        break;
    case ONCE_CALL_RESOLVE:
        *ret_decision = resolve(op, record, at);
        break;
    case ONCE_CALL_FORGET:
        *ret_decision = once__decide_forget(record, op->fence, at.now_ms);
        break;
    case ONCE_CALL_BEGIN:
    case ONCE_CALL_APPLY:
    case ONCE_CALL_MERGE:
    case ONCE_CALL_GET:
    case ONCE_CALL_SET:
    case ONCE_CALL_EXPIRE:
        *ret_decision = look(record, at.now_ms);
        break;
    }
}

static int keep_bytes(struct once_reply *reply, struct once_bytes owner, struct once_bytes point,
                      struct once_bytes data, struct once_bytes result);

/* A set tells what was there before, which its decision does not hold. */
static int decide_value(struct once_op *op, const struct once_record *record, struct once_moment at,
                        struct once_decision *ret_decision, struct once_defect *ret_defect)
{
    const struct once_bytes none = {NULL, 0};
    struct once_value value = value_of(op);
    once_ms ttl_ms;
    int err = once__value_ttl(&value, at.now_ms, &ttl_ms, ret_defect);

    if (err != ONCE_OK)
        return err;
    if (op->call == ONCE_CALL_EXPIRE) {
        *ret_decision = once__decide_expire(record, ttl_ms, at.now_ms);
        return ONCE_OK;
    }
    *ret_decision = once__decide_set(record, &value, ttl_ms, at);
    op->reply.state = once__state_at(record, at.now_ms);
    if (op->reply.state != ONCE_STATE_COMPLETED)
        return ONCE_OK;
    return keep_bytes(&op->reply, none, none, none, record->result);
}

int once__call_decide(struct once_op *op, const struct once_record *record, struct once_moment at,
                      struct once_decision *ret_decision)
{
    struct once_defect defect = {0, NULL};
    int err = once__moment_check(at, &defect);

    if (err == ONCE_OK && (op->call == ONCE_CALL_BEGIN || op->call == ONCE_CALL_APPLY)) {
        struct once_request request;

        err = request_of(op, at.now_ms, &request, &defect);
        if (err == ONCE_OK)
            *ret_decision = once__decide_begin(record, &request, at);
    } else if (err == ONCE_OK && (op->call == ONCE_CALL_SET || op->call == ONCE_CALL_EXPIRE)) {
        err = decide_value(op, record, at, ret_decision, &defect);
    } else if (err == ONCE_OK) {
        decide(op, record, at, ret_decision);
    }
    if (err != ONCE_OK)
        once__call_refuse(op, err, defect.what);
    return err;
}

static uint8_t *keep(uint8_t *at, struct once_bytes from, struct once_bytes *ret_bytes)
{
    if (from.size == 0) {
        *ret_bytes = (struct once_bytes){NULL, 0};
        return at;
    }
    memcpy(at, from.data, from.size);
    *ret_bytes = (struct once_bytes){at, from.size};
    return at + from.size;
}

/* Copies what the reply may hold of the record's bytes; empty ones are left out. */
static int keep_bytes(struct once_reply *reply, struct once_bytes owner, struct once_bytes point,
                      struct once_bytes data, struct once_bytes result)
{
    size_t size = owner.size + point.size + data.size + result.size;
    uint8_t *at;

    if (size == 0)
        return ONCE_OK;
    at = malloc(size);
    if (!at)
        return ONCE_ERR_MEMORY;
    reply->memory = at;
    at = keep(at, owner, &reply->owner);
    at = keep(at, point, &reply->point);
    at = keep(at, data, &reply->data);
    at = keep(at, result, &reply->result);
    ONCE_ASSERT(at == (uint8_t *)reply->memory + size);
    return ONCE_OK;
}

static void tell_record(struct once_reply *reply, const struct once_record *record, once_ms now_ms)
{
    reply->state = once__state_at(record, now_ms);
    reply->fence = record->fence;
    reply->attempt = record->attempt;
    reply->code = record->code;
    reply->created_ms = record->created_ms;
    reply->lease_end_ms = record->lease_end_ms;
    reply->retention_ms = record->retention_ms;
    reply->expires_ms = record->expires_ms;
    reply->fingerprint = record->fingerprint;
}

int once__call_tell(struct once_op *op, const struct once_decision *decision, once_ms now_ms)
{
    const struct once_record *next = &decision->next;
    const struct once_bytes none = {NULL, 0};
    struct once_reply *reply = &op->reply;
    int err = ONCE_OK;

    ONCE_ASSERT(reply->memory == NULL || op->call == ONCE_CALL_SET);
    reply->err = ONCE_OK;
    reply->now_ms = now_ms;
    reply->word = decision->word;
    reply->retry_ms = decision->retry_ms;
    if (op->call == ONCE_CALL_SET) {
        return ONCE_OK; /* the rest was told when it was decided */
    } else if (op->call == ONCE_CALL_GET) {
        if (decision->word == ONCE_DONE) {
            tell_record(reply, next, now_ms);
            err = keep_bytes(reply, next->owner, next->point, next->data, next->result);
        }
    } else if (decision->word == ONCE_EXECUTE || decision->word == ONCE_DOUBT) {
        reply->fence = next->fence;
        reply->attempt = next->attempt;
        err = keep_bytes(reply, none, next->point, next->data, none);
    } else if (decision->word == ONCE_REPLAY || decision->word == ONCE_APPLIED ||
               decision->word == ONCE_REJECTED) {
        reply->code = next->code;
        err = keep_bytes(reply, none, none, none, next->result);
    }
    if (err != ONCE_OK)
        once__call_refuse(op, err, NULL);
    return err;
}

static once_ms later(once_ms a, once_ms b)
{
    return a > b ? a : b;
}

once_ms once__call_holds_since(const struct once_op *op, const struct once_record *record,
                               const struct once_decision *decision, once_ms now_ms)
{
    bool ended = record->state == ONCE_STATE_COMPLETED || record->state == ONCE_STATE_FAILED;
    once_ms since = 0;

    if (decision->word == ONCE_NOTFOUND || decision->word == ONCE_TOO_OLD)
        since = ended && record->expires_ms <= now_ms ? record->expires_ms : 0;
    if (decision->word == ONCE_TOO_OLD) {
        once_ms ttl_ms = op->ttl_ms != 0 ? op->ttl_ms : ONCE_RETENTION_MS_DEFAULT;

        since = later(since, op->inner.birth_ms + ttl_ms);
    }
    if (op->call == ONCE_CALL_GET && record->state == ONCE_STATE_STARTED &&
        record->lease_end_ms <= now_ms)
        since = record->lease_end_ms; /* shown as a doubt */
    ONCE_ASSERT(since <= now_ms);
    return since;
}
