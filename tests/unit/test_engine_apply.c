/* SPDX-License-Identifier: Apache-2.0
 *
 * Apply in the engine: check, effects and record are one unit, whatever ends the process; objects
 * are made again from snapshot and log; nothing is told or shown before it is durable.
 */
#include "engine_help.h"

#include <once/apply.h>

#include "object/body.h"

enum { TEXTS_MAX = 8, WORDS_MAX = 16 };

/* What an apply of these lines of text comes to: the word, and its result as text. */
struct outcome {
    int err;
    enum once_word word;
    int32_t code;
    uint32_t effect;
    const char *what;
    char result[512];
};

struct effects {
    struct once_bytes words[TEXTS_MAX][WORDS_MAX];
    uint8_t scratch[TEXTS_MAX][512];
    struct once_do dos[TEXTS_MAX];
    size_t count;
};

static void split(struct effects *effects, const char *const *texts)
{
    effects->count = 0;
    for (; texts[effects->count]; effects->count++) {
        size_t at = effects->count, count;
        struct once_defect defect;

        assert_true(at < TEXTS_MAX);
        assert_int_equal(once_do_split(once_bytes_of(texts[at]), effects->scratch[at],
                                       effects->words[at], WORDS_MAX, &count, &defect),
                         ONCE_OK);
        effects->dos[at] = (struct once_do){effects->words[at], count};
    }
}

static struct outcome outcome_of(struct once_op *op)
{
    struct outcome outcome = {.err = op->reply.err,
                              .word = op->reply.word,
                              .code = op->reply.code,
                              .effect = op->reply.effect,
                              .what = op->reply.what};

    assert_true(op->reply.result.size < sizeof(outcome.result));
    if (op->reply.result.size > 0)
        memcpy(outcome.result, op->reply.result.data, op->reply.result.size);
    once_reply_release(&op->reply);
    return outcome;
}

static struct outcome apply_all(struct life *life, const char *key, once_ms ttl_ms,
                                const char *const *texts)
{
    struct once_op op = {.call = ONCE_CALL_APPLY, .ttl_ms = ttl_ms};
    struct effects effects;

    split(&effects, texts);
    op.dos = effects.dos;
    op.do_count = effects.count;
    (void)life_call(life, &op, key);
    return outcome_of(&op);
}

#define APPLY(life, key, ...) apply_all(life, key, 0, (const char *const[]){__VA_ARGS__, NULL})

static void assert_applied(struct outcome outcome, const char *result)
{
    if (outcome.err != ONCE_OK)
        fail_msg("%s: %s", once_err_name(outcome.err), outcome.what ? outcome.what : "");
    assert_string_equal(outcome.result, result);
    assert_int_equal(outcome.word, ONCE_APPLIED);
    assert_int_equal(outcome.code, ONCE_CODE_APPLIED);
}

static void assert_json(struct life *life, const char *name, const char *json)
{
    struct once_object object;
    char text[1024];

    assert_int_equal(once_object_get(life->store, once_bytes_of(name), &object), ONCE_OK);
    snprintf(text, sizeof(text), "%.*s", (int)object.json.size, (const char *)object.json.data);
    once_object_release(&object);
    assert_string_equal(text, json);
}

static enum once_object_type type_of(struct life *life, const char *name)
{
    struct once_object object;
    enum once_object_type type;

    assert_int_equal(once_object_get(life->store, once_bytes_of(name), &object), ONCE_OK);
    type = object.type;
    once_object_release(&object);
    return type;
}

/* ---- One unit -------------------------------------------------------------------------------- */

