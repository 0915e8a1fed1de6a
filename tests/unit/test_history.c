/* SPDX-License-Identifier: Apache-2.0
 *
 * An operation's past: every call that changed it, newest first, with the time of its durable
 * write; across segments, restarts and expiry; and nothing of a life that is over.
 */
#include "engine_help.h"

#include <once/key.h>

enum { STEPS_MAX = 64, TEXT_SIZE = 64 };

struct step {
    enum once_event event;
    once_ms at_ms;
    enum once_state state;
    uint64_t fence;
    uint32_t attempt;
    char owner[TEXT_SIZE], point[TEXT_SIZE], data[TEXT_SIZE], result[TEXT_SIZE];
};

struct past {
    struct step steps[STEPS_MAX];
    size_t count;
    bool found, more;
};

static void copy(struct once_bytes bytes, char *text)
{
    snprintf(text, TEXT_SIZE, "%.*s", (int)bytes.size, (const char *)bytes.data);
}

static void add(void *user, const struct once_past *past)
{
    struct past *self = user;
    struct step *step = &self->steps[self->count++];

    assert_true(self->count <= STEPS_MAX);
    step->event = past->event;
    step->at_ms = past->at_ms;
    step->state = past->state;
    step->fence = past->fence;
    step->attempt = past->attempt;
    copy(past->owner, step->owner);
    copy(past->point, step->point);
    copy(past->data, step->data);
    copy(past->result, step->result);
}

static struct past look(struct life *life, const char *key, size_t count)
{
    struct past past = {.count = 0};

    assert_int_equal(once_history(life->store, once_name_of("test", key), count, add, &past,
                                  &past.found, &past.more),
                     ONCE_OK);
    return past;
}

/* The events of a key, oldest first, as "BEGAN COMPLETED". */
static const char *events(struct life *life, const char *key)
{
    static char text[1024];
    struct past past = look(life, key, STEPS_MAX);

    text[0] = '\0';
    for (size_t i = past.count; i > 0; i--)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", text[0] ? " " : "",
                 once_event_name(past.steps[i - 1].event));
    return text;
}

static struct once_op begin_op(enum once_on_doubt on_doubt, const char *owner)
{
    return (struct once_op){
        .call = ONCE_CALL_BEGIN, .on_doubt = on_doubt, .owner = once_bytes_of(owner)};
}

/* Begun, checkpointed, renewed, its owner gone, taken over, completed. */
static uint64_t live_through_a_doubt(struct life *life, const char *key)
{
    uint64_t fence = 0;

    assert_int_equal(life_word(life, begin_op(ONCE_ON_DOUBT_REJECT, "one"), key, &fence),
                     ONCE_EXECUTE);
    life_pass(life, 1000);
    assert_int_equal(life_word(life,
                               (struct once_op){.call = ONCE_CALL_CHECKPOINT,
                                                .fence = fence,
                                                .point = once_bytes_of("paid"),
                                                .data = once_bytes_of("7")},
                               key, NULL),
                     ONCE_DONE);
    life_pass(life, 1000);
    assert_int_equal(
        life_word(life,
                  (struct once_op){.call = ONCE_CALL_RENEW, .fence = fence, .lease_ms = 60000}, key,
                  NULL),
        ONCE_DONE);
    life_pass(life, 61000);
    assert_int_equal(life_word(life, begin_op(ONCE_ON_DOUBT_REJECT, "two"), key, NULL), ONCE_DOUBT);
    life_pass(life, 1000);
    assert_int_equal(life_word(life, begin_op(ONCE_ON_DOUBT_RETRY, "two"), key, &fence),
                     ONCE_EXECUTE);
    life_pass(life, 1000);
    assert_int_equal(life_complete(life, key, fence, "ok"), ONCE_DONE);
    return fence;
}

static void history__every_call__is_told_with_its_time(void **state)
{
    struct life life;
    struct past past;
    uint64_t fence;

    (void)state;
    life_begin(&life);
    fence = live_through_a_doubt(&life, "k");
    assert_string_equal(events(&life, "k"), "BEGAN CHECKPOINT RENEWED DOUBT TAKEN_OVER COMPLETED");
    past = look(&life, "k", STEPS_MAX);
    assert_true(past.found);
    assert_false(past.more);
    assert_int_equal(past.steps[5].at_ms, LIFE_START_MS);
    assert_int_equal(past.steps[4].at_ms, LIFE_START_MS + 1000);
    assert_int_equal(past.steps[3].at_ms, LIFE_START_MS + 2000);
    assert_int_equal(past.steps[2].at_ms, LIFE_START_MS + 63000);
    assert_int_equal(past.steps[1].at_ms, LIFE_START_MS + 64000);
    assert_int_equal(past.steps[0].at_ms, LIFE_START_MS + 65000);
    assert_int_equal(past.steps[0].fence, fence);
    assert_int_equal(past.steps[0].attempt, 2);
    assert_string_equal(past.steps[0].result, "ok");
    assert_string_equal(past.steps[5].owner, "one");
    assert_string_equal(past.steps[1].owner, "two");
    assert_string_equal(past.steps[4].point, "paid");
    assert_string_equal(past.steps[4].data, "7");
    assert_int_equal(past.steps[2].state, ONCE_STATE_DOUBT);
    life_end(&life);
}

