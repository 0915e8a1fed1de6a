/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/json_number.h"

#include <fenv.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The canonical form, or the name of the error. */
static const char *canonical(const char *literal, enum once_json_numbers numbers)
{
    static char text[ONCE__JSON_NUMBER_SIZE_MAX + 1];
    struct once_bytes bytes = once_bytes_of(literal);
    struct once__json_number number;
    const char *what = NULL;
    size_t size = 0;
    int err;

    assert_int_equal(once__json_number_scan(bytes, 0, &size, NULL), ONCE_OK);
    assert_int_equal(size, bytes.size);
    err = once__json_number_canonical(bytes, numbers, &number, &what);
    if (err != ONCE_OK) {
        assert_non_null(what);
        return once_err_name(err);
    }
    memcpy(text, number.text, number.size);
    text[number.size] = '\0';
    return text;
}

static double from_bits(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* RFC 8785, appendix B. */
static const struct {
    uint64_t bits;
    const char *text;
} appendix_b[] = {
    {0x0000000000000000, "0"},
    {0x8000000000000000, "0"},
    {0x0000000000000001, "5e-324"},
    {0x8000000000000001, "-5e-324"},
    {0x7fefffffffffffff, "1.7976931348623157e+308"},
    {0xffefffffffffffff, "-1.7976931348623157e+308"},
    {0x4340000000000000, "9007199254740992"},
    {0xc340000000000000, "-9007199254740992"},
    {0x4430000000000000, "295147905179352830000"},
    {0x44b52d02c7e14af5, "9.999999999999997e+22"},
    {0x44b52d02c7e14af6, "1e+23"},
    {0x44b52d02c7e14af7, "1.0000000000000001e+23"},
    {0x444b1ae4d6e2ef4e, "999999999999999700000"},
    {0x444b1ae4d6e2ef4f, "999999999999999900000"},
    {0x444b1ae4d6e2ef50, "1e+21"},
    {0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
    {0x3eb0c6f7a0b5ed8d, "0.000001"},
    {0x41b3de4355555553, "333333333.3333332"},
    {0x41b3de4355555554, "333333333.33333325"},
    {0x41b3de4355555555, "333333333.3333333"},
    {0x41b3de4355555556, "333333333.3333334"},
    {0x41b3de4355555557, "333333333.33333343"},
    {0xbecbf647612f3696, "-0.0000033333333333333333"},
    {0x43143ff3c1cb0959, "1424953923781206.2"},
};

static void number__appendix_b_at_any_precision__is_the_printed_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(appendix_b); i++) {
        static const int precisions[] = {16, 17, 40, 780};

        for (size_t j = 0; j < COUNT(precisions); j++) {
            char literal[820];

            snprintf(literal, sizeof(literal), "%.*e", precisions[j],
                     from_bits(appendix_b[i].bits));
            assert_string_equal(canonical(literal, ONCE_JSON_RFC8785), appendix_b[i].text);
        }
        /* The canonical form is a fixed point, and exact. */
        assert_string_equal(canonical(appendix_b[i].text, ONCE_JSON_EXACT), appendix_b[i].text);
    }
}