static void apply__first_and_again__happens_once_and_replays(void **state)
{
    (void)state;
    for (int end = 0; end < LIFE_END_COUNT; end++) {
        struct life life;
        struct outcome outcome;

        life_begin(&life);
        assert_applied(APPLY(&life, "open", "ADD acct:42 1000"), "[1000]");
        assert_applied(APPLY(&life, "pay", "ADD acct:42 -100 MIN 0", "EMIT charges {\"n\": 1}"),
                       "[900,1]");
        for (int i = 0; i < 3; i++) {
            outcome = APPLY(&life, "pay", "ADD acct:42 -100 MIN 0", "EMIT charges {\"n\": 1}");
            assert_int_equal(outcome.word, ONCE_REPLAY);
            assert_int_equal(outcome.code, ONCE_CODE_APPLIED);
            assert_string_equal(outcome.result, "[900,1]");
            assert_json(&life, "acct:42",
                        "{\"name\":\"acct:42\",\"type\":\"counter\",\"value\":900}");
            life_again(&life, (enum life_end)end);
        }
        outcome = APPLY(&life, "pay", "ADD acct:42 -200 MIN 0", "EMIT charges {\"n\": 1}");
        assert_int_equal(outcome.word, ONCE_MISMATCH);
        assert_string_equal(outcome.result, "");
        life_end(&life);
    }
}

static void apply__one_effect_rejected__rejects_all_and_replays_so(void **state)
{
    (void)state;
    for (int end = 0; end < LIFE_END_COUNT; end++) {
        struct life life;
        struct outcome first, again;

        life_begin(&life);
        assert_applied(APPLY(&life, "a", "ADD acct 50", "SET name x"), "[50,1]");
        first = APPLY(&life, "b", "SET name y", "ADD acct -100 MIN 0", "EMIT sent z");
        assert_int_equal(first.word, ONCE_REJECTED);
        assert_int_equal(first.code, ONCE_CODE_REJECTED);
        assert_non_null(strstr(first.result, "{\"rejected\":2,\"word\":\"BELOW_MIN\""));
        assert_int_equal(type_of(&life, "sent"), ONCE_OBJECT_NONE);
        assert_applied(APPLY(&life, "c", "ADD acct 1000"), "[1050]");
        life_again(&life, (enum life_end)end);
        again = APPLY(&life, "b", "SET name y", "ADD acct -100 MIN 0", "EMIT sent z");
        assert_int_equal(again.word, ONCE_REPLAY);
        assert_int_equal(again.code, ONCE_CODE_REJECTED);
        assert_string_equal(again.result, first.result);
        assert_json(&life, "acct", "{\"name\":\"acct\",\"type\":\"counter\",\"value\":1050}");
        life_end(&life);
    }
}

static void apply__without_a_key__only_what_needs_none(void **state)
{
    struct life life;
    struct outcome outcome;

    (void)state;
    life_begin(&life);
    assert_applied(APPLY(&life, "", "MAX high 5", "FLAG up"), "[5,1]");
    assert_applied(APPLY(&life, "", "MAX high 5", "FLAG up"), "[5,1]");
    outcome = APPLY(&life, "", "MAX high 7", "ADD n 1");
    assert_int_equal(outcome.err, ONCE_ERR_KEY_NEEDED);
    assert_int_equal(outcome.effect, 2);
    assert_non_null(strstr(outcome.what, "once key"));
    assert_int_equal(type_of(&life, "n"), ONCE_OBJECT_NONE);
    life_again(&life, LIFE_CUT);
    assert_applied(APPLY(&life, "", "MAX high 3"), "[5]");
    life_end(&life);
}

static void apply__bad_effects__say_which_and_why(void **state)
{
    struct life life;
    struct outcome outcome;

    (void)state;
    life_begin(&life);
    assert_applied(APPLY(&life, "a", "ADD n 1"), "[1]");
    outcome = APPLY(&life, "b", "FLAG f", "UNION n x");
    assert_int_equal(outcome.err, ONCE_ERR_OBJECT_TYPE);
    assert_int_equal(outcome.effect, 2);
    assert_non_null(strstr(outcome.what, "counter"));
    outcome = APPLY(&life, "b", "FLAG f", "ADD n one");
    assert_int_equal(outcome.err, ONCE_ERR_INVALID);
    assert_int_equal(outcome.effect, 2);
    assert_non_null(outcome.what);
    outcome = APPLY(&life, "b", "NOTHING n");
    assert_int_equal(outcome.err, ONCE_ERR_INVALID);
    assert_int_equal(outcome.effect, 1);
    assert_int_equal(life_get(&life, "b"), ONCE_NOTFOUND);
    assert_applied(APPLY(&life, "b", "ADD n 1"), "[2]");
    life_end(&life);
}

