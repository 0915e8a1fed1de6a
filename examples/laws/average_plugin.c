/* SPDX-License-Identifier: Apache-2.0
 *
 * A merge that looks harmless: the average of two numbers. The average of a number with itself is
 * that number, and of two numbers it is the same either way round. But whoever is averaged last
 * counts most: regrouping changes the result, and replicas that average each other's numbers do not
 * agree.
 *
 *     once laws ./average_plugin.so
 */
#include <once/laws_plugin.h>

#include <stdio.h>
#include <string.h>

static double number_of(const void *state)
{
    double number;

    memcpy(&number, state, sizeof(number));
    return number;
}

/* 0, 1, 2, … */
size_t once_laws_generate(uint64_t index, void *state, size_t capacity)
{
    double number = (double)index;

    if (capacity < sizeof(number))
        return ONCE_LAWS_END;
    memcpy(state, &number, sizeof(number));
    return sizeof(number);
}

size_t once_laws_merge(const void *a, size_t a_size, const void *b, size_t b_size, void *out,
                       size_t capacity)
{
    double number = (number_of(a) + number_of(b)) / 2;

    (void)a_size;
    (void)b_size;
    (void)capacity;
    memcpy(out, &number, sizeof(number));
    return sizeof(number);
}

size_t once_laws_describe(const void *state, size_t size, char *text, size_t capacity)
{
    (void)size;
    return (size_t)snprintf(text, capacity, "%g", number_of(state));
}