static void number__exact__keeps_every_spelling_of_a_kept_value(void **state)
{
    static const char *const cases[][2] = {
        {"0", "0"},
        {"-0", "0"},
        {"-0.0e-7", "0"},
        {"0e999999999999999999999", "0"},
        {"1", "1"},
        {"-1", "-1"},
        {"10", "10"},
        {"1.0", "1"},
        {"1.50", "1.5"},
        {"150e-2", "1.5"},
        {"0.15E+1", "1.5"},
        {"1e0", "1"},
        {"1e21", "1e+21"},
        {"1e20", "100000000000000000000"},
        {"123456789012345e6", "123456789012345000000"},
        {"123456789012345e7", "1.23456789012345e+21"},
        {"1e-6", "0.000001"},
        {"1e-7", "1e-7"},
        {"0.00000123", "0.00000123"},
        {"0.000000123", "1.23e-7"},
        {"123456.789", "123456.789"},
        {"9007199254740991", "9007199254740991"},
        {"9007199254740992", "9007199254740992"},
        {"9007199254740994", "9007199254740994"},
        {"0.1", "0.1"},
        {"5e-324", "5e-324"},
        {"2.2250738585072014e-308", "2.2250738585072014e-308"},
        {"1.7976931348623157e308", "1.7976931348623157e+308"},
        {"1000000000000000000000000000000e-30", "1"},
        {"0.000000000000000000000000000001e30", "1"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_string_equal(canonical(cases[i][0], ONCE_JSON_EXACT), cases[i][1]);
        assert_string_equal(canonical(cases[i][0], ONCE_JSON_RFC8785), cases[i][1]);
    }
}

static void number__that_a_double_would_change__is_refused_or_rounded(void **state)
{
    static const char *const cases[][2] = {
        {"9007199254740993", "9007199254740992"},
        {"-9007199254740993", "-9007199254740992"},
        {"100.00000000000000000001", "100"},
        {"0.10000000000000001", "0.1"},
        {"333333333.33333329", "333333333.3333333"},
        {"123456789012345678", "123456789012345680"},
        {"3e-324", "5e-324"},
        {"1e-400", "0"},
        {"-1e-400", "0"},
        {"2e-324", "0"},
        {"1e-99999999999999999999999", "0"},
        {"1.7976931348623158e308", "1.7976931348623157e+308"},
        /* Half way between two doubles, then the least bit more. */
        {"9007199254740993.0", "9007199254740992"},
        {"9007199254740993.0000000000000000000000001", "9007199254740994"},
        {"9007199254740995", "9007199254740996"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_string_equal(canonical(cases[i][0], ONCE_JSON_EXACT), "ERR_JSON_NUMBER");
        assert_string_equal(canonical(cases[i][0], ONCE_JSON_RFC8785), cases[i][1]);
    }
}

static void number__beyond_the_range__is_refused_always(void **state)
{
    static const char *const cases[] = {
        "1e400", "-1e400", "1e309", "1.7976931348623159e308", "1e99999999999999999999999999",
        "2e308",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_string_equal(canonical(cases[i], ONCE_JSON_EXACT), "ERR_JSON_NUMBER");
        assert_string_equal(canonical(cases[i], ONCE_JSON_RFC8785), "ERR_JSON_NUMBER");
    }
}

/* Where only the last of very many digits decides, and where zeros outweigh a huge exponent. */
static void number__very_long_literals__round_by_all_their_digits(void **state)
{
    enum { SIZE = 5000 };
    char literal[SIZE + 32];

    (void)state;
    memset(literal, '0', SIZE);
    memcpy(literal, "9007199254740993.0", 18);
    literal[SIZE] = '\0';
    assert_string_equal(canonical(literal, ONCE_JSON_RFC8785), "9007199254740992");
    literal[SIZE - 1] = '1';
    assert_string_equal(canonical(literal, ONCE_JSON_RFC8785), "9007199254740994");
    assert_string_equal(canonical(literal, ONCE_JSON_EXACT), "ERR_JSON_NUMBER");

    memset(literal, '0', SIZE);
    memcpy(literal, "0.0", 3);
    memcpy(literal + SIZE, "12e5000", 8);
    assert_string_equal(canonical(literal, ONCE_JSON_EXACT), "12");
    memset(literal, '0', SIZE);
    literal[0] = '7';
    memcpy(literal + SIZE, "e-5000", 7);
    assert_string_equal(canonical(literal, ONCE_JSON_EXACT), "0.7");
}

/* Does any decimal of so many digits read back as the value? */
static bool readable_with(double value, int digit_count)
{
    char text[64];
    long long digits;
    char *exponent;

    snprintf(text, sizeof(text), "%.*e", digit_count - 1, value);
    exponent = strchr(text, 'e');
    assert_non_null(exponent);
    *exponent = '\0';
    if (text[1] == '.')
        memmove(text + 1, text + 2, strlen(text + 2) + 1);
    digits = strtoll(text, NULL, 10);
    for (long long near = digits - 2; near <= digits + 2; near++) {
        char candidate[96];

        snprintf(candidate, sizeof(candidate), "%llde%ld", near,
                 strtol(exponent + 1, NULL, 10) - digit_count + 1);
        if (near > 0 && strtod(candidate, NULL) == value)
            return true;
    }
    return false;
}

static int count_digits(const char *text)
{
    int count = 0, zeros = 0;

    for (; *text != '\0' && *text != 'e'; text++) {
        if (*text < '0' || *text > '9' || (*text == '0' && count == 0))
            continue;
        count++;
        zeros = *text == '0' ? zeros + 1 : 0;
    }
    return count - zeros;
}

static void assert_shortest(uint64_t bits)
{
    double value = from_bits(bits);
    char literal[820];
    const char *text;
    int digit_count;

    snprintf(literal, sizeof(literal), "%.770e", value);
    text = canonical(literal, ONCE_JSON_RFC8785);
    assert_true(strtod(text, NULL) == value);
    digit_count = count_digits(text);
    assert_in_range(digit_count, 1, 17);
    if (digit_count > 1)
        assert_false(readable_with(value, digit_count - 1));
}

/* Around a power of two the spacing of doubles changes, and with it which decimal is shortest. */
static void number__around_every_power_of_two__is_shortest_and_reads_back(void **state)
{
    (void)state;
    for (unsigned shift = 0; shift < 52; shift++)
        assert_shortest(1ULL << shift);
    for (uint64_t exponent = 1; exponent < 2047; exponent++) {
        assert_shortest(exponent << 52);
        assert_shortest((exponent << 52) + 1);
        assert_shortest((exponent << 52) - 1);
    }
}

/* The nearest decimal of the shortest length lies below and reads back as another double. */
static void number__power_of_two_with_a_nearer_neighbour_below__takes_the_one_above(void **state)
{
    (void)state;
    assert_string_equal(canonical("7.1202363472230444e-307", ONCE_JSON_RFC8785),
                        "7.120236347223045e-307");
    assert_string_equal(canonical("7.2911220195563975e-304", ONCE_JSON_RFC8785),
                        "7.291122019556398e-304");
    assert_string_equal(canonical("5.3510970434775465e-197", ONCE_JSON_RFC8785),
                        "5.351097043477547e-197");
}

static void number__malformed__is_refused_where_it_breaks(void **state)
{
    static const struct {
        const char *text;
        size_t offset;
    } cases[] = {
        {"-", 1},    {"-a", 1}, {"01", 0},  {"-01", 1},  {"00", 0},  {"1.", 2},
        {"1.e5", 2}, {"1e", 2}, {"1e+", 3}, {"1E-x", 3}, {"-.5", 1}, {"1.5e", 4},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct once_defect defect = {0};
        size_t size = 42;

        assert_int_equal(once__json_number_scan(once_bytes_of(cases[i].text), 0, &size, &defect),
                         ONCE_ERR_JSON);
        assert_int_equal(defect.offset, cases[i].offset);
        assert_non_null(defect.what);
        assert_int_equal(size, 42);
    }
}

static void number__scan__stops_behind_the_number(void **state)
{
    size_t size = 0;

    (void)state;
    assert_int_equal(once__json_number_scan(once_bytes_of("[-1.5e+3,2]"), 1, &size, NULL), ONCE_OK);
    assert_int_equal(size, 7);
    assert_int_equal(once__json_number_scan(once_bytes_of("0x10"), 0, &size, NULL), ONCE_OK);
    assert_int_equal(size, 1);
}

/* Compiles a locale with localedef into a directory of our own; false when that cannot be done
 * here. */
static bool use_locale(const char *directory, const char *name)
{
    char command[256];

    snprintf(command, sizeof(command), "localedef -i %s -f UTF-8 %s/%s.UTF-8 2>/dev/null", name,
             directory, name);
    if (system(command) == -1)
        return false;
    snprintf(command, sizeof(command), "%s.UTF-8", name);
    return setlocale(LC_ALL, command) != NULL;
}

static void number__decimal_point_is_not_a_point__makes_no_difference(void **state)
{
    static const char *const names[] = {"de_DE", "ps_AF"}; /* a comma; two bytes */
    char directory[] = "/tmp/once-locale-XXXXXX";
    char command[64];
    size_t tried = 0;

    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(setenv("LOCPATH", directory, 1), 0);
    for (size_t i = 0; i < COUNT(names); i++) {
        if (!use_locale(directory, names[i]))
            continue;
        assert_string_not_equal(localeconv()->decimal_point, ".");
        tried++;
        for (size_t j = 0; j < COUNT(appendix_b); j++)
            assert_string_equal(canonical(appendix_b[j].text, ONCE_JSON_EXACT), appendix_b[j].text);
        assert_string_equal(canonical("333333333.33333329", ONCE_JSON_RFC8785),
                            "333333333.3333333");
    }
    assert_non_null(setlocale(LC_ALL, "C"));
    assert_int_equal(unsetenv("LOCPATH"), 0);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
    if (tried < COUNT(names))
        skip(); /* localedef and its sources (Debian: locales) are not installed */
}

/* Under each rounding mode, and with every exception a signal; all of it as before afterwards. */
static void number__host_rounds_and_traps_as_it_likes__makes_no_difference(void **state)
{
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    static const char *const cases[][2] = {
        {"0.30000000000000004", "0.30000000000000004"},
        {"-0.30000000000000004", "-0.30000000000000004"},
        {"1e308", "1e+308"},
        {"1e-310", "1e-310"},
        {"333333333.33333329", "333333333.3333333"},
        {"9007199254740993", "9007199254740992"},
        {"9007199254740995", "9007199254740996"},
        {"3e-324", "5e-324"},
        {"2e-324", "0"},
        {"1.7976931348623158e308", "1.7976931348623157e+308"},
        {"1.7976931348623159e308", "ERR_JSON_NUMBER"},
        {"7.1202363472230444e-307", "7.120236347223045e-307"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(modes) * 2; i++) {
        int mode = modes[i / 2];
        int traps = i % 2 == 0 ? 0 : FE_INEXACT | FE_OVERFLOW | FE_UNDERFLOW;

        for (size_t j = 0; j < COUNT(cases) + COUNT(appendix_b); j++) {
            bool is_case = j < COUNT(cases);
            const char *written = is_case ? cases[j][0] : appendix_b[j - COUNT(cases)].text;
            const char *expected = is_case ? cases[j][1] : written;
            const char *text;
            int mode_after, traps_after, raised_after;

            assert_int_equal(feclearexcept(FE_ALL_EXCEPT), 0);
            assert_int_equal(fesetround(mode), 0);
            assert_int_not_equal(feenableexcept(traps), -1);
            text = canonical(written, ONCE_JSON_RFC8785);
            mode_after = fegetround();
            raised_after = fetestexcept(FE_ALL_EXCEPT);
            traps_after = fedisableexcept(FE_ALL_EXCEPT);
            assert_int_equal(fesetround(FE_TONEAREST), 0);
            assert_string_equal(text, expected);
            assert_int_equal(mode_after, mode);
            assert_int_equal(traps_after, traps);
            assert_int_equal(raised_after, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number__appendix_b_at_any_precision__is_the_printed_form),
        cmocka_unit_test(number__exact__keeps_every_spelling_of_a_kept_value),
        cmocka_unit_test(number__that_a_double_would_change__is_refused_or_rounded),
        cmocka_unit_test(number__beyond_the_range__is_refused_always),
        cmocka_unit_test(number__very_long_literals__round_by_all_their_digits),
        cmocka_unit_test(number__around_every_power_of_two__is_shortest_and_reads_back),
        cmocka_unit_test(number__power_of_two_with_a_nearer_neighbour_below__takes_the_one_above),
        cmocka_unit_test(number__malformed__is_refused_where_it_breaks),
        cmocka_unit_test(number__scan__stops_behind_the_number),
        cmocka_unit_test(number__decimal_point_is_not_a_point__makes_no_difference),
        cmocka_unit_test(number__host_rounds_and_traps_as_it_likes__makes_no_difference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
