/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast are two sets of 100,000 members merged, compared with touching the same bytes once?
 *
 * The yardstick is one memcpy of both inputs and one memcmp of the copies with them. Merge and
 * yardstick take turns in one process; the ratio is that of their medians. Exits 1 if the worst
 * ratio of those with a limit is above it, unless --report-only is given.
 *
 * interleaved, half-shared, identical and disjoint have random bytes of 16 to 36; prefixed, uuid
 * and uuid7 are names as they are found in practice, uuid7 all of one hour. decimal, names with
 * numbers of different widths, half of them shared, has no limit: a step of the merge costs nearly
 * the same whatever an entry's size, and 3 times the yardstick would leave it 3 ns for such small
 * ones, less than any step takes; looking for where each member ends makes it 6.
 */
#include <once/lattice.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RATIO_MAX 3.0

enum { MEMBERS = 100000, MEMBER_SIZE_MIN = 16, MEMBER_SIZE_MAX = 36, ROUNDS = 61 };

struct member {
    uint8_t bytes[MEMBER_SIZE_MAX];
    size_t size;
};

enum shape {
    INTERLEAVED,
    HALF_SHARED,
    IDENTICAL,
    DISJOINT,
    PREFIXED,
    UUID,
    UUID7,
    DECIMAL,
    SHAPES
};

static const char *const shape_names[SHAPES] = {
    [INTERLEAVED] = "interleaved",
    [HALF_SHARED] = "half-shared",
    [IDENTICAL] = "identical",
    [DISJOINT] = "disjoint",
    [PREFIXED] = "prefixed",
    [UUID] = "uuid",
    [UUID7] = "uuid7",
    [DECIMAL] = "decimal",
};

static uint64_t next_random(void)
{
    static uint64_t state = 1;
    uint64_t x = (state += 0x9e3779b97f4a7c15U);

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_lattice: %s\n", what);
    exit(2);
}

static int member_compare(const void *x, const void *y)
{
    const struct member *a = x, *b = y;
    size_t common = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->bytes, b->bytes, common);

    return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

static struct member random_member(void)
{
    struct member member = {
        .size = MEMBER_SIZE_MIN + next_random() % (MEMBER_SIZE_MAX - MEMBER_SIZE_MIN + 1),
    };

    for (size_t i = 0; i < member.size; i++)
        member.bytes[i] = (uint8_t)next_random();
    return member;
}

static struct member text_member(const char *format, ...) __attribute__((format(printf, 1, 2)));

static struct member text_member(const char *format, ...)
{
    char text[MEMBER_SIZE_MAX + 1];
    struct member member = {0};
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= sizeof text)
        die("a member is too long");
    member.size = (size_t)size;
    memcpy(member.bytes, text, member.size);
    return member;
}

/* The high bits of a UUID are given, its last 62 are random. */
static struct member uuid_member(uint64_t high)
{
    uint64_t low = 1ULL << 63 | next_random() >> 2;

    return text_member("%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
                       high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48,
                       low & 0xffffffffffff);
}

static struct member shape_member(enum shape shape)
{
    const uint64_t hour_ms = 3600000, born_ms = 1767225600000;

    if (shape == PREFIXED)
        return text_member("customer:%012" PRIu64, next_random() % 1000000000000);
    if (shape == UUID)
        return uuid_member((next_random() & ~0xf000ULL) | 0x4000);
    if (shape == UUID7)
        return uuid_member((born_ms + next_random() % hour_ms) << 16 | 0x7000 |
                           (next_random() & 0xfff));
    return random_member();
}

/* Sorted members as a state. It passes the check, so the layout is the library's. */
static void encode(struct member *members, struct once_buf *out)
{
    uint8_t count[4] = {MEMBERS & 0xff, MEMBERS >> 8 & 0xff, MEMBERS >> 16, 0};

    qsort(members, MEMBERS, sizeof *members, member_compare);
    once_buf_init(out, ONCE_LATTICE_SIZE_MAX);
    if (once_lattice_bottom(ONCE_LATTICE_GSET, out) != ONCE_OK)
        die("no bottom");
    memcpy(out->data + 2, count, sizeof count);
    for (size_t i = 0; i < MEMBERS; i++) {
        uint8_t size[4] = {(uint8_t)members[i].size};

        if (once_buf_append(out, size, sizeof size) != ONCE_OK ||
            once_buf_append(out, members[i].bytes, members[i].size) != ONCE_OK)
            die("out of memory");
    }
    if (once_lattice_check(once_buf_bytes(out), NULL, NULL) != ONCE_OK)
        die("the members are not a set");
}