static void history__fail_and_resolve__are_told_apart(void **state)
{
    struct life life;
    uint64_t fence;

    (void)state;
    life_begin(&life);
    fence = life_start(&life, "failed");
    assert_int_equal(
        life_word(
            &life,
            (struct once_op){.call = ONCE_CALL_FAIL, .fence = fence, .result = once_bytes_of("no")},
            "failed", NULL),
        ONCE_DONE);
    (void)life_start(&life, "failed");
    assert_string_equal(events(&life, "failed"), "BEGAN FAILED BEGAN");

    for (int done = 0; done < 2; done++) {
        const char *key = done ? "done" : "not";
        struct once_op resolve = {.call = ONCE_CALL_RESOLVE, .done = done};

        fence = life_start(&life, key);
        assert_int_equal(
            life_word(&life, (struct once_op){.call = ONCE_CALL_RENEW, .fence = fence}, key, NULL),
            ONCE_DONE);
        assert_int_equal(life_word(&life, resolve, key, NULL), ONCE_DONE);
    }
    assert_string_equal(events(&life, "done"), "BEGAN DOUBT RESOLVED_DONE");
    assert_string_equal(events(&life, "not"), "BEGAN DOUBT RESOLVED_NOT_DONE");
    life_end(&life);
}

static void history__values__are_applied_and_retained(void **state)
{
    struct once_op set = {.call = ONCE_CALL_SET, .result = once_bytes_of("v"), .ttl_ms = 1000000};
    struct once_op expire = {.call = ONCE_CALL_EXPIRE, .ttl_ms = 5000000};
    struct life life;

    (void)state;
    life_begin(&life);
    assert_int_equal(life_word(&life, set, "v", NULL), ONCE_DONE);
    assert_int_equal(life_word(&life, expire, "v", NULL), ONCE_DONE);
    assert_string_equal(events(&life, "v"), "APPLIED RETAINED");
    life_end(&life);
}

/* Nothing of what was forgotten, or has expired, is shown. */
static void history__life_that_is_over__is_not_shown(void **state)
{
    struct once_op forget = {.call = ONCE_CALL_FORGET};
    struct life life;

    (void)state;
    life_begin(&life);
    assert_false(look(&life, "never", 1).found);
    life_do(&life, "k", LIFE_HOUR_MS);
    assert_int_equal(life_word(&life, forget, "k", NULL), ONCE_DONE);
    assert_string_equal(events(&life, "k"), "FORGOTTEN");
    life_do(&life, "k", LIFE_HOUR_MS);
    assert_string_equal(events(&life, "k"), "BEGAN COMPLETED");

    life_do(&life, "e", LIFE_HOUR_MS);
    life_pass(&life, 2 * LIFE_HOUR_MS);
    assert_false(look(&life, "e", 1).found);
    (void)life_start(&life, "e");
    assert_string_equal(events(&life, "e"), "BEGAN");
    life_end(&life);
}

static void history__count__says_that_there_is_more(void **state)
{
    struct life life;
    struct past past;

    (void)state;
    life_begin(&life);
    (void)live_through_a_doubt(&life, "k");
    past = look(&life, "k", 2);
    assert_int_equal(past.count, 2);
    assert_true(past.more);
    assert_int_equal(past.steps[0].event, ONCE_EVENT_COMPLETED);
    assert_int_equal(past.steps[1].event, ONCE_EVENT_TAKEN_OVER);
    past = look(&life, "k", 6);
    assert_int_equal(past.count, 6);
    assert_false(past.more);
    life_end(&life);
}

/* From sealed segments, and after every kind of end. */
static void history__older_segments_and_restarts__are_read_from_disk(void **state)
{
    (void)state;
    for (int end = 0; end < LIFE_END_COUNT; end++) {
        struct life life;
        unsigned number = 0;
        uint64_t fence;
        struct past past;

        life_begin(&life);
        fence = life_start(&life, "k");
        for (int i = 0; i < 3; i++)
            life_roll(&life, 0, &number);
        life_pass(&life, 5000);
        assert_int_equal(life_complete(&life, "k", fence, "ok"), ONCE_DONE);
        for (int i = 0; i < 3; i++)
            life_roll(&life, 0, &number);
        life_again(&life, (enum life_end)end);
        assert_string_equal(events(&life, "k"), "BEGAN COMPLETED");
        past = look(&life, "k", STEPS_MAX);
        assert_int_equal(past.steps[1].at_ms, LIFE_START_MS);
        assert_int_equal(past.steps[0].at_ms, LIFE_START_MS + 5000);
        life_end(&life);
    }
}

