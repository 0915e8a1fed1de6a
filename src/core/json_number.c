/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON numbers in their RFC 8785 form: the shortest decimal digits that read back as the same
 * double, nearest first, laid out as ECMAScript does.
 *
 * The code runs inside other people's processes, where the decimal point may be a comma, subnormal
 * numbers may count as zero, rounding may go up or down, and an inexact result may be a signal. So
 * no text with a decimal point goes through strtod(), what snprintf() prints between the digits is
 * skipped, doubles are compared by their bits, and strtod() and snprintf() see doubles only while
 * rounding is to nearest and no exception traps; then the host's settings are put back.
 */
#include "core/json_number.h"

#include "base/assert.h"
#include "base/defect.h"

#include <errno.h>
#include <fenv.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* No decimal half way between two doubles has more than 768 digits, so one digit that stands
     * for "and something more" behind 800 digits rounds as all of them would. */
    DIGITS_KEPT = 800,
    DIGITS_MAX = DIGITS_KEPT + 1,
    DIGITS_SHORTEST_MAX = 17, /* enough to tell any two doubles apart */
    DIGITS_SAFE = DBL_DIG,    /* so few that no two decimals are one normal double */
    POINT_SAFE = 290,         /* |point| up to here is far inside the normal range */
    POINT_MAX = 400,          /* beyond: infinity, or zero */
    EXPONENT_MAX = 1000000000 /* larger exponents are cut to this */
};

_Static_assert(ONCE_JSON_SIZE_MAX < EXPONENT_MAX / 2, "no run of zeros outweighs a cut exponent");
_Static_assert(DBL_DIG == 15 && DBL_MANT_DIG == 53, "a double is an IEEE 754 binary64");

/* 0.DIGITS times 10^point. The first digit is not 0, nor is the last; no digits at all are zero. */
struct decimal {
    char digits[DIGITS_MAX];
    size_t digit_count;
    int64_t point;
};

static bool is_digit(uint8_t character)
{
    return character >= '0' && character <= '9';
}

static size_t skip_digits(struct once_bytes json, size_t offset)
{
    while (offset < json.size && is_digit(json.data[offset]))
        offset++;
    return offset;
}

int once__json_number_scan(struct once_bytes json, size_t offset, size_t *ret_size,
                           struct once_defect *ret_defect)
{
    size_t start = offset;
    size_t digits;

    ONCE_ASSERT(offset < json.size);
    if (json.data[offset] == '-')
        offset++;
    digits = offset;
    offset = skip_digits(json, offset);
    if (offset == digits)
        return once__defect(ONCE_ERR_JSON, offset, "a digit must follow the minus", ret_defect);
    if (json.data[digits] == '0' && offset - digits > 1)
        return once__defect(ONCE_ERR_JSON, digits, "a number may not begin with a zero",
                            ret_defect);
    if (offset < json.size && json.data[offset] == '.') {
        digits = offset + 1;
        offset = skip_digits(json, digits);
        if (offset == digits)
            return once__defect(ONCE_ERR_JSON, offset, "a digit must follow the decimal point",
                                ret_defect);
    }
    if (offset < json.size && (json.data[offset] == 'e' || json.data[offset] == 'E')) {
        offset++;
        if (offset < json.size && (json.data[offset] == '+' || json.data[offset] == '-'))
            offset++;
        digits = offset;
        offset = skip_digits(json, digits);
        if (offset == digits)
            return once__defect(ONCE_ERR_JSON, offset, "a digit must follow the exponent's e",
                                ret_defect);
    }
    *ret_size = offset - start;
    return ONCE_OK;
}

static void strip_zeros(struct decimal *decimal)
{
    while (decimal->digit_count > 0 && decimal->digits[decimal->digit_count - 1] == '0')
        decimal->digit_count--;
}

/* What follows the e of an exponent. */
static int64_t read_exponent(struct once_bytes text)
{
    bool negative = text.size > 0 && text.data[0] == '-';
    int64_t exponent = 0;

    for (size_t i = 0; i < text.size; i++) {
        if (is_digit(text.data[i]) && exponent < EXPONENT_MAX)
            exponent = exponent * 10 + (text.data[i] - '0');
    }
    if (exponent > EXPONENT_MAX)
        exponent = EXPONENT_MAX;
    return negative ? -exponent : exponent;
}

/* The literal without its sign; it has been scanned. */
static void read_decimal(struct once_bytes literal, struct decimal *ret_decimal)
{
    bool after_point = false, more = false;
    size_t i;

    ret_decimal->digit_count = 0;
    ret_decimal->point = 0;
    for (i = 0; i < literal.size && literal.data[i] != 'e' && literal.data[i] != 'E'; i++) {
        uint8_t character = literal.data[i];

        if (character == '.') {
            after_point = true;
            continue;
        }
        if (character == '0' && ret_decimal->digit_count == 0) {
            ret_decimal->point -= after_point;
            continue;
        }
        ret_decimal->point += !after_point;
        if (ret_decimal->digit_count < DIGITS_KEPT)
            ret_decimal->digits[ret_decimal->digit_count++] = (char)character;
        else
            more = more || character != '0';
    }
    if (more)
        ret_decimal->digits[ret_decimal->digit_count++] = '1';
    strip_zeros(ret_decimal);
    if (i < literal.size)
        ret_decimal->point += read_exponent(
            (struct once_bytes){literal.data + i + 1, literal.size - i - 1});
}