static void apply__sizes_past_a_bound__say_which_effect(void **state)
{
    static struct once_bytes many[ONCE_EFFECT_WORDS_MAX + 1];
    struct once_bytes flag[] = {once_bytes_of("FLAG"), once_bytes_of("f")};
    struct once_do effects[] = {{flag, 2}, {many, ONCE_EFFECT_WORDS_MAX + 1}};
    struct once_op op = {.call = ONCE_CALL_APPLY, .dos = effects, .do_count = 2};
    struct outcome outcome;
    struct life life;

    (void)state;
    life_begin(&life);
    (void)life_call(&life, &op, "k");
    outcome = outcome_of(&op);
    assert_int_equal(outcome.err, ONCE_ERR_FULL);
    assert_int_equal(outcome.effect, 2);
    effects[1] = (struct once_do){NULL, 2};
    (void)life_call(&life, &op, "k");
    outcome = outcome_of(&op);
    assert_int_equal(outcome.err, ONCE_ERR_INVALID);
    assert_int_equal(outcome.effect, 2);
    assert_non_null(strstr(outcome.what, "null pointer"));
    op.do_count = 1;
    (void)life_call(&life, &op, "k");
    assert_applied(outcome_of(&op), "[1]");
    life_end(&life);
}

/* Somebody began the key, and has not ended it. */
static void apply__of_a_key_that_was_begun__is_busy_then_a_doubt(void **state)
{
    struct life life;
    struct once_op begin = {.call = ONCE_CALL_BEGIN};
    struct outcome outcome;
    uint8_t fingerprint[ONCE_FINGERPRINT_SIZE] = {7};
    struct once_do effect;
    struct once_bytes words[] = {once_bytes_of("FLAG"), once_bytes_of("f")};
    struct once_op apply = {.call = ONCE_CALL_APPLY, .dos = &effect, .do_count = 1};

    (void)state;
    effect = (struct once_do){words, 2};
    life_begin(&life);
    begin.fingerprint = apply.fingerprint = (struct once_bytes){fingerprint, sizeof(fingerprint)};
    assert_int_equal(life_word(&life, begin, "k", NULL), ONCE_EXECUTE);
    assert_int_equal(life_word(&life, apply, "k", NULL), ONCE_BUSY);
    life_pass(&life, ONCE_LEASE_MS_DEFAULT);
    assert_int_equal(life_word(&life, apply, "k", NULL), ONCE_DOUBT);
    outcome = APPLY(&life, "k", "FLAG f");
    assert_int_equal(outcome.word, ONCE_MISMATCH);
    assert_int_equal(type_of(&life, "f"), ONCE_OBJECT_NONE);
    life_end(&life);
}

/* ---- Durable before it is told --------------------------------------------------------------- */

static void inv2_apply__not_durable__is_neither_told_nor_kept(void **state)
{
    struct life life;
    struct effects effects;
    struct life_op ops[2];
    unsigned clock = 0;
    static const char *const texts[] = {"ADD n 1", "EMIT out m", NULL};

    (void)state;
    memset(ops, 0, sizeof(ops));
    life_begin(&life);
    split(&effects, texts);
    for (int i = 0; i < 2; i++) {
        ops[i].clock = &clock;
        ops[i].op.call = ONCE_CALL_APPLY;
        ops[i].op.dos = effects.dos;
        ops[i].op.do_count = effects.count;
        life_submit(&life, &ops[i], "k"); /* the second would be a replay of the first */
    }
    assert_int_equal(ops[0].told + ops[1].told, 0);
    life_cut(&life);
    life_open(&life);
    assert_int_equal(ops[0].told + ops[1].told, 0);
    assert_int_equal(type_of(&life, "n"), ONCE_OBJECT_NONE);
    for (int i = 0; i < 2; i++)
        once_reply_release(&ops[i].op.reply); /* decided, and told to nobody */
    for (int i = 0; i < 2; i++)
        life_submit(&life, &ops[i], "k");
    life_write(&life);
    assert_int_equal(ops[0].told + ops[1].told, 2);
    assert_int_equal(ops[0].op.reply.word, ONCE_APPLIED);
    assert_int_equal(ops[1].op.reply.word, ONCE_REPLAY);
    for (int i = 0; i < 2; i++)
        once_reply_release(&ops[i].op.reply);
    life_end(&life);
}

