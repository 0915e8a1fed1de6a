/* SPDX-License-Identifier: Apache-2.0
 *
 * The decision, case by case: the whole table of states, fingerprints, leases, owners and policies
 * against a second opinion written as plainly as possible, and long random lives against the
 * invariants.
 */
#include "unit/seeded.h"

#include "core/decide.h"

static const once_ms NOW_MS = 1767225600000LL;

static struct once_fingerprint fingerprint_of(uint8_t byte)
{
    struct once_fingerprint fingerprint;

    memset(fingerprint.bytes, byte, sizeof(fingerprint.bytes));
    return fingerprint;
}

static struct once_request request_of(const char *owner, uint8_t fingerprint,
                                      enum once_on_doubt on_doubt)
{
    struct once_request request = {
        .fingerprint = fingerprint_of(fingerprint),
        .owner = once_bytes_of(owner),
        .birth_ms = ONCE_BIRTH_NONE,
        .retention_ms = 5000,
        .lease_ms = 100,
        .on_doubt = on_doubt,
    };

    return request;
}

static struct once_record record_of(enum once_state state)
{
    struct once_record record = {0};

    if (state == ONCE_STATE_ABSENT)
        return record;
    record.state = state;
    record.attempt = 3;
    record.fence = 40;
    record.created_ms = NOW_MS - 1000;
    record.lease_end_ms = NOW_MS + 50;
    record.retention_ms = 5000;
    record.expires_ms = NOW_MS + 50;
    record.fingerprint = fingerprint_of(1);
    record.owner = once_bytes_of("a");
    record.point = once_bytes_of("half");
    if (state == ONCE_STATE_COMPLETED) {
        record.code = 200;
        record.result = once_bytes_of("ok");
    }
    return record;
}

static struct once_moment moment_of(once_ms now_ms)
{
    struct once_moment at = {.now_ms = now_ms, .next_fence = 41};

    return at;
}

/* The second opinion: the contract of begin as a person would say it. */
static enum once_word expected_word(enum once_state state, bool over, bool same_question,
                                    bool same_owner, bool retry)
{
    if (state == ONCE_STATE_ABSENT)
        return ONCE_EXECUTE;
    if ((state == ONCE_STATE_COMPLETED || state == ONCE_STATE_FAILED) && over)
        return ONCE_EXECUTE;
    if (!same_question)
        return ONCE_MISMATCH;
    if (state == ONCE_STATE_COMPLETED)
        return ONCE_REPLAY;
    if (state == ONCE_STATE_FAILED)
        return ONCE_EXECUTE;
    if (state == ONCE_STATE_STARTED && !over)
        return same_owner ? ONCE_EXECUTE : ONCE_BUSY;
    return retry ? ONCE_EXECUTE : ONCE_DOUBT;
}

static void begin__whole_table__agrees_with_the_second_opinion(void **state_unused)
{
    int cases = 0;

    (void)state_unused;
    for (int i = 0; i < 5 * 16; i++) {
        enum once_state state = (enum once_state)(i / 16);
        bool over = i & 1, same_question = i & 2, same_owner = i & 4, retry = i & 8;
        struct once_record record = record_of(state);
        struct once_request request = request_of(same_owner ? "a" : "b", same_question ? 1 : 2,
                                                 retry ? ONCE_ON_DOUBT_RETRY
                                                       : ONCE_ON_DOUBT_REJECT);
        struct once_decision decision = once__decide_begin(&record, &request,
                                                           moment_of(over ? NOW_MS + 50 : NOW_MS));

        assert_int_equal(decision.word,
                         expected_word(state, over, same_question, same_owner, retry));
        assert_int_equal(once__record_check(&decision.next, NULL), ONCE_OK);
        if (!decision.changed)
            assert_memory_equal(&decision.next, &record, sizeof(record));
        cases++;
    }
    assert_int_equal(cases, 80);
}

static void fingerprint__any_byte_differs__is_another(void **state)
{
    struct once_fingerprint one = fingerprint_of(1);

    (void)state;
    assert_true(once__fingerprint_equal(&one, &one));
    for (int i = 0; i < ONCE_FINGERPRINT_SIZE; i++) {
        struct once_fingerprint other = one;

        other.bytes[i] ^= 0x80;
        assert_false(once__fingerprint_equal(&one, &other));
    }
}

