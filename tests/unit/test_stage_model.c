/* SPDX-License-Identifier: Apache-2.0
 *
 * Property: an apply of many effects is what the same effects come to one by one. Random applies
 * are staged whole on one table, and effect by effect on another, each effect put before the next.
 * The results are the same, and so are the tables; where one is rejected or refused, it is the same
 * effect with the same word, and then the first table has not changed at all.
 */
#include "unit/stage_help.h"

enum { APPLIES = 3000, EFFECTS_MAX = 12, LINE_SIZE = 256 };

static const char *pick(uint64_t *seed, const char *const *from, size_t count)
{
    return from[seeded_below(seed, count)];
}
#define PICK(seed, list) pick(seed, list, sizeof list / sizeof *list)

static int small(uint64_t *seed)
{
    return (int)seeded_below(seed, 13) - 4;
}

static unsigned few(uint64_t *seed, unsigned count)
{
    return (unsigned)seeded_below(seed, count);
}

/* Objects have few names, so that they meet; most names belong to one type, x is everyone's. */
static void write_small_effect(uint64_t *seed, char line[LINE_SIZE], unsigned name)
{
    static const char *const moves[] = {"new paid", "paid sent", "sent new", "new new", "lost new"};
    static const char *const machines[] = {"new>paid paid>sent sent>new", "new>paid paid>sent",
                                           "new>paid paid>sent sent>new new>paid"};

    switch (few(seed, 15)) {
    case 0:
        (void)snprintf(line, LINE_SIZE, "ADD c%u %d MIN -3", name, small(seed));
        break;
    case 1:
        (void)snprintf(line, LINE_SIZE, "ADD c%u %d", name, small(seed));
        break;
    case 2:
        (void)snprintf(line, LINE_SIZE, "SET r%u v%d", name, small(seed));
        break;
    case 3:
        (void)snprintf(line, LINE_SIZE, "SET r%u w IF %u", name, few(seed, 6));
        break;
    case 4:
        (void)snprintf(line, LINE_SIZE, "DELETE r%u", name);
        break;
    case 5:
        (void)snprintf(line, LINE_SIZE, "MACHINE m%u %s", name, PICK(seed, machines));
        break;
    case 6:
        (void)snprintf(line, LINE_SIZE, "MOVE m%u %s", name, PICK(seed, moves));
        break;
    case 7:
        (void)snprintf(line, LINE_SIZE, "GRANT f%u", name);
        break;
    case 8:
        (void)snprintf(line, LINE_SIZE, "GUARD f%u %u", name, 1 + few(seed, 100));
        break;
    case 9:
        (void)snprintf(line, LINE_SIZE, "LEASE l%u o%u %u", name, few(seed, 2), 1 + few(seed, 50));
        break;
    case 10:
        (void)snprintf(line, LINE_SIZE, "RENEW l%u %u 20", name, 1 + few(seed, 9));
        break;
    case 11:
        (void)snprintf(line, LINE_SIZE, "RELEASE l%u %u", name, 1 + few(seed, 9));
        break;
    case 12:
        (void)snprintf(line, LINE_SIZE, "SEQ q%u %u %u", name, few(seed, 2), few(seed, 4));
        break;
    case 13:
        (void)snprintf(line, LINE_SIZE, "ADD x 1");
        break;
    default:
        (void)snprintf(line, LINE_SIZE, "BUCKET b%u k%u %u", name, few(seed, 4), few(seed, 3));
        break;
    }
}

static void write_large_effect(uint64_t *seed, char line[LINE_SIZE], unsigned name)
{
    switch (few(seed, 15)) {
    case 0:
        (void)snprintf(line, LINE_SIZE, "APPEND log%u e%u p", name, few(seed, 3));
        break;
    case 1:
        (void)snprintf(line, LINE_SIZE, "APPEND log%u e%u p AT %u", name, few(seed, 3),
                       few(seed, 3));
        break;
    case 2:
    case 3:
        (void)snprintf(line, LINE_SIZE, "EMIT out%u p%d GROUP g", name, small(seed));
        break;
    case 4:
        (void)snprintf(line, LINE_SIZE, "SENT out%u %u %u %u", name, 1 + few(seed, 5),
                       1 + few(seed, 9), 1 + few(seed, 5));
        break;
    case 5:
        (void)snprintf(line, LINE_SIZE, "MAX max%u %d", name, small(seed));
        break;
    case 6:
        (void)snprintf(line, LINE_SIZE, "MIN min%u %d", name, small(seed));
        break;
    case 7:
        (void)snprintf(line, LINE_SIZE, "UNION s%u a%u b%u c", name, few(seed, 9), few(seed, 9));
        break;
    case 8:
        (void)snprintf(line, LINE_SIZE, "CLOCK v%u n%u %u", name, few(seed, 3), few(seed, 9));
        break;
    case 9:
        (void)snprintf(line, LINE_SIZE, "LWW w%u %d n%u v", name, small(seed), few(seed, 3));
        break;
    case 10:
        (void)snprintf(line, LINE_SIZE, "GADD g%u n%u %u", name, few(seed, 3), few(seed, 3));
        break;
    case 11:
        (void)snprintf(line, LINE_SIZE, "PNADD p%u n%u %d", name, few(seed, 3), small(seed));
        break;
    case 12:
        (void)snprintf(line, LINE_SIZE, "INSERT aw%u n%u m%u m%u m%u", name, few(seed, 3),
                       few(seed, 9), few(seed, 9), few(seed, 9));
        break;
    case 13:
        (void)snprintf(line, LINE_SIZE, "REMOVE aw%u m%u m%u", name, few(seed, 9), few(seed, 9));
        break;
    default:
        (void)snprintf(line, LINE_SIZE, "FLAG x");
        break;
    }
}

