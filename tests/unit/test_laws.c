/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/seeded.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "laws/laws.h"
#include "laws/sandbox.h"
#include "laws/text.h"

static const struct once__effort effort = {.seed = 1, .random_count = 500};

/* --- The search --- */

struct asked {
    uint64_t count;
    uint64_t sum_last;
    bool ordered;
    uint64_t digest;
};

static int never_fails(void *context, const uint64_t *index)
{
    struct asked *asked = context;
    uint64_t sum = index[0] + index[1] + index[2];

    asked->ordered = asked->ordered && sum >= asked->sum_last;
    asked->sum_last = sum;
    asked->count++;
    for (size_t i = 0; i < 3; i++)
        asked->digest = once__scatter(asked->digest ^ index[i]);
    return 1;
}

static void search__small_numbers__asks_about_all_with_the_smallest_sum_first(void **state)
{
    const struct once__domain domain = {.dimensions = 3, .small = {4, 5, 6}, .large = {4, 5, 6}};
    struct asked asked = {.ordered = true};
    struct once__found found;

    (void)state;
    assert_int_equal(
        once__search(&domain, never_fails, &asked, (struct once__effort){1, 0}, &found), ONCE_OK);
    assert_true(found.holds);
    assert_int_equal(found.checks, 4 * 5 * 6);
    assert_int_equal(asked.count, 4 * 5 * 6);
    assert_true(asked.ordered);
}

static void search__same_seed__asks_the_same_questions(void **state)
{
    const struct once__domain domain = {
        .dimensions = 3, .small = {1, 1, 1}, .large = {1000, 1000, 1000}};
    struct asked asked[3] = {{0}};
    struct once__found found;

    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(once__search(&domain, never_fails, &asked[i],
                                      (struct once__effort){i == 2 ? 8 : 7, 100}, &found),
                         ONCE_OK);
    assert_true(asked[0].digest == asked[1].digest);
    assert_true(asked[0].digest != asked[2].digest);
}

/* Fails for a >= 1000 and b >= 7: nothing small shows it. */
static int fails_far_away(void *context, const uint64_t *index)
{
    (void)context;
    return index[0] >= 1000 && index[1] >= 7 ? 0 : 1;
}

static void search__failure_among_large_numbers__is_shrunk_to_the_smallest(void **state)
{
    const struct once__domain domain = {
        .dimensions = 2, .small = {5, 5}, .large = {1 << 20, 1 << 20}};

    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct once__found found;

        assert_int_equal(
            once__search(&domain, fails_far_away, NULL, (struct once__effort){seed, 500}, &found),
            ONCE_OK);
        assert_false(found.holds);
        assert_int_equal(found.index[0], 1000);
        assert_int_equal(found.index[1], 7);
    }
}

/* Steps down from a large number land on 1000 and stop there; the smallest failures are apart. */
static int fails_far_away_and_at_few_small_numbers(void *context, const uint64_t *index)
{
    (void)context;
    return (index[0] == 5 || index[0] == 11 || index[0] >= 1000) &&
                   (index[1] == 15 || index[1] >= 1000)
               ? 0
               : 1;
}

static void search__failure_at_a_small_number_too__is_shrunk_to_that(void **state)
{
    const struct once__domain domain = {
        .dimensions = 2, .small = {2, 2}, .large = {100000, 100000}};

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct once__found found;

        assert_int_equal(once__search(&domain, fails_far_away_and_at_few_small_numbers, NULL,
                                      (struct once__effort){seed, 500}, &found),
                         ONCE_OK);
        assert_false(found.holds);
        assert_int_equal(found.index[0], 5);
        assert_int_equal(found.index[1], 15);
    }
}

static int stops(void *context, const uint64_t *index)
{
    (void)context;
    return index[0] < 3 ? 1 : ONCE_ERR_MEMORY;
}

static void search__question_with_an_error__ends_with_it(void **state)
{
    const struct once__domain domain = {.dimensions = 1, .small = {9}, .large = {9}};
    struct once__found found;

    (void)state;
    assert_int_equal(once__search(&domain, stops, NULL, effort, &found), ONCE_ERR_MEMORY);
}

/* --- The rows --- */