static void inv2_object__changed_by_what_is_not_durable__is_shown_when_it_is(void **state)
{
    struct life life;
    struct effects effects;
    struct life_op op = {.told = 0};
    unsigned clock = 0;
    static const char *const texts[] = {"ADD n 1", NULL};

    (void)state;
    life_begin(&life);
    split(&effects, texts);
    op.clock = &clock;
    op.op.call = ONCE_CALL_APPLY;
    op.op.dos = effects.dos;
    op.op.do_count = effects.count;
    life_submit(&life, &op, "k");
    assert_json(&life, "n", "{\"name\":\"n\",\"type\":\"counter\",\"value\":1}"); /* writes it */
    life_cut(&life);
    life_open(&life);
    assert_json(&life, "n", "{\"name\":\"n\",\"type\":\"counter\",\"value\":1}");
    once_reply_release(&op.op.reply);
    life_end(&life);
}

static void see_nothing(void *user, const struct once_object_item *item)
{
    (void)user;
    (void)item;
    fail();
}

/* An error that says what an object is reveals it as well. */
static void inv2_error__of_an_object_that_is_not_durable__makes_it_durable_first(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct life life;
        struct effects effects;
        struct life_op op = {.told = 0};
        unsigned clock = 0;
        static const char *const texts[] = {"ADD n 1", NULL};
        uint64_t cursor;
        bool more;
        int err;

        life_begin(&life);
        split(&effects, texts);
        op.clock = &clock;
        op.op.call = ONCE_CALL_APPLY;
        op.op.dos = effects.dos;
        op.op.do_count = effects.count;
        life_submit(&life, &op, "k");
        if (way == 0)
            err = APPLY(&life, "other", "SET n x").err;
        else if (way == 1)
            err = APPLY(&life, "", "FLAG n").err;
        else
            err = once_object_read(life.store, once_bytes_of("n"), 0, 1, see_nothing, NULL, &cursor,
                                   &more);
        assert_int_equal(err, ONCE_ERR_OBJECT_TYPE);
        life_cut(&life);
        life_open(&life);
        assert_int_equal(type_of(&life, "n"), ONCE_OBJECT_COUNTER);
        once_reply_release(&op.op.reply);
        life_end(&life);
    }
}

static void inv8_failed_write__after_an_apply__stops_the_store(void **state)
{
    struct life life;
    struct disk_faults faults = {0};
    struct once_object object;

    (void)state;
    life_begin(&life);
    assert_applied(APPLY(&life, "a", "ADD n 1"), "[1]");
    faults.fail_write_at = disk_operations(life.disk) + 1;
    disk_set_faults(life.disk, &faults);
    assert_int_equal(APPLY(&life, "b", "ADD n 1").err, ONCE_ERR_IO);
    assert_int_equal(APPLY(&life, "c", "ADD n 1").err, ONCE_ERR_STOPPED);
    assert_int_equal(once_object_get(life.store, once_bytes_of("n"), &object), ONCE_ERR_STOPPED);
    life_end(&life);
}

static bool deny_large(size_t size)
{
    return size > 1000;
}

/* There is no memory for what the log says: the store stops, and nobody is told that it happened.
 */