/* A new table with what the other one holds. */
static void copy_table(struct bench *to, const struct bench *from)
{
    struct once_buf dump = bench_dump(from->objects);
    struct bench *fresh = bench_new();
    struct bench_tables old = {to->objects, to->recent}, old_twin = to->twin;

    fresh->staged.edits = once_buf_bytes(&dump);
    bench_put_into(fresh, (struct bench_tables){fresh->objects, fresh->recent});
    bench_put_into(fresh, fresh->twin);
    to->objects = fresh->objects;
    to->recent = fresh->recent;
    to->twin = fresh->twin;
    to->input.objects = to->objects;
    fresh->objects = old.objects;
    fresh->recent = old.recent;
    fresh->twin = old_twin;
    bench_free(fresh);
    once_buf_release(&dump);
}

/* What the whole gave for one effect must be what it gives now. */
static void check_one(struct bench *one, const struct once_result *whole)
{
    struct once_result result;
    size_t offset = 0;

    assert_int_equal(one->err, ONCE_OK);
    assert_false(one->staged.rejected);
    assert_int_equal(once_results_next(one->staged.result, &offset, &result), 1);
    assert_int_equal(result.is_number, whole->is_number);
    assert_true(result.number == whole->number);
    assert_int_equal(result.word.size, whole->word.size);
    if (result.word.size > 0)
        assert_memory_equal(result.word.data, whole->word.data, result.word.size);
}

/* The effect that ended the whole ends here too, in the same way. */
static void check_end(const struct bench *one, const struct bench *whole)
{
    struct once_rejection a, b;

    assert_int_equal(one->err, whole->err);
    assert_int_equal(one->staged.rejected, whole->staged.rejected);
    if (one->err != ONCE_OK)
        return;
    assert_true(one->staged.rejected);
    assert_int_equal(once_rejection_read(one->staged.result, &a), ONCE_OK);
    assert_int_equal(once_rejection_read(whole->staged.result, &b), ONCE_OK);
    assert_int_equal(a.effect, 1);
    assert_int_equal(a.word.size, b.word.size);
    assert_memory_equal(a.word.data, b.word.data, a.word.size);
    assert_int_equal(a.reason.size, b.reason.size);
    assert_memory_equal(a.reason.data, b.reason.data, a.reason.size);
}

/* Returns whether the whole was applied. */
static bool run_both(struct bench *whole, struct bench *one, char lines[][LINE_SIZE], size_t count)
{
    size_t offset = 0, end = count;
    struct once_rejection rejection;
    struct once_result result;

    bench_start(whole);
    for (size_t i = 0; i < count; i++)
        bench_say(whole, lines[i]);
    if (bench_stage(whole) != ONCE_OK) {
        assert_int_equal(whole->err, ONCE_ERR_OBJECT_TYPE);
        end = whole->effect - 1;
    } else if (whole->staged.rejected) {
        assert_int_equal(once_rejection_read(whole->staged.result, &rejection), ONCE_OK);
        end = rejection.effect - 1;
        assert_int_equal(whole->staged.edits.size, 0);
    }
    for (size_t i = 0; i < count && i <= end; i++) {
        bench_start(one);
        bench_say(one, lines[i]);
        (void)bench_stage(one);
        if (i == end) {
            check_end(one, whole);
            return false;
        }
        if (end == count) {
            assert_int_equal(once_results_next(whole->staged.result, &offset, &result), 1);
            check_one(one, &result);
        }
        bench_put(one);
    }
    assert_int_equal(once_results_next(whole->staged.result, &offset, &result), 0);
    return true;
}

static void apply__of_many_effects__is_what_they_are_one_by_one(void **state)
{
    uint64_t seed = seeded_start("stage model");
    static char lines[EFFECTS_MAX][LINE_SIZE];
    struct bench *whole = bench_new(), *one = bench_new();
    size_t applied = 0;

    (void)state;
    for (int i = 0; i < APPLIES; i++) {
        size_t count = 1 + seeded_below(&seed, EFFECTS_MAX);

        for (size_t j = 0; j < count; j++) {
            if (few(&seed, 2) == 0)
                write_small_effect(&seed, lines[j], few(&seed, 3));
            else
                write_large_effect(&seed, lines[j], few(&seed, 3));
        }
        whole->input.now_ms = one->input.now_ms += few(&seed, 9);
        whole->input.version = one->input.version = (uint64_t)i + 1;
        if (run_both(whole, one, lines, count)) {
            bench_put(whole);
            bench_check_equal(whole->objects, one->objects);
            applied++;
        } else if (count > 1) {
            copy_table(one, whole);
        }
        /* A table that grows for ever makes dumping slow and rejections rare. */
        if (i % 100 == 99) {
            bench_free(whole);
            bench_free(one);
            whole = bench_new();
            one = bench_new();
        }
    }
    printf("# %zu of %d applied\n", applied, APPLIES);
    assert_in_range(applied, APPLIES / 20, APPLIES);
    bench_free(whole);
    bench_free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(apply__of_many_effects__is_what_they_are_one_by_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