static void rows__every_declared_law__is_what_the_check_computes(void **state)
{
    uint64_t random = seeded_start("rows");
    static struct once__law_report report;

    (void)state;
    for (size_t row = 0; row < once__law_row_count(); row++) {
        struct once__effort seeded = {seeded_next(&random), 500};

        assert_int_equal(once__law_check(row, seeded, &report), ONCE_OK);
        for (int law = 0; law < ONCE__LAW_COUNT; law++) {
            bool holds = report.findings[law].holds;

            if (holds != once__law_declared(&report.declared, (enum once__law)law))
                fail_msg("%s: %s: %s", report.variant, once__law_name((enum once__law)law),
                         report.findings[law].example);
            assert_int_equal(report.findings[law].example[0] == '\0', holds);
            assert_true(report.findings[law].checks > 0);
        }
        assert_int_equal(once__law_disagreement(&report), ONCE__LAW_COUNT);
    }
}

static void rows__a_wrong_declaration__is_found_out(void **state)
{
    static struct once__law_report report;
    bool *const declared[] = {&report.declared.idempotent, &report.declared.commutative,
                              &report.declared.associative, &report.declared.needs_key};

    (void)state;
    for (size_t row = 0; row < once__law_row_count(); row++) {
        assert_int_equal(once__law_check(row, (struct once__effort){1, 10}, &report), ONCE_OK);
        for (int law = 0; law < ONCE__LAW_COUNT; law++) {
            *declared[law] = !*declared[law];
            assert_int_equal(once__law_disagreement(&report), law);
            *declared[law] = !*declared[law];
        }
    }
}

static void expect_example(enum once__effect_id id, enum once__law law, const char *example)
{
    static struct once__law_report report;

    assert_int_equal(once__law_check(id, effort, &report), ONCE_OK);
    assert_string_equal(report.findings[law].example, example);
}

static void rows__where_a_law_fails__the_counterexample_is_minimal(void **state)
{
    (void)state;
    expect_example(ONCE__ADD, ONCE__LAW_IDEMPOTENT, "ADD 1 twice: 1, then 2");
    expect_example(ONCE__ADD_BOUNDED, ONCE__LAW_COMMUTATIVE,
                   "ADD 1 MIN 0, ADD -1 MIN 0: 0; ADD -1 MIN 0, ADD 1 MIN 0: 1");
    expect_example(ONCE__ADD_BOUNDED, ONCE__LAW_ASSOCIATIVE,
                   "(ADD -1 MIN 0, ADD 1 MIN 0), ADD 1 MIN 0: 1; "
                   "ADD -1 MIN 0, (ADD 1 MIN 0, ADD 1 MIN 0): 2");
    expect_example(ONCE__SET, ONCE__LAW_COMMUTATIVE,
                   "SET a, SET b: b (version 2); SET b, SET a: a (version 2)");
    expect_example(ONCE__GADD, ONCE__LAW_IDEMPOTENT,
                   "GADD A 1 twice: gcounter{A:1}, then gcounter{A:2}");
    expect_example(ONCE__PNADD, ONCE__LAW_IDEMPOTENT,
                   "PNADD A 1 twice: pncounter{A:+1-0}, then pncounter{A:+2-0}");
    expect_example(ONCE__INSERT, ONCE__LAW_IDEMPOTENT,
                   "INSERT A a twice: awset{a A:1 | A:1}, then awset{a A:2 | A:2}");
    expect_example(ONCE__LEASE, ONCE__LAW_COMMUTATIVE,
                   "LEASE a at 0 until 1, LEASE b at 0 until 1: a's until 1 (token 1); "
                   "LEASE b at 0 until 1, LEASE a at 0 until 1: b's until 1 (token 1)");
    expect_example(ONCE__SENT, ONCE__LAW_ASSOCIATIVE,
                   "from [a]: (SENT 1, SENT 2), SENT 2: [a]; SENT 1, (SENT 2, SENT 2): [-]");
}

/* Idempotent is not enough: these are, and a late duplicate still does harm. */
static void rows__idempotent_but_late_duplicates_hurt__need_a_key(void **state)
{
    (void)state;
    assert_true(once__effects[ONCE__DELETE].laws.idempotent);
    expect_example(ONCE__DELETE, ONCE__LAW_LATE,
                   "DELETE, SET a, DELETE again: deleted (version 2); "
                   "without the repeat: a (version 1)");
    assert_true(once__effects[ONCE__MOVE].laws.idempotent);
    expect_example(ONCE__MOVE, ONCE__LAW_LATE,
                   "from a with a>b b>a: MOVE a b, MOVE b a, MOVE a b again: b; "
                   "without the repeat: a");
    assert_true(once__effects[ONCE__REMOVE].laws.idempotent);
    expect_example(ONCE__REMOVE, ONCE__LAW_LATE,
                   "REMOVE a, INSERT A a, REMOVE a again: awset{ | A:1}; "
                   "without the repeat: awset{a A:1 | A:1}");
    assert_true(once__effects[ONCE__LEASE].laws.idempotent);
    expect_example(ONCE__LEASE, ONCE__LAW_LATE,
                   "LEASE a at 0 until 1, RELEASE 1, LEASE a at 0 until 1 again: "
                   "a's until 1 (token 2); without the repeat: released (token 1)");
}

