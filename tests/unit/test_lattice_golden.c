/* SPDX-License-Identifier: Apache-2.0
 *
 * The byte layout of docs/format/lattice.md, held still: today's code makes exactly the bytes in
 * tests/golden/lattice and reads them back. A change of these files is a change of the format.
 * ONCE_GOLDEN names another folder to read them from.
 */
#include "lattice_help.h"

#include <stdio.h>

static struct once_bytes make_max(void)
{
    return MAKE(once_max_set(-2, &out));
}

static struct once_bytes make_min(void)
{
    return MAKE(once_min_set(258, &out));
}

static struct once_bytes make_flag(void)
{
    return MAKE(once_flag_raise(&out));
}

static struct once_bytes make_gset(void)
{
    return merge(MAKE(once_gset_add(b("b"), &out)), MAKE(once_gset_add(b("ab"), &out)));
}

static struct once_bytes make_vv(void)
{
    return merge(MAKE(once_vv_set(b("n2"), 1, &out)), MAKE(once_vv_set(b("n1"), 258, &out)));
}

static struct once_bytes make_lww(void)
{
    struct once_lww write = {.time = 5, .node = b("n1"), .value = b("red")};

    return MAKE(once_lww_write(&write, &out));
}

static struct once_bytes make_gcounter(void)
{
    return MAKE(once_gcounter_add(bottom(ONCE_LATTICE_GCOUNTER), b("n1"), 7, &out));
}

static struct once_bytes make_pncounter(void)
{
    struct once_bytes counter = bottom(ONCE_LATTICE_PNCOUNTER);

    counter = merge(counter, MAKE(once_pncounter_add(counter, b("n1"), 5, &out)));
    return merge(counter, MAKE(once_pncounter_add(counter, b("n1"), -2, &out)));
}

/* Of n1's adds w, y, x this replica saw the remove of w and the add of x; y got lost. It added z as
 * n2. */
static struct once_bytes make_awset(void)
{
    struct once_bytes set = bottom(ONCE_LATTICE_AWSET), seen = set;

    set = merge(set, MAKE(once_awset_add(set, WRITE("n1", "w"), &out)));
    seen = merge(seen, MAKE(once_awset_remove(set, b("w"), &out)));
    set = merge(set, MAKE(once_awset_add(set, WRITE("n1", "y"), &out)));
    seen = merge(seen, MAKE(once_awset_add(set, WRITE("n1", "x"), &out)));
    return merge(seen, MAKE(once_awset_add(seen, WRITE("n2", "z"), &out)));
}

static struct once_bytes make_mvreg(void)
{
    struct once_bytes none = bottom(ONCE_LATTICE_MVREG);

    return merge(MAKE(once_mvreg_write(none, WRITE("n1", "red"), &out)),
                 MAKE(once_mvreg_write(none, WRITE("n2", "blue"), &out)));
}

static struct once_bytes make_map(void)
{
    struct once_bytes inner = MAKE(once_map_put(b("f"), make_flag(), &out));

    return merge(MAKE(once_map_put(b("k"), make_max(), &out)),
                 MAKE(once_map_put(b("j"), inner, &out)));
}

static const struct golden {
    const char *name;
    struct once_bytes (*make)(void);
    const char *text;
} goldens[] = {
    {"max", make_max, "max{-2}"},
    {"min", make_min, "min{258}"},
    {"flag", make_flag, "flag{true}"},
    {"gset", make_gset, "gset{ab,b}"},
    {"vv", make_vv, "vv{n1:258,n2:1}"},
    {"lww", make_lww, "lww{red @5 by n1}"},
    {"gcounter", make_gcounter, "gcounter{n1:7}"},
    {"pncounter", make_pncounter, "pncounter{n1:+5-2}"},
    {"awset", make_awset, "awset{x n1:3,z n2:1 | n1:1+3,n2:1}"},
    {"mvreg", make_mvreg, "mvreg{red n1:1,blue n2:1 | n1:1,n2:1}"},
    {"map", make_map, "map{j:map{f:flag{true}},k:max{-2}}"},
};

static struct once_bytes read_golden(const char *name)
{
    const char *folder = getenv("ONCE_GOLDEN"), *slash = strrchr(__FILE__, '/');
    char path[4096], text[4096];
    FILE *file;
    size_t size;

    if (folder)
        snprintf(path, sizeof path, "%s/%s.hex", folder, name);
    else
        snprintf(path, sizeof path, "%.*s/../golden/lattice/%s.hex", (int)(slash - __FILE__),
                 __FILE__, name);
    file = fopen(path, "r");
    if (!file)
        fail_msg("cannot open %s", path);
    size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    return hex(text);
}

static void golden__every_type__is_made_as_it_always_was(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        if (!same(goldens[i].make(), read_golden(goldens[i].name)))
            fail_msg("the bytes of %s have changed", goldens[i].name);
    }
}

static void golden__every_type__is_read_as_it_always_was(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        struct once_bytes golden = read_golden(goldens[i].name);
        enum once_lattice_type type = (enum once_lattice_type)0;

        assert_ok(once_lattice_check(golden, &type, NULL));
        assert_string_equal(once_lattice_type_name(type), goldens[i].name);
        assert_text(golden, goldens[i].text);
        assert_state(merge(golden, bottom(type)), golden);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, help_release)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(golden__every_type__is_made_as_it_always_was),
        TEST(golden__every_type__is_read_as_it_always_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
