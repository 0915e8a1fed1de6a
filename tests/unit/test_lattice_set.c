/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorted entries: GSET, VV, GCOUNTER, PNCOUNTER. The large random sets are compared with a model
 * that sorts and removes doubles, in all the shapes that the fast merge treats differently.
 */
#include "lattice_help.h"

static struct once_bytes gset(const char *member)
{
    return MAKE(once_gset_add(b(member), &out));
}

static struct once_bytes vv(const char *node, uint64_t number)
{
    return MAKE(once_vv_set(b(node), number, &out));
}

static void gset__added__contains(void **state)
{
    struct once_bytes set = merge(merge(gset("b"), gset("")), merge(gset("a"), gset("b")));
    bool contains = false;
    size_t count = 0;

    (void)state;
    assert_text(set, "gset{\"\",a,b}");
    assert_ok(once_lattice_count(set, &count));
    assert_int_equal(count, 3);
    assert_ok(once_gset_contains(set, b(""), &contains));
    assert_true(contains);
    assert_ok(once_gset_contains(set, b("b"), &contains));
    assert_true(contains);
    assert_ok(once_gset_contains(set, b("ab"), &contains));
    assert_false(contains);
    assert_ok(once_gset_contains(set, b("c"), &contains));
    assert_false(contains);
}

static void gset__order__is_inclusion(void **state)
{
    struct once_bytes ab = merge(gset("a"), gset("b")), bc = merge(gset("b"), gset("c"));

    (void)state;
    assert_int_equal(order(gset("a"), ab), ONCE_ORDER_BEFORE);
    assert_int_equal(order(ab, gset("b")), ONCE_ORDER_AFTER);
    assert_int_equal(order(ab, ab), ONCE_ORDER_EQUAL);
    assert_int_equal(order(ab, bc), ONCE_ORDER_CONCURRENT);
    assert_int_equal(order(bottom(ONCE_LATTICE_GSET), ab), ONCE_ORDER_BEFORE);
}

static void gset__keys__sort_by_unsigned_bytes_prefix_first(void **state)
{
    struct once_bytes set = bottom(ONCE_LATTICE_GSET);
    const char *members[] = {"\x80", "\x7f", "ab", "a", "abcdefgh", "abcdefg", "abcdefghi", "abd"};

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        set = merge(set, gset(members[i]));
    assert_text(set, "gset{a,ab,abcdefg,abcdefgh,abcdefghi,abd,\\x7f,\\x80}");
}

static void gset__check__refuses_what_is_not_canonical(void **state)
{
    (void)state;
    assert_ok(once_lattice_check(hex("04 01 02000000 01000000 61 01000000 62"), NULL, NULL));
    /* unsorted, double, cut, count too large, bounds */
    assert_refused(hex("04 01 02000000 01000000 62 01000000 61"), ONCE_ERR_DAMAGED, 15);
    assert_refused(hex("04 01 02000000 01000000 61 01000000 61"), ONCE_ERR_DAMAGED, 15);
    assert_refused(hex("04 01 02000000 00000000 00000000"), ONCE_ERR_DAMAGED, 14);
    assert_refused(hex("04 01 03000000 01000000 61 01000000 62"), ONCE_ERR_DAMAGED, 16);
    assert_refused(hex("04 01 01000000 01000000 61 01000000 62"), ONCE_ERR_DAMAGED, 11);
    assert_refused(hex("04 01 01000001"), ONCE_ERR_FULL, 2);
    assert_refused(hex("04 01 01000000 01000100 61"), ONCE_ERR_FULL, 6);
}