static void inv8_no_memory_for_an_object__any_durability__is_told_and_stops_the_store(void **state)
{
    char value[1500];
    struct once_bytes words[] = {
        once_bytes_of("SET"), once_bytes_of("r"), {(uint8_t *)value, sizeof(value)}};
    struct once_do effect = {words, 3};

    (void)state;
    memset(value, 'x', sizeof(value));
    for (int durability = ONCE_LOSES_NOTHING; durability <= ONCE_LOSES_UNSYNCED; durability++) {
        struct life life;
        struct once_op op = {.call = ONCE_CALL_APPLY, .dos = &effect, .do_count = 1};
        int err;

        life_prepare(&life, LIFE_DISK_SIZE);
        life.options.durability = (enum once_durability)durability;
        life_open(&life);
        once__heap_deny = deny_large;
        err = life_call(&life, &op, "k");
        once__heap_deny = NULL; /* before anything can fail: others run in this process */
        assert_int_equal(err, ONCE_ERR_MEMORY);
        assert_true(life_stats(&life).stopped);
        life_again(&life, LIFE_KILLED);
        assert_int_equal(type_of(&life, "r"), ONCE_OBJECT_NONE);
        assert_int_equal(life_get(&life, "k"), ONCE_NOTFOUND);
        life_end(&life);
    }
}

/* ---- Snapshots ------------------------------------------------------------------------------- */

/* Adds to many counters under new keys until the log has gone on by so many segments. */
static unsigned add_for(struct life *life, uint64_t segments, once_ms ttl_ms, unsigned *number)
{
    uint64_t fence = 0, first = life_stats(life).records, until;
    unsigned added = 0;

    (void)fence;
    until = first + segments * (LIFE_SEGMENT_SIZE / ONCE_BLOCK_SIZE);
    while (life_stats(life).records < until) {
        char key[LIFE_KEY_SIZE], text[64];
        const char *texts[] = {text, "APPEND journal e x", NULL};

        snprintf(key, sizeof(key), "add-%u", *number);
        snprintf(text, sizeof(text), "ADD n:%u 1", *number % 5);
        assert_int_equal(apply_all(life, key, ttl_ms, texts).word, ONCE_APPLIED);
        (*number)++;
        added++;
        life_pass(life, 1000);
    }
    return added;
}

static uint64_t sum_of(struct life *life)
{
    uint64_t sum = 0;

    for (int i = 0; i < 5; i++) {
        struct once_object object;
        char name[16];
        const char *value;

        snprintf(name, sizeof(name), "n:%d", i);
        assert_int_equal(once_object_get(life->store, once_bytes_of(name), &object), ONCE_OK);
        value = strstr((const char *)object.json.data, "\"value\":");
        assert_non_null(value);
        sum += strtoull(value + 8, NULL, 10);
        once_object_release(&object);
    }
    return sum;
}

static uint64_t events_of(struct life *life)
{
    struct once_object object;
    uint64_t version;

    assert_int_equal(once_object_get(life->store, once_bytes_of("journal"), &object), ONCE_OK);
    version = object.version;
    once_object_release(&object);
    return version;
}

static void inv3_snapshot__log_goes_on__segments_go_and_objects_stay(void **state)
{
    (void)state;
    for (int end = 0; end < LIFE_END_COUNT; end++) {
        struct life life;
        struct once_stats stats;
        unsigned number = 0;

        life_begin(&life);
        for (int i = 0; i < 6; i++) {
            add_for(&life, 8, 60000, &number);
            life_work(&life);
            assert_int_equal(sum_of(&life), number);
            stats = life_stats(&life);
            life_again(&life, (enum life_end)end);
            assert_int_equal(sum_of(&life), number);
            assert_int_equal(events_of(&life), number);
            assert_int_equal(life_stats(&life).changes, number);
        }
        assert_true(stats.segments_retired > 0);
        assert_true(stats.segments < 12);
        assert_true(disk_file_size(life.disk, ONCE__OBJECTS_NAME) > 0);
        assert_int_equal(life_stats(&life).snapshot_size,
                         disk_file_size(life.disk, ONCE__OBJECTS_NAME));
        life_end(&life);
    }
}

/* Between any two steps of a snapshot others change the objects, and power may fail. */
static void inv3_snapshot__cut_at_every_step__objects_are_what_was_told(void **state)
{
    (void)state;
    for (int steps = 0; steps < 12; steps++) {
        struct life life;
        unsigned number = 0;

        life_begin(&life);
        add_for(&life, 7, 60000, &number);
        for (int i = 0; i < steps; i++) {
            (void)once__engine_work(life.store);
            add_for(&life, 1, 60000, &number);
        }
        life_again(&life, LIFE_CUT);
        assert_int_equal(sum_of(&life), number);
        assert_int_equal(events_of(&life), number);
        life_end(&life);
    }
}

