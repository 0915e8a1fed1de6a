/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations of machines: how states are numbered, and what is refused where.
 */
#include "unit/lattice_help.h"

#include "object/object.h"

static struct once__declaration read_good(const char *text)
{
    struct once__declaration declaration;
    struct once_bytes bytes = keep(text, strlen(text));

    assert_ok(once__declaration_read(bytes, &declaration, NULL));
    return declaration;
}

static void assert_bad(const char *text, size_t at)
{
    struct once__declaration declaration;
    struct once_defect defect = {.offset = SIZE_MAX};
    struct once_bytes bytes = keep(text, strlen(text));

    assert_int_equal(once__declaration_read(bytes, &declaration, &defect), ONCE_ERR_INVALID);
    assert_int_equal(defect.offset, at);
    assert_non_null(defect.what);
}

static void declaration__of_moves__numbers_states_by_first_mention(void **state)
{
    struct once__declaration declaration = read_good("new>paid paid>shipped new>void paid>paid");

    (void)state;
    assert_int_equal(declaration.machine.state_count, 4);
    assert_int_equal(once__declaration_state(&declaration, b("new")), 0);
    assert_int_equal(once__declaration_state(&declaration, b("paid")), 1);
    assert_int_equal(once__declaration_state(&declaration, b("shipped")), 2);
    assert_int_equal(once__declaration_state(&declaration, b("void")), 3);
    assert_int_equal(once__declaration_state(&declaration, b("ne")), UINT32_MAX);
    assert_int_equal(once__declaration_state(&declaration, b("news")), UINT32_MAX);
    assert_int_equal(once__declaration_state(&declaration, b("")), UINT32_MAX);
    assert_int_equal(declaration.machine.to[0], 1U << 1 | 1U << 3);
    assert_int_equal(declaration.machine.to[1], 1U << 2 | 1U << 1);
    for (size_t i = 2; i < ONCE_MACHINE_STATES_MAX; i++)
        assert_int_equal(declaration.machine.to[i], 0);
}

static void declaration__malformed__is_refused_at_the_move(void **state)
{
    (void)state;
    assert_bad("", 0);
    assert_bad(" a>b", 0);
    assert_bad("a>b ", 4);
    assert_bad("a>b  b>c", 4);
    assert_bad("a>b b", 4);
    assert_bad("a>", 0);
    assert_bad("a>b\tb>c", 0);
    assert_bad("a>b>c", 0);
}

/* s0>s1 s2>s3 …: two states a move. */
static struct once_bytes states(unsigned count)
{
    struct once_buf out = fresh();

    for (unsigned i = 0; i + 1 < count; i++) {
        char move[32];
        int size = snprintf(move, sizeof move, "%ss%u>s%u", i > 0 ? " " : "", i, i + 1);

        assert_ok(once_buf_append(&out, move, (size_t)size));
    }
    return taken(ONCE_OK, &out);
}

static void declaration__of_64_states__is_the_largest(void **state)
{
    struct once__declaration declaration;
    struct once_defect defect;

    (void)state;
    assert_ok(once__declaration_read(states(64), &declaration, NULL));
    assert_int_equal(declaration.machine.state_count, 64);
    assert_true(declaration.machine.to[62] == UINT64_C(1) << 63);
    assert_int_equal(once__declaration_read(states(65), &declaration, &defect), ONCE_ERR_INVALID);
    assert_int_equal(defect.offset, states(64).size + 1);
}

static void declaration__longer_than_the_bound__is_refused(void **state)
{
    struct once_buf out = fresh();
    struct once__declaration declaration;
    struct once_bytes bytes;

    (void)state;
    assert_ok(once_buf_append(&out, "a>b", 3));
    while (out.size + 4 <= ONCE_DECLARATION_SIZE_MAX)
        assert_ok(once_buf_append(&out, " a>b", 4));
    assert_ok(once__declaration_read(once_buf_bytes(&out), &declaration, NULL));
    assert_ok(once_buf_append(&out, " a>b", 4));
    bytes = taken(ONCE_OK, &out);
    assert_int_equal(once__declaration_read(bytes, &declaration, NULL), ONCE_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(declaration__of_moves__numbers_states_by_first_mention,
                                  help_release),
        cmocka_unit_test_teardown(declaration__malformed__is_refused_at_the_move, help_release),
        cmocka_unit_test_teardown(declaration__of_64_states__is_the_largest, help_release),
        cmocka_unit_test_teardown(declaration__longer_than_the_bound__is_refused, help_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