static void vv__increment__counts_events_of_each_node(void **state)
{
    struct once_bytes clock = bottom(ONCE_LATTICE_VV);
    uint64_t number = 9;

    (void)state;
    for (int i = 0; i < 3; i++)
        clock = merge(clock, MAKE(once_vv_increment(clock, b("n1"), &out)));
    clock = merge(clock, MAKE(once_vv_increment(clock, b("n2"), &out)));
    assert_text(clock, "vv{n1:3,n2:1}");
    assert_ok(once_vv_value(clock, b("n1"), &number));
    assert_int_equal(number, 3);
    assert_ok(once_vv_value(clock, b("n3"), &number));
    assert_int_equal(number, 0);
}

static void vv__order__tells_before_from_concurrent(void **state)
{
    struct once_bytes a1 = vv("a", 1), a2 = vv("a", 2), b1 = vv("b", 1);

    (void)state;
    assert_int_equal(order(a1, a2), ONCE_ORDER_BEFORE);
    assert_int_equal(order(a2, a1), ONCE_ORDER_AFTER);
    assert_int_equal(order(a1, b1), ONCE_ORDER_CONCURRENT);
    assert_int_equal(order(merge(a1, b1), a2), ONCE_ORDER_CONCURRENT);
    assert_int_equal(order(merge(a2, b1), a2), ONCE_ORDER_AFTER);
    assert_int_equal(order(merge(a2, b1), merge(b1, a2)), ONCE_ORDER_EQUAL);
}

static void vv__set_to_zero__is_the_bottom_but_a_bad_node_is_refused(void **state)
{
    struct once_bytes zero = vv("a", 0);
    struct once_buf out = fresh();

    (void)state;
    assert_state(zero, bottom(ONCE_LATTICE_VV));
    assert_int_equal(once_vv_set(b(""), 0, &out), ONCE_ERR_INVALID);
    assert_int_equal(once_vv_set(b(""), 1, &out), ONCE_ERR_INVALID);
    assert_int_equal(out.size, 0);
    once_buf_release(&out);
}

static void vv__increment_past_64_bits__is_an_overflow(void **state)
{
    struct once_bytes full = vv("a", UINT64_MAX);
    struct once_buf out = fresh();

    (void)state;
    assert_int_equal(once_vv_increment(full, b("a"), &out), ONCE_ERR_OVERFLOW);
    assert_int_equal(out.size, 0);
    assert_ok(once_vv_increment(full, b("b"), &out));
    once_buf_release(&out);
}

static void vv__check__refuses_zeros_and_nameless_nodes(void **state)
{
    (void)state;
    assert_refused(hex("05 01 01000000 01000000 61 0000000000000000"), ONCE_ERR_DAMAGED, 11);
    assert_refused(hex("05 01 01000000 00000000 0100000000000000"), ONCE_ERR_DAMAGED, 6);
    assert_refused(hex("05 01 01000000 41000000"), ONCE_ERR_FULL, 6);
    assert_refused(hex("08 01 01000000 01000000 61 0000000000000000 0000000000000000"),
                   ONCE_ERR_DAMAGED, 11);
    assert_ok(once_lattice_check(hex("08 01 01000000 01000000 61 0000000000000000 "
                                     "0100000000000000"),
                                 NULL, NULL));
}

static void gcounter__adds_of_two_nodes__sum_once_each(void **state)
{
    struct once_bytes zero = bottom(ONCE_LATTICE_GCOUNTER);
    struct once_bytes a = MAKE(once_gcounter_add(zero, b("a"), 5, &out));
    struct once_bytes b2 = MAKE(once_gcounter_add(zero, b("b"), 7, &out));
    struct once_bytes sum = merge(merge(a, b2), merge(b2, a));
    uint64_t value = 0;

    (void)state;
    assert_ok(once_gcounter_value(sum, &value));
    assert_int_equal(value, 12);
    sum = merge(sum, MAKE(once_gcounter_add(sum, b("a"), 1, &out)));
    assert_text(sum, "gcounter{a:6,b:7}");
    assert_state(MAKE(once_gcounter_add(sum, b("a"), 0, &out)), zero);
}

