/* SPDX-License-Identifier: Apache-2.0
 *
 * What a stage refuses with an error, and not with a rejection: an object of another type, an
 * effect that needs a key, and every bound. After each of them the stage is as good as new.
 */
#include "unit/stage_help.h"

/* For each type an effect that makes one called "x", and whether it needs a key. */
static const struct {
    enum once_object_type type;
    const char *line;
    const char *text; /* what someone with another effect is told */
} makers[] = {
    {ONCE_OBJECT_COUNTER, "ADD x 1", "this name is a counter;"},
    {ONCE_OBJECT_MAX, "MAX x 1", "this name is a max;"},
    {ONCE_OBJECT_MIN, "MIN x 1", "this name is a min;"},
    {ONCE_OBJECT_FLAG, "FLAG x", "this name is a flag;"},
    {ONCE_OBJECT_GSET, "UNION x a", "this name is a gset,"},
    {ONCE_OBJECT_VV, "CLOCK x a 1", "this name is a vv,"},
    {ONCE_OBJECT_LWW, "LWW x 1 a v", "this name is an lww,"},
    {ONCE_OBJECT_GCOUNTER, "GADD x a 1", "this name is a gcounter,"},
    {ONCE_OBJECT_PNCOUNTER, "PNADD x a 1", "this name is a pncounter,"},
    {ONCE_OBJECT_AWSET, "INSERT x n a", "this name is an awset,"},
    {ONCE_OBJECT_REGISTER, "SET x v", "this name is a register;"},
    {ONCE_OBJECT_MACHINE, "MACHINE x a>b", "this name is a state machine;"},
    {ONCE_OBJECT_LOG, "APPEND x e p", "this name is an event log;"},
    {ONCE_OBJECT_FENCE, "GRANT x", "this name is a fence;"},
    {ONCE_OBJECT_LEASE, "LEASE x o 5", "this name is a lease;"},
    {ONCE_OBJECT_SEQUENCE, "SEQ x 0 0", "this name is a producer sequence;"},
    {ONCE_OBJECT_BUCKETS, "BUCKET x b 1", "this name is counts by bucket;"},
    {ONCE_OBJECT_OUTBOX, "EMIT x p", "this name is an outbox;"},
};
enum { MAKER_COUNT = sizeof makers / sizeof *makers };

/* The other effects, by the type that they are for. */
static const struct {
    enum once_object_type type;
    const char *line;
} others[] = {
    {ONCE_OBJECT_REGISTER, "DELETE x"},     {ONCE_OBJECT_MACHINE, "MOVE x a b"},
    {ONCE_OBJECT_FENCE, "GUARD x 1"},       {ONCE_OBJECT_LEASE, "RENEW x 1 5"},
    {ONCE_OBJECT_LEASE, "RELEASE x 1"},     {ONCE_OBJECT_LEASE, "HOLD x 1"},
    {ONCE_OBJECT_OUTBOX, "SENT x 1"},       {ONCE_OBJECT_AWSET, "REMOVE x a"},
    {ONCE_OBJECT_REGISTER, "SET x v IF 0"}, {ONCE_OBJECT_LOG, "APPEND x e p AT 0"},
};

static void type__of_another__is_refused_and_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < MAKER_COUNT; i++) {
        struct bench *b = bench_new();

        /* In the table, and earlier in the same apply. */
        for (int staged = 1; staged >= 0; staged--) {
            const char *first = staged ? makers[i].line : "ADD y 1";
            uint32_t effect = 2;

            for (size_t j = 0; j < MAKER_COUNT; j++)
                if (j != i)
                    bench_fail(b, ONCE_ERR_OBJECT_TYPE, effect, makers[i].text, first,
                               makers[j].line, NULL);
            for (size_t j = 0; j < sizeof others / sizeof *others; j++)
                if (others[j].type != makers[i].type)
                    bench_fail(b, ONCE_ERR_OBJECT_TYPE, effect, makers[i].text, first,
                               others[j].line, NULL);
            bench_start(b);
            bench_say(b, makers[i].line);
            assert_int_equal(bench_stage(b), ONCE_OK);
            if (staged)
                assert_int_equal(bench_put(b), 1);
        }
        assert_int_equal(once__object_type(once__objects_at(b->objects, 0)), makers[i].type);
        bench_free(b);
    }
}