/* Of a snapshot whose name could not be synced nobody knows which one is there after a power cut:
 * what either of them needs stays. */
static void
inv8_snapshot__a_sync_fails_then_killed_then_cut__objects_are_what_was_told(void **state)
{
    unsigned snapshots = 0;

    (void)state;
    for (uint64_t at = 1; at < 400; at++) {
        struct life life;
        struct disk_faults faults = {0};
        unsigned number = 0;

        life_prepare(&life, LIFE_DISK_SIZE);
        disk_free(life.disk);
        life.disk = disk_new(at, LIFE_DISK_SIZE); /* what a power cut takes is by chance */
        life_open(&life);
        add_for(&life, 7, 2000, &number);
        life_work(&life); /* one that is good */
        add_for(&life, 7, 2000, &number);
        faults.fail_sync_at = disk_operations(life.disk) + 1 + at / 8;
        faults.fail_for_ever = true; /* else it is tried again and succeeds */
        disk_set_faults(life.disk, &faults);
        for (int i = 0; i < 40; i++)
            (void)once__engine_work(life.store);
        faults.fail_sync_at = 0;
        disk_set_faults(life.disk, &faults);
        life_again(&life, LIFE_KILLED);
        assert_int_equal(sum_of(&life), number);
        life_pass(&life, 100000);
        add_for(&life, 1, 2000, &number);
        for (int i = 0; i < 4 + (int)(at % 8) * 4; i++)
            (void)once__engine_work(life.store);
        life_again(&life, LIFE_CUT);
        assert_int_equal(sum_of(&life), number);
        assert_int_equal(events_of(&life), number);
        add_for(&life, 7, 2000, &number);
        life_work(&life);
        snapshots += (unsigned)life_stats(&life).snapshots;
        life_again(&life, LIFE_CUT);
        assert_int_equal(sum_of(&life), number);
        life_end(&life);
    }
    assert_true(snapshots >= 399);
}

/* The answer outlives its segment; the effect is not made again by carrying it. */
static void inv3_carried__apply_with_a_long_retention__replays(void **state)
{
    struct life life;
    struct outcome outcome;
    unsigned number = 0;
    static const char *const texts[] = {"ADD kept 5", NULL};

    (void)state;
    life_begin(&life);
    assert_applied(apply_all(&life, "long", 1000 * LIFE_HOUR_MS, texts), "[5]");
    for (int i = 0; i < 12; i++) {
        add_for(&life, 4, 1000, &number);
        life_work(&life);
    }
    assert_true(life_stats(&life).records_carried > 0);
    life_again(&life, LIFE_CUT);
    outcome = apply_all(&life, "long", 1000 * LIFE_HOUR_MS, texts);
    assert_int_equal(outcome.word, ONCE_REPLAY);
    assert_string_equal(outcome.result, "[5]");
    assert_json(&life, "kept", "{\"name\":\"kept\",\"type\":\"counter\",\"value\":5}");
    life_end(&life);
}

static void open_refused(struct life *life, const char *text)
{
    struct once_message message = {""};

    assert_int_equal(life_try_open(life, &message), ONCE_ERR_DAMAGED);
    if (!strstr(message.text, text))
        fail_msg("%s", message.text);
}

static void open__snapshot_damaged_or_missing__is_refused(void **state)
{
    struct life life;
    unsigned number = 0;

    (void)state;
    life_begin(&life);
    for (int i = 0; i < 3; i++) {
        add_for(&life, 8, 1000, &number);
        life_work(&life);
    }
    assert_true(life_stats(&life).segments_retired > 0);
    life_close(&life);
    assert_true(disk_flip(life.disk, ONCE__OBJECTS_NAME, 100, 1));
    open_refused(&life, "objects");
    assert_true(disk_flip(life.disk, ONCE__OBJECTS_NAME, 100, 1));
    assert_true(disk_flip(life.disk, ONCE__OBJECTS_NAME, 40, 1));
    open_refused(&life, "objects");
    assert_true(disk_flip(life.disk, ONCE__OBJECTS_NAME, 40, 1));
    life_open(&life);
    life_close(&life);
    assert_true(disk_remove(life.disk, ONCE__OBJECTS_NAME));
    open_refused(&life, "missing");
    life_end(&life);
}