/* --- Wrong merges. States are one byte, the index itself; described as a number --- */

static int byte_generate(void *context, uint64_t index, struct once_buf *out)
{
    uint8_t byte = (uint8_t)index;

    (void)context;
    return once_buf_append(out, &byte, 1);
}

static int byte_describe(void *context, struct once_bytes state, struct once_buf *out)
{
    char text[16];
    int size = snprintf(text, sizeof(text), "%u", state.data[0]);

    (void)context;
    return once_buf_append(out, text, (size_t)size);
}

typedef uint8_t byte_fn(uint8_t a, uint8_t b);

static int byte_merge(void *context, struct once_bytes a, struct once_bytes b, struct once_buf *out)
{
    byte_fn *const *merge = context;
    uint8_t byte = (*merge)(a.data[0], b.data[0]);

    return once_buf_append(out, &byte, 1);
}

static uint8_t larger(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}

static uint8_t sum(uint8_t a, uint8_t b)
{
    return (uint8_t)(a + b);
}

static uint8_t first(uint8_t a, uint8_t b)
{
    (void)b;
    return a;
}

static uint8_t average(uint8_t a, uint8_t b)
{
    return (uint8_t)((a + b) / 2);
}

/* A maximum that forgets one pair: wrong at one place only, far from the small numbers. */
static uint8_t nearly(uint8_t a, uint8_t b)
{
    return a == 200 && b >= 100 && b < 200 ? b : larger(a, b);
}

/* Lawful on even numbers, which are all that are generated; two of them make an odd one. */
static uint8_t breaks_merged(uint8_t a, uint8_t b)
{
    if ((a | b) & 1)
        return (uint8_t)(larger(a, b) + 2);
    return a == b ? a : (uint8_t)(larger(a, b) + 1);
}

static int even_generate(void *context, uint64_t index, struct once_buf *out)
{
    return byte_generate(context, index * 2, out);
}

static void check_bytes(byte_fn *merge, struct once__law_finding *findings)
{
    struct once__mergeable mergeable = {
        .context = &merge,
        .small = 8,
        .large = 256,
        .generate = merge == breaks_merged ? even_generate : byte_generate,
        .merge = byte_merge,
        .describe = byte_describe,
        .state_size_max = 16,
    };

    if (merge == breaks_merged)
        mergeable.large = 8;
    assert_int_equal(once__law_check_merge(&mergeable, (struct once__effort){1, 20000},
                                           ONCE__LAW_COUNT, findings),
                     ONCE_OK);
}

static void merge__lawful__has_no_counterexample(void **state)
{
    static struct once__law_finding findings[ONCE__LAW_COUNT];

    (void)state;
    check_bytes(larger, findings);
    for (int law = 0; law < ONCE__LAW_COUNT; law++) {
        assert_true(findings[law].holds);
        assert_string_equal(findings[law].example, "");
    }
    /* All pairs of merged states and all triples, and the random ones. */
    assert_int_equal(findings[ONCE__LAW_IDEMPOTENT].checks, 8 + 20000 + 64 + 20000);
    assert_int_equal(findings[ONCE__LAW_ASSOCIATIVE].checks, 512 + 20000);
}

static void merge__not_idempotent__is_shown_with_the_smallest_state(void **state)
{
    static struct once__law_finding findings[ONCE__LAW_COUNT];

    (void)state;
    check_bytes(sum, findings);
    assert_string_equal(findings[ONCE__LAW_IDEMPOTENT].example, "a=1  merge(a,a)=2");
    assert_true(findings[ONCE__LAW_COMMUTATIVE].holds);
    assert_true(findings[ONCE__LAW_ASSOCIATIVE].holds);
    assert_string_equal(findings[ONCE__LAW_LATE].example,
                        "a=0 b=1 c=0  merge(merge(a,b),c)=1  merge(merge(merge(a,b),c),b)=2");
}