static void type__of_a_merged_state__must_match(void **state)
{
    struct bench *b = *state;
    struct once_buf max;

    once_buf_init(&max, 1 << 10);
    assert_int_equal(once_max_set(1, &max), ONCE_OK);
    bench_apply(b, "[1]", "ADD x 1", NULL);
    b->deeds[0] = (struct once__deed){
        .kind = ONCE__DEED_MERGE, .name = once_bytes_of("x"), .value = once_buf_bytes(&max)};
    assert_int_equal(bench_stage(b), ONCE_ERR_OBJECT_TYPE);
    assert_non_null(strstr(b->what, "this name is a counter"));
    b->deeds[0].name = once_bytes_of("y");
    b->deeds[0].value = once_bytes_of("\xff");
    assert_int_equal(bench_stage(b), ONCE_ERR_DAMAGED);
    b->deeds[0].value = (struct once_bytes){0};
    assert_int_equal(bench_stage(b), ONCE_ERR_DAMAGED);
    once_buf_release(&max);
}

/* An effect that found nothing to do made nothing, so the name is still free. */
static void type__of_what_was_not_made__is_not_fixed(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bench_apply(b, "[0,0,0,0,2,3]", "ADD x 0", "DELETE x", "REMOVE x a",
                                 "BUCKET x b 0", "UNION x a b", "MAX y 3", NULL),
                     2);
    assert_int_equal(once__object_type(once__objects_at(b->objects, 0)), ONCE_OBJECT_GSET);
    bench_fail(b, ONCE_ERR_OBJECT_TYPE, 3, "this name is a max", "ADD z 0", "MAX z 1", "ADD z 0",
               NULL);
}

static void key__missing__is_refused_with_the_reason(void **state)
{
    static const struct {
        const char *line, *what;
    } needy[] = {
        {"ADD a 1", "a repeated ADD would count twice: give a key (`once key` makes one)"},
        {"ADD a 1 MIN 0", "a repeated ADD would count twice"},
        {"GADD g n 1", "a repeated GADD would count twice"},
        {"PNADD p n 1", "a repeated PNADD would count twice"},
        {"INSERT s n a", "a repeated INSERT"},
        {"REMOVE s a", "a repeated REMOVE"},
        {"SET r v", "or say IF version"},
        {"DELETE r", "or say IF version"},
        {"APPEND l e p", "or say AT version"},
        {"GRANT f", "a repeated GRANT would give a second token"},
        {"LEASE e o 5", "a repeated LEASE would take the lease again"},
        {"BUCKET b x 1", "a repeated BUCKET would count twice"},
        {"EMIT t p", "a repeated EMIT would send the message twice"},
        {"MOVE ring a b", "this machine can come back to a state"},
    };
    struct bench *b = *state;

    bench_apply(b, "[1,1]", "MACHINE ring a>b b>a", "EMIT t p", NULL);
    b->input.has_key = false;
    for (size_t i = 0; i < sizeof needy / sizeof *needy; i++) {
        bench_fail(b, ONCE_ERR_KEY_NEEDED, 1, needy[i].what, needy[i].line, NULL);
        bench_fail(b, ONCE_ERR_KEY_NEEDED, 2, "`once key` makes one", "FLAG up", needy[i].line,
                   NULL);
    }
}