static void begin__fail_then_begin__keeps_the_point_and_counts_attempts(void **state)
{
    struct once_record record = record_of(ONCE_STATE_FAILED);
    struct once_request request = request_of("b", 1, ONCE_ON_DOUBT_REJECT);
    struct once_decision decision = once__decide_begin(&record, &request, moment_of(NOW_MS));

    (void)state;
    assert_int_equal(decision.word, ONCE_EXECUTE);
    assert_int_equal(decision.next.attempt, 4);
    assert_int_equal(decision.next.fence, 41);
    assert_int_equal(decision.next.created_ms, record.created_ms);
    assert_memory_equal(decision.next.point.data, "half", 4);
    assert_int_equal(decision.next.result.size, 0);
}

static void begin__attempts_at_their_bound__stay_there(void **state)
{
    struct once_record record = record_of(ONCE_STATE_FAILED);
    struct once_request request = request_of("b", 1, ONCE_ON_DOUBT_REJECT);

    (void)state;
    record.attempt = ONCE_ATTEMPT_MAX;
    assert_int_equal(once__decide_begin(&record, &request, moment_of(NOW_MS)).next.attempt,
                     ONCE_ATTEMPT_MAX);
}

static void begin__at_the_end_of_time__does_not_overflow(void **state)
{
    struct once_record record = {0};
    struct once_request request = request_of("a", 1, ONCE_ON_DOUBT_REJECT);
    struct once_decision decision;

    (void)state;
    request.retention_ms = ONCE_RETENTION_MS_MAX;
    request.lease_ms = ONCE_LEASE_MS_MAX;
    request.birth_ms = ONCE_NOW_MS_MAX + ONCE_KEY_SKEW_MS_MAX;
    assert_int_equal(once__request_check(&request, ONCE_NOW_MS_MAX, NULL), ONCE_OK);
    decision = once__decide_begin(&record, &request, moment_of(ONCE_NOW_MS_MAX));
    assert_int_equal(decision.word, ONCE_EXECUTE);
    assert_int_equal(once__record_check(&decision.next, NULL), ONCE_OK);
    assert_true(decision.next.expires_ms == ONCE_TIME_MS_MAX);
}

static void check__each_bad_field__is_refused_with_its_name(void **state)
{
    struct once_request good = request_of("a", 1, ONCE_ON_DOUBT_REJECT), bad;
    struct once_defect defect;

    (void)state;
    assert_int_equal(once__request_check(&good, NOW_MS, &defect), ONCE_OK);
    bad = good;
    bad.lease_ms = 0;
    assert_int_equal(once__request_check(&bad, NOW_MS, &defect), ONCE_ERR_INVALID);
    assert_non_null(strstr(defect.what, "lease"));
    bad = good;
    bad.retention_ms = ONCE_RETENTION_MS_MAX + 1;
    assert_int_equal(once__request_check(&bad, NOW_MS, &defect), ONCE_ERR_INVALID);
    assert_non_null(strstr(defect.what, "retention"));
    bad = good;
    bad.owner.size = ONCE_OWNER_SIZE_MAX + 1;
    assert_int_equal(once__request_check(&bad, NOW_MS, &defect), ONCE_ERR_INVALID);
    assert_non_null(strstr(defect.what, "owner"));
    bad = good;
    bad.owner = (struct once_bytes){.data = NULL, .size = 1};
    assert_int_equal(once__request_check(&bad, NOW_MS, &defect), ONCE_ERR_INVALID);
    bad = good;
    bad.on_doubt = (enum once_on_doubt)2;
    assert_int_equal(once__request_check(&bad, NOW_MS, &defect), ONCE_ERR_INVALID);
    bad = good;
    bad.birth_ms = NOW_MS + ONCE_KEY_SKEW_MS_MAX + 1;
    assert_int_equal(once__request_check(&bad, NOW_MS, &defect), ONCE_ERR_KEY_FUTURE);
    assert_int_equal(once__request_check(&good, -1, &defect), ONCE_ERR_CLOCK);
    assert_int_equal(once__request_check(&good, ONCE_NOW_MS_MAX + 1, &defect), ONCE_ERR_CLOCK);
}