/* MEMBERS of the numbers below twice as many, each at most once. */
static void pick_decimals(struct member *members)
{
    size_t wanted = MEMBERS;

    for (size_t i = 0; wanted > 0; i++) {
        if (next_random() % (2 * MEMBERS - i) < wanted)
            members[--wanted] = text_member("member-%zu", i);
    }
}

static void make_sets(enum shape shape, struct once_buf *a, struct once_buf *b)
{
    struct member *left = calloc(MEMBERS, sizeof *left), *right = calloc(MEMBERS, sizeof *right);

    if (!left || !right)
        die("out of memory");
    for (size_t i = 0; i < MEMBERS; i++) {
        left[i] = shape_member(shape);
        right[i] = shape_member(shape);
        if (shape == IDENTICAL || (shape == HALF_SHARED && i % 2 == 0))
            right[i] = left[i];
        if (shape == DISJOINT) {
            left[i].bytes[0] &= 0x7f;
            right[i].bytes[0] |= 0x80;
        }
    }
    if (shape == DECIMAL) {
        pick_decimals(left);
        pick_decimals(right);
    }
    encode(left, a);
    encode(right, b);
    free(left);
    free(right);
}

static bool has_limit(enum shape shape)
{
    return shape != DECIMAL;
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static double yardstick_us(const struct once_buf *a, const struct once_buf *b, uint8_t *copy)
{
    double start = now_us();
    volatile int differ;

    memcpy(copy, a->data, a->size);
    memcpy(copy + a->size, b->data, b->size);
    differ = memcmp(copy, a->data, a->size) | memcmp(copy + a->size, b->data, b->size);
    if (differ != 0)
        die("memory is broken");
    return now_us() - start;
}

static double merge_us(const struct once_buf *a, const struct once_buf *b, struct once_buf *out)
{
    double start;

    once_buf_clear(out);
    start = now_us();
    if (once_lattice_merge(once_buf_bytes(a), once_buf_bytes(b), out) != ONCE_OK)
        die("the merge failed");
    return now_us() - start;
}

static int double_compare(const void *x, const void *y)
{
    const double *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, double_compare);
    return values[ROUNDS / 2];
}

static double measure(enum shape shape)
{
    double merges[ROUNDS], yardsticks[ROUNDS], merge, yardstick;
    struct once_buf a, b, out;
    uint8_t *copy;
    size_t count = 0;

    make_sets(shape, &a, &b);
    once_buf_init(&out, ONCE_LATTICE_SIZE_MAX);
    copy = malloc(a.size + b.size);
    if (!copy)
        die("out of memory");
    for (int i = 0; i < 3; i++) { /* pages and caches */
        yardstick_us(&a, &b, copy);
        merge_us(&a, &b, &out);
    }
    for (int i = 0; i < ROUNDS; i++) {
        yardsticks[i] = yardstick_us(&a, &b, copy);
        merges[i] = merge_us(&a, &b, &out);
    }
    merge = median(merges);
    yardstick = median(yardsticks);
    if (once_lattice_check(once_buf_bytes(&out), NULL, NULL) != ONCE_OK ||
        once_lattice_count(once_buf_bytes(&out), &count) != ONCE_OK)
        die("the merged set is damaged");
    printf("lattice.gset_merge_%s ratio=%.2f merge_us=%.0f yardstick_us=%.0f bytes_in=%zu "
           "members_out=%zu",
           shape_names[shape], merge / yardstick, merge, yardstick, a.size + b.size, count);
    if (has_limit(shape))
        printf(" limit=%.1f", RATIO_MAX);
    printf("\n");
    free(copy);
    once_buf_release(&a);
    once_buf_release(&b);
    once_buf_release(&out);
    return merge / yardstick;
}

int main(int argc, char **argv)
{
    bool report_only = argc == 2 && strcmp(argv[1], "--report-only") == 0;
    double worst = 0;

    if (argc > 2 || (argc == 2 && !report_only)) {
        fprintf(stderr, "usage: bench_lattice [--report-only]\n");
        return 64;
    }
    for (enum shape shape = 0; shape < SHAPES; shape++) {
        double ratio = measure(shape);

        if (has_limit(shape) && ratio > worst)
            worst = ratio;
    }
    return worst <= RATIO_MAX || report_only ? 0 : 1;
}