/* The nearest double, as its bits: comparing doubles could take two subnormals for one zero. */
static uint64_t double_bits(const struct decimal *decimal)
{
    char text[DIGITS_MAX + 16];
    int saved_errno = errno;
    double value;
    uint64_t bits;
    int printed;

    ONCE_ASSERT(decimal->digit_count > 0 && decimal->digit_count <= DIGITS_MAX);
    ONCE_ASSERT(decimal->point >= -POINT_MAX && decimal->point <= POINT_MAX + 1);
    memcpy(text, decimal->digits, decimal->digit_count);
    printed = snprintf(text + decimal->digit_count, sizeof(text) - decimal->digit_count, "e%d",
                       (int)(decimal->point - (int64_t)decimal->digit_count));
    ONCE_ASSERT(printed > 0 && (size_t)printed < sizeof(text) - decimal->digit_count);
    value = strtod(text, NULL);
    errno = saved_errno;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static bool is_infinite(uint64_t bits)
{
    return bits >> 52 == 0x7ff;
}

/* The double rounded to so many digits. */
static void print_digits(uint64_t bits, int digit_count, struct decimal *ret_decimal)
{
    char text[DIGITS_SHORTEST_MAX + 32];
    double value;
    int printed;
    const char *next;

    memcpy(&value, &bits, sizeof(value));
    printed = snprintf(text, sizeof(text), "%.*e", digit_count - 1, value);
    ONCE_ASSERT(printed > 0 && (size_t)printed < sizeof(text));
    ret_decimal->digit_count = 0;
    for (next = text; *next != 'e'; next++) {
        ONCE_ASSERT(*next != '\0');
        if (is_digit((uint8_t)*next))
            ret_decimal->digits[ret_decimal->digit_count++] = *next;
    }
    ONCE_ASSERT(ret_decimal->digit_count == (size_t)digit_count);
    ret_decimal->point = strtol(next + 1, NULL, 10) + 1;
    strip_zeros(ret_decimal);
}

/* The next larger decimal of so many digits. */
static void step_up(struct decimal *decimal, size_t digit_count)
{
    size_t i = digit_count;

    while (decimal->digit_count < digit_count)
        decimal->digits[decimal->digit_count++] = '0';
    while (i > 0 && decimal->digits[i - 1] == '9')
        decimal->digits[--i] = '0';
    if (i > 0) {
        decimal->digits[i - 1]++;
    } else {
        decimal->digits[0] = '1';
        decimal->point++;
    }
    strip_zeros(decimal);
}

static bool fits(uint64_t bits, const struct decimal *decimal)
{
    return double_bits(decimal) == bits;
}

/* Subnormal doubles lie evenly, so the nearest decimal of more digits is never worse than that of
 * fewer: the smallest count that fits is found by halving. n bits need at most 2 + n log10(2)
 * digits. */
static void shortest_subnormal(uint64_t bits, struct decimal *ret_decimal)
{
    int bit_count = 64 - __builtin_clzll(bits);
    int low = 1, high = 3 + bit_count * 31 / 100, printed = 0;

    if (high > DIGITS_SHORTEST_MAX)
        high = DIGITS_SHORTEST_MAX;
    while (low < high) {
        struct decimal tried;
        int middle = (low + high) / 2;

        print_digits(bits, middle, &tried);
        if (fits(bits, &tried)) {
            *ret_decimal = tried;
            printed = high = middle;
        } else {
            low = middle + 1;
        }
    }
    if (printed != low)
        print_digits(bits, low, ret_decimal);
}

/* Up to DIGITS_SAFE digits no two decimals are the same normal double, so there the shortest are
 * the rounded ones without their zeros. Above a power of two doubles lie twice as far apart as
 * below: the nearest decimal may be below and too far, while its neighbour above is near enough. */
static void shortest_normal(uint64_t bits, struct decimal *ret_decimal)
{
    for (int count = DIGITS_SAFE; count <= DIGITS_SHORTEST_MAX; count++) {
        print_digits(bits, count, ret_decimal);
        if (fits(bits, ret_decimal))
            return;
        step_up(ret_decimal, (size_t)count);
        if (fits(bits, ret_decimal))
            return;
    }
}

/* The shortest digits that read back as this double, which is neither zero nor infinite; among
 * those of one length the nearest. False when none do: the C library misread one of the two, and
 * the bytes that made it do so came from outside. */
static bool shortest(uint64_t bits, struct decimal *ret_decimal)
{
    if (bits >> 52 == 0)
        shortest_subnormal(bits, ret_decimal);
    else
        shortest_normal(bits, ret_decimal);
    return fits(bits, ret_decimal);
}

static void put(struct once__json_number *number, const char *text, size_t size)
{
    ONCE_ASSERT(size <= sizeof(number->text) - number->size);
    memcpy(number->text + number->size, text, size);
    number->size += size;
}

static void put_zeros(struct once__json_number *number, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        put(number, "0", 1);
}

/* ECMA-262, Number::toString: point is n, digit_count is k. Minus zero is zero. */
static void lay_out(const struct decimal *decimal, bool negative,
                    struct once__json_number *ret_number)
{
    int64_t point = decimal->point;
    int64_t count = (int64_t)decimal->digit_count;

    ret_number->size = 0;
    if (count == 0) {
        put(ret_number, "0", 1);
        return;
    }
    if (negative)
        put(ret_number, "-", 1);
    if (point > 21 || point <= -6) {
        char exponent[8];
        int printed = snprintf(exponent, sizeof(exponent), "e%+d", (int)(point - 1));

        ONCE_ASSERT(printed > 0 && (size_t)printed < sizeof(exponent));
        put(ret_number, decimal->digits, 1);
        if (count > 1) {
            put(ret_number, ".", 1);
            put(ret_number, decimal->digits + 1, decimal->digit_count - 1);
        }
        put(ret_number, exponent, (size_t)printed);
    } else if (point <= 0) {
        put(ret_number, "0.", 2);
        put_zeros(ret_number, -point);
        put(ret_number, decimal->digits, decimal->digit_count);
    } else if (count <= point) {
        put(ret_number, decimal->digits, decimal->digit_count);
        put_zeros(ret_number, point - count);
    } else {
        put(ret_number, decimal->digits, (size_t)point);
        put(ret_number, ".", 1);
        put(ret_number, decimal->digits + point, (size_t)(count - point));
    }
}

static bool same_decimal(const struct decimal *a, const struct decimal *b)
{
    return a->point == b->point && a->digit_count == b->digit_count &&
           memcmp(a->digits, b->digits, a->digit_count) == 0;
}

/* The shortest digits of the nearest double. Rounding is to nearest. */
static int nearest(const struct decimal *written, struct decimal *ret_nearest,
                   const char **ret_what)
{
    static const char beyond[] = "the number is beyond the range of a double";
    uint64_t bits = 0;

    if (written->point > POINT_MAX) {
        *ret_what = beyond;
        return ONCE_ERR_JSON_NUMBER;
    }
    if (written->point >= -POINT_MAX)
        bits = double_bits(written);
    if (is_infinite(bits)) {
        *ret_what = beyond;
        return ONCE_ERR_JSON_NUMBER;
    }
    ret_nearest->digit_count = 0;
    ret_nearest->point = 0;
    if (bits != 0 && !shortest(bits, ret_nearest)) {
        *ret_what = "the C library does not read back what it prints: send it as a string";
        return ONCE_ERR_JSON_NUMBER;
    }
    return ONCE_OK;
}

/* The same, whatever the host's floating-point settings are; they are as before afterwards. */
static int nearest_anywhere(const struct decimal *written, struct decimal *ret_nearest,
                            const char **ret_what)
{
    fenv_t host;
    int err;

    if (feholdexcept(&host) != 0) {
        *ret_what = "floating-point exceptions cannot be held back here: send it as a string";
        return ONCE_ERR_JSON_NUMBER;
    }
    if (fesetround(FE_TONEAREST) == 0) {
        err = nearest(written, ret_nearest, ret_what);
    } else {
        *ret_what = "rounding to nearest cannot be set here: send it as a string";
        err = ONCE_ERR_JSON_NUMBER;
    }
    fesetenv(&host);
    return err;
}

/* So few digits, so far inside the range, that they are their own nearest double's shortest. */
static bool is_safe(const struct decimal *written)
{
    return written->digit_count == 0 ||
           (written->digit_count <= DIGITS_SAFE && written->point >= -POINT_SAFE &&
            written->point <= POINT_SAFE);
}

int once__json_number_canonical(struct once_bytes literal, enum once_json_numbers numbers,
                                struct once__json_number *ret_number, const char **ret_what)
{
    bool negative = literal.size > 0 && literal.data[0] == '-';
    struct decimal written, canonical;
    int err;

    if (negative)
        literal = (struct once_bytes){literal.data + 1, literal.size - 1};
    read_decimal(literal, &written);
    if (is_safe(&written)) {
        lay_out(&written, negative, ret_number);
        return ONCE_OK;
    }
    err = nearest_anywhere(&written, &canonical, ret_what);
    if (err != ONCE_OK)
        return err;
    if (numbers == ONCE_JSON_EXACT && !same_decimal(&written, &canonical)) {
        *ret_what = "a double would not keep every digit of the number: send it as a string";
        return ONCE_ERR_JSON_NUMBER;
    }
    lay_out(&canonical, negative, ret_number);
    return ONCE_OK;
}