static void check__each_damaged_record__is_refused(void **state)
{
    struct once_record good = record_of(ONCE_STATE_STARTED), bad;

    (void)state;
#define REFUSED_WHEN(change)                                                                       \
    bad = good;                                                                                    \
    bad.change;                                                                                    \
    assert_int_equal(once__record_check(&bad, NULL), ONCE_ERR_DAMAGED)

    assert_int_equal(once__record_check(&good, NULL), ONCE_OK);
    REFUSED_WHEN(state = (enum once_state)5);
    REFUSED_WHEN(state = ONCE_STATE_ABSENT);
    REFUSED_WHEN(fence = 0);
    REFUSED_WHEN(fence = ONCE_FENCE_MAX + 1);
    REFUSED_WHEN(attempt = 0);
    REFUSED_WHEN(attempt = ONCE_ATTEMPT_MAX + 1);
    REFUSED_WHEN(created_ms = -1);
    REFUSED_WHEN(lease_end_ms = ONCE_TIME_MS_MAX + 1);
    REFUSED_WHEN(expires_ms = -1);
    REFUSED_WHEN(expires_ms = good.created_ms);
    REFUSED_WHEN(retention_ms = 0);
    REFUSED_WHEN(retention_ms = ONCE_RETENTION_MS_MAX + 1);
    REFUSED_WHEN(result.size = ONCE_RESULT_SIZE_MAX + 1);
    REFUSED_WHEN(point.size = ONCE_POINT_SIZE_MAX + 1);
    REFUSED_WHEN(data.size = ONCE_DATA_SIZE_MAX + 1);
#undef REFUSED_WHEN

    good = record_of(ONCE_STATE_ABSENT);
    assert_int_equal(once__record_check(&good, NULL), ONCE_OK);
    good.owner = once_bytes_of("left behind");
    assert_int_equal(once__record_check(&good, NULL), ONCE_ERR_DAMAGED);
}

static void check__moment_and_reason__are_bounded(void **state)
{
    struct once_moment at = moment_of(NOW_MS);
    struct once_bytes reason = once_bytes_of("card declined");

    (void)state;
    assert_int_equal(once__moment_check(at, NULL), ONCE_OK);
    at.next_fence = ONCE_FENCE_MAX + 1;
    assert_int_equal(once__moment_check(at, NULL), ONCE_ERR_FULL);
    at = moment_of(ONCE_NOW_MS_MAX + 1);
    assert_int_equal(once__moment_check(at, NULL), ONCE_ERR_CLOCK);
    assert_int_equal(once__reason_check(reason, NULL), ONCE_OK);
    reason.size = ONCE_REASON_SIZE_MAX + 1;
    assert_int_equal(once__reason_check(reason, NULL), ONCE_ERR_FULL);
}

/* One key's life under random calls. Counts what the outside world would see. */
struct life {
    struct once_record record;
    uint64_t last_fence;
    once_ms now_ms;
    uint64_t done_fence; /* the fence that completed it, 0 while none has */
    bool permitted;      /* somebody said RETRY, NOTDONE or fail: another EXECUTE is in order */
};

static struct once_decision random_call(struct life *life, uint64_t *random, bool *ret_permits)
{
    static const char *const owners[] = {"", "a", "b", "c"};
    struct once_moment at = {.now_ms = life->now_ms, .next_fence = life->last_fence + 1};
    uint64_t fence = life->last_fence - (life->last_fence > 0 ? seeded_below(random, 2) : 0);
    struct once_answer answer = {.code = (int32_t)seeded_below(random, 2),
                                 .result = once_bytes_of("r")};
    struct once_step step = {.point = once_bytes_of("p")};
    struct once_renewal renewal;
    struct once_resolution resolution = {.done = seeded_below(random, 2), .answer = answer};
    struct once_request request = request_of(
        owners[seeded_below(random, 4)], (uint8_t)(1 + seeded_below(random, 8) / 7),
        seeded_below(random, 8) == 0 ? ONCE_ON_DOUBT_RETRY : ONCE_ON_DOUBT_REJECT);