static void merge__not_commutative__is_shown_with_the_smallest_pair(void **state)
{
    static struct once__law_finding findings[ONCE__LAW_COUNT];

    (void)state;
    check_bytes(first, findings);
    assert_true(findings[ONCE__LAW_IDEMPOTENT].holds);
    assert_string_equal(findings[ONCE__LAW_COMMUTATIVE].example,
                        "a=0 b=1  merge(a,b)=0  merge(b,a)=1");
    assert_true(findings[ONCE__LAW_ASSOCIATIVE].holds);
}

static void merge__not_associative__is_shown_with_the_smallest_triple(void **state)
{
    static struct once__law_finding findings[ONCE__LAW_COUNT];

    (void)state;
    check_bytes(average, findings);
    assert_true(findings[ONCE__LAW_IDEMPOTENT].holds);
    assert_true(findings[ONCE__LAW_COMMUTATIVE].holds);
    assert_string_equal(findings[ONCE__LAW_ASSOCIATIVE].example,
                        "a=0 b=0 c=2  merge(merge(a,b),c)=1  merge(a,merge(b,c))=0");
}

static void merge__wrong_far_from_the_small_states__is_found_and_shrunk(void **state)
{
    static struct once__law_finding findings[ONCE__LAW_COUNT];

    (void)state;
    check_bytes(nearly, findings);
    assert_string_equal(findings[ONCE__LAW_COMMUTATIVE].example,
                        "a=100 b=200  merge(a,b)=200  merge(b,a)=100");
}

static void merge__wrong_only_on_merged_states__is_found(void **state)
{
    static struct once__law_finding findings[ONCE__LAW_COUNT];

    (void)state;
    check_bytes(breaks_merged, findings);
    assert_string_equal(findings[ONCE__LAW_IDEMPOTENT].example,
                        "a=0 b=2  m=merge(a,b)=3  merge(m,m)=5");
}

/* --- Text --- */

static void text__too_long__is_cut_and_marked(void **state)
{
    char room[8];
    struct once__text text = once__text_in(room, sizeof(room));

    (void)state;
    once__text_add(&text, "%s", "1234567");
    assert_string_equal(room, "1234567");
    once__text_add(&text, "8");
    assert_string_equal(room, "1234...");
    once__text_add(&text, "9");
    assert_string_equal(room, "1234...");
}

static void text__bytes_from_elsewhere__cannot_control_the_terminal(void **state)
{
    const uint8_t bytes[] = {'a', 0x1b, '[', '\n', 0xff};
    char room[64];
    struct once__text text = once__text_in(room, sizeof(room));

    (void)state;
    once__text_add_bytes(&text, (struct once_bytes){bytes, sizeof(bytes)});
    assert_string_equal(room, "a\\x1b[\\x0a\\xff");
}

/* --- The sandbox --- */

static void returns(void *argument)
{
    *(int *)argument = 42;
}

static void leaves(void *argument)
{
    (void)argument;
    exit(3);
}

static void crashes(void *argument)
{
    (void)argument;
    raise(SIGSEGV);
}

static void hangs(void *argument)
{
    (void)argument;
    for (;;)
        pause();
}

static void sandbox__function_returns__what_it_shared_is_there(void **state)
{
    int *shared = once__sandbox_share(sizeof(*shared));
    struct once__sandbox_result result;

    (void)state;
    assert_non_null(shared);
    assert_int_equal(once__sandbox_run(returns, shared, 60000, &result), ONCE_OK);
    assert_int_equal(result.end, ONCE__SANDBOX_EXITED);
    assert_int_equal(result.number, 0);
    assert_int_equal(*shared, 42);
    once__sandbox_unshare(shared, sizeof(*shared));
}

static void sandbox__function_misbehaves__the_caller_lives_and_knows_how(void **state)
{
    struct once__sandbox_result result;

    (void)state;
    assert_int_equal(once__sandbox_run(leaves, NULL, 60000, &result), ONCE_OK);
    assert_true(result.end == ONCE__SANDBOX_EXITED && result.number == 3);
    assert_int_equal(once__sandbox_run(crashes, NULL, 60000, &result), ONCE_OK);
    assert_true(result.end == ONCE__SANDBOX_KILLED && result.number == SIGSEGV);
    assert_int_equal(once__sandbox_run(hangs, NULL, 50, &result), ONCE_OK);
    assert_int_equal(result.end, ONCE__SANDBOX_TIMED_OUT);
}