static void gcounter__past_64_bits__add_and_value_say_so(void **state)
{
    struct once_bytes zero = bottom(ONCE_LATTICE_GCOUNTER);
    struct once_bytes full = MAKE(once_gcounter_add(zero, b("a"), UINT64_MAX, &out));
    struct once_bytes over = merge(full, MAKE(once_gcounter_add(zero, b("b"), 1, &out)));
    struct once_buf out = fresh();
    uint64_t value = 3;

    (void)state;
    assert_int_equal(once_gcounter_add(full, b("a"), 1, &out), ONCE_ERR_OVERFLOW);
    assert_ok(once_gcounter_value(full, &value));
    assert_true(value == UINT64_MAX);
    value = 3;
    assert_int_equal(once_gcounter_value(over, &value), ONCE_ERR_OVERFLOW);
    assert_int_equal(value, 3);
    assert_text(over, "gcounter{a:18446744073709551615,b:1}");
    once_buf_release(&out);
}

static void pncounter__up_and_down__is_the_difference(void **state)
{
    struct once_bytes counter = bottom(ONCE_LATTICE_PNCOUNTER);
    int64_t value = 1;

    (void)state;
    counter = merge(counter, MAKE(once_pncounter_add(counter, b("a"), 5, &out)));
    counter = merge(counter, MAKE(once_pncounter_add(counter, b("a"), -7, &out)));
    counter = merge(counter, MAKE(once_pncounter_add(counter, b("b"), -1, &out)));
    assert_ok(once_pncounter_value(counter, &value));
    assert_int_equal(value, -3);
    assert_text(counter, "pncounter{a:+5-7,b:+0-1}");
    assert_state(MAKE(once_pncounter_add(counter, b("a"), 0, &out)),
                 bottom(ONCE_LATTICE_PNCOUNTER));
}

static void pncounter__at_the_ends_of_64_bits__is_exact_or_an_overflow(void **state)
{
    struct once_bytes zero = bottom(ONCE_LATTICE_PNCOUNTER);
    struct once_bytes low = MAKE(once_pncounter_add(zero, b("a"), INT64_MIN, &out));
    struct once_bytes lower = merge(low, MAKE(once_pncounter_add(low, b("a"), -1, &out)));
    int64_t value = 0;

    (void)state;
    assert_ok(once_pncounter_value(low, &value));
    assert_int_equal(value, INT64_MIN);
    assert_int_equal(once_pncounter_value(lower, &value), ONCE_ERR_OVERFLOW);
    /* Back in range: nothing was lost. */
    lower = merge(lower, MAKE(once_pncounter_add(lower, b("b"), 1, &out)));
    assert_ok(once_pncounter_value(lower, &value));
    assert_int_equal(value, INT64_MIN);
}

static void iter__numbers__come_in_order_of_nodes(void **state)
{
    struct once_bytes counter = bottom(ONCE_LATTICE_PNCOUNTER);
    struct once_lattice_iter iter;
    struct once_lattice_entry entry;

    (void)state;
    counter = merge(MAKE(once_pncounter_add(counter, b("b"), 5, &out)),
                    MAKE(once_pncounter_add(counter, b("a"), -2, &out)));
    assert_ok(once_lattice_iter_init(&iter, counter));
    assert_int_equal(once_lattice_iter_next(&iter, &entry), 1);
    assert_true(same(entry.key, b("a")));
    assert_int_equal(entry.number, 0);
    assert_int_equal(entry.minus, 2);
    assert_int_equal(once_lattice_iter_next(&iter, &entry), 1);
    assert_true(same(entry.key, b("b")));
    assert_int_equal(entry.number, 5);
    assert_int_equal(once_lattice_iter_next(&iter, &entry), 0);
    assert_true(same(entry.key, b("b")));
    assert_int_equal(once_lattice_iter_next(&iter, &entry), 0);
}

/* The model: an array of members, sorted, without doubles, encoded by hand. */
struct member {
    uint8_t bytes[100];
    uint32_t size;
};