/* The disk fills up in the middle of a snapshot: it is tried again later, and nothing is lost. */
static void snapshot__disk_full__is_tried_again(void **state)
{
    struct life life;
    struct disk_faults faults = {0};
    unsigned number = 0;

    (void)state;
    life_begin(&life);
    add_for(&life, 7, 60000, &number);
    faults.full_at = disk_operations(life.disk) + 1;
    disk_set_faults(life.disk, &faults);
    for (int i = 0; i < 50; i++)
        (void)once__engine_work(life.store);
    assert_int_equal(life_stats(&life).snapshots, 0);
    faults.full_at = 0;
    disk_set_faults(life.disk, &faults);
    life_work(&life);
    assert_int_equal(life_stats(&life).snapshots, 1);
    life_again(&life, LIFE_KILLED);
    assert_int_equal(sum_of(&life), number);
    life_end(&life);
}

/* Sets one of 20 registers to a long value; the error. */
static int set_long(struct life *life, unsigned number)
{
    static char value[6000];
    char key[LIFE_KEY_SIZE], name[16];
    struct once_bytes words[] = {
        once_bytes_of("SET"), {(uint8_t *)name, 0}, {(uint8_t *)value, sizeof(value)}};
    struct once_do effect = {words, 3};
    struct once_op op = {.call = ONCE_CALL_APPLY, .dos = &effect, .do_count = 1, .ttl_ms = 1000};
    int err;

    memset(value, 'x', sizeof(value));
    snprintf(key, sizeof(key), "long-%u", number);
    snprintf(name, sizeof(name), "r:%u", number % 20);
    words[1] = once_bytes_of(name);
    err = life_call(life, &op, key);
    once_reply_release(&op.reply);
    return err;
}

/* A snapshot needs room before it lets segments go. */
static void snapshot__disk_was_full__is_written_and_there_is_space_again(void **state)
{
    struct life life;
    unsigned number = 0, again = 0;

    (void)state;
    life_prepare(&life, 40 * LIFE_SEGMENT_SIZE);
    life_open(&life);
    while (set_long(&life, number) == ONCE_OK)
        assert_true(number++ < 1000);
    for (unsigned i = 0; i < 200; i++) {
        life_pass(&life, 10000);
        life_work(&life);
        again += set_long(&life, ++number) == ONCE_OK ? 1 : 0;
    }
    assert_true(again > 150);
    life_end(&life);
}

static void inv9_disk_size_max__with_a_snapshot__is_kept(void **state)
{
    struct life life;
    unsigned set = 0;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    life.options.disk_size_max = 24 * LIFE_SEGMENT_SIZE;
    life_open(&life);
    for (unsigned number = 0; number < 600; number++) {
        set += set_long(&life, number) == ONCE_OK ? 1 : 0;
        life_pass(&life, 1000);
        (void)once__engine_work(life.store);
        assert_true(life_stats(&life).disk_size <= life.options.disk_size_max);
    }
    assert_true(set > 500);
    assert_true(life_stats(&life).snapshots > 2);
    life_end(&life);
}

static void inv9_objects_size_max__more__is_refused_and_others_go_on(void **state)
{
    struct life life;
    struct outcome outcome = {.err = ONCE_OK};
    unsigned number = 0;

    (void)state;
    life_prepare(&life, LIFE_DISK_SIZE);
    life.options.objects_size_max = 1 << 20;
    life_open(&life);
    while (outcome.err == ONCE_OK && number < 100000) {
        char key[LIFE_KEY_SIZE], text[64];
        const char *texts[] = {text, NULL};

        snprintf(key, sizeof(key), "k-%u", number);
        snprintf(text, sizeof(text), "ADD n:%u 1", number++);
        outcome = apply_all(&life, key, 1000, texts);
        life_pass(&life, 100);
        life_work(&life);
    }
    assert_int_equal(outcome.err, ONCE_ERR_FULL);
    assert_non_null(outcome.what);
    assert_applied(APPLY(&life, "again", "ADD n:0 1"), "[2]");
    assert_true(life_stats(&life).objects_size <= (1 << 20) + (1 << 17)); /* growth is estimated */
    life_end(&life);
}