/* Two processes that hang: one in the group, one in a session of its own. Their numbers are
 * shared. */
static void leaves_others_behind(void *argument)
{
    pid_t *others = argument;

    for (int i = 0; i < 2; i++) {
        pid_t other = fork();

        if (other == 0) {
            if (i == 1)
                setsid();
            for (;;)
                pause();
        }
        others[i] = other;
    }
}

static void sandbox__processes_left_behind__are_ended_with_it(void **state)
{
    pid_t *others = once__sandbox_share(2 * sizeof(*others));
    struct once__sandbox_result result;

    (void)state;
    assert_non_null(others);
    assert_int_equal(once__sandbox_run(leaves_others_behind, others, 60000, &result), ONCE_OK);
    assert_true(result.end == ONCE__SANDBOX_EXITED && result.number == 0);
    for (int i = 0; i < 2; i++) {
        assert_true(others[i] > 0);
        assert_int_equal(kill(others[i], 0), -1);
        assert_int_equal(errno, ESRCH);
    }
    once__sandbox_unshare(others, 2 * sizeof(*others));
}

/* A child that the caller had before is not the sandbox's to end or to reap. */
static void sandbox__caller_has_a_child__leaves_it_alone(void **state)
{
    struct once__sandbox_result result;
    pid_t own = fork();
    int status;

    (void)state;
    if (own == 0) {
        for (;;)
            pause();
    }
    assert_true(own > 0);
    assert_int_equal(once__sandbox_run(leaves, NULL, 60000, &result), ONCE_OK);
    assert_true(result.end == ONCE__SANDBOX_EXITED && result.number == 3);
    assert_int_equal(waitpid(own, &status, WNOHANG), 0);
    assert_int_equal(kill(own, SIGKILL), 0);
    assert_int_equal(waitpid(own, &status, 0), own);
}

static void sandbox__sigchld_ignored_by_the_caller__still_sees_the_end(void **state)
{
    struct once__sandbox_result result;

    (void)state;
    signal(SIGCHLD, SIG_IGN);
    assert_int_equal(once__sandbox_run(leaves, NULL, 60000, &result), ONCE_OK);
    assert_true(result.end == ONCE__SANDBOX_EXITED && result.number == 3);
    assert_true(signal(SIGCHLD, SIG_DFL) == SIG_IGN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search__small_numbers__asks_about_all_with_the_smallest_sum_first),
        cmocka_unit_test(search__same_seed__asks_the_same_questions),
        cmocka_unit_test(search__failure_among_large_numbers__is_shrunk_to_the_smallest),
        cmocka_unit_test(search__failure_at_a_small_number_too__is_shrunk_to_that),
        cmocka_unit_test(search__question_with_an_error__ends_with_it),
        cmocka_unit_test(rows__every_declared_law__is_what_the_check_computes),
        cmocka_unit_test(rows__a_wrong_declaration__is_found_out),
        cmocka_unit_test(rows__where_a_law_fails__the_counterexample_is_minimal),
        cmocka_unit_test(rows__idempotent_but_late_duplicates_hurt__need_a_key),
        cmocka_unit_test(merge__lawful__has_no_counterexample),
        cmocka_unit_test(merge__not_idempotent__is_shown_with_the_smallest_state),
        cmocka_unit_test(merge__not_commutative__is_shown_with_the_smallest_pair),
        cmocka_unit_test(merge__not_associative__is_shown_with_the_smallest_triple),
        cmocka_unit_test(merge__wrong_far_from_the_small_states__is_found_and_shrunk),
        cmocka_unit_test(merge__wrong_only_on_merged_states__is_found),
        cmocka_unit_test(text__too_long__is_cut_and_marked),
        cmocka_unit_test(text__bytes_from_elsewhere__cannot_control_the_terminal),
        cmocka_unit_test(sandbox__function_returns__what_it_shared_is_there),
        cmocka_unit_test(sandbox__function_misbehaves__the_caller_lives_and_knows_how),
        cmocka_unit_test(sandbox__processes_left_behind__are_ended_with_it),
        cmocka_unit_test(sandbox__caller_has_a_child__leaves_it_alone),
        cmocka_unit_test(sandbox__sigchld_ignored_by_the_caller__still_sees_the_end),
    };

    return cmocka_run_group_tests_name("laws", tests, NULL, NULL);
}