static int member_compare(const void *x, const void *y)
{
    const struct member *left = x, *right = y;
    uint32_t common = left->size < right->size ? left->size : right->size;
    int sign = memcmp(left->bytes, right->bytes, common);

    return sign != 0 ? sign : (int)left->size - (int)right->size;
}

static struct once_bytes encode(struct member *members, size_t count)
{
    struct once_buf out = fresh();
    uint8_t header[6] = {ONCE_LATTICE_GSET, 1};
    uint32_t unique = 0;

    qsort(members, count, sizeof *members, member_compare);
    assert_ok(once_buf_append(&out, header, sizeof header));
    for (size_t i = 0; i < count; i++) {
        uint8_t size[4] = {(uint8_t)members[i].size};

        if (i > 0 && member_compare(&members[i - 1], &members[i]) == 0)
            continue;
        assert_ok(once_buf_append(&out, size, sizeof size));
        assert_ok(once_buf_append(&out, members[i].bytes, members[i].size));
        unique++;
    }
    memcpy(out.data + 2, &(uint32_t){htole32(unique)}, 4);
    return taken(ONCE_OK, &out);
}

/* How members of a random set look. */
struct shape {
    const char *name;
    uint32_t size_min;
    uint32_t size_max;
    uint32_t same_prefix; /* bytes that all members begin with */
    uint32_t alphabet;    /* few letters make many doubles and near doubles */
};

static const struct shape shapes[] = {
    {"short and long", 0, 99, 0, 256},
    {"as the sprint likes them", 16, 36, 0, 256},
    {"at the sprint's edges", 7, 40, 0, 256},
    {"all begin alike", 12, 36, 8, 4},
    {"tiny", 0, 3, 0, 3},
    {"nearly alike", 39, 41, 36, 16},
};

static struct member random_member(uint64_t *seed, const struct shape *shape)
{
    struct member member = {0};

    member.size = shape->size_min +
                  (uint32_t)help_below(seed, shape->size_max - shape->size_min + 1);
    for (uint32_t i = 0; i < member.size; i++)
        member.bytes[i] = i < shape->same_prefix ? 'p' : (uint8_t)help_below(seed, shape->alphabet);
    return member;
}

/* The first half of the members is one set, the second the other. */
static void check_model(struct member *members, size_t count, const char *name)
{
    struct once_bytes left = encode(members, count), right = encode(members + count, count);
    struct once_bytes both = encode(members, 2 * count), merged = merge(left, right);

    if (!same(merged, both) || !same(merge(right, left), both))
        fail_msg("%s: 2 * %zu members", name, count);
    assert_ok(once_lattice_check(merged, NULL, NULL));
    assert_int_equal(order(left, merged),
                     same(left, merged) ? ONCE_ORDER_EQUAL : ONCE_ORDER_BEFORE);
    assert_state(merge(merged, left), merged);
    assert_state(merge(merged, merged), merged);
}

static void check_union(uint64_t *seed, const struct shape *shape, size_t count, unsigned shared)
{
    struct member *members = calloc(2 * count + 1, sizeof *members);

    assert_non_null(members);
    for (size_t i = 0; i < count; i++) {
        members[i] = random_member(seed, shape);
        members[count + i] = help_below(seed, 100) < shared ? members[i]
                                                            : random_member(seed, shape);
    }
    check_model(members, count, shape->name);
    free(members);
}

static void gset__random_sets_of_every_shape__merge_as_the_model_says(void **state)
{
    static const size_t counts[] = {0, 1, 15, 16, 17, 300, 2000};
    static const unsigned shares[] = {0, 3, 50, 97, 100};
    uint64_t seed = help_seed();

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j++) {
            for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
                check_union(&seed, &shapes[i], counts[j], shares[k]);
                help_release(NULL);
            }
        }
    }
}