static void leases__paused_owner_wakes_up__is_refused(void **state)
{
    struct life life;
    struct once_lease lease;
    struct once_bytes name = once_bytes_of("leader"), a = once_bytes_of("a"),
                      b = once_bytes_of("b");

    (void)state;
    life_begin(&life);
    assert_int_equal(once_lease_grant(life.store, once_name_of("test", "1"), name, a, 1000, &lease),
                     ONCE_OK);
    assert_int_equal(lease.word, ONCE_APPLIED);
    assert_int_equal(lease.token, 1);
    assert_int_equal(once_lease_grant(life.store, once_name_of("test", "2"), name, b, 1000, &lease),
                     ONCE_OK);
    assert_int_equal(lease.word, ONCE_REJECTED);
    life_pass(&life, 1000);
    life_again(&life, LIFE_CUT);
    assert_int_equal(once_lease_grant(life.store, once_name_of("test", "3"), name, b, 1000, &lease),
                     ONCE_OK);
    assert_int_equal(lease.word, ONCE_APPLIED);
    assert_int_equal(lease.token, 2);
    assert_int_equal(once_lease_renew(life.store, name, 1, 1000, &lease), ONCE_OK);
    assert_int_equal(lease.word, ONCE_REJECTED);
    assert_int_equal(APPLY(&life, "w", "HOLD leader 1", "SET x 1").word, ONCE_REJECTED);
    assert_applied(APPLY(&life, "w2", "HOLD leader 2", "SET x 2"), "[2,1]");
    assert_applied(APPLY(&life, "w3", "HOLD leader 2", "SET x 3"), "[2,2]");
    assert_int_equal(once_lease_release(life.store, name, 2, &lease), ONCE_OK);
    assert_int_equal(lease.word, ONCE_APPLIED);
    assert_int_equal(APPLY(&life, "w4", "HOLD leader 2", "SET x 4").word, ONCE_REJECTED);
    life_end(&life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(apply__first_and_again__happens_once_and_replays),
        cmocka_unit_test(apply__one_effect_rejected__rejects_all_and_replays_so),
        cmocka_unit_test(apply__without_a_key__only_what_needs_none),
        cmocka_unit_test(apply__bad_effects__say_which_and_why),
        cmocka_unit_test(apply__sizes_past_a_bound__say_which_effect),
        cmocka_unit_test(apply__of_a_key_that_was_begun__is_busy_then_a_doubt),
        cmocka_unit_test(inv2_apply__not_durable__is_neither_told_nor_kept),
        cmocka_unit_test(inv2_object__changed_by_what_is_not_durable__is_shown_when_it_is),
        cmocka_unit_test(inv2_error__of_an_object_that_is_not_durable__makes_it_durable_first),
        cmocka_unit_test(inv8_failed_write__after_an_apply__stops_the_store),
        cmocka_unit_test(inv8_no_memory_for_an_object__any_durability__is_told_and_stops_the_store),
        cmocka_unit_test(inv3_snapshot__log_goes_on__segments_go_and_objects_stay),
        cmocka_unit_test(inv3_snapshot__cut_at_every_step__objects_are_what_was_told),
        cmocka_unit_test(
            inv8_snapshot__a_sync_fails_then_killed_then_cut__objects_are_what_was_told),
        cmocka_unit_test(inv3_carried__apply_with_a_long_retention__replays),
        cmocka_unit_test(snapshot__disk_was_full__is_written_and_there_is_space_again),
        cmocka_unit_test(inv9_disk_size_max__with_a_snapshot__is_kept),
        cmocka_unit_test(open__snapshot_damaged_or_missing__is_refused),
        cmocka_unit_test(snapshot__disk_full__is_tried_again),
        cmocka_unit_test(inv9_objects_size_max__more__is_refused_and_others_go_on),
        cmocka_unit_test(leases__paused_owner_wakes_up__is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