static void key__missing__is_no_matter_where_a_duplicate_does_nothing(void **state)
{
    struct bench *b = *state;

    bench_apply(b, "[1,1]", "EMIT t p", "LEASE e o 5", NULL);
    b->input.has_key = false;
    bench_apply(b, "[1,1,1,1,1,1]", "MAX max 1", "MIN min 1", "FLAG up", "UNION s a", "CLOCK v n 1",
                "LWW w 1 n v", NULL);
    bench_apply(b, "[1,1,\"b\",1,7]", "SET r v IF 0", "MACHINE m a>b a>a", "MOVE m a b",
                "APPEND l e p AT 0", "GUARD f 7", NULL);
    bench_apply(b, "[\"new\",1,1,1,1,2]", "SEQ q 0 0", "HOLD e 1", "RENEW e 1 9", "RELEASE e 1",
                "SENT t 1", "DELETE r IF 1", NULL);
    bench_reject(b, 1, "NO_STATE", "declare it first", "MOVE none a b", NULL);
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

static void bounds__of_a_new_stage__are_those_of_limits(void **state)
{
    struct bench *b = *state;
    struct once__stage_limits limits = b->stage->limits;

    assert_true(limits.objects == ONCE_OBJECTS_MAX);
    assert_true(limits.events == ONCE_EVENTS_MAX);
    assert_true(limits.messages == ONCE_MESSAGES_MAX);
    assert_true(limits.buckets == ONCE_BUCKETS_MAX);
    assert_true(limits.mergeable_size == ONCE_MERGEABLE_SIZE_MAX);
}

static void objects__at_their_bound__no_new_ones(void **state)
{
    struct bench *b = *state;

    b->stage->limits.objects = 3;
    bench_apply(b, "[1,1]", "ADD a 1", "ADD b 1", NULL);
    bench_fail(b, ONCE_ERR_FULL, 2, "the store holds as many objects as one may", "ADD c 1",
               "ADD d 1", NULL);
    bench_apply(b, "[1,2]", "ADD c 1", "ADD a 1", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "as many objects", "FLAG d", NULL);
    bench_apply(b, "[3,0]", "ADD a 1", "ADD d 0", NULL);
}

static void events__at_their_bound__no_more(void **state)
{
    struct bench *b = *state;

    b->stage->limits.events = 3;
    bench_apply(b, "[1,2]", "APPEND l a p", "APPEND l b p", NULL);
    bench_fail(b, ONCE_ERR_FULL, 2, "as many events", "APPEND l c p", "APPEND l d p", NULL);
    bench_apply(b, "[3]", "APPEND l c p", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "as many events", "APPEND l d p", NULL);
    bench_apply(b, "[3]", "APPEND l c p AT 2", NULL);
}

static void messages__at_their_bound__go_on_after_sent(void **state)
{
    struct bench *b = *state;

    b->stage->limits.messages = 2;
    bench_apply(b, "[1,2]", "EMIT t a", "EMIT t b", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "take some out with SENT", "EMIT t c", NULL);
    bench_apply(b, "[1,3]", "SENT t 1", "EMIT t c", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "as many messages", "EMIT t d", NULL);
}

static void buckets__at_their_bound__count_on_in_those_there_are(void **state)
{
    struct bench *b = *state;

    b->stage->limits.buckets = 2;
    bench_apply(b, "[1]", "BUCKET b x 1", NULL);
    bench_fail(b, ONCE_ERR_FULL, 2, "as many buckets", "BUCKET b y 1", "BUCKET b z 1", NULL);
    bench_apply(b, "[1,2]", "BUCKET b y 1", "BUCKET b x 1", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "as many buckets", "BUCKET b z 1", NULL);
    assert_int_equal(bench_apply(b, "[0,2]", "BUCKET b z 0", "BUCKET b y 1", NULL), 1);
    b->stage->limits.buckets = 1;
    bench_apply(b, "[3]", "BUCKET b y 1", NULL);
}

static void mergeable__at_its_bound__takes_only_what_fits(void **state)
{
    struct bench *b = *state;
    size_t size;

    bench_apply(b, "[2]", "UNION s aaaa bbbb", NULL);
    size = once__object_state(once__objects_at(b->objects, 0)).size;
    b->stage->limits.mergeable_size = size + 5;
    bench_fail(b, ONCE_ERR_FULL, 1, "the state of a mergeable object", "UNION s cc", NULL);
    bench_apply(b, "[1]", "UNION s c aaaa", NULL);
    bench_apply(b, "[0]", "UNION s c bbbb aaaa", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "the state of a mergeable object", "UNION s ''", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "what comes to it at one go",
               "UNION other aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL);
}

/* The real bound, reached in steps, each large enough to be staged without a copy of the state. */
static void mergeable__of_a_mebibyte__is_the_largest(void **state)
{
    struct bench *b = *state;
    struct once_bytes words[3] = {once_bytes_of("UNION"), once_bytes_of("big"), {0}};
    struct once_defect defect;
    uint8_t *member = malloc(ONCE_MEMBER_SIZE_MAX);

    assert_non_null(member);
    memset(member, 'x', ONCE_MEMBER_SIZE_MAX);
    words[2] = (struct once_bytes){.data = member, .size = ONCE_MEMBER_SIZE_MAX};
    for (int i = 0; i < 16; i++) {
        memcpy(member, &i, sizeof i);
        bench_start(b);
        assert_int_equal(once__deed_read(words, 3, &b->deeds[0], &defect), ONCE_OK);
        b->deed_count = 1;
        bench_say(b, "UNION big small");
        assert_int_equal(bench_stage(b), i == 15 ? ONCE_ERR_FULL : ONCE_OK);
        if (i < 15)
            assert_string_equal(b->result, i == 0 ? "[1,1]" : "[1,0]");
        if (i < 15)
            assert_int_equal(bench_put(b), 1);
    }
    assert_true(once__object_state(once__objects_at(b->objects, 0)).size <=
                ONCE_MERGEABLE_SIZE_MAX);
    free(member);
}

static void merge__of_a_state_past_the_bound__is_refused(void **state)
{
    struct bench *b = *state;
    struct once_buf set;

    once_buf_init(&set, 1 << 10);
    assert_int_equal(once_gset_add(once_bytes_of("0123456789"), &set), ONCE_OK);
    b->stage->limits.mergeable_size = set.size - 1;
    b->deeds[0] = (struct once__deed){
        .kind = ONCE__DEED_MERGE, .name = once_bytes_of("x"), .value = once_buf_bytes(&set)};
    b->deed_count = 1;
    assert_int_equal(bench_stage(b), ONCE_ERR_FULL);
    assert_int_equal(b->effect, 1);
    b->stage->limits.mergeable_size = set.size;
    assert_int_equal(bench_stage(b), ONCE_OK);
    once_buf_release(&set);
}

static void memory__at_its_bound__lets_pass_what_does_not_grow(void **state)
{
    struct bench *b = *state;

    bench_apply(b, "[1,1,1,1,1,1,1]", "ADD a 1", "SET r value", "EMIT t p", "BUCKET b x 1",
                "GADD g n 1", "LEASE l owner 5", "UNION s a", NULL);
    b->input.memory_max = once__objects_memory(b->objects);
    bench_apply(b, "[2,2,2,2]", "ADD a 1", "SET r other", "BUCKET b x 1", "GADD g n 1", NULL);
    bench_apply(b, "[1,1,0]", "SENT t 1", "RENEW l 1 500", "UNION s a", NULL);
    b->input.memory_max = once__objects_memory(b->objects);
    bench_fail(b, ONCE_ERR_FULL, 2, "objects_size_max", "ADD a 1", "ADD new 1", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "as much memory as they may", "SET r longer-than-before", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "as much memory", "EMIT t p", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "as much memory", "BUCKET b y 1", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "as much memory", "UNION s b", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "as much memory", "GADD g other 1", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "as much memory", "APPEND log e p", NULL);
    bench_fail(b, ONCE_ERR_FULL, 1, "as much memory", "MACHINE m a>b", NULL);
    b->input.memory_max += 100;
    bench_fail(b, ONCE_ERR_FULL, 2, "as much memory", "ADD new 1", "ADD newer 1", NULL);
    bench_apply(b, "[1]", "ADD new 1", NULL);
}

/* What the stage thinks that the table will take, against what it takes. */
static void memory__estimate__is_about_what_the_table_takes(void **state)
{
    static const char *const before[] = {"ADD account:",        "SET register:", "APPEND log e",
                                         "EMIT topic message:", "BUCKET by b",   "UNION set:"};
    static const char *const behind[] = {" 1", " a-value-of-some-size", " event", " GROUP g",
                                         " 1", " some members"};
    struct bench *b = *state;
    char line[128];

    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        uint64_t memory = once__objects_memory(b->objects), taken, estimate = 0;

        for (int j = 0; j < 5000; j++) {
            (void)snprintf(line, sizeof line, "%s%d%s", before[i], j, behind[i]);
            bench_start(b);
            bench_say(b, line);
            assert_int_equal(bench_stage(b), ONCE_OK);
            estimate += b->stage->growth_size;
            bench_put(b);
        }
        taken = once__objects_memory(b->objects) - memory;
        printf("# %s: %.2f of what the table took\n", before[i], (double)estimate / (double)taken);
        assert_in_range(estimate, taken / 2, taken * 2);
    }
}

static void edits__past_their_bound__are_refused(void **state)
{
    static uint8_t payload[ONCE_PAYLOAD_SIZE_MAX];
    struct bench *b = *state;
    struct once_bytes words[3] = {
        once_bytes_of("EMIT"), once_bytes_of("t"), {.data = payload, .size = sizeof payload}};
    struct once_defect defect;

    bench_start(b);
    for (; b->deed_count < 16; b->deed_count++)
        assert_int_equal(once__deed_read(words, 3, &b->deeds[b->deed_count], &defect), ONCE_OK);
    assert_int_equal(bench_stage(b), ONCE_ERR_FULL);
    assert_int_equal(b->effect, 0);
    assert_non_null(strstr(b->what, "take fewer at a time"));
    b->deed_count = 15;
    assert_int_equal(bench_stage(b), ONCE_OK);
    assert_int_equal(bench_put(b), 15);
}

static void declaration__past_its_bound__is_refused(void **state)
{
    struct bench *b = *state;
    static char words_text[2800][40];
    static struct once_bytes words[2802];
    int err = ONCE_OK;

    for (int i = 0; i < 2800; i++) {
        (void)snprintf(words_text[i], sizeof words_text[i], "aaaaaaaaaaaaaaa>bbbbbbbbbbbbbbb");
        words[i] = once_bytes_of(words_text[i]);
    }
    bench_start(b);
    b->deeds[0] = (struct once__deed){.kind = ONCE__DEED_MACHINE,
                                      .effect = ONCE__MACHINE,
                                      .name = once_bytes_of("m"),
                                      .members = words,
                                      .member_count = 2800};
    b->deed_count = 1;
    err = bench_stage(b);
    assert_int_equal(err, ONCE_ERR_FULL);
    assert_int_equal(b->effect, 1);
    b->deeds[0].member_count = 2000;
    assert_int_equal(bench_stage(b), ONCE_OK);
    assert_int_equal(bench_put(b), 1);
}

static void effects__as_many_as_may_be__are_run(void **state)
{
    struct bench *b = *state;
    char line[64];

    bench_start(b);
    for (int i = 0; i < ONCE_EFFECTS_MAX; i++) {
        (void)snprintf(line, sizeof line,
                       i % 4 == 0   ? "EMIT t%d p"
                       : i % 4 == 1 ? "APPEND l%d e p"
                       : i % 4 == 2 ? "BUCKET b%d x 1"
                                    : "MOVE m a b",
                       i);
        bench_say(b, i == 3 ? "MACHINE m a>b" : line);
    }
    assert_int_equal(bench_stage(b), ONCE_OK);
    assert_int_equal(bench_put(b), 3 * ONCE_EFFECTS_MAX / 4 + 1);
}

int main(void)
{
#define BENCH_TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(type__of_another__is_refused_and_named),
        BENCH_TEST(type__of_a_merged_state__must_match),
        BENCH_TEST(type__of_what_was_not_made__is_not_fixed),
        BENCH_TEST(key__missing__is_refused_with_the_reason),
        BENCH_TEST(key__missing__is_no_matter_where_a_duplicate_does_nothing),
        BENCH_TEST(bounds__of_a_new_stage__are_those_of_limits),
        BENCH_TEST(objects__at_their_bound__no_new_ones),
        BENCH_TEST(events__at_their_bound__no_more),
        BENCH_TEST(messages__at_their_bound__go_on_after_sent),
        BENCH_TEST(buckets__at_their_bound__count_on_in_those_there_are),
        BENCH_TEST(mergeable__at_its_bound__takes_only_what_fits),
        BENCH_TEST(mergeable__of_a_mebibyte__is_the_largest),
        BENCH_TEST(merge__of_a_state_past_the_bound__is_refused),
        BENCH_TEST(memory__at_its_bound__lets_pass_what_does_not_grow),
        BENCH_TEST(memory__estimate__is_about_what_the_table_takes),
        BENCH_TEST(edits__past_their_bound__are_refused),
        BENCH_TEST(declaration__past_its_bound__is_refused),
        BENCH_TEST(effects__as_many_as_may_be__are_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