static void gset__disjoint_ranges__merge_as_the_model_says(void **state)
{
    enum { COUNT = 1000 };
    struct member *members = calloc(2 * COUNT, sizeof *members);
    uint64_t seed = help_seed();
    struct once_bytes left, right, both;

    (void)state;
    assert_non_null(members);
    for (size_t i = 0; i < 2 * COUNT; i++) {
        members[i] = random_member(&seed, &shapes[1]);
        members[i].bytes[0] = (uint8_t)((members[i].bytes[0] & 0x7f) | (i < COUNT ? 0 : 0x80));
    }
    left = encode(members, COUNT);
    right = encode(members + COUNT, COUNT);
    both = encode(members, 2 * COUNT);
    assert_state(merge(left, right), both);
    assert_state(merge(right, left), both);
    free(members);
}

static void gset__members_that_begin_others__are_all_kept(void **state)
{
    enum { COUNT = 400 };
    struct member *members = calloc(2 * COUNT, sizeof *members);
    uint64_t seed = help_seed();
    struct once_bytes left, right, both;

    (void)state;
    assert_non_null(members);
    for (size_t i = 0; i < COUNT; i++) {
        members[i] = random_member(&seed, &shapes[1]);
        members[COUNT + i] = members[i];
        members[COUNT + i].size += (uint32_t)help_below(&seed, 3); /* by zeros, or not at all */
    }
    left = encode(members, COUNT);
    right = encode(members + COUNT, COUNT);
    both = encode(members, 2 * COUNT);
    assert_state(merge(left, right), both);
    assert_state(merge(right, left), both);
    free(members);
}

/* Members that begin with one of two prefixes, which differ in a byte or in their size. */
struct family {
    struct member prefixes[2];
    uint32_t size_min;
    uint32_t size_max;
    uint32_t letters;
    uint8_t first_letter; /* 0 looks like the zeros that short members are filled up with */
};

static struct family random_family(uint64_t *seed)
{
    static const uint32_t letters[] = {2, 3, 10, 16, 200};
    struct family family = {
        .letters = letters[help_below(seed, sizeof letters / sizeof *letters)],
        .first_letter = help_below(seed, 3) == 0 ? 0 : '0',
    };
    struct member *prefix = family.prefixes;
    uint32_t spread = help_below(seed, 2) == 0 ? 1 : 40;

    prefix[0].size = (uint32_t)help_below(seed, 41);
    for (uint32_t i = 0; i < prefix[0].size; i++)
        prefix[0].bytes[i] = (uint8_t)help_random(seed);
    prefix[1] = prefix[0];
    if (help_below(seed, 2) == 0)
        prefix[1].bytes[help_below(seed, prefix[0].size + 1)] ^= 1;
    if (help_below(seed, 4) == 0)
        prefix[1].size = (uint32_t)help_below(seed, 41);

    family.size_min = 1 + (uint32_t)help_below(seed, 80);
    if (help_below(seed, 4) != 0) /* mostly a few letters behind the prefix */
        family.size_min = prefix[0].size + 1 + (uint32_t)help_below(seed, 16);
    family.size_max = family.size_min + (uint32_t)help_below(seed, spread);
    family.size_max = family.size_max < 80 ? family.size_max : 80;
    return family;
}

static struct member family_member(uint64_t *seed, const struct family *family)
{
    struct member member = family->prefixes[help_below(seed, 2)];
    uint32_t prefix_size = member.size;

    member.size = family->size_min +
                  (uint32_t)help_below(seed, family->size_max - family->size_min + 1);
    for (uint32_t i = prefix_size; i < member.size; i++)
        member.bytes[i] = (uint8_t)(family->first_letter + help_below(seed, family->letters));
    return member;
}

/* Two sets of a family; the second has some members of the first. */
static struct member *family_members(uint64_t *seed, size_t count)
{
    struct member *members = calloc(2 * count, sizeof *members);
    struct family family = random_family(seed);
    uint64_t shared = help_below(seed, 2) == 0 ? 0 : help_below(seed, 101);