    *ret_permits = false;
    switch (seeded_below(random, 9)) {
    case 0:
        return once__decide_complete(&life->record, fence, &answer, life->now_ms);
    case 1:
        *ret_permits = true;
        return once__decide_fail(&life->record, fence, once_bytes_of("no"), life->now_ms);
    case 2:
        return once__decide_checkpoint(&life->record, fence, &step, life->now_ms);
    case 3:
        renewal = (struct once_renewal){fence, (once_ms)seeded_below(random, 200)};
        return once__decide_renew(&life->record, renewal, life->now_ms);
    case 4:
        *ret_permits = !resolution.done;
        return once__decide_resolve(&life->record, &resolution, at);
    default:
        *ret_permits = request.on_doubt == ONCE_ON_DOUBT_RETRY;
        return once__decide_begin(&life->record, &request, at);
    }
}

static void check_step(struct life *life, const struct once_decision *decision, bool permits)
{
    const struct once_record *old = &life->record, *next = &decision->next;
    bool was_running = old->state == ONCE_STATE_STARTED || old->state == ONCE_STATE_DOUBT;

    assert_int_equal(once__record_check(next, NULL), ONCE_OK);
    assert_true(next->fence >= old->fence);
    assert_true(next->expires_ms >= old->expires_ms || old->state == ONCE_STATE_COMPLETED ||
                old->state == ONCE_STATE_FAILED);
    if (was_running)
        assert_int_not_equal(next->state, ONCE_STATE_ABSENT);
    if (permits && decision->changed)
        life->permitted = true;
    if (decision->word == ONCE_EXECUTE && decision->changed) {
        /* A second execution only after an expiry or after somebody took the responsibility. */
        assert_true(life->done_fence == 0 || life->now_ms >= old->expires_ms);
        assert_true(life->permitted || !was_running);
        life->permitted = false;
        life->done_fence = 0;
    }
    if (decision->word == ONCE_REPLAY) {
        assert_int_equal(old->state, ONCE_STATE_COMPLETED);
        assert_true(life->done_fence == old->fence);
    }
    if (next->state == ONCE_STATE_COMPLETED && decision->changed)
        life->done_fence = next->fence;
}

static void life__random_calls__keeps_the_invariants(void **state)
{
    uint64_t random = seeded_start("life");
    int executions = 0, replays = 0, doubts = 0;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct life life = {.now_ms = NOW_MS};

        for (int call = 0; call < 60; call++) {
            bool permits;
            struct once_decision decision = random_call(&life, &random, &permits);

            check_step(&life, &decision, permits);
            executions += decision.word == ONCE_EXECUTE && decision.changed;
            replays += decision.word == ONCE_REPLAY;
            doubts += decision.word == ONCE_DOUBT;
            life.record = decision.next;
            if (life.record.fence > life.last_fence)
                life.last_fence = life.record.fence;
            life.now_ms += (once_ms)seeded_below(&random, seeded_below(&random, 20) ? 60 : 9000);
        }
    }
    /* The walk reached what it is about. */
    assert_true(executions > 1000 && replays > 1000 && doubts > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begin__whole_table__agrees_with_the_second_opinion),
        cmocka_unit_test(fingerprint__any_byte_differs__is_another),
        cmocka_unit_test(begin__fail_then_begin__keeps_the_point_and_counts_attempts),
        cmocka_unit_test(begin__attempts_at_their_bound__stay_there),
        cmocka_unit_test(begin__at_the_end_of_time__does_not_overflow),
        cmocka_unit_test(check__each_bad_field__is_refused_with_its_name),
        cmocka_unit_test(check__each_damaged_record__is_refused),
        cmocka_unit_test(check__moment_and_reason__are_bounded),
        cmocka_unit_test(life__random_calls__keeps_the_invariants),
    };

    return cmocka_run_group_tests_name("decide", tests, NULL, NULL);
}