/* Damage hides the records that it hit, and no others of their segment. */
static void history__damage_elsewhere_in_the_segment__hides_nothing(void **state)
{
    struct life life;
    unsigned number = 0;
    uint64_t fence;
    struct past past;

    (void)state;
    life_begin(&life);
    (void)life_start(&life, "hit");
    life_pass(&life, 1000);
    fence = life_start(&life, "k");
    life_pass(&life, 5000);
    assert_int_equal(life_complete(&life, "k", fence, "ok"), ONCE_DONE);
    for (int i = 0; i < 3; i++)
        life_roll(&life, 0, &number);
    life_again(&life, LIFE_CLOSED);
    /* The header of the batch of "hit", the first of the first segment. */
    assert_true(disk_flip(life.disk, "000000.seg", ONCE__SEGMENT_HEADER_SIZE + 20, 0x40));
    assert_string_equal(events(&life, "k"), "BEGAN COMPLETED");
    past = look(&life, "k", STEPS_MAX);
    assert_int_equal(past.steps[1].at_ms, LIFE_START_MS + 1000);
    assert_in_range(past.steps[0].at_ms, LIFE_START_MS + 1000, LIFE_START_MS + 6000);
    life_end(&life);
}

/* That it has expired is told like everything else: not before it is durable, or a clock that is
 * set back after a power failure would bring it back. */
static void history__expired__stays_so_after_a_power_failure(void **state)
{
    struct life life;
    uint64_t fence;

    (void)state;
    life_begin(&life);
    fence = life_start(&life, "k");
    assert_int_equal(life_complete(&life, "k", fence, "ok"), ONCE_DONE);
    life_pass(&life, ONCE_RETENTION_MS_DEFAULT + 1);
    assert_false(look(&life, "k", 1).found);
    life.wall_ms -= ONCE_RETENTION_MS_DEFAULT;
    life_again(&life, LIFE_CUT);
    assert_false(look(&life, "k", 1).found);
    life_end(&life);
}

/* What was carried out of a segment that is gone is not a step, but the oldest that is known. */
static void history__segment_was_given_back__oldest_is_kept(void **state)
{
    struct life life;
    unsigned number = 0;
    uint64_t fence;

    (void)state;
    life_begin(&life);
    fence = life_start(&life, "k");
    for (int i = 0; i < 4; i++) {
        life_roll(&life, LIFE_HOUR_MS, &number);
        life_work(&life);
    }
    for (int i = 0; i < 4; i++) {
        life_pass(&life, 2 * LIFE_HOUR_MS);
        life_work(&life);
        life_roll(&life, LIFE_HOUR_MS, &number);
    }
    assert_true(life_stats(&life).records_carried > 0);
    assert_string_equal(events(&life, "k"), "KEPT");
    assert_int_equal(life_complete(&life, "k", fence, "late"), ONCE_DONE);
    assert_string_equal(events(&life, "k"), "KEPT COMPLETED");
    life_end(&life);
}

static void history__bad_arguments__are_refused(void **state)
{
    struct life life;
    struct past past = {.count = 0};

    (void)state;
    life_begin(&life);
    assert_int_equal(
        once_history(life.store, once_name_of("test", "k"), 0, add, &past, &past.found, &past.more),
        ONCE_ERR_INVALID);
    assert_int_equal(
        once_history(life.store, once_name_of("", "k"), 1, add, &past, &past.found, &past.more),
        once_namespace_check(once_bytes_of(""), NULL));
    assert_true(once_history(life.store, once_name_of("test", "a\nb"), 1, add, &past, &past.found,
                             &past.more) < 0);
    assert_true(
        once_history(NULL, once_name_of("test", "k"), 1, add, &past, &past.found, &past.more) < 0);
    life_end(&life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(history__every_call__is_told_with_its_time),
        cmocka_unit_test(history__fail_and_resolve__are_told_apart),
        cmocka_unit_test(history__values__are_applied_and_retained),
        cmocka_unit_test(history__life_that_is_over__is_not_shown),
        cmocka_unit_test(history__count__says_that_there_is_more),
        cmocka_unit_test(history__older_segments_and_restarts__are_read_from_disk),
        cmocka_unit_test(history__segment_was_given_back__oldest_is_kept),
        cmocka_unit_test(history__damage_elsewhere_in_the_segment__hides_nothing),
        cmocka_unit_test(history__expired__stays_so_after_a_power_failure),
        cmocka_unit_test(history__bad_arguments__are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