    assert_non_null(members);
    for (size_t i = 0; i < count; i++) {
        members[i] = family_member(seed, &family);
        members[count + i] = help_below(seed, 100) < shared ? members[i]
                                                            : family_member(seed, &family);
    }
    return members;
}

static void gset__members_of_common_prefixes__merge_as_the_model_says(void **state)
{
    uint64_t seed = help_seed();

    (void)state;
    for (int i = 0; i < 2000; i++) {
        size_t count = 100 + help_below(&seed, 900);
        struct member *members = family_members(&seed, count);

        check_model(members, count, "common prefixes");
        free(members);
        help_release(NULL);
    }
}

/* Overwrites bytes and exchanges pieces behind the header, and cuts. */
static struct once_bytes damaged(uint64_t *seed, struct once_bytes set)
{
    struct once_bytes copy = keep(set.data, set.size - help_below(seed, set.size - 6));
    size_t body_size = copy.size - 6;
    uint8_t *body = help_blocks->data + 6;

    for (uint64_t i = help_below(seed, 20); i > 0; i--)
        body[help_below(seed, body_size)] = (uint8_t)help_random(seed);
    for (uint64_t i = help_below(seed, 4); i > 0 && body_size > 400; i--) {
        uint8_t *x = body + help_below(seed, body_size - 200), piece[200];
        uint8_t *y = body + help_below(seed, body_size - 200);

        memcpy(piece, x, sizeof piece);
        memmove(x, y, sizeof piece);
        memcpy(y, piece, sizeof piece);
    }
    return keep(copy.data, copy.size);
}

static void gset__damaged_members_of_common_prefixes__are_never_left(void **state)
{
    uint64_t seed = help_seed();

    (void)state;
    for (int i = 0; i < 2000; i++) {
        size_t count = 200 + help_below(&seed, 800);
        struct member *members = family_members(&seed, count);
        struct once_bytes left = encode(members, count), right = encode(members + count, count);
        struct once_buf out;

        left = damaged(&seed, left);
        if (help_below(&seed, 2) == 0)
            right = damaged(&seed, right);
        once_buf_init(&out, help_below(&seed, 4) == 0
                                ? 6 + help_below(&seed, left.size + right.size)
                                : ONCE_LATTICE_SIZE_MAX);
        if (once_lattice_merge(left, right, &out) == ONCE_OK)
            assert_true(out.size <= left.size + right.size);
        else
            assert_int_equal(out.size, 0);
        once_buf_release(&out);
        free(members);
        help_release(NULL);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, help_release)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gset__added__contains),
        TEST(gset__order__is_inclusion),
        TEST(gset__keys__sort_by_unsigned_bytes_prefix_first),
        TEST(gset__check__refuses_what_is_not_canonical),
        TEST(vv__increment__counts_events_of_each_node),
        TEST(vv__order__tells_before_from_concurrent),
        TEST(vv__set_to_zero__is_the_bottom_but_a_bad_node_is_refused),
        TEST(vv__increment_past_64_bits__is_an_overflow),
        TEST(vv__check__refuses_zeros_and_nameless_nodes),
        TEST(gcounter__adds_of_two_nodes__sum_once_each),
        TEST(gcounter__past_64_bits__add_and_value_say_so),
        TEST(pncounter__up_and_down__is_the_difference),
        TEST(pncounter__at_the_ends_of_64_bits__is_exact_or_an_overflow),
        TEST(iter__numbers__come_in_order_of_nodes),
        TEST(gset__random_sets_of_every_shape__merge_as_the_model_says),
        TEST(gset__disjoint_ranges__merge_as_the_model_says),
        TEST(gset__members_that_begin_others__are_all_kept),
        TEST(gset__members_of_common_prefixes__merge_as_the_model_says),
        TEST(gset__damaged_members_of_common_prefixes__are_never_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
